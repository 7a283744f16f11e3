/* SPDX-License-Identifier: MIT */
/*
 * HCA model: an HCA's subnet management and performance management agents.
 *
 * Failure:	an attribute or method that is not there is answered with its
 *		MAD status; a response or a trap is not answered at all.
 */
#include "hca.h"
#include "mad.h"

#define IB_VENDOR 0x0002c9u

/* Start an answer: the request's header and data with the method turned. */
void mad_reply(const uint8_t *in, uint8_t *out, uint16_t status)
{
	memcpy(out, in, MAD_SIZE);
	out[MAD_METHOD] =
		(in[MAD_METHOD] == METHOD_SET ? METHOD_GET : in[MAD_METHOD]) | METHOD_RESPONSE;
	if (in[1] == CLASS_SMP_ROUTED)
		status |= SMP_DIRECTION;
	put_be16(out + MAD_STATUS, status);
}

/* PortInfo of @h as its own agent tells it. */
static void port_info(struct hca *h, uint8_t *d)
{
	const struct port *p = &h->port;
	const bool up = p->state == PORT_ACTIVE;

	memset(d, 0, SMP_DATA_LEN);
	put_be64(d, p->m_key);
	put_be64(d + 8, GID_PREFIX);
	put_be16(d + 16, port_lid(h));
	put_be16(d + 18, p->sm_lid);
	put_be32(d + 20, p->cap_mask);
	d[28] = 1;
	d[29] = 3;                            /* width: enabled, */
	d[30] = 3;                            /* supported 1x and 4x, */
	d[31] = 2;                            /* active 4x */
	d[32] = (uint8_t)(7 << 4 | p->state); /* speeds SDR, DDR, QDR */
	d[33] = (uint8_t)((up ? 5 : 2) << 4 | 2);
	d[35] = (up ? 4 : 1) << 4 | 7;
	d[36] = (uint8_t)(p->mtu_cap << 4);
	d[37] = (uint8_t)(p->vl_cap << 4);
	d[41] = IB_MTU_4096;
	d[50] = NR_GIDS;
	d[51] = 18; /* subnet timeout */
}

static void node_info(const struct hca *h, uint8_t *d)
{
	d[0] = 1;
	d[1] = 1;
	d[2] = 1; /* channel adapter */
	d[3] = 1;
	put_be64(d + 4, h->port.guid + 2); /* system image */
	put_be64(d + 12, h->port.guid - 1);
	put_be64(d + 20, h->port.guid);
	put_be16(d + 28, NR_PKEYS);
	put_be16(d + 30, PCI_DEVICE_CX3);
	d[36] = 1;
	d[37] = (uint8_t)(IB_VENDOR >> 16);
	put_be16(d + 38, IB_VENDOR & 0xffff);
}

static void guid_info(const struct hca *h, uint32_t block, uint8_t *d)
{
	for (unsigned i = 0; block == 0 && i < NR_GIDS; i++)
		put_be64(d + i * 8, i ? h->port.extra_gids[i] : h->port.guid);
}

static void pkey_table(const struct hca *h, uint32_t block, uint8_t *d)
{
	for (unsigned i = 0; block == 0 && i < NR_PKEYS; i++)
		put_be16(d + i * 2, h->port.pkeys[i]);
}

static bool sma_get(struct hca *h, uint16_t attr, uint32_t mod, uint8_t *d)
{
	memset(d, 0, SMP_DATA_LEN);
	switch (attr) {
	case ATTR_NODE_DESC:
		memcpy(d, h->port.node_desc, sizeof(h->port.node_desc));
		return true;
	case ATTR_NODE_INFO:
		node_info(h, d);
		return true;
	case ATTR_GUID_INFO:
		guid_info(h, mod, d);
		return true;
	case ATTR_PORT_INFO:
		port_info(h, d);
		return true;
	case ATTR_PKEY_TABLE:
		pkey_table(h, mod & 0xffff, d);
		return true;
	case ATTR_SL2VL:
		put_be64(d, 0x0123456701234567ull);
		return true;
	case ATTR_VL_ARB:
	case ATTR_EXT_PORT_INFO:
		return true;
	default:
		return false;
	}
}

/*
 * Only the subnet manager may change the subnet; what a node may say about
 * itself is its description and, through its driver, its GUID aliases.
 */
static uint16_t sma_set(struct hca *h, uint16_t attr, uint32_t mod, const uint8_t *d)
{
	switch (attr) {
	case ATTR_NODE_DESC:
		memcpy(h->port.node_desc, d, sizeof(h->port.node_desc));
		return 0;
	case ATTR_GUID_INFO:
		for (unsigned i = 1; mod == 0 && i < NR_GIDS; i++)
			h->port.extra_gids[i] = get_be64(d + i * 8);
		return 0;
	case ATTR_PORT_INFO:
	case ATTR_PKEY_TABLE:
	case ATTR_SL2VL:
	case ATTR_VL_ARB:
		return 0; /* answered with what holds */
	default:
		return MAD_ST_BAD_ATTR;
	}
}

bool sma_process(struct hca *h, const uint8_t *in, uint8_t *out)
{
	const uint16_t attr = get_be16(in + MAD_ATTR);
	const uint32_t mod = get_be32(in + MAD_MOD);
	uint16_t status = 0;

	if (in[0] != 1 || in[MAD_METHOD] & METHOD_RESPONSE)
		return false;
	if (in[MAD_METHOD] == METHOD_SET)
		status = sma_set(h, attr, mod, in + SMP_DATA);
	else if (in[MAD_METHOD] != METHOD_GET)
		status = MAD_ST_BAD_METHOD;
	mad_reply(in, out, status);
	if (!status && !sma_get(h, attr, mod, out + SMP_DATA))
		mad_reply(in, out, MAD_ST_BAD_ATTR);
	return true;
}

/* Counters of 32 bits stop at their maximum. */
static uint32_t clamp32(uint64_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static void port_counters(const struct hca *h, uint8_t *d)
{
	put_be32(d + 24, clamp32(h->stats.tx_bytes / 4));
	put_be32(d + 28, clamp32(h->stats.rx_bytes / 4));
	put_be32(d + 32, clamp32(h->stats.tx_packets));
	put_be32(d + 36, clamp32(h->stats.rx_packets));
}

static void port_counters_x(const struct hca *h, uint8_t *d)
{
	put_be64(d + 8, h->stats.tx_bytes / 4);
	put_be64(d + 16, h->stats.rx_bytes / 4);
	put_be64(d + 24, h->stats.tx_packets);
	put_be64(d + 32, h->stats.rx_packets);
}

bool pma_process(struct hca *h, const uint8_t *in, uint8_t *out)
{
	uint8_t *d = out + PMA_DATA;

	if (in[0] != 1 || in[MAD_METHOD] & METHOD_RESPONSE)
		return false;
	if (in[MAD_METHOD] != METHOD_GET && in[MAD_METHOD] != METHOD_SET) {
		mad_reply(in, out, MAD_ST_BAD_METHOD);
		return true;
	}
	mad_reply(in, out, 0);
	memset(d + 4, 0, MAD_SIZE - PMA_DATA - 4);
	switch (get_be16(in + MAD_ATTR)) {
	case ATTR_CLASS_PORT_INFO:
		memset(d, 0, 4);
		d[0] = 1;
		d[1] = 1;
		put_be16(d + 2, 0x0200); /* extended counters */
		d[7] = 18;
		return true;
	case ATTR_PORT_COUNTERS:
		port_counters(h, d);
		return true;
	case ATTR_PORT_COUNTERS_X:
		port_counters_x(h, d);
		return true;
	default:
		mad_reply(in, out, MAD_ST_BAD_ATTR);
		return true;
	}
}
