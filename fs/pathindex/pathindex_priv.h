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
/* @dir: the directory with the name, 0: the root's; @now: pathindex_now() before the look-up. */
void pathindex_add(struct pathindex *pi, uint32_t vnode, const char *path, size_t len, uint64_t dir,
		   const struct path_node *node, uint64_t now);
/* How many changes there have been. */
uint64_t pathindex_now(struct pathindex *pi);
