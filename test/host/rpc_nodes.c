/* SPDX-License-Identifier: MIT */
/* See rpc_nodes.h. */
#include "rpc_nodes.h"

#include <unistd.h>

#include <kernel/counter.h>
#include <kernel/time.h>
#include <rdma/verbs.h>

#include "memverbs/sim.h"

uint64_t counter(const char *name)
{
	uint64_t v = UINT64_MAX;

	counter_find(name, &v);
	return v;
}

bool wait_counter(const char *name, uint64_t at_least)
{
	for (int i = 0; i < 5000 && counter(name) < at_least; i++)
		usleep(1000);
	return counter(name) >= at_least;
}

enum rpc_handler_result h_echo(struct rpc_request *req, void *arg)
{
	uint32_t len;
	const void *body = rpc_request_body(req, &len);

	(void)arg;
	rpc_reply(req, 0, body, len);
	return RPC_DONE;
}

void rpc_node_start(struct ktest *t, enum node_role role, const struct rpc_handler *handlers,
		    size_t nr)
{
	struct rdma_device *dev = rdma_device_wait(NULL, time_now_ns() + NSEC_PER_SEC);

	ASSERT_TRUE(t, dev != NULL);
	ASSERT_EQ(t, rpc_handlers_register(handlers, nr, NULL), 0);
	ASSERT_EQ(t, rpc_start(dev, role), 0);
	__atomic_store_n(&sim_shared[SH_BASE + sim_node_id()], node_self()->incarn,
			 __ATOMIC_SEQ_CST);
}

uint32_t rpc_node_incarn(uint32_t id)
{
	while (!sim_get(SH_BASE + id))
		usleep(1000);
	return (uint32_t)sim_get(SH_BASE + id);
}

void peer_add_role(struct ktest *t, uint32_t id, enum node_role role)
{
	const struct node_info info = {
		.id = id, .role = role, .incarn = rpc_node_incarn(id), .addr = sim_addr(id)
	};

	EXPECT_EQ(t, rpc_peer_add(&info), 0);
}

void peer_add(struct ktest *t, uint32_t id)
{
	peer_add_role(t, id, NODE_ROLE_MEMORY);
}

void rpc_node_join(struct ktest *t, uint32_t n)
{
	for (uint32_t id = 1; id <= n; id++) {
		if (id != sim_node_id())
			peer_add(t, id);
	}
	sim_cmd("barrier 0 %u", n);
}
