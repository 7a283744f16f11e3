/* SPDX-License-Identifier: MIT */
/*
 * Membership over a clock of its own: what each call answers, and random lives of nodes and of the
 * host itself, judged by what every node was ever told.
 */
#include <cluster/membership.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <managers/members.h>
#include <net/node.h>

#define HOST     1u
#define LEASE_MS 5000u
#define S        1000000000ull
#define MS       1000000ull

#define STARTED(n) ((uint32_t)(n) << (32 - NODE_START_BITS))

static struct members m; /* large, like the views below */
static const uint16_t wanted[CLUSTER_NR_ROLES] = { 1, 2, 1 };
static uint32_t nr_gone, last_gone;
static enum members_why last_why;

static void note_gone(uint32_t id, enum members_why why)
{
	nr_gone++;
	last_gone = id;
	last_why = why;
}

static struct cluster_member member(uint32_t id, uint32_t incarn)
{
	return (struct cluster_member){ .id = id,
					.incarn = incarn,
					.lid = (uint16_t)id,
					.role = id == HOST ? 3
						: id == 2  ? 1
							   : 2 };
}

static void start(uint32_t incarn, uint64_t now)
{
	const struct cluster_member self = member(HOST, incarn);

	m.gone = note_gone;
	members_init(&m, &self, wanted, LEASE_MS, now);
	nr_gone = 0;
}

static int join(uint32_t id, uint32_t incarn, uint64_t now)
{
	const struct cluster_member who = member(id, incarn);

	return members_join(&m, &who, now);
}

static int renew(uint32_t id, uint32_t incarn, uint32_t host, uint64_t seq, uint64_t now)
{
	const struct cluster_heartbeat b = { .incarn = incarn, .seq = seq, .host = host };

	return members_renew(&m, id, &b, now);
}

static int rejoin(uint32_t id, uint32_t incarn, const struct cluster_view *told, uint64_t now)
{
	const struct cluster_member who = member(id, incarn);

	return members_rejoin(&m, &who, told, now);
}

/* The launcher has seen @last. */
static void start_again(uint32_t incarn, const struct cluster_view *last, uint64_t now)
{
	start(incarn, now);
	members_expect(&m, last->epoch, last->members, last->nr_members, now);
}

static bool is_member(const struct cluster_view *v, uint32_t id, uint32_t incarn)
{
	for (size_t i = 0; i < v->nr_members; i++)
		if (v->members[i].id == id && v->members[i].incarn == incarn)
			return true;
	return false;
}

static void leases_are_renewed_and_end(struct ktest *t)
{
	uint32_t epoch;

	start(7, S);
	EXPECT_EQ(t, join(2, 20, S), 0);
	EXPECT_EQ(t, join(3, 30, S), 0);
	EXPECT_FALSE(t, m.view.flags & CLUSTER_COMPLETE);
	EXPECT_EQ(t, join(4, 40, S), 0);
	EXPECT_TRUE(t, m.view.flags & CLUSTER_COMPLETE);
	epoch = m.view.epoch;
	EXPECT_EQ(t, join(4, 40, S), 0);
	EXPECT_EQ(t, m.view.epoch, epoch);
	EXPECT_EQ(t, join(HOST, 8, S), -EPROTO);
	EXPECT_EQ(t, renew(2, 20, 7, 1, 2 * S), 0);
	EXPECT_EQ(t, renew(2, 20, 7, 1, 2 * S), 1); /* twice */
	EXPECT_EQ(t, renew(2, 21, 7, 2, 2 * S), -ESTALE);
	EXPECT_EQ(t, renew(9, 90, 7, 1, 2 * S), -ESTALE);
	for (uint64_t now = 2 * S, seq = 2; now <= 6 * S; now += MEMBERS_SCAN_NS)
		EXPECT_EQ(t, renew(2, 20, 7, seq++, now), 0);
	EXPECT_EQ(t, nr_gone, 2); /* 3 and 4, silent since 1 s */
	EXPECT_EQ(t, (int)last_why, (int)MEMBERS_SILENT);
	EXPECT_EQ(t, m.view.epoch, epoch + 2);
	EXPECT_EQ(t, renew(3, 30, 7, 1, 6 * S), -ESTALE); /* too late */
	EXPECT_EQ(t, join(3, 31, 6 * S), 0);
	EXPECT_TRUE(t, is_member(&m.view, 3, 31));
	EXPECT_EQ(t, join(2, 22, 6 * S), 0);
	EXPECT_EQ(t, (int)last_why, (int)MEMBERS_REPLACED);
	/* The third start of a node, then one of its first, which has been stopped so long. */
	EXPECT_EQ(t, join(2, STARTED(3) | 5, 6 * S), 0);
	epoch = m.view.epoch;
	EXPECT_EQ(t, join(2, STARTED(1) | 7, 6 * S), -ESTALE);
	EXPECT_TRUE(t, is_member(&m.view, 2, STARTED(3) | 5));
	EXPECT_EQ(t, m.view.epoch, epoch);
	EXPECT_EQ(t, join(2, STARTED(4) | 1, 6 * S), 0);
}

static void time_in_which_the_host_stood_still_does_not_count(struct ktest *t)
{
	start(7, S);
	EXPECT_EQ(t, join(2, 20, S), 0);
	members_expire(&m, 2 * S);
	members_expire(&m, 60 * S);
	EXPECT_EQ(t, nr_gone, 0);
	for (uint64_t now = 60 * S; now <= 65 * S; now += MEMBERS_SCAN_NS)
		members_expire(&m, now);
	EXPECT_EQ(t, nr_gone, 1);
}

/* All of several are silent at once: none of them is taken out, for however long. */
static void a_host_that_hears_nobody_is_cut_off(struct ktest *t)
{
	uint64_t now = S;

	start(7, now);
	EXPECT_EQ(t, join(2, 20, now), 0);
	EXPECT_EQ(t, join(3, 30, now), 0);
	for (; now <= 600 * S; now += MEMBERS_SCAN_NS)
		members_expire(&m, now);
	EXPECT_EQ(t, nr_gone, 0);
	/* One is heard again: the lease of the other goes on from where it stood, and ends. */
	EXPECT_EQ(t, renew(2, 20, 7, 1, now), 0);
	for (uint64_t i = 2; i < 6; i++, now += MEMBERS_SCAN_NS)
		EXPECT_EQ(t, renew(2, 20, 7, i, now), 0);
	EXPECT_EQ(t, nr_gone, 0);
	for (uint64_t i = 6; i < 10; i++, now += MEMBERS_SCAN_NS)
		EXPECT_EQ(t, renew(2, 20, 7, i, now), 0);
	EXPECT_EQ(t, nr_gone, 1);
	EXPECT_EQ(t, last_gone, 3u);
	/* The only one that is left may be fenced: nobody needs it. */
	for (uint64_t until = now + 6 * S; now < until; now += MEMBERS_SCAN_NS)
		members_expire(&m, now);
	EXPECT_EQ(t, nr_gone, 2);
}

static void a_machine_that_has_ended_is_out_at_once(struct ktest *t)
{
	start(7, S);
	EXPECT_EQ(t, join(3, 30, S), 0);
	EXPECT_FALSE(t, members_ended(&m, 3, 31)); /* another incarnation */
	EXPECT_FALSE(t, members_ended(&m, 9, 30));
	EXPECT_FALSE(t, members_ended(&m, HOST, 7));
	EXPECT_TRUE(t, members_ended(&m, 3, 30));
	EXPECT_EQ(t, last_gone, 3u);
	EXPECT_EQ(t, (int)last_why, (int)MEMBERS_ENDED);
	EXPECT_FALSE(t, members_ended(&m, 3, 30));
	EXPECT_EQ(t, renew(3, 30, 7, 1, S), -ESTALE);
}

static struct cluster_view before, older;

static void a_new_host_learns_from_the_views_of_its_members(struct ktest *t)
{
	start(7, S);
	EXPECT_EQ(t, join(2, 20, S), 0);
	EXPECT_EQ(t, join(3, 30, S), 0);
	older = m.view; /* node 3 will be out */
	EXPECT_TRUE(t, members_ended(&m, 3, 30));
	EXPECT_EQ(t, join(4, 40, S), 0);
	EXPECT_EQ(t, join(3, 31, S), 0);
	before = m.view;

	start_again(8, &before, 100 * S);
	EXPECT_EQ(t, renew(2, 20, 7, 9, 100 * S), -EAGAIN);
	/* One that has started meanwhile stays, whatever the views say. */
	EXPECT_EQ(t, join(4, 41, 100 * S), 0);
	EXPECT_TRUE(t, is_member(&m.view, 2, 20)); /* which has not come yet */
	EXPECT_TRUE(t, is_member(&m.view, 3, 31));
	EXPECT_TRUE(t, is_member(&m.view, 4, 41));
	EXPECT_TRUE(t, m.view.flags & CLUSTER_COMPLETE);
	EXPECT_GT(t, m.view.epoch, before.epoch + MEMBERS_EPOCH_JUMP);
	EXPECT_EQ(t, rejoin(2, 20, &before, 101 * S), 0);
	EXPECT_EQ(t, rejoin(3, 30, &older, 101 * S), -ESTALE); /* it was stopped, and fenced */
	/* Those that do not come at all are out one lease later, and no sooner. */
	for (uint64_t now = 101 * S; now < 105 * S; now += MEMBERS_SCAN_NS)
		EXPECT_EQ(t, renew(2, 20, 8, now, now), 0);
	EXPECT_TRUE(t, is_member(&m.view, 3, 31));
	members_expire(&m, 105 * S);
	EXPECT_FALSE(t, is_member(&m.view, 3, 31));
	EXPECT_TRUE(t, is_member(&m.view, 2, 20));
}

/* The newest view of an earlier host came to an end with those that had it. */
static void members_that_have_seen_one_leave_say_so(struct ktest *t)
{
	start(7, S);
	EXPECT_EQ(t, join(2, 20, S), 0);
	EXPECT_EQ(t, join(3, 30, S), 0);
	older = m.view;
	start_again(8, &older, 100 * S);
	EXPECT_EQ(t, rejoin(2, 20, &older, 100 * S), 0);
	EXPECT_EQ(t, join(4, 40, 100 * S), 0);
	EXPECT_FALSE(t, members_veto(&m, 4, 40, 100 * S)); /* has joined here */
	EXPECT_FALSE(t, members_veto(&m, 3, 31, 100 * S));
	EXPECT_FALSE(t, members_veto(&m, 0, 0, 100 * S));
	EXPECT_FALSE(t, members_veto(&m, HOST, 8, 100 * S));
	EXPECT_TRUE(t, members_veto(&m, 3, 30, 100 * S));
	EXPECT_FALSE(t, is_member(&m.view, 3, 30));
	EXPECT_EQ(t, rejoin(3, 30, &older, 100 * S), -ESTALE);
	/* Later on, one memory node alone has no such say. */
	EXPECT_FALSE(t, members_veto(&m, 2, 20, 106 * S));
	EXPECT_TRUE(t, is_member(&m.view, 2, 20));
}

static void views_that_cannot_be_are_refused(struct ktest *t)
{
	start(7, S);
	EXPECT_EQ(t, join(2, 20, S), 0);
	before = m.view;
	start_again(8, &before, S);
	EXPECT_EQ(t, rejoin(3, 30, &before, S), -EPROTO); /* it is not in it */
	EXPECT_EQ(t, rejoin(2, 21, &before, S), -EPROTO);
	EXPECT_EQ(t, rejoin(HOST, 7, &before, S), -EPROTO);
	before.epoch = m.view.epoch;
	EXPECT_EQ(t, rejoin(2, 20, &before, S), -EPROTO);
	before.epoch = 5;
	memmove(&before.members[0], &before.members[1], sizeof(before.members[0]));
	before.nr_members = 1; /* without the host */
	EXPECT_EQ(t, rejoin(2, 20, &before, S), -EPROTO);
	EXPECT_EQ(t, m.view.nr_members, 2);
	/* In the name of this host: its own table decides. */
	EXPECT_EQ(t, join(2, 20, S), 0);
	before = m.view;
	EXPECT_EQ(t, rejoin(2, 20, &before, S), 0);
	EXPECT_TRUE(t, members_ended(&m, 2, 20));
	EXPECT_EQ(t, rejoin(2, 20, &before, S), -ESTALE);
}

/* A member tells of a host that never was, of a member that is none, of one that has left. */
static void views_of_members_move_nobody(struct ktest *t)
{
	const struct cluster_member forged = member(77, 1);
	uint32_t epoch;

	start(8, S);
	EXPECT_EQ(t, join(2, 20, S), 0);
	EXPECT_EQ(t, join(4, 40, S), 0);
	before = m.view;
	before.epoch = 7;
	before.members[0].incarn = 99; /* another host */
	before.members[before.nr_members++] = forged;
	epoch = m.view.epoch;
	EXPECT_EQ(t, rejoin(2, 20, &before, S), -EPROTO); /* this host was never started again */
	EXPECT_EQ(t, m.view.epoch, epoch);
	EXPECT_FALSE(t, is_member(&m.view, 77, 1));

	older = m.view;
	start_again(9, &older, S);
	epoch = m.view.epoch;
	before.epoch = epoch - 1;
	before.members[2] = forged; /* and without 4 */
	before.nr_members = 3;
	EXPECT_EQ(t, rejoin(2, 20, &before, S), 0);
	EXPECT_EQ(t, m.view.epoch, epoch);
	EXPECT_FALSE(t, is_member(&m.view, 77, 1));
	EXPECT_TRUE(t, is_member(&m.view, 4, 40));
	before.epoch = 1u << 31;
	EXPECT_EQ(t, rejoin(2, 20, &before, S), -EPROTO);
	EXPECT_EQ(t, m.view.epoch, epoch);
}

/* --- placements ----------------------------------------------------------------------------- */

#define P  2u /* the processor of member() */
#define P2 5u /* another one */

static int join_processor(uint32_t id, uint32_t incarn, uint64_t now)
{
	struct cluster_member who = member(id, incarn);

	who.role = 1;
	return members_join(&m, &who, now);
}

static void vnodes_are_placed_and_end(struct ktest *t)
{
	uint32_t epoch;

	start(7, S);
	EXPECT_TRUE(t, m.view.flags & CLUSTER_PLACED);
	EXPECT_EQ(t, join(P, 20, S), 0);
	EXPECT_EQ(t, join(3, 30, S), 0);
	EXPECT_TRUE(t, view_is_placed(&m.view, PROTO_VNODE_ROOT, P));
	EXPECT_FALSE(t, view_is_placed(&m.view, 2, P));
	epoch = m.view.epoch;
	EXPECT_EQ(t, members_place(&m, 2, P), 0);
	EXPECT_EQ(t, m.view.epoch, epoch + 1);
	EXPECT_EQ(t, members_place(&m, 2, P), 0);
	EXPECT_EQ(t, members_place(&m, PROTO_VNODE_ROOT, P), 0);
	EXPECT_EQ(t, m.view.epoch, epoch + 1);
	EXPECT_EQ(t, members_place(&m, 2, 3), -ENOENT); /* a memory component */
	EXPECT_EQ(t, members_place(&m, 2, P2), -ENOENT);
	EXPECT_EQ(t, join_processor(P2, 50, S), 0);
	EXPECT_EQ(t, members_place(&m, 2, P2), 0);
	EXPECT_EQ(t, members_place(&m, 3, P2), 0);
	/* A new life of a processor has nothing of the one before. */
	EXPECT_EQ(t, join_processor(P2, 51, S), 0);
	EXPECT_FALSE(t, view_is_placed(&m.view, 2, P2));
	EXPECT_FALSE(t, view_is_placed(&m.view, 3, P2));
	EXPECT_TRUE(t, view_is_placed(&m.view, 2, P));
	EXPECT_EQ(t, members_place(&m, 2, P2), 0);
	epoch = m.view.epoch;
	EXPECT_EQ(t, members_vnode_end(&m, 2), 0);
	EXPECT_EQ(t, m.view.epoch, epoch + 1);
	EXPECT_FALSE(t, view_is_placed(&m.view, 2, P));
	EXPECT_FALSE(t, view_is_placed(&m.view, 2, P2));
	EXPECT_EQ(t, members_vnode_end(&m, 2), -ENOENT);
	EXPECT_EQ(t, members_vnode_end(&m, PROTO_VNODE_ROOT), -EPERM);
	EXPECT_EQ(t, m.view.epoch, epoch + 1);
}

static void a_view_has_room_for_so_many_placements(struct ktest *t)
{
	uint32_t vnode = 2;

	start(7, S);
	EXPECT_EQ(t, join(P, 20, S), 0);
	while (!members_place(&m, vnode, P))
		vnode++;
	EXPECT_EQ(t, members_place(&m, vnode, P), -ENOSPC);
	EXPECT_EQ(t, m.view.nr_placed, CLUSTER_MAX_PLACED);
	EXPECT_TRUE(t, members_ended(&m, P, 20));
	EXPECT_EQ(t, m.view.nr_placed, 1);
}

/* A new host believes memory and storage components, and no processor, about placements. */
static void placements_are_told_to_a_new_host(struct ktest *t)
{
	start(7, S);
	EXPECT_EQ(t, join(P, 20, S), 0);
	EXPECT_EQ(t, join_processor(P2, 50, S), 0);
	EXPECT_EQ(t, join(3, 30, S), 0);
	EXPECT_EQ(t, join(4, 40, S), 0);
	EXPECT_EQ(t, members_place(&m, 2, P), 0);
	EXPECT_EQ(t, members_place(&m, 4, P), 0);
	older = m.view;
	EXPECT_EQ(t, members_vnode_end(&m, 4), 0);
	EXPECT_EQ(t, members_place(&m, 3, P2), 0);
	before = m.view;

	start_again(8, &before, 100 * S);
	EXPECT_FALSE(t, m.view.flags & CLUSTER_PLACED);
	EXPECT_TRUE(t, view_is_placed(&m.view, PROTO_VNODE_ROOT, P));
	EXPECT_EQ(t, members_place(&m, 5, P), -EAGAIN);
	EXPECT_EQ(t, members_vnode_end(&m, 2), -EAGAIN);
	EXPECT_EQ(t, rejoin(P, 20, &before, 100 * S), 0);
	EXPECT_FALSE(t, view_is_placed(&m.view, 2, P)); /* nobody says so but P itself */
	EXPECT_EQ(t, rejoin(3, 30, &before, 100 * S), 0);
	EXPECT_TRUE(t, view_is_placed(&m.view, 2, P));
	EXPECT_TRUE(t, view_is_placed(&m.view, 3, P2));
	EXPECT_FALSE(t, m.view.flags & CLUSTER_PLACED);
	EXPECT_EQ(t, rejoin(4, 40, &older, 100 * S), 0); /* it has missed the last two */
	EXPECT_FALSE(t, view_is_placed(&m.view, 4, P));
	EXPECT_TRUE(t, m.view.flags & CLUSTER_PLACED);

	/* The older one comes first; one processor was started again meanwhile. */
	start_again(8, &before, 100 * S);
	EXPECT_EQ(t, rejoin(4, 40, &older, 100 * S), 0);
	EXPECT_TRUE(t, view_is_placed(&m.view, 4, P));
	EXPECT_EQ(t, join_processor(P2, 51, 100 * S), 0);
	EXPECT_EQ(t, rejoin(3, 30, &before, 100 * S), 0);
	EXPECT_FALSE(t, view_is_placed(&m.view, 4, P));
	EXPECT_TRUE(t, view_is_placed(&m.view, 2, P));
	EXPECT_FALSE(t, view_is_placed(&m.view, 3, P2));
	EXPECT_TRUE(t, m.view.flags & CLUSTER_PLACED);
	EXPECT_EQ(t, rejoin(4, 40, &older, 100 * S), 0); /* too late to say anything */
	EXPECT_FALSE(t, view_is_placed(&m.view, 4, P));
}

/* One component that checks placements does not come back. */
static void placements_are_waited_for_as_long_as_a_lease(struct ktest *t)
{
	uint64_t now = 100 * S;

	start(7, S);
	EXPECT_EQ(t, join(P, 20, S), 0);
	EXPECT_EQ(t, join(3, 30, S), 0);
	EXPECT_EQ(t, join(4, 40, S), 0);
	EXPECT_EQ(t, members_place(&m, 2, P), 0);
	before = m.view;
	start_again(8, &before, now);
	EXPECT_EQ(t, rejoin(3, 30, &before, now), 0);
	for (; now < 100 * S + LEASE_MS * MS; now += MEMBERS_SCAN_NS) {
		EXPECT_FALSE(t, m.view.flags & CLUSTER_PLACED);
		EXPECT_EQ(t, renew(3, 30, 8, now, now), 0);
		EXPECT_EQ(t, renew(P, 20, 8, now, now), 0);
	}
	members_expire(&m, now);
	EXPECT_TRUE(t, m.view.flags & CLUSTER_PLACED);
	EXPECT_TRUE(t, view_is_placed(&m.view, 2, P));
}

/* --- random lives ---------------------------------------------------------------------------- */

#define NODES      6u /* ids 2 to 7 */
#define INCARNS    4096u
#define STEP       (100 * MS)
#define EPOCH_HASH 65536u

struct life {
	bool alive, joined;
	uint32_t incarn;
	uint64_t seq, stopped_until, next_ns;
	uint64_t missed, missed_max; /* how long a living host has heard nothing of it */
	bool alone;                  /* nobody else ever had it in a view */
	bool unheard;                /* some did not have it in theirs when a host ended */
	struct cluster_view view;
};

static struct life nodes[NODES + 2];
static bool host_up;
static uint32_t host_incarn;
static uint64_t host_began, now_ns, seed;
/* By node: the members that it has seen leave. */
static bool gone[NODES + 2][NODES + 2][INCARNS];
static uint32_t seen_leave[NODES + 2][NODES + 2]; /* and what it remembers: the last of each */
static struct {
	uint32_t epoch, host;
	uint64_t sum;
} views[EPOCH_HASH];
static uint32_t nr_fenced, nr_hosts, nr_silent;
static struct cluster_view launcher; /* the last that it heard of, or one before that */
static uint32_t nr_hosts_now;

static uint32_t rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 11) % n;
}

static uint64_t sum_of(const struct cluster_view *v)
{
	uint64_t sum = v->flags;

	for (size_t i = 0; i < v->nr_members; i++)
		sum = (sum * 1099511628211ull) ^ v->members[i].id ^
		      (uint64_t)v->members[i].incarn << 16;
	return sum;
}

/* A node takes the host's view. */
static void take(struct ktest *t, uint32_t id)
{
	struct life *n = &nodes[id];
	const struct cluster_view *v = &m.view;
	uint32_t at;

	if (v->epoch <= n->view.epoch)
		return;
	for (uint32_t other = 2; other < NODES + 2; other++) {
		if (seen_leave[id][other] && is_member(v, other, seen_leave[id][other]))
			EXPECT_TRUE(t, members_veto(&m, other, seen_leave[id][other], now_ns));
	}
	at = v->epoch % EPOCH_HASH;
	if (views[at].epoch == v->epoch && views[at].host == host_incarn)
		EXPECT_EQ(t, views[at].sum, sum_of(v)); /* one view to an epoch */
	views[at].epoch = v->epoch;
	views[at].host = host_incarn;
	views[at].sum = sum_of(v);
	for (size_t i = 0; i < n->view.nr_members; i++) {
		const struct cluster_member *was = &n->view.members[i];

		if (was->id == HOST || is_member(v, was->id, was->incarn))
			continue;
		/* One that never heard that it is a member has nothing, and may try again. */
		if (nodes[was->id].incarn == was->incarn && !nodes[was->id].joined)
			continue;
		seen_leave[id][was->id] = was->incarn;
		gone[id][was->id][was->incarn] = true;
	}
	for (size_t i = 0; i < v->nr_members; i++) {
		const struct cluster_member *is = &v->members[i];

		if (is->id == HOST)
			continue;
		/* Fenced is for ever: its frames are free, its spaces gone. */
		EXPECT_FALSE(t, gone[id][is->id][is->incarn]);
		if (is->id != id && nodes[is->id].incarn == is->incarn)
			nodes[is->id].alone = false;
	}
	n->view = *v;
}

static void note_random_gone(uint32_t id, enum members_why why)
{
	if (why == MEMBERS_SILENT) {
		nr_silent++;
		if (now_ns < host_began + LEASE_MS * MS)
			panic("node %u was fenced %llu ms after the host began", id,
			      (unsigned long long)((now_ns - host_began) / MS));
	}
}

static void host_begins(void)
{
	const struct cluster_member self = member(HOST, ++host_incarn);

	m.gone = note_random_gone;
	members_init(&m, &self, wanted, LEASE_MS, now_ns);
	if (nr_hosts_now++) {
		size_t nr = 0;

		for (size_t i = 0; i < launcher.nr_members; i++) {
			const struct cluster_member *at = &launcher.members[i];

			if (at->id != HOST && nodes[at->id].alive &&
			    nodes[at->id].incarn == at->incarn)
				launcher.members[nr++] = *at;
		}
		for (uint32_t id = 2; id < NODES + 2; id++) {
			bool known = false;

			for (size_t i = 0; i < nr; i++)
				known |= launcher.members[i].id == id;
			nodes[id].unheard |= !known;
		}
		members_expect(&m, launcher.epoch, launcher.members, nr, now_ns);
	}
	host_up = true;
	host_began = now_ns;
	nr_hosts++;
}

static void host_ends(void)
{
	host_up = false;
	for (uint32_t id = 2; id < NODES + 2; id++) {
		for (uint32_t other = 2; other < NODES + 2; other++)
			nodes[id].unheard |= nodes[other].alive &&
					     !is_member(&nodes[other].view, id, nodes[id].incarn);
	}
}

static void node_begins(uint32_t id)
{
	const uint32_t incarn = nodes[id].incarn + 1;

	memset(&nodes[id], 0, sizeof(nodes[id]));
	memset(gone[id], 0, sizeof(gone[id]));
	memset(seen_leave[id], 0, sizeof(seen_leave[id]));
	nodes[id].alive = true;
	nodes[id].alone = true;
	nodes[id].incarn = incarn;
}

static void fenced(struct ktest *t, uint32_t id)
{
	struct life *n = &nodes[id];

	nr_fenced++;
	/* Only one that was silent under a living host, or of which too few had heard. */
	EXPECT_TRUE(t, n->alone || n->unheard || n->missed_max >= LEASE_MS * MS - 2 * S);
	n->alive = false;
}

static void contact(struct ktest *t, uint32_t id)
{
	struct life *n = &nodes[id];
	const struct cluster_member who = member(id, n->incarn);
	const struct cluster_member *host = n->view.members; /* the lowest id */
	int ret;

	if (!n->joined) {
		EXPECT_EQ(t, members_join(&m, &who, now_ns), 0);
		if (rnd(10) == 0)
			return; /* the answer is lost */
		n->joined = true;
		take(t, id);
		n->missed = 0;
		return;
	}
	ret = renew(id, n->incarn, host->incarn, ++n->seq, now_ns);
	if (ret == -EAGAIN)
		ret = members_rejoin(&m, &who, &n->view, now_ns);
	if (ret == -ESTALE) {
		fenced(t, id);
		return;
	}
	EXPECT_EQ(t, ret, 0);
	n->missed = 0;
	if (rnd(10))
		take(t, id);
}

static void node_steps(struct ktest *t, uint32_t id, bool faults)
{
	struct life *n = &nodes[id];

	if (!n->alive) {
		if (rnd(faults ? 60 : 4) == 0)
			node_begins(id);
		return;
	}
	if (faults && rnd(400) == 0) {
		n->alive = false;
		if (host_up && rnd(2))
			(void)members_ended(&m, id, n->incarn);
		return;
	}
	if (faults && n->stopped_until <= now_ns && rnd(200) == 0)
		n->stopped_until = now_ns + rnd(2 * LEASE_MS) * MS;
	if (host_up) {
		n->missed += STEP;
		n->missed_max = MAX(n->missed_max, n->missed);
	}
	if (n->stopped_until > now_ns || n->next_ns > now_ns)
		return;
	n->next_ns = now_ns + 400 * MS;
	if (host_up && (!faults || rnd(10)))
		contact(t, id);
}

static void live(struct ktest *t, uint32_t steps, bool faults)
{
	for (uint32_t i = 0; i < steps; i++) {
		now_ns += STEP;
		if (host_up)
			launcher = m.view; /* and not what this step brings */
		if (!host_up && rnd(faults ? 80 : 4) == 0)
			host_begins();
		else if (host_up && faults && rnd(150) == 0)
			host_ends();
		for (uint32_t id = 2; id < NODES + 2; id++) {
			if (!host_up)
				nodes[id].missed = 0; /* the next host begins with whole leases */
			node_steps(t, id, faults);
		}
		if (host_up && i % 4 == 0)
			members_expire(&m, now_ns);
	}
}

static void random_lives(struct ktest *t)
{
	nr_fenced = nr_hosts = nr_silent = 0;
	for (uint64_t round = 1; round <= 60; round++) {
		seed = round * 0x9e3779b97f4a7c15ull;
		now_ns = 10 * S;
		memset(nodes, 0, sizeof(nodes));
		memset(gone, 0, sizeof(gone));
		memset(views, 0, sizeof(views));
		host_incarn = 0;
		nr_hosts_now = 0;
		host_begins();
		for (uint32_t id = 2; id < NODES + 2; id++)
			node_begins(id);
		live(t, 4000, true);
		/* And when nothing goes wrong any more, all are members and all know it. */
		live(t, 400, false);
		EXPECT_TRUE(t, host_up);
		EXPECT_EQ(t, m.view.nr_members, NODES + 1);
		for (uint32_t id = 2; id < NODES + 2; id++) {
			EXPECT_TRUE(t, nodes[id].alive);
			EXPECT_TRUE(t, is_member(&m.view, id, nodes[id].incarn));
			EXPECT_EQ(t, nodes[id].view.epoch, m.view.epoch);
		}
	}
	EXPECT_GT(t, nr_hosts, 500u);
	EXPECT_GT(t, nr_fenced, 100u);
	EXPECT_GT(t, nr_silent, 100u);
}

static const struct ktest_case cases[] = {
	KTEST(leases_are_renewed_and_end),
	KTEST(time_in_which_the_host_stood_still_does_not_count),
	KTEST(a_host_that_hears_nobody_is_cut_off),
	KTEST(a_machine_that_has_ended_is_out_at_once),
	KTEST(a_new_host_learns_from_the_views_of_its_members),
	KTEST(members_that_have_seen_one_leave_say_so),
	KTEST(views_that_cannot_be_are_refused),
	KTEST(views_of_members_move_nobody),
	KTEST(vnodes_are_placed_and_end),
	KTEST(a_view_has_room_for_so_many_placements),
	KTEST(placements_are_told_to_a_new_host),
	KTEST(placements_are_waited_for_as_long_as_a_lease),
	KTEST(random_lives),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "managers.members", .cases = cases };
KTEST_SUITE(suite);
