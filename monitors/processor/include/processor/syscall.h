/* SPDX-License-Identifier: MIT */
/*
 * System calls: the arguments, and the table that is generated from syscall.tbl.
 */
#pragma once

#include <generated/syscall_handlers.h> /* sys_*(): the prototypes */
#include <lib/compiler.h>
#include <lib/types.h>

struct pt_regs;

struct syscall_args {
	uint64_t a[6];
	struct pt_regs *regs;
};

typedef long (*syscall_fn)(const struct syscall_args *args);

struct syscall_entry {
	const char *name;
	syscall_fn fn;    /* NULL: ENOSYS, counted */
	const char *args; /* one letter an argument: see syscall.tbl */
};

/* Indexed by number; generated. */
extern const struct syscall_entry syscall_table[];
extern const unsigned int syscall_table_len;

void syscall_enter(struct pt_regs *regs);
