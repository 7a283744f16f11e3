/* SPDX-License-Identifier: MIT */
/*
 * The ring of a pipe, between pipe.c (reading, writing, life) and splice.c.
 */
#pragma once

#include <kernel/mutex.h>
#include <kernel/wait.h>
#include <lib/atomic.h>

#include "pipe.h"

struct pipe_user;
struct uio;

#define MAX_SPARES 2u

struct pipe_slot {
	uint8_t *page;
	uint32_t off;
	uint32_t len;
	bool packet; /* O_DIRECT: one read takes at most this, and all of it */
};

struct pipe {
	struct mutex lock; /* RANK_PIPE */
	refcount_t refs;
	struct pipe_slot *slots __guarded_by(&lock);
	uint32_t nr_slots;           /* lock; power of two; 0: a FIFO that is not open */
	uint32_t head, tail;         /* lock */
	uint32_t reserved;           /* grows under lock: free slots that splices will fill */
	uint32_t readers, writers;   /* lock: open ends */
	uint32_t r_opened, w_opened; /* lock: ends ever opened, for those who wait for one */
	uint32_t r_closed, w_closed; /* atomic: of readers and writers, not counted out yet */
	uint8_t *spares[MAX_SPARES] __guarded_by(&lock);
	unsigned int nr_spares __guarded_by(&lock);
	uint32_t nr_pages __guarded_by(&lock);      /* in slots and spares */
	uint32_t charged_pages __guarded_by(&lock); /* to the account of slots; not fewer */
	struct waitqueue rd_wait;                   /* readers: data, or no writer */
	struct waitqueue wr_wait;                   /* writers: room, or no reader */
	struct pipe_user *user __guarded_by(&lock); /* charged for nr_slots */
	struct mutex splice_lock;                   /* RANK_SPLICE: one splice out at a time */
	/*
	 * Bytes that a splice could not give to a file, read before the ring; the page stays once
	 * it is there, and back_len (lock; read without it) is back.len.
	 */
	struct pipe_slot back __guarded_by(&lock);
	uint32_t back_len;
	uint64_t ino;      /* const */
	uint32_t uid, gid; /* const */
	int64_t born_s;    /* const */
};

static inline bool pipe_empty(const struct pipe *p)
{
	return __atomic_load_n(&p->head, __ATOMIC_ACQUIRE) ==
		       __atomic_load_n(&p->tail, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&p->back_len, __ATOMIC_ACQUIRE);
}

static inline bool pipe_full(const struct pipe *p)
{
	return __atomic_load_n(&p->head, __ATOMIC_ACQUIRE) -
		       __atomic_load_n(&p->tail, __ATOMIC_ACQUIRE) +
		       __atomic_load_n(&p->reserved, __ATOMIC_ACQUIRE) >=
	       __atomic_load_n(&p->nr_slots, __ATOMIC_ACQUIRE);
}

static inline bool pipe_may_read(const struct pipe *p)
{
	return !pipe_empty(p) || !__atomic_load_n(&p->writers, __ATOMIC_ACQUIRE);
}

static inline bool pipe_may_write(const struct pipe *p)
{
	return !pipe_full(p) || !__atomic_load_n(&p->readers, __ATOMIC_ACQUIRE);
}

static inline struct pipe_slot *pipe_slot_at(const struct pipe *p, uint32_t count)
	__must_hold(&p->lock)
{
	return &p->slots[count & (p->nr_slots - 1)];
}

static inline void pipe_wake(struct waitqueue *wq)
{
	if (waitqueue_active(wq))
		wake_one(wq);
}

/* Take and leave the ring.  -EINTR: killed. */
int pipe_lock(struct pipe *p) __acquires_if_0(&p->lock) __must_check;
void pipe_unlock(struct pipe *p) __releases(&p->lock);

/* A page for a slot, charged to the ring's program; NULL: no memory. */
uint8_t *pipe_page_get(struct pipe *p) __must_hold(&p->lock);
/* @page, with @len bytes, is the newest slot; there is room. */
void pipe_push(struct pipe *p, uint8_t *page, uint32_t len) __must_hold(&p->lock);
/*
 * read() of a pipe: waits unless @nonblock. At most one packet.
 */
ssize_t pipe_take(struct pipe *p, struct uio *uio, bool nonblock);
