/* What stands for cm.c where it was built without <rdma/rdma_cma.h>: Python asks first, and calls nothing else. */
#ifndef RDMAQP_HAS_CM
static int cm_failed(void)
{
	errno = ENOSYS;
	return -1;
}

static int rdmaqp_cm_built(void) { return 0; }
static const char *rdmaqp_cm_load(const char *file) { return file; }
static struct rdma_event_channel *rdmaqp_cm_create_channel(void) { cm_failed(); return NULL; }
static void rdmaqp_cm_destroy_channel(struct rdma_event_channel *channel) { (void)channel; }
static int rdmaqp_cm_fd(struct rdma_event_channel *channel) { (void)channel; return cm_failed(); }
static struct rdma_cm_id *rdmaqp_cm_create_id(struct rdma_event_channel *channel)
{
	(void)channel;
	cm_failed();
	return NULL;
}
static int rdmaqp_cm_destroy_id(struct rdma_cm_id *id) { (void)id; return cm_failed(); }
static int rdmaqp_cm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	(void)id, (void)channel;
	return cm_failed();
}
static int rdmaqp_cm_bind(struct rdma_cm_id *id, const char *host, uint16_t port, uint32_t scope)
{
	(void)id, (void)host, (void)port, (void)scope;
	return cm_failed();
}
static int rdmaqp_cm_listen(struct rdma_cm_id *id, int backlog) { (void)id, (void)backlog; return cm_failed(); }
static int rdmaqp_cm_resolve_addr(struct rdma_cm_id *id, const char *host, uint16_t port, uint32_t scope, int ms)
{
	(void)id, (void)host, (void)port, (void)scope, (void)ms;
	return cm_failed();
}
static int rdmaqp_cm_resolve_route(struct rdma_cm_id *id, int ms) { (void)id, (void)ms; return cm_failed(); }
static struct ibv_context *rdmaqp_cm_verbs(struct rdma_cm_id *id) { (void)id; return NULL; }
static int rdmaqp_cm_address(struct rdma_cm_id *id, int of_peer, char *host, size_t size)
{
	(void)id, (void)of_peer, (void)host, (void)size;
	return cm_failed();
}
static int rdmaqp_cm_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id, (void)attr, (void)mask;
	return cm_failed();
}
static int rdmaqp_cm_connect(struct rdma_cm_id *id, const struct rdmaqp_cm_param *param)
{
	(void)id, (void)param;
	return cm_failed();
}
static int rdmaqp_cm_accept(struct rdma_cm_id *id, const struct rdmaqp_cm_param *param)
{
	(void)id, (void)param;
	return cm_failed();
}
static int rdmaqp_cm_reject(struct rdma_cm_id *id, const char *data, uint8_t length)
{
	(void)id, (void)data, (void)length;
	return cm_failed();
}
static int rdmaqp_cm_establish(struct rdma_cm_id *id) { (void)id; return cm_failed(); }
static int rdmaqp_cm_disconnect(struct rdma_cm_id *id) { (void)id; return cm_failed(); }
static int rdmaqp_cm_next_event(struct rdma_event_channel *channel, int64_t slice_ns, struct rdmaqp_cm_event *found,
				const char **verb)
{
	(void)channel, (void)slice_ns, (void)found;
	*verb = "rdma_get_cm_event";
	return cm_failed();
}
#endif
