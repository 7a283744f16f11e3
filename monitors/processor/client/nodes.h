/* SPDX-License-Identifier: MIT */
/* Questions about nodes that belong to no space and no path. */
#pragma once

#include <lib/compiler.h>

#include "file_attr.h"

/* Memory node that holds the page cache of @file, the same on every node. 0: there is none. */
uint32_t file_cache_node(const struct file_id *file);

struct node_memory {           /* of one memory node, in frames of 4 KiB */
	uint64_t total;        /* for pages of programs and files */
	uint64_t free;         /* hold nothing; some may be granted */
	uint64_t file;         /* hold clean pages of files, and give way */
	uint64_t granted;      /* credits that processors hold */
	uint64_t committed;    /* that mappings are charged for */
	uint64_t programs;     /* that programs may have at most: the others are for files */
	uint64_t commit_limit; /* the same in the strict mode, at most */
};
/*
 * Ask memory node @node. Sleeps. The errno of the call, -ETIMEDOUT: it is silent; -EPROTO:
 * malformed.
 */
int node_memory(uint32_t node, struct node_memory *out) __must_check;

enum commit_mode {        /* as vm.overcommit_memory of Linux */
	COMMIT_HEURISTIC, /* only what can never be had is refused */
	COMMIT_ALWAYS,    /* nothing is */
	COMMIT_STRICT,    /* what is more than the commit limit */
	COMMIT_MODES,
};

#define COMMIT_NODE_BITS 16
struct commit_policy { /* how mappings are charged */
	/* count << COMMIT_NODE_BITS | node that set it; 0: the boot parameters of a node hold */
	uint64_t version;
	uint32_t mode;     /* enum commit_mode */
	uint32_t ratio;    /* percent of the frames that programs may have, when kbytes is 0 */
	uint64_t kbytes;   /* the commit limit of the cluster; 0: ratio says */
	uint64_t programs; /* frames that programs may have on all nodes together */
};
/*
 * Memory node @node takes over @policy if that is newer than its own; *@now is the one that holds
 * there then. Sleeps. The errno of the call, -ETIMEDOUT: it is silent; -EPROTO: malformed.
 */
int node_commit(uint32_t node, const struct commit_policy *policy, struct commit_policy *now)
	__must_check;

/* For people to read: "memory", "storage", "manager": the part of a node that serves @opcode. */
const char *node_part_serving(uint16_t opcode);
