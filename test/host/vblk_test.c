/* SPDX-License-Identifier: MIT */
/*
 * virtio block devices that lie: the whole driver on real virtqueues, with a transport and a device
 * that are part of the test. Each request ends once, with any answer of the device.
 */
#include <stdlib.h>

#include <drivers/blkdev.h>
#include <drivers/pci.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <shim/shim.h>

#include "../../drivers/block/virtio_blk.h"
#include "../../drivers/virtio/virtq.h"

#define MAX_QUEUES 8u
#define MAX_SIZE   64u
#define ALL_FEATURES                                                                           \
	(BIT64(VIRTIO_BLK_F_SIZE_MAX) | BIT64(VIRTIO_BLK_F_SEG_MAX) | BIT64(VIRTIO_BLK_F_MQ) | \
	 BIT64(VIRTIO_BLK_F_BLK_SIZE) | BIT64(VIRTIO_BLK_F_FLUSH))

/* --- the transport ----------------------------------------------------------------------- */

struct fake_queue {
	struct virtq vq;
	struct virtq_shadow shadow[MAX_SIZE];
	uint8_t mem[4096] __aligned(16);
	uint16_t seen;
};

struct virtio_device {
	uint64_t features;
	struct virtio_blk_config cfg;
	unsigned int cfg_len;
	unsigned int nr_queues, size; /* that it has */
	struct fake_queue *queues[MAX_QUEUES];
	bool fenced, closed;
};

static struct virtio_device next_device; /* the one that the next probe finds */
static struct virtio_device *dev;

struct virtio_device *virtio_pci_open(struct pci_device *pci, const char *name, uint64_t wanted,
				      void (*config_changed)(struct virtio_device *vd))
{
	(void)pci, (void)name, (void)config_changed;
	dev = calloc(1, sizeof(*dev));
	*dev = next_device;
	dev->features &= wanted;
	return dev;
}

bool virtio_has(const struct virtio_device *vd, unsigned int feature)
{
	return vd->features & BIT64(feature);
}

int virtio_config_read(struct virtio_device *vd, unsigned int off, void *buf, unsigned int len)
{
	if (off + len > vd->cfg_len)
		return -ERANGE;
	memcpy(buf, (const uint8_t *)&vd->cfg + off, len);
	return 0;
}

void virtio_fence(struct virtio_device *vd, const char *why)
{
	(void)why;
	vd->fenced = true;
	for (unsigned int i = 0; i < MAX_QUEUES; i++) {
		if (vd->queues[i])
			vd->queues[i]->vq.broken = true;
	}
}

static void fence_queue(struct virtq *vq, const char *why)
{
	virtio_fence(vq->vd, why);
}

static void ignore_kick(struct virtq *vq)
{
	(void)vq;
}

int virtq_create(struct virtio_device *vd, unsigned int index, unsigned int max_size,
		 unsigned int max_segs, void (*used)(struct virtq *vq, void *arg), void *arg,
		 struct virtq **out)
{
	struct fake_queue *q;

	if (index >= vd->nr_queues)
		return -ENOENT;
	q = aligned_alloc(64, ALIGN_UP(sizeof(*q), 64u));
	memset(q, 0, sizeof(*q));
	virtq_init(&q->vq, MIN(vd->size, MIN(max_size, MAX_SIZE)), max_segs, q->mem, q->shadow);
	q->vq.vd = vd;
	q->vq.index = index;
	q->vq.callback = used;
	q->vq.arg = arg;
	q->vq.notify = ignore_kick;
	q->vq.fence = fence_queue;
	vd->queues[index] = q;
	*out = &q->vq;
	return 0;
}

int virtio_start(struct virtio_device *vd)
{
	(void)vd;
	return 0;
}

void virtio_close(struct virtio_device *vd)
{
	for (unsigned int i = 0; i < MAX_QUEUES; i++)
		free(vd->queues[i]);
	free(vd);
	dev = NULL;
}

/* --- the device -------------------------------------------------------------------------- */

static void describe(uint64_t sectors)
{
	next_device = (struct virtio_device){
		.features = ALL_FEATURES,
		.cfg = { .capacity = cpu_to_le64(sectors),
			 .size_max = cpu_to_le32(65536),
			 .seg_max = cpu_to_le32(4),
			 .blk_size = cpu_to_le32(512),
			 .num_queues = cpu_to_le16(1) },
		.cfg_len = sizeof(struct virtio_blk_config),
		.nr_queues = 1,
		.size = 16,
	};
}

extern const struct pci_driver *const __start_pci_drivers[];

static unsigned int nr_disks;

static int probe(void)
{
	const int err = __start_pci_drivers[0]->probe(NULL, NULL);

	nr_disks += !err;
	return err;
}

/* The disk that was found last. */
static struct blkdev *disk(void)
{
	const char name[] = { 'v', 'd', (char)('a' + nr_disks - 1), '\0' };

	return blkdev_get(name);
}

static void interrupt(void)
{
	dev->queues[0]->vq.callback(&dev->queues[0]->vq, dev->queues[0]->vq.arg);
}

static bool device_take(uint16_t *head)
{
	struct fake_queue *q = dev->queues[0];

	if (le16_to_cpu(q->vq.avail->idx) == q->seen)
		return false;
	*head = le16_to_cpu(q->vq.avail->ring[q->seen++ % q->vq.size]);
	return true;
}

static void device_use(uint32_t id, uint32_t len)
{
	struct virtq *vq = &dev->queues[0]->vq;
	struct virtq_used *used = (struct virtq_used *)(uintptr_t)vq->used;
	const uint16_t idx = le16_to_cpu(used->idx);

	used->ring[idx % vq->size].id = cpu_to_le32(id);
	used->ring[idx % vq->size].len = cpu_to_le32(len);
	used->idx = cpu_to_le16((uint16_t)(idx + 1));
}

/* Write the status of the chain at @head, which is its last byte. */
static void device_status(uint16_t head, uint8_t status)
{
	const struct virtq *vq = &dev->queues[0]->vq;

	while (le16_to_cpu(vq->desc[head].flags) & VIRTQ_DESC_NEXT)
		head = le16_to_cpu(vq->desc[head].next);
	*(uint8_t *)phys_to_virt(le64_to_cpu(vq->desc[head].addr)) = status;
}

/* --- requests ---------------------------------------------------------------------------- */

struct job {
	struct blk_req req;
	struct blk_seg seg;
	unsigned int ends;
};

static uint8_t *memory; /* that the device reaches */

static void ended(struct blk_req *req)
{
	__atomic_add_fetch(&container_of(req, struct job, req)->ends, 1, __ATOMIC_RELEASE);
}

static void prepare(struct job *j, enum blk_op op, uint64_t sector)
{
	if (!memory) {
		paddr_t paddr;

		memory = dma_alloc(PAGE_SIZE, &paddr);
	}
	*j = (struct job){ .seg = { .buf = memory, .len = 512 } };
	j->req = (struct blk_req){ .op = op,
				   .sector = sector,
				   .segs = op == BLK_FLUSH ? NULL : &j->seg,
				   .nr_segs = op != BLK_FLUSH,
				   .done = ended };
}

static void start(struct job *j, enum blk_op op, uint64_t sector)
{
	prepare(j, op, sector);
	blk_submit(disk(), &j->req);
}

/* The device answers the next request it has so; how that one ended, 1: not yet. */
static int answer(struct job *j, uint8_t status, uint32_t len)
{
	uint16_t head;

	if (!device_take(&head))
		return 2;
	device_status(head, status);
	device_use(head, len);
	interrupt();
	return j->ends == 1 ? j->req.status : 1;
}

/* --- cases ------------------------------------------------------------------------------- */

static void configurations_without_sense(struct ktest *t)
{
	describe(0);
	EXPECT_EQ(t, probe(), -EINVAL);
	describe(UINT64_MAX);
	EXPECT_EQ(t, probe(), -EINVAL);
	describe(8);
	next_device.cfg.blk_size = cpu_to_le32(0);
	EXPECT_EQ(t, probe(), -EINVAL);
	next_device.cfg.blk_size = cpu_to_le32(1536);
	EXPECT_EQ(t, probe(), -EINVAL);
	next_device.cfg.blk_size = cpu_to_le32(8192); /* more than there is */
	EXPECT_EQ(t, probe(), -EINVAL);
	describe(8);
	next_device.cfg.size_max = cpu_to_le32(511);
	EXPECT_EQ(t, probe(), -EINVAL);
	describe(8);
	next_device.cfg.seg_max = cpu_to_le32(0);
	EXPECT_EQ(t, probe(), -EINVAL);
	describe(8);
	next_device.cfg.num_queues = cpu_to_le16(0);
	EXPECT_EQ(t, probe(), -EINVAL);
	describe(8);
	next_device.cfg_len = 16; /* it ends before what its features bring */
	EXPECT_EQ(t, probe(), -ERANGE);
	describe(8);
	next_device.nr_queues = 0;
	EXPECT_EQ(t, probe(), -ENOENT);
	describe(8);
	next_device.size = 2; /* no request fits */
	EXPECT_EQ(t, probe(), -ENODEV);
	EXPECT_EQ(t, nr_disks, 0u);
	/* More queues than there are CPUs, or than it has. */
	describe(8);
	next_device.cfg.num_queues = cpu_to_le16(UINT16_MAX);
	EXPECT_EQ(t, probe(), 0);
	EXPECT_TRUE(t, dev->queues[0] && !dev->queues[1]);
}

static void answers_that_are_wrong(struct ktest *t)
{
	struct job j;

	describe(100);
	ASSERT_EQ(t, probe(), 0);
	start(&j, BLK_READ, 0);
	EXPECT_EQ(t, answer(&j, VIRTIO_BLK_S_OK, 513), 0);
	start(&j, BLK_READ, 0);
	EXPECT_EQ(t, answer(&j, VIRTIO_BLK_S_OK, 512), -EIO); /* short */
	start(&j, BLK_READ, 0);
	EXPECT_EQ(t, answer(&j, VIRTIO_BLK_S_OK, 0), -EIO);
	start(&j, BLK_READ, 0);
	EXPECT_EQ(t, answer(&j, VIRTIO_BLK_S_NONE, 513), -EIO);
	start(&j, BLK_WRITE, 0);
	EXPECT_EQ(t, answer(&j, VIRTIO_BLK_S_NONE, 1), -EIO);
	start(&j, BLK_WRITE, 0);
	EXPECT_EQ(t, answer(&j, VIRTIO_BLK_S_IOERR, 1), -EIO);
	start(&j, BLK_WRITE, 0);
	EXPECT_EQ(t, answer(&j, 77, 1), -EIO);
	start(&j, BLK_FLUSH, 0);
	EXPECT_EQ(t, answer(&j, VIRTIO_BLK_S_UNSUPP, 1), -EOPNOTSUPP);
	/* The flush behind a write with FUA is the one that fails. */
	prepare(&j, BLK_WRITE, 5);
	j.req.flags = BLK_FUA;
	blk_submit(disk(), &j.req);
	EXPECT_EQ(t, answer(&j, VIRTIO_BLK_S_OK, 1), 1);
	EXPECT_EQ(t, answer(&j, VIRTIO_BLK_S_IOERR, 1), -EIO);
	/* Another capacity changes nothing for us: requests within the old one are sent. */
	dev->cfg.capacity = cpu_to_le64(10);
	start(&j, BLK_READ, 99);
	EXPECT_EQ(t, answer(&j, VIRTIO_BLK_S_IOERR, 1), -EIO);
	dev->cfg.capacity = cpu_to_le64(1000);
	start(&j, BLK_READ, 100);
	EXPECT_EQ(t, j.ends, 1u);
	EXPECT_EQ(t, j.req.status, -EIO);
	EXPECT_FALSE(t, dev->fenced);
}

#define JOBS 24u /* more than fit the ring */

static void check_all_ended(struct ktest *t, const struct job *jobs, unsigned int nr, int status)
{
	for (unsigned int i = 0; i < nr; i++) {
		ASSERT_EQ(t, jobs[i].ends, 1u);
		ASSERT_EQ(t, jobs[i].req.status, status);
	}
}

/* Each lie takes the device out of use, with all that it had and all that waited. */
static void ids_and_lengths_that_are_lies(struct ktest *t)
{
	static struct job jobs[JOBS];
	struct job late;

	for (int lie = 0; lie < 6; lie++) {
		uint16_t head = 0, other = 0;

		describe(100);
		ASSERT_EQ(t, probe(), 0);
		for (unsigned int i = 0; i < JOBS; i++)
			start(&jobs[i], BLK_READ, i);
		ASSERT_TRUE(t, device_take(&head));
		ASSERT_TRUE(t, device_take(&other));
		if (lie == 0)
			device_use(16, 513); /* no descriptor */
		else if (lie == 1)
			device_use(UINT32_MAX, 513);
		else if (lie == 2)
			device_use(le16_to_cpu(dev->queues[0]->vq.desc[head].next), 513);
		else if (lie == 3)
			device_use(head, 514); /* more than it may write */
		else if (lie == 4)
			((struct virtq_used *)(uintptr_t)dev->queues[0]->vq.used)->idx =
				cpu_to_le16(17); /* more than it has */
		else
			device_use(other, UINT32_MAX);
		interrupt();
		EXPECT_TRUE(t, dev->fenced);
		check_all_ended(t, jobs, JOBS, -EIO);
		interrupt();
		start(&late, BLK_WRITE, 0);
		check_all_ended(t, &late, 1, -EIO);
		check_all_ended(t, jobs, JOBS, -EIO);
	}
}

/* The second answer to one request is none to the next one. */
static void an_answer_that_comes_twice(struct ktest *t)
{
	static struct job jobs[3];
	uint16_t head;

	describe(100);
	ASSERT_EQ(t, probe(), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(jobs); i++)
		start(&jobs[i], BLK_READ, i);
	ASSERT_TRUE(t, device_take(&head));
	device_status(head, VIRTIO_BLK_S_OK);
	device_use(head, 513);
	device_use(head, 513);
	interrupt();
	EXPECT_TRUE(t, dev->fenced);
	check_all_ended(t, jobs, 1, 0);
	check_all_ended(t, jobs + 1, 2, -EIO);
}

/* No answer: a line after a while, then the device is given up; what comes late is nothing. */
static void a_device_that_never_answers(struct ktest *t)
{
	static struct job jobs[JOBS];
	unsigned int nr = 0;
	uint16_t head;

	describe(100);
	ASSERT_EQ(t, probe(), 0);
	shim_log_clear();
	for (unsigned int i = 0; i < JOBS; i++)
		start(&jobs[i], BLK_WRITE, i);
	while (!__atomic_load_n(&jobs[JOBS - 1].ends, __ATOMIC_ACQUIRE)) {
		shim_time_advance_ns(NSEC_PER_SEC);
		thread_sleep_ns(NSEC_PER_MSEC);
	}
	EXPECT_TRUE(t, shim_log_contains("sector 0 has been waited for"));
	EXPECT_TRUE(t, dev->fenced);
	while (device_take(&head)) {
		check_all_ended(t, &jobs[nr++], 1, -ETIMEDOUT);
		device_status(head, VIRTIO_BLK_S_OK);
		device_use(head, 1);
	}
	EXPECT_GE(t, nr, 5u);
	check_all_ended(t, jobs + nr, JOBS - nr, -EIO);
	interrupt();
	for (unsigned int i = 0; i < JOBS; i++)
		EXPECT_EQ(t, jobs[i].ends, 1u);
}

/* A device that answers anything: each request ends once, and a fence is final. */
static void a_device_that_answers_anything(struct ktest *t)
{
	static struct job jobs[4000];
	struct prng rng;

	prng_seed(&rng, 15);
	for (unsigned int round = 0; round < 12; round++) {
		const uint64_t evil = 20 + 60 * round; /* one answer of so many is a lie */
		unsigned int nr = 0;

		describe(100);
		ASSERT_EQ(t, probe(), 0);
		while (nr < ARRAY_SIZE(jobs) && !dev->fenced) {
			const uint64_t what = prng_below(&rng, 4);
			uint16_t head;

			start(&jobs[nr++],
			      what == 3 ? BLK_FLUSH
			      : what    ? BLK_READ
					: BLK_WRITE,
			      prng_below(&rng, 100));
			while (prng_below(&rng, 8) && device_take(&head)) {
				const uint32_t len = prng_below(&rng, 20) ? 1 : 513;

				device_status(head, (uint8_t)prng_below(&rng, 4));
				device_use(prng_below(&rng, evil) ? head
								  : (uint32_t)prng_below(&rng, 20),
					   len);
			}
			interrupt();
		}
		if (!dev->fenced)
			device_use(UINT32_MAX, 0);
		interrupt();
		ASSERT_TRUE(t, dev->fenced);
		for (unsigned int i = 0; i < nr; i++)
			ASSERT_EQ(t, jobs[i].ends, 1u);
	}
}

static const struct ktest_case cases[] = {
	KTEST(configurations_without_sense),
	KTEST(answers_that_are_wrong),
	KTEST(ids_and_lengths_that_are_lies),
	KTEST(an_answer_that_comes_twice),
	KTEST(a_device_that_never_answers),
	KTEST(a_device_that_answers_anything),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "drivers.vblk", .cases = cases };
KTEST_SUITE(suite);
