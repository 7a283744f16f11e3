/* SPDX-License-Identifier: MIT */
/*
 * Open files that travel in messages (SCM_RIGHTS).
 *
 * Invariants:	a set holds a reference of each of its files. While it lies in a queue it is
 *		"on its way" and known here, between scm_enqueue() and scm_dequeue().
 * Context:	no lock held, but for scm_enqueue() and scm_dequeue(), which take one of
 *		RANK_SPIN_SOCKET and are called without any other.
 */
#pragma once

#include "socket.h"

struct scm_fds {
	struct list_head link;   /* scm lock: in the receiver's list; empty: not on its way */
	struct socket *to;       /* scm lock: not counted */
	uint32_t nr;             /* scm lock */
	refcount_t refs;         /* the message, and the collector */
	bool collected;          /* scm lock; const off its way: the collector puts the files */
	struct list_head doomed; /* the collector's thread, or else the freeing one */
	struct file *files[];
};

/* The calling task's files behind @fds. -EBADF, -EINVAL, -ENOMEM, -ETOOMANYREFS. */
int scm_create(const int *fds, uint32_t nr, struct scm_fds **out) __must_check;
/* A second set of the same files, for MSG_PEEK; NULL: no memory. */
struct scm_fds *scm_copy(struct scm_fds *fds);
/* Puts the files: those that are closed with it are closed by a loop. */
void scm_free(struct scm_fds *fds);

/* Before it is queued at @to, and after it has left the queue. */
void scm_enqueue(struct scm_fds *fds, struct socket *to);
void scm_dequeue(struct scm_fds *fds);

/* @s waits in @listener's backlog from now on (NULL: it has been accepted). */
void scm_embryo(struct socket *s, struct socket *listener);
/* Drop what only cycles of sockets on their way keep alive. */
void scm_collect(void);
/* Files on their way, for tests. */
uint64_t scm_inflight(void);
