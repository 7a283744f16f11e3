/* SPDX-License-Identifier: MIT */
/*
 * TCP_INFO: the state of a connection.
 *
 * Limits:	a connection inside of the vNode has no packets, so it has neither a round trip nor
 *		losses; its window and segment are what the loopback of Linux begins with. Of one to
 *		the outside lwIP knows no times of the last packets and no variance.
 */
#include <abi/in.h>
#include <lib/string.h>
#include <net/tcpip.h>

#include "inet_private.h"

#define US_PER_MS 1000u
#define MIN_RTO   (200u * US_PER_MS) /* as Linux shows for a short round trip */

unsigned int inet_tcp_state(struct socket *s)
{
	bool ended, sends;
	uint32_t state;

	spin_lock(&s->lock);
	state = s->dead ? SOCKET_CLOSED : s->state;
	ended = s->finished;
	sends = !(s->shut & SOCKET_SHUT_WR);
	spin_unlock(&s->lock);
	if (state == SOCKET_LISTENING)
		return LINUX_TCP_LISTEN;
	if (state == SOCKET_CONNECTING)
		return LINUX_TCP_SYN_SENT;
	if (state != SOCKET_CONNECTED || (ended && !sends))
		return LINUX_TCP_CLOSE;
	return ended ? LINUX_TCP_CLOSE_WAIT : sends ? LINUX_TCP_ESTABLISHED : LINUX_TCP_FIN_WAIT2;
}

static uint32_t segments(size_t bytes, uint32_t mss)
{
	return mss ? (uint32_t)((bytes + mss - 1) / mss) : 0;
}

/* A connection to the outside: the stack is asked. */
static void ask_stack(struct socket *s, struct tcpip_conn *c, struct linux_tcp_info *out)
{
	struct tcpip_status st;

	tcpip_status(c, &st);
	out->state = (uint8_t)st.state;
	out->options = TCPI_OPT_TIMESTAMPS | TCPI_OPT_WSCALE;
	out->retransmits = (uint8_t)MIN(st.retransmits, (uint32_t)UINT8_MAX);
	out->snd_mss = out->advmss = st.mss;
	out->rcv_mss = st.mss;
	out->pmtu = inet_mtu(s);
	out->rtt = st.rtt_us;
	out->rto = MAX(3 * st.rtt_us, MIN_RTO);
	out->snd_cwnd = segments(st.cwnd, st.mss);
	out->unacked = segments(st.unsent, st.mss);
	out->rcv_space = st.rcv_wnd;
}

int inet_tcp_info(struct socket *s, void *val, uint32_t *len)
{
	struct tcpip_conn *c = __atomic_load_n(&inet_of(s)->outside, __ATOMIC_ACQUIRE);
	struct linux_tcp_info info = {
		.state = (uint8_t)inet_tcp_state(s),
		.rto = MIN_RTO,
		.snd_mss = LOOPBACK_MSS,
		.rcv_mss = LOOPBACK_MSS,
		.advmss = LOOPBACK_MSS,
		.pmtu = LOOPBACK_MTU,
		.snd_cwnd = 10,
		.reordering = 3,
		.rcv_space = READ_ONCE(s->rcvbuf),
	};

	if (info.state == LINUX_TCP_LISTEN) {
		/* As Linux: how many wait to be accepted, and how many may. */
		info.unacked = READ_ONCE(s->nr_backlog);
		info.sacked = READ_ONCE(s->max_backlog);
	} else if (c) {
		ask_stack(s, c, &info);
	}
	*len = MIN(*len, (uint32_t)sizeof(info));
	memcpy(val, &info, *len);
	return 0;
}
