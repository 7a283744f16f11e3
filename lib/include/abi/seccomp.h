/* SPDX-License-Identifier: MIT */
/* Filters of system calls: Linux's <linux/seccomp.h>, and struct sock_fprog. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define SECCOMP_MODE_STRICT 1
#define SECCOMP_MODE_FILTER 2

#define SECCOMP_SET_MODE_STRICT  0
#define SECCOMP_SET_MODE_FILTER  1
#define SECCOMP_GET_ACTION_AVAIL 2

#define SECCOMP_FILTER_FLAG_TSYNC       0x1u
#define SECCOMP_FILTER_FLAG_LOG         0x2u
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW  0x4u
#define SECCOMP_FILTER_FLAG_TSYNC_ESRCH 0x10u

#define SECCOMP_RET_KILL_PROCESS 0x80000000u
#define SECCOMP_RET_KILL_THREAD  0x00000000u
#define SECCOMP_RET_TRAP         0x00030000u
#define SECCOMP_RET_ERRNO        0x00050000u
#define SECCOMP_RET_USER_NOTIF   0x7fc00000u
#define SECCOMP_RET_TRACE        0x7ff00000u
#define SECCOMP_RET_LOG          0x7ffc0000u
#define SECCOMP_RET_ALLOW        0x7fff0000u
#define SECCOMP_RET_ACTION_FULL  0xffff0000u
#define SECCOMP_RET_DATA         0x0000ffffu

#define AUDIT_ARCH_X86_64 0xc000003eu

struct linux_seccomp_data {
	int32_t nr;
	uint32_t arch;
	uint64_t ip, args[6];
};
static_assert(sizeof(struct linux_seccomp_data) == 64, "struct seccomp_data is ABI");

struct linux_sock_fprog {
	uint16_t len, pad[3];
	uint64_t filter;
};
static_assert(sizeof(struct linux_sock_fprog) == 16, "struct sock_fprog is ABI");
