/* SPDX-License-Identifier: MIT */
/*
 * HCA model: BlueFlame, doorbells that bring their work queue entry along.
 *
 * Flow:	the BlueFlame page of a UAR is BF_BUFS buffers of BF_BUF bytes (two to
 *		a register).  Stores collect in a buffer; when the entry that its
 *		first words describe is whole, in units of 64 bytes, it counts as a
 *		doorbell of its QP.  A driver leaves the entry in the send queue as
 *		well, so the model runs it from there, and compares the copy with it,
 *		because a board would run the copy.
 * Failure:	a copy that differs, or that names no entry of ours, is counted
 *		(bad_blueflames) and is a plain doorbell.
 * Limits:	a store to the buffer's start begins anew, so a copy that was left
 *		unfinished does no harm.  Pages get memory when they are first written.
 */
#include "hca.h"

#include <stdlib.h>

#define BF_LINE 64u

struct bf_buf {
	uint8_t data[BF_BUF];
	uint64_t have; /* a bit for each 4 bytes */
};
static_assert(BF_BUF / 4 <= 64, "one bit for each 4 bytes");

struct bf_page {
	struct bf_buf buf[BF_BUFS];
};

/* Bits of @len bytes from @at. */
static uint64_t words(unsigned at, unsigned len)
{
	const uint64_t n = len / 4 == 64 ? ~0ull : BIT64(len / 4) - 1;

	return n << (at / 4);
}

/* @e: an entry of @len bytes, whole. */
static void bf_run(struct hca *h, const uint8_t *e, unsigned len)
{
	const struct hw_wqe_ctrl *ctrl = (const void *)e;
	const uint32_t qpn = be32_to_cpu(ctrl->qpn_size) >> 8;
	struct qp *qp = qp_find(h, qpn);

	if (qp && wqe_is(qp, (uint16_t)(be32_to_cpu(ctrl->owner_op) >> 8), e, len)) {
		h->stats.blueflames++;
	} else {
		h->stats.bad_blueflames++;
		hca_log(h, "BlueFlame for QP %06x is not what its send queue has", qpn);
	}
	qp_doorbell(h, qpn);
}

static void bf_store(struct hca *h, struct bf_buf *b, unsigned at, uint64_t val, unsigned size)
{
	unsigned len, whole;

	if (at == 0)
		b->have = 0;
	memcpy(b->data + at, &val, size);
	b->have |= words(at, size);
	if ((b->have & 3) != 3)
		return;
	len = wqe_size(b->data);
	whole = (len + BF_LINE - 1) & ~(BF_LINE - 1);
	if (len == 0 || whole > BF_BUF) {
		b->have = 0;
		h->stats.bad_blueflames++;
		return;
	}
	if ((b->have & words(0, whole)) != words(0, whole))
		return;
	b->have = 0;
	bf_run(h, b->data, len);
}

/* A store at @off of the area behind the UAR pages. */
void bf_write(struct hca *h, uint64_t off, uint64_t val, unsigned size)
{
	const uint64_t page = off >> 12;
	const unsigned in = off & 4095;

	if (h->dead)
		return;
	if (h->stage != STAGE_READY || page >= MIN(h->nr_uars, (uint64_t)NR_BF_PAGES) ||
	    (size != 4 && size != 8) || in & (size - 1)) {
		h->stats.bad_doorbells++;
		return;
	}
	if (!h->bf[page])
		h->bf[page] = calloc(1, sizeof(*h->bf[page]));
	if (h->bf[page])
		bf_store(h, &h->bf[page]->buf[in / BF_BUF], in % BF_BUF, val, size);
}

void bf_free(struct hca *h)
{
	for (unsigned i = 0; i < NR_BF_PAGES; i++) {
		free(h->bf[i]);
		h->bf[i] = NULL;
	}
}
