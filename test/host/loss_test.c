/* SPDX-License-Identifier: MIT */
/*
 * A memory node is gone: spaces and shared objects with a part there fail, others go on; pages of
 * files come from another node.
 */
#include <stdlib.h>
#include <unistd.h>

#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <mm/kmap.h>
#include <processor/excache/excache.h>
#include <processor/excache/object.h>
#include <processor/mm/aspace.h>
#include <proto/pm.h>
#include <shim/shim.h>

#include "fake_owner.h"
#include "user_word.h"

#define VREGION(i) ((i) * FAKE_VREGION_SIZE) /* node 1 + i % 3 owns it */
#define PAGES      (FAKE_VREGION_SIZE / PAGE_SIZE)

extern unsigned int fake_kills;
extern void (*fake_on_kill)(void);

static void cache_start(void)
{
	fake_cache();
	fake_reset();
	fake_kills = 0;
}

/* A space with @file (NULL: anonymous memory) at vRegions @first up to @end. */
static struct aspace *make_space(uint64_t first, uint64_t end, struct object *file, uint32_t flags)
{
	const struct vma v = { .start = VREGION(first),
			       .end = VREGION(end),
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE,
			       .flags = flags,
			       .file = file,
			       .file_bytes = UINT64_MAX };
	struct aspace *as = aspace_create(object_id(1, object_new_number()), 1);

	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	if (aspace_set_vma(as, &v, SEQ_ANY))
		abort();
	return as;
}

static void put(struct ktest *t, struct aspace *as, uint64_t vregion, uint64_t page)
{
	uint64_t v = vregion;

	EXPECT_EQ(t, user_word(as, VREGION(vregion), page, &v, true), 0);
}

static void expect_lost(struct ktest *t, struct aspace *as, uint32_t node)
{
	uint64_t v = 1;

	EXPECT_EQ(t, as->failed, -EHOSTDOWN);
	EXPECT_EQ(t, as->lost_node, node);
	/* No page of it can be made or had again. */
	EXPECT_EQ(t, user_word(as, VREGION(3), 1, &v, true), -ENOMEM);
}

/* Node 2 owns vRegions 1 and 4, node 3 those of 2 and 5; node 1 is every home. */
static void spaces_with_a_part_there_fail(struct ktest *t)
{
	struct aspace *cached, *stored, *child, *other;

	cache_start();
	cached = make_space(1, 4, NULL, 0);
	stored = make_space(1, 4, NULL, 0);
	other = make_space(1, 4, NULL, 0);
	put(t, cached, 1, 5);
	put(t, cached, 3, 5);
	put(t, stored, 1, 7);
	ASSERT_EQ(t, excache_flush(stored->anon, 0, UINT64_MAX), 0);
	excache_drop(stored->anon, 0, UINT64_MAX);
	ASSERT_EQ(t, object_set_stored(stored->anon, VREGION(1) / PAGE_SIZE + 7, PLACE_NONE), 0);
	put(t, other, 2, 5);
	put(t, other, 3, 5);
	/* A page that a child shares with its parent since a fork is a page of both. */
	ASSERT_EQ(t, aspace_fork(cached, &child), 0);

	aspace_node_gone(2);
	expect_lost(t, cached, 2);
	expect_lost(t, stored, 2);
	expect_lost(t, child, 2);
	EXPECT_EQ(t, other->failed, 0);
	put(t, other, 3, 6);
	EXPECT_GT(t, fake_kills, 0);

	/* The home of all. */
	aspace_node_gone(1);
	expect_lost(t, other, 1);
	EXPECT_EQ(t, cached->lost_node, 2);
	aspace_put(cached);
	aspace_put(stored);
	aspace_put(child);
	aspace_put(other);
	fake_quiesce();
}

static void shared_memory_fails_with_its_spaces(struct ktest *t)
{
	struct object *there = object_shared_create(FAKE_VREGION_SIZE * 2, false);
	struct object *elsewhere = object_shared_create(FAKE_VREGION_SIZE * 2, false);
	struct aspace *a, *b;
	struct line *line;

	cache_start();
	ASSERT_FALSE(t, IS_ERR(there) || IS_ERR(elsewhere));
	a = make_space(0, 2, there, VMA_SHARED | VMA_OBJECT);
	b = make_space(0, 2, elsewhere, VMA_SHARED | VMA_OBJECT);
	put(t, a, 1, 0); /* page PAGES of the object: its vRegion 1, of node 2 */
	put(t, b, 0, 0);
	aspace_node_gone(2);
	EXPECT_EQ(t, a->failed, -EHOSTDOWN);
	EXPECT_EQ(t, a->lost_node, 2);
	EXPECT_EQ(t, b->failed, 0);
	EXPECT_EQ(t, object_shared_get(there, 0, true, &line), -EIO);
	ASSERT_EQ(t, object_shared_get(elsewhere, 1, true, &line), 0);
	excache_put(line);
	aspace_put(a);
	aspace_put(b);
	object_put(there);
	object_put(elsewhere);
	fake_quiesce();
}

/* The node that has the file goes while a page is asked for: no program ends. */
static void file_pages_come_from_another_node(struct ktest *t)
{
	const struct file_attr attr = { .file = { .ino = 4711, .node = 9 },
					.version = 1,
					.size = PAGES * PAGE_SIZE };
	struct object *obj;
	struct aspace *as;
	uint64_t v = 0;

	cache_start();
	fake_file(PAGES, UINT64_MAX);
	obj = object_file_get(&attr);
	ASSERT_FALSE(t, IS_ERR(obj));
	as = make_space(1, 2, obj, VMA_FILE);
	EXPECT_EQ(t, user_word(as, VREGION(1), 3, &v, false), 0);
	fake_file_node_goes();
	EXPECT_EQ(t, user_word(as, VREGION(1), 200, &v, false), 0);
	EXPECT_EQ(t, v, 200 * (PAGE_SIZE + 8)); /* the word's offset */
	EXPECT_EQ(t, as->failed, 0);
	aspace_put(as);
	excache_drop(obj, 0, UINT64_MAX);
	object_put(obj);
	fake_quiesce();
}

static struct object *last_ref;
static bool is_told; /* atomic */

static void drop_last_ref(void)
{
	object_put(last_ref);
}

static void tell_gone(void *arg)
{
	(void)arg;
	aspace_node_gone(2);
	__atomic_store_n(&is_told, true, __ATOMIC_RELEASE);
}

/*
 * The programs that used it are gone before membership has done its part: the last reference ends
 * the object, and that waits for a line, which another node may keep for long.
 */
static void membership_waits_for_no_line(struct ktest *t)
{
	struct thread *th;
	struct line *line;
	size_t before;

	/* The spaces of the cases before end by themselves. */
	for (int i = 0; i < 5000 && object_space_count(); i++)
		usleep(1000);
	before = object_space_count();
	cache_start();
	last_ref = object_shared_create(FAKE_VREGION_SIZE * 2, false);
	ASSERT_FALSE(t, IS_ERR(last_ref));
	ASSERT_EQ(t, object_shared_get(last_ref, PAGES, true, &line), 0);
	is_told = false;
	fake_on_kill = drop_last_ref;
	th = thread_create("membership", tell_gone, NULL);
	ASSERT_FALSE(t, IS_ERR(th));
	for (int i = 0; i < 2000 && !__atomic_load_n(&is_told, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	EXPECT_TRUE(t, __atomic_load_n(&is_told, __ATOMIC_ACQUIRE));
	EXPECT_EQ(t, object_space_count(), before + 1);
	excache_put(line);
	thread_join(th);
	for (int i = 0; i < 5000 && object_space_count() != before; i++)
		usleep(1000);
	EXPECT_EQ(t, object_space_count(), before);
	fake_quiesce();
}

/* Calls to a node that leaves end before objects are told: a failed call names the right one. */
static void a_call_that_ends_names_who_left(struct ktest *t)
{
	struct aspace *a, *b;

	cache_start();
	a = make_space(1, 4, NULL, 0);
	b = make_space(1, 4, NULL, 0);
	put(t, a, 1, 5); /* of node 2 */
	put(t, b, 1, 5);
	fake_leaves(2);
	object_fail(a->anon, -EHOSTDOWN, VREGION(1) / PAGE_SIZE + 5);
	expect_lost(t, a, 2);
	fake_leaves(1);
	object_fail(b->anon, -EHOSTDOWN, VREGION(1) / PAGE_SIZE + 5);
	expect_lost(t, b, 1);
	fake_leaves(0);
	aspace_put(a);
	aspace_put(b);
	fake_quiesce();
}

static struct aspace *forgotten;

static void read_forgotten(void *arg)
{
	uint64_t v = 0;

	(void)arg;
	(void)user_word(forgotten, VREGION(1), 7, &v, false);
}

static void write_forgotten(void *arg)
{
	*(int *)arg = excache_flush(forgotten->anon, 0, UINT64_MAX);
}

/*
 * The owner has heard that the home has left, and dropped the space; this node hears of it later.
 * The program that waits for a page, or writes one back, is lost with its home.
 */
static void an_owner_hears_first(struct ktest *t)
{
	struct thread *reader, *writer;
	struct fake_counts c, before;
	int flushed = 0;

	cache_start();
	forgotten = make_space(1, 4, NULL, 0);
	put(t, forgotten, 1, 7);
	ASSERT_EQ(t, excache_flush(forgotten->anon, 0, UINT64_MAX), 0);
	excache_drop(forgotten->anon, 0, UINT64_MAX);
	ASSERT_EQ(t, object_set_stored(forgotten->anon, VREGION(1) / PAGE_SIZE + 7, PLACE_NONE), 0);
	put(t, forgotten, 1, 5);
	fake_counts(&before);
	fake_forgets(2);
	reader = thread_create("reader", read_forgotten, NULL);
	writer = thread_create("writer", write_forgotten, &flushed);
	ASSERT_FALSE(t, IS_ERR(reader) || IS_ERR(writer));
	for (int i = 0; i < 2000; i++) {
		usleep(1000);
		fake_counts(&c);
		c.writeback_msgs -= before.writeback_msgs;
		if (c.fetches > before.fetches && c.writeback_msgs >= 2)
			break;
	}
	EXPECT_GE(t, c.writeback_msgs, 2u); /* the page is kept, and sent again */
	EXPECT_EQ(t, forgotten->failed, 0);
	EXPECT_EQ(t, fake_kills, 0u);
	aspace_node_gone(1);
	thread_join(reader);
	thread_join(writer);
	EXPECT_NE(t, flushed, 0);
	expect_lost(t, forgotten, 1);
	EXPECT_GT(t, fake_kills, 0u);
	fake_forgets(0);
	aspace_put(forgotten);
	fake_quiesce();
}

static const struct ktest_case cases[] = {
	KTEST(spaces_with_a_part_there_fail),
	KTEST(shared_memory_fails_with_its_spaces),
	KTEST(file_pages_come_from_another_node),
	KTEST(membership_waits_for_no_line),
	KTEST(an_owner_hears_first),
	KTEST(a_call_that_ends_names_who_left),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.loss", .cases = cases };
KTEST_SUITE(suite);
