/* SPDX-License-Identifier: MIT */
/*
 * Leases of files between processes: which are granted, how an open, a truncate and an execve break
 * them, what the holder hears, and what he may do then. Prints the same on both.
 *
 * usage: leases [DIR [one]]: of a file in DIR (/dev/shm); one: only ask for one
 */
#include "alarms.h"
#include "user.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

static char path[128];

static void result(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "", ret < 0 ? strerror(errno) : "");
}

static const char *type_name(int type)
{
	return type == F_RDLCK ? "read" : type == F_WRLCK ? "write" : "none";
}

static void now(const char *what, int fd)
{
	printf("%s: %s\n", what, type_name(fcntl(fd, F_GETLEASE)));
}

static int file(int flags)
{
	const int fd = open(path, flags | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

/* --- which are granted ---------------------------------------------------------------- */

static void granted(void)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };
	char what[80];

	for (int own = 0; own < 3; own++) {
		for (int other = -1; other < 4; other++) {
			const int fd = file(modes[own]);
			const int fd2 = other < 0    ? -1
					: other == 3 ? file(O_PATH)
						     : file(modes[other]);

			for (int type = F_RDLCK; type <= F_WRLCK; type++) {
				snprintf(what, sizeof(what), "%s with %d beside %d",
					 type_name(type), own, other);
				result(what, fcntl(fd, F_SETLEASE, type));
				now("it is", fd);
			}
			result("up", fcntl(fd, F_SETLEASE, F_UNLCK));
			if (fd2 >= 0)
				close(fd2);
			close(fd);
		}
	}
}

static void two_holders(void)
{
	const int a = file(O_RDONLY), b = file(O_RDONLY);

	result("first", fcntl(a, F_SETLEASE, F_RDLCK));
	result("second", fcntl(b, F_SETLEASE, F_RDLCK));
	result("second, write", fcntl(b, F_SETLEASE, F_WRLCK));
	now("first", a);
	close(a);
	result("alone, write", fcntl(b, F_SETLEASE, F_WRLCK));
	now("second", b);
	result("and read", fcntl(b, F_SETLEASE, F_RDLCK));
	now("second", b);
	close(b);
}

static void refused(void)
{
	const int fd = file(O_RDONLY), null = open("/dev/null", O_RDONLY);
	int ends[2];

	CHECK(pipe(ends) == 0);
	result("type 3", fcntl(fd, F_SETLEASE, 3));
	result("type -1", fcntl(fd, F_SETLEASE, -1));
	result("none to give up", fcntl(fd, F_SETLEASE, F_UNLCK));
	result("/dev/null", fcntl(null, F_SETLEASE, F_RDLCK));
	result("pipe", fcntl(ends[0], F_SETLEASE, F_RDLCK));
	now("pipe", ends[0]);
	close(ends[0]);
	close(ends[1]);
	close(null);
	close(fd);
}

/* The descriptor is gone, its mapping is not: a writer, for Linux too. */
static void mapped(void)
{
	int fd = file(O_RDWR);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(p != MAP_FAILED);
	close(fd);
	fd = file(O_RDWR);
	result("mapped", fcntl(fd, F_SETLEASE, F_WRLCK));
	CHECK(munmap(p, 4096) == 0);
	result("not mapped", fcntl(fd, F_SETLEASE, F_WRLCK));
	close(fd);
}

/* --- breaking ------------------------------------------------------------------------- */

/* A child does it while the parent holds @fd's lease: 0, or an errno. */
static pid_t start(int how)
{
	pid_t pid;
	int ret;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return pid;
	if (how < 0)
		ret = truncate(path, 3);
	else
		ret = open(path, how);
	_exit(ret < 0 ? errno : 0);
}

static int ended(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void hear(const char *what, const sigset_t *set, int fd)
{
	siginfo_t info;

	CHECK(sigwaitinfo(set, &info) > 0);
	if (info.si_signo == SIGIO)
		printf("%s: SIGIO, code %d\n", what, info.si_code);
	else
		printf("%s: signal +%d, code %d, band %lx, %s descriptor\n", what,
		       info.si_signo - SIGRTMIN, info.si_code, (long)info.si_band,
		       info.si_fd == fd ? "its" : "another");
}

static void broken(const char *what, int own, int type, int how, int then, int signo)
{
	sigset_t set;
	const int fd = file(own);
	pid_t pid;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigaddset(&set, SIGRTMIN + 3);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	if (signo)
		CHECK(fcntl(fd, F_SETSIG, signo) == 0);
	CHECK(fcntl(fd, F_SETLEASE, type) == 0);
	CHECK(fcntl(fd, F_GETOWN) == getpid());
	pid = start(how);
	hear(what, &set, fd);
	now("while it is broken", fd);
	CHECK(waitpid(pid, NULL, WNOHANG) == ((how > 0 && how & O_NONBLOCK) ? pid : 0) ||
	      (how > 0 && how & O_NONBLOCK));
	result("then", fcntl(fd, F_SETLEASE, then));
	now("after that", fd);
	if (!(how > 0 && how & O_NONBLOCK))
		printf("the other: %s\n", strerror(ended(pid)));
	while (waitpid(-1, NULL, 0) > 0)
		;
	printf("signal %d\n", fcntl(fd, F_GETSIG));
	close(fd);
}

static void would_block(const char *what, int type, int how)
{
	const int fd = file(O_RDONLY);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(fcntl(fd, F_SETLEASE, type) == 0);
	printf("%s: %s\n", what, strerror(ended(start(how | O_NONBLOCK))));
	hear(what, &set, fd);
	printf("again: %s\n", strerror(ended(start(how | O_NONBLOCK))));
	now("left", fd);
	close(fd);
	printf("free: %s\n", strerror(ended(start(how | O_NONBLOCK))));
}

static void no_conflict(void)
{
	const int fd = file(O_RDONLY);

	CHECK(fcntl(fd, F_SETLEASE, F_RDLCK) == 0);
	printf("a reader: %s\n", strerror(ended(start(O_RDONLY))));
	printf("a path: %s\n", strerror(ended(start(O_PATH))));
	now("still", fd);
	close(fd);
}

/* A signal ends the wait of the one that opens. */
static void interrupted(void)
{
	const int fd = file(O_RDONLY);
	sigset_t set;
	pid_t pid;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(fcntl(fd, F_SETLEASE, F_WRLCK) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		int ret;

		alarms_start(0, -1);
		ret = open(path, O_RDONLY);
		_exit(ret < 0 ? errno : 0);
	}
	printf("interrupted: %s\n", strerror(ended(pid)));
	hear("told", &set, fd);
	close(fd);
}

/* The holder ends without a word. */
static void killed(void)
{
	int ready[2];
	pid_t pid;
	char c;

	CHECK(pipe(ready) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		const int fd = file(O_RDONLY);

		signal(SIGIO, SIG_DFL); /* which kills */
		CHECK(sigprocmask(SIG_UNBLOCK, &(sigset_t){ { 1ul << (SIGIO - 1) } }, NULL) == 0);
		CHECK(fcntl(fd, F_SETLEASE, F_WRLCK) == 0);
		CHECK(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(read(ready[0], &c, 1) == 1);
	result("its end", open(path, O_RDONLY | O_CLOEXEC) < 0 ? -1 : 0);
	CHECK(waitpid(pid, NULL, 0) == pid);
	close(ready[0]);
	close(ready[1]);
}

int main(int argc, char **argv)
{
	int fd;

	snprintf(path, sizeof(path), "%s/leases.XXXXXX", argc > 1 ? argv[1] : "/dev/shm");
	fd = mkstemp(path);
	CHECK(fd >= 0 && write(fd, "text\n", 5) == 5);
	close(fd);
	if (argc > 2) {
		fd = file(O_RDONLY);
		result("one", fcntl(fd, F_SETLEASE, F_RDLCK));
		return unlink(path);
	}
	granted();
	two_holders();
	refused();
	mapped();
	broken("read, a writer", O_RDONLY, F_RDLCK, O_WRONLY, F_UNLCK, 0);
	broken("write, a reader", O_RDONLY, F_WRLCK, O_RDONLY, F_RDLCK, SIGRTMIN + 3);
	broken("write, a reader, from r/w", O_RDWR, F_WRLCK, O_RDONLY, F_UNLCK, 0);
	broken("write, a writer", O_RDWR, F_WRLCK, O_RDWR, F_UNLCK, SIGRTMIN + 3);
	broken("read, truncate", O_RDONLY, F_RDLCK, -1, F_UNLCK, SIGIO);
	broken("write, open with O_TRUNC", O_RDONLY, F_WRLCK, O_WRONLY | O_TRUNC, F_UNLCK, 0);
	would_block("read", F_RDLCK, O_WRONLY);
	would_block("write", F_WRLCK, O_RDONLY);
	no_conflict();
	interrupted();
	killed();
	unlink(path);
	return 0;
}
