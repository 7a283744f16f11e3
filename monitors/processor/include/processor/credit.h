/* SPDX-License-Identifier: MIT */
/*
 * Frame credits: promises by memory nodes to store that many pages which they have not seen yet.
 *
 * Flow:	credit_take() before a p-local line is made; credit_put() when such a line is dropped
 *		unsaved; a write-back uses the credit up at the owner.  Grants ride on replies
 *		(credit_add()) in answer to credit_want(), which every request to a node carries.
 * Locking:	atomics, and one mutex around the synchronous request.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/* One frame of @node. May sleep for a PM_CREDIT. -ENOMEM: the node has none left; -EHOSTDOWN ... */
int credit_take(uint32_t node) __must_check;
void credit_put(uint32_t node);
/* A grant came. */
void credit_add(uint32_t node, uint32_t frames);
/* How many frames the next request to @node should ask for, 0 = enough in hand. */
uint32_t credit_want(uint32_t node);
/* Give back what is more than a running program needs in hand. Sleeps. */
void credit_trim(void);
/* Credits in hand from all nodes, for leak tests. */
uint64_t credit_held(void);
