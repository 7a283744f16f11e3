/* SPDX-License-Identifier: MIT */
/*
 * TCP inside the vNode: bytes that their sender holds back, by MSG_MORE or TCP_CORK.
 *
 * Flow:	the bytes lie at the peer (socket.held) and have not arrived: the peer does not see
 *		them. They arrive in front of the next bytes that are not held back; as soon as
 *		there are as many as a segment of Linux's loopback has; when the sender has to wait
 *		for room, sets TCP_NODELAY, takes TCP_CORK back or sends no more; and CORK_NS after
 *		the first of them, for which a list of such peers has one timer.
 * Locking:	watch.lock (RANK_SOCKET_TABLE), then socket.lock
 * Context:	the timer's interrupt only queues work, which wakes the readers.
 */
#include <abi/in.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/work.h>
#include <lib/err.h>

#include "inet_private.h"
#include "queue.h"

static struct {
	struct spinlock lock;
	struct list_head peers; /* lock: struct inet_socket.watch_link, counted, by watch_ns */
	struct timer timer;
	struct work work;
	struct workqueue *wq; /* const */
} watch = {
	.lock = SPINLOCK_INIT("tcp corks", RANK_SOCKET_TABLE),
	.peers = LIST_HEAD_INIT(watch.peers),
};

uint32_t tcp_cork_limit(struct socket *s, uint32_t flags)
{
	int corked;

	(void)inet_option_changed(s, SOL_TCP, TCP_CORK, &corked);
	return corked || (flags & MSG_MORE) ? LOOPBACK_MSS : 0;
}

/* In the order of time; the list is short, and most come last. */
static void insert_locked(struct inet_socket *u) __must_hold(&watch.lock)
{
	struct list_head *after = watch.peers.prev;

	assert_spin_held(&watch.lock);
	while (after != &watch.peers &&
	       list_entry(after, struct inet_socket, watch_link)->watch_ns > u->watch_ns)
		after = after->prev;
	list_add(&u->watch_link, after);
	if (watch.peers.next == &u->watch_link)
		timer_set(&watch.timer, u->watch_ns);
}

void tcp_cork_watch(struct socket *peer)
{
	struct inet_socket *u = inet_of(peer);

	spin_lock(&watch.lock);
	spin_lock(&peer->lock);
	if (!u->watched && !list_empty(&peer->held)) {
		u->watched = true;
		u->watch_ns = peer->held_ns + CORK_NS;
		socket_get(peer);
		insert_locked(u);
	}
	spin_unlock(&peer->lock);
	spin_unlock(&watch.lock);
}

void tcp_push(struct socket *s)
{
	struct socket *peer = socket_peer_get(s);

	if (!peer)
		return;
	socket_release_held(peer);
	socket_put(peer);
}

/*
 * The time of the first of the list has come: its bytes arrive. It stays in the list if they have,
 * and others are held back since. Returns it, referenced, if it was taken out.
 */
static struct socket *expire(uint64_t now)
{
	struct inet_socket *u = NULL;
	bool out;

	spin_lock(&watch.lock);
	if (!list_empty(&watch.peers))
		u = list_first_entry(&watch.peers, struct inet_socket, watch_link);
	if (u && u->watch_ns > now) {
		timer_set(&watch.timer, u->watch_ns);
		u = NULL;
	}
	if (!u) {
		spin_unlock(&watch.lock);
		return NULL;
	}
	list_del(&u->watch_link);
	spin_lock(&u->s.lock);
	u->watch_ns = u->s.held_ns + CORK_NS;
	out = list_empty(&u->s.held) || u->watch_ns <= now;
	u->watched = !out;
	if (out)
		sock_queue_release_locked(&u->s);
	spin_unlock(&u->s.lock);
	if (!out) {
		socket_get(&u->s); /* the list's, and the caller's */
		insert_locked(u);
	}
	spin_unlock(&watch.lock);
	return &u->s;
}

static void watch_work(struct work *w)
{
	struct socket *s;

	while ((s = expire(time_now_ns()))) {
		socket_wake(&s->rd_wait);
		socket_put(s);
	}
}

static void on_timer(void *arg)
{
	(void)work_queue(watch.wq, &watch.work); /* it may be queued already */
}

int tcp_cork_init(void)
{
	work_init(&watch.work, watch_work);
	timer_init(&watch.timer, on_timer, NULL);
	watch.wq = workqueue_create("tcp corks", 1);
	return IS_ERR(watch.wq) ? (int)PTR_ERR(watch.wq) : 0;
}
