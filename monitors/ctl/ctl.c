/* SPDX-License-Identifier: MIT */
/*
 * Control service: the channel itself, and the requests that concern the node.
 *
 * Flow:	ctl_start() finds the port and starts the reader thread; it sends HELLO, then reads
 *		frames for ever. A payload cut by MORE is joined in a struct join before it is
 *		looked at.
 * Context:	one reader thread. RUN and DEBUG are handed to threads of their own, because they
 *		may wait for peers; everything else is answered by the reader.
 * Locking:	ctl.tx orders whole frames on the wire. Nothing else here is shared: joins belong
 *		to the reader thread.
 * Failure:	bytes that break the protocol: ERROR to the launcher with the reason, then the
 *		channel is down (reads end, writes answer -EPIPE); the node itself goes on.
 * Limits:	MAX_JOINS payloads under way, each bounded by its type.
 */
#define PR_FMT "ctl: "

#include <ctl/ctl.h>

#include "channel.h"

#include <drivers/console.h>
#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/reboot.h>
#include <kernel/symbols.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#define PORT_WAIT_NS (10 * NSEC_PER_SEC)
#define MAX_JOINS    16
#define RX_SIZE      (sizeof(struct ctl_hdr_wire) + CTL_MAX_PAYLOAD)
#define STATS_SIZE   (64u << 10)  /* first guess; doubled until the counters fit */
#define REPLY_SIZE   (64u << 10)  /* room for the answer to a DEBUG command */
#define JOIN_SIZE    (256u << 10) /* first size of a joined payload's buffer */

struct join {
	uint32_t prog;
	uint8_t type; /* 0: this entry is free */
	char *buf;
	size_t len, cap;
};

static struct {
	struct mutex tx;
	struct chardev *port; /* const after ctl_start() */
	const struct ctl_ops *ops;
	uint32_t down; /* atomic */
	uint8_t *tx_buf __guarded_by(&tx);
	uint8_t *rx_buf; /* owner: reader thread, like the rest */
	size_t rx_len;
	struct join joins[MAX_JOINS];
} ctl = { .tx = MUTEX_INIT(ctl.tx, "ctl.tx", RANK_CTL) };

COUNTER(ctl_frames_in, "ctl.frames_in", "control frames received");
COUNTER(ctl_frames_out, "ctl.frames_out", "control frames sent");

const struct ctl_ops *ctl_ops(void)
{
	return ctl.ops;
}

static bool ctl_is_down(void)
{
	return !ctl.port || __atomic_load_n(&ctl.down, __ATOMIC_ACQUIRE);
}

/* --- sending */

static int send_frame(const struct ctl_hdr *hdr, const void *payload)
{
	struct ctl_hdr_wire w;
	int err;

	ASSERT(hdr->len <= CTL_MAX_PAYLOAD); /* tx_buf has room for no more */
	ctl_hdr_encode(hdr, &w);
	mutex_lock(&ctl.tx);
	memcpy(ctl.tx_buf, &w, sizeof(w));
	if (hdr->len)
		memcpy(ctl.tx_buf + sizeof(w), payload, hdr->len);
	err = chardev_write(ctl.port, ctl.tx_buf, sizeof(w) + hdr->len, CHARDEV_NO_DEADLINE);
	mutex_unlock(&ctl.tx);
	counter_inc(&ctl_frames_out);
	return err ? -EPIPE : 0;
}

int ctl_send(enum ctl_type type, unsigned int stream, uint32_t prog, const void *payload,
	     size_t len)
{
	const uint8_t *p = payload;
	int err;

	if (ctl_is_down())
		return -EPIPE;
	do {
		struct ctl_hdr hdr = {
			.type = (uint8_t)type,
			.stream = (uint8_t)stream,
			.prog = prog,
			.len = (uint32_t)MIN(len, (size_t)CTL_MAX_PAYLOAD),
		};

		if (hdr.len < len)
			hdr.flags = CTL_F_MORE;
		err = send_frame(&hdr, p);
		p += hdr.len;
		len -= hdr.len;
	} while (!err && len);
	return err;
}

static void send_line(enum ctl_type type, uint32_t prog, const char *line)
{
	const size_t len = MIN(strlen(line), (size_t)CTL_MAX_LINE);

	if (len)
		(void)ctl_send(type, 0, prog, line, len);
}

void ctl_ready(const struct ctl_ready *ready)
{
	struct ctl_ready_wire w;

	ctl_ready_encode(ready, &w);
	(void)ctl_send(CTL_READY, 0, 0, &w, sizeof(w));
}

void ctl_gateway(void)
{
	(void)ctl_send(CTL_GATEWAY, 0, 0, NULL, 0);
}

void ctl_addresses(const uint8_t (*addrs)[16], uint32_t nr)
{
	ASSERT(nr <= CTL_MAX_ADDRESSES);
	(void)ctl_send(CTL_ADDRESSES, 0, 0, addrs, nr * CTL_ADDRESS_LEN);
}

void ctl_members(const struct ctl_members *m)
{
	const size_t cap = sizeof(struct ctl_members_wire) + m->nr * sizeof(struct ctl_member_wire);
	uint8_t *buf = kmalloc(cap);
	const ssize_t len = buf ? ctl_members_encode(m, buf, cap) : -ENOMEM;

	if (len > 0)
		(void)ctl_send(CTL_MEMBERS, 0, 0, buf, (size_t)len);
	else
		pr_warn("the launcher does not hear of epoch %u\n", m->epoch);
	kfree(buf);
}

void ctl_status(const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vscnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	pr_info("%s\n", line);
	send_line(CTL_STATUS, 0, line);
}

void ctl_error(const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vscnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	pr_err("%s\n", line);
	send_line(CTL_ERROR, 0, line);
}

/* --- requests to the node */

static void send_stats(void)
{
	static const char too_big[] = "{}";

	for (size_t cap = STATS_SIZE; cap <= CTL_MAX_TEXT; cap *= 2) {
		char *buf = vmalloc(cap);
		ssize_t len;

		if (!buf)
			break;
		len = counters_format_json(buf, cap);
		if (len > 0)
			(void)ctl_send(CTL_STATS, 0, 0, buf, (size_t)len);
		vfree(buf);
		if (len > 0)
			return;
	}
	pr_warn("the counters do not fit a STATS reply\n");
	(void)ctl_send(CTL_STATS, 0, 0, too_big, sizeof(too_big) - 1);
}

struct debug_job {
	uint32_t id;
	char *cmd; /* NUL-terminated; vmalloc */
};

static void debug_reply(uint32_t id, int err, char *reply, size_t len)
{
	struct ctl_errno_wire w;

	ctl_errno_encode((uint32_t)-err, &w);
	memcpy(reply, &w, sizeof(w));
	(void)ctl_send(CTL_DEBUG_REPLY, 0, id, reply, sizeof(w) + len);
}

static int debug_run(const char *cmd, char *text, size_t cap)
{
	if (str_has_prefix(cmd, "log ")) {
		pr_info("%s\n", cmd + 4);
		return 0;
	}
	return ctl.ops->debug ? ctl.ops->debug(cmd, text, cap) : -ENOSYS;
}

static void debug_thread(void *arg)
{
	struct debug_job *job = arg;
	char small[sizeof(struct ctl_errno_wire)];
	char *reply = vmalloc(REPLY_SIZE);

	if (reply) {
		char *const text = reply + sizeof(struct ctl_errno_wire);
		const size_t cap = REPLY_SIZE - sizeof(struct ctl_errno_wire);
		const int err = debug_run(job->cmd, text, cap);

		debug_reply(job->id, err, reply, strnlen(text, cap - 1));
		vfree(reply);
	} else {
		debug_reply(job->id, -ENOMEM, small, 0);
	}
	vfree(job->cmd);
	kfree(job);
}

/* Takes @cmd over. */
static void handle_debug(uint32_t id, char *cmd)
{
	char small[sizeof(struct ctl_errno_wire)];
	struct debug_job *job = kmalloc(sizeof(*job));
	struct thread *t = ERR_PTR(-ENOMEM);

	if (job) {
		job->id = id;
		job->cmd = cmd;
		t = thread_create("ctl-debug", debug_thread, job);
	}
	if (IS_ERR(t)) {
		kfree(job);
		vfree(cmd);
		debug_reply(id, -ENOMEM, small, 0);
		return;
	}
	thread_detach(t);
}

static int handle_place(const struct ctl_hdr *hdr, const void *payload, const char **why)
{
	struct ctl_placed placed = { .err = ENOSYS };
	struct ctl_placed_wire w;
	uint32_t vnode;

	if (ctl_place_decode(payload, hdr->len, &vnode)) {
		*why = "a bad PLACE";
		return -EPROTO;
	}
	if (ctl.ops->place)
		placed.err = (uint32_t)-ctl.ops->place(vnode, &placed.node);
	if (placed.err)
		placed.node = 0;
	ctl_placed_encode(&placed, &w);
	(void)ctl_send(CTL_PLACED, 0, hdr->prog, &w, sizeof(w));
	return 0;
}

static int handle_lost(const struct ctl_hdr *hdr, const void *payload, const char **why)
{
	struct ctl_member m;

	if (ctl_member_decode(payload, hdr->len, &m)) {
		*why = "a bad LOST";
		return -EPROTO;
	}
	if (ctl.ops->lost)
		ctl.ops->lost(m.node, m.incarn);
	return 0;
}

static void handle_shutdown(void)
{
	pr_info("shutting down\n");
	if (ctl.ops->shutdown)
		ctl.ops->shutdown();
	machine_poweroff(EXIT_STATUS_OK);
}

/* --- receiving */

/* Copy a whole payload, with a NUL behind it, for a handler that outlives the frame. */
static void *payload_dup(const void *payload, size_t len)
{
	char *copy = vmalloc(len + 1);

	if (copy)
		memcpy(copy, payload, len);
	return copy;
}

/* Refuse a request for which there is no memory. */
static void out_of_memory(const struct ctl_hdr *hdr)
{
	struct ctl_errno_wire w;

	ctl_errno_encode(ENOMEM, &w);
	(void)ctl_send(hdr->type == CTL_RUN ? CTL_REFUSED : CTL_DEBUG_REPLY, 0, hdr->prog, &w,
		       sizeof(w));
}

static int dispatch(const struct ctl_hdr *hdr, const void *payload, const char **why)
{
	void *copy;
	int err;

	switch (hdr->type) {
	case CTL_STATS_REQ:
		send_stats();
		return 0;
	case CTL_SHUTDOWN:
		handle_shutdown();
		return 0;
	case CTL_PLACE:
		return handle_place(hdr, payload, why);
	case CTL_LOST:
		return handle_lost(hdr, payload, why);
	case CTL_RUN:
	case CTL_DEBUG:
		copy = payload_dup(payload, hdr->len);
		if (!copy) {
			out_of_memory(hdr);
			return 0;
		}
		if (hdr->type == CTL_DEBUG) {
			handle_debug(hdr->prog, copy);
			return 0;
		}
		err = prog_run(hdr->prog, copy, hdr->len, why);
		if (err)
			vfree(copy);
		return err;
	default:
		return prog_frame(hdr, payload, why);
	}
}

static struct join *join_find(uint32_t prog)
{
	for (size_t i = 0; i < MAX_JOINS; i++)
		if (ctl.joins[i].type && ctl.joins[i].prog == prog)
			return &ctl.joins[i];
	return NULL;
}

static struct join *join_begin(const struct ctl_hdr *hdr)
{
	for (size_t i = 0; i < MAX_JOINS; i++) {
		struct join *j = &ctl.joins[i];

		if (j->type)
			continue;
		j->buf = vmalloc(JOIN_SIZE);
		if (!j->buf)
			return NULL;
		*j = (struct join){ hdr->prog, hdr->type, j->buf, 0, JOIN_SIZE };
		return j;
	}
	return NULL;
}

static int join_add(struct join *j, const void *payload, size_t len, const char **why)
{
	const size_t limit = j->type == CTL_RUN ? CTL_MAX_RUN : CTL_MAX_TEXT;

	if (len > limit - j->len) {
		*why = "a payload above its limit";
		return -EPROTO;
	}
	if (len > j->cap - j->len) {
		char *bigger = vmalloc(j->cap * 2);

		if (!bigger) {
			*why = "no memory for a long payload";
			return -ENOMEM;
		}
		memcpy(bigger, j->buf, j->len);
		vfree(j->buf);
		j->buf = bigger;
		j->cap *= 2;
	}
	ASSERT(len <= j->cap - j->len); /* a frame is never longer than what JOIN_SIZE grows by */
	memcpy(j->buf + j->len, payload, len);
	j->len += len;
	return 0;
}

/* One frame: join it, or act on it. */
static int handle_frame(struct ctl_hdr *hdr, const void *payload, const char **why)
{
	struct join *j = join_find(hdr->prog);
	int err;

	counter_inc(&ctl_frames_in);
	if (j && j->type != hdr->type) {
		*why = "another frame inside a long payload";
		return -EPROTO;
	}
	if (!j && !(hdr->flags & CTL_F_MORE))
		return dispatch(hdr, payload, why);
	if (!j) {
		j = join_begin(hdr);
		if (!j) {
			*why = "too many long payloads";
			return -EPROTO;
		}
	}
	err = join_add(j, payload, hdr->len, why);
	if (err || (hdr->flags & CTL_F_MORE))
		return err;
	hdr->len = (uint32_t)j->len;
	err = dispatch(hdr, j->buf, why);
	vfree(j->buf);
	j->type = 0;
	return err;
}

/* Act on the whole frames in the receive buffer; keep what is left over. */
static int consume(const char **why)
{
	size_t pos = 0;
	int err = 0;

	while (!err && ctl.rx_len - pos >= sizeof(struct ctl_hdr_wire)) {
		const uint8_t *p = ctl.rx_buf + pos;
		struct ctl_hdr hdr;

		err = ctl_hdr_decode(p, ctl.rx_len - pos, CTL_FROM_HOST, &hdr);
		if (err) {
			*why = "a bad frame header";
			break;
		}
		if (ctl.rx_len - pos - sizeof(struct ctl_hdr_wire) < hdr.len)
			break;
		pos += sizeof(struct ctl_hdr_wire) + hdr.len;
		err = handle_frame(&hdr, p + sizeof(struct ctl_hdr_wire), why);
	}
	ASSERT(pos <= ctl.rx_len);
	memmove(ctl.rx_buf, ctl.rx_buf + pos, ctl.rx_len - pos);
	ctl.rx_len -= pos;
	return err;
}

static void channel_down(const char *why)
{
	pr_err("control channel down: %s\n", why);
	send_line(CTL_ERROR, 0, why);
	__atomic_store_n(&ctl.down, 1, __ATOMIC_RELEASE);
	prog_channel_down();
}

static void reader_thread(void *arg)
{
	const char *why = "the launcher has gone";

	for (;;) {
		const ssize_t n = chardev_read(ctl.port, ctl.rx_buf + ctl.rx_len,
					       RX_SIZE - ctl.rx_len, CHARDEV_NO_DEADLINE);

		if (n <= 0)
			break;
		ctl.rx_len += (size_t)n;
		if (consume(&why))
			break;
	}
	channel_down(why);
}

static void send_hello(enum ctl_role role, uint32_t node, uint32_t incarn)
{
	struct ctl_hello hello = {
		.role = (uint8_t)role,
		.node = node,
		.incarnation = incarn,
	};
	struct ctl_hello_wire w;

	strlcpy(hello.build, build_id(), sizeof(hello.build));
	ctl_hello_encode(&hello, &w);
	(void)ctl_send(CTL_HELLO, 0, 0, &w, sizeof(w));
}

int ctl_start(enum ctl_role role, uint32_t node, uint32_t incarn, const struct ctl_ops *ops)
{
	struct chardev *port = chardev_wait(CTL_PORT_NAME, time_after_ns(PORT_WAIT_NS));
	struct thread *t;

	if (!port)
		return -ENODEV;
	lock_not_needed(&ctl.tx, "no thread sends before ctl.port is set");
	ctl.ops = ops;
	ctl.tx_buf = vmalloc(RX_SIZE);
	ctl.rx_buf = vmalloc(RX_SIZE);
	if (!ctl.tx_buf || !ctl.rx_buf)
		goto out_free;
	if (!chardev_wait_connected(port, time_after_ns(PORT_WAIT_NS)))
		pr_warn("the launcher has not opened the control port yet\n");
	ctl.port = port;
	send_hello(role, node, incarn); /* before the caller can send anything */
	t = thread_create("ctl", reader_thread, NULL);
	if (IS_ERR(t)) {
		ctl.port = NULL;
		goto out_free;
	}
	thread_detach(t);
	return 0;

out_free:
	vfree(ctl.tx_buf);
	vfree(ctl.rx_buf);
	return -ENOMEM;
}
