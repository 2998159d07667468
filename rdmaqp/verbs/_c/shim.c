/*
 * The hot path, and what cffi cannot call by itself (macros, inline functions with internal arguments).
 *
 * Every loop here returns after a slice of time at most, with its state in a struct, so that Python sees signals,
 * watches the other end, and moves a progress bar. cffi releases the GIL around each call.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <infiniband/verbs.h>

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int rdmaqp_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	return ibv_query_port(context, port_num, attr); /* a macro: it passes the size of the struct along */
}

static struct ibv_mr *rdmaqp_reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access)
{
	return ibv_reg_mr(pd, addr, length, access); /* a macro: chooses by the access flags */
}

/* The file that the device's poll_cq lives in: libmlx5-rdmav34.so, librxe-rdmav34.so, … names the driver. */
static const char *rdmaqp_provider_file(struct ibv_context *context)
{
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)context->ops.poll_cq, &info))
		return NULL;
	return info.dli_fname;
}

static int rdmaqp_post_send(struct ibv_qp *qp, uint64_t wr_id, uint64_t addr, uint32_t length, uint32_t lkey,
			    unsigned int flags)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags,
	};
	struct ibv_send_wr *bad_wr;

	return ibv_post_send(qp, &wr, &bad_wr);
}

static int rdmaqp_post_recv(struct ibv_qp *qp, uint64_t wr_id, uint64_t addr, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad_wr;

	return ibv_post_recv(qp, &wr, &bad_wr);
}

/*
 * Take one event off the channel if there is one: 0, or -1 with errno. The channel's fd does not block.
 *
 * It is acknowledged here, since queues may share a channel: the event may be another queue's than the one waited
 * for, and ibv_destroy_cq() waits for ever for a queue's own events.
 */
static int take_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *cq_context;

	if (ibv_get_cq_event(channel, &cq, &cq_context))
		return errno == EAGAIN ? 0 : -1;
	ibv_ack_cq_events(cq, 1);
	return 0;
}

/* ibv_poll_cq() says only that it failed, unless its driver is one that returns an error number. */
static int poll_error(int n)
{
	return n < -1 ? -n : EIO;
}

/*
 * Poll until something completes or the slice is over: the number of completions, 0, or -1 with errno and *verb.
 * With a channel, the thread sleeps instead of spinning.
 */
static int rdmaqp_wait_cq(struct ibv_cq *cq, struct ibv_comp_channel *channel, int num_entries, struct ibv_wc *wc,
			  int64_t slice_ns, const char **verb)
{
	int64_t end = now_ns() + slice_ns;

	for (;;) {
		int n = ibv_poll_cq(cq, num_entries, wc);
		int64_t left;

		if (n > 0)
			return n;
		if (n < 0) {
			*verb = "ibv_poll_cq";
			errno = poll_error(n);
			return -1;
		}
		left = end - now_ns();
		if (left <= 0)
			return 0;
		if (channel) {
			struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
			int error = ibv_req_notify_cq(cq, 0);

			if (error) {
				*verb = "ibv_req_notify_cq";
				errno = abs(error);
				return -1;
			}
			/* What completed before the request raises no event: look once more before sleeping. */
			n = ibv_poll_cq(cq, num_entries, wc);
			if (n > 0)
				return n;
			*verb = "poll";
			if (poll(&fd, 1, (int)(left / 1000000) + 1) < 0 && errno != EINTR)
				return -1;
			*verb = "ibv_get_cq_event";
			if (take_event(channel))
				return -1;
		} else {
			sched_yield(); /* Soft-RoCE works in a thread, which may wait for this very processor */
		}
	}
}

static const char *rdmaqp_version(void)
{
	return RDMAQP_VERSION;
}
