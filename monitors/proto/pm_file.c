/* SPDX-License-Identifier: MIT */
/*
 * Processor <-> memory messages about files that change: encode and decode.
 *
 * See:	docs/protocol/pm.md, docs/design/files.md
 */
#include <proto/pm.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"
#include "parts.h"

#define PM_FILE_OPEN_REQ(F) F(file, file)

static bool open_req_is_valid(const struct pm_file_open_req *r)
{
	return r->file.node != 0;
}

CODEC_FIXED(pm_file_open_req, PM_FILE_OPEN_REQ, open_req_is_valid)

#define PM_FILE_STATE(F)                                                                  \
	F(u64, size), F(u64, version), F(s64, mtime_s), F(u32, mtime_ns), F(u32, errors), \
		F(u64, pos), F(node, node), F(zero32, reserved), F(u64, before)

static bool state_is_valid(const struct pm_file_state *r)
{
	if (r->node)
		return !r->size && !r->version && !r->mtime_s && !r->mtime_ns && !r->errors &&
		       !r->pos && !r->before;
	/* Room goes to the end of a page, and a truncation may come before the size is read. */
	return r->size <= INT64_MAX && r->pos <= INT64_MAX && time_is_valid(r->mtime_ns);
}

CODEC_FIXED(pm_file_state, PM_FILE_STATE, state_is_valid)

#define PM_FILE_PAGE(F) F(u64, pgoff), F(u16, first), F(u16, bytes), F(zero32, reserved)

static bool page_record_is_valid(const struct pm_file_page *p)
{
	return p->pgoff < (uint64_t)INT64_MAX >> PAGE_SHIFT && p->bytes && p->bytes <= PAGE_SIZE &&
	       p->first <= PAGE_SIZE - p->bytes;
}

CODEC_FIELDS(pm_file_page, PM_FILE_PAGE, page_record_is_valid)
CODEC_PART(static, pm_file_page)
CODEC_ELEMENTS(static, pm_file_page)

#define PM_FILE_WRITE_REQ(F)                                                           \
	F(file, file), F(u64, size), F(s64, mtime_s), F(u32, mtime_ns), F(u32, flags), \
		F(u32, nr_pages), F(zero32, reserved)

static bool write_req_is_valid(const struct pm_file_write_req *r)
{
	const bool sync = r->flags & PM_FILE_SYNC;

	if (r->flags & ~(uint32_t)PM_FILE_WRITE_ALL || (!sync && r->flags & PM_FILE_DATASYNC))
		return false;
	if (r->flags & (PM_FILE_PRIVILEGED | PM_FILE_LAST) && !r->nr_pages)
		return false;
	if (r->flags & PM_FILE_INSIDE && (r->size || !r->nr_pages))
		return false;
	if (r->flags & PM_FILE_EVERY)
		return r->file.node && r->flags == PM_FILE_EVERY && !r->size && !r->nr_pages &&
		       time_is_valid(r->mtime_ns);
	return r->file.node && r->size <= INT64_MAX && time_is_valid(r->mtime_ns) &&
	       (r->nr_pages || sync) && r->nr_pages <= PM_FILE_WRITE_MAX;
}

static bool page_is_in_order(const struct pm_file_write_req *r, uint32_t i)
{
	return !i || r->pages[i].pgoff > r->pages[i - 1].pgoff;
}

CODEC_LIST(pm_file_write_req, PM_FILE_WRITE_REQ, write_req_is_valid, pm_file_page, pages,
	   PM_FILE_WRITE_MAX, page_is_in_order)

#define PM_FILE_CHANGE_REQ(F)                                                                \
	F(file, file), F(u32, op), F(u32, flags), F(u64, off), F(u64, len), F(s64, mtime_s), \
		F(u32, mtime_ns), F(zero32, reserved2), F(u64, client), F(u64, seq)

static bool change_req_is_valid(const struct pm_file_change_req *r)
{
	const uint32_t flags =
		PM_FILE_PRIVILEGED | (r->op == PROTO_FILE_ROOM ? (uint32_t)PM_FILE_AHEAD : 0);

	return r->file.node && !(r->flags & ~flags) && file_op_is_valid(r->op, r->off, r->len) &&
	       time_is_valid(r->mtime_ns) && change_id_is_valid(r->client, r->seq);
}

CODEC_FIXED(pm_file_change_req, PM_FILE_CHANGE_REQ, change_req_is_valid)
