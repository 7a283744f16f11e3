/* SPDX-License-Identifier: MIT */
/*
 * HCA model: message-signalled interrupts through QEMU's qtest socket.
 *
 * Flow:	"writel ADDRESS DATA" stores to the APIC's window.  QEMU answers
 *		"OK", which is read only before the next message, so that an
 *		answer does not wake the model.
 * Failure:	while the socket is not there yet, the connection is tried again
 *		every RETRY_NS and interrupts wait.  When QEMU does not read,
 *		up to PENDING messages wait; an equal one is not added twice.
 */
#include "loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RETRY_NS (20 * NSEC_PER_MSEC)
#define PENDING  64

struct message {
	uint64_t addr;
	uint32_t val;
};

struct qtest {
	struct watch w;
	struct loop *loop;
	struct hca *h;
	char path[108];
	bool connected;
	bool waiting_out;
	struct alarm retry;
	struct message pending[PENDING];
	unsigned nr_pending;
	char line[48]; /* what is left of a line that was sent in part */
	size_t line_len;
	unsigned lost;
};

/* Read QEMU's answers.  False: it has closed the socket. */
static bool drain(struct qtest *q)
{
	char buf[512];
	ssize_t n;

	while ((n = recv(q->w.fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		if (memmem(buf, (size_t)n, "FAIL", 4) || memmem(buf, (size_t)n, "ERR", 3))
			hca_log(q->h, "QEMU refused an interrupt");
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static bool send_line(struct qtest *q)
{
	const ssize_t n = send(q->w.fd, q->line, q->line_len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n > 0) {
		q->line_len -= (size_t)n;
		memmove(q->line, q->line + n, q->line_len);
	}
	return q->line_len == 0;
}

static bool send_message(struct qtest *q, const struct message *m)
{
	q->line_len = (size_t)snprintf(q->line, sizeof(q->line), "writel 0x%llx 0x%x\n",
				       (unsigned long long)m->addr, m->val);
	return send_line(q);
}

static void want_out(struct qtest *q, bool on)
{
	if (q->waiting_out == on)
		return;
	q->waiting_out = on;
	loop_change(q->loop, &q->w, on ? EPOLLOUT : 0u);
}

static void flush(struct qtest *q)
{
	unsigned done = 0;

	if (!q->connected)
		return;
	if (q->line_len && !send_line(q)) {
		want_out(q, true);
		return;
	}
	while (done < q->nr_pending && q->line_len == 0)
		(void)send_message(q, &q->pending[done++]);
	q->nr_pending -= done;
	memmove(q->pending, q->pending + done, q->nr_pending * sizeof(q->pending[0]));
	want_out(q, q->line_len != 0);
}

void qtest_writel(struct qtest *q, uint64_t addr, uint32_t val)
{
	const struct message m = { addr, val };

	if (q->connected)
		(void)drain(q); /* an end is seen by epoll */
	if (q->connected && q->nr_pending == 0 && q->line_len == 0) {
		if (!send_message(q, &m))
			want_out(q, true);
		return;
	}
	for (unsigned i = 0; i < q->nr_pending; i++) {
		if (q->pending[i].addr == addr && q->pending[i].val == val)
			return;
	}
	if (q->nr_pending == PENDING) {
		if (!q->lost++)
			hca_log(q->h, "interrupts lost: QEMU does not read its qtest socket");
		return;
	}
	q->pending[q->nr_pending++] = m;
}

static void qtest_ready(struct watch *w, uint32_t events)
{
	struct qtest *q = container_of(w, struct qtest, w);

	if (events & EPOLLOUT)
		flush(q);
	if (!(events & (EPOLLHUP | EPOLLERR)) || drain(q))
		return;
	/* QEMU is leaving; the device's own socket tells the rest. */
	q->connected = false;
	(void)epoll_ctl(q->loop->epfd, EPOLL_CTL_DEL, w->fd, NULL);
}

static bool adopt(struct qtest *q, int fd)
{
	q->w.fd = fd;
	q->connected = true;
	if (!loop_add(q->loop, &q->w, 0)) /* an end is reported all the same */
		return false;
	flush(q);
	return true;
}

static void try_connect(struct alarm *t)
{
	struct qtest *q = container_of(t, struct qtest, retry);
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(sun.sun_path, q->path, sizeof(sun.sun_path));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0 && adopt(q, fd))
		return;
	if (fd >= 0)
		close(fd);
	alarm_set(q->loop->fabric, t, q->loop->fabric->now_ns + RETRY_NS);
}

static void qtest_release(struct watch *w)
{
	free(container_of(w, struct qtest, w));
}

/* @where: a socket path, or fd:N.  NULL: no memory, or a bad descriptor. */
struct qtest *qtest_open(struct loop *l, struct hca *h, const char *where)
{
	struct qtest *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->loop = l;
	q->h = h;
	q->w = (struct watch){ .fd = -1, .ready = qtest_ready, .release = qtest_release };
	q->retry.fn = try_connect;
	if (!strncmp(where, "fd:", 3)) {
		if (adopt(q, atoi(where + 3)))
			return q;
		free(q);
		return NULL;
	}
	snprintf(q->path, sizeof(q->path), "%s", where);
	try_connect(&q->retry);
	return q;
}

void qtest_close(struct qtest *q)
{
	alarm_cancel(q->loop->fabric, &q->retry);
	loop_remove(q->loop, &q->w);
}
