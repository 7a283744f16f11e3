/* SPDX-License-Identifier: MIT */
/*
 * Calls whose thread may be killed while it waits: it leaves at once, and the answer is taken by a
 * worker when it comes.
 *
 * Flow:	late_call_submit(), late_call_wait(). After a kill the call is left: the worker
 *		calls answered() and frees it. So it is known in the end what a node has done for a
 *		thread that is gone: frames that it granted are entered, a space that it made is
 *		destroyed, and nothing is undone before it was done.
 * Context:	threads; all sleep.
 */
#pragma once

#include <kernel/work.h>
#include <lib/compiler.h>
#include <net/rpc.h>

#include "backlog.h"

struct late_call {             /* the first member of something that was kmalloc()ed */
	struct rpc_call *call; /* NULL: none is under way */
	/* The reply's length, or negative errno: it was left. Not to be freed. */
	void (*answered)(struct late_call *lc, int len);
	struct work work;
	struct backlog_item item;
};

/*
 * Send @body, waiting for a slot; @reply is a part of what @lc begins. 0; -EINTR: the thread is to
 * be killed, and nothing was sent; other errors of rpc_call_submit_killable().
 */
int late_call_submit(struct late_call *lc, uint32_t node, uint16_t opcode, const void *body,
		     size_t len, void *reply, size_t max) __must_check;
/* The same if a slot is free, else -EAGAIN. */
int late_call_try(struct late_call *lc, uint32_t node, uint16_t opcode, const void *body,
		  size_t len, void *reply, size_t max) __must_check;
/*
 * The reply's length, or negative errno. True: in *@len; false: the thread is to be killed, and @lc
 * is the worker's.
 */
bool late_call_wait(struct late_call *lc, int *len) __must_check;
/* Until all that was left has been answered; see backlog_wait(). */
int late_calls_wait(void);
/* How many have not been answered yet. */
uint64_t late_calls_left(void);
int late_init(void) __must_check;
