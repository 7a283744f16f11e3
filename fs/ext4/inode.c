/* SPDX-License-Identifier: MIT */
/*
 * ext4: inodes and their cache.
 *
 * Flow:	ext4_inode_get() -> cache, or group descriptor -> inode table block ->
 *		checksum -> ext4_inode_decode() -> cache.
 * Context:	threads; sleeps for the disk.  No lock is held meanwhile.
 * Locking:	fs->inode_lock guards the buckets, the LRU and reference counts; fs->show_lock
 *		what fs_inode_stat() shows, and the bytes of the inode table.
 * Invariants:	the LRU holds the inodes without a reference, and only these.
 * Failure:	a bad inode is never cached; each use is refused anew.
 */
#include <drivers/blkdev.h>
#include <kernel/panic.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "journal_priv.h"

/* Does the field that ends at byte @end lie in the part that this inode uses? */
static bool has_extra(uint32_t end, uint32_t len, uint32_t extra)
{
	return end <= len && end <= EXT4_GOOD_INODE_SIZE + extra;
}

#define DROP_LOOKS   8u /* inodes with promises that are passed over at one time */
#define FIELD_END(f) ((uint32_t)(offsetof(struct ext4_inode_disk, f) + sizeof(le32_t)))

/* Seconds are signed 32 bits, with two more above them in @extra beside the nanoseconds. */
static struct fs_time decode_time(le32_t lo, uint32_t extra)
{
	struct fs_time t = { .sec = (int32_t)le32_to_cpu(lo) };

	t.sec += (int64_t)(extra & 3) << 32;
	t.nsec = extra >> 2;
	if (t.nsec >= 1000000000u)
		t.nsec = 0;
	return t;
}

static void decode_times(struct ext4_inode *in, const struct ext4_inode_disk *d, uint32_t len,
			 uint32_t extra)
{
	const bool c = has_extra(FIELD_END(ctime_extra), len, extra);
	const bool m = has_extra(FIELD_END(mtime_extra), len, extra);
	const bool a = has_extra(FIELD_END(atime_extra), len, extra);

	if (has_extra(FIELD_END(version_hi), len, extra))
		in->version |= (uint64_t)le32_to_cpu(d->version_hi) << 32;
	in->ctime = decode_time(d->ctime, c ? le32_to_cpu(d->ctime_extra) : 0);
	in->mtime = decode_time(d->mtime, m ? le32_to_cpu(d->mtime_extra) : 0);
	in->atime = decode_time(d->atime, a ? le32_to_cpu(d->atime_extra) : 0);
	if (has_extra(FIELD_END(crtime), len, extra))
		in->crtime = decode_time(d->crtime, has_extra(FIELD_END(crtime_extra), len, extra)
							    ? le32_to_cpu(d->crtime_extra)
							    : 0);
}

static void decode_blocks(struct ext4_inode *in, const struct ext4_inode_disk *d)
{
	const struct ext4_fs *fs = in->fs;

	in->blocks = le32_to_cpu(d->blocks_lo);
	if (!(fs->ro_compat & EXT4_RO_COMPAT_HUGE_FILE))
		return;
	in->blocks |= (uint64_t)le16_to_cpu(d->blocks_hi) << 32;
	if (in->flags & EXT4_FL_HUGE_FILE)
		in->blocks <<= fs->block_bits - BLK_SECTOR_SHIFT;
}

static int check_csum(const struct ext4_inode *in, const uint8_t *raw, uint32_t len, uint32_t extra)
{
	const size_t lo_at = offsetof(struct ext4_inode_disk, checksum_lo);
	const size_t hi_at = offsetof(struct ext4_inode_disk, checksum_hi);
	const bool has_hi = has_extra((uint32_t)hi_at + 2, len, extra);
	const le16_t zero = cpu_to_le16(0);
	uint32_t crc, want;

	if (!in->fs->has_csum)
		return 0;
	crc = crc32c(in->csum_seed, raw, lo_at);
	crc = crc32c(crc, &zero, sizeof(zero));
	crc = crc32c(crc, raw + lo_at + 2, EXT4_GOOD_INODE_SIZE - lo_at - 2);
	want = get_unaligned_le16(raw + lo_at);
	if (len > EXT4_GOOD_INODE_SIZE) {
		size_t at = EXT4_GOOD_INODE_SIZE;

		if (has_hi) {
			crc = crc32c(crc, raw + at, hi_at - at);
			crc = crc32c(crc, &zero, sizeof(zero));
			want |= (uint32_t)get_unaligned_le16(raw + hi_at) << 16;
			at = hi_at + 2;
		}
		crc = crc32c(crc, raw + at, len - at);
	}
	if (!has_hi)
		crc &= 0xffff;
	if (crc != want)
		return ext4_corrupt(in->fs, "inode %u: checksum", in->ino);
	return 0;
}

static int check_type(const struct ext4_inode *in)
{
	switch (in->mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return 0;
	}
	return ext4_corrupt(in->fs, "inode %u: mode %#o", in->ino, in->mode);
}

static int check_flags(const struct ext4_inode *in)
{
	const struct ext4_fs *fs = in->fs;

	if (in->flags & (EXT4_FL_ENCRYPT | EXT4_FL_CASEFOLD | EXT4_FL_EA_INODE))
		return ext4_corrupt(in->fs, "inode %u: flags %#x", in->ino, in->flags);
	if ((in->flags & EXT4_FL_EXTENTS) && !(fs->incompat & EXT4_INCOMPAT_EXTENTS))
		return ext4_corrupt(in->fs, "inode %u: extents without the feature", in->ino);
	if ((in->flags & EXT4_FL_INLINE_DATA) && !(fs->incompat & EXT4_INCOMPAT_INLINE_DATA))
		return ext4_corrupt(in->fs, "inode %u: inline data without the feature", in->ino);
	return 0;
}

static int check_size(const struct ext4_inode *in)
{
	const struct ext4_fs *fs = in->fs;
	const uint64_t max = (uint64_t)UINT32_MAX << fs->block_bits;
	uint64_t nr;

	if (in->size > max)
		return ext4_corrupt(in->fs, "inode %u: size %llu", in->ino,
				    (unsigned long long)in->size);
	if (!ext4_is_dir(in) || (in->flags & EXT4_FL_INLINE_DATA))
		return 0;
	/* A directory has no holes, so it is no bigger than the disk. */
	nr = in->size >> fs->block_bits;
	if (!nr || (in->size & (fs->block_size - 1)) || nr > fs->nr_blocks)
		return ext4_corrupt(in->fs, "directory %u: size %llu", in->ino,
				    (unsigned long long)in->size);
	return 0;
}

static void decode_fields(struct ext4_inode *in, const struct ext4_inode_disk *d)
{
	const bool wide_size =
		(in->mode & S_IFMT) == S_IFREG || (in->fs->incompat & EXT4_INCOMPAT_LARGEDIR);

	in->uid = le16_to_cpu(d->uid_lo) | (uint32_t)le16_to_cpu(d->uid_hi) << 16;
	in->gid = le16_to_cpu(d->gid_lo) | (uint32_t)le16_to_cpu(d->gid_hi) << 16;
	in->nlink = le16_to_cpu(d->links_count);
	in->flags = le32_to_cpu(d->flags);
	in->size = le32_to_cpu(d->size_lo);
	if (wide_size)
		in->size |= (uint64_t)le32_to_cpu(d->size_hi) << 32;
	in->file_acl = le32_to_cpu(d->file_acl_lo);
	if (in->fs->incompat & EXT4_INCOMPAT_64BIT)
		in->file_acl |= (uint64_t)le16_to_cpu(d->file_acl_hi) << 32;
	in->version = le32_to_cpu(d->version_lo);
	memcpy(in->iblock, d->block, sizeof(in->iblock));
	decode_blocks(in, d);
}

int ext4_inode_decode(struct ext4_inode *in, const uint8_t *raw, uint32_t len)
{
	struct ext4_inode_disk d;
	const le32_t le_ino = cpu_to_le32(in->ino);
	uint32_t extra = 0;
	int err;

	memset(&d, 0, sizeof(d));
	memcpy(&d, raw, MIN((size_t)len, sizeof(d)));
	in->mode = le16_to_cpu(d.mode);
	in->gen = le32_to_cpu(d.generation);
	if (!in->mode && !d.links_count)
		return -ESTALE;

	if (len > EXT4_GOOD_INODE_SIZE) {
		extra = le16_to_cpu(d.extra_isize);
		if (extra > len - EXT4_GOOD_INODE_SIZE || extra % 4)
			return ext4_corrupt(in->fs, "inode %u: extra size %u", in->ino, extra);
	}
	in->csum_seed = crc32c(in->fs->csum_seed, &le_ino, sizeof(le_ino));
	in->csum_seed = crc32c(in->csum_seed, &d.generation, sizeof(d.generation));
	err = check_csum(in, raw, len, extra);
	if (err)
		return err;
	if (!d.links_count && !in->orphan)
		return -ESTALE;

	decode_fields(in, &d);
	decode_times(in, &d, len, extra);
	err = check_type(in);
	if (!err)
		err = check_flags(in);
	if (!err && (in->flags & EXT4_FL_INLINE_DATA))
		err = ext4_inline_decode(in, raw, len, extra);
	if (!err)
		err = check_size(in);
	return err;
}

/* Read inode @in->ino from the disk. */
static int load(struct ext4_inode *in)
{
	struct ext4_fs *fs = in->fs;
	const uint32_t group = (in->ino - 1) / fs->inodes_per_group;
	const uint32_t index = (in->ino - 1) % fs->inodes_per_group;
	const uint64_t at = (uint64_t)index * fs->inode_size;
	struct ext4_group gd;
	struct bcache_buf *buf;
	int err;

	ASSERT(in->ino && in->ino <= fs->nr_inodes);
	err = ext4_group_read(fs, group, &gd);
	if (err)
		return err;
	if (index >= gd.nr_inodes_used)
		return -ESTALE;
	buf = bcache_get(fs->bc, gd.inode_table + (at >> fs->block_bits));
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	spin_lock(&fs->show_lock);
	memcpy(in->raw, buf->data + (at & (fs->block_size - 1)), fs->inode_size);
	spin_unlock(&fs->show_lock);
	bcache_put(buf);
	return ext4_inode_decode(in, in->raw, fs->inode_size);
}

static void inode_free(struct ext4_inode *in)
{
	kfree(in->inline_more);
	kfree(in->raw);
	kfree(in);
}

struct ext4_inode *ext4_inode_new(struct ext4_fs *fs)
{
	struct ext4_inode *in = kzalloc(sizeof(*in));

	if (!in)
		return NULL;
	in->raw = kzalloc(fs->inode_size);
	if (!in->raw) {
		kfree(in);
		return NULL;
	}
	in->base.ops = &ext4_fs_ops;
	in->base.fs = &fs->base;
	in->fs = fs;
	in->refs = 1;
	list_init(&in->hash);
	list_init(&in->lru);
	list_init(&in->orphan_link);
	rwsem_init(&in->lock, "ext4-inode", RANK_FS_INODE);
	return in;
}

static struct list_head *bucket_of(struct ext4_fs *fs, uint32_t ino)
{
	return &fs->inode_table[hash64(ino) & fs->inode_mask];
}

/* Find @ino in the cache and hold it. */
static struct ext4_inode *hold_locked(struct ext4_fs *fs, uint32_t ino) __must_hold(&fs->inode_lock)
{
	struct ext4_inode *in;

	assert_spin_held(&fs->inode_lock);
	list_for_each_entry(in, bucket_of(fs, ino), hash) {
		if (in->ino != ino)
			continue;
		if (in->refs++ == 0) {
			list_del(&in->lru);
			fs->nr_unused--;
		}
		return in;
	}
	return NULL;
}

/*
 * Load an inode that was not in the cache.  If a changed inode left the cache meanwhile it may have
 * been this one, and what was read older than that change: NULL, try again.
 */
static struct ext4_inode *load_new(struct ext4_fs *fs, uint32_t ino, bool orphan)
{
	struct ext4_inode *in, *other;
	uint64_t nr_dropped;
	bool stale;
	int err;

	in = ext4_inode_new(fs);
	if (!in)
		return ERR_PTR(-ENOMEM);
	in->ino = ino;
	in->orphan = orphan;
	spin_lock(&fs->inode_lock);
	nr_dropped = fs->nr_dropped;
	spin_unlock(&fs->inode_lock);
	err = load(in);
	if (err) {
		inode_free(in);
		return ERR_PTR(err);
	}
	ext4_inode_fill_stat(in, &in->shown);

	spin_lock(&fs->inode_lock);
	fs->inode_misses++;
	other = hold_locked(fs, ino); /* another thread may have been faster */
	stale = !other && fs->nr_dropped != nr_dropped;
	if (!other && !stale)
		list_add(&in->hash, bucket_of(fs, ino));
	spin_unlock(&fs->inode_lock);
	if (!other && !stale)
		return in;
	inode_free(in);
	return other;
}

void ext4_inode_insert(struct ext4_inode *in)
{
	struct ext4_fs *fs = in->fs;

	spin_lock(&fs->inode_lock);
	ASSERT(list_empty(&in->hash));
	list_add(&in->hash, bucket_of(fs, in->ino));
	spin_unlock(&fs->inode_lock);
}

void ext4_inode_hold(struct ext4_inode *in)
{
	spin_lock(&in->fs->inode_lock);
	ASSERT(in->refs);
	in->refs++;
	spin_unlock(&in->fs->inode_lock);
}

void ext4_inode_forget(struct ext4_inode *in)
{
	struct ext4_fs *fs = in->fs;

	spin_lock(&fs->inode_lock);
	ASSERT(in->refs);
	list_del(&in->hash);
	in->gone = true;
	fs->nr_dropped++;
	spin_unlock(&fs->inode_lock);
}

static struct ext4_inode *get_any(struct ext4_fs *fs, uint64_t ino, uint64_t gen, bool orphan)
{
	struct ext4_inode *in;

	do {
		spin_lock(&fs->inode_lock);
		in = hold_locked(fs, (uint32_t)ino);
		if (in)
			fs->inode_hits++;
		spin_unlock(&fs->inode_lock);
		if (!in)
			in = load_new(fs, (uint32_t)ino, orphan);
	} while (!in);
	if (IS_ERR(in) || gen == FS_ANY_GEN || in->gen == gen)
		return in;
	ext4_inode_put(in);
	return ERR_PTR(-ESTALE);
}

struct ext4_inode *ext4_inode_get(struct ext4_fs *fs, uint64_t ino, uint64_t gen)
{
	if (ino != EXT4_ROOT_INO && (ino < fs->first_ino || ino > fs->nr_inodes))
		return ERR_PTR(-ESTALE);
	return get_any(fs, ino, gen, false);
}

struct ext4_inode *ext4_inode_get_special(struct ext4_fs *fs, uint32_t ino)
{
	if (!ino || ino >= fs->first_ino)
		return ERR_PTR(-ESTALE);
	return get_any(fs, ino, FS_ANY_GEN, false);
}

struct ext4_inode *ext4_inode_get_orphan(struct ext4_fs *fs, uint32_t ino)
{
	return get_any(fs, ino, FS_ANY_GEN, true);
}

/* The inode that was not used for longest leaves the cache; NULL: those have promises. */
static struct ext4_inode *drop_oldest_locked(struct ext4_fs *fs) __must_hold(&fs->inode_lock)
{
	struct ext4_inode *in;

	assert_spin_held(&fs->inode_lock);
	for (uint32_t i = 0; i < DROP_LOOKS; i++) {
		in = list_first_entry(&fs->inode_lru, struct ext4_inode, lru);
		ASSERT(!in->refs);
		list_del(&in->lru);
		if (READ_ONCE(in->delayed)) {
			list_add_tail(&in->lru, &fs->inode_lru);
			continue;
		}
		list_del(&in->hash);
		fs->nr_unused--;
		fs->nr_dropped += in->changed;
		return in;
	}
	return NULL;
}

void ext4_inode_put(struct ext4_inode *in)
{
	struct ext4_fs *fs = in->fs;
	struct ext4_inode *dead = NULL;

	spin_lock(&fs->inode_lock);
	ASSERT(in->refs);
	if (--in->refs == 0 && in->gone) {
		dead = in;
	} else if (in->refs == 0) {
		list_add_tail(&in->lru, &fs->inode_lru);
		fs->nr_unused++;
		if (fs->nr_unused > fs->max_unused)
			dead = drop_oldest_locked(fs);
	}
	spin_unlock(&fs->inode_lock);
	if (dead)
		inode_free(dead);
}

void ext4_unmount(struct ext4_fs *fs)
{
	struct ext4_inode *in, *next;
	bool clean = true;

	ext4_unlend_all(fs);
	if (fs->journal) {
		ext4_write_stop(fs);
		clean = ext4_rw_stop(fs);
		ext4_balloc_exit(fs);
		ext4_changes_stop(fs);
	}
	ext4_mmp_release(fs, clean);
	ext4_zones_free(fs);
	ext4_orphans_free(fs);
	ext4_reserve_exit(fs);
	if (fs->super_buf)
		bcache_put(fs->super_buf);
	lock_not_needed(&fs->inode_lock, "no inode is held, so no other thread is here");
	if (fs->inode_table) {
		list_for_each_entry_safe(in, next, &fs->inode_lru, lru) {
			list_del(&in->lru);
			list_del(&in->hash);
			inode_free(in);
		}
		kfree(fs->inode_table);
	}
	if (fs->bc)
		bcache_destroy(fs->bc);
	kfree(fs->locks);
	kfree(fs);
}

/* Device numbers: 8 + 8 bits in the first pointer, or 12 + 20 bits in the second. */
static void decode_rdev(const struct ext4_inode *in, struct fs_stat *st)
{
	const uint32_t old = le32_to_cpu(in->block[0]);
	const uint32_t dev = le32_to_cpu(in->block[1]);

	if (old) {
		st->rdev_major = old >> 8 & 0xff;
		st->rdev_minor = old & 0xff;
	} else {
		st->rdev_major = dev >> 8 & 0xfff;
		st->rdev_minor = (dev & 0xff) | (dev >> 12 & 0xfff00);
	}
}

void ext4_inode_fill_stat(const struct ext4_inode *in, struct fs_stat *st)
{
	const uint32_t type = in->mode & S_IFMT;

	memset(st, 0, sizeof(*st));
	st->ino = in->ino;
	st->gen = in->gen;
	st->mode = in->mode;
	st->nlink = in->nlink;
	st->uid = in->uid;
	st->gid = in->gid;
	if (type == S_IFCHR || type == S_IFBLK)
		decode_rdev(in, st);
	st->blksize = in->fs->block_size;
	st->size = in->size;
	st->max_size = ext4_max_size(in);
	st->acl = ext4_may_have_acl(in);
	st->blocks = in->blocks;
	st->version = in->version;
	if (in->flags & EXT4_FL_COMPR)
		st->attrs |= STATX_ATTR_COMPRESSED;
	if (in->flags & EXT4_FL_IMMUTABLE)
		st->attrs |= STATX_ATTR_IMMUTABLE;
	if (in->flags & EXT4_FL_APPEND)
		st->attrs |= STATX_ATTR_APPEND;
	if (in->flags & EXT4_FL_NODUMP)
		st->attrs |= STATX_ATTR_NODUMP;
	st->atime = in->atime;
	st->mtime = in->mtime;
	st->ctime = in->ctime;
	st->crtime = in->crtime;
}

void ext4_inode_stat(const struct ext4_inode *in, struct fs_stat *st)
{
	struct ext4_fs *fs = in->fs;

	spin_lock(&fs->show_lock);
	*st = in->shown;
	spin_unlock(&fs->show_lock);
}
