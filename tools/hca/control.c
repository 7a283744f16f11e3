/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the control socket and scenario files.
 *
 * A client sends commands, one a line, and gets one line of JSON for each.  A
 * scenario file holds "<ms since start> <command>" lines.
 * Limits:	LINE_MAX characters a command; a client that does not read its
 *		answers is cut off.
 */
#include "loop.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LINE_MAX_LEN 512u
#define MAX_WORDS    8

struct listener {
	struct watch w;
	struct loop *loop;
	char path[108];
};

struct client {
	struct watch w;
	struct loop *loop;
	char buf[LINE_MAX_LEN];
	size_t have;
	int fd; /* descriptor that came along, for attach */
};

struct event {
	uint64_t at_ns;
	char line[LINE_MAX_LEN];
};

struct scenario {
	struct alarm timer;
	struct loop *loop;
	struct event *events;
	size_t nr, next;
	uint64_t start_ns;
};

static struct listener *the_listener;

static __printf(1, 2) char *text(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : s;
}

static char *ok(void)
{
	return text("{\"ok\":true}");
}

static char *bad(const char *why)
{
	return text("{\"ok\":false,\"error\":\"%s\"}", why);
}

static bool number(const char *s, uint64_t max, uint64_t *out)
{
	char *end;

	if (!s || *s < '0' || *s > '9')
		return false;
	errno = 0;
	*out = strtoull(s, &end, 0);
	return !*end && !errno && *out <= max;
}

static bool lid_arg(const char *s, uint16_t *lid)
{
	uint64_t n;

	if (!number(s, MAX_LID, &n) || n == 0)
		return false;
	*lid = (uint16_t)n;
	return true;
}

/* L or L-M; M = 0 when absent. */
static bool lid_pair(char *s, uint16_t *a, uint16_t *b)
{
	char *dash = s ? strchr(s, '-') : NULL;

	*b = 0;
	if (dash) {
		*dash = '\0';
		if (!lid_arg(dash + 1, b))
			return false;
	}
	return lid_arg(s, a);
}

typedef char *(*verb_fn)(struct loop *l, char **w, int fd);

static char *do_stats(struct loop *l, char **w, int fd)
{
	const size_t len = stats_json(l->fabric, NULL, 0);
	char *s = malloc(len + 1);

	(void)w;
	(void)fd;
	if (s)
		stats_json(l->fabric, s, len + 1);
	return s;
}

static bool class_arg(const char *s, unsigned *classes)
{
	static const char *const names[NR_CLASSES] = { "send",   "write", "read",
						       "atomic", "mad",   "datagram" };

	for (unsigned i = 0; i < NR_CLASSES; i++) {
		if (strcmp(s, names[i]))
			continue;
		*classes = BIT(i);
		return true;
	}
	return false;
}

/* sl=N or qp=N, each at most once; a queue pair has a number at one LID only. */
static bool match_args(char **w, struct conn_match *m)
{
	uint64_t n;

	for (; *w; w++) {
		if (!strncmp(*w, "sl=", 3) && !m->by_sl && number(*w + 3, 15, &n)) {
			m->sl = (uint8_t)n;
			m->by_sl = true;
		} else if (!strncmp(*w, "qp=", 3) && !m->qpn && m->a &&
			   number(*w + 3, 0xffffff, &n) && n) {
			m->qpn = (uint32_t)n;
		} else {
			return false;
		}
	}
	return true;
}

static char *do_delay(struct loop *l, char **w, int fd)
{
	unsigned classes = CLS_RC;
	struct conn_match m = { 0 };
	uint64_t ms;

	(void)fd;
	if (w[1] && !strcmp(w[1], "off")) {
		inject_delay_off(l->fabric);
		return ok();
	}
	if (!w[1] || (strcmp(w[1], "all") && !lid_pair(w[1], &m.a, &m.b)) ||
	    !number(w[2], 3600000, &ms) ||
	    !match_args(w + 3 + (w[3] && class_arg(w[3], &classes)), &m))
		return bad("delay all|LID[-LID] MS [send|write|read|atomic|mad|datagram] "
			   "[sl=N] [qp=N], or delay off");
	inject_set_delay(l->fabric, &m, ms * NSEC_PER_MSEC, classes);
	return ok();
}

static char *do_hold(struct loop *l, char **w, int fd)
{
	struct conn_match m = { 0 };

	(void)fd;
	if (!lid_arg(w[1], &m.a) || !lid_arg(w[2], &m.b) || !match_args(w + 3, &m))
		return bad("hold LID LID [sl=N] [qp=N]");
	inject_hold(l->fabric, &m);
	return ok();
}

static char *do_release(struct loop *l, char **w, int fd)
{
	(void)w;
	(void)fd;
	return text("{\"ok\":true,\"released\":%u}", inject_release(l->fabric));
}

static char *do_break(struct loop *l, char **w, int fd)
{
	uint16_t a, b;
	uint64_t ms, seed = 0;

	(void)fd;
	if (w[1] && !strcmp(w[1], "random")) {
		if (w[2] && !strcmp(w[2], "off")) {
			inject_random(l->fabric, 0, 0);
			return ok();
		}
		if (!w[2] || strcmp(w[2], "every") || !number(w[3], 3600000, &ms) || ms == 0 ||
		    (w[4] && !number(w[4], UINT64_MAX, &seed)))
			return bad("break random every MS [SEED], or break random off");
		inject_random(l->fabric, ms * NSEC_PER_MSEC, seed);
		return ok();
	}
	if (!lid_arg(w[1], &a) || !lid_arg(w[2], &b))
		return bad("break LID LID");
	return text("{\"ok\":true,\"broken\":%u}", inject_break(l->fabric, a, b));
}

static char *do_link(struct loop *l, char **w, int fd)
{
	uint16_t lid;

	(void)fd;
	if (!lid_arg(w[1], &lid) || !w[2] || (strcmp(w[2], "up") && strcmp(w[2], "down")))
		return bad("link LID up|down");
	return inject_link(l->fabric, lid, !strcmp(w[2], "down")) ? ok() : bad("no such LID");
}

/* kill LID, revive LID: the port goes silent, and nobody is told. */
static char *do_kill(struct loop *l, char **w, int fd)
{
	const bool dead = !strcmp(w[0], "kill");
	uint16_t lid;

	(void)fd;
	if (!lid_arg(w[1], &lid) || w[2])
		return bad(dead ? "kill LID" : "revive LID");
	return fault_kill(l->fabric, lid, dead) ? ok() : bad("no such LID");
}

static char *do_catas(struct loop *l, char **w, int fd)
{
	uint64_t code = 1;
	uint16_t lid;

	(void)fd;
	if (!lid_arg(w[1], &lid) || (w[2] && (!number(w[2], UINT32_MAX, &code) || code == 0)))
		return bad("catas LID [CODE]");
	return fault_catastrophe(l->fabric, lid, (uint32_t)code) ? ok() : bad("no such LID");
}

static char *do_event(struct loop *l, char **w, int fd)
{
	uint64_t type, subtype = 0, object = 0;
	uint16_t lid;

	(void)fd;
	if (!lid_arg(w[1], &lid) || !number(w[2], 0xff, &type) ||
	    (w[3] && !number(w[3], 0xff, &subtype)) || (w[4] && !number(w[4], UINT32_MAX, &object)))
		return bad("event LID TYPE [SUBTYPE [NUMBER]]");
	return fault_event(l->fabric, lid, (uint8_t)type, (uint8_t)subtype, (uint32_t)object)
		       ? ok()
		       : bad("no such LID, or no event queue there");
}

static char *do_fail(struct loop *l, char **w, int fd)
{
	uint64_t op = FAULT_OP_ANY, status = FAULT_HANG, times = 1, skip = 0;
	uint16_t lid;

	(void)fd;
	if (w[1] && !strcmp(w[1], "off")) {
		fault_commands_off(l->fabric);
		return ok();
	}
	if (!lid_arg(w[1], &lid) || !w[2] || (strcmp(w[2], "any") && !number(w[2], 0xfff, &op)) ||
	    !w[3] || (strcmp(w[3], "hang") && (!number(w[3], 0xff, &status) || status == 0)) ||
	    (w[4] && (!number(w[4], UINT32_MAX, &times) || times == 0)) ||
	    (w[4] && w[5] && !number(w[5], UINT32_MAX, &skip)))
		return bad("fail LID OPCODE|any STATUS|hang [N [SKIP]], or fail off");
	return fault_command(l->fabric, lid, (uint16_t)op, (unsigned)status, times, skip)
		       ? ok()
		       : bad("no such LID");
}

static char *do_bandwidth(struct loop *l, char **w, int fd)
{
	uint64_t kib, burst = 64;
	uint16_t lid = 0;

	(void)fd;
	if (!w[1] || (strcmp(w[1], "all") && !lid_arg(w[1], &lid)) || !w[2])
		return bad("bandwidth all|LID KIB_PER_S [BURST_KIB], or bandwidth all|LID off");
	if (!strcmp(w[2], "off"))
		kib = 0;
	else if (!number(w[2], 1u << 30, &kib) || kib < 64 ||
		 (w[3] && (!number(w[3], 1u << 20, &burst) || burst < BURST_MIN / 1024)))
		return bad("bandwidth: at least 64 KiB/s, and a burst of 4 KiB to 1 GiB");
	return fault_bandwidth(l->fabric, lid, kib * 1024, burst * 1024) ? ok()
									 : bad("no such LID");
}

/* attach OPTIONS, with the device's socket as a descriptor by SCM_RIGHTS. */
static char *do_attach(struct loop *l, char **w, int fd)
{
	char opts[LINE_MAX_LEN];
	struct vm_options o;
	const char *why;

	if (fd < 0)
		return bad("attach needs a descriptor");
	snprintf(opts, sizeof(opts), "fd=%d%s%s", fd, w[1] ? "," : "", w[1] ? w[1] : "");
	if (!vm_options_parse(opts, &o, &why) || o.fd != fd || !vm_attach(l, &o, &why)) {
		close(fd);
		return bad(why);
	}
	return ok();
}

static char *do_quit(struct loop *l, char **w, int fd)
{
	(void)w;
	(void)fd;
	l->quit = true;
	return ok();
}

static char *do_lose(struct loop *l, char **w, int fd)
{
	uint64_t percent;
	uint16_t lid = 0;

	(void)fd;
	if (!w[1] || (strcmp(w[1], "all") && !lid_arg(w[1], &lid)) || !number(w[2], 100, &percent))
		return bad("lose all|LID PERCENT");
	return fault_loss(l->fabric, lid, (uint8_t)percent) ? ok() : bad("no such LID");
}

static char *do_error(struct loop *l, char **w, int fd)
{
	uint64_t syndrome, times = 1;
	uint16_t lid;

	(void)fd;
	if (!lid_arg(w[1], &lid) || !number(w[2], 0xff, &syndrome) || syndrome == 0 ||
	    (w[3] && !number(w[3], UINT32_MAX, &times)))
		return bad("error LID SYNDROME [N]");
	return fault_error(l->fabric, lid, (uint8_t)syndrome, (uint32_t)times) ? ok()
									       : bad("no such LID");
}

static char *do_duplicate(struct loop *l, char **w, int fd)
{
	unsigned classes = CLS_MAD | CLS_UD;
	uint64_t percent;
	uint16_t lid = 0;

	(void)fd;
	if (!w[1] || (strcmp(w[1], "all") && !lid_arg(w[1], &lid)) ||
	    !number(w[2], 100, &percent) ||
	    (w[3] && (!class_arg(w[3], &classes) || classes & CLS_RC)))
		return bad("duplicate all|LID PERCENT [mad|datagram]");
	return fault_duplicate(l->fabric, lid, (uint8_t)percent, classes) ? ok()
									  : bad("no such LID");
}

static char *do_overrun(struct loop *l, char **w, int fd)
{
	uint64_t times = 1;
	uint16_t lid;

	(void)fd;
	if (!lid_arg(w[1], &lid) || (w[2] && !number(w[2], UINT32_MAX, &times)))
		return bad("overrun LID [N]");
	return fault_overrun(l->fabric, lid, (uint32_t)times) ? ok() : bad("no such LID");
}

static const struct {
	const char *name;
	verb_fn fn;
} verbs[] = {
	{ "attach", do_attach },   { "bandwidth", do_bandwidth }, { "break", do_break },
	{ "catas", do_catas },     { "delay", do_delay },         { "duplicate", do_duplicate },
	{ "error", do_error },     { "event", do_event },         { "fail", do_fail },
	{ "hold", do_hold },       { "kill", do_kill },           { "link", do_link },
	{ "lose", do_lose },       { "overrun", do_overrun },     { "quit", do_quit },
	{ "release", do_release }, { "revive", do_kill },         { "stats", do_stats },
};

/* Run one command; *reply is allocated, and NULL only without memory. */
static void control_exec(struct loop *l, char *line, int fd, char **reply)
{
	char *w[MAX_WORDS + 1] = { NULL }, *save;
	size_t n = 0;

	l->fabric->now_ns = host_time_ns();
	for (char *s = strtok_r(line, " \t\r", &save); s && n < MAX_WORDS;
	     s = strtok_r(NULL, " \t\r", &save))
		w[n++] = s;
	*reply = NULL;
	for (size_t i = 0; w[0] && i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(w[0], verbs[i].name))
			continue;
		*reply = verbs[i].fn(l, w, fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	*reply = bad("unknown command");
}

static bool answer(struct client *c, char *line)
{
	char *reply;
	bool sent;

	control_exec(c->loop, line, c->fd, &reply);
	c->fd = -1;
	if (!reply)
		return false;
	/* One write each; the socket buffer takes far more than one answer. */
	sent = send(c->w.fd, reply, strlen(reply), MSG_NOSIGNAL) == (ssize_t)strlen(reply) &&
	       send(c->w.fd, "\n", 1, MSG_NOSIGNAL) == 1;
	free(reply);
	return sent;
}

static ssize_t client_receive(struct client *c)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { c->buf + c->have, sizeof(c->buf) - c->have };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	const ssize_t n = recvmsg(c->w.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
		if (c->fd >= 0)
			close(c->fd);
		memcpy(&c->fd, CMSG_DATA(h), sizeof(int));
	}
	return n;
}

static void client_ready(struct watch *w, uint32_t events)
{
	struct client *c = container_of(w, struct client, w);
	const ssize_t n = client_receive(c);
	char *end;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		loop_remove(c->loop, w);
		return;
	}
	c->have += (size_t)n;
	while ((end = memchr(c->buf, '\n', c->have))) {
		const size_t used = (size_t)(end - c->buf) + 1;

		*end = '\0';
		if (!answer(c, c->buf)) {
			loop_remove(c->loop, w);
			return;
		}
		c->have -= used;
		memmove(c->buf, c->buf + used, c->have);
	}
	if (c->have == sizeof(c->buf))
		loop_remove(c->loop, w); /* no command is that long */
}

static void client_release(struct watch *w)
{
	struct client *c = container_of(w, struct client, w);

	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

static void listener_ready(struct watch *w, uint32_t events)
{
	struct listener *ls = container_of(w, struct listener, w);
	const int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *c = fd >= 0 ? calloc(1, sizeof(*c)) : NULL;

	(void)events;
	if (!c) {
		if (fd >= 0)
			close(fd);
		return;
	}
	c->loop = ls->loop;
	c->fd = -1;
	c->w = (struct watch){ .fd = fd, .ready = client_ready, .release = client_release };
	if (!loop_add(ls->loop, &c->w, EPOLLIN)) {
		close(fd);
		free(c);
	}
}

static void listener_release(struct watch *w)
{
	free(container_of(w, struct listener, w));
}

/* The socket appears under its name when it listens, so whoever sees it can connect. */
bool control_listen(struct loop *l, const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct listener *ls = calloc(1, sizeof(*ls));
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (!ls || fd < 0)
		goto out;
	if (strlen(path) + sizeof(".new") > sizeof(sun.sun_path)) {
		errno = ENAMETOOLONG;
		goto out;
	}
	strcpy(ls->path, path);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s.new", path);
	unlink(sun.sun_path);
	(void)umask(077); /* the socket is its owner's */
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) || listen(fd, 8) ||
	    rename(sun.sun_path, path))
		goto out;
	ls->loop = l;
	ls->w = (struct watch){ .fd = fd, .ready = listener_ready, .release = listener_release };
	if (!loop_add(l, &ls->w, EPOLLIN))
		goto out;
	the_listener = ls;
	return true;
out:
	if (fd >= 0)
		close(fd);
	free(ls);
	return false;
}

/* Remove the socket's name; the process is about to end. */
void control_close(void)
{
	if (the_listener)
		unlink(the_listener->path);
}

static void scenario_fired(struct alarm *t)
{
	struct scenario *s = container_of(t, struct scenario, timer);
	struct event *e = &s->events[s->next++];
	char copy[LINE_MAX_LEN], *reply;

	memcpy(copy, e->line, sizeof(copy));
	control_exec(s->loop, copy, -1, &reply);
	if (!reply || strncmp(reply, "{\"ok\":true", 10))
		model_log("scenario: \"%s\" failed: %s", e->line, reply ? reply : "no memory");
	free(reply);
	if (s->next < s->nr)
		alarm_set(s->loop->fabric, t, s->start_ns + s->events[s->next].at_ns);
}

static bool scenario_line(struct scenario *s, const char *line)
{
	struct event *v;
	char *end;
	const uint64_t ms = strtoull(line, &end, 10);

	if (*line == '#' || *line == '\0')
		return true;
	if (end == line || *end != ' ' || strlen(end + 1) >= LINE_MAX_LEN)
		return false;
	if (s->nr && ms * NSEC_PER_MSEC < s->events[s->nr - 1].at_ns)
		return false; /* out of order */
	v = realloc(s->events, (s->nr + 1) * sizeof(*v));
	if (!v)
		return false;
	s->events = v;
	v[s->nr].at_ns = ms * NSEC_PER_MSEC;
	strcpy(v[s->nr++].line, end + 1);
	return true;
}

bool scenario_start(struct loop *l, const char *path)
{
	struct scenario *s = calloc(1, sizeof(*s));
	FILE *f = fopen(path, "re");
	char line[LINE_MAX_LEN + 32];
	bool good = s && f;
	unsigned nr = 0;

	while (good && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		nr++;
		good = scenario_line(s, line);
		if (!good)
			model_log("%s:%u: not \"<ms> <command>\" in order of time", path, nr);
	}
	if (!f)
		model_log("%s: %m", path);
	else
		fclose(f);
	if (!good) {
		if (s)
			free(s->events);
		free(s);
		return false;
	}
	s->loop = l;
	s->timer.fn = scenario_fired;
	s->start_ns = l->fabric->now_ns;
	if (s->nr)
		alarm_set(l->fabric, &s->timer, s->start_ns + s->events[0].at_ns);
	return true;
}
