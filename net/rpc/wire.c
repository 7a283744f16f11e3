/* SPDX-License-Identifier: MIT */
/*
 * RPC wire format: encode, and decode with every check that needs no state.
 *
 * Context:	pure; linked into the kernel, the host tests and the fuzzer.
 * Invariants:	results are written only on success.
 * See:		docs/protocol/rpc.md
 */
#include <net/rpc_wire.h>

#include <lib/errno.h>
#include <lib/string.h>
#include <net/rpc.h>

#define RPC_MAX_ERRNO 4095

uint32_t rpc_imm_encode(const struct rpc_imm *imm)
{
	return (imm->reply ? RPC_IMM_REPLY : 0) |
	       (imm->slot & RPC_IMM_SLOT_MASK) << RPC_IMM_SLOT_SHIFT |
	       (imm->len & RPC_IMM_LEN_MASK);
}

int rpc_imm_decode(uint32_t raw, uint32_t nr_slots, uint32_t req_size, uint32_t rep_size,
		   struct rpc_imm *imm)
{
	const bool reply = raw & RPC_IMM_REPLY;
	const uint32_t slot = raw >> RPC_IMM_SLOT_SHIFT & RPC_IMM_SLOT_MASK;
	const uint32_t len = raw & RPC_IMM_LEN_MASK;

	if (slot >= nr_slots)
		return -EPROTO;
	if (len < sizeof(struct rpc_hdr_wire) || len > (reply ? rep_size : req_size))
		return -EPROTO;
	imm->reply = reply;
	imm->slot = slot;
	imm->len = len;
	return 0;
}

void rpc_hdr_encode(const struct rpc_hdr *hdr, struct rpc_hdr_wire *out)
{
	out->version = RPC_VERSION;
	out->cls = hdr->cls;
	out->opcode = cpu_to_le16(hdr->opcode);
	out->body_len = cpu_to_le32(hdr->body_len);
	out->bulk_len = cpu_to_le32(hdr->bulk_len);
	out->src_node = cpu_to_le32(hdr->src_node);
	out->req_id = cpu_to_le64(hdr->req_id);
	out->incarn = cpu_to_le32(hdr->incarn);
	out->dst_incarn = cpu_to_le32(hdr->dst_incarn);
	out->epoch = cpu_to_le32(hdr->epoch);
	out->status = cpu_to_le32((uint32_t)hdr->status);
	out->timeout_ms = cpu_to_le32(hdr->timeout_ms);
	out->flags = cpu_to_le32(hdr->flags);
}

int rpc_hdr_decode(const struct rpc_hdr_wire *w, uint32_t len, bool reply, struct rpc_hdr *hdr)
{
	const uint32_t body_len = le32_to_cpu(w->body_len);
	const uint32_t bulk_len = le32_to_cpu(w->bulk_len);
	const int32_t status = (int32_t)le32_to_cpu(w->status);
	const uint64_t req_id = le64_to_cpu(w->req_id);

	if (len < sizeof(*w))
		return -EPROTO;
	if (w->version != RPC_VERSION || w->cls >= RPC_NR_MSG_CLASSES)
		return -EPROTO;
	if ((uint64_t)sizeof(*w) + body_len + bulk_len != len)
		return -EPROTO;
	if (status > 0 || status < -RPC_MAX_ERRNO || req_id == 0)
		return -EPROTO;
	if (reply ? bulk_len != 0 : status != 0)
		return -EPROTO;

	hdr->cls = w->cls;
	hdr->opcode = le16_to_cpu(w->opcode);
	hdr->body_len = body_len;
	hdr->bulk_len = bulk_len;
	hdr->src_node = le32_to_cpu(w->src_node);
	hdr->req_id = req_id;
	hdr->incarn = le32_to_cpu(w->incarn);
	hdr->dst_incarn = le32_to_cpu(w->dst_incarn);
	hdr->epoch = le32_to_cpu(w->epoch);
	hdr->status = status;
	hdr->timeout_ms = le32_to_cpu(w->timeout_ms);
	hdr->flags = le32_to_cpu(w->flags) & (reply ? RPC_HDR_F_REFUSED : RPC_HDR_F_INSIST);
	return 0;
}

void rpc_conn_encode(const struct rpc_conn_info *info, struct rpc_conn_wire *out)
{
	memset(out, 0, sizeof(*out));
	out->magic = cpu_to_le32(RPC_CONN_MAGIC);
	out->version = RPC_CONN_VERSION;
	out->cls = info->cls;
	out->role = info->role;
	out->flags = info->flags;
	out->node = cpu_to_le32(info->node);
	out->incarn = cpu_to_le32(info->incarn);
	out->ring_addr = cpu_to_le64(info->ring_addr);
	out->ring_rkey = cpu_to_le32(info->ring_rkey);
	out->nr_slots = cpu_to_le16(info->nr_slots);
	out->req_slot_size = cpu_to_le32(info->req_slot_size);
	out->rep_slot_size = cpu_to_le32(info->rep_slot_size);
	out->epoch = cpu_to_le32(info->epoch);
	out->dgram_qpn = cpu_to_le32(info->dgram_qpn);
	out->dgram_qkey = cpu_to_le32(info->dgram_qkey);
	out->dgram_mtu = info->dgram_mtu;
}

static int conn_check(const struct rpc_conn_info *info)
{
	const uint64_t ring_len =
		(uint64_t)info->nr_slots * ((uint64_t)info->req_slot_size + info->rep_slot_size);

	if (info->cls >= RPC_NR_CLASSES || (info->flags & ~RPC_CONN_F_ALL))
		return -EPROTO;
	if (info->role < NODE_ROLE_PROCESSOR || info->role > NODE_ROLE_STORAGE)
		return -EPROTO;
	if (info->node == 0 || info->node > 0xffff || info->incarn == 0)
		return -EPROTO;
	if (info->nr_slots == 0 || info->nr_slots > RPC_IMM_SLOT_MASK + 1)
		return -EPROTO;
	if (info->req_slot_size < sizeof(struct rpc_hdr_wire) ||
	    info->req_slot_size > RPC_IMM_LEN_MASK ||
	    info->rep_slot_size < sizeof(struct rpc_hdr_wire) ||
	    info->rep_slot_size > RPC_IMM_LEN_MASK)
		return -EPROTO;
	if (info->ring_addr > UINT64_MAX - ring_len)
		return -EPROTO;
	/*
	 * 0 and 1 are the management queue pairs; a key with the top bit set is not for us to
	 * use.
	 */
	if (info->dgram_qpn < 2 || info->dgram_qpn > 0xffffff || info->dgram_qkey >> 31)
		return -EPROTO;
	if (info->dgram_mtu < RDMA_MTU_256 || info->dgram_mtu > RDMA_MTU_4096)
		return -EPROTO;
	return 0;
}

int rpc_conn_decode(const void *buf, size_t len, struct rpc_conn_info *info)
{
	struct rpc_conn_wire w;
	struct rpc_conn_info r;
	int err;

	/* The CM pads private data to its full length: more than we need is no error. */
	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (le32_to_cpu(w.magic) != RPC_CONN_MAGIC)
		return -EPROTO;
	if (w.version != RPC_CONN_VERSION)
		return -EPROTONOSUPPORT;

	r.cls = w.cls;
	r.role = w.role;
	r.flags = w.flags;
	r.node = le32_to_cpu(w.node);
	r.incarn = le32_to_cpu(w.incarn);
	r.ring_addr = le64_to_cpu(w.ring_addr);
	r.ring_rkey = le32_to_cpu(w.ring_rkey);
	r.nr_slots = le16_to_cpu(w.nr_slots);
	r.req_slot_size = le32_to_cpu(w.req_slot_size);
	r.rep_slot_size = le32_to_cpu(w.rep_slot_size);
	r.epoch = le32_to_cpu(w.epoch);
	r.dgram_qpn = le32_to_cpu(w.dgram_qpn);
	r.dgram_qkey = le32_to_cpu(w.dgram_qkey);
	r.dgram_mtu = w.dgram_mtu;

	err = conn_check(&r);
	if (err)
		return err;
	*info = r;
	return 0;
}

void rpc_dgram_encode(const struct rpc_dgram_hdr *hdr, struct rpc_dgram_wire *out)
{
	*out = (struct rpc_dgram_wire){
		.magic = cpu_to_le32(RPC_DGRAM_MAGIC),
		.version = RPC_DGRAM_VERSION,
		.kind = hdr->kind,
		.opcode = cpu_to_le16(hdr->opcode),
		.src_node = cpu_to_le32(hdr->src_node),
		.body_len = cpu_to_le16(hdr->body_len),
		.attempt = cpu_to_le16(hdr->attempt),
		.req_id = cpu_to_le64(hdr->req_id),
		.incarn = cpu_to_le32(hdr->incarn),
		.dst_incarn = cpu_to_le32(hdr->dst_incarn),
		.epoch = cpu_to_le32(hdr->epoch),
		.status = cpu_to_le32((uint32_t)hdr->status),
		.timeout_ms = cpu_to_le32(hdr->timeout_ms),
	};
}

int rpc_dgram_decode(const void *buf, size_t len, struct rpc_dgram_hdr *hdr)
{
	struct rpc_dgram_wire w;
	struct rpc_dgram_hdr h;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (le32_to_cpu(w.magic) != RPC_DGRAM_MAGIC || w.version != RPC_DGRAM_VERSION)
		return -EPROTO;
	h.kind = w.kind;
	h.opcode = le16_to_cpu(w.opcode);
	h.body_len = le16_to_cpu(w.body_len);
	h.attempt = le16_to_cpu(w.attempt);
	h.src_node = le32_to_cpu(w.src_node);
	h.req_id = le64_to_cpu(w.req_id);
	h.incarn = le32_to_cpu(w.incarn);
	h.dst_incarn = le32_to_cpu(w.dst_incarn);
	h.epoch = le32_to_cpu(w.epoch);
	h.status = (int32_t)le32_to_cpu(w.status);
	h.timeout_ms = le32_to_cpu(w.timeout_ms);
	if (sizeof(w) + h.body_len != len)
		return -EMSGSIZE;
	if (h.kind != RPC_DGRAM_REQUEST && h.kind != RPC_DGRAM_REPLY)
		return -EPROTO;
	if (h.status > 0 || h.status < -RPC_MAX_ERRNO || h.req_id == 0)
		return -EPROTO;
	if (h.kind == RPC_DGRAM_REQUEST && h.status != 0)
		return -EPROTO;
	*hdr = h;
	return 0;
}

void rpc_rej_encode(const struct rpc_rej *rej, struct rpc_rej_wire *out)
{
	memset(out, 0, sizeof(*out));
	out->magic = cpu_to_le32(RPC_CONN_MAGIC);
	out->version = RPC_VERSION;
	out->code = rej->code;
	out->node = cpu_to_le32(rej->node);
	out->incarn = cpu_to_le32(rej->incarn);
	memcpy(out->challenge, rej->challenge, sizeof(out->challenge));
}

int rpc_rej_decode(const void *buf, size_t len, struct rpc_rej *rej)
{
	struct rpc_rej_wire w;

	if (len < sizeof(w))
		return -EMSGSIZE;
	memcpy(&w, buf, sizeof(w));
	if (le32_to_cpu(w.magic) != RPC_CONN_MAGIC)
		return -EPROTO;
	if (w.version != RPC_VERSION)
		return -EPROTONOSUPPORT;
	if (w.code < RPC_REJ_CROSSED || w.code > RPC_REJ_KEY)
		return -EPROTO;
	rej->code = w.code;
	rej->node = le32_to_cpu(w.node);
	rej->incarn = le32_to_cpu(w.incarn);
	memcpy(rej->challenge, w.challenge, sizeof(rej->challenge));
	return 0;
}
