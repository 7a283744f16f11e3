/* SPDX-License-Identifier: MIT */
/*
 * Memory monitor -> memory monitor.
 *
 * Home -> owner (class control): MM_MAP, MM_UNMAP, MM_PROTECT, MM_MOVE, MM_DESTROY, MM_LOAD,
 * MM_FORK, MM_COLLAPSE, MM_DISCARD, MM_VREGION_MOVE, MM_EXPECT. Owner -> owner: MM_PAGES
 * (write-back class), MM_VREGION_TAKE (control). Owner -> home: MM_RELIEVE (control). Any memory
 * node -> the one that holds the page cache of a file: MM_FILE_READ (control).
 *
 * Flow:	phases: a call whose range lies on one owner is sent once (MM_ONCE) and happens or
 *		does not. When it spans owners, the home first sends MM_PREPARE to each: whatever
 *		can fail is done there (vmas cut at the range's ends, vRegions made, memory
 *		charged), and nothing that a program could see. If all agree, MM_APPLY follows,
 *		which cannot run out of memory; else MM_ABORT gives the charge back.
 * Ordering:	no handler of these messages waits for the home, so a home may wait for them with
 *		the space locked.  MM_MOVE and MM_VREGION_MOVE wait for another owner's
 *		MM_PAGES and MM_VREGION_TAKE, which wait for no node.
 *
 * See:	docs/protocol/mm.md, docs/design/memory.md
 */
#pragma once

#include <proto/pm.h>
#include <proto/types.h>

enum mm_opcode {
	MM_MAP = 0x0300,
	MM_UNMAP = 0x0301,
	MM_PROTECT = 0x0302,
	MM_MOVE = 0x0303,
	MM_PAGES = 0x0304,
	MM_DESTROY = 0x0305, /* body as PM_DESTROY, no reply body */
	MM_VREGION_MOVE = 0x0306,
	MM_VREGION_TAKE = 0x0307,
	MM_FILE_READ = 0x0308,
	MM_FORK = 0x0309,
	MM_COLLAPSE = 0x030a, /* body as PM_COLLAPSE */
	MM_DISCARD = 0x030b,  /* body as PM_DISCARD */
	MM_LOAD = 0x030c,
	MM_RELIEVE = 0x030d,
	MM_EXPECT = 0x030e,
};
static_assert(MM_MAP == PROTO_FIRST_OPCODE(PROTO_MM), "opcodes are ABI");

enum mm_phase {
	MM_ONCE = 0,
	MM_PREPARE = 1,
	MM_APPLY = 2,
	MM_ABORT = 3,
};

/* --- MM_MAP: install a vma in the vRegions that the receiver owns -------------------------- */

#define MM_MAP_MAX_VREGIONS 512

struct mm_map_vregion_wire { /* a vRegion of the receiver's that the vma touches */
	le64_t index;
	le64_t version;
};
static_assert(sizeof(struct mm_map_vregion_wire) == 16, "mm_map_vregion is ABI");

/*
 * Header, then nr_vregions entries in ascending order. The range is free: the home has seen to it.
 */
struct mm_map_req_wire {
	le64_t aspace;
	struct pm_vma_wire vma; /* the whole of it; the receiver clips it to each vRegion */
	le64_t charge;          /* MM_APPLY, MM_ABORT: pages that MM_PREPARE has charged */
	le32_t phase;
	le32_t want_credits; /* frames for the processor of the space */
	le32_t nr_vregions;
	le32_t vregion_shift; /* log2 of the vRegion size */
	le32_t processor;     /* which may use the space */
	le32_t vnode;         /* of the space */
};
static_assert(sizeof(struct mm_map_req_wire) == 120, "MM_MAP is ABI");

/* Reply of MM_MAP, MM_UNMAP, MM_PROTECT, MM_MOVE, MM_VREGION_MOVE, MM_FORK, MM_COLLAPSE,
 * MM_DISCARD, MM_LOAD. */
struct mm_range_rep_wire {
	le64_t charge; /* MM_PREPARE: pages charged */
	le64_t pages;  /* pages freed, moved or renamed */
	struct pm_grant_wire grant;
};
static_assert(sizeof(struct mm_range_rep_wire) == 32, "MM range reply is ABI");

/* --- MM_UNMAP, MM_PROTECT: every vRegion of the receiver's in the range --------------------- */

/* MM_PROTECT: private anonymous memory becomes a lease. */
#define MM_PROT_LEASE (1u << 3)

struct mm_range_req_wire {
	le64_t aspace;
	le64_t addr;
	le64_t len;
	le64_t charge;
	le32_t prot; /* MM_PROTECT: PM_PROT_*, or MM_PROT_LEASE with reading and writing */
	le32_t phase;
};
static_assert(sizeof(struct mm_range_req_wire) == 40, "MM range request is ABI");

/* --- MM_MOVE: pages of mremap, from where the receiver owns them to their new owners -------- */

/* Header, then the vRegion entries of the new range, in ascending order. */
struct mm_move_req_wire {
	le64_t aspace;
	le64_t old_addr;
	le64_t new_addr;
	le64_t len;
	le32_t nr_vregions; /* at most MM_MAP_MAX_VREGIONS */
	le32_t vregion_shift;
	le64_t seq; /* write-back number that the pages get */
};
static_assert(sizeof(struct mm_move_req_wire) == 48, "MM_MOVE is ABI");

#define MM_PAGES_MAX 32

/* Header, then nr_pages struct pm_writeback_page_wire; the bulk holds the pages in that order. */
struct mm_pages_req_wire {
	le64_t aspace;
	le32_t nr_pages;
	le32_t reserved;
};
static_assert(sizeof(struct mm_pages_req_wire) == 16, "MM_PAGES is ABI");

/* --- moving a vRegion to another owner ------------------------------------------------------- */

struct mm_vregion_move_req_wire { /* home -> old owner */
	le64_t aspace;
	struct pm_vregion_wire vregion; /* as it will be: new owner, higher version */
	le32_t processor;
	le32_t vnode;
};
static_assert(sizeof(struct mm_vregion_move_req_wire) == 40, "MM_VREGION_MOVE is ABI");

/*
 * Home -> an owner that will get pages of the space from another owner: @from alone may send them
 * (MM_PAGES, MM_VREGION_TAKE) until the next MM_EXPECT. @from 0: nobody may.  No reply body.
 */
struct mm_expect_req_wire {
	le64_t aspace;
	le32_t from;
	le32_t processor;
	le32_t vnode;
	le32_t reserved;
};
static_assert(sizeof(struct mm_expect_req_wire) == 24, "MM_EXPECT is ABI");

/*
 * Owner -> home: @to has more room than we.  The home moves the vRegion there, if no other call of
 * the space is under way.  No reply body.  -EAGAIN: one is; -ESTALE: it is not the sender's; and
 * what MM_VREGION_MOVE answers.
 */
struct mm_relieve_req_wire {
	le64_t aspace;
	le64_t index;
	le32_t to;
	le32_t reserved;
};
static_assert(sizeof(struct mm_relieve_req_wire) == 24, "MM_RELIEVE is ABI");

enum mm_take_stage {
	MM_TAKE_BEGIN = 1, /* make the vRegion; faults on it wait */
	MM_TAKE_VMAS = 2,  /* vmas that it holds, in ascending order, in one or more messages */
	MM_TAKE_DONE = 3,  /* all pages have come: the receiver is the owner */
	MM_TAKE_ABORT = 4, /* forget it */
};

#define MM_TAKE_MAX_VMAS 64

/* Header, then nr_vmas vmas (MM_TAKE_VMAS). */
struct mm_vregion_take_req_wire { /* old owner -> new owner */
	le64_t aspace;
	struct pm_vregion_wire vregion;
	le32_t stage;
	le32_t nr_vmas;
	le32_t vregion_shift;
	le32_t home; /* of the space */
	le32_t processor;
	le32_t vnode;
};
static_assert(sizeof(struct mm_vregion_take_req_wire) == 56, "MM_VREGION_TAKE is ABI");

/* --- MM_FORK: every vRegion of the receiver's of a space -------------------------------------- */

/*
 * MM_ONCE makes the child, which is charged, and gives the space's vmas to the parent; MM_ABORT
 * undoes it, as long as the processor does not know of the new spaces. There are no other phases:
 * what one owner has done is undone when another cannot.
 */
struct mm_fork_req_wire {
	le64_t aspace;
	le64_t parent;
	le64_t child;
	le32_t want_credits; /* frames for the processor of the space */
	le32_t phase;        /* MM_ONCE or MM_ABORT */
};
static_assert(sizeof(struct mm_fork_req_wire) == 32, "MM_FORK is ABI");

/* --- MM_LOAD: the vmas of a new space, in the vRegions that the receiver owns ----------------- */

#define MM_LOAD_MAX_VMAS 64

/*
 * Header, then nr_vmas vmas, then nr_vregions struct mm_map_vregion_wire, both ascending. The
 * receiver clips the vmas to each vRegion. After an error it has nothing of the space.
 */
struct mm_load_req_wire {
	le64_t aspace;
	le32_t want_credits;
	le32_t vregion_shift;
	le32_t nr_vmas;     /* 1 to MM_LOAD_MAX_VMAS */
	le32_t nr_vregions; /* 1 to MM_MAP_MAX_VREGIONS */
	le32_t processor;
	le32_t vnode;
};
static_assert(sizeof(struct mm_load_req_wire) == 32, "MM_LOAD is ABI");

/* --- MM_FILE_READ: a few bytes of a file, for the program loader ------------------------------ */

#define MM_FILE_READ_MAX 8192

struct mm_file_read_req_wire {
	struct proto_file_wire file;
	le64_t offset;
	le32_t len; /* 1 to MM_FILE_READ_MAX */
	le32_t reserved;
};
static_assert(sizeof(struct mm_file_read_req_wire) == 48, "MM_FILE_READ is ABI");
/* Reply: the bytes; fewer than asked for at the end of the file. */

/* --- host order, encode and decode: rules as in proto/pm.h ------------------------------------ */

struct mm_map_vregion {
	uint64_t index;
	uint64_t version;
};

struct mm_map_req { /* about 8 KiB: not for a kernel stack */
	uint64_t aspace;
	struct pm_vma vma;
	uint64_t charge;
	uint32_t phase;
	uint32_t want_credits;
	uint32_t nr_vregions;
	uint32_t vregion_shift;
	uint32_t processor;
	uint32_t vnode;
	struct mm_map_vregion vregions[MM_MAP_MAX_VREGIONS];
};

ssize_t mm_map_req_encode(const struct mm_map_req *req, void *buf, size_t cap) __must_check;
int mm_map_req_decode(const void *buf, size_t len, struct mm_map_req *out) __must_check;

struct mm_range_rep {
	uint64_t charge;
	uint64_t pages;
	struct pm_grant grant;
};

void mm_range_rep_encode(const struct mm_range_rep *rep, struct mm_range_rep_wire *w);
int mm_range_rep_decode(const void *buf, size_t len, struct mm_range_rep *out) __must_check;

struct mm_range_req {
	uint64_t aspace;
	uint64_t addr;
	uint64_t len;
	uint64_t charge;
	uint32_t prot;
	uint32_t phase;
};

void mm_range_req_encode(const struct mm_range_req *req, struct mm_range_req_wire *w);
int mm_range_req_decode(const void *buf, size_t len, struct mm_range_req *out) __must_check;

struct mm_move_req { /* about 16 KiB: not for a kernel stack */
	uint64_t aspace;
	uint64_t old_addr;
	uint64_t new_addr;
	uint64_t len;
	uint32_t nr_vregions;
	uint32_t vregion_shift;
	uint64_t seq;
	struct pm_vregion vregions[MM_MAP_MAX_VREGIONS];
};

ssize_t mm_move_req_encode(const struct mm_move_req *req, void *buf, size_t cap) __must_check;
int mm_move_req_decode(const void *buf, size_t len, struct mm_move_req *out) __must_check;

struct mm_pages_req {
	uint64_t aspace;
	uint32_t nr_pages;
	struct pm_writeback_page pages[MM_PAGES_MAX]; /* seq may be 0: never written back */
};

ssize_t mm_pages_req_encode(const struct mm_pages_req *req, void *buf, size_t cap) __must_check;
int mm_pages_req_decode(const void *buf, size_t len, struct mm_pages_req *out) __must_check;

struct mm_vregion_move_req {
	uint64_t aspace;
	struct pm_vregion vregion;
	uint32_t processor;
	uint32_t vnode;
};

void mm_vregion_move_req_encode(const struct mm_vregion_move_req *req,
				struct mm_vregion_move_req_wire *w);
int mm_vregion_move_req_decode(const void *buf, size_t len, struct mm_vregion_move_req *out)
	__must_check;

struct mm_expect_req {
	uint64_t aspace;
	uint32_t from;
	uint32_t processor;
	uint32_t vnode;
};

void mm_expect_req_encode(const struct mm_expect_req *req, struct mm_expect_req_wire *w);
int mm_expect_req_decode(const void *buf, size_t len, struct mm_expect_req *out) __must_check;

struct mm_relieve_req {
	uint64_t aspace;
	uint64_t index;
	uint32_t to;
};

void mm_relieve_req_encode(const struct mm_relieve_req *req, struct mm_relieve_req_wire *w);
int mm_relieve_req_decode(const void *buf, size_t len, struct mm_relieve_req *out) __must_check;

struct mm_vregion_take_req { /* about 5 KiB: not for a kernel stack */
	uint64_t aspace;
	struct pm_vregion vregion;
	uint32_t stage;
	uint32_t nr_vmas;
	uint32_t vregion_shift;
	uint32_t home;
	uint32_t processor;
	uint32_t vnode;
	struct pm_vma vmas[MM_TAKE_MAX_VMAS];
};

ssize_t mm_vregion_take_req_encode(const struct mm_vregion_take_req *req, void *buf, size_t cap)
	__must_check;
int mm_vregion_take_req_decode(const void *buf, size_t len, struct mm_vregion_take_req *out)
	__must_check;

struct mm_fork_req {
	uint64_t aspace;
	uint64_t parent;
	uint64_t child;
	uint32_t want_credits;
	uint32_t phase;
};

void mm_fork_req_encode(const struct mm_fork_req *req, struct mm_fork_req_wire *w);
int mm_fork_req_decode(const void *buf, size_t len, struct mm_fork_req *out) __must_check;

struct mm_load_req { /* about 14 KiB: not for a kernel stack */
	uint64_t aspace;
	uint32_t want_credits;
	uint32_t vregion_shift;
	uint32_t nr_vmas;
	uint32_t nr_vregions;
	uint32_t processor;
	uint32_t vnode;
	struct pm_vma vmas[MM_LOAD_MAX_VMAS];
	struct mm_map_vregion vregions[MM_MAP_MAX_VREGIONS];
};

#define MM_LOAD_MAX_BYTES                                                                  \
	(sizeof(struct mm_load_req_wire) + MM_LOAD_MAX_VMAS * sizeof(struct pm_vma_wire) + \
	 MM_MAP_MAX_VREGIONS * sizeof(struct mm_map_vregion_wire))

ssize_t mm_load_req_encode(const struct mm_load_req *req, void *buf, size_t cap) __must_check;
int mm_load_req_decode(const void *buf, size_t len, struct mm_load_req *out) __must_check;

struct mm_file_read_req {
	struct proto_file file;
	uint64_t offset;
	uint32_t len;
};

void mm_file_read_req_encode(const struct mm_file_read_req *req, struct mm_file_read_req_wire *w);
int mm_file_read_req_decode(const void *buf, size_t len, struct mm_file_read_req *out) __must_check;
