/* SPDX-License-Identifier: MIT */
/*
 * RPC server: requests and their replies.
 *
 * Flow:	request_received (polling context) tells new from repeated by the slot's request id,
 *		takes a request object, and runs the handler inline or hands it to a worker
 *		(always when the request brings more than INLINE_BULK_MAX bytes of bulk);
 *		rpc_reply_bulk() writes the reply into the slot's registered buffer and posts it.
 * At most once: a repetition of a request that is being served only moves its reply to the present
 *		connection; one that was answered gets the remembered reply; an idempotent handler
 *		whose reply carried data is run again; anything older is dropped.
 * Limits:	a session has RPC_REQUESTS_PER_SLOT request objects for each slot, so a client that
 *		gives requests up and sends others makes the server run no more than that; what is
 *		beyond is refused, and the client sends it again. Handlers that wait for other
 *		nodes have at most half of the objects, so the others always find one.  When
 *		the client of such a handler gives up, the handler's killable waits end.
 * Ordering:	a reply goes out only on the connection on which its request came last: the client
 *		has let go of targets that an older connection could still write.
 * Failure:	what a peer sends is counted and dropped or answered with an errno, never trusted:
 *		the ring can change under our hands, so the header is copied before it is checked.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <arch/barrier.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/string.h>
#include <mm/slab.h>

#define INLINE_BULK_MAX 4096u /* bytes: a page that comes with a request */

/* --- handlers ------------------------------------------------------------------------- */

struct handler_entry {
	const struct rpc_handler *handler;
	void *arg;
};

/* Two levels, by the halves of the opcode; entries are only ever added. */
static struct handler_entry *handlers[256];
static struct mutex handlers_lock = MUTEX_INIT(handlers_lock, "rpc.handlers", RANK_NET);

static const struct handler_entry *handler_find(uint16_t opcode)
{
	const struct handler_entry *level =
		__atomic_load_n(&handlers[opcode >> 8], __ATOMIC_ACQUIRE);

	if (!level)
		return NULL;
	level += opcode & 0xff;
	return __atomic_load_n(&level->handler, __ATOMIC_ACQUIRE) ? level : NULL;
}

static int handler_add(const struct rpc_handler *h, void *arg)
{
	struct handler_entry *level = handlers[h->opcode >> 8];

	if (!level) {
		level = kcalloc(256, sizeof(*level));
		if (!level)
			return -ENOMEM;
		__atomic_store_n(&handlers[h->opcode >> 8], level, __ATOMIC_RELEASE);
	}
	level += h->opcode & 0xff;
	if (level->handler)
		return -EEXIST;
	/*
	 * Datagrams come twice, late and out of order, and hold a buffer until they are
	 * answered.
	 */
	if ((h->flags & RPC_HANDLER_DATAGRAM) &&
	    (!(h->flags & RPC_HANDLER_IDEMPOTENT) || (h->flags & RPC_HANDLER_WAITS)))
		return -EINVAL;
	level->arg = arg;
	__atomic_store_n(&level->handler, h, __ATOMIC_RELEASE);
	return 0;
}

int rpc_handlers_register(const struct rpc_handler *table, size_t nr, void *arg)
{
	int err = 0;

	mutex_lock(&handlers_lock);
	for (size_t i = 0; i < nr && !err; i++)
		err = handler_add(&table[i], arg);
	mutex_unlock(&handlers_lock);
	return err;
}

/* --- request objects ------------------------------------------------------------------ */

uint32_t rpc_request_peer(const struct rpc_request *req)
{
	return req->peer->info.id;
}

uint32_t rpc_request_incarn(const struct rpc_request *req)
{
	return req->peer_incarn;
}

bool rpc_request_is_datagram(const struct rpc_request *req)
{
	return !req->session;
}

uint32_t rpc_request_reply_max(const struct rpc_request *req)
{
	if (!req->session)
		return rpc_dgram_reply_max(req);
	return rpc_class_cfg[req->session->cls].body_max;
}

bool rpc_request_may_sleep(const struct rpc_request *req)
{
	return req->may_sleep;
}

const void *rpc_request_body(const struct rpc_request *req, uint32_t *len)
{
	*len = req->body_len;
	return req->body;
}

const void *rpc_request_bulk(const struct rpc_request *req, uint32_t *len)
{
	*len = req->bulk_len;
	return req->body + req->body_len;
}

int rpc_request_copy(const struct rpc_request *req, void *buf, size_t size, uint32_t *len)
{
	if (req->body_len > size)
		return -EMSGSIZE;
	memcpy(buf, req->body, req->body_len);
	barrier(); /* and nothing is read from the ring again in place of the copy */
	*len = req->body_len;
	return 0;
}

static struct rpc_request *request_get_locked(struct rpc_session *s)
{
	struct rpc_request *req;

	assert_spin_held(&s->lock);
	req = s->free_requests;
	if (likely(req))
		s->free_requests = req->next;
	return req;
}

static void request_free_locked(struct rpc_request *req)
{
	struct rpc_session *s = req->session;

	assert_spin_held(&s->lock);
	if (req->runner) {
		req->runner->req = NULL;
		req->runner = NULL;
	}
	s->s_waits -= req->waits;
	req->waits = req->late = false;
	rpc_ring_put(req->ring);
	req->ring = NULL;
	req->next = s->free_requests;
	s->free_requests = req;
}

void rpc_request_orphan_locked(struct rpc_session *s, struct rpc_request *req)
{
	assert_spin_held(&s->lock);
	req->orphan = true;
	if (req->runner)
		thread_notify(req->runner->thread, THREAD_F_KILL);
}

/* --- replies -------------------------------------------------------------------------- */

/*
 * Copy the reply into the slot's buffer: a repetition sends it from there. @flags: RPC_HDR_F_*.
 */
static void reply_write(struct rpc_session *s, const struct rpc_request *req, int status,
			uint32_t flags, const void *body, uint32_t body_len)
{
	uint8_t *buf = s->rep_buf + (uint64_t)req->slot * s->rep_stride;
	const struct rpc_hdr hdr = {
		.cls = s->cls,
		.opcode = req->opcode,
		.body_len = body_len,
		.src_node = node_self()->id,
		.req_id = req->req_id,
		.incarn = node_self()->incarn,
		.dst_incarn = req->peer_incarn,
		.epoch = READ_ONCE(rpc_net.epoch),
		.status = status,
		.flags = flags,
	};

	rpc_hdr_encode(&hdr, (void *)buf);
	if (body_len) {
		memcpy(buf + RPC_HDR_LEN, body, body_len);
		counter_add(&rpc_c_bytes_copied, body_len);
	}
	s->sslots[req->slot].reply_len = RPC_HDR_LEN + body_len;
}

/* Remember data WRITEs that cannot go out now, or must be repeatable. */
static bool keep_writes(struct rpc_sslot *ss, const struct rpc_write *writes, size_t nr)
{
	if (!ss->writes)
		ss->writes = kcalloc(RPC_WRITES_MAX, sizeof(*ss->writes));
	if (!ss->writes)
		return false;
	memcpy(ss->writes, writes, nr * sizeof(*writes));
	ss->nr_writes = (uint32_t)nr;
	return true;
}

/*
 * The reply is in the buffer; send it, or leave it for later.  True when the sources are in
 * use and sent() runs later.
 */
static bool reply_send_locked(struct rpc_session *s, struct rpc_request *req, bool idempotent,
			      const struct rpc_write *writes, size_t nr_writes)
	__must_hold(&s->lock)
{
	struct rpc_sslot *ss = &s->sslots[req->slot];
	struct rpc_conn *conn = s->conn;
	const bool current = conn && conn->gen == req->gen && conn->state != RPC_CONN_BROKEN;
	bool late;

	assert_spin_held(&s->lock);
	ss->bulk = nr_writes != 0;
	ss->keep = !ss->bulk || !idempotent;
	ss->gen = req->gen;
	ss->nr_writes = 0;
	if (!current && !ss->keep) {
		rpc_sslot_set_state_locked(s, ss, RPC_SSLOT_NONE); /* a repetition runs it again */
		return false;
	}
	if (nr_writes && (!idempotent || !current || conn->state != RPC_CONN_UP) &&
	    !keep_writes(ss, writes, nr_writes))
		goto no_memory;
	s->s_unsent |= BIT64(req->slot);
	if (!current || conn->state != RPC_CONN_UP)
		return nr_writes != 0;
	/* The message that a late reply is to wait for may have gone out meanwhile. */
	late = req->late && conn->sq_posted == req->sq_mark;
	if (rpc_post_reply_locked(conn, req->slot, writes, (uint32_t)nr_writes, late) == 0)
		return nr_writes != 0;
	if (nr_writes && !ss->nr_writes && !keep_writes(ss, writes, nr_writes)) {
		s->s_unsent &= ~BIT64(req->slot);
		goto no_memory;
	}
	return nr_writes != 0;

no_memory:
	/* Without its data the reply must not look like a good one. */
	reply_write(s, req, -ENOMEM, 0, NULL, 0);
	ss->bulk = false;
	ss->keep = true;
	s->s_unsent |= BIT64(req->slot);
	rpc_flush_locked(s);
	return false;
}

static void session_reply(struct rpc_session *s, struct rpc_request *req, int status,
			  const void *body, uint32_t body_len, const struct rpc_write *writes,
			  size_t nr_writes, void (*sent)(void *arg), void *arg)
{
	struct rpc_sslot *ss = &s->sslots[req->slot];
	bool in_use = false;
	uint64_t now;

	if (WARN_ON(body_len > rpc_class_cfg[s->cls].body_max || nr_writes > RPC_WRITES_MAX ||
		    status > 0)) {
		status = -EMSGSIZE;
		body_len = 0;
		nr_writes = 0;
	}
	spin_lock(&s->lock);
	if (unlikely(req->orphan)) {
		counter_inc(&rpc_c_orphans);
	} else {
		const bool idempotent =
			!req->handler || (req->handler->flags & RPC_HANDLER_IDEMPOTENT);

		ASSERT(ss->req == req); /* it has not been made an orphan */
		reply_write(s, req, status, 0, body, body_len);
		rpc_sslot_set_state_locked(s, ss, RPC_SSLOT_DONE);
		ss->req = NULL;
		in_use = reply_send_locked(s, req, idempotent, writes, nr_writes) && sent;
		now = time_now_ns(); /* the reply is out, or waits for the poll's doorbell */
		if (in_use) {
			ss->sent = sent;
			ss->sent_arg = arg;
			ss->sent_ns = now;
			s->s_sent_pending |= BIT64(req->slot);
			rpc_outstanding_inc();
		}
		hist_record(&rpc_h_handler, now - req->received_ns);
	}
	request_free_locked(req);
	spin_unlock(&s->lock);
	if (sent && !in_use)
		sent(arg);
}

void rpc_reply_bulk(struct rpc_request *req, int status, const void *body, uint32_t body_len,
		    const struct rpc_write *writes, size_t nr_writes, void (*sent)(void *arg),
		    void *arg)
{
	if (likely(req->session)) {
		session_reply(req->session, req, status, body, body_len, writes, nr_writes, sent,
			      arg);
		return;
	}
	if (nr_writes)
		rpc_dgram_reply(req, -EOPNOTSUPP, NULL, 0); /* nothing can be written without one */
	else
		rpc_dgram_reply(req, status, body, body_len);
	if (sent)
		sent(arg);
}

void rpc_reply(struct rpc_request *req, int status, const void *body, uint32_t body_len)
{
	rpc_reply_bulk(req, status, body, body_len, NULL, 0, NULL, NULL);
}

void rpc_reply_late(struct rpc_request *req, int status, const void *body, uint32_t body_len)
{
	req->late = rpc_tune.late_us != 0;
	rpc_reply(req, status, body, body_len);
}

/* --- requests ------------------------------------------------------------------------- */

/*
 * A request has waited for a thread: is it still to be executed?  0, or the answer: its sender has
 * been fenced or replaced since, or waits no longer.
 */
static int request_verdict(const struct rpc_request *req)
{
	if (READ_ONCE(req->peer->state) == RPC_PEER_REMOVED ||
	    READ_ONCE(req->peer->info.incarn) != req->peer_incarn)
		return -ESTALE;
	if (req->expires_ns && time_now_ns() >= req->expires_ns)
		return -ETIMEDOUT;
	return 0;
}

void rpc_request_run(struct rpc_request *req)
{
	const int err = request_verdict(req);

	if (unlikely(err)) {
		counter_inc(&rpc_c_expired);
		rpc_reply(req, err, NULL, 0);
		return;
	}
	if (req->handler->fn(req, req->handler_arg) == RPC_AGAIN) {
		/* Only inline runs may say so; answering keeps the slot alive. */
		WARN_ON(true);
		rpc_reply(req, -EDEADLK, NULL, 0);
	}
}

void rpc_request_run_waits(struct rpc_request *req)
{
	struct rpc_session *s = req->session;
	struct rpc_runner runner = { .thread = thread_current(), .req = req };

	spin_lock(&s->lock);
	if (likely(!req->orphan))
		req->runner = &runner;
	spin_unlock(&s->lock);
	if (unlikely(!req->runner))
		thread_notify(runner.thread, THREAD_F_KILL);
	rpc_request_run(req);
	spin_lock(&s->lock);
	if (runner.req) /* to be answered later */
		runner.req->runner = NULL;
	spin_unlock(&s->lock);
	thread_clear_flags(runner.thread, THREAD_F_KILL);
}

#define FROM_ALL (RPC_HANDLER_FROM_PROCESSOR | RPC_HANDLER_FROM_MEMORY | RPC_HANDLER_FROM_STORAGE)

static bool may_call(const struct rpc_request *req, const struct rpc_handler *h)
{
	const uint32_t from = h->flags & FROM_ALL;
	const enum node_role role = READ_ONCE(req->peer->info.role);

	if (!from || (from & (RPC_HANDLER_FROM_PROCESSOR << (role - NODE_ROLE_PROCESSOR))))
		return true;
	counter_inc(&rpc_c_wrong_role);
	pr_warn_ratelimited("node %u (%s) may not call %s: refused\n", req->peer->info.id,
			    node_role_name(role), h->name);
	return false;
}

/*
 * Too many requests of this session are being served already, most of them for nobody, or the
 * client's view is old (@why counts it). This one is answered, not run; its client repeats it.
 */
static void request_refuse_locked(struct rpc_session *s, const struct rpc_request *req,
				  const struct counter *why) __must_hold(&s->lock)
{
	struct rpc_sslot *ss = &s->sslots[req->slot];

	assert_spin_held(&s->lock);
	ASSERT(!ss->req);
	reply_write(s, req, -EBUSY, RPC_HDR_F_REFUSED, NULL, 0);
	rpc_sslot_set_state_locked(s, ss, RPC_SSLOT_DONE);
	ss->bulk = false;
	ss->keep = true;
	ss->gen = req->gen;
	s->s_unsent |= BIT64(req->slot);
	rpc_flush_locked(s);
	counter_inc(why);
}

/*
 * @req is going to a handler that waits for other nodes: it may keep no more than its share of the
 * session's requests. False: it has been refused.
 */
static bool waits_begin(struct rpc_request *req)
{
	struct rpc_session *s = req->session;
	bool ok;

	if (!s)
		return true;
	spin_lock(&s->lock);
	ok = s->s_waits < rpc_waits_share(rpc_class_cfg[s->cls].nr_slots * RPC_REQUESTS_PER_SLOT);
	if (likely(ok)) {
		req->waits = true;
		s->s_waits++;
	} else {
		if (!req->orphan) {
			s->sslots[req->slot].req = NULL;
			request_refuse_locked(s, req, &rpc_c_refused);
		}
		request_free_locked(req);
	}
	spin_unlock(&s->lock);
	return ok;
}

bool rpc_request_keep(struct rpc_request *req)
{
	struct rpc_session *s = req->session;
	bool ok;

	if (!s || req->waits)
		return false;
	spin_lock(&s->lock);
	ok = s->s_waits < rpc_class_cfg[s->cls].nr_slots / 2;
	if (ok) {
		req->waits = true;
		s->s_waits++;
	}
	spin_unlock(&s->lock);
	return ok;
}

/*
 * A handler that copies many pages would keep the CPU from a demand reply for as long as it takes:
 * a worker runs it, which gives way.
 */
static bool is_long(const struct rpc_request *req)
{
	return req->bulk_len > INLINE_BULK_MAX && !rpc_net.one_queue;
}

void rpc_request_dispatch(struct rpc_request *req)
{
	const struct handler_entry *e = handler_find(req->opcode);

	if (!e) {
		req->handler = NULL;
		rpc_reply(req, -ENOSYS, NULL, 0);
		return;
	}
	if (unlikely(!req->session) && !(e->handler->flags & RPC_HANDLER_DATAGRAM)) {
		rpc_reply(req, -EOPNOTSUPP, NULL, 0);
		return;
	}
	if (unlikely(!may_call(req, e->handler))) {
		rpc_reply(req, -EPERM, NULL, 0);
		return;
	}
	req->handler = e->handler;
	req->handler_arg = e->arg;
	if ((e->handler->flags & RPC_HANDLER_INLINE) && !is_long(req)) {
		req->may_sleep = false;
		if (e->handler->fn(req, e->arg) == RPC_DONE) {
			counter_inc(&rpc_c_inline);
			return;
		}
	}
	req->may_sleep = true;
	if ((e->handler->flags & RPC_HANDLER_WAITS) && !waits_begin(req))
		return;
	counter_inc(&rpc_c_dispatched);
	rpc_worker_queue(req, e->handler->flags & RPC_HANDLER_WAITS);
}

/* A request whose id the slot has seen. True: run it again as if it were new. */
static bool repeated_locked(struct rpc_conn *conn, uint32_t slot)
{
	struct rpc_session *s = conn->session;
	struct rpc_sslot *ss = &s->sslots[slot];

	assert_spin_held(&s->lock);
	if (ss->state == RPC_SSLOT_NONE)
		return true;
	if (ss->state == RPC_SSLOT_BUSY) {
		counter_inc(&rpc_c_dup_busy);
		ss->req->gen = conn->gen;
		return false;
	}
	if (ss->gen == conn->gen) {
		/* Nothing is repeated on one connection; the reply is out or waits to go. */
		counter_inc(&rpc_c_malformed);
		return false;
	}
	if (!ss->keep) {
		counter_inc(&rpc_c_dup_rerun);
		return true;
	}
	counter_inc(&rpc_c_dup_answered);
	if (ss->bulk && !ss->nr_writes) {
		struct rpc_hdr_wire *hdr = (void *)(s->rep_buf + (uint64_t)slot * s->rep_stride);

		/* Its data were delivered, so the client said; they cannot be had again. */
		hdr->status = cpu_to_le32((uint32_t)-EIO);
	}
	ss->gen = conn->gen;
	s->s_unsent |= BIT64(slot);
	rpc_flush_locked(s);
	return false;
}

/* Must the sender learn of a newer view first, on which the answer may depend? */
static bool is_behind(const struct rpc_hdr *hdr)
{
	const struct handler_entry *e;

	if (likely(hdr->epoch >= READ_ONCE(rpc_net.epoch)) || (hdr->flags & RPC_HDR_F_INSIST))
		return false;
	e = handler_find(hdr->opcode);
	return e && !(e->handler->flags & RPC_HANDLER_ANY_EPOCH);
}

/* Take the slot for a new request; NULL when it is refused. */
static struct rpc_request *request_begin_locked(struct rpc_conn *conn, const struct rpc_imm *imm,
						const struct rpc_hdr *hdr, const uint8_t *msg,
						bool behind)
{
	struct rpc_session *s = conn->session;
	struct rpc_sslot *ss = &s->sslots[imm->slot];
	struct rpc_request *req;

	assert_spin_held(&s->lock);
	if (ss->req)
		rpc_request_orphan_locked(s, ss->req); /* its client has given up */
	ss->req = NULL;
	ss->req_id = hdr->req_id;
	ss->nr_writes = 0;
	s->s_unsent &= ~BIT64(imm->slot);
	rpc_sslot_set_state_locked(s, ss, RPC_SSLOT_BUSY);
	req = unlikely(behind) ? NULL : request_get_locked(s);
	if (unlikely(!req)) {
		const struct rpc_request refused = { .slot = imm->slot,
						     .opcode = hdr->opcode,
						     .req_id = hdr->req_id,
						     .gen = conn->gen,
						     .peer_incarn = conn->peer_incarn };

		request_refuse_locked(s, &refused, behind ? &rpc_c_behind : &rpc_c_refused);
		return NULL;
	}
	refcount_inc(&conn->ring->refs);
	req->session = s;
	req->peer = s->peer;
	req->ring = conn->ring;
	req->handler = NULL;
	req->body = msg + RPC_HDR_LEN;
	req->req_id = hdr->req_id;
	req->received_ns = READ_ONCE(s->peer->last_rx_ns);
	req->expires_ns = rpc_expires_ns(req->received_ns, hdr->timeout_ms);
	req->body_len = hdr->body_len;
	req->bulk_len = hdr->bulk_len;
	req->slot = imm->slot;
	req->gen = conn->gen;
	req->peer_incarn = conn->peer_incarn;
	req->opcode = hdr->opcode;
	req->orphan = false;
	req->waits = false;
	req->runner = NULL;
	ss->req = req;
	return req;
}

/*
 * A client owns a slot until its reply, or until the connection that carried the request is down:
 * on one connection a slot that is being served takes no other request.
 */
static bool slot_is_taken_locked(const struct rpc_conn *conn, const struct rpc_sslot *ss)
{
	assert_spin_held(&conn->session->lock);
	return ss->req && ss->req->gen == conn->gen;
}

static bool request_is_ours(const struct rpc_conn *conn, const struct rpc_hdr *hdr)
{
	return hdr->cls == conn->session->cls && hdr->src_node == conn->session->peer->info.id &&
	       hdr->incarn == conn->peer_incarn &&
	       hdr->body_len <= rpc_class_cfg[hdr->cls].body_max;
}

/* Polling context. */
void rpc_request_received(struct rpc_conn *conn, const struct rpc_imm *imm)
{
	struct rpc_session *s = conn->session;
	const uint8_t *msg = rpc_ring_slot(conn->ring, false, imm->slot);
	struct rpc_sslot *ss = &s->sslots[imm->slot];
	struct rpc_request *req = NULL;
	struct rpc_hdr_wire w;
	struct rpc_hdr hdr;
	void (*sent)(void *arg) = NULL;
	void *sent_arg = NULL;
	bool is_stale;

	memcpy(&w, msg, sizeof(w));
	if (rpc_hdr_decode(&w, imm->len, false, &hdr) || !request_is_ours(conn, &hdr)) {
		counter_inc(&rpc_c_malformed);
		return;
	}
	counter_inc(&rpc_c_req_received);
	is_stale = hdr.dst_incarn != node_self()->incarn ||
		   READ_ONCE(s->peer->state) == RPC_PEER_REMOVED ||
		   READ_ONCE(s->peer->info.incarn) != conn->peer_incarn;
	s->queue->requests_served++;

	spin_lock(&s->lock);
	if (s->conn != conn) {
		spin_unlock(&s->lock);
		return;
	}
	if (hdr.req_id < ss->req_id) {
		counter_inc(&rpc_c_dup_old);
	} else if (hdr.req_id > ss->req_id && slot_is_taken_locked(conn, ss)) {
		counter_inc(&rpc_c_malformed);
	} else if (hdr.req_id > ss->req_id || repeated_locked(conn, imm->slot)) {
		if (ss->sent) { /* a new request in the slot: the old reply has arrived */
			sent = ss->sent;
			sent_arg = ss->sent_arg;
			ss->sent = NULL;
			s->s_sent_pending &= ~BIT64(imm->slot);
			rpc_outstanding_dec();
		}
		req = request_begin_locked(conn, imm, &hdr, msg, !is_stale && is_behind(&hdr));
		if (req)
			req->sq_mark = conn->sq_posted;
	}
	spin_unlock(&s->lock);

	if (sent)
		sent(sent_arg);
	if (!req)
		return;
	if (unlikely(is_stale)) {
		counter_inc(&rpc_c_stale);
		rpc_reply(req, -ESTALE, NULL, 0);
		return;
	}
	rpc_request_dispatch(req);
}

/* --- the layer's own requests --------------------------------------------------------- */

static enum rpc_handler_result ping(struct rpc_request *req, void *arg)
{
	rpc_reply(req, 0, NULL, 0);
	return RPC_DONE;
}

/* Context: inline. Sender alive: yes. Races with: nothing. Safe to run twice: yes. */
const struct rpc_handler rpc_own_handlers[] = {
	{ RPC_OP_PING,
	  RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_DATAGRAM |
		  RPC_HANDLER_ANY_EPOCH,
	  "ping", ping },
};
const size_t rpc_nr_own_handlers = ARRAY_SIZE(rpc_own_handlers);
