/* SPDX-License-Identifier: MIT */
/* How long something of a peer's is usually waited for: for rpc_poll_until() (<net/rpc.h>). */
#pragma once

#include <lib/types.h>

/* Zeroed at first; races do no harm. */
struct rpc_spin {
	uint64_t usual_ns;
	uint32_t skipped;
};
