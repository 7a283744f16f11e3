/* SPDX-License-Identifier: MIT */
/*
 * Scatter lists: checks, and copies between kernel memory and user (or kernel) segments.
 */
#include "uio.h"

#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

void uio_kernel(struct uio *u, void *base, uint64_t len)
{
	u->segs = u->fast;
	u->fast[0] = (struct uio_seg){ .base = (uint64_t)base, .len = len };
	u->nr = 1;
	u->at = 0;
	u->off = 0;
	u->left = len;
	u->kernel = true;
	u->nowait = false;
}

int uio_iovec(struct uio *u, uint64_t iov, uint64_t nr)
{
	int err;

	if (nr > UIO_MAXIOV)
		return -EINVAL;
	u->segs = nr <= UIO_FAST ? u->fast : kcalloc(nr, sizeof(struct uio_seg));
	if (!u->segs)
		return -ENOMEM;
	u->nr = (uint32_t)nr;
	u->at = 0;
	u->off = 0;
	u->left = 0;
	u->kernel = false;
	u->nowait = false;
	err = copy_from_user(u->segs, (const void __user *)iov, nr * sizeof(struct uio_seg));
	for (uint32_t i = 0; !err && i < u->nr; i++) {
		struct uio_seg *s = &u->segs[i];

		if ((int64_t)s->len < 0)
			err = -EINVAL;
		else if (!user_range_ok(s->base, s->len))
			err = -EFAULT;
		s->len = MIN(s->len, UIO_RW_MAX - u->left);
		u->left += s->len;
	}
	if (err)
		uio_done(u);
	return err;
}

void uio_done(struct uio *u)
{
	if (u->segs != u->fast)
		kfree(u->segs);
	u->segs = u->fast;
}

enum direction {
	TO_USER,
	FROM_USER,
	ZERO_USER,
};

/* Copy a piece inside one segment; returns the bytes moved. */
static __always_inline size_t copy_piece(bool kernel, uint64_t addr, void *buf, size_t len,
					 enum direction dir)
{
	void __user *user = (void __user *)addr;

	if (kernel) {
		if (dir == TO_USER)
			memcpy((void *)addr, buf, len);
		else if (dir == FROM_USER)
			memcpy(buf, (const void *)addr, len);
		else
			memset((void *)addr, 0, len);
		return len;
	}
	if (dir == TO_USER)
		return len - copy_to_user_partial(user, buf, len);
	if (dir == FROM_USER)
		return len - copy_from_user_partial(buf, user, len);
	return len - clear_user_partial(user, len);
}

/* Inlined for each direction: most calls move a few bytes of one segment. */
static __always_inline size_t move(struct uio *u, void *buf, size_t len, enum direction dir)
{
	size_t moved = 0;

	len = (size_t)MIN((uint64_t)len, u->left);
	while (moved < len) {
		const struct uio_seg *s = &u->segs[u->at];
		const size_t n = (size_t)MIN((uint64_t)(len - moved), s->len - u->off);
		const size_t did = n ? copy_piece(u->kernel, s->base + u->off,
						  buf ? (uint8_t *)buf + moved : NULL, n, dir)
				     : 0;

		ASSERT(did <= n && u->at < u->nr);
		moved += did;
		u->off += did;
		u->left -= did;
		if (did < n)
			break;
		if (u->off == s->len) {
			u->at++;
			u->off = 0;
		}
	}
	return moved;
}

size_t uio_put(struct uio *u, const void *src, size_t len)
{
	return move(u, (void *)(uintptr_t)src, len, TO_USER);
}

size_t uio_fetch(struct uio *u, void *dst, size_t len)
{
	return move(u, dst, len, FROM_USER);
}

size_t uio_zero(struct uio *u, size_t len)
{
	return move(u, NULL, len, ZERO_USER);
}

size_t uio_put_mapped(struct uio *u, const void *src, size_t len)
{
	size_t moved;

	user_faults_off();
	moved = uio_put(u, src, len);
	user_faults_on();
	return moved;
}

size_t uio_fetch_mapped(struct uio *u, void *dst, size_t len)
{
	size_t moved;

	user_faults_off();
	moved = uio_fetch(u, dst, len);
	user_faults_on();
	return moved;
}

static int touch(uint64_t addr, bool write)
{
	void __user *word = (void __user *)ALIGN_DOWN(addr, sizeof(uint32_t));
	uint32_t old;

	/* Replacing 0 by 0 is a write that other threads of the program cannot see. */
	return write ? cmpxchg_user_u32(&old, word, 0, 0) : get_user_u32(&old, word);
}

int uio_fault_in(const struct uio *u, bool write)
{
	const struct uio_seg *s = &u->segs[u->at];
	uint64_t off = u->off;
	int err;

	if (u->kernel || !u->left)
		return 0;
	for (; off == s->len; off = 0)
		s++;
	ASSERT(s < u->segs + u->nr);
	err = touch(s->base + off, write);
	/* A copy moves words: one that crosses into the next page needs both. */
	return err ? err : touch(s->base + MIN(off + sizeof(uint64_t), s->len) - 1, write);
}
