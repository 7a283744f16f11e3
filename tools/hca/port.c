/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the port and its commands.
 *
 * The port is up when the driver has said INIT_PORT and the link is not cut by
 * fault injection; the subnet manager then makes it ACTIVE at once and tells
 * its LID.  Every change raises the events that a board with the "port
 * management change" capability raises.
 *
 * A driver that has been loaded a moment ago may not listen to events yet: Linux
 * loses those that come while mlx4_ib registers itself, and then believes for
 * ever that the port is down.  On a board links take seconds to train; here the
 * subnet manager asks every port to register again at its next sweeps.
 */
#include "hca.h"

#include <stdio.h>

#define PORT_NUM         1u
#define CAP_MASK_DEFAULT 0x02514868u
#define CHG_SM_LID       BIT(0)
#define CHG_LID          BIT(2)
#define CHG_REREGISTER   BIT(3)
#define SWEEP_FIRST_MS   1000u /* after the port became ACTIVE; each later one four times as long */
#define NR_SWEEPS        3u
#define SET_PORT_MTU     BIT(22)
#define SET_PORT_VL      BIT(21)

static void sweep_fired(struct alarm *t);

void port_init(struct hca *h, uint16_t lid, uint64_t guid)
{
	struct port *p = &h->port;

	p->guid = guid;
	p->lid = lid;
	p->state = PORT_DOWN;
	p->cap_mask = CAP_MASK_DEFAULT;
	p->mtu_cap = IB_MTU_4096;
	p->vl_cap = 4;
	p->sweep.fn = sweep_fired;
	p->pkeys[0] = PKEY_DEFAULT;
	snprintf(p->node_desc, sizeof(p->node_desc), "Tessera HCA model: %s", h->name);
}

/* The LID as the fabric knows it now. */
uint16_t port_lid(const struct hca *h)
{
	return h->port.state == PORT_ACTIVE ? h->port.lid : 0;
}

void port_gid(const struct hca *h, unsigned index, uint8_t gid[16])
{
	const uint64_t guid = index && index < NR_GIDS ? h->port.extra_gids[index] : h->port.guid;

	put_be64(gid, GID_PREFIX);
	put_be64(gid + 8, guid);
}

bool port_has_gid(const struct hca *h, const uint8_t gid[16])
{
	uint8_t own[16];

	for (unsigned i = 0; i < NR_GIDS; i++) {
		port_gid(h, i, own);
		if (get_be64(own + 8) && !memcmp(own, gid, sizeof(own)))
			return true;
	}
	return false;
}

static void event_port_info(struct hca *h, uint32_t changed)
{
	const struct hw_ev_port_mng ev = {
		.port = PORT_NUM,
		.sm_lid = cpu_to_be16(h->port.sm_lid),
		.lid = cpu_to_be16(port_lid(h)),
		.changed = cpu_to_be32(changed),
		.gid_prefix = cpu_to_be64(GID_PREFIX),
	};

	eq_event(h, EV_PORT_MNG_CHG, EV_SUB_PORT_INFO, &ev, sizeof(ev));
}

static void event_port_state(struct hca *h, uint8_t subtype)
{
	const struct hw_ev_port ev = { .port = cpu_to_be32(PORT_NUM << 28) };

	eq_event(h, EV_PORT_CHANGE, subtype, &ev, sizeof(ev));
}

static void sweep_arm(struct hca *h)
{
	struct fabric *f = h->fabric;
	const uint64_t ms = (uint64_t)SWEEP_FIRST_MS << 2 * h->port.sweeps;

	alarm_set(f, &h->port.sweep, f->now_ns + ms * NSEC_PER_MSEC);
}

static void sweep_fired(struct alarm *t)
{
	struct hca *h = container_of(t, struct hca, port.sweep);

	event_port_info(h, CHG_REREGISTER);
	if (++h->port.sweeps < NR_SWEEPS)
		sweep_arm(h);
}

/* Recompute the port's state after anything that it depends on has changed. */
void port_update(struct hca *h)
{
	struct port *p = &h->port;
	const bool up = p->inited && !p->link_down && !h->dead;
	const enum port_state state = up ? PORT_ACTIVE : PORT_DOWN;

	if (state == p->state)
		return;
	p->state = state;
	p->sm_lid = up ? SM_LID : 0;
	if (up) {
		event_port_info(h, CHG_SM_LID | CHG_LID | CHG_REREGISTER);
		event_port_state(h, EV_SUB_PORT_ACTIVE);
		p->sweeps = 0;
		sweep_arm(h);
	} else {
		alarm_cancel(h->fabric, &p->sweep);
		sa_forget(h->fabric, h);
		event_port_state(h, EV_SUB_PORT_DOWN);
	}
}

static bool bad_port(const struct cmd *c)
{
	return (c->im & 0xff) != PORT_NUM;
}

enum hca_status cmd_init_port(struct hca *h, struct cmd *c)
{
	if (bad_port(c))
		return ST_BAD_INDEX;
	h->port.inited = true;
	port_update(h);
	return ST_OK;
}

enum hca_status cmd_close_port(struct hca *h, struct cmd *c)
{
	if (bad_port(c))
		return ST_BAD_INDEX;
	h->port.inited = false;
	port_update(h);
	return ST_OK;
}

enum hca_status cmd_set_port(struct hca *h, struct cmd *c)
{
	const struct hw_set_port *x = c->in;
	const uint32_t flags = be32_to_cpu(x->flags);

	if (c->mod != 0)
		return ST_BAD_OP;
	if (bad_port(c))
		return ST_BAD_INDEX;
	if (flags & SET_PORT_VL) {
		const uint32_t lanes = bits(flags, 7, 4);

		if (lanes == 0 || lanes > 8 || lanes & (lanes - 1))
			return ST_BAD_SIZE;
		h->port.vl_cap = (uint8_t)(1 + __builtin_ctz(lanes)); /* 1, 2, 4, 8 lanes */
	}
	if (flags & SET_PORT_MTU) {
		const uint8_t mtu = (uint8_t)bits(flags, 15, 12);

		if (mtu < 1 || mtu > IB_MTU_4096)
			return ST_BAD_PARAM;
		h->port.mtu_cap = mtu;
	}
	h->port.cap_mask = be32_to_cpu(x->cap_mask);
	return ST_OK;
}

enum hca_status cmd_query_port(struct hca *h, struct cmd *c)
{
	struct hw_query_port *o = c->out;

	if (bad_port(c))
		return ST_BAD_INDEX;
	o->link = (h->port.state == PORT_ACTIVE ? 0x80 : 0) | 1; /* InfiniBand only */
	o->mtu = IB_MTU_4096;
	o->width = 3; /* 1x, 4x */
	o->log_gids_pkeys = 3 << 4 | 4;
	o->log_macs_vlans = 7 << 4 | 7;
	o->vl = 4;
	return ST_OK;
}

/* A MAD that the driver received, or makes up to ask about its own port. */
enum hca_status cmd_mad_ifc(struct hca *h, struct cmd *c)
{
	const struct mad_hdr *mad = c->in;
	bool answered;

	if (bad_port(c))
		return ST_BAD_INDEX;
	h->stats.mads++;
	switch (mad->class) {
	case CLASS_SMP_LID:
	case CLASS_SMP_ROUTED:
		answered = sma_process(h, mad, c->out);
		break;
	case CLASS_PMA:
		answered = pma_process(h, mad, c->out);
		break;
	default:
		answered = false;
	}
	return answered ? ST_OK : ST_BAD_PKT;
}
