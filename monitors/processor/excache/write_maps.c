/* SPDX-License-Identifier: MIT */
#include "write_maps.h"

#include <kernel/panic.h>
#include <lib/errno.h>

int write_map_begin(struct object *obj)
{
	int err = -EPERM;

	ASSERT(obj->kind == OBJECT_SHARED);
	spin_lock(&obj->lock);
	if (!obj->write_maps.denied) {
		obj->write_maps.under_way++;
		obj->write_maps.any = true;
		err = 0;
	}
	spin_unlock(&obj->lock);
	return err;
}

void write_map_end(struct object *obj)
{
	spin_lock(&obj->lock);
	ASSERT(obj->write_maps.under_way);
	obj->write_maps.under_way--;
	spin_unlock(&obj->lock);
}

bool write_maps_deny(struct object *obj, bool *under_way)
{
	bool any;

	ASSERT(obj->kind == OBJECT_SHARED);
	spin_lock(&obj->lock);
	obj->write_maps.denied = true;
	*under_way = obj->write_maps.under_way > 0;
	any = obj->write_maps.any;
	spin_unlock(&obj->lock);
	return any;
}

void write_maps_allow(struct object *obj)
{
	spin_lock(&obj->lock);
	ASSERT(!obj->write_maps.sealed);
	obj->write_maps.denied = false;
	spin_unlock(&obj->lock);
}

void write_maps_seal(struct object *obj)
{
	spin_lock(&obj->lock);
	ASSERT(obj->write_maps.denied && !obj->write_maps.under_way);
	obj->write_maps.sealed = true;
	spin_unlock(&obj->lock);
}

bool write_maps_are_sealed(struct object *obj)
{
	bool sealed;

	spin_lock(&obj->lock);
	sealed = obj->write_maps.sealed;
	spin_unlock(&obj->lock);
	return sealed;
}
