/* SPDX-License-Identifier: MIT */
/*
 * Handlers: what a fault says, nested handlers, flags of sigaction, registers and FPU state across
 * a handler, frames that a program has changed. Prints the same as on Linux.
 */
#include "user.h"

#include <fenv.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

static sigjmp_buf out;
static volatile uintptr_t expected;
static volatile int depth;

static void install(int signo, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = { .sa_sigaction = fn, .sa_flags = SA_SIGINFO | flags };

	CHECK(sigaction(signo, &sa, NULL) == 0);
}

static const char *where(uintptr_t addr, uintptr_t rip)
{
	return addr == expected ? "as expected" : addr == rip ? "rip" : addr == 0 ? "0" : "?";
}

static void fault(int signo, siginfo_t *i, void *ctx)
{
	const ucontext_t *uc = ctx;
	const greg_t *r = uc->uc_mcontext.gregs;

	printf("signal %d code %d addr %s", signo, i->si_code,
	       where((uintptr_t)i->si_addr, (uintptr_t)r[REG_RIP]));
	printf(" trapno %lld err %#llx cr2 %s\n", (long long)r[REG_TRAPNO],
	       (unsigned long long)r[REG_ERR] &
		       ~1ULL, /* whether a page is there is nobody's business */
	       r[REG_TRAPNO] == 14 ? ((uintptr_t)r[REG_CR2] == expected ? "addr" : "?") : "-");
	siglongjmp(out, 1);
}

#define FAULT(what, addr, stmt)               \
	do {                                  \
		printf("%-22s ", what);       \
		fflush(stdout);               \
		expected = (uintptr_t)(addr); \
		if (!sigsetjmp(out, 1)) {     \
			stmt;                 \
			puts("nothing");      \
		}                             \
	} while (0)

static void faults(void)
{
	static const int raised[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
	char *p = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && none != MAP_FAILED);
	for (size_t i = 0; i < 5; i++)
		install(raised[i], fault, 0);
	FAULT("write unmapped", 0x123450, *(volatile char *)0x123450 = 1);
	FAULT("read unmapped", 0x123457, (void)*(volatile char *)0x123457);
	FAULT("write read-only", p + 5, *(volatile char *)(p + 5) = 1);
	(void)*(volatile char *)(p + PAGE);
	FAULT("write read, read-only", p + PAGE, *(volatile char *)(p + PAGE) = 1);
	FAULT("read none", none, (void)*(volatile char *)none);
	FAULT("execute data", p, ((void (*)(void))p)());
	FAULT("kernel address", 0xffffffff80000000, *(volatile char *)0xffffffff80000000 = 1);
	FAULT("non-canonical", 0, *(volatile char *)0x8000000000000000 = 1);
	FAULT("divide", 1,
	      __asm__ volatile("xor %%ecx, %%ecx\n\tdiv %%ecx" ::"a"(1), "d"(0) : "ecx"));
	FAULT("undefined", 1, __asm__ volatile("ud2"));
	FAULT("breakpoint", 1, __asm__ volatile("int3"));
	FAULT("privileged", 1, __asm__ volatile("hlt"));
	/* The x87's, which every emulator raises; the flag stays until it is cleared. */
	__asm__ volatile("fldcw %0" ::"m"((const uint16_t){ 0x037b }));
	FAULT("x87 divide", 1, __asm__ volatile("fld1\n\tfldz\n\tfdivrp\n\tfwait"));
	__asm__ volatile("fninit");
	FAULT("sent", 1, raise(SIGSEGV));
}

/* --- nesting and flags ---------------------------------------------------------------- */

static void nest(int signo, siginfo_t *i, void *ctx)
{
	sigset_t now;

	(void)i;
	(void)ctx;
	depth++;
	CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
	printf("%*sin %d: blocked %d %d\n", depth * 2, "", signo, sigismember(&now, SIGUSR1),
	       sigismember(&now, SIGUSR2));
	if (signo == SIGUSR1)
		raise(SIGUSR2);
	printf("%*sout %d\n", depth * 2, "", signo);
	depth--;
}

static volatile int recursions;

static void again(int signo, siginfo_t *i, void *ctx)
{
	(void)i;
	(void)ctx;
	if (++recursions < 4)
		raise(signo);
	printf("level %d\n", recursions--);
}

static void flags(void)
{
	struct sigaction sa;

	install(SIGUSR1, nest, 0);
	install(SIGUSR2, nest, 0);
	raise(SIGUSR1);
	puts("-- SA_NODEFER");
	install(SIGUSR1, again, SA_NODEFER);
	raise(SIGUSR1);
	puts("-- SA_RESETHAND");
	install(SIGUSR2, nest, SA_RESETHAND);
	depth = 5;
	raise(SIGUSR2);
	depth = 0;
	CHECK(sigaction(SIGUSR2, NULL, &sa) == 0);
	printf("default again: %d, flags %#x\n", sa.sa_handler == SIG_DFL,
	       (unsigned)sa.sa_flags & ~0x04000000U);
}

/* --- alternate stacks ------------------------------------------------------------------ */

static void disarmed(int signo, siginfo_t *i, void *ctx)
{
	const ucontext_t *uc = ctx;
	stack_t ss;

	(void)i;
	CHECK(sigaltstack(NULL, &ss) == 0);
	printf("%d: flags %#x, saved %#x, size %d\n", signo, (unsigned)ss.ss_flags,
	       (unsigned)uc->uc_stack.ss_flags, uc->uc_stack.ss_size == 65536);
	if (signo == SIGUSR1)
		raise(SIGUSR2);
}

static void no_stack(int signo, siginfo_t *i, void *ctx)
{
	(void)ctx;
	printf("no room: signal %d code %d\n", signo, i->si_code);
	siglongjmp(out, 1);
}

static void stacks(void)
{
	stack_t ss = { .ss_sp = malloc(65536), .ss_size = 65536, .ss_flags = (int)(1U << 31) };

	CHECK(sigaltstack(&ss, NULL) == 0);
	install(SIGUSR1, disarmed, SA_ONSTACK);
	install(SIGUSR2, disarmed, SA_ONSTACK);
	raise(SIGUSR1);
	CHECK(sigaltstack(NULL, &ss) == 0);
	printf("armed again: %#x\n", (unsigned)ss.ss_flags);
	ss.ss_flags = 0;
	CHECK(sigaltstack(&ss, NULL) == 0);
	/* The frame of USR1 has no place: SIGSEGV, on the alternate stack. */
	install(SIGSEGV, no_stack, SA_ONSTACK);
	install(SIGUSR1, disarmed, 0);
	if (!sigsetjmp(out, 1)) {
		long nr = SYS_tkill;

		__asm__ volatile("mov %%rsp, %%rbx\n\t"
				 "mov $0x1000, %%esp\n\t"
				 "syscall\n\t"
				 "mov %%rbx, %%rsp"
				 : "+a"(nr)
				 : "D"(syscall(SYS_gettid)), "S"(SIGUSR1)
				 : "rbx", "rcx", "r11", "memory");
	}
	ss.ss_flags = SS_DISABLE;
	CHECK(sigaltstack(&ss, NULL) == 0);
}

/* --- what a handler finds and leaves ------------------------------------------------------ */

static void clobber(int signo, siginfo_t *i, void *ctx)
{
	const ucontext_t *uc = ctx;
	const struct _libc_fpstate *fp = uc->uc_mcontext.fpregs;
	uint32_t magic;

	(void)signo;
	(void)i;
	memcpy(&magic, (const char *)fp + 464, 4);
	printf("frame: aligned %d, xmm0 %#x, mxcsr %#x, magic %d\n", (uintptr_t)fp % 64 == 0,
	       fp->_xmm[0].element[0], fp->mxcsr, magic == 0x46505853);
	__asm__ volatile("pxor %%xmm0, %%xmm0\n\tpxor %%xmm15, %%xmm15\n\tstd\n\tcld" ::
				 : "xmm0", "xmm15");
	fesetround(FE_UPWARD);
}

static void registers(void)
{
	const uint32_t want = 0x12345678;
	uint32_t got0, got15;
	long nr = SYS_tkill;

	install(SIGUSR1, clobber, 0);
	__asm__ volatile("movd %[want], %%xmm0\n\t"
			 "movd %[want], %%xmm15\n\t"
			 "syscall\n\t"
			 "movd %%xmm0, %[a]\n\t"
			 "movd %%xmm15, %[b]"
			 : [a] "=&r"(got0), [b] "=&r"(got15), "+a"(nr)
			 : [want] "r"(want), "D"(syscall(SYS_gettid)), "S"(SIGUSR1)
			 : "rcx", "r11", "memory", "xmm0", "xmm15");
	printf("back: %d %d, rounding %d\n", got0 == want, got15 == want,
	       fegetround() == FE_TONEAREST);
}

static void nothing(int signo, siginfo_t *i, void *ctx)
{
	(void)signo;
	(void)i;
	(void)ctx;
}

/* Denormals are zero, as what is linked with -ffast-math has it: the handler's return keeps it. */
static void denormals(void)
{
	const unsigned int daz = 0x40, ftz = 0x8000;
	const unsigned int before = __builtin_ia32_stmxcsr();

	install(SIGUSR1, nothing, 0);
	__builtin_ia32_ldmxcsr(before | daz | ftz);
	raise(SIGUSR1);
	printf("denormals: %#x\n", __builtin_ia32_stmxcsr() & (daz | ftz));
	__builtin_ia32_ldmxcsr(before);
}

/* --- frames that a program has changed ----------------------------------------------------- */

static const char *spoil_what;

static void spoil(int signo, siginfo_t *i, void *ctx)
{
	ucontext_t *uc = ctx;
	greg_t *r = uc->uc_mcontext.gregs;

	(void)signo;
	(void)i;
	if (!strcmp(spoil_what, "flags"))
		r[REG_EFL] |= 0x3000 | 0x200 | 0x4000; /* IOPL, IF, NT */
	else if (!strcmp(spoil_what, "mxcsr"))
		uc->uc_mcontext.fpregs->mxcsr = 0xffffffff;
	else if (!strcmp(spoil_what, "fpstate"))
		uc->uc_mcontext.fpregs = (void *)0x1000;
	else if (!strcmp(spoil_what, "misaligned"))
		uc->uc_mcontext.fpregs = (void *)((char *)uc->uc_mcontext.fpregs + 8);
	else if (!strcmp(spoil_what, "rip"))
		r[REG_RIP] = (greg_t)0x8000000000000000;
	else if (!strcmp(spoil_what, "magic"))
		memset((char *)uc->uc_mcontext.fpregs + 464, 0, 4);
	else if (!strcmp(spoil_what, "no fpu"))
		uc->uc_mcontext.fpregs = NULL;
	else if (!strcmp(spoil_what, "kernel rsp"))
		r[REG_RSP] = (greg_t)0xffffffff80000000;
	else if (!strcmp(spoil_what, "mask"))
		sigfillset(&uc->uc_sigmask);
	else if (!strcmp(spoil_what, "rax"))
		r[REG_RAX] = -512; /* looks like a call to be restarted */
}

static void bad(int signo, siginfo_t *i, void *ctx)
{
	(void)ctx;
	printf("signal %d code %d\n", signo, i->si_code);
	siglongjmp(out, 1);
}

static void frames(void)
{
	static const char *const all[] = {
		"flags", "mxcsr",  "fpstate", "misaligned", "rip",
		"magic", "no fpu", "mask",    "rax",        "kernel rsp"
	};
	stack_t ss = { .ss_sp = malloc(65536), .ss_size = 65536 };
	sigset_t now;

	CHECK(sigaltstack(&ss, NULL) == 0);
	install(SIGUSR1, spoil, 0);
	install(SIGSEGV, bad, SA_ONSTACK);
	install(SIGBUS, bad, SA_ONSTACK);
	for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
		unsigned long efl;

		spoil_what = all[k];
		printf("%s: ", spoil_what);
		fflush(stdout);
		if (!sigsetjmp(out, 1)) {
			long ret;

			__asm__ volatile("syscall\n\tpushfq\n\tpopq %1"
					 : "=a"(ret), "=&r"(efl)
					 : "a"(SYS_tkill), "D"(syscall(SYS_gettid)), "S"(SIGUSR1)
					 : "rcx", "r11", "memory");
			CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0);
			printf("returned %ld, iopl %lu, if %lu, blocked %d %d\n", ret,
			       efl >> 12 & 3, efl >> 9 & 1, sigismember(&now, SIGUSR1),
			       sigismember(&now, SIGKILL));
		}
		sigemptyset(&now);
		CHECK(sigprocmask(SIG_SETMASK, &now, NULL) == 0);
	}
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 1 << 12);
	faults();
	flags();
	stacks();
	registers();
	denormals();
	frames();
	return 0;
}
