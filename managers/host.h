/* SPDX-License-Identifier: MIT */
/*
 * The node that hosts the managers: its side of membership.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/errno.h>
#include <proto/cluster.h>

#ifdef CONFIG_MANAGERS
/* Begin to take members in; @self is the first.  Once. */
int cluster_host_start(const struct cluster_member *self) __must_check;
/* GPM's choice for a new program.  -EHOSTDOWN: there is no processor. */
int cluster_host_place(uint32_t *node) __must_check;
#else
static inline int __must_check cluster_host_start(const struct cluster_member *self)
{
	return -ENOSYS; /* this image has no managers: CONFIG_MANAGERS */
}

static inline int __must_check cluster_host_place(uint32_t *node)
{
	return -ENOSYS;
}
#endif

/* cluster.c: take over a view (from the host's own table, or from a message). */
void cluster_apply(const struct cluster_view *v);
