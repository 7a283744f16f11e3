/* SPDX-License-Identifier: MIT */
/*
 * Boot parameters of membership.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <proto/cluster.h>
#include <rdma/verbs.h>

struct cluster_params {
	bool is_host; /* cluster= was given: this node hosts the managers */
	uint16_t wanted[CLUSTER_NR_ROLES];
	bool has_rendezvous;
	bool by_gid; /* else by LID */
	uint16_t lid;
	struct rdma_gid gid;
	uint32_t wait_ms; /* give up joining after this */
	uint32_t heartbeat_ms;
	uint32_t lease_ms; /* of the host; the others hear it in the view */
};
extern struct cluster_params cluster_params; /* const after boot */
