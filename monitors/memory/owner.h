/* SPDX-License-Identifier: MIT */
/*
 * Owner: the vRegions that this node owns, their areas, and the page table.
 *
 * One tree has all regions, by (space, address). A region is counted: the tree holds one reference
 * and every user one more, so it can go away under a handler. The page table is one hash over (key
 * of the region, page) for all regions; the frames' descriptors are its entries, so it never
 * allocates. A page is in its region's list as well. Two regions can exchange keys and lists, and
 * so all their pages.
 *
 * A region is ACTIVE; LEAVING while another owner takes it over, ARRIVING at that owner;
 * COLLAPSING while pages go from one region to another; REDIRECT when only the new owner's name is
 * left; DEAD once it is out of the tree. Requests wait for a region that is LEAVING, ARRIVING or
 * COLLAPSING. A region of a frozen or page-only space has one area for all of it, so the owner
 * never asks for the kind of a space.
 *
 *	COLLAPSING <--> ACTIVE <--> LEAVING --> REDIRECT
 *	                  ^  \                    |  ^
 *	                  |   +----+--------------+  |     any --> DEAD
 *	                  |        v                 |
 *	                  +---- ARRIVING ------------+
 *
 * Locking:	owner.lock guards the trees; region.lock a region's state, areas and pages; a
 *		bucket's lock its chain. Only regions_lock() locks two regions.
 * See:		region_apply.h: all changes of a region
 */
#pragma once

#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/rbtree.h>
#include <lib/types.h>
#include <proto/mm.h>
#include <proto/pm.h>

#include "area.h"

struct memory;
struct mpage;
struct region_change;
struct region_completion;

#define OWNER_BUCKET_LOCKS 64

enum region_state {
	REGION_ACTIVE,
	REGION_LEAVING,
	REGION_ARRIVING,
	REGION_COLLAPSING,
	REGION_REDIRECT,
	REGION_DEAD,
};

struct region {
	struct rb_node node;  /* owner.lock */
	uint32_t refs;        /* atomic */
	struct memory *m;     /* const */
	uint64_t aspace;      /* const */
	uint32_t proc, vnode; /* const: as of its space */
	uint32_t placed;      /* atomic: ->placements when its vNode was on its processor */
	uint64_t index;       /* const */
	uint64_t start, end;  /* const */
	struct spinlock lock; /* RANK_SPIN_ASPACE */
	enum region_state state __guarded_by(&lock);
	struct pm_vregion entry __guarded_by(&lock); /* REDIRECT: the owner now */
	struct area_set areas __guarded_by(&lock);
	struct area_spare spare __guarded_by(&lock); /* nodes for the next change */
	/*
	 * Since a fork made the space, an area that it had then has been unmapped: its backing
	 * space may have a page where nothing is mapped here.
	 */
	bool holes __guarded_by(&lock);
	uint64_t key
		__guarded_by(&lock); /* of its pages in the page table; no other region has it */
	struct list_head pages __guarded_by(&lock);
	uint64_t nr_pages __guarded_by(&lock);
	/* of ->pages that have begun: one ends when the next begins */
	uint64_t walks __guarded_by(&lock);
	struct waitqueue idle; /* woken when it leaves LEAVING, ARRIVING or COLLAPSING */
};

static inline bool region_is_busy(enum region_state state)
{
	return state == REGION_LEAVING || state == REGION_ARRIVING || state == REGION_COLLAPSING;
}

/* One address space of which this node holds a part. */
struct owner_space {
	struct rb_node node; /* owner.lock */
	uint64_t aspace;     /* const */
	uint32_t home;       /* const */
	uint32_t proc;       /* const: the processor that may use it */
	uint32_t vnode;      /* const */
	uint32_t source;     /* owner.lock: the node that may send pages of it; 0 = none */
	uint64_t prepared;   /* owner.lock: pages charged by MM_PREPARE, not yet applied */
};

struct owner {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct rb_root regions __guarded_by(&lock);
	struct rb_root spaces __guarded_by(&lock);
	uint64_t nr_regions __guarded_by(&lock);
	uint64_t next_key; /* atomic */
	uint64_t nr_spaces __guarded_by(&lock);
	struct hlist_head *buckets;                       /* a bucket's lock */
	uint64_t nr_buckets;                              /* const; a power of two */
	struct spinlock bucket_locks[OWNER_BUCKET_LOCKS]; /* RANK_SPIN_CACHE */
	/* owner_set_log(); const once there are regions */
	void (*log)(void *arg, struct region *r, const struct region_change *change,
		    struct region_completion *completion);
	void *log_arg;
};

int owner_init(struct memory *m) __must_check;
void owner_destroy(struct memory *m);

/* --- owner.c: regions --------------------------------------------------------------------- */

/* The region that holds @vaddr, with a reference, or NULL. */
struct region *region_get(struct memory *m, uint64_t aspace, uint64_t vaddr);
/* The first region of @aspace that ends above @vaddr, with a reference, or NULL. */
struct region *region_get_above(struct memory *m, uint64_t aspace, uint64_t vaddr);
void region_put(struct region *r);
/* Lock two regions, in the order that the lock rules ask for. */
void regions_lock(struct region *a, struct region *b) __acquires(&a->lock) __acquires(&b->lock);
void regions_unlock(struct region *a, struct region *b) __releases(&a->lock) __releases(&b->lock);
/* A home that asks: its request may outlive it, and be served when it is here again. */
struct home_id {
	uint32_t node;
	uint32_t incarn; /* 0: not known, as of this node */
};
/* A new space, charged to @proc while it is. NULL: no memory, or @proc has had its part. */
struct owner_space *owner_space_alloc(struct memory *m, uint64_t aspace, uint32_t home,
				      uint32_t proc, uint32_t vnode);
void owner_space_free(struct memory *m, struct owner_space *s);
/* How a new region begins. */
struct region_init {
	enum region_state state;
	bool holes;
	uint64_t version;
	uint32_t proc;
	uint32_t vnode;
	bool known; /* the space must be here already, else -ESTALE */
};
/*
 * Make a region, or find it: with a reference.  ERR_PTR(-ENOMEM); ERR_PTR(-ESTALE): the processor
 * is fenced, or that life of the home has ended; ERR_PTR(-EPROTO): it is the space of another
 * processor or vNode.
 */
struct region *region_make(struct memory *m, uint64_t aspace, struct home_id home, uint64_t index,
			   uint32_t shift, const struct region_init *init);
/*
 * End @r if nothing is mapped in it. Only for the home's calls, of which there is one at a time:
 * the home's array still names us, and the next MM_MAP makes the region again.
 */
void region_kill_if_empty(struct memory *m, struct region *r);
/* Wait until @r is not busy any more.  -ETIMEDOUT. */
int region_wait_idle(struct region *r) __must_check;
/*
 * Have the nodes ready that any one change can need, so that the change itself cannot fail.
 * -ENOMEM: no memory, or, unless @grows is false, its processor has had its part.
 */
int region_reserve(struct region *r, bool grows) __must_check;
/* Free nodes beyond what region_reserve() keeps. */
void region_trim(struct region *r);
/* --- page table ----------------------------------------------------------------------------- */

struct mpage *page_lookup_locked(struct memory *m, struct region *r, uint64_t vaddr)
	__must_hold(&r->lock);

/* Is there anything of @aspace here? */
bool owner_has_space(struct memory *m, uint64_t aspace);
/* Whom a space obeys. */
struct owner_masters {
	uint32_t home;      /* if nothing of the space is here, its number tells */
	uint32_t processor; /* 0: nothing is here */
	uint32_t source;    /* the node of which the home has said that it sends pages; 0: none */
};
struct owner_masters owner_masters(struct memory *m, uint64_t aspace);
/*
 * The home names the node that sends pages. -ENOMEM; -ESTALE: the processor is fenced, or that life
 * of the home has ended.
 */
int owner_expect(struct memory *m, struct home_id home, const struct mm_expect_req *req)
	__must_check;
/* Credits for the processor of @aspace, if it is a member: how many it got. */
struct pm_grant owner_grant_space(struct memory *m, uint64_t aspace, uint32_t want);

/* --- messages: owner_map.c ------------------------------------------------------------------ */

int owner_map(struct memory *m, struct home_id home, const struct mm_map_req *req,
	      struct mm_range_rep *rep) __must_check;
/* All vmas of a new space; after an error nothing of it is here. */
int owner_load(struct memory *m, struct home_id home, const struct mm_load_req *req,
	       struct mm_range_rep *rep) __must_check;
int owner_unmap(struct memory *m, const struct mm_range_req *req, struct mm_range_rep *rep)
	__must_check;
int owner_protect(struct memory *m, const struct mm_range_req *req, struct mm_range_rep *rep)
	__must_check;
/* Idempotent. */
void owner_destroy_space(struct memory *m, uint64_t aspace);
/* The next processor after @proc with a space here whose home is @home; 0: there is none. */
uint32_t owner_next_of_home(struct memory *m, uint32_t home, uint32_t proc);
/* Every space for which @match says so. */
void owner_destroy_matching(struct memory *m,
			    bool (*match)(const struct owner_space *s, uint32_t node),
			    uint32_t node);

/* --- messages: owner_fork.c ------------------------------------------------------------------ */

int owner_fork(struct memory *m, struct home_id home, const struct mm_fork_req *req,
	       struct mm_range_rep *rep) __must_check;
/*
 * Both allocate nothing and may be repeated; they answer how many pages they have renamed,
 * dropped.
 */
int owner_collapse(struct memory *m, const struct pm_collapse_req *req, struct mm_range_rep *rep)
	__must_check;
int owner_discard(struct memory *m, const struct pm_discard_req *req, struct mm_range_rep *rep)
	__must_check;

/* --- owner_data.c: fetch and write-back ------------------------------------------------------- */

/*
 * Serve a fetch. @victim_data: 4 KiB, when the request has a victim. On 0 *@page is the page to be
 * sent with a reference, or NULL when @rep says that none is sent. -EREMCHG: *@redirect is filled
 * in. -EAGAIN (only unless @may_sleep): nothing has been done, call again where it may sleep. A
 * request that fails has not stored its victim.
 */
int owner_fetch(struct memory *m, uint32_t proc, const struct pm_fetch_req *req,
		const void *victim_data, bool may_sleep, struct pm_fetch_rep *rep,
		struct mpage **page, struct pm_vregion *redirect,
		struct region_completion *completion) __must_check;
/*
 * Page i of @req, if it can be had at once: a reference in pages[i], else NULL. Answers which, a
 * bit for each. Never sleeps.
 */
uint32_t owner_fetch_ahead(struct memory *m, uint32_t proc, const struct pm_fetch_ahead_req *req,
			   struct mpage **pages) __must_check;
/*
 * As above. -EAGAIN: again where it may sleep; what has been stored by then may be stored twice.
 */
int owner_writeback(struct memory *m, uint32_t proc, const struct pm_writeback_req *req,
		    const void *data, bool may_sleep, struct pm_writeback_rep *rep,
		    struct region_completion *completion) __must_check;
int owner_fill_vma(struct memory *m, uint32_t proc, const struct pm_fill_vma_req *req,
		   struct pm_vma *out, struct pm_vregion *redirect) __must_check;
/*
 * Store a page that has come from @proc (0: from another owner, and then into a region that is
 * arriving too).  -EFAULT not mapped; -EROFS; -EREMCHG; -ENOMEM; -EAGAIN as above.
 */

/* --- owner_move.c ----------------------------------------------------------------------------- */

/* Pages on their way to one owner; each is pinned. */
struct page_batch {
	uint32_t dest;
	struct mm_pages_req req;
	struct mpage *pages[MM_PAGES_MAX];
	struct region *from[MM_PAGES_MAX]; /* mremap: to be taken out of, once sent; else NULL */
	uint8_t body[sizeof(struct mm_pages_req_wire) +
		     MM_PAGES_MAX * sizeof(struct pm_writeback_page_wire)];
};

/* The memory that MM_MOVE needs, in one piece: allocated, or the reserve. */
struct owner_move_work {
	struct mm_move_req req;
	struct page_batch batch;
};

int owner_move(struct memory *m, struct owner_move_work *work, struct mm_range_rep *rep)
	__must_check;
int owner_pages(struct memory *m, const struct mm_pages_req *req, const void *data) __must_check;
int owner_vregion_move(struct memory *m, struct home_id home, const struct mm_vregion_move_req *req,
		       struct mm_range_rep *rep) __must_check;
int owner_vregion_take(struct memory *m, uint32_t peer, const struct mm_vregion_take_req *req)
	__must_check;

/* All regions that serve and have pages, to be freed with lib_free(): *@nr.  NULL: no memory. */
struct relief_region *owner_list_regions(struct memory *m, size_t *nr);
/*
 * Pages of spaces of @proc that are here: forks that share a frame count it twice. Walks all
 * regions.
 */
uint64_t owner_pages_of(struct memory *m, uint32_t proc);
/* The first processor from @proc on that has a space here; 0: there is none. */
uint32_t owner_next_processor(struct memory *m, uint32_t proc);

struct owner_counts {
	uint64_t regions, spaces, areas, pages;
};
void owner_counts(struct memory *m, struct owner_counts *out);
