/* SPDX-License-Identifier: MIT */
/*
 * Facts about the whole system, the same for system calls, /proc and /sys.
 *
 * Limits:	the memory of all memory nodes is what programs can have; the DRAM of this node is
 *		a cache of it and holds the kernel.
 * See:		docs/design/procfs.md says which number is which
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <processor/excache/usage.h>

#include "system.h"
#include "text_private.h"

#define SYSTEM_NAME    "Linux"
/*
 * The release of Linux whose calls are here, but for those that docs/syscalls.md leaves out: guard
 * pages, the newest that programs ask for by its number, came with it. A program with the
 * personality UNAME26 is told the other.
 */
#define SYSTEM_RELEASE "6.13.0-tessera"
#define SYSTEM_UNAME26 "2.6.73-tessera"
#define SYSTEM_VERSION "#1 SMP PREEMPT Tessera"
#define SYSTEM_MACHINE "x86_64"

#define USER_HZ       100u
#define NS_PER_TICK   (1000000000u / USER_HZ)
#define LOADAVG_SHIFT 16 /* fixed point of system_loadavg() */

struct system_memory { /* bytes */
	/* At all memory nodes: frames for pages of programs and files. */
	uint64_t total;
	uint64_t free;         /* and not reserved for a processor */
	uint64_t available;    /* free, or pages of files that give way, and not reserved */
	uint64_t cached;       /* pages of files, those of @usage that are shared among them */
	uint64_t committed;    /* that mappings are charged for */
	uint64_t commit_limit; /* the same, at most, in the strict mode */
	/* Of programs of this node. */
	struct memory_usage usage; /* pages */
	/* On this node. */
	uint64_t slab, kernel_stack;
	uint64_t line_total, line_free; /* ExCache */
	uint64_t local_total, local_free;
};
/* Asks the memory nodes: sleeps. */
void system_memory(struct system_memory *m);

/* Averages over 1, 5 and 15 minutes of threads that run or want to. */
void system_loadavg(uint32_t avg[3]);
/* Processes and threads started since boot, as "processes" in /proc/stat. */
uint64_t system_forks(void);
uint32_t system_last_pid(void);

struct system_cpu {      /* nanoseconds since boot */
	uint64_t idle;   /* halted */
	uint64_t system; /* in the kernel's own threads */
	uint64_t user;   /* the rest: in those of programs, system calls included */
};
/* All CPUs together; the parts add up to what the clock says, times the number of CPUs. */
void system_cpu(struct system_cpu *c);

/* Processor caches by CPUID. false: there is no cache @index. */
struct system_cache {
	unsigned int level, ways, line, sets, shared; /* @shared: logical CPUs */
	uint64_t size;
	const char *type;
};
bool system_cache(unsigned int index, struct system_cache *out);

/*
 * @avg (which 0 to 2) after five more seconds with @running threads: e^(-5/60), e^(-5/300),
 * e^(-5/900).
 */
static inline uint32_t loadavg_step(uint32_t avg, unsigned int which, uint32_t running)
{
	static const uint32_t decay[3] = { 60296, 64453,
					   65173 }; /* LOADAVG_SHIFT bits of fraction */
	const uint64_t now = (uint64_t)running << LOADAVG_SHIFT;

	return (uint32_t)((avg * (uint64_t)decay[which] +
			   now * ((1u << LOADAVG_SHIFT) - decay[which]) + (1u << 15)) >>
			  LOADAVG_SHIFT);
}

/* The value of a counter or gauge; 0: there is none of that name. */
uint64_t system_counter(const char *name);
