/*
 * The plain C side of data_path.py: the same works, as a C program would do them that trusts itself.
 *
 * A line WORK on standard input is answered with the nanoseconds of one unit: the least of a few short runs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <infiniband/verbs.h>

#define BATCH 64
#define CALLS 200
#define RUNS 7
#define MESSAGES 5000

struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint64_t sent, received;
	uint32_t posted;
	char *out, *in;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char memory[4096];
static int64_t stamps[2 * MESSAGES + 2];

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s failed\n", what);
	exit(1);
}

static struct side make_side(int depth)
{
	struct side side = { .cq = ibv_create_cq(context, depth, NULL, NULL, 0) };
	struct ibv_qp_init_attr init = {
		.send_cq = side.cq, .recv_cq = side.cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = depth, .max_recv_wr = 32, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	must(!!side.cq, "ibv_create_cq");
	side.qp = ibv_create_qp(pd, &init);
	must(!!side.qp, "ibv_create_qp");
	return side;
}

static void fill(struct ibv_send_wr *wrs, struct ibv_sge *sges, int n, int all_signaled)
{
	int i;

	for (i = 0; i < n; i++) {
		sges[i] = (struct ibv_sge){ .addr = (uintptr_t)memory, .length = 64, .lkey = mr->lkey };
		wrs[i] = (struct ibv_send_wr){
			.wr_id = i, .sg_list = &sges[i], .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = all_signaled || i == n - 1 ? IBV_SEND_SIGNALED : 0,
			.wr.rdma.rkey = 1, .next = i == n - 1 ? NULL : &wrs[i + 1],
		};
	}
}

static void post(struct side *side, struct ibv_send_wr *wrs)
{
	struct ibv_send_wr *bad;

	must(!ibv_post_send(side->qp, wrs, &bad), "ibv_post_send");
}

static void drain(struct side *side)
{
	struct ibv_wc wc[BATCH];

	while (ibv_poll_cq(side->cq, BATCH, wc) > 0)
		;
}

static void post_receives(struct side *side, uint32_t upto)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->in, .length = 64, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	for (; side->posted < upto; side->posted++)
		must(!ibv_post_recv(side->qp, &wr, &bad), "ibv_post_recv");
}

static void send_one(struct side *side)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->out, .length = 64, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	uint64_t stamp = ++side->sent * 0x9e3779b97f4a7c15u;

	memcpy(side->out, &stamp, 8);
	memcpy(side->out + 56, &stamp, 8);
	post(side, &wr);
}

/* Each message is stamped, checked and timed, as rdmaqp's is. */
static void take(struct side *side, int64_t *times)
{
	struct ibv_wc wc[8];
	int i, n = ibv_poll_cq(side->cq, 8, wc);

	must(n >= 0, "ibv_poll_cq");
	for (i = 0; i < n; i++) {
		uint64_t stamp;

		must(!wc[i].status, "a work request");
		if (wc[i].wr_id == 2)
			continue;
		stamp = ++side->received * 0x9e3779b97f4a7c15u;
		must(!memcmp(side->in, &stamp, 8) && !memcmp(side->in + 56, &stamp, 8), "the data");
		times[side->received] = now();
		if (--side->posted <= 16)
			post_receives(side, 32);
	}
}

static void pingpong(struct side *a, struct side *b)
{
	a->sent = a->received = b->sent = b->received = 0;
	post_receives(a, 32);
	post_receives(b, 32);
	while (a->received < MESSAGES) {
		if (a->sent == a->received)
			send_one(a);
		take(b, stamps + MESSAGES + 1);
		if (b->sent < b->received)
			send_one(b);
		take(a, stamps);
	}
	drain(b);
}

static double measure(const char *work, struct side *side, struct side *a, struct side *b)
{
	struct ibv_send_wr wrs[BATCH], signaled[BATCH];
	struct ibv_sge sges[BATCH], more[BATCH];
	struct ibv_wc wc[BATCH];
	int64_t best = INT64_MAX;
	int run, i, units = BATCH, calls = CALLS;

	fill(wrs, sges, BATCH, 0);
	fill(signaled, more, BATCH, 1);
	for (run = 0; run < RUNS; run++) {
		int64_t start;

		if (!strcmp(work, "completions"))
			for (i = 0; i < CALLS; i++)
				post(side, signaled);
		start = now();
		if (!strcmp(work, "round")) {
			calls = CALLS * 10;
			units = 1;
			for (i = 0; i < calls; i++) {
				post(side, &wrs[BATCH - 1]);
				must(ibv_poll_cq(side->cq, 1, wc) == 1 && !wc[0].status, "a round");
			}
		} else if (!strcmp(work, "records")) {
			for (i = 0; i < calls; i++) {
				fill(wrs, sges, BATCH, 0);
				post(side, wrs);
			}
		} else if (!strcmp(work, "chain")) {
			for (i = 0; i < calls; i++)
				post(side, wrs);
		} else if (!strcmp(work, "completions")) {
			for (i = 0; i < calls; i++)
				ibv_poll_cq(side->cq, BATCH, wc);
		} else if (!strcmp(work, "pingpong")) {
			calls = MESSAGES;
			units = 2;
			pingpong(a, b);
		}
		if (now() - start < best)
			best = now() - start;
		drain(side);
	}
	return (double)best / calls / units;
}

static void connect_to(struct side *from, const struct side *to)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .dest_qp_num = to->qp->qp_num };

	/* The null device checks no transition. */
	must(!ibv_modify_qp(from->qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN), "ibv_modify_qp");
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct side side, a, b;
	char work[64];

	must(devices && devices[0], "ibv_get_device_list");
	context = ibv_open_device(devices[0]);
	must(!!context, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	side = make_side(16384);
	a = make_side(64);
	b = make_side(64);
	/* Each sends from where the other receives: the free device copies nothing. */
	a.out = b.in = memory;
	a.in = b.out = memory + 64;
	connect_to(&a, &b);
	connect_to(&b, &a);
	puts("round records chain completions pingpong");
	fflush(stdout);
	while (fgets(work, sizeof(work), stdin)) {
		work[strcspn(work, "\n")] = '\0';
		printf("%.3f\n", measure(work, &side, &a, &b));
		fflush(stdout);
	}
	return 0;
}
