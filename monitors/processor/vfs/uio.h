/* SPDX-License-Identifier: MIT */
/*
 * Scatter lists of user (or kernel) memory for reads and writes.
 *
 * Context:	copying to user memory may fault and sleep; no lock of the cache may be held, and no
 *		line pinned, but for the forms that say so.
 * Failure:	a fault part way ends the copy: the caller returns what was moved, or -EFAULT if
 *		nothing was.
 */
#pragma once

#include <abi/fcntl.h>
#include <arch/uaccess.h>
#include <lib/compiler.h>
#include <lib/errno.h>
#include <lib/types.h>

#define UIO_FAST   8
#define UIO_RW_MAX 0x7ffff000ull /* as Linux: one call moves no more */

struct uio_seg {
	uint64_t base;
	uint64_t len;
};

struct uio {
	struct uio_seg *segs;
	uint32_t nr;
	uint32_t at;   /* current segment */
	uint64_t off;  /* in it */
	uint64_t left; /* bytes in all */
	bool kernel;   /* addresses are the kernel's */
	bool nowait;   /* pipes: as if the file were O_NONBLOCK */
	struct uio_seg fast[UIO_FAST];
};

/* One buffer. -EFAULT when it leaves user space. */
static inline __must_check int uio_user(struct uio *u, uint64_t base, uint64_t len)
{
	if (!user_range_ok(base, len))
		return -EFAULT;
	len = MIN(len, UIO_RW_MAX);
	u->segs = u->fast;
	u->fast[0] = (struct uio_seg){ .base = base, .len = len };
	u->nr = 1;
	u->at = 0;
	u->off = 0;
	u->left = len;
	u->kernel = false;
	u->nowait = false;
	return 0;
}

/* A struct iovec array of the user's: -EINVAL, -EFAULT, -ENOMEM. uio_done() when finished. */
int uio_iovec(struct uio *u, uint64_t iov, uint64_t nr) __must_check;
void uio_kernel(struct uio *u, void *base, uint64_t len);
void uio_done(struct uio *u);

/* Move up to @len bytes; returns how many were moved, which is less only after a fault. */
size_t uio_put(struct uio *u, const void *src, size_t len);
size_t uio_fetch(struct uio *u, void *dst, size_t len);
size_t uio_zero(struct uio *u, size_t len);

/*
 * The same for a caller that has a line of the cache pinned: they never fault, and end where they
 * would. The caller then gives the line back, has uio_fault_in() map what comes next, and goes on.
 */
size_t uio_put_mapped(struct uio *u, const void *src, size_t len);
size_t uio_fetch_mapped(struct uio *u, void *dst, size_t len);
/* @write: for uio_put_mapped(); changes no byte. -EFAULT. */
int uio_fault_in(const struct uio *u, bool write) __must_check;
