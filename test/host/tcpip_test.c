/* SPDX-License-Identifier: MIT */
/*
 * The TCP/IP stack on a card that is part of the test: it answers DHCP, and brings back frames to
 * its own address, so that the stack talks to itself; it may lose, double and delay frames.
 */
#include <drivers/netdev.h>
#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/thread.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/tcpip.h>
#include <shim/shim.h>

#define NR_WAITING 512u

static const uint8_t own_mac[6] = { 0x52, 0x54, 0, 1, 2, 3 };
static const uint8_t own_ip[4] = { 10, 0, 2, 15 };
static const uint8_t server_ip[4] = { 10, 0, 2, 2 };
static const uint8_t group_ip[4] = { 233, 1, 2, 3 };

/* Frames on their way back, and tokens that the card has done with. */
static struct {
	struct spinlock lock;
	struct net_pool pool;
	struct net_rxbuf *frames[NR_WAITING];
	void *tokens[NR_WAITING];
	unsigned int nr_frames, nr_tokens;
	unsigned int disorder; /* per cent of frames that are lost, doubled or delayed, each */
	bool deaf;             /* all are lost */
	bool slow;             /* they do not arrive until it is no more */
	/* IPv6 that left: whole datagrams, and parts of them. */
	unsigned int six_whole, six_parts;
	struct prng rng;
	struct netdev nd;
} card = { .lock = SPINLOCK_INIT("card", RANK_SPIN_QUEUE) };

static struct net_rxbuf *new_frame(const uint8_t *bytes, size_t len)
{
	struct net_rxbuf *b = net_rxbuf_get(&card.pool);

	if (b) {
		memcpy(b->base, bytes, len);
		b->len = b->frame_len = (uint32_t)len;
	}
	return b;
}

static void push_frame(struct net_rxbuf *b)
{
	if (b && card.nr_frames < NR_WAITING)
		card.frames[card.nr_frames++] = b;
	else
		net_frame_free(b);
}

static uint16_t ip_sum(const uint8_t *p, size_t len)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < len; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* OFFER for DISCOVER, ACK for REQUEST. */
static void answer_dhcp(const uint8_t *f, size_t len)
{
	static const uint8_t options[] = {
		53, 1, 0, 54,  4,   10,  0, 2, 2, 51, 4, 0, 1, 0,
		0,  1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 2, 2, 255,
	};
	uint8_t r[14 + 20 + 8 + 240 + sizeof(options)] = { 0 };
	uint8_t *ip = r + 14, *udp = ip + 20, *b = udp + 8;
	uint16_t sum;

	if (len < 14 + 28 + 243)
		return;
	memcpy(r, own_mac, 6);
	memcpy(r + 6, "\x52\x55\x0a\x00\x02\x02\x08\x00", 8);
	memcpy(ip, (const uint8_t[]){ 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17 }, 10);
	ip[2] = (sizeof(r) - 14) >> 8;
	ip[3] = (sizeof(r) - 14) & 0xff;
	memcpy(ip + 12, server_ip, 4);
	memset(ip + 16, 255, 4);
	sum = ip_sum(ip, 20);
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
	memcpy(udp, (const uint8_t[]){ 0, 67, 0, 68 }, 4);
	udp[4] = (sizeof(r) - 34) >> 8;
	udp[5] = (sizeof(r) - 34) & 0xff;
	memcpy(b, f + 42, 44); /* transaction, hardware address */
	b[0] = 2;
	memcpy(b + 16, own_ip, 4);
	memcpy(b + 236, "\x63\x82\x53\x63", 4);
	memcpy(b + 240, options, sizeof(options));
	b[242] = f[42 + 242] == 1 ? 2 : 5;
	push_frame(new_frame(r, sizeof(r)));
}

static int card_transmit(struct netdev *nd, unsigned int queue, const struct net_tx *tx)
{
	unsigned long flags;
	uint8_t f[2048];
	size_t len = 0;

	(void)nd;
	(void)queue;
	for (unsigned int i = 0; i < tx->nr_segs; i++) {
		memcpy(f + len, tx->segs[i].buf, tx->segs[i].len);
		len += tx->segs[i].len;
	}
	flags = spin_lock_irqsave(&card.lock);
	if (card.nr_tokens == NR_WAITING) {
		spin_unlock_irqrestore(&card.lock, flags);
		return -ENOSPC;
	}
	card.tokens[card.nr_tokens++] = tx->token;
	if (len > 54 && f[12] == 0x86 && f[13] == 0xdd) {
		card.six_whole += f[20] == 17;
		card.six_parts += f[20] == 44;
	}
	if (len > 42 && f[12] == 8 && f[13] == 0 && f[23] == 17 && f[37] == 67) {
		answer_dhcp(f, len);
	} else if (card.deaf || prng_below(&card.rng, 100) < card.disorder) {
		/* It is lost. */
	} else if ((f[12] == 8 && f[13] == 6 && !memcmp(f + 38, own_ip, 4)) ||
		   (f[12] == 8 && f[13] == 0 && !memcmp(f + 30, own_ip, 4)) ||
		   (f[12] == 8 && f[13] == 0 && !memcmp(f + 30, group_ip, 4))) {
		push_frame(new_frame(f, len));
		if (prng_below(&card.rng, 100) < card.disorder)
			push_frame(new_frame(f, len));
		if (card.nr_frames > 1 && prng_below(&card.rng, 100) < card.disorder) {
			struct net_rxbuf *b = card.frames[card.nr_frames - 1];

			card.frames[card.nr_frames - 1] = card.frames[card.nr_frames - 2];
			card.frames[card.nr_frames - 2] = b;
		}
	}
	spin_unlock_irqrestore(&card.lock, flags);
	return 0;
}

/* Like a card that interrupts for received frames only: what is sent waits for the next poll. */
static void card_kick(struct netdev *nd, unsigned int queue)
{
	if (__atomic_load_n(&card.nr_frames, __ATOMIC_ACQUIRE))
		nd->user->wake(nd, queue);
}

static unsigned int card_poll(struct netdev *nd, unsigned int queue, unsigned int budget)
{
	struct net_rxbuf *frames[NR_WAITING];
	void *tokens[NR_WAITING];
	unsigned int nr, nr_tokens;
	unsigned long flags;

	(void)queue;
	(void)budget;
	flags = spin_lock_irqsave(&card.lock);
	nr = card.slow ? 0 : card.nr_frames;
	nr_tokens = card.nr_tokens;
	memcpy(frames, card.frames, sizeof(frames));
	memcpy(tokens, card.tokens, sizeof(tokens));
	card.nr_frames -= nr;
	card.nr_tokens = 0;
	spin_unlock_irqrestore(&card.lock, flags);
	for (unsigned int i = 0; i < nr_tokens; i++)
		nd->user->sent(nd, tokens[i], 0);
	for (unsigned int i = 0; i < nr; i++)
		nd->user->received(nd, frames[i]);
	return nr;
}

static bool card_arm(struct netdev *nd, unsigned int queue)
{
	(void)nd;
	(void)queue;
	return !card.slow && __atomic_load_n(&card.nr_frames, __ATOMIC_ACQUIRE);
}

static int card_open(struct netdev *nd)
{
	nd->link_up = true;
	return 0;
}

static void card_close(struct netdev *nd)
{
	nd->link_up = false;
}

static void card_stats(struct netdev *nd, struct netdev_stats *out)
{
	(void)nd;
	(void)out;
}

static const struct netdev_ops card_ops = {
	.open = card_open,
	.close = card_close,
	.transmit = card_transmit,
	.kick = card_kick,
	.poll = card_poll,
	.arm = card_arm,
	.stats = card_stats,
};

/* --- users */

struct end {
	struct tcpip_conn *c;
	unsigned int connected, gone;
	int error;
};

static void on_connected(void *arg)
{
	__atomic_fetch_add(&((struct end *)arg)->connected, 1, __ATOMIC_RELEASE);
}

static void on_event(void *arg)
{
	(void)arg;
}

static void on_gone(void *arg, int err)
{
	struct end *e = arg;

	e->error = err;
	__atomic_fetch_add(&e->gone, 1, __ATOMIC_RELEASE);
}

static const struct tcpip_conn_user end_user = {
	.connected = on_connected,
	.readable = on_event,
	.writable = on_event,
	.gone = on_gone,
};

static int on_accepted(void *arg, struct tcpip_conn *c, const struct tcpip_name *local,
		       const struct tcpip_name *remote)
{
	struct end *e = arg;

	if (local->port != 80 || remote->port < 1000 || e->c)
		return -ECONNREFUSED;
	tcpip_set_user(c, &end_user, e);
	__atomic_store_n(&e->c, c, __ATOMIC_RELEASE);
	return 0;
}

static struct tcpip_name name_of(const uint8_t ip[4], uint16_t port)
{
	struct tcpip_name n = { .addr = { [10] = 0xff, [11] = 0xff }, .port = port };

	memcpy(n.addr + 12, ip, 4);
	return n;
}

/* Wait for @cond; the clock runs ahead, for the stack's timers. */
#define WAIT_FOR(t, cond)                                           \
	do {                                                        \
		unsigned int tries_ = 0;                            \
		while (!(cond) && tries_++ < 20000) {               \
			if (tries_ % 10 == 0)                       \
				shim_time_advance_ns(20 * 1000000); \
			thread_sleep_ns(20000);                     \
		}                                                   \
		ASSERT_TRUE(t, cond);                               \
	} while (0)

static bool has_address(void)
{
	struct tcpip_interface i;

	return tcpip_interface(0, &i) && i.prefix4 == 24;
}

static bool is_gone(struct tcpip_conn *c)
{
	struct tcpip_status s;

	tcpip_status(c, &s);
	return s.gone;
}

static bool has_ended(struct tcpip_conn *c)
{
	struct tcpip_status s;

	tcpip_status(c, &s);
	return s.ended;
}

static void start(struct ktest *t)
{
	static bool started;

	if (!started) {
		started = true;
		ASSERT_EQ(t, net_pool_init(&card.pool, 1024), 0);
		card.nd = (struct netdev){ .ops = &card_ops, .mtu = 1500, .nr_queues = 1 };
		memcpy(card.nd.addr, own_mac, 6);
		ASSERT_EQ(t, netdev_register(&card.nd), 0);
		ASSERT_EQ(t, shim_initcalls_run(), 0);
		EXPECT_TRUE(t, tcpip_has_cards() && !tcpip_is_present());
		/* Nothing is begun without the thread: another node may be the gateway. */
		shim_no_threads = true;
		EXPECT_EQ(t, tcpip_start(), -ENOMEM);
		shim_no_threads = false;
		EXPECT_FALSE(t, tcpip_is_present() || card.nd.user || card.nd.link_up);
		ASSERT_EQ(t, tcpip_start(), 0);
		EXPECT_TRUE(t, tcpip_is_present());
	}
	prng_seed(&card.rng, 14);
	card.disorder = 0;
	card.deaf = card.slow = false;
	WAIT_FOR(t, has_address());
}

/* A connection of the stack to itself: @a has asked, @b was accepted. */
static bool connect_pair(struct ktest *t, struct tcpip_listener **l, struct end *a, struct end *b)
{
	static uint16_t port = 40000;
	const struct tcpip_name any = { .port = 80 }, to = name_of(own_ip, 80);
	const struct tcpip_name from = { .addr = { 0 }, .port = port++ };
	unsigned int tries = 0;

	EXPECT_EQ(t, tcpip_listen(&any, 8, on_accepted, b, l), 0);
	EXPECT_EQ(t, tcpip_connect(&from, &to, &end_user, a, &a->c), 0);
	while (!(__atomic_load_n(&a->connected, __ATOMIC_ACQUIRE) &&
		 __atomic_load_n(&b->c, __ATOMIC_ACQUIRE)) &&
	       tries++ < 20000) {
		if (tries % 10 == 0)
			shim_time_advance_ns(20 * 1000000);
		thread_sleep_ns(20000);
	}
	EXPECT_TRUE(t, a->connected && b->c);
	return a->connected && b->c;
}

static void an_address_by_dhcp(struct ktest *t)
{
	const struct tcpip_name out = name_of((const uint8_t[]){ 192, 0, 2, 1 }, 1);
	struct tcpip_name own = name_of(own_ip, 0);
	struct tcpip_interface i;
	uint8_t from[16];

	start(t);
	ASSERT_TRUE(t, tcpip_interface(0, &i));
	EXPECT_STREQ(t, i.name, "eth0");
	EXPECT_EQ(t, i.index, 2u);
	EXPECT_TRUE(t, i.up);
	EXPECT_EQ(t, i.mtu, 1500u);
	EXPECT_TRUE(t, !memcmp(i.addr4, own_ip, 4) && !memcmp(i.gateway4, server_ip, 4));
	EXPECT_FALSE(t, tcpip_interface(1, &i));
	EXPECT_TRUE(t, tcpip_is_own(own.addr));
	EXPECT_FALSE(t, tcpip_is_own(out.addr));
	EXPECT_EQ(t, tcpip_source_for(&out, from), 0);
	EXPECT_TRUE(t, !memcmp(from, own.addr, 16));
}

/* Both ways at once, the receiver in pieces of odd sizes; every byte is checked. */
static void transfer(struct ktest *t, size_t total)
{
	struct end a = { 0 }, b = { 0 };
	struct tcpip_listener *l;
	size_t sent = 0, got = 0;
	unsigned int idle = 0;
	uint8_t out[3000];

	ASSERT_TRUE(t, connect_pair(t, &l, &a, &b));
	for (unsigned int i = TCPIP_NODELAY; i <= TCPIP_TOS; i++)
		tcpip_set_option(a.c, (enum tcpip_option)i, i == TCPIP_CORK ? 0 : 64);
	while (got < total && idle < 20000) {
		const size_t want = MIN(total - sent, sizeof(out));
		struct tcpip_data *d;
		size_t used = 0, len;
		const uint8_t *p;
		ssize_t n = 0;

		for (size_t i = 0; i < want; i++)
			out[i] = (uint8_t)((sent + i) * 7 + ((sent + i) >> 8));
		if (want)
			n = tcpip_send(a.c, out, want, false);
		ASSERT_TRUE(t, n >= 0 || n == -EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		d = tcpip_take(b.c, 5000);
		while (d && used < 5000 && (p = tcpip_data_bytes(d, used, &len)) != NULL) {
			len = MIN(len, 5000 - used);
			for (size_t i = 0; i < len; i++) {
				ASSERT_EQ(t, p[i], (uint8_t)((got + i) * 7 + ((got + i) >> 8)));
			}
			got += len;
			used += len;
		}
		if (d)
			tcpip_give_back(b.c, d, used);
		if (!used && n <= 0) {
			if (++idle % 10 == 0)
				shim_time_advance_ns(20 * 1000000);
			thread_sleep_ns(20000);
		} else {
			idle = 0;
		}
	}
	EXPECT_EQ(t, got, total);
	EXPECT_EQ(t, tcpip_end(a.c), 0);
	WAIT_FOR(t, has_ended(b.c));
	EXPECT_FALSE(t, has_ended(a.c)); /* half closed */
	EXPECT_EQ(t, tcpip_send(a.c, out, 1, false), -EPIPE);
	EXPECT_EQ(t, tcpip_send(b.c, out, 1, false), 1);
	EXPECT_EQ(t, tcpip_end(b.c), 0);
	WAIT_FOR(t, has_ended(a.c));
	EXPECT_EQ(t, a.error, 0);
	tcpip_close(a.c, false);
	tcpip_close(b.c, false);
	tcpip_unlisten(l);
}

static void bytes_arrive(struct ktest *t)
{
	start(t);
	transfer(t, 3000000);
}

static void bytes_arrive_over_a_bad_wire(struct ktest *t)
{
	start(t);
	card.disorder = 3;
	transfer(t, 400000);
}

static void closing_with_unread_bytes_resets(struct ktest *t)
{
	struct end a = { 0 }, b = { 0 };
	struct tcpip_listener *l;
	struct tcpip_status s;

	start(t);
	ASSERT_TRUE(t, connect_pair(t, &l, &a, &b));
	tcpip_status(a.c, &s);
	EXPECT_TRUE(t, s.connected && s.writable && !s.gone && !s.ended);
	EXPECT_EQ(t, s.room, 512u * 1024);
	EXPECT_EQ(t, s.unsent, 0u);
	EXPECT_EQ(t, tcpip_send(a.c, "hello", 5, false), 5);
	do {
		thread_sleep_ns(20000);
		tcpip_status(b.c, &s);
	} while (s.readable < 5);
	EXPECT_EQ(t, s.state, 1u);
	tcpip_close(b.c, false);
	WAIT_FOR(t, is_gone(a.c));
	EXPECT_EQ(t, a.gone, 1u);
	EXPECT_EQ(t, a.error, -ECONNRESET);
	EXPECT_EQ(t, tcpip_send(a.c, "x", 1, false), -EPIPE);
	tcpip_close(a.c, false);
	tcpip_unlisten(l);
}

struct queue {
	struct tcpip_conn *c[4];
	unsigned int nr;
};

static int on_queued(void *arg, struct tcpip_conn *c, const struct tcpip_name *local,
		     const struct tcpip_name *remote)
{
	static struct end ends[4];
	struct queue *q = arg;

	(void)local;
	(void)remote;
	if (q->nr == ARRAY_SIZE(q->c))
		return -ECONNREFUSED;
	tcpip_set_user(c, &end_user, &ends[q->nr]);
	q->c[q->nr] = c;
	__atomic_store_n(&q->nr, q->nr + 1, __ATOMIC_RELEASE);
	return 0;
}

/* A SYN for which there is no place is lost, and its repetition finds one. */
static void a_backlog_is_of_what_is_not_accepted(struct ktest *t)
{
	const struct tcpip_name any = { .port = 82 }, to = name_of(own_ip, 82);
	struct end ends[3] = { 0 };
	struct queue q = { 0 };
	struct tcpip_listener *l;

	start(t);
	ASSERT_EQ(t, tcpip_listen(&any, 2, on_queued, &q, &l), 0);
	for (unsigned int i = 0; i < 3; i++) {
		const struct tcpip_name from = { .port = (uint16_t)(39100 + i) };

		EXPECT_EQ(t, tcpip_connect(&from, &to, &end_user, &ends[i], &ends[i].c), 0);
	}
	WAIT_FOR(t, __atomic_load_n(&q.nr, __ATOMIC_ACQUIRE) == 2);
	for (unsigned int i = 0; i < 100; i++) {
		shim_time_advance_ns(50 * 1000000);
		thread_sleep_ns(20000);
	}
	EXPECT_EQ(t, q.nr, 2u);
	EXPECT_EQ(t, ends[2].connected + ends[2].gone, 0u);
	tcpip_accept(q.c[0]);
	WAIT_FOR(t, __atomic_load_n(&q.nr, __ATOMIC_ACQUIRE) == 3);
	WAIT_FOR(t, __atomic_load_n(&ends[2].connected, __ATOMIC_ACQUIRE));
	tcpip_set_backlog(l, 1);
	tcpip_unlisten(l);
	tcpip_accept(q.c[1]); /* its listener is gone */
	for (unsigned int i = 0; i < 3; i++) {
		tcpip_close(q.c[i], true);
		WAIT_FOR(t, __atomic_load_n(&ends[i].gone, __ATOMIC_ACQUIRE));
		EXPECT_EQ(t, ends[i].error, -ECONNRESET);
		tcpip_close(ends[i].c, false);
	}
}

static void nobody_listens(struct ktest *t)
{
	const struct tcpip_name to = name_of(own_ip, 81), from = { .port = 39000 };
	struct end a = { 0 };

	start(t);
	EXPECT_EQ(t, tcpip_connect(&from, &to, &end_user, &a, &a.c), 0);
	WAIT_FOR(t, __atomic_load_n(&a.gone, __ATOMIC_ACQUIRE));
	EXPECT_EQ(t, a.error, -ECONNREFUSED);
	EXPECT_EQ(t, a.connected, 0u);
	tcpip_close(a.c, false);
}

static void nobody_answers(struct ktest *t)
{
	const struct tcpip_name to = name_of(own_ip, 80), from = { .port = 39001 };
	struct end a = { 0 };

	start(t);
	card.deaf = true;
	EXPECT_EQ(t, tcpip_connect(&from, &to, &end_user, &a, &a.c), 0);
	for (int i = 0; i < 2000 && !__atomic_load_n(&a.gone, __ATOMIC_ACQUIRE); i++) {
		shim_time_advance_ns(250 * 1000000);
		thread_sleep_ns(200000);
	}
	EXPECT_EQ(t, a.gone, 1u);
	EXPECT_EQ(t, a.error, -ETIMEDOUT);
	tcpip_close(a.c, false);
}

/* How long @a is not gone, at most @most_ms, while no frame arrives. */
static unsigned int time_to_end(struct end *a, unsigned int most_ms)
{
	unsigned int ms = 0;

	while (ms < most_ms && !__atomic_load_n(&a->gone, __ATOMIC_ACQUIRE)) {
		shim_time_advance_ns(100 * 1000000);
		thread_sleep_ns(200000);
		ms += 100;
	}
	return ms;
}

/* SYNs are repeated as often as the user says. */
static void a_syn_is_repeated_as_told(struct ktest *t)
{
	const struct tcpip_name to = name_of(own_ip, 80);
	unsigned int last = 0;

	start(t);
	card.deaf = true;
	for (uint16_t i = 1; i <= 3; i++) {
		const struct tcpip_name from = { .port = (uint16_t)(39200 + i) };
		struct end a = { 0 };
		unsigned int ms;

		EXPECT_EQ(t, tcpip_connect(&from, &to, &end_user, &a, &a.c), 0);
		tcpip_set_option(a.c, TCPIP_SYN_COUNT, i);
		ms = time_to_end(&a, 120000);
		EXPECT_EQ(t, a.error, -ETIMEDOUT);
		EXPECT_GT(t, ms, last + 1000);
		last = ms;
		tcpip_close(a.c, false);
	}
}

/* A peer that confirms nothing is given up when the user's time is over, and not before. */
static void a_silent_peer_is_given_up(struct ktest *t)
{
	struct end a = { 0 }, b = { 0 };
	struct tcpip_listener *l;
	unsigned int ms;

	start(t);
	ASSERT_TRUE(t, connect_pair(t, &l, &a, &b));
	tcpip_set_option(a.c, TCPIP_USER_TIMEOUT_MS, 5000);
	/* There is nothing to confirm. */
	card.deaf = true;
	EXPECT_EQ(t, time_to_end(&a, 20000), 20000u);
	EXPECT_EQ(t, tcpip_send(a.c, "hello", 5, false), 5);
	ms = time_to_end(&a, 60000);
	EXPECT_EQ(t, a.error, -ETIMEDOUT);
	EXPECT_GE(t, ms, 4500u);
	EXPECT_LE(t, ms, 8000u);
	tcpip_close(a.c, false);
	tcpip_close(b.c, true);
	tcpip_unlisten(l);
}

/* One that answers late is not, as long as nothing has to be repeated. */
static void a_slow_peer_is_waited_for(struct ktest *t)
{
	struct end a = { 0 }, b = { 0 };
	struct tcpip_listener *l;
	struct tcpip_status s;

	start(t);
	ASSERT_TRUE(t, connect_pair(t, &l, &a, &b));
	tcpip_set_option(a.c, TCPIP_USER_TIMEOUT_MS, 100);
	__atomic_store_n(&card.slow, true, __ATOMIC_RELEASE);
	EXPECT_EQ(t, tcpip_send(a.c, "hello", 5, false), 5);
	EXPECT_EQ(t, time_to_end(&a, 1200), 1200u);
	tcpip_status(a.c, &s);
	EXPECT_EQ(t, s.retransmits, 0u);
	__atomic_store_n(&card.slow, false, __ATOMIC_RELEASE);
	card.nd.user->wake(&card.nd, 0);
	do {
		thread_sleep_ns(20000);
		tcpip_status(a.c, &s);
	} while (s.unsent);
	EXPECT_EQ(t, a.gone, 0u);
	tcpip_close(a.c, true);
	tcpip_close(b.c, true);
	tcpip_unlisten(l);
}

/* Closed by its user, the peer still open: how long it stays, of an idle connection. */
static void a_closed_one_waits_as_told(struct ktest *t)
{
	const struct tcpip_name to = name_of(own_ip, 80);

	start(t);
	for (uint16_t seconds = 0; seconds <= 5; seconds += 5) {
		const struct tcpip_name from = { .port = (uint16_t)(39300 + seconds) };
		struct end a = { 0 }, b = { 0 }, again = { 0 };
		const struct tcpip_name any = { .port = 80 };
		struct tcpip_listener *l;

		ASSERT_EQ(t, tcpip_listen(&any, 8, on_accepted, &b, &l), 0);
		ASSERT_EQ(t, tcpip_connect(&from, &to, &end_user, &a, &a.c), 0);
		WAIT_FOR(t, __atomic_load_n(&b.c, __ATOMIC_ACQUIRE));
		tcpip_set_option(a.c, TCPIP_FIN_WAIT_S, seconds);
		EXPECT_EQ(t, time_to_end(&a, 40000), 40000u);
		tcpip_close(a.c, false);
		WAIT_FOR(t, has_ended(b.c));
		if (!seconds) {
			WAIT_FOR(t, is_gone(b.c));
			EXPECT_EQ(t, b.error, -ECONNRESET);
		} else {
			EXPECT_EQ(t, time_to_end(&b, 2000), 2000u);
			/* Its names are in use as long as it is there. */
			EXPECT_EQ(t, tcpip_connect(&from, &to, &end_user, &again, &again.c),
				  -EADDRINUSE);
			EXPECT_EQ(t, time_to_end(&b, 6000), 6000u);
			ASSERT_EQ(t, tcpip_connect(&from, &to, &end_user, &again, &again.c), 0);
			tcpip_close(again.c, true);
		}
		tcpip_close(b.c, true);
		tcpip_unlisten(l);
	}
}

/* With a bound of unsent bytes a connection is not writable while more wait. */
static void unsent_bytes_are_bounded(struct ktest *t)
{
	static uint8_t bytes[200000];
	struct end a = { 0 }, b = { 0 };
	struct tcpip_listener *l;
	struct tcpip_status s;

	start(t);
	ASSERT_TRUE(t, connect_pair(t, &l, &a, &b));
	card.deaf = true; /* so that the window stays as small as it is at first */
	EXPECT_GT(t, tcpip_send(a.c, bytes, 100000, false), 50000);
	tcpip_status(a.c, &s);
	EXPECT_TRUE(t, s.writable);
	tcpip_set_option(a.c, TCPIP_UNSENT_LOW, 1000);
	tcpip_status(a.c, &s);
	EXPECT_FALSE(t, s.writable);
	tcpip_set_option(a.c, TCPIP_UNSENT_LOW, 0);
	tcpip_status(a.c, &s);
	EXPECT_TRUE(t, s.writable);
	tcpip_close(a.c, true);
	tcpip_close(b.c, true);
	tcpip_unlisten(l);
}

struct box {
	unsigned int nr;
	size_t len;
	uint8_t bytes[4000];
	struct tcpip_packet packet;
};

static void on_datagram(void *arg, const struct tcpip_packet *packet, const void *data, size_t len)
{
	struct box *box = arg;

	if (packet->to.port == 53 && len <= sizeof(box->bytes)) {
		memcpy(box->bytes, data, len);
		box->len = len;
		box->packet = *packet;
	}
	__atomic_fetch_add(&box->nr, 1, __ATOMIC_RELEASE);
}

static int send_datagram(struct tcpip_port *p, const struct tcpip_name *to, const void *data,
			 size_t len)
{
	const struct tcpip_packet packet = { .to = *to, .ttl = 64 };

	return tcpip_port_send(p, &packet, data, len);
}

static int send_group(struct tcpip_port *p, const struct tcpip_name *to, uint32_t interface,
		      const void *data, size_t len)
{
	const struct tcpip_packet packet = { .to = *to, .interface = interface, .ttl = 1 };

	return tcpip_port_send(p, &packet, data, len);
}

static void datagrams_arrive(struct ktest *t)
{
	const struct tcpip_name any = { .port = 53 }, other = { .port = 5353 };
	const struct tcpip_name to = name_of(own_ip, 53);
	static struct box box, none;
	struct tcpip_port *a, *b;
	static uint8_t big[65508];

	start(t);
	ASSERT_EQ(t, tcpip_port_open(&any, on_datagram, &box, &a), 0);
	ASSERT_EQ(t, tcpip_port_open(&other, on_datagram, &none, &b), 0);
	EXPECT_EQ(t, send_datagram(b, &to, "ask", 3), 0);
	WAIT_FOR(t, __atomic_load_n(&box.nr, __ATOMIC_ACQUIRE) == 1);
	EXPECT_EQ(t, box.len, 3u);
	EXPECT_TRUE(t, !memcmp(box.bytes, "ask", 3));
	EXPECT_EQ(t, box.packet.from.port, 5353);
	EXPECT_TRUE(t, !memcmp(box.packet.from.addr, to.addr, 16));
	/* In fragments. */
	memset(big, 'x', sizeof(big));
	EXPECT_EQ(t, send_datagram(b, &to, big, 4000), 0);
	WAIT_FOR(t, __atomic_load_n(&box.nr, __ATOMIC_ACQUIRE) == 2);
	EXPECT_EQ(t, box.len, 4000u);
	EXPECT_TRUE(t, !memcmp(box.bytes, big, 4000));
	EXPECT_EQ(t, send_datagram(b, &to, big, 65508), -EMSGSIZE);
	EXPECT_EQ(t, none.nr, 0u);
	tcpip_port_close(a);
	tcpip_port_close(b);
}

/* The packet of a datagram is as its sender wishes, and its receiver is told. */
static void datagrams_have_packets(struct ktest *t)
{
	const struct tcpip_name any = { .port = 53 }, own = name_of(own_ip, 53);
	struct tcpip_packet packet = { .to = own, .ttl = 7, .tos = 0x2e };
	static struct box box;
	struct tcpip_port *p;

	start(t);
	ASSERT_EQ(t, tcpip_port_open(&any, on_datagram, &box, &p), 0);
	EXPECT_EQ(t, tcpip_port_send(p, &packet, "a", 1), 0);
	WAIT_FOR(t, __atomic_load_n(&box.nr, __ATOMIC_ACQUIRE) == 1);
	EXPECT_EQ(t, box.packet.ttl, 7);
	EXPECT_EQ(t, box.packet.tos, 0x2e);
	EXPECT_EQ(t, box.packet.interface, 2u);
	EXPECT_TRUE(t, !memcmp(box.packet.from.addr, own.addr, 16));
	/* By a card and from an address that are named, and that are ours or not. */
	packet.from = own;
	packet.interface = 2;
	packet.ttl = 255;
	packet.tos = 0;
	EXPECT_EQ(t, tcpip_port_send(p, &packet, "bc", 2), 0);
	WAIT_FOR(t, __atomic_load_n(&box.nr, __ATOMIC_ACQUIRE) == 2);
	EXPECT_EQ(t, box.packet.ttl, 255);
	EXPECT_EQ(t, box.packet.tos, 0);
	packet.interface = 9;
	EXPECT_EQ(t, tcpip_port_send(p, &packet, "d", 1), -ENETUNREACH);
	packet.interface = 0;
	packet.from.addr[15]++;
	EXPECT_EQ(t, tcpip_port_send(p, &packet, "d", 1), -ENETUNREACH);
	packet.from = (struct tcpip_name){ .addr = { 0xfe, 0x80, [15] = 1 } };
	EXPECT_EQ(t, tcpip_port_send(p, &packet, "d", 1), -ENETUNREACH);
	tcpip_port_close(p);
}

static struct {
	unsigned int nr;
	struct tcpip_error error;
} heard;

static void on_error(const struct tcpip_error *e)
{
	heard.error = *e;
	__atomic_fetch_add(&heard.nr, 1, __ATOMIC_RELEASE);
}

/* The stack says that a port is not there, and hears it itself. */
static void errors_of_datagrams_are_told(struct ktest *t)
{
	const struct tcpip_name any = { .port = 5353 }, to = name_of(own_ip, 99);
	static struct box box;
	struct tcpip_port *p;

	start(t);
	ASSERT_EQ(t, tcpip_on_error(on_error), 0);
	ASSERT_EQ(t, tcpip_port_open(&any, on_datagram, &box, &p), 0);
	EXPECT_EQ(t, send_datagram(p, &to, "lost", 4), 0);
	WAIT_FOR(t, __atomic_load_n(&heard.nr, __ATOMIC_ACQUIRE) == 1);
	EXPECT_EQ(t, heard.error.type, 3);
	EXPECT_EQ(t, heard.error.code, 3);
	EXPECT_EQ(t, heard.error.from.port, 5353);
	EXPECT_EQ(t, heard.error.to.port, 99);
	EXPECT_TRUE(t, !memcmp(heard.error.to.addr, to.addr, 16));
	EXPECT_TRUE(t, !memcmp(heard.error.from.addr, to.addr, 16));
	EXPECT_TRUE(t, !memcmp(heard.error.packet.from.addr, to.addr, 16));
	EXPECT_EQ(t, heard.error.packet.ttl, 64);
	EXPECT_EQ(t, box.nr, 0u);
	tcpip_port_close(p);
}

/* Datagrams to a group come in where it was joined, with the card that they came by. */
static void groups_are_joined(struct ktest *t)
{
	const struct tcpip_name any = { .port = 53 };
	const struct tcpip_name to = name_of(group_ip, 53), own = name_of(own_ip, 53);
	static struct box box;
	struct tcpip_port *p;

	start(t);
	ASSERT_EQ(t, tcpip_port_open(&any, on_datagram, &box, &p), 0);
	/* Frames stay in order: the one before this one has been refused. */
	EXPECT_EQ(t, send_group(p, &to, 2, "no member", 9), 0);
	EXPECT_EQ(t, send_datagram(p, &own, "own", 3), 0);
	WAIT_FOR(t, __atomic_load_n(&box.nr, __ATOMIC_ACQUIRE) == 1);
	EXPECT_EQ(t, box.len, 3u);
	EXPECT_EQ(t, tcpip_join(9, to.addr), -ENODEV);
	EXPECT_EQ(t, tcpip_join(2, to.addr), 0);
	EXPECT_EQ(t, send_group(p, &to, 9, "no card", 7), -ENETUNREACH);
	EXPECT_EQ(t, send_group(p, &to, 2, "hello", 5), 0);
	WAIT_FOR(t, __atomic_load_n(&box.nr, __ATOMIC_ACQUIRE) == 2);
	EXPECT_EQ(t, box.len, 5u);
	EXPECT_EQ(t, box.packet.to.scope_id, 2u);
	EXPECT_TRUE(t, !memcmp(box.packet.to.addr, to.addr, 16));
	EXPECT_TRUE(t, !memcmp(box.packet.from.addr, own.addr, 16));
	tcpip_leave(2, to.addr);
	EXPECT_EQ(t, send_group(p, &to, 2, "no member", 9), 0);
	EXPECT_EQ(t, send_datagram(p, &own, "last", 4), 0);
	WAIT_FOR(t, __atomic_load_n(&box.nr, __ATOMIC_ACQUIRE) == 3);
	EXPECT_EQ(t, box.len, 4u);
	tcpip_port_close(p);
}

/* --- a router that never answers ------------------------------------------------------ */

#define UNANSWERED 40u

static uint64_t stack_memory(void)
{
	uint64_t bytes = 0;

	(void)counter_find("tcpip.memory", &bytes);
	return bytes;
}

/* A frame with a message of ICMPv6, whose sum is made here, comes; @len is even. */
static void push_icmp6(uint8_t *f, size_t len)
{
	uint32_t sum = (uint32_t)(len - 54 + 58);
	unsigned long flags;

	memcpy(f + 6, "\x02\0\0\0\0\x09\x86\xdd\x60", 9);
	f[18] = (uint8_t)((len - 54) >> 8);
	f[19] = (uint8_t)(len - 54);
	f[20] = 58;
	f[21] = 255;
	for (size_t i = 22; i < len; i += 2)
		sum += (uint32_t)(f[i] << 8 | f[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	f[56] = (uint8_t)(~sum >> 8);
	f[57] = (uint8_t)~sum;
	flags = spin_lock_irqsave(&card.lock);
	push_frame(new_frame(f, len));
	spin_unlock_irqrestore(&card.lock, flags);
	card.nd.user->wake(&card.nd, 0);
}

/* Router @n says that it is one for @seconds, and its hardware address only with @has_mac. */
static void announce_router_for(uint8_t n, uint16_t seconds, bool has_mac)
{
	static const uint8_t all_nodes[16] = { 0xff, 2, [15] = 1 };
	uint8_t f[14 + 40 + 16 + 8] = { 0x33, 0x33, [5] = 1 };

	memcpy(f + 22, "\xfe\x80", 2); /* from fe80::n */
	f[37] = n;
	memcpy(f + 38, all_nodes, 16);
	f[54] = 134; /* an advertisement */
	f[60] = (uint8_t)(seconds >> 8);
	f[61] = (uint8_t)seconds;
	memcpy(f + 70, "\x01\x01\x02\0\0\0\0\x09", 8);
	push_icmp6(f, has_mac ? sizeof(f) : sizeof(f) - 8);
}

static void announce_router(uint8_t n, bool has_mac)
{
	announce_router_for(n, 1800, has_mac);
}

/*
 * Packets to a router whose hardware address nobody tells wait for it: a few, and not for as long
 * as the router says that it lives.
 */
static void a_router_that_never_answers_keeps_nothing(struct ktest *t)
{
	const struct tcpip_name any = { .port = 54 };
	const struct tcpip_name to = { .addr = { 0x20, 1, 0x0d, 0xb8, [15] = 9 }, .port = 9 };
	static struct box box;
	static uint8_t bytes[1000];
	uint64_t before, most = 0;
	struct tcpip_port *p;

	start(t);
	ASSERT_EQ(t, tcpip_port_open(&any, on_datagram, &box, &p), 0);
	EXPECT_EQ(t, send_datagram(p, &to, bytes, sizeof(bytes)), -ENETUNREACH);
	WAIT_FOR(t, stack_memory() > 0);
	before = stack_memory();
	announce_router(2, false);
	WAIT_FOR(t, send_datagram(p, &to, bytes, sizeof(bytes)) == 0);
	for (unsigned int i = 1; i < UNANSWERED; i++) {
		EXPECT_EQ(t, send_datagram(p, &to, bytes, sizeof(bytes)), 0);
		most = MAX(most, stack_memory());
	}
	EXPECT_GT(t, most, before);
	EXPECT_LE(t, most, before + 5 * 2048);
	WAIT_FOR(t, stack_memory() <= before);
	tcpip_port_close(p);
}

/* --- raw packets */

/* The packets of a protocol that came, and the last one. */
struct raw_box {
	unsigned int nr, damaged;
	size_t len;
	struct tcpip_packet packet;
	uint8_t bytes[64];
};

static void on_raw(void *arg, const struct tcpip_packet *packet, const void *data, size_t len)
{
	struct raw_box *b = arg;

	b->damaged += len < 20 || ip_sum(data, 20);
	b->len = len;
	b->packet = *packet;
	memcpy(b->bytes, data, MIN(len, sizeof(b->bytes)));
	__atomic_add_fetch(&b->nr, 1, __ATOMIC_RELEASE);
}

static void raw_packets_arrive(struct ktest *t)
{
	static uint8_t big[20000], echo[16] = { 8, 0, 0, 0, 0, 7, 0, 1 };
	struct tcpip_packet way = {
		.from = name_of(own_ip, 0), .to = name_of(own_ip, 0), .ttl = 9, .tos = 4
	};
	struct raw_box box = { 0 }, none = { 0 };
	struct tcpip_raw *icmp, *other;
	uint8_t whole[36] = { 0x45, 0, 0, 36, 0, 1, 0, 0, 33, 1 };
	uint16_t sum = ip_sum(echo, sizeof(echo));

	start(t);
	ASSERT_EQ(t, tcpip_raw_open(false, 1, on_raw, &box, &icmp), 0);
	ASSERT_EQ(t, tcpip_raw_open(false, 253, on_raw, &none, &other), 0);
	echo[2] = (uint8_t)(sum >> 8);
	echo[3] = (uint8_t)sum;
	/* The request comes back as it left, and then lwIP's answer. */
	EXPECT_EQ(t, tcpip_raw_send(icmp, &way, false, echo, sizeof(echo)), 0);
	WAIT_FOR(t, __atomic_load_n(&box.nr, __ATOMIC_ACQUIRE) == 2);
	EXPECT_EQ(t, box.len, 36u);
	EXPECT_EQ(t, box.bytes[20], 0);
	EXPECT_EQ(t, box.bytes[25], 7);
	EXPECT_EQ(t, memcmp(box.packet.from.addr, way.from.addr, 16), 0);
	/* With a header of the caller's. */
	memcpy(whole + 12, own_ip, 4);
	memcpy(whole + 16, own_ip, 4);
	sum = ip_sum(whole, 20);
	whole[10] = (uint8_t)(sum >> 8);
	whole[11] = (uint8_t)sum;
	memcpy(whole + 20, echo, sizeof(echo));
	whole[20] = 0; /* an answer, with a wrong sum */
	EXPECT_EQ(t, tcpip_raw_send(other, &way, true, whole, sizeof(whole)), 0);
	WAIT_FOR(t, __atomic_load_n(&box.nr, __ATOMIC_ACQUIRE) == 3);
	EXPECT_EQ(t, box.len, 36u);
	EXPECT_EQ(t, box.packet.ttl, 33);
	EXPECT_EQ(t, memcmp(box.bytes, whole, sizeof(whole)), 0);
	EXPECT_EQ(t, tcpip_raw_send(other, &way, true, big, 1501), -EMSGSIZE);
	EXPECT_EQ(t, tcpip_raw_send(other, &way, true, big, 19), -EINVAL);
	EXPECT_EQ(t, __atomic_load_n(&none.nr, __ATOMIC_ACQUIRE), 0);
	/* In fragments, as many buffers; nothing at all. */
	EXPECT_EQ(t, tcpip_raw_send(other, &way, false, big, sizeof(big)), 0);
	WAIT_FOR(t, __atomic_load_n(&none.nr, __ATOMIC_ACQUIRE) == 1);
	EXPECT_EQ(t, none.len, 20 + sizeof(big));
	EXPECT_TRUE(t, none.packet.ttl == 9 && none.packet.tos == 4);
	EXPECT_EQ(t, tcpip_raw_send(other, &way, false, big, 0), 0);
	WAIT_FOR(t, __atomic_load_n(&none.nr, __ATOMIC_ACQUIRE) == 2);
	EXPECT_EQ(t, none.len, 20u);
	EXPECT_EQ(t, tcpip_raw_send(other, &way, false, big, 65516), -EMSGSIZE);
	/* Not from another's address, and to the whole network if that is wished. */
	way.from.addr[15]++;
	EXPECT_EQ(t, tcpip_raw_send(other, &way, false, big, 1), -EINVAL);
	way.from.addr[15]--;
	way.to.addr[15] = 255;
	EXPECT_EQ(t, tcpip_raw_send(other, &way, false, big, 1), -EACCES);
	way.may_broadcast = true;
	EXPECT_EQ(t, tcpip_raw_send(other, &way, false, big, 1), 0);
	way.interface = 77;
	EXPECT_EQ(t, tcpip_raw_send(other, &way, false, big, 1), -ENETUNREACH);
	EXPECT_EQ(t, box.damaged + none.damaged, 0);
	EXPECT_EQ(t, box.nr, 3u);
	tcpip_raw_close(icmp);
	tcpip_raw_close(other);
}

/* Frames stay in order: those before the one of this datagram have been heard. */
static void hear_all(struct ktest *t, struct tcpip_port *p, const struct box *box)
{
	const unsigned int before = __atomic_load_n(&box->nr, __ATOMIC_ACQUIRE);
	const struct tcpip_name own = name_of(own_ip, 55);

	EXPECT_EQ(t, send_datagram(p, &own, "own", 3), 0);
	WAIT_FOR(t, __atomic_load_n(&box->nr, __ATOMIC_ACQUIRE) == before + 1);
}

/* The stack has heard that packets to @to are longer than @mtu, which its way takes. */
static void hear_too_big(struct ktest *t, struct tcpip_port *p, const struct box *box,
			 const struct tcpip_name *to, uint32_t mtu)
{
	uint8_t f[14 + 40 + 8 + 40 + 8] = { 0 };

	memcpy(f, own_mac, 6);
	memcpy(f + 22, "\xfe\x80", 2);
	f[37] = 3;
	EXPECT_EQ(t, tcpip_source_for(to, f + 38), 0);
	f[54] = 2;
	for (int i = 0; i < 4; i++)
		f[58 + i] = (uint8_t)(mtu >> (24 - 8 * i));
	f[62] = 0x60; /* what was too big */
	f[68] = 17;
	memcpy(f + 70, f + 38, 16);
	memcpy(f + 86, to->addr, 16);
	push_icmp6(f, sizeof(f));
	hear_all(t, p, box);
}

/*
 * No message makes a path's packets shorter than IPv6 has them, nor longer again. The first length
 * would be a flood of parts, the second one without end.
 */
static void a_path_has_a_least_mtu(struct ktest *t)
{
	static const uint32_t bad[] = { 64, 48, 55, 47, 1, 0, 1279, 1500, 65536 + 1280 };
	const struct tcpip_name any = { .port = 55 };
	const struct tcpip_name to = { .addr = { 0x20, 1, 0x0d, 0xb8, [15] = 10 }, .port = 9 };
	static const uint8_t bytes[1400];
	static struct box box;
	struct tcpip_port *p;

	start(t);
	ASSERT_EQ(t, tcpip_port_open(&any, on_datagram, &box, &p), 0);
	announce_router(3, true);
	hear_all(t, p, &box);
	card.six_whole = card.six_parts = 0;
	EXPECT_EQ(t, send_datagram(p, &to, bytes, sizeof(bytes)), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		hear_too_big(t, p, &box, &to, bad[i]);
		ASSERT_EQ(t, send_datagram(p, &to, bytes, sizeof(bytes)), 0);
		ASSERT_EQ(t, card.six_whole, 2 + i);
		ASSERT_EQ(t, card.six_parts, 0u);
	}
	hear_too_big(t, p, &box, &to, 1280);
	EXPECT_EQ(t, send_datagram(p, &to, bytes, sizeof(bytes)), 0);
	EXPECT_EQ(t, card.six_parts, 2u);
	hear_too_big(t, p, &box, &to, 1500);
	EXPECT_EQ(t, send_datagram(p, &to, bytes, sizeof(bytes)), 0);
	EXPECT_EQ(t, card.six_parts, 4u);
	tcpip_port_close(p);
}

static unsigned int nr_changes; /* atomic */

static void count_change(void)
{
	__atomic_fetch_add(&nr_changes, 1, __ATOMIC_RELEASE);
}

static bool has_router(const uint8_t router[16])
{
	struct tcpip_interface seen;

	return tcpip_interface(0, &seen) && !memcmp(seen.gateway6, router, 16);
}

/* The other processors show it in their routes, also where no address comes or goes with it. */
static void a_new_router_is_told(struct ktest *t)
{
	static const uint8_t none[16], router[16] = { 0xfe, 0x80, [15] = 2 };
	struct tcpip_interface seen;

	start(t);
	WAIT_FOR(t, tcpip_interface(0, &seen) && seen.prefix4 && seen.nr_addr6);
	announce_router_for(2, 0, false); /* which other cases may have brought */
	announce_router_for(3, 0, false);
	WAIT_FOR(t, has_router(none));
	tcpip_on_change(count_change);
	announce_router(2, false);
	WAIT_FOR(t, __atomic_load_n(&nr_changes, __ATOMIC_ACQUIRE) == 1);
	EXPECT_TRUE(t, has_router(router));
	announce_router_for(2, 0, false);
	WAIT_FOR(t, __atomic_load_n(&nr_changes, __ATOMIC_ACQUIRE) == 2);
	EXPECT_TRUE(t, has_router(none));
	tcpip_on_change(NULL);
}

static const struct ktest_case tcpip_cases[] = {
	KTEST(an_address_by_dhcp),
	KTEST(bytes_arrive),
	KTEST(bytes_arrive_over_a_bad_wire),
	KTEST(closing_with_unread_bytes_resets),
	KTEST(a_backlog_is_of_what_is_not_accepted),
	KTEST(nobody_listens),
	KTEST(nobody_answers),
	KTEST(a_syn_is_repeated_as_told),
	KTEST(a_silent_peer_is_given_up),
	KTEST(a_slow_peer_is_waited_for),
	KTEST(a_closed_one_waits_as_told),
	KTEST(unsent_bytes_are_bounded),
	KTEST(datagrams_arrive),
	KTEST(datagrams_have_packets),
	KTEST(errors_of_datagrams_are_told),
	KTEST(groups_are_joined),
	KTEST(raw_packets_arrive),
	KTEST(a_router_that_never_answers_keeps_nothing),
	KTEST(a_path_has_a_least_mtu),
	KTEST(a_new_router_is_told),
	{ 0 },
};
static const struct ktest_suite tcpip_suite = { .name = "net.tcpip", .cases = tcpip_cases };
KTEST_SUITE(tcpip_suite);
