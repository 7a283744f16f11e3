/* SPDX-License-Identifier: MIT */
/*
 * Leases of files (F_SETLEASE): the holder hears before another open or truncate goes on.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct file;
struct inode;

/* Seconds until a lease that is being broken ends by itself; 0: never. Atomic. */
extern uint32_t filelease_break_s;

/*
 * F_SETLEASE on descriptor @fd of @f. -EINVAL: @type is no type, or no lease can hold for
 * this kind of file; -EACCES: the file is another user's; -EAGAIN: it is open or leased otherwise,
 * or F_UNLCK finds no lease; -ENOMEM.
 */
int filelease_set(struct file *f, int fd, uint32_t type) __must_check;
/* F_GETLEASE: what the lease is to become if it is being broken. */
int filelease_get(struct file *f);
/* @f, which has a lease, is about to go. */
void filelease_file_gone(struct file *f);

/*
 * @inode, a regular file, is opened or changed: breaks the leases that do not allow it and waits
 * until they have ended. Undone by filelease_open_end(). @nonblock: -EWOULDBLOCK instead of
 * waiting, the leases are being broken all the same; -ERESTARTSYS.
 */
int filelease_open_begin(struct inode *inode, bool write, bool nonblock) __must_check;
void filelease_open_end(struct inode *inode, bool write);
