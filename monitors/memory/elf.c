/* SPDX-License-Identifier: MIT */
/*
 * ELF64 programs: read and check the headers.
 *
 * Flow:	check the identification, type, machine, sizes and counts; then each segment:
 *		sizes, overflow, place below the end of user space, file offset congruent to the
 *		address, order, no page shared with another segment; then PT_INTERP: length,
 *		terminator, no NUL within.
 * Limits:	a file that is shorter than its segments say is accepted. As in Linux, such a
 *		program runs until it touches a page that is not there.
 */
#include "elf.h"

#include <abi/elf.h>
#include <lib/alloc.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <proto/pm.h>
#include <proto/types.h>

#define PHNUM_MAX 1170 /* as in Linux: the table fits 64 KiB */
#define ALIGN_MAX (1ull << 30)

/* All @len bytes, or -ENOEXEC when the file ends before. */
static int read_all(const struct elf_source *src, uint64_t offset, void *buf, uint64_t len)
{
	uint8_t *pos = buf;

	if (offset > INT64_MAX || len > INT64_MAX - offset)
		return -ENOEXEC;
	while (len) {
		const int n = src->read(src->arg, offset, pos,
					(uint32_t)MIN(len, (uint64_t)ELF_READ_MAX));

		if (n < 0)
			return n;
		if (!n || (uint64_t)n > len)
			return -ENOEXEC;
		pos += n;
		offset += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

static bool ehdr_is_valid(const struct linux_elf64_hdr *eh)
{
	static const uint8_t magic[4] = { 0x7f, 'E', 'L', 'F' };
	const uint16_t type = le16_to_cpu(eh->type);
	const uint16_t phnum = le16_to_cpu(eh->phnum);

	if (memcmp(eh->ident, magic, sizeof(magic)) || eh->ident[EI_CLASS] != ELFCLASS64 ||
	    eh->ident[EI_DATA] != ELFDATA2LSB || eh->ident[EI_VERSION] != EV_CURRENT)
		return false;
	if ((type != ET_EXEC && type != ET_DYN) || le16_to_cpu(eh->machine) != EM_X86_64 ||
	    le32_to_cpu(eh->version) != EV_CURRENT)
		return false;
	return le16_to_cpu(eh->phentsize) == sizeof(struct linux_elf64_phdr) && phnum &&
	       phnum <= PHNUM_MAX && le64_to_cpu(eh->entry) < PM_USER_TOP;
}

static uint32_t segment_prot(uint32_t flags)
{
	return (flags & PF_R ? PM_PROT_READ : 0u) | (flags & PF_W ? PM_PROT_WRITE : 0u) |
	       (flags & PF_X ? PM_PROT_EXEC : 0u);
}

static bool segment_is_valid(const struct elf_segment *s)
{
	if (s->filesz > s->memsz || s->memsz > PM_USER_TOP || s->vaddr > PM_USER_TOP - s->memsz)
		return false;
	if (s->vaddr + s->memsz > ALIGN_DOWN(PM_USER_TOP, PAGE_SIZE))
		return false;
	if (s->offset > INT64_MAX || s->filesz > INT64_MAX - s->offset)
		return false;
	return !s->filesz || !((s->offset ^ s->vaddr) & PAGE_MASK_LOW);
}

static int load_segment(const struct linux_elf64_phdr *ph, struct elf_image *img)
{
	struct elf_segment *s = &img->segments[img->nr_segments];
	const uint64_t align = le64_to_cpu(ph->align);

	s->vaddr = le64_to_cpu(ph->vaddr);
	s->offset = le64_to_cpu(ph->offset);
	s->filesz = le64_to_cpu(ph->filesz);
	s->memsz = le64_to_cpu(ph->memsz);
	s->prot = segment_prot(le32_to_cpu(ph->flags));
	if (!segment_is_valid(s))
		return -ENOEXEC;
	if (!s->memsz)
		return 0;
	if (img->nr_segments && ALIGN_DOWN(s->vaddr, PAGE_SIZE) < img->end)
		return -ENOEXEC;
	if (!img->nr_segments)
		img->start = ALIGN_DOWN(s->vaddr, PAGE_SIZE);
	img->end = ALIGN_UP(s->vaddr + s->memsz, PAGE_SIZE);
	if (IS_POWER_OF_2(align) && align <= ALIGN_MAX)
		img->align = MAX(img->align, align);
	img->nr_segments++;
	return 0;
}

static int load_interp(const struct elf_source *src, const struct linux_elf64_phdr *ph,
		       struct elf_image *img)
{
	const uint64_t len = le64_to_cpu(ph->filesz);
	int err;

	if (img->interp)
		return 0; /* as in Linux, the first one counts */
	if (len < 2 || len > PROTO_PATH_MAX)
		return -ENOEXEC;
	img->interp = lib_alloc(len);
	if (!img->interp)
		return -ENOMEM;
	err = read_all(src, le64_to_cpu(ph->offset), img->interp, len);
	if (!err && strnlen(img->interp, len) != len - 1)
		err = -ENOEXEC;
	return err;
}

static int load_phdr(const struct elf_source *src, const struct linux_elf64_phdr *ph,
		     struct elf_image *img)
{
	switch (le32_to_cpu(ph->type)) {
	case PT_LOAD:
		return load_segment(ph, img);
	case PT_INTERP:
		return load_interp(src, ph, img);
	case PT_GNU_STACK:
		img->stack_x = le32_to_cpu(ph->flags) & PF_X;
		return 0;
	default:
		return 0;
	}
}

/* Where the program headers will be in memory: in the segment that holds their part of the file. */
static void find_phdr(uint64_t phoff, struct elf_image *img)
{
	const uint64_t len = (uint64_t)img->phnum * sizeof(struct linux_elf64_phdr);

	for (uint32_t i = 0; i < img->nr_segments; i++) {
		const struct elf_segment *s = &img->segments[i];

		if (phoff < s->offset || phoff - s->offset > s->filesz ||
		    len > s->filesz - (phoff - s->offset))
			continue;
		img->has_phdr = true;
		img->phdr = s->vaddr + (phoff - s->offset);
		return;
	}
}

static int read_phdrs(const struct elf_source *src, uint64_t phoff, struct elf_image *img)
{
	const uint64_t len = (uint64_t)img->phnum * sizeof(struct linux_elf64_phdr);
	struct linux_elf64_phdr *table = lib_alloc(len);
	int err = -ENOMEM;

	img->segments = lib_zalloc(img->phnum * sizeof(*img->segments));
	if (table && img->segments)
		err = read_all(src, phoff, table, len);
	for (uint16_t i = 0; i < img->phnum && !err; i++)
		err = load_phdr(src, &table[i], img);
	lib_free(table);
	if (!err && !img->nr_segments)
		err = -ENOEXEC;
	return err;
}

int elf_read(const struct elf_source *src, struct elf_image *out)
{
	struct elf_image img = { .stack_x = true, .align = PAGE_SIZE };
	struct linux_elf64_hdr eh;
	int err;

	err = read_all(src, 0, &eh, sizeof(eh));
	if (err)
		return err;
	if (!ehdr_is_valid(&eh))
		return -ENOEXEC;
	img.dyn = le16_to_cpu(eh.type) == ET_DYN;
	img.entry = le64_to_cpu(eh.entry);
	img.phnum = le16_to_cpu(eh.phnum);
	img.phentsize = le16_to_cpu(eh.phentsize);
	err = read_phdrs(src, le64_to_cpu(eh.phoff), &img);
	if (err) {
		elf_free(&img);
		return err;
	}
	find_phdr(le64_to_cpu(eh.phoff), &img);
	*out = img;
	return 0;
}

void elf_free(struct elf_image *img)
{
	lib_free(img->segments);
	lib_free(img->interp);
	img->segments = NULL;
	img->interp = NULL;
}
