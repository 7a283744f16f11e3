/* SPDX-License-Identifier: MIT */
/*
 * For tests and fuzzers: makes functions that decode a message and encode it again. A message that
 * decodes must give the same bytes back.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <lib/types.h>

#define RECODE_MAX 16384 /* bytes of the longest message */

/* Decode @len bytes, encode into @out: its length, or what the decoder answered. */
typedef ssize_t (*recode_fn)(const void *buf, size_t len, uint8_t *out);

/* Results are static: some are too large for a kernel stack. */
#define RECODE_VARIABLE(msg)                                                   \
	static ssize_t recode_##msg(const void *buf, size_t len, uint8_t *out) \
	{                                                                      \
		static struct msg decoded;                                     \
		const int err = msg##_decode(buf, len, &decoded);              \
                                                                               \
		return err ? err : msg##_encode(&decoded, out, RECODE_MAX);    \
	}

#define RECODE_FIXED_AS(msg, type, decode, encode, wire)                       \
	static ssize_t recode_##msg(const void *buf, size_t len, uint8_t *out) \
	{                                                                      \
		static type decoded;                                           \
		const int err = decode(buf, len, &decoded);                    \
		wire w;                                                        \
                                                                               \
		if (err)                                                       \
			return err;                                            \
		encode(&decoded, &w);                                          \
		memcpy(out, &w, sizeof(w));                                    \
		return sizeof(w);                                              \
	}

#define RECODE_FIXED(msg) \
	RECODE_FIXED_AS(msg, struct msg, msg##_decode, msg##_encode, struct msg##_wire)
