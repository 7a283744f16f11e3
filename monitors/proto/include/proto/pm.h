/* SPDX-License-Identifier: MIT */
/*
 * Processor -> memory monitor.
 *
 * To the home node of an address space (class control): PM_EXEC, PM_MMAP, PM_MUNMAP, PM_MPROTECT,
 * PM_MREMAP, PM_BRK, PM_LEASE, PM_VREGIONS, PM_DESTROY, PM_FORK, PM_COLLAPSE, PM_DISCARD, PM_SPACE.
 * The home validates, assigns addresses, tells the owners (proto/mm.h), and replies with the
 * vRegion entries that the range touches.
 *
 * There are three kinds of spaces: one with mappings (PM_EXEC, PM_FORK's parent and child); a
 * frozen one, whose mappings PM_FORK has given away and which keeps its pages; a page-only one
 * (PM_SPACE), the memory of a shared object, addressed by the object's pages from 0.
 *
 * To the owner of a vRegion: PM_FETCH and PM_FILL_VMA (demand), PM_FETCH_AHEAD (prefetch),
 * PM_WRITEBACK (write-back class), PM_CREDIT (control). To any memory node: PM_MEMINFO, PM_COMMIT
 * (control). To the node that holds a file's page cache: PM_FILE_FETCH (demand or prefetch),
 * PM_FILE_WRITE (write-back class), PM_FILE_OPEN, PM_FILE_CHANGE (control).
 *
 * A node that is asked about a vRegion it does not own answers -EREMCHG with struct
 * pm_redirect_wire as the body: the caller updates its copy of the vRegion array and asks there.
 *
 * See:	docs/protocol/pm.md, docs/design/memory.md
 */
#pragma once

#include <proto/types.h>

enum pm_opcode {
	PM_EXEC = 0x0200,
	PM_MMAP = 0x0201,
	PM_MUNMAP = 0x0202,
	PM_MPROTECT = 0x0203,
	PM_MREMAP = 0x0204,
	PM_BRK = 0x0205,
	PM_VREGIONS = 0x0206,
	PM_DESTROY = 0x0207,
	PM_FETCH = 0x0208,
	PM_FILL_VMA = 0x0209,
	PM_WRITEBACK = 0x020a,
	PM_CREDIT = 0x020b,
	PM_FILE_FETCH = 0x020c,
	PM_FORK = 0x020d,
	PM_COLLAPSE = 0x020e,
	PM_DISCARD = 0x020f,
	PM_SPACE = 0x0210,
	PM_MEMINFO = 0x0211,
	PM_COMMIT = 0x0212,
	PM_FETCH_AHEAD = 0x0213,
	PM_LEASE = 0x0214,
	PM_FILE_OPEN = 0x0215,
	PM_FILE_WRITE = 0x0216,
	PM_FILE_CHANGE = 0x0217,
};
static_assert(PM_EXEC == PROTO_FIRST_OPCODE(PROTO_PM), "opcodes are ABI");

/*
 * Exclusive end of what is mapped for programs; the last 4 GiB of user addresses are the
 * processor's own, which maps the vDSO there without a message.
 */
#define PM_USER_TOP    0x7ffeffff0000ull
#define PM_LOW_TOP     0x80000000ull /* for programs that keep addresses in 31 bits */
#define PM_VREGION_MIN (2ull << 20)  /* bytes; a vRegion's size is a power of two */
#define PM_VREGION_MAX (1ull << 46)

/* --- vRegions and vmas, parts of several replies ------------------------------------- */

struct pm_vregion_wire {  /* one entry of the vRegion array */
	le64_t index;     /* address / vRegion size */
	le32_t owner;     /* node id; 0 = not active */
	le32_t secondary; /* node id; 0 = none */
	le64_t version;   /* grows with every change of this entry */
};
static_assert(sizeof(struct pm_vregion_wire) == 24, "pm_vregion is ABI");

enum pm_prot {
	PM_PROT_READ = 1,
	PM_PROT_WRITE = 2,
	PM_PROT_EXEC = 4,
	PM_PROT_ALL = 7,
};

#define PM_STACK_GUARD (1ull << 20)

enum pm_vma_flags {
	PM_VMA_SHARED = 1 << 0,
	PM_VMA_STACK = 1 << 1, /* the stack that exec makes; grows down */
	PM_VMA_HEAP = 1 << 2,  /* brk */
	PM_VMA_FILE = 1 << 3,  /* file and pgoff are valid */
	PM_VMA_NORESERVE = 1 << 4,
	PM_VMA_OBJECT = 1 << 5,    /* pages of a page-only space: object and pgoff are valid */
	PM_VMA_LEASE = 1 << 6,     /* the processor maps, unmaps and protects in it by itself */
	PM_VMA_READ_ONLY = 1 << 7, /* PM_MAP_READ_ONLY; with PM_VMA_SHARED */
	PM_VMA_GROWS = 1 << 8,     /* PM_MAP_GROWS */
	PM_VMA_ALL = 511,
};

struct pm_vma_wire {
	le64_t start; /* page aligned */
	le64_t end;   /* exclusive */
	le64_t pgoff; /* page of the file or object behind start */
	/*
	 * PM_VMA_FILE, PM_VMA_OBJECT: bytes of it that the mapping shows, counted from pgoff *
	 * 4096. ~0 = the whole of it. Behind it (a program's bss) pages are zero-filled.
	 */
	le64_t file_bytes;
	struct proto_file_wire file; /* PM_VMA_OBJECT: ino is the id of the object's space */
	le32_t prot;                 /* enum pm_prot */
	le32_t flags;                /* enum pm_vma_flags */
	le32_t cache_node;           /* PM_VMA_FILE: memory node that holds the file's page cache */
	le32_t reserved;
};
static_assert(sizeof(struct pm_vma_wire) == 80, "pm_vma is ABI");

/* Reply body of a request to a node that no longer owns the vRegion (status -EREMCHG). */
struct pm_redirect_wire {
	struct pm_vregion_wire vregion;
};

/*
 * Frame credits: the owner promises that many frames for pages of this processor that it has not
 * seen yet (p-local lines). A write-back of such a page uses one up. Replies piggy-back grants. A
 * grant is good only if the processor has made no report (PM_CREDIT) since.
 */
struct pm_grant_wire {
	le32_t node; /* the granting owner */
	le32_t frames;
	le64_t report; /* the last that the owner had when it granted; 0: none */
};
static_assert(sizeof(struct pm_grant_wire) == 16, "pm_grant is ABI");

#define PM_PLACE_FRAMES_MAX (1u << 18) /* of an extent: 1 GiB */

/*
 * Where a page lies that this processor may read by itself: in an extent that holds pages of this
 * processor's programs and no others, and is one region for it. MP_REVOKE ends that.
 */
struct pm_place_wire {
	le32_t extent; /* its number: no other one of this owner has had it; 0: not to be read */
	le32_t rkey;   /* of the region, whose addresses count from 0 */
	le32_t frame;  /* the page is at frame * 4096 */
};
static_assert(sizeof(struct pm_place_wire) == 12, "pm_place is ABI");

/* --- the number of a space ------------------------------------------------------------ */

/*
 * A space's number begins with the node that is its home when it is made, and the processor that
 * makes it; the rest makes it unique. So an owner that has nothing of a space yet knows from whom
 * it may hear of it, and no processor makes a space by a name that another one will want. Which
 * processor may use the space later is no part of the number, but a field at its home and owners.
 */
#define PM_SPACE_HOME_SHIFT  48
#define PM_SPACE_MAKER_SHIFT 32
static inline uint32_t pm_space_home(uint64_t aspace)
{
	return (uint32_t)(aspace >> PM_SPACE_HOME_SHIFT);
}

static inline uint32_t pm_space_maker(uint64_t aspace)
{
	return (uint16_t)(aspace >> PM_SPACE_MAKER_SHIFT);
}

/* --- PM_EXEC: make an address space and load a program into it ----------------------- */

#define PM_EXEC_MAX_VMAS     64
#define PM_EXEC_MAX_VREGIONS 64
#define PM_MAX_GRANTS        64 /* of any reply: one per memory node that the call reached */

#define PM_EXEC_HEAD_MAX 4096

/* Header, groups, the first head_len bytes of the program, interp_len bytes of a path. */
struct pm_exec_req_wire {
	le64_t aspace;               /* new, cluster-unique: see pm_space_home() */
	struct proto_file_wire file; /* the program; the processor has looked it up and checked x */
	le64_t stack_size;  /* bytes of address space for the stack (RLIMIT_STACK, capped) */
	le64_t random_seed; /* for address randomisation; 0 = none */
	struct proto_cred_wire cred; /* for PT_INTERP; groups follow */
	le32_t vnode;
	le32_t want_credits; /* frames */
	/*
	 * A program in a shared object, instead of in a file: the object's space, and how much of
	 * its beginning comes along. Headers beyond that are not seen: -ENOEXEC.
	 */
	le64_t object;
	le32_t storage;  /* where PT_INTERP is looked up; 0: where the file is, or nowhere */
	le32_t head_len; /* 1 to PM_EXEC_HEAD_MAX; 0 for a file */
	/*
	 * The file that PT_INTERP means to a program whose "/" is another one: its path in the file
	 * system of @storage, which is then not 0. 0: PT_INTERP as it stands.
	 */
	le32_t interp_len;
	le32_t reserved;
};
static_assert(sizeof(struct pm_exec_req_wire) == 104, "PM_EXEC is ABI");

enum pm_exec_flags {
	PM_EXEC_STACK_X = 1 << 0, /* the program wants an executable stack */
	PM_EXEC_INTERP = 1 << 1,  /* the interpreter's attributes are at the end */
	PM_EXEC_ALL = 3,
};

/*
 * Reply: this header, nr_vmas vmas, nr_vregions vRegion entries, nr_grants grants, struct
 * proto_attr_wire.
 */
struct pm_exec_rep_wire {
	le64_t entry;       /* where to start: the interpreter's entry if there is one */
	le64_t prog_entry;  /* AT_ENTRY */
	le64_t phdr;        /* AT_PHDR, 0 = not mapped */
	le64_t interp_base; /* AT_BASE, 0 = no interpreter */
	le64_t brk_start;   /* page aligned */
	le64_t stack_top;   /* exclusive, page aligned */
	le64_t stack_bottom;
	le64_t vregion_size; /* bytes */
	le64_t code_start, code_end, data_start, data_end;
	le16_t phent;
	le16_t phnum;
	le32_t flags;   /* enum pm_exec_flags */
	le16_t nr_vmas; /* all of them, or PM_EXEC_MAX_VMAS: the rest by PM_FILL_VMA */
	le16_t nr_vregions;
	le16_t nr_grants;
	le16_t reserved;
};
static_assert(sizeof(struct pm_exec_rep_wire) == 112, "PM_EXEC reply is ABI");
/* Errors: -ENOEXEC, -ENOMEM, -EACCES, -ENOENT (interpreter), -ELIBBAD, -EIO, -EEXIST (aspace). */

/* --- address space calls, to the home: replies are struct pm_range_rep_wire + arrays ---- */

enum pm_map_flags {                      /* our own numbers; the processor translates MAP_* */
	PM_MAP_FIXED = 1 << 0,           /* replaces what is there */
	PM_MAP_FIXED_NOREPLACE = 1 << 1, /* -EEXIST instead */
	PM_MAP_SHARED = 1 << 2,
	PM_MAP_STACK = 1 << 3,
	PM_MAP_NORESERVE = 1 << 4,
	PM_MAP_LOW = 1 << 5, /* below PM_LOW_TOP, unless the place is fixed */
	/* PM_MAP_SHARED of a file that is not open for writing: no right to write comes later */
	PM_MAP_READ_ONLY = 1 << 6,
	PM_MAP_GROWS = 1 << 7, /* grows down: other mappings keep PM_STACK_GUARD below it free */
	PM_MAP_ALL = 255,
};

struct pm_mmap_req_wire {
	le64_t aspace;
	le64_t addr; /* hint, or fixed */
	le64_t len;  /* bytes, page aligned, not 0 */
	le64_t pgoff;
	struct proto_file_wire file; /* node 0 = no file */
	le64_t object;               /* a page-only space; 0 = none.  Neither = anonymous */
	le32_t prot;
	le32_t flags; /* enum pm_map_flags */
	le32_t want_credits;
	/*
	 * Private memory, also of a file, anywhere or with PM_MAP_FIXED_NOREPLACE: lease so many
	 * pages, at least @len, in the place of the mapping, from @addr on if that is fixed; what
	 * of it shows the file, the processor alone knows. 0 = no lease.
	 */
	le32_t lease_pages;
};
static_assert(sizeof(struct pm_mmap_req_wire) == 88, "PM_MMAP is ABI");

struct pm_range_req_wire { /* PM_MUNMAP, PM_MPROTECT (prot) */
	le64_t aspace;
	le64_t addr;
	le64_t len;
	le32_t prot;
	/*
	 * PM_MPROTECT: what is mapped at addr, for so many pages, at least @len, is private
	 * anonymous memory and shall be a lease. 0 = no lease.
	 */
	le32_t lease_pages;
};
static_assert(sizeof(struct pm_range_req_wire) == 32, "PM_MUNMAP is ABI");

enum pm_mremap_flags {
	PM_MREMAP_MAYMOVE = 1 << 0,
	PM_MREMAP_FIXED = 1 << 1,
	PM_MREMAP_ALL = 3,
};

/*
 * The processor has already written back and dropped every line of the old range when it may
 * move; first it asks without PM_MREMAP_MAYMOVE, which needs no flush and grows or shrinks in
 * place.
 */
struct pm_mremap_req_wire {
	le64_t aspace;
	le64_t old_addr;
	le64_t old_len;
	le64_t new_len;
	le64_t new_addr; /* PM_MREMAP_FIXED */
	le32_t flags;
	le32_t want_credits;
	le64_t seq; /* PM_MREMAP_MAYMOVE: write-back number of pages that move; else 0 */
};
static_assert(sizeof(struct pm_mremap_req_wire) == 56, "PM_MREMAP is ABI");

struct pm_brk_req_wire {
	le64_t aspace;
	le64_t brk; /* wanted, byte address; the reply's addr is what holds now */
	le32_t want_credits;
	le32_t lease_pages; /* behind brk, rounded up, if they can be had: it is behind them then */
};
static_assert(sizeof(struct pm_brk_req_wire) == 24, "PM_BRK is ABI");

#define PM_RANGE_MAX_VMAS     64
#define PM_RANGE_MAX_VREGIONS 256

/*
 * Reply of MMAP, MUNMAP, MPROTECT, MREMAP, BRK: the header, then vmas (as they now are, within the
 * range), vRegion entries, grants.  Outside the range nothing has changed.  When there are more
 * vmas than fit, the rest is asked for by PM_FILL_VMA.
 */
struct pm_range_rep_wire {
	le64_t addr;
	le16_t nr_vmas;
	le16_t nr_vregions; /* those of the range that fit; the rest by PM_VREGIONS */
	le16_t nr_grants;
	le16_t reserved;
};
static_assert(sizeof(struct pm_range_rep_wire) == 16, "PM range reply is ABI");

/* --- PM_LEASE: a processor tells what has become of parts of its leases -------------------- */

#define PM_LEASE_MAX_RANGES 128

enum pm_lease_flags {
	PM_LEASE_MAPPED = 1 << 0, /* mapped with prot from here on, as any mapping; else unmapped */
	PM_LEASE_ALL = 1,
};

struct pm_lease_range_wire { /* whole pages, not empty; in a list: ascending, without overlap */
	le64_t addr;
	le64_t len;
	le32_t prot;  /* enum pm_prot; 0 without PM_LEASE_MAPPED */
	le32_t flags; /* enum pm_lease_flags */
};
static_assert(sizeof(struct pm_lease_range_wire) == 24, "pm_lease_range is ABI");

/*
 * Header, then nr_ranges ranges, which are leased, or are already what the message says. Reply:
 * struct pm_range_rep_wire, whose addr is the end of the last range that has been done: there may
 * be no memory for those behind it. A number that has been served is answered as it was then.
 */
struct pm_lease_req_wire {
	le64_t aspace;
	le64_t number;    /* grows with each batch of the space */
	le32_t nr_ranges; /* 1 to PM_LEASE_MAX_RANGES */
	le32_t reserved;
};
static_assert(sizeof(struct pm_lease_req_wire) == 24, "PM_LEASE is ABI");
/* Errors: -EINVAL not leased, -ESTALE a newer batch has been served, -ENOMEM nothing is done. */

enum pm_vregions_flags {
	PM_VREGIONS_ACTIVATE = 1 << 0, /* page-only spaces: all of them become active */
	PM_VREGIONS_ALL = 1,
};

struct pm_vregions_req_wire {
	le64_t aspace;
	le64_t first; /* index of the first entry wanted */
	le32_t count;
	le32_t flags;        /* enum pm_vregions_flags */
	le32_t want_credits; /* PM_VREGIONS_ACTIVATE */
	le32_t reserved;
};
static_assert(sizeof(struct pm_vregions_req_wire) == 32, "PM_VREGIONS is ABI");
/* Reply: pm_range_rep_wire with addr = the size of a vRegion in bytes, entries and grants. */

struct pm_destroy_req_wire {
	le64_t aspace;
};
#define PM_DESTROY_MAX 64
/*
 * PM_DESTROY: one to PM_DESTROY_MAX of these; MM_DESTROY: one. Frees everything on all owners
 * before it is answered. Idempotent: unknown space = 0.
 */

/* --- fork, and spaces without mappings: docs/design/fork.md -------------------------------- */

/*
 * @aspace is frozen: its mappings, brk and the rest become @parent's, and @child gets a copy.  All
 * owners do it or none.  Reply: struct pm_range_rep_wire with addr = the size of a vRegion, the
 * entries of all three (the first PM_RANGE_MAX_VREGIONS; the rest by PM_VREGIONS), and grants.
 */
struct pm_fork_req_wire {
	le64_t aspace;
	le64_t parent; /* new ids, of the same home */
	le64_t child;
	le32_t want_credits;
	le32_t reserved;
};
static_assert(sizeof(struct pm_fork_req_wire) == 32, "PM_FORK is ABI");

#define PM_DISCARD_MAX_RANGES 256

struct pm_page_range_wire { /* whole pages, not empty; in a list: ascending, without overlap */
	le64_t addr;
	le64_t len;
};
static_assert(sizeof(struct pm_page_range_wire) == 16, "pm_page_range is ABI");

/* Header, then nr_ranges ranges: their pages are dropped.  No reply body. */
struct pm_discard_req_wire {
	le64_t aspace;
	le32_t nr_ranges; /* 1 to PM_DISCARD_MAX_RANGES */
	le32_t reserved;
};
static_assert(sizeof(struct pm_discard_req_wire) == 16, "PM_DISCARD is ABI");

/*
 * Header, then nr_ranges ranges of @from whose pages are dropped first.  The rest become pages of
 * @into unless that has the page; then @from is gone.  No reply body.
 */
struct pm_collapse_req_wire {
	le64_t from;      /* a frozen space */
	le64_t into;      /* one with mappings, or a frozen one */
	le32_t nr_ranges; /* 0 to PM_DISCARD_MAX_RANGES */
	le32_t reserved;
};
static_assert(sizeof(struct pm_collapse_req_wire) == 24, "PM_COLLAPSE is ABI");

enum pm_space_flags {
	PM_SPACE_RESERVE = 1 << 0, /* charge @len bytes; the space cannot become larger */
	PM_SPACE_ALL = 1,
};

/* Make a page-only space.  Reply: as PM_VREGIONS_ACTIVATE for the vRegions of [0, len). */
struct pm_space_req_wire {
	le64_t aspace; /* new */
	le64_t len;    /* bytes, page aligned: active at once; 0 = nothing yet */
	le32_t flags;  /* enum pm_space_flags */
	le32_t vnode;
	le32_t want_credits;
	le32_t reserved;
};
static_assert(sizeof(struct pm_space_req_wire) == 32, "PM_SPACE is ABI");

/* --- owner: demand path -------------------------------------------------------------- */

enum pm_fetch_flags {
	PM_FETCH_WRITE = 1 << 0,  /* the fault was a write */
	PM_FETCH_VICTIM = 1 << 1, /* 4 KiB of bulk follow: piggy-backed write-back of victim_* */
	PM_FETCH_ALL = 3,
};

struct pm_fetch_req_wire {
	le64_t aspace;
	le64_t vaddr;                  /* page aligned */
	struct proto_mr_ref_wire line; /* where the page is to be written, len 4096 */
	le32_t flags;
	le32_t want_credits;
	le64_t victim_aspace;
	le64_t victim_vaddr;
	le64_t victim_seq; /* as pm_writeback_page_wire.seq */
};
static_assert(sizeof(struct pm_fetch_req_wire) == 64, "PM_FETCH is ABI");

enum pm_fetch_result {
	PM_FETCH_DATA = 0, /* the page has been written into the line */
	PM_FETCH_ZERO =
		1, /* anonymous and never written: fill it with zeroes; a frame credit is used */
	/* the page of a private mapping of a file or object that was never written: it is theirs */
	PM_FETCH_FILE = 2,
};

struct pm_fetch_rep_wire {
	le32_t result; /* enum pm_fetch_result */
	le32_t prot;   /* enum pm_prot of the vma */
	struct pm_grant_wire grant;
	le32_t victim_status; /* negative errno as two's complement: 0 = the victim is stored */
	le32_t reserved;
	struct pm_place_wire page;   /* of the page that has been sent */
	struct pm_place_wire victim; /* of the victim that has been stored */
};
static_assert(sizeof(struct pm_fetch_rep_wire) == 56, "PM_FETCH reply is ABI");
/* Errors: -EFAULT no vma, -EACCES, -EREMCHG redirect, -ESRCH no such space, -ENOMEM, -EIO. */

#define PM_FETCH_AHEAD_MAX 32

struct pm_ahead_page_wire {
	le64_t vaddr;                  /* page aligned */
	struct proto_mr_ref_wire line; /* where the page is to be written, len 4096 */
};
static_assert(sizeof(struct pm_ahead_page_wire) == 24, "pm_ahead_page is ABI");

/* Header, nr_pages pages. */
struct pm_fetch_ahead_req_wire {
	le64_t aspace;
	le32_t nr_pages; /* 1 to PM_FETCH_AHEAD_MAX */
	le32_t reserved;
};
static_assert(sizeof(struct pm_fetch_ahead_req_wire) == 16, "PM_FETCH_AHEAD is ABI");

struct pm_fetch_ahead_rep_wire {
	le32_t sent; /* bit i: page i of the request has been written; not why others were not */
	le32_t reserved;
};
static_assert(sizeof(struct pm_fetch_ahead_rep_wire) == 8, "PM_FETCH_AHEAD reply is ABI");

struct pm_fill_vma_req_wire { /* which vma is at this address? */
	le64_t aspace;
	le64_t vaddr;
};
/* Reply: struct pm_vma_wire, clipped to the vRegion. -EFAULT none; -EREMCHG redirect. */

/* --- owner: write-back --------------------------------------------------------------- */

#define PM_WRITEBACK_MAX_PAGES 16

struct pm_writeback_page_wire {
	le64_t vaddr;
	/*
	 * Grows with each write-back of this page by this processor: an older one that arrives
	 * later (after a retry) is acknowledged and dropped.
	 */
	le64_t seq;
};

/*
 * Header, nr_pages page records; the bulk holds the pages that are not all zeroes, 4 KiB each, in
 * that order.
 */
struct pm_writeback_req_wire {
	le64_t aspace;
	le32_t nr_pages;
	le32_t zeroes; /* bit i: page i is all zeroes, and the bulk does not have it */
};
static_assert(sizeof(struct pm_writeback_req_wire) == 16, "PM_WRITEBACK is ABI");

/* Reply: one of these for each page, then a grant. */
struct pm_stored_wire {
	le32_t status; /* negative errno as two's complement: 0 = it is stored */
	struct pm_place_wire place;
};
static_assert(sizeof(struct pm_stored_wire) == 16, "pm_stored is ABI");

/*
 * A report: all that the processor has of the owner, in absolute numbers. The owner sets its
 * account to it and adds a grant.
 */
struct pm_credit_req_wire {
	le64_t report; /* grows with each report to this node; not 0 */
	le32_t hold;   /* frames that credits in hand and p-local lines stand for */
	le32_t want;   /* frames wanted on top; there may be fewer */
};
static_assert(sizeof(struct pm_credit_req_wire) == 16, "PM_CREDIT is ABI");
struct pm_credit_rep_wire {
	le64_t report; /* as asked */
	le32_t frames; /* reserved for the processor now: perhaps less than hold */
	le32_t reserved;
};
static_assert(sizeof(struct pm_credit_rep_wire) == 16, "PM_CREDIT reply is ABI");
/* -ESTALE: it has had a later report. */

/* --- any memory node: PM_MEMINFO, without a body; PM_COMMIT -------------------------- */

struct pm_meminfo_rep_wire { /* frames of 4 KiB */
	le64_t total;        /* for pages of programs and files */
	le64_t free;         /* hold nothing; some may be granted */
	le64_t file;         /* hold clean pages of files, and give way */
	le64_t granted;      /* credits that processors hold */
	le64_t committed;    /* that mappings are charged for */
	le64_t programs;     /* that programs may have at most: the others are for files */
	le64_t commit_limit; /* that mappings are charged for at most in the strict mode */
};
static_assert(sizeof(struct pm_meminfo_rep_wire) == 56, "PM_MEMINFO is ABI");

#define PM_COMMIT_NODE_BITS 16 /* of a version: the node that set it */

#define PM_COMMITTED_MAX (1ull << 44) /* pages at one node, in every mode */

enum pm_commit_mode {        /* as vm.overcommit_memory of Linux */
	PM_COMMIT_HEURISTIC, /* only what can never be had is refused */
	PM_COMMIT_ALWAYS,    /* nothing is */
	PM_COMMIT_STRICT,    /* what is more than the commit limit */
	PM_COMMIT_MODES,
};

/*
 * How mappings are charged.  The receiver takes over a policy that is newer than its own.  The
 * reply is the policy that holds there then, so version 0 only asks.  Memory nodes tell one that
 * joins.
 */
struct pm_commit_wire {
	le64_t version;  /* (count << 16 | node that set it); 0: the receiver's boot parameters */
	le32_t mode;     /* enum pm_commit_mode */
	le32_t ratio;    /* percent of the frames that programs may have, when kbytes is 0 */
	le64_t kbytes;   /* the commit limit of the cluster; 0: ratio says */
	le64_t programs; /* frames that programs may have on all nodes together */
};
static_assert(sizeof(struct pm_commit_wire) == 32, "PM_COMMIT is ABI");

/* --- file pages ---------------------------------------------------------------------- */

#define PM_FILE_FETCH_MAX 32

/* Header, then nr_pages memory references, one per consecutive page from pgoff. */
struct pm_file_fetch_req_wire {
	struct proto_file_wire file;
	le64_t pgoff;
	/* of the file as the processor knows it; an older cached page is not used */
	le64_t version;
	le32_t nr_pages;
	le32_t reserved;
};
static_assert(sizeof(struct pm_file_fetch_req_wire) == 56, "PM_FILE_FETCH is ABI");

/* Pages behind the end of the file are not written: nr_valid tells how many were. */
struct pm_file_fetch_rep_wire {
	le32_t nr_valid;
	le32_t last_bytes; /* bytes of the file in the last valid page; the rest of it is zero */
	le64_t file_size;
};
static_assert(sizeof(struct pm_file_fetch_rep_wire) == 16, "PM_FILE_FETCH reply is ABI");

/* --- files that change: docs/design/files.md ------------------------------------------- */

/* The node with the page cache of the file tells its state: close-to-open. */
struct pm_file_open_req_wire {
	struct proto_file_wire file;
};

/* Reply of PM_FILE_OPEN, PM_FILE_WRITE and PM_FILE_CHANGE. */
struct pm_file_state_wire {
	le64_t size;    /* bytes; of all writes that the node has had */
	le64_t version; /* changes with the contents */
	le64_t mtime_s;
	le32_t mtime_ns;
	le32_t errors; /* times that data of the file was lost; only to be compared */
	le64_t pos; /* APPEND: where the bytes go; a seek: what was found; ROOM: its end; else 0 */
	/* 0; or the memory node that has the file's page cache: nothing was done, all else is 0 */
	le32_t node;
	le32_t reserved;
	le64_t before; /* the version before the request: another one, if others changed the file */
};
static_assert(sizeof(struct pm_file_state_wire) == 56, "pm_file_state is ABI");

#define PM_FILE_WRITE_MAX 32

struct pm_file_page_wire {
	le64_t pgoff;
	le16_t first; /* byte of the page; the others stay what they are at the node */
	le16_t bytes; /* 1 to 4096 */
	le32_t reserved;
};
static_assert(sizeof(struct pm_file_page_wire) == 16, "pm_file_page is ABI");

enum pm_file_write_flags {
	PM_FILE_SYNC = 1 << 0,     /* answered when the disk has all writes to the file so far */
	PM_FILE_DATASYNC = 1 << 1, /* with PM_FILE_SYNC: and what is needed to read them, no more */
	/* Pages that programs have stored into: what lies behind the end is not written. */
	PM_FILE_INSIDE = 1 << 2,
	/* Alone: storage gets what is dirty of all files of its node; the reply is empty. */
	PM_FILE_EVERY = 1 << 3,
	PM_FILE_PRIVILEGED = 1 << 4, /* with pages: also into the blocks that are kept for root */
	/* With pages: the sender relies on no room that PM_FILE_AHEAD has got it any more. */
	PM_FILE_LAST = 1 << 5,
	PM_FILE_WRITE_ALL = 63,
	/*
	 * Of a PM_FILE_CHANGE for room: writes are to come, also behind the end. The first page has
	 * room then, and as many of the others as is wise.
	 */
	PM_FILE_AHEAD = 1 << 6,
};

/* Header, then nr_pages page records, ascending; the bulk holds the pages, 4 KiB each. */
struct pm_file_write_req_wire {
	struct proto_file_wire file;
	le64_t size; /* the file is at least so long afterwards; 0 with PM_FILE_INSIDE */
	le64_t mtime_s;
	le32_t mtime_ns;
	le32_t flags;    /* enum pm_file_write_flags */
	le32_t nr_pages; /* 0 to PM_FILE_WRITE_MAX; 0 with PM_FILE_SYNC and PM_FILE_EVERY only */
	le32_t reserved;
};
static_assert(sizeof(struct pm_file_write_req_wire) == 64, "PM_FILE_WRITE is ABI");
/* Errors: -EIO, -ENOSPC, -EDQUOT, -ESTALE no such file, -EROFS, -ENOMEM. */

struct pm_file_change_req_wire {
	struct proto_file_wire file;
	le32_t op;    /* enum proto_file_op */
	le32_t flags; /* PM_FILE_PRIVILEGED; for room PM_FILE_AHEAD; or 0 */
	le64_t off;
	le64_t len;
	le64_t mtime_s;
	le32_t mtime_ns;
	le32_t reserved2;
	le64_t client; /* the change id: see docs/design/files.md; 0, 0: none */
	le64_t seq;
};
static_assert(sizeof(struct pm_file_change_req_wire) == 88, "PM_FILE_CHANGE is ABI");

/* --- host order, encode and decode ------------------------------------------------------ */

/*
 * A decoder checks every field, and answers -EMSGSIZE for a wrong length and -EPROTO for a wrong
 * value. It writes its result only on success, but for a message with a list: that may be large,
 * is decoded in place, and holds nothing of use after a failure. Requests and replies are decoded
 * with equal care: either side may be broken. An encoder of a message of variable size answers its
 * length in bytes, or -EMSGSIZE when it does not fit @cap or a count is above its limit.
 */

struct pm_vregion {
	uint64_t index;
	uint32_t owner;
	uint32_t secondary;
	uint64_t version;
};

struct pm_vma {
	uint64_t start;
	uint64_t end;
	uint64_t pgoff;
	uint64_t file_bytes; /* PM_VMA_FILE, PM_VMA_OBJECT, else 0 */
	uint64_t object;     /* PM_VMA_OBJECT, else 0 */
	struct proto_file file;
	uint32_t prot;
	uint32_t flags;
	uint32_t cache_node;
};

struct pm_grant {
	uint32_t node;
	uint32_t frames;
	uint64_t report;
};

struct pm_place {
	uint32_t extent; /* 0: none, and the others are 0 */
	uint32_t rkey;
	uint32_t frame;
};

void pm_vregion_encode(const struct pm_vregion *vr, struct pm_vregion_wire *w);
int pm_vregion_decode(const struct pm_vregion_wire *w, struct pm_vregion *out) __must_check;
void pm_vma_encode(const struct pm_vma *vma, struct pm_vma_wire *w);
/* Takes the address rules of a vma as given: not empty, page aligned, below PM_USER_TOP. */
int pm_vma_decode(const struct pm_vma_wire *w, struct pm_vma *out) __must_check;
void pm_grant_encode(const struct pm_grant *grant, struct pm_grant_wire *w);
int pm_grant_decode(const struct pm_grant_wire *w, struct pm_grant *out) __must_check;

void pm_redirect_encode(const struct pm_vregion *vr, struct pm_redirect_wire *w);
int pm_redirect_decode(const void *buf, size_t len, struct pm_vregion *out) __must_check;

struct pm_exec_req {
	uint64_t aspace;
	struct proto_file file;
	uint64_t stack_size;
	uint64_t random_seed;
	struct proto_cred cred;
	uint32_t vnode;
	uint32_t want_credits;
	uint64_t object; /* 0: the program is a file, and head_len is 0, too */
	uint32_t storage;
	uint32_t head_len;
	uint32_t interp_len; /* below PROTO_PATH_MAX */
	const uint8_t *head; /* decoded: points into the message */
	const char *interp;  /* the same; not terminated */
};

ssize_t pm_exec_req_encode(const struct pm_exec_req *req, void *buf, size_t cap) __must_check;
int pm_exec_req_decode(const void *buf, size_t len, struct pm_exec_req *out) __must_check;

struct pm_exec_rep { /* about 7 KiB: not for a kernel stack */
	uint64_t entry;
	uint64_t prog_entry;
	uint64_t phdr;
	uint64_t interp_base;
	uint64_t brk_start;
	uint64_t stack_top;
	uint64_t stack_bottom;
	uint64_t vregion_size;
	uint64_t code_start, code_end, data_start, data_end;
	uint16_t phent;
	uint16_t phnum;
	uint32_t flags;
	uint16_t nr_vmas;
	uint16_t nr_vregions;
	uint16_t nr_grants;
	struct pm_vma vmas[PM_EXEC_MAX_VMAS];
	struct pm_vregion vregions[PM_EXEC_MAX_VREGIONS];
	struct pm_grant grants[PM_MAX_GRANTS];
	struct proto_attr interp; /* with PM_EXEC_INTERP */
};

ssize_t pm_exec_rep_encode(const struct pm_exec_rep *rep, void *buf, size_t cap) __must_check;
int pm_exec_rep_decode(const void *buf, size_t len, struct pm_exec_rep *out) __must_check;

struct pm_mmap_req {
	uint64_t aspace;
	uint64_t addr;
	uint64_t len;
	uint64_t pgoff;
	struct proto_file file;
	uint64_t object; /* 0 = none */
	uint32_t prot;
	uint32_t flags;
	uint32_t want_credits;
	uint32_t lease_pages; /* 0: no lease */
};

void pm_mmap_req_encode(const struct pm_mmap_req *req, struct pm_mmap_req_wire *w);
int pm_mmap_req_decode(const void *buf, size_t len, struct pm_mmap_req *out) __must_check;

struct pm_range_req {
	uint64_t aspace;
	uint64_t addr;
	uint64_t len;
	uint32_t prot;
	uint32_t lease_pages;
};

void pm_range_req_encode(const struct pm_range_req *req, struct pm_range_req_wire *w);
int pm_range_req_decode(const void *buf, size_t len, struct pm_range_req *out) __must_check;

struct pm_mremap_req {
	uint64_t aspace;
	uint64_t old_addr;
	uint64_t old_len;
	uint64_t new_len;
	uint64_t new_addr;
	uint32_t flags;
	uint32_t want_credits;
	uint64_t seq;
};

void pm_mremap_req_encode(const struct pm_mremap_req *req, struct pm_mremap_req_wire *w);
int pm_mremap_req_decode(const void *buf, size_t len, struct pm_mremap_req *out) __must_check;

struct pm_brk_req {
	uint64_t aspace;
	uint64_t brk;
	uint32_t want_credits;
	uint32_t lease_pages;
};

void pm_brk_req_encode(const struct pm_brk_req *req, struct pm_brk_req_wire *w);
int pm_brk_req_decode(const void *buf, size_t len, struct pm_brk_req *out) __must_check;

struct pm_range_rep { /* about 11 KiB: not for a kernel stack */
	uint64_t addr;
	uint16_t nr_vmas;
	uint16_t nr_vregions;
	uint16_t nr_grants;
	struct pm_vma vmas[PM_RANGE_MAX_VMAS];
	struct pm_vregion vregions[PM_RANGE_MAX_VREGIONS];
	struct pm_grant grants[PM_MAX_GRANTS];
};

ssize_t pm_range_rep_encode(const struct pm_range_rep *rep, void *buf, size_t cap) __must_check;
int pm_range_rep_decode(const void *buf, size_t len, struct pm_range_rep *out) __must_check;

struct pm_lease_range {
	uint64_t addr;
	uint64_t len;
	uint32_t prot;
	uint32_t flags;
};

struct pm_lease_req { /* about 3 KiB: not for a kernel stack */
	uint64_t aspace;
	uint64_t number;
	uint32_t nr_ranges;
	struct pm_lease_range ranges[PM_LEASE_MAX_RANGES];
};

ssize_t pm_lease_req_encode(const struct pm_lease_req *req, void *buf, size_t cap) __must_check;
int pm_lease_req_decode(const void *buf, size_t len, struct pm_lease_req *out) __must_check;

struct pm_vregions_req {
	uint64_t aspace;
	uint64_t first;
	uint32_t count; /* 1 to PM_RANGE_MAX_VREGIONS */
	uint32_t flags;
	uint32_t want_credits; /* 0 without PM_VREGIONS_ACTIVATE */
};

void pm_vregions_req_encode(const struct pm_vregions_req *req, struct pm_vregions_req_wire *w);
int pm_vregions_req_decode(const void *buf, size_t len, struct pm_vregions_req *out) __must_check;

void pm_destroy_req_encode(uint64_t aspace, struct pm_destroy_req_wire *w);
int pm_destroy_req_decode(const void *buf, size_t len, uint64_t *aspace) __must_check;
/*
 * @nr up to PM_DESTROY_MAX into @w[]; *nr out of a message into @ids, which has room for as many.
 */
void pm_destroy_list_encode(const uint64_t *ids, uint32_t nr, struct pm_destroy_req_wire *w);
int pm_destroy_list_decode(const void *buf, size_t len, uint64_t *ids, uint32_t *nr) __must_check;

struct pm_fork_req {
	uint64_t aspace;
	uint64_t parent;
	uint64_t child;
	uint32_t want_credits;
};

void pm_fork_req_encode(const struct pm_fork_req *req, struct pm_fork_req_wire *w);
int pm_fork_req_decode(const void *buf, size_t len, struct pm_fork_req *out) __must_check;

struct pm_page_range {
	uint64_t addr;
	uint64_t len;
};

struct pm_discard_req { /* about 4 KiB: not for a kernel stack */
	uint64_t aspace;
	uint32_t nr_ranges;
	struct pm_page_range ranges[PM_DISCARD_MAX_RANGES];
};

ssize_t pm_discard_req_encode(const struct pm_discard_req *req, void *buf, size_t cap) __must_check;
int pm_discard_req_decode(const void *buf, size_t len, struct pm_discard_req *out) __must_check;

struct pm_collapse_req { /* about 4 KiB: not for a kernel stack */
	uint64_t from;
	uint64_t into;
	uint32_t nr_ranges;
	struct pm_page_range ranges[PM_DISCARD_MAX_RANGES];
};

ssize_t pm_collapse_req_encode(const struct pm_collapse_req *req, void *buf, size_t cap)
	__must_check;
int pm_collapse_req_decode(const void *buf, size_t len, struct pm_collapse_req *out) __must_check;

struct pm_space_req {
	uint64_t aspace;
	uint64_t len;
	uint32_t flags;
	uint32_t vnode;
	uint32_t want_credits;
};

void pm_space_req_encode(const struct pm_space_req *req, struct pm_space_req_wire *w);
int pm_space_req_decode(const void *buf, size_t len, struct pm_space_req *out) __must_check;

struct pm_fetch_req {
	uint64_t aspace;
	uint64_t vaddr;
	struct proto_mr_ref line;
	uint32_t flags;
	uint32_t want_credits;
	uint64_t victim_aspace; /* PM_FETCH_VICTIM, else 0, and so the next two */
	uint64_t victim_vaddr;
	uint64_t victim_seq;
};

void pm_fetch_req_encode(const struct pm_fetch_req *req, struct pm_fetch_req_wire *w);
int pm_fetch_req_decode(const void *buf, size_t len, struct pm_fetch_req *out) __must_check;

struct pm_fetch_rep {
	uint32_t result;
	uint32_t prot;
	struct pm_grant grant;
	int victim_status;
	struct pm_place page;   /* PM_FETCH_DATA, else none */
	struct pm_place victim; /* status 0, else none */
};

void pm_fetch_rep_encode(const struct pm_fetch_rep *rep, struct pm_fetch_rep_wire *w);
int pm_fetch_rep_decode(const void *buf, size_t len, struct pm_fetch_rep *out) __must_check;

struct pm_ahead_page {
	uint64_t vaddr;
	struct proto_mr_ref line;
};

struct pm_fetch_ahead_req {
	uint64_t aspace;
	uint32_t nr_pages;
	struct pm_ahead_page pages[PM_FETCH_AHEAD_MAX];
};

ssize_t pm_fetch_ahead_req_encode(const struct pm_fetch_ahead_req *req, void *buf, size_t cap)
	__must_check;
int pm_fetch_ahead_req_decode(const void *buf, size_t len, struct pm_fetch_ahead_req *out)
	__must_check;

struct pm_fetch_ahead_rep {
	uint32_t sent; /* a bit for each page */
};

void pm_fetch_ahead_rep_encode(const struct pm_fetch_ahead_rep *rep,
			       struct pm_fetch_ahead_rep_wire *w);
int pm_fetch_ahead_rep_decode(const void *buf, size_t len, struct pm_fetch_ahead_rep *out)
	__must_check;

struct pm_fill_vma_req {
	uint64_t aspace;
	uint64_t vaddr; /* page aligned */
};

void pm_fill_vma_req_encode(const struct pm_fill_vma_req *req, struct pm_fill_vma_req_wire *w);
int pm_fill_vma_req_decode(const void *buf, size_t len, struct pm_fill_vma_req *out) __must_check;
int pm_fill_vma_rep_decode(const void *buf, size_t len, struct pm_vma *out) __must_check;

struct pm_writeback_page {
	uint64_t vaddr;
	uint64_t seq; /* from 1 */
};

struct pm_writeback_req {
	uint64_t aspace;
	uint32_t nr_pages;
	uint32_t zeroes; /* a bit for each page */
	struct pm_writeback_page pages[PM_WRITEBACK_MAX_PAGES];
};

/* Bytes of bulk behind it. */
static inline uint32_t pm_writeback_bulk_len(const struct pm_writeback_req *req)
{
	return (req->nr_pages - (uint32_t)__builtin_popcount(req->zeroes)) * 4096u;
}
ssize_t pm_writeback_req_encode(const struct pm_writeback_req *req, void *buf, size_t cap)
	__must_check;
int pm_writeback_req_decode(const void *buf, size_t len, struct pm_writeback_req *out) __must_check;

struct pm_stored {
	int status;            /* -EREMCHG: ask the home for the vRegion's owner */
	struct pm_place place; /* status 0, else none */
};

struct pm_writeback_rep {
	uint32_t nr_pages;
	struct pm_stored pages[PM_WRITEBACK_MAX_PAGES];
	struct pm_grant grant;
};

ssize_t pm_writeback_rep_encode(const struct pm_writeback_rep *rep, void *buf, size_t cap)
	__must_check;
int pm_writeback_rep_decode(const void *buf, size_t len, struct pm_writeback_rep *out) __must_check;

struct pm_credit_req {
	uint64_t report;
	uint32_t hold;
	uint32_t want;
};

struct pm_credit_rep {
	uint64_t report;
	uint32_t frames;
};

void pm_credit_req_encode(const struct pm_credit_req *req, struct pm_credit_req_wire *w);
int pm_credit_req_decode(const void *buf, size_t len, struct pm_credit_req *out) __must_check;
void pm_credit_rep_encode(const struct pm_credit_rep *rep, struct pm_credit_rep_wire *w);
int pm_credit_rep_decode(const void *buf, size_t len, struct pm_credit_rep *out) __must_check;

struct pm_meminfo_rep {
	uint64_t total, free, file, granted, committed, programs, commit_limit;
};

void pm_meminfo_rep_encode(const struct pm_meminfo_rep *rep, struct pm_meminfo_rep_wire *w);
/* -EPROTO: the parts are more than the whole. */
int pm_meminfo_rep_decode(const void *buf, size_t len, struct pm_meminfo_rep *out) __must_check;

struct pm_commit {
	uint64_t version;
	uint32_t mode;
	uint32_t ratio;
	uint64_t kbytes;
	uint64_t programs;
};

void pm_commit_encode(const struct pm_commit *c, struct pm_commit_wire *w);
int pm_commit_decode(const void *buf, size_t len, struct pm_commit *out) __must_check;

struct pm_file_fetch_req {
	struct proto_file file;
	uint64_t pgoff;
	uint64_t version; /* 0 = any */
	uint32_t nr_pages;
	struct proto_mr_ref pages[PM_FILE_FETCH_MAX];
};

ssize_t pm_file_fetch_req_encode(const struct pm_file_fetch_req *req, void *buf, size_t cap)
	__must_check;
int pm_file_fetch_req_decode(const void *buf, size_t len, struct pm_file_fetch_req *out)
	__must_check;

struct pm_file_fetch_rep {
	uint32_t nr_valid;
	uint32_t last_bytes;
	uint64_t file_size;
};

void pm_file_fetch_rep_encode(const struct pm_file_fetch_rep *rep,
			      struct pm_file_fetch_rep_wire *w);
int pm_file_fetch_rep_decode(const void *buf, size_t len, struct pm_file_fetch_rep *out)
	__must_check;

struct pm_file_open_req {
	struct proto_file file;
};

void pm_file_open_req_encode(const struct pm_file_open_req *req, struct pm_file_open_req_wire *w);
int pm_file_open_req_decode(const void *buf, size_t len, struct pm_file_open_req *out) __must_check;

struct pm_file_state {
	uint64_t size;
	uint64_t version;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint32_t errors;
	uint64_t pos;
	uint32_t node; /* 0: the rest counts */
	uint64_t before;
};

void pm_file_state_encode(const struct pm_file_state *rep, struct pm_file_state_wire *w);
int pm_file_state_decode(const void *buf, size_t len, struct pm_file_state *out) __must_check;

struct pm_file_page {
	uint64_t pgoff;
	uint16_t first;
	uint16_t bytes;
};

struct pm_file_write_req {
	struct proto_file file;
	uint64_t size;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint32_t flags;
	uint32_t nr_pages;
	struct pm_file_page pages[PM_FILE_WRITE_MAX];
};

ssize_t pm_file_write_req_encode(const struct pm_file_write_req *req, void *buf, size_t cap)
	__must_check;
int pm_file_write_req_decode(const void *buf, size_t len, struct pm_file_write_req *out)
	__must_check;

struct pm_file_change_req {
	struct proto_file file;
	uint32_t op;
	uint32_t flags;
	uint64_t off;
	uint64_t len;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint64_t client;
	uint64_t seq;
};

void pm_file_change_req_encode(const struct pm_file_change_req *req,
			       struct pm_file_change_req_wire *w);
int pm_file_change_req_decode(const void *buf, size_t len, struct pm_file_change_req *out)
	__must_check;
