/* SPDX-License-Identifier: MIT */
/*
 * A memory node has no frame left: which program here has to end, and its end.
 *
 * Flow:	the memory node asks each processor whose programs have frames there for its worst
 *		program, compares, and has one of them ended. While a chosen one is on its way out
 *		the answer is "wait". One that has not gone after OOM_PATIENCE_NS may itself wait
 *		for memory that another one holds: the next one is chosen then.
 * Context:	a thread of its own for each request: it waits until memory nodes have freed spaces
 *		that ended, never for a frame.
 * Locking:	none is held over a walk of a program's memory.
 */
#define PR_FMT "oom: "

#include <ctl/ctl.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <processor/client/oom_server.h>
#include <processor/excache/credit.h>
#include <processor/excache/object.h>
#include <processor/mm/aspace.h>
#include <processor/mm/frames.h>

#include "oom_score.h"
#include "process_private.h"

#define OOM_PATIENCE_NS (5 * NSEC_PER_SEC)

COUNTER(oom_asked, "oom.asked", "times that a memory node asked which program has to end");
COUNTER(oom_ended, "oom.ended", "programs ended because a memory node had no frame left");

/* --- which one -------------------------------------------------------------------------- */

static bool is_exiting(struct process *p)
{
	bool exiting;

	spin_lock(&p->sig_lock);
	exiting = p->exiting;
	spin_unlock(&p->sig_lock);
	return exiting;
}

/* Is @p, which has frames there, to be gone soon?  Notes when that was seen first. */
static bool is_ending(struct process *p, bool *patient)
{
	const uint64_t now = time_now_ns();
	uint64_t since = __atomic_load_n(&p->oom_since_ns, __ATOMIC_RELAXED);

	if (!since && !is_exiting(p))
		return false;
	if (!since) {
		since = now;
		__atomic_store_n(&p->oom_since_ns, now, __ATOMIC_RELAXED);
	}
	*patient = now - since < OOM_PATIENCE_NS;
	return true;
}

/* Frames of @node that the memory of @p has. */
static uint64_t frames_of(struct process *p, uint32_t node)
{
	struct aspace *as = process_aspace(p);
	uint64_t frames;

	if (!as)
		return 0;
	frames = aspace_frames(as, node);
	aspace_put(as);
	return frames;
}

/* The worst program for @node, if none is ending. */
static void choose(uint32_t node, uint64_t total, struct oom_answer *rep)
{
	struct oom_candidate best = { 0 };
	struct process *p;

	/* First what nobody here needs: memory of spaces that have ended, frames kept in hand. */
	*rep = (struct oom_answer){ .state = OOM_ENDING };
	if (destroy_drain(false) || credit_recall(node))
		return;
	rep->state = OOM_NONE;
	for (uint32_t pid = 0; pid < PID_MAX && (p = process_next(NULL, &pid)); pid++) {
		const struct oom_candidate c = {
			.frames = frames_of(p, node),
			.adj = READ_ONCE(p->oom_adj),
			.start_ns = p->start_ns,
			.pid = p->pid,
		};
		bool patient = false;

		if (c.frames && is_ending(p, &patient)) {
			if (patient)
				rep->state = OOM_ENDING;
		} else if (oom_is_worse(&c, best.pid ? &best : NULL, total)) {
			best = c;
		}
		process_put(p);
	}
	if (rep->state == OOM_ENDING || !best.pid)
		return;
	*rep = (struct oom_answer){
		.badness = oom_badness(best.frames, total, best.adj),
		.frames = best.frames,
		.pid = best.pid,
		.state = OOM_CANDIDATE,
	};
}

/* --- its end ---------------------------------------------------------------------------- */

/* The line for the people; without an end of line. */
static void describe(struct process *p, uint32_t node, uint64_t frames, char *line, size_t size)
{
	mutex_lock(&p->lock);
	scnprintf(line, size,
		  "memory component %u has no frame left: %s (pid %u), which had %llu KiB there, "
		  "was ended",
		  node, p->comm, p->pid, (unsigned long long)(frames * (PAGE_SIZE >> 10)));
	mutex_unlock(&p->lock);
}

/* To the log, and to the standard error of the program that @p belongs to. */
static void tell(struct process *p, char *line)
{
	const size_t len = strlen(line);

	pr_warn("%s\n", line);
	line[len] = '\n';
	/* Without waiting for a reader; nothing more can be done if nobody reads. */
	(void)!ctl_stream_write(p->program->prog, 2, line, len + 1, true);
}

static bool kill_if_shares(struct process *p, void *as)
{
	if (p->as == as)
		process_kill(p, SIGKILL);
	return true;
}

/*
 * As Linux: with all that use the same memory. The first process of a program takes the program
 * with it, and the launcher hears that it did not end by itself.
 */
static void end_process(struct process *p, uint32_t node, uint64_t frames)
{
	struct aspace *as = process_aspace(p);
	char line[LOST_LINE + 1];

	describe(p, node, frames, line, LOST_LINE);
	if (p->pid == p->program->leader) {
		process_lost(p, "%s", line);
	} else {
		tell(p, line);
		process_kill(p, SIGKILL);
	}
	if (!as)
		return;
	process_for_each(kill_if_shares, as);
	aspace_put(as);
}

static int end(uint32_t node, uint32_t pid, struct oom_answer *rep)
{
	struct process *p = process_find(pid);
	const uint64_t frames = p ? frames_of(p, node) : 0;
	uint64_t never = 0;

	*rep = (struct oom_answer){ .state = OOM_ENDING };
	if (!frames) {
		if (p)
			process_put(p);
		return -ESRCH;
	}
	if (!is_exiting(p) &&
	    __atomic_compare_exchange_n(&p->oom_since_ns, &never, time_now_ns(), false,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		rep->state = OOM_CANDIDATE;
		rep->pid = p->pid;
		rep->frames = frames;
		counter_inc(&oom_ended);
		end_process(p, node, frames);
	}
	process_put(p);
	return 0;
}

static const struct oom_ops ops = {
	.choose = choose,
	.end = end,
};

int oom_init(void)
{
	return oom_serve(&ops);
}
