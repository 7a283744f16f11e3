/* SPDX-License-Identifier: MIT */
/*
 * Merge sort of a list, without memory and without recursion.
 *
 * Invariants:	piles[i] is empty or has 2^i entries in order, all of them older than those of the
 *		piles below; so a merge that prefers the older pile keeps equal entries in order.
 */
#include <lib/list.h>

#define NR_PILES 32u

static bool is_sorted(const struct list_head *head, list_after_fn after)
{
	for (const struct list_head *n = head->next; n != head && n->next != head; n = n->next) {
		if (after(n, n->next))
			return false;
	}
	return true;
}

/* Two chains that end with NULL, linked by next only. */
static struct list_head *merge(struct list_head *older, struct list_head *newer,
			       list_after_fn after)
{
	struct list_head first = { NULL, NULL }, *end = &first;

	while (older && newer) {
		struct list_head **least = after(older, newer) ? &newer : &older;

		end->next = *least;
		end = *least;
		*least = end->next;
	}
	end->next = older ? older : newer;
	return first.next;
}

void list_sort(struct list_head *head, list_after_fn after)
{
	struct list_head *piles[NR_PILES] = { NULL }, *node = head->next, *all = NULL;

	if (is_sorted(head, after))
		return;
	head->prev->next = NULL;
	while (node) {
		struct list_head *const next = node->next;
		unsigned int i = 0;

		node->next = NULL;
		for (; i < NR_PILES - 1 && piles[i]; i++) {
			node = merge(piles[i], node, after);
			piles[i] = NULL;
		}
		piles[i] = piles[i] ? merge(piles[i], node, after) : node;
		node = next;
	}
	for (unsigned int i = 0; i < NR_PILES; i++)
		all = merge(piles[i], all, after);
	list_init(head);
	while (all) {
		struct list_head *const next = all->next;

		list_add_tail(all, head);
		all = next;
	}
}
