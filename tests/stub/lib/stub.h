/*
 * The null device's inside: what its files share.
 *
 * The device costs nothing, records what it was handed, and answers what the environment says (settings.c has the
 * list). It does not know what a kernel would refuse: that is asked of a kernel.
 */
#ifndef RDMAQP_STUB_H
#define RDMAQP_STUB_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* verbs.h wraps these functions in macros of the same name; the functions are what is defined here. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#define lengthof(array) (sizeof(array) / sizeof((array)[0]))

/* One lock for everything: uncontended it is cheap, and there is no order to get wrong. */
extern pthread_mutex_t stub_lock;

/* settings.c: what the environment says */
extern struct hot_settings {
	enum ibv_wc_status wc_status;
	bool drop;
	bool hide;
	bool hold;
	bool flush;
	int post_send_errno;
	int post_recv_errno;
	int poll_cq_errno;
	int req_notify_cq_errno;
	int get_cq_event_errno;
} hot;

void rdmaqp_stub_reread(void);
const char *setting(const char *device, const char *name);
long setting_number(const char *device, const char *name, int port, long otherwise);
const char *setting_item(const char *device, const char *name, int port, char *into, size_t size);
bool next_item(const char **rest, char separator, char *into, size_t size);
long number(const char *text, int base);
void bad_setting(const char *text, const char *expected) __attribute__((noreturn));
int fault(const char *verb);
int fault_when(const char *verb, const char *when);
bool fails(const char *verb);

/* names.c: enumerators by name */
int port_state_named(const char *text);
int wc_status_named(const char *text);
int gid_type_named(const char *text);
const char *qp_state_name(int state);

/* journal.c: RDMAQP_STUB_LOG */
struct entry {
	char text[2048];
	size_t used;
};

struct entry control_call(const char *call);
void entry_number(struct entry *entry, const char *key, long long value);
void entry_text(struct entry *entry, const char *key, const char *value);
void entry_bytes(struct entry *entry, const char *key, const void *bytes, size_t length);
void entry_object(struct entry *entry, const char *kind, int number);
int entry_result(struct entry *entry, int result);

/* registry.c: objects by number; numbers start at 1 and are not used twice, so that a log is clear */
struct registry {
	void **slots;
	int size;
};

int registry_add(struct registry *registry, void *object);
void *registry_get(const struct registry *registry, int number);
void registry_remove(struct registry *registry, int number);

/* device.c */
struct context {
	struct verbs_context verbs;
	bool is_free; /* RDMAQP_STUB_HOT */
	int number;
	int objects; /* alive */
	int async_write_fd;
	unsigned long sends, receives, polls, lost;
};

static inline struct context *to_context(struct ibv_context *context)
{
	return container_of(context, struct context, verbs.context);
}

void async_event(struct ibv_context *context, struct ibv_async_event event);
void object_born(struct ibv_context *context);
void object_died(struct ibv_context *context);

/* port.c */
int port_count(const char *device);
int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t length);

/* memory.c: protection domains, memory regions, memory windows, address handles */
struct domain {
	struct ibv_pd ibv;
	int number;
	int users;
};

struct address_handle {
	struct ibv_ah ibv;
	int number;
	struct ibv_ah_attr attr;
};

void domain_use(struct ibv_pd *pd, int change);
void *memory_at(const struct ibv_sge *sge);
struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int dealloc_mw(struct ibv_mw *mw);

/* completion.c: channels and completion queues */
#define FREE_RING 32768 /* of free.c: a power of two */

struct free_completion {
	uint64_t wr_id;
	uint32_t qp_num, opcode, byte_len;
};

struct completion_queue {
	struct ibv_cq ibv;
	int number;
	int users;
	struct ibv_wc *ring;
	int head, count;
	struct free_completion *free_ring; /* of a device with a free hot path: what waits is free_head … free_tail - 1 */
	unsigned int free_head, free_tail;
	enum { NOT_ARMED, ARMED_SOLICITED, ARMED } armed;
	unsigned int delivered; /* events handed out; ibv.comp_events_completed counts the acknowledged */
};

bool cq_full(const struct ibv_cq *cq);
void cq_push(struct ibv_cq *cq, const struct ibv_wc *wc, bool solicited);
void cq_use(struct ibv_cq *cq, int change);
int cq_number(const struct ibv_cq *cq);
int poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* receive_queue.c: posted receives, a queue pair's own or shared */
struct receive {
	uint64_t wr_id;
	int num_sge;
	struct ibv_sge *sg_list;
};

struct receive_queue {
	struct receive *ring;
	struct ibv_sge *sges;
	int size, max_sge, head, count;
};

struct shared_receive_queue {
	struct ibv_srq ibv;
	int number;
	int users;
	uint32_t limit;
	struct receive_queue queue;
};

int receive_queue_init(struct receive_queue *queue, uint32_t size, uint32_t max_sge);
void receive_queue_free(struct receive_queue *queue);
const struct receive *receive_queue_pop(struct receive_queue *queue);
int receive_queue_post(struct receive_queue *queue, struct context *context, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad);
int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void srq_use(struct ibv_srq *srq, int change);
int srq_number(const struct ibv_srq *srq);

const struct receive *shared_queue_pop(struct ibv_srq *srq);

/* xrc.c */
struct xrc_domain {
	struct ibv_xrcd ibv;
	int number;
};

void offer_xrc(struct verbs_context *verbs);

/* queue_pair.c */
struct queue_pair {
	struct ibv_qp ibv;
	int number;
	struct ibv_qp_attr attr; /* the truth; ibv.state is libibverbs' memory of it, and may be stale */
	struct ibv_qp_init_attr init;
	struct receive_queue queue;
	uint64_t *held; /* wr_ids of sends that stay under way, max_send_wr at most */
	int held_count;
};

struct ibv_qp *make_queue_pair(struct ibv_context *context, struct ibv_pd *pd, struct ibv_qp_init_attr *init);
struct queue_pair *queue_pair_numbered(uint32_t qp_num);

/* traffic.c */
void flush_all(struct queue_pair *pair);

/* traffic.c */
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* free.c: all of that, for nothing */
void make_free(struct ibv_context *context);

#endif
