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
