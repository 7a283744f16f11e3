/* SPDX-License-Identifier: MIT */
/*
 * Leased mappings of files beside what else a space has: mappings of other kinds, locks, pages that
 * owners store, threads that touch what moves.
 */
#include <stdlib.h>

#include <abi/mman.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/excache/excache.h>
#include <processor/mm/aspace.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <proto/pm.h>

#include "../../monitors/processor/mm/lease.h"
#include "../../monitors/processor/mm/remote.h"
#include "fake_map.h"
#include "fake_owner.h"
#include "user_word.h"

#define RW         (PROT_READ | PROT_WRITE)
#define ANON       (MAP_PRIVATE | MAP_ANONYMOUS)
#define BYTES(n)   ((uint64_t)(n) * PAGE_SIZE)
#define FILE_PAGES 4000u

extern unsigned int fake_kills;

static struct process process;
static struct task task = { .process = &process };

static struct aspace *start(struct object **file)
{
	static uint64_t next_ino = 5000;
	const struct file_attr attr = { .file = { .ino = next_ino++, .node = 9 },
					.version = 1,
					.size = FILE_PAGES * PAGE_SIZE };
	struct aspace *as;

	fake_cache();
	fake_reset();
	fake_map_on(true);
	fake_kills = 0;
	as = aspace_create(object_id(1, object_new_number()), 1);
	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	process.as = as;
	thread_current()->private = &task;
	fake_file(FILE_PAGES, UINT64_MAX);
	*file = object_file_get(&attr);
	if (IS_ERR(*file))
		abort();
	return as;
}

static void stop(struct ktest *t, struct aspace *as, struct object *file)
{
	excache_drop(file, 0, UINT64_MAX);
	object_put(file);
	aspace_put(as);
	(void)aspace_drain();
	fake_quiesce();
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
}

static long map(uint64_t addr, uint64_t pages, uint32_t prot, uint32_t flags)
{
	return sys_mmap(&(struct syscall_args){
		.a = { addr, BYTES(pages), prot, ANON | flags, (uint64_t)-1, 0 } });
}

static long map_file(struct aspace *as, struct object *obj, uint64_t pgoff, uint64_t addr,
		     uint64_t pages, uint32_t prot, uint32_t flags)
{
	struct map_request req = { .addr = addr,
				   .len = BYTES(pages),
				   .object = obj,
				   .pgoff = pgoff,
				   .prot = prot,
				   .flags = flags };

	return aspace_map(as, &req);
}

static long unmap(uint64_t addr, uint64_t pages)
{
	return sys_munmap(&(struct syscall_args){ .a = { addr, BYTES(pages) } });
}

/* A leased mapping of @file from @pgoff on; behind it four pages are neither mapped nor leased. */
static uint64_t map_below_nothing(struct ktest *t, struct aspace *as, struct object *file,
				  uint64_t pgoff, uint64_t pages)
{
	const long above = map(0, 64, PROT_READ, 0);
	const long at = map_file(as, file, pgoff, 0, pages, RW, 0);

	EXPECT_EQ(t, at + (long)BYTES(pages), above);
	EXPECT_EQ(t, unmap((uint64_t)above, 4), 0);
	return (uint64_t)at;
}

static long move(uint64_t addr, uint64_t pages, uint64_t to_pages, uint32_t flags, uint64_t to)
{
	return sys_mremap(
		&(struct syscall_args){ .a = { addr, BYTES(pages), BYTES(to_pages), flags, to } });
}

static long put(struct aspace *as, uint64_t addr, uint64_t word)
{
	return user_word(as, addr, 0, &word, true);
}

/* The word at @addr, or the negative errno of the access. */
static int64_t get(struct aspace *as, uint64_t addr)
{
	uint64_t word;
	const int err = user_word(as, addr, 0, &word, false);

	return err ? err : (int64_t)word;
}

/* The first word of page @pgoff of each file. */
static int64_t file_word(uint64_t pgoff)
{
	return (int64_t)BYTES(pgoff);
}

/* --- neighbours ---------------------------------------------------------------------- */

/* It continues the file, but shows the file itself: the two do not move as one. */
static void a_shared_neighbour_is_another_mapping(struct ktest *t)
{
	struct object *file;
	struct aspace *as = start(&file);
	const uint64_t at = (uint64_t)map_file(as, file, 0, 0, 20, PROT_READ, 0);

	EXPECT_EQ(t,
		  map_file(as, file, 10, at + BYTES(10), 10, PROT_READ,
			   MAPPING_FIXED | MAPPING_SHARED),
		  (long)(at + BYTES(10)));
	EXPECT_EQ(t, move(at, 20, 30, MREMAP_MAYMOVE, 0), -EFAULT);
	EXPECT_EQ(t, get(as, at), file_word(0));
	EXPECT_EQ(t, get(as, at + BYTES(19)), file_word(19));
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as, file);
}

/* One that is not leased continues it, and this node has forgotten that. */
static void a_neighbour_that_only_the_home_knows(struct ktest *t)
{
	struct object *file;
	struct aspace *as = start(&file);
	const uint64_t at = map_below_nothing(t, as, file, 5, 20);
	const uint64_t end = at + BYTES(20);
	long to;

	fake_map_leases(false);
	EXPECT_EQ(t, map_file(as, file, 25, end, 4, RW, MAPPING_FIXED), (long)end);
	EXPECT_EQ(t, put(as, end + BYTES(1), 7), 0);
	aspace_clear_vmas(as, end, end + BYTES(4));
	to = move(at, 24, 30, MREMAP_MAYMOVE, 0);
	ASSERT_TRUE(t, to > 0 && (uint64_t)to != at);
	for (uint64_t i = 0; i < 30; i++)
		EXPECT_EQ(t, get(as, (uint64_t)to + BYTES(i)), i == 21 ? 7 : file_word(5 + i));
	EXPECT_EQ(t, get(as, at), -EFAULT);
	EXPECT_EQ(t, get(as, end), -EFAULT);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as, file);
}

/* --- locks --------------------------------------------------------------------------- */

/* Each page is counted once, wherever it goes: as on Linux, it is as locked as it was. */
static void locks_move_with_a_leased_file(struct ktest *t)
{
	struct object *file;
	struct aspace *as = start(&file);
	const uint64_t early = (uint64_t)map_file(as, file, 0, 0, 8, RW, 0);
	uint64_t at, place;
	long to;

	place = (uint64_t)map(0, 40, RW, 0);
	as->locked.future = true; /* as mlockall(MCL_FUTURE) */
	at = (uint64_t)map_file(as, file, 0, 0, 20, RW, 0);
	EXPECT_EQ(t, as->locked.nr_pages, 20u);
	to = move(at, 20, 20, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	EXPECT_EQ(t, to, (long)place);
	EXPECT_EQ(t, as->locked.nr_pages, 20u);
	to = move(place, 20, 25, MREMAP_MAYMOVE, 0);
	ASSERT_TRUE(t, to > 0);
	EXPECT_EQ(t, as->locked.nr_pages, 25u);
	to = move((uint64_t)to, 25, 10, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	EXPECT_EQ(t, to, (long)place);
	EXPECT_EQ(t, as->locked.nr_pages, 10u);
	EXPECT_EQ(t, unmap(place, 10), 0);
	EXPECT_EQ(t, as->locked.nr_pages, 0u);
	/* This one was there before, and its pages are not new. */
	to = move(early, 8, 12, MREMAP_MAYMOVE, 0);
	ASSERT_TRUE(t, to > 0);
	EXPECT_EQ(t, as->locked.nr_pages, 0u);
	to = move((uint64_t)to, 12, 14, MREMAP_MAYMOVE | MREMAP_FIXED, place + BYTES(26));
	EXPECT_EQ(t, to, (long)(place + BYTES(26)));
	EXPECT_EQ(t, as->locked.nr_pages, 0u);
	stop(t, as, file);
}

/* Growth is checked against the limit, a move is not. */
static void a_locked_file_moves_at_its_limit(struct ktest *t)
{
	struct object *file;
	struct aspace *as = start(&file);
	const uint64_t place = (uint64_t)map(0, 40, RW, 0);
	uint64_t at;
	long to;

	user_memlock = BYTES(25);
	as->locked.future = true; /* as mlockall(MCL_FUTURE) */
	at = (uint64_t)map_file(as, file, 0, 0, 20, RW, 0);
	EXPECT_EQ(t, map_file(as, file, 0, 0, 6, RW, 0), -EAGAIN);
	EXPECT_EQ(t, move(at, 20, 20, MREMAP_MAYMOVE | MREMAP_FIXED, place), (long)place);
	EXPECT_EQ(t, move(place, 20, 26, MREMAP_MAYMOVE, 0), -EAGAIN);
	EXPECT_EQ(t, get(as, place + BYTES(19)), file_word(19));
	to = move(place, 20, 25, MREMAP_MAYMOVE, 0);
	EXPECT_TRUE(t, to > 0);
	EXPECT_EQ(t, as->locked.nr_pages, 25u);
	EXPECT_EQ(t, get(as, (uint64_t)to + BYTES(24)), file_word(24));
	user_memlock = UINT64_MAX;
	stop(t, as, file);
}

/* --- pages at owners -------------------------------------------------------------------- */

/* Pages of [addr, +pages) that owners have. */
static unsigned int stored(struct aspace *as, uint64_t addr, uint64_t pages)
{
	unsigned int nr = 0;
	uint64_t word;

	for (uint64_t i = 0; i < pages; i++)
		nr += fake_stored(as->anon->id, addr + BYTES(i), &word);
	return nr;
}

static uint64_t map_and_store(struct ktest *t, struct aspace *as, uint64_t pages)
{
	const uint64_t at = (uint64_t)map(0, pages, RW, 0), first = at >> PAGE_SHIFT;

	for (uint64_t i = 0; i < pages; i++)
		EXPECT_EQ(t, put(as, at + BYTES(i), 1000 + i), 0);
	EXPECT_EQ(t, excache_flush(as->anon, first, first + pages), 0);
	EXPECT_EQ(t, stored(as, at, pages), pages);
	return at;
}

/* A page of a file is written back seldom, if ever: owners do not keep what was there before. */
static void owners_drop_what_a_file_is_mapped_over(struct ktest *t)
{
	struct object *file;
	struct aspace *as = start(&file);
	const uint64_t at = map_and_store(t, as, 60);
	struct fake_counts c;

	EXPECT_EQ(t, map_file(as, file, 0, at + BYTES(10), 20, PROT_READ, MAPPING_FIXED),
		  (long)(at + BYTES(10)));
	EXPECT_EQ(t, stored(as, at + BYTES(10), 20), 0u);
	EXPECT_EQ(t, stored(as, at, 60), 40u);
	EXPECT_EQ(t, as->lease->stale, 0u);
	fake_counts(&c);
	EXPECT_EQ(t, c.discards, 1u);
	/* No owner is asked where nothing is stored, nor for memory, which is written again. */
	EXPECT_EQ(t, map_file(as, file, 9, at + BYTES(12), 4, RW, MAPPING_FIXED),
		  (long)(at + BYTES(12)));
	EXPECT_EQ(t, map(at + BYTES(40), 5, RW, MAP_FIXED), (long)(at + BYTES(40)));
	fake_counts(&c);
	EXPECT_EQ(t, c.discards, 1u);
	EXPECT_EQ(t, as->lease->stale, 5u);
	for (uint64_t i = 0; i < 60; i++)
		EXPECT_EQ(t, get(as, at + BYTES(i)),
			  i < 10 || i >= 45 || (i >= 30 && i < 40) ? 1000 + (int64_t)i
			  : i >= 40                                ? 0
			  : i >= 12 && i < 16                      ? file_word(i - 3)
								   : file_word(i - 10));
	EXPECT_EQ(t, fake_map_calls, 1u);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as, file);
}

/* Without memory they keep it; if it is open what they have done, the program ends. */
static void owners_may_fail_to_drop_it(struct ktest *t)
{
	for (int n = 0; n < 2; n++) {
		struct object *file;
		struct aspace *as = start(&file);
		const uint64_t at = map_and_store(t, as, 20);

		fake_fail(PM_DISCARD, n ? -EHOSTDOWN : -ENOMEM);
		EXPECT_EQ(t, map_file(as, file, 3, at, 5, PROT_READ, MAPPING_FIXED),
			  n ? -EHOSTDOWN : (long)at);
		EXPECT_EQ(t, fake_kills, (unsigned int)n);
		if (!n) {
			EXPECT_EQ(t, get(as, at + BYTES(4)), file_word(7));
			EXPECT_EQ(t, get(as, at + BYTES(5)), 1005);
			EXPECT_EQ(t, as->lease->stale, 5u);
		}
		stop(t, as, file);
	}
}

/* --- threads that touch what moves ------------------------------------------------------ */

/* Which faults waited when the home was asked for @opcode, the last time. */
struct asked {
	struct aspace *as;
	uint16_t opcode;
	unsigned int times;
	uint64_t addr[3];
	bool blocked[3];
};

static bool is_blocked(struct aspace *as, uint64_t addr)
{
	struct layout_seq seq;
	struct vma v;
	const int err = aspace_fault_begin(as, addr, &v, &seq);

	if (err == -EAGAIN)
		return true;
	if (!err)
		vma_release(&v);
	aspace_fault_end(as);
	return false;
}

static void look(uint16_t opcode, void *arg)
{
	struct asked *a = arg;

	if (opcode != a->opcode)
		return;
	a->times++;
	for (int i = 0; i < 3; i++)
		a->blocked[i] = is_blocked(a->as, a->addr[i]);
}

/*
 * The pages are copied before the old place goes, and a store into it meanwhile would be lost. Here
 * the home is asked in between, as there is no room for one gap more.
 */
static void no_store_comes_between_copy_and_unmap(struct ktest *t)
{
	struct object *file;
	struct aspace *as = start(&file);
	const uint64_t at = (uint64_t)map(0, 200, RW, 0);
	const uint64_t old = at + BYTES(150), to = at + BYTES(1);
	struct asked a = { as, PM_LEASE, 0, { old, to, at + BYTES(190) }, { false } };

	EXPECT_EQ(t, map_file(as, file, 9, old, 1, RW, MAPPING_FIXED), (long)old);
	for (uint64_t i = 0; i < 63; i++)
		EXPECT_EQ(t, unmap(at + BYTES(2 * i), 1), 0);
	EXPECT_EQ(t, put(as, old, 77), 0);
	fake_before_call(look, &a);
	EXPECT_EQ(t, move(old, 1, 1, MREMAP_MAYMOVE | MREMAP_FIXED, to), (long)to);
	fake_before_call(NULL, NULL);
	EXPECT_EQ(t, a.times, 1u);
	EXPECT_TRUE(t, a.blocked[0]);
	EXPECT_TRUE(t, a.blocked[1]);
	EXPECT_FALSE(t, a.blocked[2]);
	EXPECT_EQ(t, get(as, to), 77);
	EXPECT_EQ(t, get(as, old), -EFAULT);
	EXPECT_FALSE(t, is_blocked(as, to));
	EXPECT_FALSE(t, is_blocked(as, old));
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as, file);
}

/* Nor is the new place touched before it has the pages, known or not. */
static void no_touch_comes_before_the_copy(struct ktest *t)
{
	struct object *file;
	struct aspace *as = start(&file);
	const uint64_t place = (uint64_t)map(0, 40, PROT_NONE, MAP_NORESERVE);
	const uint64_t at = (uint64_t)map_file(as, file, 5, 0, 20, RW, 0);
	struct asked a = { as, PM_MMAP, 0, { at, place, FAKE_MAP_START }, { false } };
	long to;

	EXPECT_EQ(t, put(as, at + BYTES(3), 77), 0);
	fake_before_call(look, &a);
	EXPECT_EQ(t, move(at, 20, 20, MREMAP_MAYMOVE | MREMAP_FIXED, place), (long)place);
	EXPECT_EQ(t, a.times, 1u);
	EXPECT_TRUE(t, a.blocked[0]);
	EXPECT_TRUE(t, a.blocked[1]);
	EXPECT_FALSE(t, a.blocked[2]);
	EXPECT_EQ(t, get(as, place + BYTES(3)), 77);
	/* To where there is room: that is not known until the home has answered. */
	a.addr[0] = (uint64_t)map_file(as, file, 5, 0, 20, RW, 0);
	EXPECT_EQ(t, put(as, a.addr[0] + BYTES(3), 77), 0);
	a.times = 0;
	to = move(a.addr[0], 20, 900, MREMAP_MAYMOVE, 0);
	fake_before_call(NULL, NULL);
	ASSERT_TRUE(t, to > 0);
	EXPECT_GE(t, a.times, 2u); /* before that it was to grow where it is */
	EXPECT_TRUE(t, a.blocked[0]);
	EXPECT_TRUE(t, a.blocked[2]);
	EXPECT_EQ(t, get(as, (uint64_t)to + BYTES(3)), 77);
	EXPECT_EQ(t, get(as, (uint64_t)to + BYTES(899)), file_word(904));
	EXPECT_FALSE(t, is_blocked(as, FAKE_MAP_START));
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as, file);
}

static const struct ktest_case cases[] = {
	KTEST(a_shared_neighbour_is_another_mapping),
	KTEST(a_neighbour_that_only_the_home_knows),
	KTEST(locks_move_with_a_leased_file),
	KTEST(a_locked_file_moves_at_its_limit),
	KTEST(owners_drop_what_a_file_is_mapped_over),
	KTEST(owners_may_fail_to_drop_it),
	KTEST(no_store_comes_between_copy_and_unmap),
	KTEST(no_touch_comes_before_the_copy),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.lease_file", .cases = cases };
KTEST_SUITE(suite);
