/* What a C programmer would write by hand: RDMA WRITEs with a window and selective signalling. Prints ns of processor. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <infiniband/verbs.h>

static int64_t processor_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	uint64_t count = strtoull(argc > 1 ? argv[1] : "0", NULL, 0), posted = 0, completed = 0, window = 64, every = 16;
	struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 128, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	static char memory[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = sizeof(memory), .lkey = mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	int64_t start = processor_ns();

	while (completed < count) {
		struct ibv_wc wc[32];
		int i, n;

		while (posted < count && posted - completed < window) {
			wr.wr_id = posted++;
			wr.send_flags = posted % every && posted != count ? 0 : IBV_SEND_SIGNALED;
			if (ibv_post_send(qp, &wr, &bad))
				return 1;
		}
		n = ibv_poll_cq(cq, 32, wc);
		if (n < 0)
			return 1;
		for (i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				return 1;
			completed = wc[i].wr_id + 1;
		}
	}
	printf("%" PRId64 "\n", processor_ns() - start);
	return 0;
}
