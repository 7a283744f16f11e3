/* SPDX-License-Identifier: MIT */
/*
 * Home: the table of address spaces, and their vRegion arrays.
 */
#include "home.h"

#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/string.h>

#include "memory.h"

static struct aspace *to_aspace(struct rb_node *node)
{
	return rb_entry_or_null(node, struct aspace, node);
}

void home_init(struct memory *m)
{
	spin_lock_init(&m->home.lock, "home", RANK_SPIN_MONITOR);
	m->home.spaces = RB_ROOT;
	m->home.nr_spaces = 0;
}

static struct aspace *find_locked(struct home *h, uint64_t id) __must_hold(&h->lock)
{
	struct rb_node *node = h->spaces.node;

	while (node) {
		struct aspace *as = to_aspace(node);

		if (as->id == id)
			return as;
		node = id < as->id ? node->left : node->right;
	}
	return NULL;
}

static bool link_space(struct home *h, struct aspace *as)
{
	struct rb_node **link = &h->spaces.node;
	struct rb_node *parent = NULL;

	spin_lock(&h->lock);
	while (*link) {
		parent = *link;
		if (to_aspace(parent)->id == as->id) {
			spin_unlock(&h->lock);
			return false;
		}
		link = as->id < to_aspace(parent)->id ? &parent->left : &parent->right;
	}
	rb_link_node(&as->node, parent, link);
	rb_insert_color(&as->node, &h->spaces);
	h->nr_spaces++;
	spin_unlock(&h->lock);
	return true;
}

static void aspace_free(struct aspace *as)
{
	struct vma_spare dead = { 0 };
	struct home_vregion *vr;
	uint64_t index;

	vma_set_clear(&as->map, &dead);
	vma_spare_free(&dead);
	radix_for_each(vr, &as->vregions, index)
		lib_free(vr);
	radix_destroy(&as->vregions);
	radix_destroy(&as->nodes);
	lib_free(as);
}

static void aspace_put(struct aspace *as)
{
	if (!__atomic_sub_fetch(&as->refs, 1, __ATOMIC_ACQ_REL))
		aspace_free(as);
}

struct aspace *aspace_create(struct memory *m, uint64_t id, uint32_t vnode)
{
	struct aspace *as = lib_zalloc(sizeof(*as));

	if (!as)
		return ERR_PTR(-ENOMEM);
	as->refs = 2; /* the table's and the caller's */
	as->id = id;
	as->vnode = vnode;
	mutex_init(&as->mutex, "aspace", RANK_ASPACE);
	vma_set_init(&as->map);
	radix_init(&as->vregions);
	radix_init(&as->nodes);
	as->mmap_top = PM_USER_TOP;
	mutex_lock(&as->mutex);
	if (link_space(&m->home, as))
		return as;
	mutex_unlock(&as->mutex);
	aspace_free(as);
	return ERR_PTR(-EEXIST);
}

struct aspace *aspace_lock(struct memory *m, uint64_t id, uint32_t proc)
{
	struct aspace *as;

	if (aspace_processor(id) != proc)
		return ERR_PTR(-ESRCH);
	spin_lock(&m->home.lock);
	as = find_locked(&m->home, id);
	if (as)
		__atomic_add_fetch(&as->refs, 1, __ATOMIC_RELAXED);
	spin_unlock(&m->home.lock);
	if (!as)
		return ERR_PTR(-ESRCH);
	mutex_lock(&as->mutex);
	if (!as->dead)
		return as;
	aspace_unlock(as);
	return ERR_PTR(-ESRCH);
}

void aspace_unlock(struct aspace *as)
{
	mutex_unlock(&as->mutex);
	aspace_put(as);
}

/* --- vRegion array --------------------------------------------------------------------- */

uint32_t aspace_vregion_owner(struct memory *m, struct aspace *as, uint64_t index)
{
	struct home_vregion *vr = radix_lookup(&as->vregions, index);

	if (vr)
		return vr->owner;
	vr = lib_zalloc(sizeof(*vr));
	if (!vr)
		return 0;
	vr->owner = memory_owner_for(m, as->id, index);
	vr->version = 1;
	if (!vr->owner || aspace_note_node(as, vr->owner) ||
	    radix_insert(&as->vregions, index, vr)) {
		lib_free(vr);
		return 0;
	}
	return vr->owner;
}

int aspace_note_node(struct aspace *as, uint32_t node)
{
	const int err = radix_insert(&as->nodes, node, as);

	return err == -EEXIST ? 0 : err;
}

bool aspace_vregion(const struct memory *m, const struct aspace *as, uint64_t index,
		    struct pm_vregion *out)
{
	const struct home_vregion *vr = radix_lookup(&as->vregions, index);

	if (!vr)
		return false;
	out->index = index;
	out->owner = vr->owner;
	out->secondary = vr->secondary;
	out->version = vr->version;
	return true;
}

uint16_t aspace_vregions(const struct memory *m, const struct aspace *as, uint64_t start,
			 uint64_t end, struct pm_vregion *out, uint16_t max)
{
	uint64_t index = start >> m->vregion_shift;
	uint16_t n = 0;

	while (n < max && radix_next(&as->vregions, &index) &&
	       index <= (end - 1) >> m->vregion_shift) {
		(void)aspace_vregion(m, as, index, &out[n++]);
		index++;
	}
	return n;
}

/* --- the end of a space ---------------------------------------------------------------- */

/* Tell every node that has ever held a part.  The first error is returned, but all are told. */
static int destroy_at_nodes(struct memory *m, struct aspace *as)
{
	struct pm_destroy_req_wire w;
	const void *held;
	uint64_t node;
	int err = 0;

	pm_destroy_req_encode(as->id, &w);
	radix_for_each(held, &as->nodes, node) {
		const int ret = memory_call(m, (uint32_t)node, MM_DESTROY, &w, sizeof(w), NULL, 0);

		if (ret < 0 && !err)
			err = ret;
	}
	return err;
}

static void unlink_space(struct memory *m, struct aspace *as)
{
	spin_lock(&m->home.lock);
	rb_erase(&as->node, &m->home.spaces);
	m->home.nr_spaces--;
	spin_unlock(&m->home.lock);
	aspace_put(as);
}

/*
 * An owner that cannot be reached frees the space itself when the processor's lease ends or when it
 * joins again: so the space is gone here whatever the owners answer.
 */
int home_destroy_space(struct memory *m, uint64_t id, uint32_t proc)
{
	struct aspace *as = aspace_lock(m, id, proc);
	int err;

	if (IS_ERR(as))
		return 0;
	as->dead = true;
	err = destroy_at_nodes(m, as);
	unlink_space(m, as);
	aspace_unlock(as);
	return err;
}

static bool first_of(struct memory *m, uint32_t proc, bool any, uint64_t *id)
{
	struct aspace *as;

	spin_lock(&m->home.lock);
	rb_for_each_entry(as, &m->home.spaces, node)
		if (any || aspace_processor(as->id) == proc)
			break;
	if (as)
		*id = as->id;
	spin_unlock(&m->home.lock);
	return as != NULL;
}

void home_processor_gone(struct memory *m, uint32_t proc)
{
	uint64_t id;

	while (first_of(m, proc, false, &id)) {
		struct aspace *as = aspace_lock(m, id, proc);

		if (IS_ERR(as))
			continue; /* being destroyed by somebody else, who will unlink it */
		as->dead = true;
		unlink_space(m, as);
		aspace_unlock(as);
	}
}

void home_destroy(struct memory *m)
{
	uint64_t id;

	while (first_of(m, 0, true, &id))
		home_processor_gone(m, aspace_processor(id));
}
