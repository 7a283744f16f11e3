/* SPDX-License-Identifier: MIT */
/*
 * HCA model: a capture file of the packets that crossed the fabric.
 *
 * The file is a pcap with nanoseconds, of Ethernet; each packet looks as RoCE
 * version 2 would carry it (IPv4, UDP port 4791, BTH, ...), so that Wireshark and
 * scapy dissect it.  The LID is in the MAC address (02:00:00:00:hi:lo) and in the
 * IP address (10.0.hi.lo).  The invariant CRC is right.
 *
 * Flow:	a message is written when it is complete, as the packets that a
 *		wire would have seen, the answer included; the model itself copies
 *		from memory to memory.
 * Limits:	max_bytes of file; what does not fit is counted and not written.  The
 *		payload is read again from the sender's memory: a sender that writes
 *		to it meanwhile sees its later bytes here.
 */
#include "hca.h"

#include <stdio.h>
#include <stdlib.h>

#define PCAP_MAGIC_NS 0xa1b23c4du
#define PCAP_ETHERNET 1u
#define FLUSH_NS      (200 * NSEC_PER_MSEC)
#define UDP_ROCE      4791u
#define ETH_LEN       sizeof(struct eth_hdr)
#define IP_LEN        sizeof(struct ip_hdr)
#define EXT_MAX       28u /* AtomicETH */
#define ICRC_LEN      4u
#define FRAME_MAX     (sizeof(struct roce_hdr) + EXT_MAX + MAX_PACKET + ICRC_LEN)

/* Opcodes of the BTH: transport in 7:5 */
#define BTH_UC           0x20u
#define BTH_SEND         0x00u /* first; middle, last, last+imm, only, only+imm follow */
#define BTH_WRITE        0x06u
#define BTH_READ_REQUEST 0x0cu
#define BTH_READ_REPLY   0x0du /* first; middle, last, only */
#define BTH_ACK          0x11u
#define BTH_ATOMIC_ACK   0x12u
#define BTH_CAS          0x13u
#define BTH_FAA          0x14u
#define BTH_UD_SEND_ONLY 0x64u
#define BTH_UD_SEND_IMM  0x65u

struct pcap {
	FILE *file;
	struct fabric *fabric;
	uint64_t bytes, max_bytes;
	uint64_t packets, lost;
	struct alarm flush;
	bool broken;
	uint8_t frame[FRAME_MAX];
};

/* One packet: headers as given, then @len payload bytes. */
struct frame {
	uint16_t slid, dlid;
	uint8_t opcode;
	bool solicited, ack_request;
	uint16_t pkey;
	uint32_t dqpn, psn;
	uint8_t ext[EXT_MAX];
	unsigned ext_len;
};

static uint32_t crc32_add(uint32_t crc, const uint8_t *p, size_t len)
{
	while (len--) {
		crc ^= *p++;
		for (unsigned i = 0; i < 8; i++)
			crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return crc;
}

/*
 * Over the @len bytes from @ip on, without those that a router changes: they count as ones, and so
 * do the 8 bytes of an InfiniBand header that RoCE has not.
 */
static uint32_t icrc(const uint8_t *ip, size_t len)
{
	struct {
		uint8_t lrh[8];
		struct ip_hdr ip;
		struct udp_hdr udp;
		struct ib_bth bth;
	} __packed head;
	const size_t copied = sizeof(head) - sizeof(head.lrh);
	uint32_t crc;

	memset(head.lrh, 0xff, sizeof(head.lrh));
	memcpy(&head.ip, ip, copied);
	head.ip.tos = 0xff;
	head.ip.ttl = 0xff;
	head.ip.checksum = cpu_to_be16(0xffff);
	head.udp.checksum = cpu_to_be16(0xffff);
	head.bth.dqpn |= cpu_to_be32(0xff000000u);
	crc = crc32_add(~0u, (const uint8_t *)&head, sizeof(head));
	return ~crc32_add(crc, ip + copied, len - copied);
}

static uint16_t ip_checksum(const struct ip_hdr *ip)
{
	const uint8_t *p = (const uint8_t *)ip;
	uint32_t sum = 0;

	for (unsigned i = 0; i < sizeof(*ip); i += 2)
		sum += get_be16(p + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return (uint16_t)~sum;
}

static void put_mac(uint8_t mac[6], uint16_t lid)
{
	memset(mac, 0, 6);
	mac[0] = 0x02;
	put_be16(mac + 4, lid);
}

static void put_ip(uint8_t ip[4], uint16_t lid)
{
	ip[0] = 10;
	ip[1] = 0;
	put_be16(ip + 2, lid);
}

/* All headers but the extension; @ip_len bytes from the IP header on, @pad of them padding. */
static void put_headers(struct roce_hdr *h, const struct frame *f, size_t ip_len, unsigned pad)
{
	*h = (struct roce_hdr){
		.eth.type = cpu_to_be16(0x0800),
		.ip.version_len = 0x45,
		.ip.len = cpu_to_be16((uint16_t)ip_len),
		.ip.fragment = cpu_to_be16(0x4000), /* not to be fragmented */
		.ip.ttl = 64,
		.ip.protocol = 17,
		.udp.src = cpu_to_be16((uint16_t)(0xc000 | (f->dqpn & 0x3fff))),
		.udp.dst = cpu_to_be16(UDP_ROCE),
		.udp.len = cpu_to_be16((uint16_t)(ip_len - IP_LEN)),
		.bth.opcode = f->opcode,
		.bth.flags =
			(uint8_t)((f->solicited ? BTH_SOLICITED : 0) | BTH_MIGRATED | pad << 4),
		.bth.pkey = cpu_to_be16(f->pkey),
		.bth.dqpn = cpu_to_be32(f->dqpn & QPN_MASK),
		.bth.psn = cpu_to_be32((f->ack_request ? BIT(31) : 0) | (f->psn & QPN_MASK)),
	};
	put_mac(h->eth.dst, f->dlid);
	put_mac(h->eth.src, f->slid);
	put_ip(h->ip.src, f->slid);
	put_ip(h->ip.dst, f->dlid);
	h->ip.checksum = cpu_to_be16(ip_checksum(&h->ip));
}

static void flush_fired(struct alarm *t)
{
	struct pcap *c = container_of(t, struct pcap, flush);

	if (fflush(c->file))
		c->broken = true;
}

static void record(struct pcap *c, size_t len)
{
	struct timespec ts;
	uint32_t head[4];

	clock_gettime(CLOCK_REALTIME, &ts);
	head[0] = (uint32_t)ts.tv_sec;
	head[1] = (uint32_t)ts.tv_nsec;
	head[2] = head[3] = (uint32_t)len;
	if (fwrite(head, sizeof(head), 1, c->file) != 1 || fwrite(c->frame, len, 1, c->file) != 1) {
		model_log("capture: %m");
		c->broken = true;
		return;
	}
	c->bytes += sizeof(head) + len;
	c->packets++;
	if (!c->flush.slot)
		alarm_set(c->fabric, &c->flush, c->fabric->now_ns + FLUSH_NS);
}

/* Is there room for one more of any size?  If not, @n packets are lost. */
static bool room(struct pcap *c, uint64_t n)
{
	if (!c->broken && c->bytes + FRAME_MAX + 16 <= c->max_bytes)
		return true;
	if (!c->lost)
		model_log("capture: the file is full, further packets are only counted");
	c->lost += n;
	return false;
}

/* Payload of @len bytes is at c->frame + payload_at(f) already. */
static size_t payload_at(const struct frame *f)
{
	return sizeof(struct roce_hdr) + f->ext_len;
}

static void emit(struct pcap *c, const struct frame *f, uint32_t len)
{
	const unsigned pad = -len & 3;
	const size_t at = payload_at(f), end = at + len + pad;
	uint8_t *p = c->frame;

	put_headers((struct roce_hdr *)p, f, end + ICRC_LEN - ETH_LEN, pad);
	memcpy(p + at - f->ext_len, f->ext, f->ext_len);
	memset(p + at + len, 0, pad);
	put_unaligned_le32(icrc(p + ETH_LEN, end - ETH_LEN), p + end);
	record(c, end + ICRC_LEN);
}

static void ext_put(struct frame *f, const void *p, unsigned len)
{
	memcpy(f->ext + f->ext_len, p, len);
	f->ext_len += len;
}

static void ext_be32(struct frame *f, uint32_t v)
{
	uint8_t b[4];

	put_be32(b, v);
	ext_put(f, b, sizeof(b));
}

static void ext_be64(struct frame *f, uint64_t v)
{
	ext_be32(f, (uint32_t)(v >> 32));
	ext_be32(f, (uint32_t)v);
}

static void ext_reth(struct frame *f, const struct wqe *w)
{
	ext_be64(f, w->raddr);
	ext_be32(f, w->rkey);
	ext_be32(f, (uint32_t)w->len);
}

/* AETH: syndrome and message number. */
static void ext_aeth(struct frame *f, uint8_t syndrome, const struct qp *responder)
{
	ext_be32(f, (uint32_t)syndrome << 24 | (responder->recv_msn & QPN_MASK));
}

static struct frame frame_of(const struct qp *from, const struct qp *to, unsigned opcode,
			     uint32_t psn)
{
	return (struct frame){
		.slid = from->h->port.lid,
		.dlid = to->h->port.lid,
		.opcode = (uint8_t)(opcode | (from->type == QPT_UC ? BTH_UC : 0)),
		.pkey = from->h->port.pkeys[from->path.pkey_index % NR_PKEYS],
		.dqpn = to->qpn,
		.psn = psn,
	};
}

/* Offset of an opcode in its group first, middle, last, last+imm, only, only+imm. */
static unsigned place(bool first, bool last, bool imm)
{
	if (first)
		return last ? 4 + imm : 0;
	return last ? 2 + imm : 1;
}

static void requests(struct pcap *c, struct qp *qp, struct qp *peer, const struct wqe *w,
		     uint64_t packets)
{
	const bool imm = w->opcode == WQE_SEND_IMM || w->opcode == WQE_WRITE_IMM;
	const bool write = w->opcode == WQE_WRITE || w->opcode == WQE_WRITE_IMM;
	const uint64_t mtu = 128ull << qp->mtu;
	struct stream s;

	stream_init(&s, qp->h, qp->pd, MPT_LOCAL_READ, w->sge, w->nr_sge);
	for (uint64_t i = 0; i < packets; i++) {
		const bool last = i + 1 == packets;
		const uint32_t len = (uint32_t)MIN(mtu, w->len - i * mtu);
		struct frame f =
			frame_of(qp, peer, (write ? BTH_WRITE : BTH_SEND) + place(!i, last, imm),
				 qp->send_psn + (uint32_t)i);

		if (!room(c, packets - i))
			return;
		if (write && i == 0)
			ext_reth(&f, w);
		if (imm && last)
			ext_be32(&f, w->imm);
		f.solicited = last && w->solicited;
		f.ack_request = last && qp->type == QPT_RC;
		if (!stream_get(&s, c->frame + payload_at(&f), len))
			memset(c->frame + payload_at(&f), 0, len);
		emit(c, &f, len);
	}
}

static void read_replies(struct pcap *c, struct qp *qp, struct qp *peer, const struct wqe *w,
			 uint64_t packets)
{
	const struct sge remote = { .addr = w->raddr, .len = w->len, .lkey = w->rkey };
	const uint64_t mtu = 128ull << qp->mtu;
	struct stream s;

	stream_init(&s, peer->h, peer->pd, MPT_REMOTE_READ, &remote, 1);
	for (uint64_t i = 0; i < packets; i++) {
		const bool last = i + 1 == packets, middle = i && !last;
		const uint32_t len = (uint32_t)MIN(mtu, w->len - i * mtu);
		const unsigned at = middle ? 1 : packets == 1 ? 3 : last ? 2 : 0;
		struct frame f =
			frame_of(peer, qp, BTH_READ_REPLY + at, qp->send_psn + (uint32_t)i);

		if (!room(c, packets - i))
			return;
		if (!middle)
			ext_aeth(&f, 0, peer);
		if (!stream_get(&s, c->frame + payload_at(&f), len))
			memset(c->frame + payload_at(&f), 0, len);
		emit(c, &f, len);
	}
}

static void atomic(struct pcap *c, struct qp *qp, struct qp *peer, const struct wqe *w)
{
	const bool cas = w->opcode == WQE_CAS || w->opcode == WQE_MASKED_CAS;
	struct frame f = frame_of(qp, peer, cas ? BTH_CAS : BTH_FAA, qp->send_psn);

	if (!room(c, 2))
		return;
	ext_be64(&f, w->raddr);
	ext_be32(&f, w->rkey);
	ext_be64(&f, w->swap_add);
	ext_be64(&f, cas ? w->compare : 0);
	emit(c, &f, 0);
	f = frame_of(peer, qp, BTH_ATOMIC_ACK, qp->send_psn);
	ext_aeth(&f, 0, peer);
	ext_be64(&f, w->old);
	if (room(c, 1))
		emit(c, &f, 0);
}

static void answer(struct pcap *c, struct qp *qp, struct qp *peer, uint32_t psn, uint8_t syndrome)
{
	struct frame f = frame_of(peer, qp, BTH_ACK, psn);

	if (!room(c, 1))
		return;
	ext_aeth(&f, syndrome, peer);
	emit(c, &f, 0);
}

/* A message of @packets packets is complete; its sequence numbers are not counted yet. */
void pcap_message(struct qp *qp, struct qp *peer, const struct wqe *w, uint64_t packets)
{
	struct pcap *c = qp->h->fabric->pcap;

	if (!c)
		return;
	switch (w->opcode) {
	case WQE_READ:
		if (room(c, 1)) {
			struct frame f = frame_of(qp, peer, BTH_READ_REQUEST, qp->send_psn);

			ext_reth(&f, w);
			emit(c, &f, 0);
		}
		read_replies(c, qp, peer, w, packets);
		return;
	case WQE_CAS:
	case WQE_FAA:
	case WQE_MASKED_CAS:
	case WQE_MASKED_FAA:
		atomic(c, qp, peer, w);
		return;
	default:
		requests(c, qp, peer, w, packets);
		if (qp->type == QPT_RC)
			answer(c, qp, peer, qp->send_psn + (uint32_t)packets - 1, 0);
	}
}

/* The responder says no: @syndrome as in an AETH. */
void pcap_nak(struct qp *qp, struct qp *peer, uint8_t syndrome)
{
	if (qp->h->fabric->pcap)
		answer(qp->h->fabric->pcap, qp, peer, qp->send_psn, syndrome);
}

void pcap_datagram(struct fabric *fabric, const struct packet *p)
{
	struct pcap *c = fabric->pcap;
	struct frame f = {
		.slid = p->slid,
		.dlid = p->dlid,
		.opcode = p->has_imm ? BTH_UD_SEND_IMM : BTH_UD_SEND_ONLY,
		.solicited = p->solicited,
		.pkey = p->pkey,
		.dqpn = p->dst_qpn,
	};

	if (!c || p->len > MAX_PACKET || !room(c, 1))
		return;
	ext_be32(&f, p->qkey);
	ext_be32(&f, p->src_qpn & QPN_MASK);
	if (p->has_imm)
		ext_be32(&f, p->imm);
	memcpy(c->frame + payload_at(&f), p->data, p->len);
	emit(c, &f, p->len);
}

void pcap_counts(const struct fabric *f, uint64_t *packets, uint64_t *lost)
{
	*packets = f->pcap ? f->pcap->packets : 0;
	*lost = f->pcap ? f->pcap->lost : 0;
}

/* False: the file cannot be written (errno). */
bool pcap_open(struct fabric *f, const char *path, uint64_t max_bytes)
{
	const uint32_t head[6] = { PCAP_MAGIC_NS, 4u << 16 | 2, 0, 0, FRAME_MAX, PCAP_ETHERNET };
	struct pcap *c = calloc(1, sizeof(*c));

	if (!c || f->pcap)
		goto out;
	c->file = fopen(path, "we");
	if (!c->file || fwrite(head, sizeof(head), 1, c->file) != 1 || fflush(c->file))
		goto out;
	c->fabric = f;
	c->bytes = sizeof(head);
	c->max_bytes = max_bytes;
	c->flush.fn = flush_fired;
	f->pcap = c;
	return true;
out:
	if (c && c->file)
		fclose(c->file);
	free(c);
	return false;
}

void pcap_close(struct fabric *f)
{
	if (!f->pcap)
		return;
	alarm_cancel(f, &f->pcap->flush);
	fclose(f->pcap->file);
	free(f->pcap);
	f->pcap = NULL;
}
