/* SPDX-License-Identifier: MIT */
/*
 * The mount table: what is mounted where, in each namespace.
 *
 * Flow:	a directory with mount points has a count of them in its inode, so a walk asks the
 *		table only where something is. The table is keyed by that inode and the name, and an
 *		entry is for one mount of the inode's file system.
 * Locking:	see mount_private.h. Nothing sleeps under mount_table_lock, and what is freed is
 *		freed outside of it.
 * Failure:	memory for the paths at which look-ups end is taken before anything changes.
 */
#include <abi/stat.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/ns/user_count.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>

#include "mount_private.h"

#define BUCKETS    4096u
#define POINTS_MAX 1024u /* the rest of STORAGE_MOUNT_POINTS_MAX is for roots */

struct mutex mount_change = MUTEX_INIT(mount_change, "mounts", RANK_MONITOR);

static struct spinlock mount_table_lock = SPINLOCK_INIT("mount.table", RANK_SPIN_MONITOR);
static struct hlist_head table[BUCKETS]; /* mount_table_lock; newer ones first in a bucket */
static LIST_HEAD(all);                   /* the same; not the files of covered directories */
static uint32_t last_id = 19;            /* mount_change; Linux's first ones are near this */

bool mount_charge_node;

/* --- references ---------------------------------------------------------------------- */

static void release_type(struct fs_type *type)
{
	struct user_ns *owner = type->owner;

	if (__atomic_sub_fetch(&type->nr_mounts, 1, __ATOMIC_ACQ_REL) != 0 || !type->drop)
		return;
	type->drop(type);
	user_ns_put(owner);
}

static void unhook_place_locked(struct mount *mt);

/* Mounts that have stayed in @mt when it was taken out, with the references that it has. */
static void take_children(struct mount *mt, struct list_head *to)
{
	spin_lock(&mount_table_lock);
	while (!list_empty(&mt->children)) {
		struct mount *child = list_first_entry(&mt->children, struct mount, beside);

		ASSERT(!child->ns);
		unhook_place_locked(child);
		child->parent = NULL;
		list_add_tail(&child->link, to);
	}
	spin_unlock(&mount_table_lock);
}

static void free_mount(struct mount *mt)
{
	struct fs_type *type = mt->type;

	ASSERT(!mt->ns && list_empty(&mt->children));
	inode_put(mt->root);
	inode_put(mt->dir);
	if (mt->shown)
		mount_put(mt->shown);
	mount_points_put(mt->points);
	kmem_free(mt->name);
	kmem_free(mt->at);
	kmem_free(mt->point);
	kmem_free(mt->source);
	kmem_free(mt->file_root);
	if (mt->count) {
		user_count_sub(mt->count, COUNT_MOUNTS);
		user_count_put(mt->count);
	}
	kmem_free(mt);
	release_type(type);
}

/* @mt is not used any more; nor, perhaps, are those in it. They may be nested deeply. */
static void free_tree(struct mount *mt)
{
	LIST_HEAD(left);

	take_children(mt, &left);
	free_mount(mt);
	while (!list_empty(&left)) {
		mt = list_first_entry(&left, struct mount, link);
		list_del(&mt->link);
		if (!refcount_dec_and_test(&mt->refs))
			continue;
		take_children(mt, &left);
		free_mount(mt);
	}
}

void mount_get(struct mount *mt)
{
	refcount_inc(&mt->refs);
}

void mount_put(struct mount *mt)
{
	if (!mt)
		return;
	if (unlikely(READ_ONCE(mt->expired)))
		WRITE_ONCE(mt->expired, false);
	if (refcount_dec_and_test(&mt->refs))
		free_tree(mt);
}

/* --- look-up ------------------------------------------------------------------------- */

static struct hlist_head *bucket(const struct inode *dir, const char *name, size_t len)
{
	return &table[hash_bytes(name, len, (uint64_t)(uintptr_t)dir) % BUCKETS];
}

static bool is_at(const struct mount *mt, const struct inode *dir, const char *name, size_t len)
{
	return mt->dir == dir && !strncmp(mt->name, name, len) && !mt->name[len];
}

static struct mount *find_locked(const struct mount *parent, const struct inode *dir,
				 const char *name, size_t len)
{
	struct mount *mt;

	assert_spin_held(&mount_table_lock);
	hlist_for_each_entry(mt, bucket(dir, name, len), hash) {
		if (mt->parent == parent && is_at(mt, dir, name, len))
			return mt;
	}
	return NULL;
}

/* A reference for the caller; NULL stays NULL. */
static struct mount *ref_locked(struct mount *mt)
{
	assert_spin_held(&mount_table_lock);
	if (mt)
		refcount_inc(&mt->refs);
	return mt;
}

struct mount *mount_in_dir(const struct mount *parent, const struct inode *dir, const char *name,
			   size_t len)
{
	struct mount *mt;

	if (!mount_has_points(dir))
		return NULL;
	spin_lock(&mount_table_lock);
	mt = ref_locked(find_locked(parent, dir, name, len));
	spin_unlock(&mount_table_lock);
	return mt;
}

/*
 * Does it keep its mount point from going? Those that users make for themselves do not keep others
 * from their own files.
 */
static bool keeps_point_locked(const struct mount *mt)
{
	const struct task *t = task_current();

	assert_spin_held(&mount_table_lock);
	if (!mt->ns)
		return false;
	return !mt->ns->ns.owner || (t && t->fs && t->fs->mounts == mt->ns);
}

bool mount_point_at(const struct inode *dir, const char *name, size_t len)
{
	struct mount *mt;
	bool found = false;

	if (!mount_has_points(dir))
		return false;
	spin_lock(&mount_table_lock);
	hlist_for_each_entry(mt, bucket(dir, name, len), hash)
		found = found || (is_at(mt, dir, name, len) && keeps_point_locked(mt));
	spin_unlock(&mount_table_lock);
	return found;
}

bool mount_point_below(const struct inode *dir, const char *text)
{
	const size_t len = strlen(text);
	struct mount *mt;
	bool found = false;

	spin_lock(&mount_table_lock);
	list_for_each_entry(mt, &all, all) {
		if (mt->dir && mt->dir->type == dir->type && mt->point &&
		    !strncmp(mt->point, text, len) && mt->point[len] == '/' &&
		    keeps_point_locked(mt)) {
			found = true;
			break;
		}
	}
	spin_unlock(&mount_table_lock);
	return found;
}

struct mount *mount_at_point(const struct mount *here, const char *point)
{
	struct mount *mt, *found = NULL;

	spin_lock(&mount_table_lock);
	list_for_each_entry(mt, &here->children, beside) {
		if (mt->point && !strcmp(mt->point, point))
			found = mt; /* the last one covers the others */
	}
	found = ref_locked(found);
	spin_unlock(&mount_table_lock);
	return found;
}

bool mount_up(struct mount *mt, const struct path *root, struct mount **parent, struct inode **dir)
{
	bool up;

	spin_lock(&mount_table_lock);
	up = mt->ns && mt->parent;
	while (up && !mt->name[0]) {
		mt = mt->parent;
		up = mt->parent && !(root && mt == root->mnt && mt->root == root->inode);
	}
	if (up) {
		*parent = ref_locked(mt->parent);
		*dir = mt->dir;
		inode_get(*dir);
	}
	spin_unlock(&mount_table_lock);
	return up;
}

struct mount *mount_over(const struct mount *mt)
{
	return unlikely(READ_ONCE(mt->nr_over)) ? mount_in_dir(mt, mt->root, "", 0) : NULL;
}

struct mount *mount_base(struct mount *mt)
{
	spin_lock(&mount_table_lock);
	while (mt->ns && mt->parent && mt->name[0])
		mt = mt->parent;
	(void)ref_locked(mt);
	spin_unlock(&mount_table_lock);
	return mt;
}

struct mount *mount_topmost(struct mount *mt)
{
	struct mount *over;

	while ((over = mount_over(mt))) {
		mount_put(mt);
		mt = over;
	}
	return mt;
}

struct mount *mounts_top(const struct mounts *ns)
{
	struct mount *mt = __atomic_load_n(&ns->root, __ATOMIC_ACQUIRE);

	/* Every walk begins here, so no CPU waits for another one: the first root stays. */
	if (likely(mt && mt == ns->first)) {
		mount_get(mt);
		return mt;
	}
	spin_lock(&mount_table_lock);
	mt = ref_locked(ns->root);
	spin_unlock(&mount_table_lock);
	return mt;
}

size_t mount_copy_at(const struct mount *mt, char *buf)
{
	spin_lock(&mount_table_lock);
	strlcpy(buf, mt->at && mt->at[1] ? mt->at : "", FS_PATH_MAX);
	spin_unlock(&mount_table_lock);
	return strlen(buf);
}

uint32_t mount_parent_id(const struct mount *mt)
{
	uint32_t id;

	spin_lock(&mount_table_lock);
	id = mt->ns && mt->parent ? mt->parent->id : 1;
	spin_unlock(&mount_table_lock);
	return id;
}

size_t mount_root_text(const struct mount *mt, char *buf)
{
	buf[0] = '\0';
	if (mt->file_root)
		strlcpy(buf, mt->file_root, FS_PATH_MAX);
	else if ((mt->flags & MOUNT_SUBTREE) && mt->root->ops->text)
		(void)!mt->root->ops->text(mt->root, buf, FS_PATH_MAX); /* removed: as the root */
	return strlen(buf);
}

bool mounts_changed(const struct mounts *m)
{
	return READ_ONCE(m->nr_added) || READ_ONCE(m->first_gone);
}

void mounts_root_path(const struct mounts *m, struct path *out)
{
	*out = (struct path){ .mnt = mounts_top(m), .attr = { .mode = S_IFDIR } };
	out->inode = out->mnt->root;
	inode_get(out->inode);
}

struct mount *mount_next_in(const struct mount *mt, const struct inode *dir, uint32_t id)
{
	struct mount *child, *found = NULL;

	spin_lock(&mount_table_lock);
	list_for_each_entry(child, &mt->children, beside) {
		if (child->id <= id || child->dir != dir || !child->name[0] ||
		    (found && found->id < child->id) ||
		    find_locked(mt, dir, child->name, strlen(child->name)) != child)
			continue;
		found = child;
	}
	found = ref_locked(found);
	spin_unlock(&mount_table_lock);
	return found;
}

struct mount *mounts_next(const struct mounts *ns, uint32_t id)
{
	struct mount *mt, *found = NULL;

	spin_lock(&mount_table_lock);
	list_for_each_entry(mt, &ns->list, link) {
		if (mt->id > id) {
			found = mt;
			break;
		}
	}
	found = ref_locked(found);
	spin_unlock(&mount_table_lock);
	return found;
}

struct mount *mounts_before(const struct mounts *ns, uint32_t id)
{
	struct mount *mt, *found = NULL;

	spin_lock(&mount_table_lock);
	list_for_each_entry_reverse(mt, &ns->list, link) {
		if (mt->id < id) {
			found = mt;
			break;
		}
	}
	found = ref_locked(found);
	spin_unlock(&mount_table_lock);
	return found;
}

bool mount_is_in(const struct mount *mt, const struct mount *top)
{
	bool in;

	spin_lock(&mount_table_lock);
	while (mt != top && mt->ns && mt->parent)
		mt = mt->parent;
	in = mt == top;
	spin_unlock(&mount_table_lock);
	return in;
}

struct mount *mounts_of_dev(const struct mounts *ns, uint32_t dev)
{
	struct mount *mt, *found = NULL;

	spin_lock(&mount_table_lock);
	list_for_each_entry(mt, &ns->list, link) {
		if (mt->type->dev == dev) {
			found = mt;
			break;
		}
	}
	found = ref_locked(found);
	spin_unlock(&mount_table_lock);
	return found;
}

/* --- paths at which look-ups end ------------------------------------------------------ */

struct mount_points *mount_points_get(const struct mount *mt)
{
	struct mount_points *points;

	spin_lock(&mount_table_lock);
	points = mt->ns || !list_empty(&mt->children) ? mt->points : NULL;
	if (points)
		refcount_inc(&points->refs);
	spin_unlock(&mount_table_lock);
	return points;
}

void mount_points_put(struct mount_points *points)
{
	if (points && refcount_dec_and_test(&points->refs))
		kfree(points);
}

int mount_points_alloc(size_t len, struct mount_points **out)
{
	*out = NULL;
	if (len > POINTS_MAX)
		return -ENOSPC;
	if (!len)
		return 0;
	*out = kmalloc(sizeof(**out) + len);
	if (!*out)
		return -ENOMEM;
	refcount_set(&(*out)->refs, 1);
	(*out)->len = len;
	return 0;
}

/* Those of @parent with @more, or without @less. */
static void points_fill(struct mount_points *points, const struct mount *parent,
			const struct mount *more, const struct mount *less)
{
	const struct mount *mt;
	size_t at = 0;

	list_for_each_entry(mt, &parent->children, beside) {
		if (mt == less || !mount_ends_lookups(mt))
			continue;
		memcpy(points->text + at, mt->point, strlen(mt->point) + 1);
		at += strlen(mt->point) + 1;
	}
	if (more)
		memcpy(points->text + at, more->point, strlen(more->point) + 1);
	ASSERT(at + (more ? strlen(more->point) + 1 : 0) == points->len);
}

/* The same, as a new list. *@out may be NULL: none. -ENOSPC, -ENOMEM. */
static int points_of(const struct mount *parent, const struct mount *more, const struct mount *less,
		     struct mount_points **out)
{
	const struct mount *mt;
	size_t len = more ? strlen(more->point) + 1 : 0;
	int err;

	assert_mutex_held(&mount_change);
	list_for_each_entry(mt, &parent->children, beside)
		len += mt != less && mount_ends_lookups(mt) ? strlen(mt->point) + 1 : 0;
	err = mount_points_alloc(len, out);
	if (!err && *out)
		points_fill(*out, parent, more, less);
	return err;
}

/* --- changes ------------------------------------------------------------------------- */

/* The last reference is gone. */
static void mounts_free(struct ns *head)
{
	struct mounts *ns = mounts_of_ns(head);
	LIST_HEAD(gone);

	mutex_lock(&mount_change);
	mounts_clear(ns, &gone);
	mutex_unlock(&mount_change);
	mounts_put_gone(&gone);
	mounts_drop(ns);
}

struct mounts *mounts_alloc(struct user_ns *owner)
{
	static const struct ns first = NS_FIRST_INIT(NS_MNT, 0xeffffff8u);
	struct mounts *ns = kmem_alloc(mount_payer(), sizeof(*ns));
	int err;

	if (!ns)
		return ERR_PTR(-ENOMEM);
	list_init(&ns->list);
	list_init(&ns->users);
	if (mount_charge_node) {
		ns->ns = first;
		return ns;
	}
	err = ns_init(&ns->ns, NS_MNT, owner, mounts_free);
	if (!err)
		return ns;
	kmem_free(ns);
	return ERR_PTR(err);
}

void mounts_drop(struct mounts *ns)
{
	ASSERT(!ns->root && list_empty(&ns->users));
	mount_put(ns->first);
	if (ns->ns.free)
		ns_exit(&ns->ns);
	kmem_free(ns);
}

struct ns *mounts_ns(struct mounts *m)
{
	return ns_get(&m->ns);
}

struct mounts *mounts_of_ns(struct ns *ns)
{
	ASSERT(ns->kind == NS_MNT);
	return container_of(ns, struct mounts, ns);
}

struct mount *mount_alloc(struct fs_type *type, struct inode *root, uint32_t flags)
{
	struct mount *mt = kmem_alloc(mount_payer(), sizeof(*mt));

	assert_mutex_held(&mount_change);
	if (!mt)
		return NULL;
	refcount_set(&mt->refs, 1);
	list_init(&mt->children);
	mt->type = type;
	mt->root = root;
	mt->flags = flags;
	mt->id = ++last_id;
	mt->first = mount_charge_node;
	__atomic_add_fetch(&type->nr_mounts, 1, __ATOMIC_RELAXED);
	return mt;
}

/* @mt has the place @spot, which gets the one it had. */
static void swap_spot(struct mount *mt, struct mount_spot *spot)
{
	const struct mount_spot old = { mt->parent, mt->dir, mt->name, mt->at, mt->point };

	mt->parent = spot->parent;
	mt->dir = spot->dir;
	mt->name = spot->name;
	mt->at = spot->at;
	mt->point = spot->point;
	*spot = old;
}

int mount_place(struct mount *mt, const struct path *dir, const char *name)
{
	struct mount_spot spot;
	const int err = mount_spot_make(&spot, dir, name);

	ASSERT(!mt->ns && !mt->dir);
	if (!err)
		swap_spot(mt, &spot);
	return err;
}

/* Lists go by number, which readers keep in mind. New ones are mostly the last. */
static void add_sorted_locked(struct mount *mt, struct mounts *ns)
{
	struct list_head *at = &ns->list;
	struct mount *other;

	assert_spin_held(&mount_table_lock);
	list_for_each_entry_reverse(other, &ns->list, link) {
		if (other->id < mt->id) {
			at = &other->link;
			break;
		}
	}
	list_add(&mt->link, at);
}

/* Into the mount that it is in, or out of it. */
static void hook_place_locked(struct mount *mt)
{
	assert_spin_held(&mount_table_lock);
	if (!mt->dir)
		return;
	hlist_add_head(&mt->hash, bucket(mt->dir, mt->name, strlen(mt->name)));
	list_add_tail(&mt->beside, &mt->parent->children);
	WRITE_ONCE(mt->dir->mount_points, mt->dir->mount_points + 1);
	if (!mt->name[0])
		WRITE_ONCE(mt->parent->nr_over, mt->parent->nr_over + 1);
}

static void unhook_place_locked(struct mount *mt)
{
	assert_spin_held(&mount_table_lock);
	if (!mt->dir)
		return;
	hlist_del(&mt->hash);
	list_del(&mt->beside);
	ASSERT(mt->dir->mount_points);
	WRITE_ONCE(mt->dir->mount_points, mt->dir->mount_points - 1);
	if (!mt->name[0])
		WRITE_ONCE(mt->parent->nr_over, mt->parent->nr_over - 1);
}

static void hook_locked(struct mounts *ns, struct mount *mt)
{
	assert_spin_held(&mount_table_lock);
	mt->ns = ns;
	WRITE_ONCE(ns->changes, ns->changes + 1);
	if (!mt->first)
		WRITE_ONCE(ns->nr_added, ns->nr_added + 1);
	hook_place_locked(mt);
	if (mt->shown)
		return;
	add_sorted_locked(mt, ns);
	list_add_tail(&mt->all, &all);
	ns->nr++;
}

/* Out of its namespace, but not of its place. */
static void leave_ns_locked(struct mount *mt)
{
	assert_spin_held(&mount_table_lock);
	WRITE_ONCE(mt->ns->changes, mt->ns->changes + 1);
	if (mt->first)
		WRITE_ONCE(mt->ns->first_gone, true);
	else
		WRITE_ONCE(mt->ns->nr_added, mt->ns->nr_added - 1);
	if (!mt->shown) {
		list_del(&mt->link);
		list_del(&mt->all);
		mt->ns->nr--;
	}
	mt->ns = NULL;
}

/* Its reference, as that of a namespace, goes to @gone. */
static void unhook_locked(struct mount *mt, struct list_head *gone)
{
	assert_spin_held(&mount_table_lock);
	leave_ns_locked(mt);
	unhook_place_locked(mt);
	list_add_tail(&mt->link, gone);
}

/* The first one in @mt, or in those in it, that has none in itself. */
static struct mount *first_leaf(struct mount *mt)
{
	while (!list_empty(&mt->children))
		mt = list_first_entry(&mt->children, struct mount, beside);
	return mt;
}

/*
 * @mt with all in it, which stays in it: so it is for namespaces of users, from which more
 * privileged ones have covered something. The reference of the namespace is the parent's then.
 */
static void unhook_whole_locked(struct mount *mt, struct list_head *gone)
{
	struct mount *m = first_leaf(mt), *next;

	assert_spin_held(&mount_table_lock);
	while (m != mt) {
		next = m->beside.next == &m->parent->children
			       ? m->parent
			       : first_leaf(container_of(m->beside.next, struct mount, beside));
		ASSERT(m->ns == mt->ns);
		/* One of the files of a covered directory hides nothing, and holds one above. */
		if (m->shown)
			unhook_locked(m, gone);
		else
			leave_ns_locked(m);
		m = next;
	}
	unhook_locked(mt, gone);
}

static void unhook_tree_locked(struct mount *mt, struct list_head *gone)
{
	struct mount *m;

	assert_spin_held(&mount_table_lock);
	if (mt->ns && mt->ns->ns.owner) {
		unhook_whole_locked(mt, gone);
		return;
	}
	unhook_locked(mt, gone);
	list_for_each_entry(m, gone, link) {
		while (!list_empty(&m->children))
			unhook_locked(list_first_entry(&m->children, struct mount, beside), gone);
	}
}

void mounts_put_gone(struct list_head *gone)
{
	while (!list_empty(gone)) {
		struct mount *mt = list_first_entry(gone, struct mount, link);

		list_del(&mt->link);
		inode_put(mt->dir); /* who still uses the mount does not look up from here */
		mt->dir = NULL;
		mount_put(mt);
	}
}

/* One more mount of the user that has made @ns. -ENOSPC */
static int count_mount(struct mounts *ns, struct mount *mt)
{
	int err;

	if (!ns->ns.owner || mt->count)
		return 0;
	err = user_count_add(ns->ns.count, COUNT_MOUNTS);
	if (!err)
		mt->count = user_count_hold(ns->ns.count);
	return err;
}

int mount_attach(struct mounts *ns, struct mount *mt)
{
	struct mount_points *points = NULL, *old = NULL;
	int err;

	assert_mutex_held(&mount_change);
	ASSERT(mt->dir && (mt->parent->ns == ns || !mt->parent->ns));
	if (!mt->shown && ns->nr >= MOUNT_MAX)
		return -ENOSPC;
	err = count_mount(ns, mt);
	if (!err && mount_ends_lookups(mt))
		err = points_of(mt->parent, mt, NULL, &points);
	if (err)
		return err;
	spin_lock(&mount_table_lock);
	if (points) {
		old = mt->parent->points;
		mt->parent->points = points;
	}
	hook_locked(ns, mt);
	spin_unlock(&mount_table_lock);
	mount_points_put(old);
	return 0;
}

int mount_attach_root(struct mounts *ns, struct mount *mt)
{
	const int err = count_mount(ns, mt);

	assert_mutex_held(&mount_change);
	ASSERT(!mt->dir && !ns->root);
	if (err)
		return err;
	mt->at = kmem_strdup(mount_payer(), "/");
	if (!mt->at)
		return -ENOMEM;
	mount_get(mt);
	ns->first = mt;
	spin_lock(&mount_table_lock);
	hook_locked(ns, mt);
	__atomic_store_n(&ns->root, mt, __ATOMIC_RELEASE);
	spin_unlock(&mount_table_lock);
	return 0;
}

void mounts_rehang(struct mounts *ns, struct mount_change *c)
{
	assert_mutex_held(&mount_change);
	spin_lock(&mount_table_lock);
	for (size_t i = 0; i < c->nr; i++)
		unhook_place_locked(c->hang[i].mt);
	for (size_t i = 0; i < c->nr; i++) {
		struct mount *mt = c->hang[i].mt;

		swap_spot(mt, &c->hang[i].to);
		if (!mt->dir)
			__atomic_store_n(&ns->root, mt, __ATOMIC_RELEASE);
		hook_place_locked(mt);
	}
	for (size_t i = 0; i < c->nr_texts; i++) {
		char *old = c->texts[i].mt->at;

		c->texts[i].mt->at = c->texts[i].at;
		c->texts[i].at = old;
	}
	for (size_t i = 0; i < c->nr_points; i++) {
		struct mount *mt = c->points[i].mt;
		struct mount_points *old = mt->points;

		if (c->points[i].points)
			points_fill(c->points[i].points, mt, NULL, NULL);
		mt->points = c->points[i].points;
		c->points[i].points = old;
	}
	WRITE_ONCE(ns->changes, ns->changes + 1);
	WRITE_ONCE(ns->first_gone, true);
	spin_unlock(&mount_table_lock);
}

/* Is it used by others, or does another mount lie in it? */
static bool is_busy_locked(const struct mount *mt, int mine)
{
	const struct mount *child;

	assert_spin_held(&mount_table_lock);
	list_for_each_entry(child, &mt->children, beside) {
		if (!child->shown)
			return true;
	}
	return refcount_read(&mt->refs) != 1 + mine + (mt->ns && mt == mt->ns->first ? 1 : 0);
}

bool mount_is_busy(const struct mount *mt, int mine)
{
	bool busy;

	spin_lock(&mount_table_lock);
	busy = is_busy_locked(mt, mine);
	spin_unlock(&mount_table_lock);
	return busy;
}

int mount_detach(struct mount *mt, bool lazy, int mine, struct list_head *gone)
{
	struct mount_points *points = NULL;
	const bool ends = mount_ends_lookups(mt);
	int err;

	assert_mutex_held(&mount_change);
	ASSERT(mt->ns && mt->parent);
	err = ends ? points_of(mt->parent, NULL, mt, &points) : 0;
	if (err)
		return err;
	spin_lock(&mount_table_lock);
	if (!lazy && is_busy_locked(mt, mine)) {
		err = -EBUSY;
	} else {
		struct mount *parent = mt->parent;

		if (ends) {
			struct mount_points *old = parent->points;

			parent->points = points;
			points = old;
		}
		unhook_tree_locked(mt, gone);
	}
	spin_unlock(&mount_table_lock);
	mount_points_put(points);
	return err;
}

void mount_detach_children(struct mount *mt, struct list_head *gone)
{
	assert_mutex_held(&mount_change);
	ASSERT(!mt->ns);
	spin_lock(&mount_table_lock);
	while (!list_empty(&mt->children))
		unhook_tree_locked(list_first_entry(&mt->children, struct mount, beside), gone);
	spin_unlock(&mount_table_lock);
}

void mounts_clear(struct mounts *ns, struct list_head *gone)
{
	assert_mutex_held(&mount_change);
	spin_lock(&mount_table_lock);
	if (ns->root)
		unhook_tree_locked(ns->root, gone);
	ns->root = NULL;
	ASSERT(list_empty(&ns->list) && !ns->nr);
	spin_unlock(&mount_table_lock);
}

void mounts_hold(struct mounts *ns)
{
	(void)ns_get(&ns->ns);
}

void mounts_put(struct mounts *ns)
{
	ns_put(&ns->ns);
	ns_wait_freed();
}
