/* SPDX-License-Identifier: MIT */
/*
 * Between sem.c (sets and operations) and sem_undo.c (what ending tasks take back).
 */
#pragma once

#include <kernel/wait.h>
#include <lib/list.h>

#include "sysv_private.h"

#define SEM_VALUE_MAX 32767

struct sem {
	int value;
	int32_t pid; /* that changed it last */
};

struct sem_set {
	struct sysv common;
	struct mutex lock;                            /* RANK_SYSV */
	struct list_head waiting __guarded_by(&lock); /* sem_call.link */
	struct list_head undos __guarded_by(&lock);   /* sem_undo.of_set */
	int64_t otime __guarded_by(&lock);
	uint32_t nr;       /* const */
	struct sem sems[]; /* lock */
};

static inline struct sem_set *sem_set_of(struct sysv *obj)
{
	return container_of(obj, struct sem_set, common);
}

/* A semop() that is under way, on its thread's stack. */
struct sem_call {
	struct list_head link; /* set.lock */
	const struct linux_sembuf *ops;
	const struct linux_sembuf *blocking; /* set.lock: what it waits for */
	uint32_t nr;
	int32_t pid;
	bool alters;
	struct sem_undo *undo; /* NULL: no operation has SEM_UNDO */
	int result;            /* set.lock; read without it */
	struct waitqueue wait;
};

/* The changes that the tasks of one list have to take back in one set. */
struct sem_undo {
	struct list_head of_set;  /* set.lock */
	struct list_head of_list; /* sem_undos.lock */
	struct sem_set *set;      /* const, referenced */
	int16_t adjust[];         /* set.lock */
};

/* Values have changed: do what has become possible. */
void sem_changed_locked(struct sem_set *set) __must_hold(&set->lock);
/*
 * Entries of the calling task's list whose sets are removed go: no call uses them any more. No
 * set is locked.
 */
void sem_undo_forget_removed(void);
/* The calling task's entry for @set: found, or made. -ENOMEM. */
int sem_undo_find_locked(struct sem_set *set, struct sem_undo **out) __must_hold(&set->lock)
	__must_check;
