/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of ext4.
 *
 * Locking:	fs->change (RANK_FS) admits one change at a time.  An inode's lock (RANK_FS_INODE)
 *		guards its fields and contents, index and extent blocks included: readers of
 *		contents hold it for reading, a change holds it for writing.  fs->inode_lock guards
 *		the cache of inodes; fs->show_lock the attributes that fs_inode_stat() shows and
 *		the bytes of the inode table.
 */
#pragma once

#include <fs/bcache.h>
#include <fs/ext4.h>
#include <kernel/mutex.h>
#include <kernel/rwsem.h>
#include <kernel/spinlock.h>
#include <lib/atomic.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/rbtree.h>
#include <lib/types.h>

#include "disk.h"

#define EXT4_ROOT_INO    2u
#define EXT4_GROUP_LOCKS 16u

struct ext4_lending;
struct ext4_mmp;
struct journal;
struct thread;

struct ext4_locks {
	struct mutex group[EXT4_GROUP_LOCKS]; /* RANK_FS_GROUP; by number */
	struct mutex raw[EXT4_GROUP_LOCKS];   /* RANK_FS_RAW; by number of the inode */
};

struct ext4_pile {
	struct list_head pieces; /* each begins with its link */
	uint32_t nr;
};

/* Memory that is set aside (reserve.c). */
struct ext4_reserve {
	struct spinlock lock;   /* RANK_SPIN_FS; guards what follows */
	struct ext4_pile small; /* of EXT4_SMALL_LEN */
	struct ext4_pile big;   /* two blocks and more */
	uint32_t want_small;    /* that many are kept */
	struct thread *owner;   /* may take them; NULL: no change is under way */
};

struct ext4_fs {
	struct fs base;
	struct blkdev *bd;
	struct bcache *bc;
	/* Const after mount. */
	uint64_t nr_blocks;
	uint64_t first_data_block;
	uint64_t super_block; /* the block that holds the superblock */
	uint32_t nr_inodes;
	uint32_t first_ino;
	uint32_t block_bits;
	uint32_t block_size;
	uint32_t inode_size;
	uint32_t desc_size;
	uint32_t blocks_per_group;
	uint32_t inodes_per_group;
	uint32_t nr_groups;
	uint32_t first_meta_bg;
	uint32_t reserved_gdt_blocks;
	uint32_t compat;
	uint32_t incompat;
	uint32_t ro_compat;
	uint32_t backup_bgs[2];
	uint32_t csum_seed;
	uint32_t hash_seed[4];
	uint32_t cluster_ratio;
	uint8_t def_hash_version;
	bool hash_unsigned;
	bool has_csum; /* metadata_csum */
	uint64_t r_blocks;
	uint64_t overhead;
	uint8_t uuid[16];

	atomic64_t free_blocks;
	atomic64_t free_inodes;

	/* Of a mount that may write. */
	struct journal *journal;                               /* NULL: read-only */
	struct rb_root zones;                                  /* const: see zones.c */
	struct bcache_buf *super_buf;                          /* the superblock's block, held */
	struct ext4_mmp *mmp;                                  /* NULL: other nodes may not come */
	struct mutex super_lock;                               /* RANK_FS_SUPER */
	struct mutex orphan_lock;                              /* RANK_FS_ORPHAN */
	struct list_head orphans __guarded_by(&orphan_lock);   /* newest first, as on disk */
	struct rb_root orphan_tree __guarded_by(&orphan_lock); /* the same, by number */
	struct ext4_locks *locks;                              /* const */
	struct ext4_reserve reserve;

	/* While mounting: where the reason for a refusal goes. */
	char *why;
	size_t why_size;

	struct spinlock inode_lock;                           /* RANK_SPIN_FS */
	struct list_head *inode_table;                        /* const; the buckets: inode_lock */
	struct list_head inode_lru __guarded_by(&inode_lock); /* unused, oldest first */
	uint32_t nr_unused __guarded_by(&inode_lock);
	uint32_t max_unused; /* const */
	uint32_t inode_mask; /* const */
	uint64_t inode_hits __guarded_by(&inode_lock);
	uint64_t inode_misses __guarded_by(&inode_lock);

	uint64_t nr_dropped __guarded_by(&inode_lock); /* changed inodes that left the cache */

	struct mutex change;       /* RANK_FS */
	struct spinlock show_lock; /* RANK_SPIN_FS */
	struct spinlock busy_lock; /* RANK_SPIN_FS */
	struct ext4_busy **busy;   /* blocks freed and not committed; busy_lock */
	uint32_t *busy_whole;      /* the same without a map, for each group; busy_lock */
	atomic64_t nr_busy;
	uint64_t *scratch;                 /* one block; change */
	uint64_t delayed;                  /* blocks promised: the inodes' sum; change */
	uint32_t rooms;                    /* names that room is kept for: rooms.c; change */
	struct ext4_lending *lending;      /* lend.c; NULL: nothing was lent; change */
	uint32_t gens[8];                  /* random: of the next new inodes; change */
	uint32_t nr_gens;                  /* change */
	uint16_t extra_isize;              /* const: of new inodes */
	struct list_head nameless;         /* inodes without a name, held; change */
	uint32_t nr_unfreed;               /* of these; change */
	struct ext4_changes *changes_done; /* const; NULL: there is no record */
	bool repeats;                      /* const: as fs_mount_options says */

	atomic64_t data_reads;
	atomic64_t data_bytes;
	atomic64_t corruptions;
};

struct ext4_inode {
	struct fs_inode base;
	struct ext4_fs *fs; /* const */
	uint32_t ino;       /* const */
	uint32_t gen;       /* const */
	struct rwsem lock;  /* RANK_FS_INODE; guards what follows, up to the cache's part */
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	uint32_t nlink;
	uint32_t flags;
	uint32_t csum_seed; /* of everything that belongs to this inode */
	uint64_t size;
	uint64_t blocks; /* of 512 bytes */
	uint64_t file_acl;
	uint64_t version;
	struct fs_time atime;
	struct fs_time mtime;
	struct fs_time ctime;
	struct fs_time crtime;
	union {
		le32_t block[EXT4_NR_BLOCK_PTRS];
		uint8_t iblock[EXT4_IBLOCK_LEN];
	};
	/* The part of an inline file behind the 60 bytes above; NULL when empty. */
	uint8_t *inline_more;
	uint32_t inline_more_len;
	uint32_t inline_at;   /* where in raw that part stands */
	uint8_t *raw;         /* the inode's bytes in its table, as of the last change */
	uint64_t delayed;     /* blocks promised: promise.c; fs->change */
	uint64_t dirty_tid;   /* the last transaction that changed it */
	uint64_t data_tid;    /* the last one without which its data cannot be read */
	uint64_t last_goal;   /* behind the block that was allocated last */
	uint64_t names_added; /* names that came since it is in memory */
	uint64_t names_moved; /* times that entries went, or moved within or between blocks */
	bool orphan;          /* on the list on disk; fs->change */
	bool unnamed;         /* made without a name: may get one; fs->change */
	bool stuck;           /* could not be freed; fs->change */
	bool unfreed;         /* for want of memory: once more; fs->change */
	bool gone;            /* freed on the disk: every use is stale */
	uint32_t open;        /* open references; fs->change */
	struct list_head orphan_link; /* fs->change */

	struct fs_stat shown; /* fs->show_lock */

	/* The cache's; the fs's inode_lock guards these. */
	struct list_head hash;
	struct list_head lru;
	uint32_t refs;
	bool changed;       /* atomic: the table differs from what a reader may have in hand */
	uint64_t raw_block; /* const once known, else 0: where its bytes in the table are */
};

/* Values of bcache_buf.checked_as; the owner's inode number is in the upper half. */
enum ext4_check {
	EXT4_CHECK_EXTENT = 1,
	EXT4_CHECK_DIR = 2,
	EXT4_CHECK_DX_ROOT = 3,
	EXT4_CHECK_DX_NODE = 4,
	EXT4_CHECK_BLOCK_BITMAP = 5, /* the owner is a group */
	EXT4_CHECK_INODE_BITMAP = 6,
};

static inline bool ext4_checked(const struct bcache_buf *buf, uint32_t ino, enum ext4_check as)
{
	return READ_ONCE(buf->checked_as) == ((uint64_t)ino << 32 | as);
}

static inline void ext4_set_checked(struct bcache_buf *buf, uint32_t ino, enum ext4_check as)
{
	WRITE_ONCE(buf->checked_as, (uint64_t)ino << 32 | as);
}

static inline bool ext4_is_dir(const struct ext4_inode *in)
{
	return (in->mode & S_IFMT) == S_IFDIR;
}

/* Are blocks @block to @block + @nr - 1 inside the file system, and not its boot block? */
static inline bool ext4_blocks_ok(const struct ext4_fs *fs, uint64_t block, uint64_t nr)
{
	return block > fs->first_data_block && nr <= fs->nr_blocks && block <= fs->nr_blocks - nr;
}

static inline uint64_t ext4_free_blocks(const struct ext4_fs *fs)
{
	return (uint64_t)MAX(atomic64_read(&fs->free_blocks), (int64_t)0);
}

/*
 * Blocks that one name may need in its directory: a leaf, three nodes of the index, one of which is
 * a new root's; for these blocks five of the directory's map; and one for inherited lists.
 */
#define EXT4_ROOM_BLOCKS 10u

/* Blocks of those that are free which are kept for somebody. */
static inline uint64_t ext4_kept_blocks(const struct ext4_fs *fs)
{
	return READ_ONCE(fs->delayed) + (uint64_t)READ_ONCE(fs->rooms) * EXT4_ROOM_BLOCKS;
}

static inline uint32_t ext4_free_inodes(const struct ext4_fs *fs)
{
	return (uint32_t)MAX(atomic64_read(&fs->free_inodes), (int64_t)0);
}

/* Log what is wrong on the disk (the first few times) and return -EUCLEAN. */
int ext4_corrupt(struct ext4_fs *fs, const char *fmt, ...) __printf(2, 3);

/* Log why this cannot be mounted, keep it for the caller of mount, and return @err. */
int ext4_refuse(struct ext4_fs *fs, int err, const char *fmt, ...) __printf(3, 4);

/* mmp.c: is the mark one at all?  -EUCLEAN after saying so. */
int __must_check ext4_mmp_check(struct ext4_fs *fs, const struct ext4_mmp_disk *mark);

/* ops.c */
extern const struct fs_ops ext4_fs_ops;

/* super.c */
/* Compute the checksum of the superblock in its buffer, if it has one. */
void ext4_super_csum_set(const struct ext4_fs *fs, struct ext4_super_disk *sb);
/* The superblock's bytes in @buf, its block. */
struct ext4_super_disk *ext4_super_in(const struct ext4_fs *fs, const struct bcache_buf *buf);
void ext4_statfs(struct ext4_fs *fs, struct fs_statfs *out);
void ext4_counts(struct ext4_fs *fs, struct fs_counts *out);

/* feature.c: -EOPNOTSUPP after naming the features in the log. */
int __must_check ext4_features_check(struct ext4_fs *fs, const struct ext4_super_disk *sb);
/*
 * Is the disk clean, once its journal needs no recovery?  A writable mount may have orphans, which
 * it sees to.  -EOPNOTSUPP after saying why not.
 */
int __must_check ext4_state_check(struct ext4_fs *fs, const struct ext4_super_disk *sb,
				  bool writable);

/* group.c */
struct ext4_group {
	uint64_t inode_table;
	uint32_t nr_inodes_used; /* inodes from here on were never used */
};
int __must_check ext4_group_read(struct ext4_fs *fs, uint32_t group, struct ext4_group *out);

/* inode.c: pure; @len bytes at @raw.  The caller frees @in->inline_more. */
int __must_check ext4_inode_decode(struct ext4_inode *in, const uint8_t *raw, uint32_t len);
/* These and the functions of dir.c and read.c do what <fs/fs.h> says. */
void ext4_unmount(struct ext4_fs *fs);
struct ext4_inode *ext4_inode_get(struct ext4_fs *fs, uint64_t ino, uint64_t gen);
/* One of the inodes below first_ino, such as the journal's.  ERR_PTR as ext4_inode_get(). */
/* One that is on the list of orphans, even without a name. */
struct ext4_inode *ext4_inode_get_orphan(struct ext4_fs *fs, uint32_t ino);
struct ext4_inode *ext4_inode_get_special(struct ext4_fs *fs, uint32_t ino);
void ext4_inode_put(struct ext4_inode *in);
void ext4_inode_stat(const struct ext4_inode *in, struct fs_stat *out);
/* The attributes as they are now; the caller has the lock. */
void ext4_inode_fill_stat(const struct ext4_inode *in, struct fs_stat *st);
/* An inode in memory only: held once, locks initialised, in->raw all zeros.  NULL: no memory. */
struct ext4_inode *ext4_inode_new(struct ext4_fs *fs);
/* Put a new inode into the cache. */
void ext4_inode_insert(struct ext4_inode *in);
/* Hold it once more. */
void ext4_inode_hold(struct ext4_inode *in);
/* It is free on the disk now: it leaves the cache, and the last ext4_inode_put() frees it. */
void ext4_inode_forget(struct ext4_inode *in);

/* dir.c */
/* @known: a place that was told before, or NULL; @place: where to tell it, or NULL. */
struct ext4_inode *ext4_lookup_get(struct ext4_inode *dir, const char *name, size_t len,
				   const struct fs_place *known, struct fs_place *place);
/* The number behind @name; the caller has @dir's lock. */
int __must_check ext4_dir_find(struct ext4_inode *dir, const char *name, size_t len, uint32_t *ino);

/*
 * Where a name is in blocks of its directory, or would be.  An entry's position stays right while
 * names come (names_added), a place for a new name until another one comes; both until entries go
 * or move (names_moved).  That before an entry may have got others behind it.
 */
struct ext4_place {
	struct bcache_buf *buf; /* held; NULL: none, or the names stand in the inode */
	uint32_t lblk;
	uint32_t len;  /* bytes of the block that hold entries */
	uint32_t need; /* bytes that the name needs, if it is to be added; 0: it is not */
	uint32_t at;   /* of the name's entry; len: it is not there */
	uint32_t prev; /* of the one before; len: none */
	uint32_t room; /* of the first entry that has room for a new one; len: none */
	uint32_t ino;
	uint64_t added, moved;
};

/*
 * Look for @name: 0 and *@p, or -ENOENT and with @add the place for it, if it is known.  @p is to
 * be put in any case.  The caller has @dir's lock.
 */
int __must_check ext4_dir_search(struct ext4_inode *dir, const char *name, size_t len,
				 const struct fs_place *known, bool add, struct ext4_place *p);
static inline void ext4_place_put(struct ext4_place *p)
{
	if (p->buf)
		bcache_put(p->buf);
	p->buf = NULL;
}
/* The runs 0 and 1 of entries of an inline directory. */
const uint8_t *ext4_inline_entries(const struct ext4_inode *dir, unsigned int part, uint32_t *len);

/* readdir.c */
/* Cookies are hashes, or byte positions in a directory of several blocks without an index. */
int __must_check ext4_readdir(struct ext4_inode *dir, uint64_t *cookie, uint64_t behind,
			      fs_fill_fn fill, void *arg);

/* read.c */
int __must_check ext4_readlink(struct ext4_inode *in, char *buf, size_t *len);
int __must_check ext4_read_pages(struct ext4_inode *in, uint64_t index, void *const *pages,
				 unsigned int nr);
int __must_check ext4_map_blocks(struct ext4_inode *in, uint32_t lblk, uint32_t max,
				 struct ext4_map *map);

/* Does a link's target stand where block pointers would be? */
bool ext4_link_is_fast(const struct ext4_inode *in);

/* xattr.c */
/* False: the inode has no access control list, of either kind.  Looks at no block. */
bool ext4_may_have_acl(const struct ext4_inode *in);
int64_t __must_check ext4_xattr_get(struct ext4_inode *in, const char *name, size_t len, void *buf,
				    size_t size);
int64_t __must_check ext4_xattr_list(struct ext4_inode *in, char *buf, size_t size);

/* seek.c */
int64_t __must_check ext4_seek(struct ext4_inode *in, uint64_t off, int whence);

/* inline.c */
int __must_check ext4_inline_decode(struct ext4_inode *in, const uint8_t *raw, uint32_t len,
				    uint32_t extra);
uint32_t ext4_inline_capacity(const struct ext4_inode *in);
/* Copy @len bytes from @pos of an inline file; the range must lie inside its capacity. */
void ext4_inline_copy(const struct ext4_inode *in, uint32_t pos, void *buf, uint32_t len);

/* extent.c, indirect.c */
int __must_check ext4_extent_map(struct ext4_inode *in, uint32_t lblk, uint32_t max,
				 struct ext4_map *map);
int __must_check ext4_indirect_map(struct ext4_inode *in, uint32_t lblk, uint32_t max,
				   struct ext4_map *map);

/* dirblock.c */
static inline uint32_t ext4_rec_len(le16_t raw, uint32_t block_size)
{
	const uint32_t len = le16_to_cpu(raw);

	if (block_size < 65536)
		return len;
	if (len == 65535 || len == 0)
		return block_size;
	return (len & 65532) | (len & 3) << 16;
}
#define EXT4_ENTRY_MIN 12u /* bytes of an entry that has a name */
/* Bytes that an entry needs. */
static inline uint32_t ext4_entry_need(size_t name_len)
{
	return (uint32_t)ALIGN_UP(sizeof(struct ext4_dirent_disk) + name_len, (size_t)4);
}
/*
 * Look for @name in p->len checked bytes: p->at, p->prev and p->ino, and if it is not there and
 * p->need says so p->room.  True: it is there.
 */
bool ext4_entry_search(const struct ext4_fs *fs, const uint8_t *data, const char *name,
		       size_t name_len, struct ext4_place *p);
/*
 * The same in block @lblk, which @p holds afterwards if it has the name, or room for it and @p held
 * none before.  0, -ENOENT or -errno.
 */
int __must_check ext4_block_search(struct ext4_inode *dir, uint32_t lblk, const char *name,
				   size_t name_len, struct ext4_place *p);
/* Check the entries in @len bytes; the last one has to end exactly there. */
int __must_check ext4_dirents_check(const struct ext4_inode *dir, const uint8_t *data, uint32_t len,
				    uint32_t lblk);
/*
 * Block @lblk of a directory, checked to be what @as says.  As EXT4_CHECK_DIR, blocks of the
 * hash index are fine too: they look like blocks without entries.  *@len: the bytes that
 * hold entries.
 */
struct bcache_buf *ext4_dir_block(struct ext4_inode *dir, uint32_t lblk, enum ext4_check as,
				  uint32_t *len);
uint32_t ext4_dir_nr_blocks(const struct ext4_inode *dir);
bool ext4_dir_is_indexed(const struct ext4_inode *dir);
/* The entry called @name in @len checked bytes: 0 and *@ino, or -ENOENT. */
int __must_check ext4_dirents_find(const struct ext4_fs *fs, const uint8_t *data, uint32_t len,
				   const char *name, size_t name_len, uint32_t *ino);

/* htree.c: as ext4_dir_search().  -EAGAIN: this index cannot be used, search all blocks. */
int __must_check ext4_htree_search(struct ext4_inode *dir, const char *name, size_t len,
				   struct ext4_place *p);
/* Is a block of the index well formed, with the right checksum? */
int __must_check ext4_dx_check(const struct ext4_inode *dir, const uint8_t *data, bool root,
			       uint32_t lblk);

/* dirhash.c: -EINVAL: unknown version.  Pure. */
int __must_check ext4_dirhash2(unsigned int version, const uint32_t seed[4], const char *name,
			       size_t len, uint32_t *hash, uint32_t *minor);
int __must_check ext4_dirhash(unsigned int version, const uint32_t seed[4], const char *name,
			      size_t len, uint32_t *hash);

/* zones.c */
/* Is one of these blocks a group's metadata, the journal's or mmp's? No, if none may be written. */
bool ext4_zones_hit(const struct ext4_fs *fs, uint64_t block, uint64_t nr);
/* May a file have @block for its own bookkeeping: pointers, extents, attributes? */
static inline bool ext4_block_of_file(const struct ext4_fs *fs, uint64_t block)
{
	return ext4_blocks_ok(fs, block, 1) && !ext4_zones_hit(fs, block, 1);
}
void ext4_zones_free(struct ext4_fs *fs);
