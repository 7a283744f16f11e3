/* SPDX-License-Identifier: MIT */
/*
 * RDMA self-test: one connection with its buffer, and the server that obeys commands.
 *
 * Context:	threads; the server has one per connection.
 * Limits:	for tests only: the server trusts its client.
 */
#include "selftest.h"

#include <arch/percpu.h>
#include <kernel/reboot.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#define SLOT     256U
#define NR_SLOTS 16U
#define WR_RECV  0x1000U

/* --- one connection ------------------------------------------------------------------ */

void st_pattern_fill(uint8_t *p, uint32_t len, uint32_t seed)
{
	for (uint32_t n = 0; n < len; n++)
		p[n] = (uint8_t)(seed + n * 7 + (n >> 8));
}

bool st_pattern_ok(const uint8_t *p, uint32_t len, uint32_t seed)
{
	for (uint32_t n = 0; n < len; n++) {
		if (p[n] != (uint8_t)(seed + n * 7 + (n >> 8)))
			return false;
	}
	return true;
}

static void cq_event(struct rdma_cq *cq, void *arg)
{
	struct st_conn *c = arg;

	c->event_cpu = cpu_id();
	atomic_set(&c->cq_event, 1);
	wake_all(&c->wq);
}

static int recv_post(struct st_conn *c, uint32_t slot)
{
	const struct rdma_sge sge = { .addr = c->paddr + slot * SLOT,
				      .len = SLOT,
				      .lkey = rdma_mr_lkey(c->mr) };
	const struct rdma_recv_wr wr = { .wr_id = WR_RECV | slot, .sge = &sge, .nr_sge = 1 };
	const struct rdma_recv_wr *bad;

	return rdma_post_recv(c->qp, &wr, &bad);
}

void st_conn_free(struct st_conn *c)
{
	if (!IS_ERR_OR_NULL(c->cm))
		cm_conn_destroy(c->cm);
	if (!IS_ERR_OR_NULL(c->qp))
		rdma_qp_destroy(c->qp);
	if (!IS_ERR_OR_NULL(c->cq))
		rdma_cq_destroy(c->cq);
	if (!IS_ERR_OR_NULL(c->mr))
		rdma_mr_destroy(c->mr);
	if (!IS_ERR_OR_NULL(c->pd))
		rdma_pd_destroy(c->pd);
	if (c->buf)
		dma_free(c->buf, ST_BUF_LEN);
	kfree(c);
}

struct st_conn *st_conn_new(struct rdma_device *dev, uint32_t vector)
{
	struct st_conn *c = kzalloc(sizeof(*c));
	struct rdma_phys_range range = { .len = ST_BUF_LEN };
	struct rdma_qp_init init = {
		.type = RDMA_QPT_RC,
		.max_send_wr = 64,
		.max_recv_wr = NR_SLOTS,
		.max_send_sge = 2,
		.max_recv_sge = 1,
		.max_inline = 128,
		.port = 1,
	};
	int err = -ENOMEM;

	if (!c)
		return ERR_PTR(-ENOMEM);
	c->dev = dev;
	waitqueue_init(&c->wq);
	c->buf = dma_alloc(ST_BUF_LEN, &c->paddr);
	range.paddr = c->paddr;
	if (!c->buf)
		goto out;
	c->pd = rdma_pd_create(dev);
	err = PTR_ERR_OR_ZERO(c->pd);
	if (err)
		goto out;
	c->mr = rdma_mr_create(c->pd, c->paddr, &range, 1,
			       RDMA_ACCESS_LOCAL_WRITE | RDMA_ACCESS_REMOTE_WRITE |
				       RDMA_ACCESS_REMOTE_READ | RDMA_ACCESS_REMOTE_ATOMIC);
	err = PTR_ERR_OR_ZERO(c->mr);
	if (err)
		goto out;
	c->cq = rdma_cq_create(dev, 128, vector, cq_event, c);
	err = PTR_ERR_OR_ZERO(c->cq);
	if (err)
		goto out;
	init.send_cq = c->cq;
	init.recv_cq = c->cq;
	c->qp = rdma_qp_create(c->pd, &init);
	err = PTR_ERR_OR_ZERO(c->qp);
	if (!err)
		err = rdma_qp_to_init(c->qp, RDMA_ACCESS_REMOTE_WRITE | RDMA_ACCESS_REMOTE_READ |
						     RDMA_ACCESS_REMOTE_ATOMIC);
	for (uint32_t n = 0; n < NR_SLOTS && !err; n++)
		err = recv_post(c, n);
	if (!err)
		return c;
out:
	st_conn_free(c);
	return ERR_PTR(err);
}

/* Spin until a completion, or the limit: 1, or -ETIMEDOUT. */
static int poll_one(struct st_conn *c, struct rdma_wc *wc)
{
	const uint64_t deadline = time_now_ns() + ST_LIMIT_NS;

	while (rdma_poll_cq(c->cq, wc, 1) == 0) {
		if (time_now_ns() > deadline)
			return -ETIMEDOUT;
		thread_yield();
	}
	return 1;
}

/* Wait for our own request's completion; receives that come meanwhile are noted. */
enum rdma_wc_status st_wait_send(struct st_conn *c)
{
	struct rdma_wc wc;

	for (;;) {
		if (poll_one(c, &wc) < 0)
			return RDMA_WC_GENERAL_ERR;
		if (!(wc.wr_id & WR_RECV))
			return wc.status;
		if (wc.status == RDMA_WC_SUCCESS && wc.flags & RDMA_WC_WITH_IMM) {
			c->imm = wc.imm;
			c->got_imm = true;
		}
	}
}

int st_post(struct st_conn *c, struct rdma_send_wr *wr)
{
	const struct rdma_send_wr *bad;

	return rdma_post_send(c->qp, wr, &bad);
}

enum rdma_wc_status st_do_wr(struct st_conn *c, struct rdma_send_wr *wr)
{
	wr->flags |= RDMA_SEND_SIGNALED;
	return st_post(c, wr) ? RDMA_WC_LOC_QP_OP_ERR : st_wait_send(c);
}

struct rdma_sge st_sge_at(const struct st_conn *c, uint32_t off, uint32_t len)
{
	return (struct rdma_sge){ .addr = c->paddr + off, .len = len, .lkey = rdma_mr_lkey(c->mr) };
}

enum rdma_wc_status st_send_cmd(struct st_conn *c, uint32_t op, uint32_t arg, uint32_t len,
				uint32_t result)
{
	const struct st_cmd cmd = { cpu_to_le32(op), cpu_to_le32(arg), cpu_to_le32(len),
				    cpu_to_le32(result) };
	const struct rdma_sge sge = { .addr = (uintptr_t)&cmd, .len = sizeof(cmd) };
	struct rdma_send_wr wr = {
		.sge = &sge, .nr_sge = 1, .opcode = RDMA_WR_SEND, .flags = RDMA_SEND_INLINE
	};

	return st_do_wr(c, &wr);
}

/* The next message; its slot is posted again. */
int st_recv_msg(struct st_conn *c, void *msg, uint32_t len, struct rdma_wc *wc)
{
	uint32_t slot;

	do {
		if (poll_one(c, wc) < 0)
			return -ETIMEDOUT;
	} while (!(wc->wr_id & WR_RECV));
	if (wc->status != RDMA_WC_SUCCESS)
		return -EIO;
	slot = (uint32_t)wc->wr_id & (NR_SLOTS - 1);
	memcpy(msg, c->buf + slot * SLOT, MIN(len, SLOT));
	return recv_post(c, slot);
}

/* Ask the server; its result, or a negative errno. */
int st_ask(struct st_conn *c, uint32_t op, uint32_t arg, uint32_t len)
{
	struct st_cmd answer;
	struct rdma_wc wc;
	int err;

	if (st_send_cmd(c, op, arg, len, 0) != RDMA_WC_SUCCESS)
		return -EIO;
	err = st_recv_msg(c, &answer, sizeof(answer), &wc);
	return err ? err : (int)le32_to_cpu(answer.result);
}

/* --- server -------------------------------------------------------------------------- */

/* Answer pings: when the n-th has arrived, write the n-th pong. */
static uint32_t serve_pings(struct st_conn *c, uint32_t nr, uint32_t len)
{
	volatile uint32_t *ping = (volatile uint32_t *)(void *)(c->buf + ST_PING_AT + len - 4);
	const struct rdma_sge sge = st_sge_at(c, ST_PONG_AT, len);
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_WRITE,
		.remote_addr = c->peer_addr + ST_PONG_AT,
		.rkey = c->peer_rkey,
	};

	for (uint32_t n = 1; n <= nr; n++) {
		const uint64_t deadline = time_now_ns() + ST_LIMIT_NS;

		while (*ping != n) {
			if (time_now_ns() > deadline)
				return 0;
		}
		memcpy(c->buf + ST_PONG_AT + len - 4, &n, 4);
		wr.flags = n % 32 == 0 || n == nr ? RDMA_SEND_SIGNALED : 0;
		if (st_post(c, &wr) || (wr.flags && st_wait_send(c) != RDMA_WC_SUCCESS))
			return 0;
	}
	return 1;
}

/* Do what a command says; what to answer. */
static uint32_t serve_cmd(struct st_conn *c, const struct st_cmd *cmd)
{
	const uint32_t arg = le32_to_cpu(cmd->arg);
	const uint32_t len = MIN(le32_to_cpu(cmd->len), ST_DATA_LEN);

	switch (le32_to_cpu(cmd->op)) {
	case ST_CHECK:
		return st_pattern_ok(c->buf + ST_DATA_AT, len, arg);
	case ST_FILL:
		st_pattern_fill(c->buf + ST_DATA_AT, len, arg);
		return 1;
	case ST_PING:
		memset(c->buf + ST_PING_AT, 0, 8192);
		(void)st_send_cmd(c, ST_RESULT, 0, 0, 1);
		return serve_pings(c, arg, MIN(len, 4096U));
	case ST_PUT:
		return st_peer_put(c, arg, len);
	case ST_GET:
		return st_peer_get(c, arg, len);
	case ST_ADD:
		return st_peer_atomic(c, RDMA_WR_ATOMIC_FETCH_ADD, arg, 0);
	case ST_SWAP:
		return st_peer_atomic(c, RDMA_WR_ATOMIC_CAS, arg, le32_to_cpu(cmd->result));
	case ST_DATAGRAMS:
		return st_peer_datagrams(c, arg);
	case ST_QUIT:
		(void)st_send_cmd(c, ST_RESULT, 0, 0, 1);
		thread_sleep_ns(100 * NSEC_PER_MSEC);
		machine_poweroff(EXIT_STATUS_OK);
	default:
		return 1;
	}
}

static void serve(struct st_conn *c)
{
	struct st_cmd cmd;
	struct rdma_wc wc;

	while (!atomic_read(&c->over) && st_recv_msg(c, &cmd, sizeof(cmd), &wc) == 0) {
		/* A WRITE with immediate leaves an old command in the slot. */
		const uint32_t result = wc.flags & RDMA_WC_WITH_IMM ? wc.imm : serve_cmd(c, &cmd);

		if (st_send_cmd(c, ST_RESULT, 0, 0, result) != RDMA_WC_SUCCESS)
			break;
	}
}

static void server_conn(void *arg)
{
	struct st_conn *c = arg;

	serve(c);
	wait_event(&c->wq, atomic_read(&c->over));
	st_conn_free(c);
}

struct cm_params st_params_of(const struct st_conn *c, const struct st_hello *hello)
{
	return (struct cm_params){
		.qp = c->qp,
		.access = RDMA_ACCESS_REMOTE_WRITE | RDMA_ACCESS_REMOTE_READ |
			  RDMA_ACCESS_REMOTE_ATOMIC,
		.retry_cnt = 7,
		.rnr_retry = 1,
		.ack_timeout = 16,
		.max_rd_atomic = 4,
		.private_data = hello,
		.private_len = sizeof(*hello),
	};
}

struct st_hello st_hello_of(const struct st_conn *c)
{
	return (struct st_hello){ .addr = cpu_to_le64(c->paddr),
				  .rkey = cpu_to_le32(rdma_mr_rkey(c->mr)) };
}

void st_hello_take(struct st_conn *c, const struct cm_event *ev)
{
	struct st_hello hello;

	memcpy(&hello, ev->private_data, sizeof(hello));
	c->peer_addr = le64_to_cpu(hello.addr);
	c->peer_rkey = le32_to_cpu(hello.rkey);
}

static int server_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct st_conn *c = arg;

	if (ev->type == CM_EVENT_ESTABLISHED)
		return 0;
	/* Over, in whatever way: the connection's thread cleans up. */
	atomic_set(&c->over, 1);
	(void)!rdma_qp_to_err(c->qp);
	wake_all(&c->wq);
	return 0;
}

int st_server_request(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct st_conn *c;
	struct st_hello hello;
	struct cm_params params;
	struct thread *t;

	if (ev->type != CM_EVENT_REQUEST)
		return 1;
	c = st_conn_new(arg, 0);
	if (IS_ERR(c))
		return 1;
	st_hello_take(c, ev);
	hello = st_hello_of(c);
	params = st_params_of(c, &hello);
	cm_conn_set_arg(cm, server_event, c);
	if (cm_accept(cm, &params)) {
		st_conn_free(c);
		return 1;
	}
	c->cm = cm;
	t = thread_create("selftest-conn", server_conn, c);
	if (IS_ERR(t))
		return 1;
	thread_detach(t);
	return 0;
}
