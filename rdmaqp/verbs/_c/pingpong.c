/*
 * The ping-pong: a whole message exchange without Python, in slices of time. Compiled behind shim.c, in one unit.
 */

#define RECV_ID 1
#define SEND_ID 2
#define STOCK_BYTE 0x7b   /* what a stock ibv_rc_pingpong fills its buffer with */
#define STOCK_PAGE 4096   /* with -c it writes a zero at the start of each page, and looks for it there */

static int fail(struct rdmaqp_end *end, int how)
{
	end->failed = how;
	return -1;
}

static int fail_verb(struct rdmaqp_end *end, const char *verb, int error)
{
	end->verb = verb;
	end->error = abs(error);
	return fail(end, RDMAQP_FAILED_VERB);
}

/* Message number n of one direction, as eight bytes that differ between messages and directions. */
static uint64_t stamp_of(uint64_t n, int from_initiator)
{
	return (n * 2 + (from_initiator ? 1 : 0) + 1) * 0x9e3779b97f4a7c15u;
}

/* Write or compare a repeated, moving pattern: word k is the stamp plus k steps. Returns whether it is there. */
static int whole(uint8_t *buffer, uint32_t size, uint64_t stamp, int write)
{
	uint32_t at;

	for (at = 0; at + 8 <= size; at += 8, stamp += 0x0101010101010101u) {
		if (write)
			memcpy(buffer + at, &stamp, 8);
		else if (memcmp(buffer + at, &stamp, 8))
			return 0;
	}
	if (write)
		memcpy(buffer + at, &stamp, size - at);
	return write || !memcmp(buffer + at, &stamp, size - at);
}

static int ends(uint8_t *buffer, uint32_t size, uint64_t stamp, int write)
{
	uint32_t length = size < 8 ? size : 8;

	if (size >= 16) { /* as below, of a length that the compiler knows */
		if (write) {
			memcpy(buffer, &stamp, 8);
			memcpy(buffer + size - 8, &stamp, 8);
		}
		return write || (!memcmp(buffer, &stamp, 8) && !memcmp(buffer + size - 8, &stamp, 8));
	}
	if (write) {
		memcpy(buffer, &stamp, length);
		memcpy(buffer + size - length, &stamp, length);
		return 1;
	}
	/* Messages under 16 bytes overlap themselves: the tail was written last. */
	return !memcmp(buffer + size - length, &stamp, length);
}

static void write_message(struct rdmaqp_end *end)
{
	uint64_t stamp = stamp_of(end->sent, end->initiator);
	uint32_t at;

	switch (end->verify) {
	case RDMAQP_VERIFY_STAMP:
		ends(end->send_buffer, end->size, stamp, 1);
		break;
	case RDMAQP_VERIFY_WHOLE:
		whole(end->send_buffer, end->size, stamp, 1);
		break;
	case RDMAQP_VERIFY_ECHO:
		whole(end->send_buffer, end->size, stamp, 1);
		for (at = 0; at < end->size; at += STOCK_PAGE)
			end->send_buffer[at] = 0;
		break;
	default: /* RDMAQP_VERIFY_STOCK: what came goes back */
		memcpy(end->send_buffer, end->recv_buffer, end->size);
	}
}

static int message_is_right(const struct rdmaqp_end *end, uint32_t byte_len)
{
	uint64_t stamp = stamp_of(end->received, !end->initiator);
	uint32_t at;

	if (byte_len != end->size)
		return 0;
	switch (end->verify) {
	case RDMAQP_VERIFY_STAMP:
		return ends(end->recv_buffer, end->size, stamp, 0);
	case RDMAQP_VERIFY_WHOLE:
		return whole(end->recv_buffer, end->size, stamp, 0);
	case RDMAQP_VERIFY_ECHO:
		return !memcmp(end->recv_buffer, end->send_buffer, end->size);
	default:
		for (at = 0; at < end->size; at++)
			if (end->recv_buffer[at] != STOCK_BYTE && (end->recv_buffer[at] || at % STOCK_PAGE))
				return 0;
		return 1;
	}
}

/* Fill the receive queue up to rx_depth, never beyond what the run will use. */
static int rdmaqp_end_post_receives(struct rdmaqp_end *end)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->recv_buffer, .length = end->size, .lkey = end->recv_lkey };
	struct ibv_recv_wr wr = { .wr_id = RECV_ID, .sg_list = &sge, .num_sge = 1 };

	while (end->in_queue < end->rx_depth && end->posted < end->iterations) {
		int error = hand_receives(end->pair, &wr, 1, 0);

		if (error)
			return fail_verb(end, end->pair->verb, end->pair->error);
		end->in_queue++;
		end->posted++;
	}
	return 0;
}

/* An end in one call of the loop, with its request, which is made once: to clear one costs a tenth of a message. */
struct side {
	struct rdmaqp_end *end;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
};

static void take_side(struct side *side, struct rdmaqp_end *end)
{
	side->end = end;
	side->sge = (struct ibv_sge){
		.addr = (uintptr_t)end->send_buffer, .length = end->size, .lkey = end->send_lkey,
	};
	side->wr = (struct ibv_send_wr){
		.wr_id = SEND_ID, .sg_list = &side->sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = end->send_flags | IBV_SEND_SIGNALED,
	};
}

static int send_message(struct side *side)
{
	struct rdmaqp_end *end = side->end;
	struct rdmaqp_slot slot = { .wr_id = SEND_ID, .signaled = 1 };

	write_message(end);
	if (!end->sent && end->initiator)
		end->stamps[0] = now_ns();
	if (hand_sends(end->pair, &side->wr, &slot, 1, 0))
		return fail_verb(end, end->pair->verb, end->pair->error);
	end->sent++;
	return 0;
}

static int took_receive(struct rdmaqp_end *end, const struct ibv_wc *wc)
{
	if (!message_is_right(end, wc->byte_len)) {
		end->wc = *wc;
		return fail(end, RDMAQP_FAILED_DATA);
	}
	end->verified++;
	end->received++;
	end->in_queue--;
	end->stamps[end->received] = now_ns();
	/* Refill in one go, as rarely as safe: a post is a system call's worth on some devices. */
	return end->in_queue <= end->rx_depth / 2 ? rdmaqp_end_post_receives(end) : 0;
}

/* The initiator sends when its last message was answered, the other end when it has one to answer. */
static int is_to_send(const struct rdmaqp_end *end)
{
	uint64_t due = end->initiator ? end->received + 1 : end->received;

	return end->sent < due && end->sent < end->iterations && end->completed == end->sent;
}

static int is_done(const struct rdmaqp_end *end)
{
	return end->received == end->iterations && end->completed == end->iterations;
}

/* One turn: reap, answer. The number of completions, or -1 with end->failed. */
__attribute__((flatten)) /* a tenth of a message's time */
static int step(struct side *side)
{
	struct rdmaqp_end *end = side->end;
	struct ibv_wc wc[8];
	int i, n = poll_inside(end->queue, 8, wc);

	if (n < 0)
		return fail_verb(end, "ibv_poll_cq", poll_error(n));
	for (i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			end->wc = wc[i];
			return fail(end, RDMAQP_FAILED_STATUS);
		}
		if (wc[i].wr_id == SEND_ID)
			end->completed++;
		else if (took_receive(end, &wc[i]))
			return -1;
	}
	if (is_to_send(end) && send_message(side))
		return -1;
	return n;
}

/* Sleep until a channel of the sides has an event or the time is over. */
static int sleep_on(struct side *sides, int count, int64_t left)
{
	struct pollfd fds[2];
	struct ibv_cq *whose;
	int i;

	for (i = 0; i < count; i++) {
		struct rdmaqp_end *end = sides[i].end;
		int n, error = ibv_req_notify_cq(end->queue->cq, 0);

		if (error)
			return fail_verb(end, "ibv_req_notify_cq", error);
		fds[i] = (struct pollfd){ .fd = end->queue->channel->fd, .events = POLLIN };
		n = step(&sides[i]); /* what completed before the request raises no event */
		if (n)
			return n < 0 ? -1 : 0;
	}
	if (poll(fds, count, (int)(left / 1000000) + 1) < 0 && errno != EINTR)
		return fail_verb(sides[0].end, "poll", errno);
	for (i = 0; i < count; i++)
		if (rdmaqp_take_event(sides[i].end->queue->channel, &whose) < 0)
			return fail_verb(sides[i].end, "ibv_get_cq_event", errno);
	return 0;
}

/*
 * Run one end, or both ends of a connection within this process, for a slice of time at most.
 * 1: done, 0: the slice is over, -1: a.failed or b.failed says what went wrong.
 */
static int rdmaqp_pingpong_run(struct rdmaqp_end *a, struct rdmaqp_end *b, int64_t slice_ns)
{
	int64_t end = now_ns() + slice_ns;
	unsigned int idle = 0;
	struct side sides[2];
	int count = b ? 2 : 1;

	take_side(&sides[0], a);
	if (b)
		take_side(&sides[1], b);
	for (;;) {
		int n = step(&sides[0]), m = b ? step(&sides[1]) : 0;

		if (n < 0 || m < 0)
			return -1;
		if (is_done(a) && (!b || is_done(b)))
			return 1;
		/* The clock may cost as much as hundreds of empty polls (no TSC), a yield as many: now and then. */
		if (n + m == 0 && a->queue->channel && (!b || b->queue->channel)) {
			int64_t left = end - now_ns();

			if (left <= 0)
				return 0;
			if (sleep_on(sides, count, left))
				return -1;
		} else if (++idle % 512 == 0) {
			sched_yield(); /* Soft-RoCE works in a thread, which may wait for this very processor */
			if (idle % 4096 == 0 && now_ns() >= end)
				return 0;
		}
	}
}
