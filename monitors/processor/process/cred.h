/* SPDX-License-Identifier: MIT */
/*
 * Credentials: the identity and the rights of a task.
 *
 * Invariants:	counted and never changed: a call that changes something makes a new set for its
 *		task.
 * Limits:	capabilities are kept and checked as Linux does here; storage and memory nodes only
 *		see ids, and uid 0 may do everything there.
 */
#pragma once

#include <abi/prctl.h>
#include <fs/access.h>
#include <lib/atomic.h>
#include <lib/compiler.h>
#include <processor/client/file_attr.h>

struct task;
struct user_ns;

#define CAP_BIT(cap) (1ull << (cap))
#define CAP_ALL      ((1ull << (CAP_LAST_CAP + 1)) - 1)

/* Linux's secure bits; the one above each is its lock. */
#define SECBITS_ALL (SECURE_ALL_BITS | SECURE_ALL_LOCKS)

struct cred {
	refcount_t refs;
	struct user_ns *user_ns; /* counted: where capabilities count; NULL: the first one */
	/* Kernel ids, as all that the monitor keeps: see <processor/ns/user_ns.h>. */
	uint32_t uid, euid, suid, fsuid;
	uint32_t gid, egid, sgid, fsgid;
	uint64_t permitted, effective, inheritable, bounding, ambient; /* CAP_BIT() */
	uint32_t securebits;                                           /* SECBIT_* */
	bool no_new_privs; /* kept and told; exec gives no privileges anyway */
	uint32_t nr_groups;
	uint32_t groups[CRED_GROUPS_MAX]; /* supplementary */
};

/* For a launched program; NULL: no memory. */
struct cred *cred_create(uint32_t uid, uint32_t gid);
/* A copy to be changed, with one reference; NULL: no memory. */
struct cred *cred_copy(const struct cred *from);
const struct cred *cred_get(const struct cred *c);
void cred_put(const struct cred *c);
/* The part of @c that permissions of files depend on. @out is good as long as @c is there. */
void cred_to_fs(const struct cred *c, struct fs_cred *out);
/* Has the calling task this capability in the first user namespace? */
bool capable(unsigned int cap);
/* For fs_cred.over. */
bool user_ns_overrides(const struct fs_cred *cred, uint32_t uid, uint32_t gid);
/* The set that exec makes of @c: capabilities of root, saved ids. NULL: no memory. */
struct cred *cred_exec(const struct cred *c);
