/*
 * What Python and C share on the data path. Read by both compilers: the C one, and cffi's.
 */

/* How a call ended, where it did not do what was asked. */
#define RDMAQP_CLOSED -1 /* the queue pair or the completion queue is closed */
#define RDMAQP_JUDGE -2  /* an integer compare failed, of request number qp->index: ask the judge what it is */
#define RDMAQP_VERB -3   /* qp->verb failed with qp->error; request number qp->index was not posted */
#define RDMAQP_NO_AH -4  /* a datagram without a known address handle: no driver looks before it follows it */
#define RDMAQP_STALE -5 /* memory or a destination of the domain has ended since: look whether it was the chain's */
#define RDMAQP_STATUS -6 /* a work request failed: qp->failed is its completion, qp->index its number */
#define RDMAQP_SENDS 1    /* what rdmaqp_take() takes */
#define RDMAQP_RECEIVES 2
#define RDMAQP_NO_RECORD -7 /* request qp->index has an opcode that a record has no room for */

/* One holder at a time, in the order of asking; once closed, none. */
struct rdmaqp_lock {
	uint32_t next;    /* whoever asks next gets this number */
	uint32_t serving; /* the holder's */
	int closed;
};

/* A memory region; length 0: no region. */
struct rdmaqp_region {
	uint64_t addr;
	uint64_t length;
	uint32_t lkey;
	uint32_t access;
};

/* A protection domain: which memory and which destinations its queue pairs may name. */
struct rdmaqp_domain {
	struct rdmaqp_lock lock;
	struct rdmaqp_region *regions; /* by key, open addressing; a power of two of them, at most half in use */
	uint32_t region_mask;
	uint32_t region_count;
	struct ibv_ah **handles; /* number n is at n - 1 */
	uint32_t handle_count;
	uint64_t ended; /* regions, windows and handles that have: what was found good before must be looked at again */
};

/* A work request in a work queue's account. */
struct rdmaqp_slot {
	uint64_t wr_id;
	uint64_t signaled;
};

/* The account of a work queue: requests number tail … head - 1 may still be under way. */
struct rdmaqp_queue {
	struct rdmaqp_slot *slots; /* of sends; a power of two of them. Receives complete in an order that nobody needs */
	uint32_t mask;
	uint32_t room;
	uint64_t head;
	uint64_t tail;
	uint64_t signaled; /* of sends: the number after that of the last signaled one; up to tail: none is under way */
	int lost; /* more was posted, unchecked, than the account holds: room is unknown until RESET */
};

struct rdmaqp_cq;

struct rdmaqp_qp {
	struct rdmaqp_lock lock;
	struct ibv_qp *qp;
	struct rdmaqp_domain *domain;
	struct rdmaqp_cq *send_cq; /* where its sends end */
	struct rdmaqp_cq *recv_cq;
	struct rdmaqp_queue *receives; /* rq, or that of the shared receive queue */
	struct rdmaqp_queue sq;
	struct rdmaqp_queue rq;
	uint32_t qp_num;
	uint32_t state;       /* as 1 << enum ibv_qp_state, last known; 0: ask */
	uint32_t send_states; /* those in which a send is taken, and is not only flushed */
	uint32_t recv_states;
	uint32_t opcodes; /* as 1 << enum ibv_wr_opcode: what its type sends */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
	int sq_sig_all;
	int datagram;
	int extended; /* XRC_SEND: each request names a remote shared receive queue */
	int error;
	const char *verb;
	uint32_t index;
	uint32_t resets;   /* how often its work has been forgotten */
	uint32_t failures; /* of sends, since the last RESET */
	uint64_t failed_number;
	struct ibv_wc failed; /* that of send failed_number: not one that was only flushed, where there is another */
	uint64_t begun; /* the first send since the last RESET */
	uint64_t first_failed;   /* where there are failures: the first send that did not succeed, flushed or not */
	uint32_t recv_failures;  /* of receives of its own queue, since the last RESET */
	uint64_t recv_first_failed;
	int has_cause;        /* since the last RESET */
	struct ibv_wc cause;  /* the first, of either queue, that failed and was not only flushed */
	uint32_t max_datagram; /* of a datagram's bytes: the port's MTU, once that is known */
};

/* A shared receive queue. Whichever of its queue pairs completes a receive frees the receive's room. */
struct rdmaqp_srq {
	struct rdmaqp_lock lock;
	struct ibv_srq *srq;
	struct rdmaqp_domain *domain;
	struct rdmaqp_queue queue;
	uint32_t max_sge;
	int error;
	const char *verb;
	uint32_t index;
};

struct rdmaqp_cq {
	struct rdmaqp_lock lock;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel; /* NULL: waits spin */
	struct rdmaqp_qp **pairs;         /* by number, open addressing; a power of two of them */
	uint32_t mask;
	uint32_t used;
	struct rdmaqp_qp *last;
	struct ibv_wc *held; /* taken while a call waited for others, and still to be given out */
	uint32_t held_size;
	uint32_t held_first;
	uint32_t held_count;
	uint32_t events; /* taken off the channel while waiting here; they may have been for another queue */
};

/* One send as a record: what an array of them is made of. A field counts where its opcode uses it. */
struct rdmaqp_send_record {
	uint64_t wr_id;
	uint64_t addr;
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	uint32_t length;
	uint32_t lkey;
	uint32_t rkey; /* the remote memory's; of LOCAL_INV and SEND_WITH_INV, the key to invalidate */
	uint32_t imm_data; /* host byte order */
	uint32_t opcode;
	uint32_t send_flags;
	uint32_t ah; /* the address handle's number */
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	uint32_t remote_srqn;
};

struct rdmaqp_recv_record {
	uint64_t wr_id;
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* Work requests made once and posted often. */
struct rdmaqp_chain {
	struct rdmaqp_qp *qp; /* or srq; the other is NULL */
	struct rdmaqp_srq *srq;
	struct ibv_send_wr *sends; /* or receives; the other is NULL */
	struct ibv_recv_wr *receives;
	struct rdmaqp_slot *slots; /* what the send queue's account says of each send */
	uint32_t n;
	uint32_t signaled;
	int checked;      /* whether a post compares first */
	int64_t slice_ns; /* how long rdmaqp_run_chain() waits */
	uint64_t ended;   /* the domain's, when its memory was last found good */
	int follows;      /* a driver follows pointers of its requests: to address handles, or to a window's memory */
	uint64_t start;   /* of the last post: its first request's number */
	uint32_t reaped;
	int running; /* posted by rdmaqp_run_chain(), which has not seen its end */
	uint32_t resets; /* the queue pair's then, as */
	uint32_t failures;
};

/* An asynchronous event, once it has been acknowledged. */
struct rdmaqp_event {
	uint32_t type;     /* enum ibv_event_type */
	uint32_t port_num; /* of a port's; else 0 */
	uintptr_t element; /* of a queue pair's, a completion queue's or a shared receive queue's, its address; else 0 */
};

/* The end of a transfer that takes messages: receives, posted again and again, or a byte that WRITEs change. */
struct rdmaqp_sink {
	struct rdmaqp_chain *chain; /* receives, as many as one call posts at most; NULL where a byte is watched */
	struct rdmaqp_cq *queue;
	const uint8_t *watched; /* becomes the number of the message, from 1 on, modulo 256 */
	uint64_t count;
	uint64_t wr_id; /* of the first receive */
	uint32_t depth; /* receives kept posted */
	uint64_t posted;
	uint64_t received;
	uint64_t bytes;
	int64_t begun_ns; /* CLOCK_MONOTONIC, as all times: when the first message was there */
	int64_t ended_ns;
	int result;
	struct ibv_wc failed;
};

/* The end of a transfer that sends: one work request, posted again and again. */
struct rdmaqp_stream {
	struct rdmaqp_chain *chain; /* copies of it, as many as one call posts at most */
	struct rdmaqp_cq *queue;
	struct rdmaqp_sink *into;    /* of this process: nothing is sent that has no receive there yet */
	struct rdmaqp_sink *answers; /* each waits for the answer to the one before it; where it is not first, */
	int first;                   /* it is the answer */
	uint8_t *mark;               /* becomes the number of the message, from 1 on, modulo 256 */
	int64_t *stamps;             /* when each was posted; NULL: not wanted */
	uint64_t count;
	int64_t duration_ns; /* after which count becomes what has been posted; 0: count is as given */
	uint64_t wr_id;      /* of the first */
	uint32_t window;     /* under way at most */
	uint32_t signal_every;
	uint64_t posted;
	uint64_t signaled; /* how many had been posted with the last signaled one */
	uint64_t completed;
	int64_t begun_ns;
	int64_t ended_ns;
	int result;
	struct ibv_wc failed;
};

/* One end of a ping-pong: how it looks at what it gets, how it ended where it did not go well, and where it is. */
#define RDMAQP_VERIFY_STAMP 0 /* both ends are ours: a number at the head and at the tail of each message */
#define RDMAQP_VERIFY_WHOLE 1 /* both ends are ours: every byte of each message */
#define RDMAQP_VERIFY_ECHO 2  /* client of a stock ibv_rc_pingpong, which returns what it got */
#define RDMAQP_VERIFY_STOCK 3 /* server of a stock ibv_rc_pingpong: its constant bytes, which we return */

#define RDMAQP_FAILED_NOTHING 0
#define RDMAQP_FAILED_VERB 1   /* verb: its name, error: its error number */
#define RDMAQP_FAILED_STATUS 2 /* wc: the completion */
#define RDMAQP_FAILED_DATA 3   /* wc: the receive whose bytes are not those that were sent */

struct rdmaqp_end {
	struct rdmaqp_qp *pair;
	struct rdmaqp_cq *queue; /* with a channel the loop sleeps, else it spins */
	uint8_t *send_buffer;
	uint8_t *recv_buffer;
	uint32_t send_lkey;
	uint32_t recv_lkey;
	uint32_t size;
	uint32_t rx_depth;
	unsigned int send_flags;
	int verify;
	int initiator;
	uint64_t iterations;
	int64_t *stamps; /* room for iterations + 1 times: the start (of the initiator), and each message's arrival */
	uint64_t sent;
	uint64_t completed; /* sends */
	uint64_t received;
	uint64_t posted;    /* receives, ever */
	uint64_t verified;
	uint32_t in_queue;  /* receives posted now */
	int failed;
	const char *verb;
	int error;
	struct ibv_wc wc;
};
