/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: memory lent to the device, in naturally aligned pieces.
 *
 * Failure:	when memory is fragmented the pieces get smaller, down to one page.
 */
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>

#include "hw.h"
#include "mlx4.h"

#define RECORDS_PER_MBOX (MLX4_PAGE_LEN / sizeof(struct mlx4_hw_map_record))

static struct frame *piece_alloc(unsigned int *order)
{
	for (;; (*order)--) {
		struct frame *f = frame_alloc(*order, FRAME_ZERO);

		if (f || *order == 0)
			return f;
	}
}

int mlx4_mem_alloc(struct mlx4_mem *mem, uint64_t len)
{
	uint64_t left = DIV_ROUND_UP(len, MLX4_PAGE_LEN);
	uint32_t room = (uint32_t)(left >> MEM_MAX_ORDER) + 2 * MEM_MAX_ORDER;
	unsigned int order = MEM_MAX_ORDER;

	mem->nr_pieces = 0;
	mem->len = left * MLX4_PAGE_LEN;
	mem->pieces = kcalloc(room, sizeof(*mem->pieces));
	if (!mem->pieces)
		return -ENOMEM;

	while (left) {
		struct frame *f;

		while ((1ULL << order) > left)
			order--;
		if (mem->nr_pieces == room) {
			void *more = krealloc(mem->pieces, 2 * room * sizeof(*mem->pieces));

			if (!more)
				goto out;
			mem->pieces = more;
			room *= 2;
		}
		f = piece_alloc(&order);
		if (!f)
			goto out;
		mem->pieces[mem->nr_pieces++] = (struct mlx4_piece){
			.paddr = frame_to_paddr(f),
			.virt = frame_to_virt(f),
			.order = order,
		};
		left -= 1ULL << order;
	}
	return 0;
out:
	mlx4_mem_free(mem);
	return -ENOMEM;
}

void mlx4_mem_free(struct mlx4_mem *mem)
{
	for (uint32_t n = 0; n < mem->nr_pieces; n++)
		frame_free(paddr_to_frame(mem->pieces[n].paddr), mem->pieces[n].order);
	kfree(mem->pieces);
	memset(mem, 0, sizeof(*mem));
}

int mlx4_mem_map(struct mlx4_dev *dev, uint16_t op, const struct mlx4_mem *mem, uint64_t virt)
{
	struct mlx4_hw_map_record *rec;
	struct mlx4_mbox mbox;
	uint32_t in_box = 0;
	int err;

	err = mlx4_mbox_get(&mbox);
	if (err)
		return err;
	rec = mbox.virt;
	for (uint32_t n = 0; n < mem->nr_pieces && !err; n++) {
		const struct mlx4_piece *p = &mem->pieces[n];

		rec[in_box].virt = cpu_to_be64(op == CMD_MAP_ICM ? virt : 0);
		rec[in_box].paddr_log = cpu_to_be64(p->paddr | p->order);
		virt += (uint64_t)MLX4_PAGE_LEN << p->order;
		if (++in_box == RECORDS_PER_MBOX || n + 1 == mem->nr_pieces) {
			err = mlx4_cmd_in(dev, op, 0, in_box, &mbox);
			in_box = 0;
		}
	}
	mlx4_mbox_put(&mbox);
	return err;
}
