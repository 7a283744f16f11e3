/* SPDX-License-Identifier: MIT */
/*
 * fork of an address space.
 *
 * Limits:	not there yet: -ENOSYS (docs/design/fork.md has the order of the steps).
 */
#include <lib/errno.h>
#include <processor/aspace.h>

int aspace_fork(struct aspace *parent, struct aspace **child)
{
	*child = NULL;
	return -ENOSYS;
}
