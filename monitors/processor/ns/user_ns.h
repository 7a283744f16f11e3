/* SPDX-License-Identifier: MIT */
/*
 * User namespaces: users, groups and capabilities of their own.
 *
 * The monitor knows users and groups by their ids in the first namespace ("kernel ids"): those are
 * in credentials, inodes and messages to other nodes. A program of another namespace gives and
 * sees ids of that namespace, which a map of it translates; system calls translate on their way in
 * (uid_in()) and on their way out (uid_out()). An id that is not mapped cannot be given, and is
 * told as ID_OVERFLOW.
 *
 * Each namespace of another kind has a user namespace that owns it. A capability counts in the
 * namespace of its task's credentials and in those below, and nowhere else: each check says
 * which one it asks for (ns_capable()). capable() asks for the first one.
 *
 * Invariants:	the first namespace is written as NULL. Credentials hold a reference to their
 *		namespace, and a namespace to the one that it was made in, so it outlives both.
 *		Maps are written once.
 * Locking:	user_ns.c has a lock for setgroups and the writing of maps.
 * Limits:	USER_NS_LEVELS levels, and for each user the numbers in user_count.h.
 * See:		docs/design/processor.md
 */
#pragma once

#include <lib/idmap.h>
#include <processor/process/process.h>

#include "ns.h"

#define USER_NS_LEVELS 33u /* below the first one, as Linux */

enum id_kind {
	ID_USER,
	ID_GROUP,
	ID_PROJECT, /* of quotas: there are none, but programs write the map */
	ID_KINDS,
};

struct user_ns {
	struct ns ns;                        /* its owner is the namespace that it was made in */
	uint32_t level;                      /* const: from 1 */
	uint32_t uid, gid;                   /* const: of its maker, effective */
	bool parent_setfcap;                 /* const: the maker had CAP_SETFCAP there */
	const struct id_map *maps[ID_KINDS]; /* atomic, once: from here to kernel ids; or NULL */
	bool no_setgroups;                   /* user_ns.c's lock, read without it */
};

/* --- ids ------------------------------------------------------------------------------ */

/* That of the calling task; NULL: the first one, as for a thread of the kernel. */
static inline struct user_ns *user_ns_current(void)
{
	const struct task *t = task_current();

	return t && t->cred ? t->cred->user_ns : NULL;
}

/* The kernel id of @id in @ns; ID_NONE: it is not mapped. */
static inline uint32_t id_in_from(const struct user_ns *ns, enum id_kind kind, uint32_t id)
{
	static const struct id_map none;
	const struct id_map *map;

	if (likely(!ns))
		return id;
	map = __atomic_load_n(&ns->maps[kind], __ATOMIC_ACQUIRE);
	return id_map_out(map ? map : &none, id);
}

/* And back. */
static inline uint32_t id_in_of(const struct user_ns *ns, enum id_kind kind, uint32_t id)
{
	static const struct id_map none;
	const struct id_map *map;

	if (likely(!ns))
		return id;
	map = __atomic_load_n(&ns->maps[kind], __ATOMIC_ACQUIRE);
	return id_map_in(map ? map : &none, id);
}

static inline bool id_is_mapped(const struct user_ns *ns, enum id_kind kind, uint32_t id)
{
	return id_in_of(ns, kind, id) != ID_NONE;
}

/* As @ns is told of kernel id @id. */
static inline uint32_t id_out_to(const struct user_ns *ns, enum id_kind kind, uint32_t id)
{
	const uint32_t out = id_in_of(ns, kind, id);

	return likely(!ns) || out != ID_NONE ? out : ID_OVERFLOW;
}

/* For ids that the calling task gives (ID_NONE: they are not mapped) and those it is told. */
static inline uint32_t uid_in(uint32_t id)
{
	return id_in_from(user_ns_current(), ID_USER, id);
}

static inline uint32_t gid_in(uint32_t id)
{
	return id_in_from(user_ns_current(), ID_GROUP, id);
}

static inline uint32_t uid_out(uint32_t id)
{
	return id_out_to(user_ns_current(), ID_USER, id);
}

static inline uint32_t gid_out(uint32_t id)
{
	return id_out_to(user_ns_current(), ID_GROUP, id);
}

/* --- capabilities --------------------------------------------------------------------- */

static inline struct user_ns *user_ns_parent(const struct user_ns *ns)
{
	return ns ? ns->ns.owner : NULL;
}

/* Is @ns @outer, or nested in it? */
bool user_ns_within(const struct user_ns *ns, const struct user_ns *outer);
/* Has @c the capability in @ns? */
bool cred_capable(const struct cred *c, const struct user_ns *ns, unsigned int cap);
/* Has the calling task it there? */
bool ns_capable(const struct user_ns *ns, unsigned int cap);
/* In its own namespace? */
static inline bool capable_here(unsigned int cap)
{
	return ns_capable(user_ns_current(), cap);
}
/*
 * Has the calling task, of another namespace than the first one, the capability for a file of
 * these kernel ids: are both mapped there? In the first one false: its files are user 0's.
 */
bool ns_capable_file(unsigned int cap, uint32_t uid, uint32_t gid);

/* --- making --------------------------------------------------------------------------- */

static inline struct user_ns *user_ns_of(struct ns *ns)
{
	return ns == &ns_user_first ? NULL : container_of(ns, struct user_ns, ns);
}

/* Its file. */
static inline struct ns *user_ns_head(struct user_ns *ns)
{
	return ns ? &ns->ns : &ns_user_first;
}

static inline struct user_ns *user_ns_get(struct user_ns *ns)
{
	if (ns)
		(void)ns_get(&ns->ns);
	return ns;
}

static inline void user_ns_put(struct user_ns *ns)
{
	if (ns)
		ns_put(&ns->ns);
}

/*
 * A copy of the calling task's credentials for a new namespace below its own, with all
 * capabilities there. ERR_PTR: -EPERM in a chroot, or when the caller's own ids are not mapped;
 * -ENOSPC, -ENOMEM.
 */
struct cred *cred_in_new_user_ns(void);
/* The same for @ns, which is there. NULL: no memory. */
struct cred *cred_in_user_ns(struct user_ns *ns);

/* --- /proc/<pid>/uid_map and its kin --------------------------------------------------- */

/* May a task of @ns set supplementary groups? */
bool user_ns_may_setgroups(const struct user_ns *ns);
/*
 * Writes of an open file whose opener had @opener. -EPERM: somebody else has to do it, or it has
 * been done; -EINVAL: a text that is none; -ENOMEM.
 */
int user_ns_write_map(struct user_ns *ns, enum id_kind kind, const struct cred *opener,
		      const char *text, size_t len) __must_check;
int user_ns_write_setgroups(struct user_ns *ns, const char *text, size_t len) __must_check;
