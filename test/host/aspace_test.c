/* SPDX-License-Identifier: MIT */
/*
 * The copies that an address space keeps: vmas split and trimmed, vRegion versions, the stored
 * bitmap, and the layout's sequence number.
 */
#include <stdlib.h>

#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/excache/excache.h>
#include <processor/excache/object.h>
#include <processor/mm/aspace.h>

#include "fake_owner.h"

#define P(n) (0x400000ull + (n) * PAGE_SIZE)

static struct aspace *space(void)
{
	static uint64_t next_id = 5000;
	struct aspace *as;

	fake_cache();
	fake_reset();
	as = aspace_create(next_id++, 1);
	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	return as;
}

static void set(struct ktest *t, struct aspace *as, uint64_t first, uint64_t end, uint32_t prot)
{
	const struct vma v = { .start = P(first), .end = P(end), .prot = prot };

	EXPECT_EQ(t, aspace_set_vma(as, &v, SEQ_ANY), 0);
}

/* Rights of each of the first @nr pages as digits; '-' where there is no vma. */
static const char *picture(struct aspace *as, uint64_t nr)
{
	static char text[32];
	struct vma v;
	struct layout_seq seq;

	for (uint64_t i = 0; i < nr; i++) {
		text[i] = '-';
		if (aspace_find_vma(as, P(i) + 5, &v, &seq) == 0) {
			text[i] = (char)('0' + v.prot);
			vma_release(&v);
		}
	}
	text[nr] = '\0';
	return text;
}

static void vmas_are_replaced_and_split(struct ktest *t)
{
	struct aspace *as = space();

	set(t, as, 1, 9, 3);
	EXPECT_STREQ(t, picture(as, 10), "-33333333-");
	set(t, as, 4, 6, 1);
	EXPECT_STREQ(t, picture(as, 10), "-33311333-");
	aspace_clear_vmas(as, P(2), P(5));
	EXPECT_STREQ(t, picture(as, 10), "-3---1333-");
	aspace_protect_vmas(as, P(0), P(7), 5);
	EXPECT_STREQ(t, picture(as, 10), "-5---5533-");
	set(t, as, 0, 10, 7);
	EXPECT_STREQ(t, picture(as, 10), "7777777777");
	aspace_clear_vmas(as, P(0), P(1));
	aspace_clear_vmas(as, P(9), P(10));
	EXPECT_STREQ(t, picture(as, 10), "-77777777-");
	aspace_put(as);
}

/* The rest of a file's mapping shows the same bytes at the same addresses as before. */
static void file_parts_follow_a_split(struct ktest *t)
{
	const struct file_attr attr = { .file = { .ino = 7777, .node = 9 },
					.version = 1,
					.size = 100 * PAGE_SIZE };
	struct object *obj = object_file_get(&attr);
	struct aspace *as = space();
	const struct vma v = { .start = P(0),
			       .end = P(8),
			       .prot = 3,
			       .flags = VMA_FILE,
			       .file = obj,
			       .pgoff = 10,
			       .file_bytes = 5 * PAGE_SIZE + 100 };
	struct vma out;
	struct layout_seq seq;

	ASSERT_FALSE(t, IS_ERR(obj));
	EXPECT_EQ(t, aspace_set_vma(as, &v, SEQ_ANY), 0);
	aspace_clear_vmas(as, P(2), P(3));
	ASSERT_EQ(t, aspace_find_vma(as, P(1), &out, &seq), 0);
	EXPECT_EQ(t, out.start, P(0));
	EXPECT_EQ(t, out.end, P(2));
	EXPECT_EQ(t, out.pgoff, 10u);
	vma_release(&out);
	ASSERT_EQ(t, aspace_find_vma(as, P(3), &out, &seq), 0);
	EXPECT_EQ(t, out.start, P(3));
	EXPECT_EQ(t, out.pgoff, 13u);
	EXPECT_EQ(t, out.file_bytes, 2 * PAGE_SIZE + 100);
	vma_release(&out);
	aspace_protect_vmas(as, P(7), P(8), 1);
	ASSERT_EQ(t, aspace_find_vma(as, P(7), &out, &seq), 0);
	EXPECT_EQ(t, out.file_bytes, 0u);
	EXPECT_EQ(t, out.prot, 1u);
	vma_release(&out);
	/* Ours, and one for each of the three parts. */
	EXPECT_EQ(t, __atomic_load_n((int *)&obj->refs, __ATOMIC_RELAXED), 4);
	aspace_put(as);
	EXPECT_EQ(t, __atomic_load_n((int *)&obj->refs, __ATOMIC_RELAXED), 1);
	object_put(obj);
}

static void faults_begin_outside_of_blocked_ranges(struct ktest *t)
{
	struct aspace *as = space();
	struct blocked_range r;
	struct layout_seq seq, now;
	struct vma v;

	set(t, as, 0, 4, 3);
	ASSERT_EQ(t, aspace_fault_begin(as, P(1), &v, &seq), 0);
	EXPECT_TRUE(t, layout_is_at(as, seq.map, false));
	EXPECT_EQ(t, as->seq.cow, seq.cow);
	EXPECT_TRUE(t, layout_is_at(as, seq.map, true));
	EXPECT_EQ(t, as->seq.cow, seq.cow + 1);
	aspace_block(as, &r, P(1), P(2));
	EXPECT_FALSE(t, layout_is_at(as, seq.map, true));
	aspace_fault_end(as);
	EXPECT_EQ(t, aspace_fault_begin(as, P(1), &v, &now), -EAGAIN);
	EXPECT_EQ(t, aspace_fault_begin(as, P(0), &v, &now), 0);
	aspace_fault_end(as);
	EXPECT_EQ(t, aspace_fault_begin(as, P(2), &v, &now), 0);
	aspace_fault_end(as);
	/* The thread that changes the layout may look at it. */
	EXPECT_EQ(t, aspace_find_vma(as, P(1), &v, &now), 0);
	aspace_unblock(as, &r);
	EXPECT_FALSE(t, layout_is_at(as, now.map, false));
	EXPECT_EQ(t, aspace_fault_begin(as, P(1), &v, &now), 0);
	aspace_fault_end(as);
	aspace_put(as);
}

static void stored_pages_are_kept_and_moved(struct ktest *t)
{
	static const uint64_t pages[] = { 0, 63, 64, 32767, 32768, 100000 };
	struct aspace *as = space();
	struct object *obj = as->anon;

	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		EXPECT_EQ(t, object_set_stored(obj, pages[i], i + 1), 0);
	object_set_place(obj, 65, 99); /* it is not stored */
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		EXPECT_TRUE(t, object_stored(obj, pages[i]));
		EXPECT_EQ(t, object_place(obj, pages[i]), i + 1);
		EXPECT_FALSE(t, object_stored(obj, pages[i] + 2));
	}
	object_clear_stored(obj, 64, 32768);
	EXPECT_TRUE(t, object_stored(obj, 63));
	EXPECT_FALSE(t, object_stored(obj, 64));
	EXPECT_FALSE(t, object_stored(obj, 32767));
	EXPECT_TRUE(t, object_stored(obj, 32768));
	EXPECT_EQ(t, object_place(obj, 63), 2);
	EXPECT_EQ(t, object_place(obj, 64), PLACE_NONE);
	EXPECT_EQ(t, object_place(obj, 65), PLACE_NONE);
	EXPECT_EQ(t, object_place(obj, 32768), 5);
	/* Stored again elsewhere: the old place is void, whatever the answer says. */
	EXPECT_EQ(t, object_set_stored(obj, 63, PLACE_NONE), 0);
	EXPECT_EQ(t, object_place(obj, 63), PLACE_NONE);
	EXPECT_EQ(t, object_set_stored(obj, 32767, PLACE_NONE), 0);
	EXPECT_EQ(t, object_place(obj, 32767), PLACE_NONE); /* not what it had before */
	object_clear_stored(obj, 32767, 32768);
	EXPECT_EQ(t, object_move_stored(obj, 32768, 70000, 1000000), 0);
	EXPECT_FALSE(t, object_stored(obj, 32768));
	EXPECT_TRUE(t, object_stored(obj, 1000000));
	EXPECT_EQ(t, object_place(obj, 1000000), PLACE_NONE); /* perhaps at another owner */
	EXPECT_TRUE(t, object_stored(obj, 1000000 + 100000 - 32768));
	aspace_put(as);
}

static void older_owners_do_not_win(struct ktest *t)
{
	const struct vregion first = { .owner = 2, .version = 5 };
	const struct vregion old = { .owner = 3, .version = 4 };
	const struct vregion next = { .owner = 3, .version = 6 };
	const uint64_t page = P(0) >> PAGE_SHIFT;
	struct aspace *as = space();
	struct object *obj = as->anon;
	uint32_t owner = 0;

	EXPECT_EQ(t, object_owner_cached(obj, page, &owner), -ENOENT);
	EXPECT_EQ(t, object_set_vregion(obj, 2, &first), 0);
	EXPECT_EQ(t, object_set_vregion(obj, 2, &old), 0);
	EXPECT_EQ(t, object_owner_cached(obj, page, &owner), 0);
	EXPECT_EQ(t, owner, 2u);
	EXPECT_EQ(t, object_set_vregion(obj, 2, &next), 0);
	EXPECT_EQ(t, object_owner_cached(obj, page, &owner), 0);
	EXPECT_EQ(t, owner, 3u);
	object_redirected(obj, page, NULL, 0, 0);
	EXPECT_EQ(t, object_owner_cached(obj, page, &owner), -ENOENT);
	aspace_put(as);
}

static const struct ktest_case cases[] = {
	KTEST(vmas_are_replaced_and_split),
	KTEST(file_parts_follow_a_split),
	KTEST(faults_begin_outside_of_blocked_ranges),
	KTEST(stored_pages_are_kept_and_moved),
	KTEST(older_owners_do_not_win),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.aspace", .cases = cases };
KTEST_SUITE(suite);
