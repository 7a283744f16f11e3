/* SPDX-License-Identifier: MIT */
/*
 * TLB shootdown: a page that changes its frame on one CPU has changed for all.
 */
#include <arch/cpu.h>
#include <arch/ipi.h>
#include <arch/kpgtable.h>
#include <arch/pgtable.h>
#include <arch/uaccess.h>
#include <kernel/counter.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "pgtable_private.h"

#define VA    0x40000000ul
#define STALE 0xdeadul

struct reader {
	struct pgtable *pt;
	unsigned int cpu;
	unsigned int errors;
	uint64_t reads; /* atomic */
	struct thread *thread;
};

static uint64_t published; /* atomic: the page holds this or more */
static bool stop;          /* atomic */

static uint64_t get(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void reader_main(void *arg)
{
	struct reader *r = arg;

	thread_set_user(r->pt, NULL);
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
		const uint64_t least = get(&published);
		uint64_t v = STALE;

		r->errors += get_user_u64(&v, (const void __user *)VA) != 0;
		r->errors += v == STALE || v < least;
		__atomic_add_fetch(&r->reads, 1, __ATOMIC_SEQ_CST);
	}
	thread_clear_user();
}

static struct reader *readers_start(struct pgtable *pt, unsigned int nr)
{
	struct reader *r = kcalloc(nr, sizeof(*r));

	__atomic_store_n(&stop, false, __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; r && i < nr; i++) {
		struct cpu_mask mask;

		r[i] = (struct reader){ .pt = pt, .cpu = i };
		r[i].thread =
			thread_create_stopped("tlb-reader", reader_main, &r[i], THREAD_PRIO_USER);
		if (IS_ERR(r[i].thread)) {
			r[i].thread = NULL;
			continue;
		}
		cpu_mask_only(&mask, i);
		(void)thread_set_affinity(r[i].thread, &mask);
		thread_start(r[i].thread);
	}
	return r;
}

static void readers_stop(struct ktest *t, struct reader *r, unsigned int nr)
{
	__atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i < nr; i++) {
		ASSERT_TRUE(t, r[i].thread != NULL);
		thread_join(r[i].thread);
		EXPECT_EQ(t, r[i].errors, 0);
		EXPECT_GT(t, r[i].reads, 0);
	}
	kfree(r);
}

static void all_have_read(struct reader *r, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		const uint64_t before = get(&r[i].reads);

		for (unsigned int k = 0; k < 5000 && get(&r[i].reads) == before; k++)
			thread_sleep_ns(NSEC_PER_MSEC);
	}
}

/* The old frame is spoilt as soon as the flush has returned: nobody may still read it. */
static void remapped_page_is_seen_by_all(struct ktest *t)
{
	const unsigned int nr = cpu_online_count();
	struct pgtable *pt = pgtable_create();
	struct frame *f[2] = { frame_alloc(0, FRAME_ZERO), frame_alloc(0, FRAME_ZERO) };
	const uint64_t until = time_after_ns(2 * NSEC_PER_SEC);
	struct reader *r;

	ASSERT_TRUE(t, !IS_ERR(pt) && f[0] && f[1]);
	published = 0;
	ASSERT_EQ(t, pgtable_map(pt, VA, frame_to_paddr(f[0]), PGT_READ), 0);
	r = readers_start(pt, nr);
	ASSERT_TRUE(t, r != NULL);
	all_have_read(r, nr);
	for (uint64_t round = 1; round <= 60 && (round <= 3 || time_now_ns() < until); round++) {
		struct frame *next = f[round & 1];
		uint64_t *old = frame_to_virt(f[(round + 1) & 1]);

		*(uint64_t *)frame_to_virt(next) = round;
		ASSERT_EQ(t, pgtable_map(pt, VA, frame_to_paddr(next), PGT_READ), 0);
		if (round % 3 == 0)
			tlb_flush_all(pt);
		else
			tlb_flush_range(pt, VA, VA + PAGE_SIZE);
		WRITE_ONCE(*old, STALE);
		__atomic_store_n(&published, round, __ATOMIC_SEQ_CST);
		if (round % 7 == 0) /* with either frame */
			all_have_read(r, nr);
	}
	readers_stop(t, r, nr);
	pgtable_destroy(pt);
	frame_free(f[0], 0);
	frame_free(f[1], 0);
}

/* --- flushes that cross ------------------------------------------------------------------ */

static struct spinlock lock = SPINLOCK_INIT("tlb-test", RANK_SPIN_ASPACE);
static struct pgtable *shared_pt;

/* Under a lock that others wait for with interrupts off: they answer all the same. */
static void flusher_main(void *arg)
{
	thread_set_user(shared_pt, NULL);
	for (unsigned int i = 0; i < 400 / cpu_online_count(); i++) {
		struct tlb_batch b;
		unsigned long flags = 0;

		tlb_batch_init(&b, shared_pt);
		for (unsigned int k = 0; k < i % (TLB_BATCH_MAX + 4); k++)
			tlb_batch_add(&b, VA + k * PAGE_SIZE);
		if (i % 3 == 0)
			flags = spin_lock_irqsave(&lock);
		else if (i % 3 == 1)
			spin_lock(&lock);
		tlb_batch_flush(&b);
		if (i % 3 == 0)
			spin_unlock_irqrestore(&lock, flags);
		else if (i % 3 == 1)
			spin_unlock(&lock);
	}
	thread_clear_user();
}

static void all_flush_at_once(struct ktest *t)
{
	const unsigned int nr = MIN(cpu_online_count() + 1, 16u);
	struct thread *threads[16];

	shared_pt = pgtable_create();
	ASSERT_FALSE(t, IS_ERR(shared_pt));
	for (unsigned int i = 0; i < nr; i++) {
		threads[i] = thread_create("tlb-flusher", flusher_main, NULL);
		ASSERT_FALSE(t, IS_ERR(threads[i]));
	}
	for (unsigned int i = 0; i < nr; i++)
		thread_join(threads[i]);
	pgtable_destroy(shared_pt);
}

/* --- lazy kernel threads ------------------------------------------------------------------ */

static void leave_loaded(void *arg)
{
	thread_set_user(arg, NULL);
	/* As a switch to a kernel thread leaves it: loaded, but no thread's table. */
	preempt_disable();
	thread_current()->user.pgtable = NULL;
	preempt_enable();
}

static void flush_makes_kernel_threads_let_go(struct ktest *t)
{
	const unsigned int nr = cpu_online_count();
	struct pgtable *pt = pgtable_create();
	struct cpu_mask mine;
	struct cpu_mask mask;

	ASSERT_FALSE(t, IS_ERR(pt));
	thread_affinity(thread_current(), &mine);
	thread_pin(0);
	for (unsigned int cpu = 1; cpu < nr; cpu++) {
		struct thread *th =
			thread_create_stopped("lazy", leave_loaded, pt, THREAD_PRIO_NORMAL);

		ASSERT_FALSE(t, IS_ERR(th));
		cpu_mask_only(&mask, cpu);
		EXPECT_EQ(t, thread_set_affinity(th, &mask), 0);
		thread_start(th);
		thread_join(th);
		EXPECT_TRUE(t, cpu_mask_test(&pt->active, cpu));
	}
	tlb_flush_range(pt, VA, VA + PAGE_SIZE);
	EXPECT_TRUE(t, cpu_mask_empty(&pt->active));
	EXPECT_EQ(t, thread_set_affinity(thread_current(), &mine), 0);
	pgtable_destroy(pt);
}

/* Destroying does it too: here the tables are loaded on all other CPUs. */
static void destroyed_tables_are_loaded_nowhere(struct ktest *t)
{
	const uint64_t before = frames_free_count();

	for (unsigned int i = 0; i < 5; i++) {
		struct pgtable *pt = pgtable_create();

		ASSERT_FALSE(t, IS_ERR(pt));
		for_each_cpu(cpu) {
			struct thread *th =
				thread_create_stopped("lazy", leave_loaded, pt, THREAD_PRIO_NORMAL);
			struct cpu_mask mask;

			ASSERT_FALSE(t, IS_ERR(th));
			cpu_mask_only(&mask, cpu);
			EXPECT_EQ(t, thread_set_affinity(th, &mask), 0);
			thread_start(th);
			thread_join(th);
		}
		pgtable_destroy(pt);
	}
	EXPECT_GE(t, frames_free_count() + 64, before); /* stacks may stay in their cache */
}

/* --- the kernel's half -------------------------------------------------------------------- */

static volatile uint64_t *kernel_page;
static uint64_t seen[MAX_CPUS];

static void look(void *arg)
{
	seen[cpu_id()] = *kernel_page;
}

static void kernel_remap_is_seen_by_all(struct ktest *t)
{
	struct frame *f[2] = { frame_alloc(0, FRAME_ZERO), frame_alloc(0, FRAME_ZERO) };
	paddr_t pages[1];
	vaddr_t v;

	ASSERT_TRUE(t, f[0] && f[1]);
	pages[0] = frame_to_paddr(f[0]);
	kernel_page = vmap(pages, 1);
	ASSERT_TRUE(t, kernel_page != NULL);
	v = (vaddr_t)kernel_page;
	for (uint64_t round = 1; round <= 20; round++) {
		*(uint64_t *)frame_to_virt(f[round & 1]) = round;
		EXPECT_EQ(t, kpt_unmap(v), frame_to_paddr(f[(round + 1) & 1]));
		/* A range too: the whole set of global entries. */
		kpt_flush(v, v + (round % 2 ? 1 : 100) * PAGE_SIZE);
		ASSERT_EQ(t, kpt_map(v, frame_to_paddr(f[round & 1]), KPT_WRITE), 0);
		smp_call_all(look, NULL);
		for_each_cpu(cpu)
			ASSERT_EQ(t, seen[cpu], round);
	}
	vunmap((const void *)v);
	frame_free(f[0], 0);
	frame_free(f[1], 0);
}

static const struct ktest_case tlb_cases[] = {
	KTEST(remapped_page_is_seen_by_all),      KTEST(all_flush_at_once),
	KTEST(flush_makes_kernel_threads_let_go), KTEST(destroyed_tables_are_loaded_nowhere),
	KTEST(kernel_remap_is_seen_by_all),       { 0 },
};
static const struct ktest_suite tlb_suite = { .name = "arch.tlb", .cases = tlb_cases };
KTEST_SUITE(tlb_suite);
