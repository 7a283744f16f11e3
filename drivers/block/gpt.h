/* SPDX-License-Identifier: MIT */
/*
 * GPT: the table of partitions on a disk, as bytes and as what they mean.  Pure.
 *
 * Limits:	GPT_MAX_ENTRIES entries; more are refused by name.
 * See:		UEFI Specification 2.8, chapter 5
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>

#define GPT_SIGNATURE   "EFI PART"
#define GPT_HEADER_LEN  92u
#define GPT_ENTRY_LEN   128u
#define GPT_MAX_ENTRIES 1024u
#define GPT_MAX_TABLE   (1u << 20) /* bytes of all entries */
#define GPT_NAME_UNITS  36u
#define GPT_LABEL_LEN   (GPT_NAME_UNITS * 3 + 1) /* as UTF-8 */
#define GPT_UUID_LEN    37u                      /* as text */

#define MBR_PARTITIONS 446u /* offset of four entries of 16 bytes */
#define MBR_ENTRY_LEN  16u
#define MBR_ENTRY_TYPE 4u
#define MBR_SIGNATURE  510u /* 0x55, 0xaa */
#define MBR_TYPE_GPT   0xeeu

struct gpt_wire_header {
	uint8_t signature[8];
	le32_t revision;
	le32_t header_len;
	le32_t header_crc; /* of header_len bytes, this field being 0 */
	le32_t reserved;
	le64_t my_block;
	le64_t other_block; /* of the backup, in the backup that of the first */
	le64_t first_usable, last_usable;
	uint8_t disk_uuid[16];
	le64_t entries_block;
	le32_t nr_entries;
	le32_t entry_len;
	le32_t entries_crc;
	uint8_t pad[4]; /* not of the header; the rest of its block is reserved */
};
static_assert(offsetof(struct gpt_wire_header, pad) == GPT_HEADER_LEN &&
		      offsetof(struct gpt_wire_header, entries_block) == 72,
	      "gpt_wire_header is disk layout");

struct gpt_wire_entry {
	uint8_t type[16]; /* zero: not in use */
	uint8_t uuid[16];
	le64_t first_block, last_block;
	le64_t attributes;
	le16_t name[GPT_NAME_UNITS];
};
static_assert(sizeof(struct gpt_wire_entry) == GPT_ENTRY_LEN, "gpt_wire_entry is disk layout");

struct gpt_header {
	uint64_t first_usable, last_usable;
	uint64_t entries_block;
	uint32_t nr_entries;
	uint32_t entry_len;
	uint32_t entries_crc;
};

struct gpt_partition {
	uint32_t number; /* from 1 */
	uint64_t first_block, nr_blocks;
	bool linux_fs; /* its type is one that Linux file systems have */
	char label[GPT_LABEL_LEN];
	char uuid[GPT_UUID_LEN];
};

/* Does block 0 say that the disk has a GPT? */
bool gpt_is_protected(const uint8_t *block, size_t len);
/*
 * The header in @block of @len bytes, which is block @at of a disk of @nr_blocks.  -EINVAL: *why
 * says what is wrong.
 */
int __must_check gpt_decode_header(const uint8_t *block, size_t len, uint64_t at,
				   uint64_t nr_blocks, struct gpt_header *out, const char **why);
/*
 * The partitions in @table of nr_entries * entry_len bytes; *nr of them go to @out, which has room
 * for nr_entries.  -EINVAL: *why.
 */
int __must_check gpt_decode_entries(const struct gpt_header *h, const uint8_t *table,
				    struct gpt_partition *out, uint32_t *nr, const char **why);
/*
 * The partition of @parts that @which names (as in <drivers/partition.h>, "" included).  -ENOENT,
 * -EEXIST, -EINVAL: *why.
 */
int __must_check gpt_choose(const struct gpt_partition *parts, uint32_t nr, const char *which,
			    const struct gpt_partition **out, const char **why);
