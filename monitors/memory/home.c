/* SPDX-License-Identifier: MIT */
/*
 * Home: the table of address spaces, and their vRegion arrays.
 */
#include "home.h"

#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "memory.h"

static struct home_space *to_space(struct rb_node *node)
{
	return rb_entry_or_null(node, struct home_space, node);
}

void home_init(struct memory *m)
{
	spin_lock_init(&m->home.lock, "home", RANK_SPIN_MONITOR);
	m->home.spaces = RB_ROOT;
	m->home.nr_spaces = 0;
}

static struct home_space *home_find_locked(struct home *h, uint64_t id) __must_hold(&h->lock)
{
	struct rb_node *node = h->spaces.node;

	assert_spin_held(&h->lock);
	while (node) {
		struct home_space *as = to_space(node);

		if (as->id == id)
			return as;
		node = id < as->id ? node->left : node->right;
	}
	return NULL;
}

static void home_link_locked(struct home *h, struct home_space *as) __must_hold(&h->lock)
{
	struct rb_node **link = &h->spaces.node;
	struct rb_node *parent = NULL;

	assert_spin_held(&h->lock);
	while (*link) {
		parent = *link;
		link = as->id < to_space(parent)->id ? &parent->left : &parent->right;
	}
	rb_link_node(&as->node, parent, link);
	rb_insert_color(&as->node, &h->spaces);
	__atomic_add_fetch(&as->refs, 1, __ATOMIC_RELAXED);
	h->nr_spaces++;
}

/* May there be a new space of that id? */
static int home_may_link_locked(struct memory *m, uint64_t id) __must_hold(&m->home.lock)
{
	assert_spin_held(&m->home.lock);
	if (pool_is_fenced(&m->pool, space_processor(id)))
		return -ESTALE;
	return home_find_locked(&m->home, id) ? -EEXIST : 0;
}

static int home_space_link(struct memory *m, struct home_space *as)
{
	int err;

	spin_lock(&m->home.lock);
	err = home_may_link_locked(m, as->id);
	if (!err)
		home_link_locked(&m->home, as);
	spin_unlock(&m->home.lock);
	return err;
}

int home_space_link_two(struct memory *m, struct home_space *a, struct home_space *b)
{
	int err;

	spin_lock(&m->home.lock);
	err = home_may_link_locked(m, a->id);
	if (!err)
		err = home_may_link_locked(m, b->id);
	if (!err) {
		home_link_locked(&m->home, a);
		home_link_locked(&m->home, b);
	}
	spin_unlock(&m->home.lock);
	return err;
}

static void home_space_free(struct home_space *as)
{
	struct area_spare dead = { 0 };
	struct home_vregion *vr;
	uint64_t index;

	lock_not_needed(&as->mutex, "the last reference");
	area_set_clear(&as->map, &dead);
	area_spare_free(&dead);
	radix_for_each(vr, &as->vregions, index)
		lib_free(vr);
	radix_destroy(&as->vregions);
	radix_destroy(&as->nodes);
	lib_free(as);
}

void home_space_put(struct home_space *as)
{
	if (!__atomic_sub_fetch(&as->refs, 1, __ATOMIC_ACQ_REL))
		home_space_free(as);
}

struct home_space *home_space_alloc(uint64_t id, uint32_t vnode, enum home_space_kind kind)
{
	struct home_space *as = lib_zalloc(sizeof(*as));

	if (!as)
		return NULL;
	mutex_init(&as->mutex, "aspace", RANK_ASPACE);
	as->refs = 1;
	as->kind = kind;
	as->id = id;
	as->vnode = vnode;
	area_set_init(&as->map);
	radix_init(&as->vregions);
	radix_init(&as->nodes);
	as->mmap_top = PM_USER_TOP;
	return as;
}

struct home_space *home_space_create(struct memory *m, uint64_t id, uint32_t vnode,
				     enum home_space_kind kind)
	__no_lock_analysis("returns it locked")
{
	struct home_space *as = home_space_alloc(id, vnode, kind);
	int err;

	if (!as)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&as->mutex);
	err = home_space_link(m, as);
	if (!err)
		return as;
	home_space_unlock(as);
	return ERR_PTR(err);
}

bool home_space_exists(struct memory *m, uint64_t id)
{
	bool found;

	spin_lock(&m->home.lock);
	found = home_find_locked(&m->home, id) != NULL;
	spin_unlock(&m->home.lock);
	return found;
}

/* With a reference, or NULL. */
static struct home_space *home_space_get(struct memory *m, uint64_t id, uint32_t proc)
{
	struct home_space *as = NULL;

	if (space_processor(id) != proc)
		return NULL;
	spin_lock(&m->home.lock);
	as = home_find_locked(&m->home, id);
	if (as)
		__atomic_add_fetch(&as->refs, 1, __ATOMIC_RELAXED);
	spin_unlock(&m->home.lock);
	return as;
}

/* May a call for one of @kinds go on with @as? */
static int home_space_check(const struct home_space *as, unsigned int kinds) __must_hold(&as->mutex)
{
	if (as->dead)
		return -ESRCH;
	return as->kind & kinds ? 0 : -EINVAL;
}

struct home_space *home_space_lock(struct memory *m, uint64_t id, uint32_t proc, unsigned int kinds)
	__no_lock_analysis("returns it locked")
{
	struct home_space *as = home_space_get(m, id, proc);
	int err;

	if (!as)
		return ERR_PTR(-ESRCH);
	mutex_lock(&as->mutex);
	err = home_space_check(as, kinds);
	if (!err && unlikely(as->move_open) && !(kinds & SPACE_MOVE_OPEN))
		err = home_move_resolve(m, as);
	if (!err)
		return as;
	home_space_unlock(as);
	return ERR_PTR(err);
}

struct home_space *home_space_trylock(struct memory *m, uint64_t id)
	__no_lock_analysis("returns it locked")
{
	struct home_space *as = home_space_get(m, id, space_processor(id));
	int err = -EAGAIN;

	if (!as)
		return ERR_PTR(-ESRCH);
	if (mutex_trylock(&as->mutex)) {
		err = home_space_check(as, SPACE_ANY);
		if (!err && !as->move_open)
			return as;
		mutex_unlock(&as->mutex);
		err = err ? err : -EAGAIN;
	}
	home_space_put(as);
	return ERR_PTR(err);
}

int home_space_lock_two(struct memory *m, uint32_t proc, uint64_t a_id, unsigned int a_kinds,
			uint64_t b_id, unsigned int b_kinds, struct home_space **a,
			struct home_space **b) __no_lock_analysis("returns both locked")
{
	int err = -ESRCH;

	*a = home_space_get(m, a_id, proc);
	*b = home_space_get(m, b_id, proc);
	if (!*a || !*b)
		goto out_put;
	mutex_lock(*a < *b ? &(*a)->mutex : &(*b)->mutex);
	mutex_lock(*a < *b ? &(*b)->mutex : &(*a)->mutex);
	err = home_space_check(*a, a_kinds);
	if (!err)
		err = home_space_check(*b, b_kinds);
	if (!err && unlikely((*a)->move_open))
		err = home_move_resolve(m, *a);
	if (!err && unlikely((*b)->move_open))
		err = home_move_resolve(m, *b);
	if (!err)
		return 0;
	mutex_unlock(&(*a)->mutex);
	mutex_unlock(&(*b)->mutex);
out_put:
	if (*a)
		home_space_put(*a);
	if (*b)
		home_space_put(*b);
	return err;
}

void home_space_unlock(struct home_space *as)
{
	mutex_unlock(&as->mutex);
	home_space_put(as);
}

/* --- vRegion array --------------------------------------------------------------------- */

uint32_t home_space_vregion_owner(struct memory *m, struct home_space *as, uint64_t index)
{
	struct home_vregion *vr = radix_lookup(&as->vregions, index);

	if (vr)
		return vr->owner;
	vr = lib_zalloc(sizeof(*vr));
	if (!vr)
		return 0;
	vr->owner = memory_owner_for(m, as->id, index);
	vr->version = 1;
	if (!vr->owner || home_space_note_node(as, vr->owner) ||
	    radix_insert(&as->vregions, index, vr)) {
		lib_free(vr);
		return 0;
	}
	return vr->owner;
}

int home_space_note_node(struct home_space *as, uint32_t node)
{
	const int err = radix_insert(&as->nodes, node, as);

	return err == -EEXIST ? 0 : err;
}

bool home_space_vregion(const struct memory *m, const struct home_space *as, uint64_t index,
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

uint16_t home_space_vregions(const struct memory *m, const struct home_space *as, uint64_t start,
			     uint64_t end, struct pm_vregion *out, uint16_t max)
{
	uint64_t index = start >> m->vregion_shift;
	uint16_t n = 0;

	while (n < max && radix_next(&as->vregions, &index) &&
	       index <= (end - 1) >> m->vregion_shift) {
		(void)home_space_vregion(m, as, index, &out[n++]);
		index++;
	}
	return n;
}

int home_space_copy_vregions(struct home_space *to, const struct home_space *from)
{
	const struct home_vregion *vr;
	uint64_t index;

	lock_not_needed(&to->mutex, "it is in no table yet");
	radix_for_each(vr, &from->vregions, index) {
		struct home_vregion *copy = lib_alloc(sizeof(*copy));

		if (!copy)
			return -ENOMEM;
		*copy = *vr;
		if (radix_insert(&to->vregions, index, copy)) {
			lib_free(copy);
			return -ENOMEM;
		}
		if (home_space_note_node(to, vr->owner))
			return -ENOMEM;
	}
	return 0;
}

/* --- the end of a space ---------------------------------------------------------------- */

/* Tell every node that has ever held a part.  The first error is returned, but all are told. */
static int destroy_at_nodes(struct memory *m, struct home_space *as)
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

void home_space_unlink(struct memory *m, struct home_space *as)
{
	spin_lock(&m->home.lock);
	rb_erase(&as->node, &m->home.spaces);
	m->home.nr_spaces--;
	spin_unlock(&m->home.lock);
	home_space_put(as);
}

/*
 * An owner that cannot be reached frees the space itself when the processor's lease ends or when it
 * joins again: so the space is gone here whatever the owners answer.
 */
int home_destroy_space(struct memory *m, uint64_t id, uint32_t proc)
{
	struct home_space *as = home_space_lock(m, id, proc, SPACE_ANY | SPACE_MOVE_OPEN);
	int err;

	if (IS_ERR(as))
		return 0;
	assert_mutex_held(&as->mutex);
	as->dead = true;
	err = destroy_at_nodes(m, as);
	home_space_unlink(m, as);
	home_space_unlock(as);
	return err;
}

static bool first_of(struct memory *m, uint32_t proc, bool any, uint64_t *id)
{
	struct home_space *as;

	spin_lock(&m->home.lock);
	rb_for_each_entry(as, &m->home.spaces, node)
		if (any || space_processor(as->id) == proc)
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
		struct home_space *as = home_space_lock(m, id, proc, SPACE_ANY | SPACE_MOVE_OPEN);

		if (IS_ERR(as))
			continue; /* another thread destroys it, and will unlink it */
		assert_mutex_held(&as->mutex);
		as->dead = true;
		home_space_unlink(m, as);
		home_space_unlock(as);
	}
}

void home_destroy(struct memory *m)
{
	uint64_t id;

	while (first_of(m, 0, true, &id))
		home_processor_gone(m, space_processor(id));
}
