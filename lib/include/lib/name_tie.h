/* SPDX-License-Identifier: MIT */
/*
 * The order of names in a directory whose hashes are equal.
 *
 * A file system lists such names in this order, and a reader that stopped among them goes on behind
 * the number of the last name it has: names that come or go meanwhile move no others.  The key is
 * public, as both sides must come to the same number; who finds two names of one number spoils the
 * listing of a directory of their own.
 */
#pragma once

#include <lib/siphash.h>
#include <lib/types.h>

static inline uint64_t name_tie(const char *name, size_t len)
{
	static const struct siphash_key key = { 0, 0 };

	return siphash24(&key, name, len);
}
