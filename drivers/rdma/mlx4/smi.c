/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: QP0, the subnet management interface of a port.
 *
 * Flow:	the subnet manager's packets (SMPs) arrive on QP0; each is handed to the
 *		device's own agent (MAD_IFC) and its answer is sent back.  A Set() may have
 *		changed the port, so its state is read again.
 * Context:	the device's thread.
 * Failure:	a malformed or unanswerable SMP is dropped; the subnet manager asks again.  When
 *		no send buffer is free the answer is dropped likewise.
 */
#include <lib/err.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "hw.h"
#include "mlx4.h"

#define PR_FMT "mlx4: "
#include <kernel/printk.h>

#define NR_RECV        32U
#define NR_SEND        16U
#define SLOT_LEN       512U /* GRH and MAD, aligned */
#define GRH_BYTES      sizeof(struct mlx4_hw_grh)
#define MAD_BYTES      sizeof(struct mlx4_hw_smp)
#define LID_PERMISSIVE 0xffff
#define WR_SEND        0x1000U

struct mlx4_smi {
	struct mlx4_dev *dev;
	struct rdma_pd *pd;
	struct rdma_mr *mr;
	struct rdma_cq *cq;
	struct rdma_qp *qp;
	uint8_t *buf; /* NR_RECV receive slots, NR_SEND send slots */
	paddr_t paddr;
	uint32_t sends_busy; /* bit per send slot; the thread's */
};

#define BUF_LEN ALIGN_UP((NR_RECV + NR_SEND) * SLOT_LEN, (uint32_t)PAGE_SIZE)

static void smi_cq_event(struct rdma_cq *cq, void *arg)
{
	struct mlx4_smi *smi = arg;

	atomic_set(&smi->dev->smi_work, 1);
	wake_all(&smi->dev->event_wq);
}

static int smi_recv_post(struct mlx4_smi *smi, uint32_t slot)
{
	const struct rdma_sge sge = {
		.addr = smi->paddr + slot * SLOT_LEN,
		.len = GRH_BYTES + MAD_BYTES,
		.lkey = smi->mr->lkey,
	};
	const struct rdma_recv_wr wr = { .wr_id = slot, .sge = &sge, .nr_sge = 1 };
	const struct rdma_recv_wr *bad;

	return mlx4_post_recv(smi->qp, &wr, &bad);
}

static int smi_send(struct mlx4_smi *smi, const struct mlx4_hw_smp *smp, const struct rdma_wc *to)
{
	const uint32_t free = ~smi->sends_busy & ((1U << NR_SEND) - 1);
	const bool dr = smp->mgmt_class == SMP_CLASS_DR;
	struct rdma_sge sge = { .len = MAD_BYTES, .lkey = smi->mr->lkey };
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_SEND,
		.flags = RDMA_SEND_SIGNALED,
		.dest = { .dlid = dr ? LID_PERMISSIVE : to->slid, .sl = to->sl },
		.dest_qpn = 0,
	};
	const struct rdma_send_wr *bad;
	uint32_t slot;
	int err;

	if (!free)
		return -EAGAIN;
	slot = (uint32_t)__builtin_ctz(free);
	sge.addr = smi->paddr + (NR_RECV + slot) * SLOT_LEN;
	wr.wr_id = WR_SEND | slot;
	memcpy(smi->buf + (NR_RECV + slot) * SLOT_LEN, smp, MAD_BYTES);
	err = mlx4_post_send(smi->qp, &wr, &bad);
	if (!err)
		smi->sends_busy |= 1U << slot;
	return err;
}

/*
 * Directed route, on arrival at the last hop: note the port it came in by.  False: not for us
 * (we are no switch).
 */
static bool dr_arrive(struct mlx4_hw_smp *smp, uint8_t port)
{
	if (be16_to_cpu(smp->status) & SMP_DR_RETURNS || smp->hop_cnt > SMP_MAX_HOPS)
		return false;
	if (smp->hop_cnt == 0)
		return smp->hop_ptr == 0;
	if (smp->hop_ptr != smp->hop_cnt)
		return false;
	smp->return_path[smp->hop_ptr] = port;
	smp->hop_ptr++;
	return true;
}

/* Directed route, answer leaving us: step back along the path. */
static bool dr_leave(struct mlx4_hw_smp *smp)
{
	if (!(be16_to_cpu(smp->status) & SMP_DR_RETURNS) || smp->hop_cnt > SMP_MAX_HOPS)
		return false;
	if (smp->hop_cnt && smp->hop_ptr == smp->hop_cnt + 1)
		smp->hop_ptr--;
	return true;
}

static void smp_serve(struct mlx4_smi *smi, struct mlx4_port *port, const uint8_t *in,
		      const struct rdma_wc *wc)
{
	const struct rdma_addr from = { .dlid = wc->slid, .sl = wc->sl };
	struct mlx4_hw_smp smp, out;

	memcpy(&smp, in, sizeof(smp));
	if (smp.mgmt_class != SMP_CLASS_LID && smp.mgmt_class != SMP_CLASS_DR)
		return;
	if (smp.method != SMP_METHOD_GET && smp.method != SMP_METHOD_SET &&
	    smp.method != SMP_METHOD_REPRESS)
		return;
	if (smp.mgmt_class == SMP_CLASS_DR && !dr_arrive(&smp, port->num))
		return;
	if (mlx4_mad_ifc(smi->dev, port->num, &from, wc->src_qpn, &smp, &out))
		return;
	if (out.method & SMP_METHOD_RESP && (out.mgmt_class != SMP_CLASS_DR || dr_leave(&out)) &&
	    smi_send(smi, &out, wc))
		pr_debug("%s: port %u: answer to the subnet manager dropped\n", smi->dev->name,
			 port->num);
	if (smp.method == SMP_METHOD_SET)
		mlx4_port_refresh(smi->dev, port);
}

static void smi_completion(struct mlx4_smi *smi, struct mlx4_port *port, const struct rdma_wc *wc)
{
	if (wc->wr_id & WR_SEND) {
		smi->sends_busy &= ~(1U << (wc->wr_id & 31));
		return;
	}
	if (wc->status != RDMA_WC_SUCCESS)
		return;
	if (wc->byte_len == GRH_BYTES + MAD_BYTES)
		smp_serve(smi, port, smi->buf + wc->wr_id * SLOT_LEN + GRH_BYTES, wc);
	if (smi_recv_post(smi, (uint32_t)wc->wr_id))
		pr_warn("%s: port %u: QP0 lost a receive buffer\n", smi->dev->name, port->num);
}

void mlx4_smi_poll(struct mlx4_dev *dev, struct mlx4_port *port)
{
	struct mlx4_smi *smi = port->smi;
	struct rdma_wc wc;

	if (!smi || mlx4_is_dead(dev))
		return;
	mlx4_arm_cq(smi->cq, false);
	while (mlx4_poll_cq(smi->cq, &wc, 1) == 1)
		smi_completion(smi, port, &wc);
}

/* QP0 is none of the verbs' types, so the common part is filled in here. */
static int smi_qp_create(struct mlx4_smi *smi, const struct mlx4_port *port)
{
	const struct rdma_qp_init init = {
		.type = (enum rdma_qp_type)MLX4_QPT_SMI,
		.send_cq = smi->cq,
		.recv_cq = smi->cq,
		.max_send_wr = NR_SEND,
		.max_recv_wr = NR_RECV,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.port = port->num,
	};
	struct rdma_qp *qp = mlx4_qp_create(smi->pd, &init);
	int err;

	if (IS_ERR(qp))
		return (int)PTR_ERR(qp);
	qp->send_cq = smi->cq;
	qp->recv_cq = smi->cq;
	mutex_init(&qp->lock, "mlx4_qp0", RANK_RDMA);
	err = mlx4_qp_to_rts_ud(qp);
	if (err) {
		mlx4_qp_destroy(qp);
		return err;
	}
	qp->state = RDMA_QPS_RTS;
	smi->qp = qp;
	return 0;
}

int mlx4_smi_create(struct mlx4_dev *dev, struct mlx4_port *port)
{
	struct mlx4_smi *smi = kzalloc(sizeof(*smi));
	struct rdma_phys_range range = { .len = BUF_LEN };
	int err = -ENOMEM;

	if (!smi)
		return -ENOMEM;
	smi->dev = dev;
	smi->buf = dma_alloc(BUF_LEN, &smi->paddr);
	if (!smi->buf)
		goto out_free;
	range.paddr = smi->paddr;
	smi->pd = rdma_pd_create(&dev->rdma);
	if (IS_ERR(smi->pd)) {
		err = (int)PTR_ERR(smi->pd);
		goto out_buf;
	}
	smi->mr = rdma_mr_create(smi->pd, smi->paddr, &range, 1, RDMA_ACCESS_LOCAL_WRITE);
	if (IS_ERR(smi->mr)) {
		err = (int)PTR_ERR(smi->mr);
		goto out_pd;
	}
	smi->cq = rdma_cq_create(&dev->rdma, NR_RECV + NR_SEND, 0, smi_cq_event, smi);
	if (IS_ERR(smi->cq)) {
		err = (int)PTR_ERR(smi->cq);
		goto out_mr;
	}
	err = smi_qp_create(smi, port);
	if (err)
		goto out_cq;
	for (uint32_t n = 0; n < NR_RECV && !err; n++)
		err = smi_recv_post(smi, n);
	if (err)
		goto out_qp;
	port->smi = smi;
	mlx4_arm_cq(smi->cq, false);
	return 0;

out_qp:
	mlx4_qp_destroy(smi->qp);
out_cq:
	rdma_cq_destroy(smi->cq);
out_mr:
	rdma_mr_destroy(smi->mr);
out_pd:
	rdma_pd_destroy(smi->pd);
out_buf:
	dma_free(smi->buf, BUF_LEN);
out_free:
	kfree(smi);
	return err;
}

void mlx4_smi_destroy(struct mlx4_dev *dev, struct mlx4_port *port)
{
	struct mlx4_smi *smi = port->smi;

	if (!smi)
		return;
	port->smi = NULL;
	mlx4_qp_destroy(smi->qp);
	rdma_cq_destroy(smi->cq);
	rdma_mr_destroy(smi->mr);
	rdma_pd_destroy(smi->pd);
	dma_free(smi->buf, BUF_LEN);
	kfree(smi);
}
