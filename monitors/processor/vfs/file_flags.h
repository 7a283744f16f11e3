/* SPDX-License-Identifier: MIT */
/*
 * Flags of files: immutable, append only, not to be dumped.
 */
#pragma once

#include <lib/types.h>

struct file;

/* FS_IOC_GETFLAGS, FS_IOC_SETFLAGS. -ENOTTY, -EFAULT, -EROFS, -EPERM, -EOPNOTSUPP. */
long file_flags_ioctl(struct file *f, uint32_t cmd, uint64_t arg);
