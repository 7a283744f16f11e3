/* SPDX-License-Identifier: MIT */
/*
 * Several memory monitors in one process, a storage node with made-up files, and a processor that
 * keeps a copy of the vRegion array as the real one does.
 */
#pragma once

#include <lib/prng.h>
#include <lib/types.h>
#include <proto/mp.h>

#include "../../../monitors/memory/memory.h"

#define FAKE_PROC      1u
#define FAKE_NO_PROC   10u /* no member */
#define FAKE_MEM_FIRST 11u
#define FAKE_MEM_MAX   3u
#define FAKE_STORAGE   21u
/* @file as a storage node would name it for @vnode. */
struct proto_file fake_sealed(struct proto_file file, uint32_t vnode);
#define FAKE_VNODE 2u /* placed on one processor at most; the root vNode is on each */
/* The number of a space: made by @proc, or FAKE_PROC, at home @home, or the first one. */
#define FAKE_SPACE_BY(proc, home, n)                                                              \
	(((uint64_t)(home) << PM_SPACE_HOME_SHIFT) | ((uint64_t)(proc) << PM_SPACE_MAKER_SHIFT) | \
	 (n))
#define FAKE_SPACE(home, n) FAKE_SPACE_BY(FAKE_PROC, home, n)
#define FAKE_ASPACE(n)      FAKE_SPACE(FAKE_MEM_FIRST, n)
#define FAKE_MAX_FILES      8u

struct fake_file {
	uint64_t size;
	uint64_t version;
	const uint8_t *data; /* NULL: made up from ino and offset */
	const char *path;    /* what MS_LOOKUP finds it by; may be NULL */
};

#define FAKE_DISK_MAX (4u << 20) /* bytes of a file that changes */

/* A file that changes, at storage; see fake_storage.c. */
struct fake_disk {
	uint8_t *bytes;                       /* NULL: it has not changed yet */
	uint8_t blocks[FAKE_DISK_MAX / 4096]; /* of each page: a bit for each that it has */
	uint32_t node;                        /* that has the claim, or 0 */
	uint64_t epoch;
	uint64_t writes, syncs; /* MS_WRITE served, and those with the flag */
	uint64_t holes_seen;    /* pages inside the size that begin with 0, after each MS_WRITE */
	int error;              /* MS_WRITE and MS_CHANGE end with it */
	uint64_t max_size;      /* bytes; 0: no limit but the fake's */
	bool removed;           /* the file has no name and no inode any more */
	uint64_t reserves;      /* MS_RESERVE served, */
	uint64_t privileged;    /* and those with the flag */
	uint64_t promised;      /* blocks */
	uint64_t unpromised;    /* blocks that were needed without a promise */
};

struct fake {
	struct memory mem[FAKE_MEM_MAX];
	size_t nr_mem;
	void *arena[FAKE_MEM_MAX];
	struct fake_file files[FAKE_MAX_FILES]; /* ino - 1 */
	struct fake_disk disks[FAKE_MAX_FILES];
	struct mutex disk_lock; /* RANK_FS: disks, and files that change */
	uint64_t epochs;
	bool room_known;
	uint64_t room;         /* blocks that are free, if that is known */
	uint32_t block_size;   /* bytes; 0: 4096 */
	uint32_t storage_life; /* the incarnation of the storage node */
	uint32_t declared;     /* that a node has declared its claims to */
	/* faults */
	uint16_t fail_opcode; /* calls with it fail while fail_after is 0; it counts down */
	int fail_after;
	int fail_error;
	bool fail_once;        /* only the first of them */
	bool fail_late;        /* the call is served, its answer is lost */
	uint16_t again_opcode; /* before the next call with it the storage node is started again */
	uint16_t hold_opcode;  /* the next call with it waits for @release; held: it does */
	uint32_t left_incarn;  /* requests of it come late: of FAKE_PROC, */
	uint32_t left_node;    /* or of this node */
	bool held, release;    /* atomic */
	uint32_t placed;       /* the processor that has FAKE_VNODE; 0: none */
	bool placements_unknown;
	int read_error;    /* MS_READ ends with it, */
	int read_errors;   /* only so many times; 0: each one */
	bool storage_away; /* for longer than anybody waits */
	bool read_async;   /* answered by a thread, */
	bool read_held;    /* once this is false; atomic */
	uint32_t reading;  /* such threads; atomic */
	int read_refused;  /* MS_READ cannot be sent */
	/* what processors answer to MP_OOM; NULL: they are down */
	int (*oom)(struct fake *f, uint32_t proc, const void *body, uint32_t len, void *reply);
	/* MP_REVOKE: the last one, to whom, how many, and what is answered */
	struct mp_revoke_req revoked;
	uint32_t revoked_by, nr_revokes;
	int revoke_error;
	uint32_t nr_lent;  /* extents, of all nodes */
	uint64_t seq;      /* atomic: the processor's write-backs */
	uint64_t nr_calls; /* atomic */
	uint64_t nr_reads; /* atomic */
	uint64_t nr_reports;
};

/* MS_CLAIM to MS_RELEASE: the reply's length or an errno. */
int fake_storage_serve(struct fake *f, uint32_t from, uint16_t opcode, const void *body,
		       uint32_t body_len, const uint8_t *data, uint32_t data_len, void *reply);
bool is_fake_storage(uint16_t opcode);
/* The storage node is started again: its record of claims is lost. */
void fake_storage_again(struct fake *f);
void fake_storage_stop(struct fake *f);
/* Wait until a call is held; false: none has come. */
bool fake_wait_held(struct fake *f);
/* Frames of an extent of the nodes that are started next; 1, so that tests can count frames. */
extern uint64_t fake_extent_pages;
/* @frames of each of @nr nodes; vRegions of 2^@shift bytes. */
void fake_start(struct fake *f, size_t nr, uint64_t frames, uint32_t shift);
/* Everything must have been given back: returns false, with a line on stderr, if not. */
bool fake_stop(struct fake *f);
struct memory *fake_node(struct fake *f, uint32_t node);
uint8_t fake_byte(uint64_t ino, uint64_t offset);

struct fake_owner {
	uint64_t index;
	uint32_t node;
};

/* A program's view, through a processor with a vRegion cache. */
struct fake_proc {
	struct fake *f;
	uint64_t aspace;
	uint32_t home;
	uint32_t proc;  /* FAKE_PROC, or as the test says */
	uint32_t vnode; /* the root, or as the test says */
	uint32_t shift;
	struct fake_owner *owners; /* by libc: allocation failures are not for the test itself */
	size_t nr_owners;
	uint64_t redirects;
};

void proc_init(struct fake_proc *p, struct fake *f, uint64_t aspace, uint32_t home);
void proc_done(struct fake_proc *p);
/* Make the space with nothing in it. */
int proc_space(struct fake_proc *p);
int proc_mmap(struct fake_proc *p, uint64_t addr, uint64_t len, uint32_t prot, uint32_t flags,
	      uint64_t *out);
int proc_munmap(struct fake_proc *p, uint64_t addr, uint64_t len);
int proc_mprotect(struct fake_proc *p, uint64_t addr, uint64_t len, uint32_t prot);
int proc_mremap(struct fake_proc *p, uint64_t addr, uint64_t old_len, uint64_t new_len,
		uint32_t flags, uint64_t new_addr, uint64_t *out);
int proc_brk(struct fake_proc *p, uint64_t brk, uint64_t *out);
/* The call @opcode (PM_MUNMAP, PM_MPROTECT) with a lease of @pages. */
int proc_range_lease(struct fake_proc *p, uint16_t opcode, uint64_t addr, uint64_t len,
		     uint32_t prot, uint32_t pages);
/* As proc_mmap() of writable memory, with a lease of @pages in its place: *@leased, it is. */
int proc_mmap_lease(struct fake_proc *p, uint64_t addr, uint64_t len, uint32_t pages, uint64_t *out,
		    bool *leased);
int proc_mmap_lease_at(struct fake_proc *p, uint64_t addr, uint64_t len, uint32_t pages,
		       uint32_t flags, uint64_t *out, bool *leased);
int proc_brk_lease(struct fake_proc *p, uint64_t brk, uint32_t pages, uint64_t *out);
/* Batch @number: *@done, how far it went. */
int proc_lease(struct fake_proc *p, uint64_t number, const struct pm_lease_range *ranges,
	       uint32_t nr, uint64_t *done);
int proc_destroy(struct fake_proc *p);
/* As proc_mmap(), of page @pgoff on of the object @object. */
int proc_mmap_object(struct fake_proc *p, uint64_t addr, uint64_t len, uint32_t prot,
		     uint32_t flags, uint64_t object, uint64_t pgoff, uint64_t *out);
/* @parent and @child are initialised with new ids; on success they know what @p knows. */
int proc_fork(struct fake_proc *p, struct fake_proc *parent, struct fake_proc *child);
/* The same, asking for @want credits: *@got. */
int proc_fork_credits(struct fake_proc *p, struct fake_proc *parent, struct fake_proc *child,
		      uint32_t want, uint32_t *got);
int proc_collapse(struct fake_proc *from, struct fake_proc *into,
		  const struct pm_page_range *ranges, uint32_t nr);
int proc_discard(struct fake_proc *p, const struct pm_page_range *ranges, uint32_t nr);
/* Make @p a page-only space. */
int proc_object(struct fake_proc *p, uint64_t len, uint32_t flags);
int proc_activate(struct fake_proc *p, uint64_t first, uint32_t count, uint32_t want,
		  uint32_t *got);
/* Report @hold credits and ask for @want: *@now are reserved. */
int proc_credit(struct fake_proc *p, uint32_t node, uint32_t hold, uint32_t want, uint32_t *now);
/* Result of the fetch (enum pm_fetch_result) or a negative errno; the page is copied to @data. */
int proc_fetch(struct fake_proc *p, uint64_t vaddr, bool write, void *data);
int proc_writeback(struct fake_proc *p, uint64_t vaddr, const void *data);
int proc_fill_vma(struct fake_proc *p, uint64_t vaddr, struct pm_vma *out);
/* Ask the home who owns the vRegion of @vaddr. */
int proc_refresh(struct fake_proc *p, uint64_t vaddr);
/* Fill a page so that it names itself. */
void page_stamp(void *data, uint64_t value);
/* The value, or UINT64_MAX when the page is torn. */
uint64_t page_value(const void *data);
