/*
 * The accounts of the data path: what is under way on which queue, and whose a completion is.
 */

static uint32_t under_way(const struct rdmaqp_queue *queue)
{
	return (uint32_t)(queue->head - __atomic_load_n(&queue->tail, __ATOMIC_ACQUIRE));
}

static int has_room(const struct rdmaqp_queue *queue, uint32_t n)
{
	return queue->lost || under_way(queue) + (uint64_t)n <= queue->room;
}

/* Note a send before it is posted, since its completion may be there at once. */
static void note_send(struct rdmaqp_qp *qp, uint64_t wr_id, unsigned int flags)
{
	struct rdmaqp_queue *sq = &qp->sq;
	struct rdmaqp_slot *slot = &sq->slots[sq->head & sq->mask];

	if (under_way(sq) > sq->mask)
		sq->lost = 1;
	slot->wr_id = wr_id;
	slot->signaled = qp->sq_sig_all || flags & IBV_SEND_SIGNALED;
	__atomic_store_n(&sq->head, sq->head + 1, __ATOMIC_RELEASE);
}

/*
 * RESET, or the end: what was under way is gone. How many receives it had taken from a shared queue, nobody says: that
 * queue's room is unknown from then on.
 */
static void rdmaqp_forget_work(struct rdmaqp_qp *qp)
{
	const uint32_t takes_none = 1u << IBV_QPS_RESET | 1u << IBV_QPS_INIT;

	if (qp->receives && qp->receives != &qp->rq && !(qp->state & takes_none) && under_way(qp->receives))
		qp->receives->lost = 1;
	qp->sq.tail = qp->sq.head;
	qp->sq.lost = qp->rq.lost = 0;
	qp->rq.tail = qp->rq.head;
	qp->resets++;
}

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
		if (wc->status == IBV_WC_SUCCESS && slot->signaled)
			return 1;
		if (wc->status != IBV_WC_SUCCESS && slot->wr_id == wc->wr_id)
			return 1;
		if (wc->status != IBV_WC_SUCCESS && slot->signaled)
			break;
	}
	return 0;
}

/* Note what a completion frees. Whose send it stands for, with its number, where it is one's; else NULL. */
static struct rdmaqp_qp *account(struct rdmaqp_cq *cq, const struct ibv_wc *wc, uint64_t *number)
{
	struct rdmaqp_qp *qp = pair_of(cq, wc->qp_num);

	if (!qp)
		return NULL;
	if (wc->status != IBV_WC_SUCCESS)
		__atomic_store_n(&qp->state, 0, __ATOMIC_RELEASE); /* wherever that has led */
	if (cq == qp->send_cq && is_send(qp, wc, number)) {
		__atomic_store_n(&qp->sq.tail, *number + 1, __ATOMIC_RELEASE);
		return qp;
	}
	if (wc->status != IBV_WC_SUCCESS || wc->opcode & IBV_WC_RECV) {
		struct rdmaqp_queue *queue = qp->receives;

		if (queue && queue->tail != queue->head)
			__atomic_add_fetch(&queue->tail, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}
