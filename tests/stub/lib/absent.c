/*
 * What the null device does not have: the symbols are there, so that any program starts, and say EOPNOTSUPP.
 * Fork support is the exception: without pinned memory there is nothing to support.
 */
#include <errno.h>

#include "stub.h"

static void *absent(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

static enum ibv_fork_status fork_status = IBV_FORK_DISABLED;

int ibv_fork_init(void)
{
	struct entry entry = control_call("ibv_fork_init");

	fork_status = IBV_FORK_ENABLED;
	return entry_result(&entry, 0);
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return fork_status;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	(void)cmd_fd;
	return absent();
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	(void)context, (void)pd_handle;
	return absent();
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	(void)pd, (void)mr_handle;
	return absent();
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	(void)mr;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	(void)context, (void)dm_handle;
	return absent();
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	return absent();
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)mr, (void)flags, (void)pd, (void)addr, (void)length, (void)access;
	errno = EOPNOTSUPP;
	return IBV_REREG_MR_ERR_INPUT;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq, (void)cqe;
	return EOPNOTSUPP;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return NULL;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return EOPNOTSUPP;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
{
	(void)pd, (void)wc, (void)grh, (void)port_num;
	return absent();
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)context, (void)attr, (void)eth_mac, (void)vid;
	return -EOPNOTSUPP;
}

/* Private to rdma-core's own programs: ibv_devinfo asks for a board's name. */
int ibv_read_sysfs_file(const char *directory, const char *file, char *buffer, size_t size);

int ibv_read_sysfs_file(const char *directory, const char *file, char *buffer, size_t size)
{
	(void)directory, (void)file, (void)buffer, (void)size;
	errno = ENOENT;
	return -1;
}

const char *ibv_get_sysfs_path(void);

const char *ibv_get_sysfs_path(void)
{
	return "/sys";
}

/* librdmacm, which pyverbs links, names these three; it calls them where there is a connection manager. */
void ibv_copy_ah_attr_from_kern(void *to, void *from);
void ibv_copy_qp_attr_from_kern(void *to, void *from);
void ibv_copy_path_rec_from_kern(void *to, void *from);

void ibv_copy_ah_attr_from_kern(void *to, void *from)
{
	(void)to, (void)from;
}

void ibv_copy_qp_attr_from_kern(void *to, void *from)
{
	(void)to, (void)from;
}

void ibv_copy_path_rec_from_kern(void *to, void *from)
{
	(void)to, (void)from;
}

int ibv_dontfork_range(void *base, size_t size);

int ibv_dontfork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}

int ibv_dofork_range(void *base, size_t size);

int ibv_dofork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}
