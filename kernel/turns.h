/* SPDX-License-Identifier: MIT */
/*
 * When programs have their turn: the part of a CPU that lower classes of threads have although
 * higher ones want all of it.  Pure: no clock, no lock, no thread.
 *
 * Flow:	The kernel's own threads stay ahead, but while programs wait the time of the classes
 *		above them is counted.  After TURNS_FLOOD_NS of it programs go first, until they
 *		have had their part (TURNS_PART) of the CPU: those with a real-time policy, and then
 *		those that share.  The same is counted for the latter while real-time threads run:
 *		in a turn that is due because of them, threads of the kernel stay ahead.
 * Invariants:	a turn is due only while its time is owed: it ends when that is paid back, and when
 *		none of those whose turn it is wants to run.
 */
#pragma once

#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/compiler.h>

#define TURNS_FLOOD_NS ((int64_t)(45 * NSEC_PER_MSEC))
#define TURNS_MOST_NS  (2 * TURNS_FLOOD_NS)
#define TURNS_PROGRAMS (BIT(THREAD_PRIO_USER) | BIT(THREAD_PRIO_REALTIME))
#define TURNS_PART     10 /* one part in so many is theirs under a flood */

struct turns {
	bool programs;          /* go before the kernel's threads */
	bool shares;            /* programs that share go before real time */
	int64_t owed_ns;        /* the kernel's time, for which programs have waited */
	int64_t shares_owed_ns; /* real time's, for which those that share have waited */
};

/*
 * A thread of class @prio has run for @ns, and those of the classes @waiting, a bit each, have
 * waited.  A turn that became too long, because the timer was late, makes the next one later.
 */
void turns_charge(struct turns *t, unsigned int prio, uint32_t waiting, int64_t ns);

/* Is anything owed? If not, turns_charge() of a program that shares has nothing to do. */
static inline bool turns_owed(const struct turns *t)
{
	return t->owed_ns || t->shares_owed_ns;
}

/* Is it programs' turn before the kernel's threads, with those @ready? */
static inline bool turns_programs_first(const struct turns *t, uint32_t ready)
{
	return unlikely(t->programs) && (ready & TURNS_PROGRAMS);
}

/* The class, of those that are @ready, whose thread runs next; at least one is. */
static inline unsigned int turns_choose(const struct turns *t, uint32_t ready)
{
	unsigned int best;

	if (turns_programs_first(t, ready))
		ready &= TURNS_PROGRAMS;
	best = 31u - (unsigned int)__builtin_clz(ready);
	if (unlikely(t->shares) && best == THREAD_PRIO_REALTIME && (ready & BIT(THREAD_PRIO_USER)))
		return THREAD_PRIO_USER;
	return best;
}

/* Does a thread of class @running go on, although one of the higher class @woken is ready? */
bool turns_keep(const struct turns *t, unsigned int running, unsigned int woken);
/* turns_left_ns() of any class, whoever's turn it is. */
uint64_t turns_left_any(const struct turns *t, unsigned int running, uint32_t waiting);

/* ns until another class than @running may have its turn; UINT64_MAX: no turn is coming. */
static inline uint64_t turns_left_ns(const struct turns *t, unsigned int running, uint32_t waiting)
{
	if (likely(running == THREAD_PRIO_USER && !t->programs && !t->shares))
		return UINT64_MAX;
	return turns_left_any(t, running, waiting);
}
