/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files that change an ext4.
 *
 * Flow:	ext4_op_begin() locks the inodes and begins a handle; the change; ext4_op_end()
 *		records the change's id, ends the handle and unlocks.
 * Locking:	fs->change (RANK_FS) admits one change at a time, so allocators and directories need
 *		no further agreement among writers; in->lock (RANK_FS_INODE) keeps readers of that
 *		inode out meanwhile.  Both are taken before the handle is begun.
 * Failure:	-ENOSPC and -ENOMEM leave the metadata as it was; an error from which that is not
 *		possible aborts the file system.
 */
#pragma once

#include "ext4_priv.h"
#include "group.h"
#include "journal.h"

#define EXT4_OP_INODES 6u

/* The answer that the record of changes holds: a struct fs_done. */
struct ext4_done_disk {
	le64_t ino;
	le32_t gen;
	le32_t reserved;
	le64_t version;
};
static_assert(sizeof(struct ext4_done_disk) == 24, "on the disk");

/* One change under way. */
struct ext4_op {
	struct ext4_fs *fs;
	struct ext4_handle *h;
	const struct fs_change *ch; /* NULL: ours, for instance the end of an orphan */
	struct ext4_inode *inodes[EXT4_OP_INODES]; /* locked; in the order of their addresses */
	unsigned int nr_inodes;
	bool recorded;  /* the change's id */
	bool room;      /* it brings a name for which room is kept: rooms.c */
	bool whole;     /* its steps need no more than it began with: no new transaction */
	uint32_t taken; /* blocks of that room */
};

/* Credits that any change of names needs at most: two directories that split, and four inodes. */
#define EXT4_CREDITS_NAMES 72u
/*
 * One step of a change of mappings, none of whose blocks is in the transaction yet.  The dearest,
 * in a tree of EXT4_EXTENT_MAX_DEPTH levels of which each node lies in a group of its own:
 *   a cut in the middle: 5 nodes that split, 5 new ones, bitmaps and descriptors of 5 groups for
 *     them (10) and of the 2 groups of what is freed (4), the inode: 25
 *   a cut that empties: 5 nodes that go and their groups (10), the groups of what is freed (4), if
 *     that is metadata its EXT4_META_STEP blocks, 2 blocks of revokes, the inode: 30
 */
#define EXT4_CREDITS_MAP   32u
/* Blocks of metadata that one step frees: a block that the log has takes a credit to be freed. */
#define EXT4_META_STEP     8u

/* op.c: @inodes may hold NULL and duplicates.  ERR as of ext4_begin(). */
int __must_check ext4_op_begin(struct ext4_op *op, struct ext4_fs *fs, uint32_t credits,
			       const struct fs_change *ch, struct ext4_inode *const *inodes,
			       unsigned int nr);
/* @in: the inode that the change's record names, or NULL for none.  Returns @err or a later one. */
int __must_check ext4_op_end(struct ext4_op *op, struct ext4_inode *in, int err);
/* The same, but the inodes stay locked until ext4_op_unlock(). */
int __must_check ext4_op_finish(struct ext4_op *op, struct ext4_inode *in, int err);
/*
 * Record the change's id now, in the transaction from which on the rest is done even after a crash.
 * Otherwise the last transaction has it.
 */
int __must_check ext4_op_record(struct ext4_op *op, const struct ext4_inode *in);
void ext4_op_unlock(struct ext4_op *op);
/* Begin a new transaction in the middle: what was done so far is consistent. */
int __must_check ext4_op_restart(struct ext4_op *op, uint32_t credits);
/*
 * Before a step that changes mappings of @in: see to credits and memory for it, if need be by a
 * new transaction, before which @in, consistent as it is, is written.
 */
int __must_check ext4_op_step(struct ext4_op *op, struct ext4_inode *in);
/* The same for a step that needs @credits, at most ext4_max_credits(). */
int __must_check ext4_op_big_step(struct ext4_op *op, struct ext4_inode *in, uint32_t credits);
/* An error that leaves metadata half changed: no more writing. */
int ext4_op_abort(struct ext4_op *op, int err, const char *what);
struct fs_time ext4_op_now(const struct ext4_op *op);

/*
 * See to it that the handle may change @credits blocks, and that memory for it is set aside.
 * False: write the inodes, then ext4_op_restart().
 */
bool __must_check ext4_op_more(struct ext4_op *op, uint32_t credits);

/* reserve.c */
/*
 * Set memory aside for a change with @credits, whose owner this thread becomes until
 * ext4_reserve_end().  -ENOMEM.
 */
int __must_check ext4_reserve_begin(struct ext4_fs *fs, uint32_t credits);
void ext4_reserve_end(struct ext4_fs *fs);
/*
 * Zeroed; for what a change needs for a moment, freed by kfree().  In a change this fails only for
 * more than two blocks.
 */
void *ext4_alloc(struct ext4_fs *fs, size_t size);

/* balloc.c */
int __must_check ext4_balloc_init(struct ext4_fs *fs);
void ext4_balloc_exit(struct ext4_fs *fs);
/* Allocate up to @nr neighbouring blocks near @goal: the first, and in *@nr how many.  -ENOSPC. */
int __must_check ext4_balloc(struct ext4_op *op, struct ext4_inode *in, uint64_t goal, uint32_t *nr,
			     uint64_t *block);
/* Free blocks of @in; @meta: metadata, which is revoked. */
int __must_check ext4_bfree(struct ext4_op *op, struct ext4_inode *in, uint64_t block, uint32_t nr,
			    bool meta);
/* A zeroed block of metadata for @in, allocated, held, with write access. */
struct bcache_buf *ext4_balloc_meta(struct ext4_op *op, struct ext4_inode *in, uint64_t goal);
/* The same, for what is not in the file's map: what is promised to the file is not for that. */
struct bcache_buf *ext4_balloc_beside(struct ext4_op *op, struct ext4_inode *in, uint64_t goal);
/* Where to look for the first block of @in. */
uint64_t ext4_goal_of(const struct ext4_inode *in);
/* Are there freed blocks that a commit would make usable? */
bool ext4_has_busy(struct ext4_fs *fs);
/* Blocks that @op may still take, for @in: those that are promised to it, and the free ones. */
uint64_t ext4_avail(const struct ext4_op *op, const struct ext4_inode *in);
/* The same when names that are to come have no room; @op has none. */
uint64_t ext4_avail_with_rooms(const struct ext4_op *op, const struct ext4_inode *in);

/*
 * ialloc.c: make @in, which ext4_inode_new() made and @op locks, an inode of type @mode near @dir;
 * @want: the one of that number and generation, or NULL.  It is in the cache then, and not written
 * yet.
 */
int __must_check ext4_ialloc(struct ext4_op *op, struct ext4_inode *dir, uint32_t mode,
			     const struct fs_lent *want, struct ext4_inode *in);
int __must_check ext4_ifree(struct ext4_op *op, struct ext4_inode *in);
/* A random generation for a new inode; not 0. */
uint32_t ext4_next_gen(struct ext4_fs *fs);
/* Give @in, whose number is set, the fields of a new inode of type @mode. */
void ext4_inode_init(struct ext4_op *op, struct ext4_inode *in, uint32_t flags, uint32_t mode);

/* rooms.c */
uint32_t ext4_rooms(struct ext4_fs *fs, uint32_t nr);
/* Give up those of which the blocks were promised to a file. */
void ext4_rooms_fit(struct ext4_fs *fs);
/* The change @op, which has succeeded, has used its room up. */
void ext4_room_used(struct ext4_op *op);

/* lend.c; fs->change guards what is lent. */
int ext4_lend(struct ext4_inode *dir, uint32_t nr, struct fs_lent *out);
/* Also at the end of a mount. */
void ext4_unlend_all(struct ext4_fs *fs);
bool ext4_is_lent(struct ext4_fs *fs, uint32_t ino);
/* It is a file's now. */
void ext4_unlend(struct ext4_fs *fs, uint32_t ino);

/* changes.c: the record of changes (journal.h): find it or make it, at mount. */
int __must_check ext4_changes_start(struct ext4_fs *fs);
void ext4_changes_stop(struct ext4_fs *fs);

/* inode_write.c */
/* Put @in's fields into its place in the inode table, with a new i_version, and show them. */
int __must_check ext4_inode_write(struct ext4_op *op, struct ext4_inode *in);
/* From now on fs_inode_stat() shows the fields as they are. */
void ext4_inode_show(struct ext4_inode *in);
void ext4_inode_touch(struct ext4_op *op, struct ext4_inode *in, bool contents);
/* The times of fs_write_pages(). */
void ext4_inode_written(struct ext4_op *op, struct ext4_inode *in);

/* extent_path.c: a way from the root to a leaf. */
struct ext4_path {
	struct ext4_inode *in;
	unsigned int depth; /* of the leaf's level */
	struct {
		struct bcache_buf *buf; /* NULL: in the inode */
		struct ext4_extent_header *hdr;
		int at; /* the entry; in the leaf -1: before all */
	} level[EXT4_EXTENT_MAX_DEPTH + 1];
};
int __must_check ext4_path_find(struct ext4_inode *in, uint32_t lblk, struct ext4_path *p);
void ext4_path_put(struct ext4_path *p);
int __must_check ext4_path_access(struct ext4_op *op, struct ext4_path *p, unsigned int level);
int __must_check ext4_path_dirty(struct ext4_op *op, struct ext4_path *p, unsigned int level);
/* The first entry of the node at @level changed: its parents name the new first block. */
int __must_check ext4_path_fix_keys(struct ext4_op *op, struct ext4_path *p, unsigned int level);

/* extent_insert.c */
void ext4_extent_init_root(struct ext4_inode *in);
/* Make sure that the leaf for @lblk has room for @nr entries.  Restarts no transaction. */
int __must_check ext4_extent_room(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk,
				  unsigned int nr);
/* Map [@lblk, +@len), which is a hole. */
int __must_check ext4_extent_insert(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk,
				    uint32_t len, uint64_t block, bool unwritten);

/* extent_remove.c */
/*
 * Unmap blocks from @from up to, not including, @to, and free them.  Restarts the transaction,
 * after writing the inode, when it gets too large.
 */
int __must_check ext4_extent_remove(struct ext4_op *op, struct ext4_inode *in, uint64_t from,
				    uint64_t to);
/* A root with one child whose entries fit into it takes them, and the tree loses a level. */
int __must_check ext4_extent_shrink(struct ext4_op *op, struct ext4_inode *in);
/* Make [@lblk, +@len), which is mapped, written or unwritten. */
int __must_check ext4_extent_mark(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk,
				  uint32_t len, bool unwritten);
/* How many nodes of the tree, the inode's own not counted, speak about blocks from @from on. */
int __must_check ext4_extent_count_nodes(struct ext4_inode *in, uint32_t from, uint32_t *nr);
/*
 * Move all extents from @from on towards the start by @down blocks, where there is a hole.  The
 * handle has a credit for each node that ext4_extent_count_nodes() counts; restarts no transaction.
 */
int __must_check ext4_extent_shift(struct ext4_op *op, struct ext4_inode *in, uint32_t from,
				   uint32_t down);

/* indirect_write.c */
int __must_check ext4_indirect_alloc(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk,
				     uint32_t nr, uint64_t goal, struct ext4_map *map);
int __must_check ext4_indirect_remove(struct ext4_op *op, struct ext4_inode *in, uint64_t from,
				      uint64_t to);

/* map_write.c */
/*
 * The mapping of @lblk for at most @max blocks, allocated if it was a hole (*@fresh); @unwritten:
 * new blocks read as zeros.
 */
int __must_check ext4_map_alloc(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk,
				uint32_t max, bool unwritten, struct ext4_map *map, bool *fresh);
/* Unmap and free [@from, @to). */
int __must_check ext4_map_remove(struct ext4_op *op, struct ext4_inode *in, uint64_t from,
				 uint64_t to);

/* truncate.c */
/* Zero the bytes [@from, @to) of one block, where it is mapped and written. */
int __must_check ext4_zero_part(struct ext4_op *op, struct ext4_inode *in, uint64_t from,
				uint64_t to);
/* Free everything behind @size; several transactions, the inode is an orphan meanwhile. */
int __must_check ext4_truncate(struct ext4_op *op, struct ext4_inode *in, uint64_t size);
/* Free an inode without names.  @op holds its lock. */
int __must_check ext4_evict(struct ext4_op *op, struct ext4_inode *in);
/* Is @in not open, and so little that the transaction that takes its last name can free it? */
bool ext4_goes_at_once(struct ext4_inode *in);
/* Do that, within EXT4_CREDITS_NAMES; @in is no orphan. */
int __must_check ext4_evict_at_once(struct ext4_op *op, struct ext4_inode *in);

/* inline_write.c */
int __must_check ext4_inline_to_blocks(struct ext4_op *op, struct ext4_inode *in);
/* The contents that were changed in in->iblock and in->inline_more go into in->raw. */
void ext4_inline_sync(struct ext4_inode *in);

/*
 * dir_write.c: @p: what ext4_dir_search() has told of the name, under the lock that is still held;
 * or NULL.
 */
int __must_check ext4_dir_add(struct ext4_op *op, struct ext4_inode *dir, const char *name,
			      size_t len, uint32_t ino, uint32_t mode, const struct ext4_place *p);
int __must_check ext4_dir_remove(struct ext4_op *op, struct ext4_inode *dir, const char *name,
				 size_t len, const struct ext4_place *p);
/* Let the entry @name, also "..", name another inode. */
int __must_check ext4_dir_set(struct ext4_op *op, struct ext4_inode *dir, const char *name,
			      size_t len, uint32_t ino, uint32_t mode, const struct ext4_place *p);
/* The first block of a new directory. */
int __must_check ext4_dir_make(struct ext4_op *op, struct ext4_inode *dir, uint32_t parent);
/* Nothing but "." and ".."?  1, 0, or -errno. */
int __must_check ext4_dir_is_empty(struct ext4_inode *dir);
/* A block at the directory's end: held, zeroed, with write access; its number in *@lblk. */
struct bcache_buf *ext4_dir_append(struct ext4_op *op, struct ext4_inode *dir, uint32_t *lblk);

/*
 * dir_entry.c: in p->len bytes of entries: a name into p->room, or the entry p->at away or changed;
 * pure.  *@sum, if it is not NULL: by which value the CRC of the bytes has changed.
 */
void ext4_entry_add(const struct ext4_fs *fs, uint8_t *data, const struct ext4_place *p,
		    const char *name, size_t name_len, uint32_t ino, uint32_t mode, uint32_t *sum);
void ext4_entry_remove(const struct ext4_fs *fs, uint8_t *data, const struct ext4_place *p,
		       uint32_t *sum);
void ext4_entry_set(const struct ext4_fs *fs, uint8_t *data, const struct ext4_place *p,
		    uint32_t ino, uint32_t mode, uint32_t *sum);
uint8_t ext4_file_type(const struct ext4_fs *fs, uint32_t mode);
le16_t ext4_rec_len_disk(uint32_t len, uint32_t block_size);
/* Put an empty block's entry and its tail there. */
void ext4_leaf_init(const struct ext4_inode *dir, uint8_t *data);
/* Checksum and ext4_dirty() of a changed block of entries. */
int __must_check ext4_leaf_dirty(struct ext4_op *op, const struct ext4_inode *dir,
				 struct bcache_buf *buf);
/* The same of one that ext4_dir_block() has checked, for a change that has told @sum. */
int __must_check ext4_leaf_changed(struct ext4_op *op, const struct ext4_inode *dir,
				   struct bcache_buf *buf, uint32_t sum);
/* htree_add.c */
int __must_check ext4_htree_add(struct ext4_op *op, struct ext4_inode *dir, const char *name,
				size_t len, uint32_t ino, uint32_t mode);
int __must_check ext4_htree_make(struct ext4_op *op, struct ext4_inode *dir);

/* namei.c: shared with rename.c. */
int __must_check ext4_name_check(const char *name, size_t len);
/* Is @dir a directory in which names can be changed? */
int __must_check ext4_dir_check(const struct ext4_inode *dir);
int __must_check ext4_link_room(const struct ext4_inode *in);
/* A subdirectory came, or went. */
void ext4_dir_link(struct ext4_inode *dir);
void ext4_dir_unlink(struct ext4_inode *dir);
/*
 * @in lost a name in @dir; with its last one it becomes an orphan, or goes at once.  Writes @in,
 * but not @dir.
 */
int __must_check ext4_drop_link(struct ext4_op *op, struct ext4_inode *dir, struct ext4_inode *in);

/* namei.c, rename.c, write.c, promise.c, fallocate.c, setattr.c: as <fs/fs.h> says. */
struct ext4_inode *ext4_create(struct ext4_inode *dir, const char *name, size_t len,
			       const struct fs_new *what, const struct fs_change *ch);
struct ext4_inode *ext4_tmpfile(struct ext4_inode *dir, const struct fs_new *what,
				const struct fs_change *ch);
int ext4_link(struct ext4_inode *in, struct ext4_inode *dir, const char *name, size_t len,
	      const struct fs_change *ch);
int ext4_unlink(struct ext4_inode *dir, const char *name, size_t len, bool is_rmdir,
		const struct fs_change *ch);
int ext4_rename(struct ext4_inode *from, const char *name, size_t len, struct ext4_inode *to,
		const char *to_name, size_t to_len, uint32_t flags, const struct fs_change *ch);
uint64_t ext4_max_size(const struct ext4_inode *in);
int ext4_write_pages(struct ext4_inode *in, uint64_t off, uint64_t len, void *const *pages,
		     uint64_t new_size, const struct fs_change *ch);
int ext4_promise(struct ext4_inode *in, struct fs_promise *p, const struct fs_change *ch);
/* Blocks for @pages pages that have none, wherever in the file they are; fs->change is held. */
uint64_t ext4_promise_blocks(const struct ext4_inode *in, uint64_t pages);
int ext4_fallocate(struct ext4_inode *in, uint32_t mode, uint64_t off, uint64_t len,
		   const struct fs_change *ch);
int ext4_setattr(struct ext4_inode *in, const struct fs_attr *attr, const struct fs_change *ch);

/* xattr_write.c */
int ext4_xattr_set(struct ext4_inode *in, const struct fs_xattr *x, uint32_t flags,
		   const struct fs_change *ch);
int ext4_xattr_set_op(struct ext4_op *op, struct ext4_inode *in, const struct fs_xattr *x,
		      uint32_t flags);
/* An access ACL follows a new mode. */
int __must_check ext4_acl_chmod(struct ext4_op *op, struct ext4_inode *in);
int __must_check ext4_xattr_drop_block(struct ext4_op *op, struct ext4_inode *in);

/* evict.c */
void ext4_close_ref(struct ext4_inode *in);
void ext4_open_ref(struct ext4_inode *in);
void ext4_orphans_release(struct ext4_fs *fs);
/* An inode may have lost its last name: free it if it is not open. */
void ext4_evict_unused(struct ext4_inode *in);
/* Free what could not be freed for want of memory. */
void ext4_evict_again(struct ext4_fs *fs);
/* After -ENOSPC: is it worth a second try? */
bool ext4_room_after_sync(struct ext4_fs *fs);

/* After the journal's start: changes are possible from here on. */
int __must_check ext4_write_start(struct ext4_fs *fs);
/* Before the journal's end. */
void ext4_write_stop(struct ext4_fs *fs);

/* feature_rw.c: may we write this file system?  If not, a line in the log says why. */
bool ext4_features_writable(const struct ext4_fs *fs);

/* change_ops.c */
extern const struct fs_write_ops ext4_write_ops;
