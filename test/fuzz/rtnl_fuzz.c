/* SPDX-License-Identifier: MIT */
/*
 * Netlink messages as a program writes them: the framing stays inside of the buffer, a request
 * decodes to what a second look at its header finds, and an error that repeats it is framed as it
 * was. The first byte says whether dumps are checked strictly.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <lib/errno.h>

#include "../../monitors/processor/socket/rtnl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(const uint8_t *msg, const struct linux_nlmsghdr *h, bool strict)
{
	struct rtnl_request r;
	const int err = rtnl_decode(msg, h, strict, &r);

	if (err) {
		if (err != -EINVAL && err != -ERANGE && err != -EOPNOTSUPP)
			abort();
		return;
	}
	if (memcmp(&r.hdr, h, sizeof(*h)) || r.family != msg[sizeof(*h)] ||
	    !memchr(r.name, 0, sizeof(r.name)) || r.dst_len > 128)
		abort();
	if (h->type != RTM_GETLINK && r.name[0])
		abort();
}

/* An error that repeats the message is itself a message, and ends with it. */
static void check_error(const uint8_t *msg, const struct linux_nlmsghdr *h)
{
	const size_t room = sizeof(*h) + sizeof(struct linux_nlmsgerr) + h->len + 3;
	const struct nl_reply to = { .seq = h->seq, .pid = 1 };
	struct nl_sink sink = { .data = malloc(room), .room = room };
	struct linux_nlmsghdr again;

	if (!sink.data)
		return;
	if (!nl_put_error(&sink, &to, h, msg, -EINVAL) ||
	    nl_next(sink.data, sink.len, &again) != sink.len || again.seq != h->seq ||
	    memcmp(sink.data + sizeof(*h) + sizeof(int32_t), msg, h->len))
		abort();
	free(sink.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct linux_nlmsghdr h;
	const uint8_t *at;
	uint8_t *copy;
	bool strict;
	size_t step;

	if (!size)
		return 0;
	strict = data[0] & 1;
	size--;
	/* A buffer of the very size, as the call has it, so that reading on is seen. */
	copy = malloc(size ? size : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size);
	for (at = copy; (step = nl_next(at, size, &h)); at += step, size -= step) {
		if (step > size || step < sizeof(h))
			abort();
		check_request(at, &h, strict);
		check_error(at, &h);
	}
	free(copy);
	return 0;
}
