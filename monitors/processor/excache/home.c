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

/* A call that is waited for to the end, in threads that are never killed. */
static int plain_call_once(uint32_t node, uint16_t opcode, const void *body, size_t len)
{
	struct rpc_call *call;
	int ret;

	counter_inc(&remote_calls);
	call = rpc_call_create(node, RPC_CLASS_CONTROL, opcode, body, (uint32_t)len);
	if (!call)
		return -ENOMEM;
	ret = rpc_call_submit_wait(call, WAIT_FOREVER);
	if (!ret)
		ret = rpc_call_wait(call);
	rpc_call_put(call);
	return ret;
}

static int home_call_once(struct home_reply **r, uint32_t node, uint16_t opcode, const void *body,
			  size_t len)
{
	int ret;

	counter_inc(&remote_calls);
	ret = late_call_submit(&(*r)->late, node, opcode, body, len, (*r)->body,
			       sizeof((*r)->body));
	if (!ret && !late_call_wait(&(*r)->late, &ret)) {
		*r = NULL;
		return -ECANCELED;
	}
	return ret;
}

static void put_objects(struct home_reply *r)
{
	if (r->obj)
		object_put(r->obj);
	if (r->also)
		object_put(r->also);
}

struct home_reply *home_reply_alloc(void)
{
	struct home_reply *r = kmalloc(sizeof(*r));

	if (r) { /* the rest is for the reply */
		r->late.call = NULL;
		r->obj = r->also = NULL;
	}
	return r;
}

void home_reply_free(struct home_reply *r)
{
	if (r)
		put_objects(r);
	kfree(r);
}

/* An answer with a range reply: of interest are the credits that came with it. */
static void late_grants(struct late_call *lc, int len)
{
	struct home_reply *r = container_of(lc, struct home_reply, late);

	if (len >= 0 && pm_range_rep_decode(r->body, (size_t)len, &r->range) == 0)
		home_enter_grants(r->range.grants, r->range.nr_grants);
	put_objects(r);
}

int home_call(struct home_reply **r, uint32_t node, uint16_t opcode, const void *body, size_t len,
	      void (*answered)(struct late_call *lc, int len))
{
	int ret;

	(*r)->late.answered = answered ? answered : late_grants;
	ret = home_call_once(r, node, opcode, body, len);
	return destroy_may_help(ret) ? home_call_once(r, node, opcode, body, len) : ret;
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
		credit_add(&(struct granted){ g[i].node, g[i].frames, g[i].report });
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

int home_range_call(struct object *obj, uint16_t opcode, const void *body, size_t body_len,
		    struct home_reply **out)
{
	struct home_reply *r = home_reply_alloc();
	int err;

	if (!r)
		return -ENOMEM;
	err = home_call(&r, obj->home, opcode, body, body_len, NULL);
	if (r)
		err = take_range_reply(obj, err, r);
	if (err) {
		if (err != -EINTR) /* owners may have granted something before it failed */
			credit_doubt_all();
		home_reply_free(r);
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
	if (err) /* a question changes nothing, sent or not */
		return err == -ECANCELED ? -EINTR : err;
	err = -EFAULT;
	for (uint16_t i = 0; i < r->range.nr_vregions && err; i++) {
		if (r->range.vregions[i].index == index && r->range.vregions[i].owner) {
			*owner = r->range.vregions[i].owner;
			err = 0;
		}
	}
	home_reply_free(r);
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
		ret = plain_call_once(home, PM_DESTROY, w, nr * sizeof(w[0]));
	if (ret < 0)
		pr_warn("space %#llx and %u more: the home (node %u) did not free them: error %d\n",
			(unsigned long long)ids[0], nr - 1, home, ret);
}

void home_no_answer(struct object *obj, int err)
{
	if (err == -ETIMEDOUT || err == -EPROTO || err == -EMSGSIZE)
		WRITE_ONCE(obj->perhaps_at_home, true);
}

/*
 * A call of a worker, without a reply body. Its changes at the home concern other spaces as well,
 * so it is not left.
 */
static int plain_call(struct object *obj, uint16_t opcode, const void *body, size_t len)
{
	int ret = plain_call_once(obj->home, opcode, body, len);

	if (destroy_may_help(ret))
		ret = plain_call_once(obj->home, opcode, body, len);
	counter_inc(&fork_messages);
	return ret;
}

/* The same of any thread: without an answer to read, and left by one that is killed. */
static int discard_call(struct object *obj, const void *body, size_t len)
{
	struct home_reply *r = home_reply_alloc();
	int ret;

	if (!r)
		return -ENOMEM;
	ret = home_call(&r, obj->home, PM_DISCARD, body, len, NULL);
	home_reply_free(r);
	counter_inc(&fork_messages);
	return MIN(ret, 0);
}

/* --- forks ------------------------------------------------------------------------------- */

/*
 * The thread that forked was killed. If the home has made the two spaces, it is told now that they
 * have ended: not earlier, as it might make them afterwards.
 */
static void late_fork(struct late_call *lc, int len)
{
	struct home_reply *r = container_of(lc, struct home_reply, late);
	int err = len;

	if (len >= 0)
		err = pm_range_rep_decode(r->body, (size_t)len, &r->range);
	if (!err) {
		WRITE_ONCE(r->obj->vregion_size, r->vregion_size);
		WRITE_ONCE(r->also->vregion_size, r->vregion_size);
		home_enter_grants(r->range.grants, r->range.nr_grants);
	} else {
		home_no_answer(r->obj, err);
		home_no_answer(r->also, err);
	}
	put_objects(r);
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
	struct home_reply *r = home_reply_alloc();
	struct pm_fork_req_wire body;

	*f = (struct home_fork){ .from = from, .parent = parent, .child = child, .reply = r };
	pm_fork_req_encode(&req, &body);
	memcpy(f->body, &body, sizeof(body));
	if (!r)
		return;
	object_get(parent);
	object_get(child);
	r->obj = parent;
	r->also = child;
	r->vregion_size = from->vregion_size;
	r->late.answered = late_fork;
	/* If no slot is free at the moment, home_fork_end() waits for one. */
	if (!late_call_try(&r->late, from->home, PM_FORK, f->body, sizeof(f->body), r->body,
			   sizeof(r->body))) {
		counter_inc(&remote_calls);
		counter_inc(&fork_messages);
	}
}

/* The answer to what was sent; -EAGAIN: nothing was. -ECANCELED: it was left, *@r is NULL. */
static int fork_answer(struct home_fork *f, struct home_reply **r)
{
	int len;

	if (!(*r)->late.call)
		return -EAGAIN;
	if (late_call_wait(&(*r)->late, &len))
		return take_range_reply(f->from, len, *r);
	*r = NULL;
	return -ECANCELED;
}

static int fork_again(struct home_fork *f, struct home_reply **r)
{
	int ret;

	counter_inc(&fork_messages);
	ret = home_call(r, f->from->home, PM_FORK, f->body, sizeof(f->body), late_fork);
	return *r ? take_range_reply(f->from, ret, *r) : ret;
}

/*
 * Has the home refused the fork, or not been asked, and changed nothing?  After an attempt without
 * an answer that cannot be told: it may have been served, or be served yet.
 */
static bool fork_is_refused(int err)
{
	return err == -EINTR || err == -ENOMEM || err == -EINVAL || err == -EEXIST ||
	       err == -EAGAIN;
}

int home_fork_end(struct home_fork *f)
{
	struct home_reply *r = f->reply;
	bool unknown;
	int err;

	if (!r)
		return -ENOMEM;
	err = fork_answer(f, &r);
	unknown = err && !fork_is_refused(err);
	/* With the same names it is the same fork: repeated until the outcome is known. */
	for (unsigned int tries = 0; tries < REPEATS_MAX; tries++) {
		if (err != -EAGAIN && err != -ETIMEDOUT && !destroy_may_help(err))
			break;
		err = fork_again(f, &r);
		unknown |= err && !fork_is_refused(err);
	}
	/* The home may have made the two: it is told of their end. */
	if (err && unknown) {
		WRITE_ONCE(f->parent->perhaps_at_home, true);
		WRITE_ONCE(f->child->perhaps_at_home, true);
	}
	if (err == -EINTR && unknown) /* killed after an attempt without an answer */
		err = -ECANCELED;
	/* A thread that was killed leaves its program as that is: it ends. */
	if (err && unknown && err != -ECANCELED)
		object_fail(f->from, err, 0);
	if (!err) {
		f->parent->vregion_size = f->child->vregion_size = f->from->vregion_size;
		home_enter_vregions(f->parent, r->range.vregions, r->range.nr_vregions);
		home_enter_vregions(f->child, r->range.vregions, r->range.nr_vregions);
	}
	home_reply_free(r);
	return err;
}

/* --- shared objects ------------------------------------------------------------------- */

/* The home's answer to PM_SPACE: the size of its vRegions, or an error. */
static int take_space_reply(struct object *obj, int len, struct home_reply *r)
{
	int err = take_range_reply(obj, len, r);
	const uint64_t size = r->range.addr;

	if (!err && (size < PM_VREGION_MIN || size > PM_VREGION_MAX || (size & (size - 1))))
		err = -EPROTO;
	if (err)
		home_no_answer(obj, err);
	else
		WRITE_ONCE(obj->vregion_size, size);
	return err;
}

static void late_space(struct late_call *lc, int len)
{
	struct home_reply *r = container_of(lc, struct home_reply, late);

	(void)take_space_reply(r->obj, len, r);
	object_introduced(r->obj);
	put_objects(r);
}

static int space_call(struct object *obj, const struct pm_space_req *req, bool *left)
{
	struct home_reply *r = home_reply_alloc();
	struct pm_space_req_wire w;
	int err;

	if (!r)
		return -ENOMEM;
	object_get(obj);
	r->obj = obj;
	pm_space_req_encode(req, &w);
	err = home_call(&r, obj->home, PM_SPACE, &w, sizeof(w), late_space);
	*left = !r;
	if (*left)
		err = -EINTR;
	else
		err = take_space_reply(obj, err, r);
	home_reply_free(r);
	return err;
}

int home_introduce(struct object *obj, uint64_t len, bool *left)
{
	const struct pm_space_req req = {
		.aspace = obj->id,
		.len = len,
		.flags = obj->reserved ? PM_SPACE_RESERVE : 0,
		.vnode = PROTO_VNODE_ROOT,
		.want_credits = credit_want(obj->home),
	};
	int err = space_call(obj, &req, left);

	if (err == -EEXIST && READ_ONCE(obj->perhaps_at_home)) {
		/* By an earlier attempt: the name is ours. */
		home_destroy_many(obj->home, &obj->id, 1);
		err = space_call(obj, &req, left);
	}
	return err;
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
		ret = len < 0 ? (int)len : discard_call(obj, body, (size_t)len);
	}
	kfree(body);
	kfree(req);
	return ret;
}
