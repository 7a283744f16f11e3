/* SPDX-License-Identifier: MIT */
/* lwIP wants it by this name. */
#pragma once

#ifdef __TESSERA_HOST__
# include_next <string.h>
#else
# include <lib/string.h>
#endif
