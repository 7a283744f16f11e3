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

/* Options of one datagram: they are checked, and change nothing inside of a vNode. */
static int decode_inet(const struct linux_cmsghdr *h, size_t len)
{
	if (h->level == SOL_SOCKET)
		return h->type == SCM_RIGHTS || h->type == SCM_CREDENTIALS ? 0 : -EINVAL;
	if (h->level == SOL_IP) {
		if (h->type == IP_PKTINFO)
			return len == sizeof(struct linux_in_pktinfo) ? 0 : -EINVAL;
		if (h->type == IP_TTL)
			return len == sizeof(int) ? 0 : -EINVAL;
		if (h->type == IP_TOS)
			return len == sizeof(int) || len == 1 ? 0 : -EINVAL;
		return -EINVAL;
	}
	if (h->level == SOL_IPV6) {
		if (h->type == IPV6_PKTINFO)
			return len >= sizeof(struct linux_in6_pktinfo) ? 0 : -EINVAL;
		if (h->type == IPV6_HOPLIMIT || h->type == IPV6_TCLASS)
			return len == sizeof(int) ? 0 : -EINVAL;
		return -EINVAL;
	}
	return 0;
}

int cmsg_decode(const void *buf, size_t len, uint16_t family, struct cmsg_request *out)
{
	const uint8_t *at = buf;

	out->nr_fds = 0;
	out->has_cred = false;
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
			err = decode_inet(&h, h.len - HEADER);
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
