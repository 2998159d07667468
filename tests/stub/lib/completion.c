/* Completion channels and completion queues. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "stub.h"

struct channel {
	struct ibv_comp_channel ibv;
	int number;
	int write_fd;
};

static struct registry channels, queues;

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct entry entry = control_call("ibv_create_comp_channel");
	struct channel *channel = NULL;
	int ends[2];

	if (!fails("CREATE_COMP_CHANNEL"))
		channel = calloc(1, sizeof(*channel));
	if (!channel || pipe2(ends, O_CLOEXEC)) {
		free(channel);
		entry_result(&entry, errno);
		return NULL;
	}
	/* Only our end: whether the reader's blocks is the program's choice. */
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	channel->ibv.context = context;
	channel->ibv.fd = ends[0];
	channel->write_fd = ends[1];
	pthread_mutex_lock(&stub_lock);
	channel->number = registry_add(&channels, channel);
	object_born(context);
	pthread_mutex_unlock(&stub_lock);
	entry_object(&entry, "channel", channel->number);
	entry_result(&entry, 0);
	return &channel->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct entry entry = control_call("ibv_destroy_comp_channel");
	struct channel *channel = container_of(ibv, struct channel, ibv);
	int error = fault("DESTROY_COMP_CHANNEL");

	entry_object(&entry, "channel", channel->number);
	pthread_mutex_lock(&stub_lock);
	if (!error && ibv->refcnt)
		error = EBUSY;
	if (!error) {
		registry_remove(&channels, channel->number);
		object_died(ibv->context);
		close(ibv->fd);
		close(channel->write_fd);
		free(channel);
	}
	pthread_mutex_unlock(&stub_lock);
	return entry_result(&entry, error);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct entry entry = control_call("ibv_create_cq");
	struct completion_queue *queue = NULL;

	entry_number(&entry, "cqe", cqe);
	entry_number(&entry, "comp_vector", comp_vector);
	if (cqe < 1)
		errno = EINVAL; /* there has to be a ring */
	else if (!fails("CREATE_CQ"))
		queue = calloc(1, sizeof(*queue));
	if (queue)
		queue->ring = calloc(cqe, sizeof(*queue->ring));
	if (queue && to_context(context)->is_free)
		queue->free_ring = calloc(FREE_RING, sizeof(*queue->free_ring));
	if (!queue || !queue->ring || (to_context(context)->is_free && !queue->free_ring)) {
		free(queue);
		entry_result(&entry, errno);
		return NULL;
	}
	queue->ibv.context = context;
	queue->ibv.channel = channel;
	queue->ibv.cq_context = cq_context;
	queue->ibv.cqe = cqe;
	pthread_mutex_init(&queue->ibv.mutex, NULL);
	pthread_cond_init(&queue->ibv.cond, NULL);
	pthread_mutex_lock(&stub_lock);
	queue->number = registry_add(&queues, queue);
	object_born(context);
	if (channel)
		channel->refcnt++;
	pthread_mutex_unlock(&stub_lock);
	queue->ibv.handle = queue->number;
	entry_object(&entry, "cq", queue->number);
	entry_result(&entry, 0);
	return &queue->ibv;
}

/* The real library waits here for ever for events not acknowledged; the null device tells how many there were. */
int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct entry entry = control_call("ibv_destroy_cq");
	struct completion_queue *queue = container_of(cq, struct completion_queue, ibv);
	int error = fault("DESTROY_CQ");

	entry_object(&entry, "cq", queue->number);
	entry_number(&entry, "unacknowledged", queue->delivered - cq->comp_events_completed);
	pthread_mutex_lock(&stub_lock);
	if (!error && queue->users)
		error = EBUSY;
	if (!error) {
		registry_remove(&queues, queue->number);
		object_died(cq->context);
		if (cq->channel)
			cq->channel->refcnt--;
		free(queue->ring);
		free(queue->free_ring);
		free(queue);
	}
	pthread_mutex_unlock(&stub_lock);
	return entry_result(&entry, error);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct completion_queue *queue = NULL;
	int number;

	if (hot.get_cq_event_errno) {
		errno = abs(hot.get_cq_event_errno);
		return -1;
	}
	/* An event of a queue destroyed meanwhile is none. */
	while (!queue) {
		if (read(channel->fd, &number, sizeof(number)) != sizeof(number))
			return -1;
		pthread_mutex_lock(&stub_lock);
		queue = registry_get(&queues, number);
		if (queue)
			queue->delivered++;
		pthread_mutex_unlock(&stub_lock);
	}
	*cq = &queue->ibv;
	*cq_context = queue->ibv.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&stub_lock);
	cq->comp_events_completed += nevents;
	pthread_mutex_unlock(&stub_lock);
}

/* The caller of the next four holds stub_lock. */

bool cq_full(const struct ibv_cq *cq)
{
	return container_of(cq, struct completion_queue, ibv)->count == cq->cqe;
}

void cq_push(struct ibv_cq *cq, const struct ibv_wc *wc, bool solicited)
{
	struct completion_queue *queue = container_of(cq, struct completion_queue, ibv);
	int tail = queue->head + queue->count;

	queue->ring[tail < cq->cqe ? tail : tail - cq->cqe] = *wc;
	queue->count++;
	if (queue->armed == NOT_ARMED || (queue->armed == ARMED_SOLICITED && !solicited && !wc->status))
		return;
	queue->armed = NOT_ARMED;
	/* The pipe holds thousands; more are lost, as nobody seems to read. */
	if (cq->channel &&
	    write(container_of(cq->channel, struct channel, ibv)->write_fd, &queue->number, sizeof(queue->number)) < 0)
		return;
}

void cq_use(struct ibv_cq *cq, int change)
{
	container_of(cq, struct completion_queue, ibv)->users += change;
}

int cq_number(const struct ibv_cq *cq)
{
	return cq ? container_of(cq, struct completion_queue, ibv)->number : 0;
}

int poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	struct completion_queue *queue = container_of(cq, struct completion_queue, ibv);
	int n;

	if (hot.poll_cq_errno)
		return hot.poll_cq_errno;
	pthread_mutex_lock(&stub_lock);
	to_context(cq->context)->polls++;
	for (n = 0; n < num_entries && queue->count && !hot.hide; n++) {
		wc[n] = queue->ring[queue->head++];
		if (queue->head == cq->cqe)
			queue->head = 0;
		queue->count--;
	}
	pthread_mutex_unlock(&stub_lock);
	return n;
}

int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	if (hot.req_notify_cq_errno)
		return hot.req_notify_cq_errno;
	pthread_mutex_lock(&stub_lock);
	container_of(cq, struct completion_queue, ibv)->armed = solicited_only ? ARMED_SOLICITED : ARMED;
	pthread_mutex_unlock(&stub_lock);
	return 0;
}
