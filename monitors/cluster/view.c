/* SPDX-License-Identifier: MIT */
/*
 * The membership view as pure data.  No locks: the callers have theirs.
 */
#include <cluster/membership.h>

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

static_assert(CLUSTER_ROLE_PROC == NODE_ROLE_PROCESSOR, "the same");

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
		if (!cluster_view_fits(v->nr_members + 1u, v->nr_placed))
			return -ENOSPC;
		memmove(&v->members[at + 1], &v->members[at],
			(v->nr_members - at) * sizeof(v->members[0]));
		v->nr_members++;
	}
	v->members[at] = *m;
	return 0;
}

static int placed_cmp(const struct cluster_placed *a, const struct cluster_placed *b)
{
	if (a->vnode != b->vnode)
		return a->vnode < b->vnode ? -1 : 1;
	return a->node == b->node ? 0 : a->node < b->node ? -1 : 1;
}

void view_check(const struct cluster_view *v)
{
	ASSERT(v->nr_members <= CLUSTER_MAX_MEMBERS);
	for (size_t i = 0; i < v->nr_members; i++) {
		ASSERT(v->members[i].role >= 1 && v->members[i].role <= CLUSTER_NR_ROLES);
		ASSERT(v->members[i].incarn != 0);
		ASSERT(!i || v->members[i].id > v->members[i - 1].id);
	}
	ASSERT(v->nr_placed <= CLUSTER_MAX_PLACED);
	for (size_t i = 1; i < v->nr_placed; i++)
		ASSERT(placed_cmp(&v->placed[i - 1], &v->placed[i]) < 0);
}

/* Position of @p, or where it would be inserted. */
static size_t placed_find(const struct cluster_placed *list, size_t nr,
			  const struct cluster_placed *p, bool *found)
{
	size_t low = 0, high = nr;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (placed_cmp(&list[mid], p) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*found = low < nr && !placed_cmp(&list[low], p);
	return low;
}

static void placed_erase(struct cluster_view *v, size_t at)
{
	ASSERT(at < v->nr_placed);
	v->nr_placed--;
	memmove(&v->placed[at], &v->placed[at + 1], (v->nr_placed - at) * sizeof(v->placed[0]));
}

bool view_remove(struct cluster_view *v, uint32_t id)
{
	bool found;
	const size_t at = view_find(v, id, &found);

	if (!found)
		return false;
	v->nr_members--;
	memmove(&v->members[at], &v->members[at + 1], (v->nr_members - at) * sizeof(v->members[0]));
	for (size_t i = v->nr_placed; i-- > 0;)
		if (v->placed[i].node == id)
			placed_erase(v, i);
	return true;
}

/* --- placements ---------------------------------------------------------------------------- */

int view_place(struct cluster_view *v, uint32_t vnode, uint32_t node)
{
	const struct cluster_placed p = { .vnode = vnode, .node = node };
	bool found;
	const size_t at = placed_find(v->placed, v->nr_placed, &p, &found);

	if (found)
		return 0;
	if (!cluster_view_fits(v->nr_members, v->nr_placed + 1u))
		return -ENOSPC;
	memmove(&v->placed[at + 1], &v->placed[at], (v->nr_placed - at) * sizeof(v->placed[0]));
	v->nr_placed++;
	v->placed[at] = p;
	return 0;
}

bool view_unplace(struct cluster_view *v, uint32_t vnode, uint32_t node)
{
	bool found;
	const size_t at = placed_find(v->placed, v->nr_placed,
				      &(struct cluster_placed){ vnode, node }, &found);

	if (found)
		placed_erase(v, at);
	return found;
}

bool placed_has(const struct cluster_placed *list, size_t nr, uint32_t vnode, uint32_t node)
{
	bool found;

	(void)placed_find(list, nr, &(struct cluster_placed){ vnode, 0 }, &found);
	if (!found)
		(void)placed_find(list, nr, &(struct cluster_placed){ vnode, node }, &found);
	return found;
}

bool view_is_placed(const struct cluster_view *v, uint32_t vnode, uint32_t node)
{
	return placed_has(v->placed, v->nr_placed, vnode, node);
}

/* Is @id in both, as a processor in the same incarnation? */
static bool stays(const struct cluster_view *a, const struct cluster_view *b, uint32_t id)
{
	bool in_a, in_b;
	const size_t at_a = view_find(a, id, &in_a);
	const size_t at_b = view_find(b, id, &in_b);

	return in_a && in_b && a->members[at_a].incarn == b->members[at_b].incarn &&
	       a->members[at_a].role == NODE_ROLE_PROCESSOR;
}

void view_keep_placed(struct cluster_view *v, const struct cluster_view *from)
{
	for (size_t i = 0; i < from->nr_placed; i++) {
		const struct cluster_placed *p = &from->placed[i];

		if ((!p->node || stays(v, from, p->node)) && view_place(v, p->vnode, p->node))
			return; /* as many as a view can have */
	}
}

bool view_has_withdrawn(const struct cluster_view *before, const struct cluster_view *now)
{
	for (size_t i = 0; i < before->nr_placed; i++) {
		const struct cluster_placed *p = &before->placed[i];

		if ((!p->node || stays(before, now, p->node)) &&
		    !view_is_placed(now, p->vnode, p->node))
			return true;
	}
	return false;
}

/* --- which nodes are missing --------------------------------------------------------------- */

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
