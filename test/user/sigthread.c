/* SPDX-License-Identifier: MIT */
/*
 * Signals among threads: which one takes a signal, masks, stacks and pending signals of their own,
 * faults, stops and ends of all. Prints the same as on Linux.
 */
#include "user.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static pthread_t first, second;
static sem_t go, done;
static volatile sig_atomic_t who, code;

static void handler(int signo, siginfo_t *i, void *ctx)
{
	(void)signo;
	(void)ctx;
	code = i->si_code;
	/* Last: it is what await_handler() looks at. */
	who = pthread_equal(pthread_self(), first) ? 1 : 2;
}

static void handle(int signo)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	CHECK(sigaction(signo, &sa, NULL) == 0);
}

static sigset_t one(int signo)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, signo);
	return s;
}

static void block(int signo)
{
	const sigset_t s = one(signo);

	CHECK(pthread_sigmask(SIG_BLOCK, &s, NULL) == 0);
}

static void unblock(int signo)
{
	const sigset_t s = one(signo);

	CHECK(pthread_sigmask(SIG_UNBLOCK, &s, NULL) == 0);
}

static void wait_sem(sem_t *s)
{
	while (sem_wait(s))
		CHECK(errno == EINTR);
}

static void await_handler(void)
{
	while (!who)
		sched_yield();
}

/* Runs a step when told to, until told to end. */
static void (*step)(void);

static void *worker(void *arg)
{
	(void)arg;
	for (;;) {
		wait_sem(&go);
		if (!step)
			return NULL;
		step();
		sem_post(&done);
	}
}

static void run(void (*fn)(void))
{
	step = fn;
	sem_post(&go);
	if (fn)
		wait_sem(&done);
}

static void unblock_usr1(void)
{
	unblock(SIGUSR1);
}

static void block_usr1(void)
{
	block(SIGUSR1);
}

static void show_mask(void)
{
	sigset_t s;
	stack_t ss;

	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &s) == 0);
	CHECK(sigaltstack(NULL, &ss) == 0);
	printf("worker: USR1 %d USR2 %d, altstack %s\n", sigismember(&s, SIGUSR1),
	       sigismember(&s, SIGUSR2), ss.ss_flags == SS_DISABLE ? "none" : "some");
}

static void show_pending(void)
{
	sigset_t s;

	CHECK(sigpending(&s) == 0);
	printf("worker sees: USR1 %d USR2 %d\n", sigismember(&s, SIGUSR1),
	       sigismember(&s, SIGUSR2));
}

static void choice(void)
{
	stack_t ss = { .ss_sp = malloc(65536), .ss_size = 65536 };

	CHECK(sigaltstack(&ss, NULL) == 0);
	handle(SIGUSR1);
	handle(SIGUSR2);
	block(SIGUSR1);
	CHECK(pthread_create(&second, NULL, worker, NULL) == 0);
	run(show_mask); /* inherited; the stack is not */
	run(unblock_usr1);
	who = 0;
	kill(getpid(), SIGUSR1); /* the first one blocks it */
	await_handler();
	printf("process signal: thread %d code %d\n", who, code);
	run(block_usr1);
	who = 0;
	kill(getpid(), SIGUSR1);
	CHECK(pthread_kill(second, SIGUSR2) == 0);
	await_handler();
	printf("thread signal: thread %d code %d\n", who, code);
	who = 0;
	run(show_pending);
	run(unblock_usr1); /* takes what neither took */
	await_handler();
	printf("unblocked: thread %d\n", who);
	run(block_usr1);
	who = 0;
	CHECK(pthread_kill(first, SIGUSR1) == 0); /* blocked: the second one cannot have it */
	run(unblock_usr1);
	run(show_pending);
	printf("not for the second: %d\n", who);
	unblock(SIGUSR1);
	await_handler();
	printf("for the first: thread %d\n", who);
}

/* --- a thread that takes all ----------------------------------------------------------------- */

static void *taker(void *arg)
{
	sigset_t s;
	int signo, n = 0;

	(void)arg;
	sigfillset(&s);
	do {
		CHECK(sigwait(&s, &signo) == 0);
		printf("taken %d\n", signo);
		sem_post(&done);
		n++;
	} while (signo != SIGTERM);
	return (void *)(intptr_t)n;
}

static void block_all(void)
{
	sigset_t s;

	sigfillset(&s);
	CHECK(pthread_sigmask(SIG_SETMASK, &s, NULL) == 0);
}

static void unblock_all(void)
{
	sigset_t s;

	sigemptyset(&s);
	CHECK(pthread_sigmask(SIG_SETMASK, &s, NULL) == 0);
}

static void waiting(void)
{
	sigset_t s, old;
	pthread_t t;
	void *n;

	run(block_all);
	sigfillset(&s);
	CHECK(pthread_sigmask(SIG_SETMASK, &s, &old) == 0);
	CHECK(pthread_create(&t, NULL, taker, NULL) == 0);
	for (int i = 0; i < 3; i++) {
		kill(getpid(), SIGHUP); /* would end the process if it were delivered */
		wait_sem(&done);
	}
	kill(getpid(), SIGTERM);
	wait_sem(&done);
	CHECK(pthread_join(t, &n) == 0);
	printf("taken in all: %d\n", (int)(intptr_t)n);
	CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
}

/* --- timers to threads ------------------------------------------------------------------------ */

static pid_t worker_tid;

static void tell_tid(void)
{
	worker_tid = (pid_t)syscall(SYS_gettid);
}

static void notified(union sigval v)
{
	printf("SIGEV_THREAD: value %d\n", v.sival_int);
	sem_post(&done);
}

static void timers(void)
{
	const struct itimerspec soon = { { 0, 0 }, { 0, 1000000 } };
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2 };
	timer_t t;

	run(tell_tid);
	run(unblock_all);
	ev._sigev_un._tid = worker_tid;
	who = 0;
	CHECK(timer_create(CLOCK_MONOTONIC, &ev, &t) == 0);
	CHECK(timer_settime(t, 0, &soon, NULL) == 0);
	await_handler();
	printf("SIGEV_THREAD_ID: thread %d code %d\n", who, code);
	CHECK(timer_delete(t) == 0);
	ev = (struct sigevent){ .sigev_notify = SIGEV_THREAD, .sigev_notify_function = notified };
	ev.sigev_value.sival_int = 12;
	CHECK(timer_create(CLOCK_MONOTONIC, &ev, &t) == 0);
	CHECK(timer_settime(t, 0, &soon, NULL) == 0);
	wait_sem(&done);
	CHECK(timer_delete(t) == 0);
}

/* --- all of them ------------------------------------------------------------------------------ */

static void fault_handler(int signo, siginfo_t *i, void *ctx)
{
	(void)ctx;
	printf("fault %d in thread %d\n", signo, pthread_equal(pthread_self(), first) ? 1 : 2);
	CHECK(mprotect((void *)((uintptr_t)i->si_addr & ~(PAGE - 1)), PAGE,
		       PROT_READ | PROT_WRITE) == 0);
}

static char *page;

static void touch(void)
{
	*(volatile char *)page = 1;
}

static void faults(void)
{
	struct sigaction sa = { .sa_sigaction = fault_handler, .sa_flags = SA_SIGINFO };

	CHECK(sigaction(SIGSEGV, &sa, NULL) == 0);
	page = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	run(touch);
	page += PAGE;
	touch();
	signal(SIGSEGV, SIG_DFL);
}

static void *spin(void *arg)
{
	while (!arg)
		sched_yield();
	return NULL;
}

static void *sleep_long(void *arg)
{
	while (!arg)
		pause();
	return NULL;
}

static void *raise_in_thread(void *arg)
{
	raise((int)(intptr_t)arg);
	return NULL;
}

static void many(int signo)
{
	pthread_t t;

	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&t, NULL, i & 1 ? spin : sleep_long, NULL) == 0);
	CHECK(pthread_create(&t, NULL, raise_in_thread, (void *)(intptr_t)signo) == 0);
	pause();
}

static void whole_processes(void)
{
	const int ends[] = { SIGTERM, SIGSEGV, SIGKILL, SIGRTMIN };
	int status;
	pid_t pid;

	for (size_t i = 0; i < 4; i++) {
		fflush(stdout);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			many(ends[i]);
		CHECK(waitpid(pid, &status, 0) == pid);
		printf("all end: %d\n", WTERMSIG(status));
	}
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		many(SIGSTOP);
	for (int i = 0; i < 5; i++) {
		CHECK(waitpid(pid, &status, WUNTRACED) == pid);
		printf("all stop: %d %d\n", WIFSTOPPED(status), WSTOPSIG(status));
		kill(pid, SIGCONT);
		CHECK(waitpid(pid, &status, WCONTINUED) == pid);
		printf("all go on: %d\n", WIFCONTINUED(status));
		kill(pid, SIGSTOP);
	}
	kill(pid, SIGKILL);
	do
		CHECK(waitpid(pid, &status, 0) == pid);
	while (!WIFSIGNALED(status));
	printf("end: %d\n", WTERMSIG(status));
}

/* Signals to a thread that ends: nothing is lost for the process, nobody hangs. */
static void *short_life(void *arg)
{
	(void)arg;
	unblock(SIGUSR1);
	return NULL;
}

static volatile sig_atomic_t taken;

static void count(int signo)
{
	(void)signo;
	taken = taken + 1;
}

static void endings(void)
{
	struct sigaction sa = { .sa_handler = count, .sa_flags = SA_RESTART };
	pthread_t t;

	CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
	block(SIGUSR1);
	for (int i = 0; i < 200; i++) {
		const int before = taken;

		CHECK(pthread_create(&t, NULL, short_life, NULL) == 0);
		kill(getpid(), SIGUSR1);
		CHECK(pthread_join(t, NULL) == 0);
		if (taken == before) {
			unblock(SIGUSR1);
			CHECK(taken == before + 1);
			block(SIGUSR1);
		}
	}
	printf("taken once each: %d\n", taken);
}

/* --- for a killer from outside ---------------------------------------------------------------- */

static void *in_futex(void *arg)
{
	wait_sem(&go);
	return arg;
}

static void *in_poll(void *arg)
{
	poll(NULL, 0, -1);
	return arg;
}

static void *in_wait(void *arg)
{
	if (fork() == 0)
		sleep_long(NULL);
	wait(NULL);
	return arg;
}

static void *in_sleep(void *arg)
{
	sleep(1000);
	return arg;
}

static int wait_in_every_way(void)
{
	static void *(*const ways[])(void *) = { in_futex, in_poll,    in_wait,
						 in_sleep, sleep_long, spin };
	pthread_t t;
	char c;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		CHECK(pthread_create(&t, NULL, ways[i], NULL) == 0);
	puts("all there");
	return (int)read(0, &c, 1);
}

int main(int argc, char **argv)
{
	(void)argv;
	setvbuf(stdout, NULL, _IOLBF, 1 << 12);
	first = pthread_self();
	CHECK(sem_init(&go, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
	if (argc > 1)
		return wait_in_every_way();
	choice();
	waiting();
	timers();
	faults();
	run(NULL);
	CHECK(pthread_join(second, NULL) == 0);
	endings();
	whole_processes();
	return 0;
}
