/* SPDX-License-Identifier: MIT */
/*
 * Connections to sockets on other processors: their life, and the table of their ids.
 *
 * Flow:	connect() asks the managers where a socket listens, makes an end here and asks that
 *		processor, which makes the other one in the listener's backlog; while that is full
 *		it is asked again, as a SYN is sent again. A message that could not be sent for want
 *		of a slot or of memory over there is for the worker, woken by a timer.
 *		Of a dialogue, in which the program answers each message before the next one comes,
 *		the replies to messages wait for these answers, and share their doorbells.
 * Failure:	a connection whose call fails, or whose peer's processor leaves, is reset, and its
 *		program hears ECONNRESET. A message for an id that is not in the table is
 *		answered so as well. A connection that was closed, and whose peer takes nothing of
 *		what is left for `sockets.orphan_ms`, is reset.
 */
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/node.h>
#include <processor/account/account.h>

#include "queue.h"
#include "remote_private.h"
#include "unix_remote.h"

#define BUCKETS       1024u
#define DIALOGUE      3u /* answers in a row: the next message is likely to have one, too */
#define WINDOW_MIN    65536u
#define QUEUE_WINDOWS 4                     /* memory that a queue may take, in windows */
#define REFUSED_MAX   (100 * NSEC_PER_MSEC) /* the same, for bytes that were refused */

COUNTER(remote_lost, "socket.remote.lost", "connections that were reset from elsewhere");
COUNTER(remote_again, "socket.remote.again", "messages of bytes that had to be sent again");
COUNTER(remote_orphans, "socket.remote.orphans", "closed connections whose peer took nothing more");

static uint32_t orphan_ms = 60000;
BOOT_PARAM_RANGE("sockets.orphan_ms", u32, orphan_ms, 10, 86400000,
		 "how long a closed connection to another processor waits for room");

static struct {
	struct spinlock lock; /* RANK_SOCKET_TABLE */
	struct hlist_head buckets[BUCKETS] __guarded_by(&lock);
	uint64_t nr __guarded_by(&lock);
	struct spinlock dead_lock;                      /* RANK_SPIN_MONITOR */
	struct list_head dead __guarded_by(&dead_lock); /* reap_link */
	struct workqueue *wq;                           /* const after start */
	struct work reap;
} table = {
	.lock = SPINLOCK_INIT("remote sockets", RANK_SOCKET_TABLE),
	.dead_lock = SPINLOCK_INIT("dead remote sockets", RANK_SPIN_MONITOR),
	.dead = LIST_HEAD_INIT(table.dead),
};

static uint64_t gauge_conns(void)
{
	uint64_t nr;

	spin_lock(&table.lock);
	nr = table.nr;
	spin_unlock(&table.lock);
	return nr;
}
GAUGE(conns_gauge, "socket.remote.connections", "connections with other processors", gauge_conns);

/* --- references ------------------------------------------------------------------------- */

void remote_get(struct remote_conn *c)
{
	refcount_inc(&c->refs);
}

/* Also in a timer's interrupt. */
void remote_put(struct remote_conn *c)
{
	unsigned long flags;

	if (!refcount_dec_and_test(&c->refs))
		return;
	ASSERT(c->state == REMOTE_GONE && !c->s && !c->busy);
	flags = spin_lock_irqsave(&table.dead_lock);
	list_add_tail(&c->reap_link, &table.dead);
	spin_unlock_irqrestore(&table.dead_lock, flags);
	(void)work_queue(table.wq, &table.reap); /* it may be queued already */
}

/* Where it may sleep: a worker that still runs for a connection is waited for. */
static void reap(struct work *w)
{
	struct remote_conn *c;

	for (;;) {
		const unsigned long flags = spin_lock_irqsave(&table.dead_lock);

		c = list_first_entry_or_null(&table.dead, struct remote_conn, reap_link);
		if (c)
			list_del(&c->reap_link);
		spin_unlock_irqrestore(&table.dead_lock, flags);
		if (!c)
			return;
		(void)timer_cancel(&c->timer);
		(void)timer_cancel(&c->orphan_timer);
		work_flush(&c->work);
		remote_buf_free(c->cur);
		remote_buf_free(c->next);
		remote_records_drop(&c->records);
		kmem_free(c->extra);
		kmem_free(c);
	}
}

void remote_wake_worker(struct remote_conn *c)
{
	remote_get(c);
	if (!work_queue(table.wq, &c->work))
		remote_put(c);
}

static void on_timer(void *arg)
{
	struct remote_conn *c = arg;

	if (!refcount_inc_not_zero(&c->refs))
		return;
	if (!work_queue(table.wq, &c->work))
		remote_put(c);
}

void remote_later(struct remote_conn *c, uint64_t ns)
{
	timer_set(&c->timer, time_now_ns() + ns);
}

/* --- the table -------------------------------------------------------------------------- */

static struct remote_conn *find_locked(uint64_t id) __must_hold(&table.lock)
{
	struct remote_conn *c;

	assert_spin_held(&table.lock);
	hlist_for_each_entry(c, &table.buckets[hash64(id) % BUCKETS], node) {
		if (c->id == id)
			return c;
	}
	return NULL;
}

/* The connection that the peer means, referenced; NULL: none of that processor has the id. */
struct remote_conn *remote_find(uint64_t id, uint32_t peer, uint32_t incarn)
{
	struct remote_conn *c;

	spin_lock(&table.lock);
	c = find_locked(id);
	if (c && (c->peer != peer || c->incarn != incarn))
		c = NULL;
	if (c)
		remote_get(c);
	spin_unlock(&table.lock);
	return c;
}

static void enter(struct remote_conn *c)
{
	spin_lock(&table.lock);
	do {
		c->id = random_u64();
	} while (!c->id || find_locked(c->id));
	hlist_add_head(&c->node, &table.buckets[hash64(c->id) % BUCKETS]);
	table.nr++;
	spin_unlock(&table.lock);
}

/* It is gone: no message finds it any more. */
void remote_leave(struct remote_conn *c)
{
	bool was_there;

	spin_lock(&table.lock);
	was_there = !hlist_unhashed(&c->node);
	if (was_there) {
		hlist_del(&c->node);
		table.nr--;
	}
	spin_unlock(&table.lock);
	if (was_there)
		remote_put(c);
}

static void work_fn(struct work *w);

static uint64_t window_of(const struct socket *s)
{
	return MAX(READ_ONCE(s->rcvbuf), WINDOW_MIN);
}

/* An end for @s, which gets it and is held by it. One reference is the table's. NULL: no memory. */
struct remote_conn *remote_make(struct socket *s, const struct remote_kind *kind,
				struct kmem_account *account, uint32_t peer, uint32_t incarn)
{
	struct remote_conn *c = kmem_alloc(account, sizeof(*c));

	if (!c)
		return NULL;
	refcount_set(&c->refs, 2); /* the socket's and the table's */
	spin_lock_init(&c->lock, "remote socket", RANK_SOCKET_TABLE);
	mutex_init(&c->send_lock, "remote senders", RANK_PIPE);
	work_init(&c->work, work_fn);
	timer_init(&c->timer, on_timer, c);
	timer_init(&c->orphan_timer, on_timer, c);
	list_init(&c->reap_link);
	c->kind = kind;
	c->peer = peer;
	c->incarn = incarn;
	c->rx_limit = window_of(s);
	socket_get(s);
	c->s = s;
	enter(c);
	return c;
}

struct remote_conn *remote_of(struct socket *s)
{
	struct remote_conn *c;

	spin_lock(&s->lock);
	c = s->remote_conn;
	if (c)
		remote_get(c);
	spin_unlock(&s->lock);
	return c;
}

void remote_set(struct socket *s, struct remote_conn *c)
{
	spin_lock(&s->lock);
	s->remote_conn = c;
	spin_unlock(&s->lock);
}

/* --- ends ------------------------------------------------------------------------------- */

void remote_drop_bufs_locked(struct remote_conn *c)
{
	assert_spin_held(&c->lock);
	ASSERT(c->state == REMOTE_GONE);
	if (!c->busy && c->cur != c->filling) {
		remote_buf_free(c->cur);
		c->cur = NULL;
	}
	if (c->next != c->filling) {
		remote_buf_free(c->next);
		c->next = NULL;
	}
}

/* The connection is gone; the program is told @err if it was about to connect. */
void remote_lose(struct remote_conn *c, int err)
{
	bool was_asking, was_gone;

	spin_lock(&c->lock);
	was_gone = c->state == REMOTE_GONE;
	was_asking = c->state == REMOTE_ASKING;
	c->state = REMOTE_GONE;
	if (!was_gone && was_asking && c->s)
		c->failed = err;
	else if (!was_gone && c->s)
		c->kind->reset(c->s);
	remote_drop_bufs_locked(c);
	spin_unlock(&c->lock);
	if (was_gone)
		return;
	counter_inc(&remote_lost);
	remote_leave(c);
	if (was_asking)
		remote_wake_worker(c);
}

/* A closed connection whose last bytes the peer has, and which it knows to be closed. */
static void end_if_done(struct remote_conn *c)
{
	bool done;

	spin_lock(&c->lock);
	done = c->state == REMOTE_OPEN && !c->s && c->fin_sent && c->closed_sent;
	if (done) {
		c->state = REMOTE_GONE;
		remote_drop_bufs_locked(c);
	}
	spin_unlock(&c->lock);
	if (done)
		remote_leave(c);
}

/* connect() has failed, or failed and @c was closed: the socket is as before it. */
static void finish_failed(struct remote_conn *c)
{
	struct socket *s;
	int err;

	spin_lock(&c->lock);
	s = c->failed ? c->s : NULL;
	err = c->failed;
	c->failed = 0;
	if (s)
		c->s = NULL;
	spin_unlock(&c->lock);
	if (!s)
		return;
	if (c->kind->forget)
		c->kind->forget(s);
	/* The peer may have sent bytes before it refused: no later connection has them. */
	mutex_lock(&s->recv_lock);
	sock_queue_purge(s);
	mutex_unlock(&s->recv_lock);
	spin_lock(&s->lock);
	if (s->remote_conn == c && !s->dead) {
		s->remote_conn = NULL;
		__atomic_store_n(&s->ops, c->kind->idle, __ATOMIC_RELEASE);
		__atomic_store_n(&s->error, err, __ATOMIC_RELEASE);
		s->finished = false;
		__atomic_store_n(&s->shut, 0, __ATOMIC_RELEASE);
		__atomic_store_n(&s->state, SOCKET_IDLE, __ATOMIC_RELEASE);
		spin_unlock(&s->lock);
		socket_shut(s, 0, 0);
		remote_put(c);
	} else {
		spin_unlock(&s->lock);
	}
	socket_put(s);
}

void remote_deafen(struct remote_conn *c)
{
	spin_lock(&c->lock);
	c->deaf_wanted = true;
	spin_unlock(&c->lock);
	remote_kick(c);
}

bool remote_give_up(struct remote_conn *c, int err)
{
	bool over;

	spin_lock(&c->lock);
	over = c->state == REMOTE_ASKING;
	if (over) {
		c->state = REMOTE_GONE;
		c->failed = err;
	}
	spin_unlock(&c->lock);
	if (over) {
		remote_leave(c);
		remote_wake_worker(c);
	}
	return over;
}

void remote_end(struct remote_conn *c)
{
	spin_lock(&c->lock);
	c->fin_wanted = true;
	spin_unlock(&c->lock);
	remote_kick(c);
}

/* A closed connection waits for its peer from now on, or waits on, as something was taken. */
static void orphan_wait(struct remote_conn *c)
{
	const uint64_t until = time_now_ns() + orphan_ms * NSEC_PER_MSEC;

	spin_lock(&c->lock);
	c->orphan_ns = until;
	spin_unlock(&c->lock);
	timer_set(&c->orphan_timer, until);
}

/* The worker's: has the peer of a closed connection taken nothing for too long? */
static void end_orphan(struct remote_conn *c)
{
	bool over;

	spin_lock(&c->lock);
	over = !c->s && c->state == REMOTE_OPEN && c->orphan_ns && time_now_ns() >= c->orphan_ns;
	if (over) {
		c->state = REMOTE_GONE;
		c->reset_due = true;
		remote_drop_bufs_locked(c);
	}
	spin_unlock(&c->lock);
	if (!over)
		return;
	counter_inc(&remote_orphans);
	remote_leave(c);
}

void remote_close(struct remote_conn *c, bool abort)
{
	struct socket *s;
	bool gone;

	spin_lock(&c->lock);
	s = c->s;
	c->s = NULL;
	c->fin_wanted = true;
	gone = c->state == REMOTE_GONE;
	if (!gone && (abort || c->state == REMOTE_ASKING)) {
		/* One that asks may hear of its peer later, and resets it then. */
		c->reset_due = c->state == REMOTE_OPEN || c->peer_id;
		c->state = REMOTE_GONE;
		remote_drop_bufs_locked(c);
	}
	abort = !gone && c->state == REMOTE_GONE;
	spin_unlock(&c->lock);
	if (abort) {
		remote_leave(c);
		remote_wake_worker(c);
	} else {
		if (!gone)
			orphan_wait(c);
		remote_kick(c);
		end_if_done(c);
	}
	if (s)
		socket_put(s);
}

/* --- sending ---------------------------------------------------------------------------- */

/* cur has been sent, and nobody appends to it: the next one takes its place. */
static void advance_locked(struct remote_conn *c) __must_hold(&c->lock)
{
	assert_spin_held(&c->lock);
	if (!c->cur || c->cur->sent < c->cur->len || c->cur == c->filling)
		return;
	remote_buf_free(c->cur);
	c->cur = c->next;
	c->next = NULL;
}

/* The next bytes to be sent; false: there are none. The message is under way from here on. */
static bool take_locked(struct remote_conn *c, uint32_t *off, uint32_t *flags) __must_hold(&c->lock)
{
	bool fin, closed, deaf;
	uint64_t n = 0;

	assert_spin_held(&c->lock);
	if (c->state != REMOTE_OPEN || c->busy)
		return false;
	advance_locked(c);
	if (c->cur) {
		n = MIN((uint64_t)(c->cur->len - c->cur->sent), c->tx_limit - c->tx_pos);
		if (!c->cur->mem)
			n = MIN(n, (uint64_t)REMOTE_SMALL);
		*off = c->cur->sent;
	}
	fin = c->fin_wanted && !c->fin_sent && !c->filling && !c->next &&
	      (!c->cur || c->cur->sent + n == c->cur->len);
	closed = !c->s && !c->closed_sent && (fin || c->fin_sent);
	deaf = c->deaf_wanted && !c->deaf_sent && c->s;
	if (!n && !fin && !closed && !deaf)
		return false;
	*flags = (fin ? REMOTE_FIN : 0) | (closed ? REMOTE_CLOSED : 0) | (deaf ? REMOTE_DEAF : 0);
	c->in_flight = (uint32_t)n;
	c->fin_in_flight = fin;
	c->closed_in_flight = closed;
	c->deaf_in_flight = deaf;
	c->busy = true;
	return true;
}

/* Up to where the peer may send now. */
static uint64_t grow_limit_locked(struct remote_conn *c) __must_hold(&c->lock)
{
	uint64_t want;

	assert_spin_held(&c->lock);
	if (c->s) {
		want = c->rx_pos - READ_ONCE(c->s->readable) + window_of(c->s);
		c->rx_limit = MAX(c->rx_limit, want);
	}
	return c->rx_limit;
}

void remote_kick(struct remote_conn *c)
{
	struct remote_buf *b = NULL;
	uint64_t position = 0, limit = 0;
	uint32_t off = 0, len = 0, flags = 0;
	bool go;
	int err;

	spin_lock(&c->lock);
	go = take_locked(c, &off, &flags);
	if (go) {
		b = c->cur;
		len = c->in_flight;
		position = c->tx_pos;
		limit = grow_limit_locked(c);
	}
	spin_unlock(&c->lock);
	if (!go)
		return;
	err = remote_net_data(c, b, off, len, position, limit, flags);
	if (err)
		remote_sent(c, err, 0);
}

bool remote_is_passing(int err)
{
	return err == -EAGAIN || err == -ENOBUFS || err == -ENOMEM;
}

/* All that the message under way said need not be repeated. */
static void message_over_locked(struct remote_conn *c) __must_hold(&c->lock)
{
	assert_spin_held(&c->lock);
	c->fin_sent = c->fin_sent || c->fin_in_flight;
	c->closed_sent = c->closed_sent || c->closed_in_flight;
	c->deaf_sent = c->deaf_sent || c->deaf_in_flight;
}

void remote_sent(struct remote_conn *c, int status, uint64_t limit)
{
	bool lost = false, orphan;
	uint64_t pause = 0;

	spin_lock(&c->lock);
	ASSERT(c->busy);
	c->busy = false;
	orphan = !status && c->in_flight && !c->s && c->state == REMOTE_OPEN;
	if (!status) {
		c->refused_ns = 0;
		if (c->cur)
			c->cur->sent += c->in_flight;
		c->tx_pos += c->in_flight;
		c->tx_limit = MAX(c->tx_limit, limit);
		message_over_locked(c);
	} else if (remote_is_passing(status)) {
		/* A peer without room says when there is some; one without memory does not. */
		pause = c->refused_ns ? MIN(2 * c->refused_ns, REFUSED_MAX) : REMOTE_PAUSE_NS;
		c->refused_ns = pause;
	} else {
		/* An end that nobody waits for is no loss. */
		lost = c->in_flight || status != -ECONNRESET;
		message_over_locked(c);
	}
	if (c->state == REMOTE_GONE)
		remote_drop_bufs_locked(c);
	else if (!status)
		advance_locked(c);
	if (c->s && !lost)
		socket_wake(&c->s->wr_wait);
	spin_unlock(&c->lock);
	if (lost) {
		remote_lose(c, ECONNRESET);
	} else if (pause) {
		counter_inc(&remote_again);
		remote_later(c, pause);
	} else {
		remote_kick(c);
	}
	if (orphan)
		orphan_wait(c);
	end_if_done(c);
}

void remote_consumed(struct remote_conn *c, struct socket *s)
{
	const uint64_t window = window_of(s);
	uint64_t before, limit = 0;

	spin_lock(&c->lock);
	before = c->rx_limit;
	/* The answer to the next message tells it, too: a sender that has room is not told so. */
	if (c->state == REMOTE_OPEN && !c->rx_fin && before - c->rx_pos <= window / 2 &&
	    c->rx_pos - READ_ONCE(s->readable) + window - before >= window / 2 &&
	    c->rx_pos - READ_ONCE(s->readable) + window > before)
		limit = grow_limit_locked(c);
	spin_unlock(&c->lock);
	if (limit && remote_net_window(c, limit)) {
		spin_lock(&c->lock);
		c->window_due = true;
		spin_unlock(&c->lock);
		remote_later(c, REMOTE_PAUSE_NS);
	}
}

/* --- the worker ------------------------------------------------------------------------- */

/* @s is put. */
static void tell_options(struct remote_conn *c, struct socket *s)
{
	const int err = remote_net_options(c, s);

	socket_put(s);
	if (!remote_is_passing(err))
		return;
	spin_lock(&c->lock);
	c->options_due = true;
	spin_unlock(&c->lock);
	remote_later(c, REMOTE_PAUSE_NS);
}

static void work_fn(struct work *w)
{
	struct remote_conn *c = container_of(w, struct remote_conn, work);
	bool do_ask, do_window, do_reset, do_opened;
	struct socket *options_of = NULL;
	uint8_t addr[16];
	uint64_t limit;
	int status;

	finish_failed(c);
	end_orphan(c);
	spin_lock(&c->lock);
	do_ask = c->ask_due && c->state == REMOTE_ASKING;
	do_window = c->window_due && c->state == REMOTE_OPEN;
	do_reset = c->reset_due && c->peer_id;
	do_opened = c->opened_due;
	status = c->opened_status;
	memcpy(addr, c->opened_addr, sizeof(addr));
	limit = c->rx_limit;
	c->ask_due = c->window_due = c->reset_due = c->opened_due = false;
	if (c->options_due && c->peer_id && c->state != REMOTE_GONE && c->s) {
		options_of = c->s;
		socket_get(options_of);
		c->options_due = false;
	}
	spin_unlock(&c->lock);
	if (options_of)
		tell_options(c, options_of);
	if (do_opened && remote_is_passing(remote_net_opened(c, status, addr))) {
		spin_lock(&c->lock);
		c->opened_due = true;
		spin_unlock(&c->lock);
		remote_later(c, REMOTE_PAUSE_NS);
	}
	if (do_ask)
		remote_ask(c);
	if (do_window && remote_net_window(c, limit)) {
		spin_lock(&c->lock);
		c->window_due = true;
		spin_unlock(&c->lock);
		remote_later(c, REMOTE_PAUSE_NS);
	}
	if (do_reset) {
		const int err = remote_net_reset(c);

		/* A processor that has left needs none. */
		if (remote_is_passing(err)) {
			spin_lock(&c->lock);
			c->reset_due = true;
			spin_unlock(&c->lock);
			remote_later(c, REMOTE_PAUSE_NS);
		}
	}
	remote_kick(c);
	remote_put(c);
}

/* --- what peers ask --------------------------------------------------------------------- */

/* May a message with these bytes come now? It is being received from here on. */
static int begin_receive_locked(struct remote_conn *c, const struct remote_message *m)
	__must_hold(&c->lock)
{
	assert_spin_held(&c->lock);
	if (c->state == REMOTE_GONE)
		return -ECONNRESET;
	if (c->rx_busy || m->position != c->rx_pos || m->len > c->rx_limit - c->rx_pos)
		return -EPROTO;
	/* Behind the end there is little to say. */
	if (c->rx_fin && (m->len || m->fin || !(m->closed || m->deaf) || c->peer_closed))
		return -EPROTO;
	if (m->closed && !m->fin && !c->rx_fin)
		return -EPROTO;
	if (m->deaf && !c->kind->deaf)
		return -EPROTO;
	if (!c->s && m->len)
		return -ECONNRESET;
	/* Messages of a few bytes take more memory than the room that was told. */
	if (m->len && READ_ONCE(c->s->queued) > QUEUE_WINDOWS * window_of(c->s))
		return -ENOBUFS;
	c->tx_limit = MAX(c->tx_limit, m->limit);
	c->rx_busy = true;
	return 0;
}

void remote_answered_locked(struct remote_conn *c, uint32_t len)
{
	assert_spin_held(&c->lock);
	/* A large one goes in another class of messages: no reply goes along with it. */
	if (len > REMOTE_SMALL)
		c->answers = 0;
	else if (c->unanswered)
		c->answers = MIN(c->answers + 1u, DIALOGUE);
	c->unanswered = false;
}

/* Bytes have come: is the program likely to answer them before more come? */
static bool expects_answer_locked(struct remote_conn *c) __must_hold(&c->lock)
{
	assert_spin_held(&c->lock);
	if (c->unanswered)
		c->answers = 0;
	c->unanswered = true;
	return c->answers == DIALOGUE && c->s && !c->rx_fin;
}

/* Does a program wait for all @len bytes of a message, and nothing else is to be read? */
static bool wants_all(const struct socket *s, uint32_t len)
{
	return READ_ONCE(s->wanted) >= len && !READ_ONCE(s->nr_queued);
}

#define NOT_LENT 1 /* no errno: the reader has left */

/* Put @msgs into the queue of the socket, which takes them over. */
static int push_all(struct socket *s, struct list_head *msgs)
{
	struct sock_msg *msg = list_first_entry(msgs, struct sock_msg, node), *next;
	int err = 0;

	spin_lock(&s->lock);
	if (s->dead) {
		err = -ECONNRESET;
	} else if (msg->loan && !wants_all(s, msg->len)) {
		err = NOT_LENT;
	} else {
		list_for_each_entry_safe(msg, next, msgs, node) {
			list_del(&msg->node);
			sock_queue_push_locked(s, msg);
		}
	}
	spin_unlock(&s->lock);
	if (!err)
		socket_wake(&s->rd_wait);
	return err;
}

/* Act on @m, whose bytes are in @msgs. */
static int push_locked(struct remote_conn *c, const struct remote_message *m,
		       struct list_head *msgs) __must_hold(&c->lock)
{
	struct socket *s = c->s;
	int err = 0;

	assert_spin_held(&c->lock);
	if (c->state == REMOTE_GONE || (!s && m->len))
		return -ECONNRESET;
	if (!list_empty(msgs))
		err = push_all(s, msgs);
	if (err)
		return err;
	c->rx_pos += m->len;
	if (m->fin) {
		c->rx_fin = true;
		if (s)
			c->kind->fin(s);
	}
	if (m->deaf && s)
		c->kind->deaf(s);
	if (m->closed) {
		c->peer_closed = true;
		if (s && c->kind->closed)
			c->kind->closed(s);
		if (s)
			socket_wake(&s->rd_wait);
	}
	return 0;
}

/* The bytes of @m as messages of the socket's queue. One thread at a time: it is being received. */
static int copy_bytes(struct remote_conn *c, const struct remote_message *m, struct list_head *out)
{
	struct sock_msg *msg;

	if (c->kind->records)
		return remote_records_take(&c->records, c->kind->packets, m->data, m->len,
					   kmem_account_of(c), out);
	msg = sock_msg_copy_of(m->data, m->len, kmem_account_of(c));
	if (IS_ERR(msg))
		return (int)PTR_ERR(msg);
	list_add_tail(&msg->node, out);
	return 0;
}

/* The message of @loan has been read, or dropped. */
static void loan_over(struct sock_loan *loan)
{
	struct remote_conn *c = container_of(loan, struct remote_conn, loan);
	struct rpc_request *req;
	uint64_t limit;

	spin_lock(&c->lock);
	req = c->lender;
	c->lender = NULL;
	limit = grow_limit_locked(c);
	spin_unlock(&c->lock);
	if (req)
		remote_net_read(req, limit);
	remote_put(c);
}

/*
 * The bytes of @m stay in the ring until the program that waits for them has copied them. False:
 * they must be copied now.
 */
static bool lend_bytes(struct remote_conn *c, const struct remote_message *m, struct list_head *out)
{
	struct sock_msg *msg;
	bool may;

	spin_lock(&c->lock);
	may = m->req && c->s && !c->lender && !c->kind->records && wants_all(c->s, m->len);
	spin_unlock(&c->lock);
	if (!may || !rpc_request_keep(m->req))
		return false;
	c->loan = (struct sock_loan){ .data = m->data, .end = loan_over };
	msg = sock_msg_lend(&c->loan, m->len, kmem_account_of(c));
	if (IS_ERR(msg))
		return false;
	remote_get(c);
	list_add_tail(&msg->node, out);
	return true;
}

static void drop_msgs(struct list_head *msgs)
{
	struct sock_msg *msg, *next;

	list_for_each_entry_safe(msg, next, msgs, node) {
		list_del(&msg->node);
		sock_msg_free(msg);
	}
}

/* Make messages of the bytes of @m, and act on it. One thread at a time: it is being received. */
static int take_in(struct remote_conn *c, const struct remote_message *m, struct remote_result *res)
{
	struct list_head msgs = LIST_HEAD_INIT(msgs);
	bool lent = m->len && lend_bytes(c, m, &msgs);
	int err = m->len && !lent ? copy_bytes(c, m, &msgs) : 0;

	spin_lock(&c->lock);
	if (!err)
		err = push_locked(c, m, &msgs);
	if (!err && lent)
		c->lender = m->req;
	if (err == NOT_LENT) {
		spin_unlock(&c->lock);
		drop_msgs(&msgs);
		lent = false;
		err = copy_bytes(c, m, &msgs);
		spin_lock(&c->lock);
		if (!err)
			err = push_locked(c, m, &msgs);
	}
	c->rx_busy = false;
	if (!err && m->len)
		res->answer = expects_answer_locked(c);
	res->limit = grow_limit_locked(c);
	spin_unlock(&c->lock);
	drop_msgs(&msgs); /* that were not taken */
	res->lent = lent && !err;
	return err;
}

static int receive(struct remote_conn *c, const struct remote_message *m, struct remote_result *res)
{
	int err;

	spin_lock(&c->lock);
	err = begin_receive_locked(c, m);
	spin_unlock(&c->lock);
	return err ? err : take_in(c, m, res);
}

int remote_receive(const struct remote_message *m, struct remote_result *res)
{
	struct remote_conn *c = remote_find(m->conn, m->node, m->incarn);
	int err;

	if (!c)
		return -ECONNRESET;
	err = receive(c, m, res);
	if (err == -EPROTO)
		remote_lose(c, ECONNRESET);
	else
		remote_kick(c); /* the message may have brought room for what waits */
	remote_put(c);
	return err;
}

int remote_window(const struct remote_message *m)
{
	struct remote_conn *c = remote_find(m->conn, m->node, m->incarn);

	if (!c)
		return -ECONNRESET;
	spin_lock(&c->lock);
	c->tx_limit = MAX(c->tx_limit, m->limit);
	spin_unlock(&c->lock);
	remote_kick(c);
	remote_put(c);
	return 0;
}

int remote_reset(const struct remote_message *m)
{
	struct remote_conn *c = remote_find(m->conn, m->node, m->incarn);

	if (!c)
		return 0;
	remote_lose(c, ECONNRESET);
	remote_put(c);
	return 0;
}

/* --- membership ------------------------------------------------------------------------- */

/* One of the connections with that processor, referenced. */
static struct remote_conn *first_with(uint32_t node, uint32_t incarn)
{
	struct remote_conn *c, *found = NULL;

	spin_lock(&table.lock);
	for (uint32_t i = 0; i < BUCKETS && !found; i++) {
		hlist_for_each_entry(c, &table.buckets[i], node) {
			if (c->peer == node && c->incarn == incarn) {
				remote_get(c);
				found = c;
				break;
			}
		}
	}
	spin_unlock(&table.lock);
	return found;
}

void remote_node_gone(uint32_t node, uint32_t incarn)
{
	struct remote_conn *c;

	while ((c = first_with(node, incarn))) {
		remote_lose(c, ECONNRESET);
		remote_leave(c); /* also of one that was closed meanwhile */
		remote_put(c);
	}
	unix_far_node_gone(node, incarn);
}

int remote_init(void)
{
	int err;

	work_init(&table.reap, reap);
	table.wq = workqueue_create("sockets", 2);
	if (IS_ERR(table.wq))
		return (int)PTR_ERR(table.wq);
	err = remote_net_init();
	return err ? err : unix_remote_init();
}
