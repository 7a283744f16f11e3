/* SPDX-License-Identifier: MIT */
/*
 * The members of the cluster: the table of the node that hosts the managers, as pure code over a
 * clock that the caller brings.
 *
 * Flow:	a node joins, renews its lease, and is taken out when the lease ends, when a new
 *		incarnation takes its place, or when its machine has ended. A host that was started
 *		again is told by the launcher who was a member last (members_expect()): nobody else
 *		is believed about others. A member's heartbeat, which names the host's incarnation
 *		that it knows, is answered -EAGAIN; the member then joins with the view that it has.
 *		GPM's placements of vNodes on processors are part of the view. The root vNode is on
 *		every processor. The others are not kept over a restart either: memory and storage
 *		components, which check them, tell the new host with the view that they have; until
 *		all that were there have told, or a lease has passed, the view has no
 *		CLUSTER_PLACED, and each node keeps the placements that it knows.
 * Invariants:	a host gives an epoch to one view only, and a member of an earlier host gets none
 *		but greater ones. A node that has seen a member leave, and lives, sees it no more in
 *		that incarnation. Every member but the host itself has one lease.
 * Failure:	the table is not kept over a restart. All leases begin anew, so that no silence ends
 *		one for as long as a lease lasts. If the launcher did not hear of the last views, a
 *		member may be expected that others have seen leave: memory nodes say so for as long
 *		as a lease lasts (members_veto()).
 * Context:	any; the caller serialises the calls.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <proto/cluster.h>

#define MEMBERS_SCAN_NS    500000000ull /* between two looks for leases that have ended */
/* Epochs that a host leaves out behind those it hears of: more than an earlier one made unheard. */
#define MEMBERS_EPOCH_JUMP 4096u

enum members_why {
	MEMBERS_SILENT,   /* its lease is over */
	MEMBERS_REPLACED, /* a new incarnation has joined */
	MEMBERS_ENDED,    /* its machine has ended */
	MEMBERS_EARLIER,  /* a memory node has seen it leave under an earlier host */
	MEMBERS_WHYS,
};

struct member_lease {
	uint32_t id;  /* 0 = free */
	bool rebuilt; /* expected by members_expect(); else it has joined here */
	uint64_t seen_ns;
	uint64_t seq;    /* of the last heartbeat that renewed it */
	bool is_awaited; /* a node that was expected, and is to tell the placements */
};

struct members {
	struct cluster_view view; /* the epoch grows with every change */
	uint32_t self;            /* the host, and its incarnation */
	uint32_t incarn;
	bool again;            /* members_expect() has said who was there under an earlier host */
	uint32_t placed_epoch; /* of the newest view that brought placements; 0 = none has */
	uint64_t began_ns;
	uint64_t looked_ns;
	uint64_t heard_ns; /* of any member; while of none, leases stand still */
	struct member_lease leases[CLUSTER_MAX_MEMBERS]; /* in any order */
	void (*gone)(uint32_t id, enum members_why why); /* may be NULL */
};

/* A host begins, with itself as the only member. */
void members_init(struct members *m, const struct cluster_member *self,
		  const uint16_t wanted[CLUSTER_NR_ROLES], uint32_t lease_ms, uint64_t now);

/*
 * This host was started again: @nr members, ascending by id, were there at @epoch; the host itself
 * may be among them. Called once, before any other call but members_init().
 */
void members_expect(struct members *m, uint32_t epoch, const struct cluster_member *members,
		    size_t nr, uint64_t now);

/*
 * A node joins. A new incarnation replaces the one that is there; the same one again changes
 * nothing. -ENOSPC: the view is full.
 */
int members_join(struct members *m, const struct cluster_member *who, uint64_t now) __must_check;

/*
 * A member of an earlier host joins with the view that it has. -EPROTO: the view cannot be
 * @who's, or this host was not started again; -ESTALE: @who has been fenced.
 */
int members_rejoin(struct members *m, const struct cluster_member *who,
		   const struct cluster_view *told, uint64_t now) __must_check;

/*
 * A heartbeat. 0, or 1: it is late or came twice, and renews nothing; -EAGAIN: the sender knows an
 * earlier host and has to join with its view; -ESTALE: it has been fenced.
 */
int members_renew(struct members *m, uint32_t id, const struct cluster_heartbeat *heartbeat,
		  uint64_t now) __must_check;

/*
 * A member has seen this incarnation leave, under an earlier host. true: it was known from that
 * host's time, and is out; who has joined here stays.
 */
bool members_veto(struct members *m, uint32_t id, uint32_t incarn, uint64_t now);

/*
 * Take out the members whose lease is over. At least once in MEMBERS_SCAN_NS. When all of several
 * members are silent, it is the host that is cut off, and nobody is taken out.
 */
void members_expire(struct members *m, uint64_t now);

/* The machine with this incarnation has ended.  true: it was a member. */
bool members_ended(struct members *m, uint32_t id, uint32_t incarn);

/*
 * GPM places @vnode on processor @node, a member. -ENOENT: it is none; -ENOSPC: the view is full;
 * -EAGAIN: this host was started again, and does not know all placements yet.
 */
int members_place(struct members *m, uint32_t vnode, uint32_t node) __must_check;

/*
 * @vnode ends: it is on no processor any more. -ENOENT: it was on none; -EPERM: it is the root;
 * -EAGAIN as members_place().
 */
int members_vnode_end(struct members *m, uint32_t vnode) __must_check;
