/* SPDX-License-Identifier: MIT */
/*
 * A network card and the outside behind it: see gateway_fake.h.
 *
 * Locking:	stack_mutex stands for the stack's lock: users' functions run with it held.
 */
#include "gateway_fake.h"

#include <kernel/mutex.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "remote_fake.h"

#define ROOM 65536u

struct tcpip_data {
	const uint8_t *bytes;
	size_t len;
};

struct tcpip_conn {
	struct tcpip_conn *next;
	const struct tcpip_conn_user *user; /* NULL: closed by its user */
	void *arg;
	uint16_t port;
	bool ended, gone, end_sent;
	int reset; /* how the user closed it: 0: it has not; 1: in order; 2: by a reset */
	struct tcpip_data taken;
	size_t made; /* bytes of OUT_MANY */
	size_t rx_off, rx_len, tx_len;
	uint8_t rx[ROOM], tx[ROOM];
};

struct tcpip_listener {
	struct tcpip_listener *next;
	struct tcpip_name name;
	tcpip_accepted_t accepted;
	void *arg;
};

struct tcpip_port {
	struct tcpip_port *next;
	struct tcpip_name name;
	tcpip_received_t received;
	void *arg;
};

static struct mutex stack_mutex = MUTEX_INIT(stack_mutex, "fake stack", RANK_NET_STACK);
static struct tcpip_conn *conns;
static struct tcpip_listener *listeners;
static struct tcpip_port *ports;
static bool has_card, has_spare, has_route = true, has_address = true;
static void (*change_fn)(void);

static const uint8_t own[16] = { [10] = 0xff, 0xff, 10, 0, 2, 15 };

uint8_t outside_byte(size_t i)
{
	return (uint8_t)(i * 13 + i / 255);
}

void outside_card(bool there)
{
	mutex_lock(&stack_mutex);
	__atomic_store_n(&has_card, there, __ATOMIC_RELEASE);
	if (change_fn)
		change_fn();
	mutex_unlock(&stack_mutex);
}

void outside_spare_card(void)
{
	has_spare = true;
}

void outside_address(bool there)
{
	mutex_lock(&stack_mutex);
	__atomic_store_n(&has_address, there, __ATOMIC_RELEASE);
	if (change_fn)
		change_fn();
	mutex_unlock(&stack_mutex);
}

void outside_route(bool there)
{
	has_route = there;
}

/* --- cards */

bool tcpip_has_cards(void)
{
	return has_card || has_spare;
}

int tcpip_start(void)
{
	outside_card(has_spare);
	return has_spare ? 0 : -EIO;
}

bool tcpip_is_present(void)
{
	return __atomic_load_n(&has_card, __ATOMIC_ACQUIRE);
}

bool tcpip_is_own(const uint8_t addr[16])
{
	return has_card && !memcmp(addr, own, 16);
}

int tcpip_source_for(const struct tcpip_name *to, uint8_t addr[16])
{
	if (!has_card || !__atomic_load_n(&has_address, __ATOMIC_ACQUIRE) || to->addr[12] == 192)
		return -ENETUNREACH;
	memcpy(addr, own, 16);
	return 0;
}

bool tcpip_interface(unsigned int i, struct tcpip_interface *out)
{
	if (!has_card || i)
		return false;
	*out = (struct tcpip_interface){ .name = "eth0",
					 .index = TCPIP_FIRST_IF_INDEX,
					 .mtu = OUT_MTU,
					 .up = true,
					 .mac = { 2, 0, 0, 0, 0, 1 },
					 .prefix4 = 24,
					 .addr4 = { 10, 0, 2, 15 },
					 .gateway4 = { 10, 0, 2, 2 } };
	if (!__atomic_load_n(&has_address, __ATOMIC_ACQUIRE))
		out->prefix4 = 0;
	if (!has_route)
		memset(out->gateway4, 0, sizeof(out->gateway4));
	return true;
}

void tcpip_on_change(void (*fn)(void))
{
	change_fn = fn;
}

/* --- connections */

static struct tcpip_conn *conn_make(uint16_t port)
{
	struct tcpip_conn *c = kzalloc(sizeof(*c));

	c->port = port;
	c->next = conns;
	conns = c;
	return c;
}

/* The lock is held. Make OUT_MANY's bytes, as far as there is room. */
static void make_bytes(struct tcpip_conn *c)
{
	if (c->port != OUT_MANY || c->ended)
		return;
	while (c->made < OUT_MANY_BYTES && c->rx_off + c->rx_len < ROOM)
		c->rx[c->rx_off + c->rx_len++] = outside_byte(c->made++);
	c->ended = c->made == OUT_MANY_BYTES;
}

static void gone(struct tcpip_conn *c, int err)
{
	c->gone = true;
	if (c->user)
		c->user->gone(c->arg, err);
}

static void answer(void *arg)
{
	struct tcpip_conn *c = arg;

	pause_us(3000);
	mutex_lock(&stack_mutex);
	if (c->user && c->port == OUT_REFUSES) {
		gone(c, -ECONNREFUSED);
	} else if (c->user) {
		make_bytes(c);
		c->user->connected(c->arg);
		c->user->readable(c->arg);
	}
	mutex_unlock(&stack_mutex);
}

static void (*at_once)(void *arg);

void outside_at_once(void (*fn)(void *arg))
{
	at_once = fn;
}

int tcpip_connect(const struct tcpip_name *local, const struct tcpip_name *remote,
		  const struct tcpip_conn_user *user, void *arg, struct tcpip_conn **out)
{
	struct tcpip_conn *c;
	struct thread *t;

	if (!local->port || memcmp(local->addr, own, 16))
		return -EADDRNOTAVAIL;
	if (remote->port == OUT_NO_WAY)
		return -EHOSTUNREACH;
	mutex_lock(&stack_mutex);
	c = conn_make(remote->port);
	c->user = user;
	c->arg = arg;
	*out = c;
	if (at_once)
		user->connected(arg);
	mutex_unlock(&stack_mutex);
	if (at_once)
		at_once(arg);
	at_once = NULL;
	if (remote->port == OUT_SILENT)
		return 0;
	t = thread_create("outside", answer, c);
	if (IS_ERR(t))
		return -ENOBUFS;
	thread_detach(t);
	return 0;
}

void tcpip_set_user(struct tcpip_conn *c, const struct tcpip_conn_user *user, void *arg)
{
	c->user = user;
	c->arg = arg;
}

static size_t room_of(const struct tcpip_conn *c)
{
	return c->port == OUT_ECHO ? ROOM - c->rx_off - c->rx_len : ROOM - c->tx_len;
}

ssize_t tcpip_send(struct tcpip_conn *c, const void *buf, size_t len, bool more)
{
	ssize_t ret;

	mutex_lock(&stack_mutex);
	ret = (ssize_t)MIN(len, room_of(c));
	if (c->gone || c->end_sent) {
		ret = -EPIPE;
	} else if (!ret) {
		ret = -EAGAIN;
	} else if (c->port == OUT_RESETS) {
		gone(c, -ECONNRESET);
	} else if (c->port == OUT_ECHO) {
		memcpy(c->rx + c->rx_off + c->rx_len, buf, (size_t)ret);
		c->rx_len += (size_t)ret;
		c->user->readable(c->arg);
	} else {
		memcpy(c->tx + c->tx_len, buf, (size_t)ret);
		c->tx_len += (size_t)ret;
	}
	mutex_unlock(&stack_mutex);
	return ret;
}

int tcpip_end(struct tcpip_conn *c)
{
	mutex_lock(&stack_mutex);
	c->end_sent = true;
	if (c->port == OUT_ECHO) {
		c->ended = true;
		c->user->readable(c->arg);
	}
	mutex_unlock(&stack_mutex);
	return 0;
}

void tcpip_close(struct tcpip_conn *c, bool reset)
{
	mutex_lock(&stack_mutex);
	c->user = NULL;
	c->reset = reset ? 2 : 1;
	mutex_unlock(&stack_mutex);
}

void tcpip_status(struct tcpip_conn *c, struct tcpip_status *out)
{
	mutex_lock(&stack_mutex);
	*out = (struct tcpip_status){ .gone = c->gone,
				      .room = room_of(c),
				      .mss = c->gone ? 0 : OUT_MSS };
	mutex_unlock(&stack_mutex);
}

void tcpip_hints(const struct tcpip_conn *c, struct tcpip_hints *out)
{
	mutex_lock(&stack_mutex);
	*out = (struct tcpip_hints){ .readable = c->rx_len,
				     .ended = c->ended,
				     .gone = c->gone,
				     .writable = room_of(c) > 0 };
	mutex_unlock(&stack_mutex);
}

struct tcpip_data *tcpip_take(struct tcpip_conn *c, size_t max)
{
	struct tcpip_data *d = NULL;

	mutex_lock(&stack_mutex);
	if (c->rx_len) {
		d = &c->taken;
		*d = (struct tcpip_data){ c->rx + c->rx_off, MIN(c->rx_len, MAX(max, (size_t)1)) };
	}
	mutex_unlock(&stack_mutex);
	return d;
}

const void *tcpip_data_bytes(const struct tcpip_data *d, size_t off, size_t *len)
{
	if (off >= d->len)
		return NULL;
	*len = d->len - off;
	return d->bytes + off;
}

void tcpip_give_back(struct tcpip_conn *c, struct tcpip_data *d, size_t used)
{
	mutex_lock(&stack_mutex);
	c->rx_off += used;
	c->rx_len -= used;
	memmove(c->rx, c->rx + c->rx_off, c->rx_len);
	c->rx_off = 0;
	make_bytes(c);
	if (c->user && (c->rx_len || c->ended))
		c->user->readable(c->arg);
	if (c->user)
		c->user->writable(c->arg);
	mutex_unlock(&stack_mutex);
}

static uint32_t options[TCPIP_QUICKACK + 1]; /* atomic: the newest of any connection */

void tcpip_set_option(struct tcpip_conn *c, enum tcpip_option option, uint32_t value)
{
	__atomic_store_n(&options[option], value, __ATOMIC_RELAXED);
}

uint32_t outside_option(enum tcpip_option option)
{
	return __atomic_load_n(&options[option], __ATOMIC_RELAXED);
}

void tcpip_accept(struct tcpip_conn *c)
{
}

/* --- listeners */

int tcpip_listen(const struct tcpip_name *local, unsigned int backlog, tcpip_accepted_t accepted,
		 void *arg, struct tcpip_listener **out)
{
	struct tcpip_listener *l = kzalloc(sizeof(*l));

	*l = (struct tcpip_listener){ .name = *local, .accepted = accepted, .arg = arg };
	mutex_lock(&stack_mutex);
	l->next = listeners;
	listeners = l;
	mutex_unlock(&stack_mutex);
	*out = l;
	return 0;
}

void tcpip_set_backlog(struct tcpip_listener *l, unsigned int backlog)
{
}

void tcpip_unlisten(struct tcpip_listener *l)
{
	struct tcpip_listener **at = &listeners;

	mutex_lock(&stack_mutex);
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	mutex_unlock(&stack_mutex);
	kfree(l);
}

/* 10.1.1.1, with this port. */
static struct tcpip_name peer_name(uint16_t port)
{
	return (struct tcpip_name){ .addr = { [10] = 0xff, 0xff, 10, 1, 1, 1 }, .port = port };
}

static struct tcpip_name own_name(uint16_t port)
{
	struct tcpip_name name = { .port = port };

	memcpy(name.addr, own, 16);
	return name;
}

struct tcpip_conn *outside_dial(uint16_t port)
{
	const struct tcpip_name to = own_name(port), from = peer_name(4000);
	struct tcpip_conn *c = NULL;
	struct tcpip_listener *l;

	mutex_lock(&stack_mutex);
	for (l = listeners; l && l->name.port != port; l = l->next)
		;
	if (l) {
		c = conn_make(OUT_DIALLED);
		if (l->accepted(l->arg, c, &to, &from))
			c = NULL;
	}
	mutex_unlock(&stack_mutex);
	return c;
}

void outside_says(struct tcpip_conn *c, const void *data, size_t len, bool end)
{
	mutex_lock(&stack_mutex);
	memcpy(c->rx + c->rx_off + c->rx_len, data, len);
	c->rx_len += len;
	c->ended = end;
	if (c->user)
		c->user->readable(c->arg);
	mutex_unlock(&stack_mutex);
}

size_t outside_heard(struct tcpip_conn *c, void *buf, size_t len)
{
	size_t n;

	mutex_lock(&stack_mutex);
	n = MIN(len, c->tx_len);
	memcpy(buf, c->tx, n);
	mutex_unlock(&stack_mutex);
	return n;
}

int outside_closed(struct tcpip_conn *c)
{
	int how;

	mutex_lock(&stack_mutex);
	how = c->reset;
	mutex_unlock(&stack_mutex);
	return how;
}

int outside_last_closed(uint16_t port)
{
	struct tcpip_conn *c;
	int how = -1;

	mutex_lock(&stack_mutex);
	for (c = conns; c && c->port != port; c = c->next)
		;
	if (c)
		how = c->reset;
	mutex_unlock(&stack_mutex);
	return how;
}

/* --- datagrams */

int tcpip_port_open(const struct tcpip_name *local, tcpip_received_t received, void *arg,
		    struct tcpip_port **out)
{
	struct tcpip_port *p = kzalloc(sizeof(*p));

	*p = (struct tcpip_port){ .name = *local, .received = received, .arg = arg };
	mutex_lock(&stack_mutex);
	p->next = ports;
	ports = p;
	mutex_unlock(&stack_mutex);
	*out = p;
	return 0;
}

static void send_to_group_locked(const struct tcpip_packet *packet, size_t len);

static void (*on_error)(const struct tcpip_error *e);

int tcpip_on_error(void (*fn)(const struct tcpip_error *e))
{
	on_error = fn;
	return 0;
}

/* The router says that the port is not there. */
static void refuse_locked(struct tcpip_port *p, const struct tcpip_packet *packet, const void *data,
			  size_t len)
{
	const struct tcpip_error e = {
		.from = own_name(p->name.port),
		.to = packet->to,
		.packet = { .from = peer_name(0),
			    .to = own_name(0),
			    .interface = TCPIP_FIRST_IF_INDEX,
			    .ttl = 63,
			    .tos = 0xc0 },
		.type = 3,
		.code = 3,
		.data = data,
		.len = len,
	};

	assert_mutex_held(&stack_mutex);
	on_error(&e);
}

static struct tcpip_name sent_from;

struct tcpip_name outside_sent_from(void)
{
	struct tcpip_name from;

	mutex_lock(&stack_mutex);
	from = sent_from;
	mutex_unlock(&stack_mutex);
	return from;
}

/* The echo has the TTL and TOS of what it answers. */
int tcpip_port_send(struct tcpip_port *p, const struct tcpip_packet *packet, const void *data,
		    size_t len)
{
	const struct tcpip_packet back = { .from = packet->to,
					   .to = own_name(p->name.port),
					   .interface = TCPIP_FIRST_IF_INDEX,
					   .ttl = packet->ttl,
					   .tos = packet->tos };

	mutex_lock(&stack_mutex);
	sent_from = packet->from;
	if ((packet->to.addr[12] & 0xf0) == 0xe0)
		send_to_group_locked(packet, len);
	else if (packet->to.port == OUT_ECHO)
		p->received(p->arg, &back, data, len);
	else if (packet->to.port == OUT_REFUSES)
		refuse_locked(p, packet, data, len);
	mutex_unlock(&stack_mutex);
	return 0;
}

/* --- groups */

static struct {
	int joined; /* less what was left */
	struct outside_group_sent sent;
} groups;

int tcpip_join(uint32_t interface, const uint8_t addr[16])
{
	if (interface != TCPIP_FIRST_IF_INDEX)
		return -ENODEV;
	mutex_lock(&stack_mutex);
	groups.joined++;
	mutex_unlock(&stack_mutex);
	return 0;
}

void tcpip_leave(uint32_t interface, const uint8_t addr[16])
{
	mutex_lock(&stack_mutex);
	groups.joined--;
	mutex_unlock(&stack_mutex);
}

int outside_joined(void)
{
	int n;

	mutex_lock(&stack_mutex);
	n = groups.joined;
	mutex_unlock(&stack_mutex);
	return n;
}

static void send_to_group_locked(const struct tcpip_packet *packet, size_t len)
{
	assert_mutex_held(&stack_mutex);
	groups.sent.nr++;
	groups.sent.hops = packet->ttl;
	groups.sent.interface = packet->interface;
	groups.sent.port = packet->to.port;
	groups.sent.len = len;
}

struct outside_group_sent outside_group_sent(void)
{
	struct outside_group_sent sent;

	mutex_lock(&stack_mutex);
	sent = groups.sent;
	mutex_unlock(&stack_mutex);
	return sent;
}

void outside_says_to_group(const uint8_t addr[16], uint16_t port, const void *data, size_t len)
{
	struct tcpip_packet packet = { .from = peer_name(4000),
				       .to = { .port = port, .scope_id = TCPIP_FIRST_IF_INDEX },
				       .interface = TCPIP_FIRST_IF_INDEX,
				       .ttl = 1 };

	memcpy(packet.to.addr, addr, sizeof(packet.to.addr));
	mutex_lock(&stack_mutex);
	for (struct tcpip_port *p = ports; p; p = p->next) {
		if (p->name.port == port) {
			p->received(p->arg, &packet, data, len);
			break;
		}
	}
	mutex_unlock(&stack_mutex);
}

void tcpip_port_close(struct tcpip_port *p)
{
	struct tcpip_port **at = &ports;

	mutex_lock(&stack_mutex);
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	mutex_unlock(&stack_mutex);
	kfree(p);
}

/* --- raw packets */

struct tcpip_raw {
	struct tcpip_raw *next;
	tcpip_received_t received;
	void *arg;
	bool six;
	uint8_t protocol;
};

static struct tcpip_raw *raws;
static struct outside_raw_sent raw_sent;

int tcpip_raw_open(bool six, uint8_t protocol, tcpip_received_t received, void *arg,
		   struct tcpip_raw **out)
{
	struct tcpip_raw *r = kzalloc(sizeof(*r));

	mutex_lock(&stack_mutex);
	*r = (struct tcpip_raw){ raws, received, arg, six, protocol };
	raws = r;
	mutex_unlock(&stack_mutex);
	*out = r;
	return 0;
}

int tcpip_raw_send(struct tcpip_raw *r, const struct tcpip_packet *packet, bool has_header,
		   const void *data, size_t len)
{
	mutex_lock(&stack_mutex);
	raw_sent.nr++;
	raw_sent.six = r->six;
	raw_sent.protocol = r->protocol;
	raw_sent.packet = *packet;
	raw_sent.has_header = has_header;
	raw_sent.len = len;
	memcpy(raw_sent.head, data, MIN(len, sizeof(raw_sent.head)));
	mutex_unlock(&stack_mutex);
	return 0;
}

void tcpip_raw_close(struct tcpip_raw *r)
{
	struct tcpip_raw **at = &raws;

	mutex_lock(&stack_mutex);
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	mutex_unlock(&stack_mutex);
	kfree(r);
}

struct outside_raw_sent outside_raw_sent(void)
{
	struct outside_raw_sent sent;

	mutex_lock(&stack_mutex);
	sent = raw_sent;
	mutex_unlock(&stack_mutex);
	return sent;
}

void outside_says_raw(bool six, uint8_t protocol, const struct tcpip_packet *packet,
		      const void *data, size_t len)
{
	mutex_lock(&stack_mutex);
	for (struct tcpip_raw *r = raws; r; r = r->next) {
		if (r->six == six && r->protocol == protocol)
			r->received(r->arg, packet, data, len);
	}
	mutex_unlock(&stack_mutex);
}

unsigned int outside_open_ports(void)
{
	unsigned int n = 0;

	mutex_lock(&stack_mutex);
	for (struct tcpip_port *p = ports; p; p = p->next)
		n++;
	for (struct tcpip_listener *l = listeners; l; l = l->next)
		n++;
	for (struct tcpip_raw *r = raws; r; r = r->next)
		n++;
	mutex_unlock(&stack_mutex);
	return n;
}
