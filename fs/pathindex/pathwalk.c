/* SPDX-License-Identifier: MIT */
/*
 * Path resolution.
 *
 * Flow:	the whole path is looked for in the index first; else it is walked component by
 *		component, each step asking the index, then the file system.  A link's target
 *		is put in front of what is left of the path.  A mount point, at which the caller
 *		goes on by itself, ends the walk however it is reached: by a name, before that is
 *		looked for, or by "..".  So does a way out of a root that is mounted below another
 *		one.
 * Context:	threads; may sleep.
 * Limits:	40 links, components of 255 bytes, canonical paths below 4096 bytes; each step
 *		takes a component away or follows a link, so every walk ends.
 *		".." cuts the canonical path, which never gets shorter than the vNode's root; the
 *		".." entries of the disk are not used.
 */
#include <fs/acl.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "pathindex_priv.h"

#define LET_IN 8u

struct walk {
	struct pathindex *pi;
	const struct path_ops *ops;
	void *fs;
	const struct path_request *req;
	struct path_result *res;
	uint64_t now; /* changes before this walk */
	bool use_index;

	char *owned;      /* what @rest points into, if a link made us copy */
	const char *rest; /* still to be walked */
	size_t rest_len;
	unsigned int nr_links;
	bool must_be_dir; /* a slash follows the last component */
	struct path_node cur;
	size_t canon_len; /* of res->canon; 0 at the root */

	/* Directories whose lists have let the walk in, the latest: a path may come by again. */
	struct let_in {
		uint64_t ino;
		uint32_t gen;
	} let_in[LET_IN];
	unsigned int nr_let_in;
};

static bool is_dir(const struct path_node *n)
{
	return (n->mode & S_IFMT) == S_IFDIR;
}

static bool is_link(const struct path_node *n)
{
	return (n->mode & S_IFMT) == S_IFLNK;
}

#define WALK_HANDED_BACK 1 /* beside 0 and negative errnos */

/* Has the walk not come out of what the caller has as canonical yet? */
static bool in_canon(const struct walk *w)
{
	return !w->owned && (size_t)(w->rest - w->req->path) <= w->req->canon_len;
}

/* Is the canonical path of @len bytes a mount point? */
static bool is_mount_point(const struct walk *w, const char *canon, size_t len)
{
	const char *const points = w->req->mount_points; /* NULL if there are none */

	/* The part that was canonical already has been looked at by the caller. */
	if (in_canon(w))
		return false;
	for (size_t n, at = 0; at < w->req->mount_points_len; at += n + 1) {
		n = strlen(points + at);
		if (n == len && !memcmp(points + at, canon, n))
			return true;
	}
	return false;
}

/* Does @path lead through or to a mount point, as it stands? */
static bool crosses_mount_point(const struct path_request *req)
{
	for (size_t n, at = 0; at < req->mount_points_len; at += n + 1) {
		const char *const s = req->mount_points + at;

		n = strlen(s);
		if (n > req->canon_len && n <= req->len && !memcmp(s, req->path, n) &&
		    (n == req->len || req->path[n] == '/'))
			return true;
	}
	return false;
}

static int hand_back(struct walk *w, size_t canon_len, enum path_end end)
{
	struct path_result *res = w->res;

	ASSERT(canon_len && res->canon[0] == '/' && end != PATH_FOUND);
	if (w->rest_len >= FS_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(res->rest, w->rest, w->rest_len);
	res->rest_len = w->rest_len;
	res->end = end;
	res->canon[canon_len] = '\0';
	res->canon_len = canon_len;
	return WALK_HANDED_BACK;
}

/* The rest of the path is not in this file system. */
static int leave(struct walk *w, enum path_end end)
{
	w->res->canon[0] = '/';
	return hand_back(w, 1, end);
}

static bool find(struct walk *w, size_t canon_len, struct path_node *out)
{
	return w->use_index && pathindex_find(w->pi, w->req->vnode, w->res->canon, canon_len, out);
}

static void remember(struct walk *w, size_t canon_len, uint64_t dir, const struct path_node *node)
{
	if (w->use_index)
		pathindex_add(w->pi, w->req->vnode, w->res->canon, canon_len, dir, node, w->now);
}

static int go_to_root(struct walk *w)
{
	int err;

	w->canon_len = 0;
	if (find(w, 0, &w->cur) && w->cur.ino == w->req->root_ino)
		return 0;
	err = w->ops->get(w->fs, w->req->root_ino, &w->cur);
	if (!err)
		remember(w, 0, 0, &w->cur);
	return err;
}

/*
 * The entry that the canonical path of @canon_len bytes ends with, in directory @dir.
 * @name_at: where its name begins.
 */
static int step(struct walk *w, const struct path_node *dir, size_t name_at, size_t canon_len,
		struct path_node *out)
{
	const char *name = w->res->canon + name_at;
	int err;

	if (find(w, canon_len, out))
		return out->ino ? 0 : -ENOENT;
	err = w->ops->lookup(w->fs, dir, name, canon_len - name_at, out);
	if (err == -ENOENT)
		memset(out, 0, sizeof(*out));
	if (!err || err == -ENOENT)
		remember(w, canon_len, dir->ino, out);
	return err;
}

/* Back to the parent of the current directory; the root is its own. */
static int go_up(struct walk *w)
{
	size_t target = w->canon_len, at = 0, end;
	int err;

	ASSERT(is_dir(&w->cur));
	if (!target && (w->req->flags & PATH_BELOW))
		return leave(w, PATH_UP);
	while (target && w->res->canon[--target] != '/')
		;
	if (target && is_mount_point(w, w->res->canon, target))
		return hand_back(w, target, PATH_AT_MOUNT_POINT);
	if (find(w, target, &w->cur) && is_dir(&w->cur)) {
		w->canon_len = target;
		return 0;
	}
	/* It fell out of the index: walk down to it again; there are no links on this way. */
	err = go_to_root(w);
	while (!err && at < target) {
		struct path_node next;

		end = at + 1;
		while (end < target && w->res->canon[end] != '/')
			end++;
		err = step(w, &w->cur, at + 1, end, &next);
		if (err)
			break;
		if (!is_dir(&next))
			return -ESTALE; /* the tree changed below us */
		w->cur = next;
		at = end;
	}
	w->canon_len = target;
	return err;
}

/* Put a link's target in front of what is left. */
static int follow(struct walk *w, const struct path_node *link)
{
	char *target, *joined;
	size_t len;
	int err;

	if (++w->nr_links > PATH_MAX_LINKS)
		return -ELOOP;
	target = kmalloc(FS_PATH_MAX);
	if (!target)
		return -ENOMEM;
	err = w->ops->readlink(w->fs, link, target, &len);
	if (!err && !len)
		err = -ENOENT;
	if (err)
		goto out;
	joined = kmalloc(len + 1 + w->rest_len);
	if (!joined) {
		err = -ENOMEM;
		goto out;
	}
	memcpy(joined, target, len);
	joined[len] = '/';
	memcpy(joined + len + 1, w->rest, w->rest_len);
	/* Without a slash behind the link, its target need not be a directory. */
	w->rest_len += len + (w->rest_len ? 1 : 0);
	kfree(w->owned);
	w->owned = joined;
	w->rest = joined;
	if (target[0] == '/')
		err = (w->req->flags & PATH_BELOW) ? leave(w, PATH_AT_ROOT) : go_to_root(w);
out:
	kfree(target);
	return err;
}

/* Take the next component off the rest: its length, 0 at the end. */
static size_t next_component(struct walk *w, const char **name)
{
	size_t len = 0;

	while (w->rest_len && *w->rest == '/') {
		w->rest++;
		w->rest_len--;
	}
	*name = w->rest;
	while (len < w->rest_len && w->rest[len] != '/')
		len++;
	w->rest += len;
	w->rest_len -= len;
	return len;
}

/* Does anything but slashes follow? */
static bool is_last(const struct walk *w)
{
	for (size_t i = 0; i < w->rest_len; i++) {
		if (w->rest[i] != '/')
			return false;
	}
	return true;
}

static int append(struct walk *w, const char *name, size_t len)
{
	if (w->canon_len + 1 + len >= FS_PATH_MAX)
		return -ENAMETOOLONG;
	w->res->canon[w->canon_len] = '/';
	memcpy(w->res->canon + w->canon_len + 1, name, len);
	return 0;
}

/* Walk one component that is a name. */
static int walk_name(struct walk *w, const char *name, size_t len)
{
	const bool last = is_last(w);
	struct path_node next;
	size_t canon_len;
	int err;

	err = append(w, name, len);
	if (err)
		return err;
	canon_len = w->canon_len + 1 + len;
	if (is_mount_point(w, w->res->canon, canon_len))
		return hand_back(w, canon_len, PATH_AT_MOUNT_POINT);
	if (last) {
		w->must_be_dir = w->rest_len != 0;
		w->res->parent = w->cur;
	}
	err = step(w, &w->cur, w->canon_len + 1, canon_len, &next);
	if (err) {
		w->res->parent_exists = last && err == -ENOENT;
		return err;
	}
	if (is_link(&next) && in_canon(w)) {
		/* There were no links on this way: another file has the name by now. */
		if (!last)
			return -ENOENT;
	} else if (is_link(&next) &&
		   (!last || w->must_be_dir || !(w->req->flags & PATH_NOFOLLOW))) {
		return follow(w, &next);
	}
	w->cur = next;
	w->canon_len = canon_len;
	return 0;
}

/*
 * ".." of a link's target, at a place where the walk was to end: it began there, which is all that
 * a root may do. The caller goes on with the dots.
 */
static bool leaves_by_link(const struct walk *w)
{
	return w->owned && w->canon_len && is_mount_point(w, w->res->canon, w->canon_len);
}

static int hand_back_dots(struct walk *w, const char *dots)
{
	w->rest_len += (size_t)(w->rest - dots);
	w->rest = dots;
	return hand_back(w, w->canon_len, PATH_AT_MOUNT_POINT);
}

static int ask_list(struct walk *w)
{
	const struct path_node *dir = &w->cur;
	int err;

	for (unsigned int i = 0; i < MIN(w->nr_let_in, LET_IN); i++) {
		if (w->let_in[i].ino == dir->ino && w->let_in[i].gen == dir->gen)
			return 0;
	}
	err = w->ops->search(w->fs, dir, w->req->cred);
	if (!err)
		w->let_in[w->nr_let_in++ % LET_IN] = (struct let_in){ dir->ino, dir->gen };
	return err;
}

static int may_search(struct walk *w)
{
	const struct path_node *dir = &w->cur;
	const struct fs_cred *cred = w->req->cred;

	if (dir->acl && posix_acl_matters(cred, dir->mode, dir->uid))
		return ask_list(w);
	return fs_access(cred, dir->mode, dir->uid, dir->gid, FS_MAY_EXEC);
}

static int walk_all(struct walk *w)
{
	const char *name;
	size_t len;
	int err;

	err = go_to_root(w);
	while (!err && (len = next_component(w, &name)) != 0) {
		w->must_be_dir = false;
		if (!is_dir(&w->cur))
			return -ENOTDIR;
		err = may_search(w);
		if (err)
			return err;
		if (len > FS_NAME_MAX)
			return -ENAMETOOLONG;
		if (len == 1 && name[0] == '.')
			w->must_be_dir = true;
		else if (len == 2 && name[0] == '.' && name[1] == '.')
			err = leaves_by_link(w) ? hand_back_dots(w, name) : go_up(w);
		else
			err = walk_name(w, name, len);
	}
	return err;
}

static int finish(struct walk *w)
{
	struct path_result *res = w->res;

	if ((w->must_be_dir || (w->req->flags & PATH_DIRECTORY)) && !is_dir(&w->cur))
		return -ENOTDIR;
	if (!w->canon_len)
		res->canon[w->canon_len++] = '/';
	ASSERT(res->canon[0] == '/' && w->canon_len < FS_PATH_MAX);
	res->canon[w->canon_len] = '\0';
	res->canon_len = w->canon_len;
	res->node = w->cur;
	return 0;
}

/* The path as it stands may be canonical and known: 0, -ENOENT, or -EAGAIN to walk it. */
static int try_whole(struct walk *w)
{
	const struct path_request *req = w->req;

	/* Search permission has to be checked on each directory above, so for root only. */
	if (!w->use_index || (req->cred && !fs_cred_is_root(req->cred)) || req->len < 2)
		return -EAGAIN;
	if (crosses_mount_point(req))
		return -EAGAIN;
	memcpy(w->res->canon, req->path, req->len);
	if (!find(w, req->len, &w->cur))
		return -EAGAIN;
	/* A missing file wants its parent reported, which only the walk knows. */
	if (!w->cur.ino || (is_link(&w->cur) && !(req->flags & PATH_NOFOLLOW)))
		return -EAGAIN;
	w->canon_len = req->len;
	return finish(w);
}

static int resolve_once(struct pathindex *pi, const struct path_ops *ops, void *fs,
			const struct path_request *req, struct path_result *res, bool use_index)
{
	struct walk w = {
		.pi = pi,
		.ops = ops,
		.fs = fs,
		.req = req,
		.res = res,
		.now = pathindex_now(pi),
		.use_index = use_index,
		.rest = req->path,
		.rest_len = req->len,
	};
	int err;

	res->parent_exists = false;
	res->end = PATH_FOUND;
	res->rest_len = 0;
	res->nr_links = 0;
	res->canon_len = 0;
	err = try_whole(&w);
	if (err != -EAGAIN)
		return err;
	err = walk_all(&w);
	res->nr_links = w.nr_links;
	if (!err)
		err = finish(&w);
	kfree(w.owned);
	return err == WALK_HANDED_BACK ? 0 : err;
}

int pathindex_resolve(struct pathindex *pi, const struct path_ops *ops, void *fs,
		      const struct path_request *req, struct path_result *res)
{
	const bool use_index = !(req->flags & PATH_NO_INDEX);
	int err;

	if (!req->len)
		return -ENOENT;
	if (req->len >= FS_PATH_MAX)
		return -ENAMETOOLONG;
	if (req->path[0] != '/' || memchr(req->path, '\0', req->len))
		return -EINVAL;
	err = resolve_once(pi, ops, fs, req, res, use_index);
	/* The index led to an inode that is another file's by now: look afresh. */
	if (err == -ESTALE && use_index)
		err = resolve_once(pi, ops, fs, req, res, false);
	return err;
}
