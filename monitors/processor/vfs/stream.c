/* SPDX-License-Identifier: MIT */
/*
 * Standard streams: a program's stdin, stdout and stderr, carried by the control channel.
 *
 * Invariants:	each open file holds a reference of the program; closing the last descriptor of it
 *		sends end of file for its stream.
 * Failure:	a stream without a reader raises SIGPIPE and answers -EPIPE.
 */
#include "file.h"

#include <ctl/ctl.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <mm/slab.h>
#include <processor/process/process.h>

#include "uio.h"

#define CHUNK 16384

static ssize_t stream_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	const size_t n = (size_t)MIN(uio->left, (uint64_t)CHUNK);
	uint8_t *buf;
	ssize_t len;

	if (n == 0)
		return 0;
	buf = kmalloc(n);
	if (!buf)
		return -ENOMEM;
	len = ctl_stream_read(f->private, buf, n, f->flags & O_NONBLOCK);
	if (len > 0) {
		const size_t moved = uio_put(uio, buf, (size_t)len);

		len = moved ? (ssize_t)moved : -EFAULT; /* what was taken from the stream is gone */
	}
	kfree(buf);
	return len == -EINTR ? -ERESTARTSYS : len;
}

static ssize_t stream_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	ssize_t done = 0, len = 0;
	uint8_t *buf;

	if (!uio->left)
		return 0;
	buf = kmalloc(MIN(uio->left, (uint64_t)CHUNK));
	if (!buf)
		return -ENOMEM;
	while (uio->left) {
		const size_t want = (size_t)MIN(uio->left, (uint64_t)CHUNK);
		const size_t n = uio_fetch(uio, buf, want);

		len = n ? ctl_stream_write(f->private, f->minor, buf, n, f->flags & O_NONBLOCK)
			: -EFAULT;
		if (len > 0)
			done += len;
		if (len < (ssize_t)n || n < want)
			break;
	}
	kfree(buf);
	if (len == -EPIPE)
		signal_raise_sigpipe();
	if (done)
		return done;
	return len == -EINTR ? -ERESTARTSYS : len;
}

/* A pipe, as a program that is run from a script sees it. */
static int stream_stat(struct file *f, struct file_attr *attr)
{
	*attr = (struct file_attr){ 0 };
	attr->file.ino = ctl_prog_id(f->private) * 4ull + f->minor;
	attr->fsid = 13;
	attr->mode = 0010600;
	attr->nlink = 1;
	attr->blksize = 4096;
	attr->uid = cred_current()->fsuid;
	attr->gid = cred_current()->fsgid;
	attr->atime.sec = attr->mtime.sec = attr->ctime.sec =
		(int64_t)(time_real_ns() / 1000000000u);
	return 0;
}

static unsigned int stream_poll(struct file *f)
{
	return ctl_stream_poll(f->private, f->minor);
}

static struct waitqueue *stream_poll_wait(struct file *f)
{
	return ctl_stream_waitqueue(f->private, f->minor);
}

static void stream_release(struct file *f)
{
	ctl_stream_close(f->private, f->minor);
	ctl_prog_put(f->private);
}

const struct file_ops stream_ops = {
	.name = "stream",
	.magic = 0x50495045, /* as a pipe */
	.read = stream_read,
	.write = stream_write,
	.stat = stream_stat,
	.poll = stream_poll,
	.poll_wait = stream_poll_wait,
	.async = true,
	.release = stream_release,
};

struct file *stream_open(struct ctl_prog *prog, unsigned int stream, uint32_t flags)
{
	struct file *f = file_create(&stream_ops, flags, NULL);

	if (IS_ERR(f))
		return f;
	f->private = ctl_prog_get(prog);
	f->minor = stream;
	return f;
}
