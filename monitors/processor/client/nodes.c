/* SPDX-License-Identifier: MIT */
/* Which node does what. */
#include "nodes.h"

#include <managers/placement.h>

#include "convert.h"

uint32_t file_cache_node(const struct file_id *file)
{
	const struct proto_file f = file_to_proto(file);

	return gsm_cache_node_for(&f);
}
