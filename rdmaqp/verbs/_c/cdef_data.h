/* The data path as Python calls it. Its structs are in data_path.h. */
void rdmaqp_set_closed(struct rdmaqp_lock *lock, int closed);

int rdmaqp_add_region(struct rdmaqp_domain *domain, uint64_t addr, uint64_t length, uint32_t lkey, uint32_t access);
void rdmaqp_drop_region(struct rdmaqp_domain *domain, uint32_t lkey);
uint32_t rdmaqp_add_handle(struct rdmaqp_domain *domain, struct ibv_ah *ah);
void rdmaqp_drop_handle(struct rdmaqp_domain *domain, uint32_t number);
void rdmaqp_window_ended(struct rdmaqp_domain *domain);
void rdmaqp_end_domain(struct rdmaqp_domain *domain);

void rdmaqp_forget_work(struct rdmaqp_qp *qp);
int rdmaqp_add_pair(struct rdmaqp_cq *cq, struct rdmaqp_qp *qp);
void rdmaqp_end_cq(struct rdmaqp_cq *cq);
int rdmaqp_poll(struct rdmaqp_cq *cq, int num_entries, struct ibv_wc *wc);
int rdmaqp_wait(struct rdmaqp_cq *cq, int num_entries, struct ibv_wc *wc, int64_t slice_ns, const char **verb);
int rdmaqp_take(struct rdmaqp_cq *cq, uint32_t qp_num, int kinds, int num_entries, struct ibv_wc *wc,
		int64_t slice_ns, const char **verb);

int rdmaqp_post_sends(struct rdmaqp_qp *qp, const struct rdmaqp_send_record *records, uint32_t n, int checked);
int rdmaqp_ring_doorbell(struct rdmaqp_qp *qp);
int rdmaqp_post_recvs(struct rdmaqp_qp *qp, const struct rdmaqp_recv_record *records, uint32_t n, int checked);
int rdmaqp_post_srq_recvs(struct rdmaqp_srq *srq, const struct rdmaqp_recv_record *records, uint32_t n, int checked);
int rdmaqp_chain_send(struct rdmaqp_chain *chain, uint32_t at, const struct rdmaqp_send_record *record,
		      struct ibv_sge *sges, uint32_t count);
void rdmaqp_chain_bind(struct rdmaqp_chain *chain, uint32_t at, struct ibv_mw *mw, uint32_t rkey,
		       struct ibv_mr *mr, uint64_t addr, uint64_t length, unsigned int access);
void rdmaqp_chain_recv(struct rdmaqp_chain *chain, uint32_t at, uint64_t wr_id, struct ibv_sge *sges,
		       uint32_t count);
int rdmaqp_post_chain(struct rdmaqp_chain *chain);
int rdmaqp_run_chain(struct rdmaqp_chain *chain);

#define RDMAQP_ENDS ...
int rdmaqp_fill_sink(struct rdmaqp_sink *sink, int checked);
int rdmaqp_transfer(struct rdmaqp_stream **streams, uint32_t stream_count, struct rdmaqp_sink **sinks,
		    uint32_t sink_count, int64_t slice_ns, int checked);

/* the ping-pong loop */
int rdmaqp_end_post_receives(struct rdmaqp_end *end);
int rdmaqp_pingpong_run(struct rdmaqp_end *a, struct rdmaqp_end *b, int64_t slice_ns);

