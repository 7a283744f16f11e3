/* SPDX-License-Identifier: MIT */
/* Where a block of a file stands among direct and indirect pointers. */
#pragma once

#include "ext4_priv.h"

struct indirect_path {
	unsigned int levels; /* 0: a direct pointer */
	unsigned int slot;   /* in the inode */
	uint64_t index;      /* within what that slot covers */
};

/* indirect.c.  False: further than pointers reach. */
bool ext4_indirect_path(const struct ext4_fs *fs, uint32_t lblk, struct indirect_path *p);
