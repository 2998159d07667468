/*
 * RDMAQP_STUB_HOT=free: a hot path that costs next to nothing, so that a benchmark sees what is put on top of it.
 *
 * A signaled request completes at once, with its wr_id. A SEND takes a receive of the queue pair that it goes to, if
 * there is one, without a byte being copied. There is no lock, no fault, no count, no check and no event: one thread,
 * which does not overfill its queues.
 */
#include "stub.h"

static void push(struct ibv_cq *cq, struct free_completion completion)
{
	struct completion_queue *queue = container_of(cq, struct completion_queue, ibv);

	queue->free_ring[queue->free_tail++ % FREE_RING] = completion;
}

static void deliver(const struct queue_pair *from, const struct ibv_send_wr *wr)
{
	struct queue_pair *to = queue_pair_numbered(from->attr.dest_qp_num);

	if (!to || !to->queue.count)
		return;
	push(to->ibv.recv_cq, (struct free_completion){
		.wr_id = receive_queue_pop(&to->queue)->wr_id, .qp_num = to->ibv.qp_num, .opcode = IBV_WC_RECV,
		.byte_len = wr->num_sge ? wr->sg_list[0].length : 0,
	});
}

static int post_send_free(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct queue_pair *pair = container_of(qp, struct queue_pair, ibv);

	(void)bad;
	for (; wr; wr = wr->next) {
		if (wr->send_flags & IBV_SEND_SIGNALED || pair->init.sq_sig_all)
			push(qp->send_cq, (struct free_completion){
				.wr_id = wr->wr_id, .qp_num = qp->qp_num,
				.opcode = wr->opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE,
			});
		if (wr->opcode == IBV_WR_SEND)
			deliver(pair, wr);
	}
	return 0;
}

static int post_recv_free(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct receive_queue *queue = &container_of(qp, struct queue_pair, ibv)->queue;

	(void)bad;
	for (; wr; wr = wr->next) {
		int at = queue->head + queue->count++;

		queue->ring[at < queue->size ? at : at - queue->size].wr_id = wr->wr_id;
	}
	return 0;
}

static int poll_cq_free(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	struct completion_queue *queue = container_of(cq, struct completion_queue, ibv);
	int n;

	for (n = 0; n < num_entries && queue->free_head != queue->free_tail; n++) {
		const struct free_completion *one = &queue->free_ring[queue->free_head++ % FREE_RING];

		wc[n].wr_id = one->wr_id;
		wc[n].status = IBV_WC_SUCCESS;
		wc[n].opcode = one->opcode;
		wc[n].vendor_err = 0;
		wc[n].byte_len = one->byte_len;
		wc[n].qp_num = one->qp_num;
		wc[n].wc_flags = 0;
	}
	return n;
}

void make_free(struct ibv_context *context)
{
	context->ops.post_send = post_send_free;
	context->ops.post_recv = post_recv_free;
	context->ops.poll_cq = poll_cq_free;
}
