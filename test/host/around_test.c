/* SPDX-License-Identifier: MIT */
/*
 * Fault-around: which pages of a file one fault maps, that no private copy is hidden, and that
 * lines, mappings and spaces may go in any order and under threads.
 */
#include <pthread.h>
#include <stdlib.h>

#include <kernel/counter.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <processor/excache/excache.h>
#include <processor/excache/object.h>
#include <processor/excache/prefetch.h>
#include <processor/excache/usage.h>
#include <processor/mm/aspace.h>
#include <shim/pgtable.h>
#include <shim/shim.h>

#include "fake_owner.h"

#define MAP_BASE   0x6000000ull
#define FILE_PAGES 90 /* more than one window */
#define TEXT       (VMA_PROT_READ | VMA_PROT_EXEC)

static struct object *start(struct ktest *t)
{
	static uint64_t next_ino = 5000;
	const struct file_attr attr = { .file = { .ino = next_ino++, .node = 9 },
					.version = 1,
					.size = FILE_PAGES * PAGE_SIZE };
	struct object *obj;

	fake_cache();
	fake_reset();
	fake_file(FILE_PAGES, UINT64_MAX);
	obj = object_file_get(&attr);
	if (IS_ERR(obj))
		abort();
	return obj;
}

/* A mapping of @nr pages from @pgoff on at @first, as exec and mmap leave it. */
static void map(struct ktest *t, struct aspace *as, struct object *obj, uint64_t first,
		uint64_t pgoff, uint64_t nr, uint32_t prot)
{
	const struct vma v = { .start = MAP_BASE + first * PAGE_SIZE,
			       .end = MAP_BASE + (first + nr) * PAGE_SIZE,
			       .prot = prot,
			       .flags = VMA_FILE,
			       .file = obj,
			       .pgoff = pgoff,
			       .file_bytes = UINT64_MAX };

	EXPECT_EQ(t, aspace_set_vma(as, &v, SEQ_ANY), 0);
	if (!(prot & VMA_PROT_WRITE))
		aspace_set_vma_flags(as, v.start, v.end, VMA_PRISTINE);
}

static struct aspace *space(struct ktest *t, struct object *obj, uint32_t prot)
{
	static uint64_t next_id = 1ull << 20;
	struct aspace *as = aspace_create(next_id++, 1);

	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	map(t, as, obj, 0, 0, FILE_PAGES, prot);
	return as;
}

static void finish(struct ktest *t, struct object *obj)
{
	fake_quiesce();
	excache_drop(obj, 0, UINT64_MAX);
	EXPECT_EQ(t, obj->windows.count, 0u);
	object_put(obj);
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
}

/* Word 1 of the page, as a program reads it. The file has its offset there. */
static int load(struct aspace *as, uint64_t page, uint64_t *val, enum fault_access access,
		unsigned int *faults)
{
	const vaddr_t va = MAP_BASE + page * PAGE_SIZE;
	const unsigned int need = access == FAULT_ACC_WRITE  ? PGT_WRITE
				  : access == FAULT_ACC_EXEC ? PGT_EXEC
							     : PGT_READ;

	for (*faults = 0;; (*faults)++) {
		struct pgtable_entry e;
		bool ok;
		int err;

		spin_lock(&as->lock);
		ok = pgtable_query(as->pt, va, &e) && (e.prot & need);
		if (ok && access == FAULT_ACC_WRITE) {
			(void)shim_pgtable_touch(as->pt, va, true);
			((uint64_t *)phys_to_virt(e.paddr))[1] = *val;
		} else if (ok) {
			*val = ((const uint64_t *)phys_to_virt(e.paddr))[1];
		}
		spin_unlock(&as->lock);
		if (ok)
			return 0;
		err = aspace_fault(as, va, access);
		if (err)
			return err;
	}
}

/* Page @page of the mapping shows @pgoff of the file, after so many faults. */
static void expect(struct ktest *t, struct aspace *as, uint64_t page, uint64_t pgoff,
		   enum fault_access access, unsigned int want_faults)
{
	unsigned int faults;
	uint64_t v = ~0ull;

	EXPECT_EQ(t, load(as, page, &v, access, &faults), 0);
	EXPECT_EQ(t, v, pgoff * PAGE_SIZE + 8);
	EXPECT_EQ(t, faults, want_faults);
}

static void read_all(struct ktest *t, struct aspace *as, enum fault_access access)
{
	unsigned int faults;
	uint64_t v;

	for (uint64_t i = 0; i < FILE_PAGES; i++)
		EXPECT_EQ(t, load(as, i, &v, access, &faults), 0);
	fake_quiesce();
}

static int count_around(vaddr_t vaddr, const struct pgtable_entry *e, void *arg)
{
	*(unsigned int *)arg += (e->prot & PGT_AROUND) != 0;
	return 0;
}

static unsigned int nr_around(struct aspace *as)
{
	unsigned int nr = 0;

	spin_lock(&as->lock);
	(void)pgtable_walk(as->pt, 0, SPACE_TOP, count_around, &nr);
	spin_unlock(&as->lock);
	return nr;
}

static uint64_t nr_mapped(void)
{
	struct memory_usage u;

	memory_usage(&u);
	return u.mapped;
}

static void a_second_space_faults_once_a_window(struct ktest *t)
{
	struct object *obj = start(t);
	struct aspace *a = space(t, obj, VMA_PROT_READ), *b = space(t, obj, VMA_PROT_READ);
	struct fake_counts before, after;

	read_all(t, a, FAULT_ACC_READ);
	fake_counts(&before);
	expect(t, b, 70, 70, FAULT_ACC_READ, 1);
	EXPECT_EQ(t, nr_around(b), FILE_PAGES - AROUND_PAGES);
	expect(t, b, 5, 5, FAULT_ACC_READ, 1);
	EXPECT_EQ(t, nr_around(b), FILE_PAGES);
	for (uint64_t i = 0; i < FILE_PAGES; i++)
		expect(t, b, i, i, FAULT_ACC_READ, 0);
	fake_counts(&after);
	EXPECT_EQ(t, after.file_fetches, before.file_fetches);
	aspace_put(b);
	aspace_put(a);
	finish(t, obj);
}

static void parts_of_a_file_at_other_places(struct ktest *t)
{
	struct object *obj = start(t);
	struct aspace *a = space(t, obj, VMA_PROT_READ);
	struct aspace *b = space(t, obj, VMA_PROT_READ);

	read_all(t, a, FAULT_ACC_READ);
	/* Pages 60 to 79 of the file from place 3 on, over what was there; 10 to 13 behind that. */
	map(t, b, obj, 3, 60, 20, VMA_PROT_READ);
	map(t, b, obj, 23, 10, 4, VMA_PROT_READ);
	expect(t, b, 3, 60, FAULT_ACC_READ, 1);
	EXPECT_EQ(t, nr_around(b), 4u); /* to the end of the window */
	expect(t, b, 22, 79, FAULT_ACC_READ, 1);
	EXPECT_EQ(t, nr_around(b), 20u);
	expect(t, b, 25, 12, FAULT_ACC_READ, 1);
	EXPECT_EQ(t, nr_around(b), 24u);
	expect(t, b, 2, 2, FAULT_ACC_READ, 1);
	EXPECT_EQ(t, nr_around(b), 27u); /* three in front of the other mapping */
	for (uint64_t i = 0; i < 20; i++)
		expect(t, b, 3 + i, 60 + i, FAULT_ACC_READ, 0);
	/* The middle of it goes. */
	aspace_unmap_range(b, MAP_BASE + 5 * PAGE_SIZE, MAP_BASE + 12 * PAGE_SIZE);
	EXPECT_EQ(t, nr_around(b), 20u);
	expect(t, b, 4, 61, FAULT_ACC_READ, 0);
	expect(t, b, 11, 68, FAULT_ACC_READ, 1);
	aspace_put(b);
	aspace_put(a);
	finish(t, obj);
}

static void an_evicted_line_is_mapped_nowhere(struct ktest *t)
{
	struct object *obj = start(t);
	struct aspace *a = space(t, obj, VMA_PROT_READ), *b = space(t, obj, VMA_PROT_READ);
	struct pgtable_entry e;
	struct line *line;

	EXPECT_EQ(t, nr_mapped(), 0u);
	read_all(t, a, FAULT_ACC_READ);
	expect(t, b, 0, 0, FAULT_ACC_READ, 1);
	ASSERT_EQ(t, nr_around(b), AROUND_PAGES);
	EXPECT_EQ(t, nr_mapped(), FILE_PAGES);
	excache_drop(obj, 3, 5);
	EXPECT_EQ(t, nr_mapped(), FILE_PAGES - 2u);
	EXPECT_EQ(t, nr_around(b), AROUND_PAGES - 2u);
	EXPECT_FALSE(t, pgtable_query(b->pt, MAP_BASE + 3 * PAGE_SIZE, &e));
	/* Its frame has other contents soon. */
	ASSERT_EQ(t, excache_get(a->anon, 1, EXCACHE_ZERO, &line), 0);
	excache_put(line);
	expect(t, b, 3, 3, FAULT_ACC_READ, 1);
	expect(t, b, 2, 2, FAULT_ACC_READ, 0);
	aspace_put(a);
	expect(t, b, 4, 4, FAULT_ACC_READ, 1);
	EXPECT_EQ(t, nr_mapped(), (uint64_t)AROUND_PAGES);
	aspace_put(b);
	EXPECT_EQ(t, nr_mapped(), 0u);
	finish(t, obj);
}

/* Two threads fault in one window: what the first has mapped is good for the second. */
static void a_fault_that_comes_second_changes_nothing(struct ktest *t)
{
	struct object *obj = start(t);
	struct aspace *a = space(t, obj, VMA_PROT_READ), *b = space(t, obj, VMA_PROT_READ);
	unsigned int nr;

	read_all(t, a, FAULT_ACC_READ);
	expect(t, b, 3, 3, FAULT_ACC_READ, 1);
	nr = nr_around(b);
	EXPECT_GT(t, nr, 1u);
	EXPECT_EQ(t, aspace_fault(b, MAP_BASE + 4 * PAGE_SIZE, FAULT_ACC_READ), 0);
	EXPECT_EQ(t, nr_around(b), nr);
	aspace_put(a);
	aspace_put(b);
	finish(t, obj);
}

/* Text is mapped ahead only if it has been executed before: see frame_rewrite_for_exec(). */
static void text_has_to_have_run(struct ktest *t)
{
	struct object *obj = start(t);
	struct aspace *a = space(t, obj, TEXT), *b = space(t, obj, TEXT);
	unsigned int faults;
	struct line *line;
	uint64_t v;

	ASSERT_EQ(t, excache_get(obj, 9, EXCACHE_FETCH, &line), 0); /* read, not run */
	excache_put(line);
	EXPECT_EQ(t, load(a, 1, &v, FAULT_ACC_EXEC, &faults), 0);
	EXPECT_EQ(t, load(a, 7, &v, FAULT_ACC_EXEC, &faults), 0);
	fake_quiesce();
	expect(t, b, 7, 7, FAULT_ACC_EXEC, 1);
	EXPECT_EQ(t, nr_around(b), 2u);
	expect(t, b, 1, 1, FAULT_ACC_EXEC, 0);
	expect(t, b, 9, 9, FAULT_ACC_EXEC, 1);
	aspace_put(a);
	aspace_put(b);
	finish(t, obj);
}

static void private_copies_are_not_hidden(struct ktest *t)
{
	struct object *obj = start(t);
	struct aspace *a = space(t, obj, VMA_PROT_READ);
	struct aspace *b = space(t, obj, VMA_PROT_READ | VMA_PROT_WRITE);
	const vaddr_t end = MAP_BASE + FILE_PAGES * PAGE_SIZE;
	unsigned int faults;
	uint64_t v = 4711;

	read_all(t, a, FAULT_ACC_READ);
	expect(t, b, 0, 0, FAULT_ACC_READ, 1);
	EXPECT_EQ(t, nr_around(b), 0u); /* it can be written */
	ASSERT_EQ(t, load(b, 2, &v, FAULT_ACC_WRITE, &faults), 0);
	/* mprotect() to what could be mapped around: not any more. */
	aspace_protect_vmas(b, MAP_BASE, end, VMA_PROT_READ);
	aspace_unmap_range(b, MAP_BASE, end);
	expect(t, b, 1, 1, FAULT_ACC_READ, 1);
	ASSERT_EQ(t, load(b, 2, &v, FAULT_ACC_READ, &faults), 0);
	EXPECT_EQ(t, v, 4711u);
	EXPECT_EQ(t, nr_around(b), 0u);
	/* The other way round, with entries that are there. */
	expect(t, a, 0, 0, FAULT_ACC_READ, 0);
	aspace_unmap_range(a, MAP_BASE, end);
	expect(t, a, 0, 0, FAULT_ACC_READ, 1);
	EXPECT_GT(t, nr_around(a), 1u);
	aspace_protect_vmas(a, MAP_BASE, end, VMA_PROT_READ | VMA_PROT_WRITE);
	v = 4712;
	ASSERT_EQ(t, load(a, 2, &v, FAULT_ACC_WRITE, &faults), 0);
	aspace_protect_vmas(a, MAP_BASE, end, VMA_PROT_READ);
	aspace_unmap_range(a, MAP_BASE, end);
	expect(t, a, 1, 1, FAULT_ACC_READ, 1);
	ASSERT_EQ(t, load(a, 2, &v, FAULT_ACC_READ, &faults), 0);
	EXPECT_EQ(t, v, 4712u);
	aspace_put(a);
	aspace_put(b);
	finish(t, obj);
}

static void nothing_is_mapped_into_a_blocked_range(struct ktest *t)
{
	struct object *obj = start(t);
	struct aspace *a = space(t, obj, VMA_PROT_READ), *b = space(t, obj, VMA_PROT_READ);
	struct blocked_range r;

	read_all(t, a, FAULT_ACC_READ);
	aspace_block(b, &r, MAP_BASE + 4 * PAGE_SIZE, MAP_BASE + 8 * PAGE_SIZE);
	expect(t, b, 2, 2, FAULT_ACC_READ, 1);
	EXPECT_EQ(t, nr_around(b), 0u);
	aspace_unblock(b, &r);
	expect(t, b, 3, 3, FAULT_ACC_READ, 1);
	EXPECT_EQ(t, nr_around(b), AROUND_PAGES - 1u); /* page 2 is there already */
	aspace_put(a);
	aspace_put(b);
	finish(t, obj);
}

/* --- threads --------------------------------------------------------------------------- */

struct reader {
	struct aspace *as;
	unsigned int id;
	unsigned int nr_bad;
	bool stop; /* atomic */
};

static void *read_on(void *arg)
{
	struct reader *r = arg;
	unsigned int seed = r->id, faults;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		const uint64_t page = (uint64_t)rand_r(&seed) % FILE_PAGES;
		uint64_t v = 0;

		if (load(r->as, page, &v, FAULT_ACC_READ, &faults) || v != page * PAGE_SIZE + 8)
			r->nr_bad++;
	}
	return NULL;
}

/*
 * Readers of two spaces, while lines are evicted, ranges unmapped and further spaces come and go.
 */
static void lines_and_spaces_go_under_readers(struct ktest *t)
{
	static struct reader r[4];
	struct object *obj = start(t);
	struct aspace *as[2] = { space(t, obj, VMA_PROT_READ), space(t, obj, VMA_PROT_READ) };
	unsigned int seed = 5;
	pthread_t threads[4];

	for (unsigned int i = 0; i < 4; i++) {
		r[i] = (struct reader){ .as = as[i % 2], .id = i };
		ASSERT_EQ(t, pthread_create(&threads[i], NULL, read_on, &r[i]), 0);
	}
	for (unsigned int round = 0; round < 300; round++) {
		const uint64_t page = (uint64_t)rand_r(&seed) % FILE_PAGES;
		struct aspace *other = space(t, obj, VMA_PROT_READ);
		unsigned int faults;
		struct line *line;
		uint64_t v;

		EXPECT_EQ(t, load(other, page, &v, FAULT_ACC_READ, &faults), 0);
		EXPECT_EQ(t, v, page * PAGE_SIZE + 8);
		excache_drop(obj, page, page + 3);
		/* The frame must not show its former contents. */
		EXPECT_EQ(t, excache_get(other->anon, 1, EXCACHE_ZERO, &line), 0);
		memset(line_data(line), 0xa5, PAGE_SIZE);
		excache_put(line);
		aspace_unmap_range(as[round % 2], MAP_BASE + page * PAGE_SIZE,
				   MAP_BASE + (page + 20) * PAGE_SIZE);
		aspace_put(other);
	}
	for (unsigned int i = 0; i < 4; i++)
		__atomic_store_n(&r[i].stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(t, r[i].nr_bad, 0u);
	}
	aspace_put(as[0]);
	aspace_put(as[1]);
	finish(t, obj);
}

static const struct ktest_case cases[] = {
	KTEST(a_second_space_faults_once_a_window),
	KTEST(parts_of_a_file_at_other_places),
	KTEST(an_evicted_line_is_mapped_nowhere),
	KTEST(a_fault_that_comes_second_changes_nothing),
	KTEST(text_has_to_have_run),
	KTEST(private_copies_are_not_hidden),
	KTEST(nothing_is_mapped_into_a_blocked_range),
	KTEST(lines_and_spaces_go_under_readers),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.around", .cases = cases };
KTEST_SUITE(suite);
