/* Posted receives: a ring, which a queue pair has for itself or shares. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

static struct registry shared_queues;

int receive_queue_init(struct receive_queue *queue, uint32_t size, uint32_t max_sge)
{
	uint32_t i;

	memset(queue, 0, sizeof(*queue));
	/* calloc(0) may answer NULL, which here means no memory. */
	queue->ring = calloc(size + 1, sizeof(*queue->ring));
	queue->sges = calloc((size_t)size * max_sge + 1, sizeof(*queue->sges));
	if (!queue->ring || !queue->sges) {
		receive_queue_free(queue);
		return ENOMEM;
	}
	queue->size = size;
	queue->max_sge = max_sge;
	for (i = 0; i < size; i++)
		queue->ring[i].sg_list = queue->sges + (size_t)i * max_sge;
	return 0;
}

void receive_queue_free(struct receive_queue *queue)
{
	free(queue->ring);
	free(queue->sges);
}

/* What is popped stays valid until the next post. The caller holds stub_lock, here and below. */
const struct receive *receive_queue_pop(struct receive_queue *queue)
{
	const struct receive *receive = queue->ring + queue->head;

	if (!queue->count)
		return NULL;
	queue->count--;
	if (++queue->head == queue->size)
		queue->head = 0;
	return receive;
}

static int post_one(struct receive_queue *queue, const struct ibv_recv_wr *wr)
{
	struct receive *receive;

	if (hot.post_recv_errno)
		return hot.post_recv_errno;
	if (wr->num_sge < 0 || wr->num_sge > queue->max_sge)
		return EINVAL;
	if (queue->count == queue->size)
		return ENOMEM;
	receive = queue->ring + (queue->head + queue->count++) % queue->size;
	receive->wr_id = wr->wr_id;
	receive->num_sge = wr->num_sge;
	if (wr->num_sge)
		memcpy(receive->sg_list, wr->sg_list, wr->num_sge * sizeof(*wr->sg_list));
	return 0;
}

int receive_queue_post(struct receive_queue *queue, struct context *context, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad)
{
	int error;

	for (; wr; wr = wr->next) {
		error = post_one(queue, wr);
		if (error) {
			*bad = wr;
			return error;
		}
		context->receives++;
	}
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct entry entry = control_call("ibv_create_srq");
	struct shared_receive_queue *shared = NULL;

	entry_number(&entry, "max_wr", init->attr.max_wr);
	entry_number(&entry, "max_sge", init->attr.max_sge);
	if (!fails("CREATE_SRQ"))
		shared = calloc(1, sizeof(*shared));
	if (!shared || receive_queue_init(&shared->queue, init->attr.max_wr, init->attr.max_sge)) {
		free(shared);
		entry_result(&entry, errno);
		return NULL;
	}
	shared->ibv.context = pd->context;
	shared->ibv.srq_context = init->srq_context;
	shared->ibv.pd = pd;
	pthread_mutex_init(&shared->ibv.mutex, NULL);
	pthread_cond_init(&shared->ibv.cond, NULL);
	pthread_mutex_lock(&stub_lock);
	shared->number = registry_add(&shared_queues, shared);
	object_born(pd->context);
	domain_use(pd, 1);
	pthread_mutex_unlock(&stub_lock);
	shared->ibv.handle = shared->number;
	entry_object(&entry, "srq", shared->number);
	entry_result(&entry, 0);
	return &shared->ibv;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct entry entry = control_call("ibv_destroy_srq");
	struct shared_receive_queue *shared = container_of(srq, struct shared_receive_queue, ibv);
	int error = fault("DESTROY_SRQ");

	entry_object(&entry, "srq", shared->number);
	pthread_mutex_lock(&stub_lock);
	if (!error && shared->users)
		error = EBUSY;
	if (!error) {
		registry_remove(&shared_queues, shared->number);
		domain_use(srq->pd, -1);
		object_died(srq->context);
		receive_queue_free(&shared->queue);
		free(shared);
	}
	pthread_mutex_unlock(&stub_lock);
	return entry_result(&entry, error);
}

int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int error;

	pthread_mutex_lock(&stub_lock);
	error = receive_queue_post(&container_of(srq, struct shared_receive_queue, ibv)->queue,
				   to_context(srq->context), wr, bad);
	pthread_mutex_unlock(&stub_lock);
	return error;
}

/* The caller holds stub_lock. */
const struct receive *shared_queue_pop(struct ibv_srq *srq)
{
	struct shared_receive_queue *shared = container_of(srq, struct shared_receive_queue, ibv);
	const struct receive *receive = receive_queue_pop(&shared->queue);

	if ((uint32_t)shared->queue.count < shared->limit) {
		shared->limit = 0;
		async_event(srq->context, (struct ibv_async_event){
			.element.srq = srq, .event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
		});
	}
	return receive;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct entry entry = control_call("ibv_modify_srq");
	int error = fault("MODIFY_SRQ");

	entry_object(&entry, "srq", srq_number(srq));
	entry_number(&entry, "mask", mask);
	entry_number(&entry, "srq_limit", attr->srq_limit);
	if (!error && mask & IBV_SRQ_LIMIT)
		container_of(srq, struct shared_receive_queue, ibv)->limit = attr->srq_limit;
	return entry_result(&entry, error);
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct entry entry = control_call("ibv_query_srq");
	const struct shared_receive_queue *shared = container_of(srq, struct shared_receive_queue, ibv);
	int error = fault("QUERY_SRQ");

	entry_object(&entry, "srq", shared->number);
	*attr = (struct ibv_srq_attr){
		.max_wr = shared->queue.size, .max_sge = shared->queue.max_sge, .srq_limit = shared->limit,
	};
	return entry_result(&entry, error);
}

void srq_use(struct ibv_srq *srq, int change)
{
	container_of(srq, struct shared_receive_queue, ibv)->users += change;
}

int srq_number(const struct ibv_srq *srq)
{
	return srq ? container_of(srq, struct shared_receive_queue, ibv)->number : 0;
}
