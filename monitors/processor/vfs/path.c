/* SPDX-License-Identifier: MIT */
/*
 * Opening files by path, and look-ups for the rest of the monitor.
 *
 * Order of checks: as Linux: the walk, O_EXCL, kinds (ELOOP, EISDIR, ENOTDIR), permission, then
 * what the file system does.
 */
#include "path.h"

#include <arch/uaccess.h>
#include <fs/access.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/ipc/filelease.h>
#include <processor/process/process.h>
#include <processor/tty/tty.h>

#include "at_private.h"
#include "file.h"
#include "notify.h"

#define OPEN_TRIES 16 /* of making a file that others make and remove meanwhile */

/* --- for the rest of the monitor ----------------------------------------------------- */

/* The path of @from, and @rel below it, into FS_PATH_MAX bytes. */
static int name_at(const struct path *from, int dfd, const char *rel, char *out)
{
	bool outside;
	int err = path_text_for(fs_current(), from, out, &outside);
	size_t len;

	if (err && err != -ENOENT) /* removed: its last path */
		return err;
	if (outside)
		snprintf(out, FS_PATH_MAX, "/dev/fd/%d", dfd);
	if (!rel[0])
		return 0;
	len = strcmp(out, "/") ? strlen(out) : 0;
	if (len + 1 + strlen(rel) >= FS_PATH_MAX)
		return -ENAMETOOLONG;
	out[len] = '/';
	strlcpy(out + len + 1, rel, FS_PATH_MAX - len - 1);
	return 0;
}

int path_at_fd(int dfd, const char *rel, struct path *from, char **name)
{
	int err = at_file(dfd, from);

	if (err == -ENOENT)
		err = rel[0] ? -ENOTDIR : -EACCES;
	if (err)
		return err;
	*name = kmalloc(FS_PATH_MAX);
	err = *name ? name_at(from, dfd, rel, *name) : -ENOMEM;
	if (!err)
		return 0;
	kfree(*name);
	*name = NULL;
	path_put(from);
	return err;
}

int path_lookup(const char *path, uint32_t flags, uint32_t access, struct file_attr *attr,
		char *realpath)
{
	struct fs_cred cred;
	const struct walk_base base = { .cred = &cred, .mounts = fs_current()->mounts };
	struct walk_result res;
	int err;

	process_cred(&cred);
	err = path_walk(&base, path, flags, access, &res);
	if (err)
		return err;
	*attr = res.at.attr;
	if (realpath)
		strlcpy(realpath, res.at.text, FS_PATH_MAX);
	walk_result_put(&res);
	return 0;
}

/* --- opening ------------------------------------------------------------------------- */

/* Regular files that are open for writing keep their mount from becoming read-only. */
static int take_mount(struct file *f, struct mount *mnt)
{
	int err = 0;

	f->mnt = mnt;
	if (!mnt)
		return 0;
	mount_get(mnt);
	if (f->inode->mode == S_IFREG && file_writable(f)) {
		err = mount_write_begin(mnt);
		f->keeps_mount = !err;
	}
	return err;
}

/* An open file of @inode, whose reference stays the caller's. @fresh: it was made for this. */
static struct file *open_inode(struct inode *inode, struct mount *mnt, const char *text,
			       const struct file_attr *attr, uint32_t flags, bool fresh)
{
	const bool plain = (flags & O_PATH) || inode_is_dir(inode);
	struct file *f =
		file_create(plain && !(flags & O_PATH) ? &dir_ops : &path_ops, flags, text);
	int err = 0;

	if (IS_ERR(f))
		return f;
	f->inode = inode;
	inode_get(inode);
	f->attr = *attr;
	f->fresh = fresh;
	err = take_mount(f, mnt);
	if (!err && !plain && inode->mode == S_IFREG) {
		err = filelease_open_begin(inode, file_writable(f), flags & O_NONBLOCK);
		f->counted = !err;
	}
	if (!err && !plain)
		err = inode->ops->open ? inode->ops->open(inode, f) : -ENXIO;
	if (!err && !plain && !(flags & O_NOCTTY))
		tty_opened(f);
	ASSERT(err || plain || f->ops != &path_ops); /* open() has said how to use it */
	if (!err) {
		notify_file(f, IN_OPEN);
		return f;
	}
	if (f->counted) { /* while the flags say as what */
		filelease_open_end(inode, file_writable(f));
		f->counted = false;
	}
	f->flags |= O_PATH; /* no watch is told of its end */
	f->ops = &path_ops; /* nothing to release but the inode */
	file_put(f);
	return ERR_PTR(err);
}

static int truncate_opened(struct inode *inode, bool nonblock)
{
	const struct attr_change ch = { .valid = ATTR_SIZE };
	int err;

	if (inode->mode != S_IFREG || !inode->ops->setattr)
		return 0;
	/* The file may be open for reading only. */
	err = filelease_open_begin(inode, true, nonblock);
	if (err)
		return err;
	err = inode->ops->setattr(inode, &ch);
	filelease_open_end(inode, true);
	return err;
}

/* Errors of opening a file that is there, but for permissions. */
static int check_existing(const struct path *at, uint32_t flags)
{
	const uint32_t type = at->attr.mode & S_IFMT;
	const bool write = (flags & O_ACCMODE) != O_RDONLY;

	if ((flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	if (flags & O_PATH)
		return 0;
	if (type == S_IFLNK)
		return -ELOOP; /* O_NOFOLLOW */
	if (type == S_IFDIR && (write || (flags & (O_CREAT | O_TRUNC))))
		return -EISDIR;
	return 0;
}

static int check_noatime(const struct fs_cred *cred, const struct file_attr *attr, uint32_t flags)
{
	return (flags & O_NOATIME) && !attr_is_own(cred, attr) ? -EPERM : 0;
}

/* Only the end of a file that is append only may be written. */
static int check_append(const struct file_attr *attr, uint32_t flags)
{
	const bool writes = (flags & O_ACCMODE) != O_RDONLY && !(flags & O_APPEND);

	return (attr->attrs & STATX_ATTR_APPEND) && (writes || (flags & O_TRUNC)) ? -EPERM : 0;
}

static struct file *open_existing(const struct fs_cred *cred, const struct path *at, uint32_t flags)
{
	const uint32_t acc = flags & O_ACCMODE;
	const uint32_t want = (acc != O_WRONLY ? FS_MAY_READ : 0) |
			      (acc != O_RDONLY || (flags & O_TRUNC) ? FS_MAY_WRITE : 0);
	const uint32_t type = at->inode->mode;
	struct file *f;
	int err = check_existing(at, flags);

	if (!err && !(flags & O_PATH))
		err = inode_permission(at->mnt, at->inode, cred, &at->attr, want);
	if (!err && !(flags & O_PATH) && (type == S_IFCHR || type == S_IFBLK) &&
	    mount_nodev(at->mnt))
		err = -EACCES;
	if (!err && !(flags & O_PATH))
		err = check_append(&at->attr, flags);
	if (!err && !(flags & O_PATH))
		err = check_noatime(cred, &at->attr, flags);
	if (err)
		return ERR_PTR(err);
	f = open_inode(at->inode, at->mnt, at->text, &at->attr, flags, false);
	if (!IS_ERR(f) && (flags & O_TRUNC) && !(flags & O_PATH)) {
		err = truncate_opened(at->inode, flags & O_NONBLOCK);
		if (err) {
			file_put(f);
			return ERR_PTR(err);
		}
		notify_file(f, IN_MODIFY);
	}
	return f;
}

struct file *path_open_found(const struct path *at, uint32_t flags)
{
	struct fs_cred cred;

	process_cred(&cred);
	return open_existing(&cred, at, flags);
}

struct file *path_open_exec(const struct path *at)
{
	return open_inode(at->inode, at->mnt, at->text, &at->attr, O_RDONLY, false);
}

/* The canonical path of an entry. */
static char *entry_text(const struct path *dir, const char *name)
{
	const size_t dir_len = strcmp(dir->text, "/") ? strlen(dir->text) : 0, len = strlen(name);
	char *text = kmalloc(dir_len + 1 + len + 1);

	if (!text)
		return NULL;
	memcpy(text, dir->text, dir_len);
	text[dir_len] = '/';
	memcpy(text + dir_len + 1, name, len + 1);
	return text;
}

/*
 * Open what was just made: whatever its mode says, the maker may use it as he asked. @made: as the
 * file system has told it, or 0 if it has not.
 */
static struct file *open_new(struct inode *inode, const struct path *dir, const char *name,
			     const struct file_attr *made, uint32_t flags)
{
	char *text = entry_text(dir, name);
	struct file_attr attr = *made;
	struct file *f;
	int err = 0;

	if (!made->mode)
		err = inode_getattr(inode, &attr);
	if (!text)
		err = -ENOMEM;
	f = err ? ERR_PTR(err) : open_inode(inode, dir->mnt, text, &attr, flags, true);
	kfree(text);
	return f;
}

static struct file *create_and_open(const struct fs_cred *cred, const struct walk_result *res,
				    uint32_t flags, uint32_t mode)
{
	struct file_attr made = { 0 };
	struct new_inode how = { .name = res->name, .len = strlen(res->name), .made = &made };
	struct inode *dir = res->parent.inode, *inode;
	struct file *f;
	int err;

	ASSERT(inode_is_dir(dir));
	if (res->slash)
		return ERR_PTR(-EISDIR);
	if (!dir->ops->create)
		return ERR_PTR(create_error(dir));
	err = mount_writable(res->parent.mnt, dir);
	if (err)
		return ERR_PTR(err);
	err = may_create(cred, &res->parent);
	if (err)
		return ERR_PTR(err);
	new_owner(&how, cred, &res->parent.attr, S_IFREG | (mode & 07777));
	err = dir->ops->create(dir, &how, &inode);
	if (err)
		return ERR_PTR(err);
	notify_created(dir, res->name, false);
	f = open_new(inode, &res->parent, res->name, &made, flags);
	if (!IS_ERR(f))
		f->created = true;
	inode_put(inode);
	return f;
}

static int walk(const struct at_path *at, uint32_t flags, uint32_t access, struct walk_result *res)
{
	if (at->resolve)
		return path_resolve(&at->base, at->resolve, at->text, flags, access, res);
	return path_walk(&at->base, at->text, flags, access, res);
}

/* O_TMPFILE: @path is the directory. */
static struct file *open_tmpfile(const struct at_path *at, uint32_t flags, uint32_t mode)
{
	struct file_attr made = { 0 };
	struct new_inode how = { .name = "#", .len = 1, .nameless = flags & O_EXCL, .made = &made };
	struct walk_result res;
	struct inode *inode;
	struct file *f;
	int err;

	if ((flags & O_ACCMODE) == O_RDONLY)
		return ERR_PTR(-EINVAL);
	err = walk(at, WALK_DIRECTORY, FS_MAY_WRITE | FS_MAY_EXEC, &res);
	if (err)
		return ERR_PTR(err);
	if (!res.at.inode->ops->tmpfile) {
		err = -EOPNOTSUPP;
	} else {
		new_owner(&how, &at->cred, &res.at.attr, S_IFREG | (mode & 07777));
		err = res.at.inode->ops->tmpfile(res.at.inode, &how, &inode);
	}
	if (err) {
		f = ERR_PTR(err);
	} else {
		f = open_new(inode, &res.at, how.name, &made, flags & ~O_TMPFILE);
		inode_put(inode);
	}
	walk_result_put(&res);
	return f;
}

/*
 * res->name could not be made. If it is a link whose target is missing, @at is that target from
 * here on. -EEXIST: it is something else, or gone by now.
 */
static int follow_last(struct at_path *at, struct walk_result *res)
{
	char *target;
	int err = path_walk_last(&at->base, res);

	if (err)
		return err == -ENOENT ? -EEXIST : err;
	if (res->at.inode->mode != S_IFLNK || !res->at.inode->ops->readlink)
		return -EEXIST;
	target = inode_link_text(res->at.inode);
	if (IS_ERR(target))
		return (int)PTR_ERR(target);
	kfree(at->text);
	at->text = target;
	path_put(&at->dir);
	at->dir = res->parent;
	res->parent = (struct path){ 0 };
	at->base.dir = &at->dir;
	return 0;
}

/*
 * Was res->name not found, and could not be made with @err, which a link to a file that is missing
 * may be the reason of? Its own directory need not be the caller's to write to.
 */
static bool may_be_link(const struct walk_result *res, uint32_t flags, bool excl, long err)
{
	return (err == -EEXIST || err == -EACCES || err == -EROFS) && !excl &&
	       !(flags & O_NOFOLLOW) && !res->at.inode && res->parent.inode;
}

/* *@followed: -EEXIST means that @at is to be opened instead. */
static struct file *open_once(struct at_path *at, uint32_t flags, uint32_t mode, bool *followed)
{
	const bool excl = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
	struct walk_result res;
	/* The contents' node is asked for size and time when the file is opened. */
	uint32_t how = WALK_RIGHTS;
	struct file *f;
	int err;

	/* With O_EXCL the last component is not followed: a link there is something that exists. */
	if ((flags & O_NOFOLLOW) || excl)
		how |= WALK_NOFOLLOW;
	if (flags & O_DIRECTORY)
		how |= WALK_DIRECTORY;
	if (flags & O_CREAT)
		how |= WALK_CREATE;
	err = walk(at, how, 0, &res);
	if (err)
		return ERR_PTR(err);
	if (res.at.text && (flags & O_CREAT) && at->text[strlen(at->text) - 1] == '/')
		f = ERR_PTR(-EISDIR);
	else if (res.at.text)
		f = open_existing(&at->cred, &res.at, flags);
	else
		f = create_and_open(&at->cred, &res, flags, mode);
	/* A restricted walk has seen the link, or sees it when it is tried again. */
	if (!at->resolve && may_be_link(&res, flags, excl, PTR_ERR(f))) {
		err = follow_last(at, &res);
		*followed = !err;
		if (!err)
			f = ERR_PTR(-EEXIST);
		else if (err != -EEXIST)
			f = ERR_PTR(err);
	}
	walk_result_put(&res);
	return f;
}

static struct file *open_text(struct at_path *at, uint32_t flags, uint32_t mode)
{
	struct file *f;
	int tries = 0, links = 0;
	bool followed;

	do {
		followed = false;
		f = (flags & O_TMPFILE & ~O_DIRECTORY) ? open_tmpfile(at, flags, mode)
						       : open_once(at, flags, mode, &followed);
		if (followed && ++links > WALK_LINKS_MAX)
			return ERR_PTR(-ELOOP);
		/* Else another task made it between the look and the making. */
	} while (PTR_ERR(f) == -EEXIST && !(flags & O_EXCL) && (followed || ++tries < OPEN_TRIES));
	return f;
}

struct file *path_open(const char *text, uint32_t flags, uint32_t mode)
{
	struct at_path at;
	struct file *f;
	const int err = at_text(&at, text);

	if (err)
		return ERR_PTR(err);
	f = open_text(&at, flags, mode);
	at_put(&at);
	return f;
}

struct file *path_open_at(int dfd, uint64_t upath, uint32_t flags, uint32_t mode, uint32_t resolve)
{
	struct at_path at;
	struct file *f;
	int err;

	if (flags & O_PATH)
		flags &= O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC;
	else if ((flags & O_ACCMODE) == O_ACCMODE ||
		 (flags & (O_DIRECTORY | O_CREAT)) == (O_DIRECTORY | O_CREAT))
		return ERR_PTR(-EINVAL);
	if ((flags & O_TMPFILE & ~O_DIRECTORY) && !(flags & O_DIRECTORY))
		return ERR_PTR(-EINVAL);
	err = at_get(&at, dfd, upath, false);
	if (err)
		return ERR_PTR(err);
	err = at_restrict(&at, dfd, resolve);
	f = err ? ERR_PTR(err) : open_text(&at, flags, mode);
	at_put(&at);
	return f;
}
