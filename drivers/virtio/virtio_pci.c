/* SPDX-License-Identifier: MIT */
/*
 * The PCI transport of virtio 1.x devices ("modern": found by capabilities, no I/O ports).
 *
 * Flow:	virtio_pci_open(): capabilities -> reset -> ACKNOWLEDGE, DRIVER -> features ->
 *		FEATURES_OK; virtq_create() for each queue; virtio_start(): DRIVER_OK
 *		(VIRTIO 1.1, section 3.1.1, steps 1 to 8).
 *		MSI-X entry 0 is for configuration changes; queues get the others in turn, and
 *		share them when there are not enough.
 * Locking:	set-up is single-threaded.  fenced is atomic.  The lists of queues per vector
 *		are const from virtio_start() on, and empty entries are not requested before.
 * Failure:	a device whose capabilities or answers make no sense is refused with one line.
 */
#define PR_FMT "virtio: "

#include <arch/cpu.h>
#include <arch/io.h>
#include <drivers/pci.h>
#include <drivers/virtio.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/atomic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "virtio_regs.h"
#include "virtq.h"

#define RESET_LIMIT_NS    (1000 * NSEC_PER_MSEC)
#define MAX_VECTORS       32u
#define CONFIG_READ_TRIES 100u

/* A window of registers, and how long it is. */
struct window {
	volatile uint8_t __iomem *base;
	uint32_t len;
};

struct vector {
	struct virtio_device *vd;
	struct list_head queues; /* const after virtio_start() */
	bool requested;
};

struct virtio_device {
	struct pci_device *pci;
	const char *name;
	void *drvdata; /* atomic */
	void (*config_changed)(struct virtio_device *vd);
	uint64_t features; /* const after open: those agreed on */
	struct window common, notify, config;
	uint32_t notify_multiplier;
	unsigned int nr_vectors; /* entries of the MSI-X table that we use */
	unsigned int next_vector;
	unsigned int nr_queues; /* that the device has */
	struct virtq **queues;  /* by index; NULL: not created */
	struct vector vectors[MAX_VECTORS];
	atomic_t fenced;
};

static uint8_t common8(struct virtio_device *vd, unsigned int off)
{
	return mmio_read8(vd->common.base + off);
}

static uint16_t common16(struct virtio_device *vd, unsigned int off)
{
	return mmio_read16(vd->common.base + off);
}

static void set_common16(struct virtio_device *vd, unsigned int off, uint16_t val)
{
	mmio_write16(vd->common.base + off, val);
}

static void set_common64(struct virtio_device *vd, unsigned int off, uint64_t val)
{
	mmio_write32(vd->common.base + off, (uint32_t)val);
	mmio_write32(vd->common.base + off + 4, (uint32_t)(val >> 32));
}

static void add_status(struct virtio_device *vd, uint8_t bits)
{
	const uint8_t status = common8(vd, VIRTIO_COMMON_STATUS);

	mmio_write8(vd->common.base + VIRTIO_COMMON_STATUS, status | bits);
}

/* Map the window that the capability at @cap describes. */
static int map_window(struct virtio_device *vd, unsigned int cap, uint32_t min_len,
		      struct window *win)
{
	const unsigned int bar = pci_cfg_read8(vd->pci, cap + VIRTIO_CAP_BAR_OFFSET);
	const uint32_t off = pci_cfg_read32(vd->pci, cap + VIRTIO_CAP_OFF_OFFSET);
	const uint32_t len = pci_cfg_read32(vd->pci, cap + VIRTIO_CAP_LENGTH_OFFSET);
	volatile void __iomem *base;

	if (bar >= PCI_NR_BARS || len < min_len)
		return -ENODEV;
	/* The bus checks that the window lies inside of the BAR. */
	base = pci_bar_map(vd->pci, bar, off, len);
	if (IS_ERR((const void *)(uintptr_t)base))
		return -ENODEV;
	win->base = base;
	win->len = len;
	return 0;
}

static int find_windows(struct virtio_device *vd)
{
	unsigned int cap = 0;
	int err = 0;

	while (!err && (cap = pci_cap_find(vd->pci, PCI_CAP_VENDOR, cap)) != 0) {
		const uint8_t cap_len = pci_cfg_read8(vd->pci, cap + VIRTIO_CAP_LEN_OFFSET);
		const uint8_t type = pci_cfg_read8(vd->pci, cap + VIRTIO_CAP_TYPE_OFFSET);

		if (cap_len < VIRTIO_CAP_MIN_LEN || cap + cap_len > 256)
			continue;
		/* The first of each kind counts; the specification says so. */
		if (type == VIRTIO_CAP_COMMON && !vd->common.base) {
			err = map_window(vd, cap, VIRTIO_COMMON_LEN, &vd->common);
		} else if (type == VIRTIO_CAP_DEVICE && !vd->config.base) {
			err = map_window(vd, cap, 1, &vd->config);
		} else if (type == VIRTIO_CAP_NOTIFY && !vd->notify.base && cap_len >= 20) {
			err = map_window(vd, cap, 2, &vd->notify);
			vd->notify_multiplier =
				pci_cfg_read32(vd->pci, cap + VIRTIO_CAP_MULTIPLIER_OFFSET);
		}
	}
	if (!err && (!vd->common.base || !vd->notify.base))
		err = -ENODEV;
	if (err)
		pr_err("%s (%s): no usable virtio 1.x capabilities\n", vd->name, pci_name(vd->pci));
	return err;
}

/* Ask for a reset and wait until it is over: then the device does no DMA any more. */
static int reset(struct virtio_device *vd)
{
	const uint64_t deadline = time_after_ns(RESET_LIMIT_NS);

	mmio_write8(vd->common.base + VIRTIO_COMMON_STATUS, 0);
	while (common8(vd, VIRTIO_COMMON_STATUS) != 0) {
		if (time_now_ns() > deadline)
			return -EIO;
		cpu_relax();
	}
	return 0;
}

static uint64_t read_features(struct virtio_device *vd)
{
	uint64_t features = 0;

	for (uint32_t half = 0; half < 2; half++) {
		mmio_write32(vd->common.base + VIRTIO_COMMON_DEVICE_FEATURE_SELECT, half);
		features |= (uint64_t)mmio_read32(vd->common.base + VIRTIO_COMMON_DEVICE_FEATURE)
			    << 32 * half;
	}
	return features;
}

static void write_features(struct virtio_device *vd, uint64_t features)
{
	for (uint32_t half = 0; half < 2; half++) {
		mmio_write32(vd->common.base + VIRTIO_COMMON_DRIVER_FEATURE_SELECT, half);
		mmio_write32(vd->common.base + VIRTIO_COMMON_DRIVER_FEATURE,
			     (uint32_t)(features >> 32 * half));
	}
}

/* The features of @wanted, or what @choose makes of those offered. */
static int negotiate(struct virtio_device *vd, uint64_t wanted,
		     uint64_t (*choose)(uint64_t offered))
{
	const uint64_t offered = read_features(vd);

	if (choose)
		wanted = choose(offered);
	if (!(offered & BIT64(VIRTIO_F_VERSION_1))) {
		pr_err("%s (%s): the device is a legacy one\n", vd->name, pci_name(vd->pci));
		return -ENODEV;
	}
	vd->features =
		offered & (wanted | BIT64(VIRTIO_F_VERSION_1) | BIT64(VIRTIO_F_INDIRECT_DESC));
	write_features(vd, vd->features);
	add_status(vd, VIRTIO_STATUS_FEATURES_OK);
	if (!(common8(vd, VIRTIO_COMMON_STATUS) & VIRTIO_STATUS_FEATURES_OK)) {
		pr_err("%s (%s): the device refuses features %#llx\n", vd->name, pci_name(vd->pci),
		       (unsigned long long)vd->features);
		return -EIO;
	}
	return 0;
}

/* Let the users of all queues look: they will find them broken. */
static void tell_users(struct virtio_device *vd)
{
	for (unsigned int i = 0; i < vd->nr_queues; i++) {
		struct virtq *vq = vd->queues[i];

		if (vq)
			vq->callback(vq, vq->arg);
	}
}

static bool virtio_is_fenced(const struct virtio_device *vd)
{
	return atomic_read(&vd->fenced) != 0;
}

static void config_irq(unsigned int vector, void *arg)
{
	struct virtio_device *vd = arg;

	(void)vector;
	if (virtio_is_fenced(vd))
		return;
	if (common8(vd, VIRTIO_COMMON_STATUS) & VIRTIO_STATUS_NEEDS_RESET) {
		virtio_fence(vd, "asks for a reset");
		tell_users(vd);
		return;
	}
	if (vd->config_changed)
		vd->config_changed(vd);
}

static void queue_irq(unsigned int vector, void *arg)
{
	struct vector *v = arg;
	struct virtq *vq;

	(void)vector;
	list_for_each_entry(vq, &v->queues, vector_link)
		vq->callback(vq, vq->arg);
}

static int setup_interrupts(struct virtio_device *vd)
{
	const int nr = pci_msix_enable(vd->pci);
	int err;

	if (nr < 2) {
		pr_err("%s (%s): needs MSI-X with two entries or more\n", vd->name,
		       pci_name(vd->pci));
		return -ENODEV;
	}
	vd->nr_vectors = MIN((unsigned int)nr, MAX_VECTORS);
	vd->next_vector = 1;
	for (unsigned int i = 0; i < MAX_VECTORS; i++) {
		vd->vectors[i].vd = vd;
		list_init(&vd->vectors[i].queues);
	}
	err = pci_msix_request(vd->pci, 0, 0, config_irq, vd, vd->name);
	if (err)
		return err;
	set_common16(vd, VIRTIO_COMMON_CONFIG_VECTOR, 0);
	return common16(vd, VIRTIO_COMMON_CONFIG_VECTOR) == 0 ? 0 : -EIO;
}

static int bring_up(struct virtio_device *vd, uint64_t wanted, uint64_t (*choose)(uint64_t offered))
{
	int err;

	err = find_windows(vd);
	if (err)
		return err;
	err = reset(vd);
	if (err) {
		pr_err("%s (%s): does not finish its reset\n", vd->name, pci_name(vd->pci));
		return err;
	}
	add_status(vd, VIRTIO_STATUS_ACKNOWLEDGE);
	add_status(vd, VIRTIO_STATUS_DRIVER);
	err = negotiate(vd, wanted, choose);
	if (err)
		return err;
	vd->nr_queues = common16(vd, VIRTIO_COMMON_NUM_QUEUES);
	vd->queues = kcalloc(MAX(vd->nr_queues, 1u), sizeof(*vd->queues));
	if (!vd->queues)
		return -ENOMEM;
	return setup_interrupts(vd);
}

static struct virtio_device *open_device(struct pci_device *pci, const char *name, uint64_t wanted,
					 uint64_t (*choose)(uint64_t offered),
					 void (*config_changed)(struct virtio_device *vd))
{
	struct virtio_device *vd = kzalloc(sizeof(*vd));
	int err;

	if (!vd)
		return ERR_PTR(-ENOMEM);
	vd->pci = pci;
	vd->name = name;
	vd->config_changed = config_changed;
	pci_enable(pci);
	pci_set_master(pci, true);
	err = bring_up(vd, wanted, choose);
	if (err) {
		if (vd->common.base)
			add_status(vd, VIRTIO_STATUS_FAILED);
		virtio_close(vd);
		return ERR_PTR(err);
	}
	return vd;
}

struct virtio_device *virtio_pci_open(struct pci_device *pci, const char *name, uint64_t wanted,
				      void (*config_changed)(struct virtio_device *vd))
{
	return open_device(pci, name, wanted, NULL, config_changed);
}

struct virtio_device *virtio_pci_open_choose(struct pci_device *pci, const char *name,
					     uint64_t (*choose)(uint64_t offered),
					     void (*config_changed)(struct virtio_device *vd))
{
	return open_device(pci, name, 0, choose, config_changed);
}

static void queue_free(struct virtq *vq)
{
	if (vq->ring_mem)
		dma_free(vq->ring_mem, vq->ring_len);
	if (vq->indirect)
		dma_free(vq->indirect, vq->indirect_len);
	kfree(vq->shadow);
	kfree(vq);
}

void virtio_close(struct virtio_device *vd)
{
	if (vd->common.base && !virtio_is_fenced(vd) && reset(vd))
		pr_err("%s: does not finish its reset\n", vd->name);
	pci_set_master(vd->pci, false);
	if (vd->nr_vectors)
		pci_msix_disable(vd->pci);
	for (unsigned int i = 0; vd->queues && i < vd->nr_queues; i++) {
		if (vd->queues[i])
			queue_free(vd->queues[i]);
	}
	kfree(vd->queues);
	kfree(vd);
}

void virtio_set_drvdata(struct virtio_device *vd, void *data)
{
	__atomic_store_n(&vd->drvdata, data, __ATOMIC_RELEASE);
}

void *virtio_drvdata(const struct virtio_device *vd)
{
	return __atomic_load_n(&vd->drvdata, __ATOMIC_ACQUIRE);
}

bool virtio_has(const struct virtio_device *vd, unsigned int feature)
{
	return vd->features & BIT64(feature);
}

int virtio_config_read(struct virtio_device *vd, unsigned int off, void *buf, unsigned int len)
{
	uint8_t *out = buf;
	uint8_t before;

	if (!vd->config.base || off > vd->config.len || len > vd->config.len - off)
		return -ERANGE;
	for (unsigned int i = 0; i < CONFIG_READ_TRIES; i++) {
		before = common8(vd, VIRTIO_COMMON_GENERATION);
		for (unsigned int at = 0; at < len; at++)
			out[at] = mmio_read8(vd->config.base + off + at);
		if (common8(vd, VIRTIO_COMMON_GENERATION) == before)
			return 0;
	}
	return -EIO;
}

static void ring_doorbell(struct virtq *vq)
{
	mmio_write16(vq->doorbell, (uint16_t)vq->index);
}

static void fence_device(struct virtq *vq, const char *why)
{
	virtio_fence(vq->vd, why);
}

static int alloc_rings(struct virtq *vq, unsigned int size, unsigned int max_segs, bool indirect)
{
	size_t avail_off, used_off;
	struct virtq_shadow *shadow;

	vq->ring_len = virtq_ring_len(size, &avail_off, &used_off);
	vq->ring_mem = dma_alloc(vq->ring_len, &vq->desc_paddr);
	shadow = kcalloc(size, sizeof(*shadow));
	vq->shadow = shadow;
	if (!vq->ring_mem || !shadow)
		return -ENOMEM;
	vq->avail_paddr = vq->desc_paddr + avail_off;
	vq->used_paddr = vq->desc_paddr + used_off;
	if (indirect && max_segs > 1) {
		vq->indirect_len = (size_t)size * max_segs * sizeof(*vq->indirect);
		vq->indirect = dma_alloc(vq->indirect_len, &vq->indirect_paddr);
		if (!vq->indirect)
			return -ENOMEM;
	}
	virtq_init(vq, size, max_segs, vq->ring_mem, shadow);
	return 0;
}

static int find_doorbell(struct virtio_device *vd, struct virtq *vq)
{
	const uint64_t off =
		(uint64_t)common16(vd, VIRTIO_COMMON_QUEUE_NOTIFY_OFF) * vd->notify_multiplier;

	if (off + sizeof(uint16_t) > vd->notify.len)
		return -EIO;
	vq->doorbell = vd->notify.base + off;
	vq->notify = ring_doorbell;
	vq->fence = fence_device;
	return 0;
}

/* Tell the device where queue @vq is, and which interrupt it has.  The queue is selected. */
static int enable_queue(struct virtio_device *vd, struct virtq *vq, unsigned int vector)
{
	struct vector *v = &vd->vectors[vector];
	int err;

	/* On the list first: the interrupt may come at once. */
	list_add_tail(&vq->vector_link, &v->queues);
	if (!v->requested) {
		err = pci_msix_request(vd->pci, vector, 0, queue_irq, v, vd->name);
		if (err)
			return err;
		v->requested = true;
	}
	set_common16(vd, VIRTIO_COMMON_QUEUE_VECTOR, (uint16_t)vector);
	if (common16(vd, VIRTIO_COMMON_QUEUE_VECTOR) != vector)
		return -EIO;
	set_common16(vd, VIRTIO_COMMON_QUEUE_SIZE, vq->size);
	set_common64(vd, VIRTIO_COMMON_QUEUE_DESC, vq->desc_paddr);
	set_common64(vd, VIRTIO_COMMON_QUEUE_DRIVER, vq->avail_paddr);
	set_common64(vd, VIRTIO_COMMON_QUEUE_DEVICE, vq->used_paddr);
	set_common16(vd, VIRTIO_COMMON_QUEUE_ENABLE, 1);
	return 0;
}

static unsigned int pick_vector(struct virtio_device *vd)
{
	const unsigned int vector = vd->next_vector;

	vd->next_vector = vector + 1 < vd->nr_vectors ? vector + 1 : 1;
	return vector;
}

int virtq_create(struct virtio_device *vd, unsigned int index, unsigned int max_size,
		 unsigned int max_segs, void (*used)(struct virtq *vq, void *arg), void *arg,
		 struct virtq **out)
{
	struct virtq *vq;
	uint16_t size;
	int err;

	if (index >= vd->nr_queues || vd->queues[index])
		return -ENOENT;
	set_common16(vd, VIRTIO_COMMON_QUEUE_SELECT, (uint16_t)index);
	size = common16(vd, VIRTIO_COMMON_QUEUE_SIZE);
	if (!size)
		return -ENOENT;
	if (!IS_POWER_OF_2(size) || size > VIRTQ_MAX_SIZE) {
		pr_err("%s: queue %u has %u entries\n", vd->name, index, size);
		return -EIO;
	}
	while (size > max_size)
		size /= 2;
	vq = kzalloc(sizeof(*vq));
	if (!vq)
		return -ENOMEM;
	vq->vd = vd;
	vq->index = index;
	vq->callback = used;
	vq->arg = arg;
	list_init(&vq->vector_link);
	err = alloc_rings(vq, size, max_segs, virtio_has(vd, VIRTIO_F_INDIRECT_DESC));
	if (!err)
		err = find_doorbell(vd, vq);
	if (!err) {
		*out = vq; /* the callback may run from here on */
		err = enable_queue(vd, vq, pick_vector(vd));
	}
	/* Even half set up the device may know it: virtio_close() resets before it frees. */
	vd->queues[index] = vq;
	if (err)
		pr_err("%s: queue %u cannot be set up (%d)\n", vd->name, index, err);
	return err;
}

int virtio_start(struct virtio_device *vd)
{
	add_status(vd, VIRTIO_STATUS_DRIVER_OK);
	return common8(vd, VIRTIO_COMMON_STATUS) & VIRTIO_STATUS_NEEDS_RESET ? -EIO : 0;
}

static void make_quiet(struct virtio_device *vd)
{
	for (unsigned int i = 0; i < vd->nr_queues; i++) {
		if (vd->queues[i])
			WRITE_ONCE(vd->queues[i]->broken, true);
	}
	/* Without bus mastering it cannot touch memory even if it ignores the reset. */
	if (reset(vd))
		pr_err("%s: does not finish its reset\n", vd->name);
	pci_set_master(vd->pci, false);
}

void virtio_fence(struct virtio_device *vd, const char *why)
{
	if (atomic_xchg(&vd->fenced, 1))
		return;
	pr_err("%s (%s): %s: taken out of use\n", vd->name, pci_name(vd->pci), why);
	make_quiet(vd);
}

void virtio_stop(struct virtio_device *vd)
{
	if (!atomic_xchg(&vd->fenced, 1))
		make_quiet(vd);
}
