/* What Python sees of cm.c. A call that fails returns -1 (a pointer: NULL) and sets errno, as librdmacm's do. */

int rdmaqp_cm_built(void);
const char *rdmaqp_cm_load(const char *file);
struct rdma_event_channel *rdmaqp_cm_create_channel(void);
void rdmaqp_cm_destroy_channel(struct rdma_event_channel *channel);
int rdmaqp_cm_fd(struct rdma_event_channel *channel);
struct rdma_cm_id *rdmaqp_cm_create_id(struct rdma_event_channel *channel);
int rdmaqp_cm_destroy_id(struct rdma_cm_id *id);
int rdmaqp_cm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);
int rdmaqp_cm_bind(struct rdma_cm_id *id, const char *host, uint16_t port, uint32_t scope);
int rdmaqp_cm_listen(struct rdma_cm_id *id, int backlog);
int rdmaqp_cm_resolve_addr(struct rdma_cm_id *id, const char *host, uint16_t port, uint32_t scope, int ms);
int rdmaqp_cm_resolve_route(struct rdma_cm_id *id, int ms);
struct ibv_context *rdmaqp_cm_verbs(struct rdma_cm_id *id);
int rdmaqp_cm_address(struct rdma_cm_id *id, int of_peer, char *host, size_t size);
int rdmaqp_cm_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
int rdmaqp_cm_connect(struct rdma_cm_id *id, const struct rdmaqp_cm_param *param);
int rdmaqp_cm_accept(struct rdma_cm_id *id, const struct rdmaqp_cm_param *param);
int rdmaqp_cm_reject(struct rdma_cm_id *id, const char *data, uint8_t length);
int rdmaqp_cm_establish(struct rdma_cm_id *id);
int rdmaqp_cm_disconnect(struct rdma_cm_id *id);
int rdmaqp_cm_next_event(struct rdma_event_channel *channel, int64_t slice_ns, struct rdmaqp_cm_event *found,
			 const char **verb);
