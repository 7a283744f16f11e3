/* SPDX-License-Identifier: MIT */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct object;

/*
 * Frames of memory node @node (0: of all) that private or shared object @obj has; those of a file
 * are the file's: 0. One walk over its lines, with its lock held.
 */
uint64_t object_frames(struct object *obj, uint32_t node);
