/* SPDX-License-Identifier: MIT */
/*
 * Files of /proc that are about the system as a whole: memory, load, statistics.
 *
 * Fields that mean nothing here are 0, as on a Linux without that part; lines whose number we do
 * not have are left out where programs bear it.
 */
#include "proc_private.h"

#include <arch/cpu.h>
#include <kernel/bootparam.h>
#include <kernel/time.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <processor/vfs/path.h>

#include "system_private.h"

static void kib_line(struct text *t, const char *name, uint64_t bytes)
{
	const size_t line = t->len;

	text_printf(t, "%s:", name);
	text_pad(t, line, 15);
	text_printf(t, "%9llu kB\n", (unsigned long long)(bytes >> 10));
}

SHOW(show_meminfo)
{
	struct system_memory m;

	system_memory(&m);
	kib_line(t, "MemTotal", m.total);
	kib_line(t, "MemFree", m.free);
	kib_line(t, "MemAvailable", m.available);
	kib_line(t, "Buffers", 0);
	kib_line(t, "Cached", m.cached);
	kib_line(t, "SwapCached", 0);
	kib_line(t, "Active", 0);
	kib_line(t, "Inactive", 0);
	kib_line(t, "SwapTotal", 0);
	kib_line(t, "SwapFree", 0);
	kib_line(t, "Dirty", m.usage.dirty << PAGE_SHIFT);
	kib_line(t, "Writeback", m.usage.writeback << PAGE_SHIFT);
	kib_line(t, "AnonPages", m.usage.anon << PAGE_SHIFT);
	kib_line(t, "Mapped", m.usage.mapped << PAGE_SHIFT);
	kib_line(t, "Shmem", m.usage.shared << PAGE_SHIFT);
	kib_line(t, "KReclaimable", 0);
	kib_line(t, "Slab", m.slab);
	kib_line(t, "SReclaimable", 0);
	kib_line(t, "SUnreclaim", m.slab);
	kib_line(t, "KernelStack", m.kernel_stack);
	kib_line(t, "CommitLimit", m.commit_limit);
	kib_line(t, "Committed_AS", m.committed);
	kib_line(t, "VmallocTotal", 512ull << 30);
	/* Linux has no name for the cache of that memory in this node's DRAM. */
	kib_line(t, "ExCacheTotal", m.line_total);
	kib_line(t, "ExCacheFree", m.line_free);
	text_puts(t, "HugePages_Total:       0\nHugePages_Free:        0\n"
		     "HugePages_Rsvd:        0\nHugePages_Surp:        0\n");
	kib_line(t, "Hugepagesize", 2 << 20);
	return 0;
}

static unsigned long long ticks(uint64_t ns)
{
	return ns / NS_PER_TICK;
}

SHOW(show_stat)
{
	const unsigned int cpus = cpu_online_count();
	uint32_t running, total;
	struct system_cpu c;

	system_cpu(&c);
	system_threads(&running, &total);
	text_printf(t, "cpu  %llu 0 %llu %llu 0 0 0 0 0 0\n", ticks(c.user), ticks(c.system),
		    ticks(c.idle));
	/* Times are kept for the CPUs together: each is shown with its share. */
	for (unsigned int i = 0; i < cpus; i++)
		text_printf(t, "cpu%u %llu 0 %llu %llu 0 0 0 0 0 0\n", i, ticks(c.user / cpus),
			    ticks(c.system / cpus), ticks(c.idle / cpus));
	text_printf(t, "intr %llu\n", (unsigned long long)system_counter("irq.device"));
	text_printf(t, "ctxt %llu\n", (unsigned long long)system_counter("sched.switches"));
	text_printf(t, "btime %llu\n", (unsigned long long)(time_boot_real_ns() / NSEC_PER_SEC));
	text_printf(t, "processes %llu\n", (unsigned long long)system_forks());
	text_printf(t, "procs_running %u\nprocs_blocked 0\n", running);
	return 0;
}

SHOW(show_uptime)
{
	const uint64_t now = time_now_ns() / NS_PER_TICK;
	struct system_cpu c;

	system_cpu(&c);
	text_printf(t, "%llu.%02llu %llu.%02llu\n", (unsigned long long)(now / USER_HZ),
		    (unsigned long long)(now % USER_HZ), ticks(c.idle) / USER_HZ,
		    ticks(c.idle) % USER_HZ);
	return 0;
}

SHOW(show_loadavg)
{
	uint32_t avg[3], running, total;

	system_loadavg(avg);
	system_threads(&running, &total);
	for (int i = 0; i < 3; i++) {
		const uint32_t hundredths =
			(uint32_t)(((uint64_t)avg[i] * 100 + (1u << 15)) >> LOADAVG_SHIFT);

		text_printf(t, "%u.%02u ", hundredths / 100, hundredths % 100);
	}
	text_printf(t, "%u/%u %u\n", running, total, system_last_pid());
	return 0;
}

SHOW(show_version)
{
	text_puts(t, SYSTEM_NAME " version " SYSTEM_RELEASE " (tessera) " SYSTEM_VERSION "\n");
	return 0;
}

SHOW(show_cmdline)
{
	text_printf(t, "%s\n", boot_cmdline());
	return 0;
}

SHOW(show_filesystems)
{
	/* Those without a disk, then that of the root. No program can mount any. */
	text_puts(t, "nodev\tproc\nnodev\tsysfs\nnodev\ttmpfs\nnodev\tdevtmpfs\n\text4\n");
	return 0;
}

SHOW(show_cgroups)
{
	text_puts(t, "#subsys_name\thierarchy\tnum_cgroups\tenabled\n");
	return 0;
}

SHOW(show_swaps)
{
	text_puts(t, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
	return 0;
}

SHOW(show_partitions)
{
	text_puts(t, "major minor  #blocks  name\n\n"); /* disks are the storage nodes' */
	return 0;
}

SHOW(show_devices)
{
	text_puts(t, "Character devices:\n  1 mem\n  5 /dev/tty\n136 pts\n\nBlock devices:\n");
	return 0;
}

SHOW(show_interrupts)
{
	text_puts(t, "           ");
	for_each_cpu(cpu)
		text_printf(t, "CPU%-8u", cpu);
	/* Counted for the CPUs together; the first one's column has the sum. */
	text_printf(t, "\n  DEV: %10llu   device interrupts\n",
		    (unsigned long long)system_counter("irq.device"));
	text_printf(t, "  SPU: %10llu   spurious interrupts\n",
		    (unsigned long long)system_counter("irq.spurious"));
	text_printf(t, "  TLB: %10llu   TLB shootdowns\n",
		    (unsigned long long)system_counter("tlb.ipis"));
	return 0;
}

SHOW(show_vmstat)
{
	static const struct {
		const char *name, *counter;
	} lines[] = {
		{ "nr_free_pages", "frame.free" },
		{ "pgfault", "fault.count" },
		{ "pgmajfault", "excache.fetches" },
		{ "pgalloc_normal", "frame.alloc" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		text_printf(t, "%s %llu\n", lines[i].name,
			    (unsigned long long)system_counter(lines[i].counter));
	/* Traffic with the memory nodes is what swapping is elsewhere. */
	text_puts(t, "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\n");
	return 0;
}
