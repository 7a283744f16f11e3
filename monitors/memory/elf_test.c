/* SPDX-License-Identifier: MIT */
/*
 * ELF reader: what it accepts, and a table of headers that it refuses.
 */
#include "elf.h"

#include <lib/errno.h>
#include <lib/ktest.h>
#include <proto/pm.h>

#define EHDR_TYPE      16
#define EHDR_MACHINE   18
#define EHDR_ENTRY     24
#define EHDR_PHOFF     32
#define EHDR_PHENTSIZE 54
#define EHDR_PHNUM     56
#define PHDR(n)        (64 + 56 * (n))
#define P_FLAGS        4
#define P_OFFSET       8
#define P_VADDR        16
#define P_FILESZ       32
#define P_MEMSZ        40
#define P_ALIGN        48
#define INTERP_AT      (PHDR(4))

static uint8_t file[512];
static size_t file_len;
static int read_error;

static int file_read(void *arg, uint64_t offset, void *buf, uint32_t len)
{
	if (read_error)
		return read_error;
	if (offset >= file_len)
		return 0;
	len = (uint32_t)MIN((uint64_t)len, file_len - offset);
	memcpy(buf, file + offset, len);
	return (int)len;
}

static const struct elf_source src = { file_read, NULL };

static void put(size_t at, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		file[at + i] = (uint8_t)(value >> 8 * i);
}

static void put_phdr(size_t n, uint32_t type, uint32_t flags, uint64_t offset, uint64_t vaddr,
		     uint64_t filesz, uint64_t memsz)
{
	put(PHDR(n), type, 4);
	put(PHDR(n) + P_FLAGS, flags, 4);
	put(PHDR(n) + P_OFFSET, offset, 8);
	put(PHDR(n) + P_VADDR, vaddr, 8);
	put(PHDR(n) + P_FILESZ, filesz, 8);
	put(PHDR(n) + P_MEMSZ, memsz, 8);
	put(PHDR(n) + P_ALIGN, 0x1000, 8);
}

/* Interpreter, text, data with bss, stack. */
static void good(void)
{
	static const uint8_t ident[] = { 0x7f, 'E', 'L', 'F', 2, 1, 1 };

	memset(file, 0, sizeof(file));
	memcpy(file, ident, sizeof(ident));
	put(EHDR_TYPE, 3, 2);
	put(EHDR_MACHINE, 62, 2);
	put(20, 1, 4);
	put(EHDR_ENTRY, 0x1010, 8);
	put(EHDR_PHOFF, 64, 8);
	put(EHDR_PHENTSIZE, 56, 2);
	put(EHDR_PHNUM, 4, 2);
	put_phdr(0, 3, 4, INTERP_AT, 0, 8, 8);
	put_phdr(1, 1, 5, 0, 0, 0x1800, 0x1800);
	put_phdr(2, 1, 6, 0x1800, 0x2800, 0x900, 0x5000);
	put_phdr(3, 0x6474e551, 6, 0, 0, 0, 0);
	memcpy(file + INTERP_AT, "/lib/ld", 8);
	file_len = INTERP_AT + 8;
	read_error = 0;
}

static void program_is_understood(struct ktest *t)
{
	struct elf_image img;

	good();
	ASSERT_EQ(t, elf_read(&src, &img), 0);
	EXPECT_TRUE(t, img.dyn);
	EXPECT_EQ(t, img.entry, 0x1010);
	EXPECT_EQ(t, img.phnum, 4);
	EXPECT_TRUE(t, img.has_phdr);
	EXPECT_EQ(t, img.phdr, 64);
	EXPECT_FALSE(t, img.stack_x);
	EXPECT_EQ(t, img.start, 0);
	EXPECT_EQ(t, img.end, 0x8000);
	EXPECT_EQ(t, img.align, 0x1000);
	EXPECT_EQ(t, img.nr_segments, 2);
	EXPECT_EQ(t, img.segments[0].prot, PM_PROT_READ | PM_PROT_EXEC);
	EXPECT_EQ(t, img.segments[1].prot, PM_PROT_READ | PM_PROT_WRITE);
	EXPECT_EQ(t, img.segments[1].filesz, 0x900);
	EXPECT_STREQ(t, img.interp, "/lib/ld");
	elf_free(&img);

	put(EHDR_PHNUM, 3, 2); /* no word about the stack: executable */
	ASSERT_EQ(t, elf_read(&src, &img), 0);
	EXPECT_TRUE(t, img.stack_x);
	elf_free(&img);

	good();
	put(PHDR(1) + P_FILESZ, 100, 8); /* the headers are not mapped */
	ASSERT_EQ(t, elf_read(&src, &img), 0);
	EXPECT_FALSE(t, img.has_phdr);
	elf_free(&img);
}

static void bad_headers_are_refused(struct ktest *t)
{
	static const struct {
		uint16_t at;
		uint8_t size;
		uint64_t value;
	} cases[] = {
		{ 0, 1, 'x' },
		{ 3, 1, 'f' },
		{ 4, 1, 1 },              /* 32 bits */
		{ 5, 1, 2 },              /* big-endian */
		{ 6, 1, 0 },              /* version */
		{ EHDR_TYPE, 2, 1 },      /* an object file */
		{ EHDR_TYPE, 2, 4 },      /* a core dump */
		{ EHDR_MACHINE, 2, 3 },   /* i386 */
		{ EHDR_MACHINE, 2, 183 }, /* arm64 */
		{ 20, 4, 2 },             /* version */
		{ EHDR_ENTRY, 8, PM_USER_TOP },
		{ EHDR_PHOFF, 8, 400 }, /* beyond the end of the file */
		{ EHDR_PHOFF, 8, UINT64_MAX - 100 },
		{ EHDR_PHENTSIZE, 2, 32 },
		{ EHDR_PHENTSIZE, 2, 57 },
		{ EHDR_PHNUM, 2, 0 },
		{ EHDR_PHNUM, 2, 1 }, /* nothing to load */
		{ EHDR_PHNUM, 2, 0xffff },
		{ PHDR(0) + P_FILESZ, 8, 1 }, /* interpreter: only a NUL */
		{ PHDR(0) + P_FILESZ, 8, 7 }, /* not terminated */
		{ PHDR(0) + P_FILESZ, 8, 4097 },
		{ PHDR(0) + P_FILESZ, 8, 9 }, /* beyond the end of the file */
		{ PHDR(0) + P_OFFSET, 8, UINT64_MAX },
		{ INTERP_AT + 3, 1, 0 },           /* a NUL inside */
		{ PHDR(1) + P_FILESZ, 8, 0x1801 }, /* more in the file than in memory */
		{ PHDR(1) + P_MEMSZ, 8, 0x2001 },  /* reaches the next one's page */
		{ PHDR(1) + P_MEMSZ, 8, UINT64_MAX },
		{ PHDR(1) + P_OFFSET, 8, 1 }, /* not congruent */
		{ PHDR(1) + P_OFFSET, 8, 1ull << 63 },
		{ PHDR(2) + P_VADDR, 8, 0x1800 }, /* overlaps the one before */
		{ PHDR(2) + P_VADDR, 8, PM_USER_TOP - 0x800 },
		{ PHDR(2) + P_VADDR, 8, 0xfffffffffffff800 },
		{ PHDR(2) + P_VADDR, 8, 0x2801 },
	};
	struct elf_image img;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int err;

		good();
		put(cases[i].at, cases[i].value, cases[i].size);
		err = elf_read(&src, &img);
		if (err != -ENOEXEC)
			ktest_fail(t, __FILE__, __LINE__, "%#llx at %u: %d",
				   (unsigned long long)cases[i].value, cases[i].at, err);
		if (!err)
			elf_free(&img);
	}
}

static void every_length_is_refused_until_whole(struct ktest *t)
{
	struct elf_image img;

	good();
	for (size_t len = 0; len < INTERP_AT + 8; len++) {
		file_len = len;
		EXPECT_EQ(t, elf_read(&src, &img), -ENOEXEC);
	}
	read_error = -EIO;
	EXPECT_EQ(t, elf_read(&src, &img), -EIO);
}

static const struct ktest_case cases[] = {
	KTEST(program_is_understood),
	KTEST(bad_headers_are_refused),
	KTEST(every_length_is_refused_until_whole),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.elf", .cases = cases };
KTEST_SUITE(suite);
