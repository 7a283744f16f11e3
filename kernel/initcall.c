/* SPDX-License-Identifier: MIT */
/*
 * Running the init calls, level by level; see initcall.h.  With ktest= on the command line the
 * levels monitor and program are left out: tests want a quiet machine.
 */
#include <kernel/initcall.h>

#include <kernel/bootparam.h>
#include <kernel/ktest_run.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/symbols.h>
#include <kernel/time.h>
#include <lib/prng.h>

#define MAX_PER_LEVEL 64u

/* From the linker script: the table of level n ends where that of level n + 1 begins. */
extern const initcall_fn initcalls_early[], initcalls_core[], initcalls_driver[], initcalls_fs[],
	initcalls_cluster[], initcalls_monitor[], initcalls_program[], initcalls_end[];

static const initcall_fn *const levels[NR_INITCALL_LEVELS + 1] = {
	[INITCALL_LEVEL_early] = initcalls_early,     [INITCALL_LEVEL_core] = initcalls_core,
	[INITCALL_LEVEL_driver] = initcalls_driver,   [INITCALL_LEVEL_fs] = initcalls_fs,
	[INITCALL_LEVEL_cluster] = initcalls_cluster, [INITCALL_LEVEL_monitor] = initcalls_monitor,
	[INITCALL_LEVEL_program] = initcalls_program, [NR_INITCALL_LEVELS] = initcalls_end,
};

static unsigned int nr_begun; /* atomic: levels */

static uint64_t shuffle_seed;
BOOT_PARAM("initcall.shuffle", u64, shuffle_seed,
	   "mix the init calls of each level, in an order that follows from this number");

static void run(initcall_fn fn)
{
	const uint64_t start = time_now_ns();
	const int err = fn();
	char name[64];

	symbol_format(name, sizeof(name), (uint64_t)fn);
	if (err < 0)
		pr_err("initcall %s failed: %d\n", name, err);
	pr_debug("initcall %s: %lu us\n", name, (time_now_ns() - start) / 1000);
}

static void run_level(enum initcall_level level)
{
	const size_t nr = (size_t)(levels[level + 1] - levels[level]);
	initcall_fn fns[MAX_PER_LEVEL];
	struct prng prng;

	BUG_ON(nr > ARRAY_SIZE(fns));
	ASSERT(nr_begun == level);
	__atomic_store_n(&nr_begun, level + 1, __ATOMIC_RELEASE);
	for (size_t i = 0; i < nr; i++)
		fns[i] = levels[level][i];
	prng_seed(&prng, shuffle_seed * 8 + level); /* each level in its own way */
	for (size_t left = nr; left; left--) {
		const size_t i = shuffle_seed ? prng_below(&prng, left) : 0;
		const initcall_fn fn = fns[i];

		for (size_t k = i; k + 1 < left; k++) /* the others keep their order */
			fns[k] = fns[k + 1];
		run(fn);
	}
}

bool initcalls_begun(enum initcall_level level)
{
	return __atomic_load_n(&nr_begun, __ATOMIC_ACQUIRE) > level;
}

void initcalls_run_early(void)
{
	run_level(INITCALL_LEVEL_early);
}

void initcalls_run(void)
{
	const enum initcall_level end =
		ktest_requested() ? INITCALL_LEVEL_monitor : NR_INITCALL_LEVELS;

	for (enum initcall_level level = INITCALL_LEVEL_core; level < end; level++)
		run_level(level);
}
