/* SPDX-License-Identifier: MIT */
/*
 * The mount table, between the files of this folder.
 *
 * A mount is found by the directory that it is in, an inode and the mount of that inode, and by a
 * name there: not by a path. Several on one name lie on each other; the last one is seen. One with
 * an empty name lies over the root of its parent. A walk that is at that root already stays there,
 * as on Linux; one that enters the parent, or goes up from the process's root, comes to it.
 *
 * Locking:	mount_change (RANK_MONITOR) is held by whoever changes the table, across messages;
 *		mount_table_lock (RANK_SPIN_MONITOR) guards every field that changes, for walks.
 * Invariants:	the namespace holds a reference of each mount in it; paths and open files hold the
 *		others. Mounts below a mount go from the table before it, or with it, so one that
 *		is in the table need not hold its parent. But when a tree of a namespace that a user
 *		has made ends, or is taken out as a whole, its mounts stay in each other until the
 *		upper one is not used any more, which then holds their references: what lies under
 *		them must not show.
 */
#pragma once

#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <lib/list.h>
#include <processor/account/account.h>
#include <processor/ns/ns.h>
#include <processor/process/process.h>

#include "path.h"

/* Paths at which a look-up in one mount has to end, as those of struct path_lookup. */
struct mount_points {
	refcount_t refs;
	size_t len;
	char text[];
};

enum mount_flags {
	MOUNT_RDONLY = 1 << 0,
	MOUNT_NOSUID = 1 << 1,
	MOUNT_NODEV = 1 << 2,
	MOUNT_NOEXEC = 1 << 3,
	MOUNT_NOATIME = 1 << 4,
	MOUNT_NODIRATIME = 1 << 5,
	MOUNT_RELATIME = 1 << 6,
	MOUNT_USER_FLAGS = (1 << 7) - 1, /* those that mount(2) sets */
	MOUNT_TIMES = MOUNT_NOATIME | MOUNT_NODIRATIME | MOUNT_RELATIME,
	MOUNT_SUBTREE = 1 << 7,    /* its root is not that of its file system */
	MOUNT_ASKED = 1 << 8,      /* mount(2) has set its flags, and not the file system */
	MOUNT_UNBINDABLE = 1 << 9, /* no bind mount is made of it */
	/*
	 * It came from a namespace of more privileged users: what it covers stays covered.
	 */
	MOUNT_LOCKED = 1 << 10,
};

/* Where a mount is; all empty for the root of a namespace, but for @at. */
struct mount_spot {
	struct mount *parent; /* not referenced */
	struct inode *dir;    /* referenced */
	char *name, *at, *point;
};

struct mount {
	refcount_t refs;
	struct mounts *ns;       /* mount_table_lock; NULL: in no namespace (any more) */
	struct hlist_node hash;  /* the same, as are these two */
	struct list_head link;   /* of ns->list, the oldest first */
	struct list_head all;    /* of every namespace's */
	struct list_head beside; /* of parent->children */
	struct list_head children;
	struct fs_type *type; /* const */
	struct inode *root;   /* const, referenced: what is mounted */
	struct mount *parent; /* good as long as it has a namespace; NULL: the root */
	struct inode *dir;    /* the same, referenced: where the mount point is */
	char *name;           /* its name there; empty: over the root of the parent */
	char *at;             /* mount_table_lock: canonical path of the mount point */
	char *point;          /* the same path in the file system of @dir, without its mount */
	char *source;         /* const; NULL: what the type says */
	char *file_root;      /* const: the path of a root that is no directory, as it was */
	struct mount *shown;  /* const: a file of the covered directory is in this mount */
	struct mount_points *points; /* mount_table_lock; NULL: none */
	uint32_t flags;              /* atomic: enum mount_flags */
	uint32_t locked_flags;       /* mount_change: of MOUNT_USER_FLAGS, those that stay */
	uint32_t id;                 /* const: greater than those of older ones */
	uint32_t writers;            /* atomic: files open for writing */
	uint32_t nr_over;            /* mount_table_lock, read without it: those over its root */
	bool first;                  /* const: it, or what it is a copy of, was there at first */
	bool expired;                /* atomic: MNT_EXPIRE, and not used since */
	struct mount *twin;          /* mount_change: the copy, while copies are made */
	struct user_count *count;    /* mount_change; counted: whose it is; NULL: nobody's */
};

struct mounts { /* a namespace */
	struct ns ns;
	struct mount *root;     /* mount_table_lock; the first one is read without it */
	struct mount *first;    /* const once there, referenced to the end: the first root */
	uint64_t turns;         /* atomic: pivot_root() begun and ended; odd: one is on */
	struct list_head users; /* fs_state.c's lock: every fs_state in it */
	struct list_head list;  /* mount_table_lock: without the files of covered directories */
	size_t nr;              /* the same: in the list */
	uint64_t changes;       /* mount_table_lock, read without it: mounts that came and went */
	size_t nr_added;        /* mount_table_lock, read without it: mounts that are not first */
	bool first_gone;        /* the same: one of those that are has been taken out */
};

extern struct mutex mount_change;
extern struct mutex pivot_change; /* RANK_PROCESS: a whole pivot_root() */
extern bool mount_charge_node;    /* mount_change: what is made now belongs to no program */

/* The account for new things: the first mounts belong to nobody. */
static inline struct kmem_account *mount_payer(void)
{
	return mount_charge_node ? NULL : kmem_current();
}

#define MOUNT_MAX 100000u /* of one namespace, as Linux's default of fs.mount-max */

/* --- making and changing: under mount_change ----------------------------------------- */

struct mounts *mounts_alloc(struct user_ns *owner); /* empty; ERR_PTR(-ENOMEM, -ENOSPC) */
/* An empty one that could not be made, which nobody else knows. */
void mounts_drop(struct mounts *ns);
/*
 * A mount of @root of @type, whose reference it takes over on success. It is in no namespace and
 * has one reference. NULL: no memory.
 */
struct mount *mount_alloc(struct fs_type *type, struct inode *root, uint32_t flags);
/* Where it will be: entry @name of @dir. -ENOMEM, -ENAMETOOLONG, -ENOENT: @dir has been removed. */
int mount_place(struct mount *mt, const struct path *dir, const char *name) __must_check;
/*
 * Into @ns, which takes over the reference on success; its parent is there, or is attached next.
 * -ENOSPC, -ENOMEM.
 */
int mount_attach(struct mounts *ns, struct mount *mt) __must_check;
/* The same place, which is nobody's yet; the caller gives it to a mount or frees its parts. */
int mount_spot_make(struct mount_spot *spot, const struct path *dir, const char *name) __must_check;
/* The root of an empty namespace: at "/". -ENOMEM */
int mount_attach_root(struct mounts *ns, struct mount *mt) __must_check;
/*
 * Out of its namespace, with all that is below it. Not @lazy: -EBUSY when somebody else than the
 * caller, who has @mine references, uses it. -ENOMEM: nothing has changed.
 */
int mount_detach(struct mount *mt, bool lazy, int mine, struct list_head *gone) __must_check;
bool mount_is_busy(const struct mount *mt, int mine);
/* The same for the mounts in one that is in no namespace; they need no memory to go. */
void mount_detach_children(struct mount *mt, struct list_head *gone);
/*
 * A mount of @from, a place in @ns, at entry @name of @dir; @recursive: with the mounts below it.
 * As mount_attach(), and -EINVAL; *@gone as mount_detach().
 */
int mount_bind(struct mounts *ns, const struct path *from, bool recursive, const struct path *dir,
	       const char *name, struct list_head *gone) __must_check;
/*
 * @mt goes to entry @name of @dir, with all that is mounted in it; it is not the root, and @dir is
 * not behind it. -ENOSPC, -ENOMEM, -ENAMETOOLONG: a path in it would be too long.
 */
int mount_move(struct mounts *ns, struct mount *mt, const struct path *dir, const char *name)
	__must_check;
/*
 * @mt goes to the place of @root, in which it is, and @root to entry @name of @dir, which is in
 * @mt. As mount_move().
 */
int mount_pivot(struct mounts *ns, struct mount *mt, struct mount *root, const struct path *dir,
		const char *name) __must_check;
/*
 * Every user of @m that is at the root of @from, by its root or its working directory, is at that
 * of @to from here on. Under pivot_change; fs_states_put_followed() comes after it.
 */
void fs_states_follow(struct mounts *m, const struct mount *from, struct mount *to);
/* Put what all calls of that have seen, and may be the last to have; without pivot_change. */
void fs_states_put_followed(void);
/* Everything goes from the namespace. */
void mounts_clear(struct mounts *ns, struct list_head *gone);
/* Put what those two have taken out; without mount_change, for file systems may go. */
void mounts_put_gone(struct list_head *gone);

/*
 * The file system that mount(2) calls @name. *@root is its root, referenced; NULL: make() makes
 * another one. -ENODEV, and what its root answers.
 */
int fs_find(const char *name, struct fs_type **type, struct inode **root) __must_check;

/*
 * May the calling task mount a file system that mount(2) calls @name in @ns, with @flags? Of these,
 * those in *@locked stay. -EPERM
 */
int fs_may_mount(const char *name, const struct mounts *ns, uint32_t flags, uint32_t *locked)
	__must_check;

/*
 * A namespace of @owner with copies of the mounts of @ns; two places in them, which may be empty,
 * go along. For another owner than that of @ns they are locked.
 * ERR_PTR(-ENOMEM); *@gone as mount_detach().
 */
struct mounts *mounts_copy(struct mounts *ns, struct user_ns *owner, struct path *one,
			   struct path *two, struct list_head *gone);

/* --- looking ------------------------------------------------------------------------- */

/* The mount on entry @name of @dir of @parent, referenced; NULL: none. */
struct mount *mount_in_dir(const struct mount *parent, const struct inode *dir, const char *name,
			   size_t len);
/*
 * Is anything mounted on that entry, in any namespace but those of others that users have made for
 * themselves?
 */
bool mount_point_at(const struct inode *dir, const char *name, size_t len);
/* Is there such a mount point in @dir or below it? @dir has a path (path_text()). */
bool mount_point_below(const struct inode *dir, const char *text);
/* The mount at @point of @here, referenced; NULL: none (any more). */
struct mount *mount_at_point(const struct mount *here, const char *point);
/*
 * Where ".." of its root leads, both referenced; false: nowhere, since what is below it is the root
 * of the namespace, or @root, which may be NULL.
 */
bool mount_up(struct mount *mt, const struct path *root, struct mount **parent, struct inode **dir);
/* The mount that lies over the root of @mt, referenced; NULL: none. */
struct mount *mount_over(const struct mount *mt);
/* The nearest one that lies over a root, or is the root of all, of @mt and those around it. */
struct mount *mount_base(struct mount *mt); /* referenced */
/* The last of those that lie over each other there: @mt, whose reference it takes, or another. */
struct mount *mount_topmost(struct mount *mt);
/* --- moving, between mount_table.c and mount_move.c ---------------------------------- */

struct mount_rehang {
	struct mount *mt;
	struct mount_spot to; /* afterwards: where it was */
};

/* A new path of a mount that moves along; afterwards @at is the old one. */
struct mount_text {
	struct mount *mt;
	char *at;
};

/* New points of a mount, or none, with room for @len bytes; afterwards the old ones. */
struct mount_new_points {
	struct mount *mt;
	struct mount_points *points;
};

struct mount_change {
	struct mount_rehang hang[2];
	size_t nr;
	struct mount_text *texts;
	size_t nr_texts;
	struct mount_new_points points[4];
	size_t nr_points;
};

/* Does a file system in which it is have to be told of it? */
static inline bool mount_ends_lookups(const struct mount *mt)
{
	return mt->dir && mt->dir->ops->lookup_path && mt->point && !mt->shown;
}
/* All of @c at once. */
void mounts_rehang(struct mounts *ns, struct mount_change *c);
/* A list of points that are yet to be filled in. -ENOSPC, -ENOMEM; *@out may be NULL: none. */
int mount_points_alloc(size_t len, struct mount_points **out) __must_check;

/* The mount that is at the root of the namespace, referenced. */
struct mount *mounts_top(const struct mounts *ns);
/* The paths at which a look-up in it ends, referenced; NULL: none. */
struct mount_points *mount_points_get(const struct mount *mt);
void mount_points_put(struct mount_points *points);
/* The canonical path of its mount point, into FS_PATH_MAX bytes; "" for "/". Its length. */
size_t mount_copy_at(const struct mount *mt, char *buf);
/* The path of its root in its file system, the same way. */
size_t mount_root_text(const struct mount *mt, char *buf);
uint32_t mount_parent_id(const struct mount *mt);
/* The child of @mt in @dir with the smallest number above @id, referenced; NULL: no more. */
struct mount *mount_next_in(const struct mount *mt, const struct inode *dir, uint32_t id);
/* The next mount of the namespace, referenced; NULL: no more. */
struct mount *mounts_next(const struct mounts *ns, uint32_t id);
/* The one before, the same way. */
struct mount *mounts_before(const struct mounts *ns, uint32_t id);
/* Is @mt mounted in @top, or in a mount in it, or is it that one itself? */
bool mount_is_in(const struct mount *mt, const struct mount *top);

/* A mount of the file system with that st_dev, referenced; NULL: none. */
struct mount *mounts_of_dev(const struct mounts *ns, uint32_t dev);
/* ST_* of statfs() that the mount itself adds. */
uint64_t mount_st_flags(const struct mount *mt);

static inline bool mount_has_points(const struct inode *dir)
{
	return unlikely(READ_ONCE(dir->mount_points) != 0);
}
