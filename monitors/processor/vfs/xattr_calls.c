/* SPDX-License-Identifier: MIT */
/*
 * Extended attributes: system calls, permissions and the families of names. A file system keeps
 * them itself; one that keeps none answers EOPNOTSUPP, and its lists are empty.
 *
 * Ordering:	as Linux: the file, the name and the value, permission, whether such names are kept.
 */
#include <abi/stat.h>
#include <abi/xattr.h>
#include <arch/uaccess.h>
#include <fs/acl.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "file.h"
#include "notify.h"

/* --- which file ------------------------------------------------------------------------ */

struct target {
	struct inode *inode; /* referenced; NULL: a pipe, a socket; or ERR_PTR */
	struct mount *mnt;   /* referenced: behind which it is, or NULL */
};

static struct target failed(int err)
{
	return (struct target){ .inode = ERR_PTR(err) };
}

static struct target target_of(const struct path *at)
{
	if (at->inode)
		inode_get(at->inode);
	if (at->mnt)
		mount_get(at->mnt);
	return (struct target){ at->inode, at->mnt };
}

static void target_put(struct target to)
{
	inode_put(to.inode);
	mount_put(to.mnt);
}

/* By path (@fd negative), followed unless @walk says otherwise, or by descriptor. */
static struct target inode_of(int fd, uint64_t upath, uint32_t walk)
{
	struct walk_result res;
	struct target to;
	struct file *f;
	int err;

	if (fd < 0) {
		err = at_walk(AT_FDCWD, upath, walk, 0, &res);
		if (err)
			return failed(err);
		to = target_of(&res.at);
		walk_result_put(&res);
		return to;
	}
	f = fd_get(fd);
	if (IS_ERR(f))
		return failed(PTR_ERR(f));
	if (f->flags & O_PATH)
		to = failed(-EBADF);
	else
		to = target_of(&(const struct path){ .inode = f->inode, .mnt = f->mnt });
	file_put(f);
	return to;
}

static struct target inode_of_fd(uint64_t fd)
{
	return (int)fd < 0 ? failed(-EBADF) : inode_of((int)fd, 0, 0);
}

/* --- names ----------------------------------------------------------------------------- */

static int get_name(char name[XATTR_NAME_MAX + 1], uint64_t uname)
{
	const long len = strncpy_from_user(name, (const char __user *)uname, XATTR_NAME_MAX + 1);

	if (len == 0 || len == -ENAMETOOLONG)
		return -ERANGE;
	return len < 0 ? (int)len : 0;
}

static bool begins(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Of access control lists: anybody may read them, and the owner sets them. */
static int check_acl(struct inode *inode, bool write)
{
	struct file_attr attr;
	struct fs_cred cred;
	int err;

	/* They have ids of the first user namespace in them, which those of others do not know. */
	if (!inode->ops->setxattr || inode->mode == S_IFLNK || user_ns_current())
		return -EOPNOTSUPP;
	if (!write)
		return 0;
	err = inode_getrights(inode, &attr);
	if (err)
		return err;
	process_cred(&cred);
	return attr_is_own(&cred, &attr) || capable(CAP_FOWNER) ? 0 : -EPERM;
}

/* May the caller do this with the family of @name? */
static int check_family(const struct target *to, const char *name, bool write)
{
	const int none = write ? -EPERM : -ENODATA;
	struct inode *inode = to->inode;
	struct file_attr attr;
	struct fs_cred cred;
	int err;

	if (write) {
		err = inode_getrights(inode, &attr);
		if (!err && attr_is_fixed(&attr))
			err = -EPERM;
		if (err)
			return err;
	}
	if (posix_acl_is_name(name, strlen(name)))
		return check_acl(inode, write);
	if (begins(name, "security.") || begins(name, "system.")) {
		/* Capabilities of files have no meaning here: they are kept as others are. */
		return begins(name, "security.") && write && !capable(CAP_SYS_ADMIN) ? -EPERM : 0;
	}
	if (begins(name, "trusted."))
		return capable(CAP_SYS_ADMIN) ? 0 : none;
	err = inode_getrights(inode, &attr);
	if (err)
		return err;
	process_cred(&cred);
	if (begins(name, "user.")) {
		if (inode->mode != S_IFREG && inode->mode != S_IFDIR)
			return none;
		if (inode->mode == S_IFDIR && write && (attr.mode & S_ISVTX) &&
		    !attr_is_own(&cred, &attr))
			return -EPERM;
	}
	return inode_permission(to->mnt, inode, &cred, &attr, write ? FS_MAY_WRITE : FS_MAY_READ);
}

/* Does the file system keep a family like this? */
static int check_kept(const struct inode *inode, const char *name)
{
	static const char *const families[] = { "user.", "trusted.", "security." };

	if (!inode || !inode->ops->setxattr)
		return -EOPNOTSUPP;
	if (posix_acl_is_name(name, strlen(name)))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		if (begins(name, families[i]))
			return name[strlen(families[i])] ? 0 : -EINVAL;
	}
	return -EOPNOTSUPP;
}

static int check(const struct target *to, const char *name, bool write)
{
	struct inode *inode = to->inode;
	int err = inode && write ? mount_writable(to->mnt, inode) : 0;

	if (!err && inode)
		err = check_family(to, name, write);
	else if (!err && begins(name, "user."))
		err = write ? -EPERM : -ENODATA; /* for files and directories only */
	return err ? err : check_kept(inode, name);
}

/* A list of no entries stands for none: it is removed. -EINVAL, -EOPNOTSUPP: it is no list. */
static int check_list(const char *name, void **value, size_t size)
{
	int ret;

	if (!posix_acl_is_name(name, strlen(name)))
		return 0;
	ret = size ? posix_acl_check(*value, size) : 1;
	if (ret <= 0)
		return ret;
	kfree(*value);
	*value = NULL;
	return 0;
}

/* --- the calls; each consumes @to, or answers its error ------------------------------- */

static long set(struct target to, uint64_t uname, uint64_t uvalue, uint64_t size, int flags)
{
	struct inode *inode = to.inode;
	char name[XATTR_NAME_MAX + 1];
	void *value = NULL;
	long ret;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	ret = flags & ~(XATTR_CREATE | XATTR_REPLACE) ? -EINVAL : get_name(name, uname);
	if (!ret && size > XATTR_SIZE_MAX)
		ret = -E2BIG;
	if (!ret) {
		value = kmalloc(size ? size : 1);
		if (!value)
			ret = -ENOMEM;
		else if (copy_from_user(value, (const void __user *)uvalue, size))
			ret = -EFAULT;
	}
	if (!ret)
		ret = check(&to, name, true);
	if (!ret)
		ret = check_list(name, &value, size);
	if (!ret)
		ret = inode->ops->setxattr(inode, name, value, value ? size : 0, flags);
	if (!ret)
		notify_inode(inode, NULL, IN_ATTRIB);
	kfree(value);
	target_put(to);
	return ret;
}

static long get(struct target to, uint64_t uname, uint64_t ubuf, uint64_t size)
{
	struct inode *inode = to.inode;
	char name[XATTR_NAME_MAX + 1];
	void *buf = NULL;
	long ret;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	ret = get_name(name, uname);
	if (!ret)
		ret = check(&to, name, false);
	size = MIN(size, (uint64_t)XATTR_SIZE_MAX);
	if (!ret && size) {
		buf = kmalloc(size);
		if (!buf)
			ret = -ENOMEM;
	}
	if (!ret)
		ret = inode->ops->getxattr(inode, name, buf, size);
	if (ret > 0 && size && copy_to_user((void __user *)ubuf, buf, (size_t)ret))
		ret = -EFAULT;
	kfree(buf);
	target_put(to);
	return ret;
}

static long list(struct target to, uint64_t ubuf, uint64_t size)
{
	struct inode *inode = to.inode;
	char *buf = NULL;
	long ret = 0;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	if (inode && inode->ops->listxattr) {
		size = MIN(size, (uint64_t)XATTR_LIST_MAX);
		if (size) {
			buf = kmalloc(size);
			if (!buf)
				ret = -ENOMEM;
		}
		if (!ret)
			ret = inode->ops->listxattr(inode, buf, size, capable(CAP_SYS_ADMIN));
		if (ret > 0 && size && copy_to_user((void __user *)ubuf, buf, (size_t)ret))
			ret = -EFAULT;
		if (ret == -ERANGE && size == XATTR_LIST_MAX)
			ret = -E2BIG;
		kfree(buf);
	}
	target_put(to);
	return ret;
}

static long drop(struct target to, uint64_t uname)
{
	struct inode *inode = to.inode;
	char name[XATTR_NAME_MAX + 1];
	long ret;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	ret = get_name(name, uname);
	if (!ret)
		ret = check(&to, name, true);
	if (!ret)
		ret = inode->ops->setxattr(inode, name, NULL, 0, XATTR_REPLACE);
	if (!ret)
		notify_inode(inode, NULL, IN_ATTRIB);
	target_put(to);
	return ret;
}

/* setxattr(path, name, value, size, flags) */
long sys_setxattr(const struct syscall_args *args)
{
	return set(inode_of(-1, args->a[0], 0), args->a[1], args->a[2], args->a[3],
		   (int)args->a[4]);
}

/* lsetxattr(path, name, value, size, flags) */
long sys_lsetxattr(const struct syscall_args *args)
{
	return set(inode_of(-1, args->a[0], WALK_NOFOLLOW), args->a[1], args->a[2], args->a[3],
		   (int)args->a[4]);
}

/* fsetxattr(fd, name, value, size, flags) */
long sys_fsetxattr(const struct syscall_args *args)
{
	return set(inode_of_fd(args->a[0]), args->a[1], args->a[2], args->a[3], (int)args->a[4]);
}

/* getxattr(path, name, buf, size) */
long sys_getxattr(const struct syscall_args *args)
{
	return get(inode_of(-1, args->a[0], 0), args->a[1], args->a[2], args->a[3]);
}

/* lgetxattr(path, name, buf, size) */
long sys_lgetxattr(const struct syscall_args *args)
{
	return get(inode_of(-1, args->a[0], WALK_NOFOLLOW), args->a[1], args->a[2], args->a[3]);
}

/* fgetxattr(fd, name, buf, size) */
long sys_fgetxattr(const struct syscall_args *args)
{
	return get(inode_of_fd(args->a[0]), args->a[1], args->a[2], args->a[3]);
}

/* listxattr(path, buf, size) */
long sys_listxattr(const struct syscall_args *args)
{
	return list(inode_of(-1, args->a[0], 0), args->a[1], args->a[2]);
}

/* llistxattr(path, buf, size) */
long sys_llistxattr(const struct syscall_args *args)
{
	return list(inode_of(-1, args->a[0], WALK_NOFOLLOW), args->a[1], args->a[2]);
}

/* flistxattr(fd, buf, size) */
long sys_flistxattr(const struct syscall_args *args)
{
	return list(inode_of_fd(args->a[0]), args->a[1], args->a[2]);
}

/* removexattr(path, name) */
long sys_removexattr(const struct syscall_args *args)
{
	return drop(inode_of(-1, args->a[0], 0), args->a[1]);
}

/* lremovexattr(path, name) */
long sys_lremovexattr(const struct syscall_args *args)
{
	return drop(inode_of(-1, args->a[0], WALK_NOFOLLOW), args->a[1]);
}

/* fremovexattr(fd, name) */
long sys_fremovexattr(const struct syscall_args *args)
{
	return drop(inode_of_fd(args->a[0]), args->a[1]);
}
