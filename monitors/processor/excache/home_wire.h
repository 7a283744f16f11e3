/* SPDX-License-Identifier: MIT */
/*
 * Messages to the home of a space, for the files that encode them: home.c, and mm/remote.c for
 * those about layouts.
 */
#pragma once

#include <net/rpc.h>
#include <proto/pm.h>

#include "home.h"

/* A reply buffer of the control class, too large for a stack. */
struct home_reply {
	uint8_t body[RPC_BODY_MAX_CTL];
	union {
		struct pm_range_rep range;
		struct pm_exec_rep exec;
	};
};

/* The reply's length, or negative errno; -ENOMEM only if deferred destroys could not help. */
int home_call(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply, size_t max)
	__must_check;
/*
 * A call to the home of @obj that is answered with a range reply: kmalloc()ed, its vRegions and
 * credits entered.
 */
int home_range_call(struct object *obj, uint16_t opcode, const void *body, size_t body_len,
		    struct home_reply **out) __must_check;
void home_enter_vregions(struct object *obj, const struct pm_vregion *v, size_t nr);
void home_enter_grants(const struct pm_grant *g, size_t nr);
