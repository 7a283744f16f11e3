/* SPDX-License-Identifier: MIT */
/*
 * Memory -> processor messages: encode and decode.
 *
 * See:	docs/protocol/mp.md
 */
#include <proto/mp.h>

#include <lib/errno.h>
#include <lib/string.h>
#include <proto/pm.h>

#include "codec.h"

#define MP_OOM_REQ(F) F(u64, total), F(u32, flags), F(u32, pid)

static bool oom_req_is_valid(const struct mp_oom_req *r)
{
	return r->total <= PM_COMMITTED_MAX && !(r->flags & ~(uint32_t)MP_OOM_ALL) &&
	       !r->pid == !(r->flags & MP_OOM_END);
}

CODEC_FIXED(mp_oom_req, MP_OOM_REQ, oom_req_is_valid)

#define MP_OOM_REP(F) F(s64, badness), F(u64, frames), F(u32, pid), F(u32, state)

static bool oom_rep_is_valid(const struct mp_oom_rep *r)
{
	return r->state < MP_OOM_STATES && (r->state == MP_OOM_CANDIDATE ? r->pid != 0 : !r->pid);
}

CODEC_FIXED(mp_oom_rep, MP_OOM_REP, oom_rep_is_valid)

#define MP_REVOKE_REQ(F) F(id32, extent), F(u32, flags)

static bool revoke_req_is_valid(const struct mp_revoke_req *r)
{
	return !(r->flags & ~(uint32_t)MP_REVOKE_ALL);
}

CODEC_FIXED(mp_revoke_req, MP_REVOKE_REQ, revoke_req_is_valid)
