/* SPDX-License-Identifier: MIT */
/*
 * Memory -> storage monitor: fills of the page cache, look-ups for PT_INTERP, and changes of files.
 *
 * See:	docs/protocol/ms.md
 */
#pragma once

#include <proto/ps.h>
#include <proto/types.h>

enum ms_opcode {
	MS_READ = 0x0500,
	MS_LOOKUP = 0x0501, /* body and reply as PS_LOOKUP */
	MS_CLAIM = 0x0502,
	MS_WRITE = 0x0503,
	MS_CHANGE = 0x0504,
	MS_RELEASE = 0x0505,
	MS_DECLARE = 0x0506,
	MS_RESERVE = 0x0507,
};
static_assert(MS_READ == PROTO_FIRST_OPCODE(PROTO_MS), "opcodes are ABI");

#define MS_READ_MAX_PAGES 32

/* Header, then nr_pages memory references (4 KiB each), one per consecutive page from pgoff. */
struct ms_read_req_wire {
	struct proto_file_wire file;
	le64_t pgoff;
	le32_t nr_pages;
	le32_t reserved;
};
static_assert(sizeof(struct ms_read_req_wire) == 48, "MS_READ is ABI");

/* Pages wholly behind the end are not written; the tail of the last one is zero. */
struct ms_read_rep_wire {
	le32_t nr_valid;
	le32_t last_bytes;
	le64_t file_size;
	le64_t version; /* of the file's content */
};
static_assert(sizeof(struct ms_read_rep_wire) == 24, "MS_READ reply is ABI");

/* --- files that change: docs/design/files.md ------------------------------------------- */

/*
 * The sender wants to be the one memory node that caches the file, and that changes it.
 */
struct ms_claim_req_wire {
	struct proto_file_wire file;
	le64_t epoch; /* that it was told before, if it has it already; 0: it is new */
};
static_assert(sizeof(struct ms_claim_req_wire) == 40, "MS_CLAIM is ABI");

/* Reply of MS_CLAIM, MS_WRITE and MS_CHANGE. */
struct ms_file_state_wire {
	le64_t epoch; /* names the claim: only to be compared; not 0 */
	le64_t size;  /* bytes */
	le64_t version;
	le64_t mtime_s;
	le32_t mtime_ns;
	le32_t node;     /* MS_CLAIM: who has the file; unless it is the sender, all else is 0 */
	le64_t max_size; /* bytes: the file system has no room for more in one file */
	le64_t pos;      /* PROTO_FILE_SEEK_*: what was found, else 0 */
};
static_assert(sizeof(struct ms_file_state_wire) == 56, "ms_file_state is ABI");

#define MS_WRITE_MAX_PAGES 32

enum ms_write_flags {
	MS_WRITE_SYNC = 1 << 0,     /* answered when all changes of the file are on the disk */
	MS_WRITE_DATASYNC = 1 << 1, /* with MS_WRITE_SYNC: those that reading back needs */
	MS_WRITE_ALL = 3,
};

/* nr_pages pages from pgoff on; the bulk has them, 4 KiB each. */
struct ms_write_req_wire {
	struct proto_file_wire file;
	le64_t epoch;
	le64_t pgoff;
	le64_t size; /* of the file afterwards: never less than before */
	le64_t mtime_s;
	le32_t mtime_ns;
	le32_t nr_pages; /* 0 to MS_WRITE_MAX_PAGES; pages behind the size are not written */
	le32_t flags;    /* enum ms_write_flags */
	le32_t reserved;
	le64_t client; /* the change id; 0, 0: none */
	le64_t seq;
};
static_assert(sizeof(struct ms_write_req_wire) == 96, "MS_WRITE is ABI");
/* Errors: -ESTALE the claim is not the sender's in this epoch; -EIO, -ENOSPC, -EDQUOT, -EROFS. */

#define MS_RESERVE_MAX_PAGES 256

enum ms_reserve_flags {
	MS_RESERVE_PRIVILEGED = 1 << 0, /* also of the blocks that are kept for root */
	MS_RESERVE_ALL = 1,
};

struct ms_change_req_wire {
	struct proto_file_wire file;
	le64_t epoch;
	le32_t op;    /* enum proto_file_op, but not APPEND, TIME or ROOM */
	le32_t flags; /* enum ms_reserve_flags */
	le64_t off;
	le64_t len;
	le64_t mtime_s;
	le32_t mtime_ns;
	le32_t keep; /* pages whose room the change leaves alone; 0 where it takes no block */
	le64_t client;
	le64_t seq;
};
static_assert(sizeof(struct ms_change_req_wire) == 96, "MS_CHANGE is ABI");

/* The sender has nothing of the file any more that storage does not have.  No reply body. */
struct ms_release_req_wire {
	struct proto_file_wire file;
	le64_t epoch;
};
static_assert(sizeof(struct ms_release_req_wire) == 40, "MS_RELEASE is ABI");

/*
 * To a storage node that was started again: the sender has claimed again what it had claimed.
 * -ESTALE: it is not for this start of the storage node.  No reply body.
 */
struct ms_declare_req_wire {
	le32_t incarn; /* of the storage node that is meant */
	le32_t reserved;
};
static_assert(sizeof(struct ms_declare_req_wire) == 8, "MS_DECLARE is ABI");

/*
 * The sender is going to send pages that have no blocks yet: how many in all of the file, so that
 * the request may come twice. It takes the place of the one before.
 */
struct ms_reserve_req_wire {
	struct proto_file_wire file;
	le64_t epoch;
	le64_t others; /* pages that were promised before, and are not written yet */
	le64_t pgoff;  /* the range that is asked about */
	le32_t nr;     /* 0 to MS_RESERVE_MAX_PAGES; 0: there is none */
	le32_t need;   /* its first pages: without room for these -ENOSPC; 1 to nr, 0 if nr is 0 */
	le32_t flags;  /* enum ms_reserve_flags */
	le32_t reserved;
};
static_assert(sizeof(struct ms_reserve_req_wire) == 72, "MS_RESERVE is ABI");

struct ms_reserve_rep_wire {
	le64_t mapped;  /* pages from pgoff on that have blocks, also behind the range */
	le32_t covered; /* the first pages of the range that may be written now: need to nr */
	le32_t reserved;
	/* Bit i % 8 of byte i / 8, for i below covered: page pgoff + i has no block, but room */
	uint8_t holes[MS_RESERVE_MAX_PAGES / 8];
};
static_assert(sizeof(struct ms_reserve_rep_wire) == 48, "MS_RESERVE reply is ABI");
/* Errors: as MS_WRITE. */

/* --- host order, encode and decode: rules as in proto/pm.h ------------------------------------ */

struct ms_read_req {
	struct proto_file file;
	uint64_t pgoff;
	uint32_t nr_pages;
	struct proto_mr_ref pages[MS_READ_MAX_PAGES];
};

ssize_t ms_read_req_encode(const struct ms_read_req *req, void *buf, size_t cap) __must_check;
int ms_read_req_decode(const void *buf, size_t len, struct ms_read_req *out) __must_check;

struct ms_read_rep {
	uint32_t nr_valid;
	uint32_t last_bytes; /* of the last valid page: 1 to 4096; 0 when there is none */
	uint64_t file_size;
	uint64_t version;
};

void ms_read_rep_encode(const struct ms_read_rep *rep, struct ms_read_rep_wire *w);
int ms_read_rep_decode(const void *buf, size_t len, struct ms_read_rep *out) __must_check;

struct ms_claim_req {
	struct proto_file file;
	uint64_t epoch;
};

void ms_claim_req_encode(const struct ms_claim_req *req, struct ms_claim_req_wire *w);
int ms_claim_req_decode(const void *buf, size_t len, struct ms_claim_req *out) __must_check;

struct ms_file_state {
	uint64_t epoch;
	uint64_t size;
	uint64_t version;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint32_t node;
	uint64_t max_size;
	uint64_t pos;
};

void ms_file_state_encode(const struct ms_file_state *rep, struct ms_file_state_wire *w);
int ms_file_state_decode(const void *buf, size_t len, struct ms_file_state *out) __must_check;

struct ms_write_req {
	struct proto_file file;
	uint64_t epoch;
	uint64_t pgoff;
	uint64_t size;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint32_t nr_pages;
	uint32_t flags;
	uint64_t client;
	uint64_t seq;
};

void ms_write_req_encode(const struct ms_write_req *req, struct ms_write_req_wire *w);
int ms_write_req_decode(const void *buf, size_t len, struct ms_write_req *out) __must_check;

struct ms_change_req {
	struct proto_file file;
	uint64_t epoch;
	uint32_t op;
	uint32_t flags;
	uint64_t off;
	uint64_t len;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint32_t keep;
	uint64_t client;
	uint64_t seq;
};

void ms_change_req_encode(const struct ms_change_req *req, struct ms_change_req_wire *w);
int ms_change_req_decode(const void *buf, size_t len, struct ms_change_req *out) __must_check;

struct ms_release_req {
	struct proto_file file;
	uint64_t epoch;
};

void ms_release_req_encode(const struct ms_release_req *req, struct ms_release_req_wire *w);
int ms_release_req_decode(const void *buf, size_t len, struct ms_release_req *out) __must_check;

struct ms_declare_req {
	uint32_t incarn;
};

void ms_declare_req_encode(const struct ms_declare_req *req, struct ms_declare_req_wire *w);
int ms_declare_req_decode(const void *buf, size_t len, struct ms_declare_req *out) __must_check;

struct ms_reserve_req {
	struct proto_file file;
	uint64_t epoch;
	uint64_t others;
	uint64_t pgoff;
	uint32_t nr;
	uint32_t need;
	uint32_t flags;
};

void ms_reserve_req_encode(const struct ms_reserve_req *req, struct ms_reserve_req_wire *w);
int ms_reserve_req_decode(const void *buf, size_t len, struct ms_reserve_req *out) __must_check;

struct ms_reserve_rep {
	uint64_t mapped;
	uint32_t covered;
	uint8_t holes[MS_RESERVE_MAX_PAGES / 8];
};

void ms_reserve_rep_encode(const struct ms_reserve_rep *rep, struct ms_reserve_rep_wire *w);
int ms_reserve_rep_decode(const void *buf, size_t len, struct ms_reserve_rep *out) __must_check;
