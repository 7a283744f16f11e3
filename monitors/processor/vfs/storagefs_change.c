/* SPDX-License-Identifier: MIT */
/*
 * The file system of the storage nodes: operations that change it.
 *
 * Flow:	the storage node does the change, with the caller's credentials; then the paths of
 *		the inodes in use follow it, and what is kept of names and attributes.
 * Locking:	end.lock (RANK_SPIN_FS) guards the queue of files whose use ends.
 * Failure:	a file whose end of use cannot be told stays at its node until this processor leaves
 *		the cluster.
 * Limits:	a size is changed by the node that caches the file (live.h), with the rights that
 *		the generic code has checked; other attributes of the same call follow it.
 */
#define PR_FMT "files: "

#include "storagefs.h"

#include "live.h"
#include "storagefs_private.h"

#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/client/behind.h>
#include <processor/client/change.h>
#include <processor/client/storage.h>
#include <processor/excache/object.h>
#include <processor/ipc/filelock.h>
#include <processor/process/process.h>

COUNTER(files_left, "vfs.files_left", "files without a name that stay at their node while mapped");

#define MAKE_TRIES 8u

/* --- making --------------------------------------------------------------------------- */

static struct storage_new what_to_make(const struct new_inode *how)
{
	return (struct storage_new){
		.mode = how->mode | how->masked,
		.umask = how->masked,
		.rdev = how->rdev,
		.target = how->target,
		.target_len = how->target_len,
		.nameless = how->nameless,
	};
}

/* Make it, and keep what it is: nobody else has seen the file. */
static int make(const struct storage_name *at, const struct storage_new *what,
		struct file_attr *attr)
{
	struct kept_change kept;
	struct fs_cred cred;
	int err;

	process_cred(&cred);
	kept_change(&kept, at->dir->node);
	kept_change_file(&kept, at->dir, KEPT_RIGHTS);
	kept_change_name(&kept, at->dir, at->name, at->len);
	err = storage_make(&cred, at, what, attr);
	if (!err) {
		kept_change_fill_attr(&kept, attr, KEPT_ALL);
		kept_change_fill_name(&kept, 0, &attr->file);
	}
	if (!err && (attr->mode & S_IFMT) == S_IFDIR)
		kept_change_is_empty(&kept, &attr->file);
	kept_change_end(&kept, err);
	return err;
}

/*
 * The inode of a file that was made when kept_now() was @since. Only another file's end may have
 * been taken for its own (kept_is_gone()), unless another program has unlinked it already: -ESTALE.
 */
static int made_inode(struct storage_fs *fs, struct file_attr *attr, uint64_t since,
		      const char *path, struct inode **out)
{
	const struct file_id file = attr->file;
	int err;

	while ((err = storagefs_inode(fs, attr, since, path, strlen(path), out)) == -EAGAIN) {
		since = kept_now();
		err = storage_getattr(&file, attr);
		if (err)
			break;
	}
	return err;
}

/* *@gone: it was made, and is another program's to have removed since. */
static int create_once(struct inode *dir, const struct new_inode *how, struct inode **out,
		       bool *gone)
{
	struct storage_inode *si = storage_inode_of(dir);
	const struct storage_name at = { .dir = &si->file, .name = how->name, .len = how->len };
	const struct storage_new what = what_to_make(how);
	const uint64_t before = kept_now();
	struct file_attr attr;
	char *path;
	int err = make(&at, &what, &attr);

	*gone = false;
	if (err || !out)
		return err;
	path = storagefs_path_in(si, how->name, how->len);
	if (IS_ERR(path))
		return PTR_ERR(path);
	err = made_inode(storage_fs_of(si), &attr, before, path, out);
	*gone = err == -ESTALE;
	if (!err && how->made) {
		*how->made = attr;
		how->made->made_at = before;
	}
	kfree(path);
	return err;
}

int storagefs_create(struct inode *dir, const struct new_inode *how, struct inode **out)
{
	bool gone;
	int err;

	/* Made, and unlinked by another program before it was in use here: as if after that. */
	for (unsigned int i = 0; i < MAKE_TRIES; i++) {
		err = create_once(dir, how, out, &gone);
		if (!gone)
			break;
	}
	return err;
}

int storagefs_tmpfile(struct inode *dir, const struct new_inode *how, struct inode **out)
{
	struct storage_inode *si = storage_inode_of(dir);
	const struct storage_new what = what_to_make(how);
	struct file_attr attr;
	struct fs_cred cred;
	char *path = storagefs_path_in(si, how->name, how->len);
	const uint64_t before = kept_now();
	int err;

	if (IS_ERR(path))
		return PTR_ERR(path);
	process_cred(&cred);
	err = storage_tmpfile(&cred, &si->file, &what, &attr);
	if (!err) {
		err = made_inode(storage_fs_of(si), &attr, before, path, out);
		if (err)
			(void)!storage_close(&attr.file, 1); /* no name: nobody finds it */
		else
			storagefs_gone(storage_inode_of(*out), true);
	}
	if (!err && how->made) {
		*how->made = attr;
		how->made->made_at = before;
	}
	kfree(path);
	return err;
}

int storagefs_link(struct inode *dir, const char *name, size_t len, struct inode *inode)
{
	const struct storage_name at = { .dir = &storage_inode_of(dir)->file,
					 .name = name,
					 .len = len };
	struct storage_inode *si = storage_inode_of(inode);
	struct kept_change kept;
	struct fs_cred cred;
	int err;

	process_cred(&cred);
	kept_change(&kept, at.dir->node);
	kept_change_file(&kept, at.dir, KEPT_RIGHTS);
	kept_change_file(&kept, &si->file, KEPT_RIGHTS);
	kept_change_name(&kept, at.dir, name, len);
	err = storage_link(&cred, &si->file, &at);
	if (!err)
		storagefs_gone(si, false);
	if (!err)
		kept_change_fill_name(&kept, 0, &si->file);
	kept_change_end(&kept, err);
	return err;
}

/* --- removing, renaming ----------------------------------------------------------------- */

/* As the node sees it, which is not told what a user namespace allows (fs_cred.over). */
static bool may_write_dir(const struct fs_cred *cred, const struct file_attr *dir)
{
	struct fs_cred told = *cred;

	told.over = NULL;
	return !fs_access(&told, dir->mode, dir->uid, dir->gid, FS_MAY_WRITE | FS_MAY_EXEC);
}

/* The rights that the node checks of a removal, where no access list has a say. */
static bool may_remove_name(const struct fs_cred *cred, const struct file_attr *dir,
			    const struct file_attr *victim)
{
	if ((dir->attrs & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) || attr_is_fixed(victim) ||
	    !may_write_dir(cred, dir))
		return false;
	return !(dir->mode & 01000) || fs_cred_is_root(cred) || cred->uid == victim->uid ||
	       cred->uid == dir->uid;
}

/*
 * The node removes the name of @si, which no program uses, later (behind.h). The rights are checked
 * once more: those that the caller has seen may be older than another program's change of them,
 * which the node has done. False: the node has to be asked.
 */
static bool remove_behind(struct storage_inode *si, const struct fs_cred *cred,
			  const struct storage_name *at)
{
	struct file_attr dir, attr, all;
	struct numbered *n;
	bool is_last;

	if (!kept_is_allowed(at->dir->node))
		return false;
	n = behind_unlink(cred, at, &si->file);
	if (!n)
		return false;
	is_last = kept_attr(&si->file, KEPT_ALL, &all) && all.nlink == 1;
	if (!kept_attr(at->dir, KEPT_RIGHTS, &dir) || !kept_attr(&si->file, KEPT_RIGHTS, &attr) ||
	    !may_remove_name(cred, &dir, &attr) || !kept_remove(&dir, at->name, at->len, &attr)) {
		behind_cancel(n);
		return false;
	}
	behind_send(n);
	/* Else it may be in use again by another name: its lines are left to the cache. */
	if (is_last)
		storagefs_gone(si, true);
	return true;
}

int storagefs_remove(struct inode *dir, const char *name, size_t len, struct inode *victim)
{
	struct storage_inode *si = storage_inode_of(victim);
	const struct storage_name at = { .dir = &storage_inode_of(dir)->file,
					 .name = name,
					 .len = len };
	struct storage_removed removed;
	struct kept_change kept;
	const bool is_dir = inode_is_dir(victim), unused = storagefs_leave_begin(si);
	struct fs_cred cred;
	int err;

	process_cred(&cred);
	if (unused && remove_behind(si, &cred, &at)) {
		storagefs_leave_end(si, true, true);
		return 0;
	}
	kept_change(&kept, at.dir->node);
	kept_change_file(&kept, at.dir, KEPT_RIGHTS);
	/* Without its rights no name comes to a directory later that may be gone by then. */
	kept_change_file(&kept, &si->file, is_dir ? 0 : KEPT_RIGHTS);
	kept_change_name(&kept, at.dir, name, len);
	err = is_dir ? storage_rmdir(&cred, &at, &si->file, &removed)
		     : storage_unlink(&cred, &at, &si->file, unused, &removed);
	if (!err && !removed.nlink)
		storagefs_gone(si, true);
	if (!err)
		kept_change_fill_name(&kept, 0, NULL);
	kept_change_end(&kept, err);
	storagefs_leave_end(si, unused, err ? kept_is_in_doubt(err) : !removed.nlink);
	return err;
}

static void rename_begin(struct kept_change *kept, const struct storage_rename *how, bool dirs)
{
	kept_change(kept, how->from.dir->node);
	kept_change_file(kept, how->from.dir, KEPT_RIGHTS);
	kept_change_file(kept, how->to.dir, KEPT_RIGHTS);
	kept_change_file(kept, &how->source, KEPT_RIGHTS);
	/* Of a directory that is replaced nothing is left, as in storagefs_remove(). */
	if (how->target.node)
		kept_change_file(kept, &how->target, dirs && !how->exchange ? 0 : KEPT_RIGHTS);
	kept_change_name(kept, how->from.dir, how->from.name, how->from.len);
	kept_change_name(kept, how->to.dir, how->to.name, how->to.len);
	if (dirs)
		kept_change_moves(kept);
}

static void rename_end(struct kept_change *kept, const struct storage_rename *how, int err)
{
	if (!err) {
		kept_change_fill_name(kept, 0, how->exchange ? &how->target : NULL);
		kept_change_fill_name(kept, 1, &how->source);
	}
	kept_change_end(kept, err);
}

/* As may_remove_name(), of a name that comes. */
static bool may_add_name(const struct fs_cred *cred, const struct file_attr *dir)
{
	return !(dir->attrs & STATX_ATTR_IMMUTABLE) && may_write_dir(cred, dir);
}

/* As remove_behind(): the node renames a file that is no directory later. */
static bool rename_behind(const struct fs_cred *cred, const struct storage_rename *rename,
			  struct storage_inode *target)
{
	struct file_attr from_dir, to_dir, source, old, all;
	struct storage_rename how = *rename;
	const struct kept_rename kept = {
		.from_dir = &from_dir,
		.to_dir = &to_dir,
		.source = &source,
		.target = target ? &old : NULL,
		.from = how.from.name,
		.to = how.to.name,
		.from_len = how.from.len,
		.to_len = how.to.len,
	};
	struct numbered *n;
	bool is_last;

	if (!behind_is_on() || how.exchange || (target && !how.unused) ||
	    how.from.dir->node != how.to.dir->node || !kept_is_allowed(how.from.dir->node))
		return false;
	n = behind_rename(cred, &how);
	if (!n)
		return false;
	is_last = target && kept_attr(&target->file, KEPT_ALL, &all) && all.nlink == 1;
	if (!kept_attr(how.from.dir, KEPT_RIGHTS, &from_dir) ||
	    !kept_attr(how.to.dir, KEPT_RIGHTS, &to_dir) ||
	    !kept_attr(&how.source, KEPT_RIGHTS, &source) ||
	    (target && !kept_attr(&target->file, KEPT_RIGHTS, &old)) ||
	    !may_remove_name(cred, &from_dir, &source) ||
	    !(target ? may_remove_name(cred, &to_dir, &old) : may_add_name(cred, &to_dir)) ||
	    !kept_rename(&kept)) {
		behind_cancel(n);
		return false;
	}
	behind_send(n);
	if (is_last)
		storagefs_gone(target, true);
	return true;
}

/* The node is asked, and what is kept follows. */
static int rename_now(struct storage_fs *fs, const struct fs_cred *cred,
		      const struct storage_rename *how, const char *from, const char *to, bool dirs,
		      struct storage_removed *removed)
{
	struct kept_change kept;
	int err;

	rename_begin(&kept, how, dirs);
	err = storage_rename(cred, how, removed);
	if (kept_is_in_doubt(err))
		storagefs_lost(fs, from, to, dirs);
	if (!err)
		storagefs_moved(fs, from, to, how->exchange, dirs);
	rename_end(&kept, how, err);
	return err;
}

int storagefs_rename(const struct rename_args *args)
{
	struct storage_inode *from_dir = storage_inode_of(args->from_dir);
	struct storage_inode *to_dir = storage_inode_of(args->to_dir);
	struct storage_inode *target = args->target ? storage_inode_of(args->target) : NULL;
	struct storage_rename how = {
		.from = { &from_dir->file, args->from, args->from_len },
		.to = { &to_dir->file, args->to, args->to_len },
		.source = storage_inode_of(args->source)->file,
		.target = target ? target->file : (struct file_id){ 0 },
		.exchange = args->exchange,
	};
	char *from = storagefs_path_in(from_dir, args->from, args->from_len);
	char *to = storagefs_path_in(to_dir, args->to, args->to_len);
	const bool dirs = inode_is_dir(args->source) || (target && inode_is_dir(args->target));
	const bool leaves = target && !args->exchange;
	struct storage_fs *fs = storage_fs_of(from_dir);
	struct storage_removed removed;
	bool may_be_gone = false;
	struct fs_cred cred;
	int err = IS_ERR(from) ? (int)PTR_ERR(from) : IS_ERR(to) ? (int)PTR_ERR(to) : 0;

	/* The new contents are not to come later than the name under which old ones are gone. */
	if (!err && target)
		err = live_flush(&how.source);
	process_cred(&cred);
	if (leaves)
		how.unused = storagefs_leave_begin(target);
	if (!err && !dirs && args->target != args->source && rename_behind(&cred, &how, target)) {
		storagefs_moved(fs, from, to, false, false);
		may_be_gone = true;
	} else if (!err) {
		err = rename_now(fs, &cred, &how, from, to, dirs, &removed);
		if (!err && target && removed.file.node && !removed.nlink)
			storagefs_gone(target, true);
		may_be_gone = err ? kept_is_in_doubt(err) : !removed.nlink;
	}
	if (leaves)
		storagefs_leave_end(target, how.unused, may_be_gone);
	if (!IS_ERR(from))
		kfree(from);
	if (!IS_ERR(to))
		kfree(to);
	return err;
}

/* --- attributes ------------------------------------------------------------------------- */

static uint32_t what_to_set(uint32_t valid)
{
	uint32_t set = 0;

	if (valid & ATTR_MODE)
		set |= STORAGE_SET_MODE;
	if (valid & ATTR_UID)
		set |= STORAGE_SET_UID;
	if (valid & ATTR_GID)
		set |= STORAGE_SET_GID;
	if (valid & ATTR_ATIME)
		set |= valid & ATTR_ATIME_NOW ? STORAGE_SET_ATIME_NOW : STORAGE_SET_ATIME;
	if (valid & ATTR_MTIME)
		set |= valid & ATTR_MTIME_NOW ? STORAGE_SET_MTIME_NOW : STORAGE_SET_MTIME;
	if (valid & ATTR_FLAGS)
		set |= STORAGE_SET_FLAGS;
	if (valid & ATTR_GUARDED)
		set |= STORAGE_SET_GUARDED;
	return set;
}

static int storagefs_resize(struct inode *inode, uint64_t size)
{
	struct file_attr attr;
	const int err = storage_getattr(&storage_inode_of(inode)->file, &attr);

	return err ? err : live_truncate(&attr.file, attr.fsid, size);
}

/* The rest is the node's to say: its time, who may set flags. */
#define SET_BEHIND                                                                            \
	((uint32_t)STORAGE_SET_MODE | STORAGE_SET_UID | STORAGE_SET_GID | STORAGE_SET_ATIME | \
	 STORAGE_SET_MTIME)

/*
 * Is @how what the node does, too, without a look at an access list, or at rights that come from
 * an owner?  Then @now has the rights of the file of @attr afterwards.
 */
static bool may_set(const struct fs_cred *cred, const struct file_attr *attr,
		    const struct storage_attr *how, struct file_attr *now)
{
	const uint32_t type = attr->mode & S_IFMT;

	if ((how->set & ~SET_BEHIND) || attr_is_fixed(attr))
		return false;
	*now = *attr;
	if (how->set & STORAGE_SET_MODE)
		now->mode = type | (how->mode & 07777);
	if (how->set & STORAGE_SET_UID)
		now->uid = how->uid;
	if (how->set & STORAGE_SET_GID)
		now->gid = how->gid;
	if ((how->set & STORAGE_SET_MODE) && (attr->acl || type == S_IFLNK))
		return false;
	if ((how->set & (STORAGE_SET_UID | STORAGE_SET_GID)) &&
	    (((attr->mode | now->mode) & 06000) && type != S_IFDIR))
		return false;
	if (fs_cred_is_root(cred))
		return true;
	return cred->uid == attr->uid && now->uid == attr->uid &&
	       (now->gid == attr->gid || fs_in_group(cred, now->gid)) &&
	       (!(how->set & STORAGE_SET_MODE) || !(now->mode & 02000) ||
		fs_in_group(cred, now->gid));
}

/* As remove_behind(): the node sets the attributes of @file, whose rights are @attr's, later. */
static bool set_rights_behind(const struct fs_cred *cred, const struct file_attr *attr,
			      const struct file_attr *now, const struct storage_attr *how)
{
	struct numbered *n = behind_setattr(cred, &attr->file, how);

	if (!n)
		return false;
	if (!kept_set(attr, now)) {
		behind_cancel(n);
		return false;
	}
	behind_send(n);
	return true;
}

/*
 * The same of any attributes. A memory node that has the file learns the mtime first. 0: not done;
 * 1: done; or why it cannot be.
 */
static int set_behind(struct inode *inode, const struct fs_cred *cred,
		      const struct storage_attr *how)
{
	const struct file_id *file = &storage_inode_of(inode)->file;
	struct file_attr attr, now;
	struct live_file *lf;
	int ret;

	if (!behind_is_on() || !kept_is_allowed(file->node) ||
	    !kept_attr(file, KEPT_RIGHTS, &attr) || !may_set(cred, &attr, how, &now))
		return 0;
	if (!(how->set & STORAGE_SET_MTIME) || inode->mode != S_IFREG)
		return set_rights_behind(cred, &attr, &now, how);
	attr.mtime = how->mtime;
	ret = live_set_mtime_begin(&attr, &lf);
	if (ret)
		return ret;
	ret = set_rights_behind(cred, &attr, &now, how);
	live_set_mtime_end(lf);
	return ret;
}

int storagefs_setattr(struct inode *inode, const struct attr_change *ch)
{
	const struct storage_attr how = {
		.set = what_to_set(ch->valid),
		.mode = ch->mode,
		.uid = ch->uid,
		.gid = ch->gid,
		.atime = ch->atime,
		.mtime = ch->mtime,
		.flags = ch->flags,
	};
	const struct file_id *file = &storage_inode_of(inode)->file;
	struct kept_change kept;
	struct file_attr attr;
	struct fs_cred cred;
	int err = 0;

	if (ch->valid & ATTR_SIZE) {
		err = inode->mode == S_IFREG ? storagefs_resize(inode, ch->size) : -EINVAL;

		if (err)
			return err;
	}
	if (!how.set)
		return 0;
	process_cred(&cred);
	/* Stores of before do not change the time any more. */
	if ((ch->valid & ATTR_MTIME) && inode->mode == S_IFREG)
		err = live_flush(file);
	if (!err)
		err = set_behind(inode, &cred, &how);
	if (err)
		return MIN(err, 0);
	kept_change(&kept, file->node);
	kept_change_file(&kept, file, 0);
	err = storage_setattr(&cred, file, &how, &attr);
	if (!err)
		kept_change_fill_attr(&kept, &attr,
				      inode->mode == S_IFREG ? KEPT_RIGHTS : KEPT_ALL);
	kept_change_end(&kept, err);
	/* Nor does the caching node, which has a time of its own. */
	if (!err && (ch->valid & ATTR_MTIME) && inode->mode == S_IFREG)
		err = live_set_mtime(&attr);
	return err;
}

/* --- the end of a use ------------------------------------------------------------------- */

static void tell_ends(struct work *w);
static void keep_left(const struct file_id *file);

struct workqueue *storagefs_ends;

static struct {
	struct spinlock lock;
	struct storage_inode *first __guarded_by(&lock);
	struct work work;
} end = { .lock = SPINLOCK_INIT("storage.ends", RANK_SPIN_FS) };

void storagefs_end_use(struct storage_inode *si)
{
	spin_lock(&end.lock);
	si->next = end.first;
	end.first = si;
	spin_unlock(&end.lock);
	work_queue(storagefs_ends, &end.work);
}

/* Take one file off @list, unless it is mapped.  0: it was. */
static uint32_t take_end(struct storage_inode **list, struct file_id *file)
{
	struct storage_inode *si = *list;
	uint32_t node = si->file.node;

	*list = si->next;
	*file = si->file;
	/* A mapping needs no inode, so its pages may still be asked for. */
	if (si->inode.mode == S_IFREG && !object_file_drop(&si->file) && !si->freed) {
		keep_left(file);
		node = 0;
	}
	if (si->freed)
		node = 0; /* which knows it */
	kmem_free(si->path);
	kmem_free(si);
	return node;
}

/* As many of a node at a time as a message holds. */
static void tell_ends(struct work *w)
{
	static struct file_id files[STORAGE_CLOSE_MAX]; /* of the one worker; big for a stack */
	struct storage_inode *list;
	size_t nr = 0;

	(void)w;
	spin_lock(&end.lock);
	list = end.first;
	end.first = NULL;
	spin_unlock(&end.lock);
	while (list) {
		if (nr == STORAGE_CLOSE_MAX || (nr && list->file.node != files[0].node)) {
			(void)!storage_close(files, nr);
			nr = 0;
		}
		if (take_end(&list, &files[nr]))
			nr++;
	}
	if (nr)
		(void)!storage_close(files, nr);
}

/* --- a storage node that was started again ------------------------------------------------ */

struct storage_life {
	struct list_head link;
	uint32_t node, incarn;
};

static void declare_all(struct work *w);

/* To which this processor has to declare what it uses. */
static struct {
	struct spinlock lock; /* RANK_SPIN_FS */
	struct list_head list __guarded_by(&lock);
	/* Mapped files without a name, which have no inode any more. */
	struct list_head left __guarded_by(&lock);
	struct work work;
} lives = { .lock = SPINLOCK_INIT("storage.lives", RANK_SPIN_FS),
	    .list = { &lives.list, &lives.list },
	    .left = { &lives.left, &lives.left } };

struct left_file {
	struct list_head link; /* lives.lock */
	struct file_id file;   /* const */
};

static void keep_left(const struct file_id *file)
{
	struct left_file *left = kmalloc(sizeof(*left));

	counter_inc(&files_left);
	if (!left)
		return; /* it may be gone after the next start of its node */
	left->file = *file;
	spin_lock(&lives.lock);
	list_add_tail(&left->link, &lives.left);
	spin_unlock(&lives.lock);
}

/* As storagefs_nameless(). */
static size_t left_files(uint32_t node, struct file_id *files, size_t max)
{
	struct left_file *left;
	size_t nr = 0;

	spin_lock(&lives.lock);
	list_for_each_entry(left, &lives.left, link) {
		if (left->file.node != node)
			continue;
		if (nr < max)
			files[nr] = left->file;
		nr++;
	}
	spin_unlock(&lives.lock);
	return nr;
}

static int declare_files(uint32_t node, uint32_t incarn, bool last)
{
	size_t max = 64, nr, more;
	struct file_id *files;
	int err;

	for (;;) {
		files = kcalloc(max, sizeof(*files));
		if (!files)
			return -ENOMEM;
		nr = storagefs_nameless(node, files, max);
		more = left_files(node, nr < max ? files + nr : files, nr < max ? max - nr : 0);
		if (nr + more <= max)
			break;
		kfree(files);
		max = 2 * (nr + more);
	}
	err = storage_declare(node, incarn, files, nr + more, last);
	kfree(files);
	return err;
}

static int declare_to(uint32_t node, uint32_t incarn)
{
	int err;

	/* Then this processor knows what each answer that was lost has told. */
	storage_drain(node);
	/* The files first: locks may be many, and nobody's file may be freed meanwhile. */
	err = declare_files(node, incarn, false);
	if (err)
		return err;
	err = filelock_declare(node, incarn);
	if (err == -ESTALE)
		return err;
	if (err)
		pr_warn("locks cannot be declared to node %u: error %d\n", node, err);
	return declare_files(node, incarn, true);
}

static void declare_all(struct work *w)
{
	struct storage_life *life;
	int err;

	(void)w;
	for (;;) {
		spin_lock(&lives.lock);
		life = list_first_entry_or_null(&lives.list, struct storage_life, link);
		if (life)
			list_del(&life->link);
		spin_unlock(&lives.lock);
		if (!life)
			return;
		err = declare_to(life->node, life->incarn);
		if (err && err != -ESTALE) /* its next life has an entry of its own */
			pr_warn("files in use cannot be declared to node %u: error %d\n",
				life->node, err);
		kfree(life);
	}
}

void storagefs_node_joined(uint32_t node, uint32_t incarn)
{
	struct storage_life *life = kmalloc(sizeof(*life));

	if (!life) {
		pr_err("no memory to note that storage node %u has come\n", node);
		return;
	}
	*life = (struct storage_life){ .node = node, .incarn = incarn };
	spin_lock(&lives.lock);
	list_add_tail(&life->link, &lives.list);
	spin_unlock(&lives.lock);
	(void)work_queue(storagefs_ends, &lives.work);
}

static int ends_init(void)
{
	work_init(&end.work, tell_ends);
	work_init(&lives.work, declare_all);
	storagefs_ends = workqueue_create("storage.ends", 1);
	return IS_ERR(storagefs_ends) ? (int)PTR_ERR(storagefs_ends) : 0;
}
INITCALL(fs, ends_init);
