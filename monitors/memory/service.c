/* SPDX-License-Identifier: MIT */
/*
 * Memory monitor on a node: boot parameters, start, membership.
 *
 * Flow:	see <cluster/start.h>: set frames aside and make the instance, then register the
 *		handlers.
 * Context:	the start thread, and the cluster's calls when a member joins or is gone.
 * Failure:	a processor that is gone loses its spaces and credits.
 */
#define PR_FMT "memory: "

#include "service.h"

#include <cluster/start.h>
#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/work.h>
#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "file_live.h"
#include "memory.h"

static uint64_t vregion_size = 1ull << 30;

BOOT_PARAM_SAME("vregion.size", size, vregion_size, PM_VREGION_MIN, 1ull << 40,
		"unit of memory placement, a power of two");

/* --- cluster --------------------------------------------------------------------------- */

static void update_nodes(void)
{
	const size_t max = cluster_nodes(NODE_ROLE_MEMORY, NULL, 0) + 16;
	uint32_t *ids = kcalloc(max, sizeof(*ids));
	size_t nr;

	if (!ids) {
		pr_err("no memory for the list of memory nodes\n");
		return;
	}
	nr = cluster_nodes(NODE_ROLE_MEMORY, ids, max);
	if (nr && memory_set_nodes(&memory_node, ids, MIN(nr, max)))
		pr_err("no memory for the list of memory nodes\n");
	kfree(ids);
}

/*
 * A memory node comes with a view of which the look-ups know nothing yet; it may ask for something
 * before they do.
 */
static void add_node(uint32_t came)
{
	uint32_t *ids = NULL, *more;
	size_t nr = 0, at = 0;

	more = memory_get_nodes(&memory_node, &ids, &nr) ? NULL : kcalloc(nr + 1, sizeof(*more));
	while (more && at < nr && ids[at] < came)
		at++;
	if (more && (at == nr || ids[at] != came)) {
		memcpy(more, ids, at * sizeof(*ids));
		more[at] = came;
		memcpy(&more[at + 1], &ids[at], (nr - at) * sizeof(*ids));
	}
	if (!more || (more[at] == came && memory_set_nodes(&memory_node, more, nr + 1)))
		pr_err("no memory for the list of memory nodes\n");
	kfree(more);
	lib_free(ids);
}

static struct workqueue *policy_queue; /* const after start */
static struct work policy_work;

static void tell_policy(struct work *w)
{
	/* Each question ends after a while, so a silent node is asked now and then. */
	if (memory_ask_nodes(&memory_node))
		(void)work_queue(policy_queue, w);
}

/* --- storage nodes ---------------------------------------------------------------------- */

/* A life of a storage node to which this node has not declared its claims yet. */
struct storage_life {
	struct list_head link;
	uint32_t node, incarn;
};

static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct list_head list __guarded_by(&lock);
	struct workqueue *queue; /* const after start */
	struct work work;
} lives = { .lock = SPINLOCK_INIT("memory.storage_lives", RANK_SPIN_MONITOR),
	    .list = { &lives.list, &lives.list } };

static void declare_claims(struct work *w)
{
	struct storage_life *life;
	int err;

	(void)w;
	for (;;) {
		spin_lock(&lives.lock);
		life = list_first_entry_or_null(&lives.list, struct storage_life, link);
		if (life)
			list_del(&life->link);
		spin_unlock(&lives.lock);
		if (!life)
			return;
		/* One that has died again comes again: it has another entry then. */
		err = file_declare(&memory_node, life->node, life->incarn);
		if (err < 0 && err != -ESTALE && err != -EHOSTDOWN)
			pr_warn("claims of files cannot be declared to node %u: error %d\n",
				life->node, err);
		kfree(life);
	}
}

static void storage_joined(const struct node_info *node)
{
	struct storage_life *life = kmalloc(sizeof(*life));

	if (!life) {
		pr_err("no memory to note that storage node %u has come\n", node->id);
		return;
	}
	*life = (struct storage_life){ .node = node->id, .incarn = node->incarn };
	spin_lock(&lives.lock);
	list_add_tail(&life->link, &lives.list);
	spin_unlock(&lives.lock);
	(void)work_queue(lives.queue, &lives.work);
}

static void member_joined(const struct node_info *node)
{
	if (node->role == NODE_ROLE_STORAGE)
		storage_joined(node);
	if (node->role == NODE_ROLE_MEMORY) {
		add_node(node->id);
	} else if (node->role == NODE_ROLE_PROCESSOR) {
		memory_processor_joined(&memory_node, node->id);
	}
}

static void member_gone(const struct node_info *node)
{
	if (node->role == NODE_ROLE_PROCESSOR) {
		pr_info("processor %u is gone: its memory is freed\n", node->id);
		memory_processor_gone(&memory_node, node->id);
	} else if (node->role == NODE_ROLE_MEMORY) {
		update_nodes();
		if (memory_node_gone(&memory_node, node->id))
			pr_err("no memory to note that node %u has left\n", node->id);
	}
}

static void vnode_withdrawn(void)
{
	memory_vnode_withdrawn(&memory_node);
}

static void view_changed(const struct cluster_view *view)
{
	update_nodes();
	/* By now a node that came can be called. The work asks other nodes. */
	if (policy_queue)
		(void)work_queue(policy_queue, &policy_work);
}

static const struct cluster_ops cluster_ops = {
	.status = monitor_status,
	.changed = view_changed,
	.joined = member_joined,
	.gone = member_gone,
	.withdrawn = vnode_withdrawn,
	.fenced = monitor_fenced,
};

/* The launcher ends processors before this node, and storage nodes after it. */
static void shut_down(void)
{
	const int err = file_flush_all(&memory_node, 0);

	if (err)
		ctl_error("written files did not all reach their disk: error %d", err);
}

static const struct ctl_ops ctl_ops = {
	.shutdown = shut_down,
	.debug = memory_debug_command,
};

/* --- start ----------------------------------------------------------------------------- */

static int prepare(void)
{
	if (IS_POWER_OF_2(vregion_size))
		return 0;
	ctl_error("bad value for vregion.size: %llu is no power of two",
		  (unsigned long long)vregion_size);
	return -EINVAL;
}

static int serve_pages(void)
{
	int err = memory_node_make((uint32_t)__builtin_ctzll(vregion_size));

	if (err)
		return err;
	work_init(&policy_work, tell_policy);
	policy_queue = workqueue_create("policy", 1);
	if (IS_ERR(policy_queue)) {
		err = PTR_ERR(policy_queue);
		policy_queue = NULL;
	}
	work_init(&lives.work, declare_claims);
	lives.queue = workqueue_create("storage-lives", 1);
	if (!err && IS_ERR(lives.queue))
		err = PTR_ERR(lives.queue);
	if (!err)
		err = memory_handlers_register();
	return err;
}

static const struct monitor monitor = {
	.name = "memory",
	.ctl_role = CTL_ROLE_MEMORY,
	.role = NODE_ROLE_MEMORY,
	.ctl = &ctl_ops,
	.cluster = &cluster_ops,
	.prepare = prepare,
	.serve = serve_pages,
	.complete = update_nodes,
};

static int memory_start(void)
{
	return monitor_start(&monitor);
}
INITCALL(monitor, memory_start);
