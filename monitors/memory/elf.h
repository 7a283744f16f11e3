/* SPDX-License-Identifier: MIT */
/*
 * ELF64 programs for x86-64: read and check the headers.  Pure; every byte is taken as hostile.
 *
 * See:	System V ABI, chapters 4 and 5; the AMD64 supplement.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/*
 * Where the bytes come from: like pread, fewer bytes at the end of the file, or a negative errno.
 */
struct elf_source {
	int (*read)(void *arg, uint64_t offset, void *buf, uint32_t len);
	void *arg;
};

#define ELF_READ_MAX 4096u /* bytes that one read() is asked for */

struct elf_segment { /* PT_LOAD with a size in memory */
	uint64_t vaddr;
	uint64_t offset; /* in the file; congruent to vaddr modulo the page size if filesz > 0 */
	uint64_t filesz;
	uint64_t memsz; /* at least filesz, not 0 */
	uint32_t prot;  /* enum pm_prot */
};

struct elf_image {
	bool dyn; /* ET_DYN: may be put anywhere */
	uint64_t entry;
	uint16_t phnum;
	uint16_t phentsize;
	bool has_phdr;  /* the program headers are part of a segment */
	uint64_t phdr;  /* their address, if so */
	bool stack_x;   /* PT_GNU_STACK asks for an executable stack, or is missing */
	uint64_t align; /* largest alignment asked for; a power of two, at least a page */
	uint64_t start; /* page aligned bounds of all segments */
	uint64_t end;
	uint32_t nr_segments; /* at least one; ascending, no two on one page */
	struct elf_segment *segments;
	char *interp; /* PT_INTERP, NUL-terminated; NULL = none */
};

/*
 * -ENOEXEC for whatever is wrong with the file, -ENOMEM, or what the source answered.  On success
 * elf_free() is due.
 */
int elf_read(const struct elf_source *src, struct elf_image *out) __must_check;
void elf_free(struct elf_image *img);
