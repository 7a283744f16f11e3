/* SPDX-License-Identifier: MIT */
/*
 * Connection manager: ports, their thread, tables of connections, timers.
 *
 * Flow:	the MAD thread queues what comes in; the CM thread takes it, runs the state
 *		machine, calls event functions, and sends again what has not been answered in
 *		time.
 * Limits:	the queue of incoming messages is bounded: beyond it they are dropped, as the
 *		network might, and the peer sends again.  Finished connections are remembered
 *		for a while (TIMEWAIT), at most TIMEWAIT_MAX of them.
 */
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "cm_priv.h"

#define ITEMS_MAX    512
#define TIMEWAIT_MAX 1024
#define HASH_FIRST   64

COUNTER(cnt_dropped, "cm.dropped", "connection messages dropped: queue full or no memory");

static struct mutex ports_lock = MUTEX_INIT(ports_lock, "cm_ports", RANK_CM);
static LIST_HEAD(ports); /* ports_lock; entries stay for good */

/* --- tables -------------------------------------------------------------------------- */

static struct hlist_head *hash_head(const struct cm_hash *h, uint32_t key)
{
	return &h->heads[hash64(key) & (h->nr - 1)];
}

/* Double the tables when they get crowded; without memory they stay as they are. */
static void hash_grow(struct cm_hash *h, bool local)
{
	struct cm_hash bigger = { .nr = h->nr * 2 };

	bigger.heads = kcalloc(bigger.nr, sizeof(*bigger.heads));
	if (!bigger.heads)
		return;
	for (size_t n = 0; n < h->nr; n++) {
		while (!hlist_empty(&h->heads[n])) {
			struct hlist_node *node = h->heads[n].first;
			const struct cm_conn *conn =
				local ? container_of(node, struct cm_conn, by_local)
				      : container_of(node, struct cm_conn, by_remote);

			hlist_del(node);
			hlist_add_head(
				node, hash_head(&bigger, local ? conn->local_id : conn->remote_id));
		}
	}
	kfree(h->heads);
	*h = bigger;
}

struct cm_conn *cm_find_local_locked(struct cm_port *port, uint32_t local_id,
				     const struct rdma_addr *from)
{
	struct cm_conn *conn;

	assert_mutex_held(&port->lock);
	hlist_for_each_entry(conn, hash_head(&port->by_local, local_id), by_local) {
		if (conn->local_id == local_id && rdma_addr_equal(&conn->addr, from))
			return conn;
	}
	return NULL;
}

struct cm_conn *cm_find_remote_locked(struct cm_port *port, uint32_t remote_id,
				      const struct rdma_addr *from)
{
	struct cm_conn *conn;

	assert_mutex_held(&port->lock);
	hlist_for_each_entry(conn, hash_head(&port->by_remote, remote_id), by_remote) {
		if (conn->remote_id == remote_id && rdma_addr_equal(&conn->addr, from))
			return conn;
	}
	return NULL;
}

struct cm_conn *cm_find_qpn_locked(struct cm_port *port, uint32_t qpn, const struct rdma_addr *from)
{
	assert_mutex_held(&port->lock);
	for (size_t n = 0; n < port->by_remote.nr; n++) {
		struct cm_conn *conn;

		hlist_for_each_entry(conn, &port->by_remote.heads[n], by_remote) {
			if (conn->remote_qpn == qpn && rdma_addr_equal(&conn->addr, from) &&
			    (conn->state == CM_ESTABLISHED || conn->state == CM_REP_SENT))
				return conn;
		}
	}
	return NULL;
}

/* --- connections --------------------------------------------------------------------- */

static uint32_t id_next_locked(struct cm_port *port)
{
	assert_mutex_held(&port->lock);
	for (;;) {
		const uint32_t id = port->next_id++;
		struct cm_conn *conn;
		bool taken = id == 0;

		hlist_for_each_entry(conn, hash_head(&port->by_local, id), by_local)
			taken = taken || conn->local_id == id;
		if (!taken)
			return id;
	}
}

struct cm_conn *cm_conn_alloc(struct cm_port *port, const struct rdma_addr *addr)
{
	struct cm_conn *conn = kzalloc(sizeof(*conn));

	if (!conn)
		return ERR_PTR(-ENOMEM);
	conn->port = port;
	conn->addr = *addr;
	conn->user = true;
	list_init(&conn->timer_node);
	mutex_lock(&port->lock);
	if (port->nr_conns >= port->by_local.nr) {
		hash_grow(&port->by_local, true);
		hash_grow(&port->by_remote, false);
	}
	conn->local_id = id_next_locked(port);
	hlist_add_head(&conn->by_local, hash_head(&port->by_local, conn->local_id));
	port->nr_conns++;
	mutex_unlock(&port->lock);
	return conn;
}

/*
 * A connection only moves on: towards ESTABLISHED, then through DREQ_SENT or TIMEWAIT to IDLE.
 * IDLE is also where it begins.
 */
static __maybe_unused bool may_become(enum cm_state from, enum cm_state to)
{
	static const uint8_t next[] = {
		[CM_IDLE] = BIT(CM_REQ_SENT) | BIT(CM_REQ_RCVD),
		[CM_REQ_SENT] =
			BIT(CM_ESTABLISHED) | BIT(CM_DREQ_SENT) | BIT(CM_TIMEWAIT) | BIT(CM_IDLE),
		[CM_REQ_RCVD] = BIT(CM_REP_SENT) | BIT(CM_TIMEWAIT),
		[CM_REP_SENT] =
			BIT(CM_ESTABLISHED) | BIT(CM_DREQ_SENT) | BIT(CM_TIMEWAIT) | BIT(CM_IDLE),
		[CM_ESTABLISHED] = BIT(CM_DREQ_SENT) | BIT(CM_TIMEWAIT),
		[CM_DREQ_SENT] = BIT(CM_TIMEWAIT),
		[CM_TIMEWAIT] = BIT(CM_IDLE),
	};

	return next[from] & BIT(to);
}

void cm_set_state_locked(struct cm_conn *conn, enum cm_state to)
{
	assert_mutex_held(&conn->port->lock);
	ASSERT(may_become(conn->state, to));
	conn->state = to;
}

void cm_conn_set_remote_locked(struct cm_conn *conn, uint32_t remote_id)
{
	assert_mutex_held(&conn->port->lock);
	hlist_del(&conn->by_remote);
	conn->remote_id = remote_id;
	hlist_add_head(&conn->by_remote, hash_head(&conn->port->by_remote, remote_id));
}

void cm_conn_free_locked(struct cm_conn *conn)
{
	assert_mutex_held(&conn->port->lock);
	hlist_del(&conn->by_local);
	hlist_del(&conn->by_remote);
	list_del(&conn->timer_node);
	conn->port->nr_conns--;
	kfree(conn);
}

void cm_conn_release_locked(struct cm_conn *conn)
{
	struct cm_port *port = conn->port;

	assert_mutex_held(&port->lock);
	conn->user = false;
	conn->fn = NULL;
	switch (conn->state) {
	case CM_REQ_SENT:
		cm_send_rej_locked(conn, CM_REJ_TIMEOUT, NULL, 0);
		break;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
		cm_send_rej_locked(conn, CM_REJ_CONSUMER, NULL, 0);
		cm_timewait_locked(conn);
		break;
	case CM_ESTABLISHED:
		cm_send_dreq_locked(conn);
		break;
	default:
		break;
	}
	/* The rest is our own business, unless there is too much of it. */
	if ((conn->state == CM_DREQ_SENT || conn->state == CM_TIMEWAIT) &&
	    port->nr_timewait < TIMEWAIT_MAX) {
		port->nr_timewait++;
		return;
	}
	cm_conn_free_locked(conn);
}

void cm_event_locked(struct cm_conn *conn, const struct cm_event *ev)
	__no_lock_analysis("drops the lock while the user's function runs")
{
	struct cm_port *port = conn->port;
	const cm_event_fn fn = conn->fn;
	void *arg = conn->arg;
	int done;

	assert_mutex_held(&port->lock);
	if (!fn)
		return;
	conn->in_event = true;
	mutex_unlock(&port->lock);
	done = fn(conn, ev, arg);
	mutex_lock(&port->lock);
	conn->in_event = false;
	if (done || conn->release_after)
		cm_conn_release_locked(conn);
}

/* --- timers -------------------------------------------------------------------------- */

void cm_timer_clear_locked(struct cm_conn *conn)
{
	assert_mutex_held(&conn->port->lock);
	conn->deadline_ns = 0;
	list_del(&conn->timer_node);
}

void cm_timer_set_locked(struct cm_conn *conn, uint64_t deadline_ns)
{
	assert_mutex_held(&conn->port->lock);
	conn->deadline_ns = deadline_ns;
	list_move_tail(&conn->timer_node, &conn->port->timers);
	atomic_set(&conn->port->kick, 1);
	wake_all(&conn->port->wq);
}

static uint64_t next_deadline(struct cm_port *port)
{
	uint64_t next = WAIT_FOREVER;
	struct cm_conn *conn;

	mutex_lock(&port->lock);
	list_for_each_entry(conn, &port->timers, timer_node)
		next = MIN(next, conn->deadline_ns);
	mutex_unlock(&port->lock);
	return next;
}

/* A connection that is due, and whose user no thread is calling yet; or NULL. */
static struct cm_conn *expired_locked(struct cm_port *port, uint64_t now)
{
	struct cm_conn *conn;

	assert_mutex_held(&port->lock);
	list_for_each_entry(conn, &port->timers, timer_node) {
		if (conn->deadline_ns <= now && !conn->in_event)
			return conn;
	}
	return NULL;
}

static void timers_run(struct cm_port *port)
{
	const uint64_t now = time_now_ns();
	struct cm_conn *conn;

	mutex_lock(&port->lock);
	while ((conn = expired_locked(port, now)) != NULL) {
		assert_mutex_held(&conn->port->lock);
		cm_timer_clear_locked(conn);
		cm_expired_locked(conn);
	}
	mutex_unlock(&port->lock);
}

/* --- the thread ---------------------------------------------------------------------- */

static void mad_arrived(void *arg, const void *mad, const struct rdma_addr *from, uint32_t src_qpn)
{
	struct cm_port *port = arg;
	struct cm_item *item = kmalloc(sizeof(*item));
	bool full;

	if (!item) {
		counter_inc(&cnt_dropped);
		return;
	}
	item->from = *from;
	memcpy(item->mad, mad, MAD_LEN);
	spin_lock(&port->items_lock);
	full = port->nr_items >= ITEMS_MAX;
	if (!full) {
		list_add_tail(&item->node, &port->items);
		port->nr_items++;
	}
	spin_unlock(&port->items_lock);
	if (full) {
		counter_inc(&cnt_dropped);
		kfree(item);
		return;
	}
	atomic_set(&port->kick, 1);
	wake_all(&port->wq);
}

static struct cm_item *item_pop(struct cm_port *port)
{
	struct cm_item *item;

	spin_lock(&port->items_lock);
	item = list_first_entry_or_null(&port->items, struct cm_item, node);
	if (item) {
		list_del(&item->node);
		port->nr_items--;
	}
	spin_unlock(&port->items_lock);
	return item;
}

static void cm_thread(void *arg)
{
	struct cm_port *port = arg;

	for (;;) {
		struct cm_item *item;

		(void)wait_event_timeout(&port->wq, atomic_xchg(&port->kick, 0),
					 next_deadline(port));
		while ((item = item_pop(port)) != NULL) {
			cm_handle(port, item);
			kfree(item);
		}
		timers_run(port);
	}
}

static int port_start(struct cm_port *port)
{
	port->thread = thread_create("cm", cm_thread, port);
	if (IS_ERR(port->thread))
		return (int)PTR_ERR(port->thread);
	thread_detach(port->thread);
	return 0;
}

static struct cm_port *port_create(struct rdma_device *dev, uint8_t num)
{
	struct cm_port *port = kzalloc(sizeof(*port));
	int err = -ENOMEM;

	if (!port)
		return ERR_PTR(-ENOMEM);
	port->dev = dev;
	port->num = num;
	port->next_id = (uint32_t)random_u64();
	mutex_init(&port->lock, "cm_port", RANK_CM);
	spin_lock_init(&port->items_lock, "cm_items", RANK_SPIN_NET);
	list_init(&port->timers);
	list_init(&port->listeners);
	list_init(&port->items);
	waitqueue_init(&port->wq);
	port->by_local.nr = HASH_FIRST;
	port->by_remote.nr = HASH_FIRST;
	port->by_local.heads = kcalloc(HASH_FIRST, sizeof(struct hlist_head));
	port->by_remote.heads = kcalloc(HASH_FIRST, sizeof(struct hlist_head));
	if (!port->by_local.heads || !port->by_remote.heads)
		goto out;
	port->agent = mad_agent_register(dev, num, MAD_CLASS_CM, mad_arrived, port);
	err = PTR_ERR_OR_ZERO(port->agent);
	if (err)
		goto out;
	err = port_start(port);
	if (!err)
		return port;
	mad_agent_unregister(port->agent);
out:
	kfree(port->by_remote.heads);
	kfree(port->by_local.heads);
	kfree(port);
	return ERR_PTR(err);
}

struct cm_port *cm_port_get(struct rdma_device *dev, uint8_t num)
{
	struct cm_port *port;

	mutex_lock(&ports_lock);
	list_for_each_entry(port, &ports, node) {
		if (port->dev == dev && port->num == num)
			goto out_unlock;
	}
	port = port_create(dev, num);
	if (!IS_ERR(port))
		list_add_tail(&port->node, &ports);
out_unlock:
	mutex_unlock(&ports_lock);
	return port;
}
