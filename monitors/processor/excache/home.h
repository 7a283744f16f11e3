/* SPDX-License-Identifier: MIT */
/*
 * Requests to the home of a space, one function each.
 *
 * Context:	all sleep for a reply; no lock but aspace.map_lock may be held.
 * Failure:	the peer's errno, or -EHOSTDOWN, -ETIMEDOUT, -ESTALE; a malformed reply is -EPROTO.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct home_reply;
struct object;

/*
 * The owner of vRegion @index by the home's answer, which is entered into the copy as well. The
 * answer counts even if the copy has become newer meanwhile: who is not the owner any more
 * redirects. -EFAULT: there is none.
 */
int home_vregion_owner(struct object *obj, uint64_t index, uint32_t *owner) __must_check;
/*
 * The home was asked to make the space of @obj, and the attempt ended with @err: if it may have
 * made it all the same, it hears of its end.
 */
void home_no_answer(struct object *obj, int err);
#define HOME_DESTROY_MAX 64
/*
 * Tell a home that 1 to HOME_DESTROY_MAX spaces are gone. Failures are logged: it frees them when
 * this processor leaves.
 */
void home_destroy_many(uint32_t home, const uint64_t *ids, uint32_t nr);

/*
 * @from is frozen; @parent and @child, both new, get its mappings and copies of its vRegion
 * entries. An error has changed nothing, or, if the home does not say whether it has, @from is
 * failed: its programs end. As the thread is to be killed: -EINTR, nothing has changed; -ECANCELED,
 * the home may do it yet: it is told then that @parent and @child have ended, and nothing that
 * shares @from may go on.
 */
#define HOME_FORK_BODY 32
struct home_fork { /* one that is under way */
	struct object *from, *parent, *child;
	uint8_t body[HOME_FORK_BODY]; /* the message */
	struct home_reply *reply;
};
/* Send it.  A home_fork_end() must follow, which has the answer. */
void home_fork_begin(struct home_fork *f, struct object *from, struct object *parent,
		     struct object *child);
int home_fork_end(struct home_fork *f) __must_check;

struct page_range {
	uint64_t first;
	uint64_t end; /* exclusive; not first */
};
#define HOME_RANGES_MAX 256
struct page_ranges { /* about 4 KiB: not for a kernel stack */
	uint32_t nr;
	struct page_range ranges[HOME_RANGES_MAX]; /* ascending, without overlap */
};
/*
 * The space of @from, but for the pages of @drop, becomes part of @into's. After an error the
 * caller repeats it later: some owners may have done their part.
 */
int home_collapse(struct object *from, const struct object *into, const struct page_ranges *drop)
	__must_check;
/*
 * The owners drop these pages, 1 to HOME_RANGES_MAX ranges, of which no line is left. -EINTR and
 * -ECANCELED as home_call(): after the latter they may do it later, so no page of the ranges may
 * reach them before the space ends.
 */
int home_discard(struct object *obj, const struct page_range *ranges, uint32_t nr) __must_check;

/*
 * Introduce a shared object: @len bytes, active at once; charged if it is reserved. After a kill,
 * -EINTR, *@left: it goes on, and ends with object_introduced().
 */
int home_introduce(struct object *obj, uint64_t len, bool *left) __must_check;
