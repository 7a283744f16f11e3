/* SPDX-License-Identifier: MIT */
/*
 * ExCache: which pages are fetched before a program asks for them.
 *
 * Flow:	files: a fault that had to fetch a page of a mapped file asks for the pages behind
 *		it; what readers get is in read_ahead.c. fill.c sends the request, in a class of its
 *		own, and a page that is there already ends it.
 *		Anonymous and shared memory: each miss of a thread, and each first use of a page
 *		that was fetched ahead, is an event. Three events with the same stride, others
 *		between them or not, start a stream; an event that fits none counts for the
 *		majority of the last strides, which starts one, too. A stream asks for as many
 *		pages as its depth says, again when half of them are used; each time it may go
 *		twice as deep, as far as the object's share of wasted pages allows. A miss is
 *		posted before anything ahead of it.
 * Context:	the faulting or reading thread; never sleeps for long.
 * Locking:	streams belong to their thread; the tallies of an object are hints: atomic.
 * See:		ahead.c, which sends; around.c, which maps file pages that are there already;
 *		docs/design/excache.md, "Fetching ahead"
 */
#include "prefetch.h"

#include <kernel/bootparam.h>
#include <kernel/thread.h>
#include <lib/compiler.h>
#include <mm/slab.h>
#include <processor/mm/aspace.h>

#include "ahead.h"
#include "cache_private.h"
#include "owner.h"

#define FAULT_READ_PAGES 16u /* pages behind one that a fault has fetched */

static_assert(READ_AHEAD_MAX <= FILE_FETCH_MAX, "one message");

static bool param_prefetch = true;
static uint32_t param_depth = AHEAD_MAX;
BOOT_PARAM("prefetch", bool, param_prefetch, "fetch pages before a program asks for them");
BOOT_PARAM_RANGE("prefetch.depth", u32, param_depth, 1, AHEAD_MAX,
		 "pages ahead of a stream of anonymous or shared memory at most");

COUNTER(prefetch_used, "prefetch.used", "pages fetched ahead that a program then asked for");
COUNTER(prefetch_late, "prefetch.late", "pages that were asked for while they were on their way");
COUNTER(prefetch_wasted, "prefetch.wasted",
	"pages fetched ahead that went without having been used");
COUNTER(prefetch_streams, "prefetch.streams", "streams that were found");
COUNTER(prefetch_majority, "prefetch.majority", "... of them by the majority of strides");

/* --- files --------------------------------------------------------------------------- */

void prefetch_fault(struct object *file, uint64_t pgoff, uint64_t nr_mapped)
{
	if (nr_mapped > 0 && param_prefetch)
		fill_ahead(file, pgoff + 1,
			   (unsigned int)MIN(nr_mapped, (uint64_t)FAULT_READ_PAGES));
}

static bool is_there(const struct object *obj, uint64_t pgoff)
{
	struct cache_set *set = &excache.sets[set_index(obj, pgoff)];
	bool there;

	spin_lock(&set->lock);
	there = set_find_locked(set, obj, pgoff) != NULL;
	spin_unlock(&set->lock);
	return there;
}

void prefetch_read(struct object *file, struct read_ahead *ra, uint64_t pgoff, uint64_t nr_pages)
{
	struct read_step step = { .pgoff = pgoff, .nr_pages = nr_pages };
	uint64_t first;
	uint32_t nr;

	if (!param_prefetch)
		return;
	step.goes_on = pgoff && read_ahead_jumps(ra, pgoff) && is_there(file, pgoff - 1);
	nr = read_ahead_step(ra, &step, &first);
	if (nr)
		fill_ahead(file, first, nr);
}

/* --- what becomes of pages fetched ahead ----------------------------------------------- */

static void tally_add(uint32_t *tally)
{
	__atomic_add_fetch(tally, 1, __ATOMIC_RELAXED);
}

void prefetch_note_used(struct object *obj, bool late)
{
	counter_inc(late ? &prefetch_late : &prefetch_used);
	tally_add(&obj->ahead_used);
}

void prefetch_note_wasted(struct object *obj)
{
	counter_inc(&prefetch_wasted);
	tally_add(&obj->ahead_wasted);
}

#define TALLY_MAX   256u /* then both are halved: what was long ago counts less */
#define PROBE_EVERY 16u  /* where most was wasted, a stream in so many may try */
#define PROBE_DEPTH 2u

/* How deep may a stream of @obj go, as far as one can tell from what became of others? */
static uint32_t depth_allowed(struct object *obj)
{
	const uint32_t used = READ_ONCE(obj->ahead_used), wasted = READ_ONCE(obj->ahead_wasted);

	if (used + wasted > TALLY_MAX) {
		WRITE_ONCE(obj->ahead_used, used / 2);
		WRITE_ONCE(obj->ahead_wasted, wasted / 2);
	}
	if (wasted * 16 <= used + 32)
		return param_depth;
	if (wasted * 10 <= used + 32)
		return DIV_ROUND_UP(param_depth, 2);
	if (wasted * 6 <= used + 32)
		return DIV_ROUND_UP(param_depth, 8);
	return __atomic_add_fetch(&obj->ahead_probes, 1, __ATOMIC_RELAXED) % PROBE_EVERY == 0
		       ? MIN(PROBE_DEPTH, param_depth)
		       : 0;
}

/* --- streams ------------------------------------------------------------------------- */

#define NR_STREAMS  8u
#define NR_STRIDES  32u /* of which the majority may be a stream */
#define NR_RECENT   4u  /* ... if half of these were the same, too */
#define NR_PAST     16u /* events among which three in a row are looked for ... */
#define NEAR        64  /* ... with so many pages between them at most */
#define FIRST_DEPTH 4u

struct stream {
	const struct object *obj; /* only to compare */
	uint64_t last;            /* page of the last event */
	uint64_t ahead;           /* page that was asked for last, in the stream's direction */
	int64_t stride;           /* pages; 0: the entry is free */
	uint32_t depth;           /* strides ahead; 0 at first */
	uint64_t stamp;           /* of the last event */
};

struct fault_hints {
	/* Of the fault under way; as is NULL between faults. */
	struct aspace *as;
	uint64_t seq;
	const struct object *file;
	uint64_t anon_first, anon_end; /* pages that the mapping shows, of the space ... */
	uint64_t file_first, file_end; /* ... and of the object that it maps */
	struct object *used;           /* page used_pgoff of it was fetched ahead; NULL: none was */
	uint64_t used_pgoff;

	uint64_t clock;
	struct stream streams[NR_STREAMS];
	struct past {
		const struct object *obj; /* only to compare */
		uint64_t pgoff;
	} past[NR_PAST];
	uint32_t nr_past;
	int64_t strides[NR_STRIDES];
	uint32_t nr_strides;
};

struct range {
	struct aspace *as;
	uint64_t seq, first, end;
};

/* Events of @s skip pages that are in the cache: they make no fault. */
static bool stream_fits(const struct stream *s, const struct object *obj, uint64_t pgoff)
{
	const int64_t d = (int64_t)(pgoff - s->last);

	if (s->obj != obj || !s->stride || d % s->stride)
		return false;
	return d / s->stride > 0 && d / s->stride <= (int64_t)MAX(s->depth, FIRST_DEPTH);
}

static struct stream *stream_find(struct fault_hints *h, const struct object *obj, uint64_t pgoff)
{
	for (uint32_t i = 0; i < NR_STREAMS; i++) {
		if (stream_fits(&h->streams[i], obj, pgoff))
			return &h->streams[i];
	}
	return NULL;
}

static struct stream *stream_oldest(struct fault_hints *h)
{
	struct stream *s = &h->streams[0];

	for (uint32_t i = 1; i < NR_STREAMS; i++) {
		if (h->streams[i].stamp < s->stamp)
			s = &h->streams[i];
	}
	return s;
}

/* The stride that more than half of the last ones were; 0: none (Boyer and Moore's vote). */
static int64_t majority(const struct fault_hints *h)
{
	int64_t chosen = 0;
	uint32_t votes = 0;

	if (h->nr_strides < NR_STRIDES)
		return 0;
	for (uint32_t i = 0; i < NR_STRIDES; i++) {
		if (votes == 0)
			chosen = h->strides[i];
		votes += h->strides[i] == chosen ? 1 : -1;
	}
	votes = 0;
	for (uint32_t i = 1; i <= NR_STRIDES; i++) {
		votes += h->strides[(h->nr_strides - i) % NR_STRIDES] == chosen;
		if (i == NR_RECENT && votes < NR_RECENT / 2)
			return 0; /* it was one */
	}
	return votes > NR_STRIDES / 2 ? chosen : 0;
}

/*
 * The stride of three events in a row that others may have come between: two of the last ones and
 * @pgoff; 0: there is none.
 */
static int64_t progression(const struct fault_hints *h, const struct object *obj, uint64_t pgoff)
{
	const uint32_t nr = MIN(h->nr_past, NR_PAST);

	for (uint32_t i = 1; i <= nr; i++) {
		const struct past *second = &h->past[(h->nr_past - i) % NR_PAST];
		const int64_t stride = (int64_t)(pgoff - second->pgoff);

		if (second->obj != obj || stride == 0 || stride > NEAR || stride < -NEAR)
			continue;
		for (uint32_t j = i + 1; j <= nr; j++) {
			const struct past *first = &h->past[(h->nr_past - j) % NR_PAST];

			if (first->obj == obj && first->pgoff == second->pgoff - (uint64_t)stride)
				return stride;
		}
	}
	return 0;
}

static void past_note(struct fault_hints *h, const struct object *obj, uint64_t pgoff)
{
	const struct past *last = &h->past[(h->nr_past - 1) % NR_PAST];

	if (h->nr_past > 0 && last->obj == obj)
		h->strides[h->nr_strides++ % NR_STRIDES] = (int64_t)(pgoff - last->pgoff);
	h->past[h->nr_past++ % NR_PAST] = (struct past){ .obj = obj, .pgoff = pgoff };
}

/* The stream that an event of (@obj, @pgoff) belongs to; NULL: none so far. */
static struct stream *stream_note(struct fault_hints *h, const struct object *obj, uint64_t pgoff)
{
	struct stream *s = stream_find(h, obj, pgoff);
	int64_t stride = 0;

	if (!s) {
		stride = progression(h, obj, pgoff);
		if (!stride && (stride = majority(h)) != 0)
			counter_inc(&prefetch_majority);
	}
	past_note(h, obj, pgoff);
	if (!s && !stride)
		return NULL;
	if (!s) {
		counter_inc(&prefetch_streams);
		s = stream_oldest(h);
		*s = (struct stream){ .obj = obj, .stride = stride, .ahead = pgoff };
	}
	s->last = pgoff;
	s->stamp = ++h->clock;
	return s;
}

/* Strides from the last event to the last page that was asked for; 0 if that is behind it. */
static uint32_t stream_left(const struct stream *s)
{
	const int64_t n = (int64_t)(s->ahead - s->last) / s->stride;

	return n > 0 && n <= AHEAD_MAX ? (uint32_t)n : 0;
}

static void stream_advance(struct stream *s, struct object *obj, const struct range *r)
{
	const uint32_t left = stream_left(s), allowed = depth_allowed(obj);
	struct ahead_list list = { 0 };
	uint64_t pgoff;
	uint32_t done;

	if (s->depth && left > s->depth / 2)
		return;
	s->depth = MIN(s->depth ? s->depth * 2 : FIRST_DEPTH, allowed);
	pgoff = left ? s->ahead : s->last;
	while (left + list.nr < s->depth) {
		pgoff += (uint64_t)s->stride;
		if (pgoff - r->first >= r->end - r->first)
			break;
		list.pgoffs[list.nr++] = pgoff;
	}
	done = ahead_fetch(obj, r->as, r->seq, &list);
	if (done > 0)
		s->ahead = list.pgoffs[done - 1];
}

/* Which pages of @obj may be fetched now.  False: none. */
static bool range_of(const struct fault_hints *h, struct object *obj, struct range *r)
{
	uint64_t nr_pages;

	if (obj->kind == OBJECT_ANON) {
		*r = (struct range){ h->as, h->seq, h->anon_first, h->anon_end };
		/* An object behind the top may collapse at any time. */
		return h->as && obj == h->as->anon;
	}
	if (!object_shared_now(obj, &r->seq, &nr_pages))
		return false;
	r->as = NULL;
	r->first = h->as && h->file == obj ? h->file_first : 0;
	r->end = h->as && h->file == obj ? MIN(h->file_end, nr_pages) : nr_pages;
	return r->first < r->end;
}

static void event(struct fault_hints *h, struct object *obj, uint64_t pgoff)
{
	struct stream *s = stream_note(h, obj, pgoff);
	struct range r;

	if (s && range_of(h, obj, &r))
		stream_advance(s, obj, &r);
}

static struct fault_hints *hints(void)
{
	return thread_current()->fault_hints;
}

void prefetch_miss(struct object *obj, uint64_t pgoff)
{
	struct fault_hints *h = hints();

	if (h && param_prefetch)
		event(h, obj, pgoff);
}

void prefetch_used_page(struct object *obj, uint64_t pgoff)
{
	struct fault_hints *h = hints();

	if (!h || !param_prefetch)
		return;
	if (!h->as) {
		if (obj->kind == OBJECT_SHARED)
			event(h, obj, pgoff);
	} else if (obj == h->as->anon || obj == h->file) {
		/* When it is mapped: prefetch_end(). Objects behind the top may be gone by then. */
		h->used = obj;
		h->used_pgoff = pgoff;
	}
}

void prefetch_begin(struct aspace *as, const struct vma *v, uint64_t seq)
{
	struct fault_hints *h = hints();

	if (!param_prefetch)
		return;
	if (!h) {
		/* A space of which nothing was ever stored needs none. */
		if (!(v->file && v->file->kind == OBJECT_SHARED) && !as->anon->backing &&
		    !READ_ONCE(as->anon->stored.pages.count))
			return;
		h = kzalloc(sizeof(*h));
		if (!h)
			return;
		thread_current()->fault_hints = h;
	}
	h->as = as;
	h->seq = seq;
	h->anon_first = v->start >> PAGE_SHIFT;
	h->anon_end = v->end >> PAGE_SHIFT;
	h->file = v->file;
	h->file_first = v->pgoff;
	h->file_end = v->pgoff + ((v->end - v->start) >> PAGE_SHIFT);
	h->used = NULL;
}

void prefetch_end(void)
{
	struct fault_hints *h = hints();

	if (!h || !h->as)
		return;
	if (h->used)
		event(h, h->used, h->used_pgoff);
	h->as = NULL;
}
