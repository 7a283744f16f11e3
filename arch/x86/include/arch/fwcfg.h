/* SPDX-License-Identifier: MIT */
/*
 * Files that QEMU was started with (-fw_cfg name=...): for the few bytes that do not belong on a
 * command line.
 */
#pragma once

#include <lib/types.h>

/*
 * Read up to @max bytes of file @name.  Returns how many; 0: there is no such file, or this is no
 * QEMU.  At boot, or in a thread: it reads one byte at a time and has no lock of its own.
 */
size_t fwcfg_read(const char *name, void *buf, size_t max);
