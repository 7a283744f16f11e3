/* SPDX-License-Identifier: MIT */
/*
 * Regular files of a storage node that may change.
 *
 * Context:	all may sleep for a memory node.
 * See:		live.c, docs/design/files.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct file;
struct file_attr;
struct file_id;

/*
 * Before the first file of storage node @node, whose mount is not read only and has blocks of
 * @block bytes: what comes later than it was stored or written. -ENOMEM.
 */
int live_maps_init(uint32_t node, uint64_t block) __must_check;
/*
 * Until bytes that were stored into mappings of @node's files, or written to them, before the call
 * are at the memory nodes; the first error. Killable.
 */
int live_flush_node(uint32_t node) __must_check;
/* The same for all nodes. */
int live_flush_all(void) __must_check;
/* Make @f, a regular file of a mount that is not read only, usable. -ENOMEM, -ETXTBSY, ... */
int live_open(struct file *f) __must_check;
/* Size and times of @attr, as storage knows them, become those that the caching node knows. */
int live_attr(struct file_attr *attr) __must_check;
/* Stores into mappings of @file, and writes, if it has any here, are at the memory node. */
int live_flush(const struct file_id *file) __must_check;
/* Storage has set the time of @attr's file: the caching node knows it, too. */
int live_set_mtime(const struct file_attr *attr) __must_check;
/*
 * The same before storage sets it. If that is 0 no other change of the file gets between until
 * live_set_mtime_end() of *@lf, by which time the storage node is asked, or is to be (behind.h).
 */
struct live_file;
int live_set_mtime_begin(const struct file_attr *attr, struct live_file **lf) __must_check;
void live_set_mtime_end(struct live_file *lf);
/* truncate(2) and ftruncate(2), and O_TRUNC. */
int live_truncate(const struct file_id *file, uint64_t fsid, uint64_t size) __must_check;
