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
	uint64_t commit_limit; /* the same in the strict mode, at most */
};
/* Ask memory node @node. Sleeps. The errno of the call; -EPROTO: malformed. */
int node_memory(uint32_t node, struct node_memory *out) __must_check;

/* For people to read: "memory", "storage", "manager": the part of a node that serves @opcode. */
const char *node_part_serving(uint16_t opcode);
