/* SPDX-License-Identifier: MIT */
/*
 * File systems on a disk: one table of operations for the server of their files.
 *
 * A file system fills in struct fs_ops, embeds struct fs and struct fs_inode in its own
 * structures, and has a mount function that returns a struct fs.  Callers use the functions
 * below and never see the file system's own types.
 *
 * Flow:	mount -> fs_inode_get(number, generation) -> fs_lookup(), fs_readdir(),
 *		fs_readlink(), fs_read_pages() -> fs_inode_put() -> fs_unmount().
 * Context:	threads, any number; every operation may sleep for the disk.
 * Locking:	none that callers see.
 * Failure:	-EUCLEAN: the disk's contents are wrong; -EIO: the device failed; -ESTALE: the
 *		inode is free, or another file's by now; -ENOMEM.
 * See:		docs/design/storage.md
 */
#pragma once

#include <fs/stat.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct blkdev;
struct fs_ops;

struct fs {                       /* one mounted file system */
	const struct fs_ops *ops; /* const */
	uint64_t root_ino;        /* const: its root directory */
};

struct fs_inode {                 /* one file that a caller holds */
	const struct fs_ops *ops; /* const */
};

struct fs_mount_options {
	uint64_t cache_bytes; /* blocks of metadata; 0: the file system's default */
	uint32_t max_inodes;  /* unused inodes kept; 0: the file system's default */
	char *why;            /* where to put the reason when mounting fails, or NULL */
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
	struct fs_inode *(*lookup)(struct fs_inode *dir, const char *name, size_t len);
	int (*readdir)(struct fs_inode *dir, uint64_t *cookie, fs_fill_fn fill, void *arg);
	int (*readlink)(struct fs_inode *in, char *buf, size_t *len);
	int (*read_pages)(struct fs_inode *in, uint64_t index, void *const *pages, unsigned int nr);
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
	return dir->ops->lookup(dir, name, len);
}

/*
 * Call @fill for the entries of @dir from *@cookie on (0: the first) and leave in *@cookie where
 * to go on.  Returns 0, also at the end, or -errno.
 */
static inline int __must_check fs_readdir(struct fs_inode *dir, uint64_t *cookie, fs_fill_fn fill,
					  void *arg)
{
	return dir->ops->readdir(dir, cookie, fill, arg);
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
