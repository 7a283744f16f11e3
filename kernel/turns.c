/* SPDX-License-Identifier: MIT */
/*
 * Programs' turns: see turns.h.
 */
#include "turns.h"

#include <lib/compiler.h>

#define SHARES BIT(THREAD_PRIO_USER)

static bool is_program(unsigned int prio)
{
	return BIT(prio) & TURNS_PROGRAMS;
}

/* Those whose turn it is to become have waited for @ns more. */
static void wait_longer(int64_t *owed_ns, bool *turn, int64_t ns)
{
	*owed_ns = MIN(*owed_ns + ns, TURNS_MOST_NS);
	*turn |= *owed_ns >= TURNS_FLOOD_NS;
}

static void pay_back(int64_t *owed_ns, bool *turn, int64_t ns)
{
	*owed_ns -= ns * (TURNS_PART - 1);
	if (*owed_ns > 0)
		return;
	*owed_ns = *turn ? MAX(*owed_ns, -TURNS_MOST_NS) : 0;
	*turn = false;
}

static void forget(int64_t *owed_ns, bool *turn)
{
	*owed_ns = 0;
	*turn = false;
}

static void count_programs(struct turns *t, unsigned int prio, uint32_t waiting, int64_t ns)
{
	if (prio > THREAD_PRIO_REALTIME && (waiting & TURNS_PROGRAMS))
		wait_longer(&t->owed_ns, &t->programs, ns);
	else if (is_program(prio) && t->owed_ns > 0)
		pay_back(&t->owed_ns, &t->programs, ns);
	else /* they run, with none before them, or none wants to */
		forget(&t->owed_ns, &t->programs);
}

static void count_shares(struct turns *t, unsigned int prio, uint32_t waiting, int64_t ns)
{
	if (prio == THREAD_PRIO_REALTIME && (waiting & SHARES))
		wait_longer(&t->shares_owed_ns, &t->shares, ns);
	else if (prio == THREAD_PRIO_USER && t->shares_owed_ns > 0)
		pay_back(&t->shares_owed_ns, &t->shares, ns);
	else if (prio == THREAD_PRIO_USER || !(waiting & SHARES))
		forget(&t->shares_owed_ns, &t->shares);
}

void turns_charge(struct turns *t, unsigned int prio, uint32_t waiting, int64_t ns)
{
	count_programs(t, prio, waiting, ns);
	count_shares(t, prio, waiting, ns);
}

bool turns_keep(const struct turns *t, unsigned int running, unsigned int woken)
{
	if (woken == THREAD_PRIO_REALTIME)
		return running == THREAD_PRIO_USER && t->shares;
	return is_program(running) && t->programs;
}

static uint64_t until_turn(int64_t owed_ns)
{
	return (uint64_t)(TURNS_FLOOD_NS - MIN(owed_ns, TURNS_FLOOD_NS - 1));
}

static uint64_t until_paid(int64_t owed_ns)
{
	return (uint64_t)(owed_ns / (TURNS_PART - 1) + 1);
}

uint64_t turns_left_any(const struct turns *t, unsigned int running, uint32_t waiting)
{
	uint64_t ns = UINT64_MAX;

	if (running > THREAD_PRIO_REALTIME && (waiting & TURNS_PROGRAMS))
		ns = until_turn(t->owed_ns);
	if (t->programs && is_program(running))
		ns = MIN(ns, until_paid(t->owed_ns));
	if (running == THREAD_PRIO_REALTIME && (waiting & SHARES))
		ns = MIN(ns, until_turn(t->shares_owed_ns));
	if (t->shares && running == THREAD_PRIO_USER)
		ns = MIN(ns, until_paid(t->shares_owed_ns));
	return ns;
}
