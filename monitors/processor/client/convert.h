/* SPDX-License-Identifier: MIT */
/*
 * Between the processor's own types and those of the protocols, for the files that encode and
 * decode messages.
 */
#pragma once

#include <fs/access.h>
#include <proto/types.h>

#include "file_attr.h"

static_assert(CRED_GROUPS_MAX == PROTO_MAX_GROUPS, "requests carry all groups of a task");

static inline void cred_to_proto(const struct fs_cred *cred, struct proto_cred *out)
{
	out->uid = cred->uid;
	out->gid = cred->gid;
	out->nr_groups = cred->nr_groups;
	for (uint32_t i = 0; i < cred->nr_groups; i++)
		out->groups[i] = cred->groups[i];
}
