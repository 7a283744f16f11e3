/* SPDX-License-Identifier: MIT */
/*
 * This node's identity, and the start of the RPC layer.
 *
 * Flow:	rpc_start(), called once by the monitor when an RDMA device is there: waits for an
 *		active port, chooses the incarnation, makes the completion queues, the threads and
 *		the listener.  From then on peers can be added.
 */
#define PR_FMT "rpc: "

#include <net/node.h>

#include "rpc_priv.h"

#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>

#define PORT_WAIT_NS (30 * NSEC_PER_SEC)

struct rpc_net rpc_net;
static struct node_info self;

const struct node_info *node_self(void)
{
	return &self;
}

const char *node_role_name(enum node_role role)
{
	switch (role) {
	case NODE_ROLE_PROCESSOR:
		return "processor";
	case NODE_ROLE_MEMORY:
		return "memory";
	case NODE_ROLE_STORAGE:
		return "storage";
	}
	return "unknown";
}

void rpc_accept_strangers(bool on)
{
	WRITE_ONCE(rpc_net.accept_strangers, on);
}

void rpc_epoch_set(uint32_t epoch)
{
	WRITE_ONCE(rpc_net.epoch, epoch);
}

void rpc_epoch_notify(void (*fn)(void))
{
	__atomic_store_n(&rpc_net.behind, fn, __ATOMIC_RELEASE);
}

uint32_t rpc_epoch(void)
{
	return READ_ONCE(rpc_net.epoch);
}

/*
 * A peer asked for memory that it was not given: the device has refused it and ended the
 * connection.  Thread context.
 */
static void device_event(struct rdma_event_handler *h, const struct rdma_event *ev)
{
	const struct rpc_conn *conn;

	if (ev->type != RDMA_EVENT_QP_ACCESS || rdma_qp_type(ev->qp) != RDMA_QPT_RC)
		return;
	conn = rdma_qp_context(ev->qp);
	if (!conn)
		return; /* not one of a session */
	counter_inc(&rpc_c_access_refused);
	pr_warn_ratelimited("node %u asked for memory that it was not given: refused\n",
			    conn->session->peer->info.id);
}

static struct rdma_event_handler event_handler = { .fn = device_event };

/* The first active port, waiting for the subnet manager if need be. */
static int port_find(struct rdma_device *dev, struct rdma_port_attr *attr)
{
	const uint64_t deadline = time_now_ns() + PORT_WAIT_NS;

	do {
		for (uint8_t port = 1; port <= rpc_net.attr.nr_ports; port++) {
			if (rdma_port_attr(dev, port, attr) == 0 && attr->state == RDMA_PORT_ACTIVE)
				return port;
		}
		thread_sleep_until(time_now_ns() + 5 * NSEC_PER_MSEC);
	} while (time_now_ns() < deadline);
	pr_err("no port of %s became active\n", rdma_device_name(dev));
	return -ENETDOWN;
}

static uint32_t start_number; /* const once there is an incarnation */

void node_start_set(uint32_t start)
{
	ASSERT(start <= NODE_START_MAX);
	start_number = start;
}

uint32_t node_incarnation(void)
{
	static uint32_t incarn; /* atomic */
	uint32_t none = 0, mine;

	do {
		mine = (uint32_t)random_u64() >> NODE_START_BITS;
	} while (!mine);
	mine |= start_number << (32 - NODE_START_BITS);
	return __atomic_compare_exchange_n(&incarn, &none, mine, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE)
		       ? mine
		       : none;
}

static void self_init(enum node_role role, const struct rdma_port_attr *attr)
{
	self.id = log_node_id();
	self.role = role;
	self.addr.dlid = attr->lid;
	self.addr.dgid = attr->gid;
	self.addr.has_grh = attr->lid == 0;
	self.incarn = node_incarnation();
}

int rpc_start(struct rdma_device *dev, enum node_role role)
{
	struct rdma_port_attr attr;
	int err, port;

	if (rpc_net.is_started)
		return -EBUSY;
	if (log_node_id() == 0 || log_node_id() > 0xffff) {
		pr_err("boot parameter node=%u is not in 1..65535\n", log_node_id());
		return -EINVAL;
	}
	if (!random_is_seeded()) {
		pr_err("no source of random numbers for keys: no RDRAND, seed or device\n");
		return -ENODATA;
	}
	rpc_net.dev = dev;
	rdma_device_attr(dev, &rpc_net.attr);
	port = port_find(dev, &attr);
	if (port < 0)
		return port;
	rpc_net.port = (uint8_t)port;
	self_init(role, &attr);
	rpc_net.pd = rdma_pd_create(dev);
	if (IS_ERR(rpc_net.pd))
		return (int)PTR_ERR(rpc_net.pd);
	rpc_net.conn_wq = workqueue_create("rpc-conn", 16);
	if (IS_ERR(rpc_net.conn_wq)) {
		err = (int)PTR_ERR(rpc_net.conn_wq);
		goto out_pd;
	}
	/* From here on threads run: a failure is the end of the boot, nothing is undone. */
	err = rpc_handlers_register(rpc_own_handlers, rpc_nr_own_handlers, NULL);
	if (!err)
		err = rpc_workers_init();
	if (!err)
		err = rpc_poll_init();
	if (!err)
		err = rpc_tick_init();
	if (!err)
		err = rpc_dgram_init();
	if (err)
		return err;
	rdma_event_register(dev, &event_handler);
	rpc_net.is_started = true;
	rpc_net.listener =
		cm_listen(dev, rpc_net.port, RPC_SERVICE_ID, rpc_conn_request_event, NULL);
	if (IS_ERR(rpc_net.listener))
		return (int)PTR_ERR(rpc_net.listener);
	err = rpc_bench_listen();
	if (err)
		return err;
	pr_info("node %u (%s) on %s port %u lid %u\n", self.id, node_role_name(role),
		rdma_device_name(dev), rpc_net.port, self.addr.dlid);
	return 0;

out_pd:
	rdma_pd_destroy(rpc_net.pd);
	return err;
}
