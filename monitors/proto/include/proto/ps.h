/* SPDX-License-Identifier: MIT */
/*
 * Processor -> storage monitor.  Stateless: every request carries all that it needs.
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
};
static_assert(PS_LOOKUP == PROTO_FIRST_OPCODE(PROTO_PS), "opcodes are ABI");

enum ps_lookup_flags {
	PS_LOOKUP_NOFOLLOW = 1 << 0,  /* do not follow a symbolic link in the last component */
	PS_LOOKUP_DIRECTORY = 1 << 1, /* -ENOTDIR unless it is one */
	PS_LOOKUP_REALPATH = 1
		<< 2, /* the reply carries the canonical path (for chdir, exec, getcwd) */
	PS_LOOKUP_ALL = 7,
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
#define PS_MOUNT_POINTS_MAX 1024 /* bytes */

/*
 * Reply of PS_LOOKUP, then path_len bytes of path and rest_len bytes of what is still to be
 * walked.
 */
struct ps_lookup_rep_wire {
	struct proto_attr_wire attr; /* all 0 at a mount point */
	le16_t path_len;             /* the canonical path if asked for, or the mount point */
	le16_t rest_len;             /* at a mount point only, and 0 if nothing is left */
	le16_t nr_links;             /* links followed */
	le16_t at_mount_point;       /* 0 or 1 */
};
static_assert(sizeof(struct ps_lookup_rep_wire) == 128, "PS_LOOKUP reply is ABI");
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
	le32_t max_bytes; /* of reply body */
	le32_t reserved;
};
static_assert(sizeof(struct ps_getdents_req_wire) == 32, "PS_GETDENTS is ABI");

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
	uint16_t path_len; /* 0 unless PS_LOOKUP_REALPATH or at_mount_point */
	uint16_t rest_len;
	uint16_t nr_links;
	bool at_mount_point;
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
	uint32_t max_bytes;
};

void ps_getdents_req_encode(const struct ps_getdents_req *req, struct ps_getdents_req_wire *w);
int ps_getdents_req_decode(const void *buf, size_t len, struct ps_getdents_req *out) __must_check;

struct ps_dirent {
	uint64_t ino;
	uint64_t cookie;
	uint8_t type;
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
