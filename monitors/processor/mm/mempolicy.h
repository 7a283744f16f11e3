/* SPDX-License-Identifier: MIT */
/* Memory policies: see mempolicy_calls.c. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct aspace;
struct text;

/*
 * A policy as one number; 0: none, the default. Nodes as the caller has named them are the upper
 * half; below are the mode, its flags, and whether node 0 is among the nodes that are used.
 */
typedef uint64_t mempolicy_t;

/* /proc/<pid>/numa_maps: how Linux writes @policy. At most MEMPOLICY_TEXT bytes with the NUL. */
#define MEMPOLICY_TEXT 64u
void mempolicy_print(mempolicy_t policy, char buf[MEMPOLICY_TEXT]);
