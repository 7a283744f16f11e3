/* SPDX-License-Identifier: MIT */
/* GSM: where files and their pages are. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <managers/policy.h>

static const uint32_t ids[] = { 2, 5, 9 };
static const struct memory_nodes memories = { ids, 3 };

static void the_cache_node_depends_on_the_file_alone(struct ktest *t)
{
	bool seen[3] = { false };

	for (uint64_t ino = 1; ino < 60; ino++) {
		const struct proto_file file = { .ino = ino, .gen = 1, .node = 21 };
		const uint32_t node = gsm_hash.cache_node(&memories, &file);

		EXPECT_EQ(t, node, gsm_hash.cache_node(&memories, &file));
		for (int i = 0; i < 3; i++)
			seen[i] |= node == ids[i];
	}
	EXPECT_TRUE(t, seen[0] && seen[1] && seen[2]);
}

static void another_generation_is_another_file(struct ktest *t)
{
	bool differs = false;

	for (uint32_t gen = 1; gen < 20; gen++) {
		const struct proto_file file = { .ino = 7, .gen = gen, .node = 21 },
					next = { .ino = 7, .gen = gen + 1, .node = 21 };

		differs |= gsm_hash.cache_node(&memories, &file) !=
			   gsm_hash.cache_node(&memories, &next);
	}
	EXPECT_TRUE(t, differs);
}

static void the_first_storage_node_has_all_files(struct ktest *t)
{
	static const uint32_t storages[] = { 4, 8 };
	const struct storage_nodes nodes = { .ids = storages, .nr = 2 };

	EXPECT_EQ(t, gsm_hash.storage(&nodes, "/"), 4u);
}

static void a_file_system_is_where_it_is_configured(struct ktest *t)
{
	static const uint32_t live[] = { 4, 8 }, without_root[] = { 8 };
	static const struct gsm_mount mounts[] = { { "/data", 8 }, { "/srv", 9 } };
	struct storage_nodes nodes = { live, 2, mounts, 2 };

	EXPECT_EQ(t, gsm_hash.storage(&nodes, "/"), 4u);
	EXPECT_EQ(t, gsm_hash.storage(&nodes, "/data"), 8u);
	EXPECT_EQ(t, gsm_hash.storage(&nodes, "/srv"), 9u); /* away, and nowhere else */
	nodes = (struct storage_nodes){ without_root, 1, mounts, 2 };
	EXPECT_EQ(t, gsm_hash.storage(&nodes, "/"), 0u); /* the others have other files */
}

static int parse(const char *text, struct gsm_mount *mounts, size_t *nr)
{
	static char buf[128];

	strlcpy(buf, text, sizeof(buf));
	return gsm_mounts_parse(buf, mounts, 3, nr);
}

static void tables_of_mounts_are_checked(struct ktest *t)
{
	static const char *const bad[] = {
		"",          "/data",     "/data:",   "/data:0",
		"/data:x",   "data:5",    "/:5",      "//a:5",
		"/a/:5",     "/a/./b:5",  "/a/..:5",  "/a:5,",
		"/a:5,/a:6", "/a:5,/b:5", "/a:70000", "/a:5,/b:6,/c:7,/d:8",
		"/a:5:6",    "/a//b:5",   "/.:5",
	};
	struct gsm_mount mounts[3];
	size_t nr = 0;

	EXPECT_EQ(t, parse("/data:5", mounts, &nr), 0);
	EXPECT_EQ(t, nr, 1u);
	EXPECT_TRUE(t, !strcmp(mounts[0].at, "/data") && mounts[0].node == 5);
	EXPECT_EQ(t, parse("/a:5,/a/b..c/.d:7,/x:6", mounts, &nr), 0);
	EXPECT_EQ(t, nr, 3u);
	EXPECT_TRUE(t, !strcmp(mounts[1].at, "/a/b..c/.d") && mounts[1].node == 7);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(t, parse(bad[i], mounts, &nr), -EINVAL);
}

static const struct ktest_case cases[] = {
	KTEST(the_cache_node_depends_on_the_file_alone),
	KTEST(another_generation_is_another_file),
	KTEST(the_first_storage_node_has_all_files),
	KTEST(a_file_system_is_where_it_is_configured),
	KTEST(tables_of_mounts_are_checked),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "managers.gsm", .cases = cases };
KTEST_SUITE(suite);
