/* Protection domains, memory regions, memory windows, address handles. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

struct region {
	struct ibv_mr ibv;
	int number;
	uint64_t iova;
};

struct window {
	struct ibv_mw ibv;
	int number;
};

static struct registry domains, regions, windows, handles;

void domain_use(struct ibv_pd *pd, int change)
{
	container_of(pd, struct domain, ibv)->users += change;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct entry entry = control_call("ibv_alloc_pd");
	struct domain *domain = NULL;

	if (!fails("ALLOC_PD"))
		domain = calloc(1, sizeof(*domain));
	if (!domain) {
		entry_result(&entry, errno);
		return NULL;
	}
	domain->ibv.context = context;
	pthread_mutex_lock(&stub_lock);
	domain->number = registry_add(&domains, domain);
	object_born(context);
	pthread_mutex_unlock(&stub_lock);
	domain->ibv.handle = domain->number;
	entry_object(&entry, "pd", domain->number);
	entry_result(&entry, 0);
	return &domain->ibv;
}

/* An object in use stays, and EBUSY says so: here as in the kernel, and below the same. */
int ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct entry entry = control_call("ibv_dealloc_pd");
	struct domain *domain = container_of(pd, struct domain, ibv);
	int error = fault("DEALLOC_PD");

	entry_object(&entry, "pd", domain->number);
	pthread_mutex_lock(&stub_lock);
	if (!error && domain->users)
		error = EBUSY;
	if (!error) {
		registry_remove(&domains, domain->number);
		object_died(pd->context);
		free(domain);
	}
	pthread_mutex_unlock(&stub_lock);
	return entry_result(&entry, error);
}

static struct ibv_mr *reg_mr(const char *call, struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     unsigned int access)
{
	struct entry entry = control_call(call);
	struct region *region = NULL;

	entry_number(&entry, "length", length);
	entry_number(&entry, "access", access);
	if (!fails("REG_MR"))
		region = calloc(1, sizeof(*region));
	if (!region) {
		entry_result(&entry, errno);
		return NULL;
	}
	region->iova = iova;
	region->ibv = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = length };
	pthread_mutex_lock(&stub_lock);
	region->number = registry_add(&regions, region);
	object_born(pd->context);
	domain_use(pd, 1);
	pthread_mutex_unlock(&stub_lock);
	region->ibv.handle = region->number;
	/* Two different keys, and neither is a small number: a mix-up shows. */
	region->ibv.lkey = region->number << 8 | 1;
	region->ibv.rkey = region->number << 8 | 2;
	entry_object(&entry, "mr", region->number);
	entry_result(&entry, 0);
	return &region->ibv;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr("ibv_reg_mr", pd, addr, length, (uintptr_t)addr, access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return reg_mr("ibv_reg_mr_iova", pd, addr, length, iova, access);
}

/* Where verbs.h sends ibv_reg_mr() and ibv_reg_mr_iova() unless the access flags are constant. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return reg_mr("ibv_reg_mr_iova2", pd, addr, length, iova, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct entry entry = control_call("ibv_dereg_mr");
	struct region *region = container_of(mr, struct region, ibv);
	int error = fault("DEREG_MR");

	entry_object(&entry, "mr", region->number);
	if (error)
		return entry_result(&entry, error);
	pthread_mutex_lock(&stub_lock);
	registry_remove(&regions, region->number);
	domain_use(mr->pd, -1);
	object_died(mr->context);
	free(region);
	pthread_mutex_unlock(&stub_lock);
	return entry_result(&entry, 0);
}

/* Where the bytes of a registered range are, or NULL. The caller holds stub_lock. */
void *memory_at(const struct ibv_sge *sge)
{
	struct region *region = registry_get(&regions, sge->lkey >> 8);
	uint64_t offset;

	if (!region || region->ibv.lkey != sge->lkey)
		return NULL;
	offset = sge->addr - region->iova;
	if (offset > region->ibv.length || sge->length > region->ibv.length - offset)
		return NULL;
	return (char *)region->ibv.addr + offset;
}

struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct entry entry = control_call("ibv_alloc_mw");
	struct window *window = NULL;

	entry_number(&entry, "type", type);
	if (!fails("ALLOC_MW"))
		window = calloc(1, sizeof(*window));
	if (!window) {
		entry_result(&entry, errno);
		return NULL;
	}
	window->ibv = (struct ibv_mw){ .context = pd->context, .pd = pd, .type = type };
	pthread_mutex_lock(&stub_lock);
	window->number = registry_add(&windows, window);
	object_born(pd->context);
	domain_use(pd, 1);
	pthread_mutex_unlock(&stub_lock);
	window->ibv.handle = window->number;
	window->ibv.rkey = 0x800000 | window->number << 8 | 0xfe; /* two binds on, its lowest 8 bits begin again */
	entry_object(&entry, "mw", window->number);
	entry_result(&entry, 0);
	return &window->ibv;
}

int dealloc_mw(struct ibv_mw *mw)
{
	struct entry entry = control_call("ibv_dealloc_mw");
	struct window *window = container_of(mw, struct window, ibv);
	int error = fault("DEALLOC_MW");

	entry_object(&entry, "mw", window->number);
	if (error)
		return entry_result(&entry, error);
	pthread_mutex_lock(&stub_lock);
	registry_remove(&windows, window->number);
	domain_use(mw->pd, -1);
	object_died(mw->context);
	free(window);
	pthread_mutex_unlock(&stub_lock);
	return entry_result(&entry, 0);
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct entry entry = control_call("ibv_create_ah");
	struct address_handle *handle = NULL;

	entry_bytes(&entry, "attr", attr, sizeof(*attr));
	if (!fails("CREATE_AH"))
		handle = calloc(1, sizeof(*handle));
	if (!handle) {
		entry_result(&entry, errno);
		return NULL;
	}
	handle->ibv.context = pd->context;
	handle->ibv.pd = pd;
	handle->attr = *attr;
	pthread_mutex_lock(&stub_lock);
	handle->number = registry_add(&handles, handle);
	object_born(pd->context);
	domain_use(pd, 1);
	pthread_mutex_unlock(&stub_lock);
	handle->ibv.handle = handle->number;
	entry_object(&entry, "ah", handle->number);
	entry_result(&entry, 0);
	return &handle->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	struct entry entry = control_call("ibv_destroy_ah");
	struct address_handle *handle = container_of(ah, struct address_handle, ibv);
	int error = fault("DESTROY_AH");

	entry_object(&entry, "ah", handle->number);
	if (error)
		return entry_result(&entry, error);
	pthread_mutex_lock(&stub_lock);
	registry_remove(&handles, handle->number);
	domain_use(ah->pd, -1);
	object_died(ah->context);
	free(handle);
	pthread_mutex_unlock(&stub_lock);
	return entry_result(&entry, 0);
}

/* Without a global route: to find our own address in its table again is the real library's. */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *attr)
{
	(void)context, (void)grh;
	*attr = (struct ibv_ah_attr){
		.dlid = wc->slid, .sl = wc->sl, .src_path_bits = wc->dlid_path_bits, .port_num = port_num,
	};
	return 0;
}
