/* SPDX-License-Identifier: MIT */
/*
 * Changes of regions: the description of one, and the only function that makes one.
 *
 * A region's state, areas, page contents, the credits of processors and the commitments of this
 * node change in region_apply() and nowhere else. struct region_change says what changes,
 * completely: a second node that makes the same changes in the same order is in the same state.
 *
 * Flow:	a caller describes the change, adds what is only of use here (struct region_op),
 *		and applies it. region_apply() checks, changes, and shows the description to the
 *		owner's log, if there is one, under the region's lock. The log may defer
 *		completion: it takes a reference of the op's struct region_completion and drops it
 *		when a secondary has answered, say.
 * Context:	polling context (STORE without may_sleep, ACCOUNT) or a thread.  Completion: any.
 * Locking:	region_apply() takes the locks itself: owner.lock, then one region's or two
 *		regions' lock.
 * Failure:	a change that is refused has changed nothing and is not shown to the log; a credit
 *		that it has used up in vain is.
 * Limits:	there is no log yet, except in tests: completion is immediate.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <proto/pm.h>

#include "area.h"
#include "owner.h"

struct memory;
struct mpage;

enum region_change_kind {
	CHANGE_MAKE,      /* the region comes into being, and the space with its first region */
	CHANGE_KILL,      /* the region goes, with everything in it */
	CHANGE_STATE,     /* another state; what is in it stays */
	CHANGE_RESET,     /* another state; areas, pages and their charge go */
	CHANGE_MAP,       /* one area more, charged unless it has been */
	CHANGE_UNMAP,     /* areas and pages of a range go, and their charge */
	CHANGE_PROTECT,   /* another protection, and what the region is charged for it */
	CHANGE_STORE,     /* the content of a page */
	CHANGE_DROP,      /* pages of a range go */
	CHANGE_SENT,      /* a page goes: another owner has it */
	CHANGE_MOVE_PAGE, /* a page gets another address and write-back number here */
	CHANGE_CLONE,     /* fork: @other gets a copy of the areas, charged */
	CHANGE_GIVE,      /* fork: @other gets the areas; one that admits every page stays */
	CHANGE_TAKE_BACK, /* the reverse of CHANGE_GIVE */
	CHANGE_COLLAPSE,  /* some pages become @other's, or go */
	CHANGE_FORGET,    /* no region: a space is gone, and what was prepared for it */
	CHANGE_EXPECT,    /* no region: who may send pages of a space, which may be new here */
	CHANGE_ACCOUNT,   /* no region: commitments and credits */
};

/* How one batch of a collapse treats its pages. */
enum collapse_step {
	COLLAPSE_FORWARD, /* pages of the small frozen region become the other's */
	/* pages of the other become the large frozen region's; then the two swap */
	COLLAPSE_GATHER,
	COLLAPSE_SCAN, /* pages of the other that are not mapped there go */
};

/* A tagged description.  Its pointers are valid during the call only. */
struct region_change {
	enum region_change_kind kind;
	uint64_t other; /* CLONE, GIVE, TAKE_BACK, COLLAPSE: the other region's space */
	union {
		struct {
			uint32_t home;
			uint32_t shift;
			enum region_state state;
			bool holes;
			uint64_t version;
			uint32_t proc, vnode;
		} make;
		struct {
			uint64_t aspace;
			uint32_t home, proc, vnode;
			uint32_t from;
		} expect;
		struct { /* STATE, RESET */
			enum region_state to;
			bool holes;
			const struct pm_vregion *entry; /* NULL: as it was */
		} state;
		struct {
			const struct pm_vma *area;
			uint64_t version; /* 0: as it was */
			bool charged;
		} map;
		struct { /* UNMAP, PROTECT, DROP */
			uint64_t start, end;
			uint32_t prot;
		} range;
		struct {
			uint64_t vaddr;
			uint64_t seq;
			const void *data; /* PAGE_SIZE */
			uint32_t proc;
			bool credit; /* one of @proc's has been used up */
		} store;
		struct { /* SENT, MOVE_PAGE */
			uint64_t vaddr;
			uint64_t to;
			uint64_t seq; /* its write-back number there */
		} page;
		struct {
			enum collapse_step step;
			bool swap; /* GATHER: all of the other's pages have been gathered */
			bool last;
			uint32_t nr;
			const uint64_t *addrs;
		} collapse;
		struct {                 /* FORGET, ACCOUNT */
			uint64_t aspace; /* whose prepared charge changes */
			int64_t commit;
			int64_t prepared;
			uint32_t proc;
			/* Granted or taken, in the end; with @report, until then those wanted. */
			int64_t credits;
			uint64_t report; /* of @proc, which sets its account; 0: none */
		} account;
	};
};

/*
 * The end of one or more changes. It begins with one reference, its maker's; when the last
 * reference is dropped, @done runs once, in the context that dropped it.
 */
struct region_completion {
	uint32_t refs; /* atomic */
	int err;       /* atomic: the first error */
	void (*done)(struct region_completion *c);
};

static inline void region_completion_init(struct region_completion *c,
					  void (*done)(struct region_completion *c))
{
	c->refs = 1;
	c->err = 0;
	c->done = done;
}

static inline void region_completion_get(struct region_completion *c)
{
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
}

void region_completion_put(struct region_completion *c, int err);

#define COLLAPSE_BATCH 64 /* pages whose region changes under one hold of two locks */

struct collapse_batch {
	uint64_t addrs[COLLAPSE_BATCH];
	struct mpage *dead[COLLAPSE_BATCH];
	size_t nr_dead;
	uint64_t scan; /* SCAN: pages still to be looked at */
	uint64_t renamed;
};

/* A change under way here: its description, and what only this node uses. */
struct region_op {
	struct region_change change;
	unsigned int from; /* REGION_IN(): the states in which the change may be made */
	bool may_sleep;    /* STORE: until a pinned frame is free */
	bool replay;       /* the description came from another node: do exactly that */
	struct region_completion *completion; /* may be NULL when there is no log */
	struct region *other;
	const struct pm_vregion *move; /* RESET: an active region is one that this move has made */
	struct area_spare *spare;      /* nodes for areas; NULL: the region's own */
	struct mpage *page;            /* SENT: only if it is still this page; may be NULL */
	struct owner_space *space;     /* MAKE, EXPECT: used if the space is new, then NULL */
	uint32_t home_incarn;          /* MAKE, EXPECT: of the home that asks; 0: not known */
	bool known;                    /* MAKE: of a space that is here already */
	struct collapse_batch *batch;
	uint32_t hold; /* ACCOUNT with a report: credits that @proc says it has; result: has now */
	uint64_t report;       /* result: ACCOUNT: the last one that came before the grant */
	uint64_t pages;        /* result: UNMAP, DROP, MOVE_PAGE: how many */
	uint64_t charge;       /* result: CLONE */
	struct pm_place place; /* result: STORE: where the page is now, for its processor */
};

#define REGION_IN(state) (1u << (state))
#define REGION_ANY       (~0u)

/*
 * Make the change. 0: made here; op->completion says when it is complete. Else it is refused:
 * -ESTALE not in a state for it; -EEXIST the range or page is taken; -ENOMEM; STORE as
 * owner_store(); -EAGAIN (STORE) not in a state for it, or a frame is needed and it may not sleep.
 */
int region_apply(struct memory *m, struct region *r, struct region_op *op) __must_check;
/* The same, and wait until it is complete.  Threads only; msg_owner.c says why they may. */
int region_apply_wait(struct memory *m, struct region *r, struct region_op *op);

/*
 * @page of @r, which its processor fetches and the caller holds, in a frame that this processor may
 * read by itself: *@page is held instead if that can be had at once. The content is the same, so it
 * is no change.
 */
void region_page_readable(struct memory *m, struct region *r, struct mpage **page);
/*
 * Show every change to @log: for a secondary, and for tests. @log is called with the region's lock
 * held and does not sleep; @r is NULL for a change of no region. Set before there are regions.
 */
typedef void (*region_log_fn)(void *arg, struct region *r, const struct region_change *change,
			      struct region_completion *completion);
void owner_set_log(struct memory *m, region_log_fn log, void *arg);

/* Grant up to @want frames to @proc. */
struct pm_grant owner_grant(struct memory *m, uint32_t proc, uint32_t want,
			    struct region_completion *completion);
/*
 * @proc reports that it has @hold credits and wants @want: *@frames are reserved for it now.
 * -ESTALE: a later report has come; -ENOMEM.
 */
int owner_report(struct memory *m, uint32_t proc, const struct pm_credit_req *req, uint32_t *frames)
	__must_check;
/* Take all credits of @proc back: it has no use for them, or gives no frame back. */
void owner_revoke(struct memory *m, uint32_t proc);
