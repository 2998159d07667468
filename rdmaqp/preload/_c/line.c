/*
 * The socket to rdmaqp's process: one for a process, opened at its start or first call and kept. Each message is one
 * record (SOCK_SEQPACKET). Where the other end is gone, or a verdict does not come by the deadline, the process is left
 * alone from then on.
 */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HIGH = 1000 }; /* out of the way of programs that count on low descriptors */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sockaddr_un address;
static int deadline_ms = 2000;
static bool is_on;
static atomic_bool is_given_up;
static int line = -1;
static ino_t line_inode;
static pid_t owner;
static uint32_t calls;
static __thread int cancel_state __attribute__((tls_model("initial-exec")));

static int64_t clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void line_head(struct rdmaqp_head *head, enum rdmaqp_kind kind, uint32_t number)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	head->kind = kind;
	head->pid = getpid();
	head->tid = (int32_t)syscall(SYS_gettid);
	head->number = number;
	head->time_ns = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static bool send_hello(int fd, bool stays)
{
	struct rdmaqp_hello hello = {
		.call_size = sizeof(struct rdmaqp_call), .gid_size = sizeof(struct rdmaqp_gid), .stays = stays,
	};

	line_head(&hello.head, RDMAQP_HELLO, 0);
	strncpy(hello.program, program_invocation_short_name, sizeof(hello.program) - 1);
	return send(fd, &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(hello);
}

/* A connection, or -1. The listener's backlog is long; where it is full all the same, nobody waits. */
static int dial(bool stays)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int high;

	if (fd < 0)
		return -1;
	high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) || !send_hello(fd, stays)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Whether the descriptor is still ours: programs close what they do not know, and open something else there. */
static bool line_is_ours(void)
{
	struct stat status;

	return line >= 0 && !fstat(line, &status) && S_ISSOCK(status.st_mode) && status.st_ino == line_inode;
}

static bool line_keep(int fd)
{
	struct stat status;

	line = fd;
	if (line < 0 || fstat(line, &status))
		return false;
	line_inode = status.st_ino;
	return true;
}

static bool line_open(void)
{
	return line_is_ours() || line_keep(dial(true));
}

static void give_up(void)
{
	if (line_is_ours())
		close(line);
	line = -1;
	is_given_up = true;
}

static void in_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* whoever held it is not in this process */
	if (line_is_ours())
		close(line); /* it is the parent's: the child gets one of its own */
	line = -1;
	calls = 0;
	owner = getpid();
}

bool line_take(void)
{
	if (!is_on || is_given_up)
		return false;
	if (owner != getpid()) /* a child that was made without fork(): its handlers have not run */
		in_child();
	/* A thread that is cancelled must not take the lock with it. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&lock);
	if (!is_given_up && line_open())
		return true;
	give_up();
	line_release();
	return false;
}

void line_release(void)
{
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(cancel_state, NULL);
}

uint32_t line_next(void)
{
	return ++calls;
}

/* Wait until the socket can do *events*. */
static bool wait_for(short events, int64_t until)
{
	struct pollfd one = { .fd = line, .events = events };

	for (;;) {
		int64_t left = until - clock_ms();
		int ready = left > 0 ? poll(&one, 1, (int)left) : 0;

		if (ready > 0)
			return true;
		if (!ready || errno != EINTR)
			return false;
	}
}

bool line_send(const void *record, size_t size)
{
	int64_t until = clock_ms() + deadline_ms;

	for (;;) {
		if (send(line, record, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size)
			return true;
		if (errno == EINTR)
			continue;
		if ((errno != EAGAIN && errno != EWOULDBLOCK) || !wait_for(POLLOUT, until))
			break;
	}
	give_up();
	return false;
}

bool line_netdev(uint32_t index, char *name)
{
	struct ifreq asked = { .ifr_ifindex = (int)index };

	if (ioctl(line, SIOCGIFNAME, &asked)) /* any socket answers */
		return false;
	memcpy(name, asked.ifr_name, IF_NAMESIZE);
	return true;
}

bool line_is_refused(uint32_t number)
{
	int64_t until = clock_ms() + deadline_ms;
	struct rdmaqp_verdict verdict;

	for (;;) {
		ssize_t size = recv(line, &verdict, sizeof(verdict), MSG_DONTWAIT);

		if (size == sizeof(verdict) && verdict.number == number)
			return verdict.refused;
		if (size == sizeof(verdict) || (size < 0 && errno == EINTR))
			continue;
		if (size >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK) || !wait_for(POLLIN, until))
			break;
	}
	give_up();
	return false;
}

static bool is_linked(void)
{
	void *handle = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (handle)
		dlclose(handle);
	return handle != NULL;
}

/*
 * Says once that this process has been reached. Who is linked with libibverbs keeps the connection, for later it may
 * not be able to make one: in a chroot, as another user, under a seccomp filter. Others make it when they call.
 */
__attribute__((constructor)) static void line_start(void)
{
	const char *path = getenv("RDMAQP_PRELOAD_SOCKET"), *deadline = getenv("RDMAQP_PRELOAD_DEADLINE_MS");
	int saved = errno, fd;

	if (!path || strlen(path) >= sizeof(address.sun_path))
		return;
	address.sun_family = AF_UNIX;
	strcpy(address.sun_path, path);
	if (deadline && atoi(deadline) > 0)
		deadline_ms = atoi(deadline);
	owner = getpid();
	fd = dial(false);
	if (fd >= 0) {
		if (!is_linked() || !send_hello(fd, true) || !line_keep(fd))
			close(fd);
		is_on = !pthread_atfork(NULL, NULL, in_child);
	}
	errno = saved;
}
