/* SPDX-License-Identifier: MIT */
/*
 * SipHash-2-4, from the paper: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast
 * short-input PRF", 2012.
 */
#include <lib/siphash.h>

#include <lib/byteorder.h>

static uint64_t rotl(uint64_t x, unsigned int n)
{
	return (x << n) | (x >> (64 - n));
}

static void sip_rounds(uint64_t v[4], unsigned int n)
{
	while (n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotl(v[1], 13) ^ v[0];
		v[3] = rotl(v[3], 16) ^ v[2];
		v[0] = rotl(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotl(v[1], 17) ^ v[2];
		v[3] = rotl(v[3], 21) ^ v[0];
		v[2] = rotl(v[2], 32);
	}
}

static void absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_rounds(v, 2);
	v[0] ^= word;
}

uint64_t siphash24(const struct siphash_key *key, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t last = (uint64_t)len << 56;
	uint64_t v[4] = {
		key->k0 ^ 0x736f6d6570736575ULL,
		key->k1 ^ 0x646f72616e646f6dULL,
		key->k0 ^ 0x6c7967656e657261ULL,
		key->k1 ^ 0x7465646279746573ULL,
	};

	for (; len >= 8; p += 8, len -= 8)
		absorb(v, get_unaligned_le64(p));
	for (size_t i = 0; i < len; i++)
		last |= (uint64_t)p[i] << (8 * i);
	absorb(v, last);

	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
