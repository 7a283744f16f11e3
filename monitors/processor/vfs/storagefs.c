/* SPDX-License-Identifier: MIT */
/*
 * The file systems of the storage nodes: one of them is the root of every vNode, others are mounted
 * where the cluster's configuration says (GSM).
 *
 * Flow:	lookup_path() sends all that is left of a path in one message and makes an inode of
 *		the answer; the other operations ask by the file's handle (inode, generation,
 *		node). Those that change something are in storagefs_change.c.
 *		All paths here are those within their file system.
 * Invariants:	a table leads from a handle to the inode that is in use, so a file has one inode
 *		here, so mount points and locks are found by the inode's address.
 *		A directory's path is good: a rename of this processor changes the paths of the
 *		inodes in use, all at once, and a look-up that a rename overtook is made again.
 *		After a rename in doubt the paths that it may have changed are not known, until a
 *		walk from elsewhere comes to those inodes.
 * Locking:	moves_lock (RANK_MONITOR), one change of paths at a time; then table.lock
 *		(RANK_SPIN_FS), which guards the buckets and paths. Neither is held across a
 *		message.
 * Failure:	attributes of another type than the inode has are -ESTALE, whichever message brings
 *		them; those of another node's file are -EPROTO.
 * Limits:	regular files are only read. A path that another processor changes is noticed when
 *		a walk comes to the file again.
 */
#include "storagefs.h"

#include "storagefs_private.h"

#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <lib/name_tie.h>
#include <lib/string.h>
#include <managers/placement.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/client/change.h>
#include <processor/client/file_node.h>
#include <processor/client/storage.h>
#include <processor/excache/object.h>
#include <processor/ipc/pipe.h>
#include <processor/process/process.h>

#include "dev.h"
#include "dirent_private.h"
#include "file.h"
#include "live.h"

#define BUCKETS   256u
#define DIR_CHUNK 4096u /* bytes of entries that one message brings */

static struct {
	struct spinlock lock;
	struct hlist_head buckets[BUCKETS] __guarded_by(&lock);
	uint64_t moves __guarded_by(&lock); /* changes of paths so far */
	struct waitqueue ended;             /* some storage_inode.ending */
} table = { .lock = SPINLOCK_INIT("storage.inodes", RANK_SPIN_FS),
	    .ended = WAITQUEUE_INIT(table.ended) };

static struct mutex moves_lock = MUTEX_INIT(moves_lock, "storage.moves", RANK_MONITOR);

struct storage_fs *storage_fs_of(const struct storage_inode *si)
{
	return container_of(si->inode.type, struct storage_fs, type);
}

struct storage_inode *storage_inode_of(const struct inode *inode)
{
	ASSERT(inode->ops == &storagefs_ops);
	return container_of(inode, struct storage_inode, inode);
}

/* --- inodes -------------------------------------------------------------------------- */

static struct hlist_head *bucket_of(const struct file_id *file)
{
	return &table.buckets[hash64_pair(file->ino, (uint64_t)file->gen << 32 | file->node) %
			      BUCKETS];
}

/* The inode of @file with a reference; one whose last reference has gone does not count. */
static struct storage_inode *find_locked(const struct file_id *file) __must_hold(&table.lock)
{
	struct storage_inode *si;

	assert_spin_held(&table.lock);
	hlist_for_each_entry(si, bucket_of(file), link) {
		if (file_id_equal(&si->file, file) && refcount_inc_not_zero(&si->inode.refs))
			return si;
	}
	return NULL;
}

/*
 * A file keeps its type, on which the callers rely: they check the inode's and use attributes, or
 * the other way round. So attributes of another type are not handed out.
 */
static bool same_type(const struct storage_inode *si, const struct file_attr *attr)
{
	return si->inode.mode == (attr->mode & S_IFMT);
}

/* @si is used by another one's name, or was moved: the path by which it was found last is good. */
static void take_path_locked(struct storage_inode *si, char **path) __must_hold(&table.lock)
{
	char *old = si->path;

	assert_spin_held(&table.lock);
	if (old && !strcmp(old, *path))
		return;
	si->path = *path;
	*path = old;
}

static bool is_ending(struct storage_inode *si)
{
	bool ending;

	spin_lock(&table.lock);
	ending = si->ending;
	spin_unlock(&table.lock);
	return ending;
}

/*
 * @si was found for @attr, which an answer to a request after @since has told. The reference goes
 * with an error: -EAGAIN, the file has gone since; -ESTALE, another type; -EINTR.
 */
static int check_found(struct storage_inode *si, const struct file_attr *attr, uint64_t since)
{
	int err = wait_event_killable(&table.ended, !is_ending(si));

	if (!err && kept_is_gone(&attr->file, since))
		err = -EAGAIN;
	if (!err && !same_type(si, attr))
		err = -ESTALE;
	if (err)
		inode_put(&si->inode);
	return err;
}

int storagefs_inode(struct storage_fs *fs, const struct file_attr *attr, uint64_t since,
		    const char *path, size_t len, struct inode **out)
{
	struct storage_inode *si, *fresh;
	char *text;
	int err;

	ASSERT(len && path[0] == '/');
	if (attr->file.node != fs->place.node)
		return -EPROTO;
	fresh = kmem_alloc(kmem_current(), sizeof(*fresh));
	text = kmem_alloc(kmem_current(), len + 1);
	if (!fresh || !text) {
		kmem_free(fresh);
		kmem_free(text);
		return -ENOMEM;
	}
	memcpy(text, path, len);
	inode_init(&fresh->inode, &fs->type, &storagefs_ops, attr->mode);
	fresh->file = attr->file;
	spin_lock(&table.lock);
	si = find_locked(&attr->file);
	if (si) {
		take_path_locked(si, &text);
	} else {
		fresh->path = text;
		text = NULL;
		hlist_add_head(&fresh->link, bucket_of(&attr->file));
	}
	spin_unlock(&table.lock);
	kmem_free(text);
	if (si)
		kmem_free(fresh);
	else
		si = fresh;
	err = check_found(si, attr, since);
	if (!err)
		*out = &si->inode;
	return err;
}

int storagefs_bare_inode(struct storage_fs *fs, const struct file_attr *attr, uint64_t since,
			 struct inode **out)
{
	struct storage_inode *si, *fresh = kmem_alloc(kmem_current(), sizeof(*fresh));
	int err;

	if (!fresh)
		return -ENOMEM;
	inode_init(&fresh->inode, &fs->type, &storagefs_ops, attr->mode);
	fresh->file = attr->file;
	fresh->bare = true;
	spin_lock(&table.lock);
	si = find_locked(&attr->file);
	if (!si)
		hlist_add_head(&fresh->link, bucket_of(&attr->file));
	spin_unlock(&table.lock);
	if (si)
		kmem_free(fresh);
	else
		si = fresh;
	err = check_found(si, attr, since);
	if (!err)
		*out = &si->inode;
	return err;
}

struct storage_inode *storagefs_in_use(const struct file_id *file)
{
	struct storage_inode *si;

	spin_lock(&table.lock);
	si = find_locked(file);
	spin_unlock(&table.lock);
	if (si && is_ending(si)) {
		inode_put(&si->inode);
		si = NULL; /* so it is */
	}
	return si;
}

static void storagefs_release(struct inode *inode)
{
	struct storage_inode *si = storage_inode_of(inode);
	bool gone, freed;

	spin_lock(&table.lock);
	hlist_del(&si->link);
	gone = si->gone;
	freed = si->freed;
	spin_unlock(&table.lock);
	/* Of one that its node has freed nothing is told, but it may have lines. */
	if (freed && !object_file_is_known(&si->file))
		gone = false;
	if (si->pipe)
		pipe_put(si->pipe);
	if (gone && !inode_is_dir(inode)) {
		storagefs_end_use(si);
		return;
	}
	kmem_free(si->path);
	kmem_free(si);
}

static int get_some(struct inode *inode, enum kept_what what, struct file_attr *attr)
{
	const struct storage_inode *si = storage_inode_of(inode);
	const int err = storagefs_attr(storage_fs_of(si), &si->file, what, attr);

	return err ? err : same_type(si, attr) ? 0 : -ESTALE;
}

static int storagefs_getattr(struct inode *inode, struct file_attr *attr)
{
	return get_some(inode, KEPT_ALL, attr);
}

static int storagefs_getrights(struct inode *inode, struct file_attr *attr)
{
	return get_some(inode, KEPT_RIGHTS, attr);
}

/* --- paths --------------------------------------------------------------------------- */

/* @dir, a slash, and @len bytes of @rest; without the slash if nothing follows. */
static char *join(const char *dir, const char *rest, size_t len)
{
	const size_t dir_len = strlen(dir);
	char *text = kmalloc(dir_len + 1 + len + 1);

	if (!text)
		return NULL;
	memcpy(text, dir, dir_len);
	text[dir_len] = len ? '/' : '\0';
	memcpy(text + dir_len + 1, rest, len);
	text[dir_len + 1 + len] = '\0';
	return text;
}

/* Both together, charged as @si is. */
static char *concat(const struct storage_inode *si, const char *a, const char *b)
{
	const size_t len = strlen(a);
	char *text = kmem_alloc(kmem_account_of(si), len + strlen(b) + 1);

	if (text) {
		memcpy(text, a, len);
		memcpy(text + len, b, strlen(b));
	}
	return text;
}

/*
 * Where @si is now, with room for FS_PATH_MAX bytes; the caller's to kfree(). ERR_PTR: -ENOENT, it
 * has been removed; -ESTALE, its path is not known; -ENOMEM.
 */
static char *path_of(struct storage_inode *si)
{
	char *buf = kmalloc(FS_PATH_MAX);
	int err = 0;

	if (!buf)
		return ERR_PTR(-ENOMEM);
	spin_lock(&table.lock);
	if (si->gone)
		err = -ENOENT;
	else if (!si->path)
		/* Or there was no memory when it was moved. */
		err = si->bare || si->lost ? -ESTALE : -ENOMEM;
	else
		strlcpy(buf, si->path, FS_PATH_MAX);
	spin_unlock(&table.lock);
	if (!err)
		return buf;
	kfree(buf);
	return ERR_PTR(err);
}

char *path_at_storage(const struct path *at)
{
	return path_of(storage_inode_of(at->inode));
}

char *storagefs_path_in(struct storage_inode *dir, const char *name, size_t len)
{
	char *base = path_of(dir), *text;

	if (IS_ERR(base))
		return base;
	text = join(strcmp(base, "/") ? base : "", name, len);
	kfree(base);
	return text ? text : ERR_PTR(-ENOMEM);
}

void storagefs_gone(struct storage_inode *si, bool gone)
{
	spin_lock(&table.lock);
	si->gone = gone;
	spin_unlock(&table.lock);
}

bool storagefs_leave_begin(struct storage_inode *si)
{
	bool unused;

	spin_lock(&table.lock);
	unused = !inode_is_dir(&si->inode) && !si->ending && refcount_read(&si->inode.refs) == 1;
	si->ending |= unused;
	si->leaving += !unused;
	spin_unlock(&table.lock);
	/* From here on no program can begin to use it, but one may have mapped it before. */
	if (!unused || object_file_is_idle(&si->file))
		return unused;
	spin_lock(&table.lock);
	si->ending = false;
	si->leaving++;
	spin_unlock(&table.lock);
	wake_all(&table.ended);
	return false;
}

void storagefs_leave_end(struct storage_inode *si, bool unused, bool may_be_gone)
{
	if (unused && may_be_gone)
		kept_gone(&si->file);
	spin_lock(&table.lock);
	if (unused) {
		ASSERT(si->ending);
		si->ending = false;
		si->freed = si->gone;
	} else {
		ASSERT(si->leaving);
		si->leaving--;
	}
	spin_unlock(&table.lock);
	if (unused)
		wake_all(&table.ended);
}

size_t storagefs_nameless(uint32_t node, struct file_id *files, size_t max)
{
	struct storage_inode *si;
	size_t nr = 0;

	spin_lock(&table.lock);
	for (size_t i = 0; i < BUCKETS; i++) {
		hlist_for_each_entry(si, &table.buckets[i], link) {
			if (si->file.node != node || !(si->gone || si->leaving))
				continue;
			if (nr < max)
				files[nr] = si->file;
			nr++;
		}
	}
	spin_unlock(&table.lock);
	return nr;
}

/* The rest of @path behind @prefix, if it is that path or one below it; else NULL. */
static const char *below(const char *path, const char *prefix)
{
	const size_t len = strlen(prefix);

	if (strncmp(path, prefix, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	return path + len;
}

/* The inodes in use at @from and below, and at @to if that is not NULL, referenced and chained. */
static struct storage_inode *collect(const struct storage_fs *fs, const char *from, const char *to,
				     bool dirs)
{
	struct storage_inode *si, *list = NULL;

	ASSERT(mutex_is_mine(&moves_lock));
	spin_lock(&table.lock);
	table.moves += dirs;
	for (size_t i = 0; i < BUCKETS; i++) {
		hlist_for_each_entry(si, &table.buckets[i], link) {
			if (!si->path || si->gone || storage_fs_of(si) != fs ||
			    (!below(si->path, from) && !(to && below(si->path, to))) ||
			    !refcount_inc_not_zero(&si->inode.refs))
				continue;
			si->moving = list;
			list = si;
		}
	}
	spin_unlock(&table.lock);
	return list;
}

/* @si was at @from or @to, or below. Without memory its path is not known any more. */
static void prepare_move(struct storage_inode *si, const char *from, const char *to)
{
	char *old = path_of(si), *text = NULL;
	const char *rest, *back;

	si->moves = false;
	if (PTR_ERR(old) == -ENOENT)
		return;
	if (!IS_ERR(old)) {
		rest = below(old, from);
		back = below(old, to);
		if (rest)
			text = concat(si, to, rest);
		else if (back)
			text = concat(si, from, back);
		kfree(old);
		if (!rest && !back)
			return; /* a walk has found it elsewhere meanwhile */
	}
	si->moved_path = text;
	si->moves = true;
}

/*
 * Each inode of @list gets the path that is prepared for it, and all at once: a look-up takes the
 * path that it begins at and those where it ends, and ".." would pass a root whose path is older or
 * newer than its own. The references of @list are dropped.
 */
static void move_all(struct storage_inode *list, bool dirs)
{
	struct storage_inode *si, *next;

	ASSERT(mutex_is_mine(&moves_lock));
	spin_lock(&table.lock);
	table.moves += dirs;
	for (si = list; si; si = si->moving) {
		if (si->moves) {
			char *old = si->path;

			si->path = si->moved_path;
			si->moved_path = old;
		}
	}
	spin_unlock(&table.lock);
	for (si = list; si; si = next) {
		next = si->moving;
		kmem_free(si->moved_path);
		si->moved_path = NULL;
		inode_put(&si->inode);
	}
}

void storagefs_moved(const struct storage_fs *fs, const char *from, const char *to, bool exchange,
		     bool dirs)
{
	struct storage_inode *list;

	mutex_lock(&moves_lock);
	list = collect(fs, from, exchange ? to : NULL, dirs);
	for (struct storage_inode *si = list; si; si = si->moving)
		prepare_move(si, from, to);
	move_all(list, dirs);
	mutex_unlock(&moves_lock);
}

void storagefs_lost(const struct storage_fs *fs, const char *from, const char *to, bool dirs)
{
	struct storage_inode *list;

	mutex_lock(&moves_lock);
	list = collect(fs, from, to, dirs);
	spin_lock(&table.lock);
	for (struct storage_inode *si = list; si; si = si->moving) {
		si->moves = true;
		si->lost = true;
	}
	spin_unlock(&table.lock);
	move_all(list, dirs);
	mutex_unlock(&moves_lock);
}

static uint64_t moves(void)
{
	uint64_t nr;

	spin_lock(&table.lock);
	nr = table.moves;
	spin_unlock(&table.lock);
	return nr;
}

static char *copy(const char *s, size_t len)
{
	char *text = kmalloc(len + 1);

	if (!text)
		return NULL;
	memcpy(text, s, len);
	text[len] = '\0';
	return text;
}

/* Where a look-up ends: mount points, then the paths of how->stop and how->bound. */
struct stops {
	const char *points;
	size_t len;
	char *own;                /* @points, if those are among them; the caller's to kfree() */
	const char *stop, *bound; /* their paths, in @own; NULL: there is none */
	/*
	 * The look-up begins outside of how->bound, from which somebody has moved its directory:
	 * @bound is that directory's, and no ".." may leave it.
	 */
	bool apart;
};

/* The path of @dir as it is now; NULL: it is removed, so none is below it any more. */
static char *stop_path(struct inode *dir)
{
	char *path = dir ? path_of(storage_inode_of(dir)) : NULL;

	return PTR_ERR(path) == -ENOENT ? NULL : path;
}

static const char *put_stop(struct stops *s, const char *path)
{
	char *at = s->own + s->len;

	memcpy(at, path, strlen(path) + 1);
	s->len += strlen(path) + 1;
	return at;
}

/* The path at which a look-up from @base in a mount with how->bound ends. */
static char *bound_path(const struct path_lookup *how, const char *base, bool *apart)
{
	char *path = stop_path(how->bound);

	*apart = how->bound && !IS_ERR(path) && !(path && below(base, path));
	if (!*apart)
		return path;
	kfree(path);
	path = kstrdup(base);
	return path ? path : ERR_PTR(-ENOMEM);
}

/* Does @rest begin with ".."? */
static bool leads_up(const char *rest)
{
	for (; *rest == '/' || (*rest == '.' && (rest[1] == '/' || !rest[1])); rest++)
		;
	return rest[0] == '.' && rest[1] == '.' && (rest[2] == '/' || !rest[2]);
}

/*
 * For a look-up from @base, with paths as they are now: a rename that comes between makes the
 * caller ask again. -ENOENT: it would leave the mount without passing its root.
 */
static int stops_make(const struct path_lookup *how, const char *base, struct stops *s)
{
	const size_t len = how->mount_points_len;
	char *stop, *bound;
	size_t more;
	int err = 0;

	*s = (struct stops){ .points = how->mount_points, .len = len };
	if (!how->stop && !how->bound)
		return 0;
	stop = stop_path(how->stop);
	bound = bound_path(how, base, &s->apart);
	if (IS_ERR(stop) || IS_ERR(bound)) {
		err = IS_ERR(stop) ? PTR_ERR(stop) : PTR_ERR(bound);
		stop = IS_ERR(stop) ? NULL : stop;
		bound = IS_ERR(bound) ? NULL : bound;
	}
	if (!err && s->apart && leads_up(how->rest))
		err = -ENOENT;
	more = (stop ? strlen(stop) + 1 : 0) + (bound ? strlen(bound) + 1 : 0);
	if (!err && len + more > STORAGE_MOUNT_POINTS_MAX)
		err = -ENAMETOOLONG;
	if (!err && more) {
		s->own = kmalloc(len + more);
		err = s->own ? 0 : -ENOMEM;
	}
	if (!err && s->own) {
		if (len)
			memcpy(s->own, how->mount_points, len);
		s->points = s->own;
		s->stop = stop ? put_stop(s, stop) : NULL;
		s->bound = bound ? put_stop(s, bound) : NULL;
	}
	kfree(stop);
	kfree(bound);
	return err;
}

static bool is_stop(const struct storage_found *rep, const char *stop)
{
	return stop && strlen(stop) == rep->path_len && !memcmp(stop, rep->path, rep->path_len);
}

static enum path_turn turn_of(const struct storage_found *rep, const struct stops *s)
{
	if (rep->end == STORAGE_UP)
		return TURN_UP;
	if (rep->end == STORAGE_AT_ROOT)
		return TURN_ROOT;
	if (is_stop(rep, s->stop))
		return TURN_STOP;
	return is_stop(rep, s->bound) ? TURN_BOUND : TURN_MOUNT_POINT;
}

/* The walk of what is kept has come to the end. */
static int take_kept(const struct kept_walk *w, const struct file_attr *attr,
		     struct path_found *found)
{
	const size_t len = strlen(w->path);

	found->attr = *attr;
	found->text = copy(w->path, len);
	if (!found->text)
		return -ENOMEM;
	return storagefs_inode(w->fs, attr, w->ticket.now, w->path, len, &found->inode);
}

/* The node walks what is left of @w. */
static int ask_node(const struct kept_walk *w, const struct stops *stops, uint64_t before,
		    struct path_found *found)
{
	const struct path_lookup *how = w->how;
	const char *base = w->path, *rest = w->rest;
	struct storage_fs *fs = w->fs;
	const size_t base_len = strlen(base), rest_len = strlen(rest);
	struct kept_ticket ticket;
	struct storage_walk walk = {
		.where = fs->place,
		.canon_len = base_len,
		.flags = STORAGE_REALPATH | (how->below ? STORAGE_BELOW : 0),
		.mount_points = stops->points,
		.mount_points_len = stops->len,
	};
	struct storage_found rep;
	void *buf = NULL;
	char *text;
	int err;

	if (base_len + 1 + rest_len >= FS_PATH_MAX)
		return -ENAMETOOLONG;
	text = join(base, rest, rest_len);
	if (!text)
		return -ENOMEM;
	walk.path = text;
	if (how->nofollow)
		walk.flags |= STORAGE_NOFOLLOW;
	if (how->must_be_dir)
		walk.flags |= STORAGE_DIRECTORY;
	kept_begin(&ticket, fs->place.node);
	err = storage_walk(how->cred, &walk, &rep, &buf);
	kfree(text);
	if (before != moves())
		err = -EAGAIN;
	if (err)
		goto out;
	found->text = copy(rep.path, rep.path_len);
	if (!found->text) {
		err = -ENOMEM;
	} else if (rep.end != STORAGE_FOUND) {
		found->turn = turn_of(&rep, stops);
		if (stops->apart && found->turn == TURN_BOUND)
			err = -ENOENT;
		found->nr_links = w->nr_links + rep.nr_links;
		found->rest = copy(rep.rest, rep.rest_len);
		if (!err && !found->rest)
			err = -ENOMEM;
	} else {
		found->attr = rep.attr;
		err = how->rights ? 0 : storagefs_complete(fs, &ticket, &found->attr);
		if (!err)
			err = storagefs_inode(fs, &rep.attr, ticket.now, rep.path, rep.path_len,
					      &found->inode);
	}
out:
	kfree(buf);
	return err;
}

/*
 * Once: -EAGAIN when a rename of a directory may have come after @before, when @base was not taken
 * yet. @base has room for FS_PATH_MAX bytes.
 */
static int look_up_once(struct storage_inode *si, const struct kept_ticket *ticket, char *base,
			uint64_t before, const struct path_lookup *how, struct path_found *found)
{
	struct storage_fs *fs = storage_fs_of(si);
	struct kept_walk kept = {
		.ticket = *ticket,
		.fs = fs,
		.how = how,
		.cur = si->file,
		.path = base,
		.rest = how->rest,
	};
	struct file_attr attr;
	struct stops stops;
	int err = stops_make(how, base, &stops);

	if (err)
		return before != moves() ? -EAGAIN : err;
	kept.points = stops.points;
	kept.points_len = stops.len;
	err = inode_is_dir(&si->inode) ? storagefs_walk_kept(&kept, &attr) : 1;
	if (before != moves())
		err = -EAGAIN;
	else if (err == 1)
		err = ask_node(&kept, &stops, before, found);
	else if (!err)
		err = take_kept(&kept, &attr, found);
	kfree(kept.text);
	kfree(stops.own);
	return err;
}

static int storagefs_lookup_path(struct inode *dir, const struct path_lookup *how,
				 struct path_found *found)
{
	struct storage_inode *si = storage_inode_of(dir);
	struct kept_ticket ticket;
	uint64_t before;
	char *base;
	int err;

	do {
		before = moves();
		kept_begin(&ticket, storage_fs_of(si)->place.node);
		base = path_of(si);
		if (IS_ERR(base))
			return (int)PTR_ERR(base);
		err = look_up_once(si, &ticket, base, before, how, found);
		kfree(base);
	} while (err == -EAGAIN);
	return err;
}

static int storagefs_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	struct storage_inode *si = storage_inode_of(dir);
	struct storage_fs *fs = storage_fs_of(si);
	char *text = storagefs_path_in(si, name, len);
	struct file_attr attr;
	uint64_t before;
	int err;

	if (IS_ERR(text))
		return (int)PTR_ERR(text);
	do {
		before = kept_now();
		err = storage_lookup_in(&si->file, name, len, &attr);
		if (!err)
			err = storagefs_inode(fs, &attr, before, text, strlen(text), out);
	} while (err == -EAGAIN);
	kfree(text);
	return err;
}

static ssize_t storagefs_readlink(struct inode *link, char *buf, size_t size)
{
	struct storage_inode *si = storage_inode_of(link);
	ssize_t ret = (ssize_t)kept_link(&si->file, buf, size);
	char *path;

	if (ret)
		return MIN(ret, (ssize_t)size);
	path = path_of(si);
	if (IS_ERR(path))
		return PTR_ERR(path);
	ret = storage_readlink(&storage_fs_of(si)->place, path, buf, size);
	kfree(path);
	return ret;
}

/* A file may have several names, of which that of the walk is as good as any. */
static int storagefs_text(struct inode *inode, char *buf, size_t size)
{
	struct storage_inode *si = storage_inode_of(inode);
	int err = inode_is_dir(inode) ? 0 : -EINVAL;

	spin_lock(&table.lock);
	if (si->gone)
		err = -ENOENT;
	else if (!si->path)
		err = -EINVAL;
	if (!err)
		strlcpy(buf, si->path[1] ? si->path : "", size);
	spin_unlock(&table.lock);
	return err;
}

/* --- contents ------------------------------------------------------------------------ */

/* The pipe behind a FIFO, which stays as long as its inode is in use. ERR_PTR(-ENOMEM) */
static struct pipe *pipe_of_inode(struct storage_inode *si)
{
	struct pipe *made, *p;

	spin_lock(&table.lock);
	p = si->pipe;
	spin_unlock(&table.lock);
	if (p)
		return p;
	made = pipe_create();
	if (IS_ERR(made))
		return made;
	spin_lock(&table.lock);
	if (!si->pipe)
		si->pipe = made;
	p = si->pipe;
	spin_unlock(&table.lock);
	if (p != made)
		pipe_put(made);
	return p;
}

static int open_fifo(struct inode *inode, struct file *f)
{
	const struct file_ops *was = f->ops;
	struct pipe *p = pipe_of_inode(storage_inode_of(inode));
	int err;

	if (IS_ERR(p))
		return PTR_ERR(p);
	f->ops = &fifo_ops;
	err = fifo_open(f, p);
	if (err)
		f->ops = was; /* it has no pipe that could be released */
	return err;
}

static int storagefs_open(struct inode *inode, struct file *f)
{
	struct object *object;

	if (inode->mode == S_IFIFO)
		return open_fifo(inode, f);
	if (inode->mode == S_IFCHR)
		return dev_use(f, f->attr.rdev);
	if (inode->mode != S_IFREG)
		return -ENXIO; /* a disk, or a socket */
	ASSERT(f->inode == inode && !f->object);
	if (!inode->type->read_only)
		return live_open(f);
	object = object_file_get(&f->attr);
	if (IS_ERR(object))
		return PTR_ERR(object);
	f->object = object;
	f->ops = &regular_ops;
	return 0;
}

/* One message's worth of entries from *@pos on.  0: the end; 1: there may be more. */
static int emit_chunk(const struct file_id *dir, uint64_t *pos, struct dir_sink *sink,
		      uint8_t *chunk)
{
	const ssize_t len = storage_getdents(dir, *pos, sink->behind, chunk, DIR_CHUNK);
	struct storage_dirent e;
	size_t off = 0;
	int err;

	if (len <= 0)
		return (int)len;
	while ((err = storage_dirent_next(chunk, (size_t)len, &off, &e)) == 0) {
		if (!dir_emit(sink, e.name, e.name_len, e.ino, e.type, e.cookie))
			return 1;
		*pos = e.cookie;
		sink->behind = e.more ? name_tie(e.name, e.name_len) : 0;
	}
	return err == -ENOENT ? 1 : err; /* -ENOENT: the end of this chunk */
}

static int storagefs_readdir(struct inode *dir, uint64_t *pos, struct dir_sink *sink)
{
	const uint64_t first = *pos;
	uint8_t *chunk = kmalloc(DIR_CHUNK);
	int ret;

	if (!chunk)
		return -ENOMEM;
	do
		ret = emit_chunk(&storage_inode_of(dir)->file, pos, sink, chunk);
	while (ret > 0 && !sink->full);
	kfree(chunk);
	if (ret < 0 && *pos != first) {
		sink->full = true; /* what was emitted is worth having; the next call fails */
		ret = 0;
	}
	return MIN(ret, 0);
}

static int storagefs_statfs(struct inode *inode, struct fs_info *st)
{
	return storage_statfs(&storage_inode_of(inode)->file, st);
}

static int storagefs_sync_dir(struct inode *dir)
{
	return storage_commit(&storage_inode_of(dir)->file, false);
}

/* Bytes of mappings, then those that the caching nodes have, then the journal and the disk. */
static int storagefs_sync(const struct fs_type *type)
{
	const struct storage_fs *fs = container_of(type, struct storage_fs, type);
	int err, e;

	if (type->read_only || !fs->root.node)
		return 0;
	err = live_flush_node(fs->root.node);
	if (err == -EINTR)
		return err;
	e = file_nodes_flush(&fs->root);
	if (e == -EINTR)
		return e;
	err = err ? err : e;
	e = storage_commit(&fs->root, true);
	return err && e != -EINTR ? err : e;
}

const struct inode_ops storagefs_ops = {
	.name = "storage",
	.getattr = storagefs_getattr,
	.getrights = storagefs_getrights,
	.release = storagefs_release,
	.open = storagefs_open,
	.readlink = storagefs_readlink,
	.lookup = storagefs_lookup,
	.lookup_path = storagefs_lookup_path,
	.readdir = storagefs_readdir,
	.lists_dots = true,
	.create = storagefs_create,
	.tmpfile = storagefs_tmpfile,
	.link = storagefs_link,
	.remove = storagefs_remove,
	.rename = storagefs_rename,
	.sync_dir = storagefs_sync_dir,
	.setattr = storagefs_setattr,
	.getxattr = storagefs_getxattr,
	.setxattr = storagefs_setxattr,
	.listxattr = storagefs_listxattr,
	.text = storagefs_text,
};

/* --- the file systems ------------------------------------------------------------------ */

/* The node that has it, by GSM; then its root and what it may be used for. */
static int storagefs_root(const struct fs_type *type, struct inode **out)
{
	struct storage_fs *fs = container_of(type, struct storage_fs, type);
	uint64_t before = kept_now();
	struct file_attr attr;
	struct fs_info st;
	int err = storage_lookup(&fs->place, "/", &attr);

	if (err)
		return err;
	if ((attr.mode & S_IFMT) != S_IFDIR)
		return -ENOTDIR;
	if (fs->place.node && attr.file.node != fs->place.node)
		return -EPROTO;
	err = storage_statfs(&attr.file, &st);
	if (err)
		return err;
	fs->type.dev = (uint32_t)attr.fsid;
	fs->type.read_only = st.flags & ST_RDONLY;
	err = fs->type.read_only ? 0 : file_bufs_init();
	if (!err && !fs->type.read_only)
		err = live_maps_init(attr.file.node, st.bsize);
	if (err)
		return err;
	err = kept_add(attr.file.node);
	if (err)
		return err;
	kept_ask(attr.file.node);
	fs->place.node = attr.file.node;
	fs->root = attr.file;
	/* No root goes: only another file's end may have been taken for its own. */
	while ((err = storagefs_inode(fs, &attr, before, "/", 1, out)) == -EAGAIN)
		before = kept_now();
	return err;
}

/* The name of its device for /proc/mounts: "storage:" and @at. */
static char *source_of(const char *at)
{
	static const char head[] = "storage:";
	char *text = kmalloc(sizeof(head) + strlen(at));

	if (text) {
		strlcpy(text, head, sizeof(head));
		strlcpy(text + strlen(head), at, strlen(at) + 1);
	}
	return text;
}

/* The node of the root is known when it has come. */
static int storagefs_add(const char *at)
{
	const bool is_root = !strcmp(at, "/");
	struct storage_fs *fs = kzalloc(sizeof(*fs));

	if (!fs)
		return -ENOMEM;
	fs->place = (struct storage_place){ at, is_root ? 0 : gsm_storage_for(at) };
	fs->type.name = "ext4";
	fs->type.source = is_root ? "/dev/root" : source_of(at);
	fs->type.required = !is_root;
	fs->type.at = at;
	fs->type.options = "relatime";
	fs->type.read_only = true; /* unless the storage node says otherwise */
	fs->type.root = storagefs_root;
	fs->type.statfs = storagefs_statfs;
	fs->type.sync = storagefs_sync;
	fs->type.keeps_flags = true;
	fs->type.handle = storagefs_handle;
	fs->type.by_handle = storagefs_by_handle;
	return fs->type.source ? fs_register(&fs->type) : -ENOMEM;
}

static int storagefs_init(void)
{
	int err = storagefs_add("/");
	const char *at;

	for (size_t i = 0; !err && (at = gsm_mount_at(i)); i++)
		err = storagefs_add(at);
	return err;
}
INITCALL(fs, storagefs_init);
