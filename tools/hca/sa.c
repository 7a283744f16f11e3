/* SPDX-License-Identifier: MIT */
/*
 * HCA model: subnet administration, as a small subnet manager offers it:
 * ClassPortInfo, PathRecord, MCMemberRecord.
 *
 * Limits:	MAX_GROUPS multicast groups; a table answer is one RMPP segment, and says
 *		TOO_MANY when there is more than fits.  A MAD that acknowledges,
 *		stops or aborts a segmented transfer gets no answer: none is under way.
 * Failure:	SA status in the upper byte of the MAD status.
 */
#include "hca.h"

#include <stdlib.h>

#define MAX_GROUPS 1024u

#define SA_OK           0x0000
#define SA_NO_RESOURCES 0x0100
#define SA_REQ_INVALID  0x0200
#define SA_NO_RECORDS   0x0300
#define SA_TOO_MANY     0x0400

#define PR_MASK_DGID BIT(2)
#define PR_MASK_SGID BIT(3)
#define PR_MASK_DLID BIT(4)
#define PR_MASK_SLID BIT(5)

#define MC_MASK_MGID BIT(0)
#define MC_MASK_QKEY BIT(2)

#define EXACTLY     0x80 /* selector in front of MTU, rate and life time */
#define RATE_40G    7
#define PACKET_LIFE 12

struct member {
	struct list_head link;
	struct hca *h;
	uint8_t port_gid[16];
	uint8_t state;
};

static struct hca *hca_by_gid(struct fabric *f, const uint8_t *gid)
{
	const uint64_t guid = get_be64(gid + 8);

	for (unsigned i = 0; guid && i < f->nr_hcas; i++) {
		struct hca *h = f->hcas[i];

		if (!h || h->port.state != PORT_ACTIVE)
			continue;
		if (h->port.guid == guid)
			return h;
		for (unsigned k = 1; k < NR_GIDS; k++) {
			if (h->port.extra_gids[k] == guid)
				return h;
		}
	}
	return NULL;
}

static struct hca *active_lid(struct fabric *f, uint16_t lid)
{
	struct hca *h = f->by_lid[lid];

	return h && h->port.state == PORT_ACTIVE ? h : NULL;
}

/* One end of a path: a LID and a GID. */
struct end {
	uint16_t lid;
	uint8_t gid[16];
};

static void end_of(const struct hca *h, struct end *e)
{
	e->lid = h->port.lid;
	port_gid(h, 0, e->gid);
}

/* The end that GID or LID of the query name.  False: there is none such. */
static bool find_end(struct fabric *f, bool by_gid, const uint8_t *gid, bool by_lid, uint16_t lid,
		     struct end *e)
{
	const struct hca *h = by_gid ? hca_by_gid(f, gid) : by_lid ? active_lid(f, lid) : NULL;

	if ((by_gid && get_be64(gid + 8) == f->sm_guid) || (!by_gid && by_lid && lid == SM_LID)) {
		e->lid = SM_LID;
		put_be64(e->gid, GID_PREFIX);
		put_be64(e->gid + 8, f->sm_guid);
		return !by_lid || lid == SM_LID;
	}
	if (!h || (by_lid && h->port.lid != lid))
		return false;
	end_of(h, e);
	if (by_gid)
		memcpy(e->gid, gid, 16);
	return true;
}

static void path_record(struct path_rec *r, const struct end *src, const struct end *dst)
{
	*r = (struct path_rec){
		.dlid = cpu_to_be16(dst->lid),
		.slid = cpu_to_be16(src->lid),
		.reversible_numb = 0x80 | 1, /* reversible, one path */
		.pkey = cpu_to_be16(PKEY_DEFAULT),
		.mtu = EXACTLY | IB_MTU_4096,
		.rate = EXACTLY | RATE_40G,
		.life = EXACTLY | PACKET_LIFE,
	};
	memcpy(r->dgid, dst->gid, sizeof(r->dgid));
	memcpy(r->sgid, src->gid, sizeof(r->sgid));
}

static uint16_t sa_path(struct fabric *f, struct hca *from, const struct sa_mad *in,
			struct sa_mad *out)
{
	const struct path_rec *q = (const void *)in->data;
	struct path_rec *r = (void *)out->data;
	const uint64_t mask = be64_to_cpu(in->mask);
	const bool table = in->hdr.method == METHOD_GET_TABLE;
	struct end src, dst;
	unsigned n = 0;

	if (mask & (PR_MASK_SGID | PR_MASK_SLID)) {
		if (!find_end(f, mask & PR_MASK_SGID, q->sgid, mask & PR_MASK_SLID,
			      be16_to_cpu(q->slid), &src))
			return SA_NO_RECORDS;
	} else {
		end_of(from, &src);
	}
	if (mask & (PR_MASK_DGID | PR_MASK_DLID)) {
		if (!find_end(f, mask & PR_MASK_DGID, q->dgid, mask & PR_MASK_DLID,
			      be16_to_cpu(q->dlid), &dst))
			return SA_NO_RECORDS;
		path_record(r, &src, &dst);
		return SA_OK;
	}
	if (!table)
		return SA_TOO_MANY;
	for (unsigned i = 0; i < f->nr_hcas; i++) {
		if (!f->hcas[i] || f->hcas[i]->port.state != PORT_ACTIVE)
			continue;
		if ((n + 1) * sizeof(*r) > sizeof(out->data))
			return SA_TOO_MANY;
		end_of(f->hcas[i], &dst);
		path_record(&r[n++], &src, &dst);
	}
	return n ? SA_OK : SA_NO_RECORDS;
}

/* ---- multicast groups ---- */

static struct mc_group *group_find(struct fabric *f, const uint8_t *mgid)
{
	struct mc_group *g;

	list_for_each_entry(g, &f->groups, link) {
		if (!memcmp(g->mgid, mgid, 16))
			return g;
	}
	return NULL;
}

static struct member *member_find(struct mc_group *g, const uint8_t *port_gid)
{
	struct member *m;

	list_for_each_entry(m, &g->members, link) {
		if (!memcmp(m->port_gid, port_gid, 16))
			return m;
	}
	return NULL;
}

static void member_free(struct member *m)
{
	list_del(&m->link);
	free(m);
}

static void group_free(struct mc_group *g)
{
	while (!list_empty(&g->members))
		member_free(list_first_entry(&g->members, struct member, link));
	list_del(&g->link);
	free(g);
}

static uint16_t free_mlid(struct fabric *f)
{
	for (unsigned lid = LID_MCAST_BASE; lid < LID_MCAST_BASE + MAX_GROUPS; lid++) {
		const struct mc_group *g;
		bool used = false;

		list_for_each_entry(g, &f->groups, link)
			used |= g->mlid == lid;
		if (!used)
			return (uint16_t)lid;
	}
	return 0;
}

static struct mc_group *group_create(struct fabric *f, const struct mc_rec *q, uint64_t mask)
{
	const uint16_t mlid = free_mlid(f);
	struct mc_group *g = mlid ? calloc(1, sizeof(*g)) : NULL;

	if (!g)
		return NULL;
	g->mlid = mlid;
	memcpy(g->mgid, q->mgid, sizeof(g->mgid));
	g->rec = *q;
	if (!(mask & MC_MASK_QKEY))
		g->rec.qkey = cpu_to_be32(0x0b1b);
	g->rec.mlid = cpu_to_be16(mlid);
	g->rec.pkey = cpu_to_be16(PKEY_DEFAULT);
	g->rec.mtu = EXACTLY | IB_MTU_4096;
	g->rec.rate = EXACTLY | RATE_40G;
	g->rec.life = EXACTLY | PACKET_LIFE;
	list_init(&g->members);
	list_add_tail(&g->link, &f->groups);
	return g;
}

static void group_answer(const struct mc_group *g, const struct member *m, struct sa_mad *out)
{
	struct mc_rec *r = (void *)out->data;

	*r = g->rec;
	if (m)
		memcpy(r->port_gid, m->port_gid, sizeof(r->port_gid));
	r->scope_state = (uint8_t)((g->rec.scope_state & 0xf0) | (m ? m->state : 0));
}

static uint16_t sa_join(struct fabric *f, struct hca *from, const struct sa_mad *in,
			struct sa_mad *out)
{
	const struct mc_rec *q = (const void *)in->data;
	const uint64_t mask = be64_to_cpu(in->mask);
	struct mc_group *g;
	struct member *m;

	if (!(mask & MC_MASK_MGID) || q->mgid[0] != 0xff || !(q->scope_state & 0xf))
		return SA_REQ_INVALID;
	if (hca_by_gid(f, q->port_gid) != from)
		return SA_REQ_INVALID;
	g = group_find(f, q->mgid);
	if (!g)
		g = group_create(f, q, mask);
	if (!g)
		return SA_NO_RESOURCES;
	m = member_find(g, q->port_gid);
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return SA_NO_RESOURCES;
		m->h = from;
		memcpy(m->port_gid, q->port_gid, sizeof(m->port_gid));
		list_add_tail(&m->link, &g->members);
	}
	m->state |= q->scope_state & 0xf;
	group_answer(g, m, out);
	return SA_OK;
}

static uint16_t sa_leave(struct fabric *f, struct hca *from, const struct sa_mad *in,
			 struct sa_mad *out)
{
	const struct mc_rec *q = (const void *)in->data;
	struct mc_group *g = group_find(f, q->mgid);
	struct member *m = g ? member_find(g, q->port_gid) : NULL;

	if (!m || m->h != from || !(m->state & q->scope_state & 0xf))
		return SA_REQ_INVALID;
	m->state &= (uint8_t)~q->scope_state;
	group_answer(g, m, out);
	if (!m->state)
		member_free(m);
	if (list_empty(&g->members))
		group_free(g);
	return SA_OK;
}

static uint16_t sa_multicast(struct fabric *f, struct hca *from, const struct sa_mad *in,
			     struct sa_mad *out)
{
	const struct mc_rec *q = (const void *)in->data;
	const struct mc_group *g;

	switch (in->hdr.method) {
	case METHOD_SET:
		return sa_join(f, from, in, out);
	case METHOD_DELETE:
		return sa_leave(f, from, in, out);
	default:
		g = group_find(f, q->mgid);
		if (!g)
			return SA_NO_RECORDS;
		group_answer(g, NULL, out);
		return SA_OK;
	}
}

static uint16_t sa_class_port_info(struct sa_mad *out)
{
	struct class_port_info *d = (void *)out->data;

	d->base_version = 1;
	d->class_version = 2;
	d->response_time = 18;
	return SA_OK;
}

static unsigned record_size(uint16_t attr)
{
	return attr == ATTR_PATH_RECORD ? sizeof(struct path_rec)
	       : attr == ATTR_MC_MEMBER ? 56
					: 72;
}

/*
 * Is @in a word about a transfer in segments, rather than a query?  The receiver of a table
 * acknowledges it by a MAD that differs from its query in nothing but this header; answering
 * that would have it acknowledged again, without an end.
 */
static bool rmpp_is_control(const struct sa_mad *in)
{
	return in->rmpp_flags & RMPP_ACTIVE && in->rmpp_type != RMPP_DATA;
}

/* A table answer is one RMPP segment: first and last at once. */
static void rmpp_single(struct sa_mad *out, unsigned records, unsigned size)
{
	out->rmpp_version = 1;
	out->rmpp_type = RMPP_DATA;
	out->rmpp_flags = RMPP_ACTIVE | RMPP_FIRST | RMPP_LAST;
	out->segment = cpu_to_be32(1);
	out->payload = cpu_to_be32(20 + records * size);
}

static unsigned count_records(const struct sa_mad *out, unsigned size)
{
	unsigned n = 0;

	while ((n + 1) * size <= sizeof(out->data)) {
		const uint8_t *r = out->data + n * size;
		bool empty = true;

		for (unsigned i = 0; i < size; i++)
			empty &= r[i] == 0;
		if (empty)
			break;
		n++;
	}
	return n;
}

bool sa_process(struct fabric *f, struct hca *from, const void *request, void *reply)
{
	const struct sa_mad *in = request;
	struct sa_mad *out = reply;
	const uint16_t attr = be16_to_cpu(in->hdr.attr);
	const uint8_t method = in->hdr.method;
	uint16_t status;

	if (in->hdr.version != 1 || in->hdr.class != CLASS_SA || method & METHOD_RESPONSE)
		return false;
	if (method != METHOD_GET && method != METHOD_SET && method != METHOD_GET_TABLE &&
	    method != METHOD_DELETE)
		return false;
	if (rmpp_is_control(in))
		return false;
	mad_reply(in, out, 0);
	memset(out->data, 0, sizeof(out->data));
	if (attr == ATTR_PATH_RECORD && (method == METHOD_GET || method == METHOD_GET_TABLE))
		status = sa_path(f, from, in, out);
	else if (attr == ATTR_MC_MEMBER)
		status = sa_multicast(f, from, in, out);
	else if (attr == ATTR_CLASS_PORT_INFO && method == METHOD_GET)
		status = sa_class_port_info(out);
	else
		status = MAD_ST_BAD_ATTR;
	out->hdr.status = cpu_to_be16(status);
	out->attr_offset = cpu_to_be16((uint16_t)(record_size(attr) / 8));
	if (method == METHOD_GET_TABLE) {
		const unsigned size = record_size(attr);

		rmpp_single(out, status ? 0 : count_records(out, size), size);
	}
	return true;
}

/* @h left the subnet: so did its memberships. */
void sa_forget(struct fabric *f, struct hca *h)
{
	struct mc_group *g, *next_group;
	struct member *m, *next;

	list_for_each_entry_safe(g, next_group, &f->groups, link) {
		list_for_each_entry_safe(m, next, &g->members, link) {
			if (m->h == h)
				member_free(m);
		}
		if (list_empty(&g->members))
			group_free(g);
	}
}

void sa_free(struct fabric *f)
{
	while (!list_empty(&f->groups))
		group_free(list_first_entry(&f->groups, struct mc_group, link));
}
