/* SPDX-License-Identifier: MIT */
/*
 * Where the numbers of /proc, /sys, sysinfo and uname come from.
 *
 * Flow:	each memory node is asked, every time; one that does not answer is left out. A
 *		thread counts every five seconds the threads of programs that run or want to, as
 *		Linux does, and keeps three decaying averages.
 * Locking:	the averages are written by that thread only, read word by word.
 */
#include "system.h"

#include <arch/cpu.h>
#include <cluster/cluster.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/client/nodes.h>
#include <processor/excache/excache.h>
#include <processor/process/process.h>

#include "system_private.h"

uint64_t system_counter(const char *name)
{
	uint64_t value;

	return counter_find(name, &value) ? value : 0;
}

/* --- memory -------------------------------------------------------------------------- */

/* Add the numbers of one memory node, if it answers. */
static void add_node(uint32_t node, struct system_memory *m)
{
	struct node_memory r;

	if (node_memory(node, &r))
		return;
	m->total += r.total << PAGE_SHIFT;
	m->free += (r.free - MIN(r.granted, r.free)) << PAGE_SHIFT;
	m->available += (r.free + r.file - MIN(r.granted, r.free + r.file)) << PAGE_SHIFT;
	m->cached += r.file << PAGE_SHIFT;
	m->committed += r.committed << PAGE_SHIFT;
	m->commit_limit += r.commit_limit << PAGE_SHIFT;
}

void system_memory(struct system_memory *m)
{
	size_t nr = cluster_nodes(NODE_ROLE_MEMORY, NULL, 0);
	uint32_t *nodes = kcalloc(nr, sizeof(*nodes));

	*m = (struct system_memory){
		.line_total = excache_line_count() << PAGE_SHIFT,
		.line_free = excache_free_count() << PAGE_SHIFT,
		.local_total = frames_total_count() << PAGE_SHIFT,
		.local_free = frames_free_count() << PAGE_SHIFT,
		.slab = slab_bytes_in_use(),
		.kernel_stack = (uint64_t)thread_count() * THREAD_STACK_SIZE,
	};
	memory_usage(&m->usage);
	m->cached = m->usage.shared << PAGE_SHIFT;
	if (nodes)
		nr = MIN(nr, cluster_nodes(NODE_ROLE_MEMORY, nodes, nr));
	for (size_t i = 0; nodes && i < nr; i++)
		add_node(nodes[i], m);
	kfree(nodes);
}

uint64_t system_memory_total(void)
{
	struct system_memory m;

	system_memory(&m);
	return m.total;
}

/* --- threads and load ---------------------------------------------------------------- */

struct thread_sums {
	uint32_t running, total;
};

static void sum_thread(struct thread *t, void *arg)
{
	struct thread_sums *s = arg;

	if (!t->user.pgtable)
		return;
	s->total++;
	if (READ_ONCE(t->state) == THREAD_RUNNABLE)
		s->running++;
}

void system_threads(uint32_t *running, uint32_t *total)
{
	struct thread_sums s = { 0 };

	thread_for_each(sum_thread, &s);
	*running = s.running;
	*total = s.total;
}

#define LOAD_PERIOD_NS 5000000000ull

static uint32_t loadavg[3]; /* atomic; fixed point, LOADAVG_SHIFT */

void system_loadavg(uint32_t avg[3])
{
	for (int i = 0; i < 3; i++)
		avg[i] = __atomic_load_n(&loadavg[i], __ATOMIC_RELAXED);
}

static void load_thread(void *arg)
{
	uint64_t next = time_now_ns();
	uint32_t running, total;

	for (;;) {
		next += LOAD_PERIOD_NS;
		thread_sleep_until(next);
		system_threads(&running, &total);
		for (unsigned int i = 0; i < 3; i++)
			__atomic_store_n(&loadavg[i], loadavg_step(loadavg[i], i, running),
					 __ATOMIC_RELAXED);
	}
}

static int load_init(void)
{
	struct thread *t = thread_create("loadavg", load_thread, NULL);

	if (IS_ERR(t))
		return PTR_ERR(t);
	thread_detach(t);
	return 0;
}
INITCALL(core, load_init);

uint64_t system_forks(void)
{
	return system_counter("process.started") + system_counter("process.forks") +
	       system_counter("process.threads");
}

uint32_t system_last_pid(void)
{
	const struct pid_ns *ns = pid_ns_current();
	uint32_t last;

	spin_lock(&root_vnode.lock);
	last = ns ? ns->last_pid : root_vnode.last_pid;
	spin_unlock(&root_vnode.lock);
	return last;
}

void system_cpu(struct system_cpu *c)
{
	const uint64_t all = time_now_ns() * cpu_online_count();

	c->idle = MIN(system_counter("sched.idle_ns"), all);
	c->user = MIN(system_counter("sched.user_ns"), all - c->idle);
	c->system = all - c->idle - c->user;
}

/* --- processor caches ---------------------------------------------------------------- */

static bool cache_leaf(uint32_t leaf, unsigned int index, struct system_cache *out)
{
	static const char *const types[4] = { NULL, "Data", "Instruction", "Unified" };
	const struct cpuid_regs r = cpuid(leaf, index);
	const unsigned int type = r.eax & 31;

	if (type == 0 || type > 3)
		return false;
	out->type = types[type];
	out->level = r.eax >> 5 & 7;
	out->shared = MIN((r.eax >> 14 & 0xfff) + 1, cpu_online_count());
	out->line = (r.ebx & 0xfff) + 1;
	out->ways = (r.ebx >> 22) + 1;
	out->sets = r.ecx + 1;
	out->size = (uint64_t)out->line * ((r.ebx >> 12 & 0x3ff) + 1) * out->ways * out->sets;
	return true;
}

bool system_cache(unsigned int index, struct system_cache *out)
{
	/* AMD has a leaf of its own, when its topology extensions are there. */
	if (cpuid(0x80000000u, 0).eax >= 0x8000001du && (cpuid(0x80000001u, 0).ecx & BIT(22)))
		return cache_leaf(0x8000001du, index, out);
	return cpuid(0, 0).eax >= 4 && cache_leaf(4, index, out);
}
