/* SPDX-License-Identifier: MIT */
/*
 * Netlink's route family: decoding what programs send, encoding answers. Nothing but that is here,
 * so that a fuzzer can link it alone.
 *
 * Invariants:	a message that has no place leaves no byte behind.
 */
#include "rtnl.h"

#include <abi/net.h>
#include <abi/socket.h>
#include <lib/errno.h>
#include <lib/string.h>

#define HEADER      sizeof(struct linux_nlmsghdr)
#define ALIGNED(n)  (((size_t)(n) + 3) & ~(size_t)3)
#define TXQLEN      1000u
#define TYPE_MASK   0x3fffu /* of an attribute: without its flags */
#define ADDR_LEN(f) ((f) == AF_INET ? 4u : 16u)

/* --- decoding ------------------------------------------------------------------------ */

size_t nl_next(const void *buf, size_t len, struct linux_nlmsghdr *hdr)
{
	if (len < HEADER)
		return 0;
	memcpy(hdr, buf, HEADER);
	if (hdr->len < HEADER || hdr->len > len)
		return 0;
	return MIN(ALIGNED(hdr->len), len);
}

static int decode_name(const uint8_t *data, size_t len, struct rtnl_request *out)
{
	if (len && data[len - 1] == '\0')
		len--;
	if (len >= sizeof(out->name))
		return -ERANGE;
	memset(out->name, 0, sizeof(out->name));
	memcpy(out->name, data, len);
	return 0;
}

static int decode_number(const uint8_t *data, size_t len, void *out)
{
	if (len < sizeof(uint32_t))
		return -EINVAL;
	memcpy(out, data, sizeof(uint32_t));
	return 0;
}

static int decode_attr(uint16_t type, const uint8_t *data, size_t len, struct rtnl_request *out)
{
	const bool link = out->hdr.type == RTM_GETLINK, route = out->hdr.type == RTM_GETROUTE;

	if (link && (type == IFLA_IFNAME || type == IFLA_ALT_IFNAME))
		return decode_name(data, len, out);
	if (route && type == RTA_OIF)
		return decode_number(data, len, &out->index);
	if (route && type == RTA_TABLE)
		return decode_number(data, len, &out->table);
	if (!route || type != RTA_DST)
		return 0;
	if (len < ADDR_LEN(out->family))
		return -EINVAL;
	memcpy(out->dst, data, ADDR_LEN(out->family));
	if (!out->dst_len)
		out->dst_len = (uint8_t)(8 * ADDR_LEN(out->family));
	return 0;
}

/* The attributes behind the header of the type. Bytes too few for another are passed over. */
static int decode_attrs(const uint8_t *at, size_t left, struct rtnl_request *out)
{
	while (left >= sizeof(struct linux_rtattr)) {
		struct linux_rtattr a;
		size_t step;
		int err;

		memcpy(&a, at, sizeof(a));
		if (a.len < sizeof(a) || a.len > left)
			return -EINVAL;
		err = decode_attr(a.type & TYPE_MASK, at + sizeof(a), a.len - sizeof(a), out);
		if (err)
			return err;
		step = MIN(ALIGNED(a.len), left);
		at += step;
		left -= step;
	}
	return 0;
}

static int decode_header(const uint8_t *body, size_t len, struct rtnl_request *out, size_t *used)
{
	union {
		struct linux_ifinfomsg link;
		struct linux_ifaddrmsg addr;
		struct linux_rtmsg route;
	} h;

	*used = out->hdr.type == RTM_GETLINK   ? sizeof(h.link)
		: out->hdr.type == RTM_GETADDR ? sizeof(h.addr)
					       : sizeof(h.route);
	if (len < *used)
		return -EINVAL;
	memcpy(&h, body, *used);
	if (out->hdr.type == RTM_GETLINK) {
		out->index = h.link.index;
	} else if (out->hdr.type == RTM_GETADDR) {
		out->index = (int32_t)h.addr.index;
	} else {
		out->table = h.route.table;
		out->dst_len = h.route.dst_len;
		if (out->dst_len > 8 * ADDR_LEN(out->family))
			return -EINVAL;
	}
	return 0;
}

int rtnl_decode(const void *msg, const struct linux_nlmsghdr *hdr, bool strict,
		struct rtnl_request *out)
{
	const uint8_t *body = (const uint8_t *)msg + HEADER;
	const size_t len = hdr->len - HEADER;
	struct rtnl_request r = { .hdr = *hdr };
	size_t used;
	int err;

	if (hdr->type != RTM_GETLINK && hdr->type != RTM_GETADDR && hdr->type != RTM_GETROUTE)
		return -EOPNOTSUPP;
	if (!len)
		return -EINVAL;
	r.family = body[0];
	if (strict || !(hdr->flags & NLM_F_DUMP)) {
		err = decode_header(body, len, &r, &used);
		if (!err && len > ALIGNED(used))
			err = decode_attrs(body + ALIGNED(used), len - ALIGNED(used), &r);
		if (err)
			return err;
	}
	*out = r;
	return 0;
}

/* --- encoding ------------------------------------------------------------------------ */

/* The place of @len more bytes, which are 0; NULL: there is none. */
static void *reserve(struct nl_sink *out, size_t len)
{
	uint8_t *at = out->data + out->len;

	if (out->full || out->room - out->len < ALIGNED(len)) {
		out->full = true;
		return NULL;
	}
	memset(at, 0, ALIGNED(len));
	out->len += ALIGNED(len);
	return at;
}

static void put(struct nl_sink *out, const void *data, size_t len)
{
	void *at = reserve(out, len);

	if (at)
		memcpy(at, data, len);
}

/* Begin a message, whose own header is @own; where it is. */
static size_t begin(struct nl_sink *out, const struct nl_reply *to, uint16_t type, const void *own,
		    size_t len)
{
	const struct linux_nlmsghdr h = {
		.type = type, .flags = to->flags, .seq = to->seq, .pid = to->pid
	};
	const size_t start = out->len;

	out->full = false;
	put(out, &h, sizeof(h));
	put(out, own, len);
	return start;
}

static bool end(struct nl_sink *out, size_t start)
{
	const uint32_t len = (uint32_t)(out->len - start);

	if (out->full) {
		out->len = start;
		return false;
	}
	memcpy(out->data + start + offsetof(struct linux_nlmsghdr, len), &len, sizeof(len));
	return true;
}

static void attr(struct nl_sink *out, uint16_t type, const void *data, size_t len)
{
	const struct linux_rtattr a = { .len = (uint16_t)(sizeof(a) + len), .type = type };
	uint8_t *at = reserve(out, a.len);

	if (!at)
		return;
	memcpy(at, &a, sizeof(a));
	memcpy(at + sizeof(a), data, len);
}

static void attr_number(struct nl_sink *out, uint16_t type, uint32_t val)
{
	attr(out, type, &val, sizeof(val));
}

static void attr_byte(struct nl_sink *out, uint16_t type, uint8_t val)
{
	attr(out, type, &val, sizeof(val));
}

static void attr_text(struct nl_sink *out, uint16_t type, const char *text)
{
	attr(out, type, text, strlen(text) + 1);
}

static void put_stats(struct nl_sink *out, const struct inet_interface *i)
{
	const struct linux_link_stats64 wide = {
		.rx_packets = i->rx_packets,
		.tx_packets = i->tx_packets,
		.rx_bytes = i->rx_bytes,
		.tx_bytes = i->tx_bytes,
		.rx_errors = i->rx_errors,
		.tx_errors = i->tx_errors,
		.rx_dropped = i->rx_drops,
		.tx_dropped = i->tx_drops,
	};
	const struct linux_link_stats narrow = {
		.rx_packets = (uint32_t)i->rx_packets,
		.tx_packets = (uint32_t)i->tx_packets,
		.rx_bytes = (uint32_t)i->rx_bytes,
		.tx_bytes = (uint32_t)i->tx_bytes,
		.rx_errors = (uint32_t)i->rx_errors,
		.tx_errors = (uint32_t)i->tx_errors,
		.rx_dropped = (uint32_t)i->rx_drops,
		.tx_dropped = (uint32_t)i->tx_drops,
	};

	attr(out, IFLA_STATS64, &wide, sizeof(wide));
	attr(out, IFLA_STATS, &narrow, sizeof(narrow));
}

bool rtnl_put_link(struct nl_sink *out, const struct nl_reply *to, const struct inet_interface *i)
{
	static const uint8_t none[6];
	static const uint8_t all[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	const bool loopback = i->flags & IFF_LOOPBACK, up = i->flags & IFF_RUNNING;
	const struct linux_ifinfomsg h = {
		.type = loopback ? ARPHRD_LOOPBACK : ARPHRD_ETHER,
		.index = (int32_t)i->index,
		.flags = i->flags | (up ? IFF_LOWER_UP : 0),
	};
	const size_t start = begin(out, to, RTM_NEWLINK, &h, sizeof(h));

	attr_text(out, IFLA_IFNAME, i->name);
	attr_number(out, IFLA_TXQLEN, TXQLEN);
	attr_byte(out, IFLA_OPERSTATE, loopback ? IF_OPER_UNKNOWN : up ? IF_OPER_UP : IF_OPER_DOWN);
	attr_byte(out, IFLA_LINKMODE, 0);
	attr_number(out, IFLA_MTU, i->mtu);
	attr_number(out, IFLA_GROUP, 0);
	attr_number(out, IFLA_PROMISCUITY, 0);
	attr_number(out, IFLA_NUM_TX_QUEUES, 1);
	attr_number(out, IFLA_NUM_RX_QUEUES, 1);
	attr_byte(out, IFLA_CARRIER, up);
	attr_text(out, IFLA_QDISC, "noqueue");
	attr(out, IFLA_ADDRESS, i->mac, sizeof(i->mac));
	attr(out, IFLA_BROADCAST, loopback ? none : all, sizeof(all));
	put_stats(out, i);
	return end(out, start);
}

static void put_lifetime(struct nl_sink *out)
{
	const struct linux_ifa_cacheinfo forever = { .prefered = UINT32_MAX, .valid = UINT32_MAX };

	attr(out, IFA_CACHEINFO, &forever, sizeof(forever));
}

bool rtnl_put_addr4(struct nl_sink *out, const struct nl_reply *to, const struct inet_interface *i)
{
	const bool loopback = i->flags & IFF_LOOPBACK;
	const struct linux_ifaddrmsg h = {
		.family = AF_INET,
		.prefixlen = i->prefix4,
		.flags = IFA_F_PERMANENT,
		.scope = loopback ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
		.index = i->index,
	};
	const size_t start = begin(out, to, RTM_NEWADDR, &h, sizeof(h));

	attr(out, IFA_ADDRESS, i->addr4, sizeof(i->addr4));
	attr(out, IFA_LOCAL, i->addr4, sizeof(i->addr4));
	if (!loopback && i->prefix4 < 31) {
		uint8_t all[4];

		for (unsigned int b = 0; b < 4; b++) {
			const unsigned int fixed =
				MIN(i->prefix4 > 8 * b ? i->prefix4 - 8 * b : 0, 8u);

			all[b] = (uint8_t)(i->addr4[b] | (0xffu >> fixed));
		}
		attr(out, IFA_BROADCAST, all, sizeof(all));
	}
	attr_text(out, IFA_LABEL, i->name);
	attr_number(out, IFA_FLAGS, IFA_F_PERMANENT);
	put_lifetime(out);
	return end(out, start);
}

bool rtnl_put_addr6(struct nl_sink *out, const struct nl_reply *to, const struct inet_interface *i,
		    uint32_t nr)
{
	const struct linux_ifaddrmsg h = {
		.family = AF_INET6,
		.prefixlen = i->addr6[nr].prefix,
		.flags = IFA_F_PERMANENT,
		.scope = i->addr6[nr].scope,
		.index = i->index,
	};
	const size_t start = begin(out, to, RTM_NEWADDR, &h, sizeof(h));

	attr(out, IFA_ADDRESS, i->addr6[nr].addr, sizeof(i->addr6[nr].addr));
	put_lifetime(out);
	attr_number(out, IFA_FLAGS, IFA_F_PERMANENT);
	return end(out, start);
}

bool rtnl_put_route(struct nl_sink *out, const struct nl_reply *to, const struct rtnl_route *r)
{
	static const uint8_t none[16];
	const struct inet_route *in = &r->route;
	const size_t len = ADDR_LEN(in->family);
	const struct linux_rtmsg h = {
		.family = in->family,
		.dst_len = in->prefix,
		.table = (uint8_t)r->table,
		.protocol = r->protocol,
		.scope = r->scope,
		.type = r->type,
		.flags = r->flags,
	};
	const size_t start = begin(out, to, RTM_NEWROUTE, &h, sizeof(h));

	attr_number(out, RTA_TABLE, r->table);
	if (in->prefix)
		attr(out, RTA_DST, in->dst, len);
	if (in->metric)
		attr_number(out, RTA_PRIORITY, in->metric);
	if (r->has_source)
		attr(out, RTA_PREFSRC, r->source, len);
	if (memcmp(in->gateway, none, len))
		attr(out, RTA_GATEWAY, in->gateway, len);
	attr_number(out, RTA_OIF, in->interface);
	return end(out, start);
}

bool nl_put_done(struct nl_sink *out, const struct nl_reply *to)
{
	const struct nl_reply last = { to->seq, to->pid, to->flags | NLM_F_MULTI };
	const int32_t err = 0;

	return end(out, begin(out, &last, NLMSG_DONE, &err, sizeof(err)));
}

bool nl_put_error(struct nl_sink *out, const struct nl_reply *to, const struct linux_nlmsghdr *hdr,
		  const void *msg, int err)
{
	const struct linux_nlmsgerr e = { .error = err, .msg = *hdr };
	const struct nl_reply reply = { to->seq, to->pid, msg ? 0 : NLM_F_CAPPED };
	const size_t start = begin(out, &reply, NLMSG_ERROR, &e, sizeof(e));

	if (msg)
		put(out, (const uint8_t *)msg + HEADER, hdr->len - HEADER);
	return end(out, start);
}
