/* SPDX-License-Identifier: MIT */
/*
 * Hash of a byte string: 8 bytes at a time through hash64().
 */
#include <lib/hash.h>

#include <lib/byteorder.h>

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t h = seed ^ hash64(len + 1);
	uint64_t tail = 0;

	for (; len >= 8; p += 8, len -= 8)
		h = hash64(h ^ get_unaligned_le64(p));
	for (size_t i = 0; i < len; i++)
		tail |= (uint64_t)p[i] << (8 * i);
	return hash64(h ^ tail);
}
