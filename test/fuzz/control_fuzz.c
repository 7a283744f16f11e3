/* SPDX-License-Identifier: MIT */
/*
 * Fuzz the control channel's decoders: a header from either end, then its payload.
 *
 * Property: what decodes encodes back to the same bytes.
 */
#include <proto/control.h>

#include <stdlib.h>
#include <string.h>

#define RECODE(type)                                              \
	do {                                                      \
		struct ctl_##type value;                          \
		if (!ctl_##type##_decode(buf, len, &value))       \
			ctl_##type##_encode(&value, (void *)out); \
	} while (0)

static void recode_run(const uint8_t *buf, size_t len, uint8_t *out)
{
	struct ctl_run run;

	if (!ctl_run_decode(buf, len, &run) && ctl_run_encode(&run, out, len) != (ssize_t)len)
		abort();
}

static void recode(uint8_t type, const uint8_t *buf, size_t len)
{
	uint8_t *out = malloc(len + 1);
	static struct ctl_members members;
	uint32_t v;

	if (!out)
		return;
	memcpy(out, buf, len);
	switch (type) {
	case CTL_HELLO:
		RECODE(hello);
		break;
	case CTL_READY:
		RECODE(ready);
		break;
	case CTL_STARTED:
		RECODE(started);
		break;
	case CTL_WINSIZE:
		RECODE(winsize);
		break;
	case CTL_EXIT:
		RECODE(exit);
		break;
	case CTL_CREDIT:
		if (!ctl_credit_decode(buf, len, &v))
			ctl_credit_encode(v, (void *)out);
		break;
	case CTL_SIGNAL:
		if (!ctl_signal_decode(buf, len, &v))
			ctl_signal_encode(v, (void *)out);
		break;
	case CTL_PLACED:
		RECODE(placed);
		break;
	case CTL_PLACE:
		if (!ctl_place_decode(buf, len, &v))
			ctl_place_encode(v, (void *)out);
		break;
	case CTL_LOST:
		RECODE(member);
		break;
	case CTL_MEMBERS:
		if (!ctl_members_decode(buf, len, &members) &&
		    ctl_members_encode(&members, out, len) != (ssize_t)len)
			abort();
		break;
	case CTL_ADDRESSES:
		if (!ctl_addresses_decode(len, &v) && v * CTL_ADDRESS_LEN != len)
			abort();
		break;
	case CTL_REFUSED:
	case CTL_DEBUG_REPLY:
		if (!ctl_errno_decode(buf, len, &v))
			ctl_errno_encode(v, (void *)out);
		break;
	case CTL_RUN:
		recode_run(buf, len, out);
		break;
	default:
		break;
	}
	if (memcmp(out, buf, len))
		abort();
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t head = sizeof(struct ctl_hdr_wire);
	struct ctl_hdr_wire w;
	struct ctl_hdr hdr;
	enum ctl_end end;
	uint8_t *payload;

	if (size < 1)
		return 0;
	end = data[0] & 1 ? CTL_FROM_NODE : CTL_FROM_HOST;
	if (ctl_hdr_decode(data + 1, size - 1, end, &hdr))
		return 0;
	ctl_hdr_encode(&hdr, &w);
	if (memcmp(&w, data + 1, head))
		abort();
	/*
	 * Of the length that the header gives, however much there is: a joined RUN may be longer.
	 */
	size -= 1 + head;
	payload = malloc(size + 1);
	if (!payload)
		return 0;
	memcpy(payload, data + 1 + head, size);
	recode(hdr.type, payload, size);
	free(payload);
	return 0;
}
