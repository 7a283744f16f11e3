/* SPDX-License-Identifier: MIT */
/*
 * Paths as system calls get them: a string and a directory descriptor.
 */
#include "at_private.h"

#include <arch/uaccess.h>
#include <fs/access.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>

#include "file.h"

/* The place of @f; -ENOENT when it has none (pipes, streams). */
static int place_of(const struct file *f, struct path *out)
{
	*out = (struct path){ 0 };
	if (!f->path)
		return -ENOENT;
	ASSERT(f->inode);
	out->text = kstrdup(f->path);
	if (!out->text)
		return -ENOMEM;
	out->attr = f->attr;
	out->inode = f->inode;
	inode_get(out->inode);
	out->mnt = f->mnt;
	if (out->mnt)
		mount_get(out->mnt);
	return 0;
}

int at_file(int fd, struct path *out)
{
	struct file *f = fd_get(fd);
	int err;

	if (IS_ERR(f))
		return PTR_ERR(f);
	err = place_of(f, out);
	file_put(f);
	return err;
}

/* Where relative paths begin. */
static int base_dir(struct at_path *at, int dfd)
{
	int err;

	if (dfd == AT_FDCWD)
		err = fs_state_cwd(fs_current(), &at->dir);
	else
		err = at_file(dfd, &at->dir);
	if (err == -ENOENT && at->text[0])
		err = -ENOTDIR;
	if (!err)
		at->base.dir = &at->dir;
	return err;
}

static int begin(struct at_path *at, int dfd)
{
	int err;

	process_cred(&at->cred);
	at->resolve = 0;
	at->dir = (struct path){ 0 };
	at->base = (struct walk_base){ .cred = &at->cred, .mounts = fs_current()->mounts };
	err = fs_state_root(fs_current(), &at->root);
	if (!err && at->root.inode)
		at->base.root = &at->root;
	if (!err && at->text[0] != '/')
		err = base_dir(at, dfd);
	if (err)
		at_put(at);
	return err;
}

int at_get(struct at_path *at, int dfd, uint64_t upath, bool empty_ok)
{
	ssize_t len;

	at->dir = at->root = (struct path){ 0 };
	at->text = kmalloc(FS_PATH_MAX);
	if (!at->text)
		return -ENOMEM;
	len = strncpy_from_user(at->text, (const char __user *)upath, FS_PATH_MAX);
	if (len == 0 && !empty_ok)
		len = -ENOENT;
	if (len < 0) {
		at_put(at);
		return (int)len;
	}
	return begin(at, dfd);
}

int at_text(struct at_path *at, const char *text)
{
	at->dir = at->root = (struct path){ 0 };
	at->text = kstrdup(text);
	return at->text ? begin(at, AT_FDCWD) : -ENOMEM;
}

int at_restrict(struct at_path *at, int dfd, uint32_t resolve)
{
	at->resolve = resolve;
	return (resolve & RESOLVE_IN_ROOT) && at->text[0] == '/' ? base_dir(at, dfd) : 0;
}

int at_rest_is_zero(uint64_t user, uint64_t len)
{
	uint8_t b;

	for (; len; user++, len--) {
		if (copy_from_user(&b, (const void __user *)user, 1))
			return -EFAULT;
		if (b)
			return -E2BIG;
	}
	return 0;
}

void at_put(struct at_path *at)
{
	kfree(at->text);
	at->text = NULL;
	path_put(&at->dir);
	path_put(&at->root);
}

int at_walk(int dfd, uint64_t upath, uint32_t flags, uint32_t access, struct walk_result *res)
{
	struct at_path at;
	int err = at_get(&at, dfd, upath, flags & WALK_EMPTY);

	if (err)
		return err;
	err = path_walk(&at.base, at.text, flags, access, res);
	at_put(&at);
	return err;
}

bool at_once_more(int *err)
{
	if (*err != -EAGAIN)
		return false;
	if (!(__atomic_load_n(&thread_current()->flags, __ATOMIC_ACQUIRE) & THREAD_F_KILL))
		return true;
	*err = -EINTR;
	return false;
}

/* --- permissions --------------------------------------------------------------------- */

bool attr_is_own(const struct fs_cred *cred, const struct file_attr *attr)
{
	return fs_cred_is_root(cred) || cred->uid == attr->uid ||
	       ns_capable_file(CAP_FOWNER, attr->uid, attr->gid);
}

int may_create(const struct fs_cred *cred, const struct path *dir)
{
	if (dir->attr.attrs & STATX_ATTR_IMMUTABLE)
		return -EPERM;
	return attr_access(cred, dir->inode, &dir->attr, FS_MAY_WRITE | FS_MAY_EXEC);
}

int may_remove(const struct fs_cred *cred, const struct path *dir, const struct file_attr *victim)
{
	const int err = may_create(cred, dir);

	if (err)
		return err;
	if ((dir->attr.attrs & STATX_ATTR_APPEND) || attr_is_fixed(victim))
		return -EPERM;
	if ((dir->attr.mode & 01000) && !attr_is_own(cred, victim) && cred->uid != dir->attr.uid)
		return -EPERM;
	return 0;
}

int create_error(const struct inode *dir)
{
	return dir->type->create_error ? dir->type->create_error : -EROFS;
}

void new_owner(struct new_inode *how, const struct fs_cred *cred, const struct file_attr *dir,
	       uint32_t mode)
{
	const uint32_t type = mode & S_IFMT;

	how->mode = mode;
	how->masked = type == S_IFLNK ? 0 : mode & fs_state_umask(fs_current());
	how->mode &= ~how->masked;
	how->uid = cred->uid;
	how->gid = cred->gid;
	if (!(dir->mode & 02000))
		return;
	how->gid = dir->gid;
	if (type == S_IFDIR)
		how->mode |= 02000;
	else if ((mode & 02010) == 02010 && !fs_cred_is_root(cred) && !fs_in_group(cred, dir->gid))
		how->mode &= ~02000u;
}
