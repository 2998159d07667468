/* What passes between Python and cm.c; the C compiler and cffi both read it. Layouts of librdmacm's own stay in cm.c. */

struct rdma_event_channel;
struct rdma_cm_id;

/* What rdma_connect() and rdma_accept() are told, for an id without a queue pair. */
struct rdmaqp_cm_param {
	uint32_t qp_num;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint8_t length;
	char private_data[255];
};

/* An event, copied: it is acknowledged already. */
struct rdmaqp_cm_event {
	struct rdma_cm_id *id;
	int event;
	int status;
	uint32_t qp_num;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t length;
	char private_data[255];
};
