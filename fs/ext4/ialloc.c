/* SPDX-License-Identifier: MIT */
/*
 * ext4: allocating and freeing inodes.
 *
 * Directories below the root are spread over the groups, those further down stay near their parent
 * unless its group is crowded (as Orlov proposed); other files go to their directory's group.
 *
 * Locking:	fs->change admits one allocator at a time; the group's lock is held for its bitmap.
 */
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/rwsem.h>
#include <lib/bitmap.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"

struct averages {
	uint32_t free_inodes;
	uint64_t free_blocks;
};

static struct averages averages_of(const struct ext4_fs *fs)
{
	return (struct averages){ .free_inodes = ext4_free_inodes(fs) / fs->nr_groups,
				  .free_blocks = ext4_free_blocks(fs) / fs->nr_groups };
}

/* A directory in the root: the group with the fewest directories of those better than average. */
static int spread(struct ext4_fs *fs, uint32_t *group)
{
	const struct averages avg = averages_of(fs);
	const uint32_t first = (uint32_t)(random_u64() % fs->nr_groups);
	uint32_t fewest = UINT32_MAX;
	struct ext4_gd gd;
	int err;

	for (uint32_t i = 0; i < fs->nr_groups; i++) {
		const uint32_t g = (first + i) % fs->nr_groups;

		err = ext4_gd_read(fs, g, &gd);
		if (err)
			return err;
		if (!gd.free_inodes || gd.free_inodes < avg.free_inodes ||
		    gd.free_blocks < avg.free_blocks || gd.used_dirs >= fewest)
			continue;
		fewest = gd.used_dirs;
		*group = g;
	}
	return 0;
}

/* A directory further down: the first group from the parent's on that is not crowded. */
static int stay_near(struct ext4_fs *fs, uint32_t parent, uint32_t *group)
{
	const struct averages avg = averages_of(fs);
	const uint32_t slack_inodes = fs->inodes_per_group / 4;
	const uint32_t slack_blocks = fs->blocks_per_group / 4;
	struct ext4_gd gd;
	int err;

	for (uint32_t i = 0; i < fs->nr_groups; i++) {
		const uint32_t g = (parent + i) % fs->nr_groups;

		err = ext4_gd_read(fs, g, &gd);
		if (err)
			return err;
		if (!gd.free_inodes || gd.free_inodes + slack_inodes < avg.free_inodes ||
		    gd.free_blocks + slack_blocks < avg.free_blocks)
			continue;
		*group = g;
		return 0;
	}
	return 0;
}

/* A free inode of @group that is not lent, from @bit on; the number per group: there is none. */
static size_t find_free(struct ext4_fs *fs, uint32_t group, const struct bcache_buf *buf,
			size_t bit)
{
	const uint64_t *map = (const void *)buf->data;
	const uint32_t per = fs->inodes_per_group;

	bit = bitmap_find_next_zero(map, per, bit);
	while (bit < per && ext4_is_lent(fs, group * per + (uint32_t)bit + 1))
		bit = bitmap_find_next_zero(map, per, bit + 1);
	return bit;
}

/* Take a free inode of @group: its number in *@ino; 1: there is none.  @want: that one, or 0. */
static int take(struct ext4_op *op, uint32_t group, bool dir, uint32_t want, uint32_t *ino)
{
	struct ext4_fs *fs = op->fs;
	const uint32_t per = fs->inodes_per_group;
	const uint32_t from = group ? 0 : fs->first_ino - 1;
	struct bcache_buf *buf;
	struct ext4_gd gd;
	size_t bit;
	int err;

	err = ext4_gd_read(fs, group, &gd);
	if (err || !gd.free_inodes)
		return err ? err : 1;
	buf = ext4_inode_bitmap(fs, group, &gd);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	bit = want ? (want - 1) % per : find_free(fs, group, buf, from);
	if (want && bitmap_test((const uint64_t *)(const void *)buf->data, bit))
		bit = per;
	err = bit < per ? ext4_write_access(op->h, buf) : 1;
	if (!err) {
		gd.free_inodes--;
		gd.used_dirs += dir;
		gd.itable_unused = MIN(gd.itable_unused, per - (uint32_t)bit - 1);
		err = ext4_inode_bitmap_flip(op->h, &gd, buf, (uint32_t)bit);
		if (!err)
			err = ext4_gd_write(op->h, group, &gd);
		if (err)
			err = ext4_op_abort(op, err, "allocating an inode");
		*ino = group * per + (uint32_t)bit + 1;
	}
	bcache_put(buf);
	if (!err)
		ext4_count_free_inodes(fs, -1);
	return err;
}

/* The inode of that number and no other. */
static int take_lent(struct ext4_op *op, const struct fs_lent *want, bool is_dir, uint32_t *ino)
{
	struct ext4_fs *fs = op->fs;
	uint32_t group;
	int err;

	if (want->ino < fs->first_ino || want->ino > fs->nr_inodes)
		return -EINVAL;
	group = ((uint32_t)want->ino - 1) / fs->inodes_per_group;
	ext4_group_lock(fs, group);
	err = take(op, group, is_dir, (uint32_t)want->ino, ino);
	ext4_group_unlock(fs, group);
	if (!err)
		ext4_unlend(fs, *ino);
	return err == 1 ? -EEXIST : err;
}

static int choose(struct ext4_op *op, const struct ext4_inode *dir, bool is_dir, uint32_t *ino)
{
	struct ext4_fs *fs = op->fs;
	uint32_t first = (dir->ino - 1) / fs->inodes_per_group;
	int err = 0;

	if (is_dir && dir->ino == EXT4_ROOT_INO)
		err = spread(fs, &first);
	else if (is_dir)
		err = stay_near(fs, first, &first);
	if (err)
		return err;
	err = 1;
	for (uint32_t i = 0; i < fs->nr_groups && err == 1; i++) {
		const uint32_t g = (first + i) % fs->nr_groups;

		ext4_group_lock(fs, g);
		err = take(op, g, is_dir, 0, ino);
		ext4_group_unlock(fs, g);
	}
	return err == 1 ? -ENOSPC : err;
}

/* Flags that a new file gets from its directory. */
#define INHERITED ((uint32_t)EXT4_FL_NODUMP)

uint32_t ext4_next_gen(struct ext4_fs *fs)
{
	uint32_t gen;

	assert_mutex_held(&fs->change);
	do {
		if (!fs->nr_gens) {
			random_bytes(fs->gens, sizeof(fs->gens));
			fs->nr_gens = ARRAY_SIZE(fs->gens);
		}
		gen = fs->gens[--fs->nr_gens];
	} while (!gen);
	return gen;
}

void ext4_inode_init(struct ext4_op *op, struct ext4_inode *in, uint32_t flags, uint32_t mode)
{
	struct ext4_fs *fs = op->fs;
	struct ext4_inode_disk *d = (void *)in->raw;
	const uint32_t type = mode & S_IFMT;
	const le32_t le_ino = cpu_to_le32(in->ino);
	le32_t le_gen;

	if (fs->inode_size > EXT4_GOOD_INODE_SIZE)
		d->extra_isize = cpu_to_le16(fs->extra_isize);
	in->mode = mode;
	in->uid = op->ch ? op->ch->uid : 0;
	in->gid = op->ch ? op->ch->gid : 0;
	if (!in->gen)
		in->gen = ext4_next_gen(fs);
	in->flags = flags;
	if (type == S_IFLNK)
		in->flags = 0;
	in->atime = in->mtime = in->ctime = in->crtime = ext4_op_now(op);
	if ((fs->incompat & EXT4_INCOMPAT_EXTENTS) && (type == S_IFREG || type == S_IFDIR))
		ext4_extent_init_root(in);
	le_gen = cpu_to_le32(in->gen);
	in->csum_seed = crc32c(fs->csum_seed, &le_ino, sizeof(le_ino));
	in->csum_seed = crc32c(in->csum_seed, &le_gen, sizeof(le_gen));
}

int ext4_ialloc(struct ext4_op *op, struct ext4_inode *dir, uint32_t mode,
		const struct fs_lent *want, struct ext4_inode *in)
{
	const bool is_dir = (mode & S_IFMT) == S_IFDIR;
	struct ext4_fs *fs = op->fs;
	uint32_t ino = 0;
	int err;

	assert_mutex_held(&fs->change);
	assert_rwsem_held_write(&in->lock);
	err = want ? take_lent(op, want, is_dir, &ino) : choose(op, dir, is_dir, &ino);
	if (err)
		return err;
	in->ino = ino;
	in->gen = want ? want->gen : 0;
	ext4_inode_init(op, in, dir->flags & INHERITED, mode);
	ext4_inode_show(in);
	ext4_inode_insert(in);
	return 0;
}

int ext4_ifree(struct ext4_op *op, struct ext4_inode *in)
{
	struct ext4_fs *fs = op->fs;
	const uint32_t group = (in->ino - 1) / fs->inodes_per_group;
	const uint32_t bit = (in->ino - 1) % fs->inodes_per_group;
	struct bcache_buf *buf = NULL;
	struct ext4_gd gd;
	int err;

	assert_mutex_held(&fs->change);
	ext4_group_lock(fs, group);
	err = ext4_gd_read(fs, group, &gd);
	if (!err) {
		buf = ext4_inode_bitmap(fs, group, &gd);
		if (IS_ERR(buf)) {
			err = (int)PTR_ERR(buf);
			buf = NULL;
		}
	}
	if (!err && !bitmap_test((const uint64_t *)(const void *)buf->data, bit))
		err = ext4_corrupt(fs, "inode %u is free in its bitmap", in->ino);
	if (!err)
		err = ext4_write_access(op->h, buf);
	if (!err) {
		gd.free_inodes++;
		if (ext4_is_dir(in) && gd.used_dirs)
			gd.used_dirs--;
		err = ext4_inode_bitmap_flip(op->h, &gd, buf, bit);
	}
	if (!err)
		err = ext4_gd_write(op->h, group, &gd);
	if (buf)
		bcache_put(buf);
	ext4_group_unlock(fs, group);
	if (err)
		return ext4_op_abort(op, err, "freeing an inode");
	ext4_count_free_inodes(fs, 1);
	return 0;
}
