/* Devices: the list, opening and closing, and what they say of themselves. port.c has their ports. */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stub.h"

struct device {
	struct ibv_device ibv;
	int index;
	struct device *next;
};

/* Devices stay for the life of the process: a name keeps its address, whoever still holds it. */
static struct device *devices;
static struct registry contexts;

static void set_transport(struct device *device)
{
	const char *name = device->ibv.name;

	device->ibv.transport_type = (enum ibv_transport_type)setting_number(name, "TRANSPORT", 0, IBV_TRANSPORT_IB);
}

static struct device *device_named(const char *name)
{
	struct device **link, *device;
	int index = 0;

	for (link = &devices; *link; link = &(*link)->next, index++)
		if (!strcmp((*link)->ibv.name, name)) {
			set_transport(*link);
			return *link;
		}
	device = calloc(1, sizeof(*device));
	if (!device)
		abort();
	device->index = index;
	device->ibv.node_type = IBV_NODE_CA;
	snprintf(device->ibv.name, sizeof(device->ibv.name), "%s", name);
	set_transport(device);
	snprintf(device->ibv.dev_name, sizeof(device->ibv.dev_name), "uverbs%d", index);
	snprintf(device->ibv.dev_path, sizeof(device->ibv.dev_path), "/sys/class/infiniband_verbs/uverbs%d", index);
	snprintf(device->ibv.ibdev_path, sizeof(device->ibv.ibdev_path), "/sys/class/infiniband/%s", name);
	*link = device;
	return device;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct entry entry = control_call("ibv_get_device_list");
	const char *rest = setting(NULL, "DEVICES");
	char name[IBV_SYSFS_NAME_MAX];
	struct ibv_device **list;
	int count = 0;

	if (num_devices)
		*num_devices = 0;
	if (fails("GET_DEVICE_LIST")) {
		entry_result(&entry, errno);
		return NULL;
	}
	if (!rest)
		rest = "null0";
	if (setting_number(NULL, "NO_DEVICES", 0, 0))
		rest = NULL;
	list = calloc(1, sizeof(*list));
	pthread_mutex_lock(&stub_lock);
	while (list && next_item(&rest, ',', name, sizeof(name))) {
		list = realloc(list, (count + 2) * sizeof(*list));
		if (!list)
			break;
		list[count++] = &device_named(name)->ibv;
		list[count] = NULL;
	}
	pthread_mutex_unlock(&stub_lock);
	if (!list)
		abort();
	if (num_devices)
		*num_devices = count;
	entry_number(&entry, "devices", count);
	entry_result(&entry, 0);
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	struct entry entry = control_call("ibv_free_device_list");

	free(list);
	entry_result(&entry, 0);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return container_of(device, struct device, ibv)->index;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	/* The default GIDs end in it. */
	return htobe64(0x0200000000000001ULL + container_of(device, struct device, ibv)->index);
}

static bool wants_free(const char *device)
{
	const char *hot_path = setting(device, "HOT");

	if (hot_path && strcmp(hot_path, "free"))
		bad_setting(hot_path, "free");
	return hot_path;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct entry entry = control_call("ibv_open_device");
	struct context *context;
	struct ibv_context *ibv;
	int ends[2];

	entry_text(&entry, "device", device->name);
	if (fails("OPEN_DEVICE")) {
		entry_result(&entry, errno);
		return NULL;
	}
	context = calloc(1, sizeof(*context));
	if (!context || pipe2(ends, O_CLOEXEC))
		abort();
	context->async_write_fd = ends[1];
	context->verbs.sz = sizeof(context->verbs);
	context->verbs.query_port = query_port; /* every other extended verb is absent, and its inline says so */
	if (setting_number(device->name, "XRC", 0, 0))
		offer_xrc(&context->verbs);
	ibv = &context->verbs.context;
	ibv->device = device;
	ibv->ops.poll_cq = poll_cq;
	ibv->ops.req_notify_cq = req_notify_cq;
	ibv->ops.post_send = post_send;
	ibv->ops.post_recv = post_recv;
	ibv->ops.post_srq_recv = post_srq_recv;
	if (setting_number(device->name, "MAX_MW", 0, 0)) {
		ibv->ops.alloc_mw = alloc_mw;
		ibv->ops.dealloc_mw = dealloc_mw;
	}
	context->is_free = wants_free(device->name);
	if (context->is_free)
		make_free(ibv);
	ibv->cmd_fd = -1;
	ibv->async_fd = ends[0];
	ibv->num_comp_vectors = 1;
	ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_mutex_lock(&stub_lock);
	context->number = registry_add(&contexts, context);
	pthread_mutex_unlock(&stub_lock);
	entry_object(&entry, "context", context->number);
	entry_result(&entry, 0);
	return ibv;
}

/* As on a kernel, closing takes what is left along; "alive" tells how much that was. */
int ibv_close_device(struct ibv_context *ibv)
{
	struct entry entry = control_call("ibv_close_device");
	struct context *context = to_context(ibv);
	int error = fault("CLOSE_DEVICE");

	entry_text(&entry, "device", ibv->device->name);
	entry_object(&entry, "context", context->number);
	entry_number(&entry, "alive", context->objects);
	entry_number(&entry, "posts", context->sends + context->receives);
	entry_number(&entry, "sends", context->sends);
	entry_number(&entry, "receives", context->receives);
	entry_number(&entry, "polls", context->polls);
	entry_number(&entry, "lost", context->lost);
	if (error)
		return entry_result(&entry, error);
	pthread_mutex_lock(&stub_lock);
	registry_remove(&contexts, context->number);
	pthread_mutex_unlock(&stub_lock);
	close(ibv->async_fd);
	close(context->async_write_fd);
	free(context);
	return entry_result(&entry, 0);
}

/* The caller holds stub_lock. */
void object_born(struct ibv_context *context)
{
	to_context(context)->objects++;
}

void object_died(struct ibv_context *context)
{
	to_context(context)->objects--;
}

static const struct {
	const char *name;
	size_t offset;
	int otherwise;
} limits[] = {
#define LIMIT(field, otherwise) { #field, offsetof(struct ibv_device_attr, field), otherwise }
	LIMIT(max_qp, 65536),
	LIMIT(max_qp_wr, 16384),
	LIMIT(max_sge, 30),
	LIMIT(max_sge_rd, 30),
	LIMIT(max_cq, 65536),
	LIMIT(max_cqe, 4194303),
	LIMIT(max_mr, 65536),
	LIMIT(max_pd, 65536),
	LIMIT(max_qp_rd_atom, 16),
	LIMIT(max_ee_rd_atom, 0),
	LIMIT(max_res_rd_atom, 1048576),
	LIMIT(max_qp_init_rd_atom, 16),
	LIMIT(max_ee_init_rd_atom, 0),
	LIMIT(max_ee, 0),
	LIMIT(max_rdd, 0),
	LIMIT(max_mw, 0),
	LIMIT(max_raw_ipv6_qp, 0),
	LIMIT(max_raw_ethy_qp, 0),
	LIMIT(max_mcast_grp, 0),
	LIMIT(max_mcast_qp_attach, 0),
	LIMIT(max_total_mcast_qp_attach, 0),
	LIMIT(max_ah, 65536),
	LIMIT(max_fmr, 0),
	LIMIT(max_map_per_fmr, 0),
	LIMIT(max_srq, 65536),
	LIMIT(max_srq_wr, 16384),
	LIMIT(max_srq_sge, 30),
#undef LIMIT
};

static int limit(const char *device, const char *field, int otherwise)
{
	char name[64];
	size_t i;

	for (i = 0; field[i]; i++)
		name[i] = toupper((unsigned char)field[i]);
	name[i] = '\0';
	return setting_number(device, name, 0, otherwise);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct entry entry = control_call("ibv_query_device");
	const char *device = context->device->name;
	int error = fault("QUERY_DEVICE");
	size_t i;

	entry_text(&entry, "device", device);
	if (error)
		return entry_result(&entry, error);
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "0.0.0");
	attr->node_guid = attr->sys_image_guid = ibv_get_device_guid(context->device);
	attr->max_mr_size = setting_number(device, "MAX_MR_SIZE", 0, INT64_MAX);
	attr->page_size_cap = 4096;
	attr->vendor_id = setting_number(device, "VENDOR_ID", 0, 0);
	attr->vendor_part_id = setting_number(device, "VENDOR_PART_ID", 0, 0);
	attr->device_cap_flags = setting_number(device, "DEVICE_CAP_FLAGS", 0, IBV_DEVICE_RC_RNR_NAK_GEN);
	attr->atomic_cap = setting_number(device, "ATOMIC_CAP", 0, IBV_ATOMIC_HCA);
	attr->max_pkeys = setting_number(device, "MAX_PKEYS", 0, 128);
	attr->local_ca_ack_delay = setting_number(device, "LOCAL_CA_ACK_DELAY", 0, 16);
	attr->phys_port_cnt = port_count(device);
	for (i = 0; i < lengthof(limits); i++) {
		int value = limit(device, limits[i].name, limits[i].otherwise);

		memcpy((char *)attr + limits[i].offset, &value, sizeof(value));
	}
	return entry_result(&entry, 0);
}

void async_event(struct ibv_context *context, struct ibv_async_event event)
{
	if (write(to_context(context)->async_write_fd, &event, sizeof(event)) != sizeof(event))
		abort();
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	return read(context->async_fd, event, sizeof(*event)) == sizeof(*event) ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct entry entry = control_call("ibv_ack_async_event");

	entry_number(&entry, "event_type", event->event_type);
	entry_result(&entry, 0);
}
