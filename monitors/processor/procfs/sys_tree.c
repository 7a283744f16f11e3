/* SPDX-License-Identifier: MIT */
/*
 * /sys: CPUs, their caches, the one NUMA node, the clock source, huge pages.
 *
 * Limits:	all CPUs are cores of one package on one NUMA node. The memory nodes of the cluster
 *		are no NUMA nodes: no CPU is nearer to one of them.
 */
#include <arch/cpu.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <processor/ns/ns.h>
#include <processor/vfs/inode.h>

#include "proc_private.h"
#include "system_private.h"

#define CONSTANT(fn, string)               \
	static SHOW(fn)                    \
	{                                  \
		text_puts(t, string "\n"); \
		return 0;                  \
	}

/* --- numbered directories ------------------------------------------------------------ */

/* "<prefix><nr>" with nr below @limit, written without leading zeroes. */
static int find_numbered(const char *prefix, const char *name, unsigned int limit, uint32_t *nr)
{
	const size_t len = strlen(prefix);
	uint32_t val;

	if (strncmp(name, prefix, len) != 0 || name[len] < '0' || name[len] > '9' ||
	    (name[len] == '0' && name[len + 1]) || kstrtou32(name + len, 10, &val) || val >= limit)
		return -ENOENT;
	*nr = val;
	return 0;
}

static int next_numbered(const char *prefix, unsigned int limit, uint64_t *nr, char *name)
{
	if (*nr >= limit)
		return -ENOENT;
	snprintf(name, PSEUDO_NAME_MAX, "%s%u", prefix, (unsigned int)*nr);
	++*nr;
	return 0;
}

/* --- caches -------------------------------------------------------------------------- */

static int this_cache(const struct pseudo_subject *s, struct system_cache *c)
{
	return system_cache(s->tid, c) ? 0 : -ENOENT;
}

#define CACHE_FILE(fn, fmt, ...)                               \
	static SHOW(fn)                                        \
	{                                                      \
		struct system_cache c;                         \
		const int err = this_cache(s, &c);             \
                                                               \
		if (!err)                                      \
			text_printf(t, fmt "\n", __VA_ARGS__); \
		return err;                                    \
	}

CACHE_FILE(show_cache_level, "%u", c.level)
CACHE_FILE(show_cache_type, "%s", c.type)
CACHE_FILE(show_cache_size, "%lluK", (unsigned long long)(c.size >> 10))
CACHE_FILE(show_cache_line, "%u", c.line)
CACHE_FILE(show_cache_ways, "%u", c.ways)
CACHE_FILE(show_cache_sets, "%u", c.sets)

/* The CPUs that share it are neighbours: the first and the last. */
static int sharers(const struct pseudo_subject *s, unsigned int *first, unsigned int *last)
{
	struct system_cache c;
	const int err = this_cache(s, &c);

	if (err)
		return err;
	*first = s->nr / c.shared * c.shared;
	*last = MIN(*first + c.shared, cpu_online_count()) - 1;
	ASSERT(*first <= s->nr && s->nr <= *last);
	return 0;
}

static SHOW(show_cache_cpus)
{
	unsigned int first, last;
	const int err = sharers(s, &first, &last);

	if (err)
		return err;
	if (first == last)
		text_printf(t, "%u\n", first);
	else
		text_printf(t, "%u-%u\n", first, last);
	return 0;
}

static SHOW(show_cache_map)
{
	unsigned int first, last;
	const int err = sharers(s, &first, &last);

	if (err)
		return err;
	text_cpu_mask(t, first, last + 1, MAX(cpu_possible_count(), cpu_online_count()));
	text_putc(t, '\n');
	return 0;
}

static const struct pseudo_node cache_nodes[] = {
	PSEUDO_FILE("coherency_line_size", 0444, show_cache_line),
	PSEUDO_FILE("level", 0444, show_cache_level),
	PSEUDO_FILE("number_of_sets", 0444, show_cache_sets),
	PSEUDO_FILE("shared_cpu_list", 0444, show_cache_cpus),
	PSEUDO_FILE("shared_cpu_map", 0444, show_cache_map),
	PSEUDO_FILE("size", 0444, show_cache_size),
	PSEUDO_FILE("type", 0444, show_cache_type),
	PSEUDO_FILE("ways_of_associativity", 0444, show_cache_ways),
	{ 0 },
};
static const struct pseudo_node cache_dir = PSEUDO_DIR("", cache_nodes);

static unsigned int nr_caches(void)
{
	struct system_cache c;
	unsigned int nr = 0;

	while (nr < 16 && system_cache(nr, &c))
		nr++;
	return nr;
}

/* A cache's index is kept where a process's files have the thread. */
static int find_cache(struct pseudo_subject *s, const char *name)
{
	return find_numbered("index", name, nr_caches(), &s->tid);
}

static int next_cache(const struct pseudo_subject *s, uint64_t *nr, char name[PSEUDO_NAME_MAX])
{
	return next_numbered("index", nr_caches(), nr, name);
}

static const struct pseudo_dynamic caches = {
	.node = &cache_dir,
	.find = find_cache,
	.next = next_cache,
};

/* --- CPUs ---------------------------------------------------------------------------- */

static SHOW(show_online)
{
	text_cpu_list(t, cpu_online_count());
	text_putc(t, '\n');
	return 0;
}

static SHOW(show_possible)
{
	text_cpu_list(t, MAX(cpu_possible_count(), cpu_online_count()));
	text_putc(t, '\n');
	return 0;
}

static SHOW(show_offline)
{
	const unsigned int online = cpu_online_count(), possible = cpu_possible_count();

	if (possible == online + 1)
		text_printf(t, "%u", online);
	else if (possible > online)
		text_printf(t, "%u-%u", online, possible - 1);
	text_putc(t, '\n');
	return 0;
}

static SHOW(show_kernel_max)
{
	text_printf(t, "%u\n", MAX_CPUS - 1);
	return 0;
}

static SHOW(show_own_cpu)
{
	text_printf(t, "%u\n", s->nr);
	return 0;
}

static SHOW(show_own_mask)
{
	text_cpu_mask(t, s->nr, s->nr + 1, MAX(cpu_possible_count(), cpu_online_count()));
	text_putc(t, '\n');
	return 0;
}

static SHOW(show_all_mask)
{
	text_cpu_mask(t, 0, cpu_online_count(), cpu_possible_count());
	text_putc(t, '\n');
	return 0;
}

CONSTANT(show_zero, "0")
CONSTANT(show_empty, "")

static const struct pseudo_node topology_nodes[] = {
	PSEUDO_FILE("core_cpus", 0444, show_own_mask),
	PSEUDO_FILE("core_cpus_list", 0444, show_own_cpu),
	PSEUDO_FILE("core_id", 0444, show_own_cpu),
	PSEUDO_FILE("core_siblings", 0444, show_all_mask),
	PSEUDO_FILE("core_siblings_list", 0444, show_online),
	PSEUDO_FILE("package_cpus", 0444, show_all_mask),
	PSEUDO_FILE("package_cpus_list", 0444, show_online),
	PSEUDO_FILE("physical_package_id", 0444, show_zero),
	PSEUDO_FILE("thread_siblings", 0444, show_own_mask),
	PSEUDO_FILE("thread_siblings_list", 0444, show_own_cpu),
	{ 0 },
};

static const struct pseudo_node cpu_nodes[] = {
	{ .name = "cache", .mode = S_IFDIR | 0555, .dynamic = &caches },
	PSEUDO_DIR("topology", topology_nodes),
	{ 0 },
};
static const struct pseudo_node cpu_dir = PSEUDO_DIR("", cpu_nodes);

static int find_cpu(struct pseudo_subject *s, const char *name)
{
	return find_numbered("cpu", name, cpu_online_count(), &s->nr);
}

static int next_cpu(const struct pseudo_subject *s, uint64_t *nr, char name[PSEUDO_NAME_MAX])
{
	return next_numbered("cpu", cpu_online_count(), nr, name);
}

static const struct pseudo_dynamic cpus = { .node = &cpu_dir, .find = find_cpu, .next = next_cpu };

static const struct pseudo_node cpus_nodes[] = {
	PSEUDO_FILE("isolated", 0444, show_empty),
	PSEUDO_FILE("kernel_max", 0444, show_kernel_max),
	PSEUDO_FILE("offline", 0444, show_offline),
	PSEUDO_FILE("online", 0444, show_online),
	PSEUDO_FILE("possible", 0444, show_possible),
	PSEUDO_FILE("present", 0444, show_possible),
	{ 0 },
};

/* --- the NUMA node ------------------------------------------------------------------- */

static SHOW(show_node_meminfo)
{
	struct system_memory m;

	system_memory(&m);
	text_printf(t, "Node 0 MemTotal:       %llu kB\n", (unsigned long long)(m.total >> 10));
	text_printf(t, "Node 0 MemFree:        %llu kB\n", (unsigned long long)(m.free >> 10));
	text_printf(t, "Node 0 MemUsed:        %llu kB\n",
		    (unsigned long long)((m.total - m.free) >> 10));
	return 0;
}

CONSTANT(show_distance, "10")

static const struct pseudo_node node0_nodes[] = {
	PSEUDO_FILE("cpulist", 0444, show_online),
	PSEUDO_FILE("cpumap", 0444, show_all_mask),
	PSEUDO_FILE("distance", 0444, show_distance),
	PSEUDO_FILE("meminfo", 0444, show_node_meminfo),
	{ 0 },
};

static const struct pseudo_node node_nodes[] = {
	PSEUDO_FILE("has_cpu", 0444, show_zero),
	PSEUDO_FILE("has_memory", 0444, show_zero),
	PSEUDO_FILE("has_normal_memory", 0444, show_zero),
	PSEUDO_DIR("node0", node0_nodes),
	PSEUDO_FILE("online", 0444, show_zero),
	PSEUDO_FILE("possible", 0444, show_zero),
	{ 0 },
};

/* --- the rest ------------------------------------------------------------------------ */

CONSTANT(show_clocksource, "tsc")

static const struct pseudo_node clocksource0_nodes[] = {
	PSEUDO_FILE("available_clocksource", 0444, show_clocksource),
	PSEUDO_FILE("current_clocksource", 0444, show_clocksource),
	{ 0 },
};
static const struct pseudo_node clocksource_nodes[] = {
	PSEUDO_DIR("clocksource0", clocksource0_nodes),
	{ 0 },
};

static const struct pseudo_node system_nodes[] = {
	PSEUDO_DIR("clocksource", clocksource_nodes),
	{ .name = "cpu", .mode = S_IFDIR | 0555, .children = cpus_nodes, .dynamic = &cpus },
	PSEUDO_DIR("node", node_nodes),
	{ 0 },
};
static const struct pseudo_node devices_nodes[] = {
	PSEUDO_DIR("system", system_nodes),
	{ 0 },
};

CONSTANT(show_thp, "always madvise [never]")
CONSTANT(show_hpage_size, "2097152")

static const struct pseudo_node thp_nodes[] = {
	PSEUDO_FILE("defrag", 0444, show_thp),
	PSEUDO_FILE("enabled", 0444, show_thp),
	PSEUDO_FILE("hpage_pmd_size", 0444, show_hpage_size),
	{ 0 },
};
static const struct pseudo_node hugepages_2m_nodes[] = {
	PSEUDO_FILE("free_hugepages", 0444, show_zero),
	PSEUDO_FILE("nr_hugepages", 0444, show_zero),
	{ 0 },
};
static const struct pseudo_node hugepages_nodes[] = {
	PSEUDO_DIR("hugepages-2048kB", hugepages_2m_nodes),
	{ 0 },
};
static const struct pseudo_node mm_nodes[] = {
	PSEUDO_DIR("hugepages", hugepages_nodes),
	PSEUDO_DIR("transparent_hugepage", thp_nodes),
	{ 0 },
};
static const struct pseudo_node sys_kernel_nodes[] = {
	PSEUDO_DIR("mm", mm_nodes),
	{ 0 },
};

static const struct pseudo_node no_nodes[] = { { 0 } };
static const struct pseudo_node dev_nodes[] = {
	PSEUDO_DIR("block", no_nodes),
	PSEUDO_DIR("char", no_nodes),
	{ 0 },
};

/* Devices are the node's own, not the programs': these are empty. */
static const struct pseudo_node sys_nodes[] = {
	PSEUDO_DIR("block", no_nodes),          PSEUDO_DIR("bus", no_nodes),
	PSEUDO_DIR("class", no_nodes),          PSEUDO_DIR("dev", dev_nodes),
	PSEUDO_DIR("devices", devices_nodes),   PSEUDO_DIR("fs", no_nodes),
	PSEUDO_DIR("kernel", sys_kernel_nodes), { 0 },
};
static const struct pseudo_node sys_root_node = PSEUDO_DIR("", sys_nodes);

static int sys_root(const struct fs_type *type, struct inode **out)
{
	return pseudo_root(type, &sys_root_node, NULL, out);
}

static struct fs_type sysfs = {
	.name = "sysfs",
	.at = "/sys",
	.options = "nosuid,nodev,relatime",
	.magic = 0x62656572,
	.create_error = -EPERM,
	.noexec = true,
	.for_users = true,
	.made_of = NS_NET,
	.reveals = true,
	.root = sys_root,
};

static int sys_init(void)
{
	return fs_register(&sysfs);
}
INITCALL(fs, sys_init);
