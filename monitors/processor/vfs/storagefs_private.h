/* SPDX-License-Identifier: MIT */
/* Shared by the files of the file system of the storage nodes. */
#pragma once

#include <lib/list.h>
#include <processor/client/file_attr.h>
#include <processor/client/kept.h>
#include <processor/client/storage.h>

#include "inode.h"

struct pipe;
struct workqueue;

struct storage_fs { /* of one storage node */
	struct fs_type type;
	struct storage_place place; /* const once its root is known */
	struct file_id root;        /* the same; node 0: not known yet */
};

struct storage_inode {
	struct inode inode;
	struct hlist_node link;       /* table lock */
	struct file_id file;          /* const */
	char *path;                   /* table lock: canonical; NULL: not known any more */
	struct pipe *pipe;            /* table lock: of a FIFO that was opened; set once */
	bool gone;                    /* table lock: its last name was removed */
	bool bare;                    /* const: made without a path, see storagefs_bare_inode() */
	bool lost;                    /* table lock: a rename in doubt took its path once */
	bool ending;                  /* table lock: as storagefs_leave_begin() has answered */
	bool freed;                   /* table lock: its node has freed it with its last name */
	uint32_t leaving;             /* table lock: removals of a name of it that are under way */
	struct storage_inode *moving; /* of storagefs_moved(), under its mutex */
	char *moved_path;             /* the same: the path that it gets; then the one it had */
	bool moves;                   /* the same: it gets one */
	struct storage_inode *next;   /* queue of files whose use ends */
};

extern const struct inode_ops storagefs_ops;
extern struct workqueue *storagefs_ends; /* const after start: tells nodes of ends of use */

struct storage_inode *storage_inode_of(const struct inode *inode);
struct storage_fs *storage_fs_of(const struct storage_inode *si);
/*
 * The path of @len bytes of @name in @dir; the caller's to kfree(). ERR_PTR: -ENOENT, @dir has been
 * removed; -ENOMEM.
 */
char *storagefs_path_in(struct storage_inode *dir, const char *name, size_t len);
/*
 * The inode of the file of @fs that @attr is of, referenced. @attr is what the node has answered to
 * a request that was made when kept_now() was @since. @len bytes of @path are its canonical path.
 * -ENOMEM; -ESTALE: the inode in use is of another type; -EPROTO: @attr is another node's; -EAGAIN:
 * the file has gone meanwhile, ask again; -EINTR.
 */
int storagefs_inode(struct storage_fs *fs, const struct file_attr *attr, uint64_t since,
		    const char *path, size_t len, struct inode **out) __must_check;
/*
 * The same without a path, for a file that no look-up goes on from: no directory. A walk that
 * comes to the file gives it one; until then a link cannot be read: -ESTALE.
 */
int storagefs_bare_inode(struct storage_fs *fs, const struct file_attr *attr, uint64_t since,
			 struct inode **out) __must_check;
/* The inode of @file that is in use, and does not end just now, referenced; NULL: none. */
struct storage_inode *storagefs_in_use(const struct file_id *file);
/* @si has no name any more, or has one again. */
void storagefs_gone(struct storage_inode *si, bool gone);
/*
 * The removal of a name of @si, of which the caller has a reference, begins. True: no program here
 * uses the file, so the node need not keep it; look-ups that come to it wait for the end.
 */
bool storagefs_leave_begin(struct storage_inode *si) __must_check;
/*
 * It is over. @unused: as the begin has answered; @may_be_gone: the last name has gone, of which
 * storagefs_gone() has been told, or it is in doubt.
 */
void storagefs_leave_end(struct storage_inode *si, bool unused, bool may_be_gone);
/*
 * Files of @node in use that have no name, or may have none: at most @max into @files, in no
 * order. Returns how many there are.
 */
size_t storagefs_nameless(uint32_t node, struct file_id *files, size_t max);
/*
 * The file of @fs at path @from is at @to now, and the files below it; with @exchange also the
 * other way round. @dirs: one of the two is a directory.
 */
void storagefs_moved(const struct storage_fs *fs, const char *from, const char *to, bool exchange,
		     bool dirs);
/*
 * The same rename may be done or not, and may still be: the paths of the files at @from and @to and
 * below are not known any more. Look-ups from there are -ESTALE until a walk has come to them.
 */
void storagefs_lost(const struct storage_fs *fs, const char *from, const char *to, bool dirs);

/* --- storagefs_kept.c --------------------------------------------------------------------- */

/* A walk by what is kept. All from @cur on changes. */
struct kept_walk {
	struct kept_ticket ticket; /* from before @path was read */
	struct storage_fs *fs;
	const struct path_lookup *how;
	const char *points; /* canonical paths at which it ends, each with its NUL */
	size_t points_len;
	struct file_id cur; /* the directory that it is at */
	char *path;         /* the same: its path, with room for FS_PATH_MAX bytes */
	const char *rest;
	char *text;            /* that has @rest, when a link has been followed; to be freed */
	unsigned int nr_links; /* followed */
	/* @cur has been looked up with all of its attributes, which may not be kept. */
	bool is_whole;
	struct file_attr attr;
};
/*
 * Walk on. 0: at the end; @attr is of w->cur. 1: the node has to walk the rest from w->path. Else
 * an error of the walk.
 */
int storagefs_walk_kept(struct kept_walk *w, struct file_attr *attr) __must_check;
/* At least @what of the attributes of @file, from here or from the nodes that have it. */
int storagefs_attr(const struct storage_fs *fs, const struct file_id *file, enum kept_what what,
		   struct file_attr *attr) __must_check;
/*
 * @attr is what the storage node has answered to the request of @t: make it what stat(2) answers,
 * and keep it if nothing of the file is on its way to the storage node.
 */
int storagefs_complete(const struct storage_fs *fs, const struct kept_ticket *t,
		       struct file_attr *attr) __must_check;

/* storagefs_change.c: operations. */
int storagefs_create(struct inode *dir, const struct new_inode *how, struct inode **out);
int storagefs_tmpfile(struct inode *dir, const struct new_inode *how, struct inode **out);
int storagefs_link(struct inode *dir, const char *name, size_t len, struct inode *inode);
int storagefs_remove(struct inode *dir, const char *name, size_t len, struct inode *victim);
int storagefs_rename(const struct rename_args *args);
int storagefs_setattr(struct inode *inode, const struct attr_change *ch);
/* The last reference of a file without a name has gone: tell its node, and free @si. */
void storagefs_end_use(struct storage_inode *si);

/* storagefs_handle.c: fs_type.handle() and by_handle(). */
int storagefs_handle(struct inode *inode, struct fs_handle *h);
int storagefs_by_handle(const struct fs_type *type, const struct fs_handle *h, struct inode **out);

/* storagefs_xattr.c: operations. */
ssize_t storagefs_getxattr(struct inode *inode, const char *name, void *buf, size_t size);
int storagefs_setxattr(struct inode *inode, const char *name, const void *value, size_t size,
		       int flags);
ssize_t storagefs_listxattr(struct inode *inode, char *buf, size_t size, bool trusted);
