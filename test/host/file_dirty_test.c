/* SPDX-License-Identifier: MIT */
/*
 * Lines of files that are mapped for writing: stores are seen, written back and not lost, lines
 * that hold them stay in the cache and are not too many, and misses of others go on.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kernel/time.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/excache/cache_private.h>
#include <processor/excache/excache.h>
#include <processor/excache/file_dirty.h>
#include <processor/excache/object.h>
#include <processor/mm/aspace.h>
#include <shim/pgtable.h>
#include <shim/shim.h>

#include "fake_owner.h"
#include "user_word.h"

#define MAP_BASE  0x6000000ull
#define ANON_BASE 0x400000ull
#define PAGES     120u /* of the file; the cache has 128 lines in sets, and 32 spare */
#define LIMIT     40u  /* a quarter of the lines */

static uint8_t bytes[PAGES * PAGE_SIZE]; /* at the memory node */
static unsigned int asked;               /* for the size; atomic */
static struct object *obj;

static int file_size(struct object *o, uint64_t *size)
{
	__atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
	*size = PAGES * PAGE_SIZE;
	return 0;
}

static pthread_mutex_t one_flush = PTHREAD_MUTEX_INITIALIZER;

/* As vfs/live_map.c does: one at a time. */
static int flush(struct object *o, uint64_t first, uint64_t end, bool sync)
{
	static uint8_t copy[32][PAGE_SIZE];
	uint64_t pgoffs[32], stamp;
	size_t nr;

	pthread_mutex_lock(&one_flush);
	stamp = file_dirty_stamp(o);
	while ((nr = file_dirty_list(o, first, end, stamp, false, pgoffs, 32))) {
		for (size_t i = 0; i < nr; i++) {
			if (file_dirty_take(o, pgoffs[i], copy[i]))
				pgoffs[i] = UINT64_MAX;
		}
		usleep(100); /* the message */
		for (size_t i = 0; i < nr; i++) {
			if (pgoffs[i] == UINT64_MAX)
				continue;
			memcpy(bytes + pgoffs[i] * PAGE_SIZE, copy[i], PAGE_SIZE);
			file_dirty_done(o, pgoffs[i], false);
		}
	}
	pthread_mutex_unlock(&one_flush);
	return 0;
}

/* Pages that have a place on the disk, or could get one; what was asked for it. */
static struct {
	uint64_t nr;
	unsigned int asked;
	uint64_t last_nr;
	bool cut; /* the next answer comes after a truncation */
	int err;  /* instead of an answer */
} room;

static int find_room(struct object *o, uint64_t pgoff, uint64_t nr, uint64_t *end)
{
	(void)o;
	__atomic_add_fetch(&room.asked, 1, __ATOMIC_RELAXED);
	room.last_nr = nr;
	if (room.err)
		return room.err;
	if (pgoff + nr > room.nr)
		return -ENOSPC;
	if (room.cut)
		file_dirty_forget_room(o);
	room.cut = false;
	*end = pgoff + nr;
	return 0;
}

static void start(struct ktest *t)
{
	static const struct file_dirty_ops ops = { .size = file_size,
						   .room = find_room,
						   .flush = flush };
	static uint64_t next_ino = 9000;
	const struct file_id file = { .ino = next_ino++, .gen = 1, .node = 9 };

	fake_cache();
	fake_reset();
	memset(bytes, 0, sizeof(bytes));
	fake_file(PAGES, UINT64_MAX);
	fake_file_bytes(bytes);
	file_dirty_set_ops(&ops);
	room.nr = UINT64_MAX;
	room.asked = 0;
	obj = object_live_get(&file, 1);
	if (IS_ERR(obj))
		abort();
	obj->size = PAGES * PAGE_SIZE;
}

/* A space that maps one page more than the file has, and some memory of its own. */
static struct aspace *space(struct ktest *t)
{
	static uint64_t next_id = 1ull << 22;
	struct aspace *as = aspace_create(next_id++, 1);
	const struct vma file = { .start = MAP_BASE,
				  .end = MAP_BASE + (PAGES + 1) * PAGE_SIZE,
				  .prot = VMA_PROT_READ | VMA_PROT_WRITE,
				  .flags = VMA_FILE | VMA_SHARED,
				  .file = obj,
				  .file_bytes = UINT64_MAX };
	const struct vma anon = { .start = ANON_BASE,
				  .end = ANON_BASE + 400 * PAGE_SIZE,
				  .prot = VMA_PROT_READ | VMA_PROT_WRITE };

	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	EXPECT_EQ(t, aspace_set_vma(as, &file, SEQ_ANY), 0);
	EXPECT_EQ(t, aspace_set_vma(as, &anon, SEQ_ANY), 0);
	return as;
}

static void finish(struct ktest *t, struct aspace *as)
{
	aspace_put(as);
	fake_settle();
	excache_drop(obj, 0, UINT64_MAX);
	EXPECT_FALSE(t, file_dirty_any(obj));
	EXPECT_EQ(t, file_dirty_next_of(file_dirty_round(), 9), NULL);
	object_put(obj);
	file_dirty_set_ops(NULL);
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
}

static int store(struct aspace *as, uint64_t page, uint64_t v)
{
	return user_word(as, MAP_BASE, page, &v, true);
}

static uint64_t load(struct aspace *as, uint64_t page)
{
	uint64_t v = ~0ull;

	return user_word(as, MAP_BASE, page, &v, false) ? ~0ull : v;
}

static uint64_t at_node(uint64_t page)
{
	uint64_t v;

	memcpy(&v, bytes + page * PAGE_SIZE + page % 512 * 8, 8);
	return v;
}

static bool is_writable(struct aspace *as, uint64_t page)
{
	struct pgtable_entry e;
	bool yes;

	spin_lock(&as->lock);
	yes = pgtable_query(as->pt, MAP_BASE + page * PAGE_SIZE, &e) && (e.prot & PGT_WRITE);
	spin_unlock(&as->lock);
	return yes;
}

static void a_store_is_seen_each_time(struct ktest *t)
{
	struct aspace *as, *other;

	start(t);
	as = space(t);
	other = space(t);
	EXPECT_EQ(t, load(as, 3), 0u);
	EXPECT_FALSE(t, is_writable(as, 3));
	EXPECT_FALSE(t, file_dirty_any(obj));
	EXPECT_EQ(t, store(as, 3, 33), 0);
	EXPECT_TRUE(t, is_writable(as, 3) && file_dirty_any(obj));
	EXPECT_EQ(t, store(other, 3, 34), 0);
	EXPECT_EQ(t, load(as, 3), 34u);
	EXPECT_EQ(t, at_node(3), 0u);
	EXPECT_EQ(t, flush(obj, 4, PAGES, false), 0);
	EXPECT_EQ(t, at_node(3), 0u); /* not in that range */
	EXPECT_EQ(t, flush(obj, 0, PAGES, false), 0);
	EXPECT_EQ(t, at_node(3), 34u);
	/* Clean, and no space may store without a fault. */
	EXPECT_FALSE(t, file_dirty_any(obj) || is_writable(as, 3) || is_writable(other, 3));
	EXPECT_EQ(t, store(other, 3, 35), 0);
	EXPECT_TRUE(t, file_dirty_any(obj) && !is_writable(as, 3));
	EXPECT_EQ(t, flush(obj, 0, PAGES, false), 0);
	EXPECT_EQ(t, at_node(3), 35u);
	aspace_put(other);
	finish(t, as);
}

static void between_the_copy_and_the_answer(struct ktest *t)
{
	static uint8_t copy[PAGE_SIZE];
	struct aspace *as;

	start(t);
	as = space(t);
	ASSERT_EQ(t, store(as, 5, 1), 0);
	ASSERT_EQ(t, file_dirty_take(obj, 5, copy), 0);
	EXPECT_EQ(t, file_dirty_take(obj, 5, copy), -ENOENT);
	EXPECT_TRUE(t, file_dirty_any(obj));
	/* A store meanwhile is not in the copy: it is for the next one. */
	ASSERT_EQ(t, store(as, 5, 2), 0);
	file_dirty_done(obj, 5, false);
	EXPECT_TRUE(t, file_dirty_any(obj));
	ASSERT_EQ(t, flush(obj, 0, PAGES, false), 0);
	EXPECT_EQ(t, at_node(5), 2u);
	/* It did not arrive. */
	ASSERT_EQ(t, store(as, 5, 3), 0);
	ASSERT_EQ(t, file_dirty_take(obj, 5, copy), 0);
	file_dirty_done(obj, 5, true);
	ASSERT_EQ(t, flush(obj, 0, PAGES, false), 0);
	EXPECT_EQ(t, at_node(5), 3u);
	/* A truncation is faster. */
	ASSERT_EQ(t, store(as, 5, 4), 0);
	ASSERT_EQ(t, file_dirty_take(obj, 5, copy), 0);
	excache_drop(obj, 5, 6);
	file_dirty_done(obj, 5, true);
	EXPECT_FALSE(t, file_dirty_any(obj));
	EXPECT_EQ(t, load(as, 5), 3u);
	finish(t, as);
}

static void dirty_lines_stay_and_others_go_on(struct ktest *t)
{
	struct aspace *as;
	uint64_t v;

	start(t);
	as = space(t);
	for (uint64_t i = 0; i < LIMIT; i++)
		ASSERT_EQ(t, store(as, i, i + 1), 0);
	/* No thread writes back: all misses of memory find another line. */
	for (unsigned int round = 1; round < 4; round++) {
		for (uint64_t i = 0; i < 400; i++) {
			v = i + round;
			ASSERT_EQ(t, user_word(as, ANON_BASE, i, &v, true), 0);
		}
	}
	EXPECT_EQ(t, excache_drop_clean(obj, 0, UINT64_MAX), 0);
	for (uint64_t i = 0; i < LIMIT; i++)
		EXPECT_EQ(t, load(as, i), i + 1);
	for (uint64_t i = 0; i < 400; i++) {
		ASSERT_EQ(t, user_word(as, ANON_BASE, i, &v, false), 0);
		EXPECT_EQ(t, v, i + 3);
	}
	ASSERT_EQ(t, flush(obj, 0, PAGES, false), 0);
	finish(t, as);
}

static void behind_the_end(struct ktest *t)
{
	struct aspace *as;

	start(t);
	as = space(t);
	EXPECT_EQ(t, store(as, PAGES, 1), -EIO);
	/* Another processor has made it longer than is known here. */
	obj->size = PAGE_SIZE;
	asked = 0;
	EXPECT_EQ(t, store(as, 7, 1), 0);
	EXPECT_EQ(t, asked, 1u);
	finish(t, as);
}

/* A store has a place on the disk before it is made; what is known of places does not last. */
static void a_store_needs_its_place(struct ktest *t)
{
	struct aspace *as;

	start(t);
	as = space(t);
	room.nr = 12;
	EXPECT_EQ(t, store(as, 12, 1), -ENOSPC);
	EXPECT_FALSE(t, file_dirty_any(obj));
	EXPECT_EQ(t, load(as, 12), 0u);
	/* In order: 1, 2, 4 pages at a time; 8 are too many, so 1, 2; then 4, 2 and 2 are. */
	room.asked = 0;
	for (uint64_t i = 0; i < 12; i++)
		EXPECT_EQ(t, store(as, i, i + 1), 0);
	EXPECT_EQ(t, store(as, 12, 1), -ENOSPC);
	EXPECT_EQ(t, room.asked, 3u + 3 + 2 + 2 + 2);
	EXPECT_EQ(t, flush(obj, 0, PAGES, false), 0);
	EXPECT_EQ(t, store(as, 11, 5), 0);
	/* A truncation, and the time. */
	room.asked = 0;
	EXPECT_EQ(t, flush(obj, 0, PAGES, false), 0);
	file_dirty_forget_room(obj);
	EXPECT_EQ(t, store(as, 11, 6), 0);
	EXPECT_EQ(t, room.asked, 1u);
	/* The memory node that knew the place has gone: its successor is asked, at once. */
	EXPECT_EQ(t, flush(obj, 0, PAGES, false), 0);
	file_dirty_node_gone();
	EXPECT_EQ(t, store(as, 11, 7), 0);
	EXPECT_EQ(t, room.asked, 2u);
	EXPECT_EQ(t, flush(obj, 0, PAGES, false), 0);
	shim_time_advance_ns(31 * NSEC_PER_SEC);
	EXPECT_EQ(t, store(as, 11, 7), 0);
	EXPECT_EQ(t, room.asked, 3u);
	/* An answer from before a change is not relied on, not even for the one store. */
	EXPECT_EQ(t, flush(obj, 0, PAGES, false), 0);
	file_dirty_forget_room(obj);
	room.cut = true;
	room.asked = 0;
	EXPECT_EQ(t, store(as, 11, 8), 0);
	EXPECT_EQ(t, room.asked, 2u);
	EXPECT_EQ(t, flush(obj, 0, PAGES, false), 0);
	EXPECT_EQ(t, store(as, 11, 9), 0);
	EXPECT_EQ(t, room.asked, 2u);
	/* The program gets a signal for anything that its node cannot do. */
	file_dirty_forget_room(obj);
	room.err = -EDQUOT;
	EXPECT_EQ(t, store(as, 10, 1), -ENOSPC);
	room.err = -ENOMEM;
	EXPECT_EQ(t, store(as, 10, 1), -EIO);
	room.err = 0;
	EXPECT_EQ(t, flush(obj, 0, PAGES, false), 0);
	finish(t, as);
}

struct writer {
	pthread_t thread;
	struct aspace *as;
	unsigned int seed, odd;
	int err;
};

static unsigned int running; /* atomic: writers */
static uint64_t last[PAGES]; /* atomic: what was stored last */

/* Each page has one writer, so that what it stored last is what must be there. */
static void *write_randomly(void *arg)
{
	struct writer *w = arg;
	uint64_t page, v = 1;

	for (int i = 0; i < 2000 && !w->err; i++) {
		page = (uint64_t)rand_r(&w->seed) % (PAGES / 2) * 2 + w->odd;
		v++;
		w->err = store(w->as, page, v);
		__atomic_store_n(&last[page], v, __ATOMIC_RELAXED);
	}
	__atomic_sub_fetch(&running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void at_the_limit_faults_wait(struct ktest *t)
{
	struct writer w[2] = { { .seed = 1 }, { .seed = 2, .odd = 1 } };
	unsigned int most = 0;
	struct object *due;

	start(t);
	memset(last, 0, sizeof(last));
	running = 2;
	for (int i = 0; i < 2; i++) {
		w[i].as = space(t);
		ASSERT_EQ(t, pthread_create(&w[i].thread, NULL, write_randomly, &w[i]), 0);
	}
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
		most = MAX(most, (unsigned int)READ_ONCE(obj->nr_dirty));
		file_dirty_wait_due(9, time_now_ns() + NSEC_PER_MSEC);
		due = file_dirty_next_due(9);
		if (!due)
			continue;
		EXPECT_EQ(t, due, obj);
		flush(due, 0, UINT64_MAX, false);
		object_put(due);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT_EQ(t, w[i].err, 0);
	}
	EXPECT_LE(t, most, LIMIT);
	EXPECT_GT(t, most, LIMIT / 2);
	flush(obj, 0, UINT64_MAX, false);
	for (uint64_t i = 0; i < PAGES; i++) {
		EXPECT_EQ(t, load(w[0].as, i), last[i]);
		EXPECT_EQ(t, at_node(i), last[i]);
	}
	aspace_put(w[1].as);
	finish(t, w[0].as);
}

static void a_sealed_file_is_not_stored_into(struct ktest *t)
{
	struct writer w = { .seed = 5 };

	start(t);
	w.as = space(t);
	ASSERT_EQ(t, store(w.as, 2, 1), 0);
	file_dirty_seal(obj);
	ASSERT_EQ(t, flush(obj, 0, PAGES, false), 0);
	running = 1;
	ASSERT_EQ(t, pthread_create(&w.thread, NULL, write_randomly, &w), 0);
	for (int i = 0; i < 20; i++) {
		EXPECT_FALSE(t, file_dirty_any(obj));
		usleep(1000);
	}
	excache_drop(obj, 0, UINT64_MAX);
	file_dirty_unseal(obj);
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE))
		flush(obj, 0, UINT64_MAX, false);
	pthread_join(w.thread, NULL);
	EXPECT_EQ(t, w.err, 0);
	finish(t, w.as);
}

/* Each round has each object once, also one whose copy is on its way. */
static void a_round_meets_all(struct ktest *t)
{
	static uint8_t copy[PAGE_SIZE];
	uint64_t first, second;
	struct object *got;
	struct aspace *as;

	start(t);
	as = space(t);
	first = file_dirty_round();
	EXPECT_EQ(t, file_dirty_next_of(first, 9), NULL);
	ASSERT_EQ(t, store(as, 1, 1), 0);
	ASSERT_EQ(t, file_dirty_take(obj, 1, copy), 0);
	second = file_dirty_round();
	got = file_dirty_next_of(second, 9);
	EXPECT_EQ(t, got, obj);
	EXPECT_EQ(t, file_dirty_next_of(second, 9), NULL);
	if (got)
		object_put(got);
	EXPECT_EQ(t, file_dirty_next_due(9), NULL); /* it is not old yet */
	file_dirty_soon(obj);
	got = file_dirty_next_due(9);
	EXPECT_EQ(t, got, obj);
	if (got)
		object_put(got);
	file_dirty_done(obj, 1, false);
	EXPECT_EQ(t, file_dirty_next_of(file_dirty_round(), 9), NULL);
	finish(t, as);
}

/* In any order of the stores: a file that grows has no page too early. */
static void the_first_pages_are_listed_first(struct ktest *t)
{
	static const uint64_t stored[] = { 9, 3, 70, 5, 1, 40, 8, 2 };
	uint64_t pgoffs[8];
	struct aspace *as;

	start(t);
	as = space(t);
	for (size_t i = 0; i < ARRAY_SIZE(stored); i++)
		ASSERT_EQ(t, store(as, stored[i], 1), 0);
	ASSERT_EQ(t, file_dirty_list(obj, 2, 70, file_dirty_stamp(obj), true, pgoffs, 4), 4);
	EXPECT_EQ(t, pgoffs[0], 2);
	EXPECT_EQ(t, pgoffs[1], 3);
	EXPECT_EQ(t, pgoffs[2], 5);
	EXPECT_EQ(t, pgoffs[3], 8);
	/* Or the oldest ones. */
	ASSERT_EQ(t, file_dirty_list(obj, 2, 70, file_dirty_stamp(obj), false, pgoffs, 4), 4);
	EXPECT_EQ(t, pgoffs[0], 3);
	EXPECT_EQ(t, pgoffs[3], 40);
	EXPECT_EQ(t, file_dirty_list(obj, 0, PAGES, file_dirty_stamp(obj), true, pgoffs, 8), 8);
	EXPECT_EQ(t, pgoffs[0], 1);
	EXPECT_EQ(t, pgoffs[7], 70);
	flush(obj, 0, UINT64_MAX, false);
	finish(t, as);
}

/* A page behind the end is made here; it stays as long as it is marked, and its room is known. */
static void a_page_behind_the_end(struct ktest *t)
{
	static const uint8_t zeroes[PAGE_SIZE];
	static uint8_t copy[PAGE_SIZE];
	uint64_t pgoffs[2], changes;
	struct aspace *as;
	struct line *line;

	start(t);
	as = space(t);
	EXPECT_FALSE(t, file_dirty_has_room(obj, PAGES, &changes));
	file_dirty_note_room(obj, PAGES, PAGES + 2, time_now_ns(), changes);
	EXPECT_TRUE(t, file_dirty_has_room(obj, PAGES + 1, &changes));
	EXPECT_FALSE(t, file_dirty_has_room(obj, PAGES + 2, &changes));
	ASSERT_EQ(t, excache_get(obj, PAGES, EXCACHE_BLANK, &line), 0);
	EXPECT_EQ(t, memcmp(line_data(line), zeroes, PAGE_SIZE), 0);
	ASSERT_TRUE(t, file_dirty_mark(line, changes));
	memset(line_data(line), 'b', PAGE_SIZE);
	excache_put(line);
	for (uint64_t i = 0; i < PAGES; i++)
		(void)load(as, i); /* all of the cache, and more */
	ASSERT_EQ(t, excache_get(obj, PAGES, EXCACHE_BLANK, &line), 0);
	EXPECT_EQ(t, *(uint8_t *)line_data(line), 'b');
	/* A change of the places comes between the look and the mark. */
	file_dirty_forget_room(obj);
	EXPECT_FALSE(t, file_dirty_mark(line, changes));
	excache_put(line);
	EXPECT_FALSE(t, file_dirty_has_room(obj, PAGES, &changes));
	/* And one between the request and its answer. */
	file_dirty_forget_room(obj);
	file_dirty_note_room(obj, PAGES, PAGES + 2, time_now_ns(), changes);
	EXPECT_FALSE(t, file_dirty_has_room(obj, PAGES, &changes));
	shim_time_advance_ns(40 * NSEC_PER_SEC);
	file_dirty_note_room(obj, PAGES, PAGES + 2, time_now_ns() - 40 * NSEC_PER_SEC, changes);
	EXPECT_FALSE(t, file_dirty_has_room(obj, PAGES, &changes)); /* it is too old */
	ASSERT_EQ(t, file_dirty_list(obj, 0, UINT64_MAX, file_dirty_stamp(obj), true, pgoffs, 2),
		  1);
	ASSERT_EQ(t, pgoffs[0], PAGES);
	ASSERT_EQ(t, file_dirty_take(obj, PAGES, copy), 0);
	EXPECT_EQ(t, copy[PAGE_SIZE - 1], 'b');
	file_dirty_done(obj, PAGES, false);
	finish(t, as);
}

/* A silent node's files keep no other's waiting. */
static void each_node_has_its_files(struct ktest *t)
{
	struct object *got;
	struct aspace *as;

	start(t);
	as = space(t);
	ASSERT_EQ(t, store(as, 1, 1), 0);
	file_dirty_soon(obj);
	EXPECT_EQ(t, file_dirty_next_due(8), NULL);
	EXPECT_EQ(t, file_dirty_next_of(file_dirty_round(), 8), NULL);
	got = file_dirty_next_due(9);
	EXPECT_EQ(t, got, obj);
	if (got)
		object_put(got);
	flush(obj, 0, UINT64_MAX, false);
	finish(t, as);
}

static const struct ktest_case cases[] = {
	KTEST(a_store_is_seen_each_time),         KTEST(between_the_copy_and_the_answer),
	KTEST(dirty_lines_stay_and_others_go_on), KTEST(behind_the_end),
	KTEST(a_store_needs_its_place),           KTEST(at_the_limit_faults_wait),
	KTEST(a_sealed_file_is_not_stored_into),  KTEST(a_round_meets_all),
	KTEST(the_first_pages_are_listed_first),  KTEST(a_page_behind_the_end),
	KTEST(each_node_has_its_files),           { 0 },
};
static const struct ktest_suite suite = { .name = "processor.file_dirty", .cases = cases };
KTEST_SUITE(suite);
