/* SPDX-License-Identifier: MIT */
/*
 * Leases on the processor, over a home that keeps a map and owners that store mapped pages only:
 * what a program sees is what Linux shows, whatever is leased; and what it costs in messages.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <abi/mman.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <processor/excache/excache.h>
#include <processor/mm/aspace.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <proto/pm.h>
#include <shim/shim.h>

#include "../../monitors/processor/mm/lease.h"
#include "../../monitors/processor/mm/remote.h"
#include "fake_map.h"
#include "fake_owner.h"
#include "user_word.h"

#define RW       (PROT_READ | PROT_WRITE)
#define ANON     (MAP_PRIVATE | MAP_ANONYMOUS)
#define BYTES(n) ((uint64_t)(n) * PAGE_SIZE)

extern unsigned int fake_kills;

static struct process process;
static struct task task = { .process = &process };

static struct aspace *start(void)
{
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
	return as;
}

static void stop(struct ktest *t, struct aspace *as)
{
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

static long unmap(uint64_t addr, uint64_t pages)
{
	return sys_munmap(&(struct syscall_args){ .a = { addr, BYTES(pages) } });
}

static long protect(uint64_t addr, uint64_t pages, uint32_t prot)
{
	return sys_mprotect(&(struct syscall_args){ .a = { addr, BYTES(pages), prot } });
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

static void fill(struct ktest *t, struct aspace *as, uint64_t addr, uint64_t pages, uint64_t word)
{
	for (uint64_t i = 0; i < pages; i++)
		EXPECT_EQ(t, put(as, addr + BYTES(i), word + i), 0);
}

/* --- single calls -------------------------------------------------------------------- */

static void the_steady_state_sends_nothing(struct ktest *t)
{
	struct aspace *as = start();
	long at;

	for (unsigned int n = 0; n < 500; n++) {
		at = map(0, 16, RW, 0);
		ASSERT_TRUE(t, at > 0);
		EXPECT_EQ(t, get(as, (uint64_t)at + BYTES(n % 16)), 0);
		fill(t, as, (uint64_t)at, 16, n);
		EXPECT_EQ(t, protect((uint64_t)at + BYTES(3), 2, PROT_READ), 0);
		EXPECT_EQ(t, put(as, (uint64_t)at + BYTES(3), 1), -EACCES);
		EXPECT_EQ(t, get(as, (uint64_t)at + BYTES(3)), n + 3);
		EXPECT_EQ(t, unmap((uint64_t)at, 16), 0);
		EXPECT_EQ(t, get(as, (uint64_t)at), -EFAULT);
	}
	EXPECT_EQ(t, fake_map_calls, 1u);
	EXPECT_EQ(t, fake_map_batches, 0u);
	stop(t, as);
}

/* A large one has a place of its own, and keeps it. */
static void a_large_mapping_comes_back_where_it_was(struct ktest *t)
{
	struct aspace *as = start();
	const long at = map(0, 100, RW, 0);

	for (unsigned int n = 0; n < 20; n++) {
		EXPECT_EQ(t, unmap((uint64_t)at, 100), 0);
		EXPECT_EQ(t, map(0, 100, RW, 0), at);
	}
	EXPECT_EQ(t, fake_map_calls, 1u);
	EXPECT_EQ(t, unmap((uint64_t)at, 100), 0);
	/* Too large to be kept, as one mapping is. */
	EXPECT_TRUE(t, map(0, 4096, RW, 0) > 0);
	EXPECT_EQ(t, fake_map_count(as->anon->id, true), 100u);
	EXPECT_EQ(t, fake_map_count(as->anon->id, false), 4096u);
	stop(t, as);
}

/* As malloc's heaps of threads: reserved as a whole, then writable page by page. */
static void a_heap_grows_into_its_reservation(struct ktest *t)
{
	struct aspace *as = start();
	const long at = map(0, 2000, PROT_NONE, MAP_NORESERVE);
	const uint64_t heap = (uint64_t)at;

	ASSERT_TRUE(t, at > 0);
	EXPECT_EQ(t, protect(heap, 33, RW), 0);
	fill(t, as, heap, 33, 5000);
	EXPECT_EQ(t, put(as, heap + BYTES(33), 1), -EACCES);
	EXPECT_EQ(t, fake_map_calls, 2u);
	for (uint64_t n = 33; n < 256; n++) {
		EXPECT_EQ(t, protect(heap + BYTES(n), 1, RW), 0);
		EXPECT_EQ(t, put(as, heap + BYTES(n), 5000 + n), 0);
		EXPECT_EQ(t, put(as, heap + BYTES(n + 1), 1), -EACCES);
	}
	EXPECT_EQ(t, fake_map_calls, 2u);
	for (uint64_t n = 256; n < 1000; n++) /* a second piece, twice as large */
		EXPECT_EQ(t, protect(heap + BYTES(n), 1, RW), 0);
	EXPECT_LE(t, fake_map_calls, 4u);
	fill(t, as, heap + BYTES(256), 744, 5256);
	for (uint64_t n = 0; n < 1000; n++)
		EXPECT_EQ(t, get(as, heap + BYTES(n)), 5000 + n);
	EXPECT_EQ(t, protect(heap + BYTES(500), 500, PROT_NONE), 0);
	EXPECT_EQ(t, get(as, heap + BYTES(500)), -EACCES);
	EXPECT_EQ(t, protect(heap + BYTES(500), 500, RW), 0);
	EXPECT_EQ(t, get(as, heap + BYTES(999)), 5999);
	EXPECT_EQ(t, unmap(heap, 2000), 0);
	EXPECT_EQ(t, get(as, heap), -EFAULT);
	EXPECT_EQ(t, fake_map_count(as->anon->id, true), 0u);
	EXPECT_EQ(t, fake_map_count(as->anon->id, false), 0u);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as);
}

/* Owners have old pages of it, which are not read, and not kept for ever. */
static void a_page_that_comes_back_is_zero(struct ktest *t)
{
	struct aspace *as = start();
	struct fake_counts c;
	long at;

	for (unsigned int n = 0; n < 12; n++) {
		at = map(0, 400, RW, 0); /* more than the cache has lines */
		ASSERT_TRUE(t, at > 0);
		for (uint64_t i = 0; i < 400; i++)
			EXPECT_EQ(t, get(as, (uint64_t)at + BYTES(i)), 0);
		fill(t, as, (uint64_t)at, 400, 7);
		for (uint64_t i = 0; i < 400; i++)
			EXPECT_EQ(t, get(as, (uint64_t)at + BYTES(i)), 7 + i);
		EXPECT_EQ(t, unmap((uint64_t)at, 400), 0);
	}
	fake_counts(&c);
	EXPECT_EQ(t, fake_map_calls, 1u);
	EXPECT_GE(t, c.discards, 2u);
	EXPECT_LE(t, c.discards, 4u);
	EXPECT_LE(t, fake_pages(), 1500u);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as);
}

/* A program with many holes: batches give them back, many with one message. */
static void holes_go_back_in_batches(struct ktest *t)
{
	struct aspace *as = start();
	uint64_t at = (uint64_t)map(0, 1000, RW, 0);

	fake_map_calls = 0;
	for (uint64_t i = 0; i < 500; i++)
		EXPECT_EQ(t, unmap(at + BYTES(2 * i), 1), 0);
	EXPECT_GE(t, fake_map_batches, 6u);
	EXPECT_LE(t, fake_map_calls, 9u);
	for (uint64_t i = 0; i < 1000; i++)
		EXPECT_EQ(t, put(as, at + BYTES(i), i), i % 2 ? 0 : -EFAULT);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as);
}

/* --- borders ------------------------------------------------------------------------- */

static void calls_across_the_border_of_a_lease(struct ktest *t)
{
	struct aspace *as = start();
	const uint64_t at = (uint64_t)map(0, 100, RW, 0);
	const uint64_t below = at - BYTES(10);

	/* Beside it something that is not leased: it was read-only. */
	EXPECT_EQ(t, map(below, 10, PROT_READ, MAP_FIXED), (long)below);
	EXPECT_EQ(t, protect(below, 10, RW), 0);
	fill(t, as, below, 110, 1000);
	EXPECT_EQ(t, protect(at - BYTES(2), 4, PROT_READ), 0);
	EXPECT_EQ(t, put(as, at - BYTES(1), 1), -EACCES);
	EXPECT_EQ(t, put(as, at + BYTES(1), 1), -EACCES);
	EXPECT_EQ(t, put(as, at + BYTES(2), 1012), 0);
	EXPECT_EQ(t, protect(at - BYTES(2), 4, RW), 0);
	for (uint64_t i = 0; i < 110; i++)
		EXPECT_EQ(t, get(as, below + BYTES(i)), 1000 + i);
	EXPECT_EQ(t, unmap(at - BYTES(1), 2), 0);
	EXPECT_EQ(t, get(as, at - BYTES(1)), -EFAULT);
	EXPECT_EQ(t, get(as, at), -EFAULT);
	EXPECT_EQ(t, get(as, at + BYTES(1)), 1011);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as);
}

/* Many of them, upwards, with holes between them: two messages for each sixty or so. */
static void small_mappings_at_their_places(struct ktest *t)
{
	struct aspace *as = start();
	const uint64_t base = FAKE_MAP_START + BYTES(16);
	const unsigned int calls = fake_map_calls;
	uint64_t free_place;

	for (uint64_t i = 0; i < 300; i++)
		EXPECT_EQ(t,
			  map(base + BYTES(4 * i), 2, i % 3 ? PROT_NONE : RW, MAP_FIXED_NOREPLACE),
			  (long)(base + BYTES(4 * i)));
	EXPECT_LE(t, fake_map_calls, calls + 20);
	EXPECT_EQ(t, map(base + BYTES(3), 2, RW, MAP_FIXED_NOREPLACE), -EEXIST);
	/* The holes stay the program's: nothing that leaves the choice to us lands between them. */
	free_place = (uint64_t)map(0, 2, RW, 0);
	EXPECT_TRUE(t, free_place < base || free_place >= base + BYTES(4 * 300));
	EXPECT_EQ(t, unmap(free_place, 2), 0);
	for (uint64_t i = 0; i < 300; i++) {
		EXPECT_EQ(t, put(as, base + BYTES(4 * i + 1), i), i % 3 ? -EACCES : 0);
		EXPECT_EQ(t, get(as, base + BYTES(4 * i + 2)), -EFAULT);
	}
	EXPECT_EQ(t, protect(base + BYTES(4), 2, RW), 0);
	EXPECT_EQ(t, put(as, base + BYTES(5), 9), 0);
	EXPECT_EQ(t, get(as, base + BYTES(4)), 0);
	fake_map_calls = 0;
	for (uint64_t i = 0; i < 300; i++)
		EXPECT_EQ(t, unmap(base + BYTES(4 * i), 2), 0);
	EXPECT_LE(t, fake_map_calls, 10u);
	EXPECT_EQ(t, get(as, base + BYTES(5)), -EFAULT);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as);
}

static void places_that_are_asked_for(struct ktest *t)
{
	struct aspace *as = start();
	const uint64_t at = (uint64_t)map(0, 100, RW, 0);
	const unsigned int calls = fake_map_calls;

	fill(t, as, at, 100, 1);
	/* Over part of it, and into a hole. */
	EXPECT_EQ(t, map(at + BYTES(10), 10, RW, MAP_FIXED), (long)(at + BYTES(10)));
	EXPECT_EQ(t, get(as, at + BYTES(10)), 0);
	EXPECT_EQ(t, get(as, at + BYTES(9)), 10);
	EXPECT_EQ(t, map(at, 1, RW, MAP_FIXED_NOREPLACE), -EEXIST);
	EXPECT_EQ(t, unmap(at + BYTES(40), 20), 0);
	EXPECT_EQ(t, map(at + BYTES(45), 5, RW, MAP_FIXED_NOREPLACE), (long)(at + BYTES(45)));
	EXPECT_EQ(t, map(at + BYTES(50), 5, RW, 0), (long)(at + BYTES(50)));
	EXPECT_EQ(t, fake_map_calls, calls + 1); /* the EEXIST is the home's */
	/* Something else comes in the place of a hole, and of a part. */
	EXPECT_EQ(t, map(at + BYTES(40), 5, PROT_READ, 0), (long)(at + BYTES(40)));
	EXPECT_EQ(t, map(at + BYTES(5), 3, PROT_NONE, MAP_FIXED), (long)(at + BYTES(5)));
	EXPECT_EQ(t, get(as, at + BYTES(6)), -EACCES);
	EXPECT_EQ(t, get(as, at + BYTES(8)), 9);
	EXPECT_EQ(t, get(as, at + BYTES(40)), 0);
	EXPECT_EQ(t, put(as, at + BYTES(40), 1), -EACCES);
	EXPECT_EQ(t, get(as, at + BYTES(57)), -EFAULT);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as);
}

static long move(uint64_t addr, uint64_t pages, uint64_t to_pages, uint32_t flags, uint64_t to)
{
	return sys_mremap(
		&(struct syscall_args){ .a = { addr, BYTES(pages), BYTES(to_pages), flags, to } });
}

static void a_leased_mapping_moves_and_grows(struct ktest *t)
{
	struct aspace *as = start();
	uint64_t at = (uint64_t)map(0, 20, RW, 0), to;

	fill(t, as, at, 20, 1);
	EXPECT_EQ(t, unmap(at + BYTES(15), 5), 0);
	EXPECT_EQ(t, move(at, 15, 18, 0, 0), (long)at); /* into its own hole */
	EXPECT_EQ(t, get(as, at + BYTES(15)), 0);
	EXPECT_EQ(t, move(at, 18, 10, 0, 0), (long)at);
	EXPECT_EQ(t, get(as, at + BYTES(10)), -EFAULT);
	to = (uint64_t)map(0, 20, RW, 0);
	fill(t, as, to, 20, 500);
	EXPECT_EQ(t, move(at, 10, 12, MREMAP_MAYMOVE | MREMAP_FIXED, to + BYTES(4)),
		  (long)(to + BYTES(4)));
	for (uint64_t i = 0; i < 20; i++)
		EXPECT_EQ(t, get(as, to + BYTES(i)),
			  i < 4 || i >= 16 ? 500 + i
			  : i < 14         ? i - 3
					   : 0);
	EXPECT_EQ(t, get(as, at), -EFAULT);
	EXPECT_EQ(t, move(to + BYTES(10), 200, 300, MREMAP_MAYMOVE, 0), -EFAULT);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as);
}

/* --- files --------------------------------------------------------------------------- */

#define FILE_PAGES 4000u

static struct object *file(void)
{
	static uint64_t next_ino = 900;
	const struct file_attr attr = { .file = { .ino = next_ino++, .node = 9 },
					.version = 1,
					.size = FILE_PAGES * PAGE_SIZE };
	struct object *obj;

	fake_file(FILE_PAGES, UINT64_MAX);
	obj = object_file_get(&attr);
	if (IS_ERR(obj))
		abort();
	return obj;
}

/* The first word of page @pgoff of each file. */
static int64_t file_word(uint64_t pgoff)
{
	return (int64_t)BYTES(pgoff);
}

static void stop_with(struct ktest *t, struct aspace *as, struct object *obj)
{
	excache_drop(obj, 0, UINT64_MAX);
	object_put(obj);
	stop(t, as);
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

static struct vma vma_at(struct aspace *as, uint64_t addr)
{
	struct layout_seq seq;
	struct vma v, got;

	if (aspace_find_vma(as, addr, &v, &seq))
		return (struct vma){ 0 };
	got = v;
	vma_release(&v);
	return got; /* whose file the space still has */
}

/*
 * As ld.so: the library as a whole, its parts over that, what is behind the file, and read-only
 * data that was relocated.
 */
static void a_library_is_one_message(struct ktest *t)
{
	struct aspace *as = start();
	struct object *obj = file();
	long at = map_file(as, obj, 0, 0, 480, PROT_READ, 0);
	const uint64_t lib = (uint64_t)at;
	struct vma v;

	ASSERT_TRUE(t, at > 0);
	EXPECT_EQ(t,
		  map_file(as, obj, 38, lib + BYTES(38), 341, PROT_READ | PROT_EXEC, MAPPING_FIXED),
		  (long)(lib + BYTES(38)));
	EXPECT_EQ(t, map_file(as, obj, 379, lib + BYTES(379), 83, PROT_READ, MAPPING_FIXED),
		  (long)(lib + BYTES(379)));
	EXPECT_EQ(t, map_file(as, obj, 461, lib + BYTES(462), 6, RW, MAPPING_FIXED),
		  (long)(lib + BYTES(462)));
	EXPECT_EQ(t, map(lib + BYTES(468), 12, RW, MAP_FIXED), (long)(lib + BYTES(468)));
	EXPECT_EQ(t, get(as, lib), file_word(0));
	EXPECT_EQ(t, get(as, lib + BYTES(400)), file_word(400));
	EXPECT_EQ(t, put(as, lib + BYTES(400), 1), -EACCES);
	EXPECT_EQ(t, get(as, lib + BYTES(462)), file_word(461));
	EXPECT_EQ(t, put(as, lib + BYTES(462), 7), 0);
	EXPECT_EQ(t, get(as, lib + BYTES(468)), 0);
	EXPECT_EQ(t, protect(lib + BYTES(462), 4, PROT_READ), 0);
	EXPECT_EQ(t, put(as, lib + BYTES(462), 1), -EACCES);
	EXPECT_EQ(t, get(as, lib + BYTES(462)), 7);
	EXPECT_EQ(t, put(as, lib + BYTES(466), 8), 0);
	EXPECT_EQ(t, fake_map_calls, 1u);
	/* This is in /proc/<pid>/maps. */
	v = vma_at(as, lib + BYTES(40));
	EXPECT_EQ(t, v.start, lib + BYTES(38));
	EXPECT_EQ(t, v.end, lib + BYTES(379));
	EXPECT_EQ(t, v.pgoff, 38u);
	EXPECT_TRUE(t, v.file == obj && v.prot == (PROT_READ | PROT_EXEC));
	v = vma_at(as, lib + BYTES(467));
	EXPECT_EQ(t, v.start, lib + BYTES(466));
	EXPECT_EQ(t, v.pgoff, 465u);
	EXPECT_FALSE(t, v.flags & VMA_PRISTINE);
	EXPECT_TRUE(t, vma_at(as, lib + BYTES(400)).flags & VMA_PRISTINE);
	EXPECT_TRUE(t, vma_at(as, lib + BYTES(470)).file == NULL);
	EXPECT_EQ(t, protect(lib + BYTES(400), 1, RW), 0);
	EXPECT_EQ(t, put(as, lib + BYTES(400), 1), 0);
	EXPECT_EQ(t, protect(lib + BYTES(400), 1, PROT_READ), 0);
	EXPECT_FALSE(t, vma_at(as, lib + BYTES(400)).flags & VMA_PRISTINE);
	EXPECT_EQ(t, get(as, lib + BYTES(400)), 1);
	/* A second one finds room in the same lease, or brings a larger one. */
	at = map_file(as, obj, 0, 0, 30, PROT_READ, 0);
	EXPECT_EQ(t, get(as, (uint64_t)at + BYTES(29)), file_word(29));
	EXPECT_EQ(t, unmap((uint64_t)at, 30), 0);
	EXPECT_EQ(t, get(as, (uint64_t)at), -EFAULT);
	EXPECT_EQ(t, fake_map_calls, 1u);
	EXPECT_EQ(t, fake_map_count(as->anon->id, false), 0u);
	EXPECT_EQ(t, fake_kills, 0u);
	stop_with(t, as, obj);
}

/* A page that was another's here is the file's now, and a private one goes with its mapping. */
static void a_file_comes_in_the_place_of_memory(struct ktest *t)
{
	struct aspace *as = start();
	struct object *obj = file();
	const uint64_t at = (uint64_t)map(0, 400, RW, 0); /* more than the cache has lines */

	fill(t, as, at, 400, 1);
	EXPECT_EQ(t, map_file(as, obj, 100, at, 200, RW, MAPPING_FIXED), (long)at);
	EXPECT_EQ(t, unmap(at + BYTES(300), 100), 0);
	EXPECT_EQ(t, map_file(as, obj, 0, at + BYTES(300), 100, RW, MAPPING_FIXED_NOREPLACE),
		  (long)(at + BYTES(300)));
	for (uint64_t i = 0; i < 400; i++)
		EXPECT_EQ(t, get(as, at + BYTES(i)),
			  i < 200   ? file_word(100 + i)
			  : i < 300 ? (int64_t)i + 1
				    : file_word(i - 300));
	fill(t, as, at, 400, 5000);
	for (uint64_t i = 0; i < 400; i++)
		EXPECT_EQ(t, get(as, at + BYTES(i)), 5000 + i);
	EXPECT_EQ(t, sys_madvise(&(struct syscall_args){ .a = { at, BYTES(400), MADV_DONTNEED } }),
		  0);
	for (uint64_t i = 0; i < 400; i++)
		EXPECT_EQ(t, get(as, at + BYTES(i)),
			  i < 200   ? file_word(100 + i)
			  : i < 300 ? 0
				    : file_word(i - 300));
	fill(t, as, at, 400, 5000);
	EXPECT_EQ(t, map(at, 200, RW, MAP_FIXED), (long)at);
	EXPECT_EQ(t, get(as, at + BYTES(199)), 0);
	EXPECT_EQ(t, fake_map_calls, 1u);
	EXPECT_EQ(t, fake_kills, 0u);
	stop_with(t, as, obj);
}

static void a_leased_file_moves_and_grows(struct ktest *t)
{
	struct aspace *as = start(), *child;
	struct object *obj = file();
	const uint64_t at = (uint64_t)map_file(as, obj, 50, 0, 300, RW, 0);
	const uint64_t other = (uint64_t)map(0, 40, RW, 0);
	long to;

	for (uint64_t i = 0; i < 300; i += 2)
		EXPECT_EQ(t, put(as, at + BYTES(i), i), 0);
	ASSERT_EQ(t, aspace_fork(as, &child), 0); /* its pages are behind the top now */
	EXPECT_EQ(t, put(as, at, 77), 0);
	EXPECT_EQ(t, protect(at, 300, PROT_READ), 0);
	to = move(at, 300, 310, MREMAP_MAYMOVE, 0);
	ASSERT_TRUE(t, to > 0 && (uint64_t)to != at);
	EXPECT_EQ(t, get(as, at), -EFAULT);
	for (uint64_t i = 0; i < 310; i++)
		EXPECT_EQ(t, get(as, (uint64_t)to + BYTES(i)),
			  !i                  ? 77
			  : i % 2 || i >= 300 ? file_word(50 + i)
					      : (int64_t)i);
	EXPECT_EQ(t, put(as, (uint64_t)to, 1), -EACCES);
	/* Over other memory, and shorter; then longer in its place. */
	EXPECT_EQ(t,
		  move((uint64_t)to + BYTES(2), 20, 10, MREMAP_MAYMOVE | MREMAP_FIXED,
		       other + BYTES(20)),
		  (long)(other + BYTES(20)));
	EXPECT_EQ(t, get(as, other + BYTES(20)), 2);
	EXPECT_EQ(t, get(as, other + BYTES(29)), file_word(61));
	EXPECT_EQ(t, get(as, (uint64_t)to + BYTES(11)), -EFAULT);
	EXPECT_EQ(t, get(as, (uint64_t)to + BYTES(22)), 22);
	EXPECT_EQ(t, unmap(other + BYTES(30), 10), 0);
	EXPECT_EQ(t, move(other + BYTES(20), 10, 15, 0, 0), (long)(other + BYTES(20)));
	EXPECT_EQ(t, get(as, other + BYTES(34)), file_word(66));
	EXPECT_EQ(t, map(other + BYTES(40), 1, RW, MAP_FIXED), (long)(other + BYTES(40)));
	EXPECT_EQ(t, move(other + BYTES(20), 15, 30, 0, 0), -ENOMEM);
	/* Not one mapping. */
	EXPECT_EQ(t, move(other + BYTES(10), 20, 30, MREMAP_MAYMOVE, 0), -EFAULT);
	EXPECT_EQ(t, get(as, other + BYTES(29)), file_word(61));
	process.as = child;
	for (uint64_t i = 0; i < 300; i++)
		EXPECT_EQ(t, get(child, at + BYTES(i)), i % 2 ? file_word(50 + i) : (int64_t)i);
	aspace_put(child);
	process.as = as;
	EXPECT_EQ(t, fake_kills, 0u);
	stop_with(t, as, obj);
}

/* Memory of others comes over a part of a leased file: the home hears of that part. */
static void others_over_a_part_of_a_leased_file(struct ktest *t)
{
	struct aspace *as = start();
	struct object *obj = file();
	const uint64_t at = (uint64_t)map_file(as, obj, 0, 0, 100, RW, 0);

	EXPECT_EQ(t, put(as, at + BYTES(9), 9), 0);
	EXPECT_EQ(t, map(at + BYTES(10), 10, PROT_NONE, MAP_FIXED | MAP_NORESERVE),
		  (long)(at + BYTES(10)));
	EXPECT_EQ(t, get(as, at + BYTES(9)), 9);
	EXPECT_EQ(t, get(as, at + BYTES(10)), -EACCES);
	EXPECT_EQ(t, get(as, at + BYTES(20)), file_word(20));
	EXPECT_EQ(t, fake_map_count(as->anon->id, false), 10u);
	/* Rights over leased and other memory, as far as there is some. */
	EXPECT_EQ(t, protect(at + BYTES(5), 10, PROT_READ), 0);
	EXPECT_EQ(t, get(as, at + BYTES(9)), 9);
	EXPECT_EQ(t, put(as, at + BYTES(9), 1), -EACCES);
	EXPECT_EQ(t, get(as, at + BYTES(14)), 0);
	EXPECT_EQ(t, get(as, at + BYTES(15)), -EACCES);
	EXPECT_EQ(t, put(as, at + BYTES(4), 4), 0);
	EXPECT_EQ(t, unmap(at + BYTES(8), 4), 0);
	EXPECT_EQ(t, get(as, at + BYTES(7)), file_word(7));
	EXPECT_EQ(t, get(as, at + BYTES(8)), -EFAULT);
	EXPECT_EQ(t, get(as, at + BYTES(11)), -EFAULT);
	EXPECT_EQ(t, get(as, at + BYTES(12)), 0);
	EXPECT_EQ(t, protect(at, 20, PROT_READ), -ENOMEM);
	EXPECT_EQ(t, put(as, at + BYTES(4), 4), -EACCES);
	EXPECT_EQ(t, put(as, at + BYTES(20), 4), 0);
	EXPECT_EQ(t, fake_kills, 0u);
	stop_with(t, as, obj);
}

/* --- homes that refuse --------------------------------------------------------------- */

static void a_home_without_leases(struct ktest *t)
{
	struct aspace *as = start();
	long at;

	fake_map_leases(false);
	for (unsigned int n = 0; n < 20; n++) {
		at = map(0, 16, RW, 0);
		ASSERT_TRUE(t, at > 0);
		EXPECT_EQ(t, get(as, (uint64_t)at), 0);
		fill(t, as, (uint64_t)at, 16, n);
		EXPECT_EQ(t, unmap((uint64_t)at, 16), 0);
		EXPECT_EQ(t, get(as, (uint64_t)at), -EFAULT);
	}
	EXPECT_EQ(t, fake_map_calls, 40u);
	EXPECT_EQ(t, fake_map_count(as->anon->id, false), 0u);
	stop(t, as);
}

/* A home that is short gets back what is not in use, and is asked again. */
static void gaps_go_back_when_memory_is_short(struct ktest *t)
{
	struct aspace *as = start();
	const uint64_t at = (uint64_t)map(0, 100, RW, 0);

	EXPECT_EQ(t, unmap(at + BYTES(10), 50), 0);
	fake_fail(PM_MMAP, -ENOMEM);
	EXPECT_TRUE(t, map(0, 10, PROT_READ, 0) > 0);
	EXPECT_EQ(t, fake_map_count(as->anon->id, true), 50u);
	EXPECT_EQ(t, fake_map_batches, 1u);
	/* There is nothing left to be given. */
	fake_fail(PM_MMAP, -ENOMEM);
	EXPECT_EQ(t, map(0, 10, PROT_READ, 0), -ENOMEM);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as);
}

/* A batch that is refused has changed nothing; one whose outcome is open ends the program. */
static void a_batch_may_fail(struct ktest *t)
{
	for (unsigned int n = 0; n < 3; n++) {
		struct aspace *as = start();
		const uint64_t at = (uint64_t)map(0, 20, RW, 0);

		fill(t, as, at, 20, 1);
		EXPECT_EQ(t, unmap(at + BYTES(10), 5), 0);
		fake_fail_times(PM_LEASE, n ? -EHOSTDOWN : -ENOMEM, 2, n == 2);
		EXPECT_LT(t, move(at, 10, 18, MREMAP_MAYMOVE, 0), 0);
		if (n) {
			EXPECT_EQ(t, fake_kills, 1u);
			EXPECT_EQ(t, put(as, at + BYTES(11), 1), -ENOMEM);
		} else {
			for (uint64_t i = 0; i < 20; i++)
				EXPECT_EQ(t, get(as, at + BYTES(i)),
					  i >= 10 && i < 15 ? -EFAULT : (int64_t)i + 1);
			EXPECT_EQ(t, fake_kills, 0u);
			EXPECT_EQ(t, map(0, 5, RW, 0), (long)(at + BYTES(10)));
		}
		stop(t, as);
	}
}

/* --- fork ---------------------------------------------------------------------------- */

static void both_of_a_fork_have_the_lease(struct ktest *t)
{
	struct aspace *as = start(), *child;
	const uint64_t at = (uint64_t)map(0, 200, RW, 0);

	fill(t, as, at, 200, 1); /* some of it is stored */
	EXPECT_EQ(t, unmap(at + BYTES(50), 20), 0);
	fake_map_calls = 0;
	ASSERT_EQ(t, aspace_fork(as, &child), 0);
	/* The parent's hole and the child's are two. */
	EXPECT_EQ(t, map(at + BYTES(50), 10, RW, 0), (long)(at + BYTES(50)));
	fill(t, as, at + BYTES(50), 10, 5000);
	process.as = child;
	EXPECT_EQ(t, get(child, at + BYTES(50)), -EFAULT);
	EXPECT_EQ(t, unmap(at, 40), 0);
	EXPECT_EQ(t, map(at, 40, RW, 0), (long)at);
	EXPECT_EQ(t, map(at + BYTES(60), 10, RW, 0), (long)(at + BYTES(60)));
	for (uint64_t i = 0; i < 200; i++) {
		EXPECT_EQ(t, get(child, at + BYTES(i)),
			  i < 40              ? 0
			  : i < 50 || i >= 70 ? (int64_t)i + 1
			  : i < 60            ? -EFAULT
					      : 0);
		EXPECT_EQ(t, get(as, at + BYTES(i)),
			  i >= 50 && i < 60   ? (int64_t)i + 4950
			  : i >= 60 && i < 70 ? -EFAULT
					      : (int64_t)i + 1);
	}
	EXPECT_EQ(t, fake_map_calls, 0u);
	aspace_put(as);
	(void)aspace_drain();
	fill(t, child, at, 40, 1); /* with what is behind it collapsed */
	for (uint64_t i = 0; i < 50; i++)
		EXPECT_EQ(t, get(child, at + BYTES(i)), i + 1);
	EXPECT_EQ(t, get(child, at + BYTES(65)), 0);
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, child);
}

/* --- any calls ----------------------------------------------------------------------- */

#define WINDOW ((FAKE_MAP_END - FAKE_MAP_START) / PAGE_SIZE)
#define NONE   0xffu /* not mapped */

struct model {
	struct ktest *t;
	struct aspace *as;
	struct prng prng;
	bool fails;           /* allocations may */
	uint8_t prot[WINDOW]; /* or NONE */
	uint64_t word[WINDOW];
	int64_t fresh[WINDOW]; /* the word of a page without a private copy */
	struct object *file;
	uint64_t next;
	uint64_t recent[16]; /* pages where something was mapped */
};

static uint64_t below(struct model *m, uint64_t n)
{
	return prng_below(&m->prng, n);
}

static uint64_t page_addr(uint64_t page)
{
	return FAKE_MAP_START + BYTES(page);
}

static void model_set(struct model *m, uint64_t page, uint64_t nr, uint8_t prot)
{
	memset(&m->prot[page], prot, nr);
	memset(&m->word[page], 0, nr * sizeof(m->word[0]));
	memset(&m->fresh[page], 0, nr * sizeof(m->fresh[0]));
}

static void model_set_file(struct model *m, uint64_t page, uint64_t nr, uint64_t pgoff)
{
	for (uint64_t i = 0; i < nr; i++)
		m->fresh[page + i] = (int64_t)(m->word[page + i] = (uint64_t)file_word(pgoff + i));
}

static bool model_free(const struct model *m, uint64_t page, uint64_t nr)
{
	for (uint64_t i = page; i < page + nr; i++)
		if (m->prot[i] != NONE)
			return false;
	return true;
}

static void check_page(struct model *m, uint64_t page)
{
	const uint8_t prot = m->prot[page];
	const int64_t want = prot == NONE ? -EFAULT : !prot ? -EACCES : (int64_t)m->word[page];
	long ret;

	EXPECT_EQ(m->t, get(m->as, page_addr(page)), want);
	if (below(m, 2)) {
		ret = put(m->as, page_addr(page), ++m->next);
		EXPECT_EQ(m->t, ret, prot == NONE ? -EFAULT : !(prot & PROT_WRITE) ? -EACCES : 0);
		if (!ret)
			m->word[page] = m->next;
	}
}

static long call_maybe_short(struct model *m, long (*fn)(const struct syscall_args *),
			     const struct syscall_args *args)
{
	long ret;

	if (m->fails && !below(m, 4))
		shim_fail_alloc_after((long)below(m, 6));
	ret = fn(args);
	shim_fail_alloc_after(-1);
	return ret;
}

/* A page near one where something was mapped. */
static uint64_t some_page(struct model *m, uint64_t nr)
{
	const uint64_t page = m->recent[below(m, 16)] + below(m, 24);

	return page < 8 ? 0 : MIN(page - 8, WINDOW - nr);
}

static void random_mmap(struct model *m)
{
	static const uint32_t places[] = { 0, 0, 0, MAP_FIXED, MAP_FIXED_NOREPLACE };
	static const uint32_t prots[] = { RW, RW, RW, PROT_READ, PROT_NONE };
	const uint32_t place = places[below(m, ARRAY_SIZE(places))];
	const uint32_t prot = prots[below(m, ARRAY_SIZE(prots))];
	const uint64_t nr = 1 + below(m, below(m, 4) ? 20 : 60);
	const uint64_t page = place || !below(m, 3) ? some_page(m, nr) : 0;
	const struct syscall_args args = { .a = { page ? page_addr(page) : 0, BYTES(nr), prot,
						  ANON | place, (uint64_t)-1, 0 } };
	long ret = call_maybe_short(m, sys_mmap, &args);
	uint64_t got;

	if (ret == -ENOMEM && m->fails && !page)
		return;
	if (ret == -ENOMEM && m->fails) /* what was there may have gone: with memory it goes */
		ret = sys_mmap(&args);
	if (place == MAP_FIXED_NOREPLACE && !model_free(m, page, nr)) {
		EXPECT_EQ(m->t, ret, -EEXIST);
		return;
	}
	ASSERT_TRUE(m->t, ret > 0);
	got = ((uint64_t)ret - FAKE_MAP_START) / PAGE_SIZE;
	ASSERT_TRUE(m->t, got + nr <= WINDOW);
	if (page && (place || model_free(m, page, nr)))
		EXPECT_EQ(m->t, got, page);
	if (place != MAP_FIXED)
		EXPECT_TRUE(m->t, model_free(m, got, nr));
	model_set(m, got, nr, (uint8_t)prot);
	m->recent[below(m, 16)] = got;
}

static void random_mmap_file(struct model *m)
{
	static const uint32_t prots[] = { RW, PROT_READ, PROT_READ, PROT_NONE };
	const uint32_t prot = prots[below(m, ARRAY_SIZE(prots))];
	const uint64_t nr = 1 + below(m, below(m, 4) ? 20 : 60);
	const uint64_t page = below(m, 3) ? some_page(m, nr) : 0;
	const uint64_t pgoff = 1 + below(m, 3000);
	long ret;
	uint64_t got;

	if (m->fails && !below(m, 4))
		shim_fail_alloc_after((long)below(m, 6));
	ret = map_file(m->as, m->file, pgoff, page ? page_addr(page) : 0, nr, prot,
		       page ? MAPPING_FIXED : 0);
	shim_fail_alloc_after(-1);
	if (ret == -ENOMEM && m->fails && !page)
		return;
	if (ret == -ENOMEM && m->fails) /* as above */
		ret = map_file(m->as, m->file, pgoff, page_addr(page), nr, prot, MAPPING_FIXED);
	ASSERT_TRUE(m->t, ret > 0);
	got = ((uint64_t)ret - FAKE_MAP_START) / PAGE_SIZE;
	ASSERT_TRUE(m->t, got + nr <= WINDOW && (!page || got == page));
	if (!page)
		EXPECT_TRUE(m->t, model_free(m, got, nr));
	model_set(m, got, nr, (uint8_t)prot);
	model_set_file(m, got, nr, pgoff);
	m->recent[below(m, 16)] = got;
}

static void random_munmap(struct model *m)
{
	const uint64_t nr = 1 + below(m, 30), page = some_page(m, nr);
	const struct syscall_args args = { .a = { page_addr(page), BYTES(nr) } };
	long ret = call_maybe_short(m, sys_munmap, &args);

	if (ret == -ENOMEM && m->fails)
		ret = sys_munmap(&args);
	EXPECT_EQ(m->t, ret, 0);
	model_set(m, page, nr, NONE);
}

static void random_mprotect(struct model *m)
{
	static const uint32_t prots[] = { RW, PROT_READ, PROT_NONE };
	const uint32_t prot = prots[below(m, ARRAY_SIZE(prots))];
	const uint64_t nr = 1 + below(m, 12), page = some_page(m, nr);
	const struct syscall_args args = { .a = { page_addr(page), BYTES(nr), prot } };
	uint64_t i;
	long ret = call_maybe_short(m, sys_mprotect, &args);

	if (ret == -ENOMEM && m->fails)
		ret = sys_mprotect(&args);
	for (i = page; i < page + nr && m->prot[i] != NONE; i++)
		m->prot[i] = (uint8_t)prot;
	EXPECT_EQ(m->t, ret, i < page + nr ? -ENOMEM : 0);
}

static void random_mremap(struct model *m)
{
	const uint64_t nr = 1 + below(m, 8), to_nr = 1 + below(m, 16), page = some_page(m, nr);
	const bool fixed = !below(m, 3);
	uint64_t to = fixed ? some_page(m, to_nr) : 0, words[16] = { 0 };
	const int64_t fresh = m->fresh[page];
	const uint8_t prot = m->prot[page];
	bool one = prot != NONE;
	int64_t olds[16];
	long ret;

	for (uint64_t i = 0; i < nr; i++)
		one &= m->prot[page + i] == prot &&
		       m->fresh[page + i] == (fresh ? fresh + (int64_t)BYTES(i) : 0);
	/* Linux tells other errors before it looks, or allows it for a range that shrinks. */
	if (!one || (fixed && to < page + nr && page < to + to_nr))
		return;
	ret = move(page_addr(page), nr, to_nr, MREMAP_MAYMOVE | (fixed ? MREMAP_FIXED : 0),
		   fixed ? page_addr(to) : 0);
	ASSERT_TRUE(m->t, ret > 0);
	to = ((uint64_t)ret - FAKE_MAP_START) / PAGE_SIZE;
	for (uint64_t i = 0; i < to_nr; i++) {
		olds[i] = fresh ? fresh + (int64_t)BYTES(i) : 0;
		words[i] = i < nr ? m->word[page + i] : (uint64_t)olds[i];
	}
	model_set(m, page, nr, NONE);
	if (!fixed)
		EXPECT_TRUE(m->t, model_free(m, to, to_nr));
	model_set(m, to, to_nr, prot);
	memcpy(&m->word[to], words, to_nr * sizeof(words[0]));
	memcpy(&m->fresh[to], olds, to_nr * sizeof(olds[0]));
	m->recent[below(m, 16)] = to;
}

static void random_discard(struct model *m)
{
	const uint64_t nr = 1 + below(m, 6), page = some_page(m, nr);
	bool mapped = true;

	for (uint64_t i = 0; i < nr; i++)
		mapped &= m->prot[page + i] != NONE;
	EXPECT_EQ(m->t,
		  sys_madvise(&(struct syscall_args){
			  .a = { page_addr(page), BYTES(nr), MADV_DONTNEED } }),
		  mapped ? 0 : -ENOMEM);
	if (mapped)
		memcpy(&m->word[page], &m->fresh[page], nr * sizeof(m->word[0]));
}

static void any_calls(struct ktest *t, uint64_t seed, bool leases, bool fails, unsigned int steps)
{
	static struct model m;

	memset(&m, 0, sizeof(m));
	m.t = t;
	m.as = start();
	m.file = file();
	m.fails = fails;
	prng_seed(&m.prng, seed);
	fake_map_leases(leases);
	model_set(&m, 0, WINDOW, NONE);
	for (int i = 0; i < 16; i++)
		m.recent[i] = WINDOW / 2 + 20 * (uint64_t)i;
	for (unsigned int n = 0; n < steps && !t->nr_failed; n++) {
		switch (below(&m, 10)) {
		case 0:
		case 1:
			random_mmap(&m);
			break;
		case 2:
			random_munmap(&m);
			break;
		case 3:
			random_mprotect(&m);
			break;
		case 4:
			random_mremap(&m);
			break;
		case 5:
			random_discard(&m);
			break;
		case 6:
		case 7:
			random_mmap_file(&m);
			break;
		default:
			break;
		}
		for (int i = 0; i < 12; i++)
			check_page(&m, some_page(&m, 1));
	}
	for (uint64_t i = 0; i < WINDOW && !t->nr_failed; i++)
		if (m.prot[i] != NONE)
			check_page(&m, i);
	EXPECT_EQ(t, fake_kills, 0u);
	stop_with(t, m.as, m.file);
}

static void any_calls_show_what_linux_shows(struct ktest *t)
{
	for (uint64_t seed = 1; seed <= 6 && !t->nr_failed; seed++)
		any_calls(t, seed, seed != 6, false, 1500);
}

static void any_calls_with_failing_allocations(struct ktest *t)
{
	for (uint64_t seed = 11; seed <= 14 && !t->nr_failed; seed++)
		any_calls(t, seed, true, true, 1500);
}

/* --- several threads ------------------------------------------------------------------ */

struct worker {
	struct aspace *as;
	unsigned int nr_bad, id;
};

static void *map_and_unmap(void *arg)
{
	struct worker *w = arg;

	thread_current()->private = &task;
	for (unsigned int n = 0; n < 300; n++) {
		const uint64_t nr = 1 + (n * 7 + w->id * 3) % 30;
		const long at = map(0, nr, RW, 0);

		if (at < 0) {
			w->nr_bad++;
			continue;
		}
		for (uint64_t i = 0; i < nr; i++) {
			w->nr_bad += get(w->as, (uint64_t)at + BYTES(i)) != 0;
			w->nr_bad += put(w->as, (uint64_t)at + BYTES(i), w->id + i) != 0;
		}
		for (uint64_t i = 0; i < nr; i++)
			w->nr_bad += get(w->as, (uint64_t)at + BYTES(i)) != (int64_t)(w->id + i);
		w->nr_bad += unmap((uint64_t)at, nr) != 0;
	}
	return NULL;
}

static void threads_share_the_leases(struct ktest *t)
{
	struct aspace *as = start();
	struct worker w[3] = { { as, 0, 100 }, { as, 0, 1000 }, { as, 0, 10000 } };
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		ASSERT_EQ(t, pthread_create(&threads[i], NULL, map_and_unmap, &w[i]), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(t, w[i].nr_bad, 0u);
	}
	EXPECT_LE(t, fake_map_calls, 20u); /* of 1,800 */
	EXPECT_EQ(t, fake_kills, 0u);
	stop(t, as);
}

static const struct ktest_case cases[] = {
	KTEST(the_steady_state_sends_nothing),
	KTEST(a_large_mapping_comes_back_where_it_was),
	KTEST(a_heap_grows_into_its_reservation),
	KTEST(a_page_that_comes_back_is_zero),
	KTEST(holes_go_back_in_batches),
	KTEST(calls_across_the_border_of_a_lease),
	KTEST(places_that_are_asked_for),
	KTEST(small_mappings_at_their_places),
	KTEST(a_leased_mapping_moves_and_grows),
	KTEST(a_library_is_one_message),
	KTEST(a_file_comes_in_the_place_of_memory),
	KTEST(a_leased_file_moves_and_grows),
	KTEST(others_over_a_part_of_a_leased_file),
	KTEST(a_home_without_leases),
	KTEST(gaps_go_back_when_memory_is_short),
	KTEST(a_batch_may_fail),
	KTEST(both_of_a_fork_have_the_lease),
	KTEST(any_calls_show_what_linux_shows),
	KTEST(any_calls_with_failing_allocations),
	KTEST(threads_share_the_leases),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.lease", .cases = cases };
KTEST_SUITE(suite);
