/*
 * What a watched program calls instead of libibverbs' ibv_modify_qp and ibv_destroy_qp.
 *
 * Two ways lead here, and both are needed (tests/preload/test_reached.py measures each):
 *  - LD_PRELOAD. This library stands before libibverbs in the search order, so it is found by every program and library
 *    that was linked with it, those loaded later with local scope among them (Python's extensions). It costs nothing
 *    after the first call, and works with every loader. It misses who asks a handle: dlsym(dlopen("libibverbs.so.1"),
 *    "ibv_modify_qp"), as NCCL and others do, and who is loaded with RTLD_DEEPBIND.
 *  - LD_AUDIT (audit.c). The loader asks an auditor at each binding, look-ups by dlsym and dlvsym on any handle
 *    included, and it leads those here. Alone it would miss those who take the function's address or are compiled with
 *    -fno-plt, as Rust's programs are: the loader fills in addresses without asking. And before glibc 2.35 it is not
 *    asked for programs that bind at once (-z now), and makes every call slow: there, LD_PRELOAD is all. An auditor is
 *    kept in a namespace with its own libc, so what is carried lives here, in the program's, and the auditor only points.
 * Who is loaded with RTLD_DEEPBIND and takes the address is reached by neither.
 */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <time.h>

#define PUBLIC __attribute__((visibility("default")))

/* Whether this thread is in here already: what libibverbs and its drivers call by themselves is not the program's. */
static __thread bool is_inside __attribute__((tls_model("initial-exec")));

static int64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Before the call: the number under which its result is told, 0 where nobody listens; and whether it is refused. */
static uint32_t tell_call(const struct real *verbs, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			  const void *caller, bool *refused)
{
	struct message *message;
	uint32_t number = 0;
	size_t size;

	if (!line_take())
		return 0;
	message = (struct message *)ask(verbs, qp, attr, mask, caller);
	number = line_next();
	line_head(&message->call.head, RDMAQP_CALL, number);
	size = sizeof(message->call) + message->call.gid_count * sizeof(message->gids[0]);
	if (line_send(message, size))
		*refused = line_is_refused(number);
	line_release();
	return number;
}

static void tell_result(const struct real *verbs, struct ibv_qp *qp, uint32_t number, int error, int64_t took_ns)
{
	struct rdmaqp_result result = {
		.qp = (uintptr_t)qp, .took_ns = took_ns, .error = error < 0 ? -error : error, .state = 255,
	};

	if (error)
		result.state = state_of(verbs, qp);
	if (!line_take())
		return;
	line_head(&result.head, RDMAQP_RESULT, number);
	line_send(&result, sizeof(result));
	line_release();
}

PUBLIC int rdmaqp_preload_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	const struct real *verbs = real();
	int saved = errno, error;
	bool refused = false;
	uint32_t number;
	int64_t start;

	if (!verbs->modify_qp)
		return ENOSYS; /* we were called in the place of nothing */
	if (is_inside)
		return verbs->own_modify_qp(qp, attr, mask);
	is_inside = true;
	number = tell_call(verbs, qp, attr, mask, __builtin_return_address(0), &refused);
	if (refused) {
		is_inside = false;
		errno = EINVAL;
		return EINVAL;
	}
	errno = saved;
	start = clock_ns();
	error = verbs->modify_qp(qp, attr, mask);
	saved = errno;
	if (number)
		tell_result(verbs, qp, number, error, clock_ns() - start);
	is_inside = false;
	errno = saved;
	return error;
}

static void tell_destroy(const struct ibv_qp *qp, uint32_t qp_num, int error)
{
	struct rdmaqp_destroy record = { .qp = (uintptr_t)qp, .qp_num = qp_num, .error = error };

	if (!line_take())
		return;
	line_head(&record.head, RDMAQP_DESTROY, 0);
	line_send(&record, sizeof(record));
	line_release();
}

/*
 * Told before the call, while nobody else can be given the same address, and once more where it fails. The line is not
 * held meanwhile: ibv_destroy_qp() waits for events that another thread may have to acknowledge first.
 */
PUBLIC int rdmaqp_preload_destroy_qp(struct ibv_qp *qp)
{
	const struct real *verbs = real();
	uint32_t qp_num;
	int saved = errno, error;

	if (!verbs->destroy_qp)
		return ENOSYS;
	if (is_inside)
		return verbs->own_destroy_qp(qp);
	is_inside = true;
	qp_num = qp->qp_num;
	tell_destroy(qp, qp_num, 0);
	errno = saved;
	error = verbs->destroy_qp(qp);
	saved = errno;
	if (error)
		tell_destroy(qp, qp_num, error < 0 ? -error : error);
	is_inside = false;
	errno = saved;
	return error;
}

/* The names that the program knows. An alias, so that the auditor has a name of ours to ask for. */
PUBLIC int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
	__attribute__((alias("rdmaqp_preload_modify_qp")));
PUBLIC int ibv_destroy_qp(struct ibv_qp *qp) __attribute__((alias("rdmaqp_preload_destroy_qp")));

/*
 * To look a name up is how the auditor learns of it (audit.c). The answers are kept: dlsym() looks at where it returns
 * to, and as the last thing that a function does it would be jumped to, with the loader's own address on the stack.
 */
static void *volatile shown[2];

__attribute__((constructor)) static void show_names(void)
{
	shown[0] = dlsym(RTLD_DEFAULT, "rdmaqp_preload_modify_qp");
	shown[1] = dlsym(RTLD_DEFAULT, "rdmaqp_preload_destroy_qp");
}
