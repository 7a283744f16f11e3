/* SPDX-License-Identifier: MIT */
/* Programs, and what they are told when they begin: Linux's <linux/elf.h>, <linux/auxvec.h>. */
#pragma once

#include <lib/byteorder.h>
#include <lib/compiler.h>

/* e_ident, and other fields of the header */
#define EI_CLASS    4
#define EI_DATA     5
#define EI_VERSION  6
#define ELFCLASS64  2
#define ELFDATA2LSB 1
#define EV_CURRENT  1
#define ET_EXEC     2
#define ET_DYN      3
#define ET_CORE     4
#define PN_XNUM     0xffffu
#define EM_X86_64   62

/* Segments */
#define PT_LOAD      0x1u
#define PT_INTERP    0x3u
#define PT_NOTE      0x4u
#define PT_PHDR      0x6u
#define PT_GNU_STACK 0x6474e551u
#define PF_X         0x1u
#define PF_W         0x2u
#define PF_R         0x4u

/* Notes of core dumps, and kinds of register sets of ptrace() */
#define NT_PRSTATUS   1
#define NT_PRFPREG    2
#define NT_PRPSINFO   3
#define NT_AUXV       6
#define NT_FILE       0x46494c45
#define NT_SIGINFO    0x53494749
#define NT_X86_XSTATE 0x202

/* The file's header, and one segment: little-endian on x86-64, in files and in memory. */
struct linux_elf64_hdr {
	uint8_t ident[16];
	le16_t type, machine;
	le32_t version;
	le64_t entry, phoff, shoff;
	le32_t flags;
	le16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
static_assert(sizeof(struct linux_elf64_hdr) == 64, "Elf64_Ehdr is ABI");

struct linux_elf64_phdr {
	le32_t type, flags;
	le64_t offset, vaddr, paddr, filesz, memsz, align;
};
static_assert(sizeof(struct linux_elf64_phdr) == 56, "Elf64_Phdr is ABI");

struct linux_elf64_shdr {
	le32_t name, type;
	le64_t flags, addr, offset, size;
	le32_t link, info;
	le64_t addralign, entsize;
};
static_assert(sizeof(struct linux_elf64_shdr) == 64, "Elf64_Shdr is ABI");

struct linux_elf64_nhdr {
	le32_t namesz, descsz, type;
};

/* The auxiliary vector */
#define AT_NULL              0
#define AT_PHDR              3
#define AT_PHENT             4
#define AT_PHNUM             5
#define AT_PAGESZ            6
#define AT_BASE              7
#define AT_FLAGS             8
#define AT_ENTRY             9
#define AT_UID               11
#define AT_EUID              12
#define AT_GID               13
#define AT_EGID              14
#define AT_PLATFORM          15
#define AT_HWCAP             16
#define AT_CLKTCK            17
#define AT_SECURE            23
#define AT_RANDOM            25
#define AT_HWCAP2            26
#define AT_RSEQ_FEATURE_SIZE 27
#define AT_RSEQ_ALIGN        28
#define AT_EXECFN            31
#define AT_SYSINFO_EHDR      33
#define AT_MINSIGSTKSZ       51
