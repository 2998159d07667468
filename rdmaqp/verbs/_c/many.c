/*
 * Queue pairs by the hundred. Of those that are alike Python makes, judges and moves the first; the others follow it
 * here. Who turns out to be unlike goes through Python, alone.
 *
 * What takes long returns after a slice of time, with what it has done in its struct: Python sees signals between.
 */

/* Begin the account of a queue pair that has just been made. */
static int begin_account(const struct rdmaqp_making *making, struct rdmaqp_qp *account, struct ibv_qp *qp)
{
	int error;

	*account = *making->account;
	account->qp = qp;
	account->qp_num = qp->qp_num;
	account->sq.slots = making->slots + (size_t)making->done * (account->sq.mask + 1);
	if (!account->receives)
		account->receives = &account->rq;
	error = rdmaqp_add_pair(account->send_cq, account);
	if (error || account->recv_cq == account->send_cq)
		return error;
	error = rdmaqp_add_pair(account->recv_cq, account);
	if (error)
		rdmaqp_drop_pair(account->send_cq, account);
	return error;
}

static void drop_account(struct rdmaqp_qp *account)
{
	rdmaqp_forget_work(account);
	if (account->send_cq)
		rdmaqp_drop_pair(account->send_cq, account);
	if (account->recv_cq && account->recv_cq != account->send_cq)
		rdmaqp_drop_pair(account->recv_cq, account);
}

static void rdmaqp_make_many(struct rdmaqp_making *making, int64_t slice_ns)
{
	int64_t end = now_ns() + slice_ns;

	while (making->done < making->count) {
		struct ibv_qp_init_attr init = *making->init;
		struct ibv_qp *qp;

		errno = 0;
		qp = ibv_create_qp(making->pd, &init);
		making->unlike = qp && memcmp(&init.cap, &making->cap, sizeof(init.cap));
		making->error = qp ? 0 : errno ? errno : EIO; /* a driver may forget to say why */
		if (qp && !making->unlike)
			making->error = begin_account(making, &making->qps[making->done], qp);
		if (making->unlike || making->error) {
			if (qp)
				ibv_destroy_qp(qp);
			making->qps[making->done].qp = NULL;
			return;
		}
		making->done++;
		if (now_ns() >= end)
			return;
	}
}

/* Whether what the guard looks at is as it was. The counters in it go on by themselves. */
static int same_answers(const struct rdmaqp_answers *was, struct rdmaqp_answers *is)
{
	is->port.bad_pkey_cntr = was->port.bad_pkey_cntr;
	is->port.qkey_viol_cntr = was->port.qkey_viol_cntr;
	return !memcmp(&was->port, &is->port, sizeof(was->port)) && !memcmp(&was->gid, &is->gid, sizeof(was->gid)) &&
	       !strcmp(was->netdev, is->netdev) && was->pkey == is->pkey;
}

/* Whether a queue pair finds what the first was judged by. Its state is asked of each, the rest of the next in time. */
static int finds_the_same(struct rdmaqp_way *way, struct ibv_qp *qp)
{
	struct rdmaqp_answers answers = { 0 };
	int64_t now = now_ns();
	int is_due = now - way->asked_ns >= way->holds_ns;
	int there = is_due ? rdmaqp_ask(qp, way->port_num, way->sgid_index, way->pkey_index, &answers) :
			     rdmaqp_ask(qp, 0, -1, -1, &answers);

	if (!(there & RDMAQP_HAS_STATE) || answers.state != IBV_QPS_RESET)
		return 0;
	if (is_due) {
		if (there != way->there || !same_answers(&way->answers, &answers))
			return 0;
		way->asked_ns = now;
	}
	return 1;
}

/* All steps of one queue pair, which is in RESET. Returns 0, or the error of way->step. */
static int take_steps(struct rdmaqp_way *way, struct rdmaqp_qp *qp, struct rdmaqp_follower *follower)
{
	follower->way = way->number;
	follower->dest_qp_num = way->dest_qp_nums[way->done];
	follower->rq_psn = way->rq_psns[way->done];
	follower->sq_psn = way->sq_psns[way->done];
	follower->times[0] = clock_ns(CLOCK_REALTIME);
	for (way->step = 0; way->step < RDMAQP_STEPS; way->step++) {
		struct ibv_qp_attr attr = way->steps[way->step].attr;
		int mask = way->steps[way->step].mask;

		if (mask & IBV_QP_DEST_QPN)
			attr.dest_qp_num = follower->dest_qp_num;
		if (mask & IBV_QP_RQ_PSN)
			attr.rq_psn = follower->rq_psn;
		if (mask & IBV_QP_SQ_PSN)
			attr.sq_psn = follower->sq_psn;
		way->error = ibv_modify_qp(qp->qp, &attr, mask);
		if (way->error)
			return way->error;
		__atomic_store_n(&qp->state, 1u << attr.qp_state, __ATOMIC_RELEASE);
		follower->times[++follower->taken] = clock_ns(CLOCK_REALTIME);
	}
	return 0;
}

/* The next queue pair: 0, or what to end with. */
static int follow_one(struct rdmaqp_way *way, struct rdmaqp_qp *qp, struct rdmaqp_follower *follower)
{
	int result = 0;

	if (!qp->qp || follower->way || way->dest_qp_nums[way->done] < 2) /* 0 and 1 are nobody's peer */
		return RDMAQP_JUDGE;
	if (!enter(&qp->lock))
		return RDMAQP_CLOSED;
	if (!finds_the_same(way, qp->qp))
		result = RDMAQP_JUDGE;
	else if (take_steps(way, qp, follower))
		result = RDMAQP_VERB;
	leave(&qp->lock);
	return result;
}

static void rdmaqp_follow(struct rdmaqp_way *way, struct rdmaqp_qp *qps, struct rdmaqp_follower *followers,
			  uint32_t count, int64_t slice_ns)
{
	int64_t end = now_ns() + slice_ns;

	way->result = 0;
	for (way->done = 0; way->done < count; way->done++) {
		way->result = follow_one(way, &qps[way->done], &followers[way->done]);
		if (way->result)
			return;
		if (now_ns() >= end) {
			way->done++;
			return;
		}
	}
}

/* Destroy those that are still there. Returns 0, or the error of number *at, which stays, as those behind it do. */
static int rdmaqp_end_many(struct rdmaqp_qp *qps, uint32_t count, uint32_t *at)
{
	for (*at = 0; *at < count; ++*at) {
		struct rdmaqp_qp *qp = &qps[*at];
		int error;

		if (!qp->qp || qp->lock.closed)
			continue;
		rdmaqp_set_closed(&qp->lock, 1);
		error = ibv_destroy_qp(qp->qp);
		if (error) {
			rdmaqp_set_closed(&qp->lock, 0);
			return error;
		}
		qp->qp = NULL; /* who looks at it from here on finds it closed */
		drop_account(qp);
	}
	return 0;
}

/* After fork, in the child: they are the parent's. Who held a lock there is not here. */
static void rdmaqp_bar_many(struct rdmaqp_qp *qps, uint32_t count)
{
	while (count--)
		qps[count].lock = (struct rdmaqp_lock){ .closed = 1 };
}

/* The index of the queue pair that is still there and lies at that address; -1. */
static int64_t rdmaqp_find_many(const struct rdmaqp_qp *qps, uint32_t count, uintptr_t address)
{
	uint32_t at;

	for (at = 0; at < count; at++)
		if ((uintptr_t)qps[at].qp == address && !qps[at].lock.closed)
			return at;
	return -1;
}
