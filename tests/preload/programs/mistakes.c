/*
 * A dozen mistakes and more, each made on the way of one RC queue pair to RTS over RoCE.
 *
 *   mistakes GID_INDEX [NAME…]     all of them without names; "none" is the way without a mistake, "peers" two queue
 *                                  pairs that lead to each other and do not agree; "threads", only where it is asked
 *                                  for, the way without a mistake in 64 threads at once; "crowded" and "jailed",
 *                                  likewise: what follows is done without room for another descriptor, in a chroot
 *
 * Of each it prints its name, the queue pair's number, and what the last call returned.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <infiniband/verbs.h>

struct call {
	struct ibv_qp_attr attr;
	int mask;
};

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;
static int gid_index;

static struct call to_init(void)
{
	return (struct call){
		.attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 },
		.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	};
}

static struct call to_rtr(uint32_t dest_qp_num)
{
	return (struct call){
		.attr = {
			.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest_qp_num, .rq_psn = 7,
			.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
			.ah_attr = {
				.is_global = 1, .port_num = 1,
				.grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 },
			},
		},
		.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	};
}

static struct call to_rts(void)
{
	return (struct call){
		.attr = {
			.qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
			.max_rd_atomic = 1,
		},
		.mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC,
	};
}

/* The three calls as they should be; each mistake changes one of them. */
static struct call init, rtr, rts;

static void none(void) {}
static void init_left_out(void) { init.mask = 0; }
static void rtr_left_out(void) { rtr.mask = 0; }
static void no_min_rnr_timer(void) { rtr.mask &= ~IBV_QP_MIN_RNR_TIMER; }
static void sq_psn_at_rtr(void) { rtr.mask |= IBV_QP_SQ_PSN; }
static void mtu_in_bytes(void) { rtr.attr.path_mtu = 1024; }
static void mtu_over_active(void) { rtr.attr.path_mtu = IBV_MTU_4096; }
static void no_grh(void) { rtr.attr.ah_attr.is_global = 0; }
static void empty_gid(void) { rtr.attr.ah_attr.grh.sgid_index = 200; }
static void zero_dgid(void) { memset(&rtr.attr.ah_attr.grh.dgid, 0, sizeof(gid)); }
static void other_family(void) { rtr.attr.ah_attr.grh.dgid.raw[0] = 0x20; }
static void no_such_port(void) { init.attr.port_num = 3; }
static void other_port(void) { rtr.attr.ah_attr.port_num = 2; }
static void reserved_qpn(void) { rtr.attr.dest_qp_num = 1; }
static void psn_of_25_bits(void) { rtr.attr.rq_psn = 1 << 24; }
static void too_many_reads(void) { rtr.attr.max_dest_rd_atomic = 255; }
static void timeout_32(void) { rts.attr.timeout = 32; }
static void retry_cnt_8(void) { rts.attr.retry_cnt = 8; }
static void no_timeout(void) { rts.mask &= ~IBV_QP_TIMEOUT; }

static void false_state(void)
{
	rts.mask |= IBV_QP_CUR_STATE;
	rts.attr.cur_qp_state = IBV_QPS_RTS;
}

static const struct mistake {
	const char *name;
	void (*make)(void);
} mistakes[] = {
#define MISTAKE(name) { #name, name }
	MISTAKE(none), MISTAKE(init_left_out), MISTAKE(rtr_left_out), MISTAKE(no_min_rnr_timer),
	MISTAKE(sq_psn_at_rtr), MISTAKE(mtu_in_bytes), MISTAKE(mtu_over_active), MISTAKE(no_grh), MISTAKE(empty_gid), MISTAKE(zero_dgid), MISTAKE(other_family),
	MISTAKE(no_such_port), MISTAKE(other_port), MISTAKE(reserved_qpn), MISTAKE(psn_of_25_bits),
	MISTAKE(too_many_reads), MISTAKE(timeout_32), MISTAKE(retry_cnt_8), MISTAKE(no_timeout), MISTAKE(false_state),
};

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp) {
		perror("ibv_create_qp");
		exit(2);
	}
	return qp;
}

static int make_call(struct ibv_qp *qp, struct call *call)
{
	return call->mask ? ibv_modify_qp(qp, &call->attr, call->mask) : 0;
}

static void try(const struct mistake *mistake)
{
	struct ibv_qp *qp = new_qp();
	int error;

	init = to_init();
	rtr = to_rtr(qp->qp_num);
	rts = to_rts();
	mistake->make();
	error = make_call(qp, &init);
	error = error ? error : make_call(qp, &rtr);
	error = error ? error : make_call(qp, &rts);
	printf("%s %u %d\n", mistake->name, qp->qp_num, error);
	ibv_destroy_qp(qp);
}

static void peers(void)
{
	struct ibv_qp *qps[2] = { new_qp(), new_qp() };
	int i, error = 0;

	for (i = 0; i < 2; i++) {
		init = to_init();
		rtr = to_rtr(qps[!i]->qp_num);
		rts = to_rts();
		rts.attr.sq_psn += i; /* the second sends from a number that the first does not expect */
		rtr.attr.path_mtu -= i;
		error |= make_call(qps[i], &init) | make_call(qps[i], &rtr) | make_call(qps[i], &rts);
	}
	printf("peers %u %d\n", qps[0]->qp_num, error);
}

static void *way(void *unused)
{
	struct call calls[3] = { to_init(), { .mask = 0 }, to_rts() };
	struct ibv_qp *qp = new_qp();
	int error, i;

	(void)unused;
	calls[1] = to_rtr(qp->qp_num);
	for (i = error = 0; i < 3 && !error; i++)
		error = make_call(qp, &calls[i]);
	ibv_destroy_qp(qp);
	return (void *)(intptr_t)error;
}

static void threads(void)
{
	pthread_t all[64];
	void *one;
	int i, error = 0;

	for (i = 0; i < 64; i++)
		pthread_create(&all[i], NULL, way, NULL);
	for (i = 0; i < 64; i++) {
		pthread_join(all[i], &one);
		error |= (int)(intptr_t)one;
	}
	printf("threads 0 %d\n", error);
}

static void crowded(void)
{
	struct rlimit three = { 3, 3 }; /* the standard streams; of 0, poll() would take no descriptor at all */

	if (setrlimit(RLIMIT_NOFILE, &three) || open("/dev/null", O_RDONLY) >= 0)
		exit(3);
}

static void jailed(void)
{
	if (chroot("/dev") || chdir("/") || !access("/tmp", F_OK))
		exit(4);
}

static int is_asked_for(const char *name, int argc, char **argv)
{
	int i;

	for (i = 2; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc == 2;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	size_t i;

	gid_index = argc > 1 ? atoi(argv[1]) : 0;
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = pd ? ibv_create_cq(context, 4, NULL, NULL, 0) : NULL;
	if (!cq || ibv_query_gid(context, 1, gid_index, &gid))
		return 2;
	if (argc > 2 && is_asked_for("crowded", argc, argv))
		crowded();
	if (argc > 2 && is_asked_for("jailed", argc, argv))
		jailed();
	for (i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		if (is_asked_for(mistakes[i].name, argc, argv))
			try(&mistakes[i]);
	if (is_asked_for("peers", argc, argv))
		peers();
	if (argc > 2 && is_asked_for("threads", argc, argv))
		threads();
	return 0;
}
