/* SPDX-License-Identifier: MIT */
/*
 * Between the processor's own types and those of the protocols, for the files that encode and
 * decode messages.
 */
#pragma once

#include <fs/access.h>
#include <kernel/panic.h>
#include <proto/types.h>

#include "file_attr.h"

static_assert(FILE_ATTRS == PROTO_ATTRS, "the same");
static_assert(FILE_ATTRS == (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND | STATX_ATTR_NODUMP),
	      "what is kept of them");
static_assert(CRED_GROUPS_MAX == PROTO_MAX_GROUPS, "requests carry all groups of a task");

static inline void cred_to_proto(const struct fs_cred *cred, struct proto_cred *out)
{
	ASSERT(cred->nr_groups <= CRED_GROUPS_MAX);
	out->uid = cred->uid;
	out->gid = cred->gid;
	out->nr_groups = cred->nr_groups;
	out->flags = cred->plain ? PROTO_CRED_PLAIN : 0;
	for (uint32_t i = 0; i < cred->nr_groups; i++)
		out->groups[i] = cred->groups[i];
}

static inline struct proto_file file_to_proto(const struct file_id *file)
{
	return (struct proto_file){ .ino = file->ino,
				    .gen = file->gen,
				    .node = file->node,
				    .vnode = file->vnode,
				    .seal = file->seal };
}

static inline struct file_id file_from_proto(const struct proto_file *file)
{
	return (struct file_id){ .ino = file->ino,
				 .gen = file->gen,
				 .node = file->node,
				 .vnode = file->vnode,
				 .seal = file->seal };
}

/*
 * st_dev of a storage node's file system: another one for each node, also of copies of one image,
 * and the same on all processors. Those of the processor's own file systems are smaller.
 */
static inline uint64_t storage_dev(uint32_t node)
{
	return 0x800 + node;
}

static inline void attr_from_proto(const struct proto_attr *from, struct file_attr *out)
{
	*out = (struct file_attr){
		.file = file_from_proto(&from->file),
		.size = from->size,
		.blocks = from->blocks,
		.atime = { from->atime_s, from->atime_ns },
		.mtime = { from->mtime_s, from->mtime_ns },
		.ctime = { from->ctime_s, from->ctime_ns },
		.btime = { from->btime_s, from->btime_ns },
		.mode = from->mode & ~PROTO_MODE_ACL,
		.acl = from->mode & PROTO_MODE_ACL,
		.nlink = from->nlink,
		.uid = from->uid,
		.gid = from->gid,
		.rdev = from->rdev,
		.blksize = from->blksize,
		.version = from->version,
		.fsid = storage_dev(from->file.node),
		.attrs = (uint32_t)from->attrs,
	};
}
