/* SPDX-License-Identifier: MIT */
/*
 * Internet sockets: names as programs write them, options, the families.
 */
#include "inet.h"

#include <abi/in.h>
#include <kernel/initcall.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/process/process.h>

#include "gateway.h"
#include "inet_private.h"
#include "raw.h"

#define NR_PROTOCOLS 263u /* Linux knows, as IPPROTO_MAX */
#define SIN6_LEN_MIN 24u  /* of an early struct sockaddr_in6, without the scope */

/* --- names --------------------------------------------------------------------------- */

int inet_name_fetch(struct socket *s, const struct sock_addr *addr, struct inet_name *out)
{
	const bool four = addr->len >= sizeof(addr->family) && addr->family == AF_INET;

	memset(out, 0, sizeof(*out));
	if (s->family == AF_INET6 && !(four && s->type == SOCK_DGRAM)) {
		if (addr->len < SIN6_LEN_MIN)
			return -EINVAL;
		if (addr->family != AF_INET6)
			return -EAFNOSUPPORT;
		memcpy(out->addr, addr->in6.addr, 16);
		if (inet_is_multicast(out->addr))
			out->scope_id = addr->in6.scope_id;
		out->port = __builtin_bswap16(addr->in6.port);
		if (inet_is_v4(out->addr) && READ_ONCE(inet_of(s)->v6only))
			return -EINVAL;
		return 0;
	}
	if (addr->len < sizeof(addr->in))
		return -EINVAL;
	if (addr->family != AF_INET)
		return -EAFNOSUPPORT;
	inet_map_v4(&addr->in.addr, out->addr);
	out->port = __builtin_bswap16(addr->in.port);
	return 0;
}

void inet_name_put(const struct socket *s, const struct inet_name *name, struct sock_addr *addr)
{
	memset(addr, 0, sizeof(*addr));
	if (s->family == AF_INET) {
		addr->len = sizeof(addr->in);
		addr->in.family = AF_INET;
		addr->in.port = __builtin_bswap16(name->port);
		memcpy(&addr->in.addr, name->addr + 12, 4);
		return;
	}
	addr->len = sizeof(addr->in6);
	addr->in6.family = AF_INET6;
	addr->in6.port = __builtin_bswap16(name->port);
	memcpy(addr->in6.addr, name->addr, 16);
	addr->in6.scope_id = name->scope_id;
}

int inet_init_socket(struct socket *s)
{
	inet_forget_remote(s);
	inet_groups_init(s);
	list_init(&inet_of(s)->errors);
	return 0;
}

int inet_getname(struct socket *s, bool peer, struct sock_addr *addr)
{
	const struct inet_socket *u = inet_of(s);

	if (peer && (READ_ONCE(s->state) != SOCKET_CONNECTED || !u->remote.port))
		return -ENOTCONN;
	inet_name_put(s, peer ? &u->remote : &u->local, addr);
	return 0;
}

/* --- options ------------------------------------------------------------------------- */

/*
 * Options that are numbers: they are checked and kept. Inside of a vNode those of multicast,
 * TCP_CORK, and what datagrams are told by change anything: no packet is lost, waits or is routed
 * there. Outside see docs/design/tcpip.md.
 */
static const struct {
	int level, option;
	int preset, min, max;
} options[] = {
	{ SOL_TCP, TCP_NODELAY, 0, 0, 1 },
	{ SOL_TCP, TCP_CORK, 0, 0, 1 },
	{ SOL_TCP, TCP_KEEPIDLE, 7200, 1, 32767 },
	{ SOL_TCP, TCP_KEEPINTVL, 75, 1, 32767 },
	{ SOL_TCP, TCP_KEEPCNT, 9, 1, 127 },
	{ SOL_TCP, TCP_SYNCNT, 6, 1, 127 },
	{ SOL_TCP, TCP_LINGER2, 60, INT32_MIN, INT32_MAX },
	{ SOL_TCP, TCP_DEFER_ACCEPT, 0, INT32_MIN, INT32_MAX },
	{ SOL_TCP, TCP_QUICKACK, 1, INT32_MIN, INT32_MAX },
	{ SOL_TCP, TCP_USER_TIMEOUT, 0, 0, INT32_MAX },
	{ SOL_TCP, TCP_NOTSENT_LOWAT, 0, INT32_MIN, INT32_MAX },
	{ SOL_IP, IP_TOS, 0, 0, 255 },
	{ SOL_IP, IP_TTL, INET_HOPS, 1, 255 },
	{ SOL_IP, IP_PKTINFO, 0, 0, 1 },
	{ SOL_IP, IP_RECVTTL, 0, 0, 1 },
	{ SOL_IP, IP_RECVTOS, 0, 0, 1 },
	{ SOL_IP, IP_RECVORIGDSTADDR, 0, 0, 1 },
	{ SOL_IP, IP_MTU_DISCOVER, 1, 0, 5 },
	{ SOL_IP, IP_RECVERR, 0, 0, 1 },
	{ SOL_IP, IP_FREEBIND, 0, 0, 1 },
	{ SOL_IP, IP_BIND_ADDRESS_NO_PORT, 0, 0, 1 },
	{ SOL_IP, IP_MULTICAST_TTL, 1, 0, 255 },
	{ SOL_IP, IP_MULTICAST_LOOP, 1, 0, 1 },
	{ SOL_IP, IP_MULTICAST_ALL, 1, 0, 1 },
	{ SOL_IPV6, IPV6_UNICAST_HOPS, INET_HOPS, 0, 255 },
	{ SOL_IPV6, IPV6_MULTICAST_HOPS, 1, 0, 255 },
	{ SOL_IPV6, IPV6_MULTICAST_LOOP, 1, 0, 1 },
	{ SOL_IPV6, IPV6_MULTICAST_ALL, 1, 0, 1 },
	{ SOL_IPV6, IPV6_MTU_DISCOVER, 1, 0, 5 },
	{ SOL_IPV6, IPV6_RECVERR, 0, 0, 1 },
	{ SOL_IPV6, IPV6_TCLASS, 0, 0, 255 },
	{ SOL_IPV6, IPV6_RECVPKTINFO, 0, 0, 1 },
	{ SOL_IPV6, IPV6_RECVHOPLIMIT, 0, 0, 1 },
	{ SOL_IPV6, IPV6_RECVTCLASS, 0, 0, 1 },
	{ SOL_IPV6, IPV6_RECVORIGDSTADDR, 0, 0, 1 },
	{ SOL_IPV6, IPV6_FREEBIND, 0, 0, 1 },
};
static_assert(ARRAY_SIZE(options) <= INET_OPTIONS, "struct inet_socket keeps them all");

/* Of those that datagrams look at. */
static uint32_t changed_bit(int level, int option)
{
	static const struct {
		int level, option;
		uint32_t bit;
	} bits[] = {
		{ SOL_IP, IP_PKTINFO, INET_TELLS_INFO },
		{ SOL_IP, IP_RECVTTL, INET_TELLS_TTL },
		{ SOL_IP, IP_RECVTOS, INET_TELLS_TOS },
		{ SOL_IP, IP_RECVORIGDSTADDR, INET_TELLS_DST },
		{ SOL_IP, IP_RECVERR, INET_TELLS_ERRORS },
		{ SOL_IPV6, IPV6_RECVPKTINFO, INET_TELLS_INFO6 },
		{ SOL_IPV6, IPV6_RECVHOPLIMIT, INET_TELLS_HOPS },
		{ SOL_IPV6, IPV6_RECVTCLASS, INET_TELLS_CLASS },
		{ SOL_IPV6, IPV6_RECVORIGDSTADDR, INET_TELLS_DST6 },
		{ SOL_IPV6, IPV6_RECVERR, INET_TELLS_ERRORS6 },
		{ SOL_IP, IP_TOS, INET_SENDS },
		{ SOL_IP, IP_TTL, INET_SENDS },
		{ SOL_IP, IP_MULTICAST_TTL, INET_SENDS },
		{ SOL_IPV6, IPV6_UNICAST_HOPS, INET_SENDS },
		{ SOL_IPV6, IPV6_MULTICAST_HOPS, INET_SENDS },
		{ SOL_IPV6, IPV6_TCLASS, INET_SENDS },
		{ SOL_IP, IP_MTU_DISCOVER, INET_SENDS },
		{ SOL_IPV6, IPV6_MTU_DISCOVER, INET_SENDS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bits); i++) {
		if (bits[i].level == level && bits[i].option == option)
			return bits[i].bit;
	}
	return 0;
}

/* An option is @on from now on, or is as at first. */
static void note_change(struct socket *s, int level, int option, bool on)
{
	const uint32_t bit = changed_bit(level, option);

	if (on)
		__atomic_fetch_or(&inet_of(s)->changed, bit, __ATOMIC_RELEASE);
	else if (bit != INET_SENDS) /* which stands for several, and stays: it says where to look */
		__atomic_fetch_and(&inet_of(s)->changed, ~bit, __ATOMIC_RELAXED);
	if (!on && (bit & (INET_TELLS_ERRORS | INET_TELLS_ERRORS6)))
		inet_errors_purge(s);
}

/* The place of an option that @s has, or -ENOPROTOOPT. */
static int find_option(const struct socket *s, int level, int option)
{
	if ((level == SOL_TCP && s->type != SOCK_STREAM) ||
	    (level == SOL_IPV6 && s->family != AF_INET6))
		return -ENOPROTOOPT;
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (options[i].level == level && options[i].option == option)
			return (int)i;
	}
	return -ENOPROTOOPT;
}

bool inet_option_changed(struct socket *s, int level, int option, int *value)
{
	const int i = find_option(s, level, option);
	const int changed = i < 0 ? 0 : READ_ONCE(inet_of(s)->options[i]);

	*value = i < 0 ? 0 : changed + options[i].preset;
	return changed != 0;
}

/* How far packets go, and their class: -1 stands for what the system chooses. */
static bool may_be_default(int level, int option)
{
	return (level == SOL_IP && (option == IP_TTL || option == IP_MULTICAST_TTL)) ||
	       (level == SOL_IPV6 && (option == IPV6_UNICAST_HOPS ||
				      option == IPV6_MULTICAST_HOPS || option == IPV6_TCLASS));
}

int inet_setsockopt(struct socket *s, int level, int option, const void *val, uint32_t len)
{
	struct inet_socket *u = inet_of(s);
	int number = 0, i;

	if (inet_is_group_option(level, option))
		return inet_group_set(s, level, option, val, len);
	if (len >= sizeof(number))
		memcpy(&number, val, sizeof(number));
	else if (len && level != SOL_TCP)
		number = *(const uint8_t *)val;
	else
		return -EINVAL;
	if (level == SOL_IPV6 && option == IPV6_V6ONLY && s->family == AF_INET6) {
		if (u->local.port)
			return -EINVAL;
		WRITE_ONCE(u->v6only, number != 0);
		return 0;
	}
	i = find_option(s, level, option);
	if (i < 0)
		return i;
	if (number == -1 && may_be_default(level, option))
		number = options[i].preset;
	if (options[i].max == 1 && options[i].min == 0)
		number = !!number;
	if (number < options[i].min || number > options[i].max)
		return -EINVAL;
	WRITE_ONCE(u->options[i], number - options[i].preset);
	note_change(s, level, option, number != options[i].preset);
	if (level == SOL_TCP &&
	    ((option == TCP_CORK && !number) || (option == TCP_NODELAY && number)))
		tcp_push(s);
	return 0;
}

/* Is @level neither IPv4's, for a socket of it, nor that of the protocol? */
static bool is_foreign(const struct socket *s, int level)
{
	return s->family == AF_INET && level != SOL_IP &&
	       level != (s->type == SOCK_STREAM ? SOL_TCP : SOL_UDP);
}

uint32_t inet_mtu(struct socket *s)
{
	const struct inet_socket *u = inet_of(s);
	const uint32_t mtu = inet_is_local(u->remote.addr) ? 0 : gateway_mtu(u->local.addr);

	return mtu ? mtu : LOOPBACK_MTU;
}

int inet_getsockopt(struct socket *s, int level, int option, void *val, uint32_t *len)
{
	static const char congestion[16] = "cubic";
	struct inet_socket *u = inet_of(s);
	int number, i;

	if (level == SOL_IPV6 && option == IPV6_V6ONLY && s->family == AF_INET6) {
		number = READ_ONCE(u->v6only);
	} else if (level == SOL_IP && option == IP_HDRINCL) {
		number = 0; /* raw sockets answer for themselves */
	} else if (level == SOL_IP && option == IP_MULTICAST_IF) {
		spin_lock(&s->lock);
		memcpy(&number, u->mc_addr4, sizeof(u->mc_addr4));
		spin_unlock(&s->lock);
	} else if (level == SOL_IPV6 && option == IPV6_MULTICAST_IF && s->family == AF_INET6) {
		number = (int)READ_ONCE(u->mc_if6);
	} else if ((level == SOL_IP && option == IP_MTU) ||
		   (level == SOL_IPV6 && option == IPV6_MTU && s->family == AF_INET6)) {
		if (READ_ONCE(s->state) != SOCKET_CONNECTED)
			return -ENOTCONN;
		number = (int)inet_mtu(s);
	} else if (level == SOL_TCP && s->type == SOCK_STREAM && option == TCP_MAXSEG) {
		number = READ_ONCE(s->state) == SOCKET_CONNECTED ? LOOPBACK_MSS : DEFAULT_MSS;
	} else if (level == SOL_TCP && s->type == SOCK_STREAM && option == TCP_INFO) {
		return inet_tcp_info(s, val, len);
	} else if (level == SOL_TCP && s->type == SOCK_STREAM && option == TCP_CONGESTION) {
		*len = MIN(*len, (uint32_t)sizeof(congestion));
		memcpy(val, congestion, *len);
		return 0;
	} else {
		i = find_option(s, level, option);
		if (i < 0)
			return is_foreign(s, level) ? -EOPNOTSUPP : i;
		number = READ_ONCE(u->options[i]) + options[i].preset;
	}
	*len = MIN(*len, (uint32_t)sizeof(number));
	memcpy(val, &number, *len);
	return 0;
}

/* --- families ------------------------------------------------------------------------ */

static const struct socket_ops *inet_choose(uint32_t type, uint32_t *protocol)
{
	if (*protocol >= NR_PROTOCOLS)
		return ERR_PTR(-EINVAL);
	if (type == SOCK_STREAM && (!*protocol || *protocol == SOL_TCP)) {
		*protocol = SOL_TCP;
		return &tcp_ops;
	}
	if (type == SOCK_DGRAM && (!*protocol || *protocol == SOL_UDP)) {
		*protocol = SOL_UDP;
		return &udp_ops;
	}
	/* Raw sockets have no protocol by default. */
	if (type == SOCK_RAW && *protocol && *protocol <= UINT8_MAX)
		return capable(CAP_NET_RAW) ? &raw_ops : ERR_PTR(-EPERM);
	/* As Linux: the types are known, the protocol is not. */
	return ERR_PTR(type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_RAW
			       ? -EPROTONOSUPPORT
			       : -ESOCKTNOSUPPORT);
}

static const struct socket_ops *choose4(uint32_t type, uint32_t *protocol)
{
	if (type == SOCK_DGRAM && *protocol == IPPROTO_ICMP)
		return ping_is_allowed() ? &ping_ops : ERR_PTR(-EACCES);
	return inet_choose(type, protocol);
}

static const struct socket_ops *choose6(uint32_t type, uint32_t *protocol)
{
	if (type == SOCK_DGRAM && *protocol == IPPROTO_ICMPV6)
		return ping_is_allowed() ? &ping_ops : ERR_PTR(-EACCES);
	return inet_choose(type, protocol);
}

static const struct socket_family inet_family = { .family = AF_INET, .choose = choose4 };
static const struct socket_family inet6_family = { .family = AF_INET6, .choose = choose6 };

static int inet_init(void)
{
	socket_family_register(&inet_family);
	socket_family_register(&inet6_family);
	return 0;
}
INITCALL(fs, inet_init);
