/* SPDX-License-Identifier: MIT */
/*
 * Extents: the pool's frames in pieces of one use, so that storage nodes can be given the frames of
 * files and no others, and a processor those of its own programs and no others.
 *
 * Each extent is a piece of physically contiguous frames. A FREE one is nobody's and can be had for
 * either use at once. An ANON one has pages of programs; no other node can write into it. A FILE
 * one has pages of files and is a region that storage nodes write (pool_ops.open); it is FREE
 * again when its last page has gone and the region has been revoked (close). A LENT one has pages
 * of one processor's programs, and is a region that this processor may read (lend). It stays lent,
 * with what is free in it, until it is taken back: then it is ANON with the pages that it has.
 * CHANGING is in between: a region is being made or revoked, and no frame is taken from it.
 *
 *	        first frame taken                     open
 *	ANON <-------------------- FREE --> CHANGING ------> FILE
 *	 ^ |                       ^ ^         | ^            |
 *	 | +--- last frame freed --+ +- close -+ +---empty----+
 *	 |                                     |
 *	 +-- take_back -- CHANGING <-- LENT <--+ lend
 *
 * Invariants:	capacity is the frames of FREE and ANON extents and the used ones of those that are
 *		lent, and used + reserved + zeroing <= capacity: the frame that a credit stands for
 *		is free, in an extent where no file is and that is nobody's, and waits neither for
 *		storage nor for a command to the device. So what is free in a LENT extent is worth
 *		no credit: its processor takes it first, and others have it when it is taken back.
 *		A region is
 *		revoked before one of its frames gets another use: a late write of a storage node,
 *		and a late read of a processor, is refused by the device. Before an extent is lent
 *		all of it is zeroed.
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
struct pool_account;
struct rpc_mem;

enum extent_use {
	EXTENT_FREE,
	EXTENT_ANON,
	EXTENT_FILE,
	EXTENT_LENT,
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
	struct rpc_mem *mem; /* FILE: what storage nodes write, its pages hold it; LENT: read */
	uint32_t proc;       /* pool.lock: whose it is, from CHANGING to LENT until it is ANON */
	/* atomic: (number << 32 | key), by which its processor reads it while it is LENT; or 0 */
	uint64_t place;
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
	/* Optional: @e->proc may read @e from now on, by *@key, which is not 0.  Sleeps. */
	int (*lend)(void *arg, struct extent *e, uint32_t *key) __must_check;
	/* It may not any more.  Sleeps. */
	void (*take_back)(void *arg, struct extent *e);
	/*
	 * Have @proc forget its places in extent number @number, with @below in all with lower
	 * numbers as well. 0: it has. Sleeps, for a second at most.
	 */
	int (*revoke)(void *arg, uint32_t proc, uint32_t number, bool below) __must_check;
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
/* The same from an extent that is lent to the processor of @account. */
struct mpage *extent_take_lent_locked(struct pool *pool, struct pool_account *account);
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
 * Take all extents back that are lent to @proc, before pages of it go that it has not given up:
 * their frames may get other contents then.  With @ask it forgets its places first, unless it has
 * not answered when it was asked last: the device refuses its reads. Sleeps.
 */
void extents_recall(struct pool *pool, uint32_t proc, bool ask);
/*
 * The same without waiting for @proc, which is not gone: the device refuses its reads when this
 * returns. It gets no extent until extents_refuse_end(), after which extents_change() has all such
 * processors forget their places first. One thread at a time. Sleeps for the device.
 */
void extents_refuse(struct pool *pool, uint32_t proc);
void extents_refuse_end(struct pool *pool);
/*
 * The next extents_change() takes all extents back.  Where a thread does that it is woken.
 */
void extents_recall_all(struct pool *pool);
/*
 * For how many ns extents_change() has tried in vain to empty an extent for programs, as pages of
 * all were in use. 0: one was emptied since, or nobody has tried of late. Any context but
 * interrupts.
 */
uint64_t extents_stuck_ns(struct pool *pool);
