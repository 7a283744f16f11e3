/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: queue pairs: creation, state changes, posting.
 *
 * Flow:	create sizes both queues, allocates one buffer and the context memory; each state
 *		change is one command with a fresh context; posting writes entries and rings once.
 * Locking:	sq.lock and rq.lock (RANK_RDMA_QP) with interrupts off around posting; the core
 *		serialises state changes.
 * Failure:	a state change that the device refuses leaves the queue pair as it was.  Destroying
 *		resets it first: on return nothing of it is under way.
 */
#include <arch/barrier.h>
#include <arch/io.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "hw.h"
#include "mlx4.h"

#define GSI_QKEY     0x80010000U
#define ACK_REQ_FREQ 8U
#define UD_LOG_MSG   12 /* a UD message is one packet of up to 4 KiB */

static const enum mlx4_region_id qp_regions[] = {
	REGION_QPC,
	REGION_AUXC,
	REGION_ALTC,
	REGION_RDMARC,
};

static struct mlx4_qp *to_qp(struct rdma_qp *qp)
{
	return container_of(qp, struct mlx4_qp, rdma);
}

static bool is_smi(const struct rdma_qp *qp)
{
	return (unsigned int)qp->type == MLX4_QPT_SMI;
}

struct mlx4_qp *mlx4_qp_lookup(struct mlx4_dev *dev, uint32_t qpn)
{
	return mlx4_table_get(&dev->qps, qpn);
}

struct mlx4_qp *mlx4_qp_hold(struct mlx4_dev *dev, uint32_t qpn)
{
	struct mlx4_qp *qp;

	spin_lock(&dev->table_lock);
	qp = mlx4_qp_lookup(dev, qpn);
	if (qp)
		atomic_inc(&qp->users);
	spin_unlock(&dev->table_lock);
	return qp;
}

/* --- context ------------------------------------------------------------------------- */

static uint32_t log2_of(uint32_t pow2)
{
	return 31U - (uint32_t)__builtin_clz(pow2);
}

static uint8_t queue_size(uint32_t nr, unsigned int shift)
{
	return (uint8_t)(log2_of(nr) << QPC_LOG_WQES_SH | (shift - 4));
}

/* The part that every transition repeats. */
static void context_common(struct mlx4_dev *dev, const struct mlx4_qp *qp, uint32_t state,
			   struct mlx4_hw_qpc *ctx)
{
	uint32_t st = QP_ST_RC;

	if (qp->special)
		st = QP_ST_MLX;
	else if (qp->rdma.type == RDMA_QPT_UD)
		st = QP_ST_UD;
	ctx->flags = cpu_to_be32(state << QPC_STATE_SH | st << QPC_SERVICE_SH | QPC_MIGRATED);
	ctx->pd = cpu_to_be32(container_of(qp->rdma.pd, struct mlx4_pd, rdma)->pdn);
	ctx->rq_size = queue_size(qp->rq.nr, qp->rq.shift);
	ctx->sq_size = queue_size(qp->sq.nr, qp->sq.shift);
	ctx->uar = cpu_to_be32(dev->uar_index);
	ctx->local_qpn = cpu_to_be32(qp->qpn);
	ctx->send_cqn = cpu_to_be32(qp->send_cq->cqn);
	ctx->recv_cqn = cpu_to_be32(qp->recv_cq->cqn);
	ctx->rq_db_paddr = cpu_to_be64(qp->db.paddr);
	mlx4_buf_fill(&qp->buf, &ctx->buf);
}

static void context_port(const struct mlx4_qp *qp, uint8_t sl, struct mlx4_hw_qpc *ctx)
{
	const uint8_t port = (uint8_t)((qp->rdma.port - 1) << SCHED_QUEUE_PORT_SH);

	if (is_smi(&qp->rdma))
		ctx->primary.sched_queue = SCHED_QUEUE_QP0 | port;
	else
		ctx->primary.sched_queue =
			(uint8_t)(SCHED_QUEUE | port | (sl & 0xf) << SCHED_QUEUE_SL_SH);
}

/* The peer's rights: flags of params2. */
static uint32_t params2_access(uint32_t access)
{
	uint32_t params2 = 0;

	if (access & RDMA_ACCESS_REMOTE_READ)
		params2 |= QPC2_RRE;
	if (access & RDMA_ACCESS_REMOTE_WRITE)
		params2 |= QPC2_RWE;
	if (access & RDMA_ACCESS_REMOTE_ATOMIC)
		params2 |= QPC2_RAE;
	return params2;
}

static uint32_t depth_log2(uint32_t depth)
{
	return depth <= 1 ? 0 : 32U - (uint32_t)__builtin_clz(depth - 1);
}

static void path_fill(const struct rdma_addr *to, uint8_t ack_timeout, struct mlx4_hw_path *path)
{
	path->dlid = cpu_to_be16(to->dlid);
	path->ack_timeout = (uint8_t)(ack_timeout << PATH_ACK_TIMEOUT_SH);
	if (!to->has_grh)
		return;
	path->grh = PATH_GRH;
	path->hop_limit = PATH_HOP_LIMIT;
	memcpy(path->dgid, to->dgid.raw, sizeof(path->dgid));
}

/* The way to the peer, and what both ends agreed on. */
static void context_conn(struct mlx4_dev *dev, const struct mlx4_qp *qp,
			 const struct rdma_qp_conn *c, struct mlx4_hw_qpc *ctx)
{
	ctx->mtu_log_msg = (uint8_t)(c->path_mtu << QPC_MTU_SH | dev->caps.log_max_msg);
	ctx->remote_qpn = cpu_to_be32(c->remote_qpn);
	path_fill(&c->addr, c->ack_timeout, &ctx->primary);
	context_port(qp, c->addr.sl, ctx);
	ctx->params1 = cpu_to_be32(
		ACK_REQ_FREQ << QPC1_ACK_FREQ_SH | depth_log2(c->max_rd_atomic) << QPC1_LOG_RD_SH |
		(uint32_t)c->retry_cnt << QPC1_RETRY_SH | (uint32_t)c->rnr_retry << QPC1_RNR_SH);
	ctx->sq_psn = cpu_to_be32(c->sq_psn);
	ctx->params2 = cpu_to_be32(depth_log2(c->max_dest_rd_atomic) << QPC2_LOG_RD_SH |
				   params2_access(c->access));
	ctx->rnr_rq_psn = cpu_to_be32((uint32_t)c->min_rnr_timer << QPC_RNR_TIMER_SH | c->rq_psn);
}

static int qp_change(struct mlx4_dev *dev, struct mlx4_qp *qp, uint16_t op, uint32_t opt,
		     struct mlx4_mbox *mbox)
{
	struct mlx4_hw_qp_change *change = mbox->virt;

	if (qp->born != dev->nr_lives)
		return -EIO; /* the device does not know it any more */
	change->opt_mask = cpu_to_be32(opt);
	return mlx4_cmd_in(dev, op, 0, qp->qpn, mbox);
}

/* --- states -------------------------------------------------------------------------- */

int mlx4_qp_to_init(struct rdma_qp *rdma, uint32_t access)
{
	struct mlx4_dev *dev = to_mlx4(rdma->dev);
	struct mlx4_qp *qp = to_qp(rdma);
	struct mlx4_mbox mbox;
	struct mlx4_hw_qpc *ctx;
	int err;

	err = mlx4_mbox_get(&mbox);
	if (err)
		return err;
	ctx = &((struct mlx4_hw_qp_change *)mbox.virt)->ctx;
	context_common(dev, qp, QP_HW_INIT, ctx);
	context_port(qp, 0, ctx);
	ctx->params2 = cpu_to_be32(params2_access(access));
	if (rdma->type != RDMA_QPT_RC)
		ctx->qkey = cpu_to_be32(qp->special ? GSI_QKEY : rdma->qkey);
	err = qp_change(dev, qp, CMD_RST2INIT_QP, 0, &mbox);
	mlx4_mbox_put(&mbox);
	return err;
}

/* UD and special: what takes the place of the way to a peer. */
static void context_ud(const struct mlx4_qp *qp, struct mlx4_hw_qpc *ctx)
{
	context_port(qp, 0, ctx);
	ctx->mtu_log_msg = RDMA_MTU_4096 << QPC_MTU_SH | UD_LOG_MSG;
	ctx->qkey = cpu_to_be32(qp->special ? GSI_QKEY : qp->rdma.qkey);
}

/* From INIT to RTR, or from RTR to RTS; @conn is NULL for UD and special. */
static int qp_step(struct rdma_qp *rdma, uint32_t state, const struct rdma_qp_conn *conn)
{
	const bool rtr = state == QP_HW_RTR;
	const uint32_t opt = conn && rtr ? QP_OPT_RRE | QP_OPT_RAE | QP_OPT_RWE : 0;
	struct mlx4_dev *dev = to_mlx4(rdma->dev);
	struct mlx4_qp *qp = to_qp(rdma);
	struct mlx4_mbox mbox;
	struct mlx4_hw_qpc *ctx;
	int err;

	err = mlx4_mbox_get(&mbox);
	if (err)
		return err;
	ctx = &((struct mlx4_hw_qp_change *)mbox.virt)->ctx;
	context_common(dev, qp, state, ctx);
	if (conn)
		context_conn(dev, qp, conn, ctx);
	else
		context_ud(qp, ctx);
	err = qp_change(dev, qp, rtr ? CMD_INIT2RTR_QP : CMD_RTR2RTS_QP, opt, &mbox);
	mlx4_mbox_put(&mbox);
	return err;
}

int mlx4_qp_to_rtr(struct rdma_qp *rdma, const struct rdma_qp_conn *conn)
{
	return qp_step(rdma, QP_HW_RTR, conn);
}

int mlx4_qp_to_rts(struct rdma_qp *rdma, const struct rdma_qp_conn *conn)
{
	return qp_step(rdma, QP_HW_RTS, conn);
}

int mlx4_qp_to_rts_ud(struct rdma_qp *rdma)
{
	struct mlx4_dev *dev = to_mlx4(rdma->dev);
	struct mlx4_qp *qp = to_qp(rdma);
	int err;

	err = mlx4_qp_to_init(rdma, 0);
	if (err)
		return err;
	err = qp_step(rdma, QP_HW_RTR, NULL);
	if (!err)
		err = qp_step(rdma, QP_HW_RTS, NULL);
	if (err && mlx4_cmd_none(dev, CMD_2RST_QP, 2, qp->qpn) && !mlx4_qp_is_lost(dev, qp))
		mlx4_fatal(dev, "queue pair could not be reset");
	return err;
}

int mlx4_qp_to_err(struct rdma_qp *rdma)
{
	struct mlx4_dev *dev = to_mlx4(rdma->dev);

	/* A device that does not know it refuses the peer's accesses well enough. */
	if (mlx4_qp_is_lost(dev, to_qp(rdma)))
		return 0;
	return mlx4_cmd_none(dev, CMD_2ERR_QP, 0, to_qp(rdma)->qpn);
}

/* --- create and destroy -------------------------------------------------------------- */

static enum mlx4_wqe_kind wqe_kind(const struct rdma_qp_init *init)
{
	switch ((unsigned int)init->type) {
	case RDMA_QPT_RC:
		return WQE_KIND_RC;
	case RDMA_QPT_UD:
		return WQE_KIND_UD;
	default:
		return WQE_KIND_MLX;
	}
}

static int special_take(struct mlx4_dev *dev, const struct rdma_qp_init *init, uint32_t *qpn)
{
	const bool smi = (unsigned int)init->type == MLX4_QPT_SMI;
	struct mlx4_port *port = &dev->ports[init->port - 1];
	int err = 0;

	spin_lock(&dev->table_lock);
	if (!smi && port->gsi_in_use)
		err = -EBUSY;
	else if (!smi)
		port->gsi_in_use = true;
	spin_unlock(&dev->table_lock);
	*qpn = dev->special_qpn + (smi ? 0 : 2) + (init->port - 1U);
	return err;
}

static void number_put(struct mlx4_dev *dev, const struct mlx4_qp *qp, uint8_t port, bool gsi)
{
	spin_lock(&dev->table_lock);
	if (gsi)
		dev->ports[port - 1].gsi_in_use = false;
	else if (!qp->special)
		mlx4_ids_put(&dev->qpns, qp->qpn, 1);
	spin_unlock(&dev->table_lock);
}

static int number_get(struct mlx4_dev *dev, struct mlx4_qp *qp, const struct rdma_qp_init *init)
{
	int err;

	if (qp->special)
		return special_take(dev, init, &qp->qpn);
	spin_lock(&dev->table_lock);
	err = mlx4_ids_get(&dev->qpns, 1, 1, &qp->qpn);
	spin_unlock(&dev->table_lock);
	return err;
}

static void qp_icm_put(struct mlx4_dev *dev, uint32_t qpn, unsigned int nr_regions, bool cmpt)
{
	if (cmpt)
		mlx4_icm_put(dev, REGION_CMPT, (uint32_t)CMPT_QP << CMPT_TYPE_SH | qpn, 1);
	while (nr_regions--)
		mlx4_icm_put(dev, qp_regions[nr_regions], qpn, 1);
}

static int qp_icm_get(struct mlx4_dev *dev, uint32_t qpn)
{
	unsigned int n;
	int err = 0;

	for (n = 0; n < ARRAY_SIZE(qp_regions) && !err; n++)
		err = mlx4_icm_get(dev, qp_regions[n], qpn, 1);
	if (err) {
		qp_icm_put(dev, qpn, n - 1, false);
		return err;
	}
	err = mlx4_icm_get(dev, REGION_CMPT, (uint32_t)CMPT_QP << CMPT_TYPE_SH | qpn, 1);
	if (err)
		qp_icm_put(dev, qpn, ARRAY_SIZE(qp_regions), false);
	return err;
}

static int queues_alloc(struct mlx4_dev *dev, struct mlx4_qp *qp, const struct mlx4_wq_sizes *s,
			const struct rdma_qp_init *init)
{
	int err;

	qp->wrid = kcalloc((size_t)s->sq_nr + s->rq_nr, sizeof(*qp->wrid));
	if (!qp->wrid)
		return -ENOMEM;
	err = mlx4_buf_alloc(dev, s->len, &qp->buf);
	if (err) {
		kfree(qp->wrid);
		return err;
	}
	qp->sq = (struct mlx4_wq){
		.base = (uint8_t *)qp->buf.virt + s->sq_off,
		.wrid = qp->wrid,
		.nr = s->sq_nr,
		.shift = s->sq_shift,
		.max_post = s->sq_max_post,
		.max_sge = MAX(init->max_send_sge, 1U),
	};
	qp->rq = (struct mlx4_wq){
		.base = (uint8_t *)qp->buf.virt + s->rq_off,
		.wrid = qp->wrid + s->sq_nr,
		.nr = s->rq_nr,
		.shift = s->rq_shift,
		.max_post = s->rq_nr,
		.max_sge = 1U << (s->rq_shift - 4),
	};
	spin_lock_init(&qp->sq.lock, "mlx4_sq", RANK_RDMA_QP);
	spin_lock_init(&qp->rq.lock, "mlx4_rq", RANK_RDMA_QP);
	mlx4_sq_init(&qp->sq);
	return 0;
}

static int table_enter(struct mlx4_dev *dev, struct mlx4_qp *qp)
{
	int err;

	spin_lock(&dev->table_lock);
	err = mlx4_table_set(&dev->qps, qp->qpn, qp);
	spin_unlock(&dev->table_lock);
	return err;
}

struct rdma_qp *mlx4_qp_create(struct rdma_pd *pd, const struct rdma_qp_init *init)
{
	struct mlx4_dev *dev = to_mlx4(pd->dev);
	struct mlx4_wq_sizes sizes;
	struct mlx4_qp *qp;
	int err;

	err = mlx4_wq_sizes(wqe_kind(init), init, dev->caps.max_sq_desc, dev->caps.max_rq_desc,
			    dev->caps.log_max_qp_wqes, &sizes);
	if (err)
		return ERR_PTR(err);
	qp = kzalloc(sizeof(*qp));
	if (!qp)
		return ERR_PTR(-ENOMEM);
	qp->special = wqe_kind(init) == WQE_KIND_MLX;
	qp->send_cq = container_of(init->send_cq, struct mlx4_cq, rdma);
	qp->recv_cq = container_of(init->recv_cq, struct mlx4_cq, rdma);
	qp->rdma.dev = &dev->rdma;
	qp->rdma.pd = pd;
	qp->rdma.type = init->type;
	qp->rdma.port = init->port;
	qp->rdma.qkey = init->qkey;
	qp->born = dev->nr_lives;

	err = number_get(dev, qp, init);
	if (err)
		goto out_free;
	err = qp_icm_get(dev, qp->qpn);
	if (err)
		goto out_number;
	err = mlx4_db_alloc(dev, &qp->db);
	if (err)
		goto out_icm;
	err = queues_alloc(dev, qp, &sizes, init);
	if (err)
		goto out_db;
	err = table_enter(dev, qp);
	if (err)
		goto out_queues;
	mlx4_cq_attach(qp);
	qp->rdma.qpn = qp->special ? !is_smi(&qp->rdma) : qp->qpn;
	return &qp->rdma;

out_queues:
	mlx4_buf_free(dev, &qp->buf);
	kfree(qp->wrid);
out_db:
	mlx4_db_free(dev, &qp->db);
out_icm:
	qp_icm_put(dev, qp->qpn, ARRAY_SIZE(qp_regions), true);
out_number:
	number_put(dev, qp, init->port, init->type == RDMA_QPT_GSI);
out_free:
	kfree(qp);
	return ERR_PTR(err);
}

void mlx4_qp_destroy(struct rdma_qp *rdma)
{
	struct mlx4_dev *dev = to_mlx4(rdma->dev);
	struct mlx4_qp *qp = to_qp(rdma);

	if (READ_ONCE(rdma->state) != RDMA_QPS_RESET && !mlx4_qp_is_lost(dev, qp) &&
	    mlx4_cmd_none(dev, CMD_2RST_QP, 2, qp->qpn) && !mlx4_is_dead(dev))
		mlx4_fatal(dev, "queue pair could not be reset");
	mlx4_cq_detach(dev, qp);
	spin_lock(&dev->table_lock);
	mlx4_table_clear(&dev->qps, qp->qpn);
	spin_unlock(&dev->table_lock);
	while (atomic_read_acquire(&qp->users) && thread_current() != dev->event_thread)
		thread_yield();

	mlx4_buf_free(dev, &qp->buf);
	kfree(qp->wrid);
	mlx4_db_free(dev, &qp->db);
	qp_icm_put(dev, qp->qpn, ARRAY_SIZE(qp_regions), true);
	number_put(dev, qp, rdma->port, rdma->type == RDMA_QPT_GSI);
	kfree(qp);
}

/* --- posting ------------------------------------------------------------------------- */

static bool wq_full(const struct mlx4_wq *wq, uint32_t head)
{
	return head - __atomic_load_n(&wq->tail, __ATOMIC_ACQUIRE) >= wq->max_post;
}

static int wqe_write_special(struct mlx4_dev *dev, struct mlx4_qp *qp, uint32_t index,
			     const struct rdma_send_wr *wr, uint32_t *ctrl)
{
	struct mlx4_port *port = &dev->ports[qp->rdma.port - 1];
	struct mlx4_mlx_hdr hdr = { .src_qpn = qp->rdma.qpn, .psn = qp->gsi_psn++, .vl = 15 };
	unsigned long flags;

	flags = spin_lock_irqsave(&port->lock);
	hdr.pkey = wr->pkey_index < MAX_PKEYS ? port->pkeys[wr->pkey_index] : 0;
	hdr.sgid = port->attr.gid;
	if (qp->rdma.qpn)
		hdr.vl = port->vl_of_sl[wr->dest.sl & 0xf];
	spin_unlock_irqrestore(&port->lock, flags);
	if (!hdr.pkey)
		return -EINVAL;
	return mlx4_wqe_mlx(&qp->sq, index, wr, &hdr, ctrl);
}

static int wqe_write(struct mlx4_dev *dev, struct mlx4_qp *qp, uint32_t index,
		     const struct rdma_send_wr *wr, uint32_t *ctrl)
{
	if (likely(qp->rdma.type == RDMA_QPT_RC))
		return mlx4_wqe_rc(&qp->sq, index, wr, ctrl);
	if (qp->special)
		return wqe_write_special(dev, qp, index, wr, ctrl);
	return mlx4_wqe_ud(&qp->sq, index, wr, container_of(qp->rdma.pd, struct mlx4_pd, rdma)->pdn,
			   qp->rdma.port, ctrl);
}

/* Ring for what was written; @flame_len: by BlueFlame, with the one entry at @flame. */
static void sq_ring(struct mlx4_dev *dev, const struct mlx4_qp *qp, const void *flame,
		    uint32_t flame_len)
{
	if (flame_len)
		mlx4_bf_send(dev, flame, flame_len);
	else
		doorbell_write32be(dev->uar + UAR_SEND_DOORBELL, qp->qpn << 8);
}

int mlx4_post_send(struct rdma_qp *rdma, const struct rdma_send_wr *wr,
		   const struct rdma_send_wr **bad)
{
	struct mlx4_dev *dev = to_mlx4(rdma->dev);
	struct mlx4_qp *qp = to_qp(rdma);
	struct mlx4_wq *sq = &qp->sq;
	/* So far ahead that the device cannot have prefetched it with valid contents. */
	const uint32_t spare = sq->nr - sq->max_post;
	unsigned long flags;
	uint32_t head, start;
	uint32_t nr_inline = 0, nr_signalled = 0, flame_len = 0;
	const void *flame = NULL;
	bool lost = false, defer = false;
	int err = 0;

	flags = spin_lock_irqsave(&sq->lock);
	start = head = sq->head;
	for (; wr; wr = wr->next, head++) {
		uint32_t ctrl;

		if (wq_full(sq, head)) {
			err = -ENOMEM;
			break;
		}
		err = wqe_write(dev, qp, head, wr, &ctrl);
		if (err)
			break;
		sq->wrid[head & (sq->nr - 1)] = wr->wr_id;
		defer = wr->flags & RDMA_SEND_DEFER;
		/* BlueFlame brings one entry, and what waits for a doorbell is in front of it. */
		if (dev->bf_max && head == start && !wr->next && !qp->special && !defer &&
		    !sq->doorbell_pending)
			flame_len = mlx4_wqe_flame(sq, head, qp->qpn, dev->bf_max, &ctrl, &flame);
		mlx4_wqe_commit(sq, head, ctrl);
		mlx4_wqe_stamp(sq, head + spare);
		nr_inline += !!(wr->flags & RDMA_SEND_INLINE);
		nr_signalled += !!(wr->flags & RDMA_SEND_SIGNALED);
	}
	if (head != start) {
		WRITE_ONCE(sq->head, head);
		lost = mlx4_qp_is_lost(dev, qp);
		sq->doorbell_pending = defer && !lost;
		if (likely(!lost && !defer))
			sq_ring(dev, qp, flame, flame_len);
	}
	spin_unlock_irqrestore(&sq->lock, flags);

	if (head != start) {
		rdma_count_send(head - start, !lost && !defer);
		rdma_count_send_kinds(nr_inline, nr_signalled);
		rdma_count_mmio(!lost && !defer);
		/* The device reports nothing of these: poll makes up their completions. */
		if (unlikely(lost))
			rdma_cq_event(&qp->send_cq->rdma);
	}
	if (err)
		*bad = wr;
	return err;
}

void mlx4_ring_send(struct rdma_qp *rdma)
{
	struct mlx4_dev *dev = to_mlx4(rdma->dev);
	struct mlx4_qp *qp = to_qp(rdma);
	struct mlx4_wq *sq = &qp->sq;
	unsigned long flags;
	bool lost, ring;

	flags = spin_lock_irqsave(&sq->lock);
	lost = mlx4_qp_is_lost(dev, qp);
	ring = sq->doorbell_pending && !lost;
	sq->doorbell_pending = false;
	if (likely(ring))
		sq_ring(dev, qp, NULL, 0);
	spin_unlock_irqrestore(&sq->lock, flags);

	rdma_count_send(0, ring);
	rdma_count_mmio(ring);
	if (unlikely(lost))
		rdma_cq_event(&qp->send_cq->rdma);
}

int mlx4_post_recv(struct rdma_qp *rdma, const struct rdma_recv_wr *wr,
		   const struct rdma_recv_wr **bad)
{
	struct mlx4_qp *qp = to_qp(rdma);
	struct mlx4_wq *rq = &qp->rq;
	unsigned long flags;
	uint32_t head, start;
	int err = 0;

	flags = spin_lock_irqsave(&rq->lock);
	start = head = rq->head;
	for (; wr; wr = wr->next, head++) {
		if (wq_full(rq, head)) {
			err = -ENOMEM;
			break;
		}
		err = mlx4_wqe_recv(rq, head, wr);
		if (err)
			break;
		rq->wrid[head & (rq->nr - 1)] = wr->wr_id;
	}
	if (head != start) {
		WRITE_ONCE(rq->head, head);
		dma_wmb(); /* the entries before the count */
		WRITE_ONCE(qp->db.rec[0], cpu_to_be32(head & 0xffff));
	}
	spin_unlock_irqrestore(&rq->lock, flags);

	if (head != start) {
		rdma_count_recv(head - start);
		if (mlx4_qp_is_lost(to_mlx4(rdma->dev), qp))
			rdma_cq_event(&qp->recv_cq->rdma);
	}
	if (err)
		*bad = wr;
	return err;
}
