/* SPDX-License-Identifier: MIT */
/*
 * Subnet administration client: how to reach a port that is known by its GID only.
 *
 * Flow:	sa_path_query() asks the subnet manager's SA for a PathRecord from our port to @dgid
 *		and turns the answer into an address.  On a provider without LIDs (RoCE) the GID is
 *		the address and nothing is asked.
 * Context:	may sleep.
 * Failure:	the query is repeated until the deadline; then -ETIMEDOUT.
 * See:		InfiniBand Architecture Specification volume 1, chapter 15.
 */
#pragma once

#include <lib/compiler.h>
#include <rdma/verbs.h>

/*
 * 0 with *@addr filled in; -ENOENT the SA knows no such port, -EPROTO it answered rubbish,
 * -ETIMEDOUT no answer, -EBUSY the class is taken on that port, -ENOMEM.
 */
int sa_path_query(struct rdma_device *dev, uint8_t port, const struct rdma_gid *dgid,
		  struct rdma_addr *addr, uint64_t deadline_ns) __must_check;
