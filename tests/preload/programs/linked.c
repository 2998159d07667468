/*
 * Linked with libibverbs. How queue pairs are brought up, by the first argument: once, fork, clone (a fork that no
 * handler hears of), exec, closes (first all descriptors that it does not know), threads N, loop N (one call many times,
 * with how long each took), slowly N (one for each line of input), wait, signal N and status N (how it ends).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "one_up.h"

static const struct verbs linked = {
	ibv_get_device_list, ibv_open_device, ibv_alloc_pd, ibv_create_cq, ibv_create_qp, ibv_modify_qp, ibv_destroy_qp,
};

static int status_of(pid_t child)
{
	int status = 0;

	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void *thread(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)one_up(&linked);
}

static int threads(int count)
{
	pthread_t all[256];
	void *error;
	int i, failed = 0;

	for (i = 0; i < count; i++)
		pthread_create(&all[i], NULL, thread, NULL);
	for (i = 0; i < count; i++) {
		pthread_join(all[i], &error);
		failed |= error != NULL;
	}
	return failed;
}

/* Nanoseconds a call, of ibv_modify_qp INIT -> INIT. */
static int loop(int count)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, i, error = 0;
	struct ibv_qp *qp = new_qp(&linked);
	struct timespec from, to;

	for (i = 0; i < count && !error; i++) {
		clock_gettime(CLOCK_MONOTONIC, &from);
		error = ibv_modify_qp(qp, &attr, mask);
		clock_gettime(CLOCK_MONOTONIC, &to);
		printf("%lld\n", (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec);
	}
	return error;
}

/* Each error number of "count" queue pairs' ways up, with a word on standard output between: to be interrupted. */
static int slowly(int count)
{
	int i, error = 0;

	for (i = 0; i < count && !error; i++) {
		error = one_up(&linked);
		printf("up %d\n", error);
		fflush(stdout);
		getchar();
	}
	return error;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "once";
	int number = argc > 2 ? atoi(argv[2]) : 0;
	pid_t child;

	if (!strcmp(how, "fork") || !strcmp(how, "clone")) {
		if (one_up(&linked))
			return 1;
		child = how[0] == 'f' ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (!child)
			_exit(one_up(&linked));
		return status_of(child) | one_up(&linked);
	}
	if (!strcmp(how, "exec")) {
		if (one_up(&linked))
			return 1;
		execl(argv[0], argv[0], "once", NULL);
	}
	if (!strcmp(how, "closes")) {
		int error = one_up(&linked);

		close_range(3, ~0U, 0);
		dup2(1, 1000); /* what stands there now is not the shim's */
		return error | one_up(&linked);
	}
	if (!strcmp(how, "threads"))
		return threads(number);
	if (!strcmp(how, "loop"))
		return loop(number);
	if (!strcmp(how, "slowly"))
		return slowly(number);
	if (!strcmp(how, "signal") && !one_up(&linked))
		raise(number);
	if (!strcmp(how, "wait") && !one_up(&linked)) {
		puts("waiting");
		fflush(stdout);
		pause();
	}
	if (!strcmp(how, "status"))
		return one_up(&linked) ? 1 : number;
	return one_up(&linked);
}
