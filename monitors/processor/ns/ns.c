/* SPDX-License-Identifier: MIT */
/*
 * Namespaces: kinds and numbers. See ns.h.
 */
#include "ns.h"

#include <abi/sched.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <lib/fmt.h>
#include <lib/ida.h>

#include "user_count.h"
#include "user_ns.h"

#define NR_NUMBERS (UINT32_MAX - NS_FIRST_NR)

static struct spinlock numbers_lock = SPINLOCK_INIT("ns.numbers", RANK_SPIN_MONITOR);
static struct ida numbers __guarded_by(&numbers_lock) = IDA_INIT;
static uint64_t last_seq __guarded_by(&numbers_lock);

static const struct {
	const char *name;
	uint64_t flag;
} kinds[NS_KINDS] = {
	[NS_CGROUP] = { "cgroup", CLONE_NEWCGROUP }, [NS_IPC] = { "ipc", CLONE_NEWIPC },
	[NS_MNT] = { "mnt", CLONE_NEWNS },           [NS_NET] = { "net", CLONE_NEWNET },
	[NS_PID] = { "pid", CLONE_NEWPID },          [NS_USER] = { "user", CLONE_NEWUSER },
	[NS_UTS] = { "uts", CLONE_NEWUTS },
};

uint64_t ns_kind_flag(enum ns_kind kind)
{
	ASSERT(kind < NS_KINDS);
	return kinds[kind].flag;
}

void ns_text(const struct ns *ns, char buf[NS_TEXT_MAX])
{
	snprintf(buf, NS_TEXT_MAX, "%s:[%u]", kinds[ns->kind].name, ns->nr);
}

static int take_number(struct ns *ns)
{
	int nr;

	spin_lock(&numbers_lock);
	nr = ida_alloc_range(&numbers, 0, NR_NUMBERS);
	if (nr >= 0)
		ns->seq = ++last_seq;
	spin_unlock(&numbers_lock);
	if (nr >= 0)
		ns->nr = NS_FIRST_NR + (uint32_t)nr;
	return MIN(nr, 0);
}

int ns_init(struct ns *ns, enum ns_kind kind, struct user_ns *owner, void (*free)(struct ns *ns))
{
	const struct task *t = task_current();
	struct user_count *count = user_count_get(owner, t ? t->cred->euid : 0);
	int err = count ? user_count_add(count, kind) : -ENOMEM;

	if (err) {
		user_count_put(count);
		return err;
	}
	err = take_number(ns);
	if (err) {
		user_count_sub(count, kind);
		user_count_put(count);
		return err;
	}
	inode_init(&ns->inode, &nsfs_type, &nsfs_inode_ops, S_IFREG);
	ns->kind = kind;
	ns->owner = user_ns_get(owner);
	ns->count = count;
	ns->free = free;
	return 0;
}

void ns_exit(struct ns *ns)
{
	bool was;

	ASSERT(ns->nr >= NS_FIRST_NR);
	spin_lock(&numbers_lock);
	was = ida_free(&numbers, (int)(ns->nr - NS_FIRST_NR));
	spin_unlock(&numbers_lock);
	ASSERT(was);
	user_count_sub(ns->count, ns->kind);
	user_count_put(ns->count);
	user_ns_put(ns->owner);
}

struct ns *ns_of_inode(struct inode *inode)
{
	return inode && inode->ops == &nsfs_inode_ops ? container_of(inode, struct ns, inode)
						      : NULL;
}
