/* SPDX-License-Identifier: MIT */
#include <lib/ktest.h>
#include <lib/list.h>

struct item {
	int value;
	struct list_head link;
	struct hlist_node hash;
};

/* The values in list order, as decimal digits: 1, 2, 3 gives 123. */
static int digits(const struct list_head *head)
{
	const struct item *it;
	int n = 0;

	list_for_each_entry(it, head, link)
		n = n * 10 + it->value;
	return n;
}

static int digits_backwards(const struct list_head *head)
{
	const struct item *it;
	int n = 0;

	list_for_each_entry_reverse(it, head, link)
		n = n * 10 + it->value;
	return n;
}

static void fill(struct item *items, int n, struct list_head *head)
{
	for (int i = 0; i < n; i++) {
		items[i].value = i + 1;
		list_add_tail(&items[i].link, head);
	}
}

static void add_and_order(struct ktest *t)
{
	struct item items[3];
	LIST_HEAD(head);

	EXPECT_TRUE(t, list_empty(&head));
	EXPECT_TRUE(t, list_first_entry_or_null(&head, struct item, link) == NULL);
	fill(items, 3, &head);
	EXPECT_EQ(t, digits(&head), 123);
	EXPECT_EQ(t, digits_backwards(&head), 321);
	EXPECT_EQ(t, list_length(&head), 3);
	EXPECT_EQ(t, list_first_entry(&head, struct item, link)->value, 1);
	EXPECT_EQ(t, list_last_entry(&head, struct item, link)->value, 3);

	list_move(&items[2].link, &head);
	EXPECT_EQ(t, digits(&head), 312);
	list_move_tail(&items[2].link, &head);
	EXPECT_EQ(t, digits(&head), 123);
	EXPECT_TRUE(t, list_is_last(&items[2].link, &head));
}

static void delete_while_walking(struct ktest *t)
{
	struct item items[5];
	struct item *it;
	struct item *next;
	LIST_HEAD(head);

	fill(items, 5, &head);
	list_for_each_entry_safe(it, next, &head, link) {
		if (it->value % 2)
			list_del(&it->link);
	}
	EXPECT_EQ(t, digits(&head), 24);
	EXPECT_EQ(t, digits_backwards(&head), 42);
	list_del(&items[0].link); /* once more: must do no harm */
	EXPECT_EQ(t, digits(&head), 24);
	EXPECT_TRUE(t, list_empty(&items[0].link));
}

static void splice(struct ktest *t)
{
	struct item items[4];
	LIST_HEAD(a);
	LIST_HEAD(b);

	fill(items, 4, &a);
	list_move_tail(&items[2].link, &b);
	list_move_tail(&items[3].link, &b);
	list_splice_tail(&b, &a);
	EXPECT_EQ(t, digits(&a), 1234);
	EXPECT_EQ(t, digits_backwards(&a), 4321);
	EXPECT_TRUE(t, list_empty(&b));
	list_splice_tail(&b, &a);
	EXPECT_EQ(t, digits(&a), 1234);
}

static int hash_digits(const struct hlist_head *head)
{
	const struct item *it;
	int n = 0;

	hlist_for_each_entry(it, head, hash)
		n = n * 10 + it->value;
	return n;
}

static void hash_lists(struct ktest *t)
{
	struct item items[4];
	struct hlist_head head;
	struct hlist_node *tmp;
	struct item *it;

	hlist_init(&head);
	EXPECT_TRUE(t, hlist_empty(&head));
	for (int i = 0; i < 4; i++) {
		items[i].value = i + 1;
		hlist_add_head(&items[i].hash, &head);
	}
	EXPECT_EQ(t, hash_digits(&head), 4321);
	hlist_del(&items[3].hash);
	hlist_del(&items[3].hash);
	EXPECT_TRUE(t, hlist_unhashed(&items[3].hash));
	hlist_del(&items[1].hash);
	EXPECT_EQ(t, hash_digits(&head), 31);
	hlist_for_each_entry_safe(it, tmp, &head, hash)
		hlist_del(&it->hash);
	EXPECT_TRUE(t, hlist_empty(&head));
}

static bool is_after(const struct list_head *a, const struct list_head *b)
{
	return container_of(a, struct item, link)->value / 10 >
	       container_of(b, struct item, link)->value / 10;
}

/* By tens; the ones show that equal entries keep their order. */
static void sorting(struct ktest *t)
{
	static struct item items[1000];
	uint32_t state = 1;

	for (int n = 0; n < 1000; n = n < 20 ? n + 1 : n * 3) {
		const struct item *it;
		LIST_HEAD(head);
		int seen = 0, last = -1;

		for (int i = 0; i < n; i++) {
			state = state * 1103515245 + 12345;
			items[i].value = (int)(state >> 16) % 50 * 10;
			list_add_tail(&items[i].link, &head);
		}
		list_sort(&head, is_after);
		list_for_each_entry(it, &head, link) {
			const int place = it->value / 10 * 1000 + (int)(it - items);

			EXPECT_GT(t, place, last);
			last = place;
			seen++;
		}
		EXPECT_EQ(t, seen, n);
		list_for_each_entry_reverse(it, &head, link)
			seen--;
		EXPECT_EQ(t, seen, 0);
	}
}

static const struct ktest_case list_cases[] = {
	KTEST(add_and_order), KTEST(delete_while_walking),
	KTEST(splice),        KTEST(hash_lists),
	KTEST(sorting),       { 0 },
};
static const struct ktest_suite list_suite = { .name = "lib.list", .cases = list_cases };
KTEST_SUITE(list_suite);
