/* SPDX-License-Identifier: MIT */
/*
 * Init calls: functions that run once at boot, by level and, inside one level,
 * in link order.  They run in a thread and may sleep; a negative return value
 * is logged with the function's name and the boot goes on.
 *
 *	INITCALL(driver, mlx4_init);
 *
 * Levels: early (boot CPU, interrupts off, no threads yet), core, driver, net,
 * fs, monitor, late.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

typedef int (*initcall_fn)(void);

#define INITCALL(level, fn)                    \
	static const initcall_fn initcall_##fn \
		__attribute__((used, section(".initcall." #level))) = (fn)

void initcalls_run_early(void);
void initcalls_run(void);
