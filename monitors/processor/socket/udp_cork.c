/* SPDX-License-Identifier: MIT */
/*
 * UDP: one datagram of several calls, by MSG_MORE or UDP_CORK.
 *
 * Flow:	the first call decides where the datagram goes; its bytes and those of the next
 *		calls gather in a buffer, until a call without MSG_MORE, or the end of UDP_CORK,
 *		sends them.
 * Locking:	cork_lock (RANK_PIPE) lets one call at a time at the buffer; it is held over the
 *		copy from user memory, and not while the datagram is sent.
 * Failure:	as on Linux, a call that fails drops what has gathered.
 * Limits:	what gathers is one datagram; the buffer is charged to the program.
 */
#include <abi/in.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "inet_private.h"

#define FIRST_ROOM 512u

struct udp_cork {
	struct inet_packet packet; /* as the first call says */
	uint32_t len, room;        /* bytes at @data */
	uint8_t *data;             /* of kmem_alloc(), as this is; NULL: no byte yet */
};

bool udp_is_corked(struct socket *s, uint32_t flags)
{
	struct udp_socket *u = udp_of(s);

	return (flags & MSG_MORE) || READ_ONCE(u->corked) ||
	       __atomic_load_n(&u->cork, __ATOMIC_RELAXED);
}

static void cork_free(struct udp_cork *c)
{
	if (c)
		kmem_free(c->data);
	kmem_free(c);
}

/* The bytes so far, which is the caller's from now on; NULL: there is no datagram. */
static struct udp_cork *take_locked(struct udp_socket *u) __must_hold(&u->cork_lock)
{
	struct udp_cork *c = u->cork;

	assert_mutex_held(&u->cork_lock);
	__atomic_store_n(&u->cork, NULL, __ATOMIC_RELAXED);
	return c;
}

/* Room for @len more bytes. -EMSGSIZE, -ENOBUFS. */
static int make_room(struct udp_cork *c, size_t len, uint32_t max)
{
	uint32_t room = c->room ? c->room : FIRST_ROOM;
	uint8_t *data;

	ASSERT(c->len <= max);
	if (len > max - c->len)
		return -EMSGSIZE;
	if (c->data && len <= c->room - c->len)
		return 0;
	while (room < c->len + len)
		room *= 2;
	data = kmem_alloc(kmem_account_of(c), room);
	if (!data)
		return -ENOBUFS;
	if (c->data)
		memcpy(data, c->data, c->len);
	kmem_free(c->data);
	c->data = data;
	c->room = room;
	return 0;
}

/* The bytes of @m behind those that wait, or as the first of a datagram. */
static int append_locked(struct udp_socket *u, struct socket_msg *m) __must_hold(&u->cork_lock)
{
	struct socket *s = &u->inet.s;
	const size_t len = m->uio->left;
	struct udp_cork *c = u->cork;
	struct inet_packet packet;
	int err;

	assert_mutex_held(&u->cork_lock);
	if (!c) {
		err = udp_begin_send(s, m, &packet);
		if (err)
			return err;
		c = kmem_alloc(kmem_current(), sizeof(*c));
		if (!c)
			return -ENOBUFS;
		c->packet = packet;
		__atomic_store_n(&u->cork, c, __ATOMIC_RELAXED);
	} else {
		err = -socket_take_error(s);
		if (!err && (READ_ONCE(s->shut) & SOCKET_SHUT_WR))
			err = -EPIPE;
	}
	if (!err)
		err = make_room(c, len, udp_max(s));
	if (err)
		return err;
	if (uio_fetch(m->uio, c->data + c->len, len) < len)
		return -EFAULT;
	c->len += (uint32_t)len;
	return 0;
}

/* Send @c, and free it. */
static int push(struct socket *s, struct udp_cork *c, uint32_t flags)
{
	struct socket_msg m = { .flags = flags & ~MSG_MORE };
	struct uio uio;
	ssize_t ret;

	uio_kernel(&uio, c->data, c->len);
	m.uio = &uio;
	ret = udp_send_to(s, &m, &c->packet);
	cork_free(c);
	return ret < 0 ? (int)ret : 0;
}

ssize_t udp_send_corked(struct socket *s, struct socket_msg *m)
{
	const ssize_t len = (ssize_t)m->uio->left;
	struct udp_socket *u = udp_of(s);
	struct udp_cork *ready = NULL;
	int err = mutex_lock_killable(&u->cork_lock);

	if (err)
		return err;
	err = append_locked(u, m);
	if (err)
		cork_free(take_locked(u));
	else if (!(m->flags & MSG_MORE) && !READ_ONCE(u->corked))
		ready = take_locked(u);
	mutex_unlock(&u->cork_lock);
	if (ready)
		err = push(s, ready, m->flags);
	return err ? err : len;
}

int udp_set_cork(struct socket *s, bool on)
{
	struct udp_socket *u = udp_of(s);
	struct udp_cork *ready = NULL;
	int err = mutex_lock_killable(&u->cork_lock);

	if (err)
		return err;
	WRITE_ONCE(u->corked, on);
	if (!on)
		ready = take_locked(u);
	mutex_unlock(&u->cork_lock);
	/* As on Linux, the option is set whatever became of the datagram. */
	if (ready)
		(void)push(s, ready, 0);
	return 0;
}

void udp_drop_cork(struct socket *s)
{
	struct udp_socket *u = udp_of(s);

	mutex_lock(&u->cork_lock);
	cork_free(take_locked(u));
	mutex_unlock(&u->cork_lock);
}
