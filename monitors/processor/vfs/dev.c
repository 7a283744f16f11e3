/* SPDX-License-Identifier: MIT */
/*
 * Devices that the kernel itself provides: /dev/null, zero, full, random, urandom.
 *
 * They are there whatever the file system holds under /dev; everything else of /dev comes from it.
 */
#include <processor/file.h>

#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/uio.h>

enum dev_minor {
	DEV_NULL = 3,
	DEV_ZERO = 5,
	DEV_FULL = 7,
	DEV_RANDOM = 8,
	DEV_URANDOM = 9,
};

static const struct {
	const char *path;
	uint32_t minor;
} devs[] = {
	{ "/dev/null", DEV_NULL },     { "/dev/zero", DEV_ZERO },       { "/dev/full", DEV_FULL },
	{ "/dev/random", DEV_RANDOM }, { "/dev/urandom", DEV_URANDOM },
};

static int dev_find(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(devs); i++) {
		if (strcmp(path, devs[i].path) == 0)
			return (int)devs[i].minor;
	}
	return -ENOENT;
}

static ssize_t random_read(struct uio *uio)
{
	uint8_t buf[256];
	ssize_t done = 0;

	while (uio->left) {
		const size_t n = (size_t)MIN(uio->left, (uint64_t)sizeof(buf));
		size_t moved;

		random_bytes(buf, n);
		moved = uio_put(uio, buf, n);
		done += (ssize_t)moved;
		if (moved < n)
			return done ? done : -EFAULT;
	}
	return done;
}

static ssize_t dev_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	const size_t want = (size_t)uio->left;
	size_t moved;

	switch (f->minor) {
	case DEV_NULL:
		return 0;
	case DEV_RANDOM:
	case DEV_URANDOM:
		return random_read(uio);
	default:
		moved = uio_zero(uio, want);
		return moved || !want ? (ssize_t)moved : -EFAULT;
	}
}

static ssize_t dev_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	/* As on Linux, the data is not even looked at. */
	return f->minor == DEV_FULL ? -ENOSPC : (ssize_t)uio->left;
}

static void fill_attr(uint32_t minor, struct proto_attr *attr)
{
	*attr = (struct proto_attr){ 0 };
	attr->file.ino = minor;
	attr->fsid = 5;
	attr->mode = 0020666;
	attr->nlink = 1;
	attr->blksize = 4096;
	attr->rdev = 1u << 8 | minor;
	attr->atime_s = attr->mtime_s = attr->ctime_s = (int64_t)(time_real_ns() / 1000000000u);
}

static int dev_file_stat(struct file *f, struct proto_attr *attr)
{
	fill_attr(f->minor, attr);
	return 0;
}

static const struct file_ops dev_ops = {
	.name = "dev",
	.read = dev_read,
	.write = dev_write,
	.stat = dev_file_stat,
	.seekable = true,
};

int dev_stat(const char *path, struct proto_attr *attr)
{
	const int minor = dev_find(path);

	if (minor < 0)
		return minor;
	fill_attr((uint32_t)minor, attr);
	return 0;
}

struct file *dev_open(const char *path, uint32_t flags)
{
	const int minor = dev_find(path);
	struct file *f;

	if (minor < 0)
		return ERR_PTR(minor);
	if (flags & O_DIRECTORY)
		return ERR_PTR(-ENOTDIR);
	f = file_create(&dev_ops, flags, path);
	if (!IS_ERR(f)) {
		f->minor = (uint32_t)minor;
		fill_attr(f->minor, &f->attr);
	}
	return f;
}
