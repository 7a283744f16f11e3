/* SPDX-License-Identifier: MIT */
/*
 * Which requests wait for third nodes for ever.
 *
 * Flow:	the RPC layer asks for each request that this node sends, and lets such requests
 *		take at most half of the slots to a peer.
 */
#include <proto/mm.h>
#include <proto/ms.h>
#include <proto/pm.h>
#include <proto/types.h>

bool proto_waits(uint16_t opcode)
{
	switch (opcode) {
	/* At a home: for owners. */
	case PM_EXEC:
	case PM_MMAP:
	case PM_MUNMAP:
	case PM_MPROTECT:
	case PM_MREMAP:
	case PM_BRK:
	case PM_LEASE:
	case PM_VREGIONS:
	case PM_DESTROY:
	case PM_FORK:
	case PM_COLLAPSE:
	case PM_DISCARD:
	case PM_SPACE:
	case MM_RELIEVE:
	/* At an owner: for another one. */
	case MM_MOVE:
	case MM_VREGION_MOVE:
	/* At a node that caches a file: for storage. */
	case PM_FILE_FETCH:
	case PM_FILE_OPEN:
	case PM_FILE_WRITE:
	case PM_FILE_CHANGE:
	case MM_FILE_READ:
		return true;
	default:
		return false;
	}
}

bool proto_ms_waits(uint16_t opcode, const void *body, uint32_t len)
{
	struct ms_claim_req claim;
	struct ms_reserve_req reserve;

	switch (opcode) {
	case MS_CLAIM:
		return !ms_claim_req_decode(body, len, &claim) && !claim.epoch;
	case MS_RESERVE:
		return !ms_reserve_req_decode(body, len, &reserve) && reserve.nr;
	default:
		return false;
	}
}
