/* SPDX-License-Identifier: MIT */
/*
 * Ancillary data: decoding what programs send. Nothing but that is here, so that a fuzzer can link
 * it alone.
 */
#include "cmsg.h"

#include <abi/in.h>
#include <lib/errno.h>
#include <lib/string.h>

#define CMSG_ALIGNED(len) (((len) + 7) & ~(uint64_t)7)
#define HEADER            sizeof(struct linux_cmsghdr)

static int add_fds(const uint8_t *data, size_t len, struct cmsg_request *out)
{
	const size_t nr = len / sizeof(int);

	if (nr > LINUX_SCM_MAX_FD - out->nr_fds)
		return -EINVAL;
	memcpy(&out->fds[out->nr_fds], data, nr * sizeof(int));
	out->nr_fds += (uint32_t)nr;
	return 0;
}

static int decode_unix(const struct linux_cmsghdr *h, const uint8_t *data, size_t len,
		       struct cmsg_request *out)
{
	if (h->level != SOL_SOCKET)
		return 0;
	if (h->type == SCM_RIGHTS)
		return add_fds(data, len, out);
	if (h->type != SCM_CREDENTIALS || len != sizeof(out->cred))
		return -EINVAL;
	memcpy(&out->cred, data, len);
	out->has_cred = true;
	return 0;
}

/* A number of @len bytes, four or, with @short_too, one. -EINVAL: it is not @min to @max. */
static int fetch_number(const uint8_t *data, size_t len, bool short_too, int min, int max, int *out)
{
	if (len == sizeof(*out))
		memcpy(out, data, sizeof(*out));
	else if (len == 1 && short_too)
		*out = *data;
	else
		return -EINVAL;
	return *out < min || *out > max ? -EINVAL : 0;
}

static int decode_ip(int type, const uint8_t *data, size_t len, struct inet_wish *out)
{
	struct linux_in_pktinfo info;
	int number, err;

	switch (type) {
	case IP_PKTINFO:
		if (len != sizeof(info))
			return -EINVAL;
		memcpy(&info, data, sizeof(info));
		/* As Linux: of several, the last address and the last interface that is none. */
		if (info.ifindex)
			out->interface = info.ifindex;
		memset(out->from, 0, sizeof(out->from));
		out->from[10] = out->from[11] = 0xff;
		memcpy(out->from + 12, &info.spec_dst, sizeof(info.spec_dst));
		out->has |= INET_WISH_FROM;
		return 0;
	case IP_TTL:
		err = fetch_number(data, len, false, 1, 255, &number);
		if (err)
			return err;
		out->ttl = (uint8_t)number;
		out->has |= INET_WISH_TTL;
		return 0;
	case IP_TOS:
		err = fetch_number(data, len, true, 0, 255, &number);
		if (err)
			return err;
		out->tos = (uint8_t)number;
		out->has |= INET_WISH_TOS;
		return 0;
	default:
		return -EINVAL;
	}
}

/* -1 stands for the socket's own. */
static int decode_ipv6(int type, const uint8_t *data, size_t len, struct inet_wish *out)
{
	const uint32_t bit = type == IPV6_HOPLIMIT ? INET_WISH_TTL : INET_WISH_TOS;
	struct linux_in6_pktinfo info;
	int number, err;

	switch (type) {
	case IPV6_PKTINFO:
		if (len < sizeof(info))
			return -EINVAL;
		memcpy(&info, data, sizeof(info));
		if (info.ifindex)
			out->interface = info.ifindex;
		memcpy(out->from, info.addr, sizeof(out->from));
		out->has |= INET_WISH_FROM;
		return 0;
	case IPV6_HOPLIMIT:
	case IPV6_TCLASS:
		err = fetch_number(data, len, false, -1, 255, &number);
		if (err)
			return err;
		out->has = number < 0 ? out->has & ~bit : out->has | bit;
		*(type == IPV6_HOPLIMIT ? &out->ttl : &out->tos) = (uint8_t)number;
		return 0;
	default:
		return -EINVAL;
	}
}

/* Wishes for the packet of one datagram. */
static int decode_inet(const struct linux_cmsghdr *h, const uint8_t *data, size_t len,
		       uint16_t family, struct cmsg_request *out)
{
	switch (h->level) {
	case SOL_SOCKET:
		return h->type == SCM_RIGHTS || h->type == SCM_CREDENTIALS ? 0 : -EINVAL;
	case SOL_IP:
		return decode_ip(h->type, data, len, &out->wish4);
	case SOL_IPV6:
		return family == AF_INET6 ? decode_ipv6(h->type, data, len, &out->wish6) : 0;
	case SOL_UDP: /* UDP_SEGMENT: there is no such thing */
		return -EINVAL;
	default:
		return 0;
	}
}

int cmsg_decode(const void *buf, size_t len, uint16_t family, struct cmsg_request *out)
{
	const uint8_t *at = buf;

	out->nr_fds = 0;
	out->has_cred = false;
	memset(&out->wish4, 0, sizeof(out->wish4));
	memset(&out->wish6, 0, sizeof(out->wish6));
	while (len >= HEADER) {
		struct linux_cmsghdr h;
		uint64_t step;
		int err = 0;

		memcpy(&h, at, sizeof(h));
		if (h.len < HEADER || h.len > len)
			return -EINVAL;
		if (family == AF_UNIX)
			err = decode_unix(&h, at + HEADER, h.len - HEADER, out);
		else if (family == AF_INET || family == AF_INET6)
			err = decode_inet(&h, at + HEADER, h.len - HEADER, family, out);
		if (err)
			return err;
		step = CMSG_ALIGNED(h.len);
		if (step >= len)
			break;
		at += step;
		len -= step;
	}
	return 0;
}
