/* SPDX-License-Identifier: MIT */
/*
 * The file system of the storage nodes, which is the root of every vNode.
 *
 * Flow:	lookup_path() sends all that is left of a path in one message and makes an inode of
 *		the answer; the other operations ask by the file's handle (inode, generation,
 *		node).
 * Invariants:	a table leads from a handle to the inode that is in use, so a file has one inode
 *		here, so mount points and locks are found by the inode's address.
 * Locking:	table.lock (RANK_SPIN_FS) guards the buckets; never held across a message.
 * Failure:	attributes of another type than the inode has are -ESTALE, whichever message brings
 *		them.
 * Limits:	read-only, which the generic code enforces. A file of several names has the path by
 *		which it was found first; only directories and links, whose path stays good, are
 *		looked up by it.
 */
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/client/storage.h>
#include <processor/excache/object.h>

#include "dirent_private.h"
#include "file.h"

#define BUCKETS   256u
#define DIR_CHUNK 4096u /* bytes of entries that one message brings */

struct storage_inode {
	struct inode inode;
	struct hlist_node link; /* table.lock */
	struct file_id file;    /* const */
	char path[];            /* const: canonical, in this file system */
};

static struct {
	struct spinlock lock;
	struct hlist_head buckets[BUCKETS] __guarded_by(&lock);
} table = { .lock = SPINLOCK_INIT("storage.inodes", RANK_SPIN_FS) };

static struct fs_type storagefs;
static const struct inode_ops storagefs_ops;
static const struct fs_cred kernel_cred; /* user 0: the walk has checked permissions */

static struct storage_inode *si_of(const struct inode *inode)
{
	ASSERT(inode->ops == &storagefs_ops);
	return container_of(inode, struct storage_inode, inode);
}

/* --- inodes -------------------------------------------------------------------------- */

static struct hlist_head *bucket_of(const struct file_id *file)
{
	return &table.buckets[hash64_pair(file->ino, (uint64_t)file->gen << 32 | file->node) %
			      BUCKETS];
}

/* The inode of @file with a reference; one whose last reference has gone does not count. */
static struct storage_inode *find_locked(const struct file_id *file) __must_hold(&table.lock)
{
	struct storage_inode *si;

	assert_spin_held(&table.lock);
	hlist_for_each_entry(si, bucket_of(file), link) {
		if (file_id_equal(&si->file, file) && refcount_inc_not_zero(&si->inode.refs))
			return si;
	}
	return NULL;
}

/*
 * A file keeps its type, on which the callers rely: they check the inode's and use attributes, or
 * the other way round. So attributes of another type are not handed out.
 */
static bool same_type(const struct storage_inode *si, const struct file_attr *attr)
{
	return si->inode.mode == (attr->mode & S_IFMT);
}

/*
 * The inode of the file that @attr is of, referenced. @len bytes of @path are its canonical path.
 * -ENOMEM; -ESTALE: the inode in use is of another type.
 */
static int get_inode(const struct file_attr *attr, const char *path, size_t len, struct inode **out)
{
	struct storage_inode *si, *fresh = kzalloc(sizeof(*fresh) + len + 1);

	ASSERT(len && path[0] == '/');
	if (!fresh)
		return -ENOMEM;
	inode_init(&fresh->inode, &storagefs, &storagefs_ops, attr->mode);
	fresh->file = attr->file;
	memcpy(fresh->path, path, len);
	spin_lock(&table.lock);
	si = find_locked(&attr->file);
	if (!si)
		hlist_add_head(&fresh->link, bucket_of(&attr->file));
	spin_unlock(&table.lock);
	if (si)
		kfree(fresh);
	if (si && !same_type(si, attr)) {
		inode_put(&si->inode);
		return -ESTALE;
	}
	*out = si ? &si->inode : &fresh->inode;
	return 0;
}

static void storagefs_release(struct inode *inode)
{
	struct storage_inode *si = si_of(inode);

	spin_lock(&table.lock);
	hlist_del(&si->link);
	spin_unlock(&table.lock);
	kfree(si);
}

static int storagefs_getattr(struct inode *inode, struct file_attr *attr)
{
	const struct storage_inode *si = si_of(inode);
	const int err = storage_getattr(&si->file, attr);

	return err ? err : same_type(si, attr) ? 0 : -ESTALE;
}

/* --- paths --------------------------------------------------------------------------- */

/* @dir, a slash, and @len bytes of @rest; without the slash if nothing follows. */
static char *join(const char *dir, const char *rest, size_t len)
{
	const size_t dir_len = strlen(dir);
	char *text = kmalloc(dir_len + 1 + len + 1);

	if (!text)
		return NULL;
	memcpy(text, dir, dir_len);
	text[dir_len] = len ? '/' : '\0';
	memcpy(text + dir_len + 1, rest, len);
	text[dir_len + 1 + len] = '\0';
	return text;
}

static char *copy(const char *s, size_t len)
{
	char *text = kmalloc(len + 1);

	if (!text)
		return NULL;
	memcpy(text, s, len);
	text[len] = '\0';
	return text;
}

static int storagefs_lookup_path(struct inode *dir, const struct path_lookup *how,
				 struct path_found *found)
{
	const char *base = si_of(dir)->path;
	const size_t base_len = strlen(base), rest_len = strlen(how->rest);
	struct storage_walk walk = {
		.canon_len = base_len,
		.mount_points = how->mount_points,
		.mount_points_len = how->mount_points_len,
		.flags = STORAGE_REALPATH,
	};
	struct storage_found rep;
	void *buf = NULL;
	char *text;
	int err;

	if (base_len + 1 + rest_len >= FS_PATH_MAX)
		return -ENAMETOOLONG;
	text = join(base, how->rest, rest_len);
	if (!text)
		return -ENOMEM;
	walk.path = text;
	if (how->nofollow)
		walk.flags |= STORAGE_NOFOLLOW;
	if (how->must_be_dir)
		walk.flags |= STORAGE_DIRECTORY;
	err = storage_walk(how->cred, &walk, &rep, &buf);
	kfree(text);
	if (err)
		goto out;
	found->text = copy(rep.path, rep.path_len);
	if (!found->text) {
		err = -ENOMEM;
	} else if (rep.at_mount_point) {
		found->nr_links = rep.nr_links;
		found->rest = copy(rep.rest, rep.rest_len);
		err = found->rest ? 0 : -ENOMEM;
	} else {
		found->attr = rep.attr;
		err = get_inode(&rep.attr, rep.path, rep.path_len, &found->inode);
	}
out:
	kfree(buf);
	return err;
}

static int storagefs_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	const char *base = si_of(dir)->path;
	char *text = join(strcmp(base, "/") ? base : "", name, len);
	struct file_attr attr;
	int err = -ENOMEM;

	if (text)
		err = storage_lookup(&kernel_cred, text, STORAGE_NOFOLLOW, 0, &attr, NULL);
	if (!err)
		err = get_inode(&attr, text, strlen(text), out);
	kfree(text);
	return err;
}

static ssize_t storagefs_readlink(struct inode *link, char *buf, size_t size)
{
	return storage_readlink(&kernel_cred, si_of(link)->path, buf, size);
}

/* The path of the walk is as good as any: nothing is renamed or removed. */
static int storagefs_text(struct inode *inode, char *buf, size_t size)
{
	return -EINVAL;
}

/* --- contents ------------------------------------------------------------------------ */

static int storagefs_open(struct inode *inode, struct file *f)
{
	struct object *object;

	if (inode->mode != S_IFREG)
		return -ENXIO; /* a device or pipe that nothing serves */
	ASSERT(f->inode == inode && !f->object);
	object = object_file_get(&f->attr);
	if (IS_ERR(object))
		return PTR_ERR(object);
	f->object = object;
	f->ops = &regular_ops;
	return 0;
}

/* One message's worth of entries from *@pos on.  0: the end; 1: there may be more. */
static int emit_chunk(const struct file_id *dir, uint64_t *pos, struct dir_sink *sink,
		      uint8_t *chunk)
{
	const ssize_t len = storage_getdents(dir, *pos, chunk, DIR_CHUNK);
	struct storage_dirent e;
	size_t off = 0;
	int err;

	if (len <= 0)
		return (int)len;
	while ((err = storage_dirent_next(chunk, (size_t)len, &off, &e)) == 0) {
		if (!dir_emit(sink, e.name, e.name_len, e.ino, e.type, e.cookie))
			return 1;
		*pos = e.cookie;
	}
	return err == -ENOENT ? 1 : err; /* -ENOENT: the end of this chunk */
}

static int storagefs_readdir(struct inode *dir, uint64_t *pos, struct dir_sink *sink)
{
	const uint64_t first = *pos;
	uint8_t *chunk = kmalloc(DIR_CHUNK);
	int ret;

	if (!chunk)
		return -ENOMEM;
	do
		ret = emit_chunk(&si_of(dir)->file, pos, sink, chunk);
	while (ret > 0 && !sink->full);
	kfree(chunk);
	if (ret < 0 && *pos != first) {
		sink->full = true; /* what was emitted is worth having; the next call fails */
		ret = 0;
	}
	return MIN(ret, 0);
}

static int storagefs_statfs(struct inode *inode, struct fs_info *st)
{
	return storage_statfs(&si_of(inode)->file, st);
}

static const struct inode_ops storagefs_ops = {
	.name = "storage",
	.getattr = storagefs_getattr,
	.release = storagefs_release,
	.open = storagefs_open,
	.readlink = storagefs_readlink,
	.lookup = storagefs_lookup,
	.lookup_path = storagefs_lookup_path,
	.readdir = storagefs_readdir,
	.lists_dots = true,
	.text = storagefs_text,
};

/* --- the file system ----------------------------------------------------------------- */

static int storagefs_root(const struct fs_type *type, struct inode **out)
{
	struct file_attr attr;
	int err = storage_lookup(&kernel_cred, "/", 0, 0, &attr, NULL);

	if (err)
		return err;
	if ((attr.mode & S_IFMT) != S_IFDIR)
		return -ENOTDIR;
	storagefs.dev = attr.fsid & 0xffff;
	return get_inode(&attr, "/", 1, out);
}

static struct fs_type storagefs = {
	.name = "ext4",
	.source = "/dev/root",
	.at = "/",
	.options = "relatime",
	.read_only = true,
	.root = storagefs_root,
	.statfs = storagefs_statfs,
};

static int storagefs_init(void)
{
	return fs_register(&storagefs);
}
INITCALL(fs, storagefs_init);
