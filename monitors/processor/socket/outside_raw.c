/* SPDX-License-Identifier: MIT */
/*
 * Raw packets from and to the outside: one part of the TCP/IP stack for each protocol that raw
 * sockets of this processor have, however many they are.
 *
 * Locking:	raws_mutex (RANK_NET), outside the stack's lock, guards the list. The stack calls
 *		on_packet() with its own lock held; it takes spinlocks only.
 * Failure:	packets from outside with a source address inside the vNode are dropped.
 * Limits:	a processor without a card in use gets no such packets and sends none.
 */
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/tcpip.h>

#include "raw.h"

struct outside_raw {
	struct list_head link;
	unsigned int users; /* raws_mutex */
	bool six;           /* const, as the next two */
	uint8_t protocol;
	struct tcpip_raw *raw;
};

static struct mutex raws_mutex = MUTEX_INIT(raws_mutex, "raw packets", RANK_NET);
static struct list_head raws __guarded_by(&raws_mutex) = LIST_HEAD_INIT(raws);

/* The stack's lock is held. */
static void on_packet(void *arg, const struct tcpip_packet *in, const void *data, size_t len)
{
	const struct outside_raw *o = arg;
	struct ip_packet p = {
		.six = o->six,
		.protocol = o->protocol,
		.bytes = data,
		.len = len,
		.head = { .interface = in->interface, .ttl = in->ttl, .tos = in->tos }
	};

	if (len > IP_MAX)
		return;
	memcpy(p.head.from.addr, in->from.addr, 16);
	memcpy(p.head.to.addr, in->to.addr, 16);
	if (!inet_is_local(p.head.from.addr))
		raw_deliver(&p);
}

int outside_raw_open(bool six, uint8_t protocol, struct outside_raw **out)
{
	struct outside_raw *o;
	int err = 0;

	mutex_lock(&raws_mutex);
	list_for_each_entry(o, &raws, link) {
		if (o->six == six && o->protocol == protocol)
			goto found;
	}
	o = kzalloc(sizeof(*o));
	err = -ENOBUFS;
	if (!o)
		goto out_unlock;
	o->six = six;
	o->protocol = protocol;
	err = tcpip_raw_open(six, protocol, on_packet, o, &o->raw);
	if (err) {
		kfree(o);
		goto out_unlock;
	}
	list_add_tail(&o->link, &raws);
found:
	o->users++;
	*out = o;
out_unlock:
	mutex_unlock(&raws_mutex);
	return err;
}

void outside_raw_close(struct outside_raw *o)
{
	mutex_lock(&raws_mutex);
	ASSERT(o->users > 0);
	if (!--o->users) {
		list_del(&o->link);
		tcpip_raw_close(o->raw);
		kfree(o);
	}
	mutex_unlock(&raws_mutex);
}

int outside_raw_send(struct outside_raw *o, const struct raw_out *out)
{
	const struct inet_packet *p = &out->packet.head;
	struct tcpip_packet packet = { .interface = p->interface, .ttl = p->ttl, .tos = p->tos };

	if (!tcpip_is_present())
		return -ENETUNREACH;
	packet.may_broadcast = out->may_broadcast;
	memcpy(packet.from.addr, p->from.addr, 16);
	memcpy(packet.to.addr, p->to.addr, 16);
	return tcpip_raw_send(o->raw, &packet, out->header, out->buf + RAW_ROOM, out->len);
}
