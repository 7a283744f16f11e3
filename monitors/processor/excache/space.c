/* SPDX-License-Identifier: MIT */
/*
 * Objects that are spaces at the memory nodes: copies of the vRegion array and the stored pages.
 *
 * Invariants:	a page that an owner has acknowledged is in `stored` before its line loses its tag, so who
 *		finds no line looks at `stored` next and misses nothing.
 * Locking:	object.lock for both; never held across an RPC.
 */
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <mm/slab.h>
#include <net/node.h>
#include <processor/mm/anon.h>
#include <processor/mm/remote.h>

#include "cache_private.h"
#include "excache.h"
#include "object.h"

static uint64_t nr_spaces; /* atomic */

size_t object_space_count(void)
{
	return __atomic_load_n(&nr_spaces, __ATOMIC_RELAXED);
}
GAUGE(object_space_gauge, "excache.space_objects", "anonymous and shared objects alive",
      object_space_count);

/* --- life ---------------------------------------------------------------------------- */

struct object *space_create(enum object_kind kind, uint64_t id, uint32_t home,
			    uint64_t vregion_size, uint64_t seed)
{
	struct object *obj = kzalloc(sizeof(*obj));

	if (!obj)
		return ERR_PTR(-ENOMEM);
	object_init(obj, kind, seed);
	obj->id = id;
	obj->home = home;
	obj->vregion_size = vregion_size;
	radix_init(&obj->vregions);
	page_bits_init(&obj->stored);
	page_bits_init(&obj->hidden);
	list_init(&obj->fronts);
	anon_init_object(obj);
	obj->retired = retired_alloc();
	if (!obj->retired) {
		kfree(obj);
		return ERR_PTR(-ENOMEM);
	}
	__atomic_add_fetch(&nr_spaces, 1, __ATOMIC_RELAXED);
	return obj;
}

struct object *object_anon_create(uint64_t id, uint32_t home, uint64_t vregion_size, uint64_t seed)
{
	return space_create(OBJECT_ANON, id, home, vregion_size, seed);
}

uint64_t object_new_id(void)
{
	static atomic64_t counter;

	return (uint64_t)node_self()->id << 40 | (uint64_t)atomic64_inc_return(&counter);
}

static void space_free(struct object *obj)
{
	struct vregion *vr;
	uint64_t index;

	radix_for_each(vr, &obj->vregions, index)
		kfree(vr);
	radix_destroy(&obj->vregions);
	page_bits_destroy(&obj->stored);
	page_bits_destroy(&obj->hidden);
	retired_free(obj->retired);
	kfree(obj->path);
	kfree(obj);
	__atomic_sub_fetch(&nr_spaces, 1, __ATOMIC_RELAXED);
}

/* The home hears of the end of @obj later. */
static void retire(struct object *obj, bool now)
{
	struct retired *r = obj->retired;

	obj->retired = NULL;
	retire_space(r, obj->home, obj->id, now);
}

void object_free_merged(struct object *obj, bool at_home)
{
	ASSERT(obj->nr_lines == 0);
	if (!at_home)
		retire(obj, false); /* owners have no page under that name */
	obj->vregion_size = 0;      /* the home knows nothing of it */
	object_put(obj);
}

void space_end(struct object *obj)
{
	/* With it may go the last front of the object behind it, and so on. */
	while (obj) {
		struct anon_merge merge = { 0 };
		struct object *gone = NULL;

		if (obj->backing)
			gone = anon_unchain(obj, &merge);
		if (obj->kind == OBJECT_SHARED)
			shared_forget(obj);
		excache_drop(obj, 0, UINT64_MAX);
		if (obj->vregion_size && obj->kind == OBJECT_ANON)
			retire(obj, object_stores_any(obj, 0, UINT64_MAX));
		else if (obj->vregion_size)
			remote_destroy(obj); /* who unlinks a file has its memory back at once */
		space_free(obj);
		if (merge.as || merge.front)
			anon_merge_soon(&merge);
		obj = gone;
	}
}

/* --- vRegions ------------------------------------------------------------------------ */

int object_owner_cached(struct object *obj, uint64_t pgoff, uint32_t *owner)
{
	const struct vregion *vr;
	int err = -ENOENT;

	if (!obj->vregion_size)
		return -ENOENT;
	spin_lock(&obj->lock);
	vr = vregion_locked(obj, vregion_of(obj, pgoff));
	if (vr && vr->owner) {
		*owner = vr->owner;
		err = 0;
	}
	spin_unlock(&obj->lock);
	return err;
}

int object_set_vregion(struct object *obj, const struct pm_vregion *v)
{
	struct vregion *fresh = kmalloc(sizeof(*fresh));
	struct vregion *vr;
	int err = 0;

	spin_lock(&obj->lock);
	vr = radix_lookup(&obj->vregions, v->index);
	if (!vr) {
		err = fresh ? radix_insert(&obj->vregions, v->index, fresh) : -ENOMEM;
		if (!err) {
			*fresh = (struct vregion){ .owner = v->owner, .version = v->version };
			fresh = NULL;
		}
	} else if (v->version >= vr->version) {
		vr->owner = v->owner;
		vr->version = v->version;
	}
	spin_unlock(&obj->lock);
	kfree(fresh);
	return err;
}

int object_moved(struct object *obj, const void *body, size_t len)
{
	struct pm_vregion v;
	const int err = pm_moved_decode(body, len, &v);

	return err ? err : object_set_vregion(obj, &v);
}

void object_forget_owner(struct object *obj, uint64_t pgoff)
{
	struct vregion *vr;

	spin_lock(&obj->lock);
	vr = radix_lookup(&obj->vregions, vregion_of(obj, pgoff));
	if (vr)
		vr->owner = 0;
	spin_unlock(&obj->lock);
}

int object_owner(struct object *obj, uint64_t pgoff, uint32_t *owner)
{
	int err = object_owner_cached(obj, pgoff, owner);

	if (err == -ENOENT && obj->kind == OBJECT_SHARED && !READ_ONCE(obj->vregion_size)) {
		err = shared_introduce(obj);
		if (!err)
			err = -ENOENT;
	}
	if (err == -ENOENT) {
		err = remote_vregions(obj, vregion_of(obj, pgoff), 1);
		if (!err)
			err = object_owner_cached(obj, pgoff, owner);
		if (err == -ENOENT)
			err = -EFAULT; /* the home says that nobody owns it */
	}
	return err;
}

/* --- stored pages -------------------------------------------------------------------- */

bool object_stored(struct object *obj, uint64_t pgoff)
{
	bool stored;

	spin_lock(&obj->lock);
	stored = page_bits_test(&obj->stored, pgoff);
	spin_unlock(&obj->lock);
	return stored;
}

bool object_stores_any(struct object *obj, uint64_t first, uint64_t end)
{
	bool any;

	spin_lock(&obj->lock);
	any = page_bits_next(&obj->stored, first, end) < end;
	spin_unlock(&obj->lock);
	return any;
}

int object_set_stored(struct object *obj, uint64_t pgoff)
{
	int err;

	spin_lock(&obj->lock);
	err = page_bits_set(&obj->stored, pgoff);
	spin_unlock(&obj->lock);
	return err;
}

void object_clear_stored(struct object *obj, uint64_t first, uint64_t end)
{
	uint64_t nr;

	spin_lock(&obj->lock);
	nr = page_bits_clear_range(&obj->stored, first, end);
	if (obj->kind == OBJECT_SHARED)
		obj->nr_pages -= nr;
	spin_unlock(&obj->lock);
}

int object_move_stored(struct object *obj, uint64_t from, uint64_t nr, uint64_t to)
{
	const uint64_t end = from + nr;
	uint64_t page = from;
	int err = 0;

	while (!err) {
		spin_lock(&obj->lock);
		page = page_bits_next(&obj->stored, page, end);
		if (page < end) {
			page_bits_clear(&obj->stored, page);
			err = page_bits_set(&obj->stored, page - from + to);
		}
		spin_unlock(&obj->lock);
		if (page >= end)
			break;
	}
	return err;
}
