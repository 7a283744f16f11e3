/* SPDX-License-Identifier: MIT */
/* Connections with sockets on other processors of the vNode: start, and their peers' end. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/* Once, before programs run. -ENOMEM */
int remote_init(void) __must_check;
/*
 * Membership says that this incarnation of a processor has left: its connections are reset. Does
 * not wait for a node.
 */
void remote_node_gone(uint32_t node, uint32_t incarn);
