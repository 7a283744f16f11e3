/* SPDX-License-Identifier: MIT */
/* Waiting for files: Linux's <asm/poll.h>, <linux/eventpoll.h>, <linux/eventfd.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define POLLIN     0x1u
#define POLLPRI    0x2u
#define POLLOUT    0x4u
#define POLLERR    0x8u
#define POLLHUP    0x10u
#define POLLNVAL   0x20u
#define POLLRDNORM 0x40u
#define POLLRDBAND 0x80u
#define POLLWRNORM 0x100u
#define POLLWRBAND 0x200u
#define POLLMSG    0x400u
#define POLLRDHUP  0x2000u

struct linux_pollfd {
	int32_t fd;
	uint16_t events;
	uint16_t revents;
};

/* epoll_ctl() */
#define EPOLL_CTL_ADD 1
#define EPOLL_CTL_DEL 2
#define EPOLL_CTL_MOD 3

/* Flags among the events */
#define EPOLLEXCLUSIVE 0x10000000u
#define EPOLLWAKEUP    0x20000000u
#define EPOLLONESHOT   0x40000000u
#define EPOLLET        0x80000000u

struct linux_epoll_event {
	uint32_t events;
	uint64_t data;
} __packed;
static_assert(sizeof(struct linux_epoll_event) == 12, "struct epoll_event is ABI");

/* eventfd2() */
#define EFD_SEMAPHORE 1u
