/* SPDX-License-Identifier: MIT */
/*
 * Shared objects on the host: one memory for several spaces, over forks and a small cache; holes,
 * truncation, what private mappings see of it, and how long it lives.
 */
#include <pthread.h>
#include <stdlib.h>

#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <processor/excache/credit.h>
#include <processor/excache/excache.h>
#include <processor/excache/object.h>
#include <processor/excache/usage.h>
#include <processor/mm/aspace.h>
#include <proto/pm.h>
#include <shim/shim.h>

#include "fake_owner.h"
#include "user_word.h"

#define SHARED_BASE 0x800000ull
#define PRIV_BASE   0x1800000ull

extern unsigned int fake_kills;

static size_t spaces_before;

static bool cache_start(struct ktest *t)
{
	fake_cache();
	fake_reset();
	fake_kills = 0;
	spaces_before = object_space_count();
	return t->nr_failed == 0;
}

/* A space that maps @obj shared at SHARED_BASE and privately at PRIV_BASE. */
static struct aspace *space_create(struct object *obj, uint64_t pages)
{
	struct vma v = { .start = SHARED_BASE,
			 .end = SHARED_BASE + pages * PAGE_SIZE,
			 .prot = VMA_PROT_READ | VMA_PROT_WRITE,
			 .file_bytes = UINT64_MAX,
			 .flags = VMA_SHARED | VMA_OBJECT,
			 .file = obj };
	struct aspace *as = aspace_create(object_id(1, object_new_number()), 1);

	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	if (aspace_set_vma(as, &v, SEQ_ANY))
		abort();
	v.start = PRIV_BASE;
	v.end = PRIV_BASE + pages * PAGE_SIZE;
	v.flags = VMA_OBJECT;
	if (aspace_set_vma(as, &v, SEQ_ANY))
		abort();
	return as;
}

static uint64_t get(struct ktest *t, struct aspace *as, vaddr_t base, uint64_t page)
{
	uint64_t v = ~0ull;

	EXPECT_EQ(t, user_word(as, base, page, &v, false), 0);
	return v;
}

static void put(struct ktest *t, struct aspace *as, vaddr_t base, uint64_t page, uint64_t v)
{
	EXPECT_EQ(t, user_word(as, base, page, &v, true), 0);
}

/* As write(2) and read(2) of a file would. */
static void write_word(struct ktest *t, struct object *obj, uint64_t page, uint64_t v)
{
	struct line *line;

	ASSERT_EQ(t, object_shared_get(obj, page, true, &line), 0);
	((uint64_t *)line_data(line))[page % 512] = v;
	line_mark_dirty(line);
	excache_put(line);
}

static uint64_t read_word(struct ktest *t, struct object *obj, uint64_t page)
{
	struct line *line;
	uint64_t v;
	int err = object_shared_get(obj, page, false, &line);

	if (err == -ENOENT)
		return 0;
	EXPECT_EQ(t, err, 0);
	if (err)
		return ~0ull;
	v = ((uint64_t *)line_data(line))[page % 512];
	excache_put(line);
	return v;
}

static void all_gone(struct ktest *t)
{
	fake_settle();
	EXPECT_EQ(t, object_space_count(), spaces_before);
	EXPECT_EQ(t, object_stored_count(OBJECT_ANON), 0u);
	EXPECT_EQ(t, object_stored_count(OBJECT_SHARED), 0u);
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
	EXPECT_EQ(t, fake_pages(), 0u);
	EXPECT_EQ(t, (int64_t)credit_held(), credit_total());
	credit_reconcile();
	EXPECT_EQ(t, credit_total(), fake_promised());
	EXPECT_EQ(t, fake_kills, 0u);
}

static void all_spaces_see_one_memory(struct ktest *t)
{
	enum {
		PAGES = 400
	};
	struct object *obj;
	struct aspace *a, *b, *c;

	ASSERT_TRUE(t, cache_start(t));
	obj = object_shared_create(PAGES * PAGE_SIZE, true);
	ASSERT_FALSE(t, IS_ERR(obj));
	a = space_create(obj, PAGES);
	b = space_create(obj, PAGES);
	for (uint64_t i = 0; i < PAGES; i++)
		put(t, i & 1 ? a : b, SHARED_BASE, i, 60 + i);
	ASSERT_EQ(t, aspace_fork(a, &c), 0);
	for (uint64_t i = 0; i < PAGES; i++)
		EXPECT_EQ(t, get(t, c, SHARED_BASE, i), 60 + i);
	for (uint64_t i = 0; i < PAGES; i += 3)
		put(t, c, SHARED_BASE, i, 90 + i);
	for (uint64_t i = 0; i < PAGES; i++) {
		EXPECT_EQ(t, get(t, a, SHARED_BASE, i), (i % 3 ? 60 : 90) + i);
		EXPECT_EQ(t, get(t, b, SHARED_BASE, i), (i % 3 ? 60 : 90) + i);
	}
	/* The mappings keep it alive. */
	object_put(obj);
	aspace_put(a);
	aspace_put(b);
	EXPECT_EQ(t, get(t, c, SHARED_BASE, 3), 93u);
	aspace_put(c);
	all_gone(t);
}

static void expect_usage(struct ktest *t, uint64_t dirty, uint64_t mapped, uint64_t shared)
{
	struct memory_usage u;

	memory_usage(&u);
	EXPECT_EQ(t, u.dirty, dirty);
	EXPECT_EQ(t, u.mapped, mapped);
	EXPECT_EQ(t, u.shared, shared);
	EXPECT_EQ(t, u.anon, 0u);
}

/* Cached or stored, in how many page tables ever. */
static void shared_pages_are_counted_once(struct ktest *t)
{
	struct object *obj;
	struct aspace *a, *b;

	ASSERT_TRUE(t, cache_start(t));
	obj = object_shared_create(50 * PAGE_SIZE, false);
	ASSERT_FALSE(t, IS_ERR(obj));
	for (uint64_t i = 0; i < 30; i++)
		write_word(t, obj, i, i);
	expect_usage(t, 30, 0, 30);
	a = space_create(obj, 50);
	b = space_create(obj, 50);
	for (uint64_t i = 0; i < 20; i++) {
		(void)get(t, a, SHARED_BASE, i);
		(void)get(t, b, SHARED_BASE, i);
	}
	expect_usage(t, 30, 20, 30);
	ASSERT_EQ(t, excache_flush(obj, 0, UINT64_MAX), 0);
	expect_usage(t, 0, 0, 30);
	(void)get(t, b, SHARED_BASE, 7);
	expect_usage(t, 0, 1, 30);
	put(t, b, SHARED_BASE, 7, 1);
	put(t, a, SHARED_BASE, 40, 1);
	expect_usage(t, 2, 2, 31);
	EXPECT_EQ(t, object_shared_punch(obj, 20, 50), 0);
	expect_usage(t, 1, 1, 20);
	aspace_put(a);
	aspace_put(b);
	expect_usage(t, 1, 0, 20);
	object_put(obj);
	expect_usage(t, 0, 0, 0);
	all_gone(t);
}

static void holes_stay_holes(struct ktest *t)
{
	struct fake_counts counts;
	struct object *obj;
	struct line *line;
	uint64_t held, seq;

	ASSERT_TRUE(t, cache_start(t));
	obj = object_shared_create(0, false);
	ASSERT_FALSE(t, IS_ERR(obj));
	fake_counts(&counts);
	EXPECT_EQ(t, counts.spaces, 0u);
	EXPECT_EQ(t, object_shared_get(obj, 5, false, &line), -ENOENT);
	EXPECT_EQ(t, object_shared_pages(obj), 0u);
	write_word(t, obj, 700, 1);
	write_word(t, obj, 5, 2);
	held = credit_held();
	EXPECT_EQ(t, object_shared_get(obj, 6, false, &line), -ENOENT);
	EXPECT_EQ(t, credit_held(), held);
	EXPECT_EQ(t, object_shared_pages(obj), 2u);
	fake_counts(&counts);
	EXPECT_EQ(t, counts.spaces, 1u);
	ASSERT_EQ(t, excache_flush(obj, 0, UINT64_MAX), 0);
	EXPECT_EQ(t, object_shared_pages(obj), 2u);
	EXPECT_EQ(t, read_word(t, obj, 5), 2u);
	EXPECT_EQ(t, read_word(t, obj, 700), 1u);
	seq = obj->seq;
	EXPECT_EQ(t, object_shared_punch(obj, 0, 6), 0);
	/* A fault that began before makes nothing. */
	EXPECT_EQ(t, excache_get_at(obj, 5, EXCACHE_ZERO, NULL, seq, &line), -EAGAIN);
	EXPECT_EQ(t, read_word(t, obj, 5), 0u);
	EXPECT_EQ(t, object_shared_pages(obj), 1u);
	EXPECT_EQ(t, fake_pages(), 1u);
	EXPECT_EQ(t, object_shared_get(obj, 1ull << 40, true, &line), -EFBIG);
	object_put(obj);
	all_gone(t);
}

static void truncation_reaches_mappings(struct ktest *t)
{
	enum {
		PAGES = 300
	};
	struct object *obj;
	struct aspace *as;
	struct line *line;
	uint64_t v = 1;

	ASSERT_TRUE(t, cache_start(t));
	obj = object_shared_create(PAGES * PAGE_SIZE, false);
	as = space_create(obj, PAGES);
	for (uint64_t i = 0; i < PAGES; i++)
		put(t, as, SHARED_BASE, i, i + 1);
	ASSERT_EQ(t, object_shared_set_size(obj, 10 * PAGE_SIZE + 80), 0);
	EXPECT_EQ(t, object_shared_size(obj), 10 * PAGE_SIZE + 80);
	EXPECT_EQ(t, object_shared_pages(obj), 11u);
	EXPECT_EQ(t, user_word(as, SHARED_BASE, 11, &v, false), -EIO);
	EXPECT_EQ(t, user_word(as, SHARED_BASE, 299, &v, true), -EIO);
	EXPECT_EQ(t, user_word(as, PRIV_BASE, 11, &v, false), -EIO);
	EXPECT_EQ(t, get(t, as, SHARED_BASE, 9), 10u);
	EXPECT_EQ(t, get(t, as, SHARED_BASE, 10), 0u); /* word 10 lies at byte 80 */
	ASSERT_EQ(t, object_shared_set_size(obj, PAGES * PAGE_SIZE), 0);
	for (uint64_t i = 10; i < PAGES; i++)
		EXPECT_EQ(t, get(t, as, SHARED_BASE, i), 0u);
	EXPECT_EQ(t, object_shared_get(obj, 9, false, &line), 0);
	excache_put(line);
	aspace_put(as);
	object_put(obj);
	all_gone(t);
	obj = object_shared_create(PAGE_SIZE, true);
	EXPECT_EQ(t, object_shared_set_size(obj, 0), -EINVAL);
	object_put(obj);
}

static void private_mappings_copy(struct ktest *t)
{
	struct object *obj;
	struct aspace *as, *c;

	ASSERT_TRUE(t, cache_start(t));
	obj = object_shared_create(50 * PAGE_SIZE, false);
	as = space_create(obj, 50);
	for (uint64_t i = 0; i < 20; i++)
		write_word(t, obj, i, 500 + i);
	EXPECT_EQ(t, get(t, as, PRIV_BASE, 3), 503u);
	EXPECT_EQ(t, get(t, as, PRIV_BASE, 30), 0u);
	put(t, as, PRIV_BASE, 3, 7);
	put(t, as, PRIV_BASE, 4, 8);
	put(t, as, PRIV_BASE, 30, 9);
	EXPECT_EQ(t, get(t, as, SHARED_BASE, 3), 503u);
	ASSERT_EQ(t, aspace_fork(as, &c), 0);
	put(t, as, PRIV_BASE, 3, 70);
	EXPECT_EQ(t, get(t, c, PRIV_BASE, 3), 7u);
	EXPECT_EQ(t, get(t, c, PRIV_BASE, 30), 9u);
	EXPECT_EQ(t, get(t, c, PRIV_BASE, 5), 505u);
	EXPECT_EQ(t, get(t, c, SHARED_BASE, 30), 0u);
	aspace_put(as);
	EXPECT_EQ(t, get(t, c, PRIV_BASE, 4), 8u);
	aspace_put(c);
	object_put(obj);
	all_gone(t);
}

/* The home says so, and it survives a split and a fork. */
static void read_only_mappings_stay_so(struct ktest *t)
{
	struct object *obj, *other;
	struct aspace *as, *c;
	struct layout_seq seq;
	struct vma v = { .start = SHARED_BASE,
			 .end = SHARED_BASE + 10 * PAGE_SIZE,
			 .prot = VMA_PROT_READ,
			 .flags = VMA_SHARED | VMA_OBJECT | VMA_READ_ONLY };
	struct vma out;

	ASSERT_TRUE(t, cache_start(t));
	obj = object_shared_create(10 * PAGE_SIZE, false);
	other = object_shared_create(10 * PAGE_SIZE, false);
	as = space_create(obj, 10);
	v.file = obj;
	aspace_protect_vmas(as, SHARED_BASE, SHARED_BASE + 4 * PAGE_SIZE, 0);
	ASSERT_EQ(t, aspace_set_vma(as, &v, SEQ_ANY), 0);
	ASSERT_EQ(t, aspace_fork(as, &c), 0);
	ASSERT_EQ(t, aspace_find_vma(c, SHARED_BASE + 5 * PAGE_SIZE, &out, &seq), 0);
	EXPECT_TRUE(t, out.flags & VMA_READ_ONLY);
	vma_release(&out);
	v.file = other;
	v.flags &= ~(uint32_t)VMA_READ_ONLY;
	ASSERT_EQ(t, aspace_set_vma(as, &v, SEQ_ANY), 0);
	ASSERT_EQ(t, aspace_find_vma(as, SHARED_BASE, &out, &seq), 0);
	EXPECT_FALSE(t, out.flags & VMA_READ_ONLY);
	vma_release(&out);
	aspace_put(as);
	aspace_put(c);
	object_put(obj);
	object_put(other);
	all_gone(t);
}

static void refused_creation_leaves_nothing(struct ktest *t)
{
	struct object *obj;
	struct line *line;

	ASSERT_TRUE(t, cache_start(t));
	fake_fail(PM_SPACE, -ENOMEM);
	obj = object_shared_create(1 << 20, true);
	ASSERT_TRUE(t, IS_ERR(obj));
	EXPECT_EQ(t, PTR_ERR(obj), -ENOMEM);
	obj = object_shared_create(1 << 20, false);
	ASSERT_FALSE(t, IS_ERR(obj));
	fake_fail(PM_SPACE, -EHOSTDOWN);
	EXPECT_EQ(t, object_shared_get(obj, 0, true, &line), -EHOSTDOWN);
	write_word(t, obj, 0, 1); /* the next time it is there */
	object_put(obj);
	all_gone(t);
}

/* An object's home is gone before it knew the object: another is asked, by another name. */
static void another_home_is_another_name(struct ktest *t)
{
	struct object *obj;

	ASSERT_TRUE(t, cache_start(t));
	fake_home(2);
	obj = object_shared_create(1 << 20, false);
	ASSERT_FALSE(t, IS_ERR(obj));
	fake_home(1);
	fake_fail(PM_SPACE, -EHOSTDOWN);
	write_word(t, obj, 0, 1);
	EXPECT_EQ(t, obj->home, 1u);
	EXPECT_EQ(t, pm_space_home(obj->id), 1u);
	EXPECT_TRUE(t, object_shared_find(obj->id) == obj);
	object_put(obj);
	object_put(obj);
	all_gone(t);
}

/* --- threads ------------------------------------------------------------------------- */

struct worker {
	struct object *obj;
	struct aspace *as;
	unsigned int id, nr_bad;
	uint64_t stop;
};

static void *keep_writing(void *arg)
{
	struct worker *w = arg;
	unsigned int seed = w->id + 5;

	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		const uint64_t page = (uint64_t)rand_r(&seed) % 200;
		uint64_t v = page + 1;

		/* A word is what somebody wrote, or zero after a punch. */
		if (user_word(w->as, SHARED_BASE, page, &v, true))
			w->nr_bad++;
		if (user_word(w->as, SHARED_BASE, page, &v, false) || (v != 0 && v != page + 1))
			w->nr_bad++;
	}
	return NULL;
}

static void punching_under_writers(struct ktest *t)
{
	static struct worker w[3];
	pthread_t threads[3];
	struct object *obj;

	ASSERT_TRUE(t, cache_start(t));
	fake_delay_us(100);
	obj = object_shared_create(200 * PAGE_SIZE, false);
	for (unsigned int i = 0; i < 3; i++) {
		w[i] = (struct worker){ .obj = obj, .as = space_create(obj, 200), .id = i };
		ASSERT_EQ(t, pthread_create(&threads[i], NULL, keep_writing, &w[i]), 0);
	}
	for (unsigned int n = 0; n < 60; n++)
		EXPECT_EQ(t, object_shared_punch(obj, n % 7 * 10, 200), 0);
	for (unsigned int i = 0; i < 3; i++)
		__atomic_store_n(&w[i].stop, 1, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(t, w[i].nr_bad, 0u);
	}
	EXPECT_EQ(t, object_shared_punch(obj, 0, 200), 0);
	EXPECT_EQ(t, object_shared_pages(obj), 0u);
	for (uint64_t i = 0; i < 200; i++)
		EXPECT_EQ(t, read_word(t, obj, i), 0u);
	for (unsigned int i = 0; i < 3; i++)
		aspace_put(w[i].as);
	object_put(obj);
	all_gone(t);
}

/* Truncation waits for pins and a fault for truncation: a thread that has a pin must not fault. */
static void a_fault_under_a_pin_is_caught(struct ktest *t)
{
	struct object *obj;
	struct aspace *as;
	struct line *line;
	static int err;

	if (!cache_start(t))
		return;
	obj = object_shared_create(4 * PAGE_SIZE, false);
	ASSERT_TRUE(t, !IS_ERR(obj));
	as = space_create(obj, 4);
	ASSERT_EQ(t, object_shared_get(obj, 0, true, &line), 0);
	EXPECT_TRUE(t, SHIM_PANICS(err = aspace_fault(as, SHARED_BASE, FAULT_ACC_READ)));
	EXPECT_EQ(t, err, 0);
	line_mark_dirty(line);
	excache_put(line);
	EXPECT_EQ(t, aspace_fault(as, SHARED_BASE, FAULT_ACC_READ), 0);
	aspace_put(as);
	object_put(obj);
	all_gone(t);
}

/* Spaces that an earlier life of the processor still has somewhere have other names. */
static void names_of_two_lives_differ(struct ktest *t)
{
	EXPECT_TRUE(t, object_number(7, 1, 1) != object_number(7, 2, 1));
	for (uint32_t incarn = 1; incarn < 2000; incarn++) {
		const uint64_t number = object_number(7, incarn, 1);

		EXPECT_EQ(t, number >> 32, 7);
		EXPECT_EQ(t, object_number(7, incarn, UINT32_MAX) >> 32, 7);
		EXPECT_TRUE(t, number != object_number(7, incarn, 2));
		EXPECT_EQ(t, object_id(11, number), (11ull << 48) + number);
	}
}

static const struct ktest_case cases[] = {
	KTEST(names_of_two_lives_differ),     KTEST(all_spaces_see_one_memory),
	KTEST(shared_pages_are_counted_once), KTEST(holes_stay_holes),
	KTEST(truncation_reaches_mappings),   KTEST(private_mappings_copy),
	KTEST(read_only_mappings_stay_so),    KTEST(refused_creation_leaves_nothing),
	KTEST(another_home_is_another_name),  KTEST(punching_under_writers),
	KTEST(a_fault_under_a_pin_is_caught), { 0 },
};
static const struct ktest_suite suite = { .name = "processor.shared", .cases = cases };
KTEST_SUITE(suite);
