/* SPDX-License-Identifier: MIT */
/*
 * The frames of a memory monitor: which are free, and which processor may have how many.
 *
 * Frames come in runs that were set aside and registered at boot. Each has a struct mpage. A frame
 * is free, holds a page of a program (MPAGE_ANON), or holds a page of a file (MPAGE_FILE). The two
 * kinds lie in extents of their own (extent.h). A freed frame is dirty; a thread of low priority
 * keeps some frames zeroed ahead.
 *
 * Invariants:	used + reserved <= total - file_min, but for the new contents of pages that are
 *		being sent (slack); and used + reserved + zeroing <= capacity, the frames of
 *		extents without files, so the frame for a credit is free. Clean pages of files fill
 *		the rest and give way. committed is the sum of the charges of
 *		mappings, in every mode of commitment; in the strict one it is checked when a
 *		mapping is made. The taker of a frame overwrites all of it before any program sees
 *		it, so no program sees another's data.
 * Context:	any but interrupts; nothing here sleeps except pool_zero_dirty()'s callers.
 * Locking:	pool.lock (RANK_MEM_POOL), a leaf but for counters.
 */
#pragma once

#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>
#include <proto/pm.h>

#include "extent.h"

struct rpc_mem;
struct pool_run;

enum mpage_kind {
	MPAGE_FREE,
	MPAGE_ANON,
	MPAGE_FILE,
	MPAGE_READING, /* a file's page that storage still owes: it cannot be given up */
};

struct mpage {
	struct hlist_node hash; /* page table or file cache: its bucket's lock */
	struct list_head link;  /* free: pool.lock; vRegion's pages: its lock; LRU: cache lock */
	uint64_t key;   /* const while in use: key of the vRegion's pages, or struct cached_file */
	uint64_t index; /* const while in use: address, or page of the file */
	uint64_t seq;   /* ANON: last write-back, vRegion's lock; FILE: version, cache lock */
	uint32_t refs;  /* atomic; 0 = free */
	uint16_t run;   /* const: index into pool.runs */
	uint8_t kind;   /* enum mpage_kind; pool.lock */
	uint8_t state;  /* FILE: enum cache_page_state; cache lock */
};

struct pool_run {
	void *virt;
	paddr_t paddr;
	uint64_t nr_pages;
	struct rpc_mem *mem; /* to send from; NULL in host tests */
	struct mpage *pages;
	uint64_t first_extent; /* index into pool.extents */
};

struct pool {
	struct spinlock lock;
	struct pool_run *runs; /* const after init */
	size_t nr_runs;        /* const after init */
	uint64_t total;        /* const after init: frames */
	uint64_t file_min;     /* const after init: frames that programs may not have */
	uint64_t file_floor;   /* const after init: of these, for files alone */
	uint64_t slack;        /* const after init: of these, for pool_alloc_instead() */
	uint64_t zero_ahead;   /* const: zeroed frames that the zeroing thread keeps ready */
	uint64_t kernel_max;   /* const: most kernel memory, in bytes, for one processor's spaces */
	uint32_t extent_shift; /* const after init: log2 of an extent's frames */
	uint64_t nr_extents;   /* const after init */
	struct extent *extents;
	struct list_head extent_lists[EXTENT_USES] __guarded_by(&lock);
	uint64_t capacity __guarded_by(&lock);     /* frames in FREE and ANON extents */
	uint64_t free_frames __guarded_by(&lock);  /* frames in FREE extents */
	uint64_t file_frames __guarded_by(&lock);  /* frames in FILE extents */
	uint64_t file_free __guarded_by(&lock);    /* ... of these free */
	uint64_t lent_free __guarded_by(&lock);    /* frames that are free in LENT extents */
	uint64_t lent_frames __guarded_by(&lock);  /* frames of these */
	uint32_t next_number __guarded_by(&lock);  /* of the extent that is lent next; 0: none is */
	uint32_t wants_extent __guarded_by(&lock); /* the processor that found none of its; or 0 */
	uint64_t lend_after_ns __guarded_by(&lock); /* none was to be had, or is to be had yet */
	bool recall_all __guarded_by(&lock);
	bool tell_all __guarded_by(&lock); /* an account has its mark `tell` */
	uint64_t extents_opened __guarded_by(&lock);
	uint64_t extents_closed __guarded_by(&lock);
	uint64_t extents_lent __guarded_by(&lock);
	uint64_t extents_taken_back __guarded_by(&lock);
	/* Since when, and when last, no extent could be emptied for programs; 0: one was. */
	uint64_t stuck_since_ns __guarded_by(&lock);
	uint64_t stuck_at_ns __guarded_by(&lock);
	uint64_t open_after_ns __guarded_by(&lock); /* the device had no region for an extent */
	uint64_t open_retry_ns;                     /* const after start: try again after that */
	uint64_t nr_zero __guarded_by(&lock);
	uint64_t nr_dirty __guarded_by(&lock);
	uint64_t zeroing __guarded_by(&lock);
	uint64_t used __guarded_by(&lock);      /* MPAGE_ANON frames */
	uint64_t file __guarded_by(&lock);      /* MPAGE_FILE and MPAGE_READING frames */
	uint64_t reading __guarded_by(&lock);   /* MPAGE_READING frames */
	uint64_t reserved __guarded_by(&lock);  /* sum of all credits */
	uint64_t committed __guarded_by(&lock); /* pages charged by mappings */
	struct pm_commit policy __guarded_by(&lock);
	struct pool_account **accounts __guarded_by(&lock); /* two levels, by processor node id */
	uint64_t *fenced;           /* atomic words: a bit for each processor that is gone */
	struct waitqueue freed;     /* woken when frames become free */
	struct waitqueue zeroer;    /* woken when there is something to zero */
	const struct pool_ops *ops; /* const after start; NULL in tests without files */
	void *ops_arg;
	/*
	 * A thread keeps these frames free by extents_change(). Without one (host tests) the
	 * taker of a frame makes the change.
	 */
	bool has_changer;         /* const after start */
	struct extent_need ahead; /* const after start */
	struct waitqueue changer; /* woken when extents_want_change() */
};

struct pool_stats {
	uint64_t total, zero, dirty, used, file, reserved, committed;
	uint64_t programs;                   /* frames that programs may have at most */
	uint64_t commit_limit;               /* pages */
	uint64_t file_extents, free_extents; /* frames in extents of files, in those of no use */
	uint64_t extents_opened, extents_closed;
	uint64_t lent_frames, lent_free; /* frames in extents that processors may read */
	uint64_t extents_lent, extents_taken_back;
};

/*
 * @runs is copied; pages are described here. @extent_pages, a power of two: frames of an extent.
 * @file_min is raised to what whole extents need. -ENOMEM.
 */
int pool_init(struct pool *pool, const struct pool_run *runs, size_t nr_runs, uint64_t extent_pages,
	      uint64_t file_min, const struct pm_commit *policy) __must_check;
void pool_destroy(struct pool *pool);

void *mpage_virt(const struct pool *pool, const struct mpage *page);
paddr_t mpage_paddr(const struct pool *pool, const struct mpage *page);
/* The run that a page is sent from. */
const struct rpc_mem *mpage_mem(const struct pool *pool, const struct mpage *page);
/* The region that storage nodes write, of a file's page that is held; NULL in host tests. */
const struct rpc_mem *mpage_file_mem(const struct pool *pool, const struct mpage *page);

/*
 * A frame for a program's page, with one reference, or NULL.  @proc: the processor whose credit it
 * uses up if it has one (0: none), which *@used_credit tells; without a credit only a frame that
 * is not reserved is taken.
 */
struct mpage *pool_alloc_anon(struct pool *pool, uint32_t proc, bool *used_credit);
/*
 * The same for a page of a program that has one, which is being sent and will be given back: no
 * credit is used up for it; if need be it is one of those that programs may not have.
 */
struct mpage *pool_alloc_instead(struct pool *pool);
/*
 * Should new content of @page, which @proc has sent, go to another frame, as that processor may
 * read it there?  Then such a frame, to be used as one of pool_alloc_instead(); else NULL.
 */
static inline bool pool_may_move(const struct pool *pool, uint32_t proc, const struct mpage *page)
{
	return proc && pool->ops && pool->ops->lend &&
	       !__atomic_load_n(&extent_of(pool, page)->place, __ATOMIC_RELAXED);
}
struct mpage *pool_alloc_readable(struct pool *pool, uint32_t proc, const struct mpage *page);
/* Where @proc may read @page, which is held, by itself; all 0: nowhere. */
struct pm_place mpage_place(const struct pool *pool, const struct mpage *page, uint32_t proc);
/*
 * A frame for a file's page that is to be read, or NULL: programs' frames are not lent to reads, as
 * storage may take its time. @may_reclaim: another file page may be given up for it.
 */
struct mpage *pool_alloc_file(struct pool *pool, bool may_reclaim);
/* It has been read, and can be given up. */
void pool_file_read(struct pool *pool, struct mpage *page);

void mpage_get(struct mpage *page);
/* Drop a reference; with the last one the frame is free. */
void mpage_put(struct pool *pool, struct mpage *page);

/* Are there fewer zeroed frames than are to be kept ready? */
bool pool_wants_zeroing(struct pool *pool);
/* Fill up to @budget dirty frames with zeroes; returns how many. */
uint64_t pool_zero_dirty(struct pool *pool, uint64_t budget);

/* The account of one processor. */
struct pool_account {
	struct list_head lent; /* LENT extents with free frames */
	uint64_t lent_free;    /* free frames in them */
	/*
	 * Its last word about a place that it was to forget did not come: it gets no extent until
	 * it does, and is asked again after hear_after_ns, or with `tell` as soon as can be.
	 */
	bool unheard, tell;
	bool refused; /* it gets none before pool_refuse_end() */
	uint64_t hear_after_ns;
	uint32_t told; /* it was told to forget all extents with numbers up to this one */
	uint32_t credits;
	uint64_t report;       /* the last one that came */
	uint64_t beyond_ns;    /* when it may have frames beyond its share again */
	uint64_t kernel_bytes; /* kernel memory for what its spaces have here */
};

/*
 * Reserve up to @want frames for credits of @proc, within its share: how many it got, after which
 * report.  @replay: another node has granted them, whatever the share is here.
 */
uint32_t pool_grant(struct pool *pool, uint32_t proc, uint32_t want, bool replay, uint64_t *report);
/*
 * Take up to @nr credits of @proc back without its word: how many. It learns of that by its next
 * report, which may get them again if there are frames then.
 */
uint32_t pool_revoke(struct pool *pool, uint32_t proc, uint32_t nr);
/*
 * @proc says with its report @report that it has @hold credits, and wants @want more. Its account
 * is set to what can be had of them: *@now, which is *@delta more than before. -ESTALE: a later
 * report has come, or the processor is gone; -ENOMEM: no memory for an account. If its share has
 * nothing of what it wants it has a little more, but not at once again: ask again while there is
 * room.  @replay as in pool_grant().
 */
int pool_report(struct pool *pool, uint32_t proc, uint64_t report, uint32_t hold, uint32_t want,
		bool replay, int64_t *delta, uint32_t *now) __must_check;
/* @proc is gone: its credits are void, and it gets no more until it is admitted again. */
void pool_fence(struct pool *pool, uint32_t proc);
void pool_admit(struct pool *pool, uint32_t proc);
bool pool_is_fenced(const struct pool *pool, uint32_t proc);
/* The first processor with a number >= @proc that has credits; 0: there is none. */
uint32_t pool_next_creditor(struct pool *pool, uint32_t proc);
uint32_t pool_credits(struct pool *pool, uint32_t proc);

/* For extents_refuse() and extents_refuse_end(): the marks of accounts. */
void pool_refuse(struct pool *pool, uint32_t proc);
void pool_refuse_end(struct pool *pool);
/* With pool.lock held: an account with its mark `tell`, of *@proc; NULL: there is none. */
struct pool_account *pool_next_to_tell_locked(struct pool *pool, uint32_t *proc)
	__must_hold(&pool->lock);

/*
 * Charge @proc with kernel memory for a space, a vRegion or an area of its that is kept here, as at
 * a home or an owner: -ENOMEM beyond kernel_max. Also what a processor that is gone has left is
 * charged until it has been freed.
 */
int pool_charge_kernel(struct pool *pool, uint32_t proc, uint64_t bytes) __must_check;
/*
 * The same for a processor that is no member: all for which @is_member says so together have no
 * more than one may have. @is_member is called with the pool locked.
 */
int pool_charge_stranger(struct pool *pool, uint32_t proc, uint64_t bytes,
			 bool (*is_member)(void *arg, uint32_t proc), void *arg) __must_check;
/* The same beyond kernel_max, too, for a processor that has been charged before. */
void pool_charge_more(struct pool *pool, uint32_t proc, uint64_t bytes);
void pool_uncharge_kernel(struct pool *pool, uint32_t proc, uint64_t bytes);
/* For tests. */
uint64_t pool_kernel_bytes(struct pool *pool, uint32_t proc);

/* With pool.lock held: the account of @proc, or NULL. */
struct pool_account *pool_account_locked(struct pool *pool, uint32_t proc) __must_hold(&pool->lock);

/* Frames that programs could still get, if need be from pages of files. */
uint64_t pool_room(struct pool *pool);
/* The same at once: extents of files are not emptied for it. */
uint64_t pool_room_now(struct pool *pool);
/* Charge a mapping: -ENOMEM when the policy does not allow it. */
int pool_commit(struct pool *pool, uint64_t pages) __must_check;
/* Charge what is there already, whatever the policy says. */
void pool_commit_more(struct pool *pool, uint64_t pages);
void pool_uncommit(struct pool *pool, uint64_t pages);

/*
 * Take @policy of processor @proc (0: of a memory node) over if it follows the one that holds; that
 * which holds then goes to @now.
 */
void pool_set_policy(struct pool *pool, const struct pm_commit *policy, uint32_t proc,
		     struct pm_commit *now);
enum pm_commit_mode pool_commit_mode(struct pool *pool);

void pool_stats(struct pool *pool, struct pool_stats *out);
