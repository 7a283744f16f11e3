/* SPDX-License-Identifier: MIT */
/*
 * The cluster's policy of commitment, as the processor asks for it and sets it.
 */
#pragma once

#include <lib/compiler.h>
#include <processor/client/nodes.h>

/* The newest policy that a memory node has. Sleeps. -EHOSTDOWN: none answers. */
int commit_policy_get(struct commit_policy *policy) __must_check;
/*
 * Change what @change says of it, at every memory node. Sleeps. -EIO: a node did not answer, and
 * has the policy of before; it hears of the new one from the others when it joins, or when it is
 * set again.
 */
int commit_policy_set(void (*change)(struct commit_policy *policy, uint64_t value), uint64_t value)
	__must_check;
/* Does MAP_NORESERVE mean nothing? */
bool commit_is_strict(void);
