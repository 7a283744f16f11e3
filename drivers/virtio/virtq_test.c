/* SPDX-License-Identifier: MIT */
/* Virtqueues against a device that is part of the test: rings, chains, and broken contracts. */
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "virtq.h"

#define SIZE 8u

/* A queue, and the device's side of it. */
struct fixture {
	struct virtq vq;
	struct virtq_shadow shadow[SIZE];
	struct virtq_desc indirect[SIZE * 4];
	uint8_t mem[512] __aligned(16);
	struct virtq_used *used;
	uint16_t avail_seen;
	unsigned int nr_kicks;
	unsigned int nr_fences;
};

static void count_kick(struct virtq *vq)
{
	container_of(vq, struct fixture, vq)->nr_kicks++;
}

static void count_fence(struct virtq *vq, const char *why)
{
	(void)why;
	container_of(vq, struct fixture, vq)->nr_fences++;
}

static struct fixture *fixture_new(bool indirect)
{
	struct fixture *r = kzalloc(sizeof(*r));

	if (!r)
		return NULL;
	virtq_init(&r->vq, SIZE, indirect ? 4 : SIZE, r->mem, r->shadow);
	r->vq.notify = count_kick;
	r->vq.fence = count_fence;
	if (indirect) {
		r->vq.indirect = r->indirect;
		r->vq.indirect_paddr = 0x100000;
	}
	r->used = (struct virtq_used *)(uintptr_t)r->vq.used;
	return r;
}

/* The head that the driver published next; SIZE if none. */
static uint16_t device_take(struct fixture *r)
{
	if (le16_to_cpu(r->vq.avail->idx) == r->avail_seen)
		return SIZE;
	return le16_to_cpu(r->vq.avail->ring[r->avail_seen++ % SIZE]);
}

static void device_use(struct fixture *r, uint32_t id, uint32_t len)
{
	const uint16_t idx = le16_to_cpu(r->used->idx);

	r->used->ring[idx % SIZE].id = cpu_to_le32(id);
	r->used->ring[idx % SIZE].len = cpu_to_le32(len);
	r->used->idx = cpu_to_le16((uint16_t)(idx + 1));
}

static void chains_look_as_specified(struct ktest *t)
{
	static const struct virtq_seg segs[] = { { 0x1000, 16 }, { 0x2000, 512 }, { 0x3000, 1 } };
	struct fixture *r = fixture_new(false);
	const struct virtq_desc *d;
	uint32_t len;
	uint16_t head;
	int token;

	ASSERT_TRUE(t, r);
	EXPECT_EQ(t, virtq_add(&r->vq, segs, 1, 2, &token), 0);
	head = device_take(r);
	ASSERT_TRUE(t, head < SIZE);
	d = &r->vq.desc[head];
	EXPECT_EQ(t, le64_to_cpu(d->addr), 0x1000ull);
	EXPECT_EQ(t, le16_to_cpu(d->flags), VIRTQ_DESC_NEXT);
	d = &r->vq.desc[le16_to_cpu(d->next)];
	EXPECT_EQ(t, le32_to_cpu(d->len), 512u);
	EXPECT_EQ(t, le16_to_cpu(d->flags), VIRTQ_DESC_NEXT | VIRTQ_DESC_WRITE);
	d = &r->vq.desc[le16_to_cpu(d->next)];
	EXPECT_EQ(t, le64_to_cpu(d->addr), 0x3000ull);
	EXPECT_EQ(t, le16_to_cpu(d->flags), VIRTQ_DESC_WRITE);

	EXPECT_TRUE(t, virtq_get(&r->vq, &len) == NULL);
	device_use(r, head, 513);
	EXPECT_TRUE(t, virtq_get(&r->vq, &len) == &token);
	EXPECT_EQ(t, len, 513u);
	EXPECT_EQ(t, virtq_nr_busy(&r->vq), 0u);
	EXPECT_EQ(t, r->vq.nr_free, SIZE);
	kfree(r);
}

static void indirect_chains_take_one_descriptor(struct ktest *t)
{
	static const struct virtq_seg segs[] = { { 0x1000, 16 }, { 0x2000, 512 }, { 0x3000, 1 } };
	struct fixture *r = fixture_new(true);
	const struct virtq_desc *d;
	uint16_t head;
	int token;

	ASSERT_TRUE(t, r);
	for (unsigned int i = 0; i < SIZE; i++)
		EXPECT_EQ(t, virtq_add(&r->vq, segs, 1, 2, &token), 0);
	EXPECT_EQ(t, virtq_add(&r->vq, segs, 1, 2, &token), -ENOSPC);
	head = device_take(r);
	d = &r->vq.desc[head];
	EXPECT_EQ(t, le16_to_cpu(d->flags), VIRTQ_DESC_INDIRECT);
	EXPECT_EQ(t, le32_to_cpu(d->len), 48u);
	EXPECT_EQ(t, le64_to_cpu(d->addr), 0x100000ull + head * 64u);
	d = &r->indirect[head * 4u];
	EXPECT_EQ(t, le16_to_cpu(d[0].flags), VIRTQ_DESC_NEXT);
	EXPECT_EQ(t, le16_to_cpu(d[0].next), 1);
	EXPECT_EQ(t, le16_to_cpu(d[2].flags), VIRTQ_DESC_WRITE);
	kfree(r);
}

static void full_and_around(struct ktest *t)
{
	const struct virtq_seg segs[3] = { { 0x1000, 16 }, { 0x2000, 4096 }, { 0x3000, 1 } };
	struct fixture *r = fixture_new(false);
	unsigned int tokens[2];
	uint16_t a, b;
	uint32_t len;

	ASSERT_TRUE(t, r);
	/* Two chains of three fit into eight; used out of order, many times round. */
	for (unsigned int round = 0; round < 70000; round++) {
		EXPECT_EQ(t, virtq_add(&r->vq, segs, 1, 2, &tokens[0]), 0);
		EXPECT_EQ(t, virtq_add(&r->vq, segs, 1, 2, &tokens[1]), 0);
		EXPECT_EQ(t, virtq_add(&r->vq, segs, 1, 2, &tokens[0]), -ENOSPC);
		a = device_take(r);
		b = device_take(r);
		device_use(r, b, 1);
		device_use(r, a, 4097);
		ASSERT_TRUE(t, virtq_get(&r->vq, &len) == &tokens[1]);
		ASSERT_TRUE(t, virtq_get(&r->vq, &len) == &tokens[0]);
		ASSERT_EQ(t, len, 4097u);
	}
	kfree(r);
}

static void kicks_only_when_asked(struct ktest *t)
{
	const struct virtq_seg seg = { 0x1000, 16 };
	struct fixture *r = fixture_new(false);
	int token;

	ASSERT_TRUE(t, r);
	virtq_kick(&r->vq);
	EXPECT_EQ(t, r->nr_kicks, 0u);
	EXPECT_EQ(t, virtq_add(&r->vq, &seg, 1, 0, &token), 0);
	EXPECT_EQ(t, virtq_add(&r->vq, &seg, 1, 0, &token), 0);
	virtq_kick(&r->vq);
	virtq_kick(&r->vq);
	EXPECT_EQ(t, r->nr_kicks, 1u);
	r->used->flags = cpu_to_le16(VIRTQ_USED_NO_NOTIFY);
	EXPECT_EQ(t, virtq_add(&r->vq, &seg, 1, 0, &token), 0);
	virtq_kick(&r->vq);
	EXPECT_EQ(t, r->nr_kicks, 1u);
	kfree(r);
}

static void interrupts_only_when_asked(struct ktest *t)
{
	const struct virtq_seg seg = { 0x1000, 16 };
	struct fixture *r = fixture_new(false);
	uint32_t len;
	int token;

	ASSERT_TRUE(t, r);
	virtq_quiet(&r->vq);
	EXPECT_EQ(t, le16_to_cpu(r->vq.avail->flags), VIRTQ_AVAIL_NO_INTERRUPT);
	EXPECT_EQ(t, virtq_add(&r->vq, &seg, 0, 1, &token), 0);
	EXPECT_FALSE(t, virtq_arm(&r->vq));
	EXPECT_EQ(t, le16_to_cpu(r->vq.avail->flags), 0);
	/* A chain that the device used before it saw the flag is not missed. */
	virtq_quiet(&r->vq);
	device_use(r, device_take(r), 1);
	EXPECT_TRUE(t, virtq_arm(&r->vq));
	EXPECT_TRUE(t, virtq_get(&r->vq, &len) == &token);
	EXPECT_FALSE(t, virtq_arm(&r->vq));
	kfree(r);
}

static void hostile_device(struct ktest *t)
{
	static const struct {
		uint32_t id, len;
		uint16_t jump; /* of used->idx, beside the one element */
	} cases[] = {
		{ SIZE, 0, 0 },                         /* no such descriptor */
		{ UINT32_MAX, 0, 0 }, { 5, 0, 0 },      /* a free one */
		{ 1, 0, 0 },                            /* the middle of a chain */
		{ 0, 514, 0 },                          /* wrote more than there was room for */
		{ 0, UINT32_MAX, 0 }, { 0, 1, 1 },      /* used twice */
		{ 0, 1, 1000 },       { 0, 1, 0xfffe }, /* went back */
	};
	static const struct virtq_seg segs[] = { { 0x1000, 16 }, { 0x2000, 512 }, { 0x3000, 1 } };
	uint32_t len;
	int token;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture *r = fixture_new(false);
		void *got;

		ASSERT_TRUE(t, r);
		EXPECT_EQ(t, virtq_add(&r->vq, segs, 1, 2, &token), 0);
		ASSERT_EQ(t, device_take(r), 0);
		device_use(r, cases[i].id, cases[i].len);
		r->used->idx = cpu_to_le16((uint16_t)(1 + cases[i].jump));
		got = virtq_get(&r->vq, &len);
		EXPECT_TRUE(t, IS_ERR(got) && PTR_ERR(got) == -EIO);
		EXPECT_EQ(t, r->nr_fences, 1u);
		/* From now on it is out of use, and our buffers come back. */
		EXPECT_EQ(t, virtq_add(&r->vq, segs, 1, 2, &token), -EIO);
		got = virtq_get(&r->vq, &len);
		EXPECT_TRUE(t, IS_ERR(got) && PTR_ERR(got) == -EIO);
		EXPECT_TRUE(t, virtq_detach(&r->vq) == &token);
		EXPECT_TRUE(t, virtq_detach(&r->vq) == NULL);
		kfree(r);
	}
}

static void bad_requests(struct ktest *t)
{
	struct virtq_seg segs[SIZE + 1];
	struct fixture *r = fixture_new(false);
	int token;

	ASSERT_TRUE(t, r);
	for (size_t i = 0; i < ARRAY_SIZE(segs); i++)
		segs[i] = (struct virtq_seg){ 0x1000, 1u << 30 };
	EXPECT_EQ(t, virtq_add(&r->vq, segs, 0, 0, &token), -EINVAL);
	EXPECT_EQ(t, virtq_add(&r->vq, segs, SIZE + 1, 0, &token), -EINVAL);
	EXPECT_EQ(t, virtq_add(&r->vq, segs, 1, 0, NULL), -EINVAL);
	EXPECT_EQ(t, virtq_add(&r->vq, segs, 0, 4, &token), -EINVAL); /* 4 GiB of room */
	EXPECT_EQ(t, virtq_nr_busy(&r->vq), 0u);
	kfree(r);
}

static const struct ktest_case virtq_cases[] = {
	KTEST(chains_look_as_specified),
	KTEST(indirect_chains_take_one_descriptor),
	KTEST(full_and_around),
	KTEST(kicks_only_when_asked),
	KTEST(interrupts_only_when_asked),
	KTEST(hostile_device),
	KTEST(bad_requests),
	{ 0 },
};
static const struct ktest_suite virtq_suite = { .name = "virtio.virtq", .cases = virtq_cases };
KTEST_SUITE(virtq_suite);
