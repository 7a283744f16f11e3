/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: services that change names and attributes of files.
 *
 * Flow:	decode -> the record: done already? -> the files by their handles -> the lock of the
 *		directory or file -> the entries are what the sender found? permission? -> the
 *		operation of the file system -> the index forgets what it knew -> record, reply.
 * Context:	threads; may sleep.
 * Locking:	storage.locks of the directories whose names change, or of the file whose
 *		attributes do (RANK_MONITOR); two of them in address order, by lock_two().
 * Ordering:	errors come in Linux's order: what exists, -EROFS, permission, kinds.
 * Failure:	a change that the record says was done before a restart of this node is answered
 *		with what is true of its file now.
 */
#include <abi/fcntl.h>
#include <abi/xattr.h>
#include <fs/acl.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "inherit.h"
#include "permit.h"
#include "storage.h"

COUNTER(storage_changes, "storage.changes", "changes of files that were done");
COUNTER(storage_changes_again, "storage.changes_again", "changes answered from their record");

union change_req { /* each begins with struct ps_change */
	struct ps_change change;
	struct ps_make_req make;
	struct ps_link_req link;
	struct ps_remove_req remove;
	struct ps_rename_req rename;
	struct ps_setattr_req setattr;
	struct ps_setxattr_req xattr;
	struct ps_fallocate_req fallocate;
};

/* A change that is being done. */
struct op {
	struct storage *st;
	uint16_t opcode;
	const struct storage_peer *from;
	uint32_t vnode; /* of the directory or file that is changed, and so of the answer */
	struct fs_cred cred;
	bool unused; /* what loses its last name goes at once: its client does not use it */
	struct fs_change ch;
	struct fs_place place, to_place; /* what ch refers to */
	uint8_t *reply;                  /* RECORD_REPLY_MAX bytes */
};

/* --- pieces ------------------------------------------------------------------------------- */

static struct mutex *lock_of(struct storage *st, uint64_t ino)
{
	return &st->locks[hash64(ino) % STORAGE_LOCKS];
}

static void lock_two(struct mutex *a, struct mutex *b) __acquires(a, b)
	__no_lock_analysis("the two may be one, and their order is that of their addresses")
{
	mutex_lock(MIN(a, b));
	if (a != b)
		mutex_lock(MAX(a, b));
}

static void unlock_two(struct mutex *a, struct mutex *b) __releases(a, b)
	__no_lock_analysis("as lock_two()")
{
	if (a != b)
		mutex_unlock(MAX(a, b));
	mutex_unlock(MIN(a, b));
}

static ssize_t reply_attr(struct op *op, const struct fs_inode *in)
{
	struct proto_attr_wire w;
	struct proto_attr attr;

	static_assert(sizeof(w) <= RECORD_REPLY_MAX, "an answer has no room in its record");
	storage_attr(op->st, in, op->vnode, &attr);
	proto_attr_encode(&attr, &w);
	memcpy(op->reply, &w, sizeof(w));
	return sizeof(w);
}

/* The file that lost a name; @in may be NULL. */
static ssize_t reply_removed(struct op *op, const struct fs_inode *in)
{
	struct ps_removed_rep rep = { .nlink = 0 };
	struct ps_removed_rep_wire w;
	struct fs_stat s;

	if (in) {
		fs_inode_stat(in, &s);
		rep.file = storage_handle(op->st, &s, op->vnode);
		rep.nlink = s.nlink;
	}
	ps_removed_rep_encode(&rep, &w);
	memcpy(op->reply, &w, sizeof(w));
	return sizeof(w);
}

/* Is @in the file that the sender found? -EAGAIN: it looks again. */
static int check_found(struct op *op, const struct fs_inode *in, const struct proto_file *found)
{
	struct fs_stat s;

	fs_inode_stat(in, &s);
	return found->node == op->st->node && found->ino == s.ino && found->gen == s.gen ? 0
											 : -EAGAIN;
}

/* Nothing has the name: 0, -EEXIST, or why that cannot be said. */
static int check_free(struct op *op, struct fs_inode *dir, const char *name, size_t len)
{
	struct fs_inode *in = fs_lookup_place(dir, name, len, &op->place);

	if (!IS_ERR(in)) {
		fs_inode_put(in);
		return -EEXIST;
	}
	return PTR_ERR(in) == -ENOENT ? 0 : (int)PTR_ERR(in);
}

static int check_writable(const struct op *op)
{
	return fs_is_read_only(op->st->fs) ? -EROFS : 0;
}

/* --- making ------------------------------------------------------------------------------- */

/* Linux's new_decode_dev(). */
static void decode_dev(uint32_t rdev, struct fs_new *what)
{
	what->rdev_major = (rdev & 0xfff00) >> 8;
	what->rdev_minor = (rdev & 0xff) | ((rdev >> 12) & 0xfff00);
}

/* Owner, mode and the rest of what is made in @dir, of @s. On success @lists is to be ended. */
static int what_to_make(struct op *op, const struct ps_make_req *r, struct fs_inode *dir,
			const struct fs_stat *s, struct fs_new *what, struct inherited *lists)
{
	const int err = inherit_begin(lists, dir, s, r->mode);

	if (err)
		return err;
	*what = (struct fs_new){
		.mode = r->mode,
		.target = r->target,
		.target_len = r->target_len,
	};
	if (!lists->def && (r->mode & S_IFMT) != S_IFLNK)
		what->mode &= ~r->umask;
	permit_owner(&op->cred, s, &what->mode, &op->ch.gid);
	inherit_apply(lists, what);
	decode_dev(r->rdev, what);
	return 0;
}

/* A program that opens one talks to a driver, so only user 0 makes them. */
static bool is_device(uint32_t mode)
{
	return (mode & S_IFMT) == S_IFCHR || (mode & S_IFMT) == S_IFBLK;
}

static ssize_t make_in(struct op *op, const struct ps_make_req *r, struct fs_inode *dir)
{
	struct inherited lists;
	struct fs_inode *in;
	struct fs_new what;
	struct fs_stat s;
	ssize_t ret;
	int err;

	err = fs_stat_for(dir, &op->cred, &s);
	if (!err)
		err = check_free(op, dir, r->name, r->name_len);
	if (!err)
		err = check_writable(op);
	if (!err)
		err = permit_create(&op->cred, &s);
	if (!err && is_device(r->mode) && !fs_cred_is_root(&op->cred))
		err = -EPERM;
	if (!err)
		err = what_to_make(op, r, dir, &s, &what, &lists);
	if (err)
		return err;
	in = fs_create(dir, r->name, r->name_len, &what, &op->ch);
	inherit_end(&lists);
	if (IS_ERR(in))
		return PTR_ERR(in);
	pathindex_touch(op->st->index, s.ino);
	ret = reply_attr(op, in);
	fs_inode_put(in);
	return ret;
}

static ssize_t make_tmpfile(struct op *op, const struct ps_make_req *r, struct fs_inode *dir)
{
	struct inherited lists;
	struct fs_inode *in;
	struct fs_new what;
	struct fs_stat s;
	struct held *h;
	ssize_t ret;
	int err;

	err = fs_stat_for(dir, &op->cred, &s);
	if (!err)
		err = check_writable(op);
	if (!err)
		err = permit_create(&op->cred, &s);
	if (!err)
		err = what_to_make(op, r, dir, &s, &what, &lists);
	if (err)
		return err;
	in = fs_tmpfile(dir, &what, &op->ch);
	inherit_end(&lists);
	if (IS_ERR(in))
		return PTR_ERR(in);
	/* Without memory the file goes when it is put. */
	h = held_begin(&op->st->held, in, op->from);
	ret = IS_ERR(h) ? PTR_ERR(h) : reply_attr(op, in);
	if (!IS_ERR(h))
		held_add(h);
	fs_inode_put(in);
	return ret;
}

static ssize_t do_make(struct op *op, const union change_req *req)
{
	const struct ps_make_req *r = &req->make;
	struct fs_inode *dir = storage_file_get(op->st, &r->dir);
	struct mutex *lock = lock_of(op->st, r->dir.ino);
	ssize_t ret;

	if (IS_ERR(dir))
		return PTR_ERR(dir);
	mutex_lock(lock);
	ret = op->opcode == PS_TMPFILE ? make_tmpfile(op, r, dir) : make_in(op, r, dir);
	mutex_unlock(lock);
	fs_inode_put(dir);
	return ret;
}

/* --- links -------------------------------------------------------------------------------- */

static ssize_t link_in(struct op *op, const struct ps_link_req *r, struct fs_inode *in,
		       struct fs_inode *dir)
{
	struct fs_stat s, dir_stat;
	int err;

	fs_inode_stat(in, &s);
	err = fs_stat_for(dir, &op->cred, &dir_stat);
	if (!err)
		err = check_free(op, dir, r->name, r->name_len);
	if (!err)
		err = check_writable(op);
	if (!err)
		err = permit_create(&op->cred, &dir_stat);
	if (!err)
		err = permit_link(&s);
	if (!err)
		err = fs_link(in, dir, r->name, r->name_len, &op->ch);
	if (err)
		return err;
	pathindex_touch(op->st->index, dir_stat.ino);
	return reply_attr(op, in);
}

static ssize_t do_link(struct op *op, const union change_req *req)
{
	const struct ps_link_req *r = &req->link;
	struct mutex *a = lock_of(op->st, r->file.ino), *b = lock_of(op->st, r->dir.ino);
	struct fs_inode *in = storage_file_get(op->st, &r->file), *dir;
	ssize_t ret;

	if (IS_ERR(in))
		return PTR_ERR(in);
	dir = storage_file_get(op->st, &r->dir);
	if (IS_ERR(dir)) {
		fs_inode_put(in);
		return PTR_ERR(dir);
	}
	lock_two(a, b);
	ret = link_in(op, r, in, dir);
	unlock_two(a, b);
	fs_inode_put(dir);
	fs_inode_put(in);
	return ret;
}

/* --- removing ----------------------------------------------------------------------------- */

static int check_remove(struct op *op, struct fs_inode *dir, const struct fs_inode *victim,
			bool rmdir)
{
	struct fs_stat s, dir_stat;
	bool is_dir;
	int err = check_writable(op);

	if (!err)
		err = fs_stat_for(dir, &op->cred, &dir_stat);
	fs_inode_stat(victim, &s);
	is_dir = (s.mode & S_IFMT) == S_IFDIR;
	if (!err)
		err = permit_remove(&op->cred, &dir_stat, &s);
	if (!err && rmdir != is_dir)
		err = rmdir ? -ENOTDIR : -EISDIR;
	return err;
}

/* @victim lost a name in @dir: nothing must be found by it. */
static void forget_name(struct op *op, const struct fs_inode *dir, const struct fs_inode *victim)
{
	struct fs_stat s;

	fs_inode_stat(dir, &s);
	pathindex_touch(op->st->index, s.ino);
	fs_inode_stat(victim, &s);
	pathindex_touch(op->st->index, s.ino);
}

/* Before @in may lose its last name: as held_begin(), or NULL when the client does not use it. */
static struct held *hold(struct op *op, struct fs_inode *in)
{
	return op->unused ? NULL : held_begin(&op->st->held, in, op->from);
}

/*
 * Keep what has no name left for the client, and say so. If the client does not use the file, that
 * may have been held for it before: a file without a name gets one by PS_LINK.
 */
static ssize_t removed(struct op *op, struct fs_inode *in, struct held *h)
{
	struct fs_stat s;

	fs_inode_stat(in, &s);
	if (op->unused && !s.nlink)
		held_drop(&op->st->held, op->from, s.ino, s.gen);
	/* A directory has no contents that anybody could go on reading. */
	if (h && !s.nlink && (s.mode & S_IFMT) != S_IFDIR)
		held_add(h);
	else
		held_cancel(h);
	return reply_removed(op, in);
}

static ssize_t remove_from(struct op *op, const struct ps_remove_req *r, struct fs_inode *dir)
{
	struct fs_inode *victim = fs_lookup_place(dir, r->name, r->name_len, &op->place);
	struct held *h;
	ssize_t ret;
	int err;

	if (IS_ERR(victim))
		return PTR_ERR(victim);
	h = hold(op, victim);
	err = IS_ERR(h) ? (int)PTR_ERR(h) : check_found(op, victim, &r->victim);
	if (!err)
		err = check_remove(op, dir, victim, op->opcode == PS_RMDIR);
	if (!err)
		err = op->opcode == PS_RMDIR ? fs_rmdir(dir, r->name, r->name_len, &op->ch)
					     : fs_unlink(dir, r->name, r->name_len, &op->ch);
	if (err) {
		if (!IS_ERR(h))
			held_cancel(h);
		ret = err;
	} else {
		forget_name(op, dir, victim);
		ret = removed(op, victim, h);
	}
	fs_inode_put(victim);
	return ret;
}

static ssize_t do_remove(struct op *op, const union change_req *req)
{
	const struct ps_remove_req *r = &req->remove;
	struct fs_inode *dir = storage_file_get(op->st, &r->dir);
	struct mutex *lock = lock_of(op->st, r->dir.ino);
	ssize_t ret;

	if (IS_ERR(dir))
		return PTR_ERR(dir);
	mutex_lock(lock);
	ret = remove_from(op, r, dir);
	mutex_unlock(lock);
	fs_inode_put(dir);
	return ret;
}

/* --- renaming ----------------------------------------------------------------------------- */

struct rename_op {
	const struct ps_rename_req *r;
	struct fs_inode *from, *to;       /* directories */
	struct fs_inode *source, *target; /* @target may be NULL */
};

static bool is_dir(const struct fs_inode *in)
{
	struct fs_stat s;

	fs_inode_stat(in, &s);
	return (s.mode & S_IFMT) == S_IFDIR;
}

/* May the file go from @dir?  A directory that moves elsewhere has its ".." written. */
static int check_moves(struct op *op, struct fs_inode *dir, struct fs_inode *in, bool elsewhere)
{
	struct fs_stat s, dir_stat;
	int err = fs_stat_for(dir, &op->cred, &dir_stat);

	if (!err)
		err = fs_stat_for(in, &op->cred, &s);
	if (!err)
		err = permit_remove(&op->cred, &dir_stat, &s);
	if (err || !elsewhere || (s.mode & S_IFMT) != S_IFDIR)
		return err;
	return fs_stat_access(&op->cred, &s, FS_MAY_WRITE);
}

static int check_rename(struct op *op, const struct rename_op *m)
{
	const bool elsewhere = m->r->from_dir.ino != m->r->to_dir.ino;
	const bool exchange = m->r->flags & PS_RENAME_EXCHANGE;
	struct fs_stat to;
	int err;

	if ((m->r->flags & PS_RENAME_WHITEOUT) && !fs_cred_is_root(&op->cred))
		return -EPERM; /* it makes a device */
	err = fs_stat_for(m->to, &op->cred, &to);
	if (!err)
		err = check_moves(op, m->from, m->source, elsewhere);
	if (!err)
		err = m->target ? check_moves(op, m->to, m->target, exchange && elsewhere)
				: permit_create(&op->cred, &to);
	if (err || !m->target || exchange || is_dir(m->source) == is_dir(m->target))
		return err;
	return is_dir(m->source) ? -ENOTDIR : -EISDIR;
}

/* The entries are those that the sender found. */
static int find_both(struct op *op, struct rename_op *m)
{
	const struct ps_rename_req *r = m->r;
	int err;

	m->source = fs_lookup_place(m->from, r->from, r->from_len, &op->place);
	if (IS_ERR(m->source))
		return (int)PTR_ERR(m->source);
	m->target = fs_lookup_place(m->to, r->to, r->to_len, &op->to_place);
	if (PTR_ERR(m->target) == -ENOENT)
		m->target = NULL;
	if (IS_ERR(m->target))
		return (int)PTR_ERR(m->target);
	if (m->target && (r->flags & PS_RENAME_NOREPLACE))
		return -EEXIST;
	err = check_found(op, m->source, &r->source);
	if (!err && !m->target)
		return r->target.node ? -EAGAIN : 0;
	return err ? err : check_found(op, m->target, &r->target);
}

static uint32_t rename_flags(uint32_t flags)
{
	return (flags & PS_RENAME_NOREPLACE ? RENAME_NOREPLACE : 0) |
	       (flags & PS_RENAME_EXCHANGE ? RENAME_EXCHANGE : 0) |
	       (flags & PS_RENAME_WHITEOUT ? RENAME_WHITEOUT : 0);
}

static void forget_rename(struct op *op, const struct rename_op *m)
{
	forget_name(op, m->from, m->source);
	if (m->target)
		forget_name(op, m->to, m->target);
	else
		forget_name(op, m->to, m->source);
	/* Every path below it is another one now. */
	if (is_dir(m->source) || (m->target && is_dir(m->target)))
		pathindex_invalidate(op->st->index);
}

static ssize_t rename_found(struct op *op, struct rename_op *m)
{
	const struct ps_rename_req *r = m->r;
	const bool replaces = m->target && !(r->flags & PS_RENAME_EXCHANGE);
	struct held *h = replaces ? hold(op, m->target) : NULL;
	int err = IS_ERR(h) ? (int)PTR_ERR(h) : check_rename(op, m);

	if (!err)
		err = fs_rename(m->from, r->from, r->from_len, m->to, r->to, r->to_len,
				rename_flags(r->flags), &op->ch);
	if (err) {
		if (!IS_ERR(h))
			held_cancel(h);
		return err;
	}
	forget_rename(op, m);
	return replaces ? removed(op, m->target, h) : reply_removed(op, NULL);
}

static ssize_t rename_now(struct op *op, struct rename_op *m)
{
	ssize_t ret = find_both(op, m);

	if (!ret)
		ret = check_writable(op);
	/* Two names of one file: nothing to do, whatever the permissions. */
	if (!ret && m->target && proto_file_equal(&m->r->source, &m->r->target))
		ret = reply_removed(op, NULL);
	else if (!ret)
		ret = rename_found(op, m);
	if (!IS_ERR_OR_NULL(m->target))
		fs_inode_put(m->target);
	if (!IS_ERR_OR_NULL(m->source))
		fs_inode_put(m->source);
	return ret;
}

static ssize_t do_rename(struct op *op, const union change_req *req)
{
	struct rename_op m = { .r = &req->rename };
	struct mutex *a = lock_of(op->st, m.r->from_dir.ino), *b = lock_of(op->st, m.r->to_dir.ino);
	ssize_t ret;

	m.from = storage_file_get(op->st, &m.r->from_dir);
	if (IS_ERR(m.from))
		return PTR_ERR(m.from);
	m.to = storage_file_get(op->st, &m.r->to_dir);
	if (IS_ERR(m.to)) {
		fs_inode_put(m.from);
		return PTR_ERR(m.to);
	}
	lock_two(a, b);
	ret = rename_now(op, &m);
	unlock_two(a, b);
	fs_inode_put(m.to);
	fs_inode_put(m.from);
	return ret;
}

/* --- attributes, space -------------------------------------------------------------------- */

static int set_attr(struct op *op, const union change_req *req, struct fs_inode *in)
{
	const struct ps_setattr_req *r = &req->setattr;
	struct fs_attr attr;
	struct fs_stat s;
	int err = check_writable(op);

	if (!err)
		err = fs_stat_for(in, &op->cred, &s);
	if (!err)
		err = permit_setattr(&op->cred, &s, r, op->ch.now, &attr);
	if (!err)
		err = fs_setattr(in, &attr, &op->ch);
	/* Resolution knows the owner and the mode. */
	if (!err && (attr.mask & (FS_SET_MODE | FS_SET_UID | FS_SET_GID)))
		pathindex_touch(op->st->index, s.ino);
	return err;
}

static int set_xattr(struct op *op, const union change_req *req, struct fs_inode *in)
{
	const struct ps_setxattr_req *r = &req->xattr;
	struct fs_xattr x = {
		.name = r->name,
		.name_len = r->name_len,
		.value = op->opcode == PS_REMOVEXATTR ? NULL : r->value,
		.value_len = r->value_len,
	};
	const uint32_t flags = (r->flags & PS_XATTR_CREATE ? XATTR_CREATE : 0u) |
			       (r->flags & PS_XATTR_REPLACE ? XATTR_REPLACE : 0u);
	struct fs_stat s;
	int err = check_writable(op);

	if (!err)
		err = fs_stat_for(in, &op->cred, &s);
	if (!err)
		err = permit_xattr(&op->cred, &s, r->name, r->name_len, true);
	if (!err) {
		x.drops_setgid = inherit_drops_setgid(&s, &op->cred, &x);
		err = fs_xattr_set(in, &x, flags, &op->ch);
	}
	if (!err)
		pathindex_touch(op->st->index, s.ino);
	return err;
}

/* The file is open for writing, which its processor has checked. */
static int allocate(struct op *op, const union change_req *req, struct fs_inode *in)
{
	const struct ps_fallocate_req *r = &req->fallocate;
	struct fs_stat s;

	fs_inode_stat(in, &s);
	if (s.attrs & STATX_ATTR_IMMUTABLE)
		return -EPERM;
	if ((s.attrs & STATX_ATTR_APPEND) && (r->mode & ~FALLOC_FL_KEEP_SIZE))
		return -EPERM;
	return fs_fallocate(in, r->mode, r->off, r->len, &op->ch);
}

static ssize_t do_file(struct op *op, const struct proto_file *file,
		       int (*change)(struct op *op, const union change_req *req,
				     struct fs_inode *in),
		       const union change_req *req)
{
	struct fs_inode *in = storage_file_get(op->st, file);
	struct mutex *lock = lock_of(op->st, file->ino);
	ssize_t ret;

	if (IS_ERR(in))
		return PTR_ERR(in);
	mutex_lock(lock);
	ret = change(op, req, in);
	if (!ret)
		ret = reply_attr(op, in);
	mutex_unlock(lock);
	fs_inode_put(in);
	return ret;
}

static ssize_t do_setattr(struct op *op, const union change_req *req)
{
	return do_file(op, &req->setattr.file, set_attr, req);
}

static ssize_t do_xattr(struct op *op, const union change_req *req)
{
	return do_file(op, &req->xattr.file, set_xattr, req);
}

static ssize_t do_fallocate(struct op *op, const union change_req *req)
{
	return do_file(op, &req->fallocate.file, allocate, req);
}

/* --- once --------------------------------------------------------------------------------- */

static int decode_make(uint16_t opcode, const void *body, size_t len, union change_req *req)
{
	return ps_make_req_decode(opcode, body, len, &req->make);
}

#define DECODE(kind, member)                                                      \
	static int decode_##member(uint16_t opcode, const void *body, size_t len, \
				   union change_req *req)                         \
	{                                                                         \
		(void)opcode;                                                     \
		return ps_##kind##_req_decode(body, len, &req->member);           \
	}

DECODE(link, link)
DECODE(remove, remove)
DECODE(rename, rename)
DECODE(setattr, setattr)
DECODE(setxattr, xattr)
DECODE(fallocate, fallocate)

#define OF(member) offsetof(union change_req, member.vnode)

static const struct change_kind {
	uint16_t opcode;
	bool removes; /* the answer is what lost a name; else the attributes of a file */
	size_t vnode; /* where the request has that of the change */
	int (*decode)(uint16_t opcode, const void *body, size_t len, union change_req *req);
	ssize_t (*run)(struct op *op, const union change_req *req);
} kinds[] = {
	{ PS_CREATE, false, OF(make.dir), decode_make, do_make },
	{ PS_MKDIR, false, OF(make.dir), decode_make, do_make },
	{ PS_MKNOD, false, OF(make.dir), decode_make, do_make },
	{ PS_SYMLINK, false, OF(make.dir), decode_make, do_make },
	{ PS_TMPFILE, false, OF(make.dir), decode_make, do_make },
	{ PS_LINK, false, OF(link.file), decode_link, do_link },
	{ PS_UNLINK, true, OF(remove.dir), decode_remove, do_remove },
	{ PS_RMDIR, true, OF(remove.dir), decode_remove, do_remove },
	{ PS_RENAME, true, OF(rename.from_dir), decode_rename, do_rename },
	{ PS_SETATTR, false, OF(setattr.file), decode_setattr, do_setattr },
	{ PS_SETXATTR, false, OF(xattr.file), decode_xattr, do_xattr },
	{ PS_REMOVEXATTR, false, OF(xattr.file), decode_xattr, do_xattr },
	{ PS_FALLOCATE, false, OF(fallocate.file), decode_fallocate, do_fallocate },
};

static const struct change_kind *find_kind(uint16_t opcode)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].opcode == opcode)
			return &kinds[i];
	}
	return NULL;
}

/* Does the client not use what loses a name?  No client can use a directory without one. */
static bool is_unused(uint16_t opcode, const union change_req *req)
{
	return opcode == PS_RMDIR || (opcode == PS_UNLINK && req->remove.unused) ||
	       (opcode == PS_RENAME && (req->rename.flags & PS_RENAME_UNUSED));
}

/* Does it bring a name for which there is room, as the client was told? */
static bool takes_room(uint16_t opcode, const union change_req *req)
{
	return opcode == PS_RENAME && (req->rename.flags & PS_RENAME_ROOM);
}

static struct fs_time time_now(void)
{
	const uint64_t ns = time_real_ns();

	return (struct fs_time){ .sec = (int64_t)(ns / NSEC_PER_SEC),
				 .nsec = (uint32_t)(ns % NSEC_PER_SEC) };
}

/* The change was done before this node was started again: what is true of its file now. */
static ssize_t answer_again(struct op *op, const struct change_kind *kind,
			    const struct fs_done *done)
{
	struct fs_inode *in = done->ino ? fs_inode_get(op->st->fs, done->ino, done->gen) : NULL;
	ssize_t ret;

	counter_inc(&storage_changes_again);
	/* Of a file that the client does not use, the answer tells nothing. */
	if (IS_ERR(in) && !(kind->removes && (op->unused || PTR_ERR(in) == -ESTALE)))
		return PTR_ERR(in);
	if (IS_ERR(in))
		in = NULL; /* it is gone, as was asked */
	/* The earlier life held what has no name for the client, and this one has forgotten. */
	ret = in && !op->unused && !is_dir(in) ? held_again(&op->st->held, in, op->from) : 0;
	if (!ret)
		ret = kind->removes ? reply_removed(op, in) : in ? reply_attr(op, in) : -ESTALE;
	if (in)
		fs_inode_put(in);
	return ret;
}

static ssize_t run_change(struct op *op, const struct change_kind *kind,
			  const union change_req *req, bool *fresh)
{
	struct fs_done done;
	ssize_t ret = fs_change_find(op->st->fs, op->ch.client, op->ch.seq, &done);

	if (ret != -ENOENT)
		return ret ? ret : answer_again(op, kind, &done);
	ret = kind->run(op, req);
	if (ret >= 0) {
		counter_inc(&storage_changes);
		*fresh = true;
	}
	return ret;
}

void storage_change_begin(struct storage *st, uint16_t opcode, const struct storage_peer *from,
			  const void *body, size_t len, struct storage_change *c)
{
	const struct change_kind *kind = find_kind(opcode);
	struct op op = { .st = st, .opcode = opcode, .from = from, .reply = c->answer };
	union change_req req;

	c->rec = NULL;
	c->fresh = false;
	c->ret = kind ? kind->decode(opcode, body, len, &req) : -ENOSYS;
	if (!c->ret && !st->fs)
		c->ret = -ENODEV;
	if (c->ret)
		return;
	memcpy(&op.vnode, (const uint8_t *)&req + kind->vnode, sizeof(op.vnode));
	op.cred = storage_cred(&req.change.cred);
	op.ch = (struct fs_change){
		.client = (uint64_t)from->node << 32 | from->incarn,
		.seq = req.change.seq,
		.uid = op.cred.uid,
		.gid = op.cred.gid,
		.privileged = fs_cred_is_root(&op.cred),
		.now = time_now(),
		.place = &op.place,
		.to_place = &op.to_place,
	};
	op.unused = is_unused(opcode, &req);
	op.ch.room = takes_room(opcode, &req) && keep_was_keeper(&st->keep, from);
	c->rec = record_begin(&st->records, from, &req.change, c->answer, &c->ret);
	if (c->rec)
		c->ret = run_change(&op, kind, &req, &c->fresh);
	else
		counter_inc(&storage_changes_again);
}

int storage_change_commit(struct storage *st, const struct storage_change *changes, size_t nr)
{
	size_t nr_fresh = 0;
	int err;

	for (size_t i = 0; i < nr; i++)
		nr_fresh += changes[i].fresh;
	if (!nr_fresh || !st->stable)
		return 0;
	/* Others that change something now share the commit. */
	err = fs_sync(st->fs);
	for (size_t i = 0; i < nr_fresh && !err && st->committed; i++)
		st->committed();
	return err;
}

void storage_change_end(struct storage *st, struct storage_change *c, int err)
{
	if (c->fresh && err)
		c->ret = err;
	if (c->rec)
		record_end(&st->records, c->rec, c->answer, c->ret);
	c->rec = NULL;
}

ssize_t storage_change(struct storage *st, uint16_t opcode, const struct storage_peer *from,
		       const void *body, size_t len, void *reply, size_t cap)
{
	struct storage_change c;

	storage_change_begin(st, opcode, from, body, len, &c);
	storage_change_end(st, &c, storage_change_commit(st, &c, 1));
	if (c.ret > 0 && (size_t)c.ret > cap)
		return -EMSGSIZE;
	if (c.ret > 0)
		memcpy(reply, c.answer, (size_t)c.ret);
	return c.ret;
}
