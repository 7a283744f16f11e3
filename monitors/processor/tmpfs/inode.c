/* SPDX-License-Identifier: MIT */
/*
 * tmpfs: inodes and attributes.
 */
#include <abi/fcntl.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/excache/object.h>
#include <processor/ipc/pipe.h>
#include <processor/process/process.h>
#include <processor/vfs/inode.h>

#include "tmpfs_private.h"

#define ENTRY_SIZE    20  /* what st_size of a directory grows by, as Linux's tmpfs */
#define INLINE_LINK   128 /* targets below this cost no page of the size limit */
#define DAY_S         86400
#define FIRST_BUCKETS 64

static uint64_t nr_inodes; /* atomic */

static uint64_t tmpfs_inode_count(void)
{
	return __atomic_load_n(&nr_inodes, __ATOMIC_RELAXED);
}
GAUGE(tmpfs_inodes, "tmpfs.inodes", "inodes of all tmpfs, the roots included", tmpfs_inode_count);

/* --- limits -------------------------------------------------------------------------- */

int tmpfs_charge(struct tmpfs *fs, uint64_t n)
{
	if (__atomic_add_fetch(&fs->pages, n, __ATOMIC_RELAXED) <= fs->max_pages)
		return 0;
	tmpfs_uncharge(fs, n);
	return -ENOSPC;
}

void tmpfs_uncharge(struct tmpfs *fs, uint64_t n)
{
	ASSERT(__atomic_load_n(&fs->pages, __ATOMIC_RELAXED) >= n);
	__atomic_sub_fetch(&fs->pages, n, __ATOMIC_RELAXED);
}

static uint64_t link_pages(size_t len)
{
	return len >= INLINE_LINK ? 1 : 0;
}

/* --- life ---------------------------------------------------------------------------- */

static struct fs_time now(void)
{
	const uint64_t ns = time_real_ns();

	return (struct fs_time){ .sec = (int64_t)(ns / 1000000000u),
				 .nsec = (uint32_t)(ns % 1000000000u) };
}

static const struct inode_ops *ops_of(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return &tmpfs_dir_ops;
	case S_IFREG:
		return &tmpfs_file_ops;
	case S_IFLNK:
		return &tmpfs_link_ops;
	default:
		return &tmpfs_special_ops;
	}
}

/* The parts that only one kind of file has. */
static int init_kind(struct tmpfs_inode *ti, const struct new_inode *how)
{
	int err;

	if (ti->inode.mode == S_IFIFO) {
		ti->pipe = pipe_create();
		if (IS_ERR(ti->pipe)) {
			err = PTR_ERR(ti->pipe);
			ti->pipe = NULL;
			return err;
		}
	}
	if (ti->inode.mode != S_IFLNK)
		return 0;
	err = tmpfs_charge(ti->fs, link_pages(how->target_len));
	if (err)
		return err;
	ti->target_len = how->target_len;
	ti->target = kmem_alloc(kmem_current(), how->target_len + 1);
	if (!ti->target)
		return -ENOMEM;
	memcpy(ti->target, how->target, how->target_len);
	ti->target[how->target_len] = '\0';
	return 0;
}

/* @ti, which has a reference, can be found by its number from here on. */
static int take_number(struct tmpfs *fs, struct tmpfs_inode *ti)
{
	int err = 0;

	mutex_lock(&fs->lock);
	if (fs->inodes >= fs->max_inodes) {
		err = -ENOSPC;
	} else {
		fs->inodes++;
		ti->ino = fs->next_ino++;
		tmpfs_number_locked(ti);
	}
	mutex_unlock(&fs->lock);
	return err;
}

static void give_number(struct tmpfs *fs, struct tmpfs_inode *ti)
{
	bool last;

	mutex_lock(&fs->lock);
	ASSERT(fs->inodes);
	fs->inodes--;
	tmpfs_unnumber_locked(ti);
	last = fs->dropped && !fs->inodes;
	mutex_unlock(&fs->lock);
	if (last)
		tmpfs_free(fs);
}

/* Everything but the parent's reference. */
static void free_inode(struct tmpfs_inode *ti)
{
	ASSERT(!ti->self && !ti->nr_entries); /* an entry would hold a reference */
	tmpfs_release_data(ti);
	if (ti->pipe)
		pipe_put(ti->pipe);
	if (ti->inode.mode == S_IFLNK)
		tmpfs_uncharge(ti->fs, link_pages(ti->target_len));
	tmpfs_free_xattrs(ti);
	kmem_free(ti->target);
	give_number(ti->fs, ti);
	__atomic_sub_fetch(&nr_inodes, 1, __ATOMIC_RELAXED);
	kmem_free(ti);
}

int tmpfs_new_inode(struct tmpfs *fs, const struct new_inode *how, struct tmpfs_inode **out)
{
	struct tmpfs_inode *ti = kmem_alloc(kmem_current(), sizeof(*ti));
	int err;

	if (!ti)
		return -ENOSPC; /* as Linux */
	inode_init(&ti->inode, &fs->type, ops_of(how->mode), how->mode);
	ti->fs = fs;
	spin_lock_init(&ti->attr_lock, "tmpfs.attr", RANK_SPIN_FS);
	mutex_init(&ti->data_lock, "tmpfs.data", RANK_FILE_DATA);
	ti->mode = how->mode;
	ti->rdev = how->rdev;
	ti->uid = how->uid;
	ti->gid = how->gid;
	ti->atime = ti->mtime = ti->ctime = ti->btime = now();
	ti->entries = RB_ROOT;
	list_init(&ti->xattrs);
	ti->next_pos = 2; /* behind "." and ".." */
	ti->seals = F_SEAL_SEAL;
	err = take_number(fs, ti);
	if (err) {
		kmem_free(ti);
		return err;
	}
	__atomic_add_fetch(&nr_inodes, 1, __ATOMIC_RELAXED);
	err = init_kind(ti, how);
	if (err) {
		free_inode(ti);
		return err;
	}
	*out = ti;
	return 0;
}

/* A chain of removed directories may be as long as a program likes, so this is a loop. */
void tmpfs_release(struct inode *inode)
{
	struct tmpfs_inode *ti = tmpfs_inode(inode);

	while (ti) {
		struct tmpfs_inode *parent = ti->parent;

		free_inode(ti);
		ti = parent && refcount_dec_and_test(&parent->inode.refs) ? parent : NULL;
	}
}

int tmpfs_setup(struct tmpfs *fs)
{
	mutex_init(&fs->lock, "tmpfs", RANK_FS);
	fs->table = kcalloc(FIRST_BUCKETS, sizeof(*fs->table));
	if (!fs->table)
		return -ENOMEM;
	fs->buckets = FIRST_BUCKETS;
	fs->entries = 0;
	fs->inodes = 0;
	fs->pages = 0;
	fs->next_ino = 1;
	fs->by_ino = RB_ROOT;
	random_bytes(&fs->key, sizeof(fs->key));
	fs->type.root = tmpfs_root;
	return 0;
}

void tmpfs_destroy(struct tmpfs *fs)
{
	lock_not_needed(&fs->lock, "nothing of it is in use any more");
	kfree(fs->table);
	fs->table = NULL;
}

void tmpfs_free(struct tmpfs *fs)
{
	tmpfs_destroy(fs);
	kmem_free(fs);
}

int tmpfs_root(const struct fs_type *type, struct inode **out)
{
	const struct new_inode how = { .mode = S_IFDIR | 01777 };
	struct tmpfs_inode *ti;
	const int err = tmpfs_new_inode(tmpfs_of(type), &how, &ti);

	if (err)
		return err;
	ti->nlink = 2;
	*out = &ti->inode;
	return 0;
}

/* --- attributes ---------------------------------------------------------------------- */

static bool before(struct fs_time a, struct fs_time b)
{
	return a.sec < b.sec || (a.sec == b.sec && a.nsec <= b.nsec);
}

/* atime as with relatime: when the file has changed since it was read, and once a day. */
static bool atime_is_due(const struct tmpfs_inode *ti, struct fs_time t)
{
	assert_spin_held(&ti->attr_lock);
	return before(ti->atime, ti->mtime) || before(ti->atime, ti->ctime) ||
	       t.sec - ti->atime.sec >= DAY_S;
}

void tmpfs_touch(struct tmpfs_inode *ti, uint32_t what)
{
	const struct fs_time t = now();

	spin_lock(&ti->attr_lock);
	if ((what & TOUCH_ATIME) && atime_is_due(ti, t))
		ti->atime = t;
	if (what & TOUCH_MTIME)
		ti->mtime = t;
	if (what & TOUCH_CTIME)
		ti->ctime = t;
	spin_unlock(&ti->attr_lock);
}

int tmpfs_getattr(struct inode *inode, struct file_attr *attr)
{
	struct tmpfs_inode *ti = tmpfs_inode(inode);

	attr->file.ino = ti->ino;
	attr->nlink = READ_ONCE(ti->nlink);
	attr->rdev = ti->rdev;
	spin_lock(&ti->attr_lock);
	attr->acl = ti->acl;
	attr->mode = ti->mode;
	attr->uid = ti->uid;
	attr->gid = ti->gid;
	attr->attrs = ti->attrs;
	attr->atime = ti->atime;
	attr->mtime = ti->mtime;
	attr->ctime = ti->ctime;
	attr->btime = ti->btime;
	spin_unlock(&ti->attr_lock);
	switch (inode->mode) {
	case S_IFREG:
		attr->size = READ_ONCE(ti->size);
		attr->blocks = tmpfs_data_pages(ti) * (PAGE_SIZE / 512);
		break;
	case S_IFDIR:
		attr->size = (2 + READ_ONCE(ti->nr_entries)) * ENTRY_SIZE;
		break;
	case S_IFLNK:
		attr->size = ti->target_len;
		attr->blocks = link_pages(ti->target_len) * (PAGE_SIZE / 512);
		break;
	default:
		break;
	}
	return 0;
}

static int change_size(struct tmpfs_inode *ti, uint64_t size)
{
	struct object *obj = __atomic_load_n(&ti->object, __ATOMIC_ACQUIRE);
	int err = obj ? object_write_begin(obj) : 0;

	if (err)
		return err;
	err = tmpfs_resize(ti, size);
	if (obj)
		object_write_end(obj);
	return err;
}

/* The change that another made since the caller looked is not undone without the capability. */
static int set_flags(struct tmpfs_inode *ti, const struct attr_change *ch)
{
	int err = 0;

	spin_lock(&ti->attr_lock);
	if (!(ch->valid & ATTR_GUARDED) && ((ch->flags ^ ti->attrs) & FLAGS_GUARDED)) {
		err = -EPERM;
	} else {
		ti->attrs = ch->flags;
		ti->ctime = now();
	}
	spin_unlock(&ti->attr_lock);
	return err;
}

int tmpfs_setattr(struct inode *inode, const struct attr_change *ch)
{
	struct tmpfs_inode *ti = tmpfs_inode(inode);
	const struct fs_time t = now();
	int err;

	if (ch->valid & ATTR_FLAGS)
		return set_flags(ti, ch);
	if (ch->valid & ATTR_SIZE) {
		if (inode->mode != S_IFREG)
			return -EINVAL;
		err = change_size(ti, ch->size);
		if (err)
			return err;
	}
	mutex_lock(&ti->fs->lock);
	if ((ch->valid & ATTR_MODE) && (ti->seals & F_SEAL_EXEC) &&
	    ((READ_ONCE(ti->mode) ^ ch->mode) & 0111)) {
		mutex_unlock(&ti->fs->lock);
		return -EPERM;
	}
	if (ch->valid & ATTR_MODE)
		tmpfs_acl_chmod_locked(ti, ch->mode);
	spin_lock(&ti->attr_lock);
	if (ch->valid & ATTR_MODE)
		ti->mode = inode->mode | (ch->mode & 07777);
	if (ch->valid & ATTR_UID)
		ti->uid = ch->uid;
	if (ch->valid & ATTR_GID)
		ti->gid = ch->gid;
	if (ch->valid & ATTR_ATIME)
		ti->atime = ch->atime;
	if (ch->valid & ATTR_MTIME)
		ti->mtime = ch->mtime;
	else if (ch->valid & ATTR_SIZE)
		ti->mtime = t;
	ti->ctime = t;
	spin_unlock(&ti->attr_lock);
	mutex_unlock(&ti->fs->lock);
	return 0;
}

/* --- links, FIFOs, sockets ----------------------------------------------------------- */

static ssize_t link_read(struct inode *inode, char *buf, size_t size)
{
	struct tmpfs_inode *ti = tmpfs_inode(inode);
	const size_t len = MIN(ti->target_len, size);

	memcpy(buf, ti->target, len);
	tmpfs_touch(ti, TOUCH_ATIME);
	return (ssize_t)len;
}

const struct inode_ops tmpfs_link_ops = {
	.name = "tmpfs-link",
	.getattr = tmpfs_getattr,
	.setattr = tmpfs_setattr,
	.release = tmpfs_release,
	TMPFS_XATTR_OPS,
	.readlink = link_read,
};

const struct inode_ops tmpfs_special_ops = {
	.name = "tmpfs-special",
	.getattr = tmpfs_getattr,
	.setattr = tmpfs_setattr,
	.release = tmpfs_release,
	TMPFS_XATTR_OPS,
	.open = tmpfs_open,
};
