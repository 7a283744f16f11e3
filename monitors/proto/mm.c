/* SPDX-License-Identifier: MIT */
/*
 * Memory <-> memory messages: encode and decode.
 *
 * See:	docs/protocol/mm.md
 */
#include <proto/mm.h>

#include <lib/errno.h>
#include <lib/string.h>

#define VREGION_SHIFT_MIN 21
#define VREGION_SHIFT_MAX 46

static bool range_is_valid(uint64_t addr, uint64_t len)
{
	return !(addr & PAGE_MASK_LOW) && !(len & PAGE_MASK_LOW) && len && len <= PM_USER_TOP &&
	       addr <= PM_USER_TOP - len;
}

static bool shift_is_valid(uint32_t shift)
{
	return shift >= VREGION_SHIFT_MIN && shift <= VREGION_SHIFT_MAX;
}

/* --- MM_MAP ---------------------------------------------------------------------------- */

ssize_t mm_map_req_encode(const struct mm_map_req *req, void *buf, size_t cap)
{
	struct mm_map_req_wire w;
	uint8_t *pos = buf;
	size_t len;

	if (req->nr_vregions > MM_MAP_MAX_VREGIONS)
		return -EMSGSIZE;
	len = sizeof(w) + req->nr_vregions * sizeof(struct mm_map_vregion_wire);
	if (cap < len)
		return -EMSGSIZE;
	w.aspace = cpu_to_le64(req->aspace);
	pm_vma_encode(&req->vma, &w.vma);
	w.charge = cpu_to_le64(req->charge);
	w.phase = cpu_to_le32(req->phase);
	w.want_credits = cpu_to_le32(req->want_credits);
	w.nr_vregions = cpu_to_le32(req->nr_vregions);
	w.vregion_shift = cpu_to_le32(req->vregion_shift);
	memcpy(pos, &w, sizeof(w));
	pos += sizeof(w);
	for (uint32_t i = 0; i < req->nr_vregions; i++) {
		struct mm_map_vregion_wire vr;

		vr.index = cpu_to_le64(req->vregions[i].index);
		vr.version = cpu_to_le64(req->vregions[i].version);
		memcpy(pos, &vr, sizeof(vr));
		pos += sizeof(vr);
	}
	return (ssize_t)len;
}

/* Each index lies in the vma's range and above the one before it. */
static bool map_index_is_valid(const struct mm_map_req *r, uint32_t i)
{
	const uint64_t index = r->vregions[i].index;

	if (index < r->vma.start >> r->vregion_shift ||
	    index > (r->vma.end - 1) >> r->vregion_shift)
		return false;
	return !i || index > r->vregions[i - 1].index;
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int mm_map_req_decode(const void *buf, size_t len, struct mm_map_req *out)
{
	const uint8_t *pos = buf;
	struct mm_map_req_wire w;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, pos, sizeof(w));
	pos += sizeof(w);
	out->aspace = le64_to_cpu(w.aspace);
	out->charge = le64_to_cpu(w.charge);
	out->phase = le32_to_cpu(w.phase);
	out->want_credits = le32_to_cpu(w.want_credits);
	out->nr_vregions = le32_to_cpu(w.nr_vregions);
	out->vregion_shift = le32_to_cpu(w.vregion_shift);
	if (!out->aspace || pm_vma_decode(&w.vma, &out->vma) || out->phase > MM_ABORT)
		return -EPROTO;
	if (!out->nr_vregions || out->nr_vregions > MM_MAP_MAX_VREGIONS ||
	    !shift_is_valid(out->vregion_shift))
		return -EPROTO;
	if (len != sizeof(w) + out->nr_vregions * sizeof(struct mm_map_vregion_wire))
		return -EMSGSIZE;
	for (uint32_t i = 0; i < out->nr_vregions; i++) {
		struct mm_map_vregion_wire vr;

		memcpy(&vr, pos, sizeof(vr));
		pos += sizeof(vr);
		out->vregions[i].index = le64_to_cpu(vr.index);
		out->vregions[i].version = le64_to_cpu(vr.version);
		if (!map_index_is_valid(out, i))
			return -EPROTO;
	}
	return 0;
}

void mm_range_rep_encode(const struct mm_range_rep *rep, struct mm_range_rep_wire *w)
{
	w->charge = cpu_to_le64(rep->charge);
	w->pages = cpu_to_le64(rep->pages);
	pm_grant_encode(&rep->grant, &w->grant);
}

int mm_range_rep_decode(const void *buf, size_t len, struct mm_range_rep *out)
{
	struct mm_range_rep_wire w;
	struct mm_range_rep r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.charge = le64_to_cpu(w.charge);
	r.pages = le64_to_cpu(w.pages);
	if (pm_grant_decode(&w.grant, &r.grant))
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- MM_UNMAP, MM_PROTECT -------------------------------------------------------------- */

void mm_range_req_encode(const struct mm_range_req *req, struct mm_range_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->addr = cpu_to_le64(req->addr);
	w->len = cpu_to_le64(req->len);
	w->charge = cpu_to_le64(req->charge);
	w->prot = cpu_to_le32(req->prot);
	w->phase = cpu_to_le32(req->phase);
}

int mm_range_req_decode(const void *buf, size_t len, struct mm_range_req *out)
{
	struct mm_range_req_wire w;
	struct mm_range_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.addr = le64_to_cpu(w.addr);
	r.len = le64_to_cpu(w.len);
	r.charge = le64_to_cpu(w.charge);
	r.prot = le32_to_cpu(w.prot);
	r.phase = le32_to_cpu(w.phase);
	if (!r.aspace || !range_is_valid(r.addr, r.len))
		return -EPROTO;
	if ((r.prot & ~(uint32_t)PM_PROT_ALL) || r.phase > MM_ABORT)
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- MM_MOVE, MM_PAGES ----------------------------------------------------------------- */

ssize_t mm_move_req_encode(const struct mm_move_req *req, void *buf, size_t cap)
{
	struct mm_move_req_wire w;
	uint8_t *pos = buf;
	size_t len;

	if (req->nr_vregions > MM_MAP_MAX_VREGIONS)
		return -EMSGSIZE;
	len = sizeof(w) + req->nr_vregions * sizeof(struct pm_vregion_wire);
	if (cap < len)
		return -EMSGSIZE;
	w.aspace = cpu_to_le64(req->aspace);
	w.old_addr = cpu_to_le64(req->old_addr);
	w.new_addr = cpu_to_le64(req->new_addr);
	w.len = cpu_to_le64(req->len);
	w.nr_vregions = cpu_to_le32(req->nr_vregions);
	w.vregion_shift = cpu_to_le32(req->vregion_shift);
	memcpy(pos, &w, sizeof(w));
	pos += sizeof(w);
	for (uint32_t i = 0; i < req->nr_vregions; i++) {
		struct pm_vregion_wire vr;

		pm_vregion_encode(&req->vregions[i], &vr);
		memcpy(pos, &vr, sizeof(vr));
		pos += sizeof(vr);
	}
	return (ssize_t)len;
}

/* The entries are exactly those of the new range, each with an owner. */
static bool move_entry_is_valid(const struct mm_move_req *r, uint32_t i)
{
	return r->vregions[i].index == (r->new_addr >> r->vregion_shift) + i &&
	       r->vregions[i].owner;
}

static bool move_is_valid(const struct mm_move_req *r)
{
	if (!r->aspace || !shift_is_valid(r->vregion_shift))
		return false;
	if (!range_is_valid(r->old_addr, r->len) || !range_is_valid(r->new_addr, r->len))
		return false;
	if (r->nr_vregions > MM_MAP_MAX_VREGIONS)
		return false;
	return r->nr_vregions == ((r->new_addr + r->len - 1) >> r->vregion_shift) -
					 (r->new_addr >> r->vregion_shift) + 1;
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int mm_move_req_decode(const void *buf, size_t len, struct mm_move_req *out)
{
	struct mm_move_req_wire w;
	const uint8_t *pos = buf;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, pos, sizeof(w));
	pos += sizeof(w);
	out->aspace = le64_to_cpu(w.aspace);
	out->old_addr = le64_to_cpu(w.old_addr);
	out->new_addr = le64_to_cpu(w.new_addr);
	out->len = le64_to_cpu(w.len);
	out->nr_vregions = le32_to_cpu(w.nr_vregions);
	out->vregion_shift = le32_to_cpu(w.vregion_shift);
	if (!move_is_valid(out))
		return -EPROTO;
	if (len != sizeof(w) + out->nr_vregions * sizeof(struct pm_vregion_wire))
		return -EMSGSIZE;
	for (uint32_t i = 0; i < out->nr_vregions; i++) {
		struct pm_vregion_wire vr;

		memcpy(&vr, pos, sizeof(vr));
		pos += sizeof(vr);
		if (pm_vregion_decode(&vr, &out->vregions[i]) || !move_entry_is_valid(out, i))
			return -EPROTO;
	}
	return 0;
}

ssize_t mm_pages_req_encode(const struct mm_pages_req *req, void *buf, size_t cap)
{
	struct mm_pages_req_wire w;
	uint8_t *pos = buf;
	size_t len;

	if (req->nr_pages > MM_PAGES_MAX)
		return -EMSGSIZE;
	len = sizeof(w) + req->nr_pages * sizeof(struct pm_writeback_page_wire);
	if (cap < len)
		return -EMSGSIZE;
	w.aspace = cpu_to_le64(req->aspace);
	w.nr_pages = cpu_to_le32(req->nr_pages);
	w.reserved = cpu_to_le32(0);
	memcpy(pos, &w, sizeof(w));
	pos += sizeof(w);
	for (uint32_t i = 0; i < req->nr_pages; i++) {
		struct pm_writeback_page_wire page;

		page.vaddr = cpu_to_le64(req->pages[i].vaddr);
		page.seq = cpu_to_le64(req->pages[i].seq);
		memcpy(pos, &page, sizeof(page));
		pos += sizeof(page);
	}
	return (ssize_t)len;
}

int mm_pages_req_decode(const void *buf, size_t len, struct mm_pages_req *out)
{
	struct mm_pages_req_wire w;
	struct mm_pages_req r = { 0 };
	const uint8_t *pos = buf;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, pos, sizeof(w));
	pos += sizeof(w);
	r.aspace = le64_to_cpu(w.aspace);
	r.nr_pages = le32_to_cpu(w.nr_pages);
	if (!r.aspace || !r.nr_pages || r.nr_pages > MM_PAGES_MAX || le32_to_cpu(w.reserved))
		return -EPROTO;
	if (len != sizeof(w) + r.nr_pages * sizeof(struct pm_writeback_page_wire))
		return -EMSGSIZE;
	for (uint32_t i = 0; i < r.nr_pages; i++) {
		struct pm_writeback_page_wire page;

		memcpy(&page, pos, sizeof(page));
		pos += sizeof(page);
		r.pages[i].vaddr = le64_to_cpu(page.vaddr);
		r.pages[i].seq = le64_to_cpu(page.seq);
		if (!range_is_valid(r.pages[i].vaddr, PAGE_SIZE))
			return -EPROTO;
	}
	*out = r;
	return 0;
}

/* --- MM_VREGION_MOVE, MM_VREGION_TAKE -------------------------------------------------- */

void mm_vregion_move_req_encode(const struct mm_vregion_move_req *req,
				struct mm_vregion_move_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	pm_vregion_encode(&req->vregion, &w->vregion);
}

int mm_vregion_move_req_decode(const void *buf, size_t len, struct mm_vregion_move_req *out)
{
	struct mm_vregion_move_req_wire w;
	struct mm_vregion_move_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	if (!r.aspace || pm_vregion_decode(&w.vregion, &r.vregion) || !r.vregion.owner)
		return -EPROTO;
	*out = r;
	return 0;
}

ssize_t mm_vregion_take_req_encode(const struct mm_vregion_take_req *req, void *buf, size_t cap)
{
	struct mm_vregion_take_req_wire w;
	uint8_t *pos = buf;
	size_t len;

	if (req->nr_vmas > MM_TAKE_MAX_VMAS)
		return -EMSGSIZE;
	len = sizeof(w) + req->nr_vmas * sizeof(struct pm_vma_wire);
	if (cap < len)
		return -EMSGSIZE;
	w.aspace = cpu_to_le64(req->aspace);
	pm_vregion_encode(&req->vregion, &w.vregion);
	w.stage = cpu_to_le32(req->stage);
	w.nr_vmas = cpu_to_le32(req->nr_vmas);
	w.vregion_shift = cpu_to_le32(req->vregion_shift);
	w.home = cpu_to_le32(req->home);
	memcpy(pos, &w, sizeof(w));
	pos += sizeof(w);
	for (uint32_t i = 0; i < req->nr_vmas; i++) {
		struct pm_vma_wire vma;

		pm_vma_encode(&req->vmas[i], &vma);
		memcpy(pos, &vma, sizeof(vma));
		pos += sizeof(vma);
	}
	return (ssize_t)len;
}

static bool take_is_valid(const struct mm_vregion_take_req *r)
{
	if (!r->aspace || !r->vregion.owner || !shift_is_valid(r->vregion_shift))
		return false;
	if (!r->home || r->home > PROTO_NODE_MAX)
		return false;
	if (r->vregion.index > PM_USER_TOP >> r->vregion_shift)
		return false;
	if (r->stage < MM_TAKE_BEGIN || r->stage > MM_TAKE_ABORT)
		return false;
	if (r->stage == MM_TAKE_VMAS)
		return r->nr_vmas && r->nr_vmas <= MM_TAKE_MAX_VMAS;
	return !r->nr_vmas;
}

/* Each vma lies in the vRegion and behind the one before it. */
static bool take_vma_is_valid(const struct mm_vregion_take_req *r, uint32_t i)
{
	const struct pm_vma *vma = &r->vmas[i];

	if (vma->start >> r->vregion_shift != r->vregion.index ||
	    (vma->end - 1) >> r->vregion_shift != r->vregion.index)
		return false;
	return !i || vma->start >= r->vmas[i - 1].end;
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int mm_vregion_take_req_decode(const void *buf, size_t len, struct mm_vregion_take_req *out)
{
	struct mm_vregion_take_req_wire w;
	const uint8_t *pos = buf;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, pos, sizeof(w));
	pos += sizeof(w);
	out->aspace = le64_to_cpu(w.aspace);
	out->stage = le32_to_cpu(w.stage);
	out->nr_vmas = le32_to_cpu(w.nr_vmas);
	out->vregion_shift = le32_to_cpu(w.vregion_shift);
	out->home = le32_to_cpu(w.home);
	if (pm_vregion_decode(&w.vregion, &out->vregion) || !take_is_valid(out))
		return -EPROTO;
	if (len != sizeof(w) + out->nr_vmas * sizeof(struct pm_vma_wire))
		return -EMSGSIZE;
	for (uint32_t i = 0; i < out->nr_vmas; i++) {
		struct pm_vma_wire vma;

		memcpy(&vma, pos, sizeof(vma));
		pos += sizeof(vma);
		if (pm_vma_decode(&vma, &out->vmas[i]) || !take_vma_is_valid(out, i))
			return -EPROTO;
	}
	return 0;
}

/* --- MM_FORK ----------------------------------------------------------------------------- */

void mm_fork_req_encode(const struct mm_fork_req *req, struct mm_fork_req_wire *w)
{
	w->aspace = cpu_to_le64(req->aspace);
	w->parent = cpu_to_le64(req->parent);
	w->child = cpu_to_le64(req->child);
	w->want_credits = cpu_to_le32(req->want_credits);
	w->phase = cpu_to_le32(req->phase);
}

int mm_fork_req_decode(const void *buf, size_t len, struct mm_fork_req *out)
{
	struct mm_fork_req_wire w;
	struct mm_fork_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.aspace = le64_to_cpu(w.aspace);
	r.parent = le64_to_cpu(w.parent);
	r.child = le64_to_cpu(w.child);
	r.want_credits = le32_to_cpu(w.want_credits);
	r.phase = le32_to_cpu(w.phase);
	if (!r.aspace || !r.parent || !r.child || (r.phase != MM_ONCE && r.phase != MM_ABORT))
		return -EPROTO;
	if (r.aspace == r.parent || r.aspace == r.child || r.parent == r.child)
		return -EPROTO;
	*out = r;
	return 0;
}

/* --- MM_LOAD ----------------------------------------------------------------------------- */

static size_t load_req_size(const struct mm_load_req *req)
{
	return sizeof(struct mm_load_req_wire) + req->nr_vmas * sizeof(struct pm_vma_wire) +
	       req->nr_vregions * sizeof(struct mm_map_vregion_wire);
}

ssize_t mm_load_req_encode(const struct mm_load_req *req, void *buf, size_t cap)
{
	struct mm_load_req_wire w;
	uint8_t *pos = buf;

	if (req->nr_vmas > MM_LOAD_MAX_VMAS || req->nr_vregions > MM_MAP_MAX_VREGIONS ||
	    cap < load_req_size(req))
		return -EMSGSIZE;
	w.aspace = cpu_to_le64(req->aspace);
	w.want_credits = cpu_to_le32(req->want_credits);
	w.vregion_shift = cpu_to_le32(req->vregion_shift);
	w.nr_vmas = cpu_to_le32(req->nr_vmas);
	w.nr_vregions = cpu_to_le32(req->nr_vregions);
	memcpy(pos, &w, sizeof(w));
	pos += sizeof(w);
	for (uint32_t i = 0; i < req->nr_vmas; i++) {
		struct pm_vma_wire vma;

		pm_vma_encode(&req->vmas[i], &vma);
		memcpy(pos, &vma, sizeof(vma));
		pos += sizeof(vma);
	}
	for (uint32_t i = 0; i < req->nr_vregions; i++) {
		struct mm_map_vregion_wire vr;

		vr.index = cpu_to_le64(req->vregions[i].index);
		vr.version = cpu_to_le64(req->vregions[i].version);
		memcpy(pos, &vr, sizeof(vr));
		pos += sizeof(vr);
	}
	return (ssize_t)load_req_size(req);
}

/* Both lists, each ascending; the caller has checked that they are there. */
static int load_lists_decode(const uint8_t *pos, struct mm_load_req *out)
{
	for (uint32_t i = 0; i < out->nr_vmas; i++) {
		struct pm_vma_wire vma;

		memcpy(&vma, pos, sizeof(vma));
		pos += sizeof(vma);
		if (pm_vma_decode(&vma, &out->vmas[i]) ||
		    (i && out->vmas[i].start < out->vmas[i - 1].end))
			return -EPROTO;
	}
	for (uint32_t i = 0; i < out->nr_vregions; i++) {
		struct mm_map_vregion_wire vr;

		memcpy(&vr, pos, sizeof(vr));
		pos += sizeof(vr);
		out->vregions[i].index = le64_to_cpu(vr.index);
		out->vregions[i].version = le64_to_cpu(vr.version);
		if (out->vregions[i].index > PM_USER_TOP >> out->vregion_shift ||
		    (i && out->vregions[i].index <= out->vregions[i - 1].index))
			return -EPROTO;
	}
	return 0;
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int mm_load_req_decode(const void *buf, size_t len, struct mm_load_req *out)
{
	struct mm_load_req_wire w;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	out->aspace = le64_to_cpu(w.aspace);
	out->want_credits = le32_to_cpu(w.want_credits);
	out->vregion_shift = le32_to_cpu(w.vregion_shift);
	out->nr_vmas = le32_to_cpu(w.nr_vmas);
	out->nr_vregions = le32_to_cpu(w.nr_vregions);
	if (!out->aspace || !shift_is_valid(out->vregion_shift))
		return -EPROTO;
	if (!out->nr_vmas || out->nr_vmas > MM_LOAD_MAX_VMAS || !out->nr_vregions ||
	    out->nr_vregions > MM_MAP_MAX_VREGIONS)
		return -EPROTO;
	if (len != load_req_size(out))
		return -EMSGSIZE;
	return load_lists_decode((const uint8_t *)buf + sizeof(w), out);
}

/* --- MM_FILE_READ ---------------------------------------------------------------------- */

void mm_file_read_req_encode(const struct mm_file_read_req *req, struct mm_file_read_req_wire *w)
{
	proto_file_encode(&req->file, &w->file);
	w->offset = cpu_to_le64(req->offset);
	w->len = cpu_to_le32(req->len);
	w->reserved = cpu_to_le32(0);
}

int mm_file_read_req_decode(const void *buf, size_t len, struct mm_file_read_req *out)
{
	struct mm_file_read_req_wire w;
	struct mm_file_read_req r;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	r.offset = le64_to_cpu(w.offset);
	r.len = le32_to_cpu(w.len);
	if (proto_file_decode(&w.file, &r.file) || !r.file.node || le32_to_cpu(w.reserved))
		return -EPROTO;
	if (!r.len || r.len > MM_FILE_READ_MAX || r.offset > (uint64_t)INT64_MAX - r.len)
		return -EPROTO;
	*out = r;
	return 0;
}
