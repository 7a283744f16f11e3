/* SPDX-License-Identifier: MIT */
/*
 * Properties and rights of a process: Linux's <linux/prctl.h>, <asm/prctl.h>, <linux/capability.h>,
 * <linux/securebits.h>, <linux/personality.h>.
 */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

/* prctl() */
#define PR_SET_PDEATHSIG         1
#define PR_GET_PDEATHSIG         2
#define PR_GET_DUMPABLE          3
#define PR_SET_DUMPABLE          4
#define PR_GET_KEEPCAPS          7
#define PR_SET_KEEPCAPS          8
#define PR_GET_TIMING            13
#define PR_SET_TIMING            14
#define PR_SET_NAME              15
#define PR_GET_NAME              16
#define PR_GET_SECCOMP           21
#define PR_SET_SECCOMP           22
#define PR_CAPBSET_READ          23
#define PR_CAPBSET_DROP          24
#define PR_GET_TSC               25
#define PR_SET_TSC               26
#define PR_GET_SECUREBITS        27
#define PR_SET_SECUREBITS        28
#define PR_SET_TIMERSLACK        29
#define PR_GET_TIMERSLACK        30
#define PR_MCE_KILL_GET          34
#define PR_SET_MM                35
#define PR_SET_CHILD_SUBREAPER   36
#define PR_GET_CHILD_SUBREAPER   37
#define PR_SET_NO_NEW_PRIVS      38
#define PR_GET_NO_NEW_PRIVS      39
#define PR_GET_TID_ADDRESS       40
#define PR_SET_THP_DISABLE       41
#define PR_GET_THP_DISABLE       42
#define PR_CAP_AMBIENT           47
#define PR_CAP_AMBIENT_IS_SET    1
#define PR_CAP_AMBIENT_RAISE     2
#define PR_CAP_AMBIENT_LOWER     3
#define PR_CAP_AMBIENT_CLEAR_ALL 4

/* PR_SET_TSC */
#define PR_TSC_ENABLE  1u
#define PR_TSC_SIGSEGV 2u

/* PR_MCE_KILL_GET */
#define PR_MCE_KILL_DEFAULT 2

#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0

/* arch_prctl() */
#define ARCH_SET_GS    0x1001
#define ARCH_SET_FS    0x1002
#define ARCH_GET_FS    0x1003
#define ARCH_GET_GS    0x1004
#define ARCH_GET_CPUID 0x1011
#define ARCH_SET_CPUID 0x1012

#define ARCH_CET_STATUS 0x3001 /* of an early version that never was in Linux; glibc asks */

/* personality() */
#define UNAME26           0x20000u
#define ADDR_NO_RANDOMIZE 0x40000u
#define READ_IMPLIES_EXEC 0x400000u
#define STICKY_TIMEOUTS   0x4000000u

/* Capabilities, those that are looked at. */
#define CAP_CHOWN            0
#define CAP_DAC_OVERRIDE     1
#define CAP_DAC_READ_SEARCH  2
#define CAP_FOWNER           3
#define CAP_FSETID           4
#define CAP_KILL             5
#define CAP_SETGID           6
#define CAP_SETUID           7
#define CAP_SETPCAP          8
#define CAP_LINUX_IMMUTABLE  9
#define CAP_NET_BIND_SERVICE 10
#define CAP_NET_ADMIN        12
#define CAP_NET_RAW          13
#define CAP_IPC_LOCK         14
#define CAP_IPC_OWNER        15
#define CAP_SYS_CHROOT       18
#define CAP_SYS_PTRACE       19
#define CAP_SYS_ADMIN        21
#define CAP_SYS_NICE         23
#define CAP_SYS_RESOURCE     24
#define CAP_MKNOD            27
#define CAP_LEASE            28
#define CAP_AUDIT_CONTROL    30
#define CAP_SETFCAP          31
#define CAP_SYSLOG           34
#define CAP_WAKE_ALARM       35
#define CAP_LAST_CAP         40

/* capget(), capset() */
#define _LINUX_CAPABILITY_VERSION_1 0x19980330u
#define _LINUX_CAPABILITY_VERSION_2 0x20071026u
#define _LINUX_CAPABILITY_VERSION_3 0x20080522u

struct linux_cap_header {
	uint32_t version;
	int32_t pid;
};

struct linux_cap_data {
	uint32_t effective, permitted, inheritable;
};

/* Secure bits; the one above each is its lock. */
#define SECBIT_NOROOT          0x1u
#define SECBIT_NO_SETUID_FIXUP 0x4u
#define SECBIT_KEEP_CAPS       0x10u
#define SECURE_ALL_BITS        0x55u
#define SECURE_ALL_LOCKS       0xaau
