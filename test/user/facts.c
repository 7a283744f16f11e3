/* SPDX-License-Identifier: MIT */
/*
 * Calls whose results differ from machine to machine: checks what must hold everywhere and prints
 * only that it does.
 */
#include "user.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>

static int64_t ns(const struct timespec *ts)
{
	return (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;
}

static void clocks(void)
{
	struct timespec a, b, real, res;
	struct timeval tv;
	time_t t;

	for (int i = 0; i < 1000; i++) {
		CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &a) == 0);
		CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b) == 0);
		CHECK(ns(&a) <= ns(&b) && b.tv_nsec < 1000000000);
	}
	CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, &real) == 0);
	CHECK(syscall(SYS_gettimeofday, &tv, NULL) == 0);
	t = syscall(SYS_time, NULL);
	CHECK(tv.tv_sec >= real.tv_sec && tv.tv_sec - real.tv_sec < 10);
	CHECK(t >= real.tv_sec && t - real.tv_sec < 10);
	CHECK(real.tv_sec > 1700000000); /* the clock has been set */
	CHECK(clock_getres(CLOCK_MONOTONIC, &res) == 0 && ns(&res) > 0 && ns(&res) < 100000000);
	puts("clocks: ok");
}

static void sleeping(void)
{
	struct timespec a, b, want = { 0, 30000000 };

	clock_gettime(CLOCK_MONOTONIC, &a);
	CHECK(nanosleep(&want, NULL) == 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	CHECK(ns(&b) - ns(&a) >= 30000000 && ns(&b) - ns(&a) < 20000000000);
	puts("sleeping: ok");
}

static void randomness(void)
{
	unsigned char a[64], b[64], zero[64] = { 0 };

	CHECK(getrandom(a, sizeof(a), 0) == sizeof(a) && getrandom(b, sizeof(b), 0) == sizeof(b));
	CHECK(memcmp(a, b, sizeof(a)) && memcmp(a, zero, sizeof(a)));
	puts("randomness: ok");
}

static void system_facts(void)
{
	struct sysinfo si;
	struct utsname un;
	struct rlimit rl;

	CHECK(sysinfo(&si) == 0 && si.mem_unit > 0 && si.totalram >= si.freeram && si.procs > 0);
	CHECK(si.totalram * si.mem_unit >= 64 * MB);
	CHECK(uname(&un) == 0 && !strcmp(un.machine, "x86_64") && un.release[0] >= '3');
	CHECK(prlimit(0, RLIMIT_STACK, NULL, &rl) == 0 && rl.rlim_cur <= rl.rlim_max);
	CHECK(getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur >= 64);
	CHECK(sysconf(_SC_PAGESIZE) == 4096 && sysconf(_SC_NPROCESSORS_ONLN) >= 1);
	CHECK(getauxval(AT_PAGESZ) == 4096 && getauxval(AT_RANDOM) && getauxval(AT_PHDR));
	CHECK(getauxval(AT_UID) == getuid() && getauxval(AT_SECURE) == 0);
	puts("system: ok");
}

static void identity(void)
{
	CHECK(getpid() > 0 && getppid() >= 0 && syscall(SYS_gettid) == getpid());
	CHECK(getuid() == geteuid() && getgid() == getegid());
	printf("uid %u, gid %u, umask %o\n", getuid(), getgid(), umask(0));
}

static void environment(void)
{
	char cwd[256], exe[256];
	ssize_t n;

	CHECK(getcwd(cwd, sizeof(cwd)));
	printf("in %s\n", cwd);
	CHECK(chdir("/tmp") == 0 && getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, "/tmp"));
	CHECK(chdir("..") == 0 && getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, "/"));
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	CHECK(n > 0);
	exe[n] = '\0';
	printf("exe %s\n", strrchr(exe, '/') + 1);
}

int main(void)
{
	clocks();
	sleeping();
	randomness();
	system_facts();
	identity();
	environment();
	return 0;
}
