/* SPDX-License-Identifier: MIT */
/* Names and attributes that are kept, and those that are not: answers are overtaken, room ends. */
#include <fs/stat.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "kept.h"
#include "kept_private.h"

#define NODE 70u

static const struct file_id dir = { .ino = 2, .gen = 1, .node = NODE };
static const struct file_id file = { .ino = 12, .gen = 3, .node = NODE };

static struct file_attr attr_of(const struct file_id *of, uint32_t mode)
{
	return (struct file_attr){ .file = *of, .mode = mode, .nlink = 1 };
}

/* The node allows it anew, and nothing is here. */
static void allow(struct ktest *t)
{
	uint64_t gen = 0;

	ASSERT_EQ(t, kept_add(NODE), 0);
	kept_drop(NODE);
	kept_view_changed();
	ASSERT_TRUE(t, kept_ask_begin(NODE, &gen));
	kept_ask_end(NODE, gen, true);
}

static void fill(const struct kept_ticket *ticket)
{
	const struct file_attr attr = attr_of(&file, S_IFREG | 0644);

	kept_fill_attr(ticket, &attr, KEPT_ALL);
	kept_fill_name(ticket, &dir, "f", 1, &file);
}

static enum kept_found look(const char *name)
{
	struct file_id out;

	return kept_name(&dir, name, strlen(name), &out);
}

static bool has(enum kept_what what)
{
	struct file_attr out;

	return kept_attr(&file, what, &out);
}

static void what_is_told_is_kept(struct ktest *t)
{
	struct kept_ticket ticket;
	struct file_attr out;
	struct file_id id;

	allow(t);
	kept_begin(&ticket, NODE);
	EXPECT_EQ(t, look("f"), KEPT_UNKNOWN);
	fill(&ticket);
	kept_fill_name(&ticket, &dir, "none", 4, NULL);
	ASSERT_EQ(t, kept_name(&dir, "f", 1, &id), KEPT_FOUND);
	EXPECT_TRUE(t, file_id_equal(&id, &file));
	EXPECT_EQ(t, look("none"), KEPT_MISSING);
	EXPECT_EQ(t, look("non"), KEPT_UNKNOWN);
	ASSERT_TRUE(t, kept_attr(&file, KEPT_ALL, &out));
	EXPECT_EQ(t, out.mode, S_IFREG | 0644u);
	/* Of another directory, or another file of that number, nothing is known. */
	EXPECT_EQ(t, kept_name(&file, "f", 1, &id), KEPT_UNKNOWN);
	id = (struct file_id){ .ino = file.ino, .gen = 4, .node = NODE };
	EXPECT_FALSE(t, kept_attr(&id, KEPT_RIGHTS, &out));
}

static void nothing_is_kept_that_was_not_allowed(struct ktest *t)
{
	struct kept_ticket before, ticket;
	uint64_t gen = 0;

	allow(t);
	kept_begin(&ticket, NODE);
	fill(&ticket);
	kept_drop(NODE);
	EXPECT_FALSE(t, has(KEPT_RIGHTS));
	EXPECT_EQ(t, look("f"), KEPT_UNKNOWN);
	fill(&ticket);
	EXPECT_FALSE(t, has(KEPT_RIGHTS));
	kept_begin(&before, NODE);
	kept_view_changed();
	ASSERT_TRUE(t, kept_ask_begin(NODE, &gen));
	EXPECT_FALSE(t, kept_ask_begin(NODE, &gen)); /* one asks */
	kept_drop(NODE);                             /* the answer is overtaken */
	kept_ask_end(NODE, gen, true);
	fill(&before);
	kept_begin(&ticket, NODE);
	fill(&ticket);
	EXPECT_FALSE(t, has(KEPT_RIGHTS));
	EXPECT_FALSE(t, kept_ask_begin(NODE, &gen)); /* not at once again */
	allow(t);
	/* Asked before it was allowed, and from before the last time that it was taken back. */
	fill(&before);
	fill(&ticket);
	EXPECT_FALSE(t, has(KEPT_RIGHTS));
}

static void a_change_overtakes_an_answer(struct ktest *t)
{
	struct kept_ticket during, early, ticket;
	struct kept_change c;

	allow(t);
	kept_begin(&early, NODE);
	fill(&early);
	kept_change(&c, NODE);
	kept_change_file(&c, &file, KEPT_RIGHTS);
	kept_change_name(&c, &dir, "f", 1);
	EXPECT_EQ(t, look("f"), KEPT_UNKNOWN);
	EXPECT_TRUE(t, has(KEPT_RIGHTS));
	EXPECT_FALSE(t, has(KEPT_ALL));
	kept_begin(&during, NODE);
	fill(&early);
	fill(&during);
	EXPECT_FALSE(t, has(KEPT_ALL));
	EXPECT_EQ(t, look("f"), KEPT_UNKNOWN);
	kept_change_fill_name(&c, 0, NULL);
	kept_change_end(&c, 0);
	fill(&early);
	fill(&during);
	EXPECT_FALSE(t, has(KEPT_ALL));
	EXPECT_EQ(t, look("f"), KEPT_MISSING);
	kept_begin(&ticket, NODE);
	fill(&ticket);
	EXPECT_TRUE(t, has(KEPT_ALL));
}

/* Two changes of one name: neither knows which was the last. */
static void changes_overtake_each_other(struct ktest *t)
{
	struct kept_change a, b;

	allow(t);
	kept_change(&a, NODE);
	kept_change_name(&a, &dir, "f", 1);
	kept_change(&b, NODE);
	kept_change_name(&b, &dir, "f", 1);
	kept_change_fill_name(&b, 0, NULL);
	kept_change_end(&b, 0);
	kept_change_fill_name(&a, 0, &file);
	kept_change_end(&a, 0);
	EXPECT_EQ(t, look("f"), KEPT_UNKNOWN);
}

static void paths_are_not_trusted_while_directories_move(struct ktest *t)
{
	struct kept_ticket ticket;
	struct kept_change c;

	allow(t);
	kept_begin(&ticket, NODE);
	kept_change(&c, NODE);
	kept_change_moves(&c);
	fill(&ticket);
	EXPECT_FALSE(t, has(KEPT_RIGHTS));
	kept_change_end(&c, 0);
	fill(&ticket);
	EXPECT_EQ(t, look("f"), KEPT_UNKNOWN);
	kept_begin(&ticket, NODE);
	fill(&ticket);
	EXPECT_EQ(t, look("f"), KEPT_FOUND);
}

static void what_is_in_doubt_drops_all(struct ktest *t)
{
	static const int known[] = { -ENOENT, -EEXIST, -EACCES, -EAGAIN, -ENOSPC };
	struct kept_ticket ticket;
	struct kept_change c;

	for (size_t i = 0; i <= ARRAY_SIZE(known); i++) {
		allow(t);
		kept_begin(&ticket, NODE);
		fill(&ticket);
		kept_change(&c, NODE);
		kept_change_name(&c, &dir, "g", 1);
		kept_change_end(&c, i < ARRAY_SIZE(known) ? known[i] : -EINTR);
		EXPECT_EQ(t, look("f"), i < ARRAY_SIZE(known) ? KEPT_FOUND : KEPT_UNKNOWN);
	}
}

static void writes_leave_the_rights(struct ktest *t)
{
	struct kept_ticket ticket;

	allow(t);
	kept_begin(&ticket, NODE);
	fill(&ticket);
	kept_write_begin(&file);
	EXPECT_TRUE(t, has(KEPT_RIGHTS));
	EXPECT_FALSE(t, has(KEPT_ALL));
	kept_begin(&ticket, NODE);
	fill(&ticket);
	EXPECT_FALSE(t, has(KEPT_ALL));
	kept_write_end(&file);
	fill(&ticket);
	EXPECT_FALSE(t, has(KEPT_ALL));
	kept_begin(&ticket, NODE);
	fill(&ticket);
	EXPECT_TRUE(t, has(KEPT_ALL));
}

static void a_file_is_unwritten_until_it_is_not(struct ktest *t)
{
	struct kept_change c;
	uint64_t before;

	allow(t);
	before = kept_now();
	kept_change(&c, NODE);
	kept_change_file(&c, &file, KEPT_RIGHTS);
	kept_change_end(&c, 0);
	EXPECT_TRUE(t, kept_is_unwritten(&file, before));
	kept_write_begin(&file);
	EXPECT_FALSE(t, kept_is_unwritten(&file, kept_now()));
	kept_write_end(&file);
	EXPECT_FALSE(t, kept_is_unwritten(&file, before));
	EXPECT_TRUE(t, kept_is_unwritten(&file, kept_now()));
}

/* A directory that was made here, with names f0 to f9. */
static void make_whole(void)
{
	const struct file_attr attr = attr_of(&dir, S_IFDIR | 0755);
	struct kept_change c;
	char name[3] = "f0";

	kept_change(&c, NODE);
	kept_change_fill_attr(&c, &attr, KEPT_ALL);
	kept_change_is_empty(&c, &dir);
	kept_change_end(&c, 0);
	for (; name[1] <= '9'; name[1]++) {
		kept_change(&c, NODE);
		kept_change_file(&c, &dir, KEPT_RIGHTS);
		kept_change_name(&c, &dir, name, 2);
		kept_change_fill_name(&c, 0, &file);
		kept_change_end(&c, 0);
	}
}

static void of_a_whole_directory_all_is_known(struct ktest *t)
{
	struct kept_change c;

	allow(t);
	make_whole();
	EXPECT_EQ(t, look("f9"), KEPT_FOUND);
	EXPECT_EQ(t, look("other"), KEPT_MISSING);
	/* Not while something is made there, nor after it is not known what. */
	kept_change(&c, NODE);
	kept_change_name(&c, &dir, "other", 5);
	EXPECT_EQ(t, look("other"), KEPT_UNKNOWN);
	kept_change_end(&c, -EEXIST);
	EXPECT_EQ(t, look("other"), KEPT_UNKNOWN);
	EXPECT_EQ(t, look("another"), KEPT_UNKNOWN);
}

static void what_has_no_room_is_not_known(struct ktest *t)
{
	uint64_t bytes;

	allow(t);
	bytes = kept_limit(1024);
	make_whole();
	EXPECT_EQ(t, look("f0"), KEPT_UNKNOWN);
	EXPECT_EQ(t, look("other"), KEPT_UNKNOWN);
	EXPECT_EQ(t, look("f9"), KEPT_FOUND);
	(void)kept_limit(bytes);
	kept_drop(NODE);
}

/* --- targets ----------------------------------------------------------------------------- */

static void fill_link(const struct kept_ticket *ticket, const char *target)
{
	kept_fill_link(ticket, &dir, "f", 1, &file, target, strlen(target));
}

static size_t target(char *buf, size_t size)
{
	memset(buf, '?', size);
	return kept_link(&file, buf, size);
}

static void a_target_is_kept_with_its_link(struct ktest *t)
{
	static char longest[513];
	static char buf[600];
	struct kept_ticket ticket;
	struct kept_change c;

	allow(t);
	kept_begin(&ticket, NODE);
	fill_link(&ticket, "to"); /* of a link that is not known */
	EXPECT_EQ(t, target(buf, 8), 0u);
	fill(&ticket);
	kept_fill_link(&ticket, &dir, "g", 1, &file, "to", 2); /* found by another name */
	EXPECT_EQ(t, target(buf, 8), 0u);
	memset(longest, 'x', sizeof(longest));
	kept_fill_link(&ticket, &dir, "f", 1, &file, longest, 513);
	EXPECT_EQ(t, target(buf, 8), 0u);
	fill_link(&ticket, "to/there");
	EXPECT_EQ(t, target(buf, 4), 8u);
	EXPECT_EQ(t, memcmp(buf, "to/t", 4), 0);
	EXPECT_EQ(t, target(buf, 9), 8u);
	EXPECT_EQ(t, memcmp(buf, "to/there?", 9), 0);
	/* It stays when the attributes change, and goes when the link may be gone. */
	kept_change(&c, NODE);
	kept_change_file(&c, &file, KEPT_RIGHTS);
	kept_change_end(&c, 0);
	EXPECT_EQ(t, target(buf, 9), 8u);
	kept_change(&c, NODE);
	kept_change_file(&c, &file, 0);
	kept_change_end(&c, 0);
	EXPECT_EQ(t, target(buf, 9), 0u);
	kept_begin(&ticket, NODE);
	fill(&ticket);
	kept_fill_link(&ticket, &dir, "f", 1, &file, longest, 512);
	EXPECT_EQ(t, target(buf, sizeof(buf)), 512u);
	kept_drop(NODE);
	EXPECT_EQ(t, target(buf, 9), 0u);
}

/* The path of the request may have led to another link, or to this one by another name. */
static void a_change_overtakes_a_target(struct ktest *t)
{
	for (int i = 0; i < 4; i++) {
		struct kept_ticket ticket;
		struct kept_change c;
		char buf[8];

		allow(t);
		kept_begin(&ticket, NODE);
		fill(&ticket);
		kept_change(&c, NODE);
		if (i == 0)
			kept_change_file(&c, &file, KEPT_RIGHTS);
		if (i == 1) {
			kept_change_name(&c, &dir, "f", 1);
			kept_change_fill_name(&c, 0, &file);
		}
		if (i == 2)
			kept_change_moves(&c);
		if (i < 3) {
			fill_link(&ticket, "to");
			EXPECT_EQ(t, target(buf, 8), 0u);
		}
		kept_change_end(&c, 0);
		if (i == 3)
			kept_drop(NODE);
		fill_link(&ticket, "to");
		EXPECT_EQ(t, target(buf, 8), 0u);
	}
}

struct recaller {
	bool done; /* atomic */
	int ret;
};

static struct {
	unsigned int calls;
	int fails; /* so often */
	bool too_early;
} flushed;

static int fake_flush(uint32_t node)
{
	flushed.calls += node == NODE;
	flushed.too_early |= kept_hold(NODE) || !flushed.fails;
	return --flushed.fails ? -EHOSTDOWN : 0;
}

static void recall_thread(void *arg)
{
	struct recaller *r = arg;

	r->ret = kept_recall(NODE);
	__atomic_store_n(&r->done, true, __ATOMIC_RELEASE);
}

/* SP_RECALL waits for threads that work in the belief that no other processor does. */
static void a_recall_waits_for_holders(struct ktest *t)
{
	struct recaller r = { 0 };
	struct thread *thread;
	struct file_id id;

	allow(t);
	kept_set_flush(fake_flush);
	EXPECT_FALSE(t, kept_hold(NODE + 1));
	ASSERT_TRUE(t, kept_hold(NODE));
	ASSERT_TRUE(t, kept_hold(NODE));
	thread = thread_create("recall", recall_thread, &r);
	ASSERT_FALSE(t, IS_ERR(thread));
	/* It takes back what is kept at once, and waits then. */
	while (kept_hold(NODE)) {
		kept_release(NODE);
		thread_yield();
	}
	EXPECT_EQ(t, kept_name(&dir, "f", 1, &id), KEPT_UNKNOWN);
	kept_release(NODE);
	for (int i = 0; i < 100; i++)
		thread_yield();
	EXPECT_FALSE(t, __atomic_load_n(&r.done, __ATOMIC_ACQUIRE));
	EXPECT_EQ(t, flushed.calls, 0);
	flushed.fails = 3;
	kept_release(NODE);
	thread_join(thread);
	EXPECT_TRUE(t, r.done);
	EXPECT_EQ(t, r.ret, 0);
	/* The bytes that they wrote were sent then, and not given up. */
	EXPECT_EQ(t, flushed.calls, 3);
	EXPECT_FALSE(t, flushed.too_early);
	kept_set_flush(NULL);
	/* Without holders it is done at once. */
	allow(t);
	EXPECT_EQ(t, kept_recall(NODE), 0);
	EXPECT_FALSE(t, kept_hold(NODE));
}

static const struct ktest_case kept_cases[] = {
	KTEST(what_is_told_is_kept),
	KTEST(nothing_is_kept_that_was_not_allowed),
	KTEST(a_change_overtakes_an_answer),
	KTEST(changes_overtake_each_other),
	KTEST(paths_are_not_trusted_while_directories_move),
	KTEST(what_is_in_doubt_drops_all),
	KTEST(writes_leave_the_rights),
	KTEST(a_file_is_unwritten_until_it_is_not),
	KTEST(of_a_whole_directory_all_is_known),
	KTEST(what_has_no_room_is_not_known),
	KTEST(a_target_is_kept_with_its_link),
	KTEST(a_change_overtakes_a_target),
	KTEST(a_recall_waits_for_holders),
	{ 0 },
};
static const struct ktest_suite kept_suite = {
	.name = "processor.kept",
	.cases = kept_cases,
};
KTEST_SUITE(kept_suite);
