/* SPDX-License-Identifier: MIT */
/* Requests of memory nodes that have no frame left. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

enum oom_state {
	OOM_NONE,      /* no program here has frames there, or all are spared */
	OOM_CANDIDATE, /* the one that the answer names */
	OOM_ENDING,    /* frames are on their way: one is about to end */
};

struct oom_answer {
	int64_t badness; /* the largest has to end */
	uint64_t frames; /* it has there */
	uint32_t pid;    /* OOM_CANDIDATE, else 0 */
	enum oom_state state;
};

struct oom_ops {
	/* Which program has to end first, so that @node, which has @total frames, gets some? */
	void (*choose)(uint32_t node, uint64_t total, struct oom_answer *out);
	/* End it.  -ESRCH: it is gone, or has no frames there. */
	int (*end)(uint32_t node, uint32_t pid, struct oom_answer *out);
};

/* Serve such requests; once. @ops are called by a thread that may wait for other nodes. -ENOMEM. */
int oom_serve(const struct oom_ops *ops) __must_check;
