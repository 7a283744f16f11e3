/* SPDX-License-Identifier: MIT */
/* On-disk layout of ext2, ext3 and ext4; everything is little-endian. */
#pragma once

#include <abi/stat.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>

#define EXT4_SUPER_OFFSET  1024u
#define EXT4_MIN_LOG_BLOCK 10u
#define EXT4_MAX_LOG_BLOCK 16u

struct ext4_super_disk {
	le32_t inodes_count;
	le32_t blocks_count_lo;
	le32_t r_blocks_count_lo;
	le32_t free_blocks_lo;
	le32_t free_inodes;
	le32_t first_data_block;
	le32_t log_block_size; /* minus 10 */
	le32_t log_cluster_size;
	le32_t blocks_per_group;
	le32_t clusters_per_group;
	le32_t inodes_per_group;
	le32_t mtime;
	le32_t wtime;
	le16_t mnt_count;
	le16_t max_mnt_count;
	le16_t magic;
	le16_t state;
	le16_t errors;
	le16_t minor_rev;
	le32_t lastcheck;
	le32_t checkinterval;
	le32_t creator_os;
	le32_t rev_level;
	le16_t def_resuid;
	le16_t def_resgid;
	le32_t first_ino;
	le16_t inode_size;
	le16_t block_group_nr;
	le32_t compat;
	le32_t incompat;
	le32_t ro_compat;
	uint8_t uuid[16];
	char volume_name[16];
	char last_mounted[64];
	le32_t algo_bitmap;
	uint8_t prealloc_blocks;
	uint8_t prealloc_dir_blocks;
	le16_t reserved_gdt_blocks;
	uint8_t journal_uuid[16];
	le32_t journal_inum;
	le32_t journal_dev;
	le32_t last_orphan;
	le32_t hash_seed[4];
	uint8_t def_hash_version;
	uint8_t jnl_backup_type;
	le16_t desc_size;
	le32_t default_mount_opts;
	le32_t first_meta_bg;
	le32_t mkfs_time;
	le32_t jnl_blocks[17];
	le32_t blocks_count_hi;
	le32_t r_blocks_count_hi;
	le32_t free_blocks_hi;
	le16_t min_extra_isize;
	le16_t want_extra_isize;
	le32_t flags;
	le16_t raid_stride;
	le16_t mmp_interval;
	le64_t mmp_block;
	le32_t raid_stripe_width;
	uint8_t log_groups_per_flex;
	uint8_t checksum_type;
	uint8_t encryption_level;
	uint8_t reserved_pad;
	le64_t kbytes_written;
	le32_t snapshot_inum;
	le32_t snapshot_id;
	le64_t snapshot_r_blocks;
	le32_t snapshot_list;
	le32_t error_count;
	uint8_t error_info[0x200 - 0x198];
	char mount_opts[64];
	le32_t usr_quota_inum;
	le32_t grp_quota_inum;
	le32_t overhead_clusters;
	le32_t backup_bgs[2];
	uint8_t encrypt_algos[4];
	uint8_t encrypt_salt[16];
	le32_t lpf_ino;
	le32_t prj_quota_inum;
	le32_t checksum_seed;
	uint8_t time_hi[8];
	le16_t encoding;
	le16_t encoding_flags;
	le32_t orphan_file_inum;
	le32_t reserved[94];
	le32_t checksum; /* crc32c of everything before */
};
static_assert(sizeof(struct ext4_super_disk) == 1024, "superblock is disk layout");
static_assert(offsetof(struct ext4_super_disk, compat) == 0x5c, "superblock is disk layout");
static_assert(offsetof(struct ext4_super_disk, blocks_count_hi) == 0x150, "superblock layout");
static_assert(offsetof(struct ext4_super_disk, mount_opts) == 0x200, "superblock layout");
static_assert(offsetof(struct ext4_super_disk, checksum_seed) == 0x270, "superblock layout");
static_assert(offsetof(struct ext4_super_disk, orphan_file_inum) == 0x280, "superblock layout");

enum ext4_state {
	EXT4_STATE_VALID = 0x1,
	EXT4_STATE_ERROR = 0x2,
	EXT4_STATE_ORPHAN = 0x4, /* orphans are being cleaned up */
};

enum ext4_super_flags {
	EXT4_FLAG_SIGNED_HASH = 0x1,
	EXT4_FLAG_UNSIGNED_HASH = 0x2,
};

#define EXT4_CHECKSUM_CRC32C 1u

enum ext4_compat {
	EXT4_COMPAT_HAS_JOURNAL = 0x4,
	EXT4_COMPAT_DIR_INDEX = 0x20,
	EXT4_COMPAT_SPARSE_SUPER2 = 0x200,
	EXT4_COMPAT_ORPHAN_FILE = 0x1000,
};

enum ext4_incompat {
	EXT4_INCOMPAT_COMPRESSION = 0x1,
	EXT4_INCOMPAT_FILETYPE = 0x2,
	EXT4_INCOMPAT_RECOVER = 0x4,
	EXT4_INCOMPAT_JOURNAL_DEV = 0x8,
	EXT4_INCOMPAT_META_BG = 0x10,
	EXT4_INCOMPAT_EXTENTS = 0x40,
	EXT4_INCOMPAT_64BIT = 0x80,
	EXT4_INCOMPAT_MMP = 0x100,
	EXT4_INCOMPAT_FLEX_BG = 0x200,
	EXT4_INCOMPAT_EA_INODE = 0x400,
	EXT4_INCOMPAT_DIRDATA = 0x1000,
	EXT4_INCOMPAT_CSUM_SEED = 0x2000,
	EXT4_INCOMPAT_LARGEDIR = 0x4000,
	EXT4_INCOMPAT_INLINE_DATA = 0x8000,
	EXT4_INCOMPAT_ENCRYPT = 0x10000,
	EXT4_INCOMPAT_CASEFOLD = 0x20000,
};

enum ext4_ro_compat {
	EXT4_RO_COMPAT_SPARSE_SUPER = 0x1,
	EXT4_RO_COMPAT_LARGE_FILE = 0x2,
	EXT4_RO_COMPAT_BTREE_DIR = 0x4,
	EXT4_RO_COMPAT_HUGE_FILE = 0x8,
	EXT4_RO_COMPAT_GDT_CSUM = 0x10,
	EXT4_RO_COMPAT_DIR_NLINK = 0x20,
	EXT4_RO_COMPAT_EXTRA_ISIZE = 0x40,
	EXT4_RO_COMPAT_BIGALLOC = 0x200,
	EXT4_RO_COMPAT_METADATA_CSUM = 0x400,
	EXT4_RO_COMPAT_ORPHAN_PRESENT = 0x10000,
};

struct ext4_group_disk {
	le32_t block_bitmap_lo;
	le32_t inode_bitmap_lo;
	le32_t inode_table_lo;
	le16_t free_blocks_lo;
	le16_t free_inodes_lo;
	le16_t used_dirs_lo;
	le16_t flags;
	le32_t exclude_bitmap_lo;
	le16_t block_bitmap_csum_lo;
	le16_t inode_bitmap_csum_lo;
	le16_t itable_unused_lo;
	le16_t checksum;
	/* From here on only with the 64bit feature. */
	le32_t block_bitmap_hi;
	le32_t inode_bitmap_hi;
	le32_t inode_table_hi;
	le16_t free_blocks_hi;
	le16_t free_inodes_hi;
	le16_t used_dirs_hi;
	le16_t itable_unused_hi;
	le32_t exclude_bitmap_hi;
	le16_t block_bitmap_csum_hi;
	le16_t inode_bitmap_csum_hi;
	le32_t reserved;
};
static_assert(sizeof(struct ext4_group_disk) == 64, "group descriptor is disk layout");
static_assert(offsetof(struct ext4_group_disk, checksum) == 0x1e, "group descriptor layout");

#define EXT4_GROUP_DESC_MIN     32u
#define EXT4_GROUP_INODE_UNINIT 0x1u
#define EXT4_GROUP_BLOCK_UNINIT 0x2u
#define EXT4_GROUP_INODE_ZEROED 0x4u

#define EXT4_NR_BLOCK_PTRS   15
#define EXT4_NR_DIRECT       12
#define EXT4_IBLOCK_LEN      60u
#define EXT4_GOOD_INODE_SIZE 128u

struct ext4_inode_disk {
	le16_t mode;
	le16_t uid_lo;
	le32_t size_lo;
	le32_t atime;
	le32_t ctime;
	le32_t mtime;
	le32_t dtime;
	le16_t gid_lo;
	le16_t links_count;
	le32_t blocks_lo;
	le32_t flags;
	le32_t version_lo;
	le32_t block[EXT4_NR_BLOCK_PTRS];
	le32_t generation;
	le32_t file_acl_lo;
	le32_t size_hi;
	le32_t obso_faddr;
	le16_t blocks_hi;
	le16_t file_acl_hi;
	le16_t uid_hi;
	le16_t gid_hi;
	le16_t checksum_lo;
	le16_t reserved;
	/* From here on as far as extra_isize reaches. */
	le16_t extra_isize;
	le16_t checksum_hi;
	le32_t ctime_extra;
	le32_t mtime_extra;
	le32_t atime_extra;
	le32_t crtime;
	le32_t crtime_extra;
	le32_t version_hi;
	le32_t projid;
};
static_assert(sizeof(struct ext4_inode_disk) == 160, "inode is disk layout");
static_assert(offsetof(struct ext4_inode_disk, block) == 0x28, "inode is disk layout");
static_assert(offsetof(struct ext4_inode_disk, extra_isize) == 0x80, "inode is disk layout");

enum ext4_inode_flags {
	EXT4_FL_COMPR = 0x4,
	EXT4_FL_IMMUTABLE = 0x10,
	EXT4_FL_APPEND = 0x20,
	EXT4_FL_NODUMP = 0x40,
	EXT4_FL_ENCRYPT = 0x800,
	EXT4_FL_INDEX = 0x1000,
	EXT4_FL_HUGE_FILE = 0x40000,
	EXT4_FL_EXTENTS = 0x80000,
	EXT4_FL_EA_INODE = 0x200000,
	EXT4_FL_INLINE_DATA = 0x10000000,
	EXT4_FL_CASEFOLD = 0x40000000,
};

#define EXT4_EXTENT_MAGIC     0xf30au
#define EXT4_EXTENT_MAX_DEPTH 5u
#define EXT4_EXTENT_MAX_INIT  32768u /* longer: unwritten, of this many blocks less */

struct ext4_extent_header {
	le16_t magic;
	le16_t entries;
	le16_t max;
	le16_t depth;
	le32_t generation;
};

struct ext4_extent_index {
	le32_t lblk;
	le32_t leaf_lo;
	le16_t leaf_hi;
	le16_t unused;
};

struct ext4_extent {
	le32_t lblk;
	le16_t len;
	le16_t start_hi;
	le32_t start_lo;
};
static_assert(sizeof(struct ext4_extent_header) == 12, "extents are disk layout");
static_assert(sizeof(struct ext4_extent_index) == 12, "extents are disk layout");
static_assert(sizeof(struct ext4_extent) == 12, "extents are disk layout");

/* A directory entry: 8 bytes, then the name, padded to a multiple of 4. */
struct ext4_dirent_disk {
	le32_t ino;
	le16_t rec_len;
	uint8_t name_len;
	uint8_t file_type;
	char name[];
};
static_assert(sizeof(struct ext4_dirent_disk) == 8, "directory entry is disk layout");

/* The last 12 bytes of a directory block with a checksum look like an empty entry. */
struct ext4_dirent_tail {
	le32_t zero1;
	le16_t rec_len; /* 12 */
	uint8_t zero2;
	uint8_t file_type; /* 0xde */
	le32_t checksum;
};
#define EXT4_TAIL_FILE_TYPE 0xdeu

/* In the root of a hashed directory, behind the entries "." and ".." of 12 bytes each. */
struct ext4_dx_root_info {
	le32_t reserved;
	uint8_t hash_version;
	uint8_t info_len; /* 8 */
	uint8_t indirect_levels;
	uint8_t unused_flags;
};

/* The first entry's hash is not one: it holds limit and count. */
struct ext4_dx_entry {
	le32_t hash;
	le32_t block;
};

struct ext4_dx_countlimit {
	le16_t limit;
	le16_t count;
};

struct ext4_dx_tail {
	le32_t reserved;
	le32_t checksum;
};

#define EXT4_DX_ROOT_INFO_OFFSET    24u
#define EXT4_DX_ROOT_ENTRIES_OFFSET 32u
#define EXT4_DX_NODE_ENTRIES_OFFSET 8u

enum ext4_hash_version {
	EXT4_HASH_LEGACY = 0,
	EXT4_HASH_HALF_MD4 = 1,
	EXT4_HASH_TEA = 2,
	EXT4_HASH_LEGACY_UNSIGNED = 3,
	EXT4_HASH_HALF_MD4_UNSIGNED = 4,
	EXT4_HASH_TEA_UNSIGNED = 5,
};

/* Extended attributes inside the inode, behind extra_isize. */
#define EXT4_XATTR_MAGIC        0xea020000u
#define EXT4_XATTR_INDEX_SYSTEM 7u

struct ext4_xattr_entry {
	uint8_t name_len;
	uint8_t name_index;
	le16_t value_offs; /* from the first entry */
	le32_t value_inum;
	le32_t value_size;
	le32_t hash;
	char name[];
};
static_assert(sizeof(struct ext4_xattr_entry) == 16, "attribute entry is disk layout");

#define EXT4_MMP_MAGIC     0x004d4d50u
#define EXT4_MMP_SEQ_MAX   0xe24d4d4fu /* of a node that has the disk */
#define EXT4_MMP_SEQ_FSCK  0xe24d4d50u
#define EXT4_MMP_SEQ_CLEAN 0xff4d4d50u

struct ext4_mmp_disk {
	le32_t magic;
	le32_t seq;
	le64_t time;
	char nodename[64];
	char bdevname[32];
	le16_t check_interval;
	le16_t pad1;
	le32_t pad2[226];
	le32_t checksum;
};
static_assert(sizeof(struct ext4_mmp_disk) == 1024, "mmp block is disk layout");
