/* SPDX-License-Identifier: MIT */
/*
 * Between mqueue.c (messages and waits), mqueue_notify.c and mqueue_calls.c (names and files).
 *
 * Invariants:	a queue is counted by its name and its open files. It has no messages as long as
 *		receivers wait, and is full as long as senders wait.
 * Locking:	mqueue.lock (RANK_MONITOR) guards messages, waiting threads and the notification. It
 *		is held over no access to user memory, no signal and no put of a file.
 */
#pragma once

#include <abi/mqueue.h>
#include <abi/signal.h>
#include <kernel/mutex.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/list.h>
#include <lib/rbtree.h>

#include "mqueue.h"

struct file;
struct ipc_ns;
struct mq_user;
struct sock_msg;

struct mq_msg {
	struct rb_node node; /* mqueue.lock */
	uint64_t seq;        /* the same: of its coming */
	uint32_t prio;       /* const, as the rest */
	uint32_t len;
	uint8_t data[];
};

/* mq_notify(): to whom, and how. */
struct mq_notify {
	uint32_t pid;      /* 0: nobody */
	uint64_t start_ns; /* of the process: its number may be used again */
	int kind;          /* SIGEV_* */
	int signo;
	uint64_t value;
	struct file *socket;     /* SIGEV_THREAD: counted */
	struct sock_msg *cookie; /* and what is to be sent there */
};

struct mqueue {
	refcount_t refs;
	/* mqueue_calls.c's names: */
	struct rb_node by_name;
	char *name; /* const */
	bool unlinked;
	struct ipc_ns *ns;    /* const, held: where its name is, or was */
	struct mq_user *user; /* const, as the next ones */
	uint64_t charged;
	uint64_t ino;
	uint32_t uid, gid, mode;
	uint32_t max_msg, msg_size;

	struct mutex lock; /* RANK_MONITOR */
	struct rb_root messages __guarded_by(&lock);
	uint64_t seq __guarded_by(&lock);
	uint64_t bytes __guarded_by(&lock);
	uint32_t nr __guarded_by(&lock); /* read without it by poll */
	struct list_head senders __guarded_by(&lock), receivers __guarded_by(&lock);
	struct mq_notify notify __guarded_by(&lock);
	struct waitqueue changed; /* for poll */
};

/* --- mqueue.c */
void mqueue_init(struct mqueue *q);
/* All that is still in it. */
void mqueue_empty(struct mqueue *q);
/*
 * Send @m, which is the queue's or a receiver's after 0. @deadline is monotonic. -EAGAIN (only
 * @nonblock), -ETIMEDOUT, -ERESTARTSYS.
 */
int mqueue_send(struct mqueue *q, struct mq_msg *m, bool nonblock, uint64_t deadline) __must_check;
/* Of the oldest of the highest priority; the caller's to kmem_free(). ERR_PTR of the same. */
struct mq_msg *mqueue_receive(struct mqueue *q, bool nonblock, uint64_t deadline);

/* --- mqueue_notify.c */
/* Take the notification: the caller sends it when the lock is dropped. */
struct mq_notify mq_notify_take_locked(struct mqueue *q) __must_hold(&q->lock);
/* It is due (a message has come), or was taken back. Frees what it has; no lock held. */
void mq_notify_send(struct mq_notify *n);
void mq_notify_removed(struct mq_notify *n);
/* The calling process closes a descriptor of @q: its notification is over. */
void mq_notify_closed(struct mqueue *q);

/* --- mqueue_calls.c */
/* The queue of descriptor @fd, whose file is the caller's to put. ERR_PTR(-EBADF). */
struct mqueue *mqueue_of_fd(int fd, struct file **f);
