/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of processes, and what goes with parents: prints the same on Tessera as on Linux.
 */
#include "user.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef P_PIDFD
# define P_PIDFD 3
#endif

static void show(const char *what, long ret)
{
	printf("%s: %s\n", what, ret < 0 ? strerror(errno) : ret == 0 ? "0" : "more");
}

static pid_t sitter(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		for (;;)
			pause();
	return pid;
}

static int open_pid(pid_t pid, unsigned int flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}

static long send(int fd, int signo, siginfo_t *si, unsigned int flags)
{
	return syscall(SYS_pidfd_send_signal, fd, signo, si, flags);
}

static void show_poll(const char *what, int fd, int timeout)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	const int n = poll(&p, 1, timeout);

	printf("%s: %d, readable %d\n", what, n, !!(p.revents & POLLIN));
}

static void opened(void)
{
	const pid_t pid = sitter();
	siginfo_t si;
	char c;
	int fd;

	fd = open_pid(pid, 0);
	CHECK(fd >= 0);
	printf("close-on-exec %d\n", fcntl(fd, F_GETFD) == FD_CLOEXEC);
	show("of nobody", open_pid(999999, 0));
	show("of 0", open_pid(0, 0));
	show("with a strange flag", open_pid(pid, 0x40000000));
	show("read", read(fd, &c, 1));
	show_poll("alive", fd, 0);
	show("signal 0", send(fd, 0, NULL, 0));
	show("signal 99", send(fd, 99, NULL, 0));
	show("with flags", send(fd, 0, NULL, 0x40000000));
	show("to what is no process", send(0, 0, NULL, 0));
	memset(&si, 0, sizeof(si));
	si.si_signo = SIGTERM;
	show("another signal than it says", send(fd, SIGUSR1, &si, 0));
	si.si_signo = SIGUSR1;
	si.si_code = SI_USER;
	show("as if by kill", send(fd, SIGUSR1, &si, 0));
	memset(&si, 0, sizeof(si));
	show("waitid WNOHANG", waitid((idtype_t)P_PIDFD, (id_t)fd, &si, WEXITED | WNOHANG));
	show("SIGTERM", send(fd, SIGTERM, NULL, 0));
	show_poll("wait for the end", fd, -1);
	show("signal a zombie", send(fd, SIGTERM, NULL, 0));
	show("waitid", waitid((idtype_t)P_PIDFD, (id_t)fd, &si, WEXITED));
	printf("it was the child: %d, code %d, status %d\n", si.si_pid == pid, si.si_code,
	       si.si_status);
	show_poll("gone", fd, 0);
	show("signal what is gone", send(fd, 0, NULL, 0));
	show("waitid again", waitid((idtype_t)P_PIDFD, (id_t)fd, &si, WEXITED));
	show("waitid of another file", waitid((idtype_t)P_PIDFD, 0, &si, WEXITED));
	close(fd);
}

/* A directory of /proc stands for its process too, but only that one, and only for signals. */
static void proc_directory(void)
{
	static const char *const others[] = { "task", "fd", "status", "" };
	const pid_t pid = sitter();
	char path[64];
	siginfo_t si;
	int fd, other;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	fd = open(path, O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	show("directory, signal 0", send(fd, 0, NULL, 0));
	show("directory, signal 99", send(fd, 99, NULL, 0));
	show("waitid of it", waitid((idtype_t)P_PIDFD, (id_t)fd, &si, WEXITED | WNOHANG));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, others[i]);
		CHECK((other = open(*others[i] ? path : "/proc", O_RDONLY)) >= 0);
		show(*others[i] ? others[i] : "/proc", send(other, 0, NULL, 0));
		close(other);
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, pid);
	CHECK((other = open(path, O_RDONLY)) >= 0);
	show("of the thread", send(other, 0, NULL, 0));
	close(other);
	snprintf(path, sizeof(path), "/proc/%d", pid);
	CHECK((other = open(path, O_PATH)) >= 0);
	show("its name only", send(other, 0, NULL, 0));
	close(other);
	show("directory, SIGTERM", send(fd, SIGTERM, NULL, 0));
	CHECK(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT) == 0);
	printf("ended by %d\n", si.si_status);
	show("directory of a zombie", send(fd, 0, NULL, 0));
	CHECK(waitpid(pid, NULL, 0) == pid);
	show("directory of what is gone", send(fd, 0, NULL, 0));
	close(fd);
}

static void from_clone(void)
{
	struct clone_args a = { .flags = CLONE_PIDFD, .exit_signal = SIGCHLD };
	int fd = -1, st;
	long pid;

	fflush(stdout);
	a.pidfd = (uintptr_t)&fd;
	pid = syscall(SYS_clone3, &a, sizeof(a));
	CHECK(pid >= 0);
	if (!pid)
		_exit(6);
	show_poll("CLONE_PIDFD", fd, -1);
	CHECK(waitpid((pid_t)pid, &st, 0) == pid);
	printf("status %d\n", WEXITSTATUS(st));
	close(fd);
	fd = -1;
	pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &fd, 0, 0);
	if (!pid)
		_exit(7);
	CHECK(pid > 0 && waitpid((pid_t)pid, &st, 0) == pid);
	printf("clone: status %d, a descriptor %d\n", WEXITSTATUS(st), fd > 2);
	close(fd);
	show("with PARENT_SETTID",
	     syscall(SYS_clone, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, 0, &fd, 0, 0));
	a.pidfd = strtoul("8", NULL, 0);
	show("bad pointer", syscall(SYS_clone3, &a, sizeof(a)));
	show("and no child", waitpid(-1, NULL, 0));
}

static void non_blocking(void)
{
	const pid_t pid = sitter();
	const int fd = open_pid(pid, O_NONBLOCK);
	siginfo_t si;

	CHECK(fd >= 0);
	show("waitid of one that does not block",
	     waitid((idtype_t)P_PIDFD, (id_t)fd, &si, WEXITED));
	CHECK(send(fd, SIGKILL, NULL, 0) == 0);
	show_poll("killed", fd, -1);
	show("waitid", waitid((idtype_t)P_PIDFD, (id_t)fd, &si, WEXITED));
	close(fd);
}

/* --- parents -------------------------------------------------------------------------------- */

static void subreaper(void)
{
	int sub = 0, st;
	pid_t pid, orphan;
	int fd[2];

	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && prctl(PR_GET_CHILD_SUBREAPER, &sub) == 0);
	CHECK(pipe(fd) == 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		orphan = fork();
		if (!orphan) {
			for (;;)
				pause();
		}
		CHECK(write(fd[1], &orphan, sizeof(orphan)) == sizeof(orphan));
		_exit(0);
	}
	CHECK(waitpid(pid, &st, 0) == pid &&
	      read(fd[0], &orphan, sizeof(orphan)) == sizeof(orphan));
	CHECK(kill(orphan, SIGKILL) == 0);
	printf("subreaper %d: the orphan is ours: %d\n", sub, waitpid(orphan, &st, 0) == orphan);
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
	close(fd[0]);
	close(fd[1]);
}

static void parent_death(void)
{
	int fd[2], signo = 0;
	char c;
	pid_t pid;

	show("PDEATHSIG 65", prctl(PR_SET_PDEATHSIG, 65));
	CHECK(pipe(fd) == 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (!fork()) {
			CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
			CHECK(prctl(PR_GET_PDEATHSIG, &signo) == 0 && signo == SIGKILL);
			CHECK(write(fd[1], "x", 1) == 1);
			for (;;)
				pause();
		}
		CHECK(read(fd[0], &c, 1) == 1);
		_exit(0);
	}
	close(fd[1]);
	CHECK(waitpid(pid, NULL, 0) == pid);
	printf("PDEATHSIG: the pipe ends: %d\n", read(fd[0], &c, 1) == 0);
	close(fd[0]);
	CHECK(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0);
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(prctl(PR_GET_PDEATHSIG, &signo) == 0 && !signo ? 0 : 1);
	CHECK(waitpid(pid, &signo, 0) == pid);
	printf("not inherited: %d\n", signo == 0);
}

int main(void)
{
	opened();
	proc_directory();
	from_clone();
	non_blocking();
	subreaper();
	parent_death();
	return 0;
}
