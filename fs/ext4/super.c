/* SPDX-License-Identifier: MIT */
/*
 * ext4: superblock, mount and statfs.
 *
 * Flow:	ext4_mount() reads 4 KiB from the disk's start, checks magic, checksum,
 *		features and geometry, then opens the block cache and looks at the root.  A mount
 *		that may write recovers the journal before (rw.c), and starts over if that changed
 *		the disk.
 * Context:	a thread; sleeps for the disk.
 * Failure:	each refusal has one line in the log; nothing stays allocated.
 */
#define PR_FMT "ext4: "

#include <drivers/blkdev.h>
#include <fs/ext4.h>
#include <kernel/printk.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "journal_priv.h"

#define DEFAULT_CACHE_BYTES    (8u << 20)
#define DEFAULT_MAX_INODES     4096u
#define MAX_LOGGED_CORRUPTIONS 20
#define HEAD_LEN               4096u

/* Keep the first reason: what follows from it says less. */
static void keep_reason(struct ext4_fs *fs, const char *text)
{
	if (fs->why && fs->why_size && !fs->why[0])
		strlcpy(fs->why, text, fs->why_size);
}

int ext4_refuse(struct ext4_fs *fs, int err, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vscnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	keep_reason(fs, text);
	pr_err("%s: refused: %s\n", fs->bd->name, text);
	return err;
}

int ext4_corrupt(struct ext4_fs *fs, const char *fmt, ...)
{
	const uint64_t n = (uint64_t)atomic64_add_return(&fs->corruptions, 1);
	char text[160];
	va_list ap;

	if (fs->base.changes) /* as Linux's errors=remount-ro */
		ext4_abort(fs, "damage was found");
	if (n > MAX_LOGGED_CORRUPTIONS)
		return -EUCLEAN;
	va_start(ap, fmt);
	vscnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	keep_reason(fs, text);
	pr_err("%s: corrupt: %s%s\n", fs->bd->name, text,
	       n == MAX_LOGGED_CORRUPTIONS ? " (further ones are only counted)" : "");
	return -EUCLEAN;
}

static int bad_super(struct ext4_fs *fs, const char *what, uint64_t value)
{
	return ext4_refuse(fs, -EUCLEAN, "corrupt superblock: %s (%llu)", what,
			   (unsigned long long)value);
}

static int decode_sizes(struct ext4_fs *fs, const struct ext4_super_disk *sb)
{
	const uint32_t log_block = le32_to_cpu(sb->log_block_size);
	const uint32_t log_cluster = le32_to_cpu(sb->log_cluster_size);
	const bool dynamic = le32_to_cpu(sb->rev_level) > 0;

	if (log_block > EXT4_MAX_LOG_BLOCK - EXT4_MIN_LOG_BLOCK)
		return bad_super(fs, "block size", log_block);
	fs->block_bits = log_block + EXT4_MIN_LOG_BLOCK;
	fs->block_size = 1u << fs->block_bits;
	fs->super_block = EXT4_SUPER_OFFSET >> fs->block_bits;

	fs->cluster_ratio = 1;
	if (fs->ro_compat & EXT4_RO_COMPAT_BIGALLOC) {
		if (log_cluster < log_block || log_cluster - log_block > 19)
			return bad_super(fs, "cluster size", log_cluster);
		fs->cluster_ratio = 1u << (log_cluster - log_block);
	}

	fs->inode_size = dynamic ? le16_to_cpu(sb->inode_size) : EXT4_GOOD_INODE_SIZE;
	fs->first_ino = dynamic ? le32_to_cpu(sb->first_ino) : 11;
	if (fs->inode_size < EXT4_GOOD_INODE_SIZE || fs->inode_size > fs->block_size ||
	    !IS_POWER_OF_2(fs->inode_size))
		return bad_super(fs, "inode size", fs->inode_size);
	if (fs->first_ino < 11)
		return bad_super(fs, "first inode", fs->first_ino);

	fs->desc_size = EXT4_GROUP_DESC_MIN;
	if (fs->incompat & EXT4_INCOMPAT_64BIT) {
		fs->desc_size = le16_to_cpu(sb->desc_size);
		if (fs->desc_size < sizeof(struct ext4_group_disk) || fs->desc_size > 1024 ||
		    !IS_POWER_OF_2(fs->desc_size))
			return bad_super(fs, "group descriptor size", fs->desc_size);
	}
	return 0;
}

static uint64_t lo_hi(const struct ext4_fs *fs, le32_t lo, le32_t hi)
{
	uint64_t v = le32_to_cpu(lo);

	if (fs->incompat & EXT4_INCOMPAT_64BIT)
		v |= (uint64_t)le32_to_cpu(hi) << 32;
	return v;
}

static int decode_groups(struct ext4_fs *fs, const struct ext4_super_disk *sb)
{
	const uint32_t bits_per_block = fs->block_size * 8;
	uint64_t nr_groups, descs_per_block;

	fs->blocks_per_group = le32_to_cpu(sb->blocks_per_group);
	fs->inodes_per_group = le32_to_cpu(sb->inodes_per_group);
	fs->nr_inodes = le32_to_cpu(sb->inodes_count);
	fs->first_data_block = le32_to_cpu(sb->first_data_block);
	fs->nr_blocks = lo_hi(fs, sb->blocks_count_lo, sb->blocks_count_hi);
	fs->first_meta_bg = UINT32_MAX;

	if (!fs->blocks_per_group || fs->blocks_per_group % fs->cluster_ratio ||
	    fs->blocks_per_group / fs->cluster_ratio > bits_per_block)
		return bad_super(fs, "blocks per group", fs->blocks_per_group);
	if (fs->cluster_ratio > 1 &&
	    le32_to_cpu(sb->clusters_per_group) != fs->blocks_per_group / fs->cluster_ratio)
		return bad_super(fs, "clusters per group", le32_to_cpu(sb->clusters_per_group));
	if (!fs->inodes_per_group || fs->inodes_per_group > bits_per_block ||
	    fs->inodes_per_group < fs->block_size / fs->inode_size)
		return bad_super(fs, "inodes per group", fs->inodes_per_group);
	if (fs->first_data_block != (fs->block_size == 1024 && fs->cluster_ratio == 1 ? 1 : 0))
		return bad_super(fs, "first data block", fs->first_data_block);
	if (fs->nr_blocks <= fs->first_data_block + 1 || fs->nr_blocks > UINT64_MAX >> 17)
		return bad_super(fs, "number of blocks", fs->nr_blocks);

	nr_groups = DIV_ROUND_UP(fs->nr_blocks - fs->first_data_block, fs->blocks_per_group);
	if (nr_groups > UINT32_MAX || nr_groups * fs->inodes_per_group != fs->nr_inodes)
		return bad_super(fs, "number of inodes", fs->nr_inodes);
	fs->nr_groups = (uint32_t)nr_groups;
	if (fs->nr_inodes < fs->first_ino)
		return bad_super(fs, "number of inodes", fs->nr_inodes);

	if (fs->incompat & EXT4_INCOMPAT_META_BG) {
		descs_per_block = fs->block_size / fs->desc_size;
		fs->first_meta_bg = le32_to_cpu(sb->first_meta_bg);
		if (fs->first_meta_bg > DIV_ROUND_UP(nr_groups, descs_per_block))
			return bad_super(fs, "first meta block group", fs->first_meta_bg);
	}
	return 0;
}

static void decode_rest(struct ext4_fs *fs, const struct ext4_super_disk *sb)
{
	const uint64_t ratio = fs->cluster_ratio;

	memcpy(fs->uuid, sb->uuid, sizeof(fs->uuid));
	if (fs->incompat & EXT4_INCOMPAT_CSUM_SEED)
		fs->csum_seed = le32_to_cpu(sb->checksum_seed);
	else
		fs->csum_seed = crc32c(~0u, sb->uuid, sizeof(sb->uuid));
	fs->extra_isize = 32;
	if (le16_to_cpu(sb->want_extra_isize) >= 4 &&
	    le16_to_cpu(sb->want_extra_isize) <= fs->inode_size - EXT4_GOOD_INODE_SIZE)
		fs->extra_isize = le16_to_cpu(sb->want_extra_isize);
	for (int i = 0; i < 4; i++)
		fs->hash_seed[i] = le32_to_cpu(sb->hash_seed[i]);
	for (int i = 0; i < 2; i++)
		fs->backup_bgs[i] = le32_to_cpu(sb->backup_bgs[i]);
	fs->def_hash_version = sb->def_hash_version;
	fs->hash_unsigned = le32_to_cpu(sb->flags) & EXT4_FLAG_UNSIGNED_HASH;
	fs->r_blocks = MIN(lo_hi(fs, sb->r_blocks_count_lo, sb->r_blocks_count_hi), fs->nr_blocks);
	fs->reserved_gdt_blocks = le16_to_cpu(sb->reserved_gdt_blocks);
	/* With bigalloc this counts clusters. */
	atomic64_set(&fs->free_blocks,
		     (int64_t)(MIN(lo_hi(fs, sb->free_blocks_lo, sb->free_blocks_hi),
				   fs->nr_blocks / ratio) *
			       ratio));
	fs->overhead = MIN(le32_to_cpu(sb->overhead_clusters) * ratio, fs->nr_blocks);
	atomic64_set(&fs->free_inodes, MIN(le32_to_cpu(sb->free_inodes), fs->nr_inodes));
}

static uint32_t super_csum(const struct ext4_super_disk *sb)
{
	return crc32c(~0u, sb, offsetof(struct ext4_super_disk, checksum));
}

void ext4_super_csum_set(const struct ext4_fs *fs, struct ext4_super_disk *sb)
{
	if (fs->has_csum)
		sb->checksum = cpu_to_le32(super_csum(sb));
}

struct ext4_super_disk *ext4_super_in(const struct ext4_fs *fs, const struct bcache_buf *buf)
{
	return (void *)(buf->data + (EXT4_SUPER_OFFSET & (fs->block_size - 1)));
}

static int super_decode(struct ext4_fs *fs, const struct ext4_super_disk *sb)
{
	int err;

	if (le16_to_cpu(sb->magic) != EXT4_SUPER_MAGIC)
		return ext4_refuse(fs, -EINVAL, "not an ext2, ext3 or ext4 file system");
	if (le32_to_cpu(sb->rev_level) > 1)
		return bad_super(fs, "revision", le32_to_cpu(sb->rev_level));

	/* The checksum first: nothing else can be believed without. */
	if (le32_to_cpu(sb->ro_compat) & EXT4_RO_COMPAT_METADATA_CSUM) {
		if (sb->checksum_type != EXT4_CHECKSUM_CRC32C)
			return bad_super(fs, "checksum type", sb->checksum_type);
		if (le32_to_cpu(sb->checksum) != super_csum(sb))
			return bad_super(fs, "checksum", le32_to_cpu(sb->checksum));
		fs->has_csum = true;
	}
	err = ext4_features_check(fs, sb);
	if (err)
		return err;

	fs->compat = le32_to_cpu(sb->compat);
	fs->incompat = le32_to_cpu(sb->incompat);
	fs->ro_compat = le32_to_cpu(sb->ro_compat);
	err = decode_sizes(fs, sb);
	if (!err)
		err = decode_groups(fs, sb);
	if (!err)
		decode_rest(fs, sb);
	return err;
}

/* Multi-mount protection, for a mount that only reads: is some other node using this disk? */
static int check_mmp(struct ext4_fs *fs, const struct ext4_super_disk *sb)
{
	const uint64_t block = le64_to_cpu(sb->mmp_block);
	const struct ext4_mmp_disk *mmp;
	struct bcache_buf *buf;
	uint32_t seq;
	int err;

	if (!(fs->incompat & EXT4_INCOMPAT_MMP))
		return 0;
	if (!ext4_blocks_ok(fs, block, 1))
		return ext4_corrupt(fs, "mmp block %llu", (unsigned long long)block);
	buf = bcache_get(fs->bc, block);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	mmp = (const void *)buf->data;
	seq = le32_to_cpu(mmp->seq);
	err = ext4_mmp_check(fs, mmp);
	if (!err && seq != EXT4_MMP_SEQ_CLEAN)
		err = ext4_refuse(fs, -EOPNOTSUPP,
				  "in use by another node, or left so by a crash (mmp %#x)", seq);
	bcache_put(buf);
	return err;
}

static int check_root(struct ext4_fs *fs)
{
	struct ext4_inode *root = ext4_inode_get(fs, EXT4_ROOT_INO, FS_ANY_GEN);
	int err = 0;

	if (IS_ERR(root)) {
		err = (int)PTR_ERR(root);
		return err == -ESTALE ? ext4_corrupt(fs, "the root directory is missing") : err;
	}
	if (!ext4_is_dir(root))
		err = ext4_corrupt(fs, "the root is not a directory");
	ext4_inode_put(root);
	return err;
}

static int inode_cache_init(struct ext4_fs *fs, const struct fs_mount_options *opt)
{
	uint32_t n = 64;

	fs->max_unused = opt && opt->max_inodes ? opt->max_inodes : DEFAULT_MAX_INODES;
	while (n < fs->max_unused && n < 65536)
		n *= 2;
	fs->inode_mask = n - 1;
	fs->inode_table = kcalloc(n, sizeof(*fs->inode_table));
	if (!fs->inode_table)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		list_init(&fs->inode_table[i]);
	spin_lock_init(&fs->show_lock, "ext4-show", RANK_SPIN_FS);
	mutex_init(&fs->change, "ext4-change", RANK_FS);
	list_init(&fs->nameless);
	spin_lock_init(&fs->inode_lock, "ext4-inodes", RANK_SPIN_FS);
	list_init(&fs->inode_lru);
	return 0;
}

static int check_device(struct ext4_fs *fs)
{
	const struct blkdev *bd = fs->bd;
	const uint64_t have = bd->nr_sectors >> (fs->block_bits - BLK_SECTOR_SHIFT);

	if (bd->block_size > MIN(fs->block_size, 4096u))
		return ext4_refuse(fs, -EOPNOTSUPP,
				   "blocks of %u bytes on a device with sectors of %u",
				   fs->block_size, bd->block_size);
	if (fs->nr_blocks > have)
		return ext4_refuse(fs, -EUCLEAN,
				   "the disk is cut short: %llu of %llu blocks are there",
				   (unsigned long long)have, (unsigned long long)fs->nr_blocks);
	return 0;
}

static int mount_with(struct ext4_fs *fs, const struct fs_mount_options *opt, const uint8_t *head,
		      bool writable)
{
	const struct ext4_super_disk *sb = (const void *)(head + EXT4_SUPER_OFFSET);
	uint64_t cache = opt && opt->cache_bytes ? opt->cache_bytes : DEFAULT_CACHE_BYTES;
	int err;

	err = super_decode(fs, sb);
	if (!err && (fs->incompat & EXT4_INCOMPAT_RECOVER) && !writable)
		err = ext4_refuse(fs, -EOPNOTSUPP,
				  "needs_recovery: the journal has to be replayed; run e2fsck");
	if (!err && !writable)
		err = ext4_state_check(fs, sb, false);
	if (!err)
		err = check_device(fs);
	if (!err)
		err = inode_cache_init(fs, opt);
	if (err)
		return err;
	fs->bc = bcache_create(fs->bd, fs->block_size, cache);
	if (IS_ERR(fs->bc)) {
		err = (int)PTR_ERR(fs->bc);
		fs->bc = NULL;
		return err;
	}
	return 0;
}

static struct ext4_fs *fs_new(struct blkdev *bd, const struct fs_mount_options *opt)
{
	struct ext4_fs *fs = kzalloc(sizeof(*fs));

	if (!fs)
		return NULL;
	fs->locks = kzalloc(sizeof(*fs->locks));
	if (!fs->locks) {
		kfree(fs);
		return NULL;
	}
	fs->base = (struct fs){ .ops = &ext4_fs_ops, .root_ino = EXT4_ROOT_INO, .read_only = true };
	fs->bd = bd;
	fs->why = opt ? opt->why : NULL;
	fs->why_size = opt ? opt->why_size : 0;
	fs->repeats = opt && opt->repeats;
	mutex_init(&fs->super_lock, "ext4-super", RANK_FS_SUPER);
	mutex_init(&fs->orphan_lock, "ext4-orphans", RANK_FS_ORPHAN);
	list_init(&fs->orphans);
	ext4_reserve_init(fs);
	for (unsigned int i = 0; i < EXT4_GROUP_LOCKS; i++) {
		mutex_init(&fs->locks->group[i], "ext4-group", RANK_FS_GROUP);
		mutex_init(&fs->locks->raw[i], "ext4-raw-inode", RANK_FS_RAW);
	}
	return fs;
}

/* Read @head and mount; 1: the journal was replayed, so do it again. */
static int try_mount(struct ext4_fs *fs, const struct fs_mount_options *opt, uint8_t *head,
		     uint32_t head_len)
{
	bool writable = opt && opt->writable && !fs->bd->read_only;
	const struct ext4_super_disk *sb = (const void *)(head + EXT4_SUPER_OFFSET);
	struct log *log = NULL;
	uint32_t seq = 0;
	int err;

	err = blk_read(fs->bd, 0, head, head_len);
	if (err)
		return ext4_refuse(fs, err, "reading the superblock failed (%d)", err);
	err = mount_with(fs, opt, head, writable);
	if (!err && writable && !ext4_features_writable(fs)) {
		writable = false;
		err = ext4_state_check(fs, sb, false);
	}
	if (!err)
		err = writable ? ext4_mmp_claim(fs, sb, opt) : check_mmp(fs, sb);
	if (!err && writable)
		err = ext4_rw_recover(fs, sb, &log, &seq);
	if (!err)
		err = check_root(fs);
	if (!err && writable) {
		err = ext4_rw_start(fs, log, seq, !opt->manual_commit);
		return err ? err : ext4_write_start(fs);
	}
	if (log)
		log_free(log);
	return err;
}

int ext4_mount(struct blkdev *bd, const struct fs_mount_options *opt, struct fs **out)
{
	const uint32_t head_len = MAX(HEAD_LEN, bd->block_size);
	struct ext4_fs *fs = NULL;
	uint8_t *head;
	int err;

	if (opt && opt->why && opt->why_size)
		opt->why[0] = '\0';
	head = kmalloc(head_len);
	if (!head)
		return -ENOMEM;
	do {
		struct ext4_fs *old = fs;

		fs = fs_new(bd, opt);
		if (old && fs) { /* recovered: the disk stays ours */
			fs->mmp = old->mmp;
			old->mmp = NULL;
		}
		if (old)
			ext4_unmount(old);
		if (!fs)
			err = -ENOMEM;
		else if (bd->nr_sectors < head_len >> BLK_SECTOR_SHIFT)
			err = ext4_refuse(fs, -EINVAL, "too small for a file system");
		else
			err = try_mount(fs, opt, head, head_len);
	} while (err == 1);
	kfree(head);
	if (err) {
		if (fs)
			ext4_unmount(fs);
		return err;
	}
	fs->why = NULL; /* the caller's buffer may go away */
	*out = &fs->base;
	return 0;
}

void ext4_statfs(struct ext4_fs *fs, struct fs_statfs *out)
{
	const uint64_t nr_free = ext4_free_blocks(fs), kept = ext4_kept_blocks(fs);
	const uint64_t free = nr_free > kept ? nr_free - kept : 0;
	uint64_t lo, hi;

	memset(out, 0, sizeof(*out));
	out->magic = EXT4_SUPER_MAGIC;
	out->bsize = fs->block_size;
	out->name_max = FS_NAME_MAX;
	out->blocks = fs->nr_blocks - fs->overhead;
	out->bfree = free;
	out->bavail = free > fs->r_blocks ? free - fs->r_blocks : 0;
	out->files = fs->nr_inodes;
	out->ffree = (uint64_t)MAX(atomic64_read(&fs->free_inodes), (int64_t)0);
	lo = get_unaligned_le64(fs->uuid);
	hi = get_unaligned_le64(fs->uuid + 8);
	out->fsid = lo ^ hi;
}

void ext4_counts(struct ext4_fs *fs, struct fs_counts *out)
{
	struct bcache_stats bc;

	bcache_stats(fs->bc, &bc);
	out->cache_hits = bc.hits;
	out->cache_misses = bc.misses;
	spin_lock(&fs->inode_lock);
	out->inode_hits = fs->inode_hits;
	out->inode_misses = fs->inode_misses;
	spin_unlock(&fs->inode_lock);
	out->data_reads = (uint64_t)atomic64_read(&fs->data_reads);
	out->data_bytes = (uint64_t)atomic64_read(&fs->data_bytes);
	out->corruptions = (uint64_t)atomic64_read(&fs->corruptions);
}
