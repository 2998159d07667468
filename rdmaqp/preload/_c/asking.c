/*
 * What the guard has to know of a call: the state as the kernel has it, device, port, GID table, partition key. All of
 * it is asked at each call, for all of it changes at run time; a modify call is on no hot path.
 */
#include "shim.h"

#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>

enum {
	UNKNOWN = 255,
	TABLE_AT_MOST = UINT16_MAX / sizeof(struct ibv_gid_entry), /* an attribute of the kernel's ioctl has 16 bits */
};

static void copy_text(char *into, size_t size, const char *text)
{
	size_t length = text ? strnlen(text, size - 1) : 0;

	memcpy(into, text ? text : "", length);
	into[length] = '\0';
}

static const char *last_part(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

/* ---- the attributes: those that the mask names. The rest may not even be initialised. */

static void copy_vector(struct rdmaqp_vector *to, const struct ibv_ah_attr *from)
{
	to->is_global = from->is_global;
	to->dlid = from->dlid;
	to->sl = from->sl;
	to->src_path_bits = from->src_path_bits;
	to->static_rate = from->static_rate;
	to->port_num = from->port_num;
	if (!from->is_global)
		return;
	to->sgid_index = from->grh.sgid_index;
	to->flow_label = from->grh.flow_label;
	to->hop_limit = from->grh.hop_limit;
	to->traffic_class = from->grh.traffic_class;
	memcpy(to->dgid, from->grh.dgid.raw, sizeof(to->dgid));
}

static void copy_alternate(struct rdmaqp_attr *to, const struct ibv_qp_attr *from)
{
	copy_vector(&to->alt_ah_attr, &from->alt_ah_attr);
	to->alt_pkey_index = from->alt_pkey_index;
	to->alt_port_num = from->alt_port_num;
	to->alt_timeout = from->alt_timeout;
}

static void copy_attr(struct rdmaqp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define COPY(bit, field) do { if (mask & (bit)) to->field = (uint32_t)from->field; } while (0)
	COPY(IBV_QP_STATE, qp_state);
	COPY(IBV_QP_CUR_STATE, cur_qp_state);
	COPY(IBV_QP_PATH_MTU, path_mtu);
	COPY(IBV_QP_PATH_MIG_STATE, path_mig_state);
	COPY(IBV_QP_QKEY, qkey);
	COPY(IBV_QP_RQ_PSN, rq_psn);
	COPY(IBV_QP_SQ_PSN, sq_psn);
	COPY(IBV_QP_DEST_QPN, dest_qp_num);
	COPY(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	COPY(IBV_QP_PKEY_INDEX, pkey_index);
	COPY(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	COPY(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	COPY(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	COPY(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	COPY(IBV_QP_PORT, port_num);
	COPY(IBV_QP_TIMEOUT, timeout);
	COPY(IBV_QP_RETRY_CNT, retry_cnt);
	COPY(IBV_QP_RNR_RETRY, rnr_retry);
	COPY(IBV_QP_RATE_LIMIT, rate_limit); /* not there in structs of older programs, nor is the bit */
#undef COPY
	if (mask & IBV_QP_AV)
		copy_vector(&to->ah_attr, &from->ah_attr);
	if (mask & IBV_QP_ALT_PATH)
		copy_alternate(to, from);
}

/* ---- the questions */

/* The state, asked with the narrowest mask (wide ones fail on EFA); returns the port that the driver says it is on. */
static int ask_state(const struct real *verbs, struct ibv_qp *qp, struct rdmaqp_call *call)
{
	struct ibv_qp_init_attr init = { 0 };
	struct ibv_qp_attr attr = { 0 };

	call->cached_state = qp->state;
	call->state = UNKNOWN;
	if (!verbs->query_qp || verbs->query_qp(qp, &attr, IBV_QP_STATE, &init))
		return 0;
	call->answers |= RDMAQP_HAS_STATE;
	call->state = attr.qp_state;
	call->sq_draining = attr.sq_draining;
	call->max_send_wr = init.cap.max_send_wr;
	call->max_recv_wr = init.cap.max_recv_wr;
	call->max_send_sge = init.cap.max_send_sge;
	call->max_recv_sge = init.cap.max_recv_sge;
	call->max_inline_data = init.cap.max_inline_data;
	return attr.qp_state == IBV_QPS_RESET ? 0 : attr.port_num;
}

uint32_t state_of(const struct real *verbs, struct ibv_qp *qp)
{
	struct rdmaqp_call call = { .answers = 0 };

	ask_state(verbs, qp, &call);
	return call.state;
}

static void ask_device(const struct real *verbs, struct ibv_context *context, struct rdmaqp_call *call)
{
	struct ibv_device_attr attr;
	Dl_info info;

	copy_text(call->device, sizeof(call->device),
		  verbs->get_device_name ? verbs->get_device_name(context->device) : context->device->name);
	call->transport = context->device->transport_type;
	/* The file of the driver's user half names the driver. */
	if (dladdr((void *)(uintptr_t)context->ops.poll_cq, &info))
		copy_text(call->provider, sizeof(call->provider), last_part(info.dli_fname));
	if (!verbs->query_device || verbs->query_device(context, &attr))
		return;
	call->answers |= RDMAQP_HAS_DEVICE;
	call->phys_port_cnt = attr.phys_port_cnt;
	call->max_qp = attr.max_qp;
	call->max_qp_wr = attr.max_qp_wr;
	call->max_sge = attr.max_sge;
	call->max_qp_rd_atom = attr.max_qp_rd_atom;
	call->max_qp_init_rd_atom = attr.max_qp_init_rd_atom;
	call->max_res_rd_atom = attr.max_res_rd_atom;
	call->atomic_cap = attr.atomic_cap;
	call->device_cap_flags = attr.device_cap_flags;
}

/* As verbs.h does it: the context's own function, which takes the struct's length, where it has one. */
static int query_port(const struct real *verbs, struct ibv_context *context, uint8_t num, struct ibv_port_attr *attr)
{
	struct verbs_context *own = verbs_get_ctx_op(context, query_port);

	memset(attr, 0, sizeof(*attr));
	if (own)
		return own->query_port(context, num, attr, sizeof(*attr));
	return verbs->query_port ? verbs->query_port(context, num, (struct _compat_ibv_port_attr *)attr) : -1;
}

static bool ask_port(const struct real *verbs, struct ibv_context *context, uint32_t num, struct rdmaqp_call *call)
{
	struct ibv_port_attr attr;

	if (num < 1 || num > call->phys_port_cnt || query_port(verbs, context, (uint8_t)num, &attr))
		return false;
	call->answers |= RDMAQP_HAS_PORT;
	call->port_num = num;
	call->port_state = attr.state;
	call->link_layer = attr.link_layer;
	call->active_mtu = attr.active_mtu;
	call->max_mtu = attr.max_mtu;
	call->lid = attr.lid;
	call->lmc = attr.lmc;
	call->gid_tbl_len = attr.gid_tbl_len;
	call->pkey_tbl_len = attr.pkey_tbl_len;
	call->grh_required = !!(attr.flags & IBV_QPF_GRH_REQUIRED);
	return true;
}

static void ask_pkey(const struct real *verbs, struct ibv_context *context, uint32_t index, struct rdmaqp_call *call)
{
	__be16 key;

	if (index >= call->pkey_tbl_len || !verbs->query_pkey ||
	    verbs->query_pkey(context, (uint8_t)call->port_num, (int)index, &key))
		return;
	call->answers |= RDMAQP_HAS_PKEY;
	call->pkey_index = index;
	call->pkey = be16toh(key);
}

/*
 * "" where this network namespace has none of that index. A program may be out of descriptors, or not allowed to open
 * sockets: the line is asked, and only that its namespace, which may be an earlier one, has none is asked anew.
 */
static void ask_netdev(uint32_t index, char name[IF_NAMESIZE])
{
	if (!line_netdev(index, name) && !if_indextoname(index, name))
		strcpy(name, errno == ENXIO || errno == ENODEV ? "" : RDMAQP_NOT_ASKED);
}

static void copy_gid(struct rdmaqp_gid *to, const struct ibv_gid_entry *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->gid, from->gid.raw, sizeof(to->gid));
	to->index = from->gid_index;
	to->type = from->gid_type;
	to->ifindex = from->ndev_ifindex;
	if (from->ndev_ifindex)
		ask_netdev(from->ndev_ifindex, to->netdev);
}

/* libibverbs from before 33 has no table: one slot then, of which nobody says what it speaks. */
static void ask_slot(const struct real *verbs, struct ibv_context *context, uint32_t index, struct message *message)
{
	struct rdmaqp_gid *slot = &message->gids[0];
	union ibv_gid gid;

	if (!verbs->query_gid || verbs->query_gid(context, (uint8_t)message->call.port_num, (int)index, &gid))
		return;
	memset(slot, 0, sizeof(*slot));
	memcpy(slot->gid, gid.raw, sizeof(slot->gid));
	slot->index = index;
	slot->type = UNKNOWN;
	message->call.gid_count = 1;
}

/* The slots of the port's table that are in use. The kernel refuses room for less than what all ports have in use. */
static void ask_gids(const struct real *verbs, struct ibv_context *context, uint32_t index, struct message *message)
{
	static struct ibv_gid_entry table[TABLE_AT_MOST];
	struct rdmaqp_call *call = &message->call;
	ssize_t count = -1, at;

	if (verbs->query_gid_table)
		count = verbs->query_gid_table(context, table, TABLE_AT_MOST, 0, sizeof(table[0]));
	if (count < 0) {
		ask_slot(verbs, context, index, message);
		return;
	}
	call->answers |= RDMAQP_HAS_GIDS;
	for (at = 0; at < count; at++) {
		if (table[at].port_num != call->port_num)
			continue;
		if (call->gid_count == RDMAQP_GIDS_AT_MOST) {
			call->answers &= ~(uint32_t)RDMAQP_HAS_GIDS;
			return;
		}
		copy_gid(&message->gids[call->gid_count++], &table[at]);
	}
}

static void say_caller(const void *caller, struct rdmaqp_call *call)
{
	Dl_info info;

	call->caller = (uintptr_t)caller;
	if (!dladdr((const char *)caller - 1, &info)) /* the call is before where it returns to */
		return;
	call->module_base = (uintptr_t)info.dli_fbase;
	call->symbol_at = (uintptr_t)info.dli_saddr;
	copy_text(call->module, sizeof(call->module), info.dli_fname);
	copy_text(call->symbol, sizeof(call->symbol), info.dli_sname);
}

/* The port that the call is about: the one it names, else the one that its queue pair is on. */
static uint32_t port_of(const struct ibv_qp_attr *attr, int mask, int bound)
{
	if (mask & IBV_QP_PORT)
		return attr->port_num;
	if (mask & IBV_QP_AV && attr->ah_attr.port_num)
		return attr->ah_attr.port_num;
	return (uint32_t)bound;
}

const struct message *ask(const struct real *verbs, struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask,
			  const void *caller)
{
	static struct message message; /* under the line's lock */
	struct rdmaqp_call *call = &message.call;
	int bound;

	memset(call, 0, sizeof(*call));
	call->qp = (uintptr_t)qp;
	call->qp_num = qp->qp_num;
	call->qp_type = qp->qp_type;
	call->has_srq = qp->srq != NULL;
	call->mask = (uint32_t)mask;
	copy_attr(&call->attr, attr, mask);
	say_caller(caller, call);
	bound = ask_state(verbs, qp, call);
	ask_device(verbs, qp->context, call);
	if (!ask_port(verbs, qp->context, port_of(attr, mask, bound), call))
		return &message;
	if (mask & IBV_QP_PKEY_INDEX)
		ask_pkey(verbs, qp->context, attr->pkey_index, call);
	if (mask & IBV_QP_AV)
		ask_gids(verbs, qp->context, call->attr.ah_attr.sgid_index, &message);
	return &message;
}
