/*
 * Posting records. What is posted is checked first, all of it, by comparing integers; where a
 * compare fails nothing has been posted, and the judge, who speaks Python, is asked what it is.
 */

#define BATCH 64 /* work requests made on the stack at once */

static int refuse(struct rdmaqp_qp *qp, uint32_t index)
{
	qp->index = index;
	return RDMAQP_JUDGE;
}

static int verb_failed(struct rdmaqp_qp *qp, const char *verb, int error, uint32_t index)
{
	qp->verb = verb;
	qp->error = abs(error);
	qp->index = index;
	return RDMAQP_VERB;
}

/* Hand n linked requests over, which are number first… of the call: 0, or RDMAQP_VERB with what is not posted. */
static int hand_sends(struct rdmaqp_qp *qp, struct ibv_send_wr *wrs, const struct rdmaqp_slot *slots, uint32_t n,
		      uint32_t first)
{
	uint64_t signaled = qp->sq.signaled;
	struct ibv_send_wr *bad = NULL;
	uint32_t at;
	int error;

	note_sends(&qp->sq, slots, n);
	error = ibv_post_send(qp->qp, wrs, &bad);
	if (!error)
		return 0;
	/* Some drivers name no bad request. None is known to be posted then. */
	at = bad >= wrs && bad < wrs + n ? bad - wrs : 0;
	unnote_sends(&qp->sq, slots, n, at, signaled);
	return verb_failed(qp, "ibv_post_send", error, first + at);
}

static int hand_receives(struct rdmaqp_qp *qp, struct ibv_recv_wr *wrs, uint32_t n, uint32_t first)
{
	struct ibv_recv_wr *bad = NULL;
	uint32_t at;
	int error;

	__atomic_store_n(&qp->rq.head, qp->rq.head + n, __ATOMIC_RELEASE);
	error = ibv_post_recv(qp->qp, wrs, &bad);
	if (!error)
		return 0;
	at = bad >= wrs && bad < wrs + n ? bad - wrs : 0;
	__atomic_store_n(&qp->rq.head, qp->rq.head - (n - at), __ATOMIC_RELEASE);
	return verb_failed(qp, "ibv_post_recv", error, first + at);
}

/* Whether the queue takes n more. */
static int takes_sends(const struct rdmaqp_qp *qp, uint32_t n)
{
	return qp->state & qp->send_states && has_room(&qp->sq, n);
}

static int takes_receives(const struct rdmaqp_qp *qp, uint32_t n)
{
	return qp->receives == &qp->rq && qp->state & qp->recv_states && has_room(&qp->rq, n);
}

/* What no driver looks at before it follows it, whatever the judge says: 0, RDMAQP_NO_RECORD or RDMAQP_NO_AH. */
static int check_pointers(struct rdmaqp_qp *qp, const struct rdmaqp_send_record *records, uint32_t n, int checked)
{
	int result = 0;
	uint32_t at;

	for (at = 0; at < n && !checked && !result; at++)
		if (opcode_bit(&records[at]) & NO_RECORDS)
			result = RDMAQP_NO_RECORD;
	for (at = result ? at : 0; at < n && qp->datagram && !result; at++)
		if (!handle_of(qp->domain, records[at].ah))
			result = RDMAQP_NO_AH;
	if (result)
		qp->index = at - 1;
	return result;
}

static int check_sends(struct rdmaqp_qp *qp, const struct rdmaqp_send_record *records, uint32_t n, int checked)
{
	struct reach last = { .length = 0 };
	uint32_t at, flags = qp->sq_sig_all ? IBV_SEND_SIGNALED : 0;

	if (checked && !takes_sends(qp, n))
		return refuse(qp, 0);
	for (at = 0; at < n && checked; at++) {
		if (!record_fits(qp, &records[at], &last))
			return refuse(qp, at);
		flags |= records[at].send_flags;
	}
	for (at = 0; at < n && checked && qp->datagram; at++) /* of TSO, which may be longer, there is no record */
		if (records[at].length > qp->max_datagram)
			return refuse(qp, at);
	if (checked && n && !(flags & IBV_SEND_SIGNALED) && would_stick(&qp->sq, n))
		return refuse(qp, n - 1);
	return check_pointers(qp, records, n, checked);
}

static int make_and_hand_sends(struct rdmaqp_qp *qp, const struct rdmaqp_send_record *records, uint32_t n)
{
	struct ibv_send_wr wrs[BATCH];
	struct ibv_sge sges[BATCH];
	struct rdmaqp_slot slots[BATCH];
	const uint32_t plain = plain_on(qp), sq_sig_all = qp->sq_sig_all ? IBV_SEND_SIGNALED : 0;
	uint32_t first, at;
	int error = 0;

	for (first = 0; first < n && !error; first += BATCH) {
		uint32_t count = n - first < BATCH ? n - first : BATCH;

		for (at = 0; at < count; at++) {
			const struct rdmaqp_send_record *record = &records[first + at];

			make_send(qp, plain, record, &wrs[at], &sges[at]);
			wrs[at].next = &wrs[at + 1];
			slots[at].wr_id = record->wr_id;
			slots[at].signaled = (record->send_flags | sq_sig_all) & IBV_SEND_SIGNALED;
		}
		wrs[count - 1].next = NULL;
		error = hand_sends(qp, wrs, slots, count, first);
	}
	return error;
}

/* Post n sends, of one piece each: 0, or why not. Nothing is posted unless the result is 0 or RDMAQP_VERB. */
static int rdmaqp_post_sends(struct rdmaqp_qp *qp, const struct rdmaqp_send_record *records, uint32_t n, int checked)
{
	int result;

	if (!enter(&qp->lock))
		return RDMAQP_CLOSED;
	enter(&qp->domain->lock);
	result = check_sends(qp, records, n, checked);
	if (!qp->datagram)
		leave(&qp->domain->lock);
	if (!result)
		result = make_and_hand_sends(qp, records, n);
	if (qp->datagram) /* until here: an address handle must not end while a driver follows it */
		leave(&qp->domain->lock);
	leave(&qp->lock);
	return result;
}

/*
 * Have Soft-RoCE look at its send queue: it holds what was posted in SQD until the next post after RTS, and its user
 * library takes no post of nothing. So this is what that library tells the kernel with each post: that there is
 * something (rdma-core, providers/rxe/rxe.c, post_send_db(); Linux, include/uapi/rdma/ib_user_verbs.h). 0, or errno.
 */
static int rdmaqp_ring_doorbell(struct rdmaqp_qp *qp)
{
	uint32_t bad_wr;
	struct {
		uint32_t command;
		uint16_t in_words;
		uint16_t out_words;
		uint64_t response;
		uint32_t qp_handle;
		uint32_t wr_count;
		uint32_t sge_count;
		uint32_t wqe_size;
	} call = { .command = 28 /* POST_SEND */, .in_words = sizeof(call) / 4, .out_words = sizeof(bad_wr) / 4,
		   .response = (uintptr_t)&bad_wr, .wqe_size = sizeof(struct ibv_send_wr) };
	int error = 0;

	if (!enter(&qp->lock))
		return 0; /* closed meanwhile: nothing to look at */
	call.qp_handle = qp->qp->handle;
	if (write(qp->qp->context->cmd_fd, &call, sizeof(call)) != sizeof(call))
		error = errno;
	leave(&qp->lock);
	return error;
}

/* The number of the first of n receives that may not be posted, or has less than so many bytes; n where all may. */
static uint32_t first_unfit(struct rdmaqp_domain *domain, uint32_t max_sge, uint32_t least,
			    const struct rdmaqp_recv_record *records, uint32_t n)
{
	struct reach last = { .length = 0 };
	uint32_t at;

	enter(&domain->lock);
	for (at = 0; at < n; at++)
		if ((records[at].length && !max_sge) || records[at].length < least ||
		    !reaches(domain, records[at].addr, records[at].length, records[at].lkey, 1, &last))
			break;
	leave(&domain->lock);
	return at;
}

static int check_receives(struct rdmaqp_qp *qp, const struct rdmaqp_recv_record *records, uint32_t n)
{
	uint32_t at;

	if (!takes_receives(qp, n))
		return refuse(qp, 0);
	at = first_unfit(qp->domain, qp->max_recv_sge, qp->datagram ? sizeof(struct ibv_grh) : 0, records, n);
	return at < n ? refuse(qp, at) : 0;
}

/* Linked requests of one piece each. */
static void make_receives(const struct rdmaqp_recv_record *records, uint32_t n, struct ibv_recv_wr *wrs,
			  struct ibv_sge *sges)
{
	uint32_t at;

	for (at = 0; at < n; at++) {
		const struct rdmaqp_recv_record *record = &records[at];

		sges[at] = (struct ibv_sge){ .addr = record->addr, .length = record->length, .lkey = record->lkey };
		wrs[at] = (struct ibv_recv_wr){ .wr_id = record->wr_id, .sg_list = &sges[at],
						.num_sge = record->length ? 1 : 0,
						.next = at + 1 < n ? &wrs[at + 1] : NULL };
	}
}

static int make_and_hand_receives(struct rdmaqp_qp *qp, const struct rdmaqp_recv_record *records, uint32_t n)
{
	struct ibv_recv_wr wrs[BATCH];
	struct ibv_sge sges[BATCH];
	uint32_t first;
	int error = 0;

	for (first = 0; first < n && !error; first += BATCH) {
		uint32_t count = n - first < BATCH ? n - first : BATCH;

		make_receives(records + first, count, wrs, sges);
		error = hand_receives(qp, wrs, count, first);
	}
	return error;
}

/* Post n receives, of one piece each, as rdmaqp_post_sends(). */
static int rdmaqp_post_recvs(struct rdmaqp_qp *qp, const struct rdmaqp_recv_record *records, uint32_t n, int checked)
{
	int result = 0;

	if (!enter(&qp->lock))
		return RDMAQP_CLOSED;
	if (checked)
		result = check_receives(qp, records, n);
	if (!result)
		result = make_and_hand_receives(qp, records, n);
	leave(&qp->lock);
	return result;
}
