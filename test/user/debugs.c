/* SPDX-License-Identifier: MIT */
/*
 * ptrace() as a debugger uses it: breakpoints in text, single steps over system calls, signals and
 * popf, watchpoints, registers, memory. Prints the same as on Linux.
 */
#include "user.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static long tr(int request, pid_t pid, unsigned long addr, unsigned long data)
{
	return syscall(SYS_ptrace, request, pid, addr, data);
}

static pid_t spawn(void (*fn)(void))
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
		raise(SIGSTOP);
		fn();
		_exit(7);
	}
	return pid;
}

/* Wait for a stop, and say what it is unless @quiet; false: it has ended. */
static bool await(pid_t pid, siginfo_t *info)
{
	int st;

	CHECK(waitpid(pid, &st, __WALL) == pid);
	if (!WIFSTOPPED(st)) {
		if (WIFEXITED(st))
			printf("  exited %d\n", WEXITSTATUS(st));
		else
			printf("  killed by %d\n", WTERMSIG(st));
		return false;
	}
	if (tr(PTRACE_GETSIGINFO, pid, 0, (unsigned long)info))
		info->si_signo = 0;
	return true;
}

static void go(int request, pid_t pid)
{
	CHECK(tr(request, pid, 0, 0) == 0);
}

static struct user_regs_struct regs_of(pid_t pid)
{
	struct user_regs_struct r;

	CHECK(tr(PTRACE_GETREGS, pid, 0, (unsigned long)&r) == 0);
	return r;
}

static unsigned long peek(pid_t pid, const void *at)
{
	unsigned long word;

	CHECK(tr(PTRACE_PEEKDATA, pid, (unsigned long)at, (unsigned long)&word) == 0);
	return word;
}

static void poke(pid_t pid, const void *at, unsigned long word)
{
	CHECK(tr(PTRACE_POKEDATA, pid, (unsigned long)at, word) == 0);
}

/* --- breakpoints -------------------------------------------------------------------------- */

__attribute__((noinline)) static int twice(int x)
{
	__asm__ volatile("" : "+r"(x));
	return 2 * x;
}

static const volatile unsigned long constant = 11;

static void breakable(void)
{
	_exit(twice(20) + (int)constant);
}

static void breakpoints(void)
{
	pid_t pid = spawn(breakable);
	struct user_regs_struct r;
	unsigned long word;
	siginfo_t info;
	char path[64];
	int fd;

	printf("a breakpoint\n");
	CHECK(await(pid, &info));
	word = peek(pid, (void *)twice);
	poke(pid, (void *)twice, (word & ~0xfful) | 0xcc);
	/* Ours is as it was: the child has a page of its own now. */
	printf("  ours %d\n", twice(4));
	poke(pid, (const void *)&constant, 2);
	printf("  constant here %lu, there %lu\n", constant, peek(pid, (const void *)&constant));
	go(PTRACE_CONT, pid);
	CHECK(await(pid, &info));
	r = regs_of(pid);
	printf("  signal %d code %d, %lld behind the start, argument %lld\n", info.si_signo,
	       info.si_code, r.rip - (unsigned long)twice, r.rdi);
	poke(pid, (void *)twice, word);
	r.rip = (unsigned long)twice;
	r.rdi = 30;
	CHECK(tr(PTRACE_SETREGS, pid, 0, (unsigned long)&r) == 0);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(pread(fd, &word, sizeof(word), (off_t)(unsigned long)&constant) == sizeof(word));
	printf("  by mem: %lu", word);
	word = 3;
	CHECK(pwrite(fd, &word, sizeof(word), (off_t)(unsigned long)&constant) == sizeof(word));
	printf(", then %lu\n", peek(pid, (const void *)&constant));
	CHECK(pread(fd, &word, 8, 0) == -1);
	printf("  nothing at 0: %s\n", strerrorname_np(errno));
	CHECK(lseek(fd, (off_t)(unsigned long)&constant, SEEK_SET) > 0);
	CHECK(read(fd, &word, 8) == 8 && word == 3);
	go(PTRACE_CONT, pid);
	CHECK(!await(pid, &info));
	printf("  after the end: %zd\n", pread(fd, &word, 8, (off_t)(unsigned long)&constant));
	close(fd);
}

/* --- memory that the program may not touch -------------------------------------------------- */

static char *guarded, *shown;

static void touch_nothing(void)
{
	raise(SIGSTOP);
	_exit(guarded[0]);
}

static void forced(void)
{
	unsigned long word = 0;
	siginfo_t info;
	pid_t pid;

	guarded = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	shown = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(guarded != MAP_FAILED && shown != MAP_FAILED);
	printf("memory that is not the program's to touch\n");
	pid = spawn(touch_nothing);
	CHECK(await(pid, &info));
	printf("  guard %lu\n", peek(pid, guarded));
	poke(pid, guarded + PAGE - 4, 0x1122334455667788ul); /* over the end of a page */
	printf("  then %lx\n", peek(pid, guarded + PAGE - 4));
	CHECK(tr(PTRACE_POKEDATA, pid, (unsigned long)shown, 1) == -1);
	printf("  shared: %s\n", strerrorname_np(errno));
	CHECK(tr(PTRACE_PEEKDATA, pid, (unsigned long)shown, (unsigned long)&word) == 0);
	printf("  which reads %lu\n", word);
	go(PTRACE_CONT, pid);
	CHECK(await(pid, &info));
	go(PTRACE_CONT, pid); /* on to a load that faults, as before */
	CHECK(await(pid, &info));
	printf("  signal %d code %d at %s\n", info.si_signo, info.si_code,
	       info.si_addr == guarded ? "the guard" : "?");
	CHECK(tr(PTRACE_CONT, pid, 0, SIGSEGV) == 0);
	CHECK(!await(pid, &info));
}

/* --- single steps ------------------------------------------------------------------------- */

extern const char steps_begin[], steps_end[];

static void stepped(void)
{
	unsigned long flags;

	__asm__ volatile(".globl steps_begin, steps_end\n"
			 "steps_begin: int3\n"
			 "	nop\n"
			 "	mov $39, %%eax\n" /* getpid */
			 "	syscall\n"
			 "	pushf\n"
			 "	pop %0\n"
			 "	mov $3, %%ecx\n"
			 "1:	dec %%ecx\n"
			 "	jnz 1b\n"
			 "	push %0\n"
			 "	popf\n"
			 "	nop\n"
			 "	xor %%eax, %%eax\n"
			 "steps_end: int3\n"
			 : "=r"(flags)
			 :
			 : "rax", "rcx", "r11", "memory", "cc");
	_exit(0);
}

static void steps(void)
{
	pid_t pid = spawn(stepped);
	struct user_regs_struct r;
	siginfo_t info;

	printf("steps\n");
	CHECK(await(pid, &info));
	go(PTRACE_CONT, pid);
	for (;;) {
		CHECK(await(pid, &info));
		r = regs_of(pid);
		printf("  %3lld: signal %d code %d TF %d\n", r.rip - (unsigned long)steps_begin,
		       info.si_signo, info.si_code, !!(r.eflags & 0x100));
		if (r.rip > (unsigned long)steps_end)
			break;
		go(PTRACE_SINGLESTEP, pid);
	}
	/* pushf has seen TF, so popf has made it the program's own. */
	r.eflags &= ~0x100ull;
	CHECK(tr(PTRACE_SETREGS, pid, 0, (unsigned long)&r) == 0);
	go(PTRACE_CONT, pid);
	CHECK(!await(pid, &info));
}

static volatile int handled;

static void on_usr1(int signo)
{
	handled = signo;
}

static void stepped_with_signal(void)
{
	signal(SIGUSR1, on_usr1);
	raise(SIGUSR1);
	_exit(handled);
}

static void step_into_handler(void)
{
	pid_t pid = spawn(stepped_with_signal);
	struct user_regs_struct r;
	siginfo_t info;
	int n = 0;

	printf("a step into a handler\n");
	CHECK(await(pid, &info));
	go(PTRACE_CONT, pid);
	CHECK(await(pid, &info));
	printf("  signal %d\n", info.si_signo);
	CHECK(tr(PTRACE_SINGLESTEP, pid, 0, SIGUSR1) == 0);
	CHECK(await(pid, &info));
	r = regs_of(pid);
	printf("  signal %d code %d, %s, TF %d\n", info.si_signo, info.si_code,
	       r.rip == (unsigned long)on_usr1 ? "at its beginning" : "elsewhere",
	       !!(r.eflags & 0x100));
	/* Through the handler and rt_sigreturn, to where it came from. */
	do {
		go(PTRACE_SINGLESTEP, pid);
		CHECK(await(pid, &info) && info.si_signo == SIGTRAP);
		r = regs_of(pid);
	} while (++n < 1000 && r.orig_rax != SYS_rt_sigreturn && r.rax != SYS_rt_sigreturn);
	go(PTRACE_SINGLESTEP, pid);
	CHECK(await(pid, &info));
	r = regs_of(pid);
	printf("  back: signal %d code %d, TF %d\n", info.si_signo, info.si_code,
	       !!(r.eflags & 0x100));
	go(PTRACE_CONT, pid);
	CHECK(!await(pid, &info));
}

/* --- watchpoints -------------------------------------------------------------------------- */

static volatile long watched[4] __attribute__((aligned(64)));

static void change(void)
{
	watched[0] = 1;
	watched[1] = 2; /* the one that is watched */
	watched[2] = watched[1];
	twice(3);
	raise(SIGSTOP);
	watched[1] = 4;
	_exit((int)(watched[1] + twice(1)));
}

#define DR(n) (offsetof(struct user, u_debugreg) + 8 * (n))

static void watch(void)
{
	pid_t pid = spawn(change);
	unsigned long dr6;
	siginfo_t info;

	printf("watchpoints\n");
	CHECK(await(pid, &info));
	CHECK(tr(PTRACE_POKEUSER, pid, DR(0), 0xffffffff80000000ul) == -1);
	printf("  the kernel's memory: %s\n", strerrorname_np(errno));
	CHECK(tr(PTRACE_POKEUSER, pid, DR(0), (unsigned long)&watched[1]) == 0);
	CHECK(tr(PTRACE_POKEUSER, pid, DR(1), (unsigned long)twice) == 0);
	/* 0: eight bytes, writes; 1: execution */
	CHECK(tr(PTRACE_POKEUSER, pid, DR(7), 0x00090005) == 0);
	for (int i = 0; i < 2; i++) {
		go(PTRACE_CONT, pid);
		CHECK(await(pid, &info));
		CHECK(tr(PTRACE_PEEKUSER, pid, DR(6), (unsigned long)&dr6) == 0);
		printf("  signal %d code %d, DR6 %lx, value %lu, %s\n", info.si_signo, info.si_code,
		       dr6 & 0xf, peek(pid, (const void *)&watched[1]),
		       regs_of(pid).rip == (unsigned long)twice ? "at twice" : "elsewhere");
	}
	go(PTRACE_CONT, pid);
	CHECK(await(pid, &info));
	printf("  signal %d\n", info.si_signo);
	CHECK(tr(PTRACE_POKEUSER, pid, DR(7), 0) == 0);
	go(PTRACE_CONT, pid); /* past both */
	CHECK(!await(pid, &info));
}

/* --- FPU ---------------------------------------------------------------------------------- */

static void compute(void)
{
	double x = 1.5, y;

	__asm__ volatile("movsd %1, %%xmm3\n"
			 "int3\n"
			 "movsd %%xmm3, %0\n"
			 : "=m"(y)
			 : "m"(x)
			 : "xmm3");
	_exit((int)y);
}

static void fpu(void)
{
	struct user_fpregs_struct f;
	static unsigned char state[64 << 10]; /* with AMX it has more than 8 KiB */
	struct iovec iov = { state, sizeof(state) };
	size_t len;
	pid_t pid = spawn(compute);
	siginfo_t info;
	double x;

	printf("FPU\n");
	CHECK(await(pid, &info));
	go(PTRACE_CONT, pid);
	CHECK(await(pid, &info));
	CHECK(tr(PTRACE_GETFPREGS, pid, 0, (unsigned long)&f) == 0);
	memcpy(&x, &f.xmm_space[4 * 3], sizeof(x));
	printf("  xmm3 %g, cwd %x\n", x, f.cwd);
	x = 42;
	memcpy(&f.xmm_space[4 * 3], &x, sizeof(x));
	CHECK(tr(PTRACE_SETFPREGS, pid, 0, (unsigned long)&f) == 0);
	CHECK(tr(PTRACE_GETREGSET, pid, NT_X86_XSTATE, (unsigned long)&iov) == 0);
	memcpy(&x, state + 160 + 16 * 3, sizeof(x));
	len = iov.iov_len;
	printf("  in the set %g, more than FXSAVE %d\n", x, len > 512);
	x = 43;
	memcpy(state + 160 + 16 * 3, &x, sizeof(x));
	CHECK(tr(PTRACE_SETREGSET, pid, NT_X86_XSTATE, (unsigned long)&iov) == 0);
	iov.iov_len = 8;
	CHECK(tr(PTRACE_SETREGSET, pid, NT_X86_XSTATE, (unsigned long)&iov) == -1);
	printf("  a part: %s\n", strerrorname_np(errno));
	state[24] = state[25] = state[26] = state[27] = 0xff; /* MXCSR */
	iov.iov_len = len;
	CHECK(tr(PTRACE_SETREGSET, pid, NT_X86_XSTATE, (unsigned long)&iov) == -1);
	printf("  a bad MXCSR: %s\n", strerrorname_np(errno));
	go(PTRACE_CONT, pid);
	CHECK(!await(pid, &info));
}

int main(void)
{
	setlinebuf(stdout);
	breakpoints();
	forced();
	steps();
	step_into_handler();
	watch();
	fpu();
	return 0;
}
