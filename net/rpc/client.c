/* SPDX-License-Identifier: MIT */
/*
 * RPC client: calls.
 *
 * Flow:	rpc_call_submit() takes a free slot of the session, writes header and body into
 *		the slot's registered buffer and posts.  Without a connection the slot stays
 *		unsent until there is one.  The reply, the deadline, a cancellation or the end
 *		of the peer's membership takes the call off its slot, exactly once: by the
 *		thread that moves the call to FINISHING under the session lock.  A submit costs
 *		one session lock, one copy of the body and one doorbell; calls come from a
 *		per-CPU list.
 * See:		rpc.h for the contract, session.c for the states of slots.
 */
#include "rpc_priv.h"

#include <arch/poll.h>
#include <kernel/percpu.h>
#include <kernel/preempt.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/string.h>
#include <mm/slab.h>

#define CALL_CACHE_MAX 32

/* Calls to be used again: owner cpu, preemption off. */
struct call_cache {
	struct rpc_call_impl *first;
	uint32_t nr;
};
static DEFINE_PERCPU_PRIVATE(struct call_cache, call_cache);

static struct rpc_call_impl *impl_of(struct rpc_call *call)
{
	return container_of(call, struct rpc_call_impl, pub);
}

struct rpc_call *rpc_call_alloc(void)
{
	struct rpc_call_impl *impl;
	struct call_cache *cache;

	preempt_disable();
	cache = this_cpu_ptr(&call_cache);
	impl = cache->first;
	if (impl) {
		cache->first = impl->next;
		cache->nr--;
	}
	preempt_enable();
	if (!impl) {
		impl = kmalloc(sizeof(*impl));
		if (!impl)
			return NULL;
		waitqueue_init(&impl->wq);
	}
	memset(&impl->pub, 0, sizeof(impl->pub));
	refcount_set(&impl->refs, 1);
	atomic_set(&impl->state, RPC_CALL_NEW);
	impl->session = NULL;
	return &impl->pub;
}

void rpc_call_put(struct rpc_call *call)
{
	struct rpc_call_impl *impl = impl_of(call);
	struct call_cache *cache;

	if (!refcount_dec_and_test(&impl->refs))
		return;
	preempt_disable();
	cache = this_cpu_ptr(&call_cache);
	if (cache->nr < CALL_CACHE_MAX) {
		impl->next = cache->first;
		cache->first = impl;
		cache->nr++;
		impl = NULL;
	}
	preempt_enable();
	kfree(impl);
}

static void call_release(struct rpc_call_impl *impl)
{
	if (impl->pub.release)
		impl->pub.release(&impl->pub);
	rpc_call_put(&impl->pub);
}

/*
 * A call that is given up ends in one thread while the slot may leave quarantine in another: the
 * last of the two releases it, so that done() comes first and the call stays as long.
 */
void rpc_call_left_quarantine(struct rpc_call_impl *impl)
{
	if (atomic_dec_return(&impl->nr_to_release) == 0)
		call_release(impl);
}

void rpc_call_finish(struct rpc_call_impl *impl, int status, uint32_t reply_len, bool release)
{
	struct rpc_call *call = &impl->pub;
	int old;

	call->status = status;
	call->reply_len = reply_len;
	if (call->done)
		call->done(call);
	/* Publishes the result to a waiter that reads the state with acquire. */
	old = atomic_xchg(&impl->state, RPC_CALL_DONE);
	ASSERT((old & RPC_CALL_STATE_MASK) == RPC_CALL_FINISHING);
	if (old & RPC_CALL_SLEEPER)
		wake_all(&impl->wq);
	if (release)
		call_release(impl);
	else
		rpc_call_left_quarantine(impl);
}

static int call_check(const struct rpc_call *call, uint32_t *bulk_len)
{
	const struct rpc_class_cfg *cfg = &rpc_class_cfg[call->cls];
	uint64_t bulk = 0;

	if (call->body_len > cfg->body_max || call->nr_bulk > cfg->max_sge)
		return -EMSGSIZE;
	/* A read is one work request. */
	if (rpc_class_is_read(call->cls) && call->nr_bulk > rpc_net.attr.max_sge)
		return -EMSGSIZE;
	for (uint32_t i = 0; i < call->nr_bulk; i++)
		bulk += call->bulk[i].len;
	if (bulk > cfg->bulk_max)
		return -EMSGSIZE;
	if (rpc_class_is_read(call->cls) && !bulk)
		return -EINVAL;
	*bulk_len = (uint32_t)bulk;
	return 0;
}

/* Free slot and window? */
static bool has_room_locked(const struct rpc_session *s, uint32_t len, bool waits)
{
	assert_spin_held(&s->lock);
	return s->c_free &&
	       (!waits || s->c_waits < rpc_waits_share(rpc_class_cfg[s->cls].nr_slots)) &&
	       (s->inflight_bytes == 0 ||
		s->inflight_bytes + len <= rpc_class_cfg[s->cls].window_kb * 1024ull);
}

/* The bytes that a call takes of the window of its class. */
static uint32_t window_bytes(const struct rpc_call *call, uint32_t bulk_len)
{
	return RPC_HDR_LEN + call->body_len + bulk_len + call->data_len;
}

/* Copy the pieces of bulk to the slot; neighbours become one. */
static void bulk_fill_locked(struct rpc_session *s, struct rpc_cslot *cs,
			     const struct rpc_call *call) __must_hold(&s->lock)
{
	uint32_t nr = 0;

	assert_spin_held(&s->lock);
	for (uint32_t i = 0; i < call->nr_bulk; i++) {
		const struct rpc_sge *piece = &call->bulk[i];
		const uint32_t lkey = rpc_mem_lkey(piece->mem, s->peer);
		struct rdma_sge *last = nr ? &cs->sge[nr - 1] : NULL;

		if (rpc_tune.merge && last && last->lkey == lkey &&
		    last->addr + last->len == piece->addr) {
			last->len += piece->len; /* at most bulk_max in all */
			counter_inc(&rpc_c_merged);
			continue;
		}
		cs->sge[nr].addr = piece->addr;
		cs->sge[nr].len = piece->len;
		cs->sge[nr].lkey = lkey;
		nr++;
	}
	cs->nr_sge = (uint16_t)nr;
}

/* Write the call into a free slot; the caller posts. */
static uint32_t slot_fill_locked(struct rpc_session *s, struct rpc_call_impl *impl,
				 uint32_t bulk_len, bool waits, uint64_t now) __must_hold(&s->lock)
{
	const struct rpc_call *call = &impl->pub;
	const uint32_t slot = (uint32_t)__builtin_ctzll(s->c_free);
	struct rpc_cslot *cs = &s->cslots[slot];
	uint8_t *buf = s->req_buf + (uint64_t)slot * s->req_stride;
	const struct rpc_hdr hdr = {
		.cls = s->cls,
		.opcode = call->opcode,
		.body_len = call->body_len,
		.bulk_len = bulk_len,
		.src_node = node_self()->id,
		.req_id = ++cs->req_id,
		.incarn = node_self()->incarn,
	};

	assert_spin_held(&s->lock);
	rpc_hdr_encode(&hdr, (void *)buf);
	if (call->body_len) {
		memcpy(buf + RPC_HDR_LEN, call->body, call->body_len);
		counter_add(&rpc_c_bytes_copied, call->body_len);
	}
	bulk_fill_locked(s, cs, call);
	cs->behind_ns = 0;
	cs->insisted = false;
	cs->window_len = window_bytes(call, bulk_len);
	cs->msg_len = RPC_HDR_LEN + call->body_len;
	cs->bulk_len = bulk_len;
	cs->call = impl;
	rpc_cslot_set_state_locked(s, cs, RPC_CSLOT_BUSY);
	cs->posted = false;
	cs->retransmitted = false;
	cs->is_async = call->done != NULL;
	cs->waits = waits;
	s->c_waits += waits;
	cs->deadline_ns = call->deadline_ns ? call->deadline_ns : WAIT_FOREVER;
	if (s->nr_busy == 0)
		s->probed_ns = now; /* the request itself is the first probe */

	s->c_free &= ~BIT64(slot);
	s->c_unsent |= BIT64(slot);
	s->nr_busy++;
	s->inflight_bytes += cs->window_len;
	if (cs->is_async)
		atomic_inc(&s->queue->nr_async);
	rpc_outstanding_inc();
	ASSERT(rpc_call_state(impl) == RPC_CALL_NEW); /* a call is submitted once */
	impl->session = s;
	impl->slot = slot;
	impl->submitted_ns = now;
	atomic_set_release(&impl->state, RPC_CALL_SUBMITTED);
	return slot;
}

static int session_of_call(const struct rpc_call *call, struct rpc_session **out)
{
	struct rpc_peer *peer = rpc_peer_find(call->peer);
	struct rpc_session *s;
	int err;

	if (!peer)
		return -EHOSTDOWN;
	err = rpc_peer_usable(peer);
	if (err)
		return err;
	s = &peer->sessions[call->cls];
	*out = s;
	if (likely(__atomic_load_n(&s->is_ready, __ATOMIC_ACQUIRE)))
		return 0;
	err = READ_ONCE(s->init_err);
	rpc_session_kick(s); /* its memory, and another try after a failure */
	return err ? err : -EAGAIN;
}

/*
 * The peer may have left since session_of_call(), and its calls been ended: who ends them takes the
 * lock after the state was set, so either this sees the state or the other finds the call.
 */
static int still_usable_locked(const struct rpc_session *s)
{
	assert_spin_held(&s->lock);
	if (unlikely(READ_ONCE(s->peer->fenced_us)))
		return -ESTALE;
	return likely(READ_ONCE(s->peer->state) == RPC_PEER_ALIVE) ? 0 : -EHOSTDOWN;
}

static void (*observer)(uint32_t peer, uint16_t opcode); /* const after start */

void rpc_set_observer(void (*fn)(uint32_t peer, uint16_t opcode))
{
	observer = fn;
}

static bool (*waits_for_others)(uint16_t opcode); /* const after start */

void rpc_set_waits(bool (*fn)(uint16_t opcode))
{
	waits_for_others = fn;
}

static bool call_waits(const struct rpc_call *call)
{
	return call->waits || (waits_for_others && waits_for_others(call->opcode));
}

/*
 * Take a slot for @call and post it, if there is a connection.  -EAGAIN: there is no room; else as
 * still_usable_locked().
 */
static int submit_locked(struct rpc_session *s, struct rpc_call *call, uint32_t bulk_len)
	__must_hold(&s->lock)
{
	struct rpc_call_impl *impl = impl_of(call);
	struct rpc_conn *conn = s->conn;
	const bool waits = call_waits(call);
	uint64_t now;
	uint32_t slot;
	int err;

	assert_spin_held(&s->lock);
	err = still_usable_locked(s);
	if (unlikely(err))
		return err;
	if (unlikely(!has_room_locked(s, window_bytes(call, bulk_len), waits))) {
		counter_inc(&rpc_c_no_slot);
		return -EAGAIN;
	}
	refcount_inc(&impl->refs); /* dropped by release */
	now = time_now_ns();
	slot = slot_fill_locked(s, impl, bulk_len, waits, now);
	if (likely(conn && conn->state == RPC_CONN_UP)) {
		/* When it cannot be posted now, the flush does it later. */
		err = rpc_post_request_locked(conn, slot, now);
		(void)err;
	}
	return 0;
}

int rpc_calls_submit(struct rpc_call *const *calls, size_t nr, size_t *nr_submitted)
{
	struct rpc_session *s;
	uint32_t bulk_len;
	bool kick;
	size_t n;
	int err;

	*nr_submitted = 0;
	if (!nr)
		return 0;
	if ((unsigned int)calls[0]->cls >= RPC_NR_CLASSES)
		return -EINVAL;
	err = session_of_call(calls[0], &s);
	if (err)
		return err;
	spin_lock(&s->lock);
	s->is_chaining = nr > 1 && rpc_tune.merge;
	for (n = 0; n < nr && !err; n++) {
		struct rpc_call *call = calls[n];

		err = call->peer == calls[0]->peer && call->cls == calls[0]->cls
			      ? call_check(call, &bulk_len)
			      : -EINVAL;
		if (!err)
			err = submit_locked(s, call, bulk_len);
	}
	n -= err != 0;
	s->is_chaining = false;
	kick = n && !s->conn;
	if (s->conn && s->conn->state == RPC_CONN_UP && nr > 1)
		rpc_ring_locked(s->conn);
	spin_unlock(&s->lock);
	for (size_t i = 0; i < n && unlikely(observer); i++)
		observer(calls[i]->peer, calls[i]->opcode);
	if (kick)
		rpc_session_kick(s);
	*nr_submitted = n;
	return err;
}

int rpc_call_submit(struct rpc_call *call)
{
	size_t n;

	return rpc_calls_submit(&call, 1, &n);
}

/* --- waiting -------------------------------------------------------------------------- */

static uint64_t spin_time_ns(const struct rpc_session *s)
{
	const uint64_t cap = rpc_tune.spin_us * NSEC_PER_USEC;
	const uint64_t usual = READ_ONCE(s->usual_ns);

	if (usual == 0)
		return cap;
	/* Calls that take long are not worth more than a short try. */
	if (usual > 4 * cap)
		return cap / 8;
	return MIN(2 * usual, cap);
}

static bool call_is_done(struct rpc_call_impl *impl)
{
	return rpc_call_state(impl) == RPC_CALL_DONE;
}

/* Does another thread have a use for this CPU while we would only poll? */
static bool cpu_is_wanted(void)
{
	return thread_waits_above(THREAD_PRIO_LOW);
}

/* Poll by ourselves for a bounded time. True when the call is done. */
static bool wait_spin(struct rpc_call_impl *impl)
{
	struct rpc_session *s = impl->session; /* stays ours, whoever ends the call meanwhile */
	/* Counted from the submit, which as a rule was just now. */
	const bool always = rpc_tune.completion == RPC_COMPLETION_POLL;
	const uint64_t until = always ? WAIT_FOREVER : impl->submitted_ns + spin_time_ns(s);

	if (!s->queue->is_polled || cpu_is_wanted() || (!always && !rpc_spin_pays(&s->gauge)))
		return false;
	s->queue->waiter_activity++; /* a hint: lost updates do no harm */
	do {
		for (int i = 0; i < 16; i++) {
			if (call_is_done(impl)) {
				counter_inc(&rpc_c_spins_won);
				rpc_spin_note(&s->gauge, true);
				return true;
			}
			if (!rpc_poll_try_once(s->queue))
				cpu_poll_relax();
		}
		if (cpu_is_wanted())
			return call_is_done(impl);
	} while (time_now_ns() < until);
	counter_inc(&rpc_c_spins_lost);
	rpc_spin_note(&s->gauge, false);
	return call_is_done(impl);
}

/* We have slept until the call was done: since when did we wait for the CPU? */
static void note_wake(const struct rpc_call_impl *impl)
{
	if (impl->pub.cls == RPC_CLASS_DEMAND && impl->pub.answered)
		hist_record(&rpc_h_wake_demand, time_now_ns() - impl->answered_ns);
}

static int wait_sleep_done(struct rpc_call_impl *impl, unsigned int mode, uint64_t until_ns)
{
	int old, err;

	rpc_queue_before_sleep(impl->session->queue);
	/* From here on the thread that ends the call wakes us. */
	do {
		old = atomic_read(&impl->state);
		if ((old & RPC_CALL_STATE_MASK) == RPC_CALL_DONE)
			return 0;
	} while (atomic_cmpxchg(&impl->state, old, old | RPC_CALL_SLEEPER) != old);
	counter_inc(&rpc_c_sleeps);
	err = wait_event_mode(&impl->wq, call_is_done(impl), mode, until_ns);
	if (!err)
		note_wake(impl);
	return err;
}

/* The tick ends the call at its deadline, so the wait itself needs none. */
static int call_wait(struct rpc_call *call, unsigned int mode)
{
	struct rpc_call_impl *impl = impl_of(call);

	if (!call_is_done(impl) && !wait_spin(impl)) {
		const int err = wait_sleep_done(impl, mode, WAIT_FOREVER);

		if (err == -EINTR) {
			rpc_call_cancel(call);
			/* Cancelled, or ended in the meantime: either way it is done. */
			wait_sleep_done(impl, WAIT_PLAIN, WAIT_FOREVER);
			return call->status == -ECANCELED ? -EINTR : call->status;
		}
	}
	return call->status;
}

int rpc_call_wait(struct rpc_call *call)
{
	return call_wait(call, WAIT_PLAIN);
}

int rpc_call_wait_killable(struct rpc_call *call)
{
	return call_wait(call, WAIT_KILLABLE);
}

bool rpc_call_wait_or_leave(struct rpc_call *call)
{
	struct rpc_call_impl *impl = impl_of(call);

	return call_is_done(impl) || wait_spin(impl) ||
	       wait_sleep_done(impl, WAIT_KILLABLE, WAIT_FOREVER) == 0;
}

int rpc_call_wait_until(struct rpc_call *call, uint64_t until_ns, bool killable)
{
	struct rpc_call_impl *impl = impl_of(call);

	if (call_is_done(impl) || wait_spin(impl))
		return 0;
	return wait_sleep_done(impl, killable ? WAIT_KILLABLE : WAIT_PLAIN, until_ns);
}

void rpc_call_cancel(struct rpc_call *call)
{
	struct rpc_call_impl *impl = impl_of(call);
	struct rpc_session *s = impl->session;
	bool release = false, is_mine;

	if (!s)
		return; /* never submitted */
	spin_lock(&s->lock);
	is_mine = rpc_call_state(impl) == RPC_CALL_SUBMITTED;
	if (is_mine) {
		rpc_call_set_finishing(impl);
		release = rpc_cslot_give_up_locked(s, impl->slot, time_now_ns());
	}
	spin_unlock(&s->lock);
	if (!is_mine)
		return;
	counter_inc(&rpc_c_cancels);
	rpc_call_finish(impl, -ECANCELED, 0, release);
	rpc_session_wake_slots(s);
}

/* The most that one call takes of the window. */
static uint32_t window_max(const struct rpc_session *s)
{
	const struct rpc_class_cfg *cfg = &rpc_class_cfg[s->cls];

	if (rpc_class_is_read(s->cls))
		return RPC_HDR_LEN + cfg->bulk_max;
	return rpc_req_slot_size(cfg) + (s->cls == RPC_CLASS_PREFETCH ? RPC_DATA_MAX : 0);
}

static bool slot_may_be_free(struct rpc_session *s, bool waits)
{
	bool ok;

	if (!__atomic_load_n(&s->is_ready, __ATOMIC_ACQUIRE))
		return READ_ONCE(s->init_err) != 0;
	spin_lock(&s->lock);
	ok = has_room_locked(s, window_max(s), waits);
	spin_unlock(&s->lock);
	return ok;
}

/* Sleep until there may be a slot for @call. */
bool rpc_slot_is_free(uint32_t peer_id, enum rpc_class cls)
{
	struct rpc_peer *peer = rpc_peer_find(peer_id);
	struct rpc_session *s;

	if (!peer || (unsigned int)cls >= RPC_NR_CLASSES)
		return false;
	s = &peer->sessions[cls];
	if (unlikely(!__atomic_load_n(&s->is_ready, __ATOMIC_ACQUIRE)))
		rpc_session_kick(s); /* a caller that submits nothing makes it ready, too */
	return slot_may_be_free(s, false);
}

uint32_t rpc_slots_free(uint32_t peer_id, enum rpc_class cls)
{
	struct rpc_peer *peer = rpc_peer_find(peer_id);
	struct rpc_session *s;
	uint32_t nr = 0;
	bool is_up;

	if (!peer || (unsigned int)cls >= RPC_NR_CLASSES)
		return 0;
	s = &peer->sessions[cls];
	spin_lock(&s->lock);
	is_up = s->conn && s->conn->state == RPC_CONN_UP; /* then the session is ready, too */
	if (!is_up)
		s->want_conn = true;
	else if (has_room_locked(s, window_max(s), false))
		nr = (uint32_t)__builtin_popcountll(s->c_free);
	spin_unlock(&s->lock);
	if (!is_up)
		rpc_session_kick(s);
	return nr;
}

uint32_t rpc_read_pieces_max(void)
{
	return MIN(rpc_class_cfg[RPC_CLASS_READ_AHEAD].max_sge, rpc_net.attr.max_sge);
}

static int slot_wait(const struct rpc_call *call, unsigned int mode, uint64_t deadline_ns)
{
	struct rpc_peer *peer = rpc_peer_find(call->peer);
	const bool waits = call_waits(call);
	struct rpc_session *s;
	int err = 0, wait_err;

	if (!peer)
		return -EHOSTDOWN;
	s = &peer->sessions[call->cls];
	__atomic_add_fetch(&s->nr_slot_waiters, 1, __ATOMIC_SEQ_CST);
	rpc_outstanding_inc(); /* the tick looks after us if a wake-up is missed */
	if (!__atomic_load_n(&s->is_ready, __ATOMIC_ACQUIRE))
		rpc_session_kick(s);
	else
		rpc_queue_before_sleep(s->queue);
	wait_err = wait_event_mode(&s->slot_wq,
				   (err = rpc_peer_usable(peer)) != 0 || slot_may_be_free(s, waits),
				   mode, deadline_ns);
	rpc_outstanding_dec();
	__atomic_sub_fetch(&s->nr_slot_waiters, 1, __ATOMIC_SEQ_CST);
	return wait_err ? wait_err : err;
}

/* The last moment to wait for a slot: see rpc_call_submit_wait(). */
static uint64_t slot_deadline(const struct rpc_call *call, uint64_t slot_timeout_ns)
{
	if (slot_timeout_ns)
		return time_after_ns(slot_timeout_ns);
	return call->deadline_ns ? call->deadline_ns : WAIT_FOREVER;
}

static int submit_wait(struct rpc_call *call, unsigned int mode, uint64_t slot_timeout_ns)
{
	uint64_t until = 0;
	int err;

	while ((err = rpc_call_submit(call)) == -EAGAIN) {
		if (!until)
			until = slot_deadline(call, slot_timeout_ns);
		err = slot_wait(call, mode, until);
		if (err)
			return err;
	}
	return err;
}

int rpc_call_submit_wait(struct rpc_call *call, uint64_t slot_timeout_ns)
{
	return submit_wait(call, WAIT_PLAIN, slot_timeout_ns);
}

int rpc_call_submit_killable(struct rpc_call *call)
{
	return submit_wait(call, WAIT_KILLABLE, WAIT_FOREVER);
}

int rpc_call_submit_until(struct rpc_call *call, uint64_t until_ns, bool killable)
{
	const unsigned int mode = killable ? WAIT_KILLABLE : WAIT_PLAIN;
	int err;

	while ((err = rpc_call_submit(call)) == -EAGAIN) {
		err = slot_wait(call, mode, until_ns);
		if (err)
			return err;
	}
	return err;
}

static int call_sync(struct rpc_call *call, unsigned int mode, void *reply, uint32_t reply_max)
{
	int err;

	if (!call)
		return -ENOMEM;
	call->reply = reply;
	call->reply_max = reply_max;
	err = submit_wait(call, mode, 0);
	if (!err)
		err = call_wait(call, mode);
	if (!err)
		err = (int)call->reply_len;
	rpc_call_put(call);
	return err;
}

static struct rpc_call *sync_call(uint32_t peer, enum rpc_class cls, uint16_t opcode,
				  const void *body, uint32_t body_len, uint64_t timeout_ns)
{
	struct rpc_call *call = rpc_call_create(peer, cls, opcode, body, body_len);

	if (call && timeout_ns)
		call->deadline_ns = time_after_ns(timeout_ns);
	return call;
}

int rpc_call_sync(uint32_t peer, enum rpc_class cls, uint16_t opcode, const void *body,
		  uint32_t body_len, void *reply, uint32_t reply_max, uint64_t timeout_ns)
{
	return call_sync(sync_call(peer, cls, opcode, body, body_len, timeout_ns), WAIT_PLAIN,
			 reply, reply_max);
}

int rpc_call_sync_killable(uint32_t peer, enum rpc_class cls, uint16_t opcode, const void *body,
			   uint32_t body_len, void *reply, uint32_t reply_max, uint64_t timeout_ns)
{
	return call_sync(sync_call(peer, cls, opcode, body, body_len, timeout_ns), WAIT_KILLABLE,
			 reply, reply_max);
}

int rpc_multicast(struct rpc_call **calls, size_t nr_calls)
{
	int err = 0;

	for (size_t i = 0; i < nr_calls; i++) {
		const int refused = rpc_call_submit_wait(calls[i], 0);

		if (refused)
			calls[i]->status = refused; /* else it may be done already */
	}
	for (size_t i = 0; i < nr_calls; i++) {
		if (rpc_call_state(impl_of(calls[i])) != RPC_CALL_NEW)
			rpc_call_wait(calls[i]);
		if (calls[i]->status && !err)
			err = calls[i]->status;
	}
	return err;
}

/* --- replies -------------------------------------------------------------------------- */

/* Copy the body out of the ring, which the peer can still change: lengths come from @hdr. */
static int copy_reply(struct rpc_call *call, const uint8_t *msg, const struct rpc_hdr *hdr,
		      uint32_t *len)
{
	*len = 0;
	if (!call->reply || hdr->body_len == 0)
		return hdr->status;
	if (hdr->body_len > call->reply_max)
		return hdr->status ? hdr->status : -EMSGSIZE;
	memcpy(call->reply, msg + RPC_HDR_LEN, hdr->body_len);
	counter_add(&rpc_c_bytes_copied, hdr->body_len);
	*len = hdr->body_len;
	return hdr->status;
}

void rpc_note_latency_locked(struct rpc_session *s, uint64_t ns)
{
	assert_spin_held(&s->lock);
	hist_record(rpc_h_latency[s->cls], ns);
	s->usual_ns = rpc_low_average(s->usual_ns, ns);
}

/* A late reply: its call ended long ago, now its target is free. */
static void late_reply_locked(struct rpc_session *s, uint32_t slot) __releases(&s->lock)
{
	struct rpc_call_impl *impl = s->cslots[slot].call;

	assert_spin_held(&s->lock);
	counter_inc(&rpc_c_late_replies);
	rpc_cslot_free_locked(s, slot);
	spin_unlock(&s->lock);
	rpc_call_left_quarantine(impl);
	rpc_session_wake_slots(s);
}

/*
 * The peer has not run the request, as too many of ours that we gave up are still being served
 * there, or as it has a newer view. It is sent again at the next tick, as a new one in the same
 * slot, until its deadline.
 */
static void refused_locked(struct rpc_session *s, uint32_t slot, bool behind, uint64_t now)
{
	struct rpc_cslot *cs = &s->cslots[slot];
	struct rpc_hdr_wire *w = (void *)(s->req_buf + (uint64_t)slot * s->req_stride);

	assert_spin_held(&s->lock);
	ASSERT(cs->state == RPC_CSLOT_BUSY && cs->posted);
	w->req_id = cpu_to_le64(++cs->req_id);
	cs->posted = false;
	cs->retransmitted = false;
	if (behind && !cs->behind_ns)
		cs->behind_ns = now;
	s->c_parked |= BIT64(slot);
	counter_inc(&rpc_c_refusals);
}

/* Polling context. */
void rpc_reply_received(struct rpc_conn *conn, const struct rpc_imm *imm)
{
	struct rpc_session *s = conn->session;
	const uint8_t *msg = rpc_ring_slot(conn->ring, true, imm->slot);
	const uint64_t now = READ_ONCE(s->peer->last_rx_ns); /* when this batch was taken */
	struct rpc_call_impl *impl;
	struct rpc_hdr_wire w;
	struct rpc_cslot *cs;
	struct rpc_hdr hdr;
	uint32_t len;
	void (*tell)(void);
	bool behind;
	int status;

	memcpy(&w, msg, sizeof(w));
	if (rpc_hdr_decode(&w, imm->len, true, &hdr) || hdr.cls != s->cls ||
	    hdr.src_node != s->peer->info.id || hdr.incarn != conn->peer_incarn) {
		counter_inc(&rpc_c_malformed);
		return;
	}
	spin_lock(&s->lock);
	cs = &s->cslots[imm->slot];
	if (s->conn != conn || cs->state == RPC_CSLOT_FREE || cs->req_id != hdr.req_id) {
		spin_unlock(&s->lock);
		counter_inc(&rpc_c_malformed);
		return;
	}
	counter_inc(&rpc_c_rep_received);
	if (cs->state == RPC_CSLOT_QUARANTINE) {
		late_reply_locked(s, imm->slot); /* drops the lock */
		return;
	}
	if (unlikely(hdr.flags & RPC_HDR_F_REFUSED) && cs->posted) {
		/* After INSIST one that shows a newer epoch has no view, or is too busy. */
		behind = !cs->insisted && hdr.epoch > READ_ONCE(rpc_net.epoch);
		refused_locked(s, imm->slot, behind, now);
		spin_unlock(&s->lock);
		tell = behind ? __atomic_load_n(&rpc_net.behind, __ATOMIC_ACQUIRE) : NULL;
		if (tell)
			tell();
		return;
	}
	impl = cs->call;
	rpc_call_set_finishing(impl);
	/* Under the lock, so that a deadline that passes now finds the call taken. */
	status = copy_reply(&impl->pub, msg, &hdr, &len);
	s->nr_busy--;
	impl->pub.answered = true;
	impl->answered_ns = now;
	if (cs->is_async)
		atomic_dec(&s->queue->nr_async);
	rpc_cslot_free_locked(s, imm->slot);
	rpc_note_latency_locked(s, now - impl->submitted_ns);
	spin_unlock(&s->lock);
	rpc_call_finish(impl, status, len, true);
	rpc_session_wake_slots(s);
}
