/* SPDX-License-Identifier: MIT */
/*
 * System calls that take paths and change nothing: open, access, readlink, chdir, getcwd, umask.
 */
#include <arch/uaccess.h>
#include <fs/access.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "file.h"

/* --- open ---------------------------------------------------------------------------- */

static long do_open(int dfd, uint64_t upath, uint32_t flags, uint32_t mode, uint32_t resolve)
{
	struct files *fs = files_current();
	const int fd = files_reserve(fs, 0, flags & O_CLOEXEC);

	if (fd < 0)
		return fd;
	return files_finish(fs, fd, path_open_at(dfd, upath, flags, mode, resolve));
}

/* open(path, flags, mode) */
long sys_open(const struct syscall_args *args)
{
	return do_open(AT_FDCWD, args->a[0], (uint32_t)args->a[1], (uint32_t)args->a[2], 0);
}

/* openat(dfd, path, flags, mode) */
long sys_openat(const struct syscall_args *args)
{
	return do_open((int)args->a[0], args->a[1], (uint32_t)args->a[2], (uint32_t)args->a[3], 0);
}

/* openat2() refuses all other flags, which openat() ignores. */
#define OPENAT2_FLAGS                                                                      \
	(O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK |       \
	 04030000u /* O_SYNC, O_DSYNC, O_ASYNC */ | O_DIRECT | O_LARGEFILE | O_DIRECTORY | \
	 O_NOFOLLOW | O_NOATIME | O_CLOEXEC | O_PATH | O_TMPFILE)

#define OPENAT2_RESOLVE                                                                    \
	(RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | \
	 RESOLVE_IN_ROOT | RESOLVE_CACHED)

/* openat2(dfd, path, how, size) */
long sys_openat2(const struct syscall_args *args)
{
	struct {
		uint64_t flags, mode, resolve;
	} how;
	const uint64_t size = args->a[3];
	bool makes;
	int err;

	if (size < sizeof(how))
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	if (copy_from_user(&how, (const void __user *)args->a[2], sizeof(how)))
		return -EFAULT;
	err = at_rest_is_zero(args->a[2] + sizeof(how), size - sizeof(how));
	if (err)
		return err;
	makes = (how.flags & O_CREAT) || (how.flags & O_TMPFILE) == O_TMPFILE;
	if ((how.flags & ~(uint64_t)OPENAT2_FLAGS) || (how.resolve & ~(uint64_t)OPENAT2_RESOLVE) ||
	    (makes ? how.mode & ~07777ull : how.mode))
		return -EINVAL;
	if ((how.resolve & RESOLVE_BENEATH) && (how.resolve & RESOLVE_IN_ROOT))
		return -EINVAL;
	if (how.resolve & RESOLVE_CACHED)
		return -EAGAIN; /* no walk is known to need no other node */
	return do_open((int)args->a[0], args->a[1], (uint32_t)how.flags, (uint32_t)how.mode,
		       (uint32_t)how.resolve);
}

/* creat(path, mode) */
long sys_creat(const struct syscall_args *args)
{
	return do_open(AT_FDCWD, args->a[0], O_CREAT | O_WRONLY | O_TRUNC, (uint32_t)args->a[1], 0);
}

/* --- access, readlink ---------------------------------------------------------------- */

static bool is_empty(uint64_t upath)
{
	char first;

	return !copy_from_user(&first, (const void __user *)upath, 1) && !first;
}

/* AT_EMPTY_PATH of a file that has no path: a pipe or stream is the caller's own. */
static int access_fd(int fd, uint32_t mode)
{
	struct file *f = fd_get(fd);

	if (IS_ERR(f))
		return PTR_ERR(f);
	file_put(f);
	return (mode & FS_MAY_EXEC) ? -EACCES : 0;
}

static long do_access(int dfd, uint64_t upath, uint32_t mode, uint32_t flags)
{
	struct walk_result res;
	uint32_t walk = 0;
	int err;

	if ((mode & ~7u) || (flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)))
		return -EINVAL;
	if (flags & AT_SYMLINK_NOFOLLOW)
		walk |= WALK_NOFOLLOW;
	if (flags & AT_EMPTY_PATH)
		walk |= WALK_EMPTY;
	err = at_walk(dfd, upath, walk, mode, &res);
	if (err == -ENOENT && (flags & AT_EMPTY_PATH) && dfd != AT_FDCWD && is_empty(upath))
		return access_fd(dfd, mode);
	if (!err)
		walk_result_put(&res);
	return err;
}

/* access(path, mode) */
long sys_access(const struct syscall_args *args)
{
	return do_access(AT_FDCWD, args->a[0], (uint32_t)args->a[1], 0);
}

/* faccessat(dfd, path, mode) */
long sys_faccessat(const struct syscall_args *args)
{
	return do_access((int)args->a[0], args->a[1], (uint32_t)args->a[2], 0);
}

/* faccessat2(dfd, path, mode, flags) */
long sys_faccessat2(const struct syscall_args *args)
{
	return do_access((int)args->a[0], args->a[1], (uint32_t)args->a[2], (uint32_t)args->a[3]);
}

static ssize_t link_target(const struct path *at, char *buf)
{
	struct inode *link = at->inode;

	if (link->mode != S_IFLNK || !link->ops->readlink)
		return -EINVAL;
	return link->ops->readlink(link, buf, FS_PATH_MAX);
}

static long do_readlink(int dfd, uint64_t upath, uint64_t ubuf, int size)
{
	struct walk_result res;
	char *target;
	ssize_t len;

	if (size <= 0)
		return -EINVAL;
	/* An empty path is the link behind an O_PATH descriptor. */
	len = at_walk(dfd, upath, WALK_NOFOLLOW | WALK_EMPTY, 0, &res);
	if (len)
		return len;
	target = kmalloc(FS_PATH_MAX);
	len = target ? link_target(&res.at, target) : -ENOMEM;
	if (len > 0) {
		len = MIN(len, (ssize_t)size);
		if (copy_to_user((void __user *)ubuf, target, (size_t)len))
			len = -EFAULT;
	}
	if (len == -EINVAL && is_empty(upath))
		len = -ENOENT;
	kfree(target);
	walk_result_put(&res);
	return len;
}

/* readlink(path, buf, size) */
long sys_readlink(const struct syscall_args *args)
{
	return do_readlink(AT_FDCWD, args->a[0], args->a[1], (int)args->a[2]);
}

/* readlinkat(dfd, path, buf, size) */
long sys_readlinkat(const struct syscall_args *args)
{
	return do_readlink((int)args->a[0], args->a[1], args->a[2], (int)args->a[3]);
}

/* --- working directory --------------------------------------------------------------- */

/* chdir(path) */
long sys_chdir(const struct syscall_args *args)
{
	struct walk_result res;
	const int err = at_walk(AT_FDCWD, args->a[0], WALK_DIRECTORY, FS_MAY_EXEC, &res);

	if (err)
		return err;
	fs_state_set_cwd(fs_current(), &res.at);
	walk_result_put(&res);
	return 0;
}

/* fchdir(fd) */
long sys_fchdir(const struct syscall_args *args)
{
	struct fs_cred cred;
	struct file_attr attr;
	struct path to;
	int err = at_file((int)args->a[0], &to);

	if (err)
		return err == -ENOENT ? -ENOTDIR : err;
	process_cred(&cred);
	if ((to.attr.mode & S_IFMT) != S_IFDIR)
		err = -ENOTDIR;
	else
		err = inode_getattr(to.inode, &attr);
	if (!err)
		err = inode_permission(to.mnt, to.inode, &cred, &attr, FS_MAY_EXEC);
	if (!err)
		fs_state_set_cwd(fs_current(), &to);
	path_put(&to);
	return err;
}

/* chroot(path): what "/" means for the caller, and those that share its directories */
long sys_chroot(const struct syscall_args *args)
{
	struct walk_result res;
	int err = at_walk(AT_FDCWD, args->a[0], WALK_DIRECTORY, FS_MAY_EXEC, &res);

	if (err)
		return err;
	if (!capable_here(CAP_SYS_CHROOT))
		err = -EPERM;
	else
		fs_state_set_root(fs_current(), &res.at);
	walk_result_put(&res);
	return err;
}

#define UNREACHABLE "(unreachable)"

/* getcwd(buf, size): the length with its NUL */
long sys_getcwd(const struct syscall_args *args)
{
	char *text = kmalloc(sizeof(UNREACHABLE) + FS_PATH_MAX), *whole;
	struct path cwd = { 0 };
	bool outside = false;
	size_t len;
	long ret = text ? fs_state_cwd(fs_current(), &cwd) : -ENOMEM;

	whole = text + strlen(UNREACHABLE);
	if (!ret)
		ret = path_text_for(fs_current(), &cwd, whole, &outside);
	path_put(&cwd);
	if (!ret) {
		if (outside) {
			memcpy(text, UNREACHABLE, strlen(UNREACHABLE));
			whole = text;
		}
		len = strlen(whole) + 1;
		if (len > args->a[1])
			ret = -ERANGE;
		else
			ret = copy_to_user((void __user *)args->a[0], whole, len) ? -EFAULT
										  : (long)len;
	}
	kfree(text);
	return ret;
}

/* umask(mask) */
long sys_umask(const struct syscall_args *args)
{
	return fs_state_set_umask(fs_current(), (uint32_t)args->a[0]);
}
