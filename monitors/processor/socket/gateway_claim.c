/* SPDX-License-Identifier: MIT */
/*
 * Which of the processors that have network cards is the vNode's gateway.
 *
 * Flow:	the one that has the name NAME_GATEWAY, of which the managers give one at a time, as
 *		they do with names of sockets, and which they take back when it has left the view. A
 *		processor with a card asks for it when the cluster is complete and, until it has
 *		it, after each change of the view. With the name it opens its cards, opens there the
 *		ports that its programs have, and tells the launcher and the other processors.
 *		A card on standby (gateway.standby) leaves the first go to others: this processor
 *		asks once it has heard of a gateway, or none has come for STANDBY_NS.
 * Locking:	the work alone touches the name. may_ask, is_decided and is_over are atomic.
 * Failure:	cards that cannot be opened give the name back, and this node asks no more.
 */
#define PR_FMT "gateway: "

#include <ctl/ctl.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <net/tcpip.h>
#include <processor/client/names.h>

#include "gateway.h"
#include "inet_private.h"

#define STANDBY_NS (10 * NSEC_PER_SEC)
#define PAUSE_NS   (500 * NSEC_PER_MSEC) /* before the managers are asked again */
#define FIRST_NS   (2 * NSEC_PER_SEC)    /* that the start waits for the first answer */

COUNTER(became, "gateway.became", "times that this node became the gateway of its vNode");

static bool is_standby;
BOOT_PARAM("gateway.standby", bool, is_standby,
	   "let processors without it be the gateway first, where several have cards");

static struct {
	struct workqueue *wq; /* const after start */
	struct work work;
	struct timer timer;
	struct name_entry *name; /* the work's */
	struct waitqueue wait;
	bool may_ask;    /* atomic */
	bool is_decided; /* atomic: the managers have answered, or cannot now */
	bool is_over;    /* atomic: this node is the gateway, or has no card that works */
} claim = {
	.wait = WAITQUEUE_INIT(claim.wait),
};

static void decided(void)
{
	__atomic_store_n(&claim.is_decided, true, __ATOMIC_RELEASE);
	wake_all(&claim.wait);
}

static void begin(void)
{
	const int err = tcpip_start();

	__atomic_store_n(&claim.is_over, true, __ATOMIC_RELEASE);
	if (err) {
		pr_err("no network card can be opened: error %d\n", err);
		names_drop(claim.name);
		claim.name = NULL;
		return;
	}
	pr_info("this node is the gateway\n");
	counter_inc(&became);
	outside_is_here();
	gateway_view_changed();
	ctl_gateway();
}

static void claim_work(struct work *w)
{
	const struct vnode_name name = { .kind = NAME_GATEWAY };
	uint32_t node, incarn;
	int err;

	(void)w;
	if (__atomic_load_n(&claim.is_over, __ATOMIC_ACQUIRE))
		return;
	err = names_set(&claim.name, &name, NULL);
	if (!err)
		begin();
	else if (err != -EADDRINUSE)
		pr_warn("the managers do not say who is the gateway: error %d\n", err);
	/* Another node has the name: it tells of its cards, or leaves the view. */
	if (err && !gateway_find(&node, &incarn))
		timer_set(&claim.timer, time_now_ns() + PAUSE_NS);
	decided();
}

static void ask(void)
{
	if (__atomic_load_n(&claim.may_ask, __ATOMIC_ACQUIRE))
		(void)work_queue(claim.wq, &claim.work); /* it may be queued already */
}

static void on_timer(void *arg)
{
	(void)arg;
	__atomic_store_n(&claim.may_ask, true, __ATOMIC_RELEASE);
	ask();
}

void gateway_claim(void)
{
	if (__atomic_load_n(&claim.wq, __ATOMIC_ACQUIRE) &&
	    !__atomic_load_n(&claim.is_over, __ATOMIC_ACQUIRE) && tcpip_has_cards())
		ask();
}

void gateway_claim_heard(void)
{
	__atomic_store_n(&claim.may_ask, true, __ATOMIC_RELEASE);
}

static void begin_claim(void)
{
	if (!tcpip_has_cards())
		return;
	if (is_standby) {
		timer_set(&claim.timer, time_now_ns() + STANDBY_NS);
		return;
	}
	gateway_claim_heard();
	gateway_claim();
	/* So that programs find the cards, where there is no need to wait for others. */
	(void)wait_event_timeout(&claim.wait, __atomic_load_n(&claim.is_decided, __ATOMIC_ACQUIRE),
				 time_after_ns(FIRST_NS));
}

void gateway_begin(void)
{
	begin_claim();
	gateway_programs_come(); /* whose patience begins when they do */
}

int gateway_claim_init(void)
{
	struct workqueue *wq = workqueue_create("gateway claim", 1);

	if (IS_ERR(wq))
		return (int)PTR_ERR(wq);
	work_init(&claim.work, claim_work);
	timer_init(&claim.timer, on_timer, NULL);
	__atomic_store_n(&claim.wq, wq, __ATOMIC_RELEASE);
	return 0;
}
