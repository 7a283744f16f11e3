/* SPDX-License-Identifier: MIT */
/* lwIP wants it by this name. */
#pragma once

#ifdef __TESSERA_HOST__
# include_next <stdlib.h>
#endif

int lwip_atoi(const char *s);
#define atoi(s) lwip_atoi(s)
