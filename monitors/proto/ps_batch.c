/* SPDX-License-Identifier: MIT */
/*
 * Processor -> storage: several changes in one message. Pure; linked into both monitors, the host
 * tests and the fuzzer.
 *
 * See:	docs/protocol/ps.md
 */
#include <proto/ps.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"

#define PS_BATCH_REQ(F)  F(u32, nr_changes), F(u32, rooms)
#define PS_BATCH_ITEM(F) F(u16, opcode), F(zero16, reserved), F(u32, len)

static bool batch_req_is_valid(const struct ps_batch_req *r)
{
	return r->nr_changes <= PS_BATCH_MAX && r->rooms <= PS_ROOMS_MAX;
}

/* Those whose answers the sender may do without. */
static bool batch_item_is_valid(const struct ps_batch_item *i)
{
	switch (i->opcode) {
	case PS_LINK:
	case PS_UNLINK:
	case PS_RMDIR:
	case PS_RENAME:
	case PS_SETATTR:
		return i->len >= sizeof(struct ps_change_wire);
	default:
		return false;
	}
}

CODEC_FIELDS(ps_batch_req, PS_BATCH_REQ, batch_req_is_valid)
CODEC_FIELDS(ps_batch_item, PS_BATCH_ITEM, batch_item_is_valid)

/* Zeros behind a body. */
static size_t padding(uint32_t len)
{
	return (8 - (len & 7)) & 7;
}

size_t ps_batch_item_size(uint32_t len)
{
	return sizeof(struct ps_batch_item_wire) + len + padding(len);
}

static uint64_t number_of(const struct ps_batch_item *item)
{
	struct ps_change_wire w;

	memcpy(&w, item->body, sizeof(w));
	return le64_to_cpu(w.seq);
}

ssize_t ps_batch_req_encode(const struct ps_batch_req *req, void *buf, size_t cap)
{
	struct ps_batch_item_wire item;
	struct ps_batch_req_wire w;
	uint8_t *pos = buf;
	size_t len = sizeof(w);

	if (!batch_req_is_valid(req))
		return -EMSGSIZE;
	for (uint32_t i = 0; i < req->nr_changes; i++) {
		if (req->changes[i].len > cap)
			return -EMSGSIZE;
		len += ps_batch_item_size(req->changes[i].len);
	}
	if (len > cap)
		return -EMSGSIZE;
	ps_batch_req_put(req, &w);
	memcpy(pos, &w, sizeof(w));
	pos += sizeof(w);
	for (uint32_t i = 0; i < req->nr_changes; i++) {
		const struct ps_batch_item *c = &req->changes[i];

		ps_batch_item_put(c, &item);
		memcpy(pos, &item, sizeof(item));
		memcpy(pos + sizeof(item), c->body, c->len);
		memset(pos + sizeof(item) + c->len, 0, padding(c->len));
		pos += ps_batch_item_size(c->len);
	}
	return (ssize_t)len;
}

/* The change at *@pos, which moves behind it; @end is the message's. */
static int get_item(const uint8_t **pos, const uint8_t *end, struct ps_batch_item *out)
{
	struct ps_batch_item_wire w;
	size_t left = (size_t)(end - *pos);

	if (left < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, *pos, sizeof(w));
	if (!ps_batch_item_get(&w, out))
		return -EPROTO;
	left -= sizeof(w);
	if (out->len > left || padding(out->len) > left - out->len)
		return -EMSGSIZE;
	out->body = *pos + sizeof(w);
	for (size_t i = 0; i < padding(out->len); i++) {
		if (((const uint8_t *)out->body)[out->len + i])
			return -EPROTO;
	}
	*pos += ps_batch_item_size(out->len);
	return 0;
}

int ps_batch_req_decode(const void *buf, size_t len, struct ps_batch_req *out)
{
	const uint8_t *pos = buf, *end = pos + len;
	struct ps_batch_req_wire w;
	int err = 0;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!ps_batch_req_get(&w, out))
		return -EPROTO;
	pos += sizeof(w);
	for (uint32_t i = 0; i < out->nr_changes && !err; i++) {
		err = get_item(&pos, end, &out->changes[i]);
		/* So no batch waits for itself, and no two for each other. */
		if (!err && i && number_of(&out->changes[i - 1]) >= number_of(&out->changes[i]))
			err = -EPROTO;
	}
	return err ? err : pos == end ? 0 : -EMSGSIZE;
}

#define PS_BATCH_STATUS(F) F(status, err)

CODEC_FIELDS(ps_batch_status, PS_BATCH_STATUS, codec_any)
CODEC_PART(static, ps_batch_status)
CODEC_ELEMENTS(static, ps_batch_status)

#define PS_BATCH_REP(F) F(u32, nr_changes), F(u32, rooms)

static bool batch_rep_is_valid(const struct ps_batch_rep *r)
{
	return r->rooms <= PS_ROOMS_MAX;
}

CODEC_LIST(ps_batch_rep, PS_BATCH_REP, batch_rep_is_valid, ps_batch_status, changes, PS_BATCH_MAX,
	   codec_any_item)
