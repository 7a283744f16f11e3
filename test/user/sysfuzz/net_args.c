/* SPDX-License-Identifier: MIT */
/*
 * Arguments of the calls of sockets: addresses, options, messages with ancillary data, requests of
 * AF_NETLINK. As in args.c, most are such as a program would pass. The length of what was made
 * last stays in the worker, so that the next argument is mostly right.
 */
#include "sysfuzz.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RIGHTS    8U /* descriptors in a message at most */
#define CONTROL   256UL
#define SO_LATEST 82 /* options of SOL_SOCKET are below */

static long socket_fd(struct worker *w)
{
	if (chance(w, 80))
		return FIRST_SOCKET + (long)draw(w, FD_POOL - FIRST_SOCKET);
	return args_pick(w, 'f');
}

static unsigned int unix_address(struct worker *w, struct sockaddr_un *un)
{
	static const char *const names[] = { "sock", "@fuzz", "sock2", "@fuzz2",         "d0/sock",
					     "a",    "d0",    "link",  "nothing-there/a" };
	const char *name = names[draw(w, LEN(names))];
	const size_t len = strlen(name);

	un->sun_family = AF_UNIX;
	switch (draw(w, 12)) {
	case 0: /* the system gives a name, or takes it away */
		return sizeof(un->sun_family);
	case 1: /* as long as can be, without an end */
		memset(un->sun_path, 'n', sizeof(un->sun_path));
		return sizeof(*un);
	default:
		memcpy(un->sun_path, name, len);
		if (*name == '@')
			un->sun_path[0] = '\0';
		return (unsigned int)(offsetof(struct sockaddr_un, sun_path) + len) +
		       (*name != '@' && chance(w, 50));
	}
}

static uint16_t port(struct worker *w)
{
	return htons((uint16_t)(chance(w, 70) ? FUZZ_PORT + (long)draw(w, 4)
					      : ONE_OF(w, 0, 0, 1, 80, 32768, 65535)));
}

static unsigned int inet_address(struct worker *w, struct sockaddr_in *in)
{
	in->sin_family = AF_INET;
	in->sin_port = port(w);
	in->sin_addr.s_addr =
		htonl((uint32_t)(chance(w, 65) ? (long)INADDR_LOOPBACK
					       : ONE_OF(w, 0, (long)INADDR_BROADCAST, 0x7f000002,
							0x0a00020f, 0x0a000202, 0xe0000001,
							0xefffffff, 0x7fffffff, 0xf0000000)));
	return sizeof(*in);
}

static unsigned int inet6_address(struct worker *w, struct sockaddr_in6 *in6)
{
	uint8_t *a = in6->sin6_addr.s6_addr;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = port(w);
	in6->sin6_scope_id = chance(w, 80) ? 0 : (uint32_t)draw(w, 4);
	switch (draw(w, 8)) {
	case 0: /* any */
		break;
	case 1: /* all nodes */
		a[0] = 0xff;
		a[1] = (uint8_t)draw(w, 16);
		a[15] = 1;
		break;
	case 2: /* of the link */
		a[0] = 0xfe;
		a[1] = 0x80;
		a[15] = 1;
		break;
	case 3: /* an address of IPv4 */
		memset(a + 10, 0xff, 2);
		a[12] = 127;
		a[15] = 1;
		break;
	default:
		a[15] = 1;
		break;
	}
	return chance(w, 90) ? sizeof(*in6) : 24; /* as it once was */
}

/* Room for any address; w->made is its length. */
static char *address(struct worker *w)
{
	char *p = args_room(w, sizeof(struct sockaddr_storage));
	struct sockaddr_nl *nl = (void *)p;

	memset(p, 0, sizeof(struct sockaddr_storage));
	switch (draw(w, 10)) {
	case 0: /* ends the association of a datagram socket */
		w->made = sizeof(struct sockaddr_in);
		break;
	case 1:
		nl->nl_family = AF_NETLINK;
		nl->nl_pid = chance(w, 60) ? 0 : (uint32_t)args_pick(w, 'P');
		nl->nl_groups = chance(w, 60) ? 0 : 1U << draw(w, 32);
		w->made = sizeof(*nl);
		break;
	case 2:
	case 3:
	case 4:
		w->made = unix_address(w, (void *)p);
		break;
	case 5:
	case 6:
		w->made = inet6_address(w, (void *)p);
		break;
	default:
		w->made = inet_address(w, (void *)p);
		break;
	}
	if (chance(w, 3))
		*(uint16_t *)(void *)p = (uint16_t)draw(w, 50);
	return p;
}

static long option(struct worker *w)
{
	if (chance(w, 5))
		return args_pick(w, 'd');
	switch (w->level) {
	case SOL_SOCKET:
		return 1 + (long)draw(w, SO_LATEST);
	case IPPROTO_TCP:
		return 1 + (long)draw(w, 38);
	case SOL_NETLINK:
		return 1 + (long)draw(w, 13);
	default:
		return 1 + (long)draw(w, 77);
	}
}

/* The value of an option: a number, a time, an interface, a membership, a name. */
static long value(struct worker *w)
{
	char *p = args_room(w, 512);
	int *n = (void *)p;

	memset(p, 0, 512);
	switch (draw(w, 12)) {
	case 0: /* struct timeval, struct linger */
		n[0] = (int)draw(w, 2);
		n[2] = (int)draw(w, 1000);
		w->made = chance(w, 50) ? 16 : 8;
		break;
	case 1: /* struct ip_mreq, ip_mreqn, ip_mreq_source */
		n[0] = (int)htonl(0xe0000001U + (uint32_t)draw(w, 4));
		n[1] = (int)htonl(chance(w, 50) ? 0 : INADDR_LOOPBACK);
		n[2] = (int)draw(w, 3);
		w->made = chance(w, 50) ? 8 : 12;
		break;
	case 2: /* struct ipv6_mreq */
		p[0] = (char)0xff;
		p[1] = 2;
		p[15] = (char)draw(w, 4);
		n[4] = (int)draw(w, 3);
		w->made = 20;
		break;
	case 3: /* struct group_source_req and its like, struct group_filter */
		n[0] = (int)draw(w, 3);
		memcpy(p + 8, address(w), sizeof(struct sockaddr_storage));
		memcpy(p + 136, address(w), sizeof(struct sockaddr_storage));
		w->made = (unsigned int)ONE_OF(w, 136, 264, 272, 144);
		break;
	case 4:
		memcpy(p, chance(w, 50) ? "lo" : "cubic", 6);
		w->made = chance(w, 50) ? IFNAMSIZ : 5;
		break;
	case 5:
		for (int i = 0; i < 64; i++)
			n[i] = (int)args_pick(w, 'd');
		w->made = (unsigned int)draw(w, 257);
		break;
	default:
		n[0] = (int)(chance(w, 70) ? (long)draw(w, 4) : args_pick(w, 'd'));
		w->made = chance(w, 92) ? sizeof(int) : (unsigned int)draw(w, 5);
		break;
	}
	return args_place(w, p, w->made);
}

static size_t put_control(struct worker *w, char *p)
{
	size_t at = 0;

	for (unsigned int i = 1 + (unsigned int)draw(w, 2); i; i--) {
		struct cmsghdr *c = (void *)(p + at);
		const unsigned int nr = (unsigned int)draw(w, chance(w, 80) ? 3 : RIGHTS);
		int *data = (int *)(void *)CMSG_DATA(c);

		c->cmsg_level = SOL_SOCKET;
		if (chance(w, 75)) {
			c->cmsg_type = SCM_RIGHTS;
			for (unsigned int k = 0; k < nr; k++)
				data[k] = (int)args_pick(w, chance(w, 80) ? '/' : 'f');
			c->cmsg_len = CMSG_LEN(nr * sizeof(int));
		} else {
			c->cmsg_type = chance(w, 60) ? SCM_CREDENTIALS : (int)draw(w, 70);
			c->cmsg_level = chance(w, 60)
						? SOL_SOCKET
						: (int)ONE_OF(w, IPPROTO_IP, IPPROTO_IPV6, 17);
			data[0] = (int)args_pick(w, 'P');
			data[1] = (int)args_pick(w, 'U');
			data[2] = (int)args_pick(w, 'U');
			c->cmsg_len = CMSG_LEN(12);
		}
		at += CMSG_ALIGN(c->cmsg_len);
		if (chance(w, 6))
			c->cmsg_len = (size_t)args_pick(w, 'l');
	}
	return at;
}

/* A request of the route family: a dump or a question, perhaps with an attribute. */
static char *request(struct worker *w)
{
	char *p = args_room(w, 64);
	struct nlmsghdr *h = (void *)p;
	struct rtattr *a = (void *)(p + NLMSG_HDRLEN + 16);

	memset(p, 0, 64);
	w->made = NLMSG_HDRLEN + 16;
	h->nlmsg_type = (uint16_t)(chance(w, 80) ? ONE_OF(w, RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE,
							  RTM_GETNEIGH, RTM_NEWADDR, RTM_DELLINK)
						 : (long)draw(w, 128));
	h->nlmsg_flags =
		(uint16_t)(chance(w, 85) ? NLM_F_REQUEST | ONE_OF(w, 0, NLM_F_DUMP, NLM_F_ACK)
					 : (long)draw(w, 65536));
	p[NLMSG_HDRLEN] = (char)ONE_OF(w, AF_INET, AF_INET6, AF_UNSPEC, 77);
	if (chance(w, 40)) {
		a->rta_type = (uint16_t)draw(w, 20);
		a->rta_len = (uint16_t)(chance(w, 90) ? 8 : (long)draw(w, 65536));
		*(uint32_t *)(void *)(a + 1) = htonl(INADDR_LOOPBACK);
		w->made += 8;
	}
	h->nlmsg_len = chance(w, 92) ? w->made : (uint32_t)args_pick(w, 'l');
	return p;
}

static long buffer(struct worker *w)
{
	if (chance(w, 20))
		return args_place(w, request(w), 64);
	w->made = (unsigned int)args_pick(w, 'l');
	return args_pick(w, 'b');
}

static void put_message(struct worker *w, struct msghdr *m)
{
	char *control = args_room(w, CONTROL);
	struct iovec *v;

	memset(m, 0, sizeof(*m));
	memset(control, 0, CONTROL);
	if (chance(w, 40)) {
		m->msg_name = address(w);
		m->msg_namelen = (socklen_t)net_pick(w, ':');
	}
	if (chance(w, 60)) { /* one part, whose memory is there */
		v = (void *)args_room(w, sizeof(*v));
		v->iov_base = request(w);
		v->iov_len = chance(w, 50) ? w->made : 1 + draw(w, 64);
		m->msg_iov = v;
		m->msg_iovlen = 1;
	} else {
		m->msg_iov = (void *)args_pick(w, 'i');
		m->msg_iovlen = (size_t)args_pick(w, 'N');
	}
	if (chance(w, 50)) {
		const size_t len = put_control(w, control);

		m->msg_control = (void *)args_place(w, control, len);
		m->msg_controllen = chance(w, 85)   ? len
				    : chance(w, 50) ? CONTROL
						    : draw(w, CONTROL);
	}
}

static long messages(struct worker *w, unsigned int nr)
{
	struct mmsghdr *m = (void *)args_room(w, nr * sizeof(*m));

	for (unsigned int i = 0; i < nr; i++)
		put_message(w, &m[i].msg_hdr);
	return args_place(w, (char *)m, nr * sizeof(*m));
}

/* One argument of a kind of NET_KINDS. */
long net_pick(struct worker *w, char kind)
{
	char *p;

	switch (kind) {
	case '/':
		return socket_fd(w);
	case '&':
		p = address(w);
		return args_place(w, p, w->made);
	case ':': /* how long that was */
		return chance(w, 88) ? (long)w->made : args_pick(w, 'l');
	case ';': /* a place with the room that there is */
		p = args_room(w, sizeof(int));
		*(int *)(void *)p = (int)(chance(w, 85) ? (long)draw(w, 200) : args_pick(w, 'd'));
		return args_place(w, p, sizeof(int));
	case '<':
		return chance(w, 95) ? ONE_OF(w, AF_UNIX, AF_UNIX, AF_INET, AF_INET, AF_INET6,
					      AF_NETLINK, AF_PACKET)
				     : args_pick(w, 'd');
	case '>':
		return ONE_OF(w, SOCK_STREAM, SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_RAW) |
		       ONE_OF(w, 0, 0, SOCK_NONBLOCK, SOCK_CLOEXEC) |
		       (chance(w, 4) ? args_pick(w, 'x') : 0);
	case '?': /* a protocol */
		return chance(w, 75) ? 0 : ONE_OF(w, IPPROTO_TCP, IPPROTO_UDP, 1, 58, 255, -1);
	case '%':
		w->level = (int)(chance(w, 95) ? ONE_OF(w, SOL_SOCKET, SOL_SOCKET, IPPROTO_TCP,
							IPPROTO_IP, IPPROTO_IPV6, SOL_NETLINK,
							IPPROTO_UDP)
					       : args_pick(w, 'd'));
		return w->level;
	case '#':
		return option(w);
	case '^':
		return value(w);
	case '_':
		return messages(w, 1);
	case '=':
		return messages(w, 4);
	case '!':
		return ONE_OF(w, 0, MSG_DONTWAIT, MSG_DONTWAIT) |
		       ONE_OF(w, 0, 0, MSG_PEEK, MSG_OOB, MSG_TRUNC, MSG_WAITALL, MSG_MORE,
			      MSG_ERRQUEUE, MSG_CMSG_CLOEXEC, MSG_EOR, MSG_CTRUNC, MSG_WAITFORONE,
			      MSG_FASTOPEN, MSG_ZEROCOPY) |
		       (chance(w, 4) ? args_pick(w, 'x') : 0);
	default: /* '*' */
		return buffer(w);
	}
}
