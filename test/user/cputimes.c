/* SPDX-License-Identifier: MIT */
/*
 * User and system time apart: getrusage, times, /proc, CPU clocks, interval timers. Says which part grew, and that they
 * fit together; no numbers. Prints the same as on Linux.
 */
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>

#define MS 1000000L

static char megabyte[MB];
static int zero;
static volatile sig_atomic_t ticks;

static long now(clockid_t clock)
{
	struct timespec ts;

	CHECK(clock_gettime(clock, &ts) == 0);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

static void burn_user(long ns)
{
	const long end = now(CLOCK_THREAD_CPUTIME_ID) + ns;
	volatile unsigned long n = 0;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end) {
		for (int i = 0; i < 2000000; i++)
			n += (unsigned long)i;
	}
}

static void burn_system(long ns)
{
	const long end = now(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		CHECK(read(zero, megabyte, sizeof(megabyte)) == (ssize_t)sizeof(megabyte));
}

static long us(struct timeval tv)
{
	return tv.tv_sec * 1000000 + tv.tv_usec;
}

struct split {
	long user, system;
};

static struct split used(int who)
{
	struct rusage ru;

	CHECK(getrusage(who, &ru) == 0);
	return (struct split){ us(ru.ru_utime), us(ru.ru_stime) };
}

static void grew(const char *what, struct split a, struct split b)
{
	const long user = b.user - a.user, system = b.system - a.system;

	CHECK(user >= 0 && system >= 0);
	printf("%s: %s\n", what,
	       user > 3 * system   ? "user"
	       : system > 3 * user ? "system"
				   : "both");
}

static void *in_thread(void *arg)
{
	const struct split a = used(RUSAGE_THREAD);

	burn_system(150 * MS);
	grew("a thread in the kernel", a, used(RUSAGE_THREAD));
	return arg;
}

static void own(void)
{
	struct split a = used(RUSAGE_SELF), b;
	pthread_t t;

	burn_user(150 * MS);
	b = used(RUSAGE_SELF);
	grew("counting", a, b);
	burn_system(150 * MS);
	a = used(RUSAGE_SELF);
	grew("reading zeroes", b, a);
	CHECK(pthread_create(&t, NULL, in_thread, NULL) == 0);
	CHECK(pthread_join(t, NULL) == 0);
	grew("the process, by its thread that is gone", a, used(RUSAGE_SELF));
}

static void children(void)
{
	const struct split before = used(RUSAGE_CHILDREN);
	const pid_t pid = fork();
	struct rusage ru;
	struct tms tms;
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		burn_system(150 * MS);
		_exit(0);
	}
	CHECK(wait4(pid, &status, 0, &ru) == pid && status == 0);
	grew("a child, by wait4", (struct split){ 0, 0 },
	     (struct split){ us(ru.ru_utime), us(ru.ru_stime) });
	grew("children", before, used(RUSAGE_CHILDREN));
	CHECK(times(&tms) != (clock_t)-1);
	grew("children, by times", (struct split){ 0, 0 },
	     (struct split){ tms.tms_cutime, tms.tms_cstime });
}

/* What is told in different places must be the same within @slack of a second's hundredths. */
static void agree(void)
{
	const long hz = sysconf(_SC_CLK_TCK), slack = 5;
	unsigned long utime, stime;
	struct split s;
	struct tms tms;
	char text[1024], *at;
	FILE *f = fopen("/proc/self/stat", "r");

	CHECK(f && fgets(text, sizeof(text), f));
	fclose(f);
	at = strrchr(text, ')');
	CHECK(at && sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &utime,
			   &stime) == 2);
	times(&tms);
	s = used(RUSAGE_SELF);
	CHECK(labs((long)utime - tms.tms_utime) <= slack &&
	      labs((long)stime - tms.tms_stime) <= slack);
	CHECK(labs(s.user * hz / 1000000 - tms.tms_utime) <= slack);
	CHECK(labs(s.system * hz / 1000000 - tms.tms_stime) <= slack);
	CHECK(labs((s.user + s.system) * 1000 - now(CLOCK_PROCESS_CPUTIME_ID)) < 50 * MS);
	puts("they agree");
}

static void count(int signo)
{
	(void)signo;
	ticks++;
}

static int fired(int which, void (*burn)(long ns))
{
	static const struct itimerval every = { { 0, 40000 }, { 0, 40000 } };

	ticks = 0;
	CHECK(setitimer(which, &every, NULL) == 0);
	burn(200 * MS);
	CHECK(setitimer(which, &(struct itimerval){ 0 }, NULL) == 0);
	return ticks > 0;
}

static void timers(void)
{
	signal(SIGVTALRM, count);
	signal(SIGPROF, count);
	printf("ITIMER_VIRTUAL: counting %d, reading zeroes %d\n", fired(ITIMER_VIRTUAL, burn_user),
	       fired(ITIMER_VIRTUAL, burn_system));
	printf("ITIMER_PROF: counting %d, reading zeroes %d\n", fired(ITIMER_PROF, burn_user),
	       fired(ITIMER_PROF, burn_system));
}

/* Ids that pthread_getcpuclockid() and its kin do not make: all time, and user time alone. */
static void clocks(void)
{
	enum {
		PROF = 0,
		VIRT = 1,
		SCHED = 2,
		THREAD = 4,
		OWN = ~7
	};
	const long prof = now(OWN | PROF), virt = now(OWN | VIRT), sched = now(OWN | SCHED);
	const long thread = now(OWN | THREAD | VIRT);
	struct timespec res;

	/* Linux counts the first two in ticks. */
	CHECK(prof > 200 * MS && sched > 200 * MS);
	printf("user time is part of it: %d, of the thread's: %d\n",
	       virt > 50 * MS && virt < sched / 4 * 3,
	       thread > 0 && thread < now(OWN | THREAD | SCHED) / 4 * 3);
	printf("resolution: %d\n", clock_getres(OWN | SCHED, &res));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	zero = open("/dev/zero", O_RDONLY);
	CHECK(zero >= 0);
	own();
	clocks();
	children();
	agree();
	timers();
	return 0;
}
