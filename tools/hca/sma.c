/* SPDX-License-Identifier: MIT */
/*
 * HCA model: an HCA's subnet management and performance management agents.
 *
 * Failure:	an attribute or method that is not there is answered with its
 *		MAD status; a response or a trap is not answered at all.
 */
#include "hca.h"

#define IB_VENDOR 0x0002c9u

/* Start an answer: the request's header and data with the method turned. */
void mad_reply(const void *in, void *out, uint16_t status)
{
	struct mad_hdr *hdr = out;

	memcpy(out, in, MAD_SIZE);
	hdr->method = (hdr->method == METHOD_SET ? METHOD_GET : hdr->method) | METHOD_RESPONSE;
	if (hdr->class == CLASS_SMP_ROUTED)
		status |= SMP_DIRECTION;
	hdr->status = cpu_to_be16(status);
}

/* PortInfo of @h as its own agent tells it. */
static void port_info(struct hca *h, void *data)
{
	const struct port *p = &h->port;
	const bool up = p->state == PORT_ACTIVE;
	const struct port_info d = {
		.m_key = cpu_to_be64(p->m_key),
		.gid_prefix = cpu_to_be64(GID_PREFIX),
		.lid = cpu_to_be16(port_lid(h)),
		.sm_lid = cpu_to_be16(p->sm_lid),
		.cap_mask = cpu_to_be32(p->cap_mask),
		.port = 1,
		.width_enabled = 3,                          /* 1x and 4x */
		.width_supported = 3,                        /* 1x and 4x */
		.width_active = 2,                           /* 4x */
		.speed_state = (uint8_t)(7 << 4 | p->state), /* SDR, DDR, QDR */
		.phys_down_state = (uint8_t)((up ? 5 : 2) << 4 | 2),
		.speeds = (up ? 4 : 1) << 4 | 7,
		.mtu_sm_sl = (uint8_t)(p->mtu_cap << 4),
		.vl_cap = (uint8_t)(p->vl_cap << 4),
		.mtu_cap = IB_MTU_4096,
		.nr_gids = NR_GIDS,
		.subnet_timeout = 18,
	};

	memcpy(data, &d, sizeof(d));
}

static void node_info(const struct hca *h, void *data)
{
	const struct node_info d = {
		.base_version = 1,
		.class_version = 1,
		.type = 1, /* channel adapter */
		.nr_ports = 1,
		.system_guid = cpu_to_be64(h->port.guid + 2),
		.node_guid = cpu_to_be64(h->port.guid - 1),
		.port_guid = cpu_to_be64(h->port.guid),
		.nr_pkeys = cpu_to_be16(NR_PKEYS),
		.device = cpu_to_be16(PCI_DEVICE_CX3),
		.port = 1,
		.vendor = { IB_VENDOR >> 16, IB_VENDOR >> 8 & 0xff, IB_VENDOR & 0xff },
	};

	memcpy(data, &d, sizeof(d));
}

static void guid_info(const struct hca *h, uint32_t block, be64_t *guids)
{
	for (unsigned i = 0; block == 0 && i < NR_GIDS; i++)
		guids[i] = cpu_to_be64(i ? h->port.extra_gids[i] : h->port.guid);
}

static void pkey_table(const struct hca *h, uint32_t block, be16_t *pkeys)
{
	for (unsigned i = 0; block == 0 && i < NR_PKEYS; i++)
		pkeys[i] = cpu_to_be16(h->port.pkeys[i]);
}

static bool sma_get(struct hca *h, uint16_t attr, uint32_t mod, void *d)
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
		put_be64(d, 0x0123456701234567ull); /* half a byte for each level */
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
static uint16_t sma_set(struct hca *h, uint16_t attr, uint32_t mod, const void *d)
{
	const be64_t *guids = d;

	switch (attr) {
	case ATTR_NODE_DESC:
		memcpy(h->port.node_desc, d, sizeof(h->port.node_desc));
		return 0;
	case ATTR_GUID_INFO:
		for (unsigned i = 1; mod == 0 && i < NR_GIDS; i++)
			h->port.extra_gids[i] = be64_to_cpu(guids[i]);
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

bool sma_process(struct hca *h, const void *in, void *out)
{
	const struct smp *smp = in;
	const uint16_t attr = be16_to_cpu(smp->hdr.attr);
	const uint32_t mod = be32_to_cpu(smp->hdr.mod);
	struct smp *answer = out;
	uint16_t status = 0;

	if (smp->hdr.version != 1 || smp->hdr.method & METHOD_RESPONSE)
		return false;
	if (smp->hdr.method == METHOD_SET)
		status = sma_set(h, attr, mod, smp->data);
	else if (smp->hdr.method != METHOD_GET)
		status = MAD_ST_BAD_METHOD;
	mad_reply(in, out, status);
	if (!status && !sma_get(h, attr, mod, answer->data))
		mad_reply(in, out, MAD_ST_BAD_ATTR);
	return true;
}

/* Counters of 32 bits stop at their maximum. */
static uint32_t clamp32(uint64_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static void port_counters(const struct hca *h, struct port_counters *d)
{
	d->tx_words = cpu_to_be32(clamp32(h->stats.tx_bytes / 4));
	d->rx_words = cpu_to_be32(clamp32(h->stats.rx_bytes / 4));
	d->tx_packets = cpu_to_be32(clamp32(h->stats.tx_packets));
	d->rx_packets = cpu_to_be32(clamp32(h->stats.rx_packets));
}

static void port_counters_x(const struct hca *h, struct port_counters_x *d)
{
	d->tx_words = cpu_to_be64(h->stats.tx_bytes / 4);
	d->rx_words = cpu_to_be64(h->stats.rx_bytes / 4);
	d->tx_packets = cpu_to_be64(h->stats.tx_packets);
	d->rx_packets = cpu_to_be64(h->stats.rx_packets);
}

static void class_port_info(struct class_port_info *d)
{
	d->base_version = 1;
	d->class_version = 1;
	d->cap_mask = cpu_to_be16(0x0200); /* extended counters */
	d->response_time = 18;
}

bool pma_process(struct hca *h, const void *in, void *out)
{
	const struct mad_hdr *hdr = in;
	struct pma_mad *answer = out;
	void *d = answer->data;

	if (hdr->version != 1 || hdr->method & METHOD_RESPONSE)
		return false;
	if (hdr->method != METHOD_GET && hdr->method != METHOD_SET) {
		mad_reply(in, out, MAD_ST_BAD_METHOD);
		return true;
	}
	mad_reply(in, out, 0);
	memset(answer->data + 4, 0, sizeof(answer->data) - 4); /* the selectors stay */
	switch (be16_to_cpu(hdr->attr)) {
	case ATTR_CLASS_PORT_INFO:
		class_port_info(d);
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
