/* SPDX-License-Identifier: MIT */
/*
 * Shared mappings of files that change, when they are synchronised or go away.
 */
#pragma once

#include <lib/types.h>

struct aspace;

/*
 * Bytes that were stored into such mappings in [start, end) reach the memory nodes that cache the
 * files. An error is told by the file's next fsync() or msync().
 */
void file_maps_flush(struct aspace *as, vaddr_t start, vaddr_t end);
/* The same soon, and without a wait: the space is at its end. */
void file_maps_end(struct aspace *as);
