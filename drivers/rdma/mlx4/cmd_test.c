/* SPDX-License-Identifier: MIT */
/* ConnectX-3: the command interface against a fake register. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "mlx4.h"
#include "regs.h"

enum fake_mode {
	FAKE_OK,     /* execute at once */
	FAKE_SLOW,   /* GO stays for a few reads */
	FAKE_REFUSE, /* answer with ->status */
	FAKE_GONE,   /* all ones */
};

struct fake {
	struct mlx4_dev dev; /* first: the register functions get a pointer to it */
	uint32_t hcr[7];
	enum fake_mode mode;
	uint8_t status;
	unsigned int reads_left;
	unsigned int nr_writes, nr_cmds;
	uint32_t last_word;
};

static uint32_t fake_read(struct mlx4_dev *dev, uint32_t off)
{
	struct fake *f = container_of(dev, struct fake, dev);

	if (f->mode == FAKE_GONE)
		return ~0U;
	if (off == MLX4_HCR + HCR_STATUS && f->reads_left && --f->reads_left == 0)
		f->hcr[6] &= ~HCR_GO;
	return f->hcr[(off - MLX4_HCR) / 4];
}

static void fake_write(struct mlx4_dev *dev, uint32_t off, uint32_t val)
{
	struct fake *f = container_of(dev, struct fake, dev);

	f->nr_writes++;
	f->hcr[(off - MLX4_HCR) / 4] = val;
	if (off != MLX4_HCR + HCR_STATUS || f->mode == FAKE_GONE)
		return;
	f->nr_cmds++;
	f->last_word = val;
	f->hcr[3] = 0xaabbccdd;
	f->hcr[4] = f->hcr[1];
	f->hcr[6] = val & 0x00ffffff;
	if (val & HCR_EVENT) {
		const uint16_t token = (uint16_t)(f->hcr[5] >> 16);

		f->hcr[6] &= ~HCR_GO;
		mlx4_cmd_event(dev, token, f->status, 0x1122334455ULL);
		/* A late one of an earlier command: it must not be taken for ours. */
		mlx4_cmd_event(dev, (uint16_t)(token - 16), STATUS_BAD_PARAM, 1);
		return;
	}
	f->hcr[6] |= (uint32_t)f->status << HCR_STATUS_SH;
	if (f->mode == FAKE_SLOW)
		f->reads_left = 5;
	else
		f->hcr[6] &= ~HCR_GO;
}

static const struct mlx4_reg_ops fake_ops = { .read = fake_read, .write = fake_write };

static struct fake *fake_new(enum fake_mode mode, uint8_t status)
{
	struct fake *f = kzalloc(sizeof(*f));

	if (!f)
		return NULL;
	f->mode = mode;
	f->status = status;
	f->dev.regs = &fake_ops;
	f->dev.name = "fake";
	waitqueue_init(&f->dev.event_wq);
	if (mlx4_cmd_init(&f->dev)) {
		kfree(f);
		return NULL;
	}
	return f;
}

static void fake_free(struct fake *f)
{
	mlx4_cmd_destroy(&f->dev);
	kfree(f);
}

static void polled_command(struct ktest *t)
{
	struct fake *f = fake_new(FAKE_OK, STATUS_OK);
	uint64_t imm = 0;
	const struct mlx4_cmd_args a = {
		.op = CMD_SET_ICM_SIZE, .op_mod = 2, .in_mod = 7, .in = 0x1234567890ULL, .imm = &imm
	};

	ASSERT_TRUE(t, f != NULL);
	EXPECT_EQ(t, mlx4_cmd(&f->dev, &a), 0);
	EXPECT_EQ(t, imm, 0xaabbccdd34567890ULL);
	EXPECT_EQ(t, f->hcr[0], 0x12U);
	EXPECT_EQ(t, f->hcr[2], 7U);
	EXPECT_EQ(t, f->hcr[5], 0xffff0000U);
	/* The first toggle is 1; it alternates. */
	EXPECT_EQ(t, f->last_word, HCR_GO | HCR_TOGGLE | 2U << 12 | CMD_SET_ICM_SIZE);
	EXPECT_EQ(t, f->nr_writes, 7U);
	EXPECT_EQ(t, mlx4_cmd(&f->dev, &a), 0);
	EXPECT_EQ(t, f->last_word & HCR_TOGGLE, 0U);
	fake_free(f);
}

static void slow_command_is_waited_for(struct ktest *t)
{
	struct fake *f = fake_new(FAKE_SLOW, STATUS_OK);

	ASSERT_TRUE(t, f != NULL);
	EXPECT_EQ(t, mlx4_cmd_none(&f->dev, CMD_NOP, 0, 0), 0);
	EXPECT_EQ(t, mlx4_cmd_none(&f->dev, CMD_NOP, 0, 0), 0);
	EXPECT_EQ(t, f->nr_cmds, 2U);
	fake_free(f);
}

static void status_becomes_errno(struct ktest *t)
{
	static const struct {
		uint8_t status;
		int err;
	} cases[] = {
		{ 0x01, -EIO },    { 0x02, -EPERM },  { 0x03, -EINVAL }, { 0x05, -EBADF },
		{ 0x06, -EBUSY },  { 0x08, -ENOMEM }, { 0x0a, -EBADF },  { 0x0c, -ENFILE },
		{ 0x10, -EINVAL }, { 0x21, -EBUSY },  { 0x40, -ENOMEM }, { 0xee, -EIO },
	};
	struct fake *f = fake_new(FAKE_REFUSE, STATUS_OK);

	ASSERT_TRUE(t, f != NULL);
	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		const struct mlx4_cmd_args a = { .op = CMD_NOP, .quiet = true };

		f->status = cases[n].status;
		EXPECT_EQ(t, mlx4_cmd(&f->dev, &a), cases[n].err);
	}
	EXPECT_FALSE(t, mlx4_is_dead(&f->dev));
	fake_free(f);
}

static void event_command(struct ktest *t)
{
	struct fake *f = fake_new(FAKE_OK, STATUS_OK);
	uint64_t imm = 0;
	const struct mlx4_cmd_args a = { .op = CMD_NOP, .imm = &imm, .quiet = true };

	ASSERT_TRUE(t, f != NULL);
	f->dev.fw.log_max_cmds = 4;
	ASSERT_EQ(t, mlx4_cmd_events_on(&f->dev), 0);
	for (unsigned int n = 0; n < 40; n++) {
		imm = 0;
		EXPECT_EQ(t, mlx4_cmd(&f->dev, &a), 0);
		EXPECT_EQ(t, imm, 0x1122334455ULL);
	}
	f->status = STATUS_BAD_INDEX;
	EXPECT_EQ(t, mlx4_cmd(&f->dev, &a), -EBADF);
	fake_free(f);
}

static void vanished_device_is_fenced(struct ktest *t)
{
	struct fake *f = fake_new(FAKE_GONE, STATUS_OK);

	ASSERT_TRUE(t, f != NULL);
	EXPECT_EQ(t, mlx4_cmd_none(&f->dev, CMD_NOP, 0, 0), -EIO);
	EXPECT_TRUE(t, mlx4_is_dead(&f->dev));
	f->mode = FAKE_OK; /* it may come back: we have given it up */
	EXPECT_EQ(t, mlx4_cmd_none(&f->dev, CMD_NOP, 0, 0), -EIO);
	EXPECT_EQ(t, f->nr_cmds, 0U);
	fake_free(f);
}

/* A reset device starts with the first toggle, polled; while it recovers only commands reach it. */
static void restart_after_a_reset(struct ktest *t)
{
	struct fake *f = fake_new(FAKE_OK, STATUS_OK);

	ASSERT_TRUE(t, f != NULL);
	f->dev.fw.log_max_cmds = 4;
	EXPECT_EQ(t, mlx4_cmd_none(&f->dev, CMD_NOP, 0, 0), 0);
	ASSERT_EQ(t, mlx4_cmd_events_on(&f->dev), 0);
	EXPECT_EQ(t, mlx4_cmd_none(&f->dev, CMD_NOP, 0, 0), 0);
	EXPECT_EQ(t, f->last_word & HCR_TOGGLE, 0U);
	EXPECT_EQ(t, mlx4_cmd_none(&f->dev, CMD_NOP, 0, 0), 0);
	mlx4_fatal(&f->dev, "test");
	EXPECT_EQ(t, mlx4_cmd_none(&f->dev, CMD_NOP, 0, 0), -EIO);
	EXPECT_EQ(t, f->nr_cmds, 3U);

	memset(f->hcr, 0, sizeof(f->hcr));
	mlx4_cmd_restart(&f->dev);
	atomic_set(&f->dev.state, MLX4_RECOVERING);
	EXPECT_TRUE(t, mlx4_is_dead(&f->dev));
	EXPECT_EQ(t, mlx4_cmd_none(&f->dev, CMD_NOP, 0, 0), 0);
	EXPECT_EQ(t, f->last_word, HCR_GO | HCR_TOGGLE | CMD_NOP);
	fake_free(f);
}

static const struct ktest_case cmd_cases[] = {
	KTEST(polled_command),
	KTEST(slow_command_is_waited_for),
	KTEST(status_becomes_errno),
	KTEST(event_command),
	KTEST(vanished_device_is_fenced),
	KTEST(restart_after_a_reset),
	{ 0 },
};
static const struct ktest_suite cmd_suite = { .name = "rdma.mlx4.cmd", .cases = cmd_cases };
KTEST_SUITE(cmd_suite);
