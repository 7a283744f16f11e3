/* SPDX-License-Identifier: MIT */
/* The table of members: see members.h. */
#include <managers/members.h>

#include <cluster/membership.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <net/node.h>

#define STALL_NS (MEMBERS_SCAN_NS + 1000000000ull) /* between two looks: the host stood still */

/* The lease of a member, or with @id 0 a free one; NULL = there is none. */
static struct member_lease *lease_of(struct members *m, uint32_t id)
{
	for (size_t i = 0; i < CLUSTER_MAX_MEMBERS; i++) {
		if (m->leases[i].id == id)
			return &m->leases[i];
	}
	return NULL;
}

static const struct cluster_member *find(const struct cluster_view *v, uint32_t id)
{
	bool found;
	const size_t at = view_find(v, id, &found);

	return found ? &v->members[at] : NULL;
}

/* Is this incarnation of @id in the view? */
static bool has(const struct cluster_view *v, uint32_t id, uint32_t incarn)
{
	const struct cluster_member *at = find(v, id);

	return at && at->incarn == incarn;
}

/* The only place that makes a new epoch. */
static void changed(struct members *m)
{
	view_check(&m->view);
	ASSERT(m->view.epoch < UINT32_MAX);
	m->view.epoch++;
	if (view_is_complete(&m->view))
		m->view.flags |= CLUSTER_COMPLETE; /* stays: nodes may come and go from here on */
}

static void take_out(struct members *m, uint32_t id, enum members_why why)
{
	struct member_lease *l = lease_of(m, id);

	ASSERT(id != m->self);
	(void)view_remove(&m->view, id);
	if (l)
		l->id = 0;
	if (m->gone)
		m->gone(id, why);
}

/* @who, not there yet in any incarnation, becomes a member. */
static int put(struct members *m, const struct cluster_member *who, bool rebuilt, uint64_t now)
{
	struct member_lease *l = lease_of(m, 0);
	int err = l ? view_put(&m->view, who) : -ENOSPC;

	if (!err)
		*l = (struct member_lease){ .id = who->id, .rebuilt = rebuilt, .seen_ns = now };
	return err;
}

/*
 * None of several members has been heard for so long that more than a heartbeat of each is missing:
 * it is the host that they do not reach.
 */
static bool is_cut_off(const struct members *m, uint64_t now)
{
	return m->view.nr_members > 2 && now - m->heard_ns >= m->view.lease_ms * 1000000ull / 2;
}

/*
 * Nodes could not renew their leases while the host stood still, or was cut off: that time does not
 * count.
 */
static void look(struct members *m, uint64_t now)
{
	const uint64_t gap = now - m->looked_ns;
	const bool stood_still = gap > STALL_NS;

	/* Never into the future: a node seen just after the last look is as good as seen now. */
	for (size_t i = 0; (stood_still || is_cut_off(m, now)) && i < CLUSTER_MAX_MEMBERS; i++)
		m->leases[i].seen_ns = MIN(m->leases[i].seen_ns + gap, now);
	if (stood_still)
		m->heard_ns = MIN(m->heard_ns + gap, now);
	m->looked_ns = now;
}

/* A member has said something: its lease begins anew. */
static void heard(struct members *m, struct member_lease *l, uint64_t now)
{
	l->seen_ns = now;
	m->heard_ns = now;
}

void members_init(struct members *m, const struct cluster_member *self,
		  const uint16_t wanted[CLUSTER_NR_ROLES], uint32_t lease_ms, uint64_t now)
{
	void (*gone)(uint32_t id, enum members_why why) = m->gone;
	int err;

	memset(m, 0, sizeof(*m));
	m->gone = gone;
	m->self = self->id;
	m->incarn = self->incarn;
	m->looked_ns = now;
	m->heard_ns = now;
	m->began_ns = now;
	m->view.lease_ms = lease_ms;
	memcpy(m->view.wanted, wanted, sizeof(m->view.wanted));
	err = view_put(&m->view, self);
	ASSERT(!err);
	err = view_place(&m->view, PROTO_VNODE_ROOT, 0);
	ASSERT(!err);
	m->view.flags |= CLUSTER_PLACED;
	changed(m);
}

/* --- placements ---------------------------------------------------------------------------- */

static bool is_awaited(const struct members *m)
{
	for (size_t i = 0; i < CLUSTER_MAX_MEMBERS; i++)
		if (m->leases[i].id && m->leases[i].is_awaited)
			return true;
	return false;
}

/* Does the host know all placements by now? */
static void settle(struct members *m, uint64_t now)
{
	if ((m->view.flags & CLUSTER_PLACED) ||
	    (is_awaited(m) && now - m->began_ns < m->view.lease_ms * 1000000ull))
		return;
	m->view.flags |= CLUSTER_PLACED;
	changed(m);
}

/* Forget all placements but the root's. */
static void unplace_all(struct members *m)
{
	for (size_t i = m->view.nr_placed; i-- > 0;) {
		const struct cluster_placed p = m->view.placed[i];

		if (p.vnode != PROTO_VNODE_ROOT)
			(void)view_unplace(&m->view, p.vnode, p.node);
	}
}

/*
 * @l, which checks placements, has told its view: the newest that anybody has is right. A
 * processor's says nothing about what it may use itself.
 */
static void hear_placed(struct members *m, struct member_lease *l, const struct cluster_view *told,
			uint64_t now)
{
	l->is_awaited = false;
	if (!(m->view.flags & CLUSTER_PLACED) && told->epoch >= m->placed_epoch) {
		if (told->epoch > m->placed_epoch)
			unplace_all(m);
		m->placed_epoch = told->epoch;
		view_keep_placed(&m->view, told);
		changed(m);
	}
	settle(m, now);
}

int members_place(struct members *m, uint32_t vnode, uint32_t node)
{
	const struct cluster_member *at = find(&m->view, node);
	int err;

	ASSERT(vnode);
	if (!(m->view.flags & CLUSTER_PLACED))
		return -EAGAIN;
	if (!at || at->role != NODE_ROLE_PROCESSOR)
		return -ENOENT;
	if (view_is_placed(&m->view, vnode, node))
		return 0;
	err = view_place(&m->view, vnode, node);
	if (!err)
		changed(m);
	return err;
}

int members_vnode_end(struct members *m, uint32_t vnode)
{
	bool was_there = false;

	if (vnode == PROTO_VNODE_ROOT)
		return -EPERM;
	if (!(m->view.flags & CLUSTER_PLACED))
		return -EAGAIN;
	for (size_t i = m->view.nr_placed; i-- > 0;) {
		const struct cluster_placed p = m->view.placed[i];

		if (p.vnode == vnode)
			was_there = view_unplace(&m->view, vnode, p.node);
	}
	if (was_there)
		changed(m);
	return was_there ? 0 : -ENOENT;
}

/* --- leases -------------------------------------------------------------------------------- */

void members_expire(struct members *m, uint64_t now)
{
	const uint64_t period = m->view.lease_ms * 1000000ull;

	look(m, now);
	for (size_t i = m->view.nr_members; i-- > 0;) {
		const uint32_t id = m->view.members[i].id;
		const struct member_lease *l = lease_of(m, id);

		if (id == m->self || (l && now < l->seen_ns + period))
			continue;
		take_out(m, id, MEMBERS_SILENT);
		changed(m);
	}
	settle(m, now);
}

int members_renew(struct members *m, uint32_t id, const struct cluster_heartbeat *heartbeat,
		  uint64_t now)
{
	struct member_lease *l;

	members_expire(m, now);
	if (heartbeat->host != m->incarn)
		return -EAGAIN;
	l = lease_of(m, id);
	if (!l || !has(&m->view, id, heartbeat->incarn))
		return -ESTALE;
	if (heartbeat->seq <= l->seq)
		return 1;
	l->seq = heartbeat->seq;
	heard(m, l, now);
	return 0;
}

int members_join(struct members *m, const struct cluster_member *who, uint64_t now)
{
	const struct cluster_member *at = find(&m->view, who->id);
	int err;

	if (who->id == m->self)
		return -EPROTO;
	if (at && at->incarn == who->incarn) {
		struct member_lease *l = lease_of(m, who->id);

		heard(m, l, now);
		l->rebuilt = false; /* it is here itself */
		l->is_awaited = false;
		settle(m, now);
		return 0;
	}
	if (at && node_start_of(who->incarn) < node_start_of(at->incarn))
		return -ESTALE; /* its successor is here */
	if (at)
		take_out(m, who->id, MEMBERS_REPLACED);
	err = put(m, who, false, now);
	if (!err)
		m->heard_ns = now;
	if (!err || at)
		changed(m);
	return err;
}

/* --- after a restart ----------------------------------------------------------------------- */

void members_expect(struct members *m, uint32_t epoch, const struct cluster_member *members,
		    size_t nr, uint64_t now)
{
	m->again = true;
	m->view.flags &= ~(uint32_t)CLUSTER_PLACED;
	for (size_t i = 0; i < nr; i++) {
		if (members[i].id == m->self)
			continue;
		if (put(m, &members[i], true, now))
			break; /* as many as a view can have */
		lease_of(m, members[i].id)->is_awaited = members[i].role != NODE_ROLE_PROCESSOR;
	}
	m->view.flags |= CLUSTER_COMPLETE;
	m->view.epoch = MIN(epoch, UINT32_MAX / 2) + MEMBERS_EPOCH_JUMP;
	changed(m);
}

static bool same_place(const struct cluster_member *a, const struct cluster_member *b)
{
	return a->lid == b->lid && a->has_grh == b->has_grh &&
	       memcmp(a->gid, b->gid, sizeof(a->gid)) == 0;
}

int members_rejoin(struct members *m, const struct cluster_member *who,
		   const struct cluster_view *told, uint64_t now)
{
	const struct cluster_member *host = find(told, m->self);

	if (who->id == m->self || !host || !has(told, who->id, who->incarn))
		return -EPROTO;
	/* It would not take our views; and no honest node has one of an earlier host otherwise. */
	if (host->incarn != m->incarn && (!m->again || told->epoch >= m->view.epoch))
		return -EPROTO;
	members_expire(m, now);
	if (!has(&m->view, who->id, who->incarn))
		return -ESTALE;
	/* Its address is that of its connection; in the view it was what another node had told. */
	if (!same_place(find(&m->view, who->id), who)) {
		const int err = view_put(&m->view, who);

		ASSERT(!err);
		changed(m);
	}
	heard(m, lease_of(m, who->id), now);
	if (who->role != NODE_ROLE_PROCESSOR)
		hear_placed(m, lease_of(m, who->id), told, now);
	return 0;
}

bool members_veto(struct members *m, uint32_t id, uint32_t incarn, uint64_t now)
{
	const struct member_lease *l = lease_of(m, id);

	if (now - m->began_ns >= m->view.lease_ms * 1000000ull)
		return false;
	if (!l || !id || !l->rebuilt || !has(&m->view, id, incarn))
		return false;
	take_out(m, id, MEMBERS_EARLIER);
	changed(m);
	return true;
}

bool members_ended(struct members *m, uint32_t id, uint32_t incarn)
{
	if (id == m->self || !has(&m->view, id, incarn))
		return false;
	take_out(m, id, MEMBERS_ENDED);
	changed(m);
	return true;
}
