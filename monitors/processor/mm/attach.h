/* SPDX-License-Identifier: MIT */
/*
 * Mappings that are counted by what they show: segments of System V shared memory.
 *
 * Flow:	a space knows which of its ranges show a segment, and tells the segment of each one
 *		that comes and goes: by shmat(), mremap(), munmap(), a mapping put over it, fork
 *		and the end of the space. A range that loses its middle is two.
 * Locking:	aspace.map_lock guards the ranges of a space; attached() is called with it held, or
 *		when nobody else can reach the space.
 * Failure:	what a call may need is made by attach_prepare() before it changes anything.
 */
#pragma once

#include <lib/rbtree.h>
#include <lib/types.h>

struct aspace;

struct attachable {
	/* One mapping more (@by 1) or less (-1); with the last one it may be freed. */
	void (*attached)(struct attachable *what, int by);
};

struct attachment {
	struct rb_node node; /* of aspace.attachments, by start; they do not overlap */
	struct attachable *what;
	vaddr_t start, end;
	vaddr_t base; /* where the first page of @what would be */
	struct attachment *next_spare;
};

/*
 * Before a call that may cut, move or (@adds) add a range. -ENOMEM.
 */
int attach_prepare(struct aspace *as, bool adds) __must_check;
/* [start, +len) shows @what from its start on. */
void attach_add(struct aspace *as, struct attachable *what, vaddr_t start, uint64_t len);
/* [start, end) is not mapped any more. */
void attach_cut(struct aspace *as, vaddr_t start, vaddr_t end);
/* The mapping at [from, +old_len) is at [to, +new_len) now. */
void attach_move(struct aspace *as, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len);
/* The segment that shows at @addr, or NULL. */
struct attachable *attach_at(struct aspace *as, vaddr_t addr);
/* [start, +len), where none was, shows @what, whose first page would be at @base. */
void attach_part(struct aspace *as, struct attachable *what, vaddr_t start, uint64_t len,
		 vaddr_t base);
/* The segment that shows at @from shows at [to, +len) as well. */
void attach_again(struct aspace *as, vaddr_t from, vaddr_t to, uint64_t len);
/* fork: @to, which nobody else knows, has the same. -ENOMEM: some of them. */
int attach_copy(struct aspace *from, struct aspace *to) __must_check;
/* The space ends. */
void attach_end(struct aspace *as);
/*
 * The lowest range at or above @addr whose base is @addr and which shows @what, or anything if that
 * is NULL; NULL: there is none.
 */
const struct attachment *attach_find(struct aspace *as, vaddr_t addr, struct attachable *what);
