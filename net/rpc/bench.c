/* SPDX-License-Identifier: MIT */
/*
 * RPC benchmark: round trips of RPC, by connection and by datagram, and of bare RDMA WRITEs
 * between the same two nodes.
 *
 * Flow:	bench.rpc=<node>,<n> on one node starts it; <node> must be a peer.  One JSON
 *		line goes to the log.  Bare WRITEs have a queue pair of their own (CM service
 *		BENCH_SERVICE_ID).  The client WRITEs 64 bytes whose last word is a sequence
 *		number.  The server polls for it in memory and WRITEs 64 or 4096 bytes back.
 *		The client polls for those.  Neither waits for a completion.
 * Context:	a kernel thread on each side; both spin, for at most BENCH_LIMIT_NS.
 * Failure:	one log line says why, and nothing else happens.
 */
#define PR_FMT "bench: "

#include "bench.h"

#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "rpc_priv.h"

#define BENCH_SERVICE_ID (RPC_SERVICE_ID + 1)
#define BENCH_LIMIT_NS   (60 * NSEC_PER_SEC)
#define BENCH_DEPTH      64u
#define BENCH_DATAGRAMS  200u /* at most: each is two interrupts, and nobody polls */

/* Private data of the bare connection, both ways. */
struct bench_conn_wire {
	le64_t addr; /* of a page that the other side may write */
	le32_t rkey;
	le32_t count; /* ping-pongs to come, in the REQ */
	le32_t reply_len;
	le32_t reserved;
};
static_assert(sizeof(struct bench_conn_wire) == 24, "bench_conn is ABI");

static uint32_t target_node;
static uint32_t nr_rounds;

static uint32_t settle_ms;
BOOT_PARAM("bench.settle_ms", u32, settle_ms,
	   "how long a benchmark waits once its target is there, for what is set up from outside");

int bench_parse_target(const char *value, uint32_t *node, uint32_t *rounds)
{
	const char *comma = strchr(value, ',');
	char text[12];
	uint32_t n;

	if (!comma || (size_t)(comma - value) >= sizeof(text))
		return -EINVAL;
	memcpy(text, value, (size_t)(comma - value));
	text[comma - value] = '\0';
	if (kstrtou32(text, 10, node) || kstrtou32(comma + 1, 10, &n))
		return -EINVAL;
	if (n < 10 || n > BENCH_MAX_N)
		return -EINVAL;
	*rounds = n;
	return 0;
}

void bench_wait_target(uint32_t node)
{
	while (!READ_ONCE(rpc_net.is_started) || !rpc_peer_find(node))
		thread_sleep_ns(50 * NSEC_PER_MSEC);
	if (settle_ms)
		thread_sleep_ns((uint64_t)settle_ms * NSEC_PER_MSEC);
}

/* A stranger that reaches the listener costs this node a spinning thread: off by default. */
static bool serve;
BOOT_PARAM("bench.serve", bool, serve, "let other nodes measure bare WRITEs with this one");

bool bench_serves(void)
{
	return serve;
}

static int parse_bench(const char *value)
{
	return bench_parse_target(value, &target_node, &nr_rounds);
}
BOOT_PARAM_CB("bench.rpc", parse_bench,
	      "measure RPC to a node: <node>,<rounds>; one JSON line to the log");

/* --- RPC handlers --------------------------------------------------------------------- */

static struct frame *page_frame;
static struct rpc_mem *page_mem; /* set with release, once */

static enum rpc_handler_result bench_echo(struct rpc_request *req, void *arg)
{
	uint32_t len;
	const void *body = rpc_request_body(req, &len);

	rpc_reply(req, 0, body, len);
	return RPC_DONE;
}

/* The first request registers the page, which sleeps. */
static int page_prepare(void)
{
	static struct mutex lock = MUTEX_INIT(lock, "rpc.bench", RANK_NET);
	struct rpc_mem *mem;
	int err = 0;

	mutex_lock(&lock);
	if (!page_frame)
		page_frame = frame_alloc(0, FRAME_ZERO);
	if (page_frame && !page_mem) {
		mem = rpc_mem_register(frame_to_paddr(page_frame), PAGE_SIZE, RPC_ROLES_ALL,
				       RPC_ROLES_NONE);
		if (IS_ERR(mem))
			err = (int)PTR_ERR(mem);
		else
			__atomic_store_n(&page_mem, mem, __ATOMIC_RELEASE);
	} else if (!page_frame) {
		err = -ENOMEM;
	}
	mutex_unlock(&lock);
	return err;
}

static enum rpc_handler_result bench_page(struct rpc_request *req, void *arg)
{
	struct bench_page_wire w;
	struct rpc_write wr;
	uint32_t len;
	const void *body = rpc_request_body(req, &len);
	int err = 0;

	if (!__atomic_load_n(&page_mem, __ATOMIC_ACQUIRE)) {
		if (!rpc_request_may_sleep(req))
			return RPC_AGAIN;
		err = page_prepare();
	}
	if (!err && len != sizeof(w))
		err = -EMSGSIZE;
	if (err) {
		rpc_reply(req, err, NULL, 0);
		return RPC_DONE;
	}
	memcpy(&w, body, sizeof(w));
	wr.src.mem = page_mem;
	wr.src.addr = frame_to_paddr(page_frame);
	wr.src.len = PAGE_SIZE;
	wr.remote_addr = le64_to_cpu(w.addr);
	wr.rkey = le32_to_cpu(w.rkey);
	rpc_reply_bulk(req, 0, NULL, 0, &wr, 1, NULL, NULL);
	return RPC_DONE;
}

/* Context: inline, page first in a worker. Races with nothing. Safe to run twice: yes. */
static const struct rpc_handler bench_handlers[] = {
	{ BENCH_ECHO, RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT | RPC_HANDLER_DATAGRAM,
	  "bench_echo", bench_echo },
	{ BENCH_PAGE, RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT, "bench_page", bench_page },
};

/* --- bare ping-pong: one end ----------------------------------------------------------- */

struct bare {
	struct frame *frame;
	struct rdma_mr *mr;
	struct rdma_cq *cq;
	struct rdma_qp *qp;
	struct cm_conn *cm;
	uint64_t remote_addr;
	uint32_t remote_rkey;
	uint32_t count, reply_len;
	uint64_t posted, completed;
	struct completion ready;
	int status;
};

static int bare_init(struct bare *b)
{
	struct rdma_qp_init init = { .type = RDMA_QPT_RC,
				     .max_send_wr = BENCH_DEPTH,
				     .max_recv_wr = 1,
				     .max_send_sge = 1,
				     .max_recv_sge = 1,
				     .max_inline = MIN(64u, rpc_net.attr.max_inline),
				     .port = rpc_net.port };
	struct rdma_phys_range range = { .len = 2 * PAGE_SIZE };

	completion_init(&b->ready);
	b->frame = frame_alloc(1, FRAME_ZERO); /* a page to receive in, one to send from */
	if (!b->frame)
		return -ENOMEM;
	range.paddr = frame_to_paddr(b->frame);
	b->mr = rdma_mr_create(rpc_net.pd, range.paddr, &range, 1,
			       RDMA_ACCESS_LOCAL_WRITE | RDMA_ACCESS_REMOTE_WRITE);
	if (IS_ERR(b->mr))
		goto out_frame;
	b->cq = rdma_cq_create(rpc_net.dev, BENCH_DEPTH + 2, 0, NULL, NULL);
	if (IS_ERR(b->cq))
		goto out_mr;
	init.send_cq = init.recv_cq = b->cq;
	b->qp = rdma_qp_create(rpc_net.pd, &init);
	if (IS_ERR(b->qp))
		goto out_cq;
	if (rdma_qp_to_init(b->qp, RDMA_ACCESS_REMOTE_WRITE) == 0)
		return 0;
	rdma_qp_destroy(b->qp);
out_cq:
	rdma_cq_destroy(b->cq);
out_mr:
	rdma_mr_destroy(b->mr);
out_frame:
	frame_free(b->frame, 1);
	return -ENOMEM;
}

static void bare_destroy(struct bare *b)
{
	if (b->cm)
		cm_conn_destroy(b->cm);
	rdma_qp_destroy(b->qp);
	rdma_cq_destroy(b->cq);
	rdma_mr_destroy(b->mr);
	frame_free(b->frame, 1);
}

static void bare_params(const struct bare *b, struct bench_conn_wire *w, struct cm_params *p)
{
	*w = (struct bench_conn_wire){ .addr = cpu_to_le64(frame_to_paddr(b->frame)),
				       .rkey = cpu_to_le32(rdma_mr_rkey(b->mr)),
				       .count = cpu_to_le32(b->count),
				       .reply_len = cpu_to_le32(b->reply_len) };
	*p = (struct cm_params){ .qp = b->qp,
				 .access = RDMA_ACCESS_REMOTE_WRITE,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .ack_timeout = (uint8_t)rpc_tune.ack_timeout,
				 .max_rd_atomic = 1,
				 .private_data = w,
				 .private_len = sizeof(*w) };
}

static void bare_learn(struct bare *b, const struct bench_conn_wire *w)
{
	b->remote_addr = le64_to_cpu(w->addr);
	b->remote_rkey = le32_to_cpu(w->rkey);
}

/* WRITE @len bytes whose last word is @seq. */
static int bare_send(struct bare *b, uint32_t len, uint64_t seq)
{
	uint8_t *src = (uint8_t *)frame_to_virt(b->frame) + PAGE_SIZE;
	struct rdma_sge sge = { .addr = frame_to_paddr(b->frame) + PAGE_SIZE,
				.len = len,
				.lkey = rdma_mr_lkey(b->mr) };
	struct rdma_send_wr wr = { .wr_id = ++b->posted,
				   .sge = &sge,
				   .nr_sge = 1,
				   .opcode = RDMA_WR_WRITE,
				   .remote_addr = b->remote_addr,
				   .rkey = b->remote_rkey };
	const struct rdma_send_wr *bad;
	struct rdma_wc wc[4];
	int n;

	put_unaligned_le64(seq, src + len - sizeof(seq));
	if (len <= 64 && rpc_net.attr.max_inline >= 64) {
		sge.addr = (uint64_t)(uintptr_t)src;
		wr.flags |= RDMA_SEND_INLINE;
	}
	if (b->posted % (BENCH_DEPTH / 4) == 0)
		wr.flags |= RDMA_SEND_SIGNALED;
	while (b->posted - b->completed > BENCH_DEPTH / 2) {
		n = rdma_poll_cq(b->cq, wc, (int)ARRAY_SIZE(wc));
		for (int i = 0; i < n; i++) {
			if (wc[i].status != RDMA_WC_SUCCESS)
				return -EIO;
			b->completed = wc[i].wr_id;
		}
	}
	return rdma_post_send(b->qp, &wr, &bad);
}

/* Poll memory until the last word of @len received bytes is @seq. */
static int bare_wait(struct bare *b, uint32_t len, uint64_t seq, uint64_t deadline)
{
	const le64_t *page = frame_to_virt(b->frame);
	const volatile le64_t *word = &page[len / sizeof(seq) - 1];

	for (;;) {
		for (int i = 0; i < 1000; i++) {
			if (*word == cpu_to_le64(seq))
				return 0;
			cpu_relax();
		}
		if (time_now_ns() > deadline)
			return -ETIMEDOUT;
	}
}

/* --- bare ping-pong: server -------------------------------------------------------------- */

static void pong_thread(void *arg)
{
	const uint64_t deadline = time_now_ns() + BENCH_LIMIT_NS;
	struct bare *b = arg;
	int err = 0;

	if (completion_wait_until(&b->ready, deadline) && b->status == 0) {
		for (uint64_t i = 1; i <= b->count && !err; i++) {
			err = bare_wait(b, 64, i, deadline);
			if (!err)
				err = bare_send(b, b->reply_len, i);
		}
		if (err)
			pr_warn("ping-pong ended early: %d\n", err);
		thread_sleep_ns(100 * NSEC_PER_MSEC); /* the last one is still on its way */
	}
	bare_destroy(b);
	kfree(b);
}

static int pong_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct bare *b = arg;

	if (ev->type != CM_EVENT_ESTABLISHED)
		b->status = -ECONNRESET;
	complete_all(&b->ready);
	return 0;
}

static int pong_accept(struct bare *b, struct cm_conn *cm)
{
	struct bench_conn_wire w;
	struct cm_params params;
	struct thread *t;
	int err;

	b->cm = cm;
	cm_conn_set_arg(cm, pong_event, b);
	bare_params(b, &w, &params);
	err = cm_accept(cm, &params);
	if (err)
		return err;
	t = thread_create("bench-pong", pong_thread, b);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}

static int pong_request(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct bench_conn_wire w;
	struct bare *b;

	if (ev->type != CM_EVENT_REQUEST || ev->private_len < sizeof(w))
		return 1;
	memcpy(&w, ev->private_data, sizeof(w));
	b = kzalloc(sizeof(*b));
	if (!b)
		goto reject;
	b->count = MIN(le32_to_cpu(w.count), BENCH_MAX_N);
	b->reply_len = le32_to_cpu(w.reply_len);
	if (b->reply_len < 64 || b->reply_len > PAGE_SIZE || b->reply_len % 8 || bare_init(b))
		goto free;
	bare_learn(b, &w);
	if (pong_accept(b, cm) == 0)
		return 0;
	b->cm = NULL; /* destroyed by what we return */
	bare_destroy(b);
free:
	kfree(b);
reject:
	(void)cm_reject(cm, CM_REJ_NO_RESOURCES, NULL, 0);
	return 1;
}

/* --- bare ping-pong: client -------------------------------------------------------------- */

static int ping_event(struct cm_conn *cm, const struct cm_event *ev, void *arg)
{
	struct bare *b = arg;
	struct bench_conn_wire w;

	if (ev->type == CM_EVENT_ESTABLISHED && ev->private_len >= sizeof(w)) {
		memcpy(&w, ev->private_data, sizeof(w));
		bare_learn(b, &w);
	} else {
		b->status = -ECONNREFUSED;
	}
	complete_all(&b->ready);
	return 0;
}

static int ping_connect(struct bare *b, uint32_t count, uint32_t reply_len)
{
	struct bench_conn_wire w;
	struct cm_params params;
	struct node_info info;
	int err;

	if (!rpc_peer_info(target_node, &info))
		return -EHOSTDOWN;
	b->count = count;
	b->reply_len = reply_len;
	err = bare_init(b);
	if (err)
		return err;
	bare_params(b, &w, &params);
	b->cm = cm_connect(rpc_net.dev, rpc_net.port, &info.addr, BENCH_SERVICE_ID, &params,
			   ping_event, b);
	if (IS_ERR(b->cm)) {
		err = (int)PTR_ERR(b->cm);
		b->cm = NULL;
	} else if (!completion_wait_until(&b->ready, time_now_ns() + 10 * NSEC_PER_SEC)) {
		err = -ETIMEDOUT;
	} else {
		err = b->status;
	}
	if (err)
		bare_destroy(b);
	return err;
}

static int ping_run(uint64_t *ns, uint32_t n, uint32_t reply_len)
{
	const uint64_t deadline = time_now_ns() + BENCH_LIMIT_NS;
	struct bare *b = kzalloc(sizeof(*b));
	int err;

	if (!b)
		return -ENOMEM;
	err = ping_connect(b, n, reply_len);
	if (err) {
		kfree(b);
		return err;
	}
	for (uint32_t i = 0; i < n && !err; i++) {
		const uint64_t start = time_now_ns();

		err = bare_send(b, 64, i + 1);
		if (!err)
			err = bare_wait(b, reply_len, i + 1, deadline);
		ns[i] = time_now_ns() - start;
	}
	bare_destroy(b);
	kfree(b);
	return err;
}

/* --- RPC client ---------------------------------------------------------------------------- */

static int rpc_run(uint64_t *ns, uint32_t n, bool page)
{
	struct frame *f = frame_alloc(0, FRAME_ZERO);
	struct bench_page_wire w = { .reserved = cpu_to_le32(0) };
	struct rpc_mem *mem;
	uint8_t body[64] = { 0 }, reply[64];
	int err = 0;

	if (!f)
		return -ENOMEM;
	mem = rpc_mem_register(frame_to_paddr(f), PAGE_SIZE, RPC_ROLES_NONE, RPC_ROLES_ALL);
	if (IS_ERR(mem)) {
		frame_free(f, 0);
		return (int)PTR_ERR(mem);
	}
	w.addr = cpu_to_le64(frame_to_paddr(f));
	w.rkey = cpu_to_le32(rpc_mem_rkey(mem, target_node));
	for (uint32_t i = 0; i < n && err >= 0; i++) {
		const uint64_t start = time_now_ns();

		err = page ? rpc_call_sync(target_node, RPC_CLASS_DEMAND, BENCH_PAGE, &w, sizeof(w),
					   NULL, 0, 0)
			   : rpc_call_sync(target_node, RPC_CLASS_DEMAND, BENCH_ECHO, body,
					   sizeof(body), reply, sizeof(reply), 0);
		ns[i] = time_now_ns() - start;
	}
	rpc_mem_unregister(mem);
	frame_free(f, 0);
	return MIN(err, 0);
}

static int datagram_run(uint64_t *ns, uint32_t n)
{
	uint8_t body[64] = { 0 }, reply[64];
	int err = 0;

	for (uint32_t i = 0; i < n && err >= 0; i++) {
		const uint64_t start = time_now_ns();

		err = rpc_datagram_sync(target_node, BENCH_ECHO, body, sizeof(body), reply,
					sizeof(reply), 0);
		ns[i] = time_now_ns() - start;
	}
	return MIN(err, 0);
}

/* --- results ------------------------------------------------------------------------------- */

void bench_sort(uint64_t *v, uint32_t n)
{
	for (uint32_t gap = n / 2; gap; gap /= 2) {
		for (uint32_t i = gap; i < n; i++) {
			const uint64_t x = v[i];
			uint32_t k = i;

			for (; k >= gap && v[k - gap] > x; k -= gap)
				v[k] = v[k - gap];
			v[k] = x;
		}
	}
}

struct row {
	const char *name;
	int err;
	uint64_t p50, p90, p99;
};

static void row_fill(struct row *r, uint64_t *ns, uint32_t n)
{
	bench_sort(ns, n);
	r->p50 = ns[n / 2];
	r->p90 = ns[n - n / 10 - 1];
	r->p99 = ns[n - n / 100 - 1];
}

static void bench_report(const struct row *rows, size_t nr)
{
	char line[640];
	size_t len = 0;

	for (size_t i = 0; i < nr; i++) {
		if (rows[i].err)
			len += scnprintf(line + len, sizeof(line) - len, "%s\"%s\":{\"error\":%d}",
					 i ? "," : "", rows[i].name, rows[i].err);
		else
			len += scnprintf(
				line + len, sizeof(line) - len,
				"%s\"%s\":{\"p50\":%llu,\"p90\":%llu,\"p99\":%llu}", i ? "," : "",
				rows[i].name, (unsigned long long)rows[i].p50,
				(unsigned long long)rows[i].p90, (unsigned long long)rows[i].p99);
	}
	pr_info("{\"bench\":\"rpc\",\"node\":%u,\"rounds\":%u,\"ns\":{%s}}\n", target_node,
		nr_rounds, line);
}

static void bench_thread(void *arg)
{
	struct row rows[] = { { .name = "bare_64" },
			      { .name = "rpc_64" },
			      { .name = "bare_4k" },
			      { .name = "rpc_4k" },
			      { .name = "datagram_64" } };
	const uint32_t nr_datagrams = MIN(nr_rounds, BENCH_DATAGRAMS);
	uint64_t *ns = kcalloc(nr_rounds, sizeof(*ns));

	if (!ns) {
		pr_err("no memory for %u samples\n", nr_rounds);
		return;
	}
	bench_wait_target(target_node);
	(void)rpc_run(ns, 10, true); /* connect, warm up */
	rows[0].err = ping_run(ns, nr_rounds, 64);
	row_fill(&rows[0], ns, nr_rounds);
	rows[1].err = rpc_run(ns, nr_rounds, false);
	row_fill(&rows[1], ns, nr_rounds);
	rows[2].err = ping_run(ns, nr_rounds, PAGE_SIZE);
	row_fill(&rows[2], ns, nr_rounds);
	rows[3].err = rpc_run(ns, nr_rounds, true);
	row_fill(&rows[3], ns, nr_rounds);
	rows[4].err = datagram_run(ns, nr_datagrams);
	row_fill(&rows[4], ns, nr_datagrams);
	bench_report(rows, ARRAY_SIZE(rows));
	kfree(ns);
}

static int bench_init(void)
{
	struct thread *t;
	int err;

	err = rpc_handlers_register(bench_handlers, ARRAY_SIZE(bench_handlers), NULL);
	if (err || !target_node)
		return err;
	t = thread_create("bench-rpc", bench_thread, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}
INITCALL(cluster, bench_init);

int rpc_bench_listen(void)
{
	struct cm_listener *l;

	if (!serve)
		return 0;
	l = cm_listen(rpc_net.dev, rpc_net.port, BENCH_SERVICE_ID, pong_request, NULL);
	return IS_ERR(l) ? (int)PTR_ERR(l) : 0;
}
