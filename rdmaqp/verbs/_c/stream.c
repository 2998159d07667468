/*
 * The ends of a transfer: one work request posted again and again, with a window, and the receives at the other end.
 */

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* How many the stream may post now: whole batches, unless they are the last, as that is what batches are for. */
static uint64_t may_post(const struct rdmaqp_stream *stream)
{
	uint64_t left = stream->count - stream->posted;
	uint64_t n = smaller(left, stream->window - (stream->posted - stream->completed));
	uint32_t batch = stream->chain->n;

	if (batch > 1 && n < left)
		n -= n % batch;
	if (stream->into)
		n = smaller(n, stream->into->posted - stream->posted);
	if (stream->answers)
		n = smaller(n, stream->answers->received + !!stream->first - stream->posted);
	return n;
}

/* Number the first n requests of the chain, and signal those whose turn it is: how many are posted by then. */
static uint64_t number_sends(struct rdmaqp_stream *stream, uint32_t n)
{
	uint64_t next = stream->posted, signaled = stream->signaled;
	struct ibv_send_wr *wr = stream->chain->sends;
	struct rdmaqp_slot *slot = stream->chain->slots;
	uint32_t at;

	for (at = 0; at < n; at++, wr++, slot++) {
		wr->wr_id = stream->wr_id + next++;
		if (next - signaled == stream->signal_every || next == stream->count) {
			wr->send_flags |= IBV_SEND_SIGNALED;
			signaled = next;
		} else {
			wr->send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
		}
		*slot = slot_of(stream->chain->qp, wr->wr_id, wr->send_flags);
	}
	return signaled;
}

/* Post the next send, which there is room for; it is noted before, since its completion may be there at once. */
static inline int post_next(struct rdmaqp_qp *qp, struct ibv_send_wr *wr, uint64_t wr_id, uint64_t signaled)
{
	struct rdmaqp_queue *sq = &qp->sq;
	const uint64_t number = sq->head;
	struct ibv_send_wr *bad;
	int error;

	wr->wr_id = wr_id;
	sq->slots[number & sq->mask] = (struct rdmaqp_slot){ .wr_id = wr_id, .signaled = signaled };
	__atomic_store_n(&sq->head, number + 1, __ATOMIC_RELEASE);
	error = ibv_post_send(qp->qp, wr, &bad);
	if (error)
		__atomic_store_n(&sq->head, number, __ATOMIC_RELEASE);
	else if (signaled)
		sq->signaled = number + 1;
	return error;
}

/*
 * One by one: what a message costs here is what a stream of small ones costs. Stamps and marks are of these alone.
 * First those up to the next signaled one, then that one.
 */
static int post_singly(struct rdmaqp_stream *stream, uint64_t left)
{
	struct rdmaqp_qp *qp = stream->chain->qp;
	struct ibv_send_wr *wr = stream->chain->sends;
	uint8_t *const mark = stream->mark;
	int64_t *const stamps = stream->stamps;
	const uint64_t end = stream->posted + left;
	uint64_t at = stream->posted;
	int error = 0;

	while (at < end && !error) {
		uint64_t due = smaller(stream->signaled + stream->signal_every, stream->count);
		int is_due = at + 1 == due;
		uint64_t stop = is_due ? due : smaller(due - 1, end), signaled = is_due || qp->sq_sig_all;

		wr->send_flags = is_due ? wr->send_flags | IBV_SEND_SIGNALED :
					  wr->send_flags & ~(unsigned int)IBV_SEND_SIGNALED;
		for (; at < stop; at++) {
			if (mark)
				*mark = (uint8_t)(at + 1);
			if (stamps)
				stamps[at] = now_ns();
			error = post_next(qp, wr, stream->wr_id + at, signaled);
			if (error)
				break;
		}
		if (is_due && !error)
			stream->signaled = due;
	}
	stream->posted = at;
	return error ? verb_failed(qp, "ibv_post_send", error, 0) : 0;
}

/* Post n requests in batches; there is room for them. The caller is inside the domain, of a datagram's stream. */
static int post_batches(struct rdmaqp_stream *stream, uint64_t left)
{
	struct rdmaqp_chain *chain = stream->chain;
	struct ibv_send_wr *wrs = chain->sends;

	while (left) {
		uint32_t n = smaller(left, chain->n);
		struct ibv_send_wr *next = wrs[n - 1].next;
		uint64_t signaled = number_sends(stream, n);
		int result;

		wrs[n - 1].next = NULL;
		result = hand_sends(chain->qp, wrs, chain->slots, n, 0);
		wrs[n - 1].next = next;
		if (result) {
			n = chain->qp->index;
			signaled = number_sends(stream, n);
		}
		stream->posted += n;
		stream->signaled = signaled;
		if (result)
			return result;
		left -= n;
	}
	return 0;
}

/* Post what may be posted: 0, or why not. */
static int post_stream(struct rdmaqp_stream *stream, int checked)
{
	struct rdmaqp_chain *chain = stream->chain;
	struct rdmaqp_qp *qp = chain->qp;
	uint64_t n = may_post(stream);
	int result = RDMAQP_STALE;

	if (!n)
		return 0;
	if (checked && !(qp->state & qp->send_states))
		return refuse(qp, 0);
	if (!qp->sq.lost)
		n = smaller(n, qp->sq.room - smaller(under_way(&qp->sq), qp->sq.room));
	if (!n)
		return would_stick(&qp->sq, 0) ? refuse(qp, 0) : 0; /* no room will come by waiting */
	if (!stream->posted)
		stream->begun_ns = now_ns();
	if (chain->follows)
		enter(&qp->domain->lock); /* what a driver follows must not end meanwhile */
	if (chain->ended == qp->domain->ended)
		result = chain->n == 1 ? post_singly(stream, n) : post_batches(stream, n);
	if (chain->follows)
		leave(&qp->domain->lock);
	return result;
}

static void number_receives(struct rdmaqp_sink *sink, uint32_t n)
{
	uint32_t at;

	for (at = 0; at < n; at++)
		sink->chain->receives[at].wr_id = sink->wr_id + sink->posted + at;
}

/* Fill the receive queue up to the depth, never beyond what will come: 0, or why not. The caller is inside. */
static int fill_sink(struct rdmaqp_sink *sink, int checked)
{
	struct rdmaqp_chain *chain = sink->chain;

	while (sink->posted < sink->count) {
		uint64_t left = sink->count - sink->posted;
		uint32_t n = smaller(left, sink->depth - (sink->posted - sink->received));
		struct ibv_recv_wr *last, *next;
		int result;

		if (!n || (n < chain->n && n < left))
			break; /* as rarely as safe: a post is a system call's worth on some devices */
		n = smaller(n, chain->n);
		if (checked && (chain->qp->receives != &chain->qp->rq || !(chain->qp->state & chain->qp->recv_states)))
			return refuse(chain->qp, 0);
		if (chain->ended != chain->qp->domain->ended)
			return RDMAQP_STALE;
		if (!has_room(&chain->qp->rq, n))
			break;
		number_receives(sink, n);
		last = &chain->receives[n - 1];
		next = last->next;
		last->next = NULL;
		result = hand_receives(chain->qp, chain->receives, n, 0);
		last->next = next;
		sink->posted += result ? chain->qp->index : n;
		if (result)
			return result;
	}
	return 0;
}

/* Post a sink's receives before anybody may send: as the posting calls. */
static int rdmaqp_fill_sink(struct rdmaqp_sink *sink, int checked)
{
	struct rdmaqp_qp *qp = sink->chain->qp;

	if (!enter(&qp->lock))
		return RDMAQP_CLOSED;
	sink->result = fill_sink(sink, checked);
	leave(&qp->lock);
	return sink->result;
}

static void arrived(struct rdmaqp_sink *sink)
{
	if (!sink->received++)
		sink->begun_ns = now_ns();
	if (sink->received == sink->count)
		sink->ended_ns = now_ns();
}

/* Is it this stream's? Then note it: 1, or RDMAQP_STATUS where it failed; else 0. */
static int take_of_stream(struct rdmaqp_stream *stream, const struct ibv_wc *wc)
{
	uint64_t number = wc->wr_id - stream->wr_id;

	if (wc->qp_num != stream->chain->qp->qp_num || number >= stream->posted || number < stream->completed)
		return 0;
	if (wc->status != IBV_WC_SUCCESS) {
		stream->failed = *wc;
		return stream->result = RDMAQP_STATUS;
	}
	if (wc->opcode & IBV_WC_RECV)
		return 0;
	stream->completed = number + 1;
	if (stream->completed == stream->count)
		stream->ended_ns = now_ns();
	return 1;
}

static int take_of_sink(struct rdmaqp_sink *sink, const struct ibv_wc *wc)
{
	if (!sink->chain || wc->qp_num != sink->chain->qp->qp_num || wc->wr_id - sink->wr_id >= sink->posted)
		return 0;
	if (wc->status != IBV_WC_SUCCESS) {
		sink->failed = *wc;
		return sink->result = RDMAQP_STATUS;
	}
	if (!(wc->opcode & IBV_WC_RECV))
		return 0;
	sink->bytes += wc->byte_len;
	arrived(sink);
	return 1;
}
