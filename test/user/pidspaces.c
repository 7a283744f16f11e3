// SPDX-License-Identifier: MIT
/*
 * PID namespaces: the numbers that tasks have in them, what number 1 may do and what it is spared,
 * and its end.
 *
 * Run as root. It mounts /proc in a mount namespace of its own, below /tmp.
 */
#include "user.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct clone3_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	uint64_t set_tid, set_tid_size, cgroup;
};

/* fork() with the flags of clone3(). */
static pid_t make(uint64_t flags, const pid_t *tids, size_t n, int *pidfd)
{
	struct clone3_args a = { .flags = flags,
				 .pidfd = (uintptr_t)pidfd,
				 .exit_signal = SIGCHLD,
				 .set_tid = (uintptr_t)tids,
				 .set_tid_size = n };

	fflush(stdout);
	return (pid_t)syscall(SYS_clone3, &a, sizeof(a));
}

static void reap(const char *who, pid_t pid)
{
	int status;
	const pid_t got = waitpid(pid, &status, 0);

	printf("%s: %s, status %#x\n", who, got == pid ? "reaped" : "not reaped",
	       got == pid ? status : 0);
}

static void done(void)
{
	fflush(stdout);
	_exit(0);
}

/* A byte through a pipe: one side has got so far. */
static int ready[2], go[2];

static void make_pipes(void)
{
	CHECK(!pipe(ready) && !pipe(go));
}

static void tell(int *p)
{
	fflush(stdout);
	CHECK(write(p[1], "x", 1) == 1);
}

static void hear(int *p)
{
	char c;

	CHECK(read(p[0], &c, 1) == 1);
}

/* --- numbers ------------------------------------------------------------------------------ */

static void *thread_numbers(void *arg)
{
	(void)arg;
	printf("thread: pid %d tid %d\n", getpid(), gettid());
	return NULL;
}

static void the_child(void)
{
	pthread_t thread;
	siginfo_t info = { 0 };
	pid_t child;

	printf("child: pid %d tid %d ppid %d pgrp %d sid %d\n", getpid(), gettid(), getppid(),
	       getpgrp(), getsid(0));
	child = make(0, NULL, 0, NULL);
	if (!child) {
		printf("grandchild: pid %d ppid %d\n", getpid(), getppid());
		done();
	}
	printf("fork: %d\n", child);
	T(waitid(P_ALL, 0, &info, WEXITED));
	printf("waitid: pid %d code %d\n", info.si_pid, info.si_code);
	CHECK(!pthread_create(&thread, NULL, thread_numbers, NULL));
	pthread_join(thread, NULL);
	T(setsid());
	printf("pgrp %d sid %d, of 1: %d %d\n", getpgrp(), getsid(0), getpgid(1), getsid(1));
	T(getpgid(77));
	T(kill(77, 0));
	T(kill(-77, 0));
	T(kill(-1, 0));
	T(setpgid(77, 77));
	T(getpriority(PRIO_PROCESS, 1));
	T(getpriority(PRIO_PROCESS, 77));
	T(sched_getscheduler(1));
	T(sched_getscheduler(77));
	T(syscall(SYS_tgkill, 1, 1, 0));
	T(syscall(SYS_tgkill, 1, 77, 0));
	T(syscall(SYS_pidfd_open, 77, 0));
	T(setpriority(PRIO_PGRP, 1, 3));
	T(getpriority(PRIO_PROCESS, 0));
	done();
}

static void numbers(void)
{
	pid_t pid = make(CLONE_NEWPID, NULL, 0, NULL);

	if (!pid)
		the_child();
	printf("the parent sees another number: %d\n", pid > 1);
	reap("child", pid);
}

/* --- signals ------------------------------------------------------------------------------ */

static volatile int got_signo, got_pid, got_value;

static void note(int signo, siginfo_t *info, void *context)
{
	(void)context;
	got_signo = signo;
	got_pid = info->si_pid;
	got_value = info->si_value.sival_int;
}

static void handle(int signo)
{
	struct sigaction act = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART };

	CHECK(!sigaction(signo, &act, NULL));
}

static void spared(void)
{
	sigset_t set;
	pid_t pid;

	handle(SIGUSR2);
	T(kill(1, SIGTERM));
	T(kill(1, SIGKILL));
	T(kill(1, SIGSTOP));
	T(raise(SIGUSR1));
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	T(raise(SIGUSR1));
	T(sigpending(&set));
	printf("blocked, it is pending: %d\n", sigismember(&set, SIGUSR1));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	pid = make(0, NULL, 0, NULL);
	if (!pid) {
		T(kill(1, SIGKILL));
		T(kill(1, SIGUSR2));
		done();
	}
	reap("its child", pid);
	printf("got %d from %d\n", got_signo, got_pid);
	tell(ready);
	hear(go);
	printf("from outside: %d from %d\n", got_signo, got_pid);
	got_signo = 0;
	tell(ready);
	hear(go);
	printf("then %d\n", got_signo);
	tell(ready);
	for (;;)
		pause();
}

static void signals(void)
{
	pid_t pid;
	int status;

	make_pipes();
	pid = make(CLONE_NEWPID, NULL, 0, NULL);
	if (!pid)
		spared();
	hear(ready);
	T(kill(pid, SIGUSR2));
	tell(go);
	hear(ready);
	T(kill(pid, SIGTERM));
	T(kill(pid, SIGSTOP));
	CHECK(waitpid(pid, &status, WUNTRACED) == pid);
	printf("stopped: %#x\n", status);
	T(kill(pid, SIGCONT));
	tell(go);
	hear(ready);
	T(kill(pid, SIGKILL));
	reap("killed", pid);
}

static void a_fault(void)
{
	const pid_t pid = make(CLONE_NEWPID, NULL, 0, NULL);

	if (!pid) {
		*(volatile char *)(uintptr_t)(getpid() * 8) = 1;
		done();
	}
	reap("a fault ends it", pid);
}

/* A breakpoint is its tracer's: number 1 is spared signals afterwards as before. */
static void a_breakpoint(void)
{
	const pid_t pid = make(CLONE_NEWPID, NULL, 0, NULL);
	int status;

	if (!pid) {
		CHECK(!ptrace(PTRACE_TRACEME, 0, 0, 0));
		__asm__ volatile("int3");
		T(raise(SIGUSR1));
		done();
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("a breakpoint: %#x\n", status);
	T(ptrace(PTRACE_DETACH, pid, 0, 0));
	reap("number 1 after a breakpoint", pid);
}

/* Descriptors of processes reach into a namespace, and not out of it. */
static void by_pidfd(void)
{
	const int outside = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int inside;
	pid_t pid;

	CHECK(outside >= 0);
	make_pipes();
	pid = make(CLONE_NEWPID | CLONE_PIDFD, NULL, 0, &inside);
	if (!pid) {
		T(syscall(SYS_pidfd_send_signal, outside, 0, NULL, 0));
		T(syscall(SYS_pidfd_send_signal, outside, SIGCHLD, NULL, 0));
		pid = make(CLONE_PIDFD, NULL, 0, &inside);
		if (!pid) {
			hear(go);
			done();
		}
		T(syscall(SYS_pidfd_send_signal, inside, 0, NULL, 0));
		tell(go);
		reap("its child", pid);
		tell(ready);
		hear(go);
		done();
	}
	hear(ready);
	T(syscall(SYS_pidfd_send_signal, inside, 0, NULL, 0));
	tell(go);
	reap("by pidfd", pid);
	close(inside);
	close(outside);
}

/* --- orphans and the end ------------------------------------------------------------------ */

static void orphans(void)
{
	const pid_t pid = make(CLONE_NEWPID, NULL, 0, NULL);
	pid_t child, one;
	int status;

	if (!pid) {
		make_pipes();
		child = make(0, NULL, 0, NULL);
		if (!child) {
			child = make(0, NULL, 0, NULL);
			if (!child) {
				hear(go);
				printf("orphan: pid %d ppid %d\n", getpid(), getppid());
				fflush(stdout);
				_exit(5);
			}
			done();
		}
		reap("its parent", child);
		tell(go);
		one = wait(&status);
		printf("number 1 waits for %d, status %#x\n", one, status);
		T(wait(NULL));
		done();
	}
	reap("orphans", pid);
}

/* All others of it die with number 1, also those of a namespace in it. */
static void the_end(void)
{
	char c;
	const pid_t pid = (make_pipes(), make(CLONE_NEWPID, NULL, 0, NULL));

	if (!pid) {
		close(ready[0]);
		if (!make(CLONE_NEWPID, NULL, 0, NULL)) {
			signal(SIGTERM, SIG_IGN);
			if (!make(0, NULL, 0, NULL)) {
				tell(go);
				pause();
			}
			pause();
		}
		hear(go);
		_exit(7);
	}
	close(ready[1]);
	reap("the first", pid);
	printf("nobody has the pipe any more: %zd\n", read(ready[0], &c, 1));
}

static void unshared(void)
{
	const pid_t pid = make(0, NULL, 0, NULL);
	pid_t first, second;
	int status;

	if (pid) {
		reap("unshared", pid);
		return;
	}
	T(unshare(CLONE_NEWPID));
	printf("itself is where it was: %d\n", getpid() > 1);
	T(unshare(CLONE_NEWPID));
	T(syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0) < 0);
	T(syscall(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0, 0, 0, 0));
	make_pipes();
	first = make(0, NULL, 0, NULL);
	if (!first) {
		printf("first: %d %d\n", getpid(), getppid());
		fflush(stdout);
		tell(ready);
		hear(go);
		T(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0));
		done();
	}
	hear(ready);
	second = make(0, NULL, 0, NULL);
	if (!second) {
		printf("second: %d %d\n", getpid(), getppid());
		done();
	}
	CHECK(waitpid(second, &status, 0) == second);
	tell(go);
	CHECK(waitpid(first, &status, 0) == first);
	T(make(0, NULL, 0, NULL));
	done();
}

/* A task that has unshared takes that back: it enters the namespace in which it is. */
static void back_again(void)
{
	const pid_t pid = make(0, NULL, 0, NULL);
	int self;

	if (!pid) {
		pid_t child;

		self = (int)syscall(SYS_pidfd_open, getpid(), 0);
		CHECK(self >= 0);
		T(unshare(CLONE_NEWPID));
		T(setns(self, CLONE_NEWPID));
		child = make(0, NULL, 0, NULL);
		if (!child) {
			printf("not the first: %d\n", getpid() > 1 && getppid() > 1);
			done();
		}
		reap("a child where its parent is", child);
		done();
	}
	reap("back again", pid);
}

/* --- clone3(): numbers of one's choice ---------------------------------------------------- */

static void chosen(void)
{
	const pid_t one = 1, two = 2, none = 0, many = 0x7fffffff, here[3] = { 1, 300, 7 };
	static const pid_t ones[33] = { 1, 1 };
	pid_t pid = make(CLONE_NEWPID, &one, 1, NULL);

	if (!pid) {
		pid_t child = make(0, (pid_t[]){ 42 }, 1, NULL);

		if (!child)
			done();
		printf("chosen: %d\n", child);
		T(make(0, (pid_t[]){ 42 }, 1, NULL));
		reap("chosen", child);
		child = make(0, NULL, 0, NULL);
		if (!child)
			done();
		printf("the next: %d\n", child);
		reap("the next", child);
		child = make(CLONE_NEWPID, here, 2, NULL);
		if (!child) {
			printf("deeper: %d\n", getpid());
			done();
		}
		printf("deeper, from outside: %d\n", child);
		reap("deeper", child);
		T(make(CLONE_NEWPID, &two, 1, NULL));
		T(make(0, &none, 1, NULL));
		T(make(0, &many, 1, NULL));
		T(make(0, (const pid_t *)8, 1, NULL));
		done();
	}
	reap("number 1 by wish", pid);
	T(make(CLONE_NEWPID, ones, 33, NULL));
	T(make(0, ones, 32, NULL));
}

/* --- what else tells numbers -------------------------------------------------------------- */

static void show_cred(const char *what, int s)
{
	struct ucred cred = { .pid = -1 };
	socklen_t len = sizeof(cred);

	CHECK(!getsockopt(s, SOL_SOCKET, SO_PEERCRED, &cred, &len));
	printf("%s: SO_PEERCRED %d\n", what, cred.pid);
}

static void show_message(const char *what, int s)
{
	char c, control[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct ucred cred;

	CHECK(recvmsg(s, &m, 0) == 1);
	memcpy(&cred, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(cred));
	printf("%s: SCM_CREDENTIALS %d\n", what, cred.pid);
}

static void locks(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	CHECK(!fcntl(fd, F_GETLK, &l));
	printf("F_GETLK: type %d pid %d\n", l.l_type, l.l_pid);
}

static void others(void)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	char name[] = "/tmp/pidspacesXXXXXX";
	const int fd = mkstemp(name), on = 1;
	int s[2];
	pid_t pid;

	CHECK(fd >= 0 && !unlink(name));
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
	CHECK(!setsockopt(s[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)));
	CHECK(!fcntl(fd, F_SETLK, &l));
	CHECK(send(s[1], "x", 1, 0) == 1);
	pid = make(CLONE_NEWPID, NULL, 0, NULL);
	if (!pid) {
		pid_t child;
		int pair[2];

		show_cred("the maker is outside", s[0]);
		show_message("the sender is outside", s[0]);
		locks(fd);
		CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
		CHECK(!setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)));
		show_cred("the maker is here", pair[0]);
		l.l_start = 1;
		CHECK(!fcntl(fd, F_SETLK, &l));
		T(fcntl(fd, F_SETOWN, 1));
		T(fcntl(fd, F_GETOWN));
		T(fcntl(fd, F_SETOWN, 99));
		make_pipes();
		child = make(0, NULL, 0, NULL);
		if (!child) {
			l.l_type = F_WRLCK, l.l_start = 1;
			CHECK(!fcntl(fd, F_GETLK, &l));
			printf("F_GETLK: pid %d\n", l.l_pid);
			CHECK(send(pair[1], "x", 1, 0) == 1);
			tell(ready);
			hear(go);
			done();
		}
		hear(ready);
		show_message("the sender is here", pair[0]);
		tell(go);
		reap("sender", child);
		done();
	}
	reap("others", pid);
}

/* --- /proc -------------------------------------------------------------------------------- */

static void show_lines(const char *path, const char *what)
{
	char line[512];
	FILE *f = fopen(path, "r");

	if (!f) {
		printf("%s: %s\n", path, strerror(errno));
		return;
	}
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, what, strlen(what)))
			printf("%s", line);
	}
	fclose(f);
}

static void show_link(const char *path)
{
	char buf[256] = "";
	const ssize_t n = readlink(path, buf, sizeof(buf) - 1);

	printf("%s -> %s\n", path, n < 0 ? strerror(errno) : buf);
}

static void show_stat(const char *path)
{
	int pid, ppid, pgrp, sid, tty, foreground;
	char comm[64], state;
	FILE *f = fopen(path, "r");

	CHECK(f && fscanf(f, "%d (%63[^)]) %c %d %d %d %d %d", &pid, comm, &state, &ppid, &pgrp,
			  &sid, &tty, &foreground) == 8);
	fclose(f);
	printf("%s: %d (%s) %d %d %d\n", path, pid, comm, ppid, pgrp, sid);
}

static void list_numbers(const char *path)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "%s", path);
	for (int i = 1; i < 400; i++) {
		char one[300];
		struct stat st;

		snprintf(one, sizeof(one), "%s/%d", cmd, i);
		if (!stat(one, &st))
			printf("%s\n", one);
	}
}

static void in_proc(void)
{
	int pidfd, deeper;
	char path[64];
	pid_t child;

	CHECK(!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	T(mount("proc", "proc", "proc", 0, NULL));
	setsid();
	child = make(CLONE_PIDFD, NULL, 0, &pidfd);
	if (!child) {
		hear(go);
		done();
	}
	if (!make(CLONE_NEWPID | CLONE_PIDFD, NULL, 0, &deeper)) {
		show_lines("proc/self/status", "NS");
		show_lines("proc/self/status", "Pid:");
		show_lines("proc/self/status", "PPid:");
		tell(ready);
		fflush(stdout);
		hear(go);
		done();
	}
	hear(ready);
	list_numbers("proc");
	list_numbers("proc/1/task");
	show_link("proc/self");
	show_link("proc/thread-self");
	show_stat("proc/self/stat");
	show_stat("proc/2/stat");
	show_lines("proc/2/status", "NS");
	show_lines("proc/3/status", "NS");
	show_lines("proc/3/status", "Tgid:");
	snprintf(path, sizeof(path), "proc/self/fdinfo/%d", pidfd);
	show_lines(path, "Pid:");
	show_lines(path, "NSpid:");
	snprintf(path, sizeof(path), "proc/self/fdinfo/%d", deeper);
	show_lines(path, "Pid:");
	show_lines(path, "NSpid:");
	T(access("proc/4", F_OK));
	tell(go);
	tell(go);
	reap("child", child);
	reap("deeper", 3);
	snprintf(path, sizeof(path), "proc/self/fdinfo/%d", pidfd);
	show_lines(path, "Pid:");
	show_lines(path, "NSpid:");
	/* The tree that was there before shows the numbers outside. */
	T(access("/proc/self/task/1", F_OK));
	T(umount("proc"));
	done();
}

static void proc(void)
{
	char dir[] = "/tmp/pidspacesXXXXXX";
	pid_t pid;

	CHECK(mkdtemp(dir) && !chdir(dir) && !mkdir("proc", 0755));
	make_pipes();
	pid = make(CLONE_NEWPID | CLONE_NEWNS, NULL, 0, NULL);
	if (!pid)
		in_proc();
	reap("proc", pid);
	CHECK(!rmdir("proc") && !chdir("/") && !rmdir(dir));
}

/* --- rights, and how deep ----------------------------------------------------------------- */

static void rights(void)
{
	const pid_t pid = make(0, NULL, 0, NULL);

	if (!pid) {
		CHECK(!setgid(65534) && !setuid(65534));
		T(unshare(CLONE_NEWPID));
		T(make(CLONE_NEWPID, NULL, 0, NULL));
		done();
	}
	reap("a user", pid);
}

static void deep(int level)
{
	const pid_t pid = make(CLONE_NEWPID, NULL, 0, NULL);
	int status;

	if (pid < 0) {
		printf("many levels: %d, then: %s\n", level > 16, strerror(errno));
		return;
	}
	if (!pid) {
		deep(level + 1);
		done();
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

int main(void)
{
	numbers();
	signals();
	a_fault();
	a_breakpoint();
	by_pidfd();
	orphans();
	the_end();
	unshared();
	back_again();
	chosen();
	others();
	proc();
	rights();
	deep(1);
	return 0;
}
