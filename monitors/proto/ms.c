/* SPDX-License-Identifier: MIT */
/*
 * Memory <-> storage messages: encode and decode.
 *
 * See:	docs/protocol/ms.md
 */
#include <proto/ms.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"
#include "parts.h"

#define MS_READ_REQ(F) F(file, file), F(u64, pgoff), F(u32, nr_pages), F(zero32, reserved)

static bool read_req_is_valid(const struct ms_read_req *r)
{
	return r->file.node && r->nr_pages && r->nr_pages <= MS_READ_MAX_PAGES &&
	       file_pages_are_valid(r->pgoff, r->nr_pages);
}

CODEC_LIST(ms_read_req, MS_READ_REQ, read_req_is_valid, proto_mr_ref, pages, MS_READ_MAX_PAGES,
	   codec_any_item)

#define MS_READ_REP(F) F(u32, nr_valid), F(u32, last_bytes), F(u64, file_size), F(u64, version)

static bool read_rep_is_valid(const struct ms_read_rep *r)
{
	return filled_is_valid(r->nr_valid, MS_READ_MAX_PAGES, r->last_bytes) &&
	       r->file_size <= INT64_MAX;
}

CODEC_FIXED(ms_read_rep, MS_READ_REP, read_rep_is_valid)

/* --- files that change ------------------------------------------------------------------- */

#define MS_CLAIM_REQ(F) F(file, file), F(u64, epoch)

static bool claim_req_is_valid(const struct ms_claim_req *r)
{
	return r->file.node != 0;
}

CODEC_FIXED(ms_claim_req, MS_CLAIM_REQ, claim_req_is_valid)

#define MS_FILE_STATE(F)                                                                 \
	F(u64, epoch), F(u64, size), F(u64, version), F(s64, mtime_s), F(u32, mtime_ns), \
		F(node, node), F(u64, max_size), F(u64, pos)

/* Either the claim is the asker's, or only the node that has it is told. */
static bool file_state_is_valid(const struct ms_file_state *r)
{
	if (!r->node)
		return false;
	if (!r->epoch)
		return !r->size && !r->version && !r->mtime_s && !r->mtime_ns && !r->max_size &&
		       !r->pos;
	return r->size <= INT64_MAX && r->max_size <= INT64_MAX && r->pos <= r->size &&
	       time_is_valid(r->mtime_ns);
}

CODEC_FIXED(ms_file_state, MS_FILE_STATE, file_state_is_valid)

#define MS_WRITE_REQ(F)                                                                 \
	F(file, file), F(id64, epoch), F(u64, pgoff), F(u64, size), F(s64, mtime_s),    \
		F(u32, mtime_ns), F(u32, nr_pages), F(u32, flags), F(zero32, reserved), \
		F(u64, client), F(u64, seq)

static bool write_req_is_valid(const struct ms_write_req *r)
{
	const uint64_t pages = DIV_ROUND_UP(r->size, PAGE_SIZE);

	if (r->flags & ~(uint32_t)MS_WRITE_ALL ||
	    (!(r->flags & MS_WRITE_SYNC) && r->flags & MS_WRITE_DATASYNC))
		return false;
	if (!r->file.node || r->size > INT64_MAX || !time_is_valid(r->mtime_ns) ||
	    !change_id_is_valid(r->client, r->seq))
		return false;
	return r->nr_pages <= MS_WRITE_MAX_PAGES && r->pgoff <= pages &&
	       r->nr_pages <= pages - r->pgoff;
}

CODEC_FIXED(ms_write_req, MS_WRITE_REQ, write_req_is_valid)

#define MS_CHANGE_REQ(F)                                                                    \
	F(file, file), F(id64, epoch), F(u32, op), F(u32, flags), F(u64, off), F(u64, len), \
		F(s64, mtime_s), F(u32, mtime_ns), F(u32, keep), F(u64, client), F(u64, seq)

static bool takes_no_block(uint32_t op)
{
	return op == PROTO_FILE_TRUNCATE || op == PROTO_FILE_SEEK_DATA ||
	       op == PROTO_FILE_SEEK_HOLE;
}

static bool change_req_is_valid(const struct ms_change_req *r)
{
	if (r->keep && takes_no_block(r->op))
		return false;
	return r->file.node && !(r->flags & ~(uint32_t)MS_RESERVE_ALL) &&
	       r->op != PROTO_FILE_APPEND && r->op != PROTO_FILE_TIME && r->op != PROTO_FILE_ROOM &&
	       file_op_is_valid(r->op, r->off, r->len) && time_is_valid(r->mtime_ns) &&
	       change_id_is_valid(r->client, r->seq);
}

CODEC_FIXED(ms_change_req, MS_CHANGE_REQ, change_req_is_valid)

#define MS_RELEASE_REQ(F) F(file, file), F(id64, epoch)

static bool release_req_is_valid(const struct ms_release_req *r)
{
	return r->file.node != 0;
}

CODEC_FIXED(ms_release_req, MS_RELEASE_REQ, release_req_is_valid)

#define MS_DECLARE_REQ(F) F(u32, incarn), F(zero32, reserved)

static bool declare_req_is_valid(const struct ms_declare_req *r)
{
	return r->incarn != 0;
}

CODEC_FIXED(ms_declare_req, MS_DECLARE_REQ, declare_req_is_valid)

#define MS_RESERVE_REQ(F)                                                                       \
	F(file, file), F(id64, epoch), F(u64, others), F(u64, pgoff), F(u32, nr), F(u32, need), \
		F(u32, flags), F(zero32, reserved)

static bool reserve_req_is_valid(const struct ms_reserve_req *r)
{
	if (r->flags & ~(uint32_t)MS_RESERVE_ALL || !r->file.node ||
	    r->others > (uint64_t)INT64_MAX >> PAGE_SHIFT || r->nr > MS_RESERVE_MAX_PAGES)
		return false;
	if (!r->nr)
		return !r->need && !r->pgoff;
	return r->need && r->need <= r->nr && file_pages_are_valid(r->pgoff, r->nr);
}

CODEC_FIXED(ms_reserve_req, MS_RESERVE_REQ, reserve_req_is_valid)

#define MS_RESERVE_REP(F) F(u64, mapped), F(u32, covered), F(zero32, reserved), F(bytes, holes)

static bool reserve_rep_is_valid(const struct ms_reserve_rep *r)
{
	if (r->mapped > (uint64_t)INT64_MAX >> PAGE_SHIFT || r->covered > MS_RESERVE_MAX_PAGES)
		return false;
	for (uint32_t i = r->covered; i < MS_RESERVE_MAX_PAGES; i++) {
		if (r->holes[i / 8] & 1u << i % 8)
			return false;
	}
	return true;
}

CODEC_FIXED(ms_reserve_rep, MS_RESERVE_REP, reserve_rep_is_valid)
