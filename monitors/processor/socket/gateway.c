/* SPDX-License-Identifier: MIT */
/*
 * The vNode's gateway: see gateway.h.
 *
 * Flow:	at a processor with a card, work tells all other processors of the cards when one of
 *		them or the view has changed, and again until all have heard of it. It tells the
 *		launcher of the addresses.
 * Limits:	GATEWAY_CARDS cards are told of.
 */
#include "gateway.h"

#include <cluster/cluster.h>
#include <ctl/ctl.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/node.h>
#include <net/rpc.h>
#include <net/tcpip.h>

#include "inet_private.h"
#include "relay.h"
#include "remote_private.h"

#define PAUSE_NS         (100 * NSEC_PER_MSEC) /* before processors are told again */
#define FIRST_ADDRESS_NS (2 * NSEC_PER_SEC)    /* that DHCP has for the first one */

struct gateway {
	struct list_head link;
	uint32_t node, incarn;
	uint32_t nr;
	struct tcpip_interface cards[];
};

static void tell_work(struct work *w);

static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct list_head list __guarded_by(&lock);
	struct workqueue *wq; /* const after start */
	struct work tell;
	struct timer timer;
	struct waitqueue changed; /* a card, here or at the gateway, has other addresses */
	uint32_t changes;         /* atomic: how many there were */
	uint64_t patience_end_ns; /* atomic: until then programs wait for an address */
} gateways = {
	.lock = SPINLOCK_INIT("gateways", RANK_SPIN_MONITOR),
	.list = LIST_HEAD_INIT(gateways.list),
	.changed = WAITQUEUE_INIT(gateways.changed),
};

/* --- what this processor knows ---------------------------------------------------------- */

/* The one in use; NULL: none. */
static struct gateway *chosen_locked(void) __must_hold(&gateways.lock)
{
	struct gateway *g, *best = NULL;

	assert_spin_held(&gateways.lock);
	list_for_each_entry(g, &gateways.list, link) {
		if (!best || g->node < best->node)
			best = g;
	}
	return best;
}

bool gateway_find(uint32_t *node, uint32_t *incarn)
{
	const struct gateway *g;

	*node = *incarn = 0;
	if (tcpip_is_present())
		return false;
	spin_lock(&gateways.lock);
	g = chosen_locked();
	if (g) {
		*node = g->node;
		*incarn = g->incarn;
	}
	spin_unlock(&gateways.lock);
	return g;
}

static bool card_has(const struct tcpip_interface *card, const uint8_t addr[16])
{
	uint8_t mapped[16];

	inet_map_v4(card->addr4, mapped);
	if (card->prefix4 && !memcmp(mapped, addr, 16))
		return true;
	for (uint32_t i = 0; i < card->nr_addr6; i++) {
		if (!memcmp(card->addr6[i], addr, 16))
			return true;
	}
	return false;
}

bool gateway_is_own(const uint8_t addr[16])
{
	const struct gateway *g;
	bool own = false;

	if (tcpip_is_present())
		return tcpip_is_own(addr);
	spin_lock(&gateways.lock);
	g = chosen_locked();
	for (uint32_t i = 0; g && i < g->nr && !own; i++)
		own = card_has(&g->cards[i], addr);
	spin_unlock(&gateways.lock);
	return own;
}

uint32_t gateway_mtu(const uint8_t own[16])
{
	struct tcpip_interface card;

	for (unsigned int i = 0; gateway_interface(i, &card); i++) {
		if (card_has(&card, own))
			return card.mtu;
	}
	return 0;
}

bool gateway_interface(unsigned int i, struct tcpip_interface *out)
{
	const struct gateway *g;
	bool there;

	if (tcpip_is_present())
		return tcpip_interface(i, out);
	spin_lock(&gateways.lock);
	g = chosen_locked();
	there = g && i < g->nr;
	if (there)
		*out = g->cards[i];
	spin_unlock(&gateways.lock);
	return there;
}

static bool is_link_local(const uint8_t addr[16])
{
	return addr[0] == 0xfe && (addr[1] & 0xc0) == 0x80;
}

/* The address of @card that suits @to. */
static bool card_source(const struct tcpip_interface *card, const struct tcpip_name *to,
			uint8_t addr[16])
{
	if (inet_is_v4(to->addr)) {
		inet_map_v4(card->addr4, addr);
		return card->prefix4;
	}
	for (uint32_t i = 0; i < card->nr_addr6; i++) {
		memcpy(addr, card->addr6[i], 16);
		if (is_link_local(addr) == is_link_local(to->addr))
			return true;
	}
	return false;
}

/* The address that packets to @to carry. -ENETUNREACH. */
static int source_for(const struct tcpip_name *to, uint8_t addr[16])
{
	const struct gateway *g;
	bool found = false;

	if (tcpip_is_present())
		return tcpip_source_for(to, addr);
	spin_lock(&gateways.lock);
	g = chosen_locked();
	for (uint32_t i = 0; g && i < g->nr && !found; i++) {
		if (!to->scope_id || g->cards[i].index == to->scope_id)
			found = card_source(&g->cards[i], to, addr);
	}
	spin_unlock(&gateways.lock);
	return found ? 0 : -ENETUNREACH;
}

static uint32_t changes(void)
{
	return __atomic_load_n(&gateways.changes, __ATOMIC_ACQUIRE);
}

static void wake_changed(void)
{
	__atomic_fetch_add(&gateways.changes, 1, __ATOMIC_RELEASE);
	wake_all(&gateways.changed);
}

void gateway_programs_come(void)
{
	__atomic_store_n(&gateways.patience_end_ns, time_now_ns() + FIRST_ADDRESS_NS,
			 __ATOMIC_RELEASE);
}

int gateway_wait_source(const struct tcpip_name *to, uint8_t addr[16])
{
	const uint64_t until = __atomic_load_n(&gateways.patience_end_ns, __ATOMIC_ACQUIRE);

	for (;;) {
		const uint32_t seen = changes();
		const int err = source_for(to, addr);
		uint32_t node, incarn;
		int waited;

		if (err != -ENETUNREACH || !inet_is_v4(to->addr) || time_now_ns() >= until ||
		    !(tcpip_has_cards() || gateway_find(&node, &incarn)))
			return err;
		waited = wait_event_interruptible_timeout(&gateways.changed, changes() != seen,
							  until);
		if (waited == -EINTR)
			return -ERESTARTSYS;
	}
}

int gateway_connect(struct socket *s, const struct inet_name *to, bool nonblock)
{
	uint32_t node, incarn;
	int err;

	if (!gateway_find(&node, &incarn))
		return -ENETUNREACH;
	err = inet_autobind(s);
	return err ? err : remote_connect_outside(s, to, node, incarn, nonblock);
}

/* --- what others tell ------------------------------------------------------------------- */

static struct gateway *take_locked(uint32_t node, uint32_t incarn) __must_hold(&gateways.lock)
{
	struct gateway *g;

	assert_spin_held(&gateways.lock);
	list_for_each_entry(g, &gateways.list, link) {
		if (g->node == node && (!incarn || g->incarn == incarn)) {
			list_del(&g->link);
			return g;
		}
	}
	return NULL;
}

int gateway_learn(uint32_t node, uint32_t incarn, const struct tcpip_interface *cards, uint32_t nr)
{
	struct gateway *g = kmalloc(sizeof(*g) + nr * sizeof(*cards)), *old;

	ASSERT(nr <= GATEWAY_CARDS);
	if (!g)
		return -ENOBUFS;
	*g = (struct gateway){ .node = node, .incarn = incarn, .nr = nr };
	memcpy(g->cards, cards, nr * sizeof(*cards));
	spin_lock(&gateways.lock);
	old = take_locked(node, 0);
	list_add_tail(&g->link, &gateways.list);
	spin_unlock(&gateways.lock);
	kfree(old);
	wake_changed();
	/* Membership looks at the list once: it may have done so before this one was there. */
	if (rpc_peer_has_left(node, incarn))
		gateway_node_gone(node, incarn);
	gateway_claim_heard();
	outside_tell_gateway();
	return 0;
}

void gateway_node_gone(uint32_t node, uint32_t incarn)
{
	struct gateway *g;

	spin_lock(&gateways.lock);
	g = take_locked(node, incarn);
	spin_unlock(&gateways.lock);
	if (g)
		outside_tell_gateway();
	kfree(g);
	outside_far_gone(node, incarn);
}

/* --- telling ---------------------------------------------------------------------------- */

static void tell_soon(void)
{
	(void)work_queue(gateways.wq, &gateways.tell); /* it may be queued already */
}

static void on_timer(void *arg)
{
	tell_soon();
}

/* Tell all of them. True: one has to be told again. */
static bool tell_all(const uint32_t *nodes, size_t nr, const struct tcpip_interface *cards,
		     uint32_t nr_cards)
{
	bool again = false;

	for (size_t i = 0; i < nr; i++) {
		int err = 0;

		if (nodes[i] != node_self()->id && !rpc_peer_reachable(nodes[i]))
			err = gateway_net_tell(nodes[i], cards, nr_cards);
		again |= err && !rpc_peer_reachable(nodes[i]);
	}
	return again;
}

/* Tell the launcher what the outside calls the vNode, if that is new. */
static void tell_launcher(const struct tcpip_interface *cards, uint32_t nr_cards)
{
	static uint8_t told[GATEWAY_CARDS * (1 + TCPIP_IF_ADDRS6)][16]; /* all are the work's */
	static uint8_t now[ARRAY_SIZE(told)][16];
	static uint32_t nr_told;
	uint32_t nr = 0;

	static_assert(ARRAY_SIZE(now) <= CTL_MAX_ADDRESSES, "a frame has them all");
	for (uint32_t i = 0; i < nr_cards; i++) {
		const struct tcpip_interface *card = &cards[i];

		if (card->prefix4)
			inet_map_v4(card->addr4, now[nr++]);
		for (uint32_t k = 0; k < card->nr_addr6; k++) {
			if (!is_link_local(card->addr6[k]))
				memcpy(now[nr++], card->addr6[k], 16);
		}
	}
	if (nr == nr_told && !memcmp(told, now, nr * sizeof(now[0])))
		return;
	nr_told = nr;
	memcpy(told, now, nr * sizeof(now[0]));
	ctl_addresses(told, nr);
}

static void tell_work(struct work *w)
{
	struct tcpip_interface *cards = kcalloc(GATEWAY_CARDS, sizeof(*cards));
	const size_t max = cluster_nodes(NODE_ROLE_PROCESSOR, NULL, 0);
	uint32_t *nodes = kcalloc(MAX(max, (size_t)1), sizeof(*nodes));
	bool again = true;
	uint32_t nr = 0;

	while (cards && nr < GATEWAY_CARDS && tcpip_interface(nr, &cards[nr]))
		nr++;
	if (cards)
		tell_launcher(cards, nr);
	if (cards && nodes)
		again = tell_all(nodes, MIN(cluster_nodes(NODE_ROLE_PROCESSOR, nodes, max), max),
				 cards, nr);
	kfree(nodes);
	kfree(cards);
	if (again)
		timer_set(&gateways.timer, time_now_ns() + PAUSE_NS);
}

void gateway_view_changed(void)
{
	gateway_claim();
	if (__atomic_load_n(&gateways.wq, __ATOMIC_ACQUIRE) && tcpip_is_present() &&
	    cluster_nodes(NODE_ROLE_PROCESSOR, NULL, 0) > 1)
		tell_soon();
}

/* The stack's lock is held. */
static void cards_changed(void)
{
	wake_changed();
	if (tcpip_is_present())
		tell_soon();
}

int gateway_init(void)
{
	int err;
	struct workqueue *wq = workqueue_create("gateway", 1);

	if (IS_ERR(wq))
		return (int)PTR_ERR(wq);
	work_init(&gateways.tell, tell_work);
	timer_init(&gateways.timer, on_timer, NULL);
	__atomic_store_n(&gateways.wq, wq, __ATOMIC_RELEASE);
	err = relay_init();
	if (!err)
		err = remote_udp_init();
	if (!err)
		err = tcp_cork_init();
	if (!err)
		err = outside_port_init();
	if (!err)
		err = gateway_net_init();
	if (!err)
		err = gateway_claim_init();
	if (!err)
		tcpip_on_change(cards_changed);
	return err;
}
