/* SPDX-License-Identifier: MIT */
/*
 * Processor -> storage messages of advisory locks: encode and decode. Pure; linked into both
 * monitors, the host tests and the fuzzer.
 *
 * See:	docs/protocol/ps.md
 */
#include <proto/ps.h>

#include "codec.h"

#define PUT_some(w, v)  proto_file_encode(&(v), &(w))
/* A file, not "no file". */
#define GET_some(v, w)  (proto_file_decode(&(w), &(v)) != 0 || !(v).node)
#define PUT_lock(w, v)  ps_lock_encode(&(v), &(w))
#define GET_lock(v, w)  (ps_lock_decode(&(w), &(v)) != 0)
#define PUT_maybe(w, v) ps_lock_encode(&(v), &(w))
#define GET_maybe(v, w) (found_decode(&(w), &(v)) != 0)

#define PS_LOCK(F)                                                                         \
	F(id64, owner), F(s64, start), F(s64, end), F(u32, pid), F(u8, kind), F(u8, type), \
		F(zero16, reserved)

static bool lock_is_valid(const struct ps_lock *l)
{
	return l->kind <= PS_LOCK_FLOCK && l->type <= PS_LOCK_NONE && l->start >= 0 &&
	       l->end >= l->start &&
	       (l->kind != PS_LOCK_FLOCK || (!l->start && l->end == INT64_MAX));
}

CODEC_FIELDS(ps_lock, PS_LOCK, lock_is_valid)
CODEC_PART(static, ps_lock)
CODEC_ELEMENTS(static, ps_lock)

/* A lock that somebody has, or all 0. */
static int found_decode(const struct ps_lock_wire *w, struct ps_lock *out)
{
	static const struct ps_lock_wire none;

	if (!memcmp(w, &none, sizeof(none))) {
		*out = (struct ps_lock){ 0 };
		return 0;
	}
	return ps_lock_decode(w, out) || out->type == PS_LOCK_NONE ? -EPROTO : 0;
}

/* As of a change: acknowledged is what was sent before. */
static bool seq_is_valid(uint64_t seq, uint64_t acked)
{
	return seq && acked && acked <= seq;
}

#define PS_LOCK_REQ(F)                                                                       \
	F(some, file), F(lock, lock), F(u64, seq), F(u64, acked), F(id64, token), F(u8, op), \
		F(flag8, wait), F(zero16, reserved), F(zero32, reserved2)

static bool lock_req_is_valid(const struct ps_lock_req *r)
{
	if (!seq_is_valid(r->seq, r->acked) || r->op > PS_LOCK_OP_CANCEL)
		return false;
	if (r->wait && (r->op != PS_LOCK_OP_SET || r->lock.type == PS_LOCK_NONE))
		return false;
	return r->op != PS_LOCK_OP_TEST || r->lock.type != PS_LOCK_NONE;
}

CODEC_FIXED(ps_lock_req, PS_LOCK_REQ, lock_req_is_valid)

#define PS_LOCK_REP(F) F(maybe, found), F(u32, state), F(zero32, reserved)

static bool lock_rep_is_valid(const struct ps_lock_rep *r)
{
	return r->state <= PS_LOCK_GRACE && (!r->found.owner || r->state == PS_LOCK_BUSY);
}

CODEC_FIXED(ps_lock_rep, PS_LOCK_REP, lock_rep_is_valid)

#define PS_LOCKS_REQ(F) F(some, file), F(u64, seq), F(u64, acked), F(u32, nr_locks), F(id32, incarn)

static bool locks_req_is_valid(const struct ps_locks_req *r)
{
	return seq_is_valid(r->seq, r->acked) && r->nr_locks;
}

static bool held_is_valid(const struct ps_locks_req *r, uint32_t i)
{
	return r->locks[i].type != PS_LOCK_NONE;
}

CODEC_LIST(ps_locks_req, PS_LOCKS_REQ, locks_req_is_valid, ps_lock, locks, PS_LOCKS_MAX,
	   held_is_valid)

#define PS_LOCK_EVENTS_REQ(F) F(u64, after), F(u32, incarn), F(zero32, reserved)

static bool events_req_is_valid(const struct ps_lock_events_req *r)
{
	return r->incarn || !r->after;
}

CODEC_FIXED(ps_lock_events_req, PS_LOCK_EVENTS_REQ, events_req_is_valid)

#define PS_LOCK_TOKEN(F) F(id64, token)

CODEC_FIELDS(ps_lock_token, PS_LOCK_TOKEN, codec_any)
CODEC_PART(static, ps_lock_token)
CODEC_ELEMENTS(static, ps_lock_token)

#define PS_LOCK_EVENTS_REP(F) F(u64, last), F(id32, incarn), F(u32, nr_tokens)

CODEC_LIST(ps_lock_events_rep, PS_LOCK_EVENTS_REP, codec_any, ps_lock_token, tokens,
	   PS_LOCK_EVENTS_MAX, codec_any_item)
