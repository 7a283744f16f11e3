/* SPDX-License-Identifier: MIT */
/*
 * ext4: directories listed.
 *
 * With the feature dir_index a cookie is a place in the order of hashes, as Linux has it: it stays
 * good while names come and go, and while a directory of one block gets an index.  0 is ".", 1 is
 * "..".  The names of one leaf are sorted; leaves of an index follow each other.  In a directory of
 * several blocks without an index, and without the feature, cookies are byte positions.  Names of
 * the same 63 bits of hash are in the order of name_tie().
 *
 * Context:	threads; may sleep for the disk.
 * Locking:	dir->lock for reading, for one call.
 * Limits:	the names of one hash, and those of the leaves that they lie in, are in memory at
 *		a time.
 */
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/name_tie.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "htree_priv.h"

#define FIRST_PLACE 2u /* behind "." and ".." */
#define END_PLACE   ((uint64_t)INT64_MAX)

/* One name, by its place. */
struct place {
	uint64_t at;
	uint32_t offset; /* in the lister's bytes */
};

/* A listing under way. */
struct lister {
	struct ext4_inode *dir;
	uint64_t *cookie;
	fs_fill_fn fill;
	void *arg;
	uint64_t behind;      /* of names at behind_at those up to this tie are left out */
	uint64_t behind_at;   /* the cookie of the call */
	unsigned int version; /* of the hash */

	/* The names of one leaf, or of those over which one hash goes. */
	struct place *places;
	uint32_t nr, room;
	uint8_t *bytes;
	uint32_t len;
};

/* The type of an entry, if the disk has it. */
static uint8_t dtype_of(const struct ext4_fs *fs, uint8_t file_type)
{
	static const uint8_t types[] = {
		DT_UNKNOWN, DT_REG, DT_DIR, DT_CHR, DT_BLK, DT_FIFO, DT_SOCK, DT_LNK,
	};

	if (!(fs->incompat & EXT4_INCOMPAT_FILETYPE) || file_type >= ARRAY_SIZE(types))
		return DT_UNKNOWN;
	return types[file_type];
}

static bool is_dots(const struct ext4_dirent_disk *de)
{
	return (de->name_len == 1 && de->name[0] == '.') ||
	       (de->name_len == 2 && de->name[0] == '.' && de->name[1] == '.');
}

/* Add the entries of @len checked bytes, whose copy begins at @base. */
static int add_places(struct lister *l, uint32_t base, uint32_t len)
{
	const struct ext4_fs *fs = l->dir->fs;
	uint32_t hash, minor;
	int err;

	for (uint32_t at = 0; at < len;) {
		const struct ext4_dirent_disk *de = (const void *)(l->bytes + base + at);

		if (de->ino && !is_dots(de)) {
			ASSERT(l->nr < l->room);
			err = ext4_dirhash2(l->version, fs->hash_seed, de->name, de->name_len,
					    &hash, &minor);
			if (err)
				return err;
			l->places[l->nr++] = (struct place){
				.at = MAX((uint64_t)(hash >> 1) << 32 | minor,
					  (uint64_t)FIRST_PLACE),
				.offset = base + at,
			};
		}
		at += ext4_rec_len(de->rec_len, fs->block_size);
	}
	return 0;
}

/* Copy @len more bytes of entries, and add them. */
static int add_bytes(struct lister *l, const uint8_t *data, uint32_t len)
{
	const uint32_t total = l->len + len, room = l->nr + len / 12 + 1, base = l->len;
	uint8_t *bytes = kmalloc(total);
	struct place *places = kcalloc(room, sizeof(*places));

	if (!bytes || !places) {
		kfree(bytes);
		kfree(places);
		return -ENOMEM;
	}
	if (l->len)
		memcpy(bytes, l->bytes, l->len);
	if (l->nr)
		memcpy(places, l->places, l->nr * sizeof(*places));
	memcpy(bytes + l->len, data, len);
	kfree(l->bytes);
	kfree(l->places);
	l->bytes = bytes;
	l->places = places;
	l->room = room;
	l->len = total;
	return add_places(l, base, len);
}

static void forget_places(struct lister *l)
{
	kfree(l->bytes);
	kfree(l->places);
	l->bytes = NULL;
	l->places = NULL;
	l->len = l->nr = l->room = 0;
}

static uint64_t tie_of(const struct lister *l, const struct place *p)
{
	const struct ext4_dirent_disk *de = (const void *)(l->bytes + p->offset);

	return name_tie(de->name, de->name_len);
}

static bool is_before(const struct lister *l, const struct place *a, const struct place *b)
{
	return a->at == b->at ? tie_of(l, a) < tie_of(l, b) : a->at < b->at;
}

static void sift_down(const struct lister *l, uint32_t root, uint32_t n)
{
	struct place *a = l->places;

	for (;;) {
		uint32_t child = 2 * root + 1;

		if (child >= n)
			return;
		if (child + 1 < n && is_before(l, &a[child], &a[child + 1]))
			child++;
		if (!is_before(l, &a[root], &a[child]))
			return;
		const struct place tmp = a[root];

		a[root] = a[child];
		a[child] = tmp;
		root = child;
	}
}

static void sort_places(const struct lister *l)
{
	struct place *a = l->places;

	for (uint32_t i = l->nr / 2; i-- > 0;)
		sift_down(l, i, l->nr);
	for (uint32_t i = l->nr; i-- > 1;) {
		const struct place tmp = a[0];

		a[0] = a[i];
		a[i] = tmp;
		sift_down(l, 0, i);
	}
}

/* Has the caller had the name, or begun behind it? */
static bool is_taken(const struct lister *l, const struct place *p)
{
	if (p->at < *l->cookie)
		return true;
	return l->behind && p->at == l->behind_at && tie_of(l, p) <= l->behind;
}

/* Give the gathered names from the cookie on, in order.  1: the caller wants no more. */
static int give_places(struct lister *l)
{
	sort_places(l);
	for (uint32_t i = 0; i < l->nr; i++) {
		const struct ext4_dirent_disk *de = (const void *)(l->bytes + l->places[i].offset);
		const uint64_t at = l->places[i].at;
		const bool same = i + 1 < l->nr && l->places[i + 1].at == at;
		const struct fs_dirent out = {
			.next_cookie = same ? at : at + 1,
			.name = de->name,
			.ino = le32_to_cpu(de->ino),
			.name_len = de->name_len,
			.dtype = dtype_of(l->dir->fs, de->file_type),
			.more = same,
		};
		int stop;

		if (is_taken(l, &l->places[i]))
			continue;
		stop = l->fill(l->arg, &out);
		if (stop)
			return 1;
		if (!same)
			*l->cookie = out.next_cookie;
	}
	return 0;
}

/* "." and "..", which no hash orders. */
static int give_dots(struct lister *l)
{
	uint32_t parent;
	int err;

	for (; *l->cookie < FIRST_PLACE; (*l->cookie)++) {
		const bool up = *l->cookie == 1;

		err = up ? ext4_dir_find(l->dir, "..", 2, &parent) : 0;
		if (err)
			return err == -ENOENT ? ext4_corrupt(l->dir->fs, "directory %u: no \"..\"",
							     l->dir->ino)
					      : err;
		const struct fs_dirent out = {
			.next_cookie = *l->cookie + 1,
			.name = "..",
			.ino = up ? parent : l->dir->ino,
			.name_len = up ? 2 : 1,
			.dtype = DT_DIR,
		};

		if (l->fill(l->arg, &out))
			return 1;
	}
	return 0;
}

static int list_inline(struct lister *l)
{
	const uint8_t *data;
	uint32_t len;
	int err = 0;

	for (unsigned int part = 0; part < 2 && !err; part++) {
		data = ext4_inline_entries(l->dir, part, &len);
		if (len)
			err = add_bytes(l, data, len);
	}
	return err ? err : give_places(l);
}

static int add_block(struct lister *l, uint32_t lblk)
{
	struct bcache_buf *buf;
	uint32_t len;
	int err;

	buf = ext4_dir_block(l->dir, lblk, EXT4_CHECK_DIR, &len);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	err = add_bytes(l, buf->data, len);
	bcache_put(buf);
	return err;
}

/* The leaf where the walk stands, and those where its last hash goes on.  1: more leaves follow. */
static int add_leaves(struct lister *l, struct htree_walk *w)
{
	uint32_t lblk;
	int err, more;

	do {
		err = htree_entry_block(w, w->nr_levels - 1, &lblk);
		if (!err)
			err = add_block(l, lblk);
		if (err)
			return err;
		more = htree_next_leaf(w, false);
		if (more > 0)
			w->hash = htree_current_hash(w);
	} while (more > 0 && (w->hash & 1));
	return more;
}

static int list_index(struct lister *l)
{
	struct htree_walk w;
	int err, stop = 0;

	htree_init(&w, l->dir);
	w.hash = (uint32_t)(*l->cookie >> 32) << 1;
	err = htree_start(&w, NULL, 0);
	l->version = w.version;
	if (!err)
		err = 1;
	while (err == 1 && !stop) {
		forget_places(l);
		err = add_leaves(l, &w);
		if (err >= 0)
			stop = give_places(l);
	}
	htree_put(&w);
	return err < 0 ? err : stop;
}

/* Can names of this index be hashed? */
static int index_usable(struct ext4_inode *dir)
{
	struct htree_walk w;
	uint32_t hash, minor;
	int err;

	htree_init(&w, dir);
	w.hash = 0;
	err = htree_start(&w, NULL, 0);
	if (!err && ext4_dirhash2(w.version, dir->fs->hash_seed, "x", 1, &hash, &minor))
		err = -EAGAIN;
	htree_put(&w);
	return err == -EAGAIN ? 0 : err ? err : 1;
}

/* Are cookies of this directory hashes?  1, 0, -errno. */
static int by_hash(struct ext4_inode *dir)
{
	if (dir->flags & EXT4_FL_INLINE_DATA)
		return 1;
	if (ext4_dir_is_indexed(dir))
		return index_usable(dir);
	return (dir->fs->compat & EXT4_COMPAT_DIR_INDEX) && ext4_dir_nr_blocks(dir) == 1;
}

static int list_by_hash(struct lister *l)
{
	const uint8_t base = l->dir->fs->def_hash_version;
	int err;

	if (*l->cookie == END_PLACE)
		return 0;
	l->version =
		htree_hash_version(l->dir->fs, base <= EXT4_HASH_TEA ? base : EXT4_HASH_HALF_MD4);
	err = give_dots(l);
	if (err)
		return err;
	if (l->dir->flags & EXT4_FL_INLINE_DATA) {
		err = list_inline(l);
	} else if (ext4_dir_is_indexed(l->dir)) {
		err = list_index(l);
	} else {
		err = add_block(l, 0);
		if (!err)
			err = give_places(l);
	}
	forget_places(l);
	if (!err)
		*l->cookie = END_PLACE;
	return err;
}

/* The entries of one checked block, whose first byte has position @start. */
static int give_block(struct lister *l, const uint8_t *data, uint32_t len, uint64_t start)
{
	const struct ext4_fs *fs = l->dir->fs;

	for (uint32_t at = 0; at < len;) {
		const struct ext4_dirent_disk *de = (const void *)(data + at);
		const uint32_t rec_len = ext4_rec_len(de->rec_len, fs->block_size);
		const struct fs_dirent out = {
			.next_cookie = start + at + rec_len,
			.name = de->name,
			.ino = le32_to_cpu(de->ino),
			.name_len = de->name_len,
			.dtype = dtype_of(fs, de->file_type),
		};

		if (de->ino && start + at >= *l->cookie) {
			if (l->fill(l->arg, &out))
				return 1;
			*l->cookie = out.next_cookie;
		}
		at += rec_len;
	}
	return 0;
}

static int list_by_position(struct lister *l)
{
	const struct ext4_fs *fs = l->dir->fs;
	struct bcache_buf *buf;
	uint64_t start;
	uint32_t len;
	int stop;

	while (*l->cookie < l->dir->size) {
		const uint32_t lblk = (uint32_t)(*l->cookie >> fs->block_bits);

		buf = ext4_dir_block(l->dir, lblk, EXT4_CHECK_DIR, &len);
		if (IS_ERR(buf))
			return (int)PTR_ERR(buf);
		start = (uint64_t)lblk << fs->block_bits;
		stop = give_block(l, buf->data, len, start);
		bcache_put(buf);
		if (stop)
			return 1;
		*l->cookie = start + fs->block_size;
	}
	return 0;
}

static int list(struct lister *l)
{
	int err;

	if (l->dir->gone)
		return -ESTALE;
	if (!ext4_is_dir(l->dir))
		return -ENOTDIR;
	err = by_hash(l->dir);
	if (err < 0)
		return err;
	return err ? list_by_hash(l) : list_by_position(l);
}

int ext4_readdir(struct ext4_inode *dir, uint64_t *cookie, uint64_t behind, fs_fill_fn fill,
		 void *arg)
{
	struct lister l = {
		.dir = dir,
		.cookie = cookie,
		.fill = fill,
		.arg = arg,
		.behind = behind,
		.behind_at = *cookie,
	};
	int err;

	rwsem_read_lock(&dir->lock);
	err = list(&l);
	rwsem_read_unlock(&dir->lock);
	return MIN(err, 0);
}
