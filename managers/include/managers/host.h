/* SPDX-License-Identifier: MIT */
/*
 * The managers' node is told this from outside the cluster.
 *
 * Context:	threads that may sleep; it does not wait for a peer.
 */
#pragma once

#include <lib/types.h>

/*
 * The machine in which this incarnation of a node ran has ended for good: it is fenced now, and
 * not when its lease ends. One that is no member is ignored, and so is the host itself.
 */
#ifdef CONFIG_MANAGERS
void managers_node_ended(uint32_t node, uint32_t incarn);
#else
static inline void managers_node_ended(uint32_t node, uint32_t incarn)
{
}
#endif
