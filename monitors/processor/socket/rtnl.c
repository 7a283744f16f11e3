/* SPDX-License-Identifier: MIT */
/*
 * Netlink's route family: what is asked for is found and answered.
 *
 * Flow:	a dump walks all interfaces or routes and appends one message for each to the part
 *		that is being written; a part that is full goes out. A single request is answered by
 *		one message.
 * Context:	the task that asks; may sleep, holds no lock.
 * Failure:	what the program asks wrongly is an errno, which the caller tells it in a message.
 */
#include "rtnl.h"

#include <abi/net.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>

#include "interface.h"

#define TYPE_LAST     123u /* of Linux 6.1: RTM_MAX */
#define KIND_MASK     3u
#define KIND_GET      2u /* of four types that follow each other, the one that asks */
#define FAMILY_BRIDGE 7u

struct answer {
	struct nl_out *out;
	struct nl_reply to;
	const struct rtnl_request *req;
	bool strict;
};

/* --- parts --------------------------------------------------------------------------- */

static int flush(struct nl_out *out)
{
	const int err = out->sink.len ? out->send(out) : 0;

	out->sink.len = 0;
	return err;
}

/* Write one message by @put, in the next part if this one has no place. */
#define APPEND(out, put)                          \
	({                                        \
		int err_ = 0;                     \
                                                  \
		if (!(put)) {                     \
			err_ = flush(out);        \
			if (!err_ && !(put))      \
				err_ = -EMSGSIZE; \
		}                                 \
		err_;                             \
	})

/* --- interfaces and addresses -------------------------------------------------------- */

static int dump_links(struct answer *a)
{
	struct inet_interface i;
	int err = 0;

	for (unsigned int nr = 0; !err && inet_interface_at(nr, &i); nr++)
		err = APPEND(a->out, rtnl_put_link(&a->out->sink, &a->to, &i));
	return err;
}

/* Addresses of one family; AF_UNSPEC: of both. */
static int dump_addrs(struct answer *a)
{
	const uint8_t family = a->req->family;
	struct inet_interface i;
	int err = 0;

	for (unsigned int nr = 0; !err && inet_interface_at(nr, &i); nr++) {
		if (a->strict && a->req->index && a->req->index != (int32_t)i.index)
			continue;
		if (family != AF_INET6 && i.prefix4)
			err = APPEND(a->out, rtnl_put_addr4(&a->out->sink, &a->to, &i));
		for (uint32_t k = 0; !err && family != AF_INET && k < i.nr_addr6; k++)
			err = APPEND(a->out, rtnl_put_addr6(&a->out->sink, &a->to, &i, k));
	}
	return err;
}

static int get_link(struct answer *a)
{
	const struct rtnl_request *req = a->req;
	struct inet_interface i;

	if (req->index <= 0 && !req->name[0])
		return -EINVAL;
	for (unsigned int nr = 0; inet_interface_at(nr, &i); nr++) {
		if (req->index > 0 ? req->index == (int32_t)i.index : !strcmp(req->name, i.name))
			return APPEND(a->out, rtnl_put_link(&a->out->sink, &a->to, &i));
	}
	return -ENODEV;
}

/* --- routes -------------------------------------------------------------------------- */

/* Are the first @bits of @a and @b the same? */
static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	const unsigned int bytes = bits / 8, rest = bits % 8;

	if (memcmp(a, b, bytes))
		return false;
	return !rest || !((a[bytes] ^ b[bytes]) >> (8 - rest));
}

static bool find_interface(uint32_t index, struct inet_interface *out)
{
	for (unsigned int nr = 0; inet_interface_at(nr, out); nr++) {
		if (out->index == index)
			return true;
	}
	return false;
}

/* The address of @i that packets of @family to @dst carry. False: it has none. */
static bool source_of(const struct inet_interface *i, uint8_t family, const uint8_t *dst,
		      uint8_t source[16])
{
	const bool local = family == AF_INET6 && dst[0] == 0xfe && (dst[1] & 0xc0) == 0x80;

	if (family == AF_INET) {
		memcpy(source, i->addr4, sizeof(i->addr4));
		return i->prefix4;
	}
	for (uint32_t k = 0; k < i->nr_addr6; k++) {
		if (local == (i->addr6[k].scope == RT_SCOPE_LINK)) {
			memcpy(source, i->addr6[k].addr, 16);
			return true;
		}
	}
	return false;
}

/* As it stands in the main table. */
static void describe(const struct inet_route *r, struct rtnl_route *out)
{
	const bool gateway = !inet_is_zero(r->gateway, sizeof(r->gateway));
	struct inet_interface i;

	*out = (struct rtnl_route){
		.route = *r,
		.type = RTN_UNICAST,
		.protocol = !gateway                ? RTPROT_KERNEL
			    : r->family == AF_INET6 ? RTPROT_RA
						    : RTPROT_DHCP,
		.scope = gateway || r->family == AF_INET6 ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
		.table = RT_TABLE_MAIN,
	};
	/* As Linux: a route that came with an address names it. */
	if (!gateway && r->family == AF_INET && find_interface(r->interface, &i))
		out->has_source = source_of(&i, r->family, r->dst, out->source);
}

static int dump_routes(struct answer *a)
{
	const struct rtnl_request *req = a->req;
	struct inet_route r;
	int err = 0;

	if (a->strict && req->table && req->table != RT_TABLE_MAIN)
		return -ENOENT;
	for (unsigned int nr = 0; !err && inet_route_at(nr, &r); nr++) {
		struct rtnl_route route;

		if ((req->family == AF_INET || req->family == AF_INET6) && req->family != r.family)
			continue;
		if (a->strict && req->index && req->index != (int32_t)r.interface)
			continue;
		describe(&r, &route);
		err = APPEND(a->out, rtnl_put_route(&a->out->sink, &a->to, &route));
	}
	return err;
}

/* Is @dst an address of @i, or on the loopback's network? */
static bool is_own(const struct inet_interface *i, uint8_t family, const uint8_t *dst)
{
	if (family == AF_INET)
		return i->prefix4 &&
		       same_bits(i->addr4, dst, i->flags & IFF_LOOPBACK ? i->prefix4 : 32);
	for (uint32_t k = 0; k < i->nr_addr6; k++) {
		if (!memcmp(i->addr6[k].addr, dst, 16))
			return true;
	}
	return false;
}

/* The way to @req->dst through the loopback, if it is an address of ours. */
static bool find_local(const struct rtnl_request *req, struct rtnl_route *out)
{
	struct inet_interface i;

	for (unsigned int nr = 0; inet_interface_at(nr, &i); nr++) {
		if (!is_own(&i, req->family, req->dst))
			continue;
		out->type = RTN_LOCAL;
		out->table = RT_TABLE_LOCAL;
		out->route.interface = LOOPBACK_INDEX;
		out->has_source = true;
		memcpy(out->source, req->dst, sizeof(out->source));
		return true;
	}
	return false;
}

/* The longest prefix of the main table that holds @req->dst. */
static bool find_route(const struct rtnl_request *req, struct rtnl_route *out)
{
	struct inet_interface i;
	struct inet_route r;
	int best = -1;

	for (unsigned int nr = 0; inet_route_at(nr, &r); nr++) {
		if (r.family != req->family || r.prefix <= best ||
		    (req->index && req->index != (int32_t)r.interface) ||
		    !same_bits(r.dst, req->dst, r.prefix))
			continue;
		best = r.prefix;
		out->route.interface = r.interface;
		memcpy(out->route.gateway, r.gateway, sizeof(r.gateway));
	}
	if (best < 0)
		return false;
	out->type = RTN_UNICAST;
	out->table = RT_TABLE_MAIN;
	out->has_source = find_interface(out->route.interface, &i) &&
			  source_of(&i, req->family, req->dst, out->source);
	return true;
}

static int get_route(struct answer *a)
{
	const struct rtnl_request *req = a->req;
	struct rtnl_route r = {
		.route = { .family = req->family },
		.protocol = RTPROT_UNSPEC,
		.scope = RT_SCOPE_UNIVERSE,
		.flags = RTM_F_CLONED,
	};

	if (req->family != AF_INET && req->family != AF_INET6)
		return -EOPNOTSUPP;
	r.route.prefix = req->family == AF_INET ? 32 : 128;
	memcpy(r.route.dst, req->dst, sizeof(req->dst));
	if (!find_local(req, &r) && !find_route(req, &r))
		return -ENETUNREACH;
	return APPEND(a->out, rtnl_put_route(&a->out->sink, &a->to, &r));
}

/* --- requests ------------------------------------------------------------------------ */

static int dump(struct answer *a)
{
	int err;

	a->to.flags = NLM_F_MULTI;
	switch (a->req->hdr.type) {
	case RTM_GETLINK:
		err = a->req->family == FAMILY_BRIDGE ? -EOPNOTSUPP : dump_links(a);
		break;
	case RTM_GETADDR:
		err = dump_addrs(a);
		break;
	default:
		err = dump_routes(a);
		break;
	}
	if (!err)
		err = APPEND(a->out, nl_put_done(&a->out->sink, &a->to));
	return err;
}

static int get_one(struct answer *a)
{
	switch (a->req->hdr.type) {
	case RTM_GETLINK:
		return get_link(a);
	case RTM_GETROUTE:
		return get_route(a);
	default:
		return -EOPNOTSUPP; /* as Linux, of IPv4 */
	}
}

int rtnl_answer(struct nl_out *out, const struct linux_nlmsghdr *hdr, const void *msg, uint32_t pid,
		bool strict, bool admin)
{
	struct rtnl_request req;
	struct answer a = {
		.out = out, .to = { .seq = hdr->seq, .pid = pid }, .req = &req, .strict = strict
	};
	const bool wants_all = hdr->flags & NLM_F_DUMP;
	int err;

	ASSERT(!out->sink.len && out->sink.room == NL_PART);
	if (hdr->type < RTM_BASE || hdr->type > TYPE_LAST)
		return -EOPNOTSUPP;
	if (hdr->len == sizeof(*hdr))
		return 0; /* as Linux: without even a family, nothing is asked */
	if ((hdr->type & KIND_MASK) != KIND_GET && !admin)
		return -EPERM;
	err = rtnl_decode(msg, hdr, strict, &req);
	if (!err)
		err = wants_all ? dump(&a) : get_one(&a);
	if (!err)
		err = flush(out);
	if (err) {
		out->sink.len = 0;
		return err;
	}
	return wants_all ? RTNL_ANSWERED : 0;
}
