/* SPDX-License-Identifier: MIT */
/*
 * Processor -> global managers messages: encode and decode.
 *
 * See:	docs/protocol/pg.md
 */
#include <proto/pg.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"

static bool kind_is_valid(uint32_t kind, uint16_t port)
{
	if (kind == PG_TCP || kind == PG_UDP)
		return port != 0;
	return kind > PG_UDP && kind < PG_KINDS && !port;
}

#define PG_NAME_FIELDS(F)                                                                    \
	F(id64, id), F(id32, vnode), F(u32, uid), F(bytes, addr), F(u16, port), F(u8, kind), \
		F(u8, flags), F(zero32, reserved)

static bool name_is_valid(const struct pg_name *n)
{
	return kind_is_valid(n->kind, n->port) && !(n->flags & ~(unsigned int)PG_NAME_ALL);
}

CODEC_FIXED(pg_name, PG_NAME_FIELDS, name_is_valid)

#define PG_RELEASE_REQ(F) F(id64, id), F(id32, vnode), F(zero32, reserved)

CODEC_FIXED(pg_release_req, PG_RELEASE_REQ, codec_any)

#define PG_FIND_REQ(F) F(bytes, addr), F(id32, vnode), F(u16, port), F(u16, kind)

static bool find_req_is_valid(const struct pg_find_req *r)
{
	return kind_is_valid(r->kind, r->port);
}

CODEC_FIXED(pg_find_req, PG_FIND_REQ, find_req_is_valid)

#define PG_FIND_REP(F) F(node, node), F(zero32, reserved)

static bool find_rep_is_valid(const struct pg_find_rep *r)
{
	return r->node != 0;
}

CODEC_FIXED(pg_find_rep, PG_FIND_REP, find_rep_is_valid)

#define PG_LEASE_REQ(F) F(id32, vnode), F(zero32, reserved)

CODEC_FIXED(pg_lease_req, PG_LEASE_REQ, codec_any)

#define PG_LEASE_REP(F) F(u32, run), F(zero32, reserved), F(bytes, taken)

static bool lease_rep_is_valid(const struct pg_lease_rep *r)
{
	return r->run < PG_NR_RUNS;
}

CODEC_FIXED(pg_lease_rep, PG_LEASE_REP, lease_rep_is_valid)

/* --- PG_REPORT: names are checked as those of PG_NAME ------------------------------------ */

#define PG_REPORT_REQ(F) F(id32, vnode), F(u16, flags), F(u16, nr_names), F(bytes, leases)

static bool report_is_valid(const struct pg_report_req *r)
{
	for (uint32_t i = PG_NR_RUNS; i < PG_LEASE_BYTES * 8; i++) {
		if (r->leases[i / 8] & 1u << i % 8)
			return false;
	}
	return !(r->flags & ~(unsigned int)PG_REPORT_ALL);
}

CODEC_FIELDS(pg_report_req, PG_REPORT_REQ, report_is_valid)

ssize_t pg_report_req_encode(const struct pg_report_req *m, void *buf, size_t cap)
{
	struct pg_report_req_wire w;
	uint8_t *pos = buf;

	if (m->nr_names > PG_REPORT_MAX ||
	    cap < sizeof(w) + m->nr_names * sizeof(struct pg_name_wire))
		return -EMSGSIZE;
	pg_report_req_put(m, &w);
	memcpy(pos, &w, sizeof(w));
	pos += sizeof(w);
	for (uint32_t i = 0; i < m->nr_names; i++) {
		struct pg_name_wire name;

		pg_name_encode(&m->names[i], &name);
		memcpy(pos, &name, sizeof(name));
		pos += sizeof(name);
	}
	return pos - (uint8_t *)buf;
}

int pg_report_req_decode(const void *buf, size_t len, struct pg_report_req *out)
{
	const uint8_t *pos = (const uint8_t *)buf + sizeof(struct pg_report_req_wire);
	struct pg_report_req_wire w;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (!pg_report_req_get(&w, out) || out->nr_names > PG_REPORT_MAX)
		return -EPROTO;
	if (len != sizeof(w) + out->nr_names * sizeof(struct pg_name_wire))
		return -EMSGSIZE;
	for (uint32_t i = 0; i < out->nr_names; i++, pos += sizeof(struct pg_name_wire)) {
		const int err = pg_name_decode(pos, sizeof(struct pg_name_wire), &out->names[i]);

		if (err)
			return err;
		if (out->names[i].vnode != out->vnode)
			return -EPROTO;
	}
	return 0;
}
