/* SPDX-License-Identifier: MIT */
/*
 * Room on the disk for dirty pages: each byte that was accepted finds its block, whatever becomes
 * of the storage node, the file's end and other files meanwhile.
 */
#include <string.h>

#include <lib/errno.h>
#include <lib/ktest.h>

#include "live_kit.h"

static int write_byte(struct fake *f, uint64_t ino, uint64_t page, uint32_t flags)
{
	int err;

	file1.ino = ino;
	err = write_at(f, 0, page * PAGE_SIZE, "x", 1, flags);
	file1.ino = 1;
	return err;
}

/* A write is refused when there is no room for it; what was not refused reaches the disk. */
static void a_full_disk_is_told_at_once(struct ktest *t)
{
	struct fake f;
	uint64_t n = 0;

	start(&f, 1, 0);
	f.files[1] = (struct fake_file){ .version = 1 };
	f.room_known = true;
	f.room = 60;
	ASSERT_EQ(t, write_byte(&f, 2, 0, 0), 0);
	while (!write_byte(&f, 1, n, 0))
		n++;
	/* The other file's idle promise was given back. */
	EXPECT_EQ(t, n, 59);
	EXPECT_EQ(t, write_byte(&f, 1, n, 0), -ENOSPC);
	EXPECT_EQ(t, write_byte(&f, 2, 1, PM_FILE_PRIVILEGED), -ENOSPC);
	EXPECT_GE(t, f.disks[1].privileged, 1);
	EXPECT_EQ(t, change(&f, PROTO_FILE_APPEND, 0, PAGE_SIZE), -ENOSPC);
	EXPECT_EQ(t, state.size, (n - 1) * PAGE_SIZE + 1);
	/* A page that has its block may be written, and the last page's rest. */
	EXPECT_EQ(t, write_byte(&f, 1, 3, 0), 0);
	EXPECT_EQ(t, change(&f, PROTO_FILE_APPEND, 0, 100), 0);
	EXPECT_EQ(t, state.pos, (n - 1) * PAGE_SIZE + 1);
	ASSERT_EQ(t, file_flush_all(&f.mem[0], 0), 0);
	EXPECT_EQ(t, f.room, 0);
	EXPECT_EQ(t, f.disks[0].unpromised + f.disks[1].unpromised, 0);
	for (uint64_t i = 0; i < n; i++)
		ASSERT_EQ(t, f.disks[0].bytes[i * PAGE_SIZE], 'x');
	/* Room again. */
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 10 * PAGE_SIZE, 0), 0);
	f.room = n - 10;
	EXPECT_EQ(t, write_byte(&f, 2, 1, 0), 0);
	EXPECT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	/* Between an append's place and its bytes another writer finds the disk full. */
	ASSERT_EQ(t, file_flush_all(&f.mem[0], 0), 0);
	f.room = 2;
	ASSERT_EQ(t, change(&f, PROTO_FILE_APPEND, 0, PAGE_SIZE), 0);
	ASSERT_EQ(t, state.pos, 10 * PAGE_SIZE);
	EXPECT_EQ(t, write_byte(&f, 2, 2, 0), 0);
	EXPECT_EQ(t, write_byte(&f, 2, 3, 0), -ENOSPC);
	EXPECT_EQ(t, write_byte(&f, 1, 10, 0), 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Writers in order ask seldom; those that are not ask for what they need. */
static void writers_in_order_ask_ahead(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	f.mem[0].page_cache.dirty_max = 1024;
	for (uint64_t i = 0; i < 1000; i++)
		ASSERT_EQ(t, write_byte(&f, 1, i, 0), 0);
	EXPECT_LE(t, f.disks[0].reserves, 8); /* 16, 32, 64, 128, then 256 at a time */
	EXPECT_LE(t, f.disks[0].promised, 1000 + MS_RESERVE_MAX_PAGES);
	ASSERT_EQ(t, sync_file(&f), 0);
	/* All that is there has its block, as the first answer tells. */
	f.disks[0].reserves = 0;
	for (uint64_t i = 0; i < 500; i++)
		ASSERT_EQ(t, write_byte(&f, 1, i * 7 % 1000, 0), 0);
	EXPECT_EQ(t, f.disks[0].reserves, 0);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	file_reserve_give_all(&f.mem[0], FAKE_STORAGE);
	EXPECT_EQ(t, f.disks[0].promised, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* The claim's end ends the promise; a next life of storage hears of it, also from a writer. */
static void promises_go_with_the_claim(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	f.room_known = true;
	f.room = 40;
	ASSERT_EQ(t, write_byte(&f, 1, 0, 0), 0);
	EXPECT_EQ(t, f.disks[0].promised, 16);
	fake_storage_again(&f);
	ASSERT_EQ(t, file_declare(&f.mem[0], FAKE_STORAGE, f.storage_life), 0);
	EXPECT_EQ(t, f.disks[0].promised, 1);
	ASSERT_EQ(t, write_byte(&f, 1, 1, 0), 0);
	EXPECT_GE(t, f.disks[0].promised, 2);
	fake_storage_again(&f);
	/* The claim is of the earlier life: the request for room finds that out. */
	ASSERT_EQ(t, write_byte(&f, 1, 39, 0), 0);
	EXPECT_EQ(t, f.disks[0].promised, 2 + 16);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	f.mem[0].page_cache.claims_max = 0;
	ASSERT_EQ(t, file_flush_all(&f.mem[0], 0), 0);
	EXPECT_TRUE(t, file_release_unused(&f.mem[0]));
	EXPECT_EQ(t, f.disks[0].node, 0);
	EXPECT_EQ(t, f.disks[0].promised, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

static const struct ktest_case cases[] = {
	KTEST(a_full_disk_is_told_at_once),
	KTEST(writers_in_order_ask_ahead),
	KTEST(promises_go_with_the_claim),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.room", .cases = cases };
KTEST_SUITE(suite);
