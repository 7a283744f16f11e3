/* SPDX-License-Identifier: MIT */
/*
 * Signals and waiting as Linux has them: alternate stacks, masks that hold for one call only, what
 * is pending, order of delivery; poll and its kin; and a few calls whose checks are easily got
 * wrong. Prints the same on both.
 */
#include "user.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <time.h>

static volatile sig_atomic_t order[8], nr_order;
static volatile uintptr_t handler_sp;
static char *alt;

#define ALT_SIZE (64UL << 10)

static void note(int signo)
{
	char here;

	handler_sp = (uintptr_t)&here;
	if (nr_order < 8)
		order[nr_order++] = signo;
}

static void show_order(const char *what)
{
	printf("%s:", what);
	for (int i = 0; i < nr_order; i++)
		printf(" %d", order[i]);
	putchar('\n');
	nr_order = 0;
}

static void handle(int signo, int flags)
{
	const struct sigaction sa = { .sa_handler = note, .sa_flags = flags };

	CHECK(sigaction(signo, &sa, NULL) == 0);
}

static sigset_t set_of(int a, int b)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, a);
	if (b)
		sigaddset(&s, b);
	return s;
}

/* --- alternate stacks ----------------------------------------------------------------- */

static bool on_alt(uintptr_t sp)
{
	return sp >= (uintptr_t)alt && sp < (uintptr_t)alt + ALT_SIZE;
}

static sigjmp_buf out;

static void overflow(int signo, siginfo_t *info, void *uc)
{
	stack_t ss;

	(void)uc;
	(void)info;
	CHECK(sigaltstack(NULL, &ss) == 0);
	printf("overflow: signal %d, on alt %d, flags %d\n", signo, on_alt((uintptr_t)&ss),
	       ss.ss_flags);
	errno = 0;
	printf("change while on it: %d", sigaltstack(&ss, NULL));
	printf(" %d\n", errno == EPERM);
	siglongjmp(out, 1);
}

__attribute__((noinline)) static int recurse(int depth)
{
	volatile char frame[4096];

	frame[0] = 1;
	return depth ? recurse(depth - 1) + frame[0] : 0;
}

static void altstacks(void)
{
	const struct sigaction sa = { .sa_sigaction = overflow,
				      .sa_flags = SA_SIGINFO | SA_ONSTACK };
	stack_t ss = { 0 }, old;

	alt = malloc(ALT_SIZE);
	CHECK(sigaltstack(NULL, &old) == 0);
	printf("first: flags %d\n", old.ss_flags);
	ss = (stack_t){ .ss_sp = alt, .ss_size = 100 };
	printf("too small: %d\n", sigaltstack(&ss, NULL) < 0 && errno == ENOMEM);
	ss.ss_size = ALT_SIZE;
	ss.ss_flags = 77;
	printf("bad flags: %d\n", sigaltstack(&ss, NULL) < 0 && errno == EINVAL);
	ss.ss_flags = 0;
	CHECK(sigaltstack(&ss, NULL) == 0);
	handle(SIGUSR1, 0);
	raise(SIGUSR1);
	printf("without SA_ONSTACK: %d\n", on_alt(handler_sp));
	handle(SIGUSR1, SA_ONSTACK);
	raise(SIGUSR1);
	printf("with SA_ONSTACK: %d\n", on_alt(handler_sp));
	CHECK(sigaltstack(NULL, &old) == 0);
	printf("afterwards: %d %d\n", old.ss_sp == alt, old.ss_flags);
	CHECK(sigaction(SIGSEGV, &sa, NULL) == 0);
	if (!sigsetjmp(out, 1))
		printf("%d\n", recurse(INT32_MAX));
	ss.ss_flags = SS_DISABLE;
	CHECK(sigaltstack(&ss, NULL) == 0);
	nr_order = 0;
}

/* --- masks and pending signals -------------------------------------------------------- */

static void masks(void)
{
	const struct timespec second = { 20, 0 };
	const sigset_t both = set_of(SIGUSR1, SIGUSR2), usr2 = set_of(SIGUSR2, 0);
	sigset_t pending, now;

	handle(SIGUSR1, 0);
	handle(SIGUSR2, 0);
	CHECK(sigprocmask(SIG_BLOCK, &both, NULL) == 0);
	raise(SIGUSR2);
	raise(SIGUSR1);
	raise(SIGUSR1);
	CHECK(sigpending(&pending) == 0);
	printf("pending: %d %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGUSR2));
	/*
	 * Pending before the call: it must not sleep, and the handler runs under the call's mask.
	 */
	printf("ppoll: %d", ppoll(NULL, 0, &second, &usr2));
	printf(" %d\n", errno == EINTR);
	show_order("after ppoll");
	CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
	printf("mask is back: %d %d\n", sigismember(&now, SIGUSR1), sigismember(&now, SIGUSR2));
	sigemptyset(&now);
	printf("pselect: %d", pselect(0, NULL, NULL, NULL, &second, &now));
	printf(" %d\n", errno == EINTR);
	show_order("after pselect");
	raise(SIGUSR2);
	raise(SIGUSR1);
	printf("sigsuspend: %d", sigsuspend(&now));
	printf(" %d\n", errno == EINTR);
	show_order("after sigsuspend");
	/* Ignoring discards what is pending; a blocked signal waits even if it would be ignored. */
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_IGN);
	handle(SIGUSR1, 0);
	{
		const sigset_t chld = set_of(SIGCHLD, 0);

		CHECK(sigprocmask(SIG_BLOCK, &chld, NULL) == 0);
		raise(SIGCHLD);
		handle(SIGCHLD, 0);
		CHECK(sigprocmask(SIG_UNBLOCK, &chld, NULL) == 0);
	}
	CHECK(sigprocmask(SIG_UNBLOCK, &both, NULL) == 0);
	show_order("after unblocking");
}

/* --- waiting -------------------------------------------------------------------------- */

static void waiting(void)
{
	/*
	 * Nobody's descriptor. Linux looks at no bit beyond its table, which has 64 at the least.
	 */
	enum {
		CLOSED = 60
	};
	struct pollfd fds[3] = { { 1, POLLOUT, 0 }, { -1, POLLIN, 0 }, { CLOSED, POLLIN, 0 } };
	struct timespec ts = { 0, 20000000 }, before, after;
	fd_set w;

	printf("poll: %d", poll(fds, 2, -1));
	printf(" %d %d\n", fds[0].revents == POLLOUT, fds[1].revents);
	printf("poll closed: %d", poll(&fds[2], 1, -1));
	printf(" %d\n", fds[2].revents == POLLNVAL);
	clock_gettime(CLOCK_MONOTONIC, &before);
	printf("nothing: %d", poll(NULL, 0, 20));
	clock_gettime(CLOCK_MONOTONIC, &after);
	printf(" %d\n",
	       (after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec >=
		       20000000L);
	FD_ZERO(&w);
	FD_SET(1, &w);
	printf("pselect: %d", pselect(2, NULL, &w, NULL, NULL, NULL));
	printf(" %d\n", !!FD_ISSET(1, &w));
	printf("raw timeout runs down: %ld", syscall(SYS_ppoll, NULL, 0, &ts, NULL, 8));
	printf(" %d\n", ts.tv_sec == 0 && ts.tv_nsec == 0);
	FD_SET(CLOSED, &w);
	printf("select closed: %d", pselect(CLOSED + 1, NULL, &w, NULL, NULL, NULL));
	printf(" %d\n", errno == EBADF);
}

/* --- files ---------------------------------------------------------------------------- */

static void files(const char *self)
{
	const int fd = open(self, O_RDONLY), null = open("/dev/null", O_WRONLY);
	off_t off = 100;
	ssize_t n;
	void *p;

	CHECK(fd >= 0 && null >= 0);
	n = sendfile(null, fd, &off, 5000);
	printf("sendfile: %zd %ld %ld\n", n, (long)off, (long)lseek(fd, 0, SEEK_CUR));
	n = sendfile(null, fd, NULL, 5000);
	printf("sendfile at the offset: %zd %ld\n", n, (long)lseek(fd, 0, SEEK_CUR));
	printf("faccessat2 of a descriptor: %ld", syscall(SYS_faccessat2, fd, "", R_OK, 0x1000));
	printf(" %ld", syscall(SYS_faccessat2, fd, "", 8, 0x1000));
	printf(" %d\n", errno == EINVAL);
	printf("no link: %zd", readlink("/dev/null", (char *)&n, sizeof(n)));
	printf(" %d\n", errno == EINVAL);
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	printf("shared made writable: %d", mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	printf(" %d\n", errno == EACCES);
	munmap(p, PAGE);
	printf("pread negative: %zd", pread(fd, &n, 1, -1));
	printf(" %d\n", errno == EINVAL);
	printf("dup3 same: %d", dup3(fd, fd, 0));
	printf(" %d\n", errno == EINVAL);
	printf("null must not exist: %d", open("/dev/null", O_CREAT | O_EXCL | O_WRONLY, 0600));
	printf(" %d\n", errno == EEXIST);
	CHECK(syscall(SYS_close_range, 3, ~0U, 4) == 0); /* CLOSE_RANGE_CLOEXEC */
	printf("close_range: %d\n", fcntl(fd, F_GETFD));
	CHECK(syscall(SYS_close_range, 3, ~0U, 0) == 0);
	printf("closed: %d\n", fcntl(fd, F_GETFD) < 0 && errno == EBADF);
}

int main(int argc, char **argv)
{
	(void)argc;
	altstacks();
	masks();
	waiting();
	files(argv[0]);
	return 0;
}
