/* SPDX-License-Identifier: MIT */
/*
 * User mode, from inside the kernel: tiny programs run under hooks of the test.
 */
#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/layout.h>
#include <arch/pgtable.h>
#include <arch/trap.h>
#include <arch/uaccess.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>

#include "arch_private.h"

#define CODE    0x400000ul
#define STACK   0x7f0000000000ul
#define DATA    0x10000000ul
#define NR_DATA 64u

struct run {
	struct pgtable *pt;
	uint64_t reports[8];
	unsigned int nr_reports;
	unsigned int nr_faults;
	uint64_t args[6];
	bool args_match; /* what the handler got and the named registers */
	struct user_exception ex;
	uint64_t bad_fault; /* address of a refused fault */
	uint32_t bad_fault_flags;
	struct pt_regs start;
	uint64_t fs_base, gs_base;
	bool yield_sleeps;
	unsigned int return_works;
};

static struct run *current_run(void)
{
	return thread_current()->private;
}

static int map_new(struct pgtable *pt, vaddr_t v, unsigned int prot, const void *from, size_t len)
{
	struct frame *f = frame_alloc(0, FRAME_ZERO);
	int err;

	if (!f)
		return -ENOMEM;
	if (len)
		memcpy(frame_to_virt(f), from, len);
	err = pgtable_map(pt, v, frame_to_paddr(f), prot);
	if (err)
		frame_free(f, 0);
	return err;
}

/* Give way, and go on at the next CPU: registers and segment bases must come along. */
static void move_on(void)
{
	thread_pin((thread_cpu(thread_current()) + 1) % cpu_online_count());
	thread_yield();
}

static int test_page_fault(const struct user_fault *fault)
{
	struct run *r = current_run();
	const vaddr_t page = ALIGN_DOWN(fault->addr, PAGE_SIZE);

	r->nr_faults++;
	move_on(); /* a real hook sleeps here */
	if (!(fault->flags & FAULT_PRESENT) && page >= DATA && page < DATA + NR_DATA * PAGE_SIZE)
		return map_new(r->pt, page, PGT_READ | PGT_WRITE, NULL, 0);
	r->bad_fault = fault->addr;
	r->bad_fault_flags = fault->flags;
	if (fault->flags & FAULT_USER)
		thread_exit();
	return -EFAULT;
}

static long test_syscall(const struct syscall_args *args)
{
	struct run *r = current_run();
	const struct pt_regs *regs = syscall_regs(args);

	switch (regs->orig_rax) {
	case 1:
		if (r->nr_reports == 0) {
			const uint64_t named[6] = { regs->rdi, regs->rsi, regs->rdx,
						    regs->r10, regs->r8,  regs->r9 };

			memcpy(r->args, named, sizeof(named));
			r->args_match = memcmp(args->a, named, sizeof(named)) == 0;
		}
		if (r->nr_reports < ARRAY_SIZE(r->reports))
			r->reports[r->nr_reports++] = regs->rdi;
		return 1234;
	case 2:
		if (r->yield_sleeps)
			thread_sleep_ns(100 * NSEC_PER_USEC);
		move_on();
		return 0;
	default:
		thread_exit();
	}
}

static void test_exception(const struct user_exception *ex)
{
	current_run()->ex = *ex;
	thread_exit();
}

static void test_return_work(struct pt_regs *regs)
{
	struct run *r = current_run();
	bool killed;

	thread_clear_flags(thread_current(), THREAD_F_SIGNAL);
	killed = __atomic_load_n(&thread_current()->flags, __ATOMIC_ACQUIRE) & THREAD_F_KILL;
	/* Last: the thread that waits for it sends the next flag, for the next time. */
	__atomic_store_n(&r->return_works, r->return_works + 1, __ATOMIC_RELEASE);
	if (killed)
		thread_exit();
}

static const syscall_fn test_calls[] = { test_syscall };

static const struct user_trap_ops test_ops = {
	.page_fault = test_page_fault,
	.syscalls = test_calls,
	.exception = test_exception,
	.return_work = test_return_work,
};

static void user_main(void *arg)
{
	struct run *r = arg;
	struct fpu_state *fpu = fpu_alloc();

	if (!fpu)
		return;
	thread_set_user(r->pt, fpu);
	thread_set_fs_base(r->fs_base);
	thread_set_gs_base(r->gs_base);
	user_enter(&r->start);
}

static bool run_setup(struct run *r, const char *prog, const char *end)
{
	r->pt = pgtable_create();
	if (IS_ERR(r->pt))
		return false;
	r->start.rip = CODE;
	r->start.rsp = STACK + PAGE_SIZE - 128;
	return map_new(r->pt, CODE, PGT_READ | PGT_EXEC, prog, (size_t)(end - prog)) == 0 &&
	       map_new(r->pt, STACK, PGT_READ | PGT_WRITE, NULL, 0) == 0;
}

static int free_page(vaddr_t vaddr, const struct pgtable_entry *e, void *arg)
{
	frame_free(paddr_to_frame(e->paddr), 0);
	return 0;
}

static void run_teardown(struct run *r)
{
	(void)pgtable_walk(r->pt, 0, USER_TOP, free_page, NULL);
	pgtable_destroy(r->pt);
}

static struct thread *run_start(struct run *r)
{
	struct thread *t = thread_create_stopped("user-test", user_main, r, THREAD_PRIO_USER);

	if (!IS_ERR(t)) {
		t->private = r;
		thread_start(t);
	}
	return t;
}

#define RUN(t, r, name)                                                                 \
	do {                                                                            \
		extern const char user_prog_##name[], user_prog_##name##_end[];         \
		const struct user_trap_ops *old = user_trap_ops_swap(&test_ops);        \
		ASSERT_TRUE(t, run_setup(r, user_prog_##name, user_prog_##name##_end)); \
		thread_join(run_start(r));                                              \
		user_trap_ops_swap(old);                                                \
		run_teardown(r);                                                        \
	} while (0)

static void syscall_passes_arguments(struct ktest *t)
{
	struct run r = { 0 };

	RUN(t, &r, args);
	ASSERT_EQ(t, r.nr_reports, 3);
	for (unsigned int i = 0; i < 6; i++)
		EXPECT_EQ(t, r.args[i], 11u * (i + 1));
	EXPECT_TRUE(t, r.args_match);
	EXPECT_EQ(t, r.reports[1], 1234);
	EXPECT_EQ(t, r.reports[2], 77 + 88 + 99);
}

static void faults_are_served(struct ktest *t)
{
	struct run r = { .start.rdi = DATA };

	RUN(t, &r, touch);
	EXPECT_EQ(t, r.nr_faults, NR_DATA);
	EXPECT_EQ(t, r.reports[0], DATA + (NR_DATA - 1) * PAGE_SIZE);
}

static void kernel_memory_is_out_of_reach(struct ktest *t)
{
	struct run r = { 0 };

	RUN(t, &r, kread);
	EXPECT_EQ(t, r.bad_fault, (uint64_t)-4096);
	EXPECT_TRUE(t, r.bad_fault_flags & FAULT_USER);
	EXPECT_FALSE(t, r.bad_fault_flags & FAULT_WRITE);
}

static void exceptions_become_signals(struct ktest *t)
{
	struct run r;

	r = (struct run){ 0 };
	RUN(t, &r, ud);
	EXPECT_EQ(t, r.ex.signo, 4);
	EXPECT_EQ(t, r.ex.code, 2);
	EXPECT_EQ(t, r.ex.addr, CODE);
	r = (struct run){ 0 };
	RUN(t, &r, div);
	EXPECT_EQ(t, r.ex.signo, 8);
	EXPECT_EQ(t, r.ex.code, 1);
	r = (struct run){ 0 };
	RUN(t, &r, bp);
	EXPECT_EQ(t, r.ex.signo, 5);
	EXPECT_EQ(t, r.ex.code, 0x80);
	r = (struct run){ 0 };
	RUN(t, &r, hlt);
	EXPECT_EQ(t, r.ex.signo, 11);
	EXPECT_EQ(t, r.ex.trapno, TRAP_GP);
	if (cpu_is_tcg())
		return; /* TCG 7.2 does not raise unmasked SIMD exceptions */
	r = (struct run){ 0 };
	RUN(t, &r, simd);
	EXPECT_EQ(t, r.ex.signo, 8);
	EXPECT_EQ(t, r.ex.code, 3);
}

/* Two programs with different register contents, switching at every step. */
static void fpu_two(struct ktest *t, bool sleeps)
{
	extern const char user_prog_fpu[], user_prog_fpu_end[];
	const struct user_trap_ops *old = user_trap_ops_swap(&test_ops);
	struct run r[3] = { 0 };
	struct thread *threads[3];

	for (unsigned int i = 0; i < 3; i++) {
		r[i].start.rdi = 0x1111111111111ul * (i + 1);
		r[i].start.rsi = cpu_features.avx2;
		r[i].start.rdx = 50;
		r[i].yield_sleeps = sleeps;
		ASSERT_TRUE(t, run_setup(&r[i], user_prog_fpu, user_prog_fpu_end));
	}
	for (unsigned int i = 0; i < 3; i++)
		threads[i] = run_start(&r[i]);
	for (unsigned int i = 0; i < 3; i++)
		thread_join(threads[i]);
	user_trap_ops_swap(old);
	for (unsigned int i = 0; i < 3; i++) {
		EXPECT_EQ(t, r[i].nr_reports, 1);
		EXPECT_EQ(t, r[i].reports[0], 0);
		run_teardown(&r[i]);
	}
}

static void fpu_survives_switches(struct ktest *t)
{
	fpu_two(t, false);
	fpu_two(t, true);
}

static void segment_bases_follow_the_thread(struct ktest *t)
{
	extern const char user_prog_bases[], user_prog_bases_end[];
	const struct user_trap_ops *old = user_trap_ops_swap(&test_ops);
	struct run r[2] = { 0 };
	struct thread *threads[2];

	for (unsigned int i = 0; i < 2; i++) {
		const uint64_t words[2] = { 100 + i, 200 + i };

		ASSERT_TRUE(t, run_setup(&r[i], user_prog_bases, user_prog_bases_end));
		r[i].fs_base = DATA;
		r[i].gs_base = DATA + 8;
		ASSERT_EQ(t, map_new(r[i].pt, DATA, PGT_READ, words, sizeof(words)), 0);
	}
	for (unsigned int i = 0; i < 2; i++)
		threads[i] = run_start(&r[i]);
	for (unsigned int i = 0; i < 2; i++)
		thread_join(threads[i]);
	user_trap_ops_swap(old);
	for (unsigned int i = 0; i < 2; i++) {
		EXPECT_EQ(t, r[i].reports[0], 100 + i);
		EXPECT_EQ(t, r[i].reports[1], 200 + i);
		run_teardown(&r[i]);
	}
}

static uint64_t nr_refreshes(void)
{
	uint64_t nr = 0;

	return counter_find("tlb.refreshes", &nr) ? nr : 0;
}

/*
 * A program that never enters the kernel is still preempted, notified and killed; under TCG its
 * CPU's TLB is flushed meanwhile.
 */
static void spinning_program_is_interrupted(struct ktest *t)
{
	extern const char user_prog_spin[], user_prog_spin_end[];
	const struct user_trap_ops *old = user_trap_ops_swap(&test_ops);
	const uint64_t refreshes = nr_refreshes();
	struct run r = { .start.rdi = DATA };
	struct thread *th;

	ASSERT_TRUE(t, run_setup(&r, user_prog_spin, user_prog_spin_end));
	th = run_start(&r);
	while (thread_cpu_ns(th) < NSEC_PER_MSEC)
		thread_sleep_ns(NSEC_PER_MSEC); /* the host may give its CPU nothing for a while */
	thread_notify(th, THREAD_F_SIGNAL);
	while (READ_ONCE(r.return_works) != 1)
		thread_sleep_ns(NSEC_PER_MSEC);
	while (cpu_is_tcg() && nr_refreshes() == refreshes)
		thread_sleep_ns(NSEC_PER_MSEC);
	thread_notify(th, THREAD_F_KILL);
	thread_join(th);
	EXPECT_EQ(t, r.return_works, 2);
	user_trap_ops_swap(old);
	run_teardown(&r);
}

static void bad_start_registers_are_sanitised(struct ktest *t)
{
	struct pt_regs regs = {
		.cs = SEL_KERNEL_CS,
		.ss = SEL_KERNEL_DS,
		.rflags = ~0ul,
		.rip = 0x8000000000000000ul,
	};

	user_regs_sanitise(&regs);
	EXPECT_EQ(t, regs.cs, SEL_USER_CS);
	EXPECT_EQ(t, regs.ss, SEL_USER_DS);
	EXPECT_EQ(t, regs.rflags & (RFLAGS_IOPL | RFLAGS_NT), 0);
	EXPECT_TRUE(t, regs.rflags & RFLAGS_IF);
	EXPECT_LT(t, regs.rip, 1ul << 47);
}

/* --- user copies, from a kernel thread that has a user page table */

struct copy_run {
	struct run run;
	struct ktest *t;
};

static void copy_thread(void *arg)
{
	struct copy_run *c = arg;
	struct ktest *t = c->t;
	uint8_t buf[64];
	char str[32];
	uint32_t old;
	uint64_t v;
	void __user *user = (void __user *)(DATA + PAGE_SIZE - 20);

	thread_set_user(c->run.pt, NULL);
	memset(buf, 0xa5, sizeof(buf));
	/* Across two pages that are not there yet. */
	EXPECT_EQ(t, copy_to_user(user, buf, 41), 0);
	EXPECT_EQ(t, c->run.nr_faults, 2);
	memset(buf, 0, sizeof(buf));
	EXPECT_EQ(t, copy_from_user(buf, user, 41), 0);
	EXPECT_EQ(t, buf[0], 0xa5);
	EXPECT_EQ(t, buf[40], 0xa5);
	EXPECT_EQ(t, buf[41], 0);
	EXPECT_EQ(t, clear_user_partial(user, 7), 0);
	EXPECT_EQ(t, copy_from_user(buf, user, 8), 0);
	EXPECT_EQ(t, buf[6], 0);
	EXPECT_EQ(t, buf[7], 0xa5);
	/* Past the last page that the hook serves: all but the tail is copied. */
	user = (void __user *)(DATA + NR_DATA * PAGE_SIZE - 24);
	EXPECT_EQ(t, copy_to_user_partial(user, buf, 64), 40);
	EXPECT_EQ(t, copy_from_user_partial(buf, user, 27), 3);
	EXPECT_EQ(t, copy_to_user(user, buf, 64), -EFAULT);
	EXPECT_EQ(t, clear_user_partial(user, 64), 40);
	/* Addresses that no user has. */
	EXPECT_EQ(t, copy_from_user(buf, (void __user *)KERNEL_BASE, 8), -EFAULT);
	EXPECT_EQ(t, copy_to_user((void __user *)DIRECT_MAP_BASE, buf, 8), -EFAULT);
	EXPECT_EQ(t, copy_from_user(buf, (void __user *)(USER_TOP - 4), 8), -EFAULT);
	EXPECT_EQ(t, copy_from_user(buf, (void __user *)0x8000000000000000ul, 8), -EFAULT);
	EXPECT_EQ(t, copy_from_user(buf, (void __user *)8, SIZE_MAX), -EFAULT);
	EXPECT_EQ(t, copy_from_user(buf, (void __user *)USER_TOP, 0), 0);
	EXPECT_EQ(t, get_user_u64(&v, NULL), -EFAULT);
	/* Strings. */
	user = (void __user *)(DATA + PAGE_SIZE - 3);
	EXPECT_EQ(t, copy_to_user(user, "hello", 6), 0);
	EXPECT_EQ(t, strncpy_from_user(str, user, sizeof(str)), 5);
	EXPECT_STREQ(t, str, "hello");
	EXPECT_EQ(t, strncpy_from_user(str, user, 5), -ENAMETOOLONG);
	EXPECT_EQ(t, strncpy_from_user(str, (void __user *)(USER_TOP - 1), 8), -EFAULT);
	EXPECT_EQ(t, strncpy_from_user(str, (void __user *)KERNEL_BASE, 8), -EFAULT);
	/* Words. */
	user = (void __user *)DATA;
	EXPECT_EQ(t, put_user_u32(7, user), 0);
	EXPECT_EQ(t, cmpxchg_user_u32(&old, user, 7, 9), 0);
	EXPECT_EQ(t, old, 7);
	EXPECT_EQ(t, cmpxchg_user_u32(&old, user, 7, 10), 0);
	EXPECT_EQ(t, old, 9);
	EXPECT_EQ(t, cmpxchg_user_u32(&old, (void __user *)(DATA + 2), 7, 10), -EFAULT);
	EXPECT_EQ(t, put_user_u64(0x1122334455667788ul, user), 0);
	EXPECT_EQ(t, get_user_u64(&v, user), 0);
	EXPECT_EQ(t, v, 0x1122334455667788ul);
	/* A read-only page refuses. */
	EXPECT_TRUE(t, pgtable_protect(c->run.pt, DATA, PGT_READ));
	tlb_flush_range(c->run.pt, DATA, DATA + PAGE_SIZE);
	EXPECT_EQ(t, put_user_u32(1, user), -EFAULT);
	EXPECT_TRUE(t, c->run.bad_fault_flags & FAULT_WRITE);
	EXPECT_FALSE(t, c->run.bad_fault_flags & FAULT_USER);
	/* With preemption off nothing may sleep: an absent page is an error, not a fault served. */
	v = c->run.nr_faults;
	preempt_disable();
	EXPECT_EQ(t, get_user_u32(&old, (void __user *)(DATA + 9 * PAGE_SIZE)), -EFAULT);
	preempt_enable();
	EXPECT_EQ(t, c->run.nr_faults, v);
	/* So it is with faults off, which nest: what is mapped before it is copied. */
	user = (void __user *)(DATA + 9 * PAGE_SIZE);
	EXPECT_EQ(t, put_user_u32(1, user), 0);
	v = c->run.nr_faults;
	user_faults_off();
	user_faults_off();
	user = (void __user *)(DATA + 10 * PAGE_SIZE - 16);
	EXPECT_EQ(t, copy_to_user_partial(user, buf, 64), 48);
	user_faults_on();
	EXPECT_EQ(t, copy_from_user_partial(buf, user, 64), 48);
	EXPECT_EQ(t, c->run.nr_faults, v);
	user_faults_on();
	EXPECT_EQ(t, copy_to_user(user, buf, 64), 0);
	EXPECT_EQ(t, c->run.nr_faults, v + 1);
}

static void copies_fault_and_recover(struct ktest *t)
{
	const struct user_trap_ops *old = user_trap_ops_swap(&test_ops);
	struct copy_run c = { .t = t };
	struct thread *th;

	c.run.pt = pgtable_create();
	ASSERT_FALSE(t, IS_ERR(c.run.pt));
	th = thread_create_stopped("copy-test", copy_thread, &c, THREAD_PRIO_USER);
	ASSERT_FALSE(t, IS_ERR(th));
	th->private = &c.run;
	thread_start(th);
	thread_join(th);
	user_trap_ops_swap(old);
	run_teardown(&c.run);
}

static const struct ktest_case user_cases[] = {
	KTEST(syscall_passes_arguments),        KTEST(faults_are_served),
	KTEST(kernel_memory_is_out_of_reach),   KTEST(exceptions_become_signals),
	KTEST(fpu_survives_switches),           KTEST(segment_bases_follow_the_thread),
	KTEST(spinning_program_is_interrupted), KTEST(bad_start_registers_are_sanitised),
	KTEST(copies_fault_and_recover),        { 0 },
};
static const struct ktest_suite user_suite = { .name = "arch.user", .cases = user_cases };
KTEST_SUITE(user_suite);
