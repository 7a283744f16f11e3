/* SPDX-License-Identifier: MIT */
/*
 * Running the init calls; see initcall.h.  With ktest= on the command line the
 * levels monitor and late are left out: tests want a quiet machine.
 */
#include <kernel/initcall.h>
#include <kernel/ktest_run.h>
#include <kernel/printk.h>
#include <kernel/symbols.h>
#include <kernel/time.h>

extern const initcall_fn initcalls_early_start[], initcalls_start[], initcalls_end[];
extern const initcall_fn initcalls_monitor_start[];

static void run(const initcall_fn *begin, const initcall_fn *end)
{
	for (const initcall_fn *fn = begin; fn < end; fn++) {
		const uint64_t start = time_now_ns();
		const int err = (*fn)();
		char name[64];

		symbol_format(name, sizeof(name), (uint64_t)*fn);
		if (err < 0)
			pr_err("initcall %s failed: %d\n", name, err);
		pr_debug("initcall %s: %lu us\n", name, (time_now_ns() - start) / 1000);
	}
}

void initcalls_run_early(void)
{
	run(initcalls_early_start, initcalls_start);
}

void initcalls_run(void)
{
	run(initcalls_start, ktest_requested() ? initcalls_monitor_start : initcalls_end);
}
