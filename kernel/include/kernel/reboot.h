/* SPDX-License-Identifier: MIT */
/*
 * Leaving the machine.
 */
#pragma once

#include <lib/types.h>

/*
 * Power off.  Under QEMU with isa-debug-exit at port 0xf4 the process ends with
 * status (status << 1) | 1, so 0 gives 1; else ACPI S5, else halt.
 */
void machine_poweroff(unsigned int status) __attribute__((noreturn));
void machine_reboot(void) __attribute__((noreturn));
/* Interrupts off, halt for ever. */
void machine_halt(void) __attribute__((noreturn));

/* Statuses handed to machine_poweroff(). */
#define EXIT_STATUS_OK        0u
#define EXIT_STATUS_TEST_FAIL 1u
#define EXIT_STATUS_BOOT      2u /* a bad boot parameter, no memory map, ... */
#define EXIT_STATUS_PANIC     3u
