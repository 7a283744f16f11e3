/* SPDX-License-Identifier: MIT */
/*
 * Processor -> storage monitor.  Every request carries all that it needs.
 *
 * Requests that only ask name a file by its path or handle.  Requests that change something
 * name directories and files by their handles, which a look-up gave, and carry a change id, so
 * that a change that is asked for again is done once.
 *
 * Paths are absolute within the vNode's mount point ("/" is the mount point); the processor joins
 * the working directory itself but leaves "..", "." and symbolic links to the server.
 *
 * See:	docs/protocol/ps.md
 */
#pragma once

#include <proto/types.h>

enum ps_opcode {
	PS_LOOKUP = 0x0400,   /* path -> attributes */
	PS_GETATTR = 0x0401,  /* file -> attributes */
	PS_READLINK = 0x0402, /* path -> target */
	PS_GETDENTS = 0x0403, /* directory + cookie -> entries */
	PS_STATFS = 0x0404,
	PS_ACCESS = 0x0405, /* path + mode -> 0 or errno */
	/* 0x0406 was PS_CHANGE, which was never sent; opcode numbers are never used again. */
	PS_CREATE = 0x0407,  /* directory + name -> a regular file */
	PS_MKDIR = 0x0408,   /* directory + name -> a directory */
	PS_MKNOD = 0x0409,   /* directory + name -> a FIFO, socket or device */
	PS_SYMLINK = 0x040a, /* directory + name + target -> a symbolic link */
	PS_TMPFILE = 0x040b, /* directory -> a regular file without a name */
	PS_LINK = 0x040c,    /* file + directory + name */
	PS_UNLINK = 0x040d,  /* directory + name */
	PS_RMDIR = 0x040e,   /* directory + name */
	PS_RENAME = 0x040f,  /* two directories and names */
	PS_SETATTR = 0x0410, /* file + attributes, or size */
	PS_GETXATTR = 0x0411,
	PS_LISTXATTR = 0x0412,
	PS_SETXATTR = 0x0413,
	PS_REMOVEXATTR = 0x0414,
	PS_FALLOCATE = 0x0415,
	PS_CLOSE = 0x0416, /* unlinked files that the processor does not use any more */
	PS_FSYNC = 0x0417,
	PS_SYNC = 0x0418,    /* the whole file system */
	PS_DECLARE = 0x0419, /* what the processor uses, to a storage node that was started again */
	PS_LOCK = 0x041a,    /* an advisory lock: set, unlock, ask, stop waiting */
	PS_LOCKS = 0x041b,   /* locks that programs have, after a start again of the storage node */
	PS_LOCK_EVENTS = 0x041c, /* which waits for locks may try again; held until one may */
	PS_KEEP = 0x041d,        /* may the sender keep names and attributes until SP_RECALL? */
	PS_FIND = 0x041e,        /* directory + name -> attributes */
	PS_BATCH = 0x041f,       /* several changes of names */
};
static_assert(PS_LOOKUP == PROTO_FIRST_OPCODE(PROTO_PS), "opcodes are ABI");

enum ps_lookup_flags {
	PS_LOOKUP_NOFOLLOW = 1 << 0,  /* do not follow a symbolic link in the last component */
	PS_LOOKUP_DIRECTORY = 1 << 1, /* -ENOTDIR unless it is one */
	PS_LOOKUP_REALPATH = 1
		<< 2, /* the reply carries the canonical path (for chdir, exec, getcwd) */
	PS_LOOKUP_BELOW = 1
		<< 3, /* its root is not "/" for the program: a walk that leaves it ends there */
	PS_LOOKUP_ALL = 15,
};

enum ps_walk_end { /* in the reply of PS_LOOKUP */
	PS_END_FOUND = 0,
	PS_END_MOUNT_POINT = 1, /* at one of those of the request */
	PS_END_UP = 2,          /* PS_LOOKUP_BELOW: ".." out of the file system's root */
	PS_END_ROOT = 3,        /* PS_LOOKUP_BELOW: an absolute link, the first part of the rest */
};

/*
 * PS_LOOKUP, PS_READLINK, PS_ACCESS: header, nr_groups le32, path_len bytes of path,
 * mount_points_len bytes of mount points: canonical paths, each with its NUL, where the processor
 * has mounted a file system. A walk that comes to one of them ends there, whether by a name, a
 * link or "..". The first canon_len bytes of the path are canonical, and no mount point is looked
 * for in them.
 */
struct ps_path_req_wire {
	struct proto_cred_wire cred;
	le32_t vnode;
	le32_t flags; /* enum ps_lookup_flags */
	/* bits R 4, W 2, X 1 to be checked on the result; 0 = search permission only */
	le32_t access;
	le16_t path_len;
	le16_t canon_len;
	le16_t mount_points_len;
	le16_t reserved;
};
static_assert(sizeof(struct ps_path_req_wire) == 36, "ps_path_req is ABI");
/* Bytes: those of mounts, and the path of a process's root directory. */
#define PS_MOUNT_POINTS_MAX (1024 + PROTO_PATH_MAX)

/*
 * Reply of PS_LOOKUP, then path_len bytes of path and rest_len bytes of what is still to be
 * walked.
 */
struct ps_lookup_rep_wire {
	struct proto_attr_wire attr; /* all 0 if it was not found here */
	le16_t path_len;             /* the canonical path if asked for, the mount point, or "/" */
	le16_t rest_len;             /* not if it was found, and 0 if nothing is left */
	le16_t nr_links;             /* links followed */
	le16_t end;                  /* enum ps_walk_end */
};
static_assert(sizeof(struct ps_lookup_rep_wire) == 152, "PS_LOOKUP reply is ABI");
/*
 * Reply of PS_READLINK: the target's bytes. Reply of PS_ACCESS: nothing. Both answer EXDEV at a
 * mount point. Errors: those of path resolution in Linux: ENOENT ENOTDIR EACCES ELOOP ENAMETOOLONG
 * EINVAL EIO EUCLEAN.
 */

struct ps_file_req_wire { /* PS_GETATTR, PS_STATFS */
	struct proto_file_wire file;
};
/* Reply: struct proto_attr_wire, or struct ps_statfs_wire. -ESTALE when the inode is gone. */

struct ps_getdents_req_wire {
	struct proto_file_wire file;
	le64_t cookie;    /* 0 = from the start; else off of the last entry taken */
	le64_t behind;    /* name_tie() of that entry if it had PS_DIRENT_MORE, else 0 */
	le32_t max_bytes; /* of reply body */
	le32_t reserved;
};
static_assert(sizeof(struct ps_getdents_req_wire) == 56, "PS_GETDENTS is ABI");

/* In an entry's type: entries behind it have the same cookie. */
#define PS_DIRENT_MORE 0x80u

/* Reply: entries one behind the other, each padded with zeroes to 8 bytes; none = end. */
struct ps_dirent_wire {
	le64_t ino;
	le64_t cookie;  /* to go on behind this entry */
	le16_t rec_len; /* of this record, padding included */
	uint8_t type;   /* DT_* */
	uint8_t name_len;
	uint8_t name[];
};

struct ps_statfs_wire {
	le64_t type, bsize, blocks, bfree, bavail, files, ffree, fsid, namelen, flags;
};
static_assert(sizeof(struct ps_statfs_wire) == 80, "PS_STATFS reply is ABI");

/* --- changes ---------------------------------------------------------------------------- */

/*
 * In front of each changing request.  The client of a change is the node and incarnation that the
 * request comes from; its changes are numbered from 1.  The server does a change once: it answers
 * a number that it has done from its record.
 */
struct ps_change_wire {
	struct proto_cred_wire cred; /* the groups follow the request's fixed part */
	le64_t seq;                  /* not 0 */
	/* The client has the answers of all smaller numbers, or wants them no more; at most seq. */
	le64_t acked;
};
static_assert(sizeof(struct ps_change_wire) == 32, "ps_change is ABI");

#define PS_NAME_MAX 255u /* bytes; no slash, no NUL, not "." or ".." */

enum ps_make_flags {
	PS_MAKE_NAMELESS = 1 << 0, /* PS_TMPFILE: it can never get a name */
	PS_MAKE_ALL = 1,
};

/*
 * PS_CREATE, PS_MKDIR, PS_MKNOD, PS_SYMLINK, PS_TMPFILE: then the groups, name_len bytes of name
 * (none for PS_TMPFILE) and target_len bytes of target (PS_SYMLINK alone).  Reply: struct
 * proto_attr_wire of the new file.
 */
struct ps_make_req_wire {
	struct ps_change_wire change;
	struct proto_file_wire dir;
	le32_t mode;  /* type, which fits the opcode, and permission bits before the umask */
	le32_t umask; /* does not count in a directory with a default ACL */
	le32_t rdev;  /* of a device, Linux's new_encode_dev() form; else 0 */
	le32_t flags; /* enum ps_make_flags */
	le16_t name_len;
	le16_t target_len;
	le32_t reserved;
};
static_assert(sizeof(struct ps_make_req_wire) == 56 + sizeof(struct proto_file_wire),
	      "ps_make_req is ABI");

/* PS_LINK: then the groups and the name.  Reply: struct proto_attr_wire of the file. */
struct ps_link_req_wire {
	struct ps_change_wire change;
	struct proto_file_wire file;
	struct proto_file_wire dir;
	le16_t name_len;
	le16_t reserved;
	le32_t reserved2;
};
static_assert(sizeof(struct ps_link_req_wire) == 40 + 2 * sizeof(struct proto_file_wire),
	      "ps_link_req is ABI");

/*
 * PS_UNLINK, PS_RMDIR: then the groups and the name.  -EAGAIN when the name stands for another
 * file than @victim.  Reply: struct ps_removed_rep_wire.
 */
struct ps_remove_req_wire {
	struct ps_change_wire change;
	struct proto_file_wire dir;
	struct proto_file_wire victim;
	le16_t name_len;
	le16_t unused; /* 1: the sender does not use @victim, and says no PS_CLOSE of it */
	le32_t reserved2;
};
static_assert(sizeof(struct ps_remove_req_wire) == 40 + 2 * sizeof(struct proto_file_wire),
	      "ps_remove_req is ABI");

enum ps_rename_flags {
	PS_RENAME_NOREPLACE = 1 << 0, /* the bits of renameat2() */
	PS_RENAME_EXCHANGE = 1 << 1,
	PS_RENAME_WHITEOUT = 1 << 2,
	PS_RENAME_UNUSED = 1 << 3, /* the sender does not use @target: as in PS_UNLINK */
	PS_RENAME_ROOM = 1 << 4,   /* it takes one of the rooms that PS_BATCH has told */
	PS_RENAME_ALL = 31,
};

/*
 * PS_RENAME: then the groups and both names.  -EAGAIN when a name stands for another file than
 * @source or @target (no file: nothing may have the name).  Reply: struct ps_removed_rep_wire.
 */
struct ps_rename_req_wire {
	struct ps_change_wire change;
	struct proto_file_wire from_dir;
	struct proto_file_wire to_dir;
	struct proto_file_wire source;
	struct proto_file_wire target;
	le32_t flags; /* enum ps_rename_flags */
	le16_t from_len;
	le16_t to_len;
};
static_assert(sizeof(struct ps_rename_req_wire) == 40 + 4 * sizeof(struct proto_file_wire),
	      "ps_rename_req is ABI");

/*
 * The file that lost a name, and how many names it has left.  With none it stays for as long as a
 * processor uses it: the client is taken to do so until it says PS_CLOSE, unless it has said in its
 * request that it does not.  All 0: no file lost a name.
 */
struct ps_removed_rep_wire {
	struct proto_file_wire file;
	le32_t nlink;
	le32_t reserved;
};
static_assert(sizeof(struct ps_removed_rep_wire) == 8 + sizeof(struct proto_file_wire),
	      "ps_removed_rep is ABI");

enum ps_setattr_valid {
	PS_SET_MODE = 1 << 0, /* permission bits */
	PS_SET_UID = 1 << 1,
	PS_SET_GID = 1 << 2,
	PS_SET_SIZE = 1 << 3,
	PS_SET_ATIME = 1 << 4,
	PS_SET_MTIME = 1 << 5,
	PS_SET_ATIME_NOW = 1 << 6, /* the server's time */
	PS_SET_MTIME_NOW = 1 << 7,
	/* Of the size: the caller has the file open for writing, which was checked at open. */
	PS_SET_BY_OPEN_FILE = 1 << 8,
	PS_SET_FLAGS = 1 << 9, /* alone, or with: */
	/* The caller has the capability to change those that are immutable and append only. */
	PS_SET_GUARDED = 1 << 10,
	PS_SET_ALL = 2047,
};

/* PS_SETATTR: then the groups.  Reply: struct proto_attr_wire of the file. */
struct ps_setattr_req_wire {
	struct ps_change_wire change;
	struct proto_file_wire file;
	le32_t valid; /* enum ps_setattr_valid */
	le32_t mode;
	le32_t uid;
	le32_t gid;
	le64_t size;
	le64_t atime_s, mtime_s; /* two's complement */
	le32_t atime_ns, mtime_ns;
	le64_t flags; /* PROTO_ATTRS */
};
static_assert(sizeof(struct ps_setattr_req_wire) == 88 + sizeof(struct proto_file_wire),
	      "PS_SETATTR is ABI");

#define PS_XATTR_VALUE_MAX 8192u /* bytes; more than an ext4 block holds */

enum ps_xattr_flags {
	PS_XATTR_CREATE = 1 << 0, /* the bits of setxattr() */
	PS_XATTR_REPLACE = 1 << 1,
	PS_XATTR_ALL = 3,
};

/*
 * PS_SETXATTR, PS_REMOVEXATTR: then the groups, the name with its prefix ("user.x") and the value
 * (PS_SETXATTR alone).  Reply: struct proto_attr_wire of the file.
 */
struct ps_setxattr_req_wire {
	struct ps_change_wire change;
	struct proto_file_wire file;
	le32_t flags; /* enum ps_xattr_flags */
	le16_t name_len;
	le16_t value_len;
};
static_assert(sizeof(struct ps_setxattr_req_wire) == 40 + sizeof(struct proto_file_wire),
	      "PS_SETXATTR is ABI");

/*
 * PS_GETXATTR, PS_LISTXATTR: then the groups and the name (PS_GETXATTR alone).  Reply: the value,
 * or the names, each with its NUL.
 */
struct ps_getxattr_req_wire {
	struct proto_cred_wire cred;
	struct proto_file_wire file;
	le16_t name_len;
	le16_t reserved;
	le32_t reserved2;
};
static_assert(sizeof(struct ps_getxattr_req_wire) == 24 + sizeof(struct proto_file_wire),
	      "PS_GETXATTR is ABI");

/*
 * PS_FALLOCATE: then the groups.  The file is open for writing, which was checked at open.  Reply:
 * struct proto_attr_wire of the file.
 */
struct ps_fallocate_req_wire {
	struct ps_change_wire change;
	struct proto_file_wire file;
	le32_t mode; /* the bits of fallocate() */
	le32_t reserved;
	le64_t off;
	le64_t len; /* off + len is at most 2^63 - 1 */
};
static_assert(sizeof(struct ps_fallocate_req_wire) == 56 + sizeof(struct proto_file_wire),
	      "PS_FALLOCATE is ABI");

/* PS_CLOSE: then nr_files files.  Idempotent.  Reply: nothing. */
struct ps_close_req_wire {
	le32_t nr_files;
	le32_t reserved;
};
#define PS_CLOSE_MAX 64u

enum ps_declare_flags {
	PS_DECLARE_LAST = 1 << 0, /* that was all */
	PS_DECLARE_ALL = 1,
};

/*
 * PS_DECLARE: then nr_files files without a name that the sender uses.  Idempotent; -ESTALE: it is
 * not for this start of the storage node.  Reply: nothing.
 */
struct ps_declare_req_wire {
	le32_t nr_files; /* 0 to PS_CLOSE_MAX */
	le32_t flags;    /* enum ps_declare_flags */
	le32_t incarn;   /* of the storage node that is meant */
	le32_t reserved;
};
static_assert(sizeof(struct ps_declare_req_wire) == 16, "PS_DECLARE is ABI");

/* --- advisory locks ------------------------------------------------------------------------ */

enum ps_lock_kind { /* POSIX and OFD locks are in each other's way, flock is in neither's */
	PS_LOCK_POSIX = 0,
	PS_LOCK_OFD = 1,
	PS_LOCK_FLOCK = 2, /* of the whole file */
};

enum ps_lock_type {
	PS_LOCK_READ = 0,
	PS_LOCK_WRITE = 1,
	PS_LOCK_NONE = 2, /* unlock */
};

struct ps_lock_wire {
	le64_t owner; /* the processor's number for it, not 0 */
	le64_t start;
	le64_t end; /* the last byte too; 2^63 - 1: to the end of the file, however long */
	le32_t pid; /* for F_GETLK */
	uint8_t kind;
	uint8_t type;
	le16_t reserved;
};
static_assert(sizeof(struct ps_lock_wire) == 32, "ps_lock is ABI");

enum ps_lock_op {
	PS_LOCK_OP_SET = 0,
	PS_LOCK_OP_TEST = 1,   /* F_GETLK */
	PS_LOCK_OP_CANCEL = 2, /* the wait with this token has ended */
};

enum ps_lock_state {
	PS_LOCK_FREE = 0,  /* it is granted; PS_LOCK_OP_TEST: nothing is in the way */
	PS_LOCK_BUSY = 1,  /* another owner's lock is in the way */
	PS_LOCK_WAITS = 2, /* the same, and PS_LOCK_EVENTS tells when to try again */
	PS_LOCK_GRACE = 3, /* members still declare their locks: PS_LOCK_EVENTS tells the end */
};

/*
 * Numbers and acknowledgements are as in struct ps_change_wire, but counted by themselves: a
 * request that arrives after its sender has given it up does nothing (-ESTALE).
 */
struct ps_lock_req_wire {
	struct proto_file_wire file;
	struct ps_lock_wire lock;
	le64_t seq; /* not 0 */
	le64_t acked;
	le64_t token; /* of the wait, not 0, and the sender's to choose */
	uint8_t op;   /* enum ps_lock_op */
	uint8_t wait; /* PS_LOCK_OP_SET: 1, wait for what is in the way */
	le16_t reserved;
	le32_t reserved2;
};
static_assert(sizeof(struct ps_lock_req_wire) == 64 + sizeof(struct proto_file_wire),
	      "PS_LOCK is ABI");
/* -EDEADLK, -ENOLCK. */
struct ps_lock_rep_wire {
	struct ps_lock_wire found; /* PS_LOCK_OP_TEST and PS_LOCK_BUSY: what is; else all 0 */
	le32_t state;
	le32_t reserved;
};
static_assert(sizeof(struct ps_lock_rep_wire) == 40, "PS_LOCK reply is ABI");

/*
 * PS_LOCKS: then nr_locks locks of the file that the sender's programs have. Idempotent.
 * -ESTALE: it is not for this start of the storage node; -ENOLCK: another one has a lock that is
 * in the way, as a lease was over. Reply: nothing.
 */
struct ps_locks_req_wire {
	struct proto_file_wire file;
	le64_t seq;
	le64_t acked;
	le32_t nr_locks; /* 1 to PS_LOCKS_MAX */
	le32_t incarn;   /* of the storage node that is meant */
};
static_assert(sizeof(struct ps_locks_req_wire) == 24 + sizeof(struct proto_file_wire),
	      "PS_LOCKS is ABI");
#define PS_LOCKS_MAX 32u

/*
 * PS_LOCK_EVENTS: the sender has what was told up to number @after by this start of the node. The
 * reply comes when there is more, or after some seconds; then nr_tokens le64.
 */
struct ps_lock_events_req_wire {
	le64_t after;
	le32_t incarn; /* that told it; 0: none has */
	le32_t reserved;
};
static_assert(sizeof(struct ps_lock_events_req_wire) == 16, "PS_LOCK_EVENTS is ABI");
struct ps_lock_events_rep_wire {
	le64_t last;   /* for @after of the next request */
	le32_t incarn; /* of the storage node; when it is another one, all waits are to try again */
	le32_t nr_tokens;
};
static_assert(sizeof(struct ps_lock_events_rep_wire) == 16, "PS_LOCK_EVENTS reply is ABI");
#define PS_LOCK_EVENTS_MAX 64u

/*
 * PS_KEEP.  The sender has the answers of all changes with numbers below @acked, or wants them no
 * more, as in struct ps_change_wire: none of them is done from here on.
 */
struct ps_keep_req_wire {
	le64_t acked; /* not 0 */
};
struct ps_keep_rep_wire {
	le32_t granted; /* 1, or 0: not now */
	le32_t reserved;
};
static_assert(sizeof(struct ps_keep_rep_wire) == 8, "PS_KEEP reply is ABI");

/*
 * PS_FIND: then the name, of 1 to PS_NAME_MAX bytes as in a change.  The sender has checked that
 * its program may search the directory.  Reply: struct proto_attr_wire of what has the name; a link
 * is not followed.  -ENOENT; -ENOTDIR; -ESTALE when the directory is gone.
 */
struct ps_find_req_wire {
	struct proto_file_wire dir;
	le16_t name_len;
	le16_t reserved;
	le32_t reserved2;
};
static_assert(sizeof(struct ps_find_req_wire) == 8 + sizeof(struct proto_file_wire),
	      "PS_FIND is ABI");

/*
 * PS_BATCH: nr_changes changes, done in their order, each with its own number, as if they had come
 * one after the other. Each is a struct ps_batch_item_wire, then len bytes of a request, then zeros
 * up to a multiple of 8. The numbers ascend. Reply: struct ps_batch_rep_wire, then nr_changes times
 * le32: 0, or a negative errno of that change; what else its answer has is not told.
 * @rooms of the request: for so many names that are to come the sender wants room afterwards, in
 * all; of the reply: for so many it has. 0 if it may not keep names.
 */
struct ps_batch_req_wire {
	le32_t nr_changes; /* at most PS_BATCH_MAX */
	le32_t rooms;      /* at most PS_ROOMS_MAX */
};
static_assert(sizeof(struct ps_batch_req_wire) == 8, "PS_BATCH is ABI");
struct ps_batch_item_wire {
	le16_t opcode; /* PS_LINK, PS_UNLINK, PS_RMDIR, PS_RENAME or PS_SETATTR */
	le16_t reserved;
	le32_t len;
};
static_assert(sizeof(struct ps_batch_item_wire) == 8, "PS_BATCH is ABI");
struct ps_batch_rep_wire {
	le32_t nr_changes; /* as in the request */
	le32_t rooms;
};
static_assert(sizeof(struct ps_batch_rep_wire) == 8, "PS_BATCH reply is ABI");
#define PS_BATCH_MAX 64u
#define PS_ROOMS_MAX 64u

enum ps_fsync_flags {
	PS_FSYNC_DATA = 1 << 0, /* fdatasync(): times may stay behind */
	PS_FSYNC_ALL = 1,
};

/* PS_FSYNC.  Reply: nothing.  PS_SYNC: struct ps_file_req_wire of any file.  Reply: nothing. */
struct ps_fsync_req_wire {
	struct proto_file_wire file;
	le32_t flags; /* enum ps_fsync_flags */
	le32_t reserved;
};

/* --- host order, encode and decode; rules as in <proto/pm.h> ---------------------------- */

struct ps_path_req {
	struct proto_cred cred;
	uint32_t vnode;
	uint32_t flags;
	uint32_t access;
	uint16_t path_len;
	uint16_t canon_len;
	uint16_t mount_points_len;
	const char *path;         /* not terminated; decoded: points into the message */
	const char *mount_points; /* mount_points_len bytes; decoded: points into the message */
};

ssize_t ps_path_req_encode(const struct ps_path_req *req, void *buf, size_t cap) __must_check;
/* A path is 1 to PROTO_PATH_MAX - 1 bytes, absolute, without a NUL. */
int ps_path_req_decode(const void *buf, size_t len, struct ps_path_req *out) __must_check;

struct ps_lookup_rep {
	struct proto_attr attr;
	uint16_t path_len; /* 0 if it was found, unless PS_LOOKUP_REALPATH */
	uint16_t rest_len;
	uint16_t nr_links;
	uint16_t end;     /* enum ps_walk_end */
	const char *path; /* not terminated; decoded: points into the message */
	const char *rest; /* the same */
};

ssize_t ps_lookup_rep_encode(const struct ps_lookup_rep *rep, void *buf, size_t cap) __must_check;
int ps_lookup_rep_decode(const void *buf, size_t len, struct ps_lookup_rep *out) __must_check;

void ps_file_req_encode(const struct proto_file *file, struct ps_file_req_wire *w);
int ps_file_req_decode(const void *buf, size_t len, struct proto_file *out) __must_check;

struct ps_getdents_req {
	struct proto_file file;
	uint64_t cookie;
	uint64_t behind;
	uint32_t max_bytes;
};

void ps_getdents_req_encode(const struct ps_getdents_req *req, struct ps_getdents_req_wire *w);
int ps_getdents_req_decode(const void *buf, size_t len, struct ps_getdents_req *out) __must_check;

struct ps_dirent {
	uint64_t ino;
	uint64_t cookie;
	uint8_t type;
	bool more; /* entries behind it have the same cookie */
	uint8_t name_len;
	const char *name; /* not terminated; decoded: points into the message */
};

/* Bytes of the record for a name of @name_len bytes. */
size_t ps_dirent_size(uint8_t name_len);
/* Append at *@off; -EMSGSIZE when it does not fit (nothing is written). */
int ps_dirent_encode(const struct ps_dirent *ent, void *buf, size_t cap, size_t *off) __must_check;
/* The record at *@off, which moves behind it. -ENOENT at the end; -EPROTO malformed. */
int ps_dirent_decode(const void *buf, size_t len, size_t *off, struct ps_dirent *out) __must_check;

struct ps_statfs {
	uint64_t type, bsize, blocks, bfree, bavail, files, ffree, fsid, namelen, flags;
};

void ps_statfs_encode(const struct ps_statfs *st, struct ps_statfs_wire *w);
int ps_statfs_decode(const void *buf, size_t len, struct ps_statfs *out) __must_check;

/* --- changes, host order ---------------------------------------------------------------- */

struct ps_change {
	struct proto_cred cred;
	uint64_t seq;
	uint64_t acked;
};

/* Names, targets and values are not terminated; decoded, they point into the message. */

struct ps_make_req {
	struct ps_change change;
	struct proto_file dir;
	uint32_t mode, umask, rdev, flags;
	uint16_t name_len, target_len;
	const char *name;
	const char *target;
};

/* @opcode says which of the five it is. */
ssize_t ps_make_req_encode(uint16_t opcode, const struct ps_make_req *req, void *buf, size_t cap)
	__must_check;
int ps_make_req_decode(uint16_t opcode, const void *buf, size_t len, struct ps_make_req *out)
	__must_check;

struct ps_link_req {
	struct ps_change change;
	struct proto_file file, dir;
	uint16_t name_len;
	const char *name;
};

ssize_t ps_link_req_encode(const struct ps_link_req *req, void *buf, size_t cap) __must_check;
int ps_link_req_decode(const void *buf, size_t len, struct ps_link_req *out) __must_check;

struct ps_remove_req {
	struct ps_change change;
	struct proto_file dir, victim;
	uint16_t name_len;
	bool unused;
	const char *name;
};

ssize_t ps_remove_req_encode(const struct ps_remove_req *req, void *buf, size_t cap) __must_check;
int ps_remove_req_decode(const void *buf, size_t len, struct ps_remove_req *out) __must_check;

struct ps_rename_req {
	struct ps_change change;
	struct proto_file from_dir, to_dir, source, target;
	uint32_t flags;
	uint16_t from_len, to_len;
	const char *from;
	const char *to;
};

ssize_t ps_rename_req_encode(const struct ps_rename_req *req, void *buf, size_t cap) __must_check;
int ps_rename_req_decode(const void *buf, size_t len, struct ps_rename_req *out) __must_check;

struct ps_removed_rep {
	struct proto_file file;
	uint32_t nlink;
};

void ps_removed_rep_encode(const struct ps_removed_rep *rep, struct ps_removed_rep_wire *w);
int ps_removed_rep_decode(const void *buf, size_t len, struct ps_removed_rep *out) __must_check;

struct ps_setattr_req {
	struct ps_change change;
	struct proto_file file;
	uint32_t valid, mode, uid, gid;
	uint64_t size;
	int64_t atime_s, mtime_s;
	uint32_t atime_ns, mtime_ns;
	uint64_t flags;
};

ssize_t ps_setattr_req_encode(const struct ps_setattr_req *req, void *buf, size_t cap) __must_check;
int ps_setattr_req_decode(const void *buf, size_t len, struct ps_setattr_req *out) __must_check;

struct ps_setxattr_req { /* PS_REMOVEXATTR: without flags and value */
	struct ps_change change;
	struct proto_file file;
	uint32_t flags;
	uint16_t name_len, value_len;
	const char *name;
	const void *value;
};

ssize_t ps_setxattr_req_encode(const struct ps_setxattr_req *req, void *buf, size_t cap)
	__must_check;
int ps_setxattr_req_decode(const void *buf, size_t len, struct ps_setxattr_req *out) __must_check;

struct ps_getxattr_req { /* PS_LISTXATTR: name_len 0 */
	struct proto_cred cred;
	struct proto_file file;
	uint16_t name_len;
	const char *name;
};

ssize_t ps_getxattr_req_encode(const struct ps_getxattr_req *req, void *buf, size_t cap)
	__must_check;
int ps_getxattr_req_decode(const void *buf, size_t len, struct ps_getxattr_req *out) __must_check;

struct ps_fallocate_req {
	struct ps_change change;
	struct proto_file file;
	uint32_t mode;
	uint64_t off, len;
};

ssize_t ps_fallocate_req_encode(const struct ps_fallocate_req *req, void *buf, size_t cap)
	__must_check;
int ps_fallocate_req_decode(const void *buf, size_t len, struct ps_fallocate_req *out) __must_check;

struct ps_close_req {
	uint32_t nr_files; /* 1 to PS_CLOSE_MAX */
	struct proto_file files[PS_CLOSE_MAX];
};

ssize_t ps_close_req_encode(const struct ps_close_req *req, void *buf, size_t cap) __must_check;
int ps_close_req_decode(const void *buf, size_t len, struct ps_close_req *out) __must_check;

struct ps_declare_req {
	uint32_t nr_files; /* to PS_CLOSE_MAX */
	uint32_t flags;
	uint32_t incarn;
	struct proto_file files[PS_CLOSE_MAX];
};

ssize_t ps_declare_req_encode(const struct ps_declare_req *req, void *buf, size_t cap) __must_check;
int ps_declare_req_decode(const void *buf, size_t len, struct ps_declare_req *out) __must_check;

struct ps_lock {
	uint64_t owner;
	int64_t start, end;
	uint32_t pid;
	uint8_t kind, type;
};

struct ps_lock_req {
	struct proto_file file;
	struct ps_lock lock;
	uint64_t seq, acked, token;
	uint8_t op;
	bool wait;
};

void ps_lock_req_encode(const struct ps_lock_req *req, struct ps_lock_req_wire *w);
int ps_lock_req_decode(const void *buf, size_t len, struct ps_lock_req *out) __must_check;

struct ps_lock_rep {
	struct ps_lock found; /* owner 0: none */
	uint32_t state;       /* enum ps_lock_state */
};

void ps_lock_rep_encode(const struct ps_lock_rep *rep, struct ps_lock_rep_wire *w);
int ps_lock_rep_decode(const void *buf, size_t len, struct ps_lock_rep *out) __must_check;

struct ps_locks_req {
	struct proto_file file;
	uint64_t seq, acked;
	uint32_t nr_locks; /* 1 to PS_LOCKS_MAX */
	uint32_t incarn;
	struct ps_lock locks[PS_LOCKS_MAX];
};

ssize_t ps_locks_req_encode(const struct ps_locks_req *req, void *buf, size_t cap) __must_check;
int ps_locks_req_decode(const void *buf, size_t len, struct ps_locks_req *out) __must_check;

struct ps_lock_events_req {
	uint64_t after;
	uint32_t incarn;
};

void ps_lock_events_req_encode(const struct ps_lock_events_req *req,
			       struct ps_lock_events_req_wire *w);
int ps_lock_events_req_decode(const void *buf, size_t len, struct ps_lock_events_req *out)
	__must_check;

struct ps_lock_token {
	uint64_t token;
};
struct ps_lock_token_wire {
	le64_t token;
};

struct ps_lock_events_rep {
	uint64_t last;
	uint32_t incarn;
	uint32_t nr_tokens; /* to PS_LOCK_EVENTS_MAX */
	struct ps_lock_token tokens[PS_LOCK_EVENTS_MAX];
};

ssize_t ps_lock_events_rep_encode(const struct ps_lock_events_rep *rep, void *buf, size_t cap)
	__must_check;
int ps_lock_events_rep_decode(const void *buf, size_t len, struct ps_lock_events_rep *out)
	__must_check;

struct ps_fsync_req {
	struct proto_file file;
	uint32_t flags;
};

void ps_fsync_req_encode(const struct ps_fsync_req *req, struct ps_fsync_req_wire *w);
int ps_fsync_req_decode(const void *buf, size_t len, struct ps_fsync_req *out) __must_check;

struct ps_find_req {
	struct proto_file dir;
	uint16_t name_len;
	const char *name;
};

ssize_t ps_find_req_encode(const struct ps_find_req *req, void *buf, size_t cap) __must_check;
/* The name stays in @buf. */
int ps_find_req_decode(const void *buf, size_t len, struct ps_find_req *out) __must_check;

struct ps_keep_req {
	uint64_t acked;
};

void ps_keep_req_encode(const struct ps_keep_req *req, struct ps_keep_req_wire *w);
int ps_keep_req_decode(const void *buf, size_t len, struct ps_keep_req *out) __must_check;

struct ps_keep_rep {
	uint32_t granted;
};

void ps_keep_rep_encode(const struct ps_keep_rep *rep, struct ps_keep_rep_wire *w);
int ps_keep_rep_decode(const void *buf, size_t len, struct ps_keep_rep *out) __must_check;

struct ps_batch_item {
	uint16_t opcode;
	uint32_t len;
	const void *body; /* decoded: points into the message */
};

struct ps_batch_req {
	uint32_t nr_changes;
	uint32_t rooms;
	struct ps_batch_item changes[PS_BATCH_MAX];
};

/* Bytes that a change of @len bytes takes in a batch. */
size_t ps_batch_item_size(uint32_t len);
ssize_t ps_batch_req_encode(const struct ps_batch_req *req, void *buf, size_t cap) __must_check;
/* The changes themselves are not looked at, but for their numbers. */
int ps_batch_req_decode(const void *buf, size_t len, struct ps_batch_req *out) __must_check;

struct ps_batch_status {
	int err; /* 0 or a negative errno */
};
struct ps_batch_status_wire {
	le32_t err;
};

struct ps_batch_rep {
	uint32_t nr_changes;
	uint32_t rooms;
	struct ps_batch_status changes[PS_BATCH_MAX];
};

ssize_t ps_batch_rep_encode(const struct ps_batch_rep *rep, void *buf, size_t cap) __must_check;
int ps_batch_rep_decode(const void *buf, size_t len, struct ps_batch_rep *out) __must_check;
