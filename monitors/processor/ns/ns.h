/* SPDX-License-Identifier: MIT */
/*
 * Namespaces: what a task sees of names and numbers that several tasks share.
 *
 * Each namespace is a file of nsfs, a file system that is mounted nowhere: /proc/<pid>/ns/<kind>
 * leads to it, an open file of it keeps the namespace, and setns() takes it back from there.
 *
 * A task has one set (struct ns_set) of namespaces, which it shares with the tasks that it makes
 * until one of them wants another namespace; a set never changes. Mounts are not in the set but in
 * the task's fs_state, with which root and working directory go.
 *
 * Invariants:	the references of a namespace are those of its inode. The first namespace of each
 *		kind is there as long as the monitor.
 * Locking:	a set and the head of a namespace are const once they are made. ns.c has a lock for
 *		the numbers, nsfs.c one for those that are to be freed. The contents of a namespace
 *		are its module's.
 * See:		docs/design/processor.md
 */
#pragma once

#include <abi/stat.h>
#include <lib/atomic.h>
#include <lib/list.h>
#include <processor/vfs/inode.h>

struct path;
struct process;
struct task;
struct user_count;
struct user_ns;

enum ns_kind {
	NS_CGROUP,
	NS_IPC,
	NS_MNT,
	NS_NET,
	NS_PID,
	NS_USER,
	NS_UTS,
	NS_KINDS,
};

struct ns {
	struct inode inode;
	enum ns_kind kind;           /* const */
	uint32_t nr;                 /* const: of the inode; no two namespaces have the same */
	uint64_t seq;                /* const: grows from one to the next that is made */
	struct user_ns *owner;       /* const, counted: see user_ns.h; NULL: the first one */
	struct user_count *count;    /* const, counted: of whoever has made it; NULL: first ones */
	void (*free)(struct ns *ns); /* const: the last reference is gone; NULL: it stays */
	struct list_head doomed;     /* nsfs.c's lock, once the last reference is gone */
	uint64_t ticket;             /* the same */
};

#define NS_FIRST_NR 0xf0000000u /* of those that are made; the monitor's own are below it */

extern struct fs_type nsfs_type;
extern const struct inode_ops nsfs_inode_ops;

/* The first one of a kind; @n is the number that Linux gives it. */
#define NS_FIRST_INIT(k, n)                    \
	{ .inode = { .ops = &nsfs_inode_ops,   \
		     .type = &nsfs_type,       \
		     .refs = REFCOUNT_INIT(1), \
		     .mode = S_IFREG },        \
	  .kind = (k),                         \
	  .nr = (n) }

#define NS_TEXT_MAX 32

/* Its flag of unshare(), clone() and setns(). */
uint64_t ns_kind_flag(enum ns_kind kind);
/* "uts:[4026531838]" */
void ns_text(const struct ns *ns, char buf[NS_TEXT_MAX]);

/*
 * A new namespace with one reference, owned by @owner and counted for the calling task's user.
 * -ENOMEM; -ENOSPC: the user has too many of them.
 */
int ns_init(struct ns *ns, enum ns_kind kind, struct user_ns *owner, void (*free)(struct ns *ns))
	__must_check;
/* For free(), and where the rest could not be made: the number may be another's. */
void ns_exit(struct ns *ns);

static inline struct ns *ns_get(struct ns *ns)
{
	inode_get(&ns->inode);
	return ns;
}

/*
 * The contents of the namespace are freed by a thread for that, soon: the caller may hold sleeping
 * locks, and the namespace may be a file in another one that is being freed.
 */
static inline void ns_put(struct ns *ns)
{
	inode_put(&ns->inode);
}

/*
 * Wait until the namespaces are freed whose last references the calling task has put, and those
 * that only they kept. The caller holds no lock.
 */
void ns_wait_freed(void);
/* The same for whatever has been put by now. For tests. */
void ns_wait_all_freed(void);

/* The namespace that is @inode; NULL: it is a file of another file system. */
struct ns *ns_of_inode(struct inode *inode);
/* Fills in @to, which is empty, as a magic link to @ns has to. -ENOMEM. */
int ns_path(struct ns *ns, struct path *to) __must_check;

/* The file of the first user namespace, which has no other structure. */
extern struct ns ns_user_first;

/* --- sets ---------------------------------------------------------------------------- */

struct ns_set {
	refcount_t refs;
	struct ns *of[NS_KINDS]; /* const, referenced; NULL: NS_MNT, NS_PID, NS_USER */
};

/* The set of a launched program. */
struct ns_set *ns_set_first(void);
static inline struct ns_set *ns_set_get(struct ns_set *s)
{
	refcount_inc(&s->refs);
	return s;
}
void ns_set_put(struct ns_set *s);
/* Flags CLONE_NEW* of what a set has and can be made. */
#define NS_SET_FLAGS (CLONE_NEWCGROUP | CLONE_NEWIPC | CLONE_NEWUTS)
/*
 * @s, or a copy in which the kinds that @flags name are new, made from those in @s, and owned by
 * @owner. Referenced;
 * ERR_PTR(-ENOMEM, -ENOSPC).
 */
struct ns_set *ns_set_make(struct ns_set *s, uint64_t flags, struct user_ns *owner);
/* @s with @ns, of a kind that sets have. ERR_PTR(-ENOMEM) */
struct ns_set *ns_set_with(struct ns_set *s, struct ns *ns);
/* That of the calling task; of a thread of the kernel, the first one. */
struct ns *ns_current(enum ns_kind kind);
/* That of @p, or of its thread @tid if that is not 0; referenced. ERR_PTR(-ENOENT): it ends. */
struct ns *ns_of_process(struct process *p, uint32_t tid, enum ns_kind kind);

/*
 * The PID namespace that children of @p, or of its thread @tid, will be in; referenced.
 * ERR_PTR(-ENOENT): it ends, or there has been no child yet.
 */
struct ns *ns_of_children(struct process *p, uint32_t tid);

/* --- IPC ------------------------------------------------------------------------------ */

/* An empty one, with the limits that the first one begins with. ERR_PTR(-ENOMEM, -ENOSPC) */
struct ns *ipc_make(struct ns *from, struct user_ns *owner);
extern struct ns *const ipc_first;

/* --- UTS: names of the system --------------------------------------------------------- */

#define UTS_NAME_MAX 64u

struct uts_names {
	char node[UTS_NAME_MAX + 1], domain[UTS_NAME_MAX + 1];
};

/* As the calling task sees them. */
void uts_names(struct uts_names *out);
/* They are @len bytes of @name, at most UTS_NAME_MAX, from here on. */
void uts_set_node(const char *name, size_t len);
void uts_set_domain(const char *name, size_t len);
/* ERR_PTR(-ENOMEM, -ENOSPC) */
struct ns *uts_copy(struct ns *from, struct user_ns *owner);
extern struct ns *const uts_first;
