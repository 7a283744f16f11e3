/* SPDX-License-Identifier: MIT */
/*
 * The vDSO: clocks through the C library against the system calls; what must not be possible with
 * its pages. Prints what must hold everywhere; "vdso count" reads the clock a million times and
 * does little else.
 */
#include "user.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static const clockid_t clocks[] = {
	CLOCK_REALTIME,
	CLOCK_MONOTONIC,
	CLOCK_REALTIME_COARSE,
	CLOCK_MONOTONIC_COARSE,
	CLOCK_MONOTONIC_RAW,
	CLOCK_BOOTTIME,
	CLOCK_TAI,
};

static int64_t ns(const struct timespec *ts)
{
	return (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;
}

static int64_t by_library(clockid_t clock)
{
	struct timespec ts;

	CHECK(clock_gettime(clock, &ts) == 0 && ts.tv_nsec >= 0 && ts.tv_nsec < 1000000000);
	return ns(&ts);
}

static int64_t by_syscall(clockid_t clock)
{
	struct timespec ts;

	CHECK(syscall(SYS_clock_gettime, clock, &ts) == 0);
	return ns(&ts);
}

/*
 * Linux's coarse clocks stand still for up to a tick, so one may seem older than the fine one
 * before it.
 */
static void agree(void)
{
	for (size_t c = 0; c < sizeof(clocks) / sizeof(clocks[0]); c++) {
		const int coarse =
			clocks[c] == CLOCK_REALTIME_COARSE || clocks[c] == CLOCK_MONOTONIC_COARSE;
		const int64_t slack = coarse ? 10000000 : 0;

		for (int i = 0; i < 1000; i++) {
			const int64_t a = by_library(clocks[c]);
			const int64_t b = by_syscall(clocks[c]);
			const int64_t d = by_library(clocks[c]);

			CHECK(a <= b + slack && b <= d + slack);
		}
	}
	puts("clocks agree with the system calls");
}

static void others(void)
{
	struct timespec ts, raw;
	struct timezone tz;
	struct timeval tv;
	time_t t, s;

	CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) == 0);
	CHECK(clock_gettime(12345, &ts) == -1 && errno == EINVAL);
	CHECK(clock_gettime(-1000, &ts) == -1 && errno == EINVAL);
	for (size_t c = 0; c < sizeof(clocks) / sizeof(clocks[0]); c++) {
		CHECK(clock_getres(clocks[c], &ts) == 0);
		CHECK(syscall(SYS_clock_getres, clocks[c], &raw) == 0 && ns(&raw) == ns(&ts));
	}
	CHECK(clock_getres(CLOCK_REALTIME, NULL) == 0);
	s = time(NULL);
	CHECK(gettimeofday(&tv, &tz) == 0 && tv.tv_usec >= 0 && tv.tv_usec < 1000000);
	CHECK(time(&t) == t && tv.tv_sec - s <= 2 && tv.tv_sec >= s && t + 1 >= tv.tv_sec);
	CHECK(by_library(CLOCK_REALTIME) / 1000 >= tv.tv_sec * 1000000ll + tv.tv_usec);
	CHECK(sched_getcpu() >= 0);
	puts("other clocks and calls are right");
}

static void monotonic(void)
{
	int64_t last = by_library(CLOCK_MONOTONIC), now;

	for (int i = 0; i < 1000000; i++) {
		now = by_library(CLOCK_MONOTONIC);
		CHECK(now >= last);
		last = now;
	}
	puts("a million readings never went back");
}

/* A thread may move between two calls, so only most answers must agree. */
static void *cpus(void *arg)
{
	int same = 0, asked = 0;

	for (int i = 0; i < 2000; i++) {
		unsigned int before, after;
		int cpu;

		CHECK(syscall(SYS_getcpu, &before, NULL, NULL) == 0);
		cpu = sched_getcpu();
		CHECK(syscall(SYS_getcpu, &after, NULL, NULL) == 0);
		CHECK(cpu >= 0);
		if (before == after) {
			asked++;
			same += (unsigned int)cpu == before;
		}
	}
	CHECK(asked > 100 && same >= asked - 5);
	return arg;
}

static void getcpu_on_all(void)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&thread[i], NULL, cpus, NULL) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	puts("getcpu agrees with the system call");
}

/* A child has the same pages at the same place. */
static void in_a_child(void)
{
	const int64_t now = by_library(CLOCK_MONOTONIC);
	int status;
	pid_t child = fork();

	if (child == 0) {
		CHECK(!memcmp((void *)getauxval(AT_SYSINFO_EHDR), ELFMAG, SELFMAG));
		CHECK(by_library(CLOCK_MONOTONIC) >= now);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	puts("a child reads the clock, too");
}

static sigjmp_buf back;

static void on_segv(int signo)
{
	siglongjmp(back, signo);
}

/*
 * The pages are there, begin with an ELF header, can be read by the kernel, and cannot be written.
 */
static void pages(void)
{
	const unsigned long base = getauxval(AT_SYSINFO_EHDR);
	char copy[64];
	int fds[2];

	CHECK(base && !(base & 4095) && !memcmp((void *)base, ELFMAG, SELFMAG));
	signal(SIGSEGV, on_segv);
	if (sigsetjmp(back, 1) == 0) {
		*(volatile char *)base = 1;
		CHECK(0);
	}
	if (sigsetjmp(back, 1) == 0) {
		*(volatile char *)(base - 4096) = 1;
		CHECK(0);
	}
	if (syscall(SYS_pipe2, fds, 0) == 0) {
		CHECK(write(fds[1], (void *)base, sizeof(copy)) == sizeof(copy));
		CHECK(read(fds[0], copy, sizeof(copy)) == sizeof(copy));
		CHECK(!memcmp(copy, (void *)base, sizeof(copy)));
	}
	puts("the pages are as they should be");
}

/*
 * Try to change the pages of the vDSO, where the kernel refuses it: Linux lets a program shoot its
 * own foot.
 */
static void attack(void)
{
	const unsigned long base = getauxval(AT_SYSINFO_EHDR);

	CHECK(munmap((void *)base, 4096) == -1 && errno == EINVAL);
	CHECK(munmap((void *)(base - 4096), 8192) == -1 && errno == EINVAL);
	CHECK(mprotect((void *)base, 4096, PROT_READ | PROT_WRITE) == -1 && errno == ENOMEM);
	CHECK(mremap((void *)base, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED);
	CHECK(madvise((void *)base, 4096, MADV_DONTNEED) == -1);
	CHECK(mmap((void *)base, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		      MAP_FAILED &&
	      errno == ENOMEM);
	CHECK(mmap((void *)base, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	      (void *)base);
	CHECK(by_library(CLOCK_MONOTONIC) > 0);
	puts("nobody can change them");
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "count")) {
		monotonic();
		return 0;
	}
	agree();
	others();
	monotonic();
	getcpu_on_all();
	in_a_child();
	pages();
	if (argc > 1 && !strcmp(argv[1], "attack"))
		attack();
	return 0;
}
