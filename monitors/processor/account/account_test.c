/* SPDX-License-Identifier: MIT */
/*
 * Accounts of kernel memory: limits, the reserve, objects that outlive their program, and random
 * charges of programs that come and go.
 */
#include "account.h"

#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/frame.h>

#define KIB 1024u

static struct kmem_account *begin(uint64_t program, uint64_t reserve)
{
	kmem_account_set_limits(program, reserve);
	return kmem_account_create();
}

static void end(struct kmem_account *a)
{
	kmem_account_put(a);
	kmem_account_set_limits(UINT64_MAX, 0);
}

static void the_sum_is_bounded(struct ktest *t)
{
	struct kmem_account *a = begin(64 * KIB, 0);

	ASSERT_TRUE(t, a != NULL);
	EXPECT_EQ(t, kmem_program_limit(), 64 * KIB);
	EXPECT_EQ(t, kmem_charge(a, 63 * KIB), 0);
	EXPECT_EQ(t, kmem_charge(a, KIB + 1), -ENOMEM);
	EXPECT_EQ(t, kmem_charge(a, KIB - 7), 0); /* rounded up: all there is */
	EXPECT_EQ(t, kmem_charged(a), 64 * KIB);
	EXPECT_EQ(t, kmem_charge(a, 1), -ENOMEM);
	EXPECT_EQ(t, kmem_charge(a, SIZE_MAX), -ENOMEM);
	EXPECT_EQ(t, kmem_charge(a, SIZE_MAX / 2), -ENOMEM);
	EXPECT_EQ(t, kmem_charge(a, 0), 0);
	EXPECT_TRUE(t, kmem_alloc(a, 1) == NULL);
	EXPECT_TRUE(t, kmem_alloc(a, SIZE_MAX) == NULL);
	kmem_charge_anyway(a, 100);
	EXPECT_EQ(t, kmem_charged(a), 64 * KIB + 104);
	kmem_uncharge(a, 100);
	kmem_uncharge(a, KIB - 7);
	EXPECT_EQ(t, kmem_charge(a, KIB), 0);
	kmem_uncharge(a, KIB);
	kmem_uncharge(a, 63 * KIB);
	EXPECT_EQ(t, kmem_charged(a), 0);
	end(a);
}

static void another_program_has_its_own(struct ktest *t)
{
	struct kmem_account *a = begin(64 * KIB, 0), *b = kmem_account_create();

	EXPECT_EQ(t, kmem_charge(a, 64 * KIB), 0);
	EXPECT_EQ(t, kmem_charge(a, 8), -ENOMEM);
	EXPECT_EQ(t, kmem_charge(b, 64 * KIB), 0);
	EXPECT_EQ(t, kmem_charge(NULL, SIZE_MAX), 0); /* the node itself */
	kmem_uncharge(NULL, SIZE_MAX);
	kmem_uncharge(a, 64 * KIB);
	kmem_uncharge(b, 64 * KIB);
	EXPECT_EQ(t, kmem_charged(b), 0);
	kmem_account_put(b);
	end(a);
}

/* Memory is short: who has much gets no more, who has little goes on. */
static void the_reserve_is_for_those_with_little(struct ktest *t)
{
	const uint64_t all = (frames_free_count() + 1) << PAGE_SHIFT;
	struct kmem_account *much = begin(UINT64_MAX, 0), *little = kmem_account_create();

	EXPECT_EQ(t, kmem_charge(much, all / 8), 0);
	kmem_account_set_limits(UINT64_MAX, all);
	EXPECT_TRUE(t, kmem_is_short());
	EXPECT_EQ(t, kmem_charge(much, 8), -ENOMEM);
	EXPECT_EQ(t, kmem_charge(little, all / 8 / 8 * 8), 0);
	EXPECT_EQ(t, kmem_charge(little, 8), -ENOMEM);
	kmem_uncharge(little, all / 8 / 8 * 8);
	kmem_account_set_limits(UINT64_MAX, 0);
	EXPECT_FALSE(t, kmem_is_short());
	EXPECT_EQ(t, kmem_charge(much, 8), 0);
	kmem_uncharge(much, 8);
	kmem_uncharge(much, all / 8);
	kmem_account_put(little);
	end(much);
}

static void an_object_outlives_its_program(struct ktest *t)
{
	struct kmem_account *a = begin(64 * KIB, 0);
	uint8_t *p = kmem_alloc(a, 100);
	char *s = kmem_strdup(a, "name");

	ASSERT_TRUE(t, p && s);
	for (size_t i = 0; i < 100; i++)
		EXPECT_EQ(t, p[i], 0);
	EXPECT_EQ(t, (uintptr_t)p % 16, 0);
	EXPECT_STREQ(t, s, "name");
	EXPECT_GE(t, kmem_charged(a), 100 + 5 + 32);
	end(a); /* the sanitizer would see a use after the account's end */
	kmem_free(s);
	EXPECT_GE(t, kmem_charged(a), 116);
	kmem_free(p);
	kmem_free(NULL);
	p = kmem_alloc(NULL, 10);
	kmem_free(p);
}

/* One program takes all that it can get; the last eighth is for those with few. */
static void the_last_eighth_is_for_those_with_few(struct ktest *t)
{
	struct kmem_account *much = kmem_account_create(), *few = kmem_account_create();
	const uint64_t max = 6400;
	uint64_t nr = 0;

	ASSERT_EQ(t, kmem_count(KMEM_EPOLL_ITEMS), 0u);
	while (kmem_take(much, KMEM_EPOLL_ITEMS, 1, max))
		nr++;
	EXPECT_EQ(t, nr, 5600u);
	for (uint64_t i = 0; i < 100; i++)
		EXPECT_TRUE(t, kmem_take(few, KMEM_EPOLL_ITEMS, 1, max));
	EXPECT_FALSE(t, kmem_take(few, KMEM_EPOLL_ITEMS, 1, max));
	EXPECT_TRUE(t, kmem_take(few, KMEM_FILES, 1, max)); /* another kind */
	kmem_give(few, KMEM_FILES, 1);
	EXPECT_TRUE(t, kmem_take(NULL, KMEM_EPOLL_ITEMS, 700, max));
	EXPECT_FALSE(t, kmem_take(NULL, KMEM_EPOLL_ITEMS, 1, max));
	kmem_give(NULL, KMEM_EPOLL_ITEMS, 700);
	kmem_give(much, KMEM_EPOLL_ITEMS, 200);
	EXPECT_TRUE(t, kmem_take(much, KMEM_EPOLL_ITEMS, 1, max));
	kmem_give(much, KMEM_EPOLL_ITEMS, nr - 199);
	kmem_give(few, KMEM_EPOLL_ITEMS, 100);
	EXPECT_EQ(t, kmem_count(KMEM_EPOLL_ITEMS), 0u);
	kmem_account_put(much);
	kmem_account_put(few);
}

#define PROGRAMS 3
#define OBJECTS  64
#define ROUNDS   200000

struct model {
	void *p[OBJECTS];
	size_t charge[OBJECTS]; /* of those that are charges only */
	struct kmem_account *a[OBJECTS];
};

static uint32_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

static void forget(struct model *m, uint32_t i)
{
	if (m->p[i])
		kmem_free(m->p[i]);
	else if (m->a[i])
		kmem_uncharge(m->a[i], m->charge[i]);
	m->p[i] = NULL;
	m->a[i] = NULL;
}

/* Random charges of programs that come and go; the sum is never over, and zero at the end. */
static void random_charges_end_at_zero(struct ktest *t)
{
	struct kmem_account *programs[PROGRAMS];
	static struct model m;
	uint64_t seed = 11, refused = 0;

	kmem_account_set_limits(32 * KIB, 0);
	for (size_t i = 0; i < PROGRAMS; i++)
		programs[i] = kmem_account_create();
	for (uint32_t n = 0; n < ROUNDS; n++) {
		const uint32_t i = next_random(&seed) % OBJECTS, k = next_random(&seed) % PROGRAMS;
		const size_t size = next_random(&seed) % 4000 + 1;
		struct kmem_account *a = programs[k];

		EXPECT_LE(t, kmem_charged(a), 32 * KIB);
		if (next_random(&seed) % 1000 == 0) {
			kmem_account_put(a);
			programs[k] = kmem_account_create();
		} else if (m.a[i]) {
			forget(&m, i);
		} else if (size % 2) {
			m.p[i] = kmem_alloc(a, size);
			m.a[i] = m.p[i] ? a : NULL;
			refused += !m.p[i];
		} else {
			m.charge[i] = size;
			m.a[i] = kmem_charge(a, size) ? NULL : a;
			refused += !m.a[i];
		}
	}
	EXPECT_GT(t, refused, 100);
	for (uint32_t i = 0; i < OBJECTS; i++)
		forget(&m, i);
	for (size_t i = 0; i < PROGRAMS; i++) {
		EXPECT_EQ(t, kmem_charged(programs[i]), 0);
		kmem_account_put(programs[i]);
	}
	kmem_account_set_limits(UINT64_MAX, 0);
}

static const struct ktest_case account_cases[] = {
	KTEST(the_sum_is_bounded),
	KTEST(another_program_has_its_own),
	KTEST(the_reserve_is_for_those_with_little),
	KTEST(the_last_eighth_is_for_those_with_few),
	KTEST(an_object_outlives_its_program),
	KTEST(random_charges_end_at_zero),
	{ 0 },
};
static const struct ktest_suite account_suite = { .name = "processor.account",
						  .cases = account_cases };
KTEST_SUITE(account_suite);
