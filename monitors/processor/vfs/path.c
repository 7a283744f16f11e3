/* SPDX-License-Identifier: MIT */
/*
 * Paths: from a user's string to an absolute path, look-up, and open.
 *
 * A path stays text until it reaches the storage node, which resolves "..", "." and symbolic links; what is
 * done here is joining it with the working directory or a directory descriptor, and the few names that the
 * kernel itself provides (/dev/null and its kin, /proc/self/exe).
 */
#include <processor/file.h>

#include <arch/uaccess.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/object.h>
#include <processor/process.h>
#include <processor/remote.h>

#define AT_FDCWD (-100)

#define S_IFMT  0170000u
#define S_IFDIR 0040000u
#define S_IFREG 0100000u
#define S_IFLNK 0120000u

/* The directory that relative paths begin at, copied into @buf. */
static int base_dir(int dfd, char *buf)
{
	struct fs_info *fs = fs_current();
	struct file *f;
	int err = 0;

	if (dfd == AT_FDCWD) {
		mutex_lock(&fs->lock);
		strlcpy(buf, fs->cwd, PROTO_PATH_MAX);
		mutex_unlock(&fs->lock);
		return 0;
	}
	f = fd_get(dfd);
	if (IS_ERR(f))
		return PTR_ERR(f);
	if ((f->attr.mode & S_IFMT) != S_IFDIR || !f->path)
		err = -ENOTDIR;
	else
		strlcpy(buf, f->path, PROTO_PATH_MAX);
	file_put(f);
	return err;
}

static int join(int dfd, const char *rel, size_t rel_len, char *out)
{
	size_t len;
	int err = base_dir(dfd, out);

	if (err)
		return err;
	len = strlen(out);
	if (len + 1 + rel_len >= PROTO_PATH_MAX)
		return -ENAMETOOLONG;
	if (len == 0 || out[len - 1] != '/')
		out[len++] = '/';
	memcpy(out + len, rel, rel_len + 1);
	return 0;
}

char *path_from_user(int dfd, uint64_t upath, bool empty_ok)
{
	char *rel = kmalloc(PROTO_PATH_MAX);
	char *out = kmalloc(PROTO_PATH_MAX);
	ssize_t len = -ENOMEM;

	if (rel && out)
		len = strncpy_from_user(rel, (const char __user *)upath, PROTO_PATH_MAX);
	if (len < 0)
		goto fail;
	if (rel[0] == '/') {
		kfree(out);
		return rel;
	}
	if (len == 0) {
		len = -ENOENT;
		if (!empty_ok)
			goto fail;
		kfree(out);
		return rel;
	}
	len = join(dfd, rel, (size_t)len, out);
	if (len < 0)
		goto fail;
	kfree(rel);
	return out;
fail:
	kfree(rel);
	kfree(out);
	return ERR_PTR((int)len);
}

int path_lookup(const char *path, uint32_t flags, uint32_t access, struct proto_attr *attr,
		char *realpath)
{
	struct proto_cred cred;

	if (dev_stat(path, attr) == 0) {
		if (flags & PS_LOOKUP_DIRECTORY)
			return -ENOTDIR;
		if (realpath)
			strlcpy(realpath, path, PROTO_PATH_MAX);
		return (access & 1) ? -EACCES : 0;
	}
	process_cred(&cred);
	return remote_lookup(&cred, path, flags, access, attr, realpath);
}

/* Errors of an open that would have to change the file system, which is read-only. */
static int check_open_writes(uint32_t flags, bool exists, uint32_t mode)
{
	if (exists && (flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	if (!exists)
		return -EROFS;
	if ((mode & S_IFMT) == S_IFLNK)
		return -ELOOP; /* O_NOFOLLOW */
	if ((mode & S_IFMT) == S_IFDIR && ((flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT)))
		return -EISDIR;
	if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC))
		return -EROFS;
	return 0;
}

/* Does the directory of @path exist? Then creating in it answers EROFS, else what the look-up says. */
static int check_parent(const char *path)
{
	char *dir = kstrdup(path);
	struct proto_attr attr;
	char *slash;
	int err;

	if (!dir)
		return -ENOMEM;
	slash = strrchr(dir, '/');
	slash[slash == dir ? 1 : 0] = '\0';
	err = path_lookup(dir, PS_LOOKUP_DIRECTORY, 1, &attr, NULL);
	kfree(dir);
	return err ? err : -EROFS;
}

static struct file *open_found(const struct proto_attr *attr, const char *realpath, uint32_t flags)
{
	const uint32_t type = attr->mode & S_IFMT;
	struct object *object = NULL;
	struct file *f;

	if (!(flags & O_PATH) && type == S_IFLNK)
		return ERR_PTR(-ELOOP); /* O_NOFOLLOW */
	if (!(flags & O_PATH) && type != S_IFREG && type != S_IFDIR)
		return ERR_PTR(-ENXIO); /* a device or pipe that nobody serves */
	if (!(flags & O_PATH) && type == S_IFREG) {
		object = object_file_get(attr);
		if (IS_ERR(object))
			return ERR_PTR(PTR_ERR(object));
	}
	f = file_create((flags & O_PATH)  ? &path_ops
			: type == S_IFDIR ? &dir_ops
					  : &regular_ops,
			flags, realpath);
	if (IS_ERR(f)) {
		if (object)
			object_put(object);
		return f;
	}
	f->attr = *attr;
	f->object = object;
	return f;
}

/* What /proc/self/exe stands for, or NULL when @path is something else. */
static char *proc_self_exe(const char *path)
{
	struct process *p = process_current();
	char *exe;

	if (strcmp(path, "/proc/self/exe") != 0)
		return NULL;
	mutex_lock(&p->lock);
	exe = kstrdup(p->exe_path);
	mutex_unlock(&p->lock);
	return exe;
}

struct file *path_open(const char *path, uint32_t flags, uint32_t mode)
{
	const uint32_t acc = flags & O_ACCMODE;
	const uint32_t access =
		(flags & O_PATH) ? 0 : (acc != O_WRONLY ? 4u : 0) | (acc != O_RDONLY ? 2u : 0);
	uint32_t lookup = ((flags & O_NOFOLLOW) ? PS_LOOKUP_NOFOLLOW : 0) |
			  ((flags & O_DIRECTORY) ? PS_LOOKUP_DIRECTORY : 0);
	struct proto_attr attr;
	char *realpath, *exe;
	struct file *f;
	int err;

	if (dev_stat(path, &attr) == 0 && (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return ERR_PTR(-EEXIST);
	f = dev_open(path, flags);
	if (PTR_ERR(f) != -ENOENT)
		return f;
	if ((flags & O_TMPFILE & ~O_DIRECTORY) || acc == O_ACCMODE)
		return ERR_PTR(acc == O_ACCMODE ? -EINVAL : -EROFS);
	realpath = kmalloc(PROTO_PATH_MAX);
	if (!realpath)
		return ERR_PTR(-ENOMEM);
	exe = proc_self_exe(path);
	/* With O_EXCL the last component is not followed: a link there is something that exists. */
	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		lookup |= PS_LOOKUP_NOFOLLOW;
	err = path_lookup(exe ? exe : path, lookup, access & 4, &attr, realpath);
	kfree(exe);
	if (err == -ENOENT && (flags & O_CREAT))
		err = check_parent(path);
	else if (!err && !(flags & O_PATH))
		err = check_open_writes(flags, true, attr.mode);
	f = err ? ERR_PTR(err) : open_found(&attr, realpath, flags);
	kfree(realpath);
	return f;
}
