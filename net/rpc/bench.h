/* SPDX-License-Identifier: MIT */
/*
 * Shared by the two benchmarks of the RPC layer: opcodes, message bodies, the node at the other
 * end.
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/types.h>

enum bench_opcode { /* PROTO_BENCH */
	BENCH_ECHO = 0x0f00,
	BENCH_PAGE = 0x0f01,
	BENCH_DOORBELLS = 0x0f02,
};

/* BENCH_PAGE: where the page goes. */
struct bench_page_wire {
	le64_t addr;
	le32_t rkey;
	le32_t reserved;
};
static_assert(sizeof(struct bench_page_wire) == 16, "bench_page is ABI");

/* BENCH_DOORBELLS, the reply: rpc.doorbells of the node that answers. */
struct bench_doorbells_wire {
	le64_t count;
};
static_assert(sizeof(struct bench_doorbells_wire) == 8, "bench_doorbells is ABI");

#define BENCH_MAX_N 100000u

/* "<node>,<rounds>" of a boot parameter. 0 or -EINVAL. */
int bench_parse_target(const char *value, uint32_t *node, uint32_t *rounds) __must_check;
/* Sleep until @node can be asked, and bench.settle_ms longer. */
void bench_wait_target(uint32_t node);
