/* SPDX-License-Identifier: MIT */
/*
 * The global managers' policies: GPM places programs, GMM homes and vRegions, GSM files.
 *
 * Each is a table of operations that choose a node from a documented input. The input holds what
 * is reported today and nothing else: a field comes with whatever fills it truthfully.
 *
 * Context:	pure code, which also links into a host simulator; the callers order the calls.
 * See:		docs/design/managers.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <proto/cluster.h>
#include <proto/types.h>

/* --- GPM: the processor of a new program --------------------------------------------------- */

struct gpm_node {
	uint32_t id; /* 0: this entry is free */
	uint32_t
		/* programs placed there since its last report, which has the earlier ones */
		placed;
	struct cluster_load load; /* its last report; all 0 but one CPU when none has come yet */
};

struct gpm_ops {
	const char *name;
	/* Index of the processor that takes a new program.  The ids ascend; @nr is at least 1. */
	size_t (*place)(const struct gpm_node *nodes, size_t nr);
};

/*
 * The fewest runnable tasks per CPU; then the fewest tasks; then the most free lines; then the
 * lowest id.
 */
extern const struct gpm_ops gpm_least_busy;

/*
 * The state that GPM keeps for its policy. It is approximate, and comes again by itself with the
 * next heartbeats.
 */
struct gpm {
	const struct gpm_ops *ops;
	struct gpm_node nodes[CLUSTER_MAX_MEMBERS];      /* in any order */
	struct gpm_node candidates[CLUSTER_MAX_MEMBERS]; /* of the gpm_place() under way */
};

/* Note a report. */
void gpm_report(struct gpm *g, uint32_t node, const struct cluster_load *load);
/* The node is no member any more. */
void gpm_forget(struct gpm *g, uint32_t node);
/*
 * Choose one of the processors @nodes, whose ids ascend, and count the program there. 0: @nr is 0.
 */
uint32_t gpm_place(struct gpm *g, const uint32_t *nodes, size_t nr);

/* --- GMM: the home of an address space, the owner of a vRegion ------------------------------- */

struct memory_nodes {
	const uint32_t *ids; /* live memory nodes, ascending */
	size_t nr;           /* at least 1 */
};

struct gmm_ops {
	const char *name;
	uint32_t (*home)(const struct memory_nodes *nodes, uint64_t aspace);
	/* The owner of vRegion @index of a space whose home is @home, which may have left. */
	uint32_t (*owner)(const struct memory_nodes *nodes, uint64_t index, uint32_t home);
};

/*
 * Spaces of one processor take turns over the nodes; so do the vRegions of a space, beginning at
 * the home.
 */
extern const struct gmm_ops gmm_round_robin;

/* --- GSM: the cache node and the storage node of a file -------------------------------------- */

struct gsm_mount { /* a file system beside the root's, as the cluster is configured */
	const char *at;
	uint32_t node; /* the storage node that has it, live or not */
};

struct storage_nodes {
	const uint32_t *ids; /* live storage nodes, ascending */
	size_t nr;
	const struct gsm_mount *mounts;
	size_t nr_mounts;
};

struct gsm_ops {
	const char *name;
	/*
	 * The memory node that holds the page cache of @file: the same on every node with the same
	 * view.
	 */
	uint32_t (*cache_node)(const struct memory_nodes *nodes, const struct proto_file *file);
	/* The storage node of the file system mounted at @at; 0: it is not there yet. */
	uint32_t (*storage)(const struct storage_nodes *nodes, const char *at);
};

/*
 * A hash of the file's identity over the memory nodes. A file system is where the cluster's
 * configuration says; the root is at the first storage node that has none of those.
 */
extern const struct gsm_ops gsm_hash;

/*
 * "/data:5,/srv:6" into at most @max mounts, no two of which have one place or one node. @text is
 * cut up and must live on. -EINVAL
 */
int gsm_mounts_parse(char *text, struct gsm_mount *mounts, size_t max, size_t *nr) __must_check;
