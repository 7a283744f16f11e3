/* SPDX-License-Identifier: MIT */
/*
 * ptrace() as strace uses it: stops at system calls, signals and events, what the tracer's wait
 * says, groups that stop, the ends of tracers and tracees. Prints the same as on Linux.
 */
#include "user.h"

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

static long tr(int request, pid_t pid, unsigned long addr, unsigned long data)
{
	return syscall(SYS_ptrace, request, pid, addr, data);
}

static void try(const char *what, long ret)
{
	printf("%s: %s\n", what, ret < 0 ? strerrorname_np(errno) : "done");
}

/* Names of the children, so that numbers are not printed. */
static pid_t known[64];
static const char *known_as[64];

static void name_pid(pid_t pid, const char *name)
{
	for (int i = 0; i < 64; i++) {
		if (!known[i] || known[i] == pid) {
			known[i] = pid;
			known_as[i] = name;
			return;
		}
	}
	die("too many children");
}

static const char *name_of(pid_t pid)
{
	for (int i = 0; i < 64; i++) {
		if (known[i] == pid)
			return known_as[i];
	}
	return "somebody";
}

static void describe(pid_t pid, int st)
{
	printf("  %s: ", name_of(pid));
	if (WIFEXITED(st))
		printf("exited %d\n", WEXITSTATUS(st));
	else if (WIFSIGNALED(st))
		printf("killed by %d\n", WTERMSIG(st));
	else if (WIFSTOPPED(st) && st >> 16)
		printf("event %d, signal %d\n", st >> 16, WSTOPSIG(st));
	else if (WIFSTOPPED(st))
		printf("stopped by %s%d\n", WSTOPSIG(st) & 0x80 ? "call+" : "",
		       WSTOPSIG(st) & 0x7f);
	else if (WIFCONTINUED(st))
		printf("continued\n");
}

/* The next thing that happens to @pid (-1: anybody); its status. */
static int await_of(pid_t pid, pid_t *who)
{
	int st = 0;
	pid_t got;

	do
		got = waitpid(pid, &st, __WALL);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		printf("  wait: %s\n", strerrorname_np(errno));
		return -1;
	}
	describe(got, st);
	if (who)
		*who = got;
	return st;
}

static int await(pid_t pid)
{
	return await_of(pid, NULL);
}

static pid_t spawn(const char *name, void (*fn)(void), bool traceme)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		if (traceme)
			CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
		fn();
		_exit(7);
	}
	name_pid(pid, name);
	return pid;
}

static struct user_regs_struct regs_of(pid_t pid)
{
	struct user_regs_struct r;

	CHECK(tr(PTRACE_GETREGS, pid, 0, (unsigned long)&r) == 0);
	return r;
}

/* --- system calls ------------------------------------------------------------------------ */

static void some_calls(void)
{
	raise(SIGSTOP);
	syscall(SYS_getppid);
	syscall(SYS_close, 12345);
	syscall(SYS_lseek, 100, 2, 3, 4, 5, 6);
	syscall(SYS_getuid);
	syscall(400);
	_exit((int)syscall(SYS_umask, 022) & 0x7f);
}

static void print_call(pid_t pid)
{
	struct __ptrace_syscall_info i;
	long len;

	memset(&i, 0xaa, sizeof(i));
	len = tr(PTRACE_GET_SYSCALL_INFO, pid, sizeof(i), (unsigned long)&i);
	printf("  info %ld op %d arch %x", len, i.op, i.arch);
	if (i.op == PTRACE_SYSCALL_INFO_ENTRY)
		printf(" nr %lu\n", (unsigned long)i.entry.nr);
	else if (i.op == PTRACE_SYSCALL_INFO_EXIT)
		printf(" error %d%s\n", i.exit.is_error,
		       i.exit.is_error ? strerrorname_np((int)-i.exit.rval) : "");
	else
		putchar('\n');
}

static void calls(int good)
{
	pid_t pid = spawn("caller", some_calls, true);
	unsigned long message;
	int st;

	printf("calls, good %d\n", good);
	CHECK(WIFSTOPPED(await(pid)));
	CHECK(tr(PTRACE_SETOPTIONS, pid, 0, good ? PTRACE_O_TRACESYSGOOD : 0) == 0);
	for (int n = 0;; n++) {
		struct user_regs_struct r;

		CHECK(tr(PTRACE_SYSCALL, pid, 0, 0) == 0);
		st = await(pid);
		if (!WIFSTOPPED(st))
			break;
		r = regs_of(pid);
		if (r.orig_rax == SYS_getppid && n % 2)
			printf("  getppid %s\n", (pid_t)r.rax == getpid() ? "right" : "wrong");
		else if (n % 2 == 0)
			printf("  %lld: %s at the beginning\n", r.orig_rax,
			       (long)r.rax == -ENOSYS ? "ENOSYS" : "?");
		if (r.orig_rax == SYS_lseek)
			printf("  args %lld %lld %lld %lld %lld %lld\n", r.rdi, r.rsi, r.rdx, r.r10,
			       r.r8, r.r9);
		CHECK(tr(PTRACE_GETEVENTMSG, pid, 0, (unsigned long)&message) == 0);
		printf("  message %lu\n", message);
		if (good)
			print_call(pid);
		/* Other arguments, other results, no call at all. */
		if (r.orig_rax == SYS_umask && n % 2 == 0) {
			r.rdi = 011;
			CHECK(tr(PTRACE_SETREGS, pid, 0, (unsigned long)&r) == 0);
		} else if (r.orig_rax == SYS_umask) {
			printf("  umask was %llo\n", r.rax);
			r.rax = 55;
			CHECK(tr(PTRACE_SETREGS, pid, 0, (unsigned long)&r) == 0);
		} else if (r.orig_rax == SYS_getuid && n % 2 == 0) {
			CHECK(tr(PTRACE_POKEUSER, pid, 8 * 15, -1ul) == 0);
		} else if (r.orig_rax == -1ul) {
			printf("  no call: %lld\n", r.rax);
		}
	}
}

/* --- signals ------------------------------------------------------------------------------ */

static volatile sig_atomic_t handled, last_code, last_value;

static void on_signal(int signo, siginfo_t *info, void *context)
{
	(void)context;
	handled = signo;
	last_code = info->si_code;
	last_value = info->si_value.sival_int;
}

static void signalled(void)
{
	const struct sigaction act = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	sigset_t set;

	CHECK(sigaction(SIGUSR1, &act, NULL) == 0 && sigaction(SIGUSR2, &act, NULL) == 0);
	signal(SIGHUP, SIG_IGN);
	raise(SIGTERM); /* dropped by the tracer */
	raise(SIGUSR1); /* becomes SIGUSR2 */
	if (handled != SIGUSR2 || last_code != SI_USER)
		_exit(1);
	raise(SIGHUP); /* seen, though it is ignored */
	sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = 5 }); /* gets another value */
	if (handled != SIGUSR1 || last_value != 77)
		_exit(2);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = 6 });
	handled = 0;
	raise(SIGTERM); /* the tracer looks at what is pending, and unblocks it */
	if (handled != SIGUSR1)
		_exit(3);
	raise(SIGKILL);
}

static void signals(void)
{
	struct __ptrace_peeksiginfo_args peek = { .off = 0, .flags = 1, .nr = 4 };
	pid_t pid = spawn("target", signalled, true);
	siginfo_t info, many[4];
	uint64_t mask;
	int terms = 0;

	printf("signals\n");
	for (;;) {
		int st = await(pid), signo = WSTOPSIG(st);
		unsigned long give = (unsigned long)signo;

		if (!WIFSTOPPED(st))
			break;
		CHECK(tr(PTRACE_GETSIGINFO, pid, 0, (unsigned long)&info) == 0);
		printf("  info %d code %d from %s\n", info.si_signo, info.si_code,
		       info.si_pid == pid ? "itself" : "?");
		if (signo == SIGTERM && terms++ == 0)
			give = 0;
		else if (signo == SIGUSR1 && info.si_code == SI_TKILL)
			give = SIGUSR2;
		else if (signo == SIGTERM) {
			try("peek",
			    tr(PTRACE_PEEKSIGINFO, pid, (unsigned long)&peek, (unsigned long)many));
			printf("  pending %d value %d\n", many[0].si_signo,
			       many[0].si_value.sival_int);
			CHECK(tr(PTRACE_GETSIGMASK, pid, 8, (unsigned long)&mask) == 0);
			printf("  mask %lx\n", (unsigned long)mask);
			mask = 0;
			CHECK(tr(PTRACE_SETSIGMASK, pid, 8, (unsigned long)&mask) == 0);
			give = 0;
		} else if (signo == SIGUSR1 && info.si_value.sival_int == 5) {
			info.si_value.sival_int = 77;
			CHECK(tr(PTRACE_SETSIGINFO, pid, 0, (unsigned long)&info) == 0);
		}
		CHECK(tr(PTRACE_CONT, pid, 0, give) == 0);
	}
}

/* --- events ------------------------------------------------------------------------------- */

static void *idle(void *arg)
{
	return arg;
}

static void eventful(void)
{
	char *const argv[] = { (char *)"traces", (char *)"nothing", NULL };
	pthread_t t;
	pid_t pid;

	raise(SIGSTOP);
	pid = fork();
	if (!pid)
		_exit(1);
	waitpid(pid, NULL, 0);
	pid = vfork();
	if (!pid)
		_exit(2);
	waitpid(pid, NULL, 0);
	CHECK(pthread_create(&t, NULL, idle, NULL) == 0);
	pthread_join(t, NULL);
	execv("/proc/self/exe", argv);
}

/* One stop of anybody; false: there is nobody left. @main makes the others one after the other. */
static void events(bool seize)
{
	const unsigned long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
				      PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
				      PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACEEXIT;
	pid_t pid = spawn("maker", eventful, !seize), who, made = 0;
	static const char *const names[] = { "forked", "vforked", "thread" };
	unsigned long message;
	int nr = 0, st;

	printf("events, %s\n", seize ? "seized" : "attached");
	if (seize) {
		CHECK(waitpid(pid, &st, WUNTRACED) == pid);
		CHECK(tr(PTRACE_SEIZE, pid, 0, options) == 0);
		await(pid);
		CHECK(kill(pid, SIGCONT) == 0);
		CHECK(tr(PTRACE_CONT, pid, 0, 0) == 0);
		st = await(pid); /* the end of the stop */
		CHECK(tr(PTRACE_CONT, pid, 0, 0) == 0);
		st = await(pid); /* SIGCONT itself */
		CHECK(tr(PTRACE_CONT, pid, 0, 0) == 0);
	} else {
		await(pid);
		CHECK(tr(PTRACE_SETOPTIONS, pid, 0, options) == 0);
		CHECK(tr(PTRACE_CONT, pid, 0, 0) == 0);
	}
	for (;;) {
		st = await_of(pid, &who);
		if (!WIFSTOPPED(st))
			break;
		if (st >> 16) {
			CHECK(tr(PTRACE_GETEVENTMSG, who, 0, (unsigned long)&message) == 0);
			if (st >> 16 == PTRACE_EVENT_EXIT)
				printf("  with %lx\n", message);
			if (st >> 16 <= PTRACE_EVENT_CLONE) {
				made = (pid_t)message;
				name_pid(made, names[nr++]);
				await(made);
				CHECK(tr(PTRACE_CONT, made, 0, 0) == 0);
				if (st >> 16 != PTRACE_EVENT_CLONE) {
					await(made); /* its exit event */
					CHECK(tr(PTRACE_CONT, made, 0, 0) == 0);
					CHECK(tr(PTRACE_CONT, who, 0, 0) == 0);
					await(made);
					continue;
				}
				await(made);
				CHECK(tr(PTRACE_CONT, made, 0, 0) == 0);
				await(made);
			} else if (st >> 16 == PTRACE_EVENT_EXEC) {
				printf("  was %s\n", name_of((pid_t)message));
			} else if (st >> 16 == PTRACE_EVENT_VFORK_DONE) {
				printf("  %s\n", name_of((pid_t)message));
			}
		}
		/* SIGCHLD of the children may be seen, or be one with another. */
		CHECK(tr(PTRACE_CONT, who, 0, st >> 16 ? 0 : WSTOPSIG(st)) == 0);
	}
}

/* --- groups that stop ---------------------------------------------------------------------- */

static void sleeper(void)
{
	for (;;)
		pause();
}

static void group_stops(void)
{
	pid_t pid = spawn("sleeper", sleeper, false);
	siginfo_t info;
	int st;

	printf("group stops, attached\n");
	CHECK(tr(PTRACE_ATTACH, pid, 0, 0) == 0);
	await(pid);
	CHECK(tr(PTRACE_CONT, pid, 0, 0) == 0);
	kill(pid, SIGSTOP);
	await(pid);
	CHECK(tr(PTRACE_CONT, pid, 0, SIGSTOP) == 0);
	await(pid); /* the stop of the group */
	try("siginfo", tr(PTRACE_GETSIGINFO, pid, 0, (unsigned long)&info));
	try("detach", tr(PTRACE_DETACH, pid, 0, 0));
	CHECK(waitpid(pid, &st, WUNTRACED) == pid);
	describe(pid, st);

	printf("group stops, seized\n");
	CHECK(tr(PTRACE_SEIZE, pid, 0, 0) == 0);
	await(pid);
	CHECK(tr(PTRACE_GETSIGINFO, pid, 0, (unsigned long)&info) == 0);
	printf("  info %d code %x\n", info.si_signo, info.si_code);
	try("listen", tr(PTRACE_LISTEN, pid, 0, 0));
	try("regs while it listens", tr(PTRACE_GETREGS, pid, 0, (unsigned long)&info));
	kill(pid, SIGCONT);
	await(pid);
	try("cont", tr(PTRACE_CONT, pid, 0, 0));
	await(pid); /* SIGCONT */
	try("listen", tr(PTRACE_LISTEN, pid, 0, 0));
	try("cont", tr(PTRACE_CONT, pid, 0, 0));
	try("interrupt", tr(PTRACE_INTERRUPT, pid, 0, 0));
	await(pid);
	/* In such a stop the signal is not taken. */
	try("detach", tr(PTRACE_DETACH, pid, 0, SIGTERM));
	CHECK(waitpid(pid, &st, WNOHANG) == 0);
	kill(pid, SIGTERM);
	await(pid);
}

/* --- ends ----------------------------------------------------------------------------------- */

static volatile unsigned long *shared;

static void attach_and_end(void)
{
	const pid_t pid = (pid_t)shared[0];

	CHECK(ptrace(PTRACE_SEIZE, pid, 0, shared[1]) == 0);
	CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
	CHECK(waitpid(pid, NULL, __WALL) == pid);
	_exit(0);
}

static void tracer_ends(unsigned long options)
{
	pid_t pid = spawn("tracee", sleeper, false), tracer;
	int st;

	printf("a tracer ends, options %lx\n", options);
	shared[0] = (unsigned long)pid;
	shared[1] = options;
	tracer = spawn("tracer", attach_and_end, false);
	await(tracer);
	if (options) {
		await(pid);
		return;
	}
	CHECK(waitpid(pid, &st, WNOHANG) == 0);
	kill(pid, SIGTERM);
	await(pid);
}

static void trace_to_the_end(void)
{
	const pid_t pid = (pid_t)shared[0];
	siginfo_t info = { 0 };
	int st;

	CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
	kill(pid, SIGKILL);
	CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	printf("  the tracer sees code %d status %d\n", info.si_code, info.si_status);
	shared[1] = 1;
	while (shared[1] == 1)
		usleep(1000);
	CHECK(waitpid(pid, &st, 0) == pid);
	fflush(stdout);
	_exit(0);
}

static void parent_hears_after_tracer(void)
{
	pid_t pid = spawn("tracee", sleeper, false), tracer;
	int st;

	printf("the parent hears of the end after the tracer\n");
	shared[0] = (unsigned long)pid;
	shared[1] = 0;
	tracer = spawn("tracer", trace_to_the_end, false);
	while (!shared[1])
		usleep(1000);
	printf("  before: %d\n", waitpid(pid, &st, WNOHANG));
	fflush(stdout);
	shared[1] = 2;
	await(pid);
	await(tracer);
}

/* --- threads --------------------------------------------------------------------------------- */

static volatile int second_tid;

static void *wait_for_ever(void *arg)
{
	second_tid = (int)syscall(SYS_gettid);
	shared[0] = (unsigned long)second_tid;
	while (second_tid)
		pause();
	return arg;
}

static void *exec_here(void *arg)
{
	char *const argv[] = { (char *)"traces", (char *)"nothing", NULL };

	(void)arg;
	execv("/proc/self/exe", argv);
	return NULL;
}

static void two_threads(void)
{
	pthread_t t;

	CHECK(pthread_create(&t, NULL, wait_for_ever, NULL) == 0);
	while (!second_tid)
		usleep(1000);
	raise(SIGSTOP);
	CHECK(pthread_create(&t, NULL, exec_here, NULL) == 0);
	sleeper();
}

static void exec_of_threads(void)
{
	pid_t pid = spawn("first", two_threads, false), tid, who;
	unsigned long message;
	int st, ends = 0;

	printf("exec of several threads\n");
	CHECK(waitpid(pid, &st, WUNTRACED) == pid);
	tid = (pid_t)shared[0];
	name_pid(tid, "second");
	CHECK(tr(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE) == 0);
	CHECK(tr(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACEEXEC) == 0);
	await(pid);
	await(tid);
	try("attach again", tr(PTRACE_ATTACH, pid, 0, 0));
	CHECK(tr(PTRACE_CONT, tid, 0, 0) == 0);
	CHECK(tr(PTRACE_CONT, pid, 0, 0) == 0);
	kill(pid, SIGCONT);
	for (int execs = 0; !execs || !ends;) {
		CHECK((who = waitpid(-1, &st, __WALL)) > 0);
		if (!WIFSTOPPED(st)) {
			describe(who, st);
			ends++;
			continue;
		}
		if (st >> 16 == PTRACE_EVENT_EXEC) {
			CHECK(tr(PTRACE_GETEVENTMSG, who, 0, (unsigned long)&message) == 0);
			printf("  exec: %s, was %s\n", name_of(who),
			       (pid_t)message == pid ? "itself" : "another");
			execs = 1;
			continue;
		}
		(void)tr(PTRACE_CONT, who, 0, st >> 16 ? 0 : WSTOPSIG(st));
	}
	CHECK(tr(PTRACE_CONT, pid, 0, 0) == 0);
	await(pid);
}

static void *end_when_told(void *arg)
{
	(void)arg;
	shared[0] = (unsigned long)syscall(SYS_gettid);
	while (!shared[1])
		usleep(1000);
	return NULL;
}

static void outlive_a_thread(void)
{
	pthread_t t;

	CHECK(pthread_create(&t, NULL, end_when_told, NULL) == 0);
	CHECK(pthread_join(t, NULL) == 0);
	_exit(0);
}

static char state_of(pid_t pid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	CHECK(fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
	fclose(f);
	return state;
}

/*
 * A traced thread is waited for after its process has ended. Linux keeps the process until then,
 * so when the first wait finds the process is not printed; and both end with 0, for Linux tells the
 * process's status as the thread's then.
 */
static void process_before_thread(void)
{
	pid_t pid, tid;
	int st = 0;

	printf("a traced thread after its process\n");
	shared[0] = shared[1] = 0;
	pid = spawn("process", outlive_a_thread, false);
	while (!shared[0])
		usleep(1000);
	tid = (pid_t)shared[0];
	name_pid(tid, "thread");
	CHECK(tr(PTRACE_SEIZE, tid, 0, 0) == 0);
	shared[1] = 1;
	while (state_of(pid) != 'Z')
		usleep(1000);
	const bool reaped = waitpid(pid, &st, WNOHANG) == pid;

	await(tid);
	if (reaped)
		describe(pid, st);
	else
		await(pid);
}

/* --- errors ---------------------------------------------------------------------------------- */

static void errors(void)
{
	pid_t pid = spawn("child", sleeper, false), other;
	unsigned long word;
	int st;

	printf("errors\n");
	try("not traced", tr(PTRACE_CONT, pid, 0, 0));
	try("nobody", tr(PTRACE_ATTACH, 4000000, 0, 0));
	try("itself", tr(PTRACE_ATTACH, getpid(), 0, 0));
	try("seize with an address", tr(PTRACE_SEIZE, pid, 1, 0));
	try("seize with options", tr(PTRACE_SEIZE, pid, 0, 0x40000000));
	try("seize", tr(PTRACE_SEIZE, pid, 0, 0));
	try("running", tr(PTRACE_GETREGS, pid, 0, (unsigned long)&word));
	try("interrupt", tr(PTRACE_INTERRUPT, pid, 0, 0));
	await(pid);
	try("twice", tr(PTRACE_SEIZE, pid, 0, 0));
	try("signal 65", tr(PTRACE_CONT, pid, 0, 65));
	try("options", tr(PTRACE_SETOPTIONS, pid, 0, 0x40000000));
	try("peek 8", tr(PTRACE_PEEKDATA, pid, 8, (unsigned long)&word));
	try("poke 8", tr(PTRACE_POKEDATA, pid, 8, 1));
	try("peek into nothing", tr(PTRACE_PEEKDATA, pid, (unsigned long)&word, 8));
	try("user, odd", tr(PTRACE_PEEKUSER, pid, 4, (unsigned long)&word));
	try("user, beyond", tr(PTRACE_PEEKUSER, pid, sizeof(struct user), (unsigned long)&word));
	try("user, the rest", tr(PTRACE_PEEKUSER, pid, 248, (unsigned long)&word));
	try("poke user, the rest", tr(PTRACE_POKEUSER, pid, 248, 0));
	try("poke cs", tr(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, cs), 8));
	try("poke fs_base",
	    tr(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, fs_base), 1ul << 63));
	try("regset", tr(PTRACE_GETREGSET, pid, 999, (unsigned long)&(struct iovec){ &word, 8 }));
	try("regset, odd",
	    tr(PTRACE_GETREGSET, pid, NT_PRSTATUS, (unsigned long)&(struct iovec){ &word, 7 }));
	try("mask", tr(PTRACE_GETSIGMASK, pid, 4, (unsigned long)&word));
	try("request", tr(12345, pid, 0, 0));
	other = fork();
	if (!other)
		_exit(tr(PTRACE_CONT, pid, 0, 0) == -1 && errno == ESRCH ? 0 : 1);
	CHECK(waitpid(other, &st, 0) == other && st == 0);
	try("kill", tr(PTRACE_KILL, pid, 0, 0));
	await(pid);
	try("dead", tr(PTRACE_CONT, pid, 0, 0));
	if (getuid() == 0) {
		pid = spawn("child", sleeper, false);
		fflush(stdout);
		other = fork();
		if (!other) {
			CHECK(setgid(12) == 0 && setuid(12) == 0);
			try("another user's", tr(PTRACE_ATTACH, pid, 0, 0));
			fflush(stdout);
			_exit(0);
		}
		CHECK(waitpid(other, &st, 0) == other && st == 0);
		kill(pid, SIGKILL);
		await(pid);
	}
}

/* --- calls that are interrupted --------------------------------------------------------------- */

static void nap(void)
{
	struct timespec ts = { 0, 300000000 };

	_exit(clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL) == 0 ? 0 : 1);
}

static void restarts(void)
{
	pid_t pid = spawn("napper", nap, false);
	struct user_regs_struct r;
	siginfo_t info = { 0 };

	printf("restarts\n");
	usleep(50000);
	CHECK(tr(PTRACE_ATTACH, pid, 0, 0) == 0);
	CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL) == 0);
	printf("  code %d status %d\n", info.si_code, info.si_status);
	await(pid);
	r = regs_of(pid);
	printf("  call %lld answers %lld\n", r.orig_rax, r.rax);
	CHECK(tr(PTRACE_DETACH, pid, 0, 0) == 0);
	await(pid);
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		return 0;
	setlinebuf(stdout);
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	calls(1);
	calls(0);
	signals();
	events(false);
	events(true);
	group_stops();
	tracer_ends(0);
	tracer_ends(PTRACE_O_EXITKILL);
	parent_hears_after_tracer();
	exec_of_threads();
	process_before_thread();
	errors();
	restarts();
	printf("nobody is left: %d\n", waitpid(-1, NULL, __WALL | WNOHANG));
	return 0;
}
