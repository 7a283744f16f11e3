/* SPDX-License-Identifier: MIT */
/*
 * HCA model: BlueFlame: entries that come with their doorbell, and what else may be stored there.
 */
#include <lib/ktest.h>

#include "fixture.h"

#define REG(n) (BIT(LOG_BF_UAR) | FIX_UAR << 12 | (n) * BF_BUF)

static struct fix_guest *setup(struct fixture *r)
{
	fix_create(r);
	r->f->blueflame = true;
	fix_connect(r, 3, 4);
	fix_drain(r); /* QPs look once when they become ready */
	return &r->g[0];
}

/* Post a write of @len bytes, as a driver of BlueFlame does: index and number in the entry. */
static const uint8_t *post(struct fix_guest *g, uint32_t len)
{
	const uint16_t index = g->sq_tail;
	const struct fix_wr wr = { .opcode = WQE_WRITE,
				   .raddr = FIX_VA + 4096,
				   .rkey = FIX_KEY,
				   .laddr = FIX_VA,
				   .len = len,
				   .lkey = FIX_KEY };
	uint8_t *e;

	fix_post(g, &wr);
	e = fix_page(g, PAGE_QP) + g->sq_off + (index & 7) * 64u;
	put_be32(e, get_be32(e) | (uint32_t)index << 8);
	put_be32(e + 4, get_be32(e + 4) | FIX_QPN << 8);
	return e;
}

static void copy(struct fix_guest *g, unsigned buf, const uint8_t *e, unsigned from, unsigned to,
		 unsigned size)
{
	for (unsigned off = from; off < to; off += size) {
		uint64_t v = 0;

		memcpy(&v, e + off, size);
		bar_write(g->h, 2, REG(buf) + off, v, size);
	}
}

static void capability_is_told_where_it_is(struct ktest *t)
{
	struct fixture r;

	fix_create(&r);
	fix_init_hca(&r.g[0]);
	EXPECT_EQ(t, fix_cmd(&r.g[0], OP_QUERY_DEV_CAP, 0, 0), ST_OK);
	EXPECT_EQ(t, fix_out(&r.g[0])[0x4c], 0);
	EXPECT_EQ(t, fix_out(&r.g[0])[0x49], 3);
	r.f->blueflame = true;
	EXPECT_EQ(t, fix_cmd(&r.g[0], OP_QUERY_DEV_CAP, 0, 0), ST_OK);
	EXPECT_EQ(t, get_be32(fix_out(&r.g[0]) + 0x4c), 0x8009030au);
	EXPECT_EQ(t, fix_out(&r.g[0])[0x49], 2);
	fix_destroy(&r);
}

/* Two buffers by turns, in stores of either width; each entry runs when it is whole, and once. */
static void entry_runs_when_whole(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g = setup(&r);

	for (unsigned n = 0; n < 20; n++) {
		const uint8_t *e = post(g, 8 + n);

		copy(g, n & 1, e, 0, 56, n & 2 ? 4 : 8);
		fix_drain(&r);
		EXPECT_TRUE(t, fix_cqe(g) == NULL);
		copy(g, n & 1, e, 56, 64, 8);
		fix_drain(&r);
		EXPECT_TRUE(t, fix_cqe(g) != NULL);
		EXPECT_TRUE(t, fix_cqe(g) == NULL);
	}
	EXPECT_EQ(t, g->h->stats.blueflames, 20u);
	EXPECT_EQ(t, g->h->stats.bad_blueflames, 0u);
	EXPECT_EQ(t, g->h->stats.doorbells, 20u);
	fix_destroy(&r);
}

/* A copy that was left unfinished, and one in another order. */
static void copy_may_begin_anew(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g = setup(&r);
	const uint8_t *e = post(g, 8);

	copy(g, 0, e, 0, 40, 8);
	copy(g, 0, e, 0, 8, 8);
	copy(g, 0, e, 40, 64, 8);
	EXPECT_TRUE(t, fix_cqe(g) == NULL); /* 8 to 40 are missing */
	copy(g, 0, e, 8, 40, 8);
	EXPECT_TRUE(t, fix_cqe(g) != NULL);
	EXPECT_EQ(t, g->h->stats.bad_blueflames, 0u);
	fix_destroy(&r);
}

/* Garbage is counted, and at most a doorbell: what runs is what the send queue has. */
static void garbage_is_a_doorbell_at_most(struct ktest *t)
{
	uint8_t e[BF_BUF];
	struct fixture r;
	struct fix_guest *g = setup(&r);
	struct hca *h = g->h;

	memset(e, 0xff, sizeof(e));
	copy(g, 3, e, 0, BF_BUF, 8); /* longer than a buffer */
	EXPECT_EQ(t, h->stats.bad_blueflames, 1u);
	memset(e, 0, sizeof(e));
	copy(g, 3, e, 0, BF_BUF, 8); /* no length */
	EXPECT_EQ(t, h->stats.bad_blueflames, 2u);
	e[7] = 4;
	put_be32(e + 4, 0xfff << 8 | 4); /* no such QP */
	copy(g, 3, e, 0, 64, 8);
	EXPECT_EQ(t, h->stats.bad_blueflames, 3u);
	EXPECT_EQ(t, h->stats.bad_doorbells, 1u);
	memcpy(e, post(g, 8), 64);
	e[20] ^= 1; /* not what is in the queue, which is run */
	copy(g, 3, e, 0, 64, 8);
	EXPECT_EQ(t, h->stats.bad_blueflames, 4u);
	EXPECT_TRUE(t, fix_cqe(g) != NULL);
	put_be32(e + 4, FIX_QPN << 8 | 16); /* longer than an entry of that queue */
	copy(g, 3, e, 0, BF_BUF, 8);
	EXPECT_EQ(t, h->stats.bad_blueflames, 5u);
	EXPECT_EQ(t, h->stats.blueflames, 0u);
	bar_write(h, 2, REG(0) + 2, 0, 4);          /* not aligned */
	bar_write(h, 2, REG(0), 0, 1);              /* too narrow */
	bar_write(h, 2, REG(0) + (1u << 20), 0, 8); /* of a UAR that there is not */
	EXPECT_EQ(t, h->stats.bad_doorbells, 4u);
	fix_destroy(&r);
}

/* Where it is not offered, the upper half of BAR2 is UARs like the others. */
static void nothing_of_it_when_not_offered(struct ktest *t)
{
	struct fixture r;
	struct fix_guest *g = &r.g[0];

	fix_create(&r);
	fix_connect(&r, 3, 4);
	fix_drain(&r);
	copy(g, 0, post(g, 8), 0, 64, 8);
	EXPECT_EQ(t, g->h->stats.blueflames + g->h->stats.bad_blueflames, 0u);
	EXPECT_EQ(t, g->h->stats.bad_doorbells, 8u);
	EXPECT_TRUE(t, fix_cqe(g) == NULL);
	fix_destroy(&r);
}

static const struct ktest_case bf_cases[] = {
	KTEST(capability_is_told_where_it_is),
	KTEST(entry_runs_when_whole),
	KTEST(copy_may_begin_anew),
	KTEST(garbage_is_a_doorbell_at_most),
	KTEST(nothing_of_it_when_not_offered),
	{ 0 },
};
static const struct ktest_suite bf_suite = { .name = "hca.blueflame", .cases = bf_cases };
KTEST_SUITE(bf_suite);
