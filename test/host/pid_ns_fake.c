/* SPDX-License-Identifier: MIT */
/*
 * The vNode whose lock guards namespaces; and namespaces that are freed at once.
 */
#include <processor/ns/ns.h>
#include <processor/process/process.h>

struct vnode root_vnode = { .lock = SPINLOCK_INIT("vnode", RANK_SPIN_TREE) };
struct fs_type nsfs_type;

static void release(struct inode *inode)
{
	struct ns *ns = container_of(inode, struct ns, inode);

	ns->free(ns);
}

const struct inode_ops nsfs_inode_ops = { .release = release };

int ns_init(struct ns *ns, enum ns_kind kind, struct user_ns *owner, void (*free)(struct ns *ns))
{
	inode_init(&ns->inode, &nsfs_type, &nsfs_inode_ops, S_IFREG);
	ns->kind = kind;
	ns->owner = owner;
	ns->free = free;
	return 0;
}

void ns_exit(struct ns *ns)
{
}

void ns_wait_all_freed(void)
{
}
