/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: context memory (ICM), mapped in chunks as objects come and go.
 *
 * Flow:	init lays the regions out and maps what the firmware reserves; get and put count the
 *		objects of each chunk; the last put unmaps the chunk and frees its memory.
 * Locking:	dev->icm_lock.  mlx4_icm_find() needs none: its caller holds the entry present.
 */
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "mlx4.h"
#include "regs.h"

static uint32_t objs_per_chunk(const struct mlx4_icm *icm)
{
	return MAX(icm->chunk_len / icm->region->obj_len, 1U);
}

static int chunk_map(struct mlx4_dev *dev, struct mlx4_icm *icm, uint32_t n)
{
	struct mlx4_icm_chunk *c = kzalloc(sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	err = mlx4_mem_alloc(&c->mem, icm->chunk_len);
	if (err)
		goto out_free;
	err = mlx4_mem_map(dev, CMD_MAP_ICM, &c->mem,
			   icm->region->base + (uint64_t)n * icm->chunk_len);
	if (err)
		goto out_mem;
	icm->chunks[n] = c;
	return 0;

out_mem:
	mlx4_mem_free(&c->mem);
out_free:
	kfree(c);
	return err;
}

static void chunk_unmap(struct mlx4_dev *dev, struct mlx4_icm *icm, uint32_t n)
{
	struct mlx4_icm_chunk *c = icm->chunks[n];
	const struct mlx4_cmd_args args = {
		.op = CMD_UNMAP_ICM,
		.in = icm->region->base + (uint64_t)n * icm->chunk_len,
		.in_mod = icm->chunk_len / MLX4_PAGE_LEN,
	};

	icm->chunks[n] = NULL;
	/* Memory that the device may still write must not be reused before it is reset. */
	if (mlx4_cmd(dev, &args) && !mlx4_is_dead(dev))
		mlx4_fatal(dev, "context memory could not be taken back");
	mlx4_mem_free(&c->mem);
	kfree(c);
}

static void put_chunks(struct mlx4_dev *dev, struct mlx4_icm *icm, uint32_t from, uint32_t end)
{
	assert_mutex_held(&dev->icm_lock);
	for (uint32_t n = from; n < end; n++) {
		ASSERT(icm->chunks[n] && icm->chunks[n]->nr_users > 0);
		if (--icm->chunks[n]->nr_users == 0)
			chunk_unmap(dev, icm, n);
	}
}

int mlx4_icm_get(struct mlx4_dev *dev, enum mlx4_region_id id, uint32_t first, uint32_t nr)
{
	struct mlx4_icm *icm = &dev->icm[id];
	const uint32_t from = first / objs_per_chunk(icm);
	const uint32_t last = (first + nr - 1) / objs_per_chunk(icm);
	int err = 0;

	if (!nr)
		return 0;
	mutex_lock(&dev->icm_lock);
	for (uint32_t n = from; n <= last; n++) {
		if (!icm->chunks[n])
			err = chunk_map(dev, icm, n);
		if (err) {
			put_chunks(dev, icm, from, n);
			break;
		}
		icm->chunks[n]->nr_users++;
	}
	mutex_unlock(&dev->icm_lock);
	return err;
}

void mlx4_icm_put(struct mlx4_dev *dev, enum mlx4_region_id id, uint32_t first, uint32_t nr)
{
	struct mlx4_icm *icm = &dev->icm[id];

	if (!nr)
		return;
	mutex_lock(&dev->icm_lock);
	put_chunks(dev, icm, first / objs_per_chunk(icm),
		   (first + nr - 1) / objs_per_chunk(icm) + 1);
	mutex_unlock(&dev->icm_lock);
}

void *mlx4_icm_find(struct mlx4_dev *dev, enum mlx4_region_id id, uint32_t index, uint32_t *contig)
{
	const struct mlx4_icm *icm = &dev->icm[id];
	const uint32_t per = objs_per_chunk(icm);
	const struct mlx4_icm_chunk *c = READ_ONCE(icm->chunks[index / per]);
	uint64_t off = (uint64_t)(index % per) * icm->region->obj_len;

	for (uint32_t n = 0; c && n < c->mem.nr_pieces; n++) {
		const struct mlx4_piece *p = &c->mem.pieces[n];
		const uint64_t len = (uint64_t)MLX4_PAGE_LEN << p->order;

		if (off < len) {
			*contig = (uint32_t)((len - off) / icm->region->obj_len);
			return (uint8_t *)p->virt + off;
		}
		off -= len;
	}
	*contig = 0;
	return NULL;
}

/* Entries that the firmware uses without asking stay mapped for good. */
static int map_reserved(struct mlx4_dev *dev)
{
	const struct mlx4_caps *c = &dev->caps;
	const struct {
		enum mlx4_region_id id;
		uint32_t first;
		uint32_t nr;
	} res[] = {
		{ REGION_CMPT, (uint32_t)CMPT_QP << CMPT_TYPE_SH, 1U << c->log_reserved_qps },
		{ REGION_CMPT, (uint32_t)CMPT_SRQ << CMPT_TYPE_SH, 1U << c->log_reserved_srqs },
		{ REGION_CMPT, (uint32_t)CMPT_CQ << CMPT_TYPE_SH, 1U << c->log_reserved_cqs },
		{ REGION_CMPT, (uint32_t)CMPT_EQ << CMPT_TYPE_SH, dev->icm[REGION_EQC].region->nr },
		{ REGION_EQC, 0, dev->icm[REGION_EQC].region->nr },
		{ REGION_MTT, 0, 1U << c->log_reserved_mtts },
		{ REGION_DMPT, 0, 1U << c->log_reserved_mrws },
		{ REGION_QPC, 0, 1U << c->log_reserved_qps },
		{ REGION_AUXC, 0, 1U << c->log_reserved_qps },
		{ REGION_ALTC, 0, 1U << c->log_reserved_qps },
		{ REGION_RDMARC, 0, 1U << c->log_reserved_qps },
		{ REGION_CQC, 0, 1U << c->log_reserved_cqs },
		{ REGION_SRQC, 0, 1U << c->log_reserved_srqs },
		{ REGION_MCG, 0, dev->icm[REGION_MCG].region->nr },
	};

	for (size_t n = 0; n < ARRAY_SIZE(res); n++) {
		int err = mlx4_icm_get(dev, res[n].id, res[n].first, res[n].nr);

		if (err)
			return err;
	}
	return 0;
}

int mlx4_icm_init(struct mlx4_dev *dev)
{
	mutex_init(&dev->icm_lock, "mlx4_icm", RANK_RDMA_ICM);
	dev->icm_up = true;
	for (unsigned int id = 0; id < NR_REGIONS; id++) {
		struct mlx4_icm *icm = &dev->icm[id];

		icm->region = &dev->prof.region[id];
		icm->chunk_len = (uint32_t)MIN(icm->region->len, (uint64_t)ICM_CHUNK_LEN);
		icm->nr_chunks = (uint32_t)(icm->region->len / icm->chunk_len);
		icm->chunks = kcalloc(icm->nr_chunks, sizeof(struct mlx4_icm_chunk *));
		if (!icm->chunks)
			return -ENOMEM;
	}
	return map_reserved(dev);
}

static int chunk_restore(struct mlx4_dev *dev, enum mlx4_region_id id, uint32_t n)
{
	const struct mlx4_icm *icm = &dev->icm[id];
	const struct mlx4_icm_chunk *c = icm->chunks[n];

	/*
	 * Translation entries are ours to write and stay; everything else is the device's notes of
	 * objects that it does not have any more.
	 */
	for (uint32_t p = 0; id != REGION_MTT && p < c->mem.nr_pieces; p++)
		memset(c->mem.pieces[p].virt, 0, MLX4_PAGE_LEN << c->mem.pieces[p].order);
	return mlx4_mem_map(dev, CMD_MAP_ICM, &c->mem,
			    icm->region->base + (uint64_t)n * icm->chunk_len);
}

int mlx4_icm_restore(struct mlx4_dev *dev)
{
	int err = 0;

	mutex_lock(&dev->icm_lock);
	for (unsigned int id = 0; id < NR_REGIONS; id++) {
		const struct mlx4_icm *icm = &dev->icm[id];

		for (uint32_t n = 0; n < icm->nr_chunks && !err; n++) {
			if (icm->chunks[n])
				err = chunk_restore(dev, (enum mlx4_region_id)id, n);
		}
	}
	mutex_unlock(&dev->icm_lock);
	return err;
}

void mlx4_icm_destroy(struct mlx4_dev *dev)
{
	for (unsigned int id = 0; id < NR_REGIONS; id++) {
		struct mlx4_icm *icm = &dev->icm[id];

		for (uint32_t n = 0; icm->chunks && n < icm->nr_chunks; n++) {
			if (icm->chunks[n])
				chunk_unmap(dev, icm, n);
		}
		kfree(icm->chunks);
		memset(icm, 0, sizeof(*icm));
	}
	dev->icm_up = false;
}
