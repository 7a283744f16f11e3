/* SPDX-License-Identifier: MIT */
/*
 * RDMA self-test: work that the server does to its client on command: WRITE, READ and atomics
 * on the client's memory, and datagrams back to their sender.
 *
 * Flow:	a command on the connection (selftest_conn.c) names the work; its answer is the
 *		outcome.  A program of another system that knows struct st_hello and struct
 *		st_cmd can be the client: test/reference/peer.c is one, for Linux.
 * Context:	the connection's thread.
 * Limits:	for tests only.  Datagrams use the data area, so they overwrite what a WRITE
 *		left there.
 */
#include "selftest.h"

#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#define UD_SLOT     8192U /* a GRH, and a payload of the largest MTU */
#define UD_NR_SLOTS (ST_DATA_LEN / UD_SLOT)

struct ud {
	struct st_conn *c;
	struct rdma_cq *cq;
	struct rdma_qp *qp;
};

/* --- one-sided work on the client's data area ----------------------------------------- */

static struct rdma_send_wr one_sided(const struct st_conn *c, enum rdma_wr_opcode op,
				     const struct rdma_sge *sge)
{
	return (struct rdma_send_wr){
		.sge = sge,
		.nr_sge = 1,
		.opcode = op,
		.remote_addr = c->peer_addr + ST_DATA_AT,
		.rkey = c->peer_rkey,
	};
}

uint32_t st_peer_put(struct st_conn *c, uint32_t seed, uint32_t len)
{
	const struct rdma_sge sge = st_sge_at(c, ST_DATA_AT, len);
	struct rdma_send_wr wr = one_sided(c, RDMA_WR_WRITE, &sge);

	st_pattern_fill(c->buf + ST_DATA_AT, len, seed);
	return st_do_wr(c, &wr) == RDMA_WC_SUCCESS;
}

uint32_t st_peer_get(struct st_conn *c, uint32_t seed, uint32_t len)
{
	const struct rdma_sge sge = st_sge_at(c, ST_DATA_AT, len);
	struct rdma_send_wr wr = one_sided(c, RDMA_WR_READ, &sge);

	memset(c->buf + ST_DATA_AT, 0, len);
	return st_do_wr(c, &wr) == RDMA_WC_SUCCESS && st_pattern_ok(c->buf + ST_DATA_AT, len, seed);
}

/* The low half of the value that was there; all ones if it failed. */
uint32_t st_peer_atomic(struct st_conn *c, enum rdma_wr_opcode op, uint32_t compare_add,
			uint32_t swap)
{
	const struct rdma_sge sge = st_sge_at(c, ST_DATA_AT, 8);
	struct rdma_send_wr wr = one_sided(c, op, &sge);
	uint32_t old;

	wr.compare_add = compare_add;
	wr.swap = swap;
	if (st_do_wr(c, &wr) != RDMA_WC_SUCCESS)
		return UINT32_MAX;
	memcpy(&old, c->buf + ST_DATA_AT, sizeof(old));
	return old;
}

/* --- datagrams ------------------------------------------------------------------------- */

static void no_event(struct rdma_cq *cq, void *arg)
{
}

static int ud_recv_post(struct ud *u, uint32_t slot)
{
	const struct rdma_sge sge = st_sge_at(u->c, ST_DATA_AT + slot * UD_SLOT, UD_SLOT);
	const struct rdma_recv_wr wr = { .wr_id = slot, .sge = &sge, .nr_sge = 1 };
	const struct rdma_recv_wr *bad;

	return rdma_post_recv(u->qp, &wr, &bad);
}

static void ud_close(struct ud *u)
{
	if (!IS_ERR_OR_NULL(u->qp))
		rdma_qp_destroy(u->qp);
	if (!IS_ERR_OR_NULL(u->cq))
		rdma_cq_destroy(u->cq);
}

static int ud_open(struct ud *u, struct st_conn *c)
{
	struct rdma_qp_init init = {
		.type = RDMA_QPT_UD,
		.max_send_wr = UD_NR_SLOTS,
		.max_recv_wr = UD_NR_SLOTS,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.port = 1,
		.qkey = ST_QKEY,
	};
	int err;

	*u = (struct ud){ .c = c };
	u->cq = rdma_cq_create(c->dev, 4 * UD_NR_SLOTS, 0, no_event, NULL);
	err = PTR_ERR_OR_ZERO(u->cq);
	if (err)
		return err;
	init.send_cq = u->cq;
	init.recv_cq = u->cq;
	u->qp = rdma_qp_create(c->pd, &init);
	err = PTR_ERR_OR_ZERO(u->qp);
	if (!err)
		err = rdma_qp_to_rts_ud(u->qp);
	for (uint32_t n = 0; n < UD_NR_SLOTS && !err; n++)
		err = ud_recv_post(u, n);
	if (err)
		ud_close(u);
	return err;
}

/*
 * A datagram came: every byte of it goes back inverted, so that the sender sees that it was
 * read.
 */
static bool ud_send_back(struct ud *u, const struct rdma_wc *wc)
{
	const uint32_t slot = (uint32_t)wc->wr_id;
	const uint32_t at = ST_DATA_AT + slot * UD_SLOT + RDMA_GRH_LEN;
	const uint32_t len = wc->byte_len - RDMA_GRH_LEN;
	const struct rdma_sge sge = st_sge_at(u->c, at, len);
	const struct rdma_send_wr wr = {
		.wr_id = UD_NR_SLOTS + slot,
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_SEND,
		.flags = RDMA_SEND_SIGNALED,
		.dest = { .dlid = wc->slid, .sl = wc->sl },
		.dest_qpn = wc->src_qpn,
		.dest_qkey = ST_QKEY,
	};
	const struct rdma_send_wr *bad;

	for (uint32_t n = 0; n < len; n++)
		u->c->buf[at + n] ^= 0xff;
	return rdma_post_send(u->qp, &wr, &bad) == 0;
}

/* Answer @nr datagrams; a buffer is posted again once the answer has left it. */
static bool ud_serve(struct ud *u, uint32_t nr)
{
	uint64_t deadline = time_now_ns() + ST_LIMIT_NS;
	struct rdma_wc wc;

	for (uint32_t sent = 0; sent < nr;) {
		if (rdma_poll_cq(u->cq, &wc, 1) == 0) {
			if (time_now_ns() > deadline || atomic_read(&u->c->over))
				return false;
			thread_yield();
			continue;
		}
		deadline = time_now_ns() + ST_LIMIT_NS;
		if (wc.status != RDMA_WC_SUCCESS)
			return false;
		if (wc.opcode == RDMA_WC_RECV) {
			if (wc.byte_len < RDMA_GRH_LEN || !ud_send_back(u, &wc))
				return false;
		} else {
			sent++;
			if (ud_recv_post(u, (uint32_t)wc.wr_id - UD_NR_SLOTS))
				return false;
		}
	}
	return true;
}

uint32_t st_peer_datagrams(struct st_conn *c, uint32_t nr)
{
	struct ud u;
	bool ok;

	if (ud_open(&u, c))
		return 0;
	ok = st_send_cmd(c, ST_RESULT, 0, 0, rdma_qp_num(u.qp)) == RDMA_WC_SUCCESS &&
	     ud_serve(&u, nr);
	ud_close(&u);
	return ok;
}
