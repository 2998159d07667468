/*
 * Chains: work requests made once and posted often; posted and reaped in one call.
 */

/*
 * Put request number at into a chain: as its record says, with count pieces at sges, which stay where they are. A
 * record is checked as ever; its pieces are the caller's to check. Returns 0, or RDMAQP_NO_AH and leaves what was there.
 */
static int rdmaqp_chain_send(struct rdmaqp_chain *chain, uint32_t at, const struct rdmaqp_send_record *record,
			     struct ibv_sge *sges, uint32_t count)
{
	struct ibv_send_wr *wr = &chain->sends[at], made = { .wr_id = 0 };
	struct ibv_sge piece;
	int result;

	enter(&chain->qp->domain->lock);
	result = make_send(chain->qp, plain_on(chain->qp), record, &made, &piece);
	leave(&chain->qp->domain->lock);
	if (result)
		return result;
	*wr = made;
	wr->sg_list = sges;
	wr->num_sge = count;
	wr->next = at + 1 < chain->n ? wr + 1 : NULL;
	chain->signaled -= !!chain->slots[at].signaled;
	chain->slots[at] = slot_of(chain->qp, wr->wr_id, wr->send_flags);
	chain->signaled += !!chain->slots[at].signaled;
	return 0;
}

/* Put the binding of a memory window into a chain: pages of mr from addr on become rkey's. */
static void rdmaqp_chain_bind(struct rdmaqp_chain *chain, uint32_t at, struct ibv_mw *mw, uint32_t rkey,
			      struct ibv_mr *mr, uint64_t addr, uint64_t length, unsigned int access)
{
	struct ibv_send_wr *wr = &chain->sends[at];

	chain->follows = 1;
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info.mr = mr;
	wr->bind_mw.bind_info.addr = addr;
	wr->bind_mw.bind_info.length = length;
	wr->bind_mw.bind_info.mw_access_flags = access;
}

static void rdmaqp_chain_recv(struct rdmaqp_chain *chain, uint32_t at, uint64_t wr_id, struct ibv_sge *sges,
			      uint32_t count)
{
	struct ibv_recv_wr *wr = &chain->receives[at];

	*wr = (struct ibv_recv_wr){ .wr_id = wr_id, .sg_list = sges, .num_sge = count,
				    .next = at + 1 < chain->n ? wr + 1 : NULL };
}

static int hand_chain(struct rdmaqp_chain *chain)
{
	struct rdmaqp_qp *qp = chain->qp;

	if (chain->sends) {
		if (chain->checked && !takes_sends(qp, chain->n))
			return refuse(qp, 0);
		if (chain->checked && !chain->signaled && would_stick(&qp->sq, chain->n))
			return refuse(qp, chain->n - 1);
		chain->start = qp->sq.head;
		return hand_sends(qp, chain->sends, chain->slots, chain->n, 0);
	}
	if (chain->checked && !takes_receives(qp, chain->n))
		return refuse(qp, 0);
	return hand_receives(qp, chain->receives, chain->n, 0);
}

/* The caller is inside the queue pair. */
static int post_chain(struct rdmaqp_chain *chain)
{
	struct rdmaqp_domain *domain = chain->qp->domain;
	int result = RDMAQP_STALE;

	if (!chain->follows)
		return chain->ended == domain->ended ? hand_chain(chain) : RDMAQP_STALE;
	enter(&domain->lock); /* to the end: what a driver follows must not end meanwhile */
	if (chain->ended == domain->ended)
		result = hand_chain(chain);
	leave(&domain->lock);
	return result;
}

/* Post all of a chain, as rdmaqp_post_sends(); RDMAQP_STALE where its memory has to be looked at again. */
static int rdmaqp_post_chain(struct rdmaqp_chain *chain)
{
	int result;

	if (chain->srq)
		return post_shared_chain(chain);
	if (!enter(&chain->qp->lock))
		return RDMAQP_CLOSED;
	result = post_chain(chain);
	leave(&chain->qp->lock);
	return result;
}

/* Where others have taken the chain's completions off the queue: 1, RDMAQP_STATUS, or 0 where they have not. */
static int is_through(const struct rdmaqp_chain *chain)
{
	struct rdmaqp_qp *qp = chain->qp;

	if ((int64_t)(qp->sq.tail - chain->start) < chain->n)
		return 0;
	qp->index = qp->failed_number - chain->start < chain->n ? qp->failed_number - chain->start : chain->n;
	return qp->failures == chain->failures ? 1 : RDMAQP_STATUS;
}

/* Take completions until all of the chain's have come: 1; 0 where the slice is over; negative why not. */
static int reap_chain(struct rdmaqp_chain *chain, struct rdmaqp_cq *cq)
{
	struct rdmaqp_qp *qp = chain->qp;
	struct idle idle = { .slice_ns = chain->slice_ns };
	int result = 0;

	while (chain->reaped < chain->signaled && !result) {
		struct ibv_wc wc[16];
		uint32_t before = chain->reaped;
		int i, n = ibv_poll_cq(cq->cq, 16, wc);

		if (n < 0)
			return verb_failed(qp, "ibv_poll_cq", poll_error(n), 0);
		for (i = 0; i < n; i++) {
			uint64_t number = 0;
			int is_ours = account(cq, &wc[i], &number) == qp && number - chain->start < chain->n;

			if (is_ours && wc[i].status == IBV_WC_SUCCESS) {
				chain->reaped++;
			} else if (is_ours && !result) {
				qp->failed = wc[i];
				qp->index = number - chain->start;
				result = RDMAQP_STATUS;
			} else if (hold(cq, &wc[i])) {
				return verb_failed(qp, "malloc", ENOMEM, 0);
			}
		}
		if (chain->reaped == before && !result)
			result = is_through(chain);
		if (chain->reaped == before && !result && (is_wanted(&cq->lock) || is_over(&idle)))
			return 0;
	}
	return result ? result : 1;
}

/*
 * Post a chain of sends, and wait until its signaled requests have succeeded: 1; 0 where the slice is over, and then
 * the next call goes on; negative why not. Completions of other work are kept for whoever polls.
 */
static int rdmaqp_run_chain(struct rdmaqp_chain *chain)
{
	struct rdmaqp_cq *cq = chain->qp->send_cq;
	int result = 0;

	if (!enter(&chain->qp->lock))
		return RDMAQP_CLOSED;
	if (!enter(&cq->lock)) {
		leave(&chain->qp->lock);
		return RDMAQP_CLOSED;
	}
	if (!chain->running || chain->resets != chain->qp->resets) {
		chain->resets = chain->qp->resets;
		chain->failures = chain->qp->failures;
		chain->reaped = 0;
		result = post_chain(chain);
		chain->running = !result;
	}
	if (!result)
		result = reap_chain(chain, cq);
	if (result)
		chain->running = 0;
	leave(&cq->lock);
	leave(&chain->qp->lock);
	return result;
}
