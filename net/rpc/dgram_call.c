/* SPDX-License-Identifier: MIT */
/*
 * RPC by datagrams: the calling side.
 *
 * Flow:	send, wait, and retransmit: after four round trips (or 20 ms), then after twice
 *		as long each time, up to half a second, until the reply or the deadline.  Every
 *		repetition has the same random request id, so any reply to one of them will do.
 * Invariants:	a reply is found by its request id.  It must come from the node, incarnation and
 *		queue pair that was asked, be for our incarnation and echo the opcode.  The
 *		first such reply ends the call; later ones find no call and touch nothing.
 * Context:	threads that may sleep.
 */
#include "dgram.h"

#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/string.h>

static struct list_head *bucket(uint64_t req_id)
{
	return &rpc_dgram.calls[req_id % RPC_DGRAM_HASH];
}

static struct rpc_dgram_call *find_locked(uint64_t req_id)
{
	struct rpc_dgram_call *call;

	assert_spin_held(&rpc_dgram.lock);
	list_for_each_entry(call, bucket(req_id), link) {
		if (call->req_id == req_id)
			return call;
	}
	return NULL;
}

/* May the peer be asked?  No connection is needed, so one that seems dead may. */
static int target_check(const struct rpc_dgram_call *call)
{
	const struct rpc_peer *peer = call->peer;

	if (READ_ONCE(peer->fenced_us))
		return -ESTALE;
	if (READ_ONCE(peer->state) == RPC_PEER_REMOVED)
		return -EHOSTDOWN;
	if (READ_ONCE(peer->info.incarn) != call->to.incarn)
		return -EHOSTUNREACH; /* it has restarted, and we have not been connected since */
	return READ_ONCE(rpc_dgram.is_broken) ? -ENETDOWN : 0;
}

int rpc_dgram_call_begin(struct rpc_dgram_call *call, uint64_t timeout_ns)
{
	const uint64_t usual = READ_ONCE(call->peer->dgram_usual_ns);
	int err;

	if (!rpc_dgram_end_of(call->peer, &call->to))
		return -EHOSTUNREACH;
	if (call->body_len > call->to.body_max)
		return -EMSGSIZE;
	err = target_check(call);
	if (err)
		return err;
	call->deadline_ns = time_after_ns(timeout_ns);
	call->interval_ns = usual ? MIN(MAX(4 * usual, RPC_DGRAM_SOON_NS), RPC_DGRAM_SELDOM_NS)
				  : RPC_DGRAM_FIRST_NS;
	call->attempt = 0;
	call->sent_ns = 0;
	call->is_done = false;
	waitqueue_init(&call->wq);
	spin_lock(&rpc_dgram.lock);
	do {
		call->req_id = random_u64();
	} while (call->req_id == 0 || find_locked(call->req_id));
	list_add(&call->link, bucket(call->req_id));
	spin_unlock(&rpc_dgram.lock);
	return 0;
}

int rpc_dgram_call_send(struct rpc_dgram_call *call, uint64_t now)
{
	struct rpc_dgram_hdr hdr = {
		.kind = RPC_DGRAM_REQUEST,
		.opcode = call->opcode,
		.body_len = (uint16_t)call->body_len,
		.src_node = node_self()->id,
		.req_id = call->req_id,
		.incarn = node_self()->incarn,
		.dst_incarn = call->to.incarn,
		.epoch = READ_ONCE(rpc_net.epoch),
	};
	const int err = target_check(call);

	if (err)
		return err;
	if (now < call->deadline_ns)
		hdr.timeout_ms = (uint32_t)MIN((call->deadline_ns - now) / NSEC_PER_MSEC + 1,
					       (uint64_t)UINT32_MAX);
	spin_lock(&rpc_dgram.lock);
	if (call->sent_ns)
		call->attempt++;
	hdr.attempt = call->attempt;
	call->sent_ns = now;
	spin_unlock(&rpc_dgram.lock);
	/* Without a send buffer it is as good as lost on the way: the next attempt comes. */
	if (rpc_dgram_post(&call->to, &hdr, call->body) == 0)
		counter_inc(hdr.attempt ? &rpc_c_dgram_resent : &rpc_c_dgram_sent);
	return 0;
}

int rpc_dgram_call_end(struct rpc_dgram_call *call, int err)
{
	spin_lock(&rpc_dgram.lock);
	list_del(&call->link);
	spin_unlock(&rpc_dgram.lock);
	if (!call->is_done)
		return err;
	return call->status ? call->status : (int)call->reply_len;
}

static bool is_done(const struct rpc_dgram_call *call)
{
	return __atomic_load_n(&call->is_done, __ATOMIC_ACQUIRE);
}

static uint64_t next_interval(uint64_t ns)
{
	ns = MIN(2 * ns, RPC_DGRAM_SELDOM_NS);
	/* Not all at once, those who lost theirs to the same burst. */
	return ns - random_u64() % (ns / 4);
}

static int call_run(struct rpc_dgram_call *call)
{
	for (;;) {
		const uint64_t now = time_now_ns();
		int err;

		if (now >= call->deadline_ns) {
			counter_inc(&rpc_c_dgram_timeouts);
			return -ETIMEDOUT;
		}
		err = rpc_dgram_call_send(call, now);
		if (err)
			return err;
		if (wait_event_timeout(&call->wq, is_done(call),
				       MIN(now + call->interval_ns, call->deadline_ns)))
			return 0;
		call->interval_ns = next_interval(call->interval_ns);
	}
}

int rpc_datagram_sync(uint32_t node, uint16_t opcode, const void *body, uint32_t body_len,
		      void *reply, uint32_t reply_max, uint64_t timeout_ns)
{
	struct rpc_dgram_call call = { .peer = rpc_peer_find(node),
				       .opcode = opcode,
				       .body = body,
				       .body_len = body_len,
				       .reply = reply,
				       .reply_max = reply_max };
	int err;

	if (!call.peer)
		return -EHOSTDOWN;
	if (!timeout_ns)
		timeout_ns = RPC_DGRAM_LONGEST_NS;
	err = rpc_dgram_call_begin(&call, timeout_ns);
	if (err)
		return err;
	return rpc_dgram_call_end(&call, call_run(&call));
}

uint32_t rpc_datagram_max(uint32_t node)
{
	struct rpc_peer *peer = rpc_peer_find(node);
	struct rpc_dgram_end end;

	return peer && rpc_dgram_end_of(peer, &end) ? end.body_max : 0;
}

int rpc_ping(uint32_t node, uint64_t timeout_ns)
{
	int err = rpc_datagram_sync(node, RPC_OP_PING, NULL, 0, NULL, 0, timeout_ns);

	if (err == -EHOSTUNREACH)
		err = rpc_call_sync(node, RPC_CLASS_CONTROL, RPC_OP_PING, NULL, 0, NULL, 0,
				    timeout_ns);
	return MIN(err, 0);
}

/* --- replies -------------------------------------------------------------------------- */

static void reply_take_locked(struct rpc_dgram_call *call, const struct rpc_dgram_hdr *hdr,
			      const void *body)
{
	const uint64_t rtt = time_now_ns() - call->sent_ns;

	assert_spin_held(&rpc_dgram.lock);
	call->status = hdr->status;
	call->reply_len = 0;
	if (call->reply && hdr->body_len > call->reply_max) {
		if (!call->status)
			call->status = -EMSGSIZE;
	} else if (call->reply) {
		memcpy(call->reply, body, hdr->body_len);
		call->reply_len = hdr->body_len;
	}
	/* Only the answer to the latest attempt tells how long one takes. */
	if (hdr->attempt == call->attempt) {
		hist_record(&rpc_h_dgram_latency, rtt);
		WRITE_ONCE(call->peer->dgram_usual_ns,
			   rpc_low_average(READ_ONCE(call->peer->dgram_usual_ns), rtt));
	}
	__atomic_store_n(&call->is_done, true, __ATOMIC_RELEASE);
	/* Inside the lock: the caller takes it before its call is gone. */
	wake_all(&call->wq);
}

void rpc_dgram_reply_received(struct rpc_peer *peer, const struct rpc_dgram_hdr *hdr,
			      const void *body)
{
	const struct counter *c = &rpc_c_dgram_replies;
	struct rpc_dgram_call *call;

	spin_lock(&rpc_dgram.lock);
	call = find_locked(hdr->req_id);
	if (!call || call->is_done)
		c = &rpc_c_dgram_late;
	else if (call->peer != peer || hdr->opcode != call->opcode)
		c = &rpc_c_dgram_forged;
	else if (hdr->incarn != call->to.incarn || hdr->dst_incarn != node_self()->incarn)
		c = &rpc_c_dgram_stale;
	counter_inc(c);
	if (c == &rpc_c_dgram_replies)
		reply_take_locked(call, hdr, body);
	spin_unlock(&rpc_dgram.lock);
}
