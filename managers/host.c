/* SPDX-License-Identifier: MIT */
/*
 * Membership at the node that hosts the managers.
 *
 * Flow:	JOIN enters a node (a new incarnation replaces and fences the old one), BEAT renews its lease;
 *		each change makes a new epoch, which the host applies to itself and sends to all.  A view that
 *		is lost on the way is repaired by the answer to the next heartbeat.
 * Locking:	host.lock (RANK_MANAGER); views are sent from a copy, without it.
 * Failure:	a node whose lease ends is taken out, and refused (ESTALE) until it joins anew; nothing here
 *		cannot be rebuilt by the nodes joining again.
 */
#define PR_FMT "cluster: "

#include "host.h"

#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "params.h"
#include "view.h"

#define SCAN_NS 500000000ull

COUNTER(host_joins, "cluster.joins", "nodes that joined");
COUNTER(host_expired, "cluster.expired", "nodes whose lease ended");
COUNTER(host_views, "cluster.views_sent", "views sent to members");

static struct {
	struct mutex lock; /* RANK_MANAGER */
	struct cluster_view view __guarded_by(&lock);
	uint64_t seen_ns[0x10000 / 64][64] __guarded_by(&lock); /* by node id */
	bool dirty __guarded_by(&lock);                         /* atomic for the wait condition */
	struct waitqueue wake;
	uint32_t self;
} host = { .lock = MUTEX_INIT(host.lock, "cluster.host", RANK_MANAGER) };

static uint64_t *seen_locked(uint32_t id)
{
	return &host.seen_ns[id / 64][id % 64];
}

static void changed_locked(void)
{
	host.view.epoch++;
	if (view_is_complete(&host.view))
		host.view.flags |= CLUSTER_COMPLETE; /* stays: nodes may come and go from here on */
	__atomic_store_n(&host.dirty, true, __ATOMIC_RELEASE);
	wake_one(&host.wake);
}

/* --- requests ------------------------------------------------------------------------ */

static void reply_view(struct rpc_request *req, uint32_t known_epoch)
{
	uint8_t *body = kmalloc(RPC_BODY_MAX_CTL);
	ssize_t len = -ENOMEM;

	mutex_lock(&host.lock);
	if (body && known_epoch == host.view.epoch) {
		struct cluster_view_wire *w = (struct cluster_view_wire *)(void *)body;

		*w = (struct cluster_view_wire){ .epoch = cpu_to_le32(host.view.epoch),
						 .flags = cpu_to_le32(host.view.flags) };
		len = sizeof(*w);
	} else if (body) {
		len = cluster_view_encode(&host.view, body, RPC_BODY_MAX_CTL);
	}
	mutex_unlock(&host.lock);
	if (len < 0)
		rpc_reply(req, (int)len, NULL, 0);
	else
		rpc_reply(req, 0, body, (uint32_t)len);
	kfree(body);
}

static int join(const struct cluster_member *m)
{
	bool found;
	size_t at;
	int err = 0;

	mutex_lock(&host.lock);
	at = view_find(&host.view, m->id, &found);
	*seen_locked(m->id) = time_now_ns();
	if (!found || host.view.members[at].incarn != m->incarn) {
		err = view_put(&host.view, m);
		if (!err) {
			counter_inc(&host_joins);
			changed_locked();
		}
	}
	mutex_unlock(&host.lock);
	return err;
}

static enum rpc_handler_result handle_join(struct rpc_request *req, void *arg)
{
	struct cluster_member m;
	struct node_info info;
	uint32_t len;
	const void *body = rpc_request_body(req, &len);
	struct cluster_member_wire copy;
	int err = len == sizeof(copy) ? 0 : -EMSGSIZE;

	if (!err) {
		memcpy(&copy, body, sizeof(copy)); /* the ring is the peer's to change */
		err = cluster_member_decode(&copy, sizeof(copy), &m);
	}
	/* Who it is and where it is, the connection knows better than the message. */
	if (!err && (m.id != rpc_request_peer(req) || !rpc_peer_info(m.id, &info) ||
		     info.incarn != m.incarn || info.role != m.role))
		err = -EPROTO;
	if (!err) {
		m.lid = info.addr.dlid;
		err = join(&m);
	}
	if (err)
		rpc_reply(req, err, NULL, 0);
	else
		reply_view(req, 0);
	return RPC_DONE;
}

static enum rpc_handler_result handle_beat(struct rpc_request *req, void *arg)
{
	const uint32_t id = rpc_request_peer(req);
	struct cluster_beat_wire copy;
	uint32_t len, epoch, incarn;
	const void *body = rpc_request_body(req, &len);
	bool found;
	size_t at;
	int err = len == sizeof(copy) ? 0 : -EMSGSIZE;

	if (!err) {
		memcpy(&copy, body, sizeof(copy));
		err = cluster_beat_decode(&copy, sizeof(copy), &epoch, &incarn);
	}
	if (!err) {
		mutex_lock(&host.lock);
		at = view_find(&host.view, id, &found);
		if (!found || host.view.members[at].incarn != incarn)
			err = -ESTALE;
		else
			*seen_locked(id) = time_now_ns();
		mutex_unlock(&host.lock);
	}
	if (err)
		rpc_reply(req, err, NULL, 0);
	else
		reply_view(req, epoch);
	return RPC_DONE;
}

static const struct rpc_handler handlers[] = {
	/* Worker thread; the sender lives (it has just connected); races with nothing but itself; twice: same. */
	{ CLUSTER_JOIN, RPC_HANDLER_IDEMPOTENT, "cluster-join", handle_join },
	/* Worker thread; as JOIN. */
	{ CLUSTER_BEAT, RPC_HANDLER_IDEMPOTENT, "cluster-beat", handle_beat },
};

/* --- leases and views ---------------------------------------------------------------- */

static void expire_locked(void)
{
	const uint64_t lease = cluster_params.lease_ms * 1000000ull;
	const uint64_t now = time_now_ns();

	for (size_t i = host.view.nr_members; i-- > 0;) {
		const struct cluster_member m = host.view.members[i];

		if (m.id == host.self || now - *seen_locked(m.id) < lease)
			continue;
		pr_warn("node %u was silent for %u ms: fenced\n", m.id, cluster_params.lease_ms);
		counter_inc(&host_expired);
		(void)view_remove(&host.view, m.id);
		changed_locked();
	}
}

static void view_sent(struct rpc_call *call)
{
	counter_inc(&host_views);
}

/* Best effort: who misses it hears of it with its next heartbeat. */
static void send_view(uint32_t node, const void *body, uint32_t len)
{
	struct rpc_call *call = rpc_call_alloc();

	if (!call)
		return;
	call->peer = node;
	call->cls = RPC_CLASS_CONTROL;
	call->opcode = CLUSTER_VIEW;
	call->body = body;
	call->body_len = len;
	call->done = view_sent;
	if (rpc_call_submit(call) != 0)
		pr_debug("view for node %u waits for its heartbeat\n", node);
	rpc_call_put(call);
}

static void publish(struct cluster_view *copy, uint8_t *body)
{
	ssize_t len;

	mutex_lock(&host.lock);
	*copy = host.view;
	__atomic_store_n(&host.dirty, false, __ATOMIC_RELAXED);
	mutex_unlock(&host.lock);
	cluster_apply(copy); /* introduces new members to the RPC layer first */
	len = cluster_view_encode(copy, body, RPC_BODY_MAX_CTL);
	for (size_t i = 0; len > 0 && i < copy->nr_members; i++) {
		if (copy->members[i].id != host.self)
			send_view(copy->members[i].id, body, (uint32_t)len);
	}
}

static void host_thread(void *arg)
{
	static struct cluster_view copy; /* this thread's */
	static uint8_t body[RPC_BODY_MAX_CTL];

	for (;;) {
		mutex_lock(&host.lock);
		expire_locked();
		mutex_unlock(&host.lock);
		if (__atomic_load_n(&host.dirty, __ATOMIC_ACQUIRE))
			publish(&copy, body);
		(void)wait_event_timeout(&host.wake, __atomic_load_n(&host.dirty, __ATOMIC_ACQUIRE),
					 time_now_ns() + SCAN_NS);
	}
}

int cluster_host_start(const struct cluster_member *self)
{
	struct thread *t;
	int err;

	waitqueue_init(&host.wake);
	host.self = self->id;
	mutex_lock(&host.lock);
	memcpy(host.view.wanted, cluster_params.wanted, sizeof(host.view.wanted));
	err = view_put(&host.view, self);
	changed_locked();
	mutex_unlock(&host.lock);
	if (!err)
		err = rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
	if (err)
		return err;
	t = thread_create("cluster-host", host_thread, NULL);
	if (IS_ERR(t))
		return PTR_ERR(t);
	thread_detach(t);
	rpc_accept_strangers(true);
	return 0;
}
