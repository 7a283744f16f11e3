/* SPDX-License-Identifier: MIT */
/*
 * Kernel memory, charged to programs: see account.h.
 *
 * Invariants:	account.held is the sum of the charges, which are multiples of CHARGE_UNIT, and
 *		PROGRAM_HOLDS while the program has the account. Its step to 0 is the last use.
 */
#include "account.h"

#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/atomic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>

#define CHARGE_UNIT   8
#define PROGRAM_HOLDS 1

#define PROGRAM_SHARE 2u /* of what is free at start, by default */
#define RESERVE_SHARE 8u
#define SMALL_SHARE   8u /* of the reserve: what a program gets while memory is short */

struct kmem_account {
	atomic64_t held;
	atomic64_t kinds[NR_KMEM_KINDS];
};

/* In front of what kmem_alloc() hands out. */
struct charged {
	struct kmem_account *account;
	size_t bytes;
};
static_assert(sizeof(struct charged) == 16, "kmem_alloc() keeps kmalloc()'s alignment");

static uint64_t param_program, param_reserve;
BOOT_PARAM("kmem.program", size, param_program,
	   "kernel memory that one program may cause (default: half of what is free at start)");
BOOT_PARAM("kmem.reserve", size, param_reserve,
	   "kernel memory that is left to programs with little (default: an eighth)");

COUNTER(refused_count, "kmem.refused", "charges refused, as their program has had its share");

/* const after start */
static uint64_t program_limit = UINT64_MAX;
static uint64_t small_limit = UINT64_MAX;
static uint64_t reserve_frames;

static atomic64_t total;
static atomic64_t kinds[NR_KMEM_KINDS];
static atomic64_t nr_accounts;

static uint64_t total_charged(void)
{
	return (uint64_t)atomic64_read(&total);
}
GAUGE(charged_gauge, "kmem.charged", "bytes of kernel memory charged to programs", total_charged);

static uint64_t count_accounts(void)
{
	return (uint64_t)atomic64_read(&nr_accounts);
}
GAUGE(accounts_gauge, "kmem.accounts", "programs that hold kernel memory, ended ones included",
      count_accounts);
GAUGE(limit_gauge, "kmem.limit", "bytes of kernel memory that one program may have",
      kmem_program_limit);

void kmem_account_set_limits(uint64_t program, uint64_t reserve)
{
	program_limit = program;
	small_limit = MIN(reserve / SMALL_SHARE, program);
	reserve_frames = reserve >> PAGE_SHIFT;
}

void kmem_account_init(void)
{
	const uint64_t free_bytes = frames_free_count() << PAGE_SHIFT;

	kmem_account_set_limits(param_program ? param_program : free_bytes / PROGRAM_SHARE,
				param_reserve ? param_reserve : free_bytes / RESERVE_SHARE);
}

uint64_t kmem_program_limit(void)
{
	return program_limit;
}

bool kmem_is_short(void)
{
	return frames_free_count() < reserve_frames;
}

struct kmem_account *kmem_account_create(void)
{
	struct kmem_account *a = kzalloc(sizeof(*a));

	if (!a)
		return NULL;
	atomic64_set(&a->held, PROGRAM_HOLDS);
	atomic64_inc(&nr_accounts);
	return a;
}

static void drop(struct kmem_account *a, int64_t held)
{
	const int64_t left = atomic64_sub_return(&a->held, held);

	BUG_ON(left < 0);
	if (left)
		return;
	atomic64_dec(&nr_accounts);
	kfree(a);
}

void kmem_account_put(struct kmem_account *a)
{
	drop(a, PROGRAM_HOLDS);
}

static int64_t units(size_t bytes)
{
	return (int64_t)ALIGN_UP(bytes, (size_t)CHARGE_UNIT);
}

void kmem_charge_anyway(struct kmem_account *a, size_t bytes)
{
	const int64_t n = units(bytes);

	if (!a)
		return;
	atomic64_add(&a->held, n);
	atomic64_add(&total, n);
}

static int refuse(void)
{
	counter_inc(&refused_count);
	return -ENOMEM;
}

/*
 * The sum is compared before it is changed, so that of two charges that meet neither is refused for
 * the other's sake when one fits.
 */
int kmem_charge(struct kmem_account *a, size_t bytes)
{
	const int64_t n = units(bytes);
	uint64_t limit;
	int64_t old, seen;

	if (!a)
		return 0;
	if (n < 0 || (size_t)n < bytes)
		return refuse();
	limit = kmem_is_short() ? small_limit : program_limit;
	for (old = atomic64_read(&a->held);; old = seen) {
		ASSERT(old > 0);
		if ((uint64_t)old / CHARGE_UNIT * CHARGE_UNIT + (uint64_t)n > limit)
			return refuse();
		seen = atomic64_cmpxchg(&a->held, old, old + n);
		if (seen == old)
			break;
	}
	atomic64_add(&total, n);
	return 0;
}

void kmem_uncharge(struct kmem_account *a, size_t bytes)
{
	const int64_t n = units(bytes);

	if (!a || !n)
		return;
	atomic64_sub(&total, n);
	drop(a, n);
}

void *kmem_alloc(struct kmem_account *a, size_t size)
{
	struct charged *c;
	size_t bytes;

	if (size > SIZE_MAX - sizeof(*c))
		return NULL;
	c = kzalloc(sizeof(*c) + size);
	if (!c)
		return NULL;
	bytes = ksize(c);
	if (kmem_charge(a, bytes)) {
		kfree(c);
		return NULL;
	}
	c->account = a;
	c->bytes = bytes;
	return c + 1;
}

char *kmem_strdup(struct kmem_account *a, const char *s)
{
	const size_t len = strlen(s) + 1;
	char *copy = kmem_alloc(a, len);

	if (copy)
		memcpy(copy, s, len);
	return copy;
}

static const struct charged *charged_of(const void *p)
{
	return (const struct charged *)p - 1;
}

void kmem_free(const void *p)
{
	const struct charged *c;

	if (!p)
		return;
	c = charged_of(p);
	kmem_uncharge(c->account, c->bytes);
	kfree(c);
}

struct kmem_account *kmem_account_of(const void *p)
{
	return charged_of(p)->account;
}

bool kmem_take(struct kmem_account *a, enum kmem_kind kind, uint64_t n, uint64_t max)
{
	const uint64_t all = (uint64_t)atomic64_add_return(&kinds[kind], (int64_t)n);
	const uint64_t mine = a ? (uint64_t)atomic64_add_return(&a->kinds[kind], (int64_t)n) : 0;

	ASSERT(n);
	if (kmem_fair(mine - (a ? n : 0), all - 1, max))
		return true;
	kmem_give(a, kind, n);
	return false;
}

void kmem_give(struct kmem_account *a, enum kmem_kind kind, uint64_t n)
{
	ASSERT((uint64_t)atomic64_read(&kinds[kind]) >= n);
	atomic64_sub(&kinds[kind], (int64_t)n);
	if (a)
		atomic64_sub(&a->kinds[kind], (int64_t)n);
}

uint64_t kmem_count(enum kmem_kind kind)
{
	return (uint64_t)atomic64_read(&kinds[kind]);
}

uint64_t kmem_charged(const struct kmem_account *a)
{
	return (uint64_t)atomic64_read(&a->held) & ~(uint64_t)(CHARGE_UNIT - 1);
}
