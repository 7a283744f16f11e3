/* SPDX-License-Identifier: MIT */
/*
 * For make bench: what basic operations cost, in nanoseconds of CLOCK_MONOTONIC each (instructions
 * where QEMU counts them: -icount shift=0).
 *
 * ops NAME...	one line "name figure" per operation: the median of BATCHES batches.
 * ops		all of them.  As process 1 of a Linux guest it powers the machine off afterwards.
 */
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define BATCHES 11

static const char *self;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000UL + (uint64_t)ts.tv_nsec;
}

static void null_call(int n)
{
	while (n-- > 0)
		syscall(SYS_getppid);
}

static void clock_read(int n)
{
	while (n-- > 0)
		now_ns();
}

static void read_one(int n)
{
	static int fd = -1;
	char c;

	if (fd < 0)
		fd = open("/dev/zero", O_RDONLY);
	CHECK(fd >= 0);
	while (n-- > 0)
		CHECK(read(fd, &c, 1) == 1);
}

/* First touches of anonymous memory; mmap and munmap are in it, once per batch. */
static void minor_fault(int n)
{
	const size_t len = (size_t)n * PAGE;
	volatile char *p =
		mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	for (int i = 0; i < n; i++)
		p[(size_t)i * PAGE] = 1;
	CHECK(munmap((void *)p, len) == 0);
}

/* A mapping of 64 KiB that is written and goes again, as an allocator or a collector makes them. */
static void map_and_unmap(int n)
{
	while (n-- > 0)
		minor_fault(16);
}

/*
 * Another process that sends every byte back, until we end. Made by the first batch, which is not
 * counted.
 */
static void echo_start(int there[2], int back[2])
{
	char c;

	CHECK(pipe(there) == 0 && pipe(back) == 0);
	switch (fork()) {
	case -1:
		die("fork: %s", strerror(errno));
	case 0:
		close(there[1]);
		close(back[0]);
		while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
			;
		_exit(0);
	}
	close(there[0]);
	close(back[1]);
}

/* A byte to the other process and back: two switches and four calls. */
static void pipe_round_trip(int n)
{
	static int there[2], back[2];
	char c = 'x';

	if (!there[1])
		echo_start(there, back);
	for (int i = 0; i < n; i++)
		CHECK(write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1);
}

static void *yielder(void *arg)
{
	for (int i = 0; i < *(int *)arg; i++)
		sched_yield();
	return NULL;
}

/* Two threads that give way to each other: one yield and one switch per operation. */
static void context_switch(int n)
{
	pthread_t other;
	int half = n / 2;

	CHECK(pthread_create(&other, NULL, yielder, &half) == 0);
	yielder(&half);
	CHECK(pthread_join(other, NULL) == 0);
}

static void spawn(bool exec)
{
	const pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		if (exec)
			execl(self, self, "exit", (char *)NULL);
		_exit(exec ? 127 : 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void fork_exit(int n)
{
	while (n-- > 0)
		spawn(false);
}

static void fork_exec(int n)
{
	while (n-- > 0)
		spawn(true);
}

static void *nothing(void *arg)
{
	return arg;
}

static void thread_join(int n)
{
	while (n-- > 0) {
		pthread_t t;

		CHECK(pthread_create(&t, NULL, nothing, NULL) == 0);
		CHECK(pthread_join(t, NULL) == 0);
	}
}

static const struct op {
	const char *name;
	int batch;
	void (*run)(int n);
} ops[] = {
	{ "null", 1000, null_call },       { "clock", 1000, clock_read },
	{ "read1", 1000, read_one },       { "fault", 256, minor_fault },
	{ "map", 100, map_and_unmap },     { "pipe", 200, pipe_round_trip },
	{ "switch", 400, context_switch }, { "fork", 20, fork_exit },
	{ "exec", 10, fork_exec },         { "thread", 50, thread_join },
};

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void measure(const struct op *op)
{
	uint64_t figure[BATCHES];

	op->run(op->batch); /* pages, caches, credits */
	for (int i = 0; i < BATCHES; i++) {
		const uint64_t start = now_ns();

		op->run(op->batch);
		figure[i] = (now_ns() - start) / (uint64_t)op->batch;
	}
	qsort(figure, BATCHES, sizeof(figure[0]), by_value);
	printf("%s %lu\n", op->name, (unsigned long)figure[BATCHES / 2]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc == 2 && strcmp(argv[1], "exit") == 0)
		return 0;
	if (getpid() == 1) {
		mkdir("/dev", 0755);
		(void)mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	}
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		bool wanted = argc < 2 || getpid() == 1;

		for (int a = 1; a < argc; a++)
			wanted |= strcmp(argv[a], ops[i].name) == 0;
		if (wanted)
			measure(&ops[i]);
	}
	if (getpid() == 1) {
		printf("ops done\n");
		fflush(stdout);
		reboot(RB_POWER_OFF);
	}
	return 0;
}
