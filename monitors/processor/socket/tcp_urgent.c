/* SPDX-License-Identifier: MIT */
/*
 * TCP inside the vNode: the urgent byte, by MSG_OOB.
 *
 * Flow:	the last byte that is sent with MSG_OOB lies in the queue as a message of its own.
 *		A reader stops in front of it, the mark. It leaves it out when it reads on, or
 *		reads it in line with SO_OOBINLINE. recv() with MSG_OOB gives it once, as long as
 *		no reader has passed the mark. There is one: with the next, an older one becomes an
 *		ordinary byte, or vanishes if it is the next to be read: its message then goes to
 *		the end of the queue, with the new byte.
 * Locking:	socket.lock guards the byte: socket.urgent is URGENT_VALID and the byte, URGENT_READ
 *		once it was received, 0 when none is in the queue.
 * Invariants:	only the holder of recv_lock takes a message out of the queue: a reader knows one
 *		between two sections of socket.lock. A sender may move the mark meanwhile, but not
 *		one that a reader copies (sock_msg.in_line).
 * See:		stream.c, which keeps to the mark
 */
#include <abi/poll.h>
#include <kernel/panic.h>
#include <processor/vfs/uio.h>

#include "inet_private.h"
#include "queue.h"

#define URGENT_VALID 0x100u
#define URGENT_READ  0x200u

static bool is_next_locked(const struct socket *s) __must_hold(&s->lock)
{
	const struct sock_msg *first = sock_queue_first_locked(s);

	assert_spin_held(&s->lock);
	return s->urgent && first && first->urgent;
}

struct sock_msg *tcp_urgent_push_locked(struct socket *s, struct sock_msg *m)
{
	struct sock_msg *first = sock_queue_first_locked(s), *at;
	const bool moves =
		is_next_locked(s) && !first->in_line && !socket_option(s, SOCKET_OOBINLINE);
	struct scm_fds *fds;

	assert_spin_held(&s->lock);
	ASSERT(m->urgent && m->len == 1 && m->first == 1 && !s->dead);
	s->urgent = (uint16_t)(URGENT_VALID | m->data[0]);
	if (!moves) {
		list_for_each_entry(at, &s->queue, node)
			WRITE_ONCE(at->urgent, false);
		sock_queue_push_locked(s, m);
		return NULL;
	}
	sock_queue_release_locked(s);
	list_move_tail(&first->node, &s->queue);
	first->data[0] = m->data[0];
	first->cred = m->cred;
	first->stamp_ns = m->stamp_ns;
	fds = first->fds;
	first->fds = m->fds;
	m->fds = fds;
	return m;
}

bool tcp_urgent_leave_out(struct socket *s, struct sock_msg **at, bool peek)
{
	struct sock_msg *first, *drop = NULL;
	bool out = true;

	assert_mutex_held(&s->recv_lock);
	spin_lock(&s->lock);
	first = sock_queue_first_locked(s);
	if (first != *at) { /* a sender has moved it on */
		*at = first;
	} else if (!first->urgent) {
		out = false;
	} else if (socket_option(s, SOCKET_OOBINLINE)) {
		first->in_line = true;
		out = false;
	} else if (peek) {
		*at = list_is_last(&first->node, &s->queue) ? NULL : list_next_entry(first, node);
	} else {
		drop = first;
		s->urgent = 0;
		sock_queue_pop_locked(s, drop);
		*at = sock_queue_first_locked(s);
	}
	spin_unlock(&s->lock);
	if (drop) {
		sock_msg_free(drop);
		if (s->ops->consumed)
			s->ops->consumed(s);
	}
	return out;
}

bool tcp_urgent_is_next(struct socket *s)
{
	bool next;

	spin_lock(&s->lock);
	next = is_next_locked(s);
	spin_unlock(&s->lock);
	return next;
}

uint64_t tcp_readable_locked(const struct socket *s)
{
	const struct sock_msg *at;
	uint64_t n = 0;

	assert_spin_held(&s->lock);
	if (!s->urgent || socket_option(s, SOCKET_OOBINLINE))
		return s->readable;
	list_for_each_entry(at, &s->queue, node) {
		if (at->urgent)
			break;
		n += at->len;
	}
	return n;
}

unsigned int tcp_urgent_poll(struct socket *s)
{
	uint64_t readable = READ_ONCE(s->readable);
	unsigned int events = 0;

	if (unlikely(READ_ONCE(s->urgent))) {
		spin_lock(&s->lock);
		readable = s->readable;
		if (is_next_locked(s) && !socket_option(s, SOCKET_OOBINLINE))
			readable--;
		if (s->urgent & URGENT_VALID)
			events |= POLLPRI;
		spin_unlock(&s->lock);
	}
	if (readable >= READ_ONCE(s->rcvlowat))
		events |= POLLIN | POLLRDNORM;
	return events;
}

ssize_t tcp_urgent_receive(struct socket *s, struct socket_msg *m)
{
	ssize_t ret = 1;
	uint8_t byte;

	spin_lock(&s->lock);
	byte = (uint8_t)s->urgent;
	if (socket_option(s, SOCKET_OOBINLINE) || !(s->urgent & URGENT_VALID))
		ret = -EINVAL;
	else if (!(m->flags & MSG_PEEK))
		s->urgent = URGENT_READ;
	spin_unlock(&s->lock);
	if (ret < 0)
		return ret;
	m->told |= MSG_OOB;
	if (!m->uio->left) {
		m->told |= MSG_TRUNC;
		return 0;
	}
	return uio_put(m->uio, &byte, 1) == 1 ? 1 : -EFAULT;
}
