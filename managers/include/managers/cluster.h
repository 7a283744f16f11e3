/* SPDX-License-Identifier: MIT */
/*
 * Cluster membership and placement, as every node sees them.
 *
 * Flow:	after rpc_start(), cluster_join() finds the node that hosts the managers (boot parameter
 *		rendezvous=; the host itself has cluster=), tells it who we are, and waits until the cluster
 *		is complete; from then on members come and go by themselves.
 * Context:	cluster_join() sleeps; the look-ups do not and may be called anywhere but in interrupts.
 * Failure:	whom we wait for is told by status(); after cluster.wait_ms join gives up.
 * See:		docs/protocol/cluster.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <net/node.h>
#include <proto/cluster.h>
#include <proto/types.h>

struct cluster_ops {
	/* One line for the user: whom we wait for, or why joining failed.  May be NULL. */
	void (*status)(const char *line);
	/* A member came; thread context.  May be NULL. */
	void (*joined)(const struct node_info *node);
	/*
	 * A member is gone for good (left, or its lease has ended) and is fenced: requests of that
	 * incarnation answer ESTALE from here on.  Thread context.  May be NULL.
	 */
	void (*gone)(const struct node_info *node);
	/*
	 * The host has fenced us: our lease has ended, and what we had elsewhere is gone.  Once, after
	 * status().  Thread context.  May be NULL.
	 */
	void (*fenced)(void);
	/* What is to be told of the node's load, with each heartbeat.  Thread context.  May be NULL: nothing. */
	void (*load)(struct cluster_load *load);
};

/*
 * Join, and return when the cluster is complete.  @ops stays valid for ever.
 * -ETIMEDOUT: not complete in time; -EINVAL: boot parameters missing or wrong; both were told by status().
 */
int cluster_join(const struct cluster_ops *ops) __must_check;

/*
 * Does this node still have its lease?  What happened here while it had not, such as the end of a program
 * whose memory was given back, is not to be told as if it had been the program's doing.  Costs a look at
 * the clock; sleeps only when the lease may have ended, until a heartbeat is answered.
 * Context:	threads, no locks held.  Returns false once the node is fenced, and for ever after.
 */
bool cluster_lease_holds(void);

/* The membership epoch. */
uint32_t cluster_epoch(void);

/* Ids of the live members of a role, ascending, up to @max; returns how many there are. */
size_t cluster_nodes(enum node_role role, uint32_t *ids, size_t max);

/* --- placement: each answers a node id, or 0 when there is no such member ---------------- */

/* Home memory node of a new address space. */
uint32_t cluster_home_for(uint64_t aspace);
/* Memory node that is to own vRegion @index of @aspace, whose home is @home. */
uint32_t cluster_owner_for(uint64_t aspace, uint64_t index, uint32_t home);
/* Memory node that holds the buffer cache of @file: the same answer on every node. */
uint32_t cluster_file_cache_node(const struct proto_file *file);
/*
 * GPM: the processor node for a new program, from approximate load reports.  Only where the managers are: 0,
 * -ENOSYS elsewhere, -EHOSTDOWN when there is no processor.
 */
int cluster_place_program(uint32_t *node) __must_check;
/* Storage node that serves @path. */
uint32_t cluster_storage_for(const char *path);
