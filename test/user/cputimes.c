/* SPDX-License-Identifier: MIT */
/*
 * User and system time apart: getrusage, times, /proc, CPU clocks, interval timers. Says which
 * part grew, and that they fit together; no numbers. Prints the same as on Linux.
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

#define MS    1000000L
#define TRIES 8

static char megabyte[MB];
static int zero;
static volatile sig_atomic_t ticks;

static long now(clockid_t clock)
{
	struct timespec ts;

	CHECK(clock_gettime(clock, &ts) == 0);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

static void burn_user_for(long ns)
{
	const long end = now(CLOCK_THREAD_CPUTIME_ID) + ns;
	volatile unsigned long n = 0;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end) {
		for (int i = 0; i < 2000000; i++)
			n += (unsigned long)i;
	}
}

static void burn_system_for(long ns)
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

/* Beside RUSAGE_SELF and its kin. */
enum {
	BY_WAIT4 = 100,
	BY_TIMES
};

static struct split waited; /* what wait4() has said of all children */

static struct split used(int who)
{
	struct rusage ru;
	struct tms tms;

	if (who == BY_WAIT4)
		return waited;
	if (who == BY_TIMES) {
		CHECK(times(&tms) != (clock_t)-1);
		return (struct split){ tms.tms_cutime, tms.tms_cstime };
	}
	CHECK(getrusage(who, &ru) == 0);
	return (struct split){ us(ru.ru_utime), us(ru.ru_stime) };
}

static const char *grown(struct split a, struct split b)
{
	const long user = b.user - a.user, system = b.system - a.system;

	CHECK(user >= 0 && system >= 0);
	return user > 3 * system ? "user" : system > 3 * user ? "system" : "both";
}

/*
 * Which part of the time of @who grows while @burn runs. The time that a virtual machine loses
 * counts for what was running: once in a while that is the other part, so there are some tries.
 */
static void grows(const char *what, const char *part, int who, void (*burn)(void))
{
	const char *is;

	for (int i = 0; i < TRIES; i++) {
		const struct split before = used(who);

		burn();
		is = grown(before, used(who));
		if (strcmp(is, part) == 0)
			break;
	}
	printf("%s: %s\n", what, is);
}

static void burn_user(void)
{
	burn_user_for(150 * MS);
}

static void burn_system(void)
{
	burn_system_for(150 * MS);
}

static void *in_thread(void *arg)
{
	if (arg)
		burn_system();
	else
		grows("a thread in the kernel", "system", RUSAGE_THREAD, burn_system);
	return arg;
}

static void burn_in_thread(void)
{
	pthread_t t;

	CHECK(pthread_create(&t, NULL, in_thread, &zero) == 0);
	CHECK(pthread_join(t, NULL) == 0);
}

static void own(void)
{
	pthread_t t;

	grows("counting", "user", RUSAGE_SELF, burn_user);
	grows("reading zeroes", "system", RUSAGE_SELF, burn_system);
	CHECK(pthread_create(&t, NULL, in_thread, NULL) == 0);
	CHECK(pthread_join(t, NULL) == 0);
	grows("the process, by its thread that is gone", "system", RUSAGE_SELF, burn_in_thread);
}

static void burn_in_child(void)
{
	struct rusage ru;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		burn_system();
		_exit(0);
	}
	CHECK(wait4(pid, &status, 0, &ru) == pid && status == 0);
	waited.user += us(ru.ru_utime);
	waited.system += us(ru.ru_stime);
}

static void children(void)
{
	grows("a child, by wait4", "system", BY_WAIT4, burn_in_child);
	grows("children", "system", RUSAGE_CHILDREN, burn_in_child);
	grows("children, by times", "system", BY_TIMES, burn_in_child);
}

static long hundredths(long us)
{
	return us / (1000000 / sysconf(_SC_CLK_TCK));
}

static int between(long low, long value, long high)
{
	const long slack = 5;

	return value >= low - slack && value <= high + slack;
}

/*
 * Different calls report the same times within some hundredths of a second, plus the time that
 * goes by from the first call to the last one.
 */
static void agree(void)
{
	const struct split a = used(RUSAGE_SELF);
	unsigned long utime, stime;
	struct split b;
	struct tms tms;
	long cpu;
	char text[1024], *at;
	FILE *f = fopen("/proc/self/stat", "r");

	CHECK(f && fgets(text, sizeof(text), f));
	fclose(f);
	at = strrchr(text, ')');
	CHECK(at && sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &utime,
			   &stime) == 2);
	times(&tms);
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	b = used(RUSAGE_SELF);
	CHECK(between(hundredths(a.user), (long)utime, hundredths(b.user)));
	CHECK(between(hundredths(a.system), (long)stime, hundredths(b.system)));
	CHECK(between(hundredths(a.user), tms.tms_utime, hundredths(b.user)));
	CHECK(between(hundredths(a.system), tms.tms_stime, hundredths(b.system)));
	CHECK(between(hundredths(a.user + a.system), hundredths(cpu / 1000),
		      hundredths(b.user + b.system)));
	puts("they agree");
}

static void count(int signo)
{
	(void)signo;
	ticks++;
}

/* Tries again, as grows() does, for a timer of time that should not pass. */
static int fires(int which, void (*burn)(long ns), int should)
{
	static const struct itimerval every = { { 0, 40000 }, { 0, 40000 } };

	for (int i = 0; i < TRIES; i++) {
		ticks = 0;
		CHECK(setitimer(which, &every, NULL) == 0);
		burn(200 * MS);
		CHECK(setitimer(which, &(struct itimerval){ 0 }, NULL) == 0);
		if ((ticks > 0) == should)
			break;
	}
	return ticks > 0;
}

static void timers(void)
{
	signal(SIGVTALRM, count);
	signal(SIGPROF, count);
	printf("ITIMER_VIRTUAL: counting %d, reading zeroes %d\n",
	       fires(ITIMER_VIRTUAL, burn_user_for, 1), fires(ITIMER_VIRTUAL, burn_system_for, 0));
	printf("ITIMER_PROF: counting %d, reading zeroes %d\n",
	       fires(ITIMER_PROF, burn_user_for, 1), fires(ITIMER_PROF, burn_system_for, 1));
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
	const long user = used(RUSAGE_SELF).user, thread_user = used(RUSAGE_THREAD).user;
	const long prof = now(OWN | PROF), virt = now(OWN | VIRT), sched = now(OWN | SCHED);
	const long thread = now(OWN | THREAD | VIRT);
	const long later = used(RUSAGE_SELF).user, thread_later = used(RUSAGE_THREAD).user;
	struct timespec res;

	/* Linux counts the first two in ticks. */
	CHECK(prof > 200 * MS && sched > 200 * MS && sched > virt);
	printf("user time is part of it: %d, of the thread's: %d\n",
	       virt > 50 * MS &&
		       between(hundredths(user), hundredths(virt / 1000), hundredths(later)),
	       thread > 0 && between(hundredths(thread_user), hundredths(thread / 1000),
				     hundredths(thread_later)));
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
