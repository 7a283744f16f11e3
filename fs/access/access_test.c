/* SPDX-License-Identifier: MIT */
/* Permission bits. */
#include <fs/access.h>
#include <fs/stat.h>
#include <lib/errno.h>
#include <lib/ktest.h>

static void one_class_decides(struct ktest *t)
{
	static const uint32_t groups[] = { 7, 8 };
	static const struct {
		uint32_t uid, gid;
		uint32_t mode, want;
		int err;
	} cases[] = {
		{ 5, 5, 0644, FS_MAY_READ | FS_MAY_WRITE, 0 }, /* owner */
		{ 5, 5, 0077, FS_MAY_READ, -EACCES },          /* owner, not others */
		{ 6, 9, 0640, FS_MAY_READ, 0 },                /* group */
		{ 6, 9, 0604, FS_MAY_READ, -EACCES },          /* group, not others */
		{ 6, 1, 0604, FS_MAY_READ, 0 },                /* others */
		{ 6, 1, 0604, FS_MAY_WRITE, -EACCES },
		{ 6, 1, 0701, FS_MAY_EXEC, 0 },
		{ 6, 8, 0070, FS_MAY_READ | FS_MAY_WRITE | FS_MAY_EXEC, -EACCES },
		{ 0, 0, 0000, FS_MAY_READ | FS_MAY_WRITE, 0 }, /* user 0 */
		{ 0, 0, 0666, FS_MAY_EXEC, -EACCES },
		{ 0, 0, 0001, FS_MAY_EXEC, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct fs_cred cred = { .uid = cases[i].uid, .gid = cases[i].gid };

		EXPECT_EQ(t, fs_access(&cred, S_IFREG | cases[i].mode, 5, 9, cases[i].want),
			  cases[i].err);
	}
	{
		const struct fs_cred cred = {
			.uid = 6, .gid = 1, .nr_groups = 2, .groups = groups
		};

		EXPECT_EQ(t, fs_access(&cred, S_IFREG | 0040, 5, 8, FS_MAY_READ), 0);
		EXPECT_EQ(t, fs_access(&cred, S_IFREG | 0004, 5, 8, FS_MAY_READ), -EACCES);
	}
}

static void root_may_search_every_directory(struct ktest *t)
{
	const struct fs_cred root = { 0 };

	EXPECT_EQ(t, fs_access(&root, S_IFDIR, 5, 5, FS_MAY_EXEC), 0);
	EXPECT_EQ(t, fs_access(NULL, S_IFREG, 5, 5, FS_MAY_EXEC), 0);
}

static void a_plain_root_owns_and_no_more(struct ktest *t)
{
	const struct fs_cred plain = { .plain = true };

	EXPECT_FALSE(t, fs_cred_is_root(&plain));
	EXPECT_EQ(t, fs_access(&plain, S_IFDIR | 0770, 5, 5, FS_MAY_EXEC), -EACCES);
	EXPECT_EQ(t, fs_access(&plain, S_IFREG | 0070, 0, 0, FS_MAY_READ), -EACCES);
	EXPECT_EQ(t, fs_access(&plain, S_IFREG | 0600, 0, 5, FS_MAY_READ | FS_MAY_WRITE), 0);
	EXPECT_EQ(t, fs_access(&plain, S_IFREG | 0040, 5, 0, FS_MAY_READ), 0);
}

static const struct ktest_case access_cases[] = {
	KTEST(one_class_decides),
	KTEST(root_may_search_every_directory),
	KTEST(a_plain_root_owns_and_no_more),
	{ 0 },
};
static const struct ktest_suite access_suite = { .name = "fs.access", .cases = access_cases };
KTEST_SUITE(access_suite);
