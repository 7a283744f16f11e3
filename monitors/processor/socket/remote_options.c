/* SPDX-License-Identifier: MIT */
/*
 * Options of TCP and IP of connections that go by the gateway.
 *
 * Flow:	an end whose peer is outside tells the gateway of its options, if they are not as at
 *		first, when it has asked for the connection or got it, and whenever one of them
 *		changes. The connection's worker sends what is set then. The gateway keeps the
 *		options at the relay's inner socket, and wakes the relay, which passes them to the
 *		outer one.
 * Failure:	options that the gateway does not get are told again as long as it may be asked; a
 *		message for anything but a relay's connection changes nothing.
 */
#include <abi/in.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "inet_private.h"
#include "remote_private.h"

static const struct {
	int level, option;
} carried[] = {
	{ SOL_TCP, TCP_NODELAY }, { SOL_TCP, TCP_KEEPIDLE },     { SOL_TCP, TCP_KEEPINTVL },
	{ SOL_TCP, TCP_KEEPCNT }, { SOL_TCP, TCP_USER_TIMEOUT }, { SOL_IP, IP_TTL },
	{ SOL_IP, IP_TOS },       { SOL_IPV6, IPV6_TCLASS },     { SOL_IPV6, IPV6_UNICAST_HOPS },
};

/* --- to the gateway ----------------------------------------------------------------------- */

static int value_of(struct socket *s, int level, int option)
{
	int value;

	(void)inet_option_changed(s, level, option, &value);
	return value;
}

void remote_options_of(struct socket *s, struct remote_options *out)
{
	const bool four = inet_is_v4(inet_of(s)->remote.addr);
	const int hops =
		four ? value_of(s, SOL_IP, IP_TTL) : value_of(s, SOL_IPV6, IPV6_UNICAST_HOPS);

	out->user_timeout_ms = (uint32_t)value_of(s, SOL_TCP, TCP_USER_TIMEOUT);
	out->keep_idle_s = (uint16_t)value_of(s, SOL_TCP, TCP_KEEPIDLE);
	out->keep_interval_s = (uint16_t)value_of(s, SOL_TCP, TCP_KEEPINTVL);
	out->keep_count = (uint8_t)value_of(s, SOL_TCP, TCP_KEEPCNT);
	out->ttl = (uint8_t)MAX(hops, 1);
	out->tos =
		(uint8_t)(four ? value_of(s, SOL_IP, IP_TOS) : value_of(s, SOL_IPV6, IPV6_TCLASS));
	out->nodelay = value_of(s, SOL_TCP, TCP_NODELAY);
	out->keepalive = socket_option(s, SOCKET_KEEPALIVE);
}

/* They have changed: the gateway hears of them, if @s is connected by it. */
static void options_due(struct socket *s)
{
	struct remote_conn *c = inet_is_local(inet_of(s)->remote.addr) ? NULL : remote_of(s);

	if (!c)
		return;
	spin_lock(&c->lock);
	c->options_due = true;
	spin_unlock(&c->lock);
	remote_wake_worker(c);
	remote_put(c);
}

void remote_options_begin(struct socket *s)
{
	bool any = socket_option(s, SOCKET_KEEPALIVE);
	int value;

	for (size_t i = 0; i < ARRAY_SIZE(carried); i++)
		any |= inet_option_changed(s, carried[i].level, carried[i].option, &value);
	if (any)
		options_due(s);
}

int remote_setsockopt(struct socket *s, int level, int option, const void *val, uint32_t len)
{
	const int err = inet_setsockopt(s, level, option, val, len);

	for (size_t i = 0; !err && i < ARRAY_SIZE(carried); i++) {
		if (carried[i].level == level && carried[i].option == option)
			options_due(s);
	}
	return err;
}

void remote_option_changed(struct socket *s, int option)
{
	if (option == SO_KEEPALIVE)
		options_due(s);
}

/* --- at the gateway ----------------------------------------------------------------------- */

static int set(struct socket *s, int level, int option, int value)
{
	return inet_setsockopt(s, level, option, &value, sizeof(value));
}

static int take(struct socket *s, const struct remote_options *o)
{
	const bool four = s->family == AF_INET;
	int err = set(s, SOL_TCP, TCP_NODELAY, o->nodelay);

	if (!err)
		err = set(s, SOL_TCP, TCP_KEEPIDLE, o->keep_idle_s);
	if (!err)
		err = set(s, SOL_TCP, TCP_KEEPINTVL, o->keep_interval_s);
	if (!err)
		err = set(s, SOL_TCP, TCP_KEEPCNT, o->keep_count);
	if (!err)
		err = set(s, SOL_TCP, TCP_USER_TIMEOUT, (int)o->user_timeout_ms);
	if (!err)
		err = set(s, four ? SOL_IP : SOL_IPV6, four ? IP_TTL : IPV6_UNICAST_HOPS, o->ttl);
	if (!err)
		err = set(s, four ? SOL_IP : SOL_IPV6, four ? IP_TOS : IPV6_TCLASS, o->tos);
	if (o->keepalive)
		__atomic_fetch_or(&s->options, SOCKET_KEEPALIVE, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&s->options, ~(uint32_t)SOCKET_KEEPALIVE, __ATOMIC_RELAXED);
	__atomic_add_fetch(&inet_of(s)->relayed, 1, __ATOMIC_RELEASE);
	socket_wake(&s->rd_wait);
	return err;
}

int remote_take_options(const struct remote_message *m, const struct remote_options *o)
{
	struct remote_conn *c = remote_find(m->conn, m->node, m->incarn);
	struct socket *s = NULL;
	int err = -EPROTO;

	if (!c)
		return -ECONNRESET;
	spin_lock(&c->lock);
	if (c->kind == &remote_tcp && c->s) {
		s = c->s;
		socket_get(s);
	}
	spin_unlock(&c->lock);
	if (s && __atomic_load_n(&inet_of(s)->relayed, __ATOMIC_ACQUIRE))
		err = take(s, o);
	if (s)
		socket_put(s);
	remote_put(c);
	return err;
}
