/* SPDX-License-Identifier: MIT */
/*
 * Open files in messages: their references, and the collection of cycles.
 *
 * Flow:	a socket whose file is referenced only by sets on their way is a candidate. The
 *		collector marks every holder (a socket with sets in its queue) that is no candidate,
 *		then every socket in the sets of a marked one, and so on; the sets of holders that
 *		stay unmarked are dropped. A socket in a backlog has no file: it is marked with its
 *		listener.
 * Locking:	scm_lock (RANK_SPIN_SOCKET), taken without a socket's lock. While it is held no file
 *		gets on its way or off it. A candidate cannot cease to be one meanwhile: its only
 *		references lie in queues, and the receiver would have to take one out.
 * Failure:	putting a file may close a socket, whose queue has files, and so on: each thread has
 *		a list of the sets that it frees, and only the outermost call works it off.
 */
#include "scm.h"

#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>

/* A thread that frees sets. */
struct drain {
	struct list_head link; /* drain_lock */
	const struct thread *thread;
	struct list_head doomed; /* own thread */
};

static struct spinlock scm_lock = SPINLOCK_INIT("scm", RANK_SPIN_SOCKET);
static LIST_HEAD(holders);   /* scm_lock */
static uint64_t nr_inflight; /* scm_lock; read without it: files on their way */
static uint64_t nr_sockets;  /* the same: sockets among them */
static struct spinlock drain_lock = SPINLOCK_INIT("scm drain", RANK_SPIN_SOCKET);
static LIST_HEAD(drains); /* drain_lock */

uint64_t scm_inflight(void)
{
	return READ_ONCE(nr_inflight);
}

/* --- making and freeing -------------------------------------------------------------- */

static struct scm_fds *scm_alloc(uint32_t nr)
{
	struct scm_fds *fds = kmem_alloc(kmem_current(), sizeof(*fds) + nr * sizeof(fds->files[0]));

	if (!fds)
		return NULL;
	list_init(&fds->link);
	refcount_set(&fds->refs, 1);
	return fds;
}

int scm_create(const int *fds, uint32_t nr, struct scm_fds **out)
{
	struct scm_fds *set;

	*out = NULL;
	if (nr > LINUX_SCM_MAX_FD)
		return -EINVAL;
	if (READ_ONCE(nr_inflight) + nr > file_max() / 2)
		return -ETOOMANYREFS;
	set = scm_alloc(nr);
	if (!set)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr; i++) {
		struct file *f = fd_get(fds[i]);

		if (IS_ERR(f)) {
			scm_free(set);
			return PTR_ERR(f);
		}
		set->files[set->nr++] = f;
	}
	*out = set;
	return 0;
}

struct scm_fds *scm_copy(struct scm_fds *fds)
{
	struct scm_fds *copy = scm_alloc(LINUX_SCM_MAX_FD);

	if (!copy)
		return NULL;
	spin_lock(&scm_lock);
	for (uint32_t i = 0; i < fds->nr; i++) {
		file_get(fds->files[i]);
		copy->files[i] = fds->files[i];
	}
	copy->nr = fds->nr;
	spin_unlock(&scm_lock);
	return copy;
}

static struct drain *my_drain(void)
{
	struct drain *d, *mine = NULL;

	spin_lock(&drain_lock);
	list_for_each_entry(d, &drains, link) {
		if (d->thread == thread_current())
			mine = d;
	}
	spin_unlock(&drain_lock);
	return mine;
}

/* The files of one set are put; the set is freed with its last reference. */
static void set_end(struct scm_fds *fds)
{
	uint32_t nr;

	spin_lock(&scm_lock);
	nr = fds->nr;
	fds->nr = 0;
	spin_unlock(&scm_lock);
	for (uint32_t i = 0; i < nr; i++)
		file_put(fds->files[i]);
	if (refcount_dec_and_test(&fds->refs))
		kmem_free(fds);
}

/* End every set of @sets, whose "doomed" they are linked by; nested calls leave theirs to this. */
static void drain_sets(struct list_head *sets)
{
	struct drain own = { .thread = thread_current() }, *outer = my_drain();

	if (outer) {
		list_splice_tail(sets, &outer->doomed);
		return;
	}
	list_init(&own.doomed);
	list_splice_tail(sets, &own.doomed);
	spin_lock(&drain_lock);
	list_add(&own.link, &drains);
	spin_unlock(&drain_lock);
	while (!list_empty(&own.doomed)) {
		struct scm_fds *fds = list_first_entry(&own.doomed, struct scm_fds, doomed);

		list_del(&fds->doomed);
		set_end(fds);
	}
	spin_lock(&drain_lock);
	list_del(&own.link);
	spin_unlock(&drain_lock);
}

void scm_free(struct scm_fds *fds)
{
	LIST_HEAD(one);

	scm_dequeue(fds); /* the collector does not take it any more */
	if (fds->collected) {
		/* It may be in that one's list still: the close of a socket in it led here. */
		if (refcount_dec_and_test(&fds->refs))
			kmem_free(fds);
		return;
	}
	list_add_tail(&fds->doomed, &one);
	drain_sets(&one);
}

/* --- on their way -------------------------------------------------------------------- */

/* The files of a set come on their way (@by 1) or off it (-1). */
static void count_locked(const struct scm_fds *fds, int by)
{
	assert_spin_held(&scm_lock);
	WRITE_ONCE(nr_inflight, nr_inflight + (uint64_t)(int64_t)by * fds->nr);
	for (uint32_t i = 0; i < fds->nr; i++) {
		struct socket *s = socket_of(fds->files[i]);

		if (!s || s->family != AF_UNIX)
			continue;
		ASSERT(by > 0 || s->nr_inflight > 0);
		s->nr_inflight += (uint32_t)by;
		WRITE_ONCE(nr_sockets, nr_sockets + (uint64_t)(int64_t)by);
	}
}

void scm_enqueue(struct scm_fds *fds, struct socket *to)
{
	spin_lock(&scm_lock);
	ASSERT(list_empty(&fds->link));
	if (list_empty(&to->packets))
		list_add_tail(&to->holder_link, &holders);
	list_add_tail(&fds->link, &to->packets);
	fds->to = to;
	count_locked(fds, 1);
	spin_unlock(&scm_lock);
}

static void dequeue_locked(struct scm_fds *fds)
{
	assert_spin_held(&scm_lock);
	if (list_empty(&fds->link))
		return;
	list_del(&fds->link);
	list_init(&fds->link);
	count_locked(fds, -1);
	if (list_empty(&fds->to->packets))
		list_del(&fds->to->holder_link);
	fds->to = NULL;
}

void scm_dequeue(struct scm_fds *fds)
{
	spin_lock(&scm_lock);
	dequeue_locked(fds);
	spin_unlock(&scm_lock);
}

void scm_embryo(struct socket *s, struct socket *listener)
{
	spin_lock(&scm_lock);
	if (s->listener)
		list_del(&s->embryo_link);
	s->listener = listener;
	if (listener)
		list_add_tail(&s->embryo_link, &listener->embryos);
	spin_unlock(&scm_lock);
}

/* --- collecting ---------------------------------------------------------------------- */

/* Do only sets on their way hold the file of @s? */
static bool is_candidate(const struct socket *s)
{
	const struct file *f = READ_ONCE(s->file);

	return s->nr_inflight && f && (uint32_t)refcount_read(&f->refs) == s->nr_inflight;
}

static void mark_locked(struct socket *s, struct list_head *todo)
{
	assert_spin_held(&scm_lock);
	if (s->marked)
		return;
	s->marked = true;
	list_add_tail(&s->mark_link, todo);
}

/* Mark what is to be reached from @s: the sockets in its sets, and those of its backlog. */
static void mark_children_locked(const struct socket *s, struct list_head *todo)
{
	const struct scm_fds *fds;
	struct socket *child;

	assert_spin_held(&scm_lock);
	list_for_each_entry(fds, &s->packets, link) {
		for (uint32_t i = 0; i < fds->nr; i++) {
			child = socket_of(fds->files[i]);
			if (child && child->family == AF_UNIX)
				mark_locked(child, todo);
		}
	}
	list_for_each_entry(child, &s->embryos, embryo_link)
		mark_locked(child, todo);
}

static void unmark_all_locked(void)
{
	struct scm_fds *fds;
	struct socket *s;

	assert_spin_held(&scm_lock);
	list_for_each_entry(s, &holders, holder_link) {
		s->marked = false;
		if (s->listener)
			s->listener->marked = false;
		list_for_each_entry(fds, &s->packets, link) {
			for (uint32_t i = 0; i < fds->nr; i++) {
				struct socket *child = socket_of(fds->files[i]);

				if (child)
					child->marked = false;
			}
		}
	}
}

static void mark_all_locked(void)
{
	struct list_head todo;
	struct socket *s;

	assert_spin_held(&scm_lock);
	list_init(&todo);
	unmark_all_locked();
	list_for_each_entry(s, &holders, holder_link) {
		if (!is_candidate(s->listener ? s->listener : s))
			mark_locked(s, &todo);
	}
	while (!list_empty(&todo)) {
		s = list_first_entry(&todo, struct socket, mark_link);
		list_del(&s->mark_link);
		mark_children_locked(s, &todo);
	}
}

void scm_collect(void)
{
	struct scm_fds *fds, *next_fds;
	struct socket *s, *next;
	LIST_HEAD(doomed);

	if (!READ_ONCE(nr_sockets))
		return;
	spin_lock(&scm_lock);
	mark_all_locked();
	list_for_each_entry_safe(s, next, &holders, holder_link) {
		if (s->marked)
			continue;
		list_for_each_entry_safe(fds, next_fds, &s->packets, link) {
			refcount_inc(&fds->refs);
			dequeue_locked(fds);
			fds->collected = true;
			list_add_tail(&fds->doomed, &doomed);
		}
	}
	spin_unlock(&scm_lock);
	drain_sets(&doomed);
}
