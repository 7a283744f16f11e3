/* SPDX-License-Identifier: MIT */
/*
 * The service of the managers: membership at the node that hosts them, and GPM.
 *
 * Flow:	JOIN enters a node (a new incarnation replaces and fences the old one). A heartbeat
 *		renews the node's lease; its number tells one that comes late or twice, which
 *		renews nothing. Each change makes a new epoch; the host applies it to itself and
 *		sends it to all. The answer to the next heartbeat repairs a view that is lost on
 *		the way.
 * Locking:	host.lock (RANK_MANAGER); views are sent from a copy, without it.
 * Invariants:	every member but the host itself has one lease.
 * Failure:	the host takes out a node whose lease ends, and refuses it (ESTALE) until it joins
 *		anew; a heartbeat that comes after the end does not undo it, even if the host has
 *		not looked in between. When the host itself has stood still, all leases are longer
 *		by that. Nodes that join again rebuild all of this.
 */
#define PR_FMT "cluster: "

#include <managers/placement.h>

#include <cluster/cluster.h>
#include <cluster/membership.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <managers/policy.h>
#include <mm/slab.h>
#include <net/rpc.h>

#define SCAN_NS  500000000ull
#define STALL_NS (SCAN_NS + 1000000000ull) /* between two looks: this node stood still */

COUNTER(host_joins, "cluster.joins", "nodes that joined");
COUNTER(host_expired, "cluster.expired", "nodes whose lease ended");
COUNTER(gpm_placed, "gpm.placed", "programs that GPM has placed");
COUNTER(host_views, "cluster.views_sent", "views sent to members");

COUNTER(host_heartbeats, "cluster.heartbeats", "heartbeats that renewed a lease");
COUNTER(host_old_heartbeats, "cluster.heartbeats_old", "heartbeats that came late or twice");

struct lease {
	uint32_t id; /* 0 = free */
	uint64_t seen_ns;
	uint64_t seq; /* of the last heartbeat that renewed it */
};

static struct {
	struct mutex lock; /* RANK_MANAGER */
	struct cluster_view view __guarded_by(&lock);
	struct lease leases[CLUSTER_MAX_MEMBERS] __guarded_by(
		&lock); /* one for each member, in any order */
	struct gpm gpm __guarded_by(&lock);
	uint64_t looked_ns __guarded_by(&lock);
	bool dirty __guarded_by(&lock); /* atomic for the wait condition */
	struct waitqueue wake;
	uint32_t self;
} host = {
	.lock = MUTEX_INIT(host.lock, "cluster.host", RANK_MANAGER),
	.gpm = { .ops = &gpm_least_busy },
};

/* The lease of a member, or with @id 0 a free one; NULL = there is none. */
static struct lease *lease_locked(uint32_t id)
{
	assert_mutex_held(&host.lock);
	for (size_t i = 0; i < CLUSTER_MAX_MEMBERS; i++) {
		if (host.leases[i].id == id)
			return &host.leases[i];
	}
	return NULL;
}

static size_t __maybe_unused nr_leases_locked(void)
{
	size_t nr = 0;

	assert_mutex_held(&host.lock);
	for (size_t i = 0; i < CLUSTER_MAX_MEMBERS; i++)
		nr += host.leases[i].id != 0;
	return nr;
}

/* The members have changed: the only place that makes a new epoch. */
static void changed_locked(void)
{
	assert_mutex_held(&host.lock);
	ASSERT(nr_leases_locked() + 1 == host.view.nr_members);
	view_check(&host.view);
	host.view.epoch++;
	if (view_is_complete(&host.view))
		host.view.flags |= CLUSTER_COMPLETE; /* stays: nodes may come and go from here on */
	__atomic_store_n(&host.dirty, true, __ATOMIC_RELEASE);
	wake_one(&host.wake);
}

/* --- leases -------------------------------------------------------------------------- */

/* Nodes could not renew their leases while this node stood still: that time does not count. */
static void look_locked(uint64_t now)
{
	uint64_t gap;

	assert_mutex_held(&host.lock);
	gap = now - host.looked_ns;
	/*
	 * Never into the future: one that was seen just after the last look is as good as seen
	 * now.
	 */
	for (size_t i = 0; host.looked_ns && gap > STALL_NS && i < CLUSTER_MAX_MEMBERS; i++)
		host.leases[i].seen_ns = MIN(host.leases[i].seen_ns + gap, now);
	host.looked_ns = now;
}

/* Take out the nodes whose lease is over. */
static void expire_locked(void)
{
	const uint64_t now = time_now_ns();
	uint64_t period;

	assert_mutex_held(&host.lock);
	period = host.view.lease_ms * 1000000ull;
	look_locked(now);
	for (size_t i = host.view.nr_members; i-- > 0;) {
		const struct cluster_member m = host.view.members[i];
		struct lease *l = lease_locked(m.id);

		if (m.id == host.self || (l && now < l->seen_ns + period))
			continue;
		pr_warn("node %u was silent for %u ms: fenced\n", m.id, host.view.lease_ms);
		counter_inc(&host_expired);
		(void)view_remove(&host.view, m.id);
		gpm_forget(&host.gpm, m.id);
		if (l)
			l->id = 0;
		changed_locked();
	}
}

/* -ESTALE: no member, or not any more. */
static int renew_locked(uint32_t id, const struct cluster_heartbeat *heartbeat)
{
	struct lease *l;
	bool found;
	size_t at;

	assert_mutex_held(&host.lock);
	expire_locked();
	at = view_find(&host.view, id, &found);
	l = lease_locked(id);
	if (!found || host.view.members[at].incarn != heartbeat->incarn || !l)
		return -ESTALE;
	if (heartbeat->seq <= l->seq) {
		counter_inc(&host_old_heartbeats);
		return 0;
	}
	counter_inc(&host_heartbeats);
	l->seq = heartbeat->seq;
	l->seen_ns = time_now_ns();
	if (host.view.members[at].role == NODE_ROLE_PROCESSOR)
		gpm_report(&host.gpm, id, &heartbeat->load);
	return 0;
}

/* --- requests ------------------------------------------------------------------------ */

/* The view, or only its header: when the node has it, or it does not fit into the reply. */
static ssize_t view_for(uint32_t known_epoch, void *body, size_t max)
{
	struct cluster_view_wire w = { .nr_members = cpu_to_le16(0) };
	ssize_t len = -EMSGSIZE;

	mutex_lock(&host.lock);
	if (known_epoch != host.view.epoch)
		len = cluster_view_encode(&host.view, body, max);
	if (len < 0) {
		w.epoch = cpu_to_le32(host.view.epoch);
		w.flags = cpu_to_le32(host.view.flags);
		w.lease_ms = cpu_to_le32(host.view.lease_ms);
		memcpy(body, &w, sizeof(w));
		len = sizeof(w);
	}
	mutex_unlock(&host.lock);
	return len;
}

static void reply_view(struct rpc_request *req, uint32_t known_epoch)
{
	const uint32_t max = rpc_request_reply_max(req);
	uint8_t *body = kmalloc(max);
	const ssize_t len = body ? view_for(known_epoch, body, max) : -ENOMEM;

	if (len < 0)
		rpc_reply(req, (int)len, NULL, 0);
	else
		rpc_reply(req, 0, body, (uint32_t)len);
	kfree(body);
}

static int join(const struct cluster_member *m)
{
	bool found;
	struct lease *l;
	size_t at;
	int err = 0;

	mutex_lock(&host.lock);
	at = view_find(&host.view, m->id, &found);
	l = lease_locked(found ? m->id : 0);
	if (!l) {
		err = -ENOSPC;
	} else if (!found || host.view.members[at].incarn != m->incarn) {
		err = view_put(&host.view, m);
		gpm_forget(&host.gpm, m->id);
		if (!err) {
			*l = (struct lease){ .id = m->id };
			counter_inc(&host_joins);
			changed_locked();
		}
	}
	if (!err)
		l->seen_ns = time_now_ns();
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
	/* Identity and address come from the connection, not from the message. */
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

static enum rpc_handler_result handle_heartbeat(struct rpc_request *req, void *arg)
{
	const uint32_t id = rpc_request_peer(req);
	struct cluster_heartbeat_wire copy;
	struct cluster_heartbeat heartbeat;
	uint32_t len;
	const void *body = rpc_request_body(req, &len);
	int err = len == sizeof(copy) ? 0 : -EMSGSIZE;

	if (!err) {
		memcpy(&copy, body, sizeof(copy));
		err = cluster_heartbeat_decode(&copy, sizeof(copy), &heartbeat);
	}
	if (!err) {
		mutex_lock(&host.lock);
		err = renew_locked(id, &heartbeat);
		mutex_unlock(&host.lock);
	}
	if (err)
		rpc_reply(req, err, NULL, 0);
	else
		reply_view(req, heartbeat.epoch);
	return RPC_DONE;
}

static const struct rpc_handler handlers[] = {
	/*
	 * Worker thread; the sender lives (it has just connected); races with nothing but itself;
	 * twice: same.
	 */
	{ CLUSTER_JOIN, RPC_HANDLER_IDEMPOTENT, "cluster-join", handle_join },
	/*
	 * Worker thread; the sender may be gone; races with itself, and the number decides; twice:
	 * same.
	 */
	{ CLUSTER_HEARTBEAT, RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_DATAGRAM, "cluster-heartbeat",
	  handle_heartbeat },
};

/* --- placing programs ------------------------------------------------------------------ */

int gpm_place_program(uint32_t *node)
{
	static uint32_t ids[CLUSTER_MAX_MEMBERS]; /* host.lock */
	size_t nr = 0;

	if (!cluster_params.is_host)
		return -ENOSYS;
	mutex_lock(&host.lock);
	for (size_t i = 0; i < host.view.nr_members; i++)
		if (host.view.members[i].role == NODE_ROLE_PROCESSOR)
			ids[nr++] = host.view.members[i].id;
	*node = gpm_place(&host.gpm, ids, nr);
	mutex_unlock(&host.lock);
	if (!*node)
		return -EHOSTDOWN;
	counter_inc(&gpm_placed);
	return 0;
}

/* --- views --------------------------------------------------------------------------- */

static void view_sent(struct rpc_call *call)
{
	counter_inc(&host_views);
}

/* Best effort: a node that misses it hears of it with its next heartbeat. */
static void send_view(uint32_t node, const void *body, uint32_t len)
{
	struct rpc_call *call = rpc_call_create(node, RPC_CLASS_CONTROL, CLUSTER_VIEW, body, len);

	if (!call)
		return;
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

static int host_start(const struct cluster_member *self)
{
	struct thread *t;
	int err;

	waitqueue_init(&host.wake);
	host.self = self->id;
	mutex_lock(&host.lock);
	memcpy(host.view.wanted, cluster_params.wanted, sizeof(host.view.wanted));
	host.view.lease_ms = cluster_params.lease_ms;
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

static int host_init(void)
{
	cluster_host_register(host_start);
	return 0;
}
INITCALL(cluster, host_init);
