/* SPDX-License-Identifier: MIT */
/*
 * The simulated cluster: node processes, and the fabric between them.
 *
 * Flow:	sim_run() forks the nodes and then is the fabric: frames come in from every node's
 *		socket, get a time at which they are due, and go out in order.  One thread.
 * Failure:	a node that exits non-zero, dies without being told to, or outlives the limit fails
 *		the case.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kernel/random.h>
#include <lib/fmt.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <rdma/verbs.h>
#include <shim/shim.h>

#include "fabric.h"
#include "sim.h"

struct frame_queued {
	struct frame_queued *next;
	uint64_t due_us;
	bool moved; /* others have overtaken it */
	struct fab_hdr hdr;
	uint8_t data[];
};

struct lane { /* frames from one node to another, of one service level */
	struct frame_queued *first, **last;
	bool held;
};

struct child {
	const struct sim_node *node;
	pid_t pid; /* 0: not running */
	int fd;
	unsigned int starts;
	bool killed;
	uint8_t *in;
	size_t in_len;
	uint8_t *out; /* not yet taken by the node's socket */
	size_t out_len, out_room;
};

#define IN_ROOM (sizeof(struct fab_hdr) + FAB_MAX_PAYLOAD)

static struct {
	struct ktest *t;
	struct child child[FAB_MAX_NODES];
	size_t nr;
	struct lane lane[FAB_MAX_NODES][FAB_MAX_NODES][FAB_NR_SL];
	struct lane late;  /* answers of the transport that nobody was there */
	uint64_t patience; /* us until such an answer */
	struct prng rnd;
	uint64_t delay_min, delay_max; /* us */
	uint32_t loss, dup, reorder, breaks;
	uint64_t nr_frames, nr_broken, nr_delayed, nr_lost, nr_dup, nr_reordered;
	uint32_t barrier_count[64];
	uint16_t barrier_waiting[64][FAB_MAX_NODES];
	uint64_t limit_us; /* when the run must have ended */
} fab;

volatile uint64_t *sim_shared;
static uint32_t my_id;
static unsigned int my_incarnation;

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* --- node side -------------------------------------------------------------------------- */

uint32_t sim_node_id(void)
{
	return my_id;
}

unsigned int sim_incarnation(void)
{
	return my_incarnation;
}

long sim_cmd(const char *fmt, ...)
{
	char line[128];
	va_list ap;

	va_start(ap, fmt);
	vscnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	return memverbs_cmd(line);
}

static void child_main(const struct sim_node *node, int fd, unsigned int incarnation)
{
	struct ktest t = *fab.t;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	my_id = node->id;
	my_incarnation = incarnation;
	t.nr_failed = 0;
	/* Every process begins with the same random state: move on to one of its own. */
	for (uint32_t i = 0; i < node->id * 100 + incarnation; i++)
		(void)random_u64();
	shim_node_id_set(node->id);
	memverbs_start(fd, node->id);
	node->fn(&t);
	_exit(t.nr_failed ? 1 : 0);
}

static void frame_due(const struct frame_queued *f);

/* --- fabric: processes ------------------------------------------------------------------ */

static struct child *child_of(uint32_t id)
{
	for (size_t i = 0; i < fab.nr; i++) {
		if (fab.child[i].node->id == id)
			return &fab.child[i];
	}
	return NULL;
}

static void child_start(struct child *c)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		abort();
	fflush(NULL);
	c->pid = fork();
	if (c->pid == 0) {
		for (size_t i = 0; i < fab.nr; i++) {
			if (fab.child[i].pid && &fab.child[i] != c)
				close(fab.child[i].fd);
		}
		close(fds[0]);
		child_main(c->node, fds[1], c->starts);
	}
	close(fds[1]);
	c->fd = fds[0];
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	c->starts++;
	c->killed = false;
	c->in_len = c->out_len = 0;
	if (!c->in)
		c->in = malloc(IN_ROOM);
}

static void lane_flush(struct lane *l)
{
	while (l->first) {
		struct frame_queued *f = l->first;

		l->first = f->next;
		if (!l->first)
			l->last = &l->first;
		frame_due(f);
		free(f);
	}
}

/* A node is gone: what was on its way to it is lost, or bounces. */
static void lanes_flush(uint32_t id)
{
	for (uint32_t i = 0; i < FAB_MAX_NODES * FAB_NR_SL; i++)
		lane_flush(&fab.lane[i / FAB_NR_SL][id][i % FAB_NR_SL]);
}

/* It no longer waits at any barrier. */
static void barriers_leave(uint16_t node)
{
	for (uint32_t k = 0; k < 64; k++) {
		for (uint32_t i = 0; i < fab.barrier_count[k]; i++) {
			if (fab.barrier_waiting[k][i] == node)
				fab.barrier_waiting[k][i--] =
					fab.barrier_waiting[k][--fab.barrier_count[k]];
		}
	}
}

static void child_gone(struct child *c)
{
	int status = 0;

	close(c->fd);
	waitpid(c->pid, &status, 0);
	c->pid = 0;
	barriers_leave((uint16_t)c->node->id);
	lanes_flush(c->node->id);
	if (c->killed)
		return;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		ktest_fail(fab.t, __FILE__, __LINE__, "node %u ended with status %#x", c->node->id,
			   (unsigned int)status);
	else
		return;
	/* The others would wait for it in vain. */
	fab.limit_us = MIN(fab.limit_us, now_us() + 500000);
}

/* --- fabric: frames --------------------------------------------------------------------- */

static void deliver(const struct fab_hdr *h, const void *data)
{
	struct child *c = child_of(h->dst);
	const size_t need = sizeof(*h) + h->len;

	if (!c || !c->pid)
		return;
	if (c->out_len + need > c->out_room) {
		c->out_room = 2 * (c->out_len + need);
		c->out = realloc(c->out, c->out_room);
	}
	memcpy(c->out + c->out_len, h, sizeof(*h));
	if (h->len)
		memcpy(c->out + c->out_len + sizeof(*h), data, h->len);
	c->out_len += need;
}

static void reply_cmd(uint16_t node, long result)
{
	const struct fab_hdr h = { .type = FAB_CMD_REPLY, .dst = node, .seq = (uint64_t)result };

	deliver(&h, NULL);
}

static void enqueue(const struct fab_hdr *h, const void *data)
{
	const bool is_late = h->type == FAB_ACK && h->status == RDMA_WC_RETRY_EXC_ERR;
	struct lane *l = is_late ? &fab.late : &fab.lane[h->src][h->dst][h->sl];
	struct frame_queued *f = malloc(sizeof(*f) + h->len);
	uint64_t due = now_us();

	if (is_late) {
		due += fab.patience;
	} else if (fab.delay_max) {
		due += fab.delay_min + prng_below(&fab.rnd, fab.delay_max - fab.delay_min + 1);
		fab.nr_delayed++;
	}
	f->next = NULL;
	f->due_us = due;
	f->moved = false;
	f->hdr = *h;
	if (h->len)
		memcpy(f->data, data, h->len);
	*l->last = f;
	l->last = &f->next;
}

static void break_qps(uint16_t a, uint32_t qa, uint16_t b, uint32_t qb)
{
	struct fab_hdr h = { .type = FAB_BREAK, .src = b, .dst = a, .dst_qpn = qa };

	deliver(&h, NULL);
	h = (struct fab_hdr){ .type = FAB_BREAK, .src = a, .dst = b, .dst_qpn = qb };
	deliver(&h, NULL);
	fab.nr_broken++;
}

static void lose_qps(uint16_t a, uint16_t b)
{
	const struct fab_hdr h = { .type = FAB_BREAK, .src = b, .dst = a };

	deliver(&h, NULL);
}

/* The frame is due: it arrives, is lost, or takes its queue pair with it. */
static void frame_due(const struct frame_queued *f)
{
	const struct fab_hdr *h = &f->hdr;
	const struct child *c = child_of(h->dst);
	const bool rc = h->type == FAB_WRITE || h->type == FAB_READ;

	if (rc && (!c || !c->pid)) { /* nobody there: the transport's retries run out */
		struct fab_hdr a = { .type = FAB_ACK,
				     .src = h->dst,
				     .dst = h->src,
				     .sl = h->sl,
				     .src_qpn = h->dst_qpn,
				     .dst_qpn = h->src_qpn,
				     .status = RDMA_WC_RETRY_EXC_ERR,
				     .seq = h->seq };
		enqueue(&a, NULL);
		return;
	}
	if (rc && fab.breaks && prng_below(&fab.rnd, 10000) < fab.breaks) {
		if (prng_below(&fab.rnd, 2))
			deliver(h, f->data);
		break_qps(h->src, h->src_qpn, h->dst, h->dst_qpn);
		return;
	}
	if (h->type == FAB_UD) {
		if (prng_below(&fab.rnd, 100) < fab.loss) {
			fab.nr_lost++;
			return;
		}
		if (prng_below(&fab.rnd, 100) < fab.dup) {
			fab.nr_dup++;
			deliver(h, f->data);
		}
	}
	deliver(h, f->data);
}

/* Does the datagram go to the end of its lane once more? */
static bool overtaken(struct frame_queued *f, uint64_t now)
{
	if (f->hdr.type != FAB_UD || f->moved || prng_below(&fab.rnd, 100) >= fab.reorder)
		return false;
	f->moved = true;
	f->next = NULL;
	f->due_us = now + prng_below(&fab.rnd, 3000);
	fab.nr_reordered++;
	return true;
}

/* Let go what is due; *@next is not after what is due next. */
static void lane_run(struct lane *l, uint64_t now, uint64_t *next)
{
	while (l->first && !l->held && l->first->due_us <= now) {
		struct frame_queued *f = l->first;

		l->first = f->next;
		if (!l->first)
			l->last = &l->first;
		if (overtaken(f, now)) {
			*l->last = f;
			l->last = &f->next;
			continue;
		}
		frame_due(f);
		free(f);
	}
	if (l->first && !l->held && l->first->due_us < *next)
		*next = l->first->due_us;
}

/* The same for all; returns the time until the next, in ms. */
static int lanes_run(void)
{
	const uint64_t now = now_us();
	uint64_t next = now + 100000;

	for (uint32_t i = 0; i < FAB_MAX_NODES; i++) {
		for (uint32_t k = 0; k < FAB_MAX_NODES * FAB_NR_SL; k++)
			lane_run(&fab.lane[i][k / FAB_NR_SL][k % FAB_NR_SL], now, &next);
	}
	lane_run(&fab.late, now, &next);
	return (int)((next - now + 999) / 1000);
}

/* --- fabric: commands ------------------------------------------------------------------- */

static void barrier(uint32_t k, uint32_t n, uint16_t node)
{
	if (k >= 64 || n > FAB_MAX_NODES) {
		reply_cmd(node, -EINVAL);
		return;
	}
	fab.barrier_waiting[k][fab.barrier_count[k]++] = node;
	if (fab.barrier_count[k] < n)
		return;
	for (uint32_t i = 0; i < n; i++)
		reply_cmd(fab.barrier_waiting[k][i], 0);
	fab.barrier_count[k] = 0;
}

static long command_kill(uint32_t id)
{
	struct child *c = child_of(id);

	if (!c || !c->pid)
		return -ESRCH;
	c->killed = true;
	kill(c->pid, SIGKILL);
	return 0;
}

static long command_spawn(uint32_t id)
{
	struct child *c = child_of(id);

	if (!c)
		return -ESRCH;
	if (c->pid && !c->killed)
		return -EBUSY;
	if (c->pid)
		child_gone(c);
	child_start(c);
	return 0;
}

static long count(const char *what)
{
	return strcmp(what, "broken") == 0       ? (long)fab.nr_broken
	       : strcmp(what, "delayed") == 0    ? (long)fab.nr_delayed
	       : strcmp(what, "lost") == 0       ? (long)fab.nr_lost
	       : strcmp(what, "duplicated") == 0 ? (long)fab.nr_dup
	       : strcmp(what, "reordered") == 0  ? (long)fab.nr_reordered
	       : strcmp(what, "frames") == 0     ? (long)fab.nr_frames
						 : -EINVAL;
}

/* @sl: FAB_NR_SL = all. */
static long command_hold(uint32_t a, uint32_t b, uint32_t sl, bool held)
{
	if (a >= FAB_MAX_NODES || b >= FAB_MAX_NODES || sl > FAB_NR_SL)
		return -EINVAL;
	for (uint32_t i = 0; i < FAB_NR_SL; i++) {
		if (sl == FAB_NR_SL || sl == i)
			fab.lane[a][b][i].held = held;
	}
	return 0;
}

static void command(uint16_t node, const char *line)
{
	char verb[32] = "", word[32] = "";
	unsigned int a = 0, b = 0, c = FAB_NR_SL;
	long result = 0;

	if (sscanf(line, "count %31s", word) == 1) {
		reply_cmd(node, count(word));
		return;
	}
	if (sscanf(line, "%31s %u %u %u", verb, &a, &b, &c) < 1)
		result = -EINVAL;
	else if (strcmp(verb, "barrier") == 0) {
		barrier(a, b, node);
		return;
	} else if (strcmp(verb, "delay") == 0) {
		fab.delay_min = a;
		fab.delay_max = MAX(a, b);
	} else if (strcmp(verb, "patience") == 0)
		fab.patience = a;
	else if (strcmp(verb, "loss") == 0)
		fab.loss = a;
	else if (strcmp(verb, "dup") == 0)
		fab.dup = a;
	else if (strcmp(verb, "reorder") == 0)
		fab.reorder = a;
	else if (strcmp(verb, "breaks") == 0)
		fab.breaks = a;
	else if (strcmp(verb, "break") == 0)
		break_qps((uint16_t)a, 0, (uint16_t)b, 0);
	else if (strcmp(verb, "lose") == 0)
		lose_qps((uint16_t)a, (uint16_t)b);
	else if (strcmp(verb, "hold") == 0 || strcmp(verb, "release") == 0)
		result = command_hold(a, b, c, verb[0] == 'h');
	else if (strcmp(verb, "kill") == 0)
		result = command_kill(a);
	else if (strcmp(verb, "spawn") == 0)
		result = command_spawn(a);
	else
		result = -EINVAL;
	reply_cmd(node, result);
}

/* --- fabric: sockets -------------------------------------------------------------------- */

static void frame_in(const struct fab_hdr *h, const uint8_t *data)
{
	char line[128];

	fab.nr_frames++;
	if (h->type == FAB_CMD) {
		scnprintf(line, sizeof(line), "%.*s", (int)h->len, (const char *)data);
		command(h->src, line);
		return;
	}
	if (h->dst < FAB_MAX_NODES && h->sl < FAB_NR_SL)
		enqueue(h, data);
}

/* False: the node's end is closed. */
static bool child_read(struct child *c)
{
	for (;;) {
		const ssize_t n = read(c->fd, c->in + c->in_len, IN_ROOM - c->in_len);
		size_t off = 0;

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		if (n == 0)
			return false;
		c->in_len += (size_t)n;
		while (c->in_len - off >= sizeof(struct fab_hdr)) {
			struct fab_hdr h;

			memcpy(&h, c->in + off, sizeof(h));
			if (h.len > FAB_MAX_PAYLOAD)
				abort();
			if (c->in_len - off < sizeof(h) + h.len)
				break;
			frame_in(&h, c->in + off + sizeof(h));
			off += sizeof(h) + h.len;
		}
		memmove(c->in, c->in + off, c->in_len - off);
		c->in_len -= off;
	}
}

static void child_write(struct child *c)
{
	while (c->out_len) {
		const ssize_t n = send(c->fd, c->out, c->out_len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		memmove(c->out, c->out + n, c->out_len - (size_t)n);
		c->out_len -= (size_t)n;
	}
}

static size_t fabric_step(void)
{
	struct pollfd p[FAB_MAX_NODES];
	struct child *of[FAB_MAX_NODES];
	nfds_t n = 0;
	const int timeout = lanes_run();

	for (size_t i = 0; i < fab.nr; i++) {
		struct child *c = &fab.child[i];

		if (!c->pid)
			continue;
		child_write(c);
		of[n] = c;
		p[n++] = (struct pollfd){ .fd = c->fd,
					  .events = (short)(POLLIN | (c->out_len ? POLLOUT : 0)) };
	}
	if (n && poll(p, n, timeout) > 0) {
		for (nfds_t i = 0; i < n; i++) {
			/* A command of one node may have replaced another. */
			if (p[i].revents && of[i]->pid && of[i]->fd == p[i].fd &&
			    !child_read(of[i]))
				child_gone(of[i]);
		}
	}
	return n;
}

static uint64_t seed(void)
{
	const char *s = getenv("TESSERA_SEED");
	uint64_t v = 1;

	if (s && kstrtou64(s, 0, &v))
		return 1;
	return v;
}

void sim_run(struct ktest *t, const struct sim_node *nodes, size_t nr_nodes, unsigned int limit_s)
{
	bool late = false;

	memset(&fab, 0, sizeof(fab));
	fab.t = t;
	fab.nr = nr_nodes;
	fab.limit_us = now_us() + (uint64_t)limit_s * 1000000;
	prng_seed(&fab.rnd, seed());
	for (uint32_t i = 0; i < FAB_MAX_NODES; i++) {
		for (uint32_t k = 0; k < FAB_MAX_NODES * FAB_NR_SL; k++) {
			struct lane *l = &fab.lane[i][k / FAB_NR_SL][k % FAB_NR_SL];

			l->last = &l->first;
		}
	}
	fab.late.last = &fab.late.first;
	sim_shared = mmap(NULL, SIM_NR_SHARED * sizeof(uint64_t), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < nr_nodes; i++)
		fab.child[i].node = &nodes[i];
	for (size_t i = 0; i < nr_nodes; i++) {
		if (!nodes[i].is_late)
			child_start(&fab.child[i]);
	}
	while (fabric_step()) {
		if (late || now_us() < fab.limit_us)
			continue;
		late = true;
		ktest_fail(t, __FILE__, __LINE__, "not all nodes ended within %u s", limit_s);
		for (size_t i = 0; i < nr_nodes; i++) {
			if (fab.child[i].pid)
				kill(fab.child[i].pid, SIGABRT);
		}
	}
	for (size_t i = 0; i < nr_nodes; i++) {
		lanes_flush(nodes[i].id); /* what was sent to somebody who had ended */
		free(fab.child[i].in);
		free(fab.child[i].out);
	}
	lane_flush(&fab.late);
	munmap((void *)(uintptr_t)sim_shared, SIM_NR_SHARED * sizeof(uint64_t));
}
