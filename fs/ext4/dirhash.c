/* SPDX-License-Identifier: MIT */
/*
 * The three hash functions of ext3/ext4 hashed directories, each over signed and unsigned
 * characters.  Pure.
 *
 * The signed ones are what machines with signed char wrote: a name byte above 127 counts as
 * negative.  The superblock says which kind a disk has.
 */
#include <lib/errno.h>

#include "ext4_priv.h"

static uint32_t char_value(const char *p, bool is_unsigned)
{
	return is_unsigned ? (uint32_t)(uint8_t)*p : (uint32_t)(int32_t)(int8_t)*p;
}

static uint32_t hash_legacy(const char *name, size_t len, bool is_unsigned)
{
	uint32_t prev = 0x37abe8f9, cur = 0x12a3fe2d;

	for (size_t i = 0; i < len; i++) {
		uint32_t h = prev + (cur ^ char_value(name + i, is_unsigned) * 7152373u);

		if (h & 0x80000000u)
			h -= 0x7fffffff;
		prev = cur;
		cur = h;
	}
	return cur << 1;
}

/* Pack up to 4 * @nr characters into words, filled up with the length. */
static void name_to_words(const char *name, size_t len, uint32_t *words, unsigned int nr,
			  bool is_unsigned)
{
	uint32_t pad = (uint32_t)len | (uint32_t)len << 8;
	const size_t take = MIN(len, (size_t)nr * 4);
	unsigned int w = 0;
	uint32_t val;

	pad |= pad << 16;
	val = pad;
	for (size_t i = 0; i < take; i++) {
		val = char_value(name + i, is_unsigned) + (val << 8);
		if (i % 4 == 3) {
			words[w++] = val;
			val = pad;
		}
	}
	if (w < nr)
		words[w++] = val;
	while (w < nr)
		words[w++] = pad;
}

static void tea_mix(uint32_t h[4], const uint32_t k[4])
{
	uint32_t a = h[0], b = h[1], sum = 0;

	for (int round = 0; round < 16; round++) {
		sum += 0x9e3779b9;
		a += ((b << 4) + k[0]) ^ (b + sum) ^ ((b >> 5) + k[1]);
		b += ((a << 4) + k[2]) ^ (a + sum) ^ ((a >> 5) + k[3]);
	}
	h[0] += a;
	h[1] += b;
}

static uint32_t rotl(uint32_t x, unsigned int n)
{
	return x << n | x >> (32 - n);
}

static uint32_t choose(uint32_t x, uint32_t y, uint32_t z)
{
	return z ^ (x & (y ^ z));
}

static uint32_t majority(uint32_t x, uint32_t y, uint32_t z)
{
	return (x & y) + ((x ^ y) & z);
}

static uint32_t parity(uint32_t x, uint32_t y, uint32_t z)
{
	return x ^ y ^ z;
}

/* One step of a round: @f is one of the functions above. */
#define MD4_STEP(f, a, b, c, d, x, shift) ((a) = rotl((a) + f(b, c, d) + (x), shift))

/* Eight steps over the words in the order of @i; the role of a, b, c, d moves back at each. */
#define MD4_ROUND(f, add, s0, s1, s2, s3, i0, i1, i2, i3, i4, i5, i6, i7) \
	do {                                                              \
		MD4_STEP(f, a, b, c, d, in[i0] + (add), s0);              \
		MD4_STEP(f, d, a, b, c, in[i1] + (add), s1);              \
		MD4_STEP(f, c, d, a, b, in[i2] + (add), s2);              \
		MD4_STEP(f, b, c, d, a, in[i3] + (add), s3);              \
		MD4_STEP(f, a, b, c, d, in[i4] + (add), s0);              \
		MD4_STEP(f, d, a, b, c, in[i5] + (add), s1);              \
		MD4_STEP(f, c, d, a, b, in[i6] + (add), s2);              \
		MD4_STEP(f, b, c, d, a, in[i7] + (add), s3);              \
	} while (0)

static void half_md4_mix(uint32_t h[4], const uint32_t in[8])
{
	uint32_t a = h[0], b = h[1], c = h[2], d = h[3];

	MD4_ROUND(choose, 0, 3, 7, 11, 19, 0, 1, 2, 3, 4, 5, 6, 7);
	MD4_ROUND(majority, 0x5a827999, 3, 5, 9, 13, 1, 3, 5, 7, 0, 2, 4, 6);
	MD4_ROUND(parity, 0x6ed9eba1, 3, 9, 11, 15, 3, 7, 2, 6, 1, 5, 0, 4);
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
}

static uint32_t hash_words(const uint32_t seed[4], const char *name, size_t len, bool tea,
			   bool is_unsigned, uint32_t *minor)
{
	const unsigned int nr = tea ? 4 : 8;
	uint32_t h[4] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
	uint32_t words[8];

	if (seed[0] | seed[1] | seed[2] | seed[3]) {
		for (int i = 0; i < 4; i++)
			h[i] = seed[i];
	}
	while (len) {
		const size_t n = MIN(len, (size_t)nr * 4);

		name_to_words(name, len, words, nr, is_unsigned);
		if (tea)
			tea_mix(h, words);
		else
			half_md4_mix(h, words);
		name += n;
		len -= n;
	}
	*minor = tea ? h[1] : h[2];
	return tea ? h[0] : h[1];
}

int ext4_dirhash2(unsigned int version, const uint32_t seed[4], const char *name, size_t len,
		  uint32_t *hash, uint32_t *minor)
{
	uint32_t h;

	*minor = 0;
	switch (version) {
	case EXT4_HASH_LEGACY:
	case EXT4_HASH_LEGACY_UNSIGNED:
		h = hash_legacy(name, len, version == EXT4_HASH_LEGACY_UNSIGNED);
		break;
	case EXT4_HASH_HALF_MD4:
	case EXT4_HASH_HALF_MD4_UNSIGNED:
		h = hash_words(seed, name, len, false, version == EXT4_HASH_HALF_MD4_UNSIGNED,
			       minor);
		break;
	case EXT4_HASH_TEA:
	case EXT4_HASH_TEA_UNSIGNED:
		h = hash_words(seed, name, len, true, version == EXT4_HASH_TEA_UNSIGNED, minor);
		break;
	default:
		return -EINVAL;
	}
	/* Bit 0 marks collisions in the index; the largest value means "end". */
	h &= ~1u;
	if (h == 0x7fffffffu << 1)
		h = (0x7fffffffu - 1) << 1;
	*hash = h;
	return 0;
}

int ext4_dirhash(unsigned int version, const uint32_t seed[4], const char *name, size_t len,
		 uint32_t *hash)
{
	uint32_t minor;

	return ext4_dirhash2(version, seed, name, len, hash, &minor);
}
