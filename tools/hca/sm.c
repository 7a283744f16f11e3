/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the switch's agent, where the subnet manager lives, and directed
 * routes through the switch.
 *
 * The subnet is one switch; its port n (from 1) leads to the HCA with index
 * n - 1, its port 0 is SM_LID.
 */
#include "hca.h"
#include "mad.h"

#include <stdio.h>

#define MAX_ROUTE 63u

static void switch_node_info(const struct fabric *f, const struct hca *from, uint8_t *d)
{
	d[0] = 1;
	d[1] = 1;
	d[2] = 2; /* switch */
	d[3] = (uint8_t)MIN(f->nr_hcas, 254u);
	put_be64(d + 4, f->sm_guid);
	put_be64(d + 12, f->sm_guid);
	put_be64(d + 20, f->sm_guid);
	put_be16(d + 28, NR_PKEYS);
	put_be16(d + 30, 0xc738);
	put_be32(d + 36, (uint32_t)(from->index + 1) << 24 | 0x0002c9);
}

static bool switch_port_info(const struct fabric *f, uint32_t port, uint8_t *d)
{
	const struct hca *h;

	if (port > f->nr_hcas)
		return false;
	h = port ? f->hcas[port - 1] : NULL;
	put_be64(d + 8, GID_PREFIX);
	if (port == 0) {
		put_be16(d + 16, SM_LID);
		put_be16(d + 18, SM_LID);
		put_be32(d + 20, 0x00000002); /* is the subnet manager */
	}
	d[28] = 0;
	d[29] = 3;
	d[30] = 3;
	d[31] = 2;
	d[32] = 7 << 4 |
		(port == 0 || (h && h->port.state == PORT_ACTIVE) ? PORT_ACTIVE : PORT_DOWN);
	d[33] = (d[32] & 0xf) == PORT_ACTIVE ? 0x52 : 0x22;
	d[35] = 4 << 4 | 7;
	d[36] = IB_MTU_4096 << 4;
	d[37] = 4 << 4;
	d[41] = IB_MTU_4096;
	return true;
}

static bool switch_get(const struct fabric *f, const struct hca *from, uint16_t attr, uint32_t mod,
		       uint8_t *d)
{
	memset(d, 0, SMP_DATA_LEN);
	switch (attr) {
	case ATTR_NODE_DESC:
		snprintf((char *)d, SMP_DATA_LEN, "Tessera HCA model: switch");
		return true;
	case ATTR_NODE_INFO:
		switch_node_info(f, from, d);
		return true;
	case ATTR_SWITCH_INFO:
		put_be16(d, 0xbfff);     /* linear forwarding table: all LIDs */
		put_be16(d + 4, 0x4000); /* multicast table */
		put_be16(d + 6, 0xbfff);
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
		put_be64(d, f->sm_guid);
		d[20] = 15 << 4 | 3; /* highest priority, master */
		return true;
	default:
		return false;
	}
}

/* A request for the switch or its subnet manager. */
bool sm_process(struct fabric *f, struct hca *from, const uint8_t *in, uint8_t *out)
{
	if (in[0] != 1 || in[MAD_METHOD] & METHOD_RESPONSE)
		return false;
	if (in[MAD_METHOD] != METHOD_GET) {
		mad_reply(in, out, MAD_ST_BAD_METHOD);
		return true;
	}
	mad_reply(in, out, 0);
	if (!switch_get(f, from, get_be16(in + MAD_ATTR), get_be32(in + MAD_MOD), out + SMP_DATA))
		mad_reply(in, out, MAD_ST_BAD_ATTR);
	return true;
}

/* Follow the path: no hop is ourselves, one the switch, two the HCA behind a port of it. */
bool smp_route(struct hca *from, const uint8_t *in, uint8_t *out)
{
	const unsigned hops = in[SMP_HOP_CNT];
	struct fabric *f = from->fabric;
	struct hca *to;
	bool ok;

	if (get_be16(in + MAD_STATUS) & SMP_DIRECTION || hops > MAX_ROUTE)
		return false;
	if (hops == 0)
		return sma_process(from, in, out);
	if (in[SMP_PATH + 1] != 1)
		return false;
	if (hops == 1 || (hops == 2 && in[SMP_PATH + 2] == 0)) {
		ok = sm_process(f, from, in, out);
	} else {
		const unsigned port = in[SMP_PATH + 2];

		to = hops == 2 && port <= f->nr_hcas ? f->hcas[port - 1] : NULL;
		ok = to && to->port.inited && !to->port.link_down && sma_process(to, in, out);
		out[SMP_RETURN + 2] = 1;
	}
	if (!ok)
		return false;
	out[SMP_RETURN + 1] = (uint8_t)(from->index + 1);
	out[SMP_HOP_PTR] = 0;
	return true;
}
