/* SPDX-License-Identifier: MIT */
/*
 * The TCP/IP stack: the input is a list of frames that a card receives, each behind its length and
 * a byte that says what of its headers is made right first. Checksums are not looked at in this
 * build. The stack has an address, a listener, an open datagram port, raw packets of some protocols
 * and a connection that is being made. None of its assertions may fail; all buffers come back.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <drivers/netdev.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lwip/netif.h>
#include <lwip/timeouts.h>
#include <net/tcpip.h>
#include <shim/shim.h>

#include "../../net/lwip/lwip_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t own_mac[6] = { 0x52, 0x54, 0, 1, 2, 3 };
static struct net_pool pool;
static struct netdev card;

static int card_open(struct netdev *nd)
{
	nd->link_up = true;
	return 0;
}

static void card_close(struct netdev *nd)
{
	(void)nd;
}

static int card_transmit(struct netdev *nd, unsigned int queue, const struct net_tx *tx)
{
	(void)nd;
	(void)queue;
	(void)tx;
	return -EIO; /* as a cable that is cut: nothing is kept */
}

static void card_kick(struct netdev *nd, unsigned int queue)
{
	(void)nd;
	(void)queue;
}

static unsigned int card_poll(struct netdev *nd, unsigned int queue, unsigned int budget)
{
	(void)nd;
	(void)queue;
	(void)budget;
	return 0;
}

static bool card_arm(struct netdev *nd, unsigned int queue)
{
	(void)nd;
	(void)queue;
	return false;
}

static const struct netdev_ops card_ops = {
	.open = card_open,
	.close = card_close,
	.transmit = card_transmit,
	.kick = card_kick,
	.poll = card_poll,
	.arm = card_arm,
};

static void event(void *arg)
{
	(void)arg;
}

static void gone(void *arg, int err)
{
	(void)arg;
	(void)err;
}

static const struct tcpip_conn_user user = {
	.connected = event,
	.readable = event,
	.writable = event,
	.gone = gone,
};

/* Connections that were accepted in this run. */
static struct tcpip_conn *accepted[64];
static unsigned int nr_accepted;

static int accept_one(void *arg, struct tcpip_conn *c, const struct tcpip_name *local,
		      const struct tcpip_name *remote)
{
	(void)arg;
	(void)local;
	(void)remote;
	if (nr_accepted == ARRAY_SIZE(accepted))
		return -ECONNREFUSED;
	tcpip_set_user(c, &user, NULL);
	accepted[nr_accepted++] = c;
	return 0;
}

static void datagram(void *arg, const struct tcpip_packet *packet, const void *data, size_t len)
{
	static volatile uint8_t sum;

	(void)arg;
	(void)packet;
	for (size_t i = 0; i < len; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
}

static void check(int ok)
{
	if (!ok)
		abort();
}

/* All bytes that it names are there. */
static void error(const struct tcpip_error *e)
{
	static volatile uint8_t sum;

	for (size_t i = 0; i < e->len; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)e->data)[i]);
}

static void set_up(void)
{
	const struct tcpip_name http = { .port = 80 }, dns = { .port = 53 };
	static struct tcpip_listener *l;
	static const uint8_t protocols[] = { 1, 6, 17, 58, 253 };
	static struct tcpip_port *p;
	struct tcpip_raw *raw;
	ip4_addr_t ip, mask, gw;

	check(!net_pool_init(&pool, 64));
	card = (struct netdev){ .ops = &card_ops, .mtu = 1500, .nr_queues = 1 };
	memcpy(card.addr, own_mac, 6);
	check(!netdev_register(&card));
	check(!stack_init());
	check(!tcpip_on_error(error));
	check(!tcpip_start());
	stack_lock();
	IP4_ADDR(&ip, 10, 0, 2, 15);
	IP4_ADDR(&mask, 255, 255, 255, 0);
	IP4_ADDR(&gw, 10, 0, 2, 2);
	netif_set_addr(netif_default, &ip, &mask, &gw);
	stack_unlock();
	check(!tcpip_listen(&http, 8, accept_one, NULL, &l));
	check(!tcpip_port_open(&dns, datagram, NULL, &p));
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		check(!tcpip_raw_open(false, protocols[i], datagram, NULL, &raw));
		check(!tcpip_raw_open(true, protocols[i], datagram, NULL, &raw));
	}
}

/* Make so much of the headers right that the frame gets further. */
static void mend(uint8_t *f, size_t len, uint8_t how)
{
	if (len < 54)
		return;
	if (how & 1)
		memcpy(f, own_mac, 6);
	if (how & 2) {
		memcpy(f + 12, "\x08\x00", 2);
		f[14] = 0x45;
		f[16] = (uint8_t)((len - 14) >> 8);
		f[17] = (uint8_t)(len - 14);
		f[20] &= 0x3f;
		memcpy(f + 30, "\x0a\x00\x02\x0f", 4);
	}
	if (how & 4) {
		f[23] = how & 8 ? 17 : 6;
		f[36] = 0;
		f[37] = how & 8 ? 53 : 80;
	}
	if (how & 16) {
		memcpy(f + 12, "\x86\xdd", 2);
		f[14] = 0x60;
		f[18] = (uint8_t)((len - 54) >> 8);
		f[19] = (uint8_t)(len - 54);
		/* fe80::5054:ff:fe01:203, the card's own */
		memcpy(f + 38, "\xfe\x80\0\0\0\0\0\0\x50\x54\0\xff\xfe\x01\x02\x03", 16);
	}
}

static void deliver(const uint8_t *bytes, size_t len, uint8_t how)
{
	struct net_rxbuf *first = NULL, **end = &first;
	uint8_t f[4096];

	memcpy(f, bytes, len);
	mend(f, len, how);
	/* Long frames come in two buffers, as they do from a card. */
	for (size_t at = 0; at < len;) {
		const size_t n = MIN(len - at, (size_t)NET_RXBUF_SIZE);
		struct net_rxbuf *b = net_rxbuf_get(&pool);

		if (!b) {
			net_frame_free(first);
			return;
		}
		memcpy(b->base, f + at, n);
		b->len = (uint32_t)n;
		*end = b;
		end = &b->next;
		at += n;
	}
	first->frame_len = (uint32_t)len;
	stack_lock();
	card.user->received(&card, first);
	stack_unlock();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tcpip_name from = { .port = 40000 };
	const struct tcpip_name to = { .addr = { [10] = 0xff, 0xff, 10, 0, 2, 2 }, .port = 7 };
	struct tcpip_conn *c = NULL;
	static bool ready;

	if (!ready) {
		ready = true;
		set_up();
	}
	if (tcpip_connect(&from, &to, &user, NULL, &c))
		c = NULL;
	while (size > 3) {
		size_t len = (size_t)(data[0] | data[1] << 8) % 4096;
		const uint8_t how = data[2];

		data += 3;
		size -= 3;
		len = MIN(len, size);
		if (len >= NET_HEADER_LEN)
			deliver(data, len, how);
		data += len;
		size -= len;
	}
	if (c)
		tcpip_close(c, true);
	while (nr_accepted)
		tcpip_close(accepted[--nr_accepted], true);
	/* Fragments and neighbours' queues let go of their buffers when their time is over. */
	if (net_pool_free(&pool) < pool.nr / 2) {
		stack_lock();
		for (unsigned int s = 0; s < 100; s++) {
			shim_time_advance_ns(NSEC_PER_SEC);
			sys_check_timeouts();
		}
		stack_unlock();
		check(net_pool_free(&pool) == pool.nr);
	}
	return 0;
}
