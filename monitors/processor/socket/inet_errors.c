/* SPDX-License-Identifier: MIT */
/*
 * Errors of datagrams that were sent: the queue of them that IP_RECVERR and IPV6_RECVERR ask for,
 * and MSG_ERRQUEUE reads.
 *
 * Flow:	a datagram that cannot reach its receiver comes back as an ICMP message, or, inside
 *		of the vNode, as what that message would have said. The sender's pending error is
 *		set: always, if it asks for errors, else when it is connected and the error is for
 *		good. With those options the error also waits in the socket's queue, with the first
 *		bytes of the datagram, as many as an ICMP message has.
 * Locking:	socket.lock guards the queue. Errors come in any context that may take it.
 * Limits:	the queue takes SO_RCVBUF bytes of memory, beside what waits to be read; an error
 *		that has no room, or no memory, is the pending one alone.
 * See:		docs/design/sockets.md
 */
#include <abi/errqueue.h>
#include <abi/in.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/vfs/uio.h>

#include "inet_private.h"
#include "interface.h"
#include "queue.h"

#define ICMP_TOS 0xc0u /* of errors, beside the datagram's own */

/* errno, and whether the receiver is out of reach for good; as Linux converts them. */
struct icmp_errno {
	uint8_t err;
	bool fatal;
};

static const struct icmp_errno unreachable4[] = {
	{ ENETUNREACH, false },  { EHOSTUNREACH, false }, { ENOPROTOOPT, true },
	{ ECONNREFUSED, true },  { EMSGSIZE, false },     { EOPNOTSUPP, false },
	{ ENETUNREACH, true },   { EHOSTDOWN, true },     { ENONET, true },
	{ ENETUNREACH, true },   { EHOSTUNREACH, true },  { ENETUNREACH, false },
	{ EHOSTUNREACH, false }, { EHOSTUNREACH, true },  { EHOSTUNREACH, true },
	{ EHOSTUNREACH, true },
};

static const struct icmp_errno unreachable6[] = {
	{ ENETUNREACH, false }, { EACCES, true }, { EHOSTUNREACH, false }, { EHOSTUNREACH, false },
	{ ECONNREFUSED, true }, { EACCES, true }, { EACCES, true },
};

/* The meaning of an ICMP message. err 0: none. */
static struct icmp_errno errno_of4(uint8_t type, uint8_t code)
{
	switch (type) {
	case ICMP_DEST_UNREACH:
		return code < ARRAY_SIZE(unreachable4) ? unreachable4[code]
						       : (struct icmp_errno){ 0 };
	case ICMP_TIME_EXCEEDED:
		return (struct icmp_errno){ EHOSTUNREACH, false };
	case ICMP_PARAMETERPROB:
		return (struct icmp_errno){ EPROTO, true };
	default:
		return (struct icmp_errno){ 0 };
	}
}

static struct icmp_errno errno_of6(uint8_t type, uint8_t code)
{
	switch (type) {
	case ICMPV6_DEST_UNREACH:
		return code < ARRAY_SIZE(unreachable6) ? unreachable6[code]
						       : (struct icmp_errno){ EPROTO, true };
	case ICMPV6_PKT_TOOBIG:
		return (struct icmp_errno){ EMSGSIZE, false };
	case ICMPV6_TIME_EXCEED:
		return (struct icmp_errno){ EHOSTUNREACH, false };
	case ICMPV6_PARAMPROB:
		return (struct icmp_errno){ EPROTO, true };
	default:
		return (struct icmp_errno){ 0 };
	}
}

bool inet_wants_errors(struct socket *s, bool four)
{
	const uint32_t bit = four ? INET_TELLS_ERRORS : INET_TELLS_ERRORS6;

	return __atomic_load_n(&inet_of(s)->changed, __ATOMIC_ACQUIRE) & bit;
}

size_t inet_error_bytes(bool four, size_t len)
{
	return MIN(len, four ? (size_t)INET_ERROR_BYTES : (size_t)INET_ERROR_BYTES6);
}

void inet_error_of_port(const struct inet_packet *p, struct inet_error *e)
{
	const bool four = inet_is_v4(p->to.addr);

	*e = (struct inet_error){
		.dest = p->to,
		.type = four ? ICMP_DEST_UNREACH : ICMPV6_DEST_UNREACH,
		.code = four ? ICMP_PORT_UNREACH : ICMPV6_PORT_UNREACH,
		.packet = { .from = p->to,
			    .to = p->from,
			    .interface = LOOPBACK_INDEX,
			    .ttl = INET_HOPS,
			    .tos = four ? (uint8_t)((p->tos & 0x1e) | ICMP_TOS) : 0 },
	};
	e->packet.from.port = 0;
}

/* Into the queue; @msg is consumed. */
static void queue_error(struct socket *s, const struct inet_error *e,
			const struct linux_sock_extended_err *ee, struct sock_msg *msg)
{
	struct inet_queued_error *q = kmem_alloc(msg->account, sizeof(*q));
	bool taken = false;

	if (q) {
		*q = (struct inet_queued_error){ .dest = e->dest, .packet = e->packet, .ee = *ee };
		msg->aux = q;
		spin_lock(&s->lock);
		taken = !s->dead && inet_of(s)->errors_cost + msg->cost <= READ_ONCE(s->rcvbuf);
		if (taken) {
			list_add_tail(&msg->node, &inet_of(s)->errors);
			__atomic_store_n(&inet_of(s)->errors_cost,
					 inet_of(s)->errors_cost + msg->cost, __ATOMIC_RELEASE);
		}
		spin_unlock(&s->lock);
	}
	if (!taken)
		sock_msg_free(msg);
}

/* A router has dropped a packet that was too large. */
static bool is_too_big(const struct inet_error *e, bool four)
{
	return four ? e->type == ICMP_DEST_UNREACH && e->code == ICMP_FRAG_NEEDED
		    : e->type == ICMPV6_PKT_TOOBIG;
}

/* Does the program leave the sizes of packets to the routers? */
static bool leaves_sizes(struct socket *s, bool four)
{
	int discover;

	(void)inet_option_changed(s, four ? SOL_IP : SOL_IPV6,
				  four ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discover);
	return discover == IP_PMTUDISC_DONT;
}

void inet_error_tell(struct socket *s, const struct inet_error *e, struct sock_msg *msg)
{
	const bool four = inet_is_v4(e->dest.addr);
	struct icmp_errno what = four ? errno_of4(e->type, e->code) : errno_of6(e->type, e->code);
	const struct linux_sock_extended_err ee = {
		.err = what.err,
		.origin = four ? SO_EE_ORIGIN_ICMP : SO_EE_ORIGIN_ICMP6,
		.type = e->type,
		.code = e->code,
		.info = e->info,
	};
	bool wants = what.err && inet_wants_errors(s, four);

	/* As Linux: then IPv4 has no error, and that of IPv6 is not for good. */
	if (is_too_big(e, four)) {
		what.fatal = !leaves_sizes(s, four);
		wants = wants && (what.fatal || !four);
	}
	if (wants && msg)
		queue_error(s, e, &ee, msg);
	else if (msg)
		sock_msg_free(msg);
	if (wants || (what.fatal && READ_ONCE(s->state) == SOCKET_CONNECTED))
		socket_shut(s, 0, what.err);
}

void inet_error_local(struct socket *s, const struct inet_name *dest, int err, uint32_t info)
{
	const struct linux_sock_extended_err ee = { .err = (uint32_t)err,
						    .origin = SO_EE_ORIGIN_LOCAL,
						    .info = info };
	struct inet_error e = { .dest = *dest };
	struct sock_msg *msg;

	if (!inet_wants_errors(s, inet_is_v4(dest->addr)))
		return;
	msg = sock_msg_copy_of("", 0, kmem_account_of(s));
	if (IS_ERR(msg))
		return;
	queue_error(s, &e, &ee, msg);
	socket_wake(&s->rd_wait);
}

/* The first error, which leaves the queue; NULL: none. */
static struct sock_msg *take_locked(struct socket *s) __must_hold(&s->lock)
{
	struct inet_socket *u = inet_of(s);
	struct sock_msg *msg = list_first_entry_or_null(&u->errors, struct sock_msg, node);

	assert_spin_held(&s->lock);
	if (msg) {
		ASSERT(u->errors_cost >= msg->cost);
		list_del(&msg->node);
		__atomic_store_n(&u->errors_cost, u->errors_cost - msg->cost, __ATOMIC_RELEASE);
	}
	return msg;
}

static bool is_of_packet(const struct sock_msg *msg)
{
	const struct inet_queued_error *q = msg ? msg->aux : NULL;

	return q && q->ee.origin != SO_EE_ORIGIN_LOCAL;
}

/* The same for a program. As Linux: those of packets are pending one after the other. */
static struct sock_msg *take_error(struct socket *s)
{
	const struct inet_queued_error *q;
	struct sock_msg *msg, *next;

	spin_lock(&s->lock);
	msg = take_locked(s);
	next = list_first_entry_or_null(&inet_of(s)->errors, struct sock_msg, node);
	if (msg && is_of_packet(next)) {
		q = next->aux;
		__atomic_store_n(&s->error, (int)q->ee.err, __ATOMIC_RELEASE);
	} else if (is_of_packet(msg)) {
		__atomic_store_n(&s->error, 0, __ATOMIC_RELEASE);
	}
	spin_unlock(&s->lock);
	return msg;
}

ssize_t inet_recv_error(struct socket *s, struct socket_msg *m)
{
	struct sock_msg *msg = take_error(s);
	const struct inet_queued_error *q;
	ssize_t ret;
	size_t n;

	if (!msg)
		return -EAGAIN;
	q = msg->aux;
	n = MIN((size_t)msg->len, (size_t)m->uio->left);
	ret = (ssize_t)n;
	if (n < msg->len)
		m->told |= MSG_TRUNC;
	m->told |= MSG_ERRQUEUE;
	if (sock_msg_copy(msg, 0, n, m->uio) < n)
		ret = -EFAULT; /* as on Linux, it is lost */
	m->stamp_ns = msg->stamp_ns;
	if (m->wants_addr)
		inet_name_put(s, &q->dest, &m->addr);
	m->packet = q->packet;
	m->has_packet = q->ee.origin != SO_EE_ORIGIN_LOCAL;
	m->error = q->ee;
	sock_msg_free(msg);
	return ret;
}

void inet_errors_purge(struct socket *s)
{
	struct sock_msg *msg;

	do {
		spin_lock(&s->lock);
		msg = take_locked(s);
		spin_unlock(&s->lock);
		if (msg)
			sock_msg_free(msg);
	} while (msg);
}
