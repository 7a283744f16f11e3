/* SPDX-License-Identifier: MIT */
/*
 * HCA model: datagrams, and the way of management packets.
 *
 * Flow:	ud_run_head() gathers a WQE of a UD or special QP into one packet
 *		and ud_deliver() takes it to a QP, to the members of a multicast
 *		group, or to an agent: SMPs to the SMA of whichever HCA or
 *		switch they name, GMPs at SM_LID to the SA.
 * Failure:	a packet that nobody wants is dropped and counted.  A UD send to
 *		an empty receive queue waits up to UD_HOLD_NS first: an emulated
 *		guest is slower than any real receiver.
 * Limits:	QP0 and QP1 take MADs of exactly 256 bytes.  A datagram that is
 *		longer than the posted buffer is dropped, so that no stranger
 *		can put a QP in error.
 */
#include "hca.h"

#define GRH_SIZE   ((uint32_t)sizeof(struct ib_grh))
#define LRH_SIZE   ((uint32_t)sizeof(struct ib_lrh))
#define BTH_SIZE   ((uint32_t)sizeof(struct ib_bth))
#define DETH_SIZE  ((uint32_t)sizeof(struct ib_deth))
#define UD_HOLD_NS (5 * NSEC_PER_MSEC)
#define UD_LOOK_NS (200 * NSEC_PER_USEC)
#define MLX_SLR    BIT(16)

enum ud_result {
	UD_DONE,
	UD_NO_RECV, /* the one target has no receive WQE: worth waiting a little */
};

static bool is_multicast(uint16_t dlid)
{
	return dlid >= LID_MCAST_BASE && dlid != LID_PERMISSIVE;
}

static bool takes_datagrams(const struct qp *qp)
{
	if (qp->type != QPT_UD && qp->type != QPT_MLX)
		return false;
	return qp->state == QPS_RTR || qp->state == QPS_RTS || qp->state == QPS_SQD ||
	       qp->state == QPS_SQER;
}

/* Equal partitions, and not both limited members. */
static bool pkey_match(uint16_t a, uint16_t b)
{
	return ((a ^ b) & 0x7fff) == 0 && (a & 0x7fff) && ((a | b) & 0x8000);
}

static bool wanted(struct qp *qp, const struct packet *p)
{
	struct hca *h = qp->h;
	const bool smp = qp->special && qp_wire_number(qp) == 0;

	if (!takes_datagrams(qp) || (qp->special && p->len != MAD_SIZE))
		return false;
	if (!smp && !pkey_match(p->pkey, h->port.pkeys[qp->path.pkey_index % NR_PKEYS])) {
		h->stats.pkey_violations++;
		return false;
	}
	if (!smp && p->qkey != (qp->special ? QKEY_GSI : qp->qkey)) {
		h->stats.qkey_violations++;
		return false;
	}
	return true;
}

/* Put the packet into @qp's next receive WQE.  False: there is none. */
static bool ud_receive(struct qp *qp, const struct packet *p)
{
	static const struct ib_grh no_grh;
	struct completion c = {
		.imm = p->has_imm ? p->imm : 0,
		.src_qpn = p->src_qpn | (p->has_grh ? BIT(31) : 0),
		.slid = p->slid,
		.sl = p->sl,
		.len = GRH_SIZE + p->len,
		.opcode = p->has_imm ? RCQE_SEND_IMM : RCQE_SEND,
		.solicited = p->solicited,
	};
	const uint32_t pd = qp->srq ? qp->srq->pd : qp->pd;
	struct stream s;
	struct wqe rw;

	if (!wanted(qp, p)) {
		qp->h->stats.ud_drops++;
		return true;
	}
	if (!qp->rx_held && !rq_take(qp, &qp->rx_index))
		return false;
	qp->rx_held = true;
	if (!rq_fetch(qp, qp->rx_index, &rw) ||
	    stream_check(qp->h, pd, MPT_LOCAL_WRITE, rw.sge, rw.nr_sge, c.len)) {
		c.syndrome = SYN_LOCAL_PROT;
		qp_complete_recv(qp, &c);
		qp_error(qp);
		return true;
	}
	if (rw.len < c.len) {
		qp->h->stats.ud_drops++; /* the WQE stays for the next one */
		return true;
	}
	stream_init(&s, qp->h, pd, MPT_LOCAL_WRITE, rw.sge, rw.nr_sge);
	if (!stream_put(&s, (const void *)(p->has_grh ? &p->grh : &no_grh), GRH_SIZE) ||
	    !stream_put(&s, p->data, p->len))
		c.syndrome = SYN_LOCAL_PROT;
	qp->h->stats.rx_packets++;
	qp->h->stats.rx_bytes += p->len;
	bucket_charge(qp->h, qp->h, p->len);
	qp_complete_recv(qp, &c);
	if (c.syndrome)
		qp_error(qp);
	return true;
}

/* The QP that number @qpn of a packet means on @h. */
static struct qp *wire_qp(struct hca *h, uint32_t qpn)
{
	if (qpn > 1)
		return qp_find(h, qpn);
	return h->special_base ? qp_find(h, h->special_base + qpn * 2) : NULL;
}

/* An agent's answer to @to. */
static void send_reply(struct hca *to, const struct packet *req, const uint8_t *mad)
{
	const struct packet p = {
		.slid = req->dlid,
		.dlid = req->slid,
		.sl = req->sl,
		.src_qpn = req->dst_qpn,
		.dst_qpn = req->src_qpn,
		.qkey = req->dst_qpn ? QKEY_GSI : 0,
		.pkey = PKEY_DEFAULT,
		.data = mad,
		.len = MAD_SIZE,
	};
	struct qp *qp = wire_qp(to, p.dst_qpn);

	pcap_datagram(to->fabric, &p);
	if (!qp || !ud_receive(qp, &p))
		to->stats.ud_drops++;
}

/* Subnet management: answered by the agents, which on the model are firmware. */
static bool deliver_smp(struct hca *from, const struct packet *p)
{
	const struct mad_hdr *hdr = (const void *)p->data;
	struct hca *target;
	uint8_t out[MAD_SIZE];
	bool answered;

	if (p->dst_qpn != 0)
		return false;
	if (p->len != MAD_SIZE)
		return true;
	from->stats.mads++;
	if (hdr->class == CLASS_SMP_ROUTED) {
		answered = smp_route(from, p->data, out);
	} else if (p->dlid == SM_LID) {
		answered = sm_process(from->fabric, from, p->data, out);
	} else {
		if (hdr->method & METHOD_RESPONSE)
			return false; /* an answer goes to the QP0 itself */
		target = fabric_route(from, p->dlid);
		answered = target && sma_process(target, p->data, out);
	}
	if (answered)
		send_reply(from, p, out);
	else
		from->stats.ud_drops++;
	return true;
}

static bool deliver_gmp(struct hca *from, const struct packet *p)
{
	uint8_t out[MAD_SIZE];

	if (p->dst_qpn == 1 && p->len == MAD_SIZE)
		from->stats.mads++;
	if (p->dlid != SM_LID)
		return false;
	if (p->dst_qpn == 1 && p->len == MAD_SIZE && p->qkey == QKEY_GSI &&
	    sa_process(from->fabric, from, p->data, out))
		send_reply(from, p, out);
	else
		from->stats.ud_drops++;
	return true;
}

struct mcast_arg {
	const struct packet *p;
	const struct hca *from;
};

static void mcast_member(struct hca *h, uint32_t qpn, bool block_loopback, void *arg)
{
	const struct mcast_arg *m = arg;
	struct qp *qp = qp_find(h, qpn);

	if (!qp || (block_loopback && h == m->from && qpn == m->p->src_qpn))
		return;
	if (!ud_receive(qp, m->p))
		h->stats.ud_drops++;
}

static void deliver_multicast(struct hca *from, const struct packet *p)
{
	struct mcast_arg arg = { .p = p, .from = from };
	struct fabric *f = from->fabric;

	if (!p->has_grh)
		return; /* the group is named by its GID */
	for (unsigned i = 0; i < f->nr_hcas; i++) {
		struct hca *h = f->hcas[i];

		if (h && h->port.state == PORT_ACTIVE && !h->port.killed)
			mcg_for_each(h, p->grh.dgid, mcast_member, &arg);
	}
}

static enum ud_result ud_deliver(struct hca *from, const struct packet *p, bool may_wait)
{
	struct hca *to;
	struct qp *qp;

	if (from->port.killed) {
		from->stats.killed_drops++;
		return UD_DONE;
	}
	if (from->port.link_down || !from->port.inited || deliver_smp(from, p))
		return UD_DONE;
	if (from->port.state != PORT_ACTIVE) {
		from->stats.ud_drops++;
		return UD_DONE;
	}
	if (deliver_gmp(from, p))
		return UD_DONE;
	if (is_multicast(p->dlid)) {
		deliver_multicast(from, p);
		return UD_DONE;
	}
	to = fabric_route(from, p->dlid);
	qp = to ? wire_qp(to, p->dst_qpn) : NULL;
	if (qp && ud_receive(qp, p))
		return UD_DONE;
	if (qp && may_wait && !qp->special)
		return UD_NO_RECV;
	from->stats.ud_drops++;
	return UD_DONE;
}

/* Fill the packet's global route header. */
static void build_grh(struct packet *p, struct hca *h, unsigned sgid_index, uint32_t tclass_flow,
		      uint8_t hop_limit, const uint8_t *dgid)
{
	p->has_grh = true;
	p->grh.version_tclass_flow = cpu_to_be32(6u << 28 | (tclass_flow & 0x0fffffff));
	p->grh.len = cpu_to_be16((uint16_t)(p->len + BTH_SIZE + DETH_SIZE + 4));
	p->grh.next = 0x1b;
	p->grh.hop_limit = hop_limit;
	port_gid(h, sgid_index, p->grh.sgid);
	memcpy(p->grh.dgid, dgid, sizeof(p->grh.dgid));
}

/* The address vector of a UD WQE. */
static void build_ud(struct qp *qp, const struct wqe *w, struct packet *p)
{
	const struct hw_av *av = &w->av;
	const uint32_t sl_tclass_flow = be32_to_cpu(av->sl_tclass_flow);

	p->slid = port_lid(qp->h) | (av->grh_slid & 0x7f);
	p->dlid = be16_to_cpu(av->dlid);
	p->sl = (uint8_t)(sl_tclass_flow >> 28);
	p->src_qpn = qp_wire_number(qp);
	p->dst_qpn = w->dqpn;
	p->qkey = w->qkey & BIT(31) ? qp->qkey : w->qkey;
	p->pkey = qp->h->port.pkeys[qp->path.pkey_index % NR_PKEYS];
	p->solicited = w->solicited;
	p->has_imm = w->opcode == WQE_SEND_IMM;
	p->imm = w->imm;
	if (av->grh_slid & 0x80)
		build_grh(p, qp->h, av->gid_index, sl_tclass_flow & 0x0fffffff, av->hop_limit,
			  av->dgid);
}

/* A special QP brings its own headers: LRH, [GRH,] BTH, DETH, then the MAD. */
static bool build_special(struct qp *qp, const struct wqe *w, const uint8_t *buf, uint32_t len,
			  struct packet *p)
{
	const struct ib_lrh *lrh = (const void *)buf;
	const struct ib_deth *deth;
	const struct ib_bth *bth;
	uint32_t off = LRH_SIZE;

	if (len < LRH_SIZE + BTH_SIZE + DETH_SIZE + MAD_SIZE)
		return false;
	p->dlid = be16_to_cpu(lrh->dlid);
	p->sl = lrh->sl_next >> 4;
	p->slid = w->mlx_flags & MLX_SLR
			  ? LID_PERMISSIVE
			  : (uint16_t)(port_lid(qp->h) | (be16_to_cpu(lrh->slid) & 0x7f));
	if ((lrh->sl_next & LNH_MASK) == LNH_GRH) {
		if (len < LRH_SIZE + GRH_SIZE + BTH_SIZE + DETH_SIZE + MAD_SIZE)
			return false;
		p->has_grh = true;
		memcpy(&p->grh, buf + off, GRH_SIZE);
		off += GRH_SIZE;
	} else if ((lrh->sl_next & LNH_MASK) != LNH_LOCAL) {
		return false;
	}
	bth = (const void *)(buf + off);
	deth = (const void *)(bth + 1);
	p->solicited = bth->flags & BTH_SOLICITED;
	p->pkey = be16_to_cpu(bth->pkey);
	p->dst_qpn = be32_to_cpu(bth->dqpn) & QPN_MASK;
	p->qkey = be32_to_cpu(deth->qkey);
	p->src_qpn = qp_wire_number(qp); /* whatever the header claims */
	p->data = (const uint8_t *)(deth + 1);
	p->len = MAD_SIZE;
	return true;
}

enum run_result ud_run_head(struct qp *qp, struct wqe *w)
{
	uint8_t buf[MAX_PACKET];
	struct packet p = { .data = buf, .len = (uint32_t)w->len };
	struct fabric *f = qp->h->fabric;
	uint64_t wait_ns;
	struct stream s;
	bool lost;

	if (w->len > sizeof(buf)) {
		qp_send_error(qp, SYN_LOCAL_LENGTH);
		return RUN_ERROR;
	}
	(void)bucket_grant(qp->h, qp->h, w->len, &wait_ns);
	if (wait_ns) {
		qp_wait(qp, wait_ns);
		return RUN_WAIT;
	}
	stream_init(&s, qp->h, qp->pd, MPT_LOCAL_READ, w->sge, w->nr_sge);
	if (!stream_get(&s, buf, w->len)) {
		qp_send_error(qp, SYN_LOCAL_PROT);
		return RUN_ERROR;
	}
	if (qp->type == QPT_UD) {
		build_ud(qp, w, &p);
	} else if (!build_special(qp, w, buf, p.len, &p)) {
		qp_send_error(qp, SYN_LOCAL_QP_OP);
		return RUN_ERROR;
	}
	if (!qp->hold_until_ns)
		qp->hold_until_ns = f->now_ns + UD_HOLD_NS;
	lost = qp->type == QPT_UD && fault_is_lost(qp->h);
	if (lost) {
		qp->h->stats.ud_drops++;
	} else if (ud_deliver(qp->h, &p, f->now_ns < qp->hold_until_ns) == UD_NO_RECV) {
		qp_wait(qp, UD_LOOK_NS);
		return RUN_WAIT;
	}
	pcap_datagram(f, &p);
	if (!lost && fault_is_doubled(qp->h, qp->type == QPT_UD ? CLS_UD : CLS_MAD)) {
		pcap_datagram(f, &p);
		(void)ud_deliver(qp->h, &p, false);
	}
	qp->h->stats.datagrams++;
	qp->h->stats.tx_packets++;
	qp->h->stats.tx_bytes += p.len;
	bucket_charge(qp->h, qp->h, p.len);
	qp_complete_send(qp, w, SYN_OK);
	qp_send_done(qp);
	/* A multicast packet may mean hundreds of receives: one a turn. */
	return is_multicast(p.dlid) ? RUN_MORE : RUN_NEXT;
}
