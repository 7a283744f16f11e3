/* SPDX-License-Identifier: MIT */
/*
 * Do the time stamp counters of two CPUs agree?
 *
 * Flow:	the boot CPU reads t0, asks the other CPU for its counter t, gets it, reads
 *		t1.  Agreeing counters give t0 <= t <= t1, each time.  When one exchange says
 *		otherwise, the one with the narrowest window tells by how much, and the other
 *		CPU moves its counter (IA32_TSC_ADJUST) and is asked again.
 * Limits:	Emulated: TCG gives all virtual CPUs one counter, and with few host CPUs each
 *		exchange costs milliseconds; so there one is enough, whose first half lies before
 *		the other CPU was woken. Why: time_now_ns() and user code that reads the clock
 *		without a call rely on one clock for all CPUs, so a CPU that cannot agree is not
 *		used.
 */
#include <arch/barrier.h>
#include <arch/cpu.h>
#include <arch/percpu.h>
#include <arch/tsc.h>
#include <kernel/time.h>
#include <lib/compiler.h>

#include "smp.h"

#define NR_ROUNDS   5u
#define END_GOOD    (UINT32_MAX - 1)
#define END_ADJUST  (UINT32_MAX - 2)
#define END_FAILED  (UINT32_MAX - 3)
#define NO_ROUND    0u
#define FIRST_ROUND 1u

struct exchange {
	uint32_t asked;    /* atomic: number of the exchange, or how it ended */
	uint32_t answered; /* atomic */
	uint64_t answer;   /* written before answered */
	uint64_t adjust;   /* written before END_ADJUST */
	uint64_t t0;       /* boot CPU only */
};

/* That of the other CPU: one that was given up cannot disturb the next. */
static DEFINE_PERCPU(struct exchange, exchange);

/* Not before what stands earlier in the program, nor after what stands later. */
static uint64_t tsc_read_ordered(void)
{
	uint64_t t;

	rmb();
	t = tsc_read();
	rmb();
	return t;
}

int64_t tsc_offset(const struct tsc_round *rounds, unsigned int nr, uint64_t *uncertain)
{
	const struct tsc_round *best = rounds;
	bool good = true;

	for (unsigned int i = 0; i < nr; i++) {
		const struct tsc_round *r = &rounds[i];

		good &= (int64_t)(r->t - r->t0) >= 0 && (int64_t)(r->t1 - r->t) >= 0;
		if (r->t1 - r->t0 < best->t1 - best->t0)
			best = r;
	}
	*uncertain = (best->t1 - best->t0) / 2;
	return good ? 0 : (int64_t)(best->t0 + *uncertain - best->t);
}

static void ask(struct exchange *x, uint32_t nr)
{
	x->t0 = tsc_read_ordered();
	__atomic_store_n(&x->asked, nr, __ATOMIC_SEQ_CST);
}

void tsc_sync_start(unsigned int cpu)
{
	ask(per_cpu_ptr(&exchange, cpu), FIRST_ROUND);
}

static bool measure(struct exchange *x, struct tsc_round *rounds, uint32_t first, uint32_t nr,
		    uint64_t until)
{
	for (uint32_t i = 0; i < nr; i++) {
		if (first + i != FIRST_ROUND)
			ask(x, first + i);
		rounds[i].t0 = x->t0;
		while (__atomic_load_n(&x->answered, __ATOMIC_ACQUIRE) != first + i) {
			if (time_now_ns() > until)
				return false;
			cpu_relax();
		}
		rounds[i].t1 = tsc_read_ordered();
		rounds[i].t = x->answer;
	}
	return true;
}

/* Tell the other side how it ended, and wait until it knows. */
static bool finish(struct exchange *x, uint32_t how, uint64_t until)
{
	__atomic_store_n(&x->asked, how, __ATOMIC_RELEASE);
	while (__atomic_load_n(&x->answered, __ATOMIC_ACQUIRE) != how) {
		if (time_now_ns() > until)
			return false;
		cpu_relax();
	}
	return true;
}

enum tsc_sync tsc_sync_boot_side(unsigned int cpu, int64_t *offset, uint64_t limit_ns)
{
	const uint64_t until = time_after_ns(limit_ns);
	const uint32_t nr = cpu_is_tcg() ? 1 : NR_ROUNDS;
	struct exchange *x = per_cpu_ptr(&exchange, cpu);
	struct tsc_round rounds[NR_ROUNDS];
	uint64_t uncertain;
	enum tsc_sync sync = TSC_SYNC_GOOD;
	uint32_t first = FIRST_ROUND;

	*offset = 0;
	for (;;) {
		int64_t off;

		if (!measure(x, rounds, first, nr, until))
			break;
		off = tsc_offset(rounds, nr, &uncertain);
		if (off == 0) {
			__atomic_store_n(&x->asked, END_GOOD, __ATOMIC_RELEASE);
			return sync; /* its going online is the answer */
		}
		if (sync == TSC_SYNC_GOOD)
			*offset = off;
		first += nr;
		/* An adjustment is half a window off at worst; it converges or it never will. */
		if (!cpu_features.tsc_adjust || first > 8 * NR_ROUNDS)
			break;
		sync = TSC_SYNC_ADJUSTED;
		x->adjust = (uint64_t)off;
		if (!finish(x, END_ADJUST, until))
			break;
	}
	__atomic_store_n(&x->asked, END_FAILED, __ATOMIC_RELEASE);
	return TSC_SYNC_FAILED;
}

void tsc_sync_other_side(void)
{
	struct exchange *x = this_cpu_ptr(&exchange);
	uint32_t last = NO_ROUND;

	for (;;) {
		const uint32_t now = __atomic_load_n(&x->asked, __ATOMIC_ACQUIRE);

		if (now == last || now == NO_ROUND) {
			cpu_relax();
			continue;
		}
		last = now;
		if (now == END_ADJUST)
			wrmsr(MSR_TSC_ADJUST, rdmsr(MSR_TSC_ADJUST) + x->adjust);
		else if (now < END_FAILED)
			x->answer = tsc_read_ordered();
		__atomic_store_n(&x->answered, now, __ATOMIC_SEQ_CST);
		if (now == END_GOOD || now == END_FAILED)
			return;
	}
}
