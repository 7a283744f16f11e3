/* SPDX-License-Identifier: MIT */
/*
 * The server that the cases of rpc.pair and rpc.lives call, and their calls to it.
 *
 * Node 1 is the server, the others call.  Numbers that both sides must agree on are in sim_shared.
 */
#pragma once

#include <mm/frame.h>

#include "memverbs/sim.h"
#include "rpc_nodes.h"

enum {                          /* opcodes of the handlers beside OP_ECHO */
	OP_COUNT = 0x0f11,      /* worker, not idempotent: counts executions per key */
	OP_PAGE = 0x0f12,       /* idempotent: writes one page to the caller */
	OP_SLOW = 0x0f13,       /* worker: sleeps for the given milliseconds, then writes a page */
	OP_STORE = 0x0f14,      /* takes bulk, answers its checksum */
	OP_AGAIN = 0x0f15,      /* inline first, then worker */
	OP_NEST = 0x0f16,       /* waits for another node */
	OP_PAGES_ONCE = 0x0f17, /* not idempotent, with data */
	OP_HOLD = 0x0f18,       /* waits until SH_RELEASE, and counts how many do */
	OP_HOLD_KILLABLE = 0x0f19, /* the same, but ends when its client has given up */
};

enum { /* sim_shared */
	SH_STEP = 1,
	SH_EXECUTED = 2,
	SH_SENT = 3,
	SH_CALLS = 4,
	SH_HELD = 5, /* OP_HOLD and OP_SLOW: handlers in it; OP_HOLD: how many at most */
	SH_HELD_MOST = 6,
	SH_RELEASE = 7,
};

struct page_req {
	uint64_t addr;
	uint32_t rkey;
	uint32_t arg;
};

/* A registered page of the client that replies are written into. */
struct target {
	struct frame *frame;
	struct rpc_mem *mem;
	struct page_req req;
};

void node_start(struct ktest *t, enum node_role role);
/* Start, and know all other nodes of 1..n. */
void node_join(struct ktest *t, uint32_t n);
/* A node that serves until the clients are done. */
void server_n(struct ktest *t, uint32_t n);
void server2(struct ktest *t);

/* Of the keys that OP_COUNT has met here: how often the most frequent one was executed. */
uint32_t executed_most(void);

/* Each: 0, -EBADMSG when what came back is not what should, or what the call answered. */
int echo(uint32_t peer, enum rpc_class cls, uint32_t len);
int fetch(uint32_t peer, uint16_t opcode, struct target *tg);

void target_init(struct ktest *t, struct target *tg);
bool target_is_good(const struct target *tg);
/* Submit OP_SLOW of @ms; *released becomes 1 when @tg may be used again. @timeout_ms 0: none. */
struct rpc_call *slow_submit(struct ktest *t, struct target *tg, uint32_t ms, uint32_t timeout_ms,
			     uint32_t *released);
bool wait_flag(const uint32_t *flag, uint32_t ms);
