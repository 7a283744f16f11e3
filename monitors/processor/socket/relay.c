/* SPDX-License-Identifier: MIT */
/*
 * Connections of other processors with the outside, at the gateway.
 *
 * Flow:	a relay is two sockets without a program: one whose peer is a socket of another
 *		processor, and one whose peer is outside. One sends what the other receives, by the
 *		same operations as programs use; ends and resets go the same way. Watchers at the
 *		sockets' queues tell of changes; a thread hands those relays to workers.
 * Invariants:	a relay is counted: until it has ended by itself, in the list of wanted ones by the
 *		list, and in the work queue by that.
 * Locking:	wanted.lock (RANK_LEAF) guards the list: watchers are told with a wait queue's lock
 *		held. relay.lock (RANK_RELAY) is the work's, so that it runs once at a time.
 * Failure:	a relay that gets no memory for bytes tries again; a connection that ends at one
 *		side in disorder is reset at the other.
 * Limits:	`gateway.connections` relays. Their memory is the node's own.
 */
#include "relay.h"

#include <abi/in.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/node.h>
#include <net/tcpip.h>
#include <processor/vfs/uio.h>

#include "inet_private.h"
#include "remote.h"
#include "remote_private.h"

#define CHUNK    16384u
#define BUDGET   32                   /* chunks of one direction before others get their turn */
#define PAUSE_NS (20 * NSEC_PER_MSEC) /* before memory is asked for again */

COUNTER(relay_opened, "gateway.opened", "connections of other processors to the outside");
COUNTER(relay_accepted, "gateway.accepted", "connections from outside for other processors");
COUNTER(relay_failed, "gateway.failed", "such connections that did not come about");

static uint32_t max_relays = 16384;
BOOT_PARAM_RANGE("gateway.connections", u32, max_relays, 1, 1048576,
		 "connections with the outside that the gateway has for other processors");

enum relay_state {
	RELAY_OPENING,   /* the outside has not answered */
	RELAY_STARTING,  /* the other processor has not been asked */
	RELAY_ACCEPTING, /* it has not answered */
	RELAY_MOVING,
	RELAY_ENDED,
};

/* One direction. */
struct flow {
	uint8_t *left; /* received and not sent; NULL: nothing */
	size_t off, len;
	bool ended, told; /* no more comes; the other side knows */
};

struct relay {
	refcount_t refs;
	struct list_head link; /* wanted.lock */
	struct work work;
	struct timer timer;
	struct watcher watchers[4];
	uint32_t node, incarn;       /* const: the other processor */
	struct mutex lock;           /* RANK_RELAY */
	enum relay_state state;      /* lock */
	bool watched;                /* lock */
	struct socket *in, *out;     /* lock; NULL: not there yet, or not any more */
	uint32_t options;            /* lock: inet_socket.relayed of @in that @out knows */
	struct flow outward, inward; /* lock */
};

static struct {
	struct spinlock lock;                        /* RANK_LEAF */
	struct list_head relays __guarded_by(&lock); /* struct relay.link */
	struct thread *thread;                       /* const once set */
	struct workqueue *wq;                        /* const once set */
	uint32_t nr;                                 /* atomic: of all relays */
} wanted = {
	.lock = SPINLOCK_INIT("relays", RANK_LEAF),
	.relays = LIST_HEAD_INIT(wanted.relays),
};

static uint64_t gauge_relays(void)
{
	return __atomic_load_n(&wanted.nr, __ATOMIC_RELAXED);
}
GAUGE(relays_gauge, "gateway.connections", "connections with the outside of other processors",
      gauge_relays);

/* --- who is to run ---------------------------------------------------------------------- */

static void relay_put(struct relay *r)
{
	if (!refcount_dec_and_test(&r->refs))
		return;
	ASSERT(r->state == RELAY_ENDED && !r->in && !r->out);
	kfree(r);
	__atomic_sub_fetch(&wanted.nr, 1, __ATOMIC_RELAXED);
}

/* Any context. */
static void want(struct relay *r)
{
	const unsigned long flags = spin_lock_irqsave(&wanted.lock);
	const bool added = list_empty(&r->link);

	if (added) {
		refcount_inc(&r->refs);
		list_add_tail(&r->link, &wanted.relays);
	}
	spin_unlock_irqrestore(&wanted.lock, flags);
	if (added)
		(void)thread_wake(wanted.thread);
}

static struct relay *next_wanted(void)
{
	const unsigned long flags = spin_lock_irqsave(&wanted.lock);
	struct relay *r = list_first_entry_or_null(&wanted.relays, struct relay, link);

	if (r) {
		list_del(&r->link);
		list_init(&r->link);
	}
	spin_unlock_irqrestore(&wanted.lock, flags);
	return r;
}

static void relays_main(void *arg)
{
	for (;;) {
		struct relay *r;

		thread_prepare_sleep();
		r = next_wanted();
		if (!r) {
			schedule();
			continue;
		}
		thread_cancel_sleep();
		/* The list's reference is the queue's now. */
		if (!work_queue(wanted.wq, &r->work))
			relay_put(r);
	}
}

static bool notify(struct watcher *w, unsigned int i)
{
	want(container_of(w - i, struct relay, watchers[0]));
	return true;
}

static bool notify_in_rd(struct watcher *w)
{
	return notify(w, 0);
}

static bool notify_in_wr(struct watcher *w)
{
	return notify(w, 1);
}

static bool notify_out_rd(struct watcher *w)
{
	return notify(w, 2);
}

static bool notify_out_wr(struct watcher *w)
{
	return notify(w, 3);
}

static void on_timer(void *arg)
{
	want(arg);
}

static bool (*const notifiers[4])(struct watcher *w) = { notify_in_rd, notify_in_wr, notify_out_rd,
							 notify_out_wr };

static void watch_locked(struct relay *r) __must_hold(&r->lock)
{
	assert_mutex_held(&r->lock);
	ASSERT(!r->watched);
	for (unsigned int i = 0; i < ARRAY_SIZE(r->watchers); i++)
		r->watchers[i] = (struct watcher){ .notify = notifiers[i] };
	watch_begin(&r->in->rd_wait, &r->watchers[0]);
	watch_begin(&r->in->wr_wait, &r->watchers[1]);
	watch_begin(&r->out->rd_wait, &r->watchers[2]);
	watch_begin(&r->out->wr_wait, &r->watchers[3]);
	r->watched = true;
}

static void unwatch_locked(struct relay *r) __must_hold(&r->lock)
{
	assert_mutex_held(&r->lock);
	if (!r->watched)
		return;
	watch_end(&r->in->rd_wait, &r->watchers[0]);
	watch_end(&r->in->wr_wait, &r->watchers[1]);
	watch_end(&r->out->rd_wait, &r->watchers[2]);
	watch_end(&r->out->wr_wait, &r->watchers[3]);
	r->watched = false;
}

static void work_fn(struct work *w);

/* One reference, the relay's own. NULL: there are too many, or no memory. */
static struct relay *relay_make(enum relay_state state, uint32_t node, uint32_t incarn)
{
	struct relay *r = NULL;

	if (__atomic_add_fetch(&wanted.nr, 1, __ATOMIC_RELAXED) <= max_relays)
		r = kzalloc(sizeof(*r));
	if (!r) {
		__atomic_sub_fetch(&wanted.nr, 1, __ATOMIC_RELAXED);
		counter_inc(&relay_failed);
		return NULL;
	}
	refcount_set(&r->refs, 1);
	list_init(&r->link);
	mutex_init(&r->lock, "relay", RANK_RELAY);
	work_init(&r->work, work_fn);
	timer_init(&r->timer, on_timer, r);
	r->state = state;
	r->node = node;
	r->incarn = incarn;
	return r;
}

/* --- its end ---------------------------------------------------------------------------- */

static void drop(struct socket **s, bool reset)
{
	if (!*s)
		return;
	if (reset) {
		/* As a program asks for it: SO_LINGER of no time. */
		WRITE_ONCE((*s)->linger_s, 0);
		__atomic_fetch_or(&(*s)->options, SOCKET_LINGER, __ATOMIC_RELAXED);
	}
	socket_drop(*s);
	*s = NULL;
}

/* @reset: in disorder; both sides hear so. The caller has a reference besides the relay's own. */
static void end_locked(struct relay *r, bool reset) __must_hold(&r->lock)
{
	assert_mutex_held(&r->lock);
	ASSERT(r->state != RELAY_ENDED);
	unwatch_locked(r);
	(void)timer_cancel(&r->timer);
	drop(&r->in, reset);
	drop(&r->out, reset);
	kfree(r->outward.left);
	kfree(r->inward.left);
	r->outward.left = r->inward.left = NULL;
	r->state = RELAY_ENDED;
	relay_put(r);
}

/* --- bytes ------------------------------------------------------------------------------ */

static ssize_t receive(struct socket *s, void *buf, size_t len)
{
	struct socket_msg m = { .flags = MSG_DONTWAIT };
	struct uio u;

	uio_kernel(&u, buf, len);
	m.uio = &u;
	return s->ops->recvmsg(s, &m);
}

static ssize_t send(struct socket *s, const void *buf, size_t len)
{
	struct socket_msg m = { .flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct uio u;

	uio_kernel(&u, (void *)(uintptr_t)buf, len);
	m.uio = &u;
	return s->ops->sendmsg(s, &m);
}

/* Send what is left from before. 0: that is all; else why not. */
static ssize_t flush(struct flow *f, struct socket *to)
{
	while (f->off < f->len) {
		const ssize_t n = send(to, f->left + f->off, f->len - f->off);

		if (n <= 0)
			return n ? n : -EAGAIN;
		f->off += (size_t)n;
	}
	kfree(f->left);
	f->left = NULL;
	f->off = f->len = 0;
	return 0;
}

/* The next bytes from @from. 0: there are some, or the end has come; else why not. */
static ssize_t fill(struct flow *f, struct socket *from)
{
	ssize_t n;

	ASSERT(!f->left && !f->ended);
	f->left = kmalloc(CHUNK);
	if (!f->left)
		return -ENOBUFS;
	n = receive(from, f->left, CHUNK);
	if (n > 0) {
		f->len = (size_t)n;
		return 0;
	}
	kfree(f->left);
	f->left = NULL;
	f->ended = n == 0;
	return n;
}

/* Move what can be moved. -EAGAIN: no more now; 0: more, or nothing any more; else it is broken. */
static ssize_t move(struct flow *f, struct socket *from, struct socket *to)
{
	for (int i = 0; i < BUDGET && !f->told; i++) {
		ssize_t err = flush(f, to);

		if (!err && !f->ended)
			err = fill(f, from);
		if (err)
			return err;
		if (f->ended) {
			/* It may have been reset: then its other direction says so. */
			(void)to->ops->shutdown(to, SHUT_WR);
			f->told = true;
		}
	}
	return 0;
}

static bool is_memory(ssize_t err)
{
	return err == -ENOBUFS || err == -ENOMEM;
}

static bool is_broken(ssize_t err)
{
	return err && err != -EAGAIN && !is_memory(err);
}

static void move_both_locked(struct relay *r) __must_hold(&r->lock)
{
	const bool closed = remote_peer_has_closed(r->in);
	const ssize_t outward = move(&r->outward, r->in, r->out);
	const ssize_t inward = move(&r->inward, r->out, r->in);

	assert_mutex_held(&r->lock);
	if (r->outward.told && (r->inward.told || closed)) {
		end_locked(r, false); /* the stack brings the connection to its end */
		return;
	}
	if (is_broken(outward) || is_broken(inward)) {
		end_locked(r, true);
		return;
	}
	if (is_memory(outward) || is_memory(inward))
		timer_set(&r->timer, time_now_ns() + PAUSE_NS);
	if ((!outward && !r->outward.told) || (!inward && !r->inward.told))
		want(r);
}

/* --- beginnings ------------------------------------------------------------------------- */

static struct socket *make_socket(const struct inet_name *local, const struct inet_name *remote)
{
	struct socket *s = socket_create_internal(
		&tcp_ops, inet_is_v4(local->addr) ? AF_INET : AF_INET6, SOCK_STREAM, SOL_TCP);

	if (IS_ERR(s))
		return NULL;
	inet_of(s)->local = *local;
	inet_of(s)->remote = *remote;
	inet_of(s)->told = true;
	return s;
}

/* The outside has answered; the asking end is told what. */
static void tell_locked(struct relay *r, int err) __must_hold(&r->lock)
{
	struct remote_conn *c = remote_of(r->in);

	assert_mutex_held(&r->lock);
	if (!c)
		return;
	remote_tell_opened(c, err, inet_of(r->out)->local.addr);
	remote_put(c);
}

/* Both sockets, the outer one on its way to connect. */
static int connect_locked(struct relay *r, const struct remote_request *req, uint64_t *id,
			  uint64_t *limit) __must_hold(&r->lock)
{
	struct inet_name from = { .port = req->from.port };
	int err;

	assert_mutex_held(&r->lock);
	if (inet_is_v4(req->to.addr))
		from.addr[10] = from.addr[11] = 0xff; /* the stack chooses the address */
	r->out = make_socket(&from, &req->to);
	r->in = make_socket(&req->to, &req->from);
	if (!r->out || !r->in)
		return -ENOBUFS;
	inet_of(r->in)->relayed = r->options = 1;
	r->out->state = SOCKET_BUSY;
	err = outside_connect_here(r->out, &req->to);
	if (err && err != -EINPROGRESS)
		return err;
	r->in->ops = &remote_ops;
	r->in->state = SOCKET_CONNECTED;
	if (!remote_open_end(r->in, &remote_tcp, NULL, req, id, limit))
		return -ENOBUFS;
	watch_locked(r);
	return 0;
}

int relay_connect(const struct remote_request *req, uint64_t *id, uint64_t *limit)
{
	struct relay *r;
	int err;

	if (!tcpip_is_present() || inet_is_local(req->to.addr) || inet_is_multicast(req->to.addr))
		return -ENETUNREACH;
	r = relay_make(RELAY_OPENING, req->node, req->incarn);
	if (!r)
		return -ENOBUFS;
	refcount_inc(&r->refs);
	mutex_lock(&r->lock);
	err = connect_locked(r, req, id, limit);
	if (err)
		end_locked(r, true);
	mutex_unlock(&r->lock);
	counter_inc(err ? &relay_failed : &relay_opened);
	/* Membership looks at the connections once: it may have done so before. */
	if (!err && rpc_peer_has_left(req->node, req->incarn))
		remote_node_gone(req->node, req->incarn);
	if (!err)
		want(r);
	relay_put(r);
	return err;
}

int relay_accept(struct tcpip_conn *c, const struct inet_name *local,
		 const struct inet_name *remote, uint32_t node, uint32_t incarn)
{
	struct relay *r = relay_make(RELAY_STARTING, node, incarn);

	if (!r)
		return -ENOBUFS;
	r->out = outside_make_internal(c, local, remote);
	if (IS_ERR(r->out)) {
		r->out = NULL;
		r->state = RELAY_ENDED;
		relay_put(r);
		return -ENOBUFS;
	}
	counter_inc(&relay_accepted);
	want(r);
	return 0;
}

static void open_locked(struct relay *r) __must_hold(&r->lock)
{
	const uint32_t state = __atomic_load_n(&r->out->state, __ATOMIC_ACQUIRE);
	int err;

	assert_mutex_held(&r->lock);
	if (state == SOCKET_CONNECTED) {
		tell_locked(r, 0);
		r->state = RELAY_MOVING;
	} else if (state != SOCKET_CONNECTING) {
		err = socket_take_error(r->out);
		tell_locked(r, err ? err : ECONNREFUSED);
		counter_inc(&relay_failed);
		end_locked(r, true);
	} else if (READ_ONCE(r->in->state) == SOCKET_CLOSED) {
		end_locked(r, true); /* the program has given up, or its processor has left */
	}
}

/* A connection from outside is there; its listener is asked. */
static void start_locked(struct relay *r) __must_hold(&r->lock)
{
	const struct inet_socket *u = inet_of(r->out);
	int err = -ENOBUFS;

	assert_mutex_held(&r->lock);
	r->in = make_socket(&u->remote, &u->local);
	if (r->in) {
		inet_of(r->in)->relayed = r->options = 1;
		r->in->state = SOCKET_BUSY;
		r->state = RELAY_ACCEPTING;
		watch_locked(r);
		err = remote_connect_inside(r->in, r->node, r->incarn);
	}
	if (!err)
		return;
	counter_inc(&relay_failed);
	end_locked(r, true);
}

static void accept_locked(struct relay *r) __must_hold(&r->lock)
{
	const uint32_t state = __atomic_load_n(&r->in->state, __ATOMIC_ACQUIRE);

	assert_mutex_held(&r->lock);
	if (state == SOCKET_CONNECTED) {
		outside_accepted(r->out);
		r->state = RELAY_MOVING;
	} else if (state != SOCKET_CONNECTING && state != SOCKET_BUSY) {
		counter_inc(&relay_failed);
		end_locked(r, true);
	} else if (READ_ONCE(r->out->state) == SOCKET_CLOSED) {
		end_locked(r, true); /* the outside has given up */
	}
}

/* The program has set options. */
static void options_locked(struct relay *r) __must_hold(&r->lock)
{
	uint32_t n;

	assert_mutex_held(&r->lock);
	if (!r->in || !r->out)
		return;
	n = __atomic_load_n(&inet_of(r->in)->relayed, __ATOMIC_ACQUIRE);
	if (n == r->options)
		return;
	r->options = n;
	outside_take_options(r->out, r->in);
}

static void work_fn(struct work *w)
{
	struct relay *r = container_of(w, struct relay, work);

	mutex_lock(&r->lock);
	options_locked(r);
	if (r->state == RELAY_OPENING)
		open_locked(r);
	if (r->state == RELAY_STARTING)
		start_locked(r);
	if (r->state == RELAY_ACCEPTING)
		accept_locked(r);
	if (r->state == RELAY_MOVING)
		move_both_locked(r);
	mutex_unlock(&r->lock);
	relay_put(r);
}

int relay_init(void)
{
	struct thread *t;

	wanted.wq = workqueue_create("relays", 2);
	if (IS_ERR(wanted.wq))
		return (int)PTR_ERR(wanted.wq);
	t = thread_create("relays", relays_main, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	wanted.thread = t;
	thread_detach(t);
	return 0;
}
