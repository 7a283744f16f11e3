/* SPDX-License-Identifier: MIT */
/*
 * Places: in which frame of its owner a page lies, for pages that may be read there without a
 * request (RPC_CLASS_READ).
 *
 * Flow:	an answer of an owner names a place; place_learn() makes one word of it, which is
 *		kept beside the mark that the page is stored. A miss asks place_begin() where to
 *		read, and says by place_end() that the read is over. places_revoke() makes all
 *		places of an extent void at once, for their owner (client/revoke_server.c).
 * Invariants:	a word names one extent of one life of one owner for ever: an extent that was taken
 *		back is never found by it again, and neither is one that an answer names which was
 *		under way meanwhile. Places are hints: whoever has none, or fails, asks by a
 *		request.
 * Locking:	one leaf lock (RANK_EXCACHE_FREE) for the extents; a map's lock is its object's.
 * Failure:	what owners say is hostile: an owner that names a wrong place is read there, and
 *		what it lets us read it could have sent as well. It cannot make us keep more than
 *		LENT_MAX extents.
 * See:		docs/design/excache.md, "One-sided reads"
 */
#pragma once

#include <lib/compiler.h>
#include <lib/radix.h>
#include <lib/types.h>

/* As an owner told it; extent 0: none. */
struct owner_place {
	uint32_t extent;
	uint32_t rkey;
	uint32_t frame;
};

#define PLACE_NONE 0ull

struct kmem_account;
struct lent;

/* Where to read a page. */
struct read_place {
	struct lent *lent; /* for place_end() */
	uint32_t node;
	uint32_t rkey;
	uint64_t addr;
};

/* The word for what @node told; PLACE_NONE: it is of no use. Never sleeps. */
uint64_t place_learn(uint32_t node, const struct owner_place *place);
/* Where @place is, until place_end(). False: it is void, or one-sided reads are off. */
bool place_begin(uint64_t place, struct read_place *out);
/* Is @b in the frame behind that of @a?  Then one read from @a may go on to @b. */
static inline bool place_follows(uint64_t a, uint64_t b)
{
	return b == a + 1 && (uint32_t)b != 0; /* 0: of another extent */
}
/* The read has ended with @err; -EACCES: the owner's device has refused this very read. */
void place_end(struct lent *lent, int err);
/*
 * Places in extent @number of @node are void, with @below those in all with lower numbers too.
 * Returns when reads there are over, or after a second. Sleeps.
 */
void places_revoke(uint32_t node, uint32_t number, bool below);
/* The node is gone; the next one of that id counts its extents anew. */
void places_node_gone(uint32_t node);

/* Places by page, of one object. Locking: the caller's; none of these sleeps. */
struct place_map {
	struct radix_tree chunks;
	struct kmem_account *account; /* NULL: the node's */
};

void place_map_init(struct place_map *m);
/* All that @m has and gets is charged to @account, once in the life of @m. */
void place_map_charge_to(struct place_map *m, struct kmem_account *account);
void place_map_destroy(struct place_map *m);
uint64_t place_map_get(const struct place_map *m, uint64_t page);
/*
 * Without memory for it there is none: all maps have 1/32 of the node's at most, and those of a
 * program grow while it has less than half of what it may cause.
 */
void place_map_set(struct place_map *m, uint64_t page, uint64_t place);
void place_map_clear(struct place_map *m, uint64_t first, uint64_t end);
