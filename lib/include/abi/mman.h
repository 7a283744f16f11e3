/* SPDX-License-Identifier: MIT */
/* Memory: Linux's <asm/mman.h>, <linux/mman.h>, <linux/memfd.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

/* mmap(), mprotect() */
#define PROT_NONE      0x0u
#define PROT_READ      0x1u
#define PROT_WRITE     0x2u
#define PROT_EXEC      0x4u
#define PROT_SEM       0x8u
#define PROT_GROWSDOWN 0x1000000u
#define PROT_GROWSUP   0x2000000u

#define MAP_SHARED          0x1u
#define MAP_PRIVATE         0x2u
#define MAP_SHARED_VALIDATE 0x3u
#define MAP_TYPE            0xfu
#define MAP_FIXED           0x10u
#define MAP_ANONYMOUS       0x20u
#define MAP_32BIT           0x40u
#define MAP_GROWSDOWN       0x100u
#define MAP_DENYWRITE       0x800u
#define MAP_EXECUTABLE      0x1000u
#define MAP_LOCKED          0x2000u
#define MAP_NORESERVE       0x4000u
#define MAP_POPULATE        0x8000u
#define MAP_NONBLOCK        0x10000u
#define MAP_STACK           0x20000u
#define MAP_HUGETLB         0x40000u
#define MAP_SYNC            0x80000u
#define MAP_FIXED_NOREPLACE 0x100000u
#define MAP_HUGE_SHIFT      26u /* with MAP_HUGETLB: where the size is */
#define MAP_HUGE_MASK       0x3fu

/* mremap(), msync() */
#define MREMAP_MAYMOVE   1u
#define MREMAP_FIXED     2u
#define MREMAP_DONTUNMAP 4u
#define MS_ASYNC         1u
#define MS_INVALIDATE    2u
#define MS_SYNC          4u

/* madvise() */
#define MADV_NORMAL          0
#define MADV_RANDOM          1
#define MADV_SEQUENTIAL      2
#define MADV_WILLNEED        3
#define MADV_DONTNEED        4
#define MADV_FREE            8
#define MADV_REMOVE          9
#define MADV_DONTFORK        10
#define MADV_DOFORK          11
#define MADV_MERGEABLE       12
#define MADV_UNMERGEABLE     13
#define MADV_HUGEPAGE        14
#define MADV_NOHUGEPAGE      15
#define MADV_DONTDUMP        16
#define MADV_DODUMP          17
#define MADV_WIPEONFORK      18
#define MADV_KEEPONFORK      19
#define MADV_COLD            20
#define MADV_PAGEOUT         21
#define MADV_POPULATE_READ   22
#define MADV_POPULATE_WRITE  23
#define MADV_DONTNEED_LOCKED 24
#define MADV_COLLAPSE        25
#define MADV_GUARD_INSTALL   102
#define MADV_GUARD_REMOVE    103

/* mlock2(), mlockall() */
#define MLOCK_ONFAULT 1u
#define MCL_CURRENT   1u
#define MCL_FUTURE    2u
#define MCL_ONFAULT   4u

/* memfd_create() */
#define MFD_CLOEXEC       0x1u
#define MFD_ALLOW_SEALING 0x2u
#define MFD_HUGETLB       0x4u
#define MFD_NOEXEC_SEAL   0x8u
#define MFD_EXEC          0x10u

/* cachestat() */
struct linux_cachestat_range { /* bytes; no length: up to the end */
	uint64_t off, len;
};
struct linux_cachestat { /* pages */
	uint64_t nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted;
};
static_assert(sizeof(struct linux_cachestat) == 40, "struct cachestat is ABI");
