/* SPDX-License-Identifier: MIT */
/*
 * Files that change at the memory node that caches them: dirty pages, claims, truncation.
 */
#include <stdlib.h>
#include <string.h>

#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>

#include "../../../monitors/memory/file_live.h"
#include "live_kit.h"

static uint8_t text[PM_FILE_WRITE_MAX * PAGE_SIZE];

static void fill_text(void)
{
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 7 + i / 4096);
}

static void a_sync_takes_one_write(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	fill_text();
	ASSERT_EQ(t, write_at(&f, 0, 0, text, sizeof(text), 0), 0);
	EXPECT_EQ(t, state.size, sizeof(text));
	EXPECT_EQ(t, f.disks[0].writes, 0);
	EXPECT_EQ(t, f.nr_calls, 2); /* the claim, and the room on the disk */
	EXPECT_TRUE(t, reads(&f, 5000, text + 5000, 60000));
	EXPECT_EQ(t, f.nr_reads, 0); /* nothing of it is on the disk */
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, f.nr_calls, 3);
	EXPECT_EQ(t, f.disks[0].syncs, 1);
	EXPECT_EQ(t, f.files[0].size, sizeof(text));
	EXPECT_EQ(t, memcmp(f.disks[0].bytes, text, sizeof(text)), 0);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 0);
	/* Clean now: they give way, and are read again. */
	EXPECT_EQ(t, page_cache_drop_all(&f.mem[0]), 32);
	EXPECT_TRUE(t, reads(&f, 5000, text + 5000, 60000));
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Written backwards: the size that storage has is never ahead of the bytes. */
static void the_size_comes_with_the_bytes(struct ktest *t)
{
	static uint8_t page[PAGE_SIZE];
	struct fake f;

	start(&f, 1, 0);
	f.mem[0].page_cache.dirty_max = 200;
	memset(page, 'x', sizeof(page));
	for (uint64_t i = 100; i-- > 0;)
		ASSERT_EQ(t, write_at(&f, 0, i * PAGE_SIZE, page, sizeof(page) - i, 0), 0);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, f.disks[0].holes_seen, 0);
	EXPECT_EQ(t, f.disks[0].writes, 4);
	EXPECT_EQ(t, f.files[0].size, 100 * PAGE_SIZE - 99);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void parts_of_a_page_from_two_writers(struct ktest *t)
{
	uint8_t want[PAGE_SIZE];
	struct fake f;

	start(&f, 1, 6000);
	for (size_t i = 0; i < sizeof(want); i++)
		want[i] = i < 6000 - 4096 ? fake_byte(1, 4096 + i) : 0;
	ASSERT_EQ(t, write_at(&f, 0, 4096 + 10, "first", 5, 0), 0);
	ASSERT_EQ(t, write_at(&f, 0, 4096 + 100, "second", 6, 0), 0);
	ASSERT_EQ(t, write_at(&f, 0, 4096 + 3000, "third", 5, 0), 0);
	memcpy(want + 10, "first", 5);
	memcpy(want + 100, "second", 6);
	memcpy(want + 3000, "third", 5);
	EXPECT_EQ(t, state.size, 4096 + 3005);
	EXPECT_EQ(t, f.nr_reads, 1);
	EXPECT_TRUE(t, reads(&f, 4096, want, 3005));
	/* A dirty page is not given up. */
	(void)page_cache_drop_all(&f.mem[0]);
	EXPECT_TRUE(t, reads(&f, 4096, want, 3005));
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, f.disks[0].writes, 1);
	EXPECT_EQ(t, memcmp(f.disks[0].bytes + 4096, want, sizeof(want)), 0);
	EXPECT_EQ(t, f.disks[0].bytes[0], fake_byte(1, 0));
	EXPECT_TRUE(t, fake_stop(&f));
}

/* While a page is being written it can be read and written, and is written again then. */
static void pages_under_way_stay_readable(struct ktest *t)
{
	struct syncer s;
	struct thread *th;
	struct fake f;

	start(&f, 1, 0);
	ASSERT_EQ(t, write_at(&f, 0, 0, "old", 3, 0), 0);
	f.hold_opcode = MS_WRITE;
	s = (struct syncer){ &f, 1 };
	th = thread_create("sync", sync_thread, &s);
	ASSERT_FALSE(t, IS_ERR(th));
	ASSERT_TRUE(t, fake_wait_held(&f));
	EXPECT_TRUE(t, reads(&f, 0, "old", 3));
	ASSERT_EQ(t, write_at(&f, 0, 0, "new", 3, 0), 0);
	EXPECT_TRUE(t, reads(&f, 0, "new", 3));
	__atomic_store_n(&f.release, true, __ATOMIC_RELEASE);
	thread_join(th);
	EXPECT_EQ(t, s.ret, 0);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 1);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, memcmp(f.disks[0].bytes, "new", 3), 0);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void writer_thread(void *arg)
{
	struct syncer *s = arg;

	int ret = 0;

	for (uint64_t i = 0; i < 8 && !ret; i++)
		ret = write_at(s->f, 0, i * sizeof(text), text, sizeof(text), 0);
	__atomic_store_n(&s->ret, ret, __ATOMIC_RELEASE);
}

static void one_write_thread(void *arg)
{
	struct syncer *s = arg;

	__atomic_store_n(&s->ret, write_at(s->f, 0, 0, text, sizeof(text), 0), __ATOMIC_RELEASE);
}

static void writers_wait_at_the_limit(struct ktest *t)
{
	struct syncer s;
	struct thread *th;
	struct fake f;

	start(&f, 1, 0);
	fill_text();
	f.mem[0].page_cache.dirty_max = 64;
	s = (struct syncer){ &f, 1 };
	th = thread_create("writer", writer_thread, &s);
	ASSERT_FALSE(t, IS_ERR(th));
	while (__atomic_load_n(&s.ret, __ATOMIC_ACQUIRE) == 1) {
		EXPECT_LE(t, __atomic_load_n(&f.mem[0].page_cache.nr_dirty, __ATOMIC_RELAXED), 64);
		if (file_write_behind_wanted(&f.mem[0]))
			EXPECT_TRUE(t, file_write_behind(&f.mem[0], false));
		else
			thread_sleep_ns(100 * 1000);
	}
	thread_join(th);
	EXPECT_EQ(t, s.ret, 0);
	EXPECT_GE(t, f.disks[0].writes, 6);
	ASSERT_EQ(t, sync_file(&f), 0);
	for (size_t i = 0; i < 8; i++)
		EXPECT_EQ(t, memcmp(f.disks[0].bytes + i * sizeof(text), text, sizeof(text)), 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void truncation_both_ways(struct ktest *t)
{
	static const uint8_t zeroes[PAGE_SIZE];
	struct fake f;

	start(&f, 1, 3 * PAGE_SIZE);
	fill_text();
	ASSERT_EQ(t, write_at(&f, 0, 0, text, 4 * PAGE_SIZE + 10, 0), 0);
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, PAGE_SIZE + 5, 0), 0);
	EXPECT_EQ(t, state.size, PAGE_SIZE + 5);
	EXPECT_EQ(t, f.files[0].size, PAGE_SIZE + 5);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 2);
	/* Longer again: storage need not know at once, and nothing of old is there. */
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 4 * PAGE_SIZE, 0), 0);
	EXPECT_EQ(t, f.files[0].size, PAGE_SIZE + 5);
	EXPECT_TRUE(t, reads(&f, 0, text, PAGE_SIZE + 5));
	EXPECT_TRUE(t, reads(&f, PAGE_SIZE + 5, zeroes, PAGE_SIZE));
	EXPECT_TRUE(t, reads(&f, 3 * PAGE_SIZE, zeroes, PAGE_SIZE));
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, f.files[0].size, 4 * PAGE_SIZE);
	/* A hole: clean pages are void. */
	EXPECT_TRUE(t, reads(&f, 0, text, PAGE_SIZE));
	ASSERT_EQ(t, change(&f, PROTO_FILE_PUNCH, 10, 20), 0);
	EXPECT_TRUE(t, reads(&f, 10, zeroes, 20));
	EXPECT_TRUE(t, reads(&f, 30, text + 30, 100));
	f.disks[0].error = -EIO;
	EXPECT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 0, 0), -EIO);
	f.disks[0].error = 0;
	EXPECT_TRUE(t, reads(&f, 30, text + 30, 100));
	EXPECT_TRUE(t, fake_stop(&f));
}

static void appends_get_their_own_bytes(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 10);
	ASSERT_EQ(t, change(&f, PROTO_FILE_APPEND, 0, 5), 0);
	EXPECT_EQ(t, state.pos, 10);
	ASSERT_EQ(t, change(&f, PROTO_FILE_APPEND, 0, 7), 0);
	EXPECT_EQ(t, state.pos, 15);
	EXPECT_EQ(t, state.size, 22);
	/* The second writer is first, and its page as it knew it has not the other's bytes. */
	ASSERT_EQ(t, write_at(&f, 0, 15, "secondx", 7, 0), 0);
	ASSERT_EQ(t, write_at(&f, 0, 10, "first", 5, PM_FILE_SYNC), 0);
	EXPECT_EQ(t, memcmp(f.disks[0].bytes + 10, "firstsecondx", 12), 0);
	EXPECT_EQ(t, f.files[0].size, 22);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Whole pages from a mapping: the end of the file stays where others have put it. */
static void stores_into_mappings_stay_inside(struct ktest *t)
{
	uint64_t version;
	struct fake f;

	start(&f, 1, 0);
	fill_text();
	ASSERT_EQ(t, write_at(&f, 0, 0, text, PAGE_SIZE + 10, 0), 0);
	version = state.version;
	memset(text, 'm', 3 * PAGE_SIZE);
	ASSERT_EQ(t, write_at(&f, 0, 0, text, 3 * PAGE_SIZE, PM_FILE_INSIDE), 0);
	EXPECT_EQ(t, state.size, PAGE_SIZE + 10);
	EXPECT_EQ(t, state.before, version);
	EXPECT_NE(t, state.version, version);
	EXPECT_TRUE(t, reads(&f, 0, text, PAGE_SIZE + 10));
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 5, 0), 0);
	version = state.version;
	ASSERT_EQ(t, write_at(&f, 0, PAGE_SIZE, text, PAGE_SIZE, PM_FILE_INSIDE), 0);
	EXPECT_EQ(t, state.size, 5);
	EXPECT_EQ(t, state.before, version);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.before, state.version);
	EXPECT_EQ(t, f.files[0].size, 5);
	EXPECT_EQ(t, memcmp(f.disks[0].bytes, "mmmmm\0\0", 7), 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Dirty pages are data: storage has them before it is asked. */
static void holes_are_storages(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 8 * PAGE_SIZE, 0), 0);
	ASSERT_EQ(t, write_at(&f, 0, 3 * PAGE_SIZE, "data", 4, 0), 0);
	EXPECT_EQ(t, change(&f, PROTO_FILE_SEEK_DATA, 0, 0), 0);
	EXPECT_EQ(t, state.pos, 3 * PAGE_SIZE);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 0);
	EXPECT_EQ(t, change(&f, PROTO_FILE_SEEK_HOLE, 3 * PAGE_SIZE, 0), 0);
	EXPECT_EQ(t, state.pos, 4 * PAGE_SIZE);
	EXPECT_EQ(t, state.before, state.version);
	EXPECT_EQ(t, change(&f, PROTO_FILE_SEEK_DATA, 4 * PAGE_SIZE, 0), -ENXIO);
	EXPECT_EQ(t, change(&f, PROTO_FILE_SEEK_HOLE, 8 * PAGE_SIZE, 0), -ENXIO);
	EXPECT_EQ(t, f.disks[0].writes, 1);
	/* One that says the time: storage gets it with what comes next. */
	EXPECT_EQ(t, change(&f, PROTO_FILE_TIME, 0, 0), 0);
	EXPECT_EQ(t, state.size, 8 * PAGE_SIZE);
	EXPECT_TRUE(t, file_write_behind(&f.mem[0], true));
	EXPECT_EQ(t, f.disks[0].writes, 2);
	/* All files of a storage node. */
	ASSERT_EQ(t, write_at(&f, 0, 0, "x", 1, 0), 0);
	EXPECT_EQ(t, file_flush_all(&f.mem[0], FAKE_STORAGE + 1), 0);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 1);
	EXPECT_EQ(t, write_at(&f, 0, 0, NULL, 0, PM_FILE_EVERY), 0);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void what_storage_refuses_is_counted_once(struct ktest *t)
{
	uint64_t version;
	struct fake f;

	start(&f, 1, 0);
	ASSERT_EQ(t, write_at(&f, 0, 0, "lost", 4, 0), 0);
	version = state.version;
	f.disks[0].error = -EIO;
	EXPECT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 1);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 0);
	f.disks[0].error = 0;
	EXPECT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 1);
	ASSERT_EQ(t, write_at(&f, 0, 0, "kept", 4, PM_FILE_SYNC), 0);
	EXPECT_NE(t, state.version, version);
	EXPECT_EQ(t, memcmp(f.disks[0].bytes, "kept", 4), 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Storage is away: nothing is lost, and it is sent again. */
static void storage_that_is_away_loses_nothing(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	ASSERT_EQ(t, write_at(&f, 0, 0, "bytes", 5, 0), 0);
	f.fail_opcode = MS_WRITE;
	f.fail_error = -EHOSTDOWN;
	EXPECT_EQ(t, sync_file(&f), -EIO);
	EXPECT_FALSE(t, file_write_behind(&f.mem[0], true));
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 1);
	f.fail_opcode = 0;
	/* It has been started again, and knows of no claim. */
	f.disks[0].node = 0;
	f.disks[0].epoch = 0;
	EXPECT_TRUE(t, file_write_behind(&f.mem[0], true));
	EXPECT_EQ(t, memcmp(f.disks[0].bytes, "bytes", 5), 0);
	EXPECT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* A storage node that ends in order has said nothing about the pages. */
static void an_end_of_storage_loses_nothing(struct ktest *t)
{
	static const int answers[] = { -ESHUTDOWN, -ETIMEDOUT, -EAGAIN, -ENODEV, -ENOBUFS };
	struct fake f;

	start(&f, 1, 0);
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		ASSERT_EQ(t, write_at(&f, 0, i, "x", 1, 0), 0);
		f.fail_opcode = MS_WRITE;
		f.fail_error = answers[i];
		EXPECT_FALSE(t, file_write_behind(&f.mem[0], true));
		EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 1);
		f.fail_opcode = 0;
		EXPECT_EQ(t, sync_file(&f), 0);
		EXPECT_EQ(t, state.errors, 0);
		EXPECT_EQ(t, f.disks[0].bytes[i], 'x');
	}
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Storage would refuse each write of a file that is too long, and the bytes of others with it. */
static void no_file_is_longer_than_may_be(struct ktest *t)
{
	const uint64_t max = 1u << 20;
	struct fake f;

	start(&f, 1, 0);
	f.disks[0].max_size = max;
	ASSERT_EQ(t, write_at(&f, 0, 0, "bytes", 5, 0), 0);
	EXPECT_EQ(t, write_at(&f, 0, max - 1, "xy", 2, 0), -EFBIG);
	EXPECT_EQ(t, write_at(&f, 0, INT64_MAX - 2 * PAGE_SIZE, "x", 1, 0), -EFBIG);
	EXPECT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, max + 1, 0), -EFBIG);
	EXPECT_EQ(t, change(&f, PROTO_FILE_APPEND, 0, max - 4), -EFBIG);
	ASSERT_EQ(t, open_at(&f, 0), 0);
	EXPECT_EQ(t, state.size, 5u);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_room, 0);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_EQ(t, memcmp(f.disks[0].bytes, "bytes", 5), 0);
	EXPECT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, max, 0), 0);
	EXPECT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Room for dirty pages is taken before a request waits for anything else. */
static void room_is_taken_by_one(struct ktest *t)
{
	struct page_cache *pc;
	struct thread *th;
	struct syncer s;
	struct fake f;

	start(&f, 1, 0);
	fill_text();
	pc = &f.mem[0].page_cache;
	pc->dirty_max = 64;
	ASSERT_EQ(t, file_take_room(&f.mem[0], 32), 0);
	ASSERT_EQ(t, file_take_room(&f.mem[0], 32), 0);
	s = (struct syncer){ &f, 1 };
	th = thread_create("writer", one_write_thread, &s);
	ASSERT_FALSE(t, IS_ERR(th));
	thread_sleep_ns(20 * 1000 * 1000);
	EXPECT_EQ(t, __atomic_load_n(&s.ret, __ATOMIC_ACQUIRE), 1);
	EXPECT_EQ(t, f.nr_calls, 0); /* it has not got as far as the claim */
	file_give_room(&f.mem[0], 32);
	thread_join(th);
	EXPECT_EQ(t, s.ret, 0);
	EXPECT_EQ(t, pc->nr_dirty, 32);
	EXPECT_EQ(t, pc->nr_room, 32);
	file_give_room(&f.mem[0], 32);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Storage was started again: what was claimed is, and what was not synced is told as lost. */
static void claims_are_made_again(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	ASSERT_EQ(t, write_at(&f, 0, 0, "first", 5, PM_FILE_SYNC), 0);
	fake_storage_again(&f);
	/* It has done a write whose answer was lost, or a change of attributes. */
	f.files[0].version++;
	EXPECT_EQ(t, file_declare(&f.mem[0], FAKE_STORAGE, f.storage_life), 0);
	EXPECT_EQ(t, f.declared, f.storage_life);
	EXPECT_EQ(t, f.disks[0].node, FAKE_MEM_FIRST);
	ASSERT_EQ(t, write_at(&f, 0, 0, "again", 5, PM_FILE_SYNC), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_EQ(t, memcmp(f.disks[0].bytes, "again", 5), 0);
	/* Dirty, and storage dies with a write that it had answered. */
	ASSERT_EQ(t, write_at(&f, 0, PAGE_SIZE, "dirty", 5, 0), 0);
	fake_storage_again(&f);
	f.files[0].version--;
	memcpy(f.disks[0].bytes, "first", 5);
	EXPECT_EQ(t, file_declare(&f.mem[0], FAKE_STORAGE, f.storage_life), 0);
	EXPECT_TRUE(t, reads(&f, 0, "first", 5));
	EXPECT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 1);
	EXPECT_EQ(t, memcmp(f.disks[0].bytes + PAGE_SIZE, "dirty", 5), 0);
	/* A declaration that comes too late means nothing to the next life. */
	fake_storage_again(&f);
	EXPECT_EQ(t, file_declare(&f.mem[0], FAKE_STORAGE, f.storage_life - 1), -ESTALE);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void one_node_has_the_claim(struct ktest *t)
{
	struct fake f;

	start(&f, 2, 100);
	ASSERT_EQ(t, open_at(&f, 0), 0);
	EXPECT_EQ(t, state.node, 0);
	EXPECT_EQ(t, state.size, 100);
	ASSERT_EQ(t, open_at(&f, 1), 0);
	EXPECT_EQ(t, state.node, FAKE_MEM_FIRST);
	ASSERT_EQ(t, write_at(&f, 1, 0, "x", 1, 0), 0);
	EXPECT_EQ(t, state.node, FAKE_MEM_FIRST);
	/* It is given up when too many are not used; not while there is something to write. */
	f.mem[0].page_cache.claims_max = 0;
	ASSERT_EQ(t, write_at(&f, 0, 0, "x", 1, 0), 0);
	EXPECT_TRUE(t, file_write_behind(&f.mem[0], true));
	EXPECT_TRUE(t, file_write_behind(&f.mem[0], true));
	EXPECT_EQ(t, f.disks[0].node, 0);
	ASSERT_EQ(t, open_at(&f, 1), 0);
	EXPECT_EQ(t, state.node, 0);
	EXPECT_EQ(t, f.disks[0].node, FAKE_MEM_FIRST + 1);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* A node that was taken for dead goes on: its successor's bytes stay. */
static void a_fenced_node_writes_nothing(struct ktest *t)
{
	struct fake f;

	start(&f, 2, 0);
	ASSERT_EQ(t, write_at(&f, 0, 0, "older", 5, 0), 0);
	f.disks[0].node = 0; /* by membership */
	ASSERT_EQ(t, write_at(&f, 1, 0, "newer", 5, PM_FILE_SYNC), 0);
	EXPECT_FALSE(t, file_write_behind(&f.mem[0], true));
	EXPECT_EQ(t, memcmp(f.disks[0].bytes, "newer", 5), 0);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 0);
	ASSERT_EQ(t, open_at(&f, 0), 0);
	EXPECT_EQ(t, state.node, FAKE_MEM_FIRST + 1);
	EXPECT_TRUE(t, fake_stop(&f));
}

static int write_name(struct fake *f, uint64_t ino)
{
	const uint8_t name = (uint8_t)ino;
	int err;

	file1.ino = ino;
	err = write_at(f, 0, 0, &name, 1, 0);
	file1.ino = 1;
	return err;
}

/* Everything reaches storage, whatever becomes of single files. */
static void a_flush_of_all(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	for (uint64_t ino = 4; ino; ino--) {
		f.files[ino - 1] = (struct fake_file){ .version = 1 };
		ASSERT_EQ(t, write_name(&f, ino), 0);
	}
	f.disks[1].node = 0;
	f.disks[1].removed = true; /* no loss */
	EXPECT_EQ(t, file_flush_all(&f.mem[0], 0), 0);
	for (uint64_t ino = 1; ino <= 4; ino++)
		EXPECT_EQ(t, f.disks[ino - 1].bytes[0], ino == 2 ? 0 : ino);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 0);
	EXPECT_EQ(t, file_flush_all(&f.mem[0], 0), 0);
	for (uint64_t ino = 3; ino <= 4; ino++) {
		f.disks[ino - 1].bytes[0] = 0;
		ASSERT_EQ(t, write_name(&f, ino), 0);
	}
	f.disks[2].error = -EIO;
	EXPECT_EQ(t, file_flush_all(&f.mem[0], 0), -EIO);
	EXPECT_EQ(t, f.disks[3].bytes[0], 4);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

#define SPAN (40 * PAGE_SIZE)

static void run_model(struct ktest *t, uint32_t block_size)
{
	static uint8_t model[SPAN], got[SPAN], bytes[8192];
	struct prng rng;
	uint64_t size = 0;
	struct fake f;

	start(&f, 1, 0);
	f.block_size = block_size;
	prng_seed(&rng, 7);
	memset(model, 0, sizeof(model));
	f.mem[0].page_cache.dirty_max = 1024;
	for (int n = 0; n < 4000; n++) {
		const uint64_t pos = prng_below(&rng, SPAN - sizeof(bytes));
		const uint32_t len = 1 + (uint32_t)prng_below(&rng, sizeof(bytes) - 1);

		switch (prng_below(&rng, 11)) {
		case 5:
			fake_storage_again(&f);
			ASSERT_EQ(t, file_declare(&f.mem[0], FAKE_STORAGE, f.storage_life), 0);
			break;
		case 6:
			file_reserve_give_all(&f.mem[0], FAKE_STORAGE);
			EXPECT_LE(t, f.disks[0].promised,
				  DIV_ROUND_UP(size, PAGE_SIZE) * (PAGE_SIZE / block_size));
			break;
		case 0:
			ASSERT_EQ(t, sync_file(&f), 0);
			ASSERT_EQ(t, f.files[0].size, size);
			ASSERT_EQ(t, memcmp(f.disks[0].bytes, model, size), 0);
			break;
		case 1:
			(void)page_cache_drop_all(&f.mem[0]);
			break;
		case 2:
			ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, pos, 0), 0);
			if (pos < size)
				memset(model + pos, 0, size - pos);
			size = pos;
			break;
		case 3:
			ASSERT_EQ(t, change(&f, PROTO_FILE_PUNCH, pos, len), 0);
			memset(model + pos, 0, len);
			break;
		case 4:
			(void)file_write_behind(&f.mem[0], true);
			break;
		default:
			for (uint32_t i = 0; i < len; i++)
				bytes[i] = (uint8_t)prng_next(&rng);
			ASSERT_EQ(t, write_at(&f, 0, pos, bytes, len, 0), 0);
			memcpy(model + pos, bytes, len);
			size = MAX(size, pos + len);
			break;
		}
		ASSERT_EQ(t, page_cache_copy(&f.mem[0], &file1, 0, got, SPAN), (int)size);
		ASSERT_EQ(t, memcmp(got, model, size), 0);
		ASSERT_EQ(t, f.disks[0].unpromised, 0);
	}
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Any operations, beside an array of bytes. */
static void as_a_model_says(struct ktest *t)
{
	run_model(t, PAGE_SIZE);
	run_model(t, 1024);
}

static const struct ktest_case cases[] = {
	KTEST(a_sync_takes_one_write),
	KTEST(the_size_comes_with_the_bytes),
	KTEST(parts_of_a_page_from_two_writers),
	KTEST(pages_under_way_stay_readable),
	KTEST(writers_wait_at_the_limit),
	KTEST(truncation_both_ways),
	KTEST(appends_get_their_own_bytes),
	KTEST(stores_into_mappings_stay_inside),
	KTEST(holes_are_storages),
	KTEST(what_storage_refuses_is_counted_once),
	KTEST(storage_that_is_away_loses_nothing),
	KTEST(an_end_of_storage_loses_nothing),
	KTEST(no_file_is_longer_than_may_be),
	KTEST(room_is_taken_by_one),
	KTEST(claims_are_made_again),
	KTEST(one_node_has_the_claim),
	KTEST(a_fenced_node_writes_nothing),
	KTEST(a_flush_of_all),
	KTEST(as_a_model_says),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.live", .cases = cases };
KTEST_SUITE(suite);
