/* SPDX-License-Identifier: MIT */
/*
 * System V IPC, for the modules around it: /proc, and tasks that begin and end.
 */
#pragma once

#include <abi/ipc.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct task;

/* --- limits, as /proc/sys/kernel has them ---------------------------------------------------- */

struct sysv_limits {             /* each is read and written as one word */
	uint64_t shmmax, shmall; /* bytes of a segment, pages of all */
	uint64_t shmmni;
	uint64_t msgmax, msgmnb, msgmni; /* bytes of a message, of a new queue; queues */
	uint64_t semmsl, semmns, semopm, semmni;
};
/* Those of the calling task's namespace. */
struct sysv_limits *sysv_limits(void);
/*
 * The id that the next new object of a kind is to get, or one of the same round at the first free
 * place behind it; -1: the usual one. Atomic.
 */
struct sysv_next_ids {
	int32_t shm, sem, msg;
};
struct sysv_next_ids *sysv_next_ids(void);
#define SYSV_IDS_MAX 32768u /* of one kind: an id has 15 bits for its place */

/* --- what there is, in the order of places, for /proc/sysvipc -------------------------------- */

/*
 * The first at or behind place *@index of the calling task's namespace, whose place it becomes.
 * False: there is none. The permissions of the calling task do not matter.
 */
bool shm_next(uint32_t *index, struct linux_shmid64_ds *ds, uint64_t *pages) __must_check;
bool sem_next(uint32_t *index, struct linux_semid64_ds *ds) __must_check;
bool msg_next(uint32_t *index, struct linux_msqid64_ds *ds) __must_check;
/* The id of one that was told. */
static inline int sysv_id(const struct linux_ipc64_perm *perm, uint32_t index)
{
	return (int)(perm->seq * SYSV_IDS_MAX + index);
}

/* --- SEM_UNDO: what tasks have to take back when they end ------------------------------------ */

/* @t shares with @from, which gets a list if it has none (CLONE_SYSVSEM). -ENOMEM. */
int sem_undos_share(struct task *t, struct task *from) __must_check;
/* @t ends, or never began: the last one that shares a list takes everything back. */
void sem_undos_put(struct task *t);
