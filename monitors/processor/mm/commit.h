/* SPDX-License-Identifier: MIT */
/*
 * The cluster's policy of commitment, as the processor asks for it and sets it.
 */
#pragma once

#include <lib/compiler.h>
#include <processor/client/nodes.h>

/*
 * The newest policy that a memory node has. Sleeps, a second at most for each silent node.
 * -EHOSTDOWN: none answers.
 */
int commit_policy_get(struct commit_policy *policy) __must_check;
/*
 * Change what @change says of it, at every memory node. Sleeps. -EIO: a node is silent, and nothing
 * has changed; or it has become silent since, and has the policy of before, of which it hears when
 * it joins, or when the policy is set again.
 */
int commit_policy_set(void (*change)(struct commit_policy *policy, uint64_t value), uint64_t value)
	__must_check;
/* Does MAP_NORESERVE mean nothing? */
bool commit_is_strict(void);
