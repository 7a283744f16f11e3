/* SPDX-License-Identifier: MIT */
/*
 * Ranges that show a segment: random changes beside a model that knows what each page shows, and
 * counts that agree with it.
 */
#include <stdlib.h>

#include <kernel/mutex.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <processor/mm/aspace.h>
#include <processor/mm/attach.h>

#define PAGES 32
#define P(n)  (0x400000ull + (n) * PAGE_SIZE)

struct segment {
	struct attachable attachable;
	int count;
};

static void segment_attached(struct attachable *what, int by)
{
	container_of(what, struct segment, attachable)->count += by;
}

static struct segment segments[3];

/* The segment that a page shows, and where the first page of that would be. */
struct shown {
	struct segment *segment;
	uint64_t base;
	int range; /* a number for each range: neighbours of one segment are not one */
};
static struct shown model[PAGES];
static int next_range;

static struct aspace *space(void)
{
	struct aspace *as = calloc(1, sizeof(*as));

	if (!as)
		abort();
	mutex_init(&as->map_lock, "aspace.map", RANK_ASPACE);
	for (size_t i = 0; i < ARRAY_SIZE(segments); i++)
		segments[i] = (struct segment){ .attachable.attached = segment_attached };
	return as;
}

static void cut(uint64_t first, uint64_t end)
{
	const int behind = end < PAGES ? model[end].range : 0;

	for (uint64_t i = first; i < end; i++)
		model[i] = (struct shown){ 0 };
	/* The rest on both sides of the hole is two ranges. */
	if (first && end < PAGES && behind && behind == model[first - 1].range) {
		next_range++;
		for (uint64_t i = end; i < PAGES && model[i].range == behind; i++)
			model[i].range = next_range;
	}
}

static void show(uint64_t first, uint64_t nr, struct segment *s, uint64_t base)
{
	next_range++;
	for (uint64_t i = first; i < first + nr; i++)
		model[i] = (struct shown){ s, base, next_range };
}

static void compare(struct ktest *t, struct aspace *as)
{
	int counts[ARRAY_SIZE(segments)] = { 0 };

	for (uint64_t i = 0; i < PAGES; i++) {
		const struct shown *m = &model[i];
		const struct attachment *a = NULL;
		struct rb_node *n;

		for (n = rb_first(&as->attachments); n; n = rb_next(n)) {
			struct attachment *at = rb_entry(n, struct attachment, node);

			if (at->start <= P(i) && at->end > P(i))
				a = at;
		}
		EXPECT_EQ(t, !!a, !!m->segment);
		if (a && m->segment) {
			EXPECT_TRUE(t, a->what == &m->segment->attachable);
			EXPECT_EQ(t, a->base, m->base);
		}
		if (m->segment && (!i || model[i - 1].range != m->range))
			counts[m->segment - segments]++;
	}
	for (size_t i = 0; i < ARRAY_SIZE(segments); i++)
		EXPECT_EQ(t, segments[i].count, counts[i]);
}

/* One random change of both. */
static void change(struct ktest *t, struct aspace *as, struct prng *r)
{
	const uint64_t first = prng_below(r, PAGES), nr = 1 + prng_below(r, PAGES - first);
	struct segment *s = &segments[prng_below(r, ARRAY_SIZE(segments))];
	const uint64_t to = prng_below(r, PAGES - nr + 1);
	struct shown from = model[first];
	const int same = from.range;

	EXPECT_EQ(t, attach_prepare(as, true), 0);
	switch (prng_below(r, 3)) {
	case 0: /* a mapping over what is there */
		attach_cut(as, P(first), P(first + nr));
		attach_add(as, &s->attachable, P(first), nr * PAGE_SIZE);
		cut(first, first + nr);
		show(first, nr, s, P(first));
		break;
	case 1:
		attach_cut(as, P(first), P(first + nr));
		cut(first, first + nr);
		break;
	default: /* part of one mapping moves */
		if (!from.segment || (first < to + nr && to < first + nr))
			return;
		for (uint64_t i = first; i < first + nr; i++) {
			if (model[i].range != same)
				return;
		}
		attach_cut(as, P(to), P(to + nr));
		attach_move(as, P(first), nr * PAGE_SIZE, P(to), nr * PAGE_SIZE);
		cut(to, to + nr);
		cut(first, first + nr);
		show(to, nr, from.segment, from.base - P(first) + P(to));
	}
}

static void ranges_and_counts_follow(struct ktest *t)
{
	struct prng r;
	struct aspace *as = space();

	prng_seed(&r, 15);
	mutex_lock(&as->map_lock);
	for (int i = 0; i < 20000; i++) {
		change(t, as, &r);
		if (i % 8 == 0)
			compare(t, as);
	}
	compare(t, as);
	mutex_unlock(&as->map_lock);
	attach_end(as);
	for (size_t i = 0; i < ARRAY_SIZE(segments); i++)
		EXPECT_EQ(t, segments[i].count, 0);
	for (size_t i = 0; i < PAGES; i++)
		model[i] = (struct shown){ 0 };
	free(as);
}

static void a_fork_has_the_same(struct ktest *t)
{
	struct aspace *as = space(), *child;

	child = calloc(1, sizeof(*child));
	if (!child)
		abort();
	mutex_lock(&as->map_lock);
	EXPECT_EQ(t, attach_prepare(as, true), 0);
	attach_add(as, &segments[0].attachable, P(0), 4 * PAGE_SIZE);
	attach_cut(as, P(1), P(2));
	EXPECT_EQ(t, segments[0].count, 2);
	EXPECT_EQ(t, attach_copy(as, child), 0);
	EXPECT_EQ(t, segments[0].count, 4);
	EXPECT_TRUE(t, attach_find(as, P(0), NULL)->start == P(0));
	attach_cut(as, P(0), P(1));
	EXPECT_TRUE(t, attach_find(as, P(0), NULL)->start == P(2)); /* by its base */
	EXPECT_TRUE(t, attach_find(as, P(0), &segments[1].attachable) == NULL);
	EXPECT_TRUE(t, attach_find(as, P(2), NULL) == NULL);
	mutex_unlock(&as->map_lock);
	attach_end(as);
	EXPECT_EQ(t, segments[0].count, 2);
	attach_end(child);
	EXPECT_EQ(t, segments[0].count, 0);
	free(child);
	free(as);
}

static const struct ktest_case attach_cases[] = {
	KTEST(ranges_and_counts_follow),
	KTEST(a_fork_has_the_same),
	{ 0 },
};
static const struct ktest_suite attach_suite = { .name = "mm.attach", .cases = attach_cases };
KTEST_SUITE(attach_suite);
