/* SPDX-License-Identifier: MIT */
/*
 * The clocks that programs name, those of processes and threads among them.
 */
#pragma once

#include <abi/time.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct process;

/* A decoded clock id. */
struct clock_id {
	enum clock_kind {
		CLOCK_KIND_REAL,
		CLOCK_KIND_MONO,
		CLOCK_KIND_PROCESS,      /* CPU time of process @id */
		CLOCK_KIND_THREAD,       /* CPU time of thread @id of the calling process */
		CLOCK_KIND_PROCESS_USER, /* the same, in user mode only */
		CLOCK_KIND_THREAD_USER,
	} kind;
	uint32_t id;
};

/* -EINVAL: there is no such clock, process or thread. */
int clock_decode(int clock, struct clock_id *out) __must_check;
int clock_read(const struct clock_id *clock, uint64_t *ns) __must_check;
static inline bool clock_is_process(const struct clock_id *c)
{
	return c->kind == CLOCK_KIND_PROCESS || c->kind == CLOCK_KIND_PROCESS_USER;
}

static inline bool clock_is_thread(const struct clock_id *c)
{
	return c->kind == CLOCK_KIND_THREAD || c->kind == CLOCK_KIND_THREAD_USER;
}

/*
 * CPU time of all threads that @p has and had, or of thread @clock->id of @p; false: there is none.
 * sig_lock held.
 */
bool cpu_clock_read_locked(struct process *p, const struct clock_id *clock, uint64_t *ns);
