/*
 * Posting, and delivery to a queue pair of the same process.
 *
 * A send completes at once. Where the destination is a queue pair of this process, on whatever device, with a receive
 * posted, the payload is copied there and the receive completes; otherwise the message is lost, and counted. RDMA
 * and atomic requests complete and move nothing. States are not looked at.
 */
#include <errno.h>
#include <string.h>

#include "stub.h"

#define GRH_SIZE sizeof(struct ibv_grh) /* before a datagram's payload, whether the packet had one or not */

static size_t total_length(const struct ibv_sge *sge, int count)
{
	size_t length = 0;

	while (count--)
		length += sge++->length;
	return length;
}

static char *bytes_at(const struct ibv_sge *sge, bool is_inline)
{
	return is_inline ? (char *)(uintptr_t)sge->addr : memory_at(sge);
}

/* To follow a pointer that was never registered would end the test, not fail it. */
static bool reachable(const struct ibv_sge *sge, int count, bool is_inline)
{
	for (; count--; sge++)
		if (sge->length && !bytes_at(sge, is_inline))
			return false;
	return true;
}

/* Where a copy stands in a gather or scatter list. */
struct cursor {
	const struct ibv_sge *sge;
	uint32_t offset;
	bool is_inline;
};

static void advance(struct cursor *cursor, uint32_t length)
{
	cursor->offset += length;
	if (cursor->offset == cursor->sge->length) {
		cursor->sge++;
		cursor->offset = 0;
	}
}

/* Both lists are known to be reachable and long enough. */
static void copy(struct cursor *to, struct cursor *from, size_t length)
{
	while (length) {
		uint32_t piece = to->sge->length - to->offset;

		if (piece > from->sge->length - from->offset)
			piece = from->sge->length - from->offset;
		if (piece > length)
			piece = length;
		if (piece)
			/* The two may be one buffer: a program that sends to itself. */
			memmove(bytes_at(to->sge, false) + to->offset,
				bytes_at(from->sge, from->is_inline) + from->offset, piece);
		length -= piece;
		advance(to, piece);
		advance(from, piece);
	}
}

static void skip(struct cursor *cursor, size_t length)
{
	while (length) {
		uint32_t piece = cursor->sge->length - cursor->offset;

		if (piece > length)
			piece = length;
		length -= piece;
		advance(cursor, piece);
	}
}

static enum ibv_wc_status scatter(const struct receive *receive, const struct ibv_send_wr *wr, size_t headroom)
{
	size_t length = total_length(wr->sg_list, wr->num_sge);
	struct cursor to = { .sge = receive->sg_list };
	struct cursor from = { .sge = wr->sg_list, .is_inline = wr->send_flags & IBV_SEND_INLINE };

	if (total_length(receive->sg_list, receive->num_sge) < headroom + length)
		return IBV_WC_LOC_LEN_ERR;
	if (!reachable(receive->sg_list, receive->num_sge, false))
		return IBV_WC_LOC_PROT_ERR;
	skip(&to, headroom);
	copy(&to, &from, length);
	return IBV_WC_SUCCESS;
}

static void deliver(struct queue_pair *from, const struct ibv_send_wr *wr)
{
	bool datagram = from->ibv.qp_type == IBV_QPT_UD;
	struct queue_pair *to = queue_pair_numbered(datagram ? wr->wr.ud.remote_qpn : from->attr.dest_qp_num);
	size_t headroom = datagram ? GRH_SIZE : 0;
	const struct receive *receive = NULL;
	struct ibv_wc wc = { .opcode = IBV_WC_RECV };

	if (to && to->ibv.recv_cq && !cq_full(to->ibv.recv_cq)) /* XRC_RECV has none */
		receive = to->ibv.srq ? shared_queue_pop(to->ibv.srq) : receive_queue_pop(&to->queue);
	if (!receive) {
		to_context(from->ibv.context)->lost++;
		return;
	}
	wc.wr_id = receive->wr_id;
	wc.status = scatter(receive, wr, headroom);
	wc.byte_len = headroom + total_length(wr->sg_list, wr->num_sge);
	wc.qp_num = to->ibv.qp_num;
	wc.src_qp = from->ibv.qp_num;
	if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = wr->imm_data;
	}
	if (wr->opcode == IBV_WR_SEND_WITH_INV) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = wr->invalidate_rkey;
	}
	if (datagram && wr->wr.ud.ah && container_of(wr->wr.ud.ah, struct address_handle, ibv)->attr.is_global)
		wc.wc_flags |= IBV_WC_GRH;
	cq_push(to->ibv.recv_cq, &wc, wr->send_flags & IBV_SEND_SOLICITED);
}

static enum ibv_wc_opcode completed_as(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	default:
		return IBV_WC_SEND;
	}
}

static void flush_one(struct queue_pair *pair, struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc wc = { .wr_id = wr_id, .status = IBV_WC_WR_FLUSH_ERR, .qp_num = pair->ibv.qp_num,
			     .opcode = 0x7f /* says nothing */ };

	if (!cq_full(cq))
		cq_push(cq, &wc, false);
}

/* The caller holds stub_lock. */
void flush_all(struct queue_pair *pair)
{
	const struct receive *receive;
	int i;

	for (i = 0; i < pair->held_count; i++)
		flush_one(pair, pair->ibv.send_cq, pair->held[i]);
	pair->held_count = 0;
	while (pair->ibv.recv_cq && !pair->ibv.srq && (receive = receive_queue_pop(&pair->queue)))
		flush_one(pair, pair->ibv.recv_cq, receive->wr_id);
}

static int send_one(struct queue_pair *pair, const struct ibv_send_wr *wr)
{
	bool signaled = pair->init.sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	struct ibv_wc wc = {
		.wr_id = wr->wr_id,
		.status = hot.wc_status,
		.opcode = completed_as(wr->opcode),
		.qp_num = pair->ibv.qp_num,
	};

	if (hot.post_send_errno)
		return hot.post_send_errno;
	if (hot.flush && pair->attr.qp_state == IBV_QPS_ERR) {
		flush_one(pair, pair->ibv.send_cq, wr->wr_id);
		return 0;
	}
	if (hot.hold) {
		if (pair->held_count == (int)pair->init.cap.max_send_wr)
			return ENOMEM;
		pair->held[pair->held_count++] = wr->wr_id;
		return 0;
	}
	if (!wc.status && !reachable(wr->sg_list, wr->num_sge, wr->send_flags & IBV_SEND_INLINE))
		wc.status = IBV_WC_LOC_PROT_ERR;
	if (wc.status)
		signaled = true;
	if (signaled && cq_full(pair->ibv.send_cq))
		return ENOMEM;
	/* The send first: where both ends share a queue, the receive may find it full, the send has its place. */
	if (signaled)
		cq_push(pair->ibv.send_cq, &wc, false);
	if (wc.status)
		pair->attr.qp_state = pair->attr.cur_qp_state =
			pair->ibv.qp_type == IBV_QPT_RC ? IBV_QPS_ERR : IBV_QPS_SQE;
	else if (wc.opcode == IBV_WC_SEND && !hot.drop)
		deliver(pair, wr);
	return 0;
}

int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int error = 0;

	pthread_mutex_lock(&stub_lock);
	for (; wr; wr = wr->next) {
		error = send_one(container_of(qp, struct queue_pair, ibv), wr);
		if (error) {
			*bad = wr;
			break;
		}
		to_context(qp->context)->sends++;
	}
	pthread_mutex_unlock(&stub_lock);
	return error;
}

int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int error;

	pthread_mutex_lock(&stub_lock);
	error = receive_queue_post(&container_of(qp, struct queue_pair, ibv)->queue, to_context(qp->context), wr, bad);
	if (hot.flush && container_of(qp, struct queue_pair, ibv)->attr.qp_state == IBV_QPS_ERR)
		flush_all(container_of(qp, struct queue_pair, ibv));
	pthread_mutex_unlock(&stub_lock);
	return error;
}
