/* SPDX-License-Identifier: MIT */
/*
 * Home: the address spaces whose calls this node oversees.
 *
 * A space has a range map (which addresses are mapped, and how) and the vRegion array: the owner
 * and version of each vRegion that has ever held a mapping. The home chooses addresses and owners,
 * splits a range over the owners, and makes a call that spans several owners happen on all of them
 * or on none (proto/mm.h, phases).
 *
 * A space is of one of three kinds: with mappings; frozen by a fork, which keeps its pages; or of
 * pages only, for a shared object. The range map of the latter two holds the area of
 * area_pages_only(), so owners and moves treat all kinds alike.
 *
 * Locking:	a call holds home_space.mutex (RANK_ASPACE) from beginning to end, also while it
 *		waits for owners. home.lock, a spinlock, guards the table. A space is counted: the
 *		table holds one reference.
 */
#pragma once

#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <lib/compiler.h>
#include <lib/radix.h>
#include <lib/rbtree.h>
#include <lib/types.h>
#include <proto/mm.h>
#include <proto/pm.h>

#include "area.h"

struct memory;

struct home_vregion {
	uint32_t owner;
	uint32_t life; /* memory_node_life() of the owner when it got the vRegion */
	uint32_t secondary;
	uint64_t version;
};

enum home_space_kind {
	SPACE_MAPPED = 1 << 0,
	SPACE_FROZEN = 1 << 1,
	SPACE_PAGES = 1 << 2,
	SPACE_ANY = 7,
	SPACE_MOVE_OPEN = 8, /* home_space_lock(): also while a move is open */
};

struct home_space {
	struct rb_node node; /* home.lock */
	uint32_t refs;       /* atomic */
	uint64_t id;         /* const */
	uint32_t vnode;      /* const */
	uint32_t proc;       /* const: the processor that may use it */
	struct memory *m;    /* const */
	bool is_linked;      /* home.lock: it is in the table */
	bool dead;           /* atomic: destroyed, every call answers -ESRCH; set under home.lock */
	bool is_orphan;      /* atomic: a call was under way when its processor went */
	struct mutex mutex;
	uint64_t charged __guarded_by(&mutex); /* bytes but for areas': memory_charge() */
	enum home_space_kind kind __guarded_by(&mutex);
	bool fixed_size __guarded_by(&mutex);      /* SPACE_PAGES: all of it is charged */
	uint64_t fork_parent __guarded_by(&mutex); /* SPACE_FROZEN: the spaces with its mappings */
	uint64_t fork_child __guarded_by(&mutex);
	/* MM_VREGION_MOVE had no answer: find out the owner of the vRegion before anything else. */
	bool move_open __guarded_by(&mutex);
	uint64_t move_index __guarded_by(&mutex);
	uint32_t move_to __guarded_by(&mutex);
	uint64_t collapsed
		__guarded_by(&mutex); /* the last space that has collapsed into it; 0 = none */
	struct area_set map __guarded_by(&mutex);
	struct radix_tree vregions __guarded_by(&mutex); /* index -> struct home_vregion */
	struct radix_tree nodes __guarded_by(&mutex);    /* node ids that hold, or held, a part */
	uint64_t mmap_top __guarded_by(&mutex); /* addresses are assigned downwards from here */
	uint64_t brk_start __guarded_by(&mutex);
	uint64_t brk __guarded_by(&mutex); /* byte address */
	uint64_t brk_max __guarded_by(&mutex);
	uint64_t lease_number __guarded_by(&mutex); /* the last batch of PM_LEASE; 0 = none */
	uint64_t lease_done __guarded_by(&mutex);   /* what it was answered with */
};

struct home {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct rb_root spaces __guarded_by(&lock);
	uint64_t nr_spaces __guarded_by(&lock);
};

#define HOME_MMAP_MIN 0x10000ull /* the lowest address that is ever mapped (vm.mmap_min_addr) */

void home_init(struct memory *m);
void home_destroy(struct memory *m);

/* --- home.c: spaces ----------------------------------------------------------------------- */

/*
 * Make a space for incarnation @incarn (0: whichever there is) of processor @proc; with a reference
 * and its mutex held. ERR_PTR: -EEXIST, -ENOMEM, -ESTALE (fenced, or that incarnation has left),
 * -EINVAL (by its number it has another home).
 */
struct home_space *home_space_create(struct memory *m, uint64_t id, uint32_t proc, uint32_t vnode,
				     enum home_space_kind kind, uint32_t incarn);
/*
 * One that is in no table yet, unlocked, to be linked or freed. NULL: no memory, or its processor
 * has had its part.
 */
struct home_space *home_space_alloc(struct memory *m, uint64_t id, uint32_t proc, uint32_t vnode,
				    enum home_space_kind kind);
/*
 * Enter both, which come of a fork of @of, into the table, which takes a reference of each.
 * -EEXIST: an id is taken; -ESTALE: fenced, or @of is dead; -EINVAL: not of this home.
 */
int home_space_link_two(struct memory *m, const struct home_space *of, struct home_space *a,
			struct home_space *b) __must_check;
/* The space is dead from here on. */
void home_space_unlink(struct memory *m, struct home_space *as);
bool home_space_exists(struct memory *m, uint64_t id);
/* Is there a space @id here, and may another processor than @proc use it? */
bool home_space_is_others(struct memory *m, uint64_t id, uint32_t proc);
/* The vNode of space @id here; 0: there is none, or another processor than @proc may use it. */
uint32_t home_space_vnode(struct memory *m, uint64_t id, uint32_t proc);
#define ANY_PROC 0u /* a call of this node, for whichever processor's space */
void home_space_put(struct home_space *as);
/*
 * Find a space of @proc, or ANY_PROC, and lock it; ERR_PTR(-ESRCH), ERR_PTR(-EINVAL): none of
 * @kinds. If the outcome of a move is not known, find it out first, unless @kinds says otherwise:
 * ERR_PTR(-ETIMEDOUT) if that fails.
 */
struct home_space *home_space_lock(struct memory *m, uint64_t id, uint32_t proc,
				   unsigned int kinds);
/* The same for any kind, without waiting: ERR_PTR(-EAGAIN), it is in use or a move is open. */
struct home_space *home_space_trylock(struct memory *m, uint64_t id);
/* The same for two spaces, in the order that the lock rules ask for.  0 or a negative errno. */
int home_space_lock_two(struct memory *m, uint32_t proc, uint64_t a_id, unsigned int a_kinds,
			uint64_t b_id, unsigned int b_kinds, struct home_space **a,
			struct home_space **b) __must_check;
/* Unlock and drop the reference. */
void home_space_unlock(struct home_space *as) __releases(&as->mutex);
/* Free everything on every owner.  Idempotent: 0 when there is no such space. */
int home_destroy_space(struct memory *m, uint64_t id, uint32_t proc);
/*
 * Forget the spaces of @proc, without a message: the owners learn of its end themselves. Waits for
 * no call: one that is under way tells the owners again when it ends.
 */
void home_processor_gone(struct memory *m, uint32_t proc);

/*
 * Make vRegion @index active, if it is not, with an owner that is a member. -ENOMEM: no memory, or
 * no node; -EHOSTDOWN: its owner has left the cluster, with what is mapped there.
 */
int home_space_vregion_activate(struct memory *m, struct home_space *as, uint64_t index)
	__must_hold(&as->mutex) __must_check;
/* Has the owner of @vr left the cluster, though it may be a member again? */
bool home_vregion_is_lost(struct memory *m, const struct home_vregion *vr);
/* Is anything mapped in [start, end) where that is so? -EHOSTDOWN. */
int home_space_check_owners(struct memory *m, struct home_space *as, uint64_t start, uint64_t end)
	__must_hold(&as->mutex) __must_check;
/*
 * Note that @node may hold a part of the space, so that it is told when the space ends. -ENOMEM.
 */
int home_space_note_node(struct home_space *as, uint32_t node) __must_hold(&as->mutex) __must_check;
bool home_space_vregion(const struct memory *m, const struct home_space *as, uint64_t index,
			struct pm_vregion *out) __must_hold(&as->mutex);
/* The active entries of [start, end): fills @out, up to @max. */
uint16_t home_space_vregions(const struct memory *m, const struct home_space *as, uint64_t start,
			     uint64_t end, struct pm_vregion *out, uint16_t max)
	__must_hold(&as->mutex);

/* Make @to's array, which is empty, and its nodes those of @from.  -ENOMEM. */
int home_space_copy_vregions(struct home_space *to, const struct home_space *from)
	__must_hold(&from->mutex) __must_check;

/* --- home_span.c: one operation over all owners of a range ------------------------------------ */

#define SPAN_MAX_VREGIONS (1u << 16) /* of one call; a program that wants more gets -ENOMEM */

struct grants {
	uint16_t nr;
	struct pm_grant grants[PM_MAX_GRANTS];
};

/* Map @v, whose range must be free, on all its owners and in the range map. */
int span_map(struct memory *m, struct home_space *as, const struct pm_vma *v, uint32_t want_credits,
	     struct grants *grants) __must_hold(&as->mutex) __must_check;
int span_unmap(struct memory *m, struct home_space *as, uint64_t start, uint64_t end)
	__must_hold(&as->mutex);
int span_protect(struct memory *m, struct home_space *as, uint64_t start, uint64_t end,
		 uint32_t prot) __must_hold(&as->mutex) __must_check;
/*
 * Move the pages of [start, end) to @to, where the same is mapped, or back again after a failure:
 * with buffers that were allocated before the first step. They get write-back number @seq, which
 * is newer than any at @to.
 */
struct move_bufs;
struct move_bufs *span_move_prepare(void); /* NULL: no memory */
void span_move_finish(struct move_bufs *bufs);
int span_move(struct memory *m, struct home_space *as, uint64_t start, uint64_t end, uint64_t to,
	      uint64_t seq, struct move_bufs *bufs) __must_hold(&as->mutex);

/* Credits that each of @nr_parts parts shall ask for. */
uint32_t span_share(uint32_t want, size_t nr_parts);
void grants_add(struct grants *grants, const struct pm_grant *g);

/* --- home_commit.c: the policy of commitment ------------------------------------------------- */

/*
 * May [start, end) be mapped, of which @pages are charged? -ENOMEM: the heuristic mode says that
 * they can never be had.
 */
int home_may_commit(struct memory *m, uint64_t start, uint64_t end, uint64_t pages) __must_check;

/* --- home_load.c: all mappings of a new space ------------------------------------------------- */

/* Map all that the range map holds on its owners.  After an error the space is to be destroyed. */
int span_load(struct memory *m, struct home_space *as, uint32_t want_credits, struct grants *grants)
	__must_hold(&as->mutex) __must_check;

/* --- home_place.c: addresses ---------------------------------------------------------------- */

/* Room left free behind a large anonymous mapping, so that mremap can grow it where it is. */
#define PLACE_GROW_MIN  (128ull << 10) /* mappings from this size on get room */
#define PLACE_GROW_ROOM (64ull << 20)

/*
 * Find @len free bytes, at @hint if they are free there. @room: as much again, or PLACE_GROW_ROOM,
 * shall be free behind them if that can be had. 0: there is no such place.
 */
uint64_t place_find(const struct area_set *map, uint64_t top, uint64_t hint, uint64_t len,
		    bool room);
/* The same below PM_LOW_TOP. */
uint64_t place_find_low(const struct area_set *map, uint64_t hint, uint64_t len);

/* --- home_call.c: the address space calls ----------------------------------------------------- */

int home_mmap(struct memory *m, uint32_t proc, const struct pm_mmap_req *req,
	      struct pm_range_rep *rep) __must_check;
int home_munmap(struct memory *m, uint32_t proc, const struct pm_range_req *req,
		struct pm_range_rep *rep) __must_check;
int home_mprotect(struct memory *m, uint32_t proc, const struct pm_range_req *req,
		  struct pm_range_rep *rep) __must_check;
int home_mremap(struct memory *m, uint32_t proc, const struct pm_mremap_req *req,
		struct pm_range_rep *rep) __must_check;
int home_brk(struct memory *m, uint32_t proc, const struct pm_brk_req *req,
	     struct pm_range_rep *rep) __must_check;
/* The parts of replies; @rep is empty at first. */
void reply_init(struct pm_range_rep *rep);
void reply_vregions(struct memory *m, const struct home_space *as, uint64_t start, uint64_t end,
		    struct pm_range_rep *rep) __must_hold(&as->mutex);
void reply_grants(const struct grants *g, struct pm_range_rep *rep);
/* No more credits than the range has pages. */
uint32_t home_wanted(uint32_t want, uint64_t len);
/*
 * Give vRegion @index to @to; the space is locked. -ETIMEDOUT: it may have been moved or not, and
 * the next call finds out; a repetition with the same @to continues the move.
 */
int home_move_locked(struct memory *m, struct home_space *as, uint64_t index, uint32_t to)
	__must_hold(&as->mutex) __must_check;
/*
 * Tell @to that @from, and no other node, sends it pages of @as; @from 0: none does.  0, or what
 * the call ended with.
 */
int home_expect(struct memory *m, const struct home_space *as, uint32_t to, uint32_t from);
/* Find out the result of a move that had no answer.  -ETIMEDOUT: still not known. */
int home_move_resolve(struct memory *m, struct home_space *as) __must_hold(&as->mutex) __must_check;
/*
 * Give vRegion @index of @aspace to node @to.  @aspace 0: the first space that has one; @index
 * UINT64_MAX: its first active vRegion that @to does not own.
 */
int home_move_vregion(struct memory *m, uint64_t aspace, uint64_t index, uint32_t to) __must_check;

/*
 * The owner @from of a vRegion is short of frames: give it away as @req says.  -EAGAIN: another
 * call of the space is under way; -ESTALE: it is not @from's.
 */
int home_relieve(struct memory *m, uint32_t from, const struct mm_relieve_req *req) __must_check;

/* --- home_lease.c: ranges that a processor manages by itself --------------------------------- */

/*
 * Map the lease that @req asks for: *@v. -ENOMEM: it cannot be had; others as span_map().
 */
int home_lease_map(struct memory *m, struct home_space *as, const struct pm_mmap_req *req,
		   struct grants *grants, struct pm_vma *v) __must_hold(&as->mutex) __must_check;
/*
 * Make the lease of what is mapped that @req asks for. -ENOMEM: it cannot be had, and nothing has
 * changed; others as span_protect().
 */
int home_lease_protect(struct memory *m, struct home_space *as, const struct pm_range_req *req,
		       struct pm_range_rep *rep) __must_hold(&as->mutex) __must_check;
/* The break with the lease that @req asks for behind it; 0: there is none to be had. */
uint64_t home_lease_brk(struct memory *m, const struct home_space *as, const struct pm_brk_req *req)
	__must_hold(&as->mutex);
/* Parts of leases are given back, or converted. */
int home_lease(struct memory *m, uint32_t proc, const struct pm_lease_req *req,
	       struct pm_range_rep *rep) __must_check;

/* --- home_fork.c: fork, and spaces without mappings ------------------------------------------- */

int home_fork(struct memory *m, uint32_t proc, const struct pm_fork_req *req,
	      struct pm_range_rep *rep) __must_check;
/* @body: the request as it came, which goes on to the owners. */
int home_collapse(struct memory *m, uint32_t proc, const struct pm_collapse_req *req,
		  const void *body, uint32_t len) __must_check;
int home_discard(struct memory *m, uint32_t proc, const struct pm_discard_req *req,
		 const void *body, uint32_t len) __must_check;
/* @incarn: of @proc, as the request came; see home_space_create(). */
int home_make_pages(struct memory *m, uint32_t proc, uint32_t incarn,
		    const struct pm_space_req *req, struct pm_range_rep *rep) __must_check;
int home_vregions(struct memory *m, uint32_t proc, const struct pm_vregions_req *req,
		  struct pm_range_rep *rep) __must_check;

/* --- loader.c --------------------------------------------------------------------------------- */

/* @incarn: of @proc, as the request came; see home_space_create(). */
int home_exec(struct memory *m, uint32_t proc, uint32_t incarn, const struct pm_exec_req *req,
	      struct pm_exec_rep *rep) __must_check;
