/* SPDX-License-Identifier: MIT */
/*
 * ExCache: the processor's DRAM as a set-associative virtual cache of 4 KiB lines.
 *
 * Flow:	excache_get() finds or fills a line and pins it; excache_map() enters it into a
 *		page table; excache_put() unpins.  Only an unpinned VALID line is evicted.  A line
 *		goes FREE -> FILLING -> VALID -> (FREE | WRITEBACK -> FREE); a fill that timed out
 *		leaves its frame in QUARANTINE until no late reply can land in it. Reclaim writes a
 *		VALID line back where it is: VALID -> CLEANING -> VALID.
 * Invariants:	nr_sets sets have nr_ways resident lines each, and there are nr_spare lines more:
 *		a line that is being written back keeps its frame (and its data) until the owner
 *		has acknowledged it, while the frame of its successor already fills.  A frame has
 *		one struct line for ever; its set follows from its tag.
 * Locking:	a set's lock (RANK_EXCACHE_SET) guards the tags, states, pins and mappings of the
 *		lines in it; inside it: object.lock, aspace.lock, the free list, the write-back
 *		queue.  No lock is held across an RPC.
 * Ordering:	a PTE is removed and the TLB flushed before a line's data is sent or its frame
 *		reused.
 * See:		docs/design/excache.md
 */
#pragma once

#include <kernel/wait.h>
#include <lib/compiler.h>
#include <net/rpc.h>

#include "object.h"

struct aspace;
struct layout_seq;

enum line_state {
	LINE_FREE,
	LINE_FILLING,
	LINE_VALID,
	LINE_WRITEBACK,  /* unmapped; data must reach the owner before the frame is reused */
	LINE_CLEANING,   /* as VALID, but not to be evicted: its data is on the way to the owner */
	LINE_QUARANTINE, /* no tag; the fabric may still write into the frame */
};

enum line_flags {
	LINE_DIRTY = 1 << 0,
	LINE_PLOCAL = 1 << 1, /* the owner does not know this page; a frame credit is held for it */
	LINE_EXEC_OK = 1 << 2,  /* safe to execute: see frame_rewrite_for_exec() */
	LINE_PREFETCH = 1 << 3, /* filled ahead, not asked for yet */
	LINE_IDLE = 1 << 4,     /* CLOCK: not asked for since the hand passed */
	LINE_SETTLED = 1 << 5,  /* DRRIP: what has used it since is not the access that missed */
	LINE_CHOSEN = 1 << 6,   /* reclaim is to evict it: the set has one line too many */
	LINE_CLEANED = 1 << 7,  /* reclaim has written it back since it was filled: not again */
};

#define LINE_AGE_NEW 2 /* of a line in a set with room */

/* One place where a line is mapped. */
struct line_map {
	struct list_head link;
	struct aspace *as;
	vaddr_t vaddr;
};

struct line {
	struct object *obj;   /* set lock; NULL when FREE or QUARANTINE */
	uint64_t pgoff;       /* set lock */
	uint8_t state;        /* set lock: enum line_state */
	uint8_t flags;        /* set lock */
	uint16_t nr_maps;     /* set lock */
	uint32_t pins;        /* set lock */
	uint32_t credit_node; /* set lock: node that reserved a frame for a LINE_PLOCAL line */
	uint32_t set;         /* which set it is or was in; valid while the line has mappings */
	uint8_t age;          /* set lock: DRRIP, 0 to 3: how far away the next use is */
	/* set lock, and the object's: enum file_dirty_flags; of a file that changes, else 0 */
	uint8_t file_dirty;
	struct line_map first_map; /* set lock: used when first_map.as is not NULL */
	struct list_head maps;     /* set lock: the others */
	struct list_head set_link; /* set lock; free list lock when FREE */
	struct list_head obj_link; /* object lock */
	/* write-back queue lock; of a file's line: in object.dirty, object lock */
	struct list_head wb_link;
	/* of the write-back under way; of a file's line: when it was marked, object lock */
	uint64_t seq;
};

enum excache_how {
	EXCACHE_FETCH, /* fill from the owner, or from the memory node's page cache */
	EXCACHE_ZERO,  /* anonymous, never stored: zeroes, no message; takes a frame credit */
	/* anonymous, never stored: the caller writes it all, then excache_publish() */
	EXCACHE_COPY,
	/* a file that changes, behind the end that its memory node knows: zeroes, no message */
	EXCACHE_BLANK,
	EXCACHE_FIND, /* only if it is there already: else -ENOENT */
};

/* Functions of the layers above, for the cache to call. */
struct excache_ops {
	/* The memory node that becomes the home of new space @id; 0: there is none. */
	uint32_t (*space_home)(uint64_t id);
	/* The node that has @file in its page cache. */
	uint32_t (*file_node)(const struct file_id *file);
	/* The last reference of @obj, which has a backing object, is gone: see anon_unchain(). */
	struct object *(*unchain)(struct object *obj, struct anon_collapse *collapse);
	/* Consumes what unchain() left in @collapse; sleeps. */
	void (*collapse_soon)(const struct anon_collapse *collapse);
	/* A part of @obj, which was at @node (0: not known), is lost. Once; polling context. */
	void (*failed)(struct object *obj, int error, uint32_t node);
};

/* Once at start: reserves and registers the frames. Geometry by boot parameters excache*. */
int excache_init(const struct excache_ops *ops) __must_check;

/*
 * The line of (@obj, @pgoff), VALID and pinned.  May sleep.  A thread that has a line pinned must
 * not fault on user memory: see kernel/pins.h.
 * -ENOMEM no frame credit is left; -EFAULT, -EACCES the owner knows no such page; -ENODATA an
 * EXCACHE_FETCH of a private file page that was never stored: use the file's page; -EIO behind
 * the end of a file or a disk error; -EHOSTDOWN, -ETIMEDOUT, -ESTALE the owner cannot be reached;
 * -EINTR the calling thread is to be killed.
 */
int excache_get(struct object *obj, uint64_t pgoff, enum excache_how how, struct line **out)
	__must_check;
/*
 * The same for a fault that read the layout of @as (NULL: what there is of the shared object) at
 * @seq: a new line is only made while the layout is the same and, for EXCACHE_ZERO and
 * EXCACHE_COPY, the page was not stored meanwhile. Else -EAGAIN: begin again.
 */
int excache_get_at(struct object *obj, uint64_t pgoff, enum excache_how how, struct aspace *as,
		   uint64_t seq, struct line **out) __must_check;
/*
 * First touch, inside a fault of @as that read the layout at @seq and whose space has nothing
 * behind its top: a p-local line of zeroes for @vaddr, mapped with @prot. Never sleeps. False: the
 * page is there already, or something is not at hand (a credit, a free frame, room in the set), or
 * the layout has changed: take the slow path.
 */
bool excache_touch(struct aspace *as, vaddr_t vaddr, uint32_t prot, uint64_t seq) __must_check;
/*
 * May a line be made by a fault that read the layout of @as at @seq?  Not after a change of the
 * layout.  @copy: of a page that may be mapped read-only; faults that are about to map it so begin
 * again.
 */
bool layout_is_at(struct aspace *as, uint64_t seq, bool copy);
/* Did excache_get(EXCACHE_COPY) find a line that is there already? */
bool excache_is_valid(const struct line *line);
/* An EXCACHE_COPY line has its contents: it becomes VALID and dirty, still pinned. */
void excache_publish(struct line *line);
/* The contents of an EXCACHE_COPY line cannot be had: it is dropped, with the pin. */
void excache_abandon(struct line *line, int error);
void excache_put(struct line *line);

void *line_data(const struct line *line);
paddr_t line_paddr(const struct line *line);
/* The line of a frame that a page table entry names. */
struct line *line_of_paddr(paddr_t paddr);
/* Written through the kernel's mapping; the caller holds a pin. */
void line_mark_dirty(struct line *line);

/*
 * Pages [@first, @end) of @obj go away: mappings are removed and flushed, fills and write-backs
 * under way are waited for, contents are forgotten. The caller has blocked new faults on the
 * range.
 */
void excache_drop(struct object *obj, uint64_t first, uint64_t end);
/* -EINTR: the thread is to be killed, and some of the lines may be left. */
int excache_drop_killable(struct object *obj, uint64_t first, uint64_t end) __must_check;
/* The same, but lines stay into which programs may have stored: file_dirty.h. */
int excache_drop_clean(struct object *obj, uint64_t first, uint64_t end) __must_check;
/*
 * The same of the top of @as, whose page table lives as long as the call: its TLB flushes are made
 * for many at once.
 */
void excache_drop_top(struct aspace *as, uint64_t first, uint64_t end);
/*
 * The same, but dirty contents reach the owner first. 0, or the first error of a write-back.
 * -EINTR: the thread is to be killed; nothing is lost, and write-backs that have begun go on.
 */
int excache_flush(struct object *obj, uint64_t first, uint64_t end) __must_check;

/*
 * Pages [@first, @end) of the top of @as are about to go away, if the home agrees. Until
 * excache_keep_end() none of their lines leaves the cache, and when excache_keep() returns none is
 * being filled or written back: so whatever the home answers nothing is lost here, and no owner
 * hears of a page of the range while it unmaps it. The caller has map_lock and has blocked new
 * faults on the range; one range of a space at a time. Sleeps. 0, or -EINTR: the thread is to be
 * killed and does not know that the lines are quiet; excache_keep_end() is due all the same.
 */
int excache_keep(struct aspace *as, uint64_t first, uint64_t end) __must_check;
void excache_keep_end(struct aspace *as);

/*
 * Merging two objects of one chain (mm/anon.c): no line of a held object is written back, and when
 * excache_hold() returns no write-back is under way.  Sleeps.
 */
void excache_hold(struct object *obj);
/* The same if no write-back is under way, else false. Never waits. */
bool excache_try_hold(struct object *obj) __must_check;
void excache_release(struct object *obj);
/*
 * Lines of @from become @to's, whose own lines of these pages are dropped. Both are held, no fault
 * of either is under way, and the owners' pages of @to are what to->stored says.
 */
void excache_retag(struct object *from, struct object *to);

/*
 * Enter the pinned @line at @vaddr with @prot, unless the layout has changed since @seq, or, if
 * seq->cow is not COW_ANY, a page was copied: -EAGAIN.  -ENOMEM.
 */
int excache_map(struct aspace *as, vaddr_t vaddr, struct line *line, uint32_t prot,
		const struct layout_seq *seq) __must_check;
/* Remove the mapping of @line at (@as, @vaddr), as the caller saw it in a page table. */
void excache_unmap_pte(struct aspace *as, vaddr_t vaddr, paddr_t paddr);

/* A number that no write-back has yet: newer than all before it. */
uint64_t writeback_next_seq(void);

uint64_t excache_line_count(void);
uint64_t excache_free_count(void);
