/* SPDX-License-Identifier: MIT */
/*
 * Leases: which ranges there are, what is mapped in them, and the batches that end them.
 *
 * Flow:	the leased vmas are in the space's tree with the others, and joined where they
 *		match; gaps are a short list by address. A change moves a range from the one to the
 *		other under aspace.lock, so that a fault sees one of the two.
 * Locking:	see lease.h; memory is allocated before aspace.lock is taken. Leased vmas and gaps
 *		stay while map_lock is held: the answer to a fault's question about another range
 *		does not change them.
 * Failure:	a batch that is done in part leaves the rest leased.
 */
#include "lease.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/excache/home.h>

#include "range.h"
#include "remote.h"
#include "vma.h"

static_assert(LEASE_GAPS <= HOME_RANGES_MAX, "one message discards the pages of all gaps");

COUNTER(lease_batches, "lease.batches", "messages that told a home of parts of leases");
COUNTER(lease_returned, "lease.returned", "gaps in leases that were given back");
COUNTER(lease_converted, "lease.converted", "leased mappings that became mappings as any others");
COUNTER(lease_discards, "lease.discards", "messages that dropped old pages of gaps");

static uint64_t nr_spaces; /* atomic */

static uint64_t read_nr_spaces(void)
{
	return __atomic_load_n(&nr_spaces, __ATOMIC_RELAXED);
}
GAUGE(lease_spaces, "lease.spaces", "address spaces that have had a lease", read_nr_spaces);

/* --- gaps ------------------------------------------------------------------------------ */

/* The first gap that ends above @addr; lease->nr: none. */
static uint32_t gap_above_locked(struct aspace *as, const struct lease *l, vaddr_t addr)
{
	uint32_t low = 0, high = l->nr;

	assert_spin_held(&as->lock);
	while (low < high) {
		const uint32_t mid = (low + high) / 2;

		if (l->gaps[mid].end > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static bool gap_holds_locked(struct aspace *as, const struct lease *l, uint32_t i, vaddr_t addr)
{
	assert_spin_held(&as->lock);
	return i < l->nr && l->gaps[i].start <= addr;
}

static void gap_remove_locked(struct aspace *as, struct lease *l, uint32_t i)
{
	assert_spin_held(&as->lock);
	l->bytes -= l->gaps[i].end - l->gaps[i].start;
	l->nr--;
	memmove(&l->gaps[i], &l->gaps[i + 1], (l->nr - i) * sizeof(l->gaps[0]));
}

/* [start, end) becomes a gap, or part of one or two that it touches. */
static void gap_add_locked(struct aspace *as, struct lease *l, vaddr_t start, vaddr_t end,
			   bool chosen)
{
	uint32_t i;

	assert_spin_held(&as->lock);
	i = gap_above_locked(as, l, start);
	ASSERT(i == l->nr || l->gaps[i].start >= end);
	if (i < l->nr && l->gaps[i].start == end) {
		end = l->gaps[i].end;
		chosen |= l->gaps[i].chosen;
		gap_remove_locked(as, l, i);
	}
	if (i > 0 && l->gaps[i - 1].end == start) {
		i--;
		start = l->gaps[i].start;
		chosen |= l->gaps[i].chosen;
		gap_remove_locked(as, l, i);
	}
	BUG_ON(l->nr == LEASE_GAPS); /* lease_gap_fits() */
	memmove(&l->gaps[i + 1], &l->gaps[i], (l->nr - i) * sizeof(l->gaps[0]));
	l->gaps[i].start = start;
	l->gaps[i].end = end;
	l->gaps[i].chosen = chosen;
	l->nr++;
	l->bytes += end - start;
}

/*
 * [start, end) is no gap any more. A gap on both sides of it stays, so there must be room for one
 * more then.
 */
static void gap_take_locked(struct aspace *as, struct lease *l, vaddr_t start, vaddr_t end)
{
	uint32_t i;

	assert_spin_held(&as->lock);
	i = gap_above_locked(as, l, start);
	while (i < l->nr && l->gaps[i].start < end) {
		const vaddr_t low = l->gaps[i].start, high = l->gaps[i].end;
		const bool chosen = l->gaps[i].chosen;

		gap_remove_locked(as, l, i);
		if (low < start)
			gap_add_locked(as, l, low, start, chosen);
		if (high > end)
			gap_add_locked(as, l, end, high, chosen);
		i = gap_above_locked(as, l, start);
	}
}

bool lease_is_gap(struct aspace *as, vaddr_t addr)
{
	bool gap = false;

	spin_lock(&as->lock);
	if (as->lease)
		gap = gap_holds_locked(as, as->lease, gap_above_locked(as, as->lease, addr), addr);
	spin_unlock(&as->lock);
	return gap;
}

bool lease_gap_fits(struct aspace *as, vaddr_t start, vaddr_t end)
{
	const struct lease *l = as->lease;
	bool fits;
	uint32_t i;

	assert_mutex_held(&as->map_lock);
	spin_lock(&as->lock);
	i = gap_above_locked(as, l, start);
	/* One that is on both sides of something that goes takes a place of its own, and more. */
	fits = l->nr + 2 <= LEASE_GAPS || (i < l->nr && l->gaps[i].start <= end) ||
	       (i > 0 && l->gaps[i - 1].end == start);
	spin_unlock(&as->lock);
	return fits;
}

void lease_gap_add(struct aspace *as, vaddr_t start, vaddr_t end, bool chosen)
{
	assert_mutex_held(&as->map_lock);
	spin_lock(&as->lock);
	gap_add_locked(as, as->lease, start, end, chosen);
	spin_unlock(&as->lock);
}

vaddr_t lease_find(struct aspace *as, uint64_t len, bool room)
{
	const struct lease *l = as->lease;
	uint64_t best = UINT64_MAX;
	vaddr_t end = 0;

	assert_mutex_held(&as->map_lock);
	spin_lock(&as->lock);
	for (uint32_t i = 0; i < l->nr; i++) {
		const uint64_t size = l->gaps[i].end - l->gaps[i].start;
		const struct vma *v;

		if (l->gaps[i].chosen || size < len || size >= best)
			continue;
		v = room ? vma_first_behind_locked(as, l->gaps[i].end) : NULL;
		if (v && v->start == l->gaps[i].end)
			continue;
		best = size;
		end = l->gaps[i].end;
	}
	spin_unlock(&as->lock);
	return end;
}

/* --- life ------------------------------------------------------------------------------ */

int lease_make(struct aspace *as)
{
	struct lease *l;

	assert_mutex_held(&as->map_lock);
	if (as->lease)
		return 0;
	l = kzalloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	spin_lock(&as->lock);
	as->lease = l;
	spin_unlock(&as->lock);
	__atomic_add_fetch(&nr_spaces, 1, __ATOMIC_RELAXED);
	return 0;
}

void lease_end(struct aspace *as)
{
	if (as->lease)
		__atomic_sub_fetch(&nr_spaces, 1, __ATOMIC_RELAXED);
	kfree(as->lease);
	as->lease = NULL;
}

int lease_copy(struct aspace *parent, struct aspace *child)
{
	struct lease *l;

	assert_mutex_held(&parent->map_lock);
	if (!parent->lease)
		return 0;
	l = kmalloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	*l = *parent->lease;
	spin_lock(&child->lock);
	child->lease = l;
	spin_unlock(&child->lock);
	__atomic_add_fetch(&nr_spaces, 1, __ATOMIC_RELAXED);
	return 0;
}

/* --- vmas ------------------------------------------------------------------------------ */

static bool is_leased(const struct vma *v)
{
	return v && (v->flags & VMA_LEASE);
}

static void vma_add_locked(struct aspace *as, struct vma *v)
{
	assert_spin_held(&as->lock);
	rb_insert(&v->node, &as->vmas, vma_cmp);
	as->nr_vmas++;
}

/* Onto the list behind *gone (linked through node.left), to be freed without the lock. */
static void vma_remove_locked(struct aspace *as, struct vma *v, struct vma **gone)
{
	assert_spin_held(&as->lock);
	if (as->near == v)
		as->near = NULL;
	rb_erase(&v->node, &as->vmas);
	as->nr_vmas--;
	v->node.left = *gone ? &(*gone)->node : NULL;
	*gone = v;
}

static void free_gone(struct vma *gone)
{
	while (gone) {
		struct vma *next = rb_entry_or_null(gone->node.left, struct vma, node);

		vma_release(gone);
		kfree(gone);
		gone = next;
	}
}

/* Is what @next shows the continuation of @v, with the same rights? */
static bool continues(const struct vma *v, const struct vma *next)
{
	if (!is_leased(v) || !is_leased(next) || next->start != v->end || next->prot != v->prot ||
	    next->flags != v->flags || next->file != v->file)
		return false;
	return !v->file || (v->file_bytes == UINT64_MAX && next->file_bytes == UINT64_MAX &&
			    next->pgoff == v->pgoff + ((v->end - v->start) >> PAGE_SHIFT));
}

/* Join @v with the one above it, if they are alike. */
static bool join_locked(struct aspace *as, struct vma *v, struct vma **gone)
{
	struct vma *next = rb_entry_or_null(rb_next(&v->node), struct vma, node);

	assert_spin_held(&as->lock);
	if (!continues(v, next))
		return false;
	v->end = next->end;
	vma_remove_locked(as, next, gone);
	return true;
}

/* The leased anonymous vma that ends at @start, with rights @prot; NULL: there is none. */
static struct vma *vma_below_locked(struct aspace *as, vaddr_t start, uint32_t prot)
{
	struct vma *v;

	assert_spin_held(&as->lock);
	v = start ? vma_first_behind_locked(as, start - 1) : NULL;
	return is_leased(v) && v->end == start && v->prot == prot && !v->file ? v : NULL;
}

static void vma_fill(struct vma *v, vaddr_t start, vaddr_t end, const struct map_request *req)
{
	*v = (struct vma){ .start = start, .end = end, .prot = req->prot, .flags = VMA_LEASE };
	if (!req->object)
		return;
	object_get(req->object);
	v->file = req->object;
	v->pgoff = req->pgoff;
	v->file_bytes = UINT64_MAX;
	v->flags |= VMA_FILE | (req->prot & VMA_PROT_WRITE ? 0 : VMA_PRISTINE);
}

int lease_map(struct aspace *as, vaddr_t start, vaddr_t end, const struct map_request *req)
{
	struct vma *fresh = NULL, *gone = NULL, *v;
	bool joins;

	assert_mutex_held(&as->map_lock);
	spin_lock(&as->lock);
	joins = !req->object && vma_below_locked(as, start, req->prot);
	spin_unlock(&as->lock);
	if (!joins) {
		fresh = kmalloc(sizeof(*fresh));
		if (!fresh)
			return -ENOMEM;
		vma_fill(fresh, start, end, req);
	}
	spin_lock(&as->lock);
	gap_take_locked(as, as->lease, start, end);
	v = fresh ? fresh : vma_below_locked(as, start, req->prot);
	if (fresh)
		vma_add_locked(as, fresh);
	v->end = end;
	(void)join_locked(as, v, &gone);
	as->seq.map++;
	spin_unlock(&as->lock);
	free_gone(gone);
	return 0;
}

/* A border of a change that lies inside a leased vma. */
static bool cuts_locked(struct aspace *as, vaddr_t addr)
{
	const struct vma *v;

	assert_spin_held(&as->lock);
	v = vma_first_behind_locked(as, addr);
	return is_leased(v) && v->start < addr;
}

int lease_spares_get(struct aspace *as, vaddr_t start, vaddr_t end, struct lease_spares *s)
{
	bool cut[2];

	assert_mutex_held(&as->map_lock);
	*s = (struct lease_spares){ 0 };
	spin_lock(&as->lock);
	cut[0] = cuts_locked(as, start);
	cut[1] = cuts_locked(as, end);
	spin_unlock(&as->lock);
	for (int i = 0; i < 2; i++) {
		if (!cut[i])
			continue;
		s->vma[i] = kmalloc(sizeof(struct vma));
		if (!s->vma[i]) {
			lease_spares_free(s);
			return -ENOMEM;
		}
	}
	return 0;
}

void lease_spares_free(struct lease_spares *s)
{
	kfree(s->vma[0]);
	kfree(s->vma[1]);
	*s = (struct lease_spares){ 0 };
}

static void cut_locked(struct aspace *as, vaddr_t addr, struct vma **spare)
{
	struct vma *back = *spare, *v;

	assert_spin_held(&as->lock);
	if (!cuts_locked(as, addr))
		return;
	v = vma_first_behind_locked(as, addr);
	*spare = NULL;
	*back = *v;
	if (back->file)
		object_get(back->file);
	vma_trim_front(back, addr);
	v->end = addr;
	vma_add_locked(as, back);
}

void lease_unmap(struct aspace *as, vaddr_t start, vaddr_t end, bool gap, struct lease_spares *s)
{
	struct vma *gone = NULL, *v;

	assert_mutex_held(&as->map_lock);
	spin_lock(&as->lock);
	cut_locked(as, start, &s->vma[0]);
	cut_locked(as, end, &s->vma[1]);
	while ((v = vma_first_behind_locked(as, start)) && v->start < end) {
		ASSERT(is_leased(v) && v->start >= start && v->end <= end);
		vma_remove_locked(as, v, &gone);
	}
	gap_take_locked(as, as->lease, start, end);
	if (gap)
		gap_add_locked(as, as->lease, start, end, false);
	as->seq.map++;
	spin_unlock(&as->lock);
	free_gone(gone);
}

void lease_protect(struct aspace *as, vaddr_t start, vaddr_t end, uint32_t prot,
		   struct lease_spares *s)
{
	struct vma *gone = NULL, *v;

	assert_mutex_held(&as->map_lock);
	spin_lock(&as->lock);
	cut_locked(as, start, &s->vma[0]);
	cut_locked(as, end, &s->vma[1]);
	for (v = vma_first_behind_locked(as, start); v && v->start < end;
	     v = rb_entry_or_null(rb_next(&v->node), struct vma, node)) {
		ASSERT(is_leased(v));
		v->prot = prot;
		if (prot & VMA_PROT_WRITE)
			v->flags &= ~VMA_PRISTINE;
	}
	v = vma_first_behind_locked(as, start ? start - 1 : 0);
	while (v && v->end <= end) {
		if (!join_locked(as, v, &gone))
			v = rb_entry_or_null(rb_next(&v->node), struct vma, node);
	}
	as->seq.map++;
	spin_unlock(&as->lock);
	free_gone(gone);
}

bool lease_is_reserved(struct aspace *as, vaddr_t start, uint64_t len, struct lease_part *part)
{
	const struct vma *v;
	bool is;

	spin_lock(&as->lock);
	v = vma_first_behind_locked(as, start);
	is = v && v->start <= start && v->end - start >= len && !(v->prot & VMA_PROT_WRITE) &&
	     !(v->flags & ~(uint32_t)VMA_NORESERVE);
	if (is)
		*part = (struct lease_part){ start, v->end, true, false, v->prot };
	spin_unlock(&as->lock);
	return is;
}

void lease_adopt(struct aspace *as, const struct lease_part *part, vaddr_t until, uint32_t prot,
		 struct vma *fresh[2])
{
	struct vma *gone = NULL, *low;

	assert_mutex_held(&as->map_lock);
	aspace_clear_vmas(as, part->start, part->end);
	*fresh[0] = (struct vma){
		.start = part->start, .end = until, .prot = prot, .flags = VMA_LEASE
	};
	*fresh[1] = (struct vma){
		.start = until, .end = part->end, .prot = part->prot, .flags = VMA_LEASE
	};
	spin_lock(&as->lock);
	vma_add_locked(as, fresh[0]);
	vma_add_locked(as, fresh[1]);
	(void)join_locked(as, fresh[1], &gone);
	low = vma_below_locked(as, part->start, prot);
	if (low)
		(void)join_locked(as, low, &gone);
	as->seq.map++;
	spin_unlock(&as->lock);
	free_gone(gone);
	fresh[0] = fresh[1] = NULL;
}

/* --- parts ----------------------------------------------------------------------------- */

/* The lowest leased vma or gap that reaches into [at, end); false: there is none. */
static bool next_part_locked(struct aspace *as, vaddr_t at, vaddr_t end, bool gaps_only,
			     struct lease_part *part)
{
	const struct lease *l = as->lease;
	struct vma *v;
	uint32_t i;
	bool gap;

	assert_spin_held(&as->lock);
	v = gaps_only ? NULL : vma_first_behind_locked(as, at);
	i = gap_above_locked(as, l, at);
	gap = i < l->nr && l->gaps[i].start < end;
	if (gap)
		end = l->gaps[i].start;
	while (v && v->start < end && !is_leased(v))
		v = rb_entry_or_null(rb_next(&v->node), struct vma, node);
	if (v && v->start < end)
		*part = (struct lease_part){ v->start, v->end, true, v->file != NULL, v->prot };
	else if (gap)
		*part = (struct lease_part){ l->gaps[i].start, l->gaps[i].end, false, false, 0 };
	else
		return false;
	return true;
}

bool lease_next_file(struct aspace *as, vaddr_t start, vaddr_t end, struct lease_part *part)
{
	bool found;

	assert_mutex_held(&as->map_lock);
	if (!as->lease)
		return false;
	spin_lock(&as->lock);
	while ((found = next_part_locked(as, start, end, false, part)) && !part->file)
		start = part->end;
	spin_unlock(&as->lock);
	part->start = MAX(part->start, start);
	part->end = MIN(part->end, end);
	return found;
}

enum lease_cover lease_cover(struct aspace *as, vaddr_t start, vaddr_t end)
{
	bool some = false, all = true, gaps = false, mapped = false;
	struct lease_part part;
	vaddr_t at = start;

	assert_mutex_held(&as->map_lock);
	if (!as->lease)
		return LEASE_NONE;
	spin_lock(&as->lock);
	while (all && at < end && next_part_locked(as, at, end, false, &part)) {
		some = true;
		all = part.start <= at;
		mapped |= part.mapped;
		gaps |= !part.mapped;
		at = part.end;
	}
	spin_unlock(&as->lock);
	if (!some)
		return LEASE_NONE;
	if (!all || at < end)
		return LEASE_SOME;
	return !mapped ? LEASE_GAP : gaps ? LEASE_HOLES : LEASE_FULL;
}

uint64_t lease_uniform(struct aspace *as, vaddr_t start, uint64_t len)
{
	const vaddr_t end = start + len;
	struct lease_part part;
	vaddr_t at = start;

	assert_mutex_held(&as->map_lock);
	if (!as->lease)
		return len;
	spin_lock(&as->lock);
	while (at < end && next_part_locked(as, at, end, false, &part) && part.start <= at)
		at = part.end;
	if (at == start) /* not leased, up to what is next */
		at = next_part_locked(as, start, end, false, &part) ? part.start : end;
	spin_unlock(&as->lock);
	return MIN(at, end) - start;
}

vaddr_t lease_mapped_until(struct aspace *as, vaddr_t start, vaddr_t end)
{
	struct lease_part part;
	vaddr_t at = start;

	assert_mutex_held(&as->map_lock);
	spin_lock(&as->lock);
	while (at < end && next_part_locked(as, at, end, false, &part) && part.mapped &&
	       part.start <= at)
		at = part.end;
	spin_unlock(&as->lock);
	return MIN(at, end);
}

/* --- batches --------------------------------------------------------------------------- */

/* The home knows of the part: it is leased no longer. */
static void part_done(struct aspace *as, const struct lease_part *part)
{
	struct vma *v;

	spin_lock(&as->lock);
	if (part->mapped) {
		ASSERT(!part->file);
		v = vma_first_behind_locked(as, part->start);
		ASSERT(is_leased(v) && v->start == part->start && v->end == part->end);
		v->flags &= ~(uint32_t)VMA_LEASE;
	} else {
		gap_take_locked(as, as->lease, part->start, part->end);
	}
	as->seq.map++;
	spin_unlock(&as->lock);
	counter_inc(part->mapped ? &lease_converted : &lease_returned);
}

static int batch_send(struct aspace *as, const struct lease_part *parts, uint32_t nr)
{
	vaddr_t done = 0;
	const int err = remote_lease(as, as->lease->number + 1, parts, nr, &done);

	counter_inc(&lease_batches);
	if (err) {
		range_failed(as, parts[0].start, err);
		return err;
	}
	as->lease->number++;
	for (uint32_t i = 0; i < nr; i++) {
		if (parts[i].end > done)
			return -ENOMEM;
		part_done(as, &parts[i]);
	}
	return 0;
}

int lease_release(struct aspace *as, vaddr_t start, vaddr_t end, bool gaps_only)
{
	struct lease_part *parts = NULL;
	bool more = true;
	int err = 0;

	assert_mutex_held(&as->map_lock);
	if (!as->lease)
		return 0;
	while (more && !err) {
		struct lease_part part;
		uint32_t nr = 0;

		spin_lock(&as->lock);
		while ((more = next_part_locked(as, start, end, gaps_only, &part)) && parts &&
		       nr < LEASE_BATCH) {
			parts[nr++] = part;
			start = part.end;
		}
		spin_unlock(&as->lock);
		if (nr) {
			err = batch_send(as, parts, nr);
		} else if (more) {
			parts = kmalloc(LEASE_BATCH * sizeof(*parts));
			err = parts ? 0 : -ENOMEM;
		}
	}
	kfree(parts);
	return err;
}

int lease_discard(struct aspace *as)
{
	struct page_range *ranges = kmalloc(LEASE_GAPS * sizeof(*ranges));
	const struct lease *l = as->lease;
	uint32_t nr;
	int err = 0;

	assert_mutex_held(&as->map_lock);
	if (!ranges)
		return -ENOMEM;
	spin_lock(&as->lock);
	for (nr = 0; nr < l->nr; nr++)
		ranges[nr] = (struct page_range){ l->gaps[nr].start >> PAGE_SHIFT,
						  l->gaps[nr].end >> PAGE_SHIFT };
	spin_unlock(&as->lock);
	if (nr)
		err = home_discard(as->anon, ranges, nr);
	counter_inc(&lease_discards);
	kfree(ranges);
	return err;
}
