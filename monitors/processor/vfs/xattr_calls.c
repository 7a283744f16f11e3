/* SPDX-License-Identifier: MIT */
/*
 * Extended attributes: no file system here has any. Lists are empty, and the rest answers
 * EOPNOTSUPP once the file has been found, as Linux does for such a file system.
 */
#include <lib/err.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "file.h"

static long by_path(uint64_t upath, uint32_t walk, long answer)
{
	struct walk_result res;
	const int err = at_walk(AT_FDCWD, upath, walk, 0, &res);

	if (err)
		return err;
	walk_result_put(&res);
	return answer;
}

static long by_fd(int fd, long answer)
{
	struct file *f = fd_get(fd);
	bool path;

	if (IS_ERR(f))
		return PTR_ERR(f);
	path = f->flags & O_PATH;
	file_put(f);
	return path ? -EBADF : answer;
}

/* getxattr(path, name, buf, size); setxattr and removexattr are the same */
long sys_getxattr(const struct syscall_args *args)
{
	return by_path(args->a[0], 0, -EOPNOTSUPP);
}

/* lgetxattr(path, name, buf, size); lsetxattr and lremovexattr are the same */
long sys_lgetxattr(const struct syscall_args *args)
{
	return by_path(args->a[0], WALK_NOFOLLOW, -EOPNOTSUPP);
}

/* fgetxattr(fd, name, buf, size); fsetxattr and fremovexattr are the same */
long sys_fgetxattr(const struct syscall_args *args)
{
	return by_fd((int)args->a[0], -EOPNOTSUPP);
}

/* listxattr(path, buf, size) */
long sys_listxattr(const struct syscall_args *args)
{
	return by_path(args->a[0], 0, 0);
}

/* llistxattr(path, buf, size) */
long sys_llistxattr(const struct syscall_args *args)
{
	return by_path(args->a[0], WALK_NOFOLLOW, 0);
}

/* flistxattr(fd, buf, size) */
long sys_flistxattr(const struct syscall_args *args)
{
	return by_fd((int)args->a[0], 0);
}
