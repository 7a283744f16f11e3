/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the subnet: HCAs by LID, timers, and the run queue.
 *
 * Context:	fabric_run() is called by the main loop after each batch of
 *		accesses; it fires due timers and gives every queued QP one turn.
 */
#include "hca.h"

#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_OUI 0x0002c90300000000ull

struct fabric *fabric_create(void)
{
	struct fabric *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->by_lid = calloc(0x10000, sizeof(struct hca *));
	if (!f->by_lid) {
		free(f);
		return NULL;
	}
	list_init(&f->runq);
	list_init(&f->woken);
	list_init(&f->groups);
	f->sm_guid = DEFAULT_OUI | 0xfffff0;
	f->clock = host_time_ns;
	f->now_ns = f->clock();
	inject_init(f);
	return f;
}

void fabric_destroy(struct fabric *f)
{
	for (unsigned i = 0; i < f->nr_hcas; i++) {
		if (f->hcas[i])
			hca_destroy(f->hcas[i]);
	}
	pcap_close(f);
	inject_free(f);
	sa_free(f);
	free(f->timers.v);
	free(f->hcas);
	free(f->by_lid);
	free(f);
}

/* The place for a new HCA in the table: one that is free, or a new one.  False: no memory. */
static bool hca_slot(struct fabric *f, unsigned *slot)
{
	struct hca **v;

	for (*slot = 0; *slot < f->nr_hcas; (*slot)++) {
		if (!f->hcas[*slot])
			return true;
	}
	v = realloc(f->hcas, (f->nr_hcas + 1) * sizeof(struct hca *));
	if (!v)
		return false;
	f->hcas = v;
	v[f->nr_hcas++] = NULL;
	return true;
}

/*
 * A new HCA with its port on the switch.  @lid 0: one more than its index.  An
 * HCA whose VM has left makes room for its successor.  NULL: the LID is taken.
 */
struct hca *hca_create(struct fabric *f, const char *name, uint16_t lid, uint64_t guid)
{
	struct hca *h;
	unsigned slot;

	if (lid > MAX_LID)
		return NULL;
	if (lid && f->by_lid[lid] && f->by_lid[lid]->gone)
		hca_destroy(f->by_lid[lid]);
	if (!hca_slot(f, &slot))
		return NULL;
	if (!lid)
		lid = (uint16_t)(slot + 1);
	h = f->by_lid[lid] ? NULL : calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	h->fabric = f;
	h->index = slot;
	if (name && *name)
		snprintf(h->name, sizeof(h->name), "%s", name);
	else
		snprintf(h->name, sizeof(h->name), "vm%u", h->index);
	pci_init(h);
	port_init(h, lid, guid ? guid : DEFAULT_OUI | (uint64_t)lid << 8 | 1);
	f->hcas[slot] = h;
	f->by_lid[lid] = h;
	return h;
}

/* Back to the state after power-on, as far as software can tell. */
void hca_reset(struct hca *h)
{
	h->port.inited = false;
	hca_free_objects(h);
	h->stage = STAGE_RESET;
	port_update(h);
	icm_free(h);
	h->fa_pages = 0;
	h->aux_pages = 0;
	h->owned = false;
	h->arm_half = false;
	h->msix_pending = 0;
	memset(&h->hcr, 0, sizeof(h->hcr));
	h->hcr_stuck = false;
	h->dead = false;
	memset(h->errbuf, 0, sizeof(h->errbuf));
}

void hca_destroy(struct hca *h)
{
	struct fabric *f = h->fabric;

	hca_reset(h);
	f->by_lid[h->port.lid] = NULL;
	f->hcas[h->index] = NULL;
	free(h);
}

/* The HCA that a packet from @from to @dlid reaches now. */
struct hca *fabric_route(struct hca *from, uint16_t dlid)
{
	struct hca *to = from->fabric->by_lid[dlid];

	if (!to || from->port.state != PORT_ACTIVE || to->port.state != PORT_ACTIVE)
		return NULL;
	if ((from->port.killed || to->port.killed) && from != to) {
		from->stats.killed_drops++;
		return NULL;
	}
	return to;
}

void fabric_queue(struct qp *qp)
{
	if (list_empty(&qp->run))
		list_add_tail(&qp->run, &qp->h->fabric->runq);
}

bool fabric_busy(const struct fabric *f)
{
	return !list_empty(&f->runq);
}

/* ---- timers: a binary heap, earliest first ---- */

static void heap_place(struct alarm_heap *t, size_t i, struct alarm *x)
{
	t->v[i] = x;
	x->slot = i + 1;
}

static void heap_up(struct alarm_heap *t, size_t i)
{
	struct alarm *x = t->v[i];

	for (; i && t->v[(i - 1) / 2]->due_ns > x->due_ns; i = (i - 1) / 2)
		heap_place(t, i, t->v[(i - 1) / 2]);
	heap_place(t, i, x);
}

static void heap_down(struct alarm_heap *t, size_t i)
{
	struct alarm *x = t->v[i];

	for (;;) {
		size_t c = 2 * i + 1;

		if (c >= t->len)
			break;
		if (c + 1 < t->len && t->v[c + 1]->due_ns < t->v[c]->due_ns)
			c++;
		if (t->v[c]->due_ns >= x->due_ns)
			break;
		heap_place(t, i, t->v[c]);
		i = c;
	}
	heap_place(t, i, x);
}

void alarm_cancel(struct fabric *f, struct alarm *x)
{
	struct alarm_heap *t = &f->timers;
	size_t i;

	if (!x->slot)
		return;
	i = x->slot - 1;
	x->slot = 0;
	t->len--;
	if (i == t->len)
		return;
	heap_place(t, i, t->v[t->len]);
	heap_up(t, i);
	heap_down(t, t->v[i]->slot - 1);
}

void alarm_set(struct fabric *f, struct alarm *x, uint64_t due_ns)
{
	struct alarm_heap *t = &f->timers;

	alarm_cancel(f, x);
	if (t->len == t->cap) {
		const size_t cap = t->cap ? t->cap * 2 : 64;
		struct alarm **v = realloc(t->v, cap * sizeof(struct alarm *));

		if (!v) {
			model_log("out of memory for timers");
			abort();
		}
		t->v = v;
		t->cap = cap;
	}
	x->due_ns = due_ns;
	heap_place(t, t->len, x);
	heap_up(t, t->len++);
}

uint64_t fabric_deadline(const struct fabric *f)
{
	return f->timers.len ? f->timers.v[0]->due_ns : UINT64_MAX;
}

/* Fire what is due; then one turn for each QP that was waiting when we came. */
void fabric_run(struct fabric *f)
{
	struct list_head turn;

	f->now_ns = f->clock();
	while (f->timers.len && f->timers.v[0]->due_ns <= f->now_ns) {
		struct alarm *t = f->timers.v[0];

		alarm_cancel(f, t);
		t->fn(t);
	}
	list_init(&turn);
	list_splice_tail(&f->runq, &turn);
	while (!list_empty(&turn)) {
		struct qp *qp = list_first_entry(&turn, struct qp, run);

		list_del(&qp->run);
		qp_run(qp);
	}
	hca_wait_flush(f);
}
