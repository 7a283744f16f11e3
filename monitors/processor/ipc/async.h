/* SPDX-License-Identifier: MIT */
/*
 * Signals about files (O_ASYNC): the owner of an open file hears when the file may have become
 * readable or writable.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <processor/process/owner.h>

struct file;

/*
 * Descriptor @fd of @f is to tell its owner (@on), or no more. A kind of file that cannot
 * (file_ops.async) stays as it is. -ENOMEM.
 */
int async_switch(struct file *f, int fd, bool on) __must_check;
/* F_SETOWN and F_GETOWN, for every kind of file. */
void async_set_owner(struct file *f, const struct file_owner *owner);
struct file_owner async_owner(struct file *f);
/* The calling process owns @f, if nobody does. */
void async_own(struct file *f);
/* F_SETSIG and F_GETSIG: the signal, 0: SIGIO that says nothing. */
void async_set_signal(struct file *f, int signo);
int async_signal(struct file *f);
/*
 * Signal @owner about descriptor @fd: @signo as F_SETSIG says it (0: SIGIO that says nothing),
 * @code POLL_IN, POLL_OUT or POLL_MSG. Any thread.
 */
void async_tell(const struct file_owner *owner, int signo, int fd, int code);
/*
 * Wait until all that was noticed so far has been sent: a call that makes a file ready has sent the
 * signal before it returns.
 */
void async_send(void);
