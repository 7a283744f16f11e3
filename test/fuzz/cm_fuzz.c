/* SPDX-License-Identifier: MIT */
/*
 * Fuzz the connection manager's and the SA's decoders: what decodes must decode to the same again
 * after encoding.
 */
#include <stdlib.h>

#include <lib/string.h>

#include "../../drivers/rdma/cm_msg.h"
#include "../../drivers/rdma/sa_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rdma_gid gid = { { 0 } };
	uint8_t mad[MAD_LEN] = { 0 };
	struct cm_msg first, second;
	struct rdma_addr addr;

	memcpy(mad, data, MIN(size, sizeof(mad)));
	memset(&first, 0, sizeof(first));
	memset(&second, 0, sizeof(second));
	if (cm_msg_decode(mad, &first) == 0) {
		cm_msg_encode(&first, mad);
		if (cm_msg_decode(mad, &second) || memcmp(&first, &second, sizeof(first)) != 0)
			abort();
	}
	memcpy(mad, data, MIN(size, sizeof(mad)));
	if (sa_path_decode(mad, 0, &gid, &addr) == 0 && (!addr.dlid || addr.sl > 15))
		abort();
	return 0;
}
