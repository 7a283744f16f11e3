/* SPDX-License-Identifier: MIT */
/*
 * Shared by the suites of the RPC layer: nodes of a simulated cluster (memverbs/sim.h) that find
 * each other.
 *
 * Flow:	rpc_node_start() publishes the node's incarnation in sim_shared; rpc_node_join()
 *		adds all others as peers by theirs, and meets them at barrier 0. Cases end at
 *		barrier 1.
 */
#pragma once

#include <lib/ktest.h>
#include <lib/types.h>
#include <net/rpc.h>

#define OP_ECHO 0x0f10 /* the handler that all of them have */
#define SH_BASE 16     /* sim_shared: incarnation of node i at SH_BASE + i */

uint64_t counter(const char *name);
/* A count that is made true by what is under way. */
bool wait_counter(const char *name, uint64_t at_least);

enum rpc_handler_result h_echo(struct rpc_request *req, void *arg);

/* Device, handlers, RPC. */
void rpc_node_start(struct ktest *t, enum node_role role, const struct rpc_handler *handlers,
		    size_t nr);
/* Wait until node @id has started; its present incarnation. */
uint32_t rpc_node_incarn(uint32_t id);
/* Introduce node @id, as a memory node if no role is given. */
void peer_add_role(struct ktest *t, uint32_t id, enum node_role role);
void peer_add(struct ktest *t, uint32_t id);
/* Know all other nodes of 1..@n, which do the same. */
void rpc_node_join(struct ktest *t, uint32_t n);
