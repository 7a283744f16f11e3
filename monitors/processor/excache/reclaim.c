/* SPDX-License-Identifier: MIT */
/*
 * ExCache: evict and write back ahead of need.
 *
 * Flow:	a batch is up to BATCH_MAX noted sets. Under each set's lock: lines that the set has
 *		too many are unmapped and WRITEBACK; the lines that go next, if they are dirty,
 *		become CLEANING, where they are: mapped, readable and writable. Then page tables are
 *		flushed, once each. Then the frames of clean lines are free, and the data of dirty
 *		and of CLEANING lines may be sent; they are queued together and share messages.
 * Invariants:	no store is lost. The data of a CLEANING line is sent only after its dirty bits were
 *		cleared and then all TLBs flushed. A store before the end of the flush is part of
 *		what is sent; a later one finds no CPU with the entry cached as dirty, so it sets
 *		the bit again, and the line is dirty when it is VALID again. So the owner's copy may
 *		be torn for now; it is not read while the line is here, and a line that is dirty is
 *		written back once more, with a higher sequence number, before it goes.
 *		A line is not pinned when it becomes CLEANING, and a thread that writes through the
 *		kernel's mapping marks it dirty before it gives its pin back.
 *		An entry that was removed and is not flushed yet belongs to a line that is
 *		WRITEBACK, so a fault on the page waits; threads that change or destroy page
 *		tables wait in reclaim_barrier().
 *		A line is written back ahead once only, until it leaves; and of an object whose
 *		lines are written to again as a rule only now and then.
 * Locking:	reclaim.flushing is held from the first change of a page table to the flush, and
 *		until clean frames are free; a set's lock and what is inside of it nest in it.
 *		reclaim.lock guards the list of noted sets, inside a set's lock.
 * Limits:	where frames come back too slowly, faults evict by themselves (reclaim.direct), as
 *		all do with reclaim=off.
 */
#include "reclaim.h"

#include <arch/barrier.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/err.h>

#include "cache_private.h"

#define BATCH_MAX       64
#define AHEAD_MAX_LINES 8
#define GROW_MAX        4 /* lines that a set may have too many */

static bool reclaim_on = true;
static uint32_t param_ahead = 1;
static uint32_t param_batch = 16;
BOOT_PARAM("reclaim", bool, reclaim_on,
	   "evict and write back lines before their frames are needed");
BOOT_PARAM_RANGE("reclaim.ahead", u32, param_ahead, 0, AHEAD_MAX_LINES,
		 "lines of a full set that are written back before they must go");
BOOT_PARAM_RANGE("reclaim.batch", u32, param_batch, 1, BATCH_MAX,
		 "full sets with misses that make the reclaim thread run");

COUNTER(reclaim_runs, "reclaim.batches", "batches of sets that reclaim looked at");
COUNTER(reclaim_flushes, "reclaim.flushes", "TLB flushes of reclaim, one a batch and page table");
COUNTER(reclaim_evicted, "reclaim.evicted", "lines that reclaim evicted");
COUNTER(reclaim_cleaned, "reclaim.cleaned", "dirty lines written back where they are");
COUNTER(reclaim_again, "reclaim.again", "of these, lines that were dirty again when they went");
COUNTER(reclaim_direct, "reclaim.direct", "lines that a thread with a miss had to evict itself");

static struct {
	struct spinlock lock; /* RANK_EXCACHE_FREE */
	struct list_head noted __guarded_by(&lock);
	uint32_t nr_noted; /* atomic; changed under lock */
	struct waitqueue wake;
	struct mutex flushing; /* RANK_RECLAIM */
	struct tlb_gather gather __guarded_by(&flushing);
} reclaim;

/* Frames that are left to faults that evict by themselves. */
static uint64_t reserve(void)
{
	return excache.nr_spare / 4;
}

void reclaim_count_direct(void)
{
	if (reclaim_on)
		counter_inc(&reclaim_direct);
}

void reclaim_note(struct cache_set *set)
{
	assert_spin_held(&set->lock);
	if (!reclaim_on || set->noted)
		return;
	set->noted = true;
	spin_lock(&reclaim.lock);
	list_add_tail(&set->reclaim_link, &reclaim.noted);
	__atomic_store_n(&reclaim.nr_noted, reclaim.nr_noted + 1, __ATOMIC_RELAXED);
	spin_unlock(&reclaim.lock);
}

static struct cache_set *noted_take(void)
{
	struct cache_set *set;

	spin_lock(&reclaim.lock);
	set = list_first_entry_or_null(&reclaim.noted, struct cache_set, reclaim_link);
	if (set) {
		list_del(&set->reclaim_link);
		__atomic_store_n(&reclaim.nr_noted, reclaim.nr_noted - 1, __ATOMIC_RELAXED);
	}
	spin_unlock(&reclaim.lock);
	return set;
}

bool reclaim_may_grow(const struct cache_set *set, bool demand)
{
	assert_spin_held(&set->lock);
	return reclaim_on && set->nr_resident < excache.nr_ways + GROW_MAX &&
	       excache_free_count() >= (demand ? reserve() : 2 * reserve());
}

static bool is_needed(void)
{
	const uint32_t nr = __atomic_load_n(&reclaim.nr_noted, __ATOMIC_RELAXED);

	return nr >= param_batch || (nr > 0 && excache_free_count() <= 2 * reserve());
}

void reclaim_kick(void)
{
	if (!reclaim_on || !is_needed())
		return;
	smp_mb(); /* the number, then the look for the thread: see waitqueue_busy_mb() */
	if (waitqueue_busy_mb(&reclaim.wake))
		wake_one(&reclaim.wake);
}

void reclaim_barrier(void)
{
	if (!reclaim_on)
		return;
	mutex_lock(&reclaim.flushing);
	mutex_unlock(&reclaim.flushing);
}

/* --- a batch ------------------------------------------------------------------------- */

struct batch {
	struct list_head evicted; /* line.wb_link: WRITEBACK, dirty or not */
	struct list_head queue;   /* line.wb_link: to be sent after the flush */
};

static void evict_locked(struct cache_set *set, struct batch *b) __must_hold(&set->lock)
{
	struct line *line;

	assert_spin_held(&set->lock);
	while (set->nr_resident > excache.nr_ways) {
		line = victim_locked(set);
		if (!line)
			return; /* all in use: the set shrinks later */
		if (line->flags & LINE_PREFETCH)
			(void)line_clear_accessed_locked(set, line); /* was it used after all? */
		line_unmap_gather_locked(line, &reclaim.gather);
		start_writeback_locked(set, line);
		list_add_tail(&line->wb_link, &b->evicted);
		counter_inc(&reclaim_evicted);
	}
}

#define TALLY_MAX   256u /* then both are halved: what was long ago counts less */
#define PROBE_EVERY 16u  /* where it was in vain, one line in so many is tried */

/* Do lines of @obj that are written back ahead stay clean, as a rule? */
static bool cleaning_pays(struct object *obj)
{
	assert_mutex_held(&reclaim.flushing);
	if (obj->cleaned > TALLY_MAX) {
		obj->cleaned /= 2;
		obj->cleaned_again /= 2;
	}
	return obj->cleaned_again * 8 <= obj->cleaned + 16 ||
	       ++obj->clean_probes % PROBE_EVERY == 0;
}

static void clean_locked(struct cache_set *set, struct line *line, struct batch *b)
{
	assert_spin_held(&set->lock);
	if ((line->flags & (LINE_CLEANED | LINE_PREFETCH)) || line->obj->kind == OBJECT_FILE ||
	    !line_is_dirty_locked(line) || !cleaning_pays(line->obj) ||
	    !writeback_begin(line->obj, line->pgoff))
		return;
	(void)line_clean_gather_locked(line, &reclaim.gather);
	line->flags |= LINE_CLEANED;
	line->seq = writeback_next_seq();
	line_set_state(line, LINE_CLEANING);
	list_add_tail(&line->wb_link, &b->queue);
	counter_inc(&reclaim_cleaned);
	line->obj->cleaned++;
}

static void look_at(struct cache_set *set, struct batch *b)
{
	struct line *next[AHEAD_MAX_LINES];
	size_t nr;

	spin_lock(&set->lock);
	set->noted = false;
	evict_locked(set, b);
	if (set->nr_resident >= excache.nr_ways) {
		nr = excache.policy->next(set, next, param_ahead);
		for (size_t i = 0; i < nr; i++)
			clean_locked(set, next[i], b);
	}
	spin_unlock(&set->lock);
}

/* @line is in no TLB any more. True: its owner has what it holds, and it has no tag any more. */
static bool evicted_clean(struct line *line)
{
	struct cache_set *set = set_of_line(line);
	struct object *put;

	if (line->flags & LINE_DIRTY) {
		ASSERT(line->obj->kind != OBJECT_FILE);
		counter_inc(&excache_evict_dirty);
		if (line->flags & LINE_CLEANED) {
			counter_inc(&reclaim_again);
			line->obj->cleaned_again++;
		}
		return false;
	}
	counter_inc(&excache_evict_clean);
	spin_lock(&set->lock);
	put = line_detach_locked(set, line);
	spin_unlock(&set->lock);
	if (put)
		object_put(put); /* a file: does not sleep */
	return true;
}

static void batch_finish(struct batch *b)
{
	struct list_head gone;
	struct line *line, *tmp;

	list_init(&gone);
	list_for_each_entry_safe(line, tmp, &b->evicted, wb_link) {
		list_del(&line->wb_link);
		if (evicted_clean(line))
			list_add_tail(&line->set_link, &gone);
		else
			list_add_tail(&line->wb_link, &b->queue);
	}
	line_free_give_all(&gone);
}

static void reclaim_batch(void)
{
	struct cache_set *set;
	struct batch b;

	list_init(&b.evicted);
	list_init(&b.queue);
	counter_inc(&reclaim_runs);
	mutex_lock(&reclaim.flushing);
	for (unsigned int i = 0; i < BATCH_MAX && (set = noted_take()); i++)
		look_at(set, &b);
	counter_add(&reclaim_flushes, reclaim.gather.nr);
	tlb_gather_flush(&reclaim.gather);
	batch_finish(&b);
	mutex_unlock(&reclaim.flushing);
	writeback_queue_all(&b.queue);
}

static void reclaim_thread(void *arg)
{
	for (;;) {
		wait_event(&reclaim.wake, is_needed());
		reclaim_batch();
	}
}

int reclaim_init(void)
{
	struct thread *t;

	spin_lock_init(&reclaim.lock, "excache.reclaim", RANK_EXCACHE_FREE);
	list_init(&reclaim.noted);
	waitqueue_init(&reclaim.wake);
	mutex_init(&reclaim.flushing, "excache.flushing", RANK_RECLAIM);
	/*
	 * Of the class of kernel threads: below programs it would not keep up with them. It runs
	 * while a fetch is on its way, on an idle CPU if there is one.
	 */
	t = thread_create("excache-reclaim", reclaim_thread, NULL);
	if (IS_ERR(t))
		return PTR_ERR(t);
	thread_detach(t);
	return 0;
}
