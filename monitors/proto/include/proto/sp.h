/* SPDX-License-Identifier: MIT */
/*
 * Storage -> processor (class control).
 *
 * See:	docs/protocol/sp.md
 */
#pragma once

#include <proto/types.h>

enum sp_opcode {
	/*
	 * The grant of PS_KEEP is over: the answer says that nothing of the sender's is kept
	 * here any more. No body and no reply. Idempotent.
	 */
	SP_RECALL = 0x0900,
};
static_assert(SP_RECALL == PROTO_FIRST_OPCODE(PROTO_SP), "opcodes are ABI");
