/* SPDX-License-Identifier: MIT */
/*
 * Copies of mounts: bind mounts, and a namespace of one's own.
 *
 * Flow:	the mounts to be copied are collected first, each before those in it, so that copies
 *		that come to lie in their own original are not copied again. Then each is made and
 *		attached.
 * Failure:	a tree is made before its top is attached, so after an error nobody has seen it.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/process/process.h>

#include "mount_private.h"

struct forest {
	struct mount **from; /* parents first; the caller's to kfree() */
	size_t nr, room;
};

static int collect_one(struct forest *f, struct mount *mt)
{
	if (f->nr == f->room) {
		const size_t room = f->room ? 2 * f->room : 16;
		struct mount **more = krealloc(f->from, room * sizeof(struct mount *));

		if (!more)
			return -ENOMEM;
		f->from = more;
		f->room = room;
	}
	mt->twin = NULL;
	f->from[f->nr++] = mt;
	return 0;
}

/* Is the mount point of @child at or below @root, a directory of the file system it is in? */
static bool is_below(const struct mount *child, const char *root)
{
	const size_t len = strlen(root);

	return !len ||
	       (child->point && !strncmp(child->point, root, len) && child->point[len] == '/');
}

/* A namespace of mounts that has been mounted: a copy of it could come to lie in itself. */
static bool is_mount_ns(const struct mount *mt)
{
	const struct ns *ns = ns_of_inode(mt->root);

	return ns && ns->kind == NS_MNT;
}

/* Is @child left out of a bind mount of @dir, whose path is @root, of the mount that it is in? */
static bool is_elsewhere(const struct mount *child, const struct inode *dir, const char *root)
{
	return child->name[0] ? !is_below(child, root) : dir != child->parent->root;
}

/*
 * @top, and if @all the mounts in it that are below its directory @dir with path @root ("" for its
 * root). @whole: for another namespace, with the files of covered directories and without
 * namespaces of mounts, as on Linux.
 */
static int collect(struct forest *f, struct mount *top, const struct inode *dir, const char *root,
		   bool all, bool whole)
{
	struct mount *child;
	int err = collect_one(f, top);

	assert_mutex_held(&mount_change);
	for (size_t i = 0; !err && all && i < f->nr; i++) {
		list_for_each_entry(child, &f->from[i]->children, beside) {
			if (!err && !whole && !child->shown &&
			    (child->flags & (MOUNT_UNBINDABLE | MOUNT_LOCKED)) ==
				    (MOUNT_UNBINDABLE | MOUNT_LOCKED) &&
			    !(!i && is_elsewhere(child, dir, root)))
				err = -EPERM; /* its place would be uncovered */
			if (err || (child->shown && !whole) ||
			    (!i && is_elsewhere(child, dir, root)) ||
			    (whole && is_mount_ns(child)) ||
			    (!whole && (child->flags & MOUNT_UNBINDABLE)))
				continue;
			err = collect_one(f, child);
		}
	}
	return err;
}

/* A copy of @from that shows @root; in no namespace. NULL: no memory. */
static struct mount *copy_of(const struct mount *from, struct inode *root)
{
	const uint32_t subtree = root != from->root ? MOUNT_SUBTREE : 0;
	struct mount *mt = mount_alloc(from->type, root, READ_ONCE(from->flags) | subtree);

	if (!mt)
		return NULL;
	mt->locked_flags = from->locked_flags;
	inode_get(root);
	if (from->shown) {
		ASSERT(from->shown->twin); /* the root of everything comes first */
		mt->shown = from->shown->twin;
		mount_get(mt->shown);
	}
	if (from->source)
		mt->source = kmem_strdup(kmem_current(), from->source);
	if (from->file_root)
		mt->file_root = kmem_strdup(kmem_current(), from->file_root);
	if (!from->source == !mt->source && !from->file_root == !mt->file_root)
		return mt;
	mount_put(mt);
	return NULL;
}

/* The path of @from, which is no directory, in its file system. */
static int tell_file_root(struct mount *mt, const struct path *from)
{
	char *buf;
	size_t at, root;

	if (inode_is_dir(from->inode) || mt->file_root)
		return 0;
	buf = kmalloc(2 * FS_PATH_MAX);
	if (!buf)
		return -ENOMEM;
	at = mount_copy_at(from->mnt, buf);
	if (strncmp(buf, from->text, at))
		at = 0; /* the mount has another place by now */
	root = mount_root_text(from->mnt, buf);
	strlcpy(buf + root, from->text + at, FS_PATH_MAX);
	mt->file_root = kmem_strdup(kmem_current(), buf);
	kfree(buf);
	return mt->file_root ? 0 : -ENOMEM;
}

/*
 * The path of the directory that the copy of @from will be in. ERR_PTR(-ENOMEM, -ENAMETOOLONG);
 * -EINVAL: @from is not in its parent.
 */
static char *dir_text(const struct mount *from)
{
	const char *at = from->parent->at;
	const size_t at_len = at[1] ? strlen(at) : 0;
	const char *rest = from->at + at_len, *name = strrchr(from->at, '/');
	size_t len, rest_len;
	char *text;

	if (strncmp(from->at, at, at_len) || (from->name[0] && name < rest))
		return ERR_PTR(-EINVAL);
	rest_len = from->name[0] ? (size_t)(name - rest) : 0;
	text = kmalloc(FS_PATH_MAX);
	if (!text)
		return ERR_PTR(-ENOMEM);
	len = mount_copy_at(from->parent->twin, text);
	if (len + rest_len + 2 > FS_PATH_MAX) {
		kfree(text);
		return ERR_PTR(-ENAMETOOLONG);
	}
	memcpy(text + len, rest, rest_len);
	strlcpy(text + len + rest_len, len + rest_len ? "" : "/", 2);
	return text;
}

/* The copy of @from into that of its parent. */
static int copy_child(struct mounts *ns, struct mount *from)
{
	struct path dir = { .inode = from->dir, .mnt = from->parent->twin };
	struct mount *mt;
	int err;

	dir.text =
		dir_text(from); /* of a file system that does not know the paths of directories */
	if (IS_ERR(dir.text))
		return PTR_ERR(dir.text);
	mt = copy_of(from, from->root);
	if (!mt) {
		kfree(dir.text);
		return -ENOMEM;
	}
	mt->first = from->first && ns != from->ns;
	err = mount_place(mt, &dir, from->name);
	kfree(dir.text);
	if (!err)
		err = mount_attach(ns, mt);
	if (err)
		mount_put(mt);
	else
		from->twin = mt;
	return err;
}

static int copy_children(struct mounts *ns, const struct forest *f)
{
	int err = 0;

	for (size_t i = 1; !err && i < f->nr; i++)
		err = copy_child(ns, f->from[i]);
	return err;
}

/*
 * The copies of @f are for less privileged users: they see no more of what is under them, and
 * cannot do more with their files, than the namespace of @f lets them. The root covers nothing.
 */
static void lock_copies(const struct forest *f)
{
	const uint32_t rights = MOUNT_RDONLY | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC;

	for (size_t i = 0; i < f->nr; i++) {
		struct mount *mt = f->from[i]->twin;

		if (i)
			__atomic_or_fetch(&mt->flags, MOUNT_LOCKED, __ATOMIC_RELAXED);
		mt->locked_flags |= mt->flags & rights;
		if (mt->flags & MOUNT_ASKED)
			mt->locked_flags |= MOUNT_TIMES;
	}
}

/*
 * Is a locked mount in @from, a directory whose path is @root, which a mount of that directory
 * alone would uncover?
 */
static bool uncovers(const struct path *from, const char *root)
{
	const struct mount *child;

	list_for_each_entry(child, &from->mnt->children, beside) {
		if ((child->flags & MOUNT_LOCKED) && !child->shown &&
		    !is_elsewhere(child, from->inode, root))
			return true;
	}
	return false;
}

int mount_bind(struct mounts *ns, const struct path *from, bool recursive, const struct path *dir,
	       const char *name, struct list_head *gone)
{
	struct forest f = { 0 };
	char *root = kmalloc(FS_PATH_MAX);
	struct mount *top;
	int err = 0;

	assert_mutex_held(&mount_change);
	if (!root)
		return -ENOMEM;
	root[0] = '\0';
	if (from->inode->ops->text && inode_is_dir(from->inode))
		err = from->inode->ops->text(from->inode, root, FS_PATH_MAX);
	if (!err && !recursive && inode_is_dir(from->inode) && uncovers(from, root))
		err = -EINVAL;
	if (!err)
		err = collect(&f, from->mnt, from->inode, root,
			      recursive && inode_is_dir(from->inode), false);
	top = err ? NULL : copy_of(from->mnt, from->inode);
	if (!err && !top)
		err = -ENOMEM;
	if (!err)
		top->flags &= ~(uint32_t)MOUNT_LOCKED; /* it covers what its maker has chosen */
	if (!err)
		err = tell_file_root(top, from);
	if (!err)
		err = mount_place(top, dir, name);
	if (!err) {
		from->mnt->twin = top;
		err = copy_children(ns, &f);
	}
	/* The last step makes the whole tree visible. */
	if (!err)
		err = mount_attach(ns, top);
	if (err && top) {
		mount_detach_children(top, gone);
		mount_put(top);
	}
	kfree(f.from);
	kfree(root);
	return err;
}

struct mounts *mounts_copy(struct mounts *ns, struct user_ns *owner, struct path *one,
			   struct path *two, struct list_head *gone)
{
	struct mounts *own = mounts_alloc(owner);
	struct forest f = { 0 };
	struct path *const places[] = { one, two };
	struct mount *top;
	int err;

	if (IS_ERR(own))
		return own;
	assert_mutex_held(&mount_change);
	err = collect(&f, ns->root, ns->root->root, "", true, true);
	top = err ? NULL : copy_of(ns->root, ns->root->root);
	if (top)
		top->first = ns->root->first;
	own->first_gone = ns->first_gone;
	if (!err)
		err = top ? mount_attach_root(own, top) : -ENOMEM;
	if (err && top)
		mount_put(top);
	if (!err) {
		ns->root->twin = top;
		err = copy_children(own, &f);
	}
	if (!err && owner != ns->ns.owner)
		lock_copies(&f);
	for (size_t i = 0; !err && i < ARRAY_SIZE(places); i++) {
		struct mount *old = places[i]->mnt;

		if (!old || old->ns != ns)
			continue;
		places[i]->mnt = old->twin;
		mount_get(old->twin);
		mount_put(old);
	}
	kfree(f.from);
	if (!err)
		return own;
	mounts_clear(own, gone);
	mounts_drop(own);
	return ERR_PTR(err);
}
