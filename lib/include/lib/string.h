/* SPDX-License-Identifier: MIT */
/*
 * Memory and string functions with the meaning that ISO C and POSIX give them,
 * and strlcpy. On the host the C library provides them.
 */
#pragma once

#include <lib/types.h>

#ifdef __TESSERA_HOST__
# include <string.h>
# include <strings.h>
#else
void *memcpy(void *restrict dst, const void *restrict src, size_t n);
void *memmove(void *dst, const void *src, size_t n);
void *memset(void *dst, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n) __pure;
void *memchr(const void *s, int c, size_t n) __pure;

size_t strlen(const char *s) __pure;
size_t strnlen(const char *s, size_t max) __pure;
int strcmp(const char *a, const char *b) __pure;
int strncmp(const char *a, const char *b, size_t n) __pure;
int strcasecmp(const char *a, const char *b) __pure;
char *strchr(const char *s, int c) __pure;
char *strrchr(const char *s, int c) __pure;
char *strchrnul(const char *s, int c) __pure;
char *strstr(const char *s, const char *sub) __pure;
size_t strcspn(const char *s, const char *set) __pure;

/* A freestanding compiler takes these for unknown functions; say that it knows them. */
# ifndef LIB_STRING_DEFINES
#  define memcpy(dst, src, n)  __builtin_memcpy(dst, src, n)
#  define memmove(dst, src, n) __builtin_memmove(dst, src, n)
#  define memset(dst, c, n)    __builtin_memset(dst, c, n)
#  define memcmp(a, b, n)      __builtin_memcmp(a, b, n)
#  define strlen(s)            __builtin_strlen(s)
#  define strcmp(a, b)         __builtin_strcmp(a, b)
# endif
#endif

/* Name used here so that the host's C library may have its own or none. */
#define strlcpy lib_strlcpy

/*
 * Copy @src to @dst of @size bytes, always terminated when @size > 0.
 * Returns strlen(src): at least @size means that it was cut.
 */
size_t strlcpy(char *dst, const char *src, size_t size);

/* True when @s begins with @prefix. */
bool str_has_prefix(const char *s, const char *prefix) __pure;

/* Match @s against @pattern: '*' any run, '?' any one character, ',' separates alternatives. */
bool str_glob_match(const char *pattern, const char *s) __pure;
