/* SPDX-License-Identifier: MIT */
/*
 * System calls that make, remove and rename files.
 *
 * Ordering:	checks are made in Linux's order. On a read-only file system a name that exists and
 *		should not answers EEXIST, the rest EROFS.
 * Failure:	permissions are checked on the inode that a name stands for.  If the name stands for
 *		another one by the time of the change, the file system answers -EAGAIN, and the call
 *		looks again.
 */
#include <abi/fcntl.h>
#include <fs/access.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "file.h"
#include "mount_private.h"
#include "notify.h"

/* The last component of a path that is no name of an entry. */
static bool is_special(const char *name)
{
	return !name[0] || !strcmp(name, ".") || !strcmp(name, "..");
}

/* --- making -------------------------------------------------------------------------- */

/* Is there something of that name already? 0: no. */
static int check_absent(const struct walk_base *base, struct walk_result *res, bool dir)
{
	int err;

	if (is_special(res->name) || res->mount_point)
		return -EEXIST;
	err = path_walk_last(base, res);
	if (!err)
		return -EEXIST;
	if (err != -ENOENT)
		return err;
	return res->slash && !dir ? -ENOENT : 0;
}

/* Number 0 is how an overlay marks what it hides: everybody may make it. */
static bool may_make(uint32_t mode, uint32_t rdev)
{
	const uint32_t type = mode & S_IFMT;

	return (type != S_IFCHR && type != S_IFBLK) || (type == S_IFCHR && !rdev) ||
	       capable(CAP_MKNOD);
}

/* *@out, unless @out is NULL, is the new inode, referenced. */
static int create_in(const struct at_path *at, struct walk_result *res, struct new_inode *how,
		     uint32_t mode, struct inode **out)
{
	struct inode *dir = res->parent.inode;
	int err = check_absent(&at->base, res, (mode & S_IFMT) == S_IFDIR);

	if (err)
		return err;
	if (!dir->ops->create)
		return create_error(dir);
	err = mount_writable(res->parent.mnt, dir);
	if (err)
		return err;
	err = may_create(&at->cred, &res->parent);
	if (!err && !may_make(mode, how->rdev))
		err = -EPERM;
	if (err)
		return err;
	how->name = res->name;
	how->len = strlen(res->name);
	new_owner(how, &at->cred, &res->parent.attr, mode);
	err = dir->ops->create(dir, how, out);
	if (!err)
		notify_created(dir, res->name, (mode & S_IFMT) == S_IFDIR);
	return err;
}

/* Make a file of @mode, which has its type; @how may have a target or a device number. */
static int create_at(int dfd, uint64_t upath, struct new_inode *how, uint32_t mode)
{
	struct walk_result res;
	struct at_path at;
	int err = at_get(&at, dfd, upath, false);

	if (err)
		return err;
	err = path_walk_parent(&at.base, at.text, &res);
	if (!err) {
		err = create_in(&at, &res, how, mode, NULL);
		walk_result_put(&res);
	}
	at_put(&at);
	return err;
}

int path_make_node(const char *text, uint32_t mode, struct inode **out)
{
	struct new_inode how = { 0 };
	struct walk_result res;
	struct at_path at;
	int err = at_text(&at, text);

	if (err)
		return err;
	err = path_walk_parent(&at.base, at.text, &res);
	if (!err) {
		err = create_in(&at, &res, &how, mode, out);
		walk_result_put(&res);
	}
	at_put(&at);
	return err;
}

static long do_mkdir(int dfd, uint64_t upath, uint32_t mode)
{
	struct new_inode how = { 0 };

	return create_at(dfd, upath, &how, S_IFDIR | (mode & 01777));
}

/* mkdir(path, mode) */
long sys_mkdir(const struct syscall_args *args)
{
	return do_mkdir(AT_FDCWD, args->a[0], (uint32_t)args->a[1]);
}

/* mkdirat(dfd, path, mode) */
long sys_mkdirat(const struct syscall_args *args)
{
	return do_mkdir((int)args->a[0], args->a[1], (uint32_t)args->a[2]);
}

/* A device is a number, which means what it means in /dev, or nothing. */
static long do_mknod(int dfd, uint64_t upath, uint32_t mode, uint32_t rdev)
{
	struct new_inode how = { 0 };

	switch (mode & S_IFMT) {
	case 0:
		mode |= S_IFREG;
		break;
	case S_IFREG:
	case S_IFIFO:
	case S_IFSOCK:
		break;
	case S_IFCHR:
	case S_IFBLK:
		how.rdev = rdev;
		break;
	case S_IFDIR:
		return -EPERM;
	default:
		return -EINVAL;
	}
	return create_at(dfd, upath, &how, mode & (S_IFMT | 07777));
}

/* mknod(path, mode, dev) */
long sys_mknod(const struct syscall_args *args)
{
	return do_mknod(AT_FDCWD, args->a[0], (uint32_t)args->a[1], (uint32_t)args->a[2]);
}

/* mknodat(dfd, path, mode, dev) */
long sys_mknodat(const struct syscall_args *args)
{
	return do_mknod((int)args->a[0], args->a[1], (uint32_t)args->a[2], (uint32_t)args->a[3]);
}

static long do_symlink(uint64_t utarget, int dfd, uint64_t upath)
{
	struct new_inode how = { 0 };
	struct at_path target;
	int err = at_get(&target, AT_FDCWD, utarget, false);

	if (err)
		return err;
	how.target = target.text;
	how.target_len = strlen(target.text);
	err = create_at(dfd, upath, &how, S_IFLNK | 0777);
	at_put(&target);
	return err;
}

/* symlink(target, path) */
long sys_symlink(const struct syscall_args *args)
{
	return do_symlink(args->a[0], AT_FDCWD, args->a[1]);
}

/* symlinkat(target, dfd, path) */
long sys_symlinkat(const struct syscall_args *args)
{
	return do_symlink(args->a[0], (int)args->a[1], args->a[2]);
}

/* --- link ---------------------------------------------------------------------------- */

static int link_in(const struct at_path *to, struct walk_result *res, const struct path *old)
{
	struct inode *dir = res->parent.inode;
	int err = check_absent(&to->base, res, false);

	if (err)
		return err;
	if (old->mnt != res->parent.mnt || old->inode->type != dir->type)
		return -EXDEV;
	err = mount_writable(res->parent.mnt, dir);
	if (!err)
		err = may_create(&to->cred, &res->parent);
	if (err)
		return err;
	if (!dir->ops->link || inode_is_dir(old->inode) || attr_is_fixed(&old->attr))
		return -EPERM;
	err = dir->ops->link(dir, res->name, strlen(res->name), old->inode);
	if (!err && notify_is_on())
		notify_entry_slow(dir, res->name, old->inode, false, IN_CREATE);
	return err;
}

static long do_link(int olddfd, uint64_t uold, int newdfd, uint64_t unew, uint32_t flags)
{
	struct walk_result old, new;
	struct at_path to;
	uint32_t walk = (flags & AT_SYMLINK_FOLLOW) ? 0 : WALK_NOFOLLOW;
	int err;

	if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	err = at_get(&to, newdfd, unew, false);
	if (err)
		return err;
	if (flags & AT_EMPTY_PATH) {
		/*
		 * Only for user 0: a descriptor that was passed on must not become a
		 * name.
		 */
		if (fs_cred_is_root(&to.cred))
			walk |= WALK_EMPTY;
	}
	err = at_walk(olddfd, uold, walk, 0, &old);
	if (err)
		goto out;
	err = path_walk_parent(&to.base, to.text, &new);
	if (!err) {
		err = link_in(&to, &new, &old.at);
		walk_result_put(&new);
	}
	walk_result_put(&old);
out:
	at_put(&to);
	return err;
}

/* link(old, new) */
long sys_link(const struct syscall_args *args)
{
	return do_link(AT_FDCWD, args->a[0], AT_FDCWD, args->a[1], 0);
}

/* linkat(olddfd, old, newdfd, new, flags) */
long sys_linkat(const struct syscall_args *args)
{
	return do_link((int)args->a[0], args->a[1], (int)args->a[2], args->a[3],
		       (uint32_t)args->a[4]);
}

/* --- removing ------------------------------------------------------------------------ */

static int check_name_removable(const char *name, bool rmdir)
{
	if (!is_special(name))
		return 0;
	if (!rmdir)
		return -EISDIR;
	return !name[0] ? -EBUSY : !strcmp(name, ".") ? -EINVAL : -ENOTEMPTY;
}

/* Once: -EAGAIN when the name was somebody else's by the time it was to be removed. */
static int remove_once(const struct at_path *at, struct walk_result *res, bool rmdir)
{
	struct inode *dir = res->parent.inode;
	bool is_dir;
	int err = check_name_removable(res->name, rmdir);

	if (!err && !res->mount_point)
		err = mount_writable(res->parent.mnt, dir);
	if (!err)
		err = path_walk_last(&at->base, res);
	if (err)
		return err;
	is_dir = (res->at.attr.mode & S_IFMT) == S_IFDIR;
	if (!rmdir && res->slash)
		return is_dir ? -EISDIR : -ENOTDIR;
	if (res->mount_point && is_dir == rmdir)
		return -EBUSY;
	if (!dir->ops->remove)
		return -EPERM;
	err = may_remove(&at->cred, &res->parent, &res->at.attr);
	if (err)
		return err;
	if (rmdir != is_dir)
		return rmdir ? -ENOTDIR : -EISDIR;
	err = dir->ops->remove(dir, res->name, strlen(res->name), res->at.inode);
	if (!err)
		notify_removed(dir, res->name, &res->at);
	return err;
}

static int remove_at(const struct at_path *at, bool rmdir)
{
	struct walk_result res;
	int err;

	do {
		err = path_walk_parent(&at->base, at->text, &res);
		if (err)
			break;
		err = remove_once(at, &res, rmdir);
		walk_result_put(&res);
	} while (at_once_more(&err));
	return err;
}

static long do_remove(int dfd, uint64_t upath, bool rmdir)
{
	struct at_path at;
	int err = at_get(&at, dfd, upath, false);

	if (err)
		return err;
	err = remove_at(&at, rmdir);
	at_put(&at);
	return err;
}

int path_unlink(const char *text)
{
	struct at_path at;
	int err = at_text(&at, text);

	if (err)
		return err;
	err = remove_at(&at, false);
	at_put(&at);
	return err;
}

/* unlink(path) */
long sys_unlink(const struct syscall_args *args)
{
	return do_remove(AT_FDCWD, args->a[0], false);
}

/* rmdir(path) */
long sys_rmdir(const struct syscall_args *args)
{
	return do_remove(AT_FDCWD, args->a[0], true);
}

/* unlinkat(dfd, path, flags) */
long sys_unlinkat(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[2];

	if (flags & ~AT_REMOVEDIR)
		return -EINVAL;
	return do_remove((int)args->a[0], args->a[1], flags & AT_REMOVEDIR);
}

/* --- renaming ------------------------------------------------------------------------ */

struct rename_walk {
	struct at_path from, to;
	struct walk_result old, new;
	uint32_t flags;
};

static bool result_is_dir(const struct walk_result *res)
{
	return (res->at.attr.mode & S_IFMT) == S_IFDIR;
}

/*
 * May what is at @res go from its directory? A directory that moves elsewhere has its ".."
 * written.
 */
static int check_moves(const struct fs_cred *cred, const struct walk_result *res, bool elsewhere)
{
	const int err = may_remove(cred, &res->parent, &res->at.attr);

	if (err || !elsewhere || !result_is_dir(res))
		return err;
	return attr_access(cred, res->at.inode, &res->at.attr, FS_MAY_WRITE);
}

/*
 * Is it a mount point, or a directory that mount points are in? Those keep their paths, as the
 * storage nodes are told them.
 */
static bool is_mounted_on(const struct walk_result *res)
{
	struct inode *inode = res->at.inode;
	bool below = true; /* unless we know better */
	char *text;

	if (res->mount_point || !inode_is_dir(inode) || !inode->ops->text)
		return res->mount_point;
	text = kmalloc(FS_PATH_MAX);
	if (text)
		below = !inode->ops->text(inode, text, FS_PATH_MAX) &&
			mount_point_below(inode, text);
	kfree(text);
	return below;
}

/* Both names are looked up; res->new.at is empty if there is nothing. */
static int check_rename(const struct rename_walk *r)
{
	const bool elsewhere = r->old.parent.inode != r->new.parent.inode;
	const bool exchange = r->flags & RENAME_EXCHANGE, exists = r->new.at.text;
	int err = check_moves(&r->from.cred, &r->old, elsewhere);

	if (!err)
		err = exists ? check_moves(&r->to.cred, &r->new, exchange && elsewhere)
			     : may_create(&r->to.cred, &r->new.parent);
	if (err)
		return err;
	if (exists && !exchange && result_is_dir(&r->old) != result_is_dir(&r->new))
		return result_is_dir(&r->old) ? -ENOTDIR : -EISDIR;
	return is_mounted_on(&r->old) || (exists && is_mounted_on(&r->new)) ? -EBUSY : 0;
}

/* The entries behind both names. */
static int look_up_both(struct rename_walk *r)
{
	int err = path_walk_last(&r->from.base, &r->old);

	if (err)
		return err;
	err = path_walk_last(&r->to.base, &r->new);
	if (err && (err != -ENOENT || (r->flags & RENAME_EXCHANGE)))
		return err;
	if (!err && (r->flags & RENAME_NOREPLACE))
		return -EEXIST;
	if (!result_is_dir(&r->old) &&
	    (r->old.slash || (r->new.slash && !(r->flags & RENAME_EXCHANGE))))
		return -ENOTDIR;
	if ((r->flags & RENAME_EXCHANGE) && !result_is_dir(&r->new) && r->new.slash)
		return -ENOTDIR;
	return 0;
}

static int rename_found(struct rename_walk *r)
{
	struct inode *from = r->old.parent.inode, *to = r->new.parent.inode;
	struct rename_args args = { 0 };
	int err;

	if (r->old.parent.mnt != r->new.parent.mnt || from->type != to->type)
		return -EXDEV;
	if (is_special(r->old.name))
		return -EBUSY;
	if (is_special(r->new.name))
		return (r->flags & RENAME_NOREPLACE) ? -EEXIST : -EBUSY;
	err = mount_writable(r->old.parent.mnt, from);
	if (err)
		return r->old.mount_point || r->new.mount_point ? -EBUSY : err;
	err = look_up_both(r);
	if (err)
		return err;
	/* Two names of one file: nothing to do, whatever the permissions. */
	if (r->old.at.inode == r->new.at.inode)
		return 0;
	err = check_rename(r);
	if (err)
		return err;
	if (!from->ops->rename)
		return -EPERM;
	args = (struct rename_args){
		.from_dir = from,
		.from = r->old.name,
		.from_len = strlen(r->old.name),
		.source = r->old.at.inode,
		.to_dir = to,
		.to = r->new.name,
		.to_len = strlen(r->new.name),
		.target = r->new.at.inode,
		.exchange = r->flags & RENAME_EXCHANGE,
	};
	err = from->ops->rename(&args);
	if (!err && notify_is_on())
		notify_renamed_slow(
			&args, r->old.at.text, r->new.parent.text,
			args.target && (inode_is_dir(args.target) || r->new.at.attr.nlink <= 1));
	return err;
}

static int rename_once(struct rename_walk *r)
{
	int err = path_walk_parent(&r->from.base, r->from.text, &r->old);

	if (err)
		return err;
	err = path_walk_parent(&r->to.base, r->to.text, &r->new);
	if (!err) {
		err = rename_found(r);
		walk_result_put(&r->new);
	}
	walk_result_put(&r->old);
	return err;
}

static long do_rename(int olddfd, uint64_t uold, int newdfd, uint64_t unew, uint32_t flags)
{
	struct rename_walk *r;
	int err;

	if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE)) ||
	    flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	r = kmalloc(sizeof(*r)); /* too large for a stack */
	if (!r)
		return -ENOMEM;
	r->flags = flags;
	err = at_get(&r->from, olddfd, uold, false);
	if (err)
		goto out;
	err = at_get(&r->to, newdfd, unew, false);
	if (!err) {
		do {
			err = rename_once(r);
		} while (at_once_more(&err));
		at_put(&r->to);
	}
	at_put(&r->from);
out:
	kfree(r);
	return err;
}

/* rename(old, new) */
long sys_rename(const struct syscall_args *args)
{
	return do_rename(AT_FDCWD, args->a[0], AT_FDCWD, args->a[1], 0);
}

/* renameat(olddfd, old, newdfd, new) */
long sys_renameat(const struct syscall_args *args)
{
	return do_rename((int)args->a[0], args->a[1], (int)args->a[2], args->a[3], 0);
}

/* renameat2(olddfd, old, newdfd, new, flags) */
long sys_renameat2(const struct syscall_args *args)
{
	return do_rename((int)args->a[0], args->a[1], (int)args->a[2], args->a[3],
			 (uint32_t)args->a[4]);
}
