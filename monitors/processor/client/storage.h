/* SPDX-License-Identifier: MIT */
/*
 * Requests of the processor monitor to storage nodes, one function each.
 *
 * Context:	all sleep for a reply; no lock but aspace.map_lock may be held.
 * Failure:	the peer's errno, or -EHOSTDOWN, -ETIMEDOUT, -ESTALE; a malformed reply is -EPROTO.
 */
#pragma once

#include <fs/access.h>
#include <lib/compiler.h>
#include <lib/types.h>
#include <proto/ps.h>

/*
 * Attributes of @path (absolute within the vNode).  @realpath, if not NULL, has PROTO_PATH_MAX
 * bytes and gets the canonical path.
 */
int storage_lookup(const struct fs_cred *cred, const char *path, uint32_t flags, uint32_t access,
		   struct proto_attr *attr, char *realpath) __must_check;
/*
 * The same from a canonical part of @canon_len bytes on, as far as one of @mount_points (canonical
 * paths, each with its NUL, @mount_points_len bytes in all): then *rep->at_mount_point, with it in
 * rep->path and what is left in rep->rest.  Both point into *buf, the caller's to kfree() in any
 * case.
 */
struct storage_walk {
	const char *path;
	size_t canon_len;
	const char *mount_points;
	size_t mount_points_len;
	uint32_t flags, access;
};
int storage_walk(const struct fs_cred *cred, const struct storage_walk *how,
		 struct ps_lookup_rep *rep, void **buf) __must_check;
int storage_getattr(const struct proto_file *file, struct proto_attr *attr) __must_check;
/* The target's length (not terminated, cut at @size), or negative errno. */
ssize_t storage_readlink(const struct fs_cred *cred, const char *path, char *buf, size_t size)
	__must_check;
/* Bytes of struct ps_dirent_wire records in @buf; 0 at the end. */
ssize_t storage_getdents(const struct proto_file *dir, uint64_t cookie, void *buf, uint32_t size)
	__must_check;
int storage_statfs(const struct proto_file *file, struct ps_statfs *st) __must_check;
