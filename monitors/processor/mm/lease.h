/* SPDX-License-Identifier: MIT */
/*
 * Leases: ranges of an address space in which this processor maps, unmaps and protects private
 * memory by itself: anonymous, or of files.
 *
 * Invariants:	a leased page is in a vma with VMA_LEASE or in a gap, not in both. These hold:
 *		no home and no owner is asked about it. To them a lease is one writable
 *		mapping, charged in full. Nothing of a gap has a line, a page table entry or a
 *		stored page; its owners may have old pages of it, which nobody reads.
 * Locking:	aspace.map_lock for all changes, with aspace.lock while vmas and gaps change.
 * Failure:	what has no room or no memory here is done as without leases.
 * See:		docs/design/leases.md
 */
#pragma once

#include <lib/compiler.h>

#include "aspace.h"

struct map_request;

#define LEASE_GAPS 64u /* of a space; more are given back */

struct lease_part {
	vaddr_t start;
	vaddr_t end;
	bool mapped;   /* else a gap */
	bool file;     /* a mapping that shows a file: no home hears of it */
	uint32_t prot; /* of what is mapped */
};

struct lease {
	uint64_t number; /* map_lock: of the last batch */
	uint64_t chunk;  /* map_lock: bytes of the next lease for small mappings */
	uint64_t stale;  /* map_lock: pages of gaps that owners may have */
	uint32_t nr;     /* gaps; aspace.lock */
	uint64_t bytes;  /* of all gaps; aspace.lock */
	struct {         /* by address, with something else between any two; aspace.lock */
		vaddr_t start, end;
		bool chosen; /* at a place that the program chose: only for what it places there */
	} gaps[LEASE_GAPS];
};

/* --- lease.c: what there is ------------------------------------------------------------- */

/* Is @addr leased and not mapped? Any context. */
bool lease_is_gap(struct aspace *as, vaddr_t addr);
/* At the end of @as. */
void lease_end(struct aspace *as);
/* fork: @child, which nobody knows yet, has the leases of @parent (map_lock held). -ENOMEM. */
int lease_copy(struct aspace *parent, struct aspace *child) __must_check;

/* --- lease.c: changes; map_lock is held ------------------------------------------------- */

/* Make as->lease, if there is none. -ENOMEM. */
int lease_make(struct aspace *as) __must_check;
/* May [start, end), which is nothing, become a gap? */
bool lease_gap_fits(struct aspace *as, vaddr_t start, vaddr_t end);
/* It does. @chosen: the program chose the place. */
void lease_gap_add(struct aspace *as, vaddr_t start, vaddr_t end, bool chosen);
/*
 * The end of the gap to be used for @len bytes, of which they take the last ones; 0: there is none
 * but at places that the program chose, where nothing comes to lie unasked.
 * @room: it shall be possible that there is room behind it.
 */
vaddr_t lease_find(struct aspace *as, uint64_t len, bool room);
/* How [start, end) is leased. */
enum lease_cover {
	LEASE_NONE,  /* no page of it is */
	LEASE_SOME,  /* some of it, at least */
	LEASE_GAP,   /* all of it, and none is mapped */
	LEASE_HOLES, /* all of it, and some is not mapped */
	LEASE_FULL,  /* all of it is mapped */
};
enum lease_cover lease_cover(struct aspace *as, vaddr_t start, vaddr_t end);
/* How many bytes of [start, +len), not empty, are all leased, or all not, from its start on. */
uint64_t lease_uniform(struct aspace *as, vaddr_t start, uint64_t len);
/* Until where [start, end), which is leased, is mapped without a hole. */
vaddr_t lease_mapped_until(struct aspace *as, vaddr_t start, vaddr_t end);
/*
 * [start, end), which is a gap or becomes leased now, is mapped, with the rights and the file of
 * @req. -ENOMEM.
 */
int lease_map(struct aspace *as, vaddr_t start, vaddr_t end, const struct map_request *req)
	__must_check;
/* The lowest leased mapping of a file in [start, end), clipped to it; false: there is none. */
bool lease_next_file(struct aspace *as, vaddr_t start, vaddr_t end, struct lease_part *part);
/*
 * Vmas that changes of [start, end) may need, for lease_unmap() and lease_protect(); those that are
 * left are freed by lease_spares_free(). -ENOMEM.
 */
struct lease_spares {
	struct vma *vma[2];
};
int lease_spares_get(struct aspace *as, vaddr_t start, vaddr_t end, struct lease_spares *s)
	__must_check;
void lease_spares_free(struct lease_spares *s);
/* Unmap [start, end), which is leased; @gap: it is leased still. */
void lease_unmap(struct aspace *as, vaddr_t start, vaddr_t end, bool gap, struct lease_spares *s);
/* Its mappings get @prot. */
void lease_protect(struct aspace *as, vaddr_t start, vaddr_t end, uint32_t prot,
		   struct lease_spares *s);
/*
 * Is [start, +len) part of a mapping of private anonymous memory that is not leased and may not be
 * written, as this node knows it? *part: from @start to its end.
 */
bool lease_is_reserved(struct aspace *as, vaddr_t start, uint64_t len, struct lease_part *part);
/*
 * The home has made a lease of *part, which keeps its pages: it is mapped with @part->prot, up to
 * @until with @prot. Both parts have bytes; @fresh is used up. The range is blocked.
 */
void lease_adopt(struct aspace *as, const struct lease_part *part, vaddr_t until, uint32_t prot,
		 struct vma *fresh[2]);
/*
 * Tell the home of all leases in [start, end): gaps are given back, and vmas, unless @gaps_only,
 * become mappings as any others; each as a whole. They show no file. -ENOMEM: some are left; after
 * other errors the space is to end, see range_failed().
 */
int lease_release(struct aspace *as, vaddr_t start, vaddr_t end, bool gaps_only) __must_check;
/* Owners drop the pages that they may have of gaps. Errors as of home_discard(). */
int lease_discard(struct aspace *as) __must_check;

/* --- lease_calls.c: the calls; map_lock is held ------------------------------------------ */

/*
 * An mmap. 0: it is done. LEASE_NOT: to be done by remote calls, with what *req says now; no lease
 * is in their way. Errors are its result.
 */
#define LEASE_NOT 1
int lease_mmap(struct aspace *as, struct map_request *req, vaddr_t *addr) __must_check;
/* remote_mmap(), with the lease that *req asks for; errors as of that. */
int lease_remote_mmap(struct aspace *as, struct map_request *req, vaddr_t *addr) __must_check;
/* The same for a munmap, and for a mprotect of what is all leased, or all not. */
int lease_munmap(struct aspace *as, vaddr_t start, uint64_t len) __must_check;
int lease_mprotect(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot) __must_check;
/*
 * An mprotect of memory that is not leased and whose range is blocked: a heap that grows into
 * memory that is reserved for it gets a lease there. 0: it is done. LEASE_NOT: nothing has changed.
 * Errors as of remote_mprotect(): what the range is, the home knows.
 */
int lease_grow(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot) __must_check;
/*
 * Before a call whose remote part is about [start, +len): see lease_release(). Unless @gaps_only,
 * mappings of files are unmapped there, so the call unmaps or replaces all of it.
 */
int lease_leave(struct aspace *as, vaddr_t start, uint64_t len, bool gaps_only) __must_check;
/* A call found no memory: have gaps been given back, so that it may be asked again? */
bool lease_may_help(struct aspace *as, int err);
