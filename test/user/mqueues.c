/* SPDX-License-Identifier: MIT */
/*
 * POSIX message queues: names, limits, priorities, waits, notifications, poll. The calls are made
 * directly, as the C library changes some errors. Prints the same on both.
 */
#include "alarms.h"
#include "call.h"

#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static char name[40];
static void *volatile nowhere = (void *)8;

static void result(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "", ret < 0 ? strerror(errno) : "");
}

static long q_open(const char *n, int flags, int mode, const struct mq_attr *a)
{
	return syscall(SYS_mq_open, n, flags, mode, a);
}

static void opened(const char *what, const char *n, int flags, int mode, const struct mq_attr *a)
{
	const long fd = q_open(n, flags, mode, a);

	result(what, fd < 0 ? fd : 0);
	if (fd >= 0)
		close((int)fd);
}

static void attr(const char *what, int fd)
{
	struct mq_attr a;

	CHECK(syscall(SYS_mq_getsetattr, fd, NULL, &a) == 0);
	printf("%s: flags %lx, %ld of %ld, %ld bytes each\n", what, a.mq_flags, a.mq_curmsgs,
	       a.mq_maxmsg, a.mq_msgsize);
}

static long snd(int fd, const char *text, unsigned int prio, const struct timespec *until)
{
	return syscall(SYS_mq_timedsend, fd, text, strlen(text), prio, until);
}

static void rcv(const char *what, int fd, size_t len, const struct timespec *until)
{
	char buf[9000];
	unsigned int prio = 77;
	const long n = syscall(SYS_mq_timedreceive, fd, buf, len, &prio, until);

	if (n < 0)
		result(what, n);
	else
		printf("%s: <%.*s> of %u\n", what, (int)n, buf, prio);
}

static void names(void)
{
	struct mq_attr a = { .mq_maxmsg = 3, .mq_msgsize = 16 };
	char large[300];

	memset(large, 'x', sizeof(large));
	large[256] = 0;
	opened("missing", name, O_RDWR, 0, NULL);
	opened("made", name, O_RDWR | O_CREAT | O_EXCL, 0640, &a);
	opened("made again", name, O_RDWR | O_CREAT | O_EXCL, 0640, &a);
	opened("there", name, O_RDWR | O_CREAT, 0640, NULL);
	opened("empty", "", O_RDWR | O_CREAT, 0600, NULL);
	opened("slash", "/x", O_RDWR | O_CREAT, 0600, NULL);
	opened("dot", ".", O_RDWR, 0600, NULL);
	opened("dots", "..", O_RDWR, 0600, NULL);
	opened("256 bytes", large, O_RDWR | O_CREAT, 0600, NULL);
	opened("bad name", nowhere, O_RDWR, 0, NULL);
	opened("bad attr", name, O_RDWR | O_CREAT, 0600, nowhere);
	a.mq_maxmsg = 0;
	opened("no room", "other", O_RDWR | O_CREAT, 0600, &a);
	a.mq_maxmsg = -1;
	opened("less", "other", O_RDWR | O_CREAT, 0600, &a);
	a.mq_maxmsg = 1 << 20;
	opened("too many", "other", O_RDWR | O_CREAT, 0600, &a);
	a.mq_maxmsg = 1;
	a.mq_msgsize = 1 << 25;
	opened("too large", "other", O_RDWR | O_CREAT, 0600, &a);
	result("unlinked", syscall(SYS_mq_unlink, name));
	result("and again", syscall(SYS_mq_unlink, name));
	result("none", syscall(SYS_mq_unlink, ""));
	result("slash", syscall(SYS_mq_unlink, "/x"));
	result("bad", syscall(SYS_mq_unlink, nowhere));
}

static void messages(void)
{
	const struct mq_attr a = { .mq_maxmsg = 4, .mq_msgsize = 16 };
	struct mq_attr set = { .mq_flags = O_NONBLOCK };
	const struct timespec past = { 1, 0 }, bad = { 1, 1000000000 }, negative = { -1, 0 };
	const int fd = (int)q_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &a);
	const int rd = (int)q_open(name, O_RDONLY, 0, NULL);
	const int wr = (int)q_open(name, O_WRONLY, 0, NULL);
	char text[100];
	struct stat st;

	CHECK(fd >= 0 && rd >= 0 && wr >= 0);
	printf("close on exec: %d\n", fcntl(fd, F_GETFD));
	CHECK(fstat(fd, &st) == 0);
	printf("mode %o, %ld bytes, %ld links\n", st.st_mode, (long)st.st_size, (long)st.st_nlink);
	attr("new", fd);
	result("one", snd(fd, "one", 1, NULL));
	result("two", snd(wr, "two", 2, NULL));
	result("another one", snd(wr, "another one", 1, NULL));
	result("none", snd(wr, "", 32767, NULL));
	attr("full", rd);
	result("in time", snd(wr, "late", 0, &past));
	rcv("small buffer", rd, 15, NULL);
	rcv("1", rd, 16, NULL);
	rcv("2", rd, 9000, NULL);
	rcv("3", fd, 16, NULL);
	rcv("4", fd, 16, NULL);
	rcv("in time", fd, 16, &past);
	rcv("bad time", fd, 16, &bad);
	rcv("negative time", fd, 16, &negative);
	result("bad time", snd(fd, "x", 0, &bad));
	result("priority", snd(fd, "x", 32768, NULL));
	result("too long", snd(fd, "0123456789abcdefg", 0, NULL));
	result("not to be read", snd(rd, "x", 0, NULL));
	rcv("not to be written", wr, 16, NULL);
	rcv("not a queue", 0, 16, NULL);
	result("not a queue", snd(0, "x", 0, NULL));
	result("bad message", syscall(SYS_mq_timedsend, fd, nowhere, 3, 0, NULL));
	result("bad flags", syscall(SYS_mq_getsetattr, fd, &a, &set) ? -1 : 0);
	set.mq_flags = O_NONBLOCK | 1;
	result("other flags", syscall(SYS_mq_getsetattr, fd, &set, NULL));
	set.mq_flags = O_NONBLOCK;
	result("nonblocking", syscall(SYS_mq_getsetattr, fd, &set, NULL));
	printf("flags %x\n", fcntl(fd, F_GETFL) & ~O_LARGEFILE);
	attr("now", fd);
	rcv("nothing", fd, 16, NULL);
	for (int i = 0; i < 4; i++)
		CHECK(snd(fd, "full", 3, NULL) == 0);
	result("full", snd(fd, "more", 3, NULL));
	memset(text, 0, sizeof(text));
	result("read", pread(rd, text, sizeof(text), 0));
	printf("%s", text);
	result("bad buffer", syscall(SYS_mq_timedreceive, fd, nowhere, 16, NULL, NULL));
	attr("which is lost", fd);
	CHECK(syscall(SYS_mq_unlink, name) == 0);
	CHECK(fstat(fd, &st) == 0);
	printf("%ld links\n", (long)st.st_nlink);
	opened("gone", name, O_RDONLY, 0, NULL);
	rcv("still there", rd, 16, NULL);
	close(fd);
	close(rd);
	close(wr);
}

static void polls(void)
{
	const struct mq_attr a = { .mq_maxmsg = 1, .mq_msgsize = 16 };
	const int fd = (int)q_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &a);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	const int ep = epoll_create1(EPOLL_CLOEXEC);
	pid_t pid;

	CHECK(fd >= 0 && ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) == 0);
	printf("poll: %d", poll(&p, 1, 0));
	printf(" %x\n", p.revents);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		usleep(20000);
		_exit(snd(fd, "hello", 0, NULL) != 0);
	}
	printf("epoll: %d", epoll_wait(ep, &ev, 1, 10000));
	printf(" %x\n", ev.events);
	CHECK(waitpid(pid, NULL, 0) == pid);
	printf("poll: %d", poll(&p, 1, 0));
	printf(" %x\n", p.revents);
	close(ep);
	close(fd);
	CHECK(syscall(SYS_mq_unlink, name) == 0);
}

/* A receiver waits, then a sender; one is interrupted. */
static void waits(void)
{
	const struct mq_attr a = { .mq_maxmsg = 1, .mq_msgsize = 16 };
	const int fd = (int)q_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &a);
	struct timespec soon;
	char buf[16];
	pid_t pid;

	CHECK(fd >= 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		for (int i = 0; i < 2000; i++) {
			snprintf(buf, sizeof(buf), "message %d", i);
			CHECK(snd(fd, buf, 5, NULL) == 0);
		}
		_exit(0);
	}
	for (int i = 0; i < 2000; i++) {
		char want[16];
		const long n = syscall(SYS_mq_timedreceive, fd, buf, 16, NULL, NULL);

		snprintf(want, sizeof(want), "message %d", i);
		CHECK(n == (long)strlen(want) && !memcmp(buf, want, (size_t)n));
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	puts("all in their order");
	CHECK(clock_gettime(CLOCK_REALTIME, &soon) == 0);
	soon.tv_nsec += 20000000;
	if (soon.tv_nsec >= 1000000000) {
		soon.tv_sec++;
		soon.tv_nsec -= 1000000000;
	}
	rcv("until then", fd, 16, &soon);
	alarms_start(0, -1);
	result("interrupted", alarms_end(syscall(SYS_mq_timedreceive, fd, buf, 16, NULL, NULL)));
	CHECK(snd(fd, "full", 0, NULL) == 0);
	alarms_start(0, -1);
	result("interrupted", alarms_end(snd(fd, "more", 0, NULL)));
	close(fd);
	CHECK(syscall(SYS_mq_unlink, name) == 0);
}

static long notify(int fd, int how, int signo, void *value)
{
	struct sigevent ev;

	memset(&ev, 0, sizeof(ev));
	ev.sigev_notify = how;
	ev.sigev_signo = signo;
	ev.sigev_value.sival_ptr = value;
	return syscall(SYS_mq_notify, fd, &ev);
}

static void told(const char *what, const sigset_t *set)
{
	const struct timespec none = { 0 };
	siginfo_t info;

	if (sigtimedwait(set, &info, &none) < 0)
		printf("%s: nothing\n", what);
	else
		printf("%s: code %d, value %d, pid %s\n", what, info.si_code,
		       info.si_value.sival_int, info.si_pid == getpid() ? "own" : "other");
}

static void signals(int fd)
{
	sigset_t set;
	pid_t pid;
	int status;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	result("signal 65", notify(fd, SIGEV_SIGNAL, 65, NULL));
	result("a kind that is none", notify(fd, 17, SIGUSR1, NULL));
	result("bad event", syscall(SYS_mq_notify, fd, nowhere));
	result("not a queue", notify(0, SIGEV_SIGNAL, SIGUSR1, NULL));
	result("registered", notify(fd, SIGEV_SIGNAL, SIGUSR1, (void *)42));
	result("again", notify(fd, SIGEV_NONE, 0, NULL));
	CHECK(snd(fd, "one", 0, NULL) == 0);
	told("one", &set);
	rcv("it", fd, 16, NULL);
	CHECK(snd(fd, "two", 0, NULL) == 0);
	told("once only", &set);
	result("not empty", notify(fd, SIGEV_SIGNAL, SIGUSR1, (void *)43));
	CHECK(snd(fd, "three", 0, NULL) == 0);
	told("not empty", &set);
	rcv("2", fd, 16, NULL);
	rcv("3", fd, 16, NULL);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		const int busy = notify(fd, SIGEV_NONE, 0, NULL) < 0 && errno == EBUSY;

		close(fd); /* not the one that is registered */
		_exit(busy ? 3 : 4);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("another process: %d\n", WEXITSTATUS(status));
	result("taken back", syscall(SYS_mq_notify, fd, NULL));
	result("nothing to take", syscall(SYS_mq_notify, fd, NULL));
	result("for a close", notify(fd, SIGEV_SIGNAL, SIGUSR1, NULL));
	close(dup(fd));
	CHECK(snd(fd, "four", 0, NULL) == 0);
	told("after the close", &set);
	rcv("4", fd, 16, NULL);
}

/* The bytes that the C library has a thread read. */
static void socket_told(int fd)
{
	const int nl = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, 0),
		  un = socket(AF_UNIX, SOCK_DGRAM, 0);
	char cookie[32] = "a cookie", got[64];

	CHECK(nl >= 0 && un >= 0);
	result("of a file", notify(fd, SIGEV_THREAD, 0, cookie));
	result("of AF_UNIX", notify(fd, SIGEV_THREAD, un, cookie));
	result("no descriptor", notify(fd, SIGEV_THREAD, 999, cookie));
	result("bad cookie", notify(fd, SIGEV_THREAD, nl, nowhere));
	result("socket", notify(fd, SIGEV_THREAD, nl, cookie));
	CHECK(recv(nl, got, sizeof(got), 0) < 0 && errno == EAGAIN);
	CHECK(snd(fd, "x", 0, NULL) == 0);
	result("bytes", recv(nl, got, sizeof(got), 0));
	printf("<%.8s> %d\n", got, got[31]);
	rcv("x", fd, 16, NULL);
	result("socket", notify(fd, SIGEV_THREAD, nl, cookie));
	result("taken back", syscall(SYS_mq_notify, fd, NULL));
	result("bytes", recv(nl, got, sizeof(got), 0));
	printf("<%.8s> %d\n", got, got[31]);
	close(nl);
	close(un);
}

static void notifications(void)
{
	const struct mq_attr a = { .mq_maxmsg = 3, .mq_msgsize = 16 };
	const int fd = (int)q_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &a);

	CHECK(fd >= 0);
	signals(fd);
	socket_told(fd);
	close(fd);
	CHECK(syscall(SYS_mq_unlink, name) == 0);
}

static void limits(void)
{
	struct rlimit rl;

	CHECK(getrlimit(RLIMIT_MSGQUEUE, &rl) == 0);
	printf("limit %ld\n", (long)rl.rlim_cur);
	rl.rlim_cur = 1000;
	CHECK(setrlimit(RLIMIT_MSGQUEUE, &rl) == 0);
	opened("over it", name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
	rl.rlim_cur = rl.rlim_max;
	CHECK(setrlimit(RLIMIT_MSGQUEUE, &rl) == 0);
	opened("below it", name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
	CHECK(syscall(SYS_mq_unlink, name) == 0);
}

/* Modes and owners, as root and as another user. */
static void others(void)
{
	const int fd = (int)q_open(name, O_RDWR | O_CREAT | O_EXCL, 0644, NULL);
	pid_t pid;

	CHECK(fd >= 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		if (getuid() == 0)
			CHECK(setuid(1234) == 0);
		if (getuid() == 1234) {
			opened("to read", name, O_RDONLY, 0, NULL);
			opened("to write", name, O_WRONLY, 0, NULL);
			result("to unlink", syscall(SYS_mq_unlink, name));
		} else {
			puts("to read: 0\nto write: -1 Permission denied");
			puts("to unlink: -1 Operation not permitted");
		}
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	close(fd);
	CHECK(syscall(SYS_mq_unlink, name) == 0);
}

int main(void)
{
	snprintf(name, sizeof(name), "tessera-%d", getpid());
	umask(022);
	names();
	messages();
	polls();
	waits();
	notifications();
	limits();
	others();
	return 0;
}
