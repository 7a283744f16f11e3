/* SPDX-License-Identifier: MIT */
/*
 * Intrusive doubly linked lists: a circular one with a head (list_*), and one
 * with a head of a single pointer for hash buckets (hlist_*).
 *
 * Locking: the caller's.
 */
#pragma once

#include <lib/assert.h>
#include <lib/types.h>

struct list_head {
	struct list_head *next;
	struct list_head *prev;
};

#define LIST_HEAD_INIT(name) { &(name), &(name) }
#define LIST_HEAD(name)      struct list_head name = LIST_HEAD_INIT(name)

static inline void list_init(struct list_head *head)
{
	head->next = head;
	head->prev = head;
}

static inline void list_insert_between(struct list_head *node, struct list_head *prev,
				       struct list_head *next)
{
	ASSERT(prev->next == next && next->prev == prev);
	next->prev = node;
	node->next = next;
	node->prev = prev;
	prev->next = node;
}

/* Add at the front (as on a stack), or after a given entry. */
static inline void list_add(struct list_head *node, struct list_head *head)
{
	list_insert_between(node, head, head->next);
}

/* Add at the back (as in a queue), or before a given entry. */
static inline void list_add_tail(struct list_head *node, struct list_head *head)
{
	list_insert_between(node, head->prev, head);
}

/* Remove; the node is left as an empty list, so removing it again does no harm. */
static inline void list_del(struct list_head *node)
{
	ASSERT(node->prev->next == node && node->next->prev == node);
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

static inline void list_move(struct list_head *node, struct list_head *head)
{
	list_del(node);
	list_add(node, head);
}

static inline void list_move_tail(struct list_head *node, struct list_head *head)
{
	list_del(node);
	list_add_tail(node, head);
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline bool list_is_last(const struct list_head *node, const struct list_head *head)
{
	return node->next == head;
}

/* Must @a stand behind @b? False for equal ones, which keep their order. */
typedef bool (*list_after_fn)(const struct list_head *a, const struct list_head *b);
/*
 * Put a list of less than 2^32 entries in order: n log n questions, n for a list that is in order.
 * From list_sort.c.
 */
void list_sort(struct list_head *head, list_after_fn after);

/* Move all of @from to the back of @to; @from is empty afterwards. */
static inline void list_splice_tail(struct list_head *from, struct list_head *to)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

static inline size_t list_length(const struct list_head *head)
{
	size_t n = 0;

	for (const struct list_head *p = head->next; p != head; p = p->next)
		n++;
	return n;
}

#define list_entry(ptr, type, member)        container_of(ptr, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member)  list_entry((head)->prev, type, member)
#define list_next_entry(pos, member) list_entry((pos)->member.next, __typeof__(*(pos)), member)

#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))

#define list_for_each_entry(pos, head, member)                                                     \
	for ((pos) = list_first_entry(head, __typeof__(*(pos)), member); &(pos)->member != (head); \
	     (pos) = list_next_entry(pos, member))

#define list_for_each_entry_reverse(pos, head, member)                                            \
	for ((pos) = list_last_entry(head, __typeof__(*(pos)), member); &(pos)->member != (head); \
	     (pos) = list_entry((pos)->member.prev, __typeof__(*(pos)), member))

/* @pos may be removed in the body. */
#define list_for_each_entry_safe(pos, next_, head, member)               \
	for ((pos) = list_first_entry(head, __typeof__(*(pos)), member), \
	    (next_) = list_next_entry(pos, member);                      \
	     &(pos)->member != (head); (pos) = (next_), (next_) = list_next_entry(next_, member))

struct hlist_node {
	struct hlist_node *next;
	struct hlist_node **link; /* what points here; NULL when on no list */
};

struct hlist_head {
	struct hlist_node *first;
};

static inline void hlist_init(struct hlist_head *head)
{
	head->first = NULL;
}

static inline bool hlist_empty(const struct hlist_head *head)
{
	return !head->first;
}

static inline void hlist_add_head(struct hlist_node *node, struct hlist_head *head)
{
	ASSERT(!head->first || head->first->link == &head->first);
	node->next = head->first;
	node->link = &head->first;
	if (head->first)
		head->first->link = &node->next;
	head->first = node;
}

static inline bool hlist_unhashed(const struct hlist_node *node)
{
	return !node->link;
}

static inline void hlist_del(struct hlist_node *node)
{
	if (hlist_unhashed(node))
		return;
	ASSERT(*node->link == node);
	*node->link = node->next;
	if (node->next)
		node->next->link = node->link;
	node->next = NULL;
	node->link = NULL;
}

#define hlist_entry_or_null(ptr, type, member)                              \
	({                                                                  \
		struct hlist_node *hlist_ptr_ = (ptr);                      \
		hlist_ptr_ ? container_of(hlist_ptr_, type, member) : NULL; \
	})

#define hlist_for_each_entry(pos, head, member)                                             \
	for ((pos) = hlist_entry_or_null((head)->first, __typeof__(*(pos)), member); (pos); \
	     (pos) = hlist_entry_or_null((pos)->member.next, __typeof__(*(pos)), member))

/* @pos may be removed in the body; @tmp is a struct hlist_node *. */
#define hlist_for_each_entry_safe(pos, tmp, head, member)                            \
	for ((pos) = hlist_entry_or_null((head)->first, __typeof__(*(pos)), member); \
	     (pos) && ((tmp) = (pos)->member.next, 1);                               \
	     (pos) = hlist_entry_or_null(tmp, __typeof__(*(pos)), member))
