/* SPDX-License-Identifier: MIT */
/*
 * Keys, ids and permissions: what shared memory, semaphores and messages have in common.
 *
 * Flow:	a namespace has one of each kind: a table of its objects by place, and a tree by
 *		key. An id is a place and the number of the table's round, so that an old id does
 *		not name a new object.
 * Invariants:	the table holds a reference of each object, and so does each call. An object that
 *		is removed is in no table; what it has goes with the last reference.
 * Locking:	kind.names (RANK_SYSV_NAMES) lets one call at a time make an object for a key;
 *		kind.lock (RANK_SPIN_MONITOR) guards the tables, and names, owners and modes of
 *		the objects. State of an object beside these is its module's.
 * Limits:	as many objects as Linux's limits say, each charged to the program that makes it.
 */
#pragma once

#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <lib/atomic.h>
#include <lib/ida.h>
#include <lib/radix.h>
#include <lib/rbtree.h>

#include "sysv.h"

struct ipc_ns;
struct sysv;

/* Functions of a kind. */
struct sysv_ops {
	/* Make an object for sysv_get()'s @arg, with kmem_alloc(); names is held. ERR_PTR. */
	struct sysv *(*make)(const void *arg);
	/* Does the object that is there fit @arg? -EINVAL */
	int (*fits)(const struct sysv *obj, const void *arg);
	/* The namespace ends: as IPC_RMID, whoever asks. */
	void (*remove)(struct sysv *obj);
	void (*free)(struct sysv *obj); /* the last reference is gone */
};
extern const struct sysv_ops shm_ops, sem_ops, msg_ops;

struct sysv_kind {
	const struct sysv_ops *ops; /* const */
	struct ipc_ns *ns;          /* const */
	struct mutex names;
	struct spinlock lock;
	struct radix_tree table __guarded_by(&lock); /* place -> struct sysv */
	struct ida places __guarded_by(&lock);
	struct rb_root keys __guarded_by(&lock); /* those with a key */
	uint32_t nr __guarded_by(&lock);
	uint32_t behind __guarded_by(&lock); /* the place behind the one that was given out last */
	uint32_t seq __guarded_by(&lock);
	const uint64_t *max; /* const: of the namespace's limits */
	int32_t *next;       /* const: of its next ids */
};

struct sysv {
	refcount_t refs;
	struct sysv_kind *kind; /* const; its namespace is held */
	uint32_t index;         /* const once it is in the table */
	uint32_t seq;           /* const the same way */
	struct rb_node by_key;  /* kind.lock, as all below */
	int32_t key;            /* IPC_PRIVATE: it is not in the tree */
	uint32_t uid, gid, cuid, cgid;
	uint32_t mode;
	bool removed; /* read without the lock under the object's own */
	int64_t ctime;
};

/* xxxget(): the id, or -ENOENT, -EEXIST, -EACCES, -ENOSPC, -EINTR, and what make() answers. */
long sysv_get(struct sysv_kind *kind, int32_t key, int flags, const void *arg);
/* Referenced, with permission for @mode (S_IRUGO and its kin; 0: any). ERR_PTR(-EINVAL, -EACCES) */
struct sysv *sysv_find(struct sysv_kind *kind, int id, uint32_t mode);
/* The same by place, for *_STAT; *id is its id. */
struct sysv *sysv_find_index(struct sysv_kind *kind, int index, uint32_t mode, int *id);
/* The first at or behind *@index, referenced; NULL. */
struct sysv *sysv_next(struct sysv_kind *kind, uint32_t *index);
void sysv_put(struct sysv *obj);
/* May the calling task do @mode with @obj? */
bool sysv_allowed(struct sysv *obj, uint32_t mode);
/* May it change or remove @obj? Else -EPERM. */
int sysv_check_owner(struct sysv *obj) __must_check;
/* IPC_SET. -EPERM, -EINVAL: ids that are none. */
int sysv_set(struct sysv *obj, const struct linux_ipc64_perm *perm) __must_check;
/* No call finds it any more; false: somebody else has removed it before. */
bool sysv_remove(struct sysv *obj);
/* It keeps its id, but no key leads to it (IPC_RMID of a segment in use). */
void sysv_hide_locked(struct sysv *obj);
void sysv_fill(struct sysv *obj, struct linux_ipc64_perm *perm, int64_t *ctime);
/* Its namespace ends: every object is removed, as IPC_RMID would. */
void sysv_end(struct sysv_kind *kind);
/* Objects of the kind, and the highest place that is in use (0: none is). */
void sysv_count(struct sysv_kind *kind, int *nr, int *highest);
/* Seconds since 1970. */
int64_t sysv_now(void);
/* The number of the calling process; 0: a thread of the kernel. */
int32_t sysv_pid(void);
