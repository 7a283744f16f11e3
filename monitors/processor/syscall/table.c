/* SPDX-License-Identifier: MIT */
/* The system call table, made from syscall.tbl by scripts/gen-syscalls.py. */
#include "strace_private.h"

#include <generated/syscall_table.h>
