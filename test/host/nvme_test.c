/* SPDX-License-Identifier: MIT */
/*
 * The NVMe driver against a controller that is part of the test: what works, what is slow, what
 * fails, and what lies.
 */
#include <unistd.h>

#include <drivers/blkbatch.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>
#include <shim/shim.h>

#include "nvme_fake.h"

#define BLOCKS 4096u
#define AREA   (1u << 20)

static struct fake *f;
static struct blkdev *bd; /* the first namespace */
static uint8_t *mem;      /* AREA bytes for the device */

static struct blkdev *disk(uint32_t nsid)
{
	char name[BLKDEV_NAME_LEN];

	snprintf(name, sizeof(name), "%sn%u", f->c.name, nsid);
	return blkdev_get(name);
}

static void set_up(void)
{
	paddr_t paddr;

	f = fake_new();
	fake_add_ns(f, 1, BLOCKS, 9);
	mem = dma_alloc(AREA, &paddr);
}

static int begin(void)
{
	const int err = fake_start(f, 4);

	bd = err ? NULL : disk(1);
	return err;
}

static void end(void)
{
	fake_free(f);
	dma_free(mem, AREA);
}

/* A request that the test looks at while it is under way. */
struct watched {
	struct blk_req req;
	struct blk_seg seg;
	struct completion done;
};

static void watched_done(struct blk_req *req)
{
	complete(&((struct watched *)req->arg)->done);
}

static void launch(struct watched *w, enum blk_op op, uint64_t sector)
{
	completion_init(&w->done);
	w->seg = (struct blk_seg){ mem, 4096 };
	w->req = (struct blk_req){ .op = op,
				   .sector = sector,
				   .segs = op == BLK_FLUSH ? NULL : &w->seg,
				   .nr_segs = op != BLK_FLUSH,
				   .done = watched_done,
				   .arg = w };
	blk_submit(bd, &w->req);
}

/* Let time pass until @w is over; its status, or 1 when that takes an hour. */
static int outcome(struct watched *w)
{
	for (unsigned int i = 0; i < 18000 && !completion_done(&w->done); i++) {
		shim_time_advance_ns(200 * NSEC_PER_MSEC);
		usleep(500);
	}
	if (!completion_done(&w->done))
		return 1;
	completion_wait(&w->done);
	return w->req.status;
}

static uint64_t counted(const char *name)
{
	uint64_t value = 0;

	return counter_find(name, &value) ? value : UINT64_MAX;
}

/* --- what works */

static void disks_are_found(struct ktest *t)
{
	set_up();
	fake_add_ns(f, 7, 100, 12);
	ASSERT_EQ(t, begin(), 0);
	ASSERT_TRUE(t, bd && disk(7) && !disk(2));
	EXPECT_EQ(t, bd->nr_sectors, BLOCKS);
	EXPECT_EQ(t, bd->block_size, 512u);
	EXPECT_EQ(t, disk(7)->nr_sectors, 800u);
	EXPECT_EQ(t, disk(7)->block_size, 4096u);
	EXPECT_EQ(t, f->c.nr_io, 4u);
	/* Each has its own bytes. */
	memset(mem, 0x11, 4096);
	EXPECT_EQ(t, blk_write(bd, 0, mem, 4096, 0), 0);
	memset(mem, 0x77, 4096);
	EXPECT_EQ(t, blk_write(disk(7), 0, mem, 4096, 0), 0);
	EXPECT_EQ(t, blk_read(bd, 0, mem, 4096), 0);
	EXPECT_EQ(t, mem[4095], 0x11);
	EXPECT_EQ(t, f->ns[1].data[0], 0x77);
	EXPECT_EQ(t, blk_read(disk(7), 1, mem, 4096), -EINVAL); /* not a whole block */
	end();
}

/* Random transfers, in pieces that no single command can name, equal a copy in memory. */
static void random_io(struct ktest *t)
{
	uint8_t *model = kzalloc(BLOCKS * 512);
	struct prng rng;

	set_up();
	f->id.mdts = 2; /* 16 KiB */
	ASSERT_EQ(t, begin(), 0);
	ASSERT_TRUE(t, model);
	prng_seed(&rng, 1);
	for (unsigned int round = 0; round < 400; round++) {
		struct blk_batch *b = blk_batch_new(bd);
		const bool write = prng_next(&rng) % 2;
		uint64_t sector = prng_next(&rng) % (BLOCKS - 512);
		const uint64_t first = sector;
		uint32_t at = (uint32_t)(prng_next(&rng) % 16) * 512, nr_bytes = 0;

		ASSERT_TRUE(t, b);
		for (unsigned int i = 0; i < 8; i++) {
			const uint32_t len = (1 + (uint32_t)(prng_next(&rng) % 48)) * 512;

			for (uint32_t n = 0; write && n < len; n++)
				mem[at + n] = (uint8_t)prng_next(&rng);
			if (write)
				memcpy(model + (sector << 9), mem + at, len);
			blk_batch_add(b, write ? BLK_WRITE : BLK_READ, sector, mem + at, len);
			at += len + (uint32_t)(prng_next(&rng) % 3) * 512; /* sometimes a gap */
			sector += len >> 9;
			nr_bytes += len;
		}
		ASSERT_EQ(t, blk_batch_run(b), 0);
		blk_batch_free(b);
		ASSERT_EQ(t, blk_read(bd, first, mem, nr_bytes), 0);
		ASSERT_MEMEQ(t, mem, model + (first << 9), nr_bytes);
	}
	EXPECT_MEMEQ(t, f->ns[0].data, model, BLOCKS * 512);
	EXPECT_EQ(t, f->longest, 16384u);
	kfree(model);
	end();
}

static void one_doorbell_for_a_batch(struct ktest *t)
{
	struct blk_batch *b;
	unsigned int before;

	set_up();
	ASSERT_EQ(t, begin(), 0);
	b = blk_batch_new(bd);
	ASSERT_TRUE(t, b);
	before = f->nr_doorbells[1];
	for (unsigned int i = 0; i < 30; i++) /* no neighbours */
		blk_batch_add(b, BLK_WRITE, i * 16, mem + i * 4096, 4096);
	EXPECT_EQ(t, blk_batch_run(b), 0);
	EXPECT_EQ(t, f->nr_transfers, 30u);
	EXPECT_EQ(t, f->nr_doorbells[1] - before, 1u);
	blk_batch_free(b);
	end();
}

#define MANY 600u /* more than a ring has room for */

static atomic_t many_left;
static struct completion many_done;

static void one_of_many(struct blk_req *req)
{
	(void)req;
	if (atomic_dec_and_test(&many_left))
		complete(&many_done);
}

static void more_than_a_ring(struct ktest *t)
{
	static struct blk_req reqs[MANY];
	static struct blk_seg segs[MANY];

	set_up();
	f->cap = (f->cap & ~0xffffull) | 7; /* rings of 8 */
	ASSERT_EQ(t, begin(), 0);
	completion_init(&many_done);
	atomic_set(&many_left, MANY);
	for (unsigned int i = 0; i < MANY; i++) {
		memset(mem + i * 512, (int)i, 512);
		segs[i] = (struct blk_seg){ mem + i * 512, 512 };
		reqs[i] = (struct blk_req){ .op = BLK_WRITE,
					    .sector = i,
					    .segs = &segs[i],
					    .nr_segs = 1,
					    .done = one_of_many };
	}
	blk_submit_many(bd, reqs, MANY);
	completion_wait(&many_done);
	for (unsigned int i = 0; i < MANY; i++) {
		EXPECT_EQ(t, reqs[i].status, 0);
		EXPECT_EQ(t, f->ns[0].data[i * 512], (uint8_t)i);
	}
	end();
}

static enum fake_deed fail_a_flush(struct fake *fk, unsigned int sq, const struct nvme_cmd *cmd,
				   uint16_t *status)
{
	if (sq && cmd->opcode == NVME_IO_FLUSH && fk->hook_left && !--fk->hook_left)
		*status = 0x281; /* a media error */
	return FAKE_DO;
}

static void flush_and_fua(struct ktest *t)
{
	set_up();
	ASSERT_EQ(t, begin(), 0);
	EXPECT_EQ(t, blk_flush(bd), 0);
	EXPECT_EQ(t, blk_write(bd, 0, mem, 4096, BLK_FUA), 0);
	EXPECT_EQ(t, blk_write(bd, 0, mem, 4096, 0), 0);
	EXPECT_EQ(t, f->nr_flushes, 1u);
	EXPECT_EQ(t, f->nr_fua, 1u);
	end();

	/* One that ignores FUA; a request of several commands has one flush. */
	set_up();
	f->id.vid = cpu_to_le16(NVME_VID_QEMU);
	f->id.mdts = 1;
	ASSERT_EQ(t, begin(), 0);
	f->hook = fail_a_flush;
	f->hook_left = 3;
	EXPECT_EQ(t, blk_write(bd, 0, mem, 32768, BLK_FUA), 0);
	EXPECT_EQ(t, f->nr_flushes, 1u);
	EXPECT_EQ(t, blk_write(bd, 0, mem, 4096, 0), 0);
	EXPECT_EQ(t, blk_write(bd, 0, mem, 512, BLK_FUA), 0);
	EXPECT_EQ(t, f->nr_flushes, 2u);
	EXPECT_EQ(t, blk_write(bd, 0, mem, 512, BLK_FUA), -EIO);
	EXPECT_EQ(t, blk_flush(bd), 0);
	end();

	set_up();
	f->id.vwc = 0; /* nothing volatile: neither is needed */
	ASSERT_EQ(t, begin(), 0);
	EXPECT_EQ(t, blk_flush(bd), 0);
	EXPECT_EQ(t, blk_write(bd, 0, mem, 4096, BLK_FUA), 0);
	EXPECT_EQ(t, f->nr_flushes, 0u);
	EXPECT_EQ(t, f->nr_fua, 0u);
	end();
}

static void ranges(struct ktest *t)
{
	set_up();
	f->id.mdts = 1; /* 16 sectors */
	ASSERT_EQ(t, begin(), 0);
	memset(f->ns[0].data, 0xff, BLOCKS * 512);
	EXPECT_EQ(t, blk_zero(bd, 10, 40), 0);
	EXPECT_EQ(t, f->nr_zeroings, 3u);
	EXPECT_EQ(t, f->ns[0].data[10 * 512 - 1], 0xff);
	EXPECT_EQ(t, f->ns[0].data[10 * 512], 0);
	EXPECT_EQ(t, f->ns[0].data[50 * 512 - 1], 0);
	EXPECT_EQ(t, f->ns[0].data[50 * 512], 0xff);
	EXPECT_EQ(t, blk_discard(bd, 100, 1000), 0);
	EXPECT_EQ(t, f->nr_ranges, 1u);
	EXPECT_EQ(t, f->ns[0].data[100 * 512], 0xdd);
	EXPECT_EQ(t, f->ns[0].data[1100 * 512 - 1], 0xdd);
	EXPECT_EQ(t, f->ns[0].data[1100 * 512], 0xff);
	EXPECT_EQ(t, blk_discard(bd, BLOCKS - 1, 2), -EIO);
	EXPECT_EQ(t, blk_zero(bd, 0, 0), -EINVAL);
	end();

	set_up();
	f->id.oncs = cpu_to_le16(0);
	ASSERT_EQ(t, begin(), 0);
	EXPECT_EQ(t, blk_zero(bd, 10, 40), -EOPNOTSUPP);
	EXPECT_EQ(t, blk_discard(bd, 10, 40), -EOPNOTSUPP);
	end();
}

/* --- what fails */

static enum fake_deed fail_io(struct fake *fk, unsigned int sq, const struct nvme_cmd *cmd,
			      uint16_t *status)
{
	(void)cmd;
	if (sq && fk->hook_left) {
		fk->hook_left--;
		*status = (uint16_t)(uintptr_t)fk->c.bus_data;
	}
	return FAKE_DO;
}

static void errors_are_told(struct ktest *t)
{
	set_up();
	ASSERT_EQ(t, begin(), 0);
	f->hook = fail_io;
	f->c.bus_data = (void *)0x281ul; /* a media error: tried once */
	f->hook_left = 1;
	shim_log_clear();
	EXPECT_EQ(t, blk_read(bd, 8, mem, 4096), -EIO);
	EXPECT_TRUE(t, shim_log_contains("n1: read of 4096 bytes at sector 8 failed (-5)"));
	EXPECT_EQ(t, blk_read(bd, 8, mem, 4096), 0);
	/* Not ready: tried again, but not for ever. */
	f->c.bus_data = (void *)(uintptr_t)NVME_SC_NOT_READY;
	f->hook_left = NVME_TRIES - 1;
	EXPECT_EQ(t, blk_read(bd, 8, mem, 4096), 0);
	f->hook_left = NVME_TRIES;
	EXPECT_EQ(t, blk_read(bd, 8, mem, 4096), -EIO);
	EXPECT_EQ(t, f->hook_left, 0u);
	f->c.bus_data = (void *)(uintptr_t)(NVME_SC_NOT_READY | NVME_SC_DNR);
	f->hook_left = 1;
	EXPECT_EQ(t, blk_read(bd, 8, mem, 4096), -EIO);
	f->c.bus_data = (void *)(uintptr_t)NVME_SC_CAPACITY_EXCEEDED;
	f->hook_left = 1;
	EXPECT_EQ(t, blk_write(bd, 8, mem, 4096, 0), -ENOSPC);
	/* One bad command of many spoils its request, once. */
	f->c.bus_data = (void *)0x280ul;
	f->hook_left = 1;
	EXPECT_EQ(t, blk_write(bd, 0, mem, AREA, 0), -EIO);
	EXPECT_EQ(t, blk_write(bd, 0, mem, AREA, 0), 0);
	end();
}

static enum fake_deed swallow_io(struct fake *fk, unsigned int sq, const struct nvme_cmd *cmd,
				 uint16_t *status)
{
	(void)cmd;
	(void)status;
	if (!sq || !fk->hook_left)
		return FAKE_DO;
	fk->hook_left--;
	return FAKE_SWALLOW;
}

static void lost_commands_are_aborted(struct ktest *t)
{
	const uint64_t aborts = counted("nvme.aborts"), resets = counted("nvme.resets");
	struct watched w;

	set_up();
	ASSERT_EQ(t, begin(), 0);
	f->hook = swallow_io;
	f->hook_left = 1;
	shim_log_clear();
	memset(mem, 0x42, 4096);
	launch(&w, BLK_WRITE, 16);
	EXPECT_EQ(t, outcome(&w), 0);
	EXPECT_EQ(t, f->ns[0].data[16 * 512], 0x42);
	EXPECT_TRUE(t, shim_log_contains("sector 16 has been waited for"));
	EXPECT_EQ(t, counted("nvme.aborts"), aborts + 1);
	EXPECT_EQ(t, counted("nvme.resets"), resets);
	/* Lost each time: the request fails, the disk stays. */
	f->hook_left = NVME_TRIES;
	launch(&w, BLK_WRITE, 16);
	EXPECT_EQ(t, outcome(&w), -EIO);
	EXPECT_EQ(t, counted("nvme.aborts"), aborts + 1 + NVME_TRIES);
	EXPECT_EQ(t, blk_write(bd, 0, mem, 4096, 0), 0);
	end();
}

static void lost_interrupts_are_noticed(struct ktest *t)
{
	struct watched w;

	set_up();
	ASSERT_EQ(t, begin(), 0);
	f->no_interrupts = true;
	launch(&w, BLK_WRITE, 16);
	EXPECT_EQ(t, outcome(&w), 0);
	EXPECT_EQ(t, f->nr_enables, 1u); /* no reset was needed */
	end();
}

static void resets_bring_it_back(struct ktest *t)
{
	struct watched w[3];

	set_up();
	fake_add_ns(f, 2, 64, 12);
	ASSERT_EQ(t, begin(), 0);
	f->hook = swallow_io;
	f->deaf_abort = true;
	f->hook_left = 1;
	memset(mem, 0x43, 4096);
	launch(&w[0], BLK_WRITE, 16);
	launch(&w[1], BLK_FLUSH, 0);
	EXPECT_EQ(t, outcome(&w[0]), 0);
	EXPECT_EQ(t, outcome(&w[1]), 0);
	EXPECT_EQ(t, f->nr_enables, 2u);
	EXPECT_EQ(t, f->ns[0].data[16 * 512], 0x43);
	/* A fatal error, and a controller that stops by itself, with requests on the way. */
	for (unsigned int i = 0; i < 2; i++) {
		f->hook_left = 3;
		for (unsigned int n = 0; n < 3; n++)
			launch(&w[n], n == 1 ? BLK_READ : BLK_WRITE, 16 * n);
		while (__atomic_load_n(&f->hook_left, __ATOMIC_RELAXED))
			usleep(500); /* until the controller has them all */
		fake_set_csts(f, i ? 0 : NVME_CSTS_RDY | NVME_CSTS_CFS);
		for (unsigned int n = 0; n < 3; n++)
			EXPECT_EQ(t, outcome(&w[n]), 0);
		EXPECT_EQ(t, f->nr_enables, 3u + i);
	}
	EXPECT_EQ(t, f->nr_fences, 0u);
	end();
}

static enum fake_deed stop_io(struct fake *fk, unsigned int sq, const struct nvme_cmd *cmd,
			      uint16_t *status)
{
	(void)fk;
	(void)cmd;
	(void)status;
	return sq ? FAKE_STOP : FAKE_DO;
}

/* Each reset works, and each time it falls silent again, to Aborts too: that has an end. */
static void resets_have_an_end(struct ktest *t)
{
	struct watched w;

	set_up();
	ASSERT_EQ(t, begin(), 0);
	f->hook = stop_io;
	launch(&w, BLK_READ, 0);
	EXPECT_EQ(t, outcome(&w), -EIO);
	EXPECT_EQ(t, f->nr_enables, 1 + NVME_TRIES);
	f->hook = NULL;
	EXPECT_EQ(t, blk_read(bd, 0, mem, 4096), 0);
	end();
}

static void what_does_not_come_back_is_given_up(struct ktest *t)
{
	struct watched w[2];

	for (unsigned int i = 0; i < 4; i++) {
		set_up();
		ASSERT_EQ(t, begin(), 0);
		f->hook = swallow_io;
		f->hook_left = 2;
		launch(&w[0], BLK_WRITE, 0);
		launch(&w[1], BLK_READ, 8);
		fake_lock(f);
		if (i == 0)
			f->never_ready = true;
		else if (i == 1)
			f->ns[0].blocks /= 2; /* smaller */
		else if (i == 2)
			f->id.serial[0] = 'x'; /* another one */
		else
			f->granted = 1u << 16 | 1; /* two queues, where there were four */
		fake_unlock(f);
		fake_set_csts(f, NVME_CSTS_CFS);
		EXPECT_EQ(t, outcome(&w[0]), -EIO);
		EXPECT_EQ(t, outcome(&w[1]), -EIO);
		EXPECT_EQ(t, f->nr_fences, 1u);
		EXPECT_EQ(t, blk_read(bd, 0, mem, 4096), -EIO);
		EXPECT_EQ(t, blk_flush(bd), -EIO);
		end();
	}
}

static void gone_is_gone(struct ktest *t)
{
	struct watched w[2];

	set_up();
	ASSERT_EQ(t, begin(), 0);
	f->hook = swallow_io;
	f->hook_left = 1;
	launch(&w[0], BLK_WRITE, 0);
	fake_vanish(f);
	launch(&w[1], BLK_READ, 8);
	shim_log_clear();
	EXPECT_EQ(t, outcome(&w[0]), -EIO);
	EXPECT_EQ(t, outcome(&w[1]), -EIO);
	EXPECT_TRUE(t, shim_log_contains("it is gone: taken out of use"));
	EXPECT_EQ(t, blk_read(bd, 0, mem, 4096), -EIO);
	end();
}

/* --- what lies */

static unsigned int lie;

/* Instead of an answer: */
static enum fake_deed lie_io(struct fake *fk, unsigned int sq, const struct nvme_cmd *cmd,
			     uint16_t *status)
{
	const uint16_t cid = le16_to_cpu(cmd->cid);
	const uint16_t id = (uint16_t)sq;

	(void)status;
	if (!sq || !fk->hook_left)
		return FAKE_DO;
	fk->hook_left--;
	switch (lie) {
	case 0: /* a slot that does not exist */
		fake_post(fk, sq, 0x3ff, id, 0, 0);
		break;
	case 1: /* one that is not in use */
		fake_post(fk, sq, (uint16_t)(cid ^ 1), id, 0, 0);
		break;
	case 2: /* an earlier use of it */
		fake_post(fk, sq, (uint16_t)(cid - 0x400), id, 0, 0);
		break;
	case 3: /* another queue */
		fake_post(fk, sq, cid, (uint16_t)(id + 1), 0, 0);
		break;
	case 4: /* a head outside of the ring */
		fake_post(fk, sq, cid, id, 0xffff, 0);
		break;
	case 5: /* twice */
		fake_post(fk, sq, cid, id, 0, 0);
		fake_post(fk, sq, cid, id, 0, 0);
		break;
	}
	return FAKE_ANSWERED;
}

static void lies_are_found(struct ktest *t)
{
	for (lie = 0; lie < 6; lie++) {
		struct watched w[2];

		set_up();
		ASSERT_EQ(t, begin(), 0);
		f->hook = lie_io;
		f->hook_left = 1;
		shim_log_clear();
		launch(&w[0], BLK_READ, 0);
		EXPECT_EQ(t, outcome(&w[0]), lie == 5 ? 0 : -EIO);
		launch(&w[1], BLK_READ, 0);
		EXPECT_TRUE(t, outcome(&w[1]) <= 0);
		for (unsigned int i = 0; i < 1000 && !READ_ONCE(f->nr_fences); i++)
			usleep(1000);
		EXPECT_EQ(t, f->nr_fences, 1u);
		EXPECT_TRUE(t, shim_log_contains("answers what was not asked: taken out of use"));
		EXPECT_EQ(t, blk_read(bd, 0, mem, 4096), -EIO);
		end();
	}
}

/* Answers of the wrong phase are none, wherever the ring stands. */
static void phases(struct ktest *t)
{
	set_up();
	f->cap = (f->cap & ~0xffffull) | 4; /* rings of 5 */
	ASSERT_EQ(t, begin(), 0);
	for (unsigned int i = 0; i < 23; i++) {
		struct nvme_queue *q = &f->c.io[0];
		unsigned long flags = spin_lock_irqsave(&q->lock);

		/* Where the next answer will be: one of the round before. */
		q->cq[q->cq_head] = (struct nvme_cqe){
			.cid = cpu_to_le16(0xffff),
			.status = cpu_to_le16((uint16_t)(0xfffe | !q->phase)),
		};
		spin_unlock_irqrestore(&q->lock, flags);
		nvme_queue_irq(q);
		EXPECT_EQ(t, blk_write(bd, i, mem, 512, 0), 0);
	}
	EXPECT_EQ(t, f->nr_fences, 0u);
	end();
}

static enum fake_deed admin_silence(struct fake *fk, unsigned int sq, const struct nvme_cmd *cmd,
				    uint16_t *status)
{
	(void)status;
	if (sq || cmd->opcode != (uint8_t)(uintptr_t)fk->c.bus_data)
		return FAKE_DO;
	return FAKE_STOP;
}

static enum fake_deed admin_error(struct fake *fk, unsigned int sq, const struct nvme_cmd *cmd,
				  uint16_t *status)
{
	if (!sq && cmd->opcode == (uint8_t)(uintptr_t)fk->c.bus_data)
		*status = NVME_SC_INVALID_FIELD;
	return FAKE_DO;
}

static bool ticking; /* atomic */

static void tick(void *arg)
{
	(void)arg;
	while (__atomic_load_n(&ticking, __ATOMIC_RELAXED)) {
		shim_time_advance_ns(100 * NSEC_PER_MSEC);
		usleep(500);
	}
}

/* fake_start() while time passes quickly. */
static int begin_in_haste(void)
{
	struct thread *clock;
	int err;

	ticking = true;
	clock = thread_create("clock", tick, NULL);
	err = begin();
	__atomic_store_n(&ticking, false, __ATOMIC_RELAXED);
	thread_join(clock);
	return err;
}

static void bad_starts(struct ktest *t)
{
	static const uint8_t ops[] = { NVME_ADMIN_IDENTIFY, NVME_ADMIN_SET_FEATURES,
				       NVME_ADMIN_CREATE_CQ, NVME_ADMIN_CREATE_SQ };

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		set_up();
		f->hook = admin_silence;
		f->c.bus_data = (void *)(uintptr_t)ops[i];
		EXPECT_EQ(t, begin_in_haste(), -ETIMEDOUT);
		end();
		set_up();
		f->hook = admin_error;
		f->c.bus_data = (void *)(uintptr_t)ops[i];
		EXPECT_EQ(t, begin(), -EIO);
		end();
	}
	set_up();
	f->never_ready = true;
	EXPECT_EQ(t, begin_in_haste(), -ETIMEDOUT);
	end();
	set_up();
	fake_vanish(f);
	EXPECT_EQ(t, begin(), -ENODEV);
	end();
	set_up();
	f->id.nn = cpu_to_le32(0);
	EXPECT_EQ(t, begin(), -EINVAL);
	end();
	/* Too many queues granted, blocks that are too small, and an id above the highest. */
	set_up();
	f->granted = UINT32_MAX;
	fake_add_ns(f, 2, 64, 3);
	EXPECT_EQ(t, begin(), 0);
	EXPECT_EQ(t, f->c.nr_io, 4u);
	EXPECT_TRUE(t, bd && !disk(2));
	end();
	set_up();
	fake_add_ns(f, 65, 64, 9);
	EXPECT_EQ(t, begin(), -EINVAL);
	end();
}

static void without_memory(struct ktest *t)
{
	int err = -ENOMEM;

	for (long n = 0; n < 40 && err; n++) {
		set_up();
		shim_fail_alloc_after(n);
		err = begin();
		shim_fail_alloc_after(-1);
		EXPECT_TRUE(t, err == 0 || err == -ENOMEM);
		end();
	}
	EXPECT_EQ(t, err, 0);
	err = -ENOMEM;
	for (long n = 0; n < 100 && err; n++) {
		set_up();
		shim_fail_frame_after(n);
		err = begin();
		shim_fail_frame_after(-1);
		EXPECT_TRUE(t, err == 0 || err == -ENOMEM);
		end();
	}
	EXPECT_EQ(t, err, 0);
}

static const struct ktest_case nvme_cases[] = {
	KTEST(disks_are_found),
	KTEST(random_io),
	KTEST(one_doorbell_for_a_batch),
	KTEST(more_than_a_ring),
	KTEST(flush_and_fua),
	KTEST(ranges),
	KTEST(errors_are_told),
	KTEST(lost_commands_are_aborted),
	KTEST(lost_interrupts_are_noticed),
	KTEST(resets_bring_it_back),
	KTEST(resets_have_an_end),
	KTEST(what_does_not_come_back_is_given_up),
	KTEST(gone_is_gone),
	KTEST(lies_are_found),
	KTEST(phases),
	KTEST(bad_starts),
	KTEST(without_memory),
	{ 0 },
};
static const struct ktest_suite nvme_suite = { .name = "nvme.disk", .cases = nvme_cases };
KTEST_SUITE(nvme_suite);
