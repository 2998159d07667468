/*
 * The parts of the preloaded library. It is loaded into every process of the watched program, so: it is linked with
 * nothing but libc, it allocates nothing, it writes to no descriptor but its own socket, and whatever goes wrong here
 * ends in the native call being made as if it were not there.
 */
#ifndef RDMAQP_SHIM_H
#define RDMAQP_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "record.h"

/* real.c: the functions of the libibverbs that the program uses. */
struct real {
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*destroy_qp)(struct ibv_qp *);
	/* libibverbs' own, where the two above may be another preloaded library's, which ends here again. */
	int (*own_modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*own_destroy_qp)(struct ibv_qp *);
	int (*query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
	int (*query_device)(struct ibv_context *, struct ibv_device_attr *);
	int (*query_port)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *);
	int (*query_pkey)(struct ibv_context *, uint8_t, int, __be16 *);
	int (*query_gid)(struct ibv_context *, uint8_t, int, union ibv_gid *);
	ssize_t (*query_gid_table)(struct ibv_context *, struct ibv_gid_entry *, size_t, uint32_t, size_t);
	const char *(*get_device_name)(struct ibv_device *);
};
const struct real *real(void);

/* asking.c: what the guard has to know of a call. Not reentrant: the caller holds the line's lock. */
struct message {
	struct rdmaqp_call call;
	struct rdmaqp_gid gids[RDMAQP_GIDS_AT_MOST];
};
const struct message *ask(const struct real *verbs, struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask,
			  const void *caller);
uint32_t state_of(const struct real *verbs, struct ibv_qp *qp);

/* line.c: the socket to rdmaqp's process. */
bool line_take(void);	 /* lock it; false, and not locked, where nobody listens any more */
void line_release(void);
uint32_t line_next(void);
void line_head(struct rdmaqp_head *head, enum rdmaqp_kind kind, uint32_t number);
bool line_send(const void *record, size_t size);
bool line_netdev(uint32_t index, char *name); /* of the net device, in IF_NAMESIZE bytes, by asking the line */
bool line_is_refused(uint32_t number); /* wait for the verdict; false too where none comes in time */

#endif
