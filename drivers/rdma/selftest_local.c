/* SPDX-License-Identifier: MIT */
/*
 * RDMA self-test: the cases that a node can run without a peer.
 *
 * Flow:	a queue pair in the error state flushes what is posted: every post is one
 *		doorbell, and gives exactly one completion, so a register access that is lost is
 *		noticed at once.  Cases that need two ends go from one queue pair to another of
 *		the same port.
 * Context:	one thread, and for the hammer one more per CPU.
 */
#include <arch/cpu.h>
#include <arch/percpu.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "selftest.h"

#define PR_FMT "selftest: "
#include <kernel/printk.h>

#define ROUNDS    300U
#define MR_EVERY  50U
#define ARM_EVERY 8U
#define READS     24U
#define READ_LEN  1000U
#define WR_RECV   0x1000U
#define PSN       0x1234U

static uint32_t nr_vectors(struct rdma_device *dev)
{
	struct rdma_device_attr attr;

	rdma_device_attr(dev, &attr);
	return attr.nr_comp_vectors;
}

/* --- a vector per CPU ---------------------------------------------------------------- */

static bool vector_works(struct rdma_device *dev, uint32_t vector)
{
	struct st_conn *c = st_conn_new(dev, vector);
	bool ok;

	if (IS_ERR(c))
		return false;
	rdma_arm_cq(c->cq, false);
	ok = rdma_qp_to_err(c->qp) == 0 &&
	     wait_event_timeout(&c->wq, atomic_read(&c->cq_event), time_now_ns() + ST_LIMIT_NS);
	if (ok && c->event_cpu != vector % cpu_online_count()) {
		pr_err("vector %u came to CPU %u\n", vector, c->event_cpu);
		ok = false;
	}
	st_conn_free(c);
	return ok;
}

static void case_vectors(struct rdma_device *dev)
{
	const uint32_t nr = nr_vectors(dev);
	bool ok = nr > 0;

	for (uint32_t v = 0; v < nr && ok; v++)
		ok = vector_works(dev, v);
	pr_info("%u completion vectors on %u CPUs\n", nr, cpu_online_count());
	st_report("vectors", ok);
}

/* --- all CPUs at the doorbells ------------------------------------------------------- */

struct hammer {
	struct rdma_device *dev;
	struct thread *thread;
	unsigned int cpu;
	uint32_t nr_done;
	bool ok;
};

/* A region comes and goes: commands, with register reads, among the doorbells. */
static bool mr_once(struct st_conn *c)
{
	const struct rdma_phys_range range = { .paddr = c->paddr, .len = PAGE_SIZE };
	struct rdma_mr *mr = rdma_mr_create(c->pd, c->paddr, &range, 1, 0);

	if (IS_ERR(mr))
		return false;
	rdma_mr_destroy(mr);
	return true;
}

static bool hammer_round(struct st_conn *c, uint32_t n)
{
	const struct rdma_sge sge = { .addr = (uintptr_t)&n, .len = sizeof(n) };
	struct rdma_send_wr wr = {
		.sge = &sge, .nr_sge = 1, .opcode = RDMA_WR_SEND, .flags = RDMA_SEND_INLINE
	};

	if (n % ARM_EVERY == 0)
		rdma_arm_cq(c->cq, false);
	if (n % MR_EVERY == 0 && !mr_once(c))
		return false;
	return st_do_wr(c, &wr) == RDMA_WC_WR_FLUSH_ERR;
}

static void hammer_thread(void *arg)
{
	struct hammer *h = arg;
	struct st_conn *c;

	thread_pin(h->cpu);
	c = st_conn_new(h->dev, h->cpu % nr_vectors(h->dev));
	if (IS_ERR(c))
		return;
	h->ok = rdma_qp_to_err(c->qp) == 0;
	while (h->ok && h->nr_done < ROUNDS)
		h->ok = hammer_round(c, h->nr_done++);
	st_conn_free(c);
}

static void case_hammer(struct rdma_device *dev)
{
	const unsigned int nr = cpu_online_count();
	struct hammer *all = kcalloc(nr, sizeof(*all));
	bool ok = all != NULL;

	for (unsigned int n = 0; all && n < nr; n++) {
		all[n] = (struct hammer){ .dev = dev, .cpu = n };
		all[n].thread = thread_create("hammer", hammer_thread, &all[n]);
	}
	for (unsigned int n = 0; all && n < nr; n++) {
		if (!IS_ERR(all[n].thread))
			thread_join(all[n].thread);
		if (!all[n].ok)
			pr_err("CPU %u: stopped after %u doorbells\n", n, all[n].nr_done);
		ok = ok && all[n].ok;
	}
	kfree(all);
	st_report("hammer", ok);
}

/* --- from one queue pair to another of the same port --------------------------------- */

static bool join(struct rdma_device *dev, struct st_conn *a, struct st_conn *b)
{
	struct rdma_port_attr port;
	struct rdma_device_attr attr;
	struct rdma_qp_conn conn = {
		.rq_psn = PSN,
		.sq_psn = PSN,
		.path_mtu = RDMA_MTU_1024,
		.ack_timeout = 16,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 12,
		.access = RDMA_ACCESS_REMOTE_READ | RDMA_ACCESS_REMOTE_WRITE,
		.remote_qpn = rdma_qp_num(b->qp),
	};

	rdma_device_attr(dev, &attr);
	if (rdma_port_attr(dev, 1, &port))
		return false;
	conn.addr.dlid = port.lid;
	conn.max_rd_atomic = (uint8_t)MIN(attr.max_rd_atomic, 16U);
	conn.max_dest_rd_atomic = conn.max_rd_atomic;
	return rdma_qp_to_rtr(a->qp, &conn) == 0 && rdma_qp_to_rts(a->qp, &conn) == 0;
}

static uint64_t count_of(const char *name)
{
	uint64_t v = 0;

	return counter_find(name, &v) ? v : 0;
}

/* A SEND with immediate whose bytes travel in the request; the counters tell how it went. */
static bool send_imm(struct st_conn *a, struct st_conn *b)
{
	static const char text[] = "forty-two bytes of text in the request....";
	const uint64_t inlined = count_of("rdma.send_inline");
	const uint64_t signalled = count_of("rdma.send_signalled");
	const struct rdma_sge sge = { .addr = (uintptr_t)text, .len = sizeof(text) };
	struct rdma_send_wr wr = { .sge = &sge,
				   .nr_sge = 1,
				   .opcode = RDMA_WR_SEND_WITH_IMM,
				   .flags = RDMA_SEND_INLINE,
				   .imm = 0xcafe0042 };
	char got[sizeof(text)];
	struct rdma_wc wc;

	return st_post(a, &wr) == 0 && st_do_wr(a, &wr) == RDMA_WC_SUCCESS &&
	       count_of("rdma.send_inline") == inlined + 2 &&
	       count_of("rdma.send_signalled") == signalled + 1 &&
	       st_recv_msg(b, got, sizeof(got), &wc) == 0 && wc.opcode == RDMA_WC_RECV &&
	       wc.flags & RDMA_WC_WITH_IMM && wc.imm == 0xcafe0042 && wc.byte_len == sizeof(text) &&
	       memcmp(got, text, sizeof(text)) == 0;
}

/* More READs on one doorbell than may be under way at a time. */
static bool many_reads(struct st_conn *a, struct st_conn *b)
{
	static struct rdma_sge sge[READS]; /* one self-test at a time; too large for a stack */
	static struct rdma_send_wr wr[READS];

	st_pattern_fill(b->buf + ST_DATA_AT, READS * READ_LEN, 5);
	for (uint32_t n = 0; n < READS; n++) {
		sge[n] = st_sge_at(a, ST_DATA_AT + n * READ_LEN, READ_LEN);
		wr[n] = (struct rdma_send_wr){
			.next = n + 1 < READS ? &wr[n + 1] : NULL,
			.sge = &sge[n],
			.nr_sge = 1,
			.opcode = RDMA_WR_READ,
			.flags = n + 1 < READS ? 0 : RDMA_SEND_SIGNALED,
			.remote_addr = b->paddr + ST_DATA_AT + n * READ_LEN,
			.rkey = rdma_mr_rkey(b->mr),
		};
	}
	return st_post(a, wr) == 0 && st_wait_send(a) == RDMA_WC_SUCCESS &&
	       st_pattern_ok(a->buf + ST_DATA_AT, READS * READ_LEN, 5);
}

/* Word @n of @a to the same place in @b. */
static bool write_word(struct st_conn *a, struct st_conn *b, uint32_t n, uint32_t flags)
{
	const uint32_t off = ST_DATA_AT + n * (uint32_t)sizeof(uint64_t);
	const struct rdma_sge sge = st_sge_at(a, off, sizeof(uint64_t));
	struct rdma_send_wr wr = { .sge = &sge,
				   .nr_sge = 1,
				   .opcode = RDMA_WR_WRITE,
				   .flags = flags,
				   .remote_addr = b->paddr + off,
				   .rkey = rdma_mr_rkey(b->mr) };

	return st_post(a, &wr) == 0;
}

#define WORDS 6u

/* Requests whose doorbell is put off: one for all of them, or that of the next request. */
static bool deferred(struct st_conn *a, struct st_conn *b)
{
	const uint64_t rung = count_of("rdma.doorbells");
	bool ok = true;

	st_pattern_fill(a->buf + ST_DATA_AT, WORDS * sizeof(uint64_t), 9);
	memset(b->buf + ST_DATA_AT, 0, WORDS * sizeof(uint64_t));
	for (uint32_t n = 0; n < 3 && ok; n++)
		ok = write_word(a, b, n, RDMA_SEND_DEFER);
	ok = ok && write_word(a, b, 3, RDMA_SEND_DEFER | RDMA_SEND_SIGNALED) &&
	     count_of("rdma.doorbells") == rung;
	rdma_ring_send(a->qp);
	ok = ok && st_wait_send(a) == RDMA_WC_SUCCESS && count_of("rdma.doorbells") == rung + 1;
	rdma_ring_send(a->qp); /* for nothing */
	ok = ok && st_pattern_ok(b->buf + ST_DATA_AT, 4 * sizeof(uint64_t), 9) &&
	     count_of("rdma.doorbells") == rung + 1 && write_word(a, b, 4, RDMA_SEND_DEFER) &&
	     write_word(a, b, 5, RDMA_SEND_SIGNALED) && st_wait_send(a) == RDMA_WC_SUCCESS &&
	     count_of("rdma.doorbells") == rung + 2;
	return ok && st_pattern_ok(b->buf + ST_DATA_AT, WORDS * sizeof(uint64_t), 9);
}

static void case_loop(struct rdma_device *dev)
{
	struct st_conn *a = st_conn_new(dev, 0);
	struct st_conn *b = st_conn_new(dev, 0);
	const bool ok = !IS_ERR(a) && !IS_ERR(b) && join(dev, a, b) && join(dev, b, a);

	st_report("send_imm_inline", ok && send_imm(a, b));
	st_report("many_reads", ok && many_reads(a, b));
	st_report("deferred", ok && deferred(a, b));
	if (!IS_ERR(a))
		st_conn_free(a);
	if (!IS_ERR(b))
		st_conn_free(b);
}

void st_local_cases(struct rdma_device *dev)
{
	case_vectors(dev);
	case_hammer(dev);
	case_loop(dev);
}
