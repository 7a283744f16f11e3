/* SPDX-License-Identifier: MIT */
/* Between the index of paths and the walk that fills it. */
#pragma once

#include <fs/pathindex.h>

/*
 * In the index the root is the empty path, and every other path begins with a slash.  A node
 * with ino 0 says that there is no such file.
 */
bool pathindex_find(struct pathindex *pi, uint32_t vnode, const char *path, size_t len,
		    struct path_node *out);
/* @epoch: what pathindex_epoch() said before the file system was asked. */
void pathindex_add(struct pathindex *pi, uint32_t vnode, const char *path, size_t len,
		   const struct path_node *node, uint64_t epoch);
uint64_t pathindex_epoch(struct pathindex *pi);
