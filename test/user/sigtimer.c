/* SPDX-License-Identifier: MIT */
/*
 * Timers that raise signals, and timers that are read: what they say, how often, their errors. No
 * wall times: how often a timer has expired is only compared with what must have passed. Prints
 * the same as on Linux.
 */
#include "call.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

#define MS 1000000L

static volatile sig_atomic_t count;
static siginfo_t first, last; /* since count was 0 */

static void handler(int signo, siginfo_t *info, void *uc)
{
	(void)signo;
	(void)uc;
	last = *info;
	if (count++ == 0)
		first = *info;
}

static void handle(int signo)
{
	const struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	CHECK(sigaction(signo, &sa, NULL) == 0);
	count = 0;
}

/* Blocked from the look to the sleep: one that comes in between must end the sleep, too. */
static void wait_for(int n)
{
	sigset_t all, old;

	sigfillset(&all);
	CHECK(sigprocmask(SIG_BLOCK, &all, &old) == 0);
	while (count < n)
		sigsuspend(&old);
	CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
}

static void burn_until(int n)
{
	while (count < n)
		for (volatile int i = 0; i < 100000; i++)
			;
}

static void sleep_ms(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * MS };

	while (nanosleep(&left, &left) < 0)
		CHECK(errno == EINTR);
}

static void intervals(void)
{
	struct itimerval v = { { 0, 5000 }, { 0, 1000 } }, old;

	handle(SIGALRM);
	call("alarm", alarm(100));
	call("again", (long)alarm(50) >= 80);
	call("off", (long)alarm(0) >= 30);
	call("nothing left", alarm(0));
	CHECK(setitimer(ITIMER_REAL, &v, NULL) == 0);
	wait_for(4);
	CHECK(getitimer(ITIMER_REAL, &v) == 0);
	printf("real: code %d pid %d, interval %ld, left %d\n", last.si_code, last.si_pid,
	       v.it_interval.tv_usec, v.it_value.tv_usec <= 5000);
	v.it_value = (struct timeval){ 1000, 0 };
	CHECK(setitimer(ITIMER_REAL, &v, NULL) == 0);
	CHECK(getitimer(ITIMER_REAL, &v) == 0);
	printf("later: left %d\n", v.it_value.tv_sec >= 900 && v.it_value.tv_sec <= 1000);
	v = (struct itimerval){ 0 };
	CHECK(setitimer(ITIMER_REAL, &v, &old) == 0);
	printf("old: %ld\n", old.it_interval.tv_usec);
	v.it_value.tv_usec = 1000;
	handle(SIGPROF);
	CHECK(setitimer(ITIMER_PROF, &v, NULL) == 0);
	burn_until(1);
	printf("prof: %d code %d\n", last.si_signo, last.si_code);
	handle(SIGVTALRM);
	v.it_interval.tv_usec = 1000;
	CHECK(setitimer(ITIMER_VIRTUAL, &v, NULL) == 0);
	burn_until(3);
	v = (struct itimerval){ 0 };
	CHECK(setitimer(ITIMER_VIRTUAL, &v, NULL) == 0);
	printf("virtual: %d code %d\n", last.si_signo, last.si_code);
	call("no such timer", getitimer((enum __itimer_which)7, &v));
	v.it_value.tv_usec = 1000000;
	call("bad value", setitimer(ITIMER_REAL, &v, NULL));
	v.it_value = (struct timeval){ -1, 0 };
	call("negative", setitimer(ITIMER_REAL, &v, NULL));
	/* An ignored signal does not stop the timer. */
	v = (struct itimerval){ { 0, 5000 }, { 0, 5000 } };
	signal(SIGALRM, SIG_IGN);
	CHECK(setitimer(ITIMER_REAL, &v, NULL) == 0);
	sleep_ms(30);
	CHECK(getitimer(ITIMER_REAL, &v) == 0);
	printf("still set: %ld\n", v.it_interval.tv_usec);
	v = (struct itimerval){ 0 };
	CHECK(setitimer(ITIMER_REAL, &v, NULL) == 0);
}

static timer_t make(clockid_t clock, int notify, int signo, int value)
{
	struct sigevent ev = { .sigev_notify = notify, .sigev_signo = signo };
	timer_t t;

	ev.sigev_value.sival_int = value;
	CHECK(timer_create(clock, &ev, &t) == 0);
	return t;
}

static void set(timer_t t, long value_ns, long interval_ns)
{
	const struct itimerspec v = { { interval_ns / 1000000000, interval_ns % 1000000000 },
				      { value_ns / 1000000000, value_ns % 1000000000 } };

	CHECK(timer_settime(t, 0, &v, NULL) == 0);
}

static void posix_timers(void)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME };
	struct itimerspec v, old;
	struct timespec now;
	sigset_t s;
	timer_t t;

	handle(SIGRTMIN);
	for (size_t i = 0; i < 3; i++) {
		t = make(clocks[i], SIGEV_SIGNAL, SIGRTMIN, 40 + (int)i);
		set(t, 1 * MS, 0);
		wait_for((int)i + 1);
		printf("once: code %d value %d overrun %d\n", last.si_code, last.si_value.sival_int,
		       last.si_overrun);
		CHECK(timer_gettime(t, &v) == 0);
		printf("over: %ld %ld\n", v.it_value.tv_nsec, v.it_interval.tv_nsec);
		CHECK(timer_delete(t) == 0);
	}
	/* Expirations while the signal is pending count as overrun. */
	count = 0;
	sigemptyset(&s);
	sigaddset(&s, SIGRTMIN);
	CHECK(sigprocmask(SIG_BLOCK, &s, NULL) == 0);
	t = make(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGRTMIN, 7);
	set(t, 2 * MS, 2 * MS);
	sleep_ms(50);
	CHECK(sigprocmask(SIG_UNBLOCK, &s, NULL) == 0);
	wait_for(1);
	printf("overrun: %d %d\n", first.si_overrun >= 15, timer_getoverrun(t) >= 0);
	set(t, 0, 0);
	/* Pending, then set again: the old expiration is forgotten. */
	CHECK(sigprocmask(SIG_BLOCK, &s, NULL) == 0);
	set(t, 1, 0);
	do
		CHECK(sigpending(&s) == 0);
	while (!sigismember(&s, SIGRTMIN));
	CHECK(timer_gettime(t, &v) == 0);
	printf("fired: %ld\n", v.it_value.tv_nsec);
	CHECK(timer_delete(t) == 0);
	sigemptyset(&s);
	count = 0;
	CHECK(sigprocmask(SIG_SETMASK, &s, NULL) == 0);
	printf("deleted while pending: %d\n", count);
	/* An absolute time that is over. */
	t = make(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGRTMIN, 1);
	v = (struct itimerspec){ { 0, 0 }, { 0, 1 } };
	CHECK(timer_settime(t, TIMER_ABSTIME, &v, NULL) == 0);
	wait_for(1);
	clock_gettime(CLOCK_MONOTONIC, &now);
	v.it_value = now;
	v.it_value.tv_sec += 100;
	v.it_interval.tv_sec = 5;
	CHECK(timer_settime(t, TIMER_ABSTIME, &v, NULL) == 0);
	CHECK(timer_settime(t, 0, &v, &old) == 0);
	printf("left: %d interval %ld\n", old.it_value.tv_sec >= 50 && old.it_value.tv_sec <= 100,
	       old.it_interval.tv_sec);
	CHECK(timer_delete(t) == 0);
	/* CPU time. */
	count = 0;
	t = make(CLOCK_PROCESS_CPUTIME_ID, SIGEV_SIGNAL, SIGRTMIN, 2);
	set(t, 2 * MS, 2 * MS);
	burn_until(2);
	CHECK(timer_delete(t) == 0);
	t = make(CLOCK_THREAD_CPUTIME_ID, SIGEV_SIGNAL, SIGRTMIN, 3);
	count = 0;
	set(t, 2 * MS, 0);
	burn_until(1);
	printf("thread CPU time: value %d\n", last.si_value.sival_int);
	CHECK(timer_delete(t) == 0);
	t = make(CLOCK_MONOTONIC, SIGEV_NONE, 0, 0);
	set(t, 1, 0);
	sleep_ms(1);
	CHECK(timer_gettime(t, &v) == 0);
	printf("none: %ld\n", v.it_value.tv_nsec);
	CHECK(timer_delete(t) == 0);
}

static void errors(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = 65 };
	struct itimerspec v = { { 0, 0 }, { 0, 1000000000 } };
	int id;

	call("bad signal", syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &id));
	ev.sigev_signo = SIGUSR1;
	ev.sigev_notify = 77;
	call("bad notify", syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &id));
	ev.sigev_notify = SIGEV_THREAD_ID;
	ev._sigev_un._tid = 1;
	call("bad thread", syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &id));
	call("bad clock", syscall(SYS_timer_create, 99, NULL, &id));
	call("coarse clock", syscall(SYS_timer_create, CLOCK_MONOTONIC_COARSE, NULL, &id));
	call("bad pointer", syscall(SYS_timer_create, CLOCK_MONOTONIC, (void *)8, &id));
	call("bad id pointer", syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, (void *)8));
	call("create", syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, &id));
	call("bad value", syscall(SYS_timer_settime, id, 0, &v, NULL));
	call("no value", syscall(SYS_timer_settime, id, 0, NULL, NULL));
	call("getoverrun", syscall(SYS_timer_getoverrun, id));
	call("delete", syscall(SYS_timer_delete, id));
	call("gone", syscall(SYS_timer_gettime, id, &v));
	call("delete again", syscall(SYS_timer_delete, id));
	call("settime of none",
	     (v.it_value.tv_nsec = 0, syscall(SYS_timer_settime, 12345, 0, &v, NULL)));
	call("clock_settime of a bad time",
	     (v.it_value.tv_nsec = -1, clock_settime(CLOCK_REALTIME, &v.it_value)));
	call("clock_settime of CPU time",
	     clock_settime(CLOCK_MONOTONIC, &(struct timespec){ 0, 0 }));
}

static void descriptors(void)
{
	struct itimerspec v = { { 0, 0 }, { 0, 1 * MS } }, old;
	struct pollfd p = { .events = POLLIN };
	uint64_t n = 0;

	p.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	CHECK(p.fd >= 0);
	printf("cloexec %d\n", fcntl(p.fd, F_GETFD));
	call("not set", read(p.fd, &n, 8));
	call("poll", poll(&p, 1, 0));
	CHECK(timerfd_settime(p.fd, 0, &v, NULL) == 0);
	call("poll", poll(&p, 1, -1));
	call("short", read(p.fd, &n, 7));
	call("read", read(p.fd, &n, 8));
	printf("times %d\n", (int)n);
	call("again", read(p.fd, &n, 8));
	v.it_interval.tv_nsec = 2 * MS;
	CHECK(timerfd_settime(p.fd, 0, &v, NULL) == 0);
	sleep_ms(40);
	call("read", read(p.fd, &n, 8));
	printf("times %d\n", n >= 15);
	CHECK(timerfd_gettime(p.fd, &v) == 0);
	printf("left %d, interval %ld\n", v.it_value.tv_nsec <= 2 * MS, v.it_interval.tv_nsec);
	CHECK(fcntl(p.fd, F_SETFL, 0) == 0);
	call("blocking read", read(p.fd, &n, 8));
	v = (struct itimerspec){ 0 };
	CHECK(timerfd_settime(p.fd, 0, &v, &old) == 0);
	printf("old interval %ld\n", old.it_interval.tv_nsec);
	call("poll", poll(&p, 1, 0));
	call("write", write(p.fd, &n, 8));
	call("bad clock", timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0));
	call("bad flags", timerfd_create(CLOCK_MONOTONIC, 1));
	call("not one", timerfd_gettime(1, &v));
	call("not open", timerfd_gettime(99, &v));
	call("bad settime flags", timerfd_settime(p.fd, 8, &v, NULL));
	v.it_value.tv_nsec = 1000000000;
	call("bad value", timerfd_settime(p.fd, 0, &v, NULL));
	close(p.fd);
}

static void cpu_limit(void)
{
	struct rlimit lim = { 1, 2 };
	int status;

	fflush(stdout);
	if (fork() == 0) {
		handle(SIGXCPU);
		CHECK(setrlimit(RLIMIT_CPU, &lim) == 0);
		burn_until(1);
		printf("SIGXCPU: code %d\n", last.si_code);
		fflush(stdout);
		burn_until(1000); /* until SIGKILL */
	}
	CHECK(wait(&status) > 0);
	printf("then %d\n", WTERMSIG(status));
}

int main(int argc, char **argv)
{
	(void)argv;
	setvbuf(stdout, NULL, _IOLBF, 1 << 12);
	intervals();
	posix_timers();
	errors();
	descriptors();
	if (argc > 1)
		cpu_limit();
	return 0;
}
