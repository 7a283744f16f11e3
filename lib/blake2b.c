/* SPDX-License-Identifier: MIT */
/*
 * BLAKE2b after RFC 7693: blocks of 128 bytes, of which the key is the first if there is one.
 */
#include <lib/blake2b.h>

#include <lib/assert.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/string.h>

#define BLOCK  128u
#define ROUNDS 12u

static const uint64_t iv[8] = {
	0x6a09e667f3bcc908ull, 0xbb67ae8584caa73bull, 0x3c6ef372fe94f82bull, 0xa54ff53a5f1d36f1ull,
	0x510e527fade682d1ull, 0x9b05688c2b3e6c1full, 0x1f83d9abfb41bd6bull, 0x5be0cd19137e2179ull,
};

/* Rounds 10 and 11 are 0 and 1 again. */
static const uint8_t sigma[10][16] = {
	{ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
	{ 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3 },
	{ 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4 },
	{ 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8 },
	{ 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13 },
	{ 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9 },
	{ 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11 },
	{ 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10 },
	{ 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5 },
	{ 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0 },
};

static uint64_t ror64(uint64_t v, unsigned int n)
{
	return v >> n | v << (64 - n);
}

static void mix(uint64_t *v, uint64_t *a, uint64_t *b, uint64_t *c, uint64_t x, uint64_t y)
{
	*a += *b + x;
	*v = ror64(*v ^ *a, 32);
	*c += *v;
	*b = ror64(*b ^ *c, 24);
	*a += *b + y;
	*v = ror64(*v ^ *a, 16);
	*c += *v;
	*b = ror64(*b ^ *c, 63);
}

/* @count: bytes up to the end of this block, the key's included. */
static void compress(uint64_t h[8], const uint8_t block[BLOCK], uint64_t count, bool last)
{
	uint64_t v[16], m[16];

	for (unsigned int i = 0; i < 16; i++) {
		le64_t w;

		memcpy(&w, block + 8 * i, sizeof(w));
		m[i] = le64_to_cpu(w);
	}
	memcpy(v, h, 64);
	memcpy(v + 8, iv, 64);
	v[12] ^= count;
	if (last)
		v[14] = ~v[14];
	for (unsigned int r = 0; r < ROUNDS; r++) {
		const uint8_t *s = sigma[r % 10];

		for (unsigned int i = 0; i < 4; i++)
			mix(&v[12 + i], &v[i], &v[4 + i], &v[8 + i], m[s[2 * i]], m[s[2 * i + 1]]);
		for (unsigned int i = 0; i < 4; i++)
			mix(&v[12 + (i + 3) % 4], &v[i], &v[4 + (i + 1) % 4], &v[8 + (i + 2) % 4],
			    m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
	}
	for (unsigned int i = 0; i < 8; i++)
		h[i] ^= v[i] ^ v[8 + i];
}

void blake2b(void *out, size_t out_len, const void *key, size_t key_len, const void *in, size_t len)
{
	const uint8_t *p = in;
	uint8_t block[BLOCK] = { 0 };
	uint64_t count = 0, h[8];
	le64_t result[8];

	ASSERT(out_len >= 1 && out_len <= BLAKE2B_MAX && key_len <= BLAKE2B_MAX);
	memcpy(h, iv, sizeof(h));
	h[0] ^= 0x01010000u ^ key_len << 8 ^ out_len;
	if (key_len) {
		memcpy(block, key, key_len);
		count = BLOCK;
		if (len)
			compress(h, block, count, false);
	}
	for (; len > BLOCK; len -= BLOCK, p += BLOCK) {
		count += BLOCK;
		compress(h, p, count, false);
	}
	if (len || !key_len) {
		memset(block, 0, sizeof(block));
		if (len)
			memcpy(block, p, len);
		count += len;
	}
	compress(h, block, count, true);
	for (unsigned int i = 0; i < 8; i++)
		result[i] = cpu_to_le64(h[i]);
	memcpy(out, result, out_len);
}

bool bytes_equal(const void *a, const void *b, size_t len)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t differ = 0;

	while (len--)
		differ |= (uint8_t)(*x++ ^ *y++);
	return differ == 0;
}
