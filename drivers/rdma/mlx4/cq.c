/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: completion queues.
 *
 * Flow:	poll takes entries whose owner bit has turned, finds the queue pair, and writes
 *		the consumer index into the doorbell record; arm writes the record and one
 *		register.
 * Locking:	cq->lock with interrupts off, so that any context may poll.  A queue pair stays
 *		while it is on the lists of its completion queues, which the lock guards.
 * Ordering:	owner bit, dma_rmb(), the entry; doorbell record, then the register.
 * Failure:	once the device is dead, poll makes up flush completions for everything that was
 *		outstanding, so that no user waits for ever.
 */
#include <arch/barrier.h>
#include <arch/io.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "hw.h"
#include "mlx4.h"

COUNTER(cnt_stale_event, "mlx4.stale_events", "completion events of a queue that is gone");
COUNTER(cnt_stale_cqe, "mlx4.stale_cqes", "completions of a queue pair that is gone");

static struct mlx4_hw_cqe *cqe_at(const struct mlx4_cq *cq, uint32_t ci)
{
	return (struct mlx4_hw_cqe *)cq->buf.virt + (ci & (cq->nr - 1));
}

static bool cqe_ready(const struct mlx4_cq *cq, uint32_t ci)
{
	return !!(READ_ONCE(cqe_at(cq, ci)->owner) & CQE_OWNER) == !!(ci & cq->nr);
}

static void cq_set_ci(struct mlx4_cq *cq) __must_hold(&cq->lock)
{
	WRITE_ONCE(cq->db.rec[0], cpu_to_be32(cq->ci & 0xffffff));
}

/* --- create and destroy -------------------------------------------------------------- */

static void cq_context_fill(const struct mlx4_dev *dev, const struct mlx4_cq *cq,
			    struct mlx4_hw_cqc *ctx)
{
	const uint32_t log_cqes = 31U - (uint32_t)__builtin_clz(cq->nr);

	ctx->log_cqes_uar = cpu_to_be32(log_cqes << CQC_LOG_CQES_SH | dev->uar_index);
	ctx->eqn = (uint8_t)cq->eq->eqn;
	mlx4_buf_fill(&cq->buf, &ctx->buf);
	ctx->db_paddr = cpu_to_be64(cq->db.paddr);
}

static int cq_to_hw(struct mlx4_dev *dev, struct mlx4_cq *cq)
{
	struct mlx4_mbox mbox;
	int err;

	err = mlx4_mbox_get(&mbox);
	if (err)
		return err;
	cq_context_fill(dev, cq, mbox.virt);
	err = mlx4_cmd_in(dev, CMD_SW2HW_CQ, 0, cq->cqn, &mbox);
	mlx4_mbox_put(&mbox);
	return err;
}

static int cq_icm_get(struct mlx4_dev *dev, uint32_t cqn)
{
	int err = mlx4_icm_get(dev, REGION_CQC, cqn, 1);

	if (err)
		return err;
	err = mlx4_icm_get(dev, REGION_CMPT, (uint32_t)CMPT_CQ << CMPT_TYPE_SH | cqn, 1);
	if (err)
		mlx4_icm_put(dev, REGION_CQC, cqn, 1);
	return err;
}

static void cq_icm_put(struct mlx4_dev *dev, uint32_t cqn)
{
	mlx4_icm_put(dev, REGION_CMPT, (uint32_t)CMPT_CQ << CMPT_TYPE_SH | cqn, 1);
	mlx4_icm_put(dev, REGION_CQC, cqn, 1);
}

static int cq_number_get(struct mlx4_dev *dev, struct mlx4_cq *cq)
{
	int err;

	spin_lock(&dev->table_lock);
	err = mlx4_ids_get(&dev->cqns, 1, 1, &cq->cqn);
	if (!err) {
		err = mlx4_table_set(&dev->cqs, cq->cqn, cq);
		if (err)
			mlx4_ids_put(&dev->cqns, cq->cqn, 1);
	}
	spin_unlock(&dev->table_lock);
	return err;
}

static void cq_number_put(struct mlx4_dev *dev, struct mlx4_cq *cq)
{
	spin_lock(&dev->table_lock);
	mlx4_table_clear(&dev->cqs, cq->cqn);
	mlx4_ids_put(&dev->cqns, cq->cqn, 1);
	spin_unlock(&dev->table_lock);
}

/* Empty, as the device will find it. */
static void cq_clear(struct mlx4_cq *cq) __must_hold(&cq->lock)
{
	cq->ci = 0;
	WRITE_ONCE(cq->arm_sn, 1);
	memset(cq->db.rec, 0, 2 * sizeof(*cq->db.rec));
	for (uint32_t n = 0; n < cq->nr; n++)
		cqe_at(cq, n)->owner = CQE_OWNER;
}

struct rdma_cq *mlx4_cq_create(struct rdma_device *rdma, uint32_t nr_cqe, uint32_t vector)
{
	struct mlx4_dev *dev = to_mlx4(rdma);
	struct mlx4_eq *eq = &dev->comp_eqs[vector];
	struct mlx4_cq *cq;
	int err = -ENOMEM;

	if (atomic_inc_return(&eq->nr_cqs) > COMP_EQ_MAX_CQS) {
		atomic_dec(&eq->nr_cqs);
		return ERR_PTR(-ENOSPC);
	}
	cq = kzalloc(sizeof(*cq));
	if (!cq)
		goto out_eq;
	spin_lock_init(&cq->lock, "mlx4_cq", RANK_RDMA_CQ);
	list_init(&cq->send_qps);
	list_init(&cq->recv_qps);
	cq->eq = eq;
	/* One entry stays free, so that full and empty differ. */
	cq->nr = nr_cqe < 32 ? 32 : 1U << (32 - __builtin_clz(nr_cqe));

	err = cq_number_get(dev, cq);
	if (err)
		goto out_free;
	err = cq_icm_get(dev, cq->cqn);
	if (err)
		goto out_number;
	err = mlx4_db_alloc(dev, &cq->db);
	if (err)
		goto out_icm;
	err = mlx4_buf_alloc(dev, (uint64_t)cq->nr * CQE_LEN, &cq->buf);
	if (err)
		goto out_db;
	cq_clear(cq);
	err = cq_to_hw(dev, cq);
	if (err)
		goto out_buf;
	return &cq->rdma;

out_buf:
	mlx4_buf_free(dev, &cq->buf);
out_db:
	mlx4_db_free(dev, &cq->db);
out_icm:
	cq_icm_put(dev, cq->cqn);
out_number:
	cq_number_put(dev, cq);
out_free:
	kfree(cq);
out_eq:
	atomic_dec(&eq->nr_cqs);
	return ERR_PTR(err);
}

void mlx4_cq_destroy(struct rdma_cq *rdma)
{
	struct mlx4_cq *cq = container_of(rdma, struct mlx4_cq, rdma);
	struct mlx4_dev *dev = to_mlx4(rdma->dev);

	if (mlx4_cmd_none(dev, CMD_HW2SW_CQ, 1, cq->cqn) && !mlx4_is_dead(dev))
		mlx4_fatal(dev, "completion queue could not be taken back");
	spin_lock(&dev->table_lock);
	mlx4_table_clear(&dev->cqs, cq->cqn);
	spin_unlock(&dev->table_lock);
	/* No handler that found it in the table is running any more after this. */
	mlx4_eq_sync(cq->eq);
	while (atomic_read_acquire(&cq->users) && thread_current() != dev->event_thread)
		thread_yield();

	atomic_dec(&cq->eq->nr_cqs);
	mlx4_buf_free(dev, &cq->buf);
	mlx4_db_free(dev, &cq->db);
	cq_icm_put(dev, cq->cqn);
	cq_number_put(dev, cq);
	kfree(cq);
}

struct mlx4_cq *mlx4_cq_hold(struct mlx4_dev *dev, uint32_t cqn)
{
	struct mlx4_cq *cq;

	/* Under the lock under which destroy takes it out of the table. */
	spin_lock(&dev->table_lock);
	cq = mlx4_table_get(&dev->cqs, cqn);
	if (cq)
		atomic_inc(&cq->users);
	spin_unlock(&dev->table_lock);
	return cq;
}

void mlx4_cq_event(struct mlx4_dev *dev, uint32_t cqn)
{
	struct mlx4_cq *cq = mlx4_table_get(&dev->cqs, cqn);

	if (!cq) {
		/* As a rule destroyed a moment ago, so nothing to make noise about. */
		counter_inc(&cnt_stale_event);
		return;
	}
	WRITE_ONCE(cq->arm_sn, cq->arm_sn + 1);
	rdma_cq_event(&cq->rdma);
}

/* The next queue with a number of at least *@cqn, held; or NULL. */
static struct mlx4_cq *cq_next(struct mlx4_dev *dev, uint32_t *cqn)
{
	for (uint32_t n = *cqn; n < dev->cqs.nr; n++) {
		struct mlx4_cq *cq;

		if (!dev->cqs.leaves[n / TABLE_LEAF]) {
			n |= TABLE_LEAF - 1;
			continue;
		}
		cq = mlx4_cq_hold(dev, n);
		if (cq) {
			*cqn = n;
			return cq;
		}
	}
	return NULL;
}

void mlx4_cqs_wake(struct mlx4_dev *dev)
{
	struct mlx4_cq *cq;

	for (uint32_t n = 0; (cq = cq_next(dev, &n)) != NULL; n++) {
		rdma_cq_event(&cq->rdma);
		atomic_dec(&cq->users);
	}
}

/* Entries that the device had written and no poller had taken are made up again, as flushed. */
static int cq_restore(struct mlx4_dev *dev, struct mlx4_cq *cq)
{
	unsigned long flags;

	flags = spin_lock_irqsave(&cq->lock);
	cq_clear(cq);
	WRITE_ONCE(cq->has_lost, !list_empty(&cq->send_qps) || !list_empty(&cq->recv_qps));
	spin_unlock_irqrestore(&cq->lock, flags);
	return cq_to_hw(dev, cq);
}

int mlx4_cqs_restore(struct mlx4_dev *dev)
{
	struct mlx4_cq *cq;
	int err = 0;

	for (uint32_t n = 0; !err && (cq = cq_next(dev, &n)) != NULL; n++) {
		err = cq_restore(dev, cq);
		atomic_dec(&cq->users);
	}
	return err;
}

/* --- polling ------------------------------------------------------------------------- */

/* Any queue pair of ours with this number; the list is short or the table knows it. */
static struct mlx4_qp *cq_find_qp(struct mlx4_dev *dev, const struct mlx4_cq *cq, uint32_t qpn)
{
	struct mlx4_qp *qp = mlx4_qp_lookup(dev, qpn);

	return qp && (qp->send_cq == cq || qp->recv_cq == cq) ? qp : NULL;
}

static void wc_take_send(struct mlx4_qp *qp, uint16_t index, struct rdma_wc *wc)
{
	struct mlx4_wq *sq = &qp->sq;
	/* Unsignalled requests before it are done as well. */
	const uint32_t tail = sq->tail + (uint16_t)(index - (uint16_t)sq->tail);

	wc->wr_id = sq->wrid[tail & (sq->nr - 1)];
	__atomic_store_n(&sq->tail, tail + 1, __ATOMIC_RELEASE);
}

static void wc_take_recv(struct mlx4_qp *qp, struct rdma_wc *wc)
{
	struct mlx4_wq *rq = &qp->rq;

	wc->wr_id = rq->wrid[rq->tail & (rq->nr - 1)];
	__atomic_store_n(&rq->tail, rq->tail + 1, __ATOMIC_RELEASE);
}

/* Take one entry; false when it told nothing to the user. */
static bool poll_one(struct mlx4_dev *dev, struct mlx4_cq *cq, struct rdma_wc *wc)
	__must_hold(&cq->lock)
{
	struct mlx4_cqe c;
	struct mlx4_qp *qp;

	dma_rmb(); /* the owner bit before the contents */
	mlx4_cqe_decode(cqe_at(cq, cq->ci), &c);
	cq->ci++;
	qp = cq_find_qp(dev, cq, c.qpn);
	if (unlikely(!qp)) {
		counter_inc(&cnt_stale_cqe);
		return false;
	}
	wc->qp = &qp->rdma;
	wc->context = qp->rdma.context;
	mlx4_cqe_to_wc(&c, wc);
	/* Error entries say which queue by the same bit as good ones. */
	if (c.is_send)
		wc_take_send(qp, c.wqe_index, wc);
	else
		wc_take_recv(qp, wc);
	return true;
}

static struct rdma_wc wc_lost(struct mlx4_qp *qp)
{
	return (struct rdma_wc){ .qp = &qp->rdma,
				 .context = qp->rdma.context,
				 .status = RDMA_WC_FATAL_ERR };
}

/* Flush completions for work outstanding on queue pairs that the device does not know any more. */
static int poll_lost(struct mlx4_dev *dev, struct mlx4_cq *cq, struct rdma_wc *wc, int max)
	__must_hold(&cq->lock)
{
	struct mlx4_qp *qp;
	int n = 0;

	list_for_each_entry(qp, &cq->send_qps, send_node) {
		while (n < max && qp->sq.tail != READ_ONCE(qp->sq.head) &&
		       mlx4_qp_is_lost(dev, qp)) {
			wc[n] = wc_lost(qp);
			wc_take_send(qp, (uint16_t)qp->sq.tail, &wc[n++]);
		}
	}
	list_for_each_entry(qp, &cq->recv_qps, recv_node) {
		while (n < max && qp->rq.tail != READ_ONCE(qp->rq.head) &&
		       mlx4_qp_is_lost(dev, qp)) {
			wc[n] = wc_lost(qp);
			wc_take_recv(qp, &wc[n++]);
		}
	}
	return n;
}

static bool cq_may_have_lost(const struct mlx4_dev *dev, const struct mlx4_cq *cq)
{
	return mlx4_is_dead(dev) || unlikely(READ_ONCE(cq->has_lost));
}

int mlx4_poll_cq(struct rdma_cq *rdma, struct rdma_wc *wc, int max)
{
	struct mlx4_cq *cq = container_of(rdma, struct mlx4_cq, rdma);
	struct mlx4_dev *dev = to_mlx4(rdma->dev);
	uint32_t errors = 0;
	uint32_t start;
	unsigned long flags;
	int n = 0;

	/* A cheap look first: pollers find nothing most of the time. */
	if (!cqe_ready(cq, READ_ONCE(cq->ci)) && !cq_may_have_lost(dev, cq))
		return 0;

	flags = spin_lock_irqsave(&cq->lock);
	start = cq->ci;
	while (n < max && cqe_ready(cq, cq->ci)) {
		if (!poll_one(dev, cq, &wc[n]))
			continue;
		errors += wc[n].status != RDMA_WC_SUCCESS;
		n++;
	}
	if (cq->ci != start)
		cq_set_ci(cq);
	if (cq_may_have_lost(dev, cq) && n < max) {
		const int lost = poll_lost(dev, cq, wc + n, max - n);

		errors += (uint32_t)lost;
		n += lost;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	if (n)
		rdma_count_cqe((uint32_t)n, errors);
	return n;
}

/* Is there anything that poll_lost() would make up? */
static bool cq_has_flushed(struct mlx4_dev *dev, struct mlx4_cq *cq)
{
	unsigned long flags;
	struct mlx4_qp *qp;
	bool found = false;

	flags = spin_lock_irqsave(&cq->lock);
	list_for_each_entry(qp, &cq->send_qps, send_node)
		found = found ||
			(qp->sq.tail != READ_ONCE(qp->sq.head) && mlx4_qp_is_lost(dev, qp));
	list_for_each_entry(qp, &cq->recv_qps, recv_node)
		found = found ||
			(qp->rq.tail != READ_ONCE(qp->rq.head) && mlx4_qp_is_lost(dev, qp));
	spin_unlock_irqrestore(&cq->lock, flags);
	return found;
}

void mlx4_arm_cq(struct rdma_cq *rdma, bool solicited_only)
{
	struct mlx4_cq *cq = container_of(rdma, struct mlx4_cq, rdma);
	struct mlx4_dev *dev = to_mlx4(rdma->dev);
	const uint32_t cmd = solicited_only ? CQ_ARM_SOLICITED : CQ_ARM_ANY;
	const uint32_t head = (READ_ONCE(cq->arm_sn) & 3) << 28 | cmd << 24;
	const uint32_t ci = READ_ONCE(cq->ci) & 0xffffff;

	/* The device raises no event for these.  When it is back, every queue gets one. */
	if (cq_may_have_lost(dev, cq)) {
		if (cq_has_flushed(dev, cq))
			rdma_cq_event(rdma);
		if (mlx4_is_dead(dev))
			return;
	}
	WRITE_ONCE(cq->db.rec[1], cpu_to_be32(head | ci));
	/* The record before the register: doorbell_write64be() orders it. */
	doorbell_write64be(dev->uar + UAR_CQ_DOORBELL, (uint64_t)(head | cq->cqn) << 32 | ci);
	rdma_count_arm();
	rdma_count_mmio(1);
}

void mlx4_cq_attach(struct mlx4_qp *qp)
{
	unsigned long flags;

	flags = spin_lock_irqsave(&qp->send_cq->lock);
	list_add_tail(&qp->send_node, &qp->send_cq->send_qps);
	spin_unlock_irqrestore(&qp->send_cq->lock, flags);
	flags = spin_lock_irqsave(&qp->recv_cq->lock);
	list_add_tail(&qp->recv_node, &qp->recv_cq->recv_qps);
	spin_unlock_irqrestore(&qp->recv_cq->lock, flags);
}

/* Remove the entries of @qpn: move the others up, towards the producer. */
static void cq_clean_locked(struct mlx4_cq *cq, uint32_t qpn) __must_hold(&cq->lock)
{
	uint32_t pi = cq->ci;
	uint32_t removed = 0;

	assert_spin_held(&cq->lock);
	while (pi - cq->ci < cq->nr && cqe_ready(cq, pi))
		pi++;
	dma_rmb();
	while ((int32_t)(--pi - cq->ci) >= 0) {
		const struct mlx4_hw_cqe *cqe = cqe_at(cq, pi);

		if ((be32_to_cpu(cqe->qpn) & CQE_QPN_MASK) == qpn) {
			removed++;
		} else if (removed) {
			struct mlx4_hw_cqe *dst = cqe_at(cq, pi + removed);
			const uint8_t owner = dst->owner & CQE_OWNER;

			memcpy(dst, cqe, offsetof(struct mlx4_hw_cqe, owner));
			dst->owner = owner | (cqe->owner & (uint8_t)~CQE_OWNER);
		}
	}
	if (removed) {
		cq->ci += removed;
		dma_wmb(); /* the moved entries before the new index */
		cq_set_ci(cq);
	}
}

static bool any_lost_locked(const struct mlx4_dev *dev, const struct mlx4_cq *cq)
	__must_hold(&cq->lock)
{
	const struct mlx4_qp *qp;
	bool lost = false;

	assert_spin_held(&cq->lock);
	list_for_each_entry(qp, &cq->send_qps, send_node)
		lost = lost || mlx4_qp_is_lost(dev, qp);
	list_for_each_entry(qp, &cq->recv_qps, recv_node)
		lost = lost || mlx4_qp_is_lost(dev, qp);
	return lost;
}

void mlx4_cq_detach(struct mlx4_dev *dev, struct mlx4_qp *qp)
{
	struct mlx4_cq *cqs[] = { qp->send_cq, qp->recv_cq };

	for (unsigned int n = 0; n < 2; n++) {
		const unsigned long flags = spin_lock_irqsave(&cqs[n]->lock);

		list_del(n ? &qp->recv_node : &qp->send_node);
		cq_clean_locked(cqs[n], qp->qpn);
		if (cqs[n]->has_lost)
			WRITE_ONCE(cqs[n]->has_lost, any_lost_locked(dev, cqs[n]));
		spin_unlock_irqrestore(&cqs[n]->lock, flags);
	}
}
