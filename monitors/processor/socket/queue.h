/* SPDX-License-Identifier: MIT */
/*
 * Messages and the queue of a socket.
 *
 * Invariants:	a message counts against the socket that sent it (socket.wmem) from its making to
 *		its end, if it has one, and against the memory that all sockets may take. As long as
 *		the socket lives, only the holder of its recv_lock takes messages out of its queue.
 * Context:	sock_msg_make() and sock_msg_free() may sleep; the others are called with the
 *		socket's lock held.
 */
#pragma once

#include "socket.h"

struct sock_chunk {
	struct sock_chunk *next;
	uint32_t len;
	uint8_t data[];
};

/* Bytes of a message that lie in memory of somebody else's, which is given back by end(). */
struct sock_loan {
	const void *data;
	void (*end)(struct sock_loan *loan); /* any context without a lock */
};

struct sock_msg {
	struct list_head node;
	struct socket *from;          /* counted: it counts against this one; NULL: against none */
	struct kmem_account *account; /* charged with cost */
	struct scm_fds *fds;          /* descriptors that travel with it */
	void *aux; /* the family's own, of kmem_alloc(); freed with the message */
	struct socket_cred cred;
	uint64_t stamp_ns;       /* real time of the sending */
	uint32_t cost;           /* memory that it takes */
	uint32_t len;            /* payload that is left */
	uint32_t off;            /* read already, of a stream */
	bool urgent;             /* lock: TCP: its one byte is out of band: tcp_urgent.c */
	bool in_line;            /* lock: TCP: and a reader copies it nevertheless */
	struct sock_chunk *more; /* behind what lies in data[] */
	struct sock_loan *loan;  /* it has the bytes, and data[] none; NULL: it has not */
	uint32_t first;          /* bytes in data[], or of the loan */
	uint8_t data[];
};

/* Payload that one message of a stream takes. */
#define STREAM_CHUNK (PAGE_SIZE - sizeof(struct sock_msg))

/*
 * A message of the next @len bytes of @uio, which counts against @from unless that is NULL.
 * ERR_PTR(-ENOBUFS, -EFAULT).
 */
struct sock_msg *sock_msg_make(struct uio *uio, size_t len, struct socket *from);
/* The same of kernel memory, charged to @account; any thread. ERR_PTR(-ENOBUFS). */
struct sock_msg *sock_msg_copy_of(const void *data, size_t len, struct kmem_account *account);
/*
 * One with room for @len bytes, which sock_msg_fill() puts in at @off. Any thread.
 * ERR_PTR(-ENOBUFS).
 */
struct sock_msg *sock_msg_alloc(size_t len, struct kmem_account *account);
void sock_msg_fill(struct sock_msg *m, size_t off, const void *data, size_t len);
/* One of the @len bytes of @loan, which ends with it. Any thread. ERR_PTR(-ENOBUFS). */
struct sock_msg *sock_msg_lend(struct sock_loan *loan, size_t len, struct kmem_account *account);
/* Frees it and what travels with it. No lock held. */
void sock_msg_free(struct sock_msg *m);
/*
 * Copy @len bytes from @off on of what is left of it to @uio; returns how many were copied, less
 * only after a fault.
 */
size_t sock_msg_copy(const struct sock_msg *m, size_t off, size_t len, struct uio *uio);

/* @cost bytes that sockets have count for @a and the node's share; false: there are too many. */
bool sock_charge_take(struct kmem_account *a, uint64_t cost) __must_check;
void sock_charge_give(struct kmem_account *a, uint64_t cost);

void sock_queue_push_locked(struct socket *s, struct sock_msg *m) __must_hold(&s->lock);
void sock_queue_pop_locked(struct socket *s, struct sock_msg *m) __must_hold(&s->lock);
/*
 * The same as a push, but the message arrives later: with the next one, or by the calls below, or
 * now if @limit bytes or more are held back so.
 */
void sock_queue_hold_locked(struct socket *s, struct sock_msg *m, uint32_t limit)
	__must_hold(&s->lock);
void sock_queue_release_locked(struct socket *s) __must_hold(&s->lock);
/* With the lock, and a word to readers. */
void socket_release_held(struct socket *s);
/* The first message, or NULL. */
struct sock_msg *sock_queue_first_locked(const struct socket *s) __must_hold(&s->lock);
/*
 * A message with a loan gets memory of its own, if there is some: a receiver has left, and may not
 * come back. recv_lock is held.
 */
void sock_queue_own(struct socket *s) __must_hold(&s->recv_lock);
/*
 * All messages are dropped. recv_lock is held, or the socket is dead: it has no readers then. The
 * caller sees to it that none come after.
 */
void sock_queue_purge(struct socket *s);

/* Bytes that messages of all sockets take, for tests and /proc/net/sockstat. */
int64_t sock_memory(void);

/*
 * The buffer of @s has room for a sender; a good part of it is free, so that it is worth waking
 * one.
 */
uint64_t socket_send_limit(const struct socket *s);
static inline bool socket_has_room(const struct socket *s)
{
	return (uint64_t)__atomic_load_n(&s->wmem, __ATOMIC_ACQUIRE) < socket_send_limit(s);
}
bool socket_writable(const struct socket *s);

/* --- datagrams and packets ----------------------------------------------------------- */

/*
 * Receive one message. -EAGAIN, -ERESTARTSYS, -EINTR, -EFAULT, or the pending error. @got, unless
 * NULL, is told of the message before it is freed, with recv_lock held.
 */
typedef void message_fn(struct socket *s, struct socket_msg *m, const struct sock_msg *msg);
ssize_t socket_recv_message(struct socket *s, struct socket_msg *m, message_fn *got);
/* Need a reader not wait: are there bytes, an error, or the end? */
bool socket_may_receive(const struct socket *s);
/* Receive bytes of a stream. The same errnos; 0 at the end. */
ssize_t socket_recv_stream(struct socket *s, struct socket_msg *m);
/* Append bytes to the peer's queue. -EPIPE, -EAGAIN, -ERESTARTSYS, -ENOTCONN, -ENOBUFS. */
ssize_t socket_send_stream(struct socket *s, struct socket_msg *m);
/* Wait until socket_has_room(), or the socket is shut or has an error; one of those or 0. */
int socket_wait_room(struct socket *s, uint64_t deadline_ns);
