/* SPDX-License-Identifier: MIT */
/*
 * Memory monitor on a node: start, handlers, transport.
 *
 * Flow:	cluster/start.h; what is a memory node's own is that frames are set aside and registered, then
 *		the handlers.
 * Handlers:	what moves pages (PM_FETCH, PM_WRITEBACK, PM_FILE_FETCH) is tried in polling context and
 *		goes to a thread when it would have to sleep; everything else goes to a thread at once.
 *		The table at the end tells for each opcode where it runs and whether it may be repeated.
 * Frames:	all of them are in a few registered runs.  Storage nodes may write into these (file pages go
 *		straight into their frames) and nobody may read them; nothing but page frames is in there.
 * Failure:	a processor that is gone loses its spaces and credits.
 */
#define PR_FMT "memory: "

#include "service.h"

#include <cluster/start.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "memory.h"

static uint64_t vregion_size = 1ull << 30;

BOOT_PARAM_CRITICAL(
	"vregion.size", size, vregion_size,
	"unit of memory placement, a power of two from 2M to 1T; the same on all nodes");

/* --- how long calls take, waits for owners and storage included ---------------------------- */

HISTOGRAM(memory_exec_ns, "memory.exec_ns", "PM_EXEC, from its arrival to its reply");
HISTOGRAM(memory_fork_ns, "memory.fork_ns", "PM_FORK, from its arrival to its reply");
HISTOGRAM(memory_collapse_ns, "memory.merge_ns", "PM_MERGE, from its arrival to its reply");

static void note_time(uint16_t opcode, uint64_t start)
{
	const uint64_t ns = time_now_ns() - start;

	if (opcode == PM_EXEC)
		hist_record(&memory_exec_ns, ns);
	else if (opcode == PM_FORK)
		hist_record(&memory_fork_ns, ns);
	else if (opcode == PM_MERGE)
		hist_record(&memory_collapse_ns, ns);
}

/* --- the other handlers ---------------------------------------------------------------- */

static enum rpc_handler_result serve(struct rpc_request *req, uint16_t opcode)
{
	uint32_t len, bulk_len, error_len;
	const void *ring_body = rpc_request_body(req, &len);
	const void *bulk = rpc_request_bulk(req, &bulk_len);
	void *reply = kmalloc(RPC_BODY_MAX_CTL);
	void *body = kmalloc(len ? len : 1);
	const uint64_t start = time_now_ns();
	int ret = -ENOMEM;

	error_len = 0;
	if (reply && body) {
		memcpy(body, ring_body, len);
		ret = memory_serve(&memory_node, rpc_request_peer(req), opcode, body, len, bulk,
				   bulk_len, reply, RPC_BODY_MAX_CTL, &error_len);
	}
	if (ret >= 0)
		rpc_reply(req, 0, reply, (uint32_t)ret);
	else
		rpc_reply(req, ret, reply, error_len);
	note_time(opcode, start);
	kfree(body);
	kfree(reply);
	return RPC_DONE;
}

#define DEFINE_HANDLER(opcode)                                                             \
	static enum rpc_handler_result handle_##opcode(struct rpc_request *req, void *arg) \
	{                                                                                  \
		return serve(req, opcode);                                                 \
	}

DEFINE_HANDLER(PM_EXEC)
DEFINE_HANDLER(PM_MMAP)
DEFINE_HANDLER(PM_MUNMAP)
DEFINE_HANDLER(PM_MPROTECT)
DEFINE_HANDLER(PM_MREMAP)
DEFINE_HANDLER(PM_BRK)
DEFINE_HANDLER(PM_VREGIONS)
DEFINE_HANDLER(PM_DESTROY)
DEFINE_HANDLER(PM_FORK)
DEFINE_HANDLER(PM_MERGE)
DEFINE_HANDLER(PM_DISCARD)
DEFINE_HANDLER(PM_SPACE)
DEFINE_HANDLER(PM_FILL_VMA)
DEFINE_HANDLER(PM_CREDIT)
DEFINE_HANDLER(PM_MEMINFO)
DEFINE_HANDLER(MM_MAP)
DEFINE_HANDLER(MM_LOAD)
DEFINE_HANDLER(MM_UNMAP)
DEFINE_HANDLER(MM_PROTECT)
DEFINE_HANDLER(MM_MOVE)
DEFINE_HANDLER(MM_PAGES)
DEFINE_HANDLER(MM_DESTROY)
DEFINE_HANDLER(MM_FORK)
DEFINE_HANDLER(MM_MERGE)
DEFINE_HANDLER(MM_DISCARD)
DEFINE_HANDLER(MM_VREGION_MOVE)
DEFINE_HANDLER(MM_VREGION_TAKE)
DEFINE_HANDLER(MM_FILE_READ)

#define INLINE                 RPC_HANDLER_INLINE
#define WAITS                  RPC_HANDLER_WAITS
#define IDEMPOTENT             RPC_HANDLER_IDEMPOTENT
#define HANDLER(opcode, flags) { opcode, flags, #opcode, handle_##opcode }

/*
 * Sender: a member whose connection is up; it may die at any time, which changes nothing here until the
 * cluster says that it is gone.  Races: calls of one space are ordered by its mutex at the home; at the
 * owner a region's lock and state order everything.
 */
static const struct rpc_handler handlers[] = {
	/* From processors, to the home.  They wait for owners; a repetition gets the first reply. */
	HANDLER(PM_EXEC, WAITS), /* waits for storage too */
	HANDLER(PM_MMAP, WAITS),
	HANDLER(PM_MUNMAP, WAITS),
	HANDLER(PM_MPROTECT, WAITS),
	HANDLER(PM_MREMAP, WAITS),
	HANDLER(PM_BRK, WAITS),
	HANDLER(PM_VREGIONS, WAITS), /* twice would promise twice */
	HANDLER(PM_DESTROY, WAITS | IDEMPOTENT),
	HANDLER(PM_FORK, WAITS),
	HANDLER(PM_MERGE, WAITS),
	HANDLER(PM_DISCARD, WAITS | IDEMPOTENT),
	HANDLER(PM_SPACE, WAITS),
	/* From processors, to the owner.  They wait only while a vRegion is handed over. */
	{ PM_FETCH, INLINE | WAITS | IDEMPOTENT, "PM_FETCH", msg_fetch },
	HANDLER(PM_FILL_VMA, WAITS | IDEMPOTENT),
	{ PM_WRITEBACK, INLINE | WAITS | IDEMPOTENT, "PM_WRITEBACK", msg_writeback },
	HANDLER(PM_CREDIT, 0), /* twice would promise twice */
	HANDLER(PM_MEMINFO, IDEMPOTENT),
	/* From processors, to the node of a file's page cache.  Waits for storage. */
	{ PM_FILE_FETCH, INLINE | WAITS | IDEMPOTENT, "PM_FILE_FETCH", msg_file_fetch },
	/* From the home.  They wait for nobody, but MM_MOVE and MM_VREGION_MOVE for another owner. */
	HANDLER(MM_MAP, 0),
	HANDLER(MM_LOAD, 0),
	HANDLER(MM_UNMAP, 0),
	HANDLER(MM_PROTECT, 0),
	HANDLER(MM_MOVE, WAITS),
	HANDLER(MM_DESTROY, IDEMPOTENT),
	HANDLER(MM_FORK, 0),
	HANDLER(MM_MERGE, IDEMPOTENT),
	HANDLER(MM_DISCARD, IDEMPOTENT),
	HANDLER(MM_VREGION_MOVE, WAITS),
	/* From another owner. */
	HANDLER(MM_PAGES, 0),
	HANDLER(MM_VREGION_TAKE, 0),
	/* From a home that loads a program.  Waits for storage. */
	HANDLER(MM_FILE_READ, WAITS | IDEMPOTENT),
};

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

static void member_joined(const struct node_info *node)
{
	if (node->role == NODE_ROLE_MEMORY)
		update_nodes();
	else if (node->role == NODE_ROLE_PROCESSOR)
		memory_processor_joined(&memory_node, node->id);
}

static void member_gone(const struct node_info *node)
{
	if (node->role == NODE_ROLE_PROCESSOR) {
		pr_info("processor %u is gone: its memory is freed\n", node->id);
		memory_processor_gone(&memory_node, node->id);
	} else if (node->role == NODE_ROLE_MEMORY) {
		update_nodes();
		memory_node_gone(&memory_node, node->id);
	}
}

static const struct cluster_ops cluster_ops = {
	.status = monitor_status,
	.joined = member_joined,
	.gone = member_gone,
	.fenced = monitor_fenced,
};

static const struct ctl_ops ctl_ops = {
	.debug = memory_debug_command,
};

/* --- start ----------------------------------------------------------------------------- */

static int prepare(void)
{
	if (IS_POWER_OF_2(vregion_size) && vregion_size >= PM_VREGION_MIN &&
	    vregion_size <= (1ull << 40))
		return 0;
	ctl_error("boot parameter vregion.size is not a power of two from 2M to 1T");
	return -EINVAL;
}

static int serve_pages(void)
{
	int err = memory_node_make((uint32_t)__builtin_ctzll(vregion_size));

	if (!err)
		err = rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
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
