/* SPDX-License-Identifier: MIT */
/*
 * HCA model: event queues.
 *
 * Ordering:	an entry's body is stored before its owner byte (release), since
 *		the guest polls that byte.
 * Failure:	a full queue loses the event, counted and logged once.
 */
#include "hca.h"

#include <stdlib.h>

#define EQE_SIZE 32u

static struct eq *eq_find(struct hca *h, uint32_t eqn)
{
	return h->eqs && eqn < 1u << h->log_eq ? h->eqs[eqn] : NULL;
}

static void eq_fire(struct hca *h, struct eq *eq)
{
	eq->armed = false;
	msix_raise(h, eq->vector);
}

void eq_post(struct hca *h, uint32_t eqn, const uint8_t eqe[32])
{
	struct eq *eq = eq_find(h, eqn);
	uint8_t *slot, owner;

	if (!eq || h->dead)
		return;
	if (eq->producer - eq->consumer >= 1u << eq->log_size) {
		h->stats.eq_overruns++;
		if (!eq->overrun)
			hca_log(h, "EQ %u overrun, event %02x lost", eqn, eqe[1]);
		eq->overrun = true;
		return;
	}
	slot = mtt_ptr(h, &eq->buf, (uint64_t)(eq->producer & ((1u << eq->log_size) - 1)) * 32, 32);
	if (!slot) {
		hca_log(h, "EQ %u: buffer is not mapped", eqn);
		return;
	}
	owner = (eq->producer >> eq->log_size) & 1 ? 0x80 : 0;
	memcpy(slot, eqe, EQE_SIZE - 1);
	__atomic_store_n(slot + 0x1f, owner, __ATOMIC_RELEASE);
	eq->producer++;
	h->stats.eqes++;
	if (eq->armed)
		eq_fire(h, eq);
}

/* An event for whichever queue MAP_EQ chose; @data goes to byte 4 of the entry. */
void eq_event(struct hca *h, enum hca_event type, uint8_t subtype, const uint8_t *data, size_t len)
{
	uint8_t eqe[EQE_SIZE] = { 0 };

	if (h->stage != STAGE_READY || !h->event_mapped[type])
		return;
	eqe[1] = (uint8_t)type;
	eqe[3] = subtype;
	memcpy(eqe + 4, data, MIN(len, (size_t)24));
	eq_post(h, h->event_eq[type], eqe);
}

void eq_event_num(struct hca *h, enum hca_event type, uint32_t number)
{
	uint8_t data[4];

	put_be32(data, number);
	eq_event(h, type, 0, data, sizeof(data));
}

/* The driver tells its consumer index and perhaps arms. */
void eq_doorbell(struct hca *h, uint32_t eqn, uint32_t val)
{
	struct eq *eq = eq_find(h, eqn);
	uint32_t delta;

	if (!eq) {
		h->stats.bad_doorbells++;
		return;
	}
	delta = (val - eq->consumer) & 0xffffff;
	if (delta > eq->producer - eq->consumer) {
		h->stats.bad_doorbells++; /* beyond what was written */
		return;
	}
	eq->consumer += delta;
	eq->overrun = false;
	if (!(val >> 31))
		return;
	eq->armed = true;
	if (eq->producer != eq->consumer)
		eq_fire(h, eq);
}

void eq_free(struct hca *h, uint32_t eqn)
{
	free(h->eqs[eqn]);
	h->eqs[eqn] = NULL;
}

enum hca_status cmd_sw2hw_eq(struct hca *h, struct cmd *c)
{
	const uint8_t *x = c->in;
	struct eq *eq;

	if (c->im >= 1u << h->log_eq)
		return ST_BAD_INDEX;
	if (h->eqs[c->im])
		return ST_BAD_RES_STATE;
	if (!icm_present(h, h->base_eqc + (uint64_t)c->im * SIZE_EQC, SIZE_EQC))
		return ST_ICM_ERROR;
	if ((x[0x0c] & 31) > LOG_MAX_CQE || (x[0x18] & 31) > 20 || x[0x17] >= NR_MSIX)
		return ST_BAD_PARAM;
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return ST_INTERNAL_ERR;
	memcpy(eq->ctx, x, sizeof(eq->ctx));
	eq->eqn = c->im;
	eq->log_size = x[0x0c] & 31;
	eq->vector = x[0x17];
	eq->buf.page_shift = (x[0x18] & 31) + 12;
	eq->buf.mtt = (uint64_t)x[0x1b] << 32 | (get_be32(x + 0x1c) & ~7u);
	eq->armed = ((get_be32(x) >> 8) & 0xf) == 9;
	/* All entries belong to the device until they are written. */
	for (uint64_t i = 0; i < 1u << eq->log_size; i++) {
		uint8_t *slot = mtt_ptr(h, &eq->buf, i * EQE_SIZE, EQE_SIZE);

		if (!slot) {
			free(eq);
			return ST_ICM_ERROR;
		}
		slot[0x1f] = 0x80;
	}
	h->eqs[c->im] = eq;
	return ST_OK;
}

enum hca_status cmd_hw2sw_eq(struct hca *h, struct cmd *c)
{
	struct eq *eq = eq_find(h, c->im);

	if (!eq)
		return c->im >= 1u << h->log_eq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	if (eq->refs)
		return ST_BUSY;
	if (c->mod == 0)
		memcpy(c->out, eq->ctx, sizeof(eq->ctx));
	eq_free(h, c->im);
	return ST_OK;
}

enum hca_status cmd_query_eq(struct hca *h, struct cmd *c)
{
	const struct eq *eq = eq_find(h, c->im);

	if (!eq)
		return c->im >= 1u << h->log_eq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	memcpy(c->out, eq->ctx, sizeof(eq->ctx));
	c->out[2] = (uint8_t)((c->out[2] & 0xf0) | (eq->armed ? 9 : 0xa));
	put_be32(c->out + 0x28, eq->consumer & 0xffffff);
	put_be32(c->out + 0x2c, eq->producer & 0xffffff);
	return ST_OK;
}

/* in_param is the mask of event types; im: bit 31 = unmap, else the queue. */
enum hca_status cmd_map_eq(struct hca *h, struct cmd *c)
{
	const bool unmap = c->im >> 31;
	const uint32_t eqn = c->im & 0x7fffffff;

	if (!unmap && !eq_find(h, eqn))
		return ST_BAD_RES_STATE;
	for (unsigned i = 0; i < NR_EVENTS; i++) {
		if (!(c->in_param & BIT64(i)))
			continue;
		h->event_mapped[i] = !unmap;
		h->event_eq[i] = (uint8_t)eqn;
	}
	return ST_OK;
}
