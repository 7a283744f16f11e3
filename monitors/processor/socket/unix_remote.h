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

/* --- unix_far.c: datagrams ---------------------------------------------------------------- */

struct unix_far_peer;

void unix_far_init(struct socket *s);
/* @s is dead. */
void unix_far_release(struct socket *s);
/* Is the peer of @s a socket elsewhere? */
bool unix_far_connected(struct socket *s);
/* Has that one no room, as far as this processor has heard? */
bool unix_far_is_full(struct socket *s);
/*
 * Send @m, of @s, to the name that it has, at which no socket of this processor is, or to the peer
 * of @s. -ECONNREFUSED, -EPERM, -EPIPE, -EAGAIN, -EMSGSIZE, -EOPNOTSUPP, -ENOTCONN, -ENOBUFS,
 * -EFAULT, -EINTR, -ERESTARTSYS, and what a path walk answers.
 */
int unix_far_send_to(struct socket *s, struct socket_msg *m, uint64_t deadline_ns) __must_check;
int unix_far_send(struct socket *s, struct socket_msg *m, uint64_t deadline_ns) __must_check;
/* For connect(): a socket elsewhere, which would take datagrams of @s. As above. */
int unix_far_find(struct socket *s, const struct sock_addr *addr, struct unix_far_peer **out)
	__must_check;
/* The queue of @s may have room again; @anyway: all that wait for it are to look. */
void unix_far_wake(struct socket *s, bool anyway);
/* A processor has left: who waits for room looks again, and it hears of none. */
void unix_far_node_gone(uint32_t node, uint32_t incarn);
