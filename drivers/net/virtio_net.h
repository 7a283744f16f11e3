/* SPDX-License-Identifier: MIT */
/*
 * virtio network devices: layout (VIRTIO 1.1, section 5.1), the pure parts, and what the files of
 * the driver share.
 */
#pragma once

#include <drivers/netdev.h>
#include <drivers/virtio.h>
#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>

enum virtio_net_feature {
	VIRTIO_NET_F_CSUM = 0,
	VIRTIO_NET_F_GUEST_CSUM = 1,
	VIRTIO_NET_F_MTU = 3,
	VIRTIO_NET_F_MAC = 5,
	VIRTIO_NET_F_GUEST_TSO4 = 7,
	VIRTIO_NET_F_GUEST_TSO6 = 8,
	VIRTIO_NET_F_HOST_TSO4 = 11,
	VIRTIO_NET_F_HOST_TSO6 = 12,
	VIRTIO_NET_F_MRG_RXBUF = 15,
	VIRTIO_NET_F_STATUS = 16,
	VIRTIO_NET_F_CTRL_VQ = 17,
	VIRTIO_NET_F_CTRL_RX = 18,
	VIRTIO_NET_F_MQ = 22,
};

struct virtio_net_config {
	uint8_t mac[NET_ADDR_LEN];
	le16_t status;
	le16_t max_pairs;
	le16_t mtu;
};
static_assert(sizeof(struct virtio_net_config) == 12, "virtio_net_config is device layout");

#define VIRTIO_NET_S_LINK_UP 1u

struct virtio_net_hdr {
	uint8_t flags;    /* enum virtio_net_hdr_flag */
	uint8_t gso_type; /* enum virtio_net_gso */
	le16_t hdr_len;
	le16_t gso_size;
	le16_t csum_start;
	le16_t csum_offset;
	le16_t num_buffers; /* of a received frame */
};
static_assert(sizeof(struct virtio_net_hdr) == 12, "virtio_net_hdr is device layout");

enum virtio_net_hdr_flag {
	VIRTIO_NET_HDR_NEEDS_CSUM = 1,
	VIRTIO_NET_HDR_DATA_VALID = 2,
};

enum virtio_net_gso {
	VIRTIO_NET_GSO_NONE = 0,
	VIRTIO_NET_GSO_TCPV4 = 1,
	VIRTIO_NET_GSO_TCPV6 = 4,
	VIRTIO_NET_GSO_ECN = 0x80,
};

/* Commands of the control queue. */
enum virtio_net_ctrl {
	VIRTIO_NET_CTRL_RX = 0,
	VIRTIO_NET_CTRL_RX_PROMISC = 0,
	VIRTIO_NET_CTRL_RX_ALLMULTI = 1,
	VIRTIO_NET_CTRL_MAC = 1,
	VIRTIO_NET_CTRL_MAC_TABLE_SET = 0,
	VIRTIO_NET_CTRL_MQ = 4,
	VIRTIO_NET_CTRL_MQ_PAIRS_SET = 0,
};
#define VIRTIO_NET_CTRL_OK 0u

/* A frame of 64 KiB in buffers of the pool, with something to spare. */
#define VNET_MAX_FRAME   (65535u + NET_HEADER_LEN)
#define VNET_MAX_BUFFERS 34u
#define VNET_MAX_PAIRS   8u
#define VNET_MAX_MACS    64u /* in the device's table; more are let in by "all multicast" */

/* The driver's choice from a device's offer. */
struct vnet_setup {
	uint8_t mac[NET_ADDR_LEN];
	bool has_mac; /* false: the driver has to make one up */
	uint32_t mtu;
	unsigned int max_pairs; /* that the device has: places the control queue */
	unsigned int pairs;     /* in use */
};

/* Features that make sense together, of those @offered. */
uint64_t vnet_choose_features(uint64_t offered);
/* -EINVAL: sizes or counts that no device can mean. */
int __must_check vnet_decode_config(const struct virtio_net_config *cfg, uint64_t features,
				    unsigned int nr_cpus, struct vnet_setup *out);

/* A received frame that is not complete yet. */
struct vnet_assembly {
	struct net_rxbuf *first, *last;
	unsigned int missing; /* buffers still to come */
	bool bad;             /* complete it, then drop it */
};

enum vnet_rx_result {
	VNET_RX_MORE,    /* the frame goes on in the next buffer */
	VNET_RX_FRAME,   /* *frame is a frame */
	VNET_RX_DROPPED, /* there was one, of no use */
	VNET_RX_BROKEN,  /* the device broke its contract */
};
/*
 * The device has written @len bytes into @buf, which belongs to the assembly from here on. With
 * VNET_RX_FRAME *@frame is the caller's.
 */
enum vnet_rx_result vnet_rx_add(struct vnet_assembly *a, struct net_rxbuf *buf, uint32_t len,
				uint64_t features, struct net_rxbuf **frame);
/* Give up a frame that will not be completed. */
void vnet_rx_abort(struct vnet_assembly *a);
/* The header of a frame to transmit. */
void vnet_encode_tx(const struct net_tx *tx, struct virtio_net_hdr *hdr);

/* A transmit that is with the device. */
struct vnet_tx_slot {
	struct vnet_tx_slot *next;
	struct virtio_net_hdr *hdr; /* const: in DMA memory */
	paddr_t paddr;              /* const: of hdr */
	void *token;
};

/* One pair of queues. */
struct vnet_queue {
	struct netdev *nd;     /* const */
	unsigned int index;    /* const */
	uint64_t features;     /* const */
	struct net_pool *pool; /* const */
	/* The device broke its contract: reset it. */
	void (*fence)(struct vnet_queue *q, const char *why); /* const */
	struct virtq *rx;                                     /* the polling thread */
	struct vnet_assembly partial;                         /* the polling thread */
	bool rx_dead;                                         /* the polling thread */

	struct spinlock lock; /* RANK_SPIN_QUEUE */
	struct virtq *tx __guarded_by(&lock);
	struct vnet_tx_slot *free __guarded_by(&lock);
	bool tx_full __guarded_by(&lock); /* a caller waits for room: its interrupt is wanted */
	struct vnet_tx_slot *slots;       /* const */
	void *hdrs;                       /* const: DMA memory */
	size_t hdrs_len;
	struct netdev_stats stats; /* each counter by whoever holds its queue; read without */
};

/* virtio_net_queue.c */
int __must_check vnet_queue_init(struct vnet_queue *q, struct virtq *rx, struct virtq *tx);
void vnet_queue_free(struct vnet_queue *q);
/* Give the device all buffers that it has room for. The polling thread, or nobody polls yet. */
void vnet_rx_fill(struct vnet_queue *q);
int __must_check vnet_queue_transmit(struct vnet_queue *q, const struct net_tx *tx);
void vnet_queue_kick(struct vnet_queue *q);
unsigned int vnet_queue_poll(struct vnet_queue *q, unsigned int budget);
bool vnet_queue_arm(struct vnet_queue *q);
/* The device is fenced or stopped: everything comes back. */
void vnet_queue_bury(struct vnet_queue *q);
