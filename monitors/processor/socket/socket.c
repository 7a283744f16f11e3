/* SPDX-License-Identifier: MIT */
/*
 * Sockets: families, life, listening, and the file.
 */
#include "socket.h"

#include <abi/ioctl.h>
#include <abi/poll.h>
#include <abi/signal.h>
#include <arch/uaccess.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <processor/account/account.h>
#include <processor/ipc/async.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

#include "ioctl_private.h"
#include "queue.h"
#include "scm.h"

#define DEF_BUF      212992u /* as wmem_default and rmem_default */
#define MAX_FAMILIES 64u

static const struct socket_family *families[MAX_FAMILIES]; /* atomic */
static uint64_t last_ino;                                  /* atomic */
static uint64_t nr_sockets;                                /* atomic */

static uint64_t gauge_sockets(void)
{
	return __atomic_load_n(&nr_sockets, __ATOMIC_RELAXED);
}
GAUGE(sockets_gauge, "socket.open", "sockets", gauge_sockets);

void socket_family_register(const struct socket_family *f)
{
	ASSERT(f->family < MAX_FAMILIES);
	__atomic_store_n(&families[f->family], f, __ATOMIC_RELEASE);
}

const struct socket_family *socket_family_find(uint32_t family)
{
	const struct socket_family *f =
		family < MAX_FAMILIES ? __atomic_load_n(&families[family], __ATOMIC_ACQUIRE) : NULL;

	return f ? f : ERR_PTR(-EAFNOSUPPORT);
}

/* --- life ---------------------------------------------------------------------------- */

struct socket_cred socket_cred_current(void)
{
	return (struct socket_cred){ .pid = process_current()->pid,
				     .uid = cred_current()->euid,
				     .gid = cred_current()->egid };
}

static void init_lists(struct socket *s)
{
	list_init(&s->queue);
	list_init(&s->held);
	list_init(&s->backlog);
	list_init(&s->accept_link);
	list_init(&s->walk_link);
	list_init(&s->senders);
	list_init(&s->sender_link);
	list_init(&s->packets);
	list_init(&s->embryos);
	waitqueue_init(&s->rd_wait);
	waitqueue_init(&s->wr_wait);
	waitqueue_init(&s->room_wait);
}

static struct socket *create(const struct socket_ops *ops, uint32_t family, uint32_t type,
			     uint32_t protocol, struct kmem_account *account,
			     const struct socket_cred *cred)
{
	struct socket *s = kmem_alloc(account, MAX(ops->size, sizeof(*s)));
	int err;

	if (!s)
		return ERR_PTR(-ENOMEM);
	refcount_set(&s->refs, 1);
	spin_lock_init(&s->lock, "socket", RANK_SPIN_SOCKET);
	mutex_init(&s->recv_lock, "socket receivers", RANK_PIPE);
	init_lists(s);
	s->ops = ops;
	s->family = (uint16_t)family;
	s->type = (uint16_t)type;
	s->protocol = protocol;
	s->ino = __atomic_add_fetch(&last_ino, 1, __ATOMIC_RELAXED);
	s->born_s = (int64_t)(time_real_ns() / NSEC_PER_SEC);
	s->cred = *cred;
	s->uid = s->cred.uid;
	s->gid = s->cred.gid;
	s->sndbuf = s->rcvbuf = DEF_BUF;
	s->rcvtimeo_ns = s->sndtimeo_ns = WAIT_FOREVER;
	s->rcvlowat = 1;
	s->peek_off = -1;
	err = ops->init ? ops->init(s) : 0;
	if (err) {
		kmem_free(s);
		return ERR_PTR(err);
	}
	__atomic_add_fetch(&nr_sockets, 1, __ATOMIC_RELAXED);
	return s;
}

struct socket *socket_create(const struct socket_ops *ops, uint32_t family, uint32_t type,
			     uint32_t protocol)
{
	const struct socket_cred cred = socket_cred_current();
	struct socket *s = create(ops, family, type, protocol, kmem_current(), &cred);

	if (!IS_ERR(s))
		socket_walk_enter(s);
	return s;
}

struct socket *socket_create_internal(const struct socket_ops *ops, uint32_t family, uint32_t type,
				      uint32_t protocol)
{
	const struct socket_cred cred = { 0 };

	return create(ops, family, type, protocol, NULL, &cred);
}

struct socket *socket_create_like(const struct socket *owner, const struct socket_ops *ops)
{
	struct socket *s = create(ops, owner->family, owner->type, owner->protocol,
				  kmem_account_of(owner), &owner->cred);

	if (!IS_ERR(s))
		socket_walk_enter(s);
	return s;
}

void socket_put(struct socket *s)
{
	if (!refcount_dec_and_test(&s->refs))
		return;
	ASSERT(list_empty(&s->queue) && list_empty(&s->backlog) && !s->peer);
	socket_walk_leave(s);
	if (s->ops->destroy)
		s->ops->destroy(s);
	kmem_free(s);
	__atomic_sub_fetch(&nr_sockets, 1, __ATOMIC_RELAXED);
}

void socket_drop(struct socket *s)
{
	s->ops->release(s);
	socket_put(s);
}

struct socket *socket_peer_get(struct socket *s)
{
	struct socket *peer;

	spin_lock(&s->lock);
	peer = s->peer;
	if (peer)
		socket_get(peer);
	spin_unlock(&s->lock);
	return peer;
}

int socket_take_error(struct socket *s)
{
	int err;

	if (!READ_ONCE(s->error))
		return 0;
	spin_lock(&s->lock);
	err = s->error;
	__atomic_store_n(&s->error, 0, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	return err;
}

void socket_wake(struct waitqueue *wq)
{
	if (waitqueue_active(wq))
		wake_all(wq);
}

void socket_shut(struct socket *s, uint32_t shut, int err)
{
	ASSERT(!(shut & ~SOCKET_SHUT_BOTH) && err >= 0);
	spin_lock(&s->lock);
	__atomic_store_n(&s->shut, s->shut | shut, __ATOMIC_RELEASE);
	if (err)
		__atomic_store_n(&s->error, err, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	socket_wake(&s->rd_wait);
	socket_wake(&s->wr_wait);
	socket_wake(&s->room_wait);
}

uint64_t socket_deadline(uint64_t timeo_ns, bool nonblock)
{
	if (nonblock)
		return 0;
	return timeo_ns == WAIT_FOREVER ? WAIT_FOREVER : time_after_ns(timeo_ns);
}

int socket_wait_error(int err, uint64_t timeo_ns)
{
	if (err == -ETIMEDOUT)
		return -EAGAIN;
	/* As Linux: a call with a timeout would begin anew with all of it. */
	return timeo_ns == WAIT_FOREVER ? -ERESTARTSYS : -EINTR;
}

/* --- listening ----------------------------------------------------------------------- */

int socket_backlog_add(struct socket *to, struct socket *s)
{
	int err = 0;

	scm_embryo(s, to);
	spin_lock(&to->lock);
	if (to->dead || to->state != SOCKET_LISTENING || (to->shut & SOCKET_SHUT_RD)) {
		err = -ECONNREFUSED;
	} else if (to->nr_backlog > to->max_backlog) {
		err = -EAGAIN;
	} else {
		s->unaccepted = true;
		list_add_tail(&s->accept_link, &to->backlog);
		__atomic_store_n(&to->nr_backlog, to->nr_backlog + 1, __ATOMIC_RELEASE);
	}
	spin_unlock(&to->lock);
	if (err)
		scm_embryo(s, NULL);
	else
		socket_wake(&to->rd_wait);
	return err;
}

/* The oldest of the backlog, or NULL. */
static struct socket *backlog_take(struct socket *s)
{
	struct socket *child;

	spin_lock(&s->lock);
	child = list_first_entry_or_null(&s->backlog, struct socket, accept_link);
	if (child) {
		list_del(&child->accept_link);
		list_init(&child->accept_link);
		__atomic_store_n(&s->nr_backlog, s->nr_backlog - 1, __ATOMIC_RELEASE);
	}
	spin_unlock(&s->lock);
	if (child) {
		scm_embryo(child, NULL);
		socket_wake(&s->room_wait);
	}
	return child;
}

static bool may_accept(const struct socket *s)
{
	return __atomic_load_n(&s->nr_backlog, __ATOMIC_ACQUIRE) ||
	       READ_ONCE(s->state) != SOCKET_LISTENING || (READ_ONCE(s->shut) & SOCKET_SHUT_RD);
}

struct socket *socket_accept(struct socket *s, bool nonblock)
{
	const uint64_t timeo = READ_ONCE(s->rcvtimeo_ns);
	const uint64_t deadline = socket_deadline(timeo, nonblock);

	for (;;) {
		struct socket *child;
		int err;

		if (READ_ONCE(s->state) != SOCKET_LISTENING)
			return ERR_PTR(-EINVAL);
		child = backlog_take(s);
		if (child) {
			child->unaccepted = false;
			return child;
		}
		if (READ_ONCE(s->shut) & SOCKET_SHUT_RD)
			return ERR_PTR(-EINVAL);
		if (nonblock)
			return ERR_PTR(-EAGAIN);
		err = wait_event_interruptible_timeout(&s->rd_wait, may_accept(s), deadline);
		if (err)
			return ERR_PTR(socket_wait_error(err, timeo));
	}
}

void socket_backlog_drop(struct socket *s)
{
	struct socket *child;

	while ((child = backlog_take(s)))
		socket_drop(child);
}

/* --- the file ------------------------------------------------------------------------ */

static ssize_t socket_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct socket *s = f->private;
	struct socket_msg m = { .uio = uio, .flags = file_nonblock(f) ? MSG_DONTWAIT : 0 };
	ssize_t ret;

	if (!uio->left)
		return 0;
	ret = s->ops->recvmsg ? s->ops->recvmsg(s, &m) : -EOPNOTSUPP;
	if (m.fds)
		scm_free(m.fds); /* nobody asked for them */
	return ret;
}

ssize_t socket_send(struct socket *s, struct socket_msg *m)
{
	ssize_t ret;

	if (!m->has_cred)
		m->cred = (struct socket_cred){ .pid = process_current()->pid,
						.uid = cred_current()->uid,
						.gid = cred_current()->gid };
	ret = s->ops->sendmsg ? s->ops->sendmsg(s, m) : -EOPNOTSUPP;
	if (ret == -EPIPE && s->type == SOCK_STREAM && !(m->flags & MSG_NOSIGNAL))
		signal_raise_sigpipe();
	return ret;
}

static ssize_t socket_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct socket_msg m = { .uio = uio, .flags = file_nonblock(f) ? MSG_DONTWAIT : 0 };

	return socket_send(f->private, &m);
}

static unsigned int socket_poll(struct file *f)
{
	struct socket *s = f->private;

	return s->ops->poll(s);
}

static struct waitqueue *socket_poll_wait(struct file *f)
{
	struct socket *s = f->private;

	return &s->rd_wait;
}

static struct waitqueue *socket_poll_wait_out(struct file *f)
{
	struct socket *s = f->private;

	return &s->wr_wait;
}

static bool socket_is_far(struct file *f)
{
	const struct socket *s = f->private;

	return READ_ONCE(s->ops)->poll_for_bytes;
}

static long socket_file_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	return socket_ioctl(f->private, cmd, arg);
}

static int socket_stat(struct file *f, struct file_attr *attr)
{
	const struct socket *s = f->private;

	*attr = (struct file_attr){ 0 };
	attr->file.ino = s->ino;
	attr->fsid = 8;
	attr->mode = 0140777;
	attr->nlink = 1;
	attr->blksize = PAGE_SIZE;
	attr->uid = s->uid;
	attr->gid = s->gid;
	attr->atime.sec = attr->mtime.sec = attr->ctime.sec = s->born_s;
	return 0;
}

static void socket_release(struct file *f)
{
	struct socket *s = f->private;

	if (!s)
		return; /* of a file that was not finished */

	/* For socket_signal_urgent(). */
	spin_lock(&s->lock);
	__atomic_store_n(&s->file, NULL, __ATOMIC_RELEASE);
	spin_unlock(&s->lock);
	socket_drop(s);
	scm_collect();
}

static const struct file_ops socket_file_ops = {
	.name = "socket",
	.magic = 0x534f434b,
	.read = socket_read,
	.write = socket_write,
	.stat = socket_stat,
	.ioctl = socket_file_ioctl,
	.poll = socket_poll,
	.poll_wait = socket_poll_wait,
	.poll_wait_out = socket_poll_wait_out,
	.is_far = socket_is_far,
	.async = true,
	.release = socket_release,
};

struct socket *socket_of(const struct file *f)
{
	return f->ops == &socket_file_ops ? f->private : NULL;
}

void socket_signal_urgent(struct socket *s)
{
	const struct linux_siginfo info = { .signo = SIGURG, .code = SI_KERNEL };
	struct file_owner owner;
	struct file *f;

	spin_lock(&s->lock); /* the file is there as long as the socket names it */
	f = s->file;
	if (f && !refcount_inc_not_zero(&f->refs))
		f = NULL;
	spin_unlock(&s->lock);
	if (!f)
		return;
	owner = async_owner(f);
	if (owner.nr)
		owner_signal(&owner, &info);
	file_put(f);
}

struct file *socket_file(struct socket *s, uint32_t flags)
{
	struct file *f = file_create(&socket_file_ops, O_RDWR | (flags & O_NONBLOCK), NULL);

	if (IS_ERR(f))
		return f;
	f->private = s;
	__atomic_store_n(&s->file, f, __ATOMIC_RELEASE);
	return f;
}
