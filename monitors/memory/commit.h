/* SPDX-License-Identifier: MIT */
/*
 * Commitment: may a mapping be charged, and how many pages of programs may there be?
 *
 * The policy is the cluster's: a mode, as vm.overcommit_memory of Linux, and what the strict mode
 * counts up to. Every memory node keeps a copy and applies it to its own frames. A mode decides
 * about new charges only: what has been charged is given back in the same amount in each mode, so
 * the accounts add up whatever the nodes' modes are, and however they change.
 *
 * Context:	pure code, any context.
 * See:		docs/design/memory.md, "Commitment"
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <proto/pm.h>

/* Pages that mappings are charged for at most at a node whose programs may have @frames. */
uint64_t commit_limit(const struct pm_commit *policy, uint64_t frames);
/* May a node that has charged @committed pages charge @pages more? */
bool commit_allows(const struct pm_commit *policy, uint64_t frames, uint64_t committed,
		   uint64_t pages);

/*
 * Does @next take the place of @held?  @proc: the processor that sends it, 0 for a memory node. A
 * processor makes versions of its own, and none makes one that is so far ahead that no later one
 * could follow it.
 */
bool commit_follows(const struct pm_commit *held, const struct pm_commit *next, uint32_t proc);

/* The size of a mapping beside that of the memory nodes: in frames that programs may have. */
struct commit_size {
	uint64_t pages;   /* all of it */
	uint64_t part;    /* the most in one vRegion, which lies on one node */
	uint64_t total;   /* of all memory nodes */
	uint64_t largest; /* of the one that has most */
};
/* Heuristic mode: is it so large that it can never be had? */
bool commit_is_hopeless(const struct commit_size *size);
