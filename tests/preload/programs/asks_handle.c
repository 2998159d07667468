/* Not linked with libibverbs: loads it, with local scope, and asks the handle, by dlsym or dlvsym (as NCCL does). */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "one_up.h"

int main(int argc, char **argv)
{
	void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	int versioned = argc > 1 && !strcmp(argv[1], "dlvsym");
	struct verbs verbs;

	if (!handle)
		return 99;
#define FIND(name) \
	*(void **)&verbs.name = versioned ? dlvsym(handle, "ibv_" #name, "IBVERBS_1.1") : dlsym(handle, "ibv_" #name)
	FIND(get_device_list);
	FIND(open_device);
	FIND(alloc_pd);
	FIND(create_cq);
	FIND(create_qp);
	FIND(modify_qp);
	FIND(destroy_qp);
	return one_up(&verbs);
}
