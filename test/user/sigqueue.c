/* SPDX-License-Identifier: MIT */
/*
 * Pending signals: what is said about them, the order in which they are delivered, how many may
 * wait, and the calls that take them without a handler. Prints the same as on Linux.
 */
#include "call.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>

static void say(const char *what, const siginfo_t *i)
{
	printf("%s: %d errno %d code %d", what, i->si_signo, i->si_errno, i->si_code);
	if (i->si_code == SI_USER || i->si_code == SI_TKILL || i->si_code == SI_QUEUE)
		printf(" pid %s uid %s",
		       i->si_pid == getpid() ? "mine"
		       : i->si_pid           ? "?"
					     : "0",
		       i->si_uid == getuid() ? "mine" : "?");
	if (i->si_code == SI_QUEUE)
		printf(" value %d", i->si_value.sival_int);
	putchar('\n');
}

static void handler(int signo, siginfo_t *info, void *uc)
{
	(void)uc;
	if (signo != info->si_signo)
		printf("mismatch ");
	say("handler", info);
}

static void handle(int signo)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	sigfillset(&sa.sa_mask);
	CHECK(sigaction(signo, &sa, NULL) == 0);
}

static int queue(int signo, int value)
{
	return sigqueue(getpid(), signo, (union sigval){ .sival_int = value });
}

static const int signals[] = { SIGUSR1, SIGTERM, SIGUSR2, SIGCHLD, SIGHUP };

static sigset_t all(void)
{
	sigset_t s;

	sigfillset(&s);
	return s;
}

static void block_all(void)
{
	const sigset_t s = all();

	CHECK(sigprocmask(SIG_SETMASK, &s, NULL) == 0);
}

static void unblock_all(void)
{
	sigset_t s;

	sigemptyset(&s);
	fflush(stdout);
	CHECK(sigprocmask(SIG_SETMASK, &s, NULL) == 0);
}

static void order(void)
{
	const int tid = (int)syscall(SYS_gettid);

	block_all();
	for (size_t i = 0; i < 5; i++) {
		handle(signals[i]);
		kill(getpid(), signals[i]);
	}
	for (int i = 0; i < 3; i++) {
		handle(SIGRTMIN + i);
		CHECK(queue(SIGRTMIN + 2 - i, 100 + i) == 0);
		CHECK(queue(SIGRTMIN + 2 - i, 200 + i) == 0);
	}
	CHECK(queue(SIGUSR1, 1) == 0);                           /* is pending: lost */
	CHECK(syscall(SYS_tgkill, getpid(), tid, SIGUSR2) == 0); /* its own come first */
	CHECK(syscall(SYS_tkill, tid, SIGRTMIN + 1) == 0);
	puts("-- handlers run last to first, frame upon frame");
	unblock_all();
	puts("-- taken one by one");
	block_all();
	for (size_t i = 0; i < 5; i++)
		kill(getpid(), signals[i]);
	for (int i = 0; i < 4; i++)
		CHECK(queue(SIGRTMIN + i % 2, i) == 0);
	CHECK(syscall(SYS_tkill, tid, SIGRTMIN + 1) == 0);
	for (;;) {
		const struct timespec none = { 0, 0 };
		const sigset_t s = all();
		siginfo_t info;

		if (sigtimedwait(&s, &info, &none) < 0)
			break;
		say("taken", &info);
	}
	printf("then %s\n", errno == EAGAIN ? "EAGAIN" : "?");
	unblock_all();
}

static void limits(void)
{
	struct rlimit old, lim;
	int n = 0;

	/* The limit is the user's: what other programs have queued counts too. */
	CHECK(getrlimit(RLIMIT_SIGPENDING, &old) == 0);
	lim = old;
	lim.rlim_cur = 20;
	signal(SIGRTMIN, SIG_DFL);
	CHECK(setrlimit(RLIMIT_SIGPENDING, &lim) == 0);
	block_all();
	while (n < 100 && queue(SIGRTMIN, n) == 0)
		n++;
	printf("%s", n < 100 ? "up to the limit\n" : "");
	call("one more", queue(SIGRTMIN, n));
	call("kill", kill(getpid(), SIGRTMIN + 1));
	call("kill", kill(getpid(), SIGUSR1));
	call("tkill of a real-time one", syscall(SYS_tkill, syscall(SYS_gettid), SIGRTMIN + 2));
	call("sigqueue of a standard one", queue(SIGUSR2, 9));
	signal(SIGRTMIN, SIG_IGN);
	unblock_all(); /* the last two have lost what was said about them */
	CHECK(setrlimit(RLIMIT_SIGPENDING, &old) == 0);
}

static void discarding(void)
{
	sigset_t pending;

	block_all();
	queue(SIGRTMIN, 1);
	queue(SIGRTMIN, 2);
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGCHLD);
	signal(SIGRTMIN, SIG_IGN);
	signal(SIGUSR1, SIG_DFL); /* does not ignore it */
	signal(SIGCHLD, SIG_DFL); /* does */
	CHECK(sigpending(&pending) == 0);
	printf("pending: %d %d %d\n", sigismember(&pending, SIGRTMIN),
	       sigismember(&pending, SIGUSR1), sigismember(&pending, SIGCHLD));
	handle(SIGUSR1);
	handle(SIGRTMIN);
	unblock_all();
	signal(SIGUSR1, SIG_IGN);
	kill(getpid(), SIGUSR1);
	handle(SIGUSR1);
	puts("ignored when sent: gone");
}

static void errors(void)
{
	siginfo_t info = { .si_code = SI_USER };
	sigset_t s = all();
	struct sigaction sa = { .sa_handler = SIG_IGN };
	const struct timespec bad = { 0, 1000000000 };

	call("kill 0", kill(getpid(), 0));
	call("kill 65", kill(getpid(), 65));
	call("kill nobody", kill(4194303, SIGUSR1));
	call("kill no group", kill(-4194303, 0));
	call("tgkill -1", syscall(SYS_tgkill, -1, 1, 0));
	call("tgkill of another's", syscall(SYS_tgkill, getpid(), 4194303, 0));
	info.si_code = 5; /* what the kernel says, to oneself: allowed */
	call("queueinfo fake to me", syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &info));
	call("queueinfo bad signal", syscall(SYS_rt_sigqueueinfo, getpid(), 99, &info));
	call("tgsigqueueinfo", syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), SIGUSR2, &info));
	call("sigtimedwait bad time", sigtimedwait(&s, NULL, &bad));
	call("sigaction of KILL", sigaction(SIGKILL, &sa, NULL));
	call("set size", syscall(SYS_rt_sigprocmask, 0, &s, NULL, 4));
	call("how", syscall(SYS_rt_sigprocmask, 7, &s, NULL, 8));
	call("no set, any how", syscall(SYS_rt_sigprocmask, 7, NULL, &s, 8));
	sigaddset(&s, SIGKILL);
	CHECK(sigprocmask(SIG_BLOCK, &s, NULL) == 0 && sigprocmask(SIG_BLOCK, NULL, &s) == 0);
	printf("KILL cannot be blocked: %d\n", sigismember(&s, SIGKILL));
	unblock_all();
	CHECK(sigaction(SIGUSR1, NULL, &sa) == 0);
	printf("flags: %#x, mask of KILL %d\n", (unsigned)sa.sa_flags & ~0x04000000U,
	       sigismember(&sa.sa_mask, SIGKILL));
}

static void descriptors(void)
{
	struct signalfd_siginfo got[4];
	sigset_t s;
	struct pollfd p = { .events = POLLIN };
	ssize_t n;

	block_all();
	sigemptyset(&s);
	sigaddset(&s, SIGRTMIN);
	sigaddset(&s, SIGUSR1);
	p.fd = signalfd(-1, &s, SFD_NONBLOCK | SFD_CLOEXEC);
	CHECK(p.fd >= 0);
	printf("cloexec %d\n", fcntl(p.fd, F_GETFD));
	printf("empty: %d", poll(&p, 1, 0));
	call("; read", read(p.fd, got, sizeof(got)));
	queue(SIGRTMIN, 7);
	queue(SIGRTMIN, 8);
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGUSR2);
	call("some", poll(&p, 1, -1));
	printf("%#x\n", (unsigned)p.revents);
	call("short", read(p.fd, got, 100));
	n = read(p.fd, got, sizeof(got));
	printf("read %zd:", n);
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(got[0]); i++)
		printf(" [%u %d pid %d int %d]", got[i].ssi_signo, got[i].ssi_code,
		       got[i].ssi_pid == (uint32_t)getpid(), got[i].ssi_int);
	putchar('\n');
	sigemptyset(&s);
	sigaddset(&s, SIGUSR2);
	CHECK(signalfd(p.fd, &s, 0) == p.fd);
	printf("another set: %d", poll(&p, 1, -1));
	call("; read", read(p.fd, got, sizeof(got)));
	printf("got %u\n", got[0].ssi_signo);
	call("not one", signalfd(1, &s, 0));
	call("bad flags", signalfd(-1, &s, 1));
	call("write", write(p.fd, got, 128));
	close(p.fd);
	unblock_all();
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 1 << 12);
	order();
	limits();
	discarding();
	errors();
	descriptors();
	return 0;
}
