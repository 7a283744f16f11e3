/* SPDX-License-Identifier: MIT */
/*
 * /dev: null, zero, full, random, urandom, tty, ptmx, and links to the descriptors. Nodes that
 * mknod() made on other file systems lead here by their numbers.
 *
 * Invariants:	the inodes are static; their first reference is never given back.
 */
#include "dev.h"

#include <kernel/initcall.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/tty/tty.h>

#include "file.h"
#include "inode.h"
#include "uio.h"

enum dev_number { /* major << 8 | minor */
	DEV_NULL = 0x103,
	DEV_ZERO = 0x105,
	DEV_FULL = 0x107,
	DEV_RANDOM = 0x108,
	DEV_URANDOM = 0x109,
	DEV_TTY = 0x500,  /* whatever controls the caller's session */
	DEV_PTMX = 0x502, /* each open makes a pseudo terminal */
};

struct dev {
	struct inode inode;
	const char *name;
	uint32_t number;    /* of a device: enum dev_number */
	const char *target; /* of a link */
};

static struct dev devs[] = {
	{ .name = "null", .number = DEV_NULL },
	{ .name = "zero", .number = DEV_ZERO },
	{ .name = "full", .number = DEV_FULL },
	{ .name = "random", .number = DEV_RANDOM },
	{ .name = "urandom", .number = DEV_URANDOM },
	{ .name = "tty", .number = DEV_TTY },
	{ .name = "ptmx", .number = DEV_PTMX },
	{ .name = "fd", .target = "/proc/self/fd" },
	{ .name = "stdin", .target = "/proc/self/fd/0" },
	{ .name = "stdout", .target = "/proc/self/fd/1" },
	{ .name = "stderr", .target = "/proc/self/fd/2" },
};
static struct inode dev_root;

/* Not inlined: its buffer would cost reads of zeroes a check of the stack. */
static __noinline ssize_t random_read(struct uio *uio)
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

static int dev_getattr(struct inode *inode, struct file_attr *attr)
{
	const struct dev *d = inode == &dev_root ? NULL : container_of(inode, struct dev, inode);

	attr->file.ino = d ? (uint64_t)(d - devs) + 2 : 1;
	attr->nlink = d ? 1 : 2;
	attr->mode = !d ? S_IFDIR | 0755 : d->target ? S_IFLNK | 0777 : S_IFCHR | 0666;
	attr->size = d && d->target ? strlen(d->target) : 0;
	attr->rdev = d && !d->target ? d->number : 0;
	attr->atime.sec = attr->mtime.sec = attr->ctime.sec =
		(int64_t)(time_real_ns() / 1000000000u);
	return 0;
}

static int dev_file_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

static const struct file_ops dev_file_ops = {
	.name = "dev",
	.read = dev_read,
	.write = dev_write,
	.stat = dev_file_stat,
	.seekable = true,
};

static const struct file_ops dev_zero_ops = {
	.name = "zero",
	.read = dev_read,
	.write = dev_write,
	.stat = dev_file_stat,
	.seekable = true,
	.maps_zeroes = true,
};

static int tty_open_current(struct file *f)
{
	struct tty *tty = tty_current();
	int err;

	if (!tty)
		return -ENXIO;
	err = tty_use(tty, f);
	tty_put(tty);
	return err;
}

int dev_use(struct file *f, uint32_t rdev)
{
	f->minor = rdev;
	switch (rdev) {
	case DEV_TTY:
		return tty_open_current(f);
	case DEV_PTMX:
		return ptmx_use(f);
	case DEV_ZERO:
		f->ops = &dev_zero_ops;
		return 0;
	case DEV_NULL:
	case DEV_FULL:
	case DEV_RANDOM:
	case DEV_URANDOM:
		f->ops = &dev_file_ops;
		return 0;
	default:
		return -ENXIO;
	}
}

static int dev_open(struct inode *inode, struct file *f)
{
	return dev_use(f, container_of(inode, struct dev, inode)->number);
}

/* Devices keep nothing, so there is nothing to truncate. */
static int dev_setattr(struct inode *inode, const struct attr_change *ch)
{
	return ch->valid == ATTR_SIZE ? 0 : -EROFS;
}

static ssize_t dev_readlink(struct inode *inode, char *buf, size_t size)
{
	const char *target = container_of(inode, struct dev, inode)->target;
	const size_t len = MIN(strlen(target), size);

	memcpy(buf, target, len);
	return (ssize_t)len;
}

static int dev_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	for (size_t i = 0; i < ARRAY_SIZE(devs); i++) {
		if (strlen(devs[i].name) == len && !memcmp(devs[i].name, name, len)) {
			*out = &devs[i].inode;
			inode_get(*out);
			return 0;
		}
	}
	return -ENOENT;
}

static int dev_readdir(struct inode *dir, uint64_t *pos, struct dir_sink *sink)
{
	for (uint64_t i = *pos - 2; i < ARRAY_SIZE(devs); i++) {
		if (!dir_emit(sink, devs[i].name, strlen(devs[i].name), i + 2,
			      fs_dtype_of_mode(devs[i].inode.mode), i + 3))
			break;
	}
	return 0;
}

static int dev_text(struct inode *inode, char *buf, size_t size)
{
	const struct dev *d = inode == &dev_root ? NULL : container_of(inode, struct dev, inode);

	ASSERT(size);
	buf[0] = '\0';
	if (!d)
		return 0;
	if (strlen(d->name) + 2 > size)
		return -EINVAL;
	buf[0] = '/';
	strlcpy(buf + 1, d->name, size - 1);
	return 0;
}

static void dev_release(struct inode *inode)
{
	/* never: see the top */
}

static const struct inode_ops dev_dir_ops = {
	.name = "dev",
	.getattr = dev_getattr,
	.release = dev_release,
	.lookup = dev_lookup,
	.readdir = dev_readdir,
	.text = dev_text,
};

static const struct inode_ops dev_ops = {
	.name = "dev",
	.getattr = dev_getattr,
	.release = dev_release,
	.open = dev_open,
	.setattr = dev_setattr,
	.readlink = dev_readlink,
	.text = dev_text,
};

static int dev_fs_root(const struct fs_type *type, struct inode **out)
{
	*out = &dev_root;
	inode_get(*out);
	return 0;
}

static struct fs_type dev_fs = {
	.name = "devtmpfs",
	.at = "/dev",
	.options = "nosuid,mode=755",
	.magic = 0x01021994, /* as tmpfs */
	.noexec = true,
	.root = dev_fs_root,
};

static int dev_init(void)
{
	inode_init(&dev_root, &dev_fs, &dev_dir_ops, S_IFDIR);
	for (size_t i = 0; i < ARRAY_SIZE(devs); i++)
		inode_init(&devs[i].inode, &dev_fs, &dev_ops, devs[i].target ? S_IFLNK : S_IFCHR);
	return fs_register(&dev_fs);
}
INITCALL(fs, dev_init);
