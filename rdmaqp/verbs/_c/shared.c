/*
 * Shared receive queues: posting to them, as post.c and chain.c to a queue pair's own.
 */

static int refuse_shared(struct rdmaqp_srq *srq, uint32_t index)
{
	srq->index = index;
	return RDMAQP_JUDGE;
}

/* Hand n linked requests over, which are number first… of the call: 0, or RDMAQP_VERB with what is not posted. */
static int hand_shared(struct rdmaqp_srq *srq, struct ibv_recv_wr *wrs, uint32_t n, uint32_t first)
{
	struct ibv_recv_wr *bad = NULL;
	uint32_t at;
	int error;

	__atomic_add_fetch(&srq->queue.head, n, __ATOMIC_RELEASE); /* first: one may complete at once */
	error = ibv_post_srq_recv(srq->srq, wrs, &bad);
	if (!error)
		return 0;
	at = bad >= wrs && bad < wrs + n ? bad - wrs : 0;
	__atomic_sub_fetch(&srq->queue.head, n - at, __ATOMIC_RELEASE);
	srq->verb = "ibv_post_srq_recv";
	srq->error = abs(error);
	srq->index = first + at;
	return RDMAQP_VERB;
}

static int check_shared(struct rdmaqp_srq *srq, const struct rdmaqp_recv_record *records, uint32_t n)
{
	uint32_t at;

	if (!has_room(&srq->queue, n))
		return refuse_shared(srq, 0);
	at = first_unfit(srq->domain, srq->max_sge, 0, records, n);
	return at < n ? refuse_shared(srq, at) : 0;
}

/* Post n receives, of one piece each, as rdmaqp_post_recvs(). */
static int rdmaqp_post_srq_recvs(struct rdmaqp_srq *srq, const struct rdmaqp_recv_record *records, uint32_t n,
				 int checked)
{
	struct ibv_recv_wr wrs[BATCH];
	struct ibv_sge sges[BATCH];
	uint32_t first;
	int result = 0;

	if (!enter(&srq->lock))
		return RDMAQP_CLOSED;
	if (checked)
		result = check_shared(srq, records, n);
	for (first = 0; first < n && !result; first += BATCH) {
		uint32_t count = n - first < BATCH ? n - first : BATCH;

		make_receives(records + first, count, wrs, sges);
		result = hand_shared(srq, wrs, count, first);
	}
	leave(&srq->lock);
	return result;
}

static int post_shared_chain(struct rdmaqp_chain *chain)
{
	struct rdmaqp_srq *srq = chain->srq;
	int result;

	if (!enter(&srq->lock))
		return RDMAQP_CLOSED;
	if (chain->ended != srq->domain->ended)
		result = RDMAQP_STALE;
	else if (chain->checked && !has_room(&srq->queue, chain->n))
		result = refuse_shared(srq, 0);
	else
		result = hand_shared(srq, chain->receives, chain->n, 0);
	leave(&srq->lock);
	return result;
}
