/* SPDX-License-Identifier: MIT */
/*
 * Fuzz the HCA model's management agents with sequences of datagrams.
 *
 * Property: an answer has the response bit and the transaction id of its request; nothing that is
 * itself an answer is answered.
 */
#include <stdlib.h>

#include "../../tools/hca/fixture.h"

static bool handle(unsigned which, struct fixture *r, const uint8_t *in, uint8_t *out)
{
	struct hca *h = r->g[which >> 7].h;

	switch (which % 5) {
	case 0:
		return sma_process(h, in, out);
	case 1:
		return pma_process(h, in, out);
	case 2:
		return sm_process(r->f, h, in, out);
	case 3:
		return smp_route(h, in, out);
	default:
		return sa_process(r->f, h, in, out);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fixture r;

	fix_create(&r);
	fix_init_hca(&r.g[0]);
	fix_init_hca(&r.g[1]);
	while (size > 1) {
		const size_t n = MIN(size - 1, (size_t)MAD_SIZE);
		uint8_t in[MAD_SIZE] = { 1 }, out[MAD_SIZE];

		memcpy(in, data + 1, n);
		if (handle(data[0], &r, in, out)) {
			if (!(out[MAD_METHOD] & METHOD_RESPONSE) || memcmp(in + 8, out + 8, 8) ||
			    in[MAD_METHOD] & METHOD_RESPONSE)
				abort();
		}
		data += n + 1;
		size -= n + 1;
	}
	fix_destroy(&r);
	return 0;
}
