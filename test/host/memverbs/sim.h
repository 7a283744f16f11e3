/* SPDX-License-Identifier: MIT */
/*
 * A cluster on one host: each node is a process with the kernel shim and the in-memory RDMA
 * provider; the test's own process is the fabric between them.
 *
 * Flow:	sim_run() forks one process per node, which runs fn(t) on the shim, and forwards
 *		frames until all have ended. EXPECT and ASSERT work in fn: a failure there fails
 *		the case.
 *
 * sim_cmd() takes these commands, from any node:
 *	delay MIN_US MAX_US	every frame takes that long
 *	patience US		so long the transport tries before it says that the other end
 *				of a queue pair is gone (0)
 *	loss PERCENT		of datagrams (connection set-up, RPC without connections) vanish
 *	dup PERCENT		of datagrams arrive twice
 *	reorder PERCENT		of datagrams go again behind later ones, 0 to 3 ms after them
 *	break A B		break all queue pairs between two nodes
 *	lose A B		break those of A to B; nobody tells B
 *	breaks PER_10000	break the queue pair of that share of RC frames, half of them after
 *				the frame was delivered
 *	hold A B, release A B	keep frames from A to B back, let them go
 *	hold A B SL, release A B SL	those of one service level
 *	kill N, spawn N		end a node's process at once, start it anew
 *	barrier K N		wait until N nodes have come to barrier K
 *	count WHAT		broken, delayed, lost, duplicated, reordered, frames
 *
 * Every random choice comes from TESSERA_SEED (1), so a failing run can be repeated.
 */
#pragma once

#include <lib/ktest.h>
#include <lib/types.h>
#include <rdma/verbs.h>

struct sim_node {
	uint32_t id; /* node id and LID, 1 and up */
	void (*fn)(struct ktest *t);
	bool is_late; /* started by "spawn" only */
};

/* Run the cluster. Seconds until all must have ended: then they are killed and the case fails. */
void sim_run(struct ktest *t, const struct sim_node *nodes, size_t nr_nodes, unsigned int limit_s);

/* The same with two nodes: 1, a server as a rule, and 2. */
static inline void sim_two(struct ktest *t, void (*one)(struct ktest *t),
			   void (*two)(struct ktest *t), unsigned int limit_s)
{
	const struct sim_node nodes[] = { { .id = 1, .fn = one }, { .id = 2, .fn = two } };

	sim_run(t, nodes, 2, limit_s);
}

/* --- in a node ------------------------------------------------------------------------- */

/* Which start of this node is it: 0 the first, then 1, 2, … */
unsigned int sim_incarnation(void);
uint32_t sim_node_id(void);
/*
 * Set before sim_run(): nodes have no LIDs, as on RoCE.  Addresses are GIDs, of which the last byte
 * is the node id, and every datagram comes with a global route header.
 */
extern bool sim_by_gid;
/*
 * Likewise: a queue pair that breaks keeps one flush completion back until it is destroyed, and a
 * poller that takes such a completion is slow to look at it.
 */
extern bool sim_late_flush;
/* Where node @id is. */
struct rdma_addr sim_addr(uint32_t id);
/* The result of the command, or a negative errno. */
long sim_cmd(const char *fmt, ...) __printf(1, 2);
/* Numbers that all nodes share. */
#define SIM_NR_SHARED 64
extern volatile uint64_t *sim_shared;
static inline uint64_t sim_add(unsigned int i, uint64_t n)
{
	return __atomic_add_fetch(&sim_shared[i], n, __ATOMIC_SEQ_CST);
}
static inline uint64_t sim_get(unsigned int i)
{
	return __atomic_load_n(&sim_shared[i], __ATOMIC_SEQ_CST);
}

/* --- between the parts ------------------------------------------------------------------ */

/* memverbs.c: register the device and start its thread. */
void memverbs_start(int fd, uint32_t node);
/* Also for its own frames: the fabric's answer to sim_cmd(). */
long memverbs_cmd(const char *line);
