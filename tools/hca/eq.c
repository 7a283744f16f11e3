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

static struct eq *eq_find(struct hca *h, uint32_t eqn)
{
	return h->eqs && eqn < 1u << h->log_eq ? h->eqs[eqn] : NULL;
}

static struct hw_eqe *eq_slot(struct hca *h, const struct eq *eq, uint32_t index)
{
	const uint64_t i = index & ((1u << eq->log_size) - 1);

	return mtt_ptr(h, &eq->buf, i * sizeof(struct hw_eqe), sizeof(struct hw_eqe));
}

static void eq_fire(struct hca *h, struct eq *eq)
{
	eq->armed = false;
	msix_raise(h, eq->vector);
}

void eq_post(struct hca *h, uint32_t eqn, const struct hw_eqe *eqe)
{
	struct eq *eq = eq_find(h, eqn);
	struct hw_eqe *slot;
	uint8_t owner;

	if (!eq || h->dead)
		return;
	if (eq->producer - eq->consumer >= 1u << eq->log_size) {
		h->stats.eq_overruns++;
		if (!eq->overrun)
			hca_log(h, "EQ %u overrun, event %02x lost", eqn, eqe->type);
		eq->overrun = true;
		return;
	}
	slot = eq_slot(h, eq, eq->producer);
	if (!slot) {
		hca_log(h, "EQ %u: buffer is not mapped", eqn);
		return;
	}
	owner = (eq->producer >> eq->log_size) & 1 ? 0x80 : 0;
	memcpy(slot, eqe, offsetof(struct hw_eqe, owner));
	__atomic_store_n(&slot->owner, owner, __ATOMIC_RELEASE);
	eq->producer++;
	h->stats.eqes++;
	if (eq->armed)
		eq_fire(h, eq);
	hca_wait_mark(h);
}

/* An event for whichever queue MAP_EQ chose; @data goes to byte 4 of the entry. */
void eq_event(struct hca *h, enum hca_event type, uint8_t subtype, const void *data, size_t len)
{
	struct hw_eqe eqe = { .type = (uint8_t)type, .subtype = subtype };

	if (h->stage != STAGE_READY || !h->event_mapped[type])
		return;
	memcpy(eqe.data, data, MIN(len, sizeof(eqe.data)));
	eq_post(h, h->event_eq[type], &eqe);
}

void eq_event_num(struct hca *h, enum hca_event type, uint32_t number)
{
	const be32_t raw = cpu_to_be32(number);

	eq_event(h, type, 0, &raw, sizeof(raw));
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
	const struct hw_eqc *x = c->in;
	struct eq *eq;

	if (c->im >= 1u << h->log_eq)
		return ST_BAD_INDEX;
	if (h->eqs[c->im])
		return ST_BAD_RES_STATE;
	if (!icm_present(h, h->base_eqc + (uint64_t)c->im * SIZE_EQC, SIZE_EQC))
		return ST_ICM_ERROR;
	if ((x->log_size & 31) > LOG_MAX_CQE || (x->buf.page_shift & 31) > 20 ||
	    x->vector >= NR_MSIX)
		return ST_BAD_PARAM;
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return ST_INTERNAL_ERR;
	eq->ctx = *x;
	eq->eqn = c->im;
	eq->log_size = x->log_size & 31;
	eq->vector = x->vector;
	mtt_buf_parse(&eq->buf, &x->buf);
	eq->armed = (x->state & EQ_STATE_MASK) == EQ_ARMED;
	/* All entries belong to the device until they are written. */
	for (uint32_t i = 0; i < 1u << eq->log_size; i++) {
		struct hw_eqe *slot = eq_slot(h, eq, i);

		if (!slot) {
			free(eq);
			return ST_ICM_ERROR;
		}
		slot->owner = 0x80;
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
		memcpy(c->out, &eq->ctx, sizeof(eq->ctx));
	eq_free(h, c->im);
	return ST_OK;
}

enum hca_status cmd_query_eq(struct hca *h, struct cmd *c)
{
	const struct eq *eq = eq_find(h, c->im);
	struct hw_eqc *x = c->out;

	if (!eq)
		return c->im >= 1u << h->log_eq ? ST_BAD_INDEX : ST_BAD_RES_STATE;
	*x = eq->ctx;
	x->state = (uint8_t)((x->state & ~EQ_STATE_MASK) | (eq->armed ? EQ_ARMED : EQ_FIRED));
	x->consumer = cpu_to_be32(eq->consumer & 0xffffff);
	x->producer = cpu_to_be32(eq->producer & 0xffffff);
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
