/* SPDX-License-Identifier: MIT */
/* Start of a monitor: see start.h. */
#define PR_FMT "start: "

#include <cluster/start.h>

#include <cluster/membership.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <net/rpc.h>
#include <proto/types.h>
#include <rdma/verbs.h>

#define DEVICE_WAIT_S 30u

void monitor_status(const char *line)
{
	ctl_status("%s", line);
}

void monitor_fenced(const char *why)
{
	ctl_error("%s", why);
}

static int start_network(const struct monitor *m)
{
	struct rdma_device *dev =
		rdma_device_wait(NULL, time_after_ns(DEVICE_WAIT_S * NSEC_PER_SEC));
	int err;

	if (!dev) {
		ctl_error("no RDMA device came up within %u s", DEVICE_WAIT_S);
		return -ENODEV;
	}
	rpc_set_waits(proto_waits);
	err = rpc_start(dev, m->role);
	if (err)
		ctl_error("RPC cannot start: error %d", err);
	return err;
}

/* Without a key of the cluster there is no cluster, as cluster_join() tells. */
static int check_file_key(const struct monitor *m)
{
	if (m->role == NODE_ROLE_PROCESSOR || !cluster_params.has_key || cluster_file_key())
		return 0;
	ctl_error("cluster.key= does not have the key of handles, behind the number of the start");
	return -ENOKEY;
}

static int start_node(const struct monitor *m)
{
	int err = check_file_key(m);

	if (!err && m->prepare)
		err = m->prepare();
	if (!err)
		err = start_network(m);
	if (err)
		return err;
	err = m->serve();
	if (err) {
		ctl_error("the %s monitor cannot start: error %d", m->name, err);
		return err;
	}
	err = cluster_join(m->cluster);
	if (err)
		ctl_error("the cluster did not come together: error %d", err);
	else if (m->complete)
		m->complete();
	return err;
}

static const struct monitor *monitor; /* const after the initcall */

static void start_thread(void *arg)
{
	const struct monitor *m = monitor;
	struct ctl_ready ready;
	int err;

	/* Before there is an incarnation, as the key comes with the number of this start. */
	if (cluster_key_find())
		pr_debug("no key\n"); /* cluster_join() tells */
	err = ctl_start(m->ctl_role, log_node_id(), node_incarnation(), m->ctl);
	if (err && err != -ENODEV)
		pr_err("no control channel: error %d\n", err);
	if (start_node(m))
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

int monitor_start(const struct monitor *m)
{
	struct thread *t;

	monitor = m;
	t = thread_create("monitor-start", start_thread, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}
