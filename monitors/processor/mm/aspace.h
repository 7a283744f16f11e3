/* SPDX-License-Identifier: MIT */
/*
 * Address spaces on the processor: page table, copy of the vma list, and the object with the
 * private pages.
 *
 * The copy is a cache of what the home and the owners keep: entries come with replies and are asked
 * for when missing.
 *
 * Locking:	aspace.map_lock (RANK_ASPACE, sleeping) serialises calls that change the layout.
 *		aspace.lock (RANK_SPIN_ASPACE, inside a cache set's lock) guards page table, vmas
 *		and blocked ranges; never held across an RPC.
 * Ordering:	a range that goes away is blocked first; when the home has agreed it is unmapped
 *		and flushed and its lines dropped, then it is unblocked (docs/design/excache.md).
 */
#pragma once

#include <arch/pgtable.h>
#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/atomic.h>
#include <lib/radix.h>
#include <lib/rbtree.h>
#include <processor/excache/object.h>

#include "locked.h"
#include "ranges.h"

struct attachment;
struct lease;
struct line;
struct process;

/* Rights of a mapping. */
enum vma_prot {
	VMA_PROT_READ = 1,
	VMA_PROT_WRITE = 2,
	VMA_PROT_EXEC = 4,
	VMA_PROT_ALL = 7,
};

enum vma_flags {
	VMA_SHARED = 1 << 0,
	VMA_STACK = 1 << 1, /* the one that exec makes; grows down */
	VMA_HEAP = 1 << 2,  /* brk */
	VMA_FILE = 1 << 3,
	VMA_NORESERVE = 1 << 4,
	VMA_OBJECT = 1 << 5, /* a shared object */
	VMA_LEASE = 1 << 6,  /* inside a lease: what is said here holds, see lease.h */
	/* The file is not open for writing, so the shared mapping cannot become writable. */
	VMA_READ_ONLY = 1 << 7,
	VMA_GROWS = 1 << 8, /* MAP_GROWSDOWN */
};

/*
 * A flag that the memory nodes do not know: a private mapping of a file that never could be
 * written, so that no page of it has a private copy, here or in a space that it was forked from;
 * gone with the first mprotect() that allows writing.
 */
#define VMA_PRISTINE (1u << 30)
/* Of aspace_fault_begin()'s copy alone: the page that was asked for is a guard (guard.h). */
#define VMA_GUARD    (1u << 29)

struct vma {
	struct rb_node node; /* by start */
	vaddr_t start;
	vaddr_t end;
	uint32_t prot;       /* enum vma_prot */
	uint32_t flags;      /* enum vma_flags */
	struct object *file; /* VMA_FILE, VMA_OBJECT: counted */
	uint64_t pgoff;      /* file page behind start */
	uint64_t file_bytes; /* bytes from pgoff that show the file; behind it zeroes */
};

struct kmem_account;

struct blocked_range {
	struct list_head link;
	vaddr_t start;
	vaddr_t end;
};

struct layout_seq {
	uint64_t map; /* grows with every change of layout or rights */
	uint64_t
		/* grows with every private copy of a page that was mapped read-only, perhaps */
		cow;
};
#define SEQ_ANY UINT64_MAX /* the caller knows that the layout stays */
#define COW_ANY UINT64_MAX /* the line is the newest that there can be: copies do not matter */

/* Marks of pages, which a program has made: advice.h. */
enum mark {
	MARK_DONT_FORK,
	MARK_WIPE_ON_FORK,
	MARK_DONT_DUMP,
	MARK_POLICY, /* mempolicy.h */
	MARK_NAME,   /* anon_name.h */
	NR_MARKS,
};

/* A part of a space that another module keeps. */
struct aspace_guest {
	void (*space_ends)(
		struct aspace_guest *guest); /* nobody else can reach the space; sleeps */
};

struct aspace {
	refcount_t refs;
	struct list_head link;     /* list of all spaces */
	struct work collapse_work; /* anon_collapse_soon() */
	uint64_t collapse_runs;    /* atomic: of that */
	struct mutex map_lock;     /* RANK_ASPACE */
	struct spinlock lock;      /* RANK_SPIN_ASPACE */
	struct pgtable *pt __guarded_by(&lock);
	struct rb_root vmas __guarded_by(&lock);
	uint64_t nr_vmas __guarded_by(&lock);
	struct vma *near __guarded_by(&lock); /* of vmas: the one that a touch met last, or NULL */
	struct list_head blocked __guarded_by(&lock);
	struct lease *lease; /* set once, under both locks; NULL: it never had one */
	struct rb_root around __guarded_by(&lock); /* <processor/excache/prefetch.h> */
	struct layout_seq seq __guarded_by(&lock);
	struct waitqueue unblocked;
	atomic_t nr_faults; /* under way; rises under the lock only */
	atomic_t quiescing; /* somebody waits until there are none */
	struct waitqueue quiet;
	struct object *anon; /* private pages: the top of a chain; map_lock, or inside a fault */
	struct aspace_guest *guest;           /* its module's lock: aio.c; or NULL */
	struct rb_root attachments;           /* map_lock: attach.h */
	struct attachment *spare_attachments; /* map_lock */
	struct ranges seals;                  /* map_lock: seal.h */
	struct ranges guards;                 /* guard.h */
	struct locked_ranges locked;          /* map_lock: locked.h */
	struct ranges marks[NR_MARKS];        /* map_lock: advice.h */
	int failed; /* atomic: negative errno once a page was lost, or may be: no more come */
	uint32_t lost_node; /* const once failed: where the page was, 0 = not known */

	/* Layout, as exec got it from the home; brk under map_lock. */
	vaddr_t brk_start;
	vaddr_t brk;
	vaddr_t stack_top, stack_bottom;
	/*
	 * From here on the stack is used; a first touch below it looks at the limits first. Falls
	 * under map_lock; read without it.
	 */
	vaddr_t stack_low;
	struct map_sizes { /* map_lock: expand_calls.c */
		bool known;
		uint64_t total, data; /* pages */
	} sizes;
	vaddr_t code_start, code_end, data_start, data_end;
	vaddr_t arg_start, arg_end, env_start, env_end;
	vaddr_t auxv_start, auxv_end;
	struct object *
		/* const once it is used: the program, if it lies in a shared object; counted */
		exe;
	/* const: its ELF header (<processor/vdso/vdso.h>), or 0; a fork has it at the same place */
	vaddr_t vdso;

	/* Kernel memory: see kmem.h. */
	struct kmem_account *kmem; /* const once kmem_charge_space() has set it */
	uint64_t vmas_charged;     /* map_lock */
	size_t tables_charged __guarded_by(&lock);
};

/* ERR_PTR(-ENOMEM). */
struct aspace *aspace_create(uint64_t id, uint32_t home);
/* The same with private pages that are there already; takes over the reference, also on failure. */
struct aspace *aspace_create_for(struct object *anon);
static inline void aspace_get(struct aspace *as)
{
	refcount_inc(&as->refs);
}
/*
 * The last one drops all lines and tells the home, which frees everything. May sleep, but waits for
 * no node: a worker does what would have to.
 */
void aspace_put(struct aspace *as);
/* The space's name at its home, which changes with fork: under map_lock or inside a fault. */
static inline uint64_t aspace_id(const struct aspace *as)
{
	return as->anon->id;
}
static inline uint32_t aspace_home(const struct aspace *as)
{
	return as->anon->home;
}

/*
 * fork: a new space with what @parent has now. Private pages are shared copy-on-write: no page is
 * copied, written back or fetched; shared mappings show the same memory. The layout (brk, stack,
 * arguments) is copied, Other threads of the parent may fault, write and call mmap on other CPUs
 * meanwhile: their faults wait, their stores land before the fork or wait. Sleeps.
 *
 * 0 and *child with one reference. On failure *child is NULL and the parent is as it was: -ENOMEM
 * (here, or at a memory node: the child's mappings are charged), -EHOSTDOWN, -ETIMEDOUT, -EINTR
 * the calling thread is to be killed. Either space may be put first.
 */
int aspace_fork(struct aspace *parent, struct aspace **child) __must_check;

/*
 * A thread of @as was killed before it knew whether a node had changed the layout. Other threads of
 * its process are being killed as well; processes that share the space end with it.
 */
static inline void aspace_killed(struct aspace *as)
{
	if (!READ_ONCE(as->failed))
		WRITE_ONCE(as->failed, -EINTR);
}

/*
 * Wait for calls that were left, ends and collapses that were left to workers, and until the homes
 * have freed all spaces that ended before: nodes that are silent left out (backlog.h). False: some
 * of that is left.
 */
bool aspace_drain(void);
/*
 * Before a fork, with no lock held: what only @as can see any more becomes one with its top, if
 * owners must be asked for that. By a worker, as it must not end half way. -EINTR: the thread is to
 * be killed.
 */
int aspace_collapse_first(struct aspace *as) __must_check;
/* Frozen @shadow collapses with what is behind it, later; takes the reference. */
void aspace_collapse_frozen_later(struct object *shadow);
/*
 * Start the ExCache and what is built on it. @kill_failed: a space was marked failed; polling
 * context.
 */
int aspace_init(void (*kill_failed)(void)) __must_check;
/*
 * Memory node @node is gone: every space that had pages or its home there fails. Sleeps.
 */
void aspace_node_gone(uint32_t node);

/* --- copies of the home's and owners' data ------------------------------------------- */

/* Copy of the vma at @addr (file object referenced: vma_release()); -ENOENT not in the copy. */
int aspace_find_vma(struct aspace *as, vaddr_t addr, struct vma *out, struct layout_seq *seq);
/*
 * The same for a fault, which must not begin in a blocked range: -EAGAIN, wait first. Else,
 * whatever is answered, the fault is under way until aspace_fault_end(): so long as->anon and the
 * chain behind it stay as they are.
 */
int aspace_fault_begin(struct aspace *as, vaddr_t addr, struct vma *out, struct layout_seq *seq);
struct touch {
	uint64_t seq;  /* the layout's number */
	uint32_t prot; /* of the vma; 0: no first touch, and no fault is under way */
};
/*
 * The same for an @access (enum fault_access) that may be a first touch: @addr lies in private
 * anonymous memory that allows it, there is nothing behind as->anon, and no range is blocked.
 */
struct touch aspace_touch_begin(struct aspace *as, vaddr_t addr, unsigned int access);
void aspace_fault_end(struct aspace *as);
void vma_release(struct vma *vma);
/*
 * Replace what the copy says about [v->start, v->end) with @v, an answer to a question that was
 * asked when the layout was at @seq; -EAGAIN: it is out of date.  -ENOMEM.
 */
int aspace_set_vma(struct aspace *as, const struct vma *v, uint64_t seq) __must_check;
/* Into @to, which has none. @from does not change meanwhile. -ENOMEM: some of them. */
int aspace_copy_vmas(struct aspace *from, struct aspace *to) __must_check;
void aspace_clear_vmas(struct aspace *as, vaddr_t start, vaddr_t end);
/* VMA_PRISTINE for the vmas in [start, end), which are a new mapping: for whole ones only. */
void aspace_set_vma_flags(struct aspace *as, vaddr_t start, vaddr_t end, uint32_t flags);
/* The vma at @addr loses VMA_PRISTINE; faults that have seen the flag begin again. */
void aspace_not_pristine(struct aspace *as, vaddr_t addr);
void aspace_protect_vmas(struct aspace *as, vaddr_t start, vaddr_t end, uint32_t prot);
/* The first vma of the copy that ends above @addr and begins below @end; false: there is none. */
bool aspace_next_vma(struct aspace *as, vaddr_t addr, vaddr_t end, struct vma *out);
/* The file object that some vma of the copy already has for @file; referenced, or NULL. */
struct object *aspace_file_object(struct aspace *as, const struct file_id *file);

/* --- page table ---------------------------------------------------------------------- */

/* No page of the range can be written any more on any CPU; the next write of each is a fault. */
void aspace_write_protect(struct aspace *as, vaddr_t start, vaddr_t end);
/* Remove all mappings in the range (lines stay in the cache) and flush. */
void aspace_unmap_range(struct aspace *as, vaddr_t start, vaddr_t end);

/* Faults in the range wait from here until unblock. */
void aspace_block(struct aspace *as, struct blocked_range *r, vaddr_t start, vaddr_t end);
void aspace_unblock(struct aspace *as, struct blocked_range *r);
/*
 * With everything blocked: wait until no fault is under way. One caller at a time (map_lock).
 * -EINTR if @killable and the thread is to be killed.
 */
int aspace_quiesce(struct aspace *as, bool killable);
/* Sleep while @addr is blocked. -EINTR when the thread is to be killed. */
int aspace_wait_unblocked(struct aspace *as, vaddr_t addr) __must_check;

/* --- mmap_calls.c ----------------------------------------------------------------------------- */

/*
 * The vma that @addr lies in, a copy with a reference on its file, to be given to vma_release();
 * the home is asked if it is not known here. -EFAULT: nothing is mapped there; -EINTR; others as of
 * remote_fill_vma(). map_lock is held.
 */
int aspace_vma_at(struct aspace *as, vaddr_t addr, struct vma *out) __must_check;
/* Is every page of the range mapped? -ENOMEM if not. map_lock is held. */
int aspace_check_mapped(struct aspace *as, vaddr_t start, uint64_t len) __must_check;
struct map_request; /* remote.h */
/*
 * mmap() of what has been checked. The address or an errno. Takes map_lock.
 */
long aspace_map(struct aspace *as, struct map_request *req);
long aspace_map_locked(struct aspace *as, struct map_request *req); /* map_lock is held */
/* munmap(); page aligned, and not empty. map_lock is held. -EPERM: some of it is sealed. */
int aspace_unmap(struct aspace *as, vaddr_t start, uint64_t len) __must_check;

/* Is @addr in the part of the stack that exec made, and that was never used? */
static inline bool aspace_below_stack(const struct aspace *as, vaddr_t addr)
{
	return addr >= as->stack_bottom && addr < READ_ONCE(as->stack_low);
}

/* --- grow.c -------------------------------------------------------------------------------- */

/*
 * @addr is not mapped, or aspace_below_stack(): is it the next page of a stack of at most @limit
 * bytes? 0: it is mapped now.
 * -EFAULT: it is not, or the stack may not grow that far; -EINTR: the thread is to be killed;
 * others: as of mmap().
 */
int aspace_grow(struct aspace *as, vaddr_t addr, uint64_t limit) __must_check;

/* --- populate.c ----------------------------------------------------------------------------- */

enum populate {
	POPULATE_READ,
	POPULATE_WRITE,
	POPULATE_LOCK, /* as mlock(): private pages that may be written are made, others read */
};
/*
 * Touch every page of the range, page aligned, as the program could. No lock held; sleeps. -ENOMEM
 * a hole or no memory, -EACCES no right, -EIO behind the end of a file, -EFAULT a guard page,
 * -EINTR the thread is killed.
 */
int aspace_populate(struct aspace *as, vaddr_t start, uint64_t len, enum populate how) __must_check;
/* Would a touch of the page, which is mapped, find it in the memory of a node? */
bool aspace_is_resident(struct aspace *as, vaddr_t addr);
/* Does the page table map the page here, with the rights @prot (PGT_*)? */
bool aspace_maps(struct aspace *as, vaddr_t addr, unsigned int prot);

/* --- access.c: memory of another space ----------------------------------------------- */

/*
 * Copy memory at @addr of @as, whose threads may be running, as far as it can be had with the
 * right to read or write it: how much that is. No lock held; sleeps; less, too, when the calling
 * thread is to be killed.
 */
size_t aspace_read_memory(struct aspace *as, vaddr_t addr, void *buf, size_t len);
size_t aspace_write_memory(struct aspace *as, vaddr_t addr, const void *buf, size_t len);
/*
 * The same for a debugger, whatever the mappings allow: what is written into a private mapping that
 * the program may not write goes into a page of its own.
 */
size_t aspace_read_forced(struct aspace *as, vaddr_t addr, void *buf, size_t len);
size_t aspace_write_forced(struct aspace *as, vaddr_t addr, const void *buf, size_t len);

/* --- faults -------------------------------------------------------------------------- */

enum fault_access {
	FAULT_ACC_READ = 1,
	FAULT_ACC_WRITE = 2,
	FAULT_ACC_EXEC = 4,
};

/*
 * Make @addr accessible.  0: try again; -EFAULT no mapping (SEGV_MAPERR); -EACCES rights
 * (SEGV_ACCERR); -EIO behind the end of a file (SIGBUS); -ENOMEM (SIGKILL); -EINTR to be killed;
 * others: a node failed (SIGBUS and a log line).
 */
int aspace_fault(struct aspace *as, vaddr_t addr, enum fault_access access) __must_check;

/* A part of the page at @addr to be copied whatever its mapping's rights are. */
struct forced_copy {
	void *buf;
	size_t len; /* up to the end of the page */
	bool write;
};
/* As aspace_fault(), but -EACCES only for shared memory that may not be written. */
int aspace_force(struct aspace *as, vaddr_t addr, const struct forced_copy *f) __must_check;
