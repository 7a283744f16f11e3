/* SPDX-License-Identifier: MIT */
/*
 * Locks of a file: see <fs/lock.h>.
 *
 * Flow:	readers and writers of a file are two interval trees, by where a lock begins. A node
 *		knows how far the locks below it reach and which one of them is told first, and the
 *		same without that lock's owner: a request passes its own locks by without a visit.
 *		Each owner has a tree of its own locks, for setting and unlocking.
 */
#include <fs/lock.h>

#include <lib/assert.h>

static uint64_t nr_visits; /* the caller's lock */

uint64_t lock_tree_visits(void)
{
	return nr_visits;
}

static struct file_lock *lock_of(struct rb_node *n)
{
	nr_visits++;
	return rb_entry(n, struct file_lock, by_start);
}

/* --- what a node knows of its subtree --------------------------------------------------- */

/* Is @a told before @b? */
static bool before(const struct file_lock *a, const struct file_lock *b)
{
	if (a->owner->order != b->owner->order)
		return a->owner->order < b->owner->order;
	return a->start < b->start;
}

static bool farther(const struct file_lock *a, const struct file_lock *b)
{
	return a->end > b->end;
}

/* Put @l into @best, the best lock and the best of those with another owner. */
static void compete(struct file_lock *best[2], struct file_lock *l,
		    bool (*better)(const struct file_lock *, const struct file_lock *))
{
	if (!l)
		return;
	if (!best[0]) {
		best[0] = l;
	} else if (best[0]->owner->who == l->owner->who) {
		if (better(l, best[0]))
			best[0] = l;
	} else if (better(l, best[0])) {
		best[1] = best[0];
		best[0] = l;
	} else if (!best[1] || better(l, best[1])) {
		best[1] = l;
	}
}

static void update(struct rb_node *n)
{
	struct file_lock *l = rb_entry(n, struct file_lock, by_start);
	struct rb_node *const children[2] = { n->left, n->right };

	l->far[0] = l->first[0] = l;
	l->far[1] = l->first[1] = NULL;
	for (int i = 0; i < 2; i++) {
		const struct file_lock *c;

		if (!children[i])
			continue;
		c = rb_entry(children[i], struct file_lock, by_start);
		for (int k = 0; k < 2; k++) {
			compete(l->far, c->far[k], farther);
			compete(l->first, c->first[k], before);
		}
	}
}

/* The best of @best that is not @who's. */
static const struct file_lock *of_others(struct file_lock *const best[2], const void *who)
{
	return best[0]->owner->who != who ? best[0] : best[1];
}

/* --- looking ------------------------------------------------------------------------------ */

static const struct lock_world *world_of(const struct lock_tree *tree, enum lock_kind kind)
{
	return kind == LOCK_FLOCK ? &tree->flocks : &tree->records;
}

static bool overlaps(const struct file_lock *l, const struct lock_req *req)
{
	return l->start <= req->end && req->start <= l->end;
}

static bool any_in(const struct rb_root *root, const struct lock_req *req)
{
	struct rb_node *n = root->node;

	while (n) {
		struct file_lock *l = lock_of(n);
		const struct file_lock *far = of_others(l->far, req->owner);

		if (!far || far->end < req->start)
			return false;
		if (overlaps(far, req))
			return true;
		if (l->start > req->end) {
			n = n->left;
			continue;
		}
		if (l->owner->who != req->owner && overlaps(l, req))
			return true;
		/* All on the left begin early enough: the one that reaches farthest decides. */
		if (n->left) {
			far = of_others(lock_of(n->left)->far, req->owner);
			if (far && far->end >= req->start)
				return true;
		}
		n = n->right;
	}
	return false;
}

bool lock_tree_conflicts(const struct lock_tree *tree, const struct lock_req *req)
{
	const struct lock_world *w = world_of(tree, req->kind);

	return any_in(&w->writers, req) || (req->type == LOCK_WRITE && any_in(&w->readers, req));
}

/* *@best becomes the first lock below @n that overlaps, if it is told before @best. */
static void first_below(struct rb_node *n, const struct lock_req *req,
			const struct file_lock **best)
{
	while (n) {
		struct file_lock *l = lock_of(n);
		const struct file_lock *far = of_others(l->far, req->owner);
		const struct file_lock *first = of_others(l->first, req->owner);

		if (!far || far->end < req->start || (*best && !before(first, *best)))
			return;
		if (overlaps(first, req)) {
			*best = first;
			return;
		}
		if (l->start > req->end) {
			n = n->left;
			continue;
		}
		if (l->owner->who != req->owner && overlaps(l, req) && (!*best || before(l, *best)))
			*best = l;
		first_below(n->left, req, best);
		n = n->right;
	}
}

const struct file_lock *lock_tree_first(const struct lock_tree *tree, const struct lock_req *req)
{
	const struct lock_world *w = world_of(tree, req->kind);
	const struct file_lock *best = NULL;

	first_below(w->writers.node, req, &best);
	if (req->type == LOCK_WRITE)
		first_below(w->readers.node, req, &best);
	return best;
}

struct lock_req lock_as_req(const struct file_lock *l)
{
	return (struct lock_req){ .kind = l->owner->kind,
				  .type = l->type,
				  .owner = l->owner->who,
				  .pid = l->pid,
				  .start = l->start,
				  .end = l->end };
}

/* --- owners ------------------------------------------------------------------------------- */

static int owner_order(enum lock_kind kind, const void *who, const struct lock_owner *o)
{
	if (kind != o->kind)
		return kind < o->kind ? -1 : 1;
	if (who != o->who)
		return (uintptr_t)who < (uintptr_t)o->who ? -1 : 1;
	return 0;
}

static int owner_cmp(const struct rb_node *a, const struct rb_node *b)
{
	const struct lock_owner *o = container_of(a, struct lock_owner, link);

	return owner_order(o->kind, o->who, container_of(b, struct lock_owner, link));
}

bool lock_tree_empty(const struct lock_tree *tree)
{
	return rb_empty(&tree->owners);
}

struct lock_owner *lock_owner_find(const struct lock_tree *tree, enum lock_kind kind,
				   const void *who)
{
	struct rb_node *n = tree->owners.node;

	while (n) {
		struct lock_owner *o = rb_entry(n, struct lock_owner, link);
		const int order = owner_order(kind, who, o);

		nr_visits++;
		if (!order)
			return o;
		n = order < 0 ? n->left : n->right;
	}
	return NULL;
}

void lock_owner_add(struct lock_tree *tree, struct lock_owner *o)
{
	struct rb_node *same;

	o->order = tree->next_order++;
	same = rb_insert(&o->link, &tree->owners, owner_cmp);
	ASSERT(!same);
	(void)same;
}

void lock_owner_free_empty(struct lock_tree *tree, struct lock_owner *o)
{
	if (!rb_empty(&o->locks))
		return;
	rb_erase(&o->link, &tree->owners);
	tree->mem->owner_free(o, o->who);
}

struct file_lock *lock_owner_from(const struct lock_owner *o, int64_t from)
{
	struct rb_node *n = o->locks.node;
	struct file_lock *found = NULL;

	while (n) {
		struct file_lock *l = rb_entry(n, struct file_lock, own_link);

		nr_visits++;
		if (l->end >= from) {
			found = l;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return found;
}

struct file_lock *lock_owner_next(const struct file_lock *l)
{
	return rb_entry_or_null(rb_next(&l->own_link), struct file_lock, own_link);
}

/* The first write lock below @n that ends at @from or behind it. As deep as the tree. */
static struct file_lock *writer_from(struct rb_node *n, int64_t from)
{
	while (n) {
		struct file_lock *l = rb_entry(n, struct file_lock, own_link), *left;

		nr_visits++;
		if (!l->has_writer)
			return NULL;
		if (l->end >= from) {
			left = writer_from(n->left, from);
			if (left)
				return left;
			if (l->type == LOCK_WRITE)
				return l;
		}
		n = n->right;
	}
	return NULL;
}

bool lock_tree_holds(const struct lock_tree *tree, const void *who, const struct lock_req *req)
{
	const struct lock_owner *o = lock_owner_find(tree, LOCK_POSIX, who);
	const struct file_lock *l;

	if (!o || who == req->owner || req->kind == LOCK_FLOCK)
		return false;
	l = req->type == LOCK_WRITE ? lock_owner_from(o, req->start)
				    : writer_from(o->locks.node, req->start);
	return l && overlaps(l, req);
}

/* --- changing ----------------------------------------------------------------------------- */

static int start_cmp(const struct file_lock *a, const struct file_lock *b)
{
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return before(a, b) ? -1 : 1;
}

static void update_own(struct rb_node *n)
{
	struct file_lock *l = rb_entry(n, struct file_lock, own_link);

	l->has_writer = l->type == LOCK_WRITE ||
			(n->left && rb_entry(n->left, struct file_lock, own_link)->has_writer) ||
			(n->right && rb_entry(n->right, struct file_lock, own_link)->has_writer);
}

static void own_insert(struct lock_owner *o, struct file_lock *l)
{
	struct rb_node **link = &o->locks.node, *parent = NULL;

	while (*link) {
		const struct file_lock *at = rb_entry(*link, struct file_lock, own_link);

		ASSERT(l->end < at->start || l->start > at->end);
		parent = *link;
		link = l->start < at->start ? &parent->left : &parent->right;
	}
	rb_link_node(&l->own_link, parent, link);
	rb_insert_color_update(&l->own_link, &o->locks, update_own);
}

static struct rb_root *root_of(struct lock_tree *tree, const struct file_lock *l)
{
	struct lock_world *w = l->owner->kind == LOCK_FLOCK ? &tree->flocks : &tree->records;

	return l->type == LOCK_WRITE ? &w->writers : &w->readers;
}

static void world_insert(struct lock_tree *tree, struct file_lock *l)
{
	struct rb_root *root = root_of(tree, l);
	struct rb_node **link = &root->node, *parent = NULL;

	while (*link) {
		parent = *link;
		link = start_cmp(l, rb_entry(parent, struct file_lock, by_start)) < 0
			       ? &parent->left
			       : &parent->right;
	}
	rb_link_node(&l->by_start, parent, link);
	rb_insert_color_update(&l->by_start, root, update);
}

void lock_insert(struct lock_tree *tree, struct lock_owner *o, struct file_lock *l)
{
	ASSERT(l->start <= l->end && l->type != LOCK_NONE);
	l->owner = o;
	own_insert(o, l);
	world_insert(tree, l);
	tree->nr_posix += o->kind == LOCK_POSIX;
}

void lock_erase(struct lock_tree *tree, struct file_lock *l)
{
	rb_erase_update(&l->by_start, root_of(tree, l), update);
	rb_erase_update(&l->own_link, &l->owner->locks, update_own);
	tree->nr_posix -= l->owner->kind == LOCK_POSIX;
}

void lock_move(struct lock_tree *tree, struct file_lock *l, int64_t start, int64_t end)
{
	ASSERT(start <= end);
	rb_erase_update(&l->by_start, root_of(tree, l), update);
	l->start = start; /* among its owner's it stays where it is */
	l->end = end;
	world_insert(tree, l);
}
