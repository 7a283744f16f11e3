/* SPDX-License-Identifier: MIT */
/* Asynchronous I/O: Linux's <linux/aio_abi.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define IOCB_FLAG_RESFD  (1u << 0)
#define IOCB_FLAG_IOPRIO (1u << 1)

#define LINUX_IOCB_PREAD   0
#define LINUX_IOCB_PWRITE  1
#define LINUX_IOCB_FSYNC   2
#define LINUX_IOCB_FDSYNC  3
#define LINUX_IOCB_PREADV  7
#define LINUX_IOCB_PWRITEV 8

struct linux_iocb {
	uint64_t data;
	uint32_t key; /* the kernel writes 0 */
	uint32_t rw_flags;
	uint16_t opcode;
	int16_t reqprio;
	uint32_t fd;
	uint64_t buf;
	uint64_t nbytes; /* or struct iovecs */
	int64_t offset;
	uint64_t reserved2;
	uint32_t flags; /* IOCB_FLAG_* */
	uint32_t resfd;
};
static_assert(sizeof(struct linux_iocb) == 64, "struct iocb is ABI");

struct linux_io_event {
	uint64_t data;
	uint64_t obj; /* the user's struct iocb */
	int64_t res;
	int64_t res2;
};
static_assert(sizeof(struct linux_io_event) == 32, "struct io_event is ABI");
