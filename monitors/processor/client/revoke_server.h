/* SPDX-License-Identifier: MIT */
/* MP_REVOKE: a memory node takes back what it has let this node read. */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/*
 * Answer such requests by @forget, which returns when nothing is read there any more. Once. Errors
 * as rpc_handlers_register().
 */
int revoke_serve(void (*forget)(uint32_t node, uint32_t number, bool below)) __must_check;
