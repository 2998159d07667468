/*
 * Asynchronous events: what befalls a queue pair, a queue, a port or the device, and is nobody's completion.
 */

static void note_event(const struct ibv_async_event *event, struct rdmaqp_event *found)
{
	*found = (struct rdmaqp_event){ .type = event->event_type };
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		found->element = (uintptr_t)event->element.cq;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		found->element = (uintptr_t)event->element.srq;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		found->element = (uintptr_t)event->element.qp;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		found->port_num = event->element.port_num;
		break;
	default: /* the device's, or a later kernel's */
		break;
	}
}

/*
 * The next event, within a slice of time: 1; 0 where none came; -1 with errno and *verb. The device's fd does not block.
 *
 * It is acknowledged here, once it is noted: to destroy what it is about waits for that.
 */
static int rdmaqp_next_event(struct ibv_context *context, int64_t slice_ns, struct rdmaqp_event *found,
			     const char **verb)
{
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	int ready = poll(&fd, 1, (int)((slice_ns + 999999) / 1000000));

	*verb = "poll";
	if (ready <= 0)
		return ready < 0 && errno != EINTR ? -1 : 0;
	*verb = "ibv_get_async_event";
	if (ibv_get_async_event(context, &event))
		return errno == EAGAIN ? 0 : -1;
	note_event(&event, found);
	ibv_ack_async_event(&event);
	return 1;
}
