/* SPDX-License-Identifier: MIT */
/*
 * In-memory RDMA provider: RC writes and UD datagrams over the simulated fabric.
 *
 * Flow:	post_send turns each work request into a frame that carries its data, and keeps it
 *		until the next doorbell when that is put off (RDMA_SEND_DEFER); the receiving
 *		node's device thread checks key, bounds and access, places the data, takes a
 *		receive, completes, and acknowledges; the acknowledgement completes the sender's
 *		request.
 * Like hardware: a key opens its region to queue pairs of its protection domain alone; order per
 *		queue pair, RNR when no receive is posted, errors that flush what is behind them,
 *		one event per arm, nothing touches memory once destroy has returned.
 * Locking:	dev_lock guards everything; the socket has a lock of its own inside it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <kernel/panic.h>
#include <kernel/preempt.h>
#include <lib/err.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <rdma/provider.h>

#include "fabric.h"
#include "sim.h"

#define NR_QPS   1024u
#define NR_MRS   1024u
#define QP1_QPN  1u
#define QP1_QKEY 0x80010000u

struct mem_cq {
	struct rdma_cq cq;
	struct rdma_wc *ring;
	uint32_t size, head, tail;
	bool armed;
};

struct sent { /* a work request under way */
	struct list_head link;
	uint64_t seq, wr_id;
	bool signalled;
	enum rdma_wc_opcode opcode;
	struct rdma_sge into[2]; /* READ */
	uint32_t nr_into, len;
};

struct recv {
	struct list_head link;
	uint64_t wr_id;
	struct rdma_sge sge[2];
	uint32_t nr_sge;
};

struct held { /* a frame that waits for a receive */
	struct list_head link;
	struct fab_hdr hdr;
	uint8_t *data;
};

struct mem_qp {
	struct rdma_qp qp;
	uint16_t peer;
	uint32_t peer_qpn, access, sl;
	uint32_t max_send, max_recv, nr_send, nr_recv;
	uint64_t next_seq;
	bool receiving, sending, broken;
	struct list_head sends, recvs, held;
	/* Frames that wait for rdma_ring_send(). */
	uint8_t *deferred;
	size_t deferred_len, deferred_room;
};

struct mem_mr {
	struct rdma_mr mr;
	paddr_t paddr;
};

static pthread_mutex_t dev_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t tx_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cmd_cond = PTHREAD_COND_INITIALIZER;
static struct mem_qp *qps[NR_QPS];
static struct mem_mr *mrs[NR_MRS];
static uint32_t mr_generation = 1;
static uint32_t next_qpn = 2;
static int sock = -1;
#define LATE_US 5000

bool sim_by_gid, sim_late_flush;
static uint32_t self;
static bool cmd_done;
static long cmd_result;
static struct rdma_device mem_dev;

/* --- socket --------------------------------------------------------------------------- */

static void write_all(const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		const ssize_t n = send(sock, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			_exit(3); /* the test is over */
		p += n;
		len -= (size_t)n;
	}
}

static void frame_send(struct fab_hdr *hdr, const void *data)
{
	hdr->src = (uint16_t)self;
	pthread_mutex_lock(&tx_lock);
	write_all(hdr, sizeof(*hdr));
	write_all(data, hdr->len);
	pthread_mutex_unlock(&tx_lock);
}

/* dev_lock is held. */
static void frame_defer(struct mem_qp *qp, struct fab_hdr *hdr, const void *data)
{
	const size_t need = qp->deferred_len + sizeof(*hdr) + hdr->len;

	if (need > qp->deferred_room) {
		qp->deferred_room = 2 * need;
		qp->deferred = realloc(qp->deferred, qp->deferred_room);
	}
	hdr->src = (uint16_t)self;
	memcpy(qp->deferred + qp->deferred_len, hdr, sizeof(*hdr));
	memcpy(qp->deferred + qp->deferred_len + sizeof(*hdr), data, hdr->len);
	qp->deferred_len = need;
}

/* dev_lock is held. */
static void deferred_send(struct mem_qp *qp)
{
	pthread_mutex_lock(&tx_lock);
	write_all(qp->deferred, qp->deferred_len);
	pthread_mutex_unlock(&tx_lock);
	qp->deferred_len = 0;
}

static bool read_all(void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		const ssize_t n = recv(sock, p, len, 0);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* Do the work of the provider's interrupt, on the calling thread. */
static void event_raise(struct rdma_cq *cq)
{
	const bool was = shim_in_interrupt;

	shim_in_interrupt = true;
	rdma_cq_event(cq);
	shim_in_interrupt = was;
}

/* --- completions ---------------------------------------------------------------------- */

static void cq_push(struct rdma_cq *rcq, const struct rdma_wc *wc)
{
	struct mem_cq *cq = container_of(rcq, struct mem_cq, cq);

	if (cq->tail - cq->head >= cq->size)
		panic("memverbs: completion queue overrun");
	cq->ring[cq->tail % cq->size] = *wc;
	cq->ring[cq->tail++ % cq->size].context = wc->qp->context;
	if (cq->armed) {
		cq->armed = false;
		event_raise(rcq);
	}
}

static void send_complete(struct mem_qp *qp, struct sent *s, enum rdma_wc_status status)
{
	const struct rdma_wc wc = { .wr_id = s->wr_id,
				    .qp = &qp->qp,
				    .status = status,
				    .opcode = s->opcode,
				    .byte_len = s->len };

	if (s->signalled || status != RDMA_WC_SUCCESS)
		cq_push(qp->qp.send_cq, &wc);
	list_del(&s->link);
	qp->nr_send--;
	free(s);
}

static void held_free(struct held *h)
{
	list_del(&h->link);
	free(h->data);
	free(h);
}

struct rdma_addr sim_addr(uint32_t id)
{
	struct rdma_addr a = { .dlid = sim_by_gid ? 0 : (uint16_t)id, .has_grh = sim_by_gid };

	a.dgid.raw[0] = 0xfe;
	a.dgid.raw[1] = 0x80;
	a.dgid.raw[15] = (uint8_t)id;
	return a;
}

/* The node that a provider of this kind would send to: 0 = nowhere. */
static uint16_t node_at(const struct rdma_addr *a)
{
	if (!sim_by_gid)
		return a->dlid;
	return a->has_grh ? a->dgid.raw[15] : 0;
}

/* Flush the receives, all but @keep. */
static void recvs_flush(struct mem_qp *qp, uint32_t keep)
{
	struct rdma_wc wc = { .qp = &qp->qp, .status = RDMA_WC_WR_FLUSH_ERR };

	while (qp->nr_recv > keep) {
		struct recv *r = list_first_entry(&qp->recvs, struct recv, link);

		wc.wr_id = r->wr_id;
		list_del(&r->link);
		qp->nr_recv--;
		free(r);
		cq_push(qp->qp.recv_cq, &wc);
	}
}

/* The queue pair goes to ERR: everything outstanding is flushed. */
static void qp_break(struct mem_qp *qp)
{
	if (qp->broken)
		return;
	qp->broken = true;
	qp->receiving = qp->sending = false;
	qp->deferred_len = 0;
	while (!list_empty(&qp->held))
		held_free(list_first_entry(&qp->held, struct held, link));
	while (!list_empty(&qp->sends))
		send_complete(qp, list_first_entry(&qp->sends, struct sent, link),
			      RDMA_WC_WR_FLUSH_ERR);
	recvs_flush(qp, sim_late_flush ? 1 : 0);
}

/* --- receive side: the device thread, dev_lock held ------------------------------------- */

static void ack_send(const struct fab_hdr *h, enum rdma_wc_status status, const void *data,
		     uint32_t len)
{
	struct fab_hdr a = { .type = FAB_ACK,
			     .dst = h->src,
			     .sl = h->sl,
			     .src_qpn = h->dst_qpn,
			     .dst_qpn = h->src_qpn,
			     .status = status,
			     .len = len,
			     .seq = h->seq };

	frame_send(&a, data);
}

static struct mem_mr *mr_find(uint32_t key)
{
	struct mem_mr *mr = mrs[key % NR_MRS];

	return mr && mr->mr.rkey == key ? mr : NULL;
}

static bool mr_covers(const struct mem_mr *mr, uint64_t addr, uint64_t len)
{
	return addr >= mr->mr.iova && len <= mr->mr.len && addr - mr->mr.iova <= mr->mr.len - len;
}

static void *mr_pointer(const struct mem_mr *mr, uint64_t addr)
{
	return phys_to_virt(mr->paddr + (addr - mr->mr.iova));
}

static enum rdma_wc_status write_place(struct mem_qp *qp, const struct fab_hdr *h,
				       const uint8_t *data)
{
	const struct mem_mr *mr;

	if (h->len == 0)
		return RDMA_WC_SUCCESS; /* an empty WRITE needs no key */
	mr = mr_find(h->rkey);
	if (!mr || mr->mr.pd != qp->qp.pd || !mr_covers(mr, h->raddr, h->len) ||
	    !(mr->mr.access & RDMA_ACCESS_REMOTE_WRITE) || !(qp->access & RDMA_ACCESS_REMOTE_WRITE))
		return RDMA_WC_REM_ACCESS_ERR;
	memcpy(mr_pointer(mr, h->raddr), data, h->len);
	return RDMA_WC_SUCCESS;
}

/* Where a READ finds its data; NULL: it may not. */
static const void *read_place(const struct mem_qp *qp, const struct fab_hdr *h)
{
	const struct mem_mr *mr = mr_find(h->rkey);

	if (!mr || mr->mr.pd != qp->qp.pd || !mr_covers(mr, h->raddr, h->imm) ||
	    !(mr->mr.access & RDMA_ACCESS_REMOTE_READ) || !(qp->access & RDMA_ACCESS_REMOTE_READ))
		return NULL;
	return mr_pointer(mr, h->raddr);
}

static void access_refused(struct mem_qp *qp)
{
	const struct rdma_event ev = {
		.type = RDMA_EVENT_QP_ACCESS, .dev = &mem_dev, .port = 1, .qp = &qp->qp
	};

	qp_break(qp);
	rdma_event_dispatch(&ev);
}

static void read_execute(struct mem_qp *qp, const struct fab_hdr *h)
{
	const void *data = read_place(qp, h);

	ack_send(h, data ? RDMA_WC_SUCCESS : RDMA_WC_REM_ACCESS_ERR, data, data ? h->imm : 0);
	if (!data)
		access_refused(qp);
}

/* True: done with the frame; false: it waits for a receive. */
static bool write_execute(struct mem_qp *qp, const struct fab_hdr *h, const uint8_t *data)
{
	const bool has_imm = h->flags & FAB_F_IMM;
	const bool takes_recv = h->flags & (FAB_F_IMM | FAB_F_SEND);
	enum rdma_wc_status status;

	if (h->type == FAB_READ) {
		read_execute(qp, h);
		return true;
	}
	if (takes_recv && list_empty(&qp->recvs))
		return false;
	status = write_place(qp, h, data);
	if (status == RDMA_WC_SUCCESS && takes_recv) {
		struct recv *r = list_first_entry(&qp->recvs, struct recv, link);
		const struct rdma_wc wc = { .wr_id = r->wr_id,
					    .qp = &qp->qp,
					    .opcode =
						    has_imm ? RDMA_WC_RECV_WRITE_IMM : RDMA_WC_RECV,
					    .byte_len = h->len,
					    .flags = has_imm ? RDMA_WC_WITH_IMM : 0,
					    .imm = h->imm };

		list_del(&r->link);
		qp->nr_recv--;
		free(r);
		cq_push(qp->qp.recv_cq, &wc);
	}
	ack_send(h, status, NULL, 0);
	if (status != RDMA_WC_SUCCESS)
		access_refused(qp);
	return true;
}

static struct mem_qp *qp_find(uint32_t qpn)
{
	return qpn < NR_QPS ? qps[qpn] : NULL;
}

static void write_arrived(const struct fab_hdr *h, const uint8_t *data)
{
	struct mem_qp *qp = qp_find(h->dst_qpn);
	struct held *held;

	if (!qp || !qp->receiving || qp->peer != h->src || qp->peer_qpn != h->src_qpn) {
		ack_send(h, RDMA_WC_RETRY_EXC_ERR, NULL, 0);
		return;
	}
	if (list_empty(&qp->held) && write_execute(qp, h, data))
		return;
	held = calloc(1, sizeof(*held));
	held->hdr = *h;
	held->data = malloc(h->len ? h->len : 1);
	memcpy(held->data, data, h->len);
	list_add_tail(&held->link, &qp->held);
}

static void held_retry(struct mem_qp *qp)
{
	while (!qp->broken && !list_empty(&qp->held)) {
		struct held *h = list_first_entry(&qp->held, struct held, link);

		if (!write_execute(qp, &h->hdr, h->data))
			return;
		if (qp->broken)
			return; /* they are gone already */
		held_free(h);
	}
}

/* Copy @len bytes at @off of a scatter list. */
static void scatter(const struct rdma_pd *pd, const struct rdma_sge *sge, uint32_t nr_sge,
		    uint32_t off, const uint8_t *data, uint64_t len)
{
	uint64_t done = 0;

	for (uint32_t i = 0; i < nr_sge && done < len; i++) {
		const struct mem_mr *mr = mr_find(sge[i].lkey);
		uint64_t n;

		if (!mr || mr->mr.pd != pd || !mr_covers(mr, sge[i].addr, sge[i].len) ||
		    sge[i].len <= off) {
			off -= MIN(off, sge[i].len);
			continue;
		}
		n = MIN(len - done, (uint64_t)sge[i].len - off);
		memcpy((uint8_t *)mr_pointer(mr, sge[i].addr) + off, data + done, n);
		done += n;
		off = 0;
	}
}

static void ack_arrived(const struct fab_hdr *h, const uint8_t *data)
{
	struct mem_qp *qp = qp_find(h->dst_qpn);

	if (!qp || qp->broken || qp->peer != h->src || qp->peer_qpn != h->src_qpn)
		return;
	while (!list_empty(&qp->sends)) {
		struct sent *s = list_first_entry(&qp->sends, struct sent, link);

		if (s->seq > h->seq)
			return;
		if (s->seq == h->seq && h->status != RDMA_WC_SUCCESS) {
			send_complete(qp, s, (enum rdma_wc_status)h->status);
			qp_break(qp);
			return;
		}
		if (s->seq == h->seq && s->opcode == RDMA_WC_READ)
			scatter(qp->qp.pd, s->into, s->nr_into, 0, data, h->len);
		send_complete(qp, s, RDMA_WC_SUCCESS);
	}
}

static void ud_arrived(const struct fab_hdr *h, const uint8_t *data)
{
	struct mem_qp *qp = qp_find(h->dst_qpn);
	const struct rdma_addr from = sim_addr(h->src);
	uint8_t grh[RDMA_GRH_LEN] = { 0 };
	struct recv *r;
	struct rdma_wc wc = { .opcode = RDMA_WC_RECV,
			      .src_qpn = h->src_qpn,
			      .slid = from.dlid,
			      .flags = from.has_grh ? RDMA_WC_GRH : 0 };

	if (!qp || qp->qp.type == RDMA_QPT_RC || !qp->receiving || list_empty(&qp->recvs))
		return; /* datagrams may be lost */
	if (h->rkey != (qp->qp.type == RDMA_QPT_GSI ? QP1_QKEY : qp->qp.qkey))
		return;
	r = list_first_entry(&qp->recvs, struct recv, link);
	if (from.has_grh) {
		memcpy(grh + 8, &from.dgid, sizeof(from.dgid));
		scatter(qp->qp.pd, r->sge, r->nr_sge, 0, grh, sizeof(grh));
	}
	scatter(qp->qp.pd, r->sge, r->nr_sge, RDMA_GRH_LEN, data, h->len);
	wc.wr_id = r->wr_id;
	wc.qp = &qp->qp;
	wc.byte_len = h->len + RDMA_GRH_LEN;
	list_del(&r->link);
	qp->nr_recv--;
	free(r);
	cq_push(qp->qp.recv_cq, &wc);
}

static void break_arrived(const struct fab_hdr *h)
{
	for (uint32_t i = 0; i < NR_QPS; i++) {
		struct mem_qp *qp = qps[i];

		if (!qp || qp->qp.type != RDMA_QPT_RC || qp->peer != h->src || !qp->receiving)
			continue;
		if (h->dst_qpn == 0 || h->dst_qpn == i)
			qp_break(qp);
	}
}

static void frame_arrived(const struct fab_hdr *h, const uint8_t *data)
{
	pthread_mutex_lock(&dev_lock);
	switch (h->type) {
	case FAB_WRITE:
	case FAB_READ:
		write_arrived(h, data);
		break;
	case FAB_ACK:
		ack_arrived(h, data);
		break;
	case FAB_UD:
		ud_arrived(h, data);
		break;
	case FAB_BREAK:
		break_arrived(h);
		break;
	case FAB_CMD_REPLY:
		cmd_result = (long)h->seq;
		cmd_done = true;
		pthread_cond_broadcast(&cmd_cond);
		break;
	default:
		panic("memverbs: frame type %u", h->type);
	}
	pthread_mutex_unlock(&dev_lock);
}

static void *device_main(void *arg)
{
	uint8_t *buf = malloc(FAB_MAX_PAYLOAD);
	struct fab_hdr h;

	(void)arg;
	while (read_all(&h, sizeof(h)) && h.len <= FAB_MAX_PAYLOAD && read_all(buf, h.len))
		frame_arrived(&h, buf);
	_exit(3); /* the fabric has ended */
}

long memverbs_cmd(const char *line)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	struct fab_hdr h = { .type = FAB_CMD, .len = (uint32_t)strlen(line) };
	long result;

	pthread_mutex_lock(&one);
	pthread_mutex_lock(&dev_lock);
	cmd_done = false;
	frame_send(&h, line);
	while (!cmd_done)
		pthread_cond_wait(&cmd_cond, &dev_lock);
	result = cmd_result;
	pthread_mutex_unlock(&dev_lock);
	pthread_mutex_unlock(&one);
	return result;
}

/* --- verbs ------------------------------------------------------------------------------ */

static void mem_device_attr(const struct rdma_device *dev, struct rdma_device_attr *a)
{
	(void)dev;
	*a = (struct rdma_device_attr){ .max_qp = NR_QPS,
					.max_cq = 1024,
					.max_mr = NR_MRS,
					.max_qp_wr = 16384,
					.max_cqe = 1u << 20,
					.max_sge = 8, /* small, so that bulk is split */
					.max_inline = 256,
					.max_rd_atomic = 1,
					.nr_ports = 1,
					.nr_comp_vectors = 1 };
}

static int mem_port_attr(struct rdma_device *dev, uint8_t port, struct rdma_port_attr *a)
{
	(void)dev, (void)port;
	*a = (struct rdma_port_attr){ .state = RDMA_PORT_ACTIVE,
				      .active_mtu = RDMA_MTU_4096,
				      .lid = sim_addr(self).dlid,
				      .sm_lid = sim_by_gid ? 0 : 1,
				      .gid = sim_addr(self).dgid,
				      .pkey_table_len = 1 };
	return 0;
}

static struct rdma_pd *mem_pd_create(struct rdma_device *dev)
{
	(void)dev;
	return calloc(1, sizeof(struct rdma_pd));
}

static void mem_pd_destroy(struct rdma_pd *pd)
{
	free(pd);
}

static struct rdma_mr *mem_mr_create(struct rdma_pd *pd, uint64_t iova,
				     const struct rdma_phys_range *ranges, size_t nr_ranges,
				     uint64_t len, uint32_t access)
{
	struct mem_mr *mr;
	uint32_t i;

	(void)pd, (void)iova, (void)len, (void)access;
	if (nr_ranges != 1)
		return ERR_PTR(-EOPNOTSUPP);
	mr = calloc(1, sizeof(*mr));
	mr->paddr = ranges[0].paddr;
	pthread_mutex_lock(&dev_lock);
	for (i = 0; i < NR_MRS && mrs[i]; i++)
		;
	if (i == NR_MRS) {
		pthread_mutex_unlock(&dev_lock);
		free(mr);
		return ERR_PTR(-ENOMEM);
	}
	mr->mr.lkey = mr->mr.rkey = mr_generation++ * NR_MRS + i; /* an old key finds nothing */
	mr->mr.iova = iova;
	mr->mr.len = len;
	mr->mr.access = access;
	mrs[i] = mr;
	pthread_mutex_unlock(&dev_lock);
	return &mr->mr;
}

static void mem_mr_destroy(struct rdma_mr *rmr)
{
	struct mem_mr *mr = container_of(rmr, struct mem_mr, mr);

	pthread_mutex_lock(&dev_lock);
	mrs[mr->mr.rkey % NR_MRS] = NULL;
	pthread_mutex_unlock(&dev_lock);
	free(mr);
}

static struct rdma_cq *mem_cq_create(struct rdma_device *dev, uint32_t nr_cqe, uint32_t vector)
{
	struct mem_cq *cq = calloc(1, sizeof(*cq));

	(void)dev, (void)vector;
	cq->ring = calloc(nr_cqe, sizeof(*cq->ring));
	cq->size = nr_cqe;
	return &cq->cq;
}

static void mem_cq_destroy(struct rdma_cq *rcq)
{
	struct mem_cq *cq = container_of(rcq, struct mem_cq, cq);

	free(cq->ring);
	free(cq);
}

static struct rdma_qp *mem_qp_create(struct rdma_pd *pd, const struct rdma_qp_init *init)
{
	struct mem_qp *qp = calloc(1, sizeof(*qp));

	(void)pd;
	list_init(&qp->sends);
	list_init(&qp->recvs);
	list_init(&qp->held);
	qp->max_send = init->max_send_wr;
	qp->max_recv = init->max_recv_wr;
	pthread_mutex_lock(&dev_lock);
	if (init->type == RDMA_QPT_GSI) {
		qp->qp.qpn = QP1_QPN;
	} else {
		/* Numbers are not used again soon, as frames to an old one may be under way. */
		do {
			next_qpn = next_qpn + 1 < NR_QPS ? next_qpn + 1 : 2;
		} while (qps[next_qpn]);
		qp->qp.qpn = next_qpn;
	}
	qps[qp->qp.qpn] = qp;
	pthread_mutex_unlock(&dev_lock);
	return &qp->qp;
}

/* Forget completions of a queue pair that goes away. */
static void cq_purge(struct rdma_cq *rcq, const struct mem_qp *qp)
{
	struct mem_cq *cq = container_of(rcq, struct mem_cq, cq);
	uint32_t to = cq->head;

	for (uint32_t from = cq->head; from != cq->tail; from++) {
		if (cq->ring[from % cq->size].qp != &qp->qp)
			cq->ring[to++ % cq->size] = cq->ring[from % cq->size];
	}
	cq->tail = to;
}

static void mem_qp_destroy(struct rdma_qp *rqp)
{
	struct mem_qp *qp = container_of(rqp, struct mem_qp, qp);

	pthread_mutex_lock(&dev_lock);
	qp_break(qp);
	if (sim_late_flush) {
		recvs_flush(qp, 0);
		pthread_mutex_unlock(&dev_lock);
		usleep(LATE_US); /* a poller takes it */
		pthread_mutex_lock(&dev_lock);
	}
	qps[qp->qp.qpn] = NULL;
	cq_purge(qp->qp.send_cq, qp);
	cq_purge(qp->qp.recv_cq, qp);
	pthread_mutex_unlock(&dev_lock);
	free(qp->deferred);
	free(qp);
}

static int mem_qp_to_init(struct rdma_qp *rqp, uint32_t access)
{
	container_of(rqp, struct mem_qp, qp)->access = access;
	return 0;
}

static int mem_qp_to_rtr(struct rdma_qp *rqp, const struct rdma_qp_conn *conn)
{
	struct mem_qp *qp = container_of(rqp, struct mem_qp, qp);

	pthread_mutex_lock(&dev_lock);
	qp->peer = node_at(&conn->addr);
	qp->peer_qpn = conn->remote_qpn;
	qp->sl = conn->addr.sl;
	qp->access |= conn->access;
	qp->receiving = true;
	pthread_mutex_unlock(&dev_lock);
	return 0;
}

static int mem_qp_to_rts(struct rdma_qp *rqp, const struct rdma_qp_conn *conn)
{
	struct mem_qp *qp = container_of(rqp, struct mem_qp, qp);

	(void)conn;
	pthread_mutex_lock(&dev_lock);
	qp->sending = !qp->broken;
	pthread_mutex_unlock(&dev_lock);
	return 0;
}

static int mem_qp_to_rts_ud(struct rdma_qp *rqp)
{
	struct mem_qp *qp = container_of(rqp, struct mem_qp, qp);

	pthread_mutex_lock(&dev_lock);
	qp->receiving = qp->sending = true;
	pthread_mutex_unlock(&dev_lock);
	return 0;
}

static int mem_qp_to_err(struct rdma_qp *rqp)
{
	pthread_mutex_lock(&dev_lock);
	qp_break(container_of(rqp, struct mem_qp, qp));
	pthread_mutex_unlock(&dev_lock);
	return 0;
}

static bool gather(const struct rdma_pd *pd, const struct rdma_send_wr *wr, uint8_t *buf,
		   uint32_t *len)
{
	*len = 0;
	for (uint32_t i = 0; i < wr->nr_sge; i++) {
		const struct rdma_sge *sge = &wr->sge[i];
		const struct mem_mr *mr;

		if (*len + sge->len > FAB_MAX_PAYLOAD)
			return false;
		if (wr->flags & RDMA_SEND_INLINE) {
			memcpy(buf + *len, (const void *)(uintptr_t)sge->addr, sge->len);
		} else {
			mr = mr_find(sge->lkey);
			if (!mr || mr->mr.pd != pd || !mr_covers(mr, sge->addr, sge->len))
				return false;
			memcpy(buf + *len, mr_pointer(mr, sge->addr), sge->len);
		}
		*len += sge->len;
	}
	return true;
}

static bool is_deferred(const struct rdma_send_wr *wr)
{
	while (wr->next)
		wr = wr->next;
	return wr->flags & RDMA_SEND_DEFER;
}

/* How many bytes it asks for. */
static uint32_t read_begin(struct sent *s, const struct rdma_send_wr *wr)
{
	s->opcode = RDMA_WC_READ;
	s->nr_into = MIN(wr->nr_sge, (uint32_t)ARRAY_SIZE(s->into));
	for (uint32_t i = 0; i < s->nr_into; i++) {
		s->into[i] = wr->sge[i];
		s->len += wr->sge[i].len;
	}
	return s->len;
}

static int send_one(struct mem_qp *qp, const struct rdma_send_wr *wr, bool defer)
{
	static uint8_t buf[FAB_MAX_PAYLOAD]; /* dev_lock */
	const bool ud = qp->qp.type != RDMA_QPT_RC;
	struct fab_hdr h = { .type = ud ? FAB_UD : FAB_WRITE,
			     .dst = ud ? node_at(&wr->dest) : qp->peer,
			     .sl = ud ? 0 : qp->sl,
			     .src_qpn = qp->qp.qpn,
			     .dst_qpn = ud ? wr->dest_qpn : qp->peer_qpn,
			     .rkey = ud ? wr->dest_qkey : wr->rkey,
			     .imm = wr->imm,
			     .raddr = wr->remote_addr };
	struct sent *s;

	if (qp->nr_send >= qp->max_send || wr->nr_sge > 8)
		return -ENOMEM;
	if (!ud && wr->opcode == RDMA_WR_SEND && wr->nr_sge)
		return -EINVAL; /* only tests SEND on a connection, to a peer that expects none */
	if (!qp->sending && !qp->broken)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	s->wr_id = wr->wr_id;
	s->signalled = wr->flags & RDMA_SEND_SIGNALED;
	s->opcode = ud ? RDMA_WC_SEND : RDMA_WC_WRITE;
	s->seq = ++qp->next_seq;
	list_add_tail(&s->link, &qp->sends);
	qp->nr_send++;
	if (qp->broken) {
		send_complete(qp, s, RDMA_WC_WR_FLUSH_ERR);
		return 0;
	}
	if (wr->opcode == RDMA_WR_READ) {
		h.type = FAB_READ;
		h.imm = read_begin(s, wr);
	} else if (!gather(qp->qp.pd, wr, buf, &h.len)) {
		send_complete(qp, s, RDMA_WC_LOC_PROT_ERR);
		qp_break(qp);
		return 0;
	}
	if (wr->opcode == RDMA_WR_WRITE_WITH_IMM)
		h.flags |= FAB_F_IMM;
	if (!ud && wr->opcode == RDMA_WR_SEND)
		h.flags |= FAB_F_SEND;
	h.seq = s->seq;
	if (defer)
		frame_defer(qp, &h, buf);
	else
		frame_send(&h, buf);
	if (ud)
		send_complete(qp, s, RDMA_WC_SUCCESS);
	return 0;
}

static int mem_post_send(struct rdma_qp *rqp, const struct rdma_send_wr *wr,
			 const struct rdma_send_wr **bad)
{
	struct mem_qp *qp = container_of(rqp, struct mem_qp, qp);
	const bool defer = is_deferred(wr);
	int err = 0;

	pthread_mutex_lock(&dev_lock);
	if (!defer)
		deferred_send(qp);
	for (; wr; wr = wr->next) {
		err = send_one(qp, wr, defer);
		if (err) {
			*bad = wr;
			break;
		}
	}
	pthread_mutex_unlock(&dev_lock);
	return err;
}

static void mem_ring_send(struct rdma_qp *rqp)
{
	pthread_mutex_lock(&dev_lock);
	deferred_send(container_of(rqp, struct mem_qp, qp));
	pthread_mutex_unlock(&dev_lock);
}

static int recv_one(struct mem_qp *qp, const struct rdma_recv_wr *wr)
{
	struct recv *r;

	if (qp->nr_recv >= qp->max_recv || wr->nr_sge > ARRAY_SIZE(r->sge))
		return -ENOMEM;
	r = calloc(1, sizeof(*r));
	r->wr_id = wr->wr_id;
	r->nr_sge = wr->nr_sge;
	for (uint32_t i = 0; i < wr->nr_sge; i++)
		r->sge[i] = wr->sge[i];
	list_add_tail(&r->link, &qp->recvs);
	qp->nr_recv++;
	if (qp->broken) {
		const struct rdma_wc wc = { .wr_id = r->wr_id,
					    .qp = &qp->qp,
					    .status = RDMA_WC_WR_FLUSH_ERR };

		cq_push(qp->qp.recv_cq, &wc);
		list_del(&r->link);
		qp->nr_recv--;
		free(r);
	}
	return 0;
}

static int mem_post_recv(struct rdma_qp *rqp, const struct rdma_recv_wr *wr,
			 const struct rdma_recv_wr **bad)
{
	struct mem_qp *qp = container_of(rqp, struct mem_qp, qp);
	int err = 0;

	pthread_mutex_lock(&dev_lock);
	for (; wr; wr = wr->next) {
		err = recv_one(qp, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	if (!err)
		held_retry(qp);
	pthread_mutex_unlock(&dev_lock);
	return err;
}

static int mem_poll_cq(struct rdma_cq *rcq, struct rdma_wc *wc, int max)
{
	struct mem_cq *cq = container_of(rcq, struct mem_cq, cq);
	int n = 0;

	if (__atomic_load_n(&cq->tail, __ATOMIC_ACQUIRE) == cq->head)
		return 0;
	pthread_mutex_lock(&dev_lock);
	while (n < max && cq->head != cq->tail)
		wc[n++] = cq->ring[cq->head++ % cq->size];
	pthread_mutex_unlock(&dev_lock);
	if (sim_late_flush && n && wc[n - 1].status != RDMA_WC_SUCCESS)
		usleep(4 * LATE_US); /* as if another CPU were slow with what it has taken */
	return n;
}

static void mem_arm_cq(struct rdma_cq *rcq, bool solicited_only)
{
	struct mem_cq *cq = container_of(rcq, struct mem_cq, cq);

	(void)solicited_only;
	pthread_mutex_lock(&dev_lock);
	if (cq->head != cq->tail) {
		event_raise(rcq);
	} else {
		cq->armed = true;
	}
	pthread_mutex_unlock(&dev_lock);
}

static const struct rdma_device_ops mem_ops = {
	.device_attr = mem_device_attr,
	.port_attr = mem_port_attr,
	.pd_create = mem_pd_create,
	.pd_destroy = mem_pd_destroy,
	.mr_create = mem_mr_create,
	.mr_destroy = mem_mr_destroy,
	.cq_create = mem_cq_create,
	.cq_destroy = mem_cq_destroy,
	.qp_create = mem_qp_create,
	.qp_destroy = mem_qp_destroy,
	.qp_to_init = mem_qp_to_init,
	.qp_to_rtr = mem_qp_to_rtr,
	.qp_to_rts = mem_qp_to_rts,
	.qp_to_rts_ud = mem_qp_to_rts_ud,
	.qp_to_err = mem_qp_to_err,
	.post_send = mem_post_send,
	.ring_send = mem_ring_send,
	.post_recv = mem_post_recv,
	.poll_cq = mem_poll_cq,
	.arm_cq = mem_arm_cq,
};

void memverbs_start(int fd, uint32_t node)
{
	pthread_t thread;

	sock = fd;
	self = node;
	mem_dev.ops = &mem_ops;
	if (pthread_create(&thread, NULL, device_main, NULL) ||
	    rdma_device_register(&mem_dev, "mem"))
		abort();
}
