/* Queue pairs by the hundred, as Python calls it. Its structs are in many.h. */
void rdmaqp_make_many(struct rdmaqp_making *making, int64_t slice_ns);
void rdmaqp_follow(struct rdmaqp_way *way, struct rdmaqp_qp *qps, struct rdmaqp_follower *followers, uint32_t count,
		   int64_t slice_ns);
int rdmaqp_end_many(struct rdmaqp_qp *qps, uint32_t count, uint32_t *at);
void rdmaqp_bar_many(struct rdmaqp_qp *qps, uint32_t count);
int64_t rdmaqp_find_many(const struct rdmaqp_qp *qps, uint32_t count, uintptr_t address);
