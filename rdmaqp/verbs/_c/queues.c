/*
 * The account of a work queue: what is under way, and whether there is room for more.
 */

static uint32_t under_way(const struct rdmaqp_queue *queue)
{
	return (uint32_t)(queue->head - __atomic_load_n(&queue->tail, __ATOMIC_ACQUIRE));
}

static int has_room(const struct rdmaqp_queue *queue, uint32_t n)
{
	return queue->lost || under_way(queue) + (uint64_t)n <= queue->room;
}

/* Whether nothing would ever free the send queue, once n more fill it: no send under way tells of its end. */
static int would_stick(const struct rdmaqp_queue *sq, uint32_t n)
{
	return under_way(sq) + (uint64_t)n >= sq->room && sq->signaled <= sq->tail && !sq->lost;
}

static struct rdmaqp_slot slot_of(const struct rdmaqp_qp *qp, uint64_t wr_id, unsigned int flags)
{
	return (struct rdmaqp_slot){ .wr_id = wr_id, .signaled = qp->sq_sig_all || flags & IBV_SEND_SIGNALED };
}

static void note_one_send(struct rdmaqp_queue *sq, struct rdmaqp_slot slot)
{
	if (under_way(sq) > sq->mask)
		sq->lost = 1;
	sq->slots[sq->head & sq->mask] = slot;
	if (slot.signaled)
		sq->signaled = sq->head + 1;
	__atomic_store_n(&sq->head, sq->head + 1, __ATOMIC_RELEASE);
}

/* Note sends before they are posted, since their completions may be there at once. */
static void note_sends(struct rdmaqp_queue *sq, const struct rdmaqp_slot *slots, uint32_t n)
{
	uint32_t at = sq->head & sq->mask, last = n, size = sq->mask + 1, first = n < size - at ? n : size - at;

	if (n == 1) {
		note_one_send(sq, *slots);
		return;
	}
	if (under_way(sq) + (uint64_t)n > size)
		sq->lost = 1;
	if (n <= size) {
		memcpy(sq->slots + at, slots, first * sizeof(*slots));
		memcpy(sq->slots, slots + first, (n - first) * sizeof(*slots));
	}
	while (last && !slots[last - 1].signaled)
		last--;
	if (last)
		sq->signaled = sq->head + last;
	__atomic_store_n(&sq->head, sq->head + n, __ATOMIC_RELEASE);
}

/* Of the last n that were noted, only the first at have been posted. */
static void unnote_sends(struct rdmaqp_queue *sq, const struct rdmaqp_slot *slots, uint32_t n, uint32_t at,
			 uint64_t signaled)
{
	uint64_t head = sq->head - n;

	sq->signaled = signaled;
	__atomic_store_n(&sq->head, head + at, __ATOMIC_RELEASE);
	while (at && !slots[at - 1].signaled)
		at--;
	if (at)
		sq->signaled = head + at;
}

static void forget_queue(struct rdmaqp_queue *queue, struct rdmaqp_cq *cq)
{
	take(&cq->lock); /* who polls in another thread may be about to note an end */
	__atomic_store_n(&queue->tail, queue->head, __ATOMIC_RELEASE);
	queue->lost = 0;
	leave(&cq->lock);
}

/*
 * RESET, or the end: what was under way is gone. How many receives it had taken from a shared queue, nobody says: that
 * queue's room is unknown from then on.
 */
static void rdmaqp_forget_work(struct rdmaqp_qp *qp)
{
	const uint32_t takes_none = 1u << IBV_QPS_RESET | 1u << IBV_QPS_INIT;

	take(&qp->lock);
	if (qp->receives && qp->receives != &qp->rq && !(qp->state & takes_none) && under_way(qp->receives))
		qp->receives->lost = 1;
	qp->resets++;
	qp->begun = qp->sq.head;
	qp->failures = 0;
	qp->recv_failures = 0;
	qp->has_cause = 0;
	if (under_way(&qp->sq) || qp->sq.lost)
		forget_queue(&qp->sq, qp->send_cq);
	if (under_way(&qp->rq) || qp->rq.lost)
		forget_queue(&qp->rq, qp->recv_cq);
	leave(&qp->lock);
}
