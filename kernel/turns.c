/* SPDX-License-Identifier: MIT */
/*
 * Programs' turns: see turns.h.
 */
#include "turns.h"

#include <lib/compiler.h>

#define SHARES BIT(THREAD_PRIO_USER)

static void count_realtime(struct turns *t, uint32_t waiting, int64_t ns)
{
	if (!(waiting & SHARES)) {
		t->shares_owed_ns = 0;
		t->shares = false;
		return;
	}
	t->shares_owed_ns = MIN(t->shares_owed_ns + ns, TURNS_MOST_NS);
	t->shares |= t->shares_owed_ns >= TURNS_FLOOD_NS;
}

/* Programs that share have run for @ns, or none of them wants to. */
static void count_shares(struct turns *t, unsigned int prio, uint32_t waiting, int64_t ns)
{
	if (prio == THREAD_PRIO_USER) {
		t->shares_owed_ns -= ns * (TURNS_PART - 1);
		if (t->shares_owed_ns <= 0) {
			t->shares_owed_ns = t->shares ? MAX(t->shares_owed_ns, -TURNS_MOST_NS) : 0;
			t->shares = false;
		}
	} else if (!(waiting & SHARES)) {
		t->shares_owed_ns = 0;
		t->shares = false;
	}
}

static void count_flood(struct turns *t, unsigned int prio, uint32_t waiting, int64_t ns)
{
	if (prio == THREAD_PRIO_REALTIME) {
		count_realtime(t, waiting, ns);
	} else if (prio > THREAD_PRIO_USER && (waiting & SHARES)) {
		t->owed_ns = MIN(t->owed_ns + ns, TURNS_MOST_NS);
		t->programs |= t->owed_ns >= TURNS_FLOOD_NS;
	} else if (prio == THREAD_PRIO_USER && t->owed_ns > 0) {
		t->owed_ns -= ns * (TURNS_PART - 1);
		if (t->owed_ns <= 0) {
			t->owed_ns = t->programs ? MAX(t->owed_ns, -TURNS_MOST_NS) : 0;
			t->programs = false;
		}
	} else {
		/* They run, with none before them, or none wants to. */
		t->owed_ns = 0;
		t->programs = false;
	}
}

void turns_charge(struct turns *t, unsigned int prio, uint32_t waiting, int64_t ns)
{
	if (prio > THREAD_PRIO_USER || t->owed_ns)
		count_flood(t, prio, waiting, ns);
	if (unlikely(t->shares_owed_ns))
		count_shares(t, prio, waiting, ns);
}

bool turns_keep(const struct turns *t, unsigned int running, unsigned int woken)
{
	return running == THREAD_PRIO_USER &&
	       (t->programs || (t->shares && woken == THREAD_PRIO_REALTIME));
}

static uint64_t until_turn(int64_t owed_ns)
{
	return (uint64_t)(TURNS_FLOOD_NS - MIN(owed_ns, TURNS_FLOOD_NS - 1));
}

static uint64_t until_paid(int64_t owed_ns)
{
	return (uint64_t)(owed_ns / (TURNS_PART - 1) + 1);
}

uint64_t turns_left_ns(const struct turns *t, unsigned int running, uint32_t waiting)
{
	uint64_t ns = UINT64_MAX;

	if (running > THREAD_PRIO_REALTIME && (waiting & SHARES))
		ns = until_turn(t->owed_ns);
	if (t->programs && running == THREAD_PRIO_USER)
		ns = MIN(ns, until_paid(t->owed_ns));
	if (running == THREAD_PRIO_REALTIME && (waiting & SHARES))
		ns = MIN(ns, until_turn(t->shares_owed_ns));
	if (t->shares && running == THREAD_PRIO_USER)
		ns = MIN(ns, until_paid(t->shares_owed_ns));
	return ns;
}
