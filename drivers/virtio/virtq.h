/* SPDX-License-Identifier: MIT */
/* A split virtqueue: what the device sees, and what only we know. */
#pragma once

#include <drivers/virtio.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/list.h>

enum virtq_desc_flags {
	VIRTQ_DESC_NEXT = 1,
	VIRTQ_DESC_WRITE = 2,
	VIRTQ_DESC_INDIRECT = 4,
};

#define VIRTQ_USED_NO_NOTIFY     1
#define VIRTQ_AVAIL_NO_INTERRUPT 1
#define VIRTQ_MAX_SIZE           32768u

struct virtq_desc {
	le64_t addr;
	le32_t len;
	le16_t flags;
	le16_t next;
};
static_assert(sizeof(struct virtq_desc) == 16, "virtq_desc is device layout");

struct virtq_avail {
	le16_t flags;
	le16_t idx;
	le16_t ring[];
};

struct virtq_used_elem {
	le32_t id;
	le32_t len;
};

struct virtq_used {
	le16_t flags;
	le16_t idx;
	struct virtq_used_elem ring[];
};

/* Per descriptor, in private memory: the device cannot change it. */
struct virtq_shadow {
	void *token;      /* of the chain that begins here; NULL: none does */
	uint32_t in_len;  /* bytes that the device may write */
	uint16_t next;    /* in the chain, or on the free list */
	uint16_t nr_desc; /* of the chain */
};

struct virtq {
	struct virtq_desc *desc;
	struct virtq_avail *avail;
	const volatile struct virtq_used *used;
	struct virtq_shadow *shadow;
	struct virtq_desc *indirect; /* max_segs for each descriptor; NULL: not in use */
	paddr_t indirect_paddr;
	uint16_t size; /* const, a power of two */
	uint16_t max_segs;
	uint16_t free_head;
	uint16_t nr_free;
	uint16_t avail_idx;
	uint16_t last_used;
	uint16_t nr_busy;
	uint16_t detach_at;
	bool kick_needed;
	bool broken;

	/* The transport's. */
	struct virtio_device *vd;
	unsigned int index;
	void (*callback)(struct virtq *vq, void *arg);
	void *arg;
	void (*notify)(struct virtq *vq);
	void (*fence)(struct virtq *vq, const char *why);
	volatile void __iomem *doorbell;
	void *ring_mem;
	size_t ring_len;
	size_t indirect_len;
	paddr_t desc_paddr, avail_paddr, used_paddr;
	struct list_head vector_link; /* queues that share an interrupt */
};

/* Bytes of ring memory for @size entries, and where its parts begin. */
size_t virtq_ring_len(unsigned int size, size_t *avail_off, size_t *used_off);
/* Lay the queue out over zeroed @mem.  @shadow has @size entries. */
void virtq_init(struct virtq *vq, unsigned int size, unsigned int max_segs, void *mem,
		struct virtq_shadow *shadow);
