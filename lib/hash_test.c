/* SPDX-License-Identifier: MIT */
#include <lib/crc.h>
#include <lib/hash.h>
#include <lib/ktest.h>
#include <lib/siphash.h>
#include <lib/string.h>

static const char check[] = "123456789";

/* Check values of the catalogue of parametrised CRC algorithms. */
static void crc_check_values(struct ktest *t)
{
	EXPECT_EQ(t, ~crc32(~0U, check, 9), 0xcbf43926U);
	EXPECT_EQ(t, ~crc32c(~0U, check, 9), 0xe3069283U);
	EXPECT_EQ(t, crc16(0, check, 9), 0xbb3d);
	EXPECT_EQ(t, crc16(0xffff, check, 9), 0x4b37);
	EXPECT_EQ(t, crc32(0x1234, check, 0), 0x1234);
}

/* RFC 3720, B.4. */
static void crc32c_iscsi_vectors(struct ktest *t)
{
	uint8_t buf[32];

	memset(buf, 0, sizeof(buf));
	EXPECT_EQ(t, ~crc32c(~0U, buf, sizeof(buf)), 0x8a9136aaU);
	memset(buf, 0xff, sizeof(buf));
	EXPECT_EQ(t, ~crc32c(~0U, buf, sizeof(buf)), 0x62a8ab43U);
	for (uint8_t i = 0; i < 32; i++)
		buf[i] = i;
	EXPECT_EQ(t, ~crc32c(~0U, buf, sizeof(buf)), 0x46dd794eU);
	for (uint8_t i = 0; i < 32; i++)
		buf[i] = 31 - i;
	EXPECT_EQ(t, ~crc32c(~0U, buf, sizeof(buf)), 0x113fdb5cU);
}

/* Any split and any alignment gives the same as one piece. */
static void crc_in_pieces(struct ktest *t)
{
	uint8_t buf[80];
	const uint8_t *p = buf + 1;
	const size_t len = sizeof(buf) - 1;

	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(i * 37 + 11);
	for (size_t cut = 0; cut <= len; cut++) {
		EXPECT_EQ(t, crc32c(crc32c(~0U, p, cut), p + cut, len - cut), crc32c(~0U, p, len));
		EXPECT_EQ(t, crc32(crc32(~0U, p, cut), p + cut, len - cut), crc32(~0U, p, len));
		EXPECT_EQ(t, crc16(crc16(1, p, cut), p + cut, len - cut), crc16(1, p, len));
	}
}

/* From the paper's appendix and the authors' reference: key 00..0f, message 00..len-1. */
static void siphash_vectors(struct ktest *t)
{
	static const struct siphash_key key = { 0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL };
	static const struct {
		size_t len;
		uint64_t want;
	} cases[] = {
		{ 0, 0x726fdb47dd0e0e31ULL },  { 1, 0x74f839c593dc67fdULL },
		{ 7, 0xab0200f58b01d137ULL },  { 8, 0x93f5f5799a932462ULL },
		{ 15, 0xa129ca6149be45e5ULL },
	};
	uint8_t msg[16];

	for (uint8_t i = 0; i < sizeof(msg); i++)
		msg[i] = i;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		EXPECT_EQ(t, siphash24(&key, msg, cases[i].len), cases[i].want);
}

static void hash_bytes_depends_on_everything(struct ktest *t)
{
	uint8_t buf[24] = { 0 };
	const uint64_t base = hash_bytes(buf, 20, 1);

	EXPECT_EQ(t, hash_bytes(buf, 20, 1), base);
	EXPECT_NE(t, hash_bytes(buf, 20, 2), base);
	EXPECT_NE(t, hash_bytes(buf, 19, 1), base);
	EXPECT_NE(t, hash_bytes(buf, 21, 1), base);
	for (size_t bit = 0; bit < 160; bit++) {
		buf[bit / 8] ^= (uint8_t)(1U << (bit % 8));
		EXPECT_NE(t, hash_bytes(buf, 20, 1), base);
		buf[bit / 8] ^= (uint8_t)(1U << (bit % 8));
	}
}

/* Neighbouring keys spread over a small table. */
static void hash64_spreads(struct ktest *t)
{
	unsigned int fill[64] = { 0 };

	for (uint64_t i = 0; i < 6400; i++)
		fill[hash64(i << 12) % 64]++;
	for (size_t i = 0; i < 64; i++) {
		EXPECT_GT(t, fill[i], 50U);
		EXPECT_LT(t, fill[i], 160U);
	}
	EXPECT_NE(t, hash64_pair(1, 2), hash64_pair(2, 1));
}

/* A few bytes in the middle become others: the sum changes as if all were read again. */
static void crc32c_of_changed_bytes(struct ktest *t)
{
	static uint8_t buf[5000];

	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(i * 7 + (i >> 8));
	EXPECT_EQ(t, crc32c_zeros(0x12345678, 0), 0x12345678U);
	for (uint32_t at = 0; at < sizeof(buf) - 16; at += 97) {
		const uint32_t whole = crc32c(~0U, buf, sizeof(buf)), old = crc32c(0, buf + at, 16);
		uint32_t by;

		for (uint32_t i = 0; i < 16; i += 3)
			buf[at + i] ^= (uint8_t)(at + i + 1);
		by = crc32c_zeros(old ^ crc32c(0, buf + at, 16), (uint32_t)sizeof(buf) - at - 16);
		EXPECT_EQ(t, whole ^ by, crc32c(~0U, buf, sizeof(buf)));
	}
}

static const struct ktest_case hash_cases[] = {
	KTEST(crc_check_values),
	KTEST(crc32c_iscsi_vectors),
	KTEST(crc_in_pieces),
	KTEST(siphash_vectors),
	KTEST(hash_bytes_depends_on_everything),
	KTEST(hash64_spreads),
	KTEST(crc32c_of_changed_bytes),
	{ 0 },
};
static const struct ktest_suite hash_suite = { .name = "lib.hash", .cases = hash_cases };
KTEST_SUITE(hash_suite);
