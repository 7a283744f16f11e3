/* SPDX-License-Identifier: MIT */
/*
 * Messages about pages: bytes on one side, lines and objects on the other. fill.c, writeback.c and
 * credit.c decide what is asked, when, and what follows from an answer.
 */
#include "owner.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <processor/client/convert.h>
#include <proto/pm.h>

#include "cache_private.h"
#include "credit.h"
#include "late.h"

static_assert(sizeof(((struct fetch_msg *)0)->body) == sizeof(struct pm_fetch_req_wire), "fits");
static_assert(sizeof(((struct fetch_msg *)0)->reply) >= sizeof(struct pm_fetch_rep_wire), "fits");
static_assert(sizeof(((struct fetch_msg *)0)->reply) >= sizeof(struct pm_redirect_wire), "fits");
static_assert((int)FETCH_DATA == (int)PM_FETCH_DATA, "the same");
static_assert((int)FETCH_ZERO == (int)PM_FETCH_ZERO, "the same");
static_assert((int)FETCH_FILE == (int)PM_FETCH_FILE, "the same");
static_assert(FILE_FETCH_MAX <= PM_FILE_FETCH_MAX, "one message");
static_assert(sizeof(((struct file_fetch_msg *)0)->body) ==
		      sizeof(struct pm_file_fetch_req_wire) +
			      FILE_FETCH_MAX * sizeof(struct proto_mr_ref_wire),
	      "fits");
static_assert(sizeof(((struct file_fetch_msg *)0)->reply) == sizeof(struct pm_file_fetch_rep_wire),
	      "fits");
static_assert(sizeof(((struct report_msg *)0)->body) == sizeof(struct pm_credit_req_wire), "fits");
static_assert(sizeof(((struct report_msg *)0)->reply) == sizeof(struct pm_credit_rep_wire), "fits");
static_assert(AHEAD_MAX <= PM_FETCH_AHEAD_MAX, "one message");
static_assert(sizeof(((struct ahead_msg *)0)->body) ==
		      sizeof(struct pm_fetch_ahead_req_wire) +
			      AHEAD_MAX * sizeof(struct pm_ahead_page_wire),
	      "fits");
static_assert(sizeof(((struct ahead_msg *)0)->reply) == sizeof(struct pm_fetch_ahead_rep_wire),
	      "fits");
static_assert((int)WRITEBACK_MAX <= (int)PM_WRITEBACK_MAX_PAGES, "one message");
static_assert(sizeof(((struct writeback_msg *)0)->body) ==
		      sizeof(struct pm_writeback_req_wire) +
			      WRITEBACK_MAX * sizeof(struct pm_writeback_page_wire),
	      "fits");
static_assert(sizeof(((struct writeback_msg *)0)->reply) ==
		      WRITEBACK_MAX * sizeof(struct pm_stored_wire) + sizeof(struct pm_grant_wire),
	      "fits");

COUNTER(writeback_zeroes, "excache.writeback_zeroes",
	"pages of zeroes told to their owner, not sent");

static struct proto_mr_ref line_ref(struct line *line, uint32_t rkey)
{
	return (struct proto_mr_ref){ .addr = line_paddr(line), .rkey = rkey, .len = PAGE_SIZE };
}

static struct rpc_sge line_sge(struct line *line)
{
	return (struct rpc_sge){ .mem = excache.mem, .addr = line_paddr(line), .len = PAGE_SIZE };
}

static struct granted granted(const struct pm_grant *g)
{
	return (struct granted){ .node = g->node, .frames = g->frames, .report = g->report };
}

static struct owner_place place(const struct pm_place *p)
{
	return (struct owner_place){ .extent = p->extent, .rkey = p->rkey, .frame = p->frame };
}

/* --- one page from its owner --------------------------------------------------------- */

void owner_fetch_prepare(struct rpc_call *call, struct fetch_msg *msg, uint32_t owner,
			 const struct object *obj, uint64_t pgoff, struct line *line,
			 struct line *victim)
{
	struct pm_fetch_req req = {
		.aspace = obj->id,
		.vaddr = pgoff << PAGE_SHIFT,
		.line = line_ref(line, rpc_mem_rkey(excache.mem, owner)),
		.want_credits = credit_want(owner),
	};

	if (victim) {
		msg->bulk = line_sge(victim);
		call->bulk = &msg->bulk;
		call->nr_bulk = 1;
		req.flags |= PM_FETCH_VICTIM;
		req.victim_aspace = victim->obj->id;
		req.victim_vaddr = victim->pgoff << PAGE_SHIFT;
		req.victim_seq = victim->seq;
	}
	pm_fetch_req_encode(&req, (struct pm_fetch_req_wire *)msg->body);
	call->peer = owner;
	call->cls = RPC_CLASS_DEMAND;
	call->opcode = PM_FETCH;
	call->body = msg->body;
	call->body_len = sizeof(msg->body);
	call->reply = msg->reply;
	call->reply_max = sizeof(msg->reply);
}

int owner_fetch_answer(const struct fetch_msg *msg, size_t len, struct fetch_answer *out)
{
	struct pm_fetch_rep rep;
	const int err = pm_fetch_rep_decode(msg->reply, len, &rep);

	if (err)
		return err;
	out->result = (enum fetch_result)rep.result;
	out->victim_err = rep.victim_status;
	out->granted = granted(&rep.grant);
	out->place = place(&rep.page);
	out->victim_place = place(&rep.victim);
	return 0;
}

void owner_read_prepare(struct rpc_call *call, struct fetch_msg *msg, const struct read_place *from,
			struct line *line)
{
	msg->bulk = line_sge(line);
	call->bulk = &msg->bulk;
	call->nr_bulk = 1;
	call->peer = from->node;
	call->cls = RPC_CLASS_READ;
	call->remote_addr = from->addr;
	call->rkey = from->rkey;
}

int owner_redirect_decode(const void *body, size_t len, uint64_t *index, struct vregion *out)
{
	struct pm_vregion v;
	const int err = pm_redirect_decode(body, len, &v);

	if (err)
		return err;
	*index = v.index;
	*out = (struct vregion){ .owner = v.owner, .version = v.version };
	return 0;
}

/* --- several pages from their owner, ahead ------------------------------------------- */

void owner_read_ahead_prepare(struct rpc_call *call, struct rpc_sge *sges,
			      const struct read_place *from, struct line *const *lines, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		sges[i] = line_sge(lines[i]);
	call->bulk = sges;
	call->nr_bulk = nr;
	call->peer = from->node;
	call->cls = RPC_CLASS_READ_AHEAD;
	call->remote_addr = from->addr;
	call->rkey = from->rkey;
}

void owner_ahead_prepare(struct rpc_call *call, struct ahead_msg *msg, uint32_t owner,
			 const struct object *obj, struct line *const *lines, uint32_t nr)
{
	struct pm_fetch_ahead_req req; /* not cleared: nr_pages says how much counts */
	const uint32_t rkey = rpc_mem_rkey(excache.mem, owner);
	ssize_t len;

	ASSERT(nr > 0 && nr <= AHEAD_MAX);
	req.aspace = obj->id;
	req.nr_pages = nr;
	for (uint32_t i = 0; i < nr; i++) {
		req.pages[i].vaddr = lines[i]->pgoff << PAGE_SHIFT;
		req.pages[i].line = line_ref(lines[i], rkey);
	}
	len = pm_fetch_ahead_req_encode(&req, msg->body, sizeof(msg->body));
	BUG_ON(len < 0);
	call->peer = owner;
	call->cls = RPC_CLASS_PREFETCH;
	call->opcode = PM_FETCH_AHEAD;
	call->data_len = nr * (uint32_t)PAGE_SIZE;
	call->body = msg->body;
	call->body_len = (uint32_t)len;
	call->reply = msg->reply;
	call->reply_max = sizeof(msg->reply);
}

int owner_ahead_answer(const struct ahead_msg *msg, size_t len, uint32_t nr, uint32_t *sent)
{
	struct pm_fetch_ahead_rep rep;
	const int err = pm_fetch_ahead_rep_decode(msg->reply, len, &rep);

	if (err)
		return err;
	if (nr < 32 && rep.sent >> nr)
		return -EPROTO;
	*sent = rep.sent;
	return 0;
}

/* --- pages of a file ----------------------------------------------------------------- */

int owner_file_fetch_prepare(struct rpc_call *call, struct file_fetch_msg *msg,
			     const struct object *obj, uint64_t pgoff, struct line *const *lines,
			     uint32_t nr, enum rpc_class cls)
{
	struct pm_file_fetch_req *req = kzalloc(sizeof(*req));
	const uint32_t known = obj->live ? READ_ONCE(obj->node) : 0;
	const uint32_t node = known ? known : excache.ops->file_node(&obj->file);
	const uint32_t rkey = rpc_mem_rkey(excache.mem, node);
	ssize_t len;

	if (!req)
		return -ENOMEM;
	ASSERT(nr > 0 && nr <= FILE_FETCH_MAX);
	req->file = file_to_proto(&obj->file);
	req->pgoff = pgoff;
	req->version = obj->live ? 0 : obj->version; /* 0: as it is now */
	req->nr_pages = nr;
	for (uint32_t i = 0; i < nr; i++)
		req->pages[i] = line_ref(lines[i], rkey);
	len = pm_file_fetch_req_encode(req, msg->body, sizeof(msg->body));
	kfree(req);
	if (len < 0)
		return (int)len;
	call->peer = node;
	call->cls = cls;
	call->opcode = PM_FILE_FETCH;
	call->data_len = cls == RPC_CLASS_PREFETCH ? nr * (uint32_t)PAGE_SIZE : 0;
	call->body = msg->body;
	call->body_len = (uint32_t)len;
	call->reply = msg->reply;
	call->reply_max = sizeof(msg->reply);
	return 0;
}

int owner_file_fetch_answer(const struct file_fetch_msg *msg, size_t len, uint32_t *nr_valid)
{
	struct pm_file_fetch_rep rep;
	const int err = pm_file_fetch_rep_decode(msg->reply, len, &rep);

	if (err)
		return err;
	*nr_valid = rep.nr_valid;
	return 0;
}

/* --- pages back to their owner ------------------------------------------------------- */

/*
 * A thread may store to a CLEANING line meanwhile: then the line is dirty again, and written back
 * once more.
 */
static bool is_zero_page(const struct line *line)
{
	const uint64_t *w = line_data(line);

	for (size_t i = 0; i < PAGE_SIZE / sizeof(*w); i++) {
		if (READ_ONCE(w[i]))
			return false;
	}
	return true;
}

void owner_writeback_prepare(struct rpc_call *call, struct writeback_msg *msg, uint32_t owner,
			     const struct object *obj, struct line *const *lines, uint32_t nr)
{
	struct pm_writeback_req req = { .aspace = obj->id, .nr_pages = nr };
	ssize_t len;

	ASSERT(nr > 0 && nr <= WRITEBACK_MAX);
	call->nr_bulk = 0;
	for (uint32_t i = 0; i < nr; i++) {
		req.pages[i].vaddr = lines[i]->pgoff << PAGE_SHIFT;
		req.pages[i].seq = lines[i]->seq;
		if (is_zero_page(lines[i]))
			req.zeroes |= 1u << i;
		else
			msg->bulk[call->nr_bulk++] = line_sge(lines[i]);
	}
	counter_add(&writeback_zeroes, nr - call->nr_bulk);
	len = pm_writeback_req_encode(&req, msg->body, sizeof(msg->body));
	BUG_ON(len < 0);
	call->peer = owner;
	call->cls = RPC_CLASS_WRITEBACK;
	call->opcode = PM_WRITEBACK;
	call->body = msg->body;
	call->body_len = (uint32_t)len;
	call->bulk = msg->bulk;
	call->reply = msg->reply;
	call->reply_max = sizeof(msg->reply);
}

int owner_writeback_answer(const struct writeback_msg *msg, size_t len, uint32_t nr,
			   struct writeback_answer *out)
{
	struct pm_writeback_rep rep = { 0 };
	const int err = pm_writeback_rep_decode(msg->reply, len, &rep);

	if (err)
		return err;
	if (rep.nr_pages != nr)
		return -EPROTO;
	for (uint32_t i = 0; i < nr; i++) {
		out->status[i] = rep.pages[i].status;
		out->places[i] = place(&rep.pages[i].place);
	}
	out->granted = granted(&rep.grant);
	return 0;
}

/* --- frame credits ------------------------------------------------------------------- */

void owner_report_prepare(struct rpc_call *call, struct report_msg *msg, uint32_t node,
			  uint64_t report, uint32_t hold, uint32_t want)
{
	const struct pm_credit_req req = { .report = report, .hold = hold, .want = want };

	pm_credit_req_encode(&req, (struct pm_credit_req_wire *)msg->body);
	call->peer = node;
	call->cls = RPC_CLASS_CONTROL;
	call->opcode = PM_CREDIT;
	call->body = msg->body;
	call->body_len = sizeof(msg->body);
	call->reply = msg->reply;
	call->reply_max = sizeof(msg->reply);
}

int owner_report_answer(const struct report_msg *msg, size_t len, uint32_t *frames)
{
	struct pm_credit_rep rep;
	const int err = pm_credit_rep_decode(msg->reply, len, &rep);

	if (err)
		return err;
	*frames = rep.frames;
	return 0;
}
