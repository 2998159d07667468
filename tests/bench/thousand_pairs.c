/*
 * Plain C: N RC queue pairs created, brought to RTS towards themselves, and closed. Prints the microseconds of each part.
 *
 *   thousand_pairs N SGID_INDEX
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <infiniband/verbs.h>

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static void must(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static void to_rts(struct ibv_qp *qp, const union ibv_gid *gid, int sgid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE,
	};

	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .rq_psn = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = *gid, .sgid_index = sgid_index, .hop_limit = 64 } },
	};
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .sq_psn = 1, .timeout = 14, .retry_cnt = 6, .rnr_retry = 7, .max_rd_atomic = 1,
	};
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000, sgid_index = argc > 2 ? atoi(argv[2]) : 1, i;
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_qp **pairs = calloc(n, sizeof(*pairs));
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	union ibv_gid gid;
	double start, made, up;

	must(devices && devices[0] && pairs, "a device");
	context = ibv_open_device(devices[0]);
	must(!!context, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 1000, NULL, NULL, 0);
	must(pd && cq && !ibv_query_gid(context, 1, sgid_index, &gid), "a domain, a queue, a GID");
	start = now();
	for (i = 0; i < n; i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		};

		pairs[i] = ibv_create_qp(pd, &init);
		must(!!pairs[i], "ibv_create_qp");
	}
	made = now();
	for (i = 0; i < n; i++)
		to_rts(pairs[i], &gid, sgid_index);
	up = now();
	for (i = 0; i < n; i++)
		must(!ibv_destroy_qp(pairs[i]), "ibv_destroy_qp");
	printf("%.0f %.0f %.0f\n", made - start, up - made, now() - up);
	return 0;
}
