/* SPDX-License-Identifier: MIT */
/* getdents64: entries into a user's buffer, and the mount points of a directory. */
#pragma once

#include <lib/compiler.h>
#include <proto/ps.h>

#include "path.h"

/* Where entries go; mount points come behind all others, so those of the same name are left out before. */
struct dir_sink {
	const struct mounts *mounts;
	const struct inode *dir; /* NULL: a directory of the root, then @text */
	const char *text;
	uint64_t buf;
	uint32_t size;
	uint32_t used;
	uint64_t pos; /* behind the last entry taken */
	bool full;
	int err;
};

#define DIR_MOUNTS (1ull << 62) /* positions of mount points begin here */

/* The entries of mount points from @pos on, which is DIR_MOUNTS or more. */
void dir_emit_mounts(struct dir_sink *sink, uint64_t pos);
/* What getdents64() answers. */
ssize_t dir_result(const struct dir_sink *sink);
