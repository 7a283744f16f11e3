/* SPDX-License-Identifier: MIT */
/*
 * mmap, munmap and mprotect of leased memory, without a message.
 *
 * Flow:	a mapping of private memory, anonymous or of a file, is made in a gap, if one is
 *		large enough; else the home is asked for it, and for a lease in its place: of small
 *		mappings and of files a larger one, whose rest is a gap. munmap leaves a gap. A
 *		heap that grows by mprotect into what is reserved for it gets a lease there. A call
 *		that is about leases and other memory first ends the leases (lease_release()), then
 *		goes the way of all calls.
 * Limits:	what a space keeps in gaps is bounded, in number and bytes, and so are the pages
 *		that owners have of them: beyond that gaps are given back, and pages dropped, many
 *		with one message.
 * Failure:	no memory here, or at the home: the call is made without leases. When a home has
 *		none, the gaps of the space are given back and the call is repeated once.
 * See:		docs/design/leases.md
 */
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <processor/excache/home.h>
#include <processor/excache/object.h>

#include "advice.h"
#include "guard.h"
#include "lease.h"
#include "range.h"
#include "remote.h"

#define LARGE     (128ull << 10) /* mappings from this size on get room behind them, at the home */
#define CHUNK_MIN (1ull << 20)   /* leased for small mappings at first, then twice as much */
#define CHUNK_MAX (16ull << 20)
#define KEEP_MAX  (32ull << 20) /* bytes of gaps that a space keeps */
#define KEEP_ONE  (8ull << 20)  /* one mapping above this is not leased */
#define FILE_MAX  (64ull << 20) /* the same of a file: a library stays mapped */
#define STALE_MAX 1024u         /* pages of gaps that owners may have */

static bool param_lease = true;
BOOT_PARAM("mm.lease", bool, param_lease,
	   "map and unmap private anonymous memory in leased ranges, without messages");

COUNTER(lease_maps, "lease.maps", "mappings made in leases, without a message");
COUNTER(lease_unmaps, "lease.unmaps", "ranges unmapped in leases, without a message");
COUNTER(lease_protects, "lease.protects", "ranges of leases protected, without a message");
COUNTER(lease_got, "lease.leases", "leases that homes have given");
COUNTER(lease_none, "lease.refused", "leases that homes have not given: only the mapping");

/* A small mapping at a place that must be free. */
static bool is_small_at(const struct map_request *req)
{
	return (req->flags & MAPPING_FIXED_NOREPLACE) && req->len < LARGE;
}

static bool is_file(const struct map_request *req)
{
	return req->object && req->object->kind == OBJECT_FILE;
}

/*
 * May the mapping be leased? Memory that is charged as a lease is, wherever it lies; for programs
 * that make many at places of their own choice, small ones that are not; and files, of each of
 * which a program's loader makes several mappings.
 */
static bool may_lease(const struct map_request *req)
{
	if (!param_lease || (req->flags & ~(uint32_t)(MAPPING_FIXED | MAPPING_FIXED_NOREPLACE)))
		return false;
	if (req->object)
		return is_file(req) && req->len <= FILE_MAX;
	return ((req->prot & VMA_PROT_WRITE) || is_small_at(req)) && req->len <= KEEP_ONE;
}

/* Give back all gaps, to have room for others. */
static int gaps_return(struct aspace *as)
{
	return lease_release(as, 0, SPACE_TOP, true);
}

bool lease_may_help(struct aspace *as, int err)
{
	return err == -ENOMEM && as->lease && as->lease->nr && !gaps_return(as);
}

/* --- munmap ---------------------------------------------------------------------------- */

/*
 * Unmap [start, +len), which is leased: it becomes a gap; @remote: the home unmaps it, and it is
 * leased no longer.
 */
static int unmap(struct aspace *as, vaddr_t start, uint64_t len, bool remote)
{
	struct lease_spares spares;
	struct blocked_range r;
	int err = lease_spares_get(as, start, start + len, &spares);

	if (err)
		return err;
	err = range_begin(as, &r, start, len);
	if (err)
		goto out;
	if (remote)
		err = remote_munmap(as, start, len);
	if (err) {
		range_failed(as, start, err);
	} else {
		const uint64_t nr = pages_forget(as, start, len);

		guard_cut(as, start, start + len);
		advice_cut(as, start, start + len);
		locked_cut(as, start, start + len);
		as->lease->stale += remote ? 0 : nr;
		lease_unmap(as, start, start + len, !remote, &spares);
	}
	range_end(as, &r);
out:
	lease_spares_free(&spares);
	return err;
}

int lease_leave(struct aspace *as, vaddr_t start, uint64_t len, bool gaps_only)
{
	const vaddr_t end = start + MIN(len, SPACE_TOP - MIN(start, SPACE_TOP));
	struct lease_part part;
	int err = 0;

	while (!gaps_only && !err && lease_next_file(as, start, end, &part))
		err = unmap(as, part.start, part.end - part.start, true);
	return err ? err : lease_release(as, start, end, gaps_only);
}

/* LEASE_NOT: the leases that the call reaches have ended, and it goes the way of all calls. */
static int leave_and_go_on(struct aspace *as, vaddr_t start, uint64_t len, bool gaps_only)
{
	const int err = lease_leave(as, start, len, gaps_only);

	return err ? err : LEASE_NOT;
}

/* Owners keep some old pages of gaps, not any number of them. */
static int stale_check(struct aspace *as)
{
	int err;

	if (as->lease->stale <= STALE_MAX)
		return 0;
	err = lease_discard(as);
	if (!err)
		as->lease->stale = 0;
	else if (err != -ENOMEM)
		range_failed(as, as->lease->gaps[0].start, err);
	return err == -ENOMEM ? 0 : err;
}

/* Is there room for one more gap of @len bytes, now or when others have been given back? */
static bool may_keep(struct aspace *as, vaddr_t start, uint64_t len)
{
	const vaddr_t end = start + len;

	if (len > KEEP_ONE)
		return false;
	if (as->lease->bytes + len <= KEEP_MAX && lease_gap_fits(as, start, end))
		return true;
	return !gaps_return(as) && lease_gap_fits(as, start, end);
}

int lease_munmap(struct aspace *as, vaddr_t start, uint64_t len)
{
	const enum lease_cover cover = lease_cover(as, start, start + len);
	bool keep;
	int err;

	if (cover == LEASE_NONE)
		return LEASE_NOT;
	if (cover == LEASE_SOME)
		return leave_and_go_on(as, start, len, false);
	if (cover == LEASE_GAP)
		return 0;
	keep = may_keep(as, start, len);
	/* Gaps in it may have been given back meanwhile. */
	if (!keep || lease_cover(as, start, start + len) == LEASE_SOME)
		return unmap(as, start, len, true);
	err = unmap(as, start, len, false);
	if (!err)
		err = stale_check(as);
	counter_inc(&lease_unmaps);
	return err;
}

/* --- mprotect -------------------------------------------------------------------------- */

/* [start, end) is leased, and mapped. */
static int protect(struct aspace *as, vaddr_t start, vaddr_t end, uint32_t prot)
{
	struct lease_spares spares;
	struct blocked_range r;
	int err = lease_spares_get(as, start, end, &spares);

	if (err)
		return err;
	aspace_block(as, &r, start, end);
	lease_protect(as, start, end, prot, &spares);
	aspace_unmap_range(as, start, end);
	aspace_unblock(as, &r);
	lease_spares_free(&spares);
	return 0;
}

/* As Linux: what stands before a hole is changed, then the hole is an error. */
int lease_mprotect(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot)
{
	const enum lease_cover cover = lease_cover(as, start, start + len);
	vaddr_t until;
	int err;

	if (cover == LEASE_NONE)
		return LEASE_NOT;
	ASSERT(cover != LEASE_SOME);
	until = lease_mapped_until(as, start, start + len);
	err = until > start ? protect(as, start, until, prot) : 0;
	counter_inc(&lease_protects);
	return err ? err : until < start + len ? -ENOMEM : 0;
}

/*
 * Ask the home to lease what begins at @part->start, a piece of some size: heaps grow by pages. The
 * piece ends before the mapping does, or there would be nothing to grow into.
 */
static int grow(struct aspace *as, struct lease_part *part, uint64_t len, uint32_t prot,
		struct vma *fresh[2])
{
	struct lease_part leased;
	int err;

	err = remote_mprotect_lease(as, part->start, len, prot, part->end - part->start, &leased);
	if (lease_may_help(as, err))
		err = remote_mprotect_lease(as, part->start, len, prot, part->end - part->start,
					    &leased);
	if (err)
		return err;
	if (!leased.end) {
		counter_inc(&lease_none);
		aspace_protect_vmas(as, part->start, part->start + len, prot);
		return 0;
	}
	if (leased.start != part->start || leased.end != part->end) {
		object_fail(as->anon, -EPROTO, part->start >> PAGE_SHIFT);
		return -EPROTO;
	}
	counter_inc(&lease_got);
	lease_adopt(as, part, part->start + len, prot, fresh);
	return 0;
}

int lease_grow(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot)
{
	struct blocked_range rest;
	struct vma *fresh[2];
	struct lease_part part;
	struct lease *l;
	int err;

	assert_mutex_held(&as->map_lock);
	if (!param_lease || !(prot & VMA_PROT_WRITE) || len >= CHUNK_MIN ||
	    !lease_is_reserved(as, start, len, &part) || part.end - start <= len || lease_make(as))
		return LEASE_NOT;
	l = as->lease;
	l->chunk = l->chunk ? MIN(2 * l->chunk, CHUNK_MAX) : CHUNK_MIN;
	part.end = MIN(part.end, start + l->chunk);
	fresh[0] = kmalloc(sizeof(*fresh[0]));
	fresh[1] = kmalloc(sizeof(*fresh[1]));
	err = LEASE_NOT;
	if (fresh[0] && fresh[1]) {
		aspace_block(as, &rest, start + len, part.end);
		err = grow(as, &part, len, prot, fresh);
		if (err)
			aspace_clear_vmas(as, start, part.end);
		aspace_unblock(as, &rest);
	}
	kfree(fresh[0]);
	kfree(fresh[1]);
	return err;
}

/* --- mmap ------------------------------------------------------------------------------ */

/*
 * Before @req comes over leased memory, which is blocked: a page of a file is written back seldom,
 * so owners would keep what they store there; they drop it. *dropped: nothing is left there.
 */
static int drop_stored(struct aspace *as, const struct map_request *req, bool *dropped)
{
	const struct page_range range = { .first = req->addr >> PAGE_SHIFT,
					  .end = (req->addr + req->len) >> PAGE_SHIFT };
	int err;

	*dropped = false;
	if (!is_file(req) || !object_stores_any(as->anon, range.first, range.end))
		return 0;
	err = home_discard(as->anon, &range, 1);
	*dropped = !err;
	if (err == -ENOMEM) /* they keep some, as those of gaps */
		return 0;
	if (err)
		range_failed(as, req->addr, err);
	return err;
}

/* The place is given, and all of it is leased: in the place of what is mapped there. */
static int map_over(struct aspace *as, const struct map_request *req)
{
	const vaddr_t end = req->addr + req->len;
	struct lease_spares spares;
	struct blocked_range r;
	bool dropped;
	int err = lease_spares_get(as, req->addr, end, &spares);

	if (err)
		return err;
	err = range_begin(as, &r, req->addr, req->len);
	if (err)
		goto out;
	err = drop_stored(as, req, &dropped);
	if (!err) {
		const uint64_t nr = pages_forget(as, req->addr, req->len);

		as->lease->stale += dropped ? 0 : nr;
		guard_cut(as, req->addr, end);
		advice_cut(as, req->addr, end);
		locked_cut(as, req->addr, end);
		lease_unmap(as, req->addr, end, true, &spares);
		err = lease_map(as, req->addr, end, req);
	}
	range_end(as, &r);
out:
	lease_spares_free(&spares);
	return err ? err : stale_check(as);
}

/* An address is asked for, which may be in a lease. */
static int map_at(struct aspace *as, const struct map_request *req, vaddr_t *addr)
{
	const enum lease_cover cover = lease_cover(as, req->addr, req->addr + req->len);
	const bool fixed = req->flags & MAPPING_FIXED;

	if (cover == LEASE_NONE)
		return LEASE_NOT;
	if (may_lease(req) && lease_gap_fits(as, req->addr, req->addr + req->len) &&
	    as->lease->nr < LEASE_GAPS && (cover == LEASE_GAP || (fixed && cover != LEASE_SOME))) {
		*addr = req->addr;
		return cover == LEASE_GAP ? lease_map(as, *addr, *addr + req->len, req)
					  : map_over(as, req);
	}
	return leave_and_go_on(as, req->addr, req->len, !fixed);
}

/*
 * Ask for a lease together with the mapping: for more than a small one, or one of a file, as others
 * will come.
 */
static void want_lease(struct aspace *as, struct map_request *req)
{
	struct lease *l;

	if (lease_make(as) || as->lease->nr == LEASE_GAPS)
		return;
	l = as->lease;
	req->lease_pages = (uint32_t)(req->len >> PAGE_SHIFT);
	if ((req->len >= LARGE && !req->object) || l->nr + 2 > LEASE_GAPS ||
	    l->bytes > KEEP_MAX / 2)
		return;
	do
		l->chunk = l->chunk ? MIN(2 * l->chunk, CHUNK_MAX) : CHUNK_MIN;
	while (l->chunk < MIN(req->len, CHUNK_MAX));
	req->lease_pages = (uint32_t)(MAX(l->chunk, req->len) >> PAGE_SHIFT);
}

/*
 * Programs that choose places for small mappings make many, upwards and with holes between them.
 * So there is room for more gaps, and a lease that begins there.
 */
static int map_small_at(struct aspace *as, struct map_request *req, vaddr_t *addr)
{
	int err = as->lease && as->lease->nr + 2 > LEASE_GAPS ? gaps_return(as) : 0;

	if (err)
		return err;
	err = as->lease ? map_at(as, req, addr) : LEASE_NOT;
	if (err == LEASE_NOT)
		want_lease(as, req);
	return err;
}

int lease_mmap(struct aspace *as, struct map_request *req, vaddr_t *addr)
{
	vaddr_t end;
	int err;

	req->lease_pages = 0;
	if (is_small_at(req) && may_lease(req)) {
		err = map_small_at(as, req, addr);
	} else if (req->addr || (req->flags & (MAPPING_FIXED | MAPPING_FIXED_NOREPLACE))) {
		err = as->lease ? map_at(as, req, addr) : LEASE_NOT;
	} else if (may_lease(req)) {
		end = as->lease ? lease_find(as, req->len, req->len >= LARGE && !req->object) : 0;
		if (!end) {
			want_lease(as, req);
			return LEASE_NOT;
		}
		*addr = end - req->len;
		err = lease_map(as, *addr, end, req);
	} else {
		return LEASE_NOT;
	}
	if (!err)
		counter_inc(&lease_maps);
	return err;
}

/*
 * The home has given a lease: the mapping is at its end, as the next ones will be below it, or at
 * the place that was asked for.
 */
static int take_lease(struct aspace *as, const struct map_request *req,
		      const struct lease_part *leased, vaddr_t *addr)
{
	const uint64_t len = leased->end - leased->start;
	const bool at = req->flags & MAPPING_FIXED_NOREPLACE;

	if (len != (uint64_t)req->lease_pages << PAGE_SHIFT || leased->start != *addr ||
	    (at && leased->start != req->addr) ||
	    lease_cover(as, leased->start, leased->end) != LEASE_NONE) {
		object_fail(as->anon, -EPROTO, leased->start >> PAGE_SHIFT);
		return -EPROTO;
	}
	counter_inc(&lease_got);
	lease_gap_add(as, leased->start, leased->end, at);
	*addr = at ? leased->start : leased->end - req->len;
	return lease_map(as, *addr, *addr + req->len, req);
}

int lease_remote_mmap(struct aspace *as, struct map_request *req, vaddr_t *addr)
{
	struct lease_part leased;
	int err = remote_mmap(as, req, addr, &leased);

	if (lease_may_help(as, err))
		err = remote_mmap(as, req, addr, &leased);
	if (err || !req->lease_pages)
		return err;
	if (leased.end)
		return take_lease(as, req, &leased, addr);
	counter_inc(&lease_none);
	return 0;
}
