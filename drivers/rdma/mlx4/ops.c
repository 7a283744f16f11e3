/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: the table of verbs.
 *
 * Locking:	every verb that makes, changes or ends an object runs inside mlx4_enter() and
 *		mlx4_leave(): recovery walks all objects, and must find them whole.  Posting,
 *		polling and arming are outside; they look at the device's state themselves.
 */
#include <arch/cpu.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <mm/slab.h>

#include "mlx4.h"
#include "regs.h"

#define MAX_INLINE 512

static void mlx4_device_attr(const struct rdma_device *rdma, struct rdma_device_attr *attr)
{
	const struct mlx4_dev *dev = container_of(rdma, struct mlx4_dev, rdma);
	const struct mlx4_caps *c = &dev->caps;
	const uint32_t log_wqes = MIN(c->log_max_qp_wqes, (uint8_t)15);
	/* Room beside the headers of the longest kind of request. */
	const uint32_t sge_room = (MIN(c->max_sq_desc, (uint16_t)1024) - 112U) / WQE_DATA_LEN;

	lock_not_needed(&dev->table_lock, "the bounds of the numbers are const");
	*attr = (struct rdma_device_attr){
		.max_qp = dev->qpns.nr - dev->qpns.first,
		.max_cq = dev->cqns.nr - dev->cqns.first,
		.max_mr = dev->mpts.nr - dev->mpts.first,
		.max_qp_wr = (1U << log_wqes) - (SQ_HEADROOM_BYTES / WQE_LINE + 1),
		.max_cqe = (1U << MIN(c->log_max_cqes, (uint8_t)22)) - 1,
		.max_sge = MIN(MIN((uint32_t)c->max_sq_sg, (uint32_t)c->max_rq_sg),
			       MIN(sge_room, (uint32_t)c->max_rq_desc / WQE_DATA_LEN)),
		.max_inline = MIN((uint32_t)MAX_INLINE, c->max_sq_desc / 2U),
		.max_rd_atomic = 1U << MIN(MIN(c->log_max_rd_requester, c->log_max_rd_responder),
					   dev->prof.log_rdmarc),
		.nr_ports = c->nr_ports,
		.nr_comp_vectors = dev->nr_comp_eqs,
	};
}

/*
 * While it waits, another CPU could not reach the device (MLX4_HINT_ONE_AT_ONCE), and this one
 * takes no interrupt.
 */
static bool mlx4_wait(struct rdma_device *rdma, uint64_t ns)
{
	struct mlx4_dev *dev = to_mlx4(rdma);
	const int step = mlx4_wait_step(ns);

	if (!(dev->hints & MLX4_HINT_WAIT) || cpu_online_count() > 1 || step < 0 ||
	    mlx4_is_dead(dev))
		return false;
	(void)dev->regs->read(dev, MLX4_WAIT + 4 * (uint32_t)step);
	return true;
}

static struct rdma_pd *mlx4_pd_create(struct rdma_device *rdma)
{
	struct mlx4_dev *dev = to_mlx4(rdma);
	struct mlx4_pd *pd = kzalloc(sizeof(*pd));
	int err;

	if (!pd)
		return ERR_PTR(-ENOMEM);
	spin_lock(&dev->table_lock);
	err = mlx4_ids_get(&dev->pdns, 1, 1, &pd->pdn);
	spin_unlock(&dev->table_lock);
	if (err) {
		kfree(pd);
		return ERR_PTR(err);
	}
	return &pd->rdma;
}

static void mlx4_pd_destroy(struct rdma_pd *rdma)
{
	struct mlx4_dev *dev = to_mlx4(rdma->dev);
	struct mlx4_pd *pd = container_of(rdma, struct mlx4_pd, rdma);

	spin_lock(&dev->table_lock);
	mlx4_ids_put(&dev->pdns, pd->pdn, 1);
	spin_unlock(&dev->table_lock);
	kfree(pd);
}

/* --- against recovery ---------------------------------------------------------------- */

/*
 * Something could not be made in life @lives of the device.  Regions and completion queues
 * outlive a reset, so their makers need not know of it: wait for the device.  True: try again.
 */
static bool came_back(struct mlx4_dev *dev, uint32_t lives)
{
	/* The device's thread is the one that brings it back. */
	if (!READ_ONCE(dev->registered) || thread_current() == dev->event_thread)
		return false;
	wait_event(&dev->event_wq, !mlx4_is_dead(dev) || READ_ONCE(dev->given_up));
	return !mlx4_is_dead(dev) && READ_ONCE(dev->nr_lives) != lives;
}

static struct rdma_mr *gated_mr_create(struct rdma_pd *pd, uint64_t iova,
				       const struct rdma_phys_range *ranges, size_t nr_ranges,
				       uint64_t len, uint32_t access)
{
	struct mlx4_dev *m = to_mlx4(pd->dev);
	struct rdma_mr *ret;
	uint32_t lives;

	do {
		lives = READ_ONCE(m->nr_lives);
		mlx4_enter(m);
		ret = mlx4_mr_create(pd, iova, ranges, nr_ranges, len, access);
		mlx4_leave(m);
	} while (IS_ERR(ret) && came_back(m, lives));
	return ret;
}

static void gated_mr_destroy(struct rdma_mr *mr)
{
	struct mlx4_dev *m = to_mlx4(mr->dev);

	mlx4_enter(m);
	mlx4_mr_destroy(mr);
	mlx4_leave(m);
}

static struct rdma_cq *gated_cq_create(struct rdma_device *dev, uint32_t nr_cqe, uint32_t vector)
{
	struct mlx4_dev *m = to_mlx4(dev);
	struct rdma_cq *ret;
	uint32_t lives;

	do {
		lives = READ_ONCE(m->nr_lives);
		mlx4_enter(m);
		ret = mlx4_cq_create(dev, nr_cqe, vector);
		mlx4_leave(m);
	} while (IS_ERR(ret) && came_back(m, lives));
	return ret;
}

static void gated_cq_destroy(struct rdma_cq *cq)
{
	struct mlx4_dev *m = to_mlx4(cq->dev);

	mlx4_enter(m);
	mlx4_cq_destroy(cq);
	mlx4_leave(m);
}

static struct rdma_qp *gated_qp_create(struct rdma_pd *pd, const struct rdma_qp_init *init)
{
	struct mlx4_dev *m = to_mlx4(pd->dev);
	struct rdma_qp *ret;

	mlx4_enter(m);
	ret = mlx4_qp_create(pd, init);
	mlx4_leave(m);
	return ret;
}

static void gated_qp_destroy(struct rdma_qp *qp)
{
	struct mlx4_dev *m = to_mlx4(qp->dev);

	mlx4_enter(m);
	mlx4_qp_destroy(qp);
	mlx4_leave(m);
}

static int gated_qp_to_init(struct rdma_qp *qp, uint32_t access)
{
	struct mlx4_dev *m = to_mlx4(qp->dev);
	int ret;

	mlx4_enter(m);
	ret = mlx4_qp_to_init(qp, access);
	mlx4_leave(m);
	return ret;
}

static int gated_qp_to_rtr(struct rdma_qp *qp, const struct rdma_qp_conn *conn)
{
	struct mlx4_dev *m = to_mlx4(qp->dev);
	int ret;

	mlx4_enter(m);
	ret = mlx4_qp_to_rtr(qp, conn);
	mlx4_leave(m);
	return ret;
}

static int gated_qp_to_rts(struct rdma_qp *qp, const struct rdma_qp_conn *conn)
{
	struct mlx4_dev *m = to_mlx4(qp->dev);
	int ret;

	mlx4_enter(m);
	ret = mlx4_qp_to_rts(qp, conn);
	mlx4_leave(m);
	return ret;
}

static int gated_qp_to_rts_ud(struct rdma_qp *qp)
{
	struct mlx4_dev *m = to_mlx4(qp->dev);
	int ret;

	mlx4_enter(m);
	ret = mlx4_qp_to_rts_ud(qp);
	mlx4_leave(m);
	return ret;
}

static int gated_qp_to_err(struct rdma_qp *qp)
{
	struct mlx4_dev *m = to_mlx4(qp->dev);
	int ret;

	mlx4_enter(m);
	ret = mlx4_qp_to_err(qp);
	mlx4_leave(m);
	return ret;
}

static int gated_process_mad(struct rdma_device *dev, uint8_t port, const struct rdma_addr *from,
			     uint32_t src_qpn, const void *in, void *out)
{
	struct mlx4_dev *m = to_mlx4(dev);
	int ret;

	mlx4_enter(m);
	ret = mlx4_process_mad(dev, port, from, src_qpn, in, out);
	mlx4_leave(m);
	return ret;
}

const struct rdma_device_ops mlx4_rdma_ops = {
	.device_attr = mlx4_device_attr,
	.port_attr = mlx4_port_attr,
	.pd_create = mlx4_pd_create,
	.pd_destroy = mlx4_pd_destroy,
	.mr_create = gated_mr_create,
	.mr_destroy = gated_mr_destroy,
	.cq_create = gated_cq_create,
	.cq_destroy = gated_cq_destroy,
	.qp_create = gated_qp_create,
	.qp_destroy = gated_qp_destroy,
	.qp_to_init = gated_qp_to_init,
	.qp_to_rtr = gated_qp_to_rtr,
	.qp_to_rts = gated_qp_to_rts,
	.qp_to_rts_ud = gated_qp_to_rts_ud,
	.qp_to_err = gated_qp_to_err,
	.post_send = mlx4_post_send,
	.ring_send = mlx4_ring_send,
	.post_recv = mlx4_post_recv,
	.poll_cq = mlx4_poll_cq,
	.arm_cq = mlx4_arm_cq,
	.wait = mlx4_wait,
	.process_mad = gated_process_mad,
};
