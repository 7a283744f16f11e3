/* SPDX-License-Identifier: MIT */
/*
 * Inodes: one interface for every file system that a program sees.
 *
 * Each file that a path leads to has a struct inode: those of the storage nodes (vfs/storagefs.c),
 * of tmpfs, of /dev, /proc and /sys. Path walking (vfs/walk.c), mount points, permissions and the
 * system calls are written once, for all of them; a file system fills in a struct fs_type and
 * tables of struct inode_ops.
 *
 * Invariants:	inodes are counted: a walk, an open file and a working directory each hold a
 *		reference; release() is called when the last one has gone. As long as one is
 *		referenced, a file has one struct inode, so inodes are compared by address.
 * Context:	each operation may sleep. The caller has checked permissions, types and names (1 to
 *		255 bytes, no slash, not "." or ".."); the file system checks what depends on the
 *		contents of a directory, under its own lock.
 * Failure:	an operation that is missing answers the errno beside it in struct inode_ops. A
 *		read-only file system needs no checks of its own: the generic code answers -EROFS
 *		for it (mount_writable()).
 * See:		docs/design/vfs.md
 */
#pragma once

#include <fs/access.h>
#include <fs/stat.h>
#include <lib/atomic.h>
#include <lib/compiler.h>
#include <processor/client/file_attr.h>

struct dir_sink;
struct file;
struct inode;
struct inode_leases;
struct mount;
struct path;
struct user_ns;

#define FS_HANDLE_MAX 32u

struct fs_handle {
	uint32_t type; /* of the bytes: of a file system's own choice, as on Linux */
	uint32_t len;
	uint8_t bytes[FS_HANDLE_MAX];
};

struct fs_type {             /* one file system */
	const char *name;    /* as /proc/mounts says */
	const char *source;  /* the same; NULL: the name */
	const char *at;      /* canonical path of its first mount point */
	const char *options; /* for /proc/mounts, behind rw or ro */
	uint64_t magic;      /* statfs */
	int create_error;    /* of making a file where inode_ops.create is NULL: -EROFS if 0 */
	bool read_only;
	bool noexec;  /* programs on it cannot be executed: EACCES */
	bool nodev;   /* its first mount is nosuid and nodev */
	bool made_up; /* its files keep nothing that could be synchronised: EINVAL */
	/* Files and directories can be immutable, and the like: file_attr.attrs. */
	bool keeps_flags;
	/*
	 * The files of the covered directory stay visible, each mounted on its own name: the
	 * launcher packs programs and volumes under whatever path they have on its side.
	 */
	bool show_covered;
	/* The root directory, referenced; asked for once per vNode. */
	int (*root)(const struct fs_type *type, struct inode **out);
	uint32_t dev; /* st_dev, set by fs_register() */
	/*
	 * May be NULL: then nothing is limited. Fills what it knows; type, bsize, namelen are set.
	 */
	int (*statfs)(struct inode *inode, struct fs_info *st);
	/* Until its disk has all changes; killable. NULL: it keeps nothing on a disk. */
	int (*sync)(const struct fs_type *type);
	/* It is in the cluster's configuration: without its mount point no program starts. */
	bool required;
	/* Not where everybody may write to the directory, as to /tmp, and the disk keeps it. */
	bool makeshift;

	/*
	 * mount(2) makes another file system of this kind, with options @data (checked here), for
	 * drop() when its last mount has gone. NULL: every mount shows this one. -EINVAL, -ENOMEM.
	 */
	int (*make)(const char *data, struct fs_type **out);
	void (*drop)(struct fs_type *type);
	/* With @make: do the calling task's mounts show this one all the same? NULL: no. */
	bool (*is_shared)(void);
	/* MS_REMOUNT with @data; nothing has changed after an error. NULL: it has no options. */
	int (*reconfigure)(struct fs_type *type, const char *data);
	/*
	 * Names of files that programs keep (name_to_handle_at()): that of @inode, and the inode
	 * that bears one, referenced. @h is as a program gave it: -ESTALE for what is not, or no
	 * longer, a name of a file. NULL: its files have none.
	 */
	int (*handle)(struct inode *inode, struct fs_handle *h);
	int (*by_handle)(const struct fs_type *type, const struct fs_handle *h, struct inode **out);
	/* Options that it shows behind those of the mount, each with a comma in front. */
	void (*show)(const struct fs_type *type, char *buf, size_t size);
	/* Users may mount it who have CAP_SYS_ADMIN in a namespace of their own ... */
	bool for_users;
	/* ... which owns their namespace of this kind (enum ns_kind), if there is one. */
	uint8_t made_of;
	/* It shows the system itself: only where one is mounted that can be seen in full. */
	bool reveals;
	struct user_ns *owner; /* const, counted: of its maker; NULL: the first one */
	bool ro_now;           /* atomic: mounted read-only for now */
	uint32_t nr_mounts;    /* atomic */
	uint32_t nr_writers;   /* atomic: files open for writing */
};

/*
 * From an INITCALL(fs, ...), before any program starts. File systems are mounted in the order
 * of the lengths of their mount points' paths, the root ("/") first; one whose mount point has no
 * directory to be in is left out. -ENOMEM.
 */
int fs_register(struct fs_type *type) __must_check;
/* A number for st_dev that no other file system has. */
uint32_t fs_new_dev(void);
/* sync() of all of them: the first error. */
int fs_sync_all(void) __must_check;

struct new_inode {
	const char *name;
	size_t len;
	uint32_t mode; /* type and permission bits, umask applied */
	/* The bits that the umask took, which it does not where a default list is inherited. */
	uint32_t masked;
	uint32_t uid, gid;
	uint32_t rdev;
	bool nameless;      /* tmpfile(): it never gets a name (O_EXCL) */
	const char *target; /* of a symbolic link */
	size_t target_len;
	/* NULL, or out: its attributes, if the file system knows them by now, else untouched. */
	struct file_attr *made;
};

enum attr_valid {
	ATTR_MODE = 1 << 0, /* permission bits only */
	ATTR_UID = 1 << 1,
	ATTR_GID = 1 << 2,
	ATTR_SIZE = 1 << 3,
	ATTR_ATIME = 1 << 4,
	ATTR_MTIME = 1 << 5,
	/* Beside these two: the time that is given is that of now. */
	ATTR_ATIME_NOW = 1 << 6,
	ATTR_MTIME_NOW = 1 << 7,
	ATTR_FLAGS = 1 << 8, /* alone, or with the next one; fs_type.keeps_flags */
	/*
	 * The caller has the capability to change flags that are immutable and append only; without
	 * it the file system compares them with what it has: -EPERM.
	 */
	ATTR_GUARDED = 1 << 9,
};

struct attr_change {
	uint32_t valid; /* enum attr_valid; ctime changes with any of them */
	uint32_t mode, uid, gid;
	uint64_t size;
	struct fs_time atime, mtime;
	uint32_t flags; /* file_attr.attrs */
};

struct rename_args {
	struct inode *from_dir;
	const char *from;
	size_t from_len;
	struct inode *source; /* what the caller has found and checked there */
	struct inode *to_dir;
	const char *to;
	size_t to_len;
	struct inode *target; /* the same; NULL: nothing */
	bool exchange;        /* RENAME_EXCHANGE; else @target is replaced */
};

/* --- the rest of a path at once ------------------------------------------------------ */

struct path_lookup {
	const struct fs_cred *cred; /* search permission is checked on the way */
	const char *rest;           /* names, links, "." and ".." below the directory */
	bool nofollow;              /* a link in the last component is the result itself */
	bool must_be_dir;
	/* Of the attributes only what kind of file it is, and who may do what, is needed. */
	bool rights;
	/*
	 * The program's root is not that of the vNode: absolute links, and ".." out of the file
	 * system, end the look-up even if this file system is mounted at "/".
	 */
	bool below;
	/* That root, if it is in this mount and not its root: the look-up ends there. */
	struct inode *stop;
	/* The root of the mount, if that is not the root of its file system: the same. */
	struct inode *bound;
	/* Canonical paths in this file system, each with its NUL, at which the look-up ends. */
	const char *mount_points;
	size_t mount_points_len;
};

enum path_turn { /* where a look-up without a file goes on */
	TURN_MOUNT_POINT,
	TURN_UP,    /* in the directory that has this file system's mount point */
	TURN_ROOT,  /* at "/" */
	TURN_STOP,  /* at path_lookup.stop */
	TURN_BOUND, /* at path_lookup.bound */
};

struct path_found {
	struct inode *inode;   /* referenced; NULL: the look-up came out of the file system */
	struct file_attr attr; /* of the inode */
	enum path_turn turn;   /* without an inode */
	/* Canonical path, in this file system, of inode or mount point; the caller's to kfree(). */
	char *text;
	char *rest;            /* what is left, or NULL; the caller's to kfree() */
	unsigned int nr_links; /* followed on the way, if there is no inode */
};

/* Operations of a kind of file; NULL: fs_type.create_error, or the errno named. */
struct inode_ops {
	const char *name;
	/*
	 * st_mode, ino, size ...; file.node stays 0, fsid and blksize are filled in by the caller.
	 */
	int (*getattr)(struct inode *inode, struct file_attr *attr); /* required */
	/* Optional: of the attributes what kind of file it is, and who may do what. */
	int (*getrights)(struct inode *inode, struct file_attr *attr);
	void (*release)(struct inode *inode); /* required */
	/*
	 * Make @f, which has inode, flags and attr, usable: set f->ops, f->private, f->object. Not
	 * directories.
	 */
	int (*open)(struct inode *inode, struct file *f); /* -ENXIO */
	int (*setattr)(struct inode *inode,
		       const struct attr_change *ch); /* fs_type.create_error */

	/*
	 * Extended attributes, by whole name; the caller has checked permissions. Missing: there
	 * are none. They answer sizes; @size 0 asks for one. -ENODATA, -ERANGE. A list has those of
	 * "trusted." only if @trusted. Set: @flags XATTR_*; @value NULL removes. -EEXIST,
	 * -ENODATA, -ENOSPC.
	 */
	ssize_t (*getxattr)(struct inode *inode, const char *name, void *buf, size_t size);
	int (*setxattr)(struct inode *inode, const char *name, const void *value, size_t size,
			int flags);
	ssize_t (*listxattr)(struct inode *inode, char *buf, size_t size, bool trusted);

	/* Optional: does it belong to the caller, so that its mode forbids nothing? */
	bool (*is_callers)(const struct inode *inode);

	/* Symbolic links. The target's length, cut at @size and not terminated. */
	ssize_t (*readlink)(struct inode *link, char *buf, size_t size); /* -EINVAL */
	/*
	 * Magic links, which lead to a file and not to a name (/proc/self/fd/1, /proc/self/cwd):
	 * fills in @to->inode (referenced) and @to->text. NULL, or -EINVAL: the target's text is
	 * walked.
	 */
	int (*magic_link)(struct inode *link, struct path *to);

	/* Directories. -ENOENT; *out is referenced. */
	int (*lookup)(struct inode *dir, const char *name, size_t len, struct inode **out);
	/*
	 * Optional, for file systems where each question costs a message: look up all of
	 * @how->rest at once, as far as the next mount point. The walk then asks no single names
	 * of this file system.
	 */
	int (*lookup_path)(struct inode *dir, const struct path_lookup *how,
			   struct path_found *found);
	/*
	 * Where ".." leads, referenced; never asked of a file system's root, nor beside
	 * lookup_path().
	 */
	int (*parent)(struct inode *dir, struct inode **out);
	/*
	 * dir_emit() entries from *@pos on until the sink is full or there are no more. "." and
	 * ".." take 0 and 1 and are the caller's, unless @lists_dots. -errno only if nothing was
	 * emitted.
	 */
	int (*readdir)(struct inode *dir, uint64_t *pos, struct dir_sink *sink);
	bool lists_dots;
	/*
	 * -EEXIST, -ENOSPC; -ENOENT in a removed directory. *out may be NULL, else it is
	 * referenced.
	 */
	int (*create)(struct inode *dir, const struct new_inode *how, struct inode **out);
	/* A file without a name (O_TMPFILE). */
	int (*tmpfile)(struct inode *dir, const struct new_inode *how,
		       struct inode **out); /* -EOPNOTSUPP */
	int (*link)(struct inode *dir, const char *name, size_t len,
		    struct inode *inode); /* -EPERM */
	/*
	 * unlink, or rmdir when @victim is a directory. -EAGAIN when the name is not @victim's any
	 * more: the caller has checked permissions on that one and looks again. -ENOTEMPTY.
	 */
	int (*remove)(struct inode *dir, const char *name, size_t len, struct inode *victim);
	/* -EAGAIN as above; -EINVAL into itself, -ENOTEMPTY, -ENOENT in a removed directory. */
	/* A directory: until the disk has its names. NULL: there is nothing to be done. */
	int (*sync_dir)(struct inode *dir);
	int (*rename)(const struct rename_args *args);
	/*
	 * The path below the file system's root ("" for that itself, else "/a/b") as it is now:
	 * -ENOENT when it has been removed, -EINVAL when the path of the last walk is as good.
	 * NULL: that one too, but a file without links has been removed.
	 */
	int (*text)(struct inode *inode, char *buf, size_t size);
};

struct inode;
struct inode_watch {
	void (*put)(struct inode *inode); /* does the work of inode_put() */
};

struct inode {
	const struct inode_ops *ops; /* const */
	const struct fs_type *type;  /* const */
	refcount_t refs;
	uint32_t mode;                   /* const: type bits only */
	uint32_t mount_points;           /* the mount table's lock: names with a mount in it */
	const struct inode_watch *watch; /* atomic: somebody watches it (notify.h); or NULL */
	/* Of a regular file: open files that may write, and others. Atomic. */
	uint32_t nr_writers, nr_readers;
	struct inode_leases *leases; /* filelease.c's lock; or NULL, which is read without it */
};

static inline void inode_init(struct inode *inode, const struct fs_type *type,
			      const struct inode_ops *ops, uint32_t mode)
{
	inode->ops = ops;
	inode->type = type;
	inode->mode = mode & S_IFMT;
	inode->mount_points = 0;
	inode->watch = NULL;
	inode->nr_writers = inode->nr_readers = 0;
	inode->leases = NULL;
	refcount_set(&inode->refs, 1);
}

static inline void inode_get(struct inode *inode)
{
	refcount_inc(&inode->refs);
}

static inline void inode_put(struct inode *inode)
{
	const struct inode_watch *watch = inode ? READ_ONCE(inode->watch) : NULL;

	if (unlikely(watch))
		watch->put(inode);
	else if (inode && refcount_dec_and_test(&inode->refs))
		inode->ops->release(inode);
}

static inline bool inode_is_dir(const struct inode *inode)
{
	return inode->mode == S_IFDIR;
}

/* getattr, with what is the same for every file system filled in. */
int inode_getattr(struct inode *inode, struct file_attr *attr) __must_check;
/* At least what kind of file it is, and who may do what: inode_ops.getrights. */
int inode_getrights(struct inode *inode, struct file_attr *attr) __must_check;
/*
 * -EROFS for an inode of a read-only file system, or behind a read-only mount; @mt is NULL for what
 * is not mounted.
 */
int mount_writable(const struct mount *mt, const struct inode *inode) __must_check;
#define FLAGS_GUARDED (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)

/* Neither its contents, but perhaps behind their end, nor its name may change. */
static inline bool attr_is_fixed(const struct file_attr *attr)
{
	return attr->attrs & FLAGS_GUARDED;
}
/*
 * May @cred use @inode, which is behind mount @mt or NULL, and whose attributes are @attr, as
 * @access (bits R 4, W 2, X 1) says? In Linux's order: -EROFS for what would be written on a
 * read-only file system, then -EACCES. May sleep for an access list: errors of its file system.
 */
int inode_permission(const struct mount *mt, struct inode *inode, const struct fs_cred *cred,
		     const struct file_attr *attr, uint32_t access) __must_check;

/*
 * One entry for readdir; @cookie is where to go on behind it. False: the buffer is full, this
 * entry was not taken. @type is DT_*.
 */
bool dir_emit(struct dir_sink *sink, const char *name, size_t len, uint64_t ino, uint8_t type,
	      uint64_t cookie);
