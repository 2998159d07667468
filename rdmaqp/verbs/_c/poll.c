/*
 * Taking completions off a queue, at once or within a slice of time.
 */

/* Those that were held first. The caller is inside. A count, or what ibv_poll_cq() says. */
static int poll_inside(struct rdmaqp_cq *cq, int num_entries, struct ibv_wc *wc)
{
	uint64_t number;
	int n, i;

	if (cq->held_count) {
		for (n = 0; n < num_entries && cq->held_count; n++, cq->held_count--) {
			wc[n] = cq->held[cq->held_first++];
			if (cq->held_first == cq->held_size)
				cq->held_first = 0;
		}
		return n;
	}
	n = ibv_poll_cq(cq->cq, num_entries, wc);
	for (i = 0; i < n; i++)
		if (!is_next(cq, &wc[i]))
			account(cq, &wc[i], &number);
	return n;
}

/* Keep one for whoever asks next: 0, or ENOMEM. */
static int hold(struct rdmaqp_cq *cq, const struct ibv_wc *wc)
{
	if (cq->held_count == cq->held_size) {
		uint32_t size = cq->held_size ? cq->held_size * 2 : 64, at;
		struct ibv_wc *more = malloc(size * sizeof(*more));

		if (!more)
			return ENOMEM;
		for (at = 0; at < cq->held_count; at++)
			more[at] = cq->held[(cq->held_first + at) % cq->held_size];
		free(cq->held);
		cq->held = more;
		cq->held_size = size;
		cq->held_first = 0;
	}
	cq->held[(cq->held_first + cq->held_count++) % cq->held_size] = *wc;
	return 0;
}

/* Completions that are there now: a count; -1 with errno; RDMAQP_CLOSED is told apart by errno 0. */
static int rdmaqp_poll(struct rdmaqp_cq *cq, int num_entries, struct ibv_wc *wc)
{
	int n;

	if (!enter(&cq->lock)) {
		errno = 0;
		return -1;
	}
	n = poll_inside(cq, num_entries, wc);
	leave(&cq->lock);
	if (n < 0) {
		errno = poll_error(n);
		return -1;
	}
	return n;
}

/* Have the next completion raise an event. What came before raises none: look once more before sleeping. */
static int arm(struct rdmaqp_cq *cq, const char **verb)
{
	int error = ibv_req_notify_cq(cq->cq, 0);

	if (!error)
		return 0;
	*verb = "ibv_req_notify_cq";
	errno = abs(error);
	return -1;
}

/* Sleep until the channel has an event, or the time is over: 0, or -1 with errno and *verb. */
static int sleep_armed(struct rdmaqp_cq *cq, int64_t left, const char **verb)
{
	struct pollfd fd = { .fd = cq->channel->fd, .events = POLLIN };
	struct ibv_cq *whose;
	int n;

	*verb = "poll";
	if (poll(&fd, 1, (int)(left / 1000000) + 1) < 0 && errno != EINTR)
		return -1;
	*verb = "ibv_get_cq_event";
	n = rdmaqp_take_event(cq->channel, &whose);
	cq->events += n > 0;
	return n < 0 ? n : 0;
}

/* A count of completions that came before it could sleep; else as sleep_armed(). */
static int sleep_for_event(struct rdmaqp_cq *cq, int num_entries, struct ibv_wc *wc, int64_t left, const char **verb)
{
	int n;

	if (arm(cq, verb))
		return -1;
	n = poll_inside(cq, num_entries, wc);
	return n > 0 ? n : sleep_armed(cq, left, verb);
}

/*
 * Poll until something completes or the slice is over: the number of completions, 0, or -1 with errno and *verb; errno
 * is 0 where the queue is closed. With a channel, the thread sleeps instead of spinning.
 */
static int rdmaqp_wait(struct rdmaqp_cq *cq, int num_entries, struct ibv_wc *wc, int64_t slice_ns, const char **verb)
{
	int64_t end = now_ns() + slice_ns;
	int n;

	if (!enter(&cq->lock)) {
		errno = 0;
		return -1;
	}
	for (;;) {
		int64_t left;

		n = poll_inside(cq, num_entries, wc);
		if (n < 0) {
			*verb = "ibv_poll_cq";
			errno = poll_error(n);
			n = -1;
		}
		left = n ? 0 : end - now_ns();
		if (n || left <= 0 || is_wanted(&cq->lock))
			break;
		if (cq->channel) {
			n = sleep_for_event(cq, num_entries, wc, left, verb);
			if (n)
				break;
		} else {
			sched_yield(); /* Soft-RoCE works in a thread, which may wait for this very processor */
		}
	}
	leave(&cq->lock);
	return n;
}
