/* SPDX-License-Identifier: MIT */
/*
 * Threads: threads MODE [N]
 *	mutex	8 threads hand work around with a mutex and a condition variable
 *	many	N threads at once, each with thread-local data
 *	churn	N times create and join
 *	exits	how a process with threads ends
 *	fork	children of a process with threads
 */
#include "state.h"
#include "user.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define NR 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static unsigned int turn;
static uint64_t sum;
static __thread uint64_t own;

static void start(pthread_t *t, void *(*fn)(void *), uintptr_t arg)
{
	pthread_attr_t attr;

	CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 65536) == 0);
	CHECK(pthread_create(t, &attr, fn, (void *)arg) == 0);
	pthread_attr_destroy(&attr);
}

/* --- mutex --------------------------------------------------------------------------------- */

static void *take_turns(void *arg)
{
	const unsigned int me = (unsigned int)(uintptr_t)arg;

	for (unsigned int round = 0; round < 200; round++) {
		pthread_mutex_lock(&lock);
		while (turn % NR != me)
			pthread_cond_wait(&turn_changed, &lock);
		sum = sum * 31 + me;
		turn++;
		pthread_cond_broadcast(&turn_changed);
		pthread_mutex_unlock(&lock);
	}
	return (void *)(uintptr_t)me;
}

static void mutex(void)
{
	pthread_t t[NR];

	for (unsigned int i = 0; i < NR; i++)
		start(&t[i], take_turns, i);
	for (unsigned int i = 0; i < NR; i++) {
		void *ret;

		CHECK(pthread_join(t[i], &ret) == 0 && (uintptr_t)ret == i);
	}
	printf("mutex: %u turns, %016lx\n", turn, (unsigned long)sum);
}

/* --- many, churn ------------------------------------------------------------------------------ */

static void *meet(void *arg)
{
	own = (uintptr_t)arg * 3;
	pthread_barrier_wait(&barrier);
	pthread_mutex_lock(&lock);
	sum += own + (syscall(SYS_gettid) != getpid());
	pthread_mutex_unlock(&lock);
	pthread_barrier_wait(&barrier);
	CHECK(own == (uintptr_t)arg * 3);
	return NULL;
}

static void many(unsigned int n)
{
	pthread_t *t = calloc(n, sizeof(*t));

	CHECK(t && pthread_barrier_init(&barrier, NULL, n) == 0);
	for (unsigned int i = 0; i < n; i++)
		start(&t[i], meet, i);
	for (unsigned int i = 0; i < n; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	printf("many: %u threads at once, %lu\n", n, (unsigned long)sum);
	free(t);
}

static void *add_one(void *arg)
{
	__atomic_fetch_add(&sum, (uintptr_t)arg, __ATOMIC_RELAXED);
	return arg;
}

static void churn(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		pthread_t t;

		start(&t, add_one, i);
		CHECK(pthread_join(t, NULL) == 0);
	}
	printf("churn: %u threads one after the other, %lu\n", n, (unsigned long)sum);
}

/* --- exits ------------------------------------------------------------------------------------ */

static int in_child(void (*fn)(void))
{
	pid_t pid;
	int st;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		fn();
		_exit(90);
	}
	CHECK(waitpid(pid, &st, 0) == pid);
	return st;
}

static void *sleeper(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *spinner(void *arg)
{
	for (;;)
		;
	return arg;
}

static void crowd(void)
{
	pthread_t t;

	for (int i = 0; i < NR; i++)
		start(&t, i % 2 ? sleeper : spinner, 0);
}

static void *exit_5(void *arg)
{
	exit(5);
	return arg;
}

static void *thread_exit_6(void *arg)
{
	await_first_gone();
	syscall(SYS_exit, 6);
	return arg;
}

static void *crash(void *arg)
{
	raise(SIGSEGV);
	return arg;
}

static void exit_by_a_thread(void)
{
	pthread_t t;

	crowd();
	start(&t, exit_5, 0);
	for (;;)
		pause();
}

static void first_leaves_first(void)
{
	pthread_t t;

	start(&t, thread_exit_6, 0);
	syscall(SYS_exit, 4); /* how the last task ends is how the process ends */
}

static void crash_in_a_thread(void)
{
	pthread_t t;

	crowd();
	start(&t, crash, 0);
	for (;;)
		pause();
}

static void killed(void)
{
	crowd();
	kill(getpid(), SIGKILL);
}

static void main_returns(void)
{
	crowd();
	exit(7);
}

static void exits(void)
{
	printf("exit() in a thread: %04x\n", (unsigned int)in_child(exit_by_a_thread));
	printf("the first task leaves first: %04x\n", (unsigned int)in_child(first_leaves_first));
	printf("SIGSEGV in a thread: %04x\n", (unsigned int)in_child(crash_in_a_thread) & 0x7f);
	printf("SIGKILL: %04x\n", (unsigned int)in_child(killed));
	printf("main returns: %04x\n", (unsigned int)in_child(main_returns));
}

/* --- fork ------------------------------------------------------------------------------------- */

static void only_task(void)
{
	struct timespec ts = { 0, 1000000 };

	/* The child has the one thread that has forked, under the process's number. */
	nanosleep(&ts, NULL);
	_exit(syscall(SYS_gettid) == getpid() && own == 77 ? 8 : 9);
}

static void *forker(void *arg)
{
	own = 77;
	return (void *)(uintptr_t)in_child(only_task) + (uintptr_t)arg;
}

static void forks(void)
{
	pthread_t t[NR];
	void *ret;

	fflush(stdout);
	for (unsigned int i = 0; i < NR; i++)
		start(&t[i], forker, 0);
	for (unsigned int i = 0; i < NR; i++) {
		CHECK(pthread_join(t[i], &ret) == 0);
		printf("child of thread %u: %04lx\n", i, (unsigned long)(uintptr_t)ret);
	}
	printf("nobody left: %s\n", waitpid(-1, NULL, 0) == -1 ? strerror(errno) : "somebody");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	const unsigned int n = (unsigned int)arg_number(argc, argv, 2, 200);

	if (!strcmp(mode, "mutex"))
		mutex();
	else if (!strcmp(mode, "many"))
		many(n);
	else if (!strcmp(mode, "churn"))
		churn(n);
	else if (!strcmp(mode, "exits"))
		exits();
	else if (!strcmp(mode, "fork"))
		forks();
	else
		die("unknown mode %s", mode);
	return 0;
}
