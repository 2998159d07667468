/*
 * Transfers: one work request posted again and again, with a window, and its completions reaped; the receives at the
 * other end; both in one loop where both are of this process.
 *
 * Ends that answer each other (a stream whose sink hears the other's stream) are a ping-pong: by receives, or, of RDMA
 * WRITE, by a byte of memory.
 */

#define RDMAQP_ENDS 8      /* of one transfer */
#define TAKEN_AT_ONCE 32   /* completions */
#define BETWEEN_CLOCKS 64  /* messages at first: the clock may cost as much as several (no TSC) */

/* What one call works on. */
struct ends {
	struct rdmaqp_stream **streams;
	struct rdmaqp_sink **sinks;
	uint32_t stream_count;
	uint32_t sink_count;
	struct rdmaqp_cq *queues[RDMAQP_ENDS]; /* each once */
	struct rdmaqp_qp *pairs[RDMAQP_ENDS];
	uint32_t queue_count;
	uint32_t pair_count;
	int checked;
};

static void add_end(struct ends *ends, struct rdmaqp_cq *queue, struct rdmaqp_qp *pair)
{
	uint32_t at;

	for (at = 0; at < ends->queue_count && ends->queues[at] != queue; at++)
		;
	if (at == ends->queue_count)
		ends->queues[ends->queue_count++] = queue;
	for (at = 0; at < ends->pair_count && ends->pairs[at] != pair; at++)
		;
	if (at == ends->pair_count)
		ends->pairs[ends->pair_count++] = pair;
}

static void leave_ends(struct ends *ends, uint32_t pairs, uint32_t queues)
{
	while (queues)
		leave(&ends->queues[--queues]->lock);
	while (pairs)
		leave(&ends->pairs[--pairs]->lock);
}

/* All queue pairs first, then all queues. Two calls that share some are kept apart by Python's locks. */
static int enter_ends(struct ends *ends)
{
	uint32_t pairs, queues;

	for (pairs = 0; pairs < ends->pair_count; pairs++)
		if (!enter(&ends->pairs[pairs]->lock)) {
			leave_ends(ends, pairs, 0);
			return 0;
		}
	for (queues = 0; queues < ends->queue_count; queues++)
		if (!enter(&ends->queues[queues]->lock)) {
			leave_ends(ends, pairs, queues);
			return 0;
		}
	return 1;
}

/* Give one completion to the end whose it is; what is nobody's is kept for whoever polls. */
static int give(struct ends *ends, struct rdmaqp_cq *queue, const struct ibv_wc *wc)
{
	uint32_t at;
	int taken = 0;

	for (at = 0; at < ends->stream_count && !taken; at++)
		taken = take_of_stream(ends->streams[at], wc);
	for (at = 0; at < ends->sink_count && !taken; at++)
		taken = take_of_sink(ends->sinks[at], wc);
	if (!taken && hold(queue, wc))
		return verb_failed(ends->pairs[0], "malloc", ENOMEM, 0);
	return taken < 0 ? taken : 0;
}

/* What another call has kept may be ours. */
static int take_held(struct ends *ends, struct rdmaqp_cq *queue)
{
	uint32_t left = queue->held_count;
	int result = 0;

	while (left-- && !result) {
		struct ibv_wc wc;

		poll_inside(queue, 1, &wc);
		result = give(ends, queue, &wc);
	}
	return result;
}

/* Take what has completed. All of what was polled is given, also behind one that failed. */
static int poll_ends(struct ends *ends, struct rdmaqp_cq *queue)
{
	struct ibv_wc wc[TAKEN_AT_ONCE];
	int i, result = 0, n = ibv_poll_cq(queue->cq, TAKEN_AT_ONCE, wc);

	if (n < 0)
		return verb_failed(ends->pairs[0], "ibv_poll_cq", poll_error(n), 0);
	for (i = 0; i < n; i++) {
		uint64_t number;
		int given;

		if (!is_next(queue, &wc[i]))
			account(queue, &wc[i], &number);
		if (result && hold(queue, &wc[i])) /* flushed behind the one that failed: whoever polls sees them */
			return verb_failed(ends->pairs[0], "malloc", ENOMEM, 0);
		if (result)
			continue;
		given = give(ends, queue, &wc[i]);
		result = given;
	}
	return result;
}

/* Messages posted, completed and received: what changes with each step. */
static uint64_t steps(const struct ends *ends)
{
	uint64_t sum = 0;
	uint32_t at;

	for (at = 0; at < ends->stream_count; at++)
		sum += ends->streams[at]->posted + ends->streams[at]->completed;
	for (at = 0; at < ends->sink_count; at++)
		sum += ends->sinks[at]->received;
	return sum;
}

static int is_finished(const struct ends *ends)
{
	uint32_t at;

	for (at = 0; at < ends->stream_count; at++)
		if (ends->streams[at]->completed != ends->streams[at]->count)
			return 0;
	for (at = 0; at < ends->sink_count; at++)
		if (ends->sinks[at]->received != ends->sinks[at]->count)
			return 0;
	return 1;
}

/* One turn of all ends: 0, or why one of them cannot go on. */
static int turn(struct ends *ends)
{
	int result = 0;
	uint32_t at;

	for (at = 0; at < ends->sink_count; at++) {
		struct rdmaqp_sink *sink = ends->sinks[at];

		if (sink->chain)
			result = sink->result = fill_sink(sink, ends->checked);
		else if (sink->received < sink->count &&
			 __atomic_load_n(sink->watched, __ATOMIC_ACQUIRE) == (uint8_t)(sink->received + 1))
			arrived(sink);
		if (result)
			return result;
	}
	for (at = 0; at < ends->stream_count; at++) {
		result = ends->streams[at]->result = post_stream(ends->streams[at], ends->checked);
		if (result)
			return result;
	}
	for (at = 0; at < ends->queue_count && !result; at++)
		result = poll_ends(ends, ends->queues[at]);
	return result;
}

/* Streams whose time is over end with what is posted, and one more where nobody would hear of the last. */
static void look_at_clock(struct ends *ends, int64_t now)
{
	uint32_t at;

	for (at = 0; at < ends->stream_count; at++) {
		struct rdmaqp_stream *stream = ends->streams[at];

		if (stream->duration_ns && stream->posted && now - stream->begun_ns >= stream->duration_ns) {
			stream->count = stream->posted + (stream->signaled < stream->posted);
			stream->duration_ns = 0;
			if (stream->completed == stream->count)
				stream->ended_ns = now;
		}
	}
}

static int run_ends(struct ends *ends, int64_t slice_ns)
{
	int64_t now = now_ns(), last = now;
	struct idle idle = { .slice_ns = slice_ns, .end = now + slice_ns };
	uint64_t seen = steps(ends), before = seen, after, between = BETWEEN_CLOCKS;
	uint32_t at;
	int result;

	look_at_clock(ends, now);
	for (;;) {
		result = turn(ends);
		if (result)
			return result;
		if (is_finished(ends))
			return 1;
		after = steps(ends);
		if (after == before) {
			for (at = 0; at < ends->queue_count; at++)
				if (is_wanted(&ends->queues[at]->lock))
					return 0;
			if (is_over(&idle))
				return 0;
		} else if (after - seen >= between) {
			seen = after;
			now = now_ns();
			if (now - last < slice_ns / 16)
				between *= 2;
			last = now;
			look_at_clock(ends, now);
			if (now >= idle.end)
				return 0;
		}
		before = after;
	}
}

/*
 * Run streams and sinks, RDMAQP_ENDS of them at most, until all are done: 1; 0 where the slice is over, and then the
 * next call goes on; negative why not: the end that cannot go on has it as its result.
 */
static int rdmaqp_transfer(struct rdmaqp_stream **streams, uint32_t stream_count, struct rdmaqp_sink **sinks,
			   uint32_t sink_count, int64_t slice_ns, int checked)
{
	struct ends ends = { .streams = streams, .sinks = sinks, .stream_count = stream_count,
			     .sink_count = sink_count, .checked = checked };
	int result = 0;
	uint32_t at;

	for (at = 0; at < stream_count; at++) {
		streams[at]->result = 0;
		add_end(&ends, streams[at]->queue, streams[at]->chain->qp);
	}
	for (at = 0; at < sink_count; at++) {
		sinks[at]->result = 0;
		if (sinks[at]->chain)
			add_end(&ends, sinks[at]->queue, sinks[at]->chain->qp);
	}
	if (!enter_ends(&ends))
		return RDMAQP_CLOSED;
	for (at = 0; at < ends.queue_count && !result; at++)
		result = take_held(&ends, ends.queues[at]);
	if (!result)
		result = run_ends(&ends, slice_ns);
	leave_ends(&ends, ends.pair_count, ends.queue_count);
	return result;
}
