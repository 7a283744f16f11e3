/* SPDX-License-Identifier: MIT */
/* The file system of the storage nodes, for those who know the cluster. */
#pragma once

#include <lib/types.h>

/*
 * Storage node @node has come, as @incarn: it is told which files without a name this processor
 * uses, as an earlier life of it may have known. Context: must not wait.
 */
void storagefs_node_joined(uint32_t node, uint32_t incarn);
