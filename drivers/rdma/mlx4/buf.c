/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: queue buffers and doorbell records.
 *
 * A buffer is physically contiguous if memory allows, else a virtual area of single pages; its
 * translation starts at address 0.  Doorbell records are 64 bytes apart, so that two queues never
 * share a cache line.
 */
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "mlx4.h"
#include "regs.h"

#define DB_STRIDE   64
#define DB_PER_PAGE (MLX4_PAGE_LEN / DB_STRIDE)

static int buf_map_pages(struct mlx4_dev *dev, struct mlx4_buf *buf)
{
	const size_t nr = buf->len / PAGE_SIZE;
	struct rdma_phys_range *ranges = kcalloc(nr, sizeof(*ranges));
	int err;

	if (!ranges)
		return -ENOMEM;
	for (size_t n = 0; n < nr; n++) {
		ranges[n].paddr = vmalloc_to_phys((uint8_t *)buf->virt + n * PAGE_SIZE);
		ranges[n].len = PAGE_SIZE;
	}
	err = mlx4_mtt_create(dev, 0, ranges, nr, buf->len, &buf->mtt);
	kfree(ranges);
	return err;
}

int mlx4_buf_alloc(struct mlx4_dev *dev, uint64_t len, struct mlx4_buf *buf)
{
	struct rdma_phys_range range;
	int err;

	buf->len = ALIGN_UP(len, PAGE_SIZE);
	buf->virt = dma_alloc(buf->len, &range.paddr);
	buf->contig = buf->virt != NULL;
	if (buf->contig) {
		range.len = buf->len;
		err = mlx4_mtt_create(dev, 0, &range, 1, buf->len, &buf->mtt);
	} else {
		buf->virt = vmalloc(buf->len);
		if (!buf->virt)
			return -ENOMEM;
		err = buf_map_pages(dev, buf);
	}
	if (err) {
		if (buf->contig)
			dma_free(buf->virt, buf->len);
		else
			vfree(buf->virt);
		buf->virt = NULL;
	}
	return err;
}

void mlx4_buf_free(struct mlx4_dev *dev, struct mlx4_buf *buf)
{
	if (!buf->virt)
		return;
	mlx4_mtt_destroy(dev, &buf->mtt);
	if (buf->contig)
		dma_free(buf->virt, buf->len);
	else
		vfree(buf->virt);
	buf->virt = NULL;
}

static bool db_take(struct mlx4_db_page *page, struct mlx4_db *db)
{
	unsigned int n;

	if (page->used == ~0ULL)
		return false;
	n = (unsigned int)__builtin_ctzll(~page->used);
	page->used |= BIT64(n);
	db->page = page;
	db->index = n;
	db->paddr = page->paddr + n * DB_STRIDE;
	db->rec = (be32_t *)(void *)((uint8_t *)page->virt + n * DB_STRIDE);
	memset(db->rec, 0, DB_STRIDE);
	return true;
}

static bool db_take_any(struct mlx4_dev *dev, struct mlx4_db *db)
{
	struct mlx4_db_page *page;
	bool got = false;

	spin_lock(&dev->table_lock);
	list_for_each_entry(page, &dev->db_pages, node) {
		got = db_take(page, db);
		if (got)
			break;
	}
	spin_unlock(&dev->table_lock);
	return got;
}

int mlx4_db_alloc(struct mlx4_dev *dev, struct mlx4_db *db)
{
	static_assert(DB_PER_PAGE == 64, "one bit of 'used' per record");
	struct mlx4_db_page *page;

	if (db_take_any(dev, db))
		return 0;
	page = kzalloc(sizeof(*page));
	if (!page)
		return -ENOMEM;
	page->virt = dma_alloc(MLX4_PAGE_LEN, &page->paddr);
	if (!page->virt) {
		kfree(page);
		return -ENOMEM;
	}
	spin_lock(&dev->table_lock);
	(void)db_take(page, db);
	list_add(&page->node, &dev->db_pages);
	spin_unlock(&dev->table_lock);
	return 0;
}

void mlx4_db_free(struct mlx4_dev *dev, struct mlx4_db *db)
{
	if (!db->page)
		return;
	spin_lock(&dev->table_lock);
	db->page->used &= ~BIT64(db->index);
	spin_unlock(&dev->table_lock);
	db->page = NULL;
}

void mlx4_db_destroy_all(struct mlx4_dev *dev)
{
	struct mlx4_db_page *page, *next;

	lock_not_needed(&dev->table_lock, "the device goes away, nothing is made on it any more");
	list_for_each_entry_safe(page, next, &dev->db_pages, node) {
		list_del(&page->node);
		dma_free(page->virt, MLX4_PAGE_LEN);
		kfree(page);
	}
}
