/*
 * rdma_cm: connections by IP address. librdmacm is opened at the first use, so that nothing else needs it.
 *
 * Queue pairs stay ours: no id has one, and so librdmacm moves none. What it would do with them is done in Python, where
 * the guard judges it.
 */

#if !defined(RDMAQP_WITHOUT_CM) && __has_include(<rdma/rdma_cma.h>)
#define RDMAQP_HAS_CM
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#define CM_CALLS(each) \
	each(rdma_create_event_channel) each(rdma_destroy_event_channel) each(rdma_create_id) each(rdma_destroy_id) \
	each(rdma_migrate_id) each(rdma_bind_addr) each(rdma_listen) each(rdma_resolve_addr) each(rdma_resolve_route) \
	each(rdma_init_qp_attr) each(rdma_connect) each(rdma_accept) each(rdma_reject) each(rdma_establish) \
	each(rdma_disconnect) each(rdma_get_cm_event) each(rdma_ack_cm_event)

#define CM_MEMBER(name) __typeof__(name) *name;
#define CM_FIND(name) if (!(found.name = dlsym(library, #name))) return #name;

static struct cm_calls { CM_CALLS(CM_MEMBER) } cm;
static int cm_loaded;

static int rdmaqp_cm_built(void)
{
	return 1;
}

/* NULL, or why *file* does not serve: the loader's words, or the function that it lacks. */
static const char *rdmaqp_cm_load(const char *file)
{
	struct cm_calls found;
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
	CM_CALLS(CM_FIND)
	cm = found;
	cm_loaded = 1;
	return NULL;
}

static struct rdma_event_channel *rdmaqp_cm_create_channel(void)
{
	struct rdma_event_channel *channel;

	if (!cm_loaded) {
		errno = ENOSYS;
		return NULL;
	}
	channel = cm.rdma_create_event_channel();
	if (channel) /* another thread may take what poll() has seen */
		fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
	return channel;
}

static void rdmaqp_cm_destroy_channel(struct rdma_event_channel *channel)
{
	cm.rdma_destroy_event_channel(channel);
}

static int rdmaqp_cm_fd(struct rdma_event_channel *channel)
{
	return channel->fd;
}

static struct rdma_cm_id *rdmaqp_cm_create_id(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = NULL;

	return cm.rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ? NULL : id;
}

static int rdmaqp_cm_destroy_id(struct rdma_cm_id *id)
{
	return cm.rdma_destroy_id(id);
}

static int rdmaqp_cm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	return cm.rdma_migrate_id(id, channel);
}

/* IPv4 or IPv6, from text; the scope counts for link-local addresses. */
static int cm_address(const char *host, uint16_t port, uint32_t scope, struct sockaddr_storage *address)
{
	struct sockaddr_in *four = (struct sockaddr_in *)address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;

	memset(address, 0, sizeof *address);
	if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		return 0;
	}
	if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
		six->sin6_scope_id = scope;
		return 0;
	}
	errno = EAFNOSUPPORT;
	return -1;
}

static int rdmaqp_cm_bind(struct rdma_cm_id *id, const char *host, uint16_t port, uint32_t scope)
{
	struct sockaddr_storage address;

	if (cm_address(host, port, scope, &address))
		return -1;
	return cm.rdma_bind_addr(id, (struct sockaddr *)&address);
}

static int rdmaqp_cm_listen(struct rdma_cm_id *id, int backlog)
{
	return cm.rdma_listen(id, backlog);
}

static int rdmaqp_cm_resolve_addr(struct rdma_cm_id *id, const char *host, uint16_t port, uint32_t scope, int ms)
{
	struct sockaddr_storage address;

	if (cm_address(host, port, scope, &address))
		return -1;
	return cm.rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, ms);
}

static int rdmaqp_cm_resolve_route(struct rdma_cm_id *id, int ms)
{
	return cm.rdma_resolve_route(id, ms);
}

/* librdmacm's own opening of the device that the id is bound to; NULL before. */
static struct ibv_context *rdmaqp_cm_verbs(struct rdma_cm_id *id)
{
	return id->verbs;
}

/* The port of one end's address, and the address as text; -1 where it has none. */
static int rdmaqp_cm_address(struct rdma_cm_id *id, int of_peer, char *host, size_t size)
{
	struct sockaddr *address = of_peer ? rdma_get_peer_addr(id) : rdma_get_local_addr(id);
	struct sockaddr_in *four = (struct sockaddr_in *)address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;

	if (address->sa_family == AF_INET && inet_ntop(AF_INET, &four->sin_addr, host, size))
		return ntohs(four->sin_port);
	if (address->sa_family == AF_INET6 && inet_ntop(AF_INET6, &six->sin6_addr, host, size))
		return ntohs(six->sin6_port);
	return -1;
}

static int rdmaqp_cm_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	return cm.rdma_init_qp_attr(id, attr, mask);
}

static struct rdma_conn_param cm_param(const struct rdmaqp_cm_param *param)
{
	return (struct rdma_conn_param){
		.private_data = param->length ? param->private_data : NULL, .private_data_len = param->length,
		.responder_resources = param->responder_resources, .initiator_depth = param->initiator_depth,
		.flow_control = 1, .retry_count = param->retry_count, .rnr_retry_count = param->rnr_retry_count,
		.srq = param->srq, .qp_num = param->qp_num,
	};
}

static int rdmaqp_cm_connect(struct rdma_cm_id *id, const struct rdmaqp_cm_param *param)
{
	struct rdma_conn_param all = cm_param(param);

	return cm.rdma_connect(id, &all);
}

static int rdmaqp_cm_accept(struct rdma_cm_id *id, const struct rdmaqp_cm_param *param)
{
	struct rdma_conn_param all = cm_param(param);

	return cm.rdma_accept(id, &all);
}

static int rdmaqp_cm_reject(struct rdma_cm_id *id, const char *data, uint8_t length)
{
	return cm.rdma_reject(id, length ? data : NULL, length);
}

static int rdmaqp_cm_establish(struct rdma_cm_id *id)
{
	return cm.rdma_establish(id);
}

static int rdmaqp_cm_disconnect(struct rdma_cm_id *id)
{
	return cm.rdma_disconnect(id);
}

/* Nothing that Python keeps points into librdmacm. */
static void cm_note(const struct rdma_cm_event *event, struct rdmaqp_cm_event *found)
{
	const struct rdma_conn_param *param = &event->param.conn;

	*found = (struct rdmaqp_cm_event){
		.event = (int)event->event, .status = event->status, .id = event->id,
		.responder_resources = param->responder_resources, .initiator_depth = param->initiator_depth,
		.qp_num = param->qp_num,
	};
	if (param->private_data) {
		found->length = param->private_data_len;
		memcpy(found->private_data, param->private_data, param->private_data_len);
	}
}

/* The next event, within a slice of time: 1; 0 where none came; -1 with errno and *verb. */
static int rdmaqp_cm_next_event(struct rdma_event_channel *channel, int64_t slice_ns, struct rdmaqp_cm_event *found,
				const char **verb)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	int ready = poll(&fd, 1, (int)((slice_ns + 999999) / 1000000));

	*verb = "poll";
	if (ready <= 0)
		return ready < 0 && errno != EINTR ? -1 : 0;
	*verb = "rdma_get_cm_event";
	if (cm.rdma_get_cm_event(channel, &event))
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	cm_note(event, found);
	*verb = "rdma_ack_cm_event";
	return cm.rdma_ack_cm_event(event) ? -1 : 1;
}
#endif
