/*
 * Records: whether what one says may be posted, by comparing integers, and the work request that it makes.
 */

/* Where a key reaches: length 0, nowhere. */
struct reach {
	uint32_t lkey;
	int writable;
	uint64_t start;
	uint64_t length;
};

static struct reach reach_of(const struct rdmaqp_domain *domain, uint32_t lkey)
{
	const struct rdmaqp_region *region = region_of(domain, lkey);

	if (!region)
		return (struct reach){ .length = 0 };
	return (struct reach){ .lkey = lkey, .writable = !!(region->access & IBV_ACCESS_LOCAL_WRITE),
			       .start = region->access & IBV_ACCESS_ZERO_BASED ? 0 : region->addr,
			       .length = region->length };
}

/*
 * Whether a piece of memory is the domain's, and may be written to where it will be. *last is where the key before
 * reaches, which is often the next one too.
 */
static inline int reaches(const struct rdmaqp_domain *domain, uint64_t addr, uint32_t length, uint32_t lkey, int writes,
			  struct reach *last)
{
	if (!length)
		return 1;
	if (!last->length || last->lkey != lkey)
		*last = reach_of(domain, lkey);
	return length <= last->length && addr - last->start <= last->length - length && addr >= last->start &&
	       (last->writable || !writes);
}

#define ATOMICS (1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD)
#define WRITES_HERE (ATOMICS | 1u << IBV_WR_RDMA_READ)
#define INLINES (1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM | 1u << IBV_WR_RDMA_WRITE | \
		 1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_SEND_WITH_INV)
#define NO_RECORDS (1u << IBV_WR_BIND_MW | 1u << IBV_WR_TSO) /* they have pointers, which a record has not */

static uint32_t opcode_bit(const struct rdmaqp_send_record *record)
{
	return record->opcode < 32 ? 1u << record->opcode : 0;
}

static inline int record_fits(const struct rdmaqp_qp *qp, const struct rdmaqp_send_record *record, struct reach *last)
{
	uint32_t bit = opcode_bit(record);

	if (!(qp->opcodes & bit & ~NO_RECORDS) || (record->length && !qp->max_send_sge))
		return 0;
	if (bit & ATOMICS && record->length != 8)
		return 0;
	if (record->send_flags & IBV_SEND_INLINE)
		return bit & INLINES && record->length <= qp->max_inline_data;
	return reaches(qp->domain, record->addr, record->length, record->lkey, !!(bit & WRITES_HERE), last);
}

/* A send request of one piece, from its record: what all types of queue pair have in common. */
static inline void make_common(const struct rdmaqp_send_record *record, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){ .addr = record->addr, .length = record->length, .lkey = record->lkey };
	wr->wr_id = record->wr_id;
	wr->sg_list = sge;
	wr->num_sge = record->length ? 1 : 0;
	wr->opcode = record->opcode;
	wr->send_flags = record->send_flags;
	wr->imm_data = htobe32(record->imm_data);
	wr->wr.rdma.remote_addr = record->remote_addr;
	wr->wr.rdma.rkey = record->rkey;
}

/* What only some of them have: 0, or RDMAQP_NO_AH. */
static int make_special(const struct rdmaqp_qp *qp, const struct rdmaqp_send_record *record, struct ibv_send_wr *wr)
{
	if (qp->extended)
		wr->qp_type.xrc.remote_srqn = record->remote_srqn;
	if (qp->datagram) {
		wr->wr.ud.ah = handle_of(qp->domain, record->ah);
		wr->wr.ud.remote_qpn = record->remote_qpn;
		wr->wr.ud.remote_qkey = record->remote_qkey;
		return wr->wr.ud.ah ? 0 : RDMAQP_NO_AH;
	}
	if (record->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || record->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = record->remote_addr;
		wr->wr.atomic.compare_add = record->compare_add;
		wr->wr.atomic.swap = record->swap;
		wr->wr.atomic.rkey = record->rkey;
	} else if (record->opcode == IBV_WR_LOCAL_INV || record->opcode == IBV_WR_SEND_WITH_INV) {
		wr->invalidate_rkey = record->rkey;
	}
	return 0;
}

#define PLAIN (1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM | 1u << IBV_WR_RDMA_WRITE | \
	       1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_RDMA_READ)

static inline int make_send(const struct rdmaqp_qp *qp, uint32_t plain, const struct rdmaqp_send_record *record,
			    struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	make_common(record, wr, sge);
	return record->opcode < 32 && plain & 1u << record->opcode ? 0 : make_special(qp, record, wr);
}

/* Which opcodes make_common() makes whole, on that queue pair. */
static uint32_t plain_on(const struct rdmaqp_qp *qp)
{
	return qp->datagram || qp->extended ? 0 : PLAIN;
}
