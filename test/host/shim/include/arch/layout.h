/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <arch/layout.h>: "physical" memory is an arena mapped at a fixed address, so that
 * the kernel's own address arithmetic (frame.h, kmap.h) works unchanged.
 */
#pragma once

#define USER_BASE       0x0000000000010000ULL
#define USER_TOP        0x00007ffffffff000ULL
#define DIRECT_MAP_BASE 0x0000200000000000ULL /* frames.c maps the arena in here */
#define DIRECT_MAP_SIZE 0x0000100000000000ULL
#define VMALLOC_BASE    0xffffc90000000000ULL
#define VMALLOC_SIZE    0x0000008000000000ULL
#define VMALLOC_END     (VMALLOC_BASE + VMALLOC_SIZE)
#define KERNEL_BASE     0xffffffff80000000ULL
#define KERNEL_PHYS     0x0000000000200000ULL
