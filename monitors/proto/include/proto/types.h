/* SPDX-License-Identifier: MIT */
/*
 * Pieces that several protocol headers share: file identities, memory references, attributes.
 *
 * Every structure is little-endian, naturally aligned and without hidden padding; reserved fields
 * are zero on send and checked to be zero on receive where a later version may give them a
 * meaning.
 */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/siphash.h>
#include <lib/types.h>

/* Bulk memory at the sender of a request, which the receiver may write into (one 4 KiB page). */
struct proto_mr_ref_wire {
	le64_t addr;
	le32_t rkey;
	le32_t len;
};
static_assert(sizeof(struct proto_mr_ref_wire) == 16, "mr_ref is ABI");

struct proto_mr_ref {
	uint64_t addr;
	uint32_t rkey;
	uint32_t len;
};

/*
 * A file on a storage node: what an open file is a handle to.  It is good for one vNode: the seal
 * is a hash of the rest with a key that storage and memory components have and processors do not.
 */
struct proto_file_wire {
	le64_t ino;
	le32_t gen;  /* inode generation */
	le32_t node; /* storage node id; 0 = no file, and all else is 0 */
	le32_t vnode;
	le32_t reserved;
	le64_t seal;
};
static_assert(sizeof(struct proto_file_wire) == 32, "proto_file is ABI");

struct proto_file {
	uint64_t ino;
	uint32_t gen;
	uint32_t node;
	uint32_t vnode;
	uint64_t seal;
};

/* Changes of a file's contents other than written pages. */
enum proto_file_op {
	PROTO_FILE_TRUNCATE = 1,      /* the size is off; what is behind it goes */
	PROTO_FILE_APPEND = 2,        /* the size grows by len: where that begins is the answer */
	PROTO_FILE_PUNCH = 3,         /* [off, off + len) becomes a hole; the size stays */
	PROTO_FILE_ZERO = 4,          /* it reads as zero, and has its place */
	PROTO_FILE_ZERO_KEEP = 5,     /* the same; the size stays */
	PROTO_FILE_ALLOCATE = 6,      /* it has its place; the size grows if need be */
	PROTO_FILE_ALLOCATE_KEEP = 7, /* the same; the size stays */
	PROTO_FILE_COLLAPSE = 8,      /* it goes, and what is behind it moves there */
	PROTO_FILE_SEEK_DATA = 9,     /* the first byte from off on that is no hole */
	PROTO_FILE_SEEK_HOLE = 10,    /* the first one of a hole; the end is one */
	PROTO_FILE_TIME = 11,         /* only the mtime, which storage has */
	PROTO_FILE_ROOM = 12,         /* pages of it are stored to soon: each has its place then */
	PROTO_FILE_OPS,
};

/* The attributes that stat(2) tells, times in seconds and nanoseconds. */
struct proto_attr_wire {
	struct proto_file_wire file;
	le64_t size;
	le64_t blocks;                             /* 512-byte units */
	le64_t atime_s, mtime_s, ctime_s, btime_s; /* two's complement */
	le32_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	le32_t mode; /* type and permission bits as in st_mode; PROTO_MODE_ACL */
	le32_t nlink;
	le32_t uid;
	le32_t gid;
	le32_t rdev; /* Linux's new_encode_dev() form */
	le32_t blksize;
	le64_t version; /* changes whenever the content changes (close-to-open) */
	le64_t fsid;
	le64_t attrs; /* PROTO_ATTRS: STATX_ATTR_* */
};
static_assert(sizeof(struct proto_attr_wire) == 144, "proto_attr is ABI");

/* The file may have access control lists, and its permission bits do not say all. */
#define PROTO_MODE_ACL 0x10000u

struct proto_attr {
	struct proto_file file;
	uint64_t size;
	uint64_t blocks;
	int64_t atime_s, mtime_s, ctime_s, btime_s;
	uint32_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	uint32_t mode, nlink, uid, gid, rdev, blksize;
	uint64_t version;
	uint64_t fsid;
	uint64_t attrs;
};

/* Flags of files beside the mode: immutable, append only, not to be dumped. */
#define PROTO_ATTRS 0x70u

/* The credentials of the asking thread; the storage node checks mode bits against them. */
struct proto_cred_wire {
	le32_t uid;
	le32_t gid;
	le32_t nr_groups; /* at most PROTO_MAX_GROUPS; the list follows where the message says */
	le32_t flags;     /* enum proto_cred_flags */
};
static_assert(sizeof(struct proto_cred_wire) == 16, "proto_cred is ABI");
#define PROTO_MAX_GROUPS 32

enum proto_cred_flags {
	/* User 0 in a user namespace: it owns its files, and has no rights over others'. */
	PROTO_CRED_PLAIN = 1 << 0,
	PROTO_CRED_ALL = 1,
};

struct proto_cred {
	uint32_t uid;
	uint32_t gid;
	uint32_t nr_groups;
	uint32_t groups[PROTO_MAX_GROUPS];
	uint32_t flags; /* enum proto_cred_flags */
};

/* The vNode whose programs run on every processor: of what no user has put into another one. */
#define PROTO_VNODE_ROOT 1u

#define PROTO_NODE_MAX  0xffffu /* the largest node id; the smallest is 1 */
#define PROTO_ERRNO_MAX 4095u

#define PROTO_PATH_MAX 4096 /* bytes, terminating 0 not sent */

/*
 * The protocols, one per pair of monitors: the upper byte of an opcode. A number is never used
 * again.
 */
enum proto_id {
	PROTO_CLUSTER = 1, /* proto/cluster.h */
	PROTO_PM = 2,      /* processor -> memory: proto/pm.h */
	PROTO_MM = 3,      /* memory -> memory: proto/mm.h */
	PROTO_PS = 4,      /* processor -> storage: proto/ps.h */
	PROTO_MS = 5,      /* memory -> storage: proto/ms.h */
	PROTO_MP = 6,      /* memory -> processor: proto/mp.h */
	PROTO_PG = 7,      /* processor -> global managers: proto/pg.h */
	PROTO_PP = 8,      /* processor -> processor: proto/pp.h */
	PROTO_SP = 9,      /* storage -> processor: proto/sp.h */
	PROTO_BENCH = 15,  /* net/rpc/bench.h */
};

#define PROTO_FIRST_OPCODE(id) ((id) << 8)

static inline enum proto_id proto_of(uint16_t opcode)
{
	return (enum proto_id)(opcode >> 8);
}

/*
 * Does the handler of such a request wait for a third node for as long as that is silent?  False
 * also for those that wait for one for a bounded time.
 */
bool proto_waits(uint16_t opcode);
/*
 * The same of a memory node's request to storage: it waits until the other nodes have declared what
 * they had, so it must leave room for this node's declarations.
 */
bool proto_ms_waits(uint16_t opcode, const void *body, uint32_t len);

/* --- encode and decode ------------------------------------------------------------------ */

void proto_mr_ref_encode(const struct proto_mr_ref *ref, struct proto_mr_ref_wire *w);
/* One whole page, page aligned; else -EPROTO. */
int proto_mr_ref_decode(const struct proto_mr_ref_wire *w, struct proto_mr_ref *out) __must_check;

/* "No file" is node 0 with every other field 0. */
void proto_file_encode(const struct proto_file *file, struct proto_file_wire *w);
int proto_file_decode(const struct proto_file_wire *w, struct proto_file *out) __must_check;
/* Is it the same file?  For whom the handles are does not count. */
bool proto_file_equal(const struct proto_file *a, const struct proto_file *b);
/* The seal that makes @file's other fields a handle. */
uint64_t proto_file_seal(const struct siphash_key *key, const struct proto_file *file);

void proto_attr_encode(const struct proto_attr *attr, struct proto_attr_wire *w);
int proto_attr_decode(const void *buf, size_t len, struct proto_attr *out) __must_check;

/* @groups has room for cred->nr_groups words. */
void proto_cred_encode(const struct proto_cred *cred, struct proto_cred_wire *w, le32_t *groups);
/* @groups_len: bytes that are there behind @groups; -EMSGSIZE when the list is longer than that. */
int proto_cred_decode(const struct proto_cred_wire *w, const void *groups, size_t groups_len,
		      struct proto_cred *out) __must_check;
