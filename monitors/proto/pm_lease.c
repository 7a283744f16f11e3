/* SPDX-License-Identifier: MIT */
/*
 * PM_LEASE, by which a processor tells what has become of parts of its leases: encode and decode.
 *
 * See:	docs/protocol/pm.md, docs/design/leases.md
 */
#include <proto/pm.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"
#include "parts.h"

#define PM_LEASE_RANGE(F) F(u64, addr), F(u64, len), F(u32, prot), F(u32, flags)

static bool lease_range_is_valid(const struct pm_lease_range *r)
{
	const uint32_t prots = r->flags & PM_LEASE_MAPPED ? PM_PROT_ALL : 0;

	return range_is_valid(r->addr, r->len) && !(r->flags & ~(uint32_t)PM_LEASE_ALL) &&
	       !(r->prot & ~prots);
}

CODEC_FIELDS(pm_lease_range, PM_LEASE_RANGE, lease_range_is_valid)
CODEC_PART(static, pm_lease_range)
CODEC_ELEMENTS(static, pm_lease_range)

/* Each range lies behind the one before it. */
static bool range_ascends(const struct pm_lease_req *r, uint32_t i)
{
	return !i || r->ranges[i].addr >= r->ranges[i - 1].addr + r->ranges[i - 1].len;
}

#define PM_LEASE_REQ(F) F(id64, aspace), F(id64, number), F(id32, nr_ranges), F(zero32, reserved)

CODEC_LIST(pm_lease_req, PM_LEASE_REQ, codec_any, pm_lease_range, ranges, PM_LEASE_MAX_RANGES,
	   range_ascends)
