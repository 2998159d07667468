/*
 * Taking the completions of one queue pair alone off a queue that it may share. Those of others are held, in their
 * order, for whoever polls next.
 */

struct taking {
	uint32_t qp_num;
	int kinds; /* RDMAQP_SENDS, RDMAQP_RECEIVES */
	int num_entries;
	struct ibv_wc *wc;
};

static int is_taken(const struct taking *taking, const struct ibv_wc *wc)
{
	int kind = wc->opcode & IBV_WC_RECV ? RDMAQP_RECEIVES : RDMAQP_SENDS;

	return wc->qp_num == taking->qp_num && kind & taking->kinds;
}

static int take_kept(struct rdmaqp_cq *cq, const struct taking *taking)
{
	uint32_t at, kept = 0, count = cq->held_count;
	int n = 0;

	for (at = 0; at < count; at++) {
		const struct ibv_wc one = cq->held[(cq->held_first + at) % cq->held_size];

		if (n < taking->num_entries && is_taken(taking, &one))
			taking->wc[n++] = one;
		else
			cq->held[(cq->held_first + kept++) % cq->held_size] = one;
	}
	cq->held_count = kept;
	return n;
}

/* How many were taken, and in *polled how many came; -1 with errno and *verb. */
static int take_polled(struct rdmaqp_cq *cq, const struct taking *taking, int *polled, const char **verb)
{
	struct ibv_wc found[16];
	uint64_t number;
	int i, n = 0;

	*verb = "ibv_poll_cq";
	*polled = ibv_poll_cq(cq->cq, taking->num_entries < 16 ? taking->num_entries : 16, found);
	if (*polled < 0) {
		errno = poll_error(*polled);
		return -1;
	}
	for (i = 0; i < *polled; i++) {
		if (!is_next(cq, &found[i]))
			account(cq, &found[i], &number);
		if (is_taken(taking, &found[i])) {
			taking->wc[n++] = found[i];
		} else if (hold(cq, &found[i])) {
			*verb = "malloc";
			errno = ENOMEM;
			return -1;
		}
	}
	return n;
}

/* Take until there is one, the slice is over, or another thread wants the queue; the caller is inside. */
static int take_within(struct rdmaqp_cq *cq, const struct taking *taking, int64_t end, const char **verb)
{
	int armed = 0;

	for (;;) {
		int64_t left;
		int polled, n = take_polled(cq, taking, &polled, verb);

		if (n)
			return n;
		left = end - now_ns();
		if (left <= 0 || is_wanted(&cq->lock))
			return 0;
		if (polled)
			continue; /* all of them others': there may be more */
		if (!cq->channel) {
			sched_yield(); /* Soft-RoCE works in a thread, which may wait for this very processor */
		} else if (!armed) {
			if (arm(cq, verb))
				return -1;
			armed = 1;
		} else {
			if (sleep_armed(cq, left, verb))
				return -1;
			armed = 0;
		}
	}
}

/*
 * Completions of qp_num that are of those kinds, within a slice of time: a count; 0 where none came; -1 with errno and
 * *verb, errno 0 where the queue is closed. With RDMAQP_HELD, only of what is held.
 */
static int rdmaqp_take(struct rdmaqp_cq *cq, uint32_t qp_num, int kinds, int num_entries, struct ibv_wc *wc,
		       int64_t slice_ns, const char **verb)
{
	const struct taking taking = { qp_num, kinds, num_entries, wc };
	int64_t end = now_ns() + slice_ns;
	int n;

	if (!enter(&cq->lock)) {
		errno = 0;
		return -1;
	}
	n = cq->held_count ? take_kept(cq, &taking) : 0;
	if (!n && !(kinds & RDMAQP_HELD))
		n = take_within(cq, &taking, end, verb);
	leave(&cq->lock);
	return n;
}
