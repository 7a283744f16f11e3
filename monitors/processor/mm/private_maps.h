/* SPDX-License-Identifier: MIT */
/*
 * Private mappings of a file that gets shorter.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <processor/excache/object.h>

/* There is a private mapping of @obj. */
static inline void private_maps_note(struct object *obj)
{
	if (!READ_ONCE(obj->private_maps))
		WRITE_ONCE(obj->private_maps, true);
}
/*
 * The file of @obj ends before page @first now: copies that private mappings have of pages from
 * there on go, as on Linux, and a touch finds the end of the file (SIGBUS). Takes the map_lock of
 * each space, one at a time; no lock held. As far as there is memory for it, and until the calling
 * thread is to be killed.
 */
void private_maps_cut(struct object *obj, uint64_t first);
