/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: memory regions and address translation.
 *
 * Flow:	a region's physical runs become translation entries (MTT) with the largest page
 *		size that fits them, written straight into context memory; the protection entry
 *		(MPT) is handed over by SW2HW_MPT and taken back by HW2SW_MPT.
 * Invariants:	a key is the MPT index with a variant above it, rotated left by 8.  Every
 *		registration takes a random variant, and the first index is random at each boot: a
 *		peer cannot guess a key, and a stale one does not open the next region.
 */
#include <arch/barrier.h>
#include <kernel/random.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "hw.h"
#include "mlx4.h"

#define MTT_MAX_SHIFT 31

unsigned int mlx4_mtt_best_shift(uint64_t iova, const struct rdma_phys_range *ranges, size_t nr)
{
	uint64_t bits = 0; /* lowest set bit limits the page size */
	uint64_t va = iova;
	unsigned int shift;

	for (size_t n = 0; n < nr; n++) {
		bits |= va ^ ranges[n].paddr;
		/* A joint between two runs that are not neighbours must be a page boundary. */
		if (n && ranges[n].paddr != ranges[n - 1].paddr + ranges[n - 1].len)
			bits |= va;
		va += ranges[n].len;
	}
	shift = bits ? (unsigned int)__builtin_ctzll(bits) : MTT_MAX_SHIFT;
	/* Beyond one page for all there is nothing to gain. */
	while (shift > PAGE_SHIFT && mlx4_mtt_count(iova, va - iova, shift - 1) == 1)
		shift--;
	return MIN(MAX(shift, (unsigned int)PAGE_SHIFT), (unsigned int)MTT_MAX_SHIFT);
}

uint64_t mlx4_mtt_count(uint64_t iova, uint64_t len, unsigned int shift)
{
	return ((iova + (len - 1)) >> shift) - (iova >> shift) + 1;
}

static int mtt_space_get(struct mlx4_dev *dev, struct mlx4_mtt *mtt)
{
	int64_t first;
	int err;

	spin_lock(&dev->table_lock);
	first = mlx4_buddy_get(&dev->mtts, mtt->order);
	spin_unlock(&dev->table_lock);
	if (first < 0)
		return -ENOSPC;
	mtt->first = (uint32_t)first;
	err = mlx4_icm_get(dev, REGION_MTT, mtt->first, 1U << mtt->order);
	if (err) {
		spin_lock(&dev->table_lock);
		mlx4_buddy_put(&dev->mtts, mtt->first, mtt->order);
		spin_unlock(&dev->table_lock);
		return err;
	}
	mtt->present = true;
	return 0;
}

struct mtt_writer {
	struct mlx4_dev *dev;
	uint32_t index;
	uint32_t contig;
	struct mlx4_hw_mtt *at;
};

static void mtt_write(struct mtt_writer *w, uint64_t paddr)
{
	if (!w->contig)
		w->at = mlx4_icm_find(w->dev, REGION_MTT, w->index, &w->contig);
	w->at->paddr = cpu_to_be64(paddr | MTT_PRESENT);
	w->at++;
	w->index++;
	w->contig--;
}

int mlx4_mtt_create(struct mlx4_dev *dev, uint64_t iova, const struct rdma_phys_range *ranges,
		    size_t nr, uint64_t len, struct mlx4_mtt *mtt)
{
	const unsigned int shift = mlx4_mtt_best_shift(iova, ranges, nr);
	const uint64_t count = mlx4_mtt_count(iova, len, shift);
	struct mtt_writer w = { .dev = dev };
	uint64_t va = iova;
	uint64_t next_page = iova >> shift; /* first that has no entry yet */
	int err;

	if (count > dev->prof.region[REGION_MTT].nr)
		return -ENOSPC;
	mtt->page_shift = shift;
	mtt->order = count == 1 ? 0 : 64 - (unsigned int)__builtin_clzll(count - 1);
	err = mtt_space_get(dev, mtt);
	if (err)
		return err;

	w.index = mtt->first;
	for (size_t n = 0; n < nr; n++) {
		const uint64_t last_page = (va + ranges[n].len - 1) >> shift;

		for (; next_page <= last_page; next_page++) {
			const uint64_t page_va = next_page << shift;

			/* May lie before the run: the region's bounds are checked apart. */
			mtt_write(&w, ranges[n].paddr + (page_va - va));
		}
		va += ranges[n].len;
	}
	dma_wmb(); /* entries before the command that makes the device use them */
	return 0;
}

void mlx4_mtt_destroy(struct mlx4_dev *dev, struct mlx4_mtt *mtt)
{
	if (!mtt->present)
		return;
	mlx4_icm_put(dev, REGION_MTT, mtt->first, 1U << mtt->order);
	spin_lock(&dev->table_lock);
	mlx4_buddy_put(&dev->mtts, mtt->first, mtt->order);
	spin_unlock(&dev->table_lock);
	mtt->present = false;
}

/* Byte offset from the MTT base. */
static uint64_t mlx4_mtt_addr(const struct mlx4_mtt *mtt)
{
	return (uint64_t)mtt->first * sizeof(struct mlx4_hw_mtt);
}

void mlx4_buf_fill(const struct mlx4_buf *buf, struct mlx4_hw_buf *hw)
{
	const uint64_t addr = mlx4_mtt_addr(&buf->mtt);

	hw->log_page = (uint8_t)(buf->mtt.page_shift - 12);
	hw->mtt_addr_hi = (uint8_t)(addr >> 32);
	hw->mtt_addr_lo = cpu_to_be32((uint32_t)addr);
}

uint32_t mlx4_key_from_index(uint32_t index)
{
	return index << 8 | index >> 24;
}

uint32_t mlx4_index_from_key(uint32_t key)
{
	return key >> 8 | key << 24;
}

void mlx4_mpt_fill(const struct mlx4_mpt_fields *f, struct mlx4_hw_mpt *hw)
{
	uint32_t flags = MPT_SW_OWNS | MPT_MIO | MPT_REGION | MPT_LOCAL_READ;

	if (f->access & RDMA_ACCESS_LOCAL_WRITE)
		flags |= MPT_LOCAL_WRITE;
	if (f->access & RDMA_ACCESS_REMOTE_READ)
		flags |= MPT_REMOTE_READ;
	if (f->access & RDMA_ACCESS_REMOTE_WRITE)
		flags |= MPT_REMOTE_WRITE;
	if (f->access & RDMA_ACCESS_REMOTE_ATOMIC)
		flags |= MPT_ATOMIC;

	*hw = (struct mlx4_hw_mpt){
		.flags = cpu_to_be32(flags),
		.key_index = cpu_to_be32(f->key_index),
		.pd = cpu_to_be32(f->pd),
		.iova = cpu_to_be64(f->iova),
		.len = cpu_to_be64(f->len),
		.mtt_addr = cpu_to_be64(f->mtt_addr),
		.nr_mtt = cpu_to_be32(f->nr_mtt),
		.page_shift = cpu_to_be32(f->page_shift),
	};
}

uint32_t mlx4_key_index(uint32_t index, uint8_t log_mpts, uint32_t variant)
{
	uint32_t key_index = index | variant << log_mpts;

	/* Key 0x100 marks the end of a scatter list. */
	if (mlx4_key_from_index(key_index) == WQE_INVALID_LKEY)
		key_index = index | (variant + 1) << log_mpts;
	return key_index;
}

static int mpt_index_get(struct mlx4_dev *dev, uint32_t *index, uint32_t *key_index)
{
	int err;

	spin_lock(&dev->table_lock);
	err = mlx4_ids_get(&dev->mpts, 1, 1, index);
	spin_unlock(&dev->table_lock);
	if (!err)
		*key_index = mlx4_key_index(*index, dev->prof.log_mpts, (uint32_t)random_u64());
	return err;
}

static void mpt_index_put(struct mlx4_dev *dev, uint32_t index)
{
	spin_lock(&dev->table_lock);
	mlx4_ids_put(&dev->mpts, index, 1);
	spin_unlock(&dev->table_lock);
}

static int mpt_to_hw(struct mlx4_dev *dev, const struct mlx4_mr *mr)
{
	struct mlx4_mbox mbox;
	int err;

	err = mlx4_mbox_get(&mbox);
	if (err)
		return err;
	mlx4_mpt_fill(&mr->mpt, mbox.virt);
	err = mlx4_cmd_in(dev, CMD_SW2HW_MPT, 0, mr->index, &mbox);
	mlx4_mbox_put(&mbox);
	return err;
}

struct rdma_mr *mlx4_mr_create(struct rdma_pd *pd, uint64_t iova,
			       const struct rdma_phys_range *ranges, size_t nr_ranges, uint64_t len,
			       uint32_t access)
{
	struct mlx4_dev *dev = to_mlx4(pd->dev);
	struct mlx4_mr *mr = kzalloc(sizeof(*mr));
	struct mlx4_mpt_fields *f;
	int err;

	if (!mr)
		return ERR_PTR(-ENOMEM);
	f = &mr->mpt;
	*f = (struct mlx4_mpt_fields){ .access = access, .iova = iova, .len = len };
	err = mpt_index_get(dev, &mr->index, &f->key_index);
	if (err)
		goto out_free;
	err = mlx4_icm_get(dev, REGION_DMPT, mr->index, 1);
	if (err)
		goto out_index;
	err = mlx4_mtt_create(dev, iova, ranges, nr_ranges, len, &mr->mtt);
	if (err)
		goto out_icm;

	f->pd = container_of(pd, struct mlx4_pd, rdma)->pdn;
	f->mtt_addr = mlx4_mtt_addr(&mr->mtt);
	f->nr_mtt = 1U << mr->mtt.order;
	f->page_shift = mr->mtt.page_shift;
	err = mpt_to_hw(dev, mr);
	if (err)
		goto out_mtt;
	mr->rdma.lkey = mlx4_key_from_index(f->key_index);
	mr->rdma.rkey = mr->rdma.lkey;
	spin_lock(&dev->table_lock);
	list_add_tail(&mr->node, &dev->mrs);
	spin_unlock(&dev->table_lock);
	return &mr->rdma;

out_mtt:
	mlx4_mtt_destroy(dev, &mr->mtt);
out_icm:
	mlx4_icm_put(dev, REGION_DMPT, mr->index, 1);
out_index:
	mpt_index_put(dev, mr->index);
out_free:
	kfree(mr);
	return ERR_PTR(err);
}

void mlx4_mr_destroy(struct rdma_mr *rdma)
{
	struct mlx4_mr *mr = container_of(rdma, struct mlx4_mr, rdma);
	struct mlx4_dev *dev = to_mlx4(rdma->dev);

	if (mlx4_cmd_none(dev, CMD_HW2SW_MPT, 1, mr->index) && !mlx4_is_dead(dev))
		mlx4_fatal(dev, "memory region could not be taken back");
	spin_lock(&dev->table_lock);
	list_del(&mr->node);
	spin_unlock(&dev->table_lock);
	mlx4_mtt_destroy(dev, &mr->mtt);
	mlx4_icm_put(dev, REGION_DMPT, mr->index, 1);
	mpt_index_put(dev, mr->index);
	kfree(mr);
}

int mlx4_mrs_restore(struct mlx4_dev *dev)
{
	const struct mlx4_mr *mr;
	int err = 0;

	assert_rwsem_held_write(&dev->life);
	lock_not_needed(&dev->table_lock, "life is held for writing: no region comes or goes");
	list_for_each_entry(mr, &dev->mrs, node) {
		err = mpt_to_hw(dev, mr);
		if (err)
			break;
	}
	return err;
}
