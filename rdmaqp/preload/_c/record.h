/*
 * What goes over the socket between a watched program and rdmaqp's process: one record a message. Both are on one
 * machine, so numbers are in its own order. rdmaqp/preload/wire.py has the same fields in the same order; a HELLO says
 * how long the records are here, so that a stale build is noticed.
 *
 * Every field is aligned by itself: nothing depends on the compiler's padding.
 */
#ifndef RDMAQP_RECORD_H
#define RDMAQP_RECORD_H

#include <stdint.h>

enum rdmaqp_kind {
	RDMAQP_HELLO = 1, /* a process has loaded the shim, or is going to talk on this connection */
	RDMAQP_CALL,	  /* ibv_modify_qp is about to be called; a verdict is waited for */
	RDMAQP_RESULT,	  /* it has returned */
	RDMAQP_DESTROY,	  /* ibv_destroy_qp has returned */
};

/* Which of a call's answers there are. */
enum rdmaqp_answer {
	RDMAQP_HAS_STATE = 1 << 0,
	RDMAQP_HAS_DEVICE = 1 << 1,
	RDMAQP_HAS_PORT = 1 << 2,
	RDMAQP_HAS_GIDS = 1 << 3, /* all of the port's GID table that is in use */
	RDMAQP_HAS_PKEY = 1 << 4,
};

enum { RDMAQP_GIDS_AT_MOST = 256 };

struct rdmaqp_head {
	uint32_t kind;
	int32_t pid;
	int32_t tid;
	uint32_t number; /* of the call, in its process; a result has its call's */
	int64_t time_ns; /* since the epoch */
};

struct rdmaqp_hello {
	struct rdmaqp_head head;
	uint32_t call_size;
	uint32_t gid_size;
	uint32_t stays; /* whether calls follow on this connection */
	char program[68];
};

struct rdmaqp_vector {
	uint32_t is_global, dlid, sl, src_path_bits, static_rate, port_num;
	uint32_t sgid_index, flow_label, hop_limit, traffic_class;
	uint8_t dgid[16];
};

/* The fields that the mask names; all others are 0, for the program need not have set them. */
struct rdmaqp_attr {
	uint32_t qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags;
	uint32_t pkey_index, alt_pkey_index, en_sqd_async_notify, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer;
	uint32_t port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit;
	struct rdmaqp_vector ah_attr, alt_ah_attr;
};

struct rdmaqp_call {
	struct rdmaqp_head head;
	uint64_t qp;	      /* its address: what is its name until it is destroyed */
	uint64_t caller;      /* where ibv_modify_qp returns to */
	uint64_t module_base; /* where the caller's file is loaded */
	uint64_t symbol_at;   /* the nearest dynamic symbol before the caller, or 0 */
	uint32_t qp_num, qp_type, mask;
	uint32_t state, cached_state, sq_draining, has_srq;
	uint32_t answers;
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
	int32_t transport;
	uint32_t phys_port_cnt, max_qp, max_qp_wr, max_sge, max_qp_rd_atom, max_qp_init_rd_atom, max_res_rd_atom;
	uint32_t atomic_cap, device_cap_flags;
	uint32_t port_num, port_state, link_layer, active_mtu, max_mtu, lid, lmc, gid_tbl_len, pkey_tbl_len;
	uint32_t grh_required;
	uint32_t pkey_index, pkey;
	uint32_t gid_count;
	struct rdmaqp_attr attr;
	char device[64], provider[64], module[256], symbol[128];
};

#define RDMAQP_NOT_ASKED "/" /* no net device has such a name */

/* So many as gid_count says stand behind a call. */
struct rdmaqp_gid {
	uint8_t gid[16];
	uint32_t index, type, ifindex;
	char netdev[16]; /* "" where there is none in the program's network namespace; or RDMAQP_NOT_ASKED */
};

struct rdmaqp_result {
	struct rdmaqp_head head;
	uint64_t qp;
	int64_t took_ns;
	int32_t error;	/* positive; 0 is success */
	uint32_t state; /* asked again where it failed, else 255 */
};

struct rdmaqp_destroy {
	struct rdmaqp_head head;
	uint64_t qp;
	uint32_t qp_num;
	int32_t error;
};

/* The way back. */
struct rdmaqp_verdict {
	uint32_t number;
	uint32_t refused; /* the native call must not be made */
};

#endif
