/* SPDX-License-Identifier: MIT */
/*
 * The file systems of the storage nodes: look-ups by what this processor keeps (client/kept.h).
 *
 * Flow:	storagefs_walk_kept() goes down a path name by name, checks search permission on the
 *		way, and asks the node for single names that are not here, by user 0: by the handle
 *		of the directory whose permission was checked, as its path may lead elsewhere by
 *		then. Links are followed that lead downwards. Where only the node knows the way
 *		(other links, "..", an access list, a mount point) the rest of the path is the
 *		node's to walk for the caller's user, from the path of the directory that the walk
 *		has come to.
 * Ordering:	the paths that the node walks are those of the moment: the caller begins again when
 *		a rename has come between.
 */
#include <fs/acl.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/client/kept.h>

#include "live.h"
#include "path.h"
#include "storagefs_private.h"

/* Of a file that may change, the memory node that caches it knows the size. */
static bool is_live(const struct storage_fs *fs, const struct file_attr *attr)
{
	return !fs->type.read_only && (attr->mode & S_IFMT) == S_IFREG;
}

int storagefs_complete(const struct storage_fs *fs, const struct kept_ticket *t,
		       struct file_attr *attr)
{
	const uint64_t version = attr->version;
	int err;

	if (is_live(fs, attr)) {
		err = live_attr(attr);
		if (err)
			return err;
		/* Else the memory node has what the storage node does not know yet. */
		if (attr->version != version)
			return 0;
	}
	kept_fill_attr(t, attr, KEPT_ALL);
	return 0;
}

int storagefs_attr(const struct storage_fs *fs, const struct file_id *file, enum kept_what what,
		   struct file_attr *attr)
{
	struct kept_ticket t;
	int err;

	if (kept_attr(file, what, attr))
		return 0;
	kept_begin(&t, file->node);
	err = storage_getattr(file, attr);
	if (err)
		return err;
	if (!file_id_equal(&attr->file, file))
		return -EPROTO;
	kept_fill_attr(&t, attr, KEPT_RIGHTS);
	return what == KEPT_ALL ? storagefs_complete(fs, &t, attr) : 0;
}

/* --- one name ---------------------------------------------------------------------------- */

/* May the caller search the directory that the walk is at? 1: only the node knows. */
static int may_search(const struct kept_walk *w)
{
	const struct fs_cred *cred = w->how->cred;
	struct file_attr attr;
	int err = storagefs_attr(w->fs, &w->cur, KEPT_RIGHTS, &attr);

	if (err)
		return err == -ESTALE ? 1 : err;
	if ((attr.mode & S_IFMT) != S_IFDIR)
		return -ENOTDIR;
	if (attr.acl && posix_acl_matters(cred, attr.mode, attr.uid))
		return 1;
	return fs_access(cred, attr.mode, attr.uid, attr.gid, FS_MAY_EXEC);
}

static bool is_stop(const struct kept_walk *w)
{
	const char *end = w->points + w->points_len;

	for (const char *p = w->points; p != end; p += strlen(p) + 1) {
		if (!strcmp(p, w->path))
			return true;
	}
	return false;
}

/*
 * The file of the name in w->cur, and what it is; w->is_whole: all of its attributes, as the walk
 * wants those of the @last one.
 */
static int find(struct kept_walk *w, const char *name, size_t len, bool last,
		struct file_attr *attr)
{
	const enum kept_what what = last && !w->how->rights ? KEPT_ALL : KEPT_RIGHTS;
	const struct kept_ticket *t = &w->ticket;
	struct file_id file;
	int err;

	switch (kept_name(&w->cur, name, len, &file)) {
	case KEPT_MISSING:
		return -ENOENT;
	case KEPT_FOUND:
		err = storagefs_attr(w->fs, &file, what, attr);
		w->is_whole = !err && what == KEPT_ALL;
		return err;
	case KEPT_UNKNOWN:
		break;
	}
	err = storage_lookup_in(&w->cur, name, len, attr);
	if (!err || err == -ENOENT)
		kept_fill_name(t, &w->cur, name, len, err ? NULL : &attr->file);
	if (err)
		return err;
	w->is_whole = what == KEPT_ALL;
	if (w->is_whole)
		return storagefs_complete(w->fs, t, attr);
	kept_fill_attr(t, attr, is_live(w->fs, attr) ? KEPT_RIGHTS : KEPT_ALL);
	return 0;
}

/* Is ".." among the names of @rest? */
static bool leads_up(const char *rest)
{
	while (*rest) {
		const size_t len = (size_t)(strchrnul(rest, '/') - rest);

		if (len == 2 && !memcmp(rest, "..", 2))
			return true;
		rest += len;
		while (*rest == '/')
			rest++;
	}
	return false;
}

/* Is the root of the file system the "/" of absolute links? */
static bool is_root(const struct kept_walk *w)
{
	return w->fs->root.node && !strcmp(w->fs->place.at, "/") && !w->how->below &&
	       !w->how->stop && !w->how->bound;
}

/* The target of @link, which is at w->path, into @buf. 0: not known, or too long. */
static size_t target_of(const struct kept_walk *w, const char *name, size_t name_len,
			const struct file_id *link, char *buf, size_t size)
{
	ssize_t len = (ssize_t)kept_link(link, buf, size);

	if (!len) {
		len = storage_readlink(&w->fs->place, w->path, buf, size);
		if (len > 0)
			kept_fill_link(&w->ticket, &w->cur, name, name_len, link, buf, (size_t)len);
	}
	return len < 0 || (size_t)len >= size ? 0 : (size_t)len;
}

/*
 * Put the target of @link, whose name is @len bytes of w->rest, in the place of the name: from the
 * directory that the walk is at, or from "/" on. 1: the node has to follow it. It does if there is
 * ".." in the target or behind: at a place where the walk is to end, dots that come of a link are
 * not those that the walk began with.
 */
static int follow(struct kept_walk *w, size_t len, const struct file_id *link)
{
	const char *name = w->rest, *behind = name + len;
	const size_t behind_len = strlen(behind);
	char *text = kmalloc(FS_PATH_MAX + behind_len);
	size_t target_len;
	int err = 1;

	if (!text)
		return 1;
	target_len = target_of(w, name, len, link, text, FS_PATH_MAX);
	if (!target_len || memchr(text, '\0', target_len))
		goto out;
	memcpy(text + target_len, behind, behind_len + 1);
	if (leads_up(text))
		goto out;
	if (text[0] == '/') {
		if (!is_root(w))
			goto out;
		w->cur = w->fs->root;
	}
	err = ++w->nr_links > WALK_LINKS_MAX ? -ELOOP : 0;
	kfree(w->text);
	w->text = text;
	w->rest = text;
	return err;
out:
	kfree(text);
	return err;
}

/* Go to the next name, whose text is @len bytes of w->rest. 1: the node has to. */
static int step(struct kept_walk *w, size_t len)
{
	const size_t at = strcmp(w->path, "/") ? strlen(w->path) : 0;
	const char *name = w->rest, *behind = name + len;
	const bool slash = *behind == '/', last = only_slashes(behind);
	struct file_attr attr;
	int err = may_search(w);

	if (err)
		return err;
	w->is_whole = false;
	if (len == 1 && name[0] == '.') {
		w->rest = behind;
		return 0;
	}
	if (len > FS_NAME_MAX || (len == 2 && !memcmp(name, "..", 2)) ||
	    at + 1 + len >= FS_PATH_MAX)
		return 1;
	w->path[at] = '/';
	memcpy(w->path + at + 1, name, len);
	w->path[at + 1 + len] = '\0';
	err = is_stop(w) ? 1 : find(w, name, len, last, &attr);
	if (!err && (attr.mode & S_IFMT) == S_IFLNK && (!last || slash || !w->how->nofollow)) {
		err = follow(w, len, &attr.file);
		w->is_whole = false;
		w->path[at ? at : 1] = '\0';
		if (!err && w->text[0] == '/')
			strlcpy(w->path, "/", FS_PATH_MAX);
		return err;
	}
	if (!err && (attr.mode & S_IFMT) != S_IFDIR && (slash || (last && w->how->must_be_dir)))
		err = -ENOTDIR;
	if (err) { /* the directory's again */
		w->path[at ? at : 1] = '\0';
		return err == -ESTALE ? 1 : err;
	}
	w->cur = attr.file;
	w->rest = behind;
	w->attr = attr;
	return 0;
}

int storagefs_walk_kept(struct kept_walk *w, struct file_attr *attr)
{
	int err = 0;

	if (!w->ticket.allowed) {
		kept_ask(w->fs->place.node);
		return 1;
	}
	while (!err) {
		while (*w->rest == '/')
			w->rest++;
		if (!*w->rest)
			break;
		err = step(w, (size_t)(strchrnul(w->rest, '/') - w->rest));
	}
	if (!err && w->is_whole)
		*attr = w->attr;
	else if (!err)
		err = storagefs_attr(w->fs, &w->cur, w->how->rights ? KEPT_RIGHTS : KEPT_ALL, attr);
	return err == -ESTALE ? 1 : err;
}
