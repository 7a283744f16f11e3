/* SPDX-License-Identifier: MIT */
/*
 * AF_NETLINK's route family about the loopback, and what it refuses. Prints the same on both.
 */
#include "call.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

static char buf[16384];

static int netlink(void)
{
	const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		call("socket", fd);
	return fd;
}

/* The loopback, by getifaddrs(). */
static void interfaces(void)
{
	struct ifaddrs *all;
	char text[INET6_ADDRSTRLEN];

	call("getifaddrs", getifaddrs(&all));
	for (struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (strcmp(i->ifa_name, "lo") || !i->ifa_addr)
			continue;
		if (i->ifa_addr->sa_family == AF_INET) {
			const struct sockaddr_in *in = (const void *)i->ifa_addr;
			const struct sockaddr_in *mask = (const void *)i->ifa_netmask;

			printf("%s", inet_ntoa(in->sin_addr));
			printf(" mask %s\n", inet_ntoa(mask->sin_addr));
		} else if (i->ifa_addr->sa_family == AF_INET6) {
			const struct sockaddr_in6 *in = (const void *)i->ifa_addr;

			puts(inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof(text)));
		} else {
			printf("family %d, flags %#x\n", i->ifa_addr->sa_family,
			       i->ifa_flags & (IFF_UP | IFF_LOOPBACK | IFF_BROADCAST));
		}
	}
	freeifaddrs(all);
	printf("index %u\n", if_nametoindex("lo"));
}

struct request {
	struct nlmsghdr h;
	union {
		struct rtgenmsg any;
		struct ifinfomsg link;
		struct ifaddrmsg addr;
		struct rtmsg route;
	};
	char attrs[64];
};

static struct request request(int type, int flags, unsigned int len)
{
	struct request r = { .h = { .nlmsg_len = NLMSG_LENGTH(len),
				    .nlmsg_type = type,
				    .nlmsg_flags = NLM_F_REQUEST | flags,
				    .nlmsg_seq = 42 } };

	return r;
}

/* Send @r, print the first message of the answer. */
static void ask(const char *what, int fd, const struct request *r)
{
	const struct nlmsghdr *h = (const void *)buf;
	struct sockaddr_nl own = { 0 };
	socklen_t len = sizeof(own);
	ssize_t got;

	printf("%s: ", what);
	if (send(fd, r, r->h.nlmsg_len, 0) < 0) {
		call("send", -1);
		return;
	}
	got = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (got < 0) {
		call("recv", got);
		return;
	}
	getsockname(fd, (struct sockaddr *)&own, &len);
	printf("type %d, seq %u, ours %d", h->nlmsg_type, h->nlmsg_seq, h->nlmsg_pid == own.nl_pid);
	if (h->nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *e = NLMSG_DATA(h);

		printf(", %s, length %u, of %u", e->error ? strerrorname_np(-e->error) : "0",
		       h->nlmsg_len, e->msg.nlmsg_len);
	}
	putchar('\n');
}

static void single(int fd)
{
	struct request r = request(RTM_GETLINK, 0, sizeof(r.link));
	const struct rtattr name = { RTA_LENGTH(3), IFLA_IFNAME }, dst = { RTA_LENGTH(4), RTA_DST };

	ask("no interface", fd, &r);
	r.link.ifi_index = 1;
	ask("the first", fd, &r);
	r.link.ifi_index = 12345;
	ask("no such", fd, &r);
	r.link.ifi_index = 0;
	memcpy(r.attrs, &name, sizeof(name));
	strcpy(r.attrs + sizeof(name), "lo");
	r.h.nlmsg_len += 8;
	ask("by name", fd, &r);
	strcpy(r.attrs + sizeof(name), "xy");
	ask("no such name", fd, &r);
	r = request(RTM_GETLINK, 0, 8);
	ask("half a header", fd, &r);
	r = request(RTM_GETLINK, NLM_F_ACK, 0);
	ask("nothing", fd, &r);
	r = request(1000, 0, 16);
	ask("no such type", fd, &r);
	r = request(NLMSG_NOOP, NLM_F_ACK, 16);
	ask("control", fd, &r);
	r = request(RTM_GETROUTE, 0, sizeof(r.route) + 8);
	r.route.rtm_family = AF_INET;
	r.route.rtm_dst_len = 32;
	memcpy(&r.route + 1, &dst, sizeof(dst));
	memcpy((char *)(&r.route + 1) + sizeof(dst), (unsigned char[]){ 127, 0, 0, 1 }, 4);
	ask("route", fd, &r);
}

/* A user without rights is refused before anything is looked at. */
static void changes(int fd)
{
	struct request r = request(RTM_NEWADDR, NLM_F_ACK, sizeof(r.addr));

	if (setresuid(65534, 65534, 0))
		call("setresuid", -1);
	ask("new address", fd, &r);
	r = request(RTM_DELROUTE, NLM_F_ACK, sizeof(r.route));
	ask("delete route", fd, &r);
	if (setresuid(0, 0, 0))
		call("setresuid", -1);
}

static void looking(int fd)
{
	const struct request r = request(RTM_GETADDR, NLM_F_DUMP, sizeof(r.any));
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	struct sockaddr_nl from = { 0 };
	socklen_t len = sizeof(from);
	char small[4];
	long whole;

	poll(&p, 1, 0);
	printf("idle: %#x\n", p.revents);
	call("dump", send(fd, &r, r.h.nlmsg_len, 0) == r.h.nlmsg_len);
	poll(&p, 1, 0);
	printf("answered: %#x\n", p.revents);
	whole = recv(fd, small, sizeof(small), MSG_PEEK | MSG_TRUNC);
	printf("more than the buffer: %d\n", whole > 4);
	printf("cut: %ld\n", (long)recv(fd, small, sizeof(small), MSG_PEEK));
	printf("the same: %d\n", recvfrom(fd, buf, sizeof(buf), 0, (void *)&from, &len) == whole);
	printf("from %d %u, length %u\n", from.nl_family, from.nl_pid, len);
	while (((struct nlmsghdr *)buf)->nlmsg_type != NLMSG_DONE) {
		long left = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		const struct nlmsghdr *h = (const void *)buf;

		if (left < 0)
			break; /* the end was in the part before */
		while (NLMSG_OK(h, left) && h->nlmsg_type != NLMSG_DONE)
			h = NLMSG_NEXT(h, left);
		if (NLMSG_OK(h, left))
			break;
	}
	call("all read", recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
}

static void names(void)
{
	const int a = netlink(), b = netlink(), c = netlink();
	struct sockaddr_nl n = { .nl_family = AF_NETLINK };
	struct sockaddr_nl own;
	socklen_t len = sizeof(own);

	call("getsockname", getsockname(a, (void *)&own, &len));
	printf("%d %u %u\n", own.nl_family, own.nl_pid, len);
	call("bind", bind(a, (void *)&n, sizeof(n)));
	getsockname(a, (void *)&own, &len);
	printf("pid %d\n", own.nl_pid == (unsigned int)getpid());
	n.nl_pid = own.nl_pid;
	call("taken", bind(b, (void *)&n, sizeof(n)));
	n.nl_pid = 12345678;
	call("other", bind(b, (void *)&n, sizeof(n)));
	call("again", bind(b, (void *)&n, sizeof(n)));
	n.nl_pid++;
	call("change", bind(b, (void *)&n, sizeof(n)));
	n.nl_pid = 0;
	call("connect", connect(c, (void *)&n, sizeof(n)));
	getsockname(c, (void *)&own, &len);
	printf("third differs %d\n", own.nl_pid != (unsigned int)getpid() && own.nl_pid);
	call("peer", getpeername(c, (void *)&own, &len));
	printf("%u\n", own.nl_pid);
	call("short", bind(c, (void *)&n, sizeof(n) - 1));
	n.nl_family = AF_INET;
	call("family", bind(c, (void *)&n, sizeof(n)));
	call("listen", listen(c, 1));
	call("shutdown", shutdown(c, SHUT_RD));
	call("stream", socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE));
	call("protocol", socket(AF_NETLINK, SOCK_RAW, 31));
	call("protocol", socket(AF_NETLINK, SOCK_RAW, 99));
	close(a);
	close(b);
	close(c);
}

static void options(int fd)
{
	static const int all[] = { 3, 5, 10, 11, 12, 77 };

	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		int on = 1, got = -1;
		socklen_t len = sizeof(got);

		call("set", setsockopt(fd, SOL_NETLINK, all[i], &on, sizeof(on)));
		call("get", getsockopt(fd, SOL_NETLINK, all[i], &got, &len));
		printf("%d\n", got);
		on = 0;
		setsockopt(fd, SOL_NETLINK, all[i], &on, sizeof(on));
	}
}

int main(void)
{
	const int fd = netlink();

	interfaces();
	single(fd);
	changes(fd);
	looking(fd);
	names();
	options(fd);
	close(fd);
	return 0;
}
