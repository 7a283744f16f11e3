/* SPDX-License-Identifier: MIT */
/*
 * Which address spaces of this processor map a shared object.
 */
#pragma once

#include <lib/compiler.h>

struct object;

/*
 * Is there a shared mapping of @obj that can be written, or could be after mprotect()? The caller
 * lets no new one be made meanwhile (write_maps_deny()). 0 or 1; -EINTR: the thread is to be
 * killed. Takes the map_lock of each space, one at a time.
 */
int shared_maps_writable(struct object *obj) __must_check;
