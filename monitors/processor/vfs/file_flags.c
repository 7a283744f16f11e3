/* SPDX-License-Identifier: MIT */
/*
 * Flags of files (chattr, lsattr): immutable, append only, not to be dumped.
 *
 * Flow:	the file system keeps them, as file_attr.attrs; the calls that change files and
 *		directories ask there: attr_is_fixed() and inode_permission() for most of them,
 *		check_append() for open, set_flags() for F_SETFL, sys_ftruncate(), check_flags() for
 *		fallocate, file_may_share() for mmap, may_create() and may_remove() for names.
 *		File systems ask again where flags are set, and storage nodes in all changes.
 * Ordering:	checks come in Linux's order.
 * Limits:	other flags of ext4 are neither told nor set. As on Linux's tmpfs, a descriptor that
 *		was open for writing before stays so; ext4 of Linux refuses writes through it.
 */
#include "file_flags.h"

#include <abi/ioctl.h>
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <processor/process/process.h>

#include "at_private.h"
#include "file.h"
#include "inode.h"

static bool has_flags(const struct inode *inode)
{
	return inode && (inode->mode == S_IFREG || inode->mode == S_IFDIR) &&
	       inode->type->keeps_flags && inode->ops->setattr;
}

static int set_flags(struct inode *inode, uint32_t flags)
{
	struct attr_change ch = { .valid = ATTR_FLAGS, .flags = flags };
	struct file_attr attr;
	struct fs_cred cred;
	int err = inode_getattr(inode, &attr);

	if (err)
		return err;
	process_cred(&cred);
	if (!attr_is_own(&cred, &attr) && !capable(CAP_FOWNER))
		return -EPERM;
	if (capable(CAP_LINUX_IMMUTABLE))
		ch.valid |= ATTR_GUARDED;
	else if ((flags ^ attr.attrs) & FLAGS_GUARDED)
		return -EPERM;
	if (flags & ~FILE_ATTRS)
		return -EOPNOTSUPP;
	return inode->ops->setattr(inode, &ch);
}

int file_may_share(const struct file *f)
{
	struct file_attr attr;
	int err;

	if (!file_writable(f) || !f->inode || !f->inode->type->keeps_flags)
		return 0;
	err = inode_getattr(f->inode, &attr);
	if (err)
		return err;
	return attr.attrs & STATX_ATTR_APPEND ? -EACCES : 0;
}

long file_flags_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	struct file_attr attr;
	uint32_t flags;
	int err;

	if (cmd == FS_IOC_GETFLAGS) {
		if (!has_flags(f->inode))
			return -ENOTTY;
		err = inode_getattr(f->inode, &attr);
		return err ? err : put_user_u32(attr.attrs, (void __user *)arg);
	}
	if (get_user_u32(&flags, (const void __user *)arg))
		return -EFAULT;
	if (!has_flags(f->inode))
		return -ENOTTY;
	err = mount_writable(f->mnt, f->inode);
	return err ? err : set_flags(f->inode, flags);
}
