/* SPDX-License-Identifier: MIT */
/*
 * RDMA self-test between two nodes: every kind of work request, checked data, error completions, and
 * a polled ping-pong.
 *
 * Flow:	rdma.selftest=serve listens; rdma.selftest=lid:<n> connects to the server there, once per
 *		case, prints TAP, and powers off.  The server obeys commands that come as SENDs and
 *		powers off when told to quit.
 * Context:	a thread of its own on each side; the server has one per connection.
 * Limits:	for tests only (CONFIG_RDMA_SELFTEST): the server trusts its client.
 */
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/reboot.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/byteorder.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>
#include <rdma/cm.h>
#include <rdma/sa.h>
#include <rdma/verbs.h>

#define PR_FMT "selftest: "
#include <kernel/printk.h>

#define SERVICE  0x7465737365726100ULL
#define BUF_LEN  (128U * 1024)
#define SLOT     256U
#define NR_SLOTS 16U
#define DATA_AT  8192U /* receive slots and send slots lie below */
#define DATA_LEN 65536U
#define PING_AT  (DATA_AT + DATA_LEN)
#define PONG_AT  (PING_AT + 4096)
#define LIMIT_NS (20 * NSEC_PER_SEC)
#define PINGS    2000U
#define CHAIN    16U
#define WR_RECV  0x1000U

enum st_op {
	ST_ECHO = 1,
	ST_CHECK = 2, /* is the pattern @arg in your data area? */
	ST_FILL = 3,  /* put the pattern @arg there */
	ST_PING = 4,  /* answer @arg pings of @len bytes */
	ST_QUIT = 5,
	ST_RESULT = 6,
};

struct st_cmd {
	le32_t op;
	le32_t arg;
	le32_t len;
	le32_t result;
};

struct st_hello { /* private data of REQ and REP */
	le64_t addr;
	le32_t rkey;
	le32_t reserved;
};

struct st_conn {
	struct rdma_device *dev;
	struct rdma_pd *pd;
	struct rdma_mr *mr;
	struct rdma_cq *cq;
	struct rdma_qp *qp;
	struct cm_conn *cm;
	uint8_t *buf;
	paddr_t paddr;
	uint64_t peer_addr;
	uint32_t peer_rkey;
	struct waitqueue wq;
	atomic_t up, over, cq_event;
	uint16_t reason;
	uint32_t imm;
	bool got_imm;
};

static const char *mode;
BOOT_PARAM("rdma.selftest", string, mode, "serve, or lid:<n> of a server: test RDMA and power off");

static unsigned int case_nr, nr_failed;

/* --- one connection ------------------------------------------------------------------ */

static void pattern_fill(uint8_t *p, uint32_t len, uint32_t seed)
{
	for (uint32_t n = 0; n < len; n++)
		p[n] = (uint8_t)(seed + n * 7 + (n >> 8));
}

static bool pattern_ok(const uint8_t *p, uint32_t len, uint32_t seed)
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

static void conn_free(struct st_conn *c)
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
		dma_free(c->buf, BUF_LEN);
	kfree(c);
}

static struct st_conn *conn_new(struct rdma_device *dev)
{
	struct st_conn *c = kzalloc(sizeof(*c));
	struct rdma_phys_range range = { .len = BUF_LEN };
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
	c->buf = dma_alloc(BUF_LEN, &c->paddr);
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
	c->cq = rdma_cq_create(dev, 128, 0, cq_event, c);
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
	conn_free(c);
	return ERR_PTR(err);
}

/* Spin until a completion, or the limit: 1, or -ETIMEDOUT. */
static int poll_one(struct st_conn *c, struct rdma_wc *wc)
{
	const uint64_t deadline = time_now_ns() + LIMIT_NS;

	while (rdma_poll_cq(c->cq, wc, 1) == 0) {
		if (time_now_ns() > deadline)
			return -ETIMEDOUT;
		thread_yield();
	}
	return 1;
}

/* Wait for our own request's completion; receives that come meanwhile are noted. */
static enum rdma_wc_status wait_send(struct st_conn *c)
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

static int post(struct st_conn *c, struct rdma_send_wr *wr)
{
	const struct rdma_send_wr *bad;

	return rdma_post_send(c->qp, wr, &bad);
}

static enum rdma_wc_status do_wr(struct st_conn *c, struct rdma_send_wr *wr)
{
	wr->flags |= RDMA_SEND_SIGNALED;
	return post(c, wr) ? RDMA_WC_LOC_QP_OP_ERR : wait_send(c);
}

static struct rdma_sge sge_at(const struct st_conn *c, uint32_t off, uint32_t len)
{
	return (struct rdma_sge){ .addr = c->paddr + off, .len = len, .lkey = rdma_mr_lkey(c->mr) };
}

static enum rdma_wc_status send_cmd(struct st_conn *c, uint32_t op, uint32_t arg, uint32_t len,
				    uint32_t result)
{
	const struct st_cmd cmd = { cpu_to_le32(op), cpu_to_le32(arg), cpu_to_le32(len),
				    cpu_to_le32(result) };
	const struct rdma_sge sge = { .addr = (uintptr_t)&cmd, .len = sizeof(cmd) };
	struct rdma_send_wr wr = {
		.sge = &sge, .nr_sge = 1, .opcode = RDMA_WR_SEND, .flags = RDMA_SEND_INLINE
	};

	return do_wr(c, &wr);
}

/* The next message; its slot is posted again. */
static int recv_msg(struct st_conn *c, void *msg, uint32_t len, struct rdma_wc *wc)
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
static int ask(struct st_conn *c, uint32_t op, uint32_t arg, uint32_t len)
{
	struct st_cmd answer;
	struct rdma_wc wc;
	int err;

	if (send_cmd(c, op, arg, len, 0) != RDMA_WC_SUCCESS)
		return -EIO;
	err = recv_msg(c, &answer, sizeof(answer), &wc);
	return err ? err : (int)le32_to_cpu(answer.result);
}

/* --- server -------------------------------------------------------------------------- */

/* Answer pings: when the n-th has arrived, write the n-th pong. */
static uint32_t serve_pings(struct st_conn *c, uint32_t nr, uint32_t len)
{
	volatile uint32_t *ping = (volatile uint32_t *)(void *)(c->buf + PING_AT + len - 4);
	const struct rdma_sge sge = sge_at(c, PONG_AT, len);
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_WRITE,
		.remote_addr = c->peer_addr + PONG_AT,
		.rkey = c->peer_rkey,
	};

	for (uint32_t n = 1; n <= nr; n++) {
		const uint64_t deadline = time_now_ns() + LIMIT_NS;

		while (*ping != n) {
			if (time_now_ns() > deadline)
				return 0;
		}
		memcpy(c->buf + PONG_AT + len - 4, &n, 4);
		wr.flags = n % 32 == 0 || n == nr ? RDMA_SEND_SIGNALED : 0;
		if (post(c, &wr) || (wr.flags && wait_send(c) != RDMA_WC_SUCCESS))
			return 0;
	}
	return 1;
}

static void serve(struct st_conn *c)
{
	struct st_cmd cmd;
	struct rdma_wc wc;

	while (!atomic_read(&c->over) && recv_msg(c, &cmd, sizeof(cmd), &wc) == 0) {
		const uint32_t arg = le32_to_cpu(cmd.arg);
		const uint32_t len = MIN(le32_to_cpu(cmd.len), DATA_LEN);
		uint32_t result = 1;

		switch (le32_to_cpu(cmd.op)) {
		case ST_CHECK:
			result = pattern_ok(c->buf + DATA_AT, len, arg);
			break;
		case ST_FILL:
			pattern_fill(c->buf + DATA_AT, len, arg);
			break;
		case ST_PING:
			memset(c->buf + PING_AT, 0, 8192);
			(void)send_cmd(c, ST_RESULT, 0, 0, 1);
			result = serve_pings(c, arg, len);
			break;
		case ST_QUIT:
			(void)send_cmd(c, ST_RESULT, 0, 0, 1);
			thread_sleep_ns(100 * NSEC_PER_MSEC);
			machine_poweroff(EXIT_STATUS_OK);
		default:
			break;
		}
		if (wc.flags & RDMA_WC_WITH_IMM)
			result = wc.imm;
		if (send_cmd(c, ST_RESULT, 0, 0, result) != RDMA_WC_SUCCESS)
			break;
	}
}

static void server_conn(void *arg)
{
	struct st_conn *c = arg;

	serve(c);
	wait_event(&c->wq, atomic_read(&c->over));
	conn_free(c);
}

static struct cm_params params_of(const struct st_conn *c, const struct st_hello *hello)
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

static struct st_hello hello_of(const struct st_conn *c)
{
	return (struct st_hello){ .addr = cpu_to_le64(c->paddr),
				  .rkey = cpu_to_le32(rdma_mr_rkey(c->mr)) };
}

static void hello_take(struct st_conn *c, const struct cm_event *ev)
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

static int server_request(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct st_conn *c;
	struct st_hello hello;
	struct cm_params params;
	struct thread *t;

	if (ev->type != CM_EVENT_REQUEST)
		return 1;
	c = conn_new(arg);
	if (IS_ERR(c))
		return 1;
	hello_take(c, ev);
	hello = hello_of(c);
	params = params_of(c, &hello);
	cm_conn_set_arg(cm, server_event, c);
	if (cm_accept(cm, &params)) {
		conn_free(c);
		return 1;
	}
	c->cm = cm;
	t = thread_create("selftest-conn", server_conn, c);
	if (IS_ERR(t))
		return 1;
	thread_detach(t);
	return 0;
}

/* --- client -------------------------------------------------------------------------- */

static int client_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct st_conn *c = arg;

	if (ev->type == CM_EVENT_ESTABLISHED) {
		hello_take(c, ev);
		atomic_set(&c->up, 1);
	} else {
		c->reason = ev->rej_reason;
		atomic_set(&c->over, 1);
	}
	wake_all(&c->wq);
	return 0;
}

static struct st_conn *client_connect(struct rdma_device *dev, const struct rdma_addr *to,
				      uint64_t service)
{
	struct st_conn *c = conn_new(dev);
	struct st_hello hello;
	struct cm_params params;

	if (IS_ERR(c))
		return c;
	hello = hello_of(c);
	params = params_of(c, &hello);
	c->cm = cm_connect(dev, 1, to, service, &params, client_event, c);
	if (!IS_ERR(c->cm))
		wait_event(&c->wq, atomic_read(&c->up) || atomic_read(&c->over));
	return c;
}

static void report(const char *name, bool ok)
{
	char line[96];
	size_t n;

	case_nr++;
	nr_failed += !ok;
	n = scnprintf(line, sizeof(line), "%sok %u rdma.selftest.%s\n", ok ? "" : "not ", case_nr,
		      name);
	console_write(line, n);
}

static void case_send(struct st_conn *c)
{
	report("send", ask(c, ST_ECHO, 0, 0) == 1);
}

static void case_write(struct st_conn *c)
{
	const struct rdma_sge sge[2] = { sge_at(c, DATA_AT, 1000),
					 sge_at(c, DATA_AT + 1000, 64000) };
	struct rdma_send_wr wr = {
		.sge = sge,
		.nr_sge = 2,
		.opcode = RDMA_WR_WRITE,
		.remote_addr = c->peer_addr + DATA_AT,
		.rkey = c->peer_rkey,
	};

	pattern_fill(c->buf + DATA_AT, 65000, 3);
	report("write", do_wr(c, &wr) == RDMA_WC_SUCCESS && ask(c, ST_CHECK, 3, 65000) == 1);
}

static void case_write_imm(struct st_conn *c)
{
	const struct rdma_sge sge = sge_at(c, DATA_AT, 4096);
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_WRITE_WITH_IMM,
		.imm = 0x12345678,
		.remote_addr = c->peer_addr + DATA_AT,
		.rkey = c->peer_rkey,
	};
	struct st_cmd answer;
	struct rdma_wc wc;
	bool ok;

	pattern_fill(c->buf + DATA_AT, 4096, 9);
	ok = do_wr(c, &wr) == RDMA_WC_SUCCESS && recv_msg(c, &answer, sizeof(answer), &wc) == 0 &&
	     le32_to_cpu(answer.result) == 0x12345678;
	report("write_imm", ok && ask(c, ST_CHECK, 9, 4096) == 1);
}

static void case_read(struct st_conn *c)
{
	const struct rdma_sge sge = sge_at(c, DATA_AT, 50000);
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_READ,
		.remote_addr = c->peer_addr + DATA_AT,
		.rkey = c->peer_rkey,
	};
	bool ok = ask(c, ST_FILL, 77, 50000) == 1;

	memset(c->buf + DATA_AT, 0, 50000);
	ok = ok && do_wr(c, &wr) == RDMA_WC_SUCCESS;
	report("read", ok && pattern_ok(c->buf + DATA_AT, 50000, 77));
}

static uint64_t atomic_op(struct st_conn *c, enum rdma_wr_opcode op, uint64_t cmp_add,
			  uint64_t swap)
{
	const struct rdma_sge sge = sge_at(c, DATA_AT, 8);
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = op,
		.compare_add = cmp_add,
		.swap = swap,
		.remote_addr = c->peer_addr + DATA_AT + 64,
		.rkey = c->peer_rkey,
	};
	uint64_t old = ~0ULL;

	if (do_wr(c, &wr) == RDMA_WC_SUCCESS)
		memcpy(&old, c->buf + DATA_AT, 8);
	return old;
}

static void case_atomics(struct st_conn *c)
{
	const uint64_t zero = 0;
	const struct rdma_sge sge = { .addr = (uintptr_t)&zero, .len = 8 };
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_WRITE,
		.flags = RDMA_SEND_INLINE,
		.remote_addr = c->peer_addr + DATA_AT + 64,
		.rkey = c->peer_rkey,
	};
	bool ok = do_wr(c, &wr) == RDMA_WC_SUCCESS;

	ok = ok && atomic_op(c, RDMA_WR_ATOMIC_FETCH_ADD, 5, 0) == 0;
	ok = ok && atomic_op(c, RDMA_WR_ATOMIC_FETCH_ADD, 7, 0) == 5;
	ok = ok && atomic_op(c, RDMA_WR_ATOMIC_CAS, 12, 100) == 12;
	ok = ok && atomic_op(c, RDMA_WR_ATOMIC_CAS, 12, 200) == 100;
	report("atomics", ok && atomic_op(c, RDMA_WR_ATOMIC_FETCH_ADD, 0, 0) == 100);
}

static void case_chain(struct st_conn *c)
{
	struct rdma_sge sge[CHAIN];
	struct rdma_send_wr wr[CHAIN];
	uint64_t before = 0, after = 0;
	bool ok;

	pattern_fill(c->buf + DATA_AT, CHAIN * 1024, 21);
	for (uint32_t n = 0; n < CHAIN; n++) {
		sge[n] = sge_at(c, DATA_AT + n * 1024, 1024);
		wr[n] = (struct rdma_send_wr){
			.next = n + 1 < CHAIN ? &wr[n + 1] : NULL,
			.sge = &sge[n],
			.nr_sge = 1,
			.opcode = RDMA_WR_WRITE,
			.wr_id = n,
			.flags = n + 1 < CHAIN ? 0 : RDMA_SEND_SIGNALED,
			.remote_addr = c->peer_addr + DATA_AT + n * 1024,
			.rkey = c->peer_rkey,
		};
	}
	ok = counter_find("rdma.doorbells", &before) && post(c, &wr[0]) == 0;
	ok = ok && counter_find("rdma.doorbells", &after) && after == before + 1;
	ok = ok && wait_send(c) == RDMA_WC_SUCCESS;
	report("chain_one_doorbell", ok && ask(c, ST_CHECK, 21, CHAIN * 1024) == 1);
}

/* More requests than the queue is long, so that it wraps with every alignment. */
static void case_wrap(struct st_conn *c)
{
	bool ok = true;

	for (uint32_t n = 0; n < 500 && ok; n++)
		ok = ask(c, ST_ECHO, n, 0) == 1;
	report("wrap", ok);
}

static void case_event(struct st_conn *c)
{
	struct rdma_wc wc;
	bool ok;

	atomic_set(&c->cq_event, 0);
	rdma_arm_cq(c->cq, false);
	ok = rdma_poll_cq(c->cq, &wc, 1) == 0 && send_cmd(c, ST_ECHO, 0, 0, 0) == RDMA_WC_SUCCESS;
	ok = ok &&
	     wait_event_timeout(&c->wq, atomic_read(&c->cq_event), time_now_ns() + NSEC_PER_SEC);
	report("event", ok && recv_msg(c, &wc, 0, &wc) == 0);
}

static enum rdma_wc_status bad_write(struct st_conn *c, uint64_t addr, uint32_t rkey, uint32_t lkey)
{
	struct rdma_sge sge = sge_at(c, DATA_AT, 64);
	struct rdma_send_wr wr = {
		.sge = &sge, .nr_sge = 1, .opcode = RDMA_WR_WRITE, .remote_addr = addr, .rkey = rkey
	};

	sge.lkey = lkey;
	return do_wr(c, &wr);
}

static void case_bad_rkey(struct st_conn *c)
{
	const uint32_t lkey = rdma_mr_lkey(c->mr);

	report("bad_rkey",
	       bad_write(c, c->peer_addr, c->peer_rkey ^ 0x5000, lkey) == RDMA_WC_REM_ACCESS_ERR);
	report("flush_after_error",
	       bad_write(c, c->peer_addr, c->peer_rkey, lkey) == RDMA_WC_WR_FLUSH_ERR);
}

static void case_out_of_bounds(struct st_conn *c)
{
	report("out_of_bounds", bad_write(c, c->peer_addr + BUF_LEN - 32, c->peer_rkey,
					  rdma_mr_lkey(c->mr)) == RDMA_WC_REM_ACCESS_ERR);
}

static void case_bad_lkey(struct st_conn *c)
{
	report("bad_lkey", bad_write(c, c->peer_addr, c->peer_rkey, rdma_mr_lkey(c->mr) ^ 0x5000) ==
				   RDMA_WC_LOC_PROT_ERR);
}

static void sort_u32(uint32_t *v, uint32_t nr)
{
	for (uint32_t gap = nr / 2; gap; gap /= 2) {
		for (uint32_t i = gap; i < nr; i++) {
			for (uint32_t j = i; j >= gap && v[j - gap] > v[j]; j -= gap) {
				const uint32_t t = v[j];

				v[j] = v[j - gap];
				v[j - gap] = t;
			}
		}
	}
}

static bool ping_once(struct st_conn *c, struct rdma_send_wr *wr, uint32_t n, uint32_t len)
{
	volatile uint32_t *pong = (volatile uint32_t *)(void *)(c->buf + PONG_AT + len - 4);
	const uint64_t deadline = time_now_ns() + LIMIT_NS;

	memcpy(c->buf + PING_AT + len - 4, &n, 4);
	wr->flags = n % 32 == 0 ? RDMA_SEND_SIGNALED : 0;
	if (post(c, wr))
		return false;
	while (*pong != n) {
		if (time_now_ns() > deadline)
			return false;
	}
	return !wr->flags || wait_send(c) == RDMA_WC_SUCCESS;
}

static void case_ping(struct st_conn *c, uint32_t len)
{
	const struct rdma_sge sge = sge_at(c, PING_AT, len);
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_WRITE,
		.remote_addr = c->peer_addr + PING_AT,
		.rkey = c->peer_rkey,
	};
	uint32_t *ns = kcalloc(PINGS, sizeof(*ns));
	struct st_cmd answer;
	struct rdma_wc wc;
	bool ok;

	memset(c->buf + PING_AT, 0, 8192);
	ok = ns && ask(c, ST_PING, PINGS, len) == 1;
	for (uint32_t n = 1; n <= PINGS && ok; n++) {
		const uint64_t start = time_now_ns();

		ok = ping_once(c, &wr, n, len);
		ns[n - 1] = (uint32_t)(time_now_ns() - start);
	}
	ok = ok && recv_msg(c, &answer, sizeof(answer), &wc) == 0;
	report(len < 4096 ? "ping_pong_64" : "ping_pong_4096", ok);
	if (ok) {
		sort_u32(ns, PINGS);
		pr_info("ping-pong of %u bytes: p50 %u ns, p99 %u ns, min %u ns\n", len,
			ns[PINGS / 2], ns[PINGS * 99 / 100], ns[0]);
	}
	kfree(ns);
}

/* The server may still be booting: it is asked until it listens. */
static struct st_conn *client_connect_patiently(struct rdma_device *dev, const struct rdma_addr *to)
{
	const uint64_t deadline = time_now_ns() + LIMIT_NS;

	for (;;) {
		struct st_conn *c = client_connect(dev, to, SERVICE);

		if (IS_ERR(c) || atomic_read(&c->up) || time_now_ns() > deadline)
			return c;
		conn_free(c);
		thread_sleep_ns(100 * NSEC_PER_MSEC);
	}
}

/* Run @fn on a connection of its own. */
static void with_conn(struct rdma_device *dev, const struct rdma_addr *to,
		      void (*fn)(struct st_conn *c))
{
	struct st_conn *c = client_connect_patiently(dev, to);

	if (IS_ERR(c) || !atomic_read(&c->up)) {
		report("connect", false);
	} else {
		fn(c);
		cm_disconnect(c->cm);
		wait_event(&c->wq, atomic_read(&c->over));
	}
	if (!IS_ERR(c))
		conn_free(c);
}

static void good_cases(struct st_conn *c)
{
	report("connect", true);
	case_send(c);
	case_write(c);
	case_write_imm(c);
	case_read(c);
	case_atomics(c);
	case_chain(c);
	case_wrap(c);
	case_event(c);
	case_ping(c, 64);
	case_ping(c, 4096);
}

static void case_quit(struct st_conn *c)
{
	report("quit", ask(c, ST_QUIT, 0, 0) == 1);
	atomic_set(&c->over, 1);
}

static void case_no_listener(struct rdma_device *dev, const struct rdma_addr *to)
{
	struct st_conn *c = client_connect(dev, to, SERVICE + 1);

	report("no_listener",
	       !IS_ERR(c) && atomic_read(&c->over) && c->reason == CM_REJ_INVALID_SERVICE_ID);
	if (!IS_ERR(c))
		conn_free(c);
}

static void case_sa(struct rdma_device *dev, const struct rdma_addr *to)
{
	struct rdma_port_attr attr;
	struct rdma_addr addr;
	struct rdma_gid none = { .raw = { 0xfe, 0x80, [15] = 0x77 } };

	report("sa_own_gid",
	       rdma_port_attr(dev, 1, &attr) == 0 &&
		       sa_path_query(dev, 1, &attr.gid, &addr, time_now_ns() + LIMIT_NS) == 0 &&
		       addr.dlid == attr.lid);
	report("sa_unknown_gid",
	       sa_path_query(dev, 1, &none, &addr, time_now_ns() + LIMIT_NS) == -ENOENT);
}

static void client(struct rdma_device *dev, const struct rdma_addr *to)
{
	static const char plan[] = "TAP version 13\n1..19\n";

	console_write(plan, sizeof(plan) - 1);
	case_sa(dev, to);
	case_no_listener(dev, to);
	with_conn(dev, to, good_cases);
	with_conn(dev, to, case_bad_rkey);
	with_conn(dev, to, case_out_of_bounds);
	with_conn(dev, to, case_bad_lkey);
	with_conn(dev, to, case_quit);
	machine_poweroff(nr_failed ? EXIT_STATUS_TEST_FAIL : EXIT_STATUS_OK);
}

static bool port_is_active(struct rdma_device *dev)
{
	struct rdma_port_attr attr;

	return rdma_port_attr(dev, 1, &attr) == 0 && attr.state == RDMA_PORT_ACTIVE;
}

static void selftest_thread(void *arg)
{
	struct rdma_device *dev = rdma_device_wait(time_now_ns() + LIMIT_NS);
	struct rdma_addr to = { 0 };
	uint32_t lid;

	if (!dev) {
		pr_err("no RDMA device\n");
		machine_poweroff(EXIT_STATUS_TEST_FAIL);
	}
	while (!port_is_active(dev))
		thread_sleep_ns(NSEC_PER_MSEC);
	if (strcmp(mode, "serve") == 0) {
		if (IS_ERR(cm_listen(dev, 1, SERVICE, server_request, dev)))
			pr_err("cannot listen\n");
		else
			pr_info("serving\n");
		return;
	}
	if (strncmp(mode, "lid:", 4) != 0 || kstrtou32(mode + 4, 0, &lid) || lid > 0xbfff) {
		pr_err("rdma.selftest=%s is neither serve nor lid:<n>\n", mode);
		machine_poweroff(EXIT_STATUS_TEST_FAIL);
	}
	to.dlid = (uint16_t)lid;
	client(dev, &to);
}

static int selftest_init(void)
{
	struct thread *t;

	if (!mode)
		return 0;
	t = thread_create("selftest", selftest_thread, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}
INITCALL(late, selftest_init);
