/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: object numbers, and a buddy allocator for translation entries.
 *
 * Locking:	the caller's (dev->table_lock); nothing here sleeps after init.
 */
#include <kernel/panic.h>
#include <lib/alloc.h>
#include <lib/bitmap.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "mlx4.h"

int mlx4_ids_init(struct mlx4_ids *ids, uint32_t first, uint32_t nr)
{
	if (first >= nr)
		return -EINVAL;
	ids->map = lib_zalloc(BITMAP_BYTES(nr));
	if (!ids->map)
		return -ENOMEM;
	ids->nr = nr;
	ids->first = first;
	ids->next = first;
	return 0;
}

void mlx4_ids_begin_at(struct mlx4_ids *ids, uint32_t random)
{
	ids->next = ids->first + random % (ids->nr - ids->first);
}

void mlx4_ids_destroy(struct mlx4_ids *ids)
{
	lib_free(ids->map);
	ids->map = NULL;
}

int mlx4_ids_get(struct mlx4_ids *ids, uint32_t align, uint32_t count, uint32_t *id)
{
	size_t at = bitmap_find_zero_area(ids->map, ids->nr, ids->next, count, align);

	if (at >= ids->nr)
		at = bitmap_find_zero_area(ids->map, ids->nr, ids->first, count, align);
	if (at >= ids->nr)
		return -ENOSPC;
	bitmap_set_range(ids->map, at, count);
	ids->next = (uint32_t)at + count < ids->nr ? (uint32_t)at + count : ids->first;
	*id = (uint32_t)at;
	return 0;
}

void mlx4_ids_put(struct mlx4_ids *ids, uint32_t id, uint32_t count)
{
	ASSERT(id >= ids->first && id + count <= ids->nr && bitmap_test(ids->map, id));
	bitmap_clear_range(ids->map, id, count);
}

int mlx4_buddy_init(struct mlx4_buddy *b, unsigned int max_order)
{
	memset(b, 0, sizeof(*b));
	b->free = lib_zalloc((max_order + 1) * sizeof(*b->free));
	b->nr_free = lib_zalloc((max_order + 1) * sizeof(*b->nr_free));
	if (!b->free || !b->nr_free)
		goto out;
	b->max_order = max_order;
	for (unsigned int o = 0; o <= max_order; o++) {
		b->free[o] = lib_zalloc(BITMAP_BYTES(1UL << (max_order - o)));
		if (!b->free[o])
			goto out;
	}
	bitmap_set(b->free[max_order], 0);
	b->nr_free[max_order] = 1;
	return 0;
out:
	mlx4_buddy_destroy(b);
	return -ENOMEM;
}

void mlx4_buddy_destroy(struct mlx4_buddy *b)
{
	for (unsigned int o = 0; b->free && o <= b->max_order; o++)
		lib_free(b->free[o]);
	lib_free(b->free);
	lib_free(b->nr_free);
	memset(b, 0, sizeof(*b));
}

int64_t mlx4_buddy_get(struct mlx4_buddy *b, unsigned int order)
{
	unsigned int o = order;
	size_t block;

	while (o <= b->max_order && !b->nr_free[o])
		o++;
	if (o > b->max_order)
		return -ENOSPC;

	block = bitmap_find_first(b->free[o], 1UL << (b->max_order - o));
	bitmap_clear(b->free[o], block);
	b->nr_free[o]--;
	while (o > order) { /* keep the first half, free the second */
		o--;
		block *= 2;
		bitmap_set(b->free[o], block + 1);
		b->nr_free[o]++;
	}
	return (int64_t)(block << order);
}

void mlx4_buddy_put(struct mlx4_buddy *b, uint32_t start, unsigned int order)
{
	size_t block = start >> order;

	ASSERT(order <= b->max_order && !bitmap_test(b->free[order], block));
	while (order < b->max_order && bitmap_test(b->free[order], block ^ 1)) {
		bitmap_clear(b->free[order], block ^ 1);
		b->nr_free[order]--;
		block >>= 1;
		order++;
	}
	bitmap_set(b->free[order], block);
	b->nr_free[order]++;
}

/* --- object tables ------------------------------------------------------------------- */

int mlx4_table_init(struct mlx4_table *t, uint32_t nr)
{
	t->leaves = lib_zalloc(DIV_ROUND_UP(nr, TABLE_LEAF) * sizeof(*t->leaves));
	t->nr = nr;
	return t->leaves ? 0 : -ENOMEM;
}

void mlx4_table_destroy(struct mlx4_table *t)
{
	for (uint32_t n = 0; t->leaves && n < DIV_ROUND_UP(t->nr, TABLE_LEAF); n++)
		lib_free(t->leaves[n]);
	lib_free(t->leaves);
	t->leaves = NULL;
	t->nr = 0;
}

int mlx4_table_set(struct mlx4_table *t, uint32_t index, void *obj)
{
	void ***leaf = &t->leaves[index / TABLE_LEAF];

	if (!*leaf) {
		void **fresh = lib_zalloc(TABLE_LEAF * sizeof(*fresh));

		if (!fresh)
			return -ENOMEM;
		__atomic_store_n(leaf, fresh, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&(*leaf)[index % TABLE_LEAF], obj, __ATOMIC_SEQ_CST);
	return 0;
}

void mlx4_table_clear(struct mlx4_table *t, uint32_t index)
{
	__atomic_store_n(&t->leaves[index / TABLE_LEAF][index % TABLE_LEAF], NULL,
			 __ATOMIC_SEQ_CST);
}

void *mlx4_table_get(const struct mlx4_table *t, uint32_t index)
{
	void **leaf;

	if (index >= t->nr)
		return NULL;
	leaf = __atomic_load_n(&t->leaves[index / TABLE_LEAF], __ATOMIC_ACQUIRE);
	return leaf ? __atomic_load_n(&leaf[index % TABLE_LEAF], __ATOMIC_SEQ_CST) : NULL;
}
