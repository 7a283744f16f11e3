/* SPDX-License-Identifier: MIT */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct object;
struct page_bits;

/*
 * Frames of memory node @node (0: of all) that private or shared object @obj has; those of a file
 * are the file's: 0. One walk over its lines, with its lock held.
 */
uint64_t object_frames(struct object *obj, uint32_t node);
/*
 * Add the pages that private or shared object @obj has, here or at an owner, to @out. One walk as
 * above. -ENOMEM.
 */
int object_pages(struct object *obj, struct page_bits *out) __must_check;
