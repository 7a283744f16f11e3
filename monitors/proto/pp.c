/* SPDX-License-Identifier: MIT */
/*
 * Processor -> processor messages: encode and decode.
 *
 * See:	docs/protocol/pp.md
 */
#include <proto/pp.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"

#define PUT_zero64(w, v) ((w) = cpu_to_le64(0))
#define GET_zero64(v, w) (le64_to_cpu(w) != 0)

#define PP_CONNECT_REQ(F)                                                                 \
	F(id64, conn), F(u64, limit), F(id32, vnode), F(u16, from_port), F(u16, to_port), \
		F(bytes, from_addr), F(bytes, to_addr), F(zero64, reserved)

static bool connect_req_is_valid(const struct pp_connect_req *r)
{
	return r->from_port && r->to_port;
}

CODEC_FIXED(pp_connect_req, PP_CONNECT_REQ, connect_req_is_valid)

#define PP_CONNECT_REP(F) F(id64, conn), F(u64, limit)

CODEC_FIXED(pp_connect_rep, PP_CONNECT_REP, codec_any)

#define PP_DATA_REQ(F) F(id64, conn), F(u64, position), F(u64, limit), F(u32, len), F(u32, flags)

/* Something comes, and the position behind it is a number. */
static bool data_req_is_valid(const struct pp_data_req *r)
{
	return !(r->flags & ~(uint32_t)PP_DATA_ALL) && (r->len || r->flags) &&
	       r->len <= PP_BULK_MAX && r->position <= UINT64_MAX - r->len;
}

CODEC_FIXED(pp_data_req, PP_DATA_REQ, data_req_is_valid)

int pp_data_check(const struct pp_data_req *r, size_t inline_len, size_t bulk_len)
{
	if (inline_len && bulk_len)
		return -EMSGSIZE;
	return r->len == inline_len + bulk_len ? 0 : -EMSGSIZE;
}

#define PP_DATA_REP(F) F(u64, limit)

CODEC_FIXED(pp_data_rep, PP_DATA_REP, codec_any)

#define PP_WINDOW_FIELDS(F) F(id64, conn), F(u64, limit)

CODEC_FIXED(pp_window, PP_WINDOW_FIELDS, codec_any)

#define PP_RESET_FIELDS(F) F(id64, conn)

CODEC_FIXED(pp_reset, PP_RESET_FIELDS, codec_any)
