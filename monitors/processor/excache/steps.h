/* SPDX-License-Identifier: MIT */
/*
 * A miss taken apart: how long each step of a fault lasts that fetches an anonymous page.
 *
 * Flow:	the fault begins, each step is marked when it is over, the fault ends; if it fetched
 *		a page, its steps go into histograms, those with a dirty victim into others than
 *		the rest. Off (the default): one look at a variable for each mark.
 * Context:	the faulting thread.
 * See:		docs/debugging.md, "A miss taken apart"
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

enum miss_step {
	STEP_CHOOSE,  /* from the fault to the choice of a victim, or to a free frame */
	STEP_UNMAP,   /* the victim is unmapped and flushed from TLBs */
	STEP_PREPARE, /* the line has its tag, the message is made */
	STEP_POST,    /* the message is posted */
	STEP_BESIDE,  /* what the thread does while the page is on its way */
	STEP_REPLY,   /* the reply has come and a CPU has seen it */
	STEP_RUN,     /* the thread runs again */
	STEP_ENTER,   /* the line is VALID and in the page table */
	STEP_RETURN,  /* the fault is over */
	NR_MISS_STEPS,
};

struct miss_steps {
	uint64_t begin_ns, last_ns;
	uint64_t step_ns[NR_MISS_STEPS];
	bool dirty;   /* a dirty victim was written back */
	bool fetched; /* else the steps are of no interest */
};

extern bool steps_on; /* const after start */

/* @s is on the stack of the fault, which calls steps_end() in the same function. */
void steps_begin(struct miss_steps *s);
void steps_end(struct miss_steps *s);

void steps_mark_at(enum miss_step step, uint64_t now_ns);
void steps_mark_now(enum miss_step step);
void steps_note_dirty(void);
void steps_note_fetch(void);

/* @step of the fault under way, if there is one, is over. */
static inline void steps_mark(enum miss_step step)
{
	if (unlikely(steps_on))
		steps_mark_now(step);
}
