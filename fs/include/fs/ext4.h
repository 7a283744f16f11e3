/* SPDX-License-Identifier: MIT */
/*
 * ext2, ext3 and ext4 file systems as mke2fs makes them: mount, inodes, lookup, reading.
 *
 * Flow:	ext4_mount() -> ext4_inode_get(number, generation) -> ext4_lookup(),
 *		ext4_readdir(), ext4_readlink(), ext4_read_pages() -> ext4_inode_put().
 * Context:	threads, any number; everything that reads may sleep for the disk.
 * Locking:	none that callers see.  No lock is held while the disk works.
 * Memory:	metadata blocks and unused inodes are cached up to the mount's limits.
 * Failure:	-EUCLEAN: the disk's contents are wrong (one log line says where);
 *		-EIO: the device failed; -ESTALE: the inode is not (or no more) that
 *		file; -EOPNOTSUPP: a feature that we do not know, named in the log.
 * See:		docs/design/storage.md
 */
#pragma once

#include <fs/stat.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct blkdev;
struct path_ops;
struct ext4_fs;
struct ext4_inode;
struct bcache_buf;

#define EXT4_ROOT_INO 2u

struct ext4_options {
	uint64_t cache_bytes; /* metadata blocks; 0: the default, 8 MiB */
	uint32_t max_inodes;  /* unused inodes kept; 0: the default, 4096 */
	char *why;            /* where to put the reason when mounting fails, or NULL */
	size_t why_size;
};

/*
 * Mount the file system on @bd for reading.  On failure a line in the log says why: -EINVAL
 * (not ext2/3/4), -EOPNOTSUPP (unknown feature, needs recovery, in use), -EUCLEAN, -EIO,
 * -ENOMEM.  @opt may be NULL.
 */
int __must_check ext4_mount(struct blkdev *bd, const struct ext4_options *opt,
			    struct ext4_fs **out);
/* All inodes must have been put. */
void ext4_unmount(struct ext4_fs *fs);

void ext4_statfs(struct ext4_fs *fs, struct fs_statfs *out);
/* The 16 bytes of the file system's UUID. */
const uint8_t *ext4_uuid(const struct ext4_fs *fs);

struct ext4_stats {
	uint64_t cache_hits;
	uint64_t cache_misses;
	uint64_t inode_hits;
	uint64_t inode_misses;
	uint64_t data_reads; /* requests to the device for file data */
	uint64_t data_bytes;
	uint64_t corruptions; /* times that -EUCLEAN was reported */
};
void ext4_stats(struct ext4_fs *fs, struct ext4_stats *out);

/* Any generation: only for numbers that were just read from the disk. */
#define EXT4_ANY_GEN UINT64_MAX

/*
 * Hold inode @ino whose generation is @gen (or EXT4_ANY_GEN).  ERR_PTR(-ESTALE) when that
 * inode is free or another file's by now, -EUCLEAN, -EIO, -ENOMEM.
 */
struct ext4_inode *ext4_inode_get(struct ext4_fs *fs, uint64_t ino, uint64_t gen);
void ext4_inode_put(struct ext4_inode *in);

uint32_t ext4_inode_ino(const struct ext4_inode *in);
uint32_t ext4_inode_gen(const struct ext4_inode *in);
uint32_t ext4_inode_mode(const struct ext4_inode *in);
uint64_t ext4_inode_size(const struct ext4_inode *in);
void ext4_inode_stat(const struct ext4_inode *in, struct fs_stat *out);

/*
 * The inode number behind @name (not terminated, @len bytes) in directory @dir; "." and ".."
 * included.  -ENOENT, -ENOTDIR, -ENAMETOOLONG.
 */
int __must_check ext4_lookup(struct ext4_inode *dir, const char *name, size_t len, uint32_t *ino);

/*
 * The same, but holds the inode.  An entry that names no inode in use is the disk's fault:
 * ERR_PTR(-EUCLEAN).
 */
struct ext4_inode *ext4_lookup_get(struct ext4_inode *dir, const char *name, size_t len);

struct ext4_dirent {
	uint64_t next_cookie; /* where to go on after this one: what getdents calls d_off */
	const char *name;     /* not terminated; valid during the call only */
	uint32_t ino;
	uint8_t name_len;
	uint8_t dtype; /* enum fs_dtype */
};

/*
 * Call @fill for the entries of @dir from *@cookie on (0: the first).  A non-zero answer of
 * @fill stops: that entry is not consumed.  *@cookie is then where to go on.  Returns 0, also
 * at the end, or -errno.  Cookies are byte positions: they stay good while nobody writes.
 */
typedef int (*ext4_fill_fn)(void *arg, const struct ext4_dirent *de);
int __must_check ext4_readdir(struct ext4_inode *dir, uint64_t *cookie, ext4_fill_fn fill,
			      void *arg);

/* The target of a symbolic link, terminated, into @buf of FS_PATH_MAX bytes.  -EINVAL: no link. */
int __must_check ext4_readlink(struct ext4_inode *in, char *buf, size_t *len);

/*
 * Read @nr pages of 4096 bytes from page @index on into @pages, each DMA-able, straight from
 * the device.  Holes, unwritten extents and what lies past the end read as zeros.  -EISDIR,
 * -EINVAL (neither file nor link).
 */
int __must_check ext4_read_pages(struct ext4_inode *in, uint64_t index, void *const *pages,
				 unsigned int nr);

enum ext4_map_type {
	EXT4_MAP_HOLE,
	EXT4_MAP_DATA,
	EXT4_MAP_UNWRITTEN, /* allocated, reads as zeros */
};

struct ext4_map {
	enum ext4_map_type type;
	uint32_t len;   /* file system blocks, at least 1 */
	uint64_t block; /* on the device; 0 for a hole */
};

/* Where block @lblk of a file is, and for how many of the next @max blocks that goes on. */
int __must_check ext4_map_blocks(struct ext4_inode *in, uint32_t lblk, uint32_t max,
				 struct ext4_map *map);
/* Bytes in a block of this file system. */
uint32_t ext4_block_size(const struct ext4_fs *fs);

/* Path resolution over a struct ext4_fs: see <fs/pathindex.h>. */
extern const struct path_ops ext4_path_ops;

/*
 * Transactions: the seam for writing.  Every change of metadata will go
 *
 *	ext4_txn_begin(fs, blocks it may touch)	may wait for room in the journal
 *	ext4_txn_access(txn, buf)		before a block's first change; may copy it
 *	ext4_txn_commit(txn, durable)		durable: returns when the disk has it
 *
 * with data changed only between access and commit.  Until the journal exists there is
 * nothing that could keep that promise, so begin answers -EROFS, and nobody gets further.
 */
struct ext4_txn;
int __must_check ext4_txn_begin(struct ext4_fs *fs, unsigned int nr_blocks, struct ext4_txn **out);
int __must_check ext4_txn_access(struct ext4_txn *txn, struct bcache_buf *buf);
int __must_check ext4_txn_commit(struct ext4_txn *txn, bool durable);
