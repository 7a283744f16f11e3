/* SPDX-License-Identifier: MIT */
/* getdents64: entries into a user's buffer, and the mount points of a directory. */
#pragma once

#include <lib/compiler.h>
#include <proto/ps.h>

#include "path.h"

/* Where entries go; mount points come behind all others, so those of the same name are left out before. */
struct dir_sink {
	/* Takes one entry, or sets full (and err) and answers false. */
	bool (*put)(struct dir_sink *sink, const char *name, size_t len, uint64_t ino, uint8_t type,
		    uint64_t cookie);
	const struct mounts *mounts; /* its mount points hide entries of @dir; may be NULL */
	const struct inode *dir;
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
