/* SPDX-License-Identifier: MIT */
/*
 * Processor <-> memory messages of fork, and of spaces without mappings: encode and decode.
 *
 * PM_DISCARD and PM_MERGE go from home to owner as well (MM_DISCARD, MM_MERGE).
 *
 * See:	docs/protocol/pm.md, docs/design/fork.md
 */
#include <proto/pm.h>

#include <lib/errno.h>
#include <lib/string.h>

/* --- PM_FORK ----------------------------------------------------------------------------- */

void pm_fork_req_encode(const struct pm_fork_req *req, struct pm_fork_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->parent = cpu_to_le64(req->parent);
	w->child = cpu_to_le64(req->child);
	w->want_credits = cpu_to_le32(req->want_credits);
	w->reserved = cpu_to_le32(0);
}

int pm_fork_req_decode(const void *buf, size_t len, struct pm_fork_req *out)
{
	struct pm_fork_req_wire w;
	struct pm_fork_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.parent = le64_to_cpu(w.parent);
	r.child = le64_to_cpu(w.child);
	r.want_credits = le32_to_cpu(w.want_credits);
	if (!r.aspace || !r.parent || !r.child || le32_to_cpu(w.reserved))
		return -EPROTO;
	if (r.aspace == r.parent || r.aspace == r.child || r.parent == r.child)
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- lists of ranges ----------------------------------------------------------------------- */

static void ranges_encode(const struct pm_page_range *ranges, uint32_t nr, uint8_t *out)
{
	for (uint32_t i = 0; i < nr; i++) {
		struct pm_page_range_wire w;

		w.addr = cpu_to_le64(ranges[i].addr);
		w.len = cpu_to_le64(ranges[i].len);
		memcpy(out, &w, sizeof(w));
		out += sizeof(w);
	}
}

/* Whole pages below the end of user space, each range behind the one before it. */
static int ranges_decode(const uint8_t *in, uint32_t nr, struct pm_page_range *out)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < nr; i++) {
		struct pm_page_range_wire w;
		uint64_t addr, len;

		memcpy(&w, in, sizeof(w));
		in += sizeof(w);
		addr = le64_to_cpu(w.addr);
		len = le64_to_cpu(w.len);
		if ((addr & PAGE_MASK_LOW) || (len & PAGE_MASK_LOW) || !len || addr < end)
			return -EPROTO;
		if (len > PM_USER_TOP || addr > PM_USER_TOP - len)
			return -EPROTO;
		out[i].addr = addr;
		out[i].len = len;
		end = addr + len;
	}
	return 0;
}

/* --- PM_DISCARD ---------------------------------------------------------------------------- */

ssize_t pm_discard_req_encode(const struct pm_discard_req *req, void *buf, size_t cap)
{
	struct pm_discard_req_wire w;
	size_t len;

	if (req->nr_ranges > PM_DISCARD_MAX_RANGES)
		return -EMSGSIZE;
	len = sizeof(w) + req->nr_ranges * sizeof(struct pm_page_range_wire);
	if (cap < len)
		return -EMSGSIZE;
	w.aspace = cpu_to_le64(req->aspace);
	w.nr_ranges = cpu_to_le32(req->nr_ranges);
	w.reserved = cpu_to_le32(0);
	memcpy(buf, &w, sizeof(w));
	ranges_encode(req->ranges, req->nr_ranges, (uint8_t *)buf + sizeof(w));
	return (ssize_t)len;
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int pm_discard_req_decode(const void *buf, size_t len, struct pm_discard_req *out)
{
	struct pm_discard_req_wire w;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	out->aspace = le64_to_cpu(w.aspace);
	out->nr_ranges = le32_to_cpu(w.nr_ranges);
	if (!out->aspace || !out->nr_ranges || out->nr_ranges > PM_DISCARD_MAX_RANGES ||
	    le32_to_cpu(w.reserved))
		return -EPROTO;
	if (len != sizeof(w) + out->nr_ranges * sizeof(struct pm_page_range_wire))
		return -EMSGSIZE;
	return ranges_decode((const uint8_t *)buf + sizeof(w), out->nr_ranges, out->ranges);
}

/* --- PM_MERGE ------------------------------------------------------------------------------ */

ssize_t pm_merge_req_encode(const struct pm_merge_req *req, void *buf, size_t cap)
{
	struct pm_merge_req_wire w;
	size_t len;

	if (req->nr_ranges > PM_DISCARD_MAX_RANGES)
		return -EMSGSIZE;
	len = sizeof(w) + req->nr_ranges * sizeof(struct pm_page_range_wire);
	if (cap < len)
		return -EMSGSIZE;
	w.from = cpu_to_le64(req->from);
	w.into = cpu_to_le64(req->into);
	w.nr_ranges = cpu_to_le32(req->nr_ranges);
	w.reserved = cpu_to_le32(0);
	memcpy(buf, &w, sizeof(w));
	ranges_encode(req->ranges, req->nr_ranges, (uint8_t *)buf + sizeof(w));
	return (ssize_t)len;
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int pm_merge_req_decode(const void *buf, size_t len, struct pm_merge_req *out)
{
	struct pm_merge_req_wire w;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	out->from = le64_to_cpu(w.from);
	out->into = le64_to_cpu(w.into);
	out->nr_ranges = le32_to_cpu(w.nr_ranges);
	if (!out->from || !out->into || out->from == out->into || le32_to_cpu(w.reserved))
		return -EPROTO;
	if (out->nr_ranges > PM_DISCARD_MAX_RANGES)
		return -EPROTO;
	if (len != sizeof(w) + out->nr_ranges * sizeof(struct pm_page_range_wire))
		return -EMSGSIZE;
	return ranges_decode((const uint8_t *)buf + sizeof(w), out->nr_ranges, out->ranges);
}

/* --- PM_SPACE ------------------------------------------------------------------------------ */

void pm_space_req_encode(const struct pm_space_req *req, struct pm_space_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->len = cpu_to_le64(req->len);
	w->flags = cpu_to_le32(req->flags);
	w->vnode = cpu_to_le32(req->vnode);
	w->want_credits = cpu_to_le32(req->want_credits);
	w->reserved = cpu_to_le32(0);
}

int pm_space_req_decode(const void *buf, size_t len, struct pm_space_req *out)
{
	struct pm_space_req_wire w;
	struct pm_space_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.len = le64_to_cpu(w.len);
	r.flags = le32_to_cpu(w.flags);
	r.vnode = le32_to_cpu(w.vnode);
	r.want_credits = le32_to_cpu(w.want_credits);
	if (!r.aspace || (r.len & PAGE_MASK_LOW) || r.len > PM_USER_TOP)
		return -EPROTO;
	if ((r.flags & ~(uint32_t)PM_SPACE_ALL) || le32_to_cpu(w.reserved))
		return -EPROTO;
	*out = r;
	return 0;
}
