/* Somebody else's preloaded library, which counts modify calls and hands them on to the next one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include <infiniband/verbs.h>

static int count;

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int (*volatile next)(struct ibv_qp *, struct ibv_qp_attr *, int) =
		(int (*)(struct ibv_qp *, struct ibv_qp_attr *, int))dlsym(RTLD_NEXT, "ibv_modify_qp");

	count++;
	return next(qp, attr, mask);
}

__attribute__((destructor)) static void tell(void)
{
	printf("interposer saw %d\n", count);
}
