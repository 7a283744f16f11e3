/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the wait registers, which no board has.
 *
 * Flow:	a read of REG_WAIT + 4 * i is answered when a completion or an event has been
 *		written for this board since the last such read ended, or after WAIT_UNIT_US << i.
 *		So a driver that has nothing else to do waits without using a core that its peer's
 *		VM needs, and is woken by one message. An entry from before the read is never
 *		missed: the driver reads, then looks at its queues. One doorbell may write several
 *		entries: the answer goes out behind the last one.
 * Context:	the front end calls hca_wait_begin() for each read that it can answer later
 *		(front_ops.answer), and hca_wait_flush() when it has done what an access asks.
 */
#include "hca.h"

static uint64_t written(const struct hca *h)
{
	return h->stats.cqes + h->stats.eqes;
}

static void wait_over(struct alarm *t)
{
	hca_wait_mark(container_of(t, struct hca, wait.timer));
}

/* Is the answer to this read to come later? */
bool hca_wait_begin(struct hca *h, unsigned bar, uint64_t off, unsigned size)
{
	if (bar != 0 || size != 4 || off < REG_WAIT || off >= REG_WAIT_END || off & 3)
		return false;
	h->stats.waits++;
	if (h->dead || h->stage != STAGE_READY || written(h) != h->wait.seen) {
		h->wait.seen = written(h);
		return false;
	}
	h->wait.timer.fn = wait_over;
	alarm_set(h->fabric, &h->wait.timer,
		  h->fabric->clock() + (WAIT_UNIT_US << (off - REG_WAIT) / 4) * NSEC_PER_USEC);
	h->wait.on = true;
	return true;
}

/* The VM is gone: nobody waits. */
void hca_wait_drop(struct hca *h)
{
	if (h->wait.due)
		list_del(&h->wait.link);
	h->wait.on = h->wait.due = false;
	alarm_cancel(h->fabric, &h->wait.timer);
}

static void wait_end(struct hca *h)
{
	hca_wait_drop(h);
	h->wait.seen = written(h);
	h->front->answer(h, 0);
}

/* Something has been written for @h: its read, if one waits, is answered by hca_wait_flush(). */
void hca_wait_mark(struct hca *h)
{
	if (!h->wait.on || h->wait.due)
		return;
	h->wait.due = true;
	list_add_tail(&h->wait.link, &h->fabric->woken);
}

/* Answer the reads whose boards have got something. */
void hca_wait_flush(struct fabric *f)
{
	while (!list_empty(&f->woken))
		wait_end(list_first_entry(&f->woken, struct hca, wait.link));
}
