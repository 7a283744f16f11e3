/* SPDX-License-Identifier: MIT */
/*
 * The service of the managers: membership at the node that hosts them, and GPM.
 *
 * Flow:	JOIN enters a node, with its view if it is a member of an earlier host. A heartbeat
 *		renews the node's lease. The table (members.c) decides; each of its changes makes a
 *		new epoch, which the host applies to itself and sends to all. The answer to the next
 *		heartbeat repairs a view that is lost on the way.
 * Locking:	host.lock (RANK_MANAGER); views are sent from a copy, without it.
 * Failure:	the host takes out a node whose lease ends, and refuses it (ESTALE) until it joins
 *		anew; a heartbeat that comes after the end does not undo it, even if the host has
 *		not looked in between. When the host itself has stood still, all leases are longer
 *		by that. A host that was started again makes its table from what the launcher tells
 *		(cluster.again=); a member's view is believed about nobody else.
 */
#define PR_FMT "cluster: "

#include <managers/host.h>
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
#include <managers/members.h>
#include <managers/names.h>
#include <managers/policy.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "host_view.h"

COUNTER(host_joins, "cluster.joins", "nodes that joined");
COUNTER(host_expired, "cluster.expired", "nodes whose lease ended");
COUNTER(host_rejoins, "cluster.rejoins", "members of an earlier host that joined");
COUNTER(gpm_placed, "gpm.placed", "programs that GPM has placed");
COUNTER(host_views, "cluster.views_sent", "views sent to members");

COUNTER(host_heartbeats, "cluster.heartbeats", "heartbeats that renewed a lease");
COUNTER(host_old_heartbeats, "cluster.heartbeats_old", "heartbeats that came late or twice");

static struct {
	struct mutex lock; /* RANK_MANAGER */
	struct members members __guarded_by(&lock);
	struct gpm gpm __guarded_by(&lock);
	bool dirty __guarded_by(&lock); /* atomic for the wait condition */
	struct waitqueue wake;
	uint32_t published __guarded_by(&lock); /* epoch */
} host = {
	.lock = MUTEX_INIT(host.lock, "cluster.host", RANK_MANAGER),
	.gpm = { .ops = &gpm_least_busy },
};

/* The table says that a member is out; host.lock is held. */
static void member_out(uint32_t id, enum members_why why)
{
	static const char *const text[] = {
		[MEMBERS_REPLACED] = "was started again",
		[MEMBERS_ENDED] = "has ended",
		[MEMBERS_EARLIER] = "has left under an earlier host",
	};

	static_assert(ARRAY_SIZE(text) == MEMBERS_WHYS, "each reason has its words");
	assert_mutex_held(&host.lock);
	if (why == MEMBERS_SILENT) {
		pr_warn("node %u was silent for %u ms: fenced\n", id, host.members.view.lease_ms);
		counter_inc(&host_expired);
	} else {
		pr_warn("node %u %s: fenced\n", id, text[why]);
	}
	gpm_forget(&host.gpm, id);
}

/* After whatever may have changed the table: let the host's thread publish it. */
static void look_locked(void)
{
	assert_mutex_held(&host.lock);
	if (host.members.view.epoch == host.published)
		return;
	__atomic_store_n(&host.dirty, true, __ATOMIC_RELEASE);
	wake_one(&host.wake);
}

static int renew(uint32_t id, const struct cluster_heartbeat *heartbeat)
{
	int ret;

	mutex_lock(&host.lock);
	ret = members_renew(&host.members, id, heartbeat, time_now_ns());
	if (ret == 0) {
		counter_inc(&host_heartbeats);
		if (heartbeat->load.cpus)
			gpm_report(&host.gpm, id, &heartbeat->load);
	} else if (ret > 0) {
		counter_inc(&host_old_heartbeats);
	}
	look_locked();
	mutex_unlock(&host.lock);
	return MIN(ret, 0);
}

/* --- requests ------------------------------------------------------------------------ */

/* The view, or only its header: when the node has it, or it does not fit into the reply. */
static ssize_t view_for(uint32_t known_epoch, void *body, size_t max)
{
	struct cluster_view_wire w = { .nr_members = cpu_to_le16(0) };
	ssize_t len = -EMSGSIZE;

	mutex_lock(&host.lock);
	if (known_epoch != host.members.view.epoch)
		len = cluster_view_encode(&host.members.view, body, max);
	if (len < 0) {
		w.epoch = cpu_to_le32(host.members.view.epoch);
		w.flags = cpu_to_le32(host.members.view.flags);
		w.lease_ms = cpu_to_le32(host.members.view.lease_ms);
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

/* @told: the view that the node has of an earlier host; NULL: it is new. */
static int join(const struct cluster_member *m, const struct cluster_view *told)
{
	uint32_t epoch;
	int err;

	mutex_lock(&host.lock);
	epoch = host.members.view.epoch;
	if (told) {
		err = members_rejoin(&host.members, m, told, time_now_ns());
		if (!err)
			counter_inc(&host_rejoins);
	} else {
		err = members_join(&host.members, m, time_now_ns());
		if (!err && epoch != host.members.view.epoch)
			counter_inc(&host_joins);
	}
	look_locked();
	mutex_unlock(&host.lock);
	return err;
}

/* Identity and address come from the connection, not from the message. */
static int identify(struct rpc_request *req, struct cluster_member *m)
{
	struct node_info info;

	if (m->id != rpc_request_peer(req) || !rpc_peer_info(m->id, &info) ||
	    info.incarn != m->incarn || info.role != m->role)
		return -EPROTO;
	m->lid = info.addr.dlid;
	m->has_grh = info.addr.has_grh;
	memcpy(m->gid, info.addr.dgid.raw, sizeof(m->gid));
	return 0;
}

static int decode_join(const uint8_t *body, size_t len, struct cluster_member *m,
		       struct cluster_view *told)
{
	int err;

	if (len < sizeof(struct cluster_member_wire))
		return -EMSGSIZE;
	err = cluster_member_decode(body, sizeof(struct cluster_member_wire), m);
	body += sizeof(struct cluster_member_wire);
	len -= sizeof(struct cluster_member_wire);
	return err || !len ? err : cluster_view_decode(body, len, told);
}

static enum rpc_handler_result handle_join(struct rpc_request *req, void *arg)
{
	struct cluster_view *told = kmalloc(sizeof(*told));
	struct cluster_member m;
	uint32_t len;
	const void *body = rpc_request_body(req, &len);
	void *copy = kmalloc(MAX(len, 1u));
	int err = -ENOMEM;

	if (told && copy) {
		memcpy(copy, body, len); /* the ring is the peer's to change */
		err = decode_join(copy, len, &m, told);
	}
	if (!err)
		err = identify(req, &m);
	if (!err)
		err = join(&m, len > sizeof(struct cluster_member_wire) ? told : NULL);
	kfree(copy);
	kfree(told);
	if (err)
		rpc_reply(req, err, NULL, 0);
	else
		reply_view(req, 0);
	return RPC_DONE;
}

/* A node is told again to be a member that it has seen leave. */
static enum rpc_handler_result handle_veto(struct rpc_request *req, void *arg)
{
	struct cluster_veto_wire copy;
	struct cluster_veto veto;
	uint32_t len;
	const void *body = rpc_request_body(req, &len);
	int err = len == sizeof(copy) ? 0 : -EMSGSIZE;

	if (!err) {
		memcpy(&copy, body, sizeof(copy));
		err = cluster_veto_decode(&copy, sizeof(copy), &veto);
	}
	if (!err) {
		mutex_lock(&host.lock);
		(void)members_veto(&host.members, veto.id, veto.incarn, time_now_ns());
		look_locked();
		mutex_unlock(&host.lock);
	}
	rpc_reply(req, err, NULL, 0);
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
	if (!err)
		err = renew(id, &heartbeat);
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
	{ CLUSTER_JOIN, RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_ANY_EPOCH, "cluster-join",
	  handle_join },
	/*
	 * Only memory nodes have given away what a node had that left. Worker thread; the sender
	 * may be gone; races with JOINs of whom it names; twice: same.
	 */
	{ CLUSTER_VETO, RPC_HANDLER_FROM_MEMORY | RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_ANY_EPOCH,
	  "cluster-veto", handle_veto },
	/*
	 * Worker thread; the sender may be gone; races with itself, and the number decides; twice:
	 * same.
	 */
	{ CLUSTER_HEARTBEAT, RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_DATAGRAM | RPC_HANDLER_ANY_EPOCH,
	  "cluster-heartbeat", handle_heartbeat },
};

/* --- placing programs ------------------------------------------------------------------ */

int gpm_place_program(uint32_t vnode, uint32_t *node)
{
	static uint32_t ids[CLUSTER_MAX_MEMBERS]; /* host.lock */
	size_t nr = 0;

	if (!cluster_params.is_host)
		return -ENOSYS;
	mutex_lock(&host.lock);
	for (size_t i = 0; i < host.members.view.nr_members; i++) {
		const struct cluster_member *m = &host.members.view.members[i];

		if (m->role == NODE_ROLE_PROCESSOR &&
		    view_is_placed(&host.members.view, vnode, m->id))
			ids[nr++] = m->id;
	}
	*node = gpm_place(&host.gpm, ids, nr);
	mutex_unlock(&host.lock);
	if (!*node)
		return vnode == PROTO_VNODE_ROOT ? -EHOSTDOWN : -ENOENT;
	counter_inc(&gpm_placed);
	return 0;
}

void managers_node_ended(uint32_t node, uint32_t incarn)
{
	mutex_lock(&host.lock);
	(void)members_ended(&host.members, node, incarn);
	look_locked();
	mutex_unlock(&host.lock);
}

int managers_place_vnode(uint32_t vnode, uint32_t node)
{
	int err;

	if (!cluster_params.is_host)
		return -ENOSYS;
	mutex_lock(&host.lock);
	err = vnode ? members_place(&host.members, vnode, node) : -EINVAL;
	look_locked();
	mutex_unlock(&host.lock);
	return err;
}

int managers_end_vnode(uint32_t vnode)
{
	int err;

	if (!cluster_params.is_host)
		return -ENOSYS;
	mutex_lock(&host.lock);
	err = members_vnode_end(&host.members, vnode);
	look_locked();
	mutex_unlock(&host.lock);
	return err;
}

/* --- what the table of names asks ------------------------------------------------------ */

int host_vnode_check(uint32_t vnode, uint32_t node, uint32_t incarn)
{
	const struct cluster_view *v = &host.members.view;
	bool found;
	size_t at;
	int err = -ESTALE;

	mutex_lock(&host.lock);
	at = view_find(v, node, &found);
	if (found && v->members[at].incarn == incarn)
		err = v->members[at].role == NODE_ROLE_PROCESSOR && view_is_placed(v, vnode, node)
			      ? 0
			      : -EACCES;
	mutex_unlock(&host.lock);
	return err;
}

bool host_awaits_processors(bool (*knows)(uint32_t node, uint32_t incarn))
{
	const struct cluster_view *v = &host.members.view;
	bool awaits = false;

	mutex_lock(&host.lock);
	if (host.members.again &&
	    time_now_ns() - host.members.began_ns < v->lease_ms * NSEC_PER_MSEC) {
		for (size_t i = 0; i < v->nr_members && !awaits; i++)
			awaits = v->members[i].role == NODE_ROLE_PROCESSOR &&
				 !knows(v->members[i].id, v->members[i].incarn);
	}
	mutex_unlock(&host.lock);
	return awaits;
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
	*copy = host.members.view;
	host.published = copy->epoch;
	__atomic_store_n(&host.dirty, false, __ATOMIC_RELAXED);
	mutex_unlock(&host.lock);
	cluster_apply(
		copy); /* introduces new members to the RPC layer first, and fences old ones */
	names_service_view(copy);
	len = cluster_view_encode(copy, body, RPC_BODY_MAX_CTL);
	for (size_t i = 0; len > 0 && i < copy->nr_members; i++) {
		if (copy->members[i].id != node_self()->id)
			send_view(copy->members[i].id, body, (uint32_t)len);
	}
}

static void host_thread(void *arg)
{
	static struct cluster_view copy; /* this thread's */
	static uint8_t body[RPC_BODY_MAX_CTL];

	for (;;) {
		mutex_lock(&host.lock);
		members_expire(&host.members, time_now_ns());
		look_locked();
		mutex_unlock(&host.lock);
		if (__atomic_load_n(&host.dirty, __ATOMIC_ACQUIRE))
			publish(&copy, body);
		(void)wait_event_timeout(&host.wake, __atomic_load_n(&host.dirty, __ATOMIC_ACQUIRE),
					 time_now_ns() + MEMBERS_SCAN_NS);
	}
}

static int host_start(const struct cluster_member *self)
{
	struct thread *t;
	int err;

	waitqueue_init(&host.wake);
	mutex_lock(&host.lock);
	host.members.gone = member_out;
	members_init(&host.members, self, cluster_params.wanted, cluster_params.lease_ms,
		     time_now_ns());
	if (cluster_params.again)
		members_expect(&host.members, cluster_params.again_epoch, cluster_params.expected,
			       cluster_params.nr_expected, time_now_ns());
	look_locked();
	mutex_unlock(&host.lock);
	err = rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
	if (!err)
		err = names_service_start();
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
