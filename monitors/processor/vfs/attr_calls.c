/* SPDX-License-Identifier: MIT */
/*
 * System calls that change attributes: chmod, chown, utimens and truncate with their kin.
 */
#include <abi/stat.h>
#include <arch/uaccess.h>
#include <fs/access.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/ipc/filelease.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "file.h"
#include "notify.h"

/* @ch on the file at @at; permissions have been checked. */
static int change(const struct path *at, const struct attr_change *ch)
{
	struct inode *inode = at->inode;
	int err;

	if (!inode->ops->setattr)
		return inode->type->create_error ? -EPERM : create_error(inode);
	err = inode->ops->setattr(inode, ch);
	if (!err)
		notify_inode(inode, at->text, ch->valid & ATTR_SIZE ? IN_MODIFY : IN_ATTRIB);
	return err;
}

/*
 * The place of @fd, and of its attributes what kind of file it is and who may do what, as of now;
 * files without a path cannot be changed.
 */
static int at_file_now(int fd, struct path *at)
{
	int err = at_file(fd, at);

	if (err)
		return err == -ENOENT ? -EPERM : err;
	err = mount_writable(at->mnt, at->inode);
	if (!err)
		err = inode_getrights(at->inode, &at->attr);
	if (err)
		path_put(at);
	return err;
}

/* at_file_now() for calls that O_PATH does not allow. */
static int at_open_file(int fd, struct path *at)
{
	struct file *f = fd_get(fd);
	bool path;

	if (IS_ERR(f))
		return PTR_ERR(f);
	path = f->flags & O_PATH;
	file_put(f);
	return path ? -EBADF : at_file_now(fd, at);
}

/* The file that (@dfd, @upath, AT_* @flags) names; @walk: WALK_* besides. */
static int at_named(int dfd, uint64_t upath, uint32_t flags, uint32_t walk, struct path *at)
{
	struct walk_result res;
	int err;

	walk |= ((flags & AT_SYMLINK_NOFOLLOW) ? WALK_NOFOLLOW : 0) |
		((flags & AT_EMPTY_PATH) ? WALK_EMPTY : 0);
	err = at_walk(dfd, upath, walk, 0, &res);
	if (err)
		return err;
	*at = res.at;
	res.at = (struct path){ 0 };
	walk_result_put(&res);
	return 0;
}

/* The same of a file whose attributes are to be changed. */
static int at_change(int dfd, uint64_t upath, uint32_t flags, struct path *at)
{
	return at_named(dfd, upath, flags, WALK_RIGHTS, at);
}

/* --- chmod --------------------------------------------------------------------------- */

static int chmod_path(const struct path *at, uint32_t mode)
{
	struct attr_change ch = { .valid = ATTR_MODE, .mode = mode & 07777 };
	struct fs_cred cred;

	int err = mount_writable(at->mnt, at->inode);

	if (err)
		return err;
	if (at->inode->mode == S_IFLNK)
		return -EOPNOTSUPP;
	if (attr_is_fixed(&at->attr))
		return -EPERM;
	process_cred(&cred);
	if (!attr_is_own(&cred, &at->attr))
		return -EPERM;
	if (!fs_cred_is_root(&cred) && !fs_in_group(&cred, at->attr.gid) &&
	    !ns_capable_file(CAP_FSETID, at->attr.uid, at->attr.gid))
		ch.mode &= ~02000u;
	return change(at, &ch);
}

static long do_chmod(int dfd, uint64_t upath, uint32_t mode, uint32_t flags)
{
	struct path at;
	int err;

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	err = at_change(dfd, upath, flags, &at);
	if (err)
		return err;
	err = chmod_path(&at, mode);
	path_put(&at);
	return err;
}

/* chmod(path, mode) */
long sys_chmod(const struct syscall_args *args)
{
	return do_chmod(AT_FDCWD, args->a[0], (uint32_t)args->a[1], 0);
}

/* fchmodat(dfd, path, mode) */
long sys_fchmodat(const struct syscall_args *args)
{
	return do_chmod((int)args->a[0], args->a[1], (uint32_t)args->a[2], 0);
}

/* fchmodat2(dfd, path, mode, flags) */
long sys_fchmodat2(const struct syscall_args *args)
{
	return do_chmod((int)args->a[0], args->a[1], (uint32_t)args->a[2], (uint32_t)args->a[3]);
}

/* fchmod(fd, mode) */
long sys_fchmod(const struct syscall_args *args)
{
	struct path at;
	int err = at_open_file((int)args->a[0], &at);

	if (err)
		return err;
	err = chmod_path(&at, (uint32_t)args->a[1]);
	path_put(&at);
	return err;
}

/* --- chown --------------------------------------------------------------------------- */

#define NO_ID UINT32_MAX /* leave it */

static int chown_path(const struct path *at, uint32_t given_uid, uint32_t given_gid)
{
	const uint32_t uid = uid_in(given_uid), gid = gid_in(given_gid);
	struct attr_change ch = { .uid = uid, .gid = gid };
	const struct file_attr *a = &at->attr;
	struct fs_cred cred;
	int err = mount_writable(at->mnt, at->inode);

	if (err)
		return err;
	if ((given_uid != NO_ID && uid == NO_ID) || (given_gid != NO_ID && gid == NO_ID))
		return -EINVAL;
	if (attr_is_fixed(a))
		return -EPERM;
	process_cred(&cred);
	if (!fs_cred_is_root(&cred) && !ns_capable_file(CAP_CHOWN, a->uid, a->gid)) {
		if (uid != NO_ID && (cred.uid != a->uid || uid != a->uid))
			return -EPERM;
		if (gid != NO_ID &&
		    (cred.uid != a->uid || (gid != a->gid && !fs_in_group(&cred, gid))))
			return -EPERM;
	}
	ch.valid = (uid != NO_ID ? ATTR_UID : 0) | (gid != NO_ID ? ATTR_GID : 0);
	if ((a->mode & S_IFMT) != S_IFDIR) {
		/* Rights that came from the old owner go. */
		ch.mode = a->mode & 07777 & ~04000u;
		if ((a->mode & 02010) == 02010)
			ch.mode &= ~02000u;
		if (ch.mode != (a->mode & 07777))
			ch.valid |= ATTR_MODE;
	}
	return change(at, &ch);
}

static long do_chown(int dfd, uint64_t upath, uint64_t uid, uint64_t gid, uint32_t flags)
{
	struct path at;
	int err;

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	err = at_change(dfd, upath, flags, &at);
	if (err)
		return err;
	err = chown_path(&at, (uint32_t)uid, (uint32_t)gid);
	path_put(&at);
	return err;
}

/* chown(path, uid, gid) */
long sys_chown(const struct syscall_args *args)
{
	return do_chown(AT_FDCWD, args->a[0], args->a[1], args->a[2], 0);
}

/* lchown(path, uid, gid) */
long sys_lchown(const struct syscall_args *args)
{
	return do_chown(AT_FDCWD, args->a[0], args->a[1], args->a[2], AT_SYMLINK_NOFOLLOW);
}

/* fchownat(dfd, path, uid, gid, flags) */
long sys_fchownat(const struct syscall_args *args)
{
	return do_chown((int)args->a[0], args->a[1], args->a[2], args->a[3], (uint32_t)args->a[4]);
}

/* fchown(fd, uid, gid) */
long sys_fchown(const struct syscall_args *args)
{
	struct path at;
	int err = at_open_file((int)args->a[0], &at);

	if (err)
		return err;
	err = chown_path(&at, (uint32_t)args->a[1], (uint32_t)args->a[2]);
	path_put(&at);
	return err;
}

/* --- times --------------------------------------------------------------------------- */

#define NSEC_MAX 999999999

struct user_time { /* struct timespec, or struct timeval with its microseconds */
	int64_t sec;
	int64_t sub;
};

static struct fs_time now(void)
{
	const uint64_t ns = time_real_ns();

	return (struct fs_time){ .sec = (int64_t)(ns / 1000000000u),
				 .nsec = (uint32_t)(ns % 1000000000u) };
}

/* @t has atime and mtime as utimensat() means them; NULL: both are now. */
static int utimes_path(const struct path *at, const struct user_time *t)
{
	struct attr_change ch = { .valid = ATTR_ATIME | ATTR_MTIME };
	struct fs_cred cred;
	const bool both_now = !t || (t[0].sub == UTIME_NOW && t[1].sub == UTIME_NOW);
	bool owner;
	int err = mount_writable(at->mnt, at->inode);

	if (err)
		return err;
	if ((at->attr.attrs & STATX_ATTR_IMMUTABLE) || (!both_now && attr_is_fixed(&at->attr)))
		return -EPERM;
	process_cred(&cred);
	owner = attr_is_own(&cred, &at->attr);
	if (!owner && (!both_now || attr_access(&cred, at->inode, &at->attr, FS_MAY_WRITE)))
		return both_now ? -EACCES : -EPERM;
	ch.atime = ch.mtime = now();
	if (both_now || t[0].sub == UTIME_NOW)
		ch.valid |= ATTR_ATIME_NOW;
	else if (t[0].sub == UTIME_OMIT)
		ch.valid &= ~(uint32_t)ATTR_ATIME;
	else
		ch.atime = (struct fs_time){ t[0].sec, (uint32_t)t[0].sub };
	if (both_now || t[1].sub == UTIME_NOW)
		ch.valid |= ATTR_MTIME_NOW;
	else if (t[1].sub == UTIME_OMIT)
		ch.valid &= ~(uint32_t)ATTR_MTIME;
	else
		ch.mtime = (struct fs_time){ t[1].sec, (uint32_t)t[1].sub };
	return change(at, &ch);
}

static bool nsec_ok(int64_t nsec)
{
	return (nsec >= 0 && nsec <= NSEC_MAX) || nsec == UTIME_NOW || nsec == UTIME_OMIT;
}

/* A NULL path with a descriptor means the file behind it. */
static long do_utimes(int dfd, uint64_t upath, const struct user_time *t, uint32_t flags)
{
	struct path at;
	int err;

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (t && (!nsec_ok(t[0].sub) || !nsec_ok(t[1].sub)))
		return -EINVAL;
	if (!upath && dfd != AT_FDCWD)
		err = flags ? -EINVAL : at_open_file(dfd, &at);
	else
		err = at_change(dfd, upath, flags, &at);
	if (err)
		return err;
	err = utimes_path(&at, t);
	path_put(&at);
	return err;
}

/* utimensat(dfd, path, times, flags) */
long sys_utimensat(const struct syscall_args *args)
{
	struct user_time t[2];

	if (args->a[2]) {
		if (copy_from_user(t, (const void __user *)args->a[2], sizeof(t)))
			return -EFAULT;
		if (t[0].sub == UTIME_OMIT && t[1].sub == UTIME_OMIT)
			return 0; /* not even the path is looked at */
	}
	return do_utimes((int)args->a[0], args->a[1], args->a[2] ? t : NULL, (uint32_t)args->a[3]);
}

/* Two struct timeval: microseconds. */
static long utimes_usec(int dfd, uint64_t upath, uint64_t utimes)
{
	struct user_time t[2];

	if (!utimes)
		return do_utimes(dfd, upath, NULL, 0);
	if (copy_from_user(t, (const void __user *)utimes, sizeof(t)))
		return -EFAULT;
	for (size_t i = 0; i < 2; i++) {
		if (t[i].sub < 0 || t[i].sub >= 1000000)
			return -EINVAL;
		t[i].sub *= 1000;
	}
	return do_utimes(dfd, upath, t, 0);
}

/* futimesat(dfd, path, times) */
long sys_futimesat(const struct syscall_args *args)
{
	return utimes_usec((int)args->a[0], args->a[1], args->a[2]);
}

/* utimes(path, times) */
long sys_utimes(const struct syscall_args *args)
{
	return utimes_usec(AT_FDCWD, args->a[0], args->a[1]);
}

/* utime(path, times): whole seconds */
long sys_utime(const struct syscall_args *args)
{
	struct user_time t[2] = { 0 };
	int64_t sec[2];

	if (!args->a[1])
		return do_utimes(AT_FDCWD, args->a[0], NULL, 0);
	if (copy_from_user(sec, (const void __user *)args->a[1], sizeof(sec)))
		return -EFAULT;
	t[0].sec = sec[0];
	t[1].sec = sec[1];
	return do_utimes(AT_FDCWD, args->a[0], t, 0);
}

/* --- truncate ------------------------------------------------------------------------ */

int file_size_allowed(uint64_t size)
{
	const struct linux_siginfo info = { .signo = SIGXFSZ, .code = SI_USER };

	if (size <= process_rlimit(RLIMIT_FSIZE))
		return 0;
	(void)signal_post_task(task_current(), &info);
	return -EFBIG;
}

static int truncate_path(const struct path *at, uint64_t size)
{
	struct attr_change ch = { .valid = ATTR_SIZE, .size = size };
	const uint32_t type = at->attr.mode & S_IFMT;
	struct fs_cred cred;
	int err;

	if (type == S_IFDIR)
		return -EISDIR;
	if (type != S_IFREG)
		return -EINVAL;
	process_cred(&cred);
	err = inode_permission(at->mnt, at->inode, &cred, &at->attr, FS_MAY_WRITE);
	if (!err && attr_is_fixed(&at->attr))
		err = -EPERM;
	if (!err && size > at->attr.size)
		err = file_size_allowed(size);
	if (!err)
		err = filelease_open_begin(at->inode, true, false);
	if (err)
		return err;
	err = change(at, &ch);
	filelease_open_end(at->inode, true);
	return err;
}

/* truncate(path, len) */
long sys_truncate(const struct syscall_args *args)
{
	struct path at;
	int err;

	if ((int64_t)args->a[1] < 0)
		return -EINVAL;
	err = at_named(AT_FDCWD, args->a[0], 0, 0, &at);
	if (err)
		return err;
	err = truncate_path(&at, args->a[1]);
	path_put(&at);
	return err;
}

/* ftruncate(fd, len) */
long sys_ftruncate(const struct syscall_args *args)
{
	struct attr_change ch = { .valid = ATTR_SIZE, .size = args->a[1] };
	struct file_attr attr;
	struct file *f;
	long ret;

	if ((int64_t)args->a[1] < 0)
		return -EINVAL;
	f = fd_get((int)args->a[0]);
	if (IS_ERR(f))
		return PTR_ERR(f);
	if (f->flags & O_PATH)
		ret = -EBADF;
	else if (!file_writable(f) || !f->inode || f->inode->mode != S_IFREG ||
		 !f->inode->ops->setattr)
		ret = -EINVAL;
	else
		ret = inode_getattr(f->inode, &attr);
	if (!ret && (attr.attrs & STATX_ATTR_APPEND))
		ret = -EPERM;
	if (!ret && args->a[1] > attr.size)
		ret = file_size_allowed(args->a[1]);
	if (!ret)
		ret = f->inode->ops->setattr(f->inode, &ch);
	if (!ret)
		notify_file(f, IN_MODIFY);
	file_put(f);
	return ret;
}
