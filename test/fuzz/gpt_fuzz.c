/* SPDX-License-Identifier: MIT */
/*
 * Fuzz the table of partitions: the input is a list of changes to a good one, of four bytes each
 * (where, and what), after a byte that says whether the checksums are made right again, and the
 * name of a partition.  Partitions that are accepted lie inside of the disk and do not overlap.
 */
#include <stdlib.h>

#include <lib/string.h>

#include "../../drivers/block/gpt_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static uint8_t image[GPT_TEST_BYTES];

static const struct gpt_test_part usual[] = {
	{ 40, 99, false, "boot" },
	{ 100, 999, true, "root" },
	{ 0, 0, false, NULL },
	{ 1000, 1500, false, "data" },
};

#define CHANGED 2048u /* bytes: MBR, header, the first entries */

static void check_partitions(const struct gpt_partition *parts, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		const struct gpt_partition *p = &parts[i];

		if (!p->nr_blocks || p->first_block >= GPT_TEST_BLOCKS ||
		    p->nr_blocks > GPT_TEST_BLOCKS - p->first_block ||
		    strlen(p->label) >= GPT_LABEL_LEN || strlen(p->uuid) != GPT_UUID_LEN - 1)
			abort();
		for (uint32_t j = 0; j < i; j++) {
			if (p->first_block < parts[j].first_block + parts[j].nr_blocks &&
			    parts[j].first_block < p->first_block + p->nr_blocks)
				abort();
		}
	}
}

static void read_table(const char *which)
{
	const struct gpt_partition *chosen = NULL;
	struct gpt_partition *parts;
	struct gpt_header h;
	const char *why;
	uint32_t nr = 0;

	(void)gpt_is_protected(image, GPT_TEST_BLOCK);
	if (gpt_decode_header(image + GPT_TEST_BLOCK, GPT_TEST_BLOCK, 1, GPT_TEST_BLOCKS, &h, &why))
		return;
	if (h.entries_block * GPT_TEST_BLOCK + (uint64_t)h.nr_entries * h.entry_len >
	    GPT_TEST_BYTES)
		abort();
	parts = calloc(h.nr_entries, sizeof(*parts));
	if (!parts)
		abort();
	if (!gpt_decode_entries(&h, image + h.entries_block * GPT_TEST_BLOCK, parts, &nr, &why)) {
		check_partitions(parts, nr);
		if (!gpt_choose(parts, nr, which, &chosen, &why) &&
		    (chosen < parts || chosen >= parts + nr))
			abort();
	}
	free(parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static uint8_t good[CHANGED];
	char which[8] = "";

	/* Only the start is ever changed. */
	if (!good[MBR_SIGNATURE]) {
		gpt_test_format(image, usual, ARRAY_SIZE(usual));
		memcpy(good, image, sizeof(good));
	}
	memcpy(image, good, sizeof(good));
	if (len < sizeof(which))
		return 0;
	memcpy(which, data + 1, sizeof(which) - 1);
	for (size_t i = sizeof(which); i + 4 <= len; i += 4)
		image[(data[i] | data[i + 1] << 8) % CHANGED] = data[i + 2] ^ data[i + 3];
	if (data[0] & 1)
		gpt_test_seal(image, 1);
	read_table(data[0] & 2 ? "" : which);
	return 0;
}
