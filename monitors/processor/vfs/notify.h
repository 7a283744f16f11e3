/* SPDX-License-Identifier: MIT */
/*
 * Changes of files, told to those who watch them: inotify, and F_NOTIFY of directories.
 *
 * Flow:	an operation on a file that has worked calls one of the functions below. Nothing is
 *		done while nothing is watched. Else the watches of the inode get the event, and
 *		those of the directory that the file's path names get it with the file's name; it
 *		is put into the queues of their instances, from which read() takes it.
 * Context:	no spinlock held; they never sleep.
 * Limits:	the operations of this processor's programs alone. A file is known to be in a
 *		directory by the path of its walk or its opening: of a file that was open when it
 *		was moved, its old directory is told.
 * Locking:	one lock (RANK_SPIN_MONITOR) guards watches and queues.
 */
#pragma once

#include <abi/inotify.h>
#include <lib/compiler.h>

#include "file.h"
#include "inode.h"
#include "path.h"

/* A watched inode has this as its inode.watch. */
extern const struct inode_watch notify_watch;
extern uint32_t notify_nr_watches;     /* atomic: of both kinds */
extern uint32_t notify_nr_dir_watches; /* atomic: F_NOTIFY */

static inline bool notify_is_on(void)
{
	return unlikely(READ_ONCE(notify_nr_watches));
}

/* The slow parts of what follows. */
void notify_inode_at(struct inode *inode, const char *text, uint32_t mask);
void notify_entry_slow(struct inode *dir, const char *name, struct inode *inode, bool is_dir,
		       uint32_t mask);
void notify_removed_slow(struct inode *dir, const char *name, const struct path *victim);
void notify_renamed_slow(const struct rename_args *how, const char *from_text, const char *to_dir,
			 bool target_was_last);

/* @inode, which was found at canonical path @text (or NULL): IN_ACCESS, MODIFY, ATTRIB ... */
static inline void notify_inode(struct inode *inode, const char *text, uint32_t mask)
{
	if (notify_is_on() && inode)
		notify_inode_at(inode, text, mask);
}
/* The same of an open file. */
static inline void notify_file(struct file *f, uint32_t mask)
{
	if (notify_is_on() && f->inode && !(f->flags & O_PATH))
		notify_inode_at(f->inode, f->path, mask);
}
/* @name is new in @dir. */
static inline void notify_created(struct inode *dir, const char *name, bool is_dir)
{
	if (notify_is_on())
		notify_entry_slow(dir, name, NULL, is_dir, IN_CREATE);
}
/* @name of @dir was @victim, whose attributes are those of before. */
static inline void notify_removed(struct inode *dir, const char *name, const struct path *victim)
{
	if (notify_is_on())
		notify_removed_slow(dir, name, victim);
}

/* --- for inotify.c --------------------------------------------------------------------- */

struct notify_event {
	struct list_head link;
	int32_t wd;
	uint32_t mask, cookie;
	uint32_t name_len; /* as read() tells it: 0, or with zeroes to a multiple of 16 */
	char name[];
};

struct notify_group; /* an inotify instance */

struct notify_group *notify_group_create(uint32_t uid); /* ERR_PTR(-EMFILE, -ENOMEM) */
void notify_group_free(struct notify_group *g);
/* The watch's number. -ENOSPC, -EEXIST, -ENOMEM. */
int notify_add(struct notify_group *g, const struct path *at, uint32_t mask) __must_check;
int notify_remove(struct notify_group *g, int wd) __must_check; /* -EINVAL */
/*
 * The oldest event, the caller's to kmem_free(); NULL: there is none. ERR_PTR(-EINVAL): it does not
 * fit into @space bytes, and stays.
 */
struct notify_event *notify_take(struct notify_group *g, uint64_t space);
/* Put back what could not be read. */
void notify_untake(struct notify_group *g, struct notify_event *e);
uint64_t notify_bytes(struct notify_group *g); /* for FIONREAD */
struct waitqueue *notify_wait(struct notify_group *g);

/* --- F_NOTIFY (dnotify.c) -------------------------------------------------------------- */

/* Beside IN_*, in a watch of an open directory: a new name in the same directory. */
#define NOTIFY_RENAME    0x1000u
#define NOTIFY_MULTISHOT 0x10000u /* it stays */
#define NOTIFY_EVENTS    (IN_ALL_EVENTS | NOTIFY_RENAME)

/*
 * fcntl(@fd, F_NOTIFY, @arg) of @f, which the caller holds: DN_*. -ENOTDIR, -EINVAL, -ENOMEM.
 */
int dnotify_set(struct file *f, int fd, uint32_t arg) __must_check;
/*
 * Directory @f, open as @fd in @table and now found at @text (NULL: it has been removed), is
 * watched for @mask, and for what it was watched before. -ENOMEM
 */
int notify_dir_add(struct file *f, const struct files *table, int fd, const char *text,
		   uint32_t mask) __must_check;
void notify_dir_end_slow(struct file *f, const struct files *table);
/* A descriptor of @f in @table has been closed, or its watch is to end. */
static inline void notify_dir_end(struct file *f, const struct files *table)
{
	if (unlikely(READ_ONCE(notify_nr_dir_watches)) && f->inode)
		notify_dir_end_slow(f, table);
}

/* /proc/sys/fs/inotify */
extern uint32_t notify_max_events, notify_max_groups, notify_max_watches; /* atomic */
/* /proc/sys/fs/dir-notify-enable: F_NOTIFY works. */
extern uint32_t dnotify_enabled; /* atomic */
