/* SPDX-License-Identifier: MIT */
/* A miss taken apart: see steps.h. */
#include "steps.h"

#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <kernel/time.h>

bool steps_on;
BOOT_PARAM("excache.steps", bool, steps_on, "measure the steps of each miss (histograms miss.*)");

#define STEP_HISTOGRAM(var, step, help)                                                \
	HISTOGRAM(clean_##var, "miss.clean." step, help ", no victim or a clean one"); \
	HISTOGRAM(dirty_##var, "miss.dirty." step, help ", a dirty victim")

STEP_HISTOGRAM(choose, "1_choose_ns", "from a fault to the choice of a victim");
STEP_HISTOGRAM(unmap, "2_unmap_ns", "unmapping the victim");
STEP_HISTOGRAM(prepare, "3_prepare_ns", "making the message");
STEP_HISTOGRAM(post, "4_post_ns", "posting the message");
STEP_HISTOGRAM(beside, "5_beside_ns", "other work until the thread waits");
STEP_HISTOGRAM(reply, "6_reply_ns", "until the reply is seen");
STEP_HISTOGRAM(run, "7_run_ns", "until the thread runs again");
STEP_HISTOGRAM(enter, "8_enter_ns", "entering the page");
STEP_HISTOGRAM(back, "9_return_ns", "leaving the fault handler");
STEP_HISTOGRAM(total, "total_ns", "a miss in all");

#define BOTH(var) { &clean_##var, &dirty_##var }

static const struct histogram *const step_hists[NR_MISS_STEPS][2] = {
	[STEP_CHOOSE] = BOTH(choose), [STEP_UNMAP] = BOTH(unmap),   [STEP_PREPARE] = BOTH(prepare),
	[STEP_POST] = BOTH(post),     [STEP_BESIDE] = BOTH(beside), [STEP_REPLY] = BOTH(reply),
	[STEP_RUN] = BOTH(run),       [STEP_ENTER] = BOTH(enter),   [STEP_RETURN] = BOTH(back),
};
static const struct histogram *const total_hist[2] = BOTH(total);

static struct miss_steps *current_steps(void)
{
	return thread_current()->fault_steps;
}

void steps_begin(struct miss_steps *s)
{
	*s = (struct miss_steps){ 0 };
	s->begin_ns = s->last_ns = time_now_ns();
	thread_current()->fault_steps = s;
}

void steps_mark_at(enum miss_step step, uint64_t now_ns)
{
	struct miss_steps *s = current_steps();

	/* Steps may overlap: the reply can be there before the thread begins to wait. */
	if (!s || now_ns <= s->last_ns)
		return;
	s->step_ns[step] += now_ns - s->last_ns;
	s->last_ns = now_ns;
}

void steps_mark_now(enum miss_step step)
{
	steps_mark_at(step, time_now_ns());
}

void steps_note_dirty(void)
{
	if (unlikely(steps_on) && current_steps())
		current_steps()->dirty = true;
}

void steps_note_fetch(void)
{
	if (unlikely(steps_on) && current_steps())
		current_steps()->fetched = true;
}

void steps_end(struct miss_steps *s)
{
	steps_mark_now(STEP_RETURN);
	thread_current()->fault_steps = NULL;
	if (!s->fetched)
		return;
	for (unsigned int i = 0; i < NR_MISS_STEPS; i++)
		hist_record(step_hists[i][s->dirty], s->step_ns[i]);
	hist_record(total_hist[s->dirty], s->last_ns - s->begin_ns);
}
