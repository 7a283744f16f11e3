/* SPDX-License-Identifier: MIT */
/* Functions of the port that lwIP calls with types of its own. */
#pragma once

#include <lib/types.h>

struct ip_addr;

uint32_t lwip_tcp_isn(const struct ip_addr *local, uint16_t local_port,
		      const struct ip_addr *remote, uint16_t remote_port);
