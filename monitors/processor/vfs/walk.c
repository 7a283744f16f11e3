/* SPDX-License-Identifier: MIT */
/*
 * Path walking, across mounts.
 *
 * Flow:	name by name: search permission, mount point, look-up, link. A file system with
 *		lookup_path() gets all that is left of the path at once, with the mount points that
 *		are in it.
 *		A walk keeps the inode that it is at, and its canonical path for getcwd and /proc;
 *		nothing is looked up by that path.
 * Limits:	40 links on the whole way; each step takes a component away or follows a link, so
 *		every walk ends. The walk does not trust the file system for that: what it hands
 *		back at a mount point is shorter than what it got, or counts as a link.
 */
#include <fs/access.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "file.h"
#include "mount_private.h"
#include "notify.h"

struct walk {
	const struct walk_base *base;
	uint32_t flags, access;
	struct inode *cur; /* referenced */
	struct mount *mnt; /* the same: of cur; NULL: cur is not mounted */
	struct mount *top; /* the same: what is at the root of the namespace */
	char *canon;       /* of cur; FS_PATH_MAX bytes */
	char *owned;       /* what @rest points into, if not into the caller's text */
	const char *rest;
	unsigned int nr_links;
	bool must_be_dir;
	struct walk_result *res;
};

/* --- places -------------------------------------------------------------------------- */

void path_put(struct path *p)
{
	inode_put(p->inode);
	mount_put(p->mnt);
	kfree(p->text);
	p->inode = NULL;
	p->mnt = NULL;
	p->text = NULL;
}

int path_copy(struct path *to, const struct path *from)
{
	to->text = kstrdup(from->text);
	if (!to->text)
		return -ENOMEM;
	to->attr = from->attr;
	to->inode = from->inode;
	inode_get(to->inode);
	to->mnt = from->mnt;
	if (to->mnt)
		mount_get(to->mnt);
	return 0;
}

void walk_result_put(struct walk_result *res)
{
	path_put(&res->at);
	path_put(&res->parent);
	kfree(res->name);
	res->name = NULL;
}

int inode_getattr(struct inode *inode, struct file_attr *attr)
{
	int err;

	*attr = (struct file_attr){ .blksize = PAGE_SIZE };
	err = inode->ops->getattr(inode, attr);
	if (!err && !attr->fsid)
		attr->fsid = inode->type->dev;
	return err;
}

int inode_getrights(struct inode *inode, struct file_attr *attr)
{
	if (!inode->ops->getrights)
		return inode_getattr(inode, attr);
	*attr = (struct file_attr){ 0 };
	return inode->ops->getrights(inode, attr);
}

int inode_permission(const struct mount *mt, struct inode *inode, const struct fs_cred *cred,
		     const struct file_attr *attr, uint32_t access)
{
	const uint32_t type = inode->mode;

	/* A device or pipe is written without the file system that names it. */
	if ((access & FS_MAY_WRITE) && (type == S_IFREG || type == S_IFDIR || type == S_IFLNK)) {
		const int err = mount_writable(mt, inode);

		if (err)
			return err;
	}
	if ((access & FS_MAY_WRITE) && (attr->attrs & STATX_ATTR_IMMUTABLE))
		return -EPERM;
	if ((access & FS_MAY_EXEC) && type == S_IFREG && mount_noexec(mt, inode))
		return -EACCES;
	if (!access || (inode->ops->is_callers && inode->ops->is_callers(inode)))
		return 0;
	return attr_access(cred, inode, attr, access);
}

/*
 * Take the path of the root of @mt off the front of @text, a path in its file system ("" for the
 * root of that). -ENOENT: it is not below that root (any more).
 */
static int strip_root(const struct mount *mt, char *text)
{
	char *root;
	size_t len;
	int err = 0;

	if (!(READ_ONCE(mt->flags) & MOUNT_SUBTREE))
		return 0;
	root = kmalloc(FS_PATH_MAX);
	if (!root)
		return -ENOMEM;
	len = mount_root_text(mt, root);
	if (strncmp(text, root, len) || (text[len] && text[len] != '/'))
		err = -ENOENT;
	else
		memmove(text, text + len, strlen(text + len) + 1);
	kfree(root);
	return err;
}

int path_text(const struct path *p, char *buf)
{
	const struct inode *inode = p->inode;
	struct file_attr attr;
	size_t at;
	int err;

	if (!inode || !p->mnt || !inode->ops->text) { /* no inode: an open pipe or stream */
		strlcpy(buf, p->text, FS_PATH_MAX);
		return inode && !inode_getattr(p->inode, &attr) && !attr.nlink ? -ENOENT : 0;
	}
	at = mount_copy_at(p->mnt, buf);
	err = inode->ops->text(p->inode, buf + at, FS_PATH_MAX - at);
	if (!err)
		err = strip_root(p->mnt, buf + at);
	if (err)
		strlcpy(buf, p->text, FS_PATH_MAX);
	else if (!buf[0])
		strlcpy(buf, "/", FS_PATH_MAX);
	return err == -EINVAL ? 0 : err;
}

int path_text_strip(struct fs_state *fs, char *text, bool *outside)
{
	struct path root;
	char *buf;
	size_t len;
	int err;

	*outside = false;
	if (fs_state_at_top(fs))
		return 0;
	err = fs_state_root(fs, &root);
	if (err || !root.inode)
		return err;
	buf = kmalloc(FS_PATH_MAX);
	err = buf ? 0 : -ENOMEM;
	if (buf)
		(void)!path_text(&root, buf); /* removed: its last path */
	path_put(&root);
	if (!err) {
		len = strcmp(buf, "/") ? strlen(buf) : 0;
		*outside = strncmp(text, buf, len) != 0 || (text[len] && text[len] != '/');
		if (!*outside)
			memmove(text, text[len] ? text + len : "/",
				text[len] ? strlen(text + len) + 1 : 2);
	}
	kfree(buf);
	return err;
}

int path_text_for(struct fs_state *fs, const struct path *p, char *buf, bool *outside)
{
	const int gone = path_text(p, buf);
	int err = 0;

	*outside = false;
	if (p->inode && buf[0] == '/') /* a pipe or its kin has a name and no place */
		err = path_text_strip(fs, buf, outside);
	return err ? err : gone;
}

/* --- pieces of a walk ---------------------------------------------------------------- */

/* Take the next component off the rest; 0 at the end. */
static size_t next_name(struct walk *w, const char **name)
{
	size_t len;

	while (*w->rest == '/')
		w->rest++;
	*name = w->rest;
	len = (size_t)(strchrnul(w->rest, '/') - w->rest);
	w->rest += len;
	return len;
}

static bool is_dot(const char *name, size_t len)
{
	return len == 1 && name[0] == '.';
}

static bool is_dot_dot(const char *name, size_t len)
{
	return len == 2 && name[0] == '.' && name[1] == '.';
}

/* The last component of @text, and how long what is in front of it is. */
static size_t split(const char *text, const char **name, size_t *len)
{
	size_t end = strlen(text);

	while (end && text[end - 1] == '/')
		end--;
	*len = end;
	while (end && text[end - 1] != '/')
		end--;
	*len -= end;
	*name = text + end;
	return end;
}

/* The canonical path with one more name. */
static int canon_push(struct walk *w, const char *name, size_t len)
{
	size_t at = strlen(w->canon);

	if (at == 1)
		at = 0; /* "/" */
	if (at + 1 + len >= FS_PATH_MAX)
		return -ENAMETOOLONG;
	w->canon[at] = '/';
	memcpy(w->canon + at + 1, name, len);
	w->canon[at + 1 + len] = '\0';
	return 0;
}

static void canon_pop(struct walk *w)
{
	char *slash = strrchr(w->canon, '/');

	ASSERT(slash && w->canon[0] == '/');
	slash[slash == w->canon ? 1 : 0] = '\0';
}

/* Go to @inode, whose reference is taken over. */
static void go_to(struct walk *w, struct inode *inode)
{
	ASSERT(inode);
	inode_put(w->cur);
	w->cur = inode;
}

/* The same behind another mount, whose reference is taken over too. */
static void go_behind(struct walk *w, struct mount *mt, struct inode *inode)
{
	go_to(w, inode);
	mount_put(w->mnt);
	w->mnt = mt;
}

static void set_canon(struct walk *w, const struct mount *at)
{
	if (!mount_copy_at(at, w->canon))
		strlcpy(w->canon, "/", FS_PATH_MAX);
}

/* From the root of a mount to that of what lies over it, which has the same path. */
static void enter_over(struct walk *w)
{
	struct mount *mt;

	ASSERT(!w->mnt || w->cur == w->mnt->root);
	while (w->mnt && (mt = mount_over(w->mnt))) {
		inode_get(mt->root);
		go_behind(w, mt, mt->root);
	}
}

/* To the root of @mt, whose reference is taken over. */
static void enter_mount(struct walk *w, struct mount *mt)
{
	struct mount *shown = mt->shown;

	if (!shown)
		mt = mount_topmost(mt);
	set_canon(w, mt);
	inode_get(mt->root);
	if (shown)
		mount_get(shown);
	go_behind(w, shown ? shown : mt, mt->root);
	if (shown)
		mount_put(mt);
}

/* Is the walk at the directory that ".." does not leave? */
static bool at_root(const struct walk *w)
{
	const struct path *root = w->base->root;

	return root ? w->cur == root->inode && w->mnt == root->mnt
		    : w->cur == w->top->root && w->mnt == w->top;
}

static void go_to_root(struct walk *w)
{
	struct inode *root = w->base->root ? w->base->root->inode : w->top->root;
	struct mount *mt = w->base->root ? w->base->root->mnt : w->top;

	inode_get(root);
	if (mt)
		mount_get(mt);
	go_behind(w, mt, root);
	if (w->base->root)
		(void)!path_text(w->base->root, w->canon); /* removed: its last path */
	else
		strlcpy(w->canon, "/", FS_PATH_MAX);
}

/* Put @head and a slash in front of the rest. */
static int put_in_front(struct walk *w, const char *head, size_t len)
{
	const size_t rest_len = strlen(w->rest);
	char *joined;

	if (len + 1 + rest_len >= 2 * FS_PATH_MAX)
		return -ENAMETOOLONG;
	joined = kmalloc(len + 1 + rest_len + 1);
	if (!joined)
		return -ENOMEM;
	memcpy(joined, head, len);
	/* Without a slash behind the link, its target need not be a directory. */
	if (rest_len)
		joined[len++] = '/';
	memcpy(joined + len, w->rest, rest_len + 1);
	kfree(w->owned);
	w->owned = joined;
	w->rest = joined;
	return 0;
}

static int finish(struct walk *w, struct inode *inode, const struct file_attr *attr)
{
	if (((w->flags & WALK_DIRECTORY) || w->must_be_dir) && !inode_is_dir(inode))
		return -ENOTDIR;
	return inode_permission(w->mnt, inode, w->base->cred, attr, w->access);
}

/* --- all that is left at once -------------------------------------------------------- */

static void go_to_root_of_mount(struct walk *w)
{
	struct mount *here = w->mnt;

	inode_get(here->root);
	go_to(w, here->root);
	set_canon(w, here);
}

/* ".." at the root of w->mnt. */
static void leave_mount(struct walk *w)
{
	struct mount *here = w->mnt, *parent;
	struct inode *dir;

	go_to_root_of_mount(w);
	if (at_root(w)) {
		enter_over(w);
		return;
	}
	if (!mount_up(here, w->base->root, &parent, &dir))
		return;
	go_behind(w, parent, dir);
	canon_pop(w);
}

/*
 * Is the walk at a root that is a directory like others for its file system? A look-up of the rest
 * would leave it by "..".
 */
static bool at_bound(const struct walk *w)
{
	return w->mnt && w->cur == w->mnt->root && w->cur->ops->lookup_path &&
	       (READ_ONCE(w->mnt->flags) & MOUNT_SUBTREE) && inode_is_dir(w->cur);
}

/*
 * Names that need no question: dots at a root, from which no way leads up, and mount points in that
 * of the mounts.
 */
static void skip_to_mount(struct walk *w)
{
	bool top;

	while ((top = w->mnt == w->top && w->cur == w->top->root) || at_root(w) || at_bound(w)) {
		const char *start = w->rest, *name;
		const size_t len = next_name(w, &name);
		const bool up = is_dot_dot(name, len), dots = is_dot(name, len) || up;
		struct mount *mt = NULL;

		if (len && len <= FS_NAME_MAX && !dots && top)
			mt = mount_in_dir(w->mnt, w->cur, name, len);
		if (mt) {
			enter_mount(w, mt);
			w->must_be_dir = *w->rest == '/';
		} else if (dots) {
			w->must_be_dir = true; /* a root is one */
			if (up && !at_root(w))
				leave_mount(w);
			else if (up && w->mnt && w->cur == w->mnt->root)
				enter_over(w);
		} else {
			w->rest = start;
			return;
		}
	}
}

/*
 * @text, a path in the file system of @mt, becomes the canonical one: its own or a new one. It has
 * "/" for the root.
 */
static int make_whole(const struct mount *mt, char **text)
{
	char *whole = kmalloc(FS_PATH_MAX);
	size_t at_len, len;
	int err;

	if (!whole)
		return -ENOMEM;
	at_len = mount_copy_at(mt, whole);
	if (!strcmp(*text, "/"))
		(*text)[0] = '\0';
	err = strip_root(mt, *text);
	if (err == -ENOENT)
		err = 0; /* moved out of it meanwhile: its own path */
	len = strlen(*text);
	if (!err && at_len + len >= FS_PATH_MAX)
		err = -ENAMETOOLONG;
	if (err) {
		kfree(whole);
		return err;
	}
	memcpy(whole + at_len, *text, len + 1);
	kfree(*text);
	*text = at_len + len ? kstrdup(whole) : kstrdup("/");
	kfree(whole);
	return *text ? 0 : -ENOMEM;
}

/* Was @at among the mount points at which the file system was told to end? */
static bool was_offered(const struct path_lookup *how, const char *at)
{
	const char *end = how->mount_points + how->mount_points_len;

	for (const char *p = how->mount_points; p != end; p += strlen(p) + 1) {
		if (!strcmp(p, at))
			return true;
	}
	return false;
}

/* Go to where the look-up has come out of the file system. */
static int turn(struct walk *w, const struct path_lookup *how, struct path_found *found)
{
	struct mount *mt;

	switch (found->turn) {
	case TURN_UP:
		if (!how->below)
			return -EPROTO;
		leave_mount(w);
		return 0;
	case TURN_ROOT:
		if (!how->below || !found->nr_links)
			return -EPROTO;
		go_to_root(w);
		return 0;
	case TURN_STOP:
		if (!how->stop)
			return -EPROTO;
		go_to_root(w);
		return 0;
	case TURN_BOUND:
		if (!how->bound)
			return -EPROTO;
		go_to_root_of_mount(w);
		return 0;
	case TURN_MOUNT_POINT:
		break;
	}
	if (!was_offered(how, found->text))
		return -EPROTO;
	mt = mount_at_point(w->mnt, found->text);
	if (!mt)
		return -EAGAIN; /* it has gone meanwhile */
	enter_mount(w, mt);
	return 0;
}

/*
 * The file system hands back what is left, of which it knows nothing. -EPROTO: it should have gone
 * on.
 */
static int cross(struct walk *w, const struct path_lookup *how, struct path_found *found)
{
	int err;

	/* Without a link a name or more is gone, so a rest as long is false. */
	if (!found->nr_links && strlen(found->rest) >= strlen(w->rest))
		return -EPROTO;
	if (w->nr_links + found->nr_links > WALK_LINKS_MAX)
		return -ELOOP;
	err = turn(w, how, found);
	if (err)
		return err;
	w->nr_links += found->nr_links;
	kfree(w->owned);
	w->owned = found->rest;
	w->rest = found->rest;
	found->rest = NULL;
	return 0;
}

static void found_put(struct path_found *found)
{
	inode_put(found->inode);
	kfree(found->text);
	kfree(found->rest);
}

/* The whole rest is walked. */
static int finish_found(struct walk *w, struct path_found *found)
{
	struct path *at = &w->res->at;
	int err = finish(w, found->inode, &found->attr);

	if (!err)
		err = make_whole(w->mnt, &found->text);
	if (err)
		return err;
	*at = (struct path){ found->inode, w->mnt, found->text, found->attr };
	mount_get(w->mnt);
	*found = (struct path_found){ 0 };
	return 0;
}

/*
 * The rest names nothing, and the caller wants to make it: look for the directory that it would be
 * in.
 */
static int find_missing(struct walk *w, struct path_lookup *how)
{
	struct walk_result *res = w->res;
	struct path_found found = { 0 };
	const char *name;
	size_t len;
	const size_t dir_len = split(w->rest, &name, &len);
	char *dir;
	int err = -ENOMEM;

	if (!len) { /* a link that leads nowhere */
		err = mount_writable(w->mnt, w->cur);
		return err ? err : -ENOENT;
	}
	if (len > FS_NAME_MAX)
		return -ENAMETOOLONG;
	dir = kmalloc(dir_len + 1);
	res->name = kmalloc(len + 1);
	if (!dir || !res->name)
		goto out;
	memcpy(dir, w->rest, dir_len);
	dir[dir_len] = '\0';
	memcpy(res->name, name, len);
	res->name[len] = '\0';
	res->slash = name[len] == '/';
	how->rest = dir;
	how->must_be_dir = true;
	how->rights = true;
	err = w->cur->ops->lookup_path(w->cur, how, &found);
	if (!err && !found.inode)
		err = -ENOENT;
	if (!err && !inode_is_dir(found.inode))
		err = -ENOTDIR; /* must_be_dir is a request, and the storage node's to ignore */
	if (!err)
		err = inode_permission(w->mnt, found.inode, w->base->cred, &found.attr,
				       FS_MAY_EXEC);
	if (!err)
		err = make_whole(w->mnt, &found.text);
	if (!err) {
		res->parent = (struct path){ found.inode, w->mnt, found.text, found.attr };
		mount_get(w->mnt);
		found = (struct path_found){ 0 };
	}
out:
	found_put(&found);
	kfree(dir);
	return err;
}

/* All that is left, as far as this file system goes. @done: nothing is left. */
static int walk_rest(struct walk *w, bool *done)
{
	struct path_lookup how = {
		.cred = w->base->cred,
		.rest = w->rest,
		.nofollow = w->flags & WALK_NOFOLLOW,
		.must_be_dir = w->flags & WALK_DIRECTORY,
		.rights = w->flags & WALK_RIGHTS,
	};
	struct mount_points *points = mount_points_get(w->mnt);
	struct path_found found = { 0 };
	int err;

	if (points) {
		how.mount_points = points->text;
		how.mount_points_len = points->len;
	}
	if (READ_ONCE(w->mnt->flags) & MOUNT_SUBTREE)
		how.bound = w->mnt->root;
	how.below = w->base->root || w->mnt != w->top || how.bound || READ_ONCE(w->mnt->nr_over);
	if (w->base->root && w->base->root->mnt == w->mnt && w->base->root->inode != w->mnt->root)
		how.stop = w->base->root->inode;
	w->must_be_dir = false; /* the file system sees the slashes of the rest */
	err = w->cur->ops->lookup_path(w->cur, &how, &found);
	ASSERT(err || (found.text && !found.inode != !found.rest));
	*done = err || found.inode;
	if (err == -ENOENT && (w->flags & WALK_CREATE))
		err = find_missing(w, &how);
	else if (!err)
		err = found.inode ? finish_found(w, &found) : cross(w, &how, &found);
	found_put(&found);
	mount_points_put(points);
	if (err == -EAGAIN && !*done)
		err = 0; /* the table has changed: the same question once more */
	return err;
}

/* Does the file system look up the rest by itself?  What is left must be more than the inode. */
static bool asks_rest(const struct walk *w)
{
	return w->cur->ops->lookup_path && w->mnt &&
	       (!only_slashes(w->rest) || w->cur->mode == S_IFLNK);
}

/* --- name by name -------------------------------------------------------------------- */

/*
 * Is @dir at or below the root of @mt?  -ENOENT: somebody has moved it out of there, by another
 * mount of the file system.
 */
static int check_inside(const struct mount *mt, struct inode *dir)
{
	struct inode *at = dir, *up;
	int err = 0;

	inode_get(at);
	while (!err && at != mt->root) {
		err = at->ops->parent ? at->ops->parent(at, &up) : -ENOENT;
		if (err)
			break;
		if (up == at)
			err = -ENOENT; /* the root of the file system */
		inode_put(at);
		at = up;
	}
	inode_put(at);
	return err;
}

static int go_up(struct walk *w)
{
	struct inode *parent;
	int err;

	/* skip_to_mount() takes ".." at a root, and lookup_path() its own. */
	ASSERT(!at_root(w));
	if (w->mnt && w->cur == w->mnt->root) {
		leave_mount(w);
		return 0;
	}
	ASSERT(!w->cur->ops->lookup_path);
	err = w->cur->ops->parent ? w->cur->ops->parent(w->cur, &parent) : -ENOENT;
	if (err)
		return err;
	if (w->mnt && (READ_ONCE(w->mnt->flags) & MOUNT_SUBTREE))
		err = check_inside(w->mnt, parent);
	if (err) {
		inode_put(parent);
		return err;
	}
	go_to(w, parent);
	canon_pop(w);
	return 0;
}

/* A link that names no path but a file. -EINVAL: it is not that kind. */
static int follow_magic(struct walk *w, struct inode *link)
{
	struct path to = { 0 };
	int err;

	if (!link->ops->magic_link)
		return -EINVAL;
	err = link->ops->magic_link(link, &to);
	if (err)
		return err;
	ASSERT(to.inode && to.text);
	strlcpy(w->canon, to.text, FS_PATH_MAX);
	go_behind(w, to.mnt, to.inode);
	to.inode = NULL;
	to.mnt = NULL;
	path_put(&to);
	return 0;
}

char *inode_link_text(struct inode *link)
{
	char *target;
	ssize_t len;

	if (!link->ops->readlink)
		return ERR_PTR(-EINVAL);
	target = kmalloc(FS_PATH_MAX);
	if (!target)
		return ERR_PTR(-ENOMEM);
	len = link->ops->readlink(link, target, FS_PATH_MAX - 1);
	if (len > 0) {
		target[len] = '\0';
		return target;
	}
	kfree(target);
	return ERR_PTR(len ? len : -ENOENT);
}

static int follow(struct walk *w, struct inode *link)
{
	char *target;
	int err;

	if (++w->nr_links > WALK_LINKS_MAX)
		return -ELOOP;
	err = follow_magic(w, link);
	if (err != -EINVAL)
		return err;
	target = inode_link_text(link);
	if (IS_ERR(target))
		return (int)PTR_ERR(target);
	err = put_in_front(w, target, strlen(target));
	if (!err && target[0] == '/')
		go_to_root(w);
	kfree(target);
	return err;
}

/* The last name is not there, and the caller wants to make it. */
static int finish_missing(struct walk *w, const char *name, size_t len)
{
	struct walk_result *res = w->res;

	res->name = kmalloc(len + 1);
	res->parent.text = kstrdup(w->canon);
	if (!res->name || !res->parent.text)
		return -ENOMEM; /* the caller puts the result */
	memcpy(res->name, name, len);
	res->name[len] = '\0';
	res->slash = *w->rest == '/';
	inode_get(w->cur);
	res->parent.inode = w->cur;
	if (w->mnt)
		mount_get(w->mnt);
	res->parent.mnt = w->mnt;
	return inode_getattr(w->cur, &res->parent.attr);
}

/* One name in directory w->cur. @done: nothing is left. */
static int walk_name(struct walk *w, const char *name, size_t len, bool *done)
{
	const bool last = only_slashes(w->rest), slash = *w->rest == '/';
	struct mount *mt = mount_in_dir(w->mnt, w->cur, name, len);
	struct inode *next = NULL;
	int err;

	ASSERT(inode_is_dir(w->cur) && len && len <= FS_NAME_MAX);
	w->must_be_dir = slash;
	if (mt) {
		enter_mount(w, mt);
		return 0;
	}
	err = w->cur->ops->lookup(w->cur, name, len, &next);
	if (err == -ENOENT && last && (w->flags & WALK_CREATE)) {
		*done = true;
		return finish_missing(w, name, len);
	}
	if (err)
		return err;
	if (next->mode == S_IFLNK && (!last || slash || !(w->flags & WALK_NOFOLLOW))) {
		err = follow(w, next);
		inode_put(next);
		return err;
	}
	err = canon_push(w, name, len);
	if (err)
		inode_put(next);
	else
		go_to(w, next);
	return err;
}

static int finish_here(struct walk *w)
{
	struct path *at = &w->res->at;
	int err;

	if (w->flags & WALK_RIGHTS)
		err = inode_getrights(w->cur, &at->attr);
	else
		err = inode_getattr(w->cur, &at->attr);
	if (!err)
		err = finish(w, w->cur, &at->attr);
	if (err)
		return err;
	at->text = kstrdup(w->canon);
	if (!at->text)
		return -ENOMEM;
	at->inode = w->cur;
	at->mnt = w->mnt;
	w->cur = NULL;
	w->mnt = NULL;
	return 0;
}

/* One component, or the end. */
static int walk_here(struct walk *w, bool *done)
{
	struct file_attr attr;
	const char *name;
	const size_t len = next_name(w, &name);
	int err;

	if (!len) {
		*done = true;
		return finish_here(w);
	}
	if (!inode_is_dir(w->cur))
		return -ENOTDIR;
	err = inode_getattr(w->cur, &attr);
	if (!err)
		err = inode_permission(w->mnt, w->cur, w->base->cred, &attr, FS_MAY_EXEC);
	if (err)
		return err;
	if (len > FS_NAME_MAX)
		return -ENAMETOOLONG;
	w->must_be_dir = true;
	if (is_dot(name, len))
		return 0;
	return is_dot_dot(name, len) ? go_up(w) : walk_name(w, name, len, done);
}

/* --- whole walks --------------------------------------------------------------------- */

/* Where the walk of @text begins. */
static int begin(struct walk *w, const char *text)
{
	const struct path *dir = w->base->dir;

	if (text[0] == '/') {
		go_to_root(w);
		return 0;
	}
	if (!dir)
		return -ENOENT;
	if (text[0] && (dir->attr.mode & S_IFMT) != S_IFDIR)
		return -ENOTDIR;
	inode_get(dir->inode);
	w->cur = dir->inode;
	if (dir->mnt)
		mount_get(dir->mnt);
	w->mnt = dir->mnt;
	/* A walk can begin in a directory that has been removed: the path is then its last one. */
	(void)!path_text(dir, w->canon);
	return 0;
}

int path_walk(const struct walk_base *base, const char *text, uint32_t flags, uint32_t access,
	      struct walk_result *res)
{
	struct walk w = {
		.base = base,
		.flags = flags,
		.access = access,
		.rest = text,
		.res = res,
	};
	bool done = false;
	int err;

	*res = (struct walk_result){ 0 };
	if (!text[0]) {
		if (!(flags & WALK_EMPTY))
			return -ENOENT;
		w.flags |= WALK_NOFOLLOW;
	}
	w.canon = kmalloc(FS_PATH_MAX);
	w.top = mounts_top(base->mounts);
	err = w.canon ? w.top ? begin(&w, text) : -ENOENT : -ENOMEM;
	while (!err && !done) {
		skip_to_mount(&w);
		err = asks_rest(&w) ? walk_rest(&w, &done) : walk_here(&w, &done);
	}
	inode_put(w.cur);
	mount_put(w.mnt);
	mount_put(w.top);
	kfree(w.owned);
	kfree(w.canon);
	/* A file, or the place where one would be. */
	ASSERT(err || (res->at.inode ? !!res->at.text : res->parent.inode && res->name));
	if (err)
		walk_result_put(res);
	return err;
}

int path_walk_parent(const struct walk_base *base, const char *text, struct walk_result *res)
{
	const char *name;
	size_t len;
	const size_t dir_len = split(text, &name, &len);
	char *dir;
	int err;

	*res = (struct walk_result){ 0 };
	if (!text[0])
		return -ENOENT;
	dir = kmalloc(dir_len + 2);
	if (!dir)
		return -ENOMEM;
	memcpy(dir, text, dir_len);
	dir[dir_len] = '\0';
	if (!dir_len)
		strlcpy(dir, text[0] == '/' ? "/" : ".", 2);
	err = path_walk(base, dir, WALK_DIRECTORY | WALK_RIGHTS, FS_MAY_EXEC, res);
	kfree(dir);
	if (err)
		return err;
	res->parent = res->at;
	res->at = (struct path){ 0 };
	res->name = kmalloc(len + 1);
	if (!res->name || len > FS_NAME_MAX) {
		err = res->name ? -ENAMETOOLONG : -ENOMEM;
		walk_result_put(res);
		return err;
	}
	memcpy(res->name, name, len);
	res->name[len] = '\0';
	res->slash = name[len] == '/';
	res->mount_point = mount_point_at(res->parent.inode, res->name, len);
	return 0;
}

int path_walk_last(const struct walk_base *base, struct walk_result *res)
{
	/* Watches are told of links that are left. */
	const uint32_t rights = notify_is_on() ? 0 : WALK_RIGHTS;
	struct walk_base from = *base;
	struct walk_result found;
	int err;

	ASSERT(res->parent.inode && res->name && !res->at.inode);
	from.dir = &res->parent;
	err = path_walk(&from, res->name[0] ? res->name : "/", WALK_NOFOLLOW | rights, 0, &found);
	if (err)
		return err;
	res->at = found.at;
	found.at = (struct path){ 0 };
	/* A storage node's mount points are found by path, or it has been mounted meanwhile. */
	if (res->at.mnt != res->parent.mnt)
		res->mount_point = true;
	walk_result_put(&found);
	return 0;
}
