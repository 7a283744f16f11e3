/* SPDX-License-Identifier: MIT */
/*
 * Maps of ids. See idmap.h.
 */
#include <lib/idmap.h>

#include <lib/errno.h>

uint32_t id_map_range_out(const struct id_map *map, uint32_t inside, uint32_t count)
{
	if (!map)
		return inside;
	for (uint32_t i = 0; i < map->nr; i++) {
		const struct id_range *r = &map->ranges[i];

		if (inside >= r->inside && inside - r->inside < r->count &&
		    count <= r->count - (inside - r->inside))
			return r->outside + (inside - r->inside);
	}
	return ID_NONE;
}

uint32_t id_map_out(const struct id_map *map, uint32_t inside)
{
	return id_map_range_out(map, inside, 1);
}

uint32_t id_map_in(const struct id_map *map, uint32_t outside)
{
	if (!map)
		return outside;
	for (uint32_t i = 0; i < map->nr; i++) {
		const struct id_range *r = &map->ranges[i];

		if (outside >= r->outside && outside - r->outside < r->count)
			return r->inside + (outside - r->outside);
	}
	return ID_NONE;
}

/* --- text ---------------------------------------------------------------------------- */

struct reader {
	const char *at, *end;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static void skip_blanks(struct reader *r)
{
	while (r->at < r->end && is_blank(*r->at))
		r->at++;
}

/* Blanks, and a number of 32 bits. */
static int get_number(struct reader *r, uint32_t *out)
{
	uint64_t value = 0;
	const char *first;

	skip_blanks(r);
	first = r->at;
	while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
		value = value * 10 + (uint64_t)(*r->at++ - '0');
		if (value > UINT32_MAX)
			return -EINVAL;
	}
	*out = (uint32_t)value;
	return r->at == first ? -EINVAL : 0;
}

/* Blanks, at least one. */
static int get_blank(struct reader *r)
{
	const char *first = r->at;

	skip_blanks(r);
	return r->at == first ? -EINVAL : 0;
}

static int get_line(struct reader *r, struct id_range *out)
{
	int err = get_number(r, &out->inside);

	if (!err)
		err = get_blank(r);
	if (!err)
		err = get_number(r, &out->outside);
	if (!err)
		err = get_blank(r);
	if (!err)
		err = get_number(r, &out->count);
	skip_blanks(r);
	if (!err && r->at < r->end && *r->at++ != '\n')
		err = -EINVAL;
	return err;
}

/* Does it end behind the last id, or have none? ID_NONE is no id. */
static bool is_valid(const struct id_range *r)
{
	return r->count && r->count <= ID_NONE - r->inside && r->count <= ID_NONE - r->outside;
}

static bool overlap(uint32_t a, uint32_t a_count, uint32_t b, uint32_t b_count)
{
	return a < b ? b - a < a_count : a - b < b_count;
}

int id_map_parse(const char *text, size_t len, struct id_range *ranges, uint32_t *nr)
{
	struct reader r = { text, text + len };

	*nr = 0;
	do {
		struct id_range *new = &ranges[*nr];

		if (*nr == ID_RANGES_MAX || get_line(&r, new) || !is_valid(new))
			return -EINVAL;
		for (uint32_t i = 0; i < *nr; i++) {
			if (overlap(new->inside, new->count, ranges[i].inside, ranges[i].count) ||
			    overlap(new->outside, new->count, ranges[i].outside, ranges[i].count))
				return -EINVAL;
		}
		++*nr;
	} while (r.at < r.end);
	return 0;
}
