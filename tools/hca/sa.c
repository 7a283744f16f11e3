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
#include "mad.h"

#include <stdlib.h>

#define MAX_GROUPS 1024u

#define SA_OK           0x0000
#define SA_NO_RESOURCES 0x0100
#define SA_REQ_INVALID  0x0200
#define SA_NO_RECORDS   0x0300
#define SA_TOO_MANY     0x0400

#define PR_SIZE      64u
#define PR_DGID      8
#define PR_SGID      24
#define PR_DLID      40
#define PR_SLID      42
#define PR_MASK_DGID BIT(2)
#define PR_MASK_SGID BIT(3)
#define PR_MASK_DLID BIT(4)
#define PR_MASK_SLID BIT(5)

#define MC_SIZE      52u
#define MC_PORT_GID  16
#define MC_QKEY      32
#define MC_MLID      36
#define MC_MTU       38
#define MC_PKEY      40
#define MC_RATE      42
#define MC_LIFE      43
#define MC_STATE     48
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

static void path_record(uint8_t *r, const struct end *src, const struct end *dst)
{
	memset(r, 0, PR_SIZE);
	memcpy(r + PR_DGID, dst->gid, 16);
	memcpy(r + PR_SGID, src->gid, 16);
	put_be16(r + PR_DLID, dst->lid);
	put_be16(r + PR_SLID, src->lid);
	r[49] = 0x80 | 1; /* reversible, one path */
	put_be16(r + 50, PKEY_DEFAULT);
	r[54] = EXACTLY | IB_MTU_4096;
	r[55] = EXACTLY | RATE_40G;
	r[56] = EXACTLY | PACKET_LIFE;
}

static uint16_t sa_path(struct fabric *f, struct hca *from, const uint8_t *in, uint8_t *out)
{
	const uint64_t mask = get_be64(in + SA_COMP_MASK);
	const uint8_t *q = in + SA_DATA;
	const bool table = in[MAD_METHOD] == METHOD_GET_TABLE;
	struct end src, dst;
	unsigned n = 0;

	if (mask & (PR_MASK_SGID | PR_MASK_SLID)) {
		if (!find_end(f, mask & PR_MASK_SGID, q + PR_SGID, mask & PR_MASK_SLID,
			      get_be16(q + PR_SLID), &src))
			return SA_NO_RECORDS;
	} else {
		end_of(from, &src);
	}
	if (mask & (PR_MASK_DGID | PR_MASK_DLID)) {
		if (!find_end(f, mask & PR_MASK_DGID, q + PR_DGID, mask & PR_MASK_DLID,
			      get_be16(q + PR_DLID), &dst))
			return SA_NO_RECORDS;
		path_record(out + SA_DATA, &src, &dst);
		return SA_OK;
	}
	if (!table)
		return SA_TOO_MANY;
	for (unsigned i = 0; i < f->nr_hcas; i++) {
		if (!f->hcas[i] || f->hcas[i]->port.state != PORT_ACTIVE)
			continue;
		if ((n + 1) * PR_SIZE > MAD_SIZE - SA_DATA)
			return SA_TOO_MANY;
		end_of(f->hcas[i], &dst);
		path_record(out + SA_DATA + n++ * PR_SIZE, &src, &dst);
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

static struct mc_group *group_create(struct fabric *f, const uint8_t *q, uint64_t mask)
{
	const uint16_t mlid = free_mlid(f);
	struct mc_group *g = mlid ? calloc(1, sizeof(*g)) : NULL;

	if (!g)
		return NULL;
	g->mlid = mlid;
	memcpy(g->mgid, q, 16);
	memcpy(g->rec, q, MC_SIZE);
	if (!(mask & MC_MASK_QKEY))
		put_be32(g->rec + MC_QKEY, 0x0b1b);
	put_be16(g->rec + MC_MLID, mlid);
	put_be16(g->rec + MC_PKEY, PKEY_DEFAULT);
	g->rec[MC_MTU] = EXACTLY | IB_MTU_4096;
	g->rec[MC_RATE] = EXACTLY | RATE_40G;
	g->rec[MC_LIFE] = EXACTLY | PACKET_LIFE;
	list_init(&g->members);
	list_add_tail(&g->link, &f->groups);
	return g;
}

static void group_answer(const struct mc_group *g, const struct member *m, uint8_t *out)
{
	uint8_t *r = out + SA_DATA;

	memcpy(r, g->rec, MC_SIZE);
	if (m)
		memcpy(r + MC_PORT_GID, m->port_gid, 16);
	r[MC_STATE] = (uint8_t)((g->rec[MC_STATE] & 0xf0) | (m ? m->state : 0));
}

static uint16_t sa_join(struct fabric *f, struct hca *from, const uint8_t *in, uint8_t *out)
{
	const uint64_t mask = get_be64(in + SA_COMP_MASK);
	const uint8_t *q = in + SA_DATA;
	struct mc_group *g;
	struct member *m;

	if (!(mask & MC_MASK_MGID) || q[0] != 0xff || !(q[MC_STATE] & 0xf))
		return SA_REQ_INVALID;
	if (hca_by_gid(f, q + MC_PORT_GID) != from)
		return SA_REQ_INVALID;
	g = group_find(f, q);
	if (!g)
		g = group_create(f, q, mask);
	if (!g)
		return SA_NO_RESOURCES;
	m = member_find(g, q + MC_PORT_GID);
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return SA_NO_RESOURCES;
		m->h = from;
		memcpy(m->port_gid, q + MC_PORT_GID, 16);
		list_add_tail(&m->link, &g->members);
	}
	m->state |= q[MC_STATE] & 0xf;
	group_answer(g, m, out);
	return SA_OK;
}

static uint16_t sa_leave(struct fabric *f, struct hca *from, const uint8_t *in, uint8_t *out)
{
	const uint8_t *q = in + SA_DATA;
	struct mc_group *g = group_find(f, q);
	struct member *m = g ? member_find(g, q + MC_PORT_GID) : NULL;

	if (!m || m->h != from || !(m->state & q[MC_STATE] & 0xf))
		return SA_REQ_INVALID;
	m->state &= (uint8_t)~q[MC_STATE];
	group_answer(g, m, out);
	if (!m->state)
		member_free(m);
	if (list_empty(&g->members))
		group_free(g);
	return SA_OK;
}

static uint16_t sa_multicast(struct fabric *f, struct hca *from, const uint8_t *in, uint8_t *out)
{
	const struct mc_group *g;

	switch (in[MAD_METHOD]) {
	case METHOD_SET:
		return sa_join(f, from, in, out);
	case METHOD_DELETE:
		return sa_leave(f, from, in, out);
	default:
		g = group_find(f, in + SA_DATA);
		if (!g)
			return SA_NO_RECORDS;
		group_answer(g, NULL, out);
		return SA_OK;
	}
}

static uint16_t sa_class_port_info(uint8_t *out)
{
	uint8_t *d = out + SA_DATA;

	memset(d, 0, MAD_SIZE - SA_DATA);
	d[0] = 1;
	d[1] = 2;
	d[7] = 18; /* response time */
	return SA_OK;
}

static unsigned record_size(uint16_t attr)
{
	return attr == ATTR_PATH_RECORD ? PR_SIZE : attr == ATTR_MC_MEMBER ? 56 : 72;
}

/*
 * Is @in a word about a transfer in segments, rather than a query?  The receiver of a table
 * acknowledges it by a MAD that differs from its query in nothing but this header; answering
 * that would have it acknowledged again, without an end.
 */
static bool rmpp_is_control(const uint8_t *in)
{
	return in[SA_RMPP + 2] & RMPP_ACTIVE && in[SA_RMPP + 1] != RMPP_DATA;
}

/* A table answer is one RMPP segment: first and last at once. */
static void rmpp_single(uint8_t *out, unsigned records, unsigned size)
{
	out[SA_RMPP] = 1; /* version */
	out[SA_RMPP + 1] = RMPP_DATA;
	out[SA_RMPP + 2] = RMPP_ACTIVE | RMPP_FIRST | RMPP_LAST;
	put_be32(out + SA_RMPP + 4, 1);
	put_be32(out + SA_RMPP + 8, 20 + records * size);
}

static unsigned count_records(const uint8_t *out, unsigned size)
{
	unsigned n = 0;

	while ((n + 1) * size <= MAD_SIZE - SA_DATA) {
		const uint8_t *r = out + SA_DATA + n * size;
		bool empty = true;

		for (unsigned i = 0; i < size; i++)
			empty &= r[i] == 0;
		if (empty)
			break;
		n++;
	}
	return n;
}

bool sa_process(struct fabric *f, struct hca *from, const uint8_t *in, uint8_t *out)
{
	const uint16_t attr = get_be16(in + MAD_ATTR);
	const uint8_t method = in[MAD_METHOD];
	uint16_t status;

	if (in[0] != 1 || in[1] != CLASS_SA || method & METHOD_RESPONSE)
		return false;
	if (method != METHOD_GET && method != METHOD_SET && method != METHOD_GET_TABLE &&
	    method != METHOD_DELETE)
		return false;
	if (rmpp_is_control(in))
		return false;
	mad_reply(in, out, 0);
	memset(out + SA_DATA, 0, MAD_SIZE - SA_DATA);
	if (attr == ATTR_PATH_RECORD && (method == METHOD_GET || method == METHOD_GET_TABLE))
		status = sa_path(f, from, in, out);
	else if (attr == ATTR_MC_MEMBER)
		status = sa_multicast(f, from, in, out);
	else if (attr == ATTR_CLASS_PORT_INFO && method == METHOD_GET)
		status = sa_class_port_info(out);
	else
		status = MAD_ST_BAD_ATTR;
	put_be16(out + MAD_STATUS, status);
	put_be16(out + SA_ATTR_OFFSET, (uint16_t)(record_size(attr) / 8));
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
