/* SPDX-License-Identifier: MIT */
/*
 * virtio 1.x devices on PCI, and their split virtqueues.
 *
 * Flow:	a driver's PCI probe calls virtio_pci_open() (reset, features), creates its queues,
 *		calls virtio_start(), and from then on adds chains, kicks, and takes back what the
 *		device has used.
 * Context:	open, queue creation, start and close: threads.  virtq_* and virtio_fence(): any.
 *		Callbacks run in interrupt context.
 * Locking:	a queue's user serialises virtq_add(), virtq_get() and friends by a lock of its own.
 * Invariants:	the device is hostile: ids, lengths and indexes that it writes are checked against
 *		what we know from private memory; a device that breaks the rules is fenced, and its
 *		queues answer -EIO from then on.
 * See:		docs/drivers/virtio.md; Virtual I/O Device (VIRTIO) 1.1, sections 2.6 and 4.1
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct pci_device;
struct virtio_device;
struct virtq;

#define VIRTIO_PCI_VENDOR 0x1af4

/* Features that are not one device type's; numbers are bits. */
enum virtio_feature {
	VIRTIO_F_INDIRECT_DESC = 28,
	VIRTIO_F_VERSION_1 = 32,
};

/*
 * Reset the device and agree on features: those of @wanted that it offers, and VERSION_1, without
 * which -ENODEV (a legacy device).  @name is for the log and outlives the device.  @config_changed
 * may be NULL; it runs in interrupt context.  ERR_PTR: -ENODEV, -EIO, -ENOMEM.
 */
struct virtio_device *virtio_pci_open(struct pci_device *pci, const char *name, uint64_t wanted,
				      void (*config_changed)(struct virtio_device *vd));
/* The same for a driver whose features depend on each other: @choose gets what is offered. */
struct virtio_device *virtio_pci_open_choose(struct pci_device *pci, const char *name,
					     uint64_t (*choose)(uint64_t offered),
					     void (*config_changed)(struct virtio_device *vd));
/* Device quiet, queues and interrupts gone. */
void virtio_close(struct virtio_device *vd);

/* The driver's own pointer, for config_changed(), which may run before it is set. Any context. */
void virtio_set_drvdata(struct virtio_device *vd, void *data);
void *virtio_drvdata(const struct virtio_device *vd);

bool virtio_has(const struct virtio_device *vd, unsigned int feature);

/* Device configuration, consistent while the device changes it.  -ERANGE: outside of it. */
int __must_check virtio_config_read(struct virtio_device *vd, unsigned int off, void *buf,
				    unsigned int len);

/*
 * Set up queue @index with at most @max_size entries.  @max_segs: the longest chain; longer than
 * one descriptor they go indirect if the device can.  @used is called in interrupt context when
 * the device has used something.  -ENOENT: the device has no such queue.
 */
int __must_check virtq_create(struct virtio_device *vd, unsigned int index, unsigned int max_size,
			      unsigned int max_segs, void (*used)(struct virtq *vq, void *arg),
			      void *arg, struct virtq **out);
/* All queues are there: let the device work. */
int __must_check virtio_start(struct virtio_device *vd);

/* The device broke its contract or hangs: reset it (which ends its DMA) and use it no more. */
void virtio_fence(struct virtio_device *vd, const char *why);
/* The driver has no use for the device now: as a fence, without blame. virtio_close() follows. */
void virtio_stop(struct virtio_device *vd);

/* --- queues --- */

struct virtq_seg {
	paddr_t addr;
	uint32_t len;
};

/*
 * Add a chain: @nr_out segments that the device reads, then @nr_in that it writes.  @token (not
 * NULL) comes back from virtq_get().  -ENOSPC: no room now; -EINVAL: too many segments; -EIO:
 * fenced.
 */
int __must_check virtq_add(struct virtq *vq, const struct virtq_seg *segs, unsigned int nr_out,
			   unsigned int nr_in, void *token);
/* Tell the device about what was added, if it wants to know. */
void virtq_kick(struct virtq *vq);
/*
 * The token of a chain that the device has used, and the bytes that it wrote.  NULL: none.
 * ERR_PTR(-EIO): it broke the rules and is fenced.
 */
void *virtq_get(struct virtq *vq, uint32_t *len);
/* Ask the device for no interrupts: it may send some all the same. */
void virtq_quiet(struct virtq *vq);
/* Ask for interrupts again.  True: the device has used something already, look first. */
bool virtq_arm(struct virtq *vq);
/* After the fence: the tokens that the device will not use any more, one a call; then NULL. */
void *virtq_detach(struct virtq *vq);
/* Chains that are with the device.  For tests. */
unsigned int virtq_nr_busy(const struct virtq *vq);
/* Is there room for one more chain of @nr_segs? */
unsigned int virtq_size(const struct virtq *vq);
