/* SPDX-License-Identifier: MIT */
/*
 * Allocator of small integer ids: always the lowest free one, growing as needed.
 *
 * Locking: the caller's. Memory: one bit per id up to the highest ever used.
 */
#pragma once

#include <lib/types.h>

struct ida {
	uint64_t *map;   /* set bit: id in use */
	size_t nr_words; /* words in map */
	size_t hint;     /* no free id in any word below this */
};

#define IDA_INIT         { NULL, 0, 0 }
#define DEFINE_IDA(name) struct ida name = IDA_INIT

/* An id from @min to @max inclusive, or -ENOSPC, -ENOMEM, -EINVAL (@min above @max or negative). */
int ida_alloc_range(struct ida *ida, int min, int max) __must_check;

/* Return @id; returns false, and changes nothing, when it was not allocated. */
bool ida_free(struct ida *ida, int id);

bool ida_is_used(const struct ida *ida, int id);

/*
 * For tests: free the map; the ids themselves need not have been freed. The kernel's own ids live
 * as long as it does.
 */
void ida_destroy(struct ida *ida);
