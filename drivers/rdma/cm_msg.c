/* SPDX-License-Identifier: MIT */
/*
 * Connection management messages: encode and decode.
 *
 * All offsets below are from the MAD's start: 24 bytes of header come first.
 */
#include "cm_msg.h"

#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/string.h>

#define CM_CLASS_VERSION 2
#define DATA             24
#define LOCAL_ID         (DATA + 0)
#define REMOTE_ID        (DATA + 4)

static const struct {
	uint16_t attr;
	uint16_t private_at;
	uint16_t private_len;
} layouts[] = {
	{ CM_REQ, DATA + 140, CM_REQ_PRIVATE_LEN },
	{ CM_MRA, DATA + 10, 222 },
	{ CM_REJ, DATA + 84, CM_REJ_PRIVATE_LEN },
	{ CM_REP, DATA + 36, CM_REP_PRIVATE_LEN },
	{ CM_RTU, DATA + 8, 224 },
	{ CM_DREQ, DATA + 12, 220 },
	{ CM_DREP, DATA + 8, 224 },
};

static int layout_of(uint16_t attr)
{
	for (size_t n = 0; n < ARRAY_SIZE(layouts); n++) {
		if (layouts[n].attr == attr)
			return (int)n;
	}
	return -EOPNOTSUPP;
}

uint32_t cm_private_len(uint16_t attr)
{
	const int n = layout_of(attr);

	return n < 0 ? 0 : layouts[n].private_len;
}

static void put24(uint8_t *p, uint32_t v24, uint8_t low)
{
	put_unaligned_be32(v24 << 8 | low, p);
}

static uint32_t get24(const uint8_t *p)
{
	return get_unaligned_be32(p) >> 8;
}

/* --- encode -------------------------------------------------------------------------- */

static void req_encode(const struct cm_req *r, uint8_t *d)
{
	put_unaligned_be64(r->service_id, d + 8);
	put_unaligned_be64(r->ca_guid, d + 16);
	put24(d + 32, r->qpn, r->responder_resources);
	put24(d + 36, 0, r->initiator_depth);
	put24(d + 40, 0, (uint8_t)(r->remote_cm_timeout << 3 | r->transport << 1));
	put24(d + 44, r->psn, (uint8_t)(r->local_cm_timeout << 3 | r->retry_cnt));
	put_unaligned_be16(r->pkey, d + 48);
	d[50] = (uint8_t)(r->path_mtu << 4 | r->rnr_retry);
	d[51] = (uint8_t)(r->max_cm_retries << 4);
	put_unaligned_be16(r->local_lid, d + 52);
	put_unaligned_be16(r->remote_lid, d + 54);
	memcpy(d + 56, r->local_gid.raw, 16);
	memcpy(d + 72, r->remote_gid.raw, 16);
	d[93] = 0xff;                            /* hop limit */
	d[94] = (uint8_t)(r->sl << 4 | 1U << 3); /* subnet local */
	d[95] = (uint8_t)(r->ack_timeout << 3);
}

static void rep_encode(const struct cm_rep *r, uint8_t *d)
{
	put24(d + 12, r->qpn, 0);
	put24(d + 20, r->psn, 0);
	d[24] = r->responder_resources;
	d[25] = r->initiator_depth;
	d[26] = (uint8_t)(r->ack_delay << 3);
	d[27] = (uint8_t)(r->rnr_retry << 5);
	put_unaligned_be64(r->ca_guid, d + 28);
}

void cm_msg_encode(const struct cm_msg *m, void *mad)
{
	struct mad_hdr_wire hdr = {
		.base_version = 1,
		.mgmt_class = MAD_CLASS_CM,
		.class_version = CM_CLASS_VERSION,
		.method = MAD_METHOD_SEND,
		.tid = cpu_to_be64(m->tid),
		.attr_id = cpu_to_be16(m->attr),
	};
	const int n = layout_of(m->attr);
	uint8_t *b = mad;
	uint8_t *d = b + DATA;

	memset(b, 0, MAD_LEN);
	memcpy(b, &hdr, sizeof(hdr));
	put_unaligned_be32(m->local_id, b + LOCAL_ID);
	if (m->attr != CM_REQ)
		put_unaligned_be32(m->remote_id, b + REMOTE_ID);
	switch (m->attr) {
	case CM_REQ:
		req_encode(&m->req, d);
		break;
	case CM_REP:
		rep_encode(&m->rep, d);
		break;
	case CM_REJ:
		d[8] = (uint8_t)(m->rej.msg << 6);
		put_unaligned_be16(m->rej.reason, d + 10);
		break;
	case CM_MRA:
		d[8] = (uint8_t)(m->mra.msg << 6);
		d[9] = (uint8_t)(m->mra.timeout << 3);
		break;
	case CM_DREQ:
		put24(d + 8, m->dreq_qpn, 0);
		break;
	default:
		break;
	}
	if (n >= 0)
		memcpy(b + layouts[n].private_at, m->private_data,
		       MIN((uint32_t)m->private_len, (uint32_t)layouts[n].private_len));
}

/* --- decode -------------------------------------------------------------------------- */

static int req_decode(const uint8_t *d, struct cm_req *r)
{
	*r = (struct cm_req){
		.service_id = get_unaligned_be64(d + 8),
		.ca_guid = get_unaligned_be64(d + 16),
		.qpn = get24(d + 32),
		.responder_resources = d[35],
		.initiator_depth = d[39],
		.remote_cm_timeout = d[43] >> 3,
		.transport = d[43] >> 1 & 3,
		.psn = get24(d + 44),
		.local_cm_timeout = d[47] >> 3,
		.retry_cnt = d[47] & 7,
		.pkey = get_unaligned_be16(d + 48),
		.path_mtu = d[50] >> 4,
		.rnr_retry = d[50] & 7,
		.max_cm_retries = d[51] >> 4,
		.local_lid = get_unaligned_be16(d + 52),
		.remote_lid = get_unaligned_be16(d + 54),
		.sl = d[94] >> 4,
		.ack_timeout = d[95] >> 3,
	};
	memcpy(r->local_gid.raw, d + 56, 16);
	memcpy(r->remote_gid.raw, d + 72, 16);
	/* Queue pairs 0 and 1 are never connected. */
	return r->qpn < 2 ? -EPROTO : 0;
}

static int rep_decode(const uint8_t *d, struct cm_rep *r)
{
	*r = (struct cm_rep){
		.qpn = get24(d + 12),
		.psn = get24(d + 20),
		.responder_resources = d[24],
		.initiator_depth = d[25],
		.ack_delay = d[26] >> 3,
		.rnr_retry = d[27] >> 5,
		.ca_guid = get_unaligned_be64(d + 28),
	};
	return r->qpn < 2 ? -EPROTO : 0;
}

static int body_decode(const uint8_t *d, struct cm_msg *m)
{
	switch (m->attr) {
	case CM_REQ:
		return req_decode(d, &m->req);
	case CM_REP:
		return rep_decode(d, &m->rep);
	case CM_REJ:
		m->rej.msg = d[8] >> 6;
		m->rej.reason = get_unaligned_be16(d + 10);
		return m->rej.msg == 3 ? -EPROTO : 0;
	case CM_MRA:
		m->mra.msg = d[8] >> 6;
		m->mra.timeout = d[9] >> 3;
		return m->mra.msg > 1 ? -EPROTO : 0;
	case CM_DREQ:
		m->dreq_qpn = get24(d + 8);
		return 0;
	default:
		return 0;
	}
}

int cm_msg_decode(const void *mad, struct cm_msg *msg)
{
	const uint8_t *b = mad;
	struct mad_hdr_wire hdr;
	struct cm_msg m;
	int n, err;

	memcpy(&hdr, b, sizeof(hdr));
	if (hdr.base_version != 1 || hdr.mgmt_class != MAD_CLASS_CM)
		return -EPROTO;
	if (hdr.class_version != CM_CLASS_VERSION || hdr.method != MAD_METHOD_SEND)
		return -EOPNOTSUPP;
	n = layout_of(be16_to_cpu(hdr.attr_id));
	if (n < 0)
		return n;

	memset(&m, 0, sizeof(m));
	m.attr = layouts[n].attr;
	m.tid = be64_to_cpu(hdr.tid);
	m.local_id = get_unaligned_be32(b + LOCAL_ID);
	if (m.attr != CM_REQ)
		m.remote_id = get_unaligned_be32(b + REMOTE_ID);
	/* Only a refusal of an unknown REQ may come without a local id. */
	if (!m.local_id && m.attr != CM_REJ)
		return -EPROTO;
	err = body_decode(b + DATA, &m);
	if (err)
		return err;
	m.private_len = (uint8_t)layouts[n].private_len;
	memcpy(m.private_data, b + layouts[n].private_at, m.private_len);
	*msg = m;
	return 0;
}
