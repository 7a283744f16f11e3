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
#include "owner.h"

/* Kernel memory that they take, trees aside. The owners charge for what they keep themselves. */
#define SPACE_BYTES   sizeof(struct home_space)
#define VREGION_BYTES sizeof(struct home_vregion)

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

static void home_link_locked(struct memory *m, struct home_space *as) __must_hold(&m->home.lock)
{
	struct home *h = &m->home;
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
	as->is_linked = true;
	h->nr_spaces++;
}

static bool is_dead(const struct home_space *as)
{
	return __atomic_load_n(&as->dead, __ATOMIC_ACQUIRE);
}

/* May @as be in the table? */
static int home_may_link_locked(struct memory *m, const struct home_space *as, uint32_t incarn)
	__must_hold(&m->home.lock)
{
	assert_spin_held(&m->home.lock);
	if (pm_space_home(as->id) != m->node || pm_space_maker(as->id) != as->proc)
		return -EINVAL;
	if (pool_is_fenced(&m->pool, as->proc))
		return -ESTALE;
	/* A request may outlive its processor, and be served when the next incarnation is here. */
	if (incarn && m->net->has_left && m->net->has_left(m, as->proc, incarn))
		return -ESTALE;
	return home_find_locked(&m->home, as->id) ? -EEXIST : 0;
}

static int home_space_link(struct memory *m, struct home_space *as, uint32_t incarn)
{
	int err;

	spin_lock(&m->home.lock);
	err = home_may_link_locked(m, as, incarn);
	if (!err)
		home_link_locked(m, as);
	spin_unlock(&m->home.lock);
	return err;
}

int home_space_link_two(struct memory *m, const struct home_space *of, struct home_space *a,
			struct home_space *b)
{
	int err;

	spin_lock(&m->home.lock);
	/* Its processor may have gone, and come again, since the call began. */
	err = is_dead(of) ? -ESTALE : home_may_link_locked(m, a, 0);
	if (!err)
		err = home_may_link_locked(m, b, 0);
	if (!err) {
		home_link_locked(m, a);
		home_link_locked(m, b);
	}
	spin_unlock(&m->home.lock);
	return err;
}

static void home_space_free(struct home_space *as)
{
	struct area_spare dead = AREA_SPARE(as->m, as->proc);
	struct home_vregion *vr;
	uint64_t index;

	lock_not_needed(&as->mutex, "the last reference");
	memory_uncharge(as->m, as->proc, as->charged);
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

/* Before something is made for @as that takes @bytes. */
static int home_space_charge(struct home_space *as, uint64_t bytes) __must_hold(&as->mutex)
{
	const int err = memory_charge(as->m, as->proc, bytes);

	if (!err)
		as->charged += bytes;
	return err;
}

static void home_space_uncharge(struct home_space *as, uint64_t bytes) __must_hold(&as->mutex)
{
	as->charged -= bytes;
	memory_uncharge(as->m, as->proc, bytes);
}

struct home_space *home_space_alloc(struct memory *m, uint64_t id, uint32_t proc, uint32_t vnode,
				    enum home_space_kind kind)
{
	struct home_space *as = lib_zalloc(sizeof(*as));

	if (!as)
		return NULL;
	as->m = m;
	as->id = id;
	as->proc = proc;
	lock_not_needed(&as->mutex, "no other thread knows it");
	if (home_space_charge(as, SPACE_BYTES)) {
		lib_free(as);
		return NULL;
	}
	mutex_init(&as->mutex, "aspace", RANK_ASPACE);
	as->refs = 1;
	as->kind = kind;
	as->vnode = vnode;
	area_set_init(&as->map);
	radix_init(&as->vregions);
	radix_init(&as->nodes);
	as->mmap_top = PM_USER_TOP;
	return as;
}

struct home_space *home_space_create(struct memory *m, uint64_t id, uint32_t proc, uint32_t vnode,
				     enum home_space_kind kind, uint32_t incarn)
	__no_lock_analysis("returns it locked")
{
	struct home_space *as = home_space_alloc(m, id, proc, vnode, kind);
	int err;

	if (!as)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&as->mutex);
	err = home_space_link(m, as, incarn);
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

bool home_space_is_others(struct memory *m, uint64_t id, uint32_t proc)
{
	const struct home_space *as;
	bool others;

	spin_lock(&m->home.lock);
	as = home_find_locked(&m->home, id);
	others = as && as->proc != proc;
	spin_unlock(&m->home.lock);
	return others;
}

uint32_t home_space_vnode(struct memory *m, uint64_t id, uint32_t proc)
{
	const struct home_space *as;
	uint32_t vnode;

	spin_lock(&m->home.lock);
	as = home_find_locked(&m->home, id);
	vnode = as && as->proc == proc ? as->vnode : 0;
	spin_unlock(&m->home.lock);
	return vnode;
}

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

static void set_dead(struct home_space *as)
{
	__atomic_store_n(&as->dead, true, __ATOMIC_RELEASE);
}

static void unlink_locked(struct memory *m, struct home_space *as) __must_hold(&m->home.lock)
{
	assert_spin_held(&m->home.lock);
	set_dead(as);
	if (!as->is_linked)
		return;
	as->is_linked = false;
	rb_erase(&as->node, &m->home.spaces);
	m->home.nr_spaces--;
}

/*
 * Its processor went while a call was under way, which may have made something at owners that had
 * dropped all of it before: dropped again.
 */
static void space_mutex_unlock(struct home_space *as) __releases(&as->mutex)
{
	mutex_unlock(&as->mutex);
	if (likely(!__atomic_exchange_n(&as->is_orphan, false, __ATOMIC_SEQ_CST)))
		return;
	lock_not_needed(&as->mutex, "it is dead: no call changes it any more");
	(void)destroy_at_nodes(as->m, as);
}

/* With a reference, or NULL. */
static struct home_space *home_space_get(struct memory *m, uint64_t id, uint32_t proc)
{
	struct home_space *as = NULL;

	spin_lock(&m->home.lock);
	as = home_find_locked(&m->home, id);
	if (as && proc != ANY_PROC && as->proc != proc)
		as = NULL;
	if (as)
		__atomic_add_fetch(&as->refs, 1, __ATOMIC_RELAXED);
	spin_unlock(&m->home.lock);
	return as;
}

/* May a call for one of @kinds go on with @as? */
static int home_space_check(const struct home_space *as, unsigned int kinds) __must_hold(&as->mutex)
{
	if (is_dead(as))
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
	struct home_space *as = home_space_get(m, id, ANY_PROC);
	int err = -EAGAIN;

	if (!as)
		return ERR_PTR(-ESRCH);
	if (mutex_trylock(&as->mutex)) {
		err = home_space_check(as, SPACE_ANY);
		if (!err && !as->move_open)
			return as;
		space_mutex_unlock(as);
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
	space_mutex_unlock(*a);
	space_mutex_unlock(*b);
out_put:
	if (*a)
		home_space_put(*a);
	if (*b)
		home_space_put(*b);
	return err;
}

void home_space_unlock(struct home_space *as)
{
	space_mutex_unlock(as);
	home_space_put(as);
}

/* --- vRegion array --------------------------------------------------------------------- */

bool home_vregion_is_lost(struct memory *m, const struct home_vregion *vr)
{
	return vr->life != memory_node_life(m, vr->owner);
}

static bool is_mapped(const struct memory *m, const struct home_space *as, uint64_t index)
	__must_hold(&as->mutex)
{
	const uint64_t start = index << m->vregion_shift;

	return !area_range_is_free(&as->map, start, start + (1ull << m->vregion_shift));
}

int home_space_check_owners(struct memory *m, struct home_space *as, uint64_t start, uint64_t end)
{
	uint64_t index = start >> m->vregion_shift;
	const struct home_vregion *vr;

	while ((vr = radix_next(&as->vregions, &index)) && index <= (end - 1) >> m->vregion_shift) {
		if (home_vregion_is_lost(m, vr) && is_mapped(m, as, index))
			return -EHOSTDOWN;
		index++;
	}
	return 0;
}

/* Choose the owner of @vr, which has none that is a member. */
static int give_owner(struct memory *m, struct home_space *as, uint64_t index,
		      struct home_vregion *vr) __must_hold(&as->mutex)
{
	const uint32_t owner = memory_owner_for(m, as->id, index);

	if (!owner || home_space_note_node(as, owner))
		return -ENOMEM;
	vr->owner = owner;
	vr->life = memory_node_life(m, owner);
	vr->version++;
	return 0;
}

int home_space_vregion_activate(struct memory *m, struct home_space *as, uint64_t index)
{
	struct home_vregion *vr = radix_lookup(&as->vregions, index);
	int err;

	if (vr && !home_vregion_is_lost(m, vr))
		return 0;
	if (vr) /* what has been unmapped is missed by nobody */
		return is_mapped(m, as, index) ? -EHOSTDOWN : give_owner(m, as, index, vr);
	if (home_space_charge(as, VREGION_BYTES))
		return -ENOMEM;
	vr = lib_zalloc(sizeof(*vr));
	err = vr ? give_owner(m, as, index, vr) : -ENOMEM;
	if (!err)
		err = radix_insert(&as->vregions, index, vr);
	if (err) {
		lib_free(vr);
		home_space_uncharge(as, VREGION_BYTES);
	}
	return err;
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
		struct home_vregion *copy;

		if (home_space_charge(to, VREGION_BYTES))
			return -ENOMEM;
		copy = lib_alloc(sizeof(*copy));
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

void home_space_unlink(struct memory *m, struct home_space *as)
{
	bool was_linked;

	spin_lock(&m->home.lock);
	was_linked = as->is_linked;
	unlink_locked(m, as);
	spin_unlock(&m->home.lock);
	if (was_linked)
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
	set_dead(as);
	err = destroy_at_nodes(m, as);
	home_space_unlink(m, as);
	home_space_unlock(as);
	return err;
}

/* Take a space of @proc, or any, off the table, with the table's reference; NULL: none is left. */
static struct home_space *take_off(struct memory *m, uint32_t proc, bool any)
{
	struct home_space *as;

	spin_lock(&m->home.lock);
	rb_for_each_entry(as, &m->home.spaces, node)
		if (any || as->proc == proc)
			break;
	if (as)
		unlink_locked(m, as);
	spin_unlock(&m->home.lock);
	return as;
}

static void forget(struct home_space *as)
{
	/* A call that has the mutex sees the mark when it has dropped it, or this takes it. */
	__atomic_store_n(&as->is_orphan, true, __ATOMIC_SEQ_CST);
	if (mutex_trylock(&as->mutex)) {
		__atomic_store_n(&as->is_orphan, false, __ATOMIC_SEQ_CST);
		mutex_unlock(&as->mutex);
	}
	home_space_put(as);
}

void home_processor_gone(struct memory *m, uint32_t proc)
{
	struct home_space *as;

	while ((as = take_off(m, proc, false)))
		forget(as);
}

void home_destroy(struct memory *m)
{
	struct home_space *as;

	while ((as = take_off(m, 0, true)))
		forget(as);
}
