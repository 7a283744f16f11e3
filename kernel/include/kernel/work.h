/* SPDX-License-Identifier: MIT */
/*
 * Work queues: functions run by threads that are made on demand.
 *
 * Invariants:	a handler that waits for another node must not occupy a worker that
 *		this wait depends on: give such work its own queue.  Up to max_threads
 *		items of one queue run at once; max_threads = 1 keeps order.
 * Context:	work_queue() anywhere (interrupts too); the function runs in a thread
 *		and may sleep.
 * Failure:	when no further worker can be made the item waits for an old one; each
 *		queue keeps at least one worker from its creation on.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct workqueue;

struct work {
	struct list_head link; /* queue lock */
	void (*fn)(struct work *w);
	struct workqueue *wq; /* queue it is on or running from; queue lock */
	uint32_t state;       /* queue lock: idle, pending, running bits */
};

void work_init(struct work *w, void (*fn)(struct work *w));
/* ERR_PTR(-ENOMEM). */
struct workqueue *workqueue_create(const char *name, unsigned int max_threads);
/* With a thread priority other than THREAD_PRIO_NORMAL (enum thread_prio). */
struct workqueue *workqueue_create_prio(const char *name, unsigned int max_threads,
					unsigned int prio);
/* False when @w is already pending (it will run once, after now). */
bool work_queue(struct workqueue *wq, struct work *w);
/* Wait until @w is neither pending nor running. */
void work_flush(struct work *w);
/* Wait until nothing is queued or running; false: @deadline_ns, absolute, came first. */
bool workqueue_flush(struct workqueue *wq, uint64_t deadline_ns);
/* Take @w off the queue if it has not started; true if it was pending. */
bool work_cancel(struct work *w);

/* For tests: the kernel's own queues stay. Runs what is queued, then ends the threads. */
void workqueue_destroy(struct workqueue *wq);
