/* SPDX-License-Identifier: MIT */
/* A small disk with a GPT, for tests and the fuzzer. */
#pragma once

#include "gpt.h"

#define GPT_TEST_BLOCKS  2048u
#define GPT_TEST_BLOCK   512u
#define GPT_TEST_ENTRIES 128u
#define GPT_TEST_BYTES   (GPT_TEST_BLOCKS * GPT_TEST_BLOCK)

struct gpt_test_part {
	uint64_t first, last; /* blocks; first 0: an entry that is not in use */
	bool linux_fs;
	const char *label;
};

/* Both tables onto zeroed @disk: entry i is parts[i]. */
void gpt_test_format(uint8_t *disk, const struct gpt_test_part *parts, unsigned int nr);
/* Make the checksums of the header in block @at, and of its entries, right again. */
void gpt_test_seal(uint8_t *disk, uint64_t at);
