/*
 * Linked against the real libibverbs: a datagram, inline and with immediate data, to the queue pair that sends it, which
 * takes its receives from a shared queue. The second one finds no receive posted.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

static char buffer[128];

static void print_completions(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		if (!(wc.opcode & IBV_WC_RECV))
			printf("sent %d\n", wc.status);
		else
			printf("received %d length %u flags %u imm %x from itself %d: %s\n", wc.status, wc.byte_len,
			       wc.wc_flags, be32toh(wc.imm_data), wc.src_qp == wc.qp_num, buffer + 40);
	}
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_cq *cq = ibv_create_cq(context, 2, NULL, NULL, 0);
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_UD };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_ah_attr where = { .is_global = 1, .dlid = 9, .port_num = 1 };
	struct ibv_sge from = { .length = 6 }, to = { (uintptr_t)buffer, sizeof(buffer), mr->lkey };
	struct ibv_recv_wr receive = { .sg_list = &to, .num_sge = 1 }, *bad_receive;
	struct ibv_send_wr send = { .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				    .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED }, *bad_send;
	char text[] = "hello";

	from.addr = (uintptr_t)text;
	send.imm_data = htobe32(0xabcd);
	where.grh.dgid.raw[15] = 7;
	send.wr.ud.ah = ibv_create_ah(pd, &where);
	send.wr.ud.remote_qpn = qp->qp_num;
	if (ibv_post_srq_recv(srq, &receive, &bad_receive) || ibv_post_send(qp, &send, &bad_send))
		return 1;
	print_completions(cq);
	if (ibv_post_send(qp, &send, &bad_send))
		return 2;
	print_completions(cq);
	/* No room for a second receive, and a third send finds the queue of completions full. */
	printf("posts %d", ibv_post_srq_recv(srq, &receive, &bad_receive));
	printf(" %d", ibv_post_srq_recv(srq, &receive, &bad_receive));
	printf(" %d", ibv_post_send(qp, &send, &bad_send));
	printf(" %d\n", ibv_post_send(qp, &send, &bad_send));
	if (ibv_destroy_ah(send.wr.ud.ah) || ibv_destroy_qp(qp) || ibv_destroy_srq(srq) || ibv_destroy_cq(cq) ||
	    ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) || ibv_close_device(context))
		return 3;
	ibv_free_device_list(list);
	return 0;
}
