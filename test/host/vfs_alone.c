/* SPDX-License-Identifier: MIT */
/*
 * Inodes of storage nodes without FIFOs and devices, which nothing here opens, and namespaces
 * without files.
 */
#include <lib/err.h>
#include <processor/ipc/pipe.h>
#include <processor/ns/ns.h>
#include <processor/vfs/dev.h>
#include <processor/vfs/file.h>

const struct file_ops fifo_ops = { .name = "fifo" };

struct pipe *pipe_create(void)
{
	return ERR_PTR(-ENOMEM);
}

void pipe_put(struct pipe *p)
{
}

int fifo_open(struct file *f, struct pipe *p)
{
	return -ENXIO;
}

int dev_use(struct file *f, uint32_t rdev)
{
	return -ENXIO;
}

static void release_ns(struct inode *inode)
{
	struct ns *ns = ns_of_inode(inode);

	ns->free(ns);
}

const struct inode_ops nsfs_inode_ops = { .name = "namespace", .release = release_ns };
struct fs_type nsfs_type = { .name = "nsfs" };
