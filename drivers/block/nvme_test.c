/* SPDX-License-Identifier: MIT */
/* NVMe: what controllers say, and how memory is named in commands. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "nvme_priv.h"

#define NVM BIT64(37)

static void capabilities(struct ktest *t)
{
	static const struct {
		uint64_t cap, regs_len;
		int err;
		unsigned int depth, stride;
		uint64_t ready_ns;
	} cases[] = {
		{ NVM | 15ull << 24 | 2047, 0x4000, 0, 2048, 4, 7500000000ull },
		{ NVM | 0xffff, 0x4000, 0, 65536, 4, 500000000ull },
		{ NVM | 255ull << 24 | 1, 0x1008, 0, 2, 4, 60000000000ull }, /* not for ever */
		{ NVM | 15ull << 32 | 63, 0x41000, 0, 64, 131072, 500000000ull },
		{ NVM | 15ull << 32 | 63, 0x40fff, -EINVAL, 0, 0, 0 }, /* a doorbell outside */
		{ NVM | 63, 0x1000, -EINVAL, 0, 0, 0 },
		{ NVM | 63, 0, -EINVAL, 0, 0, 0 },
		{ NVM, 0x4000, -EINVAL, 0, 0, 0 }, /* one entry */
		{ 63, 0x4000, -EOPNOTSUPP, 0, 0, 0 },
		{ NVM | 1ull << 48 | 63, 0x4000, -EOPNOTSUPP, 0, 0, 0 }, /* pages of 8 KiB */
		{ UINT64_MAX, 0x4000, -ENODEV, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nvme_caps caps = { 0 };

		EXPECT_EQ(t, nvme_decode_cap(cases[i].cap, cases[i].regs_len, &caps), cases[i].err);
		EXPECT_EQ(t, caps.max_depth, cases[i].depth);
		EXPECT_EQ(t, caps.stride, cases[i].stride);
		EXPECT_EQ(t, caps.ready_ns, cases[i].ready_ns);
	}
}

static void controllers(struct ktest *t)
{
	static const struct {
		uint8_t sqes, cqes, mdts, vwc;
		uint16_t oncs;
		uint32_t nn;
		int err;
		uint32_t max_transfer;
	} cases[] = {
		{ 0x66, 0x44, 0, 0, 0, 1, 0, 1u << 20 }, /* no limit of its own */
		{ 0x66, 0x44, 7, 7, 0x5c, 256, 0, 512u << 10 },
		{ 0x75, 0x54, 1, 1, 4, 1, 0, 8192 },
		{ 0x66, 0x44, 255, 0, 8, 1, 0, 1u << 20 },
		{ 0x66, 0x44, 0, 0, 0, 0, -EINVAL, 0 },
		{ 0x77, 0x44, 0, 0, 0, 1, -EINVAL, 0 },
		{ 0x55, 0x44, 0, 0, 0, 1, -EINVAL, 0 },
		{ 0x66, 0x55, 0, 0, 0, 1, -EINVAL, 0 },
		{ 0, 0, 0, 0, 0, 1, -EINVAL, 0 },
	};
	struct nvme_id_ctrl *id = kzalloc(sizeof(*id));

	ASSERT_TRUE(t, id);
	memset(id->model, 'M', sizeof(id->model));
	memcpy(id->serial, "s\n\x01\xff \0  ", 8);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nvme_info info = { 0 };

		id->sqes = cases[i].sqes;
		id->cqes = cases[i].cqes;
		id->mdts = cases[i].mdts;
		id->vwc = cases[i].vwc;
		id->oncs = cpu_to_le16(cases[i].oncs);
		id->nn = cpu_to_le32(cases[i].nn);
		EXPECT_EQ(t, nvme_decode_ctrl(id, &info), cases[i].err);
		EXPECT_EQ(t, info.max_transfer, cases[i].max_transfer);
		if (cases[i].err)
			continue;
		EXPECT_EQ(t, info.nr_nsids, cases[i].nn);
		EXPECT_EQ(t, info.volatile_cache, (cases[i].vwc & 1) != 0);
		EXPECT_EQ(t, info.discard, (cases[i].oncs & 4) != 0);
		EXPECT_EQ(t, info.zeroes, (cases[i].oncs & 8) != 0);
		EXPECT_EQ(t, strlen(info.model), 40u);
		EXPECT_STREQ(t, info.serial, "s???");
	}
	kfree(id);
}

static void namespaces(struct ktest *t)
{
	static const struct {
		uint64_t nsze;
		uint8_t nlbaf, flbas, shift, nsattr;
		uint16_t metadata;
		uint32_t max_transfer;
		int err;
		uint64_t nr_sectors, max_zero;
	} cases[] = {
		{ 2048, 0, 0, 9, 0, 0, 1u << 20, 0, 2048, 2048 },
		{ 2048, 3, 3, 12, 1, 0, 1u << 17, 0, 16384, 256 },
		{ 10, 15, 15, 16, 0, 0, 1u << 16, 0, 1280, 128 },
		{ 0, 0, 0, 9, 0, 0, 1u << 20, -EINVAL, 0, 0 },
		{ UINT64_MAX, 0, 0, 9, 0, 0, 1u << 20, -EINVAL, 0, 0 },
		{ UINT64_MAX >> 12, 0, 0, 12, 0, 0, 1u << 20, -EINVAL, 0, 0 },
		{ 2048, 0, 1, 9, 0, 0, 1u << 20, -EINVAL, 0, 0 }, /* a format that is not there */
		{ 2048, 255, 15, 0, 0, 0, 1u << 20, -EINVAL, 0, 0 },
		{ 2048, 0, 0, 8, 0, 0, 1u << 20, -EINVAL, 0, 0 },
		{ 2048, 0, 0, 17, 0, 0, 1u << 20, -EINVAL, 0, 0 },
		{ 2048, 0, 0, 255, 0, 0, 1u << 20, -EINVAL, 0, 0 },
		{ 2048, 0, 0, 16, 0, 0, 8192, -EINVAL, 0, 0 }, /* no command takes a block */
		{ 2048, 0, 0, 9, 0, 8, 1u << 20, -EOPNOTSUPP, 0, 0 },
	};
	struct nvme_id_ns *id = kzalloc(sizeof(*id));

	ASSERT_TRUE(t, id);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct nvme_info info = { .max_transfer = cases[i].max_transfer,
						.volatile_cache = true,
						.discard = true,
						.zeroes = true };
		struct blkdev bd = { 0 };
		unsigned int shift = 0;

		memset(id, 0, sizeof(*id));
		id->nsze = cpu_to_le64(cases[i].nsze);
		id->nlbaf = cases[i].nlbaf;
		id->flbas = cases[i].flbas;
		id->nsattr = cases[i].nsattr;
		id->formats[cases[i].flbas].shift = cases[i].shift;
		id->formats[cases[i].flbas].metadata = cpu_to_le16(cases[i].metadata);
		EXPECT_EQ(t, nvme_decode_ns(id, &info, &bd, &shift), cases[i].err);
		if (cases[i].err)
			continue;
		EXPECT_EQ(t, bd.nr_sectors, cases[i].nr_sectors);
		EXPECT_EQ(t, bd.block_size, 1u << cases[i].shift);
		EXPECT_EQ(t, shift, cases[i].shift);
		EXPECT_EQ(t, bd.read_only, cases[i].nsattr == 1);
		EXPECT_EQ(t, bd.max_zero, cases[i].max_zero);
		EXPECT_TRUE(t, bd.has_flush);
	}
	kfree(id);
}

static void lists_of_namespaces(struct ktest *t)
{
	const le32_t good[] = { cpu_to_le32(1), cpu_to_le32(2), cpu_to_le32(9), cpu_to_le32(0) };
	const le32_t falling[] = { cpu_to_le32(2), cpu_to_le32(1), cpu_to_le32(0) };
	const le32_t twice[] = { cpu_to_le32(2), cpu_to_le32(2) };

	EXPECT_EQ(t, nvme_decode_nsids(good, 4, 0, 9), 3);
	EXPECT_EQ(t, nvme_decode_nsids(good, 2, 0, 9), 2);
	EXPECT_EQ(t, nvme_decode_nsids(good, 4, 1, 9), -EINVAL);
	EXPECT_EQ(t, nvme_decode_nsids(good, 4, 0, 8), -EINVAL);
	EXPECT_EQ(t, nvme_decode_nsids(good + 3, 1, 0, 9), 0);
	EXPECT_EQ(t, nvme_decode_nsids(falling, 3, 0, 9), -EINVAL);
	EXPECT_EQ(t, nvme_decode_nsids(twice, 2, 0, 9), -EINVAL);
}

static void answers(struct ktest *t)
{
	EXPECT_EQ(t, nvme_status_errno(NVME_SC_OK), 0);
	EXPECT_EQ(t, nvme_status_errno(NVME_SC_INVALID_OPCODE), -EOPNOTSUPP);
	EXPECT_EQ(t, nvme_status_errno(NVME_SC_CAPACITY_EXCEEDED), -ENOSPC);
	EXPECT_EQ(t, nvme_status_errno(NVME_SC_WRITE_PROTECTED), -EROFS);
	EXPECT_EQ(t, nvme_status_errno(0x281), -EIO); /* unrecovered read error */
	EXPECT_EQ(t, nvme_status_errno(0x7ff), -EIO);
	EXPECT_EQ(t, nvme_status_errno(0x4281), -EIO); /* do not retry */
	EXPECT_TRUE(t, nvme_status_again(NVME_SC_ABORTED));
	EXPECT_TRUE(t, nvme_status_again(NVME_SC_NOT_READY));
	EXPECT_FALSE(t, nvme_status_again(NVME_SC_NOT_READY | NVME_SC_DNR));
	EXPECT_FALSE(t, nvme_status_again(0x281));
	EXPECT_FALSE(t, nvme_status_again(NVME_SC_OK));
}

/* The address of byte @off of a command, as the controller finds it. */
static paddr_t byte_at(const struct nvme_cmd *cmd, const le64_t *list, paddr_t list_paddr,
		       uint32_t len, uint32_t off)
{
	const paddr_t first = le64_to_cpu(cmd->prp1);
	const uint32_t in_first = NVME_PAGE - (uint32_t)(first % NVME_PAGE);
	const unsigned int page = off < in_first ? 0 : 1 + (off - in_first) / NVME_PAGE;

	if (!page)
		return first + off;
	off = (off - in_first) % NVME_PAGE;
	if (len - in_first <= NVME_PAGE)
		return le64_to_cpu(cmd->prp2) + off;
	if (le64_to_cpu(cmd->prp2) != list_paddr || page > NVME_LIST_ENTRIES)
		return 0;
	return le64_to_cpu(list[page - 1]) + off;
}

#define CUT_AREA (4u << 20)

/* Segments anywhere, of any length: the commands name each byte once, in order, and few enough. */
static void cut(struct ktest *t)
{
	static struct blk_seg segs[NVME_MAX_SEGS];
	static le64_t list[NVME_LIST_ENTRIES];
	paddr_t area;
	uint8_t *mem = dma_alloc(CUT_AREA, &area);
	struct prng rng;

	ASSERT_TRUE(t, mem);
	prng_seed(&rng, 13);
	for (unsigned int round = 0; round < 300; round++) {
		const uint32_t unit = round % 3 ? 512 : 4096;
		const uint32_t max = NVME_PAGE << prng_next(&rng) % 9;
		struct blk_req req = { .segs = segs,
				       .nr_segs = 1 + (unsigned int)(prng_next(&rng) % 8) };

		for (unsigned int i = 0; i < req.nr_segs; i++) {
			const uint32_t nr =
				1 + (uint32_t)(prng_next(&rng) % (round % 7 ? 24 : 256));
			const uint32_t room = CUT_AREA / unit - nr;

			segs[i].len = nr * unit;
			segs[i].buf = mem + prng_next(&rng) % room * unit;
		}
		while (req.progress.seg < req.nr_segs) {
			struct nvme_cmd cmd = { 0 };
			const uint32_t len = nvme_cut(&req, max, list, 0x1000, &cmd);

			ASSERT_TRUE(t, len && len <= max && !(len % unit));
			for (uint32_t off = 0; off < len; off += unit) {
				struct blk_progress *p = &req.progress;
				const paddr_t want =
					virt_to_phys((uint8_t *)segs[p->seg].buf + p->off);

				ASSERT_EQ(t, byte_at(&cmd, list, 0x1000, len, off), want);
				ASSERT_EQ(t, byte_at(&cmd, list, 0x1000, len, off + unit - 1),
					  want + unit - 1);
				p->off += unit;
				if (p->off == segs[p->seg].len) {
					p->seg++;
					p->off = 0;
				}
			}
		}
	}
	dma_free(mem, CUT_AREA);
}

static void cut_takes_all_it_can(struct ktest *t)
{
	static le64_t list[NVME_LIST_ENTRIES];
	paddr_t area;
	uint8_t *mem = dma_alloc(2u << 20, &area);
	struct nvme_cmd cmd = { 0 };
	struct blk_seg seg[2];
	struct blk_req req = { .segs = seg, .nr_segs = 2 };

	ASSERT_TRUE(t, mem);
	/* Whole pages in two places, and the longest list: one that begins inside a page. */
	seg[0] = (struct blk_seg){ mem, 8192 };
	seg[1] = (struct blk_seg){ mem + 65536, 8192 };
	EXPECT_EQ(t, nvme_cut(&req, 1u << 20, list, 0x1000, &cmd), 16384u);
	EXPECT_EQ(t, le64_to_cpu(cmd.prp2), 0x1000u);
	seg[0] = (struct blk_seg){ mem + 512, 1u << 20 };
	req.nr_segs = 1;
	EXPECT_EQ(t, nvme_cut(&req, 1u << 20, list, 0x1000, &cmd), 1u << 20);
	EXPECT_EQ(t, le64_to_cpu(list[NVME_LIST_ENTRIES - 1]), area + (1u << 20));
	/* One page needs no second address. */
	seg[0].len = 512;
	EXPECT_EQ(t, nvme_cut(&req, 1u << 20, list, 0x1000, &cmd), 512u);
	EXPECT_EQ(t, le64_to_cpu(cmd.prp2), 0u);
	/* A command cannot name every address. */
	seg[0] = (struct blk_seg){ mem + 2, 512 };
	EXPECT_EQ(t, nvme_cut(&req, 1u << 20, list, 0x1000, &cmd), 0u);
	dma_free(mem, 2u << 20);
}

static const struct ktest_case nvme_cases[] = {
	KTEST(capabilities),
	KTEST(controllers),
	KTEST(namespaces),
	KTEST(lists_of_namespaces),
	KTEST(answers),
	KTEST(cut),
	KTEST(cut_takes_all_it_can),
	{ 0 },
};
static const struct ktest_suite nvme_suite = { .name = "nvme.decode", .cases = nvme_cases };
KTEST_SUITE(nvme_suite);
