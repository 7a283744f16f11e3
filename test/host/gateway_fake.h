/* SPDX-License-Identifier: MIT */
/*
 * A network card and the outside behind it, in place of the TCP/IP stack: the card has 10.0.2.15,
 * and each address outside serves the ports below, but for 192.0.0.0/8, to which there is no way.
 */
#pragma once

#include <net/tcpip.h>

enum {
	OUT_ECHO = 7,    /* sends back what comes; datagrams as well */
	OUT_REFUSES = 9, /* a moment after it was asked; datagrams, too */
	OUT_NO_WAY = 10, /* at once */
	OUT_SILENT = 11,
	OUT_MANY = 19,   /* sends OUT_MANY_BYTES, then its end */
	OUT_RESETS = 21, /* when a byte comes */
	OUT_DIALLED = 1, /* it has connected itself */
};
#define OUT_MANY_BYTES 300000u
#define OUT_MSS        1448u
#define OUT_MTU        1500u

/* This node has a card in use from now on, or has none. */
void outside_card(bool there);
/* It has one that is not in use until tcpip_start(). */
void outside_spare_card(void);
/* The card's router is known, as it is at first, or is not. */
void outside_route(bool there);
/* The card has its address, as it has at first, or waits for one. */
void outside_address(bool there);
uint8_t outside_byte(size_t i);
/* Connect from 10.1.1.1:4000 to @port. NULL: refused. */
struct tcpip_conn *outside_dial(uint16_t port);
void outside_says(struct tcpip_conn *c, const void *data, size_t len, bool end);
/* The first @len bytes of what has come so far. */
size_t outside_heard(struct tcpip_conn *c, void *buf, size_t len);
/* The next connection is there before tcpip_connect() has returned; @fn sees it, with its user. */
void outside_at_once(void (*fn)(void *arg));
/* The source that the newest datagram was sent with: all zeros: the stack's choice. */
struct tcpip_name outside_sent_from(void);
/* 0: it is open; 1: closed in order; 2: reset. */
int outside_closed(struct tcpip_conn *c);
/* The same of the newest connection to @port; -1: there was none. */
int outside_last_closed(uint16_t port);
/* The value of an option that the stack was last told, by any connection. */
uint32_t outside_option(enum tcpip_option option);
/* How often groups were joined, less how often they were left. */
int outside_joined(void);
/* The newest datagram to a group that went out, and how many did. */
struct outside_group_sent {
	unsigned int nr;
	uint32_t interface;
	uint16_t port;
	uint8_t hops;
	size_t len;
};
struct outside_group_sent outside_group_sent(void);
/* A datagram from 10.1.1.1:4000 to a group. */
void outside_says_to_group(const uint8_t addr[16], uint16_t port, const void *data, size_t len);
/* The newest raw packet that went out, and how many did. */
struct outside_raw_sent {
	unsigned int nr;
	bool six;
	uint8_t protocol;
	struct tcpip_packet packet;
	bool has_header;
	size_t len;
	uint8_t head[64];
};
struct outside_raw_sent outside_raw_sent(void);
/* A raw packet comes. */
void outside_says_raw(bool six, uint8_t protocol, const struct tcpip_packet *packet,
		      const void *data, size_t len);
/* Listeners, datagram ports and protocols of raw packets. */
unsigned int outside_open_ports(void);
