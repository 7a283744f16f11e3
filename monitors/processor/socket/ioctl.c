/* SPDX-License-Identifier: MIT */
/*
 * ioctl() of sockets: how much waits, and what the family adds.
 */
#include "ioctl_private.h"

#include <abi/ioctl.h>
#include <abi/net.h>
#include <arch/uaccess.h>

#include "inet_private.h"
#include "queue.h"

/* Payload that the next read gets, at most. */
static uint64_t readable(struct socket *s)
{
	const struct sock_msg *m;
	uint64_t n;

	if (s->ops->inq)
		return s->ops->inq(s);
	spin_lock(&s->lock);
	m = sock_queue_first_locked(s);
	n = s->type != SOCK_DGRAM ? tcp_readable_locked(s) : m ? m->len : 0;
	spin_unlock(&s->lock);
	return n;
}

long socket_ioctl(struct socket *s, uint32_t cmd, uint64_t arg)
{
	uint64_t n;

	switch (cmd) {
	case FIONREAD:
		if (READ_ONCE(s->state) == SOCKET_LISTENING)
			return -EINVAL;
		n = readable(s);
		break;
	case TIOCOUTQ: /* SIOCOUTQ */
		if (READ_ONCE(s->state) == SOCKET_LISTENING)
			return -EINVAL;
		n = s->ops->outq ? s->ops->outq(s)
				 : (uint64_t)__atomic_load_n(&s->wmem, __ATOMIC_RELAXED);
		break;
	case SIOCATMARK:
		if (s->type != SOCK_STREAM)
			return -ENOTTY;
		n = tcp_urgent_is_next(s);
		break;
	default:
		return s->ops->ioctl ? s->ops->ioctl(s, cmd, arg) : interface_ioctl(cmd, arg);
	}
	return put_user_u32((uint32_t)MIN(n, (uint64_t)INT32_MAX), (void __user *)arg);
}
