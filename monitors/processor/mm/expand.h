/* SPDX-License-Identifier: MIT */
/*
 * RLIMIT_AS, RLIMIT_DATA and RLIMIT_STACK: how much the calling process may map.
 *
 * Locking:	aspace.map_lock is held.
 */
#pragma once

#include "aspace.h"

struct map_request;

/* Memory that RLIMIT_DATA counts: private, to be written, and no stack. */
static inline bool expand_is_data(uint32_t prot, bool shared, bool stack)
{
	return (prot & VMA_PROT_WRITE) && !shared && !stack;
}

/* May @as get @nr more pages, which RLIMIT_DATA counts too if @data? -ENOMEM */
int expand_check(struct aspace *as, uint64_t nr, bool data) __must_check;
/* The same for mmap() with @req. */
int expand_check_map(struct aspace *as, const struct map_request *req) __must_check;
/* The same when the rights of [start, end), which is mapped, become @prot. */
int expand_check_protect(struct aspace *as, vaddr_t start, vaddr_t end, uint32_t prot) __must_check;
/* The same for brk(@want). */
int expand_check_brk(struct aspace *as, vaddr_t want) __must_check;
/*
 * The stack that exec made, all of which is mapped, is used from page @start on: may it be that
 * large? -ENOMEM, -EFAULT
 */
int expand_stack(struct aspace *as, vaddr_t start, uint64_t limit) __must_check;
/* A new program, with all of its mappings. -ENOMEM */
int expand_check_program(struct aspace *as) __must_check;
