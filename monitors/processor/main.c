/* SPDX-License-Identifier: MIT */
/*
 * Processor monitor: start.
 *
 * Flow:	control channel (so that every failure below can be told) -> RDMA device -> RPC -> ExCache ->
 *		join the cluster and wait until it is complete -> READY; programs come by RUN.
 * Context:	one start thread, which ends when the node is ready.
 * Failure:	one line to the launcher and the log; the node stays up, so that its log and counters can be
 *		read, but runs nothing.
 */
#define PR_FMT "processor: "

#include <arch/cpu.h>
#include <ctl/ctl.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <managers/cluster.h>
#include <net/node.h>
#include <processor/excache.h>
#include <processor/futex.h>
#include <processor/process.h>
#include <processor/strace.h>
#include <processor/system_threads.h>
#include <processor/trap.h>
#include <processor/tty.h>
#include <rdma/verbs.h>

#define DEVICE_WAIT_NS 30000000000ull

static void run_program(struct ctl_prog *prog, const struct ctl_run *run)
{
	process_run(prog, run);
}

static void signal_program(struct ctl_prog *prog, uint32_t signo)
{
	process_signal_prog(prog, (int)signo);
}

static const struct ctl_ops ctl_ops = {
	.run = run_program,
	.signal = signal_program,
	.winsize = tty_resize_prog,
};

static void join_status(const char *line)
{
	ctl_status("%s", line);
}

/* Whatever runs here has lost its memory: it may do nothing more. */
static void fenced(void)
{
	ctl_error("this node was fenced: its lease had ended");
}

static void load(struct cluster_load *out)
{
	const uint64_t free = excache_free_count();

	system_threads(&out->runnable, &out->tasks);
	out->cpus = cpu_online_count();
	out->free_lines = (uint32_t)MIN(free, (uint64_t)UINT32_MAX);
}

static const struct cluster_ops cluster_ops = {
	.status = join_status,
	.fenced = fenced,
	.load = load,
};

static int start_node(void)
{
	struct rdma_device *dev = rdma_device_wait(time_now_ns() + DEVICE_WAIT_NS);
	int err;

	if (!dev) {
		ctl_error("no RDMA device came up within %llu s", DEVICE_WAIT_NS / 1000000000ull);
		return -ENODEV;
	}
	err = rpc_start(dev, NODE_ROLE_PROCESSOR);
	if (err) {
		ctl_error("RPC cannot start: error %d", err);
		return err;
	}
	err = excache_init();
	if (err) {
		ctl_error("ExCache cannot start: error %d", err);
		return err;
	}
	process_init();
	futex_init();
	strace_init();
	trap_init();
	err = cluster_join(&cluster_ops);
	if (err)
		ctl_error("the cluster did not come together: error %d", err);
	return err;
}

static void start_thread(void *arg)
{
	struct ctl_ready ready;
	int err = ctl_start(CTL_ROLE_PROCESSOR, log_node_id(), &ctl_ops);

	if (err && err != -ENODEV)
		pr_err("no control channel: error %d\n", err);
	if (start_node() < 0)
		return;
	ready = (struct ctl_ready){
		.epoch = cluster_epoch(),
		.nr_processors = (uint16_t)cluster_nodes(NODE_ROLE_PROCESSOR, NULL, 0),
		.nr_memories = (uint16_t)cluster_nodes(NODE_ROLE_MEMORY, NULL, 0),
		.nr_storages = (uint16_t)cluster_nodes(NODE_ROLE_STORAGE, NULL, 0),
	};
	ctl_ready(&ready);
	pr_info("ready\n");
}

static int processor_init(void)
{
	struct thread *t = thread_create("processor-start", start_thread, NULL);

	if (IS_ERR(t))
		return PTR_ERR(t);
	thread_detach(t);
	return 0;
}
INITCALL(monitor, processor_init);
