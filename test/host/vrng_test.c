/* SPDX-License-Identifier: MIT */
/*
 * virtio entropy devices: the driver on a real virtqueue, with a transport, a device and a
 * generator that are part of the test. Bytes that the device lies about seed nothing.
 */
#include <stdlib.h>

#include <drivers/pci.h>
#include <kernel/random.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <shim/shim.h>

#include "../../drivers/virtio/virtq.h"

#define WORDS 8u /* that the driver asks for */

/* --- the generator ----------------------------------------------------------------------- */

static uint32_t given[WORDS];
static size_t nr_given;         /* atomic: words, of all answers */
static unsigned int nr_answers; /* atomic */
static bool has_other_seed;

void random_add(const uint32_t *words, size_t nr)
{
	memcpy(given, words, MIN(nr, (size_t)WORDS) * sizeof(*words));
	__atomic_fetch_add(&nr_given, nr, __ATOMIC_RELEASE);
	__atomic_fetch_add(&nr_answers, 1, __ATOMIC_RELEASE);
}

bool random_is_seeded(void)
{
	return has_other_seed || __atomic_load_n(&nr_given, __ATOMIC_ACQUIRE) >= WORDS;
}

/* --- the transport ----------------------------------------------------------------------- */

struct virtio_device {
	struct virtq vq;
	struct virtq_shadow shadow[1];
	uint8_t mem[4096] __aligned(16);
	uint16_t seen;
	unsigned int nr_queues;
	int start_error;
	unsigned int kicks; /* atomic */
	bool fenced;
	struct virtio_device *next;
};

static struct virtio_device *dev; /* of the newest probe */
static struct virtio_device *all; /* which are never closed, as the driver's have no end */
static unsigned int nr_queues;    /* that the next one has */
static int start_error;
static bool answers_at_once;
static uint32_t answer_len; /* of those */
static uint8_t answer_fill;
static struct thread *answering; /* one that runs */

static void device_use(uint32_t id, uint32_t len)
{
	struct virtq_used *used = (struct virtq_used *)(uintptr_t)dev->vq.used;
	const uint16_t idx = le16_to_cpu(used->idx);

	used->ring[idx % dev->vq.size].id = cpu_to_le32(id);
	used->ring[idx % dev->vq.size].len = cpu_to_le32(len);
	used->idx = cpu_to_le16((uint16_t)(idx + 1));
}

/* Take the question that is there; its bytes. NULL: there is none. */
static uint8_t *device_take(uint16_t *head)
{
	if (le16_to_cpu(dev->vq.avail->idx) == dev->seen)
		return NULL;
	*head = le16_to_cpu(dev->vq.avail->ring[dev->seen++ % dev->vq.size]);
	return phys_to_virt(le64_to_cpu(dev->vq.desc[*head].addr));
}

static void interrupt(void)
{
	dev->vq.callback(&dev->vq, dev->vq.arg);
}

/* Answer with @len bytes of @fill. False: nothing was asked. */
static bool answer(uint8_t fill, uint32_t len)
{
	uint16_t head;
	uint8_t *buf = device_take(&head);

	if (!buf)
		return false;
	memset(buf, fill, MIN(len, (uint32_t)sizeof(given)));
	device_use(head, len);
	interrupt();
	return true;
}

static void kicked(struct virtq *vq)
{
	__atomic_fetch_add(&container_of(vq, struct virtio_device, vq)->kicks, 1, __ATOMIC_RELEASE);
}

static void answering_thread(void *arg)
{
	(void)arg;
	/* The driver asks when virtio_start() has returned; a node in the case's probe waits. */
	for (int i = 0; i < 1500 && !random_is_seeded(); i++) {
		if (!answer(answer_fill, answer_len))
			thread_sleep_ns(NSEC_PER_MSEC);
		else if (!answer_fill)
			break; /* it is not asked again */
	}
}

static void fence_queue(struct virtq *vq, const char *why)
{
	(void)why;
	vq->broken = true;
	vq->vd->fenced = true;
}

struct virtio_device *virtio_pci_open(struct pci_device *pci, const char *name, uint64_t wanted,
				      void (*config_changed)(struct virtio_device *vd))
{
	(void)pci, (void)name, (void)wanted, (void)config_changed;
	dev = aligned_alloc(64, ALIGN_UP(sizeof(*dev), 64u));
	memset(dev, 0, sizeof(*dev));
	dev->nr_queues = nr_queues;
	dev->start_error = start_error;
	dev->next = all;
	all = dev;
	return dev;
}

int virtq_create(struct virtio_device *vd, unsigned int index, unsigned int max_size,
		 unsigned int max_segs, void (*used)(struct virtq *vq, void *arg), void *arg,
		 struct virtq **out)
{
	if (index >= vd->nr_queues)
		return -ENOENT;
	virtq_init(&vd->vq, MIN(max_size, 1u), max_segs, vd->mem, vd->shadow);
	vd->vq.vd = vd;
	vd->vq.callback = used;
	vd->vq.arg = arg;
	vd->vq.notify = kicked;
	vd->vq.fence = fence_queue;
	*out = &vd->vq;
	return 0;
}

int virtio_start(struct virtio_device *vd)
{
	struct thread *t;

	if (vd->start_error || !answers_at_once)
		return vd->start_error;
	t = thread_create("device", answering_thread, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	answering = t;
	return 0;
}

void virtio_close(struct virtio_device *vd)
{
	all = vd->next;
	free(vd);
	dev = NULL;
}

/* --- cases ------------------------------------------------------------------------------- */

extern const struct pci_driver *const __start_pci_drivers[];

/* A device of one queue; the generator has a seed, or none. */
static int probe(bool seeded)
{
	int err;

	memset(given, 0, sizeof(given));
	nr_given = nr_answers = 0;
	has_other_seed = seeded;
	err = __start_pci_drivers[0]->probe(NULL, NULL);
	if (answering)
		thread_join(answering);
	answering = NULL;
	return err;
}

static void plain(void)
{
	nr_queues = 1;
	start_error = 0;
	answers_at_once = false;
	answer_len = sizeof(given);
	answer_fill = 7;
}

static void all_bytes_reach_the_generator(struct ktest *t)
{
	uint16_t head;

	plain();
	ASSERT_EQ(t, probe(true), 0); /* without waiting */
	EXPECT_EQ(t, dev->kicks, 1u);
	EXPECT_TRUE(t, answer(0xa5, sizeof(given)));
	EXPECT_EQ(t, nr_given, (size_t)WORDS);
	EXPECT_EQ(t, given[0], 0xa5a5a5a5u);
	EXPECT_EQ(t, given[WORDS - 1], 0xa5a5a5a5u);
	EXPECT_TRUE(t, device_take(&head) == NULL); /* a minute later */
	for (int i = 0; i < 70 && dev->kicks < 2; i++) {
		shim_time_advance_ns(NSEC_PER_SEC);
		thread_sleep_ns(NSEC_PER_MSEC);
	}
	EXPECT_EQ(t, __atomic_load_n(&dev->kicks, __ATOMIC_ACQUIRE), 2u);
	EXPECT_TRUE(t, answer(1, sizeof(given)));
	EXPECT_EQ(t, given[0], 0x01010101u);
	EXPECT_EQ(t, nr_answers, 2u);
	EXPECT_FALSE(t, dev->fenced);
}

/* Words that it has not written, or parts of one, are no seed. */
static void short_answers_count_for_what_they_are(struct ktest *t)
{
	plain();
	ASSERT_EQ(t, probe(true), 0);
	EXPECT_TRUE(t, answer(3, 7));
	EXPECT_EQ(t, nr_given, 1u);
	ASSERT_EQ(t, probe(true), 0);
	EXPECT_TRUE(t, answer(3, 0));
	EXPECT_EQ(t, nr_given, 0u);
	EXPECT_FALSE(t, dev->fenced);
}

static void a_node_without_a_seed_waits(struct ktest *t)
{
	uint64_t since;

	plain();
	answers_at_once = true;
	ASSERT_EQ(t, probe(false), 0);
	EXPECT_TRUE(t, random_is_seeded());
	EXPECT_EQ(t, given[0], 0x07070707u);
	/* Not for ever. */
	answers_at_once = false;
	since = time_now_ns();
	shim_log_clear();
	ASSERT_EQ(t, probe(false), 0);
	EXPECT_GE(t, time_now_ns() - since, NSEC_PER_SEC);
	EXPECT_TRUE(t, shim_log_contains("does not give a seed"));
	EXPECT_FALSE(t, random_is_seeded());
}

/* Devices may answer with less than what they are asked for. */
static void short_answers_make_a_seed(struct ktest *t)
{
	plain();
	answers_at_once = true;
	answer_len = 12;
	ASSERT_EQ(t, probe(false), 0);
	EXPECT_TRUE(t, random_is_seeded());
	EXPECT_EQ(t, nr_answers, 3u);
	EXPECT_EQ(t, dev->kicks, 3u);
	EXPECT_FALSE(t, dev->fenced);
}

static void zeros_are_no_seed(struct ktest *t)
{
	plain();
	answers_at_once = true;
	answer_fill = 0;
	shim_log_clear();
	ASSERT_EQ(t, probe(false), 0);
	EXPECT_TRUE(t, shim_log_contains("does not give a seed"));
	EXPECT_FALSE(t, random_is_seeded());
	EXPECT_EQ(t, nr_answers, 0u);
	EXPECT_EQ(t, dev->kicks, 1u);
}

static void lies_take_it_out_of_use(struct ktest *t)
{
	uint16_t head = 0;
	uint8_t *buf;

	plain();
	for (int lie = 0; lie < 5; lie++) {
		ASSERT_EQ(t, probe(true), 0);
		ASSERT_TRUE(t, device_take(&head) != NULL);
		if (lie == 0)
			device_use(1, 32); /* no descriptor */
		else if (lie == 1)
			device_use(UINT32_MAX, 32);
		else if (lie == 2)
			device_use(head, 33); /* more than it may write */
		else if (lie == 3)
			device_use(head, UINT32_MAX);
		else
			((struct virtq_used *)(uintptr_t)dev->vq.used)->idx = cpu_to_le16(2);
		interrupt();
		EXPECT_TRUE(t, dev->fenced);
		EXPECT_EQ(t, nr_given, 0u);
		interrupt();
		EXPECT_EQ(t, nr_answers, 0u);
	}
	/* The second answer to one question. */
	ASSERT_EQ(t, probe(true), 0);
	buf = device_take(&head);
	ASSERT_TRUE(t, buf != NULL);
	memset(buf, 5, 32);
	device_use(head, 32);
	interrupt();
	device_use(head, 32);
	interrupt();
	EXPECT_TRUE(t, dev->fenced);
	EXPECT_EQ(t, nr_answers, 1u);
}

static void devices_that_do_not_start(struct ktest *t)
{
	plain();
	nr_queues = 0;
	EXPECT_EQ(t, probe(true), -ENOENT);
	EXPECT_TRUE(t, dev == NULL);
	plain();
	start_error = -EIO;
	EXPECT_EQ(t, probe(true), -EIO);
	EXPECT_TRUE(t, dev == NULL);
}

static const struct ktest_case cases[] = {
	KTEST(all_bytes_reach_the_generator),
	KTEST(short_answers_count_for_what_they_are),
	KTEST(a_node_without_a_seed_waits),
	KTEST(short_answers_make_a_seed),
	KTEST(zeros_are_no_seed),
	KTEST(lies_take_it_out_of_use),
	KTEST(devices_that_do_not_start),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "drivers.vrng", .cases = cases };
KTEST_SUITE(suite);
