/* SPDX-License-Identifier: MIT */
/*
 * Network devices: Ethernet cards behind one table of operations, and a registry.
 *
 * Flow:	a driver fills a struct netdev and calls netdev_register(). One user claims it by
 *		netdev_open(). From then on the device interrupts the user (wake), and the user's
 *		thread calls netdev_poll(), which hands received frames and finished transmits to
 *		the user's functions, until it returns less than the budget; then netdev_arm().
 * Context:	wake() and link_changed() run in interrupt context. netdev_poll(), netdev_arm() and
 *		netdev_transmit() do not sleep; of one queue, one thread at a time calls
 *		netdev_poll(). netdev_transmit() may be called from several threads at once.
 *		netdev_set_filter(), netdev_open() and netdev_close() sleep.
 * Invariants:	a received frame is a chain of buffers of the device's pool. It belongs to the user
 *		until net_frame_free(), in any order and context. While the user holds all of them,
 *		the device drops what arrives: memory is bounded by the pool.
 *		The segments of a transmitted frame belong to the device until sent().
 * Locking:	a driver's own; sent() and received() are called without its locks.
 * Failure:	a device that breaks its contract is fenced by its driver: transmits answer -EIO,
 *		nothing arrives any more, link_up becomes false, and every token that was with it
 *		comes back by sent() with -EIO at the next netdev_poll().
 * See:		docs/drivers/net.md
 */
#pragma once

#include <kernel/spinlock.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

#define NETDEV_NAME_LEN   16
#define NET_ADDR_LEN      6u
#define NET_HEADER_LEN    14u /* destination, source, type */
#define NET_MTU_DEFAULT   1500u
#define NET_MTU_MIN       1280u /* IPv6 wants that much */
#define NET_RXBUF_SIZE    2048u
#define NET_RXBUF_PRIVATE 64u
#define NET_TX_MAX_SEGS   20u /* of one frame, beside the driver's own */

/* The work that a device does for its user; bits of netdev.features. */
enum netdev_feature {
	NETDEV_TX_CSUM = 1u << 0, /* completes a checksum that covers csum_start to the end */
	NETDEV_TX_TSO4 = 1u << 1, /* cuts a long TCP segment over IPv4 */
	NETDEV_TX_TSO6 = 1u << 2,
	NETDEV_RX_CSUM = 1u << 3, /* says of frames that their checksum is right */
};

/* Bits of net_rxbuf.flags, in the first buffer of a frame. */
enum net_rx_flag {
	NET_RX_CSUM_OK = 1u << 0, /* the TCP or UDP checksum is right, or has not been made yet */
};

/* One buffer of a pool. */
struct net_rxbuf {
	struct net_rxbuf *next; /* the rest of the frame; the pool's free list */
	struct net_pool *pool;  /* const */
	uint8_t *base;          /* const: NET_RXBUF_SIZE bytes, in the direct map */
	paddr_t paddr;          /* const: of base */
	uint8_t *data;          /* of the frame, inside of the buffer */
	uint32_t len;           /* bytes at data */
	uint32_t frame_len;     /* in the first buffer: bytes of all */
	uint32_t flags;         /* in the first buffer: enum net_rx_flag */
	uint32_t reserved;
	uint8_t private[NET_RXBUF_PRIVATE] __aligned(16); /* the user's, while it has the buffer */
};

/* The receive buffers of one device: as many as there are, and no more. */
struct net_pool {
	struct spinlock lock; /* RANK_LEAF */
	struct net_rxbuf *free __guarded_by(&lock);
	unsigned int nr_free __guarded_by(&lock);
	unsigned int nr;        /* const */
	struct net_rxbuf *bufs; /* const: all of them */
	void **chunks;          /* const: the memory behind them */
	unsigned int nr_chunks;
};

/* At least @nr buffers. -ENOMEM. */
int __must_check net_pool_init(struct net_pool *pool, unsigned int nr);
/* Every buffer is back. */
void net_pool_destroy(struct net_pool *pool);
/* NULL: all are in use. */
struct net_rxbuf *net_rxbuf_get(struct net_pool *pool);
/* Give the buffers of a whole frame back; NULL is allowed. */
void net_frame_free(struct net_rxbuf *frame);
/* For tests. */
unsigned int net_pool_free(struct net_pool *pool);

struct net_seg {
	const void *buf; /* in the direct map */
	uint32_t len;
};

/* Bits of net_tx.flags. */
enum net_tx_flag {
	/* The sum over the pseudo header stands at csum_start + csum_offset; add the rest. */
	NET_TX_CSUM = 1u << 0,
	NET_TX_TSO4 = 1u << 1, /* with NET_TX_CSUM; hdr_len and mss count */
	NET_TX_TSO6 = 1u << 2,
};

/* A frame to transmit: the structure is the caller's and read before the call returns. */
struct net_tx {
	const struct net_seg *segs;
	unsigned int nr_segs; /* at most NET_TX_MAX_SEGS */
	uint32_t flags;       /* enum net_tx_flag */
	uint16_t csum_start;  /* bytes from the beginning of the frame */
	uint16_t csum_offset; /* from csum_start */
	uint16_t hdr_len;     /* bytes of all headers */
	uint16_t mss;         /* bytes of data in each segment */
	void *token;          /* not NULL; comes back by sent() */
};

/* The frames that the device lets in beside broadcasts and those to its own address. */
struct net_filter {
	bool promiscuous;
	bool all_multicast;
	unsigned int nr_multicast;
	const uint8_t (*multicast)[NET_ADDR_LEN];
};

struct netdev_stats {
	uint64_t rx_frames, rx_bytes;
	uint64_t rx_dropped; /* frames that were not for us to use: malformed, no buffer */
	uint64_t tx_frames, tx_bytes;
	uint64_t tx_full; /* transmits refused because the ring was full */
};

struct netdev;

struct netdev_user {
	/* Look at @queue: poll it. Interrupt context. */
	void (*wake)(struct netdev *nd, unsigned int queue);
	/* netdev.link_up may have changed. Interrupt context. */
	void (*link_changed)(struct netdev *nd);
	/* By netdev_poll(): a frame, which is the user's now. */
	void (*received)(struct netdev *nd, struct net_rxbuf *frame);
	/* By netdev_poll(): the device has done with @token; 0 or -EIO. */
	void (*sent)(struct netdev *nd, void *token, int status);
};

struct netdev_ops {
	int (*open)(struct netdev *nd);
	void (*close)(struct netdev *nd); /* the device is quiet on return; tokens came back */
	int (*transmit)(struct netdev *nd, unsigned int queue, const struct net_tx *tx);
	void (*kick)(struct netdev *nd, unsigned int queue);
	unsigned int (*poll)(struct netdev *nd, unsigned int queue, unsigned int budget);
	bool (*arm)(struct netdev *nd, unsigned int queue);
	int (*set_filter)(struct netdev *nd, const struct net_filter *filter);
	void (*stats)(struct netdev *nd, struct netdev_stats *out);
};

struct netdev {
	const struct netdev_ops *ops;   /* const */
	void *driver;                   /* const */
	char name[NETDEV_NAME_LEN];     /* const, unique: eth0, eth1, ... by registration */
	const char *driver_name;        /* const */
	uint8_t addr[NET_ADDR_LEN];     /* const */
	uint32_t mtu;                   /* const: bytes behind the header */
	uint32_t features;              /* const: enum netdev_feature */
	unsigned int nr_queues;         /* const: each transmits and receives */
	bool link_up;                   /* atomic */
	const struct netdev_user *user; /* NULL: nobody has it open; const in between */
	void *user_data;                /* the user's */
	struct list_head link;          /* the registry's */
};

/* Name @nd and make it findable. -EINVAL: its fields make no sense. */
int __must_check netdev_register(struct netdev *nd);
/* The first device, or the one behind @prev; NULL: no more. */
struct netdev *netdev_next(struct netdev *prev);
/* May a card have this address? Not all zeros, no multicast address. */
bool net_addr_is_valid(const uint8_t *addr);

/* Claim @nd, let it receive. -EBUSY: it has a user; others: the driver's. */
int __must_check netdev_open(struct netdev *nd, const struct netdev_user *user, void *user_data);
/* For tests. */
void netdev_close(struct netdev *nd);
/*
 * Give a frame to the device; it may wait for netdev_kick() with it. 0; -ENOSPC: the
 * ring is full, poll first; -EINVAL: too many segments or a flag that is none of the features;
 * -EIO: fenced.
 */
int __must_check netdev_transmit(struct netdev *nd, unsigned int queue, const struct net_tx *tx);
/* Tell the device about frames that it was given. */
void netdev_kick(struct netdev *nd, unsigned int queue);
/* Serve at most @budget received buffers and all finished transmits; how many? */
unsigned int netdev_poll(struct netdev *nd, unsigned int queue, unsigned int budget);
/* Interrupts on; true: something came before. */
bool netdev_arm(struct netdev *nd, unsigned int queue);
/* For tests. -EIO; -EOPNOTSUPP: the device cannot. */
int __must_check netdev_set_filter(struct netdev *nd, const struct net_filter *filter);
/* For tests. */
void netdev_stats(struct netdev *nd, struct netdev_stats *out);
