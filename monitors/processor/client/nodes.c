/* SPDX-License-Identifier: MIT */
/* Questions about nodes: which one does what, and how much memory one has. */
#include "nodes.h"

#include <managers/placement.h>
#include <net/rpc.h>
#include <proto/pm.h>

#include "convert.h"

uint32_t file_cache_node(const struct file_id *file)
{
	const struct proto_file f = file_to_proto(file);

	return gsm_cache_node_for(&f);
}

int node_memory(uint32_t node, struct node_memory *out)
{
	struct pm_meminfo_rep_wire w;
	struct pm_meminfo_rep r;
	int ret = rpc_call_sync(node, RPC_CLASS_CONTROL, PM_MEMINFO, NULL, 0, &w, sizeof(w), 0);

	if (ret >= 0)
		ret = pm_meminfo_rep_decode(&w, (size_t)ret, &r);
	if (ret)
		return ret;
	*out = (struct node_memory){
		.total = r.total,
		.free = r.free,
		.file = r.file,
		.granted = r.granted,
		.committed = r.committed,
		.commit_limit = r.commit_limit,
	};
	return 0;
}

const char *node_part_serving(uint16_t opcode)
{
	switch (proto_of(opcode)) {
	case PROTO_PM:
		return "memory";
	case PROTO_PS:
		return "storage";
	default:
		return "manager";
	}
}
