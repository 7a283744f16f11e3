/* SPDX-License-Identifier: MIT */
/*
 * Which blocking calls answer EINTR and which go on, as signal(7) lists them: with a handler
 * without and with SA_RESTART, and with no handler (stopped and continued). Prints the same as on
 * Linux.
 *
 * An alarm comes again and again. Without a restart the first one that finds the call asleep ends
 * it; what the call waits for never comes. With SA_RESTART the fourth alarm's handler makes it
 * come.
 */
#include "state.h"
#include "user.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

static volatile sig_atomic_t alarms;
static bool finish;
static int rfd, wfd, efd, sfd, full_r, full_w;
static pid_t child;
static uint32_t word;
static const struct timespec twenty = { 20, 0 };

static void complete(void)
{
	const uint64_t one = 1;
	char buf[65536];

	CHECK(write(wfd, "x", 1) == 1);
	CHECK(write(efd, &one, 8) == 8);
	if (full_r >= 0)
		CHECK(read(full_r, buf, sizeof(buf)) > 0);
	kill(child, SIGKILL);
	word = 1;
	syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
	kill(getpid(), SIGUSR2);
}

static void on_alarm(int signo)
{
	(void)signo;
	if (++alarms == 4 && finish)
		complete();
}

static long do_read(void)
{
	char c;

	return read(rfd, &c, 1);
}

static long do_readv_event(void)
{
	uint64_t n;

	return read(efd, &n, 8);
}

static long do_write(void)
{
	static char buf[PAGE];

	return write(full_w, buf, PAGE);
}

static long do_wait4(void)
{
	return waitpid(child, NULL, 0) == child ? 0 : -1;
}

static long do_waitid(void)
{
	siginfo_t info;

	return waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
}

static long do_futex(void)
{
	return syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static long do_futex_timeout(void)
{
	return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &twenty, NULL, 0);
}

static long do_signalfd(void)
{
	struct signalfd_siginfo info;

	return read(sfd, &info, sizeof(info));
}

static long do_nanosleep(void)
{
	struct timespec left = { 0, 0 };
	const long ret = nanosleep(&twenty, &left);

	if (ret < 0 && left.tv_sec < 15)
		puts("too little is left");
	return ret;
}

static long do_sleep_until(void)
{
	struct timespec ts;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += 20;
	err = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	errno = err;
	return err ? -1 : 0;
}

static long do_poll(void)
{
	struct pollfd p = { rfd, POLLIN, 0 };

	return poll(&p, 1, 20000);
}

static long do_ppoll(void)
{
	struct pollfd p = { rfd, POLLIN, 0 };

	return ppoll(&p, 1, &twenty, NULL);
}

static long do_select(void)
{
	struct timeval tv = { 20, 0 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(rfd, &set);
	return syscall(SYS_select, rfd + 1, &set, NULL, NULL, &tv);
}

static long do_pselect(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(rfd, &set);
	return pselect(rfd + 1, &set, NULL, NULL, &twenty, NULL);
}

static long do_pause(void)
{
	return pause();
}

static long do_sigsuspend(void)
{
	sigset_t s;

	CHECK(sigprocmask(SIG_SETMASK, NULL, &s) == 0);
	return sigsuspend(&s);
}

static long do_sigtimedwait(void)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGUSR2);
	return sigtimedwait(&s, NULL, &twenty);
}

static const struct {
	const char *name;
	long (*fn)(void);
	bool completes; /* complete() ends it */
} calls[] = {
	{ "read of a pipe", do_read, true },
	{ "write to a pipe", do_write, true },
	{ "read of an eventfd", do_readv_event, true },
	{ "read of a signalfd", do_signalfd, true },
	{ "wait4", do_wait4, true },
	{ "waitid", do_waitid, true },
	{ "futex", do_futex, true },
	{ "futex with a timeout", do_futex_timeout, false },
	{ "nanosleep", do_nanosleep, false },
	{ "clock_nanosleep, absolute", do_sleep_until, false },
	{ "poll", do_poll, false },
	{ "ppoll", do_ppoll, false },
	{ "select", do_select, false },
	{ "pselect", do_pselect, false },
	{ "pause", do_pause, false },
	{ "sigsuspend", do_sigsuspend, false },
	{ "sigtimedwait", do_sigtimedwait, false },
};
#define NR_CALLS (sizeof(calls) / sizeof(calls[0]))

static void prepare(void)
{
	static const char page[PAGE];
	int fds[2], flags;
	sigset_t s;

	CHECK(pipe(fds) == 0);
	rfd = fds[0];
	wfd = fds[1];
	CHECK(pipe(fds) == 0);
	full_r = fds[0];
	full_w = fds[1];
	flags = fcntl(full_w, F_GETFL);
	CHECK(fcntl(full_w, F_SETFL, flags | O_NONBLOCK) == 0);
	while (write(full_w, page, PAGE) == (ssize_t)PAGE)
		;
	CHECK(fcntl(full_w, F_SETFL, flags) == 0);
	efd = eventfd(0, 0);
	sigemptyset(&s);
	sigaddset(&s, SIGUSR2);
	CHECK(sigprocmask(SIG_BLOCK, &s, NULL) == 0);
	sfd = signalfd(-1, &s, 0);
	CHECK(efd >= 0 && sfd >= 0);
	word = 0;
	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		for (;;)
			pause();
	}
}

static void clean_up(void)
{
	const struct timespec none = { 0, 0 };
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGUSR2);
	while (sigtimedwait(&s, NULL, &none) > 0)
		;
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	close(rfd);
	close(wfd);
	close(full_r);
	close(full_w);
	close(efd);
	close(sfd);
}

static void tell(const char *name, long ret)
{
	const int err = errno;

	printf("  %-26s %ld", name, ret);
	if (ret < 0)
		printf(" %s", strerrorname_np(err));
	putchar('\n');
}

static void with_handler(int flags)
{
	const struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags };
	const struct itimerval again = { { 0, 30000 }, { 0, 30000 } }, off = { 0 };

	printf("a handler %s SA_RESTART\n", flags ? "with" : "without");
	for (size_t i = 0; i < NR_CALLS; i++) {
		long ret;
		int err;

		prepare();
		finish = flags && calls[i].completes;
		alarms = 0;
		CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
		CHECK(setitimer(ITIMER_REAL, &again, NULL) == 0);
		errno = 0;
		ret = calls[i].fn();
		err = errno;
		CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
		errno = err;
		tell(calls[i].name, ret);
		clean_up();
	}
}

/* Stops another process that sleeps and lets it go on, when it has stopped. */
static void stop_and_continue(pid_t pid)
{
	await_asleep(pid);
	kill(pid, SIGSTOP);
	await_state(pid, 'T');
	kill(pid, SIGCONT);
}

/* Another process stops us and lets us go on, then makes come what the call waits for. */
static void stopped_and_continued(void)
{
	const pid_t me = getpid();
	struct pollfd over;
	int done[2];

	CHECK(pipe(done) == 0);
	over = (struct pollfd){ done[0], POLLIN, 0 };
	puts("stopped and continued");
	for (size_t i = 0; i < NR_CALLS; i++) {
		pid_t helper;
		long ret;
		int err;

		/* These end by a signal only, or by their time. */
		if (calls[i].fn == do_pause || calls[i].fn == do_sigsuspend ||
		    calls[i].fn == do_nanosleep || calls[i].fn == do_sleep_until)
			continue;
		prepare();
		fflush(stdout);
		helper = fork();
		CHECK(helper >= 0);
		if (helper == 0) {
			stop_and_continue(me);
			stop_and_continue(me);
			await_asleep(me);
			(void)!write(wfd, "x", 1);
			(void)!write(efd, &(uint64_t){ 1 }, 8);
			(void)!read(full_r, &(char[65536]){ 0 }, 65536);
			kill(me, SIGUSR2);
			kill(child, SIGKILL);
			/*
			 * A private futex of another process cannot be woken: a signal that finds
			 * it waiting.
			 */
			if (calls[i].fn == do_futex || calls[i].fn == do_futex_timeout) {
				do
					kill(me, SIGALRM);
				while (poll(&over, 1, 60) == 0);
			}
			_exit(0);
		}
		errno = 0;
		ret = calls[i].fn();
		err = errno;
		CHECK(write(done[1], "d", 1) == 1);
		while (waitpid(helper, NULL, 0) < 0)
			CHECK(errno == EINTR);
		errno = err;
		tell(calls[i].name, ret);
		CHECK(read(done[0], &(char){ 0 }, 1) == 1);
		clean_up();
	}
	close(done[0]);
	close(done[1]);
}

/* The time of a stop counts, and what is left is slept: neither less nor an error. */
static void sleep_over_a_stop(void)
{
	const struct timespec time = { 0, 400000000 };
	const pid_t me = getpid();
	struct timespec from, to;
	int err;

	for (int absolute = 0; absolute < 2; absolute++) {
		fflush(stdout);
		child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			stop_and_continue(me);
			_exit(0);
		}
		clock_gettime(CLOCK_MONOTONIC, &from);
		to = from;
		to.tv_nsec += time.tv_nsec;
		to.tv_sec += to.tv_nsec / 1000000000;
		to.tv_nsec %= 1000000000;
		err = clock_nanosleep(CLOCK_MONOTONIC, absolute ? TIMER_ABSTIME : 0,
				      absolute ? &to : &time, NULL);
		clock_gettime(CLOCK_MONOTONIC, &to);
		printf("slept: %d, long enough %d\n", err,
		       (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec >=
			       time.tv_nsec);
		CHECK(waitpid(child, NULL, 0) == child);
	}
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };

	setvbuf(stdout, NULL, _IOLBF, 1 << 12);
	with_handler(0);
	with_handler(SA_RESTART);
	finish = false;
	CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	stopped_and_continued();
	sleep_over_a_stop();
	return 0;
}
