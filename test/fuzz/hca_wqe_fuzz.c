/* SPDX-License-Identifier: MIT */
/*
 * Fuzz the HCA model's work requests: the input is the send and the receive queue of one of two
 * connected guests.
 *
 * Property: nothing outside the guests' RAM is touched, and the other guest's memory beyond its
 * region keeps what it had.
 */
#include <stdlib.h>

#include "../../tools/hca/fixture.h"

#define CANARY 0x5a

static const enum qp_type types[] = { QPT_RC, QPT_UC, QPT_UD, QPT_MLX };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *other, *sq;
	struct qp *qp;
	struct fixture r;

	if (size < 2)
		return 0;
	fix_create(&r);
	fix_connect(&r, 3, 4);
	other = fix_page(&r.g[1], PAGE_OTHER);
	memset(other, CANARY, 4096);
	qp = qp_find(r.g[0].h, FIX_QPN);
	qp->type = types[data[0] & 3];
	qp_find(r.g[1].h, FIX_QPN)->type = qp->type;
	sq = fix_page(&r.g[0], PAGE_QP);
	memcpy(sq, data + 2, MIN(size - 2, (size_t)1024));
	for (unsigned i = 0; i < 8; i++) /* hand over what the second byte says */
		sq[i * 64] = (uint8_t)((sq[i * 64] & 0x7f) | (data[1] >> i & 1 ? 0 : 0x80));
	put_be32(r.g[0].ram + FIX_DB + 0x800, data[0] >> 4);
	put_be32(r.g[1].ram + FIX_DB + 0x800, data[0] >> 4);
	memcpy(fix_page(&r.g[1], PAGE_QP) + r.g[1].rq_off, sq + 512, 512);
	fix_ring(&r.g[0]);
	fix_advance(&r, 20 * NSEC_PER_MSEC);
	for (unsigned i = 0; i < 4096; i++) {
		if (other[i] != CANARY)
			abort();
	}
	fix_destroy(&r);
	return 0;
}
