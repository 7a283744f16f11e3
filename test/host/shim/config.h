/* SPDX-License-Identifier: MIT */
/*
 * The configuration of host tests: Kconfig's defaults, of no particular role. Included first
 * everywhere.
 */
#pragma once

#include <generated/autoconf.h>

#undef CONFIG_ROLE_PROCESSOR
#undef CONFIG_ROLE_MEMORY
#undef CONFIG_ROLE_STORAGE
#undef CONFIG_ROLE_NAME
#define CONFIG_ROLE_NAME "host"

/* Both sides of membership are tested. */
#undef CONFIG_MANAGERS
#define CONFIG_MANAGERS 1
