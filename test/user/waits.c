/* SPDX-License-Identifier: MIT */
/*
 * fork, vfork, exit and the wait family: prints what each call says, the same on Tessera as on
 * Linux.
 */
#include "user.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static pid_t child; /* the one that is being talked about */

static const char *who(pid_t pid)
{
	return pid == child ? "child" : pid == 0 ? "0" : pid == -1 ? strerror(errno) : "somebody";
}

static void show_status(const char *what, pid_t ret, int st)
{
	printf("%s: %s", what, who(ret));
	if (ret <= 0)
		;
	else if (WIFEXITED(st))
		printf(", exited %d", WEXITSTATUS(st));
	else if (WIFSIGNALED(st))
		printf(", signal %d%s", WTERMSIG(st), WCOREDUMP(st) ? " core" : "");
	else if (WIFSTOPPED(st))
		printf(", stopped by %d", WSTOPSIG(st));
	else if (WIFCONTINUED(st))
		printf(", continued");
	printf("\n");
}

/* The call first, then what it has stored in st. */
#define SHOW(what, call)                          \
	do {                                      \
		const pid_t ret_ = (pid_t)(call); \
		show_status(what, ret_, st);      \
	} while (0)

static void show_info(const char *what, int ret, const siginfo_t *si)
{
	if (ret)
		printf("%s: %s\n", what, strerror(errno));
	else if (!si->si_pid)
		printf("%s: nothing, signo %d\n", what, si->si_signo);
	else
		printf("%s: %s, signo %d, code %d, status %d, uid %s\n", what, who(si->si_pid),
		       si->si_signo, si->si_code, si->si_status,
		       si->si_uid == getuid() ? "ours" : "other");
}

static pid_t spawn(void (*fn)(void))
{
	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		fn();
		fflush(stdout);
		_exit(0);
	}
	return child;
}

static void exit_7(void)
{
	_exit(7);
}

static void exit_big(void)
{
	_exit(0x1234);
}

static void die_term(void)
{
	kill(getpid(), SIGTERM);
}

static void die_segv(void)
{
	raise(SIGSEGV);
}

static void stop_self(void)
{
	kill(getpid(), SIGSTOP);
	_exit(3);
}

static int until[2]; /* a pipe whose end lets stop_self_until() end */

static void stop_self_until(void)
{
	char c;

	close(until[1]);
	kill(getpid(), SIGSTOP);
	_exit(read(until[0], &c, 1) == 0 ? 3 : 4);
}

static void sleep_for_ever(void)
{
	for (;;)
		pause();
}

static void plain_waits(void)
{
	int st = 0;

	spawn(exit_7);
	SHOW("exit", waitpid(child, &st, 0));
	spawn(exit_big);
	SHOW("exit of more than a byte", waitpid(-1, &st, 0));
	spawn(die_term);
	SHOW("SIGTERM", wait(&st));
	spawn(die_segv);
	SHOW("SIGSEGV", waitpid(0, &st, 0));
	SHOW("nobody left", waitpid(-1, &st, 0));
	SHOW("not our child", waitpid(1, &st, 0));
	SHOW("no such group", waitpid(-999999, &st, 0));
	SHOW("bad options", waitpid(-1, &st, 0x100));
	SHOW("INT_MIN", syscall(SYS_wait4, 0x80000000, &st, 0, NULL));
	spawn(sleep_for_ever);
	SHOW("WNOHANG", waitpid(child, &st, WNOHANG));
	kill(child, SIGKILL);
	SHOW("SIGKILL", waitpid(child, &st, 0));
	spawn(exit_7);
	SHOW("bad pointer", syscall(SYS_wait4, child, 8L, 0, NULL));
	SHOW("and it is gone", waitpid(child, &st, 0));
}

static void stops(void)
{
	siginfo_t si;
	int st = 0;

	CHECK(pipe(until) == 0);
	spawn(stop_self_until);
	close(until[0]);
	SHOW("WUNTRACED", waitpid(child, &st, WUNTRACED));
	SHOW("only once", waitpid(child, &st, WUNTRACED | WNOHANG));
	kill(child, SIGCONT);
	SHOW("WCONTINUED", waitpid(child, &st, WCONTINUED));
	close(until[1]);
	SHOW("then the end", waitpid(child, &st, 0));

	spawn(stop_self);
	memset(&si, 0, sizeof(si));
	show_info("WSTOPPED|WNOWAIT", waitid(P_PID, (id_t)child, &si, WSTOPPED | WNOWAIT), &si);
	memset(&si, 0, sizeof(si));
	show_info("WSTOPPED", waitid(P_PID, (id_t)child, &si, WSTOPPED), &si);
	memset(&si, 0, sizeof(si));
	show_info("WSTOPPED again", waitid(P_PID, (id_t)child, &si, WSTOPPED | WNOHANG), &si);
	kill(child, SIGCONT);
	memset(&si, 0, sizeof(si));
	show_info("WEXITED", waitid(P_ALL, 0, &si, WEXITED), &si);
}

static void waitids(void)
{
	siginfo_t si;
	int st = 0;

	spawn(exit_7);
	memset(&si, 0, sizeof(si));
	show_info("WEXITED|WNOWAIT", waitid(P_PID, (id_t)child, &si, WEXITED | WNOWAIT), &si);
	memset(&si, 0, sizeof(si));
	show_info("and again", waitid(P_PGID, 0, &si, WEXITED | WNOWAIT), &si);
	SHOW("and for good", waitpid(child, &st, 0));
	spawn(sleep_for_ever);
	memset(&si, 0xff, sizeof(si));
	show_info("WNOHANG", waitid(P_PID, (id_t)child, &si, WEXITED | WNOHANG), &si);
	kill(child, SIGKILL);
	memset(&si, 0, sizeof(si));
	show_info("killed", waitid(P_PID, (id_t)child, &si, WEXITED), &si);
	show_info("nobody", waitid(P_ALL, 0, &si, WEXITED), &si);
	show_info("no event asked for", waitid(P_ALL, 0, &si, 0), &si);
	show_info("P_PID 0", waitid(P_PID, 0, &si, WEXITED), &si);
	show_info("which 9", waitid((idtype_t)9, 0, &si, WEXITED), &si);
	show_info("unknown option", waitid(P_ALL, 0, &si, WEXITED | 0x100), &si);
	/* The only child is dead already: nothing but WEXITED can come of it. */
	spawn(exit_7);
	CHECK(waitid(P_PID, (id_t)child, &si, WEXITED | WNOWAIT) == 0);
	show_info("dead, stopped", waitid(P_PID, (id_t)child, &si, WSTOPPED), &si);
	show_info("dead, continued", waitid(P_ALL, 0, &si, WCONTINUED), &si);
	show_info("dead, either", waitid(P_ALL, 0, &si, WSTOPPED | WCONTINUED | WNOHANG), &si);
	CHECK(waitpid(child, &st, 0) == child);
	spawn(exit_7);
	printf("no info wanted: %d\n", waitid(P_ALL, 0, NULL, WEXITED));
}

/* --- SIGCHLD --------------------------------------------------------------------------- */

static volatile sig_atomic_t nr_chld;
static siginfo_t last_chld;

static void on_chld(int signo, siginfo_t *si, void *uc)
{
	(void)signo;
	(void)uc;
	last_chld = *si;
	nr_chld++;
}

static void set_chld(int flags)
{
	struct sigaction sa = { .sa_flags = SA_SIGINFO | flags };

	sa.sa_sigaction = on_chld;
	sigaction(SIGCHLD, &sa, NULL);
	nr_chld = 0;
}

static void show_chld(const char *what)
{
	printf("%s: %d, %s, code %d, status %d\n", what, (int)nr_chld, who(last_chld.si_pid),
	       last_chld.si_code, last_chld.si_status);
	nr_chld = 0;
}

static void wait_for_chld(void)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &old);
	while (!nr_chld)
		sigsuspend(&old);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

static void sigchld(void)
{
	pid_t ret;
	int st = 0;

	set_chld(0);
	spawn(exit_7);
	wait_for_chld();
	show_chld("SIGCHLD of an exit");
	SHOW("reaped", waitpid(child, &st, 0));
	spawn(stop_self);
	wait_for_chld();
	show_chld("SIGCHLD of a stop");
	kill(child, SIGCONT);
	wait_for_chld();
	printf("SIGCHLD after SIGCONT: code %s\n",
	       last_chld.si_code == CLD_CONTINUED || last_chld.si_code == CLD_EXITED ? "fits"
										     : "bad");
	while (waitpid(child, &st, 0) != child)
		;
	set_chld(SA_NOCLDSTOP);
	spawn(stop_self);
	SHOW("stopped", waitpid(child, &st, WUNTRACED));
	printf("SA_NOCLDSTOP: %d signals\n", (int)nr_chld);
	kill(child, SIGKILL);
	wait_for_chld();
	show_chld("SIGCHLD of a kill");
	SHOW("reaped", waitpid(child, &st, 0));
	set_chld(SA_NOCLDWAIT);
	spawn(exit_7);
	while ((ret = waitpid(-1, &st, 0)) == -1 && errno == EINTR)
		;
	show_status("SA_NOCLDWAIT", ret, st);
	signal(SIGCHLD, SIG_IGN);
	spawn(exit_7);
	spawn(exit_7);
	SHOW("SIGCHLD ignored", waitpid(-1, &st, 0));
	signal(SIGCHLD, SIG_DFL);
}

/* --- orphans, vfork -------------------------------------------------------------------- */

static void leave_an_orphan(void)
{
	const pid_t parent = getpid();
	int fd[2];
	char c;

	CHECK(pipe(fd) == 0);
	if (fork() == 0) {
		close(fd[1]);
		CHECK(read(fd[0], &c, 1) == 0); /* until the parent is gone */
		while (getppid() == parent)
			sched_yield();
		printf("orphan: has another parent\n");
		fflush(stdout);
		_exit(0);
	}
	_exit(5);
}

static void orphans(void)
{
	int st = 0, out[2];
	char c;

	/*
	 * The orphan holds the pipe until it ends: that is how to wait for somebody else's child.
	 */
	CHECK(pipe(out) == 0);
	fflush(stdout);
	child = fork();
	if (!child) {
		close(out[0]);
		leave_an_orphan();
	}
	close(out[1]);
	SHOW("parent of an orphan", waitpid(child, &st, 0));
	CHECK(read(out[0], &c, 1) == 0);
	close(out[0]);
	SHOW("the orphan is not ours", waitpid(-1, &st, WNOHANG));
}

static void vforks(void)
{
	static volatile int shared;
	struct timespec ts = { 0, 20000000 };
	int st = 0;

	fflush(stdout);
	child = vfork();
	if (!child) {
		nanosleep(&ts, NULL);
		shared = 42;
		_exit(9);
	}
	printf("vfork: the child has written %d before we go on\n", shared);
	SHOW("vfork", waitpid(child, &st, 0));
	/* A clone that does not send SIGCHLD is waited for with __WCLONE. */
	child = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (!child)
		_exit(11);
	SHOW("clone without a signal", waitpid(-1, &st, 0));
	SHOW("__WCLONE", waitpid(-1, &st, __WCLONE));
	signal(SIGUSR2, SIG_IGN); /* what its end sends */
	child = (pid_t)syscall(SYS_clone, SIGUSR2, 0, 0, 0, 0);
	if (!child)
		_exit(12);
	SHOW("__WALL", waitpid(-1, &st, __WALL));
	signal(SIGUSR2, SIG_DFL);
}

static void usage(void)
{
	struct rusage before, after, ru;
	volatile unsigned long x = 0;
	int st;

	CHECK(getrusage(RUSAGE_CHILDREN, &before) == 0);
	fflush(stdout);
	child = fork();
	if (!child) {
		for (unsigned long i = 0; i < 60000000; i++)
			x += i;
		_exit(0);
	}
	CHECK(wait4(child, &st, 0, &ru) == child);
	CHECK(getrusage(RUSAGE_CHILDREN, &after) == 0);
	printf("usage: the child has used time %d, children's has grown %d\n",
	       ru.ru_utime.tv_sec || ru.ru_utime.tv_usec,
	       after.ru_utime.tv_sec > before.ru_utime.tv_sec ||
		       after.ru_utime.tv_usec > before.ru_utime.tv_usec);
}

static void many(void)
{
	enum {
		N = 40
	};
	pid_t pids[N];
	unsigned int seen = 0;
	int st;

	fflush(stdout);
	for (int i = 0; i < N; i++) {
		pids[i] = fork();
		if (!pids[i])
			_exit(i);
	}
	for (int i = 0; i < N; i++) {
		const pid_t pid = wait(&st);

		for (int k = 0; k < N; k++)
			if (pids[k] == pid && WEXITSTATUS(st) == k)
				seen++;
	}
	printf("many: %u of %d with their own status, then %s\n", seen, N,
	       wait(&st) == -1 ? strerror(errno) : "one more");
}

int main(void)
{
	plain_waits();
	stops();
	waitids();
	sigchld();
	orphans();
	vforks();
	usage();
	many();
	return 0;
}
