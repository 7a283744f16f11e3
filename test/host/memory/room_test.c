/* SPDX-License-Identifier: MIT */
/*
 * Room on the disk for dirty pages: each byte that was accepted finds its block, whatever becomes
 * of the storage node, the file's end and other files meanwhile.
 */
#include <string.h>

#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <shim/shim.h>

#include "live_kit.h"

static uint8_t text[4 * PAGE_SIZE];

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
	EXPECT_EQ(t, f.disks[0].promised, 16);
	ASSERT_EQ(t, write_byte(&f, 1, 1, 0), 0);
	EXPECT_EQ(t, f.disks[0].promised, 16);
	fake_storage_again(&f);
	/* The claim is of the earlier life: the request for room finds that out. */
	ASSERT_EQ(t, write_byte(&f, 1, 39, 0), 0);
	EXPECT_EQ(t, f.disks[0].promised, 16 + 16);
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

/* --- pages of several blocks ------------------------------------------------------------- */

/* Storage gives a page only the blocks that the size reaches: the others are asked for. */
static void a_part_of_a_page_is_no_page(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	f.block_size = 1024;
	ASSERT_EQ(t, write_at(&f, 0, 0, text, 100, PM_FILE_SYNC), 0);
	EXPECT_EQ(t, f.disks[0].blocks[0], 1);
	file_reserve_give_all(&f.mem[0], FAKE_STORAGE);
	EXPECT_EQ(t, f.disks[0].promised, 0);
	ASSERT_EQ(t, write_at(&f, 0, 100, text, 1000, PM_FILE_SYNC), 0);
	EXPECT_EQ(t, f.disks[0].blocks[0], 3);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	f.room_known = true;
	EXPECT_EQ(t, write_at(&f, 0, 1100, text, 2000, 0), -ENOSPC);
	/* The same after a truncation. */
	f.room_known = false;
	ASSERT_EQ(t, write_at(&f, 0, 0, text, PAGE_SIZE, PM_FILE_SYNC), 0);
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 100, 0), 0);
	EXPECT_EQ(t, f.disks[0].blocks[0], 1);
	f.room_known = true;
	f.room = 0;
	EXPECT_EQ(t, write_at(&f, 0, 100, text, 2000, 0), -ENOSPC);
	/* And after one that made it longer. */
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, PAGE_SIZE, 0), 0);
	EXPECT_EQ(t, write_at(&f, 0, 3000, text, 100, 0), -ENOSPC);
	EXPECT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* A dirty page had its blocks, and loses some of them to a truncation. */
static void a_page_that_is_cut_keeps_room(struct ktest *t)
{
	struct fake f;

	start(&f, 1, PAGE_SIZE);
	f.block_size = 1024;
	ASSERT_EQ(t, write_at(&f, 0, 0, "new", 3, 0), 0);
	EXPECT_EQ(t, f.disks[0].promised, 0);
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 100, 0), 0);
	EXPECT_EQ(t, f.disks[0].promised, 4);
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, PAGE_SIZE, 0), 0);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	EXPECT_EQ(t, memcmp(f.disks[0].bytes, "new", 3), 0);
	/* Without room storage gets the page at once. */
	f.room_known = true;
	f.room = 0;
	ASSERT_EQ(t, write_at(&f, 0, 0, "old", 3, 0), 0);
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 100, 0), 0);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 0);
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, PAGE_SIZE, 0), 0);
	EXPECT_EQ(t, write_at(&f, 0, 100, text, 2000, 0), -ENOSPC);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	EXPECT_EQ(t, memcmp(f.disks[0].bytes, "old", 3), 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* --- storage that is started again ------------------------------------------------------- */

/* It dies between the claim and the promises, or there is no memory for these. */
static void a_claim_that_was_given_is_kept(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	ASSERT_EQ(t, write_byte(&f, 1, 0, 0), 0);
	fake_storage_again(&f);
	f.again_opcode = MS_RESERVE;
	EXPECT_EQ(t, file_declare(&f.mem[0], FAKE_STORAGE, f.storage_life), -ESTALE);
	EXPECT_EQ(t, f.storage_life, 2);
	EXPECT_EQ(t, f.disks[0].promised, 16);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 1);
	fake_storage_again(&f);
	f.fail_opcode = MS_RESERVE;
	f.fail_error = -ENOMEM;
	f.fail_once = true;
	EXPECT_EQ(t, file_declare(&f.mem[0], FAKE_STORAGE, f.storage_life), -ENOMEM);
	f.declared = f.storage_life; /* the grace period ends */
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_EQ(t, f.disks[0].bytes[0], 'x');
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Nothing is dropped before storage has refused the claim. */
static void a_change_without_memory_loses_nothing(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	ASSERT_EQ(t, write_byte(&f, 1, 0, 0), 0);
	ASSERT_EQ(t, write_byte(&f, 1, 1, 0), 0);
	fake_storage_again(&f);
	f.fail_opcode = MS_CLAIM;
	f.fail_error = -ENOMEM;
	f.fail_once = true;
	EXPECT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, PAGE_SIZE, 0), -ENOMEM);
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 1);
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, PAGE_SIZE, 0), 0);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_EQ(t, state.size, PAGE_SIZE);
	EXPECT_EQ(t, f.disks[0].bytes[0], 'x');
	EXPECT_TRUE(t, fake_stop(&f));
}

static void truncate_thread(void *arg)
{
	struct syncer *s = arg;

	s->ret = change(s->f, PROTO_FILE_TRUNCATE, 0, 0);
}

static void declare_thread(void *arg)
{
	struct syncer *s = arg;

	s->ret = file_declare(&s->f->mem[0], FAKE_STORAGE, s->f->storage_life);
}

static bool has_declared(struct fake *f)
{
	bool has;

	mutex_lock(&f->disk_lock);
	has = f->declared == f->storage_life;
	mutex_unlock(&f->disk_lock);
	return has;
}

/* A file that is claimed again may be waiting for the declaration that comes now. */
static void a_declaration_waits_for_no_file_in_use(struct ktest *t)
{
	struct syncer change_it, declare;
	struct thread *changer, *declarer;
	struct fake f;

	start(&f, 1, 0);
	ASSERT_EQ(t, write_byte(&f, 1, 0, 0), 0);
	fake_storage_again(&f);
	ASSERT_EQ(t, sync_file(&f), 0);
	f.hold_opcode = MS_CHANGE;
	change_it = declare = (struct syncer){ &f, 1 };
	changer = thread_create("change", truncate_thread, &change_it);
	ASSERT_FALSE(t, IS_ERR(changer));
	ASSERT_TRUE(t, fake_wait_held(&f));
	declarer = thread_create("declare", declare_thread, &declare);
	ASSERT_FALSE(t, IS_ERR(declarer));
	for (int i = 0; i < 3000 && !has_declared(&f); i++)
		thread_sleep_ns(1000 * 1000);
	EXPECT_TRUE(t, has_declared(&f));
	__atomic_store_n(&f.release, true, __ATOMIC_RELEASE);
	thread_join(changer);
	thread_join(declarer);
	EXPECT_EQ(t, change_it.ret, 0);
	EXPECT_EQ(t, declare.ret, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void write_thread(void *arg)
{
	struct syncer *s = arg;

	s->ret = write_at(s->f, 0, 50, text, 3 * PAGE_SIZE, 0);
}

/* A writer has asked for pages, and waits for the first one's bytes when storage dies. */
static void promises_of_a_write_under_way(struct ktest *t)
{
	struct thread *th;
	struct syncer s;
	struct fake f;

	start(&f, 1, 100);
	f.read_async = true;
	f.read_held = true;
	s = (struct syncer){ &f, 1 };
	th = thread_create("write", write_thread, &s);
	ASSERT_FALSE(t, IS_ERR(th));
	while (!__atomic_load_n(&f.nr_reads, __ATOMIC_ACQUIRE))
		thread_sleep_ns(1000 * 1000);
	fake_storage_again(&f);
	EXPECT_EQ(t, file_declare(&f.mem[0], FAKE_STORAGE, f.storage_life), 0);
	EXPECT_EQ(t, f.disks[0].promised, 3);
	__atomic_store_n(&f.read_held, false, __ATOMIC_RELEASE);
	thread_join(th);
	EXPECT_EQ(t, s.ret, 0);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Storage has lost changes that it had answered, and with them the blocks of pages. */
static void blocks_that_are_lost_are_asked_for(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 4 * PAGE_SIZE);
	ASSERT_EQ(t, write_byte(&f, 1, 0, PM_FILE_SYNC), 0);
	fake_storage_again(&f);
	f.files[0].version--;
	memset(f.disks[0].blocks, 0, 4);
	EXPECT_EQ(t, file_declare(&f.mem[0], FAKE_STORAGE, f.storage_life), 0);
	ASSERT_EQ(t, write_byte(&f, 1, 2, PM_FILE_SYNC), 0);
	EXPECT_EQ(t, state.errors, 1);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	/* The same when a flush finds it out. */
	ASSERT_EQ(t, write_byte(&f, 1, 2, 0), 0);
	fake_storage_again(&f);
	f.files[0].version--;
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 2);
	EXPECT_EQ(t, f.disks[0].bytes[2 * PAGE_SIZE], 'x');
	EXPECT_TRUE(t, reads(&f, 2 * PAGE_SIZE, "x", 1));
	EXPECT_TRUE(t, fake_stop(&f));
}

/* --- refusals ---------------------------------------------------------------------------- */

/* Storage refuses a page that has newer bytes by now: these keep their promise. */
static void newer_bytes_keep_their_promise(struct ktest *t)
{
	struct thread *th;
	struct syncer s;
	struct fake f;

	start(&f, 1, 0);
	ASSERT_EQ(t, write_byte(&f, 1, 0, 0), 0);
	f.hold_opcode = MS_WRITE;
	s = (struct syncer){ &f, 1 };
	th = thread_create("sync", sync_thread, &s);
	ASSERT_FALSE(t, IS_ERR(th));
	ASSERT_TRUE(t, fake_wait_held(&f));
	ASSERT_EQ(t, write_byte(&f, 1, 0, 0), 0);
	f.disks[0].error = -EIO;
	__atomic_store_n(&f.release, true, __ATOMIC_RELEASE);
	thread_join(th);
	f.disks[0].error = 0;
	EXPECT_EQ(t, f.mem[0].page_cache.nr_dirty, 1);
	file_reserve_give_all(&f.mem[0], FAKE_STORAGE);
	EXPECT_EQ(t, f.disks[0].promised, 1);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 1);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* fallocate(2) finds the room that others were promised and do not need, and no more. */
static void an_allocation_takes_idle_promises(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	f.files[1] = (struct fake_file){ .version = 1 };
	f.room_known = true;
	f.room = 20;
	ASSERT_EQ(t, write_byte(&f, 2, 0, 0), 0);
	EXPECT_EQ(t, f.disks[1].promised, 16);
	EXPECT_EQ(t, change(&f, PROTO_FILE_ALLOCATE_KEEP, 0, 10 * PAGE_SIZE), 0);
	EXPECT_EQ(t, f.room, 9);
	EXPECT_EQ(t, change(&f, PROTO_FILE_ALLOCATE_KEEP, 0, 20 * PAGE_SIZE), -ENOSPC);
	EXPECT_EQ(t, write_byte(&f, 1, 0, PM_FILE_SYNC), 0);
	EXPECT_EQ(t, f.disks[0].unpromised + f.disks[1].unpromised, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Stores into a mapping: the processor has them to itself for some time, and room all the while. */
static void mapped_pages_keep_their_room(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	f.room_known = true;
	f.room = 20;
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 30 * PAGE_SIZE, 0), 0);
	ASSERT_EQ(t, change(&f, PROTO_FILE_ROOM, 3 * PAGE_SIZE, 4 * PAGE_SIZE), 0);
	EXPECT_EQ(t, state.pos, 7 * PAGE_SIZE);
	EXPECT_EQ(t, state.before, state.version); /* nothing has changed */
	EXPECT_EQ(t, f.disks[0].promised, 4);
	/* Room that is idle comes back, but not this, and not for want of room either. */
	shim_time_advance_ns(10 * NSEC_PER_SEC);
	EXPECT_TRUE(t, file_reserve_give_idle(&f.mem[0]));
	EXPECT_EQ(t, f.disks[0].promised, 4);
	file_reserve_give_all(&f.mem[0], FAKE_STORAGE);
	EXPECT_EQ(t, f.disks[0].promised, 4);
	EXPECT_EQ(t, change(&f, PROTO_FILE_ROOM, 8 * PAGE_SIZE, 17 * PAGE_SIZE), -ENOSPC);
	EXPECT_EQ(t, change(&f, PROTO_FILE_ROOM, 8 * PAGE_SIZE, 16 * PAGE_SIZE), 0);
	EXPECT_EQ(t, write_byte(&f, 1, 29, 0), -ENOSPC);
	/* The bytes come, and all find their blocks; the answer goes up to the last block then. */
	for (uint64_t i = 3; i < 24; i++) {
		if (i != 7)
			ASSERT_EQ(t, write_byte(&f, 1, i, 0), 0);
	}
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	EXPECT_EQ(t, state.errors, 0);
	ASSERT_EQ(t, change(&f, PROTO_FILE_ROOM, 9 * PAGE_SIZE, 1), 0);
	EXPECT_EQ(t, state.pos, 24 * PAGE_SIZE);
	/* Behind the end there is nothing to be had; and in the end a promise is too old. */
	ASSERT_EQ(t, change(&f, PROTO_FILE_ROOM, 30 * PAGE_SIZE, PAGE_SIZE), 0);
	EXPECT_EQ(t, state.pos, 30 * PAGE_SIZE);
	f.room = 1;
	ASSERT_EQ(t, change(&f, PROTO_FILE_ROOM, 0, PAGE_SIZE), 0);
	EXPECT_EQ(t, f.disks[0].promised, 1);
	shim_time_advance_ns(70 * NSEC_PER_SEC);
	EXPECT_TRUE(t, file_reserve_give_idle(&f.mem[0]));
	EXPECT_EQ(t, f.disks[0].promised, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Room for writes that a processor keeps to itself, from page @first on: the answer's end. */
static int room_ahead(struct fake *f, uint64_t first, uint64_t nr, uint64_t *end)
{
	const struct pm_file_change_req req = { .file = fake_sealed(file1, PROTO_VNODE_ROOT),
						.op = PROTO_FILE_ROOM,
						.flags = PM_FILE_AHEAD,
						.off = first * PAGE_SIZE,
						.len = nr * PAGE_SIZE };
	struct pm_file_change_req_wire rw;
	struct pm_file_state_wire w;
	int ret;

	pm_file_change_req_encode(&req, &rw);
	ret = memory_serve(&f->mem[0], FAKE_PROC, PM_FILE_CHANGE, &rw, sizeof(rw), NULL, 0, &w,
			   sizeof(w), NULL);
	ret = ret < 0 ? ret : pm_file_state_decode(&w, (size_t)ret, &state);
	*end = state.pos / PAGE_SIZE;
	return ret;
}

/* Writes that a processor keeps to itself: their room stays theirs until it says that all came. */
static void writes_behind_the_end_have_room_ahead(struct ktest *t)
{
	struct fake f;
	uint64_t end;

	start(&f, 1, 0);
	f.files[1] = (struct fake_file){ .version = 1 };
	f.room_known = true;
	f.room = 100;
	ASSERT_EQ(t, room_ahead(&f, 0, 256, &end), 0);
	EXPECT_EQ(t, end, 16);
	EXPECT_EQ(t, state.size, 0);
	EXPECT_EQ(t, state.before, state.version); /* nothing has changed */
	EXPECT_EQ(t, f.disks[0].promised, 16);
	ASSERT_EQ(t, room_ahead(&f, 16, 256, &end), 0);
	EXPECT_EQ(t, end, 48); /* in order: twice as many */
	/* No more than was asked for, though there is more. */
	ASSERT_EQ(t, room_ahead(&f, 2, 4, &end), 0);
	EXPECT_EQ(t, end, 6);
	/* Another file takes the rest, and this room does not go for that. */
	shim_time_advance_ns(10 * NSEC_PER_SEC);
	EXPECT_TRUE(t, file_reserve_give_idle(&f.mem[0]));
	EXPECT_EQ(t, f.disks[0].promised, 48);
	for (uint64_t i = 0; i < 52; i++)
		ASSERT_EQ(t, write_byte(&f, 2, i, 0), 0);
	EXPECT_EQ(t, write_byte(&f, 2, 52, 0), -ENOSPC);
	EXPECT_EQ(t, room_ahead(&f, 48, 256, &end), -ENOSPC);
	/* The bytes come, and find it. */
	ASSERT_EQ(t, write_at(&f, 0, 0, text, sizeof(text), 0), 0);
	for (uint64_t i = 4; i < 40; i++)
		ASSERT_EQ(t, write_byte(&f, 1, i, 0), 0);
	EXPECT_EQ(t, write_byte(&f, 2, 52, 0), -ENOSPC);
	ASSERT_EQ(t, write_byte(&f, 1, 40, PM_FILE_LAST), 0);
	/* Those were all: another file may have what is left. */
	EXPECT_EQ(t, write_byte(&f, 2, 52, 0), 0);
	ASSERT_EQ(t, file_flush_all(&f.mem[0], 0), 0);
	EXPECT_EQ(t, f.disks[0].unpromised + f.disks[1].unpromised, 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* A processor that dies has its room for a minute, and a file ends somewhere. */
static void room_ahead_ends(struct ktest *t)
{
	struct fake f;
	uint64_t end;

	start(&f, 1, 0);
	f.disks[0].max_size = 20 * PAGE_SIZE + 100;
	f.room_known = true;
	f.room = 100;
	ASSERT_EQ(t, room_ahead(&f, 0, 256, &end), 0);
	EXPECT_EQ(t, f.disks[0].promised, 16);
	/* Nor is there any behind a smaller end. */
	ASSERT_EQ(t, write_byte(&f, 1, 8, 0), 0);
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 2 * PAGE_SIZE, 0), 0);
	file_reserve_give_all(&f.mem[0], FAKE_STORAGE);
	EXPECT_LE(t, f.disks[0].promised, 2);
	ASSERT_EQ(t, write_byte(&f, 1, 2, 0), 0);
	EXPECT_GT(t, f.disks[0].promised, 3);
	file_reserve_give_all(&f.mem[0], FAKE_STORAGE);
	EXPECT_LE(t, f.disks[0].promised, 3);
	ASSERT_EQ(t, sync_file(&f), 0);
	ASSERT_EQ(t, room_ahead(&f, 2, 256, &end), 0);
	EXPECT_GT(t, end, 2);
	shim_time_advance_ns(70 * NSEC_PER_SEC);
	EXPECT_TRUE(t, file_reserve_give_idle(&f.mem[0]));
	EXPECT_EQ(t, f.disks[0].promised, 0);
	EXPECT_EQ(t, room_ahead(&f, 20, 1, &end), -EFBIG);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Another processor's fallocate(2) leaves the room of stores alone, and so does its failure. */
static void changes_leave_the_room_of_mapped_pages(struct ktest *t)
{
	struct fake f;

	start(&f, 1, 0);
	f.room_known = true;
	f.room = 10;
	ASSERT_EQ(t, change(&f, PROTO_FILE_TRUNCATE, 30 * PAGE_SIZE, 0), 0);
	ASSERT_EQ(t, change(&f, PROTO_FILE_ROOM, 3 * PAGE_SIZE, 4 * PAGE_SIZE), 0);
	EXPECT_EQ(t, f.disks[0].promised, 4);
	/* Nor does the claim go meanwhile. */
	f.mem[0].page_cache.claims_max = 0;
	ASSERT_EQ(t, file_flush_all(&f.mem[0], 0), 0);
	EXPECT_FALSE(t, file_release_unused(&f.mem[0]));
	EXPECT_EQ(t, f.disks[0].promised, 4);
	/* Pages 5 and 6 get the blocks that they were promised; 3 and 4 keep theirs. */
	EXPECT_EQ(t, change(&f, PROTO_FILE_ALLOCATE_KEEP, 5 * PAGE_SIZE, 9 * PAGE_SIZE), -ENOSPC);
	EXPECT_EQ(t, f.disks[0].promised, 4);
	EXPECT_EQ(t, change(&f, PROTO_FILE_ALLOCATE_KEEP, 5 * PAGE_SIZE, 8 * PAGE_SIZE), 0);
	EXPECT_EQ(t, f.room, 2);
	EXPECT_EQ(t, f.disks[0].promised, 2);
	/* A hole takes no room away, wherever it is. */
	EXPECT_EQ(t, change(&f, PROTO_FILE_PUNCH, 0, 4 * PAGE_SIZE), 0);
	file_reserve_give_all(&f.mem[0], FAKE_STORAGE);
	EXPECT_EQ(t, f.disks[0].promised, 2);
	EXPECT_EQ(t, write_byte(&f, 1, 20, 0), -ENOSPC);
	for (uint64_t i = 3; i < 7; i++)
		ASSERT_EQ(t, write_byte(&f, 1, i, 0), 0);
	ASSERT_EQ(t, sync_file(&f), 0);
	EXPECT_EQ(t, state.errors, 0);
	EXPECT_EQ(t, f.disks[0].unpromised, 0);
	EXPECT_EQ(t, f.room, 0);
	shim_time_advance_ns(70 * NSEC_PER_SEC);
	EXPECT_TRUE(t, file_release_unused(&f.mem[0]));
	EXPECT_TRUE(t, fake_stop(&f));
}

static const struct ktest_case cases[] = {
	KTEST(a_full_disk_is_told_at_once),
	KTEST(writers_in_order_ask_ahead),
	KTEST(promises_go_with_the_claim),
	KTEST(a_part_of_a_page_is_no_page),
	KTEST(a_page_that_is_cut_keeps_room),
	KTEST(a_claim_that_was_given_is_kept),
	KTEST(a_change_without_memory_loses_nothing),
	KTEST(a_declaration_waits_for_no_file_in_use),
	KTEST(promises_of_a_write_under_way),
	KTEST(blocks_that_are_lost_are_asked_for),
	KTEST(newer_bytes_keep_their_promise),
	KTEST(an_allocation_takes_idle_promises),
	KTEST(mapped_pages_keep_their_room),
	KTEST(writes_behind_the_end_have_room_ahead),
	KTEST(room_ahead_ends),
	KTEST(changes_leave_the_room_of_mapped_pages),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.room", .cases = cases };
KTEST_SUITE(suite);
