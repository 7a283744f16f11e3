/* SPDX-License-Identifier: MIT */
/*
 * Verbs: addresses of ports.
 *
 * Context:	pure.
 */
#include <lib/string.h>
#include <rdma/verbs.h>

#define GRH_SGID_AT 8 /* in a global route header */

void rdma_addr_of_wc(const struct rdma_wc *wc, const void *grh, struct rdma_addr *from)
{
	*from = (struct rdma_addr){ .dlid = wc->slid, .sl = wc->sl };
	if (!(wc->flags & RDMA_WC_GRH))
		return;
	from->has_grh = true;
	memcpy(from->dgid.raw, (const uint8_t *)grh + GRH_SGID_AT, sizeof(from->dgid.raw));
}

static bool has_gid(const struct rdma_addr *a)
{
	static const struct rdma_gid none;

	return memcmp(&a->dgid, &none, sizeof(none)) != 0;
}

bool rdma_addr_equal(const struct rdma_addr *a, const struct rdma_addr *b)
{
	const bool lids = a->dlid && b->dlid;
	const bool gids = has_gid(a) && has_gid(b);

	if (lids && a->dlid != b->dlid)
		return false;
	if (gids && memcmp(&a->dgid, &b->dgid, sizeof(a->dgid)) != 0)
		return false;
	return lids || gids;
}
