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
/* The processor on which a socket of @s's type is at @key. -ECONNREFUSED, -EPROTOTYPE, -EINTR. */
int unix_remote_find(const struct socket *s, const uint8_t key[16], bool is_path, uint32_t *node)
	__must_check;

/* --- unix_far.c --------------------------------------------------------------------------- */

/* A datagram that has come from another processor. */
struct unix_far_letter {
	uint32_t node, incarn;
	uint64_t sender; /* the id of its socket there */
	bool asks;       /* there are no bytes: would it be taken? */
	uint8_t key[16], from_key[16];
	struct socket_cred cred;
	struct unix_far name;
	const void *data;
	uint32_t len;
};

/* -ECONNREFUSED, -EPERM, -EPIPE, -ENOBUFS; -EAGAIN: the sender hears of room later. */
int unix_far_receive(const struct unix_far_letter *in) __must_check;
/* Words of room may be sent again to the one that unix_net_tell_room() was given. Polling. */
void unix_far_slot_free(void *hearer);
/* There is room for this processor's socket with that id; an unknown one is allowed. Polling. */
void unix_far_room(uint64_t id);
int unix_far_start(void) __must_check;

/* --- unix_far_net.c: the messages --------------------------------------------------------- */

#define UNIX_FAR_MAX 65504u /* bytes of a datagram */

struct uio;
/*
 * A datagram with the bytes of @uio (NULL: it only asks), and with what @head says but for node,
 * incarn, data and len. ERR_PTR(-ENOBUFS, -EFAULT).
 */
struct unix_letter *unix_letter_write(const struct unix_far_letter *head, struct uio *uio);
/* The answer of @node, or the transport's errno; -EINTR: the thread is to be killed. */
int unix_letter_send(uint32_t node, struct unix_letter *l) __must_check;
void unix_letter_put(struct unix_letter *l);
/*
 * Tell @node that there is room for its socket @id. 0: also if it has left. -EAGAIN: it has no free
 * slot; -ENOMEM, or another errno: it is to be told later. unix_far_slot_free(@hearer) runs with
 * the answer.
 */
int unix_net_tell_room(uint32_t node, uint64_t id, void *hearer) __must_check;
int unix_far_net_init(void) __must_check;
