/* Where each field of the structs that the log holds as bytes is: JSON, {"struct": {"field": [offset, size]}}. */
#include <stddef.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#define FIELD(type, field) \
	printf("%s\"%s\": [%zu, %zu]", separator, #field, offsetof(struct type, field), \
	       sizeof(((struct type *)0)->field)), separator = ", "

#define ROUTE(type, grh) \
	FIELD(type, grh.dgid); FIELD(type, grh.flow_label); FIELD(type, grh.sgid_index); \
	FIELD(type, grh.hop_limit); FIELD(type, grh.traffic_class)

#define ADDRESS(type, ah) \
	ROUTE(type, ah.grh); FIELD(type, ah.dlid); FIELD(type, ah.sl); FIELD(type, ah.src_path_bits); \
	FIELD(type, ah.static_rate); FIELD(type, ah.is_global); FIELD(type, ah.port_num)

static void qp_attr(void)
{
	const char *separator = "";

	FIELD(ibv_qp_attr, qp_state); FIELD(ibv_qp_attr, cur_qp_state); FIELD(ibv_qp_attr, path_mtu);
	FIELD(ibv_qp_attr, path_mig_state); FIELD(ibv_qp_attr, qkey); FIELD(ibv_qp_attr, rq_psn);
	FIELD(ibv_qp_attr, sq_psn); FIELD(ibv_qp_attr, dest_qp_num); FIELD(ibv_qp_attr, qp_access_flags);
	FIELD(ibv_qp_attr, cap.max_send_wr); FIELD(ibv_qp_attr, cap.max_recv_wr);
	FIELD(ibv_qp_attr, cap.max_send_sge); FIELD(ibv_qp_attr, cap.max_recv_sge);
	FIELD(ibv_qp_attr, cap.max_inline_data);
	ADDRESS(ibv_qp_attr, ah_attr);
	ADDRESS(ibv_qp_attr, alt_ah_attr);
	FIELD(ibv_qp_attr, pkey_index); FIELD(ibv_qp_attr, alt_pkey_index);
	FIELD(ibv_qp_attr, en_sqd_async_notify); FIELD(ibv_qp_attr, sq_draining);
	FIELD(ibv_qp_attr, max_rd_atomic); FIELD(ibv_qp_attr, max_dest_rd_atomic);
	FIELD(ibv_qp_attr, min_rnr_timer); FIELD(ibv_qp_attr, port_num); FIELD(ibv_qp_attr, timeout);
	FIELD(ibv_qp_attr, retry_cnt); FIELD(ibv_qp_attr, rnr_retry); FIELD(ibv_qp_attr, alt_port_num);
	FIELD(ibv_qp_attr, alt_timeout); FIELD(ibv_qp_attr, rate_limit);
}

static void ah_attr(void)
{
	const char *separator = "";

	ROUTE(ibv_ah_attr, grh);
	FIELD(ibv_ah_attr, dlid); FIELD(ibv_ah_attr, sl); FIELD(ibv_ah_attr, src_path_bits);
	FIELD(ibv_ah_attr, static_rate); FIELD(ibv_ah_attr, is_global); FIELD(ibv_ah_attr, port_num);
}

int main(void)
{
	printf("{\"ibv_qp_attr\": {");
	qp_attr();
	printf("}, \"ibv_ah_attr\": {");
	ah_attr();
	printf("}}\n");
	return 0;
}
