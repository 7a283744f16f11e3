/* SPDX-License-Identifier: MIT */
/*
 * Walks that openat2() restricts: without links, without other mounts, not out of a directory.
 *
 * Flow:	one name at a time, each by a walk of its own from where the last one came to, so
 *		that every link and every mount is seen here whatever file system it is in. A
 *		directory that must not be left is the root of these walks.
 * Limits:	a message for each name of a storage node's files. A ".." is followed in the tree as
 *		it is then: the place that the whole walk comes to is looked at once more, and one
 *		that was moved out of the directory meanwhile is -EAGAIN.
 * See:		path.h
 */
#include <abi/fcntl.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "path.h"

#define SCOPED (RESOLVE_BENEATH | RESOLVE_IN_ROOT)

struct resolve {
	struct walk_base from; /* of each name: dir is here */
	uint32_t how, flags;   /* RESOLVE_*, enum walk_flags */
	struct path here;
	char *owned; /* what @rest points into, if not into the caller's text */
	const char *rest;
	unsigned int nr_links;
	bool must_be_dir, went_up;
};

static void go_to(struct resolve *r, struct path *to)
{
	path_put(&r->here);
	r->here = *to;
	*to = (struct path){ 0 };
}

static int go_to_root(struct resolve *r)
{
	struct walk_result res;
	const int err = path_walk(&r->from, "/", 0, 0, &res);

	if (err)
		return err;
	go_to(r, &res.at);
	walk_result_put(&res);
	return 0;
}

static bool is_other_mount(const struct resolve *r, const struct path *to)
{
	return (r->how & RESOLVE_NO_XDEV) && to->mnt != r->here.mnt;
}

/* --- links --------------------------------------------------------------------------- */

/* A link that names no path but a file. -EINVAL: it is not that kind. */
static int follow_magic(struct resolve *r, struct inode *link)
{
	struct path to = { 0 };
	int err;

	if (!link->ops->magic_link)
		return -EINVAL;
	err = link->ops->magic_link(link, &to);
	if (err)
		return err;
	if (r->how & RESOLVE_NO_MAGICLINKS)
		err = -ELOOP;
	else if ((r->how & SCOPED) || is_other_mount(r, &to))
		err = -EXDEV;
	else
		err = inode_getattr(to.inode, &to.attr);
	if (!err)
		go_to(r, &to);
	path_put(&to);
	return err;
}

/* Put @head in front of the rest; without a slash there, it need not be a directory. */
static int put_in_front(struct resolve *r, const char *head, size_t len)
{
	const size_t rest_len = strlen(r->rest);
	char *joined;

	if (len + rest_len >= 2 * FS_PATH_MAX)
		return -ENAMETOOLONG;
	joined = kmalloc(len + rest_len + 1);
	if (!joined)
		return -ENOMEM;
	memcpy(joined, head, len);
	memcpy(joined + len, r->rest, rest_len + 1);
	kfree(r->owned);
	r->owned = joined;
	r->rest = joined;
	return 0;
}

static int follow_absolute(struct resolve *r)
{
	struct mount *before = r->here.mnt;
	int err;

	if (r->how & RESOLVE_BENEATH)
		return -EXDEV;
	if (before)
		mount_get(before);
	err = go_to_root(r);
	if (!err && (r->how & RESOLVE_NO_XDEV) && r->here.mnt != before)
		err = -EXDEV;
	mount_put(before);
	return err;
}

static int follow(struct resolve *r, struct inode *link)
{
	char *target;
	int err;

	if ((r->how & RESOLVE_NO_SYMLINKS) || ++r->nr_links > WALK_LINKS_MAX)
		return -ELOOP;
	err = follow_magic(r, link);
	if (err != -EINVAL)
		return err;
	target = inode_link_text(link);
	if (IS_ERR(target))
		return (int)PTR_ERR(target);
	err = put_in_front(r, target, strlen(target));
	if (!err && target[0] == '/')
		err = follow_absolute(r);
	kfree(target);
	return err;
}

/* --- names --------------------------------------------------------------------------- */

/* The next name, into @name of FS_NAME_MAX + 1 bytes; 0 at the end, -ENAMETOOLONG. */
static int next_name(struct resolve *r, char *name)
{
	const char *start;
	size_t len;

	while (*r->rest == '/')
		r->rest++;
	start = r->rest;
	len = (size_t)(strchrnul(start, '/') - start);
	if (len > FS_NAME_MAX)
		return inode_is_dir(r->here.inode) ? -ENAMETOOLONG : -ENOTDIR;
	memcpy(name, start, len);
	name[len] = '\0';
	r->rest += len;
	return (int)len;
}

/* May the walk go up from here? At a root that it must not leave it would stay there. */
static int check_up(struct resolve *r)
{
	const struct path *root = r->from.root;

	r->went_up = true;
	if ((r->how & RESOLVE_BENEATH) && r->here.inode == root->inode && r->here.mnt == root->mnt)
		return -EXDEV;
	return 0;
}

/* One name. @done: nothing is left; @res then has a name that is missing, or is empty. */
static int step(struct resolve *r, char *name, struct walk_result *res, bool *done)
{
	const int len = next_name(r, name);
	const bool last = only_slashes(r->rest), slash = *r->rest == '/';
	int err = len < 0 ? len : 0;

	if (len <= 0) {
		*done = true;
		return err;
	}
	if (!strcmp(name, ".."))
		err = check_up(r);
	r->from.dir = &r->here;
	if (!err)
		err = path_walk(&r->from, name, WALK_NOFOLLOW | (last ? r->flags & WALK_CREATE : 0),
				0, res);
	if (err)
		return err;
	if (!res->at.inode) {
		*done = true;
		res->slash = slash;
		return 0;
	}
	r->must_be_dir = slash;
	if (is_other_mount(r, &res->at))
		err = -EXDEV;
	else if (res->at.inode->mode != S_IFLNK || (last && !slash && (r->flags & WALK_NOFOLLOW)))
		go_to(r, &res->at);
	else
		err = follow(r, res->at.inode);
	walk_result_put(res);
	return err;
}

/* --- whole walks --------------------------------------------------------------------- */

/* -EAGAIN: @at is not below the directory that the walk began in, as the tree is now. */
static int check_scope(const struct resolve *r, const struct path *at)
{
	char *top = kmalloc(FS_PATH_MAX), *text = kmalloc(FS_PATH_MAX);
	int err = top && text ? 0 : -ENOMEM;
	size_t len;

	if (!err && (path_text(r->from.root, top) || path_text(at, text)))
		err = -EAGAIN;
	if (!err) {
		len = strcmp(top, "/") ? strlen(top) : 0;
		if (strncmp(text, top, len) || (text[len] && text[len] != '/'))
			err = -EAGAIN;
	}
	kfree(text);
	kfree(top);
	return err;
}

static int begin(struct resolve *r, const struct walk_base *base)
{
	if (r->rest[0] == '/' && (r->how & RESOLVE_BENEATH))
		return -EXDEV;
	if (r->how & SCOPED)
		r->from.root = base->dir;
	return r->rest[0] == '/' ? go_to_root(r) : path_copy(&r->here, base->dir);
}

/* The file that the walk has come to. */
static int finish(struct resolve *r, uint32_t access, struct walk_result *res)
{
	int err;

	if (((r->flags & WALK_DIRECTORY) || r->must_be_dir) && !inode_is_dir(r->here.inode))
		return -ENOTDIR;
	err = inode_permission(r->here.mnt, r->here.inode, r->from.cred, &r->here.attr, access);
	if (!err) {
		res->at = r->here;
		r->here = (struct path){ 0 };
	}
	return err;
}

int path_resolve(const struct walk_base *base, uint32_t how, const char *text, uint32_t flags,
		 uint32_t access, struct walk_result *res)
{
	struct resolve r = { .from = *base, .how = how, .flags = flags, .rest = text };
	char *name = kmalloc(FS_NAME_MAX + 1);
	bool done = false;
	int err = name ? begin(&r, base) : -ENOMEM;

	*res = (struct walk_result){ 0 };
	while (!err && !done)
		err = step(&r, name, res, &done);
	if (!err && r.went_up && (how & SCOPED))
		err = check_scope(&r, res->name ? &res->parent : &r.here);
	if (!err && !res->name)
		err = finish(&r, access, res);
	path_put(&r.here);
	kfree(r.owned);
	kfree(name);
	if (err)
		walk_result_put(res);
	return err;
}
