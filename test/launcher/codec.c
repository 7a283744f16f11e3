/* SPDX-License-Identifier: MIT */
/*
 * monitors/proto/control.c as a filter, for test_frames.py: reads frames from stdin, each behind
 * its length (32 bits of this machine), decodes header and payload as the end named by argv[1]
 * would send them, and answers each with a status (0, or 1 when the decoder refuses), a length and
 * what it understood, encoded again.
 */
#include <proto/control.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECODE(name, type)                             \
	do {                                           \
		struct ctl_##type v;                   \
		if (ctl_##type##_decode(buf, len, &v)) \
			return -1;                     \
		ctl_##type##_encode(&v, (void *)out);  \
		return 0;                              \
	} while (0)

/* Decode a payload and encode it again; for text and data, copy it. */
static int recode(uint8_t type, const uint8_t *buf, size_t len, uint8_t *out)
{
	static struct ctl_members members;
	struct ctl_run run;
	uint32_t v;

	memcpy(out, buf, len);
	switch (type) {
	case CTL_HELLO:
		RECODE(HELLO, hello);
	case CTL_READY:
		RECODE(READY, ready);
	case CTL_STARTED:
		RECODE(STARTED, started);
	case CTL_WINSIZE:
		RECODE(WINSIZE, winsize);
	case CTL_EXIT:
		RECODE(EXIT, exit);
	case CTL_RUN:
		if (ctl_run_decode(buf, len, &run))
			return -1;
		return ctl_run_encode(&run, out, len) == (ssize_t)len ? 0 : -1;
	case CTL_CREDIT:
		if (ctl_credit_decode(buf, len, &v))
			return -1;
		ctl_credit_encode(v, (void *)out);
		return 0;
	case CTL_SIGNAL:
		if (ctl_signal_decode(buf, len, &v))
			return -1;
		ctl_signal_encode(v, (void *)out);
		return 0;
	case CTL_PLACED:
		RECODE(PLACED, placed);
	case CTL_PLACE:
		if (ctl_place_decode(buf, len, &v))
			return -1;
		ctl_place_encode(v, (void *)out);
		return 0;
	case CTL_LOST:
		RECODE(LOST, member);
	case CTL_MEMBERS:
		if (ctl_members_decode(buf, len, &members))
			return -1;
		return ctl_members_encode(&members, out, len) == (ssize_t)len ? 0 : -1;
	case CTL_ADDRESSES:
		return ctl_addresses_decode(len, &v) ? -1 : 0;
	case CTL_REFUSED:
	case CTL_DEBUG_REPLY:
		if (ctl_errno_decode(buf, len, &v))
			return -1;
		ctl_errno_encode(v, (void *)out);
		return 0;
	default:
		return 0;
	}
}

/*
 * One frame: 0 and @out, as long as @in; 1 if the decoder refuses; 2 if the length is not the
 * header's.
 */
static uint32_t through(enum ctl_end end, const uint8_t *in, size_t got, uint8_t *out)
{
	const size_t head = sizeof(struct ctl_hdr_wire);
	struct ctl_hdr_wire w;
	struct ctl_hdr hdr;
	uint8_t *payload, *again;
	uint32_t status;

	if (ctl_hdr_decode(in, got, end, &hdr))
		return 1;
	if (got != head + hdr.len)
		return 2;
	payload = malloc(hdr.len); /* of the exact size, so that ASan sees a byte too many */
	again = malloc(hdr.len);
	if (hdr.len && (!payload || !again))
		abort();
	memcpy(payload, in + head, hdr.len);
	status = recode(hdr.type, payload, hdr.len, again) ? 1 : 0;
	ctl_hdr_encode(&hdr, &w);
	memcpy(out, &w, head);
	memcpy(out + head, again, hdr.len);
	free(payload);
	free(again);
	return status;
}

int main(int argc, char **argv)
{
	static uint8_t in[sizeof(struct ctl_hdr_wire) + CTL_MAX_PAYLOAD], out[sizeof(in)];
	const enum ctl_end end =
		argc > 1 && !strcmp(argv[1], "node") ? CTL_FROM_NODE : CTL_FROM_HOST;
	uint32_t len;

	while (fread(&len, sizeof(len), 1, stdin) == 1) {
		uint32_t answer[2];

		if (len > sizeof(in) || fread(in, 1, len, stdin) != len)
			return 2;
		answer[0] = through(end, in, len, out);
		answer[1] = answer[0] ? 0 : len;
		fwrite(answer, sizeof(answer), 1, stdout);
		fwrite(out, 1, answer[1], stdout);
	}
	return 0;
}
