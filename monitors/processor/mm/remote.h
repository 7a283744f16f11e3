/* SPDX-License-Identifier: MIT */
/*
 * Requests of the processor monitor to memory nodes, one function each.
 *
 * Context:	all sleep for a reply; no lock but aspace.map_lock may be held.
 * Failure:	the peer's errno, or -EHOSTDOWN, -ETIMEDOUT, -ESTALE; a malformed reply is -EPROTO.
 */
#pragma once

#include <lib/compiler.h>
#include <net/rpc.h>
#include <proto/pm.h>

#include "aspace.h"

/* --- the home of an address space ---------------------------------------------------- */

/* A program: a file, or a shared object and how it begins. */
struct exec_program {
	const struct proto_attr *attr; /* of the file, as just looked up; NULL: the object */
	const struct object *object;
	uint32_t storage;    /* node that its interpreter is looked up at; 0 for a file */
	const uint8_t *head; /* up to PM_EXEC_HEAD_MAX bytes */
	uint32_t head_len;
};

/*
 * Load @prog into @as and take over the layout that the home made. *rep is the caller's to
 * kfree().
 */
int remote_exec(struct aspace *as, const struct exec_program *prog, const struct proto_cred *cred,
		uint64_t stack_size, uint64_t random_seed, struct pm_exec_rep **rep) __must_check;
/* On success *addr is where the mapping is, and the copies are up to date. */
int remote_mmap(struct aspace *as, const struct pm_mmap_req *req, struct object *file,
		vaddr_t *addr) __must_check;
int remote_munmap(struct aspace *as, vaddr_t start, uint64_t len) __must_check;
int remote_mprotect(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot) __must_check;
int remote_mremap(struct aspace *as, const struct pm_mremap_req *req, vaddr_t *addr) __must_check;
/* *brk: what holds now, changed or not. */
int remote_brk(struct aspace *as, vaddr_t want, vaddr_t *brk) __must_check;
/* --- owners -------------------------------------------------------------------------- */

/*
 * The vma at @addr into the copy, if the layout is still at @seq (SEQ_ANY: the caller has
 * map_lock): else -EAGAIN. -EFAULT: there is none.
 */
int remote_fill_vma(struct aspace *as, vaddr_t addr, uint64_t seq) __must_check;
