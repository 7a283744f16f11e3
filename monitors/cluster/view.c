/* SPDX-License-Identifier: MIT */
/*
 * The membership view as pure data.  No locks: the callers have theirs.
 */
#include <cluster/membership.h>

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

size_t view_find(const struct cluster_view *v, uint32_t id, bool *found)
{
	size_t i;

	for (i = 0; i < v->nr_members && v->members[i].id < id; i++)
		;
	*found = i < v->nr_members && v->members[i].id == id;
	return i;
}

int view_put(struct cluster_view *v, const struct cluster_member *m)
{
	bool found;
	const size_t at = view_find(v, m->id, &found);

	if (!found) {
		if (v->nr_members == CLUSTER_MAX_MEMBERS)
			return -ENOSPC;
		memmove(&v->members[at + 1], &v->members[at],
			(v->nr_members - at) * sizeof(v->members[0]));
		v->nr_members++;
	}
	v->members[at] = *m;
	return 0;
}

void view_check(const struct cluster_view *v)
{
	ASSERT(v->nr_members <= CLUSTER_MAX_MEMBERS);
	for (size_t i = 0; i < v->nr_members; i++) {
		ASSERT(v->members[i].role >= 1 && v->members[i].role <= CLUSTER_NR_ROLES);
		ASSERT(v->members[i].incarn != 0);
		ASSERT(!i || v->members[i].id > v->members[i - 1].id);
	}
}

bool view_remove(struct cluster_view *v, uint32_t id)
{
	bool found;
	const size_t at = view_find(v, id, &found);

	if (!found)
		return false;
	v->nr_members--;
	memmove(&v->members[at], &v->members[at + 1], (v->nr_members - at) * sizeof(v->members[0]));
	return true;
}

static size_t view_count(const struct cluster_view *v, uint8_t role)
{
	size_t nr = 0;

	for (size_t i = 0; i < v->nr_members; i++)
		nr += v->members[i].role == role;
	return nr;
}

bool view_is_complete(const struct cluster_view *v)
{
	for (uint8_t role = 1; role <= CLUSTER_NR_ROLES; role++) {
		if (view_count(v, role) < v->wanted[role - 1])
			return false;
	}
	return true;
}

void view_describe_missing(const struct cluster_view *v, char *buf, size_t size)
{
	static const char *const names[CLUSTER_NR_ROLES] = { "processor", "memory", "storage" };
	size_t len = scnprintf(buf, size, "waiting for ");
	bool first = true;

	for (uint8_t role = 1; role <= CLUSTER_NR_ROLES; role++) {
		const size_t here = view_count(v, role);

		if (here >= v->wanted[role - 1])
			continue;
		len += scnprintf(buf + len, size - len, "%s%s nodes (%zu of %u are here)",
				 first ? "" : ", ", names[role - 1], here, v->wanted[role - 1]);
		first = false;
	}
}

int view_parse_wanted(const char *text, uint16_t wanted[CLUSTER_NR_ROLES])
{
	static const char letters[] = "pms";
	uint16_t out[CLUSTER_NR_ROLES] = { 0 };
	bool seen[CLUSTER_NR_ROLES] = { false };

	do {
		const char *letter = *text ? strchr(letters, *text) : NULL;
		size_t role;
		uint32_t n = 0;
		size_t digits = 0;

		if (!letter)
			return -EINVAL;
		role = (size_t)(letter - letters);
		for (text++; *text >= '0' && *text <= '9' && digits < 4; text++, digits++)
			n = n * 10 + (uint32_t)(*text - '0');
		if (seen[role] || digits == 0 || n > CLUSTER_MAX_MEMBERS)
			return -EINVAL;
		seen[role] = true;
		out[role] = (uint16_t)n;
	} while (*text++ == ',');
	if (text[-1] != '\0' || out[0] + out[1] + out[2] > CLUSTER_MAX_MEMBERS)
		return -EINVAL;
	memcpy(wanted, out, sizeof(out));
	return 0;
}
