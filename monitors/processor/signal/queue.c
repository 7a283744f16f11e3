/* SPDX-License-Identifier: MIT */
/*
 * Queues of pending signals.
 *
 * A queue is a set of numbers and a list of entries. A number without an entry is a signal of which
 * nothing is known but that it came: there was no memory, or its user had too many.
 * Limits:	as Linux: entries are charged to the receiver's user; a standard signal of the
 *		kernel or of kill() is queued above the limit too.
 */
#include "queue_private.h"

#include <kernel/counter.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <processor/account/account.h>

#define SYNCHRONOUS                                                                \
	(SIGMASK(SIGSEGV) | SIGMASK(SIGBUS) | SIGMASK(SIGILL) | SIGMASK(SIGTRAP) | \
	 SIGMASK(SIGFPE) | SIGMASK(SIGSYS))

/* --- accounts ------------------------------------------------------------------------- */

struct sig_account { /* exists while it has entries */
	struct list_head link;
	uint32_t uid;
	uint64_t nr;
};

#define ACCOUNT_BUCKETS 32

static struct {
	struct spinlock lock; /* RANK_SPIN_SIGHAND */
	bool ready;
	struct list_head buckets[ACCOUNT_BUCKETS];
} accounts = { .lock = SPINLOCK_INIT("signal.accounts", RANK_SPIN_SIGHAND) };

static uint64_t nr_entries; /* atomic */

static uint64_t gauge_entries(void)
{
	return __atomic_load_n(&nr_entries, __ATOMIC_RELAXED);
}
GAUGE(entries_gauge, "signal.queued", "signals queued, and entries of timers", gauge_entries);

static struct list_head *bucket_locked(uint32_t uid)
{
	assert_spin_held(&accounts.lock);
	if (!accounts.ready) {
		for (size_t i = 0; i < ACCOUNT_BUCKETS; i++)
			list_init(&accounts.buckets[i]);
		accounts.ready = true;
	}
	return &accounts.buckets[uid % ACCOUNT_BUCKETS];
}

static struct sig_account *find_locked(uint32_t uid)
{
	struct sig_account *a;

	assert_spin_held(&accounts.lock);
	list_for_each_entry(a, bucket_locked(uid), link) {
		if (a->uid == uid)
			return a;
	}
	return NULL;
}

static struct sig_account *charge_one(const struct sig_charge *charge, bool over_limit)
{
	struct sig_account *fresh = NULL, *a;

	spin_lock(&accounts.lock);
	a = find_locked(charge->uid);
	if (!over_limit && (a ? a->nr : 0) >= charge->limit)
		goto out;
	if (!a) {
		fresh = kzalloc(sizeof(*fresh)); /* never sleeps */
		if (!fresh)
			goto out;
		fresh->uid = charge->uid;
		list_add(&fresh->link, bucket_locked(charge->uid));
		a = fresh;
	}
	a->nr++;
	spin_unlock(&accounts.lock);
	return a;
out:
	spin_unlock(&accounts.lock);
	return NULL;
}

static void uncharge(struct sig_account *a)
{
	spin_lock(&accounts.lock);
	if (--a->nr == 0)
		list_del(&a->link);
	else
		a = NULL;
	spin_unlock(&accounts.lock);
	kfree(a);
}

uint64_t sig_account_count(uint32_t uid)
{
	const struct sig_account *a;
	uint64_t nr;

	spin_lock(&accounts.lock);
	a = find_locked(uid);
	nr = a ? a->nr : 0;
	spin_unlock(&accounts.lock);
	return nr;
}

/* --- entries -------------------------------------------------------------------------- */

struct sigentry *sigentry_alloc(const struct sig_charge *charge, bool over_limit)
{
	struct sigentry *e = kmem_alloc(charge->kmem, sizeof(*e));

	if (!e)
		return NULL;
	list_init(&e->link);
	e->account = charge_one(charge, over_limit);
	if (e->account) {
		__atomic_add_fetch(&nr_entries, 1, __ATOMIC_RELAXED);
		return e;
	}
	kmem_free(e);
	return NULL;
}

void sigentry_free(struct sigentry *e)
{
	uncharge(e->account);
	__atomic_sub_fetch(&nr_entries, 1, __ATOMIC_RELAXED);
	kmem_free(e);
}

/* --- queues --------------------------------------------------------------------------- */

void sigqueue_init(struct sigqueue *q)
{
	q->set = 0;
	list_init(&q->entries);
}

/* The kernel and kill() get through; what carries a value of the sender's does not have to. */
static bool may_exceed(const struct linux_siginfo *info)
{
	return info->signo < SIGRTMIN && info->code >= SI_USER;
}

int sigqueue_add(struct sigqueue *q, const struct linux_siginfo *info,
		 const struct sig_charge *charge)
{
	struct sigentry *e;

	if (info->signo < SIGRTMIN && (q->set & SIGMASK(info->signo)))
		return 0;
	e = sigentry_alloc(charge, may_exceed(info));
	if (!e && info->signo >= SIGRTMIN && info->code != SI_USER)
		return -EAGAIN;
	if (e) {
		e->info = *info;
		list_add_tail(&e->link, &q->entries);
	}
	q->set |= SIGMASK(info->signo);
	return 0;
}

void sigqueue_add_timer(struct sigqueue *q, struct sigentry *e)
{
	e->queue = q;
	list_add_tail(&e->link, &q->entries);
	q->set |= SIGMASK(e->info.signo);
}

void sigqueue_drop(struct sigqueue *q, uint64_t set)
{
	struct sigentry *e, *tmp;

	if (!(q->set & set))
		return;
	q->set &= ~set;
	list_for_each_entry_safe(e, tmp, &q->entries, link) {
		if (!(set & SIGMASK(e->info.signo)))
			continue;
		list_del(&e->link);
		if (e->timer)
			ptimer_dropped_locked(e->timer);
		else
			sigentry_free(e);
	}
}

bool signal_queue_peek(const struct sigqueue *q, uint64_t nr, struct linux_siginfo *info)
{
	const struct sigentry *e;

	list_for_each_entry(e, &q->entries, link) {
		if (nr-- == 0) {
			*info = e->info;
			return true;
		}
	}
	return false;
}

int sigqueue_first(const struct sigqueue *q, uint64_t set)
{
	set &= q->set;
	if (set & SYNCHRONOUS)
		set &= SYNCHRONOUS;
	return set ? __builtin_ctzll(set) + 1 : 0;
}

struct ptimer *sigqueue_take(struct sigqueue *q, int signo, struct linux_siginfo *info)
{
	struct sigentry *e, *found = NULL;
	struct ptimer *timer;
	bool more = false;

	list_for_each_entry(e, &q->entries, link) {
		if (e->info.signo != signo)
			continue;
		if (found) {
			more = true;
			break;
		}
		found = e;
	}
	if (!more)
		q->set &= ~SIGMASK(signo);
	if (!found) {
		*info = (struct linux_siginfo){ .signo = signo, .code = SI_USER };
		return NULL;
	}
	*info = found->info;
	timer = found->timer;
	list_del(&found->link);
	if (!timer)
		sigentry_free(found);
	return timer;
}

void sigqueue_remove_timer(struct sigentry *e)
{
	const struct sigentry *other;

	if (list_empty(&e->link))
		return;
	list_del(&e->link);
	list_for_each_entry(other, &e->queue->entries, link) {
		if (other->info.signo == e->info.signo)
			return;
	}
	e->queue->set &= ~SIGMASK(e->info.signo);
}
