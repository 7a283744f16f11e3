/* SPDX-License-Identifier: MIT */
/*
 * Hooks through which user code reaches the processor monitor.
 */
#pragma once

/* Register them; once, before the first program. */
void trap_init(void);
