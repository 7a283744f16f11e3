/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: an instance, and what handles and attributes mean.
 *
 * Context:	threads; all may sleep for the disk.
 */
#include "storage.h"

#include <fs/ext4.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

int storage_init(struct storage *st, uint32_t node, struct blkdev *bd,
		 const struct storage_options *opt)
{
	char owner[32];
	const struct fs_mount_options fs_opt = {
		.owner = owner,
		.cache_bytes = opt->cache_bytes,
		.writable = opt->write,
		.repeats = opt->again,
		.why = opt->why,
		.why_size = opt->why_size,
	};
	struct fs_statfs fs_stat;
	int err;

	scnprintf(owner, sizeof(owner), "tessera-node-%u", node);
	memset(st, 0, sizeof(*st));
	st->node = node;
	st->vnode_check = opt->vnode_check;
	if (opt->file_key)
		st->file_key = *opt->file_key;
	for (size_t i = 0; i < STORAGE_LOCKS; i++)
		mutex_init(&st->locks[i], "storage.names", RANK_MONITOR);
	record_table_init(&st->records, opt->has_left);
	held_table_init(&st->held, opt->has_left);
	claims_init(&st->claims, opt->incarn, opt->has_left);
	grace_init(&st->grace, opt->again);
	keep_init(&st->keep, opt->keep, opt->again);
	st->keep.freed = storage_rooms_freed;
	mutex_init(&st->rooms, "storage.rooms", RANK_MONITOR);
	lock_table_init(&st->lock_table, opt->incarn, opt->again, opt->has_left);
	st->incarn = opt->incarn;
	st->stable = opt->stable;
	st->committed = opt->committed;
	st->index = pathindex_create(opt->index_bytes);
	if (IS_ERR(st->index))
		return (int)PTR_ERR(st->index);
	if (!bd)
		return 0;
	err = ext4_mount(bd, &fs_opt, &st->fs);
	if (err) {
		pathindex_destroy(st->index);
		return err;
	}
	fs_statfs(st->fs, &fs_stat);
	st->fsid = fs_stat.fsid;
	/* The earlier life may have told a processor so, until that has been told otherwise. */
	if (opt->keep && opt->again)
		(void)fs_rooms(st->fs, PS_ROOMS_MAX);
	/* No program of this cluster has had them open. */
	if (!opt->again)
		fs_orphans_release(st->fs);
	return 0;
}

void storage_destroy(struct storage *st)
{
	claims_destroy(&st->claims);
	grace_destroy(&st->grace);
	lock_table_destroy(&st->lock_table);
	held_table_destroy(&st->held);
	/* No program is left that had them open before this mount. */
	if (st->fs)
		fs_orphans_release(st->fs);
	record_table_destroy(&st->records);
	pathindex_destroy(st->index);
	if (st->fs)
		fs_unmount(st->fs);
}

void storage_grace_end(struct storage *st)
{
	if (!grace_end(&st->grace))
		return;
	lock_table_grace_end(&st->lock_table);
	if (st->fs)
		fs_orphans_release(st->fs);
}

void storage_members(struct storage *st,
		     bool (*is_member)(const void *arg, const struct storage_peer *peer),
		     const void *arg)
{
	record_members(&st->records, is_member, arg);
	held_members(&st->held, is_member, arg);
	lock_table_members(&st->lock_table, is_member, arg);
	/* With the lock: one that becomes the keeper meanwhile asks for its room afterwards. */
	mutex_lock(&st->rooms);
	if (keep_has_left(&st->keep, is_member, arg) && st->fs)
		(void)fs_rooms(st->fs, 0);
	mutex_unlock(&st->rooms);
}

/*
 * Every vNode sees the whole disk: mount points of their own come with the vNodes themselves.
 * pathindex_resolve() lets no path out of the directory that this answers.
 */
uint64_t storage_vnode_root(const struct storage *st, uint32_t vnode)
{
	(void)vnode;
	return st->fs->root_ino;
}

struct fs_inode *storage_file_get(struct storage *st, const struct proto_file *file)
{
	if (!st->fs)
		return ERR_PTR(-ENODEV);
	if (file->node != st->node)
		return ERR_PTR(-ESTALE);
	return fs_inode_get(st->fs, file->ino, file->gen);
}

/* Linux's new_encode_dev(). */
static uint32_t encode_dev(uint32_t major, uint32_t minor)
{
	return (minor & 0xff) | major << 8 | (minor & ~0xffu) << 12;
}

/* Not 0. Of a disk that others may have changed before we mounted it, the change time. */
static uint64_t version_of(const struct storage *st, const struct fs_stat *s)
{
	if (st->fs->changes)
		return s->version + 1;
	return (uint64_t)s->ctime.sec << 30 | s->ctime.nsec;
}

struct proto_file storage_handle(const struct storage *st, const struct fs_stat *s, uint32_t vnode)
{
	struct proto_file file = { .ino = s->ino, .gen = s->gen, .node = st->node, .vnode = vnode };

	file.seal = proto_file_seal(&st->file_key, &file);
	return file;
}

void storage_attr(const struct storage *st, const struct fs_inode *in, uint32_t vnode,
		  struct proto_attr *out)
{
	struct fs_stat s;

	fs_inode_stat(in, &s);
	*out = (struct proto_attr){
		.file = storage_handle(st, &s, vnode),
		.size = s.size,
		.blocks = s.blocks,
		.atime_s = s.atime.sec,
		.mtime_s = s.mtime.sec,
		.ctime_s = s.ctime.sec,
		.btime_s = s.crtime.sec,
		.atime_ns = s.atime.nsec,
		.mtime_ns = s.mtime.nsec,
		.ctime_ns = s.ctime.nsec,
		.btime_ns = s.crtime.nsec,
		.mode = s.mode | (s.acl ? PROTO_MODE_ACL : 0),
		.nlink = s.nlink,
		.uid = s.uid,
		.gid = s.gid,
		.rdev = encode_dev(s.rdev_major, s.rdev_minor),
		.blksize = s.blksize,
		.version = version_of(st, &s),
		.fsid = st->fsid,
		.attrs = s.attrs & PROTO_ATTRS,
	};
}
