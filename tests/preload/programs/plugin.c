/*
 * A library that is linked with libibverbs, as Python's extensions are: loads_plugin.c loads it. It calls
 * ibv_modify_qp, or with BY_ADDRESS takes its address, which the loader fills in without asking an auditor.
 */
#include "one_up.h"

#ifdef BY_ADDRESS
#define modify_qp ibv_modify_qp
#else
static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return ibv_modify_qp(qp, attr, mask);
}
#endif

int run(void)
{
	static const struct verbs linked = {
		ibv_get_device_list, ibv_open_device, ibv_alloc_pd, ibv_create_cq, ibv_create_qp, modify_qp,
		ibv_destroy_qp,
	};

	return one_up(&linked);
}
