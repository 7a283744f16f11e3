/* SPDX-License-Identifier: MIT */
/* AF_UNIX sockets whose peer is on another processor of the vNode. */
#pragma once

#include "socket.h"

/* The messages, once. -ENOMEM */
int unix_remote_init(void) __must_check;
/*
 * Connect @s, which is BUSY, to @addr, at which no socket of this processor listens. An error: its
 * state is for the caller to set, or it is IDLE already. -ECONNREFUSED: no other processor's does
 * either; -EPROTOTYPE: one of another type has the path; -EAGAIN, -EINTR, -ERESTARTSYS, -ENOMEM,
 * -ETIMEDOUT.
 */
int unix_remote_connect(struct socket *s, const struct sock_addr *addr, bool nonblock) __must_check;
