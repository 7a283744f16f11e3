/* SPDX-License-Identifier: MIT */
/*
 * Init calls: functions that run once at boot, by level. Inside a level their order means nothing
 * (initcall.shuffle= changes it): what needs another function's work stands on a later level.
 * They run in a thread and may sleep, those of the level early excepted. A negative return value
 * is logged with the function's name, and the boot goes on.
 *
 *	INITCALL(driver, mlx4_init);
 *
 * A wrong level shows at every boot, whatever the order inside it: what others rely on without
 * asking (a registry, a queue) asserts in its init call that the level which uses it has not
 * begun: ASSERT_BEFORE(monitor).
 *
 * A new level goes here, in arch/x86/kernel.lds.S and test/host/sections.lds, in initcall.c, and in
 * docs/design/boot.md.
 */
#pragma once

#include <lib/assert.h>
#include <lib/compiler.h>
#include <lib/types.h>

enum initcall_level {
	INITCALL_LEVEL_early,   /* boot CPU, interrupts off, no threads yet */
	INITCALL_LEVEL_core,    /* the kernel's own threads, queues and tables */
	INITCALL_LEVEL_driver,  /* buses and devices */
	INITCALL_LEVEL_fs,      /* file systems make themselves known */
	INITCALL_LEVEL_cluster, /* what a node offers to others: managers, message handlers */
	INITCALL_LEVEL_monitor, /* the monitor starts and joins: programs may come from here on */
	INITCALL_LEVEL_program, /* what runs on the finished system: self-tests */
	NR_INITCALL_LEVELS,
};

typedef int (*initcall_fn)(void);

/* The level's number is only there so that a name that is no level does not compile. */
#define INITCALL(level, fn)                                                 \
	static_assert(INITCALL_LEVEL_##level < NR_INITCALL_LEVELS, #level); \
	static const initcall_fn initcall_##fn                              \
		__attribute__((used, section(".initcall." #level))) = (fn)

void initcalls_run_early(void);
/* Has @level begun, or a later one?  Any context. */
bool initcalls_begun(enum initcall_level level);
#define ASSERT_BEFORE(level) ASSERT(!initcalls_begun(INITCALL_LEVEL_##level))
void initcalls_run(void);
