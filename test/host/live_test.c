/* SPDX-License-Identifier: MIT */
/*
 * Files that change at the processor: write, read, truncation, losses.
 */
#include "live_fakes.h"

static void a_write_is_one_message(struct ktest *t)
{
	char got[32] = "";
	struct file f;

	start();
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	EXPECT_EQ(t, write_at(&f, 4090, "over the edge", 13), 13);
	EXPECT_EQ(t, node.writes, 1);
	EXPECT_EQ(t, fetches, 0);
	EXPECT_EQ(t, read_at(&f, 4090, got, 32), 13);
	EXPECT_EQ(t, memcmp(got, "over the edge", 13), 0);
	EXPECT_EQ(t, fetches, 2);
	/* A line that is there is changed in place. */
	EXPECT_EQ(t, write_at(&f, 4095, "XY", 2), 2);
	EXPECT_EQ(t, read_at(&f, 4090, got, 32), 13);
	EXPECT_EQ(t, memcmp(got, "over XYe edge", 13), 0);
	EXPECT_EQ(t, fetches, 2);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, node.syncs, 1);
	close_file(&f);
	EXPECT_EQ(t, references, 0);
}

static void appends_go_where_the_node_says(struct ktest *t)
{
	struct file f;

	start();
	ASSERT_EQ(t, open_file(&f, O_WRONLY | O_APPEND), 0);
	EXPECT_EQ(t, write_at(&f, 0, "one", 3), 3);
	node.size += 3; /* another processor's */
	memcpy(node.bytes + 3, "two", 3);
	EXPECT_EQ(t, write_at(&f, 0, "three", 5), 5);
	EXPECT_EQ(t, node.size, 11);
	EXPECT_EQ(t, memcmp(node.bytes, "onetwothree", 11), 0);
	close_file(&f);
}

/* As much as fits, by pages; what is stored into a mapping, too. */
static void a_full_disk_shortens_a_write(struct ktest *t)
{
	static char bytes[10 * PAGE_SIZE];
	struct file f;

	start();
	memset(bytes, 'b', sizeof(bytes));
	node.room = 6 * PAGE_SIZE;
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	EXPECT_EQ(t, write_at(&f, 100, bytes, sizeof(bytes)), 5 * PAGE_SIZE - 100);
	EXPECT_EQ(t, node.size, 5 * PAGE_SIZE);
	EXPECT_FALSE(t, node.privileged);
	EXPECT_EQ(t, write_at(&f, 5 * PAGE_SIZE, bytes, sizeof(bytes)), PAGE_SIZE);
	EXPECT_EQ(t, write_at(&f, 6 * PAGE_SIZE, bytes, 1), -ENOSPC);
	EXPECT_EQ(t, node.size, 6 * PAGE_SIZE);
	EXPECT_EQ(t, memcmp(node.bytes + 100, bytes, 6 * PAGE_SIZE - 100), 0);
	close_file(&f);
	/* An append: the file grows by what is written. */
	ASSERT_EQ(t, open_file(&f, O_WRONLY | O_APPEND), 0);
	node.room = 9 * PAGE_SIZE;
	EXPECT_EQ(t, write_at(&f, 0, bytes, 10), 10);
	EXPECT_EQ(t, write_at(&f, 0, bytes, sizeof(bytes)), PAGE_SIZE * 3 - 10);
	EXPECT_EQ(t, write_at(&f, 0, bytes, sizeof(bytes)), -ENOSPC);
	EXPECT_EQ(t, node.size, 9 * PAGE_SIZE);
	close_file(&f);
	/* Of two pages that programs have stored into one fits. */
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	node.room = 2 * PAGE_SIZE;
	store(t, 10, "fits", 4);
	store(t, 5 * PAGE_SIZE, "lost", 4);
	EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
	EXPECT_EQ(t, memcmp(node.bytes + 10, "fits", 4), 0);
	EXPECT_NE(t, memcmp(node.bytes + 5 * PAGE_SIZE, "lost", 4), 0);
	close_file(&f);
}

/* Its maker is told nothing that it does not know: the first write is the first message. */
static void a_new_file_is_opened_without_a_message(struct ktest *t)
{
	char got[8] = "";
	struct file f, g;

	start();
	node.errors = 3; /* of before */
	ASSERT_EQ(t, open_as(&f, O_RDWR, true), 0);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 0);
	EXPECT_EQ(t, node.opens, 0);
	EXPECT_EQ(t, write_at(&f, 0, "new", 3), 3);
	EXPECT_EQ(t, node.writes, 1);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 3);
	EXPECT_EQ(t, memcmp(got, "new", 3), 0);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, node.opens, 0);
	/* It is open here already, by what the node has said: then that is asked for again. */
	memcpy(node.bytes, "other", 5);
	node.size = 5;
	node.version++;
	ASSERT_EQ(t, open_as(&g, O_RDONLY, true), 0);
	EXPECT_EQ(t, node.opens, 1);
	EXPECT_EQ(t, read_at(&g, 0, got, 8), 5);
	EXPECT_EQ(t, memcmp(got, "other", 5), 0);
	close_file(&g);
	close_file(&f);
}

/* Found, written and closed by another thread before its maker opens it. */
static void a_new_file_that_was_written_is_not_empty(struct ktest *t)
{
	char got[8] = "";
	struct file f;

	start();
	memcpy(node.bytes, "other", 5);
	node.size = 5;
	node.wrote = 8;
	f = (struct file){ .flags = O_RDWR, .inode = &inode, .fresh = true };
	f.attr.file = (struct file_id){ .ino = 12, .gen = 1, .node = 21 };
	f.attr.made_at = 7;
	mutex_init(&f.lock, "file", RANK_FILE);
	ASSERT_EQ(t, live_open(&f), 0);
	EXPECT_EQ(t, node.opens, 1);
	EXPECT_EQ(t, f.attr.size, 5u);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 5);
	EXPECT_EQ(t, memcmp(got, "other", 5), 0);
	close_file(&f);
}

/* The storage node, whose clock is ahead, has made the file. */
static void a_write_is_not_before_its_file(struct ktest *t)
{
	static const uint64_t ahead_ns[] = { 300000000, 3600000000000 };

	for (size_t i = 0; i < ARRAY_SIZE(ahead_ns); i++) {
		const uint64_t ns = time_real_ns() + ahead_ns[i];
		const struct fs_time made = { .sec = (int64_t)(ns / 1000000000),
					      .nsec = (uint32_t)(ns % 1000000000) };
		struct file f = { .flags = O_RDWR, .inode = &inode, .fresh = true };
		struct fs_time first;

		start();
		f.attr.file = (struct file_id){ .ino = 12, .gen = 1, .node = 21 };
		f.attr.ctime = f.attr.mtime = made;
		mutex_init(&f.lock, "file", RANK_FILE);
		ASSERT_EQ(t, live_open(&f), 0);
		EXPECT_EQ(t, write_at(&f, 0, "new", 3), 3);
		/* By an hour it is not the clock of a node that is meant. */
		EXPECT_EQ(t, fs_time_is_same(node.now, made), i == 0);
		EXPECT_FALSE(t, fs_time_is_later(node.now, made));
		/* Each write has its own time. */
		first = node.now;
		EXPECT_EQ(t, write_at(&f, 0, "old", 3), 3);
		EXPECT_TRUE(t, fs_time_is_later(node.now, first));
		close_file(&f);
	}
}

static void another_version_at_open(struct ktest *t)
{
	char got[8] = "";
	struct file f, g;

	start();
	memcpy(node.bytes, "old", 3);
	node.size = 3;
	ASSERT_EQ(t, open_file(&f, O_RDONLY), 0);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 3);
	memcpy(node.bytes, "newer", 5);
	node.size = 5;
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 3);
	EXPECT_EQ(t, memcmp(got, "old", 3), 0);
	node.version++;
	ASSERT_EQ(t, open_file(&g, O_RDONLY), 0);
	EXPECT_EQ(t, read_at(&g, 0, got, 8), 5);
	EXPECT_EQ(t, memcmp(got, "newer", 5), 0);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 5);
	close_file(&g);
	/* The same one: what is cached stays. */
	fetches = 0;
	ASSERT_EQ(t, open_file(&g, O_RDONLY), 0);
	EXPECT_EQ(t, read_at(&g, 0, got, 8), 5);
	EXPECT_EQ(t, fetches, 0);
	close_file(&g);
	close_file(&f);
}

/* Each open file tells of a loss once; one that is opened later does not. */
static void losses_are_told_once(struct ktest *t)
{
	struct file f, g;

	start();
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	ASSERT_EQ(t, open_file(&g, O_RDWR), 0);
	EXPECT_EQ(t, write_at(&f, 0, "x", 1), 1);
	node.errors = 1; /* the disk refuses it */
	EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, write_at(&g, 0, "y", 1), -EIO);
	EXPECT_EQ(t, write_at(&g, 0, "y", 1), 1);
	/* The memory node is gone with what was not synced; its successor knows of nothing. */
	node.fail = -EHOSTDOWN;
	placed = 12;
	node.errors = 0;
	EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
	EXPECT_EQ(t, node.asked, 12);
	EXPECT_EQ(t, g.ops->fsync(&g, false), -EIO);
	EXPECT_EQ(t, g.ops->fsync(&g, false), 0);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	/* With everything synced nothing is lost. */
	node.fail = -EHOSTDOWN;
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	close_file(&g);
	close_file(&f);
}

static void a_write_that_fails_leaves_no_bytes(struct ktest *t)
{
	char got[8] = "";
	struct file f;

	start();
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	EXPECT_EQ(t, write_at(&f, 0, "old", 3), 3);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 3);
	node.fail = -ENOSPC;
	EXPECT_EQ(t, write_at(&f, 0, "new", 3), -ENOSPC);
	EXPECT_EQ(t, read_at(&f, 0, got, 8), 3);
	EXPECT_EQ(t, memcmp(got, "old", 3), 0);
	close_file(&f);
}

static void stores_reach_the_node(struct ktest *t)
{
	char got[8] = "";
	struct file f;

	start();
	memcpy(node.bytes, "0123456789", 10);
	node.size = 10;
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	store(t, 2, "ab", 2);
	/* read(2) and write(2) use the same line, and a write leaves it dirty. */
	EXPECT_EQ(t, read_at(&f, 0, got, 5), 5);
	EXPECT_EQ(t, memcmp(got, "01ab4", 5), 0);
	EXPECT_EQ(t, write_at(&f, 4, "W", 1), 1);
	EXPECT_EQ(t, memcmp(node.bytes, "0123W56789", 10), 0);
	/* Behind the end a program may store, too: that is no part of the file. */
	store(t, 10, "junk", 4);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, memcmp(node.bytes, "01abW56789\0\0\0\0", 14), 0);
	EXPECT_EQ(t, node.size, 10);
	EXPECT_EQ(t, node.writes, 2);
	EXPECT_EQ(t, node.syncs, 1);
	EXPECT_FALSE(t, file_dirty_any(&object));
	/* And it is not when the file grows, by any way. */
	EXPECT_EQ(t, write_at(&f, 13, "x", 1), 1);
	EXPECT_EQ(t, read_at(&f, 9, got, 5), 5);
	EXPECT_EQ(t, memcmp(got, "9\0\0\0x", 5), 0);
	store(t, 14, "junk", 4);
	ASSERT_EQ(t, live_truncate(&f.attr.file, 0, 17), 0);
	EXPECT_EQ(t, read_at(&f, 13, got, 4), 4);
	EXPECT_EQ(t, memcmp(got, "x\0\0\0", 4), 0);
	/* Only what was stored before close() need be there: close-to-open. */
	store(t, 0, "C", 1);
	close_file(&f);
	EXPECT_EQ(t, node.bytes[0], 'C');
	/* Before the time is set, and before a hole is looked for. */
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	store(t, 0, "D", 1);
	EXPECT_EQ(t, live_flush(&f.attr.file), 0);
	EXPECT_EQ(t, node.bytes[0], 'D');
	EXPECT_EQ(t, live_set_mtime(&f.attr), 0);
	store(t, 0, "E", 1);
	ASSERT_EQ(t, mutex_lock_killable(&f.lock), 0);
	EXPECT_EQ(t, f.ops->seek(&f, 3, 3), 3);
	EXPECT_EQ(t, f.ops->seek(&f, -1, 3), -ENXIO);
	mutex_unlock(&f.lock);
	EXPECT_EQ(t, node.bytes[0], 'E');
	EXPECT_EQ(t, node.seeks, 1);
	close_file(&f);
	EXPECT_EQ(t, references, 0);
}

static void truncations_forget_stores(struct ktest *t)
{
	struct file f;

	start();
	node.size = 3 * PAGE_SIZE;
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	for (uint64_t i = 0; i < 3; i++)
		store(t, i * PAGE_SIZE + 10, "stored", 6);
	ASSERT_EQ(t, live_truncate(&f.attr.file, 0, PAGE_SIZE + 12), 0);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, memcmp(node.bytes + 10, "stored", 6), 0);
	EXPECT_EQ(t, memcmp(node.bytes + PAGE_SIZE + 10, "st\0\0\0\0", 6), 0);
	EXPECT_EQ(t, node.bytes[2 * PAGE_SIZE + 10], 0);
	/* A hole keeps what lies beside it. */
	store(t, 20, "left and right", 14);
	ASSERT_EQ(t, f.ops->fallocate(&f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 25, 3), 0);
	EXPECT_FALSE(t, object.sealed);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, memcmp(node.bytes + 20, "left \0\0\0 right", 14), 0);
	close_file(&f);
}

static void stores_that_cannot_be_sent(struct ktest *t)
{
	char got[8] = "";
	struct file f;

	start();
	node.size = 10;
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	/* Not now: they stay. */
	store(t, 0, "kept", 4);
	node.fail = -ENOMEM;
	EXPECT_EQ(t, f.ops->fsync(&f, false), -ENOMEM);
	EXPECT_TRUE(t, file_dirty_any(&object));
	/* The node is gone: its successor gets them. */
	node.fail = -EHOSTDOWN;
	placed = 12;
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, memcmp(node.bytes, "kept", 4), 0);
	/* Never: each open file tells it once, msync() too, and none reads them any more. */
	store(t, 0, "lost", 4);
	node.fail = -EIO;
	EXPECT_EQ(t, live_write_back(&object, 0, 1, true), -EIO);
	EXPECT_EQ(t, live_write_back(&object, 0, 1, true), 0);
	EXPECT_EQ(t, f.ops->fsync(&f, false), -EIO);
	EXPECT_EQ(t, f.ops->fsync(&f, false), 0);
	EXPECT_EQ(t, read_at(&f, 0, got, 4), 4);
	EXPECT_EQ(t, memcmp(got, "kept", 4), 0);
	close_file(&f);
}

/* Another processor's change is not taken for a part of ours: its bytes are there after an open. */
static void changes_of_others_are_noticed(struct ktest *t)
{
	char got[8] = "";
	struct file f, g;

	start();
	memcpy(node.bytes, "old", 3);
	node.size = 2 * PAGE_SIZE;
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	EXPECT_EQ(t, read_at(&f, 0, got, 3), 3);
	memcpy(node.bytes, "new", 3);
	node.version++;
	EXPECT_EQ(t, write_at(&f, PAGE_SIZE, "x", 1), 1);
	store(t, PAGE_SIZE + 1, "y", 1);
	ASSERT_EQ(t, open_file(&g, O_RDONLY), 0);
	EXPECT_EQ(t, read_at(&g, 0, got, 3), 3);
	EXPECT_EQ(t, memcmp(got, "new", 3), 0);
	EXPECT_EQ(t, read_at(&g, PAGE_SIZE, got, 2), 2);
	EXPECT_EQ(t, memcmp(got, "xy", 2), 0);
	/* Ours alone are no reason to fetch again. */
	fetches = 0;
	EXPECT_EQ(t, write_at(&f, PAGE_SIZE, "z", 1), 1);
	close_file(&g);
	ASSERT_EQ(t, open_file(&g, O_RDONLY), 0);
	EXPECT_EQ(t, read_at(&g, PAGE_SIZE, got, 2), 2);
	EXPECT_EQ(t, memcmp(got, "zy", 2), 0);
	EXPECT_EQ(t, fetches, 0);
	close_file(&g);
	close_file(&f);
}

static void as_a_model_says(struct ktest *t)
{
	static uint8_t model[SIZE], got[SIZE], bytes[SIZE];
	struct prng rng;
	uint64_t size = 0;
	struct file f;

	start();
	prng_seed(&rng, 3);
	memset(model, 0, sizeof(model));
	ASSERT_EQ(t, open_file(&f, O_RDWR), 0);
	for (int n = 0; n < 2000; n++) {
		const uint64_t pos = prng_below(&rng, SIZE / 4);
		const uint64_t len = 1 + prng_below(&rng, SIZE * 3 / 4 - 1);

		switch (prng_below(&rng, 6)) {
		case 4:
			if (!size)
				break;
			bytes[0] = (uint8_t)prng_next(&rng);
			store(t, pos % size, bytes, 1);
			model[pos % size] = bytes[0];
			break;
		case 5:
			ASSERT_EQ(t, f.ops->fsync(&f, false), 0);
			ASSERT_EQ(t, memcmp(node.bytes, model, size), 0);
			break;
		case 0:
			ASSERT_EQ(t, live_truncate(&f.attr.file, 0, pos), 0);
			if (pos < size)
				memset(model + pos, 0, size - pos);
			size = pos;
			break;
		case 1:
			ASSERT_EQ(t,
				  f.ops->fallocate(&f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
						   pos, len),
				  0);
			memset(model + pos, 0, len);
			break;
		default:
			for (uint64_t i = 0; i < len; i++)
				bytes[i] = (uint8_t)prng_next(&rng);
			ASSERT_EQ(t, write_at(&f, pos, bytes, len), (ssize_t)len);
			memcpy(model + pos, bytes, len);
			size = MAX(size, pos + len);
			break;
		}
		ASSERT_EQ(t, read_at(&f, 0, got, SIZE), (ssize_t)size);
		ASSERT_EQ(t, memcmp(got, model, size), 0);
	}
	close_file(&f);
}

static const struct ktest_case cases[] = {
	KTEST(a_write_is_one_message),
	KTEST(appends_go_where_the_node_says),
	KTEST(a_full_disk_shortens_a_write),
	KTEST(a_new_file_is_opened_without_a_message),
	KTEST(a_new_file_that_was_written_is_not_empty),
	KTEST(a_write_is_not_before_its_file),
	KTEST(another_version_at_open),
	KTEST(losses_are_told_once),
	KTEST(a_write_that_fails_leaves_no_bytes),
	KTEST(stores_reach_the_node),
	KTEST(truncations_forget_stores),
	KTEST(stores_that_cannot_be_sent),
	KTEST(changes_of_others_are_noticed),
	KTEST(as_a_model_says),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "vfs.live", .cases = cases };
KTEST_SUITE(suite);
