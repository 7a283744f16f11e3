/* SPDX-License-Identifier: MIT */
/* Directory hashes: values that e2fsprogs' "dx_hash" prints. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "ext4_priv.h"

static const uint32_t no_seed[4];
/* The UUID 01020304-0506-0708-090a-0b0c0d0e0f10. */
static const uint32_t seed[4] = { 0x04030201, 0x08070605, 0x0c0b0a09, 0x100f0e0d };

#define LONG_NAME "entry-00100-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

static void known_values(struct ktest *t)
{
	static const struct {
		unsigned int version;
		const uint32_t *seed;
		const char *name;
		uint32_t hash;
	} cases[] = {
		{ EXT4_HASH_LEGACY, no_seed, "a", 0xe74b53e2 },
		{ EXT4_HASH_LEGACY, seed, "hello", 0x32252546 },
		{ EXT4_HASH_LEGACY, no_seed, "t\xc3\xa4glich", 0x02889eba },
		{ EXT4_HASH_LEGACY, no_seed, LONG_NAME, 0x831cc882 },
		{ EXT4_HASH_HALF_MD4, no_seed, "a", 0xd5fa7d7a },
		{ EXT4_HASH_HALF_MD4, seed, "a", 0x8d08ec4c },
		{ EXT4_HASH_HALF_MD4, no_seed, "t\xc3\xa4glich", 0xc6861eda },
		{ EXT4_HASH_HALF_MD4, no_seed, LONG_NAME, 0x4515129e },
		{ EXT4_HASH_HALF_MD4, seed, LONG_NAME, 0x34000db2 },
		{ EXT4_HASH_TEA, no_seed, "a", 0x6d0ea4c0 },
		{ EXT4_HASH_TEA, seed, "hello", 0x1a5692b6 },
		{ EXT4_HASH_TEA, no_seed, "t\xc3\xa4glich", 0x85893fb8 },
		{ EXT4_HASH_TEA, no_seed, LONG_NAME, 0x5a49421c },
	};
	uint32_t hash;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *name = cases[i].name;

		EXPECT_EQ(t,
			  ext4_dirhash(cases[i].version, cases[i].seed, name, strlen(name), &hash),
			  0);
		EXPECT_EQ(t, hash, cases[i].hash);
	}
}

static void sign_matters_above_ascii_only(struct ktest *t)
{
	static const char high[] = "t\xc3\xa4glich", plain[] = "plain";
	uint32_t a, b;

	for (unsigned int v = EXT4_HASH_LEGACY; v <= EXT4_HASH_TEA; v++) {
		const unsigned int u = v + EXT4_HASH_LEGACY_UNSIGNED;

		EXPECT_EQ(t, ext4_dirhash(v, no_seed, plain, 5, &a), 0);
		EXPECT_EQ(t, ext4_dirhash(u, no_seed, plain, 5, &b), 0);
		EXPECT_EQ(t, a, b);
		EXPECT_EQ(t, ext4_dirhash(v, no_seed, high, 8, &a), 0);
		EXPECT_EQ(t, ext4_dirhash(u, no_seed, high, 8, &b), 0);
		EXPECT_NE(t, a, b);
	}
}

static void unknown_version(struct ktest *t)
{
	uint32_t hash = 7;

	EXPECT_EQ(t, ext4_dirhash(6, no_seed, "a", 1, &hash), -EINVAL);
	EXPECT_EQ(t, ext4_dirhash(255, no_seed, "a", 1, &hash), -EINVAL);
	EXPECT_EQ(t, hash, 7u);
}

static const struct ktest_case dirhash_cases[] = {
	KTEST(known_values),
	KTEST(sign_matters_above_ascii_only),
	KTEST(unknown_version),
	{ 0 },
};
static const struct ktest_suite dirhash_suite = { .name = "ext4.dirhash", .cases = dirhash_cases };
KTEST_SUITE(dirhash_suite);
