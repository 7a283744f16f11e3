/* SPDX-License-Identifier: MIT */
/* Questions about nodes: which one does what, and how much memory one has. */
#include "nodes.h"

#include <kernel/time.h>
#include <managers/placement.h>
#include <net/rpc.h>
#include <proto/pm.h>

#include "convert.h"

static_assert(PROTO_NODE_MAX < 1u << COMMIT_NODE_BITS, "a version has room for a node");
static_assert((int)COMMIT_HEURISTIC == (int)PM_COMMIT_HEURISTIC, "the same");
static_assert((int)COMMIT_ALWAYS == (int)PM_COMMIT_ALWAYS, "the same");
static_assert((int)COMMIT_STRICT == (int)PM_COMMIT_STRICT, "the same");
static_assert((int)COMMIT_MODES == (int)PM_COMMIT_MODES, "the same");

/* A node that is silent for so long has not answered: its figures are left out. */
#define ANSWER_NS NSEC_PER_SEC

uint32_t file_cache_node(const struct file_id *file)
{
	const struct proto_file f = file_to_proto(file);

	return gsm_cache_node_for(&f);
}

int node_memory(uint32_t node, struct node_memory *out)
{
	struct pm_meminfo_rep_wire w;
	struct pm_meminfo_rep r;
	int ret = rpc_call_sync_killable(node, RPC_CLASS_CONTROL, PM_MEMINFO, NULL, 0, &w,
					 sizeof(w), ANSWER_NS);

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
		.programs = r.programs,
		.commit_limit = r.commit_limit,
	};
	return 0;
}

int node_commit(uint32_t node, const struct commit_policy *policy, struct commit_policy *now)
{
	const struct pm_commit req = {
		.version = policy->version,
		.mode = policy->mode,
		.ratio = policy->ratio,
		.kbytes = policy->kbytes,
		.programs = policy->programs,
	};
	struct pm_commit_wire w, reply;
	struct pm_commit rep;
	int ret;

	pm_commit_encode(&req, &w);
	ret = rpc_call_sync_killable(node, RPC_CLASS_CONTROL, PM_COMMIT, &w, sizeof(w), &reply,
				     sizeof(reply), ANSWER_NS);
	if (ret >= 0)
		ret = pm_commit_decode(&reply, (size_t)ret, &rep);
	if (ret)
		return ret;
	*now = (struct commit_policy){
		.version = rep.version,
		.mode = rep.mode,
		.ratio = rep.ratio,
		.kbytes = rep.kbytes,
		.programs = rep.programs,
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
