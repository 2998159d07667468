/* XRC, where the setting XRC offers it: made, and recorded. Nothing is delivered through it. */
#include <errno.h>
#include <stdlib.h>

#include "stub.h"

static struct registry domains;

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *init)
{
	struct entry entry = control_call("ibv_open_xrcd");
	struct xrc_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		abort();
	entry_number(&entry, "comp_mask", init->comp_mask);
	entry_number(&entry, "fd", init->fd);
	entry_number(&entry, "oflags", init->oflags);
	domain->ibv.context = context;
	pthread_mutex_lock(&stub_lock);
	domain->number = registry_add(&domains, domain);
	object_born(context);
	pthread_mutex_unlock(&stub_lock);
	entry_object(&entry, "xrcd", domain->number);
	entry_result(&entry, 0);
	return &domain->ibv;
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	struct entry entry = control_call("ibv_close_xrcd");
	struct xrc_domain *domain = container_of(xrcd, struct xrc_domain, ibv);

	entry_object(&entry, "xrcd", domain->number);
	pthread_mutex_lock(&stub_lock);
	registry_remove(&domains, domain->number);
	object_died(xrcd->context);
	pthread_mutex_unlock(&stub_lock);
	free(domain);
	return entry_result(&entry, 0);
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init)
{
	struct entry entry = control_call("ibv_create_srq_ex");
	struct ibv_srq_init_attr narrow = { .attr = init->attr };

	(void)context;
	entry_number(&entry, "comp_mask", init->comp_mask);
	entry_number(&entry, "srq_type", init->srq_type);
	entry_number(&entry, "xrcd", container_of(init->xrcd, struct xrc_domain, ibv)->number);
	entry_number(&entry, "cq", cq_number(init->cq));
	entry_result(&entry, 0);
	return ibv_create_srq(init->pd, &narrow);
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	*number = 0x700 + srq_number(srq);
	return 0;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
	struct entry entry = control_call("ibv_create_qp_ex");

	entry_number(&entry, "comp_mask", init->comp_mask);
	entry_number(&entry, "xrcd", container_of(init->xrcd, struct xrc_domain, ibv)->number);
	entry_result(&entry, 0);
	return make_queue_pair(context, NULL, (struct ibv_qp_init_attr *)init); /* which is how it begins */
}

void offer_xrc(struct verbs_context *verbs)
{
	verbs->open_xrcd = open_xrcd;
	verbs->close_xrcd = close_xrcd;
	verbs->create_srq_ex = create_srq_ex;
	verbs->get_srq_num = get_srq_num;
	verbs->create_qp_ex = create_qp_ex;
}
