/* SPDX-License-Identifier: MIT */
/*
 * The managers' node is told this from outside the cluster.
 *
 * Context:	threads that may sleep; it does not wait for a peer.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/*
 * The machine in which this incarnation of a node ran has ended for good: it is fenced now, and
 * not when its lease ends. One that is no member is ignored, and so is the host itself.
 */
#ifdef CONFIG_MANAGERS
void managers_node_ended(uint32_t node, uint32_t incarn);

/*
 * Place a vNode on a processor, or end it on all: for tests, as no user makes one yet. Errors of
 * members_place() and members_vnode_end(); -ENOSYS: this node does not host the managers.
 */
int managers_place_vnode(uint32_t vnode, uint32_t node) __must_check;
int managers_end_vnode(uint32_t vnode) __must_check;
#else
static inline void managers_node_ended(uint32_t node, uint32_t incarn)
{
}
#endif
