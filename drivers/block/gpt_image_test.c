/* SPDX-License-Identifier: MIT */
/* The disk of gpt_test.h. */
#include "gpt_test.h"

#include <lib/crc.h>
#include <lib/string.h>

static const uint8_t linux_type[16] = { 0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47,
					0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4 };

static struct gpt_wire_header *header(uint8_t *disk, uint64_t at)
{
	return (void *)(disk + at * GPT_TEST_BLOCK);
}

void gpt_test_seal(uint8_t *disk, uint64_t at)
{
	struct gpt_wire_header *h = header(disk, at);
	const uint64_t entries = le64_to_cpu(h->entries_block);
	const uint64_t len = (uint64_t)le32_to_cpu(h->nr_entries) * le32_to_cpu(h->entry_len);
	const uint32_t header_len = le32_to_cpu(h->header_len);

	if (entries < GPT_TEST_BLOCKS && len <= (GPT_TEST_BLOCKS - entries) * GPT_TEST_BLOCK)
		h->entries_crc = cpu_to_le32(~crc32(~0u, disk + entries * GPT_TEST_BLOCK, len));
	h->header_crc = cpu_to_le32(0);
	if (header_len <= GPT_TEST_BLOCK)
		h->header_crc = cpu_to_le32(~crc32(~0u, h, header_len));
}

static void format_one(uint8_t *disk, uint64_t at, uint64_t other, uint64_t entries,
		       const struct gpt_test_part *parts, unsigned int nr)
{
	struct gpt_wire_header *h = header(disk, at);
	struct gpt_wire_entry *e = (void *)(disk + entries * GPT_TEST_BLOCK);

	memcpy(h->signature, GPT_SIGNATURE, 8);
	h->revision = cpu_to_le32(0x10000);
	h->header_len = cpu_to_le32(GPT_HEADER_LEN);
	h->my_block = cpu_to_le64(at);
	h->other_block = cpu_to_le64(other);
	h->first_usable = cpu_to_le64(34);
	h->last_usable = cpu_to_le64(GPT_TEST_BLOCKS - 34);
	h->entries_block = cpu_to_le64(entries);
	h->nr_entries = cpu_to_le32(GPT_TEST_ENTRIES);
	h->entry_len = cpu_to_le32(GPT_ENTRY_LEN);
	for (unsigned int i = 0; i < nr; i++, e++) {
		if (!parts[i].first)
			continue;
		memset(e->type, 0x11, sizeof(e->type));
		if (parts[i].linux_fs)
			memcpy(e->type, linux_type, sizeof(e->type));
		for (unsigned int n = 0; n < 16; n++)
			e->uuid[n] = (uint8_t)(0xa0 + 16 * i + n);
		e->first_block = cpu_to_le64(parts[i].first);
		e->last_block = cpu_to_le64(parts[i].last);
		for (unsigned int n = 0; n < GPT_NAME_UNITS && parts[i].label[n]; n++)
			e->name[n] = cpu_to_le16((uint8_t)parts[i].label[n]);
	}
	gpt_test_seal(disk, at);
}

void gpt_test_format(uint8_t *disk, const struct gpt_test_part *parts, unsigned int nr)
{
	disk[MBR_PARTITIONS + MBR_ENTRY_TYPE] = MBR_TYPE_GPT;
	disk[MBR_SIGNATURE] = 0x55;
	disk[MBR_SIGNATURE + 1] = 0xaa;
	format_one(disk, 1, GPT_TEST_BLOCKS - 1, 2, parts, nr);
	format_one(disk, GPT_TEST_BLOCKS - 1, 1, GPT_TEST_BLOCKS - 33, parts, nr);
}
