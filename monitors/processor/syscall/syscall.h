/* SPDX-License-Identifier: MIT */
/*
 * System calls: the arguments, and the table that is generated from syscall.tbl.
 */
#pragma once

#include <arch/trap.h>
#include <generated/syscall_handlers.h> /* sys_*(): the prototypes */
#include <lib/compiler.h>
#include <lib/types.h>

#define SYSCALL_ARGS 6

struct syscall_entry {
	const char *name;
	syscall_fn fn;               /* NULL: ENOSYS, counted */
	uint8_t kinds[SYSCALL_ARGS]; /* enum strace_kind: how strace prints the arguments */
};

/* Indexed by number; generated. */
extern const struct syscall_entry syscall_table[];
extern const unsigned int syscall_table_len;

/*
 * System calls of watched tasks are told to <processor/process/trace.h> from the first begin to the
 * last end: until then none looks whether its task is watched.
 */
void syscall_watch_begin(void);
void syscall_watch_end(void);

/* The handlers by number, for struct user_trap_ops. Called once, before the first user thread. */
const syscall_fn *syscall_handlers(uint64_t *nr);
