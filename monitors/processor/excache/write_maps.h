/* SPDX-License-Identifier: MIT */
/*
 * Shared mappings of a shared object that can be written, or that mprotect() could let be written:
 * while a file is sealed none may be made, and none may be left.
 *
 * Locking:	object.lock.
 */
#pragma once

#include <lib/compiler.h>

#include "object.h"

/* Such a mapping is about to be made: write_map_end() when it is there. -EPERM: none may be. */
int write_map_begin(struct object *obj) __must_check;
void write_map_end(struct object *obj);
/*
 * None is made from here on. True: there may be some, as one has been made before, or is being
 * made (*@under_way).
 */
bool write_maps_deny(struct object *obj, bool *under_way);
void write_maps_allow(struct object *obj);
/* There is none: a memory node that says otherwise is not believed. */
void write_maps_seal(struct object *obj);
bool write_maps_are_sealed(struct object *obj);
