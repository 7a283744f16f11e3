/* SPDX-License-Identifier: MIT */
/*
 * Cluster membership, as every node sees it.
 *
 * Flow:	after rpc_start(), cluster_join() finds the node that hosts the managers (boot
 *		parameter rendezvous=; the host itself has cluster=), tells it id, role and
 *		address, and waits until the cluster is complete; from then on members come and go
 *		by themselves.
 * Context:	cluster_join() sleeps; the look-ups do not and may be called anywhere but in
 *		interrupts.
 * Failure:	status() names the missing nodes; after cluster.wait_ms join gives up.
 * See:		docs/protocol/cluster.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/siphash.h>
#include <lib/types.h>
#include <net/node.h>
#include <proto/cluster.h>
#include <proto/types.h>

struct cluster_ops {
	/*
	 * One line for the user: the nodes that are missing, or why joining failed. May be NULL.
	 */
	void (*status)(const char *line);
	/*
	 * A member came; look-ups do not answer it yet, and calls to it end with EHOSTDOWN.
	 * Thread context: must not wait for a node, as no view is applied meanwhile.  May be NULL.
	 */
	void (*joined)(const struct node_info *node);
	/*
	 * A member is gone for good (left, or its lease has ended) and is fenced: requests of that
	 * incarnation answer ESTALE from here on, calls to it end with EHOSTDOWN, and look-ups do
	 * not answer it any more (but for a storage node that was started again).  Thread context:
	 * must not wait for a node, as no view is applied meanwhile, so that the node would never
	 * be declared gone.  May be NULL.
	 */
	void (*gone)(const struct node_info *node);
	/*
	 * A processor that stays a member has lost a vNode: what cluster_vnode_check() has answered
	 * before does not hold any more. Thread context, as gone(). May be NULL.
	 */
	void (*withdrawn)(void);
	/*
	 * This node is a member no more, for good: the host has fenced it, so that what it had
	 * elsewhere is gone, or it is cut off from all members. @why: one line. Once, after
	 * status(); all calls end afterwards, so it must not wait for a node. Thread context. May
	 * be NULL.
	 */
	void (*fenced)(const char *why);
	/* There is a new view, which has been applied.  Thread context.  May be NULL. */
	void (*changed)(const struct cluster_view *view);
	/* Fill in the load that the next heartbeat tells.  Thread context.  May be NULL: all 0. */
	void (*load)(struct cluster_load *load);
};

/*
 * Join, and return when the cluster is complete.  @ops stays valid for ever.
 * -ETIMEDOUT: not complete in time; -EINVAL: boot parameters missing or wrong; status() has told
 * both.
 */
int cluster_join(const struct cluster_ops *ops) __must_check;

/*
 * Does this node still have its lease? A node that has lost it must not report the end of a
 * program as the program's doing: the memory nodes have freed the program's memory. Costs a look
 * at the clock; sleeps only when the lease may have ended: until a heartbeat is answered, or, while
 * the host is away, another member says that it knows this node.
 * Context:	threads, no locks held.  Returns false once the node is fenced or cut off, and for
 *		ever after.
 */
bool cluster_lease_holds(void);

/* Does this node host the managers? */
bool cluster_is_host(void);

/* The node that hosts the managers, and its incarnation in the view; 0: there is no view yet. */
uint32_t cluster_host(uint32_t *incarn);

/* How long a lease is; 0: there is no view yet. */
uint64_t cluster_lease_ns(void);

/* The membership epoch. */
uint32_t cluster_epoch(void);

/* Ids of the live members of a role, ascending, up to @max; returns how many there are. */
size_t cluster_nodes(enum node_role role, uint32_t *ids, size_t max);
/* Was the cluster made with one node of @role, and has it no more? False while there is no view. */
bool cluster_has_one(enum node_role role);

/*
 * Wait until @is_so, which is looked at after each new view, or until this node is fenced. 0;
 * -ETIMEDOUT at @until_ns, absolute; -EINTR, only if @killable.
 */
int cluster_wait_until(bool (*is_so)(uint32_t node), uint32_t node, uint64_t until_ns,
		       bool killable) __must_check;

/*
 * Let @choose pick one of the live members of @role, whose ids it is given in ascending order.
 * Answers what it answers, or 0 when there is no such member. @choose runs with a spin lock held,
 * so it must not sleep or take locks.
 */
typedef uint32_t (*cluster_choose_fn)(const uint32_t *nodes, size_t nr, const void *arg);
uint32_t cluster_choose(enum node_role role, cluster_choose_fn choose, const void *arg);

/*
 * May processor @node name vNode @vnode, and what belongs to it? 0; -EACCES: the view does not give
 * it the vNode. While a host that was started again collects the placements, this node may not
 * know: then it waits for them, for a lease at most, or answers -EAGAIN unless @may_wait.
 * Context:	threads, no locks held; anywhere but in interrupts unless @may_wait.
 */
int cluster_vnode_check(uint32_t vnode, uint32_t node, bool may_wait) __must_check;

/*
 * The key of the seals of files' handles (proto_file_seal()): the same at all memory and storage
 * nodes, and at each start of them.  NULL: this node was given none, as a processor is.
 */
const struct siphash_key *cluster_file_key(void);

/* --- the node that hosts the managers ------------------------------------------------------ */

/* Begin to take members in; @self is the first. */
typedef int (*cluster_host_fn)(const struct cluster_member *self);
/*
 * From an initcall, by the managers' service: cluster_join() calls @start at the node that has
 * cluster=.
 */
void cluster_host_register(cluster_host_fn start);
/* Apply a view, from the host's own table or from a message. */
void cluster_apply(const struct cluster_view *v);
