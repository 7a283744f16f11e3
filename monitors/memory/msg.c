/* SPDX-License-Identifier: MIT */
/*
 * Memory monitor: decode a request, let the part that it is for serve it, encode the reply.
 *
 * Here are the requests whose reply is a body only; those that send pages are in service.c.
 *
 * Context:	a worker or, for a node's requests to itself, the thread that makes them; may sleep.
 * Checks:	the sender.  Address space calls come from the processor that the space's id names; MM_*
 *		come from memory nodes.
 */
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "memory.h"

/* One message being served. */
struct msg {
	struct memory *m;
	uint32_t peer;
	const void *body;
	uint32_t len;
	const void *bulk;
	uint32_t bulk_len;
	void *reply;
	uint32_t reply_max;
};

typedef int (*msg_fn)(const struct msg *msg);

static int reply_put(const struct msg *msg, const void *w, size_t len)
{
	if (msg->reply_max < len)
		return -EMSGSIZE;
	memcpy(msg->reply, w, len);
	return (int)len;
}

/* --- from processors ------------------------------------------------------------------- */

static int reply_range(const struct msg *msg, int err, struct pm_range_rep *rep)
{
	if (!err)
		err = (int)pm_range_rep_encode(rep, msg->reply, msg->reply_max);
	lib_free(rep);
	return err;
}

#define DEFINE_RANGE_CALL(name, req_type, decode)                                        \
	static int msg_##name(const struct msg *msg)                                     \
	{                                                                                \
		struct pm_range_rep *rep;                                                \
		struct req_type req;                                                     \
		const int err = decode(msg->body, msg->len, &req);                       \
                                                                                         \
		if (err)                                                                 \
			return err;                                                      \
		rep = lib_alloc(sizeof(*rep));                                           \
		if (!rep)                                                                \
			return -ENOMEM;                                                  \
		return reply_range(msg, home_##name(msg->m, msg->peer, &req, rep), rep); \
	}

DEFINE_RANGE_CALL(mmap, pm_mmap_req, pm_mmap_req_decode)
DEFINE_RANGE_CALL(munmap, pm_range_req, pm_range_req_decode)
DEFINE_RANGE_CALL(mprotect, pm_range_req, pm_range_req_decode)
DEFINE_RANGE_CALL(mremap, pm_mremap_req, pm_mremap_req_decode)
DEFINE_RANGE_CALL(brk, pm_brk_req, pm_brk_req_decode)
DEFINE_RANGE_CALL(fork, pm_fork_req, pm_fork_req_decode)
DEFINE_RANGE_CALL(make_pages, pm_space_req, pm_space_req_decode)
DEFINE_RANGE_CALL(vregions, pm_vregions_req, pm_vregions_req_decode)

static int msg_exec(const struct msg *msg)
{
	struct pm_exec_req req;
	struct pm_exec_rep *rep;
	int err = pm_exec_req_decode(msg->body, msg->len, &req);

	if (err)
		return err;
	rep = lib_zalloc(sizeof(*rep));
	if (!rep)
		return -ENOMEM;
	err = home_exec(msg->m, msg->peer, &req, rep);
	if (!err)
		err = (int)pm_exec_rep_encode(rep, msg->reply, msg->reply_max);
	lib_free(rep);
	return err;
}

static int msg_pm_destroy(const struct msg *msg)
{
	uint64_t ids[PM_DESTROY_MAX];
	uint32_t nr = 0;
	int err = pm_destroy_list_decode(msg->body, msg->len, ids, &nr);

	/* All of them, whatever comes of one; the first error is the answer. */
	for (uint32_t i = 0; i < nr; i++) {
		const int ret = home_destroy_space(msg->m, ids[i], msg->peer);

		err = err ? err : ret;
	}
	return err;
}

static int msg_collapse(const struct msg *msg)
{
	struct pm_merge_req *req = lib_alloc(sizeof(*req));
	int err = -ENOMEM;

	if (req)
		err = pm_merge_req_decode(msg->body, msg->len, req);
	if (!err)
		err = home_collapse(msg->m, msg->peer, req, msg->body, msg->len);
	lib_free(req);
	return err;
}

static int msg_discard(const struct msg *msg)
{
	struct pm_discard_req *req = lib_alloc(sizeof(*req));
	int err = -ENOMEM;

	if (req)
		err = pm_discard_req_decode(msg->body, msg->len, req);
	if (!err)
		err = home_discard(msg->m, msg->peer, req, msg->body, msg->len);
	lib_free(req);
	return err;
}

static int msg_credit(const struct msg *msg)
{
	struct pm_grant_wire w;
	struct pm_credit_req req;
	struct pm_grant grant;
	const int err = pm_credit_req_decode(msg->body, msg->len, &req);

	if (err)
		return err;
	pool_return_credits(&msg->m->pool, msg->peer, req.give);
	grant.node = msg->m->node;
	grant.frames = pool_grant(&msg->m->pool, msg->peer, req.want);
	STAT_ADD(msg->m, grants, grant.frames);
	if (req.want && !grant.frames) {
		STAT_INC(msg->m, enomem);
		return -ENOMEM;
	}
	pm_grant_encode(&grant, &w);
	return reply_put(msg, &w, sizeof(w));
}

static int msg_meminfo(const struct msg *msg)
{
	struct pm_meminfo_rep rep;
	struct pm_meminfo_rep_wire w;
	struct pool_stats s;

	if (msg->len)
		return -EMSGSIZE;
	pool_stats(&msg->m->pool, &s);
	rep = (struct pm_meminfo_rep){
		.total = s.total,
		.free = s.zero + s.dirty,
		.file = s.file,
		.promised = s.reserved,
		.committed = s.committed,
	};
	pm_meminfo_rep_encode(&rep, &w);
	return reply_put(msg, &w, sizeof(w));
}

/* "Moved" has a body as well. */
static int reply_redirect(const struct msg *msg, const struct pm_vregion *redirect, uint32_t *len)
{
	struct pm_moved_wire w;

	pm_moved_encode(redirect, &w);
	if (reply_put(msg, &w, sizeof(w)) > 0)
		*len = sizeof(w);
	return -EREMCHG;
}

static int msg_fill_vma(const struct msg *msg, uint32_t *error_len)
{
	struct pm_fill_vma_req req;
	struct pm_vregion redirect;
	struct pm_vma_wire w;
	struct pm_vma area;
	int err = pm_fill_vma_req_decode(msg->body, msg->len, &req);

	if (!err && space_processor(req.aspace) != msg->peer)
		err = -ESRCH;
	if (err)
		return err;
	err = owner_fill_vma(msg->m, &req, &area, &redirect);
	if (err == -EREMCHG)
		return reply_redirect(msg, &redirect, error_len);
	if (err)
		return err;
	pm_vma_encode(&area, &w);
	return reply_put(msg, &w, sizeof(w));
}

/* --- from memory nodes ----------------------------------------------------------------- */

static int reply_mm(const struct msg *msg, int err, const struct mm_range_rep *rep)
{
	struct mm_range_rep_wire w;

	if (err)
		return err;
	mm_range_rep_encode(rep, &w);
	return reply_put(msg, &w, sizeof(w));
}

static int mm_map_in(const struct msg *msg, struct mm_map_req *req, struct mm_range_rep *rep)
{
	int err = mm_map_req_decode(msg->body, msg->len, req);

	if (!err && req->vregion_shift != msg->m->vregion_shift)
		err = -EINVAL; /* two nodes were booted with different sizes */
	return err ? err : owner_map(msg->m, msg->peer, req, rep);
}

static int msg_mm_map(const struct msg *msg)
{
	struct mm_map_req *req = lib_alloc(sizeof(*req));
	struct mm_range_rep rep = { 0 };
	int err;

	if (req) {
		err = mm_map_in(msg, req, &rep);
	} else {
		mutex_lock(&msg->m->reserve_lock);
		err = mm_map_in(msg, &msg->m->reserve->map, &rep);
		mutex_unlock(&msg->m->reserve_lock);
	}
	lib_free(req);
	return reply_mm(msg, err, &rep);
}

static int msg_mm_load(const struct msg *msg)
{
	struct mm_load_req *req = lib_alloc(sizeof(*req));
	struct mm_range_rep rep = { 0 };
	int err = -ENOMEM;

	if (req)
		err = mm_load_req_decode(msg->body, msg->len, req);
	if (!err && req->vregion_shift != msg->m->vregion_shift)
		err = -EINVAL;
	if (!err)
		err = owner_load(msg->m, msg->peer, req, &rep);
	lib_free(req);
	return reply_mm(msg, err, &rep);
}

static int msg_mm_unmap(const struct msg *msg)
{
	struct mm_range_rep rep = { 0 };
	struct mm_range_req req;
	int err = mm_range_req_decode(msg->body, msg->len, &req);

	if (!err)
		err = owner_unmap(msg->m, &req, &rep);
	return reply_mm(msg, err, &rep);
}

static int msg_mm_protect(const struct msg *msg)
{
	struct mm_range_rep rep = { 0 };
	struct mm_range_req req;
	int err = mm_range_req_decode(msg->body, msg->len, &req);

	if (!err)
		err = owner_protect(msg->m, &req, &rep);
	return reply_mm(msg, err, &rep);
}

static int mm_move_in(const struct msg *msg, struct owner_move_work *work, struct mm_range_rep *rep)
{
	int err = mm_move_req_decode(msg->body, msg->len, &work->req);

	if (!err && work->req.vregion_shift != msg->m->vregion_shift)
		err = -EINVAL;
	return err ? err : owner_move(msg->m, work, rep);
}

static int msg_mm_move(const struct msg *msg)
{
	struct owner_move_work *work = lib_alloc(sizeof(*work));
	struct mm_range_rep rep = { 0 };
	int err;

	if (work) {
		err = mm_move_in(msg, work, &rep);
	} else {
		mutex_lock(&msg->m->reserve_lock);
		err = mm_move_in(msg, &msg->m->reserve->move, &rep);
		mutex_unlock(&msg->m->reserve_lock);
	}
	lib_free(work);
	return reply_mm(msg, err, &rep);
}

static int msg_mm_pages(const struct msg *msg)
{
	struct mm_pages_req req;
	int err = mm_pages_req_decode(msg->body, msg->len, &req);

	if (!err && msg->bulk_len != req.nr_pages * PAGE_SIZE)
		err = -EMSGSIZE;
	return err ? err : owner_pages(msg->m, &req, msg->bulk);
}

static int msg_mm_destroy(const struct msg *msg)
{
	uint64_t aspace;
	const int err = pm_destroy_req_decode(msg->body, msg->len, &aspace);

	if (!err)
		owner_destroy_space(msg->m, aspace);
	return err;
}

static int msg_mm_fork(const struct msg *msg)
{
	struct mm_range_rep rep = { 0 };
	struct mm_fork_req req;
	int err = mm_fork_req_decode(msg->body, msg->len, &req);

	if (!err)
		err = owner_fork(msg->m, msg->peer, &req, &rep);
	return reply_mm(msg, err, &rep);
}

static int mm_collapse_in(const struct msg *msg, struct pm_merge_req *req, struct mm_range_rep *rep)
{
	const int err = pm_merge_req_decode(msg->body, msg->len, req);

	return err ? err : owner_collapse(msg->m, req, rep);
}

static int msg_mm_collapse(const struct msg *msg)
{
	struct pm_merge_req *req = lib_alloc(sizeof(*req));
	struct mm_range_rep rep = { 0 };
	int err;

	if (req) {
		err = mm_collapse_in(msg, req, &rep);
	} else {
		mutex_lock(&msg->m->reserve_lock);
		err = mm_collapse_in(msg, &msg->m->reserve->merge, &rep);
		mutex_unlock(&msg->m->reserve_lock);
	}
	lib_free(req);
	return reply_mm(msg, err, &rep);
}

static int mm_discard_in(const struct msg *msg, struct pm_discard_req *req,
			 struct mm_range_rep *rep)
{
	const int err = pm_discard_req_decode(msg->body, msg->len, req);

	return err ? err : owner_discard(msg->m, req, rep);
}

static int msg_mm_discard(const struct msg *msg)
{
	struct pm_discard_req *req = lib_alloc(sizeof(*req));
	struct mm_range_rep rep = { 0 };
	int err;

	if (req) {
		err = mm_discard_in(msg, req, &rep);
	} else {
		mutex_lock(&msg->m->reserve_lock);
		err = mm_discard_in(msg, &msg->m->reserve->discard, &rep);
		mutex_unlock(&msg->m->reserve_lock);
	}
	lib_free(req);
	return reply_mm(msg, err, &rep);
}

static int msg_mm_vregion_move(const struct msg *msg)
{
	struct mm_range_rep rep = { 0 };
	struct mm_vregion_move_req req;
	int err = mm_vregion_move_req_decode(msg->body, msg->len, &req);

	if (!err && req.vregion.index > PM_USER_TOP >> msg->m->vregion_shift)
		err = -EPROTO;
	if (!err)
		err = owner_vregion_move(msg->m, msg->peer, &req, &rep);
	return reply_mm(msg, err, &rep);
}

static int msg_mm_vregion_take(const struct msg *msg)
{
	struct mm_vregion_take_req *req = lib_alloc(sizeof(*req));
	int err = -ENOMEM;

	if (req)
		err = mm_vregion_take_req_decode(msg->body, msg->len, req);
	if (!err && req->vregion_shift != msg->m->vregion_shift)
		err = -EINVAL;
	if (!err)
		err = owner_vregion_take(msg->m, msg->peer, req);
	lib_free(req);
	return err;
}

static int msg_mm_file_read(const struct msg *msg)
{
	struct mm_file_read_req req;
	const int err = mm_file_read_req_decode(msg->body, msg->len, &req);

	if (err)
		return err;
	if (msg->reply_max < req.len)
		return -EMSGSIZE;
	return page_cache_copy(msg->m, &req.file, req.offset, msg->reply, req.len);
}

/* --- dispatch -------------------------------------------------------------------------- */

static const struct {
	uint16_t opcode;
	bool from_memory;
	msg_fn fn;
} msg_table[] = {
	{ PM_EXEC, false, msg_exec },
	{ PM_MMAP, false, msg_mmap },
	{ PM_MUNMAP, false, msg_munmap },
	{ PM_MPROTECT, false, msg_mprotect },
	{ PM_MREMAP, false, msg_mremap },
	{ PM_BRK, false, msg_brk },
	{ PM_VREGIONS, false, msg_vregions },
	{ PM_DESTROY, false, msg_pm_destroy },
	{ PM_CREDIT, false, msg_credit },
	{ PM_FORK, false, msg_fork },
	{ PM_MERGE, false, msg_collapse },
	{ PM_DISCARD, false, msg_discard },
	{ PM_SPACE, false, msg_make_pages },
	{ PM_MEMINFO, false, msg_meminfo },
	{ MM_MAP, true, msg_mm_map },
	{ MM_LOAD, true, msg_mm_load },
	{ MM_UNMAP, true, msg_mm_unmap },
	{ MM_PROTECT, true, msg_mm_protect },
	{ MM_MOVE, true, msg_mm_move },
	{ MM_PAGES, true, msg_mm_pages },
	{ MM_DESTROY, true, msg_mm_destroy },
	{ MM_FORK, true, msg_mm_fork },
	{ MM_MERGE, true, msg_mm_collapse },
	{ MM_DISCARD, true, msg_mm_discard },
	{ MM_VREGION_MOVE, true, msg_mm_vregion_move },
	{ MM_VREGION_TAKE, true, msg_mm_vregion_take },
	{ MM_FILE_READ, true, msg_mm_file_read },
};

static bool is_memory_node(struct memory *m, uint32_t node)
{
	bool found = false;

	spin_lock(&m->nodes_lock);
	for (size_t i = 0; i < m->nr_nodes && !found; i++)
		found = m->nodes[i] == node;
	spin_unlock(&m->nodes_lock);
	return found;
}

static int dispatch(const struct msg *msg, uint16_t opcode, uint32_t *error_len)
{
	if (opcode == PM_FILL_VMA)
		return msg_fill_vma(msg, error_len);
	for (size_t i = 0; i < ARRAY_SIZE(msg_table); i++) {
		if (msg_table[i].opcode != opcode)
			continue;
		if (msg_table[i].from_memory && !is_memory_node(msg->m, msg->peer))
			return -EPERM;
		return msg_table[i].fn(msg);
	}
	return -ENOSYS;
}

int memory_serve(struct memory *m, uint32_t peer, uint16_t opcode, const void *body, uint32_t len,
		 const void *bulk, uint32_t bulk_len, void *reply, uint32_t reply_max,
		 uint32_t *error_len)
{
	const struct msg msg = { m, peer, body, len, bulk, bulk_len, reply, reply_max };
	uint32_t no_len;
	int ret;

	if (!error_len)
		error_len = &no_len;
	*error_len = 0;
	ret = dispatch(&msg, opcode, error_len);
	if (ret == -EPROTO || ret == -EMSGSIZE)
		STAT_INC(m, bad_requests);
	return ret;
}
