/* SPDX-License-Identifier: MIT */
/*
 * ExCache: geometry, sets, and finding or making a line.
 *
 * Invariants:	a tag is in at most one line; a line is either in one set's lists or on the free
 *		list or in quarantine or claimed by one thread; nr_resident may pass nr_ways only
 *		while every resident line of the set is pinned or filling, or as many are chosen
 *		for reclaim.
 * Locking:	as in "excache.h".
 * Failure:	no frames for the cache at start is fatal for the processor monitor; later on a
 *		thread waits for a frame, because every frame comes back (write-backs end, pins are
 *		short).
 */
#define PR_FMT "excache: "

#include "excache.h"

#include <arch/cpu.h>
#include <kernel/bootparam.h>
#include <kernel/panic.h>
#include <kernel/pins.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <mm/slab.h>
#include <processor/mm/aspace.h>

#include "cache_private.h"
#include "credit.h"
#include "file_dirty.h"
#include "late.h"
#include "owner.h"
#include "prefetch.h"
#include "reclaim.h"

#define FILE_NODES_TRIED 8 /* for one page, while one after the other goes */

/* Chosen by measurement: docs/results/misses.md. */
#define DEFAULT_POLICY "drrip"

struct excache excache;

static uint64_t param_size;
static uint32_t param_ways = 8;
static uint32_t param_spare = 128;
static const struct excache_policy *param_policy; /* NULL: the default */
BOOT_PARAM("excache", size, param_size, "bytes of DRAM used as ExCache (default: half of free)");
BOOT_PARAM_RANGE("excache.ways", u32, param_ways, 1, 64, "lines in one set");
static int set_policy(const char *name)
{
	param_policy = policy_find(name);
	return param_policy ? 0 : -EINVAL;
}
BOOT_PARAM_CB("excache.policy", set_policy,
	      "which line a full set evicts: fifo, clock, lru or drrip");
BOOT_PARAM_RANGE("excache.spare", u32, param_spare, 2 * WRITEBACK_MAX, 1u << 20,
		 "frames beyond the sets, for write-backs under way");

COUNTER_GLOBAL(excache_miss, "excache.misses", "pages that were not in the cache");
COUNTER_GLOBAL(excache_plocal, "excache.plocal", "lines made without a message (p-local)");
COUNTER_GLOBAL(excache_evict_clean, "excache.evict_clean", "clean lines evicted");
COUNTER_GLOBAL(excache_evict_dirty, "excache.evict_dirty", "dirty lines evicted");

uint64_t excache_free_count(void)
{
	return __atomic_load_n(&excache.nr_free, __ATOMIC_RELAXED);
}
GAUGE(excache_free, "excache.free_lines", "lines that hold nothing", excache_free_count);
GAUGE(excache_lines, "excache.lines", "lines in the cache", excache_line_count);

static uint64_t peak_count(void)
{
	return excache.nr_lines - __atomic_load_n(&excache.least_free, __ATOMIC_RELAXED);
}
GAUGE(excache_peak, "excache.peak_lines", "most lines that have held something at one time",
      peak_count);

uint64_t excache_line_count(void)
{
	return excache.nr_lines;
}

void *line_data(const struct line *line)
{
	return excache.data + line_offset(line);
}

paddr_t line_paddr(const struct line *line)
{
	return excache.base + line_offset(line);
}

struct line *line_of_paddr(paddr_t paddr)
{
	const uint64_t index = (paddr - excache.base) >> PAGE_SHIFT;

	BUG_ON(paddr < excache.base || index >= excache.nr_lines);
	return &excache.lines[index];
}

/* --- sets ---------------------------------------------------------------------------- */

struct line *set_find_locked(struct cache_set *set, const struct object *obj, uint64_t pgoff)
{
	struct line *line;

	assert_spin_held(&set->lock);
	list_for_each_entry(line, &set->resident, set_link) {
		if (line->pgoff == pgoff && line->obj == obj)
			return line;
	}
	list_for_each_entry(line, &set->inflight, set_link) {
		if (line->pgoff == pgoff && line->obj == obj)
			return line;
	}
	return NULL;
}

int set_wait(struct cache_set *set, uint64_t gen, bool killable)
{
	return wait_event_mode(&set->changed, __atomic_load_n(&set->gen, __ATOMIC_ACQUIRE) != gen,
			       killable ? WAIT_KILLABLE : WAIT_PLAIN, WAIT_FOREVER);
}

/*
 * For a thread that wants a line: also until a frame is free when @or_free. -EINTR: to be killed.
 */
static int set_wait_line(struct cache_set *set, uint64_t gen, uint64_t releases, bool or_free)
{
	if (or_free)
		return wait_event_killable(
			&excache.freed,
			excache_free_count() > 0 ||
				__atomic_load_n(&set->gen, __ATOMIC_ACQUIRE) != gen ||
				__atomic_load_n(&excache.nr_releases, __ATOMIC_ACQUIRE) !=
					releases);
	return set_wait(set, gen, true);
}

/* --- the free list ------------------------------------------------------------------- */

/* nr_free has grown. */
static void wake_freed(void)
{
	smp_mb(); /* the count, then the look for waiters: see waitqueue_busy_mb() */
	if (unlikely(waitqueue_busy_mb(&excache.freed)))
		wake_all(&excache.freed);
}

void line_free_give(struct line *line)
{
	spin_lock(&excache.free_lock);
	line_set_state(line, LINE_FREE);
	/* Last in, first out: the frame that was touched last is still in the CPU's caches. */
	list_add(&line->set_link, &excache.free);
	__atomic_store_n(&excache.nr_free, excache.nr_free + 1, __ATOMIC_RELAXED);
	spin_unlock(&excache.free_lock);
	wake_freed();
}

void line_free_give_all(struct list_head *lines)
{
	struct line *line;
	uint64_t nr = 0;

	if (list_empty(lines))
		return;
	list_for_each_entry(line, lines, set_link) {
		line_set_state(line, LINE_FREE); /* ours until it is on the list */
		nr++;
	}
	spin_lock(&excache.free_lock);
	list_splice_tail(lines, excache.free.next); /* in front: see line_free_give() */
	__atomic_store_n(&excache.nr_free, excache.nr_free + nr, __ATOMIC_RELAXED);
	spin_unlock(&excache.free_lock);
	wake_freed();
}

/* --- tags ---------------------------------------------------------------------------- */

bool layout_is_at(struct aspace *as, uint64_t seq, bool copy)
{
	bool same;

	/*
	 * Without the lock: a thread that makes a range go away raises the number, and only then
	 * takes the locks of sets and objects, which our caller holds, to look for lines. If that
	 * was before us, we see the new number; if not, it sees the line.
	 */
	if (!copy)
		return READ_ONCE(as->seq.map) == seq;
	spin_lock(&as->lock);
	same = as->seq.map == seq;
	if (same)
		as->seq.cow++;
	spin_unlock(&as->lock);
	return same;
}

/* obj->lock is held. */
static bool may_attach_locked(struct object *obj, const struct tag *tag)
{
	assert_spin_held(&obj->lock);
	if (tag->seq == SEQ_ANY)
		return true;
	if (tag->fresh && page_bits_test(&obj->stored, tag->pgoff))
		return false;
	if (tag->ahead && (obj->held || !page_bits_test(&obj->stored, tag->pgoff)))
		return false;
	return tag->as ? layout_is_at(tag->as, tag->seq, tag->copy) : obj->seq == tag->seq;
}

/* Give @line the tag and the state FILLING in @set, pinned @pins times. False: begin again. */
static bool line_attach_locked(struct cache_set *set, struct line *line, const struct tag *tag,
			       uint32_t pins) __must_hold(&set->lock)
{
	struct object *obj = tag->obj;

	assert_spin_held(&set->lock);
	/*
	 * A thread that makes a range go away changes the layout's sequence number first and then
	 * looks through obj->lines.  With both under obj->lock, either we see the new number or it
	 * sees the line.
	 */
	spin_lock(&obj->lock);
	if (!may_attach_locked(obj, tag)) {
		spin_unlock(&obj->lock);
		return false;
	}
	line_enter_object_locked(obj, line, tag->pgoff);
	obj->nr_ahead += tag->ahead;
	if (tag->fresh && obj->kind == OBJECT_SHARED)
		obj->nr_pages++;
	if (obj->kind == OBJECT_FILE) {
		window_add_locked(obj, line);
		/* The others' last reference drops their lines; object_file_is_idle(). */
		object_get(obj);
	}
	spin_unlock(&obj->lock);
	line_enter_set_locked(set, line, obj, 0, pins);
	line->credit_node = 0;
	excache.policy->insert(set, line);
	return true;
}

bool line_attach_ahead_locked(struct cache_set *set, struct line *line, const struct tag *tag)
{
	assert_spin_held(&set->lock);
	if (!line_attach_locked(set, line, tag, 0))
		return false;
	line->flags |= LINE_PREFETCH;
	if (excache.policy->ahead)
		excache.policy->ahead(set, line);
	return true;
}

struct object *line_detach_locked(struct cache_set *set, struct line *line)
{
	struct object *obj = line->obj;
	const bool file = obj->kind == OBJECT_FILE;
	struct quiet_end quiet = { 0 };

	assert_spin_held(&set->lock);
	ASSERT(line->nr_maps == 0);
	if (line->state == LINE_WRITEBACK) {
		list_del(&line->set_link);
	} else {
		excache.policy->forget(set, line);
		set->nr_resident--;
	}
	spin_lock(&obj->lock);
	list_del(&line->obj_link);
	obj->nr_lines--;
	if (file) {
		window_remove_locked(obj, line);
		file_dirty_forget_locked(set, line);
	}
	if ((line->flags & LINE_PLOCAL) && obj->kind == OBJECT_SHARED)
		obj->nr_pages--; /* neither cached nor stored any more */
	if ((line->flags & LINE_PREFETCH) && line->state != LINE_FILLING)
		prefetch_note_wasted(obj);
	if (line->state == LINE_WRITEBACK)
		quiet = object_writeback_ended_locked(obj);
	spin_unlock(&obj->lock);
	if (line->flags & LINE_PLOCAL)
		credit_put(line->credit_node);
	line->obj = NULL;
	line->flags = 0;
	set_changed_locked(set);
	object_quiet(&quiet);
	/* Any other object may be gone as soon as the lock is dropped. */
	return file ? obj : NULL;
}

/* --- get and put --------------------------------------------------------------------- */

/* Owner of the frame that a p-local line of @obj will need, with a credit taken from it. */
static int plocal_credit(struct object *obj, uint64_t pgoff, uint32_t *node)
{
	const int err = object_owner(obj, pgoff, node);

	return err ? err : credit_take(*node);
}

static int fill(struct object *obj, uint64_t pgoff, enum excache_how how, struct line *line,
		struct line *victim, uint32_t credit_node)
{
	counter_inc(&excache_miss);
	if (how == EXCACHE_FETCH && obj->kind != OBJECT_FILE)
		return fill_anon(obj, pgoff, line, victim);
	if (victim)
		writeback_queue(victim);
	if (how == EXCACHE_FETCH)
		return fill_file(obj, pgoff, line);
	if (how == EXCACHE_BLANK) {
		ASSERT(obj->kind == OBJECT_FILE && obj->live);
		clear_page(line_data(line));
		fill_done(line, 0);
		return 0;
	}
	counter_inc(&excache_plocal);
	line->credit_node = credit_node;
	line->flags = LINE_PLOCAL | LINE_EXEC_OK;
	if (how == EXCACHE_ZERO) {
		clear_page(line_data(line));
		fill_done(line, 0);
	}
	return 0;
}

enum get_result {
	GET_FOUND, /* the line is there, and now pinned */
	GET_NEW,   /* claimed: FILLING, pinned */
	GET_NONE,  /* EXCACHE_FIND only */
	GET_WAIT,  /* for a change of the set */
	GET_WAIT_FRAME,
	GET_AGAIN, /* the layout has changed: see excache_get_at() */
};

/* Is it the first time that @line, which is asked for, is? */
static bool line_used_ahead_locked(struct line *line, bool late)
{
	assert_spin_held(&set_of_line(line)->lock);
	if (!(line->flags & LINE_PREFETCH))
		return false;
	line->flags &= (uint8_t)~LINE_PREFETCH;
	prefetch_note_used(line->obj, late);
	return true;
}

/* Find or claim under the set's lock; what the claim left over is in *c. */
static enum get_result get_locked(struct cache_set *set, const struct tag *tag,
				  enum excache_how how, struct line **out, struct claim *c)
	__must_hold(&set->lock)
{
	struct line *line = set_find_locked(set, tag->obj, tag->pgoff);

	assert_spin_held(&set->lock);
	*c = (struct claim){ 0 };
	if (line && line_state_is_readable(line->state)) {
		line->pins++;
		excache.policy->touch(set, line);
		c->ahead = line_used_ahead_locked(line, false);
		*out = line;
		return GET_FOUND;
	}
	if (line) {
		c->ahead = line->state == LINE_FILLING && line_used_ahead_locked(line, true);
		return GET_WAIT;
	}
	if (how == EXCACHE_FIND)
		return GET_NONE;
	claim_locked(set, c, true);
	if (!c->line)
		return GET_WAIT_FRAME;
	if (!line_attach_locked(set, c->line, tag, 1)) {
		line_free_give(c->line);
		return GET_AGAIN;
	}
	*out = c->line;
	return GET_NEW;
}

/* Until the line is found or claimed, or there is a reason to give up: negative errno. */
static int get_or_wait(const struct tag *tag, enum excache_how how, struct line **line,
		       struct line **victim, bool *ahead)
{
	struct cache_set *set = &excache.sets[set_index(tag->obj, tag->pgoff)];
	enum get_result got;
	struct claim c;
	uint64_t gen, releases;
	int err;

	for (;;) {
		releases = __atomic_load_n(&excache.nr_releases, __ATOMIC_ACQUIRE);
		spin_lock(&set->lock);
		gen = set->gen;
		got = get_locked(set, tag, how, line, &c);
		spin_unlock(&set->lock);
		claim_finish(&c, got == GET_NEW ? 1 : 0);
		*ahead |= c.ahead;
		*victim = got == GET_NEW ? c.victims[0] : NULL;
		if (got == GET_FOUND || got == GET_NEW)
			return (int)got;
		if (got == GET_NONE || got == GET_AGAIN)
			return got == GET_NONE ? -ENOENT : -EAGAIN;
		err = set_wait_line(set, gen, releases, got == GET_WAIT_FRAME);
		if (err)
			return err;
	}
}

static int get_once(struct object *obj, uint64_t pgoff, enum excache_how how, struct aspace *as,
		    uint64_t seq, struct line **out)
{
	const struct tag tag = { .obj = obj,
				 .pgoff = pgoff,
				 .as = as,
				 .seq = seq,
				 .fresh = how == EXCACHE_ZERO || how == EXCACHE_COPY,
				 .copy = how == EXCACHE_COPY };
	struct line *line = NULL, *victim = NULL;
	uint32_t credit_node = 0;
	bool ahead = false;
	int got, err;

	/* Taken first, because it may sleep and a claimed line must not wait for it. */
	if (tag.fresh) {
		err = plocal_credit(obj, pgoff, &credit_node);
		if (err)
			return err;
	}
	got = get_or_wait(&tag, how, &line, &victim, &ahead);
	if (tag.fresh && got != GET_NEW)
		credit_put(credit_node);
	if (got == GET_FOUND && ahead && obj->kind != OBJECT_FILE)
		prefetch_used_page(obj, pgoff);
	if ((got == GET_NEW || (got == GET_FOUND && ahead)) && excache.policy->entered)
		excache.policy->entered(line);
	err = got == GET_NEW ? fill(obj, pgoff, how, line, victim, credit_node) : got;
	reclaim_kick();
	if (err)
		return err;
	pin_taken();
	*out = line;
	return 0;
}

int excache_get_at(struct object *obj, uint64_t pgoff, enum excache_how how, struct aspace *as,
		   uint64_t seq, struct line **out)
{
	int err = -EREMCHG;

	for (int tries = 0; err == -EREMCHG && tries < FILE_NODES_TRIED; tries++)
		err = get_once(obj, pgoff, how, as, seq, out);
	return err == -EREMCHG ? -EHOSTDOWN : err;
}

int excache_get(struct object *obj, uint64_t pgoff, enum excache_how how, struct line **out)
{
	return excache_get_at(obj, pgoff, how, NULL, SEQ_ANY, out);
}

void fill_done(struct line *line, int error)
{
	struct cache_set *set = set_of_line(line);
	struct object *put = NULL;

	spin_lock(&set->lock);
	if (error) {
		put = line_detach_locked(set, line);
	} else {
		/* For those who look at a file's windows: what the line holds, then this. */
		line_set_state(line, LINE_VALID);
		set_changed_locked(set);
	}
	spin_unlock(&set->lock);
	if (error)
		line_free_give(line);
	if (put)
		object_put(put);
}

bool excache_is_valid(const struct line *line)
{
	return line_state_is_readable(READ_ONCE(line->state));
}

void excache_publish(struct line *line)
{
	line->flags |= LINE_DIRTY; /* FILLING: only we may touch it */
	fill_done(line, 0);
}

void excache_abandon(struct line *line, int error)
{
	pin_given_back();
	fill_done(line, error);
}

void excache_put(struct line *line)
{
	struct cache_set *set = set_of_line(line);

	pin_given_back();
	spin_lock(&set->lock);
	ASSERT(line->pins > 0 && line_state_is_readable(line->state));
	if (--line->pins == 0)
		set_changed_locked(set);
	spin_unlock(&set->lock);
}

void line_mark_dirty(struct line *line)
{
	struct cache_set *set = set_of_line(line);

	spin_lock(&set->lock);
	ASSERT(line->pins > 0);
	line->flags |= LINE_DIRTY;
	spin_unlock(&set->lock);
}

/* --- start --------------------------------------------------------------------------- */

static int choose_geometry(void)
{
	uint64_t size = param_size ? param_size : (frames_free_count() << PAGE_SHIFT) / 2;
	const uint64_t pages = size >> PAGE_SHIFT;

	if (pages / param_ways < 16 || pages / param_ways > UINT32_MAX) {
		pr_err("excache=%llu: must give at least 16 sets of %u lines\n",
		       (unsigned long long)size, param_ways);
		return -EINVAL;
	}
	excache.policy = param_policy ? param_policy : policy_find(DEFAULT_POLICY);
	excache.nr_ways = param_ways;
	excache.touch_ways = excache.policy->appends ? param_ways : 0;
	excache.nr_sets = (uint32_t)(pages / param_ways);
	excache.nr_spare = param_spare;
	excache.nr_lines = (uint64_t)excache.nr_sets * excache.nr_ways + excache.nr_spare;
	return 0;
}

static int alloc_tables(void)
{
	struct frame *frames = frame_alloc_contig(excache.nr_lines, 512);

	excache.lines = vmalloc(excache.nr_lines * sizeof(struct line));
	excache.sets = vmalloc((uint64_t)excache.nr_sets * sizeof(struct cache_set));
	if (!frames || !excache.lines || !excache.sets) {
		pr_err("excache=%llu: not enough memory, %llu bytes are free\n",
		       (unsigned long long)excache.nr_lines << PAGE_SHIFT,
		       (unsigned long long)frames_free_count() << PAGE_SHIFT);
		return -ENOMEM;
	}
	excache.base = frame_to_paddr(frames);
	excache.data = frame_to_virt(frames);
	return 0;
}

int excache_init(const struct excache_ops *ops)
{
	int err = choose_geometry();

	excache.ops = ops;

	if (!err)
		err = alloc_tables();
	if (!err)
		err = object_init_queue();
	if (err)
		return err;
	/* Memory nodes alone fill lines and take them back. */
	excache.mem = rpc_mem_register(excache.base, excache.nr_lines << PAGE_SHIFT,
				       RPC_ROLE(NODE_ROLE_MEMORY), RPC_ROLE(NODE_ROLE_MEMORY));
	if (IS_ERR(excache.mem)) {
		pr_err("cannot register %llu lines\n", (unsigned long long)excache.nr_lines);
		return PTR_ERR(excache.mem);
	}
	spin_lock_init(&excache.free_lock, "excache.free", RANK_EXCACHE_FREE);
	list_init(&excache.free);
	waitqueue_init(&excache.freed);
	waitqueue_init(&excache.quiet);
	for (uint32_t i = 0; i < excache.nr_sets; i++) {
		struct cache_set *set = &excache.sets[i];

		memset(set, 0, sizeof(*set));
		spin_lock_init(&set->lock, "excache.set", RANK_EXCACHE_SET);
		list_init(&set->resident);
		list_init(&set->inflight);
		waitqueue_init(&set->changed);
	}
	policy_start();
	memset(excache.lines, 0, excache.nr_lines * sizeof(struct line));
	for (uint64_t i = excache.nr_lines; i-- > 0;) {
		list_init(&excache.lines[i].maps);
		line_free_give(&excache.lines[i]);
	}
	excache.least_free = excache.nr_lines;
	/* The model writes guest memory behind the emulator's back: see docs/design/excache.md. */
	frame_rewrite_quirk_set(cpu_is_tcg());
	pr_info("%u sets of %u lines and %u spare, %llu KiB, policy %s\n", excache.nr_sets,
		excache.nr_ways, excache.nr_spare, (unsigned long long)excache.nr_lines * 4,
		excache.policy->name);
	err = file_dirty_init();
	if (!err)
		err = late_init();
	if (!err)
		err = object_ends_init();
	if (!err)
		err = shrink_init();
	if (!err)
		err = destroy_init();
	if (!err)
		err = credit_init();
	if (!err)
		err = writeback_init();
	return err ? err : reclaim_init();
}
