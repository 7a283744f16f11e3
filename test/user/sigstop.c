/* SPDX-License-Identifier: MIT */
/*
 * Default actions as a parent sees them: how children end, stop and go on; what SIGCHLD says;
 * orphaned groups. Prints the same as on Linux.
 */
#include "user.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static int to_child[2], to_parent[2];

static void describe(const char *what, pid_t got, pid_t want, int status)
{
	const int err = errno;

	printf("%s: %s", what, got == want ? "child" : got == 0 ? "nothing" : "");
	if (got < 0)
		printf("%s", strerrorname_np(err));
	else if (got && WIFEXITED(status))
		printf(" exited %d", WEXITSTATUS(status));
	else if (got && WIFSIGNALED(status))
		printf(" killed by %d, core %d", WTERMSIG(status), !!WCOREDUMP(status));
	else if (got && WIFSTOPPED(status))
		printf(" stopped by %d", WSTOPSIG(status));
	else if (got && WIFCONTINUED(status))
		printf(" continued");
	putchar('\n');
}

static void wait_and_tell(const char *what, pid_t pid, int options)
{
	int status = 0;
	pid_t got;

	do
		got = waitpid(pid, &status, options);
	while (got < 0 && errno == EINTR);
	describe(what, got, pid, status);
}

static pid_t spawn(void (*fn)(void))
{
	pid_t pid;

	CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		fn();
		fflush(stdout);
		_exit(7);
	}
	return pid;
}

static void close_pipes(void)
{
	for (int i = 0; i < 2; i++) {
		close(to_child[i]);
		close(to_parent[i]);
	}
}

static void ready(void)
{
	CHECK(write(to_parent[1], "r", 1) == 1);
}

static void await_ready(void)
{
	char c;

	CHECK(read(to_parent[0], &c, 1) == 1);
}

/* --- ends -------------------------------------------------------------------------------- */

static int how;

static void die_by(void)
{
	raise(how);
}

static void ends(void)
{
	const struct rlimit none = { 0, 0 };

	CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
	for (how = 1; how < NSIG; how++) {
		char what[32];
		pid_t pid;

		if (how == 32 || how == 33) /* the C library's own */
			continue;
		snprintf(what, sizeof(what), "signal %d", how);
		pid = spawn(die_by);
		wait_and_tell(what, pid, WUNTRACED);
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) == pid)
			;
		close_pipes();
	}
}

/* --- stop and continue -------------------------------------------------------------------- */

static void sleeper(void)
{
	ready();
	for (;;)
		pause();
}

static void on_cont(int signo)
{
	CHECK(write(to_parent[1], signo == SIGCONT ? "C" : "T", 1) == 1);
}

static void with_handler(void)
{
	signal(SIGCONT, on_cont);
	signal(SIGTERM, on_cont);
	sleeper();
}

static void ignores_cont(void)
{
	signal(SIGCONT, SIG_IGN);
	signal(SIGTSTP, SIG_IGN);
	sleeper();
}

static void blocks_cont(void)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGCONT);
	sigaddset(&s, SIGTSTP);
	sigprocmask(SIG_BLOCK, &s, NULL);
	ready();
	for (char c; read(to_child[0], &c, 1) == 1;) {
		sigpending(&s);
		printf("pending: CONT %d TSTP %d\n", sigismember(&s, SIGCONT),
		       sigismember(&s, SIGTSTP));
		fflush(stdout);
		ready();
	}
}

static void stops(void)
{
	char got[8] = { 0 };
	pid_t pid = spawn(sleeper);

	await_ready();
	wait_and_tell("running", pid, WNOHANG | WUNTRACED | WCONTINUED);
	kill(pid, SIGSTOP);
	wait_and_tell("stop", pid, WUNTRACED);
	wait_and_tell("told once", pid, WNOHANG | WUNTRACED);
	kill(pid, SIGSTOP); /* is stopped already */
	kill(pid, SIGUSR1); /* waits */
	wait_and_tell("still", pid, WNOHANG | WUNTRACED);
	kill(pid, SIGCONT); /* now USR1 kills it */
	wait_and_tell("end", pid, 0);
	close_pipes();

	pid = spawn(sleeper);
	await_ready();
	kill(pid, SIGSTOP);
	wait_and_tell("stop", pid, WUNTRACED);
	kill(pid, SIGCONT);
	wait_and_tell("continue", pid, WCONTINUED);
	wait_and_tell("told once", pid, WNOHANG | WCONTINUED);
	kill(pid, SIGSTOP);
	wait_and_tell("stop again", pid, WUNTRACED);
	kill(pid, SIGKILL);
	wait_and_tell("kill while stopped", pid, 0);
	close_pipes();

	pid = spawn(with_handler);
	await_ready();
	kill(pid, SIGSTOP);
	wait_and_tell("stop", pid, WUNTRACED);
	kill(pid, SIGTERM);
	kill(pid, SIGCONT);
	CHECK(read(to_parent[0], got, 1) == 1 && read(to_parent[0], got + 1, 1) == 1);
	printf("handlers: %s\n", got);
	kill(pid, SIGKILL);
	wait_and_tell("end", pid, 0);
	close_pipes();

	pid = spawn(ignores_cont);
	await_ready();
	kill(pid, SIGTSTP);
	kill(pid, SIGTTIN);
	wait_and_tell("TTIN", pid, WUNTRACED);
	kill(pid, SIGCONT);
	wait_and_tell("continue although ignored", pid, WCONTINUED);
	kill(pid, SIGKILL);
	wait_and_tell("end", pid, 0);
	close_pipes();

	pid = spawn(blocks_cont);
	await_ready();
	kill(pid, SIGSTOP);
	wait_and_tell("stop", pid, WUNTRACED);
	kill(pid, SIGCONT);
	wait_and_tell("continue although blocked", pid, WCONTINUED);
	CHECK(write(to_child[1], "x", 1) == 1);
	await_ready();
	kill(pid, SIGTSTP); /* takes the SIGCONT back */
	CHECK(write(to_child[1], "x", 1) == 1);
	await_ready();
	kill(pid, SIGCONT); /* and the other way round */
	CHECK(write(to_child[1], "x", 1) == 1);
	await_ready();
	kill(pid, SIGKILL);
	wait_and_tell("end", pid, 0);
	close_pipes();
}

/* --- SIGCHLD ------------------------------------------------------------------------------- */

static void event(pid_t pid)
{
	const struct timespec second = { 20, 0 };
	siginfo_t i;
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGCHLD);
	if (sigtimedwait(&s, &i, &second) < 0)
		printf("no SIGCHLD (%s)\n", strerrorname_np(errno));
	else
		printf("SIGCHLD: code %d status %d pid %d uid %d\n", i.si_code, i.si_status,
		       i.si_pid == pid, i.si_uid == getuid());
}

static bool chld_pending(void)
{
	sigset_t s;

	CHECK(sigpending(&s) == 0);
	return sigismember(&s, SIGCHLD);
}

static void nothing(int signo)
{
	(void)signo;
}

static void child_signals(void)
{
	struct sigaction sa = { .sa_handler = nothing };
	siginfo_t info;
	sigset_t s;
	pid_t pid;

	sigemptyset(&s);
	sigaddset(&s, SIGCHLD);
	CHECK(sigprocmask(SIG_BLOCK, &s, NULL) == 0);
	CHECK(sigaction(SIGCHLD, &sa, NULL) == 0);
	pid = spawn(sleeper);
	await_ready();
	kill(pid, SIGSTOP);
	event(pid);
	info.si_pid = 1;
	CHECK(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT) == 0);
	printf("waitid: code %d status %d signo %d\n", info.si_code, info.si_status, info.si_signo);
	CHECK(waitid(P_PID, (id_t)pid, &info, WSTOPPED) == 0);
	CHECK(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG) == 0);
	printf("nothing: %d %d\n", info.si_pid, info.si_signo);
	kill(pid, SIGCONT);
	event(pid);
	CHECK(waitid(P_PID, (id_t)pid, &info, WCONTINUED) == 0);
	printf("waitid: code %d status %d\n", info.si_code, info.si_status);
	sa.sa_flags = SA_NOCLDSTOP;
	CHECK(sigaction(SIGCHLD, &sa, NULL) == 0);
	kill(pid, SIGSTOP);
	wait_and_tell("stop", pid, WUNTRACED);
	printf("SA_NOCLDSTOP: pending %d\n", chld_pending());
	kill(pid, SIGTERM);
	kill(pid, SIGCONT);
	event(pid);
	wait_and_tell("end", pid, 0);
	close_pipes();
	pid = spawn(die_by); /* how is not a signal now */
	event(pid);
	CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0);
	printf("waitid: code %d status %d\n", info.si_code, info.si_status);
	close_pipes();
	sa.sa_flags = SA_NOCLDWAIT;
	CHECK(sigaction(SIGCHLD, &sa, NULL) == 0);
	pid = spawn(die_by);
	wait_and_tell("SA_NOCLDWAIT", pid, 0);
	printf("pending %d\n", chld_pending());
	signal(SIGCHLD, SIG_IGN);
	close_pipes();
	pid = spawn(die_by);
	wait_and_tell("ignored", pid, 0);
	printf("pending %d\n", chld_pending());
	close_pipes();
	signal(SIGCHLD, SIG_DFL);
	CHECK(sigprocmask(SIG_UNBLOCK, &s, NULL) == 0);
}

/* --- groups --------------------------------------------------------------------------------- */

static void orphan_alone(void)
{
	CHECK(setsid() == getpid());
	raise(SIGTSTP);
	raise(SIGTTIN);
	raise(SIGTTOU);
	puts("not stopped");
}

static void group_of_its_own(void)
{
	CHECK(setpgid(0, 0) == 0);
	raise(SIGTSTP);
	puts("goes on");
}

static void two_in_a_group(void)
{
	CHECK(setpgid(0, 0) == 0);
	if (fork() == 0)
		sleeper();
	sleeper();
}

static void groups(void)
{
	pid_t pid = spawn(orphan_alone);

	wait_and_tell("orphaned group", pid, WUNTRACED);
	close_pipes();
	pid = spawn(group_of_its_own);
	wait_and_tell("its own group", pid, WUNTRACED);
	kill(-pid, SIGCONT);
	wait_and_tell("end", pid, 0);
	close_pipes();
	pid = spawn(two_in_a_group);
	await_ready();
	await_ready();
	kill(-pid, SIGSTOP);
	wait_and_tell("group stops", pid, WUNTRACED);
	kill(-pid, SIGCONT);
	wait_and_tell("group continues", pid, WCONTINUED);
	kill(-pid, SIGKILL);
	wait_and_tell("group ends", pid, 0);
	close_pipes();
}

/* --- the other process as sender -------------------------------------------------------------- */

static void told(int signo, siginfo_t *i, void *ctx)
{
	(void)ctx;
	printf("%d: code %d from the parent %d value %d\n", signo, i->si_code,
	       i->si_pid == getppid(), i->si_code == SI_QUEUE ? i->si_value.sival_int : -1);
	fflush(stdout);
	ready();
}

static void listener(void)
{
	struct sigaction sa = { .sa_sigaction = told, .sa_flags = SA_SIGINFO };

	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGRTMIN, &sa, NULL);
	sleeper();
}

static void senders(void)
{
	siginfo_t fake = { .si_code = SI_USER };
	pid_t pid = spawn(listener);

	await_ready();
	kill(pid, SIGUSR1);
	await_ready();
	sigqueue(pid, SIGRTMIN, (union sigval){ .sival_int = 99 });
	await_ready();
	fake.si_code = SI_TKILL;
	printf("fake: %ld", syscall(SYS_rt_sigqueueinfo, pid, SIGUSR1, &fake));
	printf(" %d\n", errno == EPERM);
	printf("tgkill of its first thread by another's name: %ld",
	       syscall(SYS_tgkill, getpid(), pid, SIGUSR1));
	printf(" %d\n", errno == ESRCH);
	kill(pid, SIGKILL);
	/* A zombie is there. */
	while (waitid(P_PID, (id_t)pid, &fake, WEXITED | WNOWAIT) < 0)
		;
	printf("zombie: %d\n", kill(pid, SIGUSR1));
	wait_and_tell("end", pid, 0);
	printf("gone: %d", kill(pid, 0));
	printf(" %d\n", errno == ESRCH);
	close_pipes();
}

int main(void)
{
	int status;
	pid_t pid;

	setvbuf(stdout, NULL, _IOLBF, 1 << 12);
	/*
	 * A group with a parent outside, but in the session: whoever has started us, it is not an
	 * orphaned one.
	 */
	pid = fork();
	CHECK(pid >= 0);
	if (pid > 0) {
		CHECK(waitpid(pid, &status, 0) == pid);
		return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	}
	CHECK(setpgid(0, 0) == 0);
	ends();
	stops();
	child_signals();
	groups();
	senders();
	return 0;
}
