/* SPDX-License-Identifier: MIT */
/* RPC: boot parameters and the limits of each traffic class. See docs/boot-params.md. */
#include "rpc_priv.h"

#include <kernel/bootparam.h>
#include <lib/errno.h>
#include <lib/string.h>

struct rpc_class_cfg rpc_class_cfg[RPC_NR_CLASSES] = {
	[RPC_CLASS_CONTROL] = { .name = "control",
				.nr_slots = 16,
				.body_max = RPC_BODY_MAX_CTL,
				.bulk_max = RPC_BULK_MAX_ONE,
				.max_sge = 4,
				.window_kb = UINT32_MAX /* none */ },
	[RPC_CLASS_DEMAND] = { .name = "demand",
			       .nr_slots = 32,
			       .body_max = RPC_BODY_MAX,
			       .bulk_max = RPC_BULK_MAX_ONE,
			       .max_sge = 4,
			       .window_kb = 1024 },
	[RPC_CLASS_PREFETCH] = { .name = "prefetch",
				 .nr_slots = 16,
				 .body_max = RPC_BODY_MAX,
				 .bulk_max = 0,
				 .max_sge = 0,
				 .window_kb = 2048 },
	[RPC_CLASS_WRITEBACK] = { .name = "writeback",
				  .nr_slots = 8,
				  .body_max = RPC_BODY_MAX,
				  .bulk_max = RPC_BULK_MAX,
				  .max_sge = 32,
				  .window_kb = 1024 },
	[RPC_CLASS_READ] = { .name = "read",
			     .nr_slots = 16,
			     .body_max = 0,
			     .bulk_max = RPC_BULK_MAX_ONE,
			     .max_sge = 1,
			     .window_kb = UINT32_MAX /* the slots are enough */ },
	[RPC_CLASS_READ_AHEAD] = { .name = "ahead",
				   .nr_slots = 32,
				   .body_max = 0,
				   .bulk_max = RPC_READ_MAX,
				   .max_sge = 16,
				   .window_kb = 2048 },
};

struct rpc_tune rpc_tune = {
	.spin_us = 600,
	.serve_spin_us = 600,
	.late_us = 4000,
	.lazy_us = 500,
	.probe_ms = 2000,
	.quarantine_ms = 5000,
	.merge = true,
	.workers = 8,
	.max_peers = 64,
	.ack_timeout = 16,
	.tick_ms = 10,
	.datagram_buffers = 64,
};

BOOT_PARAM_SAME("rpc.slots.control", u32, rpc_class_cfg[RPC_CLASS_CONTROL].nr_slots, 1,
		RPC_MAX_SLOTS, "requests in flight per peer, control class");
BOOT_PARAM_SAME("rpc.slots.demand", u32, rpc_class_cfg[RPC_CLASS_DEMAND].nr_slots, 1, RPC_MAX_SLOTS,
		"requests in flight per peer, demand class");
BOOT_PARAM_SAME("rpc.slots.prefetch", u32, rpc_class_cfg[RPC_CLASS_PREFETCH].nr_slots, 1,
		RPC_MAX_SLOTS, "requests in flight per peer, prefetch class");
BOOT_PARAM_SAME("rpc.slots.writeback", u32, rpc_class_cfg[RPC_CLASS_WRITEBACK].nr_slots, 1,
		RPC_MAX_SLOTS, "requests in flight per peer, write-back class");
BOOT_PARAM_SAME("rpc.slots.read", u32, rpc_class_cfg[RPC_CLASS_READ].nr_slots, 1, RPC_MAX_SLOTS,
		"one-sided reads in flight per peer");
BOOT_PARAM_SAME("rpc.slots.ahead", u32, rpc_class_cfg[RPC_CLASS_READ_AHEAD].nr_slots, 1,
		RPC_MAX_SLOTS, "one-sided reads ahead in flight per peer");
BOOT_PARAM_RANGE("rpc.sl.control", u32, rpc_class_cfg[RPC_CLASS_CONTROL].sl, 0, 15,
		 "InfiniBand service level of the control class; 0 = the path's");
BOOT_PARAM_RANGE("rpc.sl.demand", u32, rpc_class_cfg[RPC_CLASS_DEMAND].sl, 0, 15,
		 "InfiniBand service level of the demand class; 0 = the path's");
BOOT_PARAM_RANGE("rpc.sl.prefetch", u32, rpc_class_cfg[RPC_CLASS_PREFETCH].sl, 0, 15,
		 "InfiniBand service level of the prefetch class; 0 = the path's");
BOOT_PARAM_RANGE("rpc.sl.writeback", u32, rpc_class_cfg[RPC_CLASS_WRITEBACK].sl, 0, 15,
		 "InfiniBand service level of the write-back class; 0 = the path's");
BOOT_PARAM_RANGE("rpc.sl.read", u32, rpc_class_cfg[RPC_CLASS_READ].sl, 0, 15,
		 "InfiniBand service level of one-sided reads; 0 = the path's");
BOOT_PARAM_RANGE("rpc.sl.ahead", u32, rpc_class_cfg[RPC_CLASS_READ_AHEAD].sl, 0, 15,
		 "InfiniBand service level of one-sided reads ahead; 0 = the path's");
BOOT_PARAM_RANGE("rpc.spin_us", u32, rpc_tune.spin_us, 0, 1000000,
		 "longest time that a waiting caller polls before it sleeps");
BOOT_PARAM_RANGE("rpc.serve_spin_us", u32, rpc_tune.serve_spin_us, 0, 1000000,
		 "longest time that an idle server polls for the next request before it sleeps");
BOOT_PARAM_RANGE("rpc.late_us", u32, rpc_tune.late_us, 0, 10000,
		 "longest time that a reply waits for a message to share a doorbell; 0: none");
BOOT_PARAM_RANGE("rpc.lazy_us", u32, rpc_tune.lazy_us, 0, 100000,
		 "how long re-arming the interrupt is put off while callers poll by themselves");
BOOT_PARAM_RANGE("rpc.probe_ms", u32, rpc_tune.probe_ms, 10, 3600000,
		 "a connection that a call waits on is probed so often");
BOOT_PARAM_RANGE("rpc.quarantine_ms", u32, rpc_tune.quarantine_ms, 10, 3600000,
		 "a connection is reset to free slots that are in quarantine for so long");

/* Which of @names is @value?  -EINVAL: none. */
static int parse_word(const char *value, const char *const *names, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (strcmp(value, names[i]) == 0)
			return (int)i;
	}
	return -EINVAL;
}

static int parse_completion(const char *value)
{
	static const char *const names[] = { [RPC_COMPLETION_HYBRID] = "hybrid",
					     [RPC_COMPLETION_POLL] = "poll",
					     [RPC_COMPLETION_INTERRUPT] = "interrupt" };
	const int found = parse_word(value, names, ARRAY_SIZE(names));

	if (found < 0)
		return found;
	rpc_tune.completion = (enum rpc_completion)found;
	return 0;
}
BOOT_PARAM_CB("rpc.completion", parse_completion,
	      "how threads learn of completions: hybrid, poll or interrupt");

static int parse_queues(const char *value)
{
	static const char *const names[] = { [RPC_QUEUES_AUTO] = "auto",
					     [RPC_QUEUES_CLASS] = "class",
					     [RPC_QUEUES_ONE] = "one" };
	const int found = parse_word(value, names, ARRAY_SIZE(names));

	if (found < 0)
		return found;
	rpc_tune.queues = (enum rpc_queues)found;
	return 0;
}
BOOT_PARAM_CB("rpc.queues", parse_queues,
	      "completion queues: one for all classes, for each class, or auto: by the CPUs");
BOOT_PARAM("rpc.merge", bool, rpc_tune.merge,
	   "join neighbouring data to one work request, and calls to one doorbell");
BOOT_PARAM_RANGE("rpc.window.demand", u32, rpc_class_cfg[RPC_CLASS_DEMAND].window_kb, 4, 1u << 20,
		 "most KiB in flight per peer, demand class");
BOOT_PARAM_RANGE("rpc.window.prefetch", u32, rpc_class_cfg[RPC_CLASS_PREFETCH].window_kb, 4,
		 1u << 20,
		 "most KiB in flight per peer, prefetch class: the data asked for as well");
BOOT_PARAM_RANGE("rpc.window.writeback", u32, rpc_class_cfg[RPC_CLASS_WRITEBACK].window_kb, 4,
		 1u << 20, "most KiB in flight per peer, write-back class");
BOOT_PARAM_RANGE("rpc.window.ahead", u32, rpc_class_cfg[RPC_CLASS_READ_AHEAD].window_kb, 4,
		 1u << 20, "most KiB of one-sided reads ahead in flight per peer");
BOOT_PARAM_RANGE("rpc.workers", u32, rpc_tune.workers, 1, 1024, "most worker threads per class");
BOOT_PARAM_RANGE("rpc.max_peers", u32, rpc_tune.max_peers, 1, 4096,
		 "peers for which the completion queues have room");
BOOT_PARAM_RANGE("rpc.ack_timeout", u32, rpc_tune.ack_timeout, 1, 31,
		 "transport retransmission time of a queue pair: 4.096 us * 2^n");
BOOT_PARAM_RANGE("rpc.tick_ms", u32, rpc_tune.tick_ms, 1, 1000,
		 "period of deadline checks while calls are outstanding");
BOOT_PARAM_RANGE("rpc.datagram_buffers", u32, rpc_tune.datagram_buffers, 4, 4096,
		 "receive buffers for datagrams, each of one MTU (half as many to send)");
