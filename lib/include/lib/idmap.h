/* SPDX-License-Identifier: MIT */
/*
 * Maps of user or group ids: ranges of ids inside of something stand for as many outside of it.
 *
 * Invariants:	the ranges of a map overlap neither inside nor outside, and none has ID_NONE. A map
 *		never changes once it is filled in.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#define ID_NONE       UINT32_MAX /* an id that nothing stands for */
#define ID_OVERFLOW   65534u     /* what is told instead of it, as on Linux */
#define ID_RANGES_MAX 340u       /* as Linux */

struct id_range {
	uint32_t inside, outside, count;
};

struct id_map {
	uint32_t nr;
	struct id_range ranges[];
};

/* From inside to outside and back; NULL: the two are the same. ID_NONE: the id is in no range. */
uint32_t id_map_out(const struct id_map *map, uint32_t inside);
uint32_t id_map_in(const struct id_map *map, uint32_t outside);
/* @count ids outside from @outside on, which one range has; the first one inside, or ID_NONE. */
uint32_t id_map_range_out(const struct id_map *map, uint32_t inside, uint32_t count);

/*
 * Lines of three decimal numbers: inside, outside, count. At most ID_RANGES_MAX into @ranges, how
 * many into *@nr. -EINVAL: it is something else, has no line, or ranges overlap.
 */
int id_map_parse(const char *text, size_t len, struct id_range *ranges, uint32_t *nr) __must_check;
