/*
 * Whose a completion is, and what it frees: each completion queue knows the queue pairs that end there.
 */

static struct rdmaqp_qp **pair_slot(struct rdmaqp_cq *cq, uint32_t qp_num)
{
	uint32_t at = spread(qp_num);

	while (cq->pairs[at & cq->mask] && cq->pairs[at & cq->mask]->qp_num != qp_num)
		at++;
	return &cq->pairs[at & cq->mask];
}

static int resize_pairs(struct rdmaqp_cq *cq, uint32_t size)
{
	struct rdmaqp_qp **old = cq->pairs, **made = calloc(size, sizeof(*made));
	uint32_t at, count = old ? cq->mask + 1 : 0;

	if (!made)
		return ENOMEM;
	cq->pairs = made;
	cq->mask = size - 1;
	cq->last = NULL;
	for (at = 0; at < count; at++)
		if (old[at])
			*pair_slot(cq, old[at]->qp_num) = old[at];
	free(old);
	return 0;
}

/* Whose completions come here: 0, ENOMEM, or RDMAQP_CLOSED. */
static int rdmaqp_add_pair(struct rdmaqp_cq *cq, struct rdmaqp_qp *qp)
{
	int error = 0;

	if (!enter(&cq->lock))
		return RDMAQP_CLOSED;
	if (!cq->pairs || (cq->used + 1) * 2 > cq->mask)
		error = resize_pairs(cq, cq->pairs ? (cq->mask + 1) * 2 : 4);
	if (!error) {
		struct rdmaqp_qp **slot = pair_slot(cq, qp->qp_num);

		cq->used += !*slot;
		*slot = qp;
	}
	leave(&cq->lock);
	return error;
}

static void rdmaqp_drop_pair(struct rdmaqp_cq *cq, struct rdmaqp_qp *qp)
{
	struct rdmaqp_qp **slot;

	if (!enter(&cq->lock))
		return;
	if (!cq->pairs) { /* not even the first could be noted */
		leave(&cq->lock);
		return;
	}
	slot = pair_slot(cq, qp->qp_num);
	if (*slot == qp) {
		uint32_t at = slot - cq->pairs;

		*slot = NULL;
		cq->used--;
		/* Those behind it in its run may have been pushed there by it. */
		while (cq->pairs[++at & cq->mask]) {
			struct rdmaqp_qp *other = cq->pairs[at & cq->mask];

			cq->pairs[at & cq->mask] = NULL;
			*pair_slot(cq, other->qp_num) = other;
		}
	}
	cq->last = NULL;
	leave(&cq->lock);
}

static void rdmaqp_end_cq(struct rdmaqp_cq *cq)
{
	free(cq->pairs);
	free(cq->held);
	cq->pairs = NULL;
	cq->held = NULL;
}

static struct rdmaqp_qp *pair_of(struct rdmaqp_cq *cq, uint32_t qp_num)
{
	if (!cq->last || cq->last->qp_num != qp_num)
		cq->last = cq->pairs ? *pair_slot(cq, qp_num) : NULL;
	return cq->last;
}

/*
 * The request that a send's completion stands for. One that succeeded has been signaled; of those before it that were
 * not, nobody hears again. One that failed may be any: of a failed one, the opcode says nothing, so wr_id must. Where
 * receives end in the same queue, one of the same wr_id that fails while sends are under way is taken for a send.
 *
 * One that stands for none is of a life before the last RESET.
 */
static int is_send(const struct rdmaqp_qp *qp, const struct ibv_wc *wc, uint64_t *number)
{
	const struct rdmaqp_queue *sq = &qp->sq;
	uint64_t head = __atomic_load_n(&sq->head, __ATOMIC_ACQUIRE), at;

	if (wc->status == IBV_WC_SUCCESS && wc->opcode & IBV_WC_RECV)
		return 0;
	for (at = sq->tail; at != head; at++) {
		const struct rdmaqp_slot *slot = &sq->slots[at & sq->mask];

		*number = at;
		if (slot->wr_id == wc->wr_id && (slot->signaled || wc->status != IBV_WC_SUCCESS))
			return 1;
		if (wc->status != IBV_WC_SUCCESS && slot->signaled)
			break;
	}
	return 0;
}

static void note_failure(struct rdmaqp_qp *qp, const struct ibv_wc *wc, uint64_t number)
{
	if (!qp->failures)
		qp->first_failed = number;
	/* The first, unless that was only flushed. */
	if (!qp->failures++ || (qp->failed.status == IBV_WC_WR_FLUSH_ERR && wc->status != IBV_WC_WR_FLUSH_ERR)) {
		qp->failed = *wc;
		qp->failed_number = number;
	}
}

static void note_failed_receive(struct rdmaqp_qp *qp)
{
	if (qp->receives == &qp->rq && !qp->recv_failures++)
		qp->recv_first_failed = qp->rq.tail;
}

static void note_cause(struct rdmaqp_qp *qp, const struct ibv_wc *wc)
{
	if (qp->has_cause || wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	qp->cause = *wc;
	qp->has_cause = 1;
}

static void note_receive(struct rdmaqp_qp *qp)
{
	struct rdmaqp_queue *queue = qp->receives;
	uint64_t tail = __atomic_load_n(&queue->tail, __ATOMIC_RELAXED);

	if (queue == &qp->rq) {
		if (tail != __atomic_load_n(&queue->head, __ATOMIC_ACQUIRE))
			__atomic_store_n(&queue->tail, tail + 1, __ATOMIC_RELEASE);
		return;
	}
	/* A shared receive queue's completions may come to several completion queues at once. */
	while (tail != __atomic_load_n(&queue->head, __ATOMIC_ACQUIRE))
		if (__atomic_compare_exchange_n(&queue->tail, &tail, tail + 1, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			break;
}

/*
 * What account() does, for the most frequent cases alone: the queue pair is that of the completion before, and the
 * oldest signaled send under way is the one that has succeeded, or it is a receive. Whether it was that.
 */
static inline int is_next(struct rdmaqp_cq *cq, const struct ibv_wc *wc)
{
	struct rdmaqp_qp *qp = cq->last;
	const struct rdmaqp_queue *sq;
	uint64_t at, head;

	if (!qp || qp->qp_num != wc->qp_num || wc->status != IBV_WC_SUCCESS)
		return 0;
	if (wc->opcode & IBV_WC_RECV) {
		if (qp->recv_cq != cq || qp->receives != &qp->rq || qp->rq.tail == qp->rq.head)
			return 0;
		__atomic_store_n(&qp->rq.tail, qp->rq.tail + 1, __ATOMIC_RELEASE);
		return 1;
	}
	if (qp->send_cq != cq)
		return 0;
	sq = &qp->sq;
	head = __atomic_load_n(&sq->head, __ATOMIC_ACQUIRE);
	for (at = sq->tail; at != head && !sq->slots[at & sq->mask].signaled; at++)
		;
	if (at == head || sq->slots[at & sq->mask].wr_id != wc->wr_id)
		return 0;
	__atomic_store_n(&qp->sq.tail, at + 1, __ATOMIC_RELEASE);
	return 1;
}

/*
 * Note what a completion frees. Whose send it stands for, with its number, where it is one's; else NULL. The opcode of
 * one that failed says nothing: it gets that of a receive or of a send, for whoever holds it to tell them apart.
 */
static struct rdmaqp_qp *account(struct rdmaqp_cq *cq, struct ibv_wc *wc, uint64_t *number)
{
	struct rdmaqp_qp *qp = pair_of(cq, wc->qp_num);
	int failed = wc->status != IBV_WC_SUCCESS;

	if (!qp)
		return NULL;
	if (failed)
		__atomic_store_n(&qp->state, 0, __ATOMIC_RELEASE); /* wherever that has led */
	if (cq == qp->send_cq && is_send(qp, wc, number)) {
		__atomic_store_n(&qp->sq.tail, *number + 1, __ATOMIC_RELEASE);
		if (failed) {
			wc->opcode = IBV_WC_SEND;
			note_failure(qp, wc, *number);
			note_cause(qp, wc);
		}
		return qp;
	}
	if (cq != qp->recv_cq || !qp->receives || !(failed || wc->opcode & IBV_WC_RECV)) {
		if (failed)
			wc->opcode = IBV_WC_SEND;
		return NULL;
	}
	if (failed) {
		wc->opcode = IBV_WC_RECV;
		note_failed_receive(qp);
		note_cause(qp, wc);
	}
	note_receive(qp);
	return NULL;
}
