/* SPDX-License-Identifier: MIT */
/*
 * Raw and ping sockets over loopback: who may have them, headers, filters, sums, addresses, echo.
 * Prints the same on both. On Linux it has a network of its own, where nobody else sends.
 */
#include "call.h"

#include <arpa/inet.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define OTHER        253 /* a protocol for experiments */
#define SOL_RAW_     255
#define ICMP_FILTER_ 1 /* <linux/icmp.h> and <netinet/ip_icmp.h> do not agree */
#define RANGE        "/proc/sys/net/ipv4/ping_group_range"

static unsigned char buf[70000], in[70000];

/* --- a network of its own ------------------------------------------------------------ */

static void put_text(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY);

	if (fd >= 0) {
		if (write(fd, text, strlen(text)) < 0)
			printf("write %s\n", strerrorname_np(errno));
		close(fd);
	}
}

static void own_network(void)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	const unsigned int uid = getuid(), gid = getgid();
	char text[64];
	int fd;

	if (unshare(CLONE_NEWNET)) {
		if (geteuid() == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET))
			return;
		put_text("/proc/self/setgroups", "deny");
		snprintf(text, sizeof(text), "0 %u 1", uid);
		put_text("/proc/self/uid_map", text);
		snprintf(text, sizeof(text), "0 %u 1", gid);
		put_text("/proc/self/gid_map", text);
	}
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(fd >= 0);
	CHECK(ioctl(fd, SIOCGIFFLAGS, &ifr) == 0);
	ifr.ifr_flags |= IFF_UP;
	CHECK(ioctl(fd, SIOCSIFFLAGS, &ifr) == 0);
	close(fd);
}

/* --- helpers ------------------------------------------------------------------------- */

static struct sockaddr_in name4(const char *text)
{
	struct sockaddr_in in4 = { .sin_family = AF_INET };

	CHECK(inet_pton(AF_INET, text, &in4.sin_addr) == 1);
	return in4;
}

static struct sockaddr_in6 name6(const char *text)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	CHECK(inet_pton(AF_INET6, text, &in6.sin6_addr) == 1);
	return in6;
}

static int make(int family, int type, int protocol)
{
	const int fd = socket(family, type | SOCK_NONBLOCK, protocol);

	CHECK(fd >= 0);
	return fd;
}

static ssize_t send_to(int fd, const char *to, const void *data, size_t len)
{
	const struct sockaddr_in in4 = name4(to);

	return sendto(fd, data, len, 0, (const void *)&in4, sizeof(in4));
}

static ssize_t send_to6(int fd, const char *to, const void *data, size_t len)
{
	const struct sockaddr_in6 in6 = name6(to);

	return sendto(fd, data, len, 0, (const void *)&in6, sizeof(in6));
}

static unsigned int sum(const void *data, size_t len, unsigned int s)
{
	const unsigned char *p = data;

	for (size_t i = 0; i + 1 < len; i += 2)
		s += p[i] << 8 | p[i + 1];
	if (len & 1)
		s += p[len - 1] << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return ~s & 0xffff;
}

/* A packet of ICMP, or of ICMPv6 without its sum. */
static size_t echo(unsigned char *at, int type, int id, int seq, size_t payload)
{
	unsigned int s;

	memset(at, 0, 8);
	at[0] = (unsigned char)type;
	at[4] = (unsigned char)(id >> 8);
	at[5] = (unsigned char)id;
	at[7] = (unsigned char)seq;
	for (size_t i = 0; i < payload; i++)
		at[8 + i] = (unsigned char)(i * 7 + (size_t)seq);
	if (type == ICMP_ECHO) {
		s = sum(at, 8 + payload, 0);
		at[2] = (unsigned char)(s >> 8);
		at[3] = (unsigned char)s;
	}
	return 8 + payload;
}

static void show_from(const struct sockaddr_storage *ss, socklen_t len)
{
	char text[64] = "?";

	if (ss->ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)ss)->sin_addr, text, sizeof(text));
	else if (ss->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)ss)->sin6_addr, text,
			  sizeof(text));
	printf(" from %s of %d, port %d", text, (int)len,
	       ntohs(((const struct sockaddr_in *)ss)->sin_port));
}

/* The packet that recvfrom() gives: of IPv4 the header, without its number and flags. */
static ssize_t show(const char *what, int fd, int headers)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct sockaddr_storage ss = { 0 };
	socklen_t slen = sizeof(ss);
	const unsigned char *data = in;
	char a[INET_ADDRSTRLEN], b[INET_ADDRSTRLEN];
	ssize_t n, len;

	/* Linux's answers take their time. */
	if (poll(&p, 1, 50) < 0)
		die("poll");
	memset(in, 0, sizeof(in));
	n = len = recvfrom(fd, in, sizeof(in), 0, (void *)&ss, &slen);
	if (n < 0) {
		call(what, n);
		return n;
	}
	printf("%s: %zd", what, n);
	show_from(&ss, slen);
	if (headers) {
		const struct iphdr *ip = (const void *)in;

		printf("\n  ip %d %d tos %d len %d ttl %d proto %d sum %s %s > %s", ip->version,
		       ip->ihl, ip->tos, ntohs(ip->tot_len), ip->ttl, ip->protocol,
		       sum(in, ip->ihl * 4, 0) ? "wrong" : "right",
		       inet_ntop(AF_INET, &ip->saddr, a, sizeof(a)),
		       inet_ntop(AF_INET, &ip->daddr, b, sizeof(b)));
		data += ip->ihl * 4;
		len -= ip->ihl * 4;
	}
	if (len >= 8)
		printf("\n  %d %d id %d seq %d", data[0], data[1], data[4] << 8 | data[5],
		       data[6] << 8 | data[7]);
	printf(" hash %lx\n", hash_bytes(HASH_INIT, data, (size_t)len));
	return n;
}

static void drain(int fd)
{
	while (recv(fd, in, sizeof(in), MSG_DONTWAIT) >= 0)
		;
}

static void name_of(const char *what, int ret, const struct sockaddr_storage *ss, socklen_t len)
{
	printf("%s: %d", what, ret);
	if (ret < 0)
		printf(" %s", strerrorname_np(errno));
	else
		show_from(ss, len);
	putchar('\n');
}

static void names(int fd)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);
	int ret;

	ret = getsockname(fd, (void *)&ss, &len);
	name_of("own", ret, &ss, len);
	len = sizeof(ss);
	memset(&ss, 0, sizeof(ss));
	ret = getpeername(fd, (void *)&ss, &len);
	name_of("peer", ret, &ss, len);
}

static int number(int fd, int level, int option)
{
	int val = -7;
	socklen_t len = sizeof(val);

	return getsockopt(fd, level, option, &val, &len) ? -errno : val;
}

static int set_number(int fd, int level, int option, int val)
{
	return setsockopt(fd, level, option, &val, sizeof(val));
}

/* --- who may ------------------------------------------------------------------------- */

static void try(const char *what, int family, int type, int protocol)
{
	const int fd = socket(family, type, protocol);

	call(what, fd < 0 ? fd : 0);
	if (fd >= 0)
		close(fd);
}

static void making(void)
{
	static const struct {
		const char *what;
		int family, type, protocol;
	} rows[] = {
		{ "icmp", AF_INET, SOCK_RAW, IPPROTO_ICMP },
		{ "raw", AF_INET, SOCK_RAW, IPPROTO_RAW },
		{ "udp", AF_INET, SOCK_RAW, IPPROTO_UDP },
		{ "none", AF_INET, SOCK_RAW, 0 },
		{ "too much", AF_INET, SOCK_RAW, 300 },
		{ "negative", AF_INET, SOCK_RAW, -1 },
		{ "icmp6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6 },
		{ "none6", AF_INET6, SOCK_RAW, 0 },
		{ "ping", AF_INET, SOCK_DGRAM, IPPROTO_ICMP },
		{ "ping6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6 },
		{ "ping of the other", AF_INET, SOCK_DGRAM, IPPROTO_ICMPV6 },
		{ "stream", AF_INET, SOCK_STREAM, IPPROTO_ICMP },
		{ "rdm", AF_INET, SOCK_RDM, 0 },
	};
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[2] = { 0 };
	int status;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		try(rows[i].what, rows[i].family, rows[i].type, rows[i].protocol);
	fflush(stdout);
	if (!fork()) {
		CHECK(syscall(SYS_capset, &h, none) == 0);
		for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
			try(rows[i].what, rows[i].family, rows[i].type, rows[i].protocol);
		fflush(stdout);
		_exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
}

/* --- IPv4 ---------------------------------------------------------------------------- */

static void echoes(void)
{
	const int fd = make(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	const int other = make(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	uint32_t filter = 0;
	socklen_t len = sizeof(filter);
	size_t n;
	int val = 0;

	puts("--- echo");
	names(fd);
	n = echo(buf, ICMP_ECHO, 77, 1, 56);
	call("send", send_to(fd, "127.0.0.1", buf, n));
	show("request", fd, 1);
	show("answer", fd, 1);
	show("request", other, 1);
	show("answer", other, 1);
	show("no more", fd, 1);
	/* The filter keeps requests out. */
	filter = 1 << ICMP_ECHO;
	call("filter", setsockopt(fd, SOL_RAW_, ICMP_FILTER_, &filter, sizeof(filter)));
	filter = 0;
	call("get", getsockopt(fd, SOL_RAW_, ICMP_FILTER_, &filter, &len));
	printf("%#x of %d\n", filter, (int)len);
	call("wrong option", setsockopt(fd, SOL_RAW_, 17, &filter, sizeof(filter)));
	call("to 127.0.0.9", send_to(fd, "127.0.0.9", buf, n));
	show("answer", fd, 1);
	show("no more", fd, 1);
	drain(other);
	/* Nothing to be echoed: a wrong sum, too short, and one of another code. */
	buf[3] ^= 1;
	call("wrong sum", send_to(fd, "127.0.0.1", buf, n));
	call("short", send_to(fd, "127.0.0.1", buf, 4));
	show("no answer", fd, 1);
	show("wrong sum", other, 1);
	show("short", other, 1);
	/* A long one comes whole, if there is room. */
	n = echo(buf, ICMP_ECHO, 77, 2, 30000);
	call("long", send_to(fd, "127.0.0.1", buf, n));
	CHECK(ioctl(fd, FIONREAD, &val) == 0);
	show("long", fd, 1);
	printf("FIONREAD %d\n", val);
	drain(other);
	/* Options of IP. */
	call("ttl", set_number(fd, IPPROTO_IP, IP_TTL, 3));
	call("tos", set_number(fd, IPPROTO_IP, IP_TOS, 0x10));
	n = echo(buf, ICMP_ECHO, 77, 3, 0);
	call("send", send_to(fd, "127.0.0.1", buf, n));
	show("request", other, 1);
	show("answer", other, 1);
	close(fd);
	close(other);
}

static void protocols(void)
{
	const int a = make(AF_INET, SOCK_RAW, OTHER), b = make(AF_INET, SOCK_RAW, OTHER);
	const int icmp = make(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	const struct sockaddr_in unspec = { .sin_family = AF_UNSPEC };
	struct sockaddr_in to = name4("127.0.0.1");
	uint32_t filter = 0;
	socklen_t len = sizeof(filter);

	puts("--- another protocol");
	call("nothing", send_to(a, "127.0.0.1", "", 0));
	show("nothing", b, 1);
	drain(a);
	call("no filter", setsockopt(a, SOL_RAW_, ICMP_FILTER_, &filter, sizeof(filter)));
	call("no filter", getsockopt(a, SOL_RAW_, ICMP_FILTER_, &filter, &len));
	/* Addresses. */
	to = name4("127.0.0.2");
	call("bind", bind(b, (void *)&to, sizeof(to)));
	call("again", bind(b, (void *)&to, sizeof(to)));
	names(b);
	call("to it", send_to(a, "127.0.0.2", "hello", 5));
	call("to another", send_to(a, "127.0.0.3", "hello", 5));
	show("to it", b, 1);
	show("no more", b, 1);
	drain(a);
	to = name4("192.0.2.1");
	call("bind elsewhere", bind(a, (void *)&to, sizeof(to)));
	call("short name", bind(a, (void *)&to, 8));
	to = name4("127.0.0.2");
	to.sin_port = htons(5);
	call("connect", connect(a, (void *)&to, sizeof(to)));
	names(a);
	call("from it", send_to(b, "127.0.0.1", "from b", 6));
	call("send", send(a, "hello", 5, 0));
	show("from it", a, 1);
	show("from a", b, 1);
	call("bind", bind(a, (void *)&to, sizeof(to)));
	/* Linux's socket gets nothing after that, and tells no protocol. */
	call("disconnect", connect(a, (void *)&unspec, sizeof(unspec)));
	call("send", send(a, "hello", 5, 0));
	show("nothing of ICMP", icmp, 1);
	close(a);
	close(b);
	close(icmp);
}

static void wrongs(void)
{
	const int fd = make(AF_INET, SOCK_RAW, OTHER);
	struct sockaddr_in to = name4("127.0.0.1");

	puts("--- errors");
	call("no name", send(fd, "a", 1, 0));
	call("short name", sendto(fd, "a", 1, 0, (void *)&to, 8));
	to.sin_family = AF_INET6;
	call("family", sendto(fd, "a", 1, 0, (void *)&to, sizeof(to)));
	call("too long", send_to(fd, "127.0.0.1", buf, 65536));
	call("too long with a header", send_to(fd, "127.0.0.1", buf, 65516));
	call("out of band", sendto(fd, "a", 1, MSG_OOB, (void *)&to, sizeof(to)));
	call("nothing", recv(fd, in, sizeof(in), 0));
	call("out of band", recv(fd, in, sizeof(in), MSG_OOB));
	call("listen", listen(fd, 1));
	call("accept", accept(fd, NULL, NULL));
	call("shutdown", shutdown(fd, SHUT_RD));
	printf("type %d protocol %d domain %d\n", number(fd, SOL_SOCKET, SO_TYPE),
	       number(fd, SOL_SOCKET, SO_PROTOCOL), number(fd, SOL_SOCKET, SO_DOMAIN));
	call("of TCP", set_number(fd, IPPROTO_TCP, 1, 1));
	close(fd);
}

static void headers(void)
{
	const int fd = make(AF_INET, SOCK_RAW, IPPROTO_RAW), get = make(AF_INET, SOCK_RAW, OTHER);
	const int icmp = make(AF_INET, SOCK_RAW, IPPROTO_ICMP), udp = make(AF_INET, SOCK_DGRAM, 0);
	struct iphdr *ip = (void *)buf;

	puts("--- headers");
	printf("%d %d %d\n", number(fd, IPPROTO_IP, IP_HDRINCL),
	       number(get, IPPROTO_IP, IP_HDRINCL), number(udp, IPPROTO_IP, IP_HDRINCL));
	memset(buf, 0, 64);
	ip->version = 4;
	ip->ihl = 5;
	ip->ttl = 9;
	ip->tos = 4;
	ip->protocol = OTHER;
	ip->daddr = inet_addr("127.0.0.1");
	ip->tot_len = 1;
	ip->check = 1;
	memcpy(buf + 20, "abcdefghij", 10);
	call("send", send_to(fd, "127.0.0.1", buf, 30));
	show("completed", get, 1);
	printf("a number: %d\n", ((struct iphdr *)in)->id != 0);
	ip->saddr = inet_addr("127.0.0.7");
	ip->id = htons(1234);
	call("send", send_to(fd, "127.0.0.1", buf, 30));
	show("named", get, 1);
	printf("%d\n", ntohs(((struct iphdr *)in)->id));
	call("short", send_to(fd, "127.0.0.1", buf, 19));
	ip->ihl = 15;
	call("header too long", send_to(fd, "127.0.0.1", buf, 30));
	/* With options. */
	ip->ihl = 6;
	memset(buf + 20, 1, 4); /* that do nothing */
	memcpy(buf + 24, "abcdefghij", 10);
	call("options", send_to(fd, "127.0.0.1", buf, 34));
	show("options", get, 1);
	/* An echo request of one's own making. */
	ip->ihl = 5;
	ip->protocol = IPPROTO_ICMP;
	call("echo", send_to(fd, "127.0.0.1", buf, 20 + echo(buf + 20, ICMP_ECHO, 5, 6, 8)));
	show("request", icmp, 1);
	show("answer", icmp, 1);
	/* The option. */
	call("on", set_number(get, IPPROTO_IP, IP_HDRINCL, 1));
	ip->protocol = OTHER;
	call("send", send_to(get, "127.0.0.1", buf, 28));
	show("sent", get, 1);
	call("off", set_number(get, IPPROTO_IP, IP_HDRINCL, 0));
	call("send", send_to(get, "127.0.0.1", "12345678", 8));
	show("sent", get, 1);
	call("of UDP", set_number(udp, IPPROTO_IP, IP_HDRINCL, 1));
	close(fd);
	close(get);
	close(icmp);
	close(udp);
}

/* --- IPv6 ---------------------------------------------------------------------------- */

static void echoes6(void)
{
	const int fd = make(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
	const int other = make(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
	struct sockaddr_in6 to = name6("::1");
	struct icmp6_filter filter;
	socklen_t len = sizeof(filter);
	size_t n;

	puts("--- echo of IPv6");
	names(fd);
	n = echo(buf, ICMP6_ECHO_REQUEST, 78, 1, 56);
	call("send", send_to6(fd, "::1", buf, n));
	show("request", fd, 0);
	show("answer", fd, 0);
	drain(other);
	ICMP6_FILTER_SETBLOCKALL(&filter);
	ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &filter);
	call("filter", setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof(filter)));
	memset(&filter, 0, sizeof(filter));
	call("get", getsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, &len));
	printf("%#x %#x %#x of %d\n", filter.icmp6_filt[0], filter.icmp6_filt[4],
	       filter.icmp6_filt[7], (int)len);
	call("wrong option", setsockopt(fd, IPPROTO_ICMPV6, 17, &filter, sizeof(filter)));
	call("send", send_to6(fd, "::1", buf, n));
	show("answer", fd, 0);
	show("no more", fd, 0);
	drain(other);
	printf("checksum %d\n", number(fd, IPPROTO_IPV6, IPV6_CHECKSUM));
	call("checksum", set_number(fd, IPPROTO_IPV6, IPV6_CHECKSUM, 4));
	/* Names. */
	to.sin6_port = htons(17);
	call("wrong protocol", sendto(fd, buf, n, 0, (void *)&to, sizeof(to)));
	to.sin6_port = htons(IPPROTO_ICMPV6);
	call("right protocol", sendto(fd, buf, n, 0, (void *)&to, sizeof(to)));
	show("answer", fd, 0);
	call("short name", sendto(fd, buf, n, 0, (void *)&to, 20));
	call("no name", send(fd, buf, n, 0));
	call("family", send_to(fd, "127.0.0.1", buf, n));
	to.sin6_port = 0;
	call("bind", bind(fd, (void *)&to, sizeof(to)));
	call("connect", connect(fd, (void *)&to, sizeof(to)));
	names(fd);
	call("send", send(fd, buf, n, 0));
	show("answer", fd, 0);
	close(fd);
	close(other);
}

static void sums6(void)
{
	const int a = make(AF_INET6, SOCK_RAW, OTHER), b = make(AF_INET6, SOCK_RAW, OTHER);

	puts("--- sums of IPv6");
	printf("checksum %d\n", number(a, IPPROTO_IPV6, IPV6_CHECKSUM));
	call("odd", set_number(a, IPPROTO_IPV6, IPV6_CHECKSUM, 3));
	call("set", set_number(a, IPPROTO_IPV6, IPV6_CHECKSUM, 4));
	printf("checksum %d\n", number(a, IPPROTO_IPV6, IPV6_CHECKSUM));
	memcpy(buf, "abcd\0\0efgh", 10);
	call("send", send_to6(a, "::1", buf, 10));
	show("sum", b, 0);
	printf("%02x%02x\n", in[4], in[5]);
	show("sum", a, 0);
	call("short", send_to6(a, "::1", buf, 5));
	/* The other writes none, so the first does not take it. */
	call("send", send_to6(b, "::1", buf, 10));
	show("none", b, 0);
	show("none", a, 0);
	call("off", set_number(a, IPPROTO_IPV6, IPV6_CHECKSUM, -1));
	printf("checksum %d\n", number(a, IPPROTO_IPV6, IPV6_CHECKSUM));
	call("no filter", set_number(a, IPPROTO_ICMPV6, ICMP6_FILTER, 0));
	close(a);
	close(b);
}

/* --- ping sockets -------------------------------------------------------------------- */

static void range(void)
{
	char text[64] = "";
	const int fd = open(RANGE, O_RDONLY);

	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	printf("range %s", text);
}

static void pings(void)
{
	struct sockaddr_in to = name4("127.0.0.1"), own = name4("0.0.0.0");
	int fd, other, raw;
	size_t n;

	puts("--- ping");
	range();
	put_text(RANGE, "5 4");
	range();
	put_text(RANGE, "7");
	range();
	put_text(RANGE, "a b");
	put_text(RANGE, "0 0\n");
	range();
	fd = make(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	other = make(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	raw = make(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	own.sin_port = htons(4711);
	call("bind", bind(fd, (void *)&own, sizeof(own)));
	call("again", bind(fd, (void *)&own, sizeof(own)));
	printf("shared at first: %d\n", number(other, SOL_SOCKET, SO_REUSEADDR));
	call("not shared", set_number(other, SOL_SOCKET, SO_REUSEADDR, 0));
	call("taken", bind(other, (void *)&own, sizeof(own)));
	names(fd);
	n = echo(buf, ICMP_ECHO, 1, 1, 20);
	call("send", send_to(fd, "127.0.0.1", buf, n));
	show("request", raw, 1);
	show("answer", raw, 1);
	show("answer", fd, 0);
	show("no more", fd, 0);
	/* Another identifier is another's. */
	call("send", send_to(other, "127.0.0.1", buf, n));
	show("nothing", fd, 0);
	printf("%d\n", recv(other, in, sizeof(in), 0) == (ssize_t)n);
	call("connect", connect(fd, (void *)&to, sizeof(to)));
	names(fd);
	call("send", send(fd, buf, n, 0));
	show("answer", fd, 0);
	call("short", send(fd, buf, 7, 0));
	buf[0] = ICMP_ECHOREPLY;
	call("an answer", send(fd, buf, n, 0));
	echo(buf, ICMP_ECHO, 1, 1, 20);
	buf[1] = 1;
	call("code", send(fd, buf, n, 0));
	buf[1] = 0;
	call("no name", send(other, buf, n, 0));
	/* Two with one: it is the newer one's. */
	close(other);
	other = make(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	call("shared", bind(other, (void *)&own, sizeof(own)));
	call("send", send(fd, buf, n, 0));
	show("nothing", fd, 0);
	show("answer", other, 0);
	call("header", set_number(fd, IPPROTO_IP, IP_HDRINCL, 1));
	call("too long", send_to(fd, "127.0.0.1", buf, 65536));
	printf("type %d protocol %d\n", number(fd, SOL_SOCKET, SO_TYPE),
	       number(fd, SOL_SOCKET, SO_PROTOCOL));
	close(fd);
	close(other);
	close(raw);
}

static void pings6(void)
{
	const int fd = make(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6);
	struct sockaddr_in6 own = name6("::1");
	size_t n;

	puts("--- ping of IPv6");
	own.sin6_port = htons(4712);
	call("bind", bind(fd, (void *)&own, sizeof(own)));
	names(fd);
	n = echo(buf, ICMP6_ECHO_REQUEST, 1, 1, 20);
	call("send", send_to6(fd, "::1", buf, n));
	show("answer", fd, 0);
	buf[0] = ICMP6_ECHO_REPLY;
	call("an answer", send_to6(fd, "::1", buf, n));
	close(fd);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	own_network();
	making();
	echoes();
	protocols();
	wrongs();
	headers();
	echoes6();
	sums6();
	pings();
	pings6();
	return 0;
}
