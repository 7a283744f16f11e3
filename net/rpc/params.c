/* SPDX-License-Identifier: MIT */
/* RPC: boot parameters and the limits of each traffic class. See docs/boot-params.md. */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/bootparam.h>
#include <kernel/printk.h>
#include <lib/errno.h>

struct rpc_class_cfg rpc_class_cfg[RPC_NR_CLASSES] = {
	[RPC_CLASS_CONTROL] = { .name = "control",
				.nr_slots = 16,
				.body_max = RPC_BODY_MAX_CTL,
				.bulk_max = RPC_BULK_MAX_ONE,
				.max_sge = 4,
				.timeout_ms = 60000 },
	[RPC_CLASS_DEMAND] = { .name = "demand",
			       .nr_slots = 32,
			       .body_max = RPC_BODY_MAX,
			       .bulk_max = RPC_BULK_MAX_ONE,
			       .max_sge = 4,
			       .timeout_ms = 30000 },
	[RPC_CLASS_PREFETCH] = { .name = "prefetch",
				 .nr_slots = 16,
				 .body_max = RPC_BODY_MAX,
				 .bulk_max = 0,
				 .max_sge = 0,
				 .timeout_ms = 30000 },
	[RPC_CLASS_WRITEBACK] = { .name = "writeback",
				  .nr_slots = 8,
				  .body_max = RPC_BODY_MAX,
				  .bulk_max = RPC_BULK_MAX,
				  .max_sge = 32,
				  .timeout_ms = 30000 },
};

struct rpc_tune rpc_tune = {
	.spin_us = 600,
	.serve_spin_us = 600,
	.lazy_us = 500,
	.dead_ms = 10000,
	.keepalive_ms = 2000,
	.quarantine_ms = 5000,
	.window_kb = 1024,
	.workers = 8,
	.max_peers = 64,
	.ack_timeout = 16,
	.tick_ms = 10,
	.datagram_buffers = 64,
};

BOOT_PARAM("rpc.slots.control", u32, rpc_class_cfg[RPC_CLASS_CONTROL].nr_slots,
	   "requests in flight per peer, control class (1-64; the same on all nodes)");
BOOT_PARAM("rpc.slots.demand", u32, rpc_class_cfg[RPC_CLASS_DEMAND].nr_slots,
	   "the same, demand class");
BOOT_PARAM("rpc.slots.prefetch", u32, rpc_class_cfg[RPC_CLASS_PREFETCH].nr_slots,
	   "the same, prefetch class");
BOOT_PARAM("rpc.slots.writeback", u32, rpc_class_cfg[RPC_CLASS_WRITEBACK].nr_slots,
	   "the same, write-back class");
BOOT_PARAM("rpc.timeout_ms.control", u32, rpc_class_cfg[RPC_CLASS_CONTROL].timeout_ms,
	   "default deadline of a call, control class");
BOOT_PARAM("rpc.timeout_ms.demand", u32, rpc_class_cfg[RPC_CLASS_DEMAND].timeout_ms,
	   "the same, demand class");
BOOT_PARAM("rpc.timeout_ms.prefetch", u32, rpc_class_cfg[RPC_CLASS_PREFETCH].timeout_ms,
	   "the same, prefetch class");
BOOT_PARAM("rpc.timeout_ms.writeback", u32, rpc_class_cfg[RPC_CLASS_WRITEBACK].timeout_ms,
	   "the same, write-back class");
BOOT_PARAM("rpc.spin_us", u32, rpc_tune.spin_us,
	   "longest time that a waiting caller polls before it sleeps");
BOOT_PARAM("rpc.serve_spin_us", u32, rpc_tune.serve_spin_us,
	   "longest time that an idle server polls for the next request before it sleeps");
BOOT_PARAM("rpc.lazy_us", u32, rpc_tune.lazy_us,
	   "how long re-arming the interrupt is put off while callers poll by themselves");
BOOT_PARAM("rpc.dead_ms", u32, rpc_tune.dead_ms,
	   "a peer that is silent so long while a call waits for it is dead");
BOOT_PARAM("rpc.keepalive_ms", u32, rpc_tune.keepalive_ms,
	   "a peer that is silent so long while a call waits for it is pinged");
BOOT_PARAM("rpc.quarantine_ms", u32, rpc_tune.quarantine_ms,
	   "a connection is reset to free slots that are in quarantine for so long");
BOOT_PARAM("rpc.window_kb", u32, rpc_tune.window_kb,
	   "most KiB of requests in flight per peer and class");
BOOT_PARAM("rpc.workers", u32, rpc_tune.workers, "most worker threads per class");
BOOT_PARAM("rpc.max_peers", u32, rpc_tune.max_peers,
	   "peers for which the completion queue has room");
BOOT_PARAM("rpc.ack_timeout", u32, rpc_tune.ack_timeout,
	   "transport retransmission time of a queue pair: 4.096 us * 2^n");
BOOT_PARAM("rpc.tick_ms", u32, rpc_tune.tick_ms,
	   "period of deadline checks while calls are outstanding");
BOOT_PARAM("rpc.datagram_buffers", u32, rpc_tune.datagram_buffers,
	   "receive buffers for datagrams, each of one MTU (half as many to send)");

static int check(const char *name, uint32_t val, uint32_t min, uint32_t max)
{
	if (val >= min && val <= max)
		return 0;
	pr_err("boot parameter rpc.%s=%u is not in %u..%u\n", name, val, min, max);
	return -EINVAL;
}

int rpc_params_check(void)
{
	int err = 0;

	for (uint32_t i = 0; i < RPC_NR_CLASSES; i++) {
		const struct rpc_class_cfg *c = &rpc_class_cfg[i];

		if (check("slots", c->nr_slots, 1, RPC_MAX_SLOTS) ||
		    check("timeout_ms", c->timeout_ms, 100, 3600000)) {
			pr_err("(class %s)\n", c->name);
			err = -EINVAL;
		}
	}
	if (check("spin_us", rpc_tune.spin_us, 0, 1000000) ||
	    check("serve_spin_us", rpc_tune.serve_spin_us, 0, 1000000) ||
	    check("lazy_us", rpc_tune.lazy_us, 0, 100000) ||
	    check("dead_ms", rpc_tune.dead_ms, 100, 3600000) ||
	    check("keepalive_ms", rpc_tune.keepalive_ms, 10, rpc_tune.dead_ms) ||
	    check("quarantine_ms", rpc_tune.quarantine_ms, 10, 3600000) ||
	    check("window_kb", rpc_tune.window_kb, 4, 1u << 20) ||
	    check("workers", rpc_tune.workers, 1, 1024) ||
	    check("max_peers", rpc_tune.max_peers, 1, 4096) ||
	    check("ack_timeout", rpc_tune.ack_timeout, 1, 31) ||
	    check("tick_ms", rpc_tune.tick_ms, 1, 1000) ||
	    check("datagram_buffers", rpc_tune.datagram_buffers, 4, 4096))
		err = -EINVAL;
	return err;
}
