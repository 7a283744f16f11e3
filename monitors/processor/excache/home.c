/* SPDX-License-Identifier: MIT */
/*
 * Requests to the home of a space: the memory node that keeps its vRegion array.
 *
 * Flow:	encode, call in the control class, decode the hostile reply, enter what it says
 *		about vRegions and credits into the copies.
 * Failure:	a reply that cannot be entered for lack of memory is not an error: what is missing
 *		is asked for again when it is needed.
 */
#define PR_FMT "home: "

#include "home.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "credit.h"
#include "home_wire.h"
#include "object.h"

static_assert(OBJECT_HOME_SHIFT == PM_SPACE_HOME_SHIFT, "object.c is not of the edge");

static_assert(SPACE_TOP == PM_USER_TOP, "what homes give out");
static_assert(HOME_DESTROY_MAX <= PM_DESTROY_MAX, "one message");
static_assert(HOME_RANGES_MAX <= PM_DISCARD_MAX_RANGES, "one message");
static_assert(HOME_FORK_BODY == sizeof(struct pm_fork_req_wire), "the message");

COUNTER(remote_calls, "process.memory_calls", "requests about address spaces (mmap and its kin)");
COUNTER(fork_messages, "fork.messages", "requests for forks, collapses and discarded pages");

static int home_call_once(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply,
			  size_t max)
{
	counter_inc(&remote_calls);
	return rpc_call_sync(node, RPC_CLASS_CONTROL, opcode, body, (uint32_t)len, reply,
			     (uint32_t)max, 0);
}

int home_call(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply, size_t max)
{
	const int ret = home_call_once(node, opcode, body, len, reply, max);

	return destroy_may_help(ret) ? home_call_once(node, opcode, body, len, reply, max) : ret;
}

void home_enter_vregions(struct object *obj, const struct pm_vregion *v, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const struct vregion vr = { .owner = v[i].owner, .version = v[i].version };

		if (object_set_vregion(obj, v[i].index, &vr) < 0)
			return; /* asked for again when needed */
	}
}

void home_enter_grants(const struct pm_grant *g, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		credit_add(g[i].node, g[i].frames);
}

/* Enter what a range reply of @len bytes, or an error, in @r says about vRegions and credits. */
static int take_range_reply(struct object *obj, int len, struct home_reply *r)
{
	int err = len;

	if (len >= 0)
		err = pm_range_rep_decode(r->body, (size_t)len, &r->range);
	if (err)
		return err;
	home_enter_vregions(obj, r->range.vregions, r->range.nr_vregions);
	home_enter_grants(r->range.grants, r->range.nr_grants);
	return 0;
}

/*
 * One call to the home of @obj that is answered with a range reply, which is kmalloc()ed and
 * taken.
 */
int home_range_call(struct object *obj, uint16_t opcode, const void *body, size_t body_len,
		    struct home_reply **out)
{
	struct home_reply *r = kmalloc(sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	err = take_range_reply(
		obj, home_call(obj->home, opcode, body, body_len, r->body, sizeof(r->body)), r);
	if (err) {
		kfree(r);
		return err;
	}
	*out = r;
	return 0;
}

int home_vregion_owner(struct object *obj, uint64_t index, uint32_t *owner)
{
	struct pm_vregions_req req = { .aspace = obj->id, .first = index, .count = 1 };
	struct pm_vregions_req_wire w;
	struct home_reply *r;
	int err;

	/* The vRegion of a shared object is mapped when a page of it is needed first. */
	if (obj->kind == OBJECT_SHARED) {
		req.flags = PM_VREGIONS_ACTIVATE;
		req.want_credits = credit_want(obj->home);
	}
	pm_vregions_req_encode(&req, &w);
	err = home_range_call(obj, PM_VREGIONS, &w, sizeof(w), &r);
	if (err)
		return err;
	err = -EFAULT;
	for (uint16_t i = 0; i < r->range.nr_vregions && err; i++) {
		if (r->range.vregions[i].index == index && r->range.vregions[i].owner) {
			*owner = r->range.vregions[i].owner;
			err = 0;
		}
	}
	kfree(r);
	return err;
}

#define REPEATS_MAX \
	3 /* times that a call without an answer is repeated, if a repetition can tell */

void home_destroy_many(uint32_t home, const uint64_t *ids, uint32_t nr)
{
	struct pm_destroy_req_wire w[HOME_DESTROY_MAX];
	int ret = -ETIMEDOUT;

	pm_destroy_list_encode(ids, nr, w);
	for (unsigned int tries = 0; ret == -ETIMEDOUT && tries < REPEATS_MAX; tries++)
		ret = home_call_once(home, PM_DESTROY, w, nr * sizeof(w[0]), NULL, 0);
	if (ret < 0)
		pr_warn("space %#llx and %u more: the home (node %u) did not free them: error %d\n",
			(unsigned long long)ids[0], nr - 1, home, ret);
}

void home_no_answer(struct object *obj, int err)
{
	if (err == -ETIMEDOUT || err == -EPROTO || err == -EMSGSIZE)
		WRITE_ONCE(obj->perhaps_at_home, true);
}

/* A call without a reply body. */
static int plain_call(struct object *obj, uint16_t opcode, const void *body, size_t len)
{
	const int ret = home_call(obj->home, opcode, body, len, NULL, 0);

	counter_inc(&fork_messages);
	return ret > 0 ? -EPROTO : ret;
}

void home_fork_begin(struct home_fork *f, struct object *from, struct object *parent,
		     struct object *child)
{
	const struct pm_fork_req req = {
		.aspace = from->id,
		.parent = parent->id,
		.child = child->id,
		.want_credits = credit_want(from->home),
	};
	struct home_reply *r = kmalloc(sizeof(*r));
	struct pm_fork_req_wire body;

	*f = (struct home_fork){ .from = from, .parent = parent, .child = child, .reply = r };
	pm_fork_req_encode(&req, &body);
	memcpy(f->body, &body, sizeof(body));
	f->call = r ? rpc_call_create(from->home, RPC_CLASS_CONTROL, PM_FORK, f->body,
				      sizeof(f->body))
		    : NULL;
	if (!f->call)
		return;
	f->call->reply = r->body;
	f->call->reply_max = sizeof(r->body);
	if (!rpc_call_submit(f->call)) {
		counter_inc(&remote_calls);
		counter_inc(&fork_messages);
		return;
	}
	rpc_call_put(f->call); /* no slot is free at the moment: home_fork_end() waits for one */
	f->call = NULL;
}

/* The answer to what was sent; -EAGAIN: nothing was. */
static int fork_answer(struct home_fork *f)
{
	int ret;

	if (!f->call)
		return -EAGAIN;
	ret = rpc_call_wait(f->call);
	if (!ret)
		ret = (int)f->call->reply_len;
	rpc_call_put(f->call);
	return take_range_reply(f->from, ret, f->reply);
}

/*
 * Has the home refused the fork, and changed nothing?  After an attempt without an answer that
 * cannot be told: it may have been served, or be served yet.
 */
static bool fork_is_refused(int err)
{
	return err == -ENOMEM || err == -EINVAL || err == -EEXIST || err == -EAGAIN;
}

int home_fork_end(struct home_fork *f)
{
	struct home_reply *r = f->reply;
	int err = fork_answer(f);
	bool unknown = err && !fork_is_refused(err);

	/* With the same names it is the same fork: repeated until the outcome is known. */
	for (unsigned int tries = 0; tries < REPEATS_MAX; tries++) {
		if (err != -EAGAIN && err != -ETIMEDOUT && !destroy_may_help(err))
			break;
		kfree(r);
		r = NULL;
		counter_inc(&fork_messages);
		err = home_range_call(f->from, PM_FORK, f->body, sizeof(f->body), &r);
		unknown |= err && !fork_is_refused(err);
	}
	if (err && unknown)
		object_fail(f->from, err, 0);
	if (!err) {
		f->parent->vregion_size = f->child->vregion_size = f->from->vregion_size;
		home_enter_vregions(f->parent, r->range.vregions, r->range.nr_vregions);
		home_enter_vregions(f->child, r->range.vregions, r->range.nr_vregions);
	}
	kfree(r);
	return err;
}

int home_introduce(struct object *obj, uint64_t len)
{
	const struct pm_space_req req = {
		.aspace = obj->id,
		.len = len,
		.flags = obj->reserved ? PM_SPACE_RESERVE : 0,
		.want_credits = credit_want(obj->home),
	};
	struct pm_space_req_wire w;
	struct home_reply *r;
	uint64_t size;
	int err;

	pm_space_req_encode(&req, &w);
	err = home_range_call(obj, PM_SPACE, &w, sizeof(w), &r);
	if (err == -EEXIST && obj->perhaps_at_home) { /* by an earlier attempt: the name is ours */
		home_destroy_many(obj->home, &obj->id, 1);
		err = home_range_call(obj, PM_SPACE, &w, sizeof(w), &r);
	}
	if (err) {
		home_no_answer(obj, err);
		return err;
	}
	size = r->range.addr;
	kfree(r);
	if (size < PM_VREGION_MIN || size > PM_VREGION_MAX || (size & (size - 1))) {
		home_no_answer(obj, -EPROTO);
		return -EPROTO;
	}
	WRITE_ONCE(obj->vregion_size, size);
	return 0;
}

static void encode_ranges(const struct page_range *from, uint32_t nr, struct pm_page_range *to)
{
	ASSERT(nr <= HOME_RANGES_MAX);
	for (uint32_t i = 0; i < nr; i++)
		to[i] = (struct pm_page_range){ .addr = from[i].first << PAGE_SHIFT,
						.len = (from[i].end - from[i].first)
						       << PAGE_SHIFT };
}

int home_collapse(struct object *from, const struct object *into, const struct page_ranges *drop)
{
	const size_t cap = sizeof(struct pm_collapse_req_wire) +
			   HOME_RANGES_MAX * sizeof(struct pm_page_range_wire);
	struct pm_collapse_req *req = kmalloc(sizeof(*req));
	void *body = kmalloc(cap);
	ssize_t len = -ENOMEM;
	int err = -ETIMEDOUT;
	unsigned int tries;

	if (req && body) {
		req->from = from->id;
		req->into = into->id;
		req->nr_ranges = drop->nr;
		encode_ranges(drop->ranges, drop->nr, req->ranges);
		len = pm_collapse_req_encode(req, body, cap);
	}
	kfree(req);
	if (len < 0) {
		kfree(body);
		return (int)len;
	}
	for (tries = 0; err == -ETIMEDOUT && tries < REPEATS_MAX; tries++)
		err = plain_call(from, PM_COLLAPSE, body, (size_t)len);
	kfree(body);
	/* It was done, but the answer did not come. */
	return err == -ESRCH && tries > 1 ? 0 : err;
}

int home_discard(struct object *obj, const struct page_range *ranges, uint32_t nr)
{
	const size_t cap = sizeof(struct pm_discard_req_wire) +
			   HOME_RANGES_MAX * sizeof(struct pm_page_range_wire);
	struct pm_discard_req *req = kmalloc(sizeof(*req));
	void *body = kmalloc(cap);
	int ret = -ENOMEM;

	if (req && body) {
		ssize_t len;

		req->aspace = obj->id;
		req->nr_ranges = nr;
		encode_ranges(ranges, nr, req->ranges);
		len = pm_discard_req_encode(req, body, cap);
		ret = len < 0 ? (int)len : plain_call(obj, PM_DISCARD, body, (size_t)len);
	}
	kfree(body);
	kfree(req);
	return ret;
}
