/* SPDX-License-Identifier: MIT */
/*
 * seccomp: the strict mode, filters that are refused, what filters answer, who has them: threads,
 * children, new programs, and their tracers. Prints the same on Linux.
 *
 * seccomps filtered: the new program of one of the cases.
 */
#include "call.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define NR      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define RET(k)  BPF_STMT(BPF_RET | BPF_K, k)
#define ALLOW   RET(SECCOMP_RET_ALLOW)
#define IS(n)   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1)
#define LEN(a)  (sizeof(a) / sizeof((a)[0]))
#define PROG(f) (&(struct sock_fprog){ LEN(f), f })

static long install(struct sock_fprog *prog, unsigned int flags)
{
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, prog);
}

/* One call answers @action; all others are allowed. */
static long rule(long nr, uint32_t action, unsigned int flags)
{
	struct sock_filter f[] = { NR, IS((uint32_t)nr), RET(action), ALLOW };

	return install(PROG(f), flags);
}

static void no_new_privs(void)
{
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
}

/* Run it in a child, and say how that ended. */
static void in_child(const char *what, void (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		fn();
		fflush(stdout);
		_exit(7);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		printf("%s: killed by %s\n", what, sigabbrev_np(WTERMSIG(status)));
	else
		printf("%s: ended with %d\n", what, WEXITSTATUS(status));
}

static void status_line(void)
{
	char line[128];
	FILE *f = fopen("/proc/thread-self/status", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "NoNewPrivs", 10) || !strncmp(line, "Seccomp", 7))
			fputs(line, stdout);
	fclose(f);
}

/* --- the strict mode ------------------------------------------------------------------ */

static void strict_begin(void)
{
	call("strict", prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	fflush(stdout);
}

static void strict_exit(void)
{
	strict_begin();
	syscall(SYS_exit, 3);
}

static void strict_getpid(void)
{
	strict_begin();
	syscall(SYS_getpid);
}

static void strict_group(void)
{
	strict_begin();
	_exit(3);
}

static void strict_nowhere(void)
{
	strict_begin();
	syscall(1000);
}

static void strict_then_filter(void)
{
	struct sock_filter f[] = { ALLOW };

	call("a filter", install(PROG(f), 0));
	call("then strict", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL));
	call("mode", prctl(PR_GET_SECCOMP));
}

/* --- refusals ------------------------------------------------------------------------- */

static void refused(const char *what, struct sock_filter *f, unsigned int len)
{
	call(what, install(&(struct sock_fprog){ (unsigned short)len, f }, 0));
}

static void refusals(void)
{
	struct sock_filter ok[] = { ALLOW }, endless[] = { NR };
	struct sock_filter far[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), ALLOW };
	struct sock_filter odd[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), ALLOW };
	struct sock_filter half[] = { BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0), ALLOW };
	struct sock_filter out[] = { BPF_STMT(BPF_JMP | BPF_JA, 1), ALLOW };
	struct sock_filter zero[] = { BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), ALLOW };
	struct sock_filter unset[] = { BPF_STMT(BPF_LD | BPF_MEM, 0), ALLOW };
	struct sock_filter none[] = { { 0xffff, 0, 0, 0 }, ALLOW };
	static struct sock_filter many[4096];
	unsigned int action = SECCOMP_RET_ERRNO, unknown = 0x12340000;
	long err = 0;
	int nr = 0;

	call("flags", install(PROG(ok), 0x100));
	call("ESRCH of no listener", install(PROG(ok), 1 << 5));
	call("operation", syscall(SYS_seccomp, 77, 0, NULL));
	call("strict with flags", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL));
	call("strict with a filter", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, PROG(ok)));
	call("mode", prctl(PR_SET_SECCOMP, 3, 0));
	call("nowhere", install((struct sock_fprog *)8, 0));
	call("instructions nowhere",
	     install(&(struct sock_fprog){ 1, (struct sock_filter *)8 }, 0));
	refused("empty", ok, 0);
	refused("too long", many, 4097);
	refused("endless", endless, 1);
	refused("beyond the data", far, 2);
	refused("not aligned", odd, 2);
	refused("half a word", half, 2);
	refused("out of the program", out, 2);
	refused("by zero", zero, 2);
	refused("what was not stored", unset, 2);
	refused("no opcode", none, 2);
	call("an action", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
	call("another", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &unknown));
	call("with flags", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 1, &action));
	for (unsigned int i = 0; i < 4096; i++)
		many[i] = (struct sock_filter)ALLOW;
	while (!err && nr < 100) {
		err = install(&(struct sock_fprog){ 4096, many }, 0);
		nr += !err;
	}
	printf("long ones: %d, then %s\n", nr > 2, strerrorname_np(errno));
	call("mode", prctl(PR_GET_SECCOMP));
}

static void rights(void)
{
	struct sock_filter f[] = { ALLOW };

	CHECK(setresuid(65534, 65534, 65534) == 0);
	call("as nobody", install(PROG(f), 0));
	no_new_privs();
	call("without new privileges", install(PROG(f), 0));
	call("again, by prctl", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PROG(f)));
	status_line();
}

/* --- answers -------------------------------------------------------------------------- */

static void errors(void)
{
	CHECK(rule(SYS_getppid, SECCOMP_RET_ERRNO | ENOTTY, 0) == 0);
	CHECK(rule(SYS_getpgrp, SECCOMP_RET_ERRNO | 0, 0) == 0);
	CHECK(rule(SYS_getsid, SECCOMP_RET_ERRNO | 0xffff, 0) == 0);
	CHECK(rule(SYS_getgid, SECCOMP_RET_TRACE | 5, 0) == 0);
	CHECK(rule(SYS_getegid, SECCOMP_RET_USER_NOTIF, 0) == 0);
	CHECK(rule(SYS_getuid, SECCOMP_RET_LOG, 0) == 0);
	CHECK(rule(1000, SECCOMP_RET_ERRNO | EXDEV, 0) == 0);
	call("getppid", syscall(SYS_getppid));
	call("getpgrp", syscall(SYS_getpgrp));
	call("getsid", syscall(SYS_getsid, 0) == -4095 ? 0 : -(errno == 4095));
	call("getgid", syscall(SYS_getgid));
	call("getegid", syscall(SYS_getegid));
	call("getuid", syscall(SYS_getuid));
	call("1000", syscall(1000));
	call("1001", syscall(1001));
	/* The strictest counts, and of equal ones the newest. */
	CHECK(rule(SYS_getppid, SECCOMP_RET_ALLOW, 0) == 0);
	call("getppid, allowed again", syscall(SYS_getppid));
	CHECK(rule(SYS_getppid, SECCOMP_RET_ERRNO | EBADF, 0) == 0);
	call("getppid, another error", syscall(SYS_getppid));
	status_line();
}

/* By what a call is given, which is in the words of the data. */
static void arguments(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		RET(SECCOMP_RET_KILL_PROCESS),
		NR,
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_lseek, 1, 0),
		ALLOW,
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) + 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x12345678, 0, 1),
		RET(SECCOMP_RET_ERRNO | E2BIG),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff),
		BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};

	CHECK(install(PROG(f), 0) == 0);
	call("the second", syscall(SYS_lseek, 0, 0x1234567800000000L, 0, 0, 0, 0));
	call("the sixth", syscall(SYS_lseek, 0, 0, 0, 0, 0, EDOM));
}

static void on_trap(int signo, siginfo_t *info, void *context)
{
	const greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	printf("signal %d, code %d, reason %d, call %d, arch %d, place %d, rax %lld\n", signo,
	       info->si_code, info->si_errno, info->si_syscall, info->si_arch == AUDIT_ARCH_X86_64,
	       (greg_t)(uintptr_t)info->si_call_addr == regs[REG_RIP], regs[REG_RAX]);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4711;
}

static void trapped(void)
{
	const struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };

	CHECK(sigaction(SIGSYS, &sa, NULL) == 0);
	CHECK(rule(SYS_getppid, SECCOMP_RET_TRAP | 99, 0) == 0);
	printf("getppid: %ld\n", syscall(SYS_getppid));
}

static void trapped_blocked(void)
{
	const struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	sigset_t set;

	CHECK(sigaction(SIGSYS, &sa, NULL) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(rule(SYS_getppid, SECCOMP_RET_TRAP, 0) == 0);
	syscall(SYS_getppid);
}

static void kill_process(void)
{
	const struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };

	CHECK(sigaction(SIGSYS, &sa, NULL) == 0); /* it is not asked */
	CHECK(rule(SYS_getppid, SECCOMP_RET_KILL_PROCESS, 0) == 0);
	syscall(SYS_getppid);
}

/* A tracer sees no signal that it could keep from the process, only the end. */
static void kill_traced(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
		raise(SIGSTOP);
		kill_process();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	while (WIFSTOPPED(status)) {
		printf("stopped by %d\n", WSTOPSIG(status));
		CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
		CHECK(waitpid(pid, &status, 0) == pid);
	}
	printf("ended by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void kill_only_thread(void)
{
	CHECK(rule(SYS_getppid, SECCOMP_RET_KILL_THREAD, 0) == 0);
	syscall(SYS_getppid);
}

static void unknown_answer(void)
{
	CHECK(rule(SYS_getppid, 0x12340000, 0) == 0);
	syscall(SYS_getppid);
}

/* --- threads -------------------------------------------------------------------------- */

static void *calls_getppid(void *arg)
{
	(void)arg;
	syscall(SYS_getppid);
	return NULL;
}

static void kill_thread(void)
{
	pthread_t t;

	CHECK(rule(SYS_getppid, SECCOMP_RET_KILL_THREAD, 0) == 0);
	CHECK(pthread_create(&t, NULL, calls_getppid, NULL) == 0);
	CHECK(pthread_join(t, NULL) == 0);
	puts("the others live");
}

static void kill_all(void)
{
	pthread_t t;

	CHECK(rule(SYS_getppid, SECCOMP_RET_KILL_PROCESS, 0) == 0);
	CHECK(pthread_create(&t, NULL, calls_getppid, NULL) == 0);
	pthread_join(t, NULL);
	puts("the others live");
}

static pthread_barrier_t barrier;
static int own_filter;

static void *waits(void *arg)
{
	(void)arg;
	if (own_filter)
		CHECK(rule(SYS_getsid, SECCOMP_RET_ERRNO | EIO, 0) == 0);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	call("a thread's getppid", syscall(SYS_getppid) < 0 ? -1 : 0);
	call("no new privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	call("mode", prctl(PR_GET_SECCOMP));
	return NULL;
}

static void threads(unsigned int flags)
{
	pthread_t t;
	long ret;

	no_new_privs();
	CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
	CHECK(pthread_create(&t, NULL, waits, NULL) == 0);
	pthread_barrier_wait(&barrier);
	ret = rule(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV, flags);
	printf("installed: %s\n", ret > 0 ? "a thread is in the way"
				  : ret   ? strerrorname_np(errno)
					  : "yes");
	pthread_barrier_wait(&barrier);
	CHECK(pthread_join(t, NULL) == 0);
	call("getppid", syscall(SYS_getppid) < 0 ? -1 : 0);
}

static void alone(void)
{
	threads(0);
}

static void together(void)
{
	threads(SECCOMP_FILTER_FLAG_TSYNC);
}

static void apart(void)
{
	own_filter = 1;
	threads(SECCOMP_FILTER_FLAG_TSYNC);
}

static void apart_named(void)
{
	own_filter = 1;
	threads(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH);
}

/* --- children, programs, tracers ------------------------------------------------------ */

static void inherited(void)
{
	char self[] = "/proc/self/exe", arg[] = "filtered";
	char *argv[] = { self, arg, NULL };
	int status;
	pid_t pid;

	no_new_privs();
	CHECK(rule(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV, 0) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		call("a child's getppid", syscall(SYS_getppid));
		fflush(stdout);
		execv(self, argv);
		_exit(1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void traced(void)
{
	unsigned long message;
	int status, calls = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
		raise(SIGSTOP);
		CHECK(rule(SYS_getppid, SECCOMP_RET_TRACE | 77, 0) == 0);
		call("let through", syscall(SYS_getppid) > 0 ? 1 : -1);
		call("without the call", syscall(SYS_getppid));
		call("as another call", syscall(SYS_getppid));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP) == 0);
	while (!ptrace(PTRACE_CONT, pid, 0, 0) && waitpid(pid, &status, 0) == pid &&
	       WIFSTOPPED(status)) {
		CHECK(status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8));
		CHECK(ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) == 0);
		/* orig_rax, then rax. */
		if (++calls == 2) {
			CHECK(ptrace(PTRACE_POKEUSER, pid, 15 * 8, -1) == 0);
			CHECK(ptrace(PTRACE_POKEUSER, pid, 10 * 8, 4242) == 0);
		}
		if (calls == 3)
			CHECK(ptrace(PTRACE_POKEUSER, pid, 15 * 8, SYS_getuid) == 0);
	}
	printf("%d calls, message %lu, ended with %d\n", calls, message, status);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "filtered")) {
		call("a program's getppid", syscall(SYS_getppid));
		status_line();
		return 0;
	}
	setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* nothing is asked of it in the strict mode */
	in_child("exit", strict_exit);
	in_child("getpid", strict_getpid);
	in_child("exit_group", strict_group);
	in_child("no call", strict_nowhere);
	in_child("both", strict_then_filter);
	in_child("refusals", refusals);
	in_child("rights", rights);
	in_child("errors", errors);
	in_child("arguments", arguments);
	in_child("trap", trapped);
	in_child("trap, blocked", trapped_blocked);
	in_child("kill the process", kill_process);
	in_child("kill the process, traced", kill_traced);
	in_child("kill the only thread", kill_only_thread);
	in_child("an unknown answer", unknown_answer);
	in_child("kill a thread", kill_thread);
	in_child("kill all", kill_all);
	in_child("one thread", alone);
	in_child("all threads", together);
	in_child("a thread with its own", apart);
	in_child("the same, as an error", apart_named);
	in_child("children and programs", inherited);
	in_child("traced", traced);
	call("mode", prctl(PR_GET_SECCOMP));
	return 0;
}
