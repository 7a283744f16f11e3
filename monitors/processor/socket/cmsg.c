/* SPDX-License-Identifier: MIT */
/*
 * Ancillary data: writing what programs receive.
 */
#include "cmsg.h"

#include <arch/uaccess.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>

#include "scm.h"

#define CMSG_ALIGNED(len) (((len) + 7) & ~(uint64_t)7)
#define HEADER            sizeof(struct linux_cmsghdr)

static void advance(struct cmsg_sink *sink, uint64_t n)
{
	n = MIN(n, sink->left);
	sink->at += n;
	sink->left -= n;
	sink->used += n;
}

/* Header and @have bytes of room checked by the caller. */
static void put(struct cmsg_sink *sink, const struct linux_cmsghdr *h, const void *data, size_t len)
{
	if (copy_to_user((void __user *)sink->at, h, sizeof(*h)) ||
	    copy_to_user((void __user *)(sink->at + HEADER), data, len))
		sink->err = -EFAULT;
}

void cmsg_put(struct cmsg_sink *sink, int level, int type, const void *data, uint32_t len)
{
	struct linux_cmsghdr h = { .len = HEADER + len, .level = level, .type = type };

	if (sink->left < HEADER) {
		sink->told |= MSG_CTRUNC;
		return;
	}
	if (sink->left < h.len) {
		sink->told |= MSG_CTRUNC;
		h.len = sink->left;
	}
	put(sink, &h, data, h.len - HEADER);
	advance(sink, CMSG_ALIGNED(HEADER + len));
}

/* A descriptor for @f, whose number goes to @at; takes over the reference on success. */
static int install(struct file *f, uint64_t at, bool cloexec)
{
	struct files *fs = files_current();
	const int fd = files_reserve(fs, 0, cloexec);
	int err;

	if (fd < 0)
		return fd;
	err = put_user_u32((uint32_t)fd, (void __user *)at);
	if (err) {
		files_unreserve(fs, fd);
		return err;
	}
	file_get(f);
	files_fill(fs, fd, f);
	return 0;
}

void cmsg_put_fds(struct cmsg_sink *sink, struct scm_fds *fds, bool cloexec)
{
	const uint64_t room = sink->left > HEADER ? (sink->left - HEADER) / sizeof(int) : 0;
	struct linux_cmsghdr h = { .level = SOL_SOCKET, .type = SCM_RIGHTS };
	uint32_t n = 0;

	while (n < fds->nr && n < room &&
	       !install(fds->files[n], sink->at + HEADER + n * sizeof(int), cloexec))
		n++;
	if (n) {
		h.len = HEADER + n * sizeof(int);
		put(sink, &h, NULL, 0);
		advance(sink, CMSG_ALIGNED(h.len));
	}
	if (n < fds->nr)
		sink->told |= MSG_CTRUNC;
	scm_free(fds);
}
