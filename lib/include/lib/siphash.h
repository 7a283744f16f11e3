/* SPDX-License-Identifier: MIT */
/*
 * SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash for tables whose
 * keys come from outside.
 */
#pragma once

#include <lib/types.h>

struct siphash_key {
	uint64_t k0; /* first 8 bytes of the 16-byte key, little endian */
	uint64_t k1;
};

uint64_t siphash24(const struct siphash_key *key, const void *data, size_t len);
