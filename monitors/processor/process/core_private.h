/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files that write core files.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <processor/excache/page_bits.h>
#include <processor/mm/aspace.h>

struct file;
struct linux_siginfo;
struct process;
struct task;

/* --- core_notes.c ---------------------------------------------------------------------- */

struct core_buf { /* grows; sticky error */
	uint8_t *data;
	size_t len, size;
	int err;
};

/* A mapping, and how much of it the file shows. */
struct core_segment {
	struct vma vma;   /* holds its object */
	uint64_t in_file; /* bytes, whole pages */
	bool pages;       /* only those that are there: holes for the others */
};

struct core_map {
	struct core_segment *segments;
	size_t nr, size;
};

/*
 * All notes: of the calling task first, then of the others, which stand still. The caller looks at
 * out->err, and frees out->data.
 */
void core_notes(struct core_buf *out, struct process *p, const struct linux_siginfo *info,
		const struct core_map *map);

/* --- core_memory.c --------------------------------------------------------------------- */

struct core_out {
	struct file *f;
	uint64_t pos;     /* in the file */
	uint64_t written; /* bytes, holes left out */
	uint64_t limit;   /* RLIMIT_CORE */
};

/* -EFBIG: the limit; -EINTR: the task is to be killed; else what the file answers. */
int core_write(struct core_out *o, const void *data, size_t len) __must_check;
/*
 * The mappings of @as, and how much of each is shown, by @filter. core_map_free() whatever it
 * answers.
 */
int core_map_make(struct core_map *map, struct aspace *as, uint32_t filter,
		  struct page_bits *private_pages) __must_check;
void core_map_free(struct core_map *map);
/* The bytes of @seg, at o->pos, which moves behind them. */
int core_write_segment(struct core_out *o, struct aspace *as, const struct core_segment *seg,
		       const struct page_bits *private_pages, uint8_t *buf) __must_check;
#define CORE_BATCH (16u * PAGE_SIZE) /* size of buf */
