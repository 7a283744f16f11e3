/* SPDX-License-Identifier: MIT */
/*
 * Files whose contents are made when they are read: the tree that /proc and /sys are built from.
 *
 * A struct pseudo_node describes one name. Directories list their nodes in constant tables, and
 * may have names that come and go (processes, descriptors, CPUs) by struct pseudo_dynamic. A
 * subject says what a file is about: a directory hands it down, a dynamic name completes it.
 *
 * Flow:	a read at offset 0 makes the text and keeps it with the open file, so that parts
 *		which are read one after the other fit together.
 * Context:	show() and its kin run in the calling thread, with no lock but the open file's
 *		(RANK_PSEUDO_FILE, outside of every other).
 * Failure:	a subject holds no reference: if its process has gone when the file is used, the
 *		answer is ESRCH.
 */
#pragma once

#include <processor/vfs/inode.h>

#include "text_private.h"

struct file;
struct file_ops;
struct path;
struct pid_ns;

struct pseudo_subject {
	/* Whose numbers the tree shows: counted by its root; NULL: the vNode's. */
	struct pid_ns *pid_ns;
	uint32_t pid;      /* in the vNode; 0: not about a process */
	uint32_t tid;      /* the same; 0: about the process as a whole */
	uint64_t start_ns; /* of the process: a pid may be used again */
	uint32_t nr;       /* descriptor, CPU, cache index ... */
};

struct pseudo_node;

#define PSEUDO_NAME_MAX 16 /* of dynamic names: numbers, and letters with numbers */

struct pseudo_dynamic {
	const struct pseudo_node *node; /* what all of them are; its name is not used */
	/* Complete @s, a copy of the directory's, for @name. -ENOENT, -ESRCH */
	int (*find)(struct pseudo_subject *s, const char *name);
	/*
	 * The first one at or behind *@nr (0 at the start) into @name, and where the one behind it
	 * is looked for into *@nr, larger than before. -ENOENT: no more; -ESRCH
	 */
	int (*next)(const struct pseudo_subject *s, uint64_t *nr, char name[PSEUDO_NAME_MAX]);
};

struct pseudo_node {
	const char *name;
	uint32_t mode; /* type and permissions */
	bool traced;   /* only for its owner and root, who could trace the process; else EACCES */
	/* Regular files; NULL: -EINVAL. */
	int (*show)(struct text *t, const struct pseudo_subject *s);
	/* Instead of a text: what open files of it do; see pseudo_subject_of_file(). */
	const struct file_ops *ops;
	/* Instead of both: sets operations and what they need. */
	int (*opened)(struct file *f);
	/* Takes all of @buf, NUL-terminated, or an error. */
	int (*store)(const struct pseudo_subject *s, const char *buf, size_t len);
	/* Links: the target. */
	int (*link)(struct text *t, const struct pseudo_subject *s);
	int (*magic_link)(const struct pseudo_subject *s, struct path *to); /* see inode_ops */
	/* Directories. */
	const struct pseudo_node *children; /* ends with a NULL name */
	const struct pseudo_dynamic *dynamic;
	/* Does a static child exist for this subject? NULL: always. */
	bool (*exists)(const struct pseudo_subject *s);
	/* Devices: open, and the number. */
	int (*open)(struct inode *inode, struct file *f);
	uint32_t rdev;
};

#define SHOW(name) int name(struct text *t, const struct pseudo_subject *s)

#define PSEUDO_DIR(n, kids)      { .name = (n), .mode = S_IFDIR | 0555, .children = (kids) }
#define PSEUDO_FILE(n, perm, fn) { .name = (n), .mode = S_IFREG | (perm), .show = (fn) }
#define PSEUDO_LINK(n, fn)       { .name = (n), .mode = S_IFLNK | 0777, .link = (fn) }
#define PSEUDO_WRITABLE(n, perm, fn, w) \
	{ .name = (n), .mode = S_IFREG | (perm), .show = (fn), .store = (w) }

/* For fs_type.root: a file system with @node as its root directory, and the numbers of @pid_ns. */
int pseudo_root(const struct fs_type *type, const struct pseudo_node *node, struct pid_ns *pid_ns,
		struct inode **out) __must_check;

/* The subject of directory @inode directly below a root, if that is a process. -EBADF */
int pseudo_subject_of(const struct inode *inode, struct pseudo_subject *s) __must_check;

/* The subject of an open file that has operations of its own. */
const struct pseudo_subject *pseudo_subject_of_file(const struct file *f);

/*
 * The owner of the files about @s, for their attributes.
 */
struct pseudo_owner {
	uint32_t uid, gid;   /* root's, when the process is not dumpable */
	uint32_t euid, egid; /* the process's, of directories that all may search and list */
	int64_t time_s;      /* what atime, mtime and ctime say */
};
/* proc_ref.c: -ESRCH when the process is gone. */
int pseudo_owner(const struct pseudo_subject *s, struct pseudo_owner *out) __must_check;
/* proc_ref.c: is it the calling process, or a thread of it? */
bool pseudo_is_own(const struct pseudo_subject *s);
/* May the calling process look into that process? -EACCES, -ESRCH. */
int pseudo_may_trace(const struct pseudo_subject *s) __must_check;
