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

#include "ext4_priv.h"

#define MAX_LEVELS 3u
#define BLOCK_MASK 0x0fffffffu

struct level {
	struct bcache_buf *buf;
	const struct ext4_dx_entry *entries;
	uint32_t count;
	uint32_t at;
};

struct walk {
	struct ext4_inode *dir;
	struct level level[MAX_LEVELS];
	uint32_t nr_levels;
	uint32_t hash;
	uint32_t steps_left;
};

static uint32_t entries_offset(bool root)
{
	return root ? EXT4_DX_ROOT_ENTRIES_OFFSET : EXT4_DX_NODE_ENTRIES_OFFSET;
}

static struct ext4_dx_countlimit countlimit(const uint8_t *data, bool root)
{
	struct ext4_dx_countlimit cl;

	memcpy(&cl, data + entries_offset(root), sizeof(cl));
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

static uint32_t dx_csum(const struct ext4_inode *dir, const uint8_t *data, bool root,
			uint32_t count, const struct ext4_dx_tail *tail)
{
	const size_t len = entries_offset(root) + (size_t)count * sizeof(struct ext4_dx_entry);
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
	const uint32_t offset = entries_offset(root);
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
	if (dx_csum(dir, data, root, count, &tail) != le32_to_cpu(tail.checksum))
		return ext4_corrupt(dir->fs, "directory %u: index block %u: checksum", dir->ino,
				    lblk);
	return 0;
}

/* The last entry whose hash is at most @hash; the first one's counts as 0. */
static uint32_t find_entry(const struct level *l, uint32_t hash)
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

static int load_level(struct walk *w, unsigned int i, uint32_t lblk)
{
	struct level *l = &w->level[i];
	const bool root = i == 0;
	uint32_t len;

	l->buf = ext4_dir_block(w->dir, lblk, root ? EXT4_CHECK_DX_ROOT : EXT4_CHECK_DX_NODE, &len);
	if (IS_ERR(l->buf)) {
		const int err = (int)PTR_ERR(l->buf);

		l->buf = NULL;
		return err;
	}
	l->entries = (const void *)(l->buf->data + entries_offset(root));
	l->count = le16_to_cpu(countlimit(l->buf->data, root).count);
	l->at = 0;
	return 0;
}

/* The block that the current entry of level @i names. */
static int entry_block(struct walk *w, unsigned int i, uint32_t *lblk)
{
	const struct level *l = &w->level[i];

	*lblk = le32_to_cpu(l->entries[l->at].block) & BLOCK_MASK;
	if (!*lblk || *lblk >= ext4_dir_nr_blocks(w->dir))
		return ext4_corrupt(w->dir->fs, "directory %u: index names block %u", w->dir->ino,
				    *lblk);
	return 0;
}

/* Load the levels below @i, each at its first entry or, with @search, where the hash belongs. */
static int load_below(struct walk *w, unsigned int i, bool search)
{
	uint32_t lblk;
	int err;

	for (i++; i < w->nr_levels; i++) {
		err = entry_block(w, i - 1, &lblk);
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

/* Go to the next leaf if it continues our hash: 1, 0 if not, -errno. */
static int next_leaf(struct walk *w)
{
	unsigned int i = w->nr_levels;
	struct level *l;
	int err;

	do {
		if (i-- == 0)
			return 0;
		l = &w->level[i];
	} while (l->at + 1 >= l->count);

	l->at++;
	if ((le32_to_cpu(l->entries[l->at].hash) & ~1u) != w->hash)
		return 0;
	if (!w->steps_left--)
		return ext4_corrupt(w->dir->fs, "directory %u: index without end", w->dir->ino);
	err = load_below(w, i, false);
	return err ? err : 1;
}

static int search_leaf(struct walk *w, const char *name, size_t len, uint32_t *ino)
{
	struct bcache_buf *buf;
	uint32_t lblk, entries_len;
	int err;

	err = entry_block(w, w->nr_levels - 1, &lblk);
	if (err)
		return err;
	buf = ext4_dir_block(w->dir, lblk, EXT4_CHECK_DIR, &entries_len);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	err = ext4_dirents_find(w->dir->fs, buf->data, entries_len, name, len, ino);
	bcache_put(buf);
	return err;
}

/* Read the root: how deep the tree is, and the hash of our name.  -EAGAIN: unknown hash. */
static int start(struct walk *w, const char *name, size_t len)
{
	const struct ext4_fs *fs = w->dir->fs;
	const uint32_t max = fs->incompat & EXT4_INCOMPAT_LARGEDIR ? 2 : 1;
	struct ext4_dx_root_info info;
	unsigned int version;
	int err;

	err = load_level(w, 0, 0);
	if (err)
		return err;
	info = root_info(w->level[0].buf->data);
	if (info.indirect_levels > max)
		return ext4_corrupt(w->dir->fs, "directory %u: index of %u levels", w->dir->ino,
				    info.indirect_levels);
	w->nr_levels = info.indirect_levels + 1;
	version = info.hash_version;
	if (version <= EXT4_HASH_TEA && fs->hash_unsigned)
		version += EXT4_HASH_LEGACY_UNSIGNED;
	if ((info.unused_flags & 1) || ext4_dirhash(version, fs->hash_seed, name, len, &w->hash))
		return -EAGAIN;
	w->level[0].at = find_entry(&w->level[0], w->hash);
	return load_below(w, 0, true);
}

int ext4_htree_lookup(struct ext4_inode *dir, const char *name, size_t len, uint32_t *ino)
{
	struct walk w = { .dir = dir, .nr_levels = 1, .steps_left = ext4_dir_nr_blocks(dir) };
	int err, more;

	err = start(&w, name, len);
	if (!err) {
		do {
			err = search_leaf(&w, name, len, ino);
			if (err != -ENOENT)
				break;
			more = next_leaf(&w);
			if (more < 0)
				err = more;
		} while (more > 0);
	}
	for (unsigned int i = 0; i < MAX_LEVELS; i++) {
		if (w.level[i].buf)
			bcache_put(w.level[i].buf);
	}
	return err;
}
