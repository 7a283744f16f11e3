/* SPDX-License-Identifier: MIT */
/* GPT: headers and entries, checked, and the choice of a partition.  Pure. */
#include "gpt.h"

#include <lib/crc.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

#define PROTECTIVE_ENTRIES 4u

/* Types of partitions, as the bytes on the disk. */
static const uint8_t linux_types[][16] = {
	/* 0fc63daf-8483-4772-8e79-3d69d8477de4: a file system of Linux */
	{ 0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d,
	  0xe4 },
	/* 4f68bce3-e8cd-4db1-96e7-fbcaf984b709: its root on x86-64 */
	{ 0xe3, 0xbc, 0x68, 0x4f, 0xcd, 0xe8, 0xb1, 0x4d, 0x96, 0xe7, 0xfb, 0xca, 0xf9, 0x84, 0xb7,
	  0x09 },
};

bool gpt_is_protected(const uint8_t *block, size_t len)
{
	if (len < MBR_SIGNATURE + 2 || block[MBR_SIGNATURE] != 0x55 ||
	    block[MBR_SIGNATURE + 1] != 0xaa)
		return false;
	for (unsigned int i = 0; i < PROTECTIVE_ENTRIES; i++) {
		if (block[MBR_PARTITIONS + i * MBR_ENTRY_LEN + MBR_ENTRY_TYPE] == MBR_TYPE_GPT)
			return true;
	}
	return false;
}

static bool has_signature(const uint8_t *block, size_t len)
{
	return len >= GPT_HEADER_LEN && !memcmp(block, GPT_SIGNATURE, 8);
}

static bool crc_is_right(const uint8_t *block, const struct gpt_wire_header *w)
{
	const uint32_t len = le32_to_cpu(w->header_len);
	const size_t at = offsetof(struct gpt_wire_header, header_crc);
	static const uint8_t zero[sizeof(w->header_crc)];
	uint32_t crc = crc32(~0u, block, at);

	crc = crc32(crc, zero, sizeof(zero));
	crc = crc32(crc, block + at + sizeof(zero), len - at - sizeof(zero));
	return ~crc == le32_to_cpu(w->header_crc);
}

/* Where the entries are: outside of the usable blocks, and inside of the disk. */
static const char *check_places(const struct gpt_header *h, size_t block_len, uint64_t at,
				uint64_t nr_blocks)
{
	const uint64_t len = DIV_ROUND_UP((uint64_t)h->nr_entries * h->entry_len, block_len);

	if (h->first_usable > h->last_usable || h->last_usable >= nr_blocks)
		return "its usable blocks are not on the disk";
	if (at >= h->first_usable && at <= h->last_usable)
		return "it lies in its own usable blocks";
	if (h->entries_block < 2 || h->entries_block >= nr_blocks ||
	    len > nr_blocks - h->entries_block)
		return "its entries are not on the disk";
	if (h->entries_block <= h->last_usable && h->entries_block + len > h->first_usable)
		return "its entries lie in its usable blocks";
	return NULL;
}

int gpt_decode_header(const uint8_t *block, size_t len, uint64_t at, uint64_t nr_blocks,
		      struct gpt_header *out, const char **why)
{
	struct gpt_wire_header w;
	struct gpt_header h;
	uint32_t header_len;

	*why = "it is not there";
	if (len < sizeof(w) || !has_signature(block, len))
		return -EINVAL;
	memcpy(&w, block, sizeof(w));
	header_len = le32_to_cpu(w.header_len);
	*why = "its length makes no sense";
	if (header_len < GPT_HEADER_LEN || header_len > len)
		return -EINVAL;
	*why = "its checksum is wrong";
	if (!crc_is_right(block, &w))
		return -EINVAL;
	*why = "it is of a revision that is not known";
	if (le32_to_cpu(w.revision) >> 16 != 1)
		return -EINVAL;
	*why = "it belongs to another block";
	if (le64_to_cpu(w.my_block) != at)
		return -EINVAL;
	h = (struct gpt_header){
		.first_usable = le64_to_cpu(w.first_usable),
		.last_usable = le64_to_cpu(w.last_usable),
		.entries_block = le64_to_cpu(w.entries_block),
		.nr_entries = le32_to_cpu(w.nr_entries),
		.entry_len = le32_to_cpu(w.entry_len),
		.entries_crc = le32_to_cpu(w.entries_crc),
	};
	*why = "its entries have a length that makes no sense";
	if (h.entry_len < GPT_ENTRY_LEN || h.entry_len > 4096 || !IS_POWER_OF_2(h.entry_len))
		return -EINVAL;
	*why = "it has no entries, or more than 1024";
	if (!h.nr_entries || h.nr_entries > GPT_MAX_ENTRIES ||
	    (uint64_t)h.nr_entries * h.entry_len > GPT_MAX_TABLE)
		return -EINVAL;
	*why = check_places(&h, len, at, nr_blocks);
	if (*why)
		return -EINVAL;
	*out = h;
	return 0;
}

/* --- entries */

/* Mixed endian: three little-endian numbers, then bytes. */
static void uuid_text(const uint8_t u[16], char out[GPT_UUID_LEN])
{
	static const uint8_t order[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	static const char digits[] = "0123456789abcdef";
	char *p = out;

	for (unsigned int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		*p++ = digits[u[order[i]] >> 4];
		*p++ = digits[u[order[i]] & 0xf];
	}
	*p = '\0';
}

/* UTF-16 to UTF-8.  Halves of pairs, and controls, which would spoil a log, become "?". */
static void label_text(const le16_t *name, char out[GPT_LABEL_LEN])
{
	char *p = out;

	for (unsigned int i = 0; i < GPT_NAME_UNITS; i++) {
		const uint16_t c = le16_to_cpu(name[i]);

		if (!c)
			break;
		if (c < 0x20 || c == 0x7f || (c >= 0x80 && c < 0xa0) ||
		    (c >= 0xd800 && c < 0xe000)) {
			*p++ = '?';
		} else if (c < 0x80) {
			*p++ = (char)c;
		} else if (c < 0x800) {
			*p++ = (char)(0xc0 | c >> 6);
			*p++ = (char)(0x80 | (c & 0x3f));
		} else {
			*p++ = (char)(0xe0 | c >> 12);
			*p++ = (char)(0x80 | (c >> 6 & 0x3f));
			*p++ = (char)(0x80 | (c & 0x3f));
		}
	}
	*p = '\0';
}

static bool is_linux(const uint8_t type[16])
{
	for (size_t i = 0; i < ARRAY_SIZE(linux_types); i++) {
		if (!memcmp(type, linux_types[i], 16))
			return true;
	}
	return false;
}

static bool overlap(const struct gpt_partition *a, const struct gpt_partition *b)
{
	return a->first_block < b->first_block + b->nr_blocks &&
	       b->first_block < a->first_block + a->nr_blocks;
}

int gpt_decode_entries(const struct gpt_header *h, const uint8_t *table, struct gpt_partition *out,
		       uint32_t *nr, const char **why)
{
	static const uint8_t unused[16];
	uint32_t n = 0;

	*why = "the checksum of its entries is wrong";
	if (~crc32(~0u, table, (size_t)h->nr_entries * h->entry_len) != h->entries_crc)
		return -EINVAL;
	for (uint32_t i = 0; i < h->nr_entries; i++) {
		struct gpt_partition *p = &out[n];
		struct gpt_wire_entry w;
		uint64_t first, last;

		memcpy(&w, table + (size_t)i * h->entry_len, sizeof(w));
		if (!memcmp(w.type, unused, sizeof(unused)))
			continue;
		first = le64_to_cpu(w.first_block);
		last = le64_to_cpu(w.last_block);
		*why = "a partition lies outside of its usable blocks";
		if (first < h->first_usable || last > h->last_usable || first > last)
			return -EINVAL;
		p->number = i + 1;
		p->first_block = first;
		p->nr_blocks = last - first + 1;
		p->linux_fs = is_linux(w.type);
		label_text(w.name, p->label);
		uuid_text(w.uuid, p->uuid);
		*why = "two partitions overlap";
		for (uint32_t other = 0; other < n; other++) {
			if (overlap(&out[other], p))
				return -EINVAL;
		}
		n++;
	}
	*nr = n;
	return 0;
}

/* --- choice */

static bool is_decimal(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return false;
	}
	return true;
}

/* Without regard to case: tools print UUIDs in both. */
static bool same_uuid(const char *a, const char *b)
{
	for (;; a++, b++) {
		const char x = *a >= 'A' && *a <= 'F' ? (char)(*a + 32) : *a;
		const char y = *b >= 'A' && *b <= 'F' ? (char)(*b + 32) : *b;

		if (x != y)
			return false;
		if (!x)
			return true;
	}
}

static bool matches(const struct gpt_partition *p, const char *which)
{
	char number[12];

	if (!*which)
		return p->linux_fs;
	if (!strncmp(which, "label=", 6))
		return !strcmp(p->label, which + 6);
	if (!strncmp(which, "uuid=", 5))
		return same_uuid(p->uuid, which + 5);
	snprintf(number, sizeof(number), "%u", p->number);
	return !strcmp(number, which);
}

int gpt_choose(const struct gpt_partition *parts, uint32_t nr, const char *which,
	       const struct gpt_partition **out, const char **why)
{
	const struct gpt_partition *found = NULL;

	*why = "a partition is named by its number, label=NAME or uuid=UUID";
	if (*which && strncmp(which, "label=", 6) && strncmp(which, "uuid=", 5) &&
	    !is_decimal(which))
		return -EINVAL;
	for (uint32_t i = 0; i < nr; i++) {
		if (!matches(&parts[i], which))
			continue;
		*why = *which ? "several partitions have that name"
			      : "it has several partitions with Linux file systems: name one";
		if (found)
			return -EEXIST;
		found = &parts[i];
	}
	*why = *which ? "it has no such partition"
		      : "none of its partitions is a Linux file system";
	if (!found)
		return -ENOENT;
	*out = found;
	return 0;
}
