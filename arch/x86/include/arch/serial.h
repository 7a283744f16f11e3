/* SPDX-License-Identifier: MIT */
/*
 * The 16550 UART at COM1: polled output, the kernel's console.
 *
 * Locking:	none here; printk serialises.
 */
#pragma once

#include <lib/types.h>

/* False when no UART answers; writes are dropped then. */
bool serial_init(void);
void serial_write(const char *s, size_t len);
