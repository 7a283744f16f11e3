/* SPDX-License-Identifier: MIT */
/* On-disk layout of the journal (jbd2); everything is big-endian. */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>

#define JBD2_MAGIC      0xc03b3998u
#define JBD2_MIN_BLOCKS 1024u

enum jbd2_block_type {
	JBD2_DESCRIPTOR = 1,
	JBD2_COMMIT = 2,
	JBD2_SUPER_V1 = 3,
	JBD2_SUPER_V2 = 4,
	JBD2_REVOKE = 5,
};

struct jbd2_header {
	be32_t magic;
	be32_t type;
	be32_t sequence;
};

enum jbd2_compat {
	JBD2_COMPAT_CHECKSUM = 0x1, /* v1: of whole transactions */
};

enum jbd2_incompat {
	JBD2_INCOMPAT_REVOKE = 0x1,
	JBD2_INCOMPAT_64BIT = 0x2,
	JBD2_INCOMPAT_ASYNC_COMMIT = 0x4,
	JBD2_INCOMPAT_CSUM_V2 = 0x8,
	JBD2_INCOMPAT_CSUM_V3 = 0x10,
	JBD2_INCOMPAT_FAST_COMMIT = 0x20,
};
#define JBD2_INCOMPAT_KNOWN 0x3fu

#define JBD2_CSUM_CRC32  1u /* in a commit block, v1 */
#define JBD2_CSUM_CRC32C 4u

struct jbd2_super {
	struct jbd2_header h;
	be32_t block_size;
	be32_t max_len; /* blocks, this one included */
	be32_t first;   /* block of the log */
	be32_t sequence;
	be32_t start; /* 0: the log is empty */
	be32_t error;
	be32_t compat; /* from here on only in version 2 */
	be32_t incompat;
	be32_t ro_compat;
	uint8_t uuid[16];
	be32_t nr_users;
	be32_t dyn_super;
	be32_t max_transaction;
	be32_t max_trans_data;
	uint8_t checksum_type;
	uint8_t pad[3];
	be32_t nr_fc_blocks;
	be32_t head;
	be32_t pad2[40];
	be32_t checksum; /* crc32c of 1024 bytes, this field as 0 */
	uint8_t users[768];
};
static_assert(sizeof(struct jbd2_super) == 1024, "journal superblock is disk layout");
static_assert(offsetof(struct jbd2_super, checksum) == 0xfc, "journal superblock layout");
static_assert(offsetof(struct jbd2_super, nr_fc_blocks) == 0x54, "journal superblock layout");

struct jbd2_tag { /* versions 1 and 2 */
	be32_t block_lo;
	be16_t checksum;
	be16_t flags;
	be32_t block_hi; /* with 64bit */
};

struct jbd2_tag3 {
	be32_t block_lo;
	be32_t flags;
	be32_t block_hi;
	be32_t checksum;
};
static_assert(sizeof(struct jbd2_tag3) == 16, "journal tag is disk layout");

enum jbd2_tag_flags {
	JBD2_TAG_ESCAPE = 1,
	JBD2_TAG_SAME_UUID = 2,
	JBD2_TAG_DELETED = 4,
	JBD2_TAG_LAST = 8,
};
#define JBD2_UUID_LEN 16u
#define JBD2_TAIL_LEN 4u /* checksum at the end of descriptor and revoke blocks, v2 and v3 */

struct jbd2_revoke_header {
	struct jbd2_header h;
	be32_t count; /* bytes in use, header included */
};

struct jbd2_commit {
	struct jbd2_header h;
	uint8_t checksum_type;
	uint8_t checksum_size;
	uint8_t pad[2];
	be32_t checksum[8];
	be64_t sec;
	be32_t nsec;
};
static_assert(offsetof(struct jbd2_commit, sec) == 0x30, "commit block is disk layout");

/* The beginning of a fast commit: tag, length, then features and the transaction it follows. */
#define JBD2_FC_TAG_HEAD 0x0009u
struct jbd2_fc_head {
	le16_t tag;
	le16_t len;
	le32_t features;
	le32_t tid;
};
