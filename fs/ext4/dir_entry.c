/* SPDX-License-Identifier: MIT */
/*
 * ext4: entries in a run of directory bytes: added, removed, pointed elsewhere.  Pure, but for the
 * block of entries that goes into a transaction.
 *
 * Invariants:	the run was checked (ext4_dirents_check()), and stays so.
 */
#include <kernel/panic.h>
#include <lib/byteorder.h>
#include <lib/crc.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"

#define HEAD_LEN sizeof(struct ext4_dirent_disk)

le16_t ext4_rec_len_disk(uint32_t len, uint32_t block_size)
{
	if (len < 65536 || block_size < 65536)
		return cpu_to_le16((uint16_t)len);
	return cpu_to_le16(block_size == 65536 ? 65535 : 0);
}

uint8_t ext4_file_type(const struct ext4_fs *fs, uint32_t mode)
{
	static const uint8_t types[16] = {
		[S_IFREG >> 12] = 1, [S_IFDIR >> 12] = 2,  [S_IFCHR >> 12] = 3, [S_IFBLK >> 12] = 4,
		[S_IFIFO >> 12] = 5, [S_IFSOCK >> 12] = 6, [S_IFLNK >> 12] = 7,
	};

	return fs->incompat & EXT4_INCOMPAT_FILETYPE ? types[(mode & S_IFMT) >> 12] : 0;
}

static struct ext4_dirent_disk *entry_at(uint8_t *data, uint32_t at)
{
	return (struct ext4_dirent_disk *)(void *)(data + at);
}

/* Bytes [first, end) of @len are about to change, or have: *@sum is what that does to the CRC. */
static void sum_begin(const uint8_t *data, uint32_t first, uint32_t end, uint32_t *sum)
{
	if (sum)
		*sum = crc32c(0, data + first, end - first);
}

static void sum_end(const uint8_t *data, uint32_t first, uint32_t end, uint32_t len, uint32_t *sum)
{
	if (sum)
		*sum = crc32c_zeros(*sum ^ crc32c(0, data + first, end - first), len - end);
}

void ext4_entry_add(const struct ext4_fs *fs, uint8_t *data, const struct ext4_place *p,
		    const char *name, size_t name_len, uint32_t ino, uint32_t mode, uint32_t *sum)
{
	const uint32_t block_size = fs->block_size;
	struct ext4_dirent_disk *de = entry_at(data, p->room);
	const uint32_t rec_len = ext4_rec_len(de->rec_len, block_size);
	const uint32_t used = de->ino ? ext4_entry_need(de->name_len) : 0;
	const uint32_t end = p->room + used + (uint32_t)(HEAD_LEN + name_len);

	ASSERT(name_len && name_len <= FS_NAME_MAX && p->room < p->len);
	BUG_ON(rec_len - used < ext4_entry_need(name_len)); /* it would be written over the next */
	sum_begin(data, p->room, end, sum);
	if (used)
		de->rec_len = ext4_rec_len_disk(used, block_size);
	de = entry_at(data, p->room + used);
	de->ino = cpu_to_le32(ino);
	de->rec_len = ext4_rec_len_disk(rec_len - used, block_size);
	de->name_len = (uint8_t)name_len;
	de->file_type = ext4_file_type(fs, mode);
	memcpy(de->name, name, name_len);
	sum_end(data, p->room, end, p->len, sum);
}

void ext4_entry_remove(const struct ext4_fs *fs, uint8_t *data, const struct ext4_place *p,
		       uint32_t *sum)
{
	struct ext4_dirent_disk *de = entry_at(data, p->at), *prev;
	const uint32_t end = p->at + (uint32_t)sizeof(de->ino);
	uint32_t first = p->at, before = p->prev, behind = p->at;

	if (before < p->at) {
		behind = before + ext4_rec_len(entry_at(data, before)->rec_len, fs->block_size);
		/* Names that came since may stand between. */
		while (behind < p->at) {
			before = behind;
			behind += ext4_rec_len(entry_at(data, before)->rec_len, fs->block_size);
		}
		first = before;
	}
	BUG_ON(behind != p->at); /* the entry is none */
	sum_begin(data, first, end, sum);
	if (before < p->at) {
		prev = entry_at(data, before);
		prev->rec_len = ext4_rec_len_disk(ext4_rec_len(prev->rec_len, fs->block_size) +
							  ext4_rec_len(de->rec_len, fs->block_size),
						  fs->block_size);
	}
	de->ino = cpu_to_le32(0);
	sum_end(data, first, end, p->len, sum);
}

void ext4_entry_set(const struct ext4_fs *fs, uint8_t *data, const struct ext4_place *p,
		    uint32_t ino, uint32_t mode, uint32_t *sum)
{
	struct ext4_dirent_disk *de = entry_at(data, p->at);
	const uint32_t end = p->at + (uint32_t)HEAD_LEN;

	sum_begin(data, p->at, end, sum);
	de->ino = cpu_to_le32(ino);
	de->file_type = ext4_file_type(fs, mode);
	sum_end(data, p->at, end, p->len, sum);
}

static struct ext4_dirent_tail *tail_of(const struct ext4_fs *fs, uint8_t *data)
{
	return (void *)(data + fs->block_size - sizeof(struct ext4_dirent_tail));
}

void ext4_leaf_init(const struct ext4_inode *dir, uint8_t *data)
{
	const struct ext4_fs *fs = dir->fs;
	struct ext4_dirent_disk *de = entry_at(data, 0);
	uint32_t len = fs->block_size;

	memset(data, 0, len);
	if (fs->has_csum) {
		struct ext4_dirent_tail *t = tail_of(fs, data);

		len -= sizeof(*t);
		t->rec_len = cpu_to_le16(sizeof(*t));
		t->file_type = EXT4_TAIL_FILE_TYPE;
	}
	de->rec_len = ext4_rec_len_disk(len, fs->block_size);
}

int ext4_leaf_dirty(struct ext4_op *op, const struct ext4_inode *dir, struct bcache_buf *buf)
{
	const struct ext4_fs *fs = dir->fs;

	if (fs->has_csum) {
		struct ext4_dirent_tail *t = tail_of(fs, buf->data);

		t->checksum =
			cpu_to_le32(crc32c(dir->csum_seed, buf->data, fs->block_size - sizeof(*t)));
	}
	ext4_set_checked(buf, dir->ino, EXT4_CHECK_DIR);
	return ext4_dirty(op->h, buf);
}

int ext4_leaf_changed(struct ext4_op *op, const struct ext4_inode *dir, struct bcache_buf *buf,
		      uint32_t sum)
{
	if (dir->fs->has_csum) {
		struct ext4_dirent_tail *t = tail_of(dir->fs, buf->data);

		t->checksum = cpu_to_le32(le32_to_cpu(t->checksum) ^ sum);
	}
	return ext4_dirty(op->h, buf);
}
