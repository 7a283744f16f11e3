/* SPDX-License-Identifier: MIT */
/*
 * Shared by the membership client and its host: boot parameters, the view and the lease as pure
 * data.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/siphash.h>
#include <lib/types.h>
#include <net/node.h>
#include <proto/cluster.h>
#include <rdma/verbs.h>

/* --- params.c */

#define CLUSTER_PARAM_MEMBERS 200u /* for which a command line has room */

struct cluster_params {
	bool is_host; /* cluster= was given: this node hosts the managers */
	uint16_t wanted[CLUSTER_NR_ROLES];
	bool has_rendezvous;
	bool by_gid; /* else by LID */
	uint16_t lid;
	struct rdma_gid gid;
	bool has_key;
	uint8_t key[RPC_KEY_LEN]; /* the host: the cluster's; else this node's */
	bool has_file_key;
	struct siphash_key file_key; /* see cluster_file_key() */
	bool again; /* cluster.again= was given: the members at that epoch, ascending by id */
	uint32_t again_epoch;
	size_t nr_expected;
	struct cluster_member expected[CLUSTER_PARAM_MEMBERS];
	uint32_t wait_ms; /* give up joining after this */
	uint32_t heartbeat_ms;
	uint32_t lease_ms; /* of the host; the others hear it in the view */
};
extern struct cluster_params cluster_params; /* const after boot */

#define CLUSTER_KEY_FILE "opt/tessera/cluster.key" /* of QEMU's fw_cfg */
/*
 * Tell the RPC layer the key, and which start of the node this is: boot parameter cluster.key=,
 * else what QEMU hands over.  -ENOKEY: there is none that makes sense.
 */
int cluster_key_find(void) __must_check;
#define CLUSTER_FILE_KEY_LEN 16u
/* The key of handles that follows from the cluster's.  The launcher computes the same (plan.py). */
void cluster_file_key_of(const uint8_t cluster_key[RPC_KEY_LEN], uint8_t out[CLUSTER_FILE_KEY_LEN]);

/* --- view.c */

/* Position of node @id, or where it would be inserted (ids ascend). */
size_t view_find(const struct cluster_view *v, uint32_t id, bool *found);
/* Insert or replace. -ENOSPC when the view is full. */
int view_put(struct cluster_view *v, const struct cluster_member *m) __must_check;
/* With its placements. false: it was not there. */
bool view_remove(struct cluster_view *v, uint32_t id);
/* vNode @vnode is on @node, a processor of the view (0: on each). -ENOSPC when the view is full. */
int view_place(struct cluster_view *v, uint32_t vnode, uint32_t node) __must_check;
/* It is there no more. false: it was not. */
bool view_unplace(struct cluster_view *v, uint32_t vnode, uint32_t node);
/* Is @vnode on @node, by its name or as on each processor? */
bool view_is_placed(const struct cluster_view *v, uint32_t vnode, uint32_t node);
/* The same for the placements alone. */
bool placed_has(const struct cluster_placed *list, size_t nr, uint32_t vnode, uint32_t node);
/* The placements of @from on members that are in @v in the same incarnation are in @v, too. */
void view_keep_placed(struct cluster_view *v, const struct cluster_view *from);
/* Has a processor that stays a member lost a vNode between the two? */
bool view_has_withdrawn(const struct cluster_view *before, const struct cluster_view *now);
/* Assert what every view promises: ids ascend, roles and incarnations are set. */
void view_check(const struct cluster_view *v);
/* Have all the wanted nodes come? */
bool view_is_complete(const struct cluster_view *v);
/* One line that names the missing nodes ("waiting for memory nodes (1 of 2 are here)"). */
void view_describe_missing(const struct cluster_view *v, char *buf, size_t size);
/* Parse "p1,m2,s1" into wanted[]: -EINVAL. Each role at most once; a missing one wants none. */
int view_parse_wanted(const char *text, uint16_t wanted[CLUSTER_NR_ROLES]) __must_check;

/* --- lease.c */

/*
 * A member's own clock of its lease: pure code over a clock that the caller brings. It runs while
 * the node runs; time in which the node stood still, alone or with all others, counts for nothing.
 * Invariant: heard_ns and renewed_ns are never ahead of ran_ns.
 */
struct own_lease {
	uint64_t looked_ns;  /* when the caller looked last, by its clock */
	uint64_t ran_ns;     /* how long this node has run since lease_start() */
	uint64_t renewed_ns; /* of that, when the host answered last */
	uint64_t heard_ns;   /* of that, when any member did */
};

void lease_start(struct own_lease *l, uint64_t now);
/*
 * The caller looks, after it meant to wait for at most @waited_ns. false: this node has stood still
 * since the last look, so that what was not answered meanwhile says nothing.
 */
bool lease_look(struct own_lease *l, uint64_t now, uint64_t waited_ns);
/* The host has answered a heartbeat. */
void lease_renewed(struct own_lease *l);
/* Another member has answered. */
void lease_heard(struct own_lease *l);
/* Has the host been silent for as long as a lease lasts? The other members are to be asked. */
bool lease_is_over(const struct own_lease *l, uint64_t lease_ns);
/* And has no other member answered since, for half as long again? */
bool lease_is_cut_off(const struct own_lease *l, uint64_t lease_ns);
