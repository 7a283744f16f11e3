/* SPDX-License-Identifier: MIT */
/*
 * Pipes: a ring of pages between writers and readers.
 *
 * Invariants:	counted: every open end holds a reference, and so does the inode of a FIFO.
 * Context:	all may sleep, except pipe_poll().
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct file;
struct pipe;

#define PIPE_DEF_SLOTS 16u        /* pages of a new pipe */
#define PIPE_MAX_SIZE  (1u << 20) /* bytes that a user may ask for; root may ask for more */

/* For the inode of a FIFO: a pipe that no task has opened yet. ERR_PTR(-ENOMEM). */
struct pipe *pipe_create(void);
void pipe_put(struct pipe *p);

/*
 * open(2) of a FIFO: @f is a new file whose operations are fifo_ops or a copy of them; it takes a
 * reference of @p. Waits for the other side as POSIX says. -ERESTARTSYS, -ENXIO (O_WRONLY |
 * O_NONBLOCK without a reader), -ENFILE, -ENOMEM; after an error the caller drops @f, whose
 * release() is not to be called: it has no pipe yet.
 */
int fifo_open(struct file *f, struct pipe *p) __must_check;

/* The pipe behind @f, or NULL when it is none. */
struct pipe *pipe_of(const struct file *f);

/* F_GETPIPE_SZ and F_SETPIPE_SZ: bytes; -EINVAL, -EPERM, -EBUSY, -ENOMEM. */
long pipe_size(const struct pipe *p);
long pipe_set_size(struct pipe *p, uint64_t bytes);

/* Pages that pipes of the node may fill, for tests. */
uint64_t pipe_slots_charged(void);
