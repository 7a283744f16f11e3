/* SPDX-License-Identifier: MIT */
/*
 * Home: one operation over all owners of a range.
 *
 * Flow:	divide the range into parts, one message each: an owner's vRegions of it (MM_MAP
 *		has a limit per message, so an owner may get several). One part: MM_ONCE. Several:
 *		MM_PREPARE to each, then MM_APPLY to each, or MM_ABORT to those that agreed.
 * Failure:	a part that fails in MM_APPLY means that an owner was lost between two messages.
 *		The caller gets the error; what has been mapped is unmapped again as far as owners
 *		answer.
 */
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "memory.h"

struct part {
	uint32_t owner;
	uint64_t charge;
	uint32_t nr;               /* vRegions; MM_MAP only */
	struct mm_map_vregion *vr; /* into span.vregions */
};

struct span {
	struct part *parts;
	size_t nr_parts;
	size_t max_parts;
	struct mm_map_vregion *vregions;
};

static void span_free(struct span *s)
{
	lib_free(s->parts);
	lib_free(s->vregions);
}

static struct part *part_add(struct span *s, uint32_t owner)
{
	struct part *part;

	if (s->nr_parts == s->max_parts) {
		const size_t max = s->max_parts ? 2 * s->max_parts : 4;
		struct part *parts = lib_zalloc(max * sizeof(*parts));

		if (!parts)
			return NULL;
		if (s->nr_parts)
			memcpy(parts, s->parts, s->nr_parts * sizeof(*parts));
		lib_free(s->parts);
		s->parts = parts;
		s->max_parts = max;
	}
	part = &s->parts[s->nr_parts++];
	*part = (struct part){ .owner = owner };
	return part;
}

static bool has_owner(const struct span *s, uint32_t owner)
{
	for (size_t i = 0; i < s->nr_parts; i++)
		if (s->parts[i].owner == owner)
			return true;
	return false;
}

/* The owners of what is active in the range, once each; those that have left hold nothing. */
static int span_by_owner(struct memory *m, struct home_space *as, uint64_t start, uint64_t end,
			 struct span *s) __must_hold(&as->mutex)
{
	uint64_t index = start >> m->vregion_shift;
	const struct home_vregion *vr;

	while ((vr = radix_next(&as->vregions, &index)) && index <= (end - 1) >> m->vregion_shift) {
		if (!home_vregion_is_lost(m, vr) && !has_owner(s, vr->owner) &&
		    !part_add(s, vr->owner))
			return -ENOMEM;
		index++;
	}
	return 0;
}

/* The vRegions of @owner from *@next on, into @part; stops at the limit of a message. */
static void fill_part(struct memory *m, struct home_space *as, uint64_t last, uint64_t *next,
		      struct part *part) __must_hold(&as->mutex)
{
	for (; *next <= last && part->nr < MM_MAP_MAX_VREGIONS; (*next)++) {
		struct pm_vregion entry;

		if (!home_space_vregion(m, as, *next, &entry) || entry.owner != part->owner)
			continue;
		part->vr[part->nr].index = *next;
		part->vr[part->nr].version = entry.version;
		part->nr++;
	}
}

/* Parts for MM_MAP: every vRegion of the range, made active, grouped by owner. */
static int span_for_map(struct memory *m, struct home_space *as, const struct pm_vma *v,
			struct span *s) __must_hold(&as->mutex)
{
	const uint64_t first = v->start >> m->vregion_shift;
	const uint64_t last = (v->end - 1) >> m->vregion_shift;
	struct span owners = { 0 };
	size_t used = 0;
	int err;

	if (last - first >= SPAN_MAX_VREGIONS)
		return -ENOMEM;
	s->vregions = lib_alloc((last - first + 1) * sizeof(*s->vregions));
	if (!s->vregions)
		return -ENOMEM;
	for (uint64_t i = first; i <= last; i++) {
		err = home_space_vregion_activate(m, as, i);
		if (err)
			return err;
	}
	err = span_by_owner(m, as, v->start, v->end, &owners);
	for (size_t o = 0; o < owners.nr_parts && !err; o++) {
		uint64_t next = first;

		while (next <= last && !err) {
			struct part *part = part_add(s, owners.parts[o].owner);

			if (!part) {
				err = -ENOMEM;
				break;
			}
			part->vr = s->vregions + used;
			fill_part(m, as, last, &next, part);
			used += part->nr;
			if (!part->nr)
				s->nr_parts--;
		}
	}
	span_free(&owners);
	return err;
}

/* --- phases ---------------------------------------------------------------------------- */

typedef int (*part_fn)(struct memory *m, struct home_space *as, struct part *part, uint32_t phase,
		       void *arg);

/*
 * Run @fn for each owner: all do it, or none. An error that says "refused" (-ENOMEM and the like)
 * means none. When one fails after another may have done it, that is -EIO, or -EHOSTDOWN.
 */
static int span_run(struct memory *m, struct home_space *as, struct span *s, part_fn fn, void *arg)
{
	size_t i;
	int err = 0;

	if (!s->nr_parts)
		return 0;
	if (s->nr_parts == 1)
		return fn(m, as, &s->parts[0], MM_ONCE, arg);
	for (i = 0; i < s->nr_parts && !err; i++)
		err = fn(m, as, &s->parts[i], MM_PREPARE, arg);
	if (err) {
		for (i--; i-- > 0;)
			(void)fn(m, as, &s->parts[i], MM_ABORT, arg);
		return err;
	}
	for (i = 0; i < s->nr_parts; i++) {
		const int ret = fn(m, as, &s->parts[i], MM_APPLY, arg);

		if (ret && err != -EHOSTDOWN)
			err = ret == -EHOSTDOWN ? ret : -EIO;
	}
	return err;
}

static int part_reply(struct part *part, uint32_t phase, const void *buf, int len,
		      struct mm_range_rep *rep)
{
	int err;

	if (len < 0)
		return len;
	err = mm_range_rep_decode(buf, (size_t)len, rep);
	if (err)
		return err;
	if (phase == MM_PREPARE)
		part->charge = rep->charge;
	return 0;
}

struct map_args {
	const struct pm_vma *v;
	uint32_t want_credits; /* of each part */
	struct grants *grants;
	struct mm_map_req req;
	uint8_t body[sizeof(struct mm_map_req_wire) +
		     MM_MAP_MAX_VREGIONS * sizeof(struct mm_map_vregion_wire)];
};

void grants_add(struct grants *grants, const struct pm_grant *g)
{
	if (!grants || !g->frames)
		return;
	for (uint16_t i = 0; i < grants->nr; i++) {
		struct pm_grant *have = &grants->grants[i];

		if (have->node != g->node)
			continue;
		/* A report that came between the two has made the older one void. */
		if (have->report < g->report)
			*have = *g;
		else if (have->report == g->report)
			have->frames += g->frames;
		return;
	}
	if (grants->nr < PM_MAX_GRANTS)
		grants->grants[grants->nr++] = *g;
}

static int map_part(struct memory *m, struct home_space *as, struct part *part, uint32_t phase,
		    void *arg)
{
	struct mm_range_rep_wire w;
	struct map_args *a = arg;
	struct mm_range_rep rep;
	ssize_t len;
	int err;

	a->req.aspace = as->id;
	a->req.vma = *a->v;
	a->req.charge = part->charge;
	a->req.phase = phase;
	a->req.want_credits = a->want_credits;
	a->req.nr_vregions = part->nr;
	a->req.vregion_shift = m->vregion_shift;
	a->req.processor = as->proc;
	a->req.vnode = as->vnode;
	memcpy(a->req.vregions, part->vr, part->nr * sizeof(part->vr[0]));
	len = mm_map_req_encode(&a->req, a->body, sizeof(a->body));
	if (len < 0)
		return (int)len;
	err = memory_call(m, part->owner, MM_MAP, a->body, (uint32_t)len, &w, sizeof(w));
	err = part_reply(part, phase, &w, err, &rep);
	if (!err)
		grants_add(a->grants, &rep.grant);
	return err;
}

struct range_args {
	uint16_t opcode;
	uint64_t start, end;
	uint32_t prot;
};

static int range_part(struct memory *m, struct home_space *as, struct part *part, uint32_t phase,
		      void *arg)
{
	const struct range_args *a = arg;
	const struct mm_range_req req = {
		.aspace = as->id,
		.addr = a->start,
		.len = a->end - a->start,
		.charge = part->charge,
		.prot = a->prot,
		.phase = phase,
	};
	struct mm_range_req_wire w;
	struct mm_range_rep_wire rw;
	struct mm_range_rep rep;
	int err;

	mm_range_req_encode(&req, &w);
	err = memory_call(m, part->owner, a->opcode, &w, sizeof(w), &rw, sizeof(rw));
	return part_reply(part, phase, &rw, err, &rep);
}

static int range_run(struct memory *m, struct home_space *as, struct range_args *a)
	__must_hold(&as->mutex)
{
	struct span s = { 0 };
	int err = home_space_check_owners(m, as, a->start, a->end);

	if (!err)
		err = span_by_owner(m, as, a->start, a->end, &s);
	if (!err)
		err = span_run(m, as, &s, range_part, a);
	span_free(&s);
	return err;
}

/* --- operations ------------------------------------------------------------------------ */

uint32_t span_share(uint32_t want, size_t nr_parts)
{
	return nr_parts ? (uint32_t)DIV_ROUND_UP(want, nr_parts) : 0;
}

int span_map(struct memory *m, struct home_space *as, const struct pm_vma *v, uint32_t want_credits,
	     struct grants *grants)
{
	struct map_args *a = lib_alloc(sizeof(*a));
	struct area_spare spare = AREA_SPARE(m, as->proc);
	struct span s = { 0 };
	int err = -ENOMEM;

	if (!a || area_spare_fill(&spare, AREA_SPARE_MAX))
		goto out;
	err = home_may_commit(m, v->start, v->end, area_charge(v));
	if (err)
		goto out;
	err = span_for_map(m, as, v, &s);
	if (err)
		goto out;
	a->v = v;
	a->grants = grants;
	a->want_credits = span_share(want_credits, s.nr_parts);
	err = span_run(m, as, &s, map_part, a);
	if (!err) {
		area_insert(&as->map, v, &spare);
	} else if (s.nr_parts > 1) {
		struct range_args undo = { MM_UNMAP, v->start, v->end, 0 };

		/* Then nothing has been mapped after all. */
		if (!range_run(m, as, &undo) && err == -EIO)
			err = -ENOMEM;
	}
out:
	span_free(&s);
	area_spare_free(&spare);
	lib_free(a);
	return err;
}

int span_unmap(struct memory *m, struct home_space *as, uint64_t start, uint64_t end)
{
	struct range_args a = { MM_UNMAP, start, end, 0 };
	struct area_spare spare = AREA_SPARE(m, as->proc);
	int err;

	if (area_range_is_free(&as->map, start, end))
		return 0;
	/* A processor that has had its part may give back what it has. */
	err = area_range_is_inside(&as->map, start, end)
		      ? area_spare_fill(&spare, AREA_SPARE_MAX)
		      : area_spare_borrow(&spare, AREA_SPARE_MAX);
	if (!err)
		err = range_run(m, as, &a);
	if (!err)
		area_remove(&as->map, start, end, &spare);
	area_spare_free(&spare);
	return err;
}

int span_protect(struct memory *m, struct home_space *as, uint64_t start, uint64_t end,
		 uint32_t prot)
{
	const uint64_t charge = area_range_charge_as(&as->map, start, end, prot);
	struct range_args a = { MM_PROTECT, start, end, prot };
	struct area_spare spare = AREA_SPARE(m, as->proc);
	int err = area_spare_fill(&spare, AREA_SPARE_MAX);

	if (!err && charge > area_range_charge(&as->map, start, end))
		err = home_may_commit(m, start, end, charge);
	if (!err)
		err = range_run(m, as, &a);
	if (!err)
		area_protect(&as->map, start, end, prot, &spare);
	area_spare_free(&spare);
	return err;
}

/* --- moving pages ---------------------------------------------------------------------- */

/* The largest piece of the move whose new range has no more vRegions than a message can name. */
static uint64_t move_piece(const struct memory *m, uint64_t to, uint64_t len)
{
	const uint64_t limit = ((to >> m->vregion_shift) + MM_MAP_MAX_VREGIONS) << m->vregion_shift;

	return MIN(len, limit - to);
}

struct move_bufs {
	struct mm_move_req req;
	uint8_t body[sizeof(struct mm_move_req_wire) +
		     MM_MAP_MAX_VREGIONS * sizeof(struct pm_vregion_wire)];
};

struct move_bufs *span_move_prepare(void)
{
	return lib_alloc(sizeof(struct move_bufs));
}

void span_move_finish(struct move_bufs *bufs)
{
	lib_free(bufs);
}

/* Tell each owner of the new range, once, that @from sends it pages; 0: nobody does. */
static void move_expect(struct memory *m, const struct home_space *as,
			const struct mm_move_req *req, uint32_t owner, uint32_t from)
{
	for (uint32_t i = 0; i < req->nr_vregions; i++) {
		const uint32_t to = req->vregions[i].owner;
		uint32_t first = 0;

		while (req->vregions[first].owner != to)
			first++;
		/* One that does not hear of it refuses the pages, and the move fails. */
		if (first == i && to != owner)
			(void)home_expect(m, as, to, from);
	}
}

static int move_at_owner(struct memory *m, const struct home_space *as, uint32_t owner,
			 struct move_bufs *bufs)
{
	const ssize_t len = mm_move_req_encode(&bufs->req, bufs->body, sizeof(bufs->body));
	struct mm_range_rep_wire w;
	int ret;

	if (len < 0)
		return (int)len;
	move_expect(m, as, &bufs->req, owner, owner);
	ret = memory_call(m, owner, MM_MOVE, bufs->body, (uint32_t)len, &w, sizeof(w));
	move_expect(m, as, &bufs->req, owner, 0);
	return ret < 0 ? ret : 0;
}

/* Each owner of the range once: the lowest of its vRegions stands for it.  Allocates nothing. */
static int move_at_owners(struct memory *m, struct home_space *as, struct move_bufs *bufs)
	__must_hold(&as->mutex)
{
	const uint64_t first = bufs->req.old_addr >> m->vregion_shift;
	const uint64_t last = (bufs->req.old_addr + bufs->req.len - 1) >> m->vregion_shift;
	const struct home_vregion *vr, *lower;
	uint64_t index, prior;
	int err = 0;

	for (index = first; !err && (vr = radix_next(&as->vregions, &index)) && index <= last;
	     index++) {
		for (prior = first; (lower = radix_next(&as->vregions, &prior)) &&
				    (lower->owner != vr->owner || home_vregion_is_lost(m, lower));
		     prior++)
			;
		if (lower == vr)
			err = move_at_owner(m, as, vr->owner, bufs);
	}
	return err;
}

int span_move(struct memory *m, struct home_space *as, uint64_t start, uint64_t end, uint64_t to,
	      uint64_t seq, struct move_bufs *bufs)
{
	int err = home_space_check_owners(m, as, start, end);

	while (start < end && !err) {
		const uint64_t len = move_piece(m, to, end - start);
		struct mm_move_req *req = &bufs->req;

		req->aspace = as->id;
		req->old_addr = start;
		req->new_addr = to;
		req->len = len;
		req->seq = seq;
		req->vregion_shift = m->vregion_shift;
		req->nr_vregions = home_space_vregions(m, as, to, to + len, req->vregions,
						       MM_MAP_MAX_VREGIONS);
		err = move_at_owners(m, as, bufs);
		start += len;
		to += len;
	}
	return err;
}
