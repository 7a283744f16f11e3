/* SPDX-License-Identifier: MIT */
/*
 * File systems on a disk: one table of operations for the server of their files, and one of those
 * that change it.
 *
 * A file system fills in struct fs_ops, embeds struct fs and struct fs_inode in its own
 * structures, and has a mount function that returns a struct fs.  Callers use the functions
 * below and never see the file system's own types.
 *
 * Flow:	mount -> fs_inode_get(number, generation) -> fs_lookup(), fs_readdir(),
 *		fs_readlink(), fs_read_pages() -> fs_inode_put() -> fs_unmount().
 *		A change: fs_create() and the like, each of them one transaction with the record
 *		of its id; fs_fsync() or fs_sync() makes it last.
 * Context:	threads, any number; every operation may sleep for the disk.
 * Locking:	none that callers see.  Permissions are the caller's business.
 * Failure:	-EUCLEAN: the disk's contents are wrong; -EIO: the device failed; -ESTALE: the
 *		inode is free, or another file's by now; -ENOMEM.  Changes also: -EROFS: the
 *		mount is read-only, or became so after an error; -ENOSPC: no block or inode is
 *		left for this user.  A change that fails leaves nothing behind, but
 *		fs_write_pages(), fs_fallocate() and fs_setattr() of a size may have done a part.
 * See:		docs/design/storage.md
 */
#pragma once

#include <fs/stat.h>
#include <lib/compiler.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/types.h>

struct blkdev;
struct fs_ops;
struct fs_write_ops;

struct fs {                                 /* one mounted file system */
	const struct fs_ops *ops;           /* const */
	const struct fs_write_ops *changes; /* const; NULL: mounted for reading only */
	uint64_t root_ino;                  /* const: its root directory */
	bool read_only;                     /* atomic: no change is possible (any more) */
};

struct fs_inode {                 /* one file that a caller holds */
	const struct fs_ops *ops; /* const */
	struct fs *fs;            /* const */
};

struct fs_mount_options {
	uint64_t cache_bytes; /* blocks of metadata; 0: the file system's default */
	bool writable;        /* changes are allowed, if the device and the disk allow them */
	bool manual_commit;   /* for tests: transactions are not committed by age */
	bool repeats;         /* changes that an earlier mount did may be asked for again */
	uint32_t max_inodes;  /* unused inodes kept; 0: the file system's default */
	const char *owner;    /* the node's name in marks of use on the disk; NULL: ours */
	/* For tests and tools: how long a second of multi-mount protection takes; 0: a second. */
	uint64_t mmp_second_ns;
	char *why; /* where to put the reason when mounting fails, or NULL */
	size_t why_size;
};

struct fs_counts {
	uint64_t cache_hits; /* blocks of metadata */
	uint64_t cache_misses;
	uint64_t inode_hits;
	uint64_t inode_misses;
	uint64_t data_reads; /* requests to the device for contents of files */
	uint64_t data_bytes;
	uint64_t corruptions; /* times that -EUCLEAN was reported */
};

struct fs_dirent {
	uint64_t next_cookie; /* where to go on after this one: what getdents calls d_off */
	const char *name;     /* not terminated; valid during the call only */
	uint32_t ino;
	uint8_t name_len;
	uint8_t dtype; /* DT_* */
	bool more;     /* names behind this one have the same cookie: fs_readdir_behind() */
};

/*
 * Where a directory has a name, or has room for it: fs_lookup_place() tells, and a change of that
 * name that gets it (struct fs_change) need not search again.  Only the file system looks inside;
 * zeroed, it tells nothing.  One that is out of date does no harm, as long as its directory is
 * held.
 */
struct fs_place {
	const void *dir; /* whose it is; NULL: nothing is told */
	uint64_t added;  /* of the directory: see ext4_inode.names_added */
	uint64_t moved;
	uint64_t block; /* of the disk */
	uint32_t lblk;
	uint32_t len;
	uint32_t at;
	uint32_t prev;
	uint32_t room;
};

/* Takes one entry; a non-zero answer ends the listing, and that entry is not consumed. */
typedef int (*fs_fill_fn)(void *arg, const struct fs_dirent *de);

/* Any generation: only for numbers that were just read from the disk. */
#define FS_ANY_GEN UINT64_MAX

/* Every operation is required.  The functions below say what each one does. */
struct fs_ops {
	const char *name;
	void (*unmount)(struct fs *fs);
	void (*statfs)(struct fs *fs, struct fs_statfs *out);
	void (*counts)(struct fs *fs, struct fs_counts *out);

	struct fs_inode *(*inode_get)(struct fs *fs, uint64_t ino, uint64_t gen);
	void (*inode_put)(struct fs_inode *in);
	void (*stat)(const struct fs_inode *in, struct fs_stat *out);
	struct fs_inode *(*lookup)(struct fs_inode *dir, const char *name, size_t len,
				   struct fs_place *place);
	int (*readdir)(struct fs_inode *dir, uint64_t *cookie, uint64_t behind, fs_fill_fn fill,
		       void *arg);
	int (*readlink)(struct fs_inode *in, char *buf, size_t *len);
	int (*read_pages)(struct fs_inode *in, uint64_t index, void *const *pages, unsigned int nr);
	int64_t (*xattr_get)(struct fs_inode *in, const char *name, size_t len, void *buf,
			     size_t size);
	int64_t (*xattr_list)(struct fs_inode *in, char *buf, size_t size);
	int64_t (*seek)(struct fs_inode *in, uint64_t off, int whence);
};

/* The caller has put all inodes. */
static inline void fs_unmount(struct fs *fs)
{
	fs->ops->unmount(fs);
}

static inline void fs_statfs(struct fs *fs, struct fs_statfs *out)
{
	fs->ops->statfs(fs, out);
}

static inline void fs_counts(struct fs *fs, struct fs_counts *out)
{
	fs->ops->counts(fs, out);
}

/*
 * Hold inode @ino whose generation is @gen (or FS_ANY_GEN).  ERR_PTR(-ESTALE) when that inode is
 * free or another file's by now, -EUCLEAN, -EIO, -ENOMEM.
 */
static inline struct fs_inode *fs_inode_get(struct fs *fs, uint64_t ino, uint64_t gen)
{
	return fs->ops->inode_get(fs, ino, gen);
}

static inline void fs_inode_put(struct fs_inode *in)
{
	in->ops->inode_put(in);
}

static inline void fs_inode_stat(const struct fs_inode *in, struct fs_stat *out)
{
	in->ops->stat(in, out);
}

/*
 * Hold the inode behind @name (@len bytes, not terminated) in @dir; "." and ".." included.
 * ERR_PTR: -ENOENT, -ENOTDIR, -ENAMETOOLONG; -EUCLEAN when the entry names no inode in use.
 */
static inline struct fs_inode *fs_lookup(struct fs_inode *dir, const char *name, size_t len)
{
	return dir->ops->lookup(dir, name, len, NULL);
}

/* The same for a change that is to follow: also tells the place, with -ENOENT that for the name. */
static inline struct fs_inode *fs_lookup_place(struct fs_inode *dir, const char *name, size_t len,
					       struct fs_place *place)
{
	return dir->ops->lookup(dir, name, len, place);
}

/*
 * Call @fill for the entries of @dir from *@cookie on (0: the first) and leave in *@cookie where
 * to go on.  Returns 0, also at the end, or -errno.  The directory is locked meanwhile: @fill calls
 * no function of this file system.
 */
static inline int __must_check fs_readdir(struct fs_inode *dir, uint64_t *cookie, fs_fill_fn fill,
					  void *arg)
{
	return dir->ops->readdir(dir, cookie, 0, fill, arg);
}

/*
 * The same for a caller that has stopped among names of one cookie, at an entry with @more: those
 * of *@cookie are left out whose name_tie() is at most @behind, that of this entry.
 */
static inline int __must_check fs_readdir_behind(struct fs_inode *dir, uint64_t *cookie,
						 uint64_t behind, fs_fill_fn fill, void *arg)
{
	return dir->ops->readdir(dir, cookie, behind, fill, arg);
}

/* The target of a symbolic link, terminated, into @buf of FS_PATH_MAX bytes.  -EINVAL: no link. */
static inline int __must_check fs_readlink(struct fs_inode *in, char *buf, size_t *len)
{
	return in->ops->readlink(in, buf, len);
}

/*
 * Read @nr pages of 4096 bytes from page @index on into @pages, each DMA-able.  Holes and what
 * lies past the end read as zeros.  -EISDIR, -EINVAL (neither file nor link).
 */
static inline int __must_check fs_read_pages(struct fs_inode *in, uint64_t index,
					     void *const *pages, unsigned int nr)
{
	return in->ops->read_pages(in, index, pages, nr);
}

/* --- changes */

/* The caller of a change, its time and its request's id. */
struct fs_change {
	uint64_t client; /* with @seq the request's id; 0: it has none and leaves no record */
	uint64_t seq;
	uint32_t uid; /* owner of what is created */
	uint32_t gid;
	bool privileged; /* may use the blocks that are reserved for root */
	uint64_t kept;   /* pages of the file whose promise it takes nothing of */
	struct fs_time now;
	/* Places that fs_lookup_place() told of the name, and of a rename's new one; or NULL. */
	const struct fs_place *place;
	const struct fs_place *to_place;
	bool room; /* it brings one of the names for which fs_rooms() keeps room */
};

/* The record that a change leaves under its id. */
struct fs_done {
	uint64_t ino; /* what was created, linked, or changed */
	uint32_t gen;
	uint32_t reserved; /* 0 */
	uint64_t version;
};

#define FS_PROMISE_MAX 256u

struct fs_promise {
	uint64_t others; /* pages that have no block and are to be written, but for the range's */
	uint64_t index;  /* the range: page of 4096 bytes */
	uint32_t nr;     /* to FS_PROMISE_MAX */
	uint32_t need;   /* the first of them, which have to fit */
	/* The answer. */
	uint32_t covered; /* the first pages of the range that have blocks, or a promise */
	uint64_t mapped;  /* pages from the begin on, also behind the range, that have blocks */
	uint64_t holes[FS_PROMISE_MAX / 64]; /* a bit for each page that is promised */
};

/* One extended attribute: @name with its prefix ("user.x"), not terminated. */
struct fs_xattr {
	const char *name;
	size_t name_len;
	const void *value;
	size_t value_len;
	bool drops_setgid; /* an access list: the mode loses set-group-id with it */
};

/* A file that is to be created. */
struct fs_new {
	uint32_t mode; /* type and permissions, the umask applied */
	uint32_t rdev_major;
	uint32_t rdev_minor;
	const char *target; /* of a link, not terminated */
	size_t target_len;
	const struct fs_xattr *xattrs; /* set in the same transaction: inherited ACLs */
	unsigned int nr_xattrs;
	uint64_t ino; /* 0: any inode; otherwise this one, such as fs_lend() has given */
	uint32_t gen; /* of that; 0: any */
};

/* A free inode that no file gets but the one that asks for it. */
struct fs_lent {
	uint64_t ino;
	uint32_t gen;
};

enum fs_setattr_mask {
	FS_SET_MODE = 1u << 0, /* permission bits only */
	FS_SET_UID = 1u << 1,
	FS_SET_GID = 1u << 2,
	FS_SET_SIZE = 1u << 3, /* regular files */
	FS_SET_ATIME = 1u << 4,
	FS_SET_MTIME = 1u << 5,
	FS_SET_FLAGS = 1u << 6,   /* STATX_ATTR_IMMUTABLE, _APPEND and _NODUMP */
	FS_SET_WRITTEN = 1u << 7, /* the times as fs_write_pages() sets them */
};

/*
 * fs_setattr() sets ctime to the change's time; with a size also mtime, unless it is given.
 * fs_write_pages() brings bytes that were written at the change's time, which may be long ago, or
 * the mtime that a program has set since: then ctime is that of the setting, and stays.
 */
struct fs_attr {
	uint32_t mask; /* enum fs_setattr_mask */
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	uint32_t flags;
	uint64_t size;
	struct fs_time atime;
	struct fs_time mtime;
};

/* Every operation is required.  The functions below say what each one does. */
struct fs_write_ops {
	struct fs_inode *(*create)(struct fs_inode *dir, const char *name, size_t len,
				   const struct fs_new *what, const struct fs_change *ch);
	struct fs_inode *(*tmpfile)(struct fs_inode *dir, const struct fs_new *what,
				    const struct fs_change *ch);
	int (*link)(struct fs_inode *in, struct fs_inode *dir, const char *name, size_t len,
		    const struct fs_change *ch);
	int (*unlink)(struct fs_inode *dir, const char *name, size_t len,
		      const struct fs_change *ch);
	int (*rmdir)(struct fs_inode *dir, const char *name, size_t len,
		     const struct fs_change *ch);
	int (*rename)(struct fs_inode *from, const char *name, size_t len, struct fs_inode *to,
		      const char *to_name, size_t to_len, uint32_t flags,
		      const struct fs_change *ch);
	int (*setattr)(struct fs_inode *in, const struct fs_attr *attr, const struct fs_change *ch);
	int (*xattr_set)(struct fs_inode *in, const struct fs_xattr *x, uint32_t flags,
			 const struct fs_change *ch);
	int (*write_pages)(struct fs_inode *in, uint64_t off, uint64_t len, void *const *pages,
			   uint64_t new_size, const struct fs_change *ch);
	int (*promise)(struct fs_inode *in, struct fs_promise *p, const struct fs_change *ch);
	uint32_t (*rooms)(struct fs *fs, uint32_t nr);
	int (*lend)(struct fs_inode *dir, uint32_t nr, struct fs_lent *out);
	void (*unlend_all)(struct fs *fs);
	int (*fallocate)(struct fs_inode *in, uint32_t mode, uint64_t off, uint64_t len,
			 const struct fs_change *ch);
	int (*fsync)(struct fs_inode *in, bool datasync);
	int (*sync)(struct fs *fs);
	int (*change_find)(struct fs *fs, uint64_t client, uint64_t seq, struct fs_done *done);
	void (*open_ref)(struct fs_inode *in);
	void (*close_ref)(struct fs_inode *in);
	void (*orphans_release)(struct fs *fs);
};

static inline bool fs_is_read_only(const struct fs *fs)
{
	return !fs->changes || READ_ONCE(fs->read_only);
}

/*
 * Create @name in @dir as @what says and hold it.  ERR_PTR: -EEXIST (also: the inode that is asked
 * for is in use), -ENOENT (@dir was removed), -ENOTDIR, -ENAMETOOLONG, -EMLINK (subdirectories),
 * -EINVAL (type, empty target, no such inode).
 */
static inline struct fs_inode *fs_create(struct fs_inode *dir, const char *name, size_t len,
					 const struct fs_new *what, const struct fs_change *ch)
{
	if (fs_is_read_only(dir->fs))
		return ERR_PTR(-EROFS);
	return dir->fs->changes->create(dir, name, len, what, ch);
}

/*
 * A regular file without a name, near @dir.  It goes when the caller has put it and closed its
 * fs_open_ref(), unless fs_link() gave it a name.
 */
static inline struct fs_inode *fs_tmpfile(struct fs_inode *dir, const struct fs_new *what,
					  const struct fs_change *ch)
{
	if (fs_is_read_only(dir->fs))
		return ERR_PTR(-EROFS);
	return dir->fs->changes->tmpfile(dir, what, ch);
}

/*
 * Give @in the name @name in @dir.  -EEXIST, -EPERM (a directory), -EMLINK, -EXDEV (another file
 * system), -ENOENT (@in was unlinked and is no fs_tmpfile(), or @dir was removed).
 */
static inline int __must_check fs_link(struct fs_inode *in, struct fs_inode *dir, const char *name,
				       size_t len, const struct fs_change *ch)
{
	if (in->fs != dir->fs)
		return -EXDEV;
	if (fs_is_read_only(dir->fs))
		return -EROFS;
	return dir->fs->changes->link(in, dir, name, len, ch);
}

/* Remove a name that is no directory's: -ENOENT, -EISDIR. */
static inline int __must_check fs_unlink(struct fs_inode *dir, const char *name, size_t len,
					 const struct fs_change *ch)
{
	if (fs_is_read_only(dir->fs))
		return -EROFS;
	return dir->fs->changes->unlink(dir, name, len, ch);
}

/* Remove an empty directory: -ENOENT, -ENOTDIR, -ENOTEMPTY, -EINVAL ("."). */
static inline int __must_check fs_rmdir(struct fs_inode *dir, const char *name, size_t len,
					const struct fs_change *ch)
{
	if (fs_is_read_only(dir->fs))
		return -EROFS;
	return dir->fs->changes->rmdir(dir, name, len, ch);
}

/*
 * rename(2), @flags: RENAME_NOREPLACE, or RENAME_EXCHANGE, and RENAME_WHITEOUT.  Two names of one
 * file: nothing happens.  -ENOENT, -EEXIST, -ENOTEMPTY, -EISDIR, -ENOTDIR, -EINVAL (a directory
 * into itself or below, "." and "..", flags), -EXDEV, -EMLINK.
 */
static inline int __must_check fs_rename(struct fs_inode *from, const char *name, size_t len,
					 struct fs_inode *to, const char *to_name, size_t to_len,
					 uint32_t flags, const struct fs_change *ch)
{
	if (from->fs != to->fs)
		return -EXDEV;
	if (fs_is_read_only(from->fs))
		return -EROFS;
	return from->fs->changes->rename(from, name, len, to, to_name, to_len, flags, ch);
}

/*
 * Change attributes.  A new size frees what lies behind it, and the rest of its last block reads
 * as zeros.  -EISDIR, -EINVAL (the size of what is no regular file), -EFBIG.
 */
static inline int __must_check fs_setattr(struct fs_inode *in, const struct fs_attr *attr,
					  const struct fs_change *ch)
{
	if (fs_is_read_only(in->fs))
		return -EROFS;
	return in->fs->changes->setattr(in, attr, ch);
}

/*
 * Attribute @name (with its prefix) into @buf: its length, also when @size is 0; -ERANGE: @buf is
 * too small; -ENODATA; -EOPNOTSUPP: no such prefix.
 */
static inline int64_t __must_check fs_xattr_get(struct fs_inode *in, const char *name, size_t len,
						void *buf, size_t size)
{
	return in->ops->xattr_get(in, name, len, buf, size);
}

/* All names with their prefixes, each terminated, as listxattr(2): the length, or -ERANGE. */
static inline int64_t __must_check fs_xattr_list(struct fs_inode *in, char *buf, size_t size)
{
	return in->ops->xattr_list(in, buf, size);
}

/*
 * Set an attribute, or with a NULL value remove it.  @flags: XATTR_CREATE (-EEXIST when it is
 * there), XATTR_REPLACE (-ENODATA when it is not; removing implies it).  -ENOSPC: larger than the
 * file system can keep; -EOPNOTSUPP: no such prefix.  ACLs: Linux's user format (version 2).
 */
static inline int __must_check fs_xattr_set(struct fs_inode *in, const struct fs_xattr *x,
					    uint32_t flags, const struct fs_change *ch)
{
	if (fs_is_read_only(in->fs))
		return -EROFS;
	return in->fs->changes->xattr_set(in, x, flags, ch);
}

/*
 * Write @len bytes at @off, which is page-aligned, from @pages (DMA-able, whole pages; @len may
 * end inside the last, whose other bytes are the file's too), and raise the size to @new_size if
 * it is smaller (0: leave it).  Bytes past the size afterwards are not written, and in the last
 * block's page they are zeroed.  Allocates; the data are on the device before the
 * transaction that points to them commits.  -EFBIG, -EISDIR, -EINVAL.
 */
static inline int __must_check fs_write_pages(struct fs_inode *in, uint64_t off, uint64_t len,
					      void *const *pages, uint64_t new_size,
					      const struct fs_change *ch)
{
	if (fs_is_read_only(in->fs))
		return -EROFS;
	return in->fs->changes->write_pages(in, off, len, pages, new_size, ch);
}

/*
 * From now on as many blocks are the file's alone as p->others pages and those of the range that
 * have none need, the file's map included: a promise in place of the one before, so that asking
 * again does no harm. fs_write_pages() turns it into blocks. It ends with the file, or when it is
 * asked for with nothing in it. It is on no disk: a mount begins without promises.
 * -ENOSPC: the first p->need pages of the range do not fit; the promise before stays.  Only these
 * are promised if the others are much of what is left.  p->others always fits.  -EFBIG.
 */
static inline int __must_check fs_promise(struct fs_inode *in, struct fs_promise *p,
					  const struct fs_change *ch)
{
	if (fs_is_read_only(in->fs))
		return -EROFS;
	return in->fs->changes->promise(in, p, ch);
}

/*
 * Keep back as many blocks as any @nr names may need that come into directories, beside all
 * promises, so that their changes (fs_change.room) do not fail with -ENOSPC.  Each of these uses
 * one room up when it succeeds.  The number replaces that of before.  Returns how many are kept
 * back now: if @nr do not fit into what a user may take, then as many as do, but no fewer than
 * before.  They are on no disk: a mount begins without.
 */
static inline uint32_t fs_rooms(struct fs *fs, uint32_t nr)
{
	return fs_is_read_only(fs) ? 0 : fs->changes->rooms(fs, nr);
}

/*
 * Up to @nr free inodes where files of @dir would come, with generations for them, into @out: no
 * file gets one of them but by its number (struct fs_new), until fs_unlend_all().  Returns how
 * many; -EROFS, -EIO, -EUCLEAN, -ENOMEM.  They are on no disk: a mount begins without.
 */
static inline int __must_check fs_lend(struct fs_inode *dir, uint32_t nr, struct fs_lent *out)
{
	return fs_is_read_only(dir->fs) ? -EROFS : dir->fs->changes->lend(dir, nr, out);
}

static inline void fs_unlend_all(struct fs *fs)
{
	if (fs->changes)
		fs->changes->unlend_all(fs);
}

/*
 * fallocate(2): 0, FALLOC_FL_KEEP_SIZE, and with it FALLOC_FL_PUNCH_HOLE; FALLOC_FL_ZERO_RANGE;
 * FALLOC_FL_COLLAPSE_RANGE and FALLOC_FL_INSERT_RANGE of whole blocks.  -EOPNOTSUPP, -EINVAL,
 * -EFBIG, -ENODEV (no regular file).
 */
static inline int __must_check fs_fallocate(struct fs_inode *in, uint32_t mode, uint64_t off,
					    uint64_t len, const struct fs_change *ch)
{
	if (fs_is_read_only(in->fs))
		return -EROFS;
	return in->fs->changes->fallocate(in, mode, off, len, ch);
}

/* SEEK_DATA or SEEK_HOLE from @off: the place, or -ENXIO. */
static inline int64_t __must_check fs_seek(struct fs_inode *in, uint64_t off, int whence)
{
	return in->ops->seek(in, off, whence);
}

/* Wait until all changes of @in are on the disk; @datasync: only what its data need. */
static inline int __must_check fs_fsync(struct fs_inode *in, bool datasync)
{
	if (!in->fs->changes)
		return 0;
	return in->fs->changes->fsync(in, datasync);
}

/* The same for all files. */
static inline int __must_check fs_sync(struct fs *fs)
{
	return fs->changes ? fs->changes->sync(fs) : 0;
}

/* Was this request done?  0 and what it left, or -ENOENT: not done, or too long ago. */
static inline int __must_check fs_change_find(struct fs *fs, uint64_t client, uint64_t seq,
					      struct fs_done *done)
{
	return fs->changes ? fs->changes->change_find(fs, client, seq, done) : -ENOENT;
}

/*
 * A file with an open reference keeps its contents when its last name goes; the last
 * fs_close_ref() frees them.  The caller still holds @in, and puts it afterwards.
 */
static inline void fs_open_ref(struct fs_inode *in)
{
	if (in->fs->changes)
		in->fs->changes->open_ref(in);
}

static inline void fs_close_ref(struct fs_inode *in)
{
	if (in->fs->changes)
		in->fs->changes->close_ref(in);
}

/*
 * After a mount, unlinked files that were open before it live on until this call, which frees
 * those without an open reference: the end of the time in which processors declare theirs.
 */
static inline void fs_orphans_release(struct fs *fs)
{
	if (!fs_is_read_only(fs))
		fs->changes->orphans_release(fs);
}
