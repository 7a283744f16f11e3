/* SPDX-License-Identifier: MIT */
/*
 * GPM, the global process manager: on which processor a new program goes.
 *
 * State:	each processor's last load report, and how many programs were placed there since: so that programs
 *		which come faster than reports do not all go to the same node.  All of it is approximate, and
 *		comes again by itself with the next heartbeats.
 * Context:	pure; the caller orders the calls.  It also links into a host simulator.
 */
#pragma once

#include <lib/compiler.h>
#include <proto/cluster.h>

struct gpm_node {
	uint32_t id; /* 0: this entry is free */
	uint32_t placed;
	struct cluster_load load;
};

struct gpm {
	struct gpm_node nodes[CLUSTER_MAX_MEMBERS];
};

/* A report has come.  What was placed before it is in it. */
void gpm_report(struct gpm *g, uint32_t node, const struct cluster_load *load);
/* The node is no member any more. */
void gpm_forget(struct gpm *g, uint32_t node);
/*
 * Choose one of the processors @nodes, and count the program there.  The fewest runnable tasks per CPU; then the
 * fewest tasks; then the most free lines; then the lowest position.  0: @nr is 0.
 */
uint32_t gpm_place(struct gpm *g, const uint32_t *nodes, size_t nr);
