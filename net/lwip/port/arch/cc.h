/* SPDX-License-Identifier: MIT */
/* The compiler and what lwIP asks of the system, for lwIP's headers: see stack.c. */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/string.h>
#include <lib/types.h>

#ifdef __TESSERA_HOST__
# include <limits.h>
#endif

#define LWIP_NO_LIMITS_H   1
#define LWIP_NO_INTTYPES_H 1
#define LWIP_NO_CTYPE_H    1
#define LWIP_NO_UNISTD_H   1
#define LWIP_HAVE_INT64    1
#ifndef SSIZE_MAX
# define SSIZE_MAX INT64_MAX
#endif

#define X8_F  "02x"
#define U16_F "u"
#define S16_F "d"
#define X16_F "x"
#define U32_F "u"
#define S32_F "d"
#define X32_F "x"
#define SZT_F "zu"

#define BYTE_ORDER    LITTLE_ENDIAN
#define lwip_htons(x) __builtin_bswap16(x)
#define lwip_htonl(x) __builtin_bswap32(x)
#define LWIP_DONT_PROVIDE_BYTEORDER_FUNCTIONS

#define LWIP_RAND() lwip_random()
#define LWIP_PLATFORM_DIAG(x)
#define LWIP_PLATFORM_ASSERT(message) lwip_broken(message)

uint32_t lwip_random(void);
void lwip_broken(const char *message) __attribute__((noreturn));
void lwip_assert_locked(void);
void *lwip_alloc(size_t size);
void *lwip_calloc(size_t count, size_t size);
void lwip_free(void *p);
