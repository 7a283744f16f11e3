/* SPDX-License-Identifier: MIT */
/*
 * tmpfs: directories.
 *
 * Invariants:	an entry is in the hash table and in its directory's tree, or in neither; nlink of a
 *		directory is 2 and one for each directory in it, of another file its entries;
 *		dir->self->child == dir.  An entry has the same position as long as it is there, and
 *		positions are never used again, so a reader that goes on behind one misses and
 *		repeats nothing.
 * Failure:	memory is taken before anything changes.
 */
#include "tmpfs_private.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/process/process.h>

/* --- entries ------------------------------------------------------------------------- */

static size_t bucket_locked(const struct tmpfs *fs, const struct tmpfs_inode *dir, const char *name,
			    size_t len) __must_hold(&fs->lock)
{
	struct siphash_key key = fs->key;

	assert_mutex_held(&fs->lock);
	key.k0 ^= dir->ino;
	return (size_t)(siphash24(&key, name, len) & (fs->buckets - 1));
}

static struct tmpfs_entry *find_locked(const struct tmpfs *fs, const struct tmpfs_inode *dir,
				       const char *name, size_t len) __must_hold(&fs->lock)
{
	struct tmpfs_entry *e;

	assert_mutex_held(&fs->lock);
	hlist_for_each_entry(e, &fs->table[bucket_locked(fs, dir, name, len)], hash) {
		if (e->dir == dir && e->len == len && !memcmp(e->name, name, len))
			return e;
	}
	return NULL;
}

/* Twice the buckets when there are more entries than those; without memory the chains grow. */
static void grow_locked(struct tmpfs *fs) __must_hold(&fs->lock)
{
	const size_t old_buckets = fs->buckets;
	struct hlist_head *table, *old = fs->table;

	assert_mutex_held(&fs->lock);
	if (fs->entries < old_buckets)
		return;
	table = kcalloc(old_buckets * 2, sizeof(*table));
	if (!table)
		return;
	fs->table = table;
	fs->buckets = old_buckets * 2;
	for (size_t i = 0; i < old_buckets; i++) {
		struct tmpfs_entry *e;
		struct hlist_node *tmp;

		hlist_for_each_entry_safe(e, tmp, &old[i], hash) {
			hlist_del(&e->hash);
			hlist_add_head(&e->hash,
				       &table[bucket_locked(fs, e->dir, e->name, e->len)]);
		}
	}
	kfree(old);
}

static struct tmpfs_entry *entry_alloc(const char *name, size_t len)
{
	struct tmpfs_entry *e = kmem_alloc(kmem_current(), sizeof(*e) + len);

	if (!e)
		return NULL;
	e->len = len;
	memcpy(e->name, name, len);
	return e;
}

static int entry_cmp(const struct rb_node *a, const struct rb_node *b)
{
	const uint64_t pa = rb_entry(a, struct tmpfs_entry, order)->pos;
	const uint64_t pb = rb_entry(b, struct tmpfs_entry, order)->pos;

	return pa < pb ? -1 : pa > pb;
}

/* A directory is in @dir now, or not any more: its "..". */
static void count_subdir_locked(struct tmpfs_inode *dir, const struct tmpfs_inode *child, int by)
{
	assert_mutex_held(&dir->fs->lock);
	if (inode_is_dir(&child->inode))
		WRITE_ONCE(dir->nlink, dir->nlink + (uint32_t)by);
}

/* @e leads to @child from now on, whose link count the caller keeps. Takes a reference. */
static void entry_point_locked(struct tmpfs_entry *e, struct tmpfs_inode *child)
{
	struct tmpfs_inode *dir = e->dir, *old_parent;

	assert_mutex_held(&e->dir->fs->lock);
	inode_get(&child->inode);
	e->child = child;
	count_subdir_locked(dir, child, 1);
	if (!inode_is_dir(&child->inode))
		return;
	old_parent = child->parent;
	ASSERT(!child->self); /* a directory has one entry */
	child->self = e;
	inode_get(&dir->inode);
	child->parent = dir;
	/* Never the last one: the directory that it is moved from is held by the caller. */
	if (old_parent)
		inode_put(&old_parent->inode);
}

/* @e leads nowhere any more; its reference is the caller's. */
static struct tmpfs_inode *entry_unpoint_locked(struct tmpfs_entry *e)
{
	struct tmpfs_inode *child = e->child;

	assert_mutex_held(&e->dir->fs->lock);
	count_subdir_locked(e->dir, child, -1);
	if (child->self == e)
		child->self = NULL;
	e->child = NULL;
	return child;
}

static void entry_add_locked(struct tmpfs_inode *dir, struct tmpfs_entry *e,
			     struct tmpfs_inode *child)
{
	struct tmpfs *fs = dir->fs;

	assert_mutex_held(&fs->lock);
	ASSERT(dir->nlink && !e->child);
	e->dir = dir;
	e->pos = dir->next_pos++;
	grow_locked(fs);
	hlist_add_head(&e->hash, &fs->table[bucket_locked(fs, dir, e->name, e->len)]);
	(void)rb_insert(&e->order, &dir->entries, entry_cmp);
	fs->entries++;
	WRITE_ONCE(dir->nr_entries, dir->nr_entries + 1);
	entry_point_locked(e, child);
}

/* Out of everything; the entry is the caller's to free, the child's reference to put. */
static struct tmpfs_inode *entry_del_locked(struct tmpfs_entry *e)
{
	struct tmpfs_inode *dir = e->dir;
	struct tmpfs *fs = dir->fs;

	assert_mutex_held(&fs->lock);
	ASSERT(fs->entries && dir->nr_entries);
	hlist_del(&e->hash);
	rb_erase(&e->order, &dir->entries);
	fs->entries--;
	WRITE_ONCE(dir->nr_entries, dir->nr_entries - 1);
	return entry_unpoint_locked(e);
}

static void changed(struct tmpfs_inode *dir)
{
	tmpfs_touch(dir, TOUCH_MTIME | TOUCH_CTIME);
}

/* A directory that has been removed takes no more entries. */
static bool is_removed_locked(const struct tmpfs_inode *dir)
{
	assert_mutex_held(&dir->fs->lock);
	return dir->nlink == 0;
}

/* --- look-up ------------------------------------------------------------------------- */

static int dir_lookup(struct inode *inode, const char *name, size_t len, struct inode **out)
{
	struct tmpfs_inode *dir = tmpfs_inode(inode);
	struct tmpfs_entry *e;

	mutex_lock(&dir->fs->lock);
	e = find_locked(dir->fs, dir, name, len);
	if (e) {
		*out = &e->child->inode;
		inode_get(*out);
	}
	mutex_unlock(&dir->fs->lock);
	return e ? 0 : -ENOENT;
}

static int dir_parent(struct inode *inode, struct inode **out)
{
	struct tmpfs_inode *dir = tmpfs_inode(inode), *parent;

	mutex_lock(&dir->fs->lock);
	parent = dir->parent ? dir->parent : dir;
	inode_get(&parent->inode);
	mutex_unlock(&dir->fs->lock);
	*out = &parent->inode;
	return 0;
}

/* The path below the root, written from its end. */
static int dir_text(struct inode *inode, char *buf, size_t size)
{
	struct tmpfs_inode *dir = tmpfs_inode(inode), *root = dir;
	struct tmpfs *fs = dir->fs;
	size_t at = size;
	int err = 0;

	if (!size)
		return -EINVAL;
	buf[--at] = '\0';
	mutex_lock(&fs->lock);
	for (; root->self; root = root->parent) {
		const struct tmpfs_entry *e = root->self;

		if (e->len + 1 > at) {
			err = -ENAMETOOLONG;
			break;
		}
		at -= e->len;
		memcpy(buf + at, e->name, e->len);
		buf[--at] = '/';
	}
	if (!err && root->parent)
		err = -ENOENT; /* a removed one on the way, or the directory itself */
	mutex_unlock(&fs->lock);
	memmove(buf, buf + at, size - at);
	return err;
}

/* The first entry at or behind @pos. */
static struct tmpfs_entry *first_from_locked(const struct tmpfs_inode *dir, uint64_t pos)
{
	struct rb_node *n = dir->entries.node;
	struct tmpfs_entry *best = NULL;

	assert_mutex_held(&dir->fs->lock);
	while (n) {
		struct tmpfs_entry *e = rb_entry(n, struct tmpfs_entry, order);

		if (e->pos >= pos) {
			best = e;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

/* One at a time: what takes them copies to user memory, which may fault, so no lock may be held. */
static int dir_read(struct inode *inode, uint64_t *pos, struct dir_sink *sink)
{
	struct tmpfs_inode *dir = tmpfs_inode(inode);
	char name[FS_NAME_MAX];
	uint64_t at = *pos;
	bool more = true;

	while (more) {
		struct tmpfs_entry *e;
		size_t len = 0;
		uint64_t ino = 0;
		uint32_t mode = 0;

		mutex_lock(&dir->fs->lock);
		e = first_from_locked(dir, at);
		if (e) {
			len = e->len;
			memcpy(name, e->name, len);
			ino = e->child->ino;
			mode = e->child->inode.mode;
			at = e->pos + 1;
		}
		mutex_unlock(&dir->fs->lock);
		more = e && dir_emit(sink, name, len, ino, fs_dtype_of_mode(mode), at);
	}
	tmpfs_touch(dir, TOUCH_ATIME);
	return 0;
}

/* --- making -------------------------------------------------------------------------- */

/* Another name of a file: costs memory as an inode does, unless it is the first one. */
static int charge_link_locked(struct tmpfs_inode *ti)
{
	struct tmpfs *fs = ti->fs;

	assert_mutex_held(&fs->lock);
	if (!ti->nlink) {
		if (!ti->linkable)
			return -ENOENT; /* unlinked for good */
		ti->linkable = false;
		return 0;
	}
	if (fs->inodes >= fs->max_inodes)
		return -ENOSPC;
	fs->inodes++;
	return 0;
}

/* Enter @ti into @dir as @name; @nlink: of a new one, 0 for one that is there already. */
static int enter(struct tmpfs_inode *dir, const char *name, size_t len, struct tmpfs_inode *ti,
		 uint32_t nlink)
{
	struct tmpfs_entry *e = entry_alloc(name, len);
	int err = 0;

	if (!e)
		return -ENOMEM;
	mutex_lock(&dir->fs->lock);
	if (is_removed_locked(dir))
		err = -ENOENT;
	else if (find_locked(dir->fs, dir, name, len))
		err = -EEXIST;
	else if (!nlink)
		err = charge_link_locked(ti);
	if (!err) {
		nlink = nlink ? nlink : 1;
		WRITE_ONCE(ti->nlink, ti->nlink + nlink);
		entry_add_locked(dir, e, ti);
	}
	mutex_unlock(&dir->fs->lock);
	if (err) {
		kmem_free(e);
		return err;
	}
	changed(dir);
	return 0;
}

static int dir_create(struct inode *inode, const struct new_inode *how, struct inode **out)
{
	struct tmpfs_inode *dir = tmpfs_inode(inode), *ti;
	int err = tmpfs_new_in(dir, how, &ti);

	if (err)
		return err;
	err = enter(dir, how->name, how->len, ti, inode_is_dir(&ti->inode) ? 2 : 1);
	if (err || !out)
		inode_put(&ti->inode);
	else
		*out = &ti->inode;
	return err;
}

static int dir_tmpfile(struct inode *inode, const struct new_inode *how, struct inode **out)
{
	struct tmpfs_inode *ti;
	const int err = tmpfs_new_in(tmpfs_inode(inode), how, &ti);

	if (err)
		return err;
	ti->linkable = !how->nameless;
	*out = &ti->inode;
	return 0;
}

static int dir_link(struct inode *inode, const char *name, size_t len, struct inode *target)
{
	const int err = enter(tmpfs_inode(inode), name, len, tmpfs_inode(target), 0);

	if (!err)
		tmpfs_touch(tmpfs_inode(target), TOUCH_CTIME);
	return err;
}

/* --- removing ------------------------------------------------------------------------ */

/* One name less for a file; its last one is paid for by the inode itself. */
static void drop_link_locked(struct tmpfs_inode *ti)
{
	struct tmpfs *fs = ti->fs;

	assert_mutex_held(&fs->lock);
	ASSERT(ti->nlink);
	if (inode_is_dir(&ti->inode)) {
		ASSERT(ti->nlink == 2 && !ti->nr_entries); /* only an empty one is removed */
		WRITE_ONCE(ti->nlink, 0);
		return;
	}
	WRITE_ONCE(ti->nlink, ti->nlink - 1);
	if (ti->nlink)
		fs->inodes--;
}

static int check_victim_locked(const struct tmpfs_entry *e, const struct tmpfs_inode *victim)
{
	assert_mutex_held(&victim->fs->lock);
	if (!e || e->child != victim)
		return -EAGAIN;
	return inode_is_dir(&victim->inode) && victim->nr_entries ? -ENOTEMPTY : 0;
}

static int dir_remove(struct inode *inode, const char *name, size_t len, struct inode *victim)
{
	struct tmpfs_inode *dir = tmpfs_inode(inode), *ti = tmpfs_inode(victim);
	struct tmpfs *fs = dir->fs;
	struct tmpfs_entry *e;
	int err;

	mutex_lock(&fs->lock);
	e = find_locked(fs, dir, name, len);
	err = check_victim_locked(e, ti);
	if (!err) {
		(void)entry_del_locked(e);
		drop_link_locked(ti);
	}
	mutex_unlock(&fs->lock);
	if (err)
		return err;
	kmem_free(e);
	changed(dir);
	tmpfs_touch(ti, TOUCH_CTIME);
	inode_put(&ti->inode); /* the entry's */
	return 0;
}

/*
 * Depth first, without a stack: a directory knows its parent. Between two entries the lock is free,
 * for what an inode gives back may take long.
 */
void tmpfs_empty(struct tmpfs_inode *root)
{
	struct tmpfs *fs = root->fs;
	struct tmpfs_inode *dir = root, *child;
	struct tmpfs_entry *e;

	mutex_lock(&fs->lock);
	for (;;) {
		e = first_from_locked(dir, 0);
		if (!e) {
			if (dir == root)
				break;
			dir = dir->parent;
			continue;
		}
		if (inode_is_dir(&e->child->inode) && e->child->nr_entries) {
			dir = e->child;
			continue;
		}
		child = entry_del_locked(e);
		drop_link_locked(child);
		mutex_unlock(&fs->lock);
		kmem_free(e);
		inode_put(&child->inode);
		mutex_lock(&fs->lock);
	}
	mutex_unlock(&fs->lock);
}

/* --- renaming ------------------------------------------------------------------------ */

/* Is @dir @ancestor, or below it? */
static bool is_below_locked(const struct tmpfs_inode *dir, const struct tmpfs_inode *ancestor)
{
	assert_mutex_held(&ancestor->fs->lock);
	for (; dir; dir = dir->parent) {
		if (dir == ancestor)
			return true;
	}
	return false;
}

static int check_rename_locked(const struct rename_args *a, const struct tmpfs_entry *from,
			       const struct tmpfs_entry *to)
{
	const struct tmpfs_inode *source = tmpfs_inode(a->source);
	const struct tmpfs_inode *target = a->target ? tmpfs_inode(a->target) : NULL;
	const struct tmpfs_inode *from_dir = tmpfs_inode(a->from_dir);
	const struct tmpfs_inode *to_dir = tmpfs_inode(a->to_dir);

	assert_mutex_held(&to_dir->fs->lock);
	if (is_removed_locked(to_dir))
		return -ENOENT;
	if (!from || from->child != source || (to ? to->child : NULL) != target)
		return -EAGAIN;
	if (is_below_locked(to_dir, source))
		return -EINVAL;
	if (target && is_below_locked(from_dir, target))
		return a->exchange ? -EINVAL : -ENOTEMPTY;
	if (target && !a->exchange && inode_is_dir(a->target) && target->nr_entries)
		return -ENOTEMPTY;
	return 0;
}

/* Both entries stay where they are and lead to each other's file. */
static void exchange_locked(struct tmpfs_entry *from, struct tmpfs_entry *to)
{
	struct tmpfs_inode *a, *b;

	assert_mutex_held(&from->dir->fs->lock);
	a = entry_unpoint_locked(from);
	b = entry_unpoint_locked(to);
	entry_point_locked(from, b);
	entry_point_locked(to, a);
	inode_put(&a->inode); /* what the entries held before */
	inode_put(&b->inode);
}

/*
 * @fresh, if there is no entry at the destination, becomes one. @victim: what the name led to
 * before.
 */
static void replace_locked(const struct rename_args *a, struct tmpfs_entry *from,
			   struct tmpfs_entry *to, struct tmpfs_entry **fresh,
			   struct tmpfs_inode **victim)
{
	struct tmpfs_inode *source;

	assert_mutex_held(&from->dir->fs->lock);
	source = entry_del_locked(from);
	if (to) {
		*victim = entry_unpoint_locked(to);
		drop_link_locked(*victim);
		entry_point_locked(to, source);
	} else {
		entry_add_locked(tmpfs_inode(a->to_dir), *fresh, source);
		*fresh = NULL;
	}
	inode_put(&source->inode); /* the old entry's; the caller and the new entry hold it too */
}

static int dir_rename(const struct rename_args *a)
{
	struct tmpfs_inode *from_dir = tmpfs_inode(a->from_dir), *to_dir = tmpfs_inode(a->to_dir);
	struct tmpfs_entry *fresh = a->target ? NULL : entry_alloc(a->to, a->to_len);
	struct tmpfs_entry *from, *to, *old = NULL;
	struct tmpfs_inode *victim = NULL;
	struct tmpfs *fs = from_dir->fs;
	int err;

	if (!a->target && !fresh)
		return -ENOMEM;
	mutex_lock(&fs->lock);
	from = find_locked(fs, from_dir, a->from, a->from_len);
	to = find_locked(fs, to_dir, a->to, a->to_len);
	err = check_rename_locked(a, from, to);
	if (!err && a->exchange) {
		exchange_locked(from, to);
	} else if (!err) {
		old = from;
		replace_locked(a, from, to, &fresh, &victim);
	}
	mutex_unlock(&fs->lock);
	kmem_free(fresh);
	if (err)
		return err;
	kmem_free(old);
	changed(from_dir);
	changed(to_dir);
	tmpfs_touch(tmpfs_inode(a->source), TOUCH_CTIME);
	if (a->target)
		tmpfs_touch(tmpfs_inode(a->target), TOUCH_CTIME);
	if (victim)
		inode_put(&victim->inode);
	return 0;
}

const struct inode_ops tmpfs_dir_ops = {
	.name = "tmpfs-dir",
	.getattr = tmpfs_getattr,
	.setattr = tmpfs_setattr,
	.release = tmpfs_release,
	TMPFS_XATTR_OPS,
	.lookup = dir_lookup,
	.parent = dir_parent,
	.readdir = dir_read,
	.create = dir_create,
	.tmpfile = dir_tmpfile,
	.link = dir_link,
	.remove = dir_remove,
	.rename = dir_rename,
	.text = dir_text,
};
