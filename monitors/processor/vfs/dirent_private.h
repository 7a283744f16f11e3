/* SPDX-License-Identifier: MIT */
/* Listing a directory, between the files of this folder. */
#pragma once

#include <lib/compiler.h>

#include "path.h"

/* Where the entries of a directory go. */
struct dir_sink {
	/* Takes one entry, or sets full (and err) and answers false. */
	bool (*put)(struct dir_sink *sink, const char *name, size_t len, uint64_t ino, uint8_t type,
		    uint64_t cookie);
	const struct mount *mnt; /* mount points in it hide entries of @dir; may be NULL */
	const struct inode *dir;
	/* Where one position has several names: name_tie() of the last one taken, or 0. */
	uint64_t behind;
	bool full;
	int err;

	/* getdents64(): a user's buffer. */
	bool old; /* getdents() */
	uint64_t buf;
	uint32_t size;
	uint32_t used;
	uint64_t pos; /* behind the last entry taken */
};
