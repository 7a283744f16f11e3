/* SPDX-License-Identifier: MIT */
/*
 * An alarm every other millisecond, whose handler spoils registers and stack, while the program
 * moves data through pipes, forks, touches memory, computes with the FPU and starts threads:
 * nothing may be lost or changed. Prints the same as on Linux.
 */
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t alarms;

static void handler(int signo, siginfo_t *info, void *ctx)
{
	volatile char stack[5000];

	(void)info;
	(void)ctx;
	memset((char *)stack, signo, sizeof(stack));
	__asm__ volatile(
		"pcmpeqb %%xmm0, %%xmm0\n\tpcmpeqb %%xmm7, %%xmm7\n\tpcmpeqb %%xmm15, %%xmm15" ::
			: "xmm0", "xmm7", "xmm15");
	errno = 12345; /* the C library's, not the call's */
	alarms++;
}

static void storm(long us)
{
	const struct itimerval v = { { 0, us }, { 0, us } };

	CHECK(setitimer(ITIMER_REAL, &v, NULL) == 0);
}

static uint64_t produce(int fd, size_t total)
{
	uint64_t state = 42, h = HASH_INIT;
	unsigned char buf[3000];

	while (total) {
		const size_t n = total < sizeof(buf) ? total : sizeof(buf);
		size_t done = 0;

		for (size_t i = 0; i < n; i++)
			buf[i] = (unsigned char)next_random(&state);
		h = hash_bytes(h, buf, n);
		while (done < n) {
			const ssize_t w = write(fd, buf + done, n - done);

			CHECK(w > 0);
			done += (size_t)w;
		}
		total -= n;
	}
	return h;
}

static void pipes(void)
{
	const size_t total = 1 << 20;
	uint64_t h = HASH_INIT, sent;
	unsigned char buf[5000];
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	CHECK(pipe(fds) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		storm(3000); /* timers are not inherited */
		close(fds[0]);
		_exit(produce(fds[1], total) == 0);
	}
	close(fds[1]);
	while ((n = read(fds[0], buf, sizeof(buf))) > 0)
		h = hash_bytes(h, buf, (size_t)n);
	CHECK(n == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	close(fds[0]);
	fds[1] = open("/dev/null", O_WRONLY);
	CHECK(fds[1] >= 0);
	sent = produce(fds[1], total);
	close(fds[1]);
	printf("pipe: %s\n", sent == h ? "same bytes" : "differs");
}

static void forks(void)
{
	int sum = 0, status;

	for (int i = 0; i < 30; i++) {
		const pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0)
			_exit(i);
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		sum += WEXITSTATUS(status);
	}
	printf("forks: %d\n", sum);
}

static void memory(void)
{
	const size_t size = 8 * MB;
	uint64_t h = HASH_INIT;

	for (int round = 0; round < 3; round++) {
		uint64_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);

		CHECK(p != MAP_FAILED);
		for (size_t i = 0; i < size / 8; i += PAGE / 16)
			p[i] = i * 3;
		for (size_t i = 0; i < size / 8; i += PAGE / 16)
			h = hash_word(h, p[i]);
		CHECK(munmap(p, size) == 0);
	}
	printf("memory: %016lx\n", (unsigned long)h);
}

static void numbers(void)
{
	double x = 1, y = 0.5, z = 2;

	for (int i = 1; i < 3000000; i++) {
		x = x * 1.0000001 + y / (double)i;
		y = y * 0.9999999 + 0.25;
		z += x - y;
	}
	printf("numbers: %a %a %a\n", x, y, z);
}

static void *add(void *arg)
{
	for (int i = 0; i < 1000; i++)
		__atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void threads(void)
{
	int sum = 0;

	for (int round = 0; round < 20; round++) {
		pthread_t t[4];

		for (int i = 0; i < 4; i++)
			CHECK(pthread_create(&t[i], NULL, add, &sum) == 0);
		for (int i = 0; i < 4; i++)
			CHECK(pthread_join(t[i], NULL) == 0);
	}
	printf("threads: %d\n", sum);
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART };

	CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	storm(2000);
	pipes();
	forks();
	memory();
	numbers();
	threads();
	storm(0);
	printf("alarms: %s\n", alarms > 10 ? "many" : "few");
	return 0;
}
