/* SPDX-License-Identifier: MIT */
/*
 * Handlers of messages to the owner of vRegions: from the home, from another owner, and those from
 * processors whose reply is a body only.
 *
 * Context:	a worker, or for a node's messages to itself the thread that makes them; may sleep.
 *		The changes that a call makes are waited for one by one (region_apply_wait()), not
 *		replied from their completion as msg_data.c does: a call goes over several regions,
 *		whether its next step is made depends on the one before being safe (MM_PREPARE is
 *		undone, a fork is undone, a collapse goes on by batches), and its reply counts
 *		them. Without a log nothing waits. A log must complete without a worker of this
 *		node, in polling context, say: all workers may be waiting here.
 * Failure:	as docs/protocol/pm.md and docs/protocol/mm.md list.
 */
#include <lib/errno.h>

#include "dispatch.h"
#include "memory.h"
#include "region_apply.h"

/* --- from processors ----------------------------------------------------------------------- */

/* A redirect has a body, although it is an error. */
static int reply_redirect(struct msg *msg, const struct pm_vregion *redirect)
{
	struct pm_redirect_wire w;

	pm_redirect_encode(redirect, &w);
	if (msg_reply(msg, &w, sizeof(w)) > 0)
		msg->error_len = sizeof(w);
	return -EREMCHG;
}

int msg_fill_vma(struct msg *msg)
{
	const struct pm_fill_vma_req *req = msg->req;
	struct pm_vregion redirect;
	struct pm_vma_wire w;
	struct pm_vma vma;
	int err;

	err = owner_fill_vma(msg->m, msg->peer, req, &vma, &redirect);
	if (err == -EREMCHG)
		return reply_redirect(msg, &redirect);
	if (err)
		return err;
	pm_vma_encode(&vma, &w);
	return msg_reply(msg, &w, sizeof(w));
}

int msg_credit(struct msg *msg)
{
	const struct pm_credit_req *req = msg->req;
	struct pm_credit_rep rep = { .report = req->report };
	struct pm_credit_rep_wire w;
	const int err = owner_report(msg->m, msg->peer, req, &rep.frames);

	if (err)
		return err;
	if (rep.frames > req->hold) {
		STAT_ADD(msg->m, grants, rep.frames - req->hold);
	} else if (req->want) {
		/* Room is being made; or there is some, and the processor is at its share of it. */
		if (relief_kick(msg->m) || pool_room_now(&msg->m->pool))
			return -EAGAIN;
		STAT_INC(msg->m, enomem);
	}
	pm_credit_rep_encode(&rep, &w);
	return msg_reply(msg, &w, sizeof(w));
}

int msg_meminfo(struct msg *msg)
{
	struct pm_meminfo_rep rep;
	struct pm_meminfo_rep_wire w;
	struct pool_stats s;

	pool_stats(&msg->m->pool, &s);
	rep = (struct pm_meminfo_rep){
		.total = s.total,
		.free = s.zero + s.dirty,
		.file = s.file,
		.granted = s.reserved,
		.committed = s.committed,
		.programs = s.programs,
		.commit_limit = s.commit_limit,
	};
	pm_meminfo_rep_encode(&rep, &w);
	return msg_reply(msg, &w, sizeof(w));
}

int msg_commit(struct msg *msg)
{
	const uint32_t proc = is_memory_node(msg->m, msg->peer) ? 0 : msg->peer;
	struct pm_commit now;
	struct pm_commit_wire w;

	pool_set_policy(&msg->m->pool, msg->req, proc, &now);
	pm_commit_encode(&now, &w);
	return msg_reply(msg, &w, sizeof(w));
}

/* --- from memory nodes --------------------------------------------------------------------- */

static int reply_mm(const struct msg *msg, int err, const struct mm_range_rep *rep)
{
	struct mm_range_rep_wire w;

	if (err)
		return err;
	mm_range_rep_encode(rep, &w);
	return msg_reply(msg, &w, sizeof(w));
}

/* Have the two nodes been booted with the same size of a vRegion? */
static int check_shift(const struct msg *msg, uint32_t vregion_shift)
{
	return vregion_shift == msg->m->vregion_shift ? 0 : -EINVAL;
}

static struct home_id home_of(const struct msg *msg)
{
	return (struct home_id){ msg->peer, msg->incarn };
}

int msg_mm_map(struct msg *msg)
{
	const struct mm_map_req *req = msg->req;
	struct mm_range_rep rep = { 0 };
	int err = check_shift(msg, req->vregion_shift);

	if (!err)
		err = owner_map(msg->m, home_of(msg), req, &rep);
	return reply_mm(msg, err, &rep);
}

int msg_mm_load(struct msg *msg)
{
	const struct mm_load_req *req = msg->req;
	struct mm_range_rep rep = { 0 };
	int err = check_shift(msg, req->vregion_shift);

	if (!err)
		err = owner_load(msg->m, home_of(msg), req, &rep);
	return reply_mm(msg, err, &rep);
}

int msg_mm_unmap(struct msg *msg)
{
	struct mm_range_rep rep = { 0 };
	const int err = owner_unmap(msg->m, msg->req, &rep);

	return reply_mm(msg, err, &rep);
}

int msg_mm_protect(struct msg *msg)
{
	struct mm_range_rep rep = { 0 };
	const int err = owner_protect(msg->m, msg->req, &rep);

	return reply_mm(msg, err, &rep);
}

int msg_mm_move(struct msg *msg)
{
	struct owner_move_work *work = msg->req; /* the request is its first member */
	struct mm_range_rep rep = { 0 };
	int err = check_shift(msg, work->req.vregion_shift);

	if (!err)
		err = owner_move(msg->m, work, &rep);
	return reply_mm(msg, err, &rep);
}

int msg_mm_pages(struct msg *msg)
{
	const struct mm_pages_req *req = msg->req;

	if (msg->bulk_len != req->nr_pages * PAGE_SIZE)
		return -EMSGSIZE;
	if (owner_masters(msg->m, req->aspace).source != msg->peer)
		return msg_not_home(msg);
	return owner_pages(msg->m, req, msg->bulk);
}

int msg_mm_destroy(struct msg *msg)
{
	const uint64_t *aspace = msg->req;

	owner_destroy_space(msg->m, *aspace);
	return 0;
}

int msg_mm_fork(struct msg *msg)
{
	struct mm_range_rep rep = { 0 };
	const int err = owner_fork(msg->m, home_of(msg), msg->req, &rep);

	return reply_mm(msg, err, &rep);
}

int msg_mm_collapse(struct msg *msg)
{
	struct mm_range_rep rep = { 0 };
	const int err = owner_collapse(msg->m, msg->req, &rep);

	return reply_mm(msg, err, &rep);
}

int msg_mm_discard(struct msg *msg)
{
	struct mm_range_rep rep = { 0 };
	const int err = owner_discard(msg->m, msg->req, &rep);

	return reply_mm(msg, err, &rep);
}

int msg_mm_vregion_move(struct msg *msg)
{
	const struct mm_vregion_move_req *req = msg->req;
	struct mm_range_rep rep = { 0 };
	int err = -EPROTO;

	if (req->vregion.index <= PM_USER_TOP >> msg->m->vregion_shift)
		err = owner_vregion_move(msg->m, home_of(msg), req, &rep);
	return reply_mm(msg, err, &rep);
}

int msg_mm_expect(struct msg *msg)
{
	return owner_expect(msg->m, home_of(msg), msg->req);
}

int msg_mm_relieve(struct msg *msg)
{
	return home_relieve(msg->m, msg->peer, msg->req);
}

int msg_mm_vregion_take(struct msg *msg)
{
	const struct mm_vregion_take_req *req = msg->req;
	const struct owner_masters masters = owner_masters(msg->m, req->aspace);
	const int err = check_shift(msg, req->vregion_shift);

	/* The home has told of it, and nobody gives a space another home. */
	if (masters.source != msg->peer || masters.home != req->home)
		return msg_not_home(msg);
	return err ? err : owner_vregion_take(msg->m, msg->peer, req);
}

int msg_mm_file_read(struct msg *msg)
{
	const struct mm_file_read_req *req = msg->req;

	if (msg->reply_max < req->len)
		return -EMSGSIZE;
	return page_cache_copy(msg->m, &req->file, req->offset, msg->reply, req->len);
}
