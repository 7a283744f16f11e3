/* SPDX-License-Identifier: MIT */
/* Lists as values, beside what Linux says of them. */
#include <fs/acl.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#define NR_MAX 8

struct entry {
	uint16_t tag, perm;
	uint32_t id;
};

static size_t build(const struct entry *e, size_t nr, uint8_t *out)
{
	put_unaligned_le32(2, out);
	for (size_t i = 0; i < nr; i++) {
		put_unaligned_le16(e[i].tag, out + 4 + 8 * i);
		put_unaligned_le16(e[i].perm, out + 6 + 8 * i);
		put_unaligned_le32(e[i].id, out + 8 + 8 * i);
	}
	return 4 + 8 * nr;
}

#define NONE           UINT32_MAX
#define OWNER(p)       { ACL_USER_OBJ, p, NONE }
#define USER(i, p)     { ACL_USER, p, i }
#define GROUP(p)       { ACL_GROUP_OBJ, p, NONE }
#define GROUP_OF(i, p) { ACL_GROUP, p, i }
#define MASK(p)        { ACL_MASK, p, NONE }
#define OTHER(p)       { ACL_OTHER, p, NONE }

static void what_is_a_list(struct ktest *t)
{
	static const struct {
		struct entry e[NR_MAX];
		size_t nr;
		int want;
	} cases[] = {
		{ { OWNER(7), GROUP(7), OTHER(7) }, 3, 0 },
		{ { OWNER(7), GROUP(7), MASK(1), OTHER(7) }, 4, 0 },
		{ { OWNER(7), USER(1, 7), USER(1, 2), GROUP(7), GROUP_OF(5, 1), MASK(1), OTHER(7) },
		  7,
		  0 },
		{ { { 0 } }, 0, 1 },
		{ { OWNER(7), GROUP(7) }, 2, -EINVAL },
		{ { GROUP(7), OWNER(7), OTHER(7) }, 3, -EINVAL },
		{ { OWNER(7), USER(1, 7), GROUP(7), OTHER(7) }, 4, -EINVAL },
		{ { OWNER(7), GROUP(7), GROUP_OF(1, 7), OTHER(7) }, 4, -EINVAL },
		{ { OWNER(7), USER(NONE, 7), GROUP(7), MASK(7), OTHER(7) }, 5, -EINVAL },
		{ { OWNER(8), GROUP(7), OTHER(7) }, 3, -EINVAL },
		{ { OWNER(7), OWNER(7), GROUP(7), OTHER(7) }, 4, -EINVAL },
		{ { OWNER(7), GROUP(7), MASK(7), MASK(7), OTHER(7) }, 5, -EINVAL },
		{ { OWNER(7), GROUP(7), OTHER(7), OTHER(7) }, 4, -EINVAL },
		{ { OWNER(7), GROUP(7), OTHER(7), MASK(7) }, 4, -EINVAL },
		{ { OWNER(7), GROUP(7), { 0x40, 7, NONE }, OTHER(7) }, 4, -EINVAL },
	};
	uint8_t v[4 + 8 * NR_MAX];
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		len = build(cases[i].e, cases[i].nr, v);
		EXPECT_EQ(t, posix_acl_check(v, len), cases[i].want);
		if (cases[i].nr)
			EXPECT_EQ(t, posix_acl_check(v, len - 1), -EINVAL);
	}
	EXPECT_EQ(t, posix_acl_check(v, 3), -EINVAL);
	v[0] = 1;
	EXPECT_EQ(t, posix_acl_check(v, 28), -EOPNOTSUPP);
	EXPECT_TRUE(t, posix_acl_is_name("system.posix_acl_accessible", 23));
	EXPECT_FALSE(t, posix_acl_is_name("system.posix_acl_accessible", 24));
}

static void whom_it_lets_in(struct ktest *t)
{
	static const struct entry list[] = { OWNER(0),          USER(1001, 6), GROUP(4),
					     GROUP_OF(2001, 2), MASK(7),       OTHER(1) };
	static const uint32_t both[] = { 2000, 2001 };
	static const struct {
		uint32_t uid, nr_groups, want;
		int err;
	} cases[] = {
		{ 1001, 0, 6, 0 },
		{ 1001, 2, 1, -EACCES },
		{ 1001, 0, 7, -EACCES },
		{ 1002, 0, 1, 0 },
		{ 1002, 0, 4, -EACCES },
		{ 1002, 1, 4, 0 },
		{ 1002, 1, 1, -EACCES },
		{ 1002, 2, 2, 0 },
		{ 1002, 2, 4, 0 },
		/* No entry grants both. */
		{ 1002, 2, 6, -EACCES },
	};
	uint8_t v[4 + 8 * NR_MAX];
	const size_t len = build(list, ARRAY_SIZE(list), v);
	struct fs_cred cred = { .gid = 1, .groups = both };
	uint32_t mode = 0;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cred.uid = cases[i].uid;
		cred.nr_groups = cases[i].nr_groups;
		EXPECT_EQ(t, posix_acl_access(&cred, 2000, cases[i].want, v, len), cases[i].err);
	}
	EXPECT_FALSE(t, posix_acl_mode(v, len, &mode));
	EXPECT_EQ(t, mode, 0071);
	/* The mask takes from all but the owner and others. */
	posix_acl_chmod(v, len, 0745);
	EXPECT_FALSE(t, posix_acl_mode(v, len, &mode));
	EXPECT_EQ(t, mode, 0745);
	cred.uid = 1001;
	EXPECT_EQ(t, posix_acl_access(&cred, 2000, FS_MAY_READ, v, len), 0);
	EXPECT_EQ(t, posix_acl_access(&cred, 2000, FS_MAY_WRITE, v, len), -EACCES);
	EXPECT_TRUE(t, posix_acl_matters(&cred, 0640, 1000));
	EXPECT_FALSE(t, posix_acl_matters(&cred, 0604, 1000));
	EXPECT_FALSE(t, posix_acl_matters(&cred, 0640, 1001));
	EXPECT_FALSE(t, posix_acl_matters(NULL, 0640, 1001));
	cred.uid = 0;
	EXPECT_FALSE(t, posix_acl_matters(&cred, 0640, 1001));
	cred.plain = true;
	EXPECT_TRUE(t, posix_acl_matters(&cred, 0640, 1001));
	EXPECT_FALSE(t, posix_acl_matters(&cred, 0640, 0));
}

static void what_is_inherited(struct ktest *t)
{
	static const struct entry list[] = { OWNER(7), USER(1001, 7), GROUP(5), MASK(6), OTHER(5) };
	static const struct entry plain[] = { OWNER(7), GROUP(5), OTHER(1) };
	uint8_t v[4 + 8 * NR_MAX], want[4 + 8 * NR_MAX];
	const struct entry got[] = { OWNER(6), USER(1001, 7), GROUP(5), MASK(2), OTHER(4) };
	size_t len = build(list, ARRAY_SIZE(list), v);
	uint32_t mode = 0102636;

	EXPECT_FALSE(t, posix_acl_inherit(v, len, &mode));
	EXPECT_EQ(t, mode, 0102624);
	build(got, ARRAY_SIZE(got), want);
	EXPECT_MEMEQ(t, v, want, len);
	mode = 0100666;
	len = build(plain, ARRAY_SIZE(plain), v);
	EXPECT_TRUE(t, posix_acl_inherit(v, len, &mode));
	EXPECT_EQ(t, mode, 0100640);
}

static const struct ktest_case cases[] = {
	KTEST(what_is_a_list),
	KTEST(whom_it_lets_in),
	KTEST(what_is_inherited),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "fs.acl", .cases = cases };
KTEST_SUITE(suite);
