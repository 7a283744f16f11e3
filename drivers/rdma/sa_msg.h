/* SPDX-License-Identifier: MIT */
/*
 * Subnet administration messages: PathRecord query and answer.  Pure.
 *
 * See:		InfiniBand Architecture Specification volume 1, sections 15.2.1 and 15.2.5.16
 */
#pragma once

#include <lib/compiler.h>
#include <rdma/verbs.h>

/* @mad: MAD_LEN bytes. */
void sa_path_encode(uint64_t tid, const struct rdma_gid *sgid, const struct rdma_gid *dgid,
		    void *mad);
/*
 * -ENOMSG not the answer to @tid; -ENOENT the SA has no such record, -EPROTO a malformed answer, or
 * one about another port than @dgid.
 */
int sa_path_decode(const void *mad, uint64_t tid, const struct rdma_gid *dgid,
		   struct rdma_addr *addr) __must_check;
