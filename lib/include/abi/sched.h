/* SPDX-License-Identifier: MIT */
/*
 * Making and scheduling tasks: Linux's <linux/sched.h>, <linux/membarrier.h>, <linux/wait.h>.
 */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

/* clone() */
#define CSIGNAL              0x000000ffull
#define CLONE_NEWTIME        0x00000080ull
#define CLONE_VM             0x00000100ull
#define CLONE_FS             0x00000200ull
#define CLONE_FILES          0x00000400ull
#define CLONE_SIGHAND        0x00000800ull
#define CLONE_PIDFD          0x00001000ull
#define CLONE_PTRACE         0x00002000ull
#define CLONE_VFORK          0x00004000ull
#define CLONE_PARENT         0x00008000ull
#define CLONE_THREAD         0x00010000ull
#define CLONE_NEWNS          0x00020000ull
#define CLONE_SYSVSEM        0x00040000ull
#define CLONE_SETTLS         0x00080000ull
#define CLONE_PARENT_SETTID  0x00100000ull
#define CLONE_CHILD_CLEARTID 0x00200000ull
#define CLONE_DETACHED       0x00400000ull
#define CLONE_UNTRACED       0x00800000ull
#define CLONE_CHILD_SETTID   0x01000000ull
#define CLONE_NEWCGROUP      0x02000000ull
#define CLONE_NEWUTS         0x04000000ull
#define CLONE_NEWIPC         0x08000000ull
#define CLONE_NEWUSER        0x10000000ull
#define CLONE_NEWPID         0x20000000ull
#define CLONE_NEWNET         0x40000000ull
#define CLONE_IO             0x80000000ull
#define CLONE_CLEAR_SIGHAND  0x100000000ull
#define CLONE_INTO_CGROUP    0x200000000ull

struct linux_clone_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	uint64_t set_tid, set_tid_size; /* since version 2 */
	uint64_t cgroup;                /* since version 3 */
};

#define CLONE_ARGS_SIZE_VER0 64u

/* Policies */
#define SCHED_OTHER    0
#define SCHED_FIFO     1
#define SCHED_RR       2
#define SCHED_BATCH    3
#define SCHED_IDLE     5
#define SCHED_DEADLINE 6

#define SCHED_RESET_ON_FORK 0x40000000

/* sched_setattr() */
struct linux_sched_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max; /* since version 1 */
};
static_assert(sizeof(struct linux_sched_attr) == 56, "struct sched_attr is ABI");

#define SCHED_ATTR_SIZE_VER0 48
#define SCHED_ATTR_SIZE_VER1 56

#define SCHED_FLAG_RESET_ON_FORK  0x01
#define SCHED_FLAG_RECLAIM        0x02
#define SCHED_FLAG_DL_OVERRUN     0x04
#define SCHED_FLAG_KEEP_POLICY    0x08
#define SCHED_FLAG_KEEP_PARAMS    0x10
#define SCHED_FLAG_UTIL_CLAMP_MIN 0x20
#define SCHED_FLAG_UTIL_CLAMP_MAX 0x40
#define SCHED_FLAG_ALL            0x7f

/* membarrier() */
#define MEMBARRIER_CMD_QUERY                                0u
#define MEMBARRIER_CMD_GLOBAL                               0x1u
#define MEMBARRIER_CMD_GLOBAL_EXPEDITED                     0x2u
#define MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED            0x4u
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED                    0x8u
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED           0x10u
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE          0x20u
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE 0x40u
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ               0x80u
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ      0x100u
#define MEMBARRIER_CMD_GET_REGISTRATIONS                    0x200u

#define MEMBARRIER_CMD_FLAG_CPU 0x1u

/* wait4(), waitid() */
#define WNOHANG     0x00000001u
#define WUNTRACED   0x00000002u
#define WSTOPPED    0x00000002u
#define WEXITED     0x00000004u
#define WCONTINUED  0x00000008u
#define WNOWAIT     0x01000000u
#define __WNOTHREAD 0x20000000u
#define __WALL      0x40000000u
#define __WCLONE    0x80000000u

#define P_ALL   0
#define P_PID   1
#define P_PGID  2
#define P_PIDFD 3
