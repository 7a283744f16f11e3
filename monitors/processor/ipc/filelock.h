/* SPDX-License-Identifier: MIT */
/*
 * Advisory locks of files: records (POSIX and OFD) and whole files (flock).
 */
#pragma once

#include <fs/lock.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct file;
struct syscall_args;

/*
 * Lock, change or unlock (LOCK_NONE) for req->owner. Another's lock in the way: -EAGAIN, or with
 * @wait it sleeps: -EINTR, -EDEADLK. -ENOLCK: the node, or the file's storage node, has too many;
 * -EIO: that one cannot be asked.
 */
int filelock_set(struct file *f, const struct lock_req *req, bool wait) __must_check;
/*
 * Find a lock that conflicts with @req. 1: *@found, but its owner if that is of another processor;
 * 0: there is none; -EINTR, -EIO, -ENOLCK.
 */
int filelock_test(const struct file *f, const struct lock_req *req, struct lock_req *found)
	__must_check;
/* Everything that @owner has locked in @f's file. */
void filelock_drop(const struct file *f, const void *owner);
/*
 * Tell storage node @node, which was started again as @incarn, what programs have locked there.
 * -ESTALE: it has been started again since; -ENOMEM, -EIO.
 */
int filelock_declare(uint32_t node, uint32_t incarn) __must_check;
/* Are there POSIX locks at all? A hint for those who close. */
bool filelock_any_posix(void);
/* Locks of the node. */
uint64_t filelock_count(void);
/* Files in the fullest bucket of the table; for tests. */
size_t filelock_longest_chain(void);
/* Threads that wait for one, for tests. */
uint64_t filelock_waiting(void);

/* fcntl's F_GETLK and its kin (lock_calls.c); -EINVAL: @cmd is another one. */
long fcntl_lock(struct file *f, int fd, uint32_t cmd, uint64_t ulock);
