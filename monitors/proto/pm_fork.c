/* SPDX-License-Identifier: MIT */
/*
 * Processor <-> memory messages of fork, and of spaces without mappings: encode and decode.
 *
 * PM_DISCARD and PM_COLLAPSE go from home to owner as well (MM_DISCARD, MM_COLLAPSE).
 *
 * See:	docs/protocol/pm.md, docs/design/fork.md
 */
#include <proto/pm.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"
#include "parts.h"

/* --- PM_FORK ----------------------------------------------------------------------------- */

#define PM_FORK_REQ(F) \
	F(id64, aspace), F(id64, parent), F(id64, child), F(u32, want_credits), F(zero32, reserved)

static bool fork_req_is_valid(const struct pm_fork_req *r)
{
	return r->aspace != r->parent && r->aspace != r->child && r->parent != r->child;
}

CODEC_FIXED(pm_fork_req, PM_FORK_REQ, fork_req_is_valid)

/* --- lists of ranges ----------------------------------------------------------------------- */

#define PM_PAGE_RANGE(F) F(u64, addr), F(u64, len)

static bool page_range_is_valid(const struct pm_page_range *r)
{
	return range_is_valid(r->addr, r->len);
}

CODEC_FIELDS(pm_page_range, PM_PAGE_RANGE, page_range_is_valid)
CODEC_PART(static, pm_page_range)
CODEC_ELEMENTS(static, pm_page_range)

/* Each range lies behind the one before it. */
static bool ranges_ascend(const struct pm_page_range *ranges, uint32_t i)
{
	return !i || ranges[i].addr >= ranges[i - 1].addr + ranges[i - 1].len;
}
#define range_ascends(m, i) ranges_ascend((m)->ranges, i)

/* --- PM_DISCARD, PM_COLLAPSE --------------------------------------------------------------- */

#define PM_DISCARD_REQ(F) F(id64, aspace), F(id32, nr_ranges), F(zero32, reserved)

CODEC_LIST(pm_discard_req, PM_DISCARD_REQ, codec_any, pm_page_range, ranges, PM_DISCARD_MAX_RANGES,
	   range_ascends)

#define PM_COLLAPSE_REQ(F) F(id64, from), F(id64, into), F(u32, nr_ranges), F(zero32, reserved)

static bool collapse_req_is_valid(const struct pm_collapse_req *r)
{
	return r->from != r->into;
}

CODEC_LIST(pm_collapse_req, PM_COLLAPSE_REQ, collapse_req_is_valid, pm_page_range, ranges,
	   PM_DISCARD_MAX_RANGES, range_ascends)

/* --- PM_SPACE ------------------------------------------------------------------------------ */

#define PM_SPACE_REQ(F)                                                                    \
	F(id64, aspace), F(u64, len), F(u32, flags), F(id32, vnode), F(u32, want_credits), \
		F(zero32, reserved)

static bool space_req_is_valid(const struct pm_space_req *r)
{
	return page_aligned(r->len) && r->len <= PM_USER_TOP &&
	       !(r->flags & ~(uint32_t)PM_SPACE_ALL);
}

CODEC_FIXED(pm_space_req, PM_SPACE_REQ, space_req_is_valid)
