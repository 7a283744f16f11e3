/* SPDX-License-Identifier: MIT */
/*
 * Ping sockets: echo requests of programs that have no rights. See raw.h.
 *
 * Flow:	the identifier of what a socket sends is its own, which bind() chooses as a port.
 *		The reply with that identifier comes to it, without a header of IP.
 */
#include <abi/in.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "ping_range.h"
#include "raw.h"

/* As Linux: nobody at first. */
static struct spinlock range_lock = SPINLOCK_INIT("ping range", RANK_SPIN_MONITOR);
static uint32_t range_from __guarded_by(&range_lock) = 1;
static uint32_t range_to __guarded_by(&range_lock) = 0;

void ping_range_get(uint32_t *from, uint32_t *to)
{
	spin_lock(&range_lock);
	*from = range_from;
	*to = range_to;
	spin_unlock(&range_lock);
}

void ping_range_set(uint32_t from, uint32_t to)
{
	spin_lock(&range_lock);
	range_from = from <= to ? from : 1;
	range_to = from <= to ? to : 0;
	spin_unlock(&range_lock);
}

bool ping_is_allowed(void)
{
	const struct cred *c = cred_current();
	uint32_t from, to;

	ping_range_get(&from, &to);
	if (c->egid >= from && c->egid <= to)
		return true;
	for (uint32_t i = 0; i < c->nr_groups; i++) {
		if (c->groups[i] >= from && c->groups[i] <= to)
			return true;
	}
	return false;
}

static int ping_bind(struct socket *s, const struct sock_addr *addr)
{
	struct inet_name name;
	int err;

	err = inet_name_fetch(s, addr, &name);
	if (err)
		return err;
	if (inet_of(s)->local.port)
		return -EINVAL;
	err = raw_bind_address(s, &name);
	if (err)
		return err;
	err = ping_enter(s, name.port);
	/* -EINVAL: another thread has bound it. */
	if (err == -EADDRINUSE) {
		memset(name.addr, 0, 16);
		if (s->family == AF_INET)
			name.addr[10] = name.addr[11] = 0xff;
		inet_set_bound(s, name.addr);
		raw_set_addresses(s);
	}
	return err;
}

/* An identifier, for a socket that has none. -EAGAIN: there is none. */
static int autobind(struct socket *s)
{
	const int err = inet_of(s)->local.port ? 0 : ping_enter(s, 0);

	/* -EINVAL: another thread has done it. */
	return err == -EADDRINUSE ? -EAGAIN : 0;
}

static int ping_connect(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	int err = 0;

	if (addr->len >= sizeof(addr->family) && addr->family != AF_UNSPEC)
		err = autobind(s);
	return err ? err : raw_connect_to(s, addr, nonblock);
}

/* An echo request, with room for a sum: it gets the identifier of @s, and for IPv4 its sum. */
static int make_echo(struct socket *s, uint8_t *data, size_t len)
{
	const uint8_t type = s->family == AF_INET ? ICMP_ECHO : ICMPV6_ECHO_REQUEST;

	if (data[0] != type || data[1])
		return -EINVAL;
	ip_put16(data + 4, inet_of(s)->local.port);
	ip_put16(data + 2, 0);
	if (s->family == AF_INET)
		ip_put16(data + 2, ip_sum_end(ip_sum(data, len, 0)));
	return 0;
}

static ssize_t ping_send(struct socket *s, struct socket_msg *m)
{
	struct raw_out out = { .packet = { .six = s->family == AF_INET6,
					   .protocol = (uint8_t)s->protocol },
			       .len = m->uio->left };
	int err;

	if (out.len > IP_MAX)
		return -EMSGSIZE;
	if (out.len < ICMP_HEAD)
		return -EINVAL;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	err = autobind(s);
	if (err)
		return err;
	out.buf = kmalloc(RAW_ROOM + out.len);
	if (!out.buf)
		return -ENOBUFS;
	if (uio_fetch(m->uio, out.buf + RAW_ROOM, out.len) < out.len)
		err = -EFAULT;
	else
		err = make_echo(s, out.buf + RAW_ROOM, out.len);
	if (!err)
		err = raw_begin_send(s, m, &out);
	if (!err)
		err = raw_send_packet(s, &out);
	kfree(out.buf);
	return err ? err : (ssize_t)out.len;
}

const struct socket_ops ping_ops = {
	.name = "ping",
	.size = sizeof(struct raw_socket),
	.init = raw_init_any,
	.bind = ping_bind,
	.connect = ping_connect,
	.sendmsg = ping_send,
	.recvmsg = raw_receive,
	.shutdown = udp_shutdown,
	.poll = udp_poll,
	.getname = inet_getname,
	.setsockopt = inet_setsockopt,
	.getsockopt = inet_getsockopt,
	.put_control = inet_put_control,
	.recv_error = inet_recv_error,
	.inq = raw_inq,
	.release = raw_release,
};
