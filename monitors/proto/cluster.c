/* SPDX-License-Identifier: MIT */
/*
 * Membership messages: encode and decode.  Pure; every decoder checks all of its input and writes its result
 * only on success (a view, which is large, may be half written after an error).
 */
#include <proto/cluster.h>

#include <lib/errno.h>
#include <lib/string.h>

void cluster_member_encode(const struct cluster_member *m, struct cluster_member_wire *w)
{
	*w = (struct cluster_member_wire){ .id = cpu_to_le32(m->id),
					   .incarn = cpu_to_le32(m->incarn),
					   .lid = cpu_to_le16(m->lid),
					   .role = m->role,
					   .has_grh = m->has_grh };
	memcpy(w->gid, m->gid, sizeof(w->gid));
}

int cluster_member_decode(const void *buf, size_t len, struct cluster_member *out)
{
	struct cluster_member_wire w;
	struct cluster_member m;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	m.id = le32_to_cpu(w.id);
	m.incarn = le32_to_cpu(w.incarn);
	m.lid = le16_to_cpu(w.lid);
	m.role = w.role;
	m.has_grh = w.has_grh;
	memcpy(m.gid, w.gid, sizeof(m.gid));
	if (m.id == 0 || m.id > 0xffff || m.incarn == 0)
		return -EPROTO;
	if (m.role < 1 || m.role > CLUSTER_NR_ROLES || w.has_grh > 1 || le32_to_cpu(w.reserved))
		return -EPROTO;
	*out = m;
	return 0;
}

void cluster_beat_encode(const struct cluster_beat *b, struct cluster_beat_wire *w)
{
	*w = (struct cluster_beat_wire){ .epoch = cpu_to_le32(b->epoch),
					 .incarn = cpu_to_le32(b->incarn),
					 .seq = cpu_to_le64(b->seq),
					 .runnable = cpu_to_le32(b->load.runnable),
					 .tasks = cpu_to_le32(b->load.tasks),
					 .cpus = cpu_to_le32(b->load.cpus),
					 .free_lines = cpu_to_le32(b->load.free_lines) };
}

/* Any load decodes: it is a node's opinion of itself, and the policy bears every value. */
int cluster_beat_decode(const void *buf, size_t len, struct cluster_beat *out)
{
	struct cluster_beat_wire w;

	if (len != sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (le32_to_cpu(w.incarn) == 0 || le64_to_cpu(w.seq) == 0)
		return -EPROTO;
	out->epoch = le32_to_cpu(w.epoch);
	out->incarn = le32_to_cpu(w.incarn);
	out->seq = le64_to_cpu(w.seq);
	out->load.runnable = le32_to_cpu(w.runnable);
	out->load.tasks = le32_to_cpu(w.tasks);
	out->load.cpus = le32_to_cpu(w.cpus);
	out->load.free_lines = le32_to_cpu(w.free_lines);
	return 0;
}

ssize_t cluster_view_encode(const struct cluster_view *v, void *buf, size_t cap)
{
	const size_t len = sizeof(struct cluster_view_wire) +
			   v->nr_members * sizeof(struct cluster_member_wire);
	struct cluster_view_wire w = { .epoch = cpu_to_le32(v->epoch),
				       .flags = cpu_to_le32(v->flags),
				       .nr_members = cpu_to_le16(v->nr_members),
				       .lease_ms = cpu_to_le32(v->lease_ms) };
	uint8_t *out = buf;

	if (v->nr_members > CLUSTER_MAX_MEMBERS || len > cap)
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
	return (ssize_t)len;
}

int cluster_view_decode(const void *buf, size_t len, struct cluster_view *out)
{
	const uint8_t *in = buf;
	struct cluster_view_wire w;
	uint32_t lease_ms;
	uint16_t nr;
	int err;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, in, sizeof(w));
	nr = le16_to_cpu(w.nr_members);
	if (nr > CLUSTER_MAX_MEMBERS || (le32_to_cpu(w.flags) & ~(uint32_t)CLUSTER_VIEW_ALL))
		return -EPROTO;
	lease_ms = le32_to_cpu(w.lease_ms);
	if (lease_ms < CLUSTER_LEASE_MIN_MS || lease_ms > CLUSTER_LEASE_MAX_MS)
		return -EPROTO;
	if (len != sizeof(w) + nr * sizeof(struct cluster_member_wire))
		return -EMSGSIZE;
	in += sizeof(w);
	for (uint16_t i = 0; i < nr; i++) {
		err = cluster_member_decode(in, sizeof(struct cluster_member_wire),
					    &out->members[i]);
		if (err)
			return err;
		if (i > 0 && out->members[i].id <= out->members[i - 1].id)
			return -EPROTO;
		in += sizeof(struct cluster_member_wire);
	}
	out->epoch = le32_to_cpu(w.epoch);
	out->flags = le32_to_cpu(w.flags);
	out->nr_members = nr;
	out->lease_ms = lease_ms;
	for (size_t i = 0; i < CLUSTER_NR_ROLES; i++)
		out->wanted[i] = le16_to_cpu(w.wanted[i]);
	return 0;
}
