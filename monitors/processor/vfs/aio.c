/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous I/O: io_setup, io_submit, io_getevents and their kin.
 *
 * Flow:	io_submit() does the work of each request before it returns, as Linux does for
 *		everything that goes through its page cache, and keeps the result as an event until
 *		io_getevents() takes it.
 * Invariants:	contexts belong to an address space, and go with it. A context's number is the
 *		address of a page of its own there: the C libraries of AIO look there for Linux's
 *		ring of events, find none (zeroes), and make the call.
 * Locking:	aio_lock (RANK_MONITOR) guards spaces, contexts and events; no thread holds it over
 *		I/O, a wait or an access to user memory.
 * Limits:	nothing is ever there to be cancelled: io_cancel() answers EINVAL, as for a request
 *		that is over. IOCB_CMD_POLL answers EINVAL, as before Linux 4.18. Requests are
 *		charged to the program: EAGAIN.
 */
#include "aio.h"

#include <abi/aio.h>
#include <arch/cpu.h>
#include <arch/uaccess.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/list.h>
#include <processor/account/account.h>
#include <processor/ipc/eventfd.h>
#include <processor/ipc/pipe.h>
#include <processor/mm/aspace.h>
#include <processor/mm/remote.h>
#include <processor/process/process.h>
#include <processor/process/timespec.h>
#include <processor/signal/signal.h>
#include <processor/syscall/syscall.h>

#include "file.h"
#include "uio.h"

#define AIO_MAX_NR    65536 /* as Linux */
#define CONTEXT_MAX   (0x10000000u / sizeof(struct linux_io_event) / 2)
#define SLOTS_PER_CPU 4u /* a context has so many in any case, as Linux's */
#define RW_HARMLESS   (RWF_HIPRI | RWF_DSYNC | RWF_SYNC)

struct aio_event {
	struct list_head link;
	struct linux_io_event user;
};

struct aio_context {
	struct list_head link; /* aio_space.contexts */
	uint64_t id;           /* const */
	uint32_t given;        /* const: of aio_max_nr */
	uint32_t slots;        /* const: requests and events at a time */
	uint32_t used;
	uint32_t users;     /* calls, and its place on the list */
	bool dead;          /* io_destroy(); read without the lock */
	uint32_t nr_events; /* the same */
	uint64_t wake_seq;  /* the same: grows with each event */
	struct list_head events;
	struct waitqueue wq;
};

struct aio_space {
	struct aspace_guest guest;
	struct list_head contexts;
};

uint64_t aio_max_nr = AIO_MAX_NR;
static uint64_t given; /* aio_lock; read without it */
static struct mutex aio_lock = MUTEX_INIT(aio_lock, "aio", RANK_MONITOR);

uint64_t aio_nr(void)
{
	return READ_ONCE(given);
}

/* --- contexts ------------------------------------------------------------------------ */

static void context_put(struct aio_context *c)
{
	struct aio_event *e, *next;

	assert_mutex_held(&aio_lock);
	ASSERT(c->users);
	if (--c->users)
		return;
	list_for_each_entry_safe(e, next, &c->events, link)
		kmem_free(e);
	WRITE_ONCE(given, given - c->given);
	kmem_free(c);
}

/* No call finds it any more; those that wait there end. */
static void context_end(struct aio_context *c)
{
	assert_mutex_held(&aio_lock);
	list_del(&c->link);
	WRITE_ONCE(c->dead, true);
	wake_all(&c->wq);
	context_put(c);
}

static void space_ends(struct aspace_guest *guest)
{
	struct aio_space *s = container_of(guest, struct aio_space, guest);
	struct aio_context *c, *next;

	mutex_lock(&aio_lock);
	list_for_each_entry_safe(c, next, &s->contexts, link)
		context_end(c);
	mutex_unlock(&aio_lock);
	kmem_free(s);
}

/* Of the calling task. NULL: it has none, and @make is false or there is no memory. */
static struct aio_space *space_get(bool make)
{
	struct aspace *as = aspace_current();
	struct aio_space *s;

	assert_mutex_held(&aio_lock);
	if (as->guest)
		return container_of(as->guest, struct aio_space, guest);
	s = make ? kmem_alloc(kmem_current(), sizeof(*s)) : NULL;
	if (s) {
		s->guest.space_ends = space_ends;
		list_init(&s->contexts);
		as->guest = &s->guest;
	}
	return s;
}

static struct aio_context *find(uint64_t id)
{
	struct aio_space *s = space_get(false);
	struct aio_context *c;

	assert_mutex_held(&aio_lock);
	if (!s)
		return NULL;
	list_for_each_entry(c, &s->contexts, link) {
		if (c->id == id)
			return c;
	}
	return NULL;
}

/* Referenced. ERR_PTR(-EINVAL) */
static struct aio_context *context_get(uint64_t id)
{
	struct aio_context *c;

	mutex_lock(&aio_lock);
	c = find(id);
	if (c)
		c->users++;
	mutex_unlock(&aio_lock);
	return c ? c : ERR_PTR(-EINVAL);
}

static void context_return(struct aio_context *c)
{
	mutex_lock(&aio_lock);
	context_put(c);
	mutex_unlock(&aio_lock);
}

static int enter(uint64_t id, uint32_t nr)
{
	struct aio_space *s;
	struct aio_context *c;
	int err = -ENOMEM;

	mutex_lock(&aio_lock);
	s = space_get(true);
	c = s ? find(id) : NULL;
	if (c)
		context_end(c); /* the program has unmapped its page */
	c = s ? kmem_alloc(kmem_current(), sizeof(*c)) : NULL;
	if (c && given + nr > READ_ONCE(aio_max_nr)) {
		kmem_free(c);
		err = -EAGAIN;
	} else if (c) {
		c->id = id;
		c->given = nr;
		c->slots = 2 * MAX(nr, cpu_online_count() * SLOTS_PER_CPU);
		c->users = 1;
		list_init(&c->events);
		waitqueue_init(&c->wq);
		list_add(&c->link, &s->contexts);
		WRITE_ONCE(given, given + nr);
		err = 0;
	}
	mutex_unlock(&aio_lock);
	return err;
}

static int unmap_page(uint64_t addr)
{
	struct aspace *as = aspace_current();
	int err = mutex_lock_killable(&as->map_lock);

	if (err)
		return err;
	err = aspace_unmap(as, addr, PAGE_SIZE);
	mutex_unlock(&as->map_lock);
	return err;
}

/* io_setup(nr, context) */
long sys_io_setup(const struct syscall_args *args)
{
	struct map_request req = { .len = PAGE_SIZE, .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	const uint32_t nr = (uint32_t)args->a[0];
	uint64_t id;
	long ret;

	if (get_user_u64(&id, (const void __user *)args->a[1]))
		return -EFAULT;
	if (id || !nr || nr > CONTEXT_MAX)
		return -EINVAL;
	if (nr > READ_ONCE(aio_max_nr))
		return -EAGAIN;
	ret = aspace_map(aspace_current(), &req);
	if (ret < 0)
		return ret;
	id = (uint64_t)ret;
	ret = enter(id, nr);
	if (!ret && put_user_u64(id, (void __user *)args->a[1])) {
		struct aio_context *c;

		mutex_lock(&aio_lock);
		c = find(id);
		if (c) /* another thread may have guessed its number and ended it */
			context_end(c);
		mutex_unlock(&aio_lock);
		ret = -EFAULT;
	}
	if (ret && unmap_page(id) == -EINTR)
		ret = -EINTR; /* it is to be killed, and its space with it */
	return ret;
}

/* io_destroy(context) */
long sys_io_destroy(const struct syscall_args *args)
{
	struct aio_context *c;

	mutex_lock(&aio_lock);
	c = find(args->a[0]);
	if (c)
		context_end(c);
	mutex_unlock(&aio_lock);
	if (!c)
		return -EINVAL;
	/* The program may have unmapped it. */
	return unmap_page(args->a[0]) == -EINTR ? -EINTR : 0;
}

/* --- requests ------------------------------------------------------------------------ */

/* A place for the event of a request; NULL: the context is full, or there is no memory. */
static struct aio_event *slot_take(struct aio_context *c)
{
	struct aio_event *e = kmem_alloc(kmem_current(), sizeof(*e));
	bool room;

	if (!e)
		return NULL;
	mutex_lock(&aio_lock);
	room = c->used < c->slots;
	c->used += room;
	mutex_unlock(&aio_lock);
	if (room)
		return e;
	kmem_free(e);
	return NULL;
}

static void slot_give(struct aio_context *c, struct aio_event *e)
{
	mutex_lock(&aio_lock);
	c->used--;
	mutex_unlock(&aio_lock);
	kmem_free(e);
}

static void completed(struct aio_context *c, struct aio_event *e, long res)
{
	/* A call that a signal ended is not made again: its request is over. */
	if (res == -ERESTARTSYS || res == -ERESTARTNOHAND || res == -ERESTARTNOINTR ||
	    res == -ERESTART_RESTARTBLOCK)
		res = -EINTR;
	e->user.res = res;
	mutex_lock(&aio_lock);
	list_add_tail(&e->link, &c->events);
	WRITE_ONCE(c->nr_events, c->nr_events + 1);
	WRITE_ONCE(c->wake_seq, c->wake_seq + 1);
	wake_all(&c->wq);
	mutex_unlock(&aio_lock);
}

static int check_rw(const struct file *f, const struct linux_iocb *cb)
{
	if (cb->rw_flags & ~(uint32_t)(RW_HARMLESS | RWF_NOWAIT))
		return -EOPNOTSUPP;
	/* Others would have to know whether they are about to wait. */
	if ((cb->rw_flags & RWF_NOWAIT) && !pipe_of(f))
		return -EOPNOTSUPP;
	return 0;
}

/* 0: *@res is what the request came to; else it has not been made. */
static int do_rw(struct file *f, const struct linux_iocb *cb, bool write, bool vectors, long *res)
{
	struct uio uio;
	int err = check_rw(f, cb);

	if (err)
		return err;
	if (write ? !file_writable(f) : !file_readable(f))
		return -EBADF;
	if (write ? !f->ops->write : !f->ops->read)
		return -EINVAL;
	err = vectors ? uio_iovec(&uio, cb->buf, cb->nbytes) : uio_user(&uio, cb->buf, cb->nbytes);
	if (err)
		return err;
	uio.nowait = cb->rw_flags & RWF_NOWAIT;
	if (cb->offset < 0 && f->ops->seekable)
		err = -EINVAL;
	else
		*res = file_io(f, &uio, write, cb->offset);
	if (vectors)
		uio_done(&uio);
	return err;
}

static int do_sync(struct file *f, const struct linux_iocb *cb, bool datasync, long *res)
{
	if (cb->buf || cb->offset || cb->nbytes || cb->rw_flags || !f->ops->fsync)
		return -EINVAL;
	*res = f->ops->fsync(f, datasync);
	return 0;
}

static int do_request(struct file *f, const struct linux_iocb *cb, long *res)
{
	switch (cb->opcode) {
	case LINUX_IOCB_PREAD:
	case LINUX_IOCB_PREADV:
		return do_rw(f, cb, false, cb->opcode == LINUX_IOCB_PREADV, res);
	case LINUX_IOCB_PWRITE:
	case LINUX_IOCB_PWRITEV:
		return do_rw(f, cb, true, cb->opcode == LINUX_IOCB_PWRITEV, res);
	case LINUX_IOCB_FSYNC:
	case LINUX_IOCB_FDSYNC:
		return do_sync(f, cb, cb->opcode == LINUX_IOCB_FDSYNC, res);
	default:
		return -EINVAL;
	}
}

/* The file to signal, or NULL. ERR_PTR(-EBADF, -EINVAL) */
static struct file *get_resfd(const struct linux_iocb *cb)
{
	struct file *f;

	if (!(cb->flags & IOCB_FLAG_RESFD))
		return NULL;
	f = fd_get((int)cb->resfd);
	if (IS_ERR(f) || is_eventfd(f))
		return f;
	file_put(f);
	return ERR_PTR(-EINVAL);
}

static int submit_checked(struct aio_context *c, uint64_t ucb, const struct linux_iocb *cb,
			  struct aio_event *e)
{
	struct file *f = fd_get((int)cb->fd), *told;
	long res = 0;
	int err;

	if (IS_ERR(f))
		return PTR_ERR(f);
	told = get_resfd(cb);
	err = IS_ERR(told) ? (int)PTR_ERR(told) : 0;
	if (!err && put_user_u32(0, (void __user *)(ucb + offsetof(struct linux_iocb, key))))
		err = -EFAULT;
	if (!err)
		err = (f->flags & O_PATH) ? -EBADF : do_request(f, cb, &res);
	if (!err) {
		e->user.data = cb->data;
		e->user.obj = ucb;
		completed(c, e, res);
		if (told)
			eventfd_signal(told);
	}
	if (told && !IS_ERR(told))
		file_put(told);
	file_put(f);
	return err;
}

static int submit_one(struct aio_context *c, uint64_t ucb)
{
	struct linux_iocb cb;
	struct aio_event *e;
	int err;

	if (copy_from_user(&cb, (const void __user *)ucb, sizeof(cb)))
		return -EFAULT;
	if (cb.reserved2 || (int64_t)cb.nbytes < 0)
		return -EINVAL;
	e = slot_take(c);
	if (!e)
		return -EAGAIN;
	err = submit_checked(c, ucb, &cb, e);
	if (err)
		slot_give(c, e);
	return err;
}

/* io_submit(context, nr, requests) */
long sys_io_submit(const struct syscall_args *args)
{
	const int64_t nr = (int64_t)args->a[1];
	struct aio_context *c;
	int64_t done = 0;
	uint64_t ucb;
	int err = 0;

	if (nr < 0)
		return -EINVAL;
	c = context_get(args->a[0]);
	if (IS_ERR(c))
		return PTR_ERR(c);
	while (!err && done < MIN(nr, (int64_t)c->slots)) {
		if (get_user_u64(&ucb, (const void __user *)(args->a[2] + (uint64_t)done * 8)))
			err = -EFAULT;
		else
			err = submit_one(c, ucb);
		done += !err;
	}
	context_return(c);
	return done ? done : err;
}

/* io_cancel(context, request, event) */
long sys_io_cancel(const struct syscall_args *args)
{
	uint32_t key;

	if (get_user_u32(&key,
			 (const void __user *)(args->a[1] + offsetof(struct linux_iocb, key))))
		return -EFAULT;
	return -EINVAL; /* there is no such context, or the request is over */
}

/* --- events -------------------------------------------------------------------------- */

static struct aio_event *event_pop(struct aio_context *c)
{
	struct aio_event *e;

	mutex_lock(&aio_lock);
	e = list_first_entry_or_null(&c->events, struct aio_event, link);
	if (e) {
		list_del(&e->link);
		WRITE_ONCE(c->nr_events, c->nr_events - 1);
	}
	mutex_unlock(&aio_lock);
	return e;
}

/* Another thread may have found none meanwhile, and sleeps. */
static void event_back(struct aio_context *c, struct aio_event *e)
{
	mutex_lock(&aio_lock);
	list_add(&e->link, &c->events);
	WRITE_ONCE(c->nr_events, c->nr_events + 1);
	WRITE_ONCE(c->wake_seq, c->wake_seq + 1);
	wake_all(&c->wq);
	mutex_unlock(&aio_lock);
}

/* Up to @nr of those that are there: how many, or -EFAULT. */
static long take_events(struct aio_context *c, int64_t nr, uint64_t uevents)
{
	struct aio_event *e;
	int64_t n = 0;

	for (; n < nr && (e = event_pop(c)); n++) {
		if (copy_to_user((void __user *)(uevents + (uint64_t)n * sizeof(e->user)), &e->user,
				 sizeof(e->user))) {
			event_back(c, e);
			return n ? n : -EFAULT;
		}
		slot_give(c, e);
	}
	return n;
}

static long read_events(struct aio_context *c, int64_t min, int64_t nr, uint64_t uevents,
			uint64_t deadline)
{
	int64_t done = 0;
	uint64_t seen;
	long n;
	int err;

	for (;;) {
		seen = READ_ONCE(c->wake_seq);
		n = take_events(c, nr - done,
				uevents + (uint64_t)done * sizeof(struct linux_io_event));
		if (n < 0)
			return done ? done : n;
		done += n;
		if (done >= min)
			return done;
		if (READ_ONCE(c->dead))
			return done ? done : -EINVAL;
		err = wait_event_interruptible_timeout(
			&c->wq, READ_ONCE(c->wake_seq) != seen || READ_ONCE(c->dead), deadline);
		if (err)
			return done || err == -ETIMEDOUT ? done : -EINTR;
	}
}

/* A relative time, which may be any sum of seconds and nanoseconds, as on Linux. */
static int get_deadline(uint64_t uts, uint64_t *deadline)
{
	int64_t ts[2], ns;

	*deadline = WAIT_FOREVER;
	if (!uts)
		return 0;
	if (copy_from_user(ts, (const void __user *)uts, sizeof(ts)))
		return -EFAULT;
	if (__builtin_mul_overflow(ts[0], (int64_t)1000000000, &ns) ||
	    __builtin_add_overflow(ns, ts[1], &ns))
		ns = ts[0] < 0 ? 0 : INT64_MAX;
	*deadline = time_now_ns() + MIN((uint64_t)MAX(ns, (int64_t)0), TIMESPEC_MAX_NS);
	return 0;
}

static long get_events(const struct syscall_args *args)
{
	const int64_t min = (int64_t)args->a[1], nr = (int64_t)args->a[2];
	uint64_t deadline;
	struct aio_context *c;
	long ret = get_deadline(args->a[4], &deadline);

	if (ret)
		return ret;
	c = context_get(args->a[0]);
	if (IS_ERR(c))
		return PTR_ERR(c);
	if (min < 0 || min > nr)
		ret = -EINVAL;
	else
		ret = read_events(c, min, nr, args->a[3], deadline);
	context_return(c);
	return ret;
}

/* io_getevents(context, min, nr, events, timeout) */
long sys_io_getevents(const struct syscall_args *args)
{
	return get_events(args);
}

/* io_pgetevents(context, min, nr, events, timeout, mask) */
long sys_io_pgetevents(const struct syscall_args *args)
{
	struct {
		uint64_t mask, size;
	} sig = { 0, 0 };
	long ret;

	if (args->a[5] && copy_from_user(&sig, (const void __user *)args->a[5], sizeof(sig)))
		return -EFAULT;
	ret = signal_mask_begin_user(sig.mask, sig.size);
	if (ret)
		return ret;
	ret = get_events(args);
	return sig.mask ? signal_mask_end(ret) : ret;
}
