/* SPDX-License-Identifier: MIT */
/*
 * How many frames of memory nodes a space has: its private pages, those that it shares with other
 * spaces since a fork, and the shared objects that it maps. As in Linux's RSS, shared pages count
 * for each space that has them.
 */
#include "frames.h"

#include <processor/excache/frames.h>

#include "anon.h"
#include "aspace.h"

/* The first shared object that is mapped at or above *@addr, referenced, and where it ends. */
static struct object *next_shared(struct aspace *as, vaddr_t *addr)
{
	struct object *obj = NULL;
	const struct vma *v;

	spin_lock(&as->lock);
	rb_for_each_entry(v, &as->vmas, node) {
		if (v->start < *addr || !v->file || v->file->kind != OBJECT_SHARED)
			continue;
		obj = v->file;
		object_get(obj);
		*addr = v->end;
		break;
	}
	spin_unlock(&as->lock);
	return obj;
}

uint64_t aspace_frames(struct aspace *as, uint32_t node)
{
	const struct object *last = NULL; /* to compare only */
	uint64_t nr = anon_frames(as, node);
	struct object *obj;
	vaddr_t addr = 0;

	while ((obj = next_shared(as, &addr))) {
		if (obj != last) /* a mapping in several parts */
			nr += object_frames(obj, node);
		last = obj;
		object_put(obj);
	}
	return nr;
}
