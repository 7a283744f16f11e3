/* SPDX-License-Identifier: MIT */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct aspace;

/* Frames of memory node @node (0: of all) that a space has. Sleeps: walks lines and mappings. */
uint64_t aspace_frames(struct aspace *as, uint32_t node);
