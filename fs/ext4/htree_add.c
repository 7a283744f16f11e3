/* SPDX-License-Identifier: MIT */
/*
 * ext4: adding to directories with a hash index.
 *
 * A full leaf gives the upper half of its names, by hash, to a new block; a full node of the index
 * likewise; a full root moves into a node, and the index gets a level.  One step at a time, then
 * the name is looked for again, until its leaf has room.
 *
 * Locking:	dir->lock for writing.
 * Failure:	-ENOSPC leaves a valid index with the same names.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "htree_priv.h"

/* An entry of a leaf by its hash. */
struct hashed {
	uint32_t hash;
	uint32_t at;   /* byte position */
	uint32_t need; /* bytes */
};

static struct ext4_dx_entry *entries_of(struct bcache_buf *buf, bool root)
{
	return (void *)(buf->data + htree_entries_offset(root));
}

static uint32_t dx_limit(const struct ext4_fs *fs, bool root)
{
	uint32_t room = fs->block_size - htree_entries_offset(root);

	if (fs->has_csum)
		room -= (uint32_t)sizeof(struct ext4_dx_tail);
	return room / (uint32_t)sizeof(struct ext4_dx_entry);
}

static void set_count(struct ext4_dx_entry *entries, uint32_t limit, uint32_t count)
{
	const struct ext4_dx_countlimit cl = { .limit = cpu_to_le16((uint16_t)limit),
					       .count = cpu_to_le16((uint16_t)count) };

	ASSERT(count && count <= limit);
	memcpy(&entries[0].hash, &cl, sizeof(cl));
}

int ext4_dx_dirty(struct ext4_op *op, struct ext4_inode *dir, struct bcache_buf *buf, bool root)
{
	const struct ext4_fs *fs = dir->fs;
	struct ext4_dx_entry *entries = entries_of(buf, root);
	const uint32_t limit = dx_limit(fs, root);
	struct ext4_dx_countlimit cl;
	struct ext4_dx_tail *tail = (void *)(entries + limit);

	memcpy(&cl, entries, sizeof(cl));
	if (fs->has_csum)
		tail->checksum = cpu_to_le32(
			ext4_dx_csum(dir, buf->data, root, le16_to_cpu(cl.count), tail));
	WRITE_ONCE(buf->checked_as, 0);
	return ext4_dirty(op->h, buf);
}

bool ext4_htree_possible(const struct ext4_fs *fs)
{
	return (fs->compat & EXT4_COMPAT_DIR_INDEX) && fs->def_hash_version <= EXT4_HASH_TEA;
}

/* An empty node's header: it looks like a block without names. */
static void init_node(const struct ext4_fs *fs, struct bcache_buf *buf)
{
	struct ext4_dirent_disk *de = (void *)buf->data;

	memset(buf->data, 0, fs->block_size);
	de->rec_len = ext4_rec_len_disk(fs->block_size, fs->block_size);
}

/* Put (@hash, @lblk) behind the current entry of level @i, which has room. */
static int add_index(struct ext4_op *op, struct htree_walk *w, unsigned int i, uint32_t hash,
		     uint32_t lblk)
{
	struct htree_level *l = &w->level[i];
	struct ext4_dx_entry *e = entries_of(l->buf, i == 0);
	int err;

	err = ext4_write_access(op->h, l->buf);
	if (err)
		return err;
	memmove(&e[l->at + 2], &e[l->at + 1], (l->count - l->at - 1) * sizeof(*e));
	e[l->at + 1] =
		(struct ext4_dx_entry){ .hash = cpu_to_le32(hash), .block = cpu_to_le32(lblk) };
	set_count(e, dx_limit(op->fs, i == 0), l->count + 1);
	return ext4_dx_dirty(op, w->dir, l->buf, i == 0);
}

/* The root's entries move into a node of their own. */
static int grow(struct ext4_op *op, struct htree_walk *w)
{
	struct ext4_inode *dir = w->dir;
	struct bcache_buf *root = w->level[0].buf, *buf;
	struct ext4_dx_entry *from = entries_of(root, true), *to;
	struct ext4_dx_root_info *info = (void *)(root->data + EXT4_DX_ROOT_INFO_OFFSET);
	const uint32_t count = w->level[0].count;
	uint32_t lblk;
	int err;

	if (w->nr_levels == htree_max_levels(op->fs))
		return -ENOSPC;
	buf = ext4_dir_append(op, dir, &lblk);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	init_node(op->fs, buf);
	to = entries_of(buf, false);
	memcpy(to, from, count * sizeof(*to));
	set_count(to, dx_limit(op->fs, false), count);
	err = ext4_dx_dirty(op, dir, buf, false);
	bcache_put(buf);
	if (!err)
		err = ext4_write_access(op->h, root);
	if (err)
		return err;
	memset(from + 1, 0, (count - 1) * sizeof(*from));
	from[0].block = cpu_to_le32(lblk);
	set_count(from, dx_limit(op->fs, true), 1);
	info->indirect_levels++;
	return ext4_dx_dirty(op, dir, root, true);
}

/* The upper half of the full node at level @i moves into a new one; the level above has room. */
static int split_node(struct ext4_op *op, struct htree_walk *w, unsigned int i)
{
	struct htree_level *l = &w->level[i];
	struct ext4_dx_entry *from = entries_of(l->buf, false), *to;
	const uint32_t stay = l->count / 2, limit = dx_limit(op->fs, false);
	const uint32_t hash = le32_to_cpu(from[stay].hash);
	struct bcache_buf *buf;
	uint32_t lblk;
	int err;

	ASSERT(i && stay);
	buf = ext4_dir_append(op, w->dir, &lblk);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	init_node(op->fs, buf);
	to = entries_of(buf, false);
	memcpy(to, from + stay, (l->count - stay) * sizeof(*to));
	set_count(to, limit, l->count - stay);
	err = ext4_dx_dirty(op, w->dir, buf, false);
	bcache_put(buf);
	if (!err)
		err = ext4_write_access(op->h, l->buf);
	if (err)
		return err;
	memset(from + stay, 0, (l->count - stay) * sizeof(*from));
	set_count(from, limit, stay);
	err = ext4_dx_dirty(op, w->dir, l->buf, false);
	return err ? err : add_index(op, w, i - 1, hash, lblk);
}

static void swap(struct hashed *a, struct hashed *b)
{
	const struct hashed tmp = *a;

	*a = *b;
	*b = tmp;
}

static void sift_down(struct hashed *a, uint32_t root, uint32_t n)
{
	for (;;) {
		uint32_t child = 2 * root + 1;

		if (child >= n)
			return;
		if (child + 1 < n && a[child + 1].hash > a[child].hash)
			child++;
		if (a[root].hash >= a[child].hash)
			return;
		swap(&a[root], &a[child]);
		root = child;
	}
}

static void sort_by_hash(struct hashed *a, uint32_t n)
{
	for (uint32_t i = n / 2; i-- > 0;)
		sift_down(a, i, n);
	for (uint32_t i = n; i-- > 1;) {
		swap(&a[0], &a[i]);
		sift_down(a, 0, i);
	}
}

/* The entries of a leaf by their hashes.  Returns how many. */
static uint32_t hash_leaf(const struct htree_walk *w, const uint8_t *data, uint32_t len,
			  struct hashed *out)
{
	const struct ext4_fs *fs = w->dir->fs;
	uint32_t at = 0, n = 0;

	while (at < len) {
		const struct ext4_dirent_disk *de = (const void *)(data + at);

		if (de->ino) {
			out[n].at = at;
			out[n].need = (uint32_t)ALIGN_UP(sizeof(*de) + de->name_len, (size_t)4);
			if (!ext4_dirhash(w->version, fs->hash_seed, de->name, de->name_len,
					  &out[n].hash))
				n++;
		}
		at += ext4_rec_len(de->rec_len, fs->block_size);
	}
	sort_by_hash(out, n);
	return n;
}

/* Make @dst a leaf that holds the @n entries @e of @src. */
static void pack(const struct ext4_inode *dir, uint8_t *dst, const uint8_t *src,
		 const struct hashed *e, uint32_t n)
{
	const struct ext4_fs *fs = dir->fs;
	struct ext4_dirent_disk *de = (void *)dst;
	uint32_t len, at = 0;

	ext4_leaf_init(dir, dst);
	len = ext4_rec_len(de->rec_len, fs->block_size);
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t rec_len = i + 1 < n ? e[i].need : len - at;

		memcpy(dst + at, src + e[i].at, e[i].need);
		de = (void *)(dst + at);
		de->rec_len = ext4_rec_len_disk(rec_len, fs->block_size);
		at += e[i].need;
	}
}

/* How many of the @n sorted entries stay in the leaf: about half the bytes. */
static uint32_t split_point(const struct hashed *e, uint32_t n, uint32_t block_size)
{
	uint32_t size = 0, stay = n;

	while (stay > 1 && size + e[stay - 1].need / 2 <= block_size / 2)
		size += e[--stay].need;
	return MIN(stay, n - 1);
}

/* Move the upper half of the full leaf @buf, whose index node has room, into a new one. */
static int split_leaf(struct ext4_op *op, struct htree_walk *w, struct bcache_buf *buf,
		      uint32_t len)
{
	struct ext4_inode *dir = w->dir;
	const uint32_t bs = op->fs->block_size;
	struct hashed *e = ext4_alloc(op->fs, (bs / 12 + 1) * sizeof(*e));
	uint8_t *copy = ext4_alloc(op->fs, bs);
	struct bcache_buf *fresh = NULL;
	uint32_t n, stay, hash, lblk;
	int err = -ENOMEM;

	if (!e || !copy)
		goto out;
	n = hash_leaf(w, buf->data, len, e);
	err = -ENOSPC;
	if (n < 2)
		goto out;
	stay = split_point(e, n, bs);
	/* Names of one hash that are divided: bit 0 says that the hash began in the leaf before. */
	hash = e[stay].hash | (e[stay - 1].hash == e[stay].hash);
	fresh = ext4_dir_append(op, dir, &lblk);
	if (IS_ERR(fresh)) {
		err = (int)PTR_ERR(fresh);
		fresh = NULL;
		goto out;
	}
	memcpy(copy, buf->data, bs);
	dir->names_moved++;
	pack(dir, fresh->data, copy, e + stay, n - stay);
	err = ext4_leaf_dirty(op, dir, fresh);
	if (!err)
		err = ext4_write_access(op->h, buf);
	if (!err) {
		pack(dir, buf->data, copy, e, stay);
		err = ext4_leaf_dirty(op, dir, buf);
	}
	if (!err)
		err = add_index(op, w, w->nr_levels - 1, hash, lblk);
	if (err)
		err = ext4_op_abort(op, err, "splitting a directory block");
out:
	if (fresh)
		bcache_put(fresh);
	kfree(copy);
	kfree(e);
	return err;
}

/* Make room in the index for one more entry at its last level: one step.  0: done, 1: again. */
static int index_room(struct ext4_op *op, struct htree_walk *w)
{
	unsigned int i = w->nr_levels;
	int err;

	while (i > 0 && w->level[i - 1].count == dx_limit(op->fs, i == 1))
		i--;
	if (i == w->nr_levels)
		return 0;
	/* Level i is the topmost of those that are full down to the leaves. */
	if (i == 0)
		err = grow(op, w);
	else
		err = split_node(op, w, i);
	if (err && err != -ENOSPC)
		return ext4_op_abort(op, err, "splitting a directory index");
	return err ? err : 1;
}

/* One try: 0, or 1 when something was split and the way has to be looked for again. */
static int try_add(struct ext4_op *op, struct htree_walk *w, const char *name, size_t len,
		   uint32_t ino, uint32_t mode)
{
	struct ext4_place p = { .need = ext4_entry_need(len) };
	uint32_t lblk, sum;
	int err;

	err = htree_start(w, name, len);
	if (!err)
		err = htree_entry_block(w, w->nr_levels - 1, &lblk);
	if (err)
		return err == -EAGAIN ? -EOPNOTSUPP : err;
	p.buf = ext4_dir_block(w->dir, lblk, EXT4_CHECK_DIR, &p.len);
	if (IS_ERR(p.buf))
		return (int)PTR_ERR(p.buf);
	(void)ext4_entry_search(op->fs, p.buf->data, name, len, &p); /* for room */
	err = ext4_write_access(op->h, p.buf);
	if (!err && p.room < p.len) {
		ext4_entry_add(op->fs, p.buf->data, &p, name, len, ino, mode, &sum);
		w->dir->names_added++;
		err = ext4_leaf_changed(op, w->dir, p.buf, sum);
	} else if (!err) {
		err = index_room(op, w);
		if (!err) {
			err = split_leaf(op, w, p.buf, p.len);
			if (!err)
				err = 1;
		}
	}
	ext4_place_put(&p);
	return err;
}

int ext4_htree_add(struct ext4_op *op, struct ext4_inode *dir, const char *name, size_t len,
		   uint32_t ino, uint32_t mode)
{
	struct htree_walk w;
	int err;

	do {
		htree_init(&w, dir);
		err = try_add(op, &w, name, len, ino, mode);
		htree_put(&w);
	} while (err == 1);
	return err;
}

static void make_root(struct ext4_inode *dir, struct bcache_buf *buf, uint32_t leaf)
{
	const struct ext4_fs *fs = dir->fs;
	struct ext4_dirent_disk *dotdot = (void *)(buf->data + 12);
	struct ext4_dx_root_info *info = (void *)(buf->data + EXT4_DX_ROOT_INFO_OFFSET);
	struct ext4_dx_entry *entries = entries_of(buf, true);

	memset(buf->data + EXT4_DX_ROOT_INFO_OFFSET, 0, fs->block_size - EXT4_DX_ROOT_INFO_OFFSET);
	dotdot->rec_len = ext4_rec_len_disk(fs->block_size - 12, fs->block_size);
	info->hash_version = fs->def_hash_version;
	info->info_len = sizeof(*info);
	entries[0].block = cpu_to_le32(leaf);
	set_count(entries, dx_limit(fs, true), 1);
}

/* Where the entries behind ".." begin; what ".." has room for beyond its name is no entry. */
static uint32_t behind_dots(const struct ext4_fs *fs, const uint8_t *data)
{
	const struct ext4_dirent_disk *dotdot = (const void *)(data + 12);

	return 12 + ext4_rec_len(dotdot->rec_len, fs->block_size);
}

/* Do "." and ".." stand where an index's root needs them? */
static bool dots_in_place(const struct ext4_fs *fs, const uint8_t *data)
{
	const struct ext4_dirent_disk *dot = (const void *)data;
	const struct ext4_dirent_disk *dotdot = (const void *)(data + 12);

	return ext4_rec_len(dot->rec_len, fs->block_size) == 12 && dot->name_len == 1 &&
	       dot->name[0] == '.' && dotdot->name_len == 2 && !memcmp(dotdot->name, "..", 2);
}

int ext4_htree_make(struct ext4_op *op, struct ext4_inode *dir)
{
	const struct ext4_fs *fs = dir->fs;
	struct bcache_buf *root, *leaf = NULL;
	struct hashed *e = ext4_alloc(op->fs, (fs->block_size / 12 + 1) * sizeof(*e));
	struct htree_walk w = { .dir = dir };
	uint32_t len, lblk, n, from;
	int err;

	if (!e)
		return -ENOMEM;
	root = ext4_dir_block(dir, 0, EXT4_CHECK_DIR, &len);
	if (IS_ERR(root)) {
		kfree(e);
		return (int)PTR_ERR(root);
	}
	err = -EUCLEAN;
	if (!dots_in_place(fs, root->data)) {
		ext4_corrupt(op->fs, "directory %u: no \".\" and \"..\"", dir->ino);
		goto out;
	}
	err = ext4_write_access(op->h, root);
	if (err)
		goto out;
	leaf = ext4_dir_append(op, dir, &lblk);
	if (IS_ERR(leaf)) {
		err = (int)PTR_ERR(leaf);
		leaf = NULL;
		goto out;
	}
	w.version = htree_hash_version(fs, fs->def_hash_version);
	/* Behind "." and "..", within the block, as was checked: the positions count from there. */
	from = behind_dots(fs, root->data);
	n = hash_leaf(&w, root->data + from, len - from, e);
	dir->names_moved++;
	pack(dir, leaf->data, root->data + from, e, n);
	err = ext4_leaf_dirty(op, dir, leaf);
	if (!err) {
		make_root(dir, root, lblk);
		dir->flags |= EXT4_FL_INDEX;
		err = ext4_dx_dirty(op, dir, root, true);
	}
	if (err)
		err = ext4_op_abort(op, err, "making a directory index");
out:
	if (leaf)
		bcache_put(leaf);
	bcache_put(root);
	kfree(e);
	return err;
}
