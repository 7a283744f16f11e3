/* SPDX-License-Identifier: MIT */
/* Futexes: Linux's <linux/futex.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define FUTEX_WAIT            0
#define FUTEX_WAKE            1
#define FUTEX_FD              2
#define FUTEX_REQUEUE         3
#define FUTEX_CMP_REQUEUE     4
#define FUTEX_WAKE_OP         5
#define FUTEX_LOCK_PI         6
#define FUTEX_UNLOCK_PI       7
#define FUTEX_TRYLOCK_PI      8
#define FUTEX_WAIT_BITSET     9
#define FUTEX_WAKE_BITSET     10
#define FUTEX_WAIT_REQUEUE_PI 11
#define FUTEX_CMP_REQUEUE_PI  12
#define FUTEX_LOCK_PI2        13
#define FUTEX_PRIVATE_FLAG    128
#define FUTEX_CLOCK_REALTIME  256

/* FUTEX_WAKE_OP: what is done to the word, and how its old value is compared. */
#define FUTEX_OP_SET         0
#define FUTEX_OP_ADD         1
#define FUTEX_OP_OR          2
#define FUTEX_OP_ANDN        3
#define FUTEX_OP_XOR         4
#define FUTEX_OP_CMP_EQ      0
#define FUTEX_OP_CMP_NE      1
#define FUTEX_OP_CMP_LT      2
#define FUTEX_OP_CMP_LE      3
#define FUTEX_OP_CMP_GT      4
#define FUTEX_OP_CMP_GE      5
#define FUTEX_OP_OPARG_SHIFT 8

#define FUTEX_BITSET_MATCH_ANY 0xffffffffu

/* The word of a robust mutex. */
#define FUTEX_WAITERS    0x80000000u
#define FUTEX_OWNER_DIED 0x40000000u
#define FUTEX_TID_MASK   0x3fffffffu

#define ROBUST_LIST_LIMIT 2048

struct linux_robust_list_head {
	uint64_t next;
	int64_t futex_offset;
	uint64_t list_op_pending;
};

/* futex_waitv() */
#define FUTEX_WAITV_MAX 128u

#define FUTEX2_SIZE_U32 0x02u /* FUTEX_32 in the first headers that had it */
#define FUTEX2_PRIVATE  0x80u

struct linux_futex_waitv {
	uint64_t val;
	uint64_t uaddr;
	uint32_t flags;
	uint32_t reserved;
};
static_assert(sizeof(struct linux_futex_waitv) == 24, "struct futex_waitv is ABI");
