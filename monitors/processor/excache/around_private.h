/* SPDX-License-Identifier: MIT */
/*
 * Fault-around, for the files of this folder: which lines a file has, by window.  See around.c.
 */
#pragma once

#include <processor/mm/aspace.h>

#include "excache.h"
#include "prefetch.h"

/*
 * Page @line->pgoff of @file has @line, or has it no more: then no space maps it around.
 * object.lock is held.
 */
void window_add_locked(struct object *file, struct line *line) __must_hold(&file->lock);
void window_remove_locked(struct object *file, struct line *line) __must_hold(&file->lock);
/* Was the page used through an entry that fault-around made?  Clears the accessed bits. */
bool window_clear_accessed(struct object *file, struct line *line);
/* The last reference of @file is gone. */
void windows_destroy(struct object *file);
