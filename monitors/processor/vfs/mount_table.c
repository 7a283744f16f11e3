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

/* The account for new things: the first mounts belong to nobody. */
static struct kmem_account *payer(void)
{
	return mount_charge_node ? NULL : kmem_current();
}

/* --- references ---------------------------------------------------------------------- */

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
	kmem_free(mt);
	if (__atomic_sub_fetch(&type->nr_mounts, 1, __ATOMIC_ACQ_REL) == 0 && type->drop)
		type->drop(type);
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
		free_mount(mt);
}

/* --- rights -------------------------------------------------------------------------- */

int mount_writable(const struct mount *mt, const struct inode *inode)
{
	if (inode->type->read_only || READ_ONCE(inode->type->ro_now))
		return -EROFS;
	return mt && (READ_ONCE(mt->flags) & MOUNT_RDONLY) ? -EROFS : 0;
}

int mount_write_begin(struct mount *mt)
{
	/* A remount sets its flag first and looks for writers then. */
	__atomic_add_fetch(&mt->writers, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&mt->type->nr_writers, 1, __ATOMIC_SEQ_CST);
	if (!mount_writable(mt, mt->root))
		return 0;
	mount_write_end(mt);
	return -EROFS;
}

void mount_write_end(struct mount *mt)
{
	__atomic_sub_fetch(&mt->type->nr_writers, 1, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&mt->writers, 1, __ATOMIC_SEQ_CST);
}

bool mount_noexec(const struct mount *mt, const struct inode *inode)
{
	return inode->type->noexec || (mt && (READ_ONCE(mt->flags) & MOUNT_NOEXEC));
}

bool mount_nodev(const struct mount *mt)
{
	return mt && (READ_ONCE(mt->flags) & MOUNT_NODEV);
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

bool mount_point_at(const struct inode *dir, const char *name, size_t len)
{
	struct mount *mt;
	bool found = false;

	if (!mount_has_points(dir))
		return false;
	spin_lock(&mount_table_lock);
	hlist_for_each_entry(mt, bucket(dir, name, len), hash)
		found = found || is_at(mt, dir, name, len);
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
		    !strncmp(mt->point, text, len) && mt->point[len] == '/') {
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

bool mount_up(struct mount *mt, struct mount **parent, struct inode **dir)
{
	bool up;

	spin_lock(&mount_table_lock);
	up = mt->ns && mt->parent;
	if (up) {
		*parent = ref_locked(mt->parent);
		*dir = mt->dir;
		inode_get(*dir);
	}
	spin_unlock(&mount_table_lock);
	return up;
}

struct mount *mounts_top(const struct mounts *ns)
{
	struct mount *mt = __atomic_load_n(&ns->root, __ATOMIC_ACQUIRE);

	/* Every walk begins here, so no CPU waits for another one: it stays as long as @ns does. */
	if (mt)
		mount_get(mt);
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
		if (child->id <= id || child->dir != dir ||
		    find_locked(mt, dir, child->name, strlen(child->name)) != child)
			continue;
		found = child;
		break;
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

uint64_t mount_st_flags(const struct mount *mt)
{
	const uint32_t flags = READ_ONCE(mt->flags);

	return (flags & MOUNT_NOSUID ? ST_NOSUID : 0) | (flags & MOUNT_NODEV ? ST_NODEV : 0) |
	       (flags & MOUNT_NOEXEC ? ST_NOEXEC : 0) | (flags & MOUNT_NOATIME ? ST_NOATIME : 0) |
	       (flags & MOUNT_NODIRATIME ? ST_NODIRATIME : 0) |
	       (flags & MOUNT_RELATIME ? ST_RELATIME : 0);
}

/* --- paths at which look-ups end ------------------------------------------------------ */

struct mount_points *mount_points_get(const struct mount *mt)
{
	struct mount_points *points;

	spin_lock(&mount_table_lock);
	points = mt->points;
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

/* Does a file system in which it is have to be told of it? */
static bool ends_lookups(const struct mount *mt)
{
	return mt->dir && mt->dir->ops->lookup_path && mt->point && !mt->shown;
}

/* Those of @parent with @more, or without @less. *@out may be NULL: none. -ENOSPC, -ENOMEM. */
static int points_of(const struct mount *parent, const struct mount *more, const struct mount *less,
		     struct mount_points **out)
{
	const struct mount *mt;
	size_t len = more ? strlen(more->point) + 1 : 0, at = 0;

	assert_mutex_held(&mount_change);
	list_for_each_entry(mt, &parent->children, beside)
		len += mt != less && ends_lookups(mt) ? strlen(mt->point) + 1 : 0;
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
	list_for_each_entry(mt, &parent->children, beside) {
		if (mt == less || !ends_lookups(mt))
			continue;
		memcpy((*out)->text + at, mt->point, strlen(mt->point) + 1);
		at += strlen(mt->point) + 1;
	}
	if (more)
		memcpy((*out)->text + at, more->point, strlen(more->point) + 1);
	return 0;
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

struct mounts *mounts_alloc(void)
{
	static const struct ns first = NS_FIRST_INIT(NS_MNT, 0xeffffff8u);
	struct mounts *ns = kmem_alloc(payer(), sizeof(*ns));

	if (!ns)
		return NULL;
	list_init(&ns->list);
	if (mount_charge_node) {
		ns->ns = first;
		return ns;
	}
	if (!ns_init(&ns->ns, NS_MNT, mounts_free))
		return ns;
	kmem_free(ns);
	return NULL;
}

void mounts_drop(struct mounts *ns)
{
	ASSERT(!ns->root);
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
	struct mount *mt = kmem_alloc(payer(), sizeof(*mt));

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

/* @head, a slash and @name. */
static char *join(const char *head, const char *name)
{
	const size_t head_len = strlen(head), len = strlen(name);
	char *text = kmem_alloc(payer(), head_len + 1 + len + 1);

	if (text) {
		memcpy(text, head, head_len);
		text[head_len] = '/';
		memcpy(text + head_len + 1, name, len + 1);
	}
	return text;
}

int mount_place(struct mount *mt, const struct path *dir, const char *name)
{
	char *buf = kmalloc(FS_PATH_MAX);
	int err = buf ? path_text(dir, buf) : -ENOMEM;

	ASSERT(!mt->ns && !mt->dir && dir->mnt);
	if (!err && strlen(buf) + 1 + strlen(name) >= FS_PATH_MAX)
		err = -ENAMETOOLONG;
	if (!err) {
		mt->at = join(buf[1] ? buf : "", name);
		mt->name = kmem_strdup(payer(), name);
		if (!mt->at || !mt->name)
			err = -ENOMEM;
	}
	if (!err && dir->inode->ops->text) {
		err = dir->inode->ops->text(dir->inode, buf, FS_PATH_MAX);
		if (!err)
			mt->point = join(buf, name);
		if (!err && !mt->point)
			err = -ENOMEM;
	}
	kfree(buf);
	if (err)
		return err;
	mt->parent = dir->mnt;
	mt->dir = dir->inode;
	inode_get(mt->dir);
	return 0;
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

static void hook_locked(struct mounts *ns, struct mount *mt)
{
	assert_spin_held(&mount_table_lock);
	mt->ns = ns;
	WRITE_ONCE(ns->changes, ns->changes + 1);
	if (!mt->first)
		WRITE_ONCE(ns->nr_added, ns->nr_added + 1);
	if (mt->dir) {
		hlist_add_head(&mt->hash, bucket(mt->dir, mt->name, strlen(mt->name)));
		list_add_tail(&mt->beside, &mt->parent->children);
		WRITE_ONCE(mt->dir->mount_points, mt->dir->mount_points + 1);
	}
	if (mt->shown)
		return;
	add_sorted_locked(mt, ns);
	list_add_tail(&mt->all, &all);
	ns->nr++;
}

/* Its reference, as that of a namespace, goes to @gone. */
static void unhook_locked(struct mount *mt, struct list_head *gone)
{
	assert_spin_held(&mount_table_lock);
	WRITE_ONCE(mt->ns->changes, mt->ns->changes + 1);
	if (mt->first)
		WRITE_ONCE(mt->ns->first_gone, true);
	else
		WRITE_ONCE(mt->ns->nr_added, mt->ns->nr_added - 1);
	if (mt->dir) {
		hlist_del(&mt->hash);
		list_del(&mt->beside);
		ASSERT(mt->dir->mount_points);
		WRITE_ONCE(mt->dir->mount_points, mt->dir->mount_points - 1);
	}
	if (!mt->shown) {
		list_del(&mt->link);
		list_del(&mt->all);
		mt->ns->nr--;
	}
	mt->ns = NULL;
	list_add_tail(&mt->link, gone);
}

static void unhook_tree_locked(struct mount *mt, struct list_head *gone)
{
	struct mount *m;

	assert_spin_held(&mount_table_lock);
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

int mount_attach(struct mounts *ns, struct mount *mt)
{
	struct mount_points *points = NULL, *old = NULL;
	int err;

	assert_mutex_held(&mount_change);
	ASSERT(mt->dir && (mt->parent->ns == ns || !mt->parent->ns));
	if (!mt->shown && ns->nr >= MOUNT_MAX)
		return -ENOSPC;
	err = ends_lookups(mt) ? points_of(mt->parent, mt, NULL, &points) : 0;
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
	assert_mutex_held(&mount_change);
	ASSERT(!mt->dir && !ns->root);
	mt->at = kmem_strdup(payer(), "/");
	if (!mt->at)
		return -ENOMEM;
	spin_lock(&mount_table_lock);
	hook_locked(ns, mt);
	__atomic_store_n(&ns->root, mt, __ATOMIC_RELEASE);
	spin_unlock(&mount_table_lock);
	return 0;
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
	return refcount_read(&mt->refs) != 1 + mine;
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
	const bool ends = ends_lookups(mt);
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
