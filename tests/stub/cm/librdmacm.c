/*
 * A librdmacm for the null device: a peer that says yes, as iWARP's connection manager would, whose devices no test
 * machine has. Calls are written to the file RDMAQP_STUB_CM_LOG, one a line; the kernel's answers are those of
 * drivers/infiniband/core/cma.c, rdma_init_qp_attr(), and core/iwcm.c, iw_cm_init_qp_attr().
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct channel {
	struct rdma_event_channel cm;
	int write_fd;
};

/* What waits in a channel's pipe. */
struct waiting {
	struct rdma_cm_id *id;
	enum rdma_cm_event_type event;
};

static void note(const char *format, ...)
{
	FILE *log = fopen(getenv("RDMAQP_STUB_CM_LOG"), "a");
	va_list list;

	if (!log)
		abort();
	va_start(list, format);
	vfprintf(log, format, list);
	va_end(list);
	fclose(log);
}

static int push(struct rdma_cm_id *id, enum rdma_cm_event_type event)
{
	struct waiting one = { id, event };

	return write(((struct channel *)id->channel)->write_fd, &one, sizeof one) == sizeof one ? 0 : -1;
}

static int bind_to_device(struct rdma_cm_id *id)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	id->verbs = ibv_open_device(list[0]);
	id->port_num = 1;
	ibv_free_device_list(list);
	return id->verbs ? 0 : -1;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel = calloc(1, sizeof *channel);
	int ends[2];

	if (!channel || pipe2(ends, O_CLOEXEC))
		abort();
	channel->cm.fd = ends[0];
	channel->write_fd = ends[1];
	note("open channel\n");
	return &channel->cm;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	close(((struct channel *)channel)->write_fd);
	free(channel);
	note("close channel\n");
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
	*id = calloc(1, sizeof **id);
	if (!*id)
		abort();
	**id = (struct rdma_cm_id){ .channel = channel, .context = context, .ps = ps };
	note("open id\n");
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	if (id->verbs)
		ibv_close_device(id->verbs);
	free(id);
	note("close id\n");
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	id->channel = channel;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	memcpy(&id->route.addr.src_sin, address, sizeof id->route.addr.src_sin);
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	note("listen %d\n", backlog);
	return push(id, RDMA_CM_EVENT_CONNECT_REQUEST);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	(void)from, (void)ms;
	memcpy(&id->route.addr.dst_sin, to, sizeof id->route.addr.dst_sin);
	return bind_to_device(id) ? -1 : push(id, RDMA_CM_EVENT_ADDR_RESOLVED);
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
	(void)ms;
	return push(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	note("attributes %d\n", attr->qp_state);
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	attr->port_num = id->port_num;
	return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	note("connect qp_num %u data %.*s\n", param->qp_num, param->private_data_len, (const char *)param->private_data);
	return push(id, RDMA_CM_EVENT_ESTABLISHED);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	note("accept qp_num %u data %.*s depth %d %d\n", param->qp_num, param->private_data_len,
	     (const char *)param->private_data, param->responder_resources, param->initiator_depth);
	return push(id, RDMA_CM_EVENT_ESTABLISHED);
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	(void)id;
	note("reject %.*s\n", length, (const char *)data);
	return 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
	(void)id;
	note("establish\n");
	errno = EINVAL;
	return -1;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	note("disconnect\n");
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct waiting one;

	if (read(channel->fd, &one, sizeof one) != sizeof one)
		return -1;
	*event = calloc(1, sizeof **event);
	if (!*event)
		abort();
	(*event)->event = one.event;
	(*event)->id = one.id;
	(*event)->param.conn.private_data = "hello";
	(*event)->param.conn.private_data_len = 5;
	(*event)->param.conn.responder_resources = 2;
	(*event)->param.conn.initiator_depth = 1;
	if (one.event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	rdma_create_id(channel, &(*event)->id, NULL, RDMA_PS_TCP);
	(*event)->listen_id = one.id;
	(*event)->id->route.addr.dst_sin = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(4242), .sin_addr.s_addr = inet_addr("192.0.2.9"),
	};
	return bind_to_device((*event)->id);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}
