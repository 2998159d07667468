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
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static int rdmaqp_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	return ibv_query_port(context, port_num, attr); /* a macro: it passes the size of the struct along */
}

static struct ibv_mr *rdmaqp_reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access)
{
	return ibv_reg_mr(pd, addr, length, access); /* a macro: chooses by the access flags */
}

/* XRC's calls are inline functions, and look for the driver's own. */
static struct ibv_xrcd *rdmaqp_open_xrcd(struct ibv_context *context)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT,
	};

	return ibv_open_xrcd(context, &init);
}

static int rdmaqp_close_xrcd(struct ibv_xrcd *xrcd)
{
	return ibv_close_xrcd(xrcd);
}

static struct ibv_srq *rdmaqp_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
					     struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex wide = {
		.attr = init->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(pd->context, &wide);

	init->attr = wide.attr;
	return srq;
}

static int rdmaqp_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	return ibv_get_srq_num(srq, number);
}

static void rdmaqp_create_qp(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_qp_init_attr *attr,
			     struct ibv_qp **made)
{
	struct ibv_qp_init_attr_ex wide = {
		.cap = attr->cap, .qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd,
	};

	if (attr->qp_type != IBV_QPT_XRC_RECV) {
		*made = ibv_create_qp(pd, attr);
		return;
	}
	*made = ibv_create_qp_ex(pd->context, &wide); /* the only one that knows of XRC domains */
	attr->cap = wide.cap;
}

/* The file that the device's poll_cq lives in: libmlx5-rdmav34.so, librxe-rdmav34.so, … names the driver. */
static const char *rdmaqp_provider_file(struct ibv_context *context)
{
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)context->ops.poll_cq, &info))
		return NULL;
	return info.dli_fname;
}

/*
 * Take one event off the channel: 1 with whose it is; 0 where there is none; -1 with errno. The channel's fd does not
 * block.
 *
 * It is acknowledged here, since queues may share a channel: the event may be another queue's than the one waited
 * for, and ibv_destroy_cq() waits for ever for a queue's own events.
 */
static int rdmaqp_take_event(struct ibv_comp_channel *channel, struct ibv_cq **cq)
{
	void *cq_context;

	if (ibv_get_cq_event(channel, cq, &cq_context))
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	ibv_ack_cq_events(*cq, 1);
	return 1;
}

static int rdmaqp_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq, solicited_only);
}

static struct ibv_mw *rdmaqp_alloc_mw(struct ibv_pd *pd, int type)
{
	return ibv_alloc_mw(pd, type);
}

static int rdmaqp_dealloc_mw(struct ibv_mw *mw)
{
	return ibv_dealloc_mw(mw);
}

static uint32_t rdmaqp_inc_rkey(uint32_t rkey)
{
	return ibv_inc_rkey(rkey);
}

/* ibv_poll_cq() says only that it failed, unless its driver is one that returns an error number. */
static int poll_error(int n)
{
	return n < -1 ? -n : EIO;
}

static const char *rdmaqp_version(void)
{
	return RDMAQP_VERSION;
}
