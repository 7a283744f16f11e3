/* SPDX-License-Identifier: MIT */
/*
 * System calls that take paths: open, stat and its kin, access, readlink, chdir, getcwd, statfs, and those
 * that would change the file system (EROFS, after the checks that Linux makes first).
 */
#include <arch/uaccess.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/file.h>
#include <processor/process.h>
#include <processor/remote.h>
#include <processor/syscall.h>

#define AT_FDCWD            (-100)
#define AT_SYMLINK_NOFOLLOW 0x100u
#define AT_EACCESS          0x200u
#define AT_REMOVEDIR        0x200u
#define AT_SYMLINK_FOLLOW   0x400u
#define AT_NO_AUTOMOUNT     0x800u
#define AT_EMPTY_PATH       0x1000u
#define AT_STATX_SYNC_TYPE  0x6000u

/* --- open ---------------------------------------------------------------------------- */

static long do_open(int dfd, uint64_t upath, uint32_t flags, uint32_t mode)
{
	char *path = path_from_user(dfd, upath, false);
	struct file *f;
	int fd;

	if (IS_ERR(path))
		return PTR_ERR(path);
	f = path_open(path, flags, mode);
	kfree(path);
	if (IS_ERR(f))
		return PTR_ERR(f);
	fd = files_install(files_current(), f, 0, flags & O_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* open(path, flags, mode) */
long sys_open(const struct syscall_args *args)
{
	return do_open(AT_FDCWD, args->a[0], (uint32_t)args->a[1], (uint32_t)args->a[2]);
}

/* openat(dfd, path, flags, mode) */
long sys_openat(const struct syscall_args *args)
{
	return do_open((int)args->a[0], args->a[1], (uint32_t)args->a[2], (uint32_t)args->a[3]);
}

/* creat(path, mode) */
long sys_creat(const struct syscall_args *args)
{
	return do_open(AT_FDCWD, args->a[0], O_CREAT | O_WRONLY | O_TRUNC, (uint32_t)args->a[1]);
}

/* --- stat ---------------------------------------------------------------------------- */

struct stat_user {
	uint64_t dev, ino, nlink;
	uint32_t mode, uid, gid, pad;
	uint64_t rdev;
	int64_t size, blksize, blocks;
	uint64_t atime, atime_ns, mtime, mtime_ns, ctime, ctime_ns;
	int64_t unused[3];
};
static_assert(sizeof(struct stat_user) == 144, "struct stat is ABI");

struct statx_time {
	int64_t sec;
	uint32_t nsec;
	int32_t pad;
};

struct statx_user {
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, pad;
	uint64_t ino, size, blocks, attributes_mask;
	struct statx_time atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t spare[14];
};
static_assert(sizeof(struct statx_user) == 256, "struct statx is ABI");

#define STATX_BASIC_STATS 0x7ffu
#define STATX_BTIME       0x800u

static uint64_t dev_of(const struct proto_attr *a)
{
	return a->fsid & 0xffff;
}

static long put_stat(uint64_t ubuf, const struct proto_attr *a)
{
	const struct stat_user st = {
		.dev = dev_of(a),
		.ino = a->file.ino,
		.nlink = a->nlink,
		.mode = a->mode,
		.uid = a->uid,
		.gid = a->gid,
		.rdev = a->rdev,
		.size = (int64_t)a->size,
		.blksize = a->blksize,
		.blocks = (int64_t)a->blocks,
		.atime = (uint64_t)a->atime_s,
		.atime_ns = a->atime_ns,
		.mtime = (uint64_t)a->mtime_s,
		.mtime_ns = a->mtime_ns,
		.ctime = (uint64_t)a->ctime_s,
		.ctime_ns = a->ctime_ns,
	};

	return copy_to_user((void __user *)ubuf, &st, sizeof(st));
}

/* A copy of the working directory's path, which another task may change meanwhile; NULL: no memory. */
static char *cwd_dup(void)
{
	struct fs_info *fs = fs_current();
	char *cwd;

	mutex_lock(&fs->lock);
	cwd = kstrdup(fs->cwd);
	mutex_unlock(&fs->lock);
	return cwd;
}

/* Attributes of what (@dfd, @upath, AT_* @flags) names. */
static int stat_at(int dfd, uint64_t upath, uint32_t flags, struct proto_attr *attr)
{
	char *path;
	struct file *f;
	int err;

	path = path_from_user(dfd, upath, flags & AT_EMPTY_PATH);
	if (IS_ERR(path))
		return PTR_ERR(path);
	if (path[0]) {
		err = path_lookup(path, (flags & AT_SYMLINK_NOFOLLOW) ? PS_LOOKUP_NOFOLLOW : 0, 0,
				  attr, NULL);
	} else if (dfd == AT_FDCWD) {
		char *cwd = cwd_dup();

		err = cwd ? path_lookup(cwd, 0, 0, attr, NULL) : -ENOMEM;
		kfree(cwd);
	} else {
		f = fd_get(dfd);
		err = IS_ERR(f) ? PTR_ERR(f) : f->ops->stat(f, attr);
		if (!IS_ERR(f))
			file_put(f);
	}
	kfree(path);
	return err;
}

static long do_stat(int dfd, uint64_t upath, uint32_t flags, uint64_t ubuf)
{
	struct proto_attr attr;
	const int err = stat_at(dfd, upath, flags, &attr);

	return err ? err : put_stat(ubuf, &attr);
}

/* stat(path, buf) */
long sys_stat(const struct syscall_args *args)
{
	return do_stat(AT_FDCWD, args->a[0], 0, args->a[1]);
}

/* lstat(path, buf) */
long sys_lstat(const struct syscall_args *args)
{
	return do_stat(AT_FDCWD, args->a[0], AT_SYMLINK_NOFOLLOW, args->a[1]);
}

/* newfstatat(dfd, path, buf, flags) */
long sys_newfstatat(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[3];

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH))
		return -EINVAL;
	return do_stat((int)args->a[0], args->a[1], flags, args->a[2]);
}

/* fstat(fd, buf) */
long sys_fstat(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	struct proto_attr attr;
	int err;

	if (IS_ERR(f))
		return PTR_ERR(f);
	err = f->ops->stat(f, &attr);
	file_put(f);
	return err ? err : put_stat(args->a[1], &attr);
}

/* statx(dfd, path, flags, mask, buf) */
long sys_statx(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[2];
	struct statx_user sx = { 0 };
	struct proto_attr a;
	int err;

	if ((flags &
	     ~(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE)) ||
	    (flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE || ((uint32_t)args->a[3] >> 31))
		return -EINVAL;
	err = stat_at((int)args->a[0], args->a[1], flags, &a);
	if (err)
		return err;
	sx.mask = STATX_BASIC_STATS | (a.btime_s ? STATX_BTIME : 0);
	sx.blksize = a.blksize;
	sx.nlink = a.nlink;
	sx.uid = a.uid;
	sx.gid = a.gid;
	sx.mode = (uint16_t)a.mode;
	sx.ino = a.file.ino;
	sx.size = a.size;
	sx.blocks = a.blocks;
	sx.atime = (struct statx_time){ .sec = a.atime_s, .nsec = a.atime_ns };
	sx.btime = (struct statx_time){ .sec = a.btime_s, .nsec = a.btime_ns };
	sx.ctime = (struct statx_time){ .sec = a.ctime_s, .nsec = a.ctime_ns };
	sx.mtime = (struct statx_time){ .sec = a.mtime_s, .nsec = a.mtime_ns };
	sx.rdev_major = (a.rdev >> 8) & 0xfff;
	sx.rdev_minor = (a.rdev & 0xff) | ((a.rdev >> 12) & 0xfff00);
	sx.dev_major = (uint32_t)(dev_of(&a) >> 8);
	sx.dev_minor = (uint32_t)(dev_of(&a) & 0xff);
	return copy_to_user((void __user *)args->a[4], &sx, sizeof(sx));
}

/* --- access, readlink ---------------------------------------------------------------- */

/* AT_EMPTY_PATH: the file behind a descriptor; what has no path (a stream) is the caller's own. */
static int access_fd(const struct proto_cred *cred, int dfd, uint32_t mode)
{
	struct file *f;
	char *cwd;
	int err;

	if (dfd == AT_FDCWD) {
		cwd = cwd_dup();
		err = cwd ? remote_access(cred, cwd, mode, 0) : -ENOMEM;
		kfree(cwd);
		return err;
	}
	f = fd_get(dfd);
	if (IS_ERR(f))
		return PTR_ERR(f);
	if (!f->path || !f->attr.file.node)
		err = (mode & 1) ? -EACCES : 0;
	else
		err = remote_access(cred, f->path, mode, PS_LOOKUP_NOFOLLOW);
	file_put(f);
	return err;
}

static long do_access(int dfd, uint64_t upath, uint32_t mode, uint32_t flags)
{
	struct proto_cred cred;
	struct proto_attr attr;
	char *path;
	int err;

	if ((mode & ~7u) || (flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)))
		return -EINVAL;
	path = path_from_user(dfd, upath, flags & AT_EMPTY_PATH);
	if (IS_ERR(path))
		return PTR_ERR(path);
	process_cred(&cred);
	if (!path[0])
		err = access_fd(&cred, dfd, mode);
	else if (dev_stat(path, &attr) == 0)
		err = (mode & 1) ? -EACCES : 0;
	else
		err = remote_access(&cred, path, mode,
				    (flags & AT_SYMLINK_NOFOLLOW) ? PS_LOOKUP_NOFOLLOW : 0);
	kfree(path);
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

static ssize_t link_target(const char *path, char *buf)
{
	struct process *p = process_current();
	struct proto_attr attr;
	struct proto_cred cred;

	if (dev_stat(path, &attr) == 0)
		return -EINVAL; /* no link */
	if (strcmp(path, "/proc/self/exe") == 0) {
		mutex_lock(&p->lock);
		strlcpy(buf, p->exe_path, PROTO_PATH_MAX);
		mutex_unlock(&p->lock);
		return (ssize_t)strlen(buf);
	}
	process_cred(&cred);
	return remote_readlink(&cred, path, buf, PROTO_PATH_MAX);
}

static long do_readlink(int dfd, uint64_t upath, uint64_t ubuf, int size)
{
	char *path, *target;
	ssize_t len;

	if (size <= 0)
		return -EINVAL;
	path = path_from_user(dfd, upath, false);
	if (IS_ERR(path))
		return PTR_ERR(path);
	target = kmalloc(PROTO_PATH_MAX);
	len = target ? link_target(path, target) : -ENOMEM;
	if (len > 0) {
		len = MIN(len, (ssize_t)size);
		if (copy_to_user((void __user *)ubuf, target, (size_t)len))
			len = -EFAULT;
	}
	kfree(target);
	kfree(path);
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

/* Takes over @cwd. */
static void set_cwd(char *cwd)
{
	struct fs_info *fs = fs_current();
	char *old;

	mutex_lock(&fs->lock);
	old = fs->cwd;
	fs->cwd = cwd;
	mutex_unlock(&fs->lock);
	kfree(old);
}

/* chdir(path) */
long sys_chdir(const struct syscall_args *args)
{
	char *path = path_from_user(AT_FDCWD, args->a[0], false);
	char *realpath;
	struct proto_attr attr;
	int err = -ENOMEM;

	if (IS_ERR(path))
		return PTR_ERR(path);
	realpath = kmalloc(PROTO_PATH_MAX);
	if (realpath)
		err = path_lookup(path, PS_LOOKUP_DIRECTORY, 1, &attr, realpath);
	kfree(path);
	if (err)
		kfree(realpath);
	else
		set_cwd(realpath);
	return err;
}

/* fchdir(fd) */
long sys_fchdir(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	struct proto_attr attr;
	char *path = NULL;
	int err = 0;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if ((f->attr.mode & 0170000) != 0040000 || !f->path)
		err = -ENOTDIR;
	else if (!(path = kmalloc(PROTO_PATH_MAX)))
		err = -ENOMEM;
	else
		strlcpy(path, f->path, PROTO_PATH_MAX);
	file_put(f);
	if (!err)
		err = path_lookup(path, PS_LOOKUP_DIRECTORY, 1, &attr, NULL); /* may we enter it? */
	if (err)
		kfree(path);
	else
		set_cwd(path);
	return err;
}

/* getcwd(buf, size): the length with its NUL */
long sys_getcwd(const struct syscall_args *args)
{
	char *cwd = cwd_dup();
	size_t len;
	long ret;

	if (!cwd)
		return -ENOMEM;
	len = strlen(cwd) + 1;
	if (len > args->a[1])
		ret = -ERANGE;
	else
		ret = copy_to_user((void __user *)args->a[0], cwd, len) ? -EFAULT : (long)len;
	kfree(cwd);
	return ret;
}

/* umask(mask) */
long sys_umask(const struct syscall_args *args)
{
	struct fs_info *fs = fs_current();
	uint32_t old;

	mutex_lock(&fs->lock);
	old = fs->umask;
	fs->umask = (uint32_t)args->a[0] & 0777;
	mutex_unlock(&fs->lock);
	return old;
}

/* --- statfs -------------------------------------------------------------------------- */

struct statfs_user {
	int64_t type, bsize;
	uint64_t blocks, bfree, bavail, files, ffree;
	int32_t fsid[2];
	int64_t namelen, frsize, flags, spare[4];
};
static_assert(sizeof(struct statfs_user) == 120, "struct statfs is ABI");

static long put_statfs(const struct proto_file *file, uint64_t ubuf)
{
	struct ps_statfs st;
	struct statfs_user u = { 0 };
	const int err = remote_statfs(file, &st);

	if (err)
		return err;
	u.type = (int64_t)st.type;
	u.bsize = (int64_t)st.bsize;
	u.frsize = (int64_t)st.bsize;
	u.blocks = st.blocks;
	u.bfree = st.bfree;
	u.bavail = st.bavail;
	u.files = st.files;
	u.ffree = st.ffree;
	u.fsid[0] = (int32_t)st.fsid;
	u.fsid[1] = (int32_t)(st.fsid >> 32);
	u.namelen = (int64_t)st.namelen;
	u.flags = (int64_t)st.flags;
	return copy_to_user((void __user *)ubuf, &u, sizeof(u));
}

/* statfs(path, buf) */
long sys_statfs(const struct syscall_args *args)
{
	char *path = path_from_user(AT_FDCWD, args->a[0], false);
	struct proto_attr attr;
	int err;

	if (IS_ERR(path))
		return PTR_ERR(path);
	err = path_lookup(path, 0, 0, &attr, NULL);
	kfree(path);
	if (!err && !attr.file.node)
		err = -ENOSYS; /* a file that the kernel itself provides */
	return err ? err : put_statfs(&attr.file, args->a[1]);
}

/* fstatfs(fd, buf) */
long sys_fstatfs(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = f->attr.file.node ? put_statfs(&f->attr.file, args->a[1]) : -ENOSYS;
	file_put(f);
	return ret;
}

/* --- calls that change the file system ----------------------------------------------- */

enum change_kind {
	MUST_EXIST,     /* ENOENT unless it is there */
	MUST_NOT_EXIST, /* EEXIST if it is there */
};

/* EROFS, unless the path itself is wrong. */
static long change(int dfd, uint64_t upath, enum change_kind kind)
{
	char *path = path_from_user(dfd, upath, false);
	struct proto_attr attr;
	char *slash;
	int err;

	if (IS_ERR(path))
		return PTR_ERR(path);
	err = path_lookup(path, PS_LOOKUP_NOFOLLOW, 0, &attr, NULL);
	if (err == 0) {
		err = kind == MUST_NOT_EXIST ? -EEXIST : -EROFS;
	} else if (err == -ENOENT && kind == MUST_NOT_EXIST) {
		slash = strrchr(path, '/');
		/* A trailing slash names the directory to be made. */
		while (slash > path && slash[1] == '\0') {
			*slash = '\0';
			slash = strrchr(path, '/');
		}
		slash[slash == path ? 1 : 0] = '\0';
		err = path_lookup(path, PS_LOOKUP_DIRECTORY, 1, &attr, NULL);
		err = err ? err : -EROFS;
	}
	kfree(path);
	return err;
}

#define CHANGE_CALL(call, dfd, path, kind)               \
	long sys_##call(const struct syscall_args *args) \
	{                                                \
		return change(dfd, args->a[path], kind); \
	}

CHANGE_CALL(truncate, AT_FDCWD, 0, MUST_EXIST)
CHANGE_CALL(rename, AT_FDCWD, 0, MUST_EXIST)
CHANGE_CALL(mkdir, AT_FDCWD, 0, MUST_NOT_EXIST)
CHANGE_CALL(rmdir, AT_FDCWD, 0, MUST_EXIST)
CHANGE_CALL(link, AT_FDCWD, 0, MUST_EXIST)
CHANGE_CALL(unlink, AT_FDCWD, 0, MUST_EXIST)
CHANGE_CALL(symlink, AT_FDCWD, 1, MUST_NOT_EXIST)
CHANGE_CALL(chmod, AT_FDCWD, 0, MUST_EXIST)
CHANGE_CALL(chown, AT_FDCWD, 0, MUST_EXIST)
CHANGE_CALL(lchown, AT_FDCWD, 0, MUST_EXIST)
CHANGE_CALL(utimes, AT_FDCWD, 0, MUST_EXIST)
CHANGE_CALL(mkdirat, (int)args->a[0], 1, MUST_NOT_EXIST)
CHANGE_CALL(futimesat, (int)args->a[0], 1, MUST_EXIST)
CHANGE_CALL(unlinkat, (int)args->a[0], 1, MUST_EXIST)
CHANGE_CALL(renameat, (int)args->a[0], 1, MUST_EXIST)
CHANGE_CALL(renameat2, (int)args->a[0], 1, MUST_EXIST)
CHANGE_CALL(linkat, (int)args->a[0], 1, MUST_EXIST)
CHANGE_CALL(symlinkat, (int)args->a[1], 2, MUST_NOT_EXIST)
CHANGE_CALL(fchmodat, (int)args->a[0], 1, MUST_EXIST)

/* utimensat(dfd, path, times, flags): a NULL path means the descriptor itself */
long sys_utimensat(const struct syscall_args *args)
{
	struct file *f;

	if (args->a[1])
		return change((int)args->a[0], args->a[1], MUST_EXIST);
	f = fd_get((int)args->a[0]);
	if (IS_ERR(f))
		return PTR_ERR(f);
	file_put(f);
	return -EROFS;
}
/* getxattr(path, name, buf, size): files here have no extended attributes */
long sys_getxattr(const struct syscall_args *args)
{
	struct proto_attr attr;
	const int err = stat_at(AT_FDCWD, args->a[0], 0, &attr);

	return err ? err : -EOPNOTSUPP;
}
