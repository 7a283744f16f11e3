/* SPDX-License-Identifier: MIT */
/*
 * CPUs of tasks: sched_setaffinity and its kin, on the first two CPUs; scheduling policies. Prints
 * the same as on Linux.
 */
#include "call.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int only(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(pid, sizeof(set), &set);
}

/* Which of the first two the task may run on, as bits. */
static unsigned int may(pid_t pid)
{
	cpu_set_t set;

	CHECK(sched_getaffinity(pid, sizeof(set), &set) == 0);
	return (unsigned int)(CPU_ISSET(0, &set) != 0) | (unsigned int)(CPU_ISSET(1, &set) != 0)
								 << 1;
}

static void allowed_line(const char *when)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "Cpus_allowed_list:", 18) == 0)
			printf("%s: %s", when, line);
	}
	fclose(f);
}

static void moving(void)
{
	int wrong = 0;

	for (int i = 0; i < 200; i++) {
		CHECK(only(0, i % 2) == 0);
		wrong += sched_getcpu() != i % 2;
	}
	printf("200 moves, %d wrong\n", wrong);
}

static void *inherited(void *arg)
{
	printf("a thread may run on %#x, is on %d\n", may(0), sched_getcpu());
	return arg;
}

static void inheriting(char **argv)
{
	pthread_t t;
	int status;
	pid_t pid;

	CHECK(only(0, 1) == 0);
	allowed_line("one");
	CHECK(pthread_create(&t, NULL, inherited, NULL) == 0);
	CHECK(pthread_join(t, NULL) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		printf("a child may run on %#x, is on %d\n", may(0), sched_getcpu());
		fflush(stdout);
		execl(argv[0], argv[0], "after-exec", NULL);
		_exit(1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static volatile int seen[2], stop;
static volatile pid_t spinner_tid;

static void *spinner(void *arg)
{
	spinner_tid = gettid();
	while (!stop)
		__atomic_store_n(&seen[sched_getcpu() & 1], 1, __ATOMIC_SEQ_CST);
	return arg;
}

/* Another thread is moved while it runs: it gets there, and is on no other from then on. */
static void moved_by_others(void)
{
	pthread_t t;
	cpu_set_t both;
	int wrong = 0;

	CPU_ZERO(&both);
	CPU_SET(0, &both);
	CPU_SET(1, &both);
	CHECK(sched_setaffinity(0, sizeof(both), &both) == 0);
	CHECK(pthread_create(&t, NULL, spinner, NULL) == 0);
	while (!spinner_tid)
		sched_yield();
	for (int i = 0; i < 20; i++) {
		const int to = i % 2;

		CHECK(only(spinner_tid, to) == 0);
		__atomic_store_n(&seen[to], 0, __ATOMIC_SEQ_CST);
		while (!__atomic_load_n(&seen[to], __ATOMIC_SEQ_CST))
			sched_yield();
		__atomic_store_n(&seen[!to], 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&seen[to], 0, __ATOMIC_SEQ_CST);
		while (!__atomic_load_n(&seen[to], __ATOMIC_SEQ_CST))
			sched_yield();
		wrong += seen[!to];
	}
	stop = 1;
	CHECK(pthread_join(t, NULL) == 0);
	printf("moved by another thread, %d wrong\n", wrong);
}

static void errors(void)
{
	cpu_set_t set;
	int status;
	pid_t pid;

	CPU_ZERO(&set);
	call("none", sched_setaffinity(0, sizeof(set), &set));
	CPU_SET(1000, &set);
	call("one that is not there", sched_setaffinity(0, sizeof(set), &set));
	CPU_SET(0, &set);
	call("with one that is", sched_setaffinity(0, sizeof(set), &set));
	printf("left: %#x\n", may(0));
	call("no bytes", sched_setaffinity(0, 0, &set));
	call("one byte", syscall(SYS_sched_setaffinity, 0, 1, &set));
	call("no address", syscall(SYS_sched_setaffinity, 0, 8, 8));
	call("no such task", only(0x3fffff, 0));
	call("negative", only(-1, 0));
	call("get: no such task", sched_getaffinity(0x3fffff, sizeof(set), &set));
	call("get: 4 bytes", syscall(SYS_sched_getaffinity, 0, 4, &set));
	call("get: 8 at no address", syscall(SYS_sched_getaffinity, 0, 128, 8));
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		if (geteuid() == 0)
			CHECK(setuid(1234) == 0);
		call("of another user", only(getppid(), 0));
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void policies(void)
{
	struct sched_param p = { 0 };
	int status;
	pid_t pid;

	call("policy", sched_getscheduler(0));
	call("batch", sched_setscheduler(0, SCHED_BATCH, &p));
	call("policy", sched_getscheduler(0));
	call("param", sched_getparam(0, &p));
	printf("priority %d\n", p.sched_priority);
	call("setparam", sched_setparam(0, &p));
	p.sched_priority = 1;
	call("setparam 1", sched_setparam(0, &p));
	call("other 1", sched_setscheduler(0, SCHED_OTHER, &p));
	p.sched_priority = 100;
	call("fifo 100", sched_setscheduler(0, SCHED_FIFO, &p));
	p.sched_priority = 0;
	call("fifo 0", sched_setscheduler(0, SCHED_FIFO, &p));
	call("policy 4", sched_setscheduler(0, 4, &p));
	call("policy 77", sched_setscheduler(0, 77, &p));
	call("policy -1", sched_setscheduler(0, -1, &p));
	call("no param", sched_setscheduler(0, SCHED_OTHER, NULL));
	call("no such task", sched_setscheduler(0x3fffff, SCHED_OTHER, &p));
	call("getscheduler -1", sched_getscheduler(-1));
	call("getparam NULL", sched_getparam(0, NULL));
	call("idle, reset", sched_setscheduler(0, SCHED_IDLE | SCHED_RESET_ON_FORK, &p));
	call("policy", sched_getscheduler(0));
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		call("a child's policy", sched_getscheduler(0));
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	for (int policy = 0; policy < 7; policy++)
		printf("%d: %d to %d\n", policy, sched_get_priority_min(policy),
		       sched_get_priority_max(policy));
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1) {
		printf("after exec: may run on %#x, is on %d\n", may(0), sched_getcpu());
		return 0;
	}
	printf("at first: %#x\n", may(0));
	moving();
	inheriting(argv);
	moved_by_others();
	errors();
	policies();
	return 0;
}
