/* SPDX-License-Identifier: MIT */
/*
 * lwIP's interfaces on network cards, and the thread that serves them.
 *
 * Flow:	tcpip_start() makes the thread and opens every card, when this node is to speak for
 *		its vNode. Then the thread polls those that have woken it and runs lwIP's timers; it
 *		sleeps until a card or the next timer wants it. A card's link that comes up starts
 *		DHCP and the address of its own; router advertisements bring IPv6 addresses. Nothing
 *		waits for any of this.
 *		Received buffers become pbufs in place while a quarter of the card's pool is free,
 *		and are copied otherwise: a program that does not read cannot starve a card.
 * Locking:	stack_mutex, around each round of the thread; wake-ups come from interrupts without.
 *		own_lock (RANK_SPIN_NET) guards the list of our addresses, which is copied from lwIP
 *		when one changes, so that tcpip_is_own() needs no mutex.
 * Failure:	a card that cannot be opened is named in the log and left alone.
 */
#define PR_FMT "tcpip: "

#include "lwip_priv.h"

#include <drivers/netdev.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <lwip/dhcp.h>
#include <lwip/etharp.h>
#include <lwip/ethip6.h>
#include <lwip/igmp.h>
#include <lwip/ip.h>
#include <lwip/mld6.h>
#include <lwip/nd6.h>
#include <lwip/netif.h>
#include <lwip/pbuf.h>
#include <lwip/priv/nd6_priv.h>
#include <lwip/timeouts.h>
#include <mm/slab.h>
#include <netif/ethernet.h>

#define OWN_PER_CARD (1u + LWIP_IPV6_NUM_ADDRESSES)
#define POLL_BUDGET  64u

COUNTER(tcpip_rx_drops, "tcpip.rx_drops", "frames dropped for want of memory");
COUNTER(tcpip_rx_copied, "tcpip.rx_copied", "frames copied because the card's buffers were scarce");
COUNTER(tcpip_tx_drops, "tcpip.tx_drops", "frames that a card did not take");

struct interface {
	struct netif netif; /* stack_mutex */
	struct netdev *nd;  /* const */
	unsigned int index; /* const */
	uint32_t woken;     /* atomic: a bit for each queue that wants to be polled */
	bool link_changed;  /* atomic */
	bool tx_pending;    /* stack_mutex: frames that the card was not told of */
	unsigned int nr_tx; /* stack_mutex: frames that the card has */
	bool dhcp;          /* stack_mutex */
	ip4_addr_t told;    /* stack_mutex: the address that the log has */
	uint8_t router[16]; /* stack_mutex: the one of IPv6 that others were told of */
	struct interface *next;
};

/* In the private part of a receive buffer. */
struct rx_pbuf {
	struct pbuf_custom custom;
	struct net_rxbuf *buf;
};
static_assert(sizeof(struct rx_pbuf) <= NET_RXBUF_PRIVATE, "fits a receive buffer");

static struct interface *interfaces; /* const once is_started */
static bool is_started;              /* atomic: they are all there, and so is the thread */
static bool has_failed;              /* atomic: no card can be opened */
static bool is_silent;               /* atomic: tcpip_silence() */
static unsigned int nr_interfaces;
static struct waitqueue worker_wait = WAITQUEUE_INIT(worker_wait);
static bool worker_wanted; /* atomic */

static struct spinlock own_lock = SPINLOCK_INIT("tcpip own", RANK_SPIN_NET);
static uint8_t (*own_addrs)[16] __guarded_by(&own_lock); /* room for all cards */
static unsigned int nr_own __guarded_by(&own_lock);

static void (*change_fn)(void) __guarded_by(&stack_mutex);

/* --- addresses */

void tcpip_on_change(void (*fn)(void))
{
	stack_lock();
	change_fn = fn;
	stack_unlock();
}

/* Copy lwIP's addresses. */
static void own_update_locked(void) __must_hold(&stack_mutex)
{
	unsigned long flags;

	assert_mutex_held(&stack_mutex);
	flags = spin_lock_irqsave(&own_lock);
	nr_own = 0;
	for (struct interface *i = interfaces; i; i = i->next) {
		if (!ip4_addr_isany_val(*netif_ip4_addr(&i->netif)))
			ip_to_name(netif_ip_addr4(&i->netif), own_addrs[nr_own++]);
		for (s8_t a = 0; a < LWIP_IPV6_NUM_ADDRESSES; a++) {
			if (ip6_addr_isvalid(netif_ip6_addr_state(&i->netif, a)))
				ip_to_name(netif_ip_addr6(&i->netif, a), own_addrs[nr_own++]);
		}
	}
	ASSERT(nr_own <= nr_interfaces * OWN_PER_CARD);
	spin_unlock_irqrestore(&own_lock, flags);
	if (change_fn)
		change_fn();
}

bool tcpip_has_cards(void)
{
	return netdev_next(NULL) != NULL;
}

void tcpip_silence(void)
{
	WRITE_ONCE(is_silent, true);
}

bool tcpip_is_present(void)
{
	return __atomic_load_n(&is_started, __ATOMIC_ACQUIRE);
}

bool tcpip_is_own(const uint8_t addr[16])
{
	const unsigned long flags = spin_lock_irqsave(&own_lock);
	bool own = false;

	for (unsigned int i = 0; i < nr_own && !own; i++)
		own = !memcmp(own_addrs[i], addr, 16);
	spin_unlock_irqrestore(&own_lock, flags);
	return own;
}

/* lwIP calls it, where the stack is locked. */
static void status_changed(struct netif *netif)
{
	struct interface *i = netif->state;
	const uint8_t *a = (const uint8_t *)&netif_ip4_addr(netif)->addr;

	assert_mutex_held(&stack_mutex);
	own_update_locked();
	if (ip4_addr_cmp(netif_ip4_addr(netif), &i->told))
		return;
	i->told = *netif_ip4_addr(netif);
	if (ip4_addr_isany_val(i->told))
		pr_info("%s: no address\n", i->nd->name);
	else
		pr_info("%s: address %u.%u.%u.%u\n", i->nd->name, a[0], a[1], a[2], a[3]);
}

int tcpip_source_for(const struct tcpip_name *to, uint8_t addr[16])
{
	const ip_addr_t *from;
	struct netif *netif;
	ip_addr_t ip;
	int err = -ENETUNREACH;

	name_to_ip(to->addr, &ip);
	stack_lock();
	netif = ip_route(IP_ANY_TYPE, &ip);
	from = netif ? ip_netif_get_local_ip(netif, &ip) : NULL;
	if (from && !ip_addr_isany(from)) {
		ip_to_name(from, addr);
		err = 0;
	}
	stack_unlock();
	return err;
}

/* Unchanged: it has none. */
static void router_of_locked(struct interface *i, uint8_t out[16]) __must_hold(&stack_mutex)
{
	assert_mutex_held(&stack_mutex);
	for (unsigned int r = 0; r < LWIP_ND6_NUM_ROUTERS; r++) {
		const struct nd6_neighbor_cache_entry *n = default_router_list[r].neighbor_entry;
		ip_addr_t ip;

		if (!n || n->netif != &i->netif || !default_router_list[r].invalidation_timer)
			continue;
		ip_addr_copy_from_ip6(ip, n->next_hop_address);
		ip_to_name(&ip, out);
		return;
	}
}

static void describe_locked(struct interface *i, struct tcpip_interface *out)
	__must_hold(&stack_mutex)
{
	struct netdev_stats stats;

	assert_mutex_held(&stack_mutex);
	memset(out, 0, sizeof(*out));
	strlcpy(out->name, i->nd->name, sizeof(out->name));
	out->index = i->index;
	out->mtu = i->netif.mtu;
	out->up = netif_is_up(&i->netif) && netif_is_link_up(&i->netif);
	memcpy(out->mac, i->nd->addr, sizeof(out->mac));
	if (!ip4_addr_isany_val(*netif_ip4_addr(&i->netif))) {
		memcpy(out->addr4, &netif_ip4_addr(&i->netif)->addr, 4);
		memcpy(out->gateway4, &netif_ip4_gw(&i->netif)->addr, 4);
		out->prefix4 = (uint8_t)__builtin_popcount(netif_ip4_netmask(&i->netif)->addr);
	}
	for (s8_t a = 0; a < LWIP_IPV6_NUM_ADDRESSES && out->nr_addr6 < TCPIP_IF_ADDRS6; a++) {
		if (ip6_addr_isvalid(netif_ip6_addr_state(&i->netif, a)))
			ip_to_name(netif_ip_addr6(&i->netif, a), out->addr6[out->nr_addr6++]);
	}
	router_of_locked(i, out->gateway6);
	netdev_stats(i->nd, &stats);
	out->rx_bytes = stats.rx_bytes;
	out->rx_packets = stats.rx_frames;
	out->rx_drops = stats.rx_dropped;
	out->tx_bytes = stats.tx_bytes;
	out->tx_packets = stats.tx_frames;
	out->tx_drops = stats.tx_full;
}

bool tcpip_interface(unsigned int i, struct tcpip_interface *out)
{
	struct interface *at;

	stack_lock();
	at = interfaces;
	while (at && i--)
		at = at->next;
	if (at)
		describe_locked(at, out);
	stack_unlock();
	return at;
}

/* --- groups */

struct netif *netif_of_index_locked(uint32_t index)
{
	struct interface *i = interfaces;

	assert_mutex_held(&stack_mutex);
	while (i && i->index != index)
		i = i->next;
	return i ? &i->netif : NULL;
}

uint32_t index_of_netif(const struct netif *netif)
{
	const struct interface *i = netif->state;

	return i->index;
}

int tcpip_join(uint32_t interface, const uint8_t addr[16])
{
	struct netif *netif;
	ip_addr_t ip;
	err_t err = ERR_IF;

	name_to_ip(addr, &ip);
	stack_lock();
	netif = netif_of_index_locked(interface);
	if (netif && IP_IS_V4(&ip))
		err = igmp_joingroup_netif(netif, ip_2_ip4(&ip));
	else if (netif)
		err = mld6_joingroup_netif(netif, ip_2_ip6(&ip));
	stack_unlock();
	if (!netif)
		return -ENODEV;
	return err == ERR_OK ? 0 : -ENOBUFS;
}

void tcpip_leave(uint32_t interface, const uint8_t addr[16])
{
	struct netif *netif;
	ip_addr_t ip;

	name_to_ip(addr, &ip);
	stack_lock();
	netif = netif_of_index_locked(interface);
	/* An error: it is no member, so there is nothing to leave. */
	if (netif && IP_IS_V4(&ip))
		(void)igmp_leavegroup_netif(netif, ip_2_ip4(&ip));
	else if (netif)
		(void)mld6_leavegroup_netif(netif, ip_2_ip6(&ip));
	stack_unlock();
}

/* --- frames in */

static void rx_free(struct pbuf *p)
{
	struct rx_pbuf *rx = container_of(p, struct rx_pbuf, custom.pbuf);

	net_frame_free(rx->buf);
}

/* A pbuf on the buffer itself. */
static struct pbuf *rx_wrap(struct net_rxbuf *buf)
{
	struct rx_pbuf *rx = (void *)buf->private;

	buf->next = NULL;
	rx->buf = buf;
	rx->custom.custom_free_function = rx_free;
	return pbuf_alloced_custom(PBUF_RAW, (u16_t)buf->len, PBUF_REF, &rx->custom, buf->data,
				   (u16_t)buf->len);
}

static struct pbuf *rx_in_place(struct net_rxbuf *frame)
{
	struct pbuf *head = NULL;

	while (frame) {
		struct net_rxbuf *next = frame->next;
		struct pbuf *p = rx_wrap(frame);

		ASSERT(p); /* it is not allocated */
		if (head)
			pbuf_cat(head, p);
		else
			head = p;
		frame = next;
	}
	return head;
}

static struct pbuf *rx_copy(struct net_rxbuf *frame)
{
	struct pbuf *p = pbuf_alloc(PBUF_RAW, (u16_t)frame->frame_len, PBUF_RAM);
	u16_t at = 0;

	for (struct net_rxbuf *b = frame; p && b; b = b->next) {
		if (pbuf_take_at(p, b->data, (u16_t)b->len, at) != ERR_OK)
			panic("tcpip: a frame is longer than its parts");
		at = (u16_t)(at + b->len);
	}
	net_frame_free(frame);
	return p;
}

static void received(struct netdev *nd, struct net_rxbuf *frame)
{
	struct interface *i = nd->user_data;
	struct net_pool *pool = frame->pool;
	struct pbuf *p = NULL;

	if (frame->frame_len > UINT16_MAX || READ_ONCE(is_silent)) {
		net_frame_free(frame);
	} else if (net_pool_free(pool) >= pool->nr / 4) {
		p = rx_in_place(frame);
	} else {
		counter_inc(&tcpip_rx_copied);
		p = rx_copy(frame);
	}
	if (!p) {
		counter_inc(&tcpip_rx_drops);
		return;
	}
	if (i->netif.input(p, &i->netif) != ERR_OK)
		pbuf_free(p);
}

/* --- frames out */

static void sent(struct netdev *nd, void *token, int status)
{
	struct interface *i = nd->user_data;

	(void)status;
	assert_mutex_held(&stack_mutex);
	i->nr_tx--;
	pbuf_free(token);
}

/* lwIP's way out. The frame stays counted until the card has done with it. */
static err_t link_output(struct netif *netif, struct pbuf *p)
{
	struct interface *i = netif->state;
	struct net_seg segs[NET_TX_MAX_SEGS];
	struct net_tx tx = { .segs = segs, .token = p };
	int err;

	if (READ_ONCE(is_silent))
		return ERR_IF;
	if (pbuf_clen(p) > NET_TX_MAX_SEGS) {
		p = pbuf_clone(PBUF_RAW, PBUF_RAM, p);
		if (!p)
			return ERR_MEM;
		tx.token = p;
	} else {
		pbuf_ref(p);
	}
	for (const struct pbuf *q = p; q; q = q->next) {
		if (q->len)
			segs[tx.nr_segs++] = (struct net_seg){ q->payload, q->len };
		if (q->tot_len == q->len)
			break;
	}
	err = netdev_transmit(i->nd, 0, &tx);
	if (err) {
		counter_inc(&tcpip_tx_drops);
		pbuf_free(p);
		return err == -ENOSPC ? ERR_MEM : ERR_IF;
	}
	i->nr_tx++;
	i->tx_pending = true;
	return ERR_OK;
}

void interfaces_kick_locked(void)
{
	assert_mutex_held(&stack_mutex);
	for (struct interface *i = interfaces; i; i = i->next) {
		if (i->tx_pending) {
			i->tx_pending = false;
			netdev_kick(i->nd, 0);
		}
	}
}

/* --- cards */

static void worker_wake(void)
{
	__atomic_store_n(&worker_wanted, true, __ATOMIC_RELEASE);
	wake_one(&worker_wait);
}

static void wake(struct netdev *nd, unsigned int queue)
{
	struct interface *i = nd->user_data;

	__atomic_fetch_or(&i->woken, 1u << queue, __ATOMIC_ACQ_REL);
	worker_wake();
}

static void link_changed(struct netdev *nd)
{
	struct interface *i = nd->user_data;

	WRITE_ONCE(i->link_changed, true);
	worker_wake();
}

static const struct netdev_user card_user = {
	.wake = wake,
	.link_changed = link_changed,
	.received = received,
	.sent = sent,
};

static err_t interface_init(struct netif *netif)
{
	struct interface *i = netif->state;

	netif->name[0] = 'e';
	netif->name[1] = 't';
	netif->hwaddr_len = NET_ADDR_LEN;
	memcpy(netif->hwaddr, i->nd->addr, NET_ADDR_LEN);
	netif->mtu = (u16_t)i->nd->mtu;
	netif->output = etharp_output;
	netif->output_ip6 = ethip6_output;
	netif->linkoutput = link_output;
	netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET |
		       NETIF_FLAG_IGMP | NETIF_FLAG_MLD6;
	return ERR_OK;
}

/* The card's link went up or down. */
static void link_update_locked(struct interface *i) __must_hold(&stack_mutex)
{
	const bool up = READ_ONCE(i->nd->link_up);

	assert_mutex_held(&stack_mutex);
	if (up == !!netif_is_link_up(&i->netif))
		return;
	pr_info("%s: link %s\n", i->nd->name, up ? "up" : "down");
	if (!up) {
		netif_set_link_down(&i->netif);
		return;
	}
	netif_set_link_up(&i->netif);
	if (!i->dhcp) {
		i->dhcp = true;
		if (dhcp_start(&i->netif) != ERR_OK)
			pr_err("%s: no memory for DHCP\n", i->nd->name);
	}
}

static int interface_add(struct netdev *nd)
{
	struct interface *i = kzalloc(sizeof(*i));
	struct interface **end = &interfaces;
	int err;

	if (!i)
		return -ENOMEM;
	i->nd = nd;
	i->index = TCPIP_FIRST_IF_INDEX + nr_interfaces;
	stack_lock();
	if (!netif_add(&i->netif, NULL, NULL, NULL, i, interface_init, ethernet_input)) {
		stack_unlock();
		kfree(i);
		return -ENOMEM;
	}
	netif_set_status_callback(&i->netif, status_changed);
	netif_create_ip6_linklocal_address(&i->netif, 1);
	netif_set_ip6_autoconfig_enabled(&i->netif, 1);
	while (*end)
		end = &(*end)->next;
	*end = i;
	nr_interfaces++;
	stack_unlock();

	err = netdev_open(nd, &card_user, i);
	stack_lock();
	if (!err) {
		if (!netif_default)
			netif_set_default(&i->netif);
		netif_set_up(&i->netif);
		i->woken = (1u << nd->nr_queues) - 1;
		link_update_locked(i);
		own_update_locked();
	}
	stack_unlock();
	return err;
}

/* Poll what wants it. True: there is more. */
static bool serve_locked(struct interface *i) __must_hold(&stack_mutex)
{
	uint32_t woken = __atomic_exchange_n(&i->woken, 0, __ATOMIC_ACQ_REL);
	uint32_t again = 0;

	assert_mutex_held(&stack_mutex);
	/*
	 * A card does not tell that it has sent a frame, and lwIP repeats no segment that the card
	 * still has: the timers find frames back even where nothing is received.
	 */
	if (i->nr_tx)
		woken |= 1;
	if (__atomic_exchange_n(&i->link_changed, false, __ATOMIC_ACQ_REL))
		link_update_locked(i);
	for (unsigned int q = 0; q < i->nd->nr_queues; q++) {
		if (!(woken & 1u << q))
			continue;
		if (netdev_poll(i->nd, q, POLL_BUDGET) >= POLL_BUDGET || netdev_arm(i->nd, q))
			again |= 1u << q;
	}
	/* A fenced card has no link. */
	if (!READ_ONCE(i->nd->link_up))
		link_update_locked(i);
	if (again)
		__atomic_fetch_or(&i->woken, again, __ATOMIC_ACQ_REL);
	return again;
}

/* Routers come and go by advertisements and their lifetimes, of which lwIP does not tell. */
static void look_at_routers_locked(void) __must_hold(&stack_mutex)
{
	bool changed = false;

	assert_mutex_held(&stack_mutex);
	for (struct interface *i = interfaces; i; i = i->next) {
		uint8_t now[16] = { 0 };

		router_of_locked(i, now);
		if (!memcmp(now, i->router, sizeof(now)))
			continue;
		memcpy(i->router, now, sizeof(now));
		changed = true;
	}
	if (changed && change_fn)
		change_fn();
}

static bool take_wanted(void)
{
	return __atomic_load_n(&worker_wanted, __ATOMIC_ACQUIRE);
}

static bool is_decided(void)
{
	return tcpip_is_present() || __atomic_load_n(&has_failed, __ATOMIC_ACQUIRE);
}

static void worker(void *arg)
{
	(void)arg;
	wait_event(&worker_wait, is_decided());
	while (tcpip_is_present()) {
		bool again = false;
		uint32_t pause_ms;

		__atomic_store_n(&worker_wanted, false, __ATOMIC_SEQ_CST);
		stack_lock();
		for (struct interface *i = interfaces; i; i = i->next)
			again |= serve_locked(i);
		sys_check_timeouts();
		look_at_routers_locked();
		pause_ms = sys_timeouts_sleeptime();
		stack_unlock();
		if (again) {
			thread_yield();
			continue;
		}
		(void)wait_event_timeout(&worker_wait, take_wanted(),
					 time_after_ns(pause_ms * NSEC_PER_MSEC));
	}
}

static int open_all(void)
{
	struct netdev *nd = NULL;
	unsigned int nr = 0, nr_open = 0;
	unsigned long flags;
	uint8_t (*addrs)[16];

	while ((nd = netdev_next(nd)) != NULL)
		nr++;
	addrs = kcalloc(nr * OWN_PER_CARD, sizeof(*addrs));
	if (!addrs)
		return -ENOMEM;
	flags = spin_lock_irqsave(&own_lock);
	own_addrs = addrs;
	spin_unlock_irqrestore(&own_lock, flags);
	while ((nd = netdev_next(nd)) != NULL) {
		const int err = interface_add(nd);

		if (err)
			pr_err("%s: cannot be opened (%d)\n", nd->name, err);
		else
			nr_open++;
	}
	return nr_open ? 0 : -EIO;
}

int tcpip_start(void)
{
	struct thread *t;
	int err;

	ASSERT(!is_decided());
	/* First: there is no way back from cards that send, and another node may have the part. */
	t = thread_create("tcpip", worker, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	err = open_all();
	__atomic_store_n(err ? &has_failed : &is_started, true, __ATOMIC_RELEASE);
	wake_one(&worker_wait);
	return err;
}
