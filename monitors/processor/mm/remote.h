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

/* Load @prog into @as and take over the layout that the home made. *rep is the caller's to kfree(). */
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
/* Entries [first, first + count) of the vRegion array into the copy. */
int remote_vregions(struct object *obj, uint64_t first, uint32_t count) __must_check;
/* Tell the home that the space is gone. Failures are logged: the home frees it with our lease. */
void remote_destroy(struct object *obj);
/* The same for 1 to PM_DESTROY_MAX spaces of one home. */
void remote_destroy_many(uint32_t home, const uint64_t *ids, uint32_t nr);

/*
 * @from is frozen; @parent and @child, both new, get its mappings and copies of its vRegion entries.  An error has
 * changed nothing.
 */
struct remote_fork { /* one that is under way */
	struct object *from, *parent, *child;
	struct pm_fork_req_wire body;
	struct rpc_call *call; /* NULL: not sent yet */
	void *reply;
};
/* Send it.  A remote_fork_end() must follow, which has the answer. */
void remote_fork_begin(struct remote_fork *f, struct object *from, struct object *parent,
		       struct object *child);
int remote_fork_end(struct remote_fork *f) __must_check;
/*
 * @req->from, which is @from's, becomes part of @req->into.  After an error it is to be said again: some owners may have
 * done their part.
 */
int remote_merge(struct object *from, const struct pm_merge_req *req) __must_check;
/* The owners drop these pages, of which no line is left. */
int remote_discard(struct object *obj, const struct pm_page_range *ranges, uint32_t nr)
	__must_check;

/* Introduce a shared object: @len bytes, active at once; charged if it is reserved. */
int remote_space(struct object *obj, uint64_t len) __must_check;

/* --- owners -------------------------------------------------------------------------- */

/*
 * The vma at @addr into the copy, if the layout is still at @seq (SEQ_ANY: the caller has map_lock): else -EAGAIN.
 * -EFAULT: there is none.
 */
int remote_fill_vma(struct aspace *as, vaddr_t addr, uint64_t seq) __must_check;
