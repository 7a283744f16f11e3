/* SPDX-License-Identifier: MIT */
/*
 * HCA model: faults of a board and of its port.
 *
 *	kill		the port goes silent: packets from and to it vanish, and no event
 *			tells either side (link down does tell)
 *	bandwidth	copies from and to a port take tokens from its bucket; a WQE that
 *			finds too few waits for them; a slice is at most the burst
 *	loss		a share of the datagrams that a port sends vanishes, those of QP0
 *			and QP1 excepted; the sender is told that they have gone
 *	overrun		the next N completions of a port, in any queue, find no room
 *	duplicate	a share of the packets that QP0, QP1 or UD QPs of a port send
 *			arrives twice in a row
 *	error		the next N messages that connections of a port send end with a
 *			given syndrome without being sent; the peer is not told
 *	command		the next N commands of an opcode end with a given status without
 *			being executed, or never end: GO stays set until the reset
 *	event		one event of any type, for an object that need not exist
 *	catastrophe	the board stops: its error buffer becomes non-zero, event 08 is its
 *			last word, commands and doorbells have no effect and its port is
 *			down, until the driver resets it
 */
#include "hca.h"

#include <stdlib.h>

struct cmd_fault {
	struct list_head link;
	uint16_t lid, op;
	unsigned status;
	uint64_t left, skip;
};

bool fault_kill(struct fabric *f, uint16_t lid, bool dead)
{
	struct hca *h = f->by_lid[lid];

	if (!h)
		return false;
	if (dead && !h->port.killed)
		f->inject.kills++;
	h->port.killed = dead;
	return true;
}

bool fault_catastrophe(struct fabric *f, uint16_t lid, uint32_t code)
{
	struct hca *h = f->by_lid[lid];
	const uint8_t none = 0;

	if (!h)
		return false;
	if (h->dead)
		return true;
	h->stats.injected_catastrophes++;
	hca_log(h, "catastrophic error %08x injected", code);
	h->errbuf[0] = code;
	eq_event(h, EV_LOCAL_CATAS, 0, &none, 0);
	h->dead = true;
	port_update(h);
	return true;
}

/* @lid 0: every port that there is now. */
bool fault_loss(struct fabric *f, uint16_t lid, uint8_t percent)
{
	if (lid && !f->by_lid[lid])
		return false;
	for (unsigned i = 0; i < f->nr_hcas; i++) {
		if (f->hcas[i] && (!lid || f->hcas[i] == f->by_lid[lid]))
			f->hcas[i]->port.loss = percent;
	}
	return true;
}

/* Is this datagram one of those? */
bool fault_is_lost(struct hca *h)
{
	if (!h->port.loss || inject_draw(&h->fabric->inject) % 100 >= h->port.loss)
		return false;
	h->stats.injected_losses++;
	return true;
}

/* @classes: CLS_MAD, CLS_UD or both.  @lid 0: every port that there is now. */
bool fault_duplicate(struct fabric *f, uint16_t lid, uint8_t percent, unsigned classes)
{
	if (lid && !f->by_lid[lid])
		return false;
	for (unsigned i = 0; i < f->nr_hcas; i++) {
		struct hca *h = f->hcas[i];

		if (!h || (lid && h != f->by_lid[lid]))
			continue;
		if (classes & CLS_MAD)
			h->port.twice_mad = percent;
		if (classes & CLS_UD)
			h->port.twice_ud = percent;
	}
	return true;
}

/* Does this packet of class @cls arrive twice? */
bool fault_is_doubled(struct hca *h, unsigned cls)
{
	const uint8_t percent = cls == CLS_MAD ? h->port.twice_mad : h->port.twice_ud;

	if (!percent || inject_draw(&h->fabric->inject) % 100 >= percent)
		return false;
	h->stats.injected_duplicates++;
	return true;
}

bool fault_error(struct fabric *f, uint16_t lid, uint8_t syndrome, uint32_t times)
{
	struct hca *h = f->by_lid[lid];

	if (!h)
		return false;
	h->port.syndrome = syndrome;
	h->port.errors = times;
	return true;
}

/* The syndrome with which the message that is about to be sent ends; 0 = as it would. */
uint8_t fault_error_next(struct hca *h)
{
	if (!h->port.errors)
		return 0;
	h->port.errors--;
	h->stats.injected_errors++;
	return h->port.syndrome;
}

bool fault_overrun(struct fabric *f, uint16_t lid, uint32_t times)
{
	struct hca *h = f->by_lid[lid];

	if (h)
		h->port.overruns = times;
	return h;
}

/* Does the completion that is about to be written find its queue full? */
bool fault_overruns(struct hca *h)
{
	if (!h->port.overruns)
		return false;
	h->port.overruns--;
	h->stats.injected_overruns++;
	return true;
}

/* An event out of the blue, where the ends of commands go: any type, for any object. */
bool fault_event(struct fabric *f, uint16_t lid, uint8_t type, uint8_t subtype, uint32_t number)
{
	struct hca *h = f->by_lid[lid];
	const struct hw_eqe eqe = {
		.type = type,
		.subtype = subtype,
		.number = cpu_to_be32(number),
	};

	if (!h || h->stage != STAGE_READY || !h->event_mapped[EV_CMD])
		return false;
	hca_log(h, "event %02x.%02x, number %x injected", type, subtype, number);
	eq_post(h, h->event_eq[EV_CMD], &eqe);
	return true;
}

/* ---- commands ---- */

static void drop(struct cmd_fault *c)
{
	list_del(&c->link);
	free(c);
}

/* The next @skip pass. A later rule for the same commands replaces the earlier one. */
bool fault_command(struct fabric *f, uint16_t lid, uint16_t op, unsigned status, uint64_t times,
		   uint64_t skip)
{
	struct cmd_fault *c;

	if (!f->by_lid[lid])
		return false;
	list_for_each_entry(c, &f->inject.cmd_faults, link) {
		if (c->lid == lid && c->op == op) {
			drop(c);
			break;
		}
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return false;
	*c = (struct cmd_fault){
		.lid = lid, .op = op, .status = status, .left = times, .skip = skip
	};
	list_add(&c->link, &f->inject.cmd_faults);
	return true;
}

/* How this command must end: 0 = as it would. */
unsigned fault_command_next(struct hca *h, uint16_t op)
{
	struct cmd_fault *c;

	list_for_each_entry(c, &h->fabric->inject.cmd_faults, link) {
		const unsigned status = c->status;

		if (c->lid != h->port.lid || (c->op != op && c->op != FAULT_OP_ANY))
			continue;
		if (c->skip) {
			c->skip--;
			return 0;
		}
		h->stats.injected_command_faults++;
		if (--c->left == 0)
			drop(c);
		return status;
	}
	return 0;
}

void fault_commands_off(struct fabric *f)
{
	while (!list_empty(&f->inject.cmd_faults))
		drop(list_first_entry(&f->inject.cmd_faults, struct cmd_fault, link));
}

/* ---- bandwidth ---- */

static void bucket_set(struct hca *h, uint64_t bytes_per_s, uint64_t burst)
{
	h->port.bucket = (struct bucket){
		.bytes_per_s = bytes_per_s,
		.burst = burst,
		.level = (int64_t)burst,
		.filled_ns = h->fabric->now_ns,
	};
}

/* @lid 0: every port that there is now.  @bytes_per_s 0: no bound. */
bool fault_bandwidth(struct fabric *f, uint16_t lid, uint64_t bytes_per_s, uint64_t burst)
{
	if (lid) {
		if (!f->by_lid[lid])
			return false;
		bucket_set(f->by_lid[lid], bytes_per_s, burst);
		return true;
	}
	for (unsigned i = 0; i < f->nr_hcas; i++) {
		if (f->hcas[i])
			bucket_set(f->hcas[i], bytes_per_s, burst);
	}
	return true;
}

static void bucket_fill(struct bucket *b, uint64_t now)
{
	const uint64_t ns = now > b->filled_ns ? now - b->filled_ns : 0;
	const unsigned __int128 tokens = (unsigned __int128)ns * b->bytes_per_s / NSEC_PER_SEC;

	if (tokens == 0)
		return; /* keep the fraction */
	if ((__int128)tokens + b->level >= (__int128)b->burst) {
		b->level = (int64_t)b->burst;
		b->filled_ns = now;
		return;
	}
	b->level += (int64_t)tokens;
	b->filled_ns += (uint64_t)(tokens * NSEC_PER_SEC / b->bytes_per_s);
}

/* How long until @need bytes may go through @h's port? */
static uint64_t bucket_wait(struct hca *h, uint64_t need)
{
	struct bucket *b = &h->port.bucket;
	uint64_t missing;

	bucket_fill(b, h->fabric->now_ns);
	if (b->level >= (int64_t)need)
		return 0;
	missing = (uint64_t)((int64_t)need - b->level);
	return (uint64_t)((unsigned __int128)missing * NSEC_PER_SEC / b->bytes_per_s) + 1;
}

/*
 * How many of @want bytes between @a and @b (which may be one) may be copied
 * now; when none, *wait_ns says how long to wait.  Nothing is taken yet.
 */
uint64_t bucket_grant(struct hca *a, struct hca *b, uint64_t want, uint64_t *wait_ns)
{
	struct hca *const ports[] = { a, b };

	*wait_ns = 0;
	for (unsigned i = 0; i < 2; i++) {
		if (ports[i]->port.bucket.bytes_per_s)
			want = MIN(want, ports[i]->port.bucket.burst);
	}
	for (unsigned i = 0; want && i < 2; i++) {
		if (ports[i]->port.bucket.bytes_per_s)
			*wait_ns = MAX(*wait_ns, bucket_wait(ports[i], want));
	}
	if (!*wait_ns)
		return want;
	a->stats.injected_throttles++;
	return 0;
}

/* @bytes were copied. */
void bucket_charge(struct hca *a, struct hca *b, uint64_t bytes)
{
	if (a->port.bucket.bytes_per_s)
		a->port.bucket.level -= (int64_t)bytes;
	if (b != a && b->port.bucket.bytes_per_s)
		b->port.bucket.level -= (int64_t)bytes;
}
