/* SPDX-License-Identifier: MIT */
/*
 * Extents: the pool's frames in pieces of one use, so that storage nodes can be given the frames of
 * files and no others.
 *
 * Each extent is a piece of physically contiguous frames. A FREE one is nobody's and can be had for
 * either use at once. An ANON one has pages of programs; no other node can write into it. A FILE
 * one has pages of files and is a region that storage nodes write (pool_ops.open); it is FREE
 * again when its last page has gone and the region has been revoked (close). CHANGING is between
 * FREE and FILE: the region is being made or revoked, and no frame is taken from it.
 *
 *	        first frame taken                     open
 *	ANON <-------------------- FREE --> CHANGING ------> FILE
 *	  |                        ^ ^         | ^            |
 *	  +--- last frame freed ---+ +- close -+ +---empty----+
 *
 * Invariants:	capacity is the frames of FREE and ANON extents, and used + reserved + zeroing <=
 *		capacity: the frame that a credit stands for is free, in an extent where no file
 *		is, and waits neither for storage nor for a command to the device. A region is
 *		revoked before one of its frames gets another use: a late write of a storage node
 *		is refused by the device.
 * Context:	extents_change() sleeps; one thread calls it ahead of need, so that neither a miss
 *		nor the end of a mapping or a program waits for it.
 * Locking:	pool.lock guards the lists and counts; a CHANGING extent is its changer's.
 * Failure:	if no region can be made the extent stays FREE; programs use it. A page that is read
 *		or sent for ever keeps its extent for files: extents_stuck_ns() tells, and relief.c
 *		stops waiting.
 * See:		docs/design/memory.md, "Extents"
 */
#pragma once

#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct mpage;
struct pool;
struct rpc_mem;

enum extent_use {
	EXTENT_FREE,
	EXTENT_ANON,
	EXTENT_FILE,
	EXTENT_CHANGING,
	EXTENT_USES,
};

struct extent {
	/* with others of its use that have free frames: pool.lock */
	struct list_head link;
	struct list_head zero, dirty; /* its free frames: pool.lock */
	struct mpage *first;          /* const */
	paddr_t paddr;                /* const */
	uint32_t nr_pages;            /* const */
	uint32_t nr_free;             /* pool.lock: frames on the two lists */
	uint32_t nr_reading;          /* pool.lock: MPAGE_READING frames */
	uint8_t use;                  /* enum extent_use; pool.lock */
	bool stuck;                   /* pool.lock: it could not be emptied when tried last */
	struct rpc_mem *mem;          /* FILE: what storage nodes write; its pages hold it */
};

/* Done by the instance for its pool. */
struct pool_ops {
	/* Give up one clean file page; false when there is none. */
	bool (*reclaim)(void *arg);
	/* Storage nodes may write @e from now on.  Sleeps. */
	int (*open)(void *arg, struct extent *e) __must_check;
	/* No node may any more: what comes late is refused when this returns.  Sleeps. */
	void (*close)(void *arg, struct extent *e);
	/* Give up the pages of files among @nr from @first that are not in use. */
	void (*empty)(void *arg, struct mpage *first, uint64_t nr);
	/* The page of a file that would be given up next; it may be gone. NULL: there is none. */
	struct mpage *(*oldest)(void *arg);
};

enum extent_result {
	EXTENTS_CHANGED, /* one has another use */
	EXTENTS_STUCK,   /* pages of the chosen one are in use: others may be had */
	EXTENTS_NOTHING, /* nothing is wanted, or nothing can be done now */
};

/* How many frames programs should find at once; extents are changed ahead to have them. */
struct extent_need {
	uint64_t anon; /* free frames that no credit stands for */
	uint64_t file; /* free frames in FILE extents */
};

/*
 * The size of an extent in frames, a power of two: @want, or as much smaller or larger as @total
 * frames need to be neither too few extents nor too many for the device.
 */
uint64_t extent_pages_for(uint64_t want, uint64_t total);
/* Cut the pool's runs; all extents are FREE. -ENOMEM. */
int extents_init(struct pool *pool, uint64_t extent_pages) __must_check;
void extents_destroy(struct pool *pool);

struct extent *extent_of(const struct pool *pool, const struct mpage *page);

/* Take a free frame for a page of a program (@file: of a file); NULL: there is none for it. */
struct mpage *extent_take_locked(struct pool *pool, bool file);
/* @page is free again. */
void extent_give_locked(struct pool *pool, struct mpage *page);
/* Is there a dirty frame to be zeroed, and one to spare while it is? */
bool extent_can_zero_locked(const struct pool *pool);
/* Take it off its list, or NULL. */
struct mpage *extent_zero_begin_locked(struct pool *pool);
void extent_zero_end_locked(struct pool *pool, struct mpage *page);

/* Would extents_change() with what the pool keeps ahead (pool.ahead) do something? */
bool extents_want_change(struct pool *pool);
bool extents_want_change_locked(const struct pool *pool);
/* One change towards @need (NULL: what the pool keeps ahead).  Sleeps if the ops do. */
enum extent_result extents_change(struct pool *pool, const struct extent_need *need);
/*
 * For how many ns extents_change() has tried in vain to empty an extent for programs, as pages of
 * all were in use. 0: one was emptied since, or nobody has tried of late. Any context but
 * interrupts.
 */
uint64_t extents_stuck_ns(struct pool *pool);
