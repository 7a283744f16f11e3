/* SPDX-License-Identifier: MIT */
/*
 * Process groups, sessions, kill's addressees, credentials, limits: prints the same on Tessera as
 * on Linux. Must be root, and have a process group of its own to be started in.
 */
#include "user.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const char *self;

static void show(const char *what, long ret)
{
	printf("%s: %s\n", what, ret < 0 ? strerror(errno) : ret == 0 ? "0" : "a number");
}

/* A child that says when it is there and lives until it is killed. */
static pid_t sitter(void (*prepare)(void))
{
	int fd[2];
	char c;
	pid_t pid;

	CHECK(pipe(fd) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		if (prepare)
			prepare();
		fflush(stdout);
		CHECK(write(fd[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(read(fd[0], &c, 1) == 1);
	close(fd[0]);
	close(fd[1]);
	return pid;
}

static int end(pid_t pid)
{
	int st;

	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &st, 0) == pid);
	return st;
}

static void new_session(void)
{
	CHECK(setsid() == getpid());
}

static void exec_cat(pid_t *pid)
{
	int fd[2];
	char c;

	/* The end of the pipe goes with exec. */
	CHECK(pipe(fd) == 0);
	fflush(stdout);
	*pid = fork();
	if (!*pid) {
		dup2(fd[1], 10);
		close(fd[0]);
		close(fd[1]);
		CHECK(fcntl(10, F_SETFD, FD_CLOEXEC) == 0);
		execl(self, "groups", "sit", NULL);
		_exit(1);
	}
	close(fd[1]);
	CHECK(read(fd[0], &c, 1) == 0);
	close(fd[0]);
}

static void groups(void)
{
	pid_t a, b, c;

	CHECK(setpgid(0, 0) == 0 || errno == EPERM); /* a session's leader has one already */
	printf("own group: %d %d\n", getpgrp() == getpid(), getpgid(0) == getpid());
	show("getpgid of nobody", getpgid(999999));
	show("getsid of nobody", getsid(999999));
	show("setpgid of nobody", setpgid(999999, 0));
	show("setpgid to a negative", setpgid(0, -1));
	show("setpgid of pid 1", setpgid(1, 0));
	a = sitter(NULL);
	b = sitter(NULL);
	printf("children begin in ours: %d\n", getpgid(a) == getpgrp());
	show("a group of its own", setpgid(a, a));
	show("another joins", setpgid(b, a));
	printf("they are together: %d %d\n", getpgid(a) == a, getpgid(b) == a);
	show("no such group", setpgid(b, 999999));
	show("kill the group", kill(-a, SIGTERM));
	printf("both: %d %d\n", end(a) & 0x7f, end(b) & 0x7f);
	show("kill a group that is gone", kill(-a, 0));
	c = sitter(new_session);
	show("setpgid of a session's leader", setpgid(c, c));
	printf("sessions differ: %d\n", getsid(c) == c && getsid(0) != c);
	end(c);
	exec_cat(&a);
	show("setpgid after exec", setpgid(a, a));
	end(a);
	fflush(stdout);
	if (!(a = fork())) {
		CHECK(setpgid(0, 0) == 0);
		show("setsid of a group's leader", setsid());
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(a, NULL, 0) == a);
}

/* --- orphaned groups -------------------------------------------------------------------- */

static int tell_fd;
static volatile sig_atomic_t told;

static void on_signal(int signo)
{
	const char *name =
		signo == SIGHUP ? "orphaned group: SIGHUP\n" : "orphaned group: SIGCONT\n";

	CHECK(write(tell_fd, name, strlen(name)) > 0);
	told++;
}

/* In a group that becomes an orphaned one while this is stopped: waits for both signals. */
static void member_of_orphans(void)
{
	sigset_t both, none;

	sigemptyset(&none);
	sigemptyset(&both);
	sigaddset(&both, SIGHUP);
	sigaddset(&both, SIGCONT);
	CHECK(setpgid(0, 0) == 0 && sigprocmask(SIG_BLOCK, &both, NULL) == 0);
	signal(SIGHUP, on_signal);
	signal(SIGCONT, on_signal);
	raise(SIGSTOP);
	while (told < 2)
		sigsuspend(&none);
	_exit(0);
}

/* A stopped group whose only connection outside ends gets SIGHUP and SIGCONT. */
static void orphaned_group(void)
{
	char buf[200];
	int fd[2], st;
	size_t len = 0;
	ssize_t n;
	pid_t leader, member;

	CHECK(pipe(fd) == 0);
	fflush(stdout);
	leader = fork();
	if (!leader) {
		tell_fd = fd[1];
		close(fd[0]);
		member = fork();
		if (!member)
			member_of_orphans();
		CHECK(waitpid(member, &st, WUNTRACED) == member && WIFSTOPPED(st));
		_exit(0);
	}
	close(fd[1]);
	CHECK(waitpid(leader, &st, 0) == leader);
	while (len < sizeof(buf) - 1 && (n = read(fd[0], buf + len, sizeof(buf) - 1 - len)) > 0)
		len += (size_t)n;
	close(fd[0]);
	buf[len] = '\0';
	printf("orphaned group: %s %s\n", strstr(buf, "SIGHUP") ? "hung up" : "not hung up",
	       strstr(buf, "SIGCONT") ? "continued" : "not continued");
}

/* --- kill -------------------------------------------------------------------------------- */

static void become_1234(void)
{
	CHECK(setgid(1234) == 0 && setuid(1234) == 0);
}

static void addressees(void)
{
	pid_t a = sitter(NULL), b, roots;

	fflush(stdout);
	show("kill 0 looks", kill(a, 0));
	show("kill nobody", kill(999999, 0));
	show("kill with a bad signal", kill(a, 65));
	show("kill INT_MIN", kill((pid_t)0x80000000, 0));
	printf("killed by USR1: %d\n", (kill(a, SIGUSR1), waitpid(a, &(int){ 0 }, 0) == a));
	roots = sitter(NULL);
	a = fork();
	if (!a) {
		become_1234();
		show("another user's", kill(roots, SIGTERM));
		show("the same session's with SIGCONT", kill(roots, SIGCONT));
		show("pid 1", kill(1, SIGTERM));
		b = sitter(NULL);
		show("one's own", kill(b, SIGTERM));
		CHECK(waitpid(b, NULL, 0) == b);
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(a, NULL, 0) == a);
	end(roots);
	a = sitter(NULL);
	show("a zombie takes signals",
	     (kill(a, SIGKILL), waitid(P_PID, (id_t)a, NULL, WEXITED | WNOWAIT), kill(a, SIGTERM)));
	CHECK(waitpid(a, NULL, 0) == a);
	show("no more when it is reaped", kill(a, 0));
	show("tkill nobody", syscall(SYS_tkill, 999999, 0));
	show("tkill 0", syscall(SYS_tkill, 0, 0));
	show("tgkill of another process's task", syscall(SYS_tgkill, getppid(), getpid(), 0));
	show("tgkill oneself", syscall(SYS_tgkill, getpid(), getpid(), 0));
}

/* --- credentials -------------------------------------------------------------------------- */

static void ids(const char *what, long ret)
{
	uid_t r, e, s;
	gid_t gr, ge, gs;

	getresuid(&r, &e, &s);
	getresgid(&gr, &ge, &gs);
	printf("%s: %s; uid %u %u %u fs %ld, gid %u %u %u fs %ld\n", what,
	       ret < 0 ? strerror(errno) : "ok", r, e, s, syscall(SYS_setfsuid, -1), gr, ge, gs,
	       syscall(SYS_setfsgid, -1));
}

struct cap_header {
	uint32_t version;
	int pid;
};

struct cap_data {
	uint32_t effective, permitted, inheritable;
};

static void caps(const char *what)
{
	struct cap_header h = { 0x20080522, 0 };
	struct cap_data d[2] = { 0 };

	CHECK(syscall(SYS_capget, &h, d) == 0);
	printf("%s: kill %d, setuid %d, permitted setuid %d\n", what, d[0].effective >> 5 & 1,
	       d[0].effective >> 7 & 1, d[0].permitted >> 7 & 1);
}

static void change_ids(void)
{
	caps("as root");
	ids("begin", 0);
	ids("setresuid(1, 2, 3)", setresuid(1, 2, 3));
	caps("euid 2");
	ids("setuid of another", syscall(SYS_setuid, 77));
	ids("setuid(1)", syscall(SYS_setuid, 1));
	ids("setreuid(3, 1)", syscall(SYS_setreuid, 3, 1));
	ids("setresuid(-1, 0, -1)", syscall(SYS_setresuid, -1, 0, -1));
	ids("setgid without the right", syscall(SYS_setgid, 9));
	show("setgroups without the right", syscall(SYS_setgroups, 0, NULL));
	_exit((fflush(stdout), 0));
}

static void change_groups(void)
{
	gid_t list[3] = { 5, 6, 7 }, got[8];

	ids("setresgid(4, 5, 6)", setresgid(4, 5, 6));
	ids("setregid(-1, 4)", setregid((gid_t)-1, 4));
	ids("setgid(8)", setgid(8));
	show("setgroups", (long)setgroups(3, list));
	printf("getgroups: %d, %u %u %u\n", getgroups(8, got), got[0], got[1], got[2]);
	show("getgroups into too little", getgroups(1, got));
	show("getgroups -1", syscall(SYS_getgroups, -1, got));
	ids("setfsuid(12)", (syscall(SYS_setfsuid, 12), 0));
	ids("seteuid(13) takes it along", seteuid(13));
	ids("back", seteuid(0));
	ids("setuid(14)", setuid(14));
	caps("not root any more");
	ids("and never again", setuid(0));
	_exit((fflush(stdout), 0));
}

static void keep_caps(void)
{
	struct cap_header h = { 0x20080522, 0 };
	struct cap_data none[2] = { 0 }, all[2] = { { ~0u, ~0u, 0 }, { ~0u, ~0u, 0 } };

	CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0);
	CHECK(setuid(99) == 0);
	caps("PR_SET_KEEPCAPS");
	show("capset to nothing", syscall(SYS_capset, &h, none));
	caps("nothing");
	show("capset to all", syscall(SYS_capset, &h, all));
	h.version = 1;
	show("capget of a version", syscall(SYS_capget, &h, NULL));
	printf("the version to use: %x\n", h.version);
	_exit((fflush(stdout), 0));
}

static void in_child(void (*fn)(void))
{
	pid_t pid;
	int st;

	fflush(stdout);
	pid = fork();
	if (!pid)
		fn();
	CHECK(waitpid(pid, &st, 0) == pid && st == 0);
}

/* --- limits, priorities --------------------------------------------------------------------- */

static void limits(void)
{
	struct rlimit rl = { 100, 200 }, old;
	pid_t a = sitter(NULL);

	show("prlimit of a child", prlimit(a, RLIMIT_NOFILE, &rl, &old));
	CHECK(prlimit(a, RLIMIT_NOFILE, NULL, &old) == 0);
	printf("and it has it: %lu %lu\n", (unsigned long)old.rlim_cur,
	       (unsigned long)old.rlim_max);
	show("prlimit of nobody", prlimit(999999, RLIMIT_NOFILE, NULL, &old));
	show("prlimit 99", prlimit(0, (enum __rlimit_resource)99, NULL, &old));
	rl.rlim_cur = 300;
	show("soft above hard", prlimit(0, RLIMIT_STACK, &rl, NULL));
	show("getrusage 9", syscall(SYS_getrusage, 9, &old));
	show("getpriority of nobody", syscall(SYS_getpriority, PRIO_PROCESS, 999999));
	show("getpriority 9", syscall(SYS_getpriority, 9, 0));
	show("setpriority", setpriority(PRIO_PROCESS, (id_t)a, 5));
	printf("nice: %ld %ld\n", syscall(SYS_getpriority, PRIO_PROCESS, a),
	       syscall(SYS_getpriority, PRIO_PROCESS, 0));
	printf("policy: %ld, priorities %d to %d\n", syscall(SYS_sched_getscheduler, a),
	       sched_get_priority_min(SCHED_FIFO), sched_get_priority_max(SCHED_FIFO));
	show("sched_getscheduler of nobody", syscall(SYS_sched_getscheduler, 999999));
	end(a);
	become_1234();
	show("nice down", setpriority(PRIO_PROCESS, 0, -5));
	show("real time", sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 5 }));
	show("prlimit of another user's", prlimit(getppid(), RLIMIT_NOFILE, NULL, &old));
	rl = (struct rlimit){ 10, 4096 };
	CHECK(setrlimit(RLIMIT_NOFILE, &rl) == 0);
	rl.rlim_max = 8192;
	show("hard limit up", setrlimit(RLIMIT_NOFILE, &rl));
	_exit((fflush(stdout), 0));
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "sit"))
		for (;;)
			pause();
	self = argv[0];
	groups();
	orphaned_group();
	addressees();
	in_child(change_ids);
	in_child(change_groups);
	in_child(keep_caps);
	in_child(limits);
	return 0;
}
