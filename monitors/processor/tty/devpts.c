/* SPDX-License-Identifier: MIT */
/*
 * /dev/pts: the terminals that are there, by number.
 *
 * Invariants:	an inode is made by each look-up and holds a reference of its terminal.
 * Limits:	/dev/ptmx is a device of /dev; Linux has another one here, which no program may
 *		open.
 */
#include <fs/stat.h>
#include <kernel/initcall.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <processor/account/account.h>
#include <processor/ns/ns.h>
#include <processor/process/process.h>
#include <processor/vfs/file.h>
#include <processor/vfs/inode.h>

#include "tty.h"

#define FIRST_COOKIE 2u /* behind "." and ".." */
#define MAX_DIGITS   9u

struct pts_inode {
	struct inode inode;
	struct tty *tty; /* const; counted */
};

static struct fs_type pts_fs;
static struct inode pts_root;

static struct tty *tty_of(const struct inode *inode)
{
	return container_of(inode, struct pts_inode, inode)->tty;
}

static int pts_getattr(struct inode *inode, struct file_attr *attr)
{
	tty_attr(tty_of(inode), attr);
	return 0;
}

static void pts_release(struct inode *inode)
{
	tty_put(tty_of(inode));
	kmem_free(container_of(inode, struct pts_inode, inode));
}

static int pts_open(struct inode *inode, struct file *f)
{
	return tty_use(tty_of(inode), f);
}

static int pts_setattr(struct inode *inode, const struct attr_change *ch)
{
	tty_set_attr(tty_of(inode), ch);
	return 0;
}

static const struct inode_ops pts_ops = {
	.name = "devpts",
	.getattr = pts_getattr,
	.release = pts_release,
	.open = pts_open,
	.setattr = pts_setattr,
};

/* The inode of @tty, whose reference stays the caller's. -ENOMEM */
static int make_inode(struct tty *tty, struct inode **out)
{
	struct pts_inode *pts = kmem_alloc(kmem_current(), sizeof(*pts));

	if (!pts)
		return -ENOMEM;
	inode_init(&pts->inode, &pts_fs, &pts_ops, S_IFCHR);
	tty_get(tty);
	pts->tty = tty;
	*out = &pts->inode;
	return 0;
}

struct file *tty_open(struct tty *tty, uint32_t flags)
{
	char path[sizeof("/dev/pts/") + MAX_DIGITS];
	struct inode *inode;
	struct file *f;
	int err = make_inode(tty, &inode);

	if (err)
		return ERR_PTR(err);
	snprintf(path, sizeof(path), "/dev/pts/%u", tty_index(tty));
	f = file_create(&path_ops, flags, path);
	if (IS_ERR(f)) {
		inode_put(inode);
		return f;
	}
	f->inode = inode;
	tty_attr(tty, &f->attr);
	err = tty_use(tty, f);
	if (err) {
		file_put(f);
		return ERR_PTR(err);
	}
	return f;
}

/* A number as it is printed: no sign, no leading zero. */
static bool parse_index(const char *name, size_t len, uint32_t *index)
{
	uint32_t n = 0;

	if (!len || len > MAX_DIGITS || (name[0] == '0' && len > 1))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (name[i] < '0' || name[i] > '9')
			return false;
		n = n * 10 + (uint32_t)(name[i] - '0');
	}
	*index = n;
	return true;
}

static int root_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	uint32_t index;
	struct tty *tty;
	int err;

	if (!parse_index(name, len, &index))
		return -ENOENT;
	tty = tty_by_index(index);
	if (!tty)
		return -ENOENT;
	err = make_inode(tty, out);
	tty_put(tty);
	return err;
}

static int root_readdir(struct inode *dir, uint64_t *pos, struct dir_sink *sink)
{
	int index = (int)(*pos - FIRST_COOKIE);

	for (;;) {
		char name[MAX_DIGITS + 2];
		int len;

		index = tty_next_index(index);
		if (index < 0)
			return 0;
		len = snprintf(name, sizeof(name), "%d", index);
		if (!dir_emit(sink, name, (size_t)len, (uint64_t)index + 3, DT_CHR,
			      (uint64_t)index + 1 + FIRST_COOKIE))
			return 0;
		index++;
	}
}

static int root_getattr(struct inode *inode, struct file_attr *attr)
{
	*attr = (struct file_attr){ 0 };
	attr->file.ino = 1;
	attr->mode = S_IFDIR | 0755;
	attr->nlink = 2;
	return 0;
}

static void root_release(struct inode *inode)
{
	/* static: its first reference is never given back */
}

static const struct inode_ops root_ops = {
	.name = "devpts",
	.getattr = root_getattr,
	.release = root_release,
	.lookup = root_lookup,
	.readdir = root_readdir,
};

static int pts_fs_root(const struct fs_type *type, struct inode **out)
{
	*out = &pts_root;
	inode_get(*out);
	return 0;
}

static struct fs_type pts_fs = {
	.name = "devpts",
	.for_users = true,
	.reveals = true,
	.made_of = NS_KINDS,
	.at = "/dev/pts",
	.options = "nosuid,noexec,gid=5,mode=620,ptmxmode=000",
	.magic = 0x1cd1, /* DEVPTS_SUPER_MAGIC */
	.noexec = true,
	.root = pts_fs_root,
};

static int pts_init(void)
{
	int err;

	inode_init(&pts_root, &pts_fs, &root_ops, S_IFDIR);
	err = fs_register(&pts_fs);
	tty_set_fs(pts_fs.dev);
	return err;
}
INITCALL(fs, pts_init);
