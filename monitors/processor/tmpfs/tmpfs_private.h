/* SPDX-License-Identifier: MIT */
/*
 * tmpfs: files in memory, between the files of this folder.
 *
 * Inodes and directory entries are in the processor's memory, contents in shared objects, whose
 * pages are on the memory nodes and in the cache.
 *
 * Locking:	fs->lock (RANK_FS) guards entries, link counts, parents and the numbers of the file
 *		system. inode->data_lock (RANK_FILE_DATA) serialises changes of contents and
 *		size; reading takes none. inode->attr_lock (RANK_SPIN_FS) guards mode, owner and
 *		times.
 * Invariants:	an entry holds a reference of its inode, a directory one of its parent (also once
 *		it has been removed, for ".."), an open file one of its inode.
 * Limits:	nr_inodes counts inodes and entries; size counts pages of contents, and a page for
 *		a link target that is long. ENOSPC.
 */
#pragma once

#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <lib/list.h>
#include <lib/rbtree.h>
#include <lib/siphash.h>
#include <processor/vfs/inode.h>

struct object;
struct pipe;
struct tmpfs_inode;

struct tmpfs_entry {
	struct hlist_node hash;
	struct rb_node order; /* of dir->entries */
	uint64_t pos;         /* in the directory, for ever: what getdents goes on from */
	struct tmpfs_inode *dir;
	struct tmpfs_inode *child;
	size_t len;
	char name[];
};

struct tmpfs {
	struct fs_type type;
	uint64_t max_pages;  /* atomic: UINT64_MAX no limit of its own */
	uint64_t max_inodes; /* atomic */
	uint64_t pages;      /* atomic */
	struct mutex lock;
	uint64_t inodes __guarded_by(&lock);
	uint64_t next_ino __guarded_by(&lock);
	struct hlist_head *table __guarded_by(&lock); /* all entries, by directory and name */
	size_t buckets __guarded_by(&lock);           /* a power of two */
	size_t entries __guarded_by(&lock);
	struct siphash_key key; /* const, random: programs choose names, and keep handles */
	struct rb_root by_ino __guarded_by(&lock); /* all inodes */

	/* Of those that mount(2) makes: */
	struct tmpfs_inode *root;               /* const: referenced until drop() */
	bool dropped __guarded_by(&lock);       /* it goes with its last inode */
	uint32_t given __guarded_by(&lock);     /* options that mount(2) was given */
	uint32_t root_mode, root_uid, root_gid; /* const */
};

struct tmpfs_inode {
	struct inode inode;
	struct tmpfs *fs;
	uint64_t ino;          /* const */
	struct rb_node by_ino; /* fs->lock */
	struct spinlock attr_lock;
	uint32_t mode __guarded_by(&attr_lock);
	uint32_t uid __guarded_by(&attr_lock), gid __guarded_by(&attr_lock);
	struct fs_time atime __guarded_by(&attr_lock), mtime __guarded_by(&attr_lock);
	struct fs_time ctime __guarded_by(&attr_lock), btime;
	uint32_t attrs __guarded_by(&attr_lock); /* FILE_ATTRS */
	uint32_t nlink;                          /* fs->lock; read without it */
	bool linkable; /* fs->lock: O_TMPFILE, which may get its first name later */

	/* Regular files. */
	struct mutex data_lock;
	uint64_t size;         /* data_lock; read without it */
	struct object *object; /* set once under data_lock; NULL: all holes */
	uint64_t counted;      /* data_lock: pages that fs->pages has for it */
	/* F_SEAL_*: data_lock, and F_SEAL_EXEC fs->lock as well; read without them. */
	uint32_t seals;

	/* Directories: fs->lock. */
	struct tmpfs_inode *parent; /* NULL: the root */
	struct tmpfs_entry *self;   /* the entry that leads here; NULL: root, or removed */
	struct rb_root entries;     /* by pos */
	uint64_t next_pos;
	uint64_t nr_entries;

	struct list_head xattrs; /* fs->lock */
	bool acl; /* there is a list among them: fs->lock and attr_lock; read without them */

	char *target; /* const: links */
	size_t target_len;
	struct pipe *pipe; /* const: FIFOs */
	uint32_t rdev;     /* const: devices */
};

static inline struct tmpfs_inode *tmpfs_inode(struct inode *inode)
{
	return container_of(inode, struct tmpfs_inode, inode);
}

static inline struct tmpfs *tmpfs_of(const struct fs_type *type)
{
	return container_of(type, struct tmpfs, type);
}

/*
 * Make @fs usable, with type.name, type.at and the limits set; its root is made by type.root().
 * -ENOMEM.
 */
int tmpfs_setup(struct tmpfs *fs) __must_check;
/* Those of the configuration; and what is the same for all. */
void tmpfs_set_limits(struct tmpfs *fs);
void tmpfs_fill_type(struct fs_type *type);
/* fs_type.make() */
int tmpfs_make(const char *data, struct fs_type **out);
/* All entries below @root go; nobody can look anything up there any more. */
void tmpfs_empty(struct tmpfs_inode *root);
/* The end of one that was dropped. */
void tmpfs_free(struct tmpfs *fs);
/* Give back what tmpfs_setup() took; nothing of it is in use any more. */
void tmpfs_destroy(struct tmpfs *fs); /* for tests */
int tmpfs_root(const struct fs_type *type, struct inode **out);
/* A file without a name and without an entry. */
int tmpfs_new_inode(struct tmpfs *fs, const struct new_inode *how, struct tmpfs_inode **out)
	__must_check;

extern const struct inode_ops tmpfs_dir_ops, tmpfs_file_ops, tmpfs_link_ops, tmpfs_special_ops;

enum tmpfs_touch {
	TOUCH_ATIME = 1,
	TOUCH_MTIME = 2,
	TOUCH_CTIME = 4,
};
void tmpfs_touch(struct tmpfs_inode *ti, uint32_t what);
int tmpfs_getattr(struct inode *inode, struct file_attr *attr);
int tmpfs_setattr(struct inode *inode, const struct attr_change *ch);
/* The last reference of an inode is gone. */
void tmpfs_release(struct inode *inode);

/* Take @n more pages of the size limit, or give them back. -ENOSPC. */
int tmpfs_charge(struct tmpfs *fs, uint64_t n) __must_check;
void tmpfs_uncharge(struct tmpfs *fs, uint64_t n);

/* handle.c: fs_type.handle() and by_handle(); inodes by their numbers. */
int tmpfs_handle(struct inode *inode, struct fs_handle *h);
int tmpfs_by_handle(const struct fs_type *type, const struct fs_handle *h, struct inode **out);
void tmpfs_number_locked(struct tmpfs_inode *ti);   /* fs->lock is held */
void tmpfs_unnumber_locked(struct tmpfs_inode *ti); /* the same */

/* data.c */
int tmpfs_open(struct inode *inode, struct file *f);
int tmpfs_resize(struct tmpfs_inode *ti, uint64_t size) __must_check;
void tmpfs_release_data(struct tmpfs_inode *ti);
uint64_t tmpfs_data_pages(struct tmpfs_inode *ti);

/* seals.c: file_ops.seals */
long tmpfs_seals(struct file *f, bool add, uint32_t seals);
/* May it get this size? -EPERM */
int tmpfs_seals_resize_locked(struct tmpfs_inode *ti, uint64_t size) __must_hold(&ti->data_lock);
/* How much of *@len bytes at @pos may be written, which are some. -EPERM */
int tmpfs_seals_write_locked(struct tmpfs_inode *ti, uint64_t pos, uint64_t *len)
	__must_hold(&ti->data_lock);
/* May fallocate() make pages up to @end, or @punch holes? -EPERM */
int tmpfs_seals_fallocate_locked(struct tmpfs_inode *ti, bool punch, uint64_t end)
	__must_hold(&ti->data_lock);

/* xattr.c */
ssize_t tmpfs_getxattr(struct inode *inode, const char *name, void *buf, size_t size);
int tmpfs_setxattr(struct inode *inode, const char *name, const void *value, size_t size,
		   int flags);
ssize_t tmpfs_listxattr(struct inode *inode, char *buf, size_t size, bool trusted);
void tmpfs_free_xattrs(struct tmpfs_inode *ti);
/*
 * A new file in @dir as @how says; as tmpfs_new_inode(), with the lists that it inherits. -ENOSPC,
 * -ENOMEM.
 */
int tmpfs_new_in(struct tmpfs_inode *dir, const struct new_inode *how, struct tmpfs_inode **out)
	__must_check;
/* The access list, if there is one, follows a new mode; fs->lock is held. */
void tmpfs_acl_chmod_locked(struct tmpfs_inode *ti, uint32_t mode) __must_hold(&ti->fs->lock);
#define TMPFS_XATTR_OPS \
	.getxattr = tmpfs_getxattr, .setxattr = tmpfs_setxattr, .listxattr = tmpfs_listxattr
