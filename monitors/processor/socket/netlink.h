/* SPDX-License-Identifier: MIT */
/* AF_NETLINK makes itself known; for tests, which run no INITCALLs. */
#pragma once

int netlink_init(void);
