/* SPDX-License-Identifier: MIT */
/*
 * net.ipv4.ping_group_range: the groups, by their kernel ids, whose programs may have ping sockets.
 * From above to: none may.
 *
 * Context:	any.
 */
#pragma once

#include <lib/types.h>

void ping_range_get(uint32_t *from, uint32_t *to);
void ping_range_set(uint32_t from, uint32_t to);
