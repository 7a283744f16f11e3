/* SPDX-License-Identifier: MIT */
/*
 * Handlers of messages that carry pages: PM_FETCH, PM_FETCH_AHEAD, PM_WRITEBACK, PM_FILE_FETCH.
 *
 * Flow:	the device writes a page from its frame straight into the requester's memory; the
 *		reply keeps the frame pinned until it has been sent.
 * Context:	polling context first: nothing sleeps and nothing but frames is allocated. A
 *		request that would have to sleep is run again by a thread (RPC_AGAIN). All of them
 *		may run twice.
 * Failure:	a malformed request is counted and answered with its errno.
 */
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "dispatch.h"
#include "memory.h"
#include "region_apply.h"
#include "service.h"

static bool param_steps;
BOOT_PARAM("memory.steps", bool, param_steps,
	   "measure the handlers of fetches and write-backs (histograms memory.*_ns)");
HISTOGRAM(fetch_ns, "memory.fetch_ns", "handler of a fetch, its reply posted");
HISTOGRAM(fetch_victim_ns, "memory.fetch_victim_ns", "the same with a victim");
HISTOGRAM(writeback_ns, "memory.writeback_ns", "handler of a write-back, its reply posted");

static inline uint64_t steps_begin(void)
{
	return unlikely(param_steps) ? time_now_ns() : 0;
}

static inline void steps_end(const struct histogram *h, uint64_t begin_ns)
{
	if (unlikely(param_steps))
		hist_record(h, time_now_ns() - begin_ns);
}

static void page_sent(void *arg)
{
	mpage_put(&memory_node.pool, arg);
}

static void reply_redirect(struct rpc_request *req, const struct pm_vregion *redirect)
{
	struct pm_redirect_wire w;

	pm_redirect_encode(redirect, &w);
	rpc_reply(req, -EREMCHG, &w, sizeof(w));
}

static enum rpc_handler_result reply_error(struct rpc_request *req, int err)
{
	if (err == -EPROTO || err == -EMSGSIZE)
		STAT_INC(&memory_node, bad_requests);
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

/*
 * A request whose changes must be complete before its reply. Completion is immediate unless the
 * owner has a log, so the state lies on the handler's stack; with a log it may come later, and is
 * allocated.
 */
struct deferred_reply {
	struct region_completion completion;
	bool on_heap;
	struct rpc_request *req; /* NULL: this attempt has no reply, see reply_cancel() */
	union {
		struct {
			struct mpage *page;
			struct proto_mr_ref line;
			struct pm_fetch_rep rep;
		} fetch;
		struct pm_writeback_rep writeback;
	};
};

/* @send runs when all changes are complete, and ends with reply_end(). NULL: no memory. */
static inline struct deferred_reply *reply_begin(struct deferred_reply *on_stack,
						 struct rpc_request *req,
						 void (*send)(struct region_completion *c))
{
	struct deferred_reply *r = on_stack;

	if (unlikely(memory_node.owner.log)) {
		r = kmalloc(sizeof(*r));
		if (!r)
			return NULL;
	}
	r->on_heap = r != on_stack;
	r->req = req;
	region_completion_init(&r->completion, send);
	return r;
}

/* The request is answered otherwise, or run again. */
static void reply_cancel(struct deferred_reply *r)
{
	r->req = NULL;
	region_completion_put(&r->completion, 0);
}

static inline void reply_end(struct deferred_reply *r)
{
	if (unlikely(r->on_heap))
		kfree(r);
}

static void fetch_reply(struct region_completion *c)
{
	struct deferred_reply *r = container_of(c, struct deferred_reply, completion);
	struct mpage *page = r->fetch.page;
	struct pm_fetch_rep_wire w;
	struct rpc_write write;

	if (unlikely(c->err || !r->req)) {
		if (page)
			mpage_put(&memory_node.pool, page);
		if (r->req)
			(void)reply_error(r->req, c->err);
	} else {
		pm_fetch_rep_encode(&r->fetch.rep, &w);
		if (page) {
			write.src = page_sge(page);
			write.remote_addr = r->fetch.line.addr;
			write.rkey = r->fetch.line.rkey;
			rpc_reply_bulk(r->req, 0, &w, sizeof(w), &write, 1, page_sent, page);
		} else {
			rpc_reply(r->req, 0, &w, sizeof(w));
		}
	}
	reply_end(r);
}

enum rpc_handler_result msg_fetch(struct rpc_request *req, void *arg)
{
	uint32_t len, bulk_len;
	const void *victim = rpc_request_bulk(req, &bulk_len);
	struct deferred_reply on_stack, *r;
	struct pm_fetch_req_wire body;
	struct pm_fetch_req fetch;
	struct pm_vregion redirect;
	const uint64_t begin_ns = steps_begin();
	int err = rpc_request_copy(req, &body, sizeof(body), &len);

	if (!err)
		err = pm_fetch_req_decode(&body, len, &fetch);
	if (!err && bulk_len != (fetch.flags & PM_FETCH_VICTIM ? PAGE_SIZE : 0))
		err = -EMSGSIZE;
	if (err)
		return reply_error(req, err);
	r = reply_begin(&on_stack, req, fetch_reply);
	if (unlikely(!r))
		return reply_error(req, -ENOMEM);
	r->fetch.line = fetch.line;
	err = owner_fetch(&memory_node, rpc_request_peer(req), &fetch, victim,
			  rpc_request_may_sleep(req), &r->fetch.rep, &r->fetch.page, &redirect,
			  &r->completion);
	if (unlikely(err == -EAGAIN || err == -EREMCHG)) {
		reply_cancel(r);
		if (err == -EAGAIN) {
			STAT_INC(&memory_node, fetch_slow);
			return RPC_AGAIN;
		}
		reply_redirect(req, &redirect);
		return RPC_DONE;
	}
	region_completion_put(&r->completion, err);
	steps_end(fetch.flags & PM_FETCH_VICTIM ? &fetch_victim_ns : &fetch_ns, begin_ns);
	return RPC_DONE;
}

static void writeback_reply(struct region_completion *c)
{
	uint8_t buf[PM_WRITEBACK_MAX_PAGES * sizeof(struct pm_stored_wire) +
		    sizeof(struct pm_grant_wire)];
	struct deferred_reply *r = container_of(c, struct deferred_reply, completion);
	ssize_t len;

	if (r->req && c->err) {
		(void)reply_error(r->req, c->err);
	} else if (r->req) {
		len = pm_writeback_rep_encode(&r->writeback, buf, sizeof(buf));
		rpc_reply(r->req, len < 0 ? (int)len : 0, buf, len < 0 ? 0 : (uint32_t)len);
	}
	reply_end(r);
}

enum rpc_handler_result msg_writeback(struct rpc_request *req, void *arg)
{
	uint64_t body[(sizeof(struct pm_writeback_req_wire) +
		       PM_WRITEBACK_MAX_PAGES * sizeof(struct pm_writeback_page_wire)) /
		      sizeof(uint64_t)];
	uint32_t len, bulk_len;
	const void *data = rpc_request_bulk(req, &bulk_len);
	struct deferred_reply on_stack, *r;
	struct pm_writeback_req wb;
	const uint64_t begin_ns = steps_begin();
	int err = rpc_request_copy(req, body, sizeof(body), &len);

	if (!err)
		err = pm_writeback_req_decode(body, len, &wb);
	if (!err && bulk_len != pm_writeback_bulk_len(&wb))
		err = -EMSGSIZE;
	if (err)
		return reply_error(req, err);
	r = reply_begin(&on_stack, req, writeback_reply);
	if (unlikely(!r))
		return reply_error(req, -ENOMEM);
	err = owner_writeback(&memory_node, rpc_request_peer(req), &wb, data,
			      rpc_request_may_sleep(req), &r->writeback, &r->completion);
	if (err == -EAGAIN) {
		reply_cancel(r);
		return RPC_AGAIN;
	}
	region_completion_put(&r->completion, err);
	steps_end(&writeback_ns, begin_ns);
	return RPC_DONE;
}

/* Pages on their way; those that the owner does not have are left out. */
struct ahead_reply {
	uint32_t nr;
	struct mpage *pages[PM_FETCH_AHEAD_MAX];
	struct rpc_write writes[PM_FETCH_AHEAD_MAX];
	struct pm_fetch_ahead_req req;
};

static void ahead_sent(void *arg)
{
	struct ahead_reply *ar = arg;

	for (uint32_t i = 0; i < ar->nr; i++)
		mpage_put(&memory_node.pool, ar->pages[i]);
	kfree(ar);
}

static void ahead_reply_send(struct rpc_request *req, struct ahead_reply *ar, uint32_t sent)
{
	const struct pm_fetch_ahead_rep rep = { .sent = sent };
	struct pm_fetch_ahead_rep_wire w;

	for (uint32_t i = 0; i < ar->req.nr_pages; i++) {
		struct rpc_write *write = &ar->writes[ar->nr];

		if (!ar->pages[i])
			continue;
		write->src = page_sge(ar->pages[i]);
		write->remote_addr = ar->req.pages[i].line.addr;
		write->rkey = ar->req.pages[i].line.rkey;
		ar->pages[ar->nr++] = ar->pages[i];
	}
	pm_fetch_ahead_rep_encode(&rep, &w);
	rpc_reply_bulk(req, 0, &w, sizeof(w), ar->writes, ar->nr, ahead_sent, ar);
}

enum rpc_handler_result msg_fetch_ahead(struct rpc_request *req, void *arg)
{
	uint64_t body[(sizeof(struct pm_fetch_ahead_req_wire) +
		       PM_FETCH_AHEAD_MAX * sizeof(struct pm_ahead_page_wire)) /
		      sizeof(uint64_t)];
	struct ahead_reply *ar = kmalloc(sizeof(*ar));
	uint32_t len, bulk_len;
	int err = -ENOMEM;

	(void)rpc_request_bulk(req, &bulk_len);
	if (ar)
		err = rpc_request_copy(req, body, sizeof(body), &len);
	if (!err)
		err = pm_fetch_ahead_req_decode(body, len, &ar->req);
	if (!err && bulk_len)
		err = -EMSGSIZE;
	if (err) {
		kfree(ar);
		return reply_error(req, err);
	}
	ar->nr = 0;
	ahead_reply_send(
		req, ar,
		owner_fetch_ahead(&memory_node, rpc_request_peer(req), &ar->req, ar->pages));
	return RPC_DONE;
}

struct file_reply {
	uint32_t nr;
	struct mpage *pages[PM_FILE_FETCH_MAX];
	struct pm_file_fetch_req req;
	struct rpc_write writes[PM_FILE_FETCH_MAX];
};

static void file_sent(void *arg)
{
	struct file_reply *fr = arg;

	for (uint32_t i = 0; i < fr->nr; i++)
		mpage_put(&memory_node.pool, fr->pages[i]);
	kfree(fr);
}

static void file_reply_send(struct rpc_request *req, struct file_reply *fr,
			    const struct pm_file_fetch_rep *rep)
{
	struct pm_file_fetch_rep_wire w;

	pm_file_fetch_rep_encode(rep, &w);
	fr->nr = rep->nr_valid;
	for (uint32_t i = 0; i < fr->nr; i++) {
		fr->writes[i].src = page_sge(fr->pages[i]);
		fr->writes[i].remote_addr = fr->req.pages[i].addr;
		fr->writes[i].rkey = fr->req.pages[i].rkey;
	}
	STAT_ADD(&memory_node, bytes_out, fr->nr * PAGE_SIZE);
	STAT_INC(&memory_node, file_fetches);
	rpc_reply_bulk(req, 0, &w, sizeof(w), fr->writes, fr->nr, file_sent, fr);
}

enum rpc_handler_result msg_file_fetch(struct rpc_request *req, void *arg)
{
	uint64_t body[(sizeof(struct pm_file_fetch_req_wire) +
		       PM_FILE_FETCH_MAX * sizeof(struct proto_mr_ref_wire)) /
		      sizeof(uint64_t)];
	struct file_reply *fr = kmalloc(sizeof(*fr));
	struct pm_file_fetch_rep rep;
	uint32_t len, bulk_len;
	int err = -ENOMEM;

	(void)rpc_request_bulk(req, &bulk_len);
	if (fr)
		err = rpc_request_copy(req, body, sizeof(body), &len);
	if (!err)
		err = pm_file_fetch_req_decode(body, len, &fr->req);
	if (!err && bulk_len)
		err = -EMSGSIZE;
	if (!err)
		err = memory_check_file(&memory_node, &fr->req.file, rpc_request_peer(req),
					rpc_request_may_sleep(req));
	if (!err)
		err = page_cache_get(&memory_node, &fr->req.file, fr->req.pgoff, fr->req.nr_pages,
				     fr->req.version, rpc_request_may_sleep(req), fr->pages, &rep);
	if (!err) {
		file_reply_send(req, fr, &rep);
		return RPC_DONE;
	}
	kfree(fr);
	return err == -EAGAIN ? RPC_AGAIN : reply_error(req, err);
}
