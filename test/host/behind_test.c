/* SPDX-License-Identifier: MIT */
/*
 * write(2)s that the processor keeps to itself for some time: who sees them when, what they cost,
 * and that none is lost that was not refused.
 */
#include "live_fakes.h"

#define SMALL 100u

static uint8_t text[SIZE]; /* what the tests write, by place */

static void begin(struct ktest *t)
{
	struct prng rng;

	ASSERT_EQ(t, live_maps_init(21, PAGE_SIZE), 0);
	start();
	prng_seed(&rng, 11);
	for (size_t i = 0; i < SIZE; i++)
		text[i] = (uint8_t)prng_next(&rng);
}

/* Write text[*at, end) in small pieces. */
static void write_small(struct ktest *t, struct file *f, uint64_t *at, uint64_t end)
{
	while (*at < end) {
		const size_t n = (size_t)MIN(end - *at, (uint64_t)SMALL);

		ASSERT_EQ(t, write_at(f, *at, text + *at, n), (ssize_t)n);
		*at += n;
	}
}

/* Is the file text[0, size), for a reader here? */
static bool reads(struct file *f, uint64_t size)
{
	static uint8_t got[SIZE];

	return read_at(f, 0, got, SIZE) == (ssize_t)size && !memcmp(got, text, size);
}

static bool at_node(uint64_t size)
{
	return node.size == size && !memcmp(node.bytes, text, size);
}

/* Two that go through, and then hardly any message for many writes. */
static void small_writes_in_order_are_sent_together(struct ktest *t)
{
	uint64_t at = 0;
	struct file f;

	begin(t);
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	write_small(t, &f, &at, 40 * PAGE_SIZE + 7);
	EXPECT_EQ(t, node.writes, 2);
	EXPECT_EQ(t, node.rooms, 3);
	EXPECT_EQ(t, node.size, 2 * SMALL);
	EXPECT_EQ(t, fetches, 1); /* the page that the first ones went to */
	EXPECT_TRUE(t, reads(&f, at));
	EXPECT_EQ(t, fetches, 1);
	/* 32 pages a message; the last one says that it is. */
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, node.writes, 4);
	EXPECT_EQ(t, node.syncs, 1);
	EXPECT_TRUE(t, node.last);
	EXPECT_TRUE(t, at_node(at));
	EXPECT_FALSE(t, file_dirty_any(&object));
	/* The next ones begin anew, and close() sends them. */
	write_small(t, &f, &at, 50 * PAGE_SIZE);
	EXPECT_EQ(t, node.writes, 6);
	EXPECT_EQ(t, node.rooms, 4);
	close_file(&f);
	EXPECT_EQ(t, node.writes, 7);
	EXPECT_TRUE(t, at_node(at));
	EXPECT_EQ(t, references, 0);
	EXPECT_EQ(t, holders + writers, 0);
}

/* Each of these finds at the node what was written before. */
static void others_see_them(struct ktest *t)
{
	struct file_attr attr = { .file = { .ino = 12, .gen = 1, .node = 21 } };
	uint64_t at = 0;
	struct file f, g;

	begin(t);
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	write_small(t, &f, &at, PAGE_SIZE);
	EXPECT_EQ(t, node.size, 2 * SMALL);
	/* stat(2), also of a time: that of the last write. */
	EXPECT_EQ(t, live_attr(&attr), 0);
	EXPECT_TRUE(t, at_node(at));
	EXPECT_EQ(t, attr.size, at);
	write_small(t, &f, &at, 2 * PAGE_SIZE);
	ASSERT_EQ(t, open_file(&g, O_RDONLY), 0);
	EXPECT_TRUE(t, at_node(at));
	EXPECT_TRUE(t, reads(&g, at));
	close_file(&g);
	write_small(t, &f, &at, 3 * PAGE_SIZE);
	ASSERT_EQ(t, mutex_lock_killable(&f.lock), 0);
	EXPECT_EQ(t, f.ops->seek(&f, 0, 2), (int64_t)at); /* SEEK_END asks nobody */
	EXPECT_FALSE(t, at_node(at));
	EXPECT_EQ(t, f.ops->seek(&f, 3, 3), 3);
	mutex_unlock(&f.lock);
	EXPECT_TRUE(t, at_node(at));
	/* msync(2) of a page: no page before it is left out. */
	write_small(t, &f, &at, at + 5 * SMALL);
	EXPECT_EQ(t, live_write_back(&object, at >> PAGE_SHIFT, (at >> PAGE_SHIFT) + 1, true), 0);
	EXPECT_TRUE(t, at_node(at));
	write_small(t, &f, &at, 4 * PAGE_SIZE + 5 * SMALL);
	EXPECT_EQ(t, live_write_back(&object, 4, 5, true), 0);
	EXPECT_TRUE(t, at_node(at));
	write_small(t, &f, &at, at + 5 * SMALL);
	EXPECT_EQ(t, live_flush(&attr.file), 0); /* a rename onto another file; utimens */
	EXPECT_TRUE(t, at_node(at));
	write_small(t, &f, &at, 6 * PAGE_SIZE);
	ASSERT_EQ(t, f.ops->fallocate(&f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 25, 3), 0);
	memset(text + 25, 0, 3);
	EXPECT_TRUE(t, at_node(at));
	EXPECT_TRUE(t, reads(&f, at));
	write_small(t, &f, &at, 7 * PAGE_SIZE);
	at -= 300;
	ASSERT_EQ(t, live_truncate(&attr.file, 0, at), 0);
	EXPECT_TRUE(t, at_node(at));
	EXPECT_TRUE(t, reads(&f, at));
	/* A write elsewhere, and one that leaves a hole. */
	write_small(t, &f, &at, at + 3 * SMALL);
	EXPECT_EQ(t, write_at(&f, 5, text + 5, 9), 9);
	EXPECT_TRUE(t, at_node(at));
	write_small(t, &f, &at, at + 4 * SMALL);
	memset(text + at, 0, 3 * PAGE_SIZE);
	EXPECT_EQ(t, write_at(&f, at + 3 * PAGE_SIZE, text + at + 3 * PAGE_SIZE, 9), 9);
	at += 3 * PAGE_SIZE + 9;
	EXPECT_TRUE(t, at_node(at));
	EXPECT_TRUE(t, reads(&f, at));
	close_file(&f);
}

static void the_time_is_that_of_the_write(struct ktest *t)
{
	struct fs_time before;
	uint64_t at = 0;
	struct file f;

	begin(t);
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	write_small(t, &f, &at, 5 * SMALL);
	before = live_now();
	EXPECT_FALSE(t, fs_time_is_later(((struct live_file *)object.owner)->written, before));
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, node.writes, 3);
	EXPECT_FALSE(t, fs_time_is_later(node.now, before));
	close_file(&f);
}

/* Writes for which this is nothing. */
static void some_go_through(struct ktest *t)
{
	static const struct file_attr attr = { .file = { .ino = 12, .gen = 1, .node = 21 } };
	static const uint32_t flags[] = { O_SYNC, O_DSYNC, O_DIRECT };
	uint64_t at = 0;
	struct file f;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++, at = 0) {
		begin(t);
		ASSERT_EQ(t, open_as(&f, O_RDWR | flags[i], true), 0);
		write_small(t, &f, &at, 8 * SMALL);
		EXPECT_TRUE(t, at_node(at));
		EXPECT_EQ(t, node.writes, 8);
		close_file(&f);
	}
	/* Each is synced, or each is looked at. */
	begin(t);
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	while (at < 8 * SMALL) {
		write_small(t, &f, &at, at + SMALL);
		EXPECT_EQ(t, f.ops->fsync(&f, true), 0);
	}
	EXPECT_EQ(t, node.writes, 8);
	EXPECT_EQ(t, node.rooms, 0);
	for (uint64_t more = 0; more < 9; more++) {
		struct file_attr seen = attr;

		write_small(t, &f, &at, at + SMALL);
		EXPECT_EQ(t, live_attr(&seen), 0);
		EXPECT_EQ(t, seen.size, at);
	}
	EXPECT_LE(t, node.rooms, 3);
	close_file(&f);
	at = 0;
	/* Another processor is there. */
	begin(t);
	alone = false;
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	write_small(t, &f, &at, 8 * SMALL);
	EXPECT_TRUE(t, at_node(at));
	EXPECT_EQ(t, node.rooms, 0);
	close_file(&f);
	/* Large ones; and what was small before them is sent first. */
	at = 0;
	begin(t);
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	write_small(t, &f, &at, 8 * SMALL);
	EXPECT_FALSE(t, at_node(at));
	EXPECT_EQ(t, write_at(&f, at, text + at, 20 * PAGE_SIZE), 20 * PAGE_SIZE);
	EXPECT_TRUE(t, at_node(at + 20 * PAGE_SIZE));
	close_file(&f);
}

static void appends_need_no_message(struct ktest *t)
{
	struct file f;
	uint64_t at;

	begin(t);
	ASSERT_EQ(t, open_as(&f, O_WRONLY | O_APPEND, true), 0);
	for (at = 0; at < 20 * SMALL; at += SMALL)
		ASSERT_EQ(t, write_at(&f, 0, text + at, SMALL), SMALL);
	EXPECT_EQ(t, node.writes, 2);
	EXPECT_EQ(t, node.changes, 2);
	close_file(&f);
	EXPECT_TRUE(t, at_node(at));
	EXPECT_EQ(t, node.writes, 3);
}

/* Another processor has come after a flush, and appends @n bytes of text, and leaves again. */
static void another_appends(uint64_t *at, uint64_t n)
{
	memcpy(node.bytes + *at, text + *at, n);
	*at += n;
	node.size = *at;
	node.version++;
	grant++;
}

/* The file stays open here all the time: the old line of its last page is not sent. */
static void what_another_wrote_meanwhile_stays(struct ktest *t)
{
	static const struct {
		uint32_t flags;
		uint64_t first; /* bytes from here, before the other one comes */
	} tries[] = {
		{ O_RDWR, PAGE_SIZE + 8 * SMALL },
		{ O_RDWR | O_APPEND, PAGE_SIZE + 8 * SMALL },
		{ O_RDWR | O_APPEND, 2 * SMALL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		unsigned int opens;
		uint64_t at = 0;
		struct file f;

		begin(t);
		ASSERT_EQ(t, open_as(&f, tries[i].flags, true), 0);
		write_small(t, &f, &at, tries[i].first);
		EXPECT_EQ(t, at_node(at), tries[i].first == 2 * SMALL);
		ASSERT_EQ(t, live_flush_behind(&f.attr.file), 0);
		EXPECT_TRUE(t, at_node(at));
		EXPECT_TRUE(t, reads(&f, at));
		another_appends(&at, 2 * SMALL);
		/* A store into a mapping has asked for room: no message tells of the end. */
		file_dirty_note_room(&object, 0, PAGES, 0, room_forgotten);
		opens = node.opens;
		write_small(t, &f, &at, 3 * PAGE_SIZE);
		EXPECT_FALSE(t, at_node(at)); /* the last ones were kept again */
		EXPECT_EQ(t, node.opens, opens + 1);
		EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
		EXPECT_TRUE(t, at_node(at));
		EXPECT_TRUE(t, reads(&f, at));
		close_file(&f);
	}
	EXPECT_EQ(t, holders + writers, 0);
}

/* A full disk is told by write(2), and nothing that was accepted is lost. */
static void a_full_disk_is_told_at_once(struct ktest *t)
{
	uint64_t at = 0;
	struct file f;
	ssize_t n;

	begin(t);
	node.room = 5 * PAGE_SIZE;
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	while ((n = write_at(&f, at, text + at, SMALL)) > 0)
		at += (uint64_t)n;
	EXPECT_EQ(t, n, -ENOSPC);
	EXPECT_EQ(t, at, 5 * PAGE_SIZE);
	EXPECT_LE(t, node.writes, 5);
	EXPECT_TRUE(t, reads(&f, at));
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_TRUE(t, at_node(at));
	close_file(&f);
}

/* A page that may not be marked goes through, and the next ones may again. */
static void the_limit_of_marked_lines(struct ktest *t)
{
	uint64_t at = 0;
	struct file f;

	begin(t);
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	max_dirty = 3;
	write_small(t, &f, &at, 30 * PAGE_SIZE);
	EXPECT_LE(t, object.nr_dirty, 3);
	EXPECT_GE(t, node.size, 27 * PAGE_SIZE);
	EXPECT_LE(t, node.writes, 60);
	EXPECT_TRUE(t, reads(&f, at));
	close_file(&f);
	EXPECT_TRUE(t, at_node(at));
}

static void a_flush_that_ends_half_way(struct ktest *t)
{
	uint64_t at = 0;
	struct file f;

	begin(t);
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	write_small(t, &f, &at, 40 * PAGE_SIZE + 5);
	node.fail_next = -ENOMEM;
	EXPECT_EQ(t, f.ops->fsync(&f, false), -ENOMEM);
	/* The first pages, in their order; the file is as long as before for all who are here. */
	EXPECT_TRUE(t, at_node(32 * PAGE_SIZE));
	EXPECT_EQ(t, object.size, at);
	EXPECT_TRUE(t, reads(&f, at));
	write_small(t, &f, &at, at + 1);
	EXPECT_TRUE(t, at_node(at));
	close_file(&f);
}

static void failures_of_a_flush(struct ktest *t)
{
	static const int passing[] = { -EIO, -ELOOP, -ENOBUFS, -EPROTO, -ESHUTDOWN };
	struct live_file *lf;
	uint64_t at = 0, size;
	struct file f;

	begin(t);
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	lf = object.owner;
	write_small(t, &f, &at, 40 * PAGE_SIZE);
	/* Not now: all is as it was, and is sent later. */
	node.fail = -ENOMEM;
	EXPECT_EQ(t, f.ops->fsync(&f, false), -ENOMEM);
	EXPECT_TRUE(t, lf->behind);
	EXPECT_TRUE(t, reads(&f, at));
	write_small(t, &f, &at, 41 * PAGE_SIZE);
	/* The memory node is gone, with what went through: its successor gets the rest. */
	node.fail = -EHOSTDOWN;
	placed = 12;
	EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
	EXPECT_EQ(t, node.asked, 12);
	EXPECT_TRUE(t, at_node(at));
	EXPECT_FALSE(t, lf->behind);
	EXPECT_EQ(t, lf->end, 0);
	/* Storage is away for too long, a claim is on the move: nothing is lost by that. */
	for (size_t i = 0; i < ARRAY_SIZE(passing); i++) {
		write_small(t, &f, &at, at + PAGE_SIZE / 4);
		node.fail = passing[i];
		EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
		EXPECT_TRUE(t, lf->behind);
		EXPECT_TRUE(t, reads(&f, at));
		EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
		EXPECT_TRUE(t, at_node(at));
	}
	/* Never: each open file tells it once, and the file is as the node has it. */
	size = at;
	write_small(t, &f, &at, 43 * PAGE_SIZE);
	node.fail = -EDQUOT;
	EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_FALSE(t, lf->behind);
	EXPECT_EQ(t, lf->end, 0);
	at = size + 2 * SMALL;
	EXPECT_TRUE(t, reads(&f, at));
	close_file(&f);
	EXPECT_EQ(t, holders + writers, 0);
}

/* A file without a name that ends while its bytes are here: they go with its lines. */
static void a_dropped_file_leaves_nothing(struct ktest *t)
{
	struct live_file *lf;
	uint64_t at = 0;
	struct file f;

	begin(t);
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	lf = object.owner;
	write_small(t, &f, &at, 4 * PAGE_SIZE);
	excache_drop(&object, 0, UINT64_MAX);
	EXPECT_EQ(t, live_flush_behind(&f.attr.file), 0);
	EXPECT_FALSE(t, lf->behind);
	EXPECT_EQ(t, object.size, node.size);
	EXPECT_EQ(t, node.writes, 2);
	close_file(&f);
}

/* A program's stores behind the end are no part of the file when writes make it longer. */
static void stores_beside_them(struct ktest *t)
{
	uint64_t at = 0, pos;
	struct file f;

	begin(t);
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	write_small(t, &f, &at, 10 * SMALL);
	store(t, at + SMALL, "junk", 4);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_TRUE(t, at_node(at));
	EXPECT_EQ(t, node.bytes[at + SMALL], 0);
	write_small(t, &f, &at, at + 10 * SMALL);
	store(t, at + SMALL, "junk", 4);
	store(t, 5, "J", 1);
	text[5] = 'J';
	/* A hole begins there. */
	pos = at + PAGE_SIZE;
	memset(text + at, 0, PAGE_SIZE);
	EXPECT_EQ(t, write_at(&f, pos, text + pos, 1), 1);
	EXPECT_TRUE(t, reads(&f, pos + 1));
	close_file(&f);
	EXPECT_TRUE(t, at_node(pos + 1));
}

static void as_a_model_says(struct ktest *t)
{
	static uint8_t model[SIZE], got[SIZE], bytes[SIZE];
	uint64_t size = 0, at = 0;
	struct prng rng;
	struct file f;

	begin(t);
	prng_seed(&rng, 5);
	memset(model, 0, sizeof(model));
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	for (int n = 0; n < 20000; n++) {
		const uint64_t pos = prng_below(&rng, SIZE / 4);
		uint64_t len = 1 + prng_below(&rng, SIZE / 4);
		const unsigned int what = (unsigned int)prng_below(&rng, 40);

		max_dirty = 1 + prng_below(&rng, PAGES);
		alone = prng_below(&rng, 8);
		if (what == 0) {
			ASSERT_EQ(t, live_truncate(&f.attr.file, 0, pos), 0);
			if (pos < size)
				memset(model + pos, 0, size - pos);
			size = pos;
		} else if (what == 1) {
			ASSERT_EQ(t,
				  f.ops->fallocate(&f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
						   pos, len),
				  0);
			memset(model + pos, 0, len);
		} else if (what == 2 && size) {
			bytes[0] = (uint8_t)prng_next(&rng);
			store(t, pos % size, bytes, 1);
			model[pos % size] = bytes[0];
		} else if (what == 3) {
			ASSERT_EQ(t, f.ops->fsync(&f, false), 0);
			ASSERT_EQ(t, node.size, size);
			ASSERT_EQ(t, memcmp(node.bytes, model, size), 0);
		} else if (what == 4) {
			node.fail = -ENOMEM;
			(void)!f.ops->fsync(&f, false);
			node.fail = 0;
		} else {
			/* Mostly where the last one ended. */
			if (what < 8 || at > SIZE / 2)
				at = pos;
			if (what > 5)
				len = 1 + len % 3000;
			for (uint64_t i = 0; i < len; i++)
				bytes[i] = (uint8_t)prng_next(&rng);
			ASSERT_EQ(t, write_at(&f, at, bytes, len), (ssize_t)len);
			memcpy(model + at, bytes, len);
			at += len;
			size = MAX(size, at);
		}
		ASSERT_EQ(t, object.size, size);
		if (what < 10) {
			ASSERT_EQ(t, read_at(&f, 0, got, SIZE), (ssize_t)size);
			ASSERT_EQ(t, memcmp(got, model, size), 0);
		}
	}
	close_file(&f);
	ASSERT_EQ(t, node.size, size);
	ASSERT_EQ(t, memcmp(node.bytes, model, size), 0);
	EXPECT_EQ(t, holders + writers, 0);
}

static const struct ktest_case cases[] = {
	KTEST(small_writes_in_order_are_sent_together),
	KTEST(others_see_them),
	KTEST(the_time_is_that_of_the_write),
	KTEST(some_go_through),
	KTEST(appends_need_no_message),
	KTEST(what_another_wrote_meanwhile_stays),
	KTEST(a_full_disk_is_told_at_once),
	KTEST(the_limit_of_marked_lines),
	KTEST(a_flush_that_ends_half_way),
	KTEST(failures_of_a_flush),
	KTEST(a_dropped_file_leaves_nothing),
	KTEST(stores_beside_them),
	KTEST(as_a_model_says),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "live.behind", .cases = cases };
KTEST_SUITE(suite);
