/* SPDX-License-Identifier: MIT */
/*
 * Raw sockets: names, options, receiving. See raw.h.
 *
 * Limits:	ICMP's errors reach no socket as an errno. Raw sockets of ICMP get them as packets.
 */
#include "raw.h"

#include <abi/in.h>
#include <lib/err.h>
#include <lib/string.h>

#include "gateway.h"
#include "queue.h"

#define ICMP_FILTER        1 /* of SOL_RAW; <linux/icmp.h> contradicts the C library's headers */
#define ICMPV6_CHECKSUM_AT 2

int raw_init_any(struct socket *s)
{
	struct raw_socket *r = raw_of(s);
	int err = inet_init_socket(s);

	s->options |= SOCKET_REUSEADDR; /* as Linux has it */
	r->checksum =
		s->protocol == IPPROTO_ICMPV6 && s->family == AF_INET6 ? ICMPV6_CHECKSUM_AT : -1;
	return err ? err
		   : outside_raw_open(s->family == AF_INET6, (uint8_t)s->protocol, &r->outside);
}

static int raw_init_socket(struct socket *s)
{
	struct raw_socket *r = raw_of(s);
	const int err = raw_init_any(s);

	if (err)
		return err;
	r->header = s->protocol == IPPROTO_RAW;
	r->inet.local.port = (uint16_t)s->protocol; /* as Linux tells it */
	raw_enter(s);
	return 0;
}

/* --- names -------------------------------------------------------------------------------- */

int raw_bind_address(struct socket *s, const struct inet_name *name)
{
	if (inet_is_v4(name->addr) != (s->family == AF_INET))
		return -EADDRNOTAVAIL;
	if (!inet_is_local(name->addr) && !inet_is_multicast(name->addr))
		return -EADDRNOTAVAIL;
	inet_set_bound(s, name->addr);
	raw_set_addresses(s);
	return 0;
}

static int raw_bind(struct socket *s, const struct sock_addr *addr)
{
	struct inet_name name;
	int err;

	if (READ_ONCE(s->state) != SOCKET_IDLE)
		return -EINVAL;
	err = inet_name_fetch(s, addr, &name);
	return err ? err : raw_bind_address(s, &name);
}

static void set_state(struct socket *s, uint32_t state)
{
	spin_lock(&s->lock);
	__atomic_store_n(&s->state, state, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	raw_set_addresses(s);
}

int raw_connect_to(struct socket *s, const struct sock_addr *addr, bool nonblock)
{
	struct raw_out way = { .packet = { .six = s->family == AF_INET6 } };
	struct socket_msg m = { .addr = *addr };
	struct inet_name to;
	int err;

	if (addr->len < sizeof(addr->family))
		return -EINVAL;
	if (addr->family == AF_UNSPEC) {
		inet_forget_remote(s);
		set_state(s, SOCKET_IDLE);
		return 0;
	}
	err = inet_name_fetch(s, addr, &to); /* its port is told as the peer's */
	if (!err)
		err = raw_destination(s, &m, &way.packet.head.to);
	if (err)
		return err;
	/* The source is that of a socket which was not connected before. */
	inet_forget_remote(s);
	err = raw_find_way(s, &m, &way);
	if (!err) {
		memcpy(to.addr, way.packet.head.to.addr, 16);
		inet_connect_names(s, &to);
		inet_set_source(s, way.packet.head.from.addr);
	}
	set_state(s, err ? SOCKET_IDLE : SOCKET_CONNECTED);
	return err;
}

/* --- options ------------------------------------------------------------------------------ */

/* The filter of @s, and its size, if @level and @option are it; 0: they are not. -EOPNOTSUPP */
static int filter_of(const struct socket *s, int level, int option)
{
	const bool four = level == SOL_RAW && option == ICMP_FILTER && s->family == AF_INET;
	const bool six = level == SOL_ICMPV6 && s->family == AF_INET6;

	if (!four && !six)
		return 0;
	if (s->protocol != (four ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return -EOPNOTSUPP;
	if (six && option != ICMPV6_FILTER)
		return -ENOPROTOOPT;
	return four ? 4 : 4 * FILTER_WORDS;
}

/* Options of these sockets that are numbers. */
static bool is_number(const struct socket *s, int level, int option)
{
	if (level == SOL_IP)
		return option == IP_HDRINCL && s->family == AF_INET;
	if (s->family != AF_INET6)
		return false;
	return (option == IPV6_CHECKSUM && (level == SOL_IPV6 || level == SOL_RAW)) ||
	       (option == IPV6_HDRINCL && (level == SOL_IPV6 || level == SOL_RAW));
}

static int set_number(struct raw_socket *r, int level, int option, int val)
{
	const struct socket *s = &r->inet.s;

	if (level != SOL_IP && option == IPV6_CHECKSUM) {
		/* That of ICMP is where it is. */
		if (s->protocol == IPPROTO_ICMPV6 && level == SOL_IPV6)
			return -EINVAL;
		if (val > 0 && (val & 1))
			return -EINVAL;
		WRITE_ONCE(r->checksum, val < 0 ? -1 : val);
		return 0;
	}
	WRITE_ONCE(r->header, val != 0);
	return 0;
}

static int raw_setsockopt(struct socket *s, int level, int option, const void *val, uint32_t len)
{
	struct raw_socket *r = raw_of(s);
	const int size = filter_of(s, level, option);
	uint32_t words[FILTER_WORDS];
	int number = 0;

	if (size < 0)
		return size;
	if (size) {
		for (uint32_t i = 0; i < FILTER_WORDS; i++)
			words[i] = READ_ONCE(r->filter[i]);
		memcpy(words, val, MIN(len, (uint32_t)size));
		for (uint32_t i = 0; i < FILTER_WORDS; i++)
			WRITE_ONCE(r->filter[i], words[i]);
		return 0;
	}
	if (!is_number(s, level, option))
		return level == SOL_RAW ? -ENOPROTOOPT
					: inet_setsockopt(s, level, option, val, len);
	if (len >= sizeof(number))
		memcpy(&number, val, sizeof(number));
	else if (len && level == SOL_IP)
		number = *(const uint8_t *)val;
	else
		return -EINVAL;
	return set_number(r, level, option, number);
}

static int raw_getsockopt(struct socket *s, int level, int option, void *val, uint32_t *len)
{
	const struct raw_socket *r = raw_of(s);
	const int size = filter_of(s, level, option);
	uint32_t words[FILTER_WORDS];
	int number;

	if (size < 0)
		return size;
	if (size) {
		for (uint32_t i = 0; i < FILTER_WORDS; i++)
			words[i] = READ_ONCE(r->filter[i]);
		*len = MIN(*len, (uint32_t)size);
		memcpy(val, words, *len);
		return 0;
	}
	if (!is_number(s, level, option))
		return level == SOL_RAW ? -ENOPROTOOPT
					: inet_getsockopt(s, level, option, val, len);
	number = level != SOL_IP && option == IPV6_CHECKSUM ? READ_ONCE(r->checksum)
							    : READ_ONCE(r->header);
	*len = MIN(*len, (uint32_t)sizeof(number));
	memcpy(val, &number, *len);
	return 0;
}

/* --- receiving ------------------------------------------------------------------------------ */

ssize_t raw_receive(struct socket *s, struct socket_msg *m)
{
	return m->flags & MSG_OOB ? -EOPNOTSUPP : udp_recvmsg(s, m);
}

/* FIONREAD: the length of the next packet. */
uint64_t raw_inq(struct socket *s)
{
	const struct sock_msg *m;
	uint64_t n;

	spin_lock(&s->lock);
	m = sock_queue_first_locked(s);
	n = m ? m->len : 0;
	spin_unlock(&s->lock);
	return n;
}

void raw_release(struct socket *s)
{
	raw_leave(s);
	inet_release(s);
	outside_raw_close(raw_of(s)->outside);
	spin_lock(&s->lock);
	s->dead = true;
	spin_unlock(&s->lock);
	sock_queue_purge(s);
	inet_errors_purge(s);
}

const struct socket_ops raw_ops = {
	.name = "raw",
	.size = sizeof(struct raw_socket),
	.init = raw_init_socket,
	.bind = raw_bind,
	.connect = raw_connect_to,
	.sendmsg = raw_sendmsg,
	.recvmsg = raw_receive,
	.shutdown = udp_shutdown,
	.poll = udp_poll,
	.getname = inet_getname,
	.setsockopt = raw_setsockopt,
	.getsockopt = raw_getsockopt,
	.put_control = inet_put_control,
	.recv_error = inet_recv_error,
	.inq = raw_inq,
	.release = raw_release,
};
