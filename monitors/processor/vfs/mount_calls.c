/* SPDX-License-Identifier: MIT */
/*
 * mount(2), umount2(2) and pivot_root(2).
 *
 * Flow:	strings and paths first, as Linux; then the entry that leads to the target, by its
 *		canonical path. That entry is good if the table, locked by now, has not
 *		changed since; else the call begins again. No walk is made under mount_change: it
 *		may lead anywhere, to the locks of any file system and to the end of a namespace.
 * Failure:	everything is checked before the table changes. EPERM without CAP_SYS_ADMIN.
 * Limits:	MOUNT_MAX mounts of a namespace, and the memory of the program that makes them.
 *		Nothing is propagated to other mounts: shared answers EINVAL, and a slave of no
 *		other mount is a private one. "/" is not unmounted: EBUSY.
 */
#include <abi/mount.h>
#include <arch/uaccess.h>
#include <fs/access.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "file.h"
#include "mount_private.h"

#define MS_PROPAGATION (MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE)

struct mount_request {
	char *source, *type; /* NULL: none was given */
	char *data;          /* the same; less than a page */
	uint32_t flags;      /* MS_* */
	struct mounts *ns;
	uint64_t changes;         /* of ns, before anything was looked up */
	struct path at;           /* the target */
	struct path from;         /* MS_BIND, MS_MOVE: the source */
	struct walk_result place; /* of a new mount: the entry that leads to the target */
	int no_place;             /* or why there is none */
	struct list_head gone;
};

/* --- places -------------------------------------------------------------------------- */

/* Is @at the root of a mount of this namespace? */
static bool is_mount(const struct mounts *ns, const struct path *at)
{
	assert_mutex_held(&mount_change);
	return at->mnt && at->mnt->ns == ns && at->inode == at->mnt->root;
}

/* Some file systems make another inode for each look-up of a file. */
static bool same_file(const struct path *a, const struct path *b)
{
	if (a->mnt != b->mnt)
		return false;
	return a->inode == b->inode || (a->inode->type == b->inode->type && a->attr.file.ino &&
					file_id_equal(&a->attr.file, &b->attr.file));
}

/* From the root of a mount to that of the last one that lies over it. */
static void to_topmost(struct path *at)
{
	at->mnt = mount_topmost(at->mnt);
	inode_get(at->mnt->root);
	inode_put(at->inode);
	at->inode = at->mnt->root;
}

/* The place over the root of a mount, where @at is; over what lies there already. */
static int locate_over(const struct path *at, struct walk_result *res)
{
	int err;

	*res = (struct walk_result){ 0 };
	err = path_copy(&res->parent, at);
	if (err)
		return err;
	to_topmost(&res->parent);
	res->name = kstrdup("");
	if (res->name)
		return 0;
	walk_result_put(res);
	return -ENOMEM;
}

/*
 * The directory and the name that lead to @at, by its canonical path as it is now; @res is the
 * caller's to put. -EINVAL outside of the namespace, -ENOENT: it has none.
 */
static int locate(struct mounts *ns, const struct path *at, struct walk_result *res)
{
	const struct fs_cred kernel = { 0 };
	char slash[] = "/", *text;
	struct path dir = { .attr = { .mode = S_IFDIR } };
	const struct walk_base base = { .cred = &kernel, .mounts = ns, .dir = &dir };
	size_t len;
	int err;

	if (!at->mnt || READ_ONCE(at->mnt->ns) != ns)
		return -EINVAL;
	text = kmalloc(2 * FS_PATH_MAX);
	if (!text)
		return -ENOMEM;
	err = path_text(at, text);
	dir.mnt = mount_base(at->mnt);
	dir.inode = dir.mnt->root;
	len = mount_copy_at(dir.mnt, text + FS_PATH_MAX);
	dir.text = len ? text + FS_PATH_MAX : slash;
	if (!err && strncmp(text, text + FS_PATH_MAX, len))
		err = -ENOENT; /* it has been moved meanwhile */
	len += text[len] == '/';
	if (!err && !text[len])
		err = at->inode == dir.inode && at->mnt == dir.mnt ? locate_over(at, res) : -ENOENT;
	else if (!err)
		err = path_walk_parent(&base, text + len, res);
	if (!err && res->name[0]) {
		err = path_walk_last(&base, res);
		if (!err && !same_file(&res->at, at))
			err = -ENOENT; /* covered, or renamed meanwhile */
		if (err)
			walk_result_put(res);
	}
	kfree(text);
	mount_put(dir.mnt);
	return err;
}

/* @mt, which is taken over, at the target of @r. */
static int put_at(const struct mount_request *r, struct mount *mt)
{
	int err = r->no_place;

	if (!err && inode_is_dir(mt->root) != inode_is_dir(r->at.inode))
		err = -ENOTDIR;
	if (!err)
		err = mount_place(mt, &r->place.parent, r->place.name);
	if (!err)
		err = mount_attach(r->ns, mt);
	if (err)
		mount_put(mt);
	return err;
}

/* --- flags --------------------------------------------------------------------------- */

static uint32_t mount_flags_of(uint32_t ms)
{
	uint32_t flags = MOUNT_ASKED | (ms & MS_NOATIME ? MOUNT_NOATIME : MOUNT_RELATIME);

	if (ms & MS_STRICTATIME)
		flags &= ~(uint32_t)(MOUNT_NOATIME | MOUNT_RELATIME);
	return flags | (ms & MS_RDONLY ? MOUNT_RDONLY : 0) | (ms & MS_NOSUID ? MOUNT_NOSUID : 0) |
	       (ms & MS_NODEV ? MOUNT_NODEV : 0) | (ms & MS_NOEXEC ? MOUNT_NOEXEC : 0) |
	       (ms & MS_NODIRATIME ? MOUNT_NODIRATIME : 0);
}

/* Without a word about times of access those of @mt stay. */
static uint32_t changed_flags(const struct mount *mt, uint32_t ms)
{
	uint32_t flags = mount_flags_of(ms);

	if (!(ms & (MS_NOATIME | MS_NODIRATIME | MS_RELATIME | MS_STRICTATIME)))
		flags = (flags & ~(uint32_t)MOUNT_TIMES) | (mt->flags & MOUNT_TIMES);
	return flags | (mt->flags & (MOUNT_SUBTREE | MOUNT_UNBINDABLE | MOUNT_LOCKED));
}

/* May the flags of @mt become those of MS_* @ms? Those that are locked stay as they are. */
static bool may_change(const struct mount *mt, uint32_t ms)
{
	return !((mt->flags ^ changed_flags(mt, ms)) & mt->locked_flags);
}

/* --- what exists already ------------------------------------------------------------- */

/* MS_REMOUNT | MS_BIND: the flags of one mount. */
static int reconfigure_mount(const struct mount_request *r)
{
	struct mount *mt = r->at.mnt;
	const uint32_t old = mt ? mt->flags : 0;

	if (!is_mount(r->ns, &r->at))
		return -EINVAL;
	if (!may_change(mt, r->flags))
		return -EPERM;
	__atomic_store_n(&mt->flags, changed_flags(mt, r->flags), __ATOMIC_SEQ_CST);
	if (!(r->flags & MS_RDONLY) || (old & MOUNT_RDONLY) ||
	    !__atomic_load_n(&mt->writers, __ATOMIC_SEQ_CST))
		return 0;
	__atomic_store_n(&mt->flags, old, __ATOMIC_SEQ_CST);
	return -EBUSY;
}

/* MS_REMOUNT: the file system, wherever it is mounted, and the flags of this mount. */
static int remount(const struct mount_request *r)
{
	struct mount *mt = r->at.mnt;
	struct fs_type *type;
	int err;

	if (!is_mount(r->ns, &r->at))
		return -EINVAL;
	type = mt->type;
	if (!may_change(mt, r->flags) || !ns_capable(type->owner, CAP_SYS_ADMIN))
		return -EPERM;
	if (!(r->flags & MS_RDONLY) && type->read_only)
		return -EROFS;
	err = type->reconfigure && r->data ? type->reconfigure(type, r->data) : 0;
	if (err)
		return err;
	if ((r->flags & MS_RDONLY) && !type->ro_now) {
		__atomic_store_n(&type->ro_now, true, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&type->nr_writers, __ATOMIC_SEQ_CST)) {
			WRITE_ONCE(type->ro_now, false);
			return -EBUSY;
		}
	}
	WRITE_ONCE(type->ro_now, r->flags & MS_RDONLY);
	__atomic_store_n(&mt->flags, changed_flags(mt, r->flags), __ATOMIC_SEQ_CST);
	return 0;
}

/*
 * No mount is shared, so private and slave are the same, as on Linux; shared cannot be asked for.
 * MS_REC: of all mounts in it, too.
 */
static int change_propagation(const struct mount_request *r)
{
	const uint32_t to = r->flags & ~(uint32_t)(MS_REC | MS_SILENT);
	struct mount *mt;
	uint32_t id = 0;

	if (to != MS_PRIVATE && to != MS_SLAVE && to != MS_UNBINDABLE)
		return -EINVAL;
	if (!is_mount(r->ns, &r->at))
		return -EINVAL;
	while ((mt = mounts_next(r->ns, id))) {
		id = mt->id;
		if (mt == r->at.mnt || ((r->flags & MS_REC) && mount_is_in(mt, r->at.mnt))) {
			if (to == MS_UNBINDABLE)
				__atomic_or_fetch(&mt->flags, MOUNT_UNBINDABLE, __ATOMIC_RELAXED);
			else
				__atomic_and_fetch(&mt->flags, ~(uint32_t)MOUNT_UNBINDABLE,
						   __ATOMIC_RELAXED);
		}
		mount_put(mt);
	}
	return 0;
}

/* --- new ones ------------------------------------------------------------------------ */

/* One that was made and is mounted nowhere. */
static void drop_type(struct fs_type *type)
{
	struct user_ns *owner = type->owner;

	type->drop(type);
	user_ns_put(owner);
}

/* The file system that @r asks for, and its root, referenced. */
static int find_type(const struct mount_request *r, struct fs_type **type, struct inode **root,
		     bool *made)
{
	int err = fs_find(r->type, type, root);

	*made = !err && !*root;
	if (err || *root)
		return err;
	err = (*type)->make(r->data ? r->data : "", type);
	if (err)
		return err;
	(*type)->ro_now = r->flags & MS_RDONLY;
	(*type)->owner = user_ns_get(user_ns_current());
	err = (*type)->root(*type, root);
	if (err)
		drop_type(*type);
	return err;
}

static int mount_new(const struct mount_request *r)
{
	struct fs_type *type;
	struct inode *root;
	struct mount *mt;
	uint32_t locked;
	bool made;
	int err;

	if (!r->type)
		return -EINVAL;
	err = fs_may_mount(r->type, r->ns, mount_flags_of(r->flags), &locked);
	if (!err)
		err = find_type(r, &type, &root, &made);
	if (err)
		return err;
	mt = mount_alloc(type, root, mount_flags_of(r->flags));
	if (!mt) {
		inode_put(root);
		if (made)
			drop_type(type);
		return -ENOMEM;
	}
	mt->locked_flags = locked;
	mt->source = kmem_strdup(kmem_current(), r->source ? r->source : "none");
	if (!mt->source) {
		mount_put(mt);
		return -ENOMEM;
	}
	return put_at(r, mt);
}

/*
 * A namespace's own file, which no mount shows. One of mounts must be younger than the one that it
 * is mounted in, or a ring of them would keep each other.
 */
static int bind_ns(const struct mount_request *r, struct ns *ns)
{
	char text[NS_TEXT_MAX];
	struct mount *mt;

	if (ns->kind == NS_MNT && ns->seq <= r->ns->ns.seq)
		return -EINVAL;
	mt = mount_alloc(&nsfs_type, &ns->inode, 0);
	if (!mt)
		return -ENOMEM;
	(void)ns_get(ns);
	ns_text(ns, text);
	mt->file_root = kmem_strdup(kmem_current(), text);
	if (!mt->file_root) {
		mount_put(mt);
		return -ENOMEM;
	}
	return put_at(r, mt);
}

/* MS_BIND */
static int bind(struct mount_request *r)
{
	struct ns *ns = ns_of_inode(r->from.inode);

	if (ns && !r->from.mnt)
		return bind_ns(r, ns);
	if (!r->from.mnt || r->from.mnt->ns != r->ns || (r->from.mnt->flags & MOUNT_UNBINDABLE))
		return -EINVAL;
	if (r->no_place)
		return r->no_place;
	if (inode_is_dir(r->from.inode) != inode_is_dir(r->at.inode))
		return -ENOTDIR;
	return mount_bind(r->ns, &r->from, r->flags & MS_REC, &r->place.parent, r->place.name,
			  &r->gone);
}

/* MS_MOVE; the root of the namespace is moved by pivot_root() alone. */
static int move(const struct mount_request *r)
{
	struct mount *mt = r->from.mnt;

	if (r->no_place)
		return r->no_place;
	if (!is_mount(r->ns, &r->from) || inode_is_dir(r->from.inode) != inode_is_dir(r->at.inode))
		return -EINVAL;
	if (mt->flags & MOUNT_LOCKED)
		return -EINVAL;
	if (mount_is_in(r->at.mnt, mt))
		return -ELOOP;
	return mount_move(r->ns, mt, &r->place.parent, r->place.name);
}

/*
 * Until the disk has what was written; killed meanwhile is the only error that counts here. Not
 * under mount_change: the locks of files come before it, and a flush takes its time.
 */
static int sync_type(const struct fs_type *type)
{
	return type->sync && type->sync(type) == -EINTR ? -EINTR : 0;
}

/* A file system that becomes read-only has nothing left to write, but for what comes until then. */
static int sync_before(const struct mount_request *r)
{
	const uint32_t ro = MS_REMOUNT | MS_RDONLY;
	const bool all = (r->flags & (ro | MS_BIND)) == ro;

	return all && r->at.mnt ? sync_type(r->at.mnt->type) : 0;
}

/* --- mount(2) ------------------------------------------------------------------------ */

/* Is a mount made, which needs a place? */
static bool makes_mount(uint32_t flags)
{
	return !(flags & MS_REMOUNT) && ((flags & MS_BIND) || !(flags & MS_PROPAGATION));
}

/* Is the source a path? */
static bool needs_source(uint32_t flags)
{
	return makes_mount(flags) && (flags & (MS_BIND | MS_MOVE));
}

/* -EAGAIN: what has been looked up may not be so any more. */
static int act(struct mount_request *r)
{
	if (makes_mount(r->flags) && r->changes != r->ns->changes)
		return -EAGAIN;
	if ((r->flags & (MS_REMOUNT | MS_BIND)) == (MS_REMOUNT | MS_BIND))
		return reconfigure_mount(r);
	if (r->flags & MS_REMOUNT)
		return remount(r);
	if (r->flags & MS_BIND)
		return bind(r);
	if (r->flags & MS_PROPAGATION)
		return change_propagation(r);
	if (r->flags & MS_MOVE)
		return move(r);
	return mount_new(r);
}

/* All that paths lead to; @res and @from are the caller's to put. */
static int look_up(const struct syscall_args *args, struct mount_request *r,
		   struct walk_result *res, struct walk_result *from)
{
	int err;

	r->changes = READ_ONCE(r->ns->changes);
	err = at_walk(AT_FDCWD, args->a[1], 0, 0, res);
	if (!err && !ns_capable(r->ns->ns.owner, CAP_SYS_ADMIN))
		err = -EPERM;
	if (!err && needs_source(r->flags))
		err = r->source && *r->source ? at_walk(AT_FDCWD, args->a[0], 0, 0, from) : -EINVAL;
	if (err)
		return err;
	r->at = res->at;
	r->from = from->at;
	r->no_place = makes_mount(r->flags) ? locate(r->ns, &r->at, &r->place) : 0;
	return 0;
}

/* Once: -EAGAIN as act(). */
static int mount_once(const struct syscall_args *args, struct mount_request *r)
{
	struct walk_result res = { 0 }, from = { 0 };
	int err = look_up(args, r, &res, &from);

	if (!err)
		err = sync_before(r);
	if (!err) {
		mutex_lock(&mount_change);
		err = act(r);
		mutex_unlock(&mount_change);
	}
	walk_result_put(&res);
	walk_result_put(&from);
	walk_result_put(&r->place);
	mounts_put_gone(&r->gone);
	return err;
}

/* A string of less than a page, as Linux's kernel copies it: -EINVAL when it is longer. */
static int copy_string(uint64_t ustr, char **out)
{
	ssize_t len;

	*out = NULL;
	if (!ustr)
		return 0;
	*out = kmalloc(PAGE_SIZE);
	if (!*out)
		return -ENOMEM;
	len = strncpy_from_user(*out, (const char __user *)ustr, PAGE_SIZE);
	return len == -ENAMETOOLONG ? -EINVAL : len < 0 ? (int)len : 0;
}

/* mount(source, target, type, flags, data) */
long sys_mount(const struct syscall_args *args)
{
	struct mount_request *r = kzalloc(sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	list_init(&r->gone);
	r->flags = (uint32_t)args->a[3];
	if ((r->flags & MS_MGC_MSK) == MS_MGC_VAL)
		r->flags &= ~MS_MGC_MSK;
	r->ns = fs_current()->mounts;
	err = copy_string(args->a[2], &r->type);
	if (!err)
		err = copy_string(args->a[0], &r->source);
	if (!err)
		err = copy_string(args->a[4], &r->data);
	if (!err) {
		do {
			err = mount_once(args, r);
		} while (at_once_more(&err));
	}
	kfree(r->type);
	kfree(r->source);
	kfree(r->data);
	kfree(r);
	return err;
}

/* --- umount2(2) ---------------------------------------------------------------------- */

/* The first time it is told, the mark is set; the second time, if nobody used it, it goes. */
static int check_expired(struct mount *mt)
{
	return __atomic_exchange_n(&mt->expired, true, __ATOMIC_RELAXED) ? 0 : -EAGAIN;
}

static int unmount(struct mounts *ns, const struct path *at, uint32_t flags, struct list_head *gone)
{
	struct mount *mt = at->mnt;
	int err;

	assert_mutex_held(&mount_change);
	if (!is_mount(ns, at))
		return -EINVAL;
	if (mt->flags & MOUNT_LOCKED)
		return -EINVAL;
	if ((flags & MNT_FORCE) && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (!mt->parent)
		return -EBUSY;
	if (flags & MNT_EXPIRE) {
		if (flags & (MNT_FORCE | MNT_DETACH))
			return -EINVAL;
		if (mount_is_busy(mt, 1))
			return -EBUSY;
		err = check_expired(mt);
		if (err)
			return err;
	}
	return mount_detach(mt, flags & MNT_DETACH, 1, gone);
}

/* umount2(target, flags) */
long sys_umount2(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[1];
	struct mounts *ns = fs_current()->mounts;
	struct walk_result res;
	LIST_HEAD(gone);
	int err;

	if (flags & ~(uint32_t)(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW))
		return -EINVAL;
	err = at_walk(AT_FDCWD, args->a[0], flags & UMOUNT_NOFOLLOW ? WALK_NOFOLLOW : 0, 0, &res);
	if (err)
		return err;
	if (res.at.mnt && res.at.inode == res.at.mnt->root)
		to_topmost(&res.at);
	if (!ns_capable(ns->ns.owner, CAP_SYS_ADMIN))
		err = -EPERM;
	if (!err && res.at.mnt)
		err = sync_type(res.at.mnt->type);
	if (!err) {
		mutex_lock(&mount_change);
		err = unmount(ns, &res.at, flags, &gone);
		if (err == -EAGAIN) {
			/* Our own reference is no use. */
			mount_put(res.at.mnt);
			WRITE_ONCE(res.at.mnt->expired, true);
			res.at.mnt = NULL;
		}
		mutex_unlock(&mount_change);
	}
	walk_result_put(&res);
	mounts_put_gone(&gone);
	return err;
}

/* --- pivot_root(2) ------------------------------------------------------------------- */

struct pivot_request {
	struct mounts *ns;
	uint64_t changes;         /* of ns, before anything was looked up */
	struct walk_result to;    /* the new root */
	struct walk_result old;   /* where the old one goes */
	struct walk_result place; /* the entry that leads there */
	int no_place;             /* or why there is none */
	struct path root;         /* the caller's, which is replaced */
};

/* In the order of Linux: what is the root already, what is no mount, what is elsewhere. */
static int check_pivot(const struct pivot_request *r)
{
	struct mount *mt = r->to.at.mnt, *old = r->old.at.mnt, *root = r->root.mnt;

	assert_mutex_held(&mount_change);
	if (r->no_place)
		return r->no_place;
	if (!root || root->ns != r->ns || !mt || mt->ns != r->ns || !old || old->ns != r->ns)
		return -EINVAL;
	if (mt->flags & MOUNT_LOCKED)
		return -EINVAL;
	if (mt == root || old == root)
		return -EBUSY;
	if (!is_mount(r->ns, &r->root) || !is_mount(r->ns, &r->to.at))
		return -EINVAL;
	return mount_is_in(r->place.parent.mnt, mt) && mount_is_in(mt, root) ? 0 : -EINVAL;
}

/* @to is where @from was, and covers what that did. */
static void pass_lock(struct mount *from, struct mount *to)
{
	assert_mutex_held(&mount_change);
	if (!(from->flags & MOUNT_LOCKED))
		return;
	__atomic_or_fetch(&to->flags, MOUNT_LOCKED, __ATOMIC_RELAXED);
	__atomic_and_fetch(&from->flags, ~(uint32_t)MOUNT_LOCKED, __ATOMIC_RELAXED);
}

static int pivot(struct pivot_request *r)
{
	int err;

	mutex_lock(&pivot_change);
	__atomic_add_fetch(&r->ns->turns, 1, __ATOMIC_SEQ_CST);
	mutex_lock(&mount_change);
	err = r->changes != r->ns->changes ? -EAGAIN : check_pivot(r);
	if (!err)
		err = mount_pivot(r->ns, r->to.at.mnt, r->root.mnt, &r->place.parent,
				  r->place.name);
	if (!err)
		pass_lock(r->root.mnt, r->to.at.mnt);
	mutex_unlock(&mount_change);
	if (!err)
		fs_states_follow(r->ns, r->root.mnt, r->to.at.mnt);
	__atomic_add_fetch(&r->ns->turns, 1, __ATOMIC_SEQ_CST);
	mutex_unlock(&pivot_change);
	return err;
}

/* Once: -EAGAIN when the table has changed since the paths were looked up. */
static int pivot_once(const struct syscall_args *args, struct pivot_request *r)
{
	int err;

	r->changes = READ_ONCE(r->ns->changes);
	err = at_walk(AT_FDCWD, args->a[0], WALK_DIRECTORY, 0, &r->to);
	if (!err)
		err = at_walk(AT_FDCWD, args->a[1], WALK_DIRECTORY, 0, &r->old);
	if (!err)
		err = fs_state_root(fs_current(), &r->root);
	if (!err && !r->root.inode)
		mounts_root_path(r->ns, &r->root);
	if (!err && r->old.at.mnt && r->old.at.inode == r->to.at.inode &&
	    r->old.at.mnt == r->to.at.mnt)
		r->no_place = locate_over(&r->old.at, &r->place);
	else if (!err)
		r->no_place = locate(r->ns, &r->old.at, &r->place);
	if (!err)
		err = pivot(r);
	walk_result_put(&r->to);
	walk_result_put(&r->old);
	walk_result_put(&r->place);
	path_put(&r->root);
	fs_states_put_followed();
	return err;
}

/* pivot_root(new, old): what "/" is, for all whose root or working directory it was */
long sys_pivot_root(const struct syscall_args *args)
{
	struct pivot_request *r;
	int err;

	if (!ns_capable(fs_current()->mounts->ns.owner, CAP_SYS_ADMIN))
		return -EPERM;
	r = kzalloc(sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->ns = fs_current()->mounts;
	do {
		err = pivot_once(args, r);
	} while (at_once_more(&err));
	kfree(r);
	return err;
}
