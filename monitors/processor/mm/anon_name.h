/* SPDX-License-Identifier: MIT */
/* Names of anonymous memory, by prctl(PR_SET_VMA_ANON_NAME): see anon_name.c. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct aspace;

#define ANON_NAME_MAX 80u /* bytes, with the NUL */

/*
 * prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME): name [start, +len) as the string at @uname says, or take
 * the names away if that is 0. -EINVAL, -EFAULT, -ENOMEM (or a hole), -EBADF: a file's; -EINTR.
 */
long anon_name_set(struct aspace *as, uint64_t start, uint64_t len, uint64_t uname);
/*
 * The name of the page at @at, "" if it has none; returns where that ends. Takes map_lock, if there
 * are names at all.
 */
vaddr_t anon_name_at(struct aspace *as, vaddr_t at, char name[ANON_NAME_MAX]);
