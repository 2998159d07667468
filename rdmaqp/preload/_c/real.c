/*
 * Where the true functions are. The program may link libibverbs, load it with local scope (then RTLD_NEXT finds
 * nothing, and a handle to the library that is loaded does), or load one of another name that came with it.
 */
#include "shim.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

static struct real found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int is_ibverbs(struct dl_phdr_info *info, size_t size, void *handle)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	(void)size;
	if (strncmp(name, "libibverbs", strlen("libibverbs")))
		return 0;
	*(void **)handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
	return *(void **)handle != NULL;
}

static void *library(void)
{
	void *handle = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (!handle)
		dl_iterate_phdr(is_ibverbs, &handle);
	return handle;
}

/*
 * Another library that was preloaded comes before libibverbs, as it would without us; such a one seldom has versions.
 * libibverbs has two of each name: 1.0 is for programs of 2006, whose structs are others, and dlsym() takes the newer.
 *
 * volatile, so that no call of dlsym() is a jump: it looks at where it returns to.
 */
static void *look_up(void *handle, const char *name, const char *version)
{
	void *volatile symbol = dlsym(RTLD_NEXT, name);

	if (!symbol && handle)
		symbol = dlvsym(handle, name, version);
	return symbol;
}

static void find(void)
{
	void *handle = library();

	found.modify_qp = look_up(handle, "ibv_modify_qp", "IBVERBS_1.1");
	found.destroy_qp = look_up(handle, "ibv_destroy_qp", "IBVERBS_1.1");
	found.own_modify_qp = handle ? dlvsym(handle, "ibv_modify_qp", "IBVERBS_1.1") : found.modify_qp;
	found.own_destroy_qp = handle ? dlvsym(handle, "ibv_destroy_qp", "IBVERBS_1.1") : found.destroy_qp;
	found.query_qp = look_up(handle, "ibv_query_qp", "IBVERBS_1.1");
	found.query_device = look_up(handle, "ibv_query_device", "IBVERBS_1.1");
	found.query_port = look_up(handle, "ibv_query_port", "IBVERBS_1.1");
	found.query_pkey = look_up(handle, "ibv_query_pkey", "IBVERBS_1.1");
	found.query_gid = look_up(handle, "ibv_query_gid", "IBVERBS_1.1");
	found.query_gid_table = look_up(handle, "_ibv_query_gid_table", "IBVERBS_1.11");
	found.get_device_name = look_up(handle, "ibv_get_device_name", "IBVERBS_1.1");
}

/* Called only by who was called as one of them: then the library is there. */
const struct real *real(void)
{
	pthread_once(&once, find);
	return &found;
}
