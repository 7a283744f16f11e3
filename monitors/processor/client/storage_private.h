/* SPDX-License-Identifier: MIT */
/* Shared by the files that send requests to storage nodes. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/*
 * Ask @node; a node that was started again meanwhile is asked again.  The reply's length, or a
 * negative errno: -EHOSTDOWN also for node 0.
 */
int storage_call(uint32_t node, uint16_t opcode, const void *body, size_t len, void *reply,
		 size_t max) __must_check;
