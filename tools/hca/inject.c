/* SPDX-License-Identifier: MIT */
/*
 * HCA model: fault injection on connections.
 *
 *	delay	a WQE is stamped when its doorbell comes (due = now + the delay of its
 *		class of traffic, and never before its predecessor) and executed when it
 *		is due; the acknowledgement is not delayed
 *	hold	WQEs between two LIDs rest until the release
 *		(a rule of either kind may be for one service level or queue pair alone)
 *	break	both QPs of a connection enter the error state: the head WQE completes
 *		with "retries exceeded", everything else is flushed
 *	link	a port goes down and comes back
 */
#include "hca.h"

#include <stdlib.h>

struct delay_rule {
	struct list_head link;
	struct conn_match match;
	uint8_t classes;
	uint64_t ns;
};

struct hold_rule {
	struct list_head link;
	struct conn_match match;
};

static bool lids_match(uint16_t a, uint16_t b, uint16_t x, uint16_t y)
{
	if (a == 0)
		return true;
	if (b == 0)
		return a == x || a == y;
	return (a == x && b == y) || (a == y && b == x);
}

static bool connected(const struct qp *qp)
{
	return qp->type == QPT_RC || qp->type == QPT_UC;
}

/*
 * A special or UD QP has no peer and no level of its own: only rules for all, or for its own port,
 * concern it.
 */
static bool rule_matches(const struct conn_match *m, const struct qp *qp)
{
	const uint16_t x = qp->h->port.lid, y = connected(qp) ? qp->path.dlid : 0;

	if (!lids_match(m->a, m->b, x, y))
		return false;
	if ((m->by_sl || m->qpn) && !connected(qp))
		return false;
	if (m->by_sl && qp->path.sl != m->sl)
		return false;
	if (!m->qpn)
		return true;
	return (x == m->a && qp->qpn == m->qpn) || (y == m->a && qp->remote_qpn == m->qpn);
}

static unsigned class_of(struct qp *qp, uint16_t index)
{
	if (qp->type == QPT_MLX)
		return CLS_MAD;
	if (qp->type == QPT_UD)
		return CLS_UD;
	switch (wqe_opcode(qp, index)) {
	case WQE_WRITE:
	case WQE_WRITE_IMM:
		return CLS_WRITE;
	case WQE_READ:
		return CLS_READ;
	case WQE_CAS:
	case WQE_FAA:
	case WQE_MASKED_CAS:
	case WQE_MASKED_FAA:
		return CLS_ATOMIC;
	default:
		return CLS_SEND;
	}
}

static uint64_t delay_of(const struct qp *qp, unsigned cls)
{
	const struct inject *in = &qp->h->fabric->inject;
	const struct delay_rule *r;

	list_for_each_entry(r, &in->delays, link) {
		if (r->classes & cls && rule_matches(&r->match, qp))
			return r->ns;
	}
	return in->delay_all & cls ? in->delay_all_ns[__builtin_ctz(cls)] : 0;
}

bool inject_stamping(const struct fabric *f)
{
	return f->inject.delay_all || !list_empty(&f->inject.delays);
}

/* Give every WQE that the driver has handed over its time. */
void inject_stamp(struct qp *qp)
{
	const uint64_t now = qp->h->fabric->now_ns;
	const uint16_t size = (uint16_t)(1u << qp->sq_log_size);

	if ((!connected(qp) && qp->type != QPT_MLX && qp->type != QPT_UD) || qp->state != QPS_RTS)
		return;
	if (!qp->due) {
		qp->due = calloc(size, sizeof(*qp->due));
		if (!qp->due)
			return; /* undelayed, then */
	}
	while ((uint16_t)(qp->due_tail - qp->sq_head) < size &&
	       wqe_state(qp, qp->due_tail) == SQ_READY) {
		const uint64_t delay = delay_of(qp, class_of(qp, qp->due_tail));

		qp->last_due_ns = MAX(qp->last_due_ns, now + delay);
		qp->due[qp->due_tail & (size - 1)] = qp->last_due_ns;
		qp->due_tail++;
		if (delay)
			qp->h->stats.injected_delays++;
	}
}

/* When WQE @index may go; 0 = any time. */
uint64_t inject_due(struct qp *qp, uint16_t index)
{
	if (!qp->due || (int16_t)(index - qp->due_tail) >= 0)
		return 0;
	return qp->due[index & ((1u << qp->sq_log_size) - 1)];
}

bool inject_held(struct qp *qp)
{
	const struct inject *in = &qp->h->fabric->inject;
	const struct hold_rule *r;

	list_for_each_entry(r, &in->holds, link) {
		if (!rule_matches(&r->match, qp))
			continue;
		qp->h->stats.injected_holds++;
		return true;
	}
	return false;
}

/* @classes is a mask of CLS_*. */
void inject_set_delay(struct fabric *f, const struct conn_match *m, uint64_t ns, unsigned classes)
{
	struct inject *in = &f->inject;
	struct delay_rule *r;

	f->inject.delays_set++;
	if (m->a == 0 && !m->by_sl) {
		for (unsigned i = 0; i < NR_CLASSES; i++) {
			if (classes & BIT(i))
				in->delay_all_ns[i] = ns;
		}
		in->delay_all = (uint8_t)(ns ? in->delay_all | classes : in->delay_all & ~classes);
		return;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return;
	r->match = *m;
	r->ns = ns;
	r->classes = (uint8_t)classes;
	list_add(&r->link, &f->inject.delays); /* in front: the latest rule for a pair wins */
}

void inject_delay_off(struct fabric *f)
{
	f->inject.delay_all = 0;
	while (!list_empty(&f->inject.delays)) {
		struct delay_rule *r = list_first_entry(&f->inject.delays, struct delay_rule, link);

		list_del(&r->link);
		free(r);
	}
}

void inject_hold(struct fabric *f, const struct conn_match *m)
{
	struct hold_rule *r = calloc(1, sizeof(*r));

	if (!r)
		return;
	f->inject.holds_set++;
	r->match = *m;
	list_add_tail(&r->link, &f->inject.holds);
}

typedef void (*qp_fn)(struct qp *qp, void *arg);

static void for_each_connection(struct fabric *f, qp_fn fn, void *arg)
{
	for (unsigned i = 0; i < f->nr_hcas; i++) {
		struct hca *h = f->hcas[i];

		for (uint32_t n = 0; h && h->qps && n < 1u << h->log_qp; n++) {
			if (h->qps[n] && connected(h->qps[n]))
				fn(h->qps[n], arg);
		}
	}
}

static void release_one(struct qp *qp, void *arg)
{
	unsigned *n = arg;

	if (qp->wait != WAIT_HELD)
		return;
	qp->wait = WAIT_NONE;
	fabric_queue(qp);
	(*n)++;
}

/* Drop all holds; returns how many QPs go on. */
unsigned inject_release(struct fabric *f)
{
	unsigned n = 0;

	while (!list_empty(&f->inject.holds)) {
		struct hold_rule *r = list_first_entry(&f->inject.holds, struct hold_rule, link);

		list_del(&r->link);
		free(r);
	}
	for_each_connection(f, release_one, &n);
	return n;
}

static void break_side(struct qp *qp)
{
	if (qp->state != QPS_RTS && qp->state != QPS_SQD && qp->state != QPS_RTR)
		return;
	qp->h->stats.injected_breaks++;
	if (qp->state != QPS_RTR && wqe_state(qp, qp->sq_head) == SQ_READY) {
		qp_complete_send(qp, NULL, SYN_RETRY_EXC);
		qp_send_done(qp);
	}
	qp_error(qp);
}

/* The QP at the other end, whatever its state. */
static struct qp *other_end(const struct qp *qp)
{
	struct hca *h = qp->h->fabric->by_lid[qp->path.dlid];
	struct qp *peer = h ? qp_find(h, qp->remote_qpn) : NULL;

	return peer && peer->remote_qpn == qp->qpn && peer->path.dlid == qp->h->port.lid ? peer
											 : NULL;
}

static void break_connection(struct qp *qp)
{
	struct qp *peer = other_end(qp);

	qp->h->fabric->inject.breaks++;
	break_side(qp);
	if (peer && peer != qp)
		break_side(peer);
}

struct pick {
	uint16_t a, b;
	unsigned seen, want;
	struct qp *found;
};

static void break_match(struct qp *qp, void *arg)
{
	struct pick *p = arg;

	if (qp->state != QPS_RTS || !lids_match(p->a, p->b, qp->h->port.lid, qp->path.dlid))
		return;
	p->seen++;
	break_connection(qp);
}

unsigned inject_break(struct fabric *f, uint16_t a, uint16_t b)
{
	struct pick p = { .a = a, .b = b };

	for_each_connection(f, break_match, &p);
	return p.seen;
}

static void pick_nth(struct qp *qp, void *arg)
{
	struct pick *p = arg;

	if (qp->state == QPS_RTS && p->seen++ == p->want)
		p->found = qp;
}

uint64_t inject_draw(struct inject *in)
{
	in->seed ^= in->seed << 13;
	in->seed ^= in->seed >> 7;
	in->seed ^= in->seed << 17;
	return in->seed;
}

static void random_fired(struct alarm *t)
{
	struct inject *in = container_of(t, struct inject, random_timer);
	struct fabric *f = container_of(in, struct fabric, inject);
	struct pick p = { .want = UINT32_MAX };

	alarm_set(f, t, f->now_ns + in->random_every_ns);
	for_each_connection(f, pick_nth, &p);
	if (!p.seen)
		return;
	p.want = (unsigned)(inject_draw(in) % p.seen);
	p.seen = 0;
	for_each_connection(f, pick_nth, &p);
	if (p.found)
		break_connection(p.found);
}

/* Break some connection every @every_ns; 0 = stop. */
void inject_random(struct fabric *f, uint64_t every_ns, uint64_t seed)
{
	f->inject.random_every_ns = every_ns;
	f->inject.seed = seed ? seed : 0x9e3779b97f4a7c15ull;
	if (every_ns)
		alarm_set(f, &f->inject.random_timer, f->now_ns + every_ns);
	else
		alarm_cancel(f, &f->inject.random_timer);
}

bool inject_link(struct fabric *f, uint16_t lid, bool down)
{
	struct hca *h = f->by_lid[lid];

	if (!h)
		return false;
	if (h->port.link_down == down)
		return true;
	f->inject.link_changes++;
	if (down)
		h->stats.injected_link_downs++;
	h->port.link_down = down;
	port_update(h);
	return true;
}

void inject_init(struct fabric *f)
{
	list_init(&f->inject.delays);
	list_init(&f->inject.holds);
	list_init(&f->inject.cmd_faults);
	f->inject.random_timer.fn = random_fired;
	f->inject.seed = 0x9e3779b97f4a7c15ull;
}

void inject_free(struct fabric *f)
{
	inject_delay_off(f);
	inject_release(f);
	fault_commands_off(f);
	alarm_cancel(f, &f->inject.random_timer);
}
