/* SPDX-License-Identifier: MIT */
/*
 * epoll: instances that keep watching files, and a list of those that may be ready.
 *
 * Flow:	a file's wake-up puts the item on the ready list and wakes one waiting thread. That
 *		thread takes items off the list, asks each file, reports what is there, and puts
 *		level-triggered items back. An item is off the list while its file is asked, so an
 *		edge in between puts it on again: none is lost. An instance that is watched by
 *		another wakes its own queue from a thread, because it cannot do so inside another
 *		queue's lock.
 * Locking:	tree_lock (RANK_MONITOR) is held where items come and go (add, delete, the end of a
 *		file or an instance) and while add looks for loops. ep.lock (RANK_EPOLL,
 *		interrupts off, taken inside a wait queue's lock) guards the tree, the ready list,
 *		the waiters, and events and refs of items. No lock is held while a file is asked or
 *		user memory is written.
 * Invariants:	an item does not count its file: file_put() calls epoll_file_gone() before the file
 *		goes. An item in use is counted, and its file is counted with it.
 */
#include "epoll_private.h"

#include <arch/uaccess.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/rbtree.h>
#include <mm/frame.h>
#include <net/rpc.h>
#include <processor/account/account.h>
#include <processor/process/process.h>

#include "poll.h"

#define MAX_NESTING 4u
#define ITEMS_SHARE 25u /* of the node's memory may be items */

struct epoll {
	struct spinlock lock; /* RANK_EPOLL */
	struct rb_root items __guarded_by(&lock);
	struct list_head ready __guarded_by(&lock);
	struct list_head waiters __guarded_by(&lock);
	uint64_t pass __guarded_by(&lock); /* of those who take from the ready list */
	struct waitqueue poll_wq;          /* those who watch this instance */
	struct file *file;                 /* const; not counted */
	struct rpc_spin spin;              /* how long a waiter waits for messages of other nodes */
	bool far;                          /* such a message has been what one waited for; atomic */
	refcount_t refs;                   /* the file, and the list of nested ones */
	struct list_head nested_link;      /* nested_lock */
	unsigned int depth;                /* tree_lock: found by the look for loops ... */
	uint64_t depth_of;                 /* tree_lock: ... with this number */
};

struct epitem {
	struct rb_node node;         /* ep.lock: by file and descriptor */
	struct list_head ready_link; /* ep.lock */
	struct hlist_node file_link; /* tree_lock */
	struct epoll *ep;            /* const */
	struct file *file;           /* const */
	int fd;                      /* const */
	uint32_t events;             /* ep.lock: what is wanted, and EPOLL_* flags */
	uint64_t data;               /* ep.lock */
	uint32_t refs;               /* ep.lock */
	bool dead;                   /* ep.lock */
	uint64_t pass;               /* ep.lock: when it was reported last */
	struct process *owner; /* const: counted; whose queue is watched, if it is a process's */
	struct file_watch watch;
};

struct ep_waiter {
	struct list_head link; /* ep.lock */
	struct thread *thread;
};

static struct mutex tree_lock = MUTEX_INIT(tree_lock, "epoll.tree", RANK_MONITOR);

static uint64_t gauge_items(void)
{
	return kmem_count(KMEM_EPOLL_ITEMS);
}
GAUGE(items_gauge, "epoll.items", "files that epoll instances watch", gauge_items);

static unsigned long lock(struct epoll *ep) __acquires(&ep->lock)
{
	return spin_lock_irqsave(&ep->lock);
}

static void unlock(struct epoll *ep, unsigned long flags) __releases(&ep->lock)
{
	spin_unlock_irqrestore(&ep->lock, flags);
}

static void epoll_put(struct epoll *ep)
{
	if (refcount_dec_and_test(&ep->refs))
		kmem_free(ep);
}

/* --- instances that are watched themselves ------------------------------------------- */

static struct spinlock nested_lock = SPINLOCK_INIT("epoll.nested", RANK_LEAF);
static LIST_HEAD(nested);            /* nested_lock: whose poll_wq is to be woken; counted */
static struct thread *nested_thread; /* const once set */

static struct epoll *next_nested(void)
{
	const unsigned long flags = spin_lock_irqsave(&nested_lock);
	struct epoll *ep = list_first_entry_or_null(&nested, struct epoll, nested_link);

	if (ep)
		list_del(&ep->nested_link);
	spin_unlock_irqrestore(&nested_lock, flags);
	return ep;
}

static void nested_main(void *arg)
{
	for (;;) {
		struct epoll *ep;

		thread_prepare_sleep();
		ep = next_nested();
		if (!ep) {
			schedule();
			continue;
		}
		thread_cancel_sleep();
		wake_all(&ep->poll_wq);
		epoll_put(ep);
	}
}

static int start_nested(void)
{
	struct thread *t;

	ASSERT_BEFORE(monitor); /* where programs start */
	t = thread_create("epoll", nested_main, NULL);
	if (IS_ERR(t))
		return PTR_ERR(t);
	nested_thread = t;
	thread_detach(t);
	return 0;
}
INITCALL(core, start_nested);

/* Those who watch @ep are told, soon. Any context. */
static void tell_outer(struct epoll *ep)
{
	unsigned long flags;
	bool added;

	if (!waitqueue_active(&ep->poll_wq))
		return;
	flags = spin_lock_irqsave(&nested_lock);
	added = list_empty(&ep->nested_link);
	if (added) {
		refcount_inc(&ep->refs);
		list_add_tail(&ep->nested_link, &nested);
	}
	spin_unlock_irqrestore(&nested_lock, flags);
	if (added)
		(void)thread_wake(nested_thread);
}

/* --- the ready list ------------------------------------------------------------------ */

static bool wake_waiter_locked(struct epoll *ep)
{
	struct ep_waiter *w;

	assert_spin_held(&ep->lock);
	w = list_first_entry_or_null(&ep->waiters, struct ep_waiter, link);
	if (!w)
		return false;
	list_del(&w->link);
	(void)thread_wake(w->thread);
	return true;
}

/* Once reported, a one-shot item wants nothing. */
static bool wants_locked(const struct epitem *item)
{
	assert_spin_held(&item->ep->lock);
	return item->events & ~EPOLL_FLAGS;
}

static bool make_ready_locked(struct epitem *item, bool first)
{
	struct epoll *ep = item->ep;

	assert_spin_held(&ep->lock);
	if (item->dead || !wants_locked(item))
		return false;
	if (list_empty(&item->ready_link)) {
		if (first)
			list_add(&item->ready_link, &ep->ready);
		else
			list_add_tail(&item->ready_link, &ep->ready);
	}
	return wake_waiter_locked(ep);
}

static bool notify(struct epitem *item)
{
	struct epoll *ep = item->ep;
	const unsigned long flags = lock(ep);
	const bool taken = make_ready_locked(item, false);

	unlock(ep, flags);
	tell_outer(ep);
	return taken;
}

static bool notify_in(struct watcher *w)
{
	return notify(container_of(w, struct epitem, watch.in));
}

static bool notify_out(struct watcher *w)
{
	struct epitem *item = container_of(w, struct epitem, watch.out);

	/* The file has a queue for output alone: hang-ups are told on the other one too. */
	if (item->watch.in_wq && !(READ_ONCE(item->events) & POLL_EVENTS_OUT))
		return false;
	return notify(item);
}

/* --- items in use -------------------------------------------------------------------- */

struct picked { /* an item in use, and what was wanted when it was picked */
	struct epitem *item;
	uint32_t events;
	uint64_t data;
	uint64_t pass;
};

static void item_put_locked(struct epitem *item)
{
	assert_spin_held(&item->ep->lock);
	ASSERT(item->refs > 0);
	if (--item->refs)
		return;
	ASSERT(list_empty(&item->ready_link));
	kmem_give(kmem_account_of(item), KMEM_EPOLL_ITEMS, 1);
	kmem_free(item);
}

static void unpick(struct picked *p)
{
	struct epoll *ep = p->item->ep;
	struct file *f = p->item->file;
	const unsigned long flags = lock(ep);

	item_put_locked(p->item);
	unlock(ep, flags);
	file_put(f); /* may be the last: no lock is held */
}

/* The first item of the ready list, taken off it, in use; false: there is none. */
static bool pick(struct epoll *ep, struct picked *p)
{
	const unsigned long flags = lock(ep);
	struct epitem *item;

	while ((item = list_first_entry_or_null(&ep->ready, struct epitem, ready_link))) {
		list_del(&item->ready_link);
		if (refcount_inc_not_zero(&item->file->refs))
			break; /* else the file is on its way out, and takes the item with it */
	}
	if (item) {
		item->refs++;
		*p = (struct picked){ item, item->events, item->data, item->pass };
	}
	unlock(ep, flags);
	return item;
}

static unsigned int ask(const struct picked *p)
{
	return file_poll(p->item->file) & p->events & ~EPOLL_FLAGS;
}

static void put_back(struct picked *p, bool first)
{
	struct epoll *ep = p->item->ep;
	const unsigned long flags = lock(ep);

	(void)make_ready_locked(p->item, first);
	unlock(ep, flags);
}

/* --- waiting ------------------------------------------------------------------------- */

/*
 * Reported in @pass: level-triggered items come back behind the others, one-shot items want nothing
 * any more.
 */
static void reported(struct picked *p, uint64_t pass)
{
	struct epitem *item = p->item;
	struct epoll *ep = item->ep;
	const unsigned long flags = lock(ep);

	item->pass = pass;
	if (p->events & EPOLLONESHOT)
		item->events &= EPOLL_FLAGS;
	else if (!(p->events & EPOLLET) && !item->dead && list_empty(&item->ready_link))
		list_add_tail(&item->ready_link, &ep->ready);
	unlock(ep, flags);
}

static bool is_far(struct file *f)
{
	return f->ops->is_far && f->ops->is_far(f);
}

/* Write the events that are ready now: how many, or -EFAULT. */
static long harvest(struct epoll *ep, uint64_t events, int max)
{
	unsigned long flags = lock(ep);
	const uint64_t pass = ++ep->pass;
	bool far = false;
	struct picked p;
	long done = 0;

	unlock(ep, flags);
	while (done < max && pick(ep, &p)) {
		/*
		 * From here on the list has only what was reported by this pass, or a later one,
		 * already.
		 */
		const bool again = p.pass >= pass;
		const struct linux_epoll_event ev = { again ? 0 : ask(&p), p.data };
		int err = 0;

		if (again)
			put_back(&p, true);
		else if (ev.events)
			err = copy_to_user((void __user *)(events + (uint64_t)done * sizeof(ev)),
					   &ev, sizeof(ev));
		if (err)
			put_back(&p, true);
		else if (ev.events)
			reported(&p, pass);
		far = far || (ev.events && is_far(p.item->file));
		unpick(&p);
		if (err)
			return done ? done : err;
		if (again)
			break;
		done += ev.events != 0;
	}
	if (!done)
		return 0;
	WRITE_ONCE(ep->far, far);
	/* Wake the next waiter for the items that are left. */
	flags = lock(ep);
	if (!list_empty(&ep->ready))
		(void)wake_waiter_locked(ep);
	unlock(ep, flags);
	return done;
}

/* Until there may be something: 0, -EINTR, -ETIMEDOUT. */
static int sleep(struct epoll *ep, uint64_t deadline)
{
	struct ep_waiter me = { .thread = thread_current() };
	struct waiter w = { .thread = me.thread };
	unsigned long flags = lock(ep);
	int err = 0;

	list_init(&me.link);
	if (list_empty(&ep->ready)) {
		list_add(&me.link, &ep->waiters); /* the last one is the warmest */
		thread_prepare_sleep();
		unlock(ep, flags);
		err = wait_sleep(&w, WAIT_INTERRUPTIBLE, deadline);
		flags = lock(ep);
		thread_cancel_sleep();
	}
	/* A wake-up that comes with a signal or the deadline is for another one. */
	if (err && list_empty(&me.link) && !list_empty(&ep->ready))
		(void)wake_waiter_locked(ep);
	list_del(&me.link);
	unlock(ep, flags);
	return err;
}

struct far_wait {
	struct epoll *ep;
	uint64_t deadline;
};

static bool need_not_sleep(void *arg)
{
	const struct far_wait *w = arg;
	const unsigned long flags = lock(w->ep);
	const bool ready = !list_empty(&w->ep->ready);

	unlock(w->ep, flags);
	return ready || (w->deadline != WAIT_FOREVER && time_now_ns() >= w->deadline);
}

/* As sleep(), but what another node sends is looked for first, as by poll(). */
static int sleep_far(struct epoll *ep, uint64_t deadline)
{
	const uint64_t start = time_now_ns();
	struct far_wait w = { ep, deadline };
	int err;

	(void)rpc_poll_until(&ep->spin, need_not_sleep, &w);
	err = sleep(ep, deadline);
	if (!err || err == -ETIMEDOUT)
		rpc_spin_waited(&ep->spin, time_now_ns() - start);
	return err;
}

long epoll_wait_events(struct epoll *ep, uint64_t events, int max, uint64_t deadline)
{
	long ret = harvest(ep, events, max);
	int err = 0;

	while (!ret && !err && deadline) {
		err = READ_ONCE(ep->far) ? sleep_far(ep, deadline) : sleep(ep, deadline);
		ret = harvest(ep, events, max);
	}
	return ret || err == -ETIMEDOUT ? ret : err;
}

/* --- the instance as a file ---------------------------------------------------------- */

static unsigned int epoll_poll(struct file *f)
{
	struct epoll *ep = f->private;
	struct picked p;

	while (pick(ep, &p)) {
		const bool ready = ask(&p);

		if (ready)
			put_back(&p, true);
		unpick(&p);
		if (ready)
			return POLLIN | POLLRDNORM;
	}
	return 0;
}

static struct waitqueue *epoll_poll_wait(struct file *f)
{
	return &((struct epoll *)f->private)->poll_wq;
}

/* tree_lock is held. */
static void remove_item(struct epitem *item)
{
	struct epoll *ep = item->ep;
	struct process *owner = item->owner;
	unsigned long flags;

	file_watch_end(&item->watch);
	hlist_del(&item->file_link);
	flags = lock(ep);
	item->dead = true;
	list_del(&item->ready_link);
	rb_erase(&item->node, &ep->items);
	item_put_locked(item);
	unlock(ep, flags);
	if (owner)
		process_put(owner);
}

static void epoll_release(struct file *f)
{
	struct epoll *ep = f->private;
	struct rb_node *node;

	mutex_lock(&tree_lock);
	while ((node = READ_ONCE(ep->items.node)))
		remove_item(rb_entry(node, struct epitem, node));
	mutex_unlock(&tree_lock);
	epoll_put(ep);
}

static const struct file_ops epoll_ops = {
	.name = "[eventpoll]",
	.stat = anon_stat,
	.poll = epoll_poll,
	.poll_wait = epoll_poll_wait,
	.release = epoll_release,
};

void epoll_file_gone(struct file *f)
{
	struct epitem *item;

	mutex_lock(&tree_lock);
	while ((item = hlist_entry_or_null(f->epitems.first, struct epitem, file_link)))
		remove_item(item);
	mutex_unlock(&tree_lock);
}

struct epoll *epoll_of(const struct file *f)
{
	return f->ops == &epoll_ops ? f->private : NULL;
}

struct file *epoll_file_create(void)
{
	struct epoll *ep = kmem_alloc(kmem_current(), sizeof(*ep));
	struct file *f;

	if (!ep)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&ep->lock, "epoll", RANK_EPOLL);
	list_init(&ep->ready);
	list_init(&ep->waiters);
	list_init(&ep->nested_link);
	waitqueue_init(&ep->poll_wq);
	refcount_set(&ep->refs, 1);
	f = file_create(&epoll_ops, O_RDWR, NULL);
	if (IS_ERR(f)) {
		kmem_free(ep);
		return f;
	}
	f->private = ep;
	ep->file = f;
	return f;
}

/* --- loops --------------------------------------------------------------------------- */

static uint64_t walk_number; /* tree_lock */

/*
 * How many instances lie below @ep, one in the other; more than MAX_NESTING when @other is one of
 * them.
 */
static unsigned int depth_below(struct epoll *ep, const struct epoll *other, unsigned int level)
{
	unsigned int depth = 0;
	struct epitem *item;

	if (ep == other || level > MAX_NESTING)
		return MAX_NESTING + 1;
	if (ep->depth_of == walk_number)
		return ep->depth;
	/* Items come and go under tree_lock only. */
	rb_for_each_entry(item, &ep->items, node) {
		struct epoll *inner = epoll_of(item->file);

		if (inner)
			depth = MAX(depth, 1 + depth_below(inner, other, level + 1));
	}
	ep->depth = depth;
	ep->depth_of = walk_number;
	return depth;
}

static unsigned int depth_above(struct epoll *ep, unsigned int level)
{
	unsigned int depth = 0;
	struct epitem *item;

	if (level > MAX_NESTING)
		return MAX_NESTING + 1;
	if (ep->depth_of == walk_number)
		return ep->depth;
	hlist_for_each_entry(item, &ep->file->epitems, file_link)
		depth = MAX(depth, 1 + depth_above(item->ep, level + 1));
	ep->depth = depth;
	ep->depth_of = walk_number;
	return depth;
}

static int check_nesting(struct epoll *ep, const struct file *f)
{
	struct epoll *inner = epoll_of(f);
	unsigned int depth;

	if (!inner)
		return 0;
	walk_number++;
	depth = 1 + depth_below(inner, ep, 0);
	walk_number++;
	if (depth <= MAX_NESTING)
		depth += depth_above(ep, 0);
	return depth > MAX_NESTING ? -ELOOP : 0;
}

/* --- control ------------------------------------------------------------------------- */

static int compare(const struct rb_node *na, const struct rb_node *nb)
{
	const struct epitem *a = rb_entry(na, struct epitem, node);
	const struct epitem *b = rb_entry(nb, struct epitem, node);

	if (a->file != b->file)
		return (uintptr_t)a->file < (uintptr_t)b->file ? -1 : 1;
	return (a->fd > b->fd) - (a->fd < b->fd);
}

/* ep.lock or tree_lock is held: the tree changes under both. */
static struct epitem *find_item(const struct epoll *ep, const struct file *f, int fd)
{
	struct rb_node *node = READ_ONCE(ep->items.node);

	while (node) {
		struct epitem *item = rb_entry(node, struct epitem, node);

		if (item->file == f && item->fd == fd)
			return item;
		if (item->file == f)
			node = fd < item->fd ? node->left : node->right;
		else
			node = (uintptr_t)f < (uintptr_t)item->file ? node->left : node->right;
	}
	return NULL;
}

/* It may be ready already. */
static void look_first(struct epitem *item, struct file *f, uint32_t events)
{
	struct epoll *ep = item->ep;
	const bool ready = file_poll(f) & events & ~EPOLL_FLAGS;
	const unsigned long flags = lock(ep);

	if (ready)
		(void)make_ready_locked(item, false);
	item_put_locked(item);
	unlock(ep, flags);
	if (ready)
		tell_outer(ep);
}

static struct epitem *item_create(struct epoll *ep, struct file *f, int fd,
				  const struct linux_epoll_event *ev)
{
	const uint64_t max = frames_total_count() * PAGE_SIZE / ITEMS_SHARE / sizeof(struct epitem);
	struct epitem *item;

	if (!kmem_take(kmem_current(), KMEM_EPOLL_ITEMS, 1, max))
		return ERR_PTR(-ENOSPC);
	item = kmem_alloc(kmem_current(), sizeof(*item));
	if (!item) {
		kmem_give(kmem_current(), KMEM_EPOLL_ITEMS, 1);
		return ERR_PTR(-ENOMEM);
	}
	list_init(&item->ready_link);
	item->ep = ep;
	item->file = f;
	item->fd = fd;
	item->events = ev->events | POLLERR | POLLHUP;
	item->data = ev->data;
	item->refs = 2; /* the tree's and the caller's */
	return item;
}

int epoll_add(struct epoll *ep, struct file *f, int fd, const struct linux_epoll_event *ev)
{
	struct epitem *item = item_create(ep, f, fd, ev);
	struct rb_node *found;
	unsigned long flags;
	int err;

	if (IS_ERR(item))
		return PTR_ERR(item);
	mutex_lock(&tree_lock);
	flags = lock(ep);
	found = rb_insert(&item->node, &ep->items, compare);
	unlock(ep, flags);
	err = found ? -EEXIST : check_nesting(ep, f);
	if (found)
		item->refs = 1;
	if (!err) {
		hlist_add_head(&item->file_link, &f->epitems);
		if (f->ops->poll_by_process) {
			item->owner = process_current();
			process_get(item->owner);
		}
		file_watch_begin(&item->watch, f, ~0u, ev->events & EPOLLEXCLUSIVE, notify_in,
				 notify_out);
	} else if (!found) {
		flags = lock(ep);
		item->dead = true;
		list_del(&item->ready_link);
		rb_erase(&item->node, &ep->items);
		item_put_locked(item);
		unlock(ep, flags);
	}
	mutex_unlock(&tree_lock);
	look_first(item, f, err ? 0 : item->events);
	return err;
}

int epoll_modify(struct epoll *ep, struct file *f, int fd, const struct linux_epoll_event *ev)
{
	const uint32_t events = ev->events | POLLERR | POLLHUP;
	const unsigned long flags = lock(ep);
	struct epitem *item = find_item(ep, f, fd);
	const int err = !item ? -ENOENT : (item->events & EPOLLEXCLUSIVE) ? -EINVAL : 0;

	if (!err) {
		item->events = events;
		item->data = ev->data;
		item->refs++;
	}
	unlock(ep, flags);
	if (!err)
		look_first(item, f, events);
	return err;
}

int epoll_delete(struct epoll *ep, struct file *f, int fd)
{
	struct epitem *item;

	mutex_lock(&tree_lock);
	item = find_item(ep, f, fd);
	if (item)
		remove_item(item);
	mutex_unlock(&tree_lock);
	return item ? 0 : -ENOENT;
}
