/* SPDX-License-Identifier: MIT */
/*
 * Chains of anonymous objects: the private pages of address spaces.
 *
 * Invariants:	aspace.anon is the top of a chain, its only object that gets new pages; a top is the
 *		shadow of at most one backing object, and backs none.  A backing object is frozen:
 *		it has two shadows or more, or one until the two have collapsed.
 * Locking:	the top of a space changes only with its map_lock, its whole range blocked and no
 *		fault under way: a thread that has map_lock, or is inside a fault, has a top that
 *		stays.  The chain spinlock (RANK_SPIN_MONITOR) guards backing and shadows, and for
 *		each object behind a top how many threads walk there, and whether it collapses. A
 *		collapse begins when nobody walks at either of the two, and a thread that comes to
 *		one of them waits until it is over: so an object in which a page is looked for, or
 *		fetched, stays what it is, and no lock is held over a message.
 * See:		docs/design/fork.md
 */
#pragma once

#include <lib/compiler.h>
#include <processor/excache/object.h>

#include "aspace.h"

struct line;

/* --- life: aspace.c and the objects' end ----------------------------------------------- */

void anon_add_space(struct aspace *as);
/*
 * The space that was made next after @as, or the first of all (NULL): referenced, and @as is put.
 * NULL: there is none.
 */
struct aspace *anon_next_space(struct aspace *as);
/* From here on @as is not found through its objects. */
void anon_remove_space(struct aspace *as);
/*
 * @obj, whose last reference is gone, leaves the object behind it. That one is returned if it is
 * gone with it; if it has one shadow left, *collapse says into what it can
 * collapse: anon_collapse_soon() does that.
 */
struct object *anon_unchain(struct object *obj, struct anon_collapse *collapse);
void anon_init(void (*kill_failed)(void));
/* An object with one reference and no page, which no home knows yet.  ERR_PTR(-ENOMEM). */
struct object *anon_create(uint64_t id, uint32_t home, uint64_t seed);
/* Frames of memory node @node (0: of all) that the chain of @as has. Any thread. */
uint64_t anon_frames(struct aspace *as, uint32_t node);
/*
 * Add the private pages that @as has to @out: by number, with some that it has had before. Sleeps.
 * -ENOMEM, -EINTR.
 */
int anon_pages(struct aspace *as, struct page_bits *out) __must_check;
/* Every space that can see @obj is marked, and its tasks are killed. Polling context. */
void anon_failed(struct object *obj, int error, uint32_t node);
/* The same for every space with private pages at memory node @node, which is gone. Sleeps. */
void anon_node_gone(uint32_t node);

/* --- inside a fault, or with map_lock and the range blocked ------------------------------ */

/*
 * The line of private page @vpn, pinned, and the object of the chain that has it; @seq as for
 * excache_get_at(). -ENOENT: no object has it.
 */
int anon_find(struct aspace *as, uint64_t vpn, uint64_t seq, struct object **from,
	      struct line **line) __must_check;
/*
 * A line of the top with the contents of @src, pinned and dirty, or the one that another thread has
 * made meanwhile. -ENOMEM: no frame credit is left; others as excache_get_at().
 */
int anon_copy(struct aspace *as, uint64_t vpn, uint64_t seq, const struct line *src,
	      struct line **out) __must_check;

/* --- with map_lock and the range blocked ------------------------------------------------- */

/* Make room for anon_hide() of the same range. -ENOMEM. */
int anon_hide_reserve(struct aspace *as, uint64_t first, uint64_t end) __must_check;
/*
 * Pages [first, end) of the objects behind the top are not @as's any more. A thread that is killed
 * while it waits for a collapse ends the space instead: aspace_killed().
 */
void anon_hide(struct aspace *as, uint64_t first, uint64_t end);
/* Copy every page of the range that an object behind the top has into the top. */
int anon_pull(struct aspace *as, uint64_t first, uint64_t end) __must_check;

/* --- with map_lock, everything blocked, no fault under way -------------------------------- */

/*
 * The top of @parent is frozen; @shadow and the top of @child (NULL: none), both new, have it as
 * backing.
 */
void anon_push(struct aspace *parent, struct object *shadow, struct aspace *child);
/*
 * Collapse frozen objects that only @as sees into its top, as many as there are. An error leaves a
 * longer chain; -EAGAIN: without @wait no lock, no write-back and no node is waited for.
 */
int anon_collapse(struct aspace *as, bool wait);
bool anon_can_collapse(struct aspace *as);
/* The same, but owners have pages of what would collapse, so that they must be asked. */
bool anon_collapse_asks(struct aspace *as);

/* --- any context that may sleep ------------------------------------------------------------ */

/*
 * Collapse what is behind frozen @shadow into it, as long as no other shadow sees that. An error
 * leaves a longer chain; @wait as for anon_collapse().
 */
int anon_collapse_frozen(struct object *shadow, bool wait);
/*
 * The same wherever it can be done without waiting in the chain of @as, whose map_lock is held.
 * One where it cannot, referenced, or NULL.
 */
struct object *anon_collapse_behind(struct aspace *as);
