/* What Python sees of libibverbs and of shim.c. Layouts, sizes and constants come from the compiler ("..."). */

typedef uint16_t __be16;
typedef uint32_t __be32;
typedef uint64_t __be64;

/* devices */
enum ibv_transport_type {
	IBV_TRANSPORT_UNKNOWN, IBV_TRANSPORT_IB, IBV_TRANSPORT_IWARP, IBV_TRANSPORT_USNIC,
	IBV_TRANSPORT_USNIC_UDP, IBV_TRANSPORT_UNSPECIFIED, ...
};
enum ibv_node_type { IBV_NODE_UNKNOWN, IBV_NODE_CA, IBV_NODE_SWITCH, IBV_NODE_ROUTER, IBV_NODE_RNIC, ... };
struct ibv_device { enum ibv_node_type node_type; enum ibv_transport_type transport_type; char ibdev_path[]; ...; };
struct ibv_context { struct ibv_device *device; int cmd_fd; int async_fd; int num_comp_vectors; ...; };

struct ibv_device **ibv_get_device_list(int *num_devices);
void ibv_free_device_list(struct ibv_device **list);
const char *ibv_get_device_name(struct ibv_device *device);
__be64 ibv_get_device_guid(struct ibv_device *device);
struct ibv_context *ibv_open_device(struct ibv_device *device);
int ibv_close_device(struct ibv_context *context);

enum ibv_atomic_cap { IBV_ATOMIC_NONE, IBV_ATOMIC_HCA, IBV_ATOMIC_GLOB, ... };
enum ibv_device_cap_flags {
	IBV_DEVICE_RESIZE_MAX_WR, IBV_DEVICE_BAD_PKEY_CNTR, IBV_DEVICE_BAD_QKEY_CNTR, IBV_DEVICE_RAW_MULTI,
	IBV_DEVICE_AUTO_PATH_MIG, IBV_DEVICE_CHANGE_PHY_PORT, IBV_DEVICE_UD_AV_PORT_ENFORCE,
	IBV_DEVICE_CURR_QP_STATE_MOD, IBV_DEVICE_SHUTDOWN_PORT, IBV_DEVICE_INIT_TYPE,
	IBV_DEVICE_PORT_ACTIVE_EVENT, IBV_DEVICE_SYS_IMAGE_GUID, IBV_DEVICE_RC_RNR_NAK_GEN,
	IBV_DEVICE_SRQ_RESIZE, IBV_DEVICE_N_NOTIFY_CQ, IBV_DEVICE_MEM_WINDOW, IBV_DEVICE_UD_IP_CSUM,
	IBV_DEVICE_XRC, IBV_DEVICE_MEM_MGT_EXTENSIONS, IBV_DEVICE_MEM_WINDOW_TYPE_2A,
	IBV_DEVICE_MEM_WINDOW_TYPE_2B, IBV_DEVICE_RC_IP_CSUM, IBV_DEVICE_RAW_IP_CSUM,
	IBV_DEVICE_MANAGED_FLOW_STEERING, ...
};
struct ibv_device_attr {
	char fw_ver[];
	__be64 node_guid;
	__be64 sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	unsigned int device_cap_flags;
	int max_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;
	int max_ee_rd_atom;
	int max_res_rd_atom;
	int max_qp_init_rd_atom;
	int max_ee_init_rd_atom;
	enum ibv_atomic_cap atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay;
	uint8_t phys_port_cnt;
	...;
};
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr);

/* ports */
enum ibv_mtu { IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096, ... };
enum ibv_port_state {
	IBV_PORT_NOP, IBV_PORT_DOWN, IBV_PORT_INIT, IBV_PORT_ARMED, IBV_PORT_ACTIVE, IBV_PORT_ACTIVE_DEFER, ...
};
enum { IBV_LINK_LAYER_UNSPECIFIED, IBV_LINK_LAYER_INFINIBAND, IBV_LINK_LAYER_ETHERNET, ... };
enum { IBV_QPF_GRH_REQUIRED, ... };
struct ibv_port_attr {
	enum ibv_port_state state;
	enum ibv_mtu max_mtu;
	enum ibv_mtu active_mtu;
	int gid_tbl_len;
	uint32_t port_cap_flags;
	uint32_t max_msg_sz;
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len;
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num;
	uint8_t sm_sl;
	uint8_t subnet_timeout;
	uint8_t init_type_reply;
	uint8_t active_width;
	uint8_t active_speed;
	uint8_t phys_state;
	uint8_t link_layer;
	uint8_t flags;
	uint16_t port_cap_flags2;
	...;
};
union ibv_gid { uint8_t raw[16]; ...; };
enum ibv_gid_type { IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, ... };
struct ibv_gid_entry {
	union ibv_gid gid; uint32_t gid_index; uint32_t port_num; uint32_t gid_type; uint32_t ndev_ifindex; ...;
};
int rdmaqp_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr);
ssize_t ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max, uint32_t flags);
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);
const char *rdmaqp_provider_file(struct ibv_context *context);

/* memory */
enum ibv_access_flags {
	IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC,
	IBV_ACCESS_MW_BIND, IBV_ACCESS_ZERO_BASED, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_HUGETLB,
	IBV_ACCESS_RELAXED_ORDERING, ...
};
struct ibv_pd { uint32_t handle; ...; };
struct ibv_mr { void *addr; size_t length; uint32_t lkey; uint32_t rkey; ...; };
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
int ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *rdmaqp_reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access);
int ibv_dereg_mr(struct ibv_mr *mr);

/* completions */
enum ibv_wc_status {
	IBV_WC_SUCCESS, IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_EEC_OP_ERR, IBV_WC_LOC_PROT_ERR,
	IBV_WC_WR_FLUSH_ERR, IBV_WC_MW_BIND_ERR, IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_ACCESS_ERR,
	IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR, IBV_WC_RETRY_EXC_ERR,
	IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_LOC_RDD_VIOL_ERR, IBV_WC_REM_INV_RD_REQ_ERR, IBV_WC_REM_ABORT_ERR,
	IBV_WC_INV_EECN_ERR, IBV_WC_INV_EEC_STATE_ERR, IBV_WC_FATAL_ERR, IBV_WC_RESP_TIMEOUT_ERR,
	IBV_WC_GENERAL_ERR, IBV_WC_TM_ERR, IBV_WC_TM_RNDV_INCOMPLETE, ...
};
enum ibv_wc_opcode {
	IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, IBV_WC_BIND_MW,
	IBV_WC_LOCAL_INV, IBV_WC_TSO, IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM, ...
};
struct ibv_comp_channel { int fd; ...; };
struct ibv_cq { int cqe; ...; };
struct ibv_wc {
	uint64_t wr_id; enum ibv_wc_status status; enum ibv_wc_opcode opcode; uint32_t vendor_err;
	uint32_t byte_len; uint32_t qp_num; uint32_t src_qp; unsigned int wc_flags; uint16_t slid;
	union { uint32_t imm_data; uint32_t invalidated_rkey; }; uint8_t sl; uint8_t dlid_path_bits; ...;
};
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector);
int ibv_destroy_cq(struct ibv_cq *cq);
int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
const char *ibv_wc_status_str(enum ibv_wc_status status);
int rdmaqp_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int rdmaqp_take_event(struct ibv_comp_channel *channel, struct ibv_cq **cq);

/* queue pairs */
enum ibv_qp_type {
	IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV,
	IBV_QPT_DRIVER, ...
};
enum ibv_qp_state {
	IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR,
	IBV_QPS_UNKNOWN, ...
};
enum ibv_mig_state { IBV_MIG_MIGRATED, IBV_MIG_REARM, IBV_MIG_ARMED, ... };
enum ibv_qp_attr_mask {
	IBV_QP_STATE, IBV_QP_CUR_STATE, IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX,
	IBV_QP_PORT, IBV_QP_QKEY, IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT,
	IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN, IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_ALT_PATH, IBV_QP_MIN_RNR_TIMER,
	IBV_QP_SQ_PSN, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_PATH_MIG_STATE, IBV_QP_CAP, IBV_QP_DEST_QPN,
	IBV_QP_RATE_LIMIT, ...
};
struct ibv_global_route {
	union ibv_gid dgid; uint32_t flow_label; uint8_t sgid_index; uint8_t hop_limit; uint8_t traffic_class; ...;
};
struct ibv_ah_attr {
	struct ibv_global_route grh; uint16_t dlid; uint8_t sl; uint8_t src_path_bits; uint8_t static_rate;
	uint8_t is_global; uint8_t port_num; ...;
};
struct ibv_qp_cap {
	uint32_t max_send_wr; uint32_t max_recv_wr; uint32_t max_send_sge; uint32_t max_recv_sge;
	uint32_t max_inline_data; ...;
};
struct ibv_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	unsigned int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit;
	...;
};
struct ibv_srq { uint32_t handle; ...; };
struct ibv_srq_attr { uint32_t max_wr; uint32_t max_sge; uint32_t srq_limit; };
struct ibv_srq_init_attr { void *srq_context; struct ibv_srq_attr attr; };
enum ibv_srq_attr_mask { IBV_SRQ_MAX_WR, IBV_SRQ_LIMIT, ... };
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init);
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int ibv_destroy_srq(struct ibv_srq *srq);

struct ibv_qp { uint32_t qp_num; enum ibv_qp_state state; enum ibv_qp_type qp_type; ...; };
struct ibv_qp_init_attr {
	void *qp_context; struct ibv_cq *send_cq; struct ibv_cq *recv_cq; struct ibv_srq *srq;
	struct ibv_qp_cap cap; enum ibv_qp_type qp_type; int sq_sig_all; ...;
};
struct ibv_xrcd { ...; };
struct ibv_xrcd *rdmaqp_open_xrcd(struct ibv_context *context);
int rdmaqp_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_srq *rdmaqp_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
				      struct ibv_srq_init_attr *init);
int rdmaqp_srq_num(struct ibv_srq *srq, uint32_t *number);
void rdmaqp_create_qp(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_qp_init_attr *attr, struct ibv_qp **made);
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init_attr);
int ibv_destroy_qp(struct ibv_qp *qp);
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* what the guard is told before a modify call */
#define RDMAQP_HAS_STATE ...
#define RDMAQP_HAS_PORT ...
#define RDMAQP_HAS_GID ...
#define RDMAQP_HAS_PKEY ...
struct rdmaqp_answers {
	int state; int sq_draining; int pkey;
	struct ibv_port_attr port; struct ibv_gid_entry gid; char netdev[...]; ...;
};
int rdmaqp_ask(struct ibv_qp *qp, uint8_t port_num, int sgid_index, int pkey_index, struct rdmaqp_answers *answers);

struct ibv_ah { uint32_t handle; ...; };
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int ibv_destroy_ah(struct ibv_ah *ah);
struct ibv_grh { union ibv_gid sgid; union ibv_gid dgid; ...; };
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *ah_attr);

/* posting */
enum ibv_send_flags { IBV_SEND_FENCE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_SEND_INLINE, ... };
struct ibv_sge { uint64_t addr; uint32_t length; uint32_t lkey; };
struct ibv_send_wr { uint64_t wr_id; unsigned int send_flags; ...; };
struct ibv_recv_wr { uint64_t wr_id; ...; };
struct ibv_mw { uint32_t rkey; ...; };
enum ibv_mw_type { IBV_MW_TYPE_1, IBV_MW_TYPE_2, ... };
struct ibv_mw *rdmaqp_alloc_mw(struct ibv_pd *pd, int type);
int rdmaqp_dealloc_mw(struct ibv_mw *mw);
uint32_t rdmaqp_inc_rkey(uint32_t rkey);

/* events */
enum ibv_event_type {
	IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_COMM_EST,
	IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_DEVICE_FATAL,
	IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE, IBV_EVENT_SM_CHANGE,
	IBV_EVENT_SRQ_ERR, IBV_EVENT_SRQ_LIMIT_REACHED, IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_CLIENT_REREGISTER,
	IBV_EVENT_GID_CHANGE, IBV_EVENT_WQ_FATAL, ...
};
int rdmaqp_next_event(struct ibv_context *context, int64_t slice_ns, struct rdmaqp_event *found, const char **verb);

const char *rdmaqp_version(void);
