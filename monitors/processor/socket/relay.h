/* SPDX-License-Identifier: MIT */
/*
 * The gateway's part in connections of other processors with the outside: see relay.c.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct inet_name;
struct remote_request;
struct tcpip_conn;

/* Once, before programs run. -ENOMEM */
int relay_init(void) __must_check;
/*
 * Another processor connects to the outside by this one. The outside's answer is told later, by
 * remote_tell_opened(). 0: the answer has this end's id and limit; -ENETUNREACH and the like.
 */
int relay_connect(const struct remote_request *r, uint64_t *id, uint64_t *limit) __must_check;
/*
 * Connection @c came from outside for a listener on another processor. The stack's lock is held.
 * 0: it is taken; -ENOBUFS.
 */
int relay_accept(struct tcpip_conn *c, const struct inet_name *local,
		 const struct inet_name *remote, uint32_t node, uint32_t incarn) __must_check;
