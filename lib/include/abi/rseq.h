/* SPDX-License-Identifier: MIT */
/* Restartable sequences: Linux's <linux/rseq.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define RSEQ_FLAG_UNREGISTER 1

#define RSEQ_CPU_ID_UNINITIALIZED 0xffffffffu

/* A thread's area. The kernel writes all but rseq_cs and flags. */
struct linux_rseq {
	uint32_t cpu_id_start;
	uint32_t cpu_id;
	uint64_t rseq_cs; /* user address of a struct linux_rseq_cs, or 0 */
	uint32_t flags;
	uint32_t node_id;
	uint32_t mm_cid;
	uint32_t end; /* of the fields so far: those who are told the size count up to here */
};
static_assert(sizeof(struct linux_rseq) == 32, "struct rseq is ABI");

/* A sequence: instructions from start_ip on. */
struct linux_rseq_cs {
	uint32_t version;
	uint32_t flags;
	uint64_t start_ip, post_commit_offset, abort_ip;
};
static_assert(sizeof(struct linux_rseq_cs) == 32, "struct rseq_cs is ABI");
