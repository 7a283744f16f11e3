/* SPDX-License-Identifier: MIT */
/*
 * RDMA self-test between two nodes: every kind of work request, checked data, error
 * completions, and a polled ping-pong.
 *
 * Flow:	rdma.selftest=serve listens; rdma.selftest=lid:<n> connects to the server there,
 *		once per case, prints TAP, and powers off.  The server obeys commands that come
 *		as SENDs and powers off when told to quit.
 * Context:	a thread of its own on each side; the server has one per connection.
 * Limits:	for tests only (CONFIG_RDMA_SELFTEST): the server trusts its client.
 */
#include "selftest.h"

#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/reboot.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <rdma/sa.h>

#define PR_FMT "selftest: "
#include <kernel/printk.h>

#define PINGS 2000U
#define CHAIN 16U

static const char *mode;
BOOT_PARAM("rdma.selftest", string, mode,
	   "serve, or local or lid:<n> of a server: test RDMA and power off");

static unsigned int case_nr, nr_failed;

/* --- client -------------------------------------------------------------------------- */

static int client_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct st_conn *c = arg;

	if (ev->type == CM_EVENT_ESTABLISHED) {
		st_hello_take(c, ev);
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
	struct st_conn *c = st_conn_new(dev, 0);
	struct st_hello hello;
	struct cm_params params;

	if (IS_ERR(c))
		return c;
	hello = st_hello_of(c);
	params = st_params_of(c, &hello);
	c->cm = cm_connect(dev, 1, to, service, &params, client_event, c);
	if (!IS_ERR(c->cm))
		wait_event(&c->wq, atomic_read(&c->up) || atomic_read(&c->over));
	return c;
}

void st_report(const char *name, bool ok)
{
	char line[96];
	size_t n;

	case_nr++;
	nr_failed += !ok;
	n = scnprintf(line, sizeof(line), "%sok %u rdma.selftest.%s\n", ok ? "" : "not ", case_nr,
		      name);
	console_write(line, n);
}

static __noinline void case_send(struct st_conn *c)
{
	st_report("send", st_ask(c, ST_ECHO, 0, 0) == 1);
}

static __noinline void case_write(struct st_conn *c)
{
	const struct rdma_sge sge[2] = { st_sge_at(c, ST_DATA_AT, 1000),
					 st_sge_at(c, ST_DATA_AT + 1000, 64000) };
	struct rdma_send_wr wr = {
		.sge = sge,
		.nr_sge = 2,
		.opcode = RDMA_WR_WRITE,
		.remote_addr = c->peer_addr + ST_DATA_AT,
		.rkey = c->peer_rkey,
	};

	st_pattern_fill(c->buf + ST_DATA_AT, 65000, 3);
	st_report("write",
		  st_do_wr(c, &wr) == RDMA_WC_SUCCESS && st_ask(c, ST_CHECK, 3, 65000) == 1);
}

static __noinline void case_write_imm(struct st_conn *c)
{
	const struct rdma_sge sge = st_sge_at(c, ST_DATA_AT, 4096);
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_WRITE_WITH_IMM,
		.imm = 0x12345678,
		.remote_addr = c->peer_addr + ST_DATA_AT,
		.rkey = c->peer_rkey,
	};
	struct st_cmd answer;
	struct rdma_wc wc;
	bool ok;

	st_pattern_fill(c->buf + ST_DATA_AT, 4096, 9);
	ok = st_do_wr(c, &wr) == RDMA_WC_SUCCESS &&
	     st_recv_msg(c, &answer, sizeof(answer), &wc) == 0 &&
	     le32_to_cpu(answer.result) == 0x12345678;
	st_report("write_imm", ok && st_ask(c, ST_CHECK, 9, 4096) == 1);
}

static __noinline void case_read(struct st_conn *c)
{
	const struct rdma_sge sge = st_sge_at(c, ST_DATA_AT, 50000);
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_READ,
		.remote_addr = c->peer_addr + ST_DATA_AT,
		.rkey = c->peer_rkey,
	};
	bool ok = st_ask(c, ST_FILL, 77, 50000) == 1;

	memset(c->buf + ST_DATA_AT, 0, 50000);
	ok = ok && st_do_wr(c, &wr) == RDMA_WC_SUCCESS;
	st_report("read", ok && st_pattern_ok(c->buf + ST_DATA_AT, 50000, 77));
}

static uint64_t atomic_op(struct st_conn *c, enum rdma_wr_opcode op, uint64_t cmp_add,
			  uint64_t swap)
{
	const struct rdma_sge sge = st_sge_at(c, ST_DATA_AT, 8);
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = op,
		.compare_add = cmp_add,
		.swap = swap,
		.remote_addr = c->peer_addr + ST_DATA_AT + 64,
		.rkey = c->peer_rkey,
	};
	uint64_t old = ~0ULL;

	if (st_do_wr(c, &wr) == RDMA_WC_SUCCESS)
		memcpy(&old, c->buf + ST_DATA_AT, 8);
	return old;
}

static __noinline void case_atomics(struct st_conn *c)
{
	const uint64_t zero = 0;
	const struct rdma_sge sge = { .addr = (uintptr_t)&zero, .len = 8 };
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_WRITE,
		.flags = RDMA_SEND_INLINE,
		.remote_addr = c->peer_addr + ST_DATA_AT + 64,
		.rkey = c->peer_rkey,
	};
	bool ok = st_do_wr(c, &wr) == RDMA_WC_SUCCESS;

	ok = ok && atomic_op(c, RDMA_WR_ATOMIC_FETCH_ADD, 5, 0) == 0;
	ok = ok && atomic_op(c, RDMA_WR_ATOMIC_FETCH_ADD, 7, 0) == 5;
	ok = ok && atomic_op(c, RDMA_WR_ATOMIC_CAS, 12, 100) == 12;
	ok = ok && atomic_op(c, RDMA_WR_ATOMIC_CAS, 12, 200) == 100;
	st_report("atomics", ok && atomic_op(c, RDMA_WR_ATOMIC_FETCH_ADD, 0, 0) == 100);
}

static __noinline void case_chain(struct st_conn *c)
{
	static struct rdma_sge sge[CHAIN]; /* one self-test at a time; too large for a stack */
	static struct rdma_send_wr wr[CHAIN];
	uint64_t before = 0, after = 0;
	bool ok;

	st_pattern_fill(c->buf + ST_DATA_AT, CHAIN * 1024, 21);
	for (uint32_t n = 0; n < CHAIN; n++) {
		sge[n] = st_sge_at(c, ST_DATA_AT + n * 1024, 1024);
		wr[n] = (struct rdma_send_wr){
			.next = n + 1 < CHAIN ? &wr[n + 1] : NULL,
			.sge = &sge[n],
			.nr_sge = 1,
			.opcode = RDMA_WR_WRITE,
			.wr_id = n,
			.flags = n + 1 < CHAIN ? 0 : RDMA_SEND_SIGNALED,
			.remote_addr = c->peer_addr + ST_DATA_AT + n * 1024,
			.rkey = c->peer_rkey,
		};
	}
	ok = counter_find("rdma.doorbells", &before) && st_post(c, &wr[0]) == 0;
	ok = ok && counter_find("rdma.doorbells", &after) && after == before + 1;
	ok = ok && st_wait_send(c) == RDMA_WC_SUCCESS;
	st_report("chain_one_doorbell", ok && st_ask(c, ST_CHECK, 21, CHAIN * 1024) == 1);
}

/* More requests than the queue is long, so that it wraps with every alignment. */
static __noinline void case_wrap(struct st_conn *c)
{
	bool ok = true;

	for (uint32_t n = 0; n < 500 && ok; n++)
		ok = st_ask(c, ST_ECHO, n, 0) == 1;
	st_report("wrap", ok);
}

static __noinline void case_event(struct st_conn *c)
{
	struct rdma_wc wc;
	bool ok;

	atomic_set(&c->cq_event, 0);
	rdma_arm_cq(c->cq, false);
	ok = rdma_poll_cq(c->cq, &wc, 1) == 0 &&
	     st_send_cmd(c, ST_ECHO, 0, 0, 0) == RDMA_WC_SUCCESS;
	ok = ok &&
	     wait_event_timeout(&c->wq, atomic_read(&c->cq_event), time_now_ns() + NSEC_PER_SEC);
	st_report("event", ok && st_recv_msg(c, &wc, 0, &wc) == 0);
}

static enum rdma_wc_status bad_write(struct st_conn *c, uint64_t addr, uint32_t rkey, uint32_t lkey)
{
	struct rdma_sge sge = st_sge_at(c, ST_DATA_AT, 64);
	struct rdma_send_wr wr = {
		.sge = &sge, .nr_sge = 1, .opcode = RDMA_WR_WRITE, .remote_addr = addr, .rkey = rkey
	};

	sge.lkey = lkey;
	return st_do_wr(c, &wr);
}

static void case_bad_rkey(struct st_conn *c)
{
	const uint32_t lkey = rdma_mr_lkey(c->mr);

	st_report("bad_rkey", bad_write(c, c->peer_addr, c->peer_rkey ^ 0x5000, lkey) ==
				      RDMA_WC_REM_ACCESS_ERR);
	st_report("flush_after_error",
		  bad_write(c, c->peer_addr, c->peer_rkey, lkey) == RDMA_WC_WR_FLUSH_ERR);
}

static void case_out_of_bounds(struct st_conn *c)
{
	st_report("out_of_bounds", bad_write(c, c->peer_addr + ST_BUF_LEN - 32, c->peer_rkey,
					     rdma_mr_lkey(c->mr)) == RDMA_WC_REM_ACCESS_ERR);
}

static void case_bad_lkey(struct st_conn *c)
{
	st_report("bad_lkey", bad_write(c, c->peer_addr, c->peer_rkey,
					rdma_mr_lkey(c->mr) ^ 0x5000) == RDMA_WC_LOC_PROT_ERR);
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
	volatile uint32_t *pong = (volatile uint32_t *)(void *)(c->buf + ST_PONG_AT + len - 4);
	const uint64_t deadline = time_now_ns() + ST_LIMIT_NS;

	memcpy(c->buf + ST_PING_AT + len - 4, &n, 4);
	wr->flags = n % 32 == 0 ? RDMA_SEND_SIGNALED : 0;
	if (st_post(c, wr))
		return false;
	while (*pong != n) {
		if (time_now_ns() > deadline)
			return false;
	}
	return !wr->flags || st_wait_send(c) == RDMA_WC_SUCCESS;
}

static __noinline void case_ping(struct st_conn *c, uint32_t len)
{
	const struct rdma_sge sge = st_sge_at(c, ST_PING_AT, len);
	struct rdma_send_wr wr = {
		.sge = &sge,
		.nr_sge = 1,
		.opcode = RDMA_WR_WRITE,
		.remote_addr = c->peer_addr + ST_PING_AT,
		.rkey = c->peer_rkey,
	};
	uint32_t *ns = kcalloc(PINGS, sizeof(*ns));
	struct st_cmd answer;
	struct rdma_wc wc;
	bool ok;

	memset(c->buf + ST_PING_AT, 0, 8192);
	ok = ns && st_ask(c, ST_PING, PINGS, len) == 1;
	for (uint32_t n = 1; n <= PINGS && ok; n++) {
		const uint64_t start = time_now_ns();

		ok = ping_once(c, &wr, n, len);
		ns[n - 1] = (uint32_t)(time_now_ns() - start);
	}
	ok = ok && st_recv_msg(c, &answer, sizeof(answer), &wc) == 0;
	st_report(len < 4096 ? "ping_pong_64" : "ping_pong_4096", ok);
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
	const uint64_t deadline = time_now_ns() + ST_LIMIT_NS;

	for (;;) {
		struct st_conn *c = client_connect(dev, to, ST_SERVICE);

		if (IS_ERR(c) || atomic_read(&c->up) || time_now_ns() > deadline)
			return c;
		st_conn_free(c);
		thread_sleep_ns(100 * NSEC_PER_MSEC);
	}
}

/* Run @fn on a connection of its own. */
static void with_conn(struct rdma_device *dev, const struct rdma_addr *to,
		      void (*fn)(struct st_conn *c))
{
	struct st_conn *c = client_connect_patiently(dev, to);

	if (IS_ERR(c) || !atomic_read(&c->up)) {
		st_report("connect", false);
	} else {
		fn(c);
		cm_disconnect(c->cm);
		wait_event(&c->wq, atomic_read(&c->over));
	}
	if (!IS_ERR(c))
		st_conn_free(c);
}

/* The cases are kept out of line: their buffers together would not fit one stack frame. */
static void good_cases(struct st_conn *c)
{
	st_report("connect", true);
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
	st_report("quit", st_ask(c, ST_QUIT, 0, 0) == 1);
	atomic_set(&c->over, 1);
}

static void case_no_listener(struct rdma_device *dev, const struct rdma_addr *to)
{
	struct st_conn *c = client_connect(dev, to, ST_SERVICE + 1);

	st_report("no_listener",
		  !IS_ERR(c) && atomic_read(&c->over) && c->reason == CM_REJ_INVALID_SERVICE_ID);
	if (!IS_ERR(c))
		st_conn_free(c);
}

static void case_sa(struct rdma_device *dev, const struct rdma_addr *to)
{
	struct rdma_port_attr attr;
	struct rdma_addr addr;
	struct rdma_gid none = { .raw = { 0xfe, 0x80, [15] = 0x77 } };

	st_report("sa_own_gid", rdma_port_attr(dev, 1, &attr) == 0 &&
					sa_path_query(dev, 1, &attr.gid, &addr,
						      time_now_ns() + ST_LIMIT_NS) == 0 &&
					addr.dlid == attr.lid);
	st_report("sa_unknown_gid",
		  sa_path_query(dev, 1, &none, &addr, time_now_ns() + ST_LIMIT_NS) == -ENOENT);
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

static void local(struct rdma_device *dev)
{
	static const char plan[] = "TAP version 13\n1..4\n";

	console_write(plan, sizeof(plan) - 1);
	st_local_cases(dev);
	machine_poweroff(nr_failed ? EXIT_STATUS_TEST_FAIL : EXIT_STATUS_OK);
}

static bool port_is_active(struct rdma_device *dev)
{
	struct rdma_port_attr attr;

	return rdma_port_attr(dev, 1, &attr) == 0 && attr.state == RDMA_PORT_ACTIVE;
}

static void selftest_thread(void *arg)
{
	struct rdma_device *dev = rdma_device_wait(NULL, time_now_ns() + ST_LIMIT_NS);
	struct rdma_addr to = { 0 };
	uint32_t lid;

	if (!dev) {
		pr_err("no RDMA device\n");
		machine_poweroff(EXIT_STATUS_TEST_FAIL);
	}
	while (!port_is_active(dev))
		thread_sleep_ns(NSEC_PER_MSEC);
	if (strcmp(mode, "serve") == 0) {
		if (IS_ERR(cm_listen(dev, 1, ST_SERVICE, st_server_request, dev)))
			pr_err("cannot listen\n");
		else
			pr_info("serving\n");
		return;
	}
	if (strcmp(mode, "local") == 0)
		local(dev);
	if (strncmp(mode, "lid:", 4) != 0 || kstrtou32(mode + 4, 0, &lid) || lid > 0xbfff) {
		pr_err("rdma.selftest=%s is none of serve, local, lid:<n>\n", mode);
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
INITCALL(program, selftest_init);
