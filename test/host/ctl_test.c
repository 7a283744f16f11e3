/* SPDX-License-Identifier: MIT */
/*
 * The control service from the launcher's side, over a console that is two queues of bytes.
 *
 * Flow:	the service is started once, by whichever case comes first; the cases follow each
 *		other on one channel, as a launcher's runs do. The last one breaks the protocol.
 *		run_program() acts by the path: echo, wait, refuse, fail.
 */
#include <ctl/ctl.h>

#include <drivers/console.h>
#include <kernel/symbols.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/slab.h>

#define QUEUE_SIZE (4u << 20)
#define LIMIT_NS   (20 * NSEC_PER_SEC)

/* --- the console */

struct queue {
	struct spinlock lock;
	struct waitqueue wq;
	uint8_t *data;
	size_t head, tail;
	bool closed;
};

static struct {
	struct chardev port;
	struct queue to_node, to_host;
} console;

static void queue_init(struct queue *q, const char *name)
{
	spin_lock_init(&q->lock, name, RANK_SPIN_DRIVER);
	waitqueue_init(&q->wq);
	q->data = kmalloc(QUEUE_SIZE);
}

static void queue_put(struct queue *q, const void *buf, size_t len)
{
	spin_lock(&q->lock);
	if (q->head + len <= QUEUE_SIZE) {
		memcpy(q->data + q->head, buf, len);
		q->head += len;
	}
	spin_unlock(&q->lock);
	wake_all(&q->wq);
}

static size_t queue_take(struct queue *q, void *buf, size_t len)
{
	size_t n;

	spin_lock(&q->lock);
	n = q->head - q->tail;
	if (n > len)
		n = len;
	memcpy(buf, q->data + q->tail, n);
	q->tail += n;
	if (q->tail == q->head)
		q->head = q->tail = 0;
	spin_unlock(&q->lock);
	return n;
}

static bool queue_ready(struct queue *q)
{
	bool ready;

	spin_lock(&q->lock);
	ready = q->head != q->tail || q->closed;
	spin_unlock(&q->lock);
	return ready;
}

static ssize_t queue_read(struct queue *q, void *buf, size_t len, uint64_t deadline_ns)
{
	if (!wait_event_timeout(&q->wq, queue_ready(q), deadline_ns))
		return 0;
	return (ssize_t)queue_take(q, buf, len);
}

static ssize_t port_read(struct chardev *cd, void *buf, size_t len, uint64_t deadline_ns)
{
	return queue_read(&console.to_node, buf, len, deadline_ns);
}

static int port_write(struct chardev *cd, const void *buf, size_t len, uint64_t deadline_ns)
{
	queue_put(&console.to_host, buf, len);
	return 0;
}

static bool port_wait(struct chardev *cd, uint64_t deadline_ns)
{
	return true;
}

static const struct chardev_ops port_ops = {
	.read = port_read,
	.write = port_write,
	.wait_connected = port_wait,
};

const char *build_id(void)
{
	return "test-build";
}

/* --- the launcher's side */

struct frame_in {
	struct ctl_hdr hdr;
	uint8_t payload[CTL_MAX_PAYLOAD];
};

static struct frame_in got;

static void send_frame(enum ctl_type type, unsigned int stream, uint32_t prog, unsigned int flags,
		       const void *payload, size_t len)
{
	const struct ctl_hdr hdr = { (uint8_t)type, (uint8_t)stream, (uint8_t)flags, prog,
				     (uint32_t)len };
	struct ctl_hdr_wire w;

	ctl_hdr_encode(&hdr, &w);
	queue_put(&console.to_node, &w, sizeof(w));
	if (len)
		queue_put(&console.to_node, payload, len);
}

static bool read_exactly(void *buf, size_t len)
{
	const uint64_t deadline = time_after_ns(LIMIT_NS);
	uint8_t *p = buf;

	while (len) {
		const ssize_t n = queue_read(&console.to_host, p, len, deadline);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* The next frame into @got; false: none came, or it is malformed. */
static bool receive(void)
{
	struct ctl_hdr_wire w;

	return read_exactly(&w, sizeof(w)) &&
	       ctl_hdr_decode(&w, sizeof(w), CTL_FROM_NODE, &got.hdr) == 0 &&
	       read_exactly(got.payload, got.hdr.len);
}

static bool receive_type(enum ctl_type type, uint32_t prog)
{
	return receive() && got.hdr.type == type && got.hdr.prog == prog;
}

static void send_credit(unsigned int stream, uint32_t prog, uint32_t bytes)
{
	struct ctl_credit_wire w;

	ctl_credit_encode(bytes, &w);
	send_frame(CTL_CREDIT, stream, prog, 0, &w, sizeof(w));
}

static size_t make_run(const char *path, char *buf, size_t cap)
{
	const struct ctl_run run = {
		.umask = 022,
		.argc = 1,
		.path = path,
		.cwd = "/",
		.argv = path,
		.envp = "",
	};
	const ssize_t len = ctl_run_encode(&run, buf, cap);

	return len > 0 ? (size_t)len : 0;
}

static void send_run(uint32_t prog, const char *path)
{
	char buf[256];

	send_frame(CTL_RUN, 0, prog, 0, buf, make_run(path, buf, sizeof(buf)));
}

/* --- the monitor's side */

static uint32_t last_signal;
static size_t long_argument;

static void echo(struct ctl_prog *prog)
{
	char buf[5000];
	ssize_t n;

	while ((n = ctl_stream_read(prog, buf, sizeof(buf), false)) > 0)
		if (ctl_stream_write(prog, 1, buf, (size_t)n, false) != n)
			break;
}

/* Write until nobody reads; the exit status tells how it ended. */
static uint32_t flood(struct ctl_prog *prog)
{
	static char block[8192];

	for (;;) {
		const ssize_t n = ctl_stream_write(prog, 1, block, sizeof(block), false);

		if (n < 0)
			return (uint32_t)-n << 8;
	}
}

static void run_program(struct ctl_prog *prog, const struct ctl_run *run)
{
	uint32_t status = 0;

	if (!strcmp(run->path, "/refuse")) {
		ctl_prog_refuse(prog, -ENOEXEC, "not an ELF");
		return;
	}
	ctl_prog_started(prog, 100);
	if (!strcmp(run->path, "/echo"))
		echo(prog);
	else if (!strcmp(run->path, "/flood"))
		status = flood(prog);
	else if (!strcmp(run->path, "/long"))
		long_argument = strlen(run->argv);
	if (!strcmp(run->path, "/lost"))
		ctl_prog_lost(prog, "its memory is gone");
	else
		ctl_prog_exit(prog, status);
}

static void take_signal(struct ctl_prog *prog, uint32_t signo)
{
	__atomic_store_n(&last_signal, signo + ctl_prog_id(prog) * 1000, __ATOMIC_RELEASE);
}

static int debug(const char *cmd, char *reply, size_t cap)
{
	if (strcmp(cmd, "hello"))
		return -ENOSYS;
	strlcpy(reply, "world", cap);
	return 0;
}

static uint32_t lost_node, lost_incarn;

static void lost(uint32_t node, uint32_t incarn)
{
	lost_node = node;
	lost_incarn = incarn;
}

static const struct ctl_ops ops = {
	.run = run_program,
	.signal = take_signal,
	.debug = debug,
	.lost = lost,
};

/* --- cases, in this order */

static struct ctl_hello hello;

/* The service runs and has said hello. */
static bool service_is_up(struct ktest *t)
{
	static bool up;

	if (up)
		return true;
	queue_init(&console.to_node, "to node");
	queue_init(&console.to_host, "to host");
	console.port.ops = &port_ops;
	strlcpy(console.port.name, CTL_PORT_NAME, sizeof(console.port.name));
	EXPECT_EQ(t, chardev_register(&console.port), 0);
	EXPECT_EQ(t, ctl_start(CTL_ROLE_MEMORY, 7, 0x77, &ops), 0);
	EXPECT_TRUE(t, receive_type(CTL_HELLO, 0));
	EXPECT_EQ(t, ctl_hello_decode(got.payload, got.hdr.len, &hello), 0);
	up = t->nr_failed == 0;
	return up;
}

static void hello_comes_first(struct ktest *t)
{
	ASSERT_TRUE(t, service_is_up(t));
	EXPECT_EQ(t, hello.role, CTL_ROLE_MEMORY);
	EXPECT_EQ(t, hello.node, 7);
	EXPECT_EQ(t, hello.incarnation, 0x77);
	EXPECT_STREQ(t, hello.build, "test-build");
}

static void members_go_out_and_losses_come_in(struct ktest *t)
{
	static struct ctl_members in = { .epoch = 5, .nr = 2, .members = { { 3, 30 }, { 7, 70 } } };
	static struct ctl_members out;
	const struct ctl_member gone = { 3, 30 };
	struct ctl_member_wire w;

	ASSERT_TRUE(t, service_is_up(t));
	ctl_members(&in);
	ASSERT_TRUE(t, receive_type(CTL_MEMBERS, 0));
	EXPECT_EQ(t, ctl_members_decode(got.payload, got.hdr.len, &out), 0);
	EXPECT_EQ(t, out.nr, 2u);
	EXPECT_EQ(t, out.members[1].incarn, 70u);
	ctl_member_encode(&gone, &w);
	send_frame(CTL_LOST, 0, 0, 0, &w, sizeof(w));
	send_frame(CTL_STATS_REQ, 0, 0, 0, NULL,
		   0); /* its answer comes after the other was handled */
	ASSERT_TRUE(t, receive_type(CTL_STATS, 0));
	EXPECT_EQ(t, lost_node, 3u);
	EXPECT_EQ(t, lost_incarn, 30u);
}

static void status_and_ready_reach_the_launcher(struct ktest *t)
{
	const struct ctl_ready ready = { 3, 1, 2, 1 };
	struct ctl_ready out;

	ASSERT_TRUE(t, service_is_up(t));
	ctl_status("waiting for %s", "m1");
	ASSERT_TRUE(t, receive_type(CTL_STATUS, 0));
	EXPECT_EQ(t, got.hdr.len, strlen("waiting for m1"));
	EXPECT_MEMEQ(t, got.payload, "waiting for m1", got.hdr.len);
	ctl_ready(&ready);
	ASSERT_TRUE(t, receive_type(CTL_READY, 0));
	ASSERT_EQ(t, ctl_ready_decode(got.payload, got.hdr.len, &out), 0);
	EXPECT_EQ(t, out.nr_memories, 2);
}

static void node_requests_are_answered(struct ktest *t)
{
	uint32_t err;

	ASSERT_TRUE(t, service_is_up(t));
	send_frame(CTL_STATS_REQ, 0, 0, 0, NULL, 0);
	ASSERT_TRUE(t, receive_type(CTL_STATS, 0));
	EXPECT_EQ(t, got.payload[0], '{');
	EXPECT_EQ(t, got.payload[got.hdr.len - 1], '}');
	send_frame(CTL_DEBUG, 0, 50, 0, "hello", 5);
	ASSERT_TRUE(t, receive_type(CTL_DEBUG_REPLY, 50));
	ASSERT_EQ(t, ctl_errno_decode(got.payload, got.hdr.len, &err), 0);
	EXPECT_EQ(t, err, 0);
	EXPECT_EQ(t, got.hdr.len, 4 + 5);
	EXPECT_MEMEQ(t, got.payload + 4, "world", 5);
	send_frame(CTL_DEBUG, 0, 51, 0, "nonsense", 8);
	ASSERT_TRUE(t, receive_type(CTL_DEBUG_REPLY, 51));
	ASSERT_EQ(t, ctl_errno_decode(got.payload, got.hdr.len, &err), 0);
	EXPECT_EQ(t, err, ENOSYS);
}

static void refusal_tells_why(struct ktest *t)
{
	uint32_t err;

	ASSERT_TRUE(t, service_is_up(t));
	send_run(1, "/refuse");
	ASSERT_TRUE(t, receive_type(CTL_REFUSED, 1));
	ASSERT_EQ(t, ctl_errno_decode(got.payload, got.hdr.len, &err), 0);
	EXPECT_EQ(t, err, ENOEXEC);
	EXPECT_MEMEQ(t, got.payload + 4, "not an ELF", 10);
	EXPECT_EQ(t, got.hdr.len, 14);
}

/* The launcher is told that the system ended the program, and why; its output is closed before. */
static void lost_program_is_an_error(struct ktest *t)
{
	ASSERT_TRUE(t, service_is_up(t));
	send_run(6, "/lost");
	ASSERT_TRUE(t, receive_type(CTL_STARTED, 6));
	for (int i = 0; i < 2; i++) {
		ASSERT_TRUE(t, receive());
		EXPECT_EQ(t, got.hdr.type, CTL_EOF);
	}
	ASSERT_TRUE(t, receive());
	EXPECT_EQ(t, got.hdr.type, CTL_ERROR);
	EXPECT_EQ(t, got.hdr.prog, 6);
	ASSERT_EQ(t, got.hdr.len, 18);
	EXPECT_MEMEQ(t, got.payload, "its memory is gone", 18);
	/* As after an EXIT, what the launcher sent before it knew is dropped. */
	send_credit(1, 6, 100);
}

/* Everything from here to the exit, bytes of stdout counted and checked to be @fill. */
static size_t drain_output(struct ktest *t, uint32_t prog, int fill, struct ctl_exit *ex)
{
	size_t total = 0;

	while (receive() && got.hdr.prog == prog && got.hdr.type != CTL_EXIT) {
		if (got.hdr.type != CTL_DATA)
			continue;
		for (size_t i = 0; i < got.hdr.len; i++)
			if (got.payload[i] != fill)
				ktest_fail(t, __FILE__, __LINE__, "byte %zu is wrong", total + i);
		total += got.hdr.len;
		send_credit(1, prog, got.hdr.len);
	}
	EXPECT_EQ(t, got.hdr.type, CTL_EXIT);
	EXPECT_EQ(t, ctl_exit_decode(got.payload, got.hdr.len, ex), 0);
	return total;
}

static void echo_is_exact_and_status_comes_last(struct ktest *t)
{
	static uint8_t block[30000];
	struct ctl_exit ex;
	uint32_t credit;

	ASSERT_TRUE(t, service_is_up(t));
	memset(block, 'e', sizeof(block));
	send_run(2, "/echo");
	send_credit(1, 2, 65536);
	ASSERT_TRUE(t, receive_type(CTL_STARTED, 2));
	ASSERT_TRUE(t, receive_type(CTL_CREDIT, 2)); /* it reads: now there is credit */
	ASSERT_EQ(t, ctl_credit_decode(got.payload, got.hdr.len, &credit), 0);
	EXPECT_EQ(t, credit, 65536);
	send_frame(CTL_DATA, 0, 2, 0, block, 30000);
	send_frame(CTL_DATA, 0, 2, 0, block, 30000);
	send_frame(CTL_EOF, 0, 2, 0, NULL, 0);
	EXPECT_EQ(t, drain_output(t, 2, 'e', &ex), 60000);
	EXPECT_EQ(t, ex.status, 0);
	/* The service drops frames that the launcher sent before it knew of the end. */
	send_frame(CTL_EOF, 0, 2, 0, NULL, 0);
	send_credit(1, 2, 100);
}

static void writer_stops_at_its_credit_and_gets_epipe(struct ktest *t)
{
	struct ctl_exit ex;
	size_t total = 0;

	ASSERT_TRUE(t, service_is_up(t));
	send_run(3, "/flood");
	send_credit(1, 3, 10000);
	ASSERT_TRUE(t, receive_type(CTL_STARTED, 3));
	while (total < 10000) {
		ASSERT_TRUE(t, receive_type(CTL_DATA, 3));
		total += got.hdr.len;
	}
	EXPECT_EQ(t, total, 10000);
	thread_sleep_ns(20 * NSEC_PER_MSEC);
	EXPECT_FALSE(t, queue_ready(&console.to_host)); /* not a byte more */
	send_frame(CTL_EOF, 1, 3, 0, NULL, 0);
	EXPECT_EQ(t, drain_output(t, 3, 0, &ex), 0);
	EXPECT_EQ(t, ex.status, (uint32_t)EPIPE << 8);
}

static void signal_reaches_its_program(struct ktest *t)
{
	struct ctl_signal_wire w;
	struct ctl_exit ex;
	const uint64_t deadline = time_after_ns(LIMIT_NS);

	ASSERT_TRUE(t, service_is_up(t));
	send_run(4, "/echo");
	ASSERT_TRUE(t, receive_type(CTL_STARTED, 4));
	ctl_signal_encode(15, &w);
	send_frame(CTL_SIGNAL, 0, 4, 0, &w, sizeof(w));
	while (__atomic_load_n(&last_signal, __ATOMIC_ACQUIRE) != 4015 && time_now_ns() < deadline)
		thread_sleep_ns(NSEC_PER_MSEC);
	EXPECT_EQ(t, last_signal, 4015);
	send_frame(CTL_EOF, 0, 4, 0, NULL, 0);
	(void)drain_output(t, 4, 0, &ex);
}

static void long_run_is_joined(struct ktest *t)
{
	const size_t cap = 200000;
	char *arg = kmalloc(cap), *buf = kmalloc(cap + 200);
	const struct ctl_run run = {
		.umask = 0, .argc = 1, .path = "/long", .cwd = "/", .argv = arg, .envp = ""
	};
	struct ctl_exit ex;
	size_t len, at = 0;
	ssize_t ret;

	ASSERT_TRUE(t, service_is_up(t));
	memset(arg, 'a', cap - 1);
	arg[cap - 1] = '\0';
	ret = ctl_run_encode(&run, buf, cap + 200);
	ASSERT_TRUE(t, ret > 0);
	len = (size_t)ret;
	while (at < len) {
		const size_t n = len - at < 50000 ? len - at : 50000;

		send_frame(CTL_RUN, 0, 5, at + n < len ? CTL_F_MORE : 0, buf + at, n);
		at += n;
	}
	ASSERT_TRUE(t, receive_type(CTL_STARTED, 5));
	(void)drain_output(t, 5, 0, &ex);
	EXPECT_EQ(t, long_argument, cap - 1);
	kfree(arg);
	kfree(buf);
}

static void broken_protocol_ends_the_channel(struct ktest *t)
{
	ASSERT_TRUE(t, service_is_up(t));
	send_run(7, "/echo");
	ASSERT_TRUE(t, receive_type(CTL_STARTED, 7));
	ASSERT_TRUE(t, receive_type(CTL_CREDIT, 7));
	send_frame(CTL_EOF, 0, 99, 0, NULL, 0); /* a program that never was */
	ASSERT_TRUE(t, receive_type(CTL_ERROR, 0));
	EXPECT_MEMEQ(t, got.payload, "a frame for a program that never was", got.hdr.len);
	/* Program 7 reads end of file and ends; nothing more is sent. */
	thread_sleep_ns(50 * NSEC_PER_MSEC);
	EXPECT_FALSE(t, queue_ready(&console.to_host));
	kfree(console.to_node.data);
	kfree(console.to_host.data);
}

static const struct ktest_case ctl_cases[] = {
	KTEST(hello_comes_first),
	KTEST(members_go_out_and_losses_come_in),
	KTEST(status_and_ready_reach_the_launcher),
	KTEST(node_requests_are_answered),
	KTEST(refusal_tells_why),
	KTEST(echo_is_exact_and_status_comes_last),
	KTEST(writer_stops_at_its_credit_and_gets_epipe),
	KTEST(signal_reaches_its_program),
	KTEST(long_run_is_joined),
	KTEST(lost_program_is_an_error),
	KTEST(broken_protocol_ends_the_channel),
	{ 0 },
};
static const struct ktest_suite ctl_suite = { .name = "ctl.channel", .cases = ctl_cases };
KTEST_SUITE(ctl_suite);
