/* SPDX-License-Identifier: MIT */
/*
 * Memory <-> memory messages: encode and decode.
 *
 * See:	docs/protocol/mm.md
 */
#include <proto/mm.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"
#include "parts.h"

#define VREGION_SHIFT_MIN 21
#define VREGION_SHIFT_MAX 46

static bool shift_is_valid(uint32_t shift)
{
	return shift >= VREGION_SHIFT_MIN && shift <= VREGION_SHIFT_MAX;
}

/* No call charges more pages than a space has. */
static bool charge_is_valid(uint64_t charge)
{
	return charge <= PM_USER_TOP >> PAGE_SHIFT;
}

/* --- MM_MAP ---------------------------------------------------------------------------- */

#define MM_MAP_VREGION(F) F(u64, index), F(u64, version)

CODEC_FIELDS(mm_map_vregion, MM_MAP_VREGION, codec_any)
CODEC_PART(static, mm_map_vregion)
CODEC_ELEMENTS(static, mm_map_vregion)

#define MM_MAP_REQ(F)                                                                      \
	F(id64, aspace), F(vma, vma), F(u64, charge), F(u32, phase), F(u32, want_credits), \
		F(id32, nr_vregions), F(u32, vregion_shift), F(node, processor), F(id32, vnode)

static bool map_req_is_valid(const struct mm_map_req *r)
{
	return r->processor && r->phase <= MM_ABORT && shift_is_valid(r->vregion_shift) &&
	       charge_is_valid(r->charge);
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

CODEC_LIST(mm_map_req, MM_MAP_REQ, map_req_is_valid, mm_map_vregion, vregions, MM_MAP_MAX_VREGIONS,
	   map_index_is_valid)

#define MM_RANGE_REP(F) F(u64, charge), F(u64, pages), F(grant, grant)

CODEC_FIXED(mm_range_rep, MM_RANGE_REP, codec_any)

/* --- MM_UNMAP, MM_PROTECT -------------------------------------------------------------- */

#define MM_RANGE_REQ(F) \
	F(id64, aspace), F(u64, addr), F(u64, len), F(u64, charge), F(u32, prot), F(u32, phase)

static bool range_req_is_valid(const struct mm_range_req *r)
{
	const bool lease = r->prot == (PM_PROT_READ | PM_PROT_WRITE | MM_PROT_LEASE);

	return range_is_valid(r->addr, r->len) && (lease || !(r->prot & ~(uint32_t)PM_PROT_ALL)) &&
	       r->phase <= MM_ABORT && charge_is_valid(r->charge);
}

CODEC_FIXED(mm_range_req, MM_RANGE_REQ, range_req_is_valid)

/* --- MM_MOVE, MM_PAGES ----------------------------------------------------------------- */

#define MM_MOVE_REQ(F)                                                                         \
	F(id64, aspace), F(u64, old_addr), F(u64, new_addr), F(u64, len), F(u32, nr_vregions), \
		F(u32, vregion_shift), F(u64, seq)

/* The entries are exactly those of the new range, each with an owner. */
static bool move_entry_is_valid(const struct mm_move_req *r, uint32_t i)
{
	return r->vregions[i].index == (r->new_addr >> r->vregion_shift) + i &&
	       r->vregions[i].owner;
}

static bool move_is_valid(const struct mm_move_req *r)
{
	if (!shift_is_valid(r->vregion_shift) || !r->seq)
		return false;
	if (!range_is_valid(r->old_addr, r->len) || !range_is_valid(r->new_addr, r->len))
		return false;
	if (r->nr_vregions > MM_MAP_MAX_VREGIONS)
		return false;
	return r->nr_vregions == ((r->new_addr + r->len - 1) >> r->vregion_shift) -
					 (r->new_addr >> r->vregion_shift) + 1;
}

CODEC_LIST(mm_move_req, MM_MOVE_REQ, move_is_valid, pm_vregion, vregions, MM_MAP_MAX_VREGIONS,
	   move_entry_is_valid)

/* Unlike PM_WRITEBACK's, a page here may have no sequence number. */
#define MM_PAGE(F) F(u64, vaddr), F(u64, seq)

static bool moved_page_is_valid(const struct pm_writeback_page *page)
{
	return page_is_valid(page->vaddr);
}

CODEC_FIELDS(pm_writeback_page, MM_PAGE, moved_page_is_valid)
CODEC_PART(static, pm_writeback_page)
CODEC_ELEMENTS(static, pm_writeback_page)

#define MM_PAGES_REQ(F) F(id64, aspace), F(id32, nr_pages), F(zero32, reserved)

CODEC_LIST(mm_pages_req, MM_PAGES_REQ, codec_any, pm_writeback_page, pages, MM_PAGES_MAX,
	   codec_any_item)

/* --- MM_VREGION_MOVE, MM_VREGION_TAKE -------------------------------------------------- */

#define MM_VREGION_MOVE_REQ(F) \
	F(id64, aspace), F(vregion, vregion), F(node, processor), F(id32, vnode)

static bool vregion_move_req_is_valid(const struct mm_vregion_move_req *r)
{
	return r->vregion.owner && r->processor;
}

CODEC_FIXED(mm_vregion_move_req, MM_VREGION_MOVE_REQ, vregion_move_req_is_valid)

#define MM_EXPECT_REQ(F) \
	F(id64, aspace), F(node, from), F(node, processor), F(id32, vnode), F(zero32, reserved)

static bool expect_req_is_valid(const struct mm_expect_req *r)
{
	return r->processor != 0;
}

CODEC_FIXED(mm_expect_req, MM_EXPECT_REQ, expect_req_is_valid)

#define MM_RELIEVE_REQ(F) F(id64, aspace), F(u64, index), F(node, to), F(zero32, reserved)

static bool relieve_req_is_valid(const struct mm_relieve_req *r)
{
	return r->to != 0;
}

CODEC_FIXED(mm_relieve_req, MM_RELIEVE_REQ, relieve_req_is_valid)

#define MM_VREGION_TAKE_REQ(F)                                                \
	F(id64, aspace), F(vregion, vregion), F(u32, stage), F(u32, nr_vmas), \
		F(u32, vregion_shift), F(node, home), F(node, processor), F(id32, vnode)

static bool take_is_valid(const struct mm_vregion_take_req *r)
{
	if (!r->vregion.owner || !shift_is_valid(r->vregion_shift))
		return false;
	if (!r->home || !r->processor)
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

CODEC_LIST(mm_vregion_take_req, MM_VREGION_TAKE_REQ, take_is_valid, pm_vma, vmas, MM_TAKE_MAX_VMAS,
	   take_vma_is_valid)

/* --- MM_FORK ----------------------------------------------------------------------------- */

#define MM_FORK_REQ(F) \
	F(id64, aspace), F(id64, parent), F(id64, child), F(u32, want_credits), F(u32, phase)

static bool fork_req_is_valid(const struct mm_fork_req *r)
{
	if (r->phase != MM_ONCE && r->phase != MM_ABORT)
		return false;
	return r->aspace != r->parent && r->aspace != r->child && r->parent != r->child;
}

CODEC_FIXED(mm_fork_req, MM_FORK_REQ, fork_req_is_valid)

/* --- MM_LOAD ----------------------------------------------------------------------------- */

#define MM_LOAD_REQ(F)                                                                  \
	F(id64, aspace), F(u32, want_credits), F(u32, vregion_shift), F(id32, nr_vmas), \
		F(id32, nr_vregions), F(node, processor), F(id32, vnode)

static bool load_req_is_valid(const struct mm_load_req *r)
{
	return r->processor && shift_is_valid(r->vregion_shift) && r->nr_vmas <= MM_LOAD_MAX_VMAS &&
	       r->nr_vregions <= MM_MAP_MAX_VREGIONS;
}

CODEC_FIELDS(mm_load_req, MM_LOAD_REQ, load_req_is_valid)

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
	mm_load_req_put(req, &w);
	memcpy(pos, &w, sizeof(w));
	pos = pm_vma_list_put(req->vmas, req->nr_vmas, pos + sizeof(w));
	mm_map_vregion_list_put(req->vregions, req->nr_vregions, pos);
	return (ssize_t)load_req_size(req);
}

/* Both lists ascend. */
static bool load_lists_are_valid(const struct mm_load_req *r)
{
	for (uint32_t i = 1; i < r->nr_vmas; i++)
		if (r->vmas[i].start < r->vmas[i - 1].end)
			return false;
	for (uint32_t i = 0; i < r->nr_vregions; i++)
		if (r->vregions[i].index > PM_USER_TOP >> r->vregion_shift ||
		    (i && r->vregions[i].index <= r->vregions[i - 1].index))
			return false;
	return true;
}

/* The result is large, so it is decoded in place: after a failure @out holds nothing of use. */
int mm_load_req_decode(const void *buf, size_t len, struct mm_load_req *out)
{
	struct mm_load_req_wire w;
	const uint8_t *pos = buf;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, pos, sizeof(w));
	if (!mm_load_req_get(&w, out))
		return -EPROTO;
	if (len != load_req_size(out))
		return -EMSGSIZE;
	pos = pm_vma_list_get(pos + sizeof(w), out->nr_vmas, out->vmas);
	if (!pos || !mm_map_vregion_list_get(pos, out->nr_vregions, out->vregions))
		return -EPROTO;
	return load_lists_are_valid(out) ? 0 : -EPROTO;
}

/* --- MM_FILE_READ ---------------------------------------------------------------------- */

#define MM_FILE_READ_REQ(F) F(file, file), F(u64, offset), F(id32, len), F(zero32, reserved)

static bool file_read_req_is_valid(const struct mm_file_read_req *r)
{
	return r->file.node && r->len <= MM_FILE_READ_MAX &&
	       r->offset <= (uint64_t)INT64_MAX - r->len;
}

CODEC_FIXED(mm_file_read_req, MM_FILE_READ_REQ, file_read_req_is_valid)
