/* SPDX-License-Identifier: MIT */
/*
 * Membership as every node sees it.
 *
 * Flow:	cluster_join(): reach the host at the rendezvous address, JOIN, apply the view that
 *		it answers and those that it sends later, until the cluster is complete; then a
 *		thread sends heartbeats. Applying a view adds and removes RPC peers. A heartbeat
 *		goes by datagram, which needs no connection and does not wait behind other
 *		requests; by connection when no answer comes, or one that has no room for the view.
 * Locking:	apply_lock (RANK_MANAGER) serialises views; ids_lock (RANK_SPIN_MONITOR) guards the
 *		id lists that the look-ups read.
 * Invariants:	membership goes one way: out, joining, member, fenced (set_membership() asserts it).
 * Failure:	a heartbeat that is refused (ESTALE) means that the host has fenced this node. The
 *		node says so in one line, ends its calls, and serves nothing more. EAGAIN: the host
 *		was started again and wants proof that this is the member it expects; the node
 *		joins with its view. After other failures it tries again. When the host has been
 *		silent for a lease, by a clock that runs only while this node does (lease.c), a
 *		second thread asks the other members, a processor those with its pages: one that
 *		answers shows that the host is away, and nobody is declared dead then. If none does
 *		for half a lease more, or a memory node says all the time that this node was taken
 *		out, it is cut off: it ends as a fenced one does.
 */
#define PR_FMT "cluster: "

#include <cluster/cluster.h>

#include <cluster/membership.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/rpc.h>
#include <rdma/sa.h>

#define CALL_NS           10000000000ull /* of one JOIN */
#define PACE_NS           50000000ull    /* between attempts to reach the host */
#define JOIN_HEARTBEAT_NS 100000000ull   /* between heartbeats while the cluster is incomplete */
#define LOOK_NS           500000000ull   /* between two looks at the lease, or an eighth of it */
#define ASK_NS            2000000000ull  /* for one member's answer, or a quarter of the lease */
#define VAIN_NS           10000000ull    /* after a first question for a newer view in vain */
#define HEARTBEAT_NS \
	2000000000ull /* of one heartbeat by datagram, if that is less than HEARTBEAT_TRIES_NS */

COUNTER(cluster_rejoins, "cluster.rejoined", "times that this node joined a host started again");
COUNTER(cluster_vetoes, "cluster.vetoes", "members that came again after this node saw them leave");
COUNTER(cluster_asked, "cluster.asked", "members asked because the host was silent for a lease");
COUNTER(cluster_hurried, "cluster.views_asked",
	"heartbeats before their time, as a peer seems to have a newer view");
COUNTER(heartbeats_by_connection, "cluster.heartbeats_by_connection",
	"heartbeats that went by connection, as no answer came by datagram");
COUNTER(heartbeats_connection_first, "cluster.heartbeats_connection_first",
	"of these, those that tried no datagram before, as the last heartbeat was in vain");

enum membership {
	OUT,
	JOINING,
	MEMBER,
	FENCED, /* for good: what this node had elsewhere is gone */
};

static struct {
	const struct cluster_ops *ops; /* const after join */
	cluster_host_fn host_start;    /* const after boot; NULL: no managers in this image */
	uint32_t host;                 /* const after join: node id of the host */
	struct mutex apply_lock;       /* RANK_MANAGER */
	struct cluster_view view __guarded_by(&apply_lock);
	struct cluster_view next __guarded_by(&apply_lock); /* the one that is being applied */
	struct spinlock ids_lock;                           /* RANK_SPIN_MONITOR */
	uint32_t ids[CLUSTER_NR_ROLES][CLUSTER_MAX_MEMBERS] __guarded_by(&ids_lock);
	size_t nr_ids[CLUSTER_NR_ROLES] __guarded_by(&ids_lock);
	uint16_t wanted[CLUSTER_NR_ROLES] __guarded_by(&ids_lock);
	struct cluster_placed placed[CLUSTER_MAX_PLACED] __guarded_by(&ids_lock);
	size_t nr_placed __guarded_by(&ids_lock);
	bool placed_known;    /* atomic: all placements were known once, and have been kept since */
	bool complete;        /* atomic */
	uint32_t epoch;       /* atomic */
	uint32_t host_incarn; /* atomic: of the host in the view; 0 = there was none yet */
	bool hurry;           /* atomic: the next heartbeat is due now */
	uint32_t lease_ms;    /* atomic: by the newest view; 0 = there was none yet */
	struct waitqueue changed;
	uint64_t renewed_ns; /* atomic: when the newest heartbeat that was answered was sent */
	uint64_t vouched_ns; /* atomic: when a member was asked that then answered */
	uint8_t membership;  /* atomic: enum membership */
} cluster = {
	.apply_lock = MUTEX_INIT(cluster.apply_lock, "cluster.view", RANK_MANAGER + 1),
	.ids_lock = SPINLOCK_INIT("cluster.ids", RANK_SPIN_MONITOR),
	.changed = WAITQUEUE_INIT(cluster.changed),
};

static enum membership membership(void)
{
	return (enum membership)__atomic_load_n(&cluster.membership, __ATOMIC_ACQUIRE);
}

/* The only place that changes it. */
static void set_membership(enum membership to)
{
	const uint8_t from =
		__atomic_exchange_n(&cluster.membership, (uint8_t)to, __ATOMIC_ACQ_REL);

	ASSERT(to == from + 1u);
	wake_all(&cluster.changed);
}

static void status(const char *line)
{
	pr_info("%s\n", line);
	if (cluster.ops && cluster.ops->status)
		cluster.ops->status(line);
}

/* --- views --------------------------------------------------------------------------- */

static struct node_info info_of(const struct cluster_member *m)
{
	struct node_info info = { .id = m->id,
				  .role = (enum node_role)m->role,
				  .incarn = m->incarn,
				  .addr = { .dlid = m->lid, .has_grh = m->has_grh } };

	memcpy(info.addr.dgid.raw, m->gid, sizeof(m->gid));
	return info;
}

/* Is @m, in the same incarnation, in @v? */
static bool is_in(const struct cluster_member *m, const struct cluster_view *v)
{
	bool found;
	const size_t at = view_find(v, m->id, &found);

	return found && v->members[at].incarn == m->incarn;
}

static bool is_storage_again(const struct cluster_member *m, const struct cluster_view *v)
{
	bool found;

	(void)view_find(v, m->id, &found);
	return found && m->role == NODE_ROLE_STORAGE;
}

/*
 * Look-ups choose from the members of @v that are in @next, too (NULL: all). A storage node that
 * was started again stays: it has kept nothing for its callers, and RPC reaches it as soon as it is
 * back.
 */
static void publish_ids(const struct cluster_view *v, const struct cluster_view *next)
{
	spin_lock(&cluster.ids_lock);
	memset(cluster.nr_ids, 0, sizeof(cluster.nr_ids));
	memcpy(cluster.wanted, v->wanted, sizeof(cluster.wanted));
	for (size_t i = 0; i < v->nr_members; i++) {
		const size_t role = v->members[i].role - 1u;

		ASSERT(role < CLUSTER_NR_ROLES);
		if (next && !is_in(&v->members[i], next) && !is_storage_again(&v->members[i], next))
			continue;
		cluster.ids[role][cluster.nr_ids[role]++] = v->members[i].id;
	}
	spin_unlock(&cluster.ids_lock);
}

/*
 * From @before to @next. A host that was started again does not know all placements at first: those
 * that this node knows hold on meanwhile.
 */
static void publish_placed(const struct cluster_view *before, struct cluster_view *next)
{
	if (!(next->flags & CLUSTER_PLACED))
		view_keep_placed(next, before);
	spin_lock(&cluster.ids_lock);
	memcpy(cluster.placed, next->placed, next->nr_placed * sizeof(next->placed[0]));
	cluster.nr_placed = next->nr_placed;
	spin_unlock(&cluster.ids_lock);
	if (next->flags & CLUSTER_PLACED)
		__atomic_store_n(&cluster.placed_known, true, __ATOMIC_RELEASE);
	if (view_has_withdrawn(before, next) && cluster.ops->withdrawn)
		cluster.ops->withdrawn();
}

/* Members of @a that are not in @b in the same incarnation. */
static void for_each_missing(const struct cluster_view *a, const struct cluster_view *b,
			     void (*fn)(const struct cluster_member *m))
{
	for (size_t i = 0; i < a->nr_members; i++) {
		const struct cluster_member *m = &a->members[i];

		if (m->id != node_self()->id && !is_in(m, b))
			fn(m);
	}
}

static void member_fence(const struct cluster_member *m)
{
	pr_info("node %u (%s) is gone\n", m->id, node_role_name((enum node_role)m->role));
	rpc_peer_fence(m->id, m->incarn); /* a new incarnation may be connected already */
}

static void member_gone(const struct cluster_member *m)
{
	const struct node_info info = info_of(m);

	if (cluster.ops->gone)
		cluster.ops->gone(&info);
}

static void member_came(const struct cluster_member *m)
{
	const struct node_info info = info_of(m);
	int err;

	/* Its requests are taken as soon as it is a peer: by then this node is ready for them. */
	if (cluster.ops->joined)
		cluster.ops->joined(&info);
	err = rpc_peer_add(&info);
	if (err)
		pr_err("node %u cannot be a peer: error %d\n", m->id, err);
	pr_info("node %u (%s) is here\n", m->id, node_role_name(info.role));
}

static void storage_came(const struct cluster_member *m)
{
	if (m->role == NODE_ROLE_STORAGE)
		member_came(m);
}

static void memory_came(const struct cluster_member *m)
{
	if (m->role == NODE_ROLE_MEMORY)
		member_came(m);
}

static void processor_came(const struct cluster_member *m)
{
	if (m->role == NODE_ROLE_PROCESSOR)
		member_came(m);
}

/* The host's incarnation in a view; 0 = it has none. */
static uint32_t host_of(const struct cluster_view *v)
{
	bool found;
	const size_t at = view_find(v, cluster.host, &found);

	return found ? v->members[at].incarn : 0;
}

/*
 * A look-up never answers a member whose calls end with -EHOSTDOWN, so that a thread whose call
 * has ended so asks for another member and gets one; nor one that is no peer yet. But a storage
 * node that was started again stays in the look-ups: callers repeat calls that end meanwhile.
 */
void cluster_apply(const struct cluster_view *told)
{
	struct cluster_view *v = &cluster.next;
	bool is_new = false;

	mutex_lock(&cluster.apply_lock);
	if (told->epoch > cluster.view.epoch && membership() != FENCED) {
		view_check(told);
		*v = *told;
		publish_placed(&cluster.view, v);
		publish_ids(&cluster.view, v);
		/* All calls to those that left end first: gone() may meet one of them. */
		for_each_missing(&cluster.view, v, member_fence);
		for_each_missing(&cluster.view, v, member_gone);
		/*
		 * First those that do as others ask. A processor's request makes a memory node ask
		 * a storage node, which is a peer already if it is the host, but is given its keys
		 * here only: a request without them would be refused, and repeated, for ever.
		 */
		for_each_missing(v, &cluster.view, storage_came);
		for_each_missing(v, &cluster.view, memory_came);
		for_each_missing(v, &cluster.view, processor_came);
		cluster.view = *v;
		publish_ids(v, NULL);
		rpc_epoch_set(v->epoch);
		__atomic_store_n(&cluster.host_incarn, host_of(v), __ATOMIC_RELEASE);
		__atomic_store_n(&cluster.lease_ms, v->lease_ms, __ATOMIC_RELEASE);
		__atomic_store_n(&cluster.epoch, v->epoch, __ATOMIC_RELEASE);
		if (v->flags & CLUSTER_COMPLETE)
			__atomic_store_n(&cluster.complete, true, __ATOMIC_RELEASE);
		is_new = true;
	}
	mutex_unlock(&cluster.apply_lock);
	wake_all(&cluster.changed);
	if (is_new && cluster.ops->changed)
		cluster.ops->changed(told);
}

/*
 * The view of a host that was started again is taken only as the answer to our own JOIN, in which
 * it proves its key.
 */
static bool is_of_stranger(const struct cluster_view *v)
{
	const uint32_t known = __atomic_load_n(&cluster.host_incarn, __ATOMIC_ACQUIRE);

	return known && host_of(v) != known;
}

/* The next heartbeat is due now, unless others were in vain. Any context but interrupts. */
static void ask_for_view(void)
{
	__atomic_store_n(&cluster.hurry, true, __ATOMIC_RELEASE);
	wake_all(&cluster.changed);
}

/*
 * Apply a message that may be hostile; a view without members says that nothing has changed.
 * @asked: it answers what this node told the host.
 */
static int apply_message(const void *body, size_t len, bool asked)
{
	struct cluster_view *v = kmalloc(sizeof(*v));
	int err;

	if (!v)
		return -ENOMEM;
	err = cluster_view_decode(body, len, v);
	if (!err && v->nr_members > 0) {
		if (asked || !is_of_stranger(v))
			cluster_apply(v);
		else
			ask_for_view();
	}
	kfree(v);
	return err;
}

static enum rpc_handler_result handle_view(struct rpc_request *req, void *arg)
{
	uint32_t len;
	const void *body = rpc_request_body(req, &len);
	void *copy = kmalloc(MAX(len, 1u));
	int err = -ENOMEM;

	if (rpc_request_peer(req) != cluster.host) {
		err = -EPERM;
	} else if (copy) {
		memcpy(copy, body, len);
		err = apply_message(copy, len, false);
	}
	kfree(copy);
	rpc_reply(req, err, NULL, 0);
	return RPC_DONE;
}

static const struct rpc_handler handlers[] = {
	/*
	 * Worker thread; only from the host; races with our own JOIN and heartbeat; twice: ignored
	 * by epoch.
	 */
	{ CLUSTER_VIEW, RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_ANY_EPOCH, "cluster-view",
	  handle_view },
};

/* --- joining ------------------------------------------------------------------------- */

static void self_member(struct cluster_member *m)
{
	const struct node_info *self = node_self();

	*m = (struct cluster_member){ .id = self->id,
				      .incarn = self->incarn,
				      .lid = self->addr.dlid,
				      .role = (uint8_t)self->role,
				      .has_grh = self->addr.has_grh };
	memcpy(m->gid, self->addr.dgid.raw, sizeof(m->gid));
}

/* Call the host by connection and apply the view in its answer. */
static int call_host(uint16_t opcode, const void *body, uint32_t len, uint64_t timeout_ns)
{
	uint8_t *reply = kmalloc(RPC_BODY_MAX_CTL);
	int ret;

	if (!reply)
		return -ENOMEM;
	ret = rpc_call_sync(cluster.host, RPC_CLASS_CONTROL, opcode, body, len, reply,
			    RPC_BODY_MAX_CTL, timeout_ns);
	if (ret >= 0)
		ret = apply_message(reply, (size_t)ret, true);
	kfree(reply);
	return ret;
}

/* The address of the rendezvous node: its LID as given, or asked from the subnet administrator. */
static int rendezvous_addr(struct rdma_device *dev, struct rdma_addr *addr, uint64_t deadline)
{
	if (cluster_params.by_gid)
		return sa_path_query(dev, 1, &cluster_params.gid, addr, deadline);
	*addr = (struct rdma_addr){ .dlid = cluster_params.lid };
	return 0;
}

static void describe_rendezvous(char *buf, size_t size)
{
	if (cluster_params.by_gid)
		scnprintf(buf, size, "waiting for the managers' node (by GID)");
	else
		scnprintf(buf, size, "waiting for the managers' node at lid %u",
			  cluster_params.lid);
}

/* Connect to the host, until @deadline. */
static int reach_host(struct rdma_device *dev, uint64_t deadline)
{
	struct rdma_addr addr;
	bool told = false;
	char line[96];
	int err;

	for (;;) {
		err = rendezvous_addr(dev, &addr, deadline);
		if (!err)
			err = rpc_peer_add_rendezvous(&addr, &cluster.host);
		if (!err || err == -EACCES || time_now_ns() >= deadline)
			return err;
		if (!told) {
			describe_rendezvous(line, sizeof(line));
			status(line);
			told = true;
		}
		thread_sleep_until(time_now_ns() + PACE_NS);
	}
}

uint64_t cluster_lease_ns(void)
{
	return __atomic_load_n(&cluster.lease_ms, __ATOMIC_ACQUIRE) * 1000000ull;
}

static int join_host(uint64_t deadline)
{
	struct cluster_member_wire w;
	struct cluster_member self;
	int err;

	self_member(&self);
	cluster_member_encode(&self, &w);
	do {
		err = call_host(CLUSTER_JOIN, &w, sizeof(w), CALL_NS);
		if (!err && !cluster_lease_ns())
			/* no view, so that we would not know how long our lease is */
			err = -EPROTO;
		if (!err || err == -EPROTO)
			return err;
		thread_sleep_until(time_now_ns() + PACE_NS);
	} while (time_now_ns() < deadline);
	return err;
}

static void missing_line(char *line, size_t size)
{
	mutex_lock(&cluster.apply_lock);
	view_describe_missing(&cluster.view, line, size);
	mutex_unlock(&cluster.apply_lock);
}

static int wait_complete(uint64_t deadline)
{
	char line[160], last[160] = "";

	while (!__atomic_load_n(&cluster.complete, __ATOMIC_ACQUIRE)) {
		const uint32_t epoch = cluster_epoch();

		missing_line(line, sizeof(line));
		/* The host's first view, its own, is on its way at epoch 0. */
		if (epoch && strcmp(line, last) != 0)
			status(line);
		strlcpy(last, line, sizeof(last));
		if (!wait_event_timeout(&cluster.changed,
					__atomic_load_n(&cluster.complete, __ATOMIC_ACQUIRE) ||
						cluster_epoch() != epoch,
					deadline)) {
			scnprintf(line, sizeof(line), "gave up after %u ms: %s",
				  cluster_params.wait_ms, last);
			status(line);
			return -ETIMEDOUT;
		}
	}
	return 0;
}

/*
 * Several to a lease, whatever was asked for. Often while nodes are missing: the host's message
 * about a new one may not have reached us.
 */
static uint64_t heartbeat_interval_ns(void)
{
	const uint64_t ns = MIN(cluster_params.heartbeat_ms * 1000000ull, cluster_lease_ns() / 4);

	return __atomic_load_n(&cluster.complete, __ATOMIC_ACQUIRE) ? ns
								    : MIN(ns, JOIN_HEARTBEAT_NS);
}

/* Both ways can be tried, and tried again, before the lease ends. */
#define HEARTBEAT_TRIES_NS (cluster_lease_ns() / 4)

/* -EMSGSIZE: there is a newer view, too long for a datagram. */
static int heartbeat_by_datagram(const struct cluster_heartbeat_wire *heartbeat)
{
	const uint64_t ns = MIN(HEARTBEAT_TRIES_NS, HEARTBEAT_NS);
	const uint32_t max = rpc_datagram_max(cluster.host);
	struct cluster_view_wire view;
	uint8_t *reply;
	int ret;

	if (max < sizeof(view))
		return -EHOSTUNREACH;
	reply = kmalloc(max);
	if (!reply)
		return -ENOMEM;
	ret = rpc_datagram_sync(cluster.host, CLUSTER_HEARTBEAT, heartbeat, sizeof(*heartbeat),
				reply, max, ns);
	if (ret >= 0)
		ret = apply_message(reply, (size_t)ret, true);
	if (!ret) {
		memcpy(&view, reply, sizeof(view)); /* the decoder has seen that it is there */
		if (le32_to_cpu(view.epoch) > cluster_epoch())
			ret = -EMSGSIZE;
	}
	kfree(reply);
	return ret;
}

/*
 * The connection may lead to an earlier life of the host, which the transport notices only after
 * longer than a short lease. So half of the time is for a new one.
 */
static int heartbeat_by_connection(struct cluster_heartbeat *b, uint64_t *seq)
{
	struct cluster_heartbeat_wire w;
	int err = -ETIMEDOUT;

	counter_inc(&heartbeats_by_connection);
	for (int i = 0; i < 2 && err == -ETIMEDOUT; i++) {
		if (i > 0)
			rpc_peer_reconnect(cluster.host, RPC_CLASS_CONTROL);
		b->seq = ++*seq;
		cluster_heartbeat_encode(b, &w);
		err = call_host(CLUSTER_HEARTBEAT, &w, sizeof(w), HEARTBEAT_TRIES_NS / 2);
	}
	return err;
}

/*
 * The last heartbeat was @in_vain: the host may have been started again, where no datagram of an
 * earlier incarnation is answered, while a connection tells at once. To wait for a datagram first
 * would use up the time in which the new host fences nobody.
 */
static int send_heartbeat(uint64_t *seq, bool in_vain)
{
	struct cluster_heartbeat b = {
		.epoch = cluster_epoch(),
		.incarn = node_self()->incarn,
		.host = __atomic_load_n(&cluster.host_incarn, __ATOMIC_ACQUIRE),
	};
	struct cluster_heartbeat_wire w;
	int err;

	if (cluster.ops->load)
		cluster.ops->load(&b.load);
	if (in_vain) {
		counter_inc(&heartbeats_connection_first);
	} else {
		b.seq = ++*seq;
		cluster_heartbeat_encode(&b, &w);
		err = heartbeat_by_datagram(&w);
		/*
		 * A datagram may be refused for what RPC knows of incarnations, an earlier host's
		 * included; what comes by connection is the answer of the host that there is.
		 */
		if (!err || err == -EAGAIN)
			return err;
	}
	return heartbeat_by_connection(&b, seq);
}

/* The host was started again: join as the member that this node is, with the view that it has. */
static int rejoin(void)
{
	const size_t max = sizeof(struct cluster_member_wire) + RPC_BODY_MAX_CTL;
	struct cluster_member self;
	uint8_t *body = kmalloc(max);
	ssize_t len;
	int err;

	if (!body)
		return -ENOMEM;
	self_member(&self);
	cluster_member_encode(&self, (struct cluster_member_wire *)(void *)body);
	mutex_lock(&cluster.apply_lock);
	len = cluster_view_encode(&cluster.view, body + sizeof(struct cluster_member_wire),
				  max - sizeof(struct cluster_member_wire));
	mutex_unlock(&cluster.apply_lock);
	err = len < 0 ? (int)len
		      : call_host(CLUSTER_JOIN, body,
				  (uint32_t)len + sizeof(struct cluster_member_wire),
				  HEARTBEAT_TRIES_NS);
	kfree(body);
	if (!err) {
		counter_inc(&cluster_rejoins);
		pr_info("the managers' node was started again: joined it at epoch %u\n",
			cluster_epoch());
	}
	return err;
}

/* The next member of the view, behind @veto's, that this node has seen leave. */
static bool next_returned(struct cluster_veto *veto)
{
	bool found = false;

	mutex_lock(&cluster.apply_lock);
	for (size_t i = 0; i < cluster.view.nr_members && !found; i++) {
		const struct cluster_member *m = &cluster.view.members[i];

		found = m->id > veto->id && rpc_peer_has_left(m->id, m->incarn);
		if (found)
			*veto = (struct cluster_veto){ .id = m->id, .incarn = m->incarn };
	}
	mutex_unlock(&cluster.apply_lock);
	return found;
}

/*
 * The launcher may have missed the last views of the earlier host, and named members that this
 * node has seen leave: what they had here is gone. false: the host has not heard of all of them.
 */
static bool veto_returned(void)
{
	struct cluster_veto veto = { 0 };
	struct cluster_veto_wire w;

	while (next_returned(&veto)) {
		counter_inc(&cluster_vetoes);
		pr_warn("node %u is a member again, but it has left\n", veto.id);
		cluster_veto_encode(&veto, &w);
		if (rpc_call_sync(cluster.host, RPC_CLASS_CONTROL, CLUSTER_VETO, &w, sizeof(w),
				  NULL, 0, HEARTBEAT_TRIES_NS) < 0)
			return false;
	}
	return true;
}

/* The programs of this node end, then all that waits for another node, and all service. */
static void end_membership(const char *why)
{
	uint8_t from = MEMBER;

	if (!__atomic_compare_exchange_n(&cluster.membership, &from, FENCED, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return; /* the other thread was first */
	wake_all(&cluster.changed);
	status(why);
	if (cluster.ops->fenced)
		cluster.ops->fenced(why);
	mutex_lock(&cluster.apply_lock); /* no view comes after this */
	for (size_t i = 0; i < cluster.view.nr_members; i++) {
		const struct cluster_member *m = &cluster.view.members[i];

		if (m->id != node_self()->id)
			rpc_peer_fence(m->id, m->incarn);
	}
	mutex_unlock(&cluster.apply_lock);
}

/* Questions for a newer view that a peer seems to have; only the thread below uses it. */
struct hurry {
	uint32_t epoch;   /* at the last one */
	uint64_t sent_ns; /* of the last one */
	uint64_t pace_ns; /* the next one comes so long after it */
};

/*
 * Wait until a heartbeat is due: by its time, or as a peer has shown a newer epoch. A peer may show
 * one that there is none of, with each of its answers: each question in vain doubles the time to
 * the next one, up to that of heartbeats.
 */
static void heartbeat_wait(struct hurry *h)
{
	const uint64_t due_ns = time_now_ns() + heartbeat_interval_ns();

	if (!wait_event_timeout(&cluster.changed, __atomic_load_n(&cluster.hurry, __ATOMIC_ACQUIRE),
				due_ns))
		return;
	if (h->epoch != cluster_epoch())
		h->pace_ns = 0;
	else
		h->pace_ns = MAX(2 * h->pace_ns, VAIN_NS);
	if (h->sent_ns + h->pace_ns > time_now_ns())
		thread_sleep_until(MIN(h->sent_ns + h->pace_ns, due_ns));
	h->pace_ns = MIN(h->pace_ns, heartbeat_interval_ns());
	h->epoch = cluster_epoch();
	h->sent_ns = time_now_ns();
	counter_inc(&cluster_hurried);
}

static void heartbeat_thread(void *arg)
{
	struct hurry hurry = { .epoch = 0 };
	uint64_t seq = 0, sent_ns;
	uint32_t seen = cluster_epoch(), epoch;
	bool in_vain = false;
	int err;

	for (;;) {
		heartbeat_wait(&hurry);
		__atomic_store_n(&cluster.hurry, false, __ATOMIC_RELAXED);
		sent_ns = time_now_ns();
		err = send_heartbeat(&seq, in_vain);
		if (err == -EAGAIN)
			err = rejoin();
		epoch = cluster_epoch();
		if (!err && seen != epoch &&
		    (node_self()->role != NODE_ROLE_MEMORY || veto_returned()))
			seen = epoch;
		if (err == -ESTALE)
			end_membership("this node was fenced: its lease had ended");
		if (membership() == FENCED)
			return;
		/* By turns: connections alone may be what is gone. */
		in_vain = err && !in_vain;
		if (err) {
			pr_warn("heartbeat failed: error %d\n", err);
			continue;
		}
		__atomic_store_n(&cluster.renewed_ns, sent_ns, __ATOMIC_RELEASE);
		wake_all(&cluster.changed);
	}
}

/* The host counts from when it hears of this node, which is later: here the lease ends first. */
static bool lease_is_young(void)
{
	const uint64_t renewed = __atomic_load_n(&cluster.renewed_ns, __ATOMIC_ACQUIRE);

	return time_now_ns() - renewed < cluster_lease_ns();
}

static bool is_vouched_for_since(uint64_t ns)
{
	return __atomic_load_n(&cluster.vouched_ns, __ATOMIC_ACQUIRE) >= ns;
}

bool cluster_lease_holds(void)
{
	const uint64_t now = time_now_ns();

	if (cluster_params.is_host)
		return true;
	wait_event(&cluster.changed,
		   lease_is_young() || is_vouched_for_since(now) || membership() == FENCED);
	return membership() != FENCED;
}

/* --- while the host is silent -------------------------------------------------------------- */

/* Only the thread below uses these. */
static struct own_lease own_lease;
static uint64_t own_renewed_ns; /* cluster.renewed_ns at the last look */

/* false: nothing that was asked before means anything now. */
static bool look(uint64_t waited_ns)
{
	const uint64_t renewed = __atomic_load_n(&cluster.renewed_ns, __ATOMIC_ACQUIRE);
	const bool ran = lease_look(&own_lease, time_now_ns(), waited_ns);

	if (renewed == own_renewed_ns)
		return ran;
	own_renewed_ns = renewed;
	lease_renewed(&own_lease);
	return false;
}

/*
 * May the answer of a node of @role show that this node is a member? Programs of a processor that
 * was taken out must end, so it is for those that keep its pages to say; other nodes harm nobody,
 * as no member uses them any more.
 */
static bool may_vouch(enum node_role role)
{
	if (node_self()->role != NODE_ROLE_PROCESSOR)
		return true;
	return role ==
	       (cluster_nodes(NODE_ROLE_MEMORY, NULL, 0) ? NODE_ROLE_MEMORY : NODE_ROLE_STORAGE);
}

struct asked {
	uint32_t nr;
	uint64_t vouched_ns; /* when one was asked that then answered; 0: none has */
	bool is_out;         /* one that keeps pages says that this node was taken out */
};

/* Ask one after the other. false: this node stood still, or the host has answered meanwhile. */
static bool ask_members(enum node_role role, const uint32_t *ids, size_t nr, struct asked *asked)
{
	const uint64_t ask_ns = MIN(ASK_NS, cluster_lease_ns() / 4);

	for (size_t i = 0; i < nr; i++) {
		const uint64_t now = time_now_ns();
		int err;

		if (ids[i] == node_self()->id || ids[i] == cluster.host)
			continue;
		asked->nr++;
		counter_inc(&cluster_asked);
		err = rpc_ping(ids[i], ask_ns);
		if (!look(2 * ask_ns))
			return false;
		if (!err)
			asked->vouched_ns = now;
		else if (err == -ESTALE && role == NODE_ROLE_MEMORY)
			asked->is_out = true;
	}
	return true;
}

/*
 * Ask all that may vouch for this node. One that says that this node was taken out has a newer view
 * than those that still answer. false: nothing can be told, or this node is a member.
 */
static bool is_disowned(struct asked *asked)
{
	static const enum node_role roles[] = { NODE_ROLE_MEMORY, NODE_ROLE_PROCESSOR,
						NODE_ROLE_STORAGE };
	static uint32_t ids[CLUSTER_MAX_MEMBERS]; /* the only thread's that comes here */

	*asked = (struct asked){ .nr = 0 };
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++) {
		const size_t nr = cluster_nodes(roles[i], ids, CLUSTER_MAX_MEMBERS);

		if (may_vouch(roles[i]) &&
		    !ask_members(roles[i], ids, MIN(nr, (size_t)CLUSTER_MAX_MEMBERS), asked))
			return false;
	}
	if (asked->is_out || !asked->vouched_ns)
		return asked->nr > 0;
	__atomic_store_n(&cluster.vouched_ns, asked->vouched_ns, __ATOMIC_RELEASE);
	wake_all(&cluster.changed);
	lease_heard(&own_lease);
	return false;
}

static uint64_t look_ns(void)
{
	return MIN(LOOK_NS, cluster_lease_ns() / 8);
}

static void lease_thread(void *arg)
{
	struct asked asked;

	lease_start(&own_lease, time_now_ns());
	while (!wait_event_timeout(&cluster.changed, membership() == FENCED,
				   time_now_ns() + look_ns())) {
		if (!look(look_ns()) || !lease_is_over(&own_lease, cluster_lease_ns()))
			continue;
		if (is_disowned(&asked) && lease_is_cut_off(&own_lease, cluster_lease_ns()))
			end_membership(asked.is_out
					       ? "this node was fenced: members have taken it out"
					       : "this node was cut off: no member has answered "
						 "for longer than its lease");
	}
}

static int start_thread(const char *name, void (*fn)(void *arg))
{
	struct thread *t = thread_create(name, fn, NULL);

	if (IS_ERR(t))
		return PTR_ERR(t);
	thread_detach(t);
	return 0;
}

static int join_as_member(struct rdma_device *dev, uint64_t deadline)
{
	char line[128];
	int err;

	if (!cluster_params.has_rendezvous) {
		status("boot parameter rendezvous= is missing, and cluster= is not given either");
		return -EINVAL;
	}
	err = reach_host(dev, deadline);
	__atomic_store_n(&cluster.renewed_ns, time_now_ns(), __ATOMIC_RELEASE);
	if (!err)
		err = join_host(deadline);
	if (err) {
		scnprintf(line, sizeof(line), "cannot reach the managers' node: error %d", err);
		status(line);
		return err == -EHOSTDOWN ? -ETIMEDOUT : err;
	}
	set_membership(MEMBER);
	err = start_thread("cluster-heartbeat", heartbeat_thread);
	return err ? err : start_thread("cluster-lease", lease_thread);
}

void cluster_host_register(cluster_host_fn start)
{
	ASSERT_BEFORE(monitor); /* where the node joins */
	cluster.host_start = start;
}

int cluster_join(const struct cluster_ops *ops)
{
	const uint64_t deadline = time_now_ns() + cluster_params.wait_ms * 1000000ull;
	struct rdma_device *dev = rdma_device_wait(NULL, deadline);
	struct cluster_member self;
	int err;

	cluster.ops = ops;
	rpc_epoch_notify(ask_for_view);
	set_membership(JOINING);
	if (!dev)
		return -ENODEV;
	if (cluster_key_find()) {
		status("this node has no key of the cluster: boot parameter cluster.key=");
		return -ENOKEY;
	}
	if (cluster_params.is_host) {
		cluster.host = node_self()->id;
		self_member(&self);
		err = cluster.host_start ? cluster.host_start(&self) : -ENOSYS;
		if (err)
			status("boot parameter cluster= on an image without the managers");
		else
			set_membership(MEMBER);
	} else {
		err = rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL);
		if (!err)
			err = join_as_member(dev, deadline);
	}
	return err ? err : wait_complete(deadline);
}

bool cluster_is_host(void)
{
	return cluster_params.is_host;
}

/* --- look-ups ------------------------------------------------------------------------ */

uint32_t cluster_host(uint32_t *incarn)
{
	*incarn = __atomic_load_n(&cluster.host_incarn, __ATOMIC_ACQUIRE);
	return *incarn ? cluster.host : 0;
}

uint32_t cluster_epoch(void)
{
	return __atomic_load_n(&cluster.epoch, __ATOMIC_ACQUIRE);
}

size_t cluster_nodes(enum node_role role, uint32_t *ids, size_t max)
{
	const size_t r = (size_t)role - 1;
	size_t nr;

	spin_lock(&cluster.ids_lock);
	nr = cluster.nr_ids[r];
	if (nr && max) /* a caller that only counts gives no array */
		memcpy(ids, cluster.ids[r], MIN(nr, max) * sizeof(*ids));
	spin_unlock(&cluster.ids_lock);
	return nr;
}

bool cluster_has_one(enum node_role role)
{
	const size_t r = (size_t)role - 1;
	bool one;

	spin_lock(&cluster.ids_lock);
	one = cluster.wanted[r] == 1 && cluster.nr_ids[r] <= 1;
	spin_unlock(&cluster.ids_lock);
	return one;
}

int cluster_wait_until(bool (*is_so)(uint32_t node), uint32_t node, uint64_t until_ns,
		       bool killable)
{
	return wait_event_mode(&cluster.changed, is_so(node) || membership() == FENCED,
			       killable ? WAIT_KILLABLE : WAIT_PLAIN, until_ns);
}

static bool is_placed(uint32_t vnode, uint32_t node)
{
	bool is;

	spin_lock(&cluster.ids_lock);
	is = placed_has(cluster.placed, cluster.nr_placed, vnode, node);
	spin_unlock(&cluster.ids_lock);
	return is;
}

int cluster_vnode_check(uint32_t vnode, uint32_t node, bool may_wait)
{
	if (is_placed(vnode, node))
		return 0;
	if (likely(__atomic_load_n(&cluster.placed_known, __ATOMIC_ACQUIRE)))
		return -EACCES;
	if (!may_wait)
		return -EAGAIN;
	(void)wait_event_timeout(&cluster.changed,
				 is_placed(vnode, node) ||
					 __atomic_load_n(&cluster.placed_known, __ATOMIC_ACQUIRE),
				 time_now_ns() + cluster_lease_ns());
	return is_placed(vnode, node) ? 0 : -EACCES;
}

uint32_t cluster_choose(enum node_role role, cluster_choose_fn choose, const void *arg)
{
	const size_t r = (size_t)role - 1;
	uint32_t node = 0;

	spin_lock(&cluster.ids_lock);
	if (cluster.nr_ids[r]) {
		node = choose(cluster.ids[r], cluster.nr_ids[r], arg);
	}
	spin_unlock(&cluster.ids_lock);
	return node;
}
