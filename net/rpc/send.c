/* SPDX-License-Identifier: MIT */
/*
 * RPC send side: build work requests, post them, learn when they are done.
 *
 * Flow:	a request is one WRITE with immediate: header and body from the slot's
 *		registered buffer (or inline in the work request), bulk from where it lies.  A
 *		reply is a chain of data WRITEs and one WRITE with immediate.  Each message or
 *		chain has one doorbell, calls that are submitted together have one, and while a
 *		poll processes several completions, each connection has one for all that
 *		goes out on it. A late reply has that of the next message (poll.c).
 * Ordering:	every quarter of the send queue asks for one completion, which stands for all
 *		work requests before it.  The sender looks at the completions of the send queue
 *		when room runs short; the tick looks while somebody waits to hear that a reply
 *		was delivered.  A reply's sources are free (sent() runs) when the next request
 *		arrives in its slot, as the client uses a slot again only after its reply; or
 *		when a later completion covers the reply; or when the connection is down.
 * Locking:	everything here runs under the session lock, which also guards the scratch
 *		arrays.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/string.h>

#define INSIST_NS NSEC_PER_SEC /* for which a request waits for a newer view */

void rpc_ring_locked(struct rpc_conn *conn)
{
	assert_spin_held(&conn->session->lock);
	if (!conn->doorbell_pending)
		return;
	conn->doorbell_pending = false;
	rpc_late_over_locked(conn->session);
	rdma_ring_send(conn->qp);
	counter_inc(&rpc_c_doorbells);
}

/* Room for @nr more work requests? Looks at the send completions when it is short. */
static bool sq_has_room(struct rpc_conn *conn, uint32_t nr)
{
	if (conn->sq_posted - conn->sq_completed + nr <= conn->sq_size)
		return true;
	rpc_ring_locked(conn);
	rpc_reap_locked(conn, NULL);
	if (conn->sq_posted - conn->sq_completed + nr <= conn->sq_size)
		return true;
	counter_inc(&rpc_c_sq_full);
	return false;
}

/*
 * Post wr[0..nr-1] of the scratch array as one chain. @late: its doorbell may be that of the next
 * message on the connection, within rpc.late_us.
 */
static int post_chain(struct rpc_conn *conn, uint32_t nr, bool late)
{
	const struct rdma_send_wr *bad;
	struct rdma_send_wr *last = &conn->wr[nr - 1];
	struct rpc_session *s = conn->session;
	int err;

	assert_spin_held(&s->lock);
	ASSERT(conn->sq_posted - conn->sq_completed + nr <= conn->sq_size);
	for (uint32_t i = 0; i + 1 < nr; i++)
		conn->wr[i].next = &conn->wr[i + 1];
	last->next = NULL;
	conn->sq_posted += nr;
	last->wr_id = conn->sq_posted;
	if (conn->sq_posted - conn->sq_signalled >= conn->sq_size / 4) {
		last->flags |= RDMA_SEND_SIGNALED;
		conn->sq_signalled = conn->sq_posted;
	}
	/*
	 * A completion is asked for when room may soon run short: that part of the queue goes
	 * out at once.  A chain of calls goes out at its end anyway.
	 */
	late = late && !(last->flags & RDMA_SEND_SIGNALED);
	if (s->is_chaining || late ||
	    (!(last->flags & RDMA_SEND_SIGNALED) && rpc_poll_rings_later(s))) {
		last->flags |= RDMA_SEND_DEFER;
		conn->doorbell_pending = true;
		if (late)
			rpc_late_begin_locked(s);
	} else {
		conn->doorbell_pending = false;
		rpc_late_over_locked(s);
		counter_inc(&rpc_c_doorbells);
	}
	err = rdma_post_send(conn->qp, conn->wr, &bad);
	if (unlikely(err)) {
		/* Part of the chain may be out: the queue pair is of no more use. */
		rpc_conn_break_locked(s, conn);
		return err;
	}
	counter_add(&rpc_c_work_requests, nr);
	return 0;
}

static void set_write(struct rdma_send_wr *wr, const struct rdma_sge *sge, uint32_t nr_sge,
		      uint64_t remote_addr, uint32_t rkey)
{
	wr->wr_id = 0;
	wr->sge = sge;
	wr->nr_sge = nr_sge;
	wr->opcode = RDMA_WR_WRITE;
	wr->flags = 0;
	wr->remote_addr = remote_addr;
	wr->rkey = rkey;
}

/* The last work request of a message: header and body in @sge[0], the rest behind it. */
static void set_message(struct rpc_conn *conn, struct rdma_send_wr *wr, struct rdma_sge *sge,
			uint32_t nr_sge, void *virt, const struct rpc_imm *imm,
			uint64_t remote_addr)
{
	set_write(wr, sge, nr_sge, remote_addr, conn->remote_rkey);
	wr->opcode = RDMA_WR_WRITE_WITH_IMM;
	wr->imm = rpc_imm_encode(imm);
	if (nr_sge == 1 && sge[0].len <= conn->sq_inline) {
		sge[0].addr = (uint64_t)(uintptr_t)virt;
		wr->flags = RDMA_SEND_INLINE;
	}
}

/* Where in the peer's ring a slot lies: both rings have the same geometry. */
static uint64_t remote_slot(const struct rpc_conn *conn, bool reply, uint32_t slot)
{
	const struct rpc_ring *r = conn->ring;

	if (!reply)
		return conn->remote_addr + (uint64_t)slot * r->req_size;
	return conn->remote_addr + (uint64_t)r->nr_slots * r->req_size +
	       (uint64_t)slot * r->rep_size;
}

/* For the header: 0 = there is no deadline. */
static uint32_t time_left_ms(uint64_t deadline_ns, uint64_t now)
{
	if (deadline_ns == WAIT_FOREVER)
		return 0;
	if (now >= deadline_ns)
		return 1;
	return (uint32_t)MIN((deadline_ns - now) / NSEC_PER_MSEC + 1, (uint64_t)UINT32_MAX);
}

/*
 * Post the message of a BUSY client slot.  Its bulk goes in the same work request as far as scatter
 * entries last; the rest goes ahead in WRITEs of its own.
 */
int rpc_post_request_locked(struct rpc_conn *conn, uint32_t slot, uint64_t now)
{
	struct rpc_session *s = conn->session;
	struct rpc_cslot *cs = &s->cslots[slot];
	struct rpc_hdr_wire *hdr = (void *)(s->req_buf + (uint64_t)slot * s->req_stride);
	const uint32_t per_wr = conn->sq_sge;
	const uint32_t fit = MIN((uint32_t)cs->nr_sge, per_wr - 1);
	const uint32_t nr_extra = DIV_ROUND_UP(cs->nr_sge - fit, per_wr);
	const struct rpc_imm imm = { .slot = slot, .len = cs->msg_len + cs->bulk_len };
	uint64_t off = remote_slot(conn, false, slot);
	struct rdma_sge *sge = conn->req_sge;
	uint32_t done = fit;
	bool insist;
	int err;

	assert_spin_held(&s->lock);
	if (rpc_class_is_read(s->cls))
		return rpc_post_read_locked(conn, slot);
	if (!sq_has_room(conn, nr_extra + 1))
		return -EAGAIN;
	hdr->dst_incarn = cpu_to_le32(conn->peer_incarn);
	hdr->epoch = cpu_to_le32(READ_ONCE(rpc_net.epoch));
	hdr->timeout_ms = cpu_to_le32(time_left_ms(cs->deadline_ns, now));
	/* The managers' node, from which the view comes, may be away: what is asked goes on. */
	insist = cs->behind_ns && now - cs->behind_ns >= INSIST_NS;
	hdr->flags = cpu_to_le32(insist ? RPC_HDR_F_INSIST : 0);
	cs->insisted = insist;

	sge[0].addr = s->req_buf_phys + (uint64_t)slot * s->req_stride;
	sge[0].len = cs->msg_len;
	sge[0].lkey = rdma_mr_lkey(s->buf_mr);
	for (uint32_t i = 0; i < fit; i++)
		sge[1 + i] = cs->sge[i];
	set_message(conn, &conn->wr[nr_extra], sge, 1 + fit, hdr, &imm, off);
	off += cs->msg_len;
	for (uint32_t i = 0; i < fit; i++)
		off += cs->sge[i].len;
	for (uint32_t i = 0; i < nr_extra; i++) {
		const uint32_t n = MIN(cs->nr_sge - done, per_wr);

		set_write(&conn->wr[i], &cs->sge[done], n, off, conn->remote_rkey);
		for (uint32_t k = 0; k < n; k++)
			off += cs->sge[done + k].len;
		done += n;
	}
	err = post_chain(conn, nr_extra + 1, false);
	if (err)
		return err;
	cs->posted = true;
	if (cs->retransmitted)
		counter_inc(&rpc_c_resent);
	s->c_unsent &= ~BIT64(slot);
	counter_inc(&rpc_c_req_sent);
	counter_add(&rpc_c_bytes_sent, cs->msg_len);
	counter_add(&rpc_c_bulk_sent, cs->bulk_len);
	return 0;
}

/* Append a data WRITE to the scratch chain, or join it with the one before. */
static uint32_t add_reply_write(struct rpc_conn *conn, uint32_t nr, const struct rpc_write *w)
{
	const uint32_t lkey = rpc_mem_lkey(w->src.mem, conn->session->peer);

	if (nr) {
		struct rdma_sge *sge = &conn->wr_sge[nr - 1];
		const struct rdma_send_wr *wr = &conn->wr[nr - 1];

		if (rpc_tune.merge && sge->lkey == lkey && sge->addr + sge->len == w->src.addr &&
		    wr->rkey == w->rkey && wr->remote_addr + sge->len == w->remote_addr) {
			sge->len += w->src.len;
			counter_inc(&rpc_c_merged);
			return nr;
		}
	}
	conn->wr_sge[nr].addr = w->src.addr;
	conn->wr_sge[nr].len = w->src.len;
	conn->wr_sge[nr].lkey = lkey;
	set_write(&conn->wr[nr], &conn->wr_sge[nr], 1, w->remote_addr, w->rkey);
	return nr + 1;
}

/* Post the reply of a DONE server slot, data first. */
int rpc_post_reply_locked(struct rpc_conn *conn, uint32_t slot, const struct rpc_write *writes,
			  uint32_t nr_writes, bool late)
{
	struct rpc_session *s = conn->session;
	struct rpc_sslot *ss = &s->sslots[slot];
	struct rpc_hdr_wire *hdr = (void *)(s->rep_buf + (uint64_t)slot * s->rep_stride);
	const struct rpc_imm imm = { .reply = true, .slot = slot, .len = ss->reply_len };
	struct rdma_sge *sge;
	uint64_t bulk = 0;
	uint32_t nr = 0;
	int err;

	assert_spin_held(&s->lock);
	if (!sq_has_room(conn, nr_writes + 1))
		return -EAGAIN;
	for (uint32_t i = 0; i < nr_writes; i++) {
		nr = add_reply_write(conn, nr, &writes[i]);
		bulk += writes[i].src.len;
	}
	hdr->dst_incarn = cpu_to_le32(conn->peer_incarn);
	sge = &conn->wr_sge[nr];
	sge->addr = s->rep_buf_phys + (uint64_t)slot * s->rep_stride;
	sge->len = ss->reply_len;
	sge->lkey = rdma_mr_lkey(s->buf_mr);
	set_message(conn, &conn->wr[nr], sge, 1, hdr, &imm, remote_slot(conn, true, slot));
	err = post_chain(conn, nr + 1, late);
	if (err)
		return err;
	s->s_unsent &= ~BIT64(slot);
	ss->sent_seq = conn->sq_posted;
	counter_inc(&rpc_c_rep_sent);
	counter_add(&rpc_c_bytes_sent, ss->reply_len);
	counter_add(&rpc_c_bulk_sent, bulk);
	return 0;
}

/* An empty WRITE with a completion: when it is done, so is everything before it. */
void rpc_post_flush_write_locked(struct rpc_conn *conn)
{
	assert_spin_held(&conn->session->lock);
	if (!sq_has_room(conn, 1))
		return;
	set_write(&conn->wr[0], NULL, 0, conn->remote_addr, conn->remote_rkey);
	conn->wr[0].flags = RDMA_SEND_SIGNALED;
	if (post_chain(conn, 1, false) == 0) {
		conn->sq_signalled = conn->sq_posted;
		counter_inc(&rpc_c_flush_writes);
	}
}

/* Run sent() of the replies that are known to be delivered. */
static void collect_sent_locked(struct rpc_conn *conn, struct rpc_batch *b)
{
	struct rpc_session *s = conn->session;

	assert_spin_held(&s->lock);
	for (uint64_t m = s->s_sent_pending; m; m &= m - 1) {
		const uint32_t slot = (uint32_t)__builtin_ctzll(m);
		struct rpc_sslot *ss = &s->sslots[slot];

		if (ss->gen != conn->gen || (s->s_unsent & BIT64(slot)) ||
		    ss->sent_seq > conn->sq_completed)
			continue;
		s->s_sent_pending &= ~BIT64(slot);
		rpc_batch_add(b, ss->sent, ss->sent_arg);
		ss->sent = NULL;
		ss->nr_writes = 0;
		rpc_outstanding_dec();
	}
}

static void send_failed(const struct rpc_conn *conn, enum rdma_wc_status status)
{
	if (status != RDMA_WC_REM_ACCESS_ERR)
		return;
	counter_inc(&rpc_c_access_errors);
	pr_warn_ratelimited("node %u refused this node's access to its memory\n",
			    conn->session->peer->info.id);
}

/* Look at the send completions. @b: collect sent() functions, NULL = leave them for later. */
void rpc_reap_locked(struct rpc_conn *conn, struct rpc_batch *b)
{
	struct rdma_wc wc[8];
	int n;

	assert_spin_held(&conn->session->lock);
	if (!conn->send_cq)
		return; /* of reads: the poller of their queue looks at them */
	do {
		n = rdma_poll_cq(conn->send_cq, wc, (int)ARRAY_SIZE(wc));
		for (int i = 0; i < n; i++) {
			if (wc[i].status != RDMA_WC_SUCCESS) {
				send_failed(conn, wc[i].status);
				rpc_conn_break_locked(conn->session, conn);
				continue;
			}
			/* Completions come in order; one out of order is ignored. */
			if (wc[i].wr_id > conn->sq_completed && wc[i].wr_id <= conn->sq_posted)
				conn->sq_completed = wc[i].wr_id;
		}
	} while (n == (int)ARRAY_SIZE(wc));
	if (b && conn->session->s_sent_pending)
		collect_sent_locked(conn, b);
}

/* Post what waits: after a connection came up, or room in the send queue. */
void rpc_flush_locked(struct rpc_session *s)
{
	struct rpc_conn *conn = s->conn;
	uint64_t m;

	assert_spin_held(&s->lock);
	if (!conn || conn->state != RPC_CONN_UP)
		return;
	for (m = s->s_unsent; m && conn->state == RPC_CONN_UP; m &= m - 1) {
		const uint32_t slot = (uint32_t)__builtin_ctzll(m);
		struct rpc_sslot *ss = &s->sslots[slot];

		if (ss->gen != conn->gen)
			continue; /* only on the connection that carried the request last */
		if (rpc_post_reply_locked(conn, slot, ss->writes, ss->nr_writes, false))
			return;
	}
	for (m = s->c_unsent; m && conn->state == RPC_CONN_UP; m &= m - 1) {
		if (rpc_post_request_locked(conn, (uint32_t)__builtin_ctzll(m), time_now_ns()))
			return;
	}
}
