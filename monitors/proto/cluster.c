/* SPDX-License-Identifier: MIT */
/*
 * Membership messages: encode and decode. Pure; every decoder checks all of its input and writes
 * its result only on success (a view, which is large, may be half written after an error).
 */
#include <proto/cluster.h>

#include <lib/errno.h>
#include <lib/string.h>

#include "codec.h"

#define CLUSTER_MEMBER(F)                                                                         \
	F(id32, id), F(id32, incarn), F(bytes, gid), F(u16, lid), F(u8, role), F(flag8, has_grh), \
		F(zero32, reserved)

static bool member_is_valid(const struct cluster_member *m)
{
	return m->id <= PROTO_NODE_MAX && m->role >= 1 && m->role <= CLUSTER_NR_ROLES;
}

CODEC_FIXED(cluster_member, CLUSTER_MEMBER, member_is_valid)

/* Any load decodes: it is a node's opinion of itself, and the policy bears every value. */
#define CLUSTER_LOAD(F) F(u32, runnable), F(u32, tasks), F(u32, cpus), F(u32, free_lines)

CODEC_FIELDS(cluster_load, CLUSTER_LOAD, codec_any)

#define PUT_load(w, v) cluster_load_put(&(v), &(w))
#define GET_load(v, w) (!cluster_load_get(&(w), &(v)))

#define CLUSTER_HEARTBEAT_FIELDS(F)                                                \
	F(u32, epoch), F(id32, incarn), F(id64, seq), F(load, load), F(u32, host), \
		F(zero32, reserved)

CODEC_FIXED(cluster_heartbeat, CLUSTER_HEARTBEAT_FIELDS, codec_any)

#define CLUSTER_VETO_FIELDS(F) F(id32, id), F(id32, incarn)

static bool veto_is_valid(const struct cluster_veto *veto)
{
	return veto->id <= PROTO_NODE_MAX;
}

CODEC_FIXED(cluster_veto, CLUSTER_VETO_FIELDS, veto_is_valid)

#define CLUSTER_PLACED_FIELDS(F) F(id32, vnode), F(u32, node)

static bool placed_is_valid(const struct cluster_placed *placed)
{
	return placed->node <= PROTO_NODE_MAX;
}

CODEC_FIELDS(cluster_placed, CLUSTER_PLACED_FIELDS, placed_is_valid)
CODEC_PART(static, cluster_placed)

static size_t view_bytes(size_t nr_members, size_t nr_placed)
{
	return sizeof(struct cluster_view_wire) + nr_members * sizeof(struct cluster_member_wire) +
	       nr_placed * sizeof(struct cluster_placed_wire);
}

bool cluster_view_fits(size_t nr_members, size_t nr_placed)
{
	return nr_members <= CLUSTER_MAX_MEMBERS && nr_placed <= CLUSTER_MAX_PLACED &&
	       view_bytes(nr_members, nr_placed) <= CLUSTER_VIEW_BYTES;
}

ssize_t cluster_view_encode(const struct cluster_view *v, void *buf, size_t cap)
{
	const size_t len = view_bytes(v->nr_members, v->nr_placed);
	struct cluster_view_wire w = { .epoch = cpu_to_le32(v->epoch),
				       .flags = cpu_to_le32(v->flags),
				       .nr_members = cpu_to_le16(v->nr_members),
				       .lease_ms = cpu_to_le32(v->lease_ms),
				       .nr_placed = cpu_to_le16(v->nr_placed) };
	uint8_t *out = buf;

	if (!cluster_view_fits(v->nr_members, v->nr_placed) || len > cap)
		return -EMSGSIZE;
	for (size_t i = 0; i < CLUSTER_NR_ROLES; i++)
		w.wanted[i] = cpu_to_le16(v->wanted[i]);
	memcpy(out, &w, sizeof(w));
	out += sizeof(w);
	for (size_t i = 0; i < v->nr_members; i++) {
		struct cluster_member_wire mw;

		cluster_member_encode(&v->members[i], &mw);
		memcpy(out, &mw, sizeof(mw));
		out += sizeof(mw);
	}
	for (size_t i = 0; i < v->nr_placed; i++) {
		struct cluster_placed_wire pw;

		cluster_placed_encode(&v->placed[i], &pw);
		memcpy(out, &pw, sizeof(pw));
		out += sizeof(pw);
	}
	return (ssize_t)len;
}

static int members_decode(const uint8_t *in, struct cluster_view *out)
{
	for (uint16_t i = 0; i < out->nr_members; i++) {
		const int err = cluster_member_decode(in, sizeof(struct cluster_member_wire),
						      &out->members[i]);

		if (err)
			return err;
		if (i > 0 && out->members[i].id <= out->members[i - 1].id)
			return -EPROTO;
		in += sizeof(struct cluster_member_wire);
	}
	return 0;
}

static bool has_processor(const struct cluster_view *v, uint32_t id)
{
	for (size_t i = 0; i < v->nr_members; i++)
		if (v->members[i].id == id)
			return v->members[i].role == CLUSTER_ROLE_PROC;
	return false;
}

static int placed_decode(const uint8_t *in, struct cluster_view *out)
{
	for (uint16_t i = 0; i < out->nr_placed; i++) {
		struct cluster_placed *p = &out->placed[i];
		struct cluster_placed_wire w;
		int err;

		memcpy(&w, in, sizeof(w));
		in += sizeof(w);
		err = cluster_placed_decode(&w, p);
		if (err)
			return err;
		if (i > 0 &&
		    (p->vnode < p[-1].vnode || (p->vnode == p[-1].vnode && p->node <= p[-1].node)))
			return -EPROTO;
		if (p->node && !has_processor(out, p->node))
			return -EPROTO;
	}
	return 0;
}

int cluster_view_decode(const void *buf, size_t len, struct cluster_view *out)
{
	const uint8_t *in = buf;
	struct cluster_view_wire w;
	int err;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, in, sizeof(w));
	out->epoch = le32_to_cpu(w.epoch);
	out->flags = le32_to_cpu(w.flags);
	out->nr_members = le16_to_cpu(w.nr_members);
	out->nr_placed = le16_to_cpu(w.nr_placed);
	out->lease_ms = le32_to_cpu(w.lease_ms);
	for (size_t i = 0; i < CLUSTER_NR_ROLES; i++)
		out->wanted[i] = le16_to_cpu(w.wanted[i]);
	if (!cluster_view_fits(out->nr_members, out->nr_placed) ||
	    (out->flags & ~(uint32_t)CLUSTER_VIEW_ALL) || w.reserved)
		return -EPROTO;
	if (out->lease_ms < CLUSTER_LEASE_MIN_MS || out->lease_ms > CLUSTER_LEASE_MAX_MS)
		return -EPROTO;
	if (len != view_bytes(out->nr_members, out->nr_placed))
		return -EMSGSIZE;
	in += sizeof(w);
	err = members_decode(in, out);
	if (err)
		return err;
	in += out->nr_members * sizeof(struct cluster_member_wire);
	return placed_decode(in, out);
}
