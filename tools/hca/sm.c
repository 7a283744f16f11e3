/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the switch's agent, where the subnet manager lives, and directed
 * routes through the switch.
 *
 * The subnet is one switch; its port n (from 1) leads to the HCA with index
 * n - 1, its port 0 is SM_LID.
 */
#include "hca.h"

#include <stdio.h>

#define MAX_ROUTE 63u

static void switch_node_info(const struct fabric *f, const struct hca *from, void *data)
{
	const struct node_info d = {
		.base_version = 1,
		.class_version = 1,
		.type = 2, /* switch */
		.nr_ports = (uint8_t)MIN(f->nr_hcas, 254u),
		.system_guid = cpu_to_be64(f->sm_guid),
		.node_guid = cpu_to_be64(f->sm_guid),
		.port_guid = cpu_to_be64(f->sm_guid),
		.nr_pkeys = cpu_to_be16(NR_PKEYS),
		.device = cpu_to_be16(0xc738),
		.port = (uint8_t)(from->index + 1),
		.vendor = { 0x00, 0x02, 0xc9 },
	};

	memcpy(data, &d, sizeof(d));
}

static bool switch_port_info(const struct fabric *f, uint32_t port, struct port_info *d)
{
	const struct hca *h;
	bool active;

	if (port > f->nr_hcas)
		return false;
	h = port ? f->hcas[port - 1] : NULL;
	active = port == 0 || (h && h->port.state == PORT_ACTIVE);
	d->gid_prefix = cpu_to_be64(GID_PREFIX);
	if (port == 0) {
		d->lid = cpu_to_be16(SM_LID);
		d->sm_lid = cpu_to_be16(SM_LID);
		d->cap_mask = cpu_to_be32(0x00000002); /* is the subnet manager */
	}
	d->width_enabled = 3;
	d->width_supported = 3;
	d->width_active = 2;
	d->speed_state = (uint8_t)(7 << 4 | (active ? PORT_ACTIVE : PORT_DOWN));
	d->phys_down_state = active ? 0x52 : 0x22;
	d->speeds = 4 << 4 | 7;
	d->mtu_sm_sl = IB_MTU_4096 << 4;
	d->vl_cap = 4 << 4;
	d->mtu_cap = IB_MTU_4096;
	return true;
}

static void switch_info(struct switch_info *d)
{
	d->linear_cap = cpu_to_be16(0xbfff); /* all LIDs */
	d->multicast_cap = cpu_to_be16(0x4000);
	d->linear_top = cpu_to_be16(0xbfff);
}

static void sm_info(const struct fabric *f, struct sm_info *d)
{
	d->guid = cpu_to_be64(f->sm_guid);
	d->prio_state = 15 << 4 | 3; /* highest priority, master */
}

static bool switch_get(const struct fabric *f, const struct hca *from, uint16_t attr, uint32_t mod,
		       void *d)
{
	memset(d, 0, SMP_DATA_LEN);
	switch (attr) {
	case ATTR_NODE_DESC:
		snprintf(d, SMP_DATA_LEN, "Tessera HCA model: switch");
		return true;
	case ATTR_NODE_INFO:
		switch_node_info(f, from, d);
		return true;
	case ATTR_SWITCH_INFO:
		switch_info(d);
		return true;
	case ATTR_PORT_INFO:
		return switch_port_info(f, mod & 0xff, d);
	case ATTR_PKEY_TABLE:
		put_be16(d, PKEY_DEFAULT);
		return true;
	case ATTR_GUID_INFO:
		put_be64(d, f->sm_guid);
		return true;
	case ATTR_SM_INFO:
		sm_info(f, d);
		return true;
	default:
		return false;
	}
}

/* A request for the switch or its subnet manager. */
bool sm_process(struct fabric *f, struct hca *from, const void *in, void *out)
{
	const struct mad_hdr *hdr = in;
	struct smp *answer = out;

	if (hdr->version != 1 || hdr->method & METHOD_RESPONSE)
		return false;
	if (hdr->method != METHOD_GET) {
		mad_reply(in, out, MAD_ST_BAD_METHOD);
		return true;
	}
	mad_reply(in, out, 0);
	if (!switch_get(f, from, be16_to_cpu(hdr->attr), be32_to_cpu(hdr->mod), answer->data))
		mad_reply(in, out, MAD_ST_BAD_ATTR);
	return true;
}

/* Follow the path: no hop is ourselves, one the switch, two the HCA behind a port of it. */
bool smp_route(struct hca *from, const void *in, void *out)
{
	const struct smp *smp = in;
	const unsigned hops = smp->hdr.hop_cnt;
	struct smp *answer = out;
	struct fabric *f = from->fabric;
	struct hca *to;
	bool ok;

	if (be16_to_cpu(smp->hdr.status) & SMP_DIRECTION || hops > MAX_ROUTE)
		return false;
	if (hops == 0)
		return sma_process(from, in, out);
	if (smp->path[1] != 1)
		return false;
	if (hops == 1 || (hops == 2 && smp->path[2] == 0)) {
		ok = sm_process(f, from, in, out);
	} else {
		const unsigned port = smp->path[2];

		to = hops == 2 && port <= f->nr_hcas ? f->hcas[port - 1] : NULL;
		ok = to && to->port.inited && !to->port.link_down && sma_process(to, in, out);
		answer->back[2] = 1;
	}
	if (!ok)
		return false;
	answer->back[1] = (uint8_t)(from->index + 1);
	answer->hdr.hop_ptr = 0;
	return true;
}
