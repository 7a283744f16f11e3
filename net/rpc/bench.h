/* SPDX-License-Identifier: MIT */
/*
 * Shared by the benchmarks of the RPC layer: opcodes, message bodies, the node at the other
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
	BENCH_GIVE = 0x0f03, /* the reply says which page may be read: struct bench_page_wire */
};

/* BENCH_PAGE: where the page goes. */
struct bench_page_wire {
	le64_t addr;
	le32_t rkey;
	le32_t reserved;
};
static_assert(sizeof(struct bench_page_wire) == 16, "bench_page is ABI");

/* BENCH_DOORBELLS, the reply: of the node that answers. */
struct bench_doorbells_wire {
	le64_t count;    /* rpc.doorbells */
	le64_t requests; /* rpc.requests_received */
};
static_assert(sizeof(struct bench_doorbells_wire) == 16, "bench_doorbells is ABI");

/* Of both nodes, so far. */
struct bench_counts {
	uint64_t doorbells, served_doorbells, served_requests;
};
/* Ask @node for its part. 0 or a negative errno. */
int bench_read_counts(uint32_t node, struct bench_counts *out) __must_check;
/* Ascending. */
void bench_sort(uint64_t *v, uint32_t n);
/* Does this node let others measure with it (bench.serve)? */
bool bench_serves(void);

#define BENCH_MAX_N 100000u

/* "<node>,<rounds>" of a boot parameter. 0 or -EINVAL. */
int bench_parse_target(const char *value, uint32_t *node, uint32_t *rounds) __must_check;
/* Sleep until @node can be asked, and bench.settle_ms longer. */
void bench_wait_target(uint32_t node);
