/* SPDX-License-Identifier: MIT */
/* The system call table, made from syscall.tbl by scripts/gen-syscalls.py. */
#include "strace_kinds.h"

#include <generated/syscall_table.h>
