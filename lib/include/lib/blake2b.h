/* SPDX-License-Identifier: MIT */
/*
 * BLAKE2b: a cryptographic hash, with a key or without one (RFC 7693).  With a secret key the
 * result proves to others who know it that the input is theirs.
 */
#pragma once

#include <lib/types.h>

#define BLAKE2B_MAX 64u /* bytes of a result, or of a key */

/*
 * The hash of @len bytes at @in.  @out_len is 1 to BLAKE2B_MAX; a result is not the beginning of a
 * longer one.  @key_len 0: no key.  Any context.
 */
void blake2b(void *out, size_t out_len, const void *key, size_t key_len, const void *in,
	     size_t len);

/* Are they the same?  The time that it takes does not tell where they differ. */
bool bytes_equal(const void *a, const void *b, size_t len);
