/* SPDX-License-Identifier: MIT */
/*
 * Formatted output into a buffer, and parsing of numbers, sizes and switches.
 *
 * Formats: flags "-+ 0#", width and precision (also '*'), lengths hh h l ll z j t,
 * conversions d i u x X o c s p %. No floating point; %n and anything unknown is copied
 * as it stands. On the host the C library formats, so that both agree on the
 * meaning; fmt_vsnprintf() is always ours.
 */
#pragma once

#include <lib/types.h>

#ifdef __TESSERA_HOST__
# include <stdio.h>
#else
/* As in ISO C: return the length the whole text would have had. */
int vsnprintf(char *buf, size_t size, const char *fmt, va_list ap) __printf(3, 0);
int snprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);
#endif

int fmt_vsnprintf(char *buf, size_t size, const char *fmt, va_list ap) __printf(3, 0);

/* Return what was really written, without the terminator: safe to add to an offset. */
size_t vscnprintf(char *buf, size_t size, const char *fmt, va_list ap) __printf(3, 0);
size_t scnprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);

/*
 * The whole of @s must be one number: @base 2..36, or 0 for "0x", "0" (octal) and decimal.
 * -EINVAL: not a number; -ERANGE: does not fit. *out is written only on success.
 */
int kstrtou64(const char *s, unsigned int base, uint64_t *out) __must_check;
int kstrtos64(const char *s, unsigned int base, int64_t *out) __must_check;
int kstrtou32(const char *s, unsigned int base, uint32_t *out) __must_check;
int kstrtos32(const char *s, unsigned int base, int32_t *out) __must_check;

/* "4096", "64K", "8M", "1G", "2T" (powers of 1024; also "8MB", "8MiB", lower case). */
int parse_size(const char *s, uint64_t *out) __must_check;

/* "1" "y" "yes" "on" "true" / "0" "n" "no" "off" "false". */
int parse_bool(const char *s, bool *out) __must_check;
