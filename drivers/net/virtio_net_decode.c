/* SPDX-License-Identifier: MIT */
/*
 * virtio network devices: what their configuration and the headers of frames mean. Pure.
 *
 * Invariants:	everything that the device wrote is checked here: lengths against buffers, counts of
 *		buffers, offsets of checksums against the frame.
 */
#include "virtio_net.h"

#include <lib/errno.h>
#include <lib/string.h>

#define HDR_LEN ((uint32_t)sizeof(struct virtio_net_hdr))

static bool has(uint64_t features, unsigned int bit)
{
	return features & BIT64(bit);
}

uint64_t vnet_choose_features(uint64_t offered)
{
	uint64_t f = offered & (BIT64(VIRTIO_NET_F_CSUM) | BIT64(VIRTIO_NET_F_GUEST_CSUM) |
				BIT64(VIRTIO_NET_F_MTU) | BIT64(VIRTIO_NET_F_MAC) |
				BIT64(VIRTIO_NET_F_GUEST_TSO4) | BIT64(VIRTIO_NET_F_GUEST_TSO6) |
				BIT64(VIRTIO_NET_F_HOST_TSO4) | BIT64(VIRTIO_NET_F_HOST_TSO6) |
				BIT64(VIRTIO_NET_F_MRG_RXBUF) | BIT64(VIRTIO_NET_F_STATUS) |
				BIT64(VIRTIO_NET_F_CTRL_VQ) | BIT64(VIRTIO_NET_F_CTRL_RX) |
				BIT64(VIRTIO_NET_F_MQ));

	/* Section 5.1.3.1: which features need which. */
	if (!has(f, VIRTIO_NET_F_CSUM))
		f &= ~(BIT64(VIRTIO_NET_F_HOST_TSO4) | BIT64(VIRTIO_NET_F_HOST_TSO6));
	/* Long frames are for chains of small buffers only. */
	if (!has(f, VIRTIO_NET_F_GUEST_CSUM) || !has(f, VIRTIO_NET_F_MRG_RXBUF))
		f &= ~(BIT64(VIRTIO_NET_F_GUEST_TSO4) | BIT64(VIRTIO_NET_F_GUEST_TSO6));
	if (!has(f, VIRTIO_NET_F_CTRL_VQ))
		f &= ~(BIT64(VIRTIO_NET_F_CTRL_RX) | BIT64(VIRTIO_NET_F_MQ));
	return f;
}

int vnet_decode_config(const struct virtio_net_config *cfg, uint64_t features, unsigned int nr_cpus,
		       struct vnet_setup *out)
{
	struct vnet_setup s = { .mtu = NET_MTU_DEFAULT, .max_pairs = 1 };

	if (has(features, VIRTIO_NET_F_MAC)) {
		memcpy(s.mac, cfg->mac, sizeof(s.mac));
		s.has_mac = true;
		if (!net_addr_is_valid(s.mac))
			return -EINVAL;
	}
	if (has(features, VIRTIO_NET_F_MTU)) {
		const uint32_t mtu = le16_to_cpu(cfg->mtu);

		if (mtu < NET_MTU_MIN)
			return -EINVAL;
		/* One buffer has to hold a frame unless buffers can be merged. */
		s.mtu = MIN(mtu, has(features, VIRTIO_NET_F_MRG_RXBUF)
					 ? 9000u
					 : NET_RXBUF_SIZE - HDR_LEN - NET_HEADER_LEN);
	}
	if (has(features, VIRTIO_NET_F_MQ)) {
		s.max_pairs = le16_to_cpu(cfg->max_pairs);
		if (!s.max_pairs || s.max_pairs > 0x8000)
			return -EINVAL;
	}
	s.pairs = MAX(1u, MIN(MIN(s.max_pairs, nr_cpus), VNET_MAX_PAIRS));
	*out = s;
	return 0;
}

/* Does the header ask for something that was agreed on, and does it fit the frame? */
static bool header_is_good(const struct virtio_net_hdr *hdr, uint32_t frame_len, uint64_t features,
			   uint32_t *flags)
{
	const uint8_t gso = hdr->gso_type & (uint8_t)~VIRTIO_NET_GSO_ECN;
	const uint32_t start = le16_to_cpu(hdr->csum_start);
	const uint32_t offset = le16_to_cpu(hdr->csum_offset);

	*flags = 0;
	if (frame_len < NET_HEADER_LEN || frame_len > VNET_MAX_FRAME)
		return false;
	if (hdr->gso_type != VIRTIO_NET_GSO_NONE &&
	    !(gso == VIRTIO_NET_GSO_TCPV4 && has(features, VIRTIO_NET_F_GUEST_TSO4)) &&
	    !(gso == VIRTIO_NET_GSO_TCPV6 && has(features, VIRTIO_NET_F_GUEST_TSO6)))
		return false;
	/* A checksum that was not agreed on is the stack's to judge. */
	if (!has(features, VIRTIO_NET_F_GUEST_CSUM))
		return true;
	if (hdr->flags & VIRTIO_NET_HDR_NEEDS_CSUM) {
		if (start < NET_HEADER_LEN || start + offset + 2 > frame_len)
			return false;
		*flags = NET_RX_CSUM_OK;
	} else if (hdr->flags & VIRTIO_NET_HDR_DATA_VALID) {
		*flags = NET_RX_CSUM_OK;
	}
	return true;
}

/* The first buffer of a frame: how many are there? 0: the device broke its contract. */
static unsigned int begin(struct vnet_assembly *a, struct net_rxbuf *buf, uint32_t len,
			  uint64_t features)
{
	struct virtio_net_hdr hdr;
	unsigned int nr;

	if (len < HDR_LEN)
		return 0;
	memcpy(&hdr, buf->base, sizeof(hdr));
	nr = has(features, VIRTIO_NET_F_MRG_RXBUF) ? le16_to_cpu(hdr.num_buffers) : 1;
	if (!nr || nr > VNET_MAX_BUFFERS)
		return 0;
	buf->data = buf->base + HDR_LEN;
	buf->len = len - HDR_LEN;
	buf->frame_len = buf->len;
	a->first = buf;
	a->bad = false;
	return nr;
}

void vnet_rx_abort(struct vnet_assembly *a)
{
	net_frame_free(a->first);
	*a = (struct vnet_assembly){ 0 };
}

enum vnet_rx_result vnet_rx_add(struct vnet_assembly *a, struct net_rxbuf *buf, uint32_t len,
				uint64_t features, struct net_rxbuf **frame)
{
	struct virtio_net_hdr hdr;
	bool good;

	buf->next = NULL;
	if (len > NET_RXBUF_SIZE)
		goto out_broken;
	if (!a->missing) {
		a->missing = begin(a, buf, len, features);
		if (!a->missing)
			goto out_broken;
	} else {
		if (!len)
			goto out_broken;
		buf->data = buf->base;
		buf->len = len;
		a->last->next = buf;
		/* At most VNET_MAX_BUFFERS of them: no overflow. */
		a->first->frame_len += len;
	}
	a->last = buf;
	if (--a->missing)
		return VNET_RX_MORE;

	/* A copy: the memory was the device's, and it is read once. */
	memcpy(&hdr, a->first->base, sizeof(hdr));
	good = header_is_good(&hdr, a->first->frame_len, features, &a->first->flags);
	if (!good) {
		vnet_rx_abort(a);
		return VNET_RX_DROPPED;
	}
	*frame = a->first;
	*a = (struct vnet_assembly){ 0 };
	return VNET_RX_FRAME;

out_broken:
	net_frame_free(buf);
	vnet_rx_abort(a);
	return VNET_RX_BROKEN;
}

void vnet_encode_tx(const struct net_tx *tx, struct virtio_net_hdr *hdr)
{
	memset(hdr, 0, sizeof(*hdr));
	if (tx->flags & NET_TX_CSUM) {
		hdr->flags = VIRTIO_NET_HDR_NEEDS_CSUM;
		hdr->csum_start = cpu_to_le16(tx->csum_start);
		hdr->csum_offset = cpu_to_le16(tx->csum_offset);
	}
	if (tx->flags & (NET_TX_TSO4 | NET_TX_TSO6)) {
		hdr->gso_type =
			tx->flags & NET_TX_TSO4 ? VIRTIO_NET_GSO_TCPV4 : VIRTIO_NET_GSO_TCPV6;
		hdr->hdr_len = cpu_to_le16(tx->hdr_len);
		hdr->gso_size = cpu_to_le16(tx->mss);
	}
}
