/* SPDX-License-Identifier: MIT */
/*
 * Kernel memory of this node, charged to the program that causes it.
 *
 * Flow:	each program has an account (struct program). An object that a call makes and leaves
 *		behind in the kernel's heap is charged when it is made, until it is freed:
 *		kmem_alloc() and kmem_free() for structures that know no program, kmem_charge() and
 *		kmem_uncharge() where the account is known anyway. Memory that a call
 *		frees before it returns is not charged.
 * Invariants:	a charge holds the account, so an object may outlive the program that made it (a
 *		pipe's end passed on, a file of tmpfs); an account is freed when its program has put
 *		it and nothing is charged to it any more.
 *		NULL stands for the node itself, which is charged for nothing and never refused.
 * Context:	anywhere, under any lock outside of the slabs'; never sleeps.
 * Limits:	a program gets `kmem.program` bytes, and when less than `kmem.reserve` is free in
 *		the node, no more than an eighth of that reserve: the others go on in it.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct kmem_account;

/* Once at start, when the cache has its frames; before that nothing is refused. */
void kmem_account_init(void);
/* The limits that it sets, in bytes; tests have others. */
void kmem_account_set_limits(uint64_t program, uint64_t reserve);

/* NULL: no memory. */
struct kmem_account *kmem_account_create(void);
/* The program is gone: what is still charged keeps the account. */
void kmem_account_put(struct kmem_account *a);

/* 0, or -ENOMEM: @a has had its share. @bytes are rounded up as kmem_uncharge() rounds them. */
int kmem_charge(struct kmem_account *a, size_t bytes) __must_check;
/* Charge what cannot be refused. */
void kmem_charge_anyway(struct kmem_account *a, size_t bytes);
void kmem_uncharge(struct kmem_account *a, size_t bytes);

/* @size zeroed bytes, aligned to 16, charged to @a. NULL: no memory, or @a has had its share. */
void *kmem_alloc(struct kmem_account *a, size_t size) __attribute__((malloc));
/* The account that @p of kmem_alloc() is charged to: good while @p is there. */
struct kmem_account *kmem_account_of(const void *p);
/* A copy of @s, the same way. */
char *kmem_strdup(struct kmem_account *a, const char *s);
/* Free what they made; NULL is allowed. */
void kmem_free(const void *p);

/*
 * Things of which the node has a number beside their memory. The last eighth of it is for programs
 * that have few: at most 1/64 of the number.
 */
enum kmem_kind {
	KMEM_FILES,
	KMEM_EPOLL_ITEMS,
	KMEM_FILE_LOCKS,
	KMEM_PIPE_SLOTS,
	KMEM_SOCKET_BYTES,
	KMEM_CARD_GROUPS,
	NR_KMEM_KINDS,
};

/*
 * Count @n more for @a, of the @max that there may be; false: there are too many. It is charged as
 * well, until kmem_give(). NULL: the node itself, up to @max.
 */
bool kmem_take(struct kmem_account *a, enum kmem_kind kind, uint64_t n, uint64_t max) __must_check;
void kmem_give(struct kmem_account *a, enum kmem_kind kind, uint64_t n);
/* How many there are. */
uint64_t kmem_count(enum kmem_kind kind);
/* May one who has @mine of them get another one, when @all of @max are in use? */
static inline bool kmem_fair(uint64_t mine, uint64_t all, uint64_t max)
{
	return all < max && (all < max - max / 8 || mine < MAX(max / 64, (uint64_t)16));
}

/* Bytes charged to @a now. */
uint64_t kmem_charged(const struct kmem_account *a);
/* Bytes that one program may have. */
uint64_t kmem_program_limit(void);
/* Less is free than the reserve. */
bool kmem_is_short(void);
