/* SPDX-License-Identifier: MIT */
/*
 * Requests of the processor monitor to memory nodes, one function each.
 *
 * Context:	all sleep for a reply; no lock but aspace.map_lock may be held.
 * Failure:	the peer's errno, or -EHOSTDOWN, -ETIMEDOUT, -ESTALE; a malformed reply is -EPROTO.
 */
#pragma once

#include <fs/access.h>
#include <lib/compiler.h>
#include <processor/client/file_attr.h>

#include "aspace.h"

/* --- the home of an address space ---------------------------------------------------- */

#define EXEC_HEAD_MAX 4096

/* A program: a file, or a shared object and how it begins. */
struct exec_program {
	const struct file_attr *attr; /* of the file, as just looked up; NULL: the object */
	const struct object *object;
	uint32_t storage;    /* node that its interpreter is looked up at; 0 for a file */
	const uint8_t *head; /* up to EXEC_HEAD_MAX bytes */
	uint32_t head_len;
	const char *interp; /* its path in the file system of @storage; NULL: as PT_INTERP says */
};

/* A program in its new space. */
struct program_layout {
	vaddr_t entry;       /* where to start: the interpreter's if there is one */
	vaddr_t prog_entry;  /* AT_ENTRY */
	vaddr_t phdr;        /* AT_PHDR; 0: not mapped */
	vaddr_t interp_base; /* AT_BASE; 0: no interpreter */
	uint16_t phent, phnum;
	vaddr_t brk_start; /* page aligned */
	vaddr_t stack_top; /* exclusive, page aligned */
	vaddr_t stack_bottom;
	vaddr_t code_start, code_end, data_start, data_end;
};

/* Load @prog into @as, and take over the layout that the home made. */
int remote_exec(struct aspace *as, const struct exec_program *prog, const struct fs_cred *cred,
		uint64_t stack_size, uint64_t random_seed, struct program_layout *layout)
	__must_check;

enum map_flags {
	MAPPING_FIXED = 1 << 0,           /* replaces what is there */
	MAPPING_FIXED_NOREPLACE = 1 << 1, /* -EEXIST instead */
	MAPPING_SHARED = 1 << 2,
	MAPPING_STACK = 1 << 3,
	MAPPING_NORESERVE = 1 << 4,
	MAPPING_LOW = 1 << 5,       /* below 2 GB */
	MAPPING_READ_ONLY = 1 << 6, /* MAPPING_SHARED: see VMA_READ_ONLY */
	MAPPING_GROWS = 1 << 7,     /* down, by faults below it */
};

/* A new mapping. */
struct map_request {
	vaddr_t addr;                /* 0: anywhere; without a FIXED flag a hint */
	uint64_t len;                /* whole pages */
	struct object *object;       /* what it shows; NULL: private memory */
	struct attachable *attached; /* told of the mapping; NULL: nothing is (attach.h) */
	uint64_t pgoff;              /* page of the object at its start */
	uint32_t prot;               /* enum vma_prot */
	uint32_t flags;              /* enum map_flags */
	uint32_t lease_pages;        /* to be leased in its place; 0: none */
	bool locks;                  /* MAP_LOCKED; after the call: it has been locked */
	bool counted;                /* the limits of the process allow it (expand.h) */
	bool moves;     /* of an mremap, whose locks come with locked_move(): no others */
	bool write_map; /* of the caller: write_map_end() is due */
};

struct lease_part; /* lease.h */

enum move_flags {
	MOVE_MAY = 1 << 0,   /* to another address */
	MOVE_FIXED = 1 << 1, /* to new_addr; with MOVE_MAY */
};

/* A mapping that gets another length, another place, or both. */
struct move_request {
	vaddr_t old_addr;
	uint64_t old_len;
	uint64_t new_len;
	vaddr_t new_addr; /* 0 without MOVE_FIXED */
	uint32_t flags;   /* enum move_flags */
};

/*
 * On success *addr is where the mapping is, and the copies are up to date. -EIDRM (MAPPING_FIXED,
 * MOVE_FIXED): what was there has been unmapped, and there was no memory for what was to come.
 * *leased: instead of the mapping a lease has been made, and no copy of a vma; empty: not.
 */
int remote_mmap(struct aspace *as, const struct map_request *req, vaddr_t *addr,
		struct lease_part *leased) __must_check;
int remote_munmap(struct aspace *as, vaddr_t start, uint64_t len) __must_check;
int remote_mprotect(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot) __must_check;
/* The same; *leased: [start, +lease_len) is a lease now, and no copy of a vma has come. */
int remote_mprotect_lease(struct aspace *as, vaddr_t start, uint64_t len, uint32_t prot,
			  uint64_t lease_len, struct lease_part *leased) __must_check;
int remote_mremap(struct aspace *as, const struct move_request *req, vaddr_t *addr) __must_check;
/* *brk: what holds now, changed or not. */
int remote_brk(struct aspace *as, vaddr_t want, vaddr_t *brk) __must_check;
/*
 * Batch @number: what has become of parts of leases, 1 to LEASE_BATCH of them. *done: of those that
 * end there or before it, the home knows.
 */
#define LEASE_BATCH 128
int remote_lease(struct aspace *as, uint64_t number, const struct lease_part *parts, uint32_t nr,
		 vaddr_t *done) __must_check;
/* --- owners -------------------------------------------------------------------------- */

/*
 * The vma at @addr into the copy, if the layout is still at @seq (SEQ_ANY: the caller has
 * map_lock): else -EAGAIN. -EFAULT: there is none.
 */
int remote_fill_vma(struct aspace *as, vaddr_t addr, uint64_t seq) __must_check;
