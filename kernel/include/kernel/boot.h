/* SPDX-License-Identifier: MIT */
/*
 * The facts that the boot protocol handed over; constant after arch start-up.
 */
#pragma once

#include <lib/types.h>

#define BOOT_MEM_MAX      128u
#define BOOT_MEM_RAM      1u
#define BOOT_MEM_RESERVED 2u
#define BOOT_MEM_ACPI     3u
#define BOOT_MEM_NVS      4u
#define BOOT_MEM_BAD      5u

struct boot_mem {
	paddr_t base;
	uint64_t size;
	uint32_t type; /* BOOT_MEM_*; an unknown type counts as reserved */
};

struct boot_info {
	const char *protocol; /* "PVH" or "Multiboot2" */
	char cmdline[4096];
	paddr_t rsdp;          /* 0: none given */
	uint8_t rsdp_copy[36]; /* Multiboot2: rsdp points here */
	unsigned int nr_mem;
	struct boot_mem mem[BOOT_MEM_MAX]; /* sorted, not overlapping */
};
extern struct boot_info boot_info;

/* First C function with the final page tables and per-CPU base; by arch start-up. */
void kernel_main(void) __attribute__((noreturn));

/* stack_protector.c: choose the stack canary, in a function that never returns. */
void stack_protector_init(void);
