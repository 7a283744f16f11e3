/* SPDX-License-Identifier: MIT */
/*
 * Virtual address layout: the one place that knows which part of the
 * address space holds what.  Also included by assembly and the linker script.
 * See docs/design/boot.md.
 */
#pragma once

#ifdef __ASSEMBLER__
# define LAYOUT_UL(x) x
#else
# define LAYOUT_UL(x) x##UL
#endif

#define USER_BASE       LAYOUT_UL(0x0000000000010000) /* lowest address user code may map */
#define USER_TOP        LAYOUT_UL(0x00007ffffffff000) /* first address past user space */
#define DIRECT_MAP_BASE LAYOUT_UL(0xffff888000000000) /* all RAM, read-write, no-execute */
#define DIRECT_MAP_SIZE LAYOUT_UL(0x0000400000000000) /* 64 TiB */
#define VMALLOC_BASE    LAYOUT_UL(0xffffc90000000000) /* vmalloc, thread stacks, MMIO */
#define VMALLOC_SIZE    LAYOUT_UL(0x0000008000000000) /* 512 GiB: one level-4 entry */
#define VMALLOC_END     (VMALLOC_BASE + VMALLOC_SIZE)
#define KERNEL_BASE     LAYOUT_UL(0xffffffff80000000) /* image: virtual = physical + this */
#define KERNEL_PHYS     LAYOUT_UL(0x0000000000200000) /* where the image is loaded */
