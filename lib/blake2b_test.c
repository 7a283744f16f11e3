/* SPDX-License-Identifier: MIT */
/* BLAKE2b: the vectors of RFC 7693, appendices A and E. */
#include <lib/blake2b.h>

#include <lib/compiler.h>
#include <lib/ktest.h>
#include <lib/string.h>

static void abc(struct ktest *t)
{
	static const uint8_t want[64] = {
		0xba, 0x80, 0xa5, 0x3f, 0x98, 0x1c, 0x4d, 0x0d, 0x6a, 0x27, 0x97, 0xb6, 0x9f,
		0x12, 0xf6, 0xe9, 0x4c, 0x21, 0x2f, 0x14, 0x68, 0x5a, 0xc4, 0xb7, 0x4b, 0x12,
		0xbb, 0x6f, 0xdb, 0xff, 0xa2, 0xd1, 0x7d, 0x87, 0xc5, 0x39, 0x2a, 0xab, 0x79,
		0x2d, 0xc2, 0x52, 0xd5, 0xde, 0x45, 0x33, 0xcc, 0x95, 0x18, 0xd3, 0x8a, 0xa8,
		0xdb, 0xf1, 0x92, 0x5a, 0xb9, 0x23, 0x86, 0xed, 0xd4, 0x00, 0x99, 0x23,
	};
	uint8_t out[64];

	blake2b(out, sizeof(out), NULL, 0, "abc", 3);
	EXPECT_MEMEQ(t, out, want, sizeof(out));
}

static void fill(uint8_t *out, uint32_t len, uint32_t seed)
{
	uint32_t a = 0xdead4bad * seed, b = 1;

	for (uint32_t i = 0; i < len; i++) {
		const uint32_t sum = a + b;

		a = b;
		b = sum;
		out[i] = (uint8_t)(sum >> 24);
	}
}

/* Every length of result, input and key of appendix E, and the hash over all the results. */
static void grand_hash(struct ktest *t)
{
	static const uint32_t out_len[] = { 20, 32, 48, 64 };
	static const uint32_t in_len[] = { 0, 3, 128, 129, 255, 1024 };
	static const uint8_t want[32] = {
		0xc2, 0x3a, 0x78, 0x00, 0xd9, 0x81, 0x23, 0xbd, 0x10, 0xf5, 0x06,
		0xc6, 0x1e, 0x29, 0xda, 0x56, 0x03, 0xd7, 0x63, 0xb8, 0xbb, 0xad,
		0x2e, 0x73, 0x7f, 0x5e, 0x76, 0x5a, 0x7b, 0xcc, 0xd4, 0x75,
	};
	static uint8_t in[1024], all[2 * 6 * (20 + 32 + 48 + 64)];
	uint8_t key[64], out[32];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(out_len); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(in_len); j++) {
			fill(in, in_len[j], in_len[j]);
			blake2b(all + n, out_len[i], NULL, 0, in, in_len[j]);
			n += out_len[i];
			fill(key, out_len[i], out_len[i]);
			blake2b(all + n, out_len[i], key, out_len[i], in, in_len[j]);
			n += out_len[i];
		}
	}
	ASSERT_EQ(t, n, sizeof(all));
	blake2b(out, sizeof(out), NULL, 0, all, n);
	EXPECT_MEMEQ(t, out, want, sizeof(out));
}

static void equality(struct ktest *t)
{
	EXPECT_TRUE(t, bytes_equal("abcd", "abcx", 3));
	EXPECT_FALSE(t, bytes_equal("abcd", "abcx", 4));
	EXPECT_FALSE(t, bytes_equal("xbcd", "abcd", 4));
	EXPECT_TRUE(t, bytes_equal("", "", 0));
}

static const struct ktest_case cases[] = {
	KTEST(abc),
	KTEST(grand_hash),
	KTEST(equality),
	{ 0 },
};
static const struct ktest_suite blake2b_suite = { .name = "lib.blake2b", .cases = cases };
KTEST_SUITE(blake2b_suite);
