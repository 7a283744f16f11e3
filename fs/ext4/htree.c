/* SPDX-License-Identifier: MIT */
/*
 * ext4: looking up a name by a directory's hash index.
 *
 * The root is block 0, below it are up to two levels of inner nodes; each holds pairs of
 * (smallest hash, block), the first pair's hash being its predecessor's.  Leaves are plain
 * directory blocks.  Names of one hash may go on in the next leaf, whose hash then has
 * bit 0 set.
 *
 * Failure:	the depth is fixed by the root and the walk over equal hashes is limited to
 *		as many steps as the directory has blocks, so no index can hold us up.
 */
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "htree_priv.h"

static struct ext4_dx_countlimit countlimit(const uint8_t *data, bool root)
{
	struct ext4_dx_countlimit cl;

	memcpy(&cl, data + htree_entries_offset(root), sizeof(cl));
	return cl;
}

static struct ext4_dx_root_info root_info(const uint8_t *data)
{
	struct ext4_dx_root_info info;

	memcpy(&info, data + EXT4_DX_ROOT_INFO_OFFSET, sizeof(info));
	return info;
}

static bool root_ok(const struct ext4_fs *fs, const uint8_t *data)
{
	const struct ext4_dirent_disk *dot = (const void *)data;
	const struct ext4_dirent_disk *dotdot = (const void *)(data + 12);
	const struct ext4_dx_root_info info = root_info(data);

	return le16_to_cpu(dot->rec_len) == 12 &&
	       ext4_rec_len(dotdot->rec_len, fs->block_size) == fs->block_size - 12 &&
	       !info.reserved && info.info_len == sizeof(info);
}

uint32_t ext4_dx_csum(const struct ext4_inode *dir, const uint8_t *data, bool root, uint32_t count,
		      const struct ext4_dx_tail *tail)
{
	const size_t len =
		htree_entries_offset(root) + (size_t)count * sizeof(struct ext4_dx_entry);
	const le32_t zero = cpu_to_le32(0);
	uint32_t crc = crc32c(dir->csum_seed, data, len);

	crc = crc32c(crc, &tail->reserved, sizeof(tail->reserved));
	return crc32c(crc, &zero, sizeof(zero));
}

int ext4_dx_check(const struct ext4_inode *dir, const uint8_t *data, bool root, uint32_t lblk)
{
	const struct ext4_fs *fs = dir->fs;
	const struct ext4_dx_countlimit cl = countlimit(data, root);
	const uint32_t limit = le16_to_cpu(cl.limit), count = le16_to_cpu(cl.count);
	const uint32_t offset = htree_entries_offset(root);
	uint32_t room = fs->block_size - offset;
	struct ext4_dx_tail tail;

	if (root && !root_ok(fs, data))
		return ext4_corrupt(dir->fs, "directory %u: index root", dir->ino);
	if (fs->has_csum)
		room -= sizeof(tail);
	if (limit != room / sizeof(struct ext4_dx_entry) || !count || count > limit)
		return ext4_corrupt(dir->fs, "directory %u: index block %u: %u of %u entries",
				    dir->ino, lblk, count, limit);
	if (!fs->has_csum)
		return 0;
	memcpy(&tail, data + offset + (size_t)limit * sizeof(struct ext4_dx_entry), sizeof(tail));
	if (ext4_dx_csum(dir, data, root, count, &tail) != le32_to_cpu(tail.checksum))
		return ext4_corrupt(dir->fs, "directory %u: index block %u: checksum", dir->ino,
				    lblk);
	return 0;
}

/* The last entry whose hash is at most @hash; the first one's counts as 0. */
static uint32_t find_entry(const struct htree_level *l, uint32_t hash)
{
	uint32_t lo = 1, hi = l->count;

	while (lo < hi) {
		const uint32_t mid = lo + (hi - lo) / 2;

		if (le32_to_cpu(l->entries[mid].hash) <= hash)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo - 1;
}

static int load_level(struct htree_walk *w, unsigned int i, uint32_t lblk)
{
	struct htree_level *l = &w->level[i];
	const bool root = i == 0;
	uint32_t len;

	l->buf = ext4_dir_block(w->dir, lblk, root ? EXT4_CHECK_DX_ROOT : EXT4_CHECK_DX_NODE, &len);
	if (IS_ERR(l->buf)) {
		const int err = (int)PTR_ERR(l->buf);

		l->buf = NULL;
		return err;
	}
	l->entries = (const void *)(l->buf->data + htree_entries_offset(root));
	l->count = le16_to_cpu(countlimit(l->buf->data, root).count);
	l->at = 0;
	return 0;
}

int htree_entry_block(struct htree_walk *w, unsigned int i, uint32_t *lblk)
{
	const struct htree_level *l = &w->level[i];

	*lblk = le32_to_cpu(l->entries[l->at].block) & HTREE_BLOCK_MASK;
	if (!*lblk || *lblk >= ext4_dir_nr_blocks(w->dir))
		return ext4_corrupt(w->dir->fs, "directory %u: index names block %u", w->dir->ino,
				    *lblk);
	return 0;
}

/* Load the levels below @i, each at its first entry or, with @search, where the hash belongs. */
static int load_below(struct htree_walk *w, unsigned int i, bool search)
{
	uint32_t lblk;
	int err;

	for (i++; i < w->nr_levels; i++) {
		err = htree_entry_block(w, i - 1, &lblk);
		if (err)
			return err;
		if (w->level[i].buf)
			bcache_put(w->level[i].buf);
		err = load_level(w, i, lblk);
		if (err)
			return err;
		if (search)
			w->level[i].at = find_entry(&w->level[i], w->hash);
	}
	return 0;
}

int htree_next_leaf(struct htree_walk *w, bool same)
{
	unsigned int i = w->nr_levels;
	struct htree_level *l;
	int err;

	do {
		if (i-- == 0)
			return 0;
		l = &w->level[i];
	} while (l->at + 1 >= l->count);

	if (same && (le32_to_cpu(l->entries[l->at + 1].hash) & ~1u) != w->hash)
		return 0;
	l->at++;
	if (!w->steps_left--)
		return ext4_corrupt(w->dir->fs, "directory %u: index without end", w->dir->ino);
	err = load_below(w, i, false);
	return err ? err : 1;
}

static int search_leaf(struct htree_walk *w, const char *name, size_t len, struct ext4_place *p)
{
	uint32_t lblk;
	const int err = htree_entry_block(w, w->nr_levels - 1, &lblk);

	return err ? err : ext4_block_search(w->dir, lblk, name, len, p);
}

unsigned int htree_hash_version(const struct ext4_fs *fs, uint8_t base)
{
	if (base <= EXT4_HASH_TEA && fs->hash_unsigned)
		return base + EXT4_HASH_LEGACY_UNSIGNED;
	return base;
}

uint32_t htree_max_levels(const struct ext4_fs *fs)
{
	return fs->incompat & EXT4_INCOMPAT_LARGEDIR ? 3 : 2;
}

void htree_init(struct htree_walk *w, struct ext4_inode *dir)
{
	*w = (struct htree_walk){ .dir = dir,
				  .nr_levels = 1,
				  .steps_left = ext4_dir_nr_blocks(dir) };
}

uint32_t htree_current_hash(const struct htree_walk *w)
{
	for (unsigned int i = w->nr_levels; i-- > 0;) {
		if (w->level[i].at)
			return le32_to_cpu(w->level[i].entries[w->level[i].at].hash);
	}
	return 0;
}

void htree_put(struct htree_walk *w)
{
	for (unsigned int i = 0; i < HTREE_MAX_LEVELS; i++) {
		if (w->level[i].buf)
			bcache_put(w->level[i].buf);
		w->level[i].buf = NULL;
	}
}

int htree_start(struct htree_walk *w, const char *name, size_t len)
{
	const struct ext4_fs *fs = w->dir->fs;
	struct ext4_dx_root_info info;
	int err;

	err = load_level(w, 0, 0);
	if (err)
		return err;
	info = root_info(w->level[0].buf->data);
	if (info.indirect_levels >= htree_max_levels(fs))
		return ext4_corrupt(w->dir->fs, "directory %u: index of %u levels", w->dir->ino,
				    info.indirect_levels);
	w->nr_levels = info.indirect_levels + 1;
	w->version = htree_hash_version(fs, info.hash_version);
	if (info.unused_flags & 1)
		return -EAGAIN;
	if (name && ext4_dirhash(w->version, fs->hash_seed, name, len, &w->hash))
		return -EAGAIN;
	w->level[0].at = find_entry(&w->level[0], w->hash);
	return load_below(w, 0, true);
}

int ext4_htree_search(struct ext4_inode *dir, const char *name, size_t len, struct ext4_place *p)
{
	struct htree_walk w;
	int err, more;

	htree_init(&w, dir);
	err = htree_start(&w, name, len);
	if (!err) {
		do {
			err = search_leaf(&w, name, len, p);
			if (err != -ENOENT)
				break;
			p->need = 0; /* a new name comes into the first leaf of its hash */
			more = htree_next_leaf(&w, true);
			if (more < 0)
				err = more;
		} while (more > 0);
	}
	htree_put(&w);
	return err;
}

bool ext4_htree_is_index(const struct ext4_inode *dir, uint32_t lblk, const uint8_t *data)
{
	const struct ext4_dirent_disk *de = (const void *)data;

	if (!ext4_dir_is_indexed(dir))
		return false;
	return lblk == 0 ||
	       (!de->ino && ext4_rec_len(de->rec_len, dir->fs->block_size) == dir->fs->block_size);
}
