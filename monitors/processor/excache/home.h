/* SPDX-License-Identifier: MIT */
/*
 * Requests to the home of a space, one function each.
 *
 * Context:	all sleep for a reply; no lock but aspace.map_lock may be held.
 * Failure:	the peer's errno, or -EHOSTDOWN, -ETIMEDOUT, -ESTALE; a malformed reply is -EPROTO.
 */
#pragma once

#include <lib/compiler.h>
#include <net/rpc.h>
#include <proto/pm.h>

struct object;

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

/*
 * The owner of vRegion @index by the home's answer, which is entered into the copy as well. The
 * answer counts even if the copy has become newer meanwhile: who is not the owner any more
 * redirects. -EFAULT: there is none.
 */
int home_vregion_owner(struct object *obj, uint64_t index, uint32_t *owner) __must_check;
/* Tell the home that the space is gone. Failures are logged: the home frees it with our lease. */
void home_destroy(struct object *obj);
/* The same for 1 to PM_DESTROY_MAX spaces of one home. */
void home_destroy_many(uint32_t home, const uint64_t *ids, uint32_t nr);

/*
 * @from is frozen; @parent and @child, both new, get its mappings and copies of its vRegion
 * entries. An error has changed nothing.
 */
struct home_fork { /* one that is under way */
	struct object *from, *parent, *child;
	struct pm_fork_req_wire body;
	struct rpc_call *call; /* NULL: not sent yet */
	void *reply;
};
/* Send it.  A home_fork_end() must follow, which has the answer. */
void home_fork_begin(struct home_fork *f, struct object *from, struct object *parent,
		     struct object *child);
int home_fork_end(struct home_fork *f) __must_check;
/*
 * @req->from, which is @from's, becomes part of @req->into. After an error the caller repeats it
 * later: some owners may have done their part.
 */
int home_collapse(struct object *from, const struct pm_collapse_req *req) __must_check;
/* The owners drop these pages, of which no line is left. */
int home_discard(struct object *obj, const struct pm_page_range *ranges, uint32_t nr) __must_check;

/* Introduce a shared object: @len bytes, active at once; charged if it is reserved. */
int home_introduce(struct object *obj, uint64_t len) __must_check;
