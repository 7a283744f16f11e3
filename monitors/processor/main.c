/* SPDX-License-Identifier: MIT */
/*
 * Processor monitor: start.
 *
 * Flow:	cluster/start.h; what is a processor's own is the ExCache, then all that programs
 *		need.
 */
#include <arch/cpu.h>
#include <cluster/start.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <net/tcpip.h>
#include <processor/account/account.h>
#include <processor/client/behind.h>
#include <processor/client/kept.h>
#include <processor/client/names.h>
#include <processor/client/revoke_server.h>
#include <processor/excache/excache.h>
#include <processor/excache/file_dirty.h>
#include <processor/excache/places.h>
#include <processor/ipc/futex.h>
#include <processor/mm/aspace.h>
#include <processor/process/process.h>
#include <processor/procfs/system.h>
#include <processor/socket/gateway.h>
#include <processor/socket/remote.h>
#include <processor/syscall/strace.h>
#include <processor/tty/tty.h>
#include <processor/vfs/live.h>
#include <processor/vfs/storagefs.h>

static void run_program(struct ctl_prog *prog, const struct ctl_run *run)
{
	process_run(prog, run);
}

static void signal_program(struct ctl_prog *prog, uint32_t signo)
{
	process_signal_prog(prog, (int)signo);
}

/*
 * The other nodes end later: what programs have written to files, or stored into mappings, goes to
 * memory nodes, and what storage nodes were to be told later to these.
 */
static void flush_files(void)
{
	const int err = live_flush_all();

	behind_flush_all();
	if (err)
		pr_err("bytes that were written to files are lost: error %d\n", err);
}

static const struct ctl_ops ctl_ops = {
	.run = run_program,
	.shutdown = flush_files,
	.signal = signal_program,
	.winsize = tty_resize_prog,
};

static void load(struct cluster_load *out)
{
	const uint64_t free = excache_free_count();

	system_threads(&out->runnable, &out->tasks);
	out->cpus = cpu_online_count();
	out->free_lines = (uint32_t)MIN(free, (uint64_t)UINT32_MAX);
}

static void member_joined(const struct node_info *node)
{
	if (node->role == NODE_ROLE_STORAGE) {
		kept_drop(node->id); /* what its earlier life has told */
		storagefs_node_joined(node->id, node->incarn);
	}
}

static void member_gone(const struct node_info *node)
{
	if (node->role == NODE_ROLE_MEMORY) {
		aspace_node_gone(node->id);
		places_node_gone(node->id);
		file_dirty_node_gone();
	}
	if (node->role == NODE_ROLE_PROCESSOR) {
		remote_node_gone(node->id, node->incarn);
		gateway_node_gone(node->id, node->incarn);
	}
}

static void view_changed(const struct cluster_view *view)
{
	(void)view;
	names_view_changed();
	gateway_view_changed();
	kept_view_changed();
}

/* The launcher first: it names the node to all of its programs, however long they take to end. */
static void fenced(const char *why)
{
	tcpip_silence(); /* the vNode's address is another node's from now on */
	monitor_fenced(why);
	process_lose_all(why);
}

static const struct cluster_ops cluster_ops = {
	.joined = member_joined,
	.gone = member_gone,
	.status = monitor_status,
	.fenced = fenced,
	.changed = view_changed,
	.load = load,
};

static int serve(void)
{
	int err = aspace_init(process_kill_failed);

	if (err)
		return err;
	kmem_account_init();
	err = oom_init();
	if (err)
		return err;
	err = revoke_serve(places_revoke);
	if (!err)
		err = names_start();
	if (!err)
		err = remote_init();
	if (!err)
		err = gateway_init();
	if (err)
		return err;
	process_init();
	futex_init();
	strace_init();
	trap_init();
	return 0;
}

static const struct monitor monitor = {
	.name = "processor",
	.ctl_role = CTL_ROLE_PROCESSOR,
	.role = NODE_ROLE_PROCESSOR,
	.ctl = &ctl_ops,
	.cluster = &cluster_ops,
	.serve = serve,
	.complete = gateway_begin,
};

static int processor_init(void)
{
	return monitor_start(&monitor);
}
INITCALL(monitor, processor_init);
