/* SPDX-License-Identifier: MIT */
/*
 * A child of the fuzzer: three threads that make calls with drawn arguments, until their number is
 * done or the driver's patience is over. An alarm every 20 ms ends what blocks; faults on the
 * pools' memory are repaired.
 */
#include "sysfuzz.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>

#define STACK (64UL << 10)

static struct pools pools;
static struct worker workers[NR_WORKERS];
static unsigned int weight_sum;
static uint16_t weights[MAX_CALLS];
static const struct hint *hints_by_place[MAX_CALLS];

void sysfuzz_restorer(void);
__asm__(".text\n.globl sysfuzz_restorer\nsysfuzz_restorer:\n\tmov $15, %eax\n\tsyscall\n\tud2\n");

struct kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static void on_any(int signo)
{
	(void)signo;
}

static void on_fault(int signo, siginfo_t *info, void *ctx)
{
	(void)signo;
	(void)ctx;
	if (!pools_repair(&pools, (unsigned long)info->si_addr))
		RAW(SYS_exit_group, 99);
}

static void set_handler(int signo, void *handler, unsigned long how)
{
	const struct kernel_action act = { handler, how | 0x04000000, (void *)sysfuzz_restorer, 0 };

	RAW(SYS_rt_sigaction, signo, (long)&act, 0, 8);
}

static void keep_going(struct worker *w, bool refresh)
{
	static const struct itimerval soon = { { 0, 20000 }, { 0, 20000 } };
	static const uint64_t none;

	set_handler(SIGALRM, (void *)on_any, 0);
	set_handler(SIGSEGV, (void *)on_fault, SA_SIGINFO | SA_NODEFER);
	set_handler(SIGBUS, (void *)on_fault, SA_SIGINFO | SA_NODEFER);
	RAW(SYS_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, 8);
	if (w->id == 0 && !w->forked) {
		RAW(SYS_setitimer, ITIMER_REAL, (long)&soon, 0);
		if (refresh)
			pools_refresh(w->pools);
	}
}

/*
 * A call that may start a task. The new one must not return onto a stack that is another's: it
 * makes one more call, with three arguments, and ends; only what has memory of its own comes back
 * with 0, when @then is negative.
 */
static long raw_clone(long nr, const long a[6], long then, long x, long y)
{
	register long r10 __asm__("r10") = a[3];
	register long r8 __asm__("r8") = a[4];
	register long r12 __asm__("r12") = then;
	register long r13 __asm__("r13") = x;
	register long r14 __asm__("r14") = y;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "test %%r12, %%r12\n\t"
			 "js 1f\n\t"
			 "mov %%r12, %%rax\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "mov %%r14, %%rsi\n\t"
			 "xor %%edx, %%edx\n\t"
			 "syscall\n\t"
			 "mov $60, %%eax\n\t"
			 "xor %%edi, %%edi\n\t"
			 "syscall\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(ret)
			 : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r12),
			   "r"(r13), "r"(r14)
			 : "rcx", "r11", "memory");
	return ret;
}

static long start_task(struct worker *w, long nr, const long a[6])
{
	static const struct timespec some = { 0, 3000000 };
	static const struct {
		long nr, x, y;
	} then[] = {
		{ SYS_getpid, 0, 0 },        { SYS_nanosleep, (long)&some, 0 },
		{ SYS_exit_group, 3, 0 },    { SYS_execve, (long)"/proc/self/exe", 0 },
		{ SYS_munmap, 0, 1L << 46 }, { SYS_sched_yield, 0, 0 },
	};
	const unsigned int i = (unsigned int)draw(w, sizeof(then) / sizeof(then[0]));
	/*
	 * clone3's flags may change until they are read, so only fork itself is sure to copy the
	 * memory.
	 */
	const bool copies = nr == SYS_fork;
	long ret;

	ret = raw_clone(nr, a, copies && chance(w, 60) ? -1 : then[i].nr, then[i].x, then[i].y);
	if (ret == 0) {
		w->forked = true;
		w->left = 12;
	}
	return ret;
}

static unsigned int pick_call(struct worker *w)
{
	uint64_t at = draw(w, weight_sum);

	for (unsigned int i = 0; i < nr_calls; i++) {
		if (at < weights[i])
			return i;
		at -= weights[i];
	}
	return 0;
}

static bool starts_task(long nr)
{
	return nr == SYS_clone || nr == SYS_clone3 || nr == SYS_fork || nr == SYS_vfork;
}

static char *put_number(char *to, long value, int base)
{
	unsigned long v = (unsigned long)value;
	char digits[24];
	int n = 0;

	do {
		digits[n++] = "0123456789abcdef"[v % (unsigned int)base];
		v /= (unsigned int)base;
	} while (v);
	*to++ = ' ';
	while (n)
		*to++ = digits[--n];
	return to;
}

/* Say what is about to be done, without the C library. */
static void say(const struct worker *w, const char *name, long nr, const long a[6])
{
	char line[256], *at = line;

	at = put_number(at, RAW(SYS_gettid, 0), 10);
	at = put_number(at, nr, 10);
	*at++ = ' ';
	memcpy(at, name, strlen(name));
	at += strlen(name);
	for (int i = 0; i < 6; i++)
		at = put_number(at, a[i], 16);
	*at++ = '\n';
	(void)w;
	RAW(SYS_write, FD_POOL + 2, (long)line, at - line);
}

static void one_call(struct worker *w)
{
	struct watch *watch = w->watch;
	const unsigned int place = pick_call(w);
	const struct hint *hint = hints_by_place[place];
	const char *kinds = hint ? hint->kinds : calls[place].letters;
	long nr = calls[place].nr, a[6], ret;

	for (int i = 0; i < 6; i++) {
		if (*kinds)
			a[i] = args_pick(w, chance(w, 97) ? *kinds : "dxplfsAPS"[draw(w, 9)]);
		else
			a[i] = 0;
		kinds += *kinds != 0;
	}
	if (chance(w, 1))
		nr = chance(w, 50) ? (long)draw(w, 520) : args_pick(w, 'd');
	if (calls_refuse(w, nr, a) || (nr == SYS_exit_group && !chance(w, 1)) ||
	    (w->forked && starts_task(nr)))
		return;
	watch->at[w->child][w->id].nr = nr;
	memcpy(watch->at[w->child][w->id].args, a, sizeof(a));
	if (w->say)
		say(w, calls[place].name, nr, a);
	ret = starts_task(nr) ? start_task(w, nr, a) : raw(nr, a);
	watch->at[w->child][w->id].ret = ret;
	__atomic_add_fetch(&watch->calls, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&watch->progress[w->child], 1, __ATOMIC_RELAXED);
	if (ret >= 0 || ret < -4095) {
		__atomic_add_fetch(&watch->good, 1, __ATOMIC_RELAXED);
		if (nr == calls[place].nr)
			__atomic_store_n(&watch->ok[place], 1, __ATOMIC_RELAXED);
	}
}

static int work(void *arg)
{
	struct worker *w = arg;

	for (unsigned int i = 0; w->left--; i++) {
		if (i % 16 == 0)
			keep_going(w, i % 64 == 48);
		one_call(w);
	}
	if (w->forked || w->id == 0)
		RAW(SYS_exit_group, 0);
	RAW(SYS_exit, 0);
	return 0;
}

static void limit(int what, rlim_t value)
{
	const struct rlimit rl = { value, value };

	CHECK(setrlimit(what, &rl) == 0);
}

static void limits(bool root)
{
	limit(RLIMIT_AS, 256 * MB);
	limit(RLIMIT_FSIZE, 4 * MB);
	limit(RLIMIT_NOFILE, FD_POOL + 16);
	limit(RLIMIT_SIGPENDING, 200);
	limit(RLIMIT_CPU, 20);
	if (!root)
		limit(RLIMIT_NPROC, 24);
}

void child_run(struct watch *watch, unsigned int slot, uint64_t seed, unsigned int count, bool root,
	       bool say_all, int driver)
{
	const long flags =
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	const uid_t uid = 1000 + slot;

	CHECK(setsid() == getpid());
	limits(root);
	for (int i = 0; i < 3; i++)
		CHECK(dup2(i, FD_POOL + i) == FD_POOL + i);
	CHECK(dup2(1, 2) ==
	      2); /* what the calls write goes to stdout, the driver's word to stderr */
	if (root)
		CHECK(syscall(SYS_unshare, CLONE_NEWNS | CLONE_NEWUTS) ==
		      0); /* what it mounts goes with it */
	if (!root)
		CHECK(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
	pools_make(&pools, &workers[0]);
	for (unsigned int i = 0; i < nr_calls; i++) {
		hints_by_place[i] = hint_of(calls[i].name);
		weights[i] = (uint16_t)(hints_by_place[i] ? hints_by_place[i]->weight : 8);
		weight_sum += weights[i];
	}
	for (int s = 1; s < 65; s++)
		set_handler(s, (void *)on_any, 0);
	for (unsigned int i = 0; i < NR_WORKERS; i++) {
		workers[i] = (struct worker){
			.rnd = (seed + i + 1) * 0x9e3779b97f4a7c15UL | 1,
			.pools = &pools,
			.watch = watch,
			.id = i,
			.child = slot,
			.left = count,
			.driver = driver,
			.self = getpid(),
			.root = root,
			.say = say_all,
		};
		watch->at[slot][i].pid = getpid();
	}
	for (unsigned int i = 1; i < NR_WORKERS; i++) {
		char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);

		CHECK(stack != MAP_FAILED);
		CHECK(clone(work, stack + STACK, (int)flags, &workers[i]) > 0);
	}
	work(&workers[0]);
	__builtin_trap();
}
