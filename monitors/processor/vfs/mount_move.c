/* SPDX-License-Identifier: MIT */
/*
 * Mounts that go to another place: MS_MOVE and pivot_root().
 *
 * Flow:	the new place is made first; then the canonical paths of all mounts that come along,
 *		parents first, and the paths at which look-ups end; then mounts_rehang() puts all of
 *		it in place at once.
 * Locking:	under mount_change.
 * Failure:	everything that needs memory, or may be too long, is made before anything changes.
 * Limits:	a mount that lies below others on one name is moved without those.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "mount_private.h"

/* --- places -------------------------------------------------------------------------- */

/* @head, a slash and @name. */
static char *join(const char *head, const char *name)
{
	const size_t head_len = strlen(head), len = strlen(name);
	char *text = kmem_alloc(mount_payer(), head_len + 1 + len + 1);

	if (text) {
		memcpy(text, head, head_len);
		text[head_len] = '/';
		memcpy(text + head_len + 1, name, len + 1);
	}
	return text;
}

static void spot_put(struct mount_spot *spot)
{
	inode_put(spot->dir);
	kmem_free(spot->name);
	kmem_free(spot->at);
	kmem_free(spot->point);
	*spot = (struct mount_spot){ 0 };
}

/* A path of a mount point, so that others can be appended. */
static const char *head_of(const char *at)
{
	return at[1] ? at : "";
}

/* @path without that of @parent, both as they are before any change. NULL: it is not in there. */
static const char *rest_in(const char *path, const struct mount *parent)
{
	const char *head = head_of(parent->at);
	const size_t len = strlen(head);

	path = head_of(path);
	return strncmp(path, head, len) || (path[len] && path[len] != '/') ? NULL : path + len;
}

/*
 * The canonical path of @dir, in which a mount will be, or over which: that of its mount, as the
 * file system may not know its own. -EINVAL: the path that is known is not in its mount.
 */
static int text_of(const struct path *dir, bool over, char *buf)
{
	int err;

	if (over) {
		if (!mount_copy_at(dir->mnt, buf))
			strlcpy(buf, "/", FS_PATH_MAX);
		return 0;
	}
	err = path_text(dir, buf);
	return err || rest_in(buf, dir->mnt) ? err : -EINVAL;
}

int mount_spot_make(struct mount_spot *spot, const struct path *dir, const char *name)
{
	char *buf = kmalloc(FS_PATH_MAX);
	int err = buf ? text_of(dir, !name[0], buf) : -ENOMEM;

	*spot = (struct mount_spot){ .parent = dir->mnt };
	ASSERT(dir->mnt && (name[0] || dir->inode == dir->mnt->root));
	if (!err && strlen(buf) + 1 + strlen(name) >= FS_PATH_MAX)
		err = -ENAMETOOLONG;
	if (!err) {
		spot->at =
			name[0] ? join(buf[1] ? buf : "", name) : kmem_strdup(mount_payer(), buf);
		spot->name = kmem_strdup(mount_payer(), name);
		if (!spot->at || !spot->name)
			err = -ENOMEM;
	}
	/* A place over a root is no name for the file system. */
	if (!err && name[0] && dir->inode->ops->text) {
		err = dir->inode->ops->text(dir->inode, buf, FS_PATH_MAX);
		if (!err)
			spot->point = join(buf, name);
		if (!err && !spot->point)
			err = -ENOMEM;
	}
	kfree(buf);
	if (err) {
		spot_put(spot);
		return err;
	}
	spot->dir = dir->inode;
	inode_get(spot->dir);
	return 0;
}

/* --- what comes along ---------------------------------------------------------------- */

/* Where it is to be, of a mount that goes elsewhere itself; NULL: it stays in its parent. */
static const struct mount_spot *spot_of(const struct mount_change *c, const struct mount *mt)
{
	for (size_t i = 0; i < c->nr; i++) {
		if (c->hang[i].mt == mt)
			return &c->hang[i].to;
	}
	return NULL;
}

struct texts {
	struct mount_change *c;
	size_t room;
};

/* @mt at @rest of the mount whose new path is @head. -EINVAL: it is NULL. */
static int add_text(struct texts *t, struct mount *mt, const char *head, const char *rest)
{
	struct mount_change *c = t->c;
	const size_t len = strlen(head), rest_len = rest ? strlen(rest) : 0;
	char *at;

	if (!rest)
		return -EINVAL;
	if (c->nr_texts == t->room) {
		const size_t room = t->room ? 2 * t->room : 16;
		struct mount_text *more = krealloc(c->texts, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		c->texts = more;
		t->room = room;
	}
	if (len + rest_len >= FS_PATH_MAX)
		return -ENAMETOOLONG;
	at = kmem_alloc(mount_payer(), len + rest_len + 2);
	if (!at)
		return -ENOMEM;
	memcpy(at, head, len);
	memcpy(at + len, rest, rest_len + 1);
	if (!at[0])
		strlcpy(at, "/", 2);
	c->texts[c->nr_texts++] = (struct mount_text){ mt, at };
	return 0;
}

/* The mounts that will be in the one with text number @i. */
static int add_children(struct texts *t, size_t i)
{
	struct mount_change *c = t->c;
	const struct mount *parent = c->texts[i].mt;
	const char *head = head_of(c->texts[i].at);
	struct mount *mt;
	int err = 0;

	list_for_each_entry(mt, &parent->children, beside) {
		if (!err && !spot_of(c, mt))
			err = add_text(t, mt, head, rest_in(mt->at, parent));
	}
	for (size_t k = 0; !err && k < c->nr; k++) {
		if (c->hang[k].to.parent == parent)
			err = add_text(t, c->hang[k].mt, head, rest_in(c->hang[k].to.at, parent));
	}
	return err;
}

/* All paths that change: from @top on, which will be at @at. */
static int make_texts(struct mount_change *c, struct mount *top, const char *at)
{
	struct texts t = { .c = c };
	int err = add_text(&t, top, head_of(at), "");

	for (size_t i = 0; !err && i < c->nr_texts; i++)
		err = add_children(&t, i);
	return err;
}

/* --- where look-ups end -------------------------------------------------------------- */

/* How much room the list of @parent will need. */
static size_t points_len(const struct mount_change *c, const struct mount *parent)
{
	const struct mount *mt;
	size_t len = 0;

	list_for_each_entry(mt, &parent->children, beside)
		len += !spot_of(c, mt) && mount_ends_lookups(mt) ? strlen(mt->point) + 1 : 0;
	for (size_t i = 0; i < c->nr; i++) {
		const struct mount_spot *to = &c->hang[i].to;

		if (to->parent == parent && to->dir->ops->lookup_path && to->point &&
		    !c->hang[i].mt->shown)
			len += strlen(to->point) + 1;
	}
	return len;
}

static int add_points(struct mount_change *c, struct mount *mt)
{
	int err;

	for (size_t i = 0; i < c->nr_points; i++) {
		if (c->points[i].mt == mt)
			return 0;
	}
	ASSERT(c->nr_points < ARRAY_SIZE(c->points));
	err = mount_points_alloc(points_len(c, mt), &c->points[c->nr_points].points);
	if (!err)
		c->points[c->nr_points++].mt = mt;
	return err;
}

static int make_points(struct mount_change *c)
{
	int err = 0;

	for (size_t i = 0; !err && i < c->nr; i++) {
		if (c->hang[i].mt->parent)
			err = add_points(c, c->hang[i].mt->parent);
		if (!err && c->hang[i].to.parent)
			err = add_points(c, c->hang[i].to.parent);
	}
	return err;
}

static void change_put(struct mount_change *c)
{
	for (size_t i = 0; i < c->nr; i++)
		spot_put(&c->hang[i].to);
	for (size_t i = 0; i < c->nr_texts; i++)
		kmem_free(c->texts[i].at);
	for (size_t i = 0; i < c->nr_points; i++)
		mount_points_put(c->points[i].points);
	kfree(c->texts);
}

/* @top is the highest of what moves, and will be at @at. */
static int carry_out(struct mounts *ns, struct mount_change *c, struct mount *top, const char *at)
{
	int err = make_texts(c, top, at);

	if (!err)
		err = make_points(c);
	if (!err)
		mounts_rehang(ns, c);
	return err;
}

/* --- both ---------------------------------------------------------------------------- */

int mount_move(struct mounts *ns, struct mount *mt, const struct path *dir, const char *name)
{
	struct mount_change c = { .hang = { { .mt = mt } } };
	int err = mount_spot_make(&c.hang[0].to, dir, name);

	assert_mutex_held(&mount_change);
	ASSERT(mt->ns == ns && mt->parent && !mt->shown && !mount_is_in(dir->mnt, mt));
	if (err)
		return err;
	c.nr = 1;
	err = carry_out(ns, &c, mt, c.hang[0].to.at);
	change_put(&c);
	return err;
}

/* The place of @mt, copied; empty for the root of the namespace but for its path. -ENOMEM */
static int copy_spot(const struct mount *mt, struct mount_spot *to)
{
	*to = (struct mount_spot){ .parent = mt->parent, .at = kmem_strdup(mount_payer(), mt->at) };
	if (mt->dir)
		to->name = kmem_strdup(mount_payer(), mt->name);
	if (mt->point)
		to->point = kmem_strdup(mount_payer(), mt->point);
	if (!to->at || (mt->dir && !to->name) || (mt->point && !to->point)) {
		spot_put(to);
		return -ENOMEM;
	}
	if (mt->dir) {
		to->dir = mt->dir;
		inode_get(to->dir);
	}
	return 0;
}

int mount_pivot(struct mounts *ns, struct mount *mt, struct mount *root, const struct path *dir,
		const char *name)
{
	struct mount_change c = { .hang = { { .mt = mt }, { .mt = root } } };
	int err;

	assert_mutex_held(&mount_change);
	ASSERT(mt->ns == ns && mt != root && mount_is_in(mt, root) && mount_is_in(dir->mnt, mt));
	err = copy_spot(root, &c.hang[0].to);
	if (err)
		return err;
	c.nr = 1;
	err = mount_spot_make(&c.hang[1].to, dir, name);
	if (!err) {
		c.nr = 2;
		err = carry_out(ns, &c, mt, c.hang[0].to.at);
	}
	change_put(&c);
	return err;
}
