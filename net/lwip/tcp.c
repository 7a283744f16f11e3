/* SPDX-License-Identifier: MIT */
/*
 * TCP connections and listeners on lwIP's raw interface.
 *
 * Flow:	lwIP calls on_*() from its input and timers, with the stack's lock held. Received
 *		buffers wait in a list, whose bytes count against the window until the user has
 *		read them. Bytes to send are copied into lwIP's segments.
 * Locking:	stack_mutex guards everything here. Parts that tcpip_take() has handed out are
 *		their taker's.
 * Invariants:	conn->pcb is lwIP's connection as long as lwIP has it: its destructor (an extension
 *		argument) clears it, whatever way the connection ends. A pcb without a conn is one
 *		that its user has closed, and that lwIP brings to its end.
 * Failure:	a connection that cannot get memory is refused; bytes that come while there is none
 *		stay with lwIP, which brings them again.
 */
#include "lwip_priv.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <lwip/ip.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/sys.h>
#include <lwip/tcp.h>
#include <mm/slab.h>

#define EXT_CONN 0 /* the extension argument: struct tcpip_conn */

struct tcpip_data {
	struct tcpip_data *next;
	struct pbuf *p;
	size_t off; /* bytes of it that were read */
};

struct tcpip_conn {
	struct tcp_pcb *pcb; /* NULL: gone */
	const struct tcpip_conn_user *user;
	void *arg;
	struct tcpip_data *first, *last;
	size_t readable;
	uint32_t progress_ms; /* when the peer last confirmed something, or bytes began to wait */
	uint32_t user_timeout_ms; /* 0: none */
	uint32_t syn_count;
	int32_t fin_wait_s;  /* negative: not set */
	uint32_t unsent_low; /* 0: any */
	bool connected, ended, corked;
	bool writable; /* atomic: worth waking a sender */
	int error;
};

struct tcpip_listener {
	struct tcp_pcb *pcb;
	tcpip_accepted_t accepted;
	void *arg;
};

/* --- events */

static int errno_of(const struct tcpip_conn *c, err_t err)
{
	switch (err) {
	case ERR_CLSD:
	case ERR_OK:
		return 0;
	case ERR_RST:
		return c->connected ? -ECONNRESET : -ECONNREFUSED;
	case ERR_ABRT: /* lwIP's timers have given up */
		return -ETIMEDOUT;
	default:
		return -ECONNABORTED;
	}
}

static void on_destroy(u8_t id, void *data)
{
	struct tcpip_conn *c = data;

	(void)id;
	if (c)
		c->pcb = NULL;
}

static const struct tcp_ext_arg_callbacks ext_callbacks = { .destroy = on_destroy };

/* lwIP has no connection any more. */
static void on_error(void *arg, err_t err)
{
	struct tcpip_conn *c = arg;

	assert_mutex_held(&stack_mutex);
	if (!c)
		return;
	c->pcb = NULL;
	c->error = errno_of(c, err);
	if (c->user)
		c->user->gone(c->arg, c->error);
}

static err_t on_receive(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
	struct tcpip_conn *c = arg;
	struct tcpip_data *d;

	(void)pcb;
	(void)err;
	assert_mutex_held(&stack_mutex);
	if (!p) {
		c->ended = true;
	} else {
		d = kmalloc(sizeof(*d));
		if (!d)
			return ERR_MEM;
		*d = (struct tcpip_data){ .p = p };
		if (c->last)
			c->last->next = d;
		else
			c->first = d;
		c->last = d;
		c->readable += p->tot_len;
	}
	if (c->user)
		c->user->readable(c->arg);
	return ERR_OK;
}

/* Of the send buffer: lwIP's tcp_sndbuf() tells 64 KiB at most. */
static size_t room_of(const struct tcp_pcb *pcb)
{
	return pcb->snd_buf;
}

static bool is_writable(const struct tcpip_conn *c, const struct tcp_pcb *pcb)
{
	if (c->unsent_low && pcb->snd_lbb - pcb->snd_nxt >= c->unsent_low)
		return false;
	return room_of(pcb) > TCP_SND_BUF / 3 && tcp_sndqueuelen(pcb) < TCP_SNDQUEUELOWAT;
}

/* Does the peer still have to confirm something? */
static bool is_waiting(const struct tcp_pcb *pcb)
{
	return pcb->state == SYN_SENT || pcb->unacked || pcb->unsent;
}

static bool must_give_up(const struct tcpip_conn *c, const struct tcp_pcb *pcb)
{
	/* The last SYN has its time for an answer. */
	if (pcb->state == SYN_SENT && pcb->nrtx >= c->syn_count && pcb->rtime + 1 >= pcb->rto)
		return true;
	if (!c->user_timeout_ms)
		return false;
	/* As Linux, which looks when a repetition, or a probe of a full window, is due. */
	if (is_waiting(pcb) && (pcb->state == SYN_SENT || pcb->nrtx || pcb->persist_backoff))
		return sys_now() - c->progress_ms >= c->user_timeout_ms;
	return !is_waiting(pcb) && ip_get_option(pcb, SOF_KEEPALIVE) && pcb->keep_cnt_sent &&
	       (tcp_ticks - pcb->tmr) * TCP_SLOW_INTERVAL >= c->user_timeout_ms;
}

/* Twice a second. */
static err_t on_poll(void *arg, struct tcp_pcb *pcb)
{
	struct tcpip_conn *c = arg;

	assert_mutex_held(&stack_mutex);
	if (!c || !must_give_up(c, pcb))
		return ERR_OK;
	tcp_abort(pcb); /* on_error() hears that the time is over */
	return ERR_ABRT;
}

/*
 * The same for one that its user has closed; @arg: seconds, and above them the tick, not 0, at
 * which the peer's end was first waited for.
 */
static err_t on_closed_poll(void *arg, struct tcp_pcb *pcb)
{
	const uint32_t seconds = (uint32_t)(uintptr_t)arg;
	uint32_t since = (uint32_t)((uintptr_t)arg >> 32);

	assert_mutex_held(&stack_mutex);
	if (pcb->state != FIN_WAIT_2)
		return ERR_OK;
	if (!since) {
		since = MAX(tcp_ticks, 1u);
		tcp_arg(pcb, (void *)((uintptr_t)since << 32 | seconds));
	}
	if (tcp_ticks - since < seconds * 1000 / TCP_SLOW_INTERVAL)
		return ERR_OK;
	tcp_abandon(pcb, !seconds); /* as Linux, which says so only if it does not wait at all */
	return ERR_ABRT;
}

static err_t on_sent(void *arg, struct tcp_pcb *pcb, u16_t len)
{
	struct tcpip_conn *c = arg;

	(void)len;
	assert_mutex_held(&stack_mutex);
	c->progress_ms = sys_now();
	WRITE_ONCE(c->writable, is_writable(c, pcb));
	if (c->user && c->writable)
		c->user->writable(c->arg);
	return ERR_OK;
}

static err_t on_connected(void *arg, struct tcp_pcb *pcb, err_t err)
{
	struct tcpip_conn *c = arg;

	(void)pcb;
	(void)err;
	assert_mutex_held(&stack_mutex);
	c->connected = true;
	if (c->user)
		c->user->connected(c->arg);
	return ERR_OK;
}

static void attach_locked(struct tcpip_conn *c, struct tcp_pcb *pcb) __must_hold(&stack_mutex)
{
	assert_mutex_held(&stack_mutex);
	c->pcb = pcb;
	WRITE_ONCE(c->writable, true);
	c->progress_ms = sys_now();
	c->syn_count = TCPIP_SYN_DEF;
	c->fin_wait_s = -1;
	tcp_poll(pcb, on_poll, 1);
	tcp_arg(pcb, c);
	tcp_recv(pcb, on_receive);
	tcp_sent(pcb, on_sent);
	tcp_err(pcb, on_error);
	tcp_ext_arg_set_callbacks(pcb, EXT_CONN, &ext_callbacks);
	tcp_ext_arg_set(pcb, EXT_CONN, c);
}

/* From here on lwIP brings the connection to its end alone; @fin_wait_s: how long, at most. */
static void detach_locked(struct tcp_pcb *pcb, int32_t fin_wait_s) __must_hold(&stack_mutex)
{
	assert_mutex_held(&stack_mutex);
	tcp_ext_arg_set(pcb, EXT_CONN, NULL);
	tcp_poll(pcb, fin_wait_s < 0 ? NULL : on_closed_poll, 1);
	tcp_arg(pcb, (void *)(uintptr_t)MAX(fin_wait_s, 0));
	tcp_recv(pcb, NULL);
	tcp_sent(pcb, NULL);
	tcp_err(pcb, NULL);
}

static void data_free_locked(struct tcpip_data *d) __must_hold(&stack_mutex)
{
	assert_mutex_held(&stack_mutex);
	while (d) {
		struct tcpip_data *next = d->next;

		pbuf_free(d->p);
		kfree(d);
		d = next;
	}
}

/* --- connections */

/* -errno of a call of lwIP's. */
static int call_errno(err_t err)
{
	switch (err) {
	case ERR_OK:
		return 0;
	case ERR_USE:
		return -EADDRINUSE;
	case ERR_RTE:
		return -ENETUNREACH;
	case ERR_VAL:
		return -EADDRNOTAVAIL;
	default:
		return -ENOBUFS;
	}
}

static struct tcp_pcb *bound_pcb_locked(const struct tcpip_name *local, int *err)
	__must_hold(&stack_mutex)
{
	struct tcp_pcb *pcb;
	ip_addr_t ip;

	assert_mutex_held(&stack_mutex);
	bound_to_ip(local, &ip);
	*err = -ENOBUFS;
	pcb = tcp_new_ip_type(ip.type);
	if (!pcb)
		return NULL;
	/* Whether a port may be shared is decided above. */
	ip_set_option(pcb, SOF_REUSEADDR);
	*err = call_errno(tcp_bind(pcb, &ip, local->port));
	if (!*err)
		return pcb;
	tcp_abort(pcb);
	return NULL;
}

int tcpip_connect(const struct tcpip_name *local, const struct tcpip_name *remote,
		  const struct tcpip_conn_user *user, void *arg, struct tcpip_conn **out)
{
	struct tcpip_conn *c = kzalloc(sizeof(*c));
	struct tcp_pcb *pcb;
	ip_addr_t ip;
	int err;

	if (!c)
		return -ENOBUFS;
	c->user = user;
	c->arg = arg;
	stack_lock();
	pcb = bound_pcb_locked(local, &err);
	if (!pcb)
		goto out_unlock;
	name_to_ip(remote->addr, &ip);
	attach_locked(c, pcb);
	err = call_errno(tcp_connect(pcb, &ip, remote->port, on_connected));
	if (err) {
		detach_locked(pcb, -1);
		tcp_abort(pcb);
		goto out_unlock;
	}
	/* An answer needs the lock. */
	__atomic_store_n(out, c, __ATOMIC_RELEASE);
	stack_unlock();
	return 0;

out_unlock:
	stack_unlock();
	kfree(c);
	return err;
}

void tcpip_set_user(struct tcpip_conn *c, const struct tcpip_conn_user *user, void *arg)
{
	assert_mutex_held(&stack_mutex);
	c->user = user;
	c->arg = arg;
}

ssize_t tcpip_send(struct tcpip_conn *c, const void *buf, size_t len, bool more)
{
	const uint8_t *at = buf;
	size_t done = 0;
	err_t err = ERR_OK;

	stack_lock();
	if (!c->pcb || (c->pcb->state != ESTABLISHED && c->pcb->state != CLOSE_WAIT)) {
		stack_unlock();
		return -EPIPE;
	}
	if (!is_waiting(c->pcb))
		c->progress_ms = sys_now();
	while (done < len && err == ERR_OK) {
		const size_t n = MIN(MIN(len - done, room_of(c->pcb)), (size_t)32768);

		if (!n || tcp_sndqueuelen(c->pcb) >= TCP_SND_QUEUELEN)
			break;
		err = tcp_write(c->pcb, at + done, (u16_t)n,
				TCP_WRITE_FLAG_COPY |
					(more || n < len - done ? TCP_WRITE_FLAG_MORE : 0));
		if (err == ERR_OK)
			done += n;
	}
	if (!c->corked || room_of(c->pcb) + tcp_mss(c->pcb) <= TCP_SND_BUF)
		(void)tcp_output(c->pcb);
	WRITE_ONCE(c->writable, is_writable(c, c->pcb));
	/* Room comes back with the next confirmation, if one is to come. */
	if (!done && len)
		done = (size_t)(c->pcb->unacked || c->pcb->unsent ? -EAGAIN : -ENOBUFS);
	stack_unlock();
	return (ssize_t)done;
}

int tcpip_end(struct tcpip_conn *c)
{
	int err = -ENOTCONN;

	stack_lock();
	if (c->pcb && c->pcb->state != SYN_SENT) {
		if (!is_waiting(c->pcb))
			c->progress_ms = sys_now();
		err = call_errno(tcp_shutdown(c->pcb, 0, 1));
	}
	stack_unlock();
	return err;
}

void tcpip_close(struct tcpip_conn *c, bool reset)
{
	stack_lock();
	if (c->pcb) {
		struct tcp_pcb *pcb = c->pcb;

		detach_locked(pcb, c->fin_wait_s);
		if (pcb->state == FIN_WAIT_2 && !c->fin_wait_s)
			reset = true;
		/* The times of lwIP's states count from the close, not from the last segment. */
		pcb->tmr = tcp_ticks;
		/* Bytes that were not read: lwIP resets the connection itself. */
		if (reset || tcp_close(pcb) != ERR_OK)
			tcp_abort(pcb);
	}
	data_free_locked(c->first);
	stack_unlock();
	kfree(c);
}

/* lwIP's states as Linux numbers them. */
static uint32_t linux_state(enum tcp_state state)
{
	static const uint8_t numbers[] = {
		[CLOSED] = 7,      [LISTEN] = 10,    [SYN_SENT] = 2,   [SYN_RCVD] = 3,
		[ESTABLISHED] = 1, [FIN_WAIT_1] = 4, [FIN_WAIT_2] = 5, [CLOSE_WAIT] = 8,
		[CLOSING] = 11,    [LAST_ACK] = 9,   [TIME_WAIT] = 6,
	};

	return numbers[state];
}

void tcpip_status(struct tcpip_conn *c, struct tcpip_status *out)
{
	const struct tcp_pcb *pcb;

	memset(out, 0, sizeof(*out));
	stack_lock();
	pcb = c->pcb;
	out->connected = c->connected;
	out->ended = c->ended;
	out->gone = !pcb;
	out->error = c->error;
	out->readable = c->readable;
	out->state = linux_state(pcb ? pcb->state : CLOSED);
	if (pcb) {
		out->room = tcp_sndqueuelen(pcb) < TCP_SND_QUEUELEN ? room_of(pcb) : 0;
		out->unsent = TCP_SND_BUF - MIN(room_of(pcb), (size_t)TCP_SND_BUF);
		out->writable = is_writable(c, pcb);
		out->mss = tcp_mss(pcb);
		out->rtt_us = pcb->sa > 0 ? (uint32_t)(pcb->sa >> 3) * TCP_SLOW_INTERVAL * 1000 : 0;
		out->cwnd = pcb->cwnd;
		out->rcv_wnd = pcb->rcv_wnd;
		out->snd_wnd = pcb->snd_wnd;
		out->retransmits = pcb->nrtx;
	}
	stack_unlock();
}

void tcpip_hints(const struct tcpip_conn *c, struct tcpip_hints *out)
{
	out->gone = !__atomic_load_n(&c->pcb, __ATOMIC_ACQUIRE);
	out->ended = READ_ONCE(c->ended);
	out->readable = __atomic_load_n(&c->readable, __ATOMIC_ACQUIRE);
	out->writable = READ_ONCE(c->writable);
}

/* --- received bytes */

struct tcpip_data *tcpip_take(struct tcpip_conn *c, size_t max)
{
	struct tcpip_data *d, *end;
	size_t n = 0;

	stack_lock();
	d = end = c->first;
	if (d) {
		n = d->p->tot_len - d->off;
		while (n < max && end->next) {
			end = end->next;
			n += end->p->tot_len - end->off;
		}
		c->first = end->next;
		if (!c->first)
			c->last = NULL;
		end->next = NULL;
	}
	stack_unlock();
	return d;
}

const void *tcpip_data_bytes(const struct tcpip_data *d, size_t off, size_t *len)
{
	for (; d; d = d->next) {
		size_t at = d->off + off;

		if (at >= d->p->tot_len) {
			off = at - d->p->tot_len;
			continue;
		}
		for (const struct pbuf *p = d->p; p; p = p->next) {
			if (at < p->len) {
				*len = p->len - at;
				return (const uint8_t *)p->payload + at;
			}
			at -= p->len;
		}
	}
	return NULL;
}

void tcpip_give_back(struct tcpip_conn *c, struct tcpip_data *d, size_t used)
{
	size_t left = used;

	stack_lock();
	ASSERT(used <= c->readable);
	c->readable -= used;
	while (d && left >= d->p->tot_len - d->off) {
		struct tcpip_data *next = d->next;

		left -= d->p->tot_len - d->off;
		d->next = NULL;
		data_free_locked(d);
		d = next;
	}
	if (d) {
		struct tcpip_data *end = d;

		d->off += left;
		while (end->next)
			end = end->next;
		end->next = c->first;
		c->first = d;
		if (!c->last)
			c->last = end;
	}
	for (left = used; c->pcb && left;) {
		const u16_t n = (u16_t)MIN(left, (size_t)UINT16_MAX);

		tcp_recved(c->pcb, n);
		left -= n;
	}
	stack_unlock();
}

void tcpip_set_option(struct tcpip_conn *c, enum tcpip_option option, uint32_t value)
{
	struct tcp_pcb *pcb;

	stack_lock();
	pcb = c->pcb;
	if (pcb) {
		switch (option) {
		case TCPIP_NODELAY:
			if (value)
				tcp_nagle_disable(pcb);
			else
				tcp_nagle_enable(pcb);
			break;
		case TCPIP_CORK:
			c->corked = value;
			break;
		case TCPIP_KEEPALIVE:
			if (value)
				ip_set_option(pcb, SOF_KEEPALIVE);
			else
				ip_reset_option(pcb, SOF_KEEPALIVE);
			break;
		case TCPIP_KEEP_IDLE_S:
			pcb->keep_idle = value * 1000;
			break;
		case TCPIP_KEEP_INTERVAL_S:
			pcb->keep_intvl = value * 1000;
			break;
		case TCPIP_KEEP_COUNT:
			pcb->keep_cnt = value;
			break;
		case TCPIP_TTL:
			pcb->ttl = (u8_t)value;
			break;
		case TCPIP_TOS:
			pcb->tos = (u8_t)value;
			break;
		case TCPIP_USER_TIMEOUT_MS:
			c->user_timeout_ms = value;
			break;
		case TCPIP_SYN_COUNT:
			c->syn_count = MIN(value, TCPIP_SYN_MAX);
			break;
		case TCPIP_FIN_WAIT_S:
			c->fin_wait_s = (int32_t)MIN(value, 20u);
			break;
		case TCPIP_UNSENT_LOW:
			c->unsent_low = value;
			WRITE_ONCE(c->writable, is_writable(c, pcb));
			break;
		case TCPIP_QUICKACK:
			if (value && (pcb->flags & TF_ACK_DELAY))
				tcp_ack_now(pcb);
			break;
		}
		/* Bytes that a cork or Nagle's algorithm held back go now. */
		(void)tcp_output(pcb);
	}
	stack_unlock();
}

/* --- listeners */

static err_t on_accept(void *arg, struct tcp_pcb *pcb, err_t err)
{
	struct tcpip_listener *l = arg;
	struct tcpip_name local, remote;
	struct tcpip_conn *c;

	assert_mutex_held(&stack_mutex);
	if (err != ERR_OK || !pcb || !l)
		return ERR_VAL;
	c = kzalloc(sizeof(*c));
	if (!c)
		return ERR_MEM; /* lwIP aborts it */
	c->connected = true;
	attach_locked(c, pcb);
	local = (struct tcpip_name){ .port = pcb->local_port };
	remote = (struct tcpip_name){ .port = pcb->remote_port };
	ip_to_name(&pcb->local_ip, local.addr);
	ip_to_name(&pcb->remote_ip, remote.addr);
	if (l->accepted(l->arg, c, &local, &remote)) {
		detach_locked(pcb, -1);
		data_free_locked(c->first);
		kfree(c);
		return ERR_MEM;
	}
	/* It keeps its place in lwIP's backlog until a program has it. */
	tcp_backlog_delayed(pcb);
	return ERR_OK;
}

void tcpip_accept(struct tcpip_conn *c)
{
	stack_lock();
	if (c->pcb)
		tcp_backlog_accepted(c->pcb);
	stack_unlock();
}

static uint8_t clamp_backlog(unsigned int backlog)
{
	return (uint8_t)MIN(MAX(backlog, 1u), 255u);
}

void tcpip_set_backlog(struct tcpip_listener *l, unsigned int backlog)
{
	stack_lock();
	tcp_backlog_set(l->pcb, clamp_backlog(backlog));
	stack_unlock();
}

int tcpip_listen(const struct tcpip_name *local, unsigned int backlog, tcpip_accepted_t accepted,
		 void *arg, struct tcpip_listener **out)
{
	struct tcpip_listener *l = kzalloc(sizeof(*l));
	struct tcp_pcb *pcb, *listening;
	err_t lerr = ERR_OK;
	int err;

	if (!l)
		return -ENOBUFS;
	stack_lock();
	pcb = bound_pcb_locked(local, &err);
	if (!pcb)
		goto out_unlock;
	listening = tcp_listen_with_backlog_and_err(pcb, clamp_backlog(backlog), &lerr);
	if (!listening) {
		err = call_errno(lerr);
		tcp_abort(pcb);
		goto out_unlock;
	}
	l->pcb = listening;
	l->accepted = accepted;
	l->arg = arg;
	tcp_arg(listening, l);
	tcp_accept(listening, on_accept);
	stack_unlock();
	*out = l;
	return 0;

out_unlock:
	stack_unlock();
	kfree(l);
	return err;
}

void tcpip_unlisten(struct tcpip_listener *l)
{
	stack_lock();
	tcp_arg(l->pcb, NULL);
	/* A listening pcb is freed at once; this cannot fail. */
	(void)tcp_close(l->pcb);
	stack_unlock();
	kfree(l);
}
