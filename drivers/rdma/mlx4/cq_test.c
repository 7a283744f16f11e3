/* SPDX-License-Identifier: MIT */
/* ConnectX-3: completions of queue pairs that a reset has lost, and of a dead device. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "mlx4.h"
#include "regs.h"

#define NR_CQE 32
#define NR_WQE 16

struct bench {
	struct mlx4_dev dev;
	struct mlx4_cq cq;
	struct mlx4_qp old, young; /* from before and after a reset */
	uint64_t wrid[4][NR_WQE];
	be32_t rec[2];
	uint8_t cqes[NR_CQE * CQE_LEN];
	unsigned int nr_events;
};

static void count_event(struct rdma_cq *cq, void *arg)
{
	struct bench *b = arg;

	b->nr_events++;
}

static void wq_set(struct mlx4_wq *wq, uint64_t *wrid, uint32_t outstanding, uint64_t first)
{
	spin_lock_init(&wq->lock, "test_wq", RANK_RDMA_QP);
	wq->nr = NR_WQE;
	wq->wrid = wrid;
	wq->tail = 5; /* it has worked before */
	wq->head = 5 + outstanding;
	for (uint32_t n = 0; n < outstanding; n++)
		wrid[(5 + n) & (NR_WQE - 1)] = first + n;
}

static void qp_set(struct bench *b, struct mlx4_qp *qp, uint32_t qpn, uint32_t born)
{
	qp->qpn = qpn;
	qp->born = born;
	qp->send_cq = &b->cq;
	qp->recv_cq = &b->cq;
	qp->rdma.dev = &b->dev.rdma;
	qp->rdma.context = b;
	mlx4_cq_attach(qp);
}

/* A device that was reset once, with a queue pair from before, and one from after. */
static struct bench *bench_new(void)
{
	struct bench *b = kzalloc(sizeof(*b));

	if (!b)
		return NULL;
	spin_lock_init(&b->cq.lock, "test_cq", RANK_RDMA_CQ);
	list_init(&b->cq.send_qps);
	list_init(&b->cq.recv_qps);
	b->cq.nr = NR_CQE;
	b->cq.buf.virt = b->cqes;
	b->cq.db.rec = b->rec;
	b->cq.rdma.dev = &b->dev.rdma;
	b->cq.rdma.event = count_event;
	b->cq.rdma.event_arg = b;
	for (unsigned int n = 0; n < NR_CQE; n++)
		b->cqes[n * CQE_LEN + 0x1f] = CQE_OWNER;
	wq_set(&b->old.sq, b->wrid[0], 3, 100);
	wq_set(&b->old.rq, b->wrid[1], 2, 200);
	wq_set(&b->young.sq, b->wrid[2], 2, 300);
	wq_set(&b->young.rq, b->wrid[3], 0, 400);
	qp_set(b, &b->old, 7, 0);
	qp_set(b, &b->young, 8, 1);
	b->dev.nr_lives = 1;
	b->cq.has_lost = true; /* what the restart finds out */
	return b;
}

static void lost_queue_pairs_are_flushed(struct ktest *t)
{
	static const uint64_t want[] = { 100, 101, 102, 200, 201 };
	struct bench *b = bench_new();
	struct rdma_wc wc[8];

	ASSERT_TRUE(t, b != NULL);
	/* In pieces, and nothing of the one that the device knows. */
	EXPECT_EQ(t, mlx4_poll_cq(&b->cq.rdma, wc, 2), 2);
	EXPECT_EQ(t, mlx4_poll_cq(&b->cq.rdma, wc + 2, 6), 3);
	for (unsigned int n = 0; n < ARRAY_SIZE(want); n++) {
		EXPECT_EQ(t, wc[n].wr_id, want[n]);
		EXPECT_EQ(t, wc[n].status, RDMA_WC_FATAL_ERR);
		EXPECT_TRUE(t, wc[n].qp == &b->old.rdma);
		EXPECT_TRUE(t, wc[n].context == b);
	}
	EXPECT_EQ(t, mlx4_poll_cq(&b->cq.rdma, wc, 8), 0);
	EXPECT_TRUE(t, b->cq.has_lost); /* more may be posted on it */
	mlx4_cq_detach(&b->dev, &b->old);
	EXPECT_FALSE(t, b->cq.has_lost);
	kfree(b);
}

static void dead_device_flushes_everything(struct ktest *t)
{
	struct bench *b = bench_new();
	struct rdma_wc wc[8];

	ASSERT_TRUE(t, b != NULL);
	atomic_set(&b->dev.state, MLX4_DEAD);
	EXPECT_EQ(t, mlx4_poll_cq(&b->cq.rdma, wc, 8), 7);
	atomic_set(&b->dev.state, MLX4_RECOVERING);
	EXPECT_EQ(t, mlx4_poll_cq(&b->cq.rdma, wc, 8), 0);
	kfree(b);
}

/* Arming a queue without completions must not raise an event at once, for ever. */
static void arming_of_a_dead_device(struct ktest *t)
{
	struct bench *b = bench_new();
	struct rdma_wc wc[8];

	ASSERT_TRUE(t, b != NULL);
	atomic_set(&b->dev.state, MLX4_DEAD);
	mlx4_arm_cq(&b->cq.rdma, false);
	EXPECT_EQ(t, b->nr_events, 1U);
	EXPECT_EQ(t, mlx4_poll_cq(&b->cq.rdma, wc, 8), 7);
	mlx4_arm_cq(&b->cq.rdma, false);
	EXPECT_EQ(t, b->nr_events, 1U);
	kfree(b);
}

static const struct ktest_case cq_cases[] = {
	KTEST(lost_queue_pairs_are_flushed),
	KTEST(dead_device_flushes_everything),
	KTEST(arming_of_a_dead_device),
	{ 0 },
};
static const struct ktest_suite cq_suite = { .name = "rdma.mlx4.cq", .cases = cq_cases };
KTEST_SUITE(cq_suite);
