/* SPDX-License-Identifier: MIT */
/*
 * Messages to the home of a space, for the files that encode them: home.c, and mm/remote.c for
 * those about layouts.
 */
#pragma once

#include <net/rpc.h>
#include <proto/pm.h>

#include "home.h"
#include "late.h"

/* A call and the buffer for its reply, of the control class, too large for a stack. */
struct home_reply {
	struct late_call late; /* the first member */
	/* Counted, for an answer that comes when the thread has been killed: what it is about. */
	struct object *obj, *also;
	uint64_t vregion_size; /* of these, if the home has done it */
	uint8_t body[RPC_BODY_MAX_CTL];
	union {
		struct pm_range_rep range;
		struct pm_exec_rep exec;
	};
};

/*
 * The reply's length, or negative errno; -ENOMEM only if deferred destroys could not help. *@r is
 * from home_reply_alloc(). A thread that is to be killed gets -EINTR if nothing was sent and so
 * nothing has happened; -ECANCELED if the call was left, and may be executed or not: *@r is NULL
 * then, and @answered takes the answer and puts r->obj and r->also (if it is NULL: the credits of a
 * range reply).
 */
int home_call(struct home_reply **r, uint32_t node, uint16_t opcode, const void *body, size_t len,
	      void (*answered)(struct late_call *lc, int len)) __must_check;
/* NULL: no memory. */
struct home_reply *home_reply_alloc(void);
/* Put what is counted in @r, and free it. NULL: nothing. */
void home_reply_free(struct home_reply *r);
/*
 * A call to the home of @obj that is answered with a range reply, its vRegions and credits entered;
 * for home_reply_free().
 */
int home_range_call(struct object *obj, uint16_t opcode, const void *body, size_t body_len,
		    struct home_reply **out) __must_check;
void home_enter_vregions(struct object *obj, const struct pm_vregion *v, size_t nr);
void home_enter_grants(const struct pm_grant *g, size_t nr);
