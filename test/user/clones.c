/* SPDX-License-Identifier: MIT */
/*
 * clone and clone3: which flags are refused, and what each shares. Prints the same on Tessera as
 * on Linux.
 */
#include "user.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char stack[65536] __attribute__((aligned(16)));

static void show(const char *what, long ret)
{
	printf("%s: %s\n", what, ret < 0 ? strerror(errno) : "ok");
}

/* --- refusals ----------------------------------------------------------------------------- */

static void refused(const char *what, unsigned long flags)
{
	const long ret = syscall(SYS_clone, flags, 0, 0, 0, 0);

	if (ret == 0)
		_exit(0);
	show(what, ret);
	if (ret > 0)
		waitpid((pid_t)ret, NULL, __WALL);
}

static void refusals(void)
{
	fflush(stdout);
	refused("THREAD without SIGHAND", CLONE_THREAD | SIGCHLD);
	refused("THREAD|VM without SIGHAND", CLONE_THREAD | CLONE_VM);
	refused("SIGHAND without VM", CLONE_SIGHAND | SIGCHLD);
	refused("NEWNS|FS", CLONE_NEWNS | CLONE_FS | SIGCHLD);
	refused("NEWUSER|FS", CLONE_NEWUSER | CLONE_FS | SIGCHLD);
	refused("no flags", SIGCHLD);
	refused("a signal that is none", 0x70);
	refused("SYSVSEM|IO|UNTRACED", CLONE_SYSVSEM | CLONE_IO | CLONE_UNTRACED | SIGCHLD);
}

static void refused3(const char *what, struct clone_args *args, size_t size)
{
	const long ret = syscall(SYS_clone3, args, size);

	if (ret == 0)
		_exit(0);
	show(what, ret);
	if (ret > 0)
		waitpid((pid_t)ret, NULL, __WALL);
}

static void refusals3(void)
{
	struct clone_args ok = { .exit_signal = SIGCHLD }, a;
	uint64_t big[20] = { 0, 0, 0, 0, SIGCHLD };

	refused3("clone3", &ok, sizeof(ok));
	refused3("the first version", &ok, 64);
	refused3("too short", &ok, 56);
	refused3("longer, with zeroes", (struct clone_args *)big, sizeof(big));
	big[19] = 1;
	refused3("longer, with something", (struct clone_args *)big, sizeof(big));
	refused3("longer than a page", (struct clone_args *)big, 4097);
	refused3("bad pointer", (struct clone_args *)(uintptr_t)strtoul("8", NULL, 0), 64);
	a = ok, a.exit_signal = 65;
	refused3("signal 65", &a, sizeof(a));
	a = ok, a.exit_signal = 0x111;
	refused3("signal above a byte", &a, sizeof(a));
	a = ok, a.flags = SIGCHLD;
	refused3("signal in the flags", &a, sizeof(a));
	a = ok, a.flags = CLONE_DETACHED;
	refused3("DETACHED", &a, sizeof(a));
	a = ok, a.flags = 1UL << 40;
	refused3("unknown flag", &a, sizeof(a));
	a = ok, a.flags = CLONE_PARENT;
	refused3("PARENT with a signal", &a, sizeof(a));
	a = ok, a.flags = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
	refused3("THREAD with a signal", &a, sizeof(a));
	a = ok, a.flags = CLONE_SIGHAND | CLONE_VM | CLONE_CLEAR_SIGHAND;
	refused3("SIGHAND|CLEAR_SIGHAND", &a, sizeof(a));
	a = ok, a.stack = (uintptr_t)stack;
	refused3("stack without size", &a, sizeof(a));
	a = ok, a.stack_size = 4096;
	refused3("size without stack", &a, sizeof(a));
	a = ok, a.set_tid_size = 1;
	refused3("set_tid without an array", &a, sizeof(a));
	a = ok, a.set_tid = (uintptr_t)&big, a.set_tid_size = 99;
	refused3("set_tid of 99 levels", &a, sizeof(a));
}

/* --- what is shared -------------------------------------------------------------------------- */

static volatile int word;
static int child_fd;

static void handler(int signo)
{
	(void)signo;
}

static int change_things(void *arg)
{
	(void)arg;
	word = 2;
	umask(027);
	CHECK(chdir("/") == 0);
	child_fd = open("/", O_RDONLY);
	signal(SIGUSR1, SIG_IGN);
	return 0;
}

static void shared(const char *what, int flags)
{
	struct sigaction sa;
	char cwd[4096];
	mode_t mask;
	int st;
	pid_t pid;

	word = 1;
	child_fd = -1;
	umask(022);
	CHECK(chdir("/usr") == 0);
	signal(SIGUSR1, handler);
	fflush(stdout);
	pid = clone(change_things, stack + sizeof(stack), flags | SIGCHLD, NULL);
	CHECK(pid > 0 && waitpid(pid, &st, 0) == pid && st == 0);
	CHECK(sigaction(SIGUSR1, NULL, &sa) == 0 && getcwd(cwd, sizeof(cwd)));
	mask = umask(022);
	/*
	 * A descriptor that the child has opened is ours if the table is; its number is known with
	 * VM only.
	 */
	printf("%s: memory %d, cwd %s, umask %o, handler %s, descriptor %s\n", what, word, cwd,
	       mask, sa.sa_handler == SIG_IGN ? "changed" : "kept",
	       child_fd < 0                   ? "unknown"
	       : fcntl(child_fd, F_GETFD) < 0 ? "not ours"
					      : "ours");
	if (child_fd >= 0)
		close(child_fd);
}

static void offsets(const char *self)
{
	const int fd = open(self, O_RDONLY);
	int st;
	char c[4];
	pid_t pid;

	CHECK(fd >= 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(read(fd, c, 4) == 4);
		close(fd);
		_exit(0);
	}
	CHECK(waitpid(pid, &st, 0) == pid);
	printf("offset after the child has read 4 bytes and closed: %ld\n",
	       (long)lseek(fd, 0, SEEK_CUR));
	close(fd);
}

/* --- ids, TLS, parent ------------------------------------------------------------------------- */

static pid_t parent_tid, child_tid;

static int report_tid(void *arg)
{
	(void)arg;
	printf("CHILD_SETTID: %d\n", child_tid == getpid());
	fflush(stdout);
	return 0;
}

static void tids(void)
{
	int st;
	pid_t pid;

	fflush(stdout);
	pid = clone(report_tid, stack + sizeof(stack),
		    CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, NULL, &parent_tid, NULL,
		    &child_tid);
	CHECK(pid > 0 && waitpid(pid, &st, 0) == pid);
	printf("PARENT_SETTID: %d, the child's is its own: %d\n", parent_tid == pid,
	       child_tid == 0);
	child_tid = 77;
	pid = clone(report_tid, stack + sizeof(stack), CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD,
		    NULL, NULL, NULL, &child_tid);
	CHECK(pid > 0 && waitpid(pid, &st, 0) == pid);
	printf("CHILD_CLEARTID: %d\n", child_tid);
}

static int sibling(void *arg)
{
	*(pid_t *)arg = getppid();
	return 3;
}

static void parents(void)
{
	pid_t *seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int st;
	pid_t pid;

	if (seen == MAP_FAILED)
		seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		pid = clone(sibling, stack + sizeof(stack), CLONE_PARENT | CLONE_VM | SIGCHLD,
			    seen);
		CHECK(pid > 0);
		_exit(waitpid(pid, NULL, 0) == -1 && errno == ECHILD ? 5 : 6);
	}
	for (int i = 0; i < 2; i++) {
		const pid_t got = wait(&st);

		CHECK(got > 0);
		word = i ? word * WEXITSTATUS(st) : WEXITSTATUS(st);
	}
	printf("PARENT: %d from both\n", word);
}

static int exit_with_mxcsr(void *arg)
{
	unsigned int mxcsr, *want = arg;

	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	return mxcsr == *want ? 0 : 1;
}

static void fpu(void)
{
	unsigned int mxcsr = 0x1f80 | 0x6000;
	int st;
	pid_t pid;

	__asm__ volatile("ldmxcsr %0" ::"m"(mxcsr));
	pid = clone(exit_with_mxcsr, stack + sizeof(stack), SIGCHLD, &mxcsr);
	CHECK(pid > 0 && waitpid(pid, &st, 0) == pid);
	printf("rounding mode goes with the child: %d\n", WEXITSTATUS(st) == 0);
	mxcsr = 0x1f80;
	__asm__ volatile("ldmxcsr %0" ::"m"(mxcsr));
}

static void clear_handlers(void)
{
	struct clone_args a = { .flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD };
	struct sigaction sa, sb;
	long pid;

	signal(SIGUSR1, handler);
	signal(SIGUSR2, SIG_IGN);
	fflush(stdout);
	pid = syscall(SYS_clone3, &a, sizeof(a));
	if (!pid) {
		CHECK(sigaction(SIGUSR1, NULL, &sa) == 0 && sigaction(SIGUSR2, NULL, &sb) == 0);
		printf("CLEAR_SIGHAND: %d %d\n", sa.sa_handler == SIG_DFL,
		       sb.sa_handler == SIG_IGN);
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid((pid_t)pid, NULL, 0) == pid);
	signal(SIGUSR2, SIG_DFL);
}

int main(int argc, char **argv)
{
	CHECK(argc > 0);
	refusals();
	refusals3();
	shared("nothing shared", 0);
	shared("VM", CLONE_VM);
	shared("VM|FS", CLONE_VM | CLONE_FS);
	shared("VM|FILES", CLONE_VM | CLONE_FILES);
	shared("VM|SIGHAND", CLONE_VM | CLONE_SIGHAND);
	shared("VM|VFORK", CLONE_VM | CLONE_VFORK);
	shared("FS", CLONE_FS);
	offsets(argv[0]);
	tids();
	parents();
	fpu();
	clear_handlers();
	return 0;
}
