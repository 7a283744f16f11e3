/* SPDX-License-Identifier: MIT */
/*
 * Control service: programs and their streams.
 *
 * Flow:	input: a ring per program. The node grants its free space to the launcher, for the
 *		first time when the program first reads or polls: a program that does not read
 *		leaves the launcher's stdin alone. Output: a writer takes credit, then sends its
 *		bytes itself; without credit it sleeps.
 * Locking:	progs.lock guards the list, every ring and every credit. It is dropped before
 *		anything is sent: credit is claimed under the lock, so two senders cannot spend it
 *		twice.
 * Invariants:	a ring's bytes and the credit for more never exceed its size.  The list holds no
 *		reference: a program leaves it once, with EXIT, ERROR or REFUSED, which the
 *		holder of a reference sends.
 */
#define PR_FMT "ctl: "

#include "channel.h"

#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/atomic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#define RING_SIZE (64u << 10) /* a power of two */

struct stream {
	struct waitqueue wq;
	uint32_t credit;  /* 1, 2: bytes the node may send; 0: bytes the launcher may still send */
	bool peer_closed; /* EOF came: no more input, or the launcher does not read the output */
	bool closed;      /* the node has said EOF */
};

struct ctl_prog {
	struct list_head link; /* on progs.list until it has ended; progs.lock */
	refcount_t refs;
	uint32_t id;                           /* const */
	void *private;                         /* atomic */
	uint64_t started_ns;                   /* owner: the monitor's task */
	struct stream streams[CTL_NR_STREAMS]; /* progs.lock */
	uint8_t *ring;                         /* const; RING_SIZE bytes under progs.lock */
	uint32_t head, tail;                   /* progs.lock; free running */
	bool wants_input;                      /* progs.lock */
	struct work grant_work;
	void *payload; /* owner: the run thread */
	size_t payload_len;
};

static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct list_head list __guarded_by(&lock);
	uint32_t last_id __guarded_by(&lock);
	struct workqueue *wq; /* const after the first RUN; reader thread */
} progs = {
	.lock = SPINLOCK_INIT("ctl.progs", RANK_SPIN_MONITOR),
	.list = LIST_HEAD_INIT(progs.list),
};

static void grant_work(struct work *w);

/* --- lifetime */

static struct ctl_prog *prog_alloc(uint32_t id)
{
	struct ctl_prog *prog = kzalloc(sizeof(*prog));

	if (!prog)
		return NULL;
	prog->ring = vmalloc(RING_SIZE);
	if (!prog->ring) {
		kfree(prog);
		return NULL;
	}
	prog->id = id;
	refcount_set(&prog->refs, 1);
	list_init(&prog->link);
	work_init(&prog->grant_work, grant_work);
	for (size_t i = 0; i < CTL_NR_STREAMS; i++)
		waitqueue_init(&prog->streams[i].wq);
	return prog;
}

struct ctl_prog *ctl_prog_get(struct ctl_prog *prog)
{
	refcount_inc(&prog->refs);
	return prog;
}

void ctl_prog_put(struct ctl_prog *prog)
{
	if (!refcount_dec_and_test(&prog->refs))
		return;
	ASSERT(list_empty(&prog->link));
	work_flush(&prog->grant_work);
	vfree(prog->ring);
	kfree(prog);
}

uint32_t ctl_prog_id(const struct ctl_prog *prog)
{
	return prog->id;
}

void ctl_prog_set_private(struct ctl_prog *prog, void *private)
{
	__atomic_store_n(&prog->private, private, __ATOMIC_RELEASE);
}

void *ctl_prog_private(struct ctl_prog *prog)
{
	return __atomic_load_n(&prog->private, __ATOMIC_ACQUIRE);
}

/* A running program with a reference, or NULL; *past: it has been, and ended. */
static struct ctl_prog *prog_find(uint32_t id, bool *past)
{
	struct ctl_prog *prog, *found = NULL;

	spin_lock(&progs.lock);
	list_for_each_entry(prog, &progs.list, link) {
		if (prog->id == id) {
			refcount_inc(&prog->refs);
			found = prog;
			break;
		}
	}
	*past = id <= progs.last_id;
	spin_unlock(&progs.lock);
	return found;
}

static void wake_streams(struct ctl_prog *prog)
{
	for (size_t i = 0; i < CTL_NR_STREAMS; i++)
		wake_all(&prog->streams[i].wq);
}

/* Off the list: frames for it are ignored from here on. */
static void prog_end(struct ctl_prog *prog)
{
	spin_lock(&progs.lock);
	ASSERT(!list_empty(&prog->link));
	list_del(&prog->link);
	for (size_t i = 0; i < CTL_NR_STREAMS; i++)
		prog->streams[i].peer_closed = true;
	spin_unlock(&progs.lock);
	wake_streams(prog);
}

void prog_channel_down(void)
{
	struct ctl_prog *prog;

	spin_lock(&progs.lock);
	list_for_each_entry(prog, &progs.list, link) {
		for (size_t i = 0; i < CTL_NR_STREAMS; i++)
			prog->streams[i].peer_closed = true;
		wake_streams(prog);
	}
	spin_unlock(&progs.lock);
}

/* --- starting and ending */

static void run_thread(void *arg)
{
	struct ctl_prog *prog = arg;
	void *const payload = prog->payload;
	struct ctl_run run;

	/* Decoded once already, on the reader thread; this is the same memory. */
	if (ctl_run_decode(payload, prog->payload_len, &run))
		ctl_prog_refuse(prog, -EINVAL, NULL);
	else
		ctl_ops()->run(prog, &run);
	vfree(payload);
}

static void prog_start(struct ctl_prog *prog)
{
	struct thread *t = thread_create("ctl-run", run_thread, prog);

	if (IS_ERR(t)) {
		vfree(prog->payload);
		ctl_prog_refuse(prog, -ENOMEM, NULL);
		return;
	}
	thread_detach(t);
}

static void refuse_id(uint32_t id, int err, const char *text)
{
	struct {
		struct ctl_errno_wire w;
		char text[CTL_MAX_LINE];
	} reply;
	size_t len = 0;

	ctl_errno_encode((uint32_t)-err, &reply.w);
	if (text) {
		len = MIN(strlen(text), sizeof(reply.text));
		memcpy(reply.text, text, len);
	}
	(void)ctl_send(CTL_REFUSED, 0, id, &reply, sizeof(reply.w) + len);
}

int prog_run(uint32_t id, void *payload, size_t len, const char **why)
{
	struct ctl_prog *prog;
	struct ctl_run run;
	bool used;

	if (ctl_run_decode(payload, len, &run)) {
		*why = "a bad RUN";
		return -EPROTO;
	}
	spin_lock(&progs.lock);
	used = id <= progs.last_id;
	if (!used)
		progs.last_id = id;
	spin_unlock(&progs.lock);
	if (used) {
		*why = "a RUN with a program id that is not new";
		return -EPROTO;
	}
	if (!progs.wq) {
		struct workqueue *wq = workqueue_create("ctl", 1);

		progs.wq = IS_ERR(wq) ? NULL : wq;
	}
	prog = ctl_ops()->run && progs.wq ? prog_alloc(id) : NULL;
	if (!prog) {
		vfree(payload);
		refuse_id(id, ctl_ops()->run ? -ENOMEM : -ENOSYS, NULL);
		return 0;
	}
	prog->payload = payload;
	prog->payload_len = len;
	spin_lock(&progs.lock);
	ASSERT(progs.last_id == id); /* the reader thread alone starts programs */
	list_add_tail(&prog->link, &progs.list);
	spin_unlock(&progs.lock);
	prog_start(prog);
	return 0;
}

void ctl_prog_started(struct ctl_prog *prog, uint32_t pid)
{
	const struct ctl_started started = { .pid = pid, .uptime_ns = time_now_ns() };
	struct ctl_started_wire w;

	prog->started_ns = started.uptime_ns;
	ctl_started_encode(&started, &w);
	(void)ctl_send(CTL_STARTED, 0, prog->id, &w, sizeof(w));
}

void ctl_prog_refuse(struct ctl_prog *prog, int err, const char *text)
{
	prog_end(prog);
	refuse_id(prog->id, err, text);
	ctl_prog_put(prog);
}

/* Everything that its tasks wrote is on its way before what says that it has ended. */
static void prog_close(struct ctl_prog *prog)
{
	ctl_stream_close(prog, 1);
	ctl_stream_close(prog, 2);
	prog_end(prog);
}

void ctl_prog_exit(struct ctl_prog *prog, uint32_t wait_status)
{
	const struct ctl_exit ex = {
		.status = wait_status & 0xffff,
		.lifetime_ns = prog->started_ns ? time_now_ns() - prog->started_ns : 0,
	};
	struct ctl_exit_wire w;

	prog_close(prog);
	ctl_exit_encode(&ex, &w);
	(void)ctl_send(CTL_EXIT, 0, prog->id, &w, sizeof(w));
	ctl_prog_put(prog);
}

void ctl_prog_lost(struct ctl_prog *prog, const char *line)
{
	prog_close(prog);
	(void)ctl_send(CTL_ERROR, 0, prog->id, line, MIN(strlen(line), (size_t)CTL_MAX_LINE));
	ctl_prog_put(prog);
}

/* --- frames from the launcher, on the reader thread */

static int take_input(struct ctl_prog *prog, const uint8_t *data, size_t len, const char **why)
{
	struct stream *s = &prog->streams[0];
	int err = 0;

	spin_lock(&progs.lock);
	if (list_empty(&prog->link)) {
		/* It has ended just now: drop the bytes. */
	} else if (len > s->credit || s->peer_closed) {
		*why = "input beyond its credit";
		err = -EPROTO;
	} else {
		/* Credit is never above the free space, so this fits. */
		const uint32_t at = prog->head % RING_SIZE;
		const size_t first = MIN(len, (size_t)RING_SIZE - at);

		memcpy(prog->ring + at, data, first);
		memcpy(prog->ring, data + first, len - first);
		prog->head += (uint32_t)len;
		s->credit -= (uint32_t)len;
		ASSERT(prog->head - prog->tail <= RING_SIZE);
	}
	spin_unlock(&progs.lock);
	return err;
}

static int take_credit(struct ctl_prog *prog, const struct ctl_hdr *hdr, const void *payload,
		       const char **why)
{
	struct stream *s = &prog->streams[hdr->stream];
	uint32_t bytes;

	if (ctl_credit_decode(payload, hdr->len, &bytes)) {
		*why = "a bad CREDIT";
		return -EPROTO;
	}
	spin_lock(&progs.lock);
	if (bytes > CTL_MAX_CREDIT - s->credit) {
		spin_unlock(&progs.lock);
		*why = "more credit than the limit";
		return -EPROTO;
	}
	s->credit += bytes;
	spin_unlock(&progs.lock);
	return 0;
}

static void take_eof(struct ctl_prog *prog, unsigned int stream)
{
	spin_lock(&progs.lock);
	prog->streams[stream].peer_closed = true;
	spin_unlock(&progs.lock);
}

static int take_control(struct ctl_prog *prog, const struct ctl_hdr *hdr, const void *payload,
			const char **why)
{
	const struct ctl_ops *ops = ctl_ops();
	struct ctl_winsize ws;
	uint32_t signo;

	if (hdr->type == CTL_SIGNAL) {
		if (ctl_signal_decode(payload, hdr->len, &signo)) {
			*why = "a bad SIGNAL";
			return -EPROTO;
		}
		if (ops->signal)
			ops->signal(prog, signo);
		return 0;
	}
	if (ctl_winsize_decode(payload, hdr->len, &ws)) {
		*why = "a bad WINSIZE";
		return -EPROTO;
	}
	if (ops->winsize)
		ops->winsize(prog, &ws);
	return 0;
}

int prog_frame(const struct ctl_hdr *hdr, const void *payload, const char **why)
{
	bool past;
	struct ctl_prog *prog = prog_find(hdr->prog, &past);
	int err = 0;

	if (!prog) {
		*why = "a frame for a program that never was";
		return past ? 0 : -EPROTO;
	}
	switch (hdr->type) {
	case CTL_DATA:
		err = take_input(prog, payload, hdr->len, why);
		break;
	case CTL_CREDIT:
		err = take_credit(prog, hdr, payload, why);
		break;
	case CTL_EOF:
		take_eof(prog, hdr->stream);
		break;
	default:
		err = take_control(prog, hdr, payload, why);
		break;
	}
	wake_all(&prog->streams[hdr->stream].wq);
	ctl_prog_put(prog);
	return err;
}

/* --- streams, on the program's threads */

static uint32_t ring_used_locked(const struct ctl_prog *prog)
{
	const uint32_t used = prog->head - prog->tail;

	assert_spin_held(&progs.lock);
	ASSERT(used <= RING_SIZE && prog->streams[0].credit <= RING_SIZE - used);
	return used;
}

/* Grant the launcher the free space of the ring, once that is at least half of it. */
static uint32_t claim_grant_locked(struct ctl_prog *prog)
{
	struct stream *s = &prog->streams[0];
	uint32_t room;

	assert_spin_held(&progs.lock);
	room = RING_SIZE - ring_used_locked(prog) - s->credit;
	if (!prog->wants_input || s->peer_closed || s->closed || room < RING_SIZE / 2)
		return 0;
	s->credit += room;
	return room;
}

static void send_grant(struct ctl_prog *prog)
{
	struct ctl_credit_wire w;
	uint32_t room;

	spin_lock(&progs.lock);
	room = claim_grant_locked(prog);
	spin_unlock(&progs.lock);
	if (!room)
		return;
	ctl_credit_encode(room, &w);
	(void)ctl_send(CTL_CREDIT, 0, prog->id, &w, sizeof(w));
}

static void grant_work(struct work *w)
{
	send_grant(container_of(w, struct ctl_prog, grant_work));
}

/* Take what is in the ring: bytes, 0 at end of file, -EAGAIN. */
static ssize_t ring_take(struct ctl_prog *prog, uint8_t *buf, size_t len)
{
	ssize_t ret;

	spin_lock(&progs.lock);
	prog->wants_input = true;
	len = MIN(len, (size_t)ring_used_locked(prog));
	if (len) {
		const uint32_t at = prog->tail % RING_SIZE;
		const size_t first = MIN(len, (size_t)RING_SIZE - at);

		memcpy(buf, prog->ring + at, first);
		memcpy(buf + first, prog->ring, len - first);
		prog->tail += (uint32_t)len;
		ret = (ssize_t)len;
	} else {
		ret = prog->streams[0].peer_closed ? 0 : -EAGAIN;
	}
	spin_unlock(&progs.lock);
	return ret;
}

static bool ring_readable(struct ctl_prog *prog)
{
	bool ok;

	spin_lock(&progs.lock);
	ok = prog->head != prog->tail || prog->streams[0].peer_closed;
	spin_unlock(&progs.lock);
	return ok;
}

ssize_t ctl_stream_read(struct ctl_prog *prog, void *buf, size_t len, bool nonblock)
{
	if (!len)
		return 0;
	for (;;) {
		const ssize_t ret = ring_take(prog, buf, len);

		send_grant(prog);
		if (ret != -EAGAIN || nonblock)
			return ret;
		if (wait_event_interruptible(&prog->streams[0].wq, ring_readable(prog)))
			return -EINTR;
	}
}

/* Take output credit: bytes, or -EPIPE, or -EAGAIN. */
static ssize_t credit_take(struct ctl_prog *prog, struct stream *s, size_t len)
{
	ssize_t ret;

	spin_lock(&progs.lock);
	len = MIN(len, (size_t)s->credit);
	len = MIN(len, (size_t)CTL_MAX_PAYLOAD);
	if (s->peer_closed)
		ret = -EPIPE;
	else
		ret = len ? (ssize_t)len : -EAGAIN;
	if (ret > 0)
		s->credit -= (uint32_t)len;
	spin_unlock(&progs.lock);
	return ret;
}

static bool stream_writable(struct stream *s)
{
	bool ok;

	spin_lock(&progs.lock);
	ok = s->credit || s->peer_closed;
	spin_unlock(&progs.lock);
	return ok;
}

ssize_t ctl_stream_write(struct ctl_prog *prog, unsigned int stream, const void *buf, size_t len,
			 bool nonblock)
{
	struct stream *s = &prog->streams[stream];
	const uint8_t *p = buf;
	size_t done = 0;
	ssize_t ret = 0;

	ASSERT(stream == 1 || stream == 2);
	while (done < len) {
		ret = credit_take(prog, s, len - done);
		if (ret == -EAGAIN && !nonblock) {
			ret = wait_event_interruptible(&s->wq, stream_writable(s)) ? -EINTR : 0;
			if (!ret)
				continue;
		}
		if (ret < 0)
			break;
		if (ctl_send(CTL_DATA, stream, prog->id, p + done, (size_t)ret)) {
			ret = -EPIPE;
			break;
		}
		done += (size_t)ret;
	}
	return done ? (ssize_t)done : ret;
}

unsigned int ctl_stream_poll(struct ctl_prog *prog, unsigned int stream)
{
	struct stream *s = &prog->streams[stream];
	unsigned int mask = 0;

	spin_lock(&progs.lock);
	if (stream == 0) {
		prog->wants_input = true;
		if (prog->head != prog->tail || s->peer_closed)
			mask |= CTL_POLLIN;
		if (s->peer_closed)
			mask |= CTL_POLLHUP;
	} else {
		if (s->credit || s->peer_closed)
			mask |= CTL_POLLOUT;
		if (s->peer_closed)
			mask |= CTL_POLLERR;
	}
	spin_unlock(&progs.lock);
	if (stream == 0)
		work_queue(progs.wq, &prog->grant_work);
	return mask;
}

struct waitqueue *ctl_stream_waitqueue(struct ctl_prog *prog, unsigned int stream)
{
	return &prog->streams[stream].wq;
}

void ctl_stream_close(struct ctl_prog *prog, unsigned int stream)
{
	struct stream *s = &prog->streams[stream];
	bool first;

	spin_lock(&progs.lock);
	first = !s->closed && !list_empty(&prog->link);
	s->closed = true;
	spin_unlock(&progs.lock);
	if (first)
		(void)ctl_send(CTL_EOF, stream, prog->id, NULL, 0);
}
