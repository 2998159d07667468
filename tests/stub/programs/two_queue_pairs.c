/*
 * Linked against the real libibverbs: connects two queue pairs of this process by LID and sends from one to the other.
 * One line a step: "modify <bytes handed over> <result>", "sent <status>", "received <status> <text>", "state …".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

static const char message[] = "through the null device";
static char memory[2][64];

static void need(const void *object, const char *what)
{
	if (object)
		return;
	printf("%s errno %d\n", what, errno);
	exit(3);
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int i, result = ibv_modify_qp(qp, attr, mask);

	printf("modify ");
	for (i = 0; i < (int)sizeof(*attr); i++)
		printf("%02x", ((unsigned char *)attr)[i]);
	printf(" %d\n", result);
}

static void connect_to(struct ibv_qp *qp, uint32_t dest_qp_num, uint16_t dlid)
{
	struct ibv_qp_attr attr;

	memset(&attr, 0xa5, sizeof(attr)); /* what is not in the mask has to arrive as well */
	attr.qp_state = IBV_QPS_INIT;
	attr.pkey_index = 0;
	attr.port_num = 1;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_2048;
	attr.dest_qp_num = dest_qp_num;
	attr.rq_psn = 0x123456;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	attr.ah_attr.dlid = dlid;
	attr.ah_attr.sl = 3;
	attr.ah_attr.port_num = 1;
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0x654321;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_MAX_QP_RD_ATOMIC);
}

static void print_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int remembered = qp->state, result = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);

	if (result)
		printf("state errno %d\n", result);
	else
		printf("state %d remembered %d dest_qp_num %u\n", attr.qp_state, remembered, attr.dest_qp_num);
}

static void exchange(struct ibv_qp *from, struct ibv_qp *to, struct ibv_mr *mr, struct ibv_comp_channel *channel)
{
	struct ibv_sge source = { (uintptr_t)memory[0], sizeof(message), mr->lkey };
	struct ibv_sge target[2] = { { (uintptr_t)memory[1], 5, mr->lkey },
				     { (uintptr_t)memory[1] + 5, sizeof(memory[1]) - 5, mr->lkey } };
	struct ibv_send_wr send = { .wr_id = 1, .sg_list = &source, .num_sge = 1, .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED }, *bad_send;
	struct ibv_recv_wr receive = { .wr_id = 2, .sg_list = target, .num_sge = 2 }, *bad_receive;
	struct ibv_cq *ready;
	void *cq_context;
	struct ibv_wc wc[4];
	int i, n;

	strcpy(memory[0], message);
	if (ibv_req_notify_cq(to->recv_cq, 0) || ibv_post_recv(to, &receive, &bad_receive) ||
	    ibv_post_send(from, &send, &bad_send)) {
		printf("post failed\n");
		return;
	}
	if (ibv_get_cq_event(channel, &ready, &cq_context))
		printf("no event\n");
	ibv_ack_cq_events(ready, 1);
	n = ibv_poll_cq(ready, 4, wc);
	for (i = 0; i < n; i++) {
		if (wc[i].wr_id == 1)
			printf("sent %s\n", ibv_wc_status_str(wc[i].status));
		else
			printf("received %s %u %s\n", ibv_wc_status_str(wc[i].status), wc[i].byte_len, memory[1]);
	}
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 2, 2, 0 } };
	struct ibv_port_attr port;
	struct ibv_comp_channel *channel;
	struct ibv_context *context;
	struct ibv_qp *qp[2];
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;

	need(list, "list");
	need(list[0], "device");
	context = ibv_open_device(list[0]);
	need(context, "open");
	if (ibv_query_port(context, 1, &port))
		return 4;
	need(pd = ibv_alloc_pd(context), "pd");
	need(mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE), "mr");
	need(channel = ibv_create_comp_channel(context), "channel");
	need(cq = ibv_create_cq(context, 16, NULL, channel, 0), "cq");
	init.send_cq = init.recv_cq = cq;
	need(qp[0] = ibv_create_qp(pd, &init), "qp");
	need(qp[1] = ibv_create_qp(pd, &init), "qp");
	connect_to(qp[0], qp[1]->qp_num, port.lid);
	connect_to(qp[1], qp[0]->qp_num, port.lid);
	exchange(qp[0], qp[1], mr, channel);
	print_state(qp[0]);
	if (ibv_destroy_cq(cq) != EBUSY)
		return 5;
	if (ibv_destroy_qp(qp[1]) || ibv_destroy_qp(qp[0]) || ibv_destroy_cq(cq) || ibv_destroy_comp_channel(channel) ||
	    ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) || ibv_close_device(context))
		return 6;
	ibv_free_device_list(list);
	return 0;
}
