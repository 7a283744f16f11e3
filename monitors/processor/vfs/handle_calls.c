/* SPDX-License-Identifier: MIT */
/*
 * name_to_handle_at, open_by_handle_at: names of files that do not depend on paths.
 *
 * Flow:	the file system makes a handle of an inode, and finds the inode of one. A handle
 *		comes from a program: the file system checks every byte of it.
 * Failure:	a handle that leads to no file (any more) is ESTALE, whatever is wrong with it.
 * Limits:	AT_HANDLE_CONNECTABLE answers EINVAL. A file that is opened by a handle has the
 *		path "/", as on Linux one that nothing has walked to.
 */
#include <abi/fcntl.h>
#include <abi/mount.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "file.h"
#include "mount_private.h"

#define MAX_HANDLE_SZ 128u
#define TYPE_INO64    0x81u /* of a file system that knows no handles: not to be opened */
#define HANDLE_AT_FLAGS \
	(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH | AT_HANDLE_FID | AT_HANDLE_MNT_ID_UNIQUE)

struct file_handle { /* then the bytes */
	uint32_t bytes;
	int32_t type;
};

/* --- the handle of a file ------------------------------------------------------------- */

static int make_handle(const struct path *at, uint32_t flags, struct fs_handle *h)
{
	const uint64_t ino = at->attr.file.ino;

	if (at->inode->type->handle)
		return at->inode->type->handle(at->inode, h);
	if (!(flags & AT_HANDLE_FID))
		return -EOPNOTSUPP;
	*h = (struct fs_handle){ .type = TYPE_INO64, .len = sizeof(ino) + sizeof(uint32_t) };
	memcpy(h->bytes, &ino, sizeof(ino));
	return 0;
}

static int put_mount_id(const struct path *at, bool is_unique, uint64_t user)
{
	const uint32_t id = at->mnt ? at->mnt->id : 0;

	if (is_unique)
		return put_user_u64(MNT_UNIQUE_ID_OFFSET + id, (void __user *)user);
	return put_user_u32(id, (void __user *)user);
}

static int put_handle(const struct path *at, uint32_t flags, uint64_t uhandle, uint64_t umount)
{
	struct file_handle head;
	struct fs_handle h;
	int err = make_handle(at, flags, &h);

	if (err)
		return err;
	if (copy_from_user(&head, (const void __user *)uhandle, sizeof(head)))
		return -EFAULT;
	if (head.bytes > MAX_HANDLE_SZ)
		return -EINVAL;
	if (head.bytes < h.len)
		err = -EOVERFLOW; /* the program learns how many bytes it takes */
	head = (struct file_handle){ .bytes = h.len, .type = (int32_t)h.type };
	if (put_mount_id(at, flags & AT_HANDLE_MNT_ID_UNIQUE, umount) ||
	    copy_to_user((void __user *)uhandle, &head, sizeof(head)))
		return -EFAULT;
	if (!err && copy_to_user((void __user *)(uhandle + sizeof(head)), h.bytes, h.len))
		return -EFAULT;
	return err;
}

/* name_to_handle_at(dfd, path, handle, mount_id, flags) */
long sys_name_to_handle_at(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[4];
	struct walk_result res;
	int err;

	if (flags & ~HANDLE_AT_FLAGS)
		return -EINVAL;
	err = at_walk((int)args->a[0], args->a[1],
		      (flags & AT_EMPTY_PATH ? WALK_EMPTY : 0) |
			      (flags & AT_SYMLINK_FOLLOW ? 0 : WALK_NOFOLLOW),
		      0, &res);
	if (err)
		return err;
	err = put_handle(&res.at, flags, args->a[2], args->a[3]);
	walk_result_put(&res);
	return err;
}

/* --- the file of a handle ------------------------------------------------------------- */

/* The mount that descriptor @fd, or the working directory, is behind; referenced, or NULL. */
static int mount_of(int fd, struct mount **out)
{
	struct path cwd;
	struct file *f;
	int err;

	if (fd == AT_FDCWD) {
		err = fs_state_cwd(fs_current(), &cwd);
		if (err)
			return err;
		*out = cwd.mnt;
		if (*out)
			mount_get(*out);
		path_put(&cwd);
		return 0;
	}
	f = fd_get(fd);
	if (IS_ERR(f))
		return PTR_ERR(f);
	*out = f->mnt;
	if (*out)
		mount_get(*out);
	file_put(f);
	return 0;
}

static int get_handle(uint64_t user, struct fs_handle *h)
{
	struct file_handle head;
	uint8_t bytes[MAX_HANDLE_SZ];

	if (copy_from_user(&head, (const void __user *)user, sizeof(head)))
		return -EFAULT;
	if (!head.bytes || head.bytes > MAX_HANDLE_SZ || head.type < 0 || head.type > 0xffff)
		return -EINVAL;
	if (copy_from_user(bytes, (const void __user *)(user + sizeof(head)), head.bytes))
		return -EFAULT;
	*h = (struct fs_handle){ .type = (uint32_t)head.type,
				 .len = MIN(head.bytes, FS_HANDLE_MAX) };
	memcpy(h->bytes, bytes, h->len);
	return 0;
}

static struct file *open_handle(struct mount *mnt, const struct fs_handle *h, uint32_t flags)
{
	struct path at = { .mnt = mnt };
	struct file *f;
	int err;

	if (!mnt || !mnt->type->by_handle)
		return ERR_PTR(-ESTALE);
	err = mnt->type->by_handle(mnt->type, h, &at.inode);
	if (err)
		return ERR_PTR(err);
	err = inode_getattr(at.inode, &at.attr);
	if (!err && (flags & O_DIRECTORY) && !inode_is_dir(at.inode))
		err = -ENOTDIR;
	if (err) {
		inode_put(at.inode);
		return ERR_PTR(err);
	}
	at.text = kstrdup("/");
	f = at.text ? path_open_found(&at, flags) : ERR_PTR(-ENOMEM);
	kfree(at.text);
	inode_put(at.inode);
	return f;
}

static long open_at_mount(struct mount *mnt, uint64_t uhandle, uint32_t flags)
{
	struct files *fs = files_current();
	struct fs_handle h;
	long fd;

	if (!capable(CAP_DAC_READ_SEARCH))
		return -EPERM;
	fd = get_handle(uhandle, &h);
	if (fd)
		return fd;
	fd = files_reserve(fs, 0, flags & O_CLOEXEC);
	return fd < 0 ? fd : files_finish(fs, (int)fd, open_handle(mnt, &h, flags));
}

/* open_by_handle_at(mount_fd, handle, flags) */
long sys_open_by_handle_at(const struct syscall_args *args)
{
	uint32_t flags = (uint32_t)args->a[2];
	struct mount *mnt = NULL;
	long fd;

	if (flags & O_PATH)
		flags &= O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC;
	else if ((flags & O_ACCMODE) == O_ACCMODE || (flags & O_CREAT))
		return -EINVAL;
	fd = mount_of((int)args->a[0], &mnt);
	if (fd)
		return fd;
	fd = open_at_mount(mnt, args->a[1], flags);
	mount_put(mnt);
	return fd;
}
