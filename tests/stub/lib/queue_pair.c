/*
 * Queue pairs.
 *
 * No transition is refused and no mask is checked: whether the program hands over the right thing is what a test asks
 * of the log, and whether a kernel would take it is asked of a kernel.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

#define FIRST_QP_NUM 0x40 /* below are the numbers that mean something on InfiniBand */

static struct registry queue_pairs;

/* Which fields a mask bit carries; some carry several. */
static const struct {
	int bit;
	size_t offset, size;
} carried[] = {
#define CARRIES(bit, field) { bit, offsetof(struct ibv_qp_attr, field), sizeof(((struct ibv_qp_attr *)0)->field) }
	CARRIES(IBV_QP_STATE, qp_state),
	CARRIES(IBV_QP_STATE, cur_qp_state),
	CARRIES(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify),
	CARRIES(IBV_QP_ACCESS_FLAGS, qp_access_flags),
	CARRIES(IBV_QP_PKEY_INDEX, pkey_index),
	CARRIES(IBV_QP_PORT, port_num),
	CARRIES(IBV_QP_QKEY, qkey),
	CARRIES(IBV_QP_AV, ah_attr),
	CARRIES(IBV_QP_PATH_MTU, path_mtu),
	CARRIES(IBV_QP_TIMEOUT, timeout),
	CARRIES(IBV_QP_RETRY_CNT, retry_cnt),
	CARRIES(IBV_QP_RNR_RETRY, rnr_retry),
	CARRIES(IBV_QP_RQ_PSN, rq_psn),
	CARRIES(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic),
	CARRIES(IBV_QP_ALT_PATH, alt_ah_attr),
	CARRIES(IBV_QP_ALT_PATH, alt_pkey_index),
	CARRIES(IBV_QP_ALT_PATH, alt_port_num),
	CARRIES(IBV_QP_ALT_PATH, alt_timeout),
	CARRIES(IBV_QP_MIN_RNR_TIMER, min_rnr_timer),
	CARRIES(IBV_QP_SQ_PSN, sq_psn),
	CARRIES(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
	CARRIES(IBV_QP_PATH_MIG_STATE, path_mig_state),
	CARRIES(IBV_QP_CAP, cap),
	CARRIES(IBV_QP_DEST_QPN, dest_qp_num),
	CARRIES(IBV_QP_RATE_LIMIT, rate_limit),
#undef CARRIES
};

static void entry_init(struct entry *entry, const struct ibv_qp_init_attr *init)
{
	entry_number(entry, "qp_type", init->qp_type);
	entry_number(entry, "send_cq", cq_number(init->send_cq));
	entry_number(entry, "recv_cq", cq_number(init->recv_cq));
	entry_number(entry, "srq", srq_number(init->srq));
	entry_number(entry, "max_send_wr", init->cap.max_send_wr);
	entry_number(entry, "max_recv_wr", init->cap.max_recv_wr);
	entry_number(entry, "max_send_sge", init->cap.max_send_sge);
	entry_number(entry, "max_recv_sge", init->cap.max_recv_sge);
	entry_number(entry, "max_inline_data", init->cap.max_inline_data);
	entry_number(entry, "sq_sig_all", init->sq_sig_all);
}

static void entry_queue_pair(struct entry *entry, const struct queue_pair *pair)
{
	entry_object(entry, "qp", pair->number);
	entry_number(entry, "qp_num", pair->ibv.qp_num);
}

static struct queue_pair *new_queue_pair(struct ibv_context *context, struct ibv_pd *pd,
					 const struct ibv_qp_init_attr *init)
{
	struct queue_pair *pair = calloc(1, sizeof(*pair));

	if (!pair || receive_queue_init(&pair->queue, init->cap.max_recv_wr, init->cap.max_recv_sge)) {
		free(pair);
		return NULL;
	}
	pair->held = calloc(init->cap.max_send_wr + 1, sizeof(*pair->held));
	if (!pair->held) {
		receive_queue_free(&pair->queue);
		free(pair);
		return NULL;
	}
	pair->init = *init;
	pair->attr.cap = init->cap;
	pair->ibv.context = context;
	pair->ibv.qp_context = init->qp_context;
	pair->ibv.pd = pd;
	pair->ibv.send_cq = init->send_cq;
	pair->ibv.recv_cq = init->recv_cq;
	pair->ibv.srq = init->srq;
	pair->ibv.qp_type = init->qp_type;
	pair->ibv.state = IBV_QPS_RESET;
	pthread_mutex_init(&pair->ibv.mutex, NULL);
	pthread_cond_init(&pair->ibv.cond, NULL);
	return pair;
}

static void use_parents(const struct queue_pair *pair, int change)
{
	if (pair->ibv.pd)
		domain_use(pair->ibv.pd, change);
	if (pair->ibv.send_cq)
		cq_use(pair->ibv.send_cq, change);
	if (pair->ibv.recv_cq)
		cq_use(pair->ibv.recv_cq, change);
	if (pair->ibv.srq)
		srq_use(pair->ibv.srq, change);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	return make_queue_pair(pd->context, pd, init);
}

/* Of XRC_RECV without a protection domain and completion queues. */
struct ibv_qp *make_queue_pair(struct ibv_context *context, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct entry entry = control_call("ibv_create_qp");
	struct queue_pair *pair = NULL;

	entry_init(&entry, init);
	if (init->qp_type != IBV_QPT_XRC_RECV && (!init->send_cq || !init->recv_cq))
		errno = EINVAL; /* completions have to go somewhere */
	else if (!fails("CREATE_QP"))
		pair = new_queue_pair(context, pd, init);
	if (!pair) {
		entry_result(&entry, errno);
		return NULL;
	}
	pthread_mutex_lock(&stub_lock);
	pair->number = registry_add(&queue_pairs, pair);
	object_born(context);
	use_parents(pair, 1);
	pthread_mutex_unlock(&stub_lock);
	pair->ibv.handle = pair->number;
	pair->ibv.qp_num = FIRST_QP_NUM + pair->number;
	entry_queue_pair(&entry, pair);
	entry_result(&entry, 0);
	return &pair->ibv;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct entry entry = control_call("ibv_destroy_qp");
	struct queue_pair *pair = container_of(qp, struct queue_pair, ibv);
	int error = fault("DESTROY_QP");

	entry_queue_pair(&entry, pair);
	if (error)
		return entry_result(&entry, error);
	pthread_mutex_lock(&stub_lock);
	registry_remove(&queue_pairs, pair->number);
	use_parents(pair, -1);
	object_died(qp->context);
	receive_queue_free(&pair->queue);
	free(pair->held);
	free(pair);
	pthread_mutex_unlock(&stub_lock);
	return entry_result(&entry, 0);
}

static void take(struct queue_pair *pair, const struct ibv_qp_attr *attr, int mask)
{
	size_t i;

	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET) {
		pair->attr = (struct ibv_qp_attr){ .cap = pair->attr.cap };
		pair->queue.count = pair->held_count = 0;
	}
	for (i = 0; i < lengthof(carried); i++)
		if (mask & carried[i].bit)
			memcpy((char *)&pair->attr + carried[i].offset, (const char *)attr + carried[i].offset,
			       carried[i].size);
	pair->attr.cur_qp_state = pair->attr.qp_state;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct entry entry = control_call("ibv_modify_qp");
	struct queue_pair *pair = container_of(qp, struct queue_pair, ibv);
	int error = fault_when("MODIFY", attr_mask & IBV_QP_STATE ? qp_state_name(attr->qp_state) : "");

	entry_queue_pair(&entry, pair);
	entry_number(&entry, "mask", attr_mask);
	entry_bytes(&entry, "attr", attr, sizeof(*attr));
	if (error)
		return entry_result(&entry, error);
	pthread_mutex_lock(&stub_lock);
	take(pair, attr, attr_mask);
	if (attr_mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	if (hot.flush && pair->attr.qp_state == IBV_QPS_ERR)
		flush_all(pair);
	if (attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR && qp->srq)
		async_event(qp->context, (struct ibv_async_event){
			.element.qp = qp, .event_type = IBV_EVENT_QP_LAST_WQE_REACHED,
		});
	pthread_mutex_unlock(&stub_lock);
	return entry_result(&entry, 0);
}

/* The mask is a hint to hardware; the answer is whole. */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
{
	struct entry entry = control_call("ibv_query_qp");
	struct queue_pair *pair = container_of(qp, struct queue_pair, ibv);
	int error = fault("QUERY_QP");

	entry_queue_pair(&entry, pair);
	entry_number(&entry, "mask", attr_mask);
	if (error)
		return entry_result(&entry, error);
	pthread_mutex_lock(&stub_lock);
	*attr = pair->attr;
	if (attr->qp_state == IBV_QPS_SQD)
		attr->sq_draining = setting_number(NULL, "DRAINING", 0, 0);
	*init_attr = pair->init;
	if (attr_mask & IBV_QP_STATE)
		qp->state = pair->attr.qp_state;
	pthread_mutex_unlock(&stub_lock);
	entry_number(&entry, "state", pair->attr.qp_state);
	return entry_result(&entry, 0);
}

/* Recorded, and no more: nothing is delivered to a group. */
static int multicast(const char *call, const char *verb, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct entry entry = control_call(call);

	entry_queue_pair(&entry, container_of(qp, struct queue_pair, ibv));
	entry_bytes(&entry, "gid", gid, sizeof(*gid));
	entry_number(&entry, "lid", lid);
	return entry_result(&entry, fault(verb));
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return multicast("ibv_attach_mcast", "ATTACH_MCAST", qp, gid, lid);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return multicast("ibv_detach_mcast", "DETACH_MCAST", qp, gid, lid);
}

/* The caller holds stub_lock. */
struct queue_pair *queue_pair_numbered(uint32_t qp_num)
{
	return registry_get(&queue_pairs, (int)(qp_num - FIRST_QP_NUM));
}
