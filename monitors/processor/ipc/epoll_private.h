/* SPDX-License-Identifier: MIT */
/*
 * epoll, inside: instances and their items (epoll.c), system calls (epoll_calls.c).
 */
#pragma once

#include <abi/poll.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct epoll;
struct file;

/* Flags among the events. */
#define EPOLL_FLAGS (EPOLLEXCLUSIVE | EPOLLWAKEUP | EPOLLONESHOT | EPOLLET)

/* A new instance as a file; ERR_PTR(-ENOMEM, -ENFILE). */
struct file *epoll_file_create(void);
/* The instance behind @f, or NULL when it is none. */
struct epoll *epoll_of(const struct file *f);

/* -EEXIST, -ELOOP, -ENOSPC too many items on the node, -ENOMEM. */
int epoll_add(struct epoll *ep, struct file *f, int fd, const struct linux_epoll_event *ev)
	__must_check;
/* -ENOENT; -EINVAL: added as exclusive. */
int epoll_modify(struct epoll *ep, struct file *f, int fd, const struct linux_epoll_event *ev)
	__must_check;
int epoll_delete(struct epoll *ep, struct file *f, int fd) __must_check; /* -ENOENT */

/* Up to @max events to user memory at @events: how many; 0 at the deadline; -EINTR, -EFAULT. */
long epoll_wait_events(struct epoll *ep, uint64_t events, int max, uint64_t deadline);
