/* SPDX-License-Identifier: MIT */
/*
 * How many namespaces each user has made, so that no user takes all there can be: of each user in
 * each user namespace, and with the user that has made that namespace, and so on to the first one.
 *
 * Locking:	user_count.c's lock guards the table; counts are atomic.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#include "ns.h"

struct user_count;
struct user_ns;

#define COUNT_MOUNTS NS_KINDS /* mounts in namespaces that a user has made in its own */
#define COUNT_KINDS  (NS_KINDS + 1)

/* The first namespace's limits; atomic. /proc/sys/user/max_* */
extern uint64_t user_count_max[COUNT_KINDS];

/* That of user @uid, a kernel id, in @ns; referenced. NULL: no memory. */
struct user_count *user_count_get(struct user_ns *ns, uint32_t uid);
struct user_count *user_count_hold(struct user_count *c); /* once more */
void user_count_put(struct user_count *c);
/* One more of @kind, at all levels. -ENOSPC: nothing has changed. NULL: nothing is counted. */
int user_count_add(struct user_count *c, unsigned int kind) __must_check;
void user_count_sub(struct user_count *c, unsigned int kind);
