/* SPDX-License-Identifier: MIT */
/*
 * Partitions of a block device, by GPT.
 *
 * Flow:	partition_open("vda:2") finds the disk's table, checks it, and registers a block
 *		device for the partition that the text names.
 * Context:	threads: it reads from the disk.
 * Failure:	every refusal has a sentence.  The backup table is tried when the first is damaged.
 * See:		docs/drivers/partitions.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct blkdev;

/*
 * The block device for the file system on @disk.  @which: "" chooses the only partition with a
 * Linux file system, or @disk itself if it has no table; "whole" is @disk; else a number,
 * "label=NAME" or "uuid=UUID".  ERR_PTR: -ENOENT no such partition; -EEXIST several; -EINVAL the
 * table or @which makes no sense; -EIO; -ENOMEM.  Then @why has a sentence.
 */
struct blkdev *partition_open(struct blkdev *disk, const char *which, char *why, size_t why_size);
