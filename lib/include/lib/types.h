/* SPDX-License-Identifier: MIT */
/*
 * Basic scalar types, and those that must not be mixed.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lib/compiler.h>

#ifdef __TESSERA_HOST__
# include <inttypes.h>
# include <sys/types.h>
#else
typedef int64_t ssize_t;
# define PRId64 "ld"
# define PRIu64 "lu"
# define PRIx64 "lx"
#endif

typedef uint64_t paddr_t; /* physical address */
typedef uint64_t vaddr_t; /* virtual address, of the kernel or of a program */
typedef uint64_t pfn_t;   /* physical address >> PAGE_SHIFT */

#define PAGE_SHIFT    12
#define PAGE_SIZE     4096UL
#define PAGE_MASK_LOW (PAGE_SIZE - 1) /* the offset bits of an address */
