/* SPDX-License-Identifier: MIT */
/*
 * System V IPC: Linux's <linux/ipc.h>, <linux/shm.h>, <linux/sem.h>, <linux/msg.h>.
 */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define IPC_PRIVATE 0

#define IPC_CREAT  01000
#define IPC_EXCL   02000
#define IPC_NOWAIT 04000

/* Commands of the *ctl() calls. */
#define IPC_RMID 0
#define IPC_SET  1
#define IPC_STAT 2
#define IPC_INFO 3

struct linux_ipc64_perm {
	int32_t key;
	uint32_t uid, gid, cuid, cgid;
	uint32_t mode;
	uint16_t seq, pad2;
	uint32_t pad3;
	uint64_t unused1, unused2;
};
static_assert(sizeof(struct linux_ipc64_perm) == 48, "struct ipc64_perm is ABI");

/* Shared memory. */
#define SHM_R         0400
#define SHM_W         0200
#define SHM_HUGETLB   04000
#define SHM_NORESERVE 010000

#define SHM_RDONLY 010000
#define SHM_RND    020000
#define SHM_REMAP  040000
#define SHM_EXEC   0100000

#define SHM_DEST   01000 /* of shm_perm.mode: goes with the last detach */
#define SHM_LOCKED 02000

#define SHM_LOCK     11
#define SHM_UNLOCK   12
#define SHM_STAT     13
#define SHM_INFO     14
#define SHM_STAT_ANY 15

struct linux_shmid64_ds {
	struct linux_ipc64_perm perm;
	uint64_t segsz;
	int64_t atime, dtime, ctime;
	int32_t cpid, lpid;
	uint64_t nattch;
	uint64_t unused4, unused5;
};
static_assert(sizeof(struct linux_shmid64_ds) == 112, "struct shmid64_ds is ABI");

struct linux_shminfo64 {
	uint64_t shmmax, shmmin, shmmni, shmseg, shmall;
	uint64_t unused[4];
};

struct linux_shm_info {
	int32_t used_ids;
	uint32_t pad;
	uint64_t shm_tot, shm_rss, shm_swp, swap_attempts, swap_successes;
};
static_assert(sizeof(struct linux_shm_info) == 48, "struct shm_info is ABI");

/* Semaphores. */
#define SEM_UNDO 0x1000

#define GETPID       11
#define GETVAL       12
#define GETALL       13
#define GETNCNT      14
#define GETZCNT      15
#define SETVAL       16
#define SETALL       17
#define SEM_STAT     18
#define SEM_INFO     19
#define SEM_STAT_ANY 20

struct linux_sembuf {
	uint16_t num;
	int16_t op;
	int16_t flg;
};
static_assert(sizeof(struct linux_sembuf) == 6, "struct sembuf is ABI");

struct linux_semid64_ds {
	struct linux_ipc64_perm perm;
	int64_t otime;
	uint64_t unused1;
	int64_t ctime;
	uint64_t unused2;
	uint64_t nsems;
	uint64_t unused3, unused4;
};
static_assert(sizeof(struct linux_semid64_ds) == 104, "struct semid64_ds is ABI");

struct linux_seminfo {
	int32_t semmap, semmni, semmns, semmnu, semmsl, semopm, semume, semusz, semvmx, semaem;
};

/* Messages. */
#define MSG_NOERROR 010000
#define MSG_EXCEPT  020000
#define MSG_COPY    040000

#define MSG_STAT     11
#define MSG_INFO     12
#define MSG_STAT_ANY 13

struct linux_msqid64_ds {
	struct linux_ipc64_perm perm;
	int64_t stime, rtime, ctime;
	uint64_t cbytes, qnum, qbytes;
	int32_t lspid, lrpid;
	uint64_t unused4, unused5;
};
static_assert(sizeof(struct linux_msqid64_ds) == 120, "struct msqid64_ds is ABI");

struct linux_msginfo {
	int32_t msgpool, msgmap, msgmax, msgmnb, msgmni, msgssz, msgtql;
	uint16_t msgseg;
};
static_assert(sizeof(struct linux_msginfo) == 32, "struct msginfo is ABI");
