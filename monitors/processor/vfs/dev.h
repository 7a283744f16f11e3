/* SPDX-License-Identifier: MIT */
/* Devices by number. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct file;

/*
 * Make @f, a new file of a character device, usable: as inode_ops.open(). @rdev: major and minor,
 * as stat() tells them. -ENXIO: nothing serves the number.
 */
int dev_use(struct file *f, uint32_t rdev) __must_check;
