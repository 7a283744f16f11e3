/* SPDX-License-Identifier: MIT */
/*
 * /proc/net: sockets, interfaces and routes as text.
 *
 * Flow:	a file walks all sockets of this processor, one reference at a time, and asks each
 *		for its names as getsockname() and getpeername() do.
 * Limits:	timers and retransmissions are not shown: a connection inside the vNode has none.
 */
#include <abi/in.h>
#include <abi/net.h>
#include <abi/socket.h>
#include <kernel/panic.h>
#include <lib/string.h>
#include <processor/ns/user_ns.h>
#include <processor/socket/inet.h>
#include <processor/socket/interface.h>
#include <processor/socket/socket.h>

#include "proc_private.h"

/* Widths that Linux pads the lines of IPv4 to. */
#define TCP_WIDTH   149
#define UDP_WIDTH   127
#define ROUTE_WIDTH 127

/* One line of a file. */
struct line {
	struct sock_addr local, remote;
	unsigned int state, tx, rx, uid, drops;
	unsigned long long ino;
	int refs;
};

/* A name of @s; an unspecified one when it has none. */
static void name_of(struct socket *s, bool peer, struct sock_addr *out)
{
	if (s->ops->getname(s, peer, out)) {
		memset(out, 0, sizeof(*out));
		out->family = s->family;
	}
}

static void describe(struct socket *s, struct line *l)
{
	const bool owned = READ_ONCE(s->file);

	ASSERT(refcount_read(&s->refs) > 0);
	memset(l, 0, sizeof(*l));
	name_of(s, false, &l->local);
	name_of(s, true, &l->remote);
	l->rx = (unsigned int)READ_ONCE(s->readable);
	if (s->type != SOCK_STREAM) {
		l->state = READ_ONCE(s->state) == SOCKET_CONNECTED ? LINUX_TCP_ESTABLISHED
								   : LINUX_TCP_CLOSE;
		l->rx = (unsigned int)READ_ONCE(s->queued);
	} else {
		l->state = inet_tcp_state(s);
		if (l->state == LINUX_TCP_LISTEN)
			l->rx = READ_ONCE(s->nr_backlog);
	}
	l->uid = owned ? s->uid : 0;
	l->ino = owned ? s->ino : 0;
	l->refs = refcount_read(&s->refs);
	l->drops = READ_ONCE(s->drops);
}

/* A file's sockets. */
struct kind {
	uint16_t family, type;
	uint32_t protocol; /* 0: any */
};

/* The next socket behind @s of this kind, with its line, that has a port and is not closed. */
static struct socket *next_line(struct socket *s, const struct kind *k, struct line *l)
{
	while ((s = socket_next(s))) {
		if (s->family != k->family || s->type != k->type ||
		    (k->protocol && s->protocol != k->protocol))
			continue;
		describe(s, l);
		/* The port is at the same place in both families' names. */
		if (l->local.in.port && (s->type != SOCK_STREAM || l->state != LINUX_TCP_CLOSE))
			return s;
	}
	return NULL;
}

static void put_name(struct text *t, const struct sock_addr *name)
{
	ASSERT(name->family == AF_INET || name->family == AF_INET6);
	if (name->family == AF_INET) {
		text_printf(t, "%08X", name->in.addr);
	} else {
		for (int i = 0; i < 4; i++) {
			uint32_t word;

			memcpy(&word, name->in6.addr + 4 * i, 4);
			text_printf(t, "%08X", word);
		}
	}
	text_printf(t, ":%04X ", __builtin_bswap16(name->in.port));
}

static void put_common(struct text *t, const struct line *l)
{
	put_name(t, &l->local);
	put_name(t, &l->remote);
	text_printf(t, "%02X %08X:%08X 00:00000000 00000000 %5u        0 %llu %d %016x", l->state,
		    l->tx, l->rx, uid_out(l->uid), l->ino, l->refs, 0u);
}

static void put_tcp(struct text *t, uint16_t family, size_t width)
{
	const struct kind tcp = { family, SOCK_STREAM, SOL_TCP };
	struct socket *s = NULL;
	struct line l;

	for (unsigned int nr = 0; (s = next_line(s, &tcp, &l)); nr++) {
		const size_t start = t->len;

		text_printf(t, "%4u: ", nr);
		put_common(t, &l);
		text_puts(t, l.state == LINUX_TCP_LISTEN ? " 100 0 0 10 0" : " 20 4 0 10 -1");
		text_pad(t, start, width);
		text_putc(t, '\n');
	}
}

/* Sockets of packets: @digits of the number of a line. */
static void put_packets(struct text *t, const struct kind *k, int digits, size_t width)
{
	struct socket *s = NULL;
	struct line l;

	for (unsigned int nr = 0; (s = next_line(s, k, &l)); nr++) {
		const size_t start = t->len;

		text_printf(t, "%*u: ", digits, nr);
		put_common(t, &l);
		text_printf(t, " %u", l.drops);
		text_pad(t, start, width);
		text_putc(t, '\n');
	}
}

static void put_head(struct text *t, const char *head, size_t width)
{
	const size_t start = t->len;

	text_puts(t, head);
	text_pad(t, start, width);
	text_putc(t, '\n');
}

#define NAMES4 "local_address rem_address   "
#define NAMES6 "local_address                         remote_address                        "
#define FIELDS "st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"

static SHOW(show_tcp)
{
	put_head(t, "  sl  " NAMES4 FIELDS, TCP_WIDTH);
	put_tcp(t, AF_INET, TCP_WIDTH);
	return 0;
}

static SHOW(show_tcp6)
{
	put_head(t, "  sl  " NAMES6 FIELDS, 0);
	put_tcp(t, AF_INET6, 0);
	return 0;
}

#define PACKET_HEAD4 "  sl  " NAMES4 FIELDS " ref pointer drops"
#define PACKET_HEAD6 "  sl  " NAMES6 FIELDS " ref pointer drops"

#define PACKET_FILE(fn, head, digits, width, ...)      \
	static SHOW(fn)                                \
	{                                              \
		const struct kind k = { __VA_ARGS__ }; \
                                                       \
		put_head(t, head, width);              \
		put_packets(t, &k, digits, width);     \
		return 0;                              \
	}

PACKET_FILE(show_udp, " " PACKET_HEAD4, 5, UDP_WIDTH, AF_INET, SOCK_DGRAM, SOL_UDP)
PACKET_FILE(show_udp6, PACKET_HEAD6, 5, 0, AF_INET6, SOCK_DGRAM, SOL_UDP)
PACKET_FILE(show_raw, PACKET_HEAD4, 4, 0, AF_INET, SOCK_RAW, 0)
PACKET_FILE(show_raw6, PACKET_HEAD6, 5, 0, AF_INET6, SOCK_RAW, 0)
PACKET_FILE(show_icmp, PACKET_HEAD4, 5, UDP_WIDTH, AF_INET, SOCK_DGRAM, IPPROTO_ICMP)
PACKET_FILE(show_icmp6, PACKET_HEAD6, 5, 0, AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6)

/* --- AF_UNIX ------------------------------------------------------------------------- */

#define UNIX_ACCEPTCON 0x10000u

/* enum socket_state of Linux, which is not ours. */
static unsigned int unix_state(bool owned, bool connected)
{
	if (owned)
		return connected ? 3 : 1;
	return connected ? 2 : 4;
}

static void put_unix(struct text *t, struct socket *s)
{
	const bool owned = READ_ONCE(s->file);
	const uint32_t state = READ_ONCE(s->state);
	const uint32_t head = offsetof(struct linux_sockaddr_un, path);
	struct sock_addr name;

	name_of(s, false, &name);
	ASSERT(name.family == AF_UNIX && name.len <= sizeof(name.bytes));
	text_printf(t, "%016x: %08X %08X %08X %04X %02X %5llu", 0u, refcount_read(&s->refs), 0u,
		    state == SOCKET_LISTENING ? UNIX_ACCEPTCON : 0, s->type,
		    unix_state(owned, state == SOCKET_CONNECTED),
		    owned ? (unsigned long long)s->ino : 0);
	for (uint32_t i = head; i < name.len; i++) {
		/* Not un.path: the end of a path of full length lies behind it. */
		const char c = (char)name.bytes[i];

		if (i == head)
			text_putc(t, ' ');
		/* A path ends with a NUL; an abstract name begins with one and may have more. */
		if (c || !name.un.path[0])
			text_putc(t, c ? c : '@');
	}
	text_putc(t, '\n');
}

static SHOW(show_unix)
{
	struct socket *at = NULL;

	text_puts(t, "Num       RefCount Protocol Flags    Type St Inode Path\n");
	while ((at = socket_next(at))) {
		if (at->family == AF_UNIX && !READ_ONCE(at->dead))
			put_unix(t, at);
	}
	return 0;
}

/* --- sums ---------------------------------------------------------------------------- */

/* Sockets by version of the protocol: 0 is IPv4. */
struct sums {
	unsigned int used, tcp[2], udp[2], raw[2], tcp_all;
	uint64_t tcp_bytes, udp_bytes;
};

static void add_up(struct sums *sum)
{
	struct socket *s = NULL;
	struct line l;

	memset(sum, 0, sizeof(*sum));
	while ((s = socket_next(s))) {
		const unsigned int six = s->family == AF_INET6;

		sum->used += READ_ONCE(s->file) ? 1 : 0;
		if (s->family != AF_INET && !six)
			continue;
		describe(s, &l);
		if (s->type == SOCK_STREAM) {
			sum->tcp_all++;
			sum->tcp[six] += l.state != LINUX_TCP_CLOSE;
			sum->tcp_bytes += READ_ONCE(s->queued);
		} else if (s->type == SOCK_RAW) {
			sum->raw[six]++;
		} else if (s->protocol == SOL_UDP) {
			sum->udp[six] += l.local.in.port != 0;
			sum->udp_bytes += READ_ONCE(s->queued);
		}
	}
}

static unsigned long long pages(uint64_t bytes)
{
	return (bytes + PAGE_SIZE - 1) / PAGE_SIZE;
}

static SHOW(show_sockstat)
{
	struct sums sum;

	add_up(&sum);
	text_printf(t, "sockets: used %u\n", sum.used);
	text_printf(t, "TCP: inuse %u orphan 0 tw 0 alloc %u mem %llu\n", sum.tcp[0], sum.tcp_all,
		    pages(sum.tcp_bytes));
	text_printf(t, "UDP: inuse %u mem %llu\n", sum.udp[0], pages(sum.udp_bytes));
	text_printf(t, "UDPLITE: inuse 0\nRAW: inuse %u\nFRAG: inuse 0 memory 0\n", sum.raw[0]);
	return 0;
}

static SHOW(show_sockstat6)
{
	struct sums sum;

	add_up(&sum);
	text_printf(t, "TCP6: inuse %u\nUDP6: inuse %u\n", sum.tcp[1], sum.udp[1]);
	text_printf(t, "UDPLITE6: inuse 0\nRAW6: inuse %u\nFRAG6: inuse 0 memory 0\n", sum.raw[1]);
	return 0;
}

/* --- interfaces and routes ----------------------------------------------------------- */

static SHOW(show_dev)
{
	struct inet_interface i;

	text_puts(t, "Inter-|   Receive                                                |  "
		     "Transmit\n face |bytes    packets errs drop fifo frame compressed "
		     "multicast|bytes    packets errs drop fifo colls carrier compressed\n");
	for (unsigned int nr = 0; inet_interface_at(nr, &i); nr++) {
		text_printf(t, "%6s: %7llu %7llu %4llu %4llu    0     0          0         0 ",
			    i.name, (unsigned long long)i.rx_bytes,
			    (unsigned long long)i.rx_packets, (unsigned long long)i.rx_errors,
			    (unsigned long long)i.rx_drops);
		text_printf(t, "%8llu %7llu %4llu %4llu    0     0       0          0\n",
			    (unsigned long long)i.tx_bytes, (unsigned long long)i.tx_packets,
			    (unsigned long long)i.tx_errors, (unsigned long long)i.tx_drops);
	}
	return 0;
}

/* The name of the interface that a route leads to; false: it has gone. */
static bool interface_name(uint32_t index, struct inet_interface *out)
{
	for (unsigned int nr = 0; inet_interface_at(nr, out); nr++) {
		if (out->index == index)
			return true;
	}
	return false;
}

static SHOW(show_route)
{
	struct inet_interface i;
	struct inet_route r;

	put_head(t,
		 "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow"
		 "\tIRTT",
		 ROUTE_WIDTH);
	for (unsigned int nr = 0; inet_route_at(nr, &r); nr++) {
		const size_t start = t->len;
		uint32_t dst, gateway;

		if (r.family != AF_INET || !interface_name(r.interface, &i))
			continue;
		memcpy(&dst, r.dst, 4);
		memcpy(&gateway, r.gateway, 4);
		text_printf(t, "%s\t%08X\t%08X\t%04X\t0\t0\t%u\t%08X\t0\t0\t0", i.name, dst,
			    gateway, RTF_UP | (gateway ? RTF_GATEWAY : 0), r.metric,
			    inet_mask4(r.prefix));
		text_pad(t, start, ROUTE_WIDTH);
		text_putc(t, '\n');
	}
	return 0;
}

/* Flags and scopes of addresses as this file has them. */
#define ADDR_PERMANENT 0x80u
#define SCOPE_HOST     0x10u
#define SCOPE_LINK     0x20u

static SHOW(show_if_inet6)
{
	struct inet_interface i;

	for (unsigned int nr = 0; inet_interface_at(nr, &i); nr++) {
		for (uint32_t a = 0; a < i.nr_addr6; a++) {
			const uint8_t scope = i.addr6[a].scope;

			for (int b = 0; b < 16; b++)
				text_printf(t, "%02x", i.addr6[a].addr[b]);
			text_printf(t, " %02x %02x %02x %02x %8s\n", i.index, i.addr6[a].prefix,
				    scope == RT_SCOPE_HOST   ? SCOPE_HOST
				    : scope == RT_SCOPE_LINK ? SCOPE_LINK
							     : 0,
				    scope == RT_SCOPE_UNIVERSE ? 0 : ADDR_PERMANENT, i.name);
		}
	}
	return 0;
}

const struct pseudo_node proc_net_nodes[] = {
	PSEUDO_FILE("dev", 0444, show_dev),
	PSEUDO_FILE("icmp", 0444, show_icmp),
	PSEUDO_FILE("icmp6", 0444, show_icmp6),
	PSEUDO_FILE("if_inet6", 0444, show_if_inet6),
	PSEUDO_FILE("raw", 0444, show_raw),
	PSEUDO_FILE("raw6", 0444, show_raw6),
	PSEUDO_FILE("route", 0444, show_route),
	PSEUDO_FILE("sockstat", 0444, show_sockstat),
	PSEUDO_FILE("sockstat6", 0444, show_sockstat6),
	PSEUDO_FILE("tcp", 0444, show_tcp),
	PSEUDO_FILE("tcp6", 0444, show_tcp6),
	PSEUDO_FILE("udp", 0444, show_udp),
	PSEUDO_FILE("udp6", 0444, show_udp6),
	PSEUDO_FILE("unix", 0444, show_unix),
	{ 0 },
};
