/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the event loop.
 *
 * A watch that goes away is freed only after the batch of events in hand, for
 * one of those may still name it.
 */
#include "loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BATCH 32

bool loop_init(struct loop *l, struct fabric *f)
{
	memset(l, 0, sizeof(*l));
	l->fabric = f;
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	return l->epfd >= 0;
}

bool loop_add(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };

	return epoll_ctl(l->epfd, EPOLL_CTL_ADD, w->fd, &e) == 0;
}

void loop_change(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };

	(void)epoll_ctl(l->epfd, EPOLL_CTL_MOD, w->fd, &e);
}

/* Close the descriptor; the owner is released when the batch is over. */
void loop_remove(struct loop *l, struct watch *w)
{
	if (w->dead)
		return;
	if (w->fd >= 0) {
		(void)epoll_ctl(l->epfd, EPOLL_CTL_DEL, w->fd, NULL);
		close(w->fd);
	}
	w->fd = -1;
	w->dead = true;
	w->next_dead = l->dead;
	l->dead = w;
}

static void bury(struct loop *l)
{
	while (l->dead) {
		struct watch *w = l->dead;

		l->dead = w->next_dead;
		w->release(w);
	}
}

/* How long may we sleep?  NULL = until something comes. */
static struct timespec *timeout(const struct loop *l, bool spinning, struct timespec *ts)
{
	const uint64_t due = fabric_deadline(l->fabric);
	uint64_t now, ns = 0;

	if (!fabric_busy(l->fabric) && !spinning) {
		if (due == UINT64_MAX)
			return NULL;
		now = host_time_ns();
		ns = due > now ? due - now : 0;
	}
	ts->tv_sec = (time_t)(ns / NSEC_PER_SEC);
	ts->tv_nsec = (long)(ns % NSEC_PER_SEC);
	return ts;
}

/* One batch of events and what follows from it.  False: the loop is broken. */
static bool loop_turn(struct loop *l, struct timespec *wait, uint64_t *busy_until)
{
	struct epoll_event ev[BATCH];
	const int n = epoll_pwait2(l->epfd, ev, BATCH, wait, NULL);

	if (n < 0 && errno != EINTR) {
		model_log("epoll: %m");
		return false;
	}
	if (n > 0 && l->spin_ns)
		*busy_until = host_time_ns() + l->spin_ns;
	for (int i = 0; i < n; i++) {
		struct watch *w = ev[i].data.ptr;

		if (!w->dead)
			w->ready(w, ev[i].events);
	}
	fabric_run(l->fabric);
	bury(l);
	return true;
}

void loop_run(struct loop *l)
{
	uint64_t busy_until = 0;

	while (!l->quit) {
		const bool spinning = l->spin_ns && host_time_ns() < busy_until;
		struct timespec ts;

		if (!loop_turn(l, timeout(l, spinning, &ts), &busy_until))
			return;
	}
}

/* Handle what is there, without waiting. */
void loop_poll(struct loop *l)
{
	struct timespec none = { 0 };
	uint64_t busy_until = 0;

	(void)loop_turn(l, &none, &busy_until);
}
