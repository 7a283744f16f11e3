/* SPDX-License-Identifier: MIT */
/*
 * TCP of a processor with a card: what options tell of a connection to the outside, and no port is
 * left.
 */
#include <abi/in.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/tcpip.h>
#include <processor/socket/inet_private.h>
#include <processor/socket/queue.h>

#include "gateway_fake.h"
#include "ipc_fake.h"
#include "remote_fake.h"

#define ALL_PORTS 28232u /* net.ipv4.ip_local_port_range */

static struct sock_addr name4(uint32_t addr, uint16_t port)
{
	struct sock_addr name = address(port);

	name.in.addr = __builtin_bswap32(addr);
	return name;
}

/* A number, or an errno. */
static int get(struct socket *s, int level, int option)
{
	uint32_t len = sizeof(int);
	int val = -1, err = s->ops->getsockopt(s, level, option, &val, &len);

	return err ? err : val;
}

static void options_tell_of_the_card(struct ktest *t)
{
	const struct sock_addr to = name4(0x0a010101, OUT_ECHO);
	const struct sock_addr resets = name4(0x0a010101, OUT_RESETS);
	struct linux_tcp_info info = { 0 };
	uint32_t len = sizeof(info);
	struct socket *s;

	fake_task(0);
	outside_card(true);
	s = make();
	EXPECT_EQ(t, get(s, SOL_TCP, TCP_MAXSEG), DEFAULT_MSS);
	EXPECT_EQ(t, get(s, SOL_IP, IP_MTU), -ENOTCONN);
	ASSERT_EQ(t, s->ops->connect(s, &to, false), 0);
	EXPECT_EQ(t, get(s, SOL_TCP, TCP_MAXSEG), OUT_MSS);
	EXPECT_EQ(t, get(s, SOL_IP, IP_MTU), OUT_MTU);
	EXPECT_EQ(t, s->ops->getsockopt(s, SOL_TCP, TCP_INFO, &info, &len), 0);
	EXPECT_EQ(t, info.snd_mss, OUT_MSS);
	EXPECT_EQ(t, info.pmtu, OUT_MTU);
	socket_drop(s);
	/* One that is gone. */
	s = make();
	ASSERT_EQ(t, s->ops->connect(s, &resets, false), 0);
	EXPECT_EQ(t, give(s, "a", 1, 0), 1);
	EXPECT_EQ(t, get(s, SOL_TCP, TCP_MAXSEG), DEFAULT_MSS);
	EXPECT_EQ(t, get(s, SOL_IP, IP_MTU), -ENOTCONN);
	socket_drop(s);
	/* Datagrams, too. */
	s = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	ASSERT_EQ(t, s->ops->connect(s, &to, false), 0);
	EXPECT_EQ(t, get(s, SOL_IP, IP_MTU), OUT_MTU);
	socket_drop(s);
	outside_card(false);
}

static void no_port_is_left(struct ktest *t)
{
	const struct sock_addr here = address(1), there = name4(0x0a010101, OUT_ECHO);
	struct socket **all = kcalloc(ALL_PORTS, sizeof(struct socket *)), *s, *udp;

	fake_task(0);
	outside_card(true);
	for (uint32_t i = 0; i < ALL_PORTS; i++) {
		all[i] = make();
		ASSERT_FALSE(t, IS_ERR(all[i]));
		ASSERT_EQ(t, inet_autobind(all[i]), 0);
	}
	s = make();
	EXPECT_EQ(t, s->ops->connect(s, &here, false), -EADDRNOTAVAIL);
	EXPECT_EQ(t, s->ops->connect(s, &there, false), -EADDRNOTAVAIL);
	EXPECT_EQ(t, s->ops->listen(s, 1), -EADDRINUSE);
	/* Those of UDP are others. */
	udp = socket_create(&udp_ops, AF_INET, SOCK_DGRAM, SOL_UDP);
	EXPECT_EQ(t, udp->ops->connect(udp, &there, false), 0);
	socket_drop(udp);
	/* One that is free is enough. */
	socket_drop(all[1000]);
	EXPECT_EQ(t, s->ops->connect(s, &there, false), 0);
	socket_drop(s);
	for (uint32_t i = 0; i < ALL_PORTS; i++) {
		if (i != 1000)
			socket_drop(all[i]);
	}
	kfree(all);
	outside_card(false);
}

static const struct ktest_case cases[] = {
	KTEST(options_tell_of_the_card),
	KTEST(no_port_is_left),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.outside", .cases = cases };
KTEST_SUITE(suite);
