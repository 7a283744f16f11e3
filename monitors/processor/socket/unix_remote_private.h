/* SPDX-License-Identifier: MIT */
/*
 * Connections of AF_UNIX to other processors: what their two files tell each other.
 */
#pragma once

#include "remote_private.h"
#include "unix_private.h"

/* One end of a connection, as the other one is told of it. */
struct unix_side {
	struct socket_cred cred; /* of connect(), or of listen() */
	struct unix_far name;
};

/* remote_conn.extra of the end that asks. */
struct unix_question {
	uint32_t type;         /* const */
	uint8_t key[16];       /* const: of the listener: unix_key() */
	struct unix_side from; /* const */
	uint8_t reply[144];
};

/* --- unix_remote_net.c: the messages ------------------------------------------------------ */

/* remote_kind.ask */
int unix_net_ask(struct remote_conn *c, uint64_t limit) __must_check;

/* --- unix_remote.c ------------------------------------------------------------------------ */

/* @there has taken the connection: before remote_connected(). Polling. */
void unix_remote_learn(struct remote_conn *c, const struct unix_side *there);
/*
 * Another processor asks for a connection: *@here is what it is told of this end. Sleeps.
 * -ECONNREFUSED, -EAGAIN, -ENOBUFS.
 */
int unix_remote_accept(const struct remote_request *r, const struct unix_question *q,
		       struct unix_side *here, uint64_t *id, uint64_t *limit) __must_check;
