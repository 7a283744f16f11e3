/* SPDX-License-Identifier: MIT */
/*
 * Ancillary data as a program writes it: the first byte says for which family, the rest is what
 * sendmsg() got. A second walk, by offsets, finds for AF_UNIX what the decoder found; other
 * families find no wishes but their own.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <lib/errno.h>

#include "../../monitors/processor/socket/cmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The headers of valid data are those that the decoder has seen. */
static void check_unix(const uint8_t *data, size_t size, const struct cmsg_request *r)
{
	uint32_t nr = 0;
	bool cred = false;

	for (size_t at = 0; size - at >= sizeof(struct linux_cmsghdr);) {
		struct linux_cmsghdr h;
		uint64_t payload;

		memcpy(&h, data + at, sizeof(h));
		if (h.len < sizeof(h) || h.len > size - at)
			abort();
		payload = h.len - sizeof(h);
		if (h.level == SOL_SOCKET && h.type == SCM_RIGHTS) {
			const size_t bytes = payload / sizeof(int) * sizeof(int);

			if (nr + payload / sizeof(int) > r->nr_fds ||
			    memcmp(&r->fds[nr], data + at + sizeof(h), bytes))
				abort();
			nr += (uint32_t)(payload / sizeof(int));
		} else if (h.level == SOL_SOCKET) {
			if (h.type != SCM_CREDENTIALS || payload != sizeof(r->cred))
				abort();
			cred = true;
		}
		at += (h.len + 7) / 8 * 8;
		if (at >= size)
			break;
	}
	if (nr != r->nr_fds || cred != r->has_cred || nr > LINUX_SCM_MAX_FD)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t families[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };
	static struct cmsg_request r;
	uint16_t family;
	uint8_t *copy;
	int err;

	if (!size)
		return 0;
	family = families[data[0] % 4];
	/* A buffer of the very size, as the call has it, so that reading on is seen. */
	copy = malloc(size - 1 ? size - 1 : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	err = cmsg_decode(copy, size - 1, family, &r);
	if (err && err != -EINVAL)
		abort();
	if (!err && family == AF_UNIX)
		check_unix(copy, size - 1, &r);
	if (!err && family != AF_UNIX && (r.nr_fds || r.has_cred))
		abort();
	if (!err && family != AF_INET6 && r.wish6.has)
		abort();
	if (!err && family != AF_INET && family != AF_INET6 && r.wish4.has)
		abort();
	if (!err && (r.wish4.has & INET_WISH_TTL) && !r.wish4.ttl)
		abort();
	free(copy);
	return 0;
}
