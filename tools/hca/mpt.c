/* SPDX-License-Identifier: MIT */
/*
 * HCA model: memory regions (the dMPT table) and the checks on every access.
 *
 * The table lies in ICM, where a driver may edit an entry that it owns; so an
 * entry is copied out and checked anew at each use.
 */
#include "hca.h"

static uint32_t mpt_index(const struct hca *h, uint32_t index)
{
	return index & ((1u << h->log_mpt) - 1);
}

static struct hw_mpt *mpt_entry(struct hca *h, uint32_t index)
{
	return icm_ptr(h, h->base_dmpt + (uint64_t)mpt_index(h, index) * SIZE_DMPT, SIZE_DMPT);
}

/*
 * Find the region of @key and check that @len bytes at @va may be used by
 * protection domain @pd with right @need (MPT_*).  @len 0 checks nothing but
 * the key.
 */
enum mr_fault mr_get(struct hca *h, uint32_t key, uint32_t pd, uint32_t need, uint64_t va,
		     uint64_t len, struct mr *mr)
{
	const uint32_t index = key >> 8 | key << 24;
	const struct hw_mpt *p = mpt_entry(h, index);
	struct hw_mpt e;
	uint32_t flags;

	if (!p)
		return MR_KEY;
	memcpy(&e, p, sizeof(e));
	flags = be32_to_cpu(e.flags);
	if (flags >> MPT_STATUS_SHIFT || !(flags & MPT_REGION) || be32_to_cpu(e.index) != index)
		return MR_KEY;
	if ((be32_to_cpu(e.pd) & MPT_PD_MASK) != (pd & MPT_PD_MASK))
		return MR_PD;
	if ((flags & need) != need)
		return MR_ACCESS;
	mr->start = be64_to_cpu(e.start);
	mr->len = be64_to_cpu(e.len);
	if (va < mr->start || len > mr->len || va - mr->start > mr->len - len)
		return MR_BOUNDS;
	mr->physical = flags & MPT_PHYSICAL;
	mr->buf.mtt = be64_to_cpu(e.mtt) & 0xfffffffff8ull;
	mr->buf.page_shift = (uint8_t)(be32_to_cpu(e.page_shift) & 0x3f);
	if (!mr->physical && (mr->buf.page_shift < 12 || mr->buf.page_shift > 40))
		return MR_KEY;
	return MR_OK;
}

/* Host address of @va, which mr_get() has checked; *len shrinks to what is contiguous. */
void *mr_span(struct hca *h, const struct mr *mr, uint64_t va, uint64_t *len)
{
	uint64_t mask, gpa;

	if (mr->physical)
		return mem_span(h, va, len);
	mask = BIT64(mr->buf.page_shift) - 1;
	if (!mtt_page(h, &mr->buf, (va - (mr->start & ~mask)) >> mr->buf.page_shift, &gpa))
		return NULL;
	*len = MIN(*len, mask + 1 - (va & mask));
	return mem_span(h, (gpa & ~mask) + (va & mask), len);
}

enum hca_status cmd_sw2hw_mpt(struct hca *h, struct cmd *c)
{
	const struct hw_mpt *x = c->in;
	const uint32_t flags = be32_to_cpu(x->flags);
	struct hw_mpt *e;

	if (c->im >= 1u << h->log_mpt)
		return ST_BAD_INDEX;
	e = mpt_entry(h, c->im);
	if (!e)
		return ST_ICM_ERROR;
	if (mpt_index(h, be32_to_cpu(x->index)) != c->im)
		return ST_BAD_PARAM;
	if (!(flags & MPT_REGION))
		return ST_BAD_OP; /* memory windows are not offered */
	*e = *x;
	e->flags = cpu_to_be32(flags & (uint32_t)(BIT64(MPT_STATUS_SHIFT) - 1));
	return ST_OK;
}

enum hca_status cmd_hw2sw_mpt(struct hca *h, struct cmd *c)
{
	struct hw_mpt *e;
	uint32_t flags;

	if (c->mod > 1)
		return ST_BAD_OP;
	if (c->mod == 0 && !c->out)
		return ST_BAD_PARAM;
	if (c->im >= 1u << h->log_mpt)
		return ST_BAD_INDEX;
	e = mpt_entry(h, c->im);
	if (!e)
		return ST_ICM_ERROR;
	flags = be32_to_cpu(e->flags);
	if (flags >> MPT_STATUS_SHIFT || !(flags & MPT_REGION))
		return ST_BAD_RES_STATE;
	if (c->mod == 0)
		memcpy(c->out, e, SIZE_DMPT);
	e->flags = cpu_to_be32(flags | MPT_SW << MPT_STATUS_SHIFT);
	return ST_OK;
}

enum hca_status cmd_query_mpt(struct hca *h, struct cmd *c)
{
	const struct hw_mpt *e;

	if (c->im >= 1u << h->log_mpt)
		return ST_BAD_INDEX;
	e = mpt_entry(h, c->im);
	if (!e)
		return ST_ICM_ERROR;
	memcpy(c->out, e, SIZE_DMPT);
	return ST_OK;
}

/* Nothing is cached, so there is nothing to do. */
enum hca_status cmd_sync_tpt(struct hca *h, struct cmd *c)
{
	(void)h;
	(void)c;
	return ST_OK;
}
