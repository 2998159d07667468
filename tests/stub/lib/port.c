/* Ports: attributes, GID table, partition keys; all of it from the environment, at each question. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

static const char infiniband_gids[] = "0=fe80::200:0:0:1/IB";
static const char ethernet_gids[] = "0=fe80::ff:fe00:1/ROCE_V1,1=fe80::ff:fe00:1/ROCE_V2,"
				    "2=::ffff:192.0.2.1/ROCE_V1,3=::ffff:192.0.2.1/ROCE_V2";

int port_count(const char *device)
{
	return setting_number(device, "PORTS", 0, 1);
}

static bool port_exists(const char *device, uint32_t port)
{
	return port >= 1 && port <= (uint32_t)port_count(device);
}

static bool is_ethernet(const char *device, int port)
{
	char item[32];
	const char *link = setting_item(device, "LINK", port, item, sizeof(item));

	if (!link || !strcmp(link, "infiniband"))
		return false;
	if (strcmp(link, "ethernet"))
		bad_setting(link, "infiniband or ethernet");
	return true;
}

static enum ibv_mtu mtu(const char *device, const char *name, int port, long otherwise)
{
	long bytes = setting_number(device, name, port, otherwise);
	int code;

	for (code = IBV_MTU_256; code <= IBV_MTU_4096; code++)
		if (bytes == 128L << code)
			return code;
	bad_setting(name, "256, 512, 1024, 2048 or 4096");
}

static const char *pkeys(const char *device)
{
	const char *text = setting(device, "PKEYS");

	return text ? text : "ffff";
}

static int pkey_table_length(const char *device, int port)
{
	const char *rest = pkeys(device);
	char item[32];
	int count = 0;

	while (next_item(&rest, ',', item, sizeof(item)))
		count++;
	return setting_number(device, "PKEY_TBL_LEN", port, count);
}

static int gid_table_length(const char *device, int port)
{
	return setting_number(device, "GID_TBL_LEN", port, 8);
}

static void fill_port(const char *device, int port, struct ibv_port_attr *attr)
{
	bool ethernet = is_ethernet(device, port);
	char item[32];
	const char *state = setting_item(device, "PORT_STATE", port, item, sizeof(item));

	attr->state = state ? port_state_named(state) : IBV_PORT_ACTIVE;
	attr->max_mtu = mtu(device, "MAX_MTU", port, 4096);
	attr->active_mtu = mtu(device, "ACTIVE_MTU", port, ethernet ? 1024 : 4096);
	attr->gid_tbl_len = gid_table_length(device, port);
	attr->port_cap_flags = IBV_PORT_CM_SUP | (ethernet ? IBV_PORT_IP_BASED_GIDS : 0);
	attr->max_msg_sz = setting_number(device, "MAX_MSG_SZ", port, 1 << 30);
	attr->pkey_tbl_len = pkey_table_length(device, port);
	attr->lid = setting_number(device, "LID", port, ethernet ? 0 : 16 + port);
	attr->sm_lid = setting_number(device, "SM_LID", port, ethernet ? 0 : 1);
	attr->lmc = setting_number(device, "LMC", port, 0);
	attr->max_vl_num = 1;
	attr->subnet_timeout = ethernet ? 0 : 18;
	attr->active_width = 2;	 /* 4 lanes */
	attr->active_speed = 32; /* 25 Gbit/s each */
	attr->phys_state = attr->state == IBV_PORT_DOWN || attr->state == IBV_PORT_NOP ? 2 : 5; /* polling, up */
	attr->link_layer = ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	attr->flags = setting_number(device, "GRH_REQUIRED", port, 0) ? IBV_QPF_GRH_REQUIRED : 0;
}

/* The program may have been compiled with a longer or a shorter ibv_port_attr than ours. */
int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t length)
{
	struct entry entry = control_call("ibv_query_port");
	const char *device = context->device->name;
	struct ibv_port_attr answer = { 0 };
	int error = fault("QUERY_PORT");

	entry_text(&entry, "device", device);
	entry_number(&entry, "port_num", port_num);
	if (!error && !port_exists(device, port_num))
		error = EINVAL;
	if (error)
		return entry_result(&entry, error);
	fill_port(device, port_num, &answer);
	memset(attr, 0, length);
	memcpy(attr, &answer, length < sizeof(answer) ? length : sizeof(answer));
	return entry_result(&entry, 0);
}

/* For programs from before ibv_port_attr grew: up to "flags". */
int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port_num, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, flags) + sizeof(((struct ibv_port_attr *)0)->flags));
}

/* INDEX=GID/TYPE[@INTERFACE]; says whether it is the index asked for. */
static bool gid_item(char *item, uint32_t index, struct ibv_gid_entry *entry)
{
	char *gid = strchr(item, '='), *type = strchr(item, '/'), *interface = strchr(item, '@');

	if (!gid || !type || type < gid)
		bad_setting(item, "INDEX=GID/TYPE, like 0=fe80::1/IB");
	*gid++ = *type++ = '\0';
	if (interface)
		*interface++ = '\0';
	if (number(item, 10) != (long)index)
		return false;
	if (inet_pton(AF_INET6, gid, entry->gid.raw) != 1)
		bad_setting(gid, "a GID, like fe80::1");
	entry->gid_type = gid_type_named(type);
	entry->ndev_ifindex = interface ? if_nametoindex(interface) : 0;
	return true;
}

/* 0, ENODATA for an empty entry, EINVAL outside the table; as the kernel does. */
static int gid_at(const char *device, uint32_t port, uint32_t index, struct ibv_gid_entry *entry)
{
	const char *rest = setting(device, "GIDS");
	char table[4096], item[128];
	const char *items = table;
	uint32_t i;

	memset(entry, 0, sizeof(*entry));
	if (!port_exists(device, port) || index >= (uint32_t)gid_table_length(device, port))
		return EINVAL;
	if (!rest)
		rest = is_ethernet(device, port) ? ethernet_gids : infiniband_gids;
	for (i = 1; i <= port && next_item(&rest, ';', table, sizeof(table)); i++)
		;
	entry->port_num = port;
	entry->gid_index = index;
	while (*table && next_item(&items, ',', item, sizeof(item)))
		if (gid_item(item, index, entry))
			return 0;
	return ENODATA;
}

static void entry_port(struct entry *entry, struct ibv_context *context, uint32_t port, long index)
{
	entry_text(entry, "device", context->device->name);
	entry_number(entry, "port_num", port);
	entry_number(entry, "index", index);
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct entry entry = control_call("ibv_query_gid");
	struct ibv_gid_entry found;
	int error;

	entry_port(&entry, context, port_num, index);
	error = abs(fault("QUERY_GID"));
	if (!error)
		error = gid_at(context->device->name, port_num, index, &found);
	if (error && error != ENODATA) {
		entry_result(&entry, error);
		errno = error;
		return -1;
	}
	*gid = found.gid; /* an empty entry is all zeros here */
	entry_result(&entry, 0);
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *answer, uint32_t flags, size_t entry_size)
{
	struct entry entry = control_call("ibv_query_gid_ex");
	struct ibv_gid_entry found;
	int error = fault("QUERY_GID");

	entry_port(&entry, context, port_num, gid_index);
	if (!error && (flags || entry_size < sizeof(found)))
		error = EINVAL;
	if (!error)
		error = gid_at(context->device->name, port_num, gid_index, &found);
	if (!error)
		*answer = found;
	return entry_result(&entry, error);
}

/* How many entries, or minus the error number. */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
			     uint32_t flags, size_t entry_size)
{
	struct entry entry = control_call("ibv_query_gid_table");
	const char *device = context->device->name;
	struct ibv_gid_entry found;
	int port, index, error = abs(fault("QUERY_GID_TABLE"));
	size_t count = 0;

	entry_text(&entry, "device", device);
	if (flags || entry_size < sizeof(found))
		error = EINVAL;
	for (port = 1; !error && port <= port_count(device); port++) {
		for (index = 0; !error && index < gid_table_length(device, port); index++) {
			if (gid_at(device, port, index, &found))
				continue;
			if (count == max_entries)
				error = EINVAL;
			else
				memcpy((char *)entries + count++ * entry_size, &found, sizeof(found));
		}
	}
	entry_number(&entry, "entries", count);
	entry_result(&entry, error);
	return error ? -error : (ssize_t)count;
}

/* Private to rdma-core, and ibv_devinfo uses it: 1 for RoCE v2, 0 for the other two. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type);

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
	struct ibv_gid_entry found;
	int error = gid_at(context->device->name, port_num, index, &found);

	if (error && error != ENODATA) {
		errno = error;
		return -1;
	}
	*type = found.gid_type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}

/* 0, or ENOENT as from a file in sysfs that is not there. */
static int pkey_at(const char *device, int port, int index, __be16 *pkey)
{
	const char *rest = pkeys(device);
	char item[32];
	int i;

	if (!port_exists(device, port) || index < 0 || index >= pkey_table_length(device, port))
		return ENOENT;
	*pkey = 0;
	for (i = 0; next_item(&rest, ',', item, sizeof(item)); i++)
		if (i == index)
			*pkey = htobe16(number(item, 16));
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	struct entry entry = control_call("ibv_query_pkey");
	int error = abs(fault("QUERY_PKEY"));

	entry_port(&entry, context, port_num, index);
	if (!error)
		error = pkey_at(context->device->name, port_num, index, pkey);
	entry_result(&entry, error);
	if (!error)
		return 0;
	errno = error;
	return -1;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	__be16 found;
	int i;

	for (i = 0; !ibv_query_pkey(context, port_num, i, &found); i++)
		if (found == pkey)
			return i;
	return -1;
}
