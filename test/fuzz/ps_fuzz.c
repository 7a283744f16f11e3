/* SPDX-License-Identifier: MIT */
/*
 * Every decoder of the storage monitor's messages from processors: the first byte says which, the
 * rest is the message. A message that decodes must encode back to the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../monitors/proto/recode_ps_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t out[RECODE_MAX];
	ssize_t len;

	if (!size)
		return 0;
	len = ps_recoders[data[0] % ARRAY_SIZE(ps_recoders)].fn(data + 1, size - 1, out);
	if (len >= 0 && ((size_t)len != size - 1 || memcmp(out, data + 1, (size_t)len)))
		abort();
	if (len < 0 && len != -EPROTO && len != -EMSGSIZE)
		abort();
	return 0;
}
