/* SPDX-License-Identifier: MIT */
/*
 * The functions of arch that kernel_main() calls, in this order.
 */
#pragma once

/* The frame allocator works: later kernel page tables come from it. */
void paging_frames_ready(void);
/* ACPI, interrupt controllers, timer, FPU; needs slab and kmap; interrupts still off. */
void arch_init(void);
/* Start the other CPUs; the scheduler and timers of this one work. */
void smp_init(void);
