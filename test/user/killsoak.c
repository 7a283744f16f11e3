/* SPDX-License-Identifier: MIT */
/*
 * SIGKILL at random moments: killsoak SEED ROUNDS
 *
 * Each round starts one of four programs that never end by themselves, lets it go for a while,
 * kills its group and waits until everything that descends from it is gone. Afterwards no process,
 * descriptor or file is left; what the kernel has left its counters tell. Prints the same on
 * Linux.
 */
#include "user.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

#define HEAP    (2 * MB)
#define GONE_S  60
#define LONGEST 400000 /* microseconds that a program lives at most */

static const char *self;
static char *heap;

static void touch(char *p, size_t size, uint64_t *rnd)
{
	for (int i = 0; i < 20; i++)
		p[next_random(rnd) % size]++;
}

/* --- threads: futexes, a shared heap, mappings that come and go ---------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *short_life(void *arg)
{
	return arg;
}

static void *thread(void *arg)
{
	uint64_t rnd = (uintptr_t)arg * 77 + 1;

	for (;;) {
		char *own = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_t t;

		CHECK(own != MAP_FAILED);
		touch(own, 16 * PAGE, &rnd);
		pthread_mutex_lock(&lock);
		touch(heap, HEAP, &rnd);
		pthread_mutex_unlock(&lock);
		CHECK(mprotect(own, PAGE, PROT_READ) == 0 && munmap(own, 16 * PAGE) == 0);
		CHECK(madvise(heap + MB, 64 * PAGE, MADV_DONTNEED) == 0);
		CHECK(pthread_create(&t, NULL, short_life, NULL) == 0 &&
		      pthread_join(t, NULL) == 0);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t;

	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&t, NULL, thread, (void *)(i + 1)) == 0);
	thread((void *)9);
}

/* --- processes: copies of written memory, pipes, tmpfs, shared memory ---------------------- */

static void family(void)
{
	const int file = open("/tmp/killsoak", O_RDWR | O_CREAT, 0600),
		  mem = memfd_create("killsoak", 0);
	char *shared, *mapped, *both;
	uint64_t rnd = (uint64_t)getpid();

	CHECK(file >= 0 && mem >= 0 && ftruncate(file, MB) == 0 && ftruncate(mem, MB) == 0);
	shared = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	mapped = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	both = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
	CHECK(shared != MAP_FAILED && mapped != MAP_FAILED && both != MAP_FAILED);
	for (;;) {
		static char buf[65536];
		int fds[2];
		pid_t pid;

		CHECK(pipe(fds) == 0);
		pid = fork();
		CHECK(pid >= 0);
		touch(heap, HEAP, &rnd);
		touch(shared, MB, &rnd);
		if (!pid) {
			/* Some have a child of their own, which outlives them. */
			if (next_random(&rnd) % 2 && fork() == 0)
				for (int i = 0; i < 50; i++)
					touch(heap, HEAP, &rnd);
			touch(mapped, MB, &rnd);
			touch(both, MB, &rnd);
			(void)!pwrite(file, buf, 5000, (off_t)(next_random(&rnd) % MB));
			(void)!write(fds[1], buf, sizeof(buf));
			_exit(0);
		}
		close(fds[1]);
		while (read(fds[0], buf, 10000) > 0)
			touch(heap, HEAP, &rnd);
		close(fds[0]);
		CHECK(waitpid(pid, NULL, 0) == pid);
	}
}

/* --- exec: again and again, with long arguments, out of a program with threads --------------- */

static void *spin(void *arg)
{
	for (;;)
		sched_yield();
	return arg;
}

static void exec_again(unsigned long n)
{
	static char number[32], text[60000];
	char *argv[] = { (char *)self, "exec", number, text, NULL };
	pthread_t t;

	memset(text, 'x', sizeof(text) - 1);
	snprintf(number, sizeof(number), "%lu", n + 1);
	if (n % 2)
		CHECK(pthread_create(&t, NULL, spin, NULL) == 0);
	if (n % 3 == 0 && vfork() == 0) {
		execv("/no/such/program", argv);
		_exit(1);
	}
	execv(self, argv);
	die("execv: %d", errno);
}

/* --- waiting: timers, signals, epoll, poll --------------------------------------------------- */

static void on_signal(int signo)
{
	(void)signo;
}

static void waiting(void)
{
	const struct itimerval often = { { 0, 500 }, { 0, 500 } };
	const struct itimerspec soon = { { 0, 700000 }, { 0, 700000 } };
	const int ep = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0),
		  ev = eventfd(0, 0);
	struct epoll_event e = { .events = EPOLLIN };
	struct sigaction sa = { .sa_handler = on_signal };

	CHECK(ep >= 0 && timer >= 0 && ev >= 0);
	CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, timer, &e) == 0 &&
	      epoll_ctl(ep, EPOLL_CTL_ADD, ev, &e) == 0);
	CHECK(sigaction(SIGALRM, &sa, NULL) == 0 && timerfd_settime(timer, 0, &soon, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	for (;;) {
		struct pollfd p = { ev, POLLIN, 0 };
		const pid_t pid = fork();
		uint64_t n = 1;

		if (!pid) {
			(void)!write(ev, &n, 8);
			for (;;)
				poll(&p, 1, -1), read(ev, &n, 8), pause();
		}
		epoll_wait(ep, &e, 1, 2);
		(void)!read(timer, &n, 8);
		if (pid > 0) {
			kill(pid, SIGKILL);
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
	}
}

/* --- the driver ------------------------------------------------------------------------------- */

static void run(unsigned int kind)
{
	CHECK(setpgid(0, 0) == 0);
	heap = mmap(NULL, HEAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(heap != MAP_FAILED);
	memset(heap, 1, HEAP / 2);
	switch (kind) {
	case 0:
		threads();
		break;
	case 1:
		family();
		break;
	case 2:
		exec_again(0);
		break;
	default:
		waiting();
		break;
	}
}

static int in_proc(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static double now(void)
{
	struct timespec t;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Everything that came from @pid; orphans are given to this process. Returns when there is none. */
static void reap_all(pid_t pid, unsigned int round)
{
	const double end = now() + GONE_S;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (;;) {
		const struct timespec some = { 1, 0 };
		const pid_t got = waitpid(-1, NULL, WNOHANG);

		if (got < 0 && errno == ECHILD)
			return;
		CHECK(got >= 0);
		if (got)
			continue;
		if (now() > end)
			die("round %u: pid %d or a child of it is not gone", round, pid);
		sigtimedwait(&set, NULL, &some);
	}
}

int main(int argc, char **argv)
{
	uint64_t rnd = arg_number(argc, argv, 1, 1) * 0x9e3779b97f4a7c15UL + 1;
	const unsigned int rounds = (unsigned int)arg_number(argc, argv, 2, 20);
	double slowest = 0;
	sigset_t set;
	int fds;

	self = argv[0];
	if (argc > 2 && !strcmp(argv[1], "exec"))
		exec_again(arg_number(argc, argv, 2, 0));
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	fds = in_proc();
	for (unsigned int i = 0; i < rounds; i++) {
		const useconds_t life =
			(useconds_t)(next_random(&rnd) % (i % 8 < 4 ? LONGEST : LONGEST / 20));
		const pid_t pid = fork();
		double killed;

		CHECK(pid >= 0);
		if (!pid) {
			sigprocmask(SIG_UNBLOCK, &set, NULL);
			run(i % 4);
		}
		setpgid(pid, pid); /* whoever is first */
		usleep(life);
		killed = now();
		CHECK(kill(-pid, SIGKILL) == 0);
		reap_all(pid, i);
		slowest = now() - killed > slowest ? now() - killed : slowest;
	}
	unlink("/tmp/killsoak");
	CHECK(in_proc() == fds);
	printf("%u killed\n", rounds);
	if (getenv("TIMES"))
		printf("slowest %.0f ms\n", slowest * 1000);
	return 0;
}
