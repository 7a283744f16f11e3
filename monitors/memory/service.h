/* SPDX-License-Identifier: MIT */
/*
 * The one instance of a memory node, and what serves it: nothing in here is linked into host tests.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct memory_net;
struct mpage;
struct rpc_sge;

/* --- instance.c ----------------------------------------------------------------------------- */

extern struct memory memory_node; /* valid once memory_node_make() has returned 0 */
/* The instance; NULL until it is up. */
struct memory *memory_self(void);
/* Set frames aside, make the instance, and start the thread that zeroes frames. */
int memory_node_make(uint32_t vregion_shift) __must_check;

/* --- transport.c ---------------------------------------------------------------------------- */

extern const struct memory_net node_net;
/* @page as the source of a transfer. */
struct rpc_sge page_sge(const struct mpage *page);
/* Have the RPC layer call the handlers of msg_types. */
int memory_handlers_register(void) __must_check;

/* --- debug.c -------------------------------------------------------------------------------- */

int memory_debug_command(const char *cmd, char *reply, size_t cap);
