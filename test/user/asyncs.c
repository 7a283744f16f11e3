/* SPDX-License-Identifier: MIT */
/*
 * O_ASYNC and owners of files: which signal comes, what it says, and when none does. Prints the
 * same on both.
 */
#include "call.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#define SIG (SIGRTMIN + 3)

static void block(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigaddset(&set, SIG);
	sigaddset(&set, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}

static int pending(int signo)
{
	sigset_t set;

	CHECK(sigpending(&set) == 0);
	return sigismember(&set, signo);
}

/* Take @signo, which comes, and say what it says; @fd as a name. */
static void take(const char *what, int signo, int fd)
{
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	CHECK(sigwaitinfo(&set, &info) == signo);
	printf("%s: %s code %#x", what, signo == SIGIO ? "SIGIO" : "signal", info.si_code);
	if (info.si_code != SI_KERNEL)
		printf(" band %#lx fd %s", (unsigned long)info.si_band,
		       info.si_fd == fd ? "right" : "wrong");
}

/* The same, and none is left: for one that this process has caused itself. */
static void taken(const char *what, int signo, int fd)
{
	take(what, signo, fd);
	printf(" left %d\n", pending(signo));
}

static void none(const char *what)
{
	printf("%s: %d %d\n", what, pending(SIGIO), pending(SIG));
}

static int async(int fd, int on)
{
	const int flags = fcntl(fd, F_GETFL);

	return fcntl(fd, F_SETFL, on ? flags | O_ASYNC : flags & ~O_ASYNC);
}

static void errors(void)
{
	struct f_owner_ex ex = { .type = 7, .pid = getpid() };
	int fds[2], on = 1, file;

	CHECK(pipe(fds) == 0);
	call("no owner", fcntl(fds[0], F_GETOWN));
	call("no signal", fcntl(fds[0], F_GETSIG));
	call("signal 65", fcntl(fds[0], F_SETSIG, 65));
	call("signal -1", fcntl(fds[0], F_SETSIG, -1));
	call("signal", fcntl(fds[0], F_SETSIG, SIGUSR1));
	printf("signal is SIGUSR1: %d\n", fcntl(fds[0], F_GETSIG) == SIGUSR1);
	call("owner of no process", fcntl(fds[0], F_SETOWN, 4194200));
	call("of no group", fcntl(fds[0], F_SETOWN, -4194200));
	call("the least", fcntl(fds[0], F_SETOWN, 0x80000000));
	call("odd type", fcntl(fds[0], F_SETOWN_EX, &ex));
	call("nowhere", fcntl(fds[0], F_SETOWN_EX, 8));
	call("to nowhere", fcntl(fds[0], F_GETOWN_EX, 8));
	ex.type = F_OWNER_PGRP;
	ex.pid = getpgrp();
	call("group", fcntl(fds[0], F_SETOWN_EX, &ex));
	printf("group is told: %d\n", fcntl(fds[0], F_GETOWN) == -getpgrp());
	ex.type = F_OWNER_TID;
	ex.pid = (pid_t)syscall(SYS_gettid);
	call("thread", fcntl(fds[0], F_SETOWN_EX, &ex));
	memset(&ex, 0, sizeof(ex));
	call("get", fcntl(fds[0], F_GETOWN_EX, &ex));
	printf("type %d pid right: %d\n", ex.type, ex.pid == getpid());
	call("nobody again", fcntl(fds[0], F_SETOWN, 0));
	call("is told", fcntl(fds[0], F_GETOWN));
	call("owner of a pipe by ioctl", ioctl(fds[0], FIOSETOWN, &on));

	file = memfd_create("file", 0);
	CHECK(file >= 0);
	call("FIOASYNC of a file", ioctl(file, FIOASYNC, &on));
	call("O_ASYNC of a file", async(file, 1));
	printf("is not set: %#x\n", fcntl(file, F_GETFL) & O_ASYNC);
	on = 0;
	call("off", ioctl(file, FIOASYNC, &on));
	call("FIOASYNC from nowhere", ioctl(fds[0], FIOASYNC, 8));
	close(file);
	close(fds[0]);
	close(fds[1]);
}

static void pipes(void)
{
	int fds[2], copy;
	char c[8];

	CHECK(pipe(fds) == 0);
	CHECK(async(fds[0], 1) == 0);
	printf("flags %#x\n", fcntl(fds[0], F_GETFL));
	CHECK(write(fds[1], "a", 1) == 1);
	none("without an owner");
	CHECK(fcntl(fds[0], F_SETOWN, getpid()) == 0);
	CHECK(write(fds[1], "b", 1) == 1);
	printf("at once: %d\n", pending(SIGIO));
	taken("plain", SIGIO, fds[0]);
	CHECK(fcntl(fds[0], F_SETSIG, SIG) == 0);
	CHECK(write(fds[1], "c", 1) == 1);
	taken("with a signal", SIG, fds[0]);
	CHECK(fcntl(fds[0], F_SETSIG, SIGIO) == 0);
	CHECK(write(fds[1], "d", 1) == 1);
	taken("SIGIO by name", SIGIO, fds[0]);
	CHECK(read(fds[0], c, sizeof(c)) == 4);
	none("reading tells the reader nothing");
	CHECK(async(fds[0], 0) == 0);
	CHECK(write(fds[1], "e", 1) == 1);
	none("switched off");

	/* The descriptor is the one by which it was switched on. */
	copy = dup(fds[0]);
	CHECK(copy >= 0 && async(copy, 1) == 0);
	CHECK(write(fds[1], "f", 1) == 1);
	taken("by a copy", SIGIO, copy);
	close(copy);
	CHECK(write(fds[1], "g", 1) == 1);
	taken("the copy is closed", SIGIO, copy);
	close(fds[1]);
	taken("the writer has gone", SIGIO, copy);
	close(fds[0]);

	/* Both ends. */
	CHECK(pipe(fds) == 0);
	CHECK(fcntl(fds[1], F_SETOWN, getpid()) == 0 && fcntl(fds[1], F_SETSIG, SIG) == 0);
	CHECK(async(fds[1], 1) == 0);
	close(fds[0]);
	taken("the reader has gone", SIG, fds[1]);
	close(fds[1]);
	none("closed");
}

static void sockets(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	struct signalfd_siginfo si;
	int fds[2], on = 1, owner, l, c, sfd;
	sigset_t set;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	owner = getpid();
	call("FIOASYNC", ioctl(fds[0], FIOASYNC, &on));
	call("FIOSETOWN", ioctl(fds[0], FIOSETOWN, &owner));
	owner = 0;
	call("SIOCGPGRP", ioctl(fds[0], SIOCGPGRP, &owner));
	printf("owner right: %d flags %#x\n", owner == getpid(), fcntl(fds[0], F_GETFL));
	CHECK(write(fds[1], "a", 1) == 1);
	taken("socket", SIGIO, fds[0]);
	CHECK(fcntl(fds[0], F_SETSIG, SIG) == 0);
	CHECK(write(fds[1], "b", 1) == 1);
	sigemptyset(&set);
	sigaddset(&set, SIG);
	sfd = signalfd(-1, &set, 0);
	CHECK(sfd >= 0 && read(sfd, &si, sizeof(si)) == sizeof(si));
	printf("signalfd: code %d band %#x fd right: %d\n", si.ssi_code, si.ssi_band,
	       si.ssi_fd == fds[0]);
	close(sfd);
	close(fds[0]);
	close(fds[1]);

	l = socket(AF_UNIX, SOCK_STREAM, 0);
	c = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "asyncs-%d", getpid());
	CHECK(bind(l, (struct sockaddr *)&name, sizeof(name)) == 0 && listen(l, 1) == 0);
	CHECK(fcntl(l, F_SETOWN, getpid()) == 0 && async(l, 1) == 0);
	CHECK(connect(c, (struct sockaddr *)&name, sizeof(name)) == 0);
	taken("a connection", SIGIO, l);
	close(c);
	close(l);
}

static void terminals(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	char text[8];

	CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	CHECK(slave >= 0 && async(slave, 1) == 0);
	printf("owner of a terminal is the process: %d\n", fcntl(slave, F_GETOWN) == getpid());
	CHECK(fcntl(slave, F_SETSIG, SIG) == 0);
	CHECK(write(master, "line\n", 5) == 5);
	taken("a line", SIG, slave);
	CHECK(read(slave, text, sizeof(text)) == 5);
	CHECK(async(slave, 0) == 0);
	close(slave);
	close(master);
}

/* Owners that are others: a child, a group, one that has gone, one that may not be signalled. */
static void others(void)
{
	int fds[2], ready[2], status;
	struct f_owner_ex ex;
	pid_t child;
	char c;

	CHECK(pipe(fds) == 0 && pipe(ready) == 0);
	fflush(stdout);
	child = fork();
	if (!child) {
		setpgid(0, 0);
		CHECK(write(ready[1], "x", 1) == 1);
		take("the child", SIGIO, fds[0]);
		putchar('\n');
		take("as a group", SIGIO, fds[0]);
		putchar('\n');
		fflush(stdout);
		_exit(0);
	}
	CHECK(child > 0 && read(ready[0], &c, 1) == 1);
	CHECK(fcntl(fds[0], F_SETOWN, child) == 0 && async(fds[0], 1) == 0);
	CHECK(write(fds[1], "a", 1) == 1);
	/* Standard signals do not queue: the second one follows when the first one is taken. */
	while (1) {
		char path[64], text[4096], *at;
		unsigned long long set;
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/status", child);
		fd = open(path, O_RDONLY);
		CHECK(fd >= 0 && (n = read(fd, text, sizeof(text) - 1)) > 0);
		close(fd);
		text[n] = '\0';
		at = strstr(text, "ShdPnd:");
		CHECK(at && sscanf(at, "ShdPnd: %llx", &set) == 1);
		if (!set)
			break;
		usleep(1000);
	}
	ex = (struct f_owner_ex){ F_OWNER_PGRP, child };
	CHECK(fcntl(fds[0], F_SETOWN_EX, &ex) == 0);
	CHECK(write(fds[1], "b", 1) == 1);
	CHECK(waitpid(child, &status, 0) == child);
	printf("child ended with %d\n", status);
	call("owner that has gone", fcntl(fds[0], F_GETOWN));
	CHECK(write(fds[1], "c", 1) == 1);
	none("not to us");

	/* A user's file cannot signal root. */
	if (geteuid() == 0) {
		child = fork();
		if (!child) {
			CHECK(setuid(12345) == 0);
			_exit(fcntl(fds[0], F_SETOWN, getppid()) ? 1 : 0);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		CHECK(fcntl(fds[0], F_GETOWN) == getpid());
		CHECK(write(fds[1], "d", 1) == 1);
		CHECK(!pending(SIGIO));
	}
	close(fds[0]);
	close(fds[1]);
	close(ready[0]);
	close(ready[1]);
}

/* A full queue of signals: SIGIO takes the place of the real-time one. */
static void overflow(void)
{
	int fds[2], status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		struct rlimit_words {
			unsigned long cur, max;
		} none_at_all = { 0, 0 };

		CHECK(syscall(SYS_prlimit64, 0, 11 /* RLIMIT_SIGPENDING */, &none_at_all, NULL) ==
		      0);
		CHECK(pipe(fds) == 0 && fcntl(fds[0], F_SETOWN, getpid()) == 0);
		CHECK(fcntl(fds[0], F_SETSIG, SIG) == 0 && async(fds[0], 1) == 0);
		CHECK(write(fds[1], "a", 1) == 1);
		_exit(pending(SIGIO) + 2 * pending(SIG));
	}
	CHECK(waitpid(child, &status, 0) == child);
	printf("full: %#x\n", status);
}

int main(void)
{
	block();
	errors();
	pipes();
	sockets();
	terminals();
	others();
	overflow();
	return 0;
}
