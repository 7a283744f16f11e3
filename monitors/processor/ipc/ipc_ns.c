/* SPDX-License-Identifier: MIT */
/*
 * IPC namespaces: making and the end. See ipc_ns.h.
 */
#include "ipc_ns.h"

#include <kernel/panic.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/process/process.h>

#define LIMITS_INIT                          \
	{ .shmmax = UINT64_MAX - (1u << 24), \
	  .shmall = UINT64_MAX - (1u << 24), \
	  .shmmni = 4096,                    \
	  .msgmax = 8192,                    \
	  .msgmnb = 16384,                   \
	  .msgmni = 32000,                   \
	  .semmsl = 32000,                   \
	  .semmns = 1024000000,              \
	  .semopm = 500,                     \
	  .semmni = 32000 }

#define MQ_LIMITS_INIT         \
	{ .queues_max = 256,   \
	  .msg_max = 10,       \
	  .msgsize_max = 8192, \
	  .msg_default = 10,   \
	  .msgsize_default = 8192 }

#define NEXT_IDS_INIT { .shm = -1, .sem = -1, .msg = -1 }

#define KIND_INIT(var, of, fns, limit, next_id)                            \
	{ .names = MUTEX_INIT((var).names, "sysv.names", RANK_SYSV_NAMES), \
	  .lock = SPINLOCK_INIT("sysv", RANK_SPIN_MONITOR),                \
	  .ops = (fns),                                                    \
	  .ns = (of),                                                      \
	  .max = (limit),                                                  \
	  .next = (next_id) }

static struct ipc_ns first = {
	.ns = NS_FIRST_INIT(NS_IPC, 0xefffffffu),
	.refs = REFCOUNT_INIT(1),
	.limits = LIMITS_INIT,
	.next_ids = NEXT_IDS_INIT,
	.shm = KIND_INIT(first.shm, &first, &shm_ops, &first.limits.shmmni, &first.next_ids.shm),
	.sem = KIND_INIT(first.sem, &first, &sem_ops, &first.limits.semmni, &first.next_ids.sem),
	.msg = KIND_INIT(first.msg, &first, &msg_ops, &first.limits.msgmni, &first.next_ids.msg),
	.mq_limits = MQ_LIMITS_INIT,
};
struct ns *const ipc_first = &first.ns;

static struct ipc_ns *ipc_of(struct ns *ns)
{
	ASSERT(ns->kind == NS_IPC);
	return container_of(ns, struct ipc_ns, ns);
}

struct ipc_ns *ipc_ns_current(void)
{
	return ipc_of(ns_current(NS_IPC));
}

struct sysv_limits *sysv_limits(void)
{
	return &ipc_ns_current()->limits;
}

struct sysv_next_ids *sysv_next_ids(void)
{
	return &ipc_ns_current()->next_ids;
}

struct mqueue_limits *mqueue_limits(void)
{
	return &ipc_ns_current()->mq_limits;
}

/* --- making and the end -------------------------------------------------------------- */

static void kind_init(struct sysv_kind *kind, struct ipc_ns *n, const struct sysv_ops *ops,
		      const uint64_t *max, int32_t *next)
{
	mutex_init(&kind->names, "sysv.names", RANK_SYSV_NAMES);
	spin_lock_init(&kind->lock, "sysv", RANK_SPIN_MONITOR);
	kind->ops = ops;
	kind->ns = n;
	kind->max = max;
	kind->next = next;
}

static void kind_destroy(struct sysv_kind *kind)
{
	lock_not_needed(&kind->lock, "the last object is gone");
	ASSERT(!kind->nr);
	radix_destroy(&kind->table);
	ida_destroy(&kind->places);
}

void ipc_ns_hold(struct ipc_ns *n)
{
	refcount_inc(&n->refs);
}

void ipc_ns_release(struct ipc_ns *n)
{
	if (!refcount_dec_and_test(&n->refs))
		return;
	ASSERT(n != &first && !n->shm_pages && !n->nr_sems && !n->nr_messages && !n->nr_mqueues);
	kind_destroy(&n->shm);
	kind_destroy(&n->sem);
	kind_destroy(&n->msg);
	kmem_free(n);
}

/* No task and no file is in it any more. */
static void ipc_free(struct ns *ns)
{
	struct ipc_ns *n = ipc_of(ns);

	ns_exit(ns);
	sysv_end(&n->shm);
	sysv_end(&n->sem);
	sysv_end(&n->msg);
	mqueue_end(n);
	ipc_ns_release(n);
}

struct ns *ipc_make(struct ns *from, struct user_ns *owner)
{
	static const struct sysv_limits limits = LIMITS_INIT;
	static const struct sysv_next_ids next_ids = NEXT_IDS_INIT;
	static const struct mqueue_limits mq_limits = MQ_LIMITS_INIT;
	struct ipc_ns *n = kmem_alloc(kmem_current(), sizeof(*n));
	const int err = n ? ns_init(&n->ns, NS_IPC, owner, ipc_free) : -ENOMEM;

	if (err) {
		kmem_free(n);
		return ERR_PTR(err);
	}
	refcount_set(&n->refs, 1);
	n->limits = limits;
	n->next_ids = next_ids;
	n->mq_limits = mq_limits;
	kind_init(&n->shm, n, &shm_ops, &n->limits.shmmni, &n->next_ids.shm);
	kind_init(&n->sem, n, &sem_ops, &n->limits.semmni, &n->next_ids.sem);
	kind_init(&n->msg, n, &msg_ops, &n->limits.msgmni, &n->next_ids.msg);
	n->mq_names = RB_ROOT;
	return &n->ns;
}
