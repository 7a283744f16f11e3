/* SPDX-License-Identifier: MIT */
/*
 * HCA model: multicast groups (the MCG table).
 *
 * The table is the device's; software fills it by READ_MCG and WRITE_MCG as a
 * hash of chains: buckets first, overflow entries behind them.
 * Limits:	a chain is followed for no more steps than the table has entries.
 */
#include "hca.h"

#include <stdlib.h>

#define MCG_MAX_QPS ARRAY_SIZE(((struct hw_mcg *)NULL)->qp)
#define MCG_COUNT   0xffffffu
#define MCG_BLOCK   BIT(30)

static uint32_t mcg_hash(const struct hca *h, const uint8_t *gid)
{
	uint32_t x = 0;

	for (unsigned i = 0; i < 16; i += 4)
		x = (x ^ get_be32(gid + i)) * 0x9e3779b1u;
	return (x ^ x >> 16) & ((1u << h->log_mcg_hash) - 1);
}

static size_t entry_size(const struct hca *h)
{
	return (size_t)1 << h->log_mcg_entry;
}

enum hca_status cmd_read_mcg(struct hca *h, struct cmd *c)
{
	if (c->im >= 1u << h->log_mcg)
		return ST_BAD_INDEX;
	if (h->mcgs[c->im])
		memcpy(c->out, h->mcgs[c->im], entry_size(h));
	return ST_OK;
}

enum hca_status cmd_write_mcg(struct hca *h, struct cmd *c)
{
	struct hw_mcg **slot;

	if (c->im >= 1u << h->log_mcg)
		return ST_BAD_INDEX;
	if (!icm_present(h, h->base_mcg + ((uint64_t)c->im << h->log_mcg_entry), entry_size(h)))
		return ST_ICM_ERROR;
	slot = &h->mcgs[c->im];
	if (!*slot)
		*slot = calloc(1, sizeof(**slot));
	if (!*slot)
		return ST_INTERNAL_ERR;
	memcpy(*slot, c->in, entry_size(h));
	return ST_OK;
}

enum hca_status cmd_mgid_hash(struct hca *h, struct cmd *c)
{
	c->out_imm = mcg_hash(h, c->in);
	return ST_OK;
}

/* Call @fn for each QP that @h has attached to group @gid. */
void mcg_for_each(struct hca *h, const uint8_t gid[16], mcg_fn fn, void *arg)
{
	uint32_t index;

	if (!h->mcgs)
		return;
	index = mcg_hash(h, gid);
	for (uint32_t steps = 0; steps < 1u << h->log_mcg; steps++) {
		const struct hw_mcg *g = index < 1u << h->log_mcg ? h->mcgs[index] : NULL;
		struct hw_mcg copy;
		uint32_t count;

		if (!g)
			return;
		if (!memcmp(g->gid, gid, sizeof(g->gid))) {
			copy = *g;
			count = be32_to_cpu(copy.count) & MCG_COUNT;
			count = (uint32_t)MIN(count, MCG_MAX_QPS);
			for (uint32_t i = 0; i < count; i++) {
				const uint32_t word = be32_to_cpu(copy.qp[i]);

				fn(h, word & QPN_MASK, word & MCG_BLOCK, arg);
			}
			return;
		}
		index = be32_to_cpu(g->next) >> 6;
		if (index == 0)
			return;
	}
}
