/* SPDX-License-Identifier: MIT */
/*
 * Paths: where a walk comes to, working directories, mounts.
 *
 * Flow:	a walk goes name by name, from mount to mount. Where the file system has
 *		lookup_path() (the files of storage nodes) the walk hands it all that is left of
 *		the path at once, with the mount points at which the file system must hand the rest
 *		back.
 * Limits:	40 links, components of 255 bytes, paths below 4096 bytes.
 */
#pragma once

#include <kernel/mutex.h>
#include <lib/atomic.h>
#include <lib/list.h>

#include "inode.h"

struct mount;
struct mounts;
struct ns;
struct user_ns;

/* A place in the tree. An empty one is all zeros. */
struct path {
	struct inode *inode;   /* referenced */
	struct mount *mnt;     /* referenced: behind which it is; NULL: it is not mounted */
	char *text;            /* canonical, own */
	struct file_attr attr; /* as it was when the walk came here */
};

void path_put(struct path *p);
int path_copy(struct path *to, const struct path *from) __must_check; /* -ENOMEM */

enum walk_flags {
	WALK_NOFOLLOW = 1 << 0,  /* a link in the last component is the result itself */
	WALK_DIRECTORY = 1 << 1, /* -ENOTDIR unless it is one */
	WALK_EMPTY = 1 << 2,     /* AT_EMPTY_PATH: an empty path is the base itself */
	/*
	 * A last component that is missing is no error: the result is empty, but has parent and
	 * name.
	 */
	WALK_CREATE = 1 << 3,
	/* Of the attributes only what kind of file it is, and who may do what, is needed. */
	WALK_RIGHTS = 1 << 4,
};

struct walk_result {
	struct path at;
	/* WALK_CREATE, and path_walk_parent(): the directory, and the name in it. */
	struct path parent;
	char *name;       /* own */
	bool slash;       /* slashes follow the name */
	bool mount_point; /* something is mounted on that name, in some namespace */
};
void walk_result_put(struct walk_result *res);

/* Where a walk begins, and whose permissions count. */
struct walk_base {
	const struct fs_cred *cred;
	const struct mounts *mounts;
	const struct path *dir;  /* of relative paths; NULL: there are none */
	const struct path *root; /* "/" of the process, if it is not that of the mounts; or NULL */
};

/*
 * The text of a link, for the caller to kfree(). ERR_PTR(-ENOMEM); -EINVAL: it has none; -ENOENT:
 * an empty one; what the file system answers.
 */
char *inode_link_text(struct inode *link);

static inline bool only_slashes(const char *s)
{
	while (*s == '/')
		s++;
	return *s == '\0';
}

#define WALK_LINKS_MAX 40 /* symbolic links on the way: -ELOOP, as on Linux */

/*
 * Walk @text from @base, and check that the file may be used as @access (bits R 4, W 2, X 1) says.
 * @res is the caller's to walk_result_put() on success.
 */
int path_walk(const struct walk_base *base, const char *text, uint32_t flags, uint32_t access,
	      struct walk_result *res) __must_check;
/*
 * The same under restrictions @how, RESOLVE_* of openat2(). With RESOLVE_BENEATH or
 * RESOLVE_IN_ROOT the walk does not leave @base->dir; with the latter an absolute path needs that,
 * too. -ELOOP a link, -EXDEV another mount or a way out, -EAGAIN the tree has changed meanwhile.
 */
int path_resolve(const struct walk_base *base, uint32_t how, const char *text, uint32_t flags,
		 uint32_t access, struct walk_result *res) __must_check;
/*
 * Walk up to the last component, which is res->name; res->at is empty. -EEXIST, -EBUSY ... are the
 * caller's to tell: a name of "." or ".." or "/" is handed out as it is.
 */
int path_walk_parent(const struct walk_base *base, const char *text, struct walk_result *res)
	__must_check;
/*
 * The entry res->name of res->parent into res->at, not followed. With res->mount_point that may be
 * the root of another file system, which is not for res->parent to change. -ENOENT.
 */
int path_walk_last(const struct walk_base *base, struct walk_result *res) __must_check;

/*
 * mknod() for the calling process, of a path in kernel memory; @mode has the type, and the umask is
 * applied. *@out is referenced. -EEXIST, and what a walk answers.
 */
int path_make_node(const char *text, uint32_t mode, struct inode **out) __must_check;

/* unlink() for the calling process, of a path in kernel memory. */
int path_unlink(const char *text) __must_check;

/* Open a regular file to be executed: for reading, whether it may be read or not. ERR_PTR. */
struct file *path_open_exec(const struct path *at);
/* The file that was found at @at, as open(2) opens one that is there. ERR_PTR. */
struct file *path_open_found(const struct path *at, uint32_t flags);

/*
 * The path of a file that a storage node has, in its file system; the caller's to kfree().
 * ERR_PTR: -ENOENT, it has been removed; -ENOMEM.
 */
char *path_at_storage(const struct path *at);

/*
 * May @cred use @inode, whose attributes are @attr, as @access says? -EACCES; may sleep for an
 * access list: errors of its file system.
 */
int attr_access(const struct fs_cred *cred, struct inode *inode, const struct file_attr *attr,
		uint32_t access) __must_check;

/* --- mounts -------------------------------------------------------------------------- */

/*
 * The first namespace, in which every program starts, complete: the first call makes it. It lasts
 * as long as the monitor does. ERR_PTR: the storage node cannot be asked.
 */
struct mounts *mounts_get(void);
void mounts_hold(struct mounts *m);
void mounts_put(struct mounts *m);
/* The namespace that it is, referenced; and back, without a reference of its own. */
struct ns *mounts_ns(struct mounts *m);
struct mounts *mounts_of_ns(struct ns *ns);
/* One line: what of the configuration keeps them from being made; NULL: nothing. */
const char *mounts_why(void);
/*
 * Is anything mounted in it by mount(2), or has any of the first ones gone?  Else the files of a
 * storage node are where that node has them.
 */
bool mounts_changed(const struct mounts *m);
/* The directory "/", without a text. */
void mounts_root_path(const struct mounts *m, struct path *out);

void mount_get(struct mount *mt);
void mount_put(struct mount *mt); /* NULL is allowed */
/* A file behind it is open for writing from here on: -EROFS; then it does not become read-only. */
int mount_write_begin(struct mount *mt) __must_check;
void mount_write_end(struct mount *mt);
/* Things that are forbidden with files behind it; NULL: nothing is mounted. */
bool mount_noexec(const struct mount *mt, const struct inode *inode);
bool mount_nodev(const struct mount *mt);

#define MOUNT_OPTIONS_MAX 512

struct mount_info {             /* one line of /proc/mounts; large */
	uint32_t id, parent_id; /* the root's parent is 1, which has no line */
	const char *type;
	char source[FS_PATH_MAX];
	char at[FS_PATH_MAX];
	char root[FS_PATH_MAX];          /* in its file system */
	char options[MOUNT_OPTIONS_MAX]; /* of the mount, with rw or ro in front */
	char super[MOUNT_OPTIONS_MAX];   /* those of the file system, the same way */
	uint64_t dev;                    /* st_dev */
};
/* The one with the smallest number above @id; false: there are no more. */
bool mounts_info(const struct mounts *m, uint32_t id, struct mount_info *info);

/* --- what tasks share by CLONE_FS ---------------------------------------------------- */

/*
 * Root and working directory, umask and mounts.
 *
 * Locking:	lock (RANK_PROCESS_FS) guards root, cwd and umask.
 */
struct fs_state {
	refcount_t refs;
	uint32_t nr_tasks;     /* atomic: those that share it; others only look */
	struct mounts *mounts; /* const */
	struct list_head user; /* fs_state.c's lock: of those of @mounts */
	struct fs_state *next; /* pivot_change: of those that it has seen */
	bool is_followed;      /* the same: it is one of those */
	struct mutex lock;
	struct path root __guarded_by(&lock); /* empty: that of the mounts */
	struct path cwd __guarded_by(&lock);
	uint32_t umask __guarded_by(&lock);
};

/* At "/"; ERR_PTR. */
struct fs_state *fs_state_create(uint32_t umask);
/* Another one with the umask of @fs: at the root of the namespace @m. ERR_PTR(-ENOMEM) */
struct fs_state *fs_state_enter(struct fs_state *fs, struct mounts *m);
/* fork without CLONE_FS; ERR_PTR(-ENOMEM). */
struct fs_state *fs_state_copy(struct fs_state *fs);
/* The same with mounts of its own (CLONE_NEWNS), in a namespace that @owner owns. */
struct fs_state *fs_state_copy_mounts(struct fs_state *fs, struct user_ns *owner);
static inline void fs_state_get(struct fs_state *fs)
{
	refcount_inc(&fs->refs);
}
void fs_state_put(struct fs_state *fs);
/* One more task has @fs, with a reference (CLONE_FS); one that had it has it no more. */
void fs_state_join(struct fs_state *fs);
void fs_state_leave(struct fs_state *fs);
/* Is there another one? */
bool fs_state_shared(const struct fs_state *fs);
/* A directory that @cred may search; -ENOENT, -ENOTDIR, -EACCES ... */
int fs_state_chdir(struct fs_state *fs, const struct fs_cred *cred, const char *text) __must_check;
/* A copy of the working directory. -ENOMEM */
int fs_state_cwd(struct fs_state *fs, struct path *out) __must_check;
uint32_t fs_state_umask(struct fs_state *fs);
uint32_t fs_state_set_umask(struct fs_state *fs, uint32_t umask); /* the old one */
/* A copy of the root; empty: it is that of the mounts. -ENOMEM */
int fs_state_root(struct fs_state *fs, struct path *out) __must_check;
/* Take over @to, which is empty afterwards. */
void fs_state_set_cwd(struct fs_state *fs, struct path *to);
void fs_state_set_root(struct fs_state *fs, struct path *to);
/* Is the root that of the mounts, so that a path means the same everywhere? */
static inline bool fs_state_at_top(const struct fs_state *fs)
{
	return !READ_ONCE(fs->root.inode);
}
/* path_walk() from the working directory. */
int fs_state_walk(struct fs_state *fs, const struct fs_cred *cred, const char *text, uint32_t flags,
		  uint32_t access, struct walk_result *res) __must_check;
/* The same from @dir. */
int fs_state_walk_from(struct fs_state *fs, const struct fs_cred *cred, const struct path *dir,
		       const char *text, uint32_t flags, uint32_t access, struct walk_result *res)
	__must_check;

/*
 * The path of a directory or file as it is now, into FS_PATH_MAX bytes: -ENOENT when it has
 * been removed, in which case @buf has the last path that it had.
 */
int path_text(const struct path *p, char *buf) __must_check;
/*
 * The same as a process of @fs sees it: without the path of its root. *@outside: the place is not
 * below that root, and @buf has the whole path. -ENOMEM
 */
int path_text_for(struct fs_state *fs, const struct path *p, char *buf, bool *outside) __must_check;
/* Take the path of @fs's root off the front of @text, in place. */
int path_text_strip(struct fs_state *fs, char *text, bool *outside) __must_check;
