/* SPDX-License-Identifier: MIT */
/*
 * Findings of the fuzzer of system calls, one case each.  Prints the same on Linux.
 */
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

/*
 * A private page that may only be written is read, also before it has been copied: by programs and
 * by calls.
 */
static void write_only(const char *self)
{
	const int fd = open(self, O_RDONLY);
	char *file = mmap(NULL, PAGE, PROT_WRITE, MAP_PRIVATE, fd, 0);
	char *anon = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	CHECK(fd >= 0 && file != MAP_FAILED && anon != MAP_FAILED);
	strcpy(anon, "/no/such/file");
	CHECK(mprotect(anon, PAGE, PROT_WRITE) == 0);
	printf("a file's page: %.3s\n", file + 1);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		printf("after a fork: %d, %s\n", access(anon, F_OK), anon);
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	printf("and in the parent: %d\n", access(anon, F_OK));
	close(fd);
}

/*
 * fork() begins again after a signal that another thread is to take; the program sees nothing of
 * it.
 */
static volatile bool over;
static volatile int wrong;

static void on_alarm(int signo)
{
	(void)signo;
}

static void *fork_often(void *arg)
{
	while (!over) {
		const long pid = syscall(SYS_fork);

		if (!pid)
			syscall(SYS_exit_group, 0);
		if (pid < 0)
			wrong = errno;
		else
			waitpid((pid_t)pid, NULL, 0);
	}
	return arg;
}

static void interrupted_forks(void)
{
	const struct itimerval often = { { 0, 700 }, { 0, 700 } }, never = { 0 };
	const struct sigaction sa = { .sa_handler = on_alarm };
	pthread_t t[3];

	CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&t[i], NULL, fork_often, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	/* The first thread takes all of them. */
	for (int i = 0; i < 150; i++)
		pause();
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	over = true;
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	printf("forks: %s\n", wrong ? strerror(wrong) : "all well");
}

/*
 * exec while other threads make threads: none of them may be missed. A crowd has an end, however
 * late the exec comes.
 */
static void *start_threads(void *arg)
{
	enum {
		CROWD = 50
	};
	static int crowd = 4; /* the first thread makes these */

	for (;;) {
		pthread_t t;

		if (__atomic_add_fetch(&crowd, 1, __ATOMIC_RELAXED) > CROWD)
			__atomic_sub_fetch(&crowd, 1, __ATOMIC_RELAXED);
		else if (pthread_create(&t, NULL, start_threads, arg) == 0)
			pthread_detach(t);
		usleep(2000);
		if (arg)
			break;
	}
	__atomic_sub_fetch(&crowd, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void exec_in_a_crowd(const char *self)
{
	int good = 0, status;

	for (int i = 0; i < 12; i++) {
		pthread_t t;
		pid_t pid;

		fflush(stdout);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			for (long n = 0; n < 4; n++)
				CHECK(pthread_create(&t, NULL, start_threads, (void *)(n % 2)) ==
				      0);
			usleep(500 * (useconds_t)i);
			execl(self, self, "nothing", NULL);
			_exit(1);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		good += status == 0;
	}
	printf("exec: %d of 12\n", good);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return 0;
	write_only(argv[0]);
	interrupted_forks();
	exec_in_a_crowd(argv[0]);
	return 0;
}
