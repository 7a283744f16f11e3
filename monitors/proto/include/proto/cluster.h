/* SPDX-License-Identifier: MIT */
/*
 * Membership: every node <-> the node that hosts the managers.
 *
 * CLUSTER_JOIN, node to host: who I am, and to a host that was started again also the view that I
 * have; answered with the view.
 *
 * CLUSTER_HEARTBEAT, node to host: renews the lease, tells the load; answered with the view if the
 * node's is old.
 *
 * CLUSTER_VIEW, host to node: the view has changed.
 *
 * CLUSTER_VETO, memory node to host: the view has a member again that this node has seen leave.
 *
 * All are idempotent: a view carries the epoch, and an older one than the node has is ignored; a
 * heartbeat carries a number, and one that comes late or twice renews nothing.
 *
 * See:	docs/protocol/cluster.md
 */
#pragma once

#include <proto/types.h>

enum cluster_opcode {
	CLUSTER_JOIN = 0x0100,
	CLUSTER_HEARTBEAT = 0x0101,
	CLUSTER_VIEW = 0x0102,
	CLUSTER_VETO = 0x0103,
};
static_assert(CLUSTER_JOIN == PROTO_FIRST_OPCODE(PROTO_CLUSTER), "opcodes are ABI");

#define CLUSTER_MAX_MEMBERS  500
/* A view and a member are one message of the control class: what else a view has, at most. */
#define CLUSTER_VIEW_BYTES   (16384 - 32)
/* Of a view with few members; one with many has room for fewer. */
#define CLUSTER_MAX_PLACED   1024
#define CLUSTER_NR_ROLES     3 /* processor, memory, storage: enum node_role minus 1 */
#define CLUSTER_ROLE_PROC    1 /* NODE_ROLE_PROCESSOR */
#define CLUSTER_LEASE_MIN_MS 100u
#define CLUSTER_LEASE_MAX_MS 86400000u /* a day */

struct cluster_member_wire {
	le32_t id;
	le32_t incarn;
	uint8_t gid[16];
	le16_t lid;
	uint8_t role; /* enum node_role */
	uint8_t has_grh;
	le32_t reserved;
};
static_assert(sizeof(struct cluster_member_wire) == 32, "cluster_member is ABI");

struct cluster_member {
	uint32_t id;
	uint32_t incarn;
	uint8_t gid[16];
	uint16_t lid;
	uint8_t role;
	bool has_grh;
};

/* The load of a node as it tells it itself; 0 for a thing that it does not have. */
struct cluster_load_wire {
	le32_t runnable;
	le32_t tasks;
	le32_t cpus;
	le32_t free_lines;
};
static_assert(sizeof(struct cluster_load_wire) == 16, "cluster_load is ABI");

/* Body of CLUSTER_JOIN: one member, and perhaps a view.  Body of CLUSTER_HEARTBEAT: */
struct cluster_heartbeat_wire {
	le32_t epoch; /* of the view that the node has */
	le32_t incarn;
	le64_t seq; /* 1, 2, ...: it renews the lease when it is greater than any before */
	struct cluster_load_wire load;
	le32_t host; /* incarnation of the host in that view */
	le32_t reserved;
};
static_assert(sizeof(struct cluster_heartbeat_wire) == 40, "CLUSTER_HEARTBEAT is ABI");

struct cluster_load {
	uint32_t runnable; /* tasks of programs that run or would */
	uint32_t tasks;    /* all of them */
	uint32_t cpus;
	uint32_t free_lines; /* of the ExCache */
};

struct cluster_heartbeat {
	uint32_t epoch;
	uint32_t incarn;
	uint64_t seq;
	struct cluster_load load;
	uint32_t host;
};

/* Body of CLUSTER_VETO. */
struct cluster_veto_wire {
	le32_t id;
	le32_t incarn;
};
static_assert(sizeof(struct cluster_veto_wire) == 8, "CLUSTER_VETO is ABI");

struct cluster_veto {
	uint32_t id;
	uint32_t incarn;
};

enum cluster_view_flags {
	CLUSTER_COMPLETE = 1 << 0, /* as many nodes as were wanted have been here */
	/*
	 * All placements are in the view. Else the host was started again and does not know them
	 * yet: those that a node knows hold on.
	 */
	CLUSTER_PLACED = 1 << 1,
	CLUSTER_VIEW_ALL = 3,
};

/* GPM has placed this vNode on a processor: requests that name it are taken from that one. */
struct cluster_placed_wire {
	le32_t vnode; /* not 0 */
	le32_t node;  /* a processor in the view; 0: each that is, or will be */
};
static_assert(sizeof(struct cluster_placed_wire) == 8, "cluster_placed is ABI");

struct cluster_placed {
	uint32_t vnode;
	uint32_t node;
};

/*
 * Header, then the members, ascending by id, then the placements, ascending by vNode and node.
 * nr_members 0: the epoch has not changed, or, when it is another than the node has, the answer
 * was too short for the members: ask by connection.
 */
struct cluster_view_wire {
	le32_t epoch;
	le32_t flags;
	le16_t nr_members;
	le16_t wanted[CLUSTER_NR_ROLES];
	le32_t lease_ms; /* a node that is silent for this long is fenced; the same for all */
	le16_t nr_placed;
	le16_t reserved;
};
static_assert(sizeof(struct cluster_view_wire) == 24, "cluster_view is ABI");
static_assert(sizeof(struct cluster_view_wire) +
			      CLUSTER_MAX_MEMBERS * sizeof(struct cluster_member_wire) +
			      sizeof(struct cluster_placed_wire) <=
		      CLUSTER_VIEW_BYTES,
	      "a full view has room for the root vNode");

struct cluster_view { /* about 26 KiB: not for a kernel stack */
	uint32_t epoch;
	uint32_t flags;
	uint16_t nr_members;
	uint16_t wanted[CLUSTER_NR_ROLES];
	uint32_t lease_ms; /* CLUSTER_LEASE_MIN_MS to CLUSTER_LEASE_MAX_MS */
	struct cluster_member members[CLUSTER_MAX_MEMBERS];
	uint16_t nr_placed;
	struct cluster_placed placed[CLUSTER_MAX_PLACED];
};

/* Does one message carry so many? */
bool cluster_view_fits(size_t nr_members, size_t nr_placed);

void cluster_member_encode(const struct cluster_member *m, struct cluster_member_wire *w);
int cluster_member_decode(const void *buf, size_t len, struct cluster_member *out) __must_check;
void cluster_heartbeat_encode(const struct cluster_heartbeat *b, struct cluster_heartbeat_wire *w);
int cluster_heartbeat_decode(const void *buf, size_t len, struct cluster_heartbeat *out)
	__must_check;
void cluster_veto_encode(const struct cluster_veto *veto, struct cluster_veto_wire *w);
int cluster_veto_decode(const void *buf, size_t len, struct cluster_veto *out) __must_check;
ssize_t cluster_view_encode(const struct cluster_view *v, void *buf, size_t cap) __must_check;
int cluster_view_decode(const void *buf, size_t len, struct cluster_view *out) __must_check;
