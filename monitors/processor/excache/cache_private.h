/* SPDX-License-Identifier: MIT */
/*
 * ExCache internals, shared by the files of this folder.  See "excache.h" for the rules.
 */
#pragma once

#include <arch/barrier.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/list.h>
#include <processor/mm/aspace.h>

#include "excache.h"

struct cache_set {
	struct spinlock lock; /* RANK_EXCACHE_SET */
	uint32_t nr_resident __guarded_by(&lock);
	struct list_head
		resident __guarded_by(&lock); /* FILLING and VALID; in the policy's order */
	struct list_head inflight __guarded_by(&lock); /* WRITEBACK */
	/* atomic: grows, under the lock, when a line's state or last pin changes */
	uint64_t gen;
	uint32_t nr_file_dirty __guarded_by(&lock); /* lines with line.file_dirty */
	uint8_t duel;                               /* const: enum duel_side */
	bool noted;                    /* atomic: in the list of sets that reclaim is to look at */
	struct list_head reclaim_link; /* reclaim.c */
	struct waitqueue changed;
};

/* DRRIP: which insertion a set tries out. */
enum duel_side {
	DUEL_FOLLOWS, /* the one that misses less */
	DUEL_STATIC,
	DUEL_BIMODAL,
};

struct excache {
	struct line *lines;                  /* const */
	struct cache_set *sets;              /* const */
	uint64_t nr_lines;                   /* const: nr_sets * nr_ways + nr_spare */
	uint32_t nr_sets;                    /* const */
	uint32_t nr_ways;                    /* const */
	uint32_t nr_spare;                   /* const */
	paddr_t base;                        /* const: frame of lines[0] */
	uint8_t *data;                       /* const: its kernel address */
	struct rpc_mem *mem;                 /* const */
	const struct excache_ops *ops;       /* const */
	const struct excache_policy *policy; /* const */
	uint32_t touch_ways; /* const: nr_ways if the policy appends; 0: first touches are slow */

	struct spinlock free_lock; /* RANK_EXCACHE_FREE */
	struct list_head free __guarded_by(&free_lock);
	uint64_t nr_free;    /* atomic; changed under free_lock */
	uint64_t least_free; /* that nr_free has been; the same */
	uint64_t
		/* atomic: objects whose lines may be evicted again, excache_release() */
		nr_releases;
	struct waitqueue freed;
	struct waitqueue quiet; /* an object that is held has no write-back any more */
};
extern struct excache excache;

/*
 * A replacement policy: which lines are in set->resident is as the cache says, their order is the
 * policy's.  All with the set's lock held.
 */
struct excache_policy {
	const char *name; /* as excache.policy says it */
	/*
	 * insert() of a line in a set with room does no more than list_add_tail(): the first touch
	 * makes no call then (touch_ways).
	 */
	bool appends;
	/* @line, which has a tag of @set now, comes into the list. */
	void (*insert)(struct cache_set *set, struct line *line);
	/* A thread asked for @line and found it. */
	void (*touch)(struct cache_set *set, struct line *line);
	/*
	 * A VALID line of @set without pins that @may_go() accepts: it asks of no line behind that
	 * one.  NULL: none.
	 */
	struct line *(*victim)(struct cache_set *set, bool (*may_go)(struct line *line));
	/*
	 * Up to @max VALID lines without pins that will be evicted before the others, the first one
	 * first, as far as one can tell without a look at accessed bits. How many.
	 */
	size_t (*next)(const struct cache_set *set, struct line **lines, size_t max);
	/* @line, whatever its state, leaves the list. */
	void (*forget)(struct cache_set *set, struct line *line);
	/* Optional: @line, just inserted, is fetched ahead: nobody has asked for it. */
	void (*ahead)(struct cache_set *set, struct line *line);
	/* Optional, and without locks: a thread is about to fill @line and then to use it. */
	void (*entered)(struct line *line);
};

/* The sets are there: choose those that try something out. */
void policy_start(void);
/* NULL: there is none of that name. */
const struct excache_policy *policy_find(const char *name);

COUNTER_DECLARE(excache_miss);
COUNTER_DECLARE(excache_plocal);
COUNTER_DECLARE(excache_fetch);
COUNTER_DECLARE(excache_file_fetch);
COUNTER_DECLARE(excache_prefetched);
COUNTER_DECLARE(excache_evict_clean);
COUNTER_DECLARE(excache_evict_dirty);
COUNTER_DECLARE(excache_piggyback);
COUNTER_DECLARE(excache_writeback);
COUNTER_DECLARE(excache_lost);

/* --- excache.c: sets and the free list ----------------------------------------------- */

/* From the first frame to the line's. */
static inline uint64_t line_offset(const struct line *line)
{
	return (uint64_t)(line - excache.lines) << PAGE_SHIFT;
}

/* The only place where a line's state changes. */
static inline void line_set_state(struct line *line, enum line_state next)
{
	/* A claimed frame is FREE, or still VALID if it was just evicted; it may go back unused. */
	static const uint8_t legal[] = {
		[LINE_FREE] = 1u << LINE_FREE | 1u << LINE_FILLING,
		[LINE_FILLING] = 1u << LINE_VALID | 1u << LINE_FREE | 1u << LINE_QUARANTINE,
		[LINE_VALID] = 1u << LINE_WRITEBACK | 1u << LINE_FREE | 1u << LINE_FILLING |
			       1u << LINE_CLEANING,
		[LINE_CLEANING] = 1u << LINE_VALID,
		[LINE_WRITEBACK] = 1u << LINE_FREE,
		[LINE_QUARANTINE] = 1u << LINE_FREE,
	};

	ASSERT(legal[line->state] & (1u << next));
	/* Contents first: fault-around reads the state without the set's lock. */
	__atomic_store_n(&line->state, (uint8_t)next, __ATOMIC_RELEASE);
}

/* May it be found, mapped, read and written? */
static inline bool line_state_is_readable(uint8_t state)
{
	return state == LINE_VALID || state == LINE_CLEANING;
}

/* Is it evictable but for what its object says? */
static inline bool line_is_idle(const struct line *line)
{
	return line->state == LINE_VALID && line->pins == 0;
}

static inline struct cache_set *set_of_line(const struct line *line)
{
	return &excache.sets[READ_ONCE(line->set)];
}

static inline uint32_t set_index(const struct object *obj, uint64_t pgoff)
{
	/* Neighbouring pages go to neighbouring sets, so an array fills the cache evenly. */
	return (uint32_t)((obj->seed + pgoff) % excache.nr_sets);
}
struct line *set_find_locked(struct cache_set *set, const struct object *obj, uint64_t pgoff)
	__must_hold(&set->lock);
/* Wake threads that wait for a line of this set. */
static inline void set_changed_locked(struct cache_set *set) __must_hold(&set->lock)
{
	__atomic_store_n(&set->gen, set->gen + 1, __ATOMIC_RELEASE);
	smp_mb(); /* the state, then the look for waiters: see waitqueue_busy_mb() */
	if (unlikely(waitqueue_busy_mb(&set->changed)))
		wake_all(&set->changed);
	if (unlikely(waitqueue_busy_mb(&excache.freed)))
		wake_all(&excache.freed);
}
/* Sleep until the set has changed since @gen. -EINTR if @killable: the thread is to be killed. */
int set_wait(struct cache_set *set, uint64_t gen, bool killable);

/* Free list. */
static inline struct line *line_free_take(void)
{
	struct line *line;

	spin_lock(&excache.free_lock);
	line = list_first_entry_or_null(&excache.free, struct line, set_link);
	if (line) {
		list_del(&line->set_link);
		__atomic_store_n(&excache.nr_free, excache.nr_free - 1, __ATOMIC_RELAXED);
		if (unlikely(excache.nr_free < excache.least_free))
			__atomic_store_n(&excache.least_free, excache.nr_free, __ATOMIC_RELAXED);
	}
	spin_unlock(&excache.free_lock);
	return line;
}
void line_free_give(struct line *line);
/* Many, linked by set_link. */
void line_free_give_all(struct list_head *lines);

/* Lines may be evicted again: wake threads that found none that may. */
static inline void releases_wake(void)
{
	__atomic_add_fetch(&excache.nr_releases, 1, __ATOMIC_RELEASE);
	wake_all(&excache.freed);
}

struct tag { /* for a new line */
	struct object *obj;
	uint64_t pgoff;
	struct aspace *as; /* whose layout it is that @seq was read from; NULL: object.seq */
	uint64_t seq;      /* of the layout, or SEQ_ANY: see excache_get_at() */
	bool fresh;        /* EXCACHE_ZERO, EXCACHE_COPY */
	bool copy;         /* EXCACHE_COPY */
	bool ahead;        /* ahead_fetch(): only if it is stored */
};

/* --- object.c ------------------------------------------------------------------------ */

static inline uint64_t vregion_of(const struct object *obj, uint64_t pgoff)
{
	return (pgoff << PAGE_SHIFT) / obj->vregion_size;
}

/* An entry stays where it is for as long as the object lives. */
static inline struct vregion *vregion_locked(struct object *obj, uint64_t index)
	__must_hold(&obj->lock)
{
	if (unlikely(!obj->near || obj->near_index != index)) {
		obj->near = radix_lookup(&obj->vregions, index);
		obj->near_index = index;
	}
	return obj->near;
}

/* --- excache.c: tags ----------------------------------------------------------------- */

/*
 * Give @line, for a page that is fetched ahead, the tag and the state FILLING in @set, without a
 * pin. False: begin again.
 */
bool line_attach_ahead_locked(struct cache_set *set, struct line *line, const struct tag *tag)
	__must_hold(&set->lock);
/* The parts of it.  @line is one of @obj's, ... */
static inline void line_enter_object_locked(struct object *obj, struct line *line, uint64_t pgoff)
	__must_hold(&obj->lock)
{
	list_add_tail(&line->obj_link, &obj->lines);
	obj->nr_lines++;
	line->pgoff = pgoff;                /* read under obj->lock by those who walk the list */
	line_set_state(line, LINE_FILLING); /* and this by those who look at a file's windows */
}

/* ... and of @set, whose policy lists it. */
static inline void line_enter_set_locked(struct cache_set *set, struct line *line,
					 struct object *obj, uint8_t flags, uint32_t pins)
	__must_hold(&set->lock)
{
	assert_spin_held(&set->lock);
	line->obj = obj;
	line->set = (uint32_t)(set - excache.sets);
	line->flags = flags;
	line->pins = pins;
	line->age = LINE_AGE_NEW;
	set->nr_resident++;
}

/*
 * Take the tag away; gives back a credit that the line holds unless it was used up. The caller
 * frees or quarantines the line, after it has dropped the lock, and puts the returned object, if
 * it is one.
 */
struct object *line_detach_locked(struct cache_set *set, struct line *line) __must_hold(&set->lock);

/* The fill of @line, pinned once by us, is over. 0: VALID and still pinned; else it is dropped. */
void fill_done(struct line *line, int error);

/* --- evict.c ------------------------------------------------------------------------- */

struct claim {                   /* Result of claim_locked(). */
	struct line *line;       /* to be filled; NULL: there is none at the moment */
	struct line *victims[2]; /* dirty lines that must be written back, or NULL */
	struct object *puts[2];  /* references to give back */
	uint32_t nr_victims, nr_puts;
	bool ahead; /* get_locked(): the page was fetched ahead, and is asked for the first time */
};

/*
 * A frame for @set; one that is not in @demand neither makes the set grow nor starts a write-back
 * for it.
 */
void claim_locked(struct cache_set *set, struct claim *c, bool demand) __must_hold(&set->lock);
/* No lock held: queue the victims but the first @nr_kept, put the objects. */
void claim_finish(struct claim *c, uint32_t nr_kept);
/* May the line of page @pgoff leave the cache by itself?  If so a write-back of @obj is counted. */
bool writeback_begin(struct object *obj, uint64_t pgoff);
/* @line, unmapped, becomes WRITEBACK; writeback_begin() was true. */
void start_writeback_locked(struct cache_set *set, struct line *line) __must_hold(&set->lock);
/* The line of @set that goes next, for which writeback_begin() was true; NULL: none may. */
struct line *victim_locked(struct cache_set *set) __must_hold(&set->lock);

/* --- map.c --------------------------------------------------------------------------- */

/* Was @line used through a page table since the last call?  Does not flush. */
bool line_clear_accessed_locked(struct cache_set *set, struct line *line) __must_hold(&set->lock);
/* Remove every mapping of @line, flush, and note whether it was written. */
void line_unmap_all_locked(struct line *line);
/* Was it written since it was last stored? */
bool line_is_dirty_locked(const struct line *line);

/*
 * Changes of page tables that are flushed together. From the first one to tlb_gather_flush() the
 * caller holds reclaim's mutex, so that the page tables stay: see reclaim_barrier().
 */
#define GATHER_SPACES 8
struct tlb_gather {
	unsigned int nr;
	struct tlb_batch tlb[GATHER_SPACES];
};
/* Remove every mapping of @line and note whether it was written; flushed later. */
void line_unmap_gather_locked(struct line *line, struct tlb_gather *g);
/*
 * Clear all dirty marks of @line: was it dirty? What is stored before the flush is part of what
 * the line holds at the flush; what is stored afterwards makes it dirty again.
 */
bool line_clean_gather_locked(struct line *line, struct tlb_gather *g);
void tlb_gather_flush(struct tlb_gather *g);
/*
 * Enter the first mapping of @line. False: something is mapped there, no memory, or the layout is
 * not at @seq.
 */
bool line_map_first_locked(struct line *line, struct aspace *as, vaddr_t vaddr, uint32_t prot,
			   uint64_t seq);

/* Take the right to write from every mapping of @line, and flush: clean from then on. */
void line_write_protect_locked(struct line *line);

/* --- file_dirty.c --------------------------------------------------------------------- */

enum file_dirty_flags {
	FILE_DIRTY = 1 << 0,   /* mapped for writing since it was copied: in object.dirty */
	FILE_WRITING = 1 << 1, /* its copy is on the way to the memory node */
};
/* @line loses its tag, and what was stored into it is forgotten. object.lock is held. */
void file_dirty_forget_locked(struct cache_set *set, struct line *line) __must_hold(&set->lock);

/* --- fill.c -------------------------------------------------------------------------- */

/* Take the tag off a FILLING line; the frame is in quarantine. */
void line_untag(struct line *line);
int fill_anon(struct object *obj, uint64_t pgoff, struct line *line, struct line *victim);
/* -EREMCHG: the node that has the file is gone, and another has taken its place. */
int fill_file(struct object *obj, uint64_t pgoff, struct line *line);
/*
 * Start filling up to @nr file pages from @pgoff, up to the first that is there. Never sleeps
 * long.
 */
void fill_ahead(struct object *obj, uint64_t pgoff, unsigned int nr);

/* --- around.c: which lines a file has, by window ------------------------------------- */

/*
 * Page @line->pgoff of @file has @line, or has it no more: then no space maps it around.
 * object.lock is held.
 */
void window_add_locked(struct object *file, struct line *line) __must_hold(&file->lock);
void window_remove_locked(struct object *file, struct line *line) __must_hold(&file->lock);
/* Was the page used through an entry that fault-around made?  Clears the accessed bits. */
bool window_clear_accessed(struct object *file, struct line *line);
/* Is the page mapped through an entry that fault-around made? */
bool window_is_mapped(struct object *file, const struct line *line);
/* The last reference of @file is gone. */
void windows_destroy(struct object *file);

/* --- destroy.c ----------------------------------------------------------------------- */

/* Names of spaces that ended, until their homes know.  Allocated with the space. */
struct deferred_destroy;
struct deferred_destroy *destroy_alloc(uint32_t home); /* NULL: no memory */
/* The space gets another home, as it is known at none. -ENOMEM. */
int destroy_set_home(struct deferred_destroy *r, uint32_t home) __must_check;
void destroy_free(struct deferred_destroy *r);
/* Takes @r over; @now: owners hold pages of it.  Never sleeps. */
void destroy_defer(struct deferred_destroy *r, uint64_t id, bool now);
int destroy_init(void);

/* writeback.c: @line is WRITEBACK or CLEANING; when its owner has it, it becomes FREE or VALID. */
int writeback_init(void);
void writeback_queue(struct line *line);
/* Many, linked by wb_link, so that they share messages. */
void writeback_queue_all(struct list_head *lines);
/* @place: as for object_set_stored(), which is done if it is @stored. */
void writeback_finish(struct line *line, bool stored, uint64_t place);
/*
 * @line goes to @owner: if it is p-local, let its credit be one of @owner, as vRegions move. False:
 * none is in hand. @may_ask: sleep for one, and if there is none go without.
 */
bool writeback_credit(struct line *line, uint32_t owner, bool may_ask);
