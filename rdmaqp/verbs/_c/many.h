/*
 * What Python and C share of queue pairs by the hundred. Read by both compilers.
 */
#define RDMAQP_STEPS 3 /* to RTS */

/* The making of queue pairs that are alike: each gets what the first was given. */
struct rdmaqp_making {
	struct ibv_pd *pd;
	const struct ibv_qp_init_attr *init; /* what is asked for */
	struct ibv_qp_cap cap;               /* what the first was given for it */
	const struct rdmaqp_qp *account;     /* what each account begins with */
	struct rdmaqp_qp *qps;
	struct rdmaqp_slot *slots; /* account->sq.mask + 1 for each */
	uint32_t count;
	uint32_t done;
	int error;  /* of number done, which was not made */
	int unlike; /* number done was given other capacities, and is gone again */
};

/* One modify call. Of those that are alike all make it, with numbers of their own. */
struct rdmaqp_step {
	struct ibv_qp_attr attr;
	int mask;
};

/* A queue pair that went the way of another: its numbers, and when. */
struct rdmaqp_follower {
	uint32_t way;   /* of Python's list, from 1 on; 0: it went by itself, or not yet */
	uint32_t taken; /* steps */
	uint32_t dest_qp_num;
	uint32_t rq_psn;
	uint32_t sq_psn;
	int64_t times[RDMAQP_STEPS + 1]; /* CLOCK_REALTIME: when it began, and after each step */
};

/* The way of the first to RTS, and what it was judged by: who finds the same follows. */
struct rdmaqp_way {
	struct rdmaqp_step steps[RDMAQP_STEPS];
	uint32_t number;
	uint8_t port_num;
	int sgid_index; /* as of rdmaqp_ask() */
	int pkey_index;
	int there;
	struct rdmaqp_answers answers;
	int64_t asked_ns; /* CLOCK_MONOTONIC: when they were last found to hold */
	int64_t holds_ns; /* for so long nobody asks again */
	const uint32_t *dest_qp_nums; /* of those that follow in the next call */
	const uint32_t *rq_psns;
	const uint32_t *sq_psns;
	uint32_t done;
	uint32_t step; /* of number done: the one that failed */
	int result;    /* why it ended at number done: RDMAQP_JUDGE, RDMAQP_CLOSED, or RDMAQP_VERB with */
	int error;
};
