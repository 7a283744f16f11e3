/* SPDX-License-Identifier: MIT */
/*
 * Inodes of storage nodes without FIFOs and devices, which nothing here opens, without watches, and
 * namespaces without files; one processor, to which no node sends a request.
 */
#include <cluster/cluster.h>
#include <lib/err.h>
#include <net/rpc.h>
#include <processor/ipc/pipe.h>
#include <processor/ns/ns.h>
#include <processor/process/cred.h>
#include <processor/vfs/dev.h>
#include <processor/vfs/file.h>
#include <processor/vfs/notify.h>

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

void ns_wait_freed(void)
{
}

bool capable(unsigned int cap)
{
	return true;
}

struct ns *ns_current(enum ns_kind kind)
{
	return NULL;
}

const struct inode_ops nsfs_inode_ops = { .name = "namespace", .release = release_ns };
struct fs_type nsfs_type = { .name = "nsfs" };

uint32_t notify_nr_watches;

size_t cluster_nodes(enum node_role role, uint32_t *ids, size_t max)
{
	return 1;
}

int rpc_handlers_register(const struct rpc_handler *table, size_t nr, void *arg)
{
	return 0;
}

uint32_t rpc_request_peer(const struct rpc_request *req)
{
	return 0;
}

const void *rpc_request_body(const struct rpc_request *req, uint32_t *len)
{
	*len = 0;
	return NULL;
}

void rpc_reply(struct rpc_request *req, int status, const void *body, uint32_t body_len)
{
}
