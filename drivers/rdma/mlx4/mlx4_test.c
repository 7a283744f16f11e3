/* SPDX-License-Identifier: MIT */
/* ConnectX-3: allocators, capability decoding, context layout, keys and translation. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "hw.h"
#include "mlx4.h"
#include "raw_test.h"

/* The model's answer to QUERY_DEV_CAP. */
static void good_caps(uint8_t *m)
{
	static const struct {
		uint8_t off;
		uint8_t val;
	} fields[] = {
		{ 0x10, 14 }, { 0x11, 14 }, { 0x12, 6 },    { 0x13, 18 }, { 0x14, 0x60 },
		{ 0x15, 16 }, { 0x19, 22 }, { 0x1a, 7 },    { 0x1b, 16 }, { 0x1d, 19 },
		{ 0x1e, 3 },  { 0x1f, 7 },  { 0x20, 0x40 }, { 0x22, 4 },  { 0x29, 7 },
		{ 0x2b, 4 },  { 0x35, 15 }, { 0x37, 0x41 }, { 0x38, 31 }, { 0x48, 0x10 },
		{ 0x49, 3 },  { 0x51, 62 }, { 0x55, 32 },   { 0x63, 13 }, { 0x64, 0x20 },
		{ 0x65, 15 },
	};

	memset(m, 0, MLX4_PAGE_LEN);
	for (size_t n = 0; n < ARRAY_SIZE(fields); n++)
		m[fields[n].off] = fields[n].val;
	mlx4_put64(m, 0x40, 0x00340347);
	mlx4_put16(m, 0x52, 1008);
	mlx4_put16(m, 0x56, 512);
	mlx4_put16(m, 0x80, 32);
	mlx4_put16(m, 0x82, 256);
	mlx4_put16(m, 0x84, 16);
	for (unsigned int off = 0x86; off <= 0x8e; off += 2)
		mlx4_put16(m, off, 64);
	mlx4_put16(m, 0x90, 8);
	mlx4_put16(m, 0x92, 64);
	mlx4_put64(m, 0xa0, 1ULL << 38);
}

static void caps_decodes_fields(struct ktest *t)
{
	uint8_t *m = kmalloc(MLX4_PAGE_LEN);
	struct mlx4_caps c;
	const char *why;

	ASSERT_TRUE(t, m != NULL);
	good_caps(m);
	EXPECT_EQ(t, mlx4_caps_parse(m, &c, &why), 0);
	EXPECT_EQ(t, c.log_max_qps, 18);
	EXPECT_EQ(t, c.log_reserved_srqs, 6);
	EXPECT_EQ(t, c.log_reserved_mtts, 4);
	EXPECT_EQ(t, c.log_reserved_mrws, 4);
	EXPECT_EQ(t, c.nr_ports, 1);
	EXPECT_EQ(t, c.uar_len, 8ULL << 20);
	EXPECT_EQ(t, c.reserved_uars, 1U);
	EXPECT_EQ(t, c.reserved_pds, 2U);
	EXPECT_EQ(t, c.max_sq_desc, 1008);
	EXPECT_EQ(t, c.rdmarc_len, 32);
	EXPECT_EQ(t, c.dmpt_len, 64);
	EXPECT_EQ(t, c.max_icm, 1ULL << 38);
	EXPECT_EQ(t, c.bf_reg_len, 0U);
	kfree(m);
}

static void caps_of_blueflame(struct ktest *t)
{
	static const struct {
		uint8_t bytes[3]; /* from 0x4c */
		uint32_t len, regs;
	} cases[] = {
		{ { 0x80, 9, 3 }, 512, 8 },   { { 0x00, 9, 3 }, 0, 0 },
		{ { 0x80, 6, 3 }, 0, 0 },    /* no room for two lines */
		{ { 0x80, 31, 3 }, 0, 0 },   /* longer than a page */
		{ { 0x80, 9, 63 }, 512, 8 }, /* more than a page has room for */
		{ { 0x80, 12, 0 }, 4096, 1 }, { { 0x80, 7, 2 }, 128, 4 },
	};
	uint8_t *m = kmalloc(MLX4_PAGE_LEN);
	struct mlx4_caps c;
	const char *why;

	ASSERT_TRUE(t, m != NULL);
	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		good_caps(m);
		memcpy(m + 0x4c, cases[n].bytes, 3);
		EXPECT_EQ(t, mlx4_caps_parse(m, &c, &why), 0);
		EXPECT_EQ(t, c.bf_reg_len, cases[n].len);
		EXPECT_EQ(t, c.bf_regs, cases[n].regs);
	}
	kfree(m);
}

static void caps_refuses_nonsense(struct ktest *t)
{
	static const struct {
		uint8_t off;
		uint8_t val;
		const char *why;
	} cases[] = {
		{ 0x37, 0x40, "number of ports" },
		{ 0x37, 0x43, "number of ports" },
		{ 0x13, 6, "number of QPs" },
		{ 0x13, 31, "number of QPs" },
		{ 0x1b, 7, "number of CQs" },
		{ 0x1f, 3, "number of EQs" },
		{ 0x1d, 4, "number of memory regions" },
		{ 0x65, 1, "number of protection domains" },
		{ 0x83, 3, "size of a context entry" },
		{ 0x93, 32, "size of a context entry" },
		{ 0x91, 16, "size of a translation entry" },
		{ 0x51, 0, "size of a work request" },
		{ 0x11, 5, "size of a queue" },
		{ 0x47, 0x02, "transport services" },
	};
	uint8_t *m = kmalloc(MLX4_PAGE_LEN);
	struct mlx4_caps c;
	const char *why = NULL;

	ASSERT_TRUE(t, m != NULL);
	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		good_caps(m);
		if (cases[n].off == 0x83 || cases[n].off == 0x93 || cases[n].off == 0x91)
			m[cases[n].off - 1] = 0;
		m[cases[n].off] = cases[n].val;
		EXPECT_EQ(t, mlx4_caps_parse(m, &c, &why), -EPROTO);
		EXPECT_STREQ(t, why, cases[n].why);
	}
	kfree(m);
}

/* Any answer of a device is refused, or gives a layout that holds together. */
static void layout_survives_any_device(struct ktest *t)
{
	const struct mlx4_wish wish = { 14, 12, 4, 14, 18 };
	uint8_t *m = kmalloc(MLX4_PAGE_LEN);
	uint64_t seed = 0x9e3779b97f4a7c15ULL;
	unsigned int nr_ok = 0;

	ASSERT_TRUE(t, m != NULL);
	for (unsigned int round = 0; round < 3000; round++) {
		struct mlx4_profile p;
		struct mlx4_caps c;
		const char *why;

		good_caps(m);
		for (unsigned int n = 0; n < 3; n++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			m[0x10 + (seed >> 33) % 0xa0] = (uint8_t)(seed >> 56);
		}
		if (mlx4_caps_parse(m, &c, &why) || mlx4_profile_make(&c, &wish, &p))
			continue;
		nr_ok++;
		EXPECT_LE(t, p.icm_len, c.max_icm);
		for (unsigned int i = 0; i < NR_REGIONS; i++) {
			const struct mlx4_region *r = &p.region[i];

			EXPECT_TRUE(t, IS_POWER_OF_2(r->len) && r->len >= MLX4_PAGE_LEN);
			EXPECT_EQ(t, r->base & (r->len - 1), 0ULL);
			EXPECT_GE(t, r->len, (uint64_t)r->nr * r->obj_len);
			for (unsigned int j = 0; j < i; j++)
				EXPECT_TRUE(t,
					    r->base + r->len <= p.region[j].base ||
						    p.region[j].base + p.region[j].len <= r->base);
		}
	}
	EXPECT_GT(t, nr_ok, 300U);
	kfree(m);
}

static void init_hca_bytes(struct ktest *t)
{
	struct mlx4_wish wish = { 14, 12, 4, 14, 18 };
	uint8_t *m = kmalloc(MLX4_PAGE_LEN);
	struct mlx4_profile p;
	struct mlx4_caps c;
	const char *why;

	ASSERT_TRUE(t, m != NULL);
	good_caps(m);
	ASSERT_EQ(t, mlx4_caps_parse(m, &c, &why), 0);
	ASSERT_EQ(t, mlx4_profile_make(&c, &wish, &p), 0);
	EXPECT_EQ(t, p.region[REGION_CMPT].base, 0ULL); /* the largest comes first */
	EXPECT_EQ(t, p.region[REGION_CMPT].len, 4ULL << 30);

	memset(m, 0, MLX4_PAGE_LEN);
	mlx4_init_hca_fill(&p, m);
	EXPECT_EQ(t, m[0x00], 2);
	EXPECT_EQ(t, m[0x0e], 0x50);
	EXPECT_EQ(t, mlx4_get32(m, 0x14), 1U);
	EXPECT_EQ(t, mlx4_get64(m, 0x30), p.region[REGION_QPC].base | 14);
	EXPECT_EQ(t, mlx4_get64(m, 0x50), p.region[REGION_CQC].base | 12);
	EXPECT_EQ(t, mlx4_get64(m, 0x90), p.region[REGION_RDMARC].base | 4);
	EXPECT_EQ(t, mlx4_get64(m, 0x100), p.region[REGION_MTT].base);
	EXPECT_EQ(t, m[0xfb], 14);
	EXPECT_EQ(t, m[0x12a], 11);

	wish.log_eqs = 3; /* nothing left above the reserved ones */
	EXPECT_EQ(t, mlx4_profile_make(&c, &wish, &p), -ENOSPC);
	wish.log_eqs = 4;
	c.max_icm = 1ULL << 32;
	EXPECT_EQ(t, mlx4_profile_make(&c, &wish, &p), -ENOSPC);
	kfree(m);
}

static void fw_is_checked(struct ktest *t)
{
	uint8_t m[256] = { 0 };
	struct mlx4_fw fw;
	const char *why;

	mlx4_put16(m, 0x00, 256);
	mlx4_put16(m, 0x02, 2);
	mlx4_put16(m, 0x04, 5000);
	mlx4_put16(m, 0x06, 42);
	mlx4_put16(m, 0x0a, 3);
	m[0x0f] = 4;
	mlx4_put64(m, 0x30, 0x60000);
	mlx4_put32(m, 0x38, 16);
	m[0x3c] = 0x40;
	ASSERT_EQ(t, mlx4_fw_parse(m, &fw, &why), 0);
	EXPECT_EQ(t, fw.minor, 42);
	EXPECT_EQ(t, fw.subminor, 5000);
	EXPECT_EQ(t, fw.err_buf_bar, 2);
	EXPECT_EQ(t, fw.err_buf_dwords, 16U);
	mlx4_put16(m, 0x0a, 2);
	EXPECT_EQ(t, mlx4_fw_parse(m, &fw, &why), -EPROTO);
	mlx4_put16(m, 0x0a, 3);
	mlx4_put16(m, 0x00, 0xffff);
	EXPECT_EQ(t, mlx4_fw_parse(m, &fw, &why), -EPROTO);
}

/* Any other vendor's capability tells nothing. */
static void hint_is_the_models_own(struct ktest *t)
{
	static const struct {
		uint8_t cap[MLX4_HINT_LEN];
		uint32_t flags;
	} cases[] = {
		{ { 9, 0, 12, 1, 'T', 'S', 'R', 'A', 1 }, MLX4_HINT_EMULATED },
		{ { 9, 0, 12, 1, 'T', 'S', 'R', 'A', 3 },
		  MLX4_HINT_EMULATED | MLX4_HINT_ONE_AT_ONCE },
		{ { 9, 0, 12, 1, 'T', 'S', 'R', 'A', 5 }, MLX4_HINT_EMULATED | MLX4_HINT_WAIT },
		{ { 9, 0, 11, 1, 'T', 'S', 'R', 'A', 3 }, 0 },
		{ { 9, 0, 12, 2, 'T', 'S', 'R', 'A', 3 }, 0 },
		{ { 9, 0, 12, 1, 'T', 'S', 'R', 'B', 3 }, 0 },
		{ { 9, 0, 24, 0, 0, 0, 0, 0, 3 }, 0 },
	};

	for (size_t n = 0; n < ARRAY_SIZE(cases); n++)
		EXPECT_EQ(t, mlx4_hint_parse(cases[n].cap), cases[n].flags);
}

static void waits_are_no_longer_than_asked(struct ktest *t)
{
	static const struct {
		uint64_t ns;
		int step;
	} cases[] = {
		{ 0, -1 },    { 15999, -1 },  { 16000, 0 },   { 31999, 0 },
		{ 32000, 1 }, { 2047999, 6 }, { 2048000, 7 }, { UINT64_MAX, 7 },
	};

	for (size_t n = 0; n < ARRAY_SIZE(cases); n++)
		EXPECT_EQ(t, mlx4_wait_step(cases[n].ns), cases[n].step);
}

static void ids_go_round(struct ktest *t)
{
	struct mlx4_ids ids;
	uint32_t id, first;

	ASSERT_EQ(t, mlx4_ids_init(&ids, 10, 14), 0);
	ASSERT_EQ(t, mlx4_ids_get(&ids, 1, 1, &first), 0);
	EXPECT_EQ(t, first, 10U);
	mlx4_ids_put(&ids, first, 1);
	ASSERT_EQ(t, mlx4_ids_get(&ids, 1, 1, &id), 0);
	EXPECT_EQ(t, id, 11U); /* not the one just freed */
	EXPECT_EQ(t, mlx4_ids_get(&ids, 1, 1, &id), 0);
	EXPECT_EQ(t, mlx4_ids_get(&ids, 1, 1, &id), 0);
	EXPECT_EQ(t, mlx4_ids_get(&ids, 1, 1, &id), 0);
	EXPECT_EQ(t, id, 10U);
	EXPECT_EQ(t, mlx4_ids_get(&ids, 1, 1, &id), -ENOSPC);
	mlx4_ids_destroy(&ids);
	EXPECT_EQ(t, mlx4_ids_init(&ids, 4, 4), -EINVAL);
}

static void keys_have_variants(struct ktest *t)
{
	struct mlx4_ids ids;
	uint32_t id;

	/* Two registrations in one place: the old key names the place, but does not open it. */
	EXPECT_NE(t, mlx4_key_index(0x21, 17, 5), mlx4_key_index(0x21, 17, 6));
	EXPECT_EQ(t, mlx4_key_index(0x21, 17, 5) & 0x1ffff, 0x21U);
	/* Never the key that ends a scatter list; bits of the variant beyond the key fall off. */
	EXPECT_NE(t, mlx4_key_from_index(mlx4_key_index(1, 17, 0)), WQE_INVALID_LKEY);
	EXPECT_NE(t, mlx4_key_from_index(mlx4_key_index(1, 17, 0x8000)), WQE_INVALID_LKEY);
	EXPECT_EQ(t, mlx4_key_index(1, 17, 0) & 0x1ffff, 1U);

	ASSERT_EQ(t, mlx4_ids_init(&ids, 10, 14), 0);
	mlx4_ids_begin_at(&ids, 4 * 1000 + 3);
	EXPECT_EQ(t, mlx4_ids_get(&ids, 1, 1, &id), 0);
	EXPECT_EQ(t, id, 13U);
	EXPECT_EQ(t, mlx4_ids_get(&ids, 1, 1, &id), 0);
	EXPECT_EQ(t, id, 10U);
	mlx4_ids_destroy(&ids);
}

static void buddy_splits_and_joins(struct ktest *t)
{
	struct mlx4_buddy b;
	int64_t got[8];

	ASSERT_EQ(t, mlx4_buddy_init(&b, 3), 0);
	EXPECT_EQ(t, mlx4_buddy_get(&b, 0), 0);
	EXPECT_EQ(t, mlx4_buddy_get(&b, 2), 4);
	EXPECT_EQ(t, mlx4_buddy_get(&b, 1), 2);
	EXPECT_EQ(t, mlx4_buddy_get(&b, 1), -ENOSPC);
	EXPECT_EQ(t, mlx4_buddy_get(&b, 0), 1);
	EXPECT_EQ(t, mlx4_buddy_get(&b, 0), -ENOSPC);
	mlx4_buddy_put(&b, 4, 2);
	mlx4_buddy_put(&b, 1, 0);
	mlx4_buddy_put(&b, 2, 1);
	EXPECT_EQ(t, mlx4_buddy_get(&b, 3), -ENOSPC);
	mlx4_buddy_put(&b, 0, 0);
	EXPECT_EQ(t, mlx4_buddy_get(&b, 3), 0); /* all joined again */
	mlx4_buddy_put(&b, 0, 3);
	for (unsigned int n = 0; n < 8; n++)
		got[n] = mlx4_buddy_get(&b, 0);
	for (unsigned int n = 0; n < 8; n++)
		EXPECT_EQ(t, got[n], (int64_t)n);
	mlx4_buddy_destroy(&b);
}

static void table_is_sparse(struct ktest *t)
{
	struct mlx4_table table;
	int obj;

	ASSERT_EQ(t, mlx4_table_init(&table, 5000), 0);
	EXPECT_TRUE(t, mlx4_table_get(&table, 4999) == NULL);
	EXPECT_TRUE(t, mlx4_table_get(&table, 0xffffff) == NULL); /* a hostile number */
	EXPECT_EQ(t, mlx4_table_set(&table, 4999, &obj), 0);
	EXPECT_TRUE(t, mlx4_table_get(&table, 4999) == &obj);
	mlx4_table_clear(&table, 4999);
	EXPECT_TRUE(t, mlx4_table_get(&table, 4999) == NULL);
	mlx4_table_destroy(&table);
}

static void keys_rotate(struct ktest *t)
{
	EXPECT_EQ(t, mlx4_key_from_index(0x12345678), 0x34567812U);
	for (uint32_t n = 0; n < 64; n++)
		EXPECT_EQ(t, mlx4_index_from_key(mlx4_key_from_index(0x01010101U * n)),
			  0x01010101U * n);
}

static void mpt_bytes(struct ktest *t)
{
	const struct mlx4_mpt_fields f = {
		.key_index = 0x00054321,
		.pd = 7,
		.access = RDMA_ACCESS_LOCAL_WRITE | RDMA_ACCESS_REMOTE_WRITE,
		.iova = 0x1122334455667000ULL,
		.len = 0x20000,
		.mtt_addr = 0x1234567890ULL,
		.nr_mtt = 32,
		.page_shift = 21,
	};
	struct mlx4_hw_mpt hw;
	const void *m = &hw;

	mlx4_mpt_fill(&f, &hw);
	/* software owns, MIO, remote and local write, local read, region */
	EXPECT_EQ(t, mlx4_get32(m, 0x00), 0xf0022d00U);
	EXPECT_EQ(t, mlx4_get32(m, 0x08), 0x00054321U);
	EXPECT_EQ(t, mlx4_get32(m, 0x0c), 7U);
	EXPECT_EQ(t, mlx4_get64(m, 0x10), 0x1122334455667000ULL);
	EXPECT_EQ(t, mlx4_get64(m, 0x18), 0x20000ULL);
	EXPECT_EQ(t, mlx4_get64(m, 0x2c), 0x1234567890ULL);
	EXPECT_EQ(t, mlx4_get32(m, 0x34), 32U);
	EXPECT_EQ(t, mlx4_get32(m, 0x38), 21U);
}

static void mtt_page_sizes(struct ktest *t)
{
	static const struct {
		uint64_t iova;
		struct rdma_phys_range r[3];
		size_t nr;
		unsigned int shift;
		uint64_t count;
	} cases[] = {
		/* One page. */
		{ 0, { { 0x5000, 0x1000 } }, 1, 12, 1 },
		/* Aligned alike: one entry covers all. */
		{ 0x40000000, { { 0x80000000, 0x10000000 } }, 1, 28, 1 },
		/* The address is the physical one: one page around it all. */
		{ 0x12345000, { { 0x12345000, 0x3000 } }, 1, 14, 1 },
		/* Physical and virtual differ in bit 12: 4 KiB pages. */
		{ 0x1000, { { 0x80000000, 0x4000 } }, 1, 12, 4 },
		/* Two apart, each 64 KiB and aligned so. */
		{ 0, { { 0x100000, 0x10000 }, { 0x200000, 0x10000 } }, 2, 16, 2 },
		/* A joint in the middle of a larger page. */
		{ 0, { { 0x100000, 0x3000 }, { 0x203000, 0x5000 } }, 2, 12, 8 },
		/* Neighbours are as good as one run. */
		{ 0, { { 0x100000, 0x3000 }, { 0x103000, 0x5000 } }, 2, 15, 1 },
	};

	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		uint64_t len = 0;

		for (size_t i = 0; i < cases[n].nr; i++)
			len += cases[n].r[i].len;
		EXPECT_EQ(t, mlx4_mtt_best_shift(cases[n].iova, cases[n].r, cases[n].nr),
			  cases[n].shift);
		EXPECT_EQ(t, mlx4_mtt_count(cases[n].iova, len, cases[n].shift), cases[n].count);
	}
}

static const struct ktest_case mlx4_cases[] = {
	KTEST(caps_decodes_fields),
	KTEST(caps_of_blueflame),
	KTEST(caps_refuses_nonsense),
	KTEST(layout_survives_any_device),
	KTEST(init_hca_bytes),
	KTEST(fw_is_checked),
	KTEST(hint_is_the_models_own),
	KTEST(waits_are_no_longer_than_asked),
	KTEST(ids_go_round),
	KTEST(keys_have_variants),
	KTEST(buddy_splits_and_joins),
	KTEST(table_is_sparse),
	KTEST(keys_rotate),
	KTEST(mpt_bytes),
	KTEST(mtt_page_sizes),
	{ 0 },
};
static const struct ktest_suite mlx4_suite = { .name = "rdma.mlx4", .cases = mlx4_cases };
KTEST_SUITE(mlx4_suite);
