/* SPDX-License-Identifier: MIT */
/*
 * Trace rings, one per CPU.
 *
 * Locking:	none.  A slot is claimed by one add on this CPU's index; an interrupt
 *		that comes in between claims the next slot.  Readers run in a panic or
 *		accept a torn newest entry.
 */
#include <kernel/trace.h>

#include <arch/cpu.h>
#include <kernel/percpu.h>
#include <kernel/preempt.h>
#include <kernel/printk.h>
#include <kernel/time.h>

static_assert(IS_POWER_OF_2(TRACE_ENTRIES), "trace ring size");

static DEFINE_PERCPU(struct trace_entry, trace_ring[TRACE_ENTRIES]);
static DEFINE_PERCPU(uint64_t, trace_index);

void trace_record(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
	struct trace_entry *e;
	uint64_t i = 1;

	preempt_disable();
	__asm__ volatile("xaddq %0, %%gs:%1"
			 : "+r"(i), "+m"(PERCPU_PLAIN(trace_index))::"memory", "cc");
	e = this_cpu_ptr(&trace_ring[i & (TRACE_ENTRIES - 1)]);
	*e = (struct trace_entry){ .time_ns = time_now_ns(), .name = name, .a = a, .b = b, .c = c };
	preempt_enable();
}

/* Newest entry of any CPU older than @before: one step of a merge from the newest back. */
static const struct trace_entry *newest_before(uint64_t *pos, unsigned int *cpu_out)
{
	const struct trace_entry *best = NULL;

	for_each_cpu(cpu) {
		const struct trace_entry *ring = per_cpu_ptr(&trace_ring[0], cpu);
		const struct trace_entry *e;

		if (pos[cpu] == 0)
			continue;
		e = &ring[(pos[cpu] - 1) & (TRACE_ENTRIES - 1)];
		if (e->name && (!best || e->time_ns > best->time_ns)) {
			best = e;
			*cpu_out = cpu;
		}
	}
	return best;
}

void trace_dump(unsigned int max)
{
	static uint64_t pos[MAX_CPUS];
	static uint64_t low[MAX_CPUS];

	for_each_cpu(cpu) {
		pos[cpu] = *per_cpu_ptr(&trace_index, cpu);
		low[cpu] = pos[cpu] > TRACE_ENTRIES ? pos[cpu] - TRACE_ENTRIES : 0;
	}
	printk(LOG_ERR, "last trace entries, newest first:\n");
	for (unsigned int i = 0; i < max; i++) {
		unsigned int cpu = 0;
		const struct trace_entry *e = newest_before(pos, &cpu);

		if (!e)
			break;
		printk(LOG_ERR, "  %lu.%09lu cpu%u %s %#lx %#lx %#lx\n", e->time_ns / NSEC_PER_SEC,
		       e->time_ns % NSEC_PER_SEC, cpu, e->name, e->a, e->b, e->c);
		if (--pos[cpu] == low[cpu])
			pos[cpu] = 0;
	}
}
