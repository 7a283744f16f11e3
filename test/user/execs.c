/* SPDX-License-Identifier: MIT */
/*
 * exec: what it refuses, scripts, what it keeps and what it resets: execs run DIR, with the files
 * that exec_files() of test/boot/test_processes.py makes, this program among them as "interp".
 * Prints the same on Tessera as on Linux.
 */
#include "state.h"
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static void print_args(int argc, char **argv)
{
	printf("  argc %d:", argc);
	for (int i = 0; i < argc; i++)
		printf(" [%s]", argv[i]);
	printf("\n");
}

/* --- in the new program -------------------------------------------------------------------- */

static const char *disposition(int signo)
{
	struct sigaction sa;

	CHECK(sigaction(signo, NULL, &sa) == 0);
	return sa.sa_handler == SIG_DFL   ? "default"
	       : sa.sa_handler == SIG_IGN ? "ignored"
					  : "handler";
}

static void print_state(void)
{
	sigset_t blocked, pending;
	struct itimerval it;
	char name[17] = "";
	stack_t ss;

	sigprocmask(SIG_BLOCK, NULL, &blocked);
	sigpending(&pending);
	CHECK(sigaltstack(NULL, &ss) == 0);
	CHECK(prctl(PR_GET_NAME, name) == 0);
	CHECK(getitimer(ITIMER_REAL, &it) == 0);
	printf("  USR1 %s, USR2 %s, TERM blocked %d pending %d, HUP pending %d\n",
	       disposition(SIGUSR1), disposition(SIGUSR2), sigismember(&blocked, SIGTERM),
	       sigismember(&pending, SIGTERM), sigismember(&pending, SIGHUP));
	printf("  fd 20 %s, fd 21 %s, altstack %s, name %s, timer %s\n",
	       fcntl(20, F_GETFD) < 0 ? "closed" : "open",
	       fcntl(21, F_GETFD) < 0 ? "closed" : "open", ss.ss_flags & SS_DISABLE ? "off" : "on",
	       name, it.it_value.tv_sec ? "set" : "not set");
	printf("  the task is the first one: %d\n", getpid() == (pid_t)syscall(SYS_gettid));
}

/* --- refusals and scripts -------------------------------------------------------------------- */

static void end(pid_t pid)
{
	int st;

	CHECK(waitpid(pid, &st, 0) == pid);
	if (WIFEXITED(st))
		printf("  status %d\n", WEXITSTATUS(st));
	else
		printf("  signal %d\n", WTERMSIG(st));
}

static void try_exec(const char *path, const void *argv, const void *envp)
{
	pid_t pid;

	printf("%s\n", path);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		syscall(SYS_execve, path, argv, envp);
		printf("  %s\n", strerror(errno));
		fflush(stdout);
		_exit(99);
	}
	end(pid);
}

static void refusals(void)
{
	static const char *const names[] = {
		"./no-such-file",
		"./not-executable",
		".",
		"./empty",
		"./bang",
		"./bang-blank",
		"./text",
		"./script",
		"./script-arg",
		"./script-blanks",
		"./script-no-newline",
		"./script-long-arg",
		"./script-long-name",
		"./script-no-interp",
		"./script-bad-interp",
		"./script-is-its-own",
		"./nest1",
		"./nest2",
		"./nest3",
		"./nest4",
		"./nest5",
		"./nest6",
		"./script/x",
		"./script-to-text",
	};
	char *const argv[] = { "zero", "one two", "", "three", NULL };
	char *const envp[] = { NULL };
	const void *const bad = (const void *)(uintptr_t)strtoul("8", NULL, 0);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		try_exec(names[i], argv, envp);
	try_exec("./interp", (char *[]){ "interp", "args", NULL }, NULL);
	try_exec("", argv, envp);
	try_exec("./interp", bad, envp);
	try_exec("./interp", (const void *[]){ bad, NULL }, envp);
	try_exec("./interp", argv, bad);
}

/* One argument of @len bytes, @n times, and no environment. */
static void with_args(const char *what, size_t len, size_t n)
{
	char *arg = malloc(len + 1), **argv = calloc(n + 3, sizeof(*argv));
	pid_t pid;

	CHECK(arg && argv);
	memset(arg, 'x', len);
	arg[len] = '\0';
	argv[0] = "interp";
	argv[1] = "count";
	for (size_t i = 0; i < n; i++)
		argv[i + 2] = arg;
	printf("%s\n", what);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		execve("./interp", argv, (char *[]){ NULL });
		printf("  %s\n", strerror(errno));
		fflush(stdout);
		_exit(99);
	}
	end(pid);
	free(arg);
	free(argv);
}

static void sizes(void)
{
	struct rlimit rl;

	with_args("the longest argument", 131071, 1);
	with_args("one byte more", 131072, 1);
	with_args("1.8 MB", 100000, 18);
	with_args("2.2 MB", 100000, 22);
	with_args("20000 arguments", 10, 20000);
	with_args("120000 arguments", 10, 120000);
	CHECK(getrlimit(RLIMIT_STACK, &rl) == 0);
	rl.rlim_cur = 1 << 20;
	CHECK(setrlimit(RLIMIT_STACK, &rl) == 0);
	with_args("200 kB with a stack of 1 MiB", 100000, 2);
	with_args("300 kB with a stack of 1 MiB", 100000, 3);
}

/* --- what is kept ----------------------------------------------------------------------------- */

static void handler(int signo)
{
	(void)signo;
}

static void set_state(void)
{
	static char stack[65536];
	struct itimerval it = { { 0, 0 }, { 1000, 0 } };
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	sigset_t set;

	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, handler);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGTERM);
	CHECK(dup2(0, 20) == 20 && dup2(0, 21) == 21 && fcntl(21, F_SETFD, FD_CLOEXEC) == 0);
	CHECK(sigaltstack(&ss, NULL) == 0);
	CHECK(prctl(PR_SET_NAME, "before") == 0);
	CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0);
}

static void exec_state(void)
{
	execl("./interp", "interp", "state", NULL);
	printf("  %s\n", strerror(errno));
	fflush(stdout);
	_exit(99);
}

static int never[2]; /* a pipe in which nothing comes */

static void *block(void *arg)
{
	char c;

	if (arg)
		for (;;)
			; /* nothing but instructions */
	CHECK(read(never[0], &c, 1) == 1);
	return NULL;
}

static void *exec_thread(void *arg)
{
	exec_state();
	return arg;
}

static void in_child(const char *what, void (*fn)(void))
{
	pid_t pid;

	printf("%s\n", what);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		fn();
		_exit(98);
	}
	end(pid);
}

static void state_alone(void)
{
	set_state();
	exec_state();
}

static void state_from_a_thread(void)
{
	pthread_t t;

	CHECK(pipe(never) == 0);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&t, NULL, block, i == 3 ? &t : NULL) == 0);
	CHECK(pthread_create(&t, NULL, exec_thread, NULL) == 0);
	pthread_join(t, NULL);
}

static void *leave_first(void *arg)
{
	await_first_gone();
	return exec_thread(arg);
}

static void state_without_the_first(void)
{
	pthread_t t;

	CHECK(pthread_create(&t, NULL, leave_first, NULL) == 0);
	pthread_exit(NULL);
}

static void failed_with_threads(void)
{
	pthread_t t;
	void *ret;

	CHECK(pipe(never) == 0);
	CHECK(pthread_create(&t, NULL, block, NULL) == 0);
	CHECK(execl("./text", "text", NULL) == -1);
	CHECK(write(never[1], "x", 1) == 1);
	CHECK(pthread_join(t, &ret) == 0);
	printf("  the other thread is still there\n");
	fflush(stdout);
	_exit(0);
}

static void vforked(void)
{
	int st;
	const pid_t pid = vfork();

	if (!pid) {
		execl("./script-arg", "script-arg", "from vfork", NULL);
		_exit(97);
	}
	CHECK(waitpid(pid, &st, 0) == pid);
	printf("  parent: status %d\n", WEXITSTATUS(st));
	fflush(stdout);
	_exit(0);
}

static void by_descriptor(void)
{
	const int fd = open("./interp", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	syscall(SYS_execveat, fd, "", (char *[]){ "by-fd", "args", NULL }, NULL, AT_EMPTY_PATH);
	printf("  %s\n", strerror(errno));
	fflush(stdout);
}

static void by_directory(void)
{
	const int fd = open(".", O_RDONLY | O_DIRECTORY);

	CHECK(fd >= 0 && chdir("/") == 0);
	CHECK(syscall(SYS_execveat, fd, "interp", NULL, NULL, 0x10) == -1);
	printf("  unknown flag: %s\n", strerror(errno));
	CHECK(syscall(SYS_execveat, fd, "link", NULL, NULL, AT_SYMLINK_NOFOLLOW) == -1);
	printf("  not following: %s\n", strerror(errno));
	fflush(stdout);
	syscall(SYS_execveat, fd, "link", (char *[]){ "by-link", "args", NULL }, NULL, 0);
	printf("  %s\n", strerror(errno));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "state")) {
		print_state();
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "count")) {
		printf("  argc %d, the last has %zu bytes\n", argc, strlen(argv[argc - 1]));
		return 0;
	}
	if (argc != 3 || strcmp(argv[1], "run")) {
		print_args(argc, argv);
		return 42;
	}
	CHECK(chdir(argv[2]) == 0);
	refusals();
	in_child("state", state_alone);
	in_child("from a thread", state_from_a_thread);
	in_child("when the first thread has ended", state_without_the_first);
	in_child("failed", failed_with_threads);
	in_child("vfork", vforked);
	in_child("execveat of a descriptor", by_descriptor);
	in_child("execveat of a directory", by_directory);
	sizes();
	return 0;
}
