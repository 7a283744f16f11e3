/* SPDX-License-Identifier: MIT */
/* GSM: where files and their pages are. */
#include <lib/ktest.h>
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
	const struct storage_nodes nodes = { storages, 2 };

	EXPECT_EQ(t, gsm_hash.storage(&nodes, "/"), 4u);
	EXPECT_EQ(t, gsm_hash.storage(&nodes, "/usr/bin/sort"), 4u);
}

static const struct ktest_case cases[] = {
	KTEST(the_cache_node_depends_on_the_file_alone),
	KTEST(another_generation_is_another_file),
	KTEST(the_first_storage_node_has_all_files),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "managers.gsm", .cases = cases };
KTEST_SUITE(suite);
